"""Training by several processes: the same network as by one, whatever the number of ranks, and what is said when a rank
has other data, is killed, or is asked to end."""

import contextlib
import json
import os
import random
import re
import signal
import struct
import time
import unittest

import mpi_support
from mpi_support import MPIRUN, children_of, command_of

# To rounding: sums of float32 in another order, over some dozens of steps.
SAME = 2e-5


def tensors(path):
    """The float32 tensors of a .safetensors, by name."""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, tensor in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__" and tensor["dtype"] == "F32":
            first, end = (8 + length + at for at in tensor["data_offsets"])
            found[name] = struct.unpack("<%df" % ((end - first) // 4), data[first:end])
    return found


@unittest.skipUnless(MPIRUN, "built without MPI (scripts/setup.sh mpi)")
class Trains(mpi_support.Case):
    def setUp(self):
        super().setUp()
        self.table()

    def table(self, folder=".", rows=600):
        draw = random.Random(5)
        (self.folder / folder).mkdir(exist_ok=True)
        lines = ["a,y,z,b,kind,w"]
        for _ in range(rows):
            z = draw.gauss(0, 1)
            y = 0.5 * z * z + 0.3 * draw.gauss(0, 1)
            a = y + 0.5 * z + 0.2 * draw.gauss(0, 1)
            b = y + 0.3 * z + 0.1 * draw.gauss(0, 1)
            lines.append("%r,%r,%r,%r,%s,%d" % (a, y, z, b, "high" if b > 0.5 else "low", len(lines) % 4))
        self.write(folder + "/d.csv", "\n".join(lines) + "\n")

    def train(self, ranks, model, *more, expect=0, start=False, contexts=None):
        line = ["train", "--data", "d.csv", "--features", "a,y,z", "--given", "y", "--invariant-to", "z", "--seed", "3",
                "--no-report", "-o", model + ".safetensors", *more]
        if "--net" not in more:
            line += ["--net", "2x16"]
        if "--target" not in more:
            line += ["--target", "b"]
        if "--batch" not in more:
            line += ["--batch", "50"]
        if "--regularizer" not in more:
            line += ["--regularizer", "circe", "--gamma", "100"]
        if "--baseline" not in more and "none" not in more:
            line += ["--baseline", "none"]
        if start:
            return self.start(ranks, *line)
        return self.run_it(ranks, *line, expect=expect, contexts=contexts)

    def compare(self, model, other, tolerance=SAME):
        one, two = tensors(self.path(model + ".safetensors")), tensors(self.path(other + ".safetensors"))
        self.assertEqual(one.keys(), two.keys())
        for name, values in one.items():
            largest = max(abs(v) for v in values)
            apart = max(abs(v - w) for v, w in zip(values, two[name]))
            self.assertLessEqual(apart, tolerance * largest + 1e-7, name)

    def test_any_number_of_ranks_gives_the_same(self):
        """Every regulariser; a batch that the ranks do not divide; early stopping; losses as well as parameters."""
        for kind, gamma in (("none", None), ("circe", "100"), ("hscic", "30"), ("gcm", "0.1"), ("hsic", "1")):
            more = ["--regularizer", kind, "--epochs", "5", "--json", *(["--gamma", gamma] if gamma else [])]
            one, alone = self.train(0, "one", *more)
            one = json.loads(one)
            for ranks in (2, 3) if kind == "circe" else (3,):
                out, err = self.train(ranks, "several", *more)
                several = json.loads(out)  # one object: one rank speaks
                self.assertEqual(len(self.said(err)), len(set(self.said(err))), err)  # warnings, of one rank
                self.compare("one", "several")
                now, then = self.validation(err), self.validation(alone)
                self.assertGreaterEqual(len(now.keys() & then.keys()), 4, err)
                for epoch in now.keys() & then.keys():
                    self.assertAlmostEqual(now[epoch], then[epoch], delta=0.1 * then[epoch] + 2e-5, msg=epoch)
                self.assertEqual(several["rows"], one["rows"])
                for state, measures in one["measures"].items():
                    for name, value in measures.items():
                        self.assertAlmostEqual(several["measures"][state][name], value, delta=1e-4, msg=kind)

    def test_row_weights(self):
        """Of the loss and of the regulariser, divided among ranks (circe) and measured by each of them (gcm)."""
        for kind, gamma in (("circe", "100"), ("gcm", "0.1")):
            more = ["--regularizer", kind, "--gamma", gamma, "--epochs", "3"]
            self.train(0, "one", *more, "--row-weights", "w")
            self.train(3, "several", *more, "--row-weights", "w")
            self.compare("one", "several")
            self.train(3, "plain", *more)
            with self.assertRaises(AssertionError):
                self.compare("one", "plain")

    def test_gamma_and_the_comparison(self):
        """Ranks choose the gamma that one process chooses, and compare with the same network."""
        more = ["--regularizer", "circe", "--gamma", "auto", "--epochs", "3", "--json", "--baseline"]
        one, several = (json.loads(self.train(ranks, name, *more, "d.safetensors" if ranks else "none")[0])
                        for ranks, name in ((0, "d"), (2, "several")))
        self.assertEqual([trial["gamma"] for trial in several["search"]["trials"]],
                         [trial["gamma"] for trial in one["search"]["trials"]])
        self.assertEqual(several["settings"]["gamma"], one["settings"]["gamma"])
        self.compare("d", "several", 1e-3)
        self.assertAlmostEqual(several["comparison"]["difference"]["value"], 0, delta=1e-3)
        self.train(2, "beside", "--regularizer", "circe", "--gamma", "1", "--epochs", "1", "--json", "--baseline",
                   "several.safetensors")

    def validation(self, err):
        """The validation loss of every epoch that a line tells of: two digits. There is a line for each tenth of the run. Where
        the machine is slow, some are of the middle of an epoch, and have the last one's number and validation loss."""
        return {epoch: float(loss) for epoch, loss in re.findall(r"^epoch (\d+)/.*validation (\S+)$", err, re.MULTILINE)}

    def test_classes_layers_and_patience(self):
        more = ["--target", "kind", "--layers", "1,output", "--patience", "2", "--epochs", "5", "--gamma-warmup", "1",
                "--regularizer", "circe", "--gamma", "10"]
        self.train(0, "one", *more)
        self.train(4, "several", *more)
        self.compare("one", "several")

    def test_by_messages_alone(self):
        """As ranks of several machines do it, which share no memory."""
        self.environment["CIRCE_CLUSTER"] = "messages"
        self.train(0, "one", "--epochs", "4")
        self.train(3, "several", "--epochs", "4")
        self.compare("one", "several")

    def test_rows_that_the_ranks_do_not_divide(self):
        for rows, ranks in ((601, 3), (602, 4), (603, 3), (604, 4)):  # the split leaves some to validation and test
            self.table(rows=rows)
            self.train(0, "one", "--epochs", "2")
            self.train(ranks, "several", "--epochs", "2")
            self.compare("one", "several")

    def test_gradients_larger_than_what_is_shared(self):
        """1.3 MB, of which a rank shares half a megabyte at a time. Of so many gradients some are all but zero, and AdamW
        divides them by their own size: their rounding is seen in a step of 0.001."""
        more = ["--net", "3x400", "--epochs", "2", "--regularizer", "none"]
        self.train(0, "one", *more)
        for ranks in (2, 4):
            self.train(ranks, "several", *more)
            self.compare("one", "several", tolerance=1e-3)

    def images(self, *more, ranks, model):
        self.run_it(ranks, "train", "--images", "i.npy", "--labels", "l.csv", "--target", "b", "--given", "y",
                    "--invariant-to", "z", "--regularizer", "circe", "--gamma", "10", "--batch", "21", "--epochs", "2",
                    "--seed", "1", "--no-report", "-o", model + ".safetensors", *more)

    def some_images(self):
        draw = random.Random(2)
        header = "{'descr': '|u1', 'fortran_order': False, 'shape': (120, 12, 12), }"
        header += " " * (63 - (10 + len(header)) % 64) + "\n"
        with open(self.path("i.npy"), "wb") as out:
            out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
            out.write(bytes(draw.randrange(256) for _ in range(120 * 144)))
        rows = ["%r,%r,%r" % (draw.random(), draw.random(), draw.random()) for _ in range(120)]
        self.write("l.csv", "b,y,z\n" + "\n".join(rows) + "\n")

    def test_images(self):
        self.some_images()
        for net in ("conv4s2,pool2,8", "conv4s2,res4,average,8"):  # the latter has batch norms
            self.images("--net", net, ranks=0, model="one")
            self.images("--net", net, ranks=3, model="several")
            self.compare("one", "several", tolerance=2e-4)

    # ---- ending and going on ----

    def ranks_of(self, process, n):
        """None if the job is over."""
        deadline = time.time() + 60
        while process.poll() is None and time.time() < deadline:
            ranks = [pid for pid in children_of(process.pid) if b"train" in command_of(pid)]
            if len(ranks) == n:
                return sorted(ranks)
            time.sleep(0.02)
        self.assertIsNotNone(process.poll(), "the ranks did not begin")
        return None

    def wait_for_checkpoint(self, process):
        """Or for the end of the job, which removes it."""
        deadline = time.time() + 60
        while process.poll() is None and not (self.folder / "run.safetensors.checkpoint").exists():
            self.assertLess(time.time(), deadline, "no checkpoint was written")
            time.sleep(0.002)

    def begin_endless(self, ranks, *more):
        """A run that has written a checkpoint and has a long way to go."""
        process = self.train(ranks, "run", "--epochs", "100000", "--checkpoint-epochs", "5", *more, start=True)
        self.wait_for_checkpoint(process)
        return process

    def test_sigterm_keeps_a_checkpoint_and_says_so_once(self):
        for to_mpirun in (False, True):
            process = self.begin_endless(2)
            ranks = self.ranks_of(process, 2)
            os.kill(process.pid if to_mpirun else ranks[-1], signal.SIGTERM)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1, err)
            self.assertEqual(err.count("contains the run so far"), 1, err)
            self.assertFalse((self.folder / "run.safetensors").exists())
            os.unlink(self.path("run.safetensors.checkpoint"))

    def test_resuming_with_another_number(self):
        """One process stops in the middle; others go on, to the end of one that was never stopped. On a busy machine a run may
        be over before this process gets to stop it."""
        self.train(0, "whole", "--epochs", "40")
        for first, then in ((2, 3), (3, 0), (0, 2)):
            trained = self.folder / "run.safetensors"
            trained.unlink(missing_ok=True)
            process = self.train(first, "run", "--epochs", "40", "--checkpoint-epochs", "1", start=True)
            self.wait_for_checkpoint(process)
            with contextlib.suppress(ProcessLookupError):
                for target in (self.ranks_of(process, first) or [])[:1] if first > 0 else [process.pid]:
                    os.kill(target, signal.SIGTERM)
            _, err = process.communicate(timeout=60)
            if not trained.exists():
                self.assertIn("contains the run so far", err)
                self.train(then, "run", "--epochs", "40", "--resume")
            self.compare("whole", "run", tolerance=1e-3)
            self.assertFalse((self.folder / "run.safetensors.checkpoint").exists())

    def test_a_killed_rank_ends_the_job_and_the_checkpoint_stays_good(self):
        process = self.begin_endless(2)
        os.kill(self.ranks_of(process, 2)[-1], signal.SIGKILL)
        process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        checkpoint = self.folder / "run.safetensors.checkpoint"
        before, end = checkpoint.stat().st_mtime_ns, time.monotonic() + 60
        resumed = self.train(2, "run", "--epochs", "100000", "--resume", "--checkpoint-epochs", "1", start=True)
        while checkpoint.stat().st_mtime_ns == before and time.monotonic() < end:
            time.sleep(0.05)
        os.kill(self.ranks_of(resumed, 2)[0], signal.SIGTERM)
        _, err = resumed.communicate(timeout=60)
        self.assertIn("contains the run so far", err)

    # ---- what is refused ----

    def test_other_data_at_one_rank(self):
        self.table("here")
        self.table("there")
        text = (self.folder / "there" / "d.csv").read_text()
        self.write("there/d.csv", text.replace("0.1", "0.2", 1))
        _, err = self.train(2, "m", expect=2, contexts=["here", "there"])
        self.assertEqual(len(self.said(err)), 1, err)
        self.assertRegex(self.said(err)[0], "rank 1 on .*d.csv differs from that of rank 0")
        self.assertFalse(list(self.folder.glob("*/m*")))

    def test_no_data_at_one_rank(self):
        self.table("here")
        (self.folder / "there").mkdir()
        _, err = self.train(2, "m", expect=2, contexts=["here", "there"])
        self.assertEqual(len(self.said(err)), 1, err)
        self.assertRegex(self.said(err)[0], "rank 1 on .*: d.csv: No such file")

    def test_a_folder_that_cannot_be_written(self):
        _, err = self.train(2, "/proc/self/m", expect=1)
        self.assertEqual(len(self.said(err)), 1, err)
        self.assertIn("/proc/self", self.said(err)[0])

    def test_more_ranks_than_rows_of_a_batch(self):
        _, err = self.train(4, "m", "--batch", "3", "--estimator", "biased", expect=2)
        self.assertEqual(len(self.said(err)), 1, err)
        self.assertIn("a batch of 3 rows cannot be divided among 4 ranks", err)

    def test_a_loss_that_is_no_number(self):
        _, err = self.train(2, "m", "--lr", "1e30", "--epochs", "50", expect=1)
        self.assertEqual(len(self.said(err)), 1, err)
        self.assertRegex(err, "in step .* which was not taken|no longer finite")


if __name__ == "__main__":
    unittest.main()
