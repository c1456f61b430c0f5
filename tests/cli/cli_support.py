"""What tests of the command share: a folder of small arrays to run it in, its answer as text or JSON, its refusals, and
.npy files.

Only the Python standard library is needed. CIRCE_BINARY names the command to test."""

import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import unittest

BINARY = os.environ.get("CIRCE_BINARY", str(pathlib.Path(__file__).resolve().parents[2] / "build" / "circe"))
MEASURES = ("circe", "circe-spectral", "hsic", "hscic", "gcm", "kci", "nocco", "kpc")


def npy_bytes(rows, dtype="<f8", header=None):
    """A .npy file of a list of numbers or of equal rows; `header` replaces the honest one."""
    flat = [v for row in rows for v in (row if isinstance(row, (list, tuple)) else [row])]
    shape = (len(rows), len(rows[0])) if rows and isinstance(rows[0], (list, tuple)) else (len(rows),)
    text = header or "{'descr': '%s', 'fortran_order': False, 'shape': %r, }" % (dtype, shape)
    text = text.ljust((len(text) + 11) // 64 * 64 + 53) + "\n"
    code = {"<f8": "d", "<f4": "f", "<i8": "q"}[dtype]
    payload = struct.pack("<%d%s" % (len(flat), code), *flat)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + payload


def read_npy(path):
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<H", data[8:10])[0]
    header = data[10:10 + length].decode()
    shape = tuple(int(v) for v in re.search(r"'shape': \(([^)]*)\)", header).group(1).split(",") if v.strip())
    code = "f" if "<f4" in header else "d"
    n = math.prod(shape)
    return shape, list(struct.unpack("<%d%s" % (n, code), data[10 + length:]))


class CliTest(unittest.TestCase):
    """A folder with y, z, a feature x that depends on z given y, and a holdout."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        draw = random.Random(1)
        for prefix, n in (("", 60), ("holdout_", 80)):
            y = [draw.gauss(0, 1) for _ in range(n)]
            z = [v * v + 0.5 * draw.gauss(0, 1) for v in y]
            x = [[a + b, draw.gauss(0, 1)] for a, b in zip(y, z)]
            cls.write(prefix + "y.npy", npy_bytes(y))
            cls.write(prefix + "z.npy", npy_bytes(z))
            cls.write(prefix + "x.npy", npy_bytes(x))
        cls.write("constant.npy", npy_bytes([3.0] * 60))
        cls.write("one_row.npy", npy_bytes([[1.0, 2.0]]))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def write(cls, name, data):
        (cls.path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        return name

    def run_circe(self, *arguments, **options):
        options.setdefault("stdout", subprocess.PIPE)
        return subprocess.run([BINARY, *map(str, arguments)], cwd=self.path, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, timeout=120, **options)

    def succeed(self, *arguments):
        result = self.run_circe(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def as_json(self, *arguments):
        return json.loads(self.succeed(*arguments, "--json").stdout)

    def refuse(self, status, words, *arguments, **options):
        """The command ends with this status, prints nothing on stdout, and its message has all these words."""
        result = self.run_circe(*arguments, **options)
        self.assertEqual(result.returncode, status, result.stderr)
        if options.get("stdout") is None:
            self.assertEqual(result.stdout, "")
        self.assertTrue(result.stderr.startswith("circe"), result.stderr)
        self.assertLessEqual(len(result.stderr.splitlines()), 4, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        return result

    def fit_args(self, y="holdout_y.npy", z="holdout_z.npy", out="m.safetensors"):
        return ["fit", "--y", y, "--z", z, "-o", out]

    def measure_args(self, x="x.npy", y="y.npy", z="z.npy", name="circe"):
        return ["measure", name, "--x", x, "--y", y, "--z", z]
