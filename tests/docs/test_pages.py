"""Every command and every line of Python that the documentation shows is run, page by page, in the order in which a reader meets it.

A page has one folder and one Python session. In a console block a line that starts with "$ " is a command, and what follows is what
it prints. Numbers may differ, and so may the width of columns; "..." stands for anything, alone on a line for any lines. A comment before a block,
<!-- not run: why -->, leaves it out; <!-- needs: torch, data --> leaves it out where a module, or the real tables (CIRCE_DATA), are missing.

CIRCE_BINARY names the command, CIRCE_SOURCE the project. Only the standard library is needed; pages of Python need what they import."""

import contextlib
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("CIRCE_SOURCE", pathlib.Path(__file__).parents[2]))
BINARY = pathlib.Path(os.environ.get("CIRCE_BINARY", SOURCE / "build" / "circe")).resolve()
PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(?:<!--\s*(not run|needs):\s*(.*?)\s*-->\s*\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?|\bnan\b", re.I)
TIMEOUT_S = 300
sys.path.insert(0, str(SOURCE / "python"))
os.environ.setdefault("CIRCE_LIBRARY", str(BINARY.parent / "libcirce.so"))


def plain(line):
    """A line without its numbers and its spacing."""
    return " ".join(NUMBER.sub("#", line).split())


def expected_pattern(lines):
    """What a command prints, as a pattern over plain lines."""
    parts = [r"(?:.*\n)*?" if line.strip() == "..." else re.escape(plain(line)).replace(r"\.\.\.", ".*") + r"\n" for line in lines]
    return re.compile("".join(parts) + r"\s*\Z")


def commands(block):
    """(command, lines that it prints) of a console block."""
    found, open_line = [], False
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif open_line:
            found[-1][0] += "\n" + line
        elif found:
            found[-1][1].append(line)
        open_line = (line.startswith("$ ") or open_line) and line.endswith("\\")
    return found


def missing(needs):
    """The first of these that is not here; None: all are."""
    for name in filter(None, re.split(r"[,\s]+", needs)):
        there = "CIRCE_DATA" in os.environ if name == "data" else importlib.util.find_spec(name) is not None
        if not there:
            return name
    return None


class Pages(unittest.TestCase):
    def run_console(self, block, environment):
        for command, lines in commands(block):
            done = subprocess.run(command, shell=True, executable="/bin/bash", env=environment, capture_output=True, text=True,
                                  timeout=TIMEOUT_S)
            printed = done.stdout + done.stderr
            if all(line.strip() in ("", "...") for line in lines):  # nothing is said of what it prints: it must work
                self.assertEqual(done.returncode, 0, f"$ {command}\n{printed}")
                continue
            shown = "".join(plain(line) + "\n" for line in printed.strip().splitlines())
            self.assertRegex(shown, expected_pattern(lines), f"$ {command}\nprints\n{printed}\nand the page says\n" + "\n".join(lines))

    def run_python(self, block, names, where):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block, where, "exec"), names)

    def run_page(self, path):
        """Returns what was missing for blocks that were left out."""
        text = path.read_text()
        environment = {**os.environ, "PATH": f"{BINARY.parent}:{os.environ['PATH']}", "COLUMNS": "80"}
        names, left_out = {"__name__": "__main__"}, set()
        for match in BLOCK.finditer(text):
            mark, note, language, block = match.groups()
            if language not in ("console", "python") or mark == "not run":
                continue
            absent = missing(note) if mark == "needs" else None
            if absent or (left_out and language == "python"):  # what follows builds on what was left out
                left_out.add(absent or min(left_out))
                continue
            where = f"{path.relative_to(SOURCE)}, line {text[: match.start()].count(chr(10)) + 1}"
            with self.subTest(where):
                try:
                    self.run_console(block, environment) if language == "console" else self.run_python(block, names, where)
                except ModuleNotFoundError as error:
                    if error.name.startswith("circe"):
                        raise
                    left_out.add(error.name)
        return left_out


def add_page(path):
    def test(self):
        with tempfile.TemporaryDirectory() as folder:
            before = os.getcwd()
            os.chdir(folder)
            try:
                left_out = self.run_page(path)
            finally:
                os.chdir(before)
        if left_out:
            self.skipTest(f"blocks left out, for want of {', '.join(sorted(left_out))}")

    name = re.sub(r"\W+", "_", str(path.relative_to(SOURCE).with_suffix("")))
    setattr(Pages, f"test_{name}", test)


for page in PAGES:
    if re.search(r"^```(console|python)$", page.read_text(), re.M):
        add_page(page)

if __name__ == "__main__":
    unittest.main()
