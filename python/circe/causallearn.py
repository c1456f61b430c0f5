"""Conditional-independence tests of circe in causal-learn.

    import circe.causallearn
    from causallearn.search.ConstraintBased.PC import pc

    graph = pc(data, 0.05, indep_test="circe")                        # method kci
    graph = pc(data, 0.05, indep_test="circe", method="rcot")         # options as of circe.test

Importing this module registers the name "circe" with causal-learn (0.1.4.0 or later). For earlier versions, and to call
tests directly, use CirceTest.
"""

from __future__ import annotations

import hashlib
import json

from causallearn.utils import cit

from . import _inference


class CirceTest(cit.CIT_Base):
    """causal-learn's interface: CirceTest(data)(X, Y, condition_set) is the p-value of the test that X is independent of Y
    given the set.

    `checks` is off by default: a search runs thousands of tests.
    """

    def __init__(self, data, method: str = "kci", cache_path=None, **options):
        super().__init__(data, cache_path=cache_path)
        self.options = {"checks": False, **options, "method": method}
        text = json.dumps({name: str(value) for name, value in self.options.items()}, sort_keys=True)
        self.check_cache_method_consistent(f"circe {method}", hashlib.md5(text.encode()).hexdigest())
        self.assert_input_data_is_valid()

    def __call__(self, X, Y, condition_set=None) -> float:
        columns_x, columns_y, given, key = self.get_formatted_XYZ_and_cachekey(X, Y, condition_set)
        if key not in self.pvalue_cache:
            y = self.data[:, given] if len(given) else None
            result = _inference.test(self.data[:, columns_x], y, self.data[:, columns_y], **self.options)
            self.pvalue_cache[key] = result.p_value
            self.save_to_local_cache()
        return self.pvalue_cache[key]


if hasattr(cit, "register_ci_test"):
    cit.register_ci_test("circe", CirceTest)
