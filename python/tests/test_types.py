"""Type checkers: mypy --strict finds every export with its type."""

import os
import subprocess
import sys

import pytest

import circe

pytest.importorskip("mypy")

PROGRAM = """
import numpy as np
import circe
import circe.sklearn
import circe.torch
from circe import ConditionalMean, TestResult, audit, train

y = np.zeros(3)
mean: ConditionalMean = ConditionalMean(sigma2_z=1.0).fit(y, y)
tested: TestResult = circe.test(y, y, y)
kernel: circe.Kernel = circe.gaussian(0.5) * circe.delta(columns=3)
value: float = circe.circe(y, y, y, mean).value
trained: circe.Training = train({"x": y}, features="x", target="x")
predicted: circe.Predictions = trained.predict({"x": y})
audited: circe.Audit = audit({"x": y}, prediction="x", target="x", sensitive="x")
calibrated: circe.Calibration = circe.calibrate(y, y, y)
known: circe.errors.CirceError = circe.DataError("text")
circe.set_threads(2)
wrong: int = circe.hsic(y, y)
also_wrong: int = circe.train({"x": y}, features="x", target="x")
"""


def test_every_export_has_a_type(tmp_path):
    names = [f"circe.{name}" for name in circe.__all__]
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "".join(f"reveal_type({name})\n" for name in names))
    package = os.path.dirname(os.path.dirname(circe.__file__))
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path), program.name],
                          cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "MYPYPATH": package})
    lines = done.stdout.splitlines()
    wrong = [line for line in lines if ": error:" in line]
    assert len(wrong) == 2 and '"Measurement"' in wrong[0] and '"Training"' in wrong[1], done.stdout
    revealed = [line for line in lines if "Revealed type" in line]
    assert len(revealed) == len(names)
    untyped = [name for name, line in zip(names, revealed) if line.endswith('"Any"')]
    assert not untyped


def test_a_star_import_leaves_the_package_alone():
    names = {}
    exec("import circe\nfrom circe import *", names)
    assert names["circe"] is circe and names["ConditionalMean"] is circe.ConditionalMean
