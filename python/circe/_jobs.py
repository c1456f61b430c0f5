"""Training, prediction and audits, in this process: one call of libcirce_jobs each.

Data are tables in memory (_tables.py) or the path of a file; options are those of the command, by name (_options.py). The
signatures and the documentation of train, predict and audit are made of the library's own tables when this file is imported.
"""

from __future__ import annotations

import ctypes
import html
import inspect
import json
import math
import os
import tempfile
import warnings
from dataclasses import dataclass, fields
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

import numpy as np

from . import _native, _runtime, errors
from ._inference import _Record
from ._options import Options, Schema, listed
from ._tables import Table, is_table

Progress = Callable[[float, str], Any]


class JobWarning(UserWarning):
    """What a job has to say about its data or its result."""


# ---- running a job ------------------------------------------------------------------------------------------------------


class _Watch:
    """Someone who watches a job: `progress(done, text)` may return True to stop it, and so does Ctrl-C."""

    def __init__(self, progress: Optional[Progress]):
        if progress is not None and not callable(progress):
            raise errors.DTypeError(f"progress is {progress!r}; it must be a function of the share that is done and a text")
        self.progress, self.texts = progress, []  # type: Optional[Progress], List[str]
        self.failure: Optional[BaseException] = None
        self.structure = _native.Watch(None, _native.WatchProgress(self._progress), _native.WatchWarning(self._warning))

    def _progress(self, user, done: float, text: Optional[bytes]) -> int:
        try:
            stop = self.progress is not None and self.progress(done, (text or b"").decode(errors="replace"))
        except BaseException as failure:  # goes on where Python is again
            self.failure, stop = failure, True
        return 1 if stop or _runtime.is_stopping() else 0

    def _warning(self, user, text: bytes) -> None:
        self.texts.append(text.decode(errors="replace"))


class Job:
    """A job's options and data, ready to run."""

    def __init__(self, name: str, data, options: Dict[str, Any], progress: Optional[Progress]):
        self.schema = schema(name)
        self.table = Table(data) if is_table(data) else None
        if self.table is not None:
            options = self._of_table(self.table, options)
        elif data is not None:
            options = {**options, "data": data}
        self.options = Options(self.schema, options)
        self.watch = _Watch(progress)
        self.context = _runtime.context()

    def _of_table(self, table: Table, options: Dict[str, Any]) -> Dict[str, Any]:
        """Arrays by their columns, and the columns that are categories by their dtype."""
        rows = self.schema.by_name
        options = {name: table.expanded(value) if name in rows and rows[name].kind == "list" else value
                   for name, value in options.items()}
        given = options.get("categories")
        if table.categories and "categories" in rows:
            own = given if isinstance(given, str) else listed(given or ())
            options["categories"] = ",".join(part for part in (own, listed(table.categories)) if part)
        return options

    def run(self, function: str, destroy: str, *arguments, parents=(), depth: int = 3) -> _runtime.Handle:
        """The result of `function`, of which options, watch and result are the last arguments. depth: of the caller who is
        warned."""
        made = ctypes.c_void_p()
        table = None if self.table is None else self.table.pointer
        self.call(function, self.context.pointer, *arguments, table, ctypes.byref(made), depth=depth + 1)
        return _runtime.Handle(made.value or 0, getattr(_native.jobs(), destroy), self.context.handle, *parents)

    def call(self, function: str, *arguments, depth: int = 3) -> None:
        """Calls it with options and watch before the last argument."""
        *first, made = arguments
        with _runtime.interruptible():
            status = getattr(_native.jobs(), function)(*first, self.options.pointer, ctypes.byref(self.watch.structure), made)
            self.check(status)
        for text in self.watch.texts:
            warnings.warn(self.schema.spelled(text), JobWarning, stacklevel=depth)

    def check(self, status: int) -> None:
        if self.watch.failure is not None:
            raise self.watch.failure
        if status:
            raise self.schema.fail(status)


_schemas: Dict[str, Schema] = {}


def schema(job: str) -> Schema:
    """The options of a job, read once."""
    if job not in _schemas:
        _schemas[job] = Schema(job)
    return _schemas[job]


Function = TypeVar("Function", bound=Callable[..., Any])


def _described(job: str, *left_out: str) -> Callable[[Function], Function]:
    """Gives a function the signature and the documentation of its job's options."""

    def decorate(function: Function) -> Function:
        own = [p for p in inspect.signature(function).parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        try:
            rows = schema(job)
        except errors.VersionError:  # said when it is called
            return function
        function.__signature__ = rows.signature(own, left_out, function.__annotations__.get("return", inspect.Signature.empty))
        function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{rows.documentation(left_out)}\n"
        return function

    return decorate


def _folder(path) -> bytes:
    os.makedirs(path, exist_ok=True)
    return os.fsencode(path)


# ---- predictors ---------------------------------------------------------------------------------------------------------


class Predictor:
    """A trained network with the columns that it needs and their treatment. It can be pickled."""

    def __init__(self, handle: _runtime.Handle):
        self._handle = handle

    @property
    def pointer(self) -> int:
        return self._handle.pointer

    @classmethod
    def load(cls, path) -> "Predictor":
        """From a file that save() or `circe train` wrote."""
        context = _runtime.context()
        return cls(_runtime.make("circe_model_load", "circe_model_free", context.pointer, os.fsencode(path),
                                 parents=[context.handle], library=_native.jobs()))

    def save(self, path) -> None:
        """As .safetensors, for `circe predict`. An existing file is replaced whole or not at all."""
        _native.check(_native.jobs().circe_model_save(_runtime.context().pointer, self.pointer, os.fsencode(path)))

    def predict(self, data, **options) -> "Predictions":
        """As circe.predict."""
        return predict(self, data, **options)

    def to_bytes(self) -> bytes:
        """The contents of its file."""
        with tempfile.TemporaryDirectory(prefix="circe-") as folder:
            path = os.path.join(folder, "model.safetensors")
            self.save(path)
            with open(path, "rb") as file:
                return file.read()

    @classmethod
    def from_bytes(cls, contents: bytes) -> "Predictor":
        with tempfile.TemporaryDirectory(prefix="circe-") as folder:
            path = os.path.join(folder, "model.safetensors")
            with open(path, "wb") as file:
                file.write(contents)
            return cls.load(path)

    def __reduce__(self):
        return Predictor.from_bytes, (self.to_bytes(),)


@dataclass(frozen=True, repr=False, eq=False)
class Predictions(_Record):
    """`values` (n, outputs): in the target's units, or the probabilities of classes; NaN where a cell of the row is missing.
    `names`: columns of the target, or classes. `target`: the column that classes are of; None: numbers. `errors`: how targets
    that the data have compare. np.asarray() gives the values."""

    _shown = ("names", "target", "rows_without")

    values: np.ndarray
    names: Tuple[str, ...]
    target: Optional[str]
    rows_without: int
    errors: Tuple[dict, ...]
    warnings: Tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.values if dtype is None else self.values.astype(dtype)

    @property
    def labels(self) -> np.ndarray:
        """(n,): the most probable class of every row; None where a cell is missing."""
        if self.target is None:
            raise errors.UnsupportedError("these are predictions of numbers, which have no classes: see values")
        found = np.full(len(self.values), None, dtype=object)
        known = ~np.isnan(self.values[:, 0])
        found[known] = np.array(self.names, dtype=object)[self.values[known].argmax(axis=1)]
        return found

    def to_pandas(self):
        """A DataFrame, one column per output."""
        import pandas

        return pandas.DataFrame(self.values, columns=list(self.names))


def _texts(pointer, n: int) -> Tuple[str, ...]:
    return tuple(pointer[i].decode(errors="replace") for i in range(n))


def _predictor(model) -> Predictor:
    if isinstance(model, Training):
        return model.predictor
    return model if isinstance(model, Predictor) else Predictor.load(model)


def predictions_of(model: Predictor, data, options: Dict[str, Any], progress: Optional[Progress] = None,
                   compare: bool = True) -> Predictions:
    job = Job("predict", data, options, progress)
    handle = job.run("circe_predict", "circe_predictions_free", model.pointer, parents=[model._handle], depth=4)
    table = None if job.table is None else job.table.pointer
    if compare:
        job.check(_native.jobs().circe_predictions_compare(handle.pointer, table, job.options.pointer,
                                                           ctypes.byref(job.watch.structure)))
    found = _native.Predictions.from_address(handle.pointer)
    shape = (found.rows, found.outputs)
    compared = tuple({name: value.decode() if isinstance(value, bytes) else value for name, value in
                      ((field[0], getattr(found.errors[i], field[0])) for field in _native.PredictionError._fields_)
                      if value == value} for i in range(found.n_errors))
    return Predictions(np.ctypeslib.as_array(found.values, shape).copy(), _texts(found.names, found.outputs),
                       found.target.decode() if found.target else None, found.rows_without, compared,
                       _texts(found.warnings.text, found.warnings.n))


@_described("predict", "model", "data", "output")
def predict(model, data=None, *, progress: Optional[Progress] = None, **options) -> Predictions:
    """Predictions of a model.

    model: what circe.train returned, a Predictor, or the path of a model's file. data: a DataFrame (pandas, polars, pyarrow), a
    dictionary of columns, an array, or the path of a table; it has the columns of the training, in any order. progress: called
    with the share that is done and a text; where it returns True, the work stops. The options are those of `circe predict`:
    """
    return predictions_of(_predictor(model), data, options, progress)


# ---- training -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class Training(_Record):
    """What came of a training: `predictor`, which predicts; `error` on the test rows (with test=0, on the validation rows);
    `gamma`, given or chosen; `comparison`: error, tests and KPC of this network and of the same one without the regulariser, on
    those rows; `trials`: error and dependence along gamma, where it was chosen or swept, one dictionary per gamma; `measures` of
    the dependence of the target, of the baseline and of this network; `floor`: the error that no invariant predictor can go
    below; `history`, one row per epoch, a structured array; `results`: all of it, as `circe train --json` writes it."""

    _shown = ("error", "gamma", "floor", "epochs", "seconds")

    predictor: Predictor
    error: Dict[str, Any]
    measures: Dict[str, Dict[str, Optional[float]]]
    floor: Optional[float]
    epochs: int
    history: np.ndarray
    columns: Tuple[dict, ...]
    warnings: Tuple[str, ...]
    seconds: float
    results: Dict[str, Any]
    _handle: _runtime.Handle

    @property
    def gamma(self) -> float:
        return self.results["settings"]["gamma"]

    @property
    def comparison(self) -> Dict[str, Any]:
        return self.results["comparison"]

    @property
    def trials(self) -> List[Dict[str, Any]]:
        return self.results.get("search", {}).get("trials", [])

    def predict(self, data, **options) -> Predictions:
        """As circe.predict with this training's predictor."""
        return predict(self.predictor, data, **options)

    def save(self, path) -> None:
        """The predictor as a file, for `circe predict` and Predictor.load."""
        self.predictor.save(path)

    def report(self, folder) -> None:
        """report.html with its figures, results.json, results.csv, predictions.csv, sweep.csv and run.yaml into a folder."""
        _native.check(_native.jobs().circe_training_report(_runtime.context().pointer, self._handle.pointer, _folder(folder)))

    def __reduce__(self):
        raise TypeError("a Training cannot be pickled; pickle its predictor and results")


def _history(found: _native.Training) -> np.ndarray:
    kind = np.dtype([(name, np.float64) for name in _native.TRAINING_EPOCH])
    if not found.epochs or not found.history:
        return np.empty(0, kind)
    return np.ctypeslib.as_array(found.history, (found.epochs, len(_native.TRAINING_EPOCH))).copy().view(kind)[:, 0]


@_described("train", "data")
def train(data=None, *, progress: Optional[Progress] = None, **options) -> Training:
    """Trains a network whose prediction does not depend on `invariant_to` once `given` is known.

    data: a DataFrame (pandas, polars, pyarrow), a dictionary of columns, an array (n, columns) whose columns are called 0, 1,
    ..., or the path of a table. Of a dictionary, an array of two dimensions is one name for all its columns. Categoricals and
    text are categories. The model is kept in memory, and written where `output` is given. progress: called with the share that
    is done and a text; where it returns True, the training stops (CancelledError). Ctrl-C stops it too.

    >>> import numpy as np
    >>> y, e, f = np.random.default_rng(0).normal(size=(3, 600))
    >>> table = {"x": y + e, "w": e + 0.1 * f, "y": y, "e": e}
    >>> fitted = train(table, features=["x", "w"], target="y", invariant_to="e", gamma=100, epochs=3)
    >>> fitted.epochs, fitted.predict({"x": [0.0, 1.0], "w": [0.0, 0.0]}).values.shape
    (3, (2, 1))

    The options are those of `circe train`:
    """
    job = Job("train", data, options, progress)
    handle = job.run("circe_train", "circe_training_free")
    found = _native.Training.from_address(handle.pointer)
    results = json.loads(_native.taken_text(_native.jobs().circe_training_json(handle.pointer, None)))
    inside = _runtime.Handle(found.model or 0, lambda pointer: None, handle)  # the training owns it
    return Training(Predictor(inside), results["error"], results.get("measures", {}), results.get("floor"), results["epochs"],
                    _history(found), tuple(results.get("columns", ())), _texts(found.warnings.text, found.warnings.n),
                    results["seconds"], results, handle)


# ---- pictures -----------------------------------------------------------------------------------------------------------


@_described("data")
def data(set: str, *, progress: Optional[Progress] = None, **options) -> Tuple[int, int, int]:
    """Makes the pictures of the image experiments: "faces" or "dsprites", or a "contact-sheet" of a set's pictures. Returns how
    many there are, their width and their height. The options are those of `circe data`:
    """
    job, made = Job("data", None, options, progress), (ctypes.c_int64 * 3)()
    job.call("circe_data", job.context.pointer, str(set).encode(), made)
    return made[0], made[1], made[2]


# ---- audits -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class Finding(_Record):
    """Does one prediction depend on one attribute, once the outcome is known, or as another `notion` asks? `decision`, `verdict`
    and `trust` in words; `p_value`, and `p_adjusted` for several attributes (Holm); `tests`, `effects`, `along`, `measures`, `gaps` between groups and
    the `groups` themselves as in the command's JSON."""

    _shown = ("prediction", "attribute", "decision", "p_adjusted", "trust")

    notion: str
    prediction: str
    attribute: str
    decision: str
    verdict: str
    p_value: float
    p_adjusted: float
    trust: str
    tests: List[dict]
    effects: Optional[dict]
    along: Optional[dict]
    measures: Dict[str, Optional[float]]
    gaps: List[dict]
    groups: Dict[str, Any]


@dataclass(frozen=True, repr=False, eq=False)
class Audit(_Record):
    """`findings`: one for every prediction and attribute. `quality`: how good each prediction is. `n` rows, `dropped` of them
    with missing cells. `results`: all of it, as `circe audit --json` writes it. As DataFrames: to_pandas(), `groups`, `gaps`,
    `overall`; as pictures: plot(); as a page: to_html()."""

    _shown = ("findings", "n", "dropped")

    findings: Tuple[Finding, ...]
    quality: Tuple[dict, ...]
    n: int
    dropped: int
    alpha: float
    warnings: Tuple[str, ...]
    seconds: float
    results: Dict[str, Any]
    _handle: _runtime.Handle

    def report(self, folder) -> None:
        """report.html with figures, their scripts and data, results.json and results.csv into a folder."""
        _native.check(_native.jobs().circe_audit_report(self._handle.pointer, _folder(folder)))

    def to_html(self, path=None) -> Optional[str]:
        """The report as one file that needs nothing beside it; without a path, its text."""
        with tempfile.TemporaryDirectory(prefix="circe-") as folder:
            self.report(folder)
            with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
                text = file.read()
        if path is None:
            return text
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return None

    def to_pandas(self):
        """A DataFrame, one row per finding."""
        names = ("notion", "prediction", "attribute", "decision", "p_value", "p_adjusted", "trust", "verdict")
        return _frame([{**{name: getattr(f, name) for name in names}, **_effect(f)} for f in self.findings])

    @property
    def groups(self):
        """A DataFrame, one row per prediction, attribute and group: `rows`, `compared` (large enough to set a gap), and every
        metric as fairlearn's MetricFrame.by_group has it, with the ends of its 95 % interval: `true_positive_rate`,
        `true_positive_rate_lower`, `true_positive_rate_upper`."""
        found = self.findings[:len(self.findings) // max(1, len(self.results["notions"]))]
        return _frame([row for finding in found for row in _group_rows(finding)], ["prediction", "attribute", "group"])

    @property
    def gaps(self):
        """A DataFrame, one row per gap between groups: how large, with its interval, between which groups, and what chance
        shows."""
        return _frame([{"notion": f.notion, "prediction": f.prediction, "attribute": f.attribute, **gap}
                       for f in self.findings for gap in f.gaps])

    @property
    def overall(self):
        """A DataFrame, one row per prediction: its metrics on all rows with their intervals."""
        return _frame([{"prediction": one["prediction"], **_with_ends(one)} for one in self.quality], ["prediction"])

    def plot(self, metric: Optional[str] = None, axes=None):
        """Draws a metric of every group with its 95 % interval, by matplotlib: one panel per attribute, one colour per
        prediction. metric: a column of `groups`; without one, the true positive rate, or the mean error of numbers. Returns the
        axes."""
        from matplotlib import pyplot

        table = self.groups
        if metric is None:
            metric = "true_positive_rate" if "true_positive_rate" in table else "mean_error"
        if metric not in table:
            raise errors.ArgumentError(f"there is no metric {metric!r}; there are {', '.join(self.metrics)}")
        attributes = list(dict.fromkeys(table.index.get_level_values("attribute")))
        if axes is None:
            axes = pyplot.subplots(1, len(attributes), figsize=(5 * len(attributes), 4), squeeze=False,
                                   constrained_layout=True)[1][0]
        for panel, attribute in zip(np.atleast_1d(axes), attributes):
            _plot_attribute(panel, table.xs(attribute, level="attribute"), metric, attribute)
        return axes

    @property
    def metrics(self) -> Tuple[str, ...]:
        """The metrics that the groups have."""
        return tuple(self.findings[0].groups["metrics"])

    def _repr_html_(self) -> str:
        names = ("notion", "prediction", "attribute", "decision", "p_adjusted", "trust", "verdict")
        signs = {"depends": "\u2717", "no dependence found": "\u2713"}
        cells = lambda f: [f"{signs.get(f.decision, '?')} {f.decision}" if name == "decision" else getattr(f, name)
                           for name in names]
        rows = [[f"{v:.3g}" if isinstance(v, float) else html.escape(str(v)) for v in cells(f)] for f in self.findings]
        head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in names)
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def __reduce__(self):
        raise TypeError("an Audit cannot be pickled; pickle its results")


def _frame(rows: List[dict], index: Optional[List[str]] = None):
    import pandas

    frame = pandas.DataFrame(rows)
    return frame.set_index(index) if index and len(frame) else frame


def _effect(finding: Finding) -> dict:
    kpc = (finding.effects or {}).get("kpc") or {}
    return {"kpc" + end: kpc.get(name, math.nan) for end, name in (("", "value"), ("_lower", "lower"), ("_upper", "upper"))}


def _with_ends(metrics: Dict[str, Any]) -> dict:
    """{"auc": {"value": v, "lower": l, "upper": u}} to {"auc": v, "auc_lower": l, "auc_upper": u}."""
    return {name + end: one[key] for name, one in metrics.items() if isinstance(one, dict)
            for end, key in (("", "value"), ("_lower", "lower"), ("_upper", "upper"))}


def _group_rows(finding: Finding) -> List[dict]:
    groups, known = finding.groups, ("prediction", "attribute")
    return [{**{name: getattr(finding, name) for name in known}, "group": label, "rows": groups["rows"][i],
             "compared": groups["compared"][i],
             **_with_ends({name: {end: one[end][i] for end in one} for name, one in groups["metrics"].items()})}
            for i, label in enumerate(groups["labels"])]


def _plot_attribute(panel, table, metric: str, attribute: str) -> None:
    """Points with bars, the predictions beside each other; no lines between groups."""
    predictions = list(dict.fromkeys(table.index.get_level_values("prediction")))
    labels = list(dict.fromkeys(table.index.get_level_values("group")))
    for k, prediction in enumerate(predictions):
        rows = table.xs(prediction, level="prediction").reindex(labels)
        value = rows[metric].to_numpy(float)
        ends = [value - rows[metric + "_lower"].to_numpy(float), rows[metric + "_upper"].to_numpy(float) - value]
        x = np.arange(len(labels)) + 0.15 * (k - 0.5 * (len(predictions) - 1))
        panel.errorbar(x, value, yerr=np.maximum(ends, 0), fmt="o", capsize=3, label=prediction)
    panel.set_xticks(range(len(labels)), labels, rotation=30, ha="right")
    panel.set(xlabel=attribute, ylabel=metric.replace("_", " "))
    if len(predictions) > 1:
        panel.legend()


def _model_path(options: Dict[str, Any], folder: str) -> Dict[str, Any]:
    """A predictor in memory as a file, which the library reads."""
    model = options.get("model")
    if not isinstance(model, (Predictor, Training)):
        return options
    path = os.path.join(folder, "model.safetensors")
    model.save(path)
    return {**options, "model": path}


def _finding(found: Dict[str, Any]) -> Finding:
    values: Dict[str, Any] = {field.name: found.get(field.name) for field in fields(Finding)}
    values.update({name: math.nan for name in ("p_value", "p_adjusted") if values[name] is None})
    return Finding(**values)


@_described("audit", "data")
def audit(data, *, progress: Optional[Progress] = None, **options) -> Audit:
    """Does a prediction depend on sensitive attributes, once the outcome is known?

    data: a DataFrame (pandas, polars, pyarrow), a dictionary of columns, an array, or the path of a table, with predictions,
    outcomes and attributes. progress: called with the share that is done and a text; where it returns True, the work stops.

    >>> import numpy as np
    >>> y, e, f = np.random.default_rng(0).normal(size=(3, 300))
    >>> found = audit({"score": y + e, "y": y, "group": np.where(e + f > 0, "a", "b")}, prediction="score", target="y",
    ...               sensitive="group", calibrate=0)
    >>> found.findings[0].decision
    'depends'

    model: what circe.train returned, a Predictor, or the path of a model's file, whose predictions of the data are audited.

    The options are those of `circe audit`:
    """
    with tempfile.TemporaryDirectory(prefix="circe-") as folder:
        job = Job("audit", data, _model_path(options, folder), progress)
        handle = job.run("circe_audit", "circe_audit_result_free")
    results = json.loads(_native.taken_text(_native.jobs().circe_audit_json(handle.pointer)))
    return Audit(tuple(map(_finding, results["findings"])), tuple(results["quality"]), results["n"], results["dropped"],
                 results["alpha"], tuple(results.get("warnings", ())), results["seconds"], results, handle)
