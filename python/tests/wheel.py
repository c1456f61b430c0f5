"""Builds the wheel, tags it where auditwheel is here, installs it alone into a fresh environment, and uses it away from the
sources.

    python wheel.py [--wheel FILE] [--tests]

--wheel: one that was built before. --tests: also run the tests of the package on what was installed (needs PyPI for pytest).
Needs pip, and PyPI (or a cache of it) for scikit-build-core and NumPy. About two minutes.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "python"))

import release

USE = """
import circe, numpy as np, sys, time
assert "circe/_bundle/lib" in circe.build_info()["library"], circe.build_info()
y = np.random.default_rng(0).normal(size=600)
mean = circe.ConditionalMean(sigma2_z=1.0).fit(y[:300], y[:300] ** 2)
assert circe.circe(y[300:], y[300:], y[300:] ** 2, mean).value >= 0
mean.save("mean.safetensors")
assert circe.test(y[:100], y[100:200], y[200:300]).p_value > 0
table = {"x": y, "b": y**2, "z": y[::-1]}
trained = circe.train(table, features="x", target="b", invariant_to="z", gamma=1, epochs=1, net="8")
assert trained.predict(table).values.shape == (600, 1)
table["guess"] = trained.predict(table).values[:, 0]
assert circe.audit(table, prediction="guess", target="b", sensitive="z", calibrate=0).findings[0].p_value > 0
loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
outside = {path for path in loaded if "blas" in path or "gomp" in path or "gfortran" in path or "cjson" in path}
assert all("site-packages" in path for path in outside), outside
assert len([path for path in loaded if "gomp" in path]) <= 1, loaded   # one OpenMP
import threadpoolctl
pools = [pool for pool in threadpoolctl.threadpool_info() if "circe/_bundle/lib" in pool["filepath"]]
(blas,) = [pool for pool in pools if pool["user_api"] == "blas"]
assert circe.build_info()["blas"] == "OpenBLAS " + blas["version"] and blas["architecture"] == circe.build_info()["blas_core"]
assert tuple(map(int, blas["version"].split(".")[:3])) >= (0, 3, 30), blas
print("circe", circe.__version__)
"""


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, **options)


def glibc_of(wheel):
    """The newest glibc that anything in the wheel asks for, by its own symbols."""
    found = set()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            if data[:4] == b"\x7fELF":
                found |= {tuple(map(int, version.split(b"."))) for version in re.findall(rb"GLIBC_(\d+\.\d+)\b", data)}
    return max(found)


def make(folder):
    plain = release.build(folder)
    assert "-py3-none-" in plain.name, plain.name  # one for every CPython
    if not release.has_auditwheel():
        print("not tagged: no auditwheel here")
        return plain
    tagged = release.tag(plain, folder)
    major, minor = map(int, re.search(r"-py3-none-manylinux_(\d+)_(\d+)_x86_64", tagged.name).groups())
    assert (major, minor) == glibc_of(tagged), (tagged.name, glibc_of(tagged))
    return tagged


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--tests", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="circe-wheel-") as folder:
        wheel = options.wheel.resolve() if options.wheel else make(Path(folder))
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        venv.create(Path(folder) / "environment", with_pip=True)
        python = Path(folder) / "environment" / "bin" / "python"
        run(python, "-m", "pip", "install", "-q", wheel, "threadpoolctl")
        clean = {name: value for name, value in os.environ.items()
                 if name not in ("PYTHONPATH", "CIRCE_LIBRARY", "CIRCE_COMMAND", "LD_LIBRARY_PATH")}
        run(python, "-c", USE, cwd=folder, env=clean)
        run(python, "-m", "circe", "measure", "hsic", "--help", cwd=folder, env=clean, stdout=subprocess.DEVNULL)
        if options.tests:
            run(python, "-m", "pip", "install", "-q", "pytest")
            run(python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", SOURCE / "python" / "tests", cwd=folder, env=clean)
    print("the wheel works by itself")


if __name__ == "__main__":
    main()
