"""How the command reads the cells of tables: one bad cell in a column of numbers is refused by every command that reads one,
categories are what the user calls so or what holds no number, words for missing are missing, and every result says which
columns are not plain numbers."""

import datetime
import json
import random
import unittest

from cli_support import CliTest, npy_bytes

BAD = ["0.7x", "1d3", "5%", '"1,5"', "1_000", "\N{MINUS SIGN}3", "0x1F", "inf", "1e999", "-"]


def table(rows, last=None):
    """score,income,age,sex,code; `last` replaces cells of the last row."""
    draw, lines = random.Random(5), []
    for i in range(rows):
        age, income, sex = draw.gauss(0, 1), draw.gauss(0, 1), draw.choice(["female", "male"])
        score = income + 0.8 * age + draw.gauss(0, 1)
        cells = {"score": repr(score), "income": repr(income), "age": repr(age), "sex": sex, "code": str(draw.randint(1, 3))}
        if i == rows - 1:
            cells.update(last or {})
        lines.append(",".join(cells[name] for name in ("score", "income", "age", "sex", "code")))
    return "score,income,age,sex,code\n" + "\n".join(lines) + "\n"


class CellsTest(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("clean.csv", table(200))
        for name in ("bad", "hole"):
            cls.write(name + ".csv", table(200, {"age": "0.7x" if name == "bad" else "?"}))

    def commands(self, data, *options):
        """Every command that reads a table, each with the column age."""
        variables = ["--data", data, "--y", "income", "--z", "age"]
        return [
            ["fit", *variables, "-o", "fitted.safetensors", *options],
            ["measure", "circe", *variables, "--x", "score", *options],
            ["measure", "all", *variables, "--x", "score", *options],
            ["test", "kci", *variables, "--x", "score", *options],
            ["test", "gcm", *variables, "--x", "score", *options],
            ["audit", data, "--prediction", "score", "--target", "income", "--sensitive", "age", "--calibrate", "0", "-o",
             "audited", *options],
            ["train", "--data", data, "--features", "age", "--target", "score", "--regularizer", "none", "--epochs", "1",
             "--batch", "32", "--no-report", "-o", "trained.safetensors", *options],
        ]

    def test_a_bad_cell_is_refused_by_every_command(self):
        words = ["bad.csv", "column 'age'", "199 numbers and 1 cell", "'0.7x' (row 199, line 201)", "--missing drop",
                 "--na '0.7x'", "--categories 'age'"]
        for arguments in self.commands("bad.csv"):
            with self.subTest(arguments=arguments[:2]):
                self.refuse(2, words, *arguments)

    def test_predict_refuses_a_bad_cell(self):
        train = self.commands("clean.csv")[-1]
        self.succeed(*train)
        self.refuse(2, ["bad.csv", "'age'", "'0.7x'"], "predict", "--model", "trained.safetensors", "--data", "bad.csv")

    def test_every_kind_of_bad_cell(self):
        for cell in BAD:
            self.write("odd.csv", table(40, {"score": cell}))
            with self.subTest(cell=cell):
                self.refuse(2, ["odd.csv", "column 'score'", "39 numbers and 1 cell that is not a number"],
                            "test", "gcm", "--data", "odd.csv", "--x", "score", "--y", "income", "--z", "age")

    def test_remedies(self):
        """What the refusal offers is what works."""
        test = ["test", "gcm", "--x", "score", "--y", "income", "--z", "age"]
        dropped = self.as_json(*test, "--data", "bad.csv", "--na", "0.7x", "--missing", "drop")
        self.assertEqual((dropped["n"], dropped["dropped"]), (199, 1))
        self.assertEqual(dropped["columns"], [{"variable": "z", "column": "age", "read_as": "numbers", "missing": 1}])
        named = self.as_json(*test, "--data", "bad.csv", "--categories", "age")
        self.assertEqual(named["columns"][0]["read_as"], "categories")
        comma = table(60).replace(",", ";").replace(".", ",")
        self.write("comma.csv", comma)
        self.refuse(2, ["--decimal ,"], *test, "--data", "comma.csv")
        self.write("point.csv", table(60))
        values = [self.as_json(*test, "--data", "comma.csv", "--decimal", ",")["p_value"],
                  self.as_json(*test, "--data", "point.csv")["p_value"]]
        self.assertEqual(values[0], values[1])

    def test_missing_words(self):
        for arguments in self.commands("hole.csv"):
            with self.subTest(arguments=arguments[:2]):
                self.refuse(2, ["hole.csv", "row 199", "'age' is missing", "--missing drop"], *arguments)
                result = self.succeed(*arguments, "--missing", "drop", "--json")
                out = json.loads(result.stdout)
                self.assertEqual(out["rows"]["dropped"] if arguments[0] == "train" else out["dropped"], 1)
                (column,) = out["columns"]
                self.assertEqual((column["column"], column["missing"]), ("age", 1))
        self.refuse(2, ["is missing"], *self.commands("hole.csv", "--missing", "refuse")[0])

    def test_a_bad_weight_is_named_by_its_row_in_the_file(self):
        """Rows before it are left out for missing cells; row 30 is the one that a person finds in the table."""
        weights = ["-1" if i == 30 else "1" for i in range(200)]
        lines = table(200).splitlines()
        for i in (3, 11):
            lines[1 + i] = lines[1 + i].replace(lines[1 + i].split(",")[2], "NA", 1)
        self.write("weighed.csv", "\n".join(",".join(row) for row in zip(lines, ["w", *weights])) + "\n")
        for arguments in self.commands("weighed.csv", "--missing", "drop"):
            option = "--row-weights" if arguments[0] == "train" else "--weights"
            with self.subTest(arguments=arguments[:2]):
                self.refuse(2, [option, "row 30", "at least 0"], *arguments, option, "w")
        self.write("pairs.csv", "x,z,y\nscore,age,income\n")
        self.refuse(2, ["--weights w: row 30 is -1"], "test", "kci", "--data", "weighed.csv", "--pairs", "pairs.csv", "--missing",
                    "drop", "--weights", "w")

    def test_a_number_for_missing(self):
        self.write("code.csv", table(60, {"age": "-999.0"}))
        test = ["test", "gcm", "--data", "code.csv", "--x", "score", "--y", "income", "--z", "age"]
        self.assertEqual(self.as_json(*test, "--na", "-999", "--missing", "drop")["dropped"], 1)
        draw = random.Random(2)
        self.write("code.npy", npy_bytes([draw.gauss(0, 1) for _ in range(59)] + [-999.0]))
        measure = ["measure", "hsic", "--x", "code.npy", "--z", "z.npy"]
        self.refuse(2, ["code.npy", "row 59", "NaN"], *measure, "--na", "-999")
        self.assertEqual(self.as_json(*measure, "--na", "-999", "--missing", "drop")["dropped"], 1)

    def test_results_say_what_is_categories(self):
        plain = {"column": "sex", "read_as": "categories", "categories": 2, "because": "no cell is a number"}
        named = {"column": "code", "read_as": "categories", "categories": 3, "because": "it was named so"}
        for arguments in self.commands("clean.csv"):
            arguments = ["age,sex,code" if word == "age" else word for word in arguments]
            arguments += ["--categories", "code"]
            with self.subTest(arguments=arguments[:2]):
                columns = self.as_json(*arguments)["columns"]
                self.assertEqual([{k: v for k, v in column.items() if k != "variable"} for column in columns], [plain, named])
                text = self.succeed(*arguments).stdout
                self.assertRegex(text, r"read as +.*column sex: 2 categories, since no cell is a number")
                self.assertRegex(text, r"read as +.*column code: 3 categories, since it was named so")
        self.assertEqual(self.as_json(*self.commands("clean.csv")[3])["columns"], [])

    def test_a_column_of_names_is_told(self):
        self.write("names.csv", "a,b\n" + "".join(f"2024-{i // 28 + 1:02d}-{i % 28 + 1:02d},{i * i % 37}\n" for i in range(60)))
        for arguments in (["measure", "hsic"], ["test", "kci"]):
            result = self.succeed(*arguments, "--data", "names.csv", "--x", "a", "--z", "b")
            self.assertIn("column 'a' of names.csv has 60 categories in 60 rows", " ".join(result.stderr.split()))
        result = self.succeed("measure", "hsic", "--data", "clean.csv", "--x", "sex", "--z", "age")
        self.assertNotIn("warning", result.stderr)

    def test_categories_that_differ_in_case_are_told(self):
        self.write("cases.csv", "a,b\n" + "".join(f"{('yes', 'no', 'Yes')[i % 3]},{i * i % 37}\n" for i in range(60)))
        result = self.succeed("test", "kci", "--data", "cases.csv", "--x", "a", "--z", "b")
        self.assertIn("column 'a' of cases.csv has the categories 'yes' and 'Yes', which count as two", " ".join(result.stderr.split()))

    def test_a_kernel_of_numbers_on_categories_is_told(self):
        data = ["--data", "clean.csv", "--x", "code", "--z", "age", "--categories", "code"]
        result = self.succeed("measure", "hsic", *data, "--kernel-x", "gaussian(1)")
        self.assertIn("--kernel-x gaussian(1) takes the 3 categories of column 0", " ".join(result.stderr.split()))
        self.assertNotIn("warning", self.succeed("measure", "hsic", *data).stderr)

    def test_utf16(self):
        self.write("wide.csv", table(30).encode("utf-16"))
        self.refuse(2, ["wide.csv", "UTF-16", "UTF-8"], "measure", "hsic", "--data", "wide.csv", "--x", "score", "--z", "age")

    def test_unknown_categories_are_refused(self):
        for arguments in self.commands("clean.csv", "--categories", "agee"):
            with self.subTest(arguments=arguments[:2]):
                self.refuse(2, ["--categories", "'agee'", "did you mean 'age'?"], *arguments)

    def test_categories_of_arrays(self):
        draw = random.Random(3)
        self.write("codes.npy", npy_bytes([float(draw.randint(0, 3)) for _ in range(60)]))
        test = ["test", "kci", "--x", "x.npy", "--y", "y.npy", "--z", "codes.npy"]
        (column,) = self.as_json(*test, "--categories", "z")["columns"]
        self.assertEqual((column["variable"], column["categories"]), ("z", 4))
        self.assertEqual(self.as_json(*test, "--categories", "z:0")["p_value"],
                         self.as_json(*test, "--kernel-z", "delta")["p_value"])
        self.refuse(2, ["of which variable", "z:0"], *test, "--categories", "0")
        self.refuse(2, ["whole numbers"], *test, "--categories", "y")

    def test_predict_knows_the_categories_of_training(self):
        """A table of one category that looks like a number, and one that the model has not seen."""
        train = ["train", "--data", "clean.csv", "--features", "age,code", "--categories", "code", "--target", "score",
                 "--regularizer", "none", "--epochs", "1", "--batch", "32", "--no-report", "-o", "coded.safetensors"]
        self.succeed(*train)
        predict = ["predict", "--model", "coded.safetensors"]
        out = self.as_json(*predict, "--data", "clean.csv", "-o", "out.csv")
        self.assertEqual([column["column"] for column in out["columns"]], ["code"])
        self.write("new.csv", "age,code\n0.5,1\n0.5,7\n")
        self.refuse(2, ["new.csv", "'code' is '7'", "did not occur in training"], *predict, "--data", "new.csv")

    def test_measures_refuse_categories_that_the_fit_has_not_seen(self):
        rows = [(i % 7 * 0.3, "abc"[i % 3], i % 5 * 0.2 + i % 3) for i in range(60)]
        self.write("seen.csv", "x,y,z\n" + "".join("%g,%s,%g\n" % row for row in rows))
        self.write("some.csv", "x,y,z\n" + "".join("%g,%s,%g\n" % row for row in rows if row[1] != "a"))
        self.write("more.csv", "x,y,z\n" + "".join("%g,%s,%g\n" % row for row in rows) + "0.1,d,0.3\n")
        fitted = ["--kernel-y", "delta", "--sigma2-z", "1"]
        self.succeed("fit", "--data", "seen.csv", "--y", "y", "--z", "z", *fitted, "-o", "seen.safetensors")
        measure = ["measure", "circe", "--x", "x", "--y", "y", "--z", "z", "--model", "seen.safetensors"]
        self.succeed(*measure, "--data", "some.csv")
        self.refuse(2, ["more.csv: column 'y' contains 'd'", "seen.safetensors has not seen"], *measure, "--data", "more.csv")

    def test_predict_says_why_there_is_no_error(self):
        self.succeed(*self.commands("clean.csv")[-1])
        self.write("target.csv", table(200, {"score": "0.7x"}))
        result = self.succeed("predict", "--model", "trained.safetensors", "--data", "target.csv", "-o", "out.csv")
        self.assertIn("the error was not computed", result.stderr)
        self.assertIn("'0.7x'", result.stderr)

    def test_first_row(self):
        self.write("headless.csv", "0.7x,1,2\n" + "".join("%d,%d,%d\n" % (i, i * i % 7, i % 5) for i in range(40)))
        self.refuse(2, ["headless.csv, line 1", "'0.7x'"], "test", "gcm", "--data", "headless.csv", "--x", "0", "--y", "1",
                    "--z", "2")


class GuessesTest(CliTest):
    """What a table leaves open is told, or asked back."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.draw = random.Random(12)
        cls.rows = [[cls.draw.gauss(0, 1) for _ in range(3)] for _ in range(200)]

    def table(self, name, header, more=None):
        lines = [",".join(map(repr, row)) + ("," + more(i) if more else "") for i, row in enumerate(self.rows)]
        return self.write(name, header + "\n" + "\n".join(lines) + "\n")

    def warnings(self, data, x, y, z):
        return self.as_json("test", "gcm", "--data", data, "--x", x, "--y", y, "--z", z)["warnings"]

    def test_a_first_row_that_counts_up(self):
        """pandas writes the numbers of columns as a header; line 1 is a row all the same, and so is told."""
        for header in ("0,1,2", "7,8,9"):
            (text,) = self.warnings(self.table("counted.csv", header), "0", "1", "2")
            self.assertIn("line 1 of counted.csv contains only numbers", text)
        for header in ("0,1,3", "0.5,1.5,2.5", "2,1,0", "x,y,z"):
            self.assertEqual(self.warnings(self.table("plain.csv", header), "0", "1", "2"), [])

    def test_columns_that_are_equal(self):
        self.table("t.csv", "x,y,z,w,code,sex", lambda i: "%r,%d,%s" % (self.rows[i][0], i % 2, ("m", "f")[i % 2]))
        for x, y, z, words in (("x", "y", "x", "they depend on each other"), ("x", "y", "w,z", "column 'x' of x and column 'w' of z"),
                               ("x", "z", "z", "nothing can depend on it"), ("x", "w", "z", "tells nothing more")):
            (text,) = self.warnings("t.csv", x, y, z)
            self.assertIn(words, text)
        self.assertEqual(self.warnings("t.csv", "code", "y", "sex"), [])
        out = self.as_json("measure", "circe", "--data", "t.csv", "--x", "z", "--y", "x", "--z", "w")
        self.assertTrue(any("once y is known, nothing can depend on it" in text for text in out["warnings"]), out["warnings"])
        self.table("t.csv", "x,y,z,whole,lacking,same", lambda i: "%s,%s,%s" % ("ab"[i % 2], *2 * [("", "a", "b")[i % 20 != 2 and 1 + i % 2]]))
        lacking = {z: self.as_json("test", "gcm", "--data", "t.csv", "--x", "lacking", "--y", "y", "--z", z, "--missing", "impute",
                                   "--imputations", "2")["warnings"] for z in ("whole", "same")}
        self.assertFalse(any("equal in every row" in text for text in lacking["whole"]), lacking)
        self.assertTrue(any("equal in every row" in text for text in lacking["same"]), lacking)

    def test_times_with_zones_sort_as_instants(self):
        """As texts they did not, and '9:00' came after '10:00'."""
        start = datetime.datetime(2024, 2, 27, tzinfo=datetime.timezone.utc)
        zones = [datetime.timezone(datetime.timedelta(hours=h)) for h in (2, -5, 0, 5.5)]
        moments = [start + datetime.timedelta(minutes=30 * i) for i in range(200)]
        forms = {"number": lambda i: str(1800 * i),
                 "zones": lambda i: moments[i].astimezone(zones[i % 4]).isoformat(),
                 "basic": lambda i: moments[i].strftime("%Y-%m-%dT%H:%MZ") if i % 2 else moments[i].strftime("%Y-%m-%d %H:%M+00"),
                 "short": lambda i: "%s %d:%02d" % (moments[i].date(), moments[i].hour, moments[i].minute),
                 "fraction": lambda i: moments[i].strftime("%Y-%m-%d %H:%M:00") + (".25" if i % 2 else "")}
        results = {}
        for name, form in forms.items():
            order = random.Random(3).sample(range(200), 200)
            lines = [",".join(map(repr, self.rows[i])) + "," + form(i) for i in order]
            self.write("series.csv", "x,y,z,when\n" + "\n".join(lines) + "\n")
            results[name] = self.as_json("test", "gcm", "--data", "series.csv", "--x", "x", "--y", "y", "--z", "z", "--time", "when")
        for name in forms:
            self.assertEqual(results[name]["p_value"], results["number"]["p_value"], name)
        test = ["test", "gcm", "--data", "series.csv", "--x", "x", "--y", "y", "--z", "z", "--time", "when"]
        for bad in ("2024-13-01", "2024-01-01T25:00", "2024-01-01 10:00+2x", "2024-01-01x", "1.2.2024"):
            self.table("series.csv", "x,y,z,when", lambda i: bad if i == 9 else "2024-01-0%d" % (i % 9 + 1))
            self.refuse(2, ["--time must contain numbers, or dates", bad], *test)
        self.table("series.csv", "x,y,z,when", lambda i: "2024-01-0%d 10:00%s" % (i % 9 + 1, "Z" if i % 2 else ""))
        self.refuse(2, ["has a time zone", "has none"], *test)


class OutliersTest(CliTest):
    """Three rows of 1e6 among 1,003, where x depends on z given y."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw, rows = random.Random(9), []
        for _ in range(1000):
            y, e = draw.gauss(0, 1), draw.gauss(0, 1)
            rows.append([y + e + draw.gauss(0, 1), y, y + e])
        for name, column in (("clean", None), ("x", 0), ("z", 2)):
            lines = [list(row) for row in rows]
            for k in range(3 if column is not None else 0):
                lines.append([0.1, 0.2, -0.3])
                lines[-1][column] = 1e6
            cls.write(name + ".csv", "x,y,z\n" + "".join(",".join(map(repr, row)) + "\n" for row in lines))

    data = ["--x", "x", "--y", "y", "--z", "z"]

    def test_trust(self):
        clean = self.as_json("test", "gcm", "--data", "clean.csv", *self.data)
        self.assertEqual((clean["trust"], clean["warnings"]), ("good", []))
        self.assertLess(clean["p_value"], 1e-11)
        for name in ("x", "z"):
            with self.subTest(name=name):
                found = self.as_json("test", "gcm", "--data", name + ".csv", *self.data)
                self.assertGreater(found["p_value"], 0.05)
                self.assertEqual(found["trust"], "poor")
                self.assertIn("normal-scores", found["verdict"])
                self.assertLess(found["diagnostics"]["robust_p"], 1e-11)
                robust = self.as_json("test", "gcm", "--data", name + ".csv", *self.data, "--transform", "normal-scores")
                self.assertEqual((robust["trust"], robust["transform"]), ("good", "normal-scores"))
                self.assertLess(robust["p_value"], 1e-11)
                kernels = self.as_json("test", "kci", "--data", name + ".csv", *self.data)  # which outliers do not touch
                self.assertEqual(kernels["trust"], "good")
                self.assertLess(kernels["p_value"], 1e-11)

    def test_a_number_that_may_stand_for_missing_is_told(self):
        words = "column 'x' of x.csv is 1000000 in 3 rows"
        for arguments in (["test", "gcm", *self.data], ["measure", "hsic", *self.data],
                          ["fit", "--y", "x", "--z", "z", "-o", "m.safetensors"]):
            with self.subTest(arguments=arguments[:2]):
                out = self.as_json(*arguments, "--data", "x.csv")
                self.assertTrue(any(words in text and "--na 1000000" in text for text in out["warnings"]), out["warnings"])
        dropped = self.as_json("test", "gcm", *self.data, "--data", "x.csv", "--na", "1000000", "--missing", "drop")
        self.assertEqual((dropped["dropped"], dropped["warnings"]), (3, ["left out 3 rows with missing cells"]))

    def test_measures_of_ranks(self):
        values = [self.as_json("measure", "gcm", "--data", name, *self.data, "--transform", "ranks")["value"]
                  for name in ("x.csv", "clean.csv")]
        self.assertAlmostEqual(values[0] / values[1], 1, places=1)
        self.refuse(2, ["--transform", "--grad"], "measure", "hsic", "--data", "x.csv", *self.data, "--transform", "ranks",
                    "--grad", "g.npy")


if __name__ == "__main__":
    unittest.main()
