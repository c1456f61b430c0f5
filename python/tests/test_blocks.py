"""Many rows: means over random blocks, random samples, and what is said of them."""

import numpy as np
import pytest

import circe


@pytest.fixture(scope="module")
def points():
    random = np.random.default_rng(3)
    y = random.normal(size=20000)
    z = y**2 + random.normal(size=20000)
    return z + random.normal(size=20000), y, z


@pytest.fixture(scope="module")
def mean(points):
    _, y, z = points
    return circe.ConditionalMean(sigma2_y=0.1, sigma2_z=2.0, ridge=1.0).fit(y[:2000], z[:2000])


def test_mean_of_the_blocks(points, mean):
    x, y, z = (part[2000:] for part in points)
    found = circe.blocks("circe", x, y, z, mean=mean, sigma2_x=3.0, block_rows=1000, blocks=18)
    whole = [circe.circe(x[i::18], y[i::18], z[i::18], mean, sigma2_x=3.0).value for i in range(18)]
    assert (found.blocks, found.block_rows, found.rows_given) == (18, 1000, 18000)
    assert abs(found.value - np.mean(whole)) < 5 * found.standard_error  # the same rows in other blocks
    assert 0.3 < found.standard_error / (np.std(whole, ddof=1) / np.sqrt(18)) < 3
    assert float(found) == found.value and "blocks=18" in repr(found)


@pytest.mark.parametrize("name", ["hsic", "hscic", "gcm", "kci", "nocco", "kpc", "circe-spectral"])
def test_every_measure(points, mean, name):
    x, y, z = points
    more = {"mean": mean} if name == "circe-spectral" else {}
    found = circe.blocks(name, x, y, z, block_rows=300, blocks=3, seed=1, **more)
    assert found.blocks == 3 and np.isfinite(found.value) and found.standard_error > 0
    assert found.value == circe.blocks(name, x, y, z, block_rows=300, blocks=3, seed=1, **more).value
    assert found.value != circe.blocks(name, x, y, z, block_rows=300, blocks=3, seed=2, **more).value


def test_within_the_time(points):
    x, _, z = points
    found = circe.blocks("hsic", x, None, z, rows=10000, seconds=2.0)
    assert found.rows_given == 20000 and found.blocks * found.block_rows <= 10000 and found.blocks >= 2


def test_refusals(points):
    x, y, z = points
    with pytest.raises(circe.ArgumentError, match="no gradient"):
        circe.blocks("hsic", x, None, z, grad=True)
    with pytest.raises(circe.ShapeError, match="same number of rows"):
        circe.blocks("hsic", x, None, z[:-1])
    with pytest.raises(circe.ArgumentError, match="no measure 'hisc'"):
        circe.blocks("hisc", x, y, z)
    with pytest.raises(circe.ArgumentError, match="kernel"):
        circe.blocks("hsic", x, None, z, kernel_x="gausian")
    with pytest.raises(circe.ShapeError, match="2 blocks of 15000 rows need more"):
        circe.blocks("hsic", x, None, z, block_rows=15000)


def test_sample_of_a_test(points):
    x, y, z = points
    found = circe.test(x, y, z, method="gcm", rows=500, seed=4)
    assert found.n == 500 and found.p_value < 1e-9
    assert found.p_value == circe.test(x, y, z, method="gcm", rows=500, seed=4).p_value
    assert circe.test(x, y, z, method="gcm", rows=30000).n == 20000
    weights = np.ones(len(x))
    assert circe.test(x, y, z, method="gcm", rows=500, seed=4, weights=weights).p_value == pytest.approx(found.p_value)
    with pytest.raises(circe.ArgumentError, match="'all'"):
        circe.test(x, y, z, rows="some")


def test_long_tests_say_what_they_take():
    x, y, z = np.random.default_rng(0).normal(size=(3, 60000))
    with pytest.warns(circe.SampleWarning, match="random sample of 10000 of the 60000 rows"):
        found = circe.test(x, y, z, method="gcm", seconds=0.01)
    assert found.n == 10000
    assert found.p_value == circe.test(x, y, z, method="gcm", rows=10000).p_value
    assert circe.test(x, y, z, method="rcot", rows="all").n == 60000
