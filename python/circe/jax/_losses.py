"""The losses, as functions of arrays: checks, the gradient, and batches across devices."""

from __future__ import annotations

import functools
import warnings
from typing import Any, Optional, Tuple, Union

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import _arrays, _codes, _native, errors
from .._kernels import KernelLike
from .._mean import ConditionalMean, ResidualFeatures
from . import _ffi, _plans

try:  # moved there in JAX 0.8
    _x64 = functools.partial(jax.enable_x64, True)
except AttributeError:
    from jax.experimental import enable_x64 as _x64  # type: ignore[no-redef]

AxisName = Union[str, Tuple[str, ...], None]
Sigma2 = Union[float, str, None]  # of the features: a number or "median"
_SMALL = {"zero": 0, "refuse": 1}
_LEAST = 4  # rows of positive weight, below which a loss is 0


class SmallBatchWarning(UserWarning):
    """A batch had fewer rows than the loss needs; it counted as 0."""


# ---- value and gradient -------------------------------------------------------------------------------------------------


def _called(plan: _plans.Plan, x, points, with_grad: bool):
    """(value,) or (value, gradient); vmap calls it once for each batch. points: y and z, or row numbers; then perhaps weights."""
    grad = (jax.ShapeDtypeStruct(x.shape, x.dtype),) if with_grad else ()
    if _ffi.shim() is None:
        shapes = (jax.ShapeDtypeStruct((), x.dtype), *grad)
        found = jax.pure_callback(functools.partial(_in_python, plan, with_grad), shapes, x, *points, vmap_method="sequential")
        return _spread_as(x, *found)
    with _x64():  # the library counts rows in int64, and has weights and the value as float64
        own, weights = points[:plan.n_points], points[plan.n_points:]
        own = (own[0].astype(np.int64),) if plan.by_rows else own
        points = (*own, *(array.astype(np.float64) for array in weights))
        call = jax.ffi.ffi_call("circe_rows" if plan.by_rows else "circe_points", (jax.ShapeDtypeStruct((), np.float64), *grad),
                                vmap_method="sequential")
        value, *rest = call(x, *points, plan=np.int64(plan.number))
        value = value.astype(x.dtype)
    return _spread_as(x, value, *rest)


def _spread_as(x, *found):
    """Inside shard_map JAX notes which values may differ from device to device; what is called from outside loses the note.
    A choice between it and x, which XLA leaves out, has that of x."""
    return tuple(jnp.where(True, one, like) for one, like in zip(found, (x[0, 0], x)))


def _in_python(plan: _plans.Plan, with_grad: bool, x, *points):
    x, *points = (np.asarray(array) for array in (x, *points))
    own, (weights, *_) = points[:plan.n_points], (*points[plan.n_points:], None)
    nothing = weights is not None and (weights == 0).sum() > len(weights) - _LEAST and (weights >= 0).all()
    value, grad = (0.0, np.zeros_like(x)) if nothing else plan.call(x, *own, grad=with_grad, weights=weights)
    value = np.asarray(value, x.dtype)
    return (value, grad) if with_grad else (value,)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _measure(plan: _plans.Plan, x, *points):
    return _called(plan, x, points, False)[0]


def _forward(plan: _plans.Plan, x, *points):
    own = () if plan.by_rows else reversed(points[:plan.n_points])
    for name, point in (*zip(("z", "y"), own), *zip(("weights",), points[plan.n_points:])):  # without a y, z replaces it
        if point.perturbed and jnp.issubdtype(point.value.dtype, jnp.floating):
            raise errors.ArgumentError(f"{name} is differentiated, but the loss has a gradient in x only: pass "
                                       f"jax.lax.stop_gradient({name})")
    value, grad = _called(plan, x.value, tuple(point.value for point in points), True)
    return value, (grad, len(points))


def _backward(plan: _plans.Plan, saved, cotangent):
    grad, n = saved
    if isinstance(cotangent, jax.custom_derivatives.SymbolicZero):
        return (1 + n) * (None,)
    return (cotangent * grad, *n * (None,))


_measure.defvjp(_forward, _backward, symbolic_zeros=True)


# ---- checks -------------------------------------------------------------------------------------------------------------


def _points(values, name: str, dtype, mean: Optional[ConditionalMean] = None, kernel: Optional[KernelLike] = None) -> Array:
    """y or z, (n, columns): also columns of tables, with their categories."""
    if values is None:
        raise errors.ArgumentError(f"{name} is missing")
    if not isinstance(values, Array) and (type(values) is not np.ndarray or values.dtype.kind in "OUS"):
        values = _codes.numbers(values, name, mean, kernel)
    elif getattr(mean, "columns_", ()) and not isinstance(values, jax.core.Tracer):
        _codes.refuse_others(np.asarray(values, np.float64), name, mean)
    return _rows(values, name, dtype)


def _rows(array, name: str, dtype=None) -> Array:
    """(n, columns), of `dtype`."""
    try:
        array = jnp.asarray(array)
    except (TypeError, ValueError):
        raise errors.DTypeError(f"{name} is {type(array).__name__}; it must be an array of numbers") from None
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise errors.DTypeError(f"{name} has dtype {array.dtype}; it must contain real numbers")
    if array.ndim not in (1, 2):
        raise errors.ShapeError(f"{name} has {array.ndim} dimensions; it must be (n,) or (n, columns)")
    if array.size == 0:
        raise errors.ShapeError(f"{name} is empty, of shape {array.shape}; it needs at least one row and column")
    array = array[:, None] if array.ndim == 1 else array
    return array if dtype is None or array.dtype == dtype else array.astype(dtype)


def _features_of(x) -> Array:
    """x as float32 or float64: half precision is widened, with its gradient."""
    x = _rows(x, "x")
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise errors.DTypeError(f"x has dtype {x.dtype}; it must contain floating-point numbers")
    return x if x.dtype in (jnp.float32, jnp.float64) else x.astype(jnp.float32)


def _index_of(index, n: int) -> Array:
    index = jnp.asarray(index)
    if not jnp.issubdtype(index.dtype, jnp.integer):
        raise errors.DTypeError(f"index has dtype {index.dtype}; it must contain row numbers")
    if index.shape != (n,):
        raise errors.ShapeError(f"index has shape {index.shape} and x has {n} rows; give one row number for each")
    return index


def _same_rows(x, **others) -> None:
    for name, array in others.items():
        if array.shape[0] != x.shape[0]:
            raise errors.ShapeError(f"x has {x.shape[0]} rows and {name} has {array.shape[0]}; they must be the same points")


def _weights_of(weights, n: int) -> Tuple[Array, ...]:
    if weights is None:
        return ()
    if not isinstance(weights, Array):
        weights = _arrays.weights_of(weights, n)
    if weights.shape not in ((n,), (n, 1)):
        raise errors.ShapeError(f"weights has shape {weights.shape} and x has {n} rows; give one weight for each")
    if jnp.issubdtype(weights.dtype, jnp.complexfloating):
        raise errors.DTypeError(f"weights has dtype {weights.dtype}; it must contain real numbers")
    weights = jnp.asarray(weights).reshape(n)
    return (weights if jnp.issubdtype(weights.dtype, jnp.floating) else weights.astype(jnp.float32),)


_told = set()


def _too_small(name: str, n: int, least: int, small_batch: str) -> bool:
    """The sizes of batches are known when a function is traced."""
    refuses = _native.choice(_SMALL, "small_batch", small_batch) == 1
    if n >= least:
        return False
    if refuses:
        raise errors.ShapeError(f"{name} needs at least {least} rows, but the batch has {n}")
    if name not in _told:
        warnings.warn(f"a batch of {n} row{'s' * (n != 1)} is too small for {name}, which needs {least}: it counts as 0", SmallBatchWarning,
                      stacklevel=4)
    _told.add(name)
    return True


def _of_all(array, axis_name: AxisName):
    return array if axis_name is None else jax.lax.all_gather(array, axis_name, tiled=True)


def _loss(name: str, plan: _plans.Plan, x, points: Tuple[Any, ...], least: int, small_batch: str, axis_name: AxisName,
          weights) -> Array:
    points = (*points, *_weights_of(weights, x.shape[0]))
    x = _of_all(x, axis_name)
    points = tuple(_of_all(array, axis_name) for array in points)
    if _too_small(name, x.shape[0], least, small_batch):
        return (x * 0).sum()
    return _measure(plan, x, *points)


# ---- the losses ---------------------------------------------------------------------------------------------------------


def circe_loss(x, y=None, z=None, mean: Union[ConditionalMean, ResidualFeatures, None] = None, *, index=None,
               sigma2_x: Sigma2 = "median", kernel_x: KernelLike = "gaussian", estimator: str = "ustat",
               axis_name: AxisName = None, small_batch: str = "zero", weights=None) -> Array:
    """CIRCE of a batch: small if the features x say nothing about z that y does not.

    `mean` is the ConditionalMean of z given y, fitted on rows that are not used for training: circe_loss(x, y, z, mean). Or
    it is the ResidualFeatures of the training set: circe_loss(x, mean=features, index=index), with the row numbers of the
    batch, which is cheaper; x must have their dtype. sigma2_x is the squared width of the kernel of the features: a number,
    or (on the CPU) "median", the squared median distance of each batch, which the gradient treats as a constant.

    axis_name: inside shard_map or pmap, the axes that the batch is split over. Then the loss covers the batches of all
    devices. The correct gradient is that of lax.pmean(loss, axis_name), averaged over the axes (lax.pmean) like the gradients
    of other losses. A batch with fewer rows than the estimator needs gives a loss of 0, with one warning. small_batch="refuse"
    raises an error instead.

    weights (n,): what each row counts, at least 0, on the CPU. Only their ratios matter, a row of weight 0 is left out, and with
    fewer than 4 others the loss is 0.

    >>> import numpy as np, jax, circe
    >>> y, z = np.random.default_rng(0).normal(size=(2, 300))
    >>> mean = circe.ConditionalMean(sigma2_z=1.0).fit(y[:200], z[:200])
    >>> features = mean.residual_features(y[200:], z[200:], np.float32)
    >>> loss = lambda x, index: circe_loss(x, mean=features, index=index, sigma2_x=1.0)
    >>> jax.jit(jax.grad(loss))(z[210:230, None].astype(np.float32), np.arange(10, 30)).shape
    (20, 1)
    """
    x = _features_of(x)
    if mean is None:
        raise errors.ArgumentError("mean is missing; give a fitted ConditionalMean, or the ResidualFeatures of a training set")
    plan = _plans.circe(mean, sigma2_x, kernel_x, estimator)
    points: Tuple[Any, ...]
    if isinstance(mean, ResidualFeatures):
        if index is None or y is not None or z is not None:
            raise errors.ArgumentError("index: with ResidualFeatures the loss takes the row numbers of the batch: circe_loss(x, "
                                       "mean=features, index=index)")
        if x.dtype != mean.dtype:
            raise errors.DTypeError(f"x has dtype {x.dtype} and the ResidualFeatures {np.dtype(mean.dtype)}; make them with dtype={x.dtype}")
        points = (_index_of(index, x.shape[0]),)
    else:
        if index is not None:
            raise errors.ArgumentError("index: with a ConditionalMean the loss takes y and z; give ResidualFeatures to take row numbers")
        _arrays.same_order(y=y, z=z, weights=weights)
        points = _points(y, "y", x.dtype, mean), _points(z, "z", x.dtype, mean)
        _same_rows(x, y=points[0], z=points[1])
    return _loss("circe_loss", plan, x, points, 4 if estimator == "ustat" else 2, small_batch, axis_name, weights)


def hsic_loss(x, z, *, sigma2_x: Sigma2 = "median", sigma2_z: Optional[float] = None, kernel_x: KernelLike = "gaussian",
              kernel_z: KernelLike = "gaussian", estimator: str = "ustat", axis_name: AxisName = None,
              small_batch: str = "zero", weights=None) -> Array:
    """HSIC of a batch: small if x and z are independent. What they share through other variables counts as dependence.

    >>> import jax.numpy as jnp
    >>> x = jnp.linspace(-1, 1, 50)
    >>> bool(hsic_loss(x, x, sigma2_x=1.0, sigma2_z=1.0) > 0.01)
    True
    """
    x = _features_of(x)
    z = _points(z, "z", x.dtype, None, kernel_z)
    _same_rows(x, z=z)
    plan = _plans.hsic(sigma2_x, sigma2_z, kernel_x, kernel_z, estimator)
    return _loss("hsic_loss", plan, x, (z, z), 4 if estimator in ("ustat", "unbiased") else 2, small_batch, axis_name, weights)


def hscic_loss(x, y, z, *, mean: Optional[ConditionalMean] = None, sigma2_x: Sigma2 = "median",
               sigma2_y: Optional[float] = None, sigma2_z: Optional[float] = None, kernel_x: KernelLike = "gaussian",
               kernel_y: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian", ridge: Optional[float] = None,
               axis_name: AxisName = None, small_batch: str = "zero", weights=None) -> Array:
    """HSCIC of a batch, which is regressed on its own y. With `mean`, the conditional mean of z comes from the holdout;
    kernels and ridge also come from the model unless they are given.

    >>> import jax.numpy as jnp
    >>> x = jnp.linspace(-1, 1, 50)
    >>> bool(hscic_loss(x, x**2, x, sigma2_x=1.0, sigma2_y=1.0, sigma2_z=1.0, ridge=0.1) > 0)
    True
    """
    x = _features_of(x)
    _arrays.same_order(y=y, z=z, weights=weights)
    points = _points(y, "y", x.dtype, mean, kernel_y), _points(z, "z", x.dtype, mean, kernel_z)
    _same_rows(x, y=points[0], z=points[1])
    plan = _plans.hscic(mean, sigma2_x, sigma2_y, sigma2_z, kernel_x, kernel_y, kernel_z, ridge)
    return _loss("hscic_loss", plan, x, points, 2, small_batch, axis_name, weights)


def gcm_loss(x, y, z, *, mean: Optional[ConditionalMean] = None, sigma2_y: Optional[float] = None,
             kernel_y: KernelLike = "gaussian", ridge: Optional[float] = None, regression: str = "kernel",
             combine: str = "logsumexp", sharpness: float = 1.0, axis_name: AxisName = None, small_batch: str = "zero",
             weights=None) -> Array:
    """GCM of a batch: the correlation between the residuals of x and of z given y. combine="logsumexp", the default here, is
    a smooth maximum over pairs of columns.

    >>> import jax.numpy as jnp
    >>> y = jnp.linspace(-1, 1, 60)
    >>> bool(gcm_loss(jnp.sin(y) ** 2, y, jnp.sin(y) ** 2, regression="linear") > 2)
    True
    """
    x = _features_of(x)
    _arrays.same_order(y=y, z=z, weights=weights)
    points = _points(y, "y", x.dtype, mean, kernel_y if regression == "kernel" else None), _points(z, "z", x.dtype, mean)
    _same_rows(x, y=points[0], z=points[1])
    plan = _plans.gcm(mean, sigma2_y, kernel_y, ridge, regression, combine, sharpness)
    return _loss("gcm_loss", plan, x, points, 4, small_batch, axis_name, weights)
