"""Matrix views of what people have: NumPy arrays, torch tensors on the CPU, columns of pandas and polars, lists.

A view copies nothing where the numbers are float32 or float64 and each row is contiguous: row-major arrays, rows taken by a
step, one column of a table. Anything else that holds real numbers is copied into a row-major array first. What is returned
beside the view keeps its memory alive.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict

import numpy as np

from . import errors
from ._native import FLOAT32, FLOAT64, Mat, mat

_DTYPES = {np.dtype(np.float32): FLOAT32, np.dtype(np.float64): FLOAT64}
_first_byte: Any = ctypes.c_char.from_buffer
NUMPY_DTYPES: Dict[int, np.dtype] = {FLOAT32: np.dtype(np.float32), FLOAT64: np.dtype(np.float64)}


def address(array: np.ndarray) -> int:
    """Of the first element. `array.ctypes.data` costs three times as much, and a training step asks four times."""
    return ctypes.addressof(_first_byte(array)) if array.flags.carray and array.size else array.ctypes.data


def view(values, name: str, dtype=None):
    """(view, array) of `values`, which is (n,) or (n, d). dtype: None keeps float32 and float64; others become float64."""
    array = values if type(values) is np.ndarray else _as_array(values, name)
    if array.flags.carray:  # the common case, and the quick one
        code = _DTYPES.get(array.dtype)
        shape = array.shape
        if code and len(shape) == 2 and shape[0] and shape[1] and (dtype is None or dtype == array.dtype):
            rows, cols = shape
            return mat(ctypes.addressof(_first_byte(array)), rows, cols, cols, code), array
    return _view_of_any(array, name, dtype)


def _view_of_any(array: np.ndarray, name: str, dtype):
    wanted = array.dtype if dtype is None else dtype
    code = _DTYPES.get(wanted)
    if code is None:
        wanted, code = _float64_for(array, name), FLOAT64
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
        array = np.require(array, wanted, ["C", "A"])
        row_stride = cols * size
    return mat(address(array), rows, cols, row_stride // size, code), array


def _float64_for(array: np.ndarray, name: str) -> np.dtype:
    """Whole numbers, booleans and the other floats are read as float64; what holds no real numbers is refused."""
    if array.dtype.kind in "biuf":
        return np.dtype(np.float64)
    hint = ""
    if array.dtype.kind in "OUS":
        hint = "; give categories as numbers (codes), with the kernel 'delta'"
    raise errors.DTypeError(f"{name} holds {array.dtype}; it must hold real numbers{hint}")


def is_torch(values) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def _as_array(values, name: str) -> np.ndarray:
    if is_torch(values):
        return _from_torch(values, name)
    if values is None:
        raise errors.ArgumentError(f"{name} is missing")
    if type(values).__module__.partition(".")[0] == "pandas":
        return _from_pandas(values, name)
    if hasattr(values, "to_numpy"):  # polars, pyarrow
        values = values.to_numpy()
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise errors.DTypeError(f"{name} is no array of numbers: {error}") from None
    return array


def _from_torch(tensor, name: str) -> np.ndarray:
    if tensor.device.type != "cpu":
        raise errors.DeviceError(f"{name} is on {tensor.device}; these functions take tensors of the CPU (the losses of "
                                 "circe.torch take both)")
    if tensor.layout != sys.modules["torch"].strided:
        raise errors.DTypeError(f"{name} is a sparse tensor; it must be dense: {name}.to_dense()")
    try:
        return tensor.detach().numpy()
    except TypeError:  # bfloat16 and the like
        return tensor.detach().double().numpy()


def _from_pandas(values, name: str) -> np.ndarray:
    """Missing values become NaN, which the library then names by row and column."""
    array = values.to_numpy()
    if array.dtype == object:
        dtypes = values.dtypes if hasattr(values, "columns") else [values.dtype]
        for kind in dtypes:
            if not (getattr(kind, "kind", "O") in "biuf" or getattr(kind, "_is_numeric", False)):
                raise errors.DTypeError(f"{name} has a column of {kind}; it must hold real numbers; give categories as "
                                        "numbers (codes), with the kernel 'delta'")
        array = values.to_numpy(dtype=np.float64, na_value=np.nan)
    return array


def result(shape, dtype):
    """(view, array) of a new array for a result."""
    array = np.empty(shape, dtype)
    cols = shape[1] if len(shape) == 2 else 1
    return mat(ctypes.addressof(_first_byte(array)) if array.size else 0, shape[0], cols, cols, _DTYPES[array.dtype]), array


def borrowed(found: Mat, owner) -> np.ndarray:
    """A read-only array on memory of the library, which `owner` keeps alive."""
    return np.asarray(_Borrowed(found, NUMPY_DTYPES[found.dtype], owner))


class _Borrowed:
    def __init__(self, found: Mat, dtype: np.dtype, owner):
        self.owner = owner
        self.__array_interface__ = {
            "data": (found.data, True), "shape": (found.rows, found.cols), "typestr": dtype.str, "version": 3,
            "strides": (found.ld * dtype.itemsize, dtype.itemsize)}


def several(values, name: str, count: int, what: str) -> tuple:
    """What an argument holds that must hold so many values."""
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
        raise errors.DTypeError(f"{name} holds {array.dtype}; it must hold row numbers")
    if array.min() < 0 or array.max() >= n_rows:
        raise errors.ArgumentError(f"{name} holds row numbers from {array.min()} to {array.max()}; there are {n_rows} rows, "
                                   "from 0")
    return np.ascontiguousarray(array, dtype=np.int64)
