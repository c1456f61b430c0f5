"""`circe train`, `circe predict`, `--config` and `circe demo`, on the real command: what comes out, that it is the same
whatever interrupts it, and that bad input gets a clear answer.

Only the Python standard library is needed. CIRCE_BINARY names the command to test."""

import csv
import fcntl
import io
import json
import math
import os
import pty
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest
import zipfile

from cli_support import BINARY, CliTest, npy_bytes, read_npy

ROWS = 420
SMALL = ["--batch", "64", "--net", "2x16", "--epochs", "2", "--threads", "1"]


def points(n, seed):
    """y, z = y^2 + noise, a from y, b from z and y; a group that follows z, a label that follows b."""
    draw = random.Random(seed)
    rows = []
    for _ in range(n):
        y = draw.gauss(0, 1)
        z = y * y + draw.gauss(0, 1)
        b = 5 * z + math.sin(3 * y) + 0.1 * draw.gauss(0, 1)
        rows.append({"a": 2 * y + 0.2 * draw.gauss(0, 1), "y": y, "z": z, "b": b,
                     "group": "high" if z > 1 else "low", "label": "up" if b > 8 else "down" if b < 0 else "mid",
                     "count": draw.randrange(3), "same": 3})
    return rows


def csv_text(rows, columns=None):
    columns = columns or list(rows[0])
    return "\n".join([",".join(columns)] + [",".join(str(row[c]) for c in columns) for row in rows]) + "\n"


def tensors(data):
    """Metadata and the bytes behind the header of a .safetensors."""
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + length])["__metadata__"], data[8 + length:]


class TrainTest(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = points(ROWS, 1)
        cls.write("table.csv", csv_text(cls.rows))
        cls.write("new.csv", csv_text(points(50, 2), ["z", "group", "y", "a"]))

    def train_args(self, out="m.safetensors", regularizer="circe", *options, features="a,y,z", target="b", given="y",
                   data="table.csv"):
        arguments = ["train", "--data", data, "--features", features, "--target", target, "--invariant-to", "z",
                     "--regularizer", regularizer, "-o", out, *SMALL]
        if regularizer != "none":
            arguments += ["--gamma", "10"]
        if given:
            arguments += ["--given", given]
        for name, value in zip(options[::2], options[1::2]):
            if name in arguments:
                arguments[arguments.index(name) + 1] = value
            else:
                arguments += [name, value]
        return arguments

    def model(self, name):
        return (self.path / name).read_bytes()

    def predict(self, model, data, *options):
        text = self.succeed("predict", "--model", model, "--data", data, *options).stdout
        return list(csv.DictReader(io.StringIO(text)))


class ResultTest(TrainTest):
    def test_every_regularizer(self):
        for name in ("none", "circe", "hscic", "gcm", "hsic"):
            out = "reg-%s.safetensors" % name
            result = self.as_json(*self.train_args(out, name), "--no-report")
            self.assertEqual(result["settings"]["regularizer"], name)
            self.assertEqual(result["epochs"], 2)
            self.assertLess(result["error"]["mse_standardised"], 3)
            self.assertTrue((self.path / out).exists())
            self.assertFalse((self.path / (out + ".checkpoint")).exists())
            for measure in ("circe", "hscic", "gcm", "hsic"):
                for state in ("target", "after") if name == "none" else ("target", "baseline", "after"):
                    self.assertTrue(math.isfinite(result["measures"][measure][state]), (measure, state))

    def test_every_estimator_and_method(self):
        files = set()
        for options in (["--estimator", "biased"], ["--estimator", "debiased"], ["--estimator", "centered"],
                        ["--estimator", "ustat"], ["--method", "dense"], ["--method", "rff"]):
            self.succeed(*self.train_args("est.safetensors", "circe", *options), "--no-report")
            files.add(tensors(self.model("est.safetensors"))[1])
        # The diagonal of a gaussian kernel is constant, so biased and debiased have one gradient; few rows are dense.
        self.assertEqual(len(files), 4)

    def test_precision_of_the_regulariser(self):
        """Another last digit, and hardly another result."""
        models, errors = set(), []
        for name in ("circe", "hscic"):
            for dtype in ("float32", "float64"):
                result = self.as_json(*self.train_args("precision.safetensors", name, "--dtype", dtype), "--no-report")
                self.assertEqual(result["settings"]["dtype"], dtype)
                models.add(tensors(self.model("precision.safetensors"))[1])
                errors.append(result["error"]["mse_standardised"])
        self.assertEqual(len(models), 4)
        for single, double in (errors[:2], errors[2:]):
            self.assertAlmostEqual(single, double, delta=0.01 * double)

    def test_json_contract(self):
        result = self.as_json(*self.train_args("json.safetensors", "circe", "--seed", "3"))
        for key in ("model", "rows", "features", "target", "parameters", "epochs", "steps", "best_epoch",
                    "stopped_early", "resumed", "error", "comparison", "groups", "measures", "measured_rows", "floor", "settings", "report",
                    "warnings", "circe_version", "seconds", "regularizer_seconds"):
            self.assertIn(key, result)
        self.assertEqual(result["rows"], {"training": 315, "validation": 42, "test": 63, "holdout": 0,
                                          "conditional_mean": 315, "dropped": 0})
        self.assertEqual((result["features"], result["target"]), (["a", "y", "z"], ["b"]))
        self.assertEqual((result["steps"], result["parameters"]), (8, 4 * 16 + 17 * 16 + 17))
        self.assertTrue(0.2 < result["floor"] < 1, result["floor"])
        self.assertEqual(result["settings"]["seed"], "3")
        self.assertEqual(json.loads((self.path / "json-report" / "results.json").read_text())["error"],
                         result["error"])

    def test_text_is_a_closing_table(self):
        result = self.succeed(*self.train_args("text.safetensors"))
        for word in ("315 training, 42 validation, 63 test", "learned from 315 rows", "error of b", "R2", "floor",
                     "with regulariser", "with the regulariser", "without", "cost", "KPC", "b itself", "CIRCE", "HSCIC", "text-report/report.html"):
            self.assertIn(word, result.stdout)
        self.assertRegex(result.stderr, r"(?m)^epoch 2/2.*loss .*circe .*validation ")
        quiet = self.succeed(*self.train_args("text.safetensors"), "--quiet", "--no-report")
        self.assertEqual(quiet.stderr, "")
        self.assertNotIn("report", quiet.stdout)

    def test_it_learns_and_becomes_invariant(self):
        options = ["--epochs", "60", "--net", "3x32", "--lr", "3e-3", "--batch", "128"]
        free = self.as_json(*self.train_args("free.safetensors", "none", *options), "--no-report")
        invariant = self.as_json(*self.train_args("inv.safetensors", "circe", "--gamma", "1000", *options),
                                 "--no-report")
        self.assertLess(free["error"]["mse_standardised"], 0.05)
        self.assertGreater(invariant["error"]["mse_standardised"], 5 * free["error"]["mse_standardised"])
        self.assertLess(invariant["measures"]["circe"]["after"], free["measures"]["circe"]["after"] / 5)

    def test_given_defaults_to_the_target(self):
        result = self.as_json(*self.train_args("given.safetensors", given=None), "--no-report")
        self.assertEqual(result["settings"]["given"], ["b"])
        self.assertIsNone(result["floor"])
        self.assertIsNone(result["measures"]["circe"]["target"])

    def test_without_anything_to_be_invariant_to(self):
        result = self.as_json("train", "--data", "table.csv", "--features", "a,y", "--target", "b", "--regularizer",
                              "none", "-o", "plain.safetensors", *SMALL)
        self.assertEqual(result["rows"]["holdout"], 0)
        self.assertIsNone(result["measures"]["hsic"]["after"])

    def test_several_targets(self):
        result = self.as_json(*self.train_args("two.safetensors", target="b,a", features="y,z"), "--no-report")
        self.assertEqual([c["name"] for c in result["error"]["columns"]], ["b", "a"])
        self.assertEqual(sorted(self.predict("two.safetensors", "new.csv")[0]), ["a", "b"])

    def test_layers(self):
        self.succeed(*self.train_args("layers.safetensors", "circe", "--layers", "1,output"), "--no-report")
        self.assertNotEqual(self.model("layers.safetensors"), b"")
        for batch, options, least in (("1", ["circe"], 4), ("3", ["hsic"], 4), ("1", ["circe", "--estimator", "biased"], 2),
                                      ("1", ["gcm"], 2), ("1", ["hscic"], 2)):
            self.refuse(2, [f"--batch must be at least {least}", f"--regularizer {options[0]}", f"it is {batch}"],
                        *self.train_args("m.safetensors", *options, "--batch", batch))
        self.refuse(2, ["--layers", "'9'", "0 to 4", "output"], *self.train_args(), "--layers", "9")

    def test_patience_stops(self):
        result = self.as_json(*self.train_args("patient.safetensors", "none", "--epochs", "400", "--lr", "1e-2",
                                               "--patience", "3"), "--no-report")
        self.assertTrue(result["stopped_early"])
        self.assertLess(result["epochs"], 400)

    def bar(self, columns):
        """What a terminal of this width is shown."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([BINARY, *self.train_args("tty.safetensors", "circe", "--epochs", "40"),
                                    "--no-report"], cwd=self.path, stdout=subprocess.DEVNULL, stderr=slave,
                                   stdin=subprocess.DEVNULL)
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 65536):
                shown += piece
        except OSError:  # the other end is closed
            pass
        os.close(master)
        self.assertEqual(process.wait(), 0)
        return shown.decode().replace("\033[K", "")

    def test_progress_bar_on_a_terminal(self):
        wide = self.bar(100)
        self.assertRegex(wide, r"\]   [0-9]%  epoch [0-9]+/40, loss .*circe ")
        self.assertRegex(wide, r"\[#+\] 100%  judging")
        shares = [int(share) for share in re.findall(r"\] +(\d+)%", wide)]
        self.assertEqual(shares, sorted(shares))
        narrow = self.bar(50)
        self.assertRegex(narrow, r"\[#+\] 100%  judging")
        self.assertLess(max(len(line) for line in re.split(r"\r|\n", narrow)), 50)


class RowWeightsTest(TrainTest):
    """--row-weights: only ratios count, loss and regulariser see them, and what is no weight is refused."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(3)
        for i, row in enumerate(cls.rows):
            row.update(one=1, eight=8, tiny="1e-300", none=0, half=i % 2, some=draw.randrange(4), text="w",
                       negative=-1 if i == 7 else 1, huge="1e300" if i == 2 else 1, passed=int(row["b"] > 5))
        cls.write("table.csv", csv_text(cls.rows))

    def trained(self, weights=None, *options, **names):
        out = f"{weights}.safetensors"
        if weights is not None:
            options += ("--row-weights", weights)
        result = self.run_circe(*self.train_args(out, "circe", *options, **names), "--no-report", "-q")
        self.assertEqual(result.returncode, 0, result.stderr)
        return tensors(self.model(out))[1]

    def test_only_ratios_count(self):
        plain = self.trained()
        for weights in ("one", "eight", "tiny"):
            self.assertEqual(self.trained(weights), plain, weights)
        self.assertNotEqual(self.trained("some"), plain)

    def test_weights_are_on_record(self):
        """The model, the result and the report say by what the rows were weighted."""
        arguments = self.train_args("record.safetensors", "circe", "--row-weights", "some")
        result = self.as_json(*arguments, "--report", "record")
        self.assertEqual(result["settings"]["row_weights"], ["some"])
        self.assertIn("row_weights", json.dumps(tensors(self.model("record.safetensors"))[0]))
        self.assertIn("<dt>row weights</dt><dd>some</dd>", (self.path / "record" / "report.html").read_text())

    def test_random_features_are_weighted(self):
        """Equal weights are none, to the last digit."""
        plain = self.trained(None, "--method", "rff")
        self.assertEqual(self.trained("eight", "--method", "rff"), plain)
        self.assertNotEqual(self.trained("some", "--method", "rff"), plain)

    def test_weights_may_be_the_target(self):
        """Numbers that are classes as target are numbers as weights."""
        names = {"features": "a,y,z", "target": "passed", "given": None}
        self.assertNotEqual(self.trained("passed", **names), self.trained(**names))

    def test_what_is_no_weight(self):
        for weights, words in (("none", "weights of all training rows are 0"), ("negative", "contains -1 in row 7"),
                               ("huge", "contains 1e+300 in row 2; weights must be at least 0 and at most 3.4e+38"), ("text", "contains text"),
                               ("one,eight", "it must name one"), ("nowhere", "there is no column 'nowhere'")):
            self.refuse(2, [words], *self.train_args("bad.safetensors", "circe", "--row-weights", weights))


class CopiesTest(TrainTest):
    """A column under another name, or a function of one, makes the invariance trivial or impossible: the command says so."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(5)
        for i, row in enumerate(cls.rows):
            row.update(copy="%.5f" % row["y"], curve=math.exp(-row["y"]), step=int(row["y"] > 0.3), noise=draw.gauss(0, 1),
                       school="pqrs"[i % 4], code=7 * (i % 4) % 5, week=i % 9, weekcode=i % 9 * 4 % 9, coin=draw.randrange(2),
                       rare=int(i == 5), result=row["b"] / 3 + 1)
        cls.write("table.csv", csv_text(cls.rows))

    def warnings(self, given, invariant, *options, features="a,y", target="b"):
        arguments = ["train", "--data", "table.csv", "--features", features, "--target", target, "--invariant-to", invariant,
                     "--gamma", "1", "-o", "m.safetensors", "--no-report", *SMALL, *options]
        out = self.as_json(*arguments, *(["--given", given] if given else []))
        return [text for text in out["warnings"] if "determine" in text]

    def test_given_determines_z(self):
        for given, invariant in (("y", "copy"), ("y", "curve"), ("y", "step"), ("school", "code"), ("week", "weekcode"),
                                 ("noise,week", "weekcode"), ("school,week", "code"), (None, "result")):
            with self.subTest(given=given, invariant=invariant):
                (text,) = self.warnings(given, invariant)
                self.assertIn(f"--given determines '{invariant}' of --invariant-to in every row", text)
        (text,) = self.warnings("week,school", "coin,code,a", features="y")
        self.assertIn("'code'", text)

    def test_z_determines_the_target(self):
        (text,) = self.warnings("y", "result")
        self.assertIn("--invariant-to determines the target 'b'", text)
        self.assertIn("than --given does", text)
        (text,) = self.warnings(None, "result", "--regularizer", "hsic")
        self.assertIn("than a constant", text)

    def test_the_target_among_the_features(self):
        (text,) = self.warnings("y", "z", features="a,result")
        self.assertIn("the feature 'result' and the target 'b' determine each other", text)

    def test_other_columns_bring_no_warning(self):
        for given, invariant in (("y", "z"), ("step", "y"), ("code", "week"), ("school", "coin"), ("noise", "rare"), ("coin", "rare"),
                                 ("y,noise", "coin"), ("a", "y"), (None, "group"), ("week,school,coin", "z")):
            with self.subTest(given=given, invariant=invariant):
                self.assertEqual(self.warnings(given, invariant), [])


class GammaTest(TrainTest):
    """u tells of y and of z, w of y alone: the smallest gamma that hides z is found, on rows that are not the test's."""

    SEARCH = ["--data", "wide.csv", "--features", "u,w", "--target", "y", "--invariant-to", "z", "--net", "16", "--lr",
              "1e-2", "--epochs", "30", "--batch", "128", "--threads", "1"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(3)
        rows = []
        for _ in range(800):
            y, z = draw.gauss(0, 1), draw.gauss(0, 1)
            rows.append({"u": y + 0.7 * z + 0.2 * draw.gauss(0, 1), "w": y + 0.7 * draw.gauss(0, 1), "y": y, "z": z,
                         "pass": int(y > 0.3)})
        cls.write("wide.csv", csv_text(rows))

    def arguments(self, out, *options):
        """SEARCH with these options in the place of its own."""
        arguments = ["train", *self.SEARCH, "-o", out]
        for option, value in zip(options[::2], options[1::2]):
            if option in arguments:
                arguments[arguments.index(option) + 1] = value
            else:
                arguments += [option, value]
        return arguments

    def search(self, out, *options):
        return self.as_json(*self.arguments(out, *options), "--no-report")

    def whole(self):
        """The search without further options, and its network in whole.safetensors: run once for all tests."""
        if not hasattr(GammaTest, "found"):
            GammaTest.found = self.search("whole.safetensors")
        return GammaTest.found

    def test_auto_is_the_default_and_hides_z(self):
        result = self.whole()
        search, taken = result["search"], [t for t in result["search"]["trials"] if t["chosen"]]
        self.assertTrue(search["chosen"] and search["reached"])
        self.assertEqual([t["gamma"] for t in taken], [result["settings"]["gamma"]])
        gammas = [t["gamma"] for t in search["trials"]]
        self.assertEqual(gammas, sorted(gammas))
        self.assertEqual(gammas[0], 0)
        self.assertLess(search["trials"][0]["p_kci"], 1e-6)
        self.assertGreater(min(taken[0]["p_kci"], taken[0]["p_gcm"]), 0.01)
        found = result["comparison"]
        self.assertEqual(found["rows"], "test")
        self.assertLess(found["baseline"]["p_kci"], 1e-3)
        self.assertGreater(found["network"]["p_kci"], 1e-3)
        self.assertLess(found["network"]["kpc"]["value"], found["baseline"]["kpc"]["value"] / 3)
        self.assertFalse((self.path / "whole.safetensors.search").exists())
        again = self.search("again.safetensors", "--gamma", "auto")
        self.assertEqual(again["search"], search)
        self.assertEqual(self.model("whole.safetensors"), self.model("again.safetensors"))

    def test_the_search_goes_down_until_dependence_is_beyond_doubt(self):
        """It begins at a gamma with p = .019 here. With smaller ones, p could be as large and the error smaller."""
        draw = random.Random(9)
        rows = []
        for _ in range(300):
            y, z = draw.gauss(0, 1), draw.gauss(0, 1)
            rows.append({"u": y + 0.4 * z + 0.5 * draw.gauss(0, 1), "w": y + draw.gauss(0, 1), "y": y, "z": z})
        self.write("weak.csv", csv_text(rows))
        found = self.search("weak.safetensors", "--data", "weak.csv", "--net", "8", "--epochs", "10", "--batch", "64", "--test", "0")
        least = found["search"]["trials"][1]
        self.assertLess(min(least["p_kci"], least["p_gcm"]), 0.01)

    def test_the_test_rows_are_not_looked_at(self):
        """Another outcome in the test rows alone changes neither the search nor the network."""
        result = self.whole()
        rows = list(csv.DictReader(io.StringIO((self.path / "wide.csv").read_text())))
        self.succeed(*self.arguments("report.safetensors", "--gamma", "1"))
        judged = csv.DictReader(io.StringIO((self.path / "report-report" / "predictions.csv").read_text()))
        for row in judged:
            rows[int(row["row"])]["u"] = "0.123"
        self.write("blind.csv", csv_text(rows))
        blind = self.search("second.safetensors", "--data", "blind.csv")
        self.assertEqual(blind["search"], result["search"])
        self.assertNotEqual(blind["error"], result["error"])

    def test_tolerance(self):
        said = self.succeed(*self.arguments("said.safetensors", "--tolerance", "0.5", "--baseline", "none")).stdout
        loose = json.loads((self.path / "said-report" / "results.json").read_text())
        self.assertEqual(loose["search"]["tolerance"], 0.5)
        self.assertLess(loose["settings"]["gamma"], self.whole()["settings"]["gamma"])
        taken = [t for t in loose["search"]["trials"] if t["chosen"]][0]
        self.assertLess(taken["kpc"]["value"] - taken["kpc_chance"], 0.6)
        self.assertIn(f"{loose['settings']['gamma']:g}, with which KPC is at most 0.5 above chance on left-out rows", said)
        shown = [line.split()[4] for line in said.splitlines() if line.endswith("<- chosen")]
        self.assertEqual([float(number) for number in shown], [float(f"{taken['kpc']['value'] - taken['kpc_chance']:.3g}")])
        page = (self.path / "said-report" / "report.html").read_text()
        self.assertIn("within the tolerance, chosen", page)
        self.assertNotIn("not found, chosen", page)
        self.refuse(2, ["--tolerance", "between 0 and 1"], *self.arguments("x.safetensors", "--tolerance", "2"))

    def test_sweep(self):
        self.succeed(*self.arguments("sweep.safetensors", "--gamma", "3", "--sweep", "1,30"))
        folder = self.path / "sweep-report"
        table = list(csv.DictReader(io.StringIO((folder / "sweep.csv").read_text())))
        self.assertEqual([float(row["gamma"]) for row in table], [0, 1, 30])
        self.assertTrue(all(float(row["error_lower"]) < float(row["error"]) < float(row["error_upper"]) for row in table))
        self.assertTrue((folder / "sweep.gp").exists())
        result = json.loads((folder / "results.json").read_text())
        self.assertEqual(result["settings"]["gamma"], 3)
        self.assertFalse(result["search"]["chosen"])

    def test_interrupted_and_resumed(self):
        whole = self.whole()
        process = subprocess.Popen([BINARY, *self.arguments("cut.safetensors"), "--no-report"], cwd=self.path, stderr=subprocess.PIPE, text=True)
        found = self.path / "cut.safetensors.search"
        end = time.monotonic() + 60
        while not found.exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn("--resume", errors)
        self.refuse(2, ["cut.safetensors.search", "other data, settings or threads"],
                    *self.arguments("cut.safetensors", "--lr", "1e-3"), "--resume")
        result = self.as_json(*self.arguments("cut.safetensors"), "--no-report", "--resume")
        self.assertEqual(result["search"], whole["search"])
        self.assertEqual(self.model("cut.safetensors"), self.model("whole.safetensors"))
        self.assertFalse(found.exists())

    def test_a_number_of_0_and_1_is_a_class(self):
        options = ["--target", "pass", "--gamma", "1"]
        result = self.search("class.safetensors", *options)
        self.assertIn("treated as two classes", " ".join(result["warnings"]))
        for name in ("cross_entropy", "accuracy", "auc"):
            self.assertTrue(math.isfinite(result["error"][name]), name)
        self.assertIn("delta", result["settings"]["regularizer_text"])
        self.assertEqual(len(result["groups"]), 4)
        for name in ("true_positive_rate", "false_positive_rate", "selection_rate", "accuracy"):
            self.assertTrue(all(0 <= group[name] <= 1 for group in result["groups"]), name)
        number = self.search("number.safetensors", *options, "--task", "regression")
        self.assertIn("r2", number["error"])
        self.assertNotIn("treated as two classes", " ".join(number["warnings"]))

    def test_one_variance(self):
        result = self.search("variance.safetensors", "--gamma", "1")
        column = result["error"]["columns"][0]
        self.assertAlmostEqual(column["mse_standardised"], 1 - column["r2"], places=12)
        self.assertAlmostEqual(result["error"]["mse_standardised"], 1 - result["error"]["r2"], places=12)
        self.assertAlmostEqual(result["comparison"]["network"]["error"]["value"], column["mse_standardised"], places=6)

    def test_compared_with_a_model(self):
        self.search("plain.safetensors", "--regularizer", "none")
        trained = self.search("beside.safetensors", "--gamma", "1")
        given = self.search("given.safetensors", "--gamma", "1", "--baseline", "plain.safetensors")
        self.assertEqual(given["comparison"]["baseline_is"], "plain.safetensors")
        for network in ("network", "baseline"):
            one, other = (r["comparison"][network]["error"]["value"] for r in (trained, given))
            self.assertAlmostEqual(one, other, places=5)
        said = self.succeed(*self.arguments("said.safetensors", "--gamma", "1", "--baseline", "plain.safetensors", "--report", "named")).stdout
        page = (self.path / "named" / "report.html").read_text()
        self.assertEqual(len(re.findall(r"^ +plain\.safetensors +[-\d.]+", said, re.M)), 2)
        self.assertIn("Compared with the model plain.safetensors: there, ", page)
        for text in (said, page):
            self.assertNotRegex(text, r"without the regulariser|^ +without ")
        none = self.search("alone.safetensors", "--gamma", "1", "--baseline", "none")
        self.assertNotIn("baseline", none["comparison"])
        self.assertIsNone(none["measures"]["circe"]["baseline"])
        self.refuse(2, ["--baseline", "nosuch.safetensors"],
                    *self.arguments("x.safetensors", "--baseline", "nosuch.safetensors"))


class ReportTest(TrainTest):
    def test_categories_are_named_along_the_axis(self):
        """As codes with a legend below, the legend of six groups was wider than the figure."""
        self.succeed("train", "--data", "table.csv", "--features", "a,y", "--target", "label", "--invariant-to", "group",
                     "--gamma", "1", "-o", "groups.safetensors", "--report", "groups", *SMALL)
        script = (self.path / "groups" / "residuals.gp").read_text()
        self.assertRegex(script, r"set xtics norotate \('(high|low)' 0, '(high|low)' 1\)")
        self.assertIn("set xlabel 'group'", script)

    def test_folder(self):
        self.succeed(*self.train_args("rep.safetensors"), "--report", "out")
        folder = self.path / "out"
        for name in ("report.html", "results.csv", "results.json", "predictions.csv", "run.yaml", "history.gp",
                     "history.dat", "residuals.gp", "predictions.gp"):
            self.assertTrue((folder / name).exists(), name)
        history = list(csv.DictReader(io.StringIO((folder / "results.csv").read_text())))
        self.assertEqual([row["epoch"] for row in history], ["1", "2"])
        self.assertTrue(all(math.isfinite(float(v)) for row in history for v in row.values()))
        page = (folder / "report.html").read_text()
        for word in ("Prediction of b", "invariant to z given y", "floor", "with the regulariser", "The cost:", "gamma: 10"):
            self.assertIn(word, page)
        self.assertNotIn("http", re.sub(r"http://www.w3.org/[^\"]*", "", page))
        if shutil.which("gnuplot"):
            self.assertEqual(sum("<svg" in part for part in page.split("<figure>")[1:]), 4)

    def test_run_again_from_its_configuration(self):
        self.succeed(*self.train_args("first.safetensors", "hscic", "--seed", "5"))
        self.succeed("train", "--config", "first-report/run.yaml", "-o", "again.safetensors", "--no-report")
        self.assertEqual(self.model("first.safetensors"), self.model("again.safetensors"))

    def test_without_gnuplot(self):
        result = self.run_circe(*self.train_args("bare.safetensors"), env={"PATH": "/nonexistent"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("gnuplot", (self.path / "bare-report" / "report.html").read_text())


class SameBitsTest(TrainTest):
    def test_same_seed_same_file(self):
        for name in ("s1", "s2"):
            self.succeed(*self.train_args(name + ".safetensors", "gcm"), "--no-report")
        self.succeed(*self.train_args("s3.safetensors", "gcm", "--seed", "1"), "--no-report")
        self.assertEqual(self.model("s1.safetensors"), self.model("s2.safetensors"))
        self.assertNotEqual(tensors(self.model("s1.safetensors"))[1], tensors(self.model("s3.safetensors"))[1])

    LONG = ("--epochs", "1500", "--net", "3x32", "--batch", "64")

    def interrupt(self, out, how, when, *options):
        """Starts a run, stops it by a signal once `when` says so, and returns its exit status and messages."""
        process = subprocess.Popen([BINARY, *self.train_args(out, "gcm", *self.LONG), "--no-report", "--quiet",
                                    *options], cwd=self.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not when() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        process.send_signal(how)
        errors = process.communicate(timeout=60)[1]
        return process.returncode, errors

    def test_interrupted_and_resumed_is_uninterrupted(self):
        whole, out = "whole.safetensors", "cut.safetensors"
        checkpoint = self.path / (out + ".checkpoint")
        self.succeed(*self.train_args(whole, "gcm", *self.LONG), "--no-report", "--quiet")
        draw = random.Random(4)
        status, errors = self.interrupt(out, signal.SIGTERM, checkpoint.exists, "--checkpoint-epochs", "20")
        self.assertEqual(status, 1, errors)
        for word in ("interrupted after step", "cut.safetensors.checkpoint", "--resume"):
            self.assertIn(word, errors)
        self.assertTrue(checkpoint.exists())
        self.assertFalse((self.path / out).exists())
        for how in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL):
            before, pause = checkpoint.stat().st_mtime_ns, draw.uniform(0, 0.02)

            def renewed():
                if checkpoint.stat().st_mtime_ns == before:
                    return False
                time.sleep(pause)
                return True

            status, errors = self.interrupt(out, how, renewed, "--resume", "--checkpoint-epochs", "7")
            self.assertEqual(status, 1 if how == signal.SIGINT else -signal.SIGKILL, errors)
            self.assertTrue(checkpoint.exists())
        result = self.as_json(*self.train_args(out, "gcm", *self.LONG), "--no-report", "--quiet", "--resume")
        self.assertTrue(result["resumed"])
        self.assertEqual(result["epochs"], 1500)
        self.assertEqual(self.model(out), self.model(whole))
        self.assertFalse(checkpoint.exists())

    def test_another_number_of_threads_goes_on_with_a_warning(self):
        out = "threads.safetensors"
        self.interrupt(out, signal.SIGTERM, (self.path / (out + ".checkpoint")).exists, "--checkpoint-epochs", "20")
        result = self.as_json(*self.train_args(out, "gcm", *self.LONG, "--threads", "2"), "--no-report", "--quiet",
                              "--resume")
        self.assertTrue(result["resumed"])
        self.assertEqual(result["epochs"], 1500)
        self.assertIn("a run with 1 threads, and this run has 2 threads", " ".join(result["warnings"]))

    def test_a_checkpoint_of_another_run_is_refused(self):
        out = "other.safetensors"
        checkpoint = self.path / (out + ".checkpoint")
        self.interrupt(out, signal.SIGTERM, (self.path / (out + ".checkpoint")).exists, "--checkpoint-epochs", "20")
        good = checkpoint.read_bytes()

        def resume(status, words, *options, **columns):
            self.refuse(status, words, *self.train_args(out, "gcm", *self.LONG, *options, **columns), "--no-report",
                        "--resume")
            self.assertEqual(checkpoint.read_bytes(), good)

        resume(2, ["another run", "gamma", "'10'", "'20'"], "--gamma", "20")
        resume(2, ["another run", "epochs"], "--epochs", "9")
        resume(2, ["another run", "network", "started uniform"], "--init", "uniform")
        resume(2, ["another run", "regularizer", "in float64"], "--dtype", "float64")
        resume(2, ["another run", "data"], features="a,y")
        damaged = bytearray(good)
        damaged[len(good) // 2] ^= 1
        for content in (bytes(damaged), good[:-100], b"nonsense", b""):
            checkpoint.write_bytes(content)
            self.refuse(2, [out + ".checkpoint"], *self.train_args(out, "gcm", *self.LONG), "--no-report", "--resume")
            self.assertEqual(checkpoint.read_bytes(), content)
        checkpoint.write_bytes(good)
        shutil.copy(self.path / self.fitted(), checkpoint)
        self.refuse(2, ["not a training checkpoint"], *self.train_args(out, "gcm", *self.LONG), "--no-report", "--resume")
        note = self.succeed(*self.train_args(out, "gcm"), "--no-report")
        self.assertIn("--resume would continue it", note.stderr)

    def fitted(self):
        self.succeed("fit", "--y", "y.npy", "--z", "z.npy", "-o", "mean.safetensors")
        return "mean.safetensors"

    def test_resume_without_a_checkpoint(self):
        self.refuse(2, ["nothere.safetensors.checkpoint", "without --resume"],
                    *self.train_args("nothere.safetensors"), "--resume")


class ConfigTest(TrainTest):
    def config(self, text, *arguments):
        self.write("run.yaml", text)
        return ["train", "--config", "run.yaml", *arguments]

    WHOLE = ("# a run\ndata: table.csv\nfeatures: [a, y, z]\ntarget: b\ngiven: y\ninvariant-to: [z]\n"
             "regularizer: circe\ngamma: 10\nbatch: 64\nnet: 2x16\nepochs: 2\nthreads: 1\nsigma2-y: [1, 0.1]\n"
             "ridge: 0.1,1\nno-report: true\nquiet: false\n")

    def test_says_the_same_as_the_options(self):
        self.succeed(*self.config(self.WHOLE, "-o", "conf.safetensors"))
        self.succeed(*self.train_args("opts.safetensors", "circe", "--sigma2-y", "1,0.1", "--ridge", "0.1,1"),
                     "--no-report")
        self.assertEqual(self.model("conf.safetensors"), self.model("opts.safetensors"))
        self.assertFalse((self.path / "conf-report").exists())

    def test_the_command_line_wins(self):
        result = self.as_json(*self.config(self.WHOLE, "--gamma", "3", "--epochs", "1", "-o", "win.safetensors"))
        self.assertEqual((result["settings"]["gamma"], result["epochs"]), (3, 1))

    def test_predict_too(self):
        self.succeed(*self.train_args("p.safetensors"), "--no-report")
        self.write("predict.yaml", "model: p.safetensors\ndata: new.csv\noutput: from-config.csv\n")
        self.succeed("predict", "--config", "predict.yaml")
        self.assertEqual((self.path / "from-config.csv").read_text().count("\n"), 51)

    def test_names_with_commas(self):
        rows = [{'"x, first"': r["a"], "y": r["y"], "z": r["z"], "b": r["b"]} for r in self.rows]
        self.write("commas.csv", csv_text(rows))
        text = self.WHOLE.replace("table.csv", "commas.csv").replace("[a, y, z]", '["x, first", y, z]')
        self.assertEqual(self.as_json(*self.config(text, "-o", "commas.safetensors"))["features"][0], "x, first")

    def test_errors_name_file_line_and_key(self):
        def refuse(words, text):
            self.refuse(2, ["run.yaml", *words], *self.config(text, "-o", "bad.safetensors"))

        refuse(["line 3", "'gama'", "did you mean gamma"], "data: table.csv\nepochs: 2\ngama: 10\n")
        refuse(["line 2", "'xyzzy'", "--help"], "data: table.csv\nxyzzy: 10\n")
        refuse(["line 2", "'gamma'", "at least 0", "-1"], "data: table.csv\ngamma: -1\n")
        refuse(["line 1", "'epochs'", "whole number", "many"], "epochs: many\n")
        refuse(["line 1", "'epochs'", "one value", "epochs: 100"], "epochs: [1, 2]\n")
        refuse(["line 1", "'epochs'", "one value"], "epochs:\n")
        refuse(["line 2", "'regularizer'", "none|circe|hscic|gcm|hsic", "circe"], "batch: 64\nregularizer: circ\n")
        refuse(["line 4", "'batch'", "line 2"], "# twice\nbatch: 64\n\nbatch: 32\n")
        refuse(["line 1", "'quiet'", "true or false"], "quiet: 1\n")
        refuse(["line 1", "'features'", "a value or a list"], "features: {a: 1}\n")
        refuse(["line 1", "'features'", "a value or a list"], "features: [[a], b]\n")
        refuse(["line 1", "'ridge'", "greater than 0"], "ridge: [1, 0]\n")
        refuse(["line 1", "'config'"], "config: other.yaml\n")
        refuse(["line 1", "gamma: 1000"], "- a\n- b\n")
        refuse(["line 3", "not YAML", "line 2"], "data: table.csv\nfeatures: [a, y\ntarget: b\n")
        refuse(["empty"], "")
        self.refuse(2, ["nosuch.yaml"], "train", "--config", "nosuch.yaml", "-o", "bad.safetensors")
        self.refuse(2, ["--features", "required"], *self.config("data: table.csv\n", "-o", "bad.safetensors"))


class PredictTest(TrainTest):
    def test_equals_what_was_predicted_in_training(self):
        self.succeed(*self.train_args("eq.safetensors"))
        kept = list(csv.DictReader(io.StringIO((self.path / "eq-report" / "predictions.csv").read_text())))
        again = self.predict("eq.safetensors", "table.csv")
        self.assertEqual((len(again), len(kept)), (ROWS, 63))
        for row in kept:
            self.assertAlmostEqual(float(row["prediction of b"]), float(again[int(row["row"])]["b"]), places=4)
            self.assertAlmostEqual(float(row["b"]), self.rows[int(row["row"])]["b"], places=3)

    def test_outputs(self):
        self.succeed(*self.train_args("out.safetensors"), "--no-report")
        printed = self.succeed("predict", "--model", "out.safetensors", "--data", "new.csv").stdout
        said = self.succeed("predict", "--model", "out.safetensors", "--data", "new.csv", "-o", "p.csv").stdout
        self.assertIn("50 predictions", said)
        self.assertEqual((self.path / "p.csv").read_text(), printed)
        self.succeed("predict", "--model", "out.safetensors", "--data", "new.csv", "-o", "p.npy")
        shape, values = read_npy(self.path / "p.npy")
        self.assertEqual(shape, (50, 1))
        for value, line in zip(values, printed.splitlines()[1:]):
            self.assertAlmostEqual(value, float(line), places=5)
        with_target = self.succeed("predict", "--model", "out.safetensors", "--data", "table.csv", "-o", "t.csv")
        self.assertRegex(with_target.stdout, r"error of b: MSE \S+, R2 \S+, on %d rows" % ROWS)

    def test_json(self):
        self.succeed(*self.train_args("json.safetensors"), "--no-report")
        here = ["predict", "--model", "json.safetensors", "--data"]
        rows = self.predict("json.safetensors", "table.csv")
        result = self.as_json(*here, "table.csv")
        self.assertEqual((result["model"], result["data"], result["file"]), ("json.safetensors", "table.csv", None))
        self.assertEqual((result["rows"], result["rows_without_prediction"], result["outputs"]), (ROWS, 0, ["b"]))
        self.assertGreater(result["seconds"], 0)
        self.assertEqual(["%.9g" % values[0] for values in result["predictions"]], [row["b"] for row in rows])
        errors = [(values[0] - truth["b"]) ** 2 for values, truth in zip(result["predictions"], self.rows)]
        column, = result["error"]["columns"]
        self.assertEqual((column["name"], column["rows"]), ("b", ROWS))
        self.assertAlmostEqual(column["mse"], sum(errors) / ROWS, places=9)
        mean = sum(row["b"] for row in self.rows) / ROWS
        self.assertAlmostEqual(column["r2"], 1 - sum(errors) / sum((r["b"] - mean) ** 2 for r in self.rows), places=9)
        result = self.as_json(*here, "table.csv", "-o", "j.csv")  # to a file: not twice
        self.assertEqual(result["file"], "j.csv")
        self.assertNotIn("predictions", result)
        self.assertEqual([row["b"] for row in csv.DictReader(io.StringIO((self.path / "j.csv").read_text()))],
                         [row["b"] for row in rows])
        holes = [{c: r[c] for c in ("a", "y", "z")} for r in points(4, 3)]
        holes[1]["y"] = ""
        self.write("gaps.csv", csv_text(holes))
        result = self.as_json(*here, "gaps.csv", "--missing", "empty")
        self.assertEqual((result["rows"], result["rows_without_prediction"], result["error"]), (4, 1, None))
        self.assertEqual([values == [None] for values in result["predictions"]], [False, True, False, False])

    def test_json_of_classes(self):
        self.succeed(*self.train_args("jc.safetensors", target="label", given=None), "--no-report")
        result = self.as_json("predict", "--model", "jc.safetensors", "--data", "table.csv")
        self.assertEqual(result["outputs"], ["down", "mid", "up"])
        found = [result["outputs"][max(range(3), key=shares.__getitem__)] for shares in result["predictions"]]
        right = sum(one == truth["label"] for one, truth in zip(found, self.rows)) / ROWS
        self.assertEqual(result["error"]["rows"], ROWS)
        self.assertAlmostEqual(result["error"]["accuracy"], right, places=12)

    def test_text_target_is_classes(self):
        result = self.as_json(*self.train_args("classes.safetensors", "circe", "--epochs", "30", "--lr", "1e-2",
                                               "--gamma", "0.1", target="label", given=None, features="a,y,group"))
        self.assertEqual(result["settings"]["loss"], "cross-entropy")
        self.assertGreater(result["error"]["accuracy"], result["error"]["majority"])
        self.assertIn("the predicted class", (self.path / "classes-report" / "report.html").read_text())
        rows = self.predict("classes.safetensors", "table.csv")
        for row in rows:
            shares = {name: float(row["probability of " + name]) for name in ("down", "mid", "up")}
            self.assertAlmostEqual(sum(shares.values()), 1, places=5)
            self.assertEqual(row["label"], max(shares, key=shares.get))
        right = sum(row["label"] == truth["label"] for row, truth in zip(rows, self.rows)) / ROWS
        self.assertGreater(right, 0.6)

    def test_numbers_as_classes(self):
        arguments = self.train_args("n.safetensors", target="count", given=None)
        result = self.as_json(*arguments, "--loss", "cross-entropy", "--no-report")
        self.assertIn("accuracy", result["error"])
        self.assertIn(self.predict("n.safetensors", "new.csv")[0]["count"], ("0", "1", "2"))
        self.refuse(2, ["'b'", "classes", "whole"], *self.train_args(given=None), "--loss", "cross-entropy")
        for options in (["--loss", "mse"], ["--task", "regression"]):
            self.refuse(2, ["'label'", "text", "--task classification"],
                        *self.train_args(target="label", given=None), *options)
        self.refuse(2, ["--task regression", "--loss cross-entropy", "contradict"], *arguments, "--task", "regression",
                    "--loss", "cross-entropy")

    def test_categories_keep_their_inputs(self):
        self.succeed(*self.train_args("cat.safetensors", features="group,a,y"), "--no-report")
        metadata = tensors(self.model("cat.safetensors"))[0]
        names, mean = json.loads(metadata["columns"])["features"], json.loads(metadata["statistics"])["features"]["mean"]
        shares = {name: value for name, value in zip(names, mean) if name.startswith("group=")}
        self.assertEqual(sorted(shares), ["group=high", "group=low"])
        self.assertAlmostEqual(sum(shares.values()), 1)
        self.assertAlmostEqual(shares["group=low"], sum(r["group"] == "low" for r in self.rows) / ROWS, delta=0.05)
        rows = points(40, 7)
        self.write("low.csv", csv_text([r for r in rows if r["group"] == "low"]))
        self.write("both.csv", csv_text(rows))
        both = self.predict("cat.safetensors", "both.csv")
        low = self.predict("cat.safetensors", "low.csv")
        for one, other in zip([v for v, r in zip(both, rows) if r["group"] == "low"], low):
            self.assertAlmostEqual(float(one["b"]), float(other["b"]), places=4)  # batches of other sizes round otherwise
        rows[3]["group"] = "middle"
        self.write("third.csv", csv_text(rows))
        self.refuse(2, ["third.csv", "row 3", "'group'", "'middle'", "high", "low"], "predict", "--model",
                    "cat.safetensors", "--data", "third.csv")
        self.write("codes.csv", csv_text([dict(r, group=1) for r in rows]))
        self.refuse(2, ["codes.csv", "'group'", "'1'"], "predict", "--model", "cat.safetensors", "--data",
                    "codes.csv")
        self.write("words.csv", csv_text([dict(r, y="much", group="low") for r in rows]))
        self.refuse(2, ["words.csv", "'y'", "text", "numbers"], "predict", "--model", "cat.safetensors", "--data",
                    "words.csv")

    def test_model_and_data_that_do_not_match(self):
        self.succeed(*self.train_args("match.safetensors"), "--no-report")
        self.write("less.csv", csv_text([{"a": 1, "yy": 2, "z": 3}]))
        self.refuse(2, ["less.csv", "'y'", "'yy'"], "predict", "--model", "match.safetensors", "--data", "less.csv")
        self.write("wide.npy", npy_bytes([[1.0, 2.0, 3.0, 4.0]]))
        self.refuse(2, ["wide.npy", "4 columns", "needs 3", "a,y,z"], "predict", "--model", "match.safetensors",
                    "--data", "wide.npy")
        self.write("three.npy", npy_bytes([[r["a"], r["y"], r["z"]] for r in self.rows[:20]]))
        named = self.predict("match.safetensors", "table.csv")
        for one, other in zip(self.predict("match.safetensors", "three.npy"), named[:20]):
            self.assertAlmostEqual(float(one["b"]), float(other["b"]), places=4)

    def test_missing_cells(self):
        self.succeed(*self.train_args("hole.safetensors"), "--no-report")
        rows = points(6, 3)
        rows[2]["y"] = ""
        self.write("holes.csv", csv_text(rows))
        self.refuse(2, ["holes.csv", "row 2", "'y'", "missing", "--missing empty"], "predict", "--model",
                    "hole.safetensors", "--data", "holes.csv")
        result = self.succeed("predict", "--model", "hole.safetensors", "--data", "holes.csv", "--missing", "empty")
        lines = result.stdout.split("\n")
        self.assertEqual(len(lines), 8)
        self.assertEqual([bool(line) for line in lines[1:7]], [True, True, False, True, True, True])
        self.assertIn("1 of 6", result.stderr)
        rows[2]["y"] = "inf"
        self.write("infinite.csv", csv_text(rows))
        self.refuse(2, ["infinite.csv", "row 2", "'y'", "infinite"], "predict", "--model", "hole.safetensors",
                    "--data", "infinite.csv", "--missing", "empty")

    def test_models_that_are_none(self):
        self.succeed("fit", "--y", "y.npy", "--z", "z.npy", "-o", "mean.safetensors")
        self.refuse(2, ["mean.safetensors", "conditional mean", "circe fit", "circe train"], "predict", "--model",
                    "mean.safetensors", "--data", "new.csv")
        self.succeed(*self.train_args("good.safetensors"), "--no-report")
        good = self.model("good.safetensors")
        self.refuse(2, ["good.safetensors"], *self.measure_args(), "--model", "good.safetensors")
        newer = good.replace(b'"format_version":"3"', b'"format_version":"9"')
        self.assertNotEqual(newer, good)
        unsummed = newer.replace(b'"checksum"', b'"checksux"')
        for name, data, words in (("newer", newer, ["its checksum is"]), ("cut", good[:-40], []),
                                  ("unsummed", unsummed, ["version 9", "newer circe"]),
                                  ("text", b"hello", []), ("none", b"", [])):
            self.write(name + ".safetensors", data)
            self.refuse(2, [name + ".safetensors", *words], "predict", "--model", name + ".safetensors", "--data",
                        "new.csv")
        self.refuse(2, ["nosuch.safetensors"], "predict", "--model", "nosuch.safetensors", "--data", "new.csv")
        self.refuse(1, ["nosuch/p.csv"], "predict", "--model", "good.safetensors", "--data", "new.csv", "-o",
                    "nosuch/p.csv")


class ArrayTest(TrainTest):
    def test_npz(self):
        with zipfile.ZipFile(self.path / "arrays.npz", "w") as archive:
            archive.writestr("x.npy", npy_bytes([[r["a"], r["y"]] for r in self.rows]))
            for name in ("y", "z", "b"):
                archive.writestr(name + ".npy", npy_bytes([r[name] for r in self.rows]))
        result = self.as_json(*self.train_args("npz.safetensors", features="x,z", data="arrays.npz"), "--no-report")
        self.assertEqual(result["features"], ["x:0", "x:1", "z"])
        same = self.as_json(*self.train_args("csv.safetensors"), "--no-report")
        self.assertEqual(result["error"], same["error"])
        one = self.as_json(*self.train_args("npz1.safetensors", features="x:0,x:1,z", data="arrays.npz"), "--no-report")
        self.assertEqual((one["features"], one["error"]), (["x:0", "x:1", "z"], same["error"]))
        self.assertEqual(self.predict("npz1.safetensors", "arrays.npz"), self.predict("npz.safetensors", "arrays.npz"))
        self.refuse(2, ["arrays.npz", "'x'", "0 to 1", "no column 2"],
                    *self.train_args(features="x:2,z", data="arrays.npz"))
        compared = self.as_json("predict", "--model", "npz.safetensors", "--data", "arrays.npz")
        self.assertEqual(compared["error"]["columns"][0]["rows"], ROWS)
        self.assertEqual(self.predict("npz.safetensors", "arrays.npz")[0], self.predict("csv.safetensors",
                                                                                        "table.csv")[0])
        with zipfile.ZipFile(self.path / "narrow.npz", "w") as archive:
            archive.writestr("x.npy", npy_bytes([[1.0], [2.0]]))
            archive.writestr("z.npy", npy_bytes([1.0, 2.0]))
        self.refuse(2, ["narrow.npz", "'x'", "1 columns", "trained on 2"], "predict", "--model", "npz.safetensors",
                    "--data", "narrow.npz")

    def test_npy_by_number(self):
        self.write("columns.npy", npy_bytes([[r["a"], r["y"], r["z"], r["b"]] for r in self.rows]))
        arguments = ["train", "--data", "columns.npy", "--features", "0,1,2", "--target", "3", "--given", "1",
                     "--invariant-to", "2", "--gamma", "10", "-o", "npy.safetensors", *SMALL, "--no-report"]
        self.succeed(*arguments)
        self.assertEqual(len(self.predict("npy.safetensors", "columns.npy")), ROWS)
        arguments[arguments.index("3")] = "4"
        self.refuse(2, ["columns.npy", "column 4", "0 to 3"], *arguments)
        arguments[arguments.index("4")] = "b"
        self.refuse(2, ["columns.npy", "no names"], *arguments)


class BadInputTest(TrainTest):
    def test_columns(self):
        self.refuse(2, ["table.csv", "'gruop'", "did you mean 'group'"], *self.train_args(features="a,gruop"))
        self.refuse(2, ["--features", "'a'", "twice"], *self.train_args(features="a,y,a"))
        self.refuse(2, ["--features", "empty"], *self.train_args(features="a,,y"))
        self.refuse(2, ["--features", "name 2", "invisible character"], *self.train_args(features="a,y\r"))
        self.refuse(2, ["'b'", "--target", "--features"], *self.train_args(features="a,b"))
        self.refuse(2, ["'z'", "--target", "--invariant-to"], *self.train_args(target="z", features="a,y"))
        self.refuse(2, ["'z'", "--given", "--invariant-to"], *self.train_args(given="z"))
        self.refuse(2, ["--features", "'same'", "constant", "3 in all 420 rows"],
                    *self.train_args(features="a,same"))
        self.refuse(2, ["--target", "'same'", "constant", "nothing to learn"], *self.train_args(target="same"))
        self.refuse(2, ["--given", "'same'", "constant"], *self.train_args(given="same"))
        self.refuse(2, ["nosuch.csv"], *self.train_args(data="nosuch.csv"))
        self.refuse(2, ["--target", "one column at a time"], *self.train_args(target="label,b"))

    def test_numbers(self):
        self.refuse(2, ["--gamma", "at least 0", "-1"], *self.train_args("x.safetensors", "circe", "--gamma", "-1"))
        self.refuse(2, ["--invariant-to", "required"], "train", "--data", "table.csv", "--features", "a", "--target",
                    "b", "--gamma", "1", "-o", "x.safetensors")
        self.refuse(2, ["315 rows", "63 for the test", "batch of 512", "--batch"],
                    *self.train_args("x.safetensors", "circe", "--batch", "512"))
        self.refuse(2, ["--holdout", "0.01", "at least 10"], *self.train_args(), "--holdout", "0.01")
        self.refuse(2, ["--test", "0.01", "at least 10", "--test 0"], *self.train_args(), "--test", "0.01")
        self.refuse(2, ["--validation", "at least 10"], *self.train_args(), "--validation", "0.01")
        self.refuse(2, ["--holdout", "between 0 and 0.9"], *self.train_args(), "--holdout", "1.5")
        self.refuse(2, ["leave none", "training"], *self.train_args(), "--holdout", "0.6", "--validation", "0.5")
        self.refuse(2, ["--net", "9y64", "9x64"], *self.train_args("x.safetensors", "circe", "--net", "9y64"))
        self.refuse(2, ["hsic", "biased", "centered"], *self.train_args("x.safetensors", "hsic"), "--estimator",
                    "centered")
        self.refuse(2, ["--lr", "greater than 0"], *self.train_args(), "--lr", "0")
        self.refuse(2, ["--epochs", "between"], *self.train_args("x.safetensors", "circe", "--epochs", "0"))

    def test_ignored_options_are_said(self):
        result = self.succeed(*self.train_args("ign.safetensors", "none"), "--gamma", "3", "--no-report")
        self.assertIn("--gamma was ignored", result.stderr)
        result = self.succeed(*self.train_args("ign.safetensors", "gcm"), "--estimator", "biased", "--no-report")
        self.assertIn("--estimator was ignored", result.stderr)

    def test_without_a_holdout_the_training_rows_teach_the_mean(self):
        shared = self.as_json(*self.train_args("noh.safetensors"), "--no-report")
        self.assertEqual((shared["rows"]["holdout"], shared["rows"]["conditional_mean"]), (0, 315))
        apart = self.as_json(*self.train_args("noh.safetensors"), "--holdout", "0.1", "--no-report")
        self.assertEqual((apart["rows"]["holdout"], apart["rows"]["conditional_mean"]), (42, 42))
        self.assertEqual(apart["rows"]["training"], 315 - 42)

    def test_missing_cells(self):
        rows = points(ROWS, 1)
        rows[7]["y"] = "NA"
        rows[9]["b"] = ""
        rows[11]["count"] = ""  # not used
        self.write("holes.csv", csv_text(rows))
        self.refuse(2, ["holes.csv", "row 7", "line 9", "'y'", "--missing drop"], *self.train_args(data="holes.csv"))
        result = self.as_json(*self.train_args("drop.safetensors", data="holes.csv"), "--missing", "drop",
                              "--no-report")
        self.assertEqual(result["rows"]["dropped"], 2)
        self.assertIn("2 rows", result["warnings"][0])
        rows[7]["y"], rows[9]["b"] = "inf", "1"
        self.write("infinite.csv", csv_text(rows))
        self.refuse(2, ["infinite.csv", "row 7", "infinite"], *self.train_args(data="infinite.csv"), "--missing",
                    "drop")

    def test_places_to_write_to(self):
        self.refuse(1, ["-o", "nosuch"], *self.train_args("nosuch/m.safetensors"))
        (self.path / "folder").mkdir(exist_ok=True)
        self.refuse(1, ["-o", "folder"], *self.train_args("folder"))
        self.refuse(1, ["table.csv"], *self.train_args("w.safetensors"), "--report", "table.csv")
        self.assertFalse((self.path / "w.safetensors").exists())

    def test_a_full_disk(self):
        """Files may not grow beyond 2 kB, which neither checkpoint nor model fits into."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

        self.write("full.safetensors", b"an older model")
        self.refuse(1, ["full.safetensors.checkpoint", "not written", "an earlier one is unchanged"],
                    *self.train_args("full.safetensors"), "--no-report", "--quiet", preexec_fn=limit)
        self.assertEqual(self.model("full.safetensors"), b"an older model")
        self.assertFalse((self.path / "full.safetensors.checkpoint").exists())

    def test_a_loss_that_is_no_number(self):
        result = self.refuse(1, ["step", "batch", "--lr"],
                             *self.train_args("nan.safetensors", "none", "--lr", "1e30", "--epochs", "9"), "--quiet")
        self.assertFalse((self.path / "nan.safetensors").exists())
        self.assertIn("checkpoint", result.stderr)


class DemoTest(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.result = subprocess.run([BINARY, "demo", "--n", "600", "--epochs", "4", "-o", "the demo"],
                                    cwd=cls.path, capture_output=True, text=True, timeout=120,
                                    stdin=subprocess.DEVNULL)

    def test_lines_side_by_side_against_the_floor(self):
        self.assertEqual(self.result.returncode, 0, self.result.stderr)
        found = {name: [float(v) for v in values.split()] for name, values in
                 re.findall(r"(?m)^ +(without CIRCE|with CIRCE|floor) +([-\d][^\n]*)$", self.result.stdout)}
        self.assertEqual(sorted(found), ["floor", "with CIRCE", "without CIRCE"])
        self.assertTrue(0.25 < found["floor"][0] < 0.45)
        self.assertLess(found["without CIRCE"][0], found["with CIRCE"][0])
        self.assertIn("the demo/report.html", self.result.stdout)
        page = (self.path / "the demo" / "report.html").read_text()
        for word in ("vcf_support", "with CIRCE", "floor"):
            self.assertIn(word, page)
        if shutil.which("gnuplot"):
            self.assertEqual(sum("<svg" in part for part in page.split("<figure>")[1:]), 2)
        for name in ("train.csv", "test.csv", "free.safetensors", "invariant.safetensors"):
            self.assertTrue((self.path / "the demo" / name).exists(), name)

    def test_its_commands_work_when_pasted(self):
        commands = [line.strip() for line in self.result.stdout.splitlines() if line.startswith("  " + BINARY)]
        self.assertGreaterEqual(len(commands), 5)
        before = (self.path / "the demo" / "invariant.safetensors").read_bytes()
        for command in commands:
            result = subprocess.run(command, shell=True, cwd=self.path, capture_output=True, text=True, timeout=120)
            self.assertEqual(result.returncode, 0, command + result.stderr)
        self.assertEqual(tensors((self.path / "the demo" / "invariant.safetensors").read_bytes())[1], tensors(before)[1])

    def test_interrupted(self):
        process = subprocess.Popen([BINARY, "demo", "--epochs", "9999", "-o", "cut"], cwd=self.path,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not (self.path / "cut" / "train.csv").exists():
            time.sleep(0.01)
        time.sleep(0.5)
        process.terminate()
        self.assertIn("interrupted", process.communicate(timeout=60)[1])
        self.assertEqual(process.returncode, 1)
        self.assertEqual([p.name for p in (self.path / "cut").iterdir()], ["train.csv"])

    def test_without_gnuplot(self):
        result = self.run_circe("demo", "--n", "500", "--epochs", "1", "-o", "bare", env={"PATH": "/nonexistent"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("gnuplot", (self.path / "bare" / "report.html").read_text())


class HelpTest(CliTest):
    def test_pages(self):
        for command, words in (("train", ("--invariant-to", "--gamma", "--resume", "--config", "safe choice for training")),
                               ("predict", ("--model", "--missing"))):
            text = self.succeed(command, "--help").stdout
            for word in ("Usage: circe " + command, "Examples", *words):
                self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main()
