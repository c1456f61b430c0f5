"""Threads, fork, and objects that outlive the thread or the interpreter that made them."""

import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

import circe
from circe import _runtime

from conftest import Points, run_python


def value(points, mean, **options):
    return circe.circe(points.x, points.y, points.z, mean, sigma2_x=1.0, **options).value


def test_many_threads_one_model(points, mean):
    expected, found = value(points, mean, grad=True), []

    def work():
        for _ in range(30):
            found.append(value(points, mean, grad=True))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 180
    np.testing.assert_allclose(found, expected, rtol=1e-12)  # BLAS may share its work among threads otherwise


def test_a_model_outlives_its_thread(points):
    made = []
    thread = threading.Thread(target=lambda: made.append(circe.ConditionalMean(sigma2_z=1.0).fit(points.Y, points.Z)))
    thread.start()
    thread.join()
    gc.collect()
    features = made[0].residual_features(points.y, points.z)
    zeta = features.zeta
    del features, made
    gc.collect()
    assert np.isfinite(zeta).all()


def test_errors_belong_to_their_thread(points, mean):
    texts = {}

    def fail(which):
        bad = {"x": points.x.copy(), "y": points.y.copy(), "z": points.z.copy()}
        bad[which][3] = np.nan
        for _ in range(50):
            with pytest.raises(circe.DataError) as caught:
                circe.circe(**bad, mean=mean, sigma2_x=1.0)
            texts.setdefault(which, set()).add(str(caught.value))

    threads = [threading.Thread(target=fail, args=(which,)) for which in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {which: {text[0] for text in said} for which, said in texts.items()} == {w: {w} for w in "xyz"}


def test_the_gil_is_released(points):
    """Python goes on while a fit works."""
    big = Points(m=1200)
    ticks, done = [0], threading.Event()

    def count():
        while not done.is_set():
            ticks[0] += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    before = time.perf_counter()
    circe.ConditionalMean(sigma2_y=[1.0, 0.3, 0.1], sigma2_z=1.0, method="dense").fit(big.Y, big.Z)
    seconds = time.perf_counter() - before
    done.set()
    counter.join()
    assert ticks[0] > 20 * seconds


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork(points, mean):
    """A child measures, fits and makes features with what it inherited, although its parent has used threads."""
    circe.set_threads(2)
    model = circe.ConditionalMean(sigma2_y=[1.0, 0.1], sigma2_z=1.0, method="lowrank").fit(points.Y, points.Z)
    features = model.residual_features(points.y, points.z)
    expected = value(points, model)
    cached = features.measure(points.x, sigma2_x=1.0).value
    for _ in range(3):
        circe.ConditionalMean(sigma2_z=1.0, method="dense").fit(points.Y, points.Z)  # wakes every pool
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)
            same = np.isclose(value(points, model), expected, rtol=1e-10)
            same &= np.isclose(features.measure(points.x, sigma2_x=1.0).value, cached, rtol=1e-10)
            same &= np.isclose(model.residual_features(points.y, points.z).measure(points.x, sigma2_x=1.0).value, cached)
            fitted = circe.ConditionalMean(sigma2_y=[1.0, 0.1], sigma2_z=1.0, method="dense").fit(points.Y, points.Z)
            same &= fitted.ridge_ > 0 and circe.get_threads() == 1
            try:
                circe.set_threads(2)
            except circe.UnsupportedError:
                status = 0 if same else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    circe.set_threads(0)
    assert status == 0
    assert value(points, model) == pytest.approx(expected, rel=1e-12)


def test_threads_do_not_change_results(points):
    values = []
    for threads in (1, 2, 3):
        circe.set_threads(threads)
        assert circe.get_threads() == threads
        model = circe.ConditionalMean(sigma2_z=1.0).fit(points.Y, points.Z)
        values.append(value(points, model))
    circe.set_threads(0)
    assert np.allclose(values, values[0], rtol=1e-10)
    for bad, error in ((-1, circe.ArgumentError), (5000, circe.ArgumentError), (1.5, circe.DTypeError)):
        with pytest.raises(error, match="n is|n:"):
            circe.set_threads(bad)


def test_the_interpreter_ends_in_peace():
    """Objects in globals, in cycles and in other threads are freed in an order that the library stands."""
    code = """
import circe, numpy as np, threading
y = np.random.default_rng(0).normal(size=300)
mean = circe.ConditionalMean(sigma2_z=1.0).fit(y, y**2)
features = mean.residual_features(y, y)
cycle = [mean, features]; cycle.append(cycle)
threading.Thread(target=lambda: circe.circe(y, y, y, mean)).start()
print(circe.circe(y, y, y, mean).n)
"""
    assert run_python(code) == "300"


def test_cycles_are_freed_in_order(points):
    """The collector finalises a cycle's members in any order; a child must go before what it was made from."""
    destroyed = []

    def chain():
        context = _runtime.Handle(1, destroyed.append)
        model = _runtime.Handle(2, destroyed.append, context)
        features = _runtime.Handle(3, destroyed.append, context, model)
        return context, model, features

    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        handles = chain()
        destroyed.clear()
        for which in order:
            handles[which].__del__()
        assert destroyed == [3, 2, 1]
        del handles
        assert destroyed == [3, 2, 1]
