"""Threads, fork, and objects that outlive the thread or the interpreter that made them."""

import contextlib
import gc
import json
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from pathlib import Path

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
    assert set(found) == {expected}


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


CHANGED = """
import threading, time, numpy as np, circe
y, z = np.random.default_rng(0).normal(size=(2, 600))
x = y + z
made = lambda: circe.ConditionalMean(sigma2_y=1.0, sigma2_z=1.0, ridge=0.1).fit(y, z)
mean, held, end = made(), [made()], time.monotonic() + 2

def refit():
    mean.fit(y, z)

def close():
    before, held[0] = held[0], made()
    before.close()

def repeated(call):
    def work():
        while time.monotonic() < end:
            try:
                call()
            except circe.ClosedError:
                pass
    return work

calls = {{"measure": lambda: circe.circe(x, y, z, mean, sigma2_x=1.0), "gram": lambda: held[0].residual_gram(y, z)}}
circe.set_threads(1)
threads = [threading.Thread(target=repeated(call)) for call in ({change}, calls["{call}"], calls["{call}"])]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert np.isfinite(circe.circe(x, y, z, mean, sigma2_x=1.0).value)
"""


@pytest.mark.parametrize("change, call", [("refit", "measure"), ("close", "gram")])
def test_a_model_lives_to_the_end_of_a_call(change, call):
    """Others fit it again, or close it, while it is in use."""
    run_python(CHANGED.format(change=change, call=call))


def test_residual_features_keep_their_mean(points):
    mean = circe.ConditionalMean(sigma2_y=1.0, sigma2_z=1.0, ridge=0.1).fit(points.Y, points.Z)
    features = mean.residual_features(points.y, points.z)
    expected = features.measure(points.x, sigma2_x=1.0).value
    mean.sigma2_y = 0.01
    mean.fit(points.Y[:100], points.Z[:100])
    assert features.measure(points.x, sigma2_x=1.0).value == expected
    assert pickle.loads(pickle.dumps(features)).measure(points.x, sigma2_x=1.0).value == expected


def test_a_memory_of_tests_is_shared_by_threads():
    table = np.random.default_rng(0).normal(size=(150, 8))
    questions = [(a, b, [c]) for a in range(4) for b in range(4, 6) for c in range(6, 8)]
    expected = [circe.ColumnTest(table, method="gcm")(*question).p_value for question in questions]
    shared, found = circe.ColumnTest(table, method="gcm"), []
    threads = [threading.Thread(target=lambda: found.append([shared(*question).p_value for question in questions])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


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


def answers(points):
    """What every kind of call gives: numbers that are compared bit by bit."""
    fits = [circe.ConditionalMean(sigma2_y=[1.0, 0.1], sigma2_z=1.0, method=method).fit(points.Y[:200], points.Z[:200])
            for method in ("lowrank", "dense")]
    found = [fit.ridge_ for fit in fits] + [fit.loo_.error.sum() for fit in fits]
    for fit in fits:
        measured = circe.circe(points.x, points.y, points.z, fit, sigma2_x=1.0, grad=True)
        found += [measured.value, np.abs(measured.grad).sum()]
        found.append(fit.residual_features(points.y, points.z).measure(points.x, sigma2_x=1.0).value)
    measured = circe.hscic(points.x, points.y, points.z, sigma2_x=1.0, sigma2_y=1.0, sigma2_z=1.0, ridge=0.1, grad=True)
    found += [measured.value, np.abs(measured.grad).sum()]
    found += [circe.test(points.x, points.y, points.z, method=method, seed=1).p_value for method in ("kci", "gcm", "rcot")]
    return [float(number) for number in found]


@pytest.fixture
def two_threads():
    circe.set_threads(2)
    yield
    circe.set_threads(0)


def test_calls_of_all_kinds_at_once(points, two_threads):
    expected, found = answers(points), []
    threads = [threading.Thread(target=lambda: found.append(answers(points))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 5


# ---- processes ----


def in_child(work, seconds=120):
    """What work() gives in a forked process, by way of a pipe; fails where it does not end."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(seconds)
            os.write(writer, pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, "the child was ended: it took too long, or failed"
    assert said, "the child failed"
    return pickle.loads(said)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@needs_fork
def test_fork(points, two_threads):
    """A child measures, fits, tests and makes features with what it inherited, on threads of its own."""
    model = circe.ConditionalMean(sigma2_y=[1.0, 0.1], sigma2_z=1.0, method="lowrank").fit(points.Y, points.Z)
    features = model.residual_features(points.y, points.z)

    def work():
        return (answers(points), value(points, model), features.measure(points.x, sigma2_x=1.0).value, circe.get_threads())

    expected = work()
    assert expected[3] == 2
    assert in_child(work) == expected
    assert in_child(lambda: in_child(work)) == expected
    assert work() == expected


@needs_fork
def test_a_child_may_choose_its_threads(points, two_threads):
    def work():
        circe.set_threads(3)
        return circe.get_threads()

    value(points, circe.ConditionalMean(sigma2_z=1.0).fit(points.Y, points.Z))
    assert in_child(work) == 3
    assert circe.get_threads() == 2


@needs_fork
def test_fork_during_a_call(points, two_threads):
    expected, done = answers(points), threading.Event()

    def keep_calling():
        while not done.is_set():
            answers(points)

    other = threading.Thread(target=keep_calling)
    other.start()
    try:
        for _ in range(4):
            time.sleep(0.02)
            assert in_child(lambda: answers(points)) == expected
    finally:
        done.set()
        other.join()


@needs_fork
def test_fork_while_a_model_is_held(points):
    """Random features are guarded by a lock, which a thread of the parent may hold."""
    model = circe.ConditionalMean(sigma2_y=0.1, ridge=0.1, sigma2_z=1.0, method="rff", rff_features=64).fit(points.Y, points.Z)
    expected = value(points, model)
    with model.model.guard:
        assert in_child(lambda: value(points, model)) == expected


def child_answers(_):
    circe.set_threads(2)
    return answers(Points())


@pytest.mark.parametrize("start", multiprocessing.get_all_start_methods())
def test_multiprocessing(points, two_threads, start):
    expected = answers(points)
    with multiprocessing.get_context(start).Pool(2) as pool:
        found = pool.map_async(child_answers, range(4)).get(timeout=240)
    assert found == [expected] * 4


@pytest.mark.parametrize("backend", ["threading", "loky", "multiprocessing"])
def test_joblib(points, two_threads, backend):
    joblib = pytest.importorskip("joblib")
    expected = answers(points)
    found = joblib.Parallel(n_jobs=2, backend=backend, timeout=240)(joblib.delayed(child_answers)(k) for k in range(4))
    assert found == [expected] * 4


# ---- limits ----


def busy_nanoseconds():
    """Of the other threads of this process."""
    spent, own = 0, threading.get_native_id()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            spent += int((task / "schedstat").read_text().split()[0]) if int(task.name) != own else 0
    return spent


def share_of_others(work, seconds=1.0):
    """What other threads of the process did meanwhile, as a share of what this one did."""
    work()
    before, own, end = busy_nanoseconds(), time.thread_time_ns(), time.perf_counter() + seconds
    while time.perf_counter() < end:
        work()
    return (busy_nanoseconds() - before) / (time.thread_time_ns() - own)


needs_schedstat = pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="no /proc/self/schedstat here")


@needs_schedstat
def test_threadpoolctl(two_threads):
    """Its limits are kept, and change no digit."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    if not any(pool["user_api"] == "openmp" for pool in threadpoolctl.threadpool_info()):
        pytest.skip("no OpenMP in this process that threadpoolctl could limit")
    big = Points(n=1000, m=400)
    mean = circe.ConditionalMean(sigma2_y=0.1, ridge=0.1, sigma2_z=1.0).fit(big.Y, big.Z)
    work = lambda: circe.hscic(big.x, big.y, big.z, sigma2_x=1.0, sigma2_y=1.0, sigma2_z=1.0, ridge=0.1).value + value(big, mean)
    free, expected = share_of_others(work), (work(), answers(big))
    with threadpoolctl.threadpool_limits(1):
        assert share_of_others(work) < 0.05
        assert (work(), answers(big)) == expected
    assert (work(), answers(big)) == expected
    if len(os.sched_getaffinity(0)) > 1:
        assert free > 0.2  # half of the work, or less where other processes have the cores
        assert share_of_others(work) > 0.2  # and again after the limit


LIMITED = """
import sys; sys.path[:0] = {paths!r}
import circe, json, numpy, test_threads, threadpoolctl
circe.set_threads(2)
x = numpy.random.default_rng(0).normal(size=(2000, 32))
work = lambda: circe.hsic(x, x[:, :3], sigma2_x=1.0, sigma2_z=1.0).value
shares, values = [], set()
for limits in (None, 1, None, {{"circe": 1}}):
    with threadpoolctl.threadpool_limits(limits):
        shares.append(test_threads.share_of_others(work))
        values.add(work())
pools = [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "circe"]
print(json.dumps([shares, len(values), pools]))
"""


@needs_schedstat
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_threadpoolctl_where_the_environment_says_one():
    """Then OpenMP and the BLAS have one thread before the limit as under it, and circe must be limited by itself."""
    pytest.importorskip("threadpoolctl", minversion="3.2")
    paths = [path for path in (str(Path(__file__).parent), *sys.path) if path]
    result = run_python(LIMITED.format(paths=paths), OMP_NUM_THREADS="1")
    (free, limited, again, own), values, pools = json.loads(result)
    assert free > 0.2 and again > 0.2
    assert limited < 0.05 and own < 0.05
    assert values == 1
    assert pools == [len(os.sched_getaffinity(0))]


CODE = """
import sys; sys.path[:0] = {paths!r}
import circe, test_threads
from conftest import Points
{before}
print([number.hex() for number in test_threads.answers(Points())], circe.get_threads())
"""


def fresh(before="circe.set_threads(2)", **environment):
    """answers() of a new interpreter, as text."""
    paths = [path for path in (str(Path(__file__).parent), *sys.path) if path]
    return run_python(CODE.format(paths=paths, before=before), **environment)


@pytest.mark.parametrize("variable", ["OMP_THREAD_LIMIT=1", "OMP_DYNAMIC=true", "OMP_MAX_ACTIVE_LEVELS=0", "OMP_NUM_THREADS=1",
                                      "OMP_NUM_THREADS=7", "OPENBLAS_NUM_THREADS=1"])
def test_variables(points, two_threads, variable):
    name, setting = variable.split("=")
    expected = str([number.hex() for number in answers(points)]) + " 2"
    assert fresh(**{name: setting}) == expected


def test_default_number():
    for count in (1, 2, 5):
        assert fresh("", OMP_NUM_THREADS=str(count)).endswith(f" {count}")
    one_of_many = fresh("import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})")
    assert one_of_many.endswith(" 1")


INTERRUPTED = """
import circe, numpy as np, os, signal, tempfile, threading, time, warnings
warnings.simplefilter("ignore")
y, z, x = np.random.default_rng(0).normal(size=(3, 4000))
x, z, gone = x + y, z + y, np.where(np.arange(4000) % 10 == 0, np.nan, x)
table = {{"x": x, "y": y, "z": z, "w": x + z, "group": np.where(z > 0, "a", "b")}}
roles = {{"features": ["x", "w"], "target": "y", "invariant_to": "z"}}
pairs = [("x", "z", "y"), ("w", "z", ["x", "y"])] * 10
many, wide = np.tile(y, 4).astype("f4"), np.random.default_rng(1).normal(size=(16000, 40)).astype("f4")
model = circe.ConditionalMean(sigma2_y=1.0, sigma2_z=1.0, ridge=1.0).fit(y[:500], z[:500])
circe.set_threads(2)
circe.train, circe.get_threads()  # loaded
sent = []
def interrupt():  # once more after long, as a person does: Python drops what is raised while an object is given back
    time.sleep(0.6)
    while True:
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
threading.Thread(target=interrupt, daemon=True).start()
try:
    with tempfile.TemporaryDirectory() as folder:
        while True:
            {call}
except KeyboardInterrupt:
    print(time.process_time() - sent[-1])
assert np.isfinite(circe.hsic(x[:100], z[:100]).value)  # the next call is none the worse
"""

LONG_CALLS = {
    **{name: f"circe.{name}(x, y, z, method='dense')" for name in ("kpc", "nocco", "hscic", "kci")},
    "circe": "circe.circe(wide, many, many, model, sigma2_x=1.0, grad=True)", "hsic": "circe.hsic(wide, wide, sigma2_x=1.0, sigma2_z=1.0)",
    "fit": "circe.ConditionalMean(method='dense').fit(y, z)",
    "features": "circe.ConditionalMean().fit(y, z).residual_features(np.tile(y, 200), np.tile(z, 200))",
    **{f"test {method}": f"circe.test(x, y, z, method='{method}', rows='all')"
       for method in ("kci", "circe", "rcot", "splitkci", "gcm", "wgcm", "pcm", "hsic")},
    "wild": "circe.test(x, y, z, null='wild', rows='all')", "forest": "circe.test(x, y, z, method='gcm', regressor='forest')",
    "impute": "circe.test(gone, y, z, missing='impute')", "calibrate": "circe.calibrate(x, y, z)", "effects": "circe.effects(x, y, z)",
    "many": "circe.test_many(table, pairs)", "many pcm": "circe.test_many(table, pairs, method='pcm')",
    "train": "circe.train(table, gamma=100, epochs=1000, **roles)", "gamma": "circe.train(table, gamma='auto', epochs=20, **roles)",
    "audit": "circe.audit(table, prediction='x', target='y', sensitive=['z', 'group'])",
    "sweep": "circe.sweep(table, {'gamma': [0, 10, 100], 'seed': range(20)}, epochs=20, **roles)",
    "experiment": "circe.experiment(sorted(circe.experiments())[0], output=folder)",
    "data": "circe.data('dsprites', output=folder + '/d')",
}


@pytest.mark.parametrize("name", LONG_CALLS)
def test_ctrl_c_in_a_long_call(name):
    """Half a second on two cores. Measured as processor time, because other processes may have the cores. Sanitizers make
    the loops three to five times as slow."""
    limit = 2 * 0.5 * (6 if os.environ.get("LD_PRELOAD") else 1)
    assert float(run_python(INTERRUPTED.format(call=LONG_CALLS[name]))) < limit


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
