"""What a loss computes, apart from how PyTorch calls it: kernels, options, and the calls on the CPU and on a GPU.

A plan is given views of tensors that were checked (_evaluate.py) and queues or does the work; it returns a status.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from typing import Optional

import torch

from .. import _kernels, _native, _runtime, errors
from .._mean import ConditionalMean, ResidualFeatures

_numbers = itertools.count()
_plans: "weakref.WeakValueDictionary[int, Plan]" = weakref.WeakValueDictionary()


def find(number: int) -> "Plan":
    """The plan that a compiled graph names."""
    plan = _plans.get(number)
    if plan is None:
        raise errors.ClosedError("the loss of this compiled graph is gone; compile again with the one in use")
    return plan


class Plan:
    """Base. `uses_y`: whether y is asked for. `features`: residual features that rows are taken from, or None."""

    uses_y = True
    features: Optional[ResidualFeatures] = None
    group = None  # of ranks; set by the loss, with the next
    same_size = False

    def __init__(self, kernel_x=None, sigma2_x=None):
        self.number = next(_numbers)
        _plans[self.number] = self
        self.kernel_x, self.sigma2_x = kernel_x, sigma2_x
        if kernel_x is not None:
            self.kernel(_runtime.context(), "x")  # what is wrong with it is said now

    def kernel(self, context: _runtime.Context, variable: str) -> int:
        """The bound kernel of x, y or z in this thread's context."""
        if variable == "x":
            return _kernels.bound(context, self.kernel_x, self.sigma2_x, None, "x").pointer
        return _kernels.bound(context, getattr(self, f"kernel_{variable}"), getattr(self, f"sigma2_{variable}"), None,
                              variable).pointer

    def on_cpu(self, context, x, y, z, index, n, value, grad) -> int:
        raise NotImplementedError

    def on_cuda(self, gpu, x, y, z, index, n, value, grad) -> int:
        raise NotImplementedError


class CircePlan(Plan):
    def __init__(self, source, kernel_x, sigma2_x, estimator):
        self.form = _native.choice(_native.ESTIMATORS, "estimator", estimator)
        if isinstance(source, ResidualFeatures):
            self.features, self.mean, self.uses_y = source, source.mean, False
        elif isinstance(source, ConditionalMean):
            self.mean = source
        else:
            raise errors.ArgumentError(f"mean is {source!r}; it must be a fitted ConditionalMean, or the ResidualFeatures of "
                                       "a training set")
        self.mean.model.pointer  # fitted, and not closed
        self._on_device: dict = {}
        super().__init__(kernel_x, sigma2_x)

    def device_features(self, features: ResidualFeatures, device: torch.device, dtype: torch.dtype):
        """(y, zeta) of all rows as tensors of a device, copied there at the first call."""
        key = (device, dtype)
        if key not in self._on_device:
            self._on_device[key] = tuple(torch.from_numpy(values.copy()).to(device=device, dtype=dtype)
                                         for values in (features.y, features.zeta))
        return self._on_device[key]

    def on_cpu(self, context, x, y, z, index, n, value, grad):
        library, model, kernel = _native.library(), self.mean.model, self.kernel(context, "x")
        if self.features is not None:
            return library.circe_measure_circe_cached(context.work, model.pointer, self.features.pointer, index, n, kernel, x,
                                                      self.form, value, grad)
        with model.guard:
            return library.circe_measure_circe(context.work, model.pointer, kernel, x, y, z, self.form, value, grad)

    def on_cuda(self, gpu, x, y, z, index, n, value, grad):
        context = gpu.context
        kernel_y = _kernels.bound(context, self.mean.kernel_y_, None, None, "y").pointer
        if self.features is not None:
            y, zeta = self.device_features(self.features, gpu.device, x.dtype)
        else:
            zeta = gpu.residual_features(self.mean.model, y, z)
        return _native.library().circe_cuda_measure_circe(gpu.pointer, kernel_y, gpu.view(y), gpu.view(zeta), index, n,
                                                          self.kernel(context, "x"), gpu.view(x), self.form, value, grad)


class HsicPlan(Plan):
    uses_y = False

    def __init__(self, kernel_x, kernel_z, sigma2_x, sigma2_z, estimator):
        self.form = _native.choice(_native.HSIC_ESTIMATORS, "estimator", estimator)
        self.kernel_z, self.sigma2_z = kernel_z, sigma2_z
        super().__init__(kernel_x, sigma2_x)
        self.kernel(_runtime.context(), "z")

    def _kernels(self, context):
        return _native.Kernels(self.kernel(context, "x"), None, self.kernel(context, "z"))

    def on_cpu(self, context, x, y, z, index, n, value, grad):
        return _native.library().circe_measure_hsic(context.work, self._kernels(context), x, z, self.form, value, grad)

    def on_cuda(self, gpu, x, y, z, index, n, value, grad):
        return _native.library().circe_cuda_measure_hsic(gpu.pointer, self._kernels(gpu.context), gpu.view(x), gpu.view(z),
                                                         self.form, value, grad)


def _batch_options(ridge) -> _native.BatchOptions:
    options = _native.BatchOptions()
    _native.library().circe_batch_options_init(options)
    options.ridge = _kernels.positive(ridge, "ridge")
    return options


class HscicPlan(Plan):
    def __init__(self, mean, kernel_x, kernel_y, kernel_z, sigma2_x, sigma2_y, sigma2_z, ridge):
        self.mean = mean
        if mean is not None:
            mean.model.pointer
            ridge = mean.ridge_ if ridge is None else ridge
        if ridge is None:
            raise errors.ArgumentError("ridge is missing; give lambda in (K + lambda I), or mean=")
        self.options = _batch_options(ridge)
        self.kernel_y, self.kernel_z, self.sigma2_y, self.sigma2_z = kernel_y, kernel_z, sigma2_y, sigma2_z
        super().__init__(kernel_x, sigma2_x)
        if mean is None:
            self._kernels(_runtime.context())

    def _kernels(self, context):
        return _native.Kernels(*(self.kernel(context, variable) for variable in "xyz"))

    def on_cpu(self, context, x, y, z, index, n, value, grad):
        library = _native.library()
        if self.mean is None:
            return library.circe_measure_hscic(context.work, self._kernels(context), x, y, z, self.options, value, grad)
        model = self.mean.model
        with model.guard:
            return library.circe_measure_hscic_holdout(context.work, model.pointer, self.kernel(context, "x"), x, y, z,
                                                       self.options, value, grad)

    def on_cuda(self, gpu, x, y, z, index, n, value, grad):
        library, context = _native.library(), gpu.context
        if self.mean is None:
            return library.circe_cuda_measure_hscic(gpu.pointer, self._kernels(context), gpu.view(x), gpu.view(y), gpu.view(z),
                                                    None, self.options, value, grad)
        zeta = gpu.residual_features(self.mean.model, y, z)
        kernel_y = _kernels.bound(context, self.mean.kernel_y_, None, None, "y").pointer
        return library.circe_cuda_measure_hscic_holdout(gpu.pointer, kernel_y, gpu.view(y), gpu.view(zeta), None,
                                                        self.kernel(context, "x"), gpu.view(x), self.options, value, grad)


class GcmPlan(Plan):
    def __init__(self, mean, kernel_y, sigma2_y, ridge, regression, combine, sharpness):
        self.mean, self.kernel_y, self.sigma2_y = mean, kernel_y, sigma2_y
        self.options = _native.GcmOptions()
        _native.library().circe_gcm_options_init(self.options)
        self.options.regression = _native.choice(_native.GCM_REGRESSIONS, "regression", regression)
        self.options.combine = _native.choice(_native.GCM_COMBINES, "combine", combine)
        self.options.sharpness = _kernels.positive(sharpness, "sharpness")
        self.by_kernel = regression == "kernel"
        if self.by_kernel:
            if mean is not None:
                ridge = mean.ridge_ if ridge is None else ridge
                self.kernel_y, self.sigma2_y = mean.kernel_y_, None
            if ridge is None:
                raise errors.ArgumentError("ridge is missing; give lambda in (K + lambda I), or regression='linear'")
            self.options.batch = _batch_options(ridge)
        super().__init__()
        self._kernel_y(_runtime.context())
        if mean is not None:
            mean.model.pointer

    def _kernel_y(self, context):
        return self.kernel(context, "y") if self.by_kernel else None

    def on_cpu(self, context, x, y, z, index, n, value, grad):
        options = _native.GcmOptions.from_buffer_copy(self.options)
        if self.mean is not None:
            options.holdout = self.mean.model.pointer
        return _native.library().circe_measure_gcm(context.work, self._kernel_y(context), x, y, z, options, value, grad)

    def on_cuda(self, gpu, x, y, z, index, n, value, grad):
        if self.mean is not None:
            raise errors.UnsupportedError("mean: GCMLoss takes it for tensors of the CPU only; leave it out on a GPU")
        return _native.library().circe_cuda_measure_gcm(
            gpu.pointer, self._kernel_y(gpu.context), gpu.view(x), gpu.view(y), gpu.view(z), None, None,
            ctypes.byref(self.options), value, grad)
