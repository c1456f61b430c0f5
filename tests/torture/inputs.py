"""Mutated files of every format, mutated command lines, hostile numbers."""

import math

from trial import Finding, TRAIN, finite, make_inputs

TOKENS = [b"0", b"-1", b"1e308", b"1e-400", b"nan", b"inf", b"99999999999999999999", b"\x00", b"\xff\xfe", b"\x1b[31m", b"{}",
          b"[[[[", b"]]", b'"', b"'", b",", b"\n", b"\r\n", b": ", b"- ", b"&a [*a]", b"\xef\xbb\xbf", b"\xe9", b"PK\x03\x04",
          b"\x80\x00\x00\x00", b"\x7f\xff\xff\xff\xff\xff\xff\xff", b"true", b"null", b"~"]


def mutate(draw, data):
    """One to six changes: bits, bytes, insertions, deletions, repetitions, cuts."""
    data = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 2, 3, 6])):
        at = draw.randrange(len(data) + 1) if draw.random() < 0.5 else draw.randrange(min(len(data), 200) + 1)
        kind = draw.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = draw.randrange(256)
        elif kind == 2:
            data[at:at] = draw.choice(TOKENS)
        elif kind == 3:
            del data[at:at + draw.choice([1, 1, 2, 8, 100])]
        elif kind == 4:
            data[at:at] = data[at:at + draw.choice([1, 4, 30, 300])] * draw.choice([1, 2, 50])
        elif kind == 5 and draw.random() < 0.3:
            del data[at:]
        else:
            token = draw.choice(TOKENS)
            data[at:at + len(token)] = token
    return bytes(data)


class Files:
    """A changed file is refused or read, never obeyed; a changed model is refused, or is the same model."""

    share = 5
    sanitized = True
    TABLES = {"table.csv": ":", "table.tsv": ":", "table.npz": ":", "table.safetensors": ":"}

    def prepare(self, trial):
        make_inputs(trial.folder)
        trial.run("fit", "--y", "table.csv:y,c", "--z", "table.csv:z", "-o", "mean.safetensors", "--quiet", expected=(0,))
        trial.run(*TRAIN, "--epochs", "2", "-o", "net.safetensors", expected=(0,))

    def one(self, trial):
        kind = trial.draw.choice(["table", "table", "array", "mean", "net", "config", "experiment"])
        getattr(self, kind)(trial)

    def spoil(self, trial, name):
        data = (trial.folder / name).read_bytes()
        changed = mutate(trial.draw, data)
        (trial.folder / name).write_bytes(changed)
        return changed != data

    def use(self, trial, name, colon=":"):
        x, y, z = ("%s%s%s" % (name, colon, column) for column in "xyz")
        choices = [["fit", "--y", y, "--z", z, "-o", "m.safetensors"], ["measure", "hsic", "--x", x, "--y", y, "--z", z],
                   ["measure", "gcm", "--x", x, "--y", y, "--z", z, "--missing", "drop"],
                   ["test", "gcm", "--x", x, "--y", y, "--z", z]]
        if name == "table.csv":
            choices += [[*TRAIN, "--epochs", "1", "-o", "m.safetensors"], ["predict", "--model", "net.safetensors", "--data", name]]
        status = trial.run(*trial.draw.choice(choices), patient=True)[0]
        trial.outcome = "read" if status == 0 else "refused"

    def table(self, trial):
        name = trial.draw.choice(list(self.TABLES))
        self.spoil(trial, name)
        self.use(trial, name)

    def array(self, trial):
        self.spoil(trial, trial.draw.choice(["x.npy", "y.npy", "z.npy"]))
        status = trial.run("measure", "hsic", "--x", "x.npy", "--y", "y.npy", "--z", "z.npy")[0]
        trial.outcome = "read" if status == 0 else "refused"

    def model(self, trial, name, *use):
        before = trial.run(*use, name, expected=(0,))[1]
        changed = self.spoil(trial, name)
        status, after, _ = trial.run(*use, name)
        trial.outcome = "read" if status == 0 else "refused"
        if status == 0 and changed and without_time(before) != without_time(after):
            raise Finding("a model that was changed is used: " + name)

    def mean(self, trial):
        self.model(trial, "mean.safetensors", "measure", "circe", "--x", "table.csv:x", "--y", "table.csv:y,c", "--z",
                   "table.csv:z", "--quiet", "--model")

    def net(self, trial):
        self.model(trial, "net.safetensors", "predict", "--data", "table.csv", "--model")

    def config(self, trial):
        self.spoil(trial, "train.yaml")
        status = trial.run("train", "--config", "train.yaml", "-o", "m.safetensors", "--memory", "500M", patient=True)[0]
        trial.outcome = "read" if status == 0 else "refused"

    def experiment(self, trial):
        self.spoil(trial, "experiment.yaml")
        status = trial.run("experiment", "--config", "experiment.yaml", "-o", "out", "--jobs", "1", "--quiet", patient=True)[0]
        trial.outcome = "read" if status == 0 else "refused"


def without_time(text):
    return [line for line in text.splitlines() if " ms" not in line and " us" not in line and " s" not in line]


class Commands:
    """Whatever stands on the command line, it is refused in words or done."""

    share = 3
    sanitized = True
    HOSTILE = ["", "-", "--", "=", "-1", "0", "1", "1e308", "1e-400", "nan", "inf", "0x10", "99999999999999999999", "1,2,3", ",",
               "y,", "y,y", "\u00e9\u202e", "\x1b[31m", "a" * 5000, "table.csv:", ":x", "table.csv:x:y", "/dev/null",
               "/dev/full", "nowhere/file", ".", "gaussian(", "gaussian(1)*gaussian(2)+linear", "gaussian(-1)", "[1]", "%s%n",
               "--help", "--json", "--quiet", "true", "--config", "train.yaml"]
    GOOD = [["fit", "--y", "y.npy", "--z", "z.npy", "-o", "m.safetensors", "--sigma2-y", "1", "--ridge", "0.1,1"],
            ["measure", "circe", "--x", "x.npy", "--y", "y.npy", "--z", "z.npy", "--kernel-x", "gaussian(1)", "--seed", "1"],
            ["measure", "all", "--x", "table.csv:x", "--y", "table.csv:y", "--z", "table.csv:z", "--missing", "drop"],
            ["test", "kci", "--x", "x.npy", "--y", "y.npy", "--z", "z.npy", "--alpha", "0.1", "--json"],
            ["audit", "table.csv", "--prediction", "x", "--target", "y", "--sensitive", "z,c", "-o", "out"],
            [*TRAIN, "--epochs", "1", "-o", "m.safetensors", "--rate", "0.01", "--seed", "3"],
            ["predict", "--model", "net.safetensors", "--data", "table.csv", "-o", "p.csv"],
            ["data", "faces", "-o", "faces", "--seed", "1"], ["help", "train"], ["completion", "bash"], ["--version"]]

    prepare = Files.prepare

    def one(self, trial):
        draw = trial.draw
        words = list(draw.choice(self.GOOD))
        for _ in range(draw.choice([1, 1, 2, 3])):
            at = draw.randrange(len(words) + 1)
            kind = draw.randrange(5)
            if kind == 0 and at < len(words):
                words[at] = draw.choice(self.HOSTILE)
            elif kind == 1:
                words.insert(at, draw.choice(self.HOSTILE))
            elif kind == 2 and at < len(words):
                del words[at]
            elif kind == 3 and at < len(words):
                words[at:at] = words[at:at + 2]
            elif at < len(words) and words[at]:
                letters = list(words[at])
                letters[draw.randrange(len(letters))] = draw.choice("-=x0,.:\u00e9%")
                words[at] = "".join(letters)
        status = trial.run(*(word.replace("\0", "") for word in words), patient=True)[0]
        trial.outcome = "done" if status == 0 else "refused"


class Numbers:
    """Numbers at the edge: an answer is a number, or there is a word about why not."""

    share = 2
    sanitized = True
    SCALES = [1e-320, 1e-308, 1e-200, 1e-30, 1.0, 1e30, 1e153, 1e155, 1e299, 1.7e308]
    CELLS = ["1e400", "-1e400", "1e-400", "nan", "NA", "", "inf", "-0", "0x1p3", "1_000", "1,5", "5%", "9" * 400, "1e", "+", "\u22121"]

    def prepare(self, trial):
        make_inputs(trial.folder)

    def column(self, draw, n):
        kind = draw.randrange(6)
        scale = draw.choice(self.SCALES)
        if kind == 0:
            return [scale] * n
        if kind == 1:
            return [scale * draw.choice([-1, 0, 1]) for _ in range(n)]
        values = [min(1.79e308, max(-1.79e308, scale * draw.gauss(0, 1))) for _ in range(n)]
        if kind == 2:
            values[draw.randrange(n)] = draw.choice([1.7e308, -1.7e308, 5e-324, 1e6, -0.0])
        if kind == 3:
            return [draw.choice([0.1, 0.2]) + (v if math.isfinite(v) else 0) * 0 for v in values]
        return values

    def one(self, trial):
        draw, n = trial.draw, trial.draw.choice([2, 4, 5, 30, 80])
        columns = [["%.17g" % v for v in self.column(draw, n)] for _ in "xyz"]
        if draw.random() < 0.4:
            columns[draw.randrange(3)][draw.randrange(n)] = draw.choice(self.CELLS)
        trial.write("edge.csv", "x;y;z\n" + "".join(";".join(row) + "\n" for row in zip(*columns))
                    if any("," in cell for column in columns for cell in column) else
                    "x,y,z\n" + "".join(",".join(row) + "\n" for row in zip(*columns)))
        x, y, z = ("edge.csv:" + name for name in "xyz")
        kind, name = draw.choice([("measure", m) for m in ("circe", "hsic", "hscic", "gcm", "kci", "nocco", "kpc")] +
                                 [("test", t) for t in ("kci", "gcm", "rcot", "hsic")])
        answer = trial.json(kind, name, "--x", x, "--y", y, "--z", z, patient=True)
        trial.outcome = "answered" if answer is not None else "refused"
        if answer is None:
            return
        for label in "xyz":
            if "gaussian" in answer.get("kernel_" + label, "") and answer.get("sigma2_" + label) is None:
                raise Finding("%s %s has no width of %s and succeeds" % (kind, name, label))
        value = answer.get("value") if kind == "measure" else answer.get("p_value")
        if not finite(value):
            raise Finding("%s %s answers %r and succeeds" % (kind, name, value))
