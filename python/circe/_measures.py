"""Measures of conditional dependence: a number, and where asked its gradient in x.

Each function takes x, y, z as (n,) or (n, columns), views them without a copy where it can, and returns a Measurement. The
work is done in the dtype of x, or in `dtype`. missing="drop" leaves rows out in which a variable misses a cell (NaN, None, a
mask, NA). Defaults are those of the command `circe measure`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
from typing import Callable, Dict, Optional, Sequence, Union

import numpy as np

from . import _arrays, _columns, _kernels, _native, _runtime, errors
from ._kernels import KernelLike
from ._mean import ConditionalMean, ResidualFeatures

Sigma2 = Union[float, str, None]
Grid = Union[float, Sequence[float], None]

_DTYPES = {None: None, "float32": np.dtype(np.float32), "float64": np.dtype(np.float64),
           np.float32: np.dtype(np.float32), np.float64: np.dtype(np.float64),
           np.dtype(np.float32): np.dtype(np.float32), np.dtype(np.float64): np.dtype(np.float64)}


class Measurement:
    """What was measured: `value`, `grad` (d value / d x, shaped like x; None where not asked for), `measure`, `estimator`
    (None where the measure has one form), `n` rows, `chosen`: what leave-one-out chose, by name (None: nothing), and
    `columns`: those that were read as categories. float() gives the value."""

    __slots__ = ("measure", "estimator", "value", "grad", "n", "chosen", "columns")

    def __init__(self, measure: str, estimator: Optional[str], value: float, grad: Optional[np.ndarray], n: int,
                 chosen: Optional[dict] = None, columns: tuple = ()):
        if value != value or value in (float("inf"), float("-inf")):
            raise errors.NumericError(f"{measure} is no finite number: the data are too large for this kernel; scale them")
        self.measure, self.estimator, self.value, self.grad, self.n = measure, estimator, value, grad, n
        self.chosen, self.columns = chosen, columns

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        form = f", estimator={self.estimator!r}" if self.estimator else ""
        more = ", with grad" if self.grad is not None else ""
        return f"Measurement({self.measure!r}, value={self.value!r}{form}, n={self.n}{more})"


def _dtype(dtype):
    try:
        return _DTYPES[dtype]
    except (KeyError, TypeError):
        raise errors.DTypeError(f"dtype is {dtype!r}; it must be 'float32' or 'float64'") from None


def _model(mean, name: str):
    if not isinstance(mean, ConditionalMean):
        raise errors.ArgumentError(f"mean is {'missing' if mean is None else repr(mean)}; {name} needs a ConditionalMean, "
                                   "fitted on points that are not measured: ConditionalMean().fit(y, z)")
    return mean.model


def transform(values, kind: str = "normal-scores") -> np.ndarray:
    """The columns of `values` by their ranks: "normal-scores", "ranks" (in (0, 1)) or "none". Categories stay as they are. No
    outlier, and no number that stands for missing, outweighs the other rows of it.

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


_LONG = 256  # rows; of fewer no measure takes long
_at_once = contextlib.nullcontext()


def _long(x):
    """Ctrl-C ends what may take long."""
    return _runtime.interruptible() if hasattr(x, "__len__") and len(x) >= _LONG else _at_once


def _options_of_rows(*own: str) -> Callable[[Callable[..., Measurement]], Callable[..., Measurement]]:
    """Gives a measure the options `missing` and, where `own` names it, `transform`: both look at the rows of all its variables
    together."""

    def decorate(function: Callable[..., Measurement]) -> Callable[..., Measurement]:
        signature = inspect.signature(function)
        variables = [name for name in signature.parameters if name in ("x", "y", "z")]
        words = {name: default for name, default in (("transform", "none"), ("missing", "refuse"))
                 if name in (*own, "missing")}

        @functools.wraps(function)
        def measured(*given, **options):
            if "missing" not in options and "transform" not in options:  # the common case, and the quick one
                try:
                    with _long(given[0] if given else options.get("x")):
                        return function(*given, **options)
                except errors.DataError as error:
                    found = {**dict(zip(signature.parameters, given)), **options}
                    raise _arrays.explained(error, {name: found.get(name) for name in variables}) from None
            missing, kind = options.pop("missing", "refuse"), options.pop("transform", "none") if own else "none"
            return _measured_rows(function, {**dict(zip(signature.parameters, given)), **options}, variables, missing, kind)

        more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation="str")
                for name, default in words.items()]
        setattr(measured, "__signature__", signature.replace(parameters=[*signature.parameters.values(), *more]))
        return measured

    return decorate


def _measured_rows(function, options: dict, variables: Sequence[str], missing: str, kind: str) -> Measurement:
    """The measure of the rows that are complete, or of ranks."""
    given, kept = {name: options[name] for name in variables if name in options}, None
    if _arrays.drops(missing):
        given, kept = _arrays.dropped(**given)
    if _native.choice(_native.TRANSFORMS, "transform", kind):
        if options.get("mean") is not None or options.get("previous") is not None or options.get("grad"):
            raise errors.ArgumentError("transform ranks all rows together, and has no gradient: it does not go with mean, "
                                       "previous or grad")
        given = {name: None if values is None else transform(values, kind) for name, values in given.items()}
    with _long(given["x"]):
        found = function(**{**options, **given})
    if kept is not None and found.grad is not None:  # rows that are left out change nothing
        grad = np.zeros((len(kept), *found.grad.shape[1:]), found.grad.dtype)
        grad[kept], found.grad = found.grad, grad
    return found


def _given_mean(name: str, function: str, x, y, z, mean: ConditionalMean, kernel_x, sigma2_x, grad: bool, dtype, *more,
                estimator: Optional[str] = None) -> Measurement:
    """A measure by the conditional mean of a holdout; `more`: what its function takes after the points."""
    model = _model(mean, name)
    context = _runtime.context()
    mat_x, x = _arrays.view(x, "x", _dtype(dtype))
    mat_y, keep_y = mean._view(y, "y")
    mat_z, keep_z = mean._view(z, "z")
    kernel = _kernels.bound(context, _columns.kernel_of(kernel_x, x), sigma2_x, mat_x, "x")
    mat_grad, gradient = _arrays.result(x.shape, x.dtype) if grad else (None, None)
    value = ctypes.c_double()
    measure_it = getattr(_native.library(), function)
    arguments = (context.work, model.pointer, kernel.pointer, mat_x, mat_y, mat_z, *more, value, mat_grad)
    if model.random or name != "circe":
        with model.guard:
            status = measure_it(*arguments)
    else:  # a quarter of a microsecond less
        status = measure_it(*arguments)
    if status:
        raise _native.fail(status)
    return Measurement(name, estimator, value.value, gradient, len(x), columns=_columns.described(x=x, y=keep_y, z=keep_z))


@_options_of_rows()
def circe(x, y, z, mean: ConditionalMean, *, kernel_x: KernelLike = "gaussian", sigma2_x: Sigma2 = "median",
          estimator: str = "ustat", grad: bool = False, dtype=None) -> Measurement:
    """CIRCE: does x tell something about z that y does not? 0 where it does not.

    The squared Hilbert-Schmidt norm of the covariance of x and y with what y leaves of z. `mean` is the conditional mean of z
    given y, fitted on other points. Estimators: ustat (unbiased), biased, debiased, centered.

    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = random.normal(size=2000)
    >>> z = y**2 + random.normal(size=2000)
    >>> mean = ConditionalMean(sigma2_z=1.0).fit(y[:1000], z[:1000])
    >>> guilty = circe(z[1000:], y[1000:], z[1000:], mean, sigma2_x=1.0, grad=True)
    >>> innocent = circe(y[1000:] ** 2, y[1000:], z[1000:], mean, sigma2_x=1.0)
    >>> float(guilty) > 20 * float(innocent), guilty.grad.shape
    (True, (1000,))
    """
    form = _native.choice(_native.ESTIMATORS, "estimator", estimator)
    return _given_mean("circe", "circe_measure_circe", x, y, z, mean, kernel_x, sigma2_x, grad, dtype, form, estimator=estimator)


def circe_cached(features: ResidualFeatures, x, index=None, *, kernel_x: KernelLike = "gaussian",
                 sigma2_x: Sigma2 = "median", estimator: str = "ustat", grad: bool = False) -> Measurement:
    """CIRCE of x from residual features that were computed before; row i of x belongs to row index[i] of them. The work is
    done in the dtype of the features.

    >>> import numpy as np
    >>> y, z = np.random.default_rng(0).normal(size=(2, 300))
    >>> mean = ConditionalMean(sigma2_z=1.0).fit(y[:200], z[:200])
    >>> features = mean.residual_features(y[200:], z[200:])
    >>> cached = circe_cached(features, z[210:230], index=range(10, 30), sigma2_x=1.0)
    >>> bool(np.isclose(cached.value, circe(z[210:230], y[210:230], z[210:230], mean, sigma2_x=1.0).value))
    True
    """
    form = _native.choice(_native.ESTIMATORS, "estimator", estimator)
    context = _runtime.context()
    mat_x, x = _arrays.view(x, "x", features.dtype)
    rows = np.arange(len(features)) if index is None else _arrays.index_array(index, "index", len(features))
    if len(rows) != len(x):
        raise errors.ShapeError(f"x has {len(x)} rows and index {len(rows)}; they must be the same points")
    kernel = _kernels.bound(context, _columns.kernel_of(kernel_x, x), sigma2_x, mat_x, "x")
    mat_grad, gradient = _arrays.result(x.shape, x.dtype) if grad else (None, None)
    value = ctypes.c_double()
    status = _native.library().circe_measure_circe_cached(
        context.work, features.mean.model.pointer, features.pointer, rows.ctypes.data, len(rows), kernel.pointer, mat_x, form,
        value, mat_grad)
    if status:
        raise _native.fail(status)
    return Measurement("circe", estimator, value.value, gradient, len(x))


@_options_of_rows()
def spectral(x, y, z, mean: ConditionalMean, *, kernel_x: KernelLike = "gaussian", sigma2_x: Sigma2 = "median",
             grad: bool = False, dtype=None) -> Measurement:
    """The largest singular value of CIRCE's operator: the single strongest direction counts. Never 0 on a sample; time grows
    with the cube of the rows.

    >>> import numpy as np
    >>> y, z = np.random.default_rng(0).normal(size=(2, 300))
    >>> mean = ConditionalMean(sigma2_z=1.0).fit(y[:200], z[:200])
    >>> spectral(z[200:], y[200:], z[200:], mean).value > spectral(y[200:], y[200:], z[200:], mean).value
    True
    """
    return _given_mean("circe-spectral", "circe_measure_circe_spectral", x, y, z, mean, kernel_x, sigma2_x, grad, dtype)


@_options_of_rows("transform")
def hsic(x, z, *, kernel_x: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian", sigma2_x: Sigma2 = "median",
         sigma2_z: Sigma2 = "median", estimator: str = "ustat", grad: bool = False, dtype=None) -> Measurement:
    """HSIC: does x depend on z at all? What they share through a third variable counts. Estimators: ustat (unbiased), biased.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=100)
    >>> float(hsic(x, x)) > 0.05
    True
    """
    form = _native.choice(_native.HSIC_ESTIMATORS, "estimator", estimator)
    context = _runtime.context()
    mat_x, x = _arrays.view(x, "x", _dtype(dtype))
    mat_z, z = _arrays.view(z, "z")
    bound_x = _kernels.bound(context, _columns.kernel_of(kernel_x, x), sigma2_x, mat_x, "x")
    bound_z = _kernels.bound(context, _columns.kernel_of(kernel_z, z), sigma2_z, mat_z, "z")
    kernels = _native.Kernels(bound_x.pointer, None, bound_z.pointer)
    mat_grad, gradient = _arrays.result(x.shape, x.dtype) if grad else (None, None)
    value = ctypes.c_double()
    _native.check(_native.library().circe_measure_hsic(context.work, kernels, mat_x, mat_z, form, value, mat_grad))
    return Measurement("hsic", "biased" if form == 1 else "ustat", value.value, gradient, len(x), columns=_columns.described(x=x, z=z))


# ---- measures that regress the batch on its own y -----------------------------------------------------------------------


def _single(grid) -> bool:
    return grid is not None and not isinstance(grid, str) and np.ndim(grid) == 0


def _settle(context, y, z, kernel_y, kernel_z_text, sigma2_y, ridge):
    """(kernel of y, ridge, what was chosen): as given where there is one of each, else by leave-one-out on these rows, for
    the regression of z's kernel features (gcm: of z itself)."""
    mat_y, _ = y
    kernel_y = _columns.kernel_of(kernel_y, y[1])
    if sigma2_y == "median" if isinstance(sigma2_y, str) else _single(sigma2_y):
        handle = _kernels.bound(context, kernel_y, sigma2_y, mat_y, "y")
    else:
        handle = _kernels.parse(context, kernel_y, "kernel_y")
    if _single(ridge) and not _native.library().circe_kernel_n_free(handle.pointer):
        return handle, _kernels.positive(ridge, "ridge"), None
    choice = ConditionalMean(_kernels.text(handle.pointer), kernel_z_text, ridge=ridge, sigma2_z=None,
                             sigma2_y=None if isinstance(sigma2_y, str) or _single(sigma2_y) else sigma2_y)
    choice._fit_quietly(y[1], z[1])
    chosen = {"kernel_y": choice.kernel_y_, "ridge": choice.ridge_}
    return _kernels.bound(context, choice.kernel_y_, None, None, "y"), choice.ridge_, chosen


def _batch_options(ridge: float, method: str, tolerance: Optional[float]) -> _native.BatchOptions:
    options = _native.BatchOptions()
    _native.library().circe_batch_options_init(options)
    options.ridge = ridge
    options.method = _native.choice(_native.METHODS, "method", method)
    if tolerance is not None:
        options.tolerance = _kernels.positive(tolerance, "tolerance")
    return options


def _regressed(name: str, function: str, x, y, z, kernel_x, kernel_y, kernel_z, sigma2_x, sigma2_y, sigma2_z, ridge, method,
               tolerance, grad, dtype) -> Measurement:
    context = _runtime.context()
    mat_x, x = _arrays.view(x, "x", _dtype(dtype))
    mat_y, y = _arrays.view(y, "y")
    mat_z, z = _arrays.view(z, "z")
    bound_x = _kernels.bound(context, _columns.kernel_of(kernel_x, x), sigma2_x, mat_x, "x")
    bound_z = _kernels.bound(context, _columns.kernel_of(kernel_z, z), sigma2_z, mat_z, "z")
    bound_y, ridge, chosen = _settle(context, (mat_y, y), (mat_z, z), kernel_y, _kernels.text(bound_z.pointer), sigma2_y,
                                     ridge)
    kernels = _native.Kernels(bound_x.pointer, bound_y.pointer, bound_z.pointer)
    mat_grad, gradient = _arrays.result(x.shape, x.dtype) if grad else (None, None)
    value = ctypes.c_double()
    _native.check(getattr(_native.library(), function)(context.work, kernels, mat_x, mat_y, mat_z,
                                                       _batch_options(ridge, method, tolerance), value, mat_grad))
    return Measurement(name, None, value.value, gradient, len(x), chosen, _columns.described(x=x, y=y, z=z))


@_options_of_rows("transform")
def hscic(x, y, z, *, mean: Optional[ConditionalMean] = None, kernel_x: KernelLike = "gaussian",
          kernel_y: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian", sigma2_x: Sigma2 = "median",
          sigma2_y: Union[Grid, str] = None, sigma2_z: Sigma2 = "median", ridge: Grid = None, method: str = "auto",
          tolerance: Optional[float] = None, grad: bool = False, dtype=None) -> Measurement:
    """HSCIC: the HSIC of x and z at a given y, averaged over y. The rows are regressed on themselves.

    sigma2_y and ridge: one number each is taken as it is; of several, and of None, leave-one-out on these rows chooses.
    With `mean` the conditional mean of z, the kernels of y and z and the ridge are those of the model.

    >>> import numpy as np
    >>> y, z = np.random.default_rng(0).normal(size=(2, 300))
    >>> found = hscic(y + z, y, z, grad=True)
    >>> found.value > 0.03, found.grad.shape, sorted(found.chosen)
    (True, (300,), ['kernel_y', 'ridge'])
    """
    if mean is None:
        return _regressed("hscic", "circe_measure_hscic", x, y, z, kernel_x, kernel_y, kernel_z, sigma2_x, sigma2_y, sigma2_z,
                          ridge, method, tolerance, grad, dtype)
    _model(mean, "hscic")
    options = _batch_options(mean.ridge_ if ridge is None else _kernels.positive(ridge, "ridge"), method, tolerance)
    return _given_mean("hscic", "circe_measure_hscic_holdout", x, y, z, mean, kernel_x, sigma2_x, grad, dtype, options)


@_options_of_rows("transform")
def kci(x, y, z, *, kernel_x: KernelLike = "gaussian", kernel_y: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian",
        sigma2_x: Sigma2 = "median", sigma2_y: Union[Grid, str] = None, sigma2_z: Sigma2 = "median", ridge: Grid = None,
        method: str = "auto", tolerance: Optional[float] = None, grad: bool = False, dtype=None) -> Measurement:
    """KCI's statistic: the HSIC of what y leaves of (x, y) and of z. Grows with the rows; `circe.test` has its p-value.

    >>> import numpy as np
    >>> y, z, e = np.random.default_rng(0).normal(size=(3, 300))
    >>> kci(y + z, y, z).value > 2 * kci(y + e, y, z).value
    True
    """
    return _regressed("kci", "circe_measure_kci", x, y, z, kernel_x, kernel_y, kernel_z, sigma2_x, sigma2_y, sigma2_z, ridge,
                      method, tolerance, grad, dtype)


@_options_of_rows("transform")
def gcm(x, y, z, *, mean: Optional[ConditionalMean] = None, kernel_y: KernelLike = "gaussian",
        sigma2_y: Union[Grid, str] = None, ridge: Grid = None, regression: str = "kernel", combine: str = "max",
        sharpness: float = 1.0, previous=None, method: str = "auto", tolerance: Optional[float] = None, grad: bool = False,
        dtype=None) -> Measurement:
    """GCM: the correlation of what y leaves of x with what it leaves of z, as a score about N(0, 1) under independence.

    regression: "kernel" or "linear". combine: "max", "logsumexp" (smooth, with `sharpness`) or "squares". previous: (x, y) of
    the batch before, on which x is regressed instead. mean: a ConditionalMean with a linear kernel of z, for what y leaves of
    z.

    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y, e = random.normal(size=(2, 400))
    >>> float(gcm(y + e, y, y - e, regression="linear")) > 10
    True
    """
    context = _runtime.context()
    mat_x, x = _arrays.view(x, "x", _dtype(dtype))
    mat_y, y = _arrays.view(y, "y") if mean is None else mean._view(y, "y")
    mat_z, z = _arrays.view(z, "z") if mean is None else mean._view(z, "z")
    for variable, array in (("x", x), ("z", z)):
        if any(texts is not None and len(texts) > 2 for texts in _columns.categories(array)):
            raise errors.ArgumentError(f"{variable} has a column of more than two categories, for which gcm has no kernel; give a "
                                       "column of 0 and 1 for each")
    options = _native.GcmOptions()
    _native.library().circe_gcm_options_init(options)
    options.regression = _native.choice(_native.GCM_REGRESSIONS, "regression", regression)
    options.combine = _native.choice(_native.GCM_COMBINES, "combine", combine)
    options.sharpness = _kernels.positive(sharpness, "sharpness")
    chosen = bound_y = None
    if regression == "kernel":
        if mean is not None:
            kernel_y, sigma2_y, ridge = mean.kernel_y_, None, mean.ridge_ if ridge is None else ridge
        bound_y, used, chosen = _settle(context, (mat_y, y), (mat_z, z), kernel_y, "linear", sigma2_y, ridge)
        options.batch = _batch_options(used, method, tolerance)
    if mean is not None:
        options.holdout = _model(mean, "gcm").pointer
    if previous is not None:
        parts = _arrays.several(previous, "previous", 2, "a pair (x, y)")
        keep = [_arrays.view(values, f"previous {name}") for values, name in zip(parts, "xy")]
        options.previous_x, options.previous_y = (mat for mat, _ in keep)
    mat_grad, gradient = _arrays.result(x.shape, x.dtype) if grad else (None, None)
    value = ctypes.c_double()
    _native.check(_native.library().circe_measure_gcm(context.work, bound_y and bound_y.pointer, mat_x, mat_y, mat_z, options,
                                                      value, mat_grad))
    return Measurement("gcm", None, value.value, gradient, len(x), chosen, _columns.described(x=x, y=y, z=z))


# ---- normalised measures ------------------------------------------------------------------------------------------------


def _normalized(name: str, function: str, x, y, z, kernels, sigma2, epsilon, method, tolerance, grad, dtype) -> Measurement:
    context = _runtime.context()
    mat_x, x = _arrays.view(x, "x", _dtype(dtype))
    mat_y, y = _arrays.view(y, "y")
    mat_z, z = _arrays.view(z, "z")
    bound = [_kernels.bound(context, _columns.kernel_of(k, array), s, mat, v)
             for k, array, s, mat, v in zip(kernels, (x, y, z), sigma2, (mat_x, mat_y, mat_z), "xyz")]
    options = _native.NormalizedOptions()
    _native.library().circe_normalized_options_init(options)
    options.epsilon = _kernels.positive(epsilon, "epsilon")
    options.method = _native.choice(_native.METHODS, "method", method)
    if tolerance is not None:
        options.tolerance = _kernels.positive(tolerance, "tolerance")
    mat_grad, gradient = _arrays.result(x.shape, x.dtype) if grad else (None, None)
    value = ctypes.c_double()
    _native.check(getattr(_native.library(), function)(
        context.work, _native.Kernels(*(b.pointer for b in bound)), mat_x, mat_y, mat_z, options, value, mat_grad))
    return Measurement(name, None, value.value, gradient, len(x), columns=_columns.described(x=x, y=y, z=z))


@_options_of_rows("transform")
def nocco(x, y, z, *, kernel_x: KernelLike = "gaussian", kernel_y: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian",
          sigma2_x: Sigma2 = "median", sigma2_y: Sigma2 = "median", sigma2_z: Sigma2 = "median", epsilon: float = 1e-3,
          method: str = "auto", tolerance: Optional[float] = None, grad: bool = False, dtype=None) -> Measurement:
    """NOCCO: the covariance divided by the spread of each variable, so that every direction counts alike. The ridge is
    n * epsilon.

    >>> import numpy as np
    >>> y, z, e = np.random.default_rng(0).normal(size=(3, 300))
    >>> nocco(y + z, y, z).value > nocco(y + e, y, z).value
    True
    """
    return _normalized("nocco", "circe_measure_nocco", x, y, z, (kernel_x, kernel_y, kernel_z), (sigma2_x, sigma2_y, sigma2_z),
                       epsilon, method, tolerance, grad, dtype)


@_options_of_rows("transform")
def kpc(x, y, z, *, kernel_x: KernelLike = "gaussian", kernel_y: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian",
        sigma2_x: Sigma2 = "median", sigma2_y: Sigma2 = "median", sigma2_z: Sigma2 = "median", epsilon: float = 1e-3,
        method: str = "auto", tolerance: Optional[float] = None, grad: bool = False, dtype=None) -> Measurement:
    """KPC: the share of what y does not explain of x that z explains, 0 none, 1 all. Not symmetric in x and z.

    >>> import numpy as np
    >>> y, z = np.random.default_rng(0).normal(size=(2, 300))
    >>> kpc(y + z, y, z).value > 0.9
    True
    """
    return _normalized("kpc", "circe_measure_kpc", x, y, z, (kernel_x, kernel_y, kernel_z), (sigma2_x, sigma2_y, sigma2_z),
                       epsilon, method, tolerance, grad, dtype)


# ---- by name ------------------------------------------------------------------------------------------------------------

MEASURES: Dict[str, Callable[..., Measurement]] = {
    "circe": circe, "circe-spectral": spectral, "hsic": hsic, "hscic": hscic, "gcm": gcm, "kci": kci, "nocco": nocco,
    "kpc": kpc}


def measure(name: str, x, y=None, z=None, **options) -> Measurement:
    """The measure called `name`: circe, circe-spectral, hsic, hscic, gcm, kci, nocco or kpc; options as of its function.

    >>> import numpy as np
    >>> y, z = np.random.default_rng(0).normal(size=(2, 300))
    >>> measure("kpc", y + z, y, z).value == kpc(y + z, y, z).value
    True
    """
    function = MEASURES.get(name) if isinstance(name, str) else None
    if function is None:
        raise errors.ArgumentError(f"there is no measure {name!r}; there are {', '.join(MEASURES)}")
    if z is None:
        raise errors.ArgumentError("z is missing")
    if name == "hsic":
        return hsic(x, z, **options)
    if name in ("circe", "circe-spectral"):
        options.setdefault("mean", None)
    return function(x, y, z, **options)
