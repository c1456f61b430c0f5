"""Invariant predictors with scikit-learn's interface. They train the network of circe.train, in this process."""

from __future__ import annotations

import math
import re
from numbers import Real
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted, column_or_1d

from . import _arrays, _columns, _jobs, _measures, _runtime, _tables, errors

_VALIDATION_ROWS = 10  # the fewest rows to report an error on
_OWN_NAMES = {"lr": "learning_rate", "batch": "batch_size", "seed": "random_state", "row_weights": "sample_weight"}  # of the options of circe.train
_OPTION = re.compile(r"(\w*)(.*)", re.DOTALL)  # with which the text of an error begins, and the rest


def _validated(estimator, X, **options):
    """Checks X, and sets or compares n_features_in_ and feature_names_in_; scikit-learn 1.6 moved the function."""
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:
        if options.pop("skip_check_array", False):
            estimator._check_feature_names(X, reset=options["reset"])
            return estimator._check_n_features(X, reset=options["reset"])
        return estimator._validate_data(X, **options)
    return validate_data(estimator, X, **options)


def _columns_of(values) -> Optional[Dict[Any, Any]]:
    """The columns of a frame that is not all numbers, by name; None: X is an array of numbers."""
    if not hasattr(values, "columns") or not hasattr(values, "__getitem__"):
        return None
    columns = list(_tables._columns_of(values))
    found = dict(columns)
    if len(found) < len(columns):
        raise errors.ArgumentError(f"two columns are called {next(n for n in found if sum(n == m for m, _ in columns) > 1)!r}; give "
                                   "each a name of its own")
    return None if all(map(_is_numbers, found.values())) else found


def _is_numbers(column) -> bool:
    if _arrays.is_arrow_column(column):
        return _arrays.arrow_numbers(column[:0]) is not None
    kind = column.dtype
    return (getattr(kind, "kind", "O") in "biuf" or getattr(kind, "_is_numeric", False)
            or str(kind).startswith(("Int", "UInt", "Float", "Boolean")))


def _numeric(values, name: str):
    """Refuses masked cells and dates: scikit-learn would take what is under a mask, and nanoseconds, as numbers."""
    if isinstance(values, np.ma.MaskedArray):
        _refuse_rows(np.ma.getmaskarray(values), name, "masked, which means missing")
        values = np.ma.getdata(values)
    kind = getattr(values, "dtype", getattr(values, "type", None))  # Arrow's columns have a type
    if str(kind).lower().startswith(("date", "time", "duration")):
        raise errors.DTypeError(f"{name} has dtype {kind}; it must contain numbers or texts")
    return values


def _complete(values, name: str):
    """Refuses missing cells, too, of what may be text. scikit-learn refuses those of numbers."""
    values = _numeric(values, name)
    if getattr(getattr(values, "dtype", None), "kind", "O") == "O" and not hasattr(values, "columns"):
        cells = np.asarray(values, dtype=object)
        missing = [not isinstance(cell, str) and _columns._is_missing(cell) for cell in cells.ravel()]
        _refuse_rows(np.reshape(missing, cells.shape), name, "missing")
    return values


def _refuse_rows(hidden: np.ndarray, name: str, what: str) -> None:
    if hidden.any():
        rows = hidden.reshape(len(hidden), -1).any(axis=1)
        raise errors.DataError(f"{name}: row {int(np.argmax(rows))} is {what} ({int(rows.sum())} of {len(rows)} rows are); leave such rows out")


def _is_text(values) -> bool:
    kind = getattr(values, "dtype", None)
    return getattr(kind, "kind", "O") in "OUS" if kind is not None else any(
        isinstance(cell, str) for cell in np.ravel(np.asarray(values, dtype=object)))


class _InvariantNetwork(BaseEstimator):
    """What both predictors share: parameters, the table that is trained on, prediction."""

    def __init__(self, gamma: Union[float, str] = "auto", *, regularizer: str = "circe", estimator: Optional[str] = None,
                 net: Optional[str] = None, activation: Optional[str] = None, init: Optional[str] = None, epochs: int = 100,
                 batch_size: Optional[int] = None, learning_rate: float = 1e-3, weight_decay: float = 1.0, patience: int = 0,
                 tolerance: Optional[float] = None, sweep: Union[str, Sequence[float], None] = None,
                 sigma2_x: Union[float, str, None] = None, normalize_x: Optional[str] = None,
                 sigma2_y: Union[float, Sequence[float], None] = None,
                 sigma2_z: Union[float, str, None] = None, ridge: Union[float, Sequence[float], None] = None,
                 method: Optional[str] = None, validation: Optional[float] = None, holdout: Optional[float] = None,
                 random_state: Any = 0, threads: Optional[int] = None, device: Optional[str] = None,
                 progress: Optional[Callable[[float, str], Any]] = None):
        self.gamma = gamma
        self.regularizer = regularizer
        self.estimator = estimator
        self.net = net
        self.activation = activation
        self.init = init
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.tolerance = tolerance
        self.sweep = sweep
        self.sigma2_x = sigma2_x
        self.normalize_x = normalize_x
        self.sigma2_y = sigma2_y
        self.sigma2_z = sigma2_z
        self.ridge = ridge
        self.method = method
        self.validation = validation
        self.holdout = holdout
        self.random_state = random_state
        self.threads = threads
        self.device = device
        self.progress = progress

    # ---- the table

    def _features(self, X, reset: bool) -> Dict[str, Any]:
        """The columns of X by name: those of a frame, or x0, x1, ..."""
        X = _numeric(X, "X")
        columns = _columns_of(X)
        if columns is None:
            X = _validated(self, X, dtype=np.float64, reset=reset, **({"ensure_min_samples": 2} if reset else {}))
            names = getattr(self, "feature_names_in_", [f"x{c}" for c in range(X.shape[1])])
            return {str(name): X[:, c] for c, name in enumerate(names)}
        _validated(self, X, reset=reset, skip_check_array=True)
        return {str(name): column for name, column in columns.items()}

    @staticmethod
    def _variable(values, name: str, taken: Dict[str, Any]) -> Dict[str, Any]:
        """The columns of `given` or `invariant_to`, under names that no feature has."""
        values = _complete(values, name)
        columns = _columns_of(values)
        if columns is not None:
            parts = list(columns.values())
        elif _arrays.is_arrow_column(values) or _arrays.is_categorical(getattr(values, "dtype", None)):
            parts = [values]
        elif _is_text(values):
            array = check_array(values, ensure_2d=False, dtype=None, input_name=name)
            parts = list(array.reshape(len(array), -1).T)
        else:
            array = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name)
            parts = list(array.reshape(len(array), -1).T)
        while any(f"{name}{c}" in taken for c in range(len(parts))):
            name += "_"
        return {f"{name}{c}": part for c, part in enumerate(parts)}

    def _fit(self, features: Dict[str, Any], target, task: str, sample_weight, given, invariant_to) -> None:
        table: Dict[str, Any] = dict(features)
        roles: Dict[str, List[str]] = {"features": list(features)}
        if sample_weight is not None:
            sample_weight = _check_sample_weight(_numeric(sample_weight, "sample_weight"), next(iter(features.values())), dtype=np.float64)
        for role, values in (("target", target), ("given", given), ("invariant_to", invariant_to),
                             ("row_weights", sample_weight)):
            if values is None:
                continue
            own = self._variable(values, _OWN_NAMES.get(role, role), table)
            rows, n = len(next(iter(own.values()))), len(next(iter(features.values())))
            if rows != n:
                raise errors.ShapeError(f"{'y' if role == 'target' else role} has {rows} rows and X has {n}; they must be the "
                                        "same points")
            table.update(own)
            roles[role] = list(own)
        try:
            with _runtime.threads_of(self.threads):
                trained = _jobs.train(table, task=task, progress=self.progress, **roles, **self._options(roles, rows))
        except errors.CirceError as error:
            name, rest = _OPTION.match(str(error)).groups()
            if name not in _OWN_NAMES:
                raise
            raise type(error)(_OWN_NAMES[name] + rest) from None
        self.predictor_, self.report_ = trained.predictor, trained.results
        self.error_, self.measures_ = trained.error, trained.measures
        self.gamma_, self.trials_ = trained.gamma, trained.trials
        self.floor_, self.n_iter_ = trained.floor, trained.epochs

    def _options(self, roles: Dict[str, List[str]], n: int) -> Dict[str, Any]:
        invariant = "invariant_to" in roles
        validation = self.validation
        if validation is None:
            validation = min(0.5, max(0.1, (_VALIDATION_ROWS + 0.5) / n))
        options: Dict[str, Any] = {
            "regularizer": self.regularizer if invariant else "none", "gamma": self.gamma if invariant else None,
            "validation": validation, "test": 0, "baseline": "none" if invariant else None, "holdout": self.holdout,
            "epochs": self.epochs, "batch": self._batch(n, validation, invariant),
            "lr": self.learning_rate, "weight_decay": self.weight_decay,
            "patience": self.patience, "seed": self._seed(), "net": self.net, "activation": self.activation,
            "init": self.init, "method": self.method, "device": self.device}
        if invariant:
            options.update({name: getattr(self, name) for name in ("estimator", "sigma2_x", "normalize_x", "sigma2_y", "sigma2_z", "ridge",
                                                                  "sweep", "tolerance")})
        return options

    def _batch(self, n: int, validation, invariant: bool):
        """batch_size, or all rows that are left for training if they are fewer; what is no number is refused by circe.train."""
        shares = [validation, (self.holdout or 0.0) if invariant else 0.0]
        if not all(isinstance(value, Real) and math.isfinite(value) for value in (self.batch_size, *shares)):
            return self.batch_size
        return min(self.batch_size, max(1, n - 1 - sum(round(n * share) for share in shares)))

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _values(self, X) -> np.ndarray:
        """(n, outputs)"""
        check_is_fitted(self, "predictor_")
        table = self._features(X, reset=False)
        with _runtime.threads_of(self.threads):
            found = _jobs.predictions_of(self.predictor_, table, {"device": self.device}, compare=False)
        return found.values

    def save(self, path) -> None:
        """Writes the model to a file for `circe predict` and circe.predict. Their tables need the columns of X by name, or
        x0, x1, ..."""
        check_is_fitted(self, "predictor_")
        self.predictor_.save(path)


def dependence_scorer(weight: float = 1.0, measure: str = "kpc", **options):
    """A scorer for GridSearchCV and similar tools: the estimator's own score minus `weight` times the remaining dependence of
    its prediction on `invariant_to` given `given`. circe.measure computes the dependence, by default kpc in [0, 1], with its
    options. By the score alone, the smallest gamma would always win. `given` and `invariant_to` are metadata of the score;
    this function calls set_score_request.

    >>> import numpy as np
    >>> y, e = np.random.default_rng(0).normal(size=(2, 400))
    >>> X, b = np.stack([y + e, e], axis=1), y
    >>> scorer = dependence_scorer()
    >>> loose = InvariantRegressor(1.0, epochs=20).fit(X, b, invariant_to=e)
    >>> strict = InvariantRegressor(1000.0, epochs=20).fit(X, b, invariant_to=e)
    >>> all(scorer(model, X, b, invariant_to=e) <= model.score(X, b) for model in (loose, strict))
    True
    """
    return _DependenceScorer(weight, measure, options)


class _DependenceScorer:
    def __init__(self, weight: float, measure: str, options: Dict[str, Any]):
        self.weight, self.measure, self.options = weight, measure, options

    def __call__(self, estimator, X, y, *, given=None, invariant_to=None) -> float:
        if invariant_to is None:
            raise errors.ArgumentError("invariant_to is missing; it is what the prediction must not depend on. In a search, pass "
                                       "it to fit, with scikit-learn's metadata routing enabled")
        _arrays.same_order(X=X, y=y, given=given, invariant_to=invariant_to)
        predicted = estimator.predict_proba(X) if hasattr(estimator, "predict_proba") else estimator.predict(X)
        left = _measures.measure(self.measure, predicted, y if given is None else given, invariant_to, **self.options)
        return float(estimator.score(X, y)) - self.weight * max(float(left), 0.0)

    def get_metadata_routing(self):
        """The metadata that scikit-learn should pass on."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        for name in ("given", "invariant_to"):
            request.score.add_request(param=name, alias=True)
        return request

    def __repr__(self) -> str:
        return f"dependence_scorer({self.weight!r}, {self.measure!r})"


_PARAMETERS = """
    Parameters
    ----------
    gamma : the weight of the regulariser; a larger one makes the predictor more invariant and less accurate. "auto":
        the smallest with which a test finds no dependence on rows left out of training. The search costs 5 to 50
        trainings.
    tolerance : for "auto", the largest accepted KPC: the share of the variation in the prediction, unexplained by
        `given`, that `invariant_to` may explain. None: a test must find no dependence.
    sweep : gammas, or "auto"; trials_ then has the error and the dependence of each.
    regularizer : "circe", "hscic", "gcm" or "hsic".
    estimator : the estimator of circe ("biased", "debiased", "centered", "ustat") or of hsic ("biased", "ustat").
    batch_size : rows per step; if fewer rows are left for training, all of them. None: 256, or a quarter of the training
        rows if they are fewer than 256.
    net, activation, init, epochs, learning_rate, weight_decay, patience, sigma2_x, normalize_x, sigma2_y, sigma2_z, ridge, method, device
        The options of circe.train; None: its defaults.
    validation : the share of the rows that monitor the training. None: a tenth, and at least 10 rows.
    holdout : the share of the rows kept to learn only the conditional mean. None: learn it from the training rows.
    random_state : a whole number; the same number gives the same network. None, or a RandomState: a different one every time.
    threads : the number of threads; None: that of circe.set_threads.
    progress : called with the finished share and a text; if it returns True, fit stops with a CancelledError.

    Attributes after fit: gamma_, trials_ (what a search or a sweep saw: one dictionary per gamma), report_ (what
    `circe train --json` says), error_ (on the validation rows), measures_, floor_, n_iter_, predictor_ (see
    circe.predict), n_features_in_.
"""


class InvariantRegressor(RegressorMixin, _InvariantNetwork):
    __doc__ = """A network that predicts b from X, and whose prediction does not depend on `invariant_to` once `given` is known.

    Trains with loss + gamma * regularizer. Invariance costs accuracy: no invariant predictor can have an error below
    the floor, which `floor_` estimates. X, given and invariant_to are arrays of numbers, or frames whose columns of text and categoricals
    are categories.
""" + _PARAMETERS + """
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = random.normal(size=400)
    >>> z = y**2 + random.normal(size=400)
    >>> b = z + np.sin(y)
    >>> model = InvariantRegressor(gamma=100.0, epochs=2).fit(np.stack([y, z], axis=1), b, given=y, invariant_to=z)
    >>> model.predict([[0.1, 0.2], [0.3, 0.4]]).shape
    (2,)
    """

    def fit(self, X, y, sample_weight=None, *, given=None, invariant_to=None) -> "InvariantRegressor":
        """X (n, features); y (n,) or (n, targets): the target. given (n, ...): dependence through it is allowed; None: the
        target itself. invariant_to (n, ...): the prediction must not depend on it once `given` is known; None: train a
        plain network. sample_weight (n,): what each row counts, at least 0, in the loss and the regulariser; None: the same."""
        if y is None:
            raise ValueError("This InvariantRegressor requires y to be passed, but the target y is None")
        _arrays.same_order(X=X, y=y, sample_weight=sample_weight, given=given, invariant_to=invariant_to)
        features = self._features(X, reset=True)
        target = check_array(_complete(y, "y"), ensure_2d=False, dtype=np.float64, input_name="y")
        self._one_target = target.ndim == 1
        self._fit(features, target, "regression", sample_weight, given, invariant_to)
        return self

    def predict(self, X) -> np.ndarray:
        """(n,) if the target was given as (n,), otherwise (n, targets)."""
        values = self._values(X)
        return values[:, 0] if self._one_target else values

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.non_deterministic = False
        return tags

    def _more_tags(self):  # scikit-learn before 1.6
        return {"multioutput": True}


class InvariantClassifier(ClassifierMixin, _InvariantNetwork):
    __doc__ = """A network that predicts the class of X, and whose probabilities do not depend on `invariant_to` once `given` is
    known. With the class itself given, which is the default, that is what equalised odds ask for.

    Trains with cross-entropy + gamma * regularizer. X, given and invariant_to are arrays of numbers, or frames whose columns of
    text and categoricals are categories; groups may be text.
""" + _PARAMETERS + """
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> group = random.choice(["a", "b"], size=400)
    >>> X = random.normal(size=(400, 2)) + (group == "a")[:, None]
    >>> label = np.where(X[:, 0] + random.normal(size=400) > 0.5, "yes", "no")
    >>> model = InvariantClassifier(gamma=100.0, epochs=2).fit(X, label, invariant_to=group)
    >>> model.classes_, model.predict_proba(X[:3]).shape
    (array(['no', 'yes'], dtype='<U3'), (3, 2))
    """

    def fit(self, X, y, sample_weight=None, *, given=None, invariant_to=None) -> "InvariantClassifier":
        """X (n, features); y (n,): classes. given (n, ...): dependence through it is allowed; None: the class itself.
        invariant_to (n, ...): the prediction must not depend on it once `given` is known; None: train a plain network.
        sample_weight (n,): what each row counts, at least 0, in the loss and the regulariser; None: the same."""
        if y is None:
            raise ValueError("This InvariantClassifier requires y to be passed, but the target y is None")
        _arrays.same_order(X=X, y=y, sample_weight=sample_weight, given=given, invariant_to=invariant_to)
        features = self._features(X, reset=True)
        y = column_or_1d(_complete(y, "y"), warn=True)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}; a classifier needs two or more")
        names = _class_names(self.classes_)
        self._fit(features, np.array(names, dtype=object)[codes], "classification", sample_weight, given, invariant_to)
        one_row = {name: column[:1] for name, column in features.items()}
        made = _jobs.predictions_of(self.predictor_, one_row, {}, compare=False).names
        self._order = [made.index(name) if name in made else -1 for name in names]
        return self

    def predict_proba(self, X) -> np.ndarray:
        """(n, classes), in the order of classes_."""
        values = self._values(X)
        found = np.zeros((len(values), len(self.classes_)))
        for c, place in enumerate(self._order):
            if place >= 0:
                found[:, c] = values[:, place]
        return found

    def decision_function(self, X) -> np.ndarray:
        """For two classes (n,), the log odds; for more (n, classes), the logs of the probabilities."""
        logs = np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))
        return logs[:, 1] - logs[:, 0] if len(self.classes_) == 2 else logs

    def predict(self, X) -> np.ndarray:
        """(n,): the most probable class."""
        places = self.predict_proba(X).argmax(axis=1)
        return self.classes_[places]


def _class_names(classes: np.ndarray) -> List[str]:
    """Words for classes that no table reads as numbers or as missing: the classes' own texts if possible."""
    texts = [str(c) for c in classes]
    words = all(isinstance(c, str) and c.strip() == c and not _columns._is_missing(c) and _columns.number_of(c) is None
                and not _columns.looks_like_number(c) for c in classes)
    return texts if words else [f"class {text}" for text in texts]
