"""Every measure: the number of the command, the gradient of finite differences, the options, the refusals."""

import json
import subprocess

import numpy as np
import pytest

import circe

from conftest import gaussian, run_command

SETTLED = {"sigma2_x": 1.0, "sigma2_y": 0.5, "sigma2_z": 1.0}
OPTIONS = {"hsic": {"sigma2_x": 1.0, "sigma2_z": 1.0}, "hscic": {**SETTLED, "ridge": 0.1}, "kci": {**SETTLED, "ridge": 0.1},
           "gcm": {"sigma2_y": 0.5, "ridge": 0.1, "combine": "logsumexp"}, "nocco": SETTLED, "kpc": SETTLED,
           "circe": {"sigma2_x": 1.0}, "circe-spectral": {"sigma2_x": 1.0}}


def measured(name, points, mean, x=None, **options):
    if name.startswith("circe"):
        options["mean"] = mean
    return circe.measure(name, points.x if x is None else x, points.y, points.z, **{**OPTIONS[name], **options})


@pytest.mark.parametrize("name", list(circe.MEASURES))
def test_gradient(points, mean, name):
    result = measured(name, points, mean, grad=True)
    assert result.grad.shape == points.x.shape and float(result) == result.value and result.n == 160
    direction = np.random.default_rng(1).normal(size=points.x.shape)
    step = 1e-5
    ahead, behind = (measured(name, points, mean, points.x + s * step * direction).value for s in (1, -1))
    assert (result.grad * direction).sum() == pytest.approx((ahead - behind) / (2 * step), rel=1e-5)


@pytest.mark.parametrize("name", list(circe.MEASURES))
def test_float32_agrees(points, mean, name):
    exact, single = measured(name, points, mean), measured(name, points, mean, dtype="float32", grad=True)
    assert single.value == pytest.approx(exact.value, rel=1e-3)
    assert single.grad.dtype == np.float32
    assert measured(name, points, mean, points.x.astype(np.float32)).value == single.value


@pytest.mark.parametrize("estimator", ["biased", "debiased", "centered", "ustat"])
def test_circe_is_the_formula(points, mean, estimator):
    B = len(points.x)
    Q = gaussian(points.y, points.y, mean.sigma2_y_) * mean.residual_gram(points.y, points.z)
    K = gaussian(points.x, points.x, 1.0)
    H = np.eye(B) - 1 / B
    if estimator == "debiased":
        expected = (K * Q)[~np.eye(B, dtype=bool)].sum() / (B * (B - 1))
    elif estimator == "ustat":
        k, q = K - np.diag(np.diag(K)), Q - np.diag(np.diag(Q))
        expected = ((k * q).sum() + k.sum() * q.sum() / ((B - 1) * (B - 2)) - 2 * (k.sum(0) * q.sum(0)).sum() / (B - 2)) / (
            B * (B - 3))
    else:
        expected = (K * (Q if estimator == "biased" else H @ Q @ H)).sum() / (B * (B - 1))
    result = circe.circe(points.x, points.y, points.z, mean, sigma2_x=1.0, estimator=estimator)
    assert result.value == pytest.approx(expected, rel=1e-8, abs=1e-14)
    assert result.estimator == estimator


def test_hsic_is_the_formula(points):
    B = len(points.x)
    H = np.eye(B) - 1 / B
    expected = np.trace(H @ gaussian(points.x, points.x, 1.0) @ H @ gaussian(points.z, points.z, 1.0)) / B**2
    assert circe.hsic(points.x, points.z, sigma2_x=1.0, sigma2_z=1.0, estimator="biased").value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", list(circe.MEASURES))
@pytest.mark.parametrize("defaults", [True, False])
def test_as_the_command_says(points, mean, name, defaults, tmp_path):
    files = {key: tmp_path / f"{key}.npy" for key in "xyz"}
    for key, path in files.items():
        np.save(path, getattr(points, key))
    options = {} if defaults else OPTIONS[name]
    arguments = [item for key, value in options.items() for item in (f"--{key.replace('_', '-')}", str(value))]
    if name.startswith("circe"):
        mean.save(tmp_path / "m.safetensors")
        arguments += ["--model", str(tmp_path / "m.safetensors")]
        options = {**options, "mean": mean}
    said = json.loads(run_command("measure", name, *(item for key, path in files.items() for item in (f"--{key}", path)),
                                  *arguments, "--json"))
    assert circe.measure(name, points.x, points.y, points.z, **options).value == pytest.approx(said["value"], rel=1e-12)


def test_leave_one_out_says_what_it_chose(points):
    result = circe.hscic(points.x, points.y, points.z)
    assert result.chosen["ridge"] in (0.01, 0.1, 1.0, 10.0, 100.0) and "gaussian" in result.chosen["kernel_y"]
    again = circe.hscic(points.x, points.y, points.z, kernel_y=result.chosen["kernel_y"], ridge=result.chosen["ridge"])
    assert again.value == result.value and again.chosen is None


def test_holdout_forms(points, mean):
    linear = circe.ConditionalMean(kernel_z="linear", sigma2_y=0.5, ridge=0.1).fit(points.Y, points.Z)
    for result in (circe.hscic(points.x, points.y, points.z, mean=mean, sigma2_x=1.0, grad=True),
                   circe.gcm(points.x, points.y, points.z, mean=linear, grad=True)):
        assert np.isfinite(result.value) and np.isfinite(result.grad).all()
    assert circe.gcm(points.x, points.y, points.z, mean=linear).value != circe.gcm(points.x, points.y, points.z).value
    before = circe.gcm(points.x[80:], points.y[80:], points.z[80:], sigma2_y=0.5, ridge=0.1,
                       previous=(points.x[:80], points.y[:80]))
    alone = circe.gcm(points.x[80:], points.y[80:], points.z[80:], sigma2_y=0.5, ridge=0.1)
    assert before.value != alone.value


def test_one_dimension_is_a_column(points, mean):
    flat = circe.circe(points.x[:, 0], points.y[:, 0], points.z[:, 0], mean, sigma2_x=1.0, grad=True)
    column = circe.circe(points.x[:, :1], points.y, points.z, mean, sigma2_x=1.0, grad=True)
    assert flat.value == column.value and flat.grad.shape == (160,)
    np.testing.assert_array_equal(flat.grad, column.grad[:, 0])


def test_strided_views_give_the_same(points, mean):
    wide = np.zeros((320, 5))
    wide[::2, 1:3] = points.x
    result = circe.circe(wide[::2, 1:3], points.y, points.z, mean, sigma2_x=1.0, grad=True)
    expected = circe.circe(points.x, points.y, points.z, mean, sigma2_x=1.0, grad=True)
    assert result.value == expected.value
    np.testing.assert_array_equal(result.grad, expected.grad)


def test_guilty_and_innocent(points, mean):
    guilty = circe.circe(points.z, points.y, points.z, mean, sigma2_x=1.0).value
    innocent = circe.circe(points.innocent, points.y, points.z, mean, sigma2_x=1.0).value
    assert guilty > 5 * innocent


def test_result_reads_well(points):
    text = repr(circe.hsic(points.x, points.z, grad=True))
    assert text.startswith("Measurement('hsic', value=") and text.endswith("estimator='ustat', n=160, with grad)")


@pytest.mark.parametrize("call,text", [
    (lambda p, m: circe.measure("cirse", p.x, p.y, p.z), "no measure 'cirse'"),
    (lambda p, m: circe.measure("circe", p.x, p.y, p.z), "mean is missing; circe needs a ConditionalMean"),
    (lambda p, m: circe.measure("hsic", p.x), "z is missing"),
    (lambda p, m: circe.measure("kci", p.x, None, p.z), "y is missing"),
    (lambda p, m: circe.circe(p.x, p.y, p.z, "model.safetensors"), "mean is 'model.safetensors'"),
    (lambda p, m: circe.circe(p.x, p.y, p.z, m, estimator="best"), "estimator is 'best'; it must be one of biased"),
    (lambda p, m: circe.circe(p.x, p.y, p.z, m, dtype="float16"), "dtype is 'float16'"),
    (lambda p, m: circe.circe(p.x, p.y, p.z, m, dtype=[]), "dtype is"),
    (lambda p, m: circe.circe(p.x, p.x, p.z, m), "y has 2 columns"),
    (lambda p, m: circe.hsic(p.x, p.z, estimator="debiased"), "estimator is 'debiased'"),
    (lambda p, m: circe.hsic(p.x[:3], p.z[:3], estimator="unbiased"), "4"),
    (lambda p, m: circe.hscic(p.x, p.y, p.z, ridge=0), "ridge is 0|ridge"),
    (lambda p, m: circe.kci(p.x, p.y, p.z, method="rff", ridge=1.0, sigma2_y=1.0), "method|rff"),
    (lambda p, m: circe.gcm(p.x, p.y, p.z, combine="sum"), "combine is 'sum'"),
    (lambda p, m: circe.gcm(p.x, p.y, p.z, regression="cubic"), "regression is 'cubic'"),
    (lambda p, m: circe.gcm(p.x, p.y, p.z, sharpness=-1), "sharpness is -1"),
    (lambda p, m: circe.kpc(p.x, p.y, p.z, epsilon="small"), "epsilon is 'small'"),
    (lambda p, m: circe.nocco(p.x, p.y, p.z, tolerance=-2), "tolerance is -2")])
def test_refused(points, mean, call, text):
    with pytest.raises(circe.CirceError, match=text):
        call(points, mean)


def test_the_command_is_the_module(points):
    import os
    import sys

    done = subprocess.run([sys.executable, "-m", "circe", "--version"], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0 and done.stdout.startswith(f"circe {circe.__version__}")
    done = subprocess.run([sys.executable, "-m", "circe", "nonsense"], capture_output=True, text=True)
    assert done.returncode == 2 and "nonsense" in done.stderr


def test_previous_must_be_a_pair(points):
    with pytest.raises(circe.ArgumentError, match=r"previous is a tuple of 1; it must be a pair \(x, y\)"):
        circe.gcm(points.x, points.y, points.z, regression="linear", previous=(points.x,))
    with pytest.raises(circe.ShapeError, match="previous y"):
        circe.gcm(points.x, points.y, points.z, regression="linear", previous=(points.x, []))
