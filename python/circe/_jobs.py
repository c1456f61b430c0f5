"""Training and prediction in this process: one call of libcirce_jobs each.

Data are tables in memory (_tables.py) or the path of a file; options are those of the command, by name (_options.py). The
signatures and the documentation of jobs come from the library's own tables when this file is imported.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

import numpy as np

from . import _native, _runtime, errors
from ._model import bytes_of, from_bytes
from ._options import Options, Schema
from ._records import Record, frame, html_table, panels
from ._tables import Table, is_table

Progress = Callable[[float, str], Any]


class JobWarning(UserWarning):
    """A warning about the data or the result of a job."""


# ---- running a job ------------------------------------------------------------------------------------------------------


class _Watch:
    """Watches a job: `progress(done, text)` may return True to stop it; Ctrl-C stops it too."""

    def __init__(self, progress: Optional[Progress]):
        if progress is not None and not callable(progress):
            raise errors.DTypeError(f"progress is {progress!r}; it must be a function of the share that is done and a text")
        self.progress, self.texts = progress, []  # type: Optional[Progress], List[str]
        self.failure: Optional[BaseException] = None
        self._called = _native.WatchProgress(self._progress), _native.WatchWarning(self._warning)
        self.structure = _native.Watch(None, *(ctypes.cast(function, ctypes.c_void_p) for function in self._called))

    def _progress(self, user, done: float, text: Optional[bytes]) -> int:
        try:
            stop = self.progress is not None and self.progress(done, (text or b"").decode(errors="replace"))
        except BaseException as failure:  # raised again once Python is back
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
        """The options, with the names of arrays in lists replaced by those of their columns."""
        rows = self.schema.by_name
        return {name: table.expanded(value) if name in rows and rows[name].kind == "list" else value
                for name, value in options.items()}

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
            failure = self.schema.fail(status)
            for name, error in self.table.unread.items() if self.table is not None else ():
                if f"no column '{name}'" in str(failure):
                    raise error
            raise failure


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
        except errors.VersionError:  # raised when the function is called
            return function
        function.__signature__ = rows.signature(own, left_out, function.__annotations__.get("return", inspect.Signature.empty))
        function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{rows.documentation(left_out)}\n"
        return function

    return decorate


def _folder(path) -> bytes:
    os.makedirs(path, exist_ok=True)
    return os.fsencode(path)


_FEW_ROWS = 10  # of predictions, in a notebook


# ---- predictors ---------------------------------------------------------------------------------------------------------


class Predictor:
    """A trained network, with the columns that it needs and how to treat them. It can be pickled."""

    def __init__(self, handle: _runtime.Handle):
        self._handle = handle

    @property
    def pointer(self) -> int:
        return self._handle.pointer

    @classmethod
    def load(cls, path) -> "Predictor":
        """Loads a file that save() or `circe train` wrote."""
        context = _runtime.context()
        return cls(_runtime.make("circe_model_load", "circe_model_free", context.pointer, os.fsencode(path),
                                 parents=[context.handle], library=_native.jobs()))

    def save(self, path) -> None:
        """Writes a .safetensors file for `circe predict`. If writing fails, an existing file stays as it was."""
        _native.check(_native.jobs().circe_model_save(_runtime.context().pointer, self.pointer, os.fsencode(path)))

    def predict(self, data, **options) -> "Predictions":
        """As circe.predict."""
        return predict(self, data, **options)

    def to_bytes(self) -> bytes:
        """The contents of its file."""
        return bytes_of(self.save)

    @classmethod
    def from_bytes(cls, contents: bytes) -> "Predictor":
        return from_bytes(contents, cls.load)

    def __reduce__(self):
        return Predictor.from_bytes, (self.to_bytes(),)


@dataclass(frozen=True, repr=False, eq=False)
class Predictions(Record):
    """`values` (n, outputs): in the units of the target, or the probabilities of classes; NaN if a cell of the row is
    missing. `names`: the columns of the target, or the classes. `target`: the column of the classes; None: numbers.
    `errors`: the errors, if the data contain the target. np.asarray() gives the values."""

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
        """The most probable class of every row, of shape (n,). None where a cell is missing."""
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

    def _repr_html_(self) -> str:
        few = html_table(dict(zip(self.names, row)) for row in self.values[:_FEW_ROWS].tolist())
        return few + (f"<p>and {len(self) - _FEW_ROWS:,} more rows</p>" if len(self) > _FEW_ROWS else "")


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
    """Predicts with a model.

    model: what circe.train returned, a Predictor, or the path of a model's file. data: a DataFrame (pandas, polars,
    pyarrow), a dictionary of columns, an array, or the path of a table; it needs the columns of the training, in any
    order. progress: called with the finished share and a text; if it returns True, the work stops. The options are those
    of `circe predict`:
    """
    return predictions_of(_predictor(model), data, options, progress)


# ---- training -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class Training(Record):
    """The result of a training: `predictor`; `error` on the test rows (with test=0, on the validation rows); `gamma`,
    given or chosen; `comparison`: error, tests and KPC of this network and of the same network without the regulariser, on
    the same rows; `trials`: error and dependence for each gamma, if it was chosen or swept, one dictionary per gamma;
    `measures` of the dependence of the target, of the baseline and of this network; `floor`: no invariant predictor can
    have an error below it; `history`, one row per epoch, a structured array; `results`: all of it, as `circe train --json`
    writes it."""

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
        """Writes the predictor to a file for `circe predict` and Predictor.load."""
        self.predictor.save(path)

    def to_pandas(self):
        """A DataFrame of `history`, one row per epoch."""
        return frame([dict(zip(self.history.dtype.names or (), row)) for row in self.history.tolist()])

    def plot(self, axes=None):
        """Draws the loss over the epochs and, if gamma was chosen or swept, error against dependence for each gamma, using
        matplotlib. Returns the axes."""
        trials = [t for t in self.trials if None not in (t["error"]["value"], t["kpc"]["value"])]
        axes = panels(2 if trials else 1, axes)
        for name in ("loss", "validation_loss"):
            axes[0].plot(np.arange(1, len(self.history) + 1), self.history[name], label=name.replace("_", " "))
        axes[0].set(xlabel="epoch", ylabel="loss")
        axes[0].legend()
        if len(axes) > 1:
            _plot_trials(axes[1], trials)
        return axes

    def report(self, folder) -> None:
        """Writes report.html with its figures, results.json, results.csv, predictions.csv, sweep.csv and run.yaml into a
        folder."""
        _native.check(_native.jobs().circe_training_report(_runtime.context().pointer, self._handle.pointer, _folder(folder)))

    def __reduce__(self):
        raise TypeError("a Training cannot be pickled; pickle its predictor and results")


def _plot_trials(axes, trials: List[Dict[str, Any]]) -> None:
    for trial in trials:
        place = trial["error"]["value"], trial["kpc"]["value"]
        axes.plot(*place, "o", color="C3" if trial["chosen"] else "C0")
        axes.annotate(f"\u03b3 = {trial['gamma']:g}", place, textcoords="offset points", xytext=(4, 4))
    axes.set(xlabel="error", ylabel="KPC on rows left out of training")


def _history(found: _native.Training) -> np.ndarray:
    if not found.epochs or not found.history:
        return np.empty(0, _native.TrainingEpoch)
    return np.ctypeslib.as_array(found.history, (found.epochs,)).copy()


@_described("train", "data")
def train(data=None, *, progress: Optional[Progress] = None, **options) -> Training:
    """Trains a network whose prediction does not depend on `invariant_to` once `given` is known.

    data: a DataFrame (pandas, polars, pyarrow), a dictionary of columns, an array (n, columns) whose columns are called 0, 1,
    ..., or the path of a table. In a dictionary, an array of two dimensions gives all its columns one name. Categoricals and
    text are categories. The model stays in memory; `output` also writes it to a file. progress: called with the finished
    share and a text; if it returns True, the training stops (CancelledError). Ctrl-C stops it too.

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
                    results["seconds"], results)._holding(handle)


# ---- pictures -----------------------------------------------------------------------------------------------------------


@_described("data")
def data(set: str, *, progress: Optional[Progress] = None, **options) -> Tuple[int, int, int]:
    """Makes the pictures of the image experiments ("faces" or "dsprites"), or a "contact-sheet" of such a set. Returns the
    number of pictures, their width and their height. The options are those of `circe data`:
    """
    job, made = Job("data", None, options, progress), (ctypes.c_int64 * 3)()
    job.call("circe_data", job.context.pointer, str(set).encode(), made)
    return made[0], made[1], made[2]
