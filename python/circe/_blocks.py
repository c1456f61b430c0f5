"""If there are too many rows to compare all pairs: random samples, and measures as means over random blocks."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Optional

import numpy as np

from . import _arrays, _columns, _kernels, _measures, _native, _runtime, errors
from ._mean import _whole

_ROWS_STREAM = 0x726F7773  # as for the command's --rows: the same seed takes the same rows
_REGRESSED_ROWS, _SAMPLE_ROWS = 2048, 8192  # as in the command
_CANCELLED = 10  # CIRCE_ERR_CANCELLED


class SampleWarning(UserWarning):
    """A random sample of the rows was used instead of all rows."""


class BlockMeasurement:
    """The mean of a measure over random blocks of rows: `value` and its `standard_error`, `blocks` of `block_rows` rows
    each, `rows_given`, `seconds`. float() gives the value. A measure that depends on the number of rows has the value for
    `block_rows` rows."""

    __slots__ = ("measure", "value", "standard_error", "blocks", "block_rows", "rows_given", "seconds")

    def __init__(self, measure: str, found: _native.BlockResult, rows_given: int):
        self.measure, self.rows_given = measure, rows_given
        self.value, self.standard_error, self.seconds = found.value, found.standard_error, found.seconds
        self.blocks, self.block_rows = found.blocks, found.block_rows

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return (f"BlockMeasurement({self.measure!r}, value={self.value!r}, standard_error={self.standard_error:.3g}, "
                f"blocks={self.blocks}, block_rows={self.block_rows}, rows_given={self.rows_given})")


def sample_rows(n: int, rows: int, seed: int = 0) -> np.ndarray:
    """`rows` of the numbers 0 .. n - 1, ascending, at random: those that the command takes with --rows and --seed."""
    chosen = np.empty(rows, dtype=np.int64)
    _native.library().circe_random_subset(_native.Random(seed, _ROWS_STREAM), n, rows, chosen.ctypes.data)
    return chosen


def _settled(name: str, x, y, z, options: Dict[str, Any]) -> Dict[str, Any]:
    """The options with every width and ridge chosen on these rows, so that every block uses the same."""
    context, settled = _runtime.context(), dict(options)
    mean = options.get("mean") is not None
    variables = {"circe": "x", "circe-spectral": "x", "hscic": "x" if mean else "xz", "gcm": "", "nocco": "xyz",
                 "kpc": "xyz"}.get(name, "xz")
    for variable, values in (("x", x), ("y", y), ("z", z)):
        if variable not in variables:
            continue
        mat, keep = _arrays.view(values, variable)
        kernel = _kernels.bound(context, _columns.kernel_of(options.get(f"kernel_{variable}", "gaussian"), keep),
                                options.get(f"sigma2_{variable}", "median"), mat, variable)
        settled[f"kernel_{variable}"], settled[f"sigma2_{variable}"] = _kernels.text(kernel), None
    if name in ("hscic", "gcm", "kci") and not mean:
        chosen = _measures.measure(name, x, y, z, **settled).chosen
        if chosen is not None:
            settled.update(kernel_y=chosen["kernel_y"], sigma2_y=None, ridge=chosen["ridge"])
    return settled


def blocks(name: str, x, y=None, z=None, *, rows: Optional[int] = None, block_rows: Optional[int] = None,
           blocks: Optional[int] = None, seconds: float = 20.0, seed: int = 0, missing: str = "refuse",
           **options) -> BlockMeasurement:
    """Measures many rows: the mean of the measure `name` over random blocks of rows, with its standard error.

    block_rows: rows per block; by default 512 to 8,192, depending on memory and `seconds` (2,048 if a block is regressed on
    itself). blocks: the number of blocks; by default as many as `seconds` allows. rows: use only this many random rows.
    missing: "drop" leaves out rows with a missing cell. The other options are those of the measure, except grad. Widths and
    ridge are chosen once, on a sample. Arrays may be memory-mapped.

    >>> import numpy as np
    >>> y, e = np.random.default_rng(0).normal(size=(2, 100000))
    >>> found = blocks("hsic", y + e, None, y, block_rows=500, blocks=20)
    >>> found.value > 20 * found.standard_error, found.blocks, found.rows_given
    (True, 20, 100000)
    """
    if name not in _measures.MEASURES:
        raise errors.ArgumentError(f"there is no measure {name!r}; there are {', '.join(_measures.MEASURES)}")
    if options.pop("grad", False):
        raise errors.ArgumentError("a mean over blocks has no gradient: take that of each batch")
    if options.get("weights") is not None:
        raise errors.ArgumentError("weights need all rows at once: use circe.measure")
    drop = _arrays.drops(missing)
    _arrays.same_order(x=x, y=y, z=z)
    arrays = {v: _arrays.read(values, v, drop) for v, values in zip("xyz", (x, y, z)) if values is not None}
    places = np.flatnonzero(_arrays.complete(arrays)) if drop else None
    parts = [arrays.get(v) for v in "xyz"]
    given = n = len(arrays["x"])
    if any(part is not None and len(part) != n for part in parts):
        raise errors.ShapeError("x, y and z must have the same number of rows")
    n = n if places is None else len(places)
    if rows is not None:
        chosen = sample_rows(n, min(_whole(rows, "rows", 1), n), seed)
        places = chosen if places is None else places[chosen]
        n = len(chosen)

    def take(index):
        index = index if places is None else places[index]
        return [None if part is None else part[index] for part in parts]

    own = _native.BlockOptions(_whole(block_rows, "block_rows", 4) if block_rows is not None else 0,
                               _whole(blocks, "blocks", 2) if blocks is not None else 0,
                               _kernels.positive(seconds, "seconds"), _whole(seed, "seed", 0))
    if not own.block_rows and name in ("hscic", "gcm", "kci", "nocco", "kpc"):
        own.block_rows = min(_REGRESSED_ROWS, n // 2)
    settled = _settled(name, *take(np.sort(np.random.default_rng(seed).choice(
        n, min(n, own.block_rows or _SAMPLE_ROWS), replace=False))), options)
    failure = []

    def one(_, index, count, value):
        try:
            value[0] = float(_measures.measure(name, *take(np.ctypeslib.as_array(index, (count,))), **settled))
            return 0
        except BaseException as error:  # raised again once Python is back
            failure.append(error)
            return _CANCELLED

    result = _native.BlockResult()
    status = _native.library().circe_measure_blocks(_runtime.context().pointer, n, ctypes.byref(own), _native.BlockFn(one), None,
                                                    ctypes.byref(result))
    if failure:
        raise failure[0]
    _native.check(status)
    return BlockMeasurement(name, result, given)
