"""The conditional mean: its numbers against the formula, its life, scikit-learn's conventions."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import circe

from conftest import gaussian


def dense_residual_gram(p, sigma2_y, ridge, sigma2_z=1.0):
    """Algorithm 1 with solves, float64."""
    W = np.linalg.solve(gaussian(p.Y, p.Y, sigma2_y) + ridge * np.eye(len(p.Y)), gaussian(p.Y, p.y, sigma2_y)).T
    cross = W @ gaussian(p.Z, p.z, sigma2_z)
    return gaussian(p.z, p.z, sigma2_z) - cross - cross.T + W @ gaussian(p.Z, p.Z, sigma2_z) @ W.T


@pytest.mark.parametrize("method", ["lowrank", "dense"])
def test_against_the_formula(points, method):
    mean = circe.ConditionalMean(sigma2_y=0.5, sigma2_z=1.0, ridge=0.1, method=method).fit(points.Y, points.Z)
    expected = dense_residual_gram(points, 0.5, 0.1)
    np.testing.assert_allclose(mean.residual_gram(points.y, points.z), expected, atol=1e-7)
    features = mean.residual_features(points.y, points.z)
    np.testing.assert_allclose(features.zeta @ features.zeta.T, expected, atol=1e-7)
    assert (mean.method_, mean.ridge_, mean.sigma2_y_) == (method, 0.1, 0.5)


def test_leave_one_out_is_the_formula(points):
    mean = circe.ConditionalMean(sigma2_y=[1.0, 0.1], sigma2_z=1.0, ridge=[0.1, 1.0, 10.0]).fit(points.Y, points.Z)
    K_z = gaussian(points.Z, points.Z, 1.0)
    for i, sigma2 in enumerate(mean.loo_.sigma2_y):
        K = gaussian(points.Y, points.Y, sigma2)
        for j, ridge in enumerate(mean.loo_.ridge):
            A = np.linalg.solve(K + ridge * np.eye(len(K)), K).T
            AK = A @ K_z
            squares = np.diag(K_z) - 2 * np.diag(AK) + (AK * A).sum(1)
            assert mean.loo_.error[i, j] == pytest.approx((squares / (1 - np.diag(A)) ** 2).mean(), rel=1e-6)
    best = np.unravel_index(mean.loo_.error.argmin(), mean.loo_.error.shape)
    assert (mean.sigma2_y_, mean.ridge_) == (mean.loo_.sigma2_y[best[0]], mean.loo_.ridge[best[1]])
    assert mean.loo_error_ == mean.loo_.error.min()


def test_attributes(mean, points):
    assert mean.n_rows_ == 500 and mean.n_columns_y_ == mean.n_columns_z_ == 1
    assert 0 < mean.rank_y_ < 500 and 0 < mean.rank_z_ < 500
    assert mean.kernel_z_ == "gaussian(1)" and mean.kernel_y_.startswith("gaussian(")
    assert mean.seconds_ > 0 and isinstance(mean.warnings_, list)


def test_files(mean, points, tmp_path):
    path = tmp_path / "mean.safetensors"
    mean.save(path)
    loaded = circe.ConditionalMean.load(path)
    expected = circe.circe(points.x, points.y, points.z, mean, sigma2_x=1.0).value
    assert circe.circe(points.x, points.y, points.z, loaded, sigma2_x=1.0).value == expected
    assert (loaded.kernel_y_, loaded.ridge_, loaded.rank_z_) == (mean.kernel_y_, mean.ridge_, mean.rank_z_)
    loaded.fit(points.Y, points.Z)  # its parameters say what it is
    assert loaded.ridge_ == mean.ridge_ and loaded.kernel_y_ == mean.kernel_y_
    with pytest.raises(circe.FileError, match="nowhere"):
        circe.ConditionalMean.load(tmp_path / "nowhere")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(circe.FormatError):
        circe.ConditionalMean.load(path)
    with pytest.raises(circe.FileError):
        mean.save(tmp_path / "no" / "folder")


def test_pickle_and_copies(mean, points):
    expected = circe.circe(points.x, points.y, points.z, mean, sigma2_x=1.0).value
    for other in (pickle.loads(pickle.dumps(mean)), copy.copy(mean), copy.deepcopy(mean)):
        assert circe.circe(points.x, points.y, points.z, other, sigma2_x=1.0).value == expected
        assert other.get_params() == mean.get_params() and other.ridge_ == mean.ridge_
    unfitted = pickle.loads(pickle.dumps(circe.ConditionalMean(ridge=0.5)))
    assert unfitted.ridge == 0.5


def test_scikit_learn_conventions(mean):
    sklearn = pytest.importorskip("sklearn.base")
    clone = sklearn.clone(mean)
    assert clone.get_params() == mean.get_params() and not hasattr(clone, "ridge_")
    clone.set_params(ridge=3.0, kernel_y="laplace")
    assert (clone.ridge, clone.kernel_y) == (3.0, "laplace")
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(mean)
    with pytest.raises(NotFittedError):
        check_is_fitted(clone)


def test_parameters():
    mean = circe.ConditionalMean(ridge=[1.0, 2.0], seed=3)
    assert list(mean.get_params()) == list(mean._PARAMETERS)
    assert repr(mean) == "ConditionalMean(ridge=[1.0, 2.0], seed=3)"
    with pytest.raises(circe.ArgumentError, match="no parameter 'rigde'"):
        mean.set_params(rigde=1)


@pytest.mark.parametrize("options,text", [
    ({"ridge": -1.0}, "ridge is -1.0"), ({"ridge": []}, "ridge is empty"), ({"sigma2_y": 0}, "sigma2_y is 0"),
    ({"method": "fast"}, "method is 'fast'; it must be one of auto"), ({"seed": -1}, "seed is -1"),
    ({"seed": 1.5}, "seed is 1.5"), ({"tolerance": 0}, "tolerance is 0"), ({"max_rank": 0}, "max_rank is 0"),
    ({"sigma2_y": "mode"}, "sigma2_y is 'mode'"), ({"kernel_y": "gaussian(1)", "sigma2_y": [1, 2]}, "sigma2_y is"),
    ({"kernel_z": "gaussian", "sigma2_z": None}, "kernel_z 'gaussian' has no width"), ({"kernel_y": "("}, "kernel_y '\\('"),
    ({"rff_batch": -1}, "rff_batch is -1"), ({"ridge": ["a"]}, "ridge is 'a'")])
def test_refused(points, options, text):
    with pytest.raises(circe.ArgumentError, match=text):
        circe.ConditionalMean(**options).fit(points.Y, points.Z)


def test_rows_must_agree(points):
    with pytest.raises(circe.ShapeError, match="y has 500 rows and z has 499"):
        circe.ConditionalMean().fit(points.Y, points.Z[1:])


def test_not_fitted_and_closed(points):
    mean = circe.ConditionalMean(sigma2_z=1.0)
    for ask in (lambda: mean.residual_features(points.y, points.z), lambda: mean.save("x"), lambda: mean.close(),
                lambda: circe.circe(points.x, points.y, points.z, mean)):
        with pytest.raises(circe.NotFittedError, match="not fitted"):
            ask()
    features = mean.fit(points.Y, points.Z).residual_features(points.y, points.z)
    zeta = features.zeta
    features.close()
    with pytest.raises(circe.ClosedError, match="closed"):
        features.zeta
    with pytest.raises(circe.ClosedError, match="closed"):
        features.measure(points.x)
    assert np.isfinite(zeta).all()  # an array in use keeps its memory
    mean.close()
    with pytest.raises(circe.ClosedError, match="closed"):
        circe.circe(points.x, points.y, points.z, mean)
    mean.fit(points.Y, points.Z)
    assert circe.circe(points.x, points.y, points.z, mean).value > 0


def test_residual_features(mean, points):
    features = mean.residual_features(points.y, points.z, dtype="float32")
    assert features.zeta.dtype == np.float32 and len(features) == 160 and not features.zeta.flags.writeable
    np.testing.assert_allclose(features.y, points.y, rtol=1e-6)
    y, zeta = features.gather([3, 1])
    np.testing.assert_array_equal(zeta, features.zeta[[3, 1]])
    np.testing.assert_array_equal(np.asarray(features), features.zeta)
    rows = np.arange(150)[::-3]
    expected = circe.circe(points.x[rows], points.y[rows], points.z[rows], mean, sigma2_x=1.0, grad=True)
    measured = features.measure(points.x[rows], rows, sigma2_x=1.0, grad=True)
    assert measured.value == pytest.approx(expected.value, rel=1e-4)
    np.testing.assert_allclose(measured.grad, expected.grad, rtol=1e-3, atol=1e-7)
    for index, error, text in (([160], circe.ArgumentError, "index .* 160 rows"), ([-1], circe.ArgumentError, "index"),
                               ([0.5], circe.DTypeError, "index has dtype"), ([], circe.ShapeError, "index is empty"),
                               ([[0]], circe.ShapeError, "index has 2 dimensions")):
        with pytest.raises(error, match=text):
            features.measure(points.x[:1], index)
    with pytest.raises(circe.ShapeError, match="x has 2 rows and index 1"):
        features.measure(points.x[:2], [0])
    with pytest.raises(circe.DTypeError, match="dtype is int64"):
        mean.residual_features(points.y, points.z, dtype=np.int64)
    again = pickle.loads(pickle.dumps(features)).measure(points.x[rows], rows, sigma2_x=1.0)
    assert again.value == measured.value


def test_predict_is_the_mean_of_z(points):
    mean = circe.ConditionalMean(kernel_z="linear", sigma2_y=0.5, ridge=0.1).fit(points.Y, points.Z)
    K = gaussian(points.Y, points.Y, 0.5) + 0.1 * np.eye(500)
    expected = gaussian(points.y, points.Y, 0.5) @ np.linalg.solve(K, points.Z)
    np.testing.assert_allclose(mean.predict(points.y), expected, atol=1e-6)
    with pytest.raises(circe.CirceError):
        circe.ConditionalMean(sigma2_z=1.0).fit(points.Y, points.Z).predict(points.y)


def test_random_features(points):
    mean = circe.ConditionalMean(sigma2_y=0.5, sigma2_z=1.0, ridge=0.1, method="rff", rff_features=64, seed=1)
    mean.fit(points.Y, points.Z)
    values = []
    for step in (0, 1, 0):
        mean.rff_step(step)
        values.append(circe.circe(points.x, points.y, points.z, mean, sigma2_x=1.0).value)
    assert values[0] == values[2]
    with pytest.raises(circe.UnsupportedError, match="rff"):
        mean.residual_features(points.y, points.z)
    with pytest.raises(circe.ArgumentError, match="step is -1"):
        mean.rff_step(-1)


def test_warnings_are_python_warnings(points):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mean = circe.ConditionalMean(sigma2_y=0.5, sigma2_z=1.0, ridge=1e-300).fit(points.Y, points.Z)
    assert mean.ridge_raised_ and [str(w.message) for w in caught] == mean.warnings_
    assert caught[0].category is circe.FitWarning and caught[0].filename == __file__


def test_the_units_of_y_do_not_count(points):
    """Without widths they are multiples of the median; a grid that ends too soon is told."""
    y, z = points.y[:, 0], points.z
    own = circe.ConditionalMean().fit(y, z)
    for factor in (100.0, 1e-3):
        other = circe.ConditionalMean().fit(factor * y, z)
        assert other.loo_error_ == pytest.approx(own.loo_error_, rel=1e-6)
        assert other.sigma2_y_ == pytest.approx(factor**2 * own.sigma2_y_, rel=1e-7)
    with pytest.warns(circe.FitWarning, match="chose the largest width tried for y"):
        circe.ConditionalMean(sigma2_y=[1.0, 0.1, 0.01]).fit(100.0 * y, z)
