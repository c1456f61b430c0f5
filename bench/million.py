"""A million holdout points: `circe fit` with the whole leave-one-out grid, against 60 s and 4 GB.

Two data sets: y uniform on [0, 1], z = y + 0.05 noise (low rank at every width of the grid), and y standard normal,
z = y^2 + noise (its tails and sigma2 = 0.001 make ranks of hundreds). Wall time and peak memory are of the whole
process, reading and writing included. No packages needed but numpy.
"""

import json
import tempfile
from pathlib import Path

import numpy as np

import common

SECONDS, BYTES = 60.0, 4e9


def draw(name, n):
    random = np.random.default_rng(0)
    if name == "uniform":
        y = random.uniform(size=n)
        return y, y + 0.05 * random.standard_normal(n)
    y = random.standard_normal(n)
    return y, y**2 + random.standard_normal(n)


def add_options(parser):
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--data", choices=("uniform", "normal", "both"), default="both")


def main():
    options = common.options(__doc__, rounds=1, add=add_options)
    results = []
    with tempfile.TemporaryDirectory() as name:
        y_path, z_path, model = (str(Path(name) / f) for f in ("y.npy", "z.npy", "model.safetensors"))
        for data in ("uniform", "normal") if options.data == "both" else (options.data,):
            for path, array in zip((y_path, z_path), draw(data, options.rows)):
                np.save(path, array[:, None])
            seconds, processor, peak, text = common.resources(
                [options.circe, "fit", "--y", y_path, "--z", z_path, "-o", model, "--quiet", "--json", "--threads", options.threads])
            fit = json.loads(text)
            met = seconds <= SECONDS and peak <= BYTES
            results.append({"data": data, "rows": options.rows, "threads": options.threads, "seconds": seconds,
                            "processor_seconds": processor, "peak_bytes": peak, "rank_y": fit["rank_y"],
                            "rank_z": fit["rank_z"], "method": fit["method"], "best": fit["loo"]["best"], "met": met})
            print(f"{data:<8} {options.rows} rows, {len(fit['loo']['sigma2_y'])} x {len(fit['loo']['ridge'])} grid, "
                  f"{options.threads} threads: {seconds:.1f} s of {SECONDS:.0f} (processor {processor:.1f} s), "
                  f"{peak / 1e9:.2f} GB of {BYTES / 1e9:.0f}, ranks {fit['rank_y']} and {fit['rank_z']} "
                  f"at the best width: {'met' if met else 'NOT met'}", flush=True)
    common.save(options, results)


if __name__ == "__main__":
    main()
