"""Matrix views of users' data: NumPy arrays, torch tensors on the CPU, columns of pandas and polars, Arrow, lists.

A view copies nothing if the numbers are float32 or float64 and each row is contiguous: row-major arrays, rows taken by
a step, one column of a table. Other real numbers are first copied into a row-major array. Text and categoricals become
codes (_columns.py). The array returned beside the view keeps its memory alive.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from . import _columns, _native, errors
from ._native import FLOAT32, FLOAT64, mat

_DTYPES = {np.dtype(np.float32): FLOAT32, np.dtype(np.float64): FLOAT64}
_first_byte: Any = ctypes.c_char.from_buffer
NUMPY_DTYPES: Dict[int, np.dtype] = {FLOAT32: np.dtype(np.float32), FLOAT64: np.dtype(np.float64)}


def address(array: np.ndarray) -> int:
    """Of the first element. `array.ctypes.data` costs three times as much, and a training step asks four times."""
    return ctypes.addressof(_first_byte(array)) if array.flags.carray and array.size else array.ctypes.data


def view(values, name: str, dtype=None):
    """(view, array) of `values`, which is (n,) or (n, d). dtype: None keeps float32 and float64; others become float64."""
    array = values if type(values) is np.ndarray else _as_array(values, name)
    if array.flags.carray:  # the common case is quick
        code = _DTYPES.get(array.dtype)
        shape = array.shape
        if code and len(shape) == 2 and shape[0] and shape[1] and (dtype is None or dtype == array.dtype):
            rows, cols = shape
            return mat(ctypes.addressof(_first_byte(array)), rows, cols, cols, code), array
    return _view_of_any(array, name, dtype)


def _refuse_merged(array: np.ndarray, name: str):
    """Refuses whole numbers beyond 2**53 of which different ones would be equal as float64: long ids, mostly."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or not array.size:
        return
    if -2**53 <= int(array.min()) and int(array.max()) <= 2**53:
        return
    for column in array.T.reshape(-1, len(array)):
        found = np.unique(column)
        merged = np.flatnonzero(np.diff(found.astype(np.float64)) == 0)
        if merged.size:
            raise errors.DataError(f"{name} has whole numbers that float64 cannot tell apart, such as {found[merged[0]]} and "
                                   f"{found[merged[0] + 1]}; subtract a common number, or make them text, which is categories")


def _view_of_any(array: np.ndarray, name: str, dtype):
    if array.dtype.kind in "OUS" and array.ndim in (1, 2):
        array = _from_objects(array, name)
    if array.dtype.kind not in "biuf":
        raise errors.DTypeError(f"{name} has dtype {array.dtype}; it must contain real numbers")
    _refuse_merged(array, name)
    wanted = array.dtype if dtype is None else dtype
    code = _DTYPES.get(wanted)
    if code is None:
        wanted, code = np.dtype(np.float64), FLOAT64
    ndim = array.ndim
    if ndim == 2:
        rows, cols = array.shape
        row_stride, col_stride = array.strides
    elif ndim == 1:
        (rows,), cols = array.shape, 1
        (row_stride,), col_stride = array.strides, 0
    else:
        raise errors.ShapeError(f"{name} has {ndim} dimensions; it must be (n,) or (n, columns)")
    if rows == 0:
        raise errors.ShapeError(f"{name} is 0 by {cols}; it needs at least 1 row and one column")
    size = wanted.itemsize
    if (array.dtype != wanted or (col_stride != size and cols != 1) or row_stride % size or row_stride < cols * size
            or not array.flags.aligned):
        array = _require(array, wanted)
        row_stride = cols * size
    return mat(address(array), rows, cols, row_stride // size, code), array


def _require(array: np.ndarray, dtype) -> np.ndarray:
    """Makes an array row-major and aligned, and keeps its categories."""
    made = np.require(array, dtype, ["C", "A"])
    if not isinstance(array, _columns.Coded):
        return made
    kept = made.view(_columns.Coded)
    kept.categories, kept.labels = array.categories, array.labels
    return kept


def _from_objects(array: np.ndarray, name: str, keep: bool = False) -> np.ndarray:
    def refuse():
        return errors.DTypeError(f"{name} has dtype {array.dtype}; it must contain real numbers, or text, whose words are categories")

    one = array.ndim == 1
    table = array.reshape(len(array), -1)
    place = (lambda c: name) if one else (lambda c: f"{name}: column {c}")
    columns = [_columns.read(table[:, c].tolist(), place(c), refuse, keep=keep) for c in range(table.shape[1])]
    return _columns.coded(columns, range(table.shape[1]), one) if columns else table.astype(float)


def _from_masked(values, name: str, keep: bool) -> np.ndarray:
    """Masked cells are missing."""
    mask = np.ma.getmaskarray(values)
    if keep:
        plain = np.ma.getdata(values)
        plain = plain.astype(np.result_type(plain, np.float32) if plain.dtype.kind in "biuf" else object)
        plain[mask] = np.nan
        return plain
    rows = mask if mask.ndim == 1 else mask.any(axis=tuple(range(1, mask.ndim))) if mask.ndim else np.atleast_1d(mask)
    if rows.any():
        raise _columns.missing_error(f"{name} is masked", int(np.argmax(rows)), int(rows.sum()), len(rows))
    return np.ma.getdata(values)


def is_torch(values) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def _as_array(values, name: str, keep: bool = False) -> np.ndarray:
    """keep: missing cells become NaN, or are read later; otherwise they are refused."""
    if is_torch(values):
        return _from_torch(values, name)
    if isinstance(values, _columns.Coded):
        return values
    if values is None:
        raise errors.ArgumentError(f"{name} is missing")
    if isinstance(values, np.ma.MaskedArray):
        return _from_masked(values, name, keep)
    if _package_of(values) == "pandas" and not hasattr(values, "iloc") and not hasattr(values, "names"):  # no column, frame or index
        if not hasattr(values, "dtype"):
            raise _no_array(values, name)
        values = sys.modules["pandas"].Series(values)  # pandas.array, Categorical
    if is_arrow_column(values):
        values = arrow(values, name)
    if _package_of(values) in ("pandas", "polars", "pyarrow"):
        refuse_lazy(values, name)
        return _from_columns(values, name, keep)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise errors.DTypeError(f"{name} is not an array of numbers: {error}") from None
    if array.ndim == 0 and array.dtype.kind in "OUS":  # NumPy made a box around it
        raise _no_array(values, name)
    return array


def _no_array(values, name: str) -> errors.DTypeError:
    dense = f": {name}.toarray()" if hasattr(values, "toarray") else ""
    return errors.DTypeError(f"{name} is of type {type(values).__name__}; it must be an array, a column of a table or a list{dense}")


def _from_torch(tensor, name: str) -> np.ndarray:
    if tensor.device.type != "cpu":
        raise errors.DeviceError(f"{name} is on {tensor.device}; these functions take tensors of the CPU (the losses of "
                                 "circe.torch take both)")
    if tensor.layout != sys.modules["torch"].strided:
        raise errors.DTypeError(f"{name} is a sparse tensor; it must be dense: {name}.to_dense()")
    if tensor.is_complex():
        raise errors.DTypeError(f"{name} has dtype {tensor.dtype}; it must contain real numbers")
    try:
        return tensor.detach().numpy()
    except TypeError:  # bfloat16 and the like
        return tensor.detach().double().numpy()
    except RuntimeError:  # the sign is not in its memory, as in z.conj().imag
        return tensor.detach().resolve_neg().numpy()


# ---- columns and tables of pandas, polars and Arrow ---------------------------------------------------------------------


def _package_of(values) -> str:
    return type(values).__module__.partition(".")[0]


def columns_of(values) -> Optional[List[Tuple[Any, Any]]]:
    """(name, column) pairs of a table; None: it is one column."""
    if hasattr(values, "columns") and hasattr(values, "iloc"):  # pandas
        return [(name, values.iloc[:, c]) for c, name in enumerate(values.columns)]
    if hasattr(values, "get_columns"):  # polars
        return [(series.name, series) for series in values.get_columns()]
    return list(zip(values.column_names, values.columns)) if hasattr(values, "column_names") else None


def column_numbers(column) -> Optional[np.ndarray]:
    """The numbers of a column, NaN where one is missing, without a copy if it has them; None: it contains something else."""
    if hasattr(column, "to_pylist"):
        return arrow_numbers(column)
    kind = getattr(column, "dtype", None)
    if callable(getattr(kind, "is_numeric", None)):  # polars
        array = polars_numbers(column) if kind.is_numeric() or str(kind) == "Boolean" else None
    elif getattr(kind, "kind", "O") in "biuf" or getattr(kind, "_is_numeric", False):
        array = np.asarray(column)
        if array.dtype == object:  # pandas: nullable
            array = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        array = None
    return array if array is not None and array.dtype.kind in "biuf" else None


def _from_columns(values, name: str, keep: bool) -> np.ndarray:
    """Missing numbers become NaN, which the library then names by row and column."""
    columns = columns_of(values)
    table, columns = columns is not None, [(getattr(values, "name", None), values)] if columns is None else columns
    numbers = [column_numbers(column) for _, column in columns]
    if all(found is not None for found in numbers):
        whole = values.to_numpy() if hasattr(values, "iloc") else numbers[0] if not table else None  # without a copy, mostly
        return whole if whole is not None and whole.dtype != object else np.stack(numbers, axis=1)  # type: ignore[arg-type]
    read = []
    for (label, column), found in zip(columns, numbers):
        place, kind = f"{name}: column {label!r}" if table else name, getattr(column, "dtype", getattr(column, "type", None))
        if found is None:
            cells = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
            read.append(_columns.read(cells, place, _refusal(name, kind), is_categorical(kind), keep))
            continue
        missing = np.isnan(found)
        if missing.any() and not keep:
            raise _columns.missing_error(place, int(np.argmax(missing)), int(missing.sum()), len(found))
        read.append((found, None))
    return _columns.coded(read, [label for label, _ in columns], not table)


def _refusal(name: str, kind):
    return lambda: errors.DTypeError(f"{name} has a column of {kind}; it must contain real numbers, or text, whose words are "
                                     "categories")


def is_categorical(kind) -> bool:
    """Whether a dtype of pandas, polars or Arrow says that its cells are categories."""
    return str(kind).partition("(")[0].partition("<")[0] in ("category", "Categorical", "Enum", "dictionary")


def refuse_lazy(values, name: str) -> None:
    """polars: a query that has not been run."""
    if hasattr(values, "collect") and not hasattr(values, "__len__"):
        raise errors.DTypeError(f"{name} is a {type(values).__name__}, which contains no rows yet: pass {name}.collect()")


def polars_numbers(values) -> np.ndarray:
    """NumPy lacks integers of 128 bits."""
    wide = [str(series.dtype) in ("Int128", "UInt128") for series in (values if hasattr(values, "columns") else [values])]
    return (values.cast(sys.modules["polars"].Float64) if any(wide) else values).to_numpy()


# ---- Arrow --------------------------------------------------------------------------------------------------------------


def is_arrow(values) -> bool:
    """pyarrow's columns and tables, and whatever else gives itself away as Arrow."""
    return hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__")


def is_arrow_column(values) -> bool:
    """Excludes pandas and polars, which also speak Arrow but are read by their own dtypes."""
    return is_arrow(values) and _package_of(values) not in ("pandas", "polars")


def arrow(values, name: str):
    """A Table or a ChunkedArray of pyarrow."""
    try:
        import pyarrow
    except ImportError:
        raise errors.DTypeError(f"{name} is {type(values).__name__}, which is read through pyarrow; install it (pip install "
                                "pyarrow)") from None
    if isinstance(values, (pyarrow.Table, pyarrow.ChunkedArray)):
        return values
    if isinstance(values, pyarrow.RecordBatch):
        return pyarrow.table(values)
    try:
        found = pyarrow.chunked_array([pyarrow.array(values)] if hasattr(values, "__arrow_c_array__") else values)
    except (TypeError, ValueError) as error:  # pyarrow's own are both
        raise errors.DTypeError(f"{name} is of type {type(values).__name__}, which cannot be read: {error}") from None
    return pyarrow.Table.from_struct_array(found) if pyarrow.types.is_struct(found.type) else found


def arrow_numbers(column) -> Optional[np.ndarray]:
    """The numbers of a ChunkedArray, NaN where one is missing; None: it contains something else."""
    import pyarrow.types as types

    kind = column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)):
        return None
    found = column.to_numpy()
    return found if found.dtype.kind in "biuf" else found.astype(np.float64)  # objects: None becomes NaN


def same_order(**variables) -> None:
    """Refuses columns of pandas that have the same labels in another order: rows go by position, and the labels say that
    these are not the same rows."""
    first = None
    for name, values in variables.items():
        if type(values) is np.ndarray or not hasattr(values, "iloc"):
            continue
        index = values.index
        if first is None:
            first, of = index, name
        elif len(index) == len(first) and not index.equals(first) and index.isin(first).all() and first.isin(index).all():
            row = int(np.argmax(np.asarray(index != first)))
            raise errors.DataError(f"{of} and {name} have the same labels in another order (row {row} is {first[row]!r} in {of} and "
                                   f"{index[row]!r} in {name}), but rows go by position: give {name}.loc[{of}.index], or "
                                   f"{name}.to_numpy() if the order is right and the labels are not")


MISSING = ("refuse", "drop", "error")  # the first and the last are the same


def drops(missing, *more: str) -> bool:
    """Whether rows that miss a cell are to be left out. more: other words that the caller knows."""
    if not isinstance(missing, str) or missing not in MISSING + more:
        raise errors.ArgumentError(f"missing is {missing!r}; it must be one of {', '.join(MISSING + more)}")
    return missing == "drop"


def read(values, name: str, keep: bool = True) -> np.ndarray:
    """The numbers, or codes, of `values`, without a copy where they are numbers already. keep: missing cells are NaN."""
    array = values if type(values) is np.ndarray else _as_array(values, name, keep)
    return _from_objects(array, name, keep) if array.dtype.kind in "OUS" and array.ndim in (1, 2) else array


def complete(arrays: Dict[str, np.ndarray]) -> np.ndarray:
    """(n,): the rows in which no variable misses a cell."""
    for name, array in arrays.items():
        if array.ndim == 0:
            raise errors.ShapeError(f"{name} has 0 dimensions; it must be (n,) or (n, columns)")
    (first, array), *_ = arrays.items()
    kept = np.ones(len(array), dtype=bool)
    for name, array in arrays.items():
        if len(array) != len(kept):
            raise errors.ShapeError(f"{first} has {len(kept)} rows and {name} has {len(array)}; they must be the same points")
        if array.dtype.kind == "f":
            kept &= ~np.isnan(array).any(axis=tuple(range(1, array.ndim)))
    if len(kept) and not kept.any():
        raise errors.DataError(f"every one of the {len(kept)} rows has a missing cell; nothing is left")
    return kept


def explained(error: errors.DataError, variables: Dict[str, Any]) -> errors.DataError:
    """The refusal of data, with what would be right where it is a NaN that the library met."""
    for name, values in variables.items():
        if values is None:
            continue
        try:
            missing = np.isnan(view(values, name)[1])
        except errors.CirceError:  # it was refused before the library saw it
            return error
        if missing.any():
            missing = missing.reshape(len(missing), -1)
            row, column = np.argwhere(missing)[0]
            return errors.DataError(f"{name} contains a NaN at row {row}, column {column} (counted from 0; "
                                    f"{int(missing.any(axis=1).sum())} of {len(missing)} rows have missing cells); "
                                    "missing='drop' leaves such rows out of all variables together")
    return error


def dropped(**variables):
    """(variables without the rows in which any of them misses a cell, which rows are left). None stays None."""
    same_order(**variables)
    arrays = {name: read(values, name) for name, values in variables.items() if values is not None}
    kept = complete(arrays)
    if "weights" in arrays and arrays["weights"].dtype.kind in "fiub":  # while rows still count as the caller's do
        _refuse_weights(arrays["weights"].reshape(len(kept), -1)[:, 0], missing=True)
    return {name: arrays[name][kept] if name in arrays else None for name in variables}, kept


def _refuse_weights(found: np.ndarray, missing: bool = False) -> None:
    """missing: a NaN is no weight, and no error."""
    wrong = np.flatnonzero(~((found >= 0) & np.isfinite(found) | (missing & np.isnan(found))))
    if wrong.size:
        raise errors.DataError(f"the weight of row {wrong[0]} is {found[wrong[0]]}; a weight must be a number, at least 0")


def weights_of(values, rows: int) -> np.ndarray:
    """The weights of so many rows, as float64: numbers, at least 0."""
    array = read(values, "weights", keep=False)
    if getattr(array, "categories", None) or array.dtype.kind not in "fiub":
        raise errors.DTypeError("weights contains text; it must contain numbers")
    found = np.ascontiguousarray(array, np.float64)
    if found.shape not in ((rows,), (rows, 1)):
        raise errors.ShapeError(f"weights have the shape {found.shape}; there are {rows} rows")
    found = found.reshape(rows)
    _refuse_weights(found)
    if not (found > 0).any():
        raise errors.DataError("all weights are 0, so no rows are left")
    return found


def weighted(weights, **variables):
    """(variables without the rows of weight 0, the other weights, which rows are left). None stays None."""
    same_order(**variables, weights=weights)
    arrays = {name: read(values, name) for name, values in variables.items() if values is not None}
    weights = weights_of(weights, len(complete(arrays)))
    kept = weights > 0
    for name, array in arrays.items():
        if len(array) != len(kept):
            raise errors.ShapeError(f"{name} has {len(array)} rows and weights {len(kept)}; they must be the same points")
    return {name: arrays[name][kept] if name in arrays else None for name in variables}, weights[kept], kept


def result(shape, dtype):
    """(view, array) of a new array for a result."""
    array = np.empty(shape, dtype)
    cols = shape[1] if len(shape) == 2 else 1
    return mat(ctypes.addressof(_first_byte(array)) if array.size else 0, shape[0], cols, cols, _DTYPES[array.dtype]), array


def borrowed(found: _native.Mat, owner) -> np.ndarray:
    """A read-only array on memory of the library, which `owner` keeps alive."""
    return np.asarray(_Borrowed(found, NUMPY_DTYPES[found.dtype], owner))


class _Borrowed:
    def __init__(self, found: _native.Mat, dtype: np.dtype, owner):
        self.owner = owner
        self.__array_interface__ = {
            "data": (found.data, True), "shape": (found.rows, found.cols), "typestr": dtype.str, "version": 3,
            "strides": (found.ld * dtype.itemsize, dtype.itemsize)}


def several(values, name: str, count: int, what: str) -> tuple:
    """What an argument contains that must contain so many values."""
    try:
        found = tuple(values)
    except TypeError:
        found = ()
    if isinstance(values, str) or len(found) != count:
        given = repr(values) if np.ndim(values) == 0 else f"a {type(values).__name__} of {len(found)}"
        raise errors.ArgumentError(f"{name} is {given}; it must be {what}")
    return found


def index_array(index, name: str, n_rows: int) -> np.ndarray:
    """Row numbers as a contiguous int64 array."""
    array = np.asarray(index.detach().cpu() if is_torch(index) else index)
    if array.ndim != 1:
        raise errors.ShapeError(f"{name} has {array.ndim} dimensions; it must be a list of row numbers")
    if array.size == 0:
        raise errors.ShapeError(f"{name} is empty; it needs at least one row number")
    if array.dtype.kind not in "iu":
        raise errors.DTypeError(f"{name} has dtype {array.dtype}; it must contain row numbers")
    if array.min() < 0 or array.max() >= n_rows:
        raise errors.ArgumentError(f"{name} contains row numbers from {array.min()} to {array.max()}; there are {n_rows} rows, "
                                   "from 0")
    return np.ascontiguousarray(array, dtype=np.int64)
