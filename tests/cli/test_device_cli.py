"""--device, as a person gives it: names that are none, a GPU that is not there, and that the choice changes nothing else.

CIRCE_BINARY is the command.
"""

import math
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

BINARY = os.environ["CIRCE_BINARY"]
INPUT_IS_WRONG = 2


def circe(*arguments, folder):
    return subprocess.run([BINARY, *map(str, arguments)], cwd=folder, capture_output=True, text=True)


class Device(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.owner = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.owner.name)
        draw = random.Random(1)
        lines = ["a,b,y,z"]
        for _ in range(300):
            y, e = draw.gauss(0, 1), draw.gauss(0, 1)
            lines.append(f"{y:.5f},{0.5 * y + e:.5f},{math.sin(y) + e:.5f},{0.5 * y + e:.5f}")
        (cls.folder / "points.csv").write_text("\n".join(lines) + "\n")
        tried = cls.train(cls, "first", "--device", "cuda")
        cls.has_gpu = tried.returncode == 0
        cls.refusal = tried

    @classmethod
    def tearDownClass(cls):
        cls.owner.cleanup()

    def train(self, name, *arguments):
        return circe("train", "--data", "points.csv", "--features", "a,b", "--target", "y", "--invariant-to", "z", "--gamma", 10,
                     "--epochs", 2, "--batch", 32, "--threads", 1, "--no-report", "-o", f"{name}.safetensors", *arguments,
                     folder=self.folder)

    def predict(self, name, device):
        done = circe("predict", "--model", f"{name}.safetensors", "--data", "points.csv", "--device", device, folder=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [float(line) for line in done.stdout.split()[1:]]

    def test_no_such_device(self):
        for command in (("train", "--data", "points.csv", "--features", "a", "--target", "y", "--regularizer", "none", "-o", "m"),
                        ("bench", "--only", "images"), ("experiment", "table1", "--quick")):
            done = circe(*command, "--device", "gpu", folder=self.folder)
            self.assertEqual(done.returncode, INPUT_IS_WRONG, done.stderr)
            self.assertIn("--device gpu: there is no such device", done.stderr)
            self.assertIn("cpu, cuda, cuda:1", done.stderr)

    def test_precision(self):
        for precision in ("tf32", "bf16"):
            refused = self.train("coarse", "--precision", precision)
            self.assertEqual(refused.returncode, INPUT_IS_WRONG, refused.stderr)
            self.assertIn(f"--precision {precision}: the CPU computes networks in float32 only", refused.stderr)
            self.assertIn("--device cuda", refused.stderr)
            self.assertFalse((self.folder / "coarse.safetensors").exists())
        for command in (("bench", "--only", "images", "--quick"), ("experiment", "table1", "--quick")):
            done = circe(*command, "--precision", "tf32", folder=self.folder)
            self.assertEqual(done.returncode, INPUT_IS_WRONG, done.stderr)
            self.assertIn("the CPU computes networks in float32 only", done.stderr)
        done = self.train("coarse", "--precision", "half")
        self.assertEqual(done.returncode, INPUT_IS_WRONG, done.stderr)
        self.assertIn("float32", done.stderr)
        done = self.train("exact", "--precision", "float32")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_precision_on_a_gpu(self):
        if not self.has_gpu:
            self.skipTest("there is no GPU")
        for precision in ("tf32", "bf16"):
            done = self.train("coarse", "--device", "cuda", "--precision", precision)
            self.assertEqual(done.returncode, 0, done.stderr)
            for a, b in zip(self.predict("coarse", "cuda"), self.predict("first", "cuda")):
                self.assertAlmostEqual(a, b, delta=5e-2)

    def test_no_gpu(self):
        if self.has_gpu:
            self.skipTest("there is a GPU")
        self.assertNotEqual(self.refusal.returncode, 0)
        self.assertRegex(self.refusal.stderr, "this build of circe has no CUDA|this machine has no NVIDIA GPU")
        self.assertFalse((self.folder / "first.safetensors").exists())

    def test_auto_is_a_device(self):
        done = self.train("auto", "--device", "auto")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.train("cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        there, here = self.predict("auto", "auto"), self.predict("cpu", "cpu")
        self.assertEqual(len(there), 300)
        for a, b in zip(there, here):
            self.assertAlmostEqual(a, b, delta=0.0 if not self.has_gpu else 1e-2)


if __name__ == "__main__":
    unittest.main()
