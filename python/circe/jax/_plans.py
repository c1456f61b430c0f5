"""What a loss computes: kernels with all widths, options, and the fitted objects it needs; and the two ways to call it.

A plan of custom calls (_ffi.cc) is a number that compiled programs contain. It lives as long as its ConditionalMean or
ResidualFeatures; without one, it lives as long as the process. A program whose plan is gone says so.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import numpy as np

from .. import _kernels, _measures, _native, _runtime, errors
from .._mean import ConditionalMean, ResidualFeatures
from . import _ffi


class Spec(NamedTuple):
    """Kernels are texts with every width, but perhaps those of x, or None. `numbers`: (field, value) pairs of the measure's options."""

    kind: str
    x: Optional[str] = None
    y: Optional[str] = None
    z: Optional[str] = None
    numbers: Tuple[Tuple[str, Any], ...] = ()


class Plan:
    """`call` is (x, *points, grad=, weights=) -> value and gradient in NumPy, for the way through Python. `by_rows`: the points are
    row numbers, not y and z."""

    def __init__(self, spec: Spec, mean: Optional[ConditionalMean], features: Optional[ResidualFeatures], call: Callable):
        self.spec, self.call = spec, call
        self.number, self.by_rows = 0, features is not None
        self.n_points = 1 if self.by_rows else 2
        shim = _ffi.shim()
        if shim is not None:
            self._register(shim, mean, features)

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


def plan(spec: Spec, mean: Optional[ConditionalMean], features: Optional[ResidualFeatures], call: Callable) -> Plan:
    """One for each loss that is asked for."""
    owner = features if features is not None else mean.model if mean is not None else None
    found = _lone if owner is None else _of.setdefault(owner, {})
    if spec not in found:
        found[spec] = Plan(spec, mean, features, call)
    return found[spec]


# ---- the four losses ----------------------------------------------------------------------------------------------------


def _text(kernel, sigma2, variable: str) -> str:
    """The kernel's text with its width; without it if it is the median of each batch of x."""
    if variable == "x" and isinstance(sigma2, str) and sigma2 == "median":
        return _kernels.text(_kernels.parse(_runtime.context(), kernel, "kernel_x"))
    return _kernels.text(_kernels.bound(_runtime.context(), kernel, sigma2, None, variable))


def _fitted(mean, random: str) -> ConditionalMean:
    if not isinstance(mean, ConditionalMean):
        raise errors.ArgumentError(f"mean is {mean!r}; it must be a fitted ConditionalMean")
    if mean.model.random:
        raise errors.UnsupportedError(f"mean was fitted by method='rff', whose features change from step to step; {random} takes "
                                      "one fitted by another method")
    mean.model.pointer  # not closed
    return mean


def _measured(found) -> Tuple[np.ndarray, Optional[np.ndarray]]:
    return np.float64(found.value), found.grad


def circe(mean, sigma2_x, kernel_x, estimator) -> Plan:
    form = _native.choice(_native.ESTIMATORS, "estimator", estimator)
    spec = Spec("circe", _text(kernel_x, sigma2_x, "x"), numbers=(("estimator", form),))
    options = {"kernel_x": spec.x, "sigma2_x": "median", "estimator": estimator}
    if isinstance(mean, ResidualFeatures):
        features = mean
        held = weakref.ref(features)
        return plan(spec, _fitted(features.mean, "circe_loss"), features,
                    lambda x, index, **how: _measured(_measures.circe_cached(_alive(held), x, index, **how, **options)))
    model = weakref.ref(_fitted(mean, "circe_loss"))
    return plan(spec, mean, None,
                lambda x, y, z, **how: _measured(_measures.circe(x, y, z, _alive(model), **how, **options)))


def _alive(reference):
    found = reference()
    if found is None:
        raise errors.ClosedError("the ConditionalMean of this compiled function is gone; trace it again with the one in use")
    return found


def hsic(sigma2_x, sigma2_z, kernel_x, kernel_z, estimator) -> Plan:
    biased = _native.choice(_native.HSIC_ESTIMATORS, "estimator", estimator) == _native.HSIC_ESTIMATORS["biased"]
    spec = Spec("hsic", _text(kernel_x, sigma2_x, "x"), z=_text(kernel_z, sigma2_z, "z"),
                numbers=(("estimator", _native.ESTIMATORS["biased" if biased else "ustat"]),))
    options = {"kernel_x": spec.x, "kernel_z": spec.z, "sigma2_x": "median", "sigma2_z": None, "estimator": estimator}
    return plan(spec, None, None, lambda x, y, z, **how: _measured(_measures.hsic(x, z, **how, **options)))


def _ridge(ridge, mean, otherwise: str) -> float:
    if ridge is None and mean is not None:
        ridge = mean.ridge_
    if ridge is None:
        raise errors.ArgumentError(f"ridge is missing; give lambda in (K + lambda I), or {otherwise}")
    return _kernels.positive(ridge, "ridge")


def hscic(mean, sigma2_x, sigma2_y, sigma2_z, kernel_x, kernel_y, kernel_z, ridge) -> Plan:
    if mean is not None:
        _fitted(mean, "hscic_loss")
    number = _ridge(ridge, mean, "mean=")
    spec = Spec("hscic", _text(kernel_x, sigma2_x, "x"), numbers=(("ridge", number),),
                y=None if mean is not None else _text(kernel_y, sigma2_y, "y"),
                z=None if mean is not None else _text(kernel_z, sigma2_z, "z"))
    if mean is None:
        options = {"kernel_x": spec.x, "kernel_y": spec.y, "kernel_z": spec.z, "ridge": number, "sigma2_x": "median", "sigma2_y": None,
                   "sigma2_z": None}
        return plan(spec, None, None, lambda x, y, z, **how: _measured(_measures.hscic(x, y, z, **how, **options)))
    held = weakref.ref(mean)
    return plan(spec, mean, None, lambda x, y, z, **how: _measured(
        _measures.hscic(x, y, z, mean=_alive(held), kernel_x=spec.x, sigma2_x="median", ridge=number, **how)))


def gcm(mean, sigma2_y, kernel_y, ridge, regression, combine, sharpness) -> Plan:
    if mean is not None:
        _fitted(mean, "gcm_loss")
    by_kernel = _native.choice(_native.GCM_REGRESSIONS, "regression", regression) == _native.GCM_REGRESSIONS["kernel"]
    number = _ridge(ridge, mean, "regression='linear'") if by_kernel else 0.0
    kernel = None
    if by_kernel:
        kernel = mean.kernel_y_ if mean is not None else _text(kernel_y, sigma2_y, "y")
    spec = Spec("gcm", y=None if kernel is None else str(kernel), numbers=(
        ("ridge", number), ("gcm_regression", _native.GCM_REGRESSIONS[regression]),
        ("gcm_combine", _native.choice(_native.GCM_COMBINES, "combine", combine)),
        ("gcm_sharpness", _kernels.positive(sharpness, "sharpness"))))
    options: Dict[str, Any] = {"regression": regression, "combine": combine, "sharpness": sharpness}
    if by_kernel:
        options.update(ridge=number, **({} if mean is not None else {"kernel_y": spec.y, "sigma2_y": None}))
    if mean is None:
        return plan(spec, None, None, lambda x, y, z, **how: _measured(_measures.gcm(x, y, z, **how, **options)))
    held = weakref.ref(mean)
    return plan(spec, mean, None,
                lambda x, y, z, **how: _measured(_measures.gcm(x, y, z, mean=_alive(held), **how, **options)))
