"""The conditional mean of z given y, fitted once on a holdout, and the residual features of a data set."""

from __future__ import annotations

import copy
import ctypes
import json
import os
import warnings
from dataclasses import dataclass
from typing import Optional, Sequence, Union

import numpy as np

from . import _arrays, _columns, _kernels, _native, _runtime, errors
from ._kernels import KernelLike
from ._model import CATEGORIES, Model, bytes_of, categories_in, from_bytes, load

_METHOD_NAMES = {number: name for name, number in _native.METHODS.items()}


class FitWarning(UserWarning):
    """A warning about a fit: the ridge was raised, or the best value lies at the edge of the grid."""


@dataclass(frozen=True)
class LooTable:
    """The leave-one-out errors over the grid; error and ridge_used are (len(sigma2_y), len(ridge))."""

    sigma2_y: np.ndarray
    ridge: np.ndarray
    error: np.ndarray
    ridge_used: np.ndarray


def _grid(values, name: str):
    """One number or several, as a C array; None: the library's grid."""
    if values is None:
        return None, 0
    numbers = [_kernels.positive(v, name) for v in np.atleast_1d(np.asarray(values, dtype=object)).ravel()]
    if not numbers:
        raise errors.ArgumentError(f"{name} is empty; give one number or several")
    return (ctypes.c_double * len(numbers))(*numbers), len(numbers)


def _copied(values, shape) -> np.ndarray:
    """Copies a table of the library; NaN if a model from a file has none."""
    return np.ctypeslib.as_array(values, shape).copy() if values else np.full(shape, np.nan)


def _whole(value, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise errors.ArgumentError(f"{name} is {value!r}; it must be a whole number, at least {least}")
    return int(value)


class ConditionalMean:
    """The conditional mean embedding of z given y, by kernel ridge regression.

    The exact leave-one-out error over a grid chooses the width of the kernel of y and the ridge together. Fit it on points
    that you will not measure or train on: a model of the measured points makes the residuals of z look smaller than they are.

    Parameters
    ----------
    kernel_y, kernel_z : text or Kernel
        "gaussian", "laplace(0.5)", "0-2:gaussian*3:delta".
    sigma2_y : number, several, "median" or None
        Squared widths to try for the kernel of y. None: 10, 1, 0.1, 0.01 and 0.001 times the squared median distance.
    sigma2_z : number or "median"
    ridge : number, several or None
        lambda in (K + lambda I), not scaled by the number of rows. None: 0.01, 0.1, 1, 10 and 100.
    method : "auto", "lowrank", "dense" or "rff"
    missing : "refuse" or "drop"
        What fit() does with rows that have a missing cell.
    tolerance, max_rank, force_ridge, seed, rff_features, rff_batch, rff_every
        The options of `circe fit`; None: its defaults.

    Attributes after fit: loo_ (LooTable), sigma2_y_, ridge_, loo_error_, method_, rank_y_, rank_z_, kernel_y_, kernel_z_,
    trace_residual_y_, trace_residual_z_, ridge_raised_, n_rows_, n_columns_y_, n_columns_z_, warnings_, seconds_, columns_
    (the columns read as categories).

    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = random.normal(size=500)
    >>> z = y**2 + random.normal(size=500)
    >>> mean = ConditionalMean(sigma2_y=[1.0, 0.1], sigma2_z=1.0).fit(y, z)
    >>> mean.sigma2_y_, mean.loo_.error.shape
    (0.1, (2, 5))
    >>> mean.residual_features(y[:10], z[:10]).zeta.shape[0]
    10
    """

    def __init__(self, kernel_y: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian", *,
                 sigma2_y: Union[float, Sequence[float], str, None] = None, sigma2_z: Union[float, str, None] = "median",
                 ridge: Union[float, Sequence[float], None] = None, method: str = "auto",
                 tolerance: Optional[float] = None, max_rank: Optional[int] = None, force_ridge: bool = False,
                 seed: int = 0, rff_features: Optional[int] = None, rff_batch: Optional[int] = None,
                 rff_every: Optional[int] = None, missing: str = "refuse"):
        self.kernel_y = kernel_y
        self.kernel_z = kernel_z
        self.sigma2_y = sigma2_y
        self.sigma2_z = sigma2_z
        self.ridge = ridge
        self.method = method
        self.tolerance = tolerance
        self.max_rank = max_rank
        self.force_ridge = force_ridge
        self.seed = seed
        self.rff_features = rff_features
        self.rff_batch = rff_batch
        self.rff_every = rff_every
        self.missing = missing

    _PARAMETERS = ("kernel_y", "kernel_z", "sigma2_y", "sigma2_z", "ridge", "method", "tolerance", "max_rank",
                   "force_ridge", "seed", "rff_features", "rff_batch", "rff_every", "missing")

    # ---- scikit-learn's conventions

    def get_params(self, deep: bool = True) -> dict:
        """The parameters by name, as in scikit-learn."""
        return {name: getattr(self, name) for name in self._PARAMETERS}

    def set_params(self, **parameters) -> "ConditionalMean":
        for name, value in parameters.items():
            if name not in self._PARAMETERS:
                raise errors.ArgumentError(f"there is no parameter {name!r}; there are {', '.join(self._PARAMETERS)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self):
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=True, multi_output=True))

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_model", None) is not None

    def __repr__(self) -> str:
        default = ConditionalMean()
        given = (f"{name}={value!r}" for name, value in self.get_params().items()
                 if not (type(value) is type(getattr(default, name)) and np.array_equal(value, getattr(default, name))))
        return f"ConditionalMean({', '.join(given)})"

    # ---- fitting

    def fit(self, y, z, weights=None) -> "ConditionalMean":
        """y (M,) or (M, d_y) and z (M,) or (M, d_z): the same points. weights (M,): what each row counts, at least 0; only
        their ratios matter, and a row of weight 0 is left out. Computes in float64."""
        _arrays.same_order(y=y, z=z, weights=weights)
        if _arrays.drops(self.missing):
            y, z, weights = _arrays.dropped(y=y, z=z, weights=weights)[0].values()
        if weights is not None:
            rows, weights, _ = _arrays.weighted(weights, y=y, z=z)
            y, z = rows.values()
        try:
            keep_y, keep_z = self._fit(y, z, weights)
        except errors.DataError as error:
            raise _arrays.explained(error, {"y": y, "z": z}) from None
        self._categories = {"y": _columns.categories(keep_y), "z": _columns.categories(keep_z)}
        self.columns_ = _columns.described(y=keep_y, z=keep_z)
        for text in self.warnings_:
            warnings.warn(text, FitWarning, stacklevel=2)
        return self

    def _fit(self, y, z, weights=None):
        """Fits and adopts the model. Returns the arrays that were viewed."""
        mat_y, keep_y = _arrays.view(y, "y")
        mat_z, keep_z = _arrays.view(z, "z")
        context, library = _runtime.context(), _native.library()
        options, keep_grids = self._options()
        options.weights = None if weights is None else _native.doubles(weights)
        text_y, text_z = _columns.kernel_of(self.kernel_y, keep_y), _columns.kernel_of(self.kernel_z, keep_z)
        kernel_z = _kernels.bound(context, text_z, self.sigma2_z, mat_z, "z")
        if isinstance(self.sigma2_y, str):
            kernel_y = _kernels.bound(context, text_y, self.sigma2_y, mat_y, "y")
        else:
            kernel_y = _kernels.parse(context, text_y, "kernel_y")
            if self.sigma2_y is not None and not library.circe_kernel_n_free(kernel_y.pointer):
                raise errors.ArgumentError(f"sigma2_y is {self.sigma2_y!r}, but the kernel of y, {str(self.kernel_y)!r}, has "
                                           "no width that is still to be chosen")
        with _runtime.interruptible():
            fitted = _runtime.make("circe_cme_fit", "circe_cme_destroy", context.pointer, mat_y, mat_z, kernel_y.pointer,
                                   kernel_z.pointer, ctypes.byref(options), parents=[context.handle])
        self._adopt(Model(fitted))
        return keep_y, keep_z

    def _view(self, values, name: str, dtype=None):
        """As _arrays.view, with the codes that categories had in the fit, which must have seen them."""
        mat, array = _arrays.view(values, name, dtype)
        known = getattr(self, "_categories", {}).get(name, ())
        if not known and not isinstance(array, _columns.Coded):
            return mat, array
        codes = _columns.aligned(array, known, name)
        _columns.refuse_unseen(np.asarray(codes).reshape(len(codes), -1), known, values, name)
        return _arrays.view(codes, name, dtype)

    def encode(self, values, variable: str) -> np.ndarray:
        """Encodes rows of y or z as numbers (n, columns), for the losses of a training loop. Categories (text, categoricals,
        booleans) get the codes that they had in the fit; their kernel only compares for equality. A category that the fit has
        not seen is refused. variable: "y" or "z".

        >>> import numpy as np
        >>> group = np.array(["north", "south", "west"])[np.arange(90) % 3]
        >>> mean = ConditionalMean().fit(np.arange(90.0), group)
        >>> mean.encode(["west", "north"], "z").ravel()
        array([2., 0.])
        """
        if variable not in ("y", "z"):
            raise errors.ArgumentError(f"variable is {variable!r}; it must be 'y' or 'z'")
        self.model.pointer  # fitted, and not closed
        _, array = self._view(values, variable)
        array = np.asarray(array).reshape(len(array), -1)
        wanted = self.n_columns_y_ if variable == "y" else self.n_columns_z_
        if array.shape[1] != wanted:
            raise errors.ShapeError(f"{variable} has {array.shape[1]} columns; the fit had {wanted}")
        return array

    def _fit_quietly(self, y, z, weights=None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            self.fit(y, z, weights)

    def _options(self):
        options = _native.CmeOptions()
        _native.library().circe_cme_options_init(ctypes.byref(options))
        options.method = _native.choice(_native.METHODS, "method", self.method)
        widths = None if isinstance(self.sigma2_y, str) else self.sigma2_y
        sigma2, options.n_sigma2_y = _grid(widths, "sigma2_y")
        ridge, options.n_ridge = _grid(self.ridge, "ridge")
        options.sigma2_y, options.ridge = sigma2, ridge
        options.force_ridge = bool(self.force_ridge)
        options.seed = _whole(self.seed, "seed", 0)
        if self.tolerance is not None:
            options.tolerance = _kernels.positive(self.tolerance, "tolerance")
        for field, name, least in (("max_rank", "max_rank", 1), ("rff_pool", "rff_features", 1),
                                   ("rff_every", "rff_every", 1), ("rff_batch", "rff_batch", 0)):
            value = getattr(self, name)
            if value is not None:
                setattr(options, field, _whole(value, name, least))
        if self.rff_batch is None and options.rff_batch > options.rff_pool:
            options.rff_batch = 0
        return options, (sigma2, ridge)

    def _adopt(self, model: Model) -> None:
        """Takes over a fitted model and describes it in attributes."""
        library, handle = _native.library(), model.handle
        pointer, info, table = handle.pointer, model.info, _native.LooTable()
        _native.check(library.circe_cme_get_loo(pointer, ctypes.byref(table)))
        shape = (table.n_sigma2_y, table.n_ridge)
        before, self._model = getattr(self, "_model", None), model
        _runtime.changed()
        del before  # kept until others know about the new model
        self.loo_ = LooTable(*(_copied(values, size) for values, size in (
            (table.sigma2_y, shape[:1]), (table.ridge, shape[1:]), (table.error, shape), (table.ridge_used, shape))))
        self.method_ = _METHOD_NAMES[info.method]
        self.solver_ = _METHOD_NAMES[info.solver]
        self.n_rows_, self.n_columns_y_, self.n_columns_z_ = info.rows, info.dim_y, info.dim_z
        self.rank_y_, self.rank_z_ = info.rank_y, info.rank_z
        self.trace_residual_y_, self.trace_residual_z_ = info.trace_residual_y, info.trace_residual_z
        self.sigma2_y_ = info.sigma2_y or None  # None: the kernel of y had no width to choose
        self.ridge_, self.ridge_raised_ = info.ridge, bool(info.ridge_raised)
        self.loo_error_, self.seconds_ = info.loo_error, info.seconds
        self.kernel_y_ = _kernels.text(library.circe_cme_kernel_y(pointer))
        self.kernel_z_ = _kernels.text(library.circe_cme_kernel_z(pointer))
        self.warnings_ = [library.circe_cme_warning(pointer, i).decode()
                          for i in range(library.circe_cme_n_warnings(pointer))]

    # ---- the fitted model

    @property
    def model(self) -> Model:
        """The fitted model of the library."""
        model = getattr(self, "_model", None)
        if model is None:
            raise errors.NotFittedError("this ConditionalMean is not fitted yet; call fit(y, z) first")
        return model

    def close(self) -> None:
        """Frees the model now. Any later use raises ClosedError."""
        self.model.close()

    def residual_features(self, y, z, dtype=None) -> "ResidualFeatures":
        """Residual features of a whole data set: compute them once, then measure and train by row numbers."""
        return ResidualFeatures(self, y, z, dtype)

    def residual_gram(self, y, z) -> np.ndarray:
        """K^c (n, n): dot products of psi(z) - mu(y) between all pairs of points, float64."""
        _arrays.same_order(y=y, z=z)
        mat_y, keep_y = self._view(y, "y")
        mat_z, keep_z = self._view(z, "z")
        mat_out, out = _arrays.result((len(keep_y), len(keep_y)), np.float64)
        model = self.model
        with model.held() as pointer:
            _native.check(_native.library().circe_residual_gram(_runtime.context().work, pointer, mat_y, mat_z, mat_out))
        return out

    def predict(self, y) -> np.ndarray:
        """E[z | y] (n, d_z), for a model whose kernel of z is linear.

        >>> import numpy as np
        >>> y = np.linspace(-1, 1, 200)
        >>> mean = ConditionalMean(kernel_z="linear", sigma2_y=1.0, ridge=0.01).fit(y, 3 * y)
        >>> bool(abs(mean.predict([0.5])[0, 0] - 1.5) < 0.01)
        True
        """
        model = self.model
        mat_y, keep_y = self._view(y, "y", np.dtype(np.float64))
        mat_out, out = _arrays.result((len(keep_y), self.n_columns_z_), np.float64)
        with model.held() as pointer:
            _native.check(_native.library().circe_cme_mean(_runtime.context().work, pointer, mat_y, mat_out))
        return out

    def rff_step(self, step: int) -> None:
        """For method "rff": move to batch number `step`, with the random features that belong to it."""
        with self.model.held() as pointer:
            _native.check(_native.library().circe_cme_rff_step(pointer, _whole(step, "step", 0)))

    # ---- files, pickles, copies

    def save(self, path) -> None:
        """Writes a .safetensors file that `circe measure --model` can read, with the texts of categories. If writing
        fails, an existing file stays as it was."""
        known = getattr(self, "_categories", {})
        own, n = None, 0
        if any(texts is not None for columns in known.values() for texts in columns):
            columns = {v: list(known[v]) or [None] * n for v, n in (("y", self.n_columns_y_), ("z", self.n_columns_z_))}
            text = json.dumps(columns, ensure_ascii=False, separators=(",", ":"))
            own, n = _native.Metadata(CATEGORIES, text.encode("utf-8", "replace")), 1
        with self.model.held() as pointer:
            _native.check(_native.library().circe_cme_save_with(pointer, os.fsencode(path), own and ctypes.byref(own), n))

    @classmethod
    def load(cls, path) -> "ConditionalMean":
        """A fitted ConditionalMean from a file that save() or `circe fit` wrote."""
        mean = cls()
        mean._adopt(Model(load(os.fspath(path))))
        mean._parameters_from_model()
        mean._categories = categories_in(os.fspath(path))
        mean.columns_ = tuple({"variable": name, "column": c, "read_as": "categories", "categories": len(texts)}
                              for name, columns in mean._categories.items() for c, texts in enumerate(columns)
                              if texts is not None)
        return mean

    def _parameters_from_model(self) -> None:
        """Parameters with which fit() would choose what the file contains."""
        self.kernel_y, self.kernel_z = self.kernel_y_, self.kernel_z_
        self.sigma2_z, self.ridge, self.method = None, self.ridge_, self.method_

    def __getstate__(self) -> dict:
        state = self.__dict__.copy()
        model = state.pop("_model", None)
        if model is not None:
            with model.held() as pointer:
                state["_saved"] = bytes_of(lambda path: _native.check(_native.library().circe_cme_save(pointer, path.encode())))
        return state

    def __setstate__(self, state: dict) -> None:
        saved = state.pop("_saved", None)
        self.__dict__.update(state)
        if saved is not None:
            self._model = Model(from_bytes(saved, load))

    def __copy__(self) -> "ConditionalMean":
        """Shares the fitted model, which does not change."""
        other = ConditionalMean.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, memo) -> "ConditionalMean":
        other = self.__copy__()
        for name in self._PARAMETERS:
            setattr(other, name, copy.deepcopy(getattr(self, name), memo))
        return other


class ResidualFeatures:
    """Residual features zeta = psi(z) - mu(y) of the rows of a data set, together with its y.

    The dot product of two rows of zeta is their K^c. `measure` and the losses of circe.torch take its row numbers, so a
    training step looks features up instead of computing them. If z has high rank, zeta and gather are not available
    (RankError); measuring by row numbers still is. Pickled, they are the mean with y and z, and are computed anew.

    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = random.normal(size=300)
    >>> z = y + random.normal(size=300)
    >>> features = ConditionalMean(sigma2_z=1.0).fit(y[:200], z[:200]).residual_features(y[200:], z[200:])
    >>> len(features), features.y.shape
    (100, (100, 1))
    >>> measured = features.measure(z[210:250], index=range(10, 50), sigma2_x=1.0)
    >>> bool(measured.value > 0.001)
    True
    """

    def __init__(self, mean: ConditionalMean, y, z, dtype=None):
        if not isinstance(mean, ConditionalMean):
            raise errors.DTypeError(f"mean is {type(mean).__name__}; it must be a fitted ConditionalMean")
        _arrays.same_order(y=y, z=z)
        mat_y, keep_y = mean._view(y, "y")
        mat_z, keep_z = mean._view(z, "z")
        self.mean = copy.copy(mean)  # as it is now, even if it is fitted again
        self.dtype = np.dtype(np.float64 if dtype is None else dtype)
        code = {"float32": _native.FLOAT32, "float64": _native.FLOAT64}.get(self.dtype.name)
        if code is None:
            raise errors.DTypeError(f"dtype is {self.dtype}; it must be float32 or float64")
        context = _runtime.context()
        model = self.mean.model.handle
        with _runtime.interruptible():
            self._handle: Optional[_runtime.Handle] = _runtime.make(
                "circe_features_create", "circe_features_destroy", context.pointer, model.pointer, mat_y, mat_z, code,
                parents=[context.handle, model])
        self._n = len(keep_y)
        self._made_of = np.array(keep_y), np.array(keep_z)  # codes of categories; for pickles
        self._views = None

    def __len__(self) -> int:
        return self._n

    @property
    def handle(self) -> _runtime.Handle:
        handle = self._handle
        if handle is None:
            raise errors.ClosedError("these ResidualFeatures were closed")
        return handle

    @property
    def pointer(self) -> int:
        return self.handle.pointer

    def close(self) -> None:
        """Frees the features now, or once no array of them is in use. Any later use raises ClosedError."""
        handle, self._handle, self._views = self._handle, None, None
        _runtime.changed()
        del handle  # kept until others know that it is closed

    def _get(self):
        handle, views = self.handle, self._views
        if views is None:
            y, zeta = _native.Mat(), _native.Mat()
            _native.check(_native.library().circe_features_get(handle.pointer, ctypes.byref(y), ctypes.byref(zeta)))
            views = self._views = tuple(_arrays.borrowed(found, handle) for found in (y, zeta))
        return views

    @property
    def y(self) -> np.ndarray:
        """(N, d_y), of dtype; read-only, without a copy. As float32, columns far from 0 begin at 0 where the kernel reads only
        differences."""
        return self._get()[0]

    @property
    def zeta(self) -> np.ndarray:
        """(N, q), of dtype; read-only, without a copy."""
        return self._get()[1]

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.zeta if dtype is None else self.zeta.astype(dtype)

    def gather(self, index):
        """(y, zeta) of some rows."""
        rows = _arrays.index_array(index, "index", self._n)
        return self.y[rows], self.zeta[rows]

    def measure(self, x, index=None, **options):
        """CIRCE of x, whose row i belongs to row index[i] of the data set. The options are those of circe.circe."""
        from ._measures import circe_cached

        return circe_cached(self, x, index, **options)

    def __reduce__(self):
        self.pointer  # not closed
        return _features_again, (self.mean, *self._made_of, self.dtype)


def _features_again(mean: ConditionalMean, y: np.ndarray, z: np.ndarray, dtype) -> ResidualFeatures:
    plain = copy.copy(mean)
    plain._categories = {}  # y and z are already codes
    made = ResidualFeatures(plain, y, z, dtype)
    made.mean = mean
    return made
