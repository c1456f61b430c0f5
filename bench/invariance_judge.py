"""What invariance.py says about a prediction on fresh rows: error, p-values, KPC with its interval, gaps of rates."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

import invariance_tasks as tasks

LEAST_GROUP = 20  # rows of a class in a group; rates of fewer are noise
REPORTED = 5  # training rows for one test row of the report of `circe train`


def p_values(values: np.ndarray, target: np.ndarray, attribute: np.ndarray) -> Dict[str, float]:
    """KCI and GCM as `circe test` has them. A constant depends on nothing."""
    import circe

    x = values[:, 1:] if values.shape[1] == 2 else values
    if np.ptp(x, axis=0).max() == 0:
        return {"kci": 1.0, "gcm": 1.0}
    return {method: float(circe.test(x, target, attribute, method=method, checks=False).p_value) for method in ("kci", "gcm")}


def _gaps(task: tasks.Cut, labels: np.ndarray, classes) -> Dict[str, float]:
    """The largest differences of true and of false positive rates between groups; numbers are cut at their median."""
    attribute, target = task.fresh[task.attribute], task.fresh[task.target]
    groups = attribute if task.groups else (attribute > np.median(attribute)).astype(object)
    gaps = {}
    for name, kind in (("fpr_gap", classes[0]), ("tpr_gap", classes[1])):
        inside = [(target == kind) & (groups == group) for group in sorted(set(groups))]
        rates = [float(labels[rows].mean()) for rows in inside if rows.sum() >= LEAST_GROUP]
        gaps[name] = max(rates) - min(rates) if len(rates) > 1 else float("nan")
    return gaps


def judged(task: tasks.Cut, found) -> Dict[str, Any]:
    """Everything about a prediction (invariance_methods.Prediction) of the fresh rows."""
    import circe

    target, attribute, values = task.fresh[task.target], task.fresh[task.attribute], found.values
    result: Dict[str, Any] = {"rows": len(task.train[task.target]), "fresh": len(target), "strength": found.strength}
    if task.classes:
        own = np.array([found.classes.index(kind) for kind in target])
        result["wrong"] = float(np.mean(values.argmax(1) != own))
        if not found.labels:
            result["error"] = float(-np.mean(np.log(np.maximum(values[np.arange(len(own)), own], 1e-12))))
        if len(found.classes) == 2:
            result.update(_gaps(task, values.argmax(1) == 1, found.classes))
    else:
        result["error"] = float(np.mean((values[:, 0] - target) ** 2) / np.var(target))
    result.update({f"p_{name}": p for name, p in p_values(values, target, attribute).items()})
    few = len(task.train[task.target]) // REPORTED
    result.update({f"p_{name}_few": p for name, p in p_values(values[:few], target[:few], attribute[:few]).items()})
    x = values[:, 1:] if values.shape[1] == 2 else values
    if np.ptp(x, axis=0).max() > 0:
        kpc = circe.effects(x, target, attribute, along=None).kpc
        result.update(kpc=kpc.value, kpc_lower=kpc.lower, kpc_upper=kpc.upper, kpc_chance=kpc.chance)
    return result
