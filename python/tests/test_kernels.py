"""Kernels as texts and as objects."""

import pickle

import numpy as np
import pytest

import circe

from conftest import gaussian


def test_gram_is_the_formula():
    a, b = np.random.default_rng(0).normal(size=(2, 7, 3))
    np.testing.assert_allclose(circe.gaussian(0.7).gram(a, b), gaussian(a, b, 0.7), rtol=1e-12)
    np.testing.assert_allclose(circe.gram("laplace(0.49)", a), np.exp(-np.sqrt(
        ((a[:, None] - a[None]) ** 2).sum(-1)) / 0.7), rtol=1e-12)
    np.testing.assert_allclose(circe.linear().gram(a, b), a @ b.T, rtol=1e-12)
    product = circe.gaussian(0.5, columns=range(0, 2)) * circe.delta(columns=2)
    c = a.copy()
    c[:, 2] = [0, 1, 0, 1, 0, 1, 0]
    expected = gaussian(c[:, :2], c[:, :2], 0.5) * (c[:, 2:] == c[:, 2:].T)
    np.testing.assert_allclose(product.gram(c), expected, rtol=1e-12)
    assert product.gram(c.astype(np.float32)).dtype == np.float32


def test_objects():
    kernel = circe.gaussian(0.5, columns=(0, 2)) * "3:delta"
    assert kernel.text == str(kernel) == "0-2:gaussian(0.5)*3:delta"
    assert pickle.loads(pickle.dumps(kernel)) == kernel and hash(kernel) == hash(circe.Kernel(kernel.text))
    assert circe.laplace().text == "laplace" and circe.delta(1).text == "1:delta"
    assert ("delta" * circe.linear()).text == "delta*linear"
    with pytest.raises(AttributeError):
        kernel.text = "linear"


@pytest.mark.parametrize("options,text", [
    ({"kernel_x": "gauss"}, "kernel_x 'gauss'"), ({"kernel_x": 3}, "kernel_x is 3"), ({"sigma2_x": -1.0}, "sigma2_x is -1.0"),
    ({"sigma2_x": "mean"}, "sigma2_x is 'mean'"), ({"sigma2_x": None}, "kernel_x 'gaussian' has no width"),
    ({"sigma2_x": [1.0]}, "sigma2_x"), ({"kernel_x": "gaussian(1)", "sigma2_x": 2.0}, "sigma2_x is 2, but the kernel"),
    ({"kernel_x": "5:gaussian(1)"}, "x"), ({"sigma2_x": float("nan")}, "sigma2_x is nan")])
def test_refused(points, options, text):
    with pytest.raises(circe.CirceError, match=text):
        circe.hsic(points.x, points.z, **options)


def test_median():
    a = np.random.default_rng(0).normal(size=(50, 2))
    distances = np.sqrt(((a[:, None] - a[None]) ** 2).sum(-1))[np.triu_indices(50, 1)]
    assert circe.median_sigma2(a) == pytest.approx(np.median(distances) ** 2)
    with pytest.raises(circe.CirceError, match="points"):
        circe.median_sigma2(np.ones(5))
    with pytest.raises(circe.CirceError, match="sigma2_z='median'"):
        circe.hsic(a, np.ones(50))
