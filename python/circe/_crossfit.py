"""Residuals given y by any regressor with fit and predict, each row's by a fit that did not see it."""

from __future__ import annotations

import copy
from typing import Any, Tuple

import numpy as np

from . import errors


def pair(regressor) -> Tuple[Any, Any]:
    """The regressors of x and of z: one for both, or two."""
    both = tuple(regressor) if isinstance(regressor, (tuple, list)) else (regressor, regressor)
    if len(both) != 2 or not all(hasattr(r, "fit") and hasattr(r, "predict") for r in both):
        raise errors.ArgumentError("regressor must have fit and predict, as those of scikit-learn have; or be two of them, "
                                   "for x and for z")
    return both


def _fresh(regressor):
    try:
        from sklearn.base import clone
    except ImportError:
        return copy.deepcopy(regressor)
    return clone(regressor) if hasattr(regressor, "get_params") else copy.deepcopy(regressor)


def residuals(regressor, y: np.ndarray, target: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """target - prediction, (n, columns); `folds` fits for every column."""
    n = len(target)
    if not 2 <= folds <= n:
        raise errors.ArgumentError(f"folds is {folds}; it must be 2 to the number of rows, {n}")
    fold = np.random.default_rng(seed).permutation(n) % folds
    left = np.empty(target.shape)
    for column in range(target.shape[1]):
        for k in range(folds):
            test = fold == k
            fitted = _fresh(regressor)
            fitted.fit(y[~test], target[~test, column])
            left[test, column] = target[test, column] - np.asarray(fitted.predict(y[test]), float).reshape(-1)
    if not np.isfinite(left).all():
        raise errors.DataError(f"{type(regressor).__name__} predicts values that are not finite")
    return left


def describe(regressor, target: np.ndarray, left: np.ndarray, check_p: float) -> dict:
    """What a result says of a regression."""
    spread = float(((target - target.mean(0)) ** 2).sum())
    share = float((left**2).sum()) / spread if spread > 0 else 1.0
    return {"basis": type(regressor).__name__, "loo_error": share, "remaining": share, "rows": len(target), "check_p": check_p}
