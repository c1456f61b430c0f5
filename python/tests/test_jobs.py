"""train, predict and audit in this process: the numbers of the command on the same data, signatures, stopping, refusals."""

import decimal
import inspect
import json
import os
import pickle
import re
import signal
import subprocess
import threading
import time

import numpy as np
import pytest

import circe
from circe import _options

from conftest import run_command as command

N = 400
RANDOM = np.random.default_rng(3)
Y, E, F = RANDOM.normal(size=(3, N))
WORD = np.where(E + F > 0, "high, or so", "low")
TABLE = {"x": Y + E, "w": E + 0.1 * F, "y": Y, "e": E, "word": WORD, "code": (F > 0).astype(int) + 1}
TRAIN = {"features": ["x", "w"], "target": "y", "invariant_to": "e", "gamma": 30, "epochs": 4, "net": "2x16", "seed": 7}
AUDIT = {"prediction": "x", "target": "y", "sensitive": ["word", "e"], "calibrate": 0, "seed": 2}


@pytest.fixture(autouse=True)
def no_process(monkeypatch, request):
    """Nothing here may start a process, but for the command that a test compares with."""
    if "tmp_path" in request.fixturenames:
        return

    def refuse(*arguments, **options):
        raise AssertionError("a process was started")

    for name in ("Popen", "run", "call", "check_output"):
        monkeypatch.setattr(subprocess, name, refuse)
    for name in ("system", "posix_spawn", "fork", "execv"):
        monkeypatch.setattr(os, name, refuse)


def write_csv(path, table=TABLE):
    cells = [[f'"{v}"' if isinstance(v, str) else repr(v) for v in np.asarray(column).tolist()] for column in table.values()]
    path.write_text("\n".join([",".join(table), *(",".join(row) for row in zip(*cells))]) + "\n")
    return path


def as_arguments(options):
    return [part for name, value in options.items() for part in (
        f"--{name.replace('_', '-')}", _options.listed(value) if isinstance(value, list) else value)]


# ---- the command's numbers ----------------------------------------------------------------------------------------------


def same_numbers(found, said, *left_out):
    for name in said:
        if name not in left_out:
            assert found[name] == said[name], name


@pytest.mark.parametrize("more", [{}, {"target": "word", "regularizer": "hsic"}, {"features": ["x", "word", "code"],
                                                                                  "categories": "code"}])
def test_training_is_the_commands(tmp_path, more):
    options = {**TRAIN, **more}
    data, model = write_csv(tmp_path / "t.csv"), tmp_path / "m.safetensors"
    said = json.loads(command("train", "--data", data, "-o", model, "--json", "--no-report", "--threads", 1,
                              *as_arguments(options)))
    before = circe.get_threads()
    circe.set_threads(1)  # as the commands: another number changes the last digits
    try:
        trained, of_file = circe.train(TABLE, **options), circe.train(data, **options)
        predicted, again = trained.predict(TABLE), circe.predict(model, data)
    finally:
        circe.set_threads(before)
    for training in (trained, of_file):
        same_numbers(training.results, said, "model", "settings", "report", "seconds", "regularizer_seconds", "warnings")
    assert len(trained.history) == trained.epochs == 4 and np.isfinite(trained.history["loss"]).all()
    assert np.array_equal(again.values, predicted.values) and again.errors == predicted.errors
    trained.save(tmp_path / "ours.safetensors")
    written = []
    for path in (model, tmp_path / "ours.safetensors"):
        command("predict", "--model", path, "--data", data, "-o", tmp_path / "p.csv", "--threads", 1)
        written.append((tmp_path / "p.csv").read_text().splitlines())
    assert written[0] == written[1]
    if predicted.target is None:  # numbers, with the 9 digits of a float32
        assert [float(line) for line in written[0][1:]] == pytest.approx(predicted.values[:, 0].tolist(), rel=1e-8)
    assert len(predicted.errors) == 1 and predicted.errors[0]["rows"] == N


def test_audits_are_the_commands(tmp_path):
    data = write_csv(tmp_path / "t.csv")
    said = json.loads(command("audit", data, "-o", tmp_path / "theirs", "--json", "--threads", 1, *as_arguments(AUDIT)))
    before = circe.get_threads()
    circe.set_threads(1)
    try:
        found = circe.audit(TABLE, **AUDIT)
    finally:
        circe.set_threads(before)
    ours = strip_times(found.results)
    same_numbers(ours, strip_times(said), "data", "report", "warnings", "columns")
    assert [f.attribute for f in found.findings] == ["word", "e"] and found.findings[1].decision == "depends"
    assert found.findings[0].p_value == said["findings"][0]["p_value"] and found.n == N
    found.report(tmp_path / "folder")
    assert (tmp_path / "folder" / "report.html").stat().st_size > 1000


def strip_times(found):
    """Without what a clock says."""
    if isinstance(found, dict):
        return {name: strip_times(value) for name, value in found.items() if name != "seconds"}
    return [strip_times(value) for value in found] if isinstance(found, list) else found


# ---- data ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    return circe.train(TABLE, **TRAIN)


def frames():
    yield "dictionary of lists", {name: column.tolist() for name, column in TABLE.items()}
    yield "structured", np.rec.fromarrays([TABLE[name] for name in TABLE], names=list(TABLE))
    for module in ("pandas", "polars", "pyarrow"):
        try:
            package = __import__(module)
        except ImportError:
            continue
        frame = package.table(TABLE) if module == "pyarrow" else package.DataFrame(TABLE)
        yield module, frame


@pytest.mark.parametrize("kind, data", list(frames()), ids=[kind for kind, _ in frames()])
def test_tables_of_every_kind(kind, data, trained):
    assert np.array_equal(circe.predict(trained, data).values, circe.predict(trained, TABLE).values)
    other = circe.train(data, **TRAIN)
    assert other.error == trained.error


def test_arrays_are_names_of_their_columns(trained):
    both = np.stack([TABLE["x"], TABLE["w"]], axis=1)
    named = circe.train({"X": both, "y": Y, "e": E}, **{**TRAIN, "features": "X"})
    numbered = circe.train(np.column_stack([both, Y, E]), **{**TRAIN, "features": [0, 1], "target": 2, "invariant_to": 3})
    assert named.error["mse"] == numbered.error["mse"] == trained.error["mse"]
    assert named.results["features"] == ["X:0", "X:1"]


def test_categoricals_are_categories():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({**TABLE, "code": pandas.Categorical(TABLE["code"])})
    found = circe.train(frame, **{**TRAIN, "features": ["x", "code"]})
    assert found.columns == ({"column": "code", "read_as": "categories", "categories": 2, "because": "it was named so"},)
    assert found.error == circe.train(TABLE, **{**TRAIN, "features": ["x", "code"], "categories": ["code"]}).error
    assert sorted(circe.audit(frame, **{**AUDIT, "sensitive": "code"}).findings[0].groups["labels"]) == ["1", "2"]


def test_categoricals_that_are_not_used_do_no_harm(trained):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE).assign(spare=pandas.Categorical(TABLE["code"]))
    assert circe.train(frame, **TRAIN).error == trained.error
    assert np.array_equal(trained.predict(frame), trained.predict(TABLE))
    assert circe.audit(frame, **AUDIT).findings[0].p_value == circe.audit(TABLE, **AUDIT).findings[0].p_value
    assert circe.sweep(frame, {"gamma": [0, 30]}, **{**TRAIN, "epochs": 1}).failed == 0
    assert circe.test_many(frame, [("x", "e", "y")])[0].p_value == circe.test_many(TABLE, [("x", "e", "y")])[0].p_value


def test_a_query_that_has_not_been_run_is_refused(trained):
    polars = pytest.importorskip("polars")
    with pytest.raises(circe.DTypeError, match=r"data is a LazyFrame, which contains no rows yet: pass data.collect\(\)"):
        trained.predict(polars.DataFrame(TABLE).lazy())


def test_decimals_are_numbers(trained):
    """What databases give."""
    decimals = {**TABLE, "x": [decimal.Decimal(repr(float(v))) for v in TABLE["x"]]}
    assert np.array_equal(trained.predict(decimals), trained.predict(TABLE))
    assert circe.hsic(decimals["x"], Y).value == circe.hsic(TABLE["x"], Y).value


@pytest.mark.parametrize("kind", ["nan", "none", "masked"])
def test_missing_cells(kind):
    gaps = np.arange(N) % 80 == 5
    x = {"nan": np.where(gaps, np.nan, TABLE["x"]), "none": np.where(gaps, None, TABLE["x"]),
         "masked": np.ma.masked_array(TABLE["x"], gaps)}[kind]
    with pytest.raises(circe.DataError, match=r"row 5, column 'x' is missing \(5 of 400.*\n?.*missing='drop'"):
        circe.train({**TABLE, "x": x}, **TRAIN)
    with pytest.warns(circe.JobWarning, match="5 rows") as caught:
        found = circe.train({**TABLE, "x": x}, **TRAIN, missing="drop")
    assert caught[0].filename == __file__
    assert found.results["rows"]["dropped"] == 5 and any("5 rows" in text for text in found.warnings)
    predicted = found.predict({**TABLE, "x": x}, missing="empty")
    assert predicted.rows_without == 5 and np.array_equal(np.isnan(predicted.values[:, 0]), gaps)


def test_one_bad_cell():
    cells = [repr(float(v)) for v in TABLE["x"]]
    cells[7] = "0.7x"
    with pytest.raises(circe.DataError, match="'x' contains 399 numbers and 1 cell that is not a number"):
        circe.train({**TABLE, "x": cells}, **TRAIN)
    with pytest.raises(circe.DataError, match="'e' contains 399 numbers"):
        circe.audit({**TABLE, "e": [*map(str, E[:-1].tolist()), "5%"]}, **AUDIT)


def test_columns_that_nobody_asks_for_may_hold_anything(trained):
    """Dates of a frame, of which a job may use the rest, as it does of a .csv."""
    strange = {"when": np.datetime64("2024-03-31") + np.arange(N), "thing": [object()] * N}
    tables = [{**TABLE, **strange}]
    tables.append(pytest.importorskip("pandas").DataFrame(tables[0]))
    for table in tables:
        assert circe.train(table, **TRAIN).error == trained.error
        assert circe.audit(table, **AUDIT).findings[0].p_value == circe.audit(TABLE, **AUDIT).findings[0].p_value
        for name, text in (("when", "column 'when' contains"), ("thing", "column 'thing' contains object"), ("wen", "no column 'wen'")):
            with pytest.raises(circe.CirceError, match=text):
                circe.train(table, **{**TRAIN, "features": ["x", name]})
            with pytest.raises(circe.CirceError, match=text):
                circe.audit(table, **{**AUDIT, "sensitive": name})
    with pytest.raises(circe.DTypeError, match="column '1' contains object"):  # columns by place
        circe.train(np.array([TABLE["x"], [object()] * N, TABLE["y"]], dtype=object).T, features=[0], target=2, regularizer="none")


@pytest.mark.parametrize("data, text", [
    ({}, "no column"), ({"x": [1.0, 2.0], "y": [1.0]}, "column 'y' has 1 rows and 'x' has 2"), ({"x": 3}, "'x' is of type int"),
    ({"x": [object()]}, "contains object in row 0"), (np.zeros(3), "array of 1 dimensions"),
    ({"x": np.array(["2020-01-01"], dtype="datetime64[D]")}, "contains date")])
def test_what_is_no_table(data, text):
    with pytest.raises((circe.ShapeError, circe.DTypeError), match=text):
        circe.train(data, **TRAIN)


# ---- predictors ---------------------------------------------------------------------------------------------------------


def test_predictors_can_be_pickled(trained):
    again = pickle.loads(pickle.dumps(trained.predictor))
    assert np.array_equal(again.predict(TABLE).values, trained.predict(TABLE).values)
    with pytest.raises(TypeError, match="pickle its predictor"):
        pickle.dumps(trained)


def test_predictors_outlive_their_training():
    predictor = circe.train(TABLE, **TRAIN).predictor
    assert np.isfinite(predictor.predict({"x": [0.0], "w": [1.0]}).values).all()


def test_classes():
    found = circe.train(TABLE, **{**TRAIN, "target": "word", "regularizer": "none", "gamma": None, "epochs": 30})
    predicted = found.predict(TABLE)
    assert sorted(predicted.names) == ["high, or so", "low"] and predicted.target == "word"
    assert predicted.values.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    assert (predicted.labels == WORD).mean() == pytest.approx(predicted.errors[0]["accuracy"])
    with pytest.raises(circe.UnsupportedError, match="no classes"):
        circe.train(TABLE, **TRAIN).predict(TABLE).labels


def test_another_table_is_refused(trained):
    with pytest.raises(circe.CirceError, match="w"):
        trained.predict({"x": [1.0]})
    with pytest.raises(circe.CirceError):
        circe.predict("/nowhere/model.safetensors", TABLE)


def test_a_report(trained, tmp_path):
    trained.report(tmp_path / "folder")
    assert {"report.html", "results.json", "run.yaml"} <= {path.name for path in (tmp_path / "folder").iterdir()}


# ---- options ------------------------------------------------------------------------------------------------------------


def test_signatures_come_from_the_library():
    for function, job in ((circe.train, "train"), (circe.predict, "predict"), (circe.audit, "audit")):
        parameters, rows = inspect.signature(function).parameters, _options.Schema(job).rows
        for row in rows:
            if row.name not in ("data", "model", "output"):
                assert row.name in parameters and row.default == parameters[row.name].default
                assert f"\n{row.name} : " in function.__doc__
        assert "progress" in parameters
    parameters = inspect.signature(circe.train).parameters
    assert parameters["epochs"].default == 100 and parameters["sigma2_y"].default == "auto"
    assert not re.search("--[a-z]", circe.train.__doc__) and "invariant_to" in circe.train.__doc__


@pytest.mark.parametrize("options, kind, text", [
    ({"gamma": -1}, circe.ArgumentError, "^gamma must be at least 0, not -1"),
    ({"gama": 1}, TypeError, r"train\(\) has no option 'gama'; did you mean 'gamma'"),
    ({"epochs": 2.5}, circe.ArgumentError, "^epochs takes a whole number, not '2.5'"),
    ({"epochs": True}, circe.DTypeError, "^epochs is True; it must be int"),
    ({"resume": 1}, circe.DTypeError, "^resume is 1; it must be bool"),
    ({"method": "magic"}, circe.ArgumentError, "^method .*not 'magic'"),
    ({"missing": "omit"}, circe.ArgumentError, "^missing .*not 'omit'"),
    ({"sigma2_y": [1.0, -1.0]}, circe.ArgumentError, "^sigma2_y must be greater than 0, not -1"),
    ({"target": None}, circe.ArgumentError, "^target is required"),
    ({"gamma": "most"}, circe.ArgumentError, "^gamma: 'most' is not a number or the word auto"),
    ({"target": "q"}, circe.ArgumentError, "no column 'q'; it has 'x', 'w'"),
    ({"output": "a\0b"}, circe.ArgumentError, "null character"),
    ({"progress": 3}, circe.DTypeError, "progress is 3"),
])
def test_bad_options(options, kind, text):
    with pytest.raises(kind, match=text):
        circe.train(TABLE, **{**TRAIN, **options})


def test_options_are_spelled_as_in_python():
    schema = _options.Schema("train")
    for text, wanted in (("--missing drop leaves", "missing='drop' leaves"),
                         ("--na 1000 --missing drop.", "na=1000 missing='drop'."),
                         ("-o MODEL is required", "output is required"), ("--target COLUMN is required", "target is required"),
                         ("--na '?,x' or --invariant-to", "na='?,x' or invariant_to"), ("a--b -o x", "a--b -o x"),
                         ("--unheard of", "--unheard of"), ("use --method rff, or less", "use method='rff', or less")):
        assert schema.spelled(text) == wanted
    assert _options.listed(["a", "b,c", 'd"e', 3]) == 'a,"b,c","d""e",3'


# ---- stopping -----------------------------------------------------------------------------------------------------------

LONG = {**TRAIN, "epochs": 100000}


def test_progress_may_stop_it():
    seen = []
    with pytest.raises(circe.CancelledError):
        circe.train(TABLE, **LONG, progress=lambda done, text: seen.append((done, text)) or len(seen) > 3)
    assert len(seen) >= 4 and seen[0][0] < seen[3][0] < 1 and "epoch" in seen[0][1]
    with pytest.raises(circe.CancelledError):
        circe.audit(TABLE, **AUDIT, progress=lambda done, text: done > 0.2)


def test_what_progress_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        circe.train(TABLE, **LONG, progress=lambda done, text: 1 / 0)
    assert circe.train(TABLE, **TRAIN).epochs == 4  # and all is well


@pytest.mark.parametrize("job, options", [("train", LONG), ("audit", {**AUDIT, "calibrate": 100000})])
def test_ctrl_c(job, options):
    timer = threading.Timer(1.0, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    timer.start()
    before = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            getattr(circe, job)(TABLE, **options)
    finally:
        timer.join()
    assert time.monotonic() - before < 10
    assert circe.hsic(Y, E).value >= 0  # and all is well


def test_pictures(tmp_path):
    pictures, width, height = circe.data("faces", output=tmp_path / "faces", identities=1, size=16, sheet=tmp_path / "s.png")
    assert (pictures, width, height) == (576, 14, 16) and (tmp_path / "s.png").stat().st_size > 0
    with pytest.raises(circe.ArgumentError, match="no set 'cats'"):
        circe.data("cats", output=tmp_path / "cats")
    with pytest.raises(circe.ArgumentError, match="output is required"):
        circe.data("faces")


# ---- results ------------------------------------------------------------------------------------------------------------


def test_an_audit_as_a_table():
    found = circe.audit(TABLE, **AUDIT)
    assert found._repr_html_().count("<tr>") == 3 and "high, or so" in found.findings[0].groups["labels"]
    assert "decision='depends'" in repr(found.findings[1]) and found.quality[0]["prediction"] == "x"
    pandas = pytest.importorskip("pandas")
    assert isinstance(found.to_pandas(), pandas.DataFrame) and list(found.to_pandas()["attribute"]) == ["word", "e"]


def test_jobs_in_threads():
    wanted, found = circe.train(TABLE, **TRAIN).error, []
    threads = [threading.Thread(target=lambda: found.append(circe.train(TABLE, **TRAIN).error)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 3
