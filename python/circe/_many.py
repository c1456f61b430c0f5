"""Many tests of conditional independence on one table."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from . import _jobs, _native, errors
from ._options import listed
from ._records import Record, frame, html_table


@dataclass(frozen=True, repr=False)
class Answer(Record):
    """One of many tests: `x`, `z` and `y` (None: nothing is given) list its columns. `p_holm` and `p_bh` are adjusted for the
    number of tests. `error` says why there is no p-value (NaN). `results`: everything, as `circe test --pairs --json`."""

    _shown = ("x", "z", "y", "p_value", "p_holm", "p_bh", "trust")

    x: str
    z: str
    y: Optional[str]
    p_value: float
    p_holm: float
    p_bh: float
    trust: Optional[str]
    error: Optional[str]
    cached: bool
    results: Dict[str, Any]

    def __float__(self) -> float:
        return self.p_value


@dataclass(frozen=True, repr=False, eq=False)
class Answers(Record, Sequence):
    """The answers, in the order of the questions. to_pandas() makes a DataFrame of them."""

    _shown = ("method", "failed", "cached")

    method: str
    failed: int
    cached: int
    answers: Tuple[Answer, ...]
    warnings: Tuple[str, ...]

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, index):
        return self.answers[index]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def _rows(self) -> List[Dict[str, Any]]:
        names = ("x", "z", "y", "p_value", "p_holm", "p_bh", "trust", "error")
        return [{name: getattr(answer, name) for name in names} for answer in self.answers]

    def to_pandas(self):
        """A DataFrame, one row per question."""
        return frame(self._rows())

    def _repr_html_(self) -> str:
        return html_table(self._rows())


def _columns(value, name: str, number: int) -> Optional[bytes]:
    """A list of columns, as the command line writes it."""
    if value is None:
        return None
    if isinstance(value, (str, int)):
        value = [value]
    try:
        return listed(list(value)).encode()
    except TypeError:
        raise errors.DTypeError(f"question {number}: {name} is {value!r}; it must be a column or a list of columns") from None


def _questions(pairs) -> List[_native.Question]:
    made = []
    for number, pair in enumerate(pairs):
        parts = tuple(pair) if not isinstance(pair, (str, bytes)) else ()
        if len(parts) not in (2, 3):
            raise errors.ArgumentError(f"question {number} is {pair!r}; it must be (x, z) or (x, z, y)")
        x, z, y = (*parts, None)[:3]
        made.append(_native.Question(_columns(x, "x", number), _columns(y, "y", number) or None, _columns(z, "z", number)))
    if not made:
        raise errors.ArgumentError("pairs is empty; it needs at least one (x, z, y)")
    return made


def _answer(found: Dict[str, Any]) -> Answer:
    number = lambda name: float("nan") if found.get(name) is None else float(found[name])
    return Answer(found["x"], found["z"], found["y"], number("p_value"), number("p_holm"), number("p_bh"), found.get("trust"),
                  found.get("error"), bool(found.get("cached")), found)


@_jobs._described("test", "data", "x", "y", "z", "columns_x", "columns_y", "columns_z", "pairs", "calibrate", "effects", "rows",
                  "seconds", "imputations", "auxiliary_y", "auxiliary_z", "kernel_x", "kernel_y", "kernel_z", "mean",
                  "test_share")
def test_many(data, pairs, *, method: str = "kci", progress=None, **options) -> Answers:
    """Tests many (x, z) or (x, z, y) on one table; y is a column or a list of them. Tests on the same y share their regressions,
    and all threads work on them side by side.

    data: a DataFrame (pandas, polars, pyarrow), a dictionary of columns, an array (n, columns) whose columns are called 0, 1,
    ..., or the path of a table. pairs may also be the path of a .csv with the columns x, z and y. missing="drop": each test
    leaves out the rows that its own columns miss a cell in.

    >>> import numpy as np
    >>> y, e, f = np.random.default_rng(0).normal(size=(3, 300))
    >>> found = test_many({"a": y + e, "b": y + f, "c": y}, [("a", "b"), ("a", "b", "c"), ("a", "c", ["b"])])
    >>> [answer.p_holm < 0.05 for answer in found]
    [True, False, True]

    The options are those of `circe test`:
    """
    from_file = isinstance(pairs, str) or hasattr(pairs, "__fspath__")
    job = _jobs.Job("test", data, {**options, **({"pairs": pairs} if from_file else {})}, progress)
    asked = [] if from_file else _questions(pairs)
    array = (_native.Question * len(asked))(*asked) if asked else None
    made = ctypes.c_void_p()
    table = None if job.table is None else job.table.pointer
    job.call("circe_tests_run", job.context.pointer, table, str(method).encode(), array, len(asked), ctypes.byref(made))
    results = json.loads(_native.taken_text(_native.jobs().circe_tests_json(made)))
    _native.jobs().circe_tests_result_free(made)
    return Answers(results["method"], results["failed"], results["cached"], tuple(map(_answer, results["tests"])),
                   tuple(results.get("warnings", ())))


setattr(test_many, "__test__", False)  # pytest: not one of yours
