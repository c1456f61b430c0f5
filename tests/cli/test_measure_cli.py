"""circe fit and circe measure: their JSON and text, the options of every measure, and numbers against golden values,
differences, and each other.

Only the Python standard library is needed. CIRCE_BINARY names the command to test, CIRCE_GOLDEN the golden cases."""

import json
import math
import os
import pathlib
import random
import re
import unittest

from cli_support import MEASURES, CliTest, npy_bytes, read_npy

GOLDEN = pathlib.Path(os.environ.get("CIRCE_GOLDEN", pathlib.Path(__file__).resolve().parents[1] / "golden"))


class FitTest(CliTest):
    def test_json_contract(self):
        result = self.as_json(*self.fit_args(out="fit.safetensors"))
        for key in ("loo", "method", "solver", "rank_y", "rank_z", "trace_residual_y", "trace_residual_z", "n",
                    "kernel_y", "kernel_z", "sigma2_z", "ridge_safe", "ridge_raised", "warnings", "seconds", "model",
                    "dropped"):
            self.assertIn(key, result)
        loo = result["loo"]
        ratios = [loo["sigma2_y"][0] / width for width in loo["sigma2_y"]]  # multiples of the median
        self.assertEqual([round(ratio) for ratio in ratios], [1, 10, 100, 1000, 10000])
        self.assertEqual(loo["ridge"], [0.01, 0.1, 1, 10, 100])
        self.assertEqual([len(row) for row in loo["error"]], [5] * 5)
        self.assertEqual([len(row) for row in loo["ridge_used"]], [5] * 5)
        best = min(min(row) for row in loo["error"])
        i = loo["sigma2_y"].index(loo["best"]["sigma2_y"])
        self.assertEqual(loo["error"][i][loo["ridge"].index(loo["best"]["ridge"])], best)
        self.assertEqual((result["n"], result["model"]), (80, "fit.safetensors"))
        self.assertTrue((self.path / "fit.safetensors").exists())

    def test_text_marks_the_best(self):
        result = self.succeed(*self.fit_args(out="text.safetensors"))
        self.assertEqual(len(re.findall(r"\d\*", result.stdout)), 1)
        self.assertIn("circe measure", result.stdout)
        self.assertNotIn("\r", result.stderr)
        self.assertEqual(self.succeed(*self.fit_args(out="text.safetensors"), "--quiet").stdout, "")

    def test_methods_agree(self):
        fits = [self.as_json(*self.fit_args(), "--ridge", "1", "--sigma2-y", "0.5", "--method", method)
                for method in ("auto", "lowrank", "dense")]
        errors = [fit["loo"]["error"][0][0] for fit in fits]
        for error in errors:
            self.assertAlmostEqual(error / errors[0], 1, places=8)
        (self.path / "m.safetensors").unlink()

    def test_median_for_y(self):
        result = self.as_json(*self.fit_args(out="median.safetensors"), "--sigma2-y", "median")
        self.assertEqual(len(result["loo"]["error"]), 1)
        self.assertGreater(result["sigma2_y"], 0)

    def test_equals_sign_and_attached_letter(self):
        self.succeed("fit", "--y=holdout_y.npy", "--z=holdout_z.npy", "-oattached.safetensors", "-q")
        self.assertTrue((self.path / "attached.safetensors").exists())


class MeasureTest(CliTest):
    holdout = ["--holdout-y", "holdout_y.npy", "--holdout-z", "holdout_z.npy"]

    def test_json_contract(self):
        result = self.as_json(*self.measure_args(), *self.holdout)
        for key in ("measure", "estimator", "value", "n", "seconds", "kernel_x", "kernel_y", "kernel_z", "ridge",
                    "sigma2_x", "sigma2_y", "sigma2_z", "method", "dtype", "warnings"):
            self.assertIn(key, result)
        self.assertEqual((result["measure"], result["estimator"], result["n"], result["dtype"]),
                         ("circe", "ustat", 60, "float64"))
        self.assertNotIn("split", result)
        self.assertNotIn("grad", result)

    def test_numbers_have_17_digits(self):
        text = self.succeed(*self.measure_args(), *self.holdout, "--json").stdout
        value = re.search(r'"value":\s*([^,\s]+)', text).group(1)
        self.assertEqual("%.17g" % float(value), value)

    def test_model_gives_what_the_holdout_gives(self):
        self.succeed(*self.fit_args(out="same.safetensors"))
        direct = self.as_json(*self.measure_args(), *self.holdout)
        through = self.as_json(*self.measure_args(), "--model", "same.safetensors")
        self.assertAlmostEqual(through["value"] / direct["value"], 1, places=10)
        self.assertEqual(through["kernel_y"], direct["kernel_y"])

    def test_split_is_said_and_reproducible(self):
        a, b, c = (self.as_json(*self.measure_args(), "--seed", seed) for seed in (1, 1, 2))
        self.assertEqual(a["split"], {"seed": 1, "holdout": 30, "batch": 30})
        self.assertEqual((a["n"], a["value"]), (30, b["value"]))
        self.assertNotEqual(a["value"], c["value"])
        self.assertIn("split into two halves by --seed 1", self.succeed(*self.measure_args(), "--seed", 1).stdout)

    def test_estimators_and_spectral(self):
        values = {name: self.as_json(*self.measure_args(), *self.holdout, "--estimator", name)["value"]
                  for name in ("biased", "debiased", "centered", "ustat")}
        self.assertEqual(len(set(values.values())), 4)
        arguments = ["measure", "circe-spectral", *self.measure_args()[2:], *self.holdout]
        self.assertGreater(self.as_json(*arguments)["value"], 0)

    def test_float32_is_close(self):
        wide = self.as_json(*self.measure_args(), *self.holdout)["value"]
        narrow = self.as_json(*self.measure_args(), *self.holdout, "--dtype", "float32")
        self.assertEqual(narrow["dtype"], "float32")
        self.assertAlmostEqual(narrow["value"] / wide, 1, places=4)

    def test_gradient_against_differences(self):
        options = [*self.holdout, "--sigma2-x", "1.5", "--ridge", "0.1", "--sigma2-y", "0.5"]
        result = self.as_json(*self.measure_args(), *options, "--grad", "grad.npy")
        self.assertEqual((result["grad"], result["rows"]), ("grad.npy", 60))
        shape, grad = read_npy(self.path / "grad.npy")
        self.assertEqual(shape, (60, 2))
        _, x = read_npy(self.path / "x.npy")
        for at in (0, 37, 119):
            values = []
            for step in (1e-4, -1e-4):
                moved = x[:at] + [x[at] + step] + x[at + 1:]
                self.write("moved.npy", npy_bytes([moved[i:i + 2] for i in range(0, 120, 2)]))
                values.append(self.as_json(*self.measure_args(x="moved.npy"), *options)["value"])
            self.assertAlmostEqual(grad[at], (values[0] - values[1]) / 2e-4, delta=1e-6 * max(map(abs, grad)) + 1e-10)

    def test_gradient_of_a_split_has_the_measured_rows(self):
        self.assertEqual(self.as_json(*self.measure_args(), "--grad", "half.npy", "--dtype", "float32")["rows"], 30)
        self.assertEqual(read_npy(self.path / "half.npy")[0], (30, 2))

    def test_useless_width_is_a_warning(self):
        result = self.as_json(*self.measure_args(), *self.holdout, "--kernel-x", "linear", "--sigma2-x", "2")
        self.assertTrue(any("--sigma2-x" in text for text in result["warnings"]))
        self.assertIsNone(result["sigma2_x"])

    def test_rff_is_near(self):
        options = [*self.holdout, "--ridge", "1", "--sigma2-y", "1"]
        exact = self.as_json(*self.measure_args(), *options)["value"]
        features = ["--method", "rff", "--rff-features", 2048, "--rff-batch", 0]
        near = self.as_json(*self.measure_args(), *options, *features)["value"]
        self.assertAlmostEqual(near / exact, 1, delta=0.3)


class BatchMeasureTest(CliTest):
    """hsic, and the measures that regress the measured rows on themselves."""

    holdout = ["--holdout-y", "holdout_y.npy", "--holdout-z", "holdout_z.npy"]
    one = ["--sigma2-y", "0.5", "--ridge", "0.1"]

    def measure(self, name, *options):
        return self.as_json(*self.measure_args(name=name), *options)

    def warned(self, result, *words):
        self.assertTrue(any(all(word in text for word in words) for text in result["warnings"]), result["warnings"])

    def test_json_contract(self):
        for name in ("hsic", "hscic", "gcm", "kci", "nocco", "kpc"):
            with self.subTest(measure=name):
                result = self.measure(name)
                self.assertEqual((result["measure"], result["n"], result["dtype"]), (name, 60, "float64"))
                self.assertEqual(result["estimator"], "ustat" if name == "hsic" else None)
                self.assertGreaterEqual(result["seconds"], 0)
                self.assertEqual(result["warnings"], [])
                self.assertEqual(result["mean_of_z"], None if name == "hsic" else "batch")
                self.assertEqual("kernel_x" in result, name != "gcm")
                self.assertEqual("kernel_z" in result, name != "gcm")
                self.assertEqual("kernel_y" in result, name != "hsic")
                self.assertEqual("ridge" in result, name in ("hscic", "gcm", "kci"))
                self.assertEqual("loo" in result, name in ("hscic", "gcm", "kci"))
                self.assertEqual(result.get("epsilon"), 1e-3 if name in ("nocco", "kpc") else None)
                self.assertEqual(result.get("method"), None if name == "hsic" else "auto")
                self.assertNotIn("split", result)

    def test_text_says_how_to_read_it(self):
        for name, words in (("hsic", "does not use y"), ("hscic", "at every y"), ("gcm", "N(0, 1)"),
                            ("kci", "grows with the number of rows"), ("nocco", "--epsilon"), ("kpc", "explains nothing")):
            text = " ".join(self.succeed(*self.measure_args(name=name)).stdout.split())
            self.assertRegex(text, "^%s = " % name)
            self.assertIn(words, text)
        self.assertEqual(len(self.succeed(*self.measure_args(name="kci"), "-q").stdout.splitlines()), 1)

    def test_hsic_needs_no_y(self):
        without = self.as_json("measure", "hsic", "--x", "x.npy", "--z", "z.npy")
        self.assertEqual(without["value"], self.measure("hsic")["value"])
        self.assertEqual(without["value"], self.as_json(*self.measure_args(y="absent.npy", name="hsic"))["value"])
        unbiased = self.measure("hsic", "--estimator", "unbiased")  # an older word for ustat
        self.assertEqual(unbiased["estimator"], "ustat")
        self.assertEqual(unbiased["value"], without["value"])
        self.assertLess(unbiased["value"], self.measure("hsic", "--estimator", "biased")["value"])
        self.write("three.npy", npy_bytes([1.0, 2.0, 4.0]))
        three = ["measure", "hsic", "--x", "three.npy", "--z", "three.npy"]
        self.succeed(*three, "--estimator", "biased")
        self.refuse(2, ["three.npy", "3 rows", "4"], *three, "--estimator", "unbiased")

    def test_wrong_estimator_names_the_right_ones(self):
        self.refuse(2, ["hsic", "biased or ustat", "centered"], *self.measure_args(name="hsic"), "--estimator", "centered")

    def test_unused_options_are_notes(self):
        """One set of options serves every measure: what one does not use changes nothing."""
        plain = ["--sigma2-x", "2", "--sigma2-z", "1", *self.one]
        epsilon, gcm = ["--epsilon", "0.5"], ["--regression", "linear", "--combine", "squares"]
        for name in MEASURES:
            with self.subTest(measure=name):
                extra = [*([] if name in ("nocco", "kpc") else epsilon), *([] if name == "gcm" else gcm)]
                result = self.measure(name, *plain, *extra, "--max-rank", "500")
                self.assertEqual(result["value"], self.measure(name, *plain)["value"])
                if name in ("nocco", "kpc"):
                    self.warned(result, "--ridge was ignored", "--epsilon")
                else:
                    self.warned(result, "--epsilon", "ignored")
                if name == "gcm":
                    self.warned(result, "--sigma2-x and --sigma2-z were ignored", "no kernels of x and z")
                else:
                    self.warned(result, "--regression and --combine were ignored", "gcm")
        result = self.measure("hsic", "--kernel-y", "linear", "--ridge", "1,2", "--method", "rff")
        self.warned(result, "--kernel-y, --method and --ridge were ignored", "hsic does not use y")
        stderr = self.succeed(*self.measure_args(name="hscic"), *self.one, "--epsilon", "1").stderr
        self.assertIn("--epsilon was ignored: hscic", stderr)

    def test_unused_mean_is_a_note(self):
        for name in ("hsic", "hscic", "gcm", "kci", "nocco", "kpc"):
            with self.subTest(measure=name):
                options = self.one if name in ("hscic", "gcm", "kci") else []
                plain = self.measure(name, *options)
                result = self.measure(name, *options, *self.holdout)
                self.assertEqual(result["value"], plain["value"])
                self.warned(result, "--holdout-y and --holdout-z were not used", name)
                advice = any("--regress-z holdout" in text for text in result["warnings"])
                self.assertEqual(advice, name in ("hscic", "gcm"))
                result = self.measure(name, *options, "--model", "absent.safetensors")
                self.assertEqual(result["value"], plain["value"])
                self.warned(result, "--model was not used")
        self.warned(self.measure("kci", *self.one, "--regress-z", "holdout"), "--regress-z was ignored", "kci")
        self.warned(self.measure("circe", "--regress-z", "batch"), "--regress-z was ignored", "circe")
        self.assertEqual(self.measure("circe", "--regress-z", "holdout")["warnings"], [])

    def test_epsilon(self):
        for name in ("nocco", "kpc"):
            values = [self.measure(name, "--epsilon", value)["value"] for value in ("1e-3", "1e-2")]
            self.assertEqual(values[0], self.measure(name)["value"])
            self.assertNotEqual(*values)
            self.refuse(2, ["--epsilon", "greater than 0"], *self.measure_args(name=name), "--epsilon", "0")
            self.refuse(2, ["--sigma2-y", "one number or median", "0.5,1", name], *self.measure_args(name=name),
                        "--sigma2-y", "0.5,1")
            median = self.measure(name, "--sigma2-y", "median")
            self.assertEqual((median["value"], median["sigma2_y"]),
                             (values[0], self.measure(name)["sigma2_y"]))
            self.assertEqual(self.measure(name, "--sigma2-y", "0.7")["sigma2_y"], 0.7)

    def test_leave_one_out_chooses_on_the_measured_rows(self):
        """As `circe fit` chooses on the same rows; gcm regresses z itself, so there with a linear kernel."""
        grids = ["--sigma2-y", "2,0.5,0.1", "--ridge", "0.01,0.1,1,10"]
        for name, kernel in (("hscic", []), ("kci", []), ("gcm", ["--kernel-z", "linear"])):
            with self.subTest(measure=name):
                result = self.measure(name, *grids)
                fit = self.as_json(*self.fit_args("y.npy", "z.npy", "loo.safetensors"), *grids, *kernel)
                self.assertEqual(result["loo"], fit["loo"])
                best = result["loo"]["best"]
                self.assertEqual((result["sigma2_y"], result["ridge"]), (best["sigma2_y"], best["ridge"]))
                again = self.measure(name, "--sigma2-y", best["sigma2_y"], "--ridge", best["ridge"])
                self.assertEqual(again["value"], result["value"])
                self.assertNotIn("loo", again)
                text = self.succeed(*self.measure_args(name=name), *grids).stdout
                self.assertRegex(text, r"leave-one-out +chose the width of y and the ridge .* 3 x 4")
                default = self.measure(name)["loo"]
                self.assertEqual([round(default["sigma2_y"][0] / width) for width in default["sigma2_y"]],
                                 [1, 10, 100, 1000, 10000])
                self.assertEqual(default["ridge"], [0.01, 0.1, 1, 10, 100])
        self.assertEqual(self.measure("kci", "--sigma2-y", "0.5")["loo"]["sigma2_y"], [0.5])
        self.assertEqual(self.measure("kci", "--sigma2-y", "median", "--ridge", "1,2")["loo"]["ridge"], [1, 2])
        self.assertNotIn("loo", self.measure("kci", "--sigma2-y", "median", "--ridge", "1"))
        self.assertNotIn("loo", self.measure("kci", "--kernel-y", "gaussian(0.5)", "--ridge", "1"))

    def test_mean_of_z_from_a_holdout(self):
        """Model, holdout and split are taken as circe takes them; gcm's model is of z itself."""
        for name, kernel in (("hscic", []), ("gcm", ["--kernel-z", "linear"])):
            with self.subTest(measure=name):
                one = [*self.one, "--sigma2-z", "1"]
                self.succeed(*self.fit_args(out="held.safetensors"), *one, *kernel)
                batch = self.measure(name, *one)
                held = self.measure(name, *one, *self.holdout, "--regress-z", "holdout")
                model = self.measure(name, "--model", "held.safetensors", "--regress-z", "holdout")
                self.assertAlmostEqual(model["value"] / held["value"], 1, places=10)
                self.assertNotAlmostEqual(held["value"] / batch["value"], 1, places=3)
                self.assertEqual((batch["regress_z"], held["regress_z"]), ("batch", "holdout"))
                self.assertEqual((batch["mean_of_z"], held["mean_of_z"], model["mean_of_z"]),
                                 ("batch", "holdout", "model"))
                split = self.measure(name, "--regress-z", "holdout", "--seed", "3")
                self.assertEqual((split["mean_of_z"], split["split"]),
                                 ("split", {"seed": 3, "holdout": 30, "batch": 30}))
                self.assertEqual(split["split"], self.measure("circe", "--seed", "3")["split"])
                self.refuse(2, ["--ridge", "--model"], *self.measure_args(name=name), "--regress-z", "holdout",
                            "--model", "held.safetensors", "--ridge", "1")

    def test_gcm_refuses_a_model_of_another_kernel(self):
        self.succeed(*self.fit_args(out="gaussian.safetensors"))
        self.refuse(2, ["gaussian.safetensors", "gaussian(", "circe fit", "--kernel-z linear"],
                    *self.measure_args(name="gcm"), "--regress-z", "holdout", "--model", "gaussian.safetensors")

    def test_gcm_tells_of_columns_far_from_zero(self):
        """Kernel ridge shrinks to 0: what it leaves of a large mean is no residual of the column."""
        self.write("far.npy", npy_bytes([v + 1000 for v in read_npy(self.path / "z.npy")[1]]))
        far = self.measure_args(name="gcm", z="far.npy")
        self.warned(self.as_json(*far, *self.one), "of z", "far.npy", "no intercept", "--regression linear")
        self.assertEqual(self.as_json(*far, "--regression", "linear")["warnings"], [])

    def test_ids_beyond_two_to_the_53(self):
        """Their neighbours are equal as float64: 9007199254740993 is none. Far from each other they are not."""
        for step, words in ((1, ["'id'", "9007199254740992", "equal now", "--categories"]), (4096, [])):
            lines = [f"{random.random()},{2**53 + step * (i % 5)}" for i in range(30)]
            (self.path / "ids.csv").write_text("x,id\n" + "\n".join(lines) + "\n")
            found = self.as_json("measure", "hsic", "--data", "ids.csv", "--x", "x", "--z", "id", "--kernel-z", "delta")
            if words:
                self.warned(found, *words)
            else:
                self.assertEqual(found["warnings"], [])

    def gcm_scores(self):
        """T of least squares on [1, y], in plain Python."""
        (_, x), (_, y), (_, z) = (read_npy(self.path / (name + ".npy")) for name in "xyz")
        n = len(y)

        def residual(v):
            my, mv = sum(y) / n, sum(v) / n
            slope = sum((a - my) * (b - mv) for a, b in zip(y, v)) / sum((a - my) ** 2 for a in y)
            return [b - mv - slope * (a - my) for a, b in zip(y, v)]

        scores = []
        for column in (x[0::2], x[1::2]):
            r = [a * b for a, b in zip(residual(column), residual(z))]
            mean = sum(r) / n
            scores.append(math.sqrt(n) * mean / math.sqrt(sum(v * v for v in r) / n - mean * mean))
        return scores

    def test_gcm_by_least_squares(self):
        scores = self.gcm_scores()
        combined = {"max": max(map(abs, scores)), "squares": sum(t * t for t in scores),
                    "logsumexp": math.log(sum(math.cosh(t) for t in scores) / len(scores))}
        for combine, right in combined.items():
            result = self.measure("gcm", "--regression", "linear", "--combine", combine)
            self.assertAlmostEqual(result["value"] / right, 1, places=10)
            self.assertEqual((result["regression"], result["combine"]), ("linear", combine))
            self.assertNotIn("kernel_y", result)
            self.assertNotIn("ridge", result)
        result = self.measure("gcm", "--regression", "linear", *self.one)
        self.warned(result, "--sigma2-y and --ridge were ignored", "least squares")
        self.refuse(2, ["--combine", "max|logsumexp|squares"], *self.measure_args(name="gcm"), "--combine", "sum")

    def test_methods(self):
        for name in ("hscic", "gcm", "kci", "nocco", "kpc"):
            with self.subTest(measure=name):
                options = self.one if name in ("hscic", "gcm", "kci") else ["--sigma2-y", "0.5"]
                dense, low = (self.measure(name, *options, "--method", method) for method in ("dense", "lowrank"))
                self.assertEqual((dense["method"], low["method"]), ("dense", "lowrank"))
                self.assertAlmostEqual(low["value"] / dense["value"], 1, places=7)
                coarse = self.measure(name, *options, "--method", "lowrank", "--tolerance", "0.2")
                if name != "gcm":  # its regressions are solved with all of the factor: leaving some out would save nothing
                    self.assertNotAlmostEqual(coarse["value"] / dense["value"], 1, places=5)
                self.refuse(2, ["rff", "auto, lowrank or dense", name], *self.measure_args(name=name), "--method", "rff")

    def test_float32_is_close(self):
        for name in ("hsic", "hscic", "gcm", "kci", "nocco", "kpc"):
            options = self.one if name in ("hscic", "gcm", "kci") else []
            narrow = self.measure(name, *options, "--dtype", "float32")
            self.assertEqual(narrow["dtype"], "float32")
            self.assertAlmostEqual(narrow["value"] / self.measure(name, *options)["value"], 1, places=3)

    def test_gradients_against_differences(self):
        """Those that no golden file has. The step is small beside the width, and what it leaves out is of order 1e-8."""
        held = [*self.holdout, "--regress-z", "holdout", *self.one]
        cases = [("nocco", ["--sigma2-y", "0.5"]), ("kpc", ["--sigma2-y", "0.5"]), ("hscic", held), ("gcm", held),
                 ("gcm", ["--regression", "linear", "--combine", "squares"])]
        _, x = read_npy(self.path / "x.npy")
        for name, options in cases:
            options = [*options, "--sigma2-x", "1.5"]
            with self.subTest(measure=name, options=options):
                result = self.measure(name, *options, "--grad", "grad.npy")
                self.assertEqual((result["grad"], result["rows"]), ("grad.npy", 60))
                shape, grad = read_npy(self.path / "grad.npy")
                self.assertEqual(shape, (60, 2))
                for at in (0, 37, 118):
                    values = []
                    for step in (1e-4, -1e-4):
                        moved = x[:at] + [x[at] + step] + x[at + 1:]
                        self.write("moved.npy", npy_bytes([moved[i:i + 2] for i in range(0, 120, 2)]))
                        values.append(self.as_json(*self.measure_args(x="moved.npy", name=name), *options)["value"])
                    self.assertAlmostEqual(grad[at], (values[0] - values[1]) / 2e-4, delta=1e-5 * max(map(abs, grad)))

    def test_constants(self):
        self.warned(self.as_json(*self.measure_args(z="constant.npy", name="hsic"), "--sigma2-z", "1"), "constant")
        self.warned(self.as_json(*self.measure_args(y="constant.npy", name="hscic"), *self.one), "constant")
        self.warned(self.as_json(*self.measure_args(x="constant.npy", name="gcm"), *self.one), "constant")
        self.refuse(2, ["constant.npy", "--sigma2-y"], *self.measure_args(y="constant.npy", name="kpc"))


class AllTest(CliTest):
    """`circe measure all`: the table of what the single commands say."""

    holdout = ["--holdout-y", "holdout_y.npy", "--holdout-z", "holdout_z.npy"]
    kernels = ["--sigma2-x", "2", "--sigma2-y", "0.5", "--sigma2-z", "1", "--ridge", "0.1", "--epsilon", "0.01"]

    def rows(self, result):
        return [(row["measure"], row["estimator"]) for row in result["measures"]]

    def agree(self, every, *options):
        for row in every["measures"]:
            with self.subTest(measure=row["measure"], estimator=row["estimator"]):
                form = ["--estimator", row["estimator"]] if row["estimator"] else []
                one = self.as_json(*self.measure_args(name=row["measure"]), *options, *form)
                self.assertEqual(one["n"], every["n"])
                self.assertAlmostEqual(row["value"] / one["value"], 1, places=12)

    def test_json_contract(self):
        result = self.as_json(*self.measure_args(name="all"), *self.holdout)
        self.assertEqual((result["measure"], result["n"], result["mean_of_z"]), ("all", 60, "holdout"))
        self.assertEqual(self.rows(result),
                         [("circe", "ustat"), ("circe-spectral", None), ("hsic", "biased"), ("hsic", "ustat"),
                          ("hscic", None), ("gcm", None), ("kci", None), ("nocco", None), ("kpc", None)])
        for row in result["measures"]:
            self.assertTrue(math.isfinite(row["value"]))
            self.assertGreaterEqual(row["seconds"], 0)
            self.assertNotIn("error", row)
        for key in ("kernel_x", "kernel_y", "kernel_z", "ridge", "epsilon", "dtype", "warnings", "seconds", "method"):
            self.assertIn(key, result)

    def test_equals_the_single_commands(self):
        self.agree(self.as_json(*self.measure_args(name="all"), *self.holdout, *self.kernels), *self.holdout,
                   *self.kernels)

    def test_equals_the_single_commands_held_out(self):
        options = [*self.holdout, *self.kernels, "--regress-z", "holdout", "--combine", "squares", "--dtype", "float32"]
        every = self.as_json(*self.measure_args(name="all"), *options)
        self.agree(every, *options)
        self.assertEqual(every["regress_z"], "holdout")

    def test_shares_the_models_kernels(self):
        """hscic, gcm and kci take width and ridge of the model, which the grid chose for circe."""
        self.succeed(*self.fit_args(out="shared.safetensors"))
        result = self.as_json(*self.measure_args(name="all"), "--model", "shared.safetensors")
        width = ["--sigma2-y", result["sigma2_y"]]
        used = [*width, "--sigma2-x", result["sigma2_x"], "--sigma2-z", result["sigma2_z"]]
        ridge = ["--ridge", result["ridge"]]
        for row in result["measures"]:
            if row["measure"] in ("hscic", "gcm", "kci", "nocco", "kpc"):
                one = self.as_json(*self.measure_args(name=row["measure"]), *used, *ridge)
                self.assertAlmostEqual(row["value"] / one["value"], 1, places=12)
        self.assertEqual(result["model"], "shared.safetensors")

    def test_held_out_gcm_shares_width_and_ridge(self):
        """Its mean of z itself is another fit, for which a grid would have chosen otherwise."""
        held = [*self.holdout, "--regress-z", "holdout"]
        grid = [*held, "--sigma2-y", "0.5", "--ridge", "0.01,0.1,1,10"]
        result = self.as_json(*self.measure_args(name="all"), *grid)
        self.assertNotEqual(self.as_json(*self.measure_args(name="gcm"), *grid)["ridge"], result["ridge"])
        one = self.as_json(*self.measure_args(name="gcm"), *held, "--sigma2-y", "0.5", "--ridge", result["ridge"])
        row = [row for row in result["measures"] if row["measure"] == "gcm"][0]
        self.assertAlmostEqual(row["value"] / one["value"], 1, places=12)

    def test_estimator_is_that_of_circe(self):
        result = self.as_json(*self.measure_args(name="all"), *self.holdout, "--estimator", "ustat")
        self.assertEqual(self.rows(result)[0], ("circe", "ustat"))
        one = self.as_json(*self.measure_args(), *self.holdout, "--estimator", "ustat")
        self.assertEqual(result["measures"][0]["value"], one["value"])

    def test_text(self):
        text = self.succeed(*self.measure_args(name="all"), "--seed", "2").stdout
        self.assertRegex(text, r"^ +measure +estimator +value +seconds +reading\n")
        for name in MEASURES:
            self.assertRegex(text, r"(?m)^  %s +(\w+ +)?-?\d\S* +\d\S+  \w" % name)
        for words in ("marginal: y is not used", "in [0, 1]", "N(0, 1)", "0 = independent given y",
                      "split into two halves by --seed 2", "rows measured       30", "0.001, a ridge of 0.03"):
            self.assertIn(words, text)
        quiet = self.succeed(*self.measure_args(name="all"), "--quiet").stdout
        self.assertEqual(len(quiet.splitlines()), 10)

    def test_refusals(self):
        self.refuse(2, ["--grad", "one measure"], *self.measure_args(name="all"), "--grad", "g.npy")
        self.refuse(2, ["rff"], *self.measure_args(name="all"), "--method", "rff")
        self.refuse(2, ["--ridge", "--model"], *self.measure_args(name="all"), "--model", "m", "--ridge", "1")
        self.assertFalse((self.path / "g.npy").exists())

    def failing(self, *arguments):
        """Status 1, a summary on stderr, the JSON nevertheless."""
        result = self.run_circe(*arguments, "--json")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("could not be computed", result.stderr)
        return json.loads(result.stdout)

    def test_what_fails_says_why_and_the_others_come(self):
        draw = random.Random(4)
        self.write("many.npy", npy_bytes([draw.random() for _ in range(3000)]))
        many = self.measure_args("many.npy", "many.npy", "many.npy", "all")
        options = [*self.holdout, *self.kernels, "--memory", "48M", "--rows", "all"]  # a matrix of all pairs has 72 MB
        result = self.failing(*many, *options)
        rows = {row["measure"]: row for row in result["measures"]}
        for name in ("circe", "hsic", "hscic", "kci"):
            self.assertIn("MB are available", rows[name]["error"])
            self.assertIsNone(rows[name]["value"])
        self.assertNotIn("error", rows["gcm"])
        self.assertTrue(math.isfinite(rows["gcm"]["value"]))
        text = self.run_circe(*many, *options).stdout
        self.assertRegex(text, r"(?m)^  kci +- +- +failed: \S")

    def test_gcm_without_a_linear_model_says_so(self):
        self.succeed(*self.fit_args(out="gaussian.safetensors"))
        result = self.failing(*self.measure_args(name="all"), "--model", "gaussian.safetensors", "--regress-z",
                              "holdout")
        failed = [row["measure"] for row in result["measures"] if "error" in row]
        self.assertEqual(failed, ["gcm"])
        self.succeed(*self.fit_args(out="linear.safetensors"), "--kernel-z", "linear")
        self.succeed(*self.measure_args(name="all"), "--model", "linear.safetensors", "--regress-z", "holdout")

    def test_cubic_cost_is_skipped_with_a_note(self):
        draw = random.Random(5)
        self.write("long.npy", npy_bytes([draw.random() for _ in range(4001)]))
        kernels = ["--kernel-x", "linear", "--kernel-y", "linear", "--kernel-z", "linear", "--ridge", "1"]
        result = self.as_json(*self.measure_args("long.npy", "long.npy", "long.npy", "all"), *self.holdout, *kernels)
        rows = {row["measure"]: row for row in result["measures"]}
        self.assertEqual((rows["circe-spectral"]["value"], rows["circe-spectral"]["skipped"]), (None, True))
        self.assertTrue(any("circe-spectral was skipped" in text for text in result["warnings"]))
        self.assertTrue(math.isfinite(rows["circe"]["value"]))


class GoldenTest(CliTest):
    @unittest.skipUnless(GOLDEN.is_dir(), "no golden cases beside the tests")
    def test_every_case(self):
        for case in sorted(p for p in GOLDEN.iterdir() if p.is_dir()):
            expected = json.loads((case / "expected.json").read_text())
            options = []
            for name, value in expected["params"].items():
                options += ["--" + name.replace("_", "-"), value]
            for name in ("x", "y", "z", "holdout_y", "holdout_z"):
                options += ["--" + name.replace("_", "-"), case / (name + ".npy")]
            for name in ("biased", "debiased", "centered", "ustat"):
                with self.subTest(case=case.name, estimator=name):
                    result = self.as_json("measure", "circe", *options, "--estimator", name, "--grad", "golden.npy")
                    self.assertAlmostEqual(result["value"] / expected["circe_" + name], 1, delta=1e-9)
                    self.check_grad(case, "circe_" + name)
            with self.subTest(case=case.name, measure="circe-spectral"):
                result = self.as_json("measure", "circe-spectral", *options)
                self.assertAlmostEqual(result["value"] / expected["circe_spectral"], 1, delta=1e-9)
            self.check_batch_measures(case, expected, options)
            with self.subTest(case=case.name, fit="loo"):
                self.check_loo(case, expected)

    def check_batch_measures(self, case, expected, options):
        """The others by themselves, and every one in the table of all. kpc and nocco have epsilon 1e-3, the default."""
        forms = [("hsic", "biased"), ("hsic", "ustat"), ("hscic", None), ("gcm", None), ("kci", None),
                 ("nocco", None), ("kpc", None)]
        for name, form in forms:
            key = name + ("_" + form.replace("ustat", "unbiased") if form else "")  # the word of the golden files
            with self.subTest(case=case.name, measure=key):
                chosen = ["--estimator", form] if form else []
                result = self.as_json("measure", name, *options, *chosen, "--grad", "golden.npy")
                self.assertAlmostEqual(result["value"] / expected[key], 1, delta=1e-9)
                if (case / ("grad_%s.npy" % key)).exists():
                    self.check_grad(case, key)
        with self.subTest(case=case.name, measure="all"):
            for row in self.as_json("measure", "all", *options)["measures"]:
                key = row["measure"].replace("-", "_") + ("_" + row["estimator"] if row["estimator"] else "")
                key = key.replace("hsic_ustat", "hsic_unbiased")
                self.assertAlmostEqual(row["value"] / expected[key], 1, delta=1e-9, msg=key)

    def check_grad(self, case, key):
        _, grad = read_npy(self.path / "golden.npy")
        _, right = read_npy(case / ("grad_%s.npy" % key))
        if any(map(math.isnan, right)):
            return  # automatic differentiation of |a - b| at a = b, in the reference of laplace_x
        scale = max(map(abs, right))
        self.assertLess(max(abs(a - b) for a, b in zip(grad, right)), 1e-9 * scale)

    def check_loo(self, case, expected):
        params, loo = expected["params"], expected["loo"]
        grids = ["--" + name.replace("_", "-") + "=" + ",".join(map(repr, loo[name])) for name in ("sigma2_y", "ridge")]
        result = self.as_json("fit", "--y", case / "holdout_y.npy", "--z", case / "holdout_z.npy", *grids,
                              "--kernel-y", params["kernel_y"], "--kernel-z", params["kernel_z"],
                              "--sigma2-z", params["sigma2_z"], "-o", "golden.safetensors")
        self.assertEqual({k: result["loo"]["best"][k] for k in ("sigma2_y", "ridge")}, loo["best"])
        for ours, theirs in zip(result["loo"]["error"], loo["error"]):
            for a, b in zip(ours, theirs):
                self.assertAlmostEqual(a / b, 1, delta=1e-9)


if __name__ == "__main__":
    unittest.main()
