"""Rows of y and z for losses, from data other than tensors: columns of tables, text, categoricals, Arrow, lists."""

from __future__ import annotations

import ctypes
from typing import Optional

import numpy as np

from . import _arrays, _columns, _kernels, _native, _runtime, errors
from ._kernels import KernelLike
from ._mean import ConditionalMean

_DELTA = 4  # CIRCE_KERNEL_DELTA


def numbers(values, name: str, mean: Optional[ConditionalMean], kernel: Optional[KernelLike]) -> np.ndarray:
    """(n, columns). Categories get the codes of the fit; without a mean, codes of this batch, which a delta kernel compares for
    equality alone. kernel: of the variable; None: the loss has none, and takes numbers only."""
    if mean is not None:
        return mean.encode(values, name)
    array = _arrays.view(values, name)[1]
    for column, texts in enumerate(_columns.categories(array)):
        if texts is not None and (kernel is None or not _is_delta(kernel, name, column)):
            remedy = f"give kernel_{name}='delta'" if kernel is not None else "give numbers: one column of 0 and 1 per category"
            raise errors.DTypeError(f"{name} contains categories, which this loss would take for numbers; {remedy}")
    return np.asarray(array).reshape(len(array), -1)


def refuse_others(codes: np.ndarray, name: str, mean: ConditionalMean) -> None:
    """Refuses numbers that mean.encode cannot have made: another encoding of the categories, or one that the fit has not
    seen. What has no categories may be any number, and other shapes are refused elsewhere."""
    known = getattr(mean, "_categories", {}).get(name, ())
    columns = codes.reshape(len(codes), -1) if codes.ndim in (1, 2) and codes.size else np.empty((0, 0))
    for c, texts in enumerate(known if columns.shape[1] == len(known) else ()):
        if texts is None:
            continue
        column = columns[:, c]
        wrong = np.flatnonzero(~((column >= 0) & (column < len(texts)) & (column == np.round(column))))
        if wrong.size:
            raise errors.DataError(f"{name}: row {wrong[0]} is {column[wrong[0]]:g}, which is no code of the fit: these are 0 to "
                                   f"{len(texts) - 1}. Encode the categories with mean.encode(..., {name!r})")


def _is_delta(kernel: KernelLike, name: str, column: int) -> bool:
    """Whether the kernel only compares this column for equality."""
    handle, library = _kernels.parse(_runtime.context(), kernel, f"kernel_{name}"), _native.library()
    factor, kinds = _native.KernelFactor(), set()
    for i in range(library.circe_kernel_n_factors(handle.pointer)):
        _native.check(library.circe_kernel_get_factor(handle.pointer, i, ctypes.byref(factor)))
        if factor.first_col <= column and (factor.n_cols < 0 or column < factor.first_col + factor.n_cols):
            kinds.add(factor.kind)
    return kinds == {_DELTA}
