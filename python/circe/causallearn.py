"""Conditional-independence tests of circe in causal-learn.

    import circe.causallearn
    from causallearn.search.ConstraintBased.PC import pc

    graph = pc(data, 0.05, indep_test="circe")                            # method kci
    graph = pc(data, 0.05, indep_test="circe", method="rcot")             # options as of circe.test
    graph = pc(data, 0.05, indep_test="circe", types={3: "category"})     # types of columns

For a DataFrame: pc(circe.encoded(frame)[0], 0.05, indep_test="circe", types=circe.column_types(frame)). Importing this module
registers the names "circe" and "circe-kci", "circe-rcot", ... with causal-learn (0.1.4.0 or later). FCI takes the latter:
fci(data, "circe-rcot"). For earlier versions, and to call tests directly, use CirceTest.
"""

from __future__ import annotations

import hashlib
import importlib
import json

import numpy as np
from causallearn.utils import cit

from ._types import ColumnTest

_METHODS = ("kci", "circe", "splitkci", "gcm", "rcot", "hsic", "wgcm", "pcm")


class CirceTest(cit.CIT_Base):
    """causal-learn's interface: CirceTest(data)(X, Y, condition_set) is the p-value of the test that X is independent of Y
    given the set. types: one of "number", "ordered" and "category" for each column, or a dictionary. Options as of circe.test;
    `checks` is off by default: a search runs thousands of tests. Rows with a NaN in a test's columns are left out of it.
    """

    def __init__(self, data, method: str = "kci", cache_path=None, types=None, **options):
        super().__init__(data, cache_path=cache_path)
        self.test = ColumnTest(data, types, method, **options)
        told = {**self.test.options, "types": self.test.types}
        text = json.dumps({name: hashlib.md5(np.asarray(value).tobytes()).hexdigest() if isinstance(value, np.ndarray)
                           else str(value) for name, value in told.items()}, sort_keys=True)
        self.check_cache_method_consistent(f"circe {method}", hashlib.md5(text.encode()).hexdigest())
        self.assert_input_data_is_valid(allow_nan=True)

    def __call__(self, X, Y, condition_set=None) -> float:
        columns_x, columns_y, given, key = self.get_formatted_XYZ_and_cachekey(X, Y, condition_set)
        if key not in self.pvalue_cache:
            self.pvalue_cache[key] = self.test(columns_x, columns_y, given).p_value
            self.save_to_local_cache()
        return self.pvalue_cache[key]


def _named(method: str):
    return type(f"CirceTest_{method}", (CirceTest,), {
        "__init__": lambda self, data, cache_path=None, types=None, **options:
            CirceTest.__init__(self, data, method, cache_path, types, **options)})


def _take_method(module) -> None:
    """pc(..., method="rcot") reaches CIT(data, "circe", method="rcot"), whose own second parameter has this name."""
    original = module.CIT

    def CIT(data, *name, **options):
        if name == ("circe",):
            return CirceTest(data, **options)
        return original(data, *name, **options)

    module.CIT = CIT


if hasattr(cit, "register_ci_test"):
    cit.register_ci_test("circe", CirceTest)
    for _method in _METHODS:
        cit.register_ci_test(f"circe-{_method}", _named(_method))
    for _search in ("PC", "CDNOD"):
        _take_method(importlib.import_module(f"causallearn.search.ConstraintBased.{_search}"))
