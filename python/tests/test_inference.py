"""p-values: those of the command, refusals, and causal-learn's object."""

import numpy as np
import pytest

import circe
from circe import _command, _native

pytestmark = pytest.mark.skipif(not hasattr(_native.library()._dll, "circe_test"), reason="a library without tests")


@pytest.fixture(scope="module")
def chain():
    """x -> y -> z, and e that x and z share beside y."""
    random = np.random.default_rng(0)
    x, e, f, g = random.normal(size=(4, 250))
    y = np.sin(x) + 0.5 * e
    z = y + 0.5 * f
    return x, y, z, z + 0.7 * x + 0.1 * g


@pytest.mark.parametrize("method", ["kci", "circe", "splitkci", "gcm", "rcot"])
def test_methods(chain, method):
    """What the p-values are worth is tested in C; here, that they arrive."""
    x, y, z, w = chain
    try:
        independent, dependent = (circe.test(x, y, other, method=method, seed=1) for other in (z, w))
    except circe.UnsupportedError as error:
        pytest.skip(str(error))
    assert 0 < dependent.p_value <= 1 and 0 < independent.p_value <= 1
    if method in ("kci", "circe", "gcm"):
        assert dependent.p_value < 0.05 < independent.p_value
    assert float(dependent) == dependent.p_value and dependent.method == method and dependent.n == 250
    assert dependent.trust in ("good", "doubtful", "poor") and dependent.verdict


def test_marginal(chain):
    x, y, z, _ = chain
    assert circe.test(x, None, z, method="hsic").p_value < 0.01
    assert circe.test(x, None, np.random.default_rng(5).normal(size=250), method="hsic").p_value > 0.01
    assert circe.test(x, None, z).x is None or circe.test(x, None, z).p_value < 0.01


def test_options(chain):
    x, y, z, w = chain
    result = circe.test(x, y, w, method="circe", null="wild", draws=200, seed=3, alpha=0.01, checks=False, ridge=[0.1, 1.0],
                        kernel_x="gaussian(1)", kernel_z="gaussian", weights=np.ones(250), auxiliary=(y[:50], z[:50]))
    assert result.draws == 200 and result.null == "wild" and "gaussian(1)" in result.kernel_x
    assert result == circe.test(x, y, w, method="circe", null="wild", draws=200, seed=3, alpha=0.01, checks=False,
                                ridge=[0.1, 1.0], kernel_x="gaussian(1)", kernel_z="gaussian", weights=np.ones(250),
                                auxiliary=(y[:50], z[:50])) or result.seconds > 0


@pytest.mark.parametrize("options,text", [
    ({"method": "magic"}, "magic"), ({"null": "magic"}, "magic"), ({"method": 3}, "method is 3"), ({"alpha": -1}, "alpha is -1"),
    ({"draws": 0}, "draws is 0"), ({"mean": "all"}, "mean is 'all'"), ({"regression": "cubic"}, "regression is 'cubic'"),
    ({"weights": np.ones(3)}, "weights has 3"), ({"weights": -np.ones(250)}, "weight"), ({"seed": -1}, "seed is -1"),
    ({"kernel_x": "gauss"}, "kernel_x 'gauss'"), ({"ridge": 0}, "ridge is 0"), ({"features": (0, 1, 1)}, "features is 0")])
def test_refused(chain, options, text):
    x, y, z, _ = chain
    with pytest.raises(circe.CirceError, match=text):
        circe.test(x, y, z, **options)


def test_data_refused(chain):
    x, y, z, _ = chain
    with pytest.raises(circe.DataError, match="z holds a NaN at row 1"):
        circe.test(x[:20], y[:20], [0, np.nan, *range(18)])
    with pytest.raises(circe.ShapeError):
        circe.test(x, y[:-1], z)
    with pytest.raises(circe.CirceError, match="8"):
        circe.test(x[:4], y[:4], z[:4])


def test_causal_learn(chain):
    """PC finds the chain x - y - z."""
    pytest.importorskip("causallearn")
    import circe.causallearn as bridge
    from causallearn.search.ConstraintBased.PC import pc

    x, y, z, _ = chain
    data = np.stack([x, y, z], axis=1)
    tested = bridge.CirceTest(data)
    assert tested(0, 2, [1]) == circe.test(x, y, z, checks=False).p_value > 0.05
    assert tested(0, 2) == tested(2, 0) < 0.05
    graph = pc(data, 0.05, indep_test="circe", show_progress=False).G.graph
    assert graph[0, 1] != 0 and graph[1, 2] != 0 and graph[0, 2] == 0
