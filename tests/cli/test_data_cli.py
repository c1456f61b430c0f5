"""`circe data` on the real command: the sets it writes, that nothing is overwritten or left half done, and its messages.

Only the Python standard library is needed. CIRCE_BINARY names the command to test."""

import json
import os
import pathlib
import pty
import re
import resource
import signal
import struct
import subprocess
import time
import unittest
import zlib

from cli_support import BINARY, CliTest

LAMPS = {(0, 0), (0, 20), (0, 45), (0, 90), (0, -20), (0, -35)} | {
    (side * a, e) for side in (1, -1) for a, e in (
        (5, 10), (5, -10), (10, 0), (10, -20), (15, 20), (20, 10), (20, -10), (20, -40), (25, 0), (35, 15), (35, 40),
        (35, 65), (35, -20), (50, 0), (50, -40), (60, 20), (60, -20), (70, 0), (70, 45), (70, -35), (85, 20), (85, -20),
        (95, 0), (110, 15), (110, 40), (110, 65), (110, -20), (120, 0), (130, 20))}


def read_png(data):
    """Width, height and the grey pixels of an 8-bit .png, from the format's own description."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
        if kind == b"IDAT":
            packed += body
        at += 12 + length
    assert (depth, colour) == (8, 0)
    raw, rows, last = zlib.decompress(packed), [], bytes(width)
    for r in range(height):
        kind, line = raw[r * (width + 1)], bytearray(raw[r * (width + 1) + 1:(r + 1) * (width + 1)])
        for c in range(width):
            left, up, corner = line[c - 1] if c else 0, last[c], last[c - 1] if c else 0
            guess = left + up - corner
            nearest = min((left, up, corner), key=lambda v: abs(guess - v))
            line[c] = (line[c] + (0, left, up, (left + up) // 2, nearest)[kind]) & 255
        rows.append(bytes(line))
        last = line
    return width, height, rows


class DataTest(CliTest):
    FACES = ("--identities", "2", "--size", "24")

    def files(self, folder):
        return {str(p.relative_to(self.path / folder)): p.read_bytes()
                for p in (self.path / folder).rglob("*") if p.is_file()}

    def test_faces_are_in_the_published_layout(self):
        result = self.as_json("data", "faces", "-o", "layout", *self.FACES, "--sheet", "layout.png")
        self.assertEqual((result["data"], result["pictures"], result["width"], result["height"], result["sheet"]),
                         ("faces", 1152, 21, 24, "layout.png"))
        files = self.files("layout")
        self.assertEqual(len(files), 1152)
        seen = set()
        for name, data in files.items():
            match = re.fullmatch(r"(yaleB1[12])/\1_P0([0-8])A([+-]\d{3})E([+-]\d\d)\.pgm", name)
            self.assertTrue(match, name)
            seen.add((match[1], int(match[2]), (int(match[3]), int(match[4]))))
            self.assertTrue(data.startswith(b"P5\n21 24\n255\n") and len(data) == 13 + 21 * 24, name)
        self.assertEqual(seen, {(who, pose, lamp) for who in ("yaleB11", "yaleB12") for pose in range(9) for lamp in LAMPS})
        width, height, rows = read_png((self.path / "layout.png").read_bytes())
        self.assertGreater(len({v for row in rows for v in row}), 100)  # a picture, not paper

    def test_a_seed_is_a_set(self):
        for folder, seed, threads in (("s1", 1, 1), ("s2", 1, 2), ("s3", 2, 2)):
            self.succeed("data", "faces", "-o", folder, "--identities", 1, "--size", 16, "--seed", seed, "--threads", threads)
        self.assertEqual(self.files("s1"), self.files("s2"))
        self.assertNotEqual(self.files("s1"), self.files("s3"))

    def test_output_says_what_was_written(self):
        result = self.succeed("data", "faces", "-o", "words", *self.FACES)
        self.assertRegex(result.stdout, r"^Wrote 1152 pictures of 21 by 24 pixels to words in [\d.]+ m?s\.\n$")
        self.assertEqual(result.stderr, "")
        self.assertEqual(self.succeed("data", "faces", "-o", "words", *self.FACES, "--force", "--quiet").stdout, "")

    def test_a_folder_with_something_in_it_is_not_touched(self):
        (self.path / "full").mkdir()
        self.write("full/notes.txt", "mine")
        self.refuse(2, ["full: the folder is not empty (it contains notes.txt)", "hint: --force"], "data", "faces", "-o", "full",
                    *self.FACES)
        self.assertEqual(self.files("full"), {"notes.txt": b"mine"})
        self.succeed("data", "faces", "-o", "full", *self.FACES, "--force")
        self.assertEqual(len(self.files("full")), 1153)

    def test_ctrl_c_leaves_nothing(self):
        process = subprocess.Popen([BINARY, "data", "faces", "-o", "stopped"], cwd=self.path, stderr=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        while not (self.path / "stopped").exists():
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=100)
        self.assertEqual((process.returncode, out), (1, ""))
        self.assertIn("interrupted; nothing was written", error)
        self.assertFalse((self.path / "stopped").exists())

    def test_a_full_disk_is_told(self):
        """A limit on the size of files stands for a full disk."""
        result = self.run_circe("data", "faces", "-o", "toobig", *self.FACES,
                                preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                                                    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"yaleB11_P00A\S+\.pgm: cannot be written: File too large")
        self.assertFalse((self.path / "toobig").exists())

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_no_permission(self):
        (self.path / "locked").mkdir(mode=0o555)
        self.refuse(1, ["locked/faces: cannot be written: Permission denied"], "data", "faces", "-o", "locked/faces")
        (self.path / "locked2").mkdir(mode=0o555)
        self.refuse(1, ["locked2: cannot be written: Permission denied"], "data", "faces", "-o", "locked2")

    def test_a_bar_on_a_terminal(self):
        ours, theirs = pty.openpty()
        process = subprocess.Popen([BINARY, "data", "faces", "-o", "bar", *self.FACES], cwd=self.path, stderr=theirs,
                                   stdout=subprocess.DEVNULL)
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:
            pass
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertIn(b"rendering heads", shown)
        self.assertIn(b"100%", shown)

    def test_sheets(self):
        self.succeed("data", "faces", "-o", "sheets", *self.FACES)
        result = self.as_json("data", "contact-sheet", "--from", "sheets", "-o", "again.png")
        width, height, _ = read_png((self.path / "again.png").read_bytes())
        self.assertEqual((result["width"], result["height"]), (width, height))
        self.refuse(2, ["contact-sheet needs --from"], "data", "contact-sheet", "-o", "x.png")
        self.refuse(2, ["--from nowhere: No such file"], "data", "contact-sheet", "--from", "nowhere", "-o", "x.png")
        (self.path / "vain").mkdir()
        self.refuse(2, ["vain: it contains no picture with a name like yaleB11_P00A+000E+00.pgm"], "data", "contact-sheet", "--from", "vain", "-o",
                    "x.png")
        self.refuse(1, ["no folder no"], "data", "contact-sheet", "--from", "sheets", "-o", "no/x.png")
        self.write("vain/yaleB11_P00A+000E+00.pgm", b"P5 4 4 255 abc")
        self.refuse(2, ["vain/yaleB11_P00A+000E+00.pgm: cut short"], "data", "contact-sheet", "--from", "vain", "-o", "x.png")
        self.assertFalse((self.path / "x.png").exists())

    def test_command_lines(self):
        self.refuse(2, ["which set?", "circe data faces"], "data", "-o", "x")
        self.refuse(2, ["there is no set 'sprites'", "circe data dsprites"], "data", "sprites", "-o", "x")
        self.refuse(2, ["-o PATH is required"], "data", "faces")
        self.refuse(2, ["--identities must be between 1 and 28, not 29"], "data", "faces", "-o", "x", "--identities", 29)
        self.refuse(2, ["--size must be between 16 and 1024, not 8"], "data", "faces", "-o", "x", "--size", 8)
        self.refuse(2, ["--size has no meaning for dsprites"], "data", "dsprites", "-o", "x.npz", "--size", 64)
        self.refuse(2, ["--from has no meaning for faces"], "data", "faces", "-o", "x", "--from", "y")
        self.refuse(1, ["--sheet no/x.png", "no folder no"], "data", "faces", "-o", "x", "--sheet", "no/x.png")
        self.refuse(1, ["no/x: cannot be written: No such file"], "data", "faces", "-o", "no/x")
        self.assertFalse((self.path / "x").exists())

    def test_dsprites_does_not_overwrite(self):
        self.write("there.npz", "mine")
        self.refuse(2, ["there.npz: the file already exists", "hint: --force"], "data", "dsprites", "-o", "there.npz")
        self.refuse(1, ["no folder no"], "data", "dsprites", "-o", "no/x.npz")
        self.assertEqual((self.path / "there.npz").read_bytes(), b"mine")
        self.refuse(2, ["there.npz"], "data", "contact-sheet", "--from", "there.npz", "-o", "x.png")


if __name__ == "__main__":
    unittest.main()
