"""OpenBLAS's kernels are those of the processor, also where OpenBLAS does not know it: for the command, for a program that
loads the library, and not against the user's will or while others may be computing.

old_blas.so, loaded first, makes the system's OpenBLAS an old one. CIRCE_BLAS_LIBRARY is the OpenBLAS of this build.
"""

import os
import re
import subprocess
import sys
import unittest

CIRCE, LIBRARY, BLAS, OLD = (os.environ[name] for name in ("CIRCE_BINARY", "CIRCE_LIBRARY", "CIRCE_BLAS_LIBRARY",
                                                          "CIRCE_OLD_BLAS"))

# Loads, in the order of the arguments: "blas", "circe", "thread" (one that sleeps). Prints the core and the note.
LOADER = """
import ctypes, os, sys, threading
for what in sys.argv[3:]:
    if what == "blas":
        ctypes.CDLL(sys.argv[2])
    elif what == "thread":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    else:
        circe = ctypes.CDLL(sys.argv[1])
circe.circe_blas_core.restype = circe.circe_blas_note.restype = ctypes.c_char_p
print(circe.circe_blas_core().decode(), "OPENBLAS_CORETYPE" in os.environ and "set" or "unset",
      (circe.circe_blas_note() or b"fine").decode(), sep="; ")
sys.stdout.flush()
os._exit(0)
"""


def environment(old, **more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    return {**kept, **({"LD_PRELOAD": OLD} if old else {}), **more}


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=True, **options)


def version(old, **more):
    """The core that the command names, and what it says on standard error."""
    done = run([CIRCE, "--version"], env=environment(old, **more))
    return re.search(r"OpenBLAS [0-9.]+ \((\w+)\)", done.stdout).group(1), done.stderr


def load(*order, old=True, **more):
    return run([sys.executable, "-c", LOADER, LIBRARY, BLAS, *order], env=environment(old, **more)).stdout.strip()


def flags():
    with open("/proc/cpuinfo") as lines:
        return next((set(line.split()) for line in lines if line.startswith("flags")), set())


HAS = flags()
BEST = "SkylakeX" if {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"} <= HAS else "Haswell|Zen"


@unittest.skipUnless({"avx2", "fma", "bmi2"} <= HAS, "a processor with AVX2 is needed to be newer than OpenBLAS")
class Cores(unittest.TestCase):
    def test_the_imitation_is_old(self):
        script = "import ctypes, sys; b = ctypes.CDLL(sys.argv[1]); b.openblas_get_corename.restype = ctypes.c_char_p; " \
                 "print(b.openblas_get_corename().decode())"
        self.assertEqual(run([sys.executable, "-c", script, BLAS], env=environment(True)).stdout.strip(), "Prescott")

    def test_command(self):
        core, said = version(True)
        self.assertRegex(core, BEST)
        self.assertEqual(said, "")

    def test_command_where_openblas_knows_the_processor(self):
        core, said = version(False)
        self.assertNotRegex(core, "Prescott|Nehalem")
        self.assertEqual(said, "")

    def test_command_newer_than_sse_but_older_than_the_processor(self):
        self.assertRegex(version(True, CIRCE_TEST_FIRST="SANDYBRIDGE")[0], BEST)

    def test_the_user_decides(self):
        core, said = version(True, OPENBLAS_CORETYPE="PRESCOTT")
        self.assertEqual(core, "Prescott")
        self.assertEqual(said.count("To make them faster, unset OPENBLAS_CORETYPE"), 1)
        core, said = version(False, OPENBLAS_CORETYPE="HASWELL")
        self.assertEqual((core, said), ("Haswell", ""))

    def test_library(self):
        self.assertRegex(load("circe"), rf"^({BEST}); unset; fine$")

    def test_library_brings_openblas_into_a_program_with_threads(self):
        self.assertRegex(load("thread", "circe"), rf"^({BEST}); unset; fine$")

    def test_openblas_was_there_and_nobody_computes(self):
        self.assertRegex(load("blas", "circe"), rf"^({BEST}); unset; fine$")

    def test_openblas_was_there_and_others_may_compute(self):
        self.assertRegex(load("blas", "thread", "circe"),
                         r"^Prescott; unset; OpenBLAS .*To make them faster, set OPENBLAS_CORETYPE=\w+ before the program starts\.$")

    def test_library_leaves_the_users_choice(self):
        self.assertRegex(load("circe", OPENBLAS_CORETYPE="PRESCOTT"), r"^Prescott; set; .*unset OPENBLAS_CORETYPE\.$")


if __name__ == "__main__":
    unittest.main()
