"""Milliseconds of the library's calls on 1, 2, 4, ... threads, on one machine, in one run.

CIRCE from cached features and from raw points, HSCIC, KCI and GCM steps, the training step of 9 layers of 64 on batches
of 256 without and with a regulariser, dense and low-rank fits, one eigendecomposition, and the tests kci, gcm and rcot.
Rounds go over all numbers of threads, so that a change of the machine's speed meets all of them alike. Needs a build
and a C compiler, and nothing from PyPI.

    python3 bench/scaling.py [--build build] [--threads 1,2,4,8,16] [--seconds 0.5] [--rounds 2] [--only NAME,...]
                             [--json OUT]

The last row is the machine's own limit: the first case on one thread in each of as many processes at once, as the time
that one of them would take with all of their processors. Processors that share a core, or a clock that slows down under
load, show there: no program is that many times faster.

A table at the end: medians over all runs; how many times faster than one thread; "slower" where a number of threads
takes 5 % more than a smaller one. --json has each median with its quartiles.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CASES = ["circe_cached_1024_64", "circe_raw_1024_1", "circe_cached_4096_64", "hscic_1024", "hscic_1024_10d", "kci_1024",
         "gcm_1024", "gcm_1024_10d", "fit_dense_2000", "eigen_2000", "fit_5898", "fit_1000000",
         "fit_normal_1000000", "test_kci_1000", "test_kci_4000", "test_gcm_4000", "test_rcot_100000"]
SLOW = {"fit_dense_2000", "eigen_2000", "fit_1000000", "fit_normal_1000000"}  # one run in a round
TRAINING = "training"
SLOWER = 1.05


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder of the build [build]")
    parser.add_argument("--threads", default=None, help="numbers of threads [1,2,4,... up to the processors]")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each case, number of threads and round [0.5]")
    parser.add_argument("--rounds", type=int, default=2, help="over all numbers of threads [2]")
    parser.add_argument("--only", help="cases, separated by commas: " + ", ".join(CASES + [TRAINING]))
    parser.add_argument("--json", metavar="OUT", help="also write everything here")
    found = parser.parse_args()
    if found.threads is None:
        processors = len(os.sched_getaffinity(0))
        found.threads = [2 ** k for k in range(processors.bit_length()) if 2 ** k <= processors]
    else:
        found.threads = [int(text) for text in found.threads.split(",")]
    found.only = CASES + [TRAINING] if found.only is None else found.only.split(",")
    unknown = set(found.only) - set(CASES) - {TRAINING}
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(CASES + [TRAINING])}")
    return found


def run(command, threads):
    """What a command prints, with nothing in its environment that says otherwise about threads."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OMP_") and k != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=kept)
    if done.returncode != 0:
        sys.exit(f"scaling.py: {command[0]} with {threads} threads failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def compile_calls(build):
    """bench/scaling.c against the build's shared library."""
    library = next(iter(sorted(build.glob("libcirce.so*"))), None)
    if library is None:
        sys.exit(f"scaling.py: {build} has no libcirce.so; build the project first")
    program = build / "scaling"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-std=c17", f"-I{HERE.parent / 'include'}", HERE / "scaling.c",
                    library, f"-Wl,-rpath,{build.resolve()}", "-lm", "-o", program], check=True)
    return program


def time_call(program, case, threads, seconds):
    return {case: run([program, case, threads, seconds], threads)["milliseconds"]}


def time_training(circe, threads):
    """The medians of `circe bench`: one number for each regulariser and round."""
    rows = run([circe, "bench", "--quick", "--only", "train", "--threads", threads, "--json"], threads)["train"]
    wanted = ("none", "circe", "hscic", "gcm")
    return {f"{TRAINING}_{row['regularizer']}": [row["median_ms"]] for row in rows if row["regularizer"] in wanted}


def measure(options):
    build = Path(options.build)
    program = compile_calls(build)
    times = {}
    for case in options.only:
        for _ in range(options.rounds):
            for threads in options.threads:
                print(f"{case}, {threads} threads", file=sys.stderr)
                seconds = 0.0 if case in SLOW else options.seconds
                found = (time_training(build / "circe", threads) if case == TRAINING
                         else time_call(program, case, threads, seconds))
                for name, values in found.items():
                    times.setdefault(name, {}).setdefault(threads, []).extend(values)
    for threads in options.threads * options.rounds:
        times.setdefault("separate_processes", {}).setdefault(threads, []).append(
            time_processes(program, threads, options.seconds))
    return times


def time_processes(program, processes, seconds):
    """Milliseconds of one call, were all the processors of so many processes at work on it."""
    command = [str(program), CASES[0], "1", str(max(seconds, 0.3))]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    medians = [statistics.median(json.loads(one.communicate()[0])["milliseconds"]) for one in started]
    return statistics.mean(medians) / processes


def summary(values):
    ordered = sorted(values)
    quartile = len(ordered) // 4
    return {"median_ms": statistics.median(ordered), "lower_ms": ordered[quartile],
            "upper_ms": ordered[len(ordered) - 1 - quartile], "runs": len(ordered)}


def line(name, medians, threads):
    first = medians[threads[0]]
    cells = [f"{medians[t]:9.3f}" for t in threads] + [f"{first / medians[t]:6.1f}" for t in threads[1:]]
    worse = [t for k, t in enumerate(threads) if any(medians[t] > SLOWER * medians[s] for s in threads[:k])]
    return f"{name:24}" + "".join(cells) + ("  slower on " + ", ".join(map(str, worse)) if worse else "")


def main():
    options = parse()
    begin = time.monotonic()
    results = {name: {t: summary(v) for t, v in by.items()} for name, by in measure(options).items()}
    machine = {"machine": platform.machine(), "processors": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0],
               "seconds": round(time.monotonic() - begin, 1)}
    if options.json:
        Path(options.json).write_text(json.dumps({"machine": machine, "threads": options.threads, "cases": results},
                                                 indent=1) + "\n")
    heads = [f"{t:>8}t" for t in options.threads] + [f"{'x' + str(t):>6}" for t in options.threads[1:]]
    print(f"{'milliseconds on threads':24}" + "".join(heads))
    for name, by in results.items():
        print(line(name, {t: by[t]["median_ms"] for t in options.threads}, options.threads))
    print(f"\n{machine['processors']} processors, load {machine['load']:.1f}, {machine['seconds']} s in all")


if __name__ == "__main__":
    main()
