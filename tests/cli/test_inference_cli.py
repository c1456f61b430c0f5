"""`circe test` and `circe audit`, on the real command: what comes out, that the same seed gives the same, that bad input
gets a clear answer, and that the report opens in a browser and asks the network for nothing.

Only the Python standard library is needed. CIRCE_BINARY names the command to test. The report is opened in Chromium
where that is installed. CIRCE_DATA names a folder with communities_crime.csv, where there is one."""

import csv
import html.parser
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import unittest

from cli_support import CliTest, npy_bytes

ROWS = 300
TESTS = ("kci", "circe", "splitkci", "gcm", "rcot", "hsic", "wgcm", "pcm")
CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


def points(n, seed):
    """y; z that follows y; free, which follows y alone; bound, which follows z too; groups, classes and scores."""
    draw = random.Random(seed)
    rows = []
    for _ in range(n):
        y = draw.gauss(0, 1)
        z = 0.7 * y * y + draw.gauss(0, 1)
        label = y + 0.5 * draw.gauss(0, 1) > 0
        rows.append({"y": y, "z": z, "free": y + 0.4 * draw.gauss(0, 1), "bound": y + z + 0.4 * draw.gauss(0, 1),
                     "noise": draw.gauss(0, 1), "group": "high" if z > 1.5 else "mid" if z > 0 else "low",
                     "label": "yes" if label else "no", "one": int(label),
                     "said": "yes" if y + 0.5 * z > 0 else "no", "score": 1 / (1 + math.exp(-y - 0.8 * z)),
                     "weight": draw.random(), "name": "n%d" % len(rows), "same": 3,
                     "holes": "" if len(rows) % 60 == 7 else draw.gauss(0, 1)})
    return rows


def csv_text(rows):
    return "\n".join([",".join(rows[0])] + [",".join(map(str, row.values())) for row in rows]) + "\n"


class InferenceTest(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = points(ROWS, 3)
        cls.write("table.csv", csv_text(cls.rows))
        cls.write("few.csv", csv_text(cls.rows[:6]))
        cls.write("forty.csv", csv_text(cls.rows[:40]))

    def ask(self, method="kci", x="bound", y="y", z="z", data="table.csv", *options):
        arguments = ["test", method, "--data", data, "--x", x, "--z", z]
        return arguments + (["--y", y] if y else []) + list(options)

    def audit_args(self, prediction="free,bound", target="y", sensitive="z", out="report", data="table.csv",
                   calibrate="0"):
        return ["audit", data, "--prediction", prediction, "--target", target, "--sensitive", sensitive, "--calibrate",
                calibrate, "-o", out]


class TestTest(InferenceTest):
    def test_every_method(self):
        for method in TESTS:
            result = self.as_json(*self.ask(method))
            self.assertEqual(result["method"], method)
            self.assertLess(result["p_value"], 0.01, method)
            self.assertGreater(result["p_value"], 0, method)
            for key in ("statistic", "null", "n", "seconds", "diagnostics", "trust", "verdict", "alpha", "warnings"):
                self.assertIn(key, result)
            self.assertIsInstance(result["diagnostics"], dict)
            self.assertEqual(result["n"], ROWS)
            self.assertIn(result["trust"], ("good", "doubtful", "poor"))

    def test_device(self):
        self.assertEqual(self.as_json(*self.ask("kci", "bound", "y", "z", "table.csv", "--device", "auto"))
                         ["diagnostics"]["device"], "cpu")  # so few rows stay there
        self.refuse(2, ["--device tpu", "no such device", "cuda"], *self.ask("kci"), "--device", "tpu")

    def test_independent(self):
        for method in ("kci", "circe", "splitkci", "gcm", "rcot"):
            self.assertGreater(self.as_json(*self.ask(method, x="free"))["p_value"], 0.02, method)
        # given nothing, free and z depend on each other through y
        self.assertLess(self.as_json(*self.ask("hsic", x="free", y=None))["p_value"], 0.05)

    def test_diagnostics(self):
        d = self.as_json(*self.ask("kci"))["diagnostics"]
        self.assertEqual((d["n_used"], d["n_tested"], d["n_train"]), (ROWS, ROWS, 0))
        for side in ("regression_x", "regression_z"):
            self.assertTrue(0 < d[side]["remaining"] < 1, d[side])
            self.assertTrue(0 <= d[side]["check_p"] <= 1, d[side])
            self.assertGreater(d[side]["degrees"], 1)
        split = self.as_json(*self.ask("splitkci"), "--test-share", "0.4")["diagnostics"]
        self.assertEqual(split["n_tested"], 120)
        self.assertEqual(split["n_tested"] + split["n_train"], ROWS)

    def test_null_draws_and_seed(self):
        for method, null in (("kci", "gamma"), ("kci", "spectral"), ("kci", "wild"), ("hsic", "permutation"),
                             ("hsic", "gamma"), ("hsic", "wild"), ("gcm", "multiplier")):
            result = self.as_json(*self.ask(method), "--null", null, "--draws", "199")
            self.assertEqual(result["null"], null)
            if null in ("wild", "permutation", "multiplier"):
                self.assertEqual((result["diagnostics"]["draws"], result["p_value"]), (199, 1 / 200))
        arguments = self.ask("circe", x="free") + ["--seed", "5"]
        one = self.as_json(*arguments, "--threads", "1")["p_value"]
        self.assertEqual(one, self.as_json(*arguments, "--threads", "2")["p_value"])
        self.assertNotEqual(one, self.as_json(*self.ask("circe", x="free"), "--seed", "6")["p_value"])

    def test_marginal(self):
        result = self.as_json(*self.ask("kci", x="free", y=None))
        self.assertLess(result["p_value"], 0.05)
        self.assertTrue(any("marginal" in w for w in result["warnings"]), result["warnings"])
        self.assertGreater(self.as_json(*self.ask("kci", x="noise", y=None))["p_value"], 0.05)

    def test_categories(self):
        for method in ("kci", "circe", "gcm"):
            result = self.as_json(*self.ask(method, z="group,z"))
            self.assertLess(result["p_value"], 0.01, method)
            self.assertIn("delta", result["diagnostics"]["kernel_z"] or "delta")
        result = self.as_json(*self.ask("kci", x="bound", y="group", z="z"))
        self.assertIn("delta", result["diagnostics"]["kernel_y"])

    def test_kernel_of_ones_own(self):
        result = self.as_json(*self.ask("kci"), "--kernel-z", "z:laplace(2)")
        self.assertIn("laplace(2)", result["diagnostics"]["kernel_z"])
        self.refuse(2, ["--kernel-z", "no column 'w'"], *self.ask("kci"), "--kernel-z", "w:gaussian")

    def test_weights(self):
        plain = self.as_json(*self.ask("kci", x="free"))
        weighted = self.as_json(*self.ask("kci", x="free"), "--weights", "weight")
        self.assertNotEqual(plain["p_value"], weighted["p_value"])
        self.refuse(2, ["--weights", "at least 0", "row"], *self.ask("kci"), "--weights", "noise")
        self.refuse(2, ["--weights", "one column of numbers"], *self.ask("kci"), "--weights", "group")

    def test_regressor(self):
        for word in ("kernel", "linear", "forest"):
            result = self.as_json(*self.ask("gcm", x="free"), "--regressor", word)
            self.assertGreater(result["p_value"], 0.01, word)
        self.assertEqual(result["diagnostics"]["regression_x"]["basis"], "forest")
        means = "x,z\n" + "".join("%r,%r\n" % (row["y"], 0.7 * row["y"] ** 2) for row in self.rows)
        self.write("means.csv", means)
        given = self.as_json(*self.ask("gcm", x="free"), "--regressor", "means.csv")
        self.assertEqual(given["diagnostics"]["regression_z"]["basis"], "given")
        self.assertGreater(given["p_value"], 0.01)
        self.assertLess(self.as_json(*self.ask("gcm"), "--regressor", "means.csv")["p_value"], 0.01)
        some = self.as_json(*self.ask("gcm", x="free"), "--regressor", "means.csv", "--rows", "100")
        self.assertEqual(some["n"], 100)
        self.refuse(2, ["--regressor", "means.csv:x", "1 columns", "2 of numbers"], *self.ask("gcm"), "--regressor", "means.csv:x")
        self.refuse(2, ["--regressor must be one of kernel|linear|forest, or a file of predictions", "no-such"], *self.ask("gcm"),
                    "--regressor", "no-such.csv")
        ignored = self.as_json(*self.ask("kci"), "--regressor", "forest")
        self.assertTrue(any("--regressor" in w for w in ignored["warnings"]), ignored["warnings"])

    def test_groups_and_time(self):
        rng = random.Random(4)
        lines = ["x,y,z,who,day"]
        for g in range(40):
            a, b = rng.gauss(0, 1), rng.gauss(0, 1)
            for i in range(5):
                y = rng.gauss(0, 1)
                lines.append(f"{y + a + rng.gauss(0, .5)},{y},{y + b + rng.gauss(0, .5)},p{g},2024-{1 + g // 28:02}-{1 + g % 28:02}")
        self.write("grouped.csv", "\n".join(lines) + "\n")
        grouped = self.ask("gcm", "x", "y", "z", "grouped.csv")
        result = self.as_json(*grouped, "--groups", "who")
        self.assertEqual((result["diagnostics"]["blocks"], result["null"]), (40, "multiplier"))
        timed = self.as_json(*grouped, "--time", "day", "--block", "4")["diagnostics"]
        self.assertEqual((timed["blocks"], timed["block_length"]), (10, 4))
        self.assertIn("40 count as independent", self.succeed(*grouped, "--groups", "who").stdout)
        self.refuse(2, ["--block needs --time"], *grouped, "--block", "4")
        self.refuse(2, ["--time", "dates such as 2024-03-31", "not 'p0'"], *grouped, "--time", "who")
        self.refuse(2, ["calibration needs independent rows"], *grouped, "--groups", "who", "--calibrate", "20")

    def test_pairs(self):
        self.write("pairs.csv", 'z,note,x,y\nz,one,bound,y\nz,two,free,y\nz,three,free,\ngroup,four,bound,"y,z"\n')
        many = ["test", "kci", "--data", "table.csv", "--pairs", "pairs.csv"]
        result = self.as_json(*many, "--cache", "results")
        p_values = [t["p_value"] for t in result["tests"]]
        for one, test in zip((("bound", "y", "z"), ("free", "y", "z"), ("free", None, "z"), ("bound", "y,z", "group")),
                             result["tests"]):
            alone = self.as_json(*self.ask("kci", *one), "--threads", "1")
            self.assertEqual(alone["p_value"], test["p_value"])
        ordered = sorted(p_values)
        holm = {p: min(1, max((4 - k) * ordered[k] for k in range(i + 1))) for i, p in enumerate(ordered)}
        bh = {p: min(4 / (k + 1) * ordered[k] for k in range(i, 4)) for i, p in enumerate(ordered)}
        for test in result["tests"]:
            self.assertAlmostEqual(test["p_holm"], holm[test["p_value"]])
            self.assertAlmostEqual(test["p_bh"], bh[test["p_value"]])
        again = self.as_json(*many, "--cache", "results", "--threads", "2")
        self.assertEqual((result["cached"], again["cached"]), (0, 4))
        self.assertEqual([t["p_value"] for t in again["tests"]], p_values)
        self.assertEqual(self.as_json(*many, "--cache", "results", "--seed", "3", "--null", "wild")["cached"], 0)
        for path in (self.path / "results").iterdir():
            path.write_bytes(path.read_bytes()[:-9])  # cut short: it counts as none
        self.assertEqual(self.as_json(*many, "--cache", "results")["cached"], 0)
        lines = list(csv.DictReader(self.succeed(*many, "--csv").stdout.splitlines()))
        self.assertEqual([line["y"] for line in lines], ["y", "y", "", "y,z"])
        self.assertIn("4 tests (kci)", self.succeed(*many).stdout)

    def test_pairs_that_repeat(self):
        """They count once in the adjustment."""
        self.write("once.csv", "x;z;y\nbound;z;y\nfree;z;y\n")
        self.write("twice.csv", "x,z,y\nbound,z,y\nfree,z,y\nbound,z,y\nbound,z,y\n")
        once, twice = (self.as_json("test", "kci", "--data", "table.csv", "--pairs", name)["tests"] for name in ("once.csv", "twice.csv"))
        for i, k in enumerate((0, 1, 0, 0)):
            for name in ("p_value", "p_holm", "p_bh"):
                self.assertEqual(twice[i][name], once[k][name])
        result = self.succeed("test", "kci", "--data", "table.csv", "--pairs", "twice.csv")
        self.assertIn("2 tests have the columns of an earlier one, and do not count again", " ".join(result.stderr.split()))

    def test_pairs_test_wise(self):
        self.write("pairs.csv", "x,z,y\nfree,z,y\nholes,z,y\n")
        many = ["test", "gcm", "--data", "table.csv", "--pairs", "pairs.csv"]
        self.refuse(2, ["missing"], *many)
        self.assertEqual([t["n"] for t in self.as_json(*many, "--missing", "drop")["tests"]], [ROWS, ROWS - 5])

    def test_pairs_of_rows(self):
        """Weights, groups and dates mean what they do in one test, in whatever order the dates come."""
        draw = random.Random(6)
        days = ["2024-%02d-%02d" % (1 + k // 28, 1 + k % 28) for k in range(ROWS)]
        rows = [{**row, "day": day, "who": "p%d" % (k // 6)} for k, (row, day) in enumerate(zip(self.rows, days))]
        draw.shuffle(rows)
        self.write("days.csv", csv_text(rows))
        self.write("pairs.csv", "x,z,y\nfree,z,y\n")
        many = ["test", "kci", "--data", "days.csv", "--pairs", "pairs.csv"]
        for more in (["--time", "day", "--block", "10"], ["--weights", "weight"], ["--groups", "who"]):
            alone = self.as_json(*self.ask("kci", "free", "y", "z", "days.csv"), *more, "--threads", "1")
            self.assertEqual(self.as_json(*many, *more)["tests"][0]["p_value"], alone["p_value"], more)
        self.refuse(2, ["--time", "dates such as 2024-03-31", "not 'p"], *many, "--time", "who")
        self.refuse(2, ["--block needs --time"], *many, "--block", "3")
        self.refuse(2, ["--weights", "one column of numbers"], *many, "--weights", "who")
        self.refuse(2, ["--weights", "at least 0"], *many, "--weights", "noise")
        rows[4]["day"] = ""
        self.write("days.csv", csv_text(rows))
        self.refuse(2, ["the time of row 4 is nan"], *self.ask("kci", "holes", "y", "z", "days.csv"), "--time", "day",
                    "--missing", "impute")

    def test_pairs_ignored(self):
        self.write("pairs.csv", "x,z,y\nfree,z,y\n")
        many = ["--data", "table.csv", "--pairs", "pairs.csv"]
        for words, arguments in ((["--regressor was ignored", "kci"], ["test", "kci", *many, "--regressor", "forest"]),
                                 (["y was ignored", "hsic"], ["test", "hsic", *many]),
                                 (["--y was ignored", "hsic"], self.ask("hsic"))):
            warnings = self.as_json(*arguments)["warnings"]
            self.assertTrue(any(all(word in w for word in words) for w in warnings), warnings)

    def test_bad_pairs(self):
        many = ["test", "kci", "--data", "table.csv", "--pairs", "pairs.csv"]
        for text, words in (("a,b\n1,2\n", ["line 1", "no column 'x'"]), ("x,z,y\n", ["contains no tests"]),
                            ("x,z,y\nfree,z,y\n\nfree,,y\n", ["line 4", "column 'z' is empty"]),
                            ("x,z,y\nfree,z\n", ["line 2 has 2 cells"]), ('x,z,y\nfree,z,"y\n', ["line 2", "quote"]),
                            ("x,z,y\nfree,z,yy\n", ["line 2, column 'y'", "no column 'yy'", "did you mean 'y'"]),
                            ("x,z,y\nfree,z,free\n", ["line 2, column 'y'", "'free' is also in x"])):
            self.write("pairs.csv", text)
            self.refuse(2, ["pairs.csv", *words], *many)
        self.refuse(2, ["nowhere.csv"], "test", "kci", "--data", "table.csv", "--pairs", "nowhere.csv")
        (self.path / "folder").mkdir(exist_ok=True)
        self.refuse(2, ["cannot read folder"], "test", "kci", "--data", "table.csv", "--pairs", "folder")
        self.write("pairs.csv", 'x,"z,y\nfree,z,y\n')
        self.refuse(2, ["line 1", "quote"], *many)
        self.write("pairs.csv", "x,z,Y\nfree,z,y\n")  # not a test without y
        self.assertEqual(self.as_json(*many)["tests"][0]["y"], "y")
        self.refuse(2, ["--x is for a single test"], *many, "--x", "free")
        self.refuse(2, ["--seconds is for a single test"], *many, "--seconds", "3")
        self.refuse(2, ["--imputations is for a single test"], *many, "--imputations", "3")
        self.refuse(2, ["--pairs needs --data"], "test", "kci", "--pairs", "pairs.csv")
        self.refuse(2, ["--pairs needs one test"], "test", "all", *many[2:])
        self.refuse(2, ["--cache", "needs --pairs"], *self.ask("kci"), "--cache", "results")

    def test_impute(self):
        result = self.as_json(*self.ask("gcm", x="holes"), "--missing", "impute", "--imputations", "7")
        self.assertEqual((result["n"], result["diagnostics"]["imputations"]), (ROWS, 7))
        self.assertIn("filled in 7 times", result["verdict"])
        self.refuse(2, ["--missing impute", "--effects"], *self.ask("gcm", x="holes"), "--missing", "impute", "--effects")
        self.refuse(2, ["--missing"], "fit", "--data", "table.csv", "--y", "y", "--z", "z", "-o", "m", "--missing", "impute")

    def test_missing(self):
        self.refuse(2, ["missing", "--missing drop"], *self.ask("kci", x="holes"))
        result = self.as_json(*self.ask("kci", x="holes"), "--missing", "drop")
        self.assertEqual((result["n"], result["dropped"]), (ROWS - 5, 5))
        self.assertTrue(any("5 rows" in w for w in result["warnings"]), result["warnings"])

    def test_auxiliary(self):
        self.write("more.csv", csv_text(points(200, 8)))
        pair = ["--auxiliary-y", "more.csv:y", "--auxiliary-z", "more.csv:z"]
        result = self.as_json(*self.ask("circe"), *pair)
        self.assertEqual(result["diagnostics"]["regression_z"]["rows"], ROWS + 200)
        ignored = self.as_json(*self.ask("kci"), *pair)
        self.assertTrue(any("--auxiliary-y" in w for w in ignored["warnings"]), ignored["warnings"])
        self.refuse(2, ["--auxiliary-z", "too"], *self.ask("circe"), *pair[:2])
        self.refuse(2, ["rows"], *self.ask("circe"), "--auxiliary-y", "more.csv:y", "--auxiliary-z",
                    "table.csv:z")

    def test_calibrate(self):
        result = self.as_json(*self.ask("kci"), "--calibrate", "40", "-o", "figures")
        c = result["calibration"]
        self.assertEqual((c["repetitions"], len(c["p_values"]), sum(c["counts"])), (40, 40, 40))
        self.assertTrue(c["level_lower"] <= c["level"] <= c["level_upper"])
        self.assertLess(c["level"], 0.3)  # x was drawn again, although bound depends on z
        self.assertEqual(c["level"], sum(p <= 0.05 for p in c["p_values"]) / 40)
        self.assertIn(c["trust"], ("good", "doubtful", "poor"))
        for name in ("calibration.gp", "calibration.dat"):
            self.assertTrue((self.path / "figures" / name).exists())
        if shutil.which("gnuplot"):
            self.assertIn("<svg", (self.path / "figures" / "calibration.svg").read_text())
        text = self.succeed(*self.ask("gcm", data="forty.csv"), "--calibrate").stdout  # without a number: 200
        for word in ("200 data sets", "0.00 - 0.05", "0.95 - 1.00", "#", "at most alpha"):
            self.assertIn(word, text)
        self.refuse(2, ["--calibrate"], *self.ask("kci"), "-o", "figures")
        self.refuse(2, ["--calibrate", "between"], *self.ask("kci"), "--calibrate", "3")

    def test_effects(self):
        bound = self.as_json(*self.ask("kci"), "--effects")
        free = self.as_json(*self.ask("kci", x="free"), "--effects")
        for name in ("kpc", "circe"):
            e = bound["effects"][name]
            self.assertTrue(0 <= e["lower"] <= e["value"] <= e["upper"] <= 1, e)
            self.assertGreater(e["value"], free["effects"][name]["value"] + 0.05)
        along = bound["along"]
        self.assertEqual(along["column"], "y")
        self.assertEqual(sorted(along["place"]), along["place"])
        self.assertEqual({len(along[k]) for k in ("place", "value", "lower", "upper", "null_upper")}, {9})

    def test_all(self):
        result = self.as_json(*self.ask("all"))
        self.assertEqual([t["method"] for t in result["tests"]], list(TESTS))
        text = self.succeed(*self.ask("all")).stdout
        for word in (*TESTS, "p-value", "trust", "beforehand"):
            self.assertIn(word, text)
        self.refuse(2, ["--null", "one test only"], *self.ask("all"), "--null", "gamma")

    def test_text(self):
        text = self.succeed(*self.ask("kci")).stdout
        self.assertTrue(text.startswith("p < 1e-12") or re.match(r"p = \d", text), text)
        for word in ("statistic", "null", "regression on y", "left over", "degrees of freedom", "Trust:", "of x", "of z"):
            self.assertIn(word, text)
        self.assertEqual(len(self.succeed(*self.ask("kci"), "--quiet").stdout.splitlines()), 1)

    def test_constant(self):
        result = self.as_json(*self.ask("kci", x="same"))
        self.assertEqual((result["statistic"], result["p_value"]), (0, 1))
        self.assertTrue(any("constant" in w for w in result["warnings"]))

    def test_bad_input(self):
        self.refuse(2, ["there is no test 'kcl'", "did you mean 'kci'"], *self.ask("kcl"))
        self.refuse(2, ["which test"], "test", *self.ask()[2:])
        self.refuse(2, ["no column 'bounds'", "did you mean 'bound'"], *self.ask("kci", x="bounds"))
        self.refuse(2, ["6 rows", "at least 8"], *self.ask("kci", data="few.csv"))
        for alpha in ("0", "1", "-0.1", "1.5", "nan", "x"):
            self.refuse(2, ["--alpha"], *self.ask("kci"), "--alpha=" + alpha)
        self.refuse(2, ["--test-share", "less than 1"], *self.ask("splitkci"), "--test-share", "1")
        self.refuse(2, ["--draws", "between"], *self.ask("kci"), "--draws", "3")
        self.refuse(2, ["gcm"], *self.ask("gcm"), "--null", "gamma")
        self.refuse(2, ["--z FILE is required"], "test", "kci", "--x", "x.npy", "--y", "y.npy")
        self.refuse(1, ["cannot create the folder"], *self.ask("kci"), "--calibrate", "20", "-o", "table.csv/figures")

    def test_arrays(self):
        result = self.as_json("test", "gcm", "--x", "x.npy", "--y", "y.npy", "--z", "z.npy")
        self.assertLess(result["p_value"], 0.01)
        self.write("short.npy", npy_bytes([1.0, 2.0]))
        self.refuse(2, ["60 rows", "2"], "test", "kci", "--x", "x.npy", "--y", "y.npy", "--z", "short.npy")


class AuditTest(InferenceTest):
    def finding(self, result, prediction, attribute):
        return next(f for f in result["findings"] if (f["prediction"], f["attribute"]) == (prediction, attribute))

    @classmethod
    def setUpClass(cls):
        """One audit of two predictions and three attributes, which most tests look at."""
        super().setUpClass()
        cls.audited = cls.run_circe(cls, *cls.audit_args(cls, sensitive="z,noise,group", out="main", calibrate="20"),
                                    "--json")
        cls.result = json.loads(cls.audited.stdout)

    def test_numbers(self):
        result = self.result
        self.assertEqual((result["n"], result["outcome"], result["test"]), (ROWS, "numbers", "kci+gcm"))
        self.assertEqual(len(result["findings"]), 6)
        for attribute in ("z", "group"):
            f = self.finding(result, "bound", attribute)
            self.assertEqual(f["decision"], "depends")
            self.assertLessEqual(f["p_adjusted"], 0.05)
            self.assertIn("still depends", f["verdict"])
        for prediction, attribute in (("free", "z"), ("free", "group"), ("free", "noise"), ("bound", "noise")):
            f = self.finding(result, prediction, attribute)
            self.assertEqual(f["decision"], "no dependence found", f)
            self.assertIn("not a proof", f["verdict"])
        self.assertEqual(json.loads((self.path / "main" / "results.json").read_text()), result)

    def test_what_decides(self):
        for f in self.result["findings"]:
            deciding = [t for t in f["tests"] if t["decides"]]
            self.assertEqual([t["method"] for t in deciding], ["kci", "gcm"])
            self.assertEqual([t["method"] for t in f["tests"] if not t["decides"]], ["circe", "splitkci"])
            self.assertEqual(f["p_value"], min(1, 2 * min(t["p_value"] for t in deciding)))
            for t in deciding:
                self.assertEqual(len(t["calibration"]["p_values"]), 20)
        one = self.as_json(*self.audit_args(prediction="free", out="one"), "--test", "circe")["findings"][0]
        self.assertEqual([t["method"] for t in one["tests"] if t["decides"]], ["circe"])
        self.assertEqual(one["p_value"], one["tests"][0]["p_value"])
        self.assertNotIn("calibration", one["tests"][0])

    def test_holm(self):
        for prediction in ("free", "bound"):
            found = sorted((f for f in self.result["findings"] if f["prediction"] == prediction),
                           key=lambda f: f["p_value"])
            least = 0
            for k, f in enumerate(found):
                least = max(least, min(1, (3 - k) * f["p_value"]))
                self.assertAlmostEqual(f["p_adjusted"], least, 12)

    def test_gaps(self):
        for prediction in ("free", "bound"):
            gaps = self.finding(self.result, prediction, "z")["gaps"]
            self.assertEqual([g["groups"] for g in gaps], [2, 4, 10])
            for g in gaps:
                self.assertTrue(0 < g["chance"] < g["chance_upper"], g)
                self.assertEqual(g["gap"] > g["chance_upper"], prediction == "bound", (prediction, g))
        self.assertEqual([g["groups"] for g in self.finding(self.result, "bound", "group")["gaps"]], [3])
        # what the two halves of z differ by in (bound - mean given y): about that of z itself
        self.assertTrue(0.8 < self.finding(self.result, "bound", "z")["gaps"][0]["gap"] < 2.2)

    def test_classes(self):
        """Rates by hand, for text and for 0 and 1."""
        words = self.as_json(*self.audit_args(prediction="said", target="label", sensitive="group", out="words"))
        self.assertEqual((words["outcome"], words["positive"]), ("binary", "yes"))
        rates = {}
        for outcome in ("yes", "no"):
            by_group = []
            for group in ("high", "mid", "low"):
                said = [r["said"] == "yes" for r in self.rows if (r["label"], r["group"]) == (outcome, group)]
                if len(said) >= 5:
                    by_group.append(sum(said) / len(said))
            rates[outcome] = max(by_group) - min(by_group)
        gaps = {g["of"]: g["gap"] for g in words["findings"][0]["gaps"]}
        self.assertAlmostEqual(gaps["true positive rate"], rates["yes"], 12)
        self.assertAlmostEqual(gaps["false positive rate"], rates["no"], 12)
        scores = self.as_json(*self.audit_args(prediction="score", target="one", sensitive="z,group", out="scores"))
        self.assertEqual((scores["positive"], scores["findings"][0]["decision"]), ("1", "depends"))
        other = self.as_json(*self.audit_args(prediction="said", target="label", sensitive="group", out="words"),
                             "--positive", "no")
        gaps = {g["of"]: g["gap"] for g in other["findings"][0]["gaps"]}
        self.assertAlmostEqual(gaps["true positive rate"], rates["no"], 12)

    def test_groups_and_errors(self):
        f = self.finding(self.result, "bound", "z")
        rows = sorted(self.rows, key=lambda r: r["z"])[-ROWS // 10:]
        error = [r["bound"] - r["y"] for r in rows]
        self.assertAlmostEqual(f["groups"]["mean_error"][-1], sum(error) / len(error), 9)
        self.assertAlmostEqual(f["groups"]["root_mean_square_error"][-1],
                               math.sqrt(sum(e * e for e in error) / len(error)), 9)

    def test_results_csv(self):
        with open(self.path / "main" / "results.csv", newline="") as file:
            lines = list(csv.DictReader(file))
        kpc = next(line for line in lines
                   if (line["prediction"], line["attribute"], line["name"]) == ("bound", "z", "kpc"))
        e = self.finding(self.result, "bound", "z")["effects"]["kpc"]
        self.assertEqual([float(kpc[k]) for k in ("value", "lower", "upper")], [e["value"], e["lower"], e["upper"]])
        self.assertTrue({"p_value of a deciding test", "p_value", "p_adjusted", "effect", "measure", "gap",
                         "calibration: share of p-values at most alpha"} <= {line["kind"] for line in lines})

    def test_same_seed_same_result(self):
        results = []
        for threads in ("1", "2"):
            result = self.as_json(*self.audit_args(prediction="free", out="seed", calibrate="20"), "--threads", threads)
            f = result["findings"][0]
            drawn = [p for t in f["tests"] if t["decides"] for p in t["calibration"]["p_values"]]
            results.append([f["p_value"], f["effects"]["kpc"]["lower"], *drawn, *(g["gap"] for g in f["gaps"])])
        for one, other in zip(*results):  # p-values by formula, to rounding
            self.assertAlmostEqual(one, other, 9)

    def test_missing(self):
        self.refuse(2, ["missing", "--missing drop"], *self.audit_args(sensitive="holes", out="missing"))
        self.assertFalse((self.path / "missing").exists())
        result = self.as_json(*self.audit_args(sensitive="holes", out="missing"), "--missing", "drop")
        self.assertEqual((result["n"], result["dropped"]), (ROWS - 5, 5))
        self.assertIn("left out 5 rows", (self.path / "missing" / "report.html").read_text())

    def test_text(self):
        text = self.succeed(*self.audit_args(out="text")).stdout
        for word in ("prediction", "adjusted", "KPC", "depends", "no dependence found", "text/report.html"):
            self.assertIn(word, text)

    def test_existing_folder(self):
        (self.path / "there").mkdir()
        (self.path / "there" / "report.html").write_text("old")
        (self.path / "there" / "mine.txt").write_text("mine")
        self.succeed(*self.audit_args(prediction="free", out="there"))
        self.assertIn("Audit of free", (self.path / "there" / "report.html").read_text())
        self.assertEqual((self.path / "there" / "mine.txt").read_text(), "mine")

    def test_bad_input(self):
        refuse = lambda words, **kinds: self.refuse(2, words, *self.audit_args(**{"out": "bad", **kinds}))
        refuse(["no column 'zz'"], sensitive="zz")
        refuse(["no column 'bund'", "did you mean 'bound'"], prediction="bund")
        refuse(["'y' is the target", "nothing can depend"], sensitive="z,y")
        refuse(["'free' is a prediction"], sensitive="free")
        refuse(["'y' is the target"], prediction="y")
        refuse(["'z' is named twice"], sensitive="z,z")
        refuse(["attribute 'same' is constant"], sensitive="same")
        refuse(["target 'same' is constant"], target="same")
        refuse(["'name'", "300 different words"], sensitive="name")
        refuse(["40 rows", "at least 50"], data="forty.csv")
        refuse(["prediction 'group' is text"], prediction="group")
        refuse(["contains 'high'", "such as 'no'"], prediction="group", target="label")
        refuse(["nothere.csv"], data="nothere.csv")
        refuse(["invisible character"], prediction="free\r")
        refuse(["line break"], target="y\r")
        for alpha in ("0", "1", "2"):
            self.refuse(2, ["--alpha"], *self.audit_args(out="bad"), "--alpha", alpha)
        self.refuse(2, ["--positive 'maybe'", "'no' and 'yes'"],
                    *self.audit_args(prediction="score", target="label", out="bad"), "--positive", "maybe")
        self.refuse(2, ["--positive", "two values"], *self.audit_args(out="bad"), "--positive", "1")
        self.refuse(2, ["no table is given"], "audit", "--prediction", "free", "--target", "y", "--sensitive", "z", "-o", "bad")
        self.refuse(2, ["-o DIR is required"], *self.audit_args()[:-2])
        self.refuse(1, ["table.csv"], *self.audit_args(out="table.csv"))
        self.refuse(1, ["cannot create the folder"], *self.audit_args(out="no/such/place"))
        self.assertFalse((self.path / "bad").exists())

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_folder_that_cannot_be_written(self):
        (self.path / "closed").mkdir(mode=0o500)
        self.refuse(1, ["cannot write"], *self.audit_args(out="closed"))


class Page(html.parser.HTMLParser):
    """What a page shows and what it asks for."""

    ASKING = ("src", "href", "xlink:href", "action", "data", "poster", "srcset", "background")

    def __init__(self, text):
        super().__init__()
        self.tags, self.asked, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.asked += [value for name, value in attributes if name in self.ASKING and not value.startswith("#")]

    def handle_data(self, data):
        self.text.append(data)


class BrowserTest(InferenceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.reports = {}
        for name, arguments in (("numbers", ("free,bound", "y", "z,group")), ("classes", ("score", "label", "z"))):
            cls.run_circe(cls, *cls.audit_args(cls, *arguments, out=name, calibrate="20")).check_returncode()
            cls.reports[name] = cls.path / name / "report.html"

    def check(self, text):
        page = Page(text)
        self.assertEqual(page.asked, [])  # its script is its own, without src
        self.assertNotIn("link", page.tags)
        self.assertIsNone(re.search(r"url\(\s*['\"]?(?!#)|@import|file://", text))
        # names of XML namespaces are no requests
        self.assertEqual(re.findall(r"https?://(?!www\.w3\.org/)[^\"' ]*", text), [])
        return page

    def test_static(self):
        for name, path in self.reports.items():
            page = self.check(path.read_text())
            self.assertIn("table", page.tags)
            if shutil.which("gnuplot"):
                self.assertEqual(path.read_text().count("<svg role"), 14 if name == "numbers" else 8)
            text = " ".join(page.text)
            for word in ("Verdict", "Equalised-odds gaps", "Error along", "Is the test calibrated", "How much",
                         "What this audit does and does not say", "How this was made"):
                self.assertIn(word, text)

    @unittest.skipUnless(CHROMIUM, "Chromium is not installed")
    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_chromium(self):
        """The page as the browser draws it, wide and on a phone, and what the browser loaded for it."""
        for name, path in self.reports.items():
            with tempfile.TemporaryDirectory() as folder:
                probe = pathlib.Path(folder) / "probe.html"
                # the same page, with a script that writes what is drawn and what was loaded into the document
                probe.write_text(path.read_text().replace("</body>", """<script>
addEventListener('load', () => {
  const boxes = [...document.querySelectorAll('.panels svg')].map(s => s.getBoundingClientRect());
  const out = document.createElement('pre');
  out.id = 'probe';
  const table = [...document.querySelectorAll('table')].find(t => t.tBodies[0].rows.length > 3);
  const head = table.tHead.rows[0].cells[1], column = () => [...table.tBodies[0].rows].map(r => parseFloat(r.cells[1].textContent));
  head.click();
  const up = column();
  head.click();
  const down = column(), sorted = [...up].sort((a, b) => a - b);
  const legend = [...document.querySelectorAll('.legend[role=button]')][0], svg = legend.closest('figure');
  const drawn = () => [...svg.querySelectorAll('svg [data-curve]')].filter(c => getComputedStyle(c).display !== 'none').length;
  const before = drawn();
  legend.dispatchEvent(new Event('click'));
  const after = drawn();
  out.textContent = JSON.stringify({figures: boxes.filter(b => b.width > 100 && b.height > 100).length,
    loaded: performance.getEntriesByType('resource').map(e => e.name),
    sorts: String(up) === String(sorted) ? String(down) === String(sorted.reverse()) : false, before, after,
    values: document.querySelectorAll('use title').length,
    wide: document.documentElement.scrollWidth > innerWidth,
    curves: document.querySelectorAll('figure svg path').length});
  document.body.append(out);
});</script></body>"""))
                for width in (1280, 400):
                    result = subprocess.run(
                        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         "--user-data-dir=" + folder + "/profile", "--window-size=%d,900" % width,
                         "--dump-dom", probe.as_uri()], capture_output=True, text=True, timeout=110)
                    found = re.search(r'<pre id="probe">(.*?)</pre>', result.stdout, re.S)
                    self.assertIsNotNone(found, result.stderr[-800:])
                    seen = json.loads(found.group(1).replace("&gt;", ">").replace("&amp;", "&"))
                    self.assertEqual(seen["figures"], 14 if name == "numbers" else 8, (name, width, seen))
                    self.assertGreater(seen["curves"], 20)
                    self.assertTrue(seen["sorts"])
                    self.assertLess(seen["after"], seen["before"])
                    self.assertGreater(seen["values"], 10)
                    self.assertEqual(seen["loaded"], [])
                    self.assertFalse(seen["wide"], "the page is wider than a window of %d pixels" % width)


@unittest.skipUnless(os.environ.get("CIRCE_DATA"), "CIRCE_DATA does not name the folder of the real data")
class CrimeTest(CliTest):
    def test_communities(self):
        data = pathlib.Path(os.environ["CIRCE_DATA"]) / "communities_crime.csv"
        result = self.as_json("audit", str(data), "--prediction", "PctIlleg,PctUsePubTrans", "--target",
                              "ViolentCrimesPerPop", "--sensitive", "racepctblack", "--calibrate", "20", "-o", "crime")
        self.assertEqual(result["n"], 1994)
        self.assertEqual(result["findings"][0]["decision"], "depends")


if __name__ == "__main__":
    unittest.main()
