"""Training by several ranks against one process with as many threads, on one machine, in one run.

The network of the paper's synthetic experiments (9x64) at batches of 256 and 1,024, and that of dSprites on pictures of
64 by 64 at a batch of 256; without a regulariser and with CIRCE. What is compared is the time of a step, from the run's
own clock, so that the start of MPI does not count; validation does, on a hundredth of the rows. Needs NumPy.

    python bench/cluster.py [--circe build/circe] [--ranks 2] [--rounds 5] [--only table|pictures] [--json OUT]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

import common

LIMIT = 1.15  # of a data-parallel step


def add_options(parser):
    parser.add_argument("--ranks", type=int, default=2, help="against one process with as many threads [2]")
    parser.add_argument("--mpirun", default="mpirun --bind-to none", help="the launcher [mpirun --bind-to none]")
    parser.add_argument("--only", choices=["table", "pictures"], help="one of the two [both]")


def write_pictures(array, labels, n, side):
    draw = np.random.default_rng(2)
    np.save(array, draw.integers(2, size=(n, side, side), dtype=np.uint8))
    np.savetxt(labels, draw.random((n, 3)), delimiter=",", header="b,y,z", comments="")


def cases(folder):
    """Name, options, epochs."""
    table = ["--data", f"{folder}/d.csv", "--features", "a,y,z", "--given", "y", "--net", "9x64"]
    pictures = ["--images", f"{folder}/i.npy", "--labels", f"{folder}/l.csv", "--given", "y", "--net", "dsprites"]
    return [("table, batch 256", [*table, "--batch", "256"], 60, "table"),
            ("table, batch 1024", [*table, "--batch", "1024"], 60, "table"),
            ("pictures, batch 256", [*pictures, "--batch", "256"], 2, "pictures")]


def step_seconds(options, ranks, more, epochs, regularizer, folder):
    line = [options.circe, "train", *more, "--target", "b", "--invariant-to", "z", "--epochs", str(epochs), "--validation",
            "0.01", "--seed", "1", "--no-report", "--quiet", "--json", "-o", f"{folder}/m.safetensors", "--regularizer",
            regularizer, "--threads", "1" if ranks > 1 else str(options.ranks)]
    if regularizer != "none":
        line += ["--gamma", "100"]
    if ranks > 1:
        line = [*options.mpirun.split(), "-n", str(ranks), *line]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"cluster.py: {' '.join(line)} failed with {done.returncode}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    return result["seconds"] / result["steps"]


def main():
    options = common.options(__doc__, rounds=5, add=add_options)
    for name in common.THREADS:
        os.environ.pop(name)  # --threads says it
    found = []
    print(f"load {os.getloadavg()[0]:.1f}; a step in ms, median [least-most] of {options.rounds} rounds")
    with tempfile.TemporaryDirectory() as folder:
        common.write_table(f"{folder}/d.csv", 12000)
        write_pictures(f"{folder}/i.npy", f"{folder}/l.csv", 4000, 64)
        for name, more, epochs, kind in cases(folder):
            if options.only not in (None, kind):
                continue
            for regularizer in ("none", "circe"):
                one, several = [], []
                for _ in range(options.rounds):
                    one.append(step_seconds(options, 1, more, epochs, regularizer, folder))
                    several.append(step_seconds(options, options.ranks, more, epochs, regularizer, folder))
                ratios = [b / a for a, b in zip(one, several)]
                best = min(several) / min(one)
                found.append({"case": name, "regularizer": regularizer, "one": one, "several": several})
                print(f"{name:20} {regularizer:6} one process {common.spread(one, 1e3):22} {options.ranks} ranks "
                      f"{common.spread(several, 1e3):22} ratio {common.spread(ratios)}, of the best {best:.3g}  "
                      f"{common.verdict(statistics.median(ratios) <= LIMIT, LIMIT)}", flush=True)
    common.save(options, found)


if __name__ == "__main__":
    main()
