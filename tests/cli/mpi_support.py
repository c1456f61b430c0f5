"""What tests of the command under mpirun share: starting ranks, looking at processes, what circe itself said.

Only the Python standard library is needed. CIRCE_BINARY names the command, CIRCE_MPIRUN the launcher."""

import array
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import unittest

BINARY = os.environ.get("CIRCE_BINARY", str(pathlib.Path(__file__).resolve().parents[2] / "build" / "circe"))
MPIRUN = os.environ.get("CIRCE_MPIRUN", "")
LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_STEP_NUM_TASKS")


def write_npy(path, rows, cols, values):
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, cols)
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        out.write(array.array("d", values).tobytes())


def children_of(pid):
    """Every process below this one."""
    found, stack = [], [pid]
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry.name))
    while stack:
        for child in parents.get(stack.pop(), []):
            found.append(child)
            stack.append(child)
    return found


def command_of(pid):
    try:
        return pathlib.Path("/proc/%d/cmdline" % pid).read_bytes().split(b"\0")
    except OSError:
        return [b""]


def state_of(pid):
    """R, S, T (stopped), Z (over) …; Z too where there is no such process."""
    try:
        return pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="circe-mpi-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.environment = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}

    def path(self, name):
        return str(self.folder / name)

    def data(self, rows=700, folder="."):
        """y.npy, and z.npy which follows it."""
        draw = random.Random(1)
        where = self.folder / folder
        where.mkdir(exist_ok=True)
        y = [draw.gauss(0, 1) for _ in range(rows)]
        write_npy(where / "y.npy", rows, 1, y)
        write_npy(where / "z.npy", rows, 1, [value * value + 0.3 * draw.gauss(0, 1) for value in y])

    def write(self, name, text):
        pathlib.Path(self.path(name)).write_text(text)
        return self.path(name)

    def start(self, ranks, *arguments, contexts=None):
        if contexts is None:
            line = [MPIRUN, "-n", str(ranks), BINARY, *arguments] if ranks > 0 else [BINARY, *arguments]
        else:  # one rank each, in a folder of its own
            line = [MPIRUN]
            for at, folder in enumerate(contexts):
                line += ([":"] if at > 0 else []) + ["-n", "1", "-wdir", self.path(folder), BINARY, *arguments]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                   env=self.environment)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:  # a test has failed
            process.terminate()
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        process.stdout.close()
        process.stderr.close()

    def run_it(self, ranks, *arguments, expect=0, contexts=None):
        process = self.start(ranks, *arguments, contexts=contexts)
        out, err = process.communicate(timeout=240)
        self.assertEqual(process.returncode, expect, out + err)
        return out, err

    def said(self, err):
        """The lines of circe itself, without mpirun's."""
        return [line for line in err.splitlines() if line.startswith("circe")]
