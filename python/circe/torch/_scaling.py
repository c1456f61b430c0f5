"""Features as their kernel sees them: normalised, and divided by a width that follows them (circe/scaling.h,
docs/math.md); and the watchman, who looks at the batches.

A plan with a Scaling gives a kernel of width 1 to the measure; what the measure sees is x over its width, and its gradient
goes back the same way. The library does all of it, on the CPU and, without waiting for the device, on a GPU.
"""

from __future__ import annotations

import ctypes
import math
import warnings
import weakref
from typing import Dict, Optional

import torch
from torch import Tensor

from .. import _kernels, _native, _runtime, errors
from . import _cuda

FOLLOWING = ("median", "running")
_RUNNING_KEEP = 0.9


class InvarianceWarning(UserWarning):
    """The loss sees little of the features: their kernel is nearly constant or nearly the identity, or their scale has
    changed a lot."""


def settled(kernel_x, sigma2_x):
    """(sigma2_x of the measure's kernel, whether the width follows the features)."""
    if not (isinstance(sigma2_x, str) and sigma2_x in FOLLOWING):
        if isinstance(sigma2_x, str):
            raise errors.ArgumentError(f"sigma2_x is {sigma2_x!r}; it must be a positive number, 'median' or 'running'")
        return sigma2_x, False
    handle = _kernels.parse(_runtime.context(), kernel_x, "kernel_x")
    free = _native.library().circe_kernel_n_free(handle.pointer) > 0
    return (1.0, True) if free else (None, False)


class Scaling:
    """Of one loss. `running` of the owner, a module, is the tensor of its running widths."""

    def __init__(self, kernel_x, sigma2_x, normalize_x: str):
        self.kernel_x, self.sigma2_x = kernel_x, sigma2_x
        self.how = _native.choice(_native.NORMALIZATIONS, "normalize_x", normalize_x)
        self.bound, self.follows = settled(kernel_x, sigma2_x)
        self.runs = self.follows and sigma2_x == "running"
        handle = _kernels.parse(_runtime.context(), kernel_x, "kernel_x")
        self.factors = int(_native.library().circe_kernel_n_factors(handle.pointer))
        self.changes = self.follows or self.how != 0
        keep = _RUNNING_KEEP if self.runs else 0.0
        self._steps, self._values = (ctypes.byref(_native.Scaling(self.how, keep, frozen and self.runs)) for frozen in (False, True))
        self.owner: Optional[weakref.ref] = None
        self.watch = Watch()
        self._figures: Dict[torch.device, Tensor] = {}

    def owned_by(self, module) -> "Scaling":
        self.owner = weakref.ref(module)
        return self

    def _kernel(self, context: _runtime.Context) -> _runtime.Handle:
        """Leaves widths open if they follow x; otherwise the kernel is the measure's."""
        if not self.follows:
            return _kernels.bound(context, self.kernel_x, self.bound, None, "x")
        key = (self.kernel_x, "following")
        found = context.kernels.get(key)
        return found if found is not None else context.remember(key, _kernels.parse(context, self.kernel_x, "kernel_x"))

    def _widths(self, device: torch.device) -> Tensor:
        owner = self.owner() if self.owner is not None else None
        if not self.runs or owner is None:
            return torch.zeros(self.factors, dtype=torch.float64, device=device)
        if owner.running_sigma2.dtype is not torch.float64 or owner.running_sigma2.device != device:
            owner.running_sigma2 = owner.running_sigma2.to(device=device, dtype=torch.float64)
        return owner.running_sigma2

    def _training(self) -> bool:
        owner = self.owner() if self.owner is not None else None
        return owner is None or owner.training

    def due(self) -> bool:
        """Whether x changes, or the watchman looks at this batch."""
        return self.changes or (self._training() and self.watch.due())

    def forward(self, x: Tensor):
        """(x as the kernel sees it, the widths, how) of an x (n, columns) with contiguous rows."""
        training = self._training()
        how = self._steps if training else self._values
        widths = self._widths(x.device)
        out = torch.empty_like(x, memory_format=torch.contiguous_format) if self.changes else None
        if x.device.type == "cuda":
            scratch = self._on_cuda(x, widths, how, out, training)
        else:
            scratch = None
            self._on_cpu(x, widths, how, out, training)
        return (x if out is None else out), widths, how, scratch

    def _on_cpu(self, x, widths, how, out, training) -> None:
        context, figures = _runtime.context(), (ctypes.c_double * _native.N_FIGURES)()
        _native.check(_native.library().circe_scale(
            context.work, self._kernel(context).pointer, how, _cuda.view(x), widths.data_ptr(),
            figures if training else None, None if out is None else _cuda.view(out)))
        if training:
            self.watch.look(figures[0], figures[1], self)

    def _on_cuda(self, x, widths, how, out, training) -> Tensor:
        gpu, library = _cuda.current(x.device), _native.library()
        scratch = torch.empty(library.circe_cuda_scale_bytes(len(x), x.shape[1]), dtype=torch.uint8, device=x.device)
        figures = self._figures.get(x.device)
        if figures is None:
            figures = self._figures[x.device] = torch.zeros(_native.N_FIGURES, dtype=torch.float64, device=x.device)
        _native.check(library.circe_cuda_scale(
            gpu.pointer, self._kernel(gpu.context).pointer, how, _cuda.view(x), widths.data_ptr(),
            figures.data_ptr() if training else None, scratch.data_ptr(), None if out is None else _cuda.view(out)))
        if training:
            self.watch.look_later(figures, self)
        return scratch

    def backward(self, x: Tensor, widths: Tensor, how, scratch, grad: Tensor) -> Tensor:
        """The gradient with respect to x, in place of that with respect to what the kernel saw."""
        if not self.changes:
            return grad
        if x.device.type == "cuda":
            gpu = _cuda.current(x.device)
            _native.check(_native.library().circe_cuda_scale_gradient(
                gpu.pointer, self._kernel(gpu.context).pointer, how, _cuda.view(x), widths.data_ptr(), scratch.data_ptr(),
                _cuda.view(grad)))
            return grad
        context = _runtime.context()
        _native.check(_native.library().circe_scale_gradient(
            context.work, self._kernel(context).pointer, how, _cuda.view(x), widths.data_ptr(), _cuda.view(grad)))
        return grad


# ---- the watchman -------------------------------------------------------------------------------------------------------


class Watch:
    """Warns once of each: a kernel that is nearly the identity, one that is nearly constant, and features whose scale has
    changed by a factor of 5 since the first batches."""

    LOW, HIGH, DRIFT, EVERY, SMOOTH, SELDOM = 0.05, 0.95, 5.0, 64, 0.05, 8

    def __init__(self):
        self.said = set()
        self.first: Optional[float] = None
        self.kernel: Optional[float] = None
        self.spread: Optional[float] = None
        self._calls, self._pending, self._passed = 0, None, 0

    def due(self) -> bool:
        """The first batches all, then some: a look costs as much as a small batch."""
        self._passed += 1
        return self._passed <= 1 / self.SMOOTH or self._passed % self.SELDOM == 0

    def look(self, kernel: float, spread: float, scaling: Scaling) -> None:
        """Of one batch, or the means over some; averages over about 20 looks are judged, from the twentieth on."""
        self._calls += 1
        keep = max(self.SMOOTH, 1.0 / self._calls)
        self.kernel = kernel if self.kernel is None else (1 - keep) * self.kernel + keep * kernel
        self.spread = spread if self.spread is None else (1 - keep) * self.spread + keep * spread
        if self._calls == 1 / self.SMOOTH:
            self.first = self.spread
        if self._calls >= 1 / self.SMOOTH:
            self._judge(scaling)

    def _judge(self, scaling: Scaling) -> None:
        width = f"sigma2_x={scaling.sigma2_x!r}"
        if self.kernel < self.LOW:
            self._say("low", f"the kernel of x averages {self.kernel:.3g} between two rows ({width}): it is so narrow that "
                             "the loss sees hardly any dependence, and x can grow to hide it; use sigma2_x='median'")
        if self.kernel > self.HIGH:
            self._say("high", f"the kernel of x averages {self.kernel:.3g} between two rows ({width}): x hardly varies for "
                              "it, so the loss is small even if x depends on z; use sigma2_x='median', or a smaller gamma if "
                              "x has collapsed to a constant")
        if self.first and not self.first / self.DRIFT <= self.spread <= self.first * self.DRIFT:
            grown = self.spread > self.first
            self._say("drift", f"the standard deviation of x has {'grown' if grown else 'shrunk'} from {self.first:.3g} to "
                               f"{self.spread:.3g} ({width}): " +
                               ("a width that follows x keeps the loss right; weight decay keeps x small" if scaling.follows and
                                grown else "with a number for sigma2_x the loss no longer measures the same thing; use "
                                "sigma2_x='median'" if not scaling.follows else "x is about to collapse to a constant; use the "
                                "estimator 'ustat', or a smaller gamma"))

    def _say(self, what: str, text: str) -> None:
        if what not in self.said:
            self.said.add(what)
            warnings.warn(text, InvarianceWarning, stacklevel=8)

    def look_later(self, figures: Tensor, scaling: Scaling) -> None:
        """The same of sums in a device's memory, without waiting for it: every 64 calls they are sent off, and what was sent
        the time before is looked at."""
        self._queued = getattr(self, "_queued", 0) + 1
        if self._queued % self.EVERY or torch.cuda.is_current_stream_capturing():
            return
        if self._pending is not None and self._pending[1].query():
            kernel, spread, batches = self._pending[0].tolist()
            self._pending = None
            if batches > 0 and math.isfinite(spread):
                self.look(kernel / batches, spread / batches, scaling)
        if self._pending is None:
            there = torch.empty(figures.shape, dtype=figures.dtype, pin_memory=True)
            there.copy_(figures, non_blocking=True)
            figures.zero_()
            sent = torch.cuda.Event()
            sent.record()
            self._pending = there, sent
