"""The doors between the rooms open one way: no file includes a header of a room that its own may not enter.

    python3 tests/rooms.py PROJECT

docs/architecture.md has the rooms. Exit status 1, with a line for every include that goes the wrong way."""

import pathlib
import re
import sys

LIB = {"core", "files", "backend", "kernels", "cme", "measures", "inference", "cuda"}
DOORS = {  # what each room may include beside itself and circe/
    "base": {"core", "files"},
    "io": {"base", "core", "files"},
    "train": {"base", "core", "files", "cuda"},
    "images": {"train", "io", "base", "core", "files"},
    "report": {"base", "core", "files"},
    "mpi": {"base", "core", "cme"},
    "sweep": {"mpi", "io", "base", "core"},
    "jobs": {"sweep", "mpi", "report", "images", "train", "io", "base", "core", "files"},
    "paper": {"jobs", "sweep", "mpi", "report", "images", "train", "io", "base", "core"},
    "cli": {"paper", "jobs", "sweep", "mpi", "report", "images", "train", "io", "base", "core"},
    "core": set(),
    "files": {"core"},
    "backend": {"core"},
    "kernels": {"backend", "core"},
    "cme": {"kernels", "backend", "core", "files"},
    "measures": {"cme", "kernels", "backend", "core"},
    "cuda": {"measures", "cme", "kernels", "backend", "core"},
    "inference": {"measures", "cme", "kernels", "backend", "core"},
}
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.M)


def room_of(path):
    """lib/cme/fit.c is of cme, jobs/train.c of jobs."""
    return path.parts[1] if path.parts[0] == "lib" else path.parts[0]


def main():
    project, wrong, files = pathlib.Path(sys.argv[1]), 0, 0
    for top in ("lib", *sorted(set(DOORS) - LIB)):
        for path in sorted((project / top).rglob("*")):
            if path.suffix not in (".c", ".h", ".inc", ".cu", ".cuh"):
                continue
            inside = path.relative_to(project)
            room = room_of(inside)
            files += 1
            for included in INCLUDE.findall(path.read_text(errors="replace")):
                target = included.split("/")[0]
                if target in DOORS and target != room and target not in DOORS[room]:
                    print(f'{inside} includes "{included}": {room} may not enter {target}')
                    wrong += 1
    print(f"{files} files, {wrong} includes that go the wrong way")
    return 1 if wrong or files < 300 else 0


if __name__ == "__main__":
    sys.exit(main())
