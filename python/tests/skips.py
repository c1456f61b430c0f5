"""A plugin for pytest that run.py loads: says what was skipped and why, one line per reason, and ends with status 77 where
everything was. A file that is skipped as a whole counts as one test."""

import collections

SKIPPED = 77


def count(reporter):
    skipped = reporter.stats.get("skipped", [])
    others = sum(len(reporter.stats.get(kind, [])) for kind in ("passed", "failed", "error", "xfailed", "xpassed"))
    reasons = collections.Counter(report.longrepr[2].removeprefix("Skipped: ").split(": No module")[0] for report in skipped)
    return reasons, len(skipped), others


def pytest_sessionfinish(session, exitstatus):
    _, skipped, others = count(session.config.pluginmanager.get_plugin("terminalreporter"))
    if skipped > 0 and others == 0 and exitstatus in (0, 5):  # 5: nothing was collected
        session.exitstatus = SKIPPED


def pytest_terminal_summary(terminalreporter):
    reasons, skipped, others = count(terminalreporter)
    for reason, n in reasons.items():
        terminalreporter.write_line(f"skipped: {n} of {skipped + others}: {reason}")
