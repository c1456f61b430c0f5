"""`circe experiment`: the real command on tiny experiments, whole, interrupted, killed, refused.

Only the Python standard library is needed. CIRCE_BINARY names the command to test."""

import contextlib
import csv
import html.parser
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

BINARY = os.environ.get("CIRCE_BINARY", str(pathlib.Path(__file__).resolve().parents[2] / "build" / "circe"))

TINY = """\
title: 'Tiny <b>&</b> "quoted"'
explanation: |
  What is asked, in <words>.

  A second paragraph.
models:
  - model: univariate1
  - model: multivariate1
    d: [2]
data: {train: 200, validation: 40, test: 60, holdout: 60}
training: {net: 2x8, epochs: 1, batch: 50, rate: 1e-3}
evaluation: {points: 30, draws: 5}
seeds: 2
methods:
  - {name: none, regularizer: none}
  - name: circe
    regularizer: circe
    gamma: [10, 1000]
paper:
  - {model: univariate1, method: circe, mse: 0.197, vcf: 8.77e-8}
quick:
  seeds: 1
  methods:
    - {name: circe, gamma: [10]}
"""

# Runs of a tenth of a second or more, to be killed on the way.
SLOW = TINY.replace("epochs: 1,", "epochs: 1500,").replace("    d: [2]\n", "    d: [2, 3]\n")

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Balanced(html.parser.HTMLParser):
    """Every element is closed, in order; collects what it meets."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.met, self.ids, self.attributes, self.text = [], set(), [], [], []

    def handle_starttag(self, tag, attributes):
        self.met.add(tag)
        self.attributes += attributes
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, "</%s> closes %s" % (tag, self.open[-1:])
        self.open.pop()

    def handle_data(self, data):
        self.text.append(data)


def without_time(value):
    """Results with all that a clock decides, or the name of the folder, left out."""
    if isinstance(value, dict):
        return {k: without_time(v) for k, v in value.items() if "seconds" not in k and k not in ("folder", "machine")}
    if isinstance(value, list):
        return [without_time(v) for v in value]
    return value


class ExperimentTest(unittest.TestCase):
    kept = {}  # what `finished` has run: a folder and the command's answer

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def write(self, text, name="tiny.yaml"):
        (self.path / name).write_text(text)
        return name

    def run_circe(self, *arguments, **options):
        return subprocess.run([BINARY, *map(str, arguments)], cwd=self.path, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, timeout=600, **options)

    def experiment(self, text, *arguments, out="out", status=0, **options):
        result = self.run_circe("experiment", "--config", self.write(text), "-o", out, *arguments, **options)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def finished(self, text, out="out"):
        """What the command leaves in a new folder and says, with its runs two at a time. It works once for all tests of a text,
        and each gets a copy."""
        if text not in self.kept:
            folder = tempfile.TemporaryDirectory()
            unittest.addModuleCleanup(folder.cleanup)
            own, self.path = self.path, pathlib.Path(folder.name)
            self.kept[text] = folder, self.experiment(text, "--jobs", 2)
            self.path = own
        folder, result = self.kept[text]
        self.write(text)
        shutil.copytree(folder.name + "/out", self.path / out)
        return result

    def results(self, out="out"):
        return json.loads((self.path / out / "results.json").read_text())

    def run_files(self, out="out"):
        return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in (self.path / out / "runs").glob("*.json")}

    def start(self, text, *arguments, out="out"):
        return subprocess.Popen([BINARY, "experiment", "--config", self.write(text), "-o", out, *map(str, arguments)],
                                cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for_runs(self, process, n, out="out"):
        for _ in range(2000):
            if len(list((self.path / out / "runs").glob("*.json"))) >= n:
                return
            self.assertIsNone(process.poll(), "it ended too early to be disturbed")
            time.sleep(0.01)
        self.fail("no run finished in time")

    @staticmethod
    def children(process):
        try:
            with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
                return [int(p) for p in file.read().split()]
        except OSError:
            return []

    def is_held(self, pid):
        """Stops a process; False if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        while self.is_alive(pid):
            with contextlib.suppress(OSError), open("/proc/%d/stat" % pid) as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "T":
                    return True
        return False

    @staticmethod
    def is_alive(pid):
        try:
            with open("/proc/%d/stat" % pid) as file:
                return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False

    def wait_until_gone(self, pids):
        for pid in pids:
            for _ in range(1000):
                if not self.is_alive(pid):
                    break
                time.sleep(0.01)
            else:
                self.fail("the child %d lives on" % pid)


class WholeTest(ExperimentTest):
    def test_end_to_end(self):
        result = self.finished(TINY)
        self.assertRegex(result.stdout, r"(?m)^univariate1 +circe +\d+ +\S+ \[\S+–\S+\]")
        self.assertRegex(result.stdout, r"(?m)^multivariate1, d = 2 +none ")
        out = self.path / "out"
        names = sorted(p.name for p in out.iterdir())
        self.assertEqual(names, ["figures", "report.html", "results.csv", "results.json", "runs"])
        self.assertIn("univariate1-none-seed2.json", self.run_files())
        self.assertIn("multivariate1-d2-circe-gamma10-seed1001.json", self.run_files())
        # (none: 2 seeds; circe: 2 gammas tuned, 2 seeds) x 2 models
        self.assertEqual(len(self.run_files()), 12)
        with open(out / "results.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 12)
        results = self.results()
        self.assertEqual({r["run"]: r["mse"] for r in results["runs"]}, {r["run"]: float(r["mse"]) for r in rows})
        for run in results["runs"]:
            for name in ("mse", "vcf", "vcf_support", "variance", "floor", "validation_mse", "validation_vcf"):
                self.assertGreater(run[name], 0)
            self.assertEqual(run["collapsed"], run["variance"] < 0.4 * (1 - run["floor"]))

    def test_summary_is_the_medians_and_ranges_of_the_runs(self):
        self.finished(TINY)
        self.experiment(TINY, "--seeds", 3)
        results = self.results()
        self.assertEqual(len(results["summary"]), 4)
        for row in results["summary"]:
            runs = [r for r in results["runs"] if r["role"] == "final" and
                    (r["model"], r["method"]) == (row["model"], row["method"])]
            values = sorted(r["vcf"] for r in runs)
            self.assertEqual(len(values), 3)
            self.assertEqual([row["vcf"][k] for k in ("min", "median", "max")], values)
            self.assertEqual(row["collapsed"], sum(r["collapsed"] for r in runs))

    def test_gamma_is_chosen_on_validation_data_by_other_seeds(self):
        self.finished(TINY)
        results = self.results()
        for model in ("univariate1", "multivariate1"):
            runs = [r for r in results["runs"] if (r["model"], r["method"]) == (model, "circe")]
            tuning = [r for r in runs if r["role"] == "tuning"]
            final = [r for r in runs if r["role"] == "final"]
            self.assertEqual({r["gamma"] for r in tuning}, {10, 1000})
            self.assertFalse({r["seed"] for r in tuning} & {r["seed"] for r in final})
            best = min(tuning, key=lambda r: max(r["validation_mse"], r["validation_floor"]) + r["validation_vcf"])
            self.assertEqual({r["gamma"] for r in final}, {best["gamma"]})

    def test_rate_and_decay_are_chosen_with_gamma(self):
        self.experiment(TINY.replace("gamma: [10, 1000]", "gamma: [10, 1000]\n    rate: [1e-4, 1e-2]\n    decay: [0, 1]")
                        .replace("seeds: 2\n", "seeds: 2\ntuning_seeds: 2\n"))
        results = self.results()
        for model in ("univariate1", "multivariate1"):
            runs = [r for r in results["runs"] if (r["model"], r["method"]) == (model, "circe")]
            scores = {}
            for r in (r for r in runs if r["role"] == "tuning"):
                floor = r["validation_floor"]
                score = floor + abs(r["validation_mse"] - floor) + r["validation_vcf"]
                scores.setdefault((r["gamma"], r["rate"], r["decay"]), []).append(score)
            self.assertEqual(len(scores), 8)
            self.assertEqual({len(s) for s in scores.values()}, {2})
            best = min(scores, key=lambda choice: sum(scores[choice]))
            final = {(r["gamma"], r["rate"], r["decay"]) for r in runs if r["role"] == "final"}
            self.assertEqual(final, {best})
            chosen = [r for r in results["tuning"] if r["model"] == model and r["chosen"]]
            self.assertEqual([(r["gamma"], r["rate"], r["decay"]) for r in chosen], [best])

    def test_no_seeds_is_nothing_but_a_choice(self):
        text = self.experiment(TINY.replace("seeds: 2\n", "seeds: 0\n")).stdout
        self.assertIn("Chosen on validation rows", text)
        results = self.results()
        self.assertEqual({r["role"] for r in results["runs"]}, {"tuning"})
        self.assertEqual(results["summary"], [])

    def test_json_is_the_file_and_nothing_else(self):
        self.finished(TINY)
        result = self.experiment(TINY, "--json")
        self.assertEqual(json.loads(result.stdout), self.results())

    def test_report_is_well_formed_and_asks_for_nothing(self):
        self.finished(TINY)
        text = (self.path / "out" / "report.html").read_text()
        page = Balanced()
        page.feed(text)
        page.close()
        self.assertEqual(page.open, [])
        self.assertFalse(page.met & {"link", "img", "iframe", "b"}, page.met)  # its script is its own, without src
        for name, value in page.attributes:
            self.assertNotIn(name, ("src", "onclick", "onload"))
            if name in ("href", "xlink:href"):
                self.assertTrue(value.startswith("#"), value)
        self.assertEqual(len(page.ids), len(set(page.ids)))
        shown = "".join(page.text)
        for words in ('Tiny <b>&</b> "quoted"', "What is asked, in <words>.", "A second paragraph.", "0.197", "floor",
                      "circe experiment tiny", "gamma: [10, 1000]", "Seeds", "1 to 2"):
            self.assertIn(words, shown)

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_figures_are_svg_with_script_and_data(self):
        self.finished(TINY)
        figures = self.path / "out" / "figures"
        for name in ("vcf", "vcf_support"):
            root = xml.etree.ElementTree.parse(figures / (name + ".svg")).getroot()
            self.assertTrue(root.tag.endswith("svg"))
            self.assertIn("multivariate1, d = 2", "".join(root.itertext()))
            self.assertTrue((figures / (name + ".dat")).exists())
            subprocess.run(["gnuplot", name + ".gp"], cwd=figures, check=True)
        self.assertIn("<svg", (self.path / "out" / "report.html").read_text())

    def test_without_gnuplot_the_report_says_so(self):
        self.finished(TINY)
        shutil.rmtree(self.path / "out" / "figures")
        result = self.experiment(TINY, env={**os.environ, "PATH": "/nonexistent"})
        self.assertIn("gnuplot", result.stderr)
        self.assertTrue((self.path / "out" / "figures" / "vcf.gp").exists())
        text = (self.path / "out" / "report.html").read_text()
        self.assertIn("gnuplot vcf.gp", text)
        self.assertNotIn("<svg", text)

    def test_pareto_runs_every_gamma_with_every_seed(self):
        self.experiment(TINY.replace("seeds: 2\n", "seeds: 2\npareto: true\n"))
        results = self.results()
        self.assertEqual({r["role"] for r in results["runs"]}, {"sweep"})
        self.assertEqual(len(results["runs"]), 2 * (2 + 2 * 2))
        rows = [r for r in results["summary"] if (r["model"], r["method"]) == ("univariate1", "circe")]
        self.assertEqual([r["gamma"] for r in rows], [10, 1000])
        self.assertEqual(sum(r["chosen"] for r in rows), 1)

    def test_quick_changes_what_it_says(self):
        self.experiment(TINY, "--quick")
        results = self.results()
        self.assertTrue(results["quick"])
        self.assertEqual({r["run"] for r in results["runs"]},
                         {"univariate1-circe-gamma10-seed1", "multivariate1-d2-circe-gamma10-seed1"})

    def test_as_many_jobs_as_one_likes_give_the_same(self):
        self.experiment(TINY, "--jobs", 1, out="one")
        self.finished(TINY, out="two")
        self.assertEqual(without_time(self.results("one")), without_time(self.results("two")))

    def test_default_folder(self):
        self.write(TINY)
        result = self.run_circe("experiment", "--config", "tiny.yaml", "--quick")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.path / "results" / "tiny-quick" / "report.html").exists())

    def test_progress_on_a_terminal_is_one_line(self):
        self.write(SLOW)
        terminal, end = pty.openpty()
        process = subprocess.Popen([BINARY, "experiment", "--config", "tiny.yaml", "-o", "out", "--quick"],
                                   cwd=self.path, stdout=subprocess.DEVNULL, stderr=end)
        os.close(end)
        text = b""
        while select.select([terminal], [], [], 60)[0]:
            try:
                data = os.read(terminal, 4096)
            except OSError:
                break
            if not data:
                break
            text += data
        os.close(terminal)
        self.assertEqual(process.wait(), 0)
        self.assertRegex(text.decode(), r"\r\x1b\[K\[[#.]+\] +\d+%  \d of 3 runs, \d running")
        self.assertTrue(text.endswith(b"\r\x1b[K"), text[-80:])


class LimitsTest(ExperimentTest):
    # floor, vcf of the best unregularised predictor, from 0.5 to 1 million samples, with the digits that are known
    TABLE = {("univariate1", 1): ("0.336", "1.007"), ("univariate2", 1): ("0.339", "1.018"),
             ("multivariate1", 2): (".142", ".44"), ("multivariate1", 5): (".062", ".35"),
             ("multivariate1", 10): (".036", ".32"), ("multivariate1", 20): (".024", ".31"),
             ("multivariate2", 2): (".175", ".62"), ("multivariate2", 5): (".038", ".38"),
             ("multivariate2", 10): (".0127", ".27"), ("multivariate2", 20): (".0046", ".19")}

    def test_limits_are_those_of_the_table(self):
        """To 3 %, and half a unit of the table's last digit."""
        result = self.run_circe("experiment", "limits", "--quick", "--json", "-o", "limits")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = json.loads(result.stdout)["summary"]
        self.assertEqual({(r["model"], r["d"]) for r in rows}, set(self.TABLE))
        for row in rows:
            floor, vcf = self.TABLE[row["model"], row["d"]]
            for name, text in (("floor", floor), ("vcf", vcf), ("vcf_support", floor)):
                expected, half = float(text), 0.5 * 10.0 ** -len(text.split(".")[1])
                self.assertLessEqual(abs(row[name]["median"] - expected), 0.03 * expected + half, (row, name))


class RestartTest(ExperimentTest):
    @classmethod
    def setUpClass(cls):
        """What SLOW gives when nothing disturbs it."""
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "tiny.yaml").write_text(SLOW)
            result = subprocess.run([BINARY, "experiment", "--config", "tiny.yaml", "-o", "out", "--json"], cwd=folder,
                                    capture_output=True, text=True, timeout=120)
            assert result.returncode == 0, result.stderr
            cls.whole = without_time(json.loads(result.stdout))

    def test_finished_runs_are_not_repeated(self):
        self.finished(TINY)
        before, results = self.run_files(), self.results()
        second = self.experiment(TINY)
        self.assertIn("12 of them finished before", second.stderr)
        self.assertEqual(self.run_files(), before)
        self.assertEqual(self.results(), results)

    def test_changed_settings_are(self):
        self.finished(TINY)
        before = self.run_files()
        self.experiment(TINY.replace("gamma: [10, 1000]", "gamma: [10, 1000]\n    sigma2_x: 0.2"))
        after = self.run_files()
        changed = {name for name in after if before.get(name) != after[name]}
        self.assertEqual(changed, {name for name in after if "circe" in name})

    def test_a_damaged_result_is_run_again(self):
        self.finished(TINY)
        results = self.results()
        victim = self.path / "out" / "runs" / "univariate1-none-seed1.json"
        victim.write_text(victim.read_text()[:100])
        second = self.experiment(TINY)
        self.assertIn("11 of them finished before", second.stderr)
        self.assertEqual(without_time(self.results()), without_time(results))

    def test_parent_killed(self):
        process = self.start(SLOW)
        self.wait_for_runs(process, 2)
        children = self.children(process)
        process.kill()
        process.communicate()
        self.wait_until_gone(children)
        before = self.run_files()
        self.assertGreaterEqual(len(before), 2)
        self.assertLess(len(before), 18)
        second = self.experiment(SLOW)
        self.assertRegex(second.stderr, r"[1-9]\d* of them finished before")
        after = self.run_files()
        for name in before:
            self.assertEqual(before[name], after[name])
        self.assertEqual(without_time(self.results()), self.whole)

    def test_child_killed(self):
        process = self.start(SLOW, "--jobs", 2)
        self.wait_for_runs(process, 1)
        before, child = self.children(process), None
        while child is None:  # one that has just begun, and cannot end before it is killed
            self.assertIsNone(process.poll())
            child = next((pid for pid in self.children(process)[-1:] if pid not in before and self.is_held(pid)), None)
        os.kill(child, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, err)
        self.assertRegex(err, r"the run \S+-seed\d+ failed: killed by signal 9 \(Killed\)")
        self.assertRegex(err, r"1 of 18 runs failed")
        self.assertEqual(self.results()["failed"], 1)
        self.assertIn("killed by signal 9", (self.path / "out" / "report.html").read_text())
        self.experiment(SLOW)
        self.assertEqual(without_time(self.results()), self.whole)

    def test_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            out = "out%d" % number
            process = self.start(SLOW, out=out)
            self.wait_for_runs(process, 1, out=out)
            children = self.children(process)
            process.send_signal(number)
            stdout, err = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 1, err)
            self.assertEqual(stdout, "")
            self.assertRegex(err, r"stopped: \d+ of 18 runs are finished and stay in %s/runs" % out)
            self.assertIn("hint: the same command continues from there: circe experiment tiny --config", err)
            self.assertNotIn("failed", err)
            self.wait_until_gone(children)
            self.assertGreaterEqual(len(self.run_files(out)), 1)
            self.assertFalse((self.path / out / "results.json").exists())

    def test_interrupted_within_long_runs(self):
        """Runs of many minutes end at once, long before they are killed (5 s) or would end by themselves."""
        process = self.start(TINY.replace("epochs: 1,", "epochs: 1000000,"))
        for _ in range(1000):
            if len(self.children(process)) == min(2, os.cpu_count()):
                break
            time.sleep(0.01)
        time.sleep(0.2)
        children, start = self.children(process), time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
        self.assertLess(time.monotonic() - start, 4)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn("stopped: 0 of 12 runs", err)
        self.wait_until_gone(children)

    def test_a_failing_run_does_not_stop_the_others(self):
        text = TINY + "# \n"
        text = text.replace("  - name: circe\n", "  - {name: wild, regularizer: circe, gamma: [1.0e+300]}\n  - name: circe\n")
        result = self.experiment(text, status=1)
        self.assertRegex(result.stderr, r"the run univariate1-wild-gamma1e\+300-seed1 failed: \S+")
        self.assertIn("4 of 16 runs failed", result.stderr)
        results = self.results()
        self.assertEqual(results["failed"], 4)
        self.assertEqual(sum("error" in r for r in results["runs"]), 4)
        self.assertIn("all failed", result.stdout)
        self.assertIn("univariate1-wild", (self.path / "out" / "report.html").read_text())


class RefusalTest(ExperimentTest):
    def refuse(self, text, *words, status=2, arguments=()):
        result = self.run_circe("experiment", "--config", self.write(text), "-o", "out", *arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertTrue(result.stderr.startswith("circe experiment: "), result.stderr)
        self.assertLessEqual(len(result.stderr.splitlines()), 3, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertFalse((self.path / "out").exists())

    def changed(self, before, after):
        """TINY with one piece replaced, and the line it is in."""
        self.assertEqual(TINY.count(before), 1)
        return TINY.replace(before, after), "tiny.yaml, line %d" % (TINY[:TINY.index(before)].count("\n") + 1)

    def test_unknown_keys(self):
        for before, after, hint in (
                ("gamma: [10, 1000]", "gama: [10, 1000]", "did you mean gamma?"),
                ("seeds: 2\n", "sedes: 2\n", "did you mean seeds?"),
                ("{net: 2x8,", "{nodes: 8,", "its keys are net, activation, init, dtype, precision, epochs"),
                ("{train: 200,", "{trian: 200,", "did you mean train?"),
                ("    - {name: circe, gamma: [10]}", "    - {name: circe, gamma: [10], x: 1}", "has no such key")):
            text, line = self.changed(before, after)
            self.refuse(text, line, hint, "key '")

    def test_wrong_types(self):
        for before, after, words in (
                ("epochs: 1,", "epochs: many,", ("key 'epochs'", "a whole number is expected", "'many'")),
                ("epochs: 1,", "epochs: 1.5,", ("a whole number is expected", "'1.5'")),
                ("epochs: 1,", "epochs: 1e3,", ("a whole number is expected", "'1e3'")),
                ("rate: 1e-3", "rate: .1x", ("key 'rate'", "a number is expected", "'.1x'")),
                ("rate: 1e-3", "rate: [1, 2]", ("a number is expected",)),
                ("rate: 1e-3", "rate: .nan", ("a number is expected",)),
                ("gamma: [10, 1000]", "gamma: {a: 1}", ("a list of numbers is expected",)),
                ("gamma: [10, 1000]", "gamma: []", ("the list is empty",)),
                ("gamma: [10, 1000]", "gamma: [10, ten]", ("'ten'",)),
                ("gamma: [10, 1000]", "gamma: [10, 10.0]", ("twice",)),
                ("seeds: 2\n", "seeds: 2\npareto: perhaps\n", ("true or false is expected",)),
                ("    gamma: [10, 1000]\n", "    gamma: [10, 1000]\n    rate: [1e-4, 1e-3]\npareto: true\n",
                 ("several rates", "nothing is chosen")),
                ("{net: 2x8,", "{net: 2by8,", ("net: ",)),
                ("    d: [2]", "    d: 2.5", ("a whole number is expected",))):
            text, line = self.changed(before, after)
            self.refuse(text, *words)
            if after.count("\n") < 2:
                self.refuse(text, line)

    def test_values_that_cannot_be(self):
        for before, after, words in (
                ("gamma: [10, 1000]", "gamma: [10, -1]", ("key 'gamma'", "at least 0, not -1")),
                ("- model: univariate1", "- model: univariate3", ("univariate1|univariate2", "did you mean univariate")),
                ("    regularizer: circe", "    regularizer: circa", ("none|circe|hscic|gcm|hsic", "did you mean circe?")),
                ("seeds: 2\n", "seeds: -1\n", ("key 'seeds'", "from 0 to 1000, not -1")),
                ("rate: 1e-3", "rate: 0", ("greater than 0",)),
                ("gamma: [10, 1000]", "gamma: [10, 1000]\n    sigma2_x: 1e300", ("key 'sigma2_x'", "at most 1e+30, not 1e+300")),
                ("    d: [2]", "    d: [1]", ("d must be from 2",))):
            text, line = self.changed(before, after)
            self.refuse(text, *words)
        text, _ = self.changed("    d: [2]\n", "")
        self.refuse(text, "line 8", "multivariate1 needs dimensions")
        text, _ = self.changed("  - model: univariate1\n", "  - model: univariate1\n    d: [2]\n")
        self.refuse(text, "line 7", "univariate1 has no d")
        text, line = self.changed("    gamma: [10, 1000]\n", "")
        self.refuse(text, "line 16", "needs the key 'gamma'")
        text, _ = self.changed("    gamma: [10, 1000]\n", "    gamma: [1]\n  - {name: circe, regularizer: gcm, gamma: [1]}\n")
        self.refuse(text, "two elements are called 'circe'")
        text, _ = self.changed("- name: circe\n", "- name: a/b\n")
        self.refuse(text, "file names")
        text, _ = self.changed("batch: 50", "batch: 500")
        self.refuse(text, "at least a batch")
        text, _ = self.changed("method: circe, mse", "method: circle, mse")
        self.refuse(text, "'circle'")

    def test_what_is_missing(self):
        text, _ = self.changed("""title: 'Tiny <b>&</b> "quoted"'\n""", "")
        self.refuse(text, "lacks the key 'title'")
        self.refuse("title: a\nmodels: [{model: univariate1}]\n", "tiny.yaml, line 1", "lacks the key 'methods'")
        self.refuse("title: a\nlimits: {samples: 2000}\n", "lacks the key 'models'")
        self.refuse("", "empty")
        self.refuse("- a\n", "line 1", "an experiment is expected")
        self.refuse("title: [a\n", "not YAML")
        self.refuse(TINY + "seeds: 3\n", "line 25", "key 'seeds'", "already occurs in line 13")

    def test_mistakes_in_quick_do_not_wait_for_it(self):
        text, line = self.changed("  seeds: 1\n", "  seeds: none\n")
        self.refuse(text, line, "key 'seeds'")

    def test_places_that_cannot_be_written(self):
        self.write(TINY)
        (self.path / "file").write_text("")
        for out in ("file", "file/below", "/proc/here"):
            result = self.run_circe("experiment", "--config", "tiny.yaml", "-o", out)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(out, result.stderr)
            self.assertEqual(result.stdout, "")

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_folder_without_permission(self):
        (self.path / "locked").mkdir(mode=0o500)
        self.write(TINY)
        result = self.run_circe("experiment", "--config", "tiny.yaml", "-o", "locked/out")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("locked/out", result.stderr)

    def test_runs_that_cannot_be_written(self):
        """The folder of runs goes away under the command: every run fails with its text."""
        (self.path / "out").mkdir()
        (self.path / "out" / "runs").symlink_to("/proc/self/fd")  # a folder in which no file can be made
        result = self.experiment(TINY, status=1)
        self.assertIn("cannot be written", result.stderr)

    def test_hidden_command_refuses_what_is_no_run(self):
        for text, words in (("", "not JSON"), ("{}", "'model'"),
                            ('{"model": "univariate1", "d": 1, "seed": 1}', "'kind'"),
                            ('{"model": "univariate1", "d": 1, "seed": 1, "kind": "synthetic"}', "'data'"),
                            ('{"model": "univariate1", "d": 7, "seed": 1, "kind": "limits", "gamma": 0, '
                             '"limits": {"samples": 2000}}', "d must be"),
                            ('{"model": "dsprites", "d": 1, "seed": 1, "kind": "limits", "gamma": 0, '
                             '"limits": {"samples": 2000}}', "'kind'")):
            result = subprocess.run([BINARY, "experiment-run", "-o", "x.json"], cwd=self.path, input=text, text=True,
                                    capture_output=True, timeout=60)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr)
            self.assertFalse((self.path / "x.json").exists())


class FindingTest(ExperimentTest):
    def test_lists_what_there_is(self):
        result = self.run_circe("experiment")
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in ("table1", "multivariate1", "multivariate2", "limits", "dsprites-nonlinear", "yaleb"):
            self.assertRegex(result.stdout, r"(?m)^%s +\S" % name)

    def test_options_need_a_name(self):
        for option in (["--quick"], ["--seeds", "2"], ["-o", "there"]):
            result = self.run_circe("experiment", *option)
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn("which experiment is --", result.stderr)

    def test_own_places_come_first(self):
        for folder in ("env", "experiments"):
            (self.path / folder).mkdir()
            for name in ("mine", "table1"):
                (self.path / folder / (name + ".yaml")).write_text(TINY.replace("Tiny", "Of " + folder))
        here = self.run_circe("experiment").stdout
        self.assertRegex(here, r"(?m)^mine +Of experiments")
        self.assertRegex(here, r"(?m)^table1 +Of experiments")
        self.assertRegex(here, r"(?m)^limits +Limits")
        there = self.run_circe("experiment", env={**os.environ, "CIRCE_EXPERIMENTS": "env"}).stdout
        self.assertRegex(there, r"(?m)^mine +Of env")

    def test_unknown_name(self):
        result = self.run_circe("experiment", "tabel1")
        self.assertEqual(result.returncode, 2)
        self.assertIn("there is no experiment 'tabel1'", result.stderr)
        self.assertIn("did you mean table1?", result.stderr)

    def test_missing_file(self):
        result = self.run_circe("experiment", "--config", "nowhere.yaml")
        self.assertEqual(result.returncode, 2)
        self.assertIn("nowhere.yaml: No such file", result.stderr)

    def test_files_of_the_project_can_be_read_with_quick(self):
        """Each is read whole, `quick` too, before anything is run."""
        for name in ("table1", "multivariate1", "multivariate2", "limits"):
            result = self.run_circe("experiment", name, "--quick", "-o", "/dev/null/no")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("/dev/null", result.stderr)


if __name__ == "__main__":
    unittest.main()
