"""What a loss computes, apart from how PyTorch calls it: kernels, options, and the calls on the CPU and on a GPU.

A plan receives checked tensors (_evaluate.py), does or queues the work, and returns a status.

A plan has one circe_measure per thread that uses it, and per stream of a GPU. A training step calls the same function
with the same arguments, except for addresses and sizes. A Frame keeps both ready for ctypes: a call only writes its views
into it.
"""

from __future__ import annotations

import copy
import ctypes
import itertools
import struct
import threading
import warnings
import weakref
from typing import Any, Callable, Optional, Tuple

from .. import _kernels, _measures, _native, _runtime, _specs, errors
from .._mean import ConditionalMean, ResidualFeatures
from .._model import Model
from .._specs import Spec
from . import _scaling

_numbers = itertools.count()
_plans: "weakref.WeakValueDictionary[int, Plan]" = weakref.WeakValueDictionary()


def find(number: int) -> "Plan":
    """The plan that a compiled graph names."""
    plan = _plans.get(number)
    if plan is None:
        raise errors.ClosedError("the loss of this compiled graph is gone; compile again with the one in use")
    return plan


class SmallBatchWarning(UserWarning):
    """A batch had fewer rows than the loss needs; it counted as 0."""


_VIEW = "PqqqI4x"  # a circe_mat, as _native.mat
_address: Any = ctypes.c_void_p.from_param
NO_VIEW = (0, 0, 0, 0, 0)
INDEX_AT = 1  # of circe_measure_evaluate


class Frame:
    """A call in one thread, on the CPU or on a stream of a GPU. `write(block, 0, *x, *y, *z, *grad)` fills in the views, five numbers each:
    address, rows, columns, stride, dtype. function(*with_grad) or function(*without) is the call; it leaves `value`."""

    __slots__ = ("change", "context", "held", "guard", "block", "views", "value", "function", "with_grad", "without", "keep")
    write = staticmethod(struct.Struct(4 * _VIEW).pack_into)

    def __init__(self, change: int, context: _runtime.Context, held: Optional[_runtime.Handle]):
        self.change, self.context = change, context
        self.held: Callable[[], Any] = _nothing if held is None else weakref.ref(held)  # weak, so that close() frees it
        self.guard = None  # locked during a call, if there is one
        self.block = ctypes.create_string_buffer(struct.calcsize(4 * _VIEW))
        self.views = [_address(ctypes.addressof(self.block) + i * struct.calcsize(_VIEW)) for i in range(4)]
        self.value = ctypes.c_double()

    def set(self, function: Callable, *arguments, keep=None) -> None:
        """The function, and its arguments but for the last two, which are the value and the gradient of every measure.
        `keep`: what lives as long as the pointers to it."""
        every = (*arguments, ctypes.byref(self.value))
        self.function, self.keep = function, keep
        self.with_grad, self.without = (*every, self.views[3]), (*every, None)


def _nothing() -> bool:
    """Stands for the owner of a frame that borrows nothing: it always exists."""
    return True


class Plan:
    """`spec`: the measure. `mean` of z given y, or None. `features`: residual features that rows are taken from, or None.
    `uses_y`: whether y is asked for."""

    group = None  # of ranks; set by the loss, with the next
    same_size = False
    name, least, refuses_small, said = "", 2, False, False  # the loss's name, and what it does with fewer rows than `least`
    scaling: Optional[_scaling.Scaling] = None  # what happens to x before its kernel; None: there is no kernel of x

    def __init__(self, spec: Spec, mean: Optional[ConditionalMean] = None, features: Optional[ResidualFeatures] = None, *,
                 kernel_x=None, sigma2_x=None, normalize_x="none"):
        self._enlist()
        self.spec, self.mean, self.features = spec, mean, features
        self.uses_y = features is None and spec.kind != "hsic"
        self.kernel_x, self.sigma2_x, self.normalize_x = kernel_x, sigma2_x, normalize_x
        if kernel_x is not None:
            self.scaling = _scaling.Scaling(kernel_x, sigma2_x, normalize_x)
            self.sigma2_x = self.scaling.bound
            self.kernels(_runtime.context())  # reports now what is wrong with it

    def _enlist(self) -> None:
        self.number = next(_numbers)
        _plans[self.number] = self
        self._local = threading.local()

    def copied(self) -> "Plan":
        """The same measure, with widths and a watchman of its own."""
        other = copy.copy(self)
        other._enlist()
        if self.scaling is not None:
            other.scaling = _scaling.Scaling(self.kernel_x, self.scaling.sigma2_x, self.normalize_x)
        return other

    def enough(self, rows: int) -> bool:
        """Whether so many rows that count make a loss. If not, it is 0, after one warning, or an error."""
        if rows >= self.least:
            return True
        if self.refuses_small:
            raise errors.ShapeError(f"{self.name} needs at least {self.least} rows, but the batch has {rows}")
        if not self.said:
            warnings.warn(f"a batch of {rows} row{'s' * (rows != 1)} is too small for {self.name}, which needs {self.least}: it counts as 0 "
                          "(drop_last=True of a DataLoader leaves it out)", SmallBatchWarning, stacklevel=7)  # the caller of the loss
        self.said = True
        return False

    def coded(self) -> bool:
        """Whether the mean was fitted on categories: y or z are then their codes."""
        return bool(getattr(self.mean, "columns_", ()))

    def kernels(self, context: _runtime.Context) -> Tuple[Optional[_runtime.Handle], ...]:
        """Those of x, y and z, bound, in this thread's context."""
        own = None if self.kernel_x is None else _kernels.bound(context, self.kernel_x, self.sigma2_x, None, "x")
        return (own, *(text and _kernels.bound(context, text, None, None, v) for v, text in (("y", self.spec.y), ("z", self.spec.z))))

    def held(self) -> Tuple[Optional[Model], Optional[_runtime.Handle]]:
        """(model, the library's object that a call needs, which keeps all others); raises where one was closed."""
        if self.mean is None:
            return None, None
        model = self.mean.model
        handle = model.handle
        return model, handle if self.features is None else self.features.handle

    def fill(self, frame: Frame, model: Optional[Model], gpu=None) -> None:
        """Makes the measure, for points on a GPU if one is given, and sets the frame's function and arguments."""
        library, (x, y, z, _) = _native.library(), frame.views
        features = None if self.features is None else self.features.handle
        measure = _measures.made(frame.context, self.spec.kind, self.kernels(frame.context), model and model.handle, features, self.spec.numbers,
                                 parents=() if gpu is None else [gpu.handle])
        if gpu is not None:
            _native.check(library.circe_measure_to_cuda(measure.pointer, gpu.pointer, 0, 0, 0))
        if model is not None:
            frame.guard = model.guard if model.random or self.spec.kind != "circe" else None
        if features is None:
            frame.set(library.circe_measure_points, measure.pointer, x, y, z, keep=measure)
        else:  # row numbers and their count go in between, at INDEX_AT
            frame.set(library.circe_measure_evaluate, measure.pointer, x, keep=measure)

    def frame(self, gpu=None) -> Tuple[Frame, Any]:
        """(this thread's, on the GPU if one is given; what it borrows). The caller holds both to the end of a call: another
        thread may close the mean, or fit it again."""
        frame = getattr(self._local, "frame", None) if gpu is None else gpu.frames.get(self)
        if frame is not None and frame.change == _runtime.changes:
            alive = frame.held()
            if alive is not None:
                return frame, alive
        if gpu is None:
            self._local.frame = None
        else:
            gpu.frames.pop(self, None)
        change = _runtime.changes  # read first, so that later changes are noticed
        model, alive = self.held()
        frame = Frame(change, _runtime.context(), alive)
        self.fill(frame, model, gpu)
        if gpu is None:
            self._local.frame = frame
        else:
            gpu.frames[self] = frame
        return frame, alive


def of_circe(source, estimator, **features_of_x) -> Plan:
    """`source`: the mean, or residual features."""
    spec = _specs.circe(estimator)
    features = source if isinstance(source, ResidualFeatures) else None
    mean = source if features is None else features.mean
    if not isinstance(mean, ConditionalMean):
        raise errors.ArgumentError(f"mean is {source!r}; it must be a fitted ConditionalMean, or the ResidualFeatures of "
                                   "a training set")
    mean.model.pointer  # fitted, and not closed
    return Plan(spec, mean, features, **features_of_x)
