"""An invariant predictor with scikit-learn's interface.

The network and its training are those of `circe train`; the command that comes with the package does the work, on files in a
temporary folder, and what it refuses is raised with its words.
"""

from __future__ import annotations

import os
import tempfile
from typing import Optional, Sequence, Union

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted

from . import _command, errors

_VALIDATION_ROWS = 10  # the least that an error is reported on


def _validated(estimator, X, **options):
    """X checked, with n_features_in_ and feature_names_in_ set or compared; scikit-learn 1.6 moved the function."""
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:
        return estimator._validate_data(X, **options)
    return validate_data(estimator, X, **options)


def _listed(value) -> str:
    return ",".join(repr(float(v)) for v in np.ravel(value))


class InvariantRegressor(RegressorMixin, BaseEstimator):
    """A network that predicts b from X, and whose prediction does not depend on `invariant_to` once `given` is known.

    Trains with loss + gamma * regularizer. What is paid is exactness: `floor_` estimates the error that no invariant
    predictor can go below.

    Parameters
    ----------
    gamma : weight of the regulariser; the larger, the more invariant and the less exact.
    regularizer : "circe", "hscic", "gcm" or "hsic".
    estimator : of circe ("biased", "debiased", "centered", "ustat") and of hsic ("biased", "ustat").
    batch_size : rows of a step; where fewer are left for training, all of those.
    net, activation, init, epochs, learning_rate, weight_decay, patience, sigma2_x, sigma2_y, sigma2_z, ridge, method
        As the options of `circe train`; None: the command's own.
    validation, holdout : shares of the rows for the report, and for learning the conditional mean. None: a tenth, and at
        least 10 rows for the report.
    random_state : a whole number; the same numbers give the same network.
    threads : None: all.

    Attributes after fit: report_ (all that `circe train --json` says), error_, measures_, floor_, n_iter_, model_ (the
    contents of the model's file), n_features_in_.

    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = random.normal(size=400)
    >>> z = y**2 + random.normal(size=400)
    >>> b = z + np.sin(y)
    >>> model = InvariantRegressor(gamma=100.0, epochs=2).fit(np.stack([y, z], axis=1), b, given=y, invariant_to=z)
    >>> model.predict([[0.1, 0.2], [0.3, 0.4]]).shape
    (2,)
    """

    def __init__(self, gamma: float = 1000.0, *, regularizer: str = "circe", estimator: Optional[str] = None,
                 net: Optional[str] = None, activation: Optional[str] = None, init: Optional[str] = None, epochs: int = 100,
                 batch_size: int = 256, learning_rate: float = 1e-3, weight_decay: float = 1e-2, patience: int = 0,
                 sigma2_x: Optional[float] = None, sigma2_y: Union[float, Sequence[float], None] = None,
                 sigma2_z: Union[float, str, None] = None, ridge: Union[float, Sequence[float], None] = None,
                 method: Optional[str] = None, validation: Optional[float] = None, holdout: Optional[float] = None,
                 random_state: int = 0, threads: Optional[int] = None):
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
        self.sigma2_x = sigma2_x
        self.sigma2_y = sigma2_y
        self.sigma2_z = sigma2_z
        self.ridge = ridge
        self.method = method
        self.validation = validation
        self.holdout = holdout
        self.random_state = random_state
        self.threads = threads

    def fit(self, X, y, *, given=None, invariant_to=None) -> "InvariantRegressor":
        """X (n, features); y (n,) or (n, targets): what is predicted. given (n, ...): dependence that runs through it is
        allowed; None: the target itself. invariant_to (n, ...): what the prediction must not depend on once `given` is
        known; None: nothing, a plain network."""
        if y is None:
            raise ValueError("This InvariantRegressor requires y to be passed, but the target y is None")
        X = _validated(self, X, dtype=np.float64, ensure_min_samples=2)
        target = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        arrays = {"X": X, "b": target.reshape(len(target), -1)}
        if given is not None:
            arrays["given"] = self._column("given", given)
        if invariant_to is not None:
            arrays["invariant"] = self._column("invariant_to", invariant_to)
        for name, array in arrays.items():
            if len(array) != len(X):
                raise errors.ShapeError(f"{'y' if name == 'b' else name} has {len(array)} rows and X has {len(X)}; they must "
                                        "be the same points")
        self._one_target = target.ndim == 1
        with tempfile.TemporaryDirectory(prefix="circe-") as folder:
            data, model = os.path.join(folder, "data.npz"), os.path.join(folder, "model.safetensors")
            np.savez(data, **arrays)
            self.report_ = _command.run(["train", "--data", data, "-o", model, *self._options(arrays)], folder)
            with open(model, "rb") as file:
                self.model_ = file.read()
        self.error_, self.measures_ = self.report_["error"], self.report_.get("measures", {})
        self.floor_, self.n_iter_ = self.report_.get("floor"), self.report_["epochs"]
        return self

    @staticmethod
    def _column(name: str, values) -> np.ndarray:
        array = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name)
        return array.reshape(len(array), -1)

    def _options(self, arrays: dict) -> list:
        options = ["--features", "X", "--target", "b", "--loss", "mse", "--quiet", "--no-report", "--checkpoint-minutes", "0"]
        if "given" in arrays:
            options += ["--given", "given"]
        if "invariant" in arrays:
            options += ["--invariant-to", "invariant", "--regularizer", str(self.regularizer), "--gamma",
                        repr(float(self.gamma))]
        else:
            options += ["--regularizer", "none"]
        validation = self.validation
        if validation is None:
            validation = min(0.5, max(0.1, (_VALIDATION_ROWS + 0.5) / len(arrays["X"])))
        n = len(arrays["X"])
        left = n - round(n * validation) - (round(n * (self.holdout or 0.1)) if "invariant" in arrays else 0)
        batch = max(1, min(self.batch_size, left - 1))
        options += ["--validation", repr(float(validation)), "--epochs", str(self.epochs), "--batch", str(batch),
                    "--lr", repr(float(self.learning_rate)), "--weight-decay", repr(float(self.weight_decay)), "--patience",
                    str(self.patience), "--seed", str(0 if self.random_state is None else self.random_state)]
        for name in ("estimator", "net", "activation", "init", "method", "threads", "holdout"):
            if getattr(self, name) is not None and (name != "estimator" or "invariant" in arrays):
                options += [f"--{name}", str(getattr(self, name))]
        for name in ("sigma2_x", "sigma2_y", "sigma2_z", "ridge"):
            value = getattr(self, name)
            if value is not None and "invariant" in arrays:
                options += [f"--{name.replace('_', '-')}", value if isinstance(value, str) else _listed(value)]
        return options

    def predict(self, X) -> np.ndarray:
        """(n,) for a target of one column that was given as (n,), else (n, targets)."""
        check_is_fitted(self, "model_")
        X = _validated(self, X, dtype=np.float64, reset=False)
        with tempfile.TemporaryDirectory(prefix="circe-") as folder:
            data, model = os.path.join(folder, "data.npz"), os.path.join(folder, "model.safetensors")
            out = os.path.join(folder, "out.npy")
            np.savez(data, X=X)
            with open(model, "wb") as file:
                file.write(self.model_)
            _command.run(["predict", "--model", model, "--data", data, "-o", out, "--quiet"], folder)
            predicted = np.load(out).astype(np.float64, copy=False)
        predicted = predicted.reshape(len(X), -1)
        return predicted[:, 0] if self._one_target else predicted

    def save(self, path) -> None:
        """The model as a file for `circe predict`, whose table then has the columns X:0, X:1, ... of an array X."""
        check_is_fitted(self, "model_")
        with open(path, "wb") as file:
            file.write(self.model_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.non_deterministic = False
        return tags

    def _more_tags(self):  # scikit-learn before 1.6
        return {"multioutput": True}
