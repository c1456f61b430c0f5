"""Many rows, on the real command: what cannot be done is refused from the headers, before anything is read; what takes too
long becomes random blocks or a random sample, and the answer says so; --rows, --blocks and --seed repeat it.

Only the Python standard library is needed. CIRCE_BINARY names the command to test."""

import array
import json
import math
import random
import time
import unittest

from cli_support import CliTest, npy_bytes


class LargeTest(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(5)
        n = cls.rows = 6000
        y = [draw.gauss(0, 1) for _ in range(n)]
        z = [v * v + draw.gauss(0, 1) for v in y]
        for name, values in (("y", y), ("z", z), ("x", [v + draw.gauss(0, 1) for v in z]),
                             ("free", [v + draw.gauss(0, 1) for v in y])):
            cls.write("many_%s.npy" % name, npy_bytes(values))
        cls.write("many.csv", "x,y,z\n" + "".join(
            "%.6f,%.6f,%.6f\n" % (c + draw.gauss(0, 1), a, c) for a, c in zip(y, z)))

    @classmethod
    def claim(cls, name, rows, columns=1):
        """An .npy of so many zeros, which takes no room on the disk."""
        header = npy_bytes([0.0], header="{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, columns))
        with open(cls.path / name, "wb") as file:
            file.write(header[:-8])
            file.truncate(len(header) - 8 + 8 * rows * columns)
        return name

    def many(self, name="circe", x="many_x.npy"):
        return ["measure", name, "--x", x, "--y", "many_y.npy", "--z", "many_z.npy"]

    def quickly(self, seconds, function, *arguments, **options):
        start = time.monotonic()
        result = function(*arguments, **options)
        self.assertLess(time.monotonic() - start, seconds)
        return result


class TestRefuseEarly(LargeTest):
    """5 million rows: told from the header, in the time that it takes to start."""

    def test_measure_at_once(self):
        self.claim("huge.npy", 5000000)
        huge = ["measure", "circe", "--x", "huge.npy", "--y", "huge.npy", "--z", "huge.npy"]
        for option in (["--rows", "all"], ["--grad", "g.npy"]):
            result = self.quickly(20, self.refuse, 1, ["at once needs about", "GB are available", "--rows"], *huge, *option)
            self.assertRegex(result.stderr, r"needs about 5\d{4}\.\d GB")  # 2.5 million rows are measured
        self.assertIn("blocks", self.run_circe(*huge, "--rows", "all").stderr)

    def test_dense_fit(self):
        self.claim("huge.npy", 5000000)
        self.quickly(20, self.refuse, 1, ["a dense fit of 5000000 rows needs about", "--rows"], "fit", "--y", "huge.npy",
                     "--z", "huge.npy", "-o", "m.safetensors", "--method", "dense")

    def test_table_larger_than_memory(self):
        with open(self.path / "wide.csv", "w") as file:
            file.write("x,y,z\n")
            for i in range(300000):
                file.write("%d,%d,%d.5\n" % (i % 977, i % 991, i))
        result = self.quickly(20, self.refuse, 1, ["these tables have about", "rows and need", "GB are available"], "measure",
                              "hsic", "--data", "wide.csv", "--x", "x", "--z", "y,z", "--memory", "4M")
        rows = int(result.stderr.split("have about ")[1].split()[0])
        self.assertLess(abs(rows / 300000 - 1), 0.15)  # the first rows are shorter

    def test_fit_judges_the_rank_from_a_sample(self):
        draw = random.Random(3)
        rows = [[draw.gauss(0, 1) for _ in range(3)] for _ in range(20000)]
        self.write("cloud.npy", npy_bytes(rows))
        self.write("cloud_z.npy", npy_bytes([draw.gauss(0, 1) for _ in rows]))
        self.quickly(60, self.refuse, 1, ["kernel matrix of y at sigma2 0.0", "does not have low rank: in a sample",
                                          "the tolerance is 1.0e-12", "--rows"],
                     "fit", "--y", "cloud.npy", "--z", "cloud_z.npy", "-o", "m.safetensors", "--method", "lowrank")


class TestBlocks(LargeTest):
    def test_too_many_rows_for_the_memory(self):
        kernels = ["--sigma2-y", "0.1", "--ridge", "1", "--sigma2-x", "3", "--sigma2-z", "2"]
        whole = self.as_json(*self.many(), *kernels, "--rows", "all")
        small = ["--memory", "60M", "--threads", "2"]  # 3,000 rows at once take 72 MB, and a thread some MB
        found = self.as_json(*self.many(), *kernels, *small, "--seconds", "3")
        self.assertNotIn("standard_error", whole)
        self.assertEqual(found["rows_given"], self.rows)
        self.assertEqual(found["n"], found["blocks"] * found["block_rows"])
        self.assertGreaterEqual(found["blocks"], 2)
        self.assertLess(abs(found["value"] / whole["value"] - 1), 0.2)
        self.assertLess(found["standard_error"], 0.1 * found["value"])
        text = self.succeed(*self.many(), *small, "--seconds", "1").stdout
        self.assertRegex(text, r"standard error +\d")
        self.assertRegex(text, r"mean over \d+ random blocks of \d+ rows")
        self.assertRegex(text, r"rows given +6000")

    def test_every_measure(self):
        options = ["--block-rows", "500", "--blocks", "4", "--seconds", "5"]
        for name in ("circe", "circe-spectral", "hsic", "hscic", "gcm", "kci", "nocco", "kpc"):
            with self.subTest(name):
                found = self.as_json(*self.many(name), *options)
                self.assertEqual((found["blocks"], found["block_rows"], found["n"]), (4, 500, 2000))
                self.assertGreater(found["standard_error"], 0)
                self.assertEqual(found["value"], self.as_json(*self.many(name), *options)["value"])
        table = self.as_json(*self.many("all"), *options)
        self.assertEqual(table["rows_given"], self.rows)
        for row in table["measures"]:
            self.assertEqual((row["blocks"], row["block_rows"]), (4, 500))

    def test_from_a_model_and_a_holdout(self):
        self.succeed("fit", "--y", "holdout_y.npy", "--z", "holdout_z.npy", "-o", "m.safetensors")
        options = ["--block-rows", "600", "--blocks", "10"]
        model = self.as_json(*self.many(), "--model", "m.safetensors", *options)
        other = self.as_json(*self.many(), "--holdout-y", "holdout_y.npy", "--holdout-z", "holdout_z.npy", *options)
        self.assertEqual(model["value"], other["value"])
        self.assertEqual(model["n"], 6000)  # all of them

    def test_the_seed_decides(self):
        options = ["--block-rows", "500", "--blocks", "3"]
        values = {self.as_json(*self.many(), *options, "--seed", seed)["value"] for seed in (0, 1, 2)}
        self.assertEqual(len(values), 3)

    def test_standard_error_is_one(self):
        """Means over 5 blocks, of 12 seeds, spread as their standard errors say."""
        found = [self.as_json(*self.many("hsic"), "--block-rows", "200", "--blocks", "5", "--seed", seed)
                 for seed in range(12)]
        values = [f["value"] for f in found]
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
        claimed = math.sqrt(sum(f["standard_error"] ** 2 for f in found) / len(found))
        self.assertTrue(0.5 < spread / claimed < 2, (spread, claimed))

    def test_refusals(self):
        self.refuse(2, ["--rows all uses all rows at once: leave out --block-rows"], *self.many(), "--rows", "all",
                    "--block-rows", "100")
        self.refuse(2, ["--grad uses all rows at once: leave out --blocks"], *self.many(), "--grad", "g.npy", "--blocks", "3")
        self.refuse(2, ["2 blocks of 5000 rows need more"], *self.many("hsic"), "--block-rows", "5000")

    def test_two_million_rows(self):
        draw = random.Random(9)
        y = [draw.gauss(0, 1) for _ in range(50000)]
        z = [v * v + draw.gauss(0, 1) for v in y]
        n = 40 * len(y)
        for name, values in (("y", y), ("z", z)):
            header = npy_bytes([0.0], header="{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }" % n)[:-8]
            self.write("long_%s.npy" % name, header + array.array("d", values).tobytes() * 40)
        found = self.quickly(60, self.as_json, "measure", "circe", "--x", "long_z.npy", "--y", "long_y.npy", "--z",
                             "long_z.npy", "--seconds", "5")
        self.assertEqual(found["rows_given"], n)
        self.assertGreaterEqual(found["blocks"], 2)
        self.assertLess(found["standard_error"], 0.1 * found["value"])


class TestRows(LargeTest):
    def test_a_sample_of_the_rows(self):
        fit = ["fit", "--y", "many_y.npy", "--z", "many_z.npy", "-o", "m.safetensors"]
        self.assertEqual(self.as_json(*fit, "--rows", "500")["n"], 500)
        for rows in ("0.5", "1.5", "1e-300"):
            self.refuse(2, ["--rows must be a whole number of rows, or all, not " + rows], *fit, "--rows", rows)
        self.assertEqual(self.as_json(*fit, "--rows", "60000")["n"], self.rows)
        found = self.as_json(*self.many(), "--rows", "800")
        self.assertEqual((found["n"], found["rows_given"], found["split"]["holdout"]), (400, self.rows, 400))
        self.assertEqual(found["value"], self.as_json(*self.many(), "--rows", "800")["value"])
        self.assertNotEqual(found["value"], self.as_json(*self.many(), "--rows", "800", "--seed", "1")["value"])
        self.assertIn("--rows took a random sample", self.succeed(*self.many(), "--rows", "800").stdout)

    def test_rows_stay_together(self):
        """y, z and x of a sample are still of the same points: x is z here."""
        found = self.as_json("test", "gcm", "--x", "many_z.npy", "--y", "many_y.npy", "--z", "many_z.npy", "--rows", "300")
        self.assertLess(found["p_value"], 1e-9)
        self.assertEqual((found["n"], found["rows_given"]), (300, self.rows))
        table = self.as_json("test", "gcm", "--data", "many.csv", "--x", "x", "--y", "y", "--z", "z", "--rows", "300")
        self.assertLess(table["p_value"], 1e-9)

    def test_refusals(self):
        for wrong in ("2.5", "0", "-3", "some"):
            self.refuse(2, ["--rows"], *self.many(), "--rows", wrong)
        self.refuse(2, ["--rows 1 is too few; at least 8 rows are needed"], *self.many(), "--rows", "1")


class TestLongTests(LargeTest):
    def test_a_sample_is_tested_and_said(self):
        draw = random.Random(11)
        for name in ("y", "z", "x"):
            self.write("long_%s.npy" % name, npy_bytes([draw.gauss(0, 1) for _ in range(60000)]))
        long = ["test", "kci", "--x", "long_x.npy", "--y", "long_y.npy", "--z", "long_z.npy"]
        found = self.as_json(*long, "--seconds", "0.1")
        self.assertEqual((found["n"], found["rows_given"]), (10000, 60000))
        self.assertRegex(" ".join(found["warnings"]), r"random sample of 10000 of the 60000 rows was tested .*would take about")
        self.assertEqual(found["p_value"], self.as_json(*long, "--rows", "10000")["p_value"])
        whole = self.run_circe(*long[:1], "rcot", *long[2:], "--rows", "all", "--seconds", "0.1", "--json")
        self.assertEqual(json.loads(whole.stdout)["n"], 60000)
        self.assertRegex(whole.stderr, "testing all 60000 rows takes about")


if __name__ == "__main__":
    unittest.main()
