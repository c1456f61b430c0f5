"""Many trainings in this process: sweeps over options, and the experiments of the paper.

Runs are threads of the library, each with its own context; Python waits for them without its lock.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import warnings
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

import numpy as np

from . import _native, _runtime, errors
from ._jobs import Job, JobWarning, Progress, _described, schema
from ._options import Options, _unknown, text_of
from ._records import Record, frame, html_table, panels


class _Runs(Record):
    """Runs as dictionaries, and as a table."""

    runs: Tuple[Dict[str, Any], ...]

    def __len__(self) -> int:
        return len(self.runs)

    def to_pandas(self):
        """A DataFrame, one row per run."""
        return frame([{name: value for name, value in run.items() if name != "warnings"} for run in self.runs])

    def _repr_html_(self) -> str:
        return html_table({name: value for name, value in run.items() if name not in ("run", "warnings")} for run in self.runs)

    def plot(self, x: str = "circe", y: str = "loss", by: Optional[str] = None, axes=None):
        """Draws two numbers of every run against each other with matplotlib; `by`: the entry of the runs that gives the
        colours. Returns the axes."""
        (axes,) = panels(1, axes)
        known = [run for run in self.runs if run.get(x) is not None and run.get(y) is not None]
        if not known:
            raise errors.ArgumentError(f"no run has both {x!r} and {y!r}; there are {', '.join(map(repr, self.runs[0]))}")
        for value in dict.fromkeys(run.get(by) if by else None for run in known):
            chosen = [run for run in known if not by or run.get(by) == value]
            axes.plot([run[x] for run in chosen], [run[y] for run in chosen], "o", label=f"{by} {value}" if by else None)
        axes.set(xlabel=x, ylabel=y)
        if by:
            axes.legend()
        return axes


def _warn_of_failures(runs: Iterable[Dict[str, Any]]) -> None:
    for run in runs:
        if run.get("error"):
            warnings.warn(f"the run {run['run']} failed: {run['error']}", JobWarning, stacklevel=3)


# ---- sweeps -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class Sweep(_Runs):
    """`runs`: one dictionary per combination, with its options and its numbers on the validation rows: loss, r2 or
    accuracy, floor, circe, hscic, gcm, hsic, gamma, epochs, seconds; `model`, the path of its file, if there is a folder;
    `error` if it failed. The last option varies fastest. to_pandas() gives a table."""

    _shown = ("options", "failed", "seconds", "folder")

    options: Tuple[str, ...]
    runs: Tuple[Dict[str, Any], ...]
    failed: int
    seconds: float
    folder: Optional[str]

    def best(self, number: str = "loss", largest: bool = False) -> Dict[str, Any]:
        """The run in which this number is smallest, or largest."""
        known = [run for run in self.runs if run.get(number) is not None]
        if not known:
            raise errors.ArgumentError(f"no run has the number {number!r}")
        return (max if largest else min)(known, key=lambda run: run[number])


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',;"') else text


def _over_text(job: Job, over: Mapping[str, Any]) -> str:
    """The axes as the library reads them."""
    axes: List[str] = []
    for name, values in over.items():
        row = job.schema.by_name.get(name)
        if row is None:
            raise _unknown(job.schema, name)
        if not values:
            raise errors.ArgumentError(f"over[{name!r}] has no value to try")
        given = (job.table.expanded(v) if job.table is not None and row.kind == "list" else v for v in values)
        axes.append(f"{row.option}={','.join(_quoted(text_of(row, value)) for value in given)}")
    return ";".join(axes)


def _values(over) -> Dict[str, List[Any]]:
    if not isinstance(over, Mapping) or not over:
        raise errors.DTypeError(f"over is {over!r}; it must be options of the training with the values to try: "
                                "{'gamma': [0, 10, 100], 'seed': range(3)}")
    for name, values in over.items():
        if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            raise errors.DTypeError(f"over[{name!r}] is {values!r}; it must be a list of the values to try")
    return {name: values.tolist() if isinstance(values, np.ndarray) else list(values) for name, values in over.items()}


class _SweepJob(Job):
    """A job whose errors also name options of the sweep."""

    def check(self, status: int) -> None:
        try:
            super().check(status)
        except errors.CirceError as failure:
            raise type(failure)(schema("sweep").spelled(str(failure))) from None


@_described("train", "data", "output", "resume", "sweep")
def sweep(data=None, over: Optional[Mapping[str, Any]] = None, *, jobs: Optional[int] = None, threads: int = 1, folder=None,
          progress: Optional[Progress] = None, **options) -> Sweep:
    """Trains with every combination of some options, several trainings at the same time in this process.

    data, progress and the options are those of circe.train. over: options and the values to try. jobs: the number of
    trainings at the same time; None: as many as the cores allow. threads: threads per training. folder: where to write
    results and models; a run whose result is already there, with the same settings and data, is not repeated. Without a
    folder, nothing is written.

    >>> import numpy as np
    >>> y, e, f = np.random.default_rng(0).normal(size=(3, 600))
    >>> table = {"x": y + e, "w": e + 0.1 * f, "y": y, "e": e}
    >>> found = sweep(table, {"gamma": [0, 100], "seed": [1, 2]}, features=["x", "w"], target="y", invariant_to="e", epochs=2)
    >>> len(found), [run["gamma"] for run in found.runs]
    (4, [0, 0, 100, 100])

    The options are those of `circe train`:
    """
    values = _values(over)
    job, made = _SweepJob("train", data, options, progress), ctypes.c_void_p()
    training, table = job.options, None if job.table is None else job.table.pointer
    job.options = Options(schema("sweep"), {"over": _over_text(job, values), "jobs": jobs, "threads": threads, "folder": folder})
    job.call("circe_sweep", job.context.pointer, table, training.pointer, ctypes.byref(made))
    handle = _runtime.Handle(made.value or 0, _native.jobs().circe_sweep_result_free, job.context.handle)
    found = json.loads(_native.taken_text(_native.jobs().circe_sweep_json(handle.pointer)))
    runs = []
    for run, combination in zip(found["runs"], itertools.product(*values.values())):
        numbers = {name: value for name, value in run.items() if name not in ("run", "options", *values)}
        runs.append({"run": run["run"], **dict(zip(values, combination)), **numbers})
    _warn_of_failures(runs)
    return Sweep(tuple(values), tuple(runs), found["failed"], found["seconds"], found.get("folder"))


# ---- experiments --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class Experiment(_Runs):
    """`runs`: every run with its model, method, gamma, seed, role and numbers. `summary`: medians over the seeds for every
    model, method and choice; `chosen` marks the one that the validation data prefer. `folder`: with report.html,
    results.json and results.csv. `results`: all of it, as `circe experiment --json` writes it."""

    _shown = ("name", "title", "failed", "folder")

    name: str
    title: str
    runs: Tuple[Dict[str, Any], ...]
    summary: Tuple[Dict[str, Any], ...]
    failed: int
    folder: str
    results: Dict[str, Any]


@_described("experiment")
def experiment(name: Optional[str] = None, *, progress: Optional[Progress] = None, **options) -> Experiment:
    """Runs one of the paper's experiments (circe.experiments() lists them), or the experiment in the file `config`, in this
    process.

    Runs already finished in its folder are not repeated, so a stopped experiment continues when it is called again. The
    options are those of `circe experiment`:
    """
    job, made = Job("experiment", None, options, progress), ctypes.c_void_p()
    named = None if name is None else os.fsencode(name)
    job.call("circe_experiment", job.context.pointer, named, ctypes.byref(made))
    handle = _runtime.Handle(made.value or 0, _native.jobs().circe_experiment_result_free, job.context.handle)
    found = json.loads(_native.taken_text(_native.jobs().circe_experiment_json(handle.pointer)))
    return Experiment(found["experiment"], found["title"], tuple(found["runs"]), tuple(found["summary"]), found["failed"],
                      found["folder"], found)


def experiments() -> Dict[str, str]:
    """The available experiments: names and titles."""
    found, n = ctypes.c_void_p(), ctypes.c_int64()
    library = _native.jobs()
    _native.check(library.circe_experiment_list(ctypes.byref(found), ctypes.byref(n)))
    entries = ctypes.cast(found, ctypes.POINTER(_native.ExperimentEntry))
    try:
        return {entries[i].name.decode(): (entries[i].title or entries[i].error).decode() for i in range(n.value)}
    finally:
        library.circe_experiment_list_free(found.value)
