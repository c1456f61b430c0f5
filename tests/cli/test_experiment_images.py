"""`circe experiment` on pictures: the real command on tiny tasks, whole, interrupted, refused.

Only the Python standard library is needed. CIRCE_BINARY names the command to test."""

import csv
import json
import os
import shutil
import signal
import struct
import subprocess
import time
import unittest
import xml.etree.ElementTree

from test_experiment import BINARY, Balanced, ExperimentTest, without_time

# Learns nothing, in a fraction of a second a run.
TINY = """\
title: 'Tiny <b>&</b> sprites'
models:
  - model: dsprites
    dependence: nonlinear
data: {train: 300, validation: 160, test: 80, holdout: 100}
training: {net: dsprites, steps: 7, batch: 32, rate: 1e-3, decay: 1e-4}
yardstick: {sigma2_x: 0.05, sigma2_z: 0.5, chunk: 16}
seeds: 2
sweep: true
methods:
  - {name: none, regularizer: none}
  - {name: ood, regularizer: none, trained_on: ood}
  - {name: gcm, regularizer: gcm, gamma: [0.1]}
  - {name: circe, regularizer: circe, sigma2_z: 0.5, gamma: [1, 10, 100]}
quick:
  seeds: 1
  methods:
    - {name: circe, gamma: [1]}
"""

# One run of some seconds, to be disturbed on its way.
SLOW = TINY.replace("steps: 7", "steps: 1600").replace("seeds: 2\n", "seeds: 1\n")
SLOW = SLOW[:SLOW.index("  - {name: none")] + """\
  - {name: gcm, regularizer: gcm, gamma: [0.1]}
"""

FACES = """\
title: Faces
models:
  - {model: yaleb, size: 16, identities: 9}
training: {net: 'conv4s2n,average,8', epochs: 1, batch: 32, rate: 1e-3}
yardstick: {sigma2_x: 0.05, sigma2_z: 0.005}
seeds: 1
sweep: true
methods:
  - {name: none, regularizer: none}
  - {name: ood, regularizer: none, trained_on: ood}
  - {name: circe, regularizer: circe, estimator: centered, sigma2_z: 0.005, gamma: [10]}
"""

class ImagesTest(ExperimentTest):
    def run_circe(self, *arguments, **options):
        options.setdefault("env", {k: v for k, v in os.environ.items() if k != "CIRCE_YALEB"})
        return super().run_circe(*arguments, **options)

    def checkpoints(self, out="out"):
        return list((self.path / out / "runs").glob("*.checkpoint.safetensors"))

    def wait_for(self, condition, process):
        for _ in range(3000):
            if condition():
                return
            self.assertIsNone(process.poll(), "it ended too early to be disturbed")
            time.sleep(0.01)
        self.fail("it did not happen in time")


class WholeTest(ImagesTest):
    NUMBERS = ("mse", "ood_mse", "validation_mse", "dependence", "dependence_error", "dependence_exchanged",
               "variance", "steps", "seconds", "regularizer_seconds")

    def test_end_to_end(self):
        result = self.finished(TINY)
        self.assertRegex(result.stdout, r"(?m)^dsprites, nonlinear +none +\S+ \[\S+–\S+\]")
        names = {p.name for p in (self.path / "out").iterdir()}
        self.assertEqual(names, {"figures", "report.html", "results.csv", "results.json", "runs"})
        self.assertIn("dsprites-nonlinear-circe-gamma100-seed2.json", self.run_files())
        self.assertEqual(len(self.run_files()), 2 * (1 + 1 + 1 + 3))
        self.assertEqual(self.checkpoints(), [])
        results = self.results()
        self.assertEqual({r["role"] for r in results["runs"]}, {"sweep"})
        with open(self.path / "out" / "results.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        for run, row in zip(results["runs"], rows):
            self.assertEqual(run["run"], row["run"])
            for name in self.NUMBERS:
                self.assertEqual(run[name], float(row[name]), name)
            self.assertEqual(run["steps"], 7)
            self.assertGreater(run["dependence_error"], 0)
            self.assertGreater(run["ood_mse"], 0)
            self.assertNotEqual(run["ood_mse"], run["mse"])
            self.assertNotEqual(run["dependence_exchanged"], run["dependence"])
        none, ood = ([r["mse"] for r in results["runs"] if r["method"] == name] for name in ("none", "ood"))
        self.assertFalse(set(none) & set(ood))

    def test_summary_is_the_medians_and_ranges_of_the_runs(self):
        self.finished(TINY)
        self.experiment(TINY, "--seeds", 3)
        results = self.results()
        for row in results["summary"]:
            runs = [r for r in results["runs"] if (r["method"], r["gamma"]) == (row["method"], row["gamma"])]
            for name in self.NUMBERS:
                values = sorted(r[name] for r in runs)
                self.assertEqual([row[name][k] for k in ("min", "median", "max")], values)

    def test_epochs_and_steps(self):
        """300 training pictures are 9 batches of 32."""
        self.experiment(TINY.replace("steps: 7", "epochs: 2"), "--quick")
        self.assertEqual({r["steps"] for r in self.results()["runs"]}, {18})
        self.experiment(TINY.replace("steps: 7", "epochs: 2, steps: 11"), "--quick")
        self.assertEqual({r["steps"] for r in self.results()["runs"]}, {11})

    def test_json_is_the_file_and_nothing_else(self):
        result = self.experiment(TINY, "--json", "--quick")
        self.assertEqual(json.loads(result.stdout), self.results())

    def test_report_is_well_formed_and_asks_for_nothing(self):
        self.finished(TINY)
        page = Balanced()
        page.feed((self.path / "out" / "report.html").read_text())
        page.close()
        self.assertEqual(page.open, [])
        self.assertFalse(page.met & {"link", "iframe", "b"}, page.met)  # its script is its own, without src
        for name, value in page.attributes:
            self.assertNotIn(name, ("onclick", "onload"))
            if name in ("href", "xlink:href", "src"):
                self.assertTrue(value.startswith(("#", "data:")), value)
        shown = "".join(page.text)
        for words in ("Tiny <b>&</b> sprites", "OOD test MSE", "could not be chosen", "All weights", "gamma: [1, 10, 100]"):
            self.assertIn(words, shown)

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_figure_has_a_panel_a_method(self):
        self.finished(TINY)
        figures = self.path / "out" / "figures"
        text = "".join(xml.etree.ElementTree.parse(figures / "loss.svg").getroot().itertext())
        for words in ("dsprites, nonlinear: circe", "dsprites, nonlinear: gcm", "in domain", "encoder trained OOD"):
            self.assertIn(words, text)
        self.assertNotIn("nonlinear: none", text)
        self.assertTrue((figures / "loss.dat").exists())
        subprocess.run(["gnuplot", "loss.gp"], cwd=figures, check=True)

    def test_as_many_jobs_as_one_likes_give_the_same(self):
        self.experiment(TINY, "--jobs", 1, out="one")
        self.finished(TINY, out="two")
        self.assertEqual(without_time(self.results("one")), without_time(self.results("two")))

    def test_dependences_differ(self):
        seen = set()
        for dependence in ("linear", "nonlinear", "ycone"):
            self.experiment(TINY.replace("nonlinear", dependence), "--quick", out=dependence)
            seen.add(self.results(dependence)["runs"][0]["mse"])
        self.assertEqual(len(seen), 3)

    def test_holdout_in_training(self):
        """300 pictures and the holdout's 100 are 12 batches of 32, 300 are 9."""
        both = TINY.replace("    dependence: nonlinear\n", "    dependence: nonlinear\n  - model: dsprites\n"
                            "    dependence: nonlinear\n    holdout_in_training: true\n").replace("steps: 7", "epochs: 1")
        self.experiment(both, "--quick")
        steps = {r["model"]: r["steps"] for r in self.results()["runs"]}
        self.assertEqual(steps, {"dsprites-nonlinear": 9, "dsprites-nonlinear-holdout": 12})

    def test_a_method_can_start_in_its_own_way(self):
        """init of a method is that of the training, unless it has its own."""
        def errors(out, training="", method=""):
            if not (self.path / out).exists():
                text = TINY.replace("steps: 7", "steps: 7" + training)
                text = text.replace("{name: none, regularizer: none", "{name: none, regularizer: none" + method)
                self.experiment(text.replace("gamma: [1, 10, 100]", "gamma: [100]"), "--seeds", 1, out=out)
            return {r["method"]: r["mse"] for r in self.results(out)["runs"] if r["seed"] == 1}

        self.finished(TINY, out="plain")
        plain, uniform = errors("plain"), errors("uniform", ", init: uniform")
        self.assertNotEqual(plain["none"], uniform["none"])
        own = errors("own", ", init: uniform", ", init: he")
        self.assertEqual(own["none"], plain["none"])
        self.assertEqual(own["circe"], uniform["circe"])

    def test_precision_of_the_regulariser(self):
        """The option in the place of what the file says; runs of another precision are other runs."""
        def errors(text, *options, out="out"):
            said = self.experiment(text, "--seeds", 1, *options, out=out)
            return {(r["method"], r["gamma"]): r["mse"] for r in self.results(out)["runs"]}, said.stderr

        self.finished(TINY)
        single, _ = errors(TINY)
        double, said = errors(TINY, "--dtype", "float64")
        self.assertIn("0 of them finished before", said)
        filed, _ = errors(TINY.replace("steps: 7", "steps: 7, dtype: float64"), out="filed")
        self.assertEqual(double, filed)
        changed = {key[0] for key in single if single[key] != double[key]}
        self.assertEqual(changed, {"circe"})

    def test_threads(self):
        self.experiment(TINY, "--quick", "--threads", 2)
        self.assertEqual(len(self.run_files()), 1)


class ChoiceTest(ImagesTest):
    """The rule, on results whose numbers are set by hand: finished runs are taken as they stand."""

    def choose(self, dependence, ood=None, seeds=1, useless=()):
        """circe's rows after its runs' dependence (in standard errors, a list a gamma) were set; the rest is kept. The
        gammas in `useless` predict worse than a constant."""
        text = TINY.replace("seeds: 2\n", "seeds: %d\n" % seeds)
        if not (self.path / "out").exists():
            self.finished(text)
        for gamma, values in dependence.items():
            for seed, value in enumerate(values, 1):
                path = self.path / "out" / "runs" / ("dsprites-nonlinear-circe-gamma%d-seed%d.json" % (gamma, seed))
                run = json.loads(path.read_text())
                run["result"].update(dependence=value * 1e-5, dependence_error=1e-5, validation_variance=0.09,
                                     validation_mse=0.1 if gamma in useless else 0.01)
                if ood is not None:
                    run["result"]["ood_mse"] = ood[gamma]
                path.write_text(json.dumps(run))
        result = self.experiment(text)
        self.assertIn("%d of them finished before" % (6 * seeds), result.stderr)
        rows = [r for r in self.results()["summary"] if r["method"] == "circe"]
        chosen, best = ([r["gamma"] for r in rows if r[mark]] for mark in ("chosen", "best_ood"))
        self.assertEqual((len(chosen), len(best)), (1, 1))
        return chosen[0], best[0], result.stdout

    def test_smallest_gamma_that_is_not_detected(self):
        self.assertEqual(self.choose({1: [9.0], 10: [1.9], 100: [-3.0]})[0], 10)
        self.assertEqual(self.choose({1: [1.99], 10: [1.0], 100: [0.0]})[0], 1)
        self.assertEqual(self.choose({1: [2.0], 10: [2.01], 100: [-9.0]})[0], 100)

    def test_fewest_standard_errors_where_all_are_detected(self):
        self.assertEqual(self.choose({1: [9.0], 10: [2.5], 100: [4.0]})[0], 10)

    def test_what_a_constant_beats_is_not_chosen(self):
        signals = {1: [9.0], 10: [1.0], 100: [0.5]}
        chosen, _, shown = self.choose(signals, useless={10})
        self.assertEqual(chosen, 100)
        chosen, _, shown = self.choose(signals, useless={10, 100})
        self.assertEqual(chosen, 1)
        chosen, _, shown = self.choose(signals, useless={1, 10, 100})
        self.assertRegex(shown, r"chosen, but a constant beats it: none of its gammas serves .* no better than a constant")

    def test_seeds_are_taken_together(self):
        none, hidden = [0.0, 0.0, 0.0], [3.0, -1.0, 1.3]
        self.assertEqual(self.choose({1: [1.9, 1.9, 1.9], 10: hidden, 100: none}, seeds=3)[0], 10)
        chosen, _, shown = self.choose({1: [1.1, 1.1, 1.1], 10: hidden, 100: none}, seeds=3)
        self.assertEqual(chosen, 1)
        self.assertIn("(1.9 s.e.)", shown)
        for seed, value in enumerate([0.0, 0.0, 3.0], 1):  # without a regulariser too: not the median's
            path = self.path / "out" / "runs" / ("dsprites-nonlinear-none-seed%d.json" % seed)
            run = json.loads(path.read_text())
            run["result"].update(dependence=value * 1e-5, dependence_error=1e-5, validation_variance=0.09,
                                 validation_mse=0.01)
            path.write_text(json.dumps(run))
        shown = self.choose({}, seeds=3)[2]
        self.assertRegex(shown, r"(?m)^dsprites, nonlinear +none .*\(1\.7 s\.e\.\)")

    def test_one_seed_that_a_constant_beats_is_enough(self):
        self.choose({1: [9.0, 9.0, 9.0], 10: [0.0, 0.0, 0.0], 100: [0.0, 0.0, 0.0]}, seeds=3)
        path = self.path / "out" / "runs" / "dsprites-nonlinear-circe-gamma10-seed2.json"
        run = json.loads(path.read_text())
        run["result"]["validation_mse"] = 0.1
        path.write_text(json.dumps(run))
        chosen, _, shown = self.choose({1: [9.0, 9.0, 9.0]}, ood={1: 0.3}, seeds=3)
        self.assertEqual(chosen, 100)
        self.assertNotIn("0000", shown)

    def test_nothing_out_of_domain_is_looked_at(self):
        signals = {1: [9.0], 10: [1.0], 100: [0.5]}
        chosen, best, shown = self.choose(signals, ood={1: 0.01, 10: 0.2, 100: 0.3})
        self.assertEqual((chosen, best), (10, 1))
        self.assertRegex(shown, r"(?m)^dsprites, nonlinear +circe +1 +best OOD, for comparison: not a choice  ")
        self.assertRegex(shown, r"(?m)^dsprites, nonlinear +circe +10 +chosen  ")
        chosen, best, shown = self.choose(signals, ood={1: 0.3, 10: 0.01, 100: 0.2})
        self.assertEqual((chosen, best), (10, 10))
        self.assertRegex(shown, r"(?m)^dsprites, nonlinear +circe +10 +chosen, and best OOD  ")

    def test_tuning_without_a_regulariser_goes_by_the_validation_error(self):
        text = TINY.replace("sweep: true\n", "").replace("seeds: 2\n", "seeds: 1\n")
        text = text[:text.index("  - {name: ood")].replace("regularizer: none}", "regularizer: none, rate: [1e-5, 3e-3]}")
        self.experiment(text)
        runs = self.results()["runs"]
        tuning = {r["rate"]: r["validation_mse"] for r in runs if r["role"] == "tuning"}
        final = [r["rate"] for r in runs if r["role"] == "final"]
        self.assertEqual(set(tuning), {1e-5, 3e-3})
        self.assertEqual(final, [min(tuning, key=tuning.get)])


class RestartTest(ImagesTest):
    @classmethod
    def setUpClass(cls):
        """What SLOW gives when nothing disturbs it."""
        test = cls("run_circe")
        test.setUp()
        test.experiment(SLOW)
        cls.whole = without_time(test.results())
        test.doCleanups()

    def steps_kept(self):
        """The first number among the counters of the checkpoint, a .safetensors."""
        path, = self.checkpoints()
        data = path.read_bytes()
        length, = struct.unpack("<Q", data[:8])
        start, _ = json.loads(data[8:8 + length])["counters"]["data_offsets"]
        return struct.unpack("<q", data[8 + length + start:][:8])[0]

    @staticmethod
    def worked(pid):
        """Seconds of a core that a process has had."""
        try:
            with open("/proc/%d/stat" % pid) as file:
                return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            return 0

    def interrupted(self, number):
        """A run that was stopped in its middle, by a signal to the command."""
        process = self.start(SLOW)
        self.wait_for(lambda: any(self.worked(child) > 1.2 for child in self.children(process)), process)
        children = self.children(process)
        process.send_signal(number)
        process.communicate(timeout=30)
        self.wait_until_gone(children)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(self.run_files(), {})

    def test_goes_on_from_a_checkpoint(self):
        """From that of a run that was asked to end, then from that of one that was killed after as much work again."""
        self.interrupted(signal.SIGTERM)
        first = self.steps_kept()
        self.interrupted(signal.SIGKILL)
        self.assertGreater(self.steps_kept(), 1.3 * first)
        self.experiment(SLOW)
        self.assertEqual(self.checkpoints(), [])
        self.assertEqual(without_time(self.results()), self.whole)

    def test_a_checkpoint_that_is_of_no_use_is_thrown_away(self):
        self.interrupted(signal.SIGTERM)
        path = self.checkpoints()[0]
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        self.experiment(SLOW)
        self.assertEqual(self.checkpoints(), [])
        self.assertEqual(without_time(self.results()), self.whole)

    def test_a_checkpoint_of_other_settings_as_well(self):
        self.interrupted(signal.SIGTERM)
        self.experiment(SLOW.replace("rate: 1e-3", "rate: 2e-3").replace("steps: 1600", "steps: 50"))
        self.assertEqual(self.checkpoints(), [])
        self.assertEqual(self.results()["runs"][0]["steps"], 50)

    def test_finished_runs_are_not_repeated(self):
        self.finished(TINY)
        before, results = self.run_files(), self.results()
        self.assertIn("12 of them finished before", self.experiment(TINY).stderr)
        self.assertEqual((self.run_files(), self.results()), (before, results))
        self.experiment(TINY.replace("sigma2_x: 0.05", "sigma2_x: 0.1"))  # of the yardstick
        self.assertTrue(all(before[name] != after for name, after in self.run_files().items()))


class FacesTest(ImagesTest):
    def pictures(self, out="out"):
        return {p.name: p.stat().st_mtime_ns for p in (self.path / out / "data").iterdir()}

    def test_rendered_once_for_all_runs(self):
        result = self.finished(FACES)
        self.assertIn("rendering heads, once for all runs", result.stderr)
        self.assertEqual(len(self.run_files()), 3)
        kept = self.pictures()
        self.assertEqual(len(kept), 1)
        second = self.experiment(FACES.replace("rate: 1e-3", "rate: 2e-3"))
        self.assertNotIn("rendering", second.stderr)
        self.assertEqual(self.pictures(), kept)

    def test_a_damaged_file_of_pictures_is_made_again(self):
        self.finished(FACES)
        results = without_time(self.results())
        path, = (self.path / "out" / "data").iterdir()
        path.write_bytes(path.read_bytes()[:1000])
        shutil.rmtree(self.path / "out" / "runs")
        self.assertIn("rendering", self.experiment(FACES).stderr)
        self.assertEqual(without_time(self.results()), results)

    def test_a_folder_of_pictures(self):
        made = self.run_circe("data", "faces", "-o", "photos", "--identities", 9, "--size", 16)
        self.assertEqual(made.returncode, 0, made.stderr)
        text = FACES.replace("identities: 9", "folder: photos")
        self.assertIn("reading the photographs", self.experiment(text).stderr)
        results = without_time(self.results())
        self.assertIn("3 of them finished before", self.experiment(text).stderr)
        env = {**os.environ, "CIRCE_YALEB": str(self.path / "photos")}
        self.experiment(FACES.replace(", identities: 9", ""), out="named", env=env)
        named = without_time(self.results("named"))
        self.assertEqual([r["mse"] for r in named["runs"]], [r["mse"] for r in results["runs"]])
        next((self.path / "photos").rglob("*.pgm")).unlink()  # other pictures are another task
        again = self.experiment(text)
        self.assertIn("0 of them finished before", again.stderr)


class RefusalTest(ImagesTest):
    def refuse(self, text, *words, env=None):
        options = {"env": env} if env is not None else {}
        result = self.run_circe("experiment", "--config", self.write(text), "-o", "out", **options)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertTrue(result.stderr.startswith("circe experiment: "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        return result

    def changed(self, before, after, text=TINY):
        self.assertEqual(text.count(before), 1)
        return text.replace(before, after)

    def test_models(self):
        dependence = "    dependence: nonlinear\n"
        for after, words in (
                ("    dependence: nonlinaer\n", ("line 4", "linear|nonlinear|ycone", "did you mean nonlinear?")),
                ("", ("line 3", "dsprites needs the key 'dependence'")),
                (dependence + "    folder: photos\n", ("dsprites has no folder; only yaleb has",)),
                (dependence + "    size: 64\n", ("dsprites has no size",)),
                (dependence + "    d: [2]\n", ("dsprites has no d",)),
                (dependence + "  - {model: univariate1}\n", ("cannot be in one experiment",)),
                (dependence + "  - {model: dsprites, dependence: nonlinear}\n", ("dsprites-nonlinear is named twice",)),
                (dependence + "  - {model: univariate1, dependence: linear}\n", ("univariate1 has no dependence",))):
            self.refuse(self.changed(dependence, after), *words)
        for before, after, words in (
                ("size: 16", "size: 4", ("key 'size'", "from 16 to 1024")),
                ("identities: 9", "identities: 2", ("from 3 to 28",)),
                ("identities: 9", "identities: 9, folder: photos", ("none are",)),
                ("identities: 9", "holdout_in_training: true", ("yaleb has no holdout_in_training",))):
            self.refuse(self.changed(before, after, FACES), *words)

    def test_rows_and_methods(self):
        for before, after, words in (
                ("train: 300", "train: 600000", ("600000 rows, but dsprites has 583926",)),
                ("train: 300", "train: 5", ("5 rows are too few",)),
                ("train: 300", "train: 20", ("at least a batch (32)",)),
                ("net: dsprites", "net: conf4", ("net: ",)),
                ("steps: 7", "steps: -1", ("key 'steps'",)),
                ("regularizer: gcm,", "regularizer: gcm, trained_on: ood,", ("its regularizer must be none",)),
                ("trained_on: ood}", "trained_on: odd}", ("domain|ood", "did you mean ood?")),
                ("chunk: 16", "chunk: 2", ("key 'chunk'",))):
            self.refuse(self.changed(before, after), *words)
        self.refuse("title: a\nmodels: [{model: univariate1}]\nmethods:\n"
                    "  - {name: ood, regularizer: none, trained_on: ood}\n", "only models of pictures")
        self.refuse("title: a\nmodels: [{model: dsprites, dependence: linear}]\nlimits: {samples: 2000}\n",
                    "only for synthetic models")

    def test_pictures_that_are_not_there(self):
        folder = FACES.replace("identities: 9", "folder: photos")
        self.refuse(folder, "photos")
        (self.path / "photos").mkdir()
        self.refuse(folder, "photos")
        self.refuse(FACES.replace(", identities: 9", ""), "nowhere", env={**os.environ, "CIRCE_YALEB": "nowhere"})
        self.assertFalse(list((self.path / "out" / "runs").iterdir()))

    def test_a_wrong_file_of_sprites(self):
        text = TINY.replace("    dependence: nonlinear\n", "    dependence: nonlinear\n    file: sprites.npz\n")
        self.refuse(text, "sprites.npz", "No such file")
        (self.path / "sprites.npz").write_text("these are no sprites\n")
        self.refuse(text, "sprites.npz")
        self.assertFalse(list((self.path / "out" / "data").iterdir()))

    def test_too_few_pictures_are_told_by_every_run(self):
        result = self.experiment(TINY.replace("holdout: 100", "holdout: 20"), "--quick", status=1)
        self.assertIn("there are 20 holdout pictures; at least 64 are needed", result.stderr)


class FilesTest(ImagesTest):
    def test_files_of_the_project_can_be_read_with_quick(self):
        for name in ("dsprites-linear", "dsprites-nonlinear", "dsprites-ycone", "dsprites-holdout", "yaleb"):
            for quick in ((), ("--quick",)):
                result = self.run_circe("experiment", name, *quick, "-o", "/dev/null/no")
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("/dev/null", result.stderr)


if __name__ == "__main__":
    unittest.main()
