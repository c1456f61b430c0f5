#!/usr/bin/env python3
"""The real command against everything that goes wrong outside of it, for so many seconds, with a count at the end.

    tests/torture/torture.py --sanitized build-asan/circe --plain build/circe --seconds 1200

Every trial has its own random numbers, made of the seed, the campaign and the number of the trial: what is found is told
with the command that repeats it. Findings make the exit status 1. Only the Python standard library is needed."""

import argparse
import collections
import concurrent.futures
import itertools
import os
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback

from inputs import Commands, Files, Numbers
from surroundings import Disk, Kills, Locales, Memory
from trial import Finding, Slow, Trial

CAMPAIGNS = {"files": Files, "commands": Commands, "numbers": Numbers, "kills": Kills, "disk": Disk, "memory": Memory,
             "locales": Locales}


class Runner:
    """A campaign with its prepared folder, which every trial gets a copy of."""

    def __init__(self, name, options, root):
        self.name, self.options, self.campaign = name, options, CAMPAIGNS[name]()
        self.binary = str(pathlib.Path(options.sanitized if self.campaign.sanitized else options.plain).resolve())
        self.outcomes, self.findings = collections.Counter(), []
        self.lock, self.spent, self.root = threading.Lock(), 0.0, root
        self.prepared = root / ("prepared-" + name)
        self.prepared.mkdir()
        self.campaign.prepare(Trial(random.Random(0), self.prepared, self.binary))

    def run(self, number):
        draw = random.Random("%d:%s:%d" % (self.options.seed, self.name, number))
        folder = self.root / ("%s-%d" % (self.name, number))
        shutil.copytree(self.prepared, folder)
        trial, began, found = Trial(draw, folder, self.binary), time.monotonic(), None
        try:
            self.campaign.one(trial)
        except Slow:
            trial.outcome = "slow"
        except Finding as finding:
            trial.outcome, found = "FOUND", str(finding)
        except Exception:  # a mistake of a campaign's must not pass for a success
            trial.outcome, found = "FOUND", "the campaign itself failed:\n" + traceback.format_exc()
        shutil.rmtree(folder, ignore_errors=True)
        with self.lock:
            self.spent += time.monotonic() - began
            self.outcomes[trial.outcome] += 1
            if found:
                self.findings.append(found)
                print("FOUND by %s, trial %d: %s\n  again: %s" % (self.name, number, found, self.again(number)), flush=True)

    def again(self, number):
        return "%s --sanitized %s --plain %s --seed %d --only %s --trial %d" % (
            sys.argv[0], self.options.sanitized, self.options.plain, self.options.seed, self.name, number)


def next_runner(runners):
    """The one that is farthest behind its share of the time."""
    return min(runners, key=lambda runner: runner.spent / runner.campaign.share)


def work(runners, numbers, end):
    while time.monotonic() < end and sum(len(r.findings) for r in runners) < 50:
        runner = next_runner(runners)
        with runner.lock:
            number = next(numbers[runner.name])
            runner.spent += 1e-3  # so that two workers do not both wait for the slowest
        runner.run(number)


def report(runners, seed):
    print("\n%-10s %7s %9s  %s" % ("campaign", "trials", "findings", "what became of them"))
    for runner in runners:
        words = ", ".join("%d %s" % (n, word) for word, n in runner.outcomes.most_common())
        print("%-10s %7d %9d  %s" % (runner.name, sum(runner.outcomes.values()), len(runner.findings), words))
    findings = sum(len(runner.findings) for runner in runners)
    print("%d trials, %d findings, seed %d" % (sum(sum(r.outcomes.values()) for r in runners), findings, seed))
    return 1 if findings else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sanitized", default="build-asan/circe", help="the command built with sanitizers")
    parser.add_argument("--plain", default="build/circe", help="the command as people use it")
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time, printed")
    parser.add_argument("--only", choices=CAMPAIGNS, help="this campaign alone")
    parser.add_argument("--trial", type=int, help="this trial alone, with --only and --seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(10 ** 6)
    print("seed %d, %g s, %d at a time" % (options.seed, options.seconds, options.jobs), flush=True)
    with tempfile.TemporaryDirectory(prefix="circe-torture-") as root:
        names = [options.only] if options.only else list(CAMPAIGNS)
        runners = [Runner(name, options, pathlib.Path(root)) for name in names]
        if options.trial is not None:
            runners[0].run(options.trial)
            return report(runners, options.seed)
        numbers = {name: itertools.count() for name in names}
        end = time.monotonic() + options.seconds
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for done in [pool.submit(work, runners, numbers, end) for _ in range(options.jobs)]:
                done.result()
        return report(runners, options.seed)


if __name__ == "__main__":
    sys.exit(main())
