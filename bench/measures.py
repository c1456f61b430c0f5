"""The other measures against what people use today, on one machine, in one run, on the same threads.

HSCIC, loss and gradient in float32: against PyTorch, written from the formula (a loop over the conditioning points) and
as matrices (the loop as products, by someone who took the time). KCI, the statistic in float64: against causal-learn's.
Values are compared first, in float64. Data and settings are those of `circe bench`.

    python bench/measures.py [--circe build/circe] [--threads N] [--rounds 5] [--json OUT]
"""

import functools
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import common

TARGETS = {"hscic": 10, "kci": 20}
SIGMA2_Y, RIDGE = 0.1, 0.01


OPTIONS = common.options(__doc__, rounds=5)

import numpy as np  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(OPTIONS.threads)


def draw(n, seed=0):
    """y standard normal, z and x = y + 0.3 noise, as columns."""
    rng = np.random.default_rng(seed)
    y, a, b = rng.standard_normal((3, n, 1))
    return y + 0.3 * b, y, y + 0.3 * a


# ---- the peers ----------------------------------------------------------------------------------------------------


def gaussian(a, b, sigma2):
    return torch.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / (2 * sigma2))


def hscic_weights(y):
    K_y = gaussian(y, y, SIGMA2_Y)
    return torch.linalg.solve(K_y + RIDGE * torch.eye(len(y), dtype=y.dtype), K_y)


def hscic_loop(x, y, z):
    """As the formula reads: one conditioning point after another."""
    K_x, K_z, W = gaussian(x, x, 1.0), gaussian(z, z, 1.0), hscic_weights(y)
    total = 0.0
    for k in range(len(x)):
        w = W[:, k]
        total = total + w @ ((K_x * K_z) @ w) - 2 * (w * (K_x @ w) * (K_z @ w)).sum() + (w @ K_x @ w) * (w @ K_z @ w)
    return total / len(x)


def hscic_matrices(x, y, z):
    """The same as matrix products."""
    K_x, K_z, W = gaussian(x, x, 1.0), gaussian(z, z, 1.0), hscic_weights(y)
    x_mean, z_mean = K_x @ W, K_z @ W
    joint = (W * ((K_x * K_z) @ W)).sum(0)
    return (joint - 2 * (W * x_mean * z_mean).sum(0) + (W * x_mean).sum(0) * (W * z_mean).sum(0)).mean()


def time_torch(measure, n, rounds, least=3):
    x, y, z = (torch.tensor(v, dtype=torch.float32) for v in draw(n))
    x.requires_grad_(True)
    times = []
    while len(times) < least * rounds:
        x.grad = None
        start = time.perf_counter()
        measure(x, y, z).backward()
        times.append(time.perf_counter() - start)
    return times[1:]


def time_causal_learn(n, rounds):
    from causallearn.utils.KCI.KCI import KCI_CInd

    x, y, z = draw(n)
    times = []
    for _ in range(rounds + 1):
        test = KCI_CInd()
        start = time.perf_counter()
        test.KCI_V_statistic(*test.kernel_matrix(x.copy(), z.copy(), y.copy()))
        times.append(time.perf_counter() - start)
    return times[1:]


# ---- the same thing? ------------------------------------------------------------------------------------------------


def check(folder, n=300):
    x, y, z = draw(n)
    for name, values in zip("xyz", (x, y, z)):
        np.save(folder / f"{name}.npy", values)
    files = [part for name in "xyz" for part in (f"--{name}", folder / f"{name}.npy")]
    widths = ["--sigma2-x", 1, "--sigma2-y", SIGMA2_Y, "--sigma2-z", 1, "--ridge", RIDGE]
    tensors = [torch.tensor(v) for v in (x, y, z)]
    hscic = common.circe(OPTIONS, "measure", "hscic", *files, *widths)["value"]
    worst = max(abs(hscic / float(peer(*tensors)) - 1) for peer in (hscic_loop, hscic_matrices))
    H = np.eye(n) - 1 / n
    K_x, K_y, K_z = (gaussian(t, t, s).numpy() for t, s in zip(tensors, (1.0, SIGMA2_Y, 1.0)))
    R = RIDGE * np.linalg.inv(H @ K_y @ H + RIDGE * np.eye(n))
    kci = np.trace(R @ H @ (K_x * K_y) @ H @ R @ R @ H @ K_z @ H @ R) / n
    return {"hscic": worst, "kci": abs(common.circe(OPTIONS, "measure", "kci", *files, *widths)["value"] / kci - 1)}


# ---- the comparison -------------------------------------------------------------------------------------------------


def quartiles(times):
    """The median, and the quartiles around it."""
    around = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    return statistics.median(times), around[0], around[2]


def main():
    print(f"load {os.getloadavg()[0]:.2f}, {OPTIONS.threads} threads, PyTorch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        differences = check(Path(folder))
    print("relative differences from the formulas in float64: "
          + ", ".join(f"{name} {value:.1e}" for name, value in differences.items()))
    if max(differences.values()) > 1e-8:
        sys.exit("measures.py: they do not compute the same; nothing was timed")
    hscic = {"PyTorch, loop": (hscic_loop, {256: 2, 1024: 2}), "PyTorch, matrices": (hscic_matrices, {256: 20, 1024: 5})}
    peers = {(name, "hscic", n): (("hscic", n, True), functools.partial(time_torch, peer, n, 1, least[n]))
             for n in (256, 1024) for name, (peer, least) in hscic.items()}
    peers["causal-learn", "kci", 1000] = ("kci", 1000, False), lambda: time_causal_learn(1000, 1)

    def ours():
        rows = common.circe(OPTIONS, "bench", "--only", "measures", "--quick")["measures"]
        return {(row["measure"], row["n"], row["gradient"]): row["median_ms"] for row in rows}

    found = common.in_turns(OPTIONS.rounds, ours, peers)
    print(f"\n{'measure':8} {'n':>5}  {'peer':18} {'peer, ms':>26} {'circe, ms':>26}   ratio")
    out = []
    for (name, measure, n), (theirs, mine, ratios) in found.items():
        theirs, mine, ratio = quartiles(theirs), quartiles(mine), statistics.median(ratios)
        print(f"{measure:8} {n:5}  {name:18} {theirs[0]:9.4g} [{theirs[1]:.4g}-{theirs[2]:.4g}]"
              f" {mine[0]:12.4g} [{mine[1]:.4g}-{mine[2]:.4g}]   {ratio:.1f} [{min(ratios):.1f}-{max(ratios):.1f}]"
              f"  {common.verdict(ratio >= TARGETS[measure], TARGETS[measure])}")
        out.append({"measure": measure, "n": n, "peer": name, "peer_ms": theirs, "circe_ms": mine, "ratio": ratio, "ratios": ratios})
    large = [r for r in common.circe(OPTIONS, "bench", "--only", "measures")["measures"] if r["n"] >= 20000]
    print("\n" + "\n".join(f"{r['measure']:8} {r['n']:5}  value, float64: {r['median_ms'] / 1e3:.2f} s" for r in large))
    common.save(OPTIONS, {"rows": out, "large": large, "differences": differences})


if __name__ == "__main__":
    main()
