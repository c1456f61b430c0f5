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


def test_device(chain):
    """tests/inference/test_gpu_inference.c compares numbers; here: a GPU is used, or asked for in vain and not replaced."""
    x, y, z, _ = chain
    many = np.random.default_rng(1).normal(size=(3, 9000))
    assert circe.test(x, y, z, device="auto").p_value == circe.test(x, y, z, device="cpu").p_value
    try:
        found = circe.test(*many, device="cuda")
    except circe.UnsupportedError as error:
        assert "CUDA" in str(error) or "GPU" in str(error)
        return
    plain = circe.test(*many)
    assert found.on_device and not plain.on_device
    assert found.p_value == pytest.approx(plain.p_value, rel=1e-6)
    torch = pytest.importorskip("torch")
    tensors = [torch.as_tensor(column).cuda() for column in many]
    assert circe.test(*tensors).p_value == found.p_value
    with pytest.raises(circe.UnsupportedError, match="hsic runs on the CPU only"):
        circe.test(*tensors, method="hsic")


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
    ({"draws": 0}, "draws is 0"), ({"mean": "all"}, "mean is 'all'"), ({"regressor": "cubic"}, "regressor is 'cubic'"),
    ({"weights": np.ones(3)}, "weights has 3"), ({"weights": -np.ones(250)}, "weight"), ({"seed": -1}, "seed is -1"),
    ({"kernel_x": "gauss"}, "kernel_x 'gauss'"), ({"ridge": 0}, "ridge is 0"), ({"features": (0, 1, 1)}, "features is 0")])
def test_refused(chain, options, text):
    x, y, z, _ = chain
    with pytest.raises(circe.CirceError, match=text):
        circe.test(x, y, z, **options)


def test_data_refused(chain):
    x, y, z, _ = chain
    with pytest.raises(circe.DataError, match="z contains a NaN at row 1"):
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
    ("gcm", {"regressor": "linear"}), ("rcot", {"kernel_z": "laplace"}), ("hsic", {"draws": 300})])
def test_p_values_are_the_commands(one_thread, chain, tmp_path, method, options):
    x, y, _, w = chain
    given = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    said = said_by_the_command((x, y, w), tmp_path, method, *given)
    found = circe.test(x, y, w, method=method, **options)
    flat = {**said, **said["diagnostics"]}
    flat["on_device"] = flat.pop("device") != "cpu"
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
    with pytest.raises(circe.DataError, match="^z contains a NaN"):
        circe.effects(x, x, np.full(50, np.nan))


@pytest.mark.parametrize("function,options,error,text", [
    ("calibrate", {"repetitions": 0}, circe.ArgumentError, "repetitions is 0; .* at least 20"),
    ("calibrate", {"repetitions": 30.0}, circe.ArgumentError, "repetitions is 30.0"),
    ("calibrate", {"bins": 0}, circe.ArgumentError, "bins is 0"), ("calibrate", {"method": "magic"}, circe.ArgumentError, "magic"),
    ("calibrate", {"alpha": 2.0}, circe.ArgumentError, "alpha is 2"), ("calibrate", {"drws": 3}, TypeError, "drws"),
    ("test", {"device": "tpu"}, circe.ArgumentError, "device is 'tpu'; it must be 'cpu', 'cuda'"),
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
    with pytest.raises(circe.DataError, match="x contains a NaN at row 1"):
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
    assert bent.p_value < 0.01 and bent.trust == "poor" and "still depend on y" in bent.verdict
    forest = circe.test(y**2 + 0.3 * e, y, y**2 + 0.3 * g, method="gcm", regressor="forest")
    assert forest.p_value > 0.01 and forest.x["basis"] == "forest" and forest.x["remaining"] < 0.3
    for options, word in (({"method": "kci", "regressor": Least()}, "gcm"), ({"method": "kci", "regressor": "forest"}, "gcm"), ({"method": "gcm", "regressor": 3}, "fit and predict"),
                          ({"method": "gcm", "regressor": Least(), "folds": 1}, "folds")):
        with pytest.raises(circe.errors.CirceError, match=word):
            circe.test(y + e, y, f, **options)


def test_weighted_and_projected():
    y, e, f, s = np.random.default_rng(4).normal(size=(4, 400))
    changing = np.sin(3 * y)
    z = y + changing * e + np.sqrt(1 - changing**2) * f
    assert circe.test(y + e, y, z, method="wgcm").p_value < 0.01 < circe.test(y + e, y, f, method="wgcm").p_value
    assert circe.test(y + s**2, y, s, method="pcm").p_value < 0.01 < circe.test(y + s**2, y, f, method="pcm").p_value


def test_groups_and_time():
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(40), 6)
    a, b = rng.normal(size=(2, 40))
    y, e, f = rng.normal(size=(3, 240))
    x, z = y + a[groups] + 0.5 * e, y + b[groups] + 0.5 * f
    words = np.array([f"patient {g}" for g in groups])
    found = circe.test(x, y, z, method="gcm", groups=words)
    assert found.blocks == 40 and found.block_length == 0 and found.null == "multiplier"
    assert found.p_value == circe.test(x, y, z, method="gcm", groups=groups).p_value
    dates = np.datetime64("2024-01-01") + np.arange(240)
    timed = circe.test(x, y, z, method="gcm", time=dates, block=12)
    assert (timed.blocks, timed.block_length) == (20, 12)
    assert circe.test(x, y, z, method="gcm", time=np.arange(240), block=12).p_value == timed.p_value
    mixed = rng.permutation(240)
    for days in (dates[mixed], dates[mixed].astype(str), list(dates[mixed].astype(object))):  # their order, not that of rows
        assert circe.test(x[mixed], y[mixed], z[mixed], method="gcm", time=days, block=12).p_value == pytest.approx(
            timed.p_value, abs=1e-12)
    with pytest.raises(circe.errors.DataError, match="dates such as 2024-03-31, not 'patient"):
        circe.test(x, y, z, time=words)
    with pytest.raises(circe.errors.DTypeError, match="weights contains text"):
        circe.test(x, y, z, weights=words)
    with pytest.raises(circe.errors.CirceError, match="splitkci does not support groups"):
        circe.test(x, y, z, method="splitkci", groups=groups)
    with pytest.raises(circe.errors.ShapeError, match="groups has 3 numbers"):
        circe.test(x, y, z, groups=[1, 2, 3])
    holes = np.where(np.arange(240) == 5, np.nan, x)
    assert circe.test(holes, y, z, method="gcm", groups=groups, missing="drop").n == 239


def test_memory_changes_nothing():
    rng = np.random.default_rng(5)
    table = rng.normal(size=(200, 5)).cumsum(axis=1)
    table[:, 4] = table[:, 4] > 0
    memory, small = circe.TestMemory(), circe.TestMemory(1e5)
    for method in ("kci", "circe", "gcm", "rcot", "hsic"):
        for x, z, y in ((0, 1, [2]), (0, 3, [2]), (1, 3, [2]), (0, 1, [2, 4]), (1, 0, [2, 4]), (0, 2, [])):
            data = table[:, [x]], table[:, y] if y else None, table[:, [z]]
            plain = circe.test(*data, method=method)
            for kept in (memory, small):
                found = circe.test(*data, method=method, memory=kept)
                assert (found.p_value, found.statistic, found.verdict) == (plain.p_value, plain.statistic, plain.verdict)
                assert str(found.x) == str(plain.x) and str(found.z) == str(plain.z)
    with pytest.raises(TypeError, match="cannot be pickled"):
        memory.__reduce__()


def test_many():
    rng = np.random.default_rng(2)
    y, e, f = rng.normal(size=(3, 200))
    table = {"a": y + e, "b": y + f, "c": y, "word": np.where(e > 0, "up", "down")}
    found = circe.test_many(table, [("a", "b"), ("a", "b", "c"), ("word", "b", ["c"])], method="gcm")
    assert [answer.y for answer in found] == [None, "c", "c"] and len(found) == 3 and found.failed == 0
    assert found[1].p_value == pytest.approx(circe.test(y + e, y, y + f, method="gcm").p_value, abs=1e-12)
    assert found[0].p_holm >= found[0].p_bh >= found[0].p_value
    by_place = circe.test_many(np.stack([y + e, y + f, y], axis=1), [(0, 1), (0, 1, 2)], method="gcm")
    assert by_place[1].p_value == pytest.approx(found[1].p_value, abs=1e-12)
    for pairs, words in (([("a",)], r"question 0 is \('a',\)"), ([], "pairs is empty"), ([("a", "q")], "no column 'q'"),
                         ([("a", "b", "a")], "'a' is also in x"), ([([], "b")], "question 0, x: at least one column is needed"),
                         ([("a", None)], "question 0, z: at least one column is needed")):
        with pytest.raises(circe.errors.CirceError, match=words):
            circe.test_many(table, pairs)


def test_folds_of_groups():
    """A fit does not see rows of the group, or of the stretch of time, that it predicts."""

    class Means:
        def fit(self, y, target):
            self.seen = set(y[:, 0])
            return self

        def predict(self, y):
            assert not self.seen & set(y[:, 0])
            return np.zeros(len(y))

    rng = np.random.default_rng(4)
    x, z = rng.normal(size=(2, 120))
    groups = rng.permutation(np.repeat(np.arange(30), 4))
    assert 0 <= circe.test(x, groups.astype(float), z, method="gcm", regressor=Means(), groups=groups).p_value <= 1
    assert 0 <= circe.test(x, groups.astype(float), z, method="gcm", regressor=Means(), time=groups).p_value <= 1
    with pytest.raises(circe.errors.ArgumentError, match="folds is 5; it must be 2 to the number of groups, 4"):
        circe.test(x, groups.astype(float), z, method="gcm", regressor=Means(), groups=groups % 4)


def test_impute():
    rng = np.random.default_rng(8)
    y, e, f = rng.normal(size=(3, 200))
    x, z = y + e, y + 0.5 * e + f
    holes = np.where(rng.random(200) < 0.2, np.nan, x)
    found = circe.test(holes, y, z, method="gcm", missing="impute", imputations=6)
    assert found.imputations == 6 and found.n == 200 and found.p_value < 0.05 and "filled in 6 times" in found.verdict
    masked = circe.test(np.ma.masked_invalid(holes), y, z, method="gcm", missing="impute", imputations=6)
    assert masked.p_value == found.p_value
    words = np.where(np.isnan(holes), None, np.where(x > 0, "up", "down"))
    assert circe.test(words, y, z, method="gcm", missing="impute").n == 200
    assert circe.test(holes, y, z, method="gcm", missing="impute", rows=50).n == 50
    with pytest.raises(circe.errors.ArgumentError, match="must be one of refuse, drop, error, impute"):
        circe.test(x, y, z, missing="guess")
    with pytest.raises(circe.errors.ShapeError, match="x has 200 rows and y 199"):
        circe.test(holes, y[1:], z, missing="impute")
    with pytest.raises(circe.errors.DataError, match="column 0 of x has a value in only 0 of"):
        circe.test(np.full(200, np.nan), y, z, missing="impute")
    with pytest.raises(circe.errors.DataError, match="the group of row 3 is nan"):
        circe.test(holes, y, z, missing="impute", groups=np.where(np.arange(200) == 3, np.nan, np.arange(200) // 4))
