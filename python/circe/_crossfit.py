"""Predictions from y by any regressor with fit and predict; each row is predicted by a fit that did not see it."""

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


def _folds(n: int, folds: int, seed: int, groups, times) -> np.ndarray:
    """The fold of each row. Rows that depend on each other share one: whole groups, or stretches of time."""
    kind, units = (("groups", groups) if groups is not None else ("times", times) if times is not None
                   else ("rows", np.arange(n)))
    names, unit = np.unique(units, return_inverse=True)
    if not 2 <= folds <= len(names):
        raise errors.ArgumentError(f"folds is {folds}; it must be 2 to the number of {kind}, {len(names)}")
    if kind == "times":
        return unit * folds // len(names)
    return (np.random.default_rng(seed).permutation(len(names)) % folds)[unit]


def predictions(regressor, y: np.ndarray, target: np.ndarray, folds: int, seed: int, groups=None, times=None) -> np.ndarray:
    """(n, columns), from `folds` fits for every column."""
    fold = _folds(len(target), folds, seed, groups, times)
    found = np.empty(target.shape)
    for column in range(target.shape[1]):
        for k in range(folds):
            test = fold == k
            fitted = _fresh(regressor)
            fitted.fit(y[~test], target[~test, column])
            found[test, column] = np.asarray(fitted.predict(y[test]), float).reshape(-1)
    if not np.isfinite(found).all():
        raise errors.DataError(f"{type(regressor).__name__} predicts values that are not finite")
    return found
