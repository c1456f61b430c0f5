"""Kernels, as texts and as objects of the library.

A kernel is a text, "gaussian(0.5)" or "0-2:gaussian*3:delta", or an object that makes such a text. A factor without a
width is free: sigma2 determines its width.
"""

from __future__ import annotations

import ctypes
import math
from numbers import Real
from typing import TYPE_CHECKING, Optional, Tuple, Union

from . import _native, _runtime, errors

if TYPE_CHECKING:
    import numpy as np

KernelLike = Union[str, "Kernel"]
Columns = Union[int, Tuple[int, int], range, None]


class Kernel:
    """A kernel: a product of factors, each on a range of columns.

    >>> Kernel("gaussian(0.5)")
    Kernel('gaussian(0.5)')
    >>> gaussian(0.5, columns=(0, 2)) * delta(columns=3)
    Kernel('0-2:gaussian(0.5)*3:delta')
    >>> float(gaussian(2.0).gram([[0.0]], [[2.0]])[0, 0])  # exp(-2^2 / (2 * 2))
    0.36787944117144233
    """

    __slots__ = ("text",)
    text: str

    def __init__(self, text: KernelLike):
        object.__setattr__(self, "text", text_of(text, "text"))

    def __setattr__(self, name, value):
        raise AttributeError("a Kernel does not change; make another")

    def __mul__(self, other: KernelLike) -> "Kernel":
        return Kernel(f"{self.text}*{text_of(other, 'other')}")

    def __rmul__(self, other: KernelLike) -> "Kernel":
        return Kernel(f"{text_of(other, 'other')}*{self.text}")

    def __repr__(self) -> str:
        return f"Kernel({self.text!r})"

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other) -> bool:
        return isinstance(other, Kernel) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self):
        return Kernel, (self.text,)

    def gram(self, a, b=None) -> "np.ndarray":
        """The matrix of k(a_i, b_j), of the dtype of a; b: None is a itself."""
        return gram(self, a, b)


def text_of(kernel: KernelLike, name: str) -> str:
    if isinstance(kernel, Kernel):
        return kernel.text
    if not isinstance(kernel, str):
        raise errors.DTypeError(f"{name} is {kernel!r}; it must be a text such as 'gaussian(0.5)' or a circe.Kernel")
    return kernel


def _columns(columns: Columns) -> str:
    if columns is None:
        return ""
    if isinstance(columns, range):
        columns = (columns.start, columns.stop - 1)
    if isinstance(columns, int):
        return f"{columns}:"
    first, last = columns
    return f"{first}-{last}:"


def _factor(name: str, sigma2: Optional[float], columns: Columns) -> Kernel:
    width = "" if sigma2 is None else f"({positive(sigma2, 'sigma2')!r})"
    return Kernel(f"{_columns(columns)}{name}{width}")


def gaussian(sigma2: Optional[float] = None, columns: Columns = None) -> Kernel:
    """exp(-|a - b|^2 / (2 sigma2)) on some columns: a number, (first, last), or None for all. Without sigma2, the width is
    free.

    >>> gaussian(0.5, columns=(0, 2))
    Kernel('0-2:gaussian(0.5)')
    """
    return _factor("gaussian", sigma2, columns)


def laplace(sigma2: Optional[float] = None, columns: Columns = None) -> Kernel:
    """exp(-|a - b| / sqrt(sigma2))."""
    return _factor("laplace", sigma2, columns)


def linear(columns: Columns = None) -> Kernel:
    """a . b"""
    return _factor("linear", None, columns)


def delta(columns: Columns = None) -> Kernel:
    """1 if a = b in every column, otherwise 0: for categories."""
    return _factor("delta", None, columns)


def positive(value, name: str) -> float:
    """A positive number as a float."""
    try:
        number = float(value) if isinstance(value, Real) or hasattr(value, "__float__") else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not (number > 0 and math.isfinite(number)):
        raise errors.ArgumentError(f"{name} is {value!r}; it must be a positive number")
    return number


def parse(context: _runtime.Context, kernel: KernelLike, name: str) -> _runtime.Handle:
    """A new kernel of the library, as written."""
    text = text_of(kernel, name)
    return _runtime.make("circe_kernel_parse", "circe_kernel_destroy", context.pointer, text.encode(),
                         parents=[context.handle], subject=f"{name} {text!r}")


def bound(context: _runtime.Context, kernel: KernelLike, sigma2, points, variable: str) -> _runtime.Handle:
    """The kernel of a variable (x, y or z) with every width given: by its text, by sigma2, or by the median heuristic of
    `points`, a view. Those that do not depend on points are kept."""
    try:
        found = context.kernels.get((kernel, None if sigma2.__class__ is str else sigma2))
    except TypeError:  # not hashable, so neither a kernel nor a number
        found = None
    if found is not None:
        return found
    handle = parse(context, kernel, f"kernel_{variable}")
    library = _native.library()
    free = library.circe_kernel_n_free(handle.pointer) > 0
    if sigma2 is None or (isinstance(sigma2, str) and sigma2 == "median"):
        if free:
            if sigma2 is None or points is None:
                raise errors.ArgumentError(f"kernel_{variable} {text_of(kernel, 'kernel')!r} has no width; give "
                                           f"sigma2_{variable}, or a width in the text: 'gaussian(0.5)'")
            _native.check(library.circe_kernel_bind_median(handle.pointer, points), f"sigma2_{variable}='median'")
        return context.remember((kernel, None), handle) if not free else handle
    if isinstance(sigma2, str):
        raise errors.ArgumentError(f"sigma2_{variable} is {sigma2!r}; it must be a positive number or 'median'")
    number = positive(sigma2, f"sigma2_{variable}")
    if not free:
        raise errors.ArgumentError(f"sigma2_{variable} is {number:g}, but the kernel of {variable}, "
                                   f"{text_of(kernel, 'kernel')!r}, has no width that is still to be chosen")
    _native.check(library.circe_kernel_bind(handle.pointer, number), f"sigma2_{variable}")
    return context.remember((kernel, sigma2), handle)


def text(kernel: Union[_runtime.Handle, int]) -> str:
    """A kernel of the library as text: its handle, which so lives until it is read, or the pointer of one that others hold."""
    pointer = kernel.pointer if isinstance(kernel, _runtime.Handle) else kernel
    return _native.library().circe_kernel_text(pointer).decode()


def gram(kernel: KernelLike, a, b=None, sigma2=None) -> "np.ndarray":
    """The matrix of k(a_i, b_j), in the dtype of a. b: None means a itself. sigma2: the width of a kernel that has none.

    >>> gram("linear", [[1.0], [2.0]])
    array([[1., 2.],
           [2., 4.]])
    """
    from . import _arrays

    context = _runtime.context()
    mat_a, keep_a = _arrays.view(a, "a")
    mat_b, keep_b = (mat_a, keep_a) if b is None else _arrays.view(b, "b", keep_a.dtype)
    handle = bound(context, kernel, sigma2, mat_a, "a")
    out, array = _arrays.result((len(keep_a), len(keep_b)), keep_a.dtype)
    with _runtime.interruptible():
        _native.check(_native.library().circe_gram(context.pointer, handle.pointer, mat_a, mat_b, out))
    return array


def median_sigma2(points) -> float:
    """The median heuristic: the square of the median distance between two points.

    >>> median_sigma2([0.0, 1.0, 3.0])
    4.0
    """
    from . import _arrays

    mat, keep = _arrays.view(points, "points")
    value = ctypes.c_double()
    _native.check(_native.library().circe_median_sigma2(_runtime.context().pointer, mat, 0, -1, ctypes.byref(value)), "points")
    return value.value
