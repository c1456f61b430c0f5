"""Does the prediction depend on an attribute once the target is known? Public tables with a protected or nuisance attribute, and
drawn pictures; networks trained by circe with its defaults (gamma auto), with other regularisers, against an adversary, and
fairlearn's reductions. All is judged on fresh rows that no method has seen.

    PYTHONPATH=python python3 bench/invariance.py --data ../shared/data --library build/libcirce.so --jobs 2 --output invariance.jsonl
    python3 bench/invariance.py --summary invariance.jsonl --out docs

Every run is written as it ends, as one line of JSON; runs that are in the output already are not repeated. --summary prints
tables in Markdown and, with --out, leaves results/invariance.csv and figures/invariance.svg there. docs/invariance.md has the results.
A method whose packages are missing (torch, fairlearn) is left out, with a line that says so.
"""

from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != HERE] + [HERE]  # Python's csv before csv.py

import argparse  # noqa: E402
import json  # noqa: E402
import multiprocessing  # noqa: E402
import time  # noqa: E402

import invariance_methods as methods  # noqa: E402
import invariance_tasks as tasks  # noqa: E402

FIRST = ("none", "circe")


def run(job):
    """One task, one seed, one method: a dictionary, whatever happens."""
    import warnings

    import circe

    import invariance_judge as judge

    name, seed, method, folder = job
    warnings.simplefilter("ignore")
    circe.set_threads(1)
    row = {"task": name, "seed": seed, "method": method}
    try:
        task = tasks.cut(name, seed, folder)
        began, cpu = time.time(), time.process_time()
        found = methods.METHODS[method](task, seed)
        row.update(seconds=time.time() - began, cpu_seconds=time.process_time() - cpu)
        row.update(judge.judged(task, found))
    except Exception as failure:
        row["failed"] = f"{type(failure).__name__}: {failure}"
    return row


def planned(names, seeds, chosen, folder, done):
    """What is left to do, what matters most first: no regulariser and CIRCE on everything, then the others seed by seed."""
    first = [(name, seed, method) for seed in seeds for method in FIRST for name in names]
    rest = [(name, seed, method) for seed in seeds for method in chosen for name in names if method not in FIRST]
    for name, seed, method in first + rest:
        applies = name == "invented" or methods.inapplicable(method, tasks.TASKS[name]) is None
        if method in chosen and applies and (name, seed, method) not in done:
            yield name, seed, method, folder


def usable(chosen):
    for method in chosen:
        reason = methods.missing(method)
        if reason:
            print(f"invariance.py: left out: {reason}", file=sys.stderr)
        else:
            yield method


def rows_of(path):
    if not os.path.exists(path):
        return []
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.strip()]


def study(options) -> int:
    """Runs what is left to do; returns how many runs failed."""
    began, failed = time.time(), 0
    done = {(row["task"], row["seed"], row["method"]) for row in rows_of(options.output) if "failed" not in row}
    jobs = list(planned(options.tasks, options.seeds, list(usable(options.methods)), options.data, done))
    pool = multiprocessing.get_context("spawn").Pool(options.jobs)
    results = pool.imap_unordered(run, jobs)
    with open(options.output, "a") as out:
        for count in range(len(jobs)):
            try:
                row = results.next(None if options.limit is None else max(0.01, options.limit - (time.time() - began)))
            except multiprocessing.TimeoutError:
                print(f"invariance.py: stopped after {options.limit:g} s with {count} of {len(jobs)} runs done", file=sys.stderr)
                break
            out.write(json.dumps(row) + "\n")
            out.flush()
            failed += "failed" in row
            text = row.get("failed") or f"error {row.get('error', row.get('wrong')):.4f}  kci {row['p_kci']:.2g}  gcm {row['p_gcm']:.2g}"
            print(f"{row['task']:>20} {row['seed']} {row['method']:>10}  {text}", flush=True)
    pool.terminate()
    pool.join()
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=";".join(tasks.TASKS), help="separated by semicolons [all]; invented: a small one for a trial")
    parser.add_argument("--methods", default=",".join(methods.METHODS), help="[%(default)s]")
    parser.add_argument("--seeds", default="21,22,23,24,25", help="[%(default)s]")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side, of one thread each [1]")
    parser.add_argument("--data", default=os.environ.get("CIRCE_DATA"), help="folder of the tables [$CIRCE_DATA]")
    parser.add_argument("--library", help="libcirce.so, with libcirce_jobs.so beside it [the package's]")
    parser.add_argument("--limit", type=float, metavar="S", help="stop after S seconds and keep what is done")
    parser.add_argument("--output", default="invariance.jsonl", help="[%(default)s]")
    parser.add_argument("--summary", metavar="FILE", help="print the tables of a file and run nothing")
    parser.add_argument("--out", metavar="DIR", help="with --summary: write results/invariance.csv and figures/invariance.svg there")
    options = parser.parse_args()
    if options.summary:
        import invariance_summary

        return invariance_summary.main(rows_of(options.summary), options.out)
    options.tasks, options.methods = options.tasks.split(";"), options.methods.split(",")
    options.seeds = [int(seed) for seed in options.seeds.split(",")]
    for kind, given, known in (("task", options.tasks, [*tasks.TASKS, "invented"]), ("method", options.methods, methods.METHODS)):
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"{unknown[0]!r} is not a {kind}; there are {', '.join(map(repr, known))}")
    if options.data is None and any(name != "invented" and tasks.TASKS[name].file for name in options.tasks):
        parser.error("--data or CIRCE_DATA must name the folder of the tables")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    if options.library:
        os.environ["CIRCE_LIBRARY"] = os.path.abspath(options.library)
    return 1 if study(options) else 0


if __name__ == "__main__":
    sys.exit(main())
