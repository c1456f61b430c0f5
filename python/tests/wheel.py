"""Builds the wheel as pip does, installs it alone into a fresh environment, and uses it away from the sources.

    python wheel.py [--keep FOLDER]

Needs pip, and PyPI (or a cache of it) for scikit-build-core and NumPy. About a minute.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]

USE = """
import circe, numpy as np, sys, time
assert "circe/_bundle/lib" in circe.build_info()["library"], circe.build_info()
y = np.random.default_rng(0).normal(size=600)
mean = circe.ConditionalMean(sigma2_z=1.0).fit(y[:300], y[:300] ** 2)
assert circe.circe(y[300:], y[300:], y[300:] ** 2, mean).value >= 0
mean.save("mean.safetensors")
loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
outside = {path for path in loaded if "blas" in path or "gomp" in path or "gfortran" in path or "cjson" in path}
assert all("site-packages" in path for path in outside), outside
print("circe", circe.__version__)
"""


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", help="leave the wheel here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="circe-wheel-") as folder:
        wheels = Path(options.keep or folder)
        run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", wheels, SOURCE)
        (wheel,) = wheels.glob("circe-*.whl")
        assert "-py3-none-" in wheel.name, wheel.name  # one for every CPython
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        venv.create(Path(folder) / "environment", with_pip=True)
        python = Path(folder) / "environment" / "bin" / "python"
        run(python, "-m", "pip", "install", "-q", wheel)
        clean = {name: value for name, value in os.environ.items()
                 if name not in ("PYTHONPATH", "CIRCE_LIBRARY", "CIRCE_COMMAND", "LD_LIBRARY_PATH")}
        run(python, "-c", USE, cwd=folder, env=clean)
        run(python, "-m", "circe", "measure", "hsic", "--help", cwd=folder, env=clean, stdout=subprocess.DEVNULL)
    print("the wheel works by itself")


if __name__ == "__main__":
    main()
