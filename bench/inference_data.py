"""Data sets with known answers for the tests of conditional independence: x, y, z as arrays (n, d).

circle        the toy of arXiv 2402.13196: y on the unit circle, x and z = y + noise of .05; dependent: the noise of the
              first coordinate is shared
postnonlinear x = f(a + e), z = g(a + e'), a = the sum of y over the root of its dimension; dependent: e has a part of e'
square        x = y + s^2, z = s: dependent, and no covariance shows it
sine          C normal, z = C + e, x = sin(beta C) ... the task sin(beta C) with f = cos, g = exp (arXiv 2512.14000)
insurance     California or Illinois car insurance: x the premium, z the minority share of the zip code, y the risk; null:
              premiums permuted within bins of risk, as published
"""

import csv
from pathlib import Path

import numpy as np


def circle(rng, n, dependent=False, noise=0.05):
    y = rng.standard_normal((n, 2))
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    e = noise * rng.standard_normal((n, 2))
    z = y + e
    x = y + noise * rng.standard_normal((n, 2))
    if dependent:
        x[:, 0] = y[:, 0] + e[:, 0]
    return x, y, z


def postnonlinear(rng, n, dim=1, dependent=False):
    y = rng.standard_normal((n, dim))
    a = y.sum(1, keepdims=True) / np.sqrt(dim)
    shared = 0.5 * rng.standard_normal((n, 1)) * dependent
    x = np.tanh(a + 0.5 * rng.standard_normal((n, 1)) + shared)
    z = (a + 0.5 * rng.standard_normal((n, 1)) + shared) ** 3
    return x, y, z


def square(rng, n):
    y, s = rng.standard_normal((2, n, 1))
    return y + s**2, y, s


def sine(rng, n, beta=3.0, dependent=False, noise=0.1, dim=1):
    """f = cos, g = exp: x = cos(C) + noise a, z = exp(C) + noise b; under dependence a and b share sin(beta C) times a
    common normal, a correlation that changes its sign along C."""
    y = rng.standard_normal((n, dim))
    c = y[:, :1]
    a, b, shared = rng.standard_normal((3, n, 1))
    if dependent:
        gamma = np.sin(beta * c)
        b = gamma * a + np.sqrt(1.0 - gamma**2) * b
    return np.cos(c) + noise * a, y, np.exp(c) + noise * b


def insurance(folder, state):
    """Rows by company: {company: (premium, risk, minority)}."""
    companies = {}
    with open(Path(folder) / "car_insurance" / f"{state}-per-zip.csv", newline="") as file:
        for row in csv.DictReader(file):
            try:
                values = float(row["combined_premium"]), float(row["state_risk"])
            except ValueError:
                continue
            if row["minority"] not in ("TRUE", "FALSE"):
                continue
            companies.setdefault(row["companies_name"], []).append((*values, float(row["minority"] == "TRUE")))
    return {name: tuple(np.array(column)[:, None] for column in zip(*rows)) for name, rows in companies.items()}


def insurance_null(rng, company, bins=20):
    """The company's rows with risks moved to the middle of bins and premiums permuted within them."""
    premium, risk, minority = company
    places = np.linspace(risk.min(), risk.max(), bins + 2)[1:-1]
    nearest = np.abs(risk - places[None]).argmin(1)
    permuted = premium.copy()
    for place in np.unique(nearest):
        rows = np.flatnonzero(nearest == place)
        permuted[rows] = premium[rng.permutation(rows)]
    return permuted, places[nearest][:, None], minority
