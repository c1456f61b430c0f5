"""Kills in training, full disks, little memory, other locales."""

import os
import resource
import shutil
import signal
import subprocess
import time

from trial import Finding, TRAIN, make_inputs

EPOCHS = ["--epochs", "600", "--checkpoint-epochs", "20"]


class Kills:
    """Stopped by any signal at any moment, as often as one likes, a training ends in the same bits."""

    share = 4
    sanitized = False

    def prepare(self, trial):
        make_inputs(trial.folder, rows=300)
        began = time.monotonic()
        trial.run(*TRAIN, *EPOCHS, "-o", "whole.safetensors", expected=(0,))
        self.seconds = time.monotonic() - began

    def one(self, trial):
        draw, out = trial.draw, trial.folder / "cut.safetensors"
        checkpoint = trial.folder / "cut.safetensors.checkpoint"
        for _ in range(draw.randrange(1, 5)):
            number = draw.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
            resume = ["--resume"] if checkpoint.exists() else []
            process = subprocess.Popen([trial.binary, *TRAIN, *EPOCHS, "-o", out.name, *resume], cwd=trial.folder,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       env={**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "2"})
            time.sleep(draw.uniform(0, self.seconds))
            process.send_signal(number)
            try:
                errors = process.communicate(timeout=60)[1].decode(errors="replace")
            except subprocess.TimeoutExpired:
                process.kill()
                raise Finding("signal %d does not end a training" % number)
            if process.returncode not in (0, 1, -number):
                raise Finding("status %d after signal %d: %s" % (process.returncode, number, errors))
            if process.returncode == 1 and "interrupted" not in errors:
                raise Finding("stopped by signal %d it says: %s" % (number, errors))
            if process.returncode == 1 and "--resume" in errors and not checkpoint.exists():
                raise Finding("no checkpoint after signal %d" % number)
            if process.returncode == 0:
                break
        # killed between the model and the end of its checkpoint, both are there
        if not out.exists() or checkpoint.exists():
            trial.run(*TRAIN, *EPOCHS, "-o", out.name, *(["--resume"] if checkpoint.exists() else []), expected=(0,))
        if out.read_bytes() != (trial.folder / "whole.safetensors").read_bytes():
            raise Finding("a training that was stopped ends in another model")
        # a run that ended without writing anything more may leave what the next one removes
        trial.run(*TRAIN, "--epochs", "1", "-o", "last.safetensors", expected=(0,))
        left = [path.name for path in trial.folder.iterdir() if path.name.startswith(".circe-")]
        if left or checkpoint.exists():
            raise Finding("left behind: %s" % (left or checkpoint.name))


class Disk:
    """On a disk that fills up, a file is the old one or the new one, whole, and a failure is said."""

    share = 2
    sanitized = False
    JOBS = {"m.safetensors": ["fit", "--y", "table.csv:y,c", "--z", "table.csv:z", "--quiet", "-o"],
            "net.safetensors": [*TRAIN, "--epochs", "40", "--checkpoint-epochs", "1", "-o"],
            "p.csv": ["predict", "--model", "net.safetensors", "--data", "table.csv", "--quiet", "-o"],
            "report": ["audit", "table.csv", "--prediction", "x", "--target", "y", "--sensitive", "z", "--quiet", "-o"]}

    def prepare(self, trial):
        make_inputs(trial.folder)
        trial.run(*TRAIN, "--epochs", "2", "-o", "net.safetensors", expected=(0,))

    def one(self, trial):
        name = trial.draw.choice(list(self.JOBS))
        bytes_free = int(2 ** trial.draw.uniform(9, 17))
        disk = trial.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % max(bytes_free, 4096), "tmpfs", disk],
                                 capture_output=True).returncode == 0

        def restrict():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_free, bytes_free))

        try:
            status = trial.run(*self.JOBS[name], "disk/" + name, limits=None if mounted else restrict)[0]
            trial.outcome = "written" if status == 0 else "refused"
            self.check(trial, disk, name, status)
        finally:
            if mounted:
                subprocess.run(["umount", "-l", disk], check=False)

    def check(self, trial, disk, name, status):
        out = disk / ("report/report.html" if name == "report" else name)
        if (status == 0) != out.exists():
            raise Finding("status %d, and %s is %sthere" % (status, out.name, "" if out.exists() else "not "))
        for figure in disk.rglob("*.svg"):
            if not figure.read_text().rstrip().endswith("</svg>"):
                raise Finding("half a figure: " + figure.name)
        if out.suffix == ".html" and out.exists() and not out.read_text().rstrip().endswith("</html>"):
            raise Finding("half a report")
        if out.suffix == ".safetensors" and out.exists() and name == "net.safetensors":
            trial.run("predict", "--model", "disk/" + name, "--data", "table.csv", expected=(0,))


class Memory:
    """Under a limit of address space there is an answer, or one clear word about memory."""

    share = 2
    sanitized = False

    def prepare(self, trial):
        make_inputs(trial.folder, rows=400)

    def one(self, trial):
        megabytes = int(2 ** trial.draw.uniform(6, 10.5))

        def restrict():
            resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

        job = trial.draw.choice([["measure", "circe", "--x", "x.npy", "--y", "y.npy", "--z", "z.npy"],
                                 ["test", "kci", "--x", "x.npy", "--y", "y.npy", "--z", "z.npy"],
                                 ["fit", "--y", "table.csv:y", "--z", "table.csv:z", "-o", "m.safetensors"],
                                 [*TRAIN, "--epochs", "2", "-o", "m.safetensors"]])
        threads = trial.draw.choice(["1", "2", "4"])
        status, _, errors = trial.run(*job, limits=restrict, environment={"OMP_NUM_THREADS": threads},
                                      expected=(0, 1, 127))
        trial.outcome = "done" if status == 0 else "refused"
        if status == 127 and "loading shared libraries" not in errors:
            raise Finding("status 127 with %d MB: %s" % (megabytes, errors))
        if status == 1 and "memory" not in errors.lower():
            raise Finding("with %d MB and %s threads %s says: %s" % (megabytes, threads, job[0], errors))


class Locales:
    """A locale changes no number, and no reading of one."""

    share = 1
    sanitized = False

    def prepare(self, trial):
        make_inputs(trial.folder)
        folder = trial.folder / "locales"
        folder.mkdir()
        self.made = shutil.which("localedef") is not None and subprocess.run(
            ["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], capture_output=True).returncode == 0

    def one(self, trial):
        job = trial.draw.choice([["measure", "circe", "--x", "table.csv:x", "--y", "table.csv:y", "--z", "table.csv:z"],
                                 ["test", "gcm", "--x", "x.npy", "--y", "y.npy", "--z", "z.npy"]])
        answers = []
        for name in ["C", "C.UTF-8"] + (["de_DE.UTF-8"] if self.made else []):
            environment = {"LC_ALL": name, "LANG": name}
            if name.startswith("de"):
                environment["LOCPATH"] = str(trial.folder / "locales")
            answer = trial.json(*job, environment=environment)
            if answer is None:
                raise Finding("refused under the locale " + name)
            answers.append({key: value for key, value in answer.items() if "seconds" not in key})
        trial.outcome = "%d locales" % len(answers)
        if any(answer != answers[0] for answer in answers):
            raise Finding("other numbers in another locale")
