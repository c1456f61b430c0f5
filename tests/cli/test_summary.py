"""scripts/summary.py on what ctest writes: what counts as passed, failed and skipped, and that no reason is lost."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SUMMARY = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "summary.py"


def case(name, status, inside="", out=""):
    return f'<testcase name="{name}" time="1.5" status="{status}">{inside}<system-out>{out}</system-out></testcase>'


def summary(*cases):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "report.xml"
        path.write_text("<testsuite>" + "".join(cases) + "</testsuite>")
        done = subprocess.run([sys.executable, "-B", SUMMARY, path], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


class Summary(unittest.TestCase):
    def test_counts_come_last(self):
        lines = summary(case("a", "run"), case("b", "fail", '<failure message="Timeout"/>'),
                        case("c", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>', "skipped: no MPI"))
        self.assertEqual(lines[-1], "1 passed, 1 failed, 1 skipped")
        self.assertIn("  b  Timeout", lines)

    def test_tests_skipped_for_one_reason_share_a_line(self):
        lines = summary(*(case(name, "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>', "skipped: 3 of 3: no MPI")
                          for name in "ab"))
        self.assertIn("Skipped: no MPI: a, b", lines)

    def test_cases_skipped_inside_a_test_are_listed(self):
        lines = summary(case("a", "run", out="[ OK ] x\nskipped: 2 of 9: no GPU\nskipped: 1 of 9: no data\n"))
        self.assertIn("  a  2 of 9 cases: no GPU", lines)
        self.assertIn("  a  1 of 9 cases: no data", lines)
        self.assertEqual(lines[-1], "1 passed, 0 failed, 0 skipped")

    def test_what_could_not_be_started_failed(self):
        lines = summary(case("a", "notrun", '<skipped message="Unable to find executable"/>'))
        self.assertEqual(lines[-1], "0 passed, 1 failed, 0 skipped")


if __name__ == "__main__":
    unittest.main()
