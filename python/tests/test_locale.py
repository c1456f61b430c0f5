"""Numbers have a decimal point wherever they are read and written, also in a program that has chosen a locale with a comma."""

import shutil
import subprocess

import pytest

from conftest import run_python

# Options, kernels, models, results and reports, all of which are texts on their way.
CODE = """
import hashlib, json, locale, os, re, warnings
if os.environ.get("LOCPATH"):
    locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
    assert locale.localeconv()["decimal_point"] == ","
import numpy as np, circe
random = np.random.default_rng(1)
y, e = random.normal(size=(2, 300))
table = {"x": y + e, "w": y + random.normal(size=300), "y": y, "e": e}
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    mean = circe.ConditionalMean(sigma2_y=[1.5, 0.15], sigma2_z=0.5, ridge=[0.25]).fit(y[:, None], e[:, None])
    mean.save("mean.safetensors")
    model = circe.train(table, features=["x", "w"], target="y", invariant_to="e", gamma=2.5, lr=0.015, epochs=2, batch=64, net="8")
    model.report("report")
    audit = circe.audit(table, prediction="x", target="y", sensitive="e", calibrate=0)
answers = [circe.hsic(table["x"][:, None], e[:, None], sigma2_x=0.5, sigma2_z=0.25).value,
           circe.ConditionalMean.load("mean.safetensors").residual_features(y[:, None], e[:, None]).measure(table["x"][:, None], sigma2_x=0.5).value,
           circe.test(table["x"], e, y, method="gcm").p_value, re.sub("seconds=[^,)]*", "", str(model)), str(audit), [str(w.message) for w in told]]
for name in sorted(os.listdir("report")):
    if name.endswith(".csv"):
        with open("report/" + name) as file:
            lines = file.read().splitlines()
        times = lines[0].endswith(",seconds")  # of the epochs, which no two runs share
        lines = [line.rpartition(",")[0] if times else line for line in lines]
        answers.append([name, hashlib.sha256("".join(lines).encode()).hexdigest()])
print(json.dumps(answers))
"""


def test_a_decimal_comma_changes_nothing(tmp_path, monkeypatch):
    made = shutil.which("localedef") and subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"], capture_output=True).returncode == 0
    if not made:
        pytest.skip("there is no locale with a decimal comma")
    answers = []
    for folder, path in (("point", ""), ("comma", str(tmp_path))):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        answers.append(run_python(CODE, LOCPATH=path))
    assert answers[0] == answers[1]
