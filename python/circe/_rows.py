"""Options of measures that need the rows of all data together: missing cells, ranks in their place, weights."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Callable, Sequence

import numpy as np

from . import _arrays, _columns, _native, _runtime, errors

if TYPE_CHECKING:
    from ._measures import Measurement


def transform(values, kind: str = "normal-scores") -> np.ndarray:
    """Replaces the columns of `values` by "normal-scores" or "ranks" (in (0, 1)); "none" keeps them. Categories stay as they
    are. Then no outlier, and no number that stands for a missing value, outweighs the other rows.

    >>> transform([1.0, 1e6, 2.0], "ranks")
    array([0.25, 0.75, 0.5 ])
    """
    mat, array = _arrays.view(values, "values")
    mat_out, out = _arrays.result(array.shape, array.dtype)
    number = _native.choice(_native.TRANSFORMS, "transform", kind)
    keep = bytes(texts is not None for texts in _columns.categories(array)) or None
    _native.check(_native.library().circe_transform_columns(_runtime.context().pointer, mat, number, keep, mat_out))
    if not isinstance(array, _columns.Coded):
        return out
    found = out.view(_columns.Coded)
    found.categories, found.labels = array.categories, array.labels
    return found


_transform = transform  # options have this name too

_LONG = 256  # rows; with fewer, no measure takes long
_at_once = contextlib.nullcontext()


def _long(x):
    """Lets Ctrl-C end a call that may take long."""
    shape = getattr(x, "shape", None)  # sparse matrices and single numbers have no len
    rows = shape[0] if shape else len(x) if shape is None and hasattr(x, "__len__") else 0
    return _runtime.interruptible() if rows >= _LONG else _at_once


def options_of_rows(*own: str) -> Callable[[Callable[..., Measurement]], Callable[..., Measurement]]:
    """Gives a measure the options `missing` and, if `own` names them, `transform` and `weights`: they need the rows of all
    data."""

    def decorate(function: Callable[..., Measurement]) -> Callable[..., Measurement]:
        signature = inspect.signature(function)
        variables = [name for name in signature.parameters if name in ("x", "y", "z")]
        words = {name: default for name, default in (("transform", "none"), ("missing", "refuse"), ("weights", None))
                 if name in (*own, "missing")}

        @functools.wraps(function)
        def measured(*given, **options):
            found = dict(zip(variables, given), **{name: options[name] for name in variables if name in options})
            _arrays.same_order(**found)
            if not words.keys() & options.keys():  # the common case is quick
                try:
                    with _long(given[0] if given else options.get("x")):
                        return function(*given, **options)
                except errors.DataError as error:
                    raise _arrays.explained(error, found) from None
            of_rows = {**words, **{name: options.pop(name) for name in words if name in options}}
            return _measured_rows(function, {**dict(zip(signature.parameters, given)), **options}, variables, **of_rows)

        more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default,
                                  annotation="str" if default else inspect.Parameter.empty)
                for name, default in words.items()]
        setattr(measured, "__signature__", signature.replace(parameters=[*signature.parameters.values(), *more]))
        return measured

    return decorate


def _measured_rows(function, options: dict, variables: Sequence[str], missing: str = "refuse", transform: str = "none",
                   weights=None) -> Measurement:
    """The measure of complete rows, of ranks, or of weighted rows."""
    given, kept, kind = {name: options[name] for name in variables if name in options}, None, transform
    if _arrays.drops(missing):
        given, kept = _arrays.dropped(**given, weights=weights)
        weights = given.pop("weights")
    if weights is not None:
        given, weights, positive = _arrays.weighted(weights, **given)
        if kept is not None:
            kept[np.flatnonzero(kept)] = positive
        else:
            kept = positive
    if _native.choice(_native.TRANSFORMS, "transform", kind):
        if options.get("mean") is not None or options.get("previous") is not None or options.get("grad"):
            raise errors.ArgumentError("transform ranks all rows together, and has no gradient: it does not go with mean, "
                                       "previous or grad")
        given = {name: None if values is None else _transform(values, kind) for name, values in given.items()}
    context = _runtime.context()
    context.weights = weights
    try:
        with _long(given["x"]):
            found = function(**{**options, **given})
    finally:
        context.weights = None
    if kept is not None and found.grad is not None:  # rows that are left out have no gradient
        grad = np.zeros((len(kept), *found.grad.shape[1:]), found.grad.dtype)
        grad[kept], found.grad = found.grad, grad
    return found
