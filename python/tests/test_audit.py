"""An audit against NumPy, scikit-learn and fairlearn, each where it is installed: every rate, gap and interval, with 3 % to 97 %
positives, rare groups, ties, text and numeric codes; and what its result offers to notebooks."""

import re

import numpy as np
import pytest

import circe

SHARES = [0.03, 0.3, 0.5, 0.9, 0.97]


def people(positives, codes=False, n=1500, seed=0):
    draw = np.random.default_rng(seed)
    group = draw.choice(3, n, p=[0.55, 0.43, 0.02])
    y = (draw.random(n) < positives).astype(float)
    score = np.clip(np.round(0.4 + 0.25 * y + 0.1 * group + 0.15 * draw.normal(size=n), 2), 0, 1)
    return {"y": y, "score": score, "group": group if codes else np.array(["a", "b", "rare"], dtype=object)[group]}


def audit(table, **options):
    return circe.audit(table, prediction="score", target="y", sensitive="group", calibrate=0, **options)


def rates(y, score):
    """As counts, with nothing of the library's."""
    said, yes = score >= 0.5, y == 1
    share = lambda part, whole: part.sum() / whole.sum() if whole.sum() else np.nan
    above, below = score[yes][:, None], score[~yes][None, :]
    return {"selection_rate": said.mean(), "true_positive_rate": share(said & yes, yes),
            "false_positive_rate": share(said & ~yes, ~yes), "precision": share(said & yes, said),
            "negative_predictive_value": share(~said & ~yes, ~said), "accuracy": (said == yes).mean(),
            "auc": ((above > below) + 0.5 * (above == below)).mean() if above.size and below.size else np.nan,
            "mean_outcome": y.mean(), "mean_prediction": score.mean(), "mean_error": (score - y).mean(),
            "root_mean_square_error": np.sqrt(((score - y) ** 2).mean())}


def same(found, wanted):
    return np.isnan(wanted) if found is None else found == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("positives", SHARES)
@pytest.mark.parametrize("codes", [False, True])
def test_every_rate_and_gap(positives, codes):
    table = people(positives, codes)
    found = audit(table).findings[0]
    groups = {label: rates(table["y"][table["group"].astype(str) == label], table["score"][table["group"].astype(str) == label])
              for label in found.groups["labels"]}
    for name, one in found.groups["metrics"].items():
        for i, label in enumerate(found.groups["labels"]):
            assert same(one["value"][i], groups[label][name]), (name, label)
    large = [label for label, compared in zip(found.groups["labels"], found.groups["compared"]) if compared]
    assert len(large) == 2
    for name in ("true positive rate", "false positive rate", "selection rate", "precision"):
        values = [groups[label][name.replace(" ", "_")] for label in large]
        gap = next(g for g in found.gaps if g["of"] == name)
        assert gap["gap"] == pytest.approx(max(values) - min(values), abs=1e-12)
        assert gap["high"] == large[int(np.argmax(values))] or values[0] == values[1]


BOOLEANS = {"numpy": lambda v: v, "list": lambda v: v.tolist(), "objects": lambda v: v.astype(object)}


@pytest.mark.parametrize("kind", BOOLEANS)
def test_booleans_are_called_false_and_true(kind):
    table = people(0.4)
    yes, second = table["y"] == 1, table["group"] == "b"
    truth, member, said = (BOOLEANS[kind](v) for v in (yes, second, table["score"] >= 0.5))
    columns = {"y": truth, "score": table["score"], "said": said, "member": member}
    numbers = {"y": yes * 1.0, "score": table["score"], "said": (table["score"] >= 0.5) * 1.0, "member": second * 1.0}
    options = dict(prediction=["score", "said"], target="y", sensitive="member", calibrate=0)
    found, plain = circe.audit(columns, **options), circe.audit(numbers, **options)
    assert found.results["positive"] == "True" and plain.results["positive"] == "1"
    for one, other in zip(found.findings, plain.findings):
        assert one.groups["labels"] == ["False", "True"] and other.groups["labels"] == ["0", "1"]
        assert one.groups["metrics"] == other.groups["metrics"]
        gap = next(g for g in one.gaps if g["of"] == "true positive rate")
        assert (gap["high"], gap["low"]) == ("True", "False") and re.search(r"The true positive rate is 0\.\d+ in True and 0\.\d+ in False, a difference of", one.verdict)
    for positive in ("False", "0"):
        turned = circe.audit(columns, **{**options, "prediction": "said"}, positive=positive)
        assert turned.results["positive"] == "False"
        assert turned.findings[0].groups["metrics"]["true_positive_rate"]["value"] == pytest.approx(
            [1 - rate for rate in found.findings[1].groups["metrics"]["false_positive_rate"]["value"]], abs=1e-12)


def test_warnings_name_pythons_options():
    table = people(0.4, n=300)
    with pytest.warns(circe.JobWarning, match="is positive right"):
        found = audit({**table, "score": 1 - table["score"]})
    assert any("is positive right" in text for text in found.warnings) and not any("--" in text for text in found.warnings)


def test_booleans_of_frames():
    pandas = pytest.importorskip("pandas")
    table = people(0.4)
    frame = pandas.DataFrame({"y": table["y"] == 1, "score": table["score"],
                              "group": pandas.array(np.where(table["group"] == "b", True, False), dtype="boolean")})
    frame.loc[3, "group"] = pandas.NA
    found = audit(frame, missing="drop")
    assert (found.n, found.dropped) == (1499, 1) and found.findings[0].groups["labels"] == ["False", "True"]


def test_frame_with_other_categoricals():
    """Columns of categories that a job does not use are no obstacle."""
    pandas = pytest.importorskip("pandas")
    table = people(0.5)
    frame = pandas.DataFrame(table).assign(group=pandas.Categorical(table["group"]), other=pandas.Categorical(table["y"]))
    assert audit(frame).findings[0].groups["rows"] == audit(table).findings[0].groups["rows"]
    circe.train(frame, features="score", target="y", invariant_to="group", gamma=1, epochs=1)
    with pytest.raises(circe.ArgumentError, match="'othr' is not one of the columns in use"):
        audit(frame, categories=["othr"])


def test_intervals():
    """Against a bootstrap of our own: 1,000 draws each, so an end is known to about a tenth of the half width."""
    table, draw = people(0.4), np.random.default_rng(1)
    found = audit(table).findings[0]
    masks = [table["group"] == label for label in found.groups["labels"][:2]]
    names, drawn = ("true_positive_rate", "precision", "mean_error", "auc"), []
    n = len(table["y"])
    for _ in range(1000):
        rows = draw.integers(n, size=n)
        drawn.append([[rates(table["y"][rows][m[rows]], table["score"][rows][m[rows]])[k] for k in names] for m in masks])
    low, high = np.quantile(np.array(drawn), [0.025, 0.975], axis=0)
    for k, name in enumerate(names):
        one = found.groups["metrics"][name]
        for i in range(2):
            width = high[i, k] - low[i, k]
            assert one["lower"][i] == pytest.approx(low[i, k], abs=0.15 * width), name
            assert one["upper"][i] == pytest.approx(high[i, k], abs=0.15 * width), name
    gap = next(g for g in found.gaps if g["of"] == "true positive rate")
    sign = 1 if found.groups["labels"][0] == gap["high"] else -1
    low, high = np.quantile(sign * (np.array(drawn)[:, 0, 0] - np.array(drawn)[:, 1, 0]), [0.025, 0.975])
    assert [gap["lower"], gap["upper"]] == pytest.approx([low, high], abs=0.15 * (high - low))


def test_gaps_by_chance():
    """Against shuffles of our own, within every outcome: of 200, the mean is known to 7 % of the spread."""
    table, draw = people(0.3), np.random.default_rng(4)
    found = audit(table).findings[0]
    keep = table["group"] != "rare"
    y, said, group = table["y"][keep], table["score"][keep] >= 0.5, table["group"][keep] == "a"
    for name, outcome in (("true positive rate", 1), ("false positive rate", 0)):
        rows, g = said[y == outcome], group[y == outcome]
        drawn = []
        for _ in range(2000):
            g = draw.permutation(g)
            drawn.append(abs(rows[g].mean() - rows[~g].mean()))
        gap = next(gap for gap in found.gaps if gap["of"] == name)
        assert gap["chance"] == pytest.approx(np.mean(drawn), abs=0.3 * np.std(drawn))
        assert gap["chance_upper"] == pytest.approx(np.quantile(drawn, 0.95), abs=0.6 * np.std(drawn))


@pytest.mark.parametrize("positives", SHARES)
def test_scikit_learn(positives):
    metrics = pytest.importorskip("sklearn.metrics")
    table = people(positives, seed=2)
    found = audit(table).quality[0]
    said = table["score"] >= 0.5
    wanted = {"auc": metrics.roc_auc_score(table["y"], table["score"]), "accuracy": metrics.accuracy_score(table["y"], said),
              "precision": metrics.precision_score(table["y"], said), "true_positive_rate": metrics.recall_score(table["y"], said)}
    for name, value in wanted.items():
        assert found[name]["value"] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("positives", SHARES)
def test_fairlearn(positives):
    """MetricFrame.by_group, overall and difference; equalised odds and demographic parity."""
    fairlearn = pytest.importorskip("fairlearn.metrics")
    table = people(positives, seed=3)
    y, said, keep = table["y"], (table["score"] >= 0.5).astype(int), table["group"] != "rare"
    functions = {"selection_rate": fairlearn.selection_rate, "true_positive_rate": fairlearn.true_positive_rate,
                 "false_positive_rate": fairlearn.false_positive_rate}
    frame = fairlearn.MetricFrame(metrics=functions, y_true=y, y_pred=said, sensitive_features=table["group"])
    found = audit(table, notion="all")
    for name in functions:
        for label, value in frame.by_group[name].items():
            mine = found.groups.loc[("score", "group", label), name]
            if np.isnan(mine):  # there are no such rows: fairlearn says 0
                assert value == 0 and not (y[table["group"] == label] == (name == "true_positive_rate")).any()
            else:
                assert mine == pytest.approx(value, abs=1e-12)
        assert found.overall.loc["score", name] == pytest.approx(frame.overall[name], abs=1e-12)
    large = dict(y_true=y[keep], y_pred=said[keep], sensitive_features=table["group"][keep])
    gap = found.gaps.set_index(["notion", "of"])["gap"]
    odds = max(gap["separation", "true positive rate"], gap["separation", "false positive rate"])
    assert odds == pytest.approx(fairlearn.equalized_odds_difference(**large), abs=1e-12)
    assert gap["independence", "selection rate"] == pytest.approx(fairlearn.demographic_parity_difference(**large), abs=1e-12)


def test_frames():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(people(0.4))
    table["other"] = 1 - table["score"]
    found = circe.audit(table, prediction=["score", "other"], target="y", sensitive=["group"], notion="all", calibrate=0)
    assert list(found.to_pandas()["notion"]) == [n for n in ("separation", "independence", "sufficiency") for _ in range(2)]
    assert found.groups.shape[0] == 2 * 3 and {"auc", "auc_lower", "auc_upper", "rows"} <= set(found.groups)
    assert set(found.gaps["notion"]) == {"separation", "independence", "sufficiency"}
    assert list(found.overall.index) == ["score", "other"]
    assert (found.to_pandas()["kpc"] <= 1).all()


def test_page(tmp_path):
    found = audit(people(0.4))
    found.to_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert text.startswith("<!DOCTYPE html>") and text == found.to_html() and "http://" not in text.replace("http://www.w3.org", "")
    assert "\u2717 depends" in found._repr_html_() or "\u2713 no" in found._repr_html_()


def test_plot():
    matplotlib = pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    matplotlib.use("Agg")
    found = audit(people(0.4))
    (axes,) = found.plot()
    assert axes.get_ylabel() == "true positive rate" and [t.get_text() for t in axes.get_xticklabels()] == found.findings[0].groups["labels"]
    assert not [line for line in axes.get_lines() if line.get_linestyle() not in ("None", "none")]  # categories are not joined
    found.plot("auc")
    with pytest.raises(circe.ArgumentError, match="no metric 'fairness'"):
        found.plot("fairness")


def test_progress():
    """One share for all of it, which only grows and reaches the end."""
    seen = []
    circe.audit(people(0.4, n=300), prediction="score", target="y", sensitive="group", notion="all", calibrate=5,
                progress=lambda done, text: seen.append((done, text)) and None)
    shares = [done for done, _ in seen]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1
    assert {"score, group, separation: kci", "intervals"} <= {text for _, text in seen}


def test_a_model_in_memory():
    draw = np.random.default_rng(5)
    table = {"a": draw.normal(size=400), "z": draw.normal(size=400)}
    table["y"] = table["a"] + 0.3 * draw.normal(size=400)
    fitted = circe.train(table, features="a", target="y", regularizer="none", epochs=3)
    found = circe.audit(table, model=fitted, sensitive="z", calibrate=0)
    assert found.findings[0].prediction == "y_predicted"
    wanted = circe.audit({**table, "p": fitted.predict(table).values[:, 0]}, prediction="p", target="y", sensitive="z", calibrate=0)
    assert found.findings[0].p_value == pytest.approx(wanted.findings[0].p_value, rel=1e-6)
