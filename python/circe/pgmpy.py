"""Conditional-independence tests of circe in pgmpy.

    from pgmpy.causal_discovery import PC
    from circe.pgmpy import CirceTest

    found = PC(ci_test=CirceTest(frame, method="rcot")).fit(frame)
    found = PC(ci_test=CirceTest(frame, types={"age": "number", "grade": "ordered"})).fit(frame)

Types of columns come from the frame's dtypes (circe.column_types), or from `types`.
"""

from __future__ import annotations

from typing import Optional

from . import errors
from ._types import ColumnTest, Types


class CirceTest:
    """pgmpy's interface: CirceTest(frame)(X, Y, Z) says whether X and Y are independent given Z at `significance_level`, and sets
    `p_value_`, `statistic_` and `effect_size_`. Versions before 1.0 hand over the data with every call; then `data` may be left
    out here. Options as of circe.test; `checks` is off by default."""

    def __init__(self, data=None, method: str = "kci", types: Types = None, **options):
        self.method, self.types, self.options = method, types, options
        self.p_value_ = self.statistic_ = self.effect_size_ = float("nan")
        self._data, self._test = None, None  # type: ignore[var-annotated]
        self._take(data)

    def _take(self, data) -> None:
        if data is not None and data is not self._data:
            self._data, self._test = data, ColumnTest(data, self.types, self.method, **self.options)

    def __call__(self, X, Y, Z=(), data=None, boolean: bool = True, significance_level: float = 0.05, **ignored):
        self._take(data)
        test: Optional[ColumnTest] = self._test
        if test is None:
            raise errors.ArgumentError("the test has no data: use CirceTest(frame)")
        found = test(X, Y, list(Z))
        self.statistic_, self.p_value_, self.effect_size_ = found.statistic, found.p_value, abs(found.statistic)
        return found.p_value >= significance_level if boolean else (found.statistic, found.p_value)
