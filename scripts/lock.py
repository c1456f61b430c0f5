"""Pins the packages of the .in files, for every Python from 3.11 on, with the hashes of their files for Linux.

    python scripts/lock.py [--upgrade]

Run it after you change one of them, or to get newer versions. Needs uv (pip install uv).
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ANY = re.compile(r"-none-any\.whl$")
# CPython from 3.11 on with its lock, the C library of Debian and Ubuntu, the processors of the wheels and of CI.
OURS = re.compile(r"-(none|abi3|cp3(1[1-9]|[2-9]\d))-(many)?linux[\w.]*_(x86_64|aarch64)[\w.]*\.whl$")


def hashes(package):
    """Of its wheels; of its source too, unless a wheel goes anywhere."""
    wheels = {file["url"].rsplit("/", 1)[-1]: file["hashes"]["sha256"] for file in package.get("wheels", ())}
    kept = {digest for name, digest in wheels.items() if ANY.search(name) or OURS.search(name)}
    if "sdist" in package and not any(map(ANY.search, wheels)):
        kept.add(package["sdist"]["hashes"]["sha256"])
    return sorted(kept)


def lock(requirements, options):
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "pylock.toml"
        subprocess.run(["uv", "pip", "compile", "-q", "--universal", "--python-version", "3.11", "--format", "pylock.toml", *options,
                        f"{requirements}.in", "-o", str(found)], cwd=ROOT, check=True)
        packages = tomllib.loads(found.read_text())["packages"]
    with open(ROOT / f"{requirements}.txt", "w") as out:
        for package in packages:
            marker = f" ; {package['marker']}" if "marker" in package else ""
            lines = [f"{package['name']}=={package['version']}{marker}", *(f"--hash=sha256:{digest}" for digest in hashes(package))]
            out.write(" \\\n    ".join(lines) + "\n")


for name in ("python/requirements", "scripts/requirements-cuda"):
    lock(name, ["--upgrade"] if "--upgrade" in sys.argv else ["-c", f"{name}.txt"])
