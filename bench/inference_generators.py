"""Named data sets with a known answer: x, y, z as arrays (n, d) for a generator of random numbers and n rows.

NULLS: x and z are independent given y. ALTERNATIVES: they are not. Each has its number of rows, and `kept` is true for
those that no setting of circe was chosen on.
"""

from dataclasses import dataclass
from typing import Callable

import numpy as np

import inference_data as data


@dataclass(frozen=True)
class Generator:
    name: str
    make: Callable
    n: int
    kept: bool = False

    def __call__(self, rng, n=None):
        return tuple(np.asarray(part, float).reshape(n or self.n, -1) for part in self.make(rng, n or self.n))


NULLS, ALTERNATIVES = {}, {}


def null(name, n, kept=False):
    return lambda make: NULLS.setdefault(name, Generator(name, make, n, kept)) and make


def alternative(name, n, kept=False):
    return lambda make: ALTERNATIVES.setdefault(name, Generator(name, make, n, kept)) and make


def normal(rng, n, d=1):
    return rng.standard_normal((n, d))


# ---- classes and values -------------------------------------------------------------------------------------------------


def classes(rng, n, rate_x, rate_z, levels=2):
    y = rng.integers(levels, size=n)
    tilt = 1 + 0.5 * np.cos(y)
    return rng.random(n) < rate_x * tilt, y, rng.random(n) < rate_z * tilt


null("sparse classes, 3 % x 2.5 %", 500)(lambda rng, n: classes(rng, n, 0.03, 0.025))
null("sparse classes, 3 % x 2.5 %, n = 2,000", 2000)(lambda rng, n: classes(rng, n, 0.03, 0.025))
null("classes, 10 % x 2 %", 1000)(lambda rng, n: classes(rng, n, 0.10, 0.02))
null("classes of 5, 4 % x 5 %", 800, kept=True)(lambda rng, n: classes(rng, n, 0.04, 0.05, 5))


def mixed(rng, n, dependent=0.0):
    """Classes and a number: the effect of the number changes from class to class."""
    group, age = rng.integers(3, size=n), rng.standard_normal(n)
    mean = np.where(group == 0, age, np.where(group == 1, -age, np.abs(age)))
    shared = dependent * rng.standard_normal(n)
    x, z = mean + 0.5 * rng.standard_normal(n) + shared, 2 * mean + rng.standard_normal(n) + shared
    return x, np.column_stack([group, age]), z


null("mixed, classes and a number", 500)(mixed)
null("mixed, rare classes of x and z", 500, kept=True)(
    lambda rng, n: (lambda y: (rng.random(n) < 0.03 * (1 + y[0]), np.column_stack(y), rng.random(n) < 0.04 * (1 + y[0])))(
        (rng.integers(2, size=n), rng.standard_normal(n))))
alternative("mixed, classes and a number", 500)(lambda rng, n: mixed(rng, n, 0.4))


def levels_of(rng, n, count):
    y = rng.integers(count, size=n)
    mean = np.random.default_rng(5).standard_normal((2, count))
    return mean[0][y] + 0.5 * rng.standard_normal(n), y, mean[1][y] + 0.5 * rng.standard_normal(n)


null("50 unordered levels", 2000)(lambda rng, n: levels_of(rng, n, 50))
null("120 unordered levels", 1000, kept=True)(lambda rng, n: levels_of(rng, n, 120))

# ---- one rough or skewed column -----------------------------------------------------------------------------------------


def waves(rng, n, frequency, noise):
    y = normal(rng, n)
    return np.sin(frequency * y) + noise * normal(rng, n), y, np.cos(frequency * y) + noise * normal(rng, n)


null("waves, sin(10 y)", 5000)(lambda rng, n: waves(rng, n, 10, 1.0))
null("waves, sin(4 y), noise .3", 5000)(lambda rng, n: waves(rng, n, 4, 0.3))
null("waves, sin(6 y), noise .5", 600, kept=True)(lambda rng, n: waves(rng, n, 6, 0.5))


def steps(rng, n, count, noise):
    y = rng.random(n)
    mean = np.random.default_rng(3).standard_normal((2, count))
    at = np.minimum((count * y).astype(int), count - 1)
    return mean[0][at] + noise * rng.standard_normal(n), y, mean[1][at] + noise * rng.standard_normal(n)


def jump(rng, n, noise=0.3):
    y = normal(rng, n)
    return (y > 0.3) + noise * normal(rng, n), y, (y > 0.3) + noise * normal(rng, n)


null("12 steps", 500)(lambda rng, n: steps(rng, n, 12, 0.3))
null("7 steps, n = 1,500", 1500, kept=True)(lambda rng, n: steps(rng, n, 7, 0.4))
null("one jump, noise .3", 500)(jump)
null("one jump, noise .3, n = 5,000", 5000)(jump)


def lognormal(rng, n, scale=1.0):
    y = np.exp(scale * normal(rng, n))
    return np.log(y) + 0.3 * normal(rng, n), y, np.log(y) + 0.3 * normal(rng, n)


null("lognormal y", 500)(lognormal)
null("pareto y", 600, kept=True)(
    lambda rng, n: (lambda y: (np.sqrt(np.log(y)) + 0.2 * normal(rng, n), y, np.log(y) + 0.3 * normal(rng, n)))(
        rng.random((n, 1)) ** (-1 / 1.5)))
null("x nearly determined", 500)(
    lambda rng, n: (lambda y: (y**2 + 0.01 * normal(rng, n), y, np.sin(2 * y) + 0.3 * normal(rng, n)))(normal(rng, n)))
null("z nearly determined", 500, kept=True)(
    lambda rng, n: (lambda y: (np.abs(y) + 0.3 * normal(rng, n), y, np.tanh(y) + 0.01 * normal(rng, n)))(normal(rng, n)))
null("heteroscedastic", 500)(
    lambda rng, n: (lambda y: (y + np.abs(y) * normal(rng, n), y, y + np.exp(y / 2) * normal(rng, n)))(normal(rng, n)))
null("heavy tails", 500, kept=True)(
    lambda rng, n: (lambda y: (y + rng.standard_t(3, (n, 1)), y, y + rng.standard_t(3, (n, 1))))(normal(rng, n)))
null("post-nonlinear, 1-D", 500)(lambda rng, n: data.postnonlinear(rng, n, 1))
null("circle", 200)(lambda rng, n: data.circle(rng, n))
null("hardness, 1-D", 400)(lambda rng, n: data.sine(rng, n))

# ---- many columns -------------------------------------------------------------------------------------------------------


def hardness(rng, n, separate, dependent=False):
    """The synthetic task of arXiv 2512.14000 in three dimensions: means by cos and exp, the noises' correlation by sin, all
    of the first column (shared) or each of its own (separate)."""
    y = normal(rng, n, 3)
    a, b = rng.standard_normal((2, n))
    if dependent:
        gamma = np.sin(3.0 * y[:, 2 if separate else 0])
        b = gamma * a + np.sqrt(1 - gamma**2) * b
    return np.cos(y[:, 0]) + 0.1 * a, y, np.exp(y[:, 1 if separate else 0]) + 0.1 * b


null("hardness, 3-D shared", 400)(lambda rng, n: hardness(rng, n, False))
null("hardness, 3-D shared, n = 1,200", 1200)(lambda rng, n: hardness(rng, n, False))
null("hardness, 3-D separate", 400, kept=True)(lambda rng, n: hardness(rng, n, True))
alternative("hardness, 3-D shared", 400)(lambda rng, n: hardness(rng, n, False, True))
alternative("hardness, 3-D separate", 400)(lambda rng, n: hardness(rng, n, True, True))
alternative("hardness, 1-D", 400)(lambda rng, n: data.sine(rng, n, dependent=True))


def linear(rng, n, dim, noise=1.0, rho=0.0):
    weights = np.random.default_rng(7).standard_normal((2, dim))
    y, e = normal(rng, n, dim), rng.standard_normal(n)
    f = rho * e + np.sqrt(1 - rho * rho) * rng.standard_normal(n)
    return y @ (weights[0] + weights[1]) + noise * e, y, y @ (weights[0] - 0.5 * weights[1]) + noise * f


def interaction(rng, n, dim, noise=0.5):
    y = normal(rng, n, dim)
    mean = np.sin(2 * y[:, :1]) + y[:, 1:2] * y[:, 2:3]
    return mean + noise * normal(rng, n), y, mean + noise * normal(rng, n)


def products(rng, n, dim):
    y = normal(rng, n, dim)
    mean = y.prod(1, keepdims=True)
    return mean + 0.2 * normal(rng, n), y, mean + 0.2 * normal(rng, n)


null("10-D linear", 500)(lambda rng, n: linear(rng, n, 10))
null("10-D sin(2 y1) + y2 y3", 500)(lambda rng, n: interaction(rng, n, 10))
null("10-D post-nonlinear", 500)(lambda rng, n: data.postnonlinear(rng, n, 10))
null("3-D post-nonlinear", 500)(lambda rng, n: data.postnonlinear(rng, n, 3))
null("5-D post-nonlinear", 500)(lambda rng, n: data.postnonlinear(rng, n, 5))
null("20-D linear", 800, kept=True)(lambda rng, n: linear(rng, n, 20))
null("products in 3-D", 500)(lambda rng, n: products(rng, n, 3))
null("products in 5-D", 500)(lambda rng, n: products(rng, n, 5))
null("6-D additive, sines and steps", 600, kept=True)(
    lambda rng, n: (lambda y, m: (m(y) + 0.4 * normal(rng, n), y, 2 * m(y) + 0.8 * normal(rng, n)))(
        rng.uniform(-2, 2, (n, 6)), lambda y: (np.sin(2 * y[:, :1]) + (y[:, 1:2] > 0) + 0.5 * y[:, 2:3] ** 2)))
null("8-D single index, kept", 500, kept=True)(
    lambda rng, n: (lambda y: (lambda a: (np.cos(a) + 0.3 * normal(rng, n), y, a**2 + 0.5 * normal(rng, n)))(
        y @ np.array([[1.0, -1, 1, 0.5, 0, 0, 0, 0]]).T / 2))(normal(rng, n, 8)))
null("4-D, two of them matter", 500, kept=True)(
    lambda rng, n: (lambda y: (np.sin(2 * y[:, :1]) * y[:, 1:2] + 0.3 * normal(rng, n), y,
                               np.cos(2 * y[:, :1]) + y[:, 1:2] + 0.3 * normal(rng, n)))(normal(rng, n, 4)))

# ---- kept aside: no setting was chosen on these ---------------------------------------------------------------------------


def common(mean, draw, noise_x=0.3, noise_z=0.3):
    """x and z are the same function of y, each with noise of its own: what both regressions miss is common."""

    def make(rng, n):
        y = draw(rng, n)
        m = mean(y)
        return m + noise_x * normal(rng, n), y, m + noise_z * normal(rng, n)

    return make


def column(y, c):
    return y[:, c : c + 1]


def normals(dim):
    return lambda rng, n: normal(rng, n, dim)


null("2-D checkerboard", 600, kept=True)(common(lambda y: np.sign(column(y, 0) * column(y, 1)), normals(2), 0.5, 0.5))
null("3-D radial, sin of the square", 500, kept=True)(common(lambda y: np.sin((y**2).sum(1, keepdims=True)), normals(3)))
null("5-D maximum and kink", 600, kept=True)(
    common(lambda y: y[:, :2].max(1, keepdims=True) + np.abs(column(y, 2)), normals(5)))
null("12-D, one product", 800, kept=True)(common(lambda y: column(y, 0) * column(y, 1), normals(12)))
null("7-D, two indices", 700, kept=True)(
    common(lambda y: np.tanh(2 * (column(y, 0) + column(y, 1))) + (column(y, 2) - column(y, 3)) ** 2 / 2, normals(7)))
null("sawtooth", 600, kept=True)(common(lambda y: y % 1, lambda rng, n: rng.uniform(0, 4, (n, 1)), 0.2, 0.2))
null("kink, n = 300", 300, kept=True)(common(np.abs, lambda rng, n: rng.uniform(-1, 1, (n, 1)), 0.1, 0.1))
null("counts", 500, kept=True)(common(np.sqrt, lambda rng, n: rng.poisson(20, (n, 1)), 0.2, 0.2))
null("linear, 3-D, n = 150", 150, kept=True)(common(lambda y: y.sum(1, keepdims=True), normals(3), 1.0, 1.0))
null("nothing depends on y, 5-D", 400, kept=True)(common(lambda y: 0 * column(y, 0), normals(5), 1.0, 1.0))

# ---- kept aside, second set: data as people have them ---------------------------------------------------------------------


def logistic(t):
    return 1 / (1 + np.exp(-t))


def flip(rng, chance):
    """0 or 1, row by row with the given chance."""
    return (rng.random(chance.shape) < chance).astype(float)


def two(mean_x, mean_z, draw, noise_x=0.3, noise_z=0.3):
    """x and z are functions of y with noise of their own."""

    def make(rng, n):
        y = draw(rng, n)
        return mean_x(y) + noise_x * normal(rng, n), y, mean_z(y) + noise_z * normal(rng, n)

    return make


def shared_log(y):
    return np.sign(y) * np.log1p(np.abs(y))


null("binary x, propensity of 3 columns", 500, kept=True)(
    lambda rng, n: (lambda y: (flip(rng, logistic(1.5 * column(y, 0) - column(y, 1))), y,
                               column(y, 0) + column(y, 1) ** 2 / 2 + normal(rng, n)))(normal(rng, n, 3)))
null("y of t, 2 degrees", 400, kept=True)(two(np.tanh, lambda y: y / (1 + np.abs(y)), lambda rng, n: rng.standard_t(2, (n, 1))))
null("Cauchy y", 400, kept=True)(common(shared_log, lambda rng, n: rng.standard_cauchy((n, 1))))
null("y rounded to halves", 300, kept=True)(
    two(lambda y: y**2 / 2, np.abs, lambda rng, n: np.round(2 * normal(rng, n)) / 2))
null("weekdays of a date", 1000)(
    common(lambda y: y % 7 >= 5, lambda rng, n: rng.integers(365, size=(n, 1)).astype(float), 0.5, 0.5))
null("zero-inflated y", 500, kept=True)(
    common(lambda y: np.log1p(y) + (y > 0), lambda rng, n: np.exp(normal(rng, n)) * (rng.random((n, 1)) < 0.4)))
null("counts given counts", 400, kept=True)(
    lambda rng, n: (lambda y: (rng.poisson(np.exp(0.3 * y)), y, rng.poisson(0.5 + 0.4 * y)))(rng.poisson(3, (n, 1))))
null("ordered categories", 300, kept=True)(
    lambda rng, n: (lambda y: (np.clip(np.round(y + normal(rng, n)), 1, 5), y, np.clip(np.round(6 - y + normal(rng, n)), 1, 5)))(
        rng.choice([1.0, 2, 3, 4, 5], (n, 1), p=[0.4, 0.3, 0.15, 0.1, 0.05])))
null("a class of y with 1 % of the rows", 500, kept=True)(
    common(lambda y: y**2, lambda rng, n: rng.choice([0.0, 1, 2], (n, 1), p=[0.9, 0.09, 0.01]), 0.5, 0.5))
null("rare x beside numbers", 1000, kept=True)(
    lambda rng, n: (lambda y: (flip(rng, logistic(1.5 * y - 4.5)), y, flip(rng, logistic(y - 1))))(normal(rng, n)))
null("an angle", 300, kept=True)(
    two(lambda y: np.cos(2 * y), lambda y: np.cos(2 * y) + np.sin(y), lambda rng, n: rng.uniform(0, 2 * np.pi, (n, 1))))
null("spikes", 600, kept=True)(
    common(lambda y: 2 * np.exp(-((y - np.linspace(0.1, 0.9, 5)) ** 2) / (2 * 0.02**2)).sum(1, keepdims=True),
           lambda rng, n: rng.random((n, 1))))
null("chirp", 500, kept=True)(common(lambda y: np.sin(30 * y**2), lambda rng, n: rng.random((n, 1))))
null("4-D, two products", 500, kept=True)(
    common(lambda y: column(y, 0) * column(y, 1) + column(y, 2) * column(y, 3), normals(4)))
null("4-D, signs and a line", 500, kept=True)(
    common(lambda y: np.sign(column(y, 0) * column(y, 1)) + column(y, 2), normals(4), 0.5, 0.5))
null("2-D, a jump across a line", 500, kept=True)(
    common(lambda y: (column(y, 0) + column(y, 1) > 0).astype(float), normals(2)))
null("2-D, a jump in one and a line in the other", 500, kept=True)(
    common(lambda y: (column(y, 0) > 0.3) + column(y, 1), normals(2)))
null("10-D, a wave in one", 500, kept=True)(common(lambda y: np.sin(3 * column(y, 0)), normals(10)))
null("20-D, a square in one", 400, kept=True)(common(lambda y: column(y, 0) ** 2, normals(20), 0.5, 0.5))
null("5 columns that are nearly one", 300, kept=True)(
    common(lambda y: np.sin(y.sum(1, keepdims=True) / 3), lambda rng, n: normal(rng, n) + 0.1 * normal(rng, n, 5)))
null("the difference of two near copies", 400, kept=True)(
    common(lambda y: (column(y, 0) - column(y, 1)) / 0.01,
           lambda rng, n: normal(rng, n) + np.hstack([np.zeros((n, 1)), 0.01 * normal(rng, n)])))
null("spread by the other's mean", 500, kept=True)(
    lambda rng, n: (lambda y: (column(y, 0) + np.exp(column(y, 1)) * normal(rng, n), y,
                               column(y, 1) + np.exp(column(y, 0)) * normal(rng, n)))(normal(rng, n, 2)))
null("common spread, no mean", 500, kept=True)(
    lambda rng, n: (lambda y: (np.abs(y) * normal(rng, n), y, y**2 * normal(rng, n)))(normal(rng, n)))
null("cubes, n = 50", 50, kept=True)(common(lambda y: y**3, normals(1)))
null("lines, 2-D, n = 100", 100, kept=True)(common(lambda y: y.sum(1, keepdims=True), normals(2), 0.5, 0.5))
null("little noise, n = 2,000", 2000, kept=True)(common(lambda y: 5 * np.sin(2 * y), normals(1), 0.1, 0.1))


def groups_of(rng, n, shares):
    return rng.choice(np.arange(len(shares)), (n, 1), p=shares).astype(float)


null("lines by unbalanced classes", 600, kept=True)(
    common(lambda y: (column(y, 0) - 1) * column(y, 1) + (column(y, 0) == 3) * 3,
           lambda rng, n: np.hstack([groups_of(rng, n, [0.6, 0.3, 0.08, 0.02]), normal(rng, n)]), 0.5, 0.5))
null("two switches and two numbers", 600, kept=True)(
    common(lambda y: column(y, 0) * column(y, 2) + column(y, 1) * column(y, 3) ** 2,
           lambda rng, n: np.hstack([flip(rng, np.full((n, 2), 0.5)), normal(rng, n, 2)])))
null("two modes of noise", 300, kept=True)(
    lambda rng, n: (lambda y: (np.sin(2 * y) + rng.choice([-1, 1], (n, 1)) + 0.1 * normal(rng, n), y,
                               np.cos(2 * y) + rng.exponential(1, (n, 1))))(normal(rng, n)))
null("y capped, ties at the end", 400, kept=True)(
    common(np.sqrt, lambda rng, n: np.minimum(np.exp(normal(rng, n)), 2.0), 0.1, 0.1))

# ---- kept aside, third set: jumps in any direction --------------------------------------------------------------------------


def nearest(y, places):
    """The place that is nearest to each row."""
    return ((y[:, None, :] - places[None]) ** 2).sum(2).argmin(1)


def regions(rng, n, count, dim=2, noise=0.5, shared=False):
    """Regions of a map, or of a space, each with a mean of its own for x and for z."""
    y = rng.random((n, dim))
    region, mean = nearest(y, rng.random((count, dim))), rng.standard_normal((2, count))
    return mean[0][region] + noise * rng.standard_normal(n), y, mean[0 if shared else 1][region] + noise * rng.standard_normal(n)


def half_spaces(rng, n, count, dim, noise=0.5):
    """Sums of jumps across random planes."""
    y, planes = normal(rng, n, dim), normal(rng, dim, count)
    side = y @ (planes / np.linalg.norm(planes, axis=0)) > rng.uniform(-1, 1, count)
    mean = side @ rng.standard_normal((count, 2))
    return mean[:, 0] + noise * rng.standard_normal(n), y, mean[:, 1] + noise * rng.standard_normal(n)


def index_steps(rng, n, count, dim, noise=0.4):
    """Steps along one direction of y."""
    y, direction = normal(rng, n, dim), normal(rng, dim)
    step = np.clip((y @ direction / np.linalg.norm(direction) + 2) / 4 * count, 0, count - 1).astype(int)[:, 0]
    mean = rng.standard_normal((2, count))
    return mean[0][step] + noise * rng.standard_normal(n), y, mean[1][step] + noise * rng.standard_normal(n)


null("15 regions of a map", 1000)(lambda rng, n: regions(rng, n, 15))
null("8 regions, the same means", 1000)(lambda rng, n: regions(rng, n, 8, shared=True))
null("40 regions of a map, n = 2,000", 2000, kept=True)(lambda rng, n: regions(rng, n, 40))
null("12 regions in 4-D", 1000, kept=True)(lambda rng, n: regions(rng, n, 12, 4))
null("10 planes in 3-D", 1000, kept=True)(lambda rng, n: half_spaces(rng, n, 10, 3))
null("12 steps of an index, 4-D", 1000, kept=True)(lambda rng, n: index_steps(rng, n, 12, 4))
HOLIDAYS = [0, 1, 120, 121, 200, 201, 202, 203, 358, 359, 360]
null("holidays of a date", 700, kept=True)(
    common(lambda y: np.sin(2 * np.pi * y / 365) + 2 * np.isin(y % 365, HOLIDAYS),
           lambda rng, n: rng.integers(730, size=(n, 1)).astype(float), 0.5, 0.5))

# ---- kept aside, fourth set: what nearest rows do not show -------------------------------------------------------------------


def staircase(rng, n, noise=0.5):
    """Steps along one of three columns, and a line along another."""
    y = normal(rng, n, 3)
    mean = np.floor(2 * column(y, 0)) / 2 + column(y, 1)
    return mean + noise * normal(rng, n), y, mean + noise * normal(rng, n)


def clusters(rng, n, count, dim, spread=0.25):
    """Rows around centres, each centre with means of its own."""
    centres = normal(rng, count, dim)
    y = centres[rng.integers(count, size=n)] + spread * normal(rng, n, dim)
    mean = rng.standard_normal((2, count))[:, nearest(y, centres)]
    return mean[0] + 0.5 * rng.standard_normal(n), y, mean[1] + 0.5 * rng.standard_normal(n)


def ages(rng, n):
    return rng.uniform(18, 90, (n, 1))


def brackets(income):
    return np.log(income) + 0.4 * (income > 0.8) + 0.4 * (income > 2) + 0.4 * (income > 4)


null("staircase in 3-D", 1000)(staircase)
null("staircase in 3-D, n = 5,000", 5000)(staircase)
null("8 clusters in 3-D", 600, kept=True)(lambda rng, n: clusters(rng, n, 8, 3))
null("age limits, n = 25,000", 25000, kept=True)(
    common(lambda y: 0.02 * y + 0.3 * (y >= 21) + 0.5 * (y >= 65), ages, 0.5, 0.5))
null("5 regions of a map", 600, kept=True)(lambda rng, n: regions(rng, n, 5))
null("shells in 3-D", 1000, kept=True)(
    common(lambda y: np.floor(2 * np.sqrt((y**2).sum(1, keepdims=True))) % 3 / 2, normals(3), 0.5, 0.5))
null("two staircases in 5-D", 1500, kept=True)(
    common(lambda y: np.round(1.5 * column(y, 0)) / 1.5 + np.round(1.5 * column(y, 3)) / 1.5, normals(5), 0.5, 0.5))
null("tiles in 2-D", 1200, kept=True)(
    common(lambda y: (np.floor(column(y, 0) + column(y, 1)) + np.floor(column(y, 0) - column(y, 1))) % 2,
           lambda rng, n: rng.uniform(0, 3, (n, 2)), 0.5, 0.5))
null("brackets of an income, 2-D", 2000, kept=True)(
    common(lambda y: brackets(column(y, 0)) + 0.5 * np.sin(2 * column(y, 1)),
           lambda rng, n: np.hstack([np.exp(normal(rng, n)), normal(rng, n)]), 0.5, 0.5))
null("scores with thresholds, 3-D", 800, kept=True)(
    common(lambda y: 0.05 * column(y, 0) + (column(y, 0) > 23) + (column(y, 1) > 30) * (column(y, 2) > 0),
           lambda rng, n: np.hstack([rng.integers(41, size=(n, 2)).astype(float), normal(rng, n)]), 0.5, 0.5))
null("5 tilted planes in 5-D", 1000, kept=True)(lambda rng, n: half_spaces(rng, n, 5, 5))
null("waves in 3-D", 800, kept=True)(
    two(lambda y: np.sin(2 * column(y, 0)) + column(y, 1), lambda y: np.cos(2 * column(y, 0)) - column(y, 2), normals(3), 0.5, 0.5))

# ---- alternatives -------------------------------------------------------------------------------------------------------


def correlated(rng, n, rho, dim=1):
    return linear(rng, n, dim, 1.0, rho)


alternative("rho = .2", 500)(lambda rng, n: correlated(rng, n, 0.2))
alternative("rho = .2, 5-D", 500)(lambda rng, n: correlated(rng, n, 0.2, 5))
alternative("rho = .3, 10-D", 500, kept=True)(lambda rng, n: correlated(rng, n, 0.3, 10))
alternative("square", 500)(lambda rng, n: data.square(rng, n))
alternative("sine", 500)(lambda rng, n: data.sine(rng, n, dependent=True))
alternative("circle", 200)(lambda rng, n: data.circle(rng, n, dependent=True))
alternative("post-nonlinear, 3-D", 500)(lambda rng, n: data.postnonlinear(rng, n, 3, dependent=True))
alternative("variance", 500, kept=True)(
    lambda rng, n: (lambda y, z: (y + np.exp(0.7 * z) * normal(rng, n), y, y + z))(normal(rng, n), normal(rng, n)))


def hyppo_like(kind, rng, n, dim=1):
    """Markov triples of textbooks: x -> y -> z has none, x <- y -> z none, a common cause beside y has some."""
    y, hidden = normal(rng, n, dim), normal(rng, n)
    x, z = y[:, :1] + normal(rng, n), np.tanh(y[:, :1]) + normal(rng, n)
    if kind == "linear":
        return x + 0.5 * hidden, y, z + 0.5 * hidden
    if kind == "quadratic":
        return x + hidden, y, z + hidden**2
    if kind == "sine":
        return x + hidden, y, z + np.sin(3 * hidden)
    angle = rng.uniform(0, 2 * np.pi, (n, 1))
    return y[:, :1] + 2 * np.cos(angle) + 0.3 * x, y, 2 * np.sin(angle) + 0.3 * z


for _kind in ("linear", "quadratic", "sine", "circle"):
    alternative(f"hidden cause, {_kind}", 400, kept=_kind in ("sine", "quadratic"))(
        lambda rng, n, kind=_kind: hyppo_like(kind, rng, n))

# ---- alternatives kept aside: no bound of trust was chosen on these ----------------------------------------------------------


def smooth_pair(rng, n, dim, noises, scale=0.5):
    """Smooth means of random directions, with these noises of x and z."""
    y = normal(rng, n, dim)
    means = [np.sin(y @ (1.5 * rng.standard_normal(dim) / np.sqrt(dim)) + rng.uniform(0, 6)) + y @ rng.standard_normal(dim) / dim
             for _ in range(2)]
    e, f = noises(rng, y)
    return means[0] + scale * e, y, means[1] + scale * f


def correlated_noise(rho, draw=lambda rng, n: rng.standard_normal(n)):
    def make(rng, y):
        e, f = draw(rng, len(y)), draw(rng, len(y))
        return e, rho * e + np.sqrt(1 - rho * rho) * f

    return make


def bent_noise(rng, y):
    e, f = rng.standard_normal((2, len(y)))
    return e, 0.5 * (e**2 - 1) + f


def wave_noise(rng, y):
    e, f = rng.standard_normal((2, len(y)))
    rho = np.sin(2 * y[:, 0])
    return e, rho * e + np.sqrt(1 - rho**2) * f


for _dim in (1, 2, 3, 4):
    alternative(f"smooth, {_dim}-D, rho = .3", 400, kept=True)(
        lambda rng, n, dim=_dim: smooth_pair(rng, n, dim, correlated_noise(0.3)))
alternative("smooth, 3-D, rho = .15, n = 2,000", 2000, kept=True)(lambda rng, n: smooth_pair(rng, n, 3, correlated_noise(0.15)))
alternative("smooth, 2-D, t of 3 degrees, rho = .3", 600, kept=True)(
    lambda rng, n: smooth_pair(rng, n, 2, correlated_noise(0.3, lambda rng, n: rng.standard_t(3, n))))
alternative("smooth, 3-D, bent noise", 500, kept=True)(lambda rng, n: smooth_pair(rng, n, 3, bent_noise))
alternative("smooth, 2-D, the correlation waves", 500, kept=True)(lambda rng, n: smooth_pair(rng, n, 2, wave_noise))
alternative("binary x, 3-D", 800, kept=True)(
    lambda rng, n: (lambda y, e: (flip(rng, logistic(column(y, 0) - column(y, 1) + e)), y, np.sin(column(y, 1)) + e))(
        normal(rng, n, 3), normal(rng, n)))
alternative("staircase in 3-D, rho = .5", 1000, kept=True)(
    lambda rng, n: (lambda y, e: (np.floor(2 * column(y, 0)) / 2 + column(y, 1) + 0.5 * e, y,
                                  np.floor(2 * column(y, 0)) / 2 + column(y, 1) + 0.25 * e + 0.43 * normal(rng, n)))(
        normal(rng, n, 3), normal(rng, n)))
