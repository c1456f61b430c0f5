"""What a column of a table is: numbers, or categories. The rules, and the words, are those of the command.

A column is categories if its dtype says so (pandas' and polars' categoricals), or if it contains text and no cell is a
number. Text that is all numbers is numbers. A column that mixes numbers and text is refused, and so are missing cells,
unless they are to be kept as NaN.
"""

from __future__ import annotations

import math
import re
import warnings
from decimal import Decimal
from numbers import Real
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from . import errors

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_CURRENCY = re.compile("^[$\u00a3\u00a5\u20ac] *| *[$\u00a3\u00a5\u20ac]$")
_HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F.pP+-]+", re.ASCII)
_MISSING = {"", "?", "na", "n/a", "nan", "-nan", "null"}
_FEW = 3

Texts = Optional[List[str]]
NUMBERS = (Real, Decimal)  # the types of cells that are numbers; databases return decimals


class Coded(np.ndarray):
    """Numbers, with the texts of those columns that are categories, in the order of their codes: (texts or None) a column.
    `labels` are the columns' names."""

    categories: Sequence[Texts] = ()
    labels: Sequence[Any] = ()

    def __array_finalize__(self, parent):
        if isinstance(parent, Coded):
            self.categories, self.labels = parent.categories, parent.labels


def number_of(text: str) -> Optional[float]:
    """The whole text is a decimal number that a double can hold."""
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def float_of(cell, place: str, row: int) -> float:
    try:
        return float(cell)
    except OverflowError:
        raise errors.DataError(f"{place}: the number in row {row} is too large for a double") from None


def looks_like_number(text: str) -> bool:
    """It is a number that is written in another way: 1,5 or 5% or 1_000 or 0x10 or $5 or 12 000."""
    plain = text.lower()
    if plain.lstrip("+-") in ("inf", "infinity") or _HEXADECIMAL.fullmatch(text):
        return True
    plain = re.sub("^[\u2010-\u2015\u2212]", "-", plain).replace("_", "").replace("'", "").replace("d", "e")
    plain = plain[:-1] if plain.endswith("%") else _CURRENCY.sub("", plain)
    plain = re.sub("(?<=.)[ \u00a0\u2009\u202f](?=[0-9]{3}(?![0-9]))", "", plain)  # between thousands
    return any(_NUMBER.fullmatch(plain.replace(",", point)) is not None for point in (".", ""))


def _is_missing(cell) -> bool:
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in _MISSING):
        return True
    try:
        return bool(cell != cell)  # NaN, NaT
    except (TypeError, ValueError):  # pandas.NA
        return type(cell).__name__ == "NAType"


def _listed(cells) -> str:
    return ", ".join(f"{str(cell)[:40]!r} (row {row})" for row, cell in cells[:_FEW]) + (", ..." if len(cells) > _FEW else "")


def _cells(n: int, one: str, more: str) -> str:
    return f"{n} cell {one}" if n == 1 else f"{n} cells {more}"


def _refuse_mixture(place: str, numbers, texts) -> None:
    if len(numbers) >= len(texts):
        counts = f"{len(numbers)} number{'s'[:len(numbers) != 1]} and " + _cells(len(texts), "that is not a number",
                                                                                "that are not numbers")
        rare = texts
    else:
        counts = f"{len(texts)} texts and " + _cells(len(numbers), "that is a number", "that are numbers")
        rare = numbers
    raise errors.DataError(f"{place} contains {counts}: {_listed(rare)}. Correct {'it' if len(rare) == 1 else 'them'}, drop such "
                           "rows where they are missing, or make the column categories: astype('category')")


def missing_error(place: str, row: int, n_missing: int, n: int) -> errors.DataError:
    return errors.DataError(f"{place}: row {row} is missing ({n_missing} of {n} rows have missing cells); missing='drop' leaves "
                            "such rows out of all variables together")


def read(cells: Sequence[Any], place: str, refuse: Callable[[], Exception], named: bool = False,
         keep: bool = False) -> Tuple[np.ndarray, Texts]:
    """Numbers, or codes and their texts, of the cells of one column. `refuse` makes the error for what is neither. keep: missing
    cells are NaN."""
    numbers, texts, missing = [], [], []
    values = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        if isinstance(cell, bytes):
            cell = cell.decode(errors="replace")
        if _is_missing(cell):
            missing.append(row)
            continue
        if not isinstance(cell, (str, *NUMBERS, np.generic)) and not named:
            raise refuse()
        value = number_of(cell.strip()) if isinstance(cell, str) else None if named else float_of(cell, place, row)
        if value is None or named:
            texts.append((row, str(cell)))
        else:
            values[row] = value
            numbers.append((row, cell))
    if numbers and texts:
        _refuse_mixture(place, numbers, texts)
    if missing and not keep:
        raise missing_error(place, missing[0], len(missing), len(cells))
    if not texts:
        return values, None
    if not named and all(looks_like_number(text.strip()) for _, text in texts):
        raise errors.DataError(f"{place} contains no plain number, but all its {len(texts)} cells look like numbers: "
                               f"{_listed(texts)}. Write them as 1234.5, or make the column categories: astype('category')")
    codes: dict = {}
    for row, text in texts:
        values[row] = codes.setdefault(text, len(codes))
    return values, list(codes)


def coded(columns: Sequence[Tuple[np.ndarray, Texts]], labels: Sequence[Any], one: bool) -> np.ndarray:
    """Columns side by side; `one`: as (n,)."""
    array = np.stack([values for values, _ in columns], axis=1)
    array = array[:, 0] if one else array
    if all(texts is None for _, texts in columns):
        return array
    found = np.ascontiguousarray(array).view(Coded)
    found.categories, found.labels = [texts for _, texts in columns], list(labels)
    return found


def categories(array) -> Sequence[Texts]:
    return array.categories if isinstance(array, Coded) else ()


def aligned(array: np.ndarray, known: Sequence[Texts], name: str) -> np.ndarray:
    """The codes that the same texts have in `known`; new texts get codes after them."""
    mine = categories(array) or [None] * (1 if array.ndim == 1 else array.shape[1])
    theirs = list(known) or [None] * len(mine)
    if len(mine) == len(theirs) and any((a is None) != (b is None) for a, b in zip(mine, theirs)):
        raise errors.DataError(f"{name} has categories where the fit had numbers, or numbers where it had categories; give both "
                               "alike")
    if not isinstance(array, Coded) or len(mine) != len(theirs):
        return array
    out = array.copy()
    for c, (texts, before) in enumerate(zip(mine, theirs)):
        if texts is None or before is None:
            continue
        codes = {text: code for code, text in enumerate(before)}
        table = np.array([codes.setdefault(text, len(codes)) for text in texts], dtype=float)
        column = out if out.ndim == 1 else out[:, c]
        column[...] = table[np.asarray(column, dtype=int)]
    return out


def refuse_unseen(codes: np.ndarray, known: Sequence[Texts], values, name: str) -> None:
    """codes (n, columns) of `aligned`: those behind the known ones are new."""
    for c, texts in enumerate(known if codes.shape[1] == len(known) else ()):
        new = np.flatnonzero(codes[:, c] >= len(texts)) if texts is not None else ()
        if len(new):
            cells = values.tolist() if hasattr(values, "tolist") else values
            cell = cells[int(new[0])] if len(known) == 1 and hasattr(cells, "__getitem__") else "a category"
            listed = ", ".join(map(repr, texts[:8])) + (", ..." if len(texts) > 8 else "")
            raise errors.DataError(f"{name}: row {new[0]} is {cell!r}, which the fit has not seen ({len(new)} of {len(codes)} rows "
                                   f"contain such categories); it knows {listed}. Fit on rows that contain all of them, or leave "
                                   "these rows out")


def described(**arrays) -> Tuple[dict, ...]:
    """How columns were read that are not plain numbers."""
    return tuple({"variable": name, "column": label, "read_as": "categories", "categories": len(texts)}
                 for name, array in arrays.items() if isinstance(array, Coded)
                 for label, texts in zip(array.labels, array.categories) if texts is not None)


def _note_codes(kernel, array):
    """Every kernel but delta reads the codes of categories, whose order means nothing."""
    for factor in str(kernel).split("*"):
        columns, _, form = factor.rpartition(":")
        first, _, last = columns.partition("-")
        covered = range(int(first), int(last or first) + 1) if first.strip().isdigit() else range(len(array.categories))
        for c, texts in enumerate(array.categories):
            if texts is not None and len(texts) > 2 and c in covered and form.strip() != "delta":
                warnings.warn(f"the kernel {kernel} takes the {len(texts)} categories of column {array.labels[c]} as the "
                              "numbers 0, 1, 2, ..., in an order that means nothing; use delta there", stacklevel=5)


def kernel_of(kernel, array):
    """The kernel that was asked for; where none was, delta on categories and one gaussian over each run of other columns."""
    if not isinstance(array, Coded):
        return kernel
    if kernel != "gaussian":
        _note_codes(kernel, array)
        return kernel
    kinds = ["gaussian" if texts is None else "delta" for texts in array.categories]
    starts = [c for c, kind in enumerate(kinds) if c == 0 or kind != kinds[c - 1]]
    return "*".join(f"{first}-{end - 1}:{kinds[first]}" for first, end in zip(starts, starts[1:] + [len(kinds)]))


def kernel_of_test(kernel, array):
    """The same for tests: a gaussian of its own for every column of numbers."""
    if not isinstance(array, Coded) or kernel is not None:
        return kernel
    return "*".join(f"{c}:{'gaussian' if texts is None else 'delta'}" for c, texts in enumerate(array.categories))
