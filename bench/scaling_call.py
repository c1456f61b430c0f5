"""Times one call of the library on a number of threads, for bench/scaling.py.

    python scaling_call.py CASE THREADS SECONDS

Prints a list: milliseconds of each run after a first that is not counted, as many as fit into the seconds, at least 3; with 0
seconds, of one run alone. Data: y normal, z = y^2 + noise, x = y + noise, column by column; of low-rank fits, y uniform on
[0, 1] and z = y + noise, as in circe bench. CIRCE_LIBRARY names the build's library.
"""

import json
import sys
import time

import common

circe = common.package()

import numpy as np  # noqa: E402

MOST_RUNS = 200


def draw(rows, dim_x=1, dim_y=1, dim_z=1, dtype=np.float64, uniform=False):
    random = np.random.default_rng(7)
    y, x, z = (random.normal(size=(rows, dim)) for dim in (dim_y, dim_x, dim_z))
    if uniform:
        y = random.uniform(size=(rows, 1))
        return x, y, y + 0.05 * x
    of = lambda dim: y[:, np.arange(dim) % dim_y]
    return tuple(values.astype(dtype) for values in (of(dim_x) + 0.5 * x, y, 0.5 * of(dim_z) ** 2 + 0.3 * z))


def cached(rows, dim_x):
    """The model is one of other points than those that are measured, as in training."""
    x, y, z = draw(rows, dim_x, dtype=np.float32)
    features = circe.ConditionalMean(sigma2_z=1.0).fit(y[:1000], z[:1000]).residual_features(y, z, np.float32)
    return lambda: features.measure(x, sigma2_x=float(dim_x), grad=True)


def raw(rows):
    x, y, z = draw(rows, dtype=np.float32)
    mean = circe.ConditionalMean(sigma2_z=1.0).fit(y[:1000], z[:1000])
    return lambda: circe.circe(x, y, z, mean, sigma2_x=1.0, grad=True)


def measure(name, dim_x, dim, **widths):
    x, y, z = draw(1024, dim_x, dim, dim, np.float32)
    return lambda: circe.measure(name, x, y, z, sigma2_y=float(dim), ridge=0.01, grad=True, **widths)


def kernels(name, dim):
    return measure(name, dim, dim, sigma2_x=float(dim), sigma2_z=float(dim))


def fit(rows, method="auto", dim_y=1, uniform=False, **options):
    _, y, z = draw(rows, 1, dim_y, uniform=uniform)
    return lambda: circe.ConditionalMean(sigma2_z=1.0, method=method, **options).fit(y, z)


def test(method, rows):
    points = draw(rows)
    return lambda: circe.test(*points, method=method)


# The title of each case, and what makes its call.
CASES = {"circe_cached_4096_64": ("CIRCE cached, B = 4,096, d_x = 64", lambda: cached(4096, 64)),
         "circe_cached_1024_64": ("CIRCE cached, B = 1,024, d_x = 64", lambda: cached(1024, 64)),
         "circe_raw_1024_1": ("CIRCE raw, B = 1,024, d_x = 1", lambda: raw(1024)),
         "hscic_1024_10d": ("HSCIC, B = 1,024, 10-D y and z", lambda: kernels("hscic", 10)),
         "hscic_1024": ("HSCIC, B = 1,024, 1-D", lambda: kernels("hscic", 1)),
         "gcm_1024_10d": ("GCM, B = 1,024, 10-D", lambda: measure("gcm", 64, 10)),
         "gcm_1024": ("GCM, B = 1,024, 1-D", lambda: measure("gcm", 64, 1)),
         "kci_1024": ("KCI measure, B = 1,024, 1-D", lambda: kernels("kci", 1)),
         "fit_dense_2000": ("dense fit with the grid, 2,000 rows, 6-D", lambda: fit(2000, "dense", 6)),
         # one decomposition is nearly all of it
         "eigen_2000": ("eigendecomposition, n = 2,000", lambda: fit(2000, "dense", 6, sigma2_y=6.0, ridge=1.0)),
         "fit_5898": ("low-rank fit with the grid, 5,898 rows", lambda: fit(5898, uniform=True)),
         "fit_1000000": ("low-rank fit with the grid, a million rows", lambda: fit(1_000_000, uniform=True)),
         "fit_normal_1000000": ("the same, normal y", lambda: fit(1_000_000)),
         "test_kci_1000": ("test kci, 1,000 rows", lambda: test("kci", 1000)),
         "test_kci_4000": ("test kci, 4,000 rows", lambda: test("kci", 4000)),
         "test_gcm_4000": ("test gcm, 4,000 rows", lambda: test("gcm", 4000)),
         "test_rcot_100000": ("test rcot, 100,000 rows", lambda: test("rcot", 100_000))}

if __name__ == "__main__":
    case, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    circe.set_threads(threads)
    call = CASES[case][1]()
    if seconds > 0:
        taken = common.times(call, seconds, most=MOST_RUNS)
    else:
        begin = time.perf_counter()
        call()
        taken = [time.perf_counter() - begin]
    print(json.dumps([1e3 * one for one in taken]))
