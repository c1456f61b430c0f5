"""InvariantRegressor: scikit-learn's own checks, invariance, errors."""

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")

import circe
from circe.sklearn import InvariantRegressor

QUICK = {"epochs": 30, "learning_rate": 0.01, "batch_size": 32, "threads": 1}
FEW = "at least 10 rows are set aside for the report, so fewer than 20 rows are refused"
EXPECTED = {"check_n_features_in_after_fitting": FEW, "check_estimators_nan_inf": FEW, "check_regressor_multioutput": FEW,
            "check_regressors_no_decision_function": FEW, "check_fit2d_1feature": FEW,
            "check_methods_sample_order_invariance": "the network works in float32"}


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks():
    from sklearn.utils import estimator_checks

    try:
        estimator_checks.check_estimator(InvariantRegressor(**QUICK), expected_failed_checks=EXPECTED)
    except TypeError:
        pytest.skip("scikit-learn before 1.6 takes no list of checks that do not apply")


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    y = random.normal(size=1500)
    z = y**2 + random.normal(size=1500)
    return np.stack([y, z], axis=1), z + np.sin(y), y, z


def test_invariance_is_bought(table):
    X, b, y, z = table
    plain = InvariantRegressor(epochs=20, threads=1).fit(X, b)
    fair = InvariantRegressor(1000.0, epochs=60, threads=1).fit(X, b, given=y, invariant_to=z)
    moved = X + [0.0, 1.0]
    shift = {model: np.abs(model.predict(moved) - model.predict(X)).mean() for model in (plain, fair)}
    assert shift[fair] < 0.5 * shift[plain] and plain.score(X, b) > fair.score(X, b)
    assert fair.floor_ > 0 and fair.measures_["circe"]["after"] < fair.measures_["circe"]["target"]
    assert fair.n_iter_ == 60 and plain.floor_ is None
    again = pickle.loads(pickle.dumps(fair))
    np.testing.assert_array_equal(again.predict(X[:5]), fair.predict(X[:5]))


def test_the_file_is_the_commands(table, tmp_path):
    from circe import _command

    X, b, y, z = table
    model = InvariantRegressor(10.0, epochs=1, threads=1).fit(X, b, given=y, invariant_to=z)
    model.save(tmp_path / "m.safetensors")
    np.savez(tmp_path / "t.npz", X=X[:7])
    _command.run(["predict", "--model", str(tmp_path / "m.safetensors"), "--data", str(tmp_path / "t.npz"), "-o",
                  str(tmp_path / "o.npy")])
    np.testing.assert_array_equal(np.load(tmp_path / "o.npy").ravel(), model.predict(X[:7]))


def test_refused(table):
    X, b, y, z = table
    for options, fit, text in (
            ({"net": "3y64"}, {}, "3y64"), ({"regularizer": "magic"}, {"invariant_to": z}, "magic"),
            ({"gamma": -1.0}, {"invariant_to": z}, "gamma"), ({}, {"given": y[:-1]}, "given has 1499 rows and X has 1500"),
            ({}, {"invariant_to": np.where(z > 3, np.nan, z)}, "invariant_to|NaN")):
        with pytest.raises(ValueError, match=text) as caught:
            InvariantRegressor(epochs=1, **options).fit(X, b, **fit)
        assert "/tmp" not in str(caught.value)
    with pytest.raises(circe.CommandError, match="at least 10"):
        InvariantRegressor().fit(X[:12], b[:12])
