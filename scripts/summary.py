"""What passed, failed and was skipped, with the reasons: summary.py FILE, as written by ctest --output-junit.

A test that skips prints "skipped: REASON", or "skipped: N of M: REASON" where some of its M cases did not run. The last line is
"N passed, N failed, N skipped", counted in tests of ctest.
"""

import re
import sys
import textwrap
import xml.etree.ElementTree as xml

LINE = re.compile(r"^skipped: (?:(\d+) of (\d+): )?(.+)$", re.M)


def read(path):
    """Of each test: its name, passed, failed or skipped, seconds, and [(skipped cases or None, all cases or None, reason)]."""
    tests = []
    for case in xml.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        kind = {"run": "passed", "notrun": "skipped", "disabled": "skipped"}.get(status, "failed")
        out = case.findtext("system-out") or ""
        reasons = [tuple(found) for found in dict.fromkeys(LINE.findall(out))]
        failure = case.find("failure")
        if kind == "skipped" and not reasons:
            reasons = [("", "", case.find("skipped").get("message") if case.find("skipped") is not None else status)]
            # Only what asks to be skipped is: a program that is not there, or a fixture that failed, is a failure.
            if not reasons[0][2].startswith("SKIP"):
                kind, failure = "failed", case.find("skipped")
        why = failure.get("message") if failure is not None else ""
        tests.append((case.get("name"), kind, float(case.get("time", 0)), reasons, why or ""))
    return tests


def show(title, rows):
    if not rows:
        return
    print(title)
    width = min(30, max(len(name) for name, _ in rows))
    for name, text in rows:
        lines = textwrap.wrap(text, 116 - width) or [""]
        print(f"  {name:{width}}  {lines[0]}".rstrip())
        for line in lines[1:]:
            print(" " * (width + 4) + line)


def together(tests):
    """Tests that were skipped for one reason share a line."""
    names = {}
    for name, _, _, reasons, _ in tests:
        for _, _, reason in reasons:
            names.setdefault(reason, []).append(name)
    return [(", ".join(found), reason) for reason, found in names.items()]


def main():
    tests = read(sys.argv[1])
    passed, failed, skipped = ([test for test in tests if test[1] == kind] for kind in ("passed", "failed", "skipped"))
    show("Failed:", [(name, why) for name, _, _, _, why in failed])
    for names, reason in together(skipped):
        print("\n".join(textwrap.wrap(f"Skipped: {reason}: {names}", 120, subsequent_indent="    ")))
    show("Skipped in part:", [(name, f"{n} of {m} cases: {reason}") for name, _, _, reasons, _ in passed + failed
                              for n, m, reason in reasons])
    slow = sorted(passed, key=lambda test: -test[2])[:3]
    if slow:
        print("Longest:", ", ".join(f"{name} {seconds:.0f} s" for name, _, seconds, _, _ in slow))
    print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")


if __name__ == "__main__":
    main()
