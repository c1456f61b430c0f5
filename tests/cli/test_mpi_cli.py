"""The command under mpirun: sweeps and fits by 2 and 4 ranks against one process, ranks that see other things, ranks that
are killed or asked to end."""

import json
import os
import signal
import subprocess
import time
import unittest

import mpi_support
from mpi_support import MPIRUN, children_of, command_of, state_of

TINY = """\
title: tiny
models:
  - model: univariate1
  - {model: multivariate1, d: [2]}
data: {train: 200, validation: 40, test: 60, holdout: 60}
training: {net: 2x8, epochs: 1, batch: 50, rate: 1e-3}
evaluation: {points: 30, draws: 5}
seeds: 2
tuning_seeds: 1
methods:
  - {name: none, regularizer: none}
  - {name: circe, regularizer: circe, gamma: [10, 1000]}
"""

# Runs of some tenths of a second, to be ended on the way.
SLOW = TINY.replace("epochs: 1,", "epochs: %d," % (600 if os.environ.get("CIRCE_SANITIZED") else 2000))


class Case(mpi_support.Case):
    def results(self, folder):
        """All that a sweep leaves for programs, without times."""
        def strip(value):
            if isinstance(value, dict):
                return {k: strip(v) for k, v in value.items() if "seconds" not in k and k not in ("folder", "machine")}
            return [strip(v) for v in value] if isinstance(value, list) else value
        runs = {path.name: strip(json.loads(path.read_text())) for path in (self.folder / folder / "runs").glob("*.json")}
        return strip(json.loads((self.folder / folder / "results.json").read_text())), runs

    def nothing_but_results(self, folder, killed=False):
        """The lock of a killed job stays as a file, which nobody holds; the next job removes it."""
        names = {path.name for path in (self.folder / folder / "runs").iterdir()}
        self.assertTrue(all(name.endswith((".json", ".checkpoint.safetensors")) for name in names), names)
        hidden = {path.name for path in (self.folder / folder).iterdir() if path.name.startswith(".")}
        self.assertEqual(hidden - ({".results.json.lock"} if killed else set()), set())


@unittest.skipUnless(MPIRUN, "built without MPI (scripts/setup.sh mpi)")
class Sweeps(Case):
    def experiment(self, ranks, config, folder, *more, expect=0):
        return self.run_it(ranks, "experiment", "--config", config, "-o", folder, *more, expect=expect)

    def test_any_number_of_ranks_gives_the_same(self):
        config = self.write("tiny.yaml", TINY)
        self.experiment(0, config, "one", "--jobs", "2")
        for ranks in (2, 4):
            out, err = self.experiment(ranks, config, "by%d" % ranks, "--jobs", "1")
            self.assertEqual(self.results("by%d" % ranks), self.results("one"))
            self.nothing_but_results("by%d" % ranks)
            self.assertEqual(out.count("report.html has everything"), 1)
            self.assertEqual(len(self.said(err)), 1, err)
            self.assertIn("%d side by side" % ranks, err)
            self.assertTrue((self.folder / ("by%d" % ranks) / "report.html").exists())

    def test_finished_runs_are_kept(self):
        config = self.write("tiny.yaml", TINY)
        self.experiment(2, config, "out")
        times = {path: path.stat().st_mtime_ns for path in (self.folder / "out" / "runs").glob("*.json")}
        _, err = self.experiment(4, config, "out")
        self.assertIn("%d runs, %d of them finished before" % (len(times), len(times)), err)
        self.assertEqual(times, {path: path.stat().st_mtime_ns for path in times})

    def test_a_run_that_fails_elsewhere_is_told_of(self):
        config = self.write("tiny.yaml", TINY.replace("gamma: [10, 1000]", "gamma: [1e300]"))
        _, err = self.experiment(2, config, "out", "--jobs", "1", expect=1)
        self.assertEqual(err.count("failed: the"), 4, err)
        self.assertEqual(err.count("4 of 8 runs failed"), 1, err)

    def test_wrong_configurations_get_one_message(self):
        config = self.write("bad.yaml", TINY + "nonsense: 1\n")
        _, err = self.experiment(4, config, "out", expect=2)
        self.assertEqual(len(self.said(err)), 1, err)
        self.assertIn("nonsense", err)
        _, err = self.run_it(3, "experiment", "tabel1", expect=2)
        self.assertEqual(len(self.said(err)), 1, err)

    def test_a_folder_that_one_rank_does_not_share(self):
        config = self.write("tiny.yaml", TINY)
        for name in ("here", "elsewhere"):
            (self.folder / name).mkdir()
        (self.folder / "elsewhere" / "out" / "runs").mkdir(parents=True)
        _, err = self.run_it(2, "experiment", "--config", config, "-o", "out", expect=1, contexts=["here", "elsewhere"])
        said = self.said(err)
        self.assertEqual(len(said), 1, err)
        self.assertRegex(said[0], "rank 1 on .*: out is not the folder that rank 0 sees")
        self.assertFalse(list((self.folder / "here" / "out").glob(".*")))
        self.assertFalse(list((self.folder / "elsewhere" / "out" / "runs").iterdir()))

    def test_a_folder_that_one_rank_cannot_write(self):
        config = self.write("tiny.yaml", TINY)
        for name in ("here", "elsewhere"):
            (self.folder / name).mkdir()
        (self.folder / "elsewhere" / "out").mkdir()
        (self.folder / "elsewhere" / "out" / "runs").symlink_to("/proc/self")  # even root makes no files there
        _, err = self.run_it(2, "experiment", "--config", config, "-o", "out", expect=1, contexts=["here", "elsewhere"])
        self.assertEqual(len(self.said(err)), 1, err)
        self.assertRegex(self.said(err)[0], "rank 1 on .*: cannot write in out/runs")
        self.assertFalse(list((self.folder / "here" / "out" / "runs").iterdir()))

    def ranks_of(self, process):
        """Processes of the command that mpirun started, once their runs have begun."""
        deadline = time.time() + 60
        while time.time() < deadline:
            below = children_of(process.pid)
            runs = [pid for pid in below if b"experiment-run" in command_of(pid)]
            ranks = [pid for pid in below if b"experiment" in command_of(pid)]
            if len(ranks) == 2 and len(runs) == 2:
                return sorted(ranks), runs
            time.sleep(0.05)
        self.fail("the ranks did not begin")

    def wait_until_gone(self, pids):
        deadline = time.time() + 30
        while time.time() < deadline and any(b"experiment-run" in command_of(pid) for pid in pids):
            time.sleep(0.05)
        self.assertFalse([pid for pid in pids if b"experiment-run" in command_of(pid)])

    def hold_a_run(self, process):
        """Stops one run, so that the sweep can't come to its end however fast the machine is."""
        for _ in range(200):
            held = self.ranks_of(process)[1][0]
            try:
                os.kill(held, signal.SIGSTOP)
            except ProcessLookupError:
                continue
            deadline = time.time() + 5
            while time.time() < deadline and state_of(held) not in "TZ":
                time.sleep(0.01)
            if state_of(held) == "T":
                return held
        self.fail("every run was over before it could be stopped")

    def end_and_go_on(self, name, end):
        config = self.write("slow.yaml", SLOW)
        process = self.start(2, "experiment", "--config", config, "-o", name, "--jobs", "1")
        held = self.hold_a_run(process)
        deadline = time.time() + 60
        while not list((self.folder / name / "runs").glob("*.json")) and time.time() < deadline:
            time.sleep(0.02)
        ranks, runs = self.ranks_of(process)
        end(process, ranks)
        try:
            process.wait(timeout=3)  # mpirun passes a signal on after one second, and kills after two
        except subprocess.TimeoutExpired:
            os.kill(held, signal.SIGCONT)
        _, err = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.wait_until_gone(runs)
        self.nothing_but_results(name, killed=True)
        kept = {path: path.stat().st_mtime_ns for path in (self.folder / name / "runs").glob("*.json")}
        for path in kept:
            json.loads(path.read_text())
        self.assertFalse((self.folder / name / "results.json").exists())
        self.assertGreaterEqual(len(kept), 1)
        self.assertLess(len(kept), 12)  # of all: at least the held one is missing
        _, again = self.experiment(2, config, name, "--jobs", "1")
        self.assertIn("%d of them finished before" % len(kept), again)
        self.assertEqual(kept, {path: path.stat().st_mtime_ns for path in kept})
        self.nothing_but_results(name)
        return err, name

    def test_a_killed_rank_ends_the_job_and_the_next_one_goes_on(self):
        self.end_and_go_on("killed", lambda process, ranks: os.kill(ranks[-1], signal.SIGKILL))
        config = self.write("slow.yaml", SLOW)
        self.experiment(0, config, "one", "--jobs", "2")
        self.assertEqual(self.results("killed"), self.results("one"))

    def test_sigterm_to_one_rank_stops_all_with_one_message(self):
        err, _ = self.end_and_go_on("terminated", lambda process, ranks: os.kill(ranks[-1], signal.SIGTERM))
        self.assertEqual(err.count("runs are finished and stay in"), 1, err)
        self.assertIn("the same command continues from there", err)

    def end_endless_runs(self, end):
        config = self.write("endless.yaml", TINY.replace("epochs: 1,", "epochs: 1000000,"))
        process = self.start(2, "experiment", "--config", config, "-o", "out", "--jobs", "1")
        ranks, runs = self.ranks_of(process)
        end(process, ranks)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, err)
        self.assertEqual(err.count("stopped: 0 of 12 runs are finished"), 1, err)
        self.wait_until_gone(runs)

    def test_sigterm_to_the_first_rank_stops_runs_of_others(self):
        self.end_endless_runs(lambda process, ranks: os.kill(ranks[0], signal.SIGTERM))  # the first to be started

    def test_sigterm_to_mpirun_stops_all(self):
        self.end_endless_runs(lambda process, ranks: process.send_signal(signal.SIGTERM))
        self.end_and_go_on("ended", lambda process, ranks: process.send_signal(signal.SIGTERM))


@unittest.skipUnless(MPIRUN, "built without MPI (scripts/setup.sh mpi)")
class Fits(Case):
    def fit(self, ranks, *more, **how):
        return self.run_it(ranks, "fit", "--y", "y.npy", "--z", "z.npy", "-o", "m%d.safetensors" % ranks, *more, **how)

    def test_ranks_fit_as_one_process_does(self):
        """To 1e-8; tests/mpi/test_mpi.c compares the models, this what the command makes of them."""
        self.data()
        for method in ("dense", "lowrank"):
            one = json.loads(self.fit(0, "--method", method, "--json")[0])
            for ranks in (2, 4):
                out, err = self.fit(ranks, "--method", method, "--json", "--threads", "1")
                several = json.loads(out)  # one object: one rank speaks
                self.assertEqual(self.said(err), [])
                self.assertEqual(several["solver"], method)
                for a, b in zip(sum(several["loo"]["error"], []), sum(one["loo"]["error"], [])):
                    self.assertAlmostEqual(a / b, 1, delta=1e-8)
                self.assertEqual(several["ridge"], one["ridge"])
        out, _ = self.run_it(0, "measure", "circe", "--x", "y.npy", "--y", "y.npy", "--z", "z.npy", "--model",
                             "m4.safetensors", "--json")
        self.assertGreater(len(out), 0)

    def test_other_data_at_one_rank(self):
        self.data(folder="a")
        self.data(folder="b")
        with open(self.folder / "b" / "z.npy", "r+b") as out:
            out.seek(-1, 2)
            out.write(b"\x41")
        _, err = self.fit(2, expect=2, contexts=["a", "b"])
        self.assertEqual(len(self.said(err)), 1, err)
        self.assertRegex(self.said(err)[0], r"rank 1 on .*: z \(z.npy\) differs from that of rank 0")
        self.assertFalse(list(self.folder.glob("*/m*")))

    def test_no_data_at_one_rank(self):
        self.data(folder="a")
        (self.folder / "b").mkdir()
        _, err = self.fit(2, expect=2, contexts=["a", "b"])
        self.assertEqual(len(self.said(err)), 1, err)
        self.assertRegex(self.said(err)[0], "rank 1 on .*: y.npy: No such file")
        self.assertFalse(list(self.folder.glob("*/m*")))

    def test_more_ranks_than_rows(self):
        self.data(rows=3)
        _, err = self.fit(4, expect=2)
        self.assertEqual(self.said(err), ["circe fit: 3 rows cannot be divided among 4 ranks; start at most 3"])

    def test_wrong_options_get_one_message(self):
        self.data()
        for arguments in (["--no-such"], ["--method", "denes"], ["--ridge", "-1"]):
            _, err = self.fit(3, *arguments, expect=2)
            self.assertEqual(len(self.said(err)), 1, err)

    def test_a_model_that_cannot_be_written(self):
        self.data()
        _, err = self.run_it(2, "fit", "--y", "y.npy", "--z", "z.npy", "-o", "nowhere/m.safetensors", expect=1)
        self.assertEqual(len(self.said(err)), 1, err)
        self.assertIn("nowhere", err)

    def test_another_launcher(self):
        """mpiexec of another MPI starts two that do not find each other; srun starts some without MPI."""
        self.data()
        self.environment.update(PMI_SIZE="2", PMI_RANK="0")
        _, err = self.fit(0, expect=2)
        self.assertIn("mpiexec started 2 processes, but", err)
        del self.environment["PMI_SIZE"]
        self.environment.update(SLURM_STEP_NUM_TASKS="2", SLURM_PROCID="0")
        _, err = self.fit(0, expect=2)
        self.assertIn("use srun --mpi=pmix", err)
        self.environment.update(SLURM_PROCID="1")
        _, err = self.fit(0, expect=2)
        self.assertEqual(self.said(err), [])
        self.environment.update(CIRCE_CLUSTER="off")
        self.fit(0)


if __name__ == "__main__":
    unittest.main()
