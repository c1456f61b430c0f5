"""What a loss computes: kernels with all widths, options, and the fitted objects it needs; and the two ways to call it.

A plan of custom calls (_ffi.cc) is a number that compiled programs contain. It lives as long as its ConditionalMean or
ResidualFeatures; without one, it lives as long as the process. A program whose plan is gone says so.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, Optional, Tuple

import numpy as np

from .. import _kernels, _measures, _native, _runtime, _specs, errors
from .._mean import ConditionalMean, ResidualFeatures
from .._rows import options_of_rows
from .._specs import Spec
from . import _ffi


class Plan:
    """`by_rows`: the points are row numbers of `features`, not y and z."""

    def __init__(self, spec: Spec, mean: Optional[ConditionalMean], features: Optional[ResidualFeatures]):
        self.spec, self.number, self.by_rows = spec, 0, features is not None
        self.n_points = 1 if self.by_rows else 2
        owner = features if features is not None else mean
        self._owner = None if owner is None else weakref.ref(owner)
        shim = _ffi.shim()
        if shim is not None:
            self._register(shim, mean, features)

    def call(self, x, *points, grad: bool, weights=None) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        """Value and gradient in NumPy, for the way through Python."""
        owner = None if self._owner is None else self._owner()
        if owner is None and self._owner is not None:
            raise errors.ClosedError("the ConditionalMean of this compiled function is gone; trace it again with the one in use")
        if self.by_rows:
            forms = {number: word for word, number in _native.ESTIMATORS.items()}
            found = _measures.circe_cached(owner, x, *points, kernel_x=self.spec.x, estimator=forms[dict(self.spec.numbers)["estimator"]],
                                           grad=grad, weights=weights)
        else:
            found = _measured(x, *points, spec=self.spec, mean=owner, grad=grad, weights=weights)
        return np.float64(found.value), found.grad

    def _register(self, shim, mean, features) -> None:
        keep = [owner.handle for owner in (None if mean is None else mean.model, features) if owner is not None]
        options = _measures.options_of(self.spec.kind, self.spec.numbers, mean is not None)
        options.kernel_x, options.kernel_y, options.kernel_z = (text and text.encode() for text in self.spec[1:4])
        self.number = shim.circe_jax_plan(options, keep[0].pointer if mean is not None else None,
                                          keep[1].pointer if features is not None else None)
        if not self.number:
            raise errors.ArgumentError(f"the library refuses {self.spec}")
        self._handle = _runtime.Handle(self.number, shim.circe_jax_forget, *keep)  # freed before what it borrows


_lone: Dict[Spec, Plan] = {}
_of: "weakref.WeakKeyDictionary[Any, Dict[Spec, Plan]]" = weakref.WeakKeyDictionary()


@options_of_rows("weights")
def _measured(x, y, z, *, spec: Spec, mean: Optional[ConditionalMean], grad: bool) -> _measures.Measurement:
    views = _measures._views(x, y, z, None)
    kernels = tuple(text and _measures._bound(views, variable, text, "median" if variable == "x" else None)
                    for variable, text in zip("xyz", spec[1:4]))
    return _measures._found(spec.kind, views, kernels, grad, spec.numbers, mean)


def plan(spec: Spec, mean: Optional[ConditionalMean], features: Optional[ResidualFeatures] = None) -> Plan:
    """One for each loss that is asked for."""
    owner = features if features is not None else mean.model if mean is not None else None
    found = _lone if owner is None else _of.setdefault(owner, {})
    if spec not in found:
        found[spec] = Plan(spec, mean, features)
    return found[spec]


# ---- the four losses ----------------------------------------------------------------------------------------------------


def _with_x(spec: Spec, kernel, sigma2) -> Spec:
    """The kernel of x with its width; without it if it is the median of each batch."""
    context = _runtime.context()
    median = isinstance(sigma2, str) and sigma2 == "median"
    return spec._replace(x=_kernels.text(_kernels.parse(context, kernel, "kernel_x") if median else
                                         _kernels.bound(context, kernel, sigma2, None, "x")))


def _fitted(mean, loss: str) -> ConditionalMean:
    if not isinstance(mean, ConditionalMean):
        raise errors.ArgumentError(f"mean is {mean!r}; it must be a fitted ConditionalMean")
    if mean.model.random:
        raise errors.UnsupportedError(f"mean was fitted by method='rff', whose features change from step to step; {loss} takes "
                                      "one fitted by another method")
    mean.model.pointer  # not closed
    return mean


def circe(mean, sigma2_x, kernel_x, estimator) -> Plan:
    spec = _with_x(_specs.circe(estimator), kernel_x, sigma2_x)
    if isinstance(mean, ResidualFeatures):
        return plan(spec, _fitted(mean.mean, "circe_loss"), mean)
    return plan(spec, _fitted(mean, "circe_loss"))


def hsic(sigma2_x, sigma2_z, kernel_x, kernel_z, estimator) -> Plan:
    return plan(_with_x(_specs.hsic(kernel_z, sigma2_z, estimator), kernel_x, sigma2_x), None)


def hscic(mean, sigma2_x, sigma2_y, sigma2_z, kernel_x, kernel_y, kernel_z, ridge) -> Plan:
    own = None if mean is None else _fitted(mean, "hscic_loss")
    return plan(_with_x(_specs.hscic(own, kernel_y, kernel_z, sigma2_y, sigma2_z, ridge), kernel_x, sigma2_x), own)


def gcm(mean, sigma2_y, kernel_y, ridge, regression, combine, sharpness) -> Plan:
    own = None if mean is None else _fitted(mean, "gcm_loss")
    return plan(_specs.gcm(own, kernel_y, sigma2_y, ridge, regression, combine, sharpness), own)
