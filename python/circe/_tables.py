"""Tables in memory for the library's jobs: named columns from users' data.

pandas and polars frames, pyarrow tables, dictionaries of columns, NumPy's structured arrays, and arrays of two dimensions,
whose columns are called 0, 1, ... Numbers go as numbers (NaN, None and masks: missing) and everything else as text, which the
library reads as it reads a file: text that is all numbers is numbers, a column without a number is categories.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Set
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from . import _arrays, _columns, _native, _runtime, errors


class Table:
    """A circe_table. `names` of its columns in order; `arrays`: names of arrays of several columns, with the columns' names;
    `unread`: why named columns, such as dates, are not there. Nobody may want them."""

    def __init__(self, data):
        columns = list(_columns_of(data))
        if isinstance(data, dict):
            _arrays.same_order(**{str(name): values for name, values in columns})
        if not columns:
            raise errors.ShapeError("data has no column")
        self.arrays: Dict[str, List[str]] = {}
        self.names: List[str] = []
        self.unread: Dict[str, errors.DTypeError] = {}
        self.rows = len(columns[0][1])
        self._handle = _runtime.make("circe_table_create", "circe_table_free", self.rows, library=_native.jobs())
        self.pointer = self._handle.pointer
        for name, values in columns:
            try:
                self._add(str(name), values)
            except errors.DTypeError as error:
                if not isinstance(name, str):  # a column that is meant by its place
                    raise
                self.unread[name] = error

    def _add(self, name: str, values) -> None:
        if len(values) != self.rows:
            raise errors.ShapeError(f"column {name!r} has {len(values)} rows and {self.names[0]!r} has {self.rows}; they must "
                                    "be the same points")
        if getattr(values, "ndim", 1) != 2:
            self._add_one(name, values)
            return
        self.arrays[name] = [f"{name}:{c}" for c in range(values.shape[1])]
        for c, part in enumerate(self.arrays[name]):
            self._add_one(part, values[:, c])

    def _add_one(self, name: str, values) -> None:
        numbers, texts, named = _read(values, name)
        self.names.append(name)
        library, encoded = _native.jobs(), name.encode("utf-8", "replace")
        if numbers is not None:
            if numbers.strides[0] % numbers.itemsize or not numbers.flags.aligned:  # a field of records
                numbers = np.array(numbers)
            stride = numbers.strides[0] // numbers.itemsize
            add = library.circe_table_add_booleans if _is_boolean(values) else library.circe_table_add_numbers
            _native.check(add(self.pointer, encoded, _arrays.address(numbers), stride))
        else:
            cells = (ctypes.c_char_p * self.rows)(*texts)
            add_cells = library.circe_table_add_categories if named else library.circe_table_add_texts
            _native.check(add_cells(self.pointer, encoded, cells))

    def expanded(self, value):
        """The columns of arrays that an option names, in their place."""
        if isinstance(value, str):
            return self.arrays.get(value, value)
        if not isinstance(value, (list, tuple)):
            return value
        return [part for name in value for part in self.arrays.get(name, [name])]


# ---- kinds of tables ----------------------------------------------------------------------------------------------------


def is_table(data) -> bool:
    """It contains columns in memory; otherwise it names a file."""
    return data is not None and not isinstance(data, (str, bytes)) and not hasattr(data, "__fspath__")


def _columns_of(data) -> Iterator[Tuple[Any, Any]]:
    _arrays.refuse_lazy(data, "data")
    if isinstance(data, dict):
        for name, values in data.items():
            yield name, _one_column(values, name)
        return
    columns = _arrays.columns_of(_arrays.arrow(data, "data") if _arrays.is_arrow_column(data) else data)
    if columns is not None:
        yield from columns
    elif _arrays.is_arrow(data):
        raise errors.ShapeError("data is one column of Arrow; it must be a table")
    else:
        yield from _columns_of_array(data)


def _one_column(values, name):
    """Returns what has rows: a column, a sequence, or an array of several columns. Refuses everything else."""
    if isinstance(values, np.ndarray) or _arrays.is_torch(values):
        if values.ndim == 0:
            raise errors.ShapeError(f"column {name!r} is one number; it must have one for every row")
        return values
    if (isinstance(values, (str, bytes, Mapping, Set)) or not hasattr(values, "__len__") or hasattr(values, "columns")
            or getattr(values, "ndim", 1) != 1):
        raise errors.DTypeError(f"column {name!r} is of type {type(values).__name__}; it must be a sequence of numbers or texts, or "
                                "an array")
    column = _arrays.arrow(values, name) if _arrays.is_arrow_column(values) else values
    if hasattr(column, "column_names"):  # structs
        raise errors.DTypeError(f"column {name!r} is a struct of {', '.join(column.column_names)}; give each of its fields a name of its "
                                "own")
    return column


def _columns_of_array(data) -> Iterator[Tuple[Any, Any]]:
    array = data if isinstance(data, np.ndarray) else _arrays._as_array(data, "data", keep=True)
    if array.dtype.names:
        for name in array.dtype.names:
            yield name, array[name]
    elif array.ndim == 2:
        for c in range(array.shape[1]):
            yield c, array[:, c]
    else:
        raise errors.ShapeError(f"data is an array of {array.ndim} dimensions; it must be a table: a DataFrame, a dictionary of "
                                "columns, or (n, columns)")


# ---- one column ---------------------------------------------------------------------------------------------------------

Cells = List[Optional[bytes]]


def _read(values, name: str, named: bool = False) -> Tuple[Optional[np.ndarray], Cells, bool]:
    """(numbers or None, texts, whether its dtype says categories). named: all dtypes but numbers are categories."""
    if _arrays.is_torch(values):
        values = _arrays._from_torch(values, name)
    if isinstance(values, np.ma.MaskedArray):
        values = _arrays._from_masked(values, name, keep=True)
    column = _arrays.arrow(values, name) if _arrays.is_arrow_column(values) else values
    numbers = _arrays.column_numbers(column)
    if numbers is not None:
        return np.asarray(numbers, dtype=np.float64), [], False
    cells = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list() if hasattr(column, "to_list") else column
    return _read_cells(cells, name, named or _arrays.is_categorical(getattr(column, "dtype", getattr(column, "type", None))))


def _is_boolean(values) -> bool:
    """True and False, by the dtype or, where it says nothing, by every cell that is not missing."""
    kind = str(getattr(values, "dtype", getattr(values, "type", "object"))).lower()
    if kind != "object":
        return kind in ("bool", "boolean", "bool[pyarrow]", "torch.bool")
    found = [cell for cell in values if not _columns._is_missing(cell)]
    return bool(found) and all(isinstance(cell, (bool, np.bool_)) for cell in found)


def _read_cells(cells: Sequence[Any], name: str, named: bool) -> Tuple[Optional[np.ndarray], Cells, bool]:
    cells = cells.tolist() if isinstance(cells, np.ndarray) else cells
    plain = [None if _columns._is_missing(cell) else cell for cell in cells]
    for row, cell in enumerate(plain):
        if cell is not None and not isinstance(cell, (str, bytes, *_columns.NUMBERS, np.generic)) and not named:
            raise errors.DTypeError(f"column {name!r} contains {type(cell).__name__} in row {row}; it must contain numbers or texts")
    if not named and all(cell is None or isinstance(cell, _columns.NUMBERS) for cell in plain):
        return np.array([np.nan if cell is None else _columns.float_of(cell, f"column {name!r}", row)
                         for row, cell in enumerate(plain)]), [], False
    return None, [None if cell is None else _encoded(cell) for cell in plain], named


def _encoded(cell) -> bytes:
    return cell if isinstance(cell, bytes) else str(cell).encode("utf-8", "replace")
