"""Columns of text, categoricals, masks and ranks: the rules, and the words, of the command's tables."""

import json
import math
import pickle
import warnings

import numpy as np
import pytest

import circe
from circe import _arrays, _columns

from conftest import run_command

N = 300
RANDOM = np.random.default_rng(5)
Y = RANDOM.normal(size=N)
Z = Y + RANDOM.normal(size=N)
X = Y + 0.5 * (Z - Y) + RANDOM.normal(size=N)
GROUP = np.array(["red", "green", "blue"])[(Z > 0.5).astype(int) + (Z > -0.5)]
BAD = ["0.7x", "1d3", "5%", "1,5", "1_000", "\N{MINUS SIGN}3", "0x1F", "inf", "1e999", "-"]


def with_cell(values, row, cell):
    cells = [float(v) for v in values]
    cells[row] = cell
    return np.array(cells, dtype=object)


@pytest.mark.parametrize("cell", BAD)
def test_one_bad_cell_is_refused(cell):
    words = r"x contains 299 numbers and 1 cell that is not a number: .*\(row 7\)\. Correct it.*astype\('category'\)"
    for values in (with_cell(X, 7, cell), with_cell(X, 7, cell).astype(str), list(with_cell(X, 7, cell))):
        with pytest.raises(circe.DataError, match=words):
            circe.test(values, Y, Z, method="gcm")
        with pytest.raises(circe.DataError, match=words):
            circe.hsic(values, Z)
    with pytest.raises(circe.DataError, match="y contains 299 numbers"):
        circe.ConditionalMean().fit(with_cell(Y, 7, cell), Z)


def test_the_rarer_kind_is_named():
    with pytest.raises(circe.DataError, match=r"x contains 299 texts and 1 cell that is a number: 7 \(row 3\)|'7' \(row 3\)"):
        cells = GROUP.astype(object)
        cells[3] = 7
        circe.hsic(cells, Z)


def test_numbers_in_other_writing_are_no_categories():
    with pytest.raises(circe.DataError, match="all its 300 cells look like numbers"):
        circe.hsic(np.array([f"{v:.3f}".replace(".", ",") for v in X]), Z)
    assert circe.hsic(np.array([repr(float(v)) for v in X]), Z).value == circe.hsic(X, Z).value  # text of numbers is numbers


@pytest.mark.parametrize("missing", [None, np.nan, "", "NA", "?", "null", "NaN"])
def test_missing_is_refused(missing):
    with pytest.raises(circe.DataError, match=r"x: row 7 is missing \(1 of 300 rows have missing cells\)"):
        circe.hsic(with_cell(X, 7, missing), Z)


def test_a_mask_is_missing():
    masked = np.ma.masked_array(X, mask=np.arange(N) % 100 == 40)
    with pytest.raises(circe.DataError, match=r"x is masked: row 40 is missing \(3 of 300"):
        circe.test(masked, Y, Z)
    with pytest.raises(circe.DataError, match="y is masked"):
        circe.ConditionalMean().fit(np.ma.masked_array(np.stack([Y, Y], 1), mask=np.eye(N, 2)), Z)
    assert circe.hsic(np.ma.masked_array(X), Z).value == circe.hsic(X, Z).value


def test_text_is_categories():
    codes = np.unique(GROUP, return_inverse=True)[1].astype(float)
    for values in (GROUP, GROUP.astype(object), list(GROUP)):
        found = circe.hsic(X, values)
        assert found.value == pytest.approx(circe.hsic(X, codes, kernel_z="delta").value, rel=1e-12)
        assert found.columns == ({"variable": "z", "column": 0, "read_as": "categories", "categories": 3},)
    result = circe.test(X, Y, GROUP)
    assert result.p_value == pytest.approx(circe.test(X, Y, codes, kernel_z="delta").p_value, rel=1e-6)
    assert result.columns[0]["categories"] == 3 and "delta" in result.kernel_z
    assert circe.test(X, Y, Z).columns == () and circe.hsic(X, Z).columns == ()


def test_pandas_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": X, "y": Y, "z": Z, "group": GROUP, "code": (Z > 0).astype(int)})
    frame["code"] = frame["code"].astype("category")
    result = circe.test(frame["x"], frame["y"], frame[["z", "group", "code"]])
    assert [(c["column"], c["categories"]) for c in result.columns] == [("group", 3), ("code", 2)]
    assert "delta" in result.kernel_z and "gaussian" in result.kernel_z
    frame["z"] = frame["z"].astype(object)
    frame.loc[5, "z"] = "0.7x"
    with pytest.raises(circe.DataError, match=r"z: column 'z' contains 299 numbers and 1 cell .*'0.7x' \(row 5\)"):
        circe.test(frame["x"], frame["y"], frame[["z", "group"]])
    frame.loc[5, "group"] = None
    with pytest.raises(circe.DataError, match="z: column 'group': row 5 is missing"):
        circe.test(frame["x"], frame["y"], frame[["group", "code"]])


def test_polars_columns():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"x": X, "z": Z, "group": GROUP, "text": [repr(float(v)) for v in Z]})
    frame = frame.with_columns(kind=polars.col("group").cast(polars.Categorical))
    expected = circe.hsic(X, GROUP).value
    assert circe.hsic(frame["x"], frame["group"]).value == expected
    assert circe.hsic(frame["x"], frame["kind"]).value == expected
    assert circe.hsic(frame["x"], frame["text"]).value == circe.hsic(X, Z).value
    assert circe.hsic(frame["x"], frame["text"].cast(polars.Decimal(20, 3))).value == pytest.approx(circe.hsic(X, Z).value, rel=1e-2)
    both = circe.hsic(frame["x"], frame.select("z", "kind"))
    assert [c["column"] for c in both.columns] == ["kind"]
    with pytest.raises(circe.DataError, match="row 1 is missing"):
        circe.hsic(frame["x"][:3], polars.Series(["a", None, "b"]))


def test_categories_keep_their_codes_from_fit_to_measure(tmp_path):
    mean = circe.ConditionalMean(sigma2_y=1.0).fit(Y[:150], GROUP[:150])
    assert mean.columns_[0]["categories"] == 3 and "delta" in mean.kernel_z_
    order = np.argsort(GROUP[150:], kind="stable")  # meets the categories in another order
    rows = np.arange(150, N)
    straight = circe.circe(X[rows], Y[rows], GROUP[rows], mean, sigma2_x=1.0).value
    turned = circe.circe(X[rows][order], Y[rows][order], GROUP[rows][order], mean, sigma2_x=1.0).value
    assert turned == pytest.approx(straight, rel=1e-9)
    again = pickle.loads(pickle.dumps(mean))
    assert circe.circe(X[rows], Y[rows], GROUP[rows], again, sigma2_x=1.0).value == straight
    with pytest.raises(circe.DataError, match="z has categories where the fit had numbers, or numbers"):
        circe.circe(X[rows], Y[rows], Z[rows], mean, sigma2_x=1.0)
    mean.save(tmp_path / "mean.safetensors")
    loaded = circe.ConditionalMean.load(tmp_path / "mean.safetensors")
    assert loaded.columns_ == ({"variable": "z", "column": 0, "read_as": "categories", "categories": 3},)
    assert circe.circe(X[rows][order], Y[rows][order], GROUP[rows][order], loaded, sigma2_x=1.0).value == turned
    with pytest.raises(circe.DataError, match="z has categories where the fit had numbers, or numbers"):
        circe.circe(X[rows], Y[rows], Z[rows], loaded, sigma2_x=1.0)


def write_csv(path, group, rows):
    lines = [f'{x!r},{y!r},"{word}"' for x, y, word in zip(X[rows].tolist(), Y[rows].tolist(), group[rows].tolist())]
    path.write_text("\n".join(["x,y,z", *lines]) + "\n", encoding="utf-8")
    return str(path)


def test_files_of_categories_are_those_of_the_command(tmp_path):
    """Both ways: what one saves the other measures with, with the texts in another order. Both refuse a new one."""
    group = np.where(GROUP == "red", "r\N{LATIN SMALL LETTER E WITH ACUTE}d, or so", GROUP).astype(object)
    first, rest = np.arange(150), np.arange(150, N)[np.argsort(GROUP[150:], kind="stable")]
    ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    circe.ConditionalMean().fit(Y[first], group[first]).save(ours)
    run_command("fit", "--data", write_csv(tmp_path / "fit.csv", group, first), "--y", "y", "--z", "z", "-o", str(theirs))
    data, found = write_csv(tmp_path / "rest.csv", group, rest), set()
    for file in (ours, theirs):
        said = json.loads(run_command("measure", "circe", "--data", data, "--x", "x", "--y", "y", "--z", "z", "--model",
                                      str(file), "--json"))
        loaded = circe.ConditionalMean.load(file)
        assert circe.circe(X[rest], Y[rest], group[rest], loaded).value == pytest.approx(said["value"], rel=1e-12)
        found.add(round(said["value"], 15))
    assert len(found) == 1
    group[rest[0]] = "violet"
    with pytest.raises(circe.DataError, match="'violet', which the fit has not seen"):
        circe.circe(X[rest], Y[rest], group[rest], loaded)


def test_gcm_has_no_kernel_for_categories():
    with pytest.raises(circe.ArgumentError, match="z has a column of more than two categories"):
        circe.gcm(X, Y, GROUP)
    assert circe.gcm(X, Y, np.where(Z > 0, "high", "low")).columns[0]["categories"] == 2


# ---- ranks ------------------------------------------------------------------------------------------------------------------


def test_transform():
    np.testing.assert_allclose(circe.transform([3.0, 1.0, 2.0, 2.0], "ranks"), np.array([4, 1, 2.5, 2.5]) / 5)
    scores = circe.transform(np.stack([X, Z], 1))
    assert scores.shape == (N, 2) and abs(scores.mean()) < 1e-12
    assert (np.argsort(scores[:, 0]) == np.argsort(X)).all()
    from statistics import NormalDist
    ranks = circe.transform(X, "ranks")
    np.testing.assert_allclose(circe.transform(X), [NormalDist().inv_cdf(p) for p in ranks], atol=1e-12)
    with pytest.raises(circe.ArgumentError, match="transform"):
        circe.transform(X, "rank")


def test_outliers_cost_trust_and_scores_bring_it_back():
    for outlying in ("x", "z", "both"):
        x, z = X.copy(), Z.copy()
        if outlying != "z":
            x[:3] = 1e6
        if outlying != "x":
            z[:3] = 1e6
        result = circe.test(x, Y, z, method="gcm")
        if result.p_value > 0.05:
            assert result.trust == "poor" and "normal-scores" in result.verdict
        assert result.effective_rows < 4 and result.robust_p < 1e-4
        robust = circe.test(x, Y, z, method="gcm", transform="normal-scores")
        assert robust.p_value == result.robust_p and robust.trust == "good"
    clean = circe.test(X, Y, Z, method="gcm")
    assert clean.trust == "good" and clean.effective_rows > 10


def test_measures_of_scores_know_no_outliers():
    wild = np.where(np.arange(N) < 3, 1e6, X)
    for name in ("hsic", "hscic", "gcm", "kci", "nocco", "kpc"):
        found = circe.measure(name, wild, Y, Z, transform="normal-scores").value
        assert found == pytest.approx(circe.measure(name, np.exp(np.minimum(wild, 50)), Y**3, Z, transform="normal-scores").value)
    with pytest.raises(circe.ArgumentError, match="grad"):
        circe.hsic(X, Z, transform="ranks", grad=True)


def test_numbers_at_the_edge_are_refused_in_words():
    for scale in (1e299, 1e-300):
        with pytest.raises(circe.DataError, match="no double can hold"):
            circe.hsic(X * scale, Z)
        with pytest.raises(circe.DataError, match="no double can hold"):
            circe.ConditionalMean().fit(Y * scale, Z)
        assert circe.test(X * scale, Y * scale, Z).p_value == pytest.approx(circe.test(X, Y, Z).p_value, rel=1e-3)


def test_a_kernel_of_numbers_on_categories_is_told():
    for kernel in ("gaussian(1)", "linear", circe.laplace(2.0)):
        with pytest.warns(UserWarning, match="takes the 3 categories of column"):
            circe.hsic(X, GROUP, kernel_z=kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        circe.hsic(X, GROUP, kernel_z="delta")
        circe.hsic(X, GROUP)
        circe.hsic(X, GROUP == "red", kernel_z="gaussian(1)")  # two categories have one distance


def test_the_rules_are_those_of_the_command():
    assert _columns.number_of("1e5") == 1e5 and _columns.number_of(".5") == 0.5
    for text in BAD + ["nan", "", "1 2", "+", "\N{ARABIC-INDIC DIGIT ONE}"]:
        assert _columns.number_of(text) is None
    for text in ["$5", "$1200.50", "5 \N{EURO SIGN}", "\N{POUND SIGN}6", "1 234", "12\N{NO-BREAK SPACE}345 678"]:
        assert _columns.looks_like_number(text)
    for text in ["18-25", "red", "123 45", "5 5555", "$", " "]:
        assert not _columns.looks_like_number(text)
    assert _arrays.view(np.array([b"1.5", b"2"]), "x")[1].tolist() == [1.5, 2.0]


# ---- missing="drop" -----------------------------------------------------------------------------------------------------

GAPS = np.arange(N) % 50 == 7  # of x
HOLES = np.arange(N) % 60 == 9  # of z
LEFT = ~(GAPS | HOLES)


def holes(kind):
    """X and Z with cells missing, in one of the ways that people have them."""
    x, z = np.where(GAPS, np.nan, X), np.where(HOLES, np.nan, Z)
    if kind == "masked":
        return np.ma.masked_array(X, GAPS), np.ma.masked_array(Z, HOLES)
    if kind == "words":
        return [("NA" if g else repr(float(v))) for g, v in zip(GAPS, X)], z
    if kind in ("pandas", "polars"):
        frame = pytest.importorskip(kind)
        return frame.Series(np.where(GAPS, None, X).tolist()), frame.DataFrame({"z": z})
    return {"nan": (x, z), "none": (np.where(GAPS, None, X), z)}[kind]


@pytest.mark.parametrize("kind", ["nan", "none", "words", "masked", "pandas", "polars"])
def test_missing_rows_can_be_dropped(kind):
    x, z = holes(kind)
    mean = circe.ConditionalMean().fit(Y[LEFT], Z[LEFT])
    dropped = circe.ConditionalMean(missing="drop").fit(Y, np.where(GAPS, np.nan, Z) if kind == "nan" else z)
    assert dropped.n_rows_ == N - (GAPS if kind == "nan" else HOLES).sum()
    for call in (circe.kci, circe.gcm, circe.hscic, lambda *v, **o: circe.circe(*v, mean, **o), circe.test, circe.nocco,
                 lambda x, y, z, **o: circe.hsic(x, z, **o), lambda *v, **o: circe.test(*v, weights=np.ones(len(v[1])), **o),
                 lambda *v, **o: circe.measure("kpc", *v, **o)):
        with pytest.raises(circe.CirceError):
            call(x, Y, z)
        found, wanted = call(x, Y, z, missing="drop"), call(X[LEFT], Y[LEFT], Z[LEFT])
        assert float(found) == float(wanted) and found.n == LEFT.sum()
    assert circe.effects(x, Y, z, draws=20, along=None, missing="drop").rows == LEFT.sum()
    assert circe.calibrate(x, Y, z, method="gcm", repetitions=20, missing="drop").rows == LEFT.sum()


def test_a_nan_is_told_with_what_would_be_right():
    x, words = holes("nan")[0], r"contains a NaN at row 7, column 0 \(counted from 0; 6 of 300 rows .*missing='drop' leaves"
    for call in (lambda: circe.hsic(x, Z), lambda: circe.kpc(x, Y, Z), lambda: circe.test(x, Y, Z),
                 lambda: circe.effects(x, Y, Z), lambda: circe.ConditionalMean().fit(x, Z)):
        with pytest.raises(circe.DataError, match=words):
            call()


def test_gradients_of_dropped_rows_are_zero():
    found = circe.hsic(holes("nan")[0], Z, grad=True, missing="drop")
    assert found.grad.shape == X.shape and (found.grad[GAPS] == 0).all()
    assert np.array_equal(found.grad[~GAPS], circe.hsic(X[~GAPS], Z[~GAPS], grad=True).grad)


def test_dropping_keeps_categories():
    group = GROUP.astype(object)
    group[GAPS] = None
    found = circe.test(X, Y, group, missing="drop")
    assert found.p_value == circe.test(X[~GAPS], Y[~GAPS], GROUP[~GAPS]).p_value and found.columns[0]["categories"] == 3
    sample = circe.test(X, Y, group, missing="drop", rows=100, weights=np.where(GAPS, np.nan, 1.0))
    assert sample.n == 100 and sample.kernel_z == "0:delta"


def test_blocks_see_masks_and_drop_rows():
    x, z = holes("masked")
    with pytest.raises(circe.DataError, match="x is masked"):
        circe.blocks("hsic", x, None, z, block_rows=50, blocks=4)
    found = circe.blocks("hsic", x, None, z, block_rows=50, blocks=4, missing="drop")
    assert found.value == circe.blocks("hsic", X[LEFT], None, Z[LEFT], block_rows=50, blocks=4).value


def test_words_of_missing():
    with pytest.raises(circe.ArgumentError, match="missing is 'omit'; it must be one of refuse, drop, error"):
        circe.test(X, Y, Z, missing="omit")
    with pytest.raises(circe.DataError, match="every one of the 300 rows has a missing cell"):
        circe.hsic(np.full(N, np.nan), Z, missing="drop")
    with pytest.raises(circe.ShapeError, match="x has 300 rows and z has 299"):
        circe.hsic(X, Z[1:], missing="drop")
    assert circe.hsic(X, Z, missing="error").value == circe.hsic(X, Z).value


def test_categories_survive_ranks():
    assert circe.hsic(X, GROUP, transform="ranks").columns == circe.hsic(X, GROUP).columns


# ---- codes for the losses -----------------------------------------------------------------------------------------------


def _groups(n=240, seed=3):
    random = np.random.default_rng(seed)
    codes = random.integers(0, 3, size=n)
    return random.normal(size=n) + codes, np.array(["north", "south", "west"])[codes]


def _forms(texts):
    """What people hold such a column in."""
    yield "list", list(texts)
    yield "array", texts
    yield "objects", texts.astype(object)
    try:
        import pandas

        yield "categorical", pandas.Series(pandas.Categorical(texts))
        yield "ordered", pandas.Series(pandas.Categorical(texts, categories=["west", "north", "south"], ordered=True))
        yield "string", pandas.Series(texts, dtype="string")
    except ImportError:
        pass
    try:
        import polars

        yield "polars", polars.Series(texts.tolist(), dtype=polars.Categorical)
    except ImportError:
        pass


def test_codes_of_every_form_are_those_of_the_fit():
    y, texts = _groups()
    mean = circe.ConditionalMean().fit(y, texts)
    expected = mean.encode(list(texts), "z")
    assert expected.shape == (240, 1) and set(expected.ravel()) == {0.0, 1.0, 2.0}
    value = circe.circe(y, y, texts, mean, sigma2_x=1.0).value
    for name, form in _forms(texts):
        codes = mean.encode(form, "z")
        assert np.array_equal(codes, expected), name
        assert circe.circe(y, y, codes, mean_of_codes(mean), sigma2_x=1.0).value == value, name


def mean_of_codes(mean):
    """The same model, which is told numbers."""
    plain = mean.__class__.__new__(mean.__class__)
    plain.__dict__.update(mean.__dict__)
    plain._categories = {}
    return plain


def test_an_unseen_category_is_told():
    y, texts = _groups()
    mean = circe.ConditionalMean().fit(y, texts)
    with pytest.raises(circe.DataError, match=r"z: row 1 is 'east', which the fit has not seen \(2 of 4 rows.*it knows '"):
        mean.encode(["west", "east", "east", "north"], "z")
    few = ["west", "east", "west", "north"]
    for call in (circe.circe, circe.spectral):
        with pytest.raises(circe.DataError, match="z: row 1 is 'east', which the fit has not seen"):
            call(y[:4], y[:4], few, mean)
    with pytest.raises(circe.DataError, match="z: row 1 is 'east', which the fit has not seen"):
        mean.residual_gram(y[:4], few)
    with pytest.raises(circe.DataError, match="numbers where it had categories"):
        mean.encode([1.0, 2.0], "z")
    with pytest.raises(circe.ShapeError, match="the fit had 1"):
        mean.encode(np.zeros((3, 2)), "y")
    with pytest.raises(circe.ArgumentError, match="it must be 'y' or 'z'"):
        mean.encode([1.0], "x")


def test_booleans_are_0_and_1():
    y, texts = _groups()
    mean = circe.ConditionalMean().fit(y, texts == "west")
    assert set(mean.encode([True, False], "z").ravel()) == {0.0, 1.0}


def test_losses_take_the_codes():
    torch = pytest.importorskip("torch")
    import circe.torch

    y, texts = _groups()
    mean = circe.ConditionalMean().fit(y, texts)
    loss = circe.torch.CirceLoss(mean, sigma2_x=1.0, estimator="centered")
    x = torch.tensor(y[:, None], requires_grad=True)
    found = loss(x, torch.tensor(y), torch.as_tensor(mean.encode(texts, "z")))
    assert abs(found.item() / circe.circe(y[:, None], y, texts, mean, sigma2_x=1.0, estimator="centered").value - 1) < 1e-9
    assert loss(x, y, list(texts)).item() == found.item()
    for code, shown in ((3.0, "3"), (-1.0, "-1"), (0.5, "0.5"), (math.nan, "nan")):
        codes = torch.as_tensor(mean.encode(texts, "z"))
        codes[5] = code
        with pytest.raises(circe.DataError, match=f"z: row 5 is {shown}, which is no code of the fit: these are 0 to 2"):
            loss(x, torch.tensor(y), codes)


# ---- rows and labels


def test_equal_labels_in_another_order_are_refused():
    """Rows go by position, so columns whose labels say otherwise are refused, by every entry point."""
    pandas = pytest.importorskip("pandas")
    order = RANDOM.permutation(N)
    labels = [f"row {i}" for i in range(N)]
    x, y, z, w = (pandas.Series(values, index=labels, name="v") for values in (X, Y, Z, np.ones(N)))
    other, frame = z.iloc[order], pandas.DataFrame({"a": Z, "b": X}, index=labels).iloc[order]
    mean = circe.ConditionalMean(sigma2_y=1.0, sigma2_z=1.0, ridge=1.0).fit(y, z)
    calls = [lambda v: circe.hsic(x, v), lambda v: circe.hsic(x, z=v), lambda v: circe.measure("kpc", x, y, v),
             lambda v: circe.hsic(x, z, weights=v), lambda v: circe.hsic(x, v, missing="drop"), lambda v: circe.gcm(x, y, v),
             lambda v: circe.circe(x, y, v, mean), lambda v: mean.residual_features(y, v), lambda v: mean.residual_gram(y, v),
             lambda v: circe.ConditionalMean().fit(y, v), lambda v: circe.ConditionalMean().fit(y, z, weights=v),
             lambda v: circe.ConditionalMean(missing="drop").fit(y, v), lambda v: circe.test(x, y, v, method="gcm"),
             lambda v: circe.test(x, None, v, method="hsic"), lambda v: circe.test(x, y, z, method="gcm", weights=v),
             lambda v: circe.test(x, y, z, method="gcm", groups=v), lambda v: circe.test(x, y, v, missing="impute"),
             lambda v: circe.test(x, y, z, method="circe", auxiliary=(y, v)), lambda v: circe.effects(x, y, v),
             lambda v: circe.calibrate(x, y, v, repetitions=20), lambda v: circe.blocks("hsic", x, None, v),
             lambda v: circe.test_many({"x": x, "z": v}, [("x", "z")])]
    for call in calls:
        with pytest.raises(circe.DataError, match=r"same labels in another order \(row \d+ is 'row \d+'.*\.loc\["):
            call(other)
    for call in calls[:2]:
        with pytest.raises(circe.DataError, match="another order"):
            call(frame)
        found = call(other.to_numpy()).value  # the remedies
        assert found == call(other.reset_index(drop=True)).value and found != call(other.loc[labels]).value
    assert circe.hsic(x, other.loc[x.index]).value == circe.hsic(x, z).value == circe.hsic(X, Z).value
    assert circe.hsic(x[1:], z[:-1]).value == circe.hsic(X[1:], Z[:-1]).value  # a lag: labels that differ say nothing
    one, two = x.copy(), other.copy()
    one.index = two.index = pandas.MultiIndex.from_arrays([[1, 2] * (N // 2), range(N)])
    assert circe.hsic(one, two).n == N
    with pytest.raises(circe.DataError, match="another order"):
        circe.hsic(one, two.iloc[order])
