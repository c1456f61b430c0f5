"""Numbers at the edge of what a double can hold: measured after scaling, or refused in words; never null with exit status 0."""

import json
import random
import unittest

from cli_support import CliTest

SCALES = (1e299, 1e160, 1e-170, 1e-300)


def nulls(value, path=""):
    """Where a JSON value is null."""
    if value is None:
        return [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in nulls(item, "%s/%s" % (path, key))]


class EdgesTest(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw, cls.rows = random.Random(6), []
        for _ in range(160):
            y = draw.gauss(0, 1)
            z = y + draw.gauss(0, 1)
            cls.rows.append((y + z + draw.gauss(0, 1), y, z))
        cls.table("plain.csv", 1, 1, 1)

    @classmethod
    def table(cls, name, *scales):
        cls.write(name, "x,y,z\n" + "".join(",".join(repr(v * s) for v, s in zip(row, scales)) + "\n" for row in cls.rows))
        return name

    data = ["--x", "x", "--y", "y", "--z", "z"]

    def test_measures_scale_first(self):
        """A gaussian of median width knows no units, nor does gcm; x and z alone are scaled, since the widths tried for y are
        absolute."""
        for scale in SCALES:
            self.table("edge.csv", scale, 1, scale)
            for name in ("circe", "hsic", "hscic", "gcm", "kpc"):
                with self.subTest(scale=scale, name=name):
                    edge = self.as_json("measure", name, "--data", "edge.csv", *self.data)
                    plain = self.as_json("measure", name, "--data", "plain.csv", *self.data)
                    self.assertAlmostEqual(edge["value"] / plain["value"], 1, places=6)
                    self.assertEqual([path for path in nulls(edge) if "sigma2" in path or "value" in path], [])
                    self.assertTrue(any("x (edge.csv) reaches" in text for text in edge["warnings"]), edge["warnings"])

    def test_measures_of_an_extreme_y(self):
        for scale in SCALES:
            self.table("edge.csv", 1, scale, 1)
            with self.subTest(scale=scale):
                out = self.as_json("measure", "circe", "--data", "edge.csv", *self.data)
                self.assertGreater(out["value"], 1e-3)
                self.assertTrue(any("y (edge.csv) reaches" in text for text in out["warnings"]), out["warnings"])

    def test_float32_has_a_nearer_edge(self):
        self.table("edge.csv", 1e25, 1, 1)
        values = [self.as_json("measure", "hsic", "--data", name, *self.data, "--dtype", "float32")["value"]
                  for name in ("edge.csv", "plain.csv")]
        self.assertAlmostEqual(values[0] / values[1], 1, places=4)

    def test_tests_know_no_units(self):
        for method in ("kci", "gcm", "hsic"):
            plain = self.as_json("test", method, "--data", "plain.csv", *self.data)["p_value"]
            for scale in SCALES:
                self.table("edge.csv", scale, scale, scale)
                with self.subTest(scale=scale, method=method):
                    edge = self.as_json("test", method, "--data", "edge.csv", *self.data)["p_value"]
                    self.assertAlmostEqual(edge, plain, places=3)

    def test_fit_refuses(self):
        for scale in SCALES:
            self.table("edge.csv", 1, scale, 1)
            self.refuse(2, ["the numbers of y differ by", "no double can hold"], "fit", "--data", "edge.csv", "--y", "y",
                        "--z", "z", "-o", "edge.safetensors")
            self.table("edge.csv", 1, 1, scale)
            self.refuse(2, ["the median distance", "no double can hold"], "fit", "--data", "edge.csv", "--y", "y", "--z", "z",
                        "-o", "edge.safetensors")

    def test_train_refuses_a_target_without_an_error(self):
        train = ["train", "--features", "x", "--target", "y", "--regularizer", "none", "--epochs", "1", "--batch", "32",
                 "--no-report", "-o", "edge.safetensors", "--data"]
        for scale in SCALES:
            self.table("edge.csv", 1, scale, 1)
            with self.subTest(scale=scale):
                self.refuse(2, ["--target", "'y'", "whose square does not fit into a double"], *train, "edge.csv")
            self.table("edge.csv", scale, 1, 1)
            with self.subTest(scale=scale, of="features"):
                error = json.loads(self.succeed(*train, "edge.csv", "--json").stdout)["error"]
                self.assertEqual(nulls(error), [])

    def test_audit_refuses(self):
        self.table("edge.csv", 1e299, 1, 1)
        audit = ["audit", "edge.csv", "--prediction", "x", "--target", "y", "--sensitive", "z", "-o", "audited"]
        self.refuse(2, ["the prediction 'x'", "squares overflow"], *audit)
        self.table("edge.csv", 1e-200, 1, 1)
        self.refuse(2, ["the prediction 'x'", "squares of their differences underflow"], *audit)
        with open(self.path / "edge.csv", "w") as file:
            file.write("x,y,z\n" + "".join(f"{1e300 if i == 0 else i / 60},{i % 7},{i % 5}\n" for i in range(60)))
        self.refuse(2, ["the prediction 'x' contains numbers as large as 1e+300"], *audit)

    def test_a_width_far_from_the_data_is_told(self):
        self.table("edge.csv", 1e20, 1, 1)
        for name, scale in (("edge.csv", "1"), ("plain.csv", "1e9"), ("plain.csv", "1e-9")):
            out = self.as_json("measure", "hsic", "--data", name, *self.data, "--sigma2-x", scale)
            self.assertTrue(any("far from the squared distances" in text for text in out["warnings"]), out["warnings"])

    def test_numbers_of_options(self):
        measure = ["measure", "hsic", "--data", "plain.csv", *self.data]
        train = ["train", "--data", "plain.csv", "--features", "x", "--target", "y", "--invariant-to", "z", "-o", "m.safetensors"]
        for text in ("0x10", "inf", "nan", "1e999", " 1", "1d3", "1,0"):
            with self.subTest(text=text):
                self.refuse(2, ["--gamma"], *train, "--gamma", text)
        self.refuse(2, ["--gamma", "1e-400", "would become 0"], *train, "--gamma", "1e-400")
        self.refuse(2, ["--sigma2-x", "1e-400", "would become 0"], *measure, "--sigma2-x", "1e-400")
        self.refuse(2, ["--sigma2-x", "0x10"], *measure, "--sigma2-x", "0x10")
        self.refuse(2, ["gaussian(0x10)"], *measure, "--kernel-x", "gaussian(0x10)")
        self.refuse(2, ["gaussian(1e-400)"], *measure, "--kernel-x", "gaussian(1e-400)")
        self.write("run.yaml", "gamma: 1e-400\n")
        self.refuse(2, ["run.yaml, line 1", "would become 0"], *train, "--config", "run.yaml")


class OptionsTest(CliTest):
    """Numbers of options at their edge, and options that have nothing to act on: refused or told by name."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw, lines = random.Random(8), []
        for _ in range(300):
            y, z = draw.gauss(0, 1), draw.gauss(0, 1)
            lines.append("%.6g,%.6g,%.6g,%.6g\n" % (y + z + draw.gauss(0, 1), y, z, y + draw.gauss(0, 1)))
        cls.write("t.csv", "x,y,z,b\n" + "".join(lines))
        cls.train = ["train", "--data", "t.csv", "--features", "x,y", "--target", "b", "--given", "y", "--invariant-to", "z",
                     "--gamma", "1", "--epochs", "2", "--batch", "64", "--net", "1x4", "--no-report", "-o", "t.safetensors"]
        cls.audit = ["audit", "t.csv", "--prediction", "x", "--target", "b", "--sensitive", "z", "--calibrate", "0", "-o", "out"]
        cls.variables = ["--data", "t.csv", "--x", "x", "--y", "y", "--z", "z"]

    def test_ranges(self):
        """Beyond them, training went on in silence (warm-up) or failed without a word of the option (widths, ridges)."""
        for option, most in (("--warmup", "1e+06"), ("--gamma-warmup", "1e+06"), ("--sigma2-x", "1e+30"), ("--sigma2-y", "1e+30"),
                             ("--sigma2-z", "1e+30"), ("--ridge", "1e+100")):
            with self.subTest(option=option):
                self.refuse(2, [option, most, "1e300"], *self.train, option, "1e300")
        self.refuse(2, ["--ridge", "less than 1e+100"], "measure", "circe", *self.variables, "--ridge", "1,1e300")
        self.refuse(2, ["--block needs --time"], "test", "kci", *self.variables, "--block", "5")
        self.refuse(2, ["--weights", "dense layer"], *self.train, "--weights", "t.csv")
        self.refuse(2, ["given twice", "t.csv", "--data u.csv"], *self.audit, "--data", "u.csv")

    def test_what_does_nothing_is_told(self):
        for option, arguments in (("--warmup 2", self.train + ["--warmup", "2"]),
                                  ("--gamma-warmup 3", self.train + ["--gamma-warmup", "3"]),
                                  ("--threshold was ignored", self.audit + ["--threshold", "0.7"])):
            with self.subTest(option=option):
                out = self.as_json(*arguments)
                self.assertEqual([option in text for text in out["warnings"]].count(True), 1, out["warnings"])
        for option, arguments in (("--rff-every", ["measure", "circe", *self.variables]), ("--rff-batch", ["fit", *self.variables[:2],
                                  "--y", "y", "--z", "z", "-o", "f.safetensors"]), ("--imputations", ["test", "gcm", *self.variables])):
            out = self.as_json(*arguments, option, "5")
            self.assertEqual([text.partition(":")[0] for text in out["warnings"] if "ignored" in text], [option + " was ignored"])
        out = self.as_json("measure", "circe", *self.variables, "--method", "rff", "--rff-every", "5")
        self.assertFalse(any("ignored" in text for text in out["warnings"]))
        self.succeed(*self.train)
        result = self.succeed("predict", "--model", "t.safetensors", "--data", "t.csv", "--labels", "u.csv", "-o", "p.csv")
        self.assertIn("--labels was ignored: it needs --images", result.stderr)


if __name__ == "__main__":
    unittest.main()
