"""p-values, calibration and effect sizes: those of the command, refusals, and causal-learn's object."""

import dataclasses
import json
import math
import os
import signal
import threading
import time

import numpy as np
import pytest

import circe
from circe import _native

from conftest import run_command

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
    options = dict(method="circe", null="wild", draws=200, seed=3, alpha=0.01, checks=False, ridge=[0.1, 1.0],
                   kernel_x="gaussian(1)", kernel_z="gaussian", weights=np.ones(250), auxiliary=(y[:50], z[:50]))
    result, again, other = (circe.test(x, y, w, **{**options, **change}) for change in ({}, {}, {"seed": 4}))
    assert result.draws == 200 and result.null == "wild" and "gaussian(1)" in result.kernel_x and result.n_train == 50
    same_but_time = [dataclasses.replace(found, seconds=0.0) for found in (result, again, other)]
    assert repr(dataclasses.asdict(same_but_time[0])) == repr(dataclasses.asdict(same_but_time[1]))
    assert same_but_time[0] != same_but_time[2]


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


# ---- against the command ------------------------------------------------------------------------------------------------


def said_by_the_command(chain, folder, *arguments):
    """`circe test ... --json` on the same numbers."""
    files = []
    for name, values in zip("xyz", chain):
        np.save(folder / f"{name}.npy", values[:, None])
        files += [f"--{name}", str(folder / f"{name}.npy")]
    return json.loads(run_command("test", *arguments[:1], *files, *arguments[1:], "--threads", 1, "--json"))


@pytest.fixture
def one_thread():
    """As the command is run: sums that BLAS shares among threads differ in the last digit."""
    threads = circe.get_threads()
    circe.set_threads(1)
    yield
    circe.set_threads(threads)


def same(found, said):
    """To the last digit: the command writes 17."""
    if isinstance(said, dict):
        return all(same(found[name] if isinstance(found, dict) else getattr(found, name), said[name]) for name in said)
    if isinstance(said, list):
        return len(found) == len(said) and all(map(same, found, said))
    if said is None:
        return found is None or math.isnan(found)
    return found == said


@pytest.mark.parametrize("method,options", [
    ("kci", {}), ("kci", {"null": "spectral", "draws": 500}), ("circe", {"seed": 7}), ("splitkci", {"alpha": 0.1}),
    ("gcm", {"regression": "linear"}), ("rcot", {"kernel_z": "laplace"}), ("hsic", {"draws": 300})])
def test_p_values_are_the_commands(one_thread, chain, tmp_path, method, options):
    x, y, _, w = chain
    given = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    said = said_by_the_command((x, y, w), tmp_path, method, *given)
    found = circe.test(x, y, w, method=method, **options)
    flat = {**said, **said["diagnostics"]}
    names = {"regression_x": "x", "regression_z": "z"}
    compared = [name for name in flat if hasattr(found, names.get(name, name)) and name != "seconds"]
    assert len(compared) == len(dataclasses.fields(found)) - 1
    assert found.columns == tuple(flat.pop("columns")) == ()
    for name in compared:
        assert name == "columns" or same(getattr(found, names.get(name, name)), flat[name]), name


@pytest.mark.parametrize("method,options", [("gcm", {}), ("kci", {"alpha": 0.2, "seed": 5}), ("hsic", {"draws": 100})])
def test_calibration_is_the_commands(one_thread, chain, tmp_path, method, options):
    x, y, _, w = chain
    given = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    said = said_by_the_command((x[:120], y[:120], w[:120]), tmp_path, method, "--calibrate", "40", *given)["calibration"]
    found = circe.calibrate(x[:120], y[:120], w[:120], method=method, repetitions=40, **options)
    assert found.seconds > 0 and said.pop("seconds") > 0
    assert len(said) == len(dataclasses.fields(found)) - 2  # without method and seconds
    assert same(found, said)
    assert found.method == method and len(found.edges) == 21
    np.testing.assert_array_equal(np.histogram(found.p_values, bins=found.edges)[0], found.counts)


@pytest.mark.parametrize("options", [{}, {"seed": 3, "kernel_y": "laplace"}])
def test_effects_are_the_commands(one_thread, chain, tmp_path, options):
    x, y, _, w = chain
    given = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    said = said_by_the_command((x, y, w), tmp_path, "kci", "--effects", *given)
    found = circe.effects(x, y, w, **options)
    assert said["effects"].pop("seconds") > 0 and found.seconds > 0
    assert same(found, said["effects"])
    assert said["along"].pop("column") and same(found.along, said["along"]) and len(said["along"]) == 5
    assert found.kpc.lower > found.kpc.chance and float(found.kpc) == found.kpc.value
    assert found.along.above.any()


def test_effects_without_a_place(chain):
    x, y, z, _ = chain
    assert circe.effects(x, y, z, along=None, draws=20).along is None
    assert circe.effects(x, None, z, draws=20).along is None
    two = circe.effects(x, np.stack([y, x], 1), z, along=1, points=3, draws=20).along
    assert two.column == 1 and two.place.min() >= x.min() and len(two.place) == 3
    np.testing.assert_allclose(two.place[1], np.median(x), atol=0.2)


def test_what_results_look_like(chain):
    x, y, z, _ = chain
    result = circe.test(x, y, z)
    assert repr(result).startswith("TestResult(method='kci', p_value=0.") and result.pvalue == result.p_value
    assert "Calibration(level=0" in repr(circe.calibrate(x, y, z, method="gcm", repetitions=20))
    assert repr(circe.effects(x, y, z, draws=20)).startswith("Effects(kpc=Effect(value=0.")
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.p_value = 0.0


def test_effects_of_bad_data_name_them():
    x = np.linspace(0, 1, 50)
    with pytest.raises(circe.DataError, match="^z holds a NaN"):
        circe.effects(x, x, np.full(50, np.nan))


@pytest.mark.parametrize("function,options,error,text", [
    ("calibrate", {"repetitions": 0}, circe.ArgumentError, "repetitions is 0; .* at least 20"),
    ("calibrate", {"repetitions": 30.0}, circe.ArgumentError, "repetitions is 30.0"),
    ("calibrate", {"bins": 0}, circe.ArgumentError, "bins is 0"), ("calibrate", {"method": "magic"}, circe.ArgumentError, "magic"),
    ("calibrate", {"alpha": 2.0}, circe.ArgumentError, "alpha is 2"), ("calibrate", {"drws": 3}, TypeError, "drws"),
    ("calibrate", {"method": "kci", "null": "permutation"}, circe.UnsupportedError, "null permutation .* rows of equal y"),
    ("effects", {"draws": 3}, circe.ArgumentError, "draws is 3; .* at least 20"), ("effects", {"points": 0}, circe.ArgumentError, "points is 0"),
    ("effects", {"along": 1}, circe.ShapeError, "along: y has no column 1"), ("effects", {"along": "y"}, circe.ArgumentError, "along is 'y'"),
    ("effects", {"kernel_x": "gauss"}, circe.ArgumentError, "kernel_x 'gauss'"), ("effects", {"width": -1}, circe.ArgumentError, "width is -1"),
    ("effects", {"weights": np.ones(3)}, circe.ShapeError, "weights has 3"), ("effects", {"method": "kci"}, TypeError, "method"),
    ("test", {"auxiliary": 3}, circe.ArgumentError, r"auxiliary is 3; it must be a pair"),
    ("test", {"features": (1, 2)}, circe.ArgumentError, "features is a tuple of 2; it must be numbers")])
def test_arguments_refused(chain, function, options, error, text):
    x, y, z, _ = chain
    with pytest.raises(error, match=text):
        getattr(circe, function)(x, y, z, **options)


@pytest.mark.parametrize("function", ["calibrate", "effects"])
def test_more_data_refused(chain, function):
    x, y, z, _ = chain
    with pytest.raises(circe.DataError, match="x holds a NaN at row 1"):
        getattr(circe, function)([0, np.nan, *range(18)], y[:20], z[:20])
    with pytest.raises(circe.ShapeError, match="y"):
        getattr(circe, function)(x, y[:-1], z)


def test_interrupted(chain):
    """Ctrl-C ends a long call, is raised as ever, and leaves everything usable."""
    x, y, z, _ = chain
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    before = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        circe.calibrate(x, y, z, repetitions=10**6)
    assert time.perf_counter() - before < 20
    timer.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert circe.calibrate(x, y, z, method="gcm", repetitions=20).repetitions == 20


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


class Least:
    """Least squares with fit and predict, as scikit-learn's."""

    def fit(self, y, target):
        self.weights = np.linalg.lstsq(np.column_stack([np.ones(len(y)), y]), target, rcond=None)[0]
        return self

    def predict(self, y):
        return np.column_stack([np.ones(len(y)), y]) @ self.weights


def test_regressor():
    y, e, f, g = np.random.default_rng(3).normal(size=(4, 400))
    dependent = circe.test(y + e, y, 2 * y + 0.4 * e + f, method="gcm", regressor=Least())
    free = circe.test(y + e, y, 2 * y + f, method="gcm", regressor=(Least(), Least()), folds=3)
    assert dependent.p_value < 0.01 < free.p_value and "given y" in free.verdict
    assert free.x["basis"] == "Least" and 0.3 < free.x["remaining"] < 0.7 and free.trust == "good"
    bent = circe.test(y**2 + 0.3 * e, y, y**2 + 0.3 * g, method="gcm", regressor=Least())  # it cannot follow squares
    assert bent.p_value < 0.01 and bent.trust == "poor" and "still depends on y" in bent.verdict
    for options, word in (({"method": "kci", "regressor": Least()}, "gcm"), ({"method": "gcm", "regressor": 3}, "fit and predict"),
                          ({"method": "gcm", "regressor": Least(), "folds": 1}, "folds")):
        with pytest.raises(circe.errors.CirceError, match=word):
            circe.test(y + e, y, f, **options)


def test_weighted_and_projected():
    y, e, f, s = np.random.default_rng(4).normal(size=(4, 400))
    changing = np.sin(3 * y)
    z = y + changing * e + np.sqrt(1 - changing**2) * f
    assert circe.test(y + e, y, z, method="wgcm").p_value < 0.01 < circe.test(y + e, y, f, method="wgcm").p_value
    assert circe.test(y + s**2, y, s, method="pcm").p_value < 0.01 < circe.test(y + s**2, y, f, method="pcm").p_value
