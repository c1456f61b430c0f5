"""Every command and every line of Python that the documentation shows is run, page by page, in the order in which a reader meets it.

A page has one folder and one Python session. In a console block a line that starts with "$ " is a command, and what follows is what
it prints. The width of columns may differ; "..." stands for anything, alone on a line for any lines. Numbers agree to 5 % or a unit of the
last digit, whichever is more: seeds are fixed, but processors and BLAS libraries round differently, and trainings carry that on. Times and
sizes of memory differ. A comment before a block, <!-- not run: why -->, leaves it out; <!-- needs: torch, data --> leaves it out where a
module, or the real tables (CIRCE_DATA), are missing; <!-- numbers differ: why --> compares the words alone. In Python, print(...)  # 0.71: says
the first number that is printed.

CIRCE_BINARY names the command, CIRCE_SOURCE the project. Only the standard library is needed; pages of Python need what they import."""

import ast
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
BLOCK = re.compile(r"(?:<!--\s*(not run|needs|numbers differ):\s*(.*?)\s*-->\s*\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|\b[nN][aA][nN]\b")
TIMEOUT_S = 300
sys.path.insert(0, str(SOURCE / "python"))
os.environ.setdefault("CIRCE_LIBRARY", str(BINARY.parent / "libcirce.so"))


MEASURED = re.compile(r"\s?(?:[mµn]?s|seconds?|minutes?|min|h|[kKMGT]i?B|bytes|rows/s)\b")  # after a number that differs from run to run


def plain(line):
    """A line without its spacing."""
    return " ".join(line.split())


def expected_pattern(lines):
    """What a command prints, as a pattern over plain lines with a group for every number; and these numbers as (text, whether it may
    differ)."""
    parts, numbers = [], []
    for line in map(plain, lines):
        if line == "...":
            parts.append(r"(?:.*\n)*?")
            continue
        at = 0
        for number in NUMBER.finditer(line):
            parts.append(re.escape(line[at:number.start()]).replace(r"\.\.\.", ".*") + f"({NUMBER.pattern})")
            numbers.append((number[0], MEASURED.match(line, number.end()) is not None))
            at = number.end()
        parts.append(re.escape(line[at:]).replace(r"\.\.\.", ".*") + r"\n")
    return re.compile("".join(parts) + r"\s*\Z"), numbers


def agrees(found, shown):
    """5 %, or a unit of the last digit shown."""
    if "nan" in (found.lower(), shown.lower()):
        return found.lower() == shown.lower()
    mantissa, _, exponent = shown.lower().replace(",", "").partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    value, wanted = float(found.replace(",", "")), float(shown.replace(",", ""))
    return abs(value - wanted) <= max(0.05 * abs(wanted), 1.001 * unit)


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
    def run_console(self, block, environment, compare):
        for command, lines in commands(block):
            done = subprocess.run(command, shell=True, executable="/bin/bash", env=environment, capture_output=True, text=True,
                                  timeout=TIMEOUT_S)
            printed = done.stdout + done.stderr
            if all(line.strip() in ("", "...") for line in lines):  # nothing is said of what it prints: it must work
                self.assertEqual(done.returncode, 0, f"$ {command}\n{printed}")
                continue
            shown = "".join(plain(line) + "\n" for line in printed.strip().splitlines())
            pattern, numbers = expected_pattern(lines)
            told = f"$ {command}\nprints\n{printed}\nand the page says\n" + "\n".join(lines)
            self.assertRegex(shown, pattern, told)
            other = [(found, wanted) for found, (wanted, differs) in zip(pattern.search(shown).groups(), numbers)
                     if compare and not differs and not agrees(found, wanted)]
            self.assertFalse(other, f"{told}\nof which these numbers (printed, shown) differ: {other}")

    def run_python(self, block, names, where, compare):
        """A comment that starts with a number, behind a print, says what it prints first."""
        lines = block.splitlines()
        for statement in ast.parse(block).body:
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(ast.Module([statement], []), where, "exec"), names)
            line = lines[statement.end_lineno - 1]
            shown = NUMBER.match(line.rpartition("#")[2].strip()) if compare and line.startswith("print(") and "#" in line else None
            if shown:
                found = NUMBER.search(said.getvalue())
                self.assertTrue(found and agrees(found[0], shown[0]), f"{line}\nprints\n{said.getvalue()}")

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
                    compare = mark != "numbers differ"
                    if language == "console":
                        self.run_console(block, environment, compare)
                    else:
                        self.run_python(block, names, where, compare)
                except ModuleNotFoundError as error:
                    if error.name.startswith("circe"):
                        raise
                    left_out.add(error.name)
        return left_out


class Comparison(unittest.TestCase):
    def test_numbers(self):
        pattern, numbers = expected_pattern(["a  1.25 of 300 rows, 3 s", "...", "p < 1e-3 nan ... 7"])
        found = pattern.search("a 1.30 of 300 rows, 90 s\nmore 5\np < 2e-3 nan and so 7\n")
        self.assertEqual([text for text, _ in numbers], ["1.25", "300", "3", "1e-3", "nan", "7"])
        self.assertEqual([differs for _, differs in numbers], [False, False, True, False, False, False])
        self.assertEqual(list(found.groups()), ["1.30", "300", "90", "2e-3", "nan", "7"])
        self.assertIsNone(pattern.search("b 1.30 of 300 rows, 90 s\np < 2e-3 nan and 7\n"))
        for found, shown, near in (("1.27", "1.25", True), ("1.33", "1.25", False), ("-0.1", "0.1", False), ("2e-12", "1e-12", True), ("1,050", "1,000", True),
                                   ("1,060", "1,000", False), ("4e-12", "1e-12", False), ("nan", "0.5", False), ("0.001", "0.003", False), ("0.002", "0.003", True), ("3", "4", True), ("3", "5", False)):
            self.assertEqual(agrees(found, shown), near, (found, shown))

    def test_prints(self):
        page = Pages()
        page.run_python("x = 0.5\nprint(x)  # 0.51: near\n", {}, "", True)
        with self.assertRaises(AssertionError):
            page.run_python("x = 0.5\nprint(x)  # 0.71: far\n", {}, "", True)
        page.run_python("x = 0.5\nprint(x)  # 0.71: far\n", {}, "", False)


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
