"""Conditional-independence tests of circe in tigramite.

    from tigramite.pcmci import PCMCI
    from circe.tigramite import CirceTest

    pcmci = PCMCI(dataframe=dataframe, cond_ind_test=CirceTest(method="gcm"))
    results = pcmci.run_pcmci(tau_max=2, pc_alpha=0.05)

The rows of a test are moments of time. PCMCI conditions on the past, which leaves little dependence between them; where noise has
a memory of its own, CirceTest(in_time=True) takes neighbouring rows to be dependent.
"""

from __future__ import annotations

import numpy as np
from tigramite.independence_tests.independence_tests_base import CondIndTest

from . import _inference


class CirceTest(CondIndTest):
    """tigramite's interface. Its value is the statistic of the test; its p-value comes from circe. Data types of tigramite
    (0: numbers, 1: categories) are heeded. Options as of circe.test; `checks` is off by default."""

    @property
    def measure(self) -> str:
        return f"circe_{self.method}"

    def __init__(self, method: str = "kci", in_time: bool = False, mask_type=None, recycle_residuals: bool = False,
                 verbosity: int = 0, **options):
        self.method, self.in_time, self.options = method, in_time, {"checks": False, "rows": "all", **options}
        self.two_sided, self.residual_based, self.recycle_residuals = False, False, False
        self._p_value = 1.0
        super().__init__(significance="analytic", mask_type=mask_type, verbosity=verbosity)

    def get_dependence_measure(self, array, xyz, data_type=None):
        """array (variables, T); xyz: 0 for x, 1 for what tigramite calls y, 2 for conditions."""
        xyz = np.asarray(xyz)
        types = None if data_type is None else np.asarray(data_type).reshape(len(array), -1).max(axis=1)
        part = lambda role: np.ascontiguousarray(array[xyz == role].T, dtype=float)

        def kernel(role):
            kinds = [] if types is None else types[xyz == role]
            return "*".join(f"{k}:{'delta' if kind else 'gaussian'}" for k, kind in enumerate(kinds)) if any(kinds) else None

        given = part(2) if (xyz == 2).any() else None
        time = {"time": np.arange(array.shape[1])} if self.in_time else {}
        found = _inference.test(part(0), given, part(1), method=self.method, kernel_x=kernel(0), kernel_y=kernel(2),
                                kernel_z=kernel(1), **time, **self.options)
        self._p_value = found.p_value
        return found.statistic

    def get_analytic_significance(self, value, T, dim, xyz=None) -> float:
        """Of the measure that was computed last, as tigramite asks."""
        return self._p_value
