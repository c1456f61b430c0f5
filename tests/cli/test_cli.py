"""The real command circe as such: help, its command line and what it refuses there, how it ends where it cannot write,
has no memory or is interrupted, manual pages and completions. What it reads is in test_files_cli.py, what it computes
in test_measure_cli.py.

Only the Python standard library is needed. CIRCE_BINARY names the command to test."""

import contextlib
import fcntl
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest

from cli_support import BINARY, MEASURES, CliTest, npy_bytes

XYZ = ("--x", "x.npy", "--y", "y.npy", "--z", "z.npy")
COMMANDS = ("fit", "measure", "test", "audit", "train", "predict", "experiment", "data", "demo", "bench")


class HelpTest(CliTest):
    def test_overview(self):
        text = self.succeed("--help").stdout
        for command in COMMANDS:
            self.assertRegex(text, r"(?m)^  %s +\S" % command)
        self.assertNotIn("generate-man", text)

    def test_each_command_explains_itself_with_examples(self):
        for command in COMMANDS:
            text = self.succeed(command, "--help").stdout
            self.assertIn("Usage: circe " + command, text)
            self.assertIn("Examples", text)
            self.assertEqual(text, self.succeed("help", command).stdout)
            self.assertEqual(text, self.succeed(command, "--nonsense", "-h").stdout)

    def test_every_measure_is_explained(self):
        text = self.succeed("measure", "--help").stdout
        for name in (*MEASURES, "all"):
            self.assertRegex(text, r"(?m)^  %s +\S" % name)
        self.assertIn("circe measure all", text)
        self.assertIn("Marginal", text)

    def test_alone_is_help_on_stderr(self):
        result = self.run_circe()
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("circe demo", result.stderr)

    def test_version_names_the_libraries(self):
        text = self.succeed("--version").stdout
        self.assertRegex(text, r"^circe \d+\.\d+\.\d+\n")
        self.assertIn("BLAS", text)
        self.assertRegex(text, r"runs here as \d+\.\d+\.\d+, (avx512|avx2|baseline) instructions, \S*(BLAS|BLIS).*, \d+ thread")

    def test_instruction_sets(self):
        def version(isa):
            return self.run_circe("--version", env={**os.environ, "CIRCE_ISA": isa})

        self.assertIn(" baseline instructions,", version("baseline").stdout)
        refused = version("sse")
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(refused.stderr, "^circe: CIRCE_ISA is 'sse'.* this machine has baseline")


class CommandLineTest(CliTest):
    def test_unknown_command(self):
        self.refuse(2, ["'fti'", "circe fit"], "fti")
        self.refuse(2, ["'xyzzy'", "--help"], "xyzzy")

    def test_unknown_option(self):
        self.refuse(2, ["--rigde", "--ridge"], *self.fit_args(), "--rigde", "1")
        self.refuse(2, ["-k"], *self.fit_args(), "-k")
        self.refuse(2, ["--frob"], "--frob")

    def test_unknown_measure(self):
        files = ["--x", "x", "--y", "y", "--z", "z"]
        self.refuse(2, ["'circ'", "circe-spectral", "did you mean"], "measure", "circ", *files)
        self.refuse(2, ["circe-spectral", "kpc", "all"], "measure", *files)
        self.refuse(2, ["'hscci'", "did you mean 'hscic'"], "measure", "hscci", *files)

    def test_required(self):
        self.refuse(2, ["--y", "required"], "fit")
        self.refuse(2, ["-o", "required"], "fit", "--y", "y.npy", "--z", "z.npy")
        self.refuse(2, ["--z", "required"], "measure", "circe", "--x", "x.npy", "--y", "y.npy")
        self.refuse(2, ["--z", "required"], "measure", "hsic", "--x", "x.npy", "--y", "y.npy")
        for name in (*MEASURES, "all"):
            if name != "hsic":
                self.refuse(2, ["--y FILE is required", name], "measure", name, "--x", "x.npy", "--z", "z.npy")

    def test_values(self):
        self.refuse(2, ["--ridge", "needs a value"], *self.fit_args(), "--ridge")
        self.refuse(2, ["--ridge", "needs a value"], *self.fit_args(), "--ridge", "--json")
        self.refuse(2, ["--y", "twice"], *self.fit_args(), "--y", "y.npy")
        self.refuse(2, ["--json", "no value"], *self.fit_args(), "--json=yes")
        self.refuse(2, ["extra"], *self.fit_args(), "extra")
        self.refuse(2, ["--method", "auto|lowrank|dense|rff", "dense"], *self.fit_args(), "--method", "dens")
        self.refuse(2, ["--threads", "many"], *self.fit_args(), "--threads", "many")
        self.refuse(2, ["--memory", "4Q"], *self.fit_args(), "--memory", "4Q")

    def test_not_positive(self):
        for option in ("--sigma2-y", "--sigma2-z", "--ridge"):
            for value in ("-1", "0", "nan", "inf"):
                self.refuse(2, [option, value], *self.fit_args(), option, value)
        self.refuse(2, ["--sigma2-x", "-0.5"], *self.measure_args(), "--sigma2-x", "-0.5")
        self.refuse(2, ["--ridge", "-3"], *self.fit_args(), "--ridge", "0.1,-3")
        self.refuse(2, ["--ridge", "'two'"], *self.fit_args(), "--ridge", "1,two")
        self.refuse(2, ["--sigma2-z", "one number"], *self.fit_args(), "--sigma2-z", "1,2")

    def test_contradictions(self):
        self.refuse(2, ["--model", "--holdout-y"], *self.measure_args(), "--model", "m", "--holdout-y", "a",
                    "--holdout-z", "b")
        self.refuse(2, ["--ridge", "--model"], *self.measure_args(), "--model", "m", "--ridge", "1")
        self.refuse(2, ["--kernel-y", "--model"], *self.measure_args(), "--model", "m", "--kernel-y", "linear")
        self.refuse(2, ["--holdout-y", "--holdout-z"], *self.measure_args(), "--holdout-y", "holdout_y.npy")
        self.refuse(2, ["--holdout-data", "--data"], *self.measure_args(), "--holdout-data", "a.csv")

    def test_kernels(self):
        self.refuse(2, ["--kernel-y", "gausian"], *self.fit_args(), "--kernel-y", "gausian")
        self.refuse(2, ["--kernel-z", "'age'"], *self.fit_args(), "--kernel-z", "age:delta")
        self.refuse(2, [], *self.fit_args(), "--kernel-y", "3-9:gaussian")


class WriteFailureTest(CliTest):
    def test_full_disk(self):
        self.refuse(1, ["/dev/full"], *self.fit_args(out="/dev/full"))
        self.refuse(1, ["/dev/full"], *self.measure_args(), "--grad", "/dev/full")
        for arguments in (["--help"], ["--version"], self.measure_args(), [*self.measure_args(), "--json"]):
            with open("/dev/full", "w") as full:
                self.refuse(1, ["standard output"], *arguments, stdout=full)

    def test_no_such_folder(self):
        self.refuse(1, ["no/such", "folder"], *self.fit_args(out="no/such/model"))
        self.refuse(1, ["--grad", "no/such"], *self.measure_args(), "--grad", "no/such/grad.npy")

    def test_old_model_survives_a_failure(self):
        self.write("kept.safetensors", b"precious")
        self.refuse(2, [], *self.fit_args(y="constant.npy", out="kept.safetensors"))
        self.assertEqual((self.path / "kept.safetensors").read_bytes(), b"precious")

    def test_too_little_memory(self):
        draw = random.Random(2)
        self.write("many.npy", npy_bytes([draw.random() for _ in range(3000)]))
        self.refuse(1, ["memory"], *self.fit_args("many.npy", "many.npy"), "--memory", "1M")
        self.refuse(1, ["memory"], *self.measure_args("many.npy", "many.npy", "many.npy"), "--memory", "1M")
        self.assertFalse((self.path / "m.safetensors").exists())

    def test_interrupt(self):
        process = subprocess.Popen([BINARY, "bench"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (1, ""), err)
        self.assertIn("interrupted", err)


class ManualTest(CliTest):
    def test_man_pages(self):
        (self.path / "man").mkdir(exist_ok=True)
        self.succeed("generate-man", "man")
        pages = sorted(p.name for p in (self.path / "man").iterdir())
        self.assertEqual(pages, sorted(["circe-%s.1" % name for name in COMMANDS] + ["circe.1"]))
        for page in pages:
            text = (self.path / "man" / page).read_text()
            self.assertIn(".SH NAME", text)
            if shutil.which("groff"):
                result = subprocess.run(["groff", "-man", "-ww", "-Tutf8", self.path / "man" / page], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
                self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_completions(self):
        for shell in ("bash", "zsh"):
            text = self.succeed("completion", shell).stdout
            self.write("completion." + shell, text)
            for word in ("--sigma2-y", "circe-spectral", "lowrank", "hscic", "all", "--regress-z", "logsumexp"):
                self.assertIn(word, text)
            if shutil.which(shell):
                subprocess.run([shell, "-n", self.path / ("completion." + shell)], check=True, timeout=60)
        self.refuse(2, ["bash", "zsh"], "completion")

    def on_terminal(self, columns, *arguments, bar=False):
        """What the command prints on a terminal of so many columns; bar: only what it shows meanwhile."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([BINARY, *arguments], cwd=self.path, stdout=subprocess.DEVNULL if bar else its,
                                   stderr=its if bar else subprocess.DEVNULL)
        os.close(its)
        text = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while part := os.read(ours, 65536):
                text += part
        process.wait(timeout=60)
        os.close(ours)
        return text.decode().replace("\r\n", "\n")

    def test_colours(self):
        """Only on a terminal, and none where NO_COLOR is set."""
        shown = {}
        for name, extra in (("plain", {"NO_COLOR": "1"}), ("dumb", {"TERM": "dumb"}), ("colours", {})):
            ours, its = pty.openpty()
            environment = {**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, "TERM": "xterm", **extra}
            subprocess.run([BINARY, "measure", "nothing"], stdout=its, stderr=its, env=environment, timeout=60)
            shown[name] = os.read(ours, 65536)
            os.close(its)
            os.close(ours)
        self.assertIn(b"\033[31mcirce measure:\033[0m --x FILE", shown["colours"])
        self.assertTrue(b"\033" not in shown["plain"] and shown["dumb"] == shown["plain"])
        self.assertEqual(re.sub(rb"\033\[\d+m", b"", shown["colours"]), shown["plain"])

    def test_lines_fit_a_terminal(self):
        """Folded between words on one, whole in a pipe; the words are the same. JSON is never folded."""
        for arguments in (("measure", "all", *XYZ, "-q"), ("test", "all", *XYZ, "-q"), ("experiment",)):
            whole = self.succeed(*arguments).stdout
            for columns in (60, 80, 200):
                folded = self.on_terminal(columns, *arguments)
                self.assertLessEqual(max(map(len, folded.splitlines())), columns)
                masked = [re.sub(r"[\d.e-]+", "#", text).split() for text in (whole, folded)]  # times differ
                self.assertEqual(*masked)
        json.loads(self.on_terminal(60, "measure", "hsic", *XYZ, "--json"))

    def test_folded_commands_can_be_copied(self):
        whole, folded = self.succeed("--help").stdout, self.on_terminal(60, "--help")
        command = next(line for line in whole.splitlines() if line.startswith("  circe train --data"))
        self.assertIn(command, re.sub(r" \\\n +", " ", folded))
        self.assertNotIn(command, folded)

    def test_one_bar_for_all_stages(self):
        """It never goes back, and the calibration, which takes most of the time, has most of the bar."""
        shown = self.on_terminal(80, "test", "kci", *XYZ, "--calibrate", "400", "--effects", bar=True)
        shares = [int(share) for share in re.findall(r"\] +(\d+)%", shown)]
        self.assertEqual(shares, sorted(shares))
        during = [int(share) for share in re.findall(r"\] +(\d+)%  [^\r]*calibration", shown)]
        self.assertGreater(during[-1] - during[0], 50)

    def test_verbose_tells_the_machine_and_the_stages(self):
        fit = ("fit", "--y", "y.npy", "--z", "z.npy", "-o", "told.safetensors")
        said = self.succeed(*fit, "-v").stderr
        self.assertRegex(said, r"(?m)^circe fit: .* threads?$")
        self.assertRegex(said, r"(?m)^circe fit: fitting: [0-9.e-]+ s$")
        self.assertNotIn("fitting", self.succeed(*fit).stderr)

    def test_bash_completes(self):
        self.write("completion.bash", self.succeed("completion", "bash").stdout)
        script = ('source completion.bash\n'
                  'COMP_WORDS=(circe fit --method d); COMP_CWORD=3; _circe; echo "${COMPREPLY[*]}"\n'
                  'COMP_WORDS=(circe me); COMP_CWORD=1; _circe; echo "${COMPREPLY[*]}"\n'
                  'COMP_WORDS=(circe measure hs); COMP_CWORD=2; _circe; echo "${COMPREPLY[*]}"\n'
                  'COMP_WORDS=(circe audit compl); COMP_CWORD=2; _circe; echo "${COMPREPLY[*]}"\n'
                  'COMP_WORDS=(circe test kci --x compl); COMP_CWORD=4; _circe; echo "${COMPREPLY[*]}"\n'
                  'COMP_WORDS=(circe fit --method = l); COMP_CWORD=4; _circe; echo "${COMPREPLY[*]}"\n'
                  'COMP_WORDS=(circe audit --out); COMP_CWORD=2; _circe; echo "${COMPREPLY[*]}"')
        result = subprocess.run(["bash", "-c", script], cwd=self.path, stdout=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(result.stdout.split(), ["dense", "measure", "hsic", "hscic", "completion.bash", "completion.bash", "lowrank", "--output"])

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_completes(self):
        """Typed into the real shell, both where the script lies in fpath and where it is sourced."""
        self.write("_circe", self.succeed("completion", "zsh").stdout)
        typed = {"circe audit _ci": "rce ", "circe fit --y=_ci": "rce ", "circe fit -o _ci": "rce ", "circe audit --notion=suf": "ficiency ",
                 "circe fit --method d": "ense ", "circe me": "asure ", "circe measure hsc": "ic ", "circe train --invar": "iant-to="}
        for load in (f"fpath=({self.path} $fpath); compinit -u -D", "compinit -u -D; source _circe"):
            process, terminal = pty.fork()
            if process == 0:
                os.chdir(self.path)
                os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb", "PS1": ""})
            shown = b""

            def wait(words):
                nonlocal shown
                while words.encode() not in shown:
                    self.assertTrue(select.select([terminal], [], [], 60)[0], f"{words!r} does not follow; {shown!r}")
                    shown += os.read(terminal, 65536)
                shown = b""

            os.write(terminal, f"autoload -Uz compinit; {load}; print rea''dy\n".encode())
            wait("ready")
            for line, rest in typed.items():
                os.write(terminal, b"\x15" + line.encode())
                wait(line)
                os.write(terminal, b"\t")
                wait(rest)
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(terminal)


if __name__ == "__main__":
    unittest.main()
