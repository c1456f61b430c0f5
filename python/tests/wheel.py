"""Tries wheels where they are to work: in fresh environments, away from the sources, and on an old system's Python.

    python wheel.py [--wheel FILE]... [--tests]

Without --wheel: one that is built here. A manylinux wheel is also used on the Python and the C library of the old Debian that it
was built on (scripts/setup.sh wheel), one for 64-bit ARM there alone, under qemu. --tests: also run the tests of the package on
what was installed (needs PyPI for pytest). Needs pip, and PyPI (or a cache of it). About two minutes a wheel.
"""

import argparse
import os
import re
import shutil
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
print("circe", circe.__version__, circe.build_info()["blas"])
"""
POOLS = """
import threadpoolctl
pools = [pool for pool in threadpoolctl.threadpool_info() if "circe/_bundle/lib" in pool["filepath"]]
(blas,) = [pool for pool in pools if pool["user_api"] == "blas"]
assert circe.build_info()["blas"] == "OpenBLAS " + blas["version"] and blas["architecture"] == circe.build_info()["blas_core"]
assert tuple(map(int, blas["version"].split(".")[:3])) >= (0, 3, 30), blas
"""


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, **options)


def glibc_of(wheel):
    """The newest glibc that anything in the wheel asks for, by the versions that it needs."""
    found = set()
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        for name in archive.namelist():
            if archive.read(name)[:4] == b"\x7fELF":
                said = run("readelf", "-V", archive.extract(name, folder), capture_output=True, text=True).stdout
                found |= {tuple(map(int, version.split("."))) for version in re.findall(r"Name: GLIBC_(\d+\.\d+)\b", said)}
    return max(found)


def make(folder):
    plain = release.build(folder)
    assert "-py3-none-" in plain.name, plain.name  # one for every CPython
    if not release.has_auditwheel():
        print("not tagged: no auditwheel here")
        return plain
    return release.tag(plain, folder)


def clean(**more):
    kept = {name: value for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "CIRCE_LIBRARY", "CIRCE_COMMAND", "LD_LIBRARY_PATH")}
    return {**kept, **more}


def try_here(wheel, folder, tests):
    venv.create(folder / "environment", with_pip=True)
    python = folder / "environment" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", wheel, "threadpoolctl")
    run(python, "-c", USE + POOLS, cwd=folder, env=clean())
    for command in ([python, "-m", "circe"], [folder / "environment" / "bin" / "circe"]):
        run(*command, "measure", "hsic", "--help", cwd=folder, env=clean(), stdout=subprocess.DEVNULL)
    if tests:
        run(python, "-m", "pip", "install", "-q", "pytest")
        run(python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", SOURCE / "python" / "tests", cwd=folder, env=clean())


def old_python(arch):
    """The command of the Python of the old system, with its own C library."""
    root = release.OLD / arch / "sysroot"
    (python,) = (path for path in (root / "usr" / "bin").glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name))
    (loader,) = root.glob("lib*/ld-linux-*.so.*") if arch == "x86_64" else root.glob("lib/ld-linux-aarch64.so.1")
    where = ":".join(str(root / part / f"{arch}-linux-gnu") for part in ("lib", "usr/lib"))
    emulator = [] if arch == "x86_64" else ["qemu-aarch64", "-cpu", "neoverse-n1", "-L", root]  # without SVE, which it gets wrong
    return [*emulator, loader, "--library-path", where, python], python.name


def try_on_old(wheel, arch, folder):
    """As pip would unpack it, beside the NumPy of that Python."""
    if not (release.OLD / arch / "sysroot" / "ready").exists() or (arch != "x86_64" and not shutil.which("qemu-aarch64")):
        print(f"not tried on an old system: scripts/setup.sh wheel brings what {arch} needs")
        return
    command, name = old_python(arch)
    place = release.fetch(arch, folder / "site-packages", "numpy", python=name[len("python"):])
    zipfile.ZipFile(wheel).extractall(place)
    home = release.OLD / arch / "sysroot" / "usr"
    run(*command, "-c", USE, cwd=folder, env=clean(PYTHONPATH=str(place), PYTHONHOME=str(home), OPENBLAS_NUM_THREADS="1"))


def try_out(wheel, tests):
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    tag = re.search(r"-py3-none-manylinux_(\d+)_(\d+)_(\w+)", wheel.name)
    if tag:
        assert tuple(map(int, tag.groups()[:2])) >= glibc_of(wheel), (wheel.name, glibc_of(wheel))
    with tempfile.TemporaryDirectory(prefix="circe-wheel-") as folder:
        if tag is None or tag[3] == os.uname().machine:
            try_here(wheel, Path(folder), tests)
        if tag and (int(tag[1]), int(tag[2])) <= (2, 31):
            try_on_old(wheel, tag[3], Path(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, action="append")
    parser.add_argument("--tests", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="circe-wheel-") as folder:
        for wheel in options.wheel or [make(Path(folder))]:
            try_out(wheel.resolve(), options.tests)
    print("the wheels work by themselves")


if __name__ == "__main__":
    main()
