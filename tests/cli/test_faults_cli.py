"""What the command does when the world is against it: signals, killed parents, what killed processes leave behind, two
runs on one output, full disks, little memory, damaged models, and names that speak to the terminal.

Only the Python standard library is needed. CIRCE_BINARY names the command to test."""

import json
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import time
import unittest
import zipfile

from cli_support import BINARY, CliTest, npy_bytes

SMALL = ["--net", "2x8", "--batch", "32", "--quiet", "--no-report"]


def table(n, seed=1, names="y,z,x"):
    draw = random.Random(seed)
    lines = [names]
    for _ in range(n):
        y = draw.gauss(0, 1)
        z = y * y + 0.5 * draw.gauss(0, 1)
        lines.append("%.6f,%.6f,%.6f" % (y, z, y + z + draw.gauss(0, 1)))
    return "\n".join(lines) + "\n"


def dead_pid():
    """The number of a process that was, and is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class FaultTest(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("table.csv", table(300))

    def train_args(self, out, *options, data="table.csv"):
        return ["train", "--data", data, "--features", "y,z", "--target", "x", "--given", "y", "--invariant-to", "z",
                "--regularizer", "gcm", "--gamma", "1", "-o", out, *SMALL, *options]

    def start(self, *arguments, **options):
        process = subprocess.Popen([BINARY, *map(str, arguments)], cwd=self.path, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()

    def wait_for(self, what, process=None, seconds=60):
        end = time.monotonic() + seconds
        while not what():
            if process is not None and process.poll() is not None:
                self.fail("it ended: " + process.communicate()[1])
            if time.monotonic() > end:
                self.fail("nothing came of it in %d s" % seconds)
            time.sleep(0.005)


class SignalTest(FaultTest):
    LONG = ["--epochs", "100000", "--checkpoint-epochs", "5"]

    def test_hangup_writes_a_checkpoint(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, by children too
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        checkpoint = self.path / "hup.safetensors.checkpoint"
        process = self.start(*self.train_args("hup.safetensors", "--epochs", "100000", "--checkpoint-minutes", "0"))
        time.sleep(1.0)
        process.send_signal(signal.SIGHUP)
        errors = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 1, errors)
        for word in ("interrupted after step", "--resume"):
            self.assertIn(word, errors)
        self.assertTrue(checkpoint.exists())

    def test_nohup_is_obeyed(self):
        def ignore():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

        process = self.start(*self.train_args("nohup.safetensors", *self.LONG), preexec_fn=ignore)
        self.wait_for((self.path / "nohup.safetensors.checkpoint").exists, process)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        self.assertIsNone(process.poll())
        process.terminate()
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)


# A fit of many seconds, in which nothing is told of progress.
FITTING = """\
title: fitting
models: [{model: multivariate1, d: [5]}]
data: {train: 100, validation: 40, test: 60, holdout: 3500}
training: {net: 2x8, epochs: 1, batch: 50, rate: 1e-3}
evaluation: {points: 30, draws: 5}
seeds: 1
methods: [{name: circe, regularizer: circe, gamma: [10]}]
"""


class ChildrenTest(FaultTest):
    def test_killed_experiment_takes_its_children_along(self):
        self.write("fitting.yaml", FITTING)
        process = self.start("experiment", "--config", "fitting.yaml", "-o", "killed", "--jobs", 2)

        def children():
            with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
                return [int(pid) for pid in file.read().split()]

        self.wait_for(lambda: len(children()) >= 1, process)
        time.sleep(0.5)
        started = children()
        process.kill()
        process.communicate()
        end = time.monotonic() + 7  # 5 are granted to it
        while any(map(is_alive, started)) and time.monotonic() < end:
            time.sleep(0.05)
        left = [pid for pid in started if is_alive(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, [])
        self.assertEqual(list((self.path / "killed" / "runs").glob("*.json")), [])


class LeftoverTest(FaultTest):
    def test_what_a_killed_process_was_writing(self):
        folder = self.path / "left"
        folder.mkdir()
        dead, here = dead_pid(), os.getpid()
        gone = [".circe-%d-65a1b2c3-0.tmp" % dead, ".circe-%d-1f-99.tmp" % dead]
        stay = [".circe-%d-65a1b2c3-0.tmp" % here, ".circe-%d.tmp" % dead, "circe-%d-1-0.tmp" % dead,
                ".circe-%d-1-0.tmp.npy" % dead, ".circe-x-1-0.tmp", ".other-%d-1-0.tmp" % dead]
        for name in gone + stay:
            (folder / name).write_bytes(b"half")
        (folder / (".circe-%d-7-0.tmp" % dead)).symlink_to(self.path / "y.npy")
        (folder / (".circe-%d-8-0.tmp" % dead)).mkdir()
        self.succeed(*self.fit_args(out="left/m.safetensors"))
        names = {path.name for path in folder.iterdir()}
        self.assertEqual(names & set(gone), set())
        self.assertEqual(names & set(stay), set(stay))
        self.assertIn(".circe-%d-7-0.tmp" % dead, names)
        self.assertTrue((self.path / "y.npy").exists())

    def test_before_a_training_is_at_work(self):
        folder = self.path / "start"
        folder.mkdir()
        left = folder / (".circe-%d-65a1b2c3-0.tmp" % dead_pid())
        left.write_bytes(b"half")
        process = self.start(*self.train_args("start/m.safetensors", "--epochs", "100000", "--checkpoint-minutes", "0"))
        self.wait_for(lambda: not left.exists(), process)
        process.kill()
        process.communicate()

    def test_a_killed_figure(self):
        """Figures are drawn under such a name as well."""
        tools = self.path / "tools"
        tools.mkdir()
        gnuplot = tools / "gnuplot"
        gnuplot.write_text("#!/bin/sh\neval \"${3%%;*}\"\nls -a > names.txt\nexit 1\n")
        gnuplot.chmod(0o755)
        self.succeed_with_path(tools, "audit", "table.csv", "--prediction", "x", "--target", "y", "--sensitive", "z",
                               "--calibrate", "0", "-o", "figures", "--quiet")
        names = next((self.path / "figures").rglob("names.txt")).read_text()
        self.assertRegex(names, r"(?m)^\.circe-\d+-\w+-\d+\.tmp$")
        self.assertEqual(list((self.path / "figures").rglob("*.tmp")), [])

    def succeed_with_path(self, tools, *arguments):
        result = self.run_circe(*arguments, env={"PATH": "%s:/usr/bin:/bin" % tools})
        self.assertEqual(result.returncode, 0, result.stderr)
        return result


class LockTest(FaultTest):
    def test_two_trainings_to_one_output(self):
        out = "one.safetensors"
        checkpoint = self.path / (out + ".checkpoint")
        first = self.start(*self.train_args(out, "--epochs", "100000", "--checkpoint-epochs", "5"))
        self.wait_for(checkpoint.exists, first)
        words = [out, "another process, %d, is writing to it" % first.pid, "wait until it ends"]
        self.refuse(1, words, *self.train_args(out, "--epochs", "2"))
        self.refuse(1, words, *self.train_args(out, "--epochs", "100000", "--resume"))
        (self.path / "link.safetensors").symlink_to(self.path / out)
        first.kill()
        first.communicate()
        # the kernel lets go of a killed one's lock, and the end of a run leaves no file
        self.succeed(*self.train_args(out, "--epochs", "2"))
        self.assertEqual([p.name for p in self.path.iterdir() if p.name.endswith(".lock")], [])

    def test_the_same_file_under_another_name(self):
        (self.path / "folder").mkdir()
        self.succeed(*self.train_args("folder/m.safetensors", "--epochs", "2"))
        (self.path / "alias.safetensors").symlink_to(self.path / "folder" / "m.safetensors")
        first = self.start(*self.train_args("folder/m.safetensors", "--epochs", "100000", "--checkpoint-epochs", "5"))
        self.wait_for((self.path / "folder" / "m.safetensors.checkpoint").exists, first)
        self.refuse(1, ["is writing to it"], *self.train_args("alias.safetensors", "--epochs", "2"))
        other = self.start(*self.train_args("folder/other.safetensors", "--epochs", "2"))
        self.assertEqual(other.wait(timeout=60), 0)
        first.terminate()
        first.communicate()

    def test_two_experiments_in_one_folder(self):
        self.write("slow.yaml", FITTING.replace("train: 100", "train: 2000").replace("epochs: 1,", "epochs: 50000,")
                   .replace("holdout: 3500", "holdout: 50"))
        first = self.start("experiment", "--config", "slow.yaml", "-o", "shared", "--jobs", 1)
        self.wait_for(lambda: list((self.path / "shared").glob(".*.lock")) != [], first)
        self.refuse(1, ["shared", "another process, %d" % first.pid], "experiment", "--config", "slow.yaml", "-o", "shared")
        first.terminate()
        first.communicate(timeout=60)

    def test_devices_need_none(self):
        self.succeed(*self.train_args("/dev/null", "--epochs", "1"))


class FullDiskTest(FaultTest):
    def audit(self, gnuplot, out):
        tools = self.path / ("tools-" + out)
        tools.mkdir()
        (tools / "gnuplot").write_text("#!/bin/sh\n" + gnuplot)
        (tools / "gnuplot").chmod(0o755)
        return self.run_circe("audit", "table.csv", "--prediction", "x", "--target", "y", "--sensitive", "z", "--calibrate", "0",
                              "-o", out, "--quiet", env={"PATH": "%s:/usr/bin:/bin" % tools})

    def test_half_a_figure_is_none(self):
        """A gnuplot that meets a full disk writes what fits and says that all is well."""
        half = "for a in \"$@\"; do case \"$a\" in output=*) eval \"$a\";; esac; done\n" \
               "printf '<svg xmlns=\"http://www.w3.org/2000/svg\">%01000d' 0 > \"$output\"\nexit 0\n"
        result = self.audit(half, "half")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([p.name for p in (self.path / "half").rglob("*.svg")], [])
        self.assertNotIn("<svg", (self.path / "half" / "report.html").read_text())
        self.assertEqual([p.name for p in (self.path / "half").rglob(".*")], [])

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_files_of_a_disk_that_fills_up(self):
        """Whatever size fits, every figure that is there is whole, and a failure is said."""
        for limit in (2000, 6000, 20000, 60000):
            out = "limit-%d" % limit

            def restrict():
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

            result = self.run_circe("audit", "table.csv", "--prediction", "x", "--target", "y", "--sensitive", "z",
                                    "--calibrate", "0", "-o", out, "--quiet", preexec_fn=restrict)
            for figure in (self.path / out).rglob("*.svg"):
                self.assertTrue(figure.read_text().rstrip().endswith("</svg>"), figure)
            page = self.path / out / "report.html"
            self.assertEqual(result.returncode == 0, page.exists(), result.stderr)
            if result.returncode != 0:
                self.assertIn("File too large", result.stderr)
            self.assertEqual([p.name for p in (self.path / out).rglob(".*")], [])


class YamlTest(FaultTest):
    def test_deep_nesting_is_refused_at_once(self):
        deep = {"open.yaml": "gamma: " + "[" * 100000, "closed.yaml": "[" * 100000 + "]" * 100000,
                "lines.yaml": "[\n" * 100000, "maps.yaml": "{a: " * 100000, "dashes.yaml": "- " * 100000}
        for name, text in deep.items():
            self.write(name, text)
            for command in (["train", "-o", "m.safetensors"], ["experiment", "-o", "deep"]):
                began = time.monotonic()
                result = self.refuse(2, [name, "line", "nested more than"], *command, "--config", name)
                self.assertLess(time.monotonic() - began, 5)
                self.assertNotIn("hint", result.stderr)

    def test_a_little_nesting_is_none(self):
        self.write("list.yaml", "features: [y, z]\nhelpless: [[[[1]]]]\n")
        self.refuse(2, ["helpless", "no such option"], "train", "--config", "list.yaml", "-o", "m.safetensors")


class NpzTest(FaultTest):
    def test_two_of_one_name(self):
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with zipfile.ZipFile(self.path / "twice.npz", "w") as archive:
                archive.writestr("y.npy", npy_bytes([float(i % 7) for i in range(80)]))
                archive.writestr("z.npy", npy_bytes([1.0] * 80))
                archive.writestr("y.npy", npy_bytes([float(i % 5) for i in range(80)]))
        for selection in (":y", ":z", ""):
            self.refuse(2, ["twice.npz", "'y.npy' twice"], *self.fit_args(y="twice.npz" + selection))


ESCAPES = "\x1b]0;owned\x07\x1b[31mred\x7f\u009b5m\u202e"


class TerminalTest(FaultTest):
    """Names are data: nothing in them reaches a terminal as a command."""

    def assert_harmless(self, text):
        for character in text:
            code = ord(character)
            self.assertFalse((code < 32 and character != "\n") or 0x7f <= code < 0xa0 or code == 0x202e,
                             "%r in %r" % (character, text))

    def test_names_of_files(self):
        name = "bad" + ESCAPES + ".npy"
        self.write(name, b"\x93NUMPY junk")
        for arguments in (self.fit_args(y=name), self.fit_args(y="absent" + ESCAPES + ".npy"),
                          self.measure_args(x=name), ["predict", "--model", name, "--data", "table.csv"],
                          self.train_args(out="folder" + ESCAPES + "/m.safetensors"),
                          ["train", "--config", name, "-o", "x"], ["experiment", "--config", name],
                          [ESCAPES], ["fit", "--" + ESCAPES], ["help", ESCAPES]):
            result = self.run_circe(*arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assert_harmless(result.stdout + result.stderr)
            self.assertIn("\\u001b", result.stderr)

    def test_newlines_forge_no_message(self):
        result = self.run_circe(*self.fit_args(y="no\ncirce fit: all is well.npy"))
        self.assertEqual(len([line for line in result.stderr.splitlines() if line.startswith("circe")]), 1)

    def test_columns_and_cells(self):
        lines = table(120).splitlines()
        odd = "x" + ESCAPES
        self.write("odd.csv", "\n".join(["y,z," + odd] + lines[1:]) + "\n")
        commands = [["audit", "odd.csv", "--prediction", odd, "--target", "y", "--sensitive", "z", "--calibrate", "0",
                     "-o", "odd"],
                    ["train", "--data", "odd.csv", "--features", "y,z", "--target", odd, "--regularizer", "none", "-o",
                     "odd.safetensors", "--epochs", "1"],
                    ["predict", "--model", "odd.safetensors", "--data", "odd.csv"],
                    ["fit", "--y", "odd.csv:" + odd, "--z", "odd.csv:absent", "-o", "m.safetensors"]]
        for arguments in commands:
            result = self.run_circe(*arguments)
            self.assert_harmless(result.stderr)
            self.assert_harmless(result.stdout)
        cell = [lines[0], "0.5,0.5," + ESCAPES] + lines[1:]
        self.write("cell.csv", "\n".join(cell) + "\n")
        result = self.run_circe("measure", "circe", "--x", "cell.csv:x", "--y", "cell.csv:y", "--z", "cell.csv:z")
        self.assert_harmless(result.stdout + result.stderr)

    def test_data_for_a_program_stay_as_they_are(self):
        """Into a pipe, the classes that are predicted are those of the table; at a terminal, nothing is obeyed."""
        rows = [row.rsplit(",", 1)[0] + ("," + ESCAPES if i % 2 else ",plain")
                for i, row in enumerate(table(200).splitlines()[1:])]
        self.write("classes.csv", "\n".join(["y,z,c"] + rows) + "\n")
        self.succeed("train", "--data", "classes.csv", "--features", "y,z", "--target", "c", "--regularizer", "none", "-o",
                     "classes.safetensors", "--epochs", "1", *SMALL)
        predict = ["predict", "--model", "classes.safetensors", "--data", "classes.csv"]
        piped = self.succeed(*predict).stdout
        self.succeed(*predict, "-o", "classes-out.csv")
        self.assertEqual(piped, (self.path / "classes-out.csv").read_text())
        master, slave = os.openpty()
        process = subprocess.Popen([BINARY, *predict], cwd=self.path, stdout=slave, stderr=slave, stdin=subprocess.DEVNULL)
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        process.wait()
        os.close(master)
        self.assertNotIn(b"\x1b]0;owned", shown)
        self.assertIn(b"\\u001b]0;owned", shown)

    def test_json_says_the_same(self):
        name = "odd" + ESCAPES + ".csv"
        self.write(name, table(120))
        result = self.succeed("audit", name, "--prediction", "x", "--target", "y", "--sensitive", "z", "--calibrate", "0",
                              "-o", "same", "--quiet", "--json")
        self.assert_harmless(result.stdout.replace("\t", ""))
        self.assertEqual(json.loads(result.stdout)["data"], name)


class Utf8Test(FaultTest):
    def test_latin_1_becomes_utf_8(self):
        text = table(120, names="y,z,pr\u00e9diction").encode("latin-1")
        self.write("latin.csv", text)
        result = subprocess.run([BINARY, "train", "--data", "latin.csv", "--features", "y,z", "--target",
                                 "pr\u00e9diction", "--regularizer", "none", "-o", "latin.safetensors", "--epochs", "1", "--batch", "32",
                                 "--no-report", "--quiet", "--json"], cwd=self.path, capture_output=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout.decode("utf-8"))["target"], ["pr\u00e9diction"])
        model = (self.path / "latin.safetensors").read_bytes()
        header = model[8:8 + struct.unpack("<Q", model[:8])[0]].decode("utf-8")
        self.assertIn("pr\u00e9diction", json.loads(header)["__metadata__"]["columns"])
        self.succeed("predict", "--model", "latin.safetensors", "--data", "latin.csv")

    def test_names_of_files(self):
        name = b"caf\xe9.csv"
        (pathlib.Path(os.fsdecode(os.fsencode(self.path) + b"/" + name))).write_text(table(120))
        result = subprocess.run([os.fsencode(BINARY), b"audit", name, b"--prediction", b"x", b"--target", b"y",
                                 b"--sensitive", b"z", b"--calibrate", b"0", b"-o", b"caf\xe9", b"--json", b"--quiet"], cwd=self.path,
                                capture_output=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout.decode("utf-8"))["data"], "caf\u00e9.csv")
        result = subprocess.run([os.fsencode(BINARY), b"fit", b"--y", b"no\xe9.npy", b"--z", b"z.npy", b"-o", b"m"],
                                cwd=self.path, capture_output=True, timeout=120)
        self.assertIn("no\\xe9.npy", result.stderr.decode("utf-8"))


class ChecksumTest(FaultTest):
    def test_models_that_changed(self):
        """A bit anywhere in a model, of numbers or of text columns, is noticed."""
        lines = table(200).splitlines()
        draw = random.Random(2)
        rows = [row + draw.choice([",red", ",blue"]) for row in lines[1:]]
        self.write("text.csv", "\n".join([lines[0] + ",c"] + rows) + "\n")
        self.succeed("fit", "--y", "text.csv:y,c", "--z", "text.csv:z", "-o", "mean.safetensors")
        self.succeed(*self.train_args("net.safetensors", "--epochs", "2"))
        uses = {"mean.safetensors": ["measure", "circe", "--x", "text.csv:x", "--y", "text.csv:y,c", "--z", "text.csv:z",
                                     "--model"],
                "net.safetensors": ["predict", "--data", "table.csv", "--model"]}
        for name, use in uses.items():
            good = (self.path / name).read_bytes()
            self.assertEqual(self.succeed(*use, name).stderr, "")
            for _ in range(40):
                bad = bytearray(good)
                bad[draw.randrange(len(bad))] ^= 1 << draw.randrange(8)
                self.write("bad.safetensors", bytes(bad))
                self.refuse(2, ["bad.safetensors"], *use, "bad.safetensors")
            old = good.replace(b'"checksum"', b'"checksux"')
            old = old.replace(b'"format_version":"2"', b'"format_version":"1"')
            old = old.replace(b'"format_version":"3"', b'"format_version":"1"')
            self.write("old.safetensors", old)
            self.assertIn("old.safetensors has no checksum", self.succeed(*use, "old.safetensors").stderr)
            self.assertEqual(self.succeed(*use, "old.safetensors", "--quiet").stderr, "")


@unittest.skipIf(os.environ.get("CIRCE_SANITIZED"), "sanitizers take terabytes of address space")
class MemoryTest(FaultTest):
    def test_little_address_space_is_said(self):
        """OpenBLAS asks for its buffers again and again, for ever, where they cannot be had."""
        for megabytes in (120, 150, 200, 300, 400, 500, 600, 800):
            def restrict():
                resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

            for arguments in (self.measure_args(), self.fit_args(out="limited.safetensors"),
                              self.train_args("limited.model", "--epochs", "1")):
                result = self.run_circe(*arguments, preexec_fn=restrict)
                self.assertIn(result.returncode, (0, 1), (megabytes, result.stderr))
                if result.returncode == 1:
                    self.assertRegex(result.stderr, r"^circe.*memory", megabytes)
                    self.assertLessEqual(len(result.stderr.splitlines()), 2, result.stderr)

    def test_one_thread_needs_less(self):
        def restrict():
            resource.setrlimit(resource.RLIMIT_AS, (450 << 20, 450 << 20))

        result = self.run_circe(*self.measure_args(), preexec_fn=restrict, env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
