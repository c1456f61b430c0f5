"""What the command makes of the files it is given: damaged and lying ones, shapes that do not fit, constants, tables
with text and missing cells. Bad input gets a clear answer that names the file.

Only the Python standard library is needed. CIRCE_BINARY names the command to test, CIRCE_DATA a folder with real
tables."""

import json
import math
import os
import pathlib
import random
import struct
import unittest
import zipfile

from cli_support import CliTest, npy_bytes


def safetensors_bytes(header, payload):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + payload


class BadFileTest(CliTest):
    def bad_y(self, name, data, *words):
        self.write(name, data)
        result = self.refuse(2, [name, *words], *self.fit_args(y=name))
        self.assertFalse((self.path / "m.safetensors").exists())
        return result

    def test_shape_mismatch_names_both(self):
        self.refuse(2, ["holdout_y.npy", "z.npy", "80", "60"], *self.fit_args(z="z.npy"))
        self.refuse(2, ["x.npy", "holdout_z.npy", "60", "80"], *self.measure_args(z="holdout_z.npy"))
        self.refuse(2, ["holdout_x.npy", "columns"], *self.measure_args(), "--holdout-y", "holdout_x.npy",
                    "--holdout-z", "holdout_z.npy")

    def test_not_finite_names_row_and_column(self):
        rows = [[float(i), 1.0] for i in range(60)]
        rows[17][1] = math.nan
        self.write("nan.npy", npy_bytes(rows))
        self.refuse(2, ["nan.npy", "row 17", "column 1", "--missing drop"], *self.measure_args(x="nan.npy"))
        rows[17][1] = math.inf
        self.write("inf.npy", npy_bytes(rows, "<f4"))
        self.refuse(2, ["inf.npy", "row 17", "column 1", "infinite"], *self.measure_args(x="inf.npy"))
        self.refuse(2, ["infinite"], *self.measure_args(x="inf.npy"), "--missing", "drop")
        self.write("huge.npy", npy_bytes([1e300] + [0.0] * 59))
        self.refuse(2, ["huge.npy", "row 0", "float32"], *self.measure_args(x="huge.npy"), "--sigma2-x", "1",
                    "--dtype", "float32")

    def test_empty(self):
        for name in ("empty.npy", "empty.npz", "empty.csv", "empty.safetensors"):
            self.bad_y(name, b"")
        self.bad_y("no_rows.npy", npy_bytes([], header="{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }"))
        self.bad_y("only_header.csv", "a,b\n")

    def test_tables_of_other_programs(self):
        self.bad_y("table.xlsx", b"PK\3\4" + bytes(40), "does not read .xlsx files", "export the table as .csv")
        self.bad_y("table.parquet", b"PAR1" + bytes(40), "does not read .parquet files")
        self.bad_y("table.csv", b"PK\3\4" + bytes(40), "zip archive", "export it as .csv")
        table = ["test", "kci", "--data", "table.csv", "--x", "a", "--z", "b"]
        self.write("table.csv", "a|b\n1|2\n")
        self.refuse(2, ["it has 'a|b'", "commas, semicolons or tabs"], *table)
        self.write("table.csv", "a,b\n1,2\n")
        table[3] = "table.csv:a"
        self.refuse(2, ["options name the columns here", "leave out ':a'"], *table)

    def test_no_output_replaces_an_input(self):
        rows = "".join(f"{i % 7},{i * i % 11}\n" for i in range(120))
        self.write("table.csv", "a,b\n" + rows)
        table = (self.path / "table.csv").read_bytes()
        model = ["train", "--data", "table.csv", "--features", "a", "--target", "b", "--regularizer", "none", "--task", "regression", "--epochs", "1", "-o"]
        self.succeed(*model, "predictor.safetensors", "--report", "r")
        for words, arguments in (
                (["-o ./table.csv", "--data"], ["fit", "--data", "table.csv", "--y", "a", "--z", "b", "-o", "./table.csv"]),
                (["-o table.csv", "--y"], ["fit", "--y", "table.csv:a", "--z", "table.csv:b", "-o", "table.csv"]),
                (["--grad table.csv", "--data"], ["measure", "hsic", "--data", "table.csv", "--x", "a", "--z", "b", "--grad", "table.csv"]),
                (["-o table.csv", "--data"], [*model, "table.csv"]),
                (["-o table.csv", "--data"], ["predict", "--model", "predictor.safetensors", "--data", "table.csv", "-o", "table.csv"]),
                (["-o predictor.safetensors", "--model"], ["predict", "--model", "predictor.safetensors", "--data", "table.csv", "-o", "predictor.safetensors"])):
            self.refuse(2, ["would overwrite what", "name another file", *words], *arguments)
        self.assertEqual((self.path / "table.csv").read_bytes(), table)
        self.succeed("predict", "--model", "predictor.safetensors", "--data", "table.csv", "-o", "p.csv")

    def test_one_row(self):
        self.refuse(2, ["one_row.npy", "1 row"], *self.fit_args(y="one_row.npy", z="one_row.npy"))
        self.refuse(2, ["one_row.npy", "1 row"], *self.measure_args("one_row.npy", "one_row.npy", "one_row.npy"))

    def test_few_rows_for_ustat(self):
        self.write("three.npy", npy_bytes([1.0, 2.0, 4.0]))
        three = self.measure_args("three.npy", "three.npy", "three.npy")
        holdout = ["--holdout-y", "holdout_y.npy", "--holdout-z", "holdout_z.npy"]
        self.refuse(2, ["three.npy", "3 rows", "4"], *three, *holdout, "--estimator", "ustat")
        self.succeed(*three, *holdout, "--estimator", "centered")

    def test_truncated_npy(self):
        whole = npy_bytes([float(i) for i in range(80)])
        for size in (3, 9, 40, len(whole) - 1):
            self.bad_y("cut.npy", whole[:size])

    def test_lying_npy(self):
        lie = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"
        shapes = ("(10000000000000,)", "(4294967296, 4294967296)", "(-5,)", "(9223372036854775807, 2)", "(80, 2, 2)")
        for shape in shapes:
            self.bad_y("lie.npy", npy_bytes([1.0] * 80, header=lie % ("<f8", shape)))
        self.bad_y("object.npy", npy_bytes([1.0] * 80, header=lie % ("|O", "(80,)")))
        self.bad_y("junk.npy", b"\x93NUMPY\x01\x00\xff\xff{'descr'")

    def test_bad_npz(self):
        with zipfile.ZipFile(self.path / "good.npz", "w") as archive:
            archive.writestr("labels.npy", npy_bytes([float(i % 7) for i in range(80)]))
            archive.writestr("other.npy", npy_bytes([1.0] * 80))
        self.succeed(*self.fit_args(y="good.npz:labels", out="npz.safetensors"))
        self.refuse(2, ["good.npz", "labels"], *self.fit_args(y="good.npz:lables"))
        self.bad_y("cut.npz", (self.path / "good.npz").read_bytes()[:-30])
        with zipfile.ZipFile(self.path / "lie.npz", "w") as archive:
            header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000,), }"
            archive.writestr("y.npy", npy_bytes([1.0] * 80, header=header))
        self.refuse(2, ["lie.npz"], *self.fit_args(y="lie.npz:y"))

    def test_bad_safetensors(self):
        payload = struct.pack("<80d", *[float(i % 9) for i in range(80)])
        good = {"y": {"dtype": "F64", "shape": [80], "data_offsets": [0, 640]}}
        self.write("good.safetensors", safetensors_bytes(good, payload))
        self.succeed(*self.fit_args(y="good.safetensors:y", out="st.safetensors"))
        lies = [{"y": {"dtype": "F64", "shape": [80], "data_offsets": [0, 6400]}},
                {"y": {"dtype": "F64", "shape": [2**62, 8], "data_offsets": [0, 640]}},
                {"y": {"dtype": "F64", "shape": [-80], "data_offsets": [0, 640]}},
                {"y": {"dtype": "F64", "shape": [80], "data_offsets": [640, 0]}}, [1, 2], b"{\"y\": {"]
        for header in lies:
            self.bad_y("lie.safetensors", safetensors_bytes(header, payload))
        self.bad_y("long.safetensors", struct.pack("<Q", 2**63) + b"{}")

    def test_bad_models(self):
        header = {"y": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}
        self.write("no_model.safetensors", safetensors_bytes(header, bytes(8)))
        self.refuse(2, ["no_model.safetensors"], *self.measure_args(), "--model", "no_model.safetensors")
        self.refuse(2, ["y.npy"], *self.measure_args(), "--model", "y.npy")
        self.refuse(2, ["absent.safetensors"], *self.measure_args(), "--model", "absent.safetensors")
        self.succeed(*self.fit_args(out="whole.safetensors"))
        whole = (self.path / "whole.safetensors").read_bytes()
        for size in (4, 100, len(whole) // 2, len(whole) - 8):
            self.write("cut_model.safetensors", whole[:size])
            self.refuse(2, ["cut_model.safetensors"], *self.measure_args(), "--model", "cut_model.safetensors")
        self.refuse(2, ["x.npy", "2 columns", "fitted with 1"], *self.measure_args(y="x.npy"), "--model",
                    "whole.safetensors")

    def test_unreadable(self):
        self.refuse(2, ["absent.npy"], *self.fit_args(y="absent.npy"))
        (self.path / "folder.npy").mkdir(exist_ok=True)
        self.refuse(2, ["folder.npy"], *self.fit_args(y="folder.npy"))
        if os.geteuid() != 0:
            self.write("secret.npy", npy_bytes([1.0] * 80))
            (self.path / "secret.npy").chmod(0)
            self.refuse(2, ["secret.npy", "ermission"], *self.fit_args(y="secret.npy"))


class ConstantTest(CliTest):
    def test_median_has_no_width(self):
        for name in ("x", "z"):
            self.refuse(2, ["constant.npy: %s is constant" % name, "--sigma2-" + name],
                        *self.measure_args(**{name: "constant.npy"}))

    def test_constant_z_measures_nothing(self):
        result = self.as_json(*self.measure_args(z="constant.npy"), "--sigma2-z", "1", "--ridge", "0.01")
        self.assertAlmostEqual(result["value"], 0, places=4)
        self.assertEqual([text for text in result["warnings"] if "constant" in text],
                         ["z (constant.npy) is constant: nothing can depend on it"])

    def test_constant_y_and_x_are_defined(self):
        result = self.as_json(*self.measure_args(y="constant.npy"))
        self.assertGreater(result["value"], 0)
        self.assertEqual([text for text in result["warnings"] if "constant" in text],
                         ["y (constant.npy) is constant: conditioning on it changes nothing"])
        result = self.as_json(*self.measure_args(x="constant.npy"), "--sigma2-x", "1")
        self.assertAlmostEqual(result["value"], 0, places=12)


class TableTest(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(3)
        cls.lines = []
        for i in range(120):
            sex = draw.choice(["female", "male"])
            age = draw.uniform(20, 60)
            score, income = (sex == "male") + 0.1 * draw.gauss(0, 1), age / 20 + draw.gauss(0, 1)
            cls.lines.append("%s,%g,%g,%g" % (sex, age, score, income))
        cls.write("people.csv", "sex,age,score,income\n" + "\n".join(cls.lines) + "\n")
        cls.write("reversed.csv", "sex,age,score,income\n" + "\n".join(reversed(cls.lines)) + "\n")
        missing = list(cls.lines)
        missing[4] = missing[4].replace(missing[4].split(",")[1], "", 1)
        missing[9] = missing[9].rsplit(",", 1)[0] + ",NA"
        cls.write("missing.csv", "sex,age,score,income\n" + "\n".join(missing) + "\n")

    data = ["--data", "people.csv", "--x", "score", "--y", "income", "--z", "age,sex"]

    def test_text_columns_are_categories(self):
        result = self.as_json("measure", "circe", *self.data)
        self.assertIn("delta", result["kernel_z"])
        self.assertIn("gaussian", result["kernel_z"])
        self.assertGreater(result["value"], 0)

    def test_hsic_needs_no_y(self):
        result = self.as_json("measure", "hsic", "--data", "people.csv", "--x", "score", "--z", "age,sex")
        self.assertEqual(result["n"], 120)
        self.assertIn("delta", result["kernel_z"])
        self.assertEqual(result["value"], self.as_json("measure", "hsic", *self.data)["value"])

    def test_all_of_a_table(self):
        result = self.as_json("measure", "all", *self.data)
        self.assertEqual((result["n"], len(result["measures"])), (60, 9))

    def test_gcm_warns_of_codes(self):
        """Two categories are a column of 0 and 1; with three the order of the codes would mean something."""
        self.assertEqual(self.as_json("measure", "gcm", *self.data, "--ridge", "1")["warnings"], [])
        lines = [line.replace("female", ("female", "other")[i % 2]) for i, line in enumerate(self.lines)]
        self.write("three.csv", "sex,age,score,income\n" + "\n".join(lines) + "\n")
        result = self.as_json("measure", "gcm", "--data", "three.csv", *self.data[2:], "--ridge", "1")
        self.assertTrue(any("3 categories" in text for text in result["warnings"]), result["warnings"])

    def test_columns_options_agree_with_data(self):
        files = ["--x", "people.csv:score", "--y", "people.csv", "--columns-y", "income", "--z", "people.csv:1,0"]
        values = [self.as_json("measure", "circe", *source)["value"] for source in (files, self.data)]
        self.assertEqual(values[0], values[1])

    def test_kernel_by_names(self):
        a = self.as_json("measure", "circe", *self.data, "--kernel-z", "age:gaussian*sex:delta")
        b = self.as_json("measure", "circe", *self.data, "--kernel-z", "0:gaussian*1:delta")
        self.assertEqual(a["value"], b["value"])
        self.refuse(2, ["--kernel-z", "'agee'", "'age'"], "measure", "circe", *self.data, "--kernel-z", "agee:gaussian")

    def test_unknown_column(self):
        table = ["measure", "circe", "--data", "people.csv", "--x", "score", "--z", "age"]
        self.refuse(2, ["people.csv", "incme"], *table, "--y", "incme")
        self.refuse(2, ["people.csv", "9"], *table, "--y", "9")
        self.refuse(2, ["--columns-y"], "measure", "circe", *self.data, "--columns-y", "age")

    def test_missing(self):
        table = ["measure", "circe", "--data", "missing.csv", "--x", "score", "--y", "income", "--z", "age,sex"]
        self.refuse(2, ["missing.csv", "row 9", "'income'", "(1 of 120 rows", "--missing drop"], *table)
        result = self.run_circe(*table, "--missing", "drop", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        out = json.loads(result.stdout)
        self.assertEqual((out["dropped"], out["split"]), (2, {"seed": 0, "holdout": 59, "batch": 59}))
        self.assertIn("2 rows", result.stderr)

    def test_missing_in_arrays(self):
        rows = [float(i) for i in range(60)]
        rows[5] = math.nan
        self.write("hole.npy", npy_bytes(rows))
        result = self.as_json(*self.measure_args(x="hole.npy"), "--missing", "drop")
        self.assertEqual((result["dropped"], result["split"]["batch"]), (1, 30))

    def test_categories_keep_their_codes_across_files(self):
        """The reversed table meets the categories in another order; a model and a holdout must not care."""
        fit = ["fit", "--y", "income", "--z", "age,sex", "--sigma2-z", "100"]
        self.succeed(*fit, "--data", "people.csv", "-o", "people.safetensors")
        measure = ["measure", "circe", "--x", "score", "--y", "income", "--z", "age,sex"]
        straight = self.as_json(*measure, "--data", "people.csv", "--model", "people.safetensors")["value"]
        turned = self.as_json(*measure, "--data", "reversed.csv", "--model", "people.safetensors")["value"]
        tables = ["--data", "reversed.csv", "--holdout-data", "people.csv"]
        holdout = self.as_json(*measure, *tables, "--sigma2-z", "100")["value"]
        self.assertAlmostEqual(turned / straight, 1, places=9)
        self.assertAlmostEqual(holdout / straight, 1, places=9)

    def test_text_against_numbers(self):
        numbers = ["1" + line[line.index(","):] for line in self.lines]
        self.write("numbers.csv", "sex,age,score,income\n" + "\n".join(numbers))
        self.refuse(2, ["categories", "numbers", "numbers.csv"], "measure", "circe", "--data", "numbers.csv",
                    "--holdout-data", "people.csv", "--x", "score", "--y", "income", "--z", "age,sex")


@unittest.skipUnless(os.environ.get("CIRCE_DATA"), "CIRCE_DATA does not name the folder of the real data")
class RealDataTest(CliTest):
    """Real tables: what depends must come out far above what was made without looking at z."""

    def ustat(self, file, x, y, z, *options):
        return json.loads(self.succeed("measure", "circe", "--data", file, "--x", x, "--y", y, "--z", z,
                                       "--estimator", "ustat", "--json", *options).stdout)

    def test_communities(self):
        table = pathlib.Path(os.environ["CIRCE_DATA"]) / "communities_crime.csv"
        result = self.ustat(table, "racePctWhite", "ViolentCrimesPerPop", "racepctblack")
        lines = table.read_text().splitlines()
        draw = random.Random(2)
        self.write("noise.csv", "\n".join([lines[0] + ",noise"] + ["%s,%r" % (row, draw.random())
                                                                    for row in lines[1:] if row]) + "\n")
        noise = self.ustat("noise.csv", "noise", "ViolentCrimesPerPop", "racepctblack")
        self.assertEqual(result["n"] + result["split"]["holdout"], len([row for row in lines[1:] if row]))
        self.assertGreater(result["value"], 50 * abs(noise["value"]))

    def test_car_insurance(self):
        table = pathlib.Path(os.environ["CIRCE_DATA"]) / "car_insurance" / "il-per-zip.csv"
        result = self.ustat(table, "combined_premium", "state_risk", "minority", "--sigma2-y", "median",
                            "--dtype", "float32")
        self.assertIn("delta", result["kernel_z"])  # TRUE and FALSE are categories
        self.assertTrue(math.isfinite(result["value"]))


if __name__ == "__main__":
    unittest.main()
