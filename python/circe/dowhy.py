"""Conditional-independence tests of circe in dowhy.

    from dowhy.gcm.falsify import falsify_graph
    from circe.dowhy import conditional_independence_test

    result = falsify_graph(graph, data, independence_test=conditional_independence_test,
                           conditional_independence_test=conditional_independence_test)
    # with options of circe.test:
    result = falsify_graph(graph, data, conditional_independence_test=make(method="gcm"))
"""

from __future__ import annotations

import numpy as np

from . import _inference


def make(method: str = "kci", **options):
    """A function of (X, Y, Z=None) that returns the p-value of the test that X is independent of Y given Z. Columns of text are
    categories. Options as of circe.test; `checks` is off by default."""
    options = {"checks": False, "rows": "all", **options}
    matrix = lambda values: np.asarray(values) if np.ndim(values) == 2 else np.asarray(values).reshape(len(values), -1)

    def conditional_independence_test(X, Y, Z=None, **ignored) -> float:
        empty = Z is None or matrix(Z).shape[1] == 0
        return _inference.test(matrix(X), None if empty else matrix(Z), matrix(Y), method=method, **options).p_value

    return conditional_independence_test


conditional_independence_test = make()
