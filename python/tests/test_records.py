"""Results as DataFrames, in a notebook, and as pictures."""

import numpy as np
import pytest

import circe

y, e, f = np.random.default_rng(0).normal(size=(3, 300))
TABLE = {"x": y + e, "w": e + 0.1 * f, "y": y, "e": e, "<b>": f}
TRAIN = dict(features=["x", "w"], target="y", invariant_to="e", epochs=2, net="4", batch=64)


@pytest.fixture(scope="module")
def training():
    return circe.train(TABLE, gamma=3.0, sweep=[1.0, 10.0], **TRAIN)


@pytest.fixture(scope="module")
def runs():
    return circe.sweep(TABLE, {"gamma": [0, 300], "seed": [1, 2]}, **TRAIN)


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def test_every_result_is_a_table_in_a_notebook(training, runs):
    predictions = training.predict(TABLE)
    tested = circe.test(TABLE["x"], y, e)
    many = circe.test_many(TABLE, [("x", "e"), ("x", "<b>", "y")])
    for found, rows in ((training, 1), (predictions, 10), (tested, 1), (many, 2), (runs, 4)):
        text = found._repr_html_()
        assert text.count("<tr>") == rows + 1, text
    assert "and 290 more rows" in predictions._repr_html_() and f"{tested.p_value:.4g}" in tested._repr_html_()
    assert "&lt;b&gt;" in many._repr_html_() and "<b>" not in many._repr_html_()


def test_frames(training, runs):
    pytest.importorskip("pandas")
    history = training.to_pandas()
    assert len(history) == training.epochs and history["validation_loss"].tolist() == training.history["validation_loss"].tolist()
    assert runs.to_pandas()["gamma"].tolist() == [0, 0, 300, 300]


def drawn(axes):
    """The points of every line."""
    return [np.stack(line.get_data(), axis=1).tolist() for line in axes.get_lines()]


def test_a_training_is_drawn(training, pyplot):
    losses, trials = training.plot()
    assert drawn(losses)[1] == [[k + 1, value] for k, value in enumerate(training.history["validation_loss"])]
    assert drawn(trials) == [[[t["error"]["value"], t["kpc"]["value"]]] for t in training.trials]
    (only,) = training.plot(axes=pyplot.subplots()[1])
    assert len(drawn(only)) == 2


def test_runs_are_drawn(runs, pyplot):
    axes = runs.plot("circe", "loss", by="gamma")
    assert drawn(axes) == [[[run["circe"], run["loss"]] for run in runs.runs if run["gamma"] == g] for g in (0, 300)]
    with pytest.raises(circe.ArgumentError, match="no run has both 'circe' and 'price'"):
        runs.plot("circe", "price")


def test_tests_are_drawn(pyplot):
    calibration = circe.calibrate(TABLE["x"], y, e, method="rcot", repetitions=20)
    axes = calibration.plot()
    assert [bar.get_height() for bar in axes.patches] == calibration.counts.tolist()
    effects = circe.effects(TABLE["x"], y, e)
    assert drawn(effects.plot())[0] == np.stack([effects.along.place, effects.along.value], axis=1).tolist()
    with pytest.raises(circe.ArgumentError, match="along=None"):
        circe.effects(TABLE["x"], y, e, along=None).plot()
