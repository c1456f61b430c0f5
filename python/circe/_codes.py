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


def _is_delta(kernel: KernelLike, name: str, column: int) -> bool:
    """Whether the kernel only compares this column for equality."""
    handle, library = _kernels.parse(_runtime.context(), kernel, f"kernel_{name}"), _native.library()
    factor, kinds = _native.KernelFactor(), set()
    for i in range(library.circe_kernel_n_factors(handle.pointer)):
        _native.check(library.circe_kernel_get_factor(handle.pointer, i, ctypes.byref(factor)))
        if factor.first_col <= column and (factor.n_cols < 0 or column < factor.first_col + factor.n_cols):
            kinds.add(factor.kind)
    return kinds == {_DELTA}
