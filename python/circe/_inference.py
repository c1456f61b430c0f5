"""Tests of x independent of z given y: a p-value, and how far it can be trusted."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Optional, Sequence, Union

import numpy as np

from . import _arrays, _kernels, _native, _runtime, errors
from ._kernels import KernelLike
from ._mean import _grid, _whole


@dataclass(frozen=True)
class TestResult:
    """`p_value`, `statistic`, `trust` ("good", "doubtful" or "poor") and `verdict`, both in words. float() gives the p-value.

    `x` and `z` describe the regressions on y (None where the method has none): ridge, loo_error, degrees, remaining, check_p...
    """

    __test__ = False  # pytest: not one of yours

    method: str
    null: str
    p_value: float
    statistic: float
    trust: str
    verdict: str
    n: int
    n_used: int
    n_tested: int
    n_train: int
    draws: int
    null_mean: float
    null_sd: float
    kernel_x: str
    kernel_y: str
    kernel_z: str
    x: Optional[dict]
    z: Optional[dict]
    seconds: float

    def __float__(self) -> float:
        return self.p_value


def _parsed(function: str, text, name: str) -> int:
    if not isinstance(text, str):
        raise errors.DTypeError(f"{name} is {text!r}; it must be a word")
    number = ctypes.c_int()
    _native.check(getattr(_native.library(), function)(text.encode(), number), name)
    return number.value


def _regression(found: _native.TestRegression) -> Optional[dict]:
    return {field[0]: getattr(found, field[0]) for field in found._fields_[1:]} if found.used else None


def _options(given: dict, context):
    """The C structure, and what it points to."""
    options = _native.TestOptions()
    _native.library().circe_test_options_init(options)
    options.method = _parsed("circe_test_method_parse", given["method"], "method")
    if given["null"] != "auto":
        options.null = _parsed("circe_test_null_parse", given["null"], "null")
    options.mean = _native.choice(_native.TEST_MEANS, "mean", given["mean"])
    options.regression = _native.choice(_native.GCM_REGRESSIONS, "regression", given["regression"])
    options.seed, options.skip_checks = _whole(given["seed"], "seed", 0), not given["checks"]
    for name in ("alpha", "undersmoothing", "test_share"):
        if given[name] is not None:
            setattr(options, name, _kernels.positive(given[name], name))
    for name in ("draws", "max_rank"):
        if given[name] is not None:
            setattr(options, name, _whole(given[name], name, 1))
    width, options.n_width = _grid(given["width"], "width")
    ridge, options.n_ridge = _grid(given["ridge"], "ridge")
    options.width, options.ridge = width, ridge
    keep = [width, ridge]
    for variable in "xyz":
        kernel = given[f"kernel_{variable}"]
        if kernel is not None:
            keep.append(_kernels.parse(context, kernel, f"kernel_{variable}"))
            setattr(options, f"kernel_{variable}", keep[-1].pointer)
    if given["features"] is not None:
        options.features_x, options.features_y, options.features_z = (_whole(n, "features", 1) for n in given["features"])
    return options, keep


def test(x, y, z, *, method: str = "kci", null: str = "auto", draws: Optional[int] = None, seed: int = 0,
         alpha: float = 0.05, checks: bool = True, kernel_x: Optional[KernelLike] = None,
         kernel_y: Optional[KernelLike] = None, kernel_z: Optional[KernelLike] = None, weights=None,
         width: Union[float, Sequence[float], None] = None, ridge: Union[float, Sequence[float], None] = None,
         undersmoothing: Optional[float] = None, regression: str = "kernel", max_rank: Optional[int] = None, auxiliary=None,
         mean: str = "auto", test_share: Optional[float] = None, features: Optional[Sequence[int]] = None) -> TestResult:
    """Is x independent of z given y? Small p-values say no.

    method: kci, circe, splitkci, gcm, rcot or hsic; null: auto, gamma, spectral, wild, permutation, normal or multiplier. y: None
    tests independence of x and z alone. auxiliary: (y, z) of more rows whose x is not known, for method circe. features: random
    features of x, y and z, for rcot. Everything random is a function of `seed`.

    >>> import numpy as np
    >>> y, e, f = np.random.default_rng(0).normal(size=(3, 300))
    >>> test(y + e, y, y + e + f).p_value < 0.01, test(y + e, y, y + f).p_value > 0.01
    (True, True)
    """
    context = _runtime.context()
    mat_x, keep_x = _arrays.view(x, "x")
    mat_y, keep_y = (None, None) if y is None else _arrays.view(y, "y")
    mat_z, keep_z = _arrays.view(z, "z")
    options, keep = _options({**locals()}, context)
    if weights is not None:
        weights = np.ascontiguousarray(_arrays.view(weights, "weights", np.dtype(np.float64))[1]).ravel()
        if len(weights) != len(keep_x):
            raise errors.ShapeError(f"weights has {len(weights)} numbers and x {len(keep_x)} rows; give one for each")
        options.weights = weights.ctypes.data
    if auxiliary is not None:
        keep += [_arrays.view(values, f"auxiliary {name}") for values, name in zip(auxiliary, "yz")]
        options.auxiliary_y, options.auxiliary_z = (mat for mat, _ in keep[-2:])
    result = _native.TestResult()
    library = _native.library()
    _native.check(library.circe_test(context.pointer, mat_x, mat_y, mat_z, options, result))
    return TestResult(
        method=library.circe_test_method_name(result.method).decode(), null=library.circe_test_null_name(result.null).decode(),
        trust=library.circe_trust_name(result.trust).decode(), verdict=result.verdict.decode(),
        x=_regression(result.x), z=_regression(result.z),
        **{name: getattr(result, name).decode() for name in ("kernel_x", "kernel_y", "kernel_z")},
        **{name: getattr(result, name) for name in ("p_value", "statistic", "n", "n_used", "n_tested", "n_train", "draws",
                                                    "null_mean", "null_sd", "seconds")})


setattr(test, "__test__", False)  # pytest: not one of yours
