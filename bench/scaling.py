"""Milliseconds of the library's calls on 1, 2, 4, ... threads, on one machine, in one run.

CIRCE from cached features and from raw points, HSCIC, KCI and GCM steps, the training step of 9 layers of 64 on batches
of 256 without and with a regulariser, dense and low-rank fits, one eigendecomposition, and the tests kci, gcm and rcot.
Rounds go over all numbers of threads, so that a change of the machine's speed meets all of them alike. Calls go through the
Python package, which adds microseconds. Needs a build and NumPy.

    python3 bench/scaling.py [--build build] [--threads 1,2,4,8,16] [--seconds 0.5] [--rounds 2] [--only NAME,...]
                             [--json OUT] [--markdown]

The last rows are the machine's own limits: a case on one thread in each of as many processes at once, as the time that
one call would take if all of their processors shared it without loss. Processors that share a core or are unequally
fast, and a clock that slows down under load, show there: no program is more times faster. One case is our own loops,
one is products of matrices, by BLAS.

A table at the end: medians over all runs; how many times faster than one thread; "slower" where a number of threads
takes 5 % more than a smaller one. --json has each median with its quartiles; --markdown is the table of
docs/performance.md.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import common
from scaling_call import CASES

HERE = Path(__file__).resolve().parent
SLOW = {"fit_dense_2000", "eigen_2000", "fit_1000000", "fit_normal_1000000", "test_rcot_100000"}  # one run in every other round
TRAINING = "training"
STEPS = {"none": "training step 9x64, batch 256", "circe": "the same with CIRCE", "hscic": "with HSCIC", "gcm": "with GCM"}
LIMITS = {"separate_processes": ("circe_cached_1024_64", "*limit: as many processes, CIRCE cached, B = 1,024*"),
          "separate_products": ("hscic_1024_10d", "*limit: as many processes, HSCIC, 10-D*")}
TITLES = {**{name: title for name, (title, _) in CASES.items()},
          **{f"{TRAINING}_{name}": title for name, title in STEPS.items()},
          **{name: title for name, (_, title) in LIMITS.items()}}
SLOWER = 1.05


def parse():
    parser = common.parser(__doc__)
    parser.add_argument("--build", default="build", help="folder of the build [build]")
    parser.add_argument("--threads", default=None, help="numbers of threads [1,2,4,... up to the processors]")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each case, number of threads and round [0.5]")
    parser.add_argument("--rounds", type=int, default=2, help="over all numbers of threads [2]")
    parser.add_argument("--only", help="cases, separated by commas: " + ", ".join([*CASES, TRAINING]))
    parser.add_argument("--json", metavar="OUT", help="also write everything here")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    found = parser.parse_args()
    if found.threads is None:
        processors = len(os.sched_getaffinity(0))
        found.threads = [2 ** k for k in range(processors.bit_length()) if 2 ** k <= processors]
    else:
        found.threads = [int(text) for text in found.threads.split(",")]
    found.only = [*CASES, TRAINING] if found.only is None else found.only.split(",")
    unknown = set(found.only) - set(CASES) - {TRAINING}
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join([*CASES, TRAINING])}")
    return found


def start(build, *command):
    """A process on this build, with nothing in its environment that says otherwise about threads."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OMP_") and k != "OPENBLAS_NUM_THREADS"}
    return subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True,
                            env={**kept, "CIRCE_LIBRARY": str(build.resolve() / "libcirce.so")})


def found(process):
    """What it prints."""
    text = process.communicate()[0]
    if process.returncode != 0:
        sys.exit(f"scaling.py: {' '.join(process.args)} failed")
    return json.loads(text)


def start_call(build, case, threads, seconds):
    return start(build, sys.executable, HERE / "scaling_call.py", case, threads, seconds)


def time_training(build, threads):
    """The medians of `circe bench`: one number for each regulariser and round."""
    rows = found(start(build, build / "circe", "bench", "--quick", "--only", "train", "--threads", threads, "--json"))["train"]
    return {f"{TRAINING}_{row['regularizer']}": [row["median_ms"]] for row in rows if row["regularizer"] in STEPS}


def measure(options):
    build = Path(options.build)
    times = {}
    for case in options.only:
        for _ in range((options.rounds + 1) // 2 if case in SLOW else options.rounds):
            for threads in options.threads:
                print(f"{case}, {threads} threads", file=sys.stderr)
                seconds = 0.0 if case in SLOW else options.seconds
                taken = (time_training(build, threads) if case == TRAINING
                         else {case: found(start_call(build, case, threads, seconds))})
                for name, values in taken.items():
                    times.setdefault(name, {}).setdefault(threads, []).extend(values)
    for name, (case, _) in LIMITS.items():
        for threads in options.threads * options.rounds:
            times.setdefault(name, {}).setdefault(threads, []).append(
                time_processes(build, case, threads, options.seconds))
    return times


def time_processes(build, case, processes, seconds):
    """Milliseconds of one call, were all the processors of so many processes at work on it."""
    started = [start_call(build, case, 1, max(seconds, 0.3)) for _ in range(processes)]
    medians = [statistics.median(found(one)) for one in started]
    return 1.0 / sum(1.0 / median for median in medians)


def summary(values):
    ordered = sorted(values)
    quartile = len(ordered) // 4
    return {"median_ms": statistics.median(ordered), "lower_ms": ordered[quartile],
            "upper_ms": ordered[len(ordered) - 1 - quartile], "runs": len(ordered)}


def slower_on(medians, threads):
    return [t for k, t in enumerate(threads) if any(medians[t] > SLOWER * medians[s] for s in threads[:k])]


def line(name, medians, threads):
    first = medians[threads[0]]
    cells = [f"{medians[t]:9.3f}" for t in threads] + [f"{first / medians[t]:6.1f}" for t in threads[1:]]
    worse = slower_on(medians, threads)
    return f"{name:24}" + "".join(cells) + ("  slower on " + ", ".join(map(str, worse)) if worse else "")


def digits(milliseconds):
    """Three significant ones, thousands with a comma."""
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def print_markdown(results, threads):
    shown = [t for t in threads if t >= 8] or threads[1:]
    print("| | " + " | ".join(map(str, threads)) + " | " + " | ".join(f"×{t}" for t in shown) + " |")
    print("|---" * (1 + len(threads) + len(shown)) + "|")
    for name, by in results.items():
        medians = {t: by[t]["median_ms"] for t in threads}
        cells = [digits(medians[t]) for t in threads] + [f"{medians[threads[0]] / medians[t]:.1f}" for t in shown]
        print(f"| {TITLES[name]} | " + " | ".join(cells) + " |")


def main():
    options = parse()
    begin = time.monotonic()
    results = {name: {t: summary(v) for t, v in by.items()} for name, by in measure(options).items()}
    machine = {"machine": platform.machine(), "processors": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0],
               "seconds": round(time.monotonic() - begin, 1)}
    common.save(options, {"machine": machine, "threads": options.threads, "cases": results})
    if options.markdown:
        print_markdown(results, options.threads)
        return
    heads = [f"{t:>8}t" for t in options.threads] + [f"{'x' + str(t):>6}" for t in options.threads[1:]]
    print(f"{'milliseconds on threads':24}" + "".join(heads))
    for name, by in results.items():
        print(line(name, {t: by[t]["median_ms"] for t in options.threads}, options.threads))
    print(f"\n{machine['processors']} processors, load {machine['load']:.1f}, {machine['seconds']} s in all")


if __name__ == "__main__":
    main()
