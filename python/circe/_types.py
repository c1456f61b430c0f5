"""The types of columns, and tests between columns of one table, for packages that search for causal graphs.

A column is "number", "ordered" (its order counts: by default its codes are numbers) or "category" (it does not: a delta kernel).
Types come from the dtypes of a DataFrame, or from the user.
"""

from __future__ import annotations

from typing import Any, Dict, Hashable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _arrays, _columns, _inference, _tables, errors

TYPES = ("number", "ordered", "category")
Types = Union[Mapping[Hashable, str], Sequence[str], None]


def column_types(table) -> List[str]:
    """The type of each column of a DataFrame (pandas, polars, pyarrow) or a dictionary, by its dtype: pandas' ordered
    categoricals are "ordered"; other categoricals, text and booleans "category"; the rest "number". Columns of an array are
    numbers.

    >>> import numpy as np
    >>> column_types(np.zeros((3, 2)))
    ['number', 'number']
    """
    if isinstance(table, np.ndarray) or not _is_frame(table):
        return ["number"] * np.shape(table)[1]
    return [_type_of(column) for _, column in _tables._columns_of(table)]


def _is_frame(table) -> bool:
    return isinstance(table, dict) or hasattr(table, "columns") or _arrays.is_arrow(table)


def _type_of(column) -> str:
    kind = getattr(column, "dtype", None)
    if _arrays.is_arrow_column(column):
        return "category" if _arrays.arrow_numbers(column[:0]) is None or str(column.type) == "bool" else "number"
    if getattr(kind, "ordered", False):
        return "ordered"
    if callable(getattr(kind, "is_numeric", None)):  # polars
        return "number" if kind.is_numeric() else "category"
    if kind is None:  # a list
        try:
            return _type_of(np.asarray(column))
        except ValueError:  # its cells are refused when they are read
            return "category"
    numeric = getattr(kind, "kind", "O") in "iuf" or (getattr(kind, "_is_numeric", False) and str(kind) != "boolean")
    return "number" if numeric else "category"


def _given_types(types: Types, names: Sequence[Hashable], found: List[str]) -> List[str]:
    """The user's types, which override those of the dtypes."""
    if types is None:
        return found
    if not isinstance(types, Mapping):
        if len(types) != len(names):
            raise errors.ArgumentError(f"types has {len(types)} types and the table {len(names)} columns; give one for each, or a "
                                       "dictionary")
        types = dict(zip(names, types))
    for name, kind in types.items():
        if name not in names:
            raise errors.ArgumentError(f"types names the column {name!r}; there are {', '.join(map(repr, names[:8]))}"
                                       f"{', ...' if len(names) > 8 else ''}")
        if kind not in TYPES:
            raise errors.ArgumentError(f"the type of column {name!r} is {kind!r}; it must be one of {', '.join(TYPES)}")
    return [types.get(name, kind) for name, kind in zip(names, found)]


def _codes(column, kind: str, name: Hashable) -> np.ndarray:
    """A column as numbers: the codes of categories, in order if they are ordered. Missing cells are NaN."""
    if kind == "ordered" and hasattr(getattr(column, "cat", None), "codes"):  # pandas: in the order of its categories
        codes = np.asarray(column.cat.codes, float)
        return np.where(codes < 0, np.nan, codes)
    numbers, cells, _ = _tables._read(column, str(name), named=kind != "number")
    if numbers is not None and numbers.ndim == 1:
        return numbers
    if numbers is not None:
        raise errors.ShapeError(f"column {name!r} is an array of {numbers.ndim} dimensions; it must be one column")
    words = [None if cell is None else cell.decode() for cell in cells]
    if kind == "number":
        raise errors.DataError(f"column {name!r} contains text; make it categories: types or astype")
    place = {word: code for code, word in enumerate(sorted({word for word in words if word is not None}, key=_order))}
    return np.array([np.nan if word is None else place[word] for word in words], float)


def _order(word: str) -> Tuple[bool, float, str]:
    """Sorts numbers by size, before other words."""
    number = _columns.number_of(word)
    return number is None, number or 0.0, word


def encoded(table, types: Types = None) -> Tuple[np.ndarray, List[Hashable], List[str]]:
    """(numbers (n, columns), names, types) of a DataFrame (pandas, polars, pyarrow), a dictionary of columns or an array;
    missing cells are NaN."""
    if not isinstance(table, np.ndarray) and _is_frame(table):
        columns = list(_tables._columns_of(table))
        names = [name for name, _ in columns]
        if len(set(names)) < len(names):
            raise errors.ArgumentError("two columns of the table have the same name; give each its own")
        if len({len(column) for _, column in columns}) > 1:
            raise errors.ShapeError("columns of the table have different numbers of rows; they must be the same points")
        kinds = _given_types(types, names, [_type_of(column) for _, column in columns])
        return np.stack([_codes(column, kind, name) for (name, column), kind in zip(columns, kinds)], axis=1), names, kinds
    array = np.ma.filled(np.ma.asarray(table, float), np.nan) if np.ma.isMaskedArray(table) else np.asarray(table, float)
    if array.ndim != 2:
        raise errors.ShapeError(f"the table has {array.ndim} dimensions; it must be (n, columns)")
    names = list(range(array.shape[1]))
    return array, names, _given_types(types, names, column_types(array))


class ColumnTest:
    """Tests between columns of one table that share their regressions: ColumnTest(table)(x, z, given) is a TestResult. Rows with
    a missing cell in one of the columns are left out of that test. Options as of circe.test; `checks` are off by default: a
    search runs thousands of tests.

    >>> import numpy as np
    >>> y, e, f = np.random.default_rng(0).normal(size=(3, 300))
    >>> test = ColumnTest(np.stack([y + e, y, y + f], axis=1))
    >>> test(0, 2).p_value < 0.01, test(0, 2, [1]).p_value > 0.01
    (True, True)
    """

    def __init__(self, table, types: Types = None, method: str = "kci", **options):
        self.values, self.names, self.types = encoded(table, types)
        self.options = {"checks": False, "rows": "all", **options, "method": method}
        self._place = {name: k for k, name in enumerate(self.names)}
        self._memory: Optional[_inference.TestMemory] = None

    def _columns(self, names) -> List[int]:
        wanted = list(names) if isinstance(names, (list, tuple, set, frozenset, np.ndarray)) else [names]
        try:
            return [self._place[name] for name in wanted]
        except KeyError as error:
            raise errors.ArgumentError(f"there is no column {error.args[0]!r}") from None

    def _kernel(self, columns: Sequence[int]) -> Optional[str]:
        if all(self.types[c] != "category" for c in columns):
            return None
        return "*".join(f"{k}:{'delta' if self.types[c] == 'category' else 'gaussian'}" for k, c in enumerate(columns))

    def __call__(self, x, z, given=()) -> _inference.TestResult:
        if self._memory is None:  # made in the thread that tests
            self._memory = _inference.TestMemory()
        parts = {"x": self._columns(x), "y": sorted(self._columns(given)), "z": self._columns(z)}
        used = [c for columns in parts.values() for c in columns]
        whole = ~np.isnan(self.values[:, used]).any(axis=1)
        rows = self.values if whole.all() else self.values[whole]
        data: Dict[str, Any] = {v: np.ascontiguousarray(rows[:, columns]) if columns else None for v, columns in parts.items()}
        options = {f"kernel_{v}": self._kernel(columns) for v, columns in parts.items()}
        of_rows = {name: np.asarray(self.options[name])[whole] for name in ("weights", "groups", "time")
                   if self.options.get(name) is not None}
        return _inference.test(data["x"], data["y"], data["z"], memory=self._memory, **{**options, **self.options, **of_rows})

    def __getstate__(self):
        return {**self.__dict__, "_memory": None}
