"""The command gives the same digits, in time, whatever threads it is granted: under limits of OpenMP's, on fewer processors
than threads, under a quota of processor time, on a busy machine, and with LLVM's OpenMP in the place of GCC's.

Results depend on --threads by rounding, and on nothing else: every setting is compared with a run of the same --threads in a
quiet environment. Networks for images are the exception, since oneDNN's sums depend on the threads that OpenMP grants: they
are compared within a tolerance.

Only the Python standard library is needed. CIRCE_BINARY names the command to test; CIRCE_IMAGES=0 says that it was built
without oneDNN."""

import glob
import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import time
import unittest

from cli_support import BINARY, CliTest, npy_bytes

SECONDS = 120  # what a command may take: a hundred times what it needs, and a hang takes longer
CORES = len(os.sched_getaffinity(0))
SETTINGS = {
    "OMP_THREAD_LIMIT=1": {"OMP_THREAD_LIMIT": "1"},
    "OMP_THREAD_LIMIT=2": {"OMP_THREAD_LIMIT": "2"},
    "OMP_MAX_ACTIVE_LEVELS=0": {"OMP_MAX_ACTIVE_LEVELS": "0"},
    "OMP_NUM_THREADS=7": {"OMP_NUM_THREADS": "7"},
    "one place": {"OMP_NUM_THREADS": "3,2", "OMP_PROC_BIND": "true", "OMP_PLACES": "{0}"},
    "threads that spin, with little stack": {"OMP_WAIT_POLICY": "active", "OMP_STACKSIZE": "256k"},
    "OMP_NESTED": {"OMP_NESTED": "true", "OMP_MAX_ACTIVE_LEVELS": "4"},
    "OPENBLAS_NUM_THREADS=1": {"OPENBLAS_NUM_THREADS": "1"},
}


def quiet_environment(**extra):
    """Ours without what sets threads."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("OMP_", "GOMP_", "KMP_", "OPENBLAS_NUM", "GOTO_NUM", "BLIS_NUM", "MKL_NUM"))}
    return {**kept, "OMP_WAIT_POLICY": "passive", **extra}


def busy_processes(n):
    return [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(n)]


def numbers(value, path=""):
    """All numbers and words of an answer but times."""
    if isinstance(value, dict):
        return [pair for key, inner in sorted(value.items()) if "second" not in key
                for pair in numbers(inner, path + "/" + key)]
    if isinstance(value, list):
        return [pair for place, inner in enumerate(value) for pair in numbers(inner, "%s/%d" % (path, place))]
    return [(path, value)]


class ThreadsTest(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(4)
        for prefix, n in (("big_", 400), ("big_holdout_", 500)):
            y = [draw.gauss(0, 1) for _ in range(n)]
            z = [v * v + 0.5 * draw.gauss(0, 1) for v in y]
            x = [[a + 0.4 * b, draw.gauss(0, 1)] for a, b in zip(y, z)]
            for name, values in (("y", y), ("z", z), ("x", x)):
                cls.write(prefix + name + ".npy", npy_bytes(values))
            cls.write(prefix + "table.csv", "y,z,x1,x2\n" + "".join(
                "%.6f,%.6f,%.6f,%.6f\n" % (a, b, c, d) for a, b, (c, d) in zip(y, z, x)))
        cls.write_pictures(draw)
        cls.alone = {}

    @classmethod
    def write_pictures(cls, draw, n=96, side=16):
        rows = ["path,height,light"]
        for k in range(n):
            height, light = draw.random(), draw.random()
            row = 3 + 9 * height
            pixels = bytes(255 if abs(y - row) < 2 and 4 < x < 11 else int(120 * light)
                           for y in range(side) for x in range(side))
            cls.write("p%d.pgm" % k, b"P5 %d %d 255\n" % (side, side) + pixels)
            rows.append("p%d.pgm,%.6f,%.6f" % (k, height, light))
        cls.write("pictures.csv", "\n".join(rows) + "\n")

    # ---- what is run ----

    data = ["--x", "big_x.npy", "--y", "big_y.npy", "--z", "big_z.npy"]
    holdout = ["--holdout-y", "big_holdout_y.npy", "--holdout-z", "big_holdout_z.npy"]
    columns = ["--data", "big_table.csv", "--x", "x1", "--y", "y", "--z", "z"]
    table = ["train", "--data", "big_table.csv", "--target", "x1", "--features", "y,z,x2", "--invariant-to", "z", "--given", "y",
             "--net", "3x48", "--epochs", "2", "--batch", "128", "--gamma", "5", "--no-report"]
    images = ["train", "--images", "pictures.csv", "--path-column", "path", "--target", "height", "--invariant-to", "light", "--net",
              "conv8s2n,res8,pool2,16", "--epochs", "2", "--batch", "32", "--gamma", "1", "--baseline", "none", "--no-report"]

    def commands(self):
        yield "measures", ["measure", "all", *self.data, *self.holdout]
        for method in ("lowrank", "dense"):
            yield "fit " + method, ["fit", "--y", "big_holdout_y.npy", "--z", "big_holdout_z.npy", "--method", method,
                                    "-o", "model.safetensors"]
        for method in ("kci", "gcm", "rcot"):
            yield "test " + method, ["test", method, *self.columns, *(["--calibrate", "20"] if method == "gcm" else [])]
        yield "train", [*self.table, "-o", "trained.safetensors"]

    def run_once(self, arguments, threads, environment=None, before=(), seconds=SECONDS):
        """Exit status 0 and all that is said, in time."""
        command = [*before, BINARY, *arguments, "--json", "--quiet"] + (["--threads", str(threads)] if threads else [])
        try:
            result = subprocess.run(command, cwd=self.path, env=environment or quiet_environment(), text=True,
                                    stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            self.fail("no answer in %d s: %s" % (seconds, " ".join(command)))
        self.assertEqual(result.returncode, 0, result.stderr)
        return numbers(json.loads(result.stdout))

    def expected(self, name, arguments, threads):
        if (name, threads) not in self.alone:
            type(self).alone[name, threads] = self.run_once(arguments, threads)
        return self.alone[name, threads]

    def check_all(self, setting, threads=(2,), environment=None, before=()):
        for count in threads:
            for name, arguments in self.commands():
                with self.subTest(setting=setting, command=name, threads=count):
                    expected = self.expected(name, arguments, count)
                    self.assertEqual(self.run_once(arguments, count, environment, before), expected)

    # ---- settings ----

    def test_limits(self):
        for setting, variables in SETTINGS.items():
            self.check_all(setting, environment=quiet_environment(**variables))

    def test_default_number(self):
        """Without --threads it is OMP_NUM_THREADS."""
        for count in (1, 2, 7):
            for name, arguments in self.commands():
                with self.subTest(command=name, threads=count):
                    found = self.run_once(arguments, 0, quiet_environment(OMP_NUM_THREADS=str(count)))
                    self.assertEqual(found, self.expected(name, arguments, count))

    def test_more_threads_than_cores(self):
        self.check_all("--threads 64", threads=(3, 64), environment=quiet_environment(OMP_THREAD_LIMIT="2"))

    @unittest.skipUnless(shutil.which("taskset"), "taskset is not installed")
    def test_one_processor(self):
        first = min(os.sched_getaffinity(0))
        self.check_all("taskset", threads=(2, 5), before=["taskset", "-c", str(first)])

    def test_dynamic_teams_on_a_busy_machine(self):
        load = busy_processes(2 * CORES)
        try:
            time.sleep(1)
            self.check_all("OMP_DYNAMIC", environment=quiet_environment(OMP_DYNAMIC="true"))
        finally:
            for process in load:
                process.kill()
                process.wait()

    def make_group(self, name):
        """A control group of half a processor, of version 2 or 1."""
        second = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
        group = pathlib.Path("/sys/fs/cgroup" if second else "/sys/fs/cgroup/cpu") / name
        try:
            group.mkdir()
        except OSError as error:
            self.skipTest("control groups cannot be made here: %s" % error)
        self.addCleanup(group.rmdir)
        file, text = ("cpu.max", "50000 100000") if second else ("cpu.cfs_quota_us", "50000")
        if not (group / file).exists():
            self.skipTest("control groups have no quota of processors here: %s" % (group / file))
        (group / file).write_text(text)
        return group

    def test_quota(self):
        group = self.make_group("circe-test-%d" % os.getpid())
        inside = ["sh", "-c", 'echo $$ > %s/cgroup.procs && exec "$@"' % group, "sh"]
        self.check_all("quota", before=inside)
        name, arguments = next(self.commands())
        self.assertEqual(self.run_once(arguments, 0, before=inside), self.expected(name, arguments, 1))  # the default

    def test_other_runtime(self):
        """LLVM's OpenMP, which has the functions of GCC's too."""
        found = sorted(glob.glob("/usr/lib/llvm-*/lib/libomp.so.5") + glob.glob("/usr/lib/*/libomp.so.5"))
        if not found:
            self.skipTest("LLVM's OpenMP (libomp5) is not installed")
        if os.environ.get("CIRCE_SANITIZED"):
            self.skipTest("the sanitizer must be the first library")
        for variables in ({}, {"OMP_THREAD_LIMIT": "1"}, {"OMP_MAX_ACTIVE_LEVELS": "0"}, {"OMP_DYNAMIC": "true"}):
            self.check_all("libomp", environment=quiet_environment(LD_PRELOAD=found[0], **variables))


@unittest.skipIf(os.environ.get("CIRCE_IMAGES") == "0", "built without oneDNN")
class ImagesTest(ThreadsTest):
    """Training on images under the same settings."""

    # By rounding alone: float32 sums in another order, carried through six steps.
    tolerance = 1e-3

    def commands(self):
        yield "train images", [*self.images, "-o", "images.safetensors"]

    def check_all(self, setting, threads=(2,), environment=None, before=()):
        for count in threads:
            for name, arguments in self.commands():
                with self.subTest(setting=setting, command=name, threads=count):
                    expected = self.expected(name, arguments, 1)
                    found = self.run_once(arguments, count, environment, before)
                    self.assertEqual([path for path, _ in found], [path for path, _ in expected])
                    for (path, a), (_, b) in zip(found, expected):
                        if isinstance(b, float):
                            self.assertTrue(math.isclose(a, b, rel_tol=self.tolerance, abs_tol=self.tolerance), path)

    test_default_number = None


if __name__ == "__main__":
    unittest.main()
