"""Runs the tests on the first of some interpreters that has NumPy and pytest; exit status 77 (skipped) where none has, or
where every test was skipped.

    python3 run.py LIBRARY COMMAND INTERPRETER... [-- files and options of pytest]

LIBRARY and COMMAND are those of a build tree. CIRCE_PRELOAD names the sanitizers' runtimes where it was built with them. Needs
nothing but the standard library itself.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NEEDED = "import sys, importlib.util as u; sys.exit(not (u.find_spec('numpy') and u.find_spec('pytest')))"  # which does not load them


def usable(interpreter):
    try:
        return subprocess.run([interpreter, "-c", NEEDED], capture_output=True).returncode == 0
    except OSError:
        return False


def main():
    library, command, *rest = sys.argv[1:]
    cut = rest.index("--") if "--" in rest else len(rest)
    interpreters, options = rest[:cut], rest[cut + 1:]
    found = next((path for path in interpreters if usable(path)), None)
    if found is None:
        print(f"skipped: none of {', '.join(interpreters)} has NumPy and pytest (Debian: python3-numpy python3-pytest)")
        return 77
    environment = {**os.environ, "PYTHONPATH": f"{HERE.parent}{os.pathsep}{HERE}", "CIRCE_LIBRARY": library,
                   "CIRCE_COMMAND": command}
    environment.setdefault("MALLOC_PERTURB_", "165")  # what was freed reads as nonsense: its use is seen
    environment.setdefault("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")  # and is not kept as it was
    if environment.get("CIRCE_PRELOAD"):
        environment["LD_PRELOAD"] = environment["CIRCE_PRELOAD"].strip()
    print(f"tests of the Python package on {found}", flush=True)
    return subprocess.run([found, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "skips", "--durations=5",
                           *(options or [str(HERE)])], cwd=HERE, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
