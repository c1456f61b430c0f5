"""Measures of conditional dependence: a number and, on request, its gradient in x.

Each function takes x, y, z as (n,) or (n, columns), avoids copies where possible, and returns a Measurement. It computes
in the dtype of x, or in `dtype`. missing="drop" leaves out rows with a missing cell in any variable (NaN, None, a mask,
NA). weights (n,): what each row counts, at least 0; only their ratios matter, and a row of weight 0 is left out. The defaults
are those of the command `circe measure`.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from typing import Callable, Dict, Optional, Sequence, Union

import numpy as np

from . import _arrays, _columns, _kernels, _native, _runtime, errors
from ._kernels import KernelLike
from ._mean import ConditionalMean, ResidualFeatures
from ._rows import options_of_rows

Sigma2 = Union[float, str, None]
Grid = Union[float, Sequence[float], None]

_DTYPES = {None: None, "float32": np.dtype(np.float32), "float64": np.dtype(np.float64),
           np.float32: np.dtype(np.float32), np.float64: np.dtype(np.float64),
           np.dtype(np.float32): np.dtype(np.float32), np.dtype(np.float64): np.dtype(np.float64)}


class Measurement:
    """The result of a measure: `value`, `grad` (d value / d x, with the shape of x; None if not requested), `measure`,
    `estimator` (None if the measure has one form), `n` (rows), `chosen` (what leave-one-out chose, by name; None:
    nothing), and `columns` (the columns read as categories). float() gives the value."""

    __slots__ = ("measure", "estimator", "value", "grad", "n", "chosen", "columns")

    def __init__(self, measure: str, estimator: Optional[str], value: float, grad: Optional[np.ndarray], n: int,
                 chosen: Optional[dict] = None, columns: tuple = ()):
        if value != value or value in (float("inf"), float("-inf")):
            raise errors.NumericError(f"{measure} is not a finite number: the data are too large for this kernel; scale them")
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


_MAX_MEASURES = 32
_NO_VIEW = _native.mat(0, 0, 0, 0, _native.FLOAT64)


def options_of(kind: str, numbers: tuple, with_mean: bool) -> _native.MeasureOptions:
    """Of a measure of batches that know nothing of each other. `numbers`: (field, value) pairs."""
    library, options = _native.library(), _native.MeasureOptions()
    library.circe_measure_options_init(ctypes.byref(options), library.circe_measure_find(kind.encode()))
    options.gcm_previous_batch, options.regress_z_on_holdout = 0, with_mean
    ridge = ctypes.c_double(dict(numbers).get("ridge", 0.0))
    options.ridge, options.n_ridge = ctypes.pointer(ridge), ridge.value > 0
    for field, number in numbers:
        if field != "ridge":
            setattr(options, field, number)
    return options


def made(context: _runtime.Context, kind: str, kernels: tuple, model, features, numbers: tuple,
         workspace: Optional[_runtime.Handle] = None, parents=()) -> _runtime.Handle:
    """A measure of the library. `kernels` of x, y and z, with their widths, or None; `model` and `features`: handles, or None;
    `numbers`: (field, value) pairs of its options; workspace: None: its own; parents: what else it must not outlive."""
    library, options = _native.library(), options_of(kind, numbers, model is not None)
    options.kernels = _native.Kernels(*(kernel and kernel.pointer for kernel in kernels))
    options.sigma2_x, options.workspace = 1.0, workspace and workspace.pointer  # every kernel has its widths
    measure = _runtime.make("circe_measure_create", "circe_measure_destroy", context.pointer, ctypes.byref(options),
                            parents=[workspace or context.handle, *parents])  # not the mean, which may be closed earlier
    if model is not None:
        _native.check(library.circe_measure_set_mean(measure.pointer, model.pointer))
    if features is not None:
        _native.check(library.circe_measure_bind_features(measure.pointer, features.pointer))
    return measure


def _object(context: _runtime.Context, kind: str, kernels: tuple, mean, features, numbers: tuple):
    """(measure, what it borrows) of these settings in this thread, made if it is not kept. It works in the context's
    scratch, so keeping it costs little. The caller holds both until the end of a call: another thread may fit the mean again
    or close it."""
    model = None if mean is None else mean.model.handle
    owner = model if features is None else features.handle
    key = kind, kernels, id(owner), numbers
    kept = context.measures.get(key)
    if kept is not None and (owner is None or kept[1]() is owner):
        return kept[0], owner
    measure = made(context, kind, kernels, model, None if features is None else owner, numbers, context.workspace)
    context.measures[key] = measure, owner and weakref.ref(owner)
    if len(context.measures) > _MAX_MEASURES:
        context.measures.popitem(last=False)
    return measure, owner


def _found(kind: str, views: dict, kernels: tuple, grad: bool, numbers: tuple = (), mean: Optional[ConditionalMean] = None,
           estimator: Optional[str] = None, chosen: Optional[dict] = None) -> Measurement:
    """The measure of views: (matrix, array) by variable."""
    context = _runtime.context()
    (measure, alive), (mat_x, x), weights = _object(context, kind, kernels, mean, None, numbers), views["x"], context.weights
    mat_grad, gradient = _arrays.result(x.shape, x.dtype) if grad else (None, None)
    value = ctypes.c_double()
    mat_y = views["y"][0] if "y" in views else _NO_VIEW
    with contextlib.nullcontext() if mean is None else mean.model.guard:
        if weights is not None:
            _native.check(_native.library().circe_measure_set_weights(measure.pointer, weights.ctypes.data, len(weights)))
        status = _native.library().circe_measure_points(measure.pointer, mat_x, mat_y, views["z"][0], ctypes.byref(value),
                                                           mat_grad)
    if status:
        raise _native.fail(status)
    return Measurement(kind, estimator, value.value, gradient, len(x), chosen,
                       _columns.described(**{name: array for name, (_, array) in views.items()}))


def _given_mean(kind: str, x, y, z, mean: ConditionalMean, kernel_x, sigma2_x, grad: bool, dtype, numbers: tuple = (),
                estimator: Optional[str] = None) -> Measurement:
    """A measure that uses the conditional mean of a holdout."""
    _model(mean, kind)
    views = {"x": _arrays.view(x, "x", _dtype(dtype)), "y": mean._view(y, "y"), "z": mean._view(z, "z")}
    kernel = _bound(views, "x", kernel_x, sigma2_x)
    return _found(kind, views, (kernel, None, None), grad, numbers, mean, estimator)


def _bound(views: dict, name: str, kernel, sigma2) -> _runtime.Handle:
    mat, array = views[name]
    return _kernels.bound(_runtime.context(), _columns.kernel_of(kernel, array), sigma2, mat, name)


def _how(method: str, tolerance: Optional[float]) -> tuple:
    return (("method", _native.choice(_native.METHODS, "method", method)),
            ("tolerance", 0.0 if tolerance is None else _kernels.positive(tolerance, "tolerance")))


@options_of_rows("weights")
def circe(x, y, z, mean: ConditionalMean, *, kernel_x: KernelLike = "gaussian", sigma2_x: Sigma2 = "median",
          estimator: str = "ustat", grad: bool = False, dtype=None) -> Measurement:
    """CIRCE: does x say something about z that y does not? 0 if it does not.

    The squared Hilbert-Schmidt norm of the covariance between (x, y) and the residual of z given y. `mean` is the conditional
    mean of z given y, fitted on other points. Estimators: ustat (unbiased), biased, debiased, centered.

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
    return _given_mean("circe", x, y, z, mean, kernel_x, sigma2_x, grad, dtype, (("estimator", form),), estimator)


def circe_cached(features: ResidualFeatures, x, index=None, *, kernel_x: KernelLike = "gaussian",
                 sigma2_x: Sigma2 = "median", estimator: str = "ustat", grad: bool = False, weights=None) -> Measurement:
    """CIRCE of x from precomputed residual features; row i of x belongs to their row index[i]. Computes in the dtype of the
    features. weights: what each row of x counts.

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
    measure, alive = _object(context, "circe", (kernel, None, None), features.mean, features, (("estimator", form),))
    if weights is not None:
        weights = _arrays.weights_of(weights, len(x))
        _native.check(_native.library().circe_measure_set_weights(measure.pointer, weights.ctypes.data, len(weights)))
    status = _native.library().circe_measure_evaluate(measure.pointer, rows.ctypes.data, len(rows), mat_x, ctypes.byref(value),
                                                         mat_grad)
    if status:
        raise _native.fail(status)
    return Measurement("circe", estimator, value.value, gradient, len(x))


@options_of_rows("weights")
def spectral(x, y, z, mean: ConditionalMean, *, kernel_x: KernelLike = "gaussian", sigma2_x: Sigma2 = "median",
             grad: bool = False, dtype=None) -> Measurement:
    """The largest singular value of CIRCE's operator: only the strongest direction counts. It is never 0 on a sample, and its
    time grows with the cube of the rows.

    >>> import numpy as np
    >>> y, z = np.random.default_rng(0).normal(size=(2, 300))
    >>> mean = ConditionalMean(sigma2_z=1.0).fit(y[:200], z[:200])
    >>> spectral(z[200:], y[200:], z[200:], mean).value > spectral(y[200:], y[200:], z[200:], mean).value
    True
    """
    return _given_mean("circe-spectral", x, y, z, mean, kernel_x, sigma2_x, grad, dtype)


@options_of_rows("transform", "weights")
def hsic(x, z, *, kernel_x: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian", sigma2_x: Sigma2 = "median",
         sigma2_z: Sigma2 = "median", estimator: str = "ustat", grad: bool = False, dtype=None) -> Measurement:
    """HSIC: does x depend on z at all? This includes what they share through a third variable. Estimators: ustat (unbiased),
    biased.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=100)
    >>> float(hsic(x, x)) > 0.05
    True
    """
    name = _native.hsic_estimator(estimator)
    views = {"x": _arrays.view(x, "x", _dtype(dtype)), "z": _arrays.view(z, "z")}
    kernels = _bound(views, "x", kernel_x, sigma2_x), None, _bound(views, "z", kernel_z, sigma2_z)
    return _found("hsic", views, kernels, grad, (("estimator", _native.ESTIMATORS[name]),), estimator=name)


# ---- measures that regress the batch on its own y -----------------------------------------------------------------------


def _single(grid) -> bool:
    return grid is not None and not isinstance(grid, str) and np.ndim(grid) == 0


def _settle(context, y, z, kernel_y, kernel_z_text, sigma2_y, ridge):
    """(kernel of y, ridge, what was chosen): as given if there is one of each, else by leave-one-out on these rows, for
    the regression of z's kernel features (gcm: of z itself)."""
    mat_y, _ = y
    kernel_y = _columns.kernel_of(kernel_y, y[1])
    if sigma2_y == "median" if isinstance(sigma2_y, str) else _single(sigma2_y):
        handle = _kernels.bound(context, kernel_y, sigma2_y, mat_y, "y")
    else:
        handle = _kernels.parse(context, kernel_y, "kernel_y")
    if _single(ridge) and not _native.library().circe_kernel_n_free(handle.pointer):
        return handle, _kernels.positive(ridge, "ridge"), None
    choice = ConditionalMean(_kernels.text(handle), kernel_z_text, ridge=ridge, sigma2_z=None,
                             sigma2_y=None if isinstance(sigma2_y, str) or _single(sigma2_y) else sigma2_y)
    choice._fit_quietly(y[1], z[1], context.weights)
    chosen = {"kernel_y": choice.kernel_y_, "ridge": choice.ridge_}
    return _kernels.bound(context, choice.kernel_y_, None, None, "y"), choice.ridge_, chosen


def _views(x, y, z, dtype) -> dict:
    return {"x": _arrays.view(x, "x", _dtype(dtype)), "y": _arrays.view(y, "y"), "z": _arrays.view(z, "z")}


def _regressed(kind: str, x, y, z, kernel_x, kernel_y, kernel_z, sigma2_x, sigma2_y, sigma2_z, ridge, method, tolerance, grad,
               dtype) -> Measurement:
    views = _views(x, y, z, dtype)
    bound_x, bound_z = _bound(views, "x", kernel_x, sigma2_x), _bound(views, "z", kernel_z, sigma2_z)
    bound_y, ridge, chosen = _settle(_runtime.context(), views["y"], views["z"], kernel_y, _kernels.text(bound_z),
                                     sigma2_y, ridge)
    return _found(kind, views, (bound_x, bound_y, bound_z), grad, (("ridge", ridge), *_how(method, tolerance)), chosen=chosen)


@options_of_rows("transform", "weights")
def hscic(x, y, z, *, mean: Optional[ConditionalMean] = None, kernel_x: KernelLike = "gaussian",
          kernel_y: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian", sigma2_x: Sigma2 = "median",
          sigma2_y: Union[Grid, str] = None, sigma2_z: Sigma2 = "median", ridge: Grid = None, method: str = "auto",
          tolerance: Optional[float] = None, grad: bool = False, dtype=None) -> Measurement:
    """HSCIC: the HSIC of x and z at a given y, averaged over y. The rows are regressed on themselves.

    sigma2_y and ridge: a single number is used as given. Among several, and for None, leave-one-out on these rows chooses.
    With `mean`, the conditional mean of z, the kernels of y and z, and the ridge come from the model.

    >>> import numpy as np
    >>> y, z = np.random.default_rng(0).normal(size=(2, 300))
    >>> found = hscic(y + z, y, z, grad=True)
    >>> found.value > 0.03, found.grad.shape, sorted(found.chosen)
    (True, (300,), ['kernel_y', 'ridge'])
    """
    if mean is None:
        return _regressed("hscic", x, y, z, kernel_x, kernel_y, kernel_z, sigma2_x, sigma2_y, sigma2_z,
                          ridge, method, tolerance, grad, dtype)
    _model(mean, "hscic")
    ridge = mean.ridge_ if ridge is None else _kernels.positive(ridge, "ridge")
    return _given_mean("hscic", x, y, z, mean, kernel_x, sigma2_x, grad, dtype, (("ridge", ridge), *_how(method, tolerance)))


@options_of_rows("transform", "weights")
def kci(x, y, z, *, kernel_x: KernelLike = "gaussian", kernel_y: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian",
        sigma2_x: Sigma2 = "median", sigma2_y: Union[Grid, str] = None, sigma2_z: Sigma2 = "median", ridge: Grid = None,
        method: str = "auto", tolerance: Optional[float] = None, grad: bool = False, dtype=None) -> Measurement:
    """KCI's statistic: the HSIC of the residuals of (x, y) and of z given y. It grows with the number of rows; `circe.test`
    gives its p-value.

    >>> import numpy as np
    >>> y, z, e = np.random.default_rng(0).normal(size=(3, 300))
    >>> kci(y + z, y, z).value > 2 * kci(y + e, y, z).value
    True
    """
    return _regressed("kci", x, y, z, kernel_x, kernel_y, kernel_z, sigma2_x, sigma2_y, sigma2_z, ridge,
                      method, tolerance, grad, dtype)


@options_of_rows("transform", "weights")
def gcm(x, y, z, *, mean: Optional[ConditionalMean] = None, kernel_y: KernelLike = "gaussian",
        sigma2_y: Union[Grid, str] = None, ridge: Grid = None, regression: str = "kernel", combine: str = "max",
        sharpness: float = 1.0, previous=None, method: str = "auto", tolerance: Optional[float] = None, grad: bool = False,
        dtype=None) -> Measurement:
    """GCM: the correlation between the residuals of x and of z given y, as a score that is about N(0, 1) under independence.

    regression: "kernel" or "linear". combine: "max", "logsumexp" (smooth, with `sharpness`) or "squares". previous: (x, y) of
    the previous batch, whose rows count alike; x is then regressed on that batch. mean: a ConditionalMean with a linear kernel of z; it then gives
    the residuals of z.

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
    _native.library().circe_gcm_options_init(ctypes.byref(options))
    options.regression = _native.choice(_native.GCM_REGRESSIONS, "regression", regression)
    options.combine = _native.choice(_native.GCM_COMBINES, "combine", combine)
    options.sharpness = _kernels.positive(sharpness, "sharpness")
    chosen = bound_y = None
    if regression == "kernel":
        if mean is not None:
            kernel_y, sigma2_y, ridge = mean.kernel_y_, None, mean.ridge_ if ridge is None else ridge
        bound_y, used, chosen = _settle(context, (mat_y, y), (mat_z, z), kernel_y, "linear", sigma2_y, ridge)
        options.batch.ridge = used
        for field, number in _how(method, tolerance):
            setattr(options.batch, field, number)
    if mean is not None:
        alive = _model(mean, "gcm").handle  # alive until the end of the call, even if it is closed
        options.holdout = alive.pointer
    if previous is not None:
        parts = _arrays.several(previous, "previous", 2, "a pair (x, y)")
        _arrays.same_order(**dict(zip(("previous x", "previous y"), parts)))
        keep = [_arrays.view(values, f"previous {name}") for values, name in zip(parts, "xy")]
        options.previous_x, options.previous_y = (mat for mat, _ in keep)
    mat_grad, gradient = _arrays.result(x.shape, x.dtype) if grad else (None, None)
    value, weights = ctypes.c_double(), context.weights
    try:
        if weights is not None:
            _native.check(_native.library().circe_workspace_set_weights(context.work, weights.ctypes.data, len(weights)))
        _native.check(_native.library().circe_measure_gcm(context.work, bound_y and bound_y.pointer, mat_x, mat_y, mat_z,
                                                          ctypes.byref(options), ctypes.byref(value), mat_grad))
    finally:
        if weights is not None:
            _native.library().circe_workspace_set_weights(context.work, None, 0)
    return Measurement("gcm", None, value.value, gradient, len(x), chosen, _columns.described(x=x, y=y, z=z))


# ---- normalised measures ------------------------------------------------------------------------------------------------


def _normalized(kind: str, x, y, z, kernels, sigma2, epsilon, method, tolerance, grad, dtype) -> Measurement:
    views = _views(x, y, z, dtype)
    bound = tuple(_bound(views, v, kernel, width) for v, kernel, width in zip("xyz", kernels, sigma2))
    return _found(kind, views, bound, grad, (("epsilon", _kernels.positive(epsilon, "epsilon")), *_how(method, tolerance)))


@options_of_rows("transform", "weights")
def nocco(x, y, z, *, kernel_x: KernelLike = "gaussian", kernel_y: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian",
          sigma2_x: Sigma2 = "median", sigma2_y: Sigma2 = "median", sigma2_z: Sigma2 = "median", epsilon: float = 1e-3,
          method: str = "auto", tolerance: Optional[float] = None, grad: bool = False, dtype=None) -> Measurement:
    """NOCCO: the covariance divided by the spread of each variable, so every direction counts equally. The ridge is n *
    epsilon.

    >>> import numpy as np
    >>> y, z, e = np.random.default_rng(0).normal(size=(3, 300))
    >>> nocco(y + z, y, z).value > nocco(y + e, y, z).value
    True
    """
    return _normalized("nocco", x, y, z, (kernel_x, kernel_y, kernel_z), (sigma2_x, sigma2_y, sigma2_z),
                       epsilon, method, tolerance, grad, dtype)


@options_of_rows("transform", "weights")
def kpc(x, y, z, *, kernel_x: KernelLike = "gaussian", kernel_y: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian",
        sigma2_x: Sigma2 = "median", sigma2_y: Sigma2 = "median", sigma2_z: Sigma2 = "median", epsilon: float = 1e-3,
        method: str = "auto", tolerance: Optional[float] = None, grad: bool = False, dtype=None) -> Measurement:
    """KPC: of the variation in x that y does not explain, the share that z explains. 0 is none, 1 is all. It is not symmetric
    in x and z.

    >>> import numpy as np
    >>> y, z = np.random.default_rng(0).normal(size=(2, 300))
    >>> kpc(y + z, y, z).value > 0.9
    True
    """
    return _normalized("kpc", x, y, z, (kernel_x, kernel_y, kernel_z), (sigma2_x, sigma2_y, sigma2_z),
                       epsilon, method, tolerance, grad, dtype)


# ---- by name ------------------------------------------------------------------------------------------------------------

MEASURES: Dict[str, Callable[..., Measurement]] = {
    "circe": circe, "circe-spectral": spectral, "hsic": hsic, "hscic": hscic, "gcm": gcm, "kci": kci, "nocco": nocco,
    "kpc": kpc}


def measure(name: str, x, y=None, z=None, **options) -> Measurement:
    """The measure called `name`: circe, circe-spectral, hsic, hscic, gcm, kci, nocco or kpc; it takes the options of that
    function.

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
