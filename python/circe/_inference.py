"""Tests whether x is independent of z given y: a p-value and its trust, the calibration of the test on data like these, and
the size of the dependence.

The three functions take the same data and options. They return records with named fields.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
import time
import warnings
from dataclasses import dataclass, fields
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _arrays, _blocks, _columns, _crossfit, _gpu, _kernels, _native, _runtime, errors
from ._kernels import KernelLike
from ._mean import _grid, _whole
from ._records import Record, panels

Grid = Union[float, Sequence[float], None]

_LEAST_REPETITIONS = 20  # of calibrate, and half-samples of effects: fewer say nothing


# ---- results ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class TestResult(Record):
    """`p_value`, `statistic`, `trust` ("good", "doubtful" or "poor") and `verdict` (a sentence). float() gives the p-value;
    `pvalue` is SciPy's name for it.

    `x` and `z` describe the regressions on y (None if the method has none): ridge, loo_error, degrees, remaining,
    check_p... `effective_rows`: the number of rows that effectively determine the statistic or, if fewer, a column. If
    they are few, `robust_p` is the p-value on normal scores (NaN: not needed). `within_p`: if the test rejects and many
    rows have the same y as others, the p-value with rows permuted within equal y. `blocks`: with groups or time, the number of
    groups or blocks, and `block_length` how many times a block has. `columns`: the columns read as categories.
    """

    __test__ = False  # pytest: not one of yours
    _shown = ("method", "p_value", "statistic", "null", "trust", "n")

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
    rank_x: int
    rank_z: int
    left_out_x: float
    left_out_z: float
    kernel_x: Optional[str]
    kernel_y: Optional[str]
    kernel_z: Optional[str]
    x: Optional[dict]
    z: Optional[dict]
    seconds: float
    effective_rows: float = float("nan")
    robust_p: float = float("nan")
    mid_p: float = float("nan")
    misfit: float = float("nan")
    within_p: float = float("nan")
    within_share: float = 0.0
    expected_count: float = float("nan")
    blocks: int = 0
    block_length: float = 0.0
    imputations: int = 0
    on_device: bool = False
    columns: Tuple[dict, ...] = ()

    @property
    def pvalue(self) -> float:
        return self.p_value

    def __float__(self) -> float:
        return self.p_value


@dataclass(frozen=True, repr=False, eq=False)
class Calibration(Record):
    """How a test behaves on data like these, but without dependence.

    `p_values` (repetitions,): uniform if the test is calibrated. `level`: the share of p-values that are at most `alpha`,
    with its 95 % interval `level_lower` to `level_upper`. `uniform_p`: the p-value of the Kolmogorov-Smirnov test.
    `counts` (bins,): the histogram over [0, 1], with the bin edges `edges` (bins + 1,). `trust` and `verdict`: in words.
    """

    _shown = ("level", "level_lower", "level_upper", "alpha", "uniform_p", "trust", "repetitions")

    method: str
    alpha: float
    repetitions: int
    rows: int
    level: float
    level_lower: float
    level_upper: float
    uniform_p: float
    trust: str
    verdict: str
    counts: np.ndarray
    p_values: np.ndarray
    seconds: float

    @property
    def edges(self) -> np.ndarray:
        return np.linspace(0.0, 1.0, len(self.counts) + 1)

    def plot(self, axes=None):
        """Draws the histogram of the p-values with matplotlib; the line is what a calibrated test gives. Returns the axes."""
        (axes,) = panels(1, axes)
        axes.bar(self.edges[:-1], self.counts, np.diff(self.edges), align="edge", edgecolor="white")
        axes.axhline(self.repetitions / len(self.counts), color="black", linewidth=1)
        axes.set(xlim=(0, 1), xlabel="p-value without dependence", ylabel="data sets", title=f"level {self.level:.3g} at {self.alpha:g}")
        return axes


@dataclass(frozen=True, repr=False)
class Effect(Record):
    """`value` in [0, 1], its 95 % interval `lower` to `upper`, and `chance`, its average without dependence. float() gives
    the value."""

    _shown = ("value", "lower", "upper", "chance")

    value: float
    lower: float
    upper: float
    chance: float

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, repr=False, eq=False)
class Along(Record):
    """Where along a column of y the dependence occurs, at the column's quantiles: `place`, `value`, its 95 % interval
    `lower` to `upper`, and `null_upper`. Without dependence, no place exceeds `null_upper` in 95 of 100 cases. `above`:
    the places that exceed it."""

    _shown = ("column", "place", "value", "above")

    column: int
    place: np.ndarray
    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    null_upper: np.ndarray

    @property
    def above(self) -> np.ndarray:
        return self.value > self.null_upper


@dataclass(frozen=True, repr=False, eq=False)
class Effects(Record):
    """`kpc`: the share of the residual of x given y that z explains. `circe`: CIRCE divided by its largest possible value
    for these residuals, without the part that is due to chance. `along`: where the dependence occurs (None if not
    requested). `rows`: the number of rows used, at most 4,000."""

    _shown = ("kpc", "circe", "rows")

    kpc: Effect
    circe: Effect
    along: Optional[Along]
    rows: int
    seconds: float

    def plot(self, axes=None):
        """Draws where along a column of y the dependence occurs, with its 95 % interval, using matplotlib; above the dashed
        line it is not by chance. Returns the axes."""
        if self.along is None:
            raise errors.ArgumentError("there is nothing to draw: the effects were computed with along=None")
        (axes,), found = panels(1, axes), self.along
        axes.fill_between(found.place, found.lower, found.upper, alpha=0.3)
        axes.plot(found.place, found.value, marker="o", label="CIRCE")
        axes.plot(found.place, found.null_upper, color="black", linestyle="--", linewidth=1, label="without dependence, at most")
        axes.set(xlabel=f"column {found.column} of y", ylabel="CIRCE", title=f"KPC {self.kpc.value:.3g}")
        axes.legend()
        return axes


# ---- data and options ---------------------------------------------------------------------------------------------------


def _parsed(function: str, text, name: str) -> int:
    if not isinstance(text, str):
        raise errors.DTypeError(f"{name} is {text!r}; it must be a word")
    number = ctypes.c_int()
    _native.check(getattr(_native.library(), function)(text.encode(), ctypes.byref(number)), name)
    return number.value


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")  # a time may follow: such texts sort like their dates


def _moments(time):
    """Converts dates, including those in text, and spans of time to numbers in their order."""
    if time is None or _arrays.is_torch(time):
        return time
    try:
        array = np.asarray(time)
    except (TypeError, ValueError):  # explained where it is read
        return time
    if array.ndim == 0 or array.dtype.kind not in "mMOUS":
        return time
    if array.dtype.kind in "mM":
        return np.where(np.isnat(array), np.nan, array.astype(f"{array.dtype.kind}8[ns]").astype(np.int64).astype(float))
    plain = np.empty(array.shape, object)
    plain.ravel()[:] = [None if str(v) == "NaT" else v.isoformat() if hasattr(v, "isoformat") else v for v in array.ravel()]
    read = _arrays.read(plain, "time")
    texts = _texts(read)
    if texts is None:
        return time
    for text in texts:
        if not _DATE.match(text):
            raise errors.DataError(f"time must contain numbers or dates such as 2024-03-31, not {text!r}")
    place = np.argsort(np.argsort(texts)).astype(float)
    codes = np.asarray(read, float).ravel()
    return np.where(np.isnan(codes), np.nan, place[np.nan_to_num(codes).astype(int)])


def _texts(array) -> Optional[Sequence[str]]:
    """The words of the first column; None: it contains numbers."""
    categories = getattr(array, "categories", ())
    return categories[0] if len(categories) else None


class TestMemory:
    """What tests of one table have in common, to be given to each of them: regressions of the same column on the same y,
    features, widths. It keeps about `bytes`. Tests of several threads take turns with it.

    >>> import numpy as np
    >>> a, b, c, d = np.random.default_rng(0).normal(size=(4, 200))
    >>> memory = TestMemory()
    >>> test(a, b, c, memory=memory).p_value == test(a, b, c).p_value
    True
    """

    __test__ = False

    def __init__(self, bytes: float = 5e8):
        self.context, pointer = _runtime.context(), ctypes.c_void_p()
        library = _native.library()
        _native.check(library.circe_test_memory_create(self.context.pointer, _kernels.positive(bytes, "bytes"), ctypes.byref(pointer)))
        self.handle = _runtime.Handle(pointer.value, library.circe_test_memory_destroy, self.context.handle)
        self._guard, self._forks = threading.Lock(), _runtime.forks

    @property
    def guard(self) -> threading.Lock:
        """Held during a test. A child of fork has its own."""
        if self._forks != _runtime.forks:
            self._guard, self._forks = threading.Lock(), _runtime.forks
        return self._guard

    def __reduce__(self):
        raise TypeError("a TestMemory cannot be pickled; make another one")


class _Problem:
    """Views of the data and the C structure of the options, with what both point to."""

    def __init__(self, x, y, z, *, method: str = "kci", null: str = "auto", draws: Optional[int] = None, seed: int = 0,
                 alpha: float = 0.05, checks: bool = True, kernel_x: Optional[KernelLike] = None,
                 kernel_y: Optional[KernelLike] = None, kernel_z: Optional[KernelLike] = None, weights=None,
                 width: Grid = None, ridge: Grid = None, undersmoothing: Optional[float] = None, regressor: str = "kernel",
                 max_rank: Optional[int] = None, auxiliary=None, mean: str = "auto", test_share: Optional[float] = None,
                 features: Optional[Sequence[int]] = None, transform: str = "none", missing: str = "refuse", groups=None,
                 time=None, block: Optional[float] = None, memory: Optional["TestMemory"] = None, fitted=None,
                 device: Any = None):
        x, y, z, device = _gpu.fetched(x, y, z, device)
        y = None if isinstance(method, str) and method == "hsic" else y
        _arrays.same_order(x=x, y=y, z=z, weights=weights, groups=groups, time=time)
        time = _moments(time)
        if _arrays.drops(missing, "impute"):
            x, y, z, weights, groups, time = _arrays.dropped(x=x, y=y, z=z, weights=weights, groups=groups,
                                                             time=time)[0].values()
            auxiliary = auxiliary and self._complete_auxiliary(auxiliary)
        self.imputes = missing == "impute"
        self.context = _runtime.context()
        self.options = options = _native.TestOptions()
        _native.library().circe_test_options_init(ctypes.byref(options))
        options.method = _parsed("circe_test_method_parse", method, "method")
        options.null = 0 if isinstance(null, str) and null == "auto" else _parsed("circe_test_null_parse", null, "null")
        options.mean = _native.choice(_native.TEST_MEANS, "mean", mean)
        options.regressor = _native.choice(_native.REGRESSORS, "regressor", regressor)
        options.transform = _native.choice(_native.TRANSFORMS, "transform", transform)
        options.seed, options.skip_checks = _whole(seed, "seed", 0), not checks
        self.keep: List[Any] = []
        self.of_rows: Dict[str, np.ndarray] = {}
        self.regressors: Sequence[Optional[str]] = (None, None)  # the names of the caller's regressors
        self.arrays: Dict[str, np.ndarray] = {}
        self.mat_x = self._view(x, "x")
        self.mat_y = None if y is None else self._view(y, "y")
        self.mat_z = self._view(z, "z")
        self.rows = len(self.arrays["x"])
        self._numbers({"alpha": alpha, "undersmoothing": undersmoothing, "test_share": test_share},
                      {"draws": draws, "max_rank": max_rank})
        self._grids(width, ridge)
        self._kernels({"kernel_x": kernel_x, "kernel_y": kernel_y, "kernel_z": kernel_z})
        if features is not None:
            options.features_x, options.features_y, options.features_z = (
                _whole(n, "features", 1) for n in _arrays.several(features, "features", 3, "numbers of features of x, y and z"))
        for name, values in (("weights", weights), ("groups", groups), ("time", time)):
            if values is not None:
                self._of_rows(name, values)
        self.memory = memory
        if memory is not None:
            self.context, options.memory = memory.context, memory.handle.pointer
        self.device = _gpu.test_device(self.context, device)
        if self.device is not None:
            options.device = self.device.pointer
        if block is not None:
            options.block = _kernels.positive(block, "block")
        if fitted is not None:
            options.fitted_x, options.fitted_z = (self._view(part, f"predictions of {v}") for part, v in zip(fitted, "xz"))
        if auxiliary is not None:
            parts = self._pair(auxiliary)
            _arrays.same_order(**dict(zip(("auxiliary y", "auxiliary z"), parts)))
            options.auxiliary_y, options.auxiliary_z = (self._view(part, f"auxiliary {v}", like=self.arrays.get(v))
                                                        for part, v in zip(parts, "yz"))

    @staticmethod
    def _pair(auxiliary) -> tuple:
        return _arrays.several(auxiliary, "auxiliary", 2, "a pair (y, z)")

    @classmethod
    def _complete_auxiliary(cls, auxiliary) -> tuple:
        y, z = cls._pair(auxiliary)
        return tuple(_arrays.dropped(**{"auxiliary y": y, "auxiliary z": z})[0].values())

    def _view(self, values, name: str, like=None) -> bytes:
        mat, array = _arrays.view(values, name)
        if isinstance(array, _columns.Coded) and like is not None:
            mat, array = _arrays.view(_columns.aligned(array, _columns.categories(like), name), name)
        self.keep.append(array)
        self.arrays[name] = array
        return mat

    def _numbers(self, positive: Dict[str, Any], whole: Dict[str, Any]) -> None:
        for name, value in positive.items():
            if value is not None:
                setattr(self.options, name, _kernels.positive(value, name))
        for name, value in whole.items():
            if value is not None:
                setattr(self.options, name, _whole(value, name, 1))

    def _grids(self, width: Grid, ridge: Grid) -> None:
        widths, self.options.n_width = _grid(width, "width")
        ridges, self.options.n_ridge = _grid(ridge, "ridge")
        self.options.width, self.options.ridge = widths, ridges
        self.keep += [widths, ridges]

    def _kernels(self, kernels: Dict[str, Optional[KernelLike]]) -> None:
        for name, kernel in kernels.items():
            kernel = _columns.kernel_of_test(kernel, self.arrays.get(name[-1]))
            if kernel is not None:
                self.keep.append(_kernels.parse(self.context, kernel, name))
                setattr(self.options, name, self.keep[-1].pointer)

    def _of_rows(self, name: str, values) -> None:
        if name == "groups" and isinstance(values, np.ndarray) and values.dtype.kind in "iu":
            values = np.unique(values, return_inverse=True)[1]  # a double does not tell apart identifiers above 2^53
        read = _arrays.view(values, name, np.dtype(np.float64))[1]
        if name == "weights" and _texts(read) is not None:
            raise errors.DTypeError("weights contains text; it must contain numbers")
        array = np.ascontiguousarray(read).ravel()
        if len(array) != self.rows:
            raise errors.ShapeError(f"{name} has {len(array)} numbers and x {self.rows} rows; give one for each")
        setattr(self.options, name, _native.doubles(array))
        self.of_rows[name] = array

    def call(self, function: str, *arguments, subject: str = "") -> None:
        with contextlib.nullcontext() if self.memory is None else self.memory.guard, _runtime.interruptible():
            status = getattr(_native.library(), function)(self.context.pointer, self.mat_x, self.mat_y, self.mat_z,
                                                          ctypes.byref(self.options), *arguments)
            try:
                _native.check(status, subject)
            except errors.DataError as error:
                if self.imputes:  # a NaN needs no explanation
                    raise
                raise _arrays.explained(error, self.arrays) from None


def _record(structure, kind, **more):
    """A record from the fields of a C structure that have its names; `more` for those that do not."""
    return kind(**{field.name: getattr(structure, field.name) for field in fields(kind) if field.name not in more}, **more)


def _trust(number: int) -> str:
    return _native.library().circe_trust_name(number).decode()


# ---- functions ----------------------------------------------------------------------------------------------------------


def test(x, y, z, *, method: str = "kci", null: str = "auto", draws: Optional[int] = None, seed: int = 0,
         alpha: float = 0.05, checks: bool = True, kernel_x: Optional[KernelLike] = None,
         kernel_y: Optional[KernelLike] = None, kernel_z: Optional[KernelLike] = None, weights=None,
         width: Grid = None, ridge: Grid = None, undersmoothing: Optional[float] = None, regressor: Any = "kernel",
         max_rank: Optional[int] = None, auxiliary=None, mean: str = "auto", test_share: Optional[float] = None,
         features: Optional[Sequence[int]] = None, transform: str = "none", missing: str = "refuse",
         rows: Union[int, str, None] = None, seconds: float = 20.0, folds: int = 5, groups=None, time=None,
         block: Optional[float] = None, memory: Optional["TestMemory"] = None, imputations: int = 20,
         device: Any = None) -> TestResult:
    """Tests whether x is independent of z given y. A small p-value is evidence of dependence.

    method: kci, circe, splitkci, gcm, wgcm, pcm, rcot or hsic; null: auto, gamma, spectral, wild, permutation, normal or
    multiplier. y: None tests whether x and z are independent. auxiliary: (y, z) of more rows whose x is unknown, for method
    circe. features: the numbers of random features of x, y and z, for rcot. transform: "normal-scores" or "ranks" replaces
    every column of numbers, so that no outlier outweighs the other rows. missing: "drop" leaves out rows with a missing cell
    in any variable (NaN, None, a mask, NA); "impute" fills them in `imputations` times from rows that are alike and pools the
    p-values. `seed` determines everything random.

    regressor: for gcm and wgcm, how x and z are regressed on y: "kernel", "linear" (least squares) or "forest"; or any object
    with scikit-learn's fit and predict, or a pair of them, for x and for z. The residual of each row then comes from a fit on
    the other `folds` - 1 parts of the rows; with groups or time, these are whole groups or stretches of time.

    groups: one number or word per row (a patient, a school); rows of one group may depend on each other. time: one number or
    date per row; rows that are near in time may depend on each other, and `block` times in a row make a block that counts as
    independent of the others (by default chosen from the data). Both: every group is a series of its own.

    memory: a TestMemory that tests of the same table share. They then run faster and give the same results.

    device: for kci, circe, gcm and rcot, where the passes over the rows of a test of more than 8,192 rows run: "cpu", "cuda",
    "cuda:1" (the second GPU) or "auto". By default the GPU that holds x, y or z, if they are tensors there, else the CPU.
    Smaller tests run on the CPU; `on_device` says where one ran.

    rows: the number of random rows to test, or "all". By default all rows are tested if that takes about `seconds` or less;
    with more than 50,000 rows, a trial on some of them estimates the time. Otherwise a random sample is tested, with a
    SampleWarning.

    >>> import numpy as np
    >>> y, e, f = np.random.default_rng(0).normal(size=(3, 300))
    >>> test(y + e, y, y + e + f).p_value < 0.01, test(y + e, y, y + f).p_value > 0.01
    (True, True)
    """
    options = {name: value for name, value in locals().items()
               if name not in ("x", "y", "z", "rows", "seconds", "folds", "imputations")}
    own = not isinstance(regressor, str)
    x, y, z, options["device"] = _gpu.fetched(x, y, z, device)
    result, library = _native.TestResult(), _native.library()
    if missing == "impute":
        if own:
            raise errors.ArgumentError('missing="impute" takes the regressors "kernel", "linear" and "forest" only')
        _arrays.same_order(x=x, y=y, z=z, weights=weights, groups=groups, time=time)
        x, y, z = (None if v is None else _arrays.read(v, name) for v, name in ((x, "x"), (y, "y"), (z, "z")))
        problem = _limited(x, y, z, "all" if rows is None else rows, seconds, options)
        problem.call("circe_test_impute", _whole(imputations, "imputations", 2), ctypes.byref(result))
    else:
        problem = (_crossfitted(x, y, z, _whole(folds, "folds", 2), options) if own
                   else _limited(x, y, z, rows, seconds, options))
        problem.call("circe_test", ctypes.byref(result))
    return _record(
        result, TestResult, method=library.circe_test_method_name(result.method).decode(),
        null=library.circe_test_null_name(result.null).decode(), on_device=bool(result.on_device), trust=_trust(result.trust), verdict=result.verdict.decode(),
        x=_regression(result.x, problem.regressors[0]), z=_regression(result.z, problem.regressors[1]),
        columns=_columns.described(**{v: problem.arrays[v] for v in "xyz" if v in problem.arrays}),
        **{name: getattr(result, name).decode() or None for name in ("kernel_x", "kernel_y", "kernel_z")})


setattr(test, "__test__", False)  # pytest: not one of yours


def _crossfitted(x, y, z, folds: int, options: Dict[str, Any]) -> _Problem:
    """The problem with predictions of x and z by the caller's regressors."""
    regressors = _crossfit.pair(options.pop("regressor"))
    if options["method"] not in ("gcm", "wgcm"):
        raise errors.ArgumentError(f"regressor is for the methods gcm and wgcm, not for {options['method']!r}")
    if y is None:
        raise errors.ArgumentError("regressor needs a y to regress on")
    problem = _Problem(x, y, z, **options)
    arrays = {v: np.asarray(problem.arrays[v], float).reshape(problem.rows, -1) for v in "xyz"}
    of_rows = problem.of_rows
    fitted = [_crossfit.predictions(one, arrays["y"], arrays[v], folds, options["seed"], of_rows.get("groups"),
                                    of_rows.get("time")) for v, one in zip("xz", regressors)]
    problem = _Problem(arrays["x"], arrays["y"], arrays["z"], **{**options, **problem.of_rows, "fitted": fitted, "missing": "refuse"})
    problem.regressors = [type(one).__name__ for one in regressors]
    return problem


def _limited(x, y, z, rows, seconds: float, options: Dict[str, Any]) -> _Problem:
    """The problem of all rows, or of a random sample of them."""
    problem = _Problem(x, y, z, **options)
    n = problem.rows
    if isinstance(rows, str) and rows != "all":
        raise errors.ArgumentError(f"rows is {rows!r}; it must be a number of rows or 'all'")
    if rows is None:
        plan = _native.TestPlan()
        problem.call("circe_test_foresee", _kernels.positive(seconds, "seconds"), ctypes.byref(plan))
        rows = plan.rows
        if rows < n:
            warnings.warn(f"a random sample of {rows} of the {n} rows was tested: all of them would take about "
                          f"{plan.seconds:.0f} seconds (rows='all')", _blocks.SampleWarning, stacklevel=3)
    elif rows != "all":
        _whole(rows, "rows", 8)
    if rows == "all" or rows >= n:
        return problem
    chosen = _blocks.sample_rows(n, rows, problem.options.seed)
    x, y, z = (problem.arrays[v][chosen] if v in problem.arrays else None for v in "xyz")
    return _Problem(x, y, z, **{**options, **{name: values[chosen] for name, values in problem.of_rows.items()}})


def _regression(found: _native.TestRegression, name: Optional[str] = None) -> Optional[dict]:
    if not found.used:
        return None
    described = {field[0]: getattr(found, field[0]) for field in found._fields_[1:]}
    return {**described, "basis": name or found.basis.decode()}


def calibrate(x, y, z, *, repetitions: int = 200, bins: int = 20, **options) -> Calibration:
    """Checks whether the test is calibrated on data like these. Draws x again given y, independently of z, `repetitions`
    times, and tests each data set: the p-values must be uniform. This takes as long as that many tests; Ctrl-C stops it. The
    options are those of `test`.

    >>> import numpy as np
    >>> y, e, f = np.random.default_rng(0).normal(size=(3, 200))
    >>> found = calibrate(y + e, y, y + e + f, method="gcm", repetitions=100)
    >>> found.trust, found.p_values.shape, int(found.counts.sum())
    ('good', (100,), 100)
    """
    repetitions, bins = _whole(repetitions, "repetitions", _LEAST_REPETITIONS), _whole(bins, "bins", 1)
    problem = _Problem(x, y, z, **options)
    p_values, counts, summary = np.empty(repetitions), np.zeros(bins, dtype=np.int64), _native.Calibration()
    before = time.perf_counter()
    problem.call("circe_test_calibrate", repetitions, p_values.ctypes.data)
    library, alpha = _native.library(), problem.options.alpha
    _native.check(library.circe_calibration_summary(p_values.ctypes.data, repetitions, alpha, bins, counts.ctypes.data,
                                                    ctypes.byref(summary)))
    return _record(summary, Calibration, method=library.circe_test_method_name(problem.options.method).decode(), alpha=alpha,
                   repetitions=repetitions, rows=problem.rows, trust=_trust(summary.trust), verdict=summary.verdict.decode(),
                   counts=counts, p_values=p_values, seconds=time.perf_counter() - before)


def effects(x, y, z, *, draws: int = 200, along: Optional[int] = 0, points: int = 9, seed: int = 0,
            kernel_x: Optional[KernelLike] = None, kernel_y: Optional[KernelLike] = None,
            kernel_z: Optional[KernelLike] = None, weights=None, width: Grid = None, ridge: Grid = None,
            transform: str = "none", missing: str = "refuse") -> Effects:
    """How much does x depend on z given y, and where? Returns KPC and a normalised CIRCE, both in [0, 1], with 95 % intervals
    from `draws` half-samples, and CIRCE at `points` quantiles of the column `along` of y (None: leave this out).

    >>> import numpy as np
    >>> y, e, f = np.random.default_rng(0).normal(size=(3, 300))
    >>> found = effects(y + e, y, y + 2 * e + f)
    >>> found.kpc.lower > found.kpc.chance, found.along.place.shape
    (True, (9,))
    """
    draws, points = _whole(draws, "draws", _LEAST_REPETITIONS), _whole(points, "points", 1)
    problem = _Problem(x, y, z, seed=seed, kernel_x=kernel_x, kernel_y=kernel_y, kernel_z=kernel_z, weights=weights,
                       width=width, ridge=ridge, transform=transform, missing=missing)
    found = _native.Effects()
    column = None if along is None or problem.mat_y is None else _whole(along, "along", 0)
    problem.call("circe_test_effects", draws, ctypes.byref(found))  # first, because it reports what is wrong with the data
    where = None if column is None else _along(problem, column, points)
    return _record(found, Effects, kpc=_record(found.kpc, Effect), circe=_record(found.circe, Effect), along=where)


def _along(problem: _Problem, column: int, points: int) -> Along:
    table = np.empty((5, points))
    problem.call("circe_test_along", column, points, *(row.ctypes.data for row in table), subject="along")
    return Along(column, *table)
