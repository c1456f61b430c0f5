"""Runs one file of unittest tests: run_unittest.py NAME. Says what was skipped and why, one line per reason; ends with
status 1 where a test failed and 77 where all were skipped."""

import collections
import sys
import unittest


def main():
    tests = unittest.defaultTestLoader.loadTestsFromName(sys.argv[1])
    total = tests.countTestCases()
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(tests)
    reasons = collections.Counter(reason for _, reason in result.skipped)
    for reason, n in reasons.items():
        print(f"skipped: {n} of {total}: {reason}")
    if not result.wasSuccessful() or total == 0:
        return 1
    return 77 if len(result.skipped) == total else 0


if __name__ == "__main__":
    sys.exit(main())
