"""Does circe, left to itself, compute with the best kernels of its BLAS? The default against OpenBLAS's kernels for other
processors, forced by OPENBLAS_CORETYPE, in one run: training, fits and HSCIC by the command.

    python bench/cores.py [--circe build/circe] [--threads 1] [--rounds 5] [--cores HASWELL,...] [--json OUT]
                          [--old-blas build/tests/old_blas.so] [--also NAME=BINARY ...]

Every job is a fixed amount of work. A round runs it once with each, in turn; time is the processor's, user and system, which a
busy machine changes little, and a ratio is taken within its round. Kernels that this processor lacks are left out.
--old-blas: also as on a processor that OpenBLAS does not know. --also: another binary, built on another BLAS, by itself.
"""

import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

import common

TARGET = 1.15
NEEDS = {"PRESCOTT": set(), "HASWELL": {"avx2", "fma"}, "ZEN": {"avx2", "fma"}, "SKYLAKEX": {"avx512f", "avx512vl"},
         "COOPERLAKE": {"avx512f", "avx512vl", "avx512_bf16"}, "SAPPHIRERAPIDS": {"avx512f", "avx512vl", "amx_bf16"}}


def add(parser):
    parser.set_defaults(threads=1)
    parser.add_argument("--cores", default=",".join(NEEDS), help=f"kernels to force [{','.join(NEEDS)}]")
    parser.add_argument("--old-blas", metavar="FILE", help="tests/old_blas.c, built")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=BINARY", help="another build")


def processor(key="model name"):
    """What the first processor says of itself."""
    with open("/proc/cpuinfo") as lines:
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "?")


def jobs(folder):
    """Name and arguments of each; the data are written here."""
    small, middle, large = folder / "small.csv", folder / "middle.csv", folder / "large.csv"
    for path, rows in ((small, 1000), (middle, 4096), (large, 20_000)):
        common.write_table(path, rows)
    fit = ["fit", "-o", folder / "model.safetensors", "--y", "y", "--z", "z", "--data"]
    train = ["train", "-o", folder / "net.safetensors", "--data", middle, "--features", "a,z", "--target", "y", "--given",
             "y", "--invariant-to", "z", "--net", "9x64", "--batch", "256", "--no-report", "--regularizer"]
    return {
        "train 9x64": [*train, "none", "--epochs", "40"],
        "train 9x64 circe": [*train, "circe", "--gamma", "1", "--epochs", "40"],
        "train 9x64 hscic": [*train, "hscic", "--gamma", "1", "--epochs", "15"],
        "fit dense 1,000": [*fit, small, "--method", "dense"],
        "fit low-rank 20,000": [*fit, large, "--method", "lowrank", "--sigma2-y", "0.001", "--ridge", "0.1"],
        "hscic 4,096": ["measure", "hscic", "--x", "a", "--y", "y", "--z", "z", "--data", middle, "--ridge", "0.1", "--sigma2-y", "0.01"],
    }


def contestants(options):
    """Name, binary and environment of each; the default first."""
    found = [("default", options.circe, {})]
    if options.old_blas:
        found.append(("unknown", options.circe, {"LD_PRELOAD": str(Path(options.old_blas).resolve())}))
    has = set(processor("flags").split())
    found += [(core, options.circe, {"OPENBLAS_CORETYPE": core}) for core in options.cores.split(",")
              if NEEDS.get(core, set()) <= has]
    return found + [(name, binary, {}) for name, binary in (also.split("=", 1) for also in options.also)]


def environment(more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    return {**kept, **more}


def seconds(binary, arguments, threads, more):
    """Of the processor, for one run."""
    command = [binary, *arguments, "--threads", threads, "--quiet"]
    return common.resources(command, env=environment(more))[1]


def blas_of(binary, more):
    text = subprocess.run([binary, "--version"], env=environment(more), capture_output=True, text=True, check=True).stdout
    return re.search(r"instructions, (.*), \d+ thread", text).group(1)


def measure(options, folder):
    racers, work = contestants(options), jobs(folder)
    times = {job: {name: [] for name, _, _ in racers} for job in work}
    for number in range(options.rounds):
        for job, arguments in work.items():
            for name, binary, more in racers[number % len(racers):] + racers[:number % len(racers)]:  # each is first once
                times[job][name].append(seconds(binary, arguments, options.threads, more))
    return racers, times


def main():
    options = common.options(__doc__, rounds=5, add=add)
    with tempfile.TemporaryDirectory(prefix="circe-cores-") as folder:
        racers, times = measure(options, Path(folder))
    print(f"{processor()}, {options.threads} thread{'s'[:options.threads > 1]}, load {os.getloadavg()[0]:.1f}")
    for name, binary, more in racers:
        print(f"  {name:14} {blas_of(binary, more)}")
    print("\nprocessor seconds by default; then the others, as multiples of it: median [least-most]\n")
    worst = 0
    for job, rows in times.items():
        print(f"  {job:22} {common.spread(rows['default'])} s")
        ratios = {name: [value / base for value, base in zip(values, rows["default"])] for name, values in rows.items()}
        for name, values in ratios.items():
            if name != "default":
                print(f"    {name:20} {common.spread(values)}")
        forced = [statistics.median(values) for name, values in ratios.items() if name in NEEDS]
        worst = max(worst, 1 / min(forced, default=1))
    print(f"\nthe default takes at most {worst:.2f} of the best forced kernels; {common.verdict(worst <= TARGET, TARGET)}")
    common.save(options, {"processor": processor(), "seconds": times})


if __name__ == "__main__":
    main()
