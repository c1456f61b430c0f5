"""What the losses of PyTorch and of JAX compute: a measure, its kernels and its options."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

from . import _kernels, _native, _runtime, errors
from ._mean import ConditionalMean


class Spec(NamedTuple):
    """Kernels are texts with every width, but perhaps those of x; None: the measure has none, or takes the mean's. `numbers`: (field,
    value) pairs of the measure's options."""

    kind: str
    x: Optional[str] = None
    y: Optional[str] = None
    z: Optional[str] = None
    numbers: Tuple[Tuple[str, Any], ...] = ()


def _text(kernel, sigma2, variable: str) -> str:
    """The kernel's text with its width."""
    return _kernels.text(_kernels.bound(_runtime.context(), kernel, sigma2, None, variable))


def _ridge(ridge, mean: Optional[ConditionalMean], otherwise: str) -> Tuple[str, float]:
    if ridge is None and mean is not None:
        ridge = mean.ridge_
    if ridge is None:
        raise errors.ArgumentError(f"ridge is missing; give lambda in (K + lambda I), or {otherwise}")
    return "ridge", _kernels.positive(ridge, "ridge")


def circe(estimator) -> Spec:
    return Spec("circe", numbers=(("estimator", _native.choice(_native.ESTIMATORS, "estimator", estimator)),))


def hsic(kernel_z, sigma2_z, estimator) -> Spec:
    form = _native.ESTIMATORS[_native.hsic_estimator(estimator)]
    return Spec("hsic", z=_text(kernel_z, sigma2_z, "z"), numbers=(("estimator", form),))


def hscic(mean, kernel_y, kernel_z, sigma2_y, sigma2_z, ridge) -> Spec:
    if mean is not None:
        mean.model.pointer  # fitted, and not closed
    spec = Spec("hscic", numbers=(_ridge(ridge, mean, "mean="),))
    if mean is not None:
        return spec
    return spec._replace(y=_text(kernel_y, sigma2_y, "y"), z=_text(kernel_z, sigma2_z, "z"))


def gcm(mean, kernel_y, sigma2_y, ridge, regression, combine, sharpness) -> Spec:
    if mean is not None:
        mean.model.pointer
    spec = Spec("gcm", numbers=(("gcm_regression", _native.choice(_native.GCM_REGRESSIONS, "regression", regression)),
                                ("gcm_combine", _native.choice(_native.GCM_COMBINES, "combine", combine)),
                                ("gcm_sharpness", _kernels.positive(sharpness, "sharpness"))))
    if regression == "linear":
        return spec
    numbers = (*spec.numbers, _ridge(ridge, mean, "regression='linear'"))
    return spec._replace(y=_text(kernel_y, sigma2_y, "y") if mean is None else mean.kernel_y_, numbers=numbers)
