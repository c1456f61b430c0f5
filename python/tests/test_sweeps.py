"""Sweeps and experiments in this process: the numbers of trainings alone and of the command's processes, folders, stopping,
refusals."""

import json

import numpy as np
import pytest

import circe

from conftest import run_command as command

Y, E, F = np.random.default_rng(3).normal(size=(3, 400))
TABLE = {"x": Y + E, "w": E + 0.1 * F, "y": Y, "e": E}
TRAIN = {"features": ["x", "w"], "target": "y", "invariant_to": "e", "epochs": 3, "net": "2x16"}

TINY = """\
title: Tiny
models: [{model: univariate1}]
data: {train: 200, validation: 40, test: 60, holdout: 60}
training: {net: 2x8, epochs: 1, batch: 50, rate: 1e-3}
evaluation: {points: 30, draws: 5}
seeds: 2
methods:
  - {name: none, regularizer: none}
  - {name: circe, regularizer: circe, gamma: [10, 1000]}
"""


def test_every_run_is_a_training():
    found = circe.sweep(TABLE, {"gamma": np.array([0.0, 30.0]), "seed": range(2)}, jobs=2, **TRAIN)
    assert [(run["gamma"], run["seed"]) for run in found.runs] == [(0, 0), (0, 1), (30, 0), (30, 1)]
    before = circe.get_threads()
    circe.set_threads(1)
    try:
        for run in found.runs:
            alone = circe.train(TABLE, gamma=run["gamma"], seed=run["seed"], **TRAIN)
            assert run["r2"] == alone.error["r2"] and run["circe"] == alone.measures["circe"]["after"] and run["epochs"] == alone.epochs
    finally:
        circe.set_threads(before)
    assert found.best("circe")["circe"] == min(run["circe"] for run in found.runs)
    assert "gamma" in found._repr_html_() and len(found) == 4


def test_lists_of_columns_are_values(tmp_path):
    found = circe.sweep(TABLE, {"features": [["x"], ["x", "w"]]}, gamma=1, folder=tmp_path,
                        **{k: v for k, v in TRAIN.items() if k != "features"})
    assert found.runs[1]["features"] == ["x", "w"] and found.folder == str(tmp_path)
    model = circe.Predictor.load(found.runs[1]["model"])
    assert model.predict({"x": [0.0], "w": [1.0]}).values.shape == (1, 1)


def test_runs_that_fail_are_warned_of():
    with pytest.warns(circe.JobWarning, match="nowhere"):
        found = circe.sweep(TABLE, {"target": ["y", "nowhere"]}, features=["x"], invariant_to="e", gamma=1, epochs=1)
    assert found.failed == 1 and "error" in found.runs[1] and "loss" not in found.runs[1]
    with pytest.raises(circe.ArgumentError, match="all 1 runs failed"):
        circe.sweep(TABLE, {"target": ["nowhere"]}, features=["x"], invariant_to="e", gamma=1)


@pytest.mark.parametrize("over, error, words", [
    (None, circe.DTypeError, "values to try"), ({}, circe.DTypeError, "values to try"), ({"gamma": 3}, circe.DTypeError, "a list"),
    ({"gamma": []}, circe.ArgumentError, "no value"), ({"gama": [1]}, TypeError, "did you mean 'gamma'"),
    ({"gamma": ["x"]}, circe.ArgumentError, "gamma"), ({"output": ["a"]}, circe.ArgumentError, "cannot vary")])
def test_refusals(over, error, words):
    with pytest.raises(error, match=words):
        circe.sweep(TABLE, over, **TRAIN)


def test_progress_stops_a_sweep():
    told = []

    def stop(done, text):
        told.append(text)
        return len(told) > 2

    with pytest.raises(circe.CancelledError, match="stopped"):
        circe.sweep(TABLE, {"gamma": [1, 2, 3]}, progress=stop, **{**TRAIN, "epochs": 100000})
    assert "of 3 runs" in told[0]


def test_an_experiment_has_the_commands_numbers(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    said = json.loads(command("experiment", "--config", tmp_path / "tiny.yaml", "-o", tmp_path / "theirs", "--json", "-q"))
    found = circe.experiment(config=tmp_path / "tiny.yaml", output=tmp_path / "ours", jobs=2)

    def numbers(run):  # but for what a clock says
        return {name: value for name, value in run.items() if "seconds" not in name}

    assert [numbers(run) for run in found.runs] == [numbers(run) for run in said["runs"]]
    assert found.name == "tiny" and found.failed == 0 and (tmp_path / "ours" / "report.html").exists()


def test_experiments_are_found_by_name():
    assert "Table 1" in circe.experiments()["table1"]
    with pytest.raises(circe.ArgumentError, match="did you mean table1"):
        circe.experiment("tabel1")
