"""`circe train --images` and `circe predict --images`, on the real command: pictures by the paths in a .csv and in
arrays, that they are the same however they come, and that bad input gets a clear answer.

Only the Python standard library is needed. CIRCE_BINARY names the command to test."""

import csv
import fcntl
import io
import json
import os
import pty
import random
import signal
import struct
import subprocess
import termios
import time
import unittest
import zipfile
import zlib

from cli_support import BINARY, CliTest, npy_bytes
from test_train_cli import csv_text, tensors

ROWS, WIDTH, HEIGHT = 240, 20, 16
NET = "conv8s2,pool2,16"
SMALL = ["--net", NET, "--epochs", "2", "--batch", "32", "--threads", "1", "--no-report"]
TASK = ["--target", "height", "--invariant-to", "light", "--gamma", "10", *SMALL]


def pictures(n, seed):
    """A white disc on a grey ground: its height is what is to be told, with noise that the picture alone cannot undo;
    the ground follows the height, and with it helps, but must not count."""
    draw = random.Random(seed)
    made = []
    for _ in range(n):
        height = draw.random()
        light = min(1, max(0, height + draw.gauss(0, 0.15)))
        row = 3 + 9 * min(1, max(0, height + draw.gauss(0, 0.1)))
        column = draw.uniform(4, 15)
        pixels = bytes(255 if (y - row) ** 2 + (x - column) ** 2 < 7 else int(150 * light)
                       for y in range(HEIGHT) for x in range(WIDTH))
        made.append({"pixels": pixels, "height": round(height, 6), "light": round(light, 6),
                     "side": "left" if column < 9.5 else "right"})
    return made


def pgm(pixels, width=WIDTH, height=HEIGHT):
    return b"P5 %d %d 255\n" % (width, height) + pixels


def ppm(pixels, width=WIDTH, height=HEIGHT):
    return b"P6 %d %d 255\n" % (width, height) + pixels


def png(pixels, width=WIDTH, height=HEIGHT):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    lines = b"".join(b"\0" + pixels[y * width:(y + 1) * width] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def array(shape, payload, dtype="|u1", fortran=False):
    """A .npy of these bytes."""
    text = "{'descr': '%s', 'fortran_order': %s, 'shape': %r, }" % (dtype, fortran, tuple(shape))
    text = text.ljust((len(text) + 11) // 64 * 64 + 53) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + payload


class ImagesTest(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = pictures(ROWS, 1)
        (cls.path / "set" / "pictures").mkdir(parents=True)
        for i, row in enumerate(cls.rows):
            row["file"] = "pictures/%03d.pgm" % i
            cls.write("set/" + row["file"], pgm(row["pixels"]))
        cls.write_table("set/all.csv", cls.rows)
        cls.write_npz("all.npz", cls.rows)

    @classmethod
    def write_table(cls, name, rows, columns=("file", "height", "light", "side")):
        return cls.write(name, csv_text(rows, columns))

    @classmethod
    def write_npz(cls, name, rows, images=None, method=zipfile.ZIP_DEFLATED):
        """imgs, and the arrays height and light."""
        if images is None:
            images = array((len(rows), HEIGHT, WIDTH), b"".join(row["pixels"] for row in rows))
        with zipfile.ZipFile(cls.path / name, "w", method) as archive:
            archive.writestr("imgs.npy", images)
            for column in ("height", "light"):
                archive.writestr(column + ".npy", npy_bytes([row[column] for row in rows]))
        return name

    def train(self, images, *options, out="m.safetensors"):
        """TASK with other values of some options, and more of them."""
        arguments = ["train", "--images", images, *TASK, "-o", out]
        for name, value in zip(options[::2], options[1::2]):
            if name in arguments:
                arguments[arguments.index(name) + 1] = value
            else:
                arguments += [name, value]
        return arguments

    def weights(self, name):
        """The numbers of a model."""
        return tensors((self.path / name).read_bytes())[1]

    def trained(self, images, *options, out="m.safetensors"):
        """Without a network to compare with, which would be trained, too."""
        alone = () if "none" in options else ("--baseline", "none")
        self.succeed(*self.train(images, *alone, *options, out=out), "--quiet")
        return self.weights(out)

    def predict(self, model, images, *options):
        text = self.succeed("predict", "--model", model, "--images", images, *options).stdout
        return [float(row["height"]) for row in csv.DictReader(io.StringIO(text))]


class ResultTest(ImagesTest):
    LONG = ("--epochs", "40", "--lr", "5e-3")

    def test_it_learns_and_becomes_invariant(self):
        free = self.as_json(*self.train("set/all.csv", *self.LONG, "--regularizer", "none"))
        # A picture tells the height to a share of 0.12 of its variance by the disc, 0.08 with the ground.
        self.assertLess(free["error"]["mse_standardised"], 0.35)
        ground = self.as_json(*self.train("set/all.csv", *self.LONG, "--gamma", "1000"))
        self.assertLess(ground["error"]["mse_standardised"], 0.7)
        found = ground["comparison"]
        self.assertLess(found["network"]["kpc"]["value"], found["baseline"]["kpc"]["value"])
        self.assertGreater(found["difference"]["value"], 0)

    def test_predict_says_what_training_said(self):
        arguments = [word for word in self.train("set/all.csv") if word != "--no-report"]
        result = self.as_json(*arguments)
        kept = list(csv.DictReader(io.StringIO((self.path / "m-report" / "predictions.csv").read_text())))
        again = self.predict("m.safetensors", "set/all.csv")
        self.assertEqual((len(kept), len(again)), (36, ROWS))
        for row in kept:
            self.assertAlmostEqual(float(row["prediction of height"]), again[int(row["row"])], places=5)
            self.assertAlmostEqual(float(row["height"]), self.rows[int(row["row"])]["height"], places=5)
        errors = [(float(row["prediction of height"]) - float(row["height"])) ** 2 for row in kept]
        self.assertAlmostEqual(result["error"]["mse"], sum(errors) / len(errors), places=6)
        for images in ("set/all.csv", "all.npz"):
            said = self.as_json("predict", "--model", "m.safetensors", "--images", images)
            self.assertEqual(said["images"], images)
            column, = said["error"]["columns"]
            errors = [(one - row["height"]) ** 2 for one, row in zip(again, self.rows)]
            self.assertAlmostEqual(column["mse"], sum(errors) / ROWS, places=6)
        page = (self.path / "m-report" / "report.html").read_text()
        for word in ("Prediction of height", "240 of 20 by 16 pixels, grey, kept as bytes", "invariant to light"):
            self.assertIn(word, page)

    def test_json_and_text(self):
        result = self.as_json(*self.train("set/all.csv"))
        self.assertEqual(result["features"], [])
        self.assertEqual(result["rows"], {"training": 180, "validation": 24, "test": 36, "holdout": 0,
                                          "conditional_mean": 180, "dropped": 0})
        about = result["settings"]["images"]
        self.assertEqual((about["file"], about["path_column"], about["images"]), ("set/all.csv", "file", ROWS))
        self.assertEqual((about["channels"], about["height"], about["width"]), (1, HEIGHT, WIDTH))
        self.assertEqual(result["settings"]["net"], NET)
        text = self.succeed(*self.train("set/all.csv")).stdout
        for word in ("240 of 20 by 16 pixels, grey, kept as bytes (0.0768 MB)", "error of height", NET + ", relu",
                     "with the regulariser"):
            self.assertIn(word, text)

    def test_default_network(self):
        arguments = [word for word in self.train("set/all.csv", out="default.safetensors")
                     if word not in ("--no-report", "--net", NET)]
        result = self.as_json(*arguments)
        self.assertEqual(result["settings"]["net"], "conv16s2,conv32s2,pool2,128,64")
        self.assertIn("\nnet: conv16s2,conv32s2,pool2,128,64\n",
                      (self.path / "default-report" / "run.yaml").read_text())
        self.succeed("train", "--config", "default-report/run.yaml", "-o", "again.safetensors", "--no-report")
        self.assertEqual(self.weights("again.safetensors"), self.weights("default.safetensors"))

    def test_run_again_from_its_configuration(self):
        arguments = [word for word in self.train("set/all.csv", "--seed", "3", out="first.safetensors")
                     if word != "--no-report"]
        self.succeed(*arguments)
        self.succeed("train", "--config", "first-report/run.yaml", "-o", "again.safetensors", "--no-report")
        self.assertEqual((self.path / "first.safetensors").read_bytes(),
                         (self.path / "again.safetensors").read_bytes())

    def test_given_and_layers(self):
        result = self.as_json(*self.train("set/all.csv", "--given", "side", "--layers", "3,output"))
        self.assertEqual(result["settings"]["given"], ["side"])
        self.assertTrue(0.5 < result["floor"] < 1.5)
        self.refuse(2, ["--layers", "'conv9'", "0 to 6"], *self.train("set/all.csv", "--layers", "conv9"))

    def test_classes(self):
        result = self.as_json(*self.train("set/all.csv", "--target", "side", "--epochs", "30", "--lr", "5e-3",
                                          "--gamma", "0.01"))
        self.assertGreater(result["error"]["accuracy"], 0.8)
        text = self.succeed("predict", "--model", "m.safetensors", "--images", "set/all.csv").stdout
        found = [row["side"] for row in csv.DictReader(io.StringIO(text))]
        self.assertGreater(sum(a == b["side"] for a, b in zip(found, self.rows)) / ROWS, 0.8)

    def test_progress_on_a_terminal(self):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = subprocess.Popen([BINARY, *self.train("set/all.csv")], cwd=self.path, stdout=subprocess.DEVNULL,
                                   stderr=slave, stdin=subprocess.DEVNULL)
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 65536):
                shown += piece
        except OSError:  # the other end is closed
            pass
        os.close(master)
        self.assertEqual(process.wait(), 0)
        self.assertIn(b"100%  reading images", shown)


class SameTest(ImagesTest):
    """However the pictures come, the same numbers are learnt."""

    def test_arrays(self):
        expected = self.trained("set/all.csv")
        self.assertEqual(self.trained("all.npz"), expected)
        payload = b"".join(row["pixels"] for row in self.rows)
        wide = struct.pack(">%dh" % len(payload), *payload)
        for name, images in (("last", array((ROWS, HEIGHT, WIDTH, 1), payload)),
                             ("first", array((ROWS, 1, HEIGHT, WIDTH), payload)),
                             ("short", array((ROWS, HEIGHT, WIDTH), wide, ">i2"))):
            self.write_npz(name + ".npz", self.rows, images, zipfile.ZIP_STORED)
            self.assertEqual(self.trained(name + ".npz"), expected, name)
        self.write("plain.npy", array((ROWS, HEIGHT, WIDTH), payload))
        self.assertEqual(self.trained("plain.npy", "--labels", "set/all.csv"), expected)
        self.assertEqual(self.trained("all.npz", "--labels", "set/all.csv", "--array", "imgs"), expected)
        self.assertEqual(self.trained("set/all.csv", "--seed", "1") == expected, False)

    def test_columns_of_arrays(self):
        self.write_npz("two.npz", self.rows)
        with zipfile.ZipFile(self.path / "two.npz", "a") as archive:
            archive.writestr("labels.npy", npy_bytes([[row["light"], row["height"]] for row in self.rows]))
        self.assertEqual(self.trained("two.npz", "--target", "labels:1", "--invariant-to", "labels:0"),
                         self.trained("set/all.csv", out="other.safetensors"))
        said = self.as_json("predict", "--model", "m.safetensors", "--images", "two.npz")
        self.assertEqual((said["outputs"], said["error"]["columns"][0]["rows"]), (["labels:1"], ROWS))
        said = self.as_json("predict", "--model", "m.safetensors", "--images", "all.npz")
        self.assertEqual(said["error"], None)
        self.refuse(2, ["two.npz", "'labels'", "0 to 1"], *self.train("two.npz", "--target", "labels:2"))

    def test_pictures_of_other_formats_and_threads(self):
        for i, row in enumerate(self.rows):
            self.write("set/pictures/%03d.png" % i, png(row["pixels"]))
        rows = [dict(row, path=str(self.path / row["file"].replace(".pgm", ".png").replace("pictures", "set/pictures")))
                for row in self.rows]
        self.write_table("png.csv", rows, ("path", "height", "light", "side"))
        one = self.trained("png.csv", "--path-column", "path")
        self.assertEqual(one, self.trained("set/all.csv"))
        result = self.as_json(*self.train("png.csv", "--path-column", "path", "--threads", "2"))
        self.assertLess(result["error"]["mse_standardised"], 5)
        self.assertEqual(self.predict("m.safetensors", "png.csv"), self.predict("m.safetensors", "png.csv"))

    def test_colour(self):
        """Grey pictures as coloured ones are grey ones; a set with one coloured picture is coloured."""
        rows = [dict(row, file="pictures/%03d.ppm" % i) for i, row in enumerate(self.rows)]
        for row in rows:
            self.write("set/" + row["file"], ppm(bytes(v for v in row["pixels"] for _ in range(3))))
        self.write_table("set/colour.csv", rows)
        self.assertEqual(self.trained("set/colour.csv", "--channels", "1"), self.trained("set/all.csv"))
        expected = self.trained("set/colour.csv", out="colour.safetensors")
        self.assertEqual(self.trained("set/all.csv", "--channels", "3", out="three.safetensors"), expected)
        mixed = self.rows[:-1] + rows[-1:]
        self.write_table("set/mixed.csv", mixed)
        self.assertEqual(self.trained("set/mixed.csv"), expected)
        payload = b"".join(bytes(v for v in row["pixels"] for _ in range(3)) for row in self.rows)
        self.write_npz("colour.npz", self.rows, array((ROWS, HEIGHT, WIDTH, 3), payload))
        self.assertEqual(self.trained("colour.npz"), expected)
        self.assertEqual(self.trained("colour.npz", "--channels", "1"), self.trained("set/all.csv"))
        planes = b"".join(3 * row["pixels"] for row in self.rows)
        self.write_npz("planes.npz", self.rows, array((ROWS, 3, HEIGHT, WIDTH), planes))
        self.assertEqual(self.trained("planes.npz"), expected)
        self.assertEqual(self.predict("three.safetensors", "set/all.csv"),
                         self.predict("three.safetensors", "colour.npz"))
        self.trained("set/all.csv", out="grey.safetensors")
        self.refuse(2, ["set/colour.csv", "colour", "grey", "--channels 1"], "predict", "--model", "grey.safetensors",
                    "--images", "set/colour.csv")

    def test_channels_keep_their_order(self):
        """Red alone follows the height."""
        payload = b"".join(bytes([v, 7, 200]) for row in self.rows for v in row["pixels"])
        planes = b"".join(row["pixels"] + bytes([7]) * (WIDTH * HEIGHT) + bytes([200]) * (WIDTH * HEIGHT)
                          for row in self.rows)
        self.write_npz("red.npz", self.rows, array((ROWS, HEIGHT, WIDTH, 3), payload))
        self.write_npz("red-planes.npz", self.rows, array((ROWS, 3, HEIGHT, WIDTH), planes))
        for i, row in enumerate(self.rows):
            self.write("set/pictures/red%03d.ppm" % i, ppm(bytes(b for v in row["pixels"] for b in (v, 7, 200))))
        self.write_table("set/red.csv", [dict(row, file="pictures/red%03d.ppm" % i) for i, row in enumerate(self.rows)])
        expected = self.trained("red.npz")
        self.assertEqual(self.trained("red-planes.npz"), expected)
        self.assertEqual(self.trained("set/red.csv"), expected)

    def test_bits(self):
        """0 and 1, of bytes and of bool; and a larger number that comes late makes bytes of them."""
        binary = [dict(row, pixels=bytes(v == 255 for v in row["pixels"])) for row in self.rows]
        payload = b"".join(row["pixels"] for row in binary)
        self.write_npz("bits.npz", binary)
        self.write_npz("bool.npz", binary, array((ROWS, HEIGHT, WIDTH), payload, "|b1"))
        result = self.as_json(*self.train("bits.npz", "--epochs", "20", "--lr", "5e-3", out="bits.safetensors"))
        self.assertEqual(result["settings"]["images"]["kept_as"], "bits")
        self.assertLess(result["error"]["mse_standardised"], 0.6)
        self.assertEqual(self.trained("bool.npz"), self.trained("bits.npz"))
        white = [dict(row, pixels=bytes(255 * v for v in row["pixels"])) for row in binary]
        self.write_npz("white.npz", white)
        known = self.predict("bits.safetensors", "bits.npz")
        for one, other in zip(self.predict("bits.safetensors", "bool.npz"), known):
            self.assertEqual(one, other)
        self.refuse(2, ["white.npz", "picture 0", "255", "0 or 1"], "predict", "--model", "bits.safetensors",
                    "--images", "white.npz")
        for i, row in enumerate(white[:20]):
            self.write("set/pictures/white%03d.pgm" % i, pgm(row["pixels"]))
        self.write_table("set/white.csv", [{"file": "pictures/white%03d.pgm" % i} for i in range(20)], ("file",))
        for one, other in zip(self.predict("bits.safetensors", "set/white.csv"), known):
            self.assertAlmostEqual(one, other, places=4)
        late = bytearray(payload)
        late[-1] = 2
        self.write_npz("late.npz", self.rows, array((ROWS, HEIGHT, WIDTH), bytes(late)))
        for i, row in enumerate(binary):
            pixels = row["pixels"] if i < ROWS - 1 else row["pixels"][:-1] + b"\2"
            self.write("set/pictures/late%03d.pgm" % i, pgm(pixels))
        self.write_table("set/late.csv", [dict(row, file="pictures/late%03d.pgm" % i)
                                          for i, row in enumerate(self.rows)])
        self.assertEqual(self.trained("late.npz"), self.trained("set/late.csv"))
        # A model of bytes takes a file that happens to hold 0 and 1 for bytes too.
        self.write_npz("dark.npz", binary[:3])
        self.write_table("set/dark.csv", [{"file": "pictures/late%03d.pgm" % i} for i in range(3)], ("file",))
        self.assertEqual(self.predict("m.safetensors", "dark.npz"), self.predict("m.safetensors", "set/dark.csv"))
        self.trained("late.npz")
        self.assertEqual(self.predict("m.safetensors", "dark.npz"), self.predict("m.safetensors", "set/dark.csv"))

    def test_floats(self):
        self.trained("set/all.csv", "--epochs", "5")
        expected = self.predict("m.safetensors", "set/all.csv")
        flat = [v / 255 for row in self.rows for v in row["pixels"]]
        for name, code, dtype in (("f4", "f", "<f4"), ("f8", "d", ">f8")):
            order = dtype[0]
            images = array((ROWS, HEIGHT, WIDTH), struct.pack("%s%d%s" % (order, len(flat), code), *flat), dtype)
            self.write_npz(name + ".npz", self.rows, images)
            for one, other in zip(self.predict("m.safetensors", name + ".npz"), expected):
                self.assertAlmostEqual(one, other, places=4)
        result = self.as_json(*self.train("f4.npz", "--channels", "3"))
        self.assertEqual((result["settings"]["images"]["kept_as"], result["settings"]["images"]["channels"]),
                         ("floats", 3))
        self.refuse(2, ["f4.npz", "floats", "not resized"], *self.train("f4.npz", "--image-size", "8"))
        flat[HEIGHT * WIDTH + 3] = 1.5
        self.write_npz("bright.npz", self.rows, array((ROWS, HEIGHT, WIDTH), struct.pack("<%df" % len(flat), *flat),
                                                      "<f4"))
        self.refuse(2, ["bright.npz", "picture 1", "1.5", "0 to 1"], *self.train("bright.npz"))

    def test_a_picture_that_is_named_often_is_kept_once(self):
        rows = [dict(row, file=self.rows[i % 10]["file"]) for i, row in enumerate(self.rows)]
        self.write_table("set/often.csv", rows)
        self.assertEqual(self.as_json(*self.train("set/often.csv"))["settings"]["images"]["images"], 10)

    def test_rows_that_are_dropped(self):
        """Images stay with their rows."""
        holes = [dict(row) for row in self.rows]
        holes[3]["height"] = holes[17]["light"] = ""
        self.write_table("set/holes.csv", holes)
        whole = [row for i, row in enumerate(self.rows) if i not in (3, 17)]
        self.write_table("set/whole.csv", whole)
        expected = self.trained("set/whole.csv")
        self.assertEqual(self.trained("set/holes.csv", "--missing", "drop"), expected)
        self.assertEqual(self.trained("all.npz", "--labels", "set/holes.csv", "--missing", "drop"), expected)
        holes[3] = dict(self.rows[3], file="")
        self.write_table("set/holes.csv", holes)
        self.assertEqual(self.trained("set/holes.csv", "--missing", "drop"), expected)
        self.refuse(2, ["set/holes.csv", "row 3", "'file'", "--missing drop"], *self.train("set/holes.csv"))
        self.refuse(2, ["set/holes.csv", "row 3", "'file'", "--missing empty"], "predict", "--model", "m.safetensors",
                    "--images", "set/holes.csv")
        text = self.succeed("predict", "--model", "m.safetensors", "--images", "set/holes.csv", "--missing",
                            "empty").stdout.split("\n")
        full = self.succeed("predict", "--model", "m.safetensors", "--images", "set/all.csv").stdout.split("\n")
        self.assertEqual([bool(line) for line in text[1:6]], [True, True, True, False, True])
        for one, other in zip(text[5:ROWS + 1], full[5:ROWS + 1]):
            self.assertAlmostEqual(float(one), float(other), places=5)

    def test_resized(self):
        rows = [dict(row, file="pictures/%03d-%d.pgm" % (i, 1 + i % 2)) for i, row in enumerate(self.rows)]
        for i, row in enumerate(rows):
            pixels = row["pixels"]
            if i % 2:  # every pixel four times
                pixels = b"".join(bytes(v for v in pixels[y * WIDTH:(y + 1) * WIDTH] for _ in range(2)) * 2
                                  for y in range(HEIGHT))
            self.write("set/" + row["file"], pgm(pixels, WIDTH * (1 + i % 2), HEIGHT * (1 + i % 2)))
        self.write_table("set/sizes.csv", rows)
        self.refuse(2, ["set/sizes.csv", "row 1", "001-2.pgm", "40 by 32", "000-1.pgm", "20 by 16", "--image-size"],
                    *self.train("set/sizes.csv"))
        result = self.as_json(*self.train("set/sizes.csv", "--image-size", "10x8", "--epochs", "20", "--lr", "5e-3"))
        self.assertEqual((result["settings"]["images"]["width"], result["settings"]["images"]["height"]), (10, 8))
        self.assertLess(result["error"]["mse_standardised"], 0.6)
        large = self.predict("m.safetensors", "set/sizes.csv")
        for one, other in zip(large, self.predict("m.safetensors", "all.npz")):  # resized from other sizes
            self.assertAlmostEqual(one, other, delta=0.1)
        self.assertEqual(self.trained("all.npz", "--image-size", "10x8"),
                         self.trained("set/all.csv", "--image-size", "10x8"))
        self.trained("set/all.csv", out="fixed.safetensors")
        few = self.write_table("set/few.csv", [row for row in rows if row["file"].endswith("-2.pgm")])
        self.refuse(2, ["set/few.csv", "40 by 32", "20 by 16", "--image-size"], "predict", "--model",
                    "fixed.safetensors", "--images", few)


class WeightsTest(ImagesTest):
    def test_of_a_network_of_its_kind(self):
        self.trained("set/all.csv", "--regularizer", "none", "--epochs", "20", "--lr", "5e-3", out="body.safetensors")
        cold = self.as_json(*self.train("set/all.csv", "--lr", "1e-9"))
        warm = self.as_json(*self.train("set/all.csv", "--lr", "1e-9", "--weights", "body.safetensors"))
        self.assertEqual(warm["settings"]["weights"], "body.safetensors")
        self.assertNotEqual(warm["error"], cold["error"])
        data = (self.path / "body.safetensors").read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + length])
        kept = data[8 + length:][slice(*header["0.weight"]["data_offsets"])]
        self.succeed(*self.train("set/all.csv", "--lr", "1e-9", "--weights", "body.safetensors", out="w.safetensors"))
        data = (self.path / "w.safetensors").read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        first = data[8 + length:][slice(*json.loads(data[8:8 + length])["0.weight"]["data_offsets"])]
        for one, other in zip(struct.unpack("<%df" % (len(kept) // 4), kept),
                              struct.unpack("<%df" % (len(first) // 4), first)):
            self.assertAlmostEqual(one, other, places=5)
        other = ["--net", "conv4s2,pool2,16"]
        self.refuse(2, ["body.safetensors", "'0.weight'", "(8, 1, 3, 3)", "(4, 1, 3, 3)"],
                    *self.train("set/all.csv", "--weights", "body.safetensors", *other))
        self.refuse(2, ["body.safetensors", "'2.weight'"],
                    *self.train("set/all.csv", "--weights", "body.safetensors", "--net", "conv8s2,conv8,16"))
        self.refuse(2, ["nosuch.safetensors"], *self.train("set/all.csv", "--weights", "nosuch.safetensors"))
        self.refuse(2, ["set/all.csv"], *self.train("set/all.csv", "--weights", "set/all.csv"))

    def test_resnet18_sees_three_channels(self):
        """Grey pictures are shown as red, green and blue; torchvision's names, checked."""
        few = self.write_table("set/few.csv", self.rows[:48])
        result = self.as_json(*self.train(few, "--net", "resnet18", "--batch", "8", "--epochs", "1", "--validation",
                                          "0.25", "--test", "0.25"))
        self.assertEqual(result["settings"]["images"]["channels"], 3)
        data = (self.path / "m.safetensors").read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + length])
        self.assertEqual(header["conv1.weight"]["shape"], [64, 3, 7, 7])
        self.assertIn("layer4.1.bn2.running_var", header)
        self.assertEqual(len(self.predict("m.safetensors", few)), 48)
        header["another"] = header.pop("layer2.0.downsample.0.weight")
        del header["__metadata__"]
        text = json.dumps(header).encode()
        self.write("cut.safetensors", struct.pack("<Q", len(text)) + text + data[8 + length:])
        self.refuse(2, ["cut.safetensors", "'layer2.0.downsample.0.weight'"],
                    *self.train(few, "--net", "resnet18", "--batch", "8", "--weights", "cut.safetensors",
                                "--validation", "0.25", "--test", "0.25"))
        self.refuse(2, ["--layers", "'fc'", "avgpool", "fc.3", "output"],
                    *self.train(few, "--net", "resnet18", "--batch", "8", "--layers", "fc", "--validation", "0.25",
                                "--test", "0.25"))


class ResumeTest(ImagesTest):
    LONG = ("--epochs", "300", "--batch", "64", "--net", "conv4s2,pool2,16")

    def test_killed_and_resumed_is_uninterrupted(self):
        whole, out = "whole.safetensors", "cut.safetensors"
        checkpoint = self.path / (out + ".checkpoint")
        self.succeed(*self.train("set/all.csv", *self.LONG, out=whole), "--quiet")
        draw = random.Random(5)
        for resume in ((), ("--resume",)):
            process = subprocess.Popen([BINARY, *self.train("set/all.csv", *self.LONG, "--checkpoint-epochs", "3",
                                                            out=out), "--quiet", *resume],
                                       cwd=self.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
            end = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < end:
                if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                    break
                time.sleep(0.002)
            time.sleep(draw.uniform(0, 0.03))
            process.send_signal(signal.SIGKILL)
            errors = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, -signal.SIGKILL, errors)
            self.assertTrue(checkpoint.exists())
        good = checkpoint.read_bytes()
        pixel = (self.path / "set" / self.rows[0]["file"])
        kept = pixel.read_bytes()
        pixel.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
        self.refuse(2, ["another run", "the data differ"], *self.train("set/all.csv", *self.LONG, out=out), "--resume")
        pixel.write_bytes(kept)
        self.assertEqual(checkpoint.read_bytes(), good)
        result = self.as_json(*self.train("set/all.csv", *self.LONG, out=out), "--quiet", "--resume")
        self.assertTrue(result["resumed"])
        self.assertEqual((self.path / out).read_bytes(), (self.path / whole).read_bytes())


class BadInputTest(ImagesTest):
    def refuse_file(self, words, content):
        """A set whose picture 7 is this file (None: there is none)."""
        name = self.path / "set" / "pictures" / "bad.pgm"
        name.unlink(missing_ok=True)
        if content is not None:
            name.write_bytes(content)
        rows = [dict(row) for row in self.rows]
        rows[7]["file"] = "pictures/bad.pgm"
        self.write_table("set/bad.csv", rows)
        self.refuse(2, ["set/bad.csv", "row 7", "set/pictures/bad.pgm", *words], *self.train("set/bad.csv"))
        self.assertFalse((self.path / "m.safetensors").exists())

    def test_pictures(self):
        good = pgm(self.rows[7]["pixels"])
        self.refuse_file(["No such file"], None)
        self.refuse_file(["empty"], b"")
        self.refuse_file(["not a picture"], b"hello, this is no picture")
        self.refuse_file([], good[:-1])
        self.refuse_file([], png(self.rows[7]["pixels"])[:-30])
        self.refuse_file(["10 by 4", "20 by 16", "--image-size"], pgm(bytes(40), 10, 4))
        # Of several, the first is named, whatever the threads do.
        rows = [dict(row, file=row["file"] if i < 5 else "pictures/none%d.pgm" % i) for i, row in enumerate(self.rows)]
        self.write_table("set/bad.csv", rows)
        self.refuse(2, ["row 5", "none5.pgm"], *self.train("set/bad.csv", "--threads", "2"))

    def test_tables(self):
        self.refuse(2, ["nosuch.csv"], *self.train("nosuch.csv"))
        self.refuse(2, ["set", "is a folder", ".csv"], *self.train("set"))
        self.refuse(2, ["pictures.txt", ".csv", ".npz"], *self.train("pictures.txt"))
        self.write_table("set/path.csv", [dict(row, path=row["file"]) for row in self.rows], ("path", "height", "light"))
        self.refuse(2, ["'file'", "'path'", "--path-column"], *self.train("set/path.csv"))
        self.refuse(2, ["'height'", "numbers", "paths"], *self.train("set/all.csv", "--path-column", "height"))
        self.refuse(2, ["'hight'", "did you mean 'height'"], *self.train("set/all.csv", "--target", "hight"))
        self.refuse(2, ["--features"], *self.train("set/all.csv"), "--features", "light")
        self.refuse(2, ["--data", "--images"], *self.train("set/all.csv"), "--data", "set/all.csv")
        self.refuse(2, ["--labels", "array"], *self.train("set/all.csv"), "--labels", "set/all.csv")
        self.refuse(2, ["--array", ".npz"], *self.train("set/all.csv"), "--array", "imgs")
        self.refuse(2, ["--path-column"], *self.train("all.npz"), "--path-column", "file")
        self.refuse(2, ["--image-size", "224", "96x64", "8x"], *self.train("set/all.csv", "--image-size", "8x"))
        self.refuse(2, ["--channels", "1|3"], *self.train("set/all.csv", "--channels", "2"))
        self.refuse(2, ["--images", "required"], "train", *TASK, "-o", "m.safetensors")
        self.refuse(2, ["--net", "conv"], *self.train("set/all.csv", "--net", "conv8s2,pol2"))
        self.refuse(2, ["--net"], *self.train("set/all.csv", "--net", "9xconv8s2,9xpool2,8"))
        self.refuse(2, ["180 rows", "batch of 512", "--batch"], *self.train("set/all.csv", "--batch", "512"))
        self.refuse(1, ["pictures of 4096 by 4096", "4.0 GB"],
                    *self.train("set/all.csv", "--image-size", "4096", "--memory", "100K"))

    def test_arrays(self):
        payload = b"".join(row["pixels"] for row in self.rows)
        self.write_table("set/less.csv", self.rows[:-2])
        self.refuse(2, ["all.npz", "240 pictures", "238 rows", "set/less.csv"],
                    *self.train("all.npz", "--labels", "set/less.csv"))
        self.refuse(2, ["all.npz", "'frames'", "'imgs'"], *self.train("all.npz", "--array", "frames"))
        self.refuse(2, ["all.npz", "'posY'", "'height'"], *self.train("all.npz", "--target", "posY"))
        self.write("plain.npy", array((ROWS, HEIGHT, WIDTH), payload))
        self.refuse(2, ["--labels", "required", "plain.npy"], *self.train("plain.npy"))

        def refuse(words, images):
            self.write_npz("bad.npz", self.rows, images)
            self.refuse(2, ["bad.npz", *words], *self.train("bad.npz"))

        refuse(["(240, 320)", "(n, height, width)"], array((ROWS, HEIGHT * WIDTH), payload))
        refuse(["(240, 4, 4, 20)", "1 or 3 channels"], array((ROWS, 4, 4, WIDTH), payload))
        refuse(["Fortran", "ascontiguousarray"], array((ROWS, HEIGHT, WIDTH), payload, fortran=True))
        refuse(["damaged", "(240, 16, 20)"], array((ROWS, HEIGHT, WIDTH), payload[:-1]))
        many = struct.pack("<%dh" % len(payload), *payload[:-1], 256)
        refuse(["picture 239", "256", "0 to 255"], array((ROWS, HEIGHT, WIDTH), many, "<i2"))
        less = struct.pack("<%dh" % len(payload), -1, *payload[1:])
        refuse(["picture 0", "-1", "0 to 255"], array((ROWS, HEIGHT, WIDTH), less, "<i2"))
        refuse(["text"], array((ROWS, HEIGHT, WIDTH), payload, "|S1"))
        whole = (self.path / "all.npz").read_bytes()
        for name, content, words in (("cut", whole[:-30], []), ("text", b"hello", []), ("none", b"", ["empty"])):
            self.write(name + ".npz", content)
            self.refuse(2, [name + ".npz", *words], *self.train(name + ".npz", "--labels", "set/all.csv"))
        flipped = bytearray(whole)
        at = whole.index(b"imgs.npy") + 2000
        flipped[at] ^= 255
        self.write("flip.npz", bytes(flipped))
        self.refuse(2, ["flip.npz"], *self.train("flip.npz", "--labels", "set/all.csv"))

    def test_models_of_the_other_kind(self):
        self.trained("set/all.csv", out="images.safetensors")
        self.succeed("train", "--data", "set/all.csv", "--features", "light", "--target", "height", "--regularizer",
                     "none", "--epochs", "1", "--batch", "32", "--no-report", "-o", "table.safetensors")
        self.refuse(2, ["images.safetensors", "images of 20 by 16", "not from a table", "--images"], "predict",
                    "--model", "images.safetensors", "--data", "set/all.csv")
        self.refuse(2, ["table.safetensors", "light", "not from images", "--data"], "predict", "--model",
                    "table.safetensors", "--images", "set/all.csv")
        self.refuse(2, ["images.safetensors", "--images"], "predict", "--model", "images.safetensors")
        self.refuse(2, ["--data and --images"], "predict", "--model", "images.safetensors", "--images", "set/all.csv",
                    "--data", "set/all.csv")
        self.refuse(2, ["set/all.csv", "'fil'", "did you mean 'file'"], "predict", "--model", "images.safetensors",
                    "--images", "set/all.csv", "--path-column", "fil")
        note = self.succeed("train", "--data", "set/all.csv", "--features", "light", "--target", "height",
                            "--regularizer", "none", "--epochs", "1", "--batch", "32", "--no-report", "-o",
                            "table.safetensors", "--image-size", "9")
        self.assertIn("--image-size was ignored", note.stderr)

    def test_interrupted(self):
        process = subprocess.Popen([BINARY, *self.train("all.npz", "--epochs", "100000")], cwd=self.path,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(0.3)
        process.terminate()
        self.assertIn("interrupted", process.communicate(timeout=60)[1])
        self.assertEqual(process.returncode, 1)
        self.assertFalse((self.path / "m.safetensors").exists())


class HelpTest(CliTest):
    def test_pages(self):
        for command, words in (("train", ("--images FILE", "--path-column", "--array", "--labels", "--image-size",
                                          "--channels", "--weights", "photos.csv")),
                               ("predict", ("--images FILE", "--labels"))):
            text = self.succeed(command, "--help").stdout
            for word in words:
                self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main()
