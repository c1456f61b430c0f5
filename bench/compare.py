"""circe against algorithm 1 in plain PyTorch, on one machine, in one run, on the same threads.

First checks in float64 that both compute the same thing, then times them in turn, round after round, and prints for
every row both medians with their quartiles, the ratio with its spread over the rounds, and whether the target is met;
then how circe's time grows. bench/README.md says how to read it.
"""

import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import common

FIT_TARGET = 100
VALUE_TOLERANCE = 1e-8  # relative: low-rank features keep 1 - 1e-12 of the trace, which is 1e-9 in K^c
GRADIENT_TOLERANCE = 1e-6  # relative to the largest entry
PRINTED_TOLERANCE = 1e-6  # of algorithm 1 with W1 and W2 as matrices: found 3e-8, its own rounding
LOO_TOLERANCE = 1e-6


def more_options(parser):
    parser.add_argument("--fit-rounds", type=int, default=1, help="of PyTorch's fit, minutes each; 0 skips it [1]")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of PyTorch for each row and round [2]")
    parser.add_argument("--no-growth", action="store_true", help="skip the growth tables")
    parser.add_argument("--check-only", action="store_true", help="only check that both agree")


OPTIONS = common.options(__doc__, rounds=5, add=more_options)

import numpy as np  # noqa: E402
import torch  # noqa: E402

import peer  # noqa: E402


# ---- the same thing? ----------------------------------------------------------------------------------------------


def relative(a, b):
    """The largest difference, as a share of the largest entry of b."""
    return float(np.abs(np.asarray(a) - np.asarray(b)).max() / np.abs(np.asarray(b)).max())


def check_size(folder, B, M, d_x, models, sigma2_y=0.1, ridge=0.1):
    """The worst relative differences over the estimators: circe's value and gradient from the formula with solves, and
    the value of algorithm 1 as printed, with its two inverses, from the same."""
    paths = {name: str(folder / f"{name}_{B}_{M}_{d_x}.npy") for name in ("x", "y", "z", "Y", "Z", "gradient")}
    Y, Z = peer.draw_points(M, seed=10)
    y, z = peer.draw_points(B, seed=20)
    x = peer.draw_x(B, d_x, seed=1)
    for name, array in (("x", x), ("y", y), ("z", z), ("Y", Y), ("Z", Z)):
        np.save(paths[name], array.numpy())
    if M not in models:
        models[M] = (peer.Circe(Y, Z, sigma2_y, peer.SIGMA2_Z, ridge, torch.float64),
                     peer.CirceBySolves(Y, Z, sigma2_y, peer.SIGMA2_Z, ridge))
    worst = {"value": 0.0, "gradient": 0.0, "printed": 0.0}
    for estimator in ("biased", "centered"):
        printed, _ = peer.loss_and_gradient(models[M][0], x, y, z, float(d_x), estimator)
        value, gradient = peer.loss_and_gradient(models[M][1], x, y, z, float(d_x), estimator)
        ours = common.circe(OPTIONS, "measure", "circe", "--x", paths["x"], "--y", paths["y"], "--z", paths["z"],
                            "--holdout-y", paths["Y"], "--holdout-z", paths["Z"], "--sigma2-x", d_x,
                            "--sigma2-y", sigma2_y, "--sigma2-z", peer.SIGMA2_Z, "--ridge", ridge,
                            "--estimator", estimator, "--dtype", "float64", "--grad", paths["gradient"])
        found = {"value": relative(ours["value"], value), "printed": relative(printed, value),
                 "gradient": relative(np.load(paths["gradient"]), gradient.numpy())}
        worst = {key: max(worst[key], found[key]) for key in worst}
    agree = (worst["value"] <= VALUE_TOLERANCE and worst["gradient"] <= GRADIENT_TOLERANCE
             and worst["printed"] <= PRINTED_TOLERANCE)
    return {"B": B, "M": M, "d_x": d_x, "agree": agree} | worst


def check_fit(folder, M=1267):
    """The worst relative difference of the leave-one-out tables, and whether both choose the same cell."""
    Y, Z = peer.draw_points(M, seed=10)
    np.save(folder / "fit_Y.npy", Y.numpy())
    np.save(folder / "fit_Z.npy", Z.numpy())
    table = np.array(peer.fit(Y, Z)[0])
    ours = common.circe(OPTIONS, "fit", "--y", folder / "fit_Y.npy", "--z", folder / "fit_Z.npy",
                        "--sigma2-z", peer.SIGMA2_Z, "--sigma2-y", ",".join(map(str, peer.SIGMA2_Y)),
                        "--ridge", ",".join(map(str, peer.RIDGE)), "-o", folder / "model.safetensors")
    errors = np.array(ours["loo"]["error"])
    difference = float((np.abs(errors - table) / table).max())
    return {"M": M, "loo": difference,
            "agree": difference <= LOO_TOLERANCE and int(errors.argmin()) == int(table.argmin())}


def check():
    print("Do both compute the same? float64, same arrays, the worse of biased and centered.\n"
          "circe against the formula with solves; beside it, how far algorithm 1 with its explicit inverses is from the same\n")
    with tempfile.TemporaryDirectory() as name:
        folder, models = Path(name), {}
        sizes = [check_size(folder, *size, models) for size in peer.SIZES]
        fit = check_fit(folder)
    for c in sizes:
        print(f"  B={c['B']:<5} M={c['M']:<5} d_x={c['d_x']:<3}  value {c['value']:.1e} (to {VALUE_TOLERANCE:g})"
              f"  gradient {c['gradient']:.1e} (to {GRADIENT_TOLERANCE:g})"
              f"  inverses {c['printed']:.1e} (to {PRINTED_TOLERANCE:g})"
              f"  {'agree' if c['agree'] else 'DIFFER'}")
    print(f"  leave-one-out, M={fit['M']}: {fit['loo']:.1e} (to {LOO_TOLERANCE:g})  "
          f"{'agree' if fit['agree'] else 'DIFFER'}\n", flush=True)
    return {"sizes": sizes, "fit": fit, "agree": fit["agree"] and all(c["agree"] for c in sizes)}


# ---- rounds ---------------------------------------------------------------------------------------------------------


def quartiles(values):
    return [float(v) for v in np.percentile(values, [25, 50, 75])]


def time_rounds():
    """Every round times PyTorch and then circe; returns what each round measured, in milliseconds."""
    holdouts, rounds = {}, []
    steps = {size: peer.Step(*size, holdouts) for size in peer.SIZES}
    for number in range(OPTIONS.rounds):
        print(f"round {number + 1} of {OPTIONS.rounds}", file=sys.stderr, flush=True)
        torch_times = {size: [1e3 * t for t in common.times(step.run, OPTIONS.budget, most=500)] for size, step in steps.items()}
        time.sleep(0.2)  # PyTorch's threads stop spinning
        rounds.append({"torch": torch_times, "circe": common.circe(OPTIONS, "bench", "--quick")})
    return rounds


def time_fits():
    seconds = []
    for number in range(OPTIONS.fit_rounds):
        print(f"PyTorch's fit, {number + 1} of {OPTIONS.fit_rounds}: minutes", file=sys.stderr, flush=True)
        seconds.append(peer.time_fit()[0])
    return seconds


def find_row(bench, size, path):
    B, M, d_x = size
    return next(r for r in bench["rows"] if (r["B"], r["M"], r["d_x"], r["path"]) == (B, M, d_x, path))


def step_row(rounds, size, path):
    """PyTorch's quartiles over all repetitions, circe's as medians over the rounds of its own quartiles."""
    ours = [find_row(r["circe"], size, path) for r in rounds]
    ratios = [statistics.median(r["torch"][size]) / o["median_ms"] for r, o in zip(rounds, ours)]
    return {"what": "loss + gradient", "B": size[0], "M": size[1], "d_x": size[2], "path": path,
            "torch_ms": quartiles([t for r in rounds for t in r["torch"][size]]),
            "circe_ms": [statistics.median(o[key] for o in ours) for key in ("q1_ms", "median_ms", "q3_ms")],
            "ratio": statistics.median(ratios), "ratio_range": [min(ratios), max(ratios)], "target": peer.TARGETS[size]}


def fit_row(rounds, seconds):
    ours = [1e3 * next(f["seconds"] for f in r["circe"]["fit"] if f["M"] == peer.FIT_ROWS) for r in rounds]
    theirs = [1e3 * s for s in seconds]
    ratios = [statistics.median(theirs) / o for o in ours]
    return {"what": "fit", "M": peer.FIT_ROWS, "grid": [len(peer.SIGMA2_Y), len(peer.RIDGE)],
            "torch_ms": quartiles(theirs), "circe_ms": quartiles(ours), "ratio": statistics.median(ratios),
            "ratio_range": [min(ratios), max(ratios)], "target": FIT_TARGET}


def print_table(rows):
    def times(t):
        return f"{t[1]:.4g} [{t[0]:.4g}-{t[2]:.4g}]"

    print(f"{'row':<36}{'PyTorch, ms':>26}{'circe, ms':>28}{'ratio [rounds]':>22}{'target':>8}  met")
    for r in rows:
        name = (f"fit, M={r['M']}, {r['grid'][0]} x {r['grid'][1]}" if r["what"] == "fit"
                else f"B={r['B']} M={r['M']} d_x={r['d_x']}, {r['path']}")
        ratio = f"{r['ratio']:.0f} [{r['ratio_range'][0]:.0f}-{r['ratio_range'][1]:.0f}]"
        met = "yes" if r["ratio"] >= r["target"] else "no"
        print(f"{name:<36}{times(r['torch_ms']):>26}{times(r['circe_ms']):>28}{ratio:>22}{r['target']:>7}x  {met}")
    print()


# ---- growth ---------------------------------------------------------------------------------------------------------


def exponent(sizes, times):
    """The slope of log time over log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


GROWTH = [  # table of circe bench, size on the axis, time, what it is
    ("B", "B", "median_ms", "loss + gradient, cached, M=5898, d_x=1"),
    ("M", "M", "median_ms", "loss + gradient, raw, B=1024, d_x=1"),
    ("M", "M", "fit_seconds", "fit with the 4 x 5 grid"),
    ("d_x", "d_x", "median_ms", "loss + gradient, cached, B=1024, M=5898"),
    ("rank", "rank_z", "median_ms", "loss + gradient, cached, B=1024, M=5898, d_x=1"),
]


def growth_tables(bench):
    tables = []
    for table, size_key, time_key, text in GROWTH:
        rows = sorted(bench["growth"][table], key=lambda r: r[size_key])
        sizes = [r[size_key] for r in rows]
        times = [r[time_key] * (1e3 if time_key == "fit_seconds" else 1) for r in rows]
        upper = len(sizes) // 2
        tables.append({"with": size_key, "of": text, "sizes": sizes, "ms": times, "exponent": exponent(sizes, times),
                       "exponent_upper": exponent(sizes[upper:], times[upper:]) if len(sizes) - upper > 1 else math.nan})
    return tables


def print_growth(tables):
    print("How circe's time grows: milliseconds, and the exponent of a power law through all sizes and the upper half\n")
    for t in tables:
        print(f"with {t['with']}: {t['of']}; exponent {t['exponent']:.2f}, upper half {t['exponent_upper']:.2f}")
        print("  " + "  ".join(f"{s}: {ms:.4g}" for s, ms in zip(t["sizes"], t["ms"])) + "\n")


# ---- the whole -------------------------------------------------------------------------------------------------------


def describe(bench):
    machine = bench["machine"]
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {"cpu": machine["cpu"], "isa": machine["isa"], "threads": OPTIONS.threads, "cores": os.cpu_count(),
            "memory_gb": round(gigabytes, 1), "torch": torch.__version__, "circe": bench["version"],
            "load_before": os.getloadavg()[0]}


def main():
    torch.set_num_threads(OPTIONS.threads)
    result = {"check": check()}
    if not result["check"]["agree"]:
        sys.exit("compare.py: PyTorch and circe differ; their times are not comparable")
    if OPTIONS.check_only:
        return
    load = os.getloadavg()[0]
    rounds = time_rounds()
    rows = [step_row(rounds, size, path) for size in peer.SIZES for path in ("raw", "cached")]
    seconds = time_fits()
    if seconds:
        rows.append(fit_row(rounds, seconds))
    machine = describe(rounds[0]["circe"]) | {"load_before": load}
    result |= {"machine": machine, "rounds": OPTIONS.rounds, "rows": rows}
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, {machine['isa']}, "
          f"{machine['memory_gb']} GB; PyTorch {machine['torch']}, circe {machine['circe']}; load before {load:.1f}\n"
          f"float32, median [quartiles] over {OPTIONS.rounds} rounds\n")
    print_table(rows)
    if not OPTIONS.no_growth:
        bench = common.circe(OPTIONS, "bench")
        result["growth"] = growth_tables(bench)
        print_growth(result["growth"])
    common.save(OPTIONS, result)


if __name__ == "__main__":
    main()
