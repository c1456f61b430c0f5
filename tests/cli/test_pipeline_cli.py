"""From a table to an audit without other tools: predictions beside the columns, a model audited, standard input, pipes, gzip,
and names that say nothing.

Only the Python standard library is needed. CIRCE_BINARY names the command to test."""

import csv
import gzip
import io
import json
import os
import random
import subprocess
import threading
import unittest

from cli_support import BINARY, CliTest


def people(n, seed, classes=("fail", "pass")):
    draw = random.Random(seed)
    rows = []
    for _ in range(n):
        a, b, group = draw.gauss(0, 1), draw.gauss(0, 1), draw.choice(("u", 'v "w", x', "line\nend"))
        y = a + 0.5 * b + 0.3 * (group == "u") + 0.3 * draw.gauss(0, 1)
        rows.append({"a": "%.4f" % a, "b": "%.4f" % b, "group": group, "the, y": "%.4f" % y,
                     "class": classes[min(len(classes) - 1, int((y + 2) / 4 * len(classes)) if y > -2 else 0)]})
    return rows


def table(rows, delimiter=","):
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0], delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


class PipelineTest(CliTest):
    def setUp(self):
        super().setUp()
        self.rows = people(400, 1)
        self.write("people.csv", table(self.rows))

    def train(self, target="the, y", data="people.csv", model="model.safetensors", *options):
        self.run_ok("train", "--data", data, "--features", "a,b", "--target", '"%s"' % target if "," in target else target,
                    "--regularizer", "none", "--epochs", "3", "-o", model, "-q", "--no-report", *options)

    def run_ok(self, *arguments, stdin=None):
        result = subprocess.run([BINARY, *arguments], cwd=self.path, input=stdin, capture_output=True)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result.stdout.decode()

    def rows_of(self, text, delimiter=","):
        return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))

    def predict(self, *options, stdin=None):
        return self.run_ok("predict", "--model", "model.safetensors", "--data", "people.csv", *options, stdin=stdin)


class AppendTest(PipelineTest):
    def test_numbers(self):
        """Every column as it was, quotes and line ends within cells too, and the predictions behind them."""
        self.train()
        alone = [float(r["the, y"]) for r in self.rows_of(self.predict())]
        found = self.rows_of(self.predict("--append"))
        self.assertEqual([{k: v for k, v in r.items() if k != "the, y_predicted"} for r in found], self.rows)
        self.assertEqual([float(r["the, y_predicted"]) for r in found], alone)
        named = self.rows_of(self.predict("--append", "--name", "score"))
        self.assertEqual([r["score"] for r in named], [r["the, y_predicted"] for r in found])
        self.predict("--append", "-o", "out.csv")
        self.assertEqual(self.rows_of((self.path / "out.csv").read_text()), found)
        self.refuse(2, ["out.csv already has a column 'the, y_predicted'", "--name"], "predict", "--model",
                    "model.safetensors", "--data", "out.csv", "--append")

    def test_classes(self):
        for classes in (("fail", "pass"), ("low", "middle, say", "high")):
            self.rows = people(400, 2, classes)
            self.write("people.csv", table(self.rows))
            self.train("class")
            for r in self.rows_of(self.predict("--append")):
                shares = {c: float(r["class_" + c]) for c in classes}
                self.assertAlmostEqual(sum(shares.values()), 1, 6)
                self.assertEqual(r["class_predicted"], max(shares, key=shares.get))

    def test_dialects(self):
        """Tabs, semicolons with decimal commas, a byte order mark, Latin-1, carriage returns, missing cells."""
        self.train()
        expected = [r["the, y_predicted"] for r in self.rows_of(self.predict("--append"))]
        simple = [{**r, "group": "ö"} for r in self.rows]
        check = lambda options, delimiter, comma=False: self.assertEqual(
            [r["p"].replace(",", ".") if comma else r["p"] for r in self.rows_of(self.run_ok(
                "predict", "--model", "model.safetensors", "--append", "--name", "p", *options), delimiter)], expected)
        self.write("people.tsv", table(simple, "\t"))
        check(["--data", "people.tsv"], "\t")
        commas = [{k: v.replace(".", ",") for k, v in r.items()} for r in simple]
        self.write("commas.csv", table(commas, ";"))
        check(["--data", "commas.csv", "--decimal", ","], ";", True)
        (self.path / "marked.csv").write_bytes(b"\xef\xbb\xbf" + table(simple).replace("\n", "\r\n").encode())
        check(["--data", "marked.csv"], ",")
        (self.path / "latin.csv").write_bytes(table(simple).encode("latin-1"))
        check(["--data", "latin.csv"], ",")
        simple[3]["a"] = ""
        self.write("holes.csv", table(simple))
        found = self.rows_of(self.run_ok("predict", "--model", "model.safetensors", "--data", "holes.csv", "--append", "--name",
                                         "p", "--missing", "empty"))
        self.assertEqual([r["p"] for r in found], expected[:3] + [""] + expected[4:])

    def test_refused(self):
        self.train()
        self.write("bare.csv", "".join("%s,%s\n" % (r["a"], r["b"]) for r in self.rows))
        refuse = lambda words, *options: self.refuse(2, words, "predict", "--model", "model.safetensors", "--append", *options)
        refuse(["no column 'a'"], "--data", "bare.csv")
        refuse(["--data FILE"])
        refuse(["--append", ".csv or .tsv", "out.npy"], "--data", "people.csv", "-o", "out.npy")
        self.assertFalse(os.path.exists(os.path.join(self.path, "out.npy")))
        self.refuse(2, ["--name", "--append"], "predict", "--model", "model.safetensors", "--data", "people.csv", "--name", "p")


class InputTest(PipelineTest):
    def test_every_way_in(self):
        """A file, standard input from a file and a pipe, /dev/stdin, a named pipe, gzip, a name without an ending."""
        text = table(self.rows).encode()
        expected = self.run_ok("test", "kci", "--data", "people.csv", "--x", "a", "--y", "b", "--z", "group", "--json")
        value = expected.split('"p_value"')[1].split(",")[0]
        test = lambda data, *options, stdin=None: self.assertIn(value, self.run_ok(
            "test", "kci", "--data", data, "--x", "a", "--y", "b", "--z", "group", "--json", *options, stdin=stdin))
        test("-", stdin=text)
        test("/dev/stdin", stdin=text)
        test("-", stdin=gzip.compress(text))
        with open(self.path / "people.csv") as file:
            result = subprocess.run([BINARY, "test", "kci", "--data", "-", "--x", "a", "--y", "b", "--z", "group",
                                     "--json"], cwd=self.path, stdin=file, capture_output=True, text=True)
        self.assertIn(value, result.stdout)
        half = len(text) // 2
        (self.path / "people.csv.gz").write_bytes(gzip.compress(text[:half]) + gzip.compress(text[half:]))
        test("people.csv.gz")
        for name in ("people", "people.txt", "people.dat.gz"):
            (self.path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
            test(name, "--format", "csv")
        os.mkfifo(self.path / "pipe")
        writer = threading.Thread(target=lambda: (self.path / "pipe").write_bytes(text))
        writer.start()
        test("pipe")
        writer.join()

    def test_read_again(self):
        """Predictions, their error and the table itself: three readers of what can be read once."""
        self.train()
        text = table(self.rows).encode()
        found = self.run_ok("predict", "--model", "model.safetensors", "--data", "-", "--append", "-o", "out.csv", stdin=text)
        self.assertIn("R2", found)
        self.predict("--append", "-o", "same.csv")
        self.assertEqual((self.path / "out.csv").read_text(), (self.path / "same.csv").read_text())

    def test_refused(self):
        text = gzip.compress(table(self.rows).encode())
        test = lambda words, data, *options: self.refuse(2, words, "test", "kci", "--data", data, "--x", "a", "--y", "b", "--z",
                                                         "group", *options)
        (self.path / "cut.csv.gz").write_bytes(text[:len(text) // 2])
        test(["cut.csv.gz: it ends within its gzip"], "cut.csv.gz")
        (self.path / "bad.csv.gz").write_bytes(text[:40] + bytes(40) + text[80:])
        test(["bad.csv.gz: its gzip is damaged"], "bad.csv.gz")
        (self.path / "people.txt").write_text(table(self.rows))
        test(["people.txt: its format is unknown", "--format"], "people.txt")
        test(["--format"], "people.txt", "--format", "xlsx")
        result = subprocess.run([BINARY, "test", "kci", "--data", "-", "--x", "a", "--y", "b", "--z", "c"],
                                cwd=self.path, input=b"", capture_output=True, text=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"standard input", result.stderr)


class ModelTest(PipelineTest):
    def audit(self, *options):
        return self.as_json("audit", "--sensitive", "group", "--calibrate", "0", "-o", "report", *options)

    def numbers(self, result):
        return [(f["p_value"], [g["gap"] for g in f["gaps"]]) for f in result["findings"]]

    def test_a_model_is_its_predictions(self):
        for target in ("the, y", "class"):
            self.train(target)
            self.predict("--append", "--name", "score", "-o", "scored.csv")
            column = "score" if target != "class" else "score_pass"
            quoted = '"%s"' % target if "," in target else target
            expected = self.audit("--data", "scored.csv", "--prediction", column, "--target", target)
            found = self.audit("--data", "people.csv", "--model", "model.safetensors")
            self.assertEqual(found["model"], "model.safetensors")
            self.assertEqual(found["findings"][0]["prediction"], target + "_predicted")
            for one, other in zip(self.numbers(found), self.numbers(expected)):  # a .csv has nine digits
                self.assertAlmostEqual(one[0], other[0], 6)
                for gap, same in zip(one[1], other[1]):
                    self.assertAlmostEqual(gap, same, 6)
            both = self.audit("--data", "scored.csv", "--model", "model.safetensors", "--prediction", column, "--target", target)
            self.assertEqual([f["prediction"] for f in both["findings"]], [target + "_predicted", column])

    def test_three_classes(self):
        classes = ("low", "middle", "high")
        self.write("people.csv", table(people(600, 3, classes)))
        self.train("class")
        found = self.audit("--data", "people.csv", "--model", "model.safetensors")
        self.assertEqual({f["prediction"] for f in found["findings"]}, {"class_" + c for c in classes})

    def test_missing_cells(self):
        self.train()
        rows = [dict(r) for r in self.rows]
        rows[5]["a"] = rows[9]["group"] = ""
        self.write("holes.csv", table(rows))
        found = self.audit("--data", "holes.csv", "--model", "model.safetensors", "--missing", "drop")
        self.assertEqual((found["n"], found["dropped"]), (398, 2))
        self.refuse(2, ["missing"], "audit", "--data", "holes.csv", "--model", "model.safetensors", "--sensitive", "group", "-o",
                    "report")

    def test_refused(self):
        self.train()
        refuse = lambda words, *options: self.refuse(2, words, "audit", "--data", "people.csv", "--sensitive", "group", "-o",
                                                     "report", *options)
        refuse(["--prediction LIST is required, or a --model"])
        refuse(["--target COLUMN is required"], "--prediction", "a")
        refuse(["predicts", "not --target 'class'"], "--model", "model.safetensors", "--target", "class")
        refuse(["people.csv"], "--model", "people.csv")

    def test_training_audits_its_validation_rows(self):
        """The same numbers as `circe audit` on these rows of the table."""
        self.write("people.csv", table(people(900, 4)))
        for target in ("class", "the, y"):
            self.run_ok("train", "--data", "people.csv", "--features", "a,b", "--target",
                        '"%s"' % target if "," in target else target, "--invariant-to", "group", "--gamma", "10", "--epochs",
                        "3", "-o", "m.safetensors", "--report", "run", "--audit", "-q")
            found = (self.path / "run" / "audit" / "results.json").read_text()
            kept = [int(r["row"]) for r in self.rows_of((self.path / "run" / "predictions.csv").read_text())]
            rows = self.rows_of((self.path / "people.csv").read_text())
            self.write("validation.csv", table([rows[i] for i in kept]))
            expected = self.as_json("audit", "--data", "validation.csv", "--model", "m.safetensors", "--sensitive", "group",
                                    "-o", "report")
            for one, other in zip(self.numbers(json.loads(found)), self.numbers(expected)):
                self.assertAlmostEqual(one[0], other[0], 4)
                for gap, same in zip(one[1], other[1]):
                    self.assertAlmostEqual(gap, same, 5)
        self.refuse(2, ["--invariant-to"], "train", "--data", "people.csv", "--features", "a,b", "--target", "class",
                    "--regularizer", "none", "--epochs", "1", "-o", "m.safetensors", "--audit", "--no-report")

    def test_training_and_its_audit_measure_the_same(self):
        """More rows than the tests of a training use: its KPC is that of the audit, up to float32 predictions."""
        self.write("people.csv", table(people(4600, 6)))
        said = self.run_ok("train", "--data", "people.csv", "--features", "a,b", "--target", "class", "--invariant-to", "group",
                           "--gamma", "10", "--baseline", "none", "--epochs", "1", "--test", "0.5", "-o", "m.safetensors", "--report",
                           "run", "--audit")
        found = json.loads((self.path / "run" / "audit" / "results.json").read_text())["findings"][0]["effects"]["kpc"]
        trained = json.loads((self.path / "run" / "results.json").read_text())["comparison"]["network"]
        for name in ("value", "lower", "upper"):
            self.assertAlmostEqual(trained["kpc"][name], found[name], delta=1e-4 * found["upper"])
        self.assertAlmostEqual(trained["kpc_chance"], found["chance"], delta=1e-4 * found["upper"])
        self.assertIn("by chance %.2g)" % found["chance"], said)
        self.assertNotIn("all of them together", said)

    def test_training_keeps_too_few_rows_to_audit(self):
        """The rows are the test rows, of which --test keeps more, and not those of the table."""
        self.write("people.csv", table(people(300, 5)))
        result = self.run_circe("train", "--data", "people.csv", "--features", "a,b", "--target", "class", "--invariant-to",
                                "group", "--gamma", "10", "--epochs", "1", "--batch", "64", "-o", "few.safetensors", "--audit",
                                "--no-report", "-q")
        self.assertEqual(result.returncode, 2)
        self.assertIn("the model is trained, but the audit needs at least 50 test rows and there are 45", result.stderr)
        self.assertIn("--test", result.stderr)
        self.assertTrue((self.path / "few.safetensors").exists())


if __name__ == "__main__":
    unittest.main()
