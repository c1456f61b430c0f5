"""What campaigns share: a folder with good inputs, running the command, and what counts as a finding."""

import json
import math
import os
import pathlib
import random
import re
import shlex
import struct
import subprocess
import zipfile

SANITIZER = re.compile(r"AddressSanitizer|LeakSanitizer|UndefinedBehaviorSanitizer|runtime error:|ThreadSanitizer")
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LIMIT_S = 60  # for inputs of some kilobytes, under sanitizers, on a busy machine


class Finding(Exception):
    """Something that must not happen; the text says what, with the command that did it."""


class Slow(Exception):
    """It took longer than anybody waits, as the mutated input may have asked for."""


class Trial:
    """One draw: its random numbers, its folder, and the commands it runs there."""

    def __init__(self, draw, folder, binary):
        self.draw, self.folder, self.binary = draw, pathlib.Path(folder), binary
        self.outcome = "passed"

    def write(self, name, data):
        (self.folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        return name

    def run(self, *arguments, patient=False, environment=None, limits=None, stdout=subprocess.PIPE, expected=(0, 1, 2)):
        """Runs the command; raises where it breaks a promise that holds whatever it is given."""
        command = [self.binary, *map(str, arguments)]
        shown = " ".join(shlex.quote(part) for part in command)
        surroundings = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1",
                        "LSAN_OPTIONS": "suppressions=%s:print_suppressions=0" % LEAKS,
                        "UBSAN_OPTIONS": "print_stacktrace=1", "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "2",
                        **(environment or {})}
        process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=stdout,
                                   stderr=subprocess.PIPE, env=surroundings, preexec_fn=limits)
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            if patient:
                raise Slow(shown)
            raise Finding("no answer in %d s: %s" % (LIMIT_S, shown))
        out, err = (out or b"").decode("utf-8", "surrogateescape"), err.decode("utf-8", "surrogateescape")
        said = "\n    ".join(err.splitlines()[-6:])
        if process.returncode not in expected:
            how = "signal %d" % -process.returncode if process.returncode < 0 else "status %d" % process.returncode
            raise Finding("%s from %s\n    %s" % (how, shown, said))
        if SANITIZER.search(err):
            raise Finding("a sanitizer spoke up in %s\n    %s" % (shown, said))
        if process.returncode != 0 and err.strip() == "":
            raise Finding("failed without a word: " + shown)
        if OBEYED.search(out) or OBEYED.search(err):
            raise Finding("something that a terminal obeys was printed by %s\n    %r" % (shown, said))
        left = [path.name for path in self.folder.rglob(".circe-*")]
        if left:
            raise Finding("%s was left behind by %s" % (left[0], shown))
        return process.returncode, out, err

    def json(self, *arguments, **options):
        """The parsed answer, or None where it was refused."""
        status, out, _ = self.run(*arguments, "--json", **options)
        if status != 0:
            return None
        try:
            return json.loads(out, parse_constant=lambda word: 1 / 0)
        except (ValueError, ZeroDivisionError):
            raise Finding("no JSON from %s: %r" % (" ".join(map(str, arguments)), out[:200]))


LEAKS = pathlib.Path(__file__).resolve().parent.parent / "lsan.supp"


def npy(rows, dtype="<f8"):
    wide = isinstance(rows[0], (list, tuple))
    flat = [v for row in rows for v in row] if wide else list(rows)
    shape = (len(rows), len(rows[0])) if wide else (len(rows),)
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %r, }" % (dtype, shape)
    text = text.ljust((len(text) + 11) // 64 * 64 + 53) + "\n"
    code = {"<f8": "d", "<f4": "f"}[dtype]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + struct.pack("<%d%s" % (len(flat), code), *flat)


def safetensors(arrays):
    header, payload = {}, b""
    for name, values in arrays.items():
        data = struct.pack("<%dd" % len(values), *values)
        header[name] = {"dtype": "F64", "shape": [len(values)], "data_offsets": [len(payload), len(payload) + len(data)]}
        payload += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + payload


EXPERIMENT = """\
title: Tiny
models:
  - model: univariate1
data: {train: 100, validation: 40, test: 40, holdout: 40}
training: {net: 2x8, epochs: 1, batch: 50, rate: 1e-3}
evaluation: {points: 20, draws: 3}
seeds: 1
methods:
  - {name: none, regularizer: none}
  - {name: circe, regularizer: circe, gamma: [10]}
"""

CONFIG = """\
data: table.csv
features: [y, z, c]
target: x
given: y
invariant-to: z
regularizer: gcm
gamma: 1
net: 2x8
epochs: 1
batch: 32
no-report: true
"""


def make_inputs(folder, rows=120, seed=1):
    """Good inputs of every kind, small."""
    draw = random.Random(seed)
    y = [draw.gauss(0, 1) for _ in range(rows)]
    z = [v * v + 0.5 * draw.gauss(0, 1) for v in y]
    x = [a + b + draw.gauss(0, 1) for a, b in zip(y, z)]
    c = [draw.choice(["red", "blue", "\u00e9t\u00e9"]) for _ in y]
    folder = pathlib.Path(folder)
    lines = ["y,z,x,c"] + ["%.5f,%.5f,%.5f,%s" % row for row in zip(y, z, x, c)]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    (folder / "table.tsv").write_text("\n".join(lines).replace(",", "\t") + "\n")
    for name, values in (("y", y), ("z", z), ("x", x)):
        (folder / (name + ".npy")).write_bytes(npy(values))
    with zipfile.ZipFile(folder / "table.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in (("y", y), ("z", z), ("x", x)):
            archive.writestr(name + ".npy", npy(values))
    (folder / "table.safetensors").write_bytes(safetensors({"y": y, "z": z, "x": x}))
    (folder / "train.yaml").write_text(CONFIG)
    (folder / "experiment.yaml").write_text(EXPERIMENT)


TRAIN = ["train", "--data", "table.csv", "--features", "y,z", "--target", "x", "--given", "y", "--invariant-to", "z",
         "--regularizer", "gcm", "--gamma", "1", "--net", "2x8", "--batch", "32", "--no-report", "--quiet"]


def finite(value):
    return isinstance(value, (int, float)) and math.isfinite(value)
