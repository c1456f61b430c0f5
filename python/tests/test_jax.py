"""The losses for JAX: values and gradients of the library, under jit, grad, vmap and shard_map, by custom calls and through
Python."""

import os
import subprocess
import sys

import numpy as np
import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # what a GPU does is a test of its own
jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import circe  # noqa: E402
import circe.jax as losses  # noqa: E402
from circe import _runtime  # noqa: E402
from conftest import run_python  # noqa: E402

KERNELS = {"sigma2_x": 1.0, "sigma2_y": 0.5, "sigma2_z": 1.0, "ridge": 0.1}


@pytest.fixture(scope="module")
def cases(points, mean):
    """name: (the loss of x, the same in NumPy)."""
    y, z = points.y, points.z
    linear = circe.ConditionalMean(kernel_z="linear", sigma2_y=1.0).fit(points.Y, points.Z)
    return {
        "circe": (lambda x: losses.circe_loss(x, y, z, mean, sigma2_x=1.0),
                  lambda x: circe.circe(x, y, z, mean, sigma2_x=1.0, grad=True)),
        "ustat": (lambda x: losses.circe_loss(x, y, z, mean, kernel_x="laplace(2)", estimator="ustat"),
                  lambda x: circe.circe(x, y, z, mean, kernel_x="laplace(2)", sigma2_x=None, estimator="ustat", grad=True)),
        "median": (lambda x: losses.circe_loss(x, y, z, mean, estimator="centered"),
                   lambda x: circe.circe(x, y, z, mean, estimator="centered", grad=True)),
        "hsic": (lambda x: losses.hsic_loss(x, z, sigma2_x=1.0, sigma2_z=2.0, estimator="unbiased"),
                 lambda x: circe.hsic(x, z, sigma2_x=1.0, sigma2_z=2.0, estimator="unbiased", grad=True)),
        "hscic": (lambda x: losses.hscic_loss(x, y, z, **KERNELS), lambda x: circe.hscic(x, y, z, grad=True, **KERNELS)),
        "hscic holdout": (lambda x: losses.hscic_loss(x, y, z, mean=mean, sigma2_x=1.0),
                          lambda x: circe.hscic(x, y, z, mean=mean, sigma2_x=1.0, grad=True)),
        "gcm": (lambda x: losses.gcm_loss(x, y, z, sigma2_y=0.5, ridge=0.1),
                lambda x: circe.gcm(x, y, z, sigma2_y=0.5, ridge=0.1, combine="logsumexp", grad=True)),
        "gcm linear": (lambda x: losses.gcm_loss(x, y, z, regression="linear", combine="squares"),
                       lambda x: circe.gcm(x, y, z, regression="linear", combine="squares", grad=True)),
        "gcm holdout": (lambda x: losses.gcm_loss(x, y, z, mean=linear),
                        lambda x: circe.gcm(x, y, z, mean=linear, combine="logsumexp", grad=True)),
    }


NAMES = ["circe", "ustat", "median", "hsic", "hscic", "hscic holdout", "gcm", "gcm linear", "gcm holdout"]


def near(a, b, tolerance):
    assert np.max(np.abs(np.asarray(a, float) - np.asarray(b, float))) <= tolerance * (np.max(np.abs(np.asarray(b, float))) + 1e-12)


# ---- values -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_value_and_gradient(cases, points, name):
    loss, reference = cases[name]
    x = points.x.astype(np.float32)
    expected = reference(x)  # y and z are float64 there: rounding of float32 is what is left
    value, grad = jax.jit(jax.value_and_grad(loss))(x)
    assert value.dtype == jnp.float32 and value.shape == () and grad.shape == x.shape
    near(value, expected.value, 1e-4)
    near(grad, expected.grad, 1e-3)
    near(loss(x), expected.value, 1e-4)  # without jit, and without a gradient


def test_float64(points):
    out = run_python(f"""
import jax; jax.config.update("jax_enable_x64", True)
import numpy as np, circe, circe.jax, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from conftest import Points
p = Points()
mean = circe.ConditionalMean(sigma2_y=[1.0, 0.1], sigma2_z=1.0, method="lowrank").fit(p.Y, p.Z)
value, grad = jax.jit(jax.value_and_grad(lambda x: circe.jax.circe_loss(x, p.y, p.z, mean, sigma2_x=1.0)))(p.x)
known = circe.circe(p.x, p.y, p.z, mean, sigma2_x=1.0, grad=True)
assert value.dtype == grad.dtype == np.float64
print(abs(float(value) / known.value - 1) < 1e-12, np.allclose(grad, known.grad, rtol=1e-12, atol=0))""")
    assert out == "True True"


def test_half_precision_is_widened(points, mean):
    x = jnp.asarray(points.x, jnp.bfloat16)
    value, grad = jax.value_and_grad(lambda x: losses.circe_loss(x, points.y, points.z, mean, sigma2_x=1.0))(x)
    assert value.dtype == jnp.float32 and grad.dtype == jnp.bfloat16
    near(value, circe.circe(np.asarray(x, np.float32), points.y, points.z, mean, sigma2_x=1.0).value, 1e-4)


def test_rows_of_residual_features(points, mean):
    features = mean.residual_features(points.y, points.z, np.float32)
    index = np.array([5, 3, 90, 17, 44, 2, 8, 120])
    x = points.x[index].astype(np.float32)
    found = jax.jit(jax.value_and_grad(lambda x, i: losses.circe_loss(x, mean=features, index=i, sigma2_x=1.0)))(x, index)
    known = circe.circe_cached(features, x, index, sigma2_x=1.0, grad=True)
    near(found[0], known.value, 1e-6)
    near(found[1], known.grad, 1e-6)
    with pytest.raises(Exception, match="160"):  # rows, and not one more
        losses.circe_loss(x, mean=features, index=index + 100, sigma2_x=1.0).block_until_ready()
    with pytest.raises(circe.DTypeError, match="dtype=float32"):
        losses.circe_loss(x, mean=mean.residual_features(points.y, points.z, np.float64), index=index, sigma2_x=1.0)


# ---- transformations ----------------------------------------------------------------------------------------------------


def test_vmap_is_the_loop(cases, points):
    loss, _ = cases["circe"]
    stack = jnp.stack([points.x, 2 * points.x, -points.x]).astype(jnp.float32)
    near(jax.vmap(loss)(stack), [loss(x) for x in stack], 1e-6)
    near(jax.jit(jax.vmap(jax.grad(loss)))(stack), jnp.stack([jax.grad(loss)(x) for x in stack]), 1e-6)


def test_in_a_training_step(points, mean):
    """scan, and a network below the loss: dependence falls."""
    features = jnp.asarray(points.x, jnp.float32)

    def loss(weights):
        return losses.circe_loss(jnp.tanh(features @ weights), points.y, points.z, mean, sigma2_x=1.0)

    def step(weights, _):
        value, grad = jax.value_and_grad(loss)(weights)
        return weights - 5.0 * grad, value

    start = jnp.array([[1.0], [0.2]])
    _, values = jax.jit(lambda w: jax.lax.scan(step, w, None, length=60))(start)
    assert values[-1] < 0.5 * values[0]


def test_second_derivatives_and_gradients_in_y_are_refused(cases, points, mean):
    x = jnp.asarray(points.x[:20], jnp.float32)
    y, z = jnp.asarray(points.y[:20], jnp.float32), jnp.asarray(points.z[:20], jnp.float32)
    with pytest.raises(Exception, match="differentiat|JVP"):
        jax.hessian(lambda x: losses.circe_loss(x, y, z, mean, sigma2_x=1.0))(x)
    with pytest.raises(circe.ArgumentError, match="stop_gradient\\(y\\)"):
        jax.grad(lambda y: losses.circe_loss(x, y, z, mean, sigma2_x=1.0))(y)
    with pytest.raises(circe.ArgumentError, match="stop_gradient\\(z\\)"):
        jax.grad(lambda z: losses.hsic_loss(x, z, sigma2_x=1.0, sigma2_z=1.0))(z)


SHARDED = """
import numpy as np, jax, jax.numpy as jnp, circe, circe.jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
assert len(jax.devices()) == 2
random = np.random.default_rng(0)
y, z = random.normal(size=(2, 300)).astype(np.float32)
mean = circe.ConditionalMean(sigma2_z=1.0).fit(y[:200], z[:200])
x, y, z = random.normal(size=(100, 3)).astype(np.float32) + z[200:, None], y[200:], z[200:]
weights = jnp.array([[1.0], [0.5], [-0.3]])
whole = lambda w, x, y, z: circe.jax.circe_loss(jnp.tanh(x @ w), y, z, mean, sigma2_x=1.0)
value, grad = jax.value_and_grad(whole)(weights, x, y, z)

def step(w, x, y, z):
    part = lambda w: jax.lax.pmean(circe.jax.circe_loss(jnp.tanh(x @ w), y, z, mean, sigma2_x=1.0, axis_name="batch"), "batch")
    value, grad = jax.value_and_grad(part)(w)
    return value, jax.lax.pmean(grad, "batch")

mesh = Mesh(np.array(jax.devices()), ("batch",))
for check in (False, True):
    spread = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(P(), P("batch"), P("batch"), P("batch")), out_specs=(P(), P()), check_vma=check))
    found = spread(weights, x, y, z)
    print(np.allclose(found[0], value, rtol=1e-5), np.allclose(found[1], grad, rtol=1e-4, atol=1e-8))
mapped = jax.pmap(step, axis_name="batch", in_axes=(None, 0, 0, 0))(weights, *(a.reshape(2, 50, *a.shape[1:]) for a in (x, y, z)))
print(np.allclose(mapped[1][0], grad, rtol=1e-4, atol=1e-8))
sharded = [jax.device_put(a, NamedSharding(mesh, P("batch"))) for a in (x, y, z)]
print(np.allclose(jax.jit(whole)(weights, *sharded), value, rtol=1e-5))
rows = (np.arange(100) % 4).astype(np.float32)
whole = lambda x, y, z, rows: circe.jax.circe_loss(x, y, z, mean, sigma2_x=1.0, weights=rows)
step = lambda x, y, z, rows: jax.lax.pmean(circe.jax.circe_loss(x, y, z, mean, sigma2_x=1.0, weights=rows, axis_name="batch"), "batch")
spread = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(P("batch"),) * 4, out_specs=P()))
print(np.allclose(spread(x, y, z, rows), whole(x, y, z, rows), rtol=1e-5))
"""


@pytest.mark.parametrize("how", ["ffi", "callback"])
def test_batches_across_devices(how):
    out = run_python(SHARDED, XLA_FLAGS="--xla_force_host_platform_device_count=2", CIRCE_JAX=how)
    assert out.split() == ["True"] * 7


# ---- refusals, and small batches ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("call, error, words", [
    (lambda p, m: losses.circe_loss(p.x, p.y, p.z), circe.ArgumentError, "mean is missing"),
    (lambda p, m: losses.circe_loss(p.x, p.y, p.z, m, sigma2_x=None), circe.ArgumentError, "give sigma2_x"),
    (lambda p, m: losses.circe_loss(p.x, p.y, p.z, m, sigma2_x="running"), circe.ArgumentError, "positive number or 'median'"),
    (lambda p, m: losses.circe_loss(p.x, p.y, p.z, m, sigma2_x=-1.0), circe.ArgumentError, "positive"),
    (lambda p, m: losses.circe_loss(p.x, p.y, p.z, m, sigma2_x=1.0, estimator="best"), circe.ArgumentError, "must be one of biased"),
    (lambda p, m: losses.circe_loss(p.x[:9], p.y, p.z, m, sigma2_x=1.0), circe.ShapeError, "x has 9 rows and y has 160"),
    (lambda p, m: losses.circe_loss(p.x[None], p.y, p.z, m, sigma2_x=1.0), circe.ShapeError, "x has 3 dimensions"),
    (lambda p, m: losses.circe_loss(np.arange(160), p.y, p.z, m, sigma2_x=1.0), circe.DTypeError, "x has dtype int32"),
    (lambda p, m: losses.circe_loss(p.x, p.y, None, m, sigma2_x=1.0), circe.ArgumentError, "z is missing"),
    (lambda p, m: losses.circe_loss(p.x, p.y, p.z, m, sigma2_x=1.0, index=[1]), circe.ArgumentError, "takes y and z"),
    (lambda p, m: losses.circe_loss(p.x, p.y, p.z, "mean", sigma2_x=1.0), circe.ArgumentError, "fitted ConditionalMean"),
    (lambda p, m: losses.hscic_loss(p.x, p.y, p.z, sigma2_x=1.0, sigma2_y=1.0, sigma2_z=1.0), circe.ArgumentError, "ridge is missing"),
    (lambda p, m: losses.gcm_loss(p.x, p.y, p.z, regression="cubic"), circe.ArgumentError, "must be one of kernel, linear"),
    (lambda p, m: losses.hsic_loss(p.x[:3], p.z[:3], sigma2_x=1.0, sigma2_z=1.0, estimator="unbiased", small_batch="refuse"),
     Exception, "4"),
])
def test_refusals(points, mean, call, error, words):
    with pytest.raises(error, match=words):
        jax.block_until_ready(call(points, mean))


def test_not_a_number_is_told(points, mean):
    x = points.x.astype(np.float32).copy()
    x[7, 1] = np.nan
    with pytest.raises(Exception, match="row 7, column 1"):
        jax.jit(lambda x: losses.circe_loss(x, points.y, points.z, mean, sigma2_x=1.0))(x).block_until_ready()


def test_a_small_batch_counts_as_0(points, mean):
    losses._losses._told.clear()
    x = points.x[:3].astype(np.float32)

    def loss(x):
        return losses.circe_loss(x, points.y[:3], points.z[:3], mean, sigma2_x=1.0, estimator="ustat")

    with pytest.warns(losses.SmallBatchWarning, match="a batch of 3 rows"):
        value, grad = jax.value_and_grad(loss)(x)
    assert value == 0 and not np.any(grad)


def test_a_mean_that_is_fitted_again_is_another_loss(points):
    mean = circe.ConditionalMean(sigma2_z=1.0).fit(points.Y, points.Z)
    x = points.x.astype(np.float32)
    first = losses.circe_loss(x, points.y, points.z, mean, sigma2_x=1.0)
    mean.fit(points.Y, points.Z[::-1].copy())
    second = losses.circe_loss(x, points.y, points.z, mean, sigma2_x=1.0)
    near(second, circe.circe(x, points.y, points.z, mean, sigma2_x=1.0).value, 1e-4)
    assert abs(first - second) > 1e-4 * abs(first)


# ---- on a GPU -----------------------------------------------------------------------------------------------------------

ON_GPU = """
import sys
import numpy as np, jax, circe, circe.jax as losses
try:
    jax.devices("cuda")
    circe._native.library()
except RuntimeError as problem:
    sys.exit(print("no GPU:", str(problem).splitlines()[0]))
if losses.backend() != "ffi":
    sys.exit(print("no GPU: the losses go through Python"))
sys.path.insert(0, {tests!r})
from conftest import Points
p = Points()
x, y, z = (a.astype(np.float32) for a in (p.x, p.y, p.z))
mean = circe.ConditionalMean(sigma2_y=[1.0, 0.1], sigma2_z=1.0, method="lowrank").fit(p.Y, p.Z)
features, index = mean.residual_features(y, z, np.float32), np.arange(0, 160, 2)
kernels = {kernels!r}
cases = {{
    "circe": (x, lambda x: losses.circe_loss(x, y, z, mean, sigma2_x=1.0), circe.circe(x, y, z, mean, sigma2_x=1.0, grad=True)),
    "rows": (x[index], lambda x: losses.circe_loss(x, mean=features, index=index, sigma2_x=1.0),
             circe.circe_cached(features, x[index], index, sigma2_x=1.0, grad=True)),
    "hsic": (x, lambda x: losses.hsic_loss(x, z, sigma2_x=1.0, sigma2_z=2.0), circe.hsic(x, z, sigma2_x=1.0, sigma2_z=2.0, grad=True)),
    "hscic": (x, lambda x: losses.hscic_loss(x, y, z, **kernels), circe.hscic(x, y, z, grad=True, **kernels)),
}}
for name, (at, loss, known) in cases.items():
    value, grad = jax.jit(jax.value_and_grad(loss))(at)
    if value.devices().pop().platform != "gpu":
        print(name, "was computed on", value.devices())
    if abs(float(value) / known.value - 1) > 1e-3 or np.abs(grad - known.grad).max() > 1e-3 * np.abs(known.grad).max():
        print(name, "is off:", float(value), known.value)
for loss in (lambda x: losses.circe_loss(x, y, z, mean), lambda x: losses.circe_loss(x[index], mean=features, index=index)):
    value, grad = jax.jit(jax.value_and_grad(loss))(x)
    larger, smaller = jax.jit(jax.value_and_grad(loss))(16 * x)
    if not (np.isclose(value, larger, rtol=1e-4) and np.allclose(grad, 16 * smaller, rtol=1e-3, atol=1e-4 * np.abs(grad).max())):
        print("the median width does not follow x:", float(value), float(larger))
print("done")
"""


def test_on_a_gpu():
    """Values and gradients of the library; a width that follows x makes the loss independent of x's scale."""
    out = run_python(ON_GPU.format(tests=os.path.dirname(__file__), kernels=KERNELS), JAX_PLATFORMS="cuda,cpu")
    if out.startswith("no GPU"):
        pytest.skip(out)
    assert out == "done"


# ---- without a compiler -------------------------------------------------------------------------------------------------


def test_custom_calls_are_used_where_there_is_a_compiler():
    if losses._ffi._compiler() is None:
        pytest.skip("there is no C++ compiler")
    assert losses.backend() == "ffi"


def test_through_python(tmp_path):
    """The same tests by jax.pure_callback."""
    if os.environ.get("CIRCE_JAX") == "callback":
        pytest.skip("these are they")
    done = subprocess.run([sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k",
                           "not compiler"],
                          env={**os.environ, "CIRCE_JAX": "callback"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_missing_compiler_is_told(tmp_path):
    out = run_python("""
import warnings, numpy as np, circe.jax
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    value = circe.jax.hsic_loss(np.arange(9.0, dtype=np.float32), np.arange(9.0), sigma2_x=1.0, sigma2_z=1.0)
print(circe.jax.backend(), float(value) > 0, any("through Python" in str(w.message) for w in told))
""", CXX="/nonexistent/c++", CIRCE_CACHE=str(tmp_path))
    assert out == "callback True True"


# ---- CUDA ---------------------------------------------------------------------------------------------------------------


def cuda_served():
    """JAX has a GPU, and the library the code for it."""
    if not any(device.platform == "gpu" for device in jax.devices()):
        return False
    context = _runtime.context()
    try:
        _runtime.make("circe_cuda_open", "circe_cuda_close", context.pointer, 0, None, parents=[context.handle])
    except circe.CirceError:
        return False
    return True


@pytest.mark.skipif(not cuda_served(), reason="no CUDA device for JAX, or a library without CUDA")
@pytest.mark.parametrize("name", ["circe", "hsic", "hscic", "gcm", "gcm linear"])
def test_cuda_agrees_with_numpy(cases, points, name):
    loss, reference = cases[name]
    gpu = next(device for device in jax.devices() if device.platform == "gpu")
    x = jax.device_put(points.x.astype(np.float32), gpu)
    value, grad = jax.jit(jax.value_and_grad(loss))(x)
    expected = reference(points.x.astype(np.float32))
    assert value.devices() == {gpu}
    near(value, expected.value, 1e-3)
    near(grad, expected.grad, 1e-2)


@pytest.mark.skipif(not cuda_served(), reason="no CUDA device for JAX, or a library without CUDA")
@pytest.mark.parametrize("sigma2_x", [1.0, "median"])
def test_cuda_agrees_with_numpy_on_rows(points, mean, sigma2_x):
    """The median of a batch is over some pairs there, and that of NumPy over all: 10 % of the value."""
    features = mean.residual_features(points.y, points.z, np.float32)
    gpu = next(device for device in jax.devices() if device.platform == "gpu")
    index = np.arange(0, 160, 2)
    x = points.x[index].astype(np.float32)
    found = jax.jit(jax.value_and_grad(lambda x, i: losses.circe_loss(x, mean=features, index=i, sigma2_x=sigma2_x)))(
        jax.device_put(x, gpu), jax.device_put(index, gpu))
    known = circe.circe_cached(features, x, index, sigma2_x=sigma2_x, grad=True)
    near(found[0], known.value, 1e-3 if sigma2_x == 1.0 else 0.1)
    near(found[1], known.grad, 1e-2 if sigma2_x == 1.0 else 0.2)


# ---- weights of rows ----------------------------------------------------------------------------------------------------


def test_weights(points, mean):
    """Those of the measures in NumPy, under jit and grad; of rows too, and through Python; refusals. 1e-9 in float64."""
    y, z, n = points.y, points.z, len(points.y)
    w = np.random.default_rng(1).gamma(1.0, size=n)
    w[::5] = 0
    features = mean.residual_features(y, z)
    cases = [(lambda x, w: losses.circe_loss(x, y, z, mean, sigma2_x=1.0, weights=w), lambda x: circe.circe(x, y, z, mean, sigma2_x=1.0, grad=True, weights=w)),
             (lambda x, w: losses.circe_loss(x, mean=features, index=np.arange(n), sigma2_x=1.0, weights=w),
              lambda x: circe.circe(x, y, z, mean, sigma2_x=1.0, grad=True, weights=w)),
             (lambda x, w: losses.hsic_loss(x, z, sigma2_x=1.0, sigma2_z=2.0, weights=w),
              lambda x: circe.hsic(x, z, sigma2_x=1.0, sigma2_z=2.0, grad=True, weights=w)),
             (lambda x, w: losses.hscic_loss(x, y, z, weights=w, **KERNELS), lambda x: circe.hscic(x, y, z, grad=True, weights=w, **KERNELS)),
             (lambda x, w: losses.gcm_loss(x, y, z, sigma2_y=0.5, ridge=0.1, weights=w),
              lambda x: circe.gcm(x, y, z, sigma2_y=0.5, ridge=0.1, combine="logsumexp", grad=True, weights=w))]
    with losses._losses._x64():
        x = jnp.asarray(points.x)
        for loss, expected in cases:
            value, grad = jax.jit(jax.value_and_grad(loss))(x, w)
            found = expected(points.x)
            near(value, found.value, 1e-9)
            near(grad, found.grad, 1e-9)
            assert not np.asarray(grad)[::5].any() and float(loss(x, None)) != float(value)  # nothing stays behind
        loss = cases[0][0]
        few = np.eye(n)[:3].sum(0)
        value, grad = jax.value_and_grad(loss)(x, few)
        assert float(value) == 0 and not np.asarray(grad).any()
        assert float(loss(x, np.zeros(n) + jnp.zeros(n))) == 0
        for bad, text in ((w[1:], "160 rows"), (jnp.ones((n, 2)), "give one weight"), (["a"] * n, "text"), (-w, "row 1")):
            with pytest.raises(circe.CirceError, match=text):
                loss(x, bad)
        with pytest.raises(circe.ArgumentError, match="weights is differentiated"):
            jax.grad(lambda w: loss(x, w))(jnp.asarray(w))
        for bad in (-jnp.asarray(w), jnp.full(n, jnp.nan), -jnp.asarray(few)):
            with pytest.raises(Exception, match="weight of row"):
                jax.block_until_ready(loss(x, bad))


CALLBACK_WEIGHTS = """
import numpy as np, jax, circe, circe.jax as losses
y, z = np.random.default_rng(0).normal(size=(2, 300))
w = np.arange(100) % 4.0
mean = circe.ConditionalMean(sigma2_z=1.0).fit(y[:200], z[:200])
features = mean.residual_features(y[200:], z[200:], np.float32)
x, y, z = (v[200:].astype(np.float32) for v in (z, y, z))
found = circe.circe(x, y, z, mean, sigma2_x=1.0, weights=w).value
print(losses._ffi.backend(), np.allclose(losses.circe_loss(x, y, z, mean, sigma2_x=1.0, weights=w), found, rtol=1e-4),
      np.allclose(losses.circe_loss(x, mean=features, index=np.arange(100), sigma2_x=1.0, weights=w), found, rtol=1e-4),
      float(jax.jit(lambda x, w: losses.hsic_loss(x, z, sigma2_x=1.0, sigma2_z=1.0, weights=w))(x, np.eye(100)[:2].sum(0))))
"""


def test_weights_through_python():
    assert run_python(CALLBACK_WEIGHTS, CIRCE_JAX="callback").split() == ["callback", "True", "True", "0.0"]


def test_codes_that_the_fit_has_not_made_are_refused():
    y = np.random.default_rng(0).normal(size=90)
    mean = circe.ConditionalMean().fit(y, np.array(["north", "south", "west"])[np.arange(90) % 3])
    codes = np.arange(90.0) % 3
    losses.circe_loss(y, y, codes, mean)
    codes[5] = 7
    for given in (codes, jnp.asarray(codes)):
        with pytest.raises(circe.DataError, match="z: row 5 is 7, which is no code of the fit: these are 0 to 2"):
            losses.circe_loss(y, y, given, mean)
