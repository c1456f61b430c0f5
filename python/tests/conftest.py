"""Data that the tests share, and what is skipped where something is not installed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import circe
from circe import _command

SOURCE = Path(__file__).resolve().parents[2]


class Points:
    """y, z = y^2 + noise on a holdout and on a batch; x follows z (guilty) or knows it only through y (innocent)."""

    def __init__(self, n=160, m=500, seed=0):
        random = np.random.default_rng(seed)
        self.Y = random.normal(size=(m, 1))
        self.Z = self.Y**2 + random.normal(size=(m, 1))
        self.y = random.normal(size=(n, 1))
        self.z = self.y**2 + random.normal(size=(n, 1))
        self.x = np.concatenate([self.z, np.sin(self.y)], axis=1) + 0.1 * random.normal(size=(n, 2))
        self.innocent = self.y**2 + random.normal(size=(n, 1))


@pytest.fixture(scope="session")
def points():
    return Points()


@pytest.fixture(scope="session")
def mean(points):
    return circe.ConditionalMean(sigma2_y=[1.0, 0.1], sigma2_z=1.0, method="lowrank").fit(points.Y, points.Z)


def run_python(code, **environment):
    """A fresh interpreter with this one's package; its output."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run_command(*arguments):
    """What the command prints."""
    done = subprocess.run([_command.command_path(), *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def gaussian(a, b, sigma2):
    return np.exp(-((a[:, None, :] - b[None, :, :]) ** 2).sum(-1) / (2 * sigma2))
