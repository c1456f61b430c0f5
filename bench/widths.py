"""Which width of the features' kernel keeps CIRCE's promise? Networks are trained on seven tables, with the width a number, the
median of the batch, a moving average of medians, and features normalised by rows or over the batch; on rows that nobody
trained on KCI and GCM look for what is left, in the features and in the prediction.

    CIRCE_DATA=../shared/data CIRCE_LIBRARY=build/libcirce.so PYTHONPATH=python python3 bench/widths.py --output widths.csv
    python3 bench/widths.py --summary widths.csv

A run is one network: features (16 of them, before the last layer) or the prediction carry the penalty, by the estimator
`ustat`. Rows that are in the output already are not run again. docs/lab/2026-11-widths.md has the results.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
import warnings

sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != os.path.dirname(os.path.abspath(__file__))]
import csv  # noqa: E402  Python's own, not the csv.py beside this file

import numpy as np

WIDTHS = ("0.1 x columns", "1 x columns", "median", "running", "rows", "batch")
GAMMAS = (1000.0, 10000.0)
FIELDS = ("data", "layer", "width", "gamma", "seed", "error", "plain_error", "kci_features", "kci_prediction", "gcm_prediction",
          "kci_plain", "sd", "plain_sd", "seconds")

# ---- tables -------------------------------------------------------------------------------------------------------------

TABLES = {  # file, target, z, is z a class, is the target a class, given (None: the target), columns left out, most rows
    "crime": ("communities_crime.csv", "ViolentCrimesPerPop", "racepctblack", False, False, None, ["communityname", "state", "fold"]),
    "insurance": ("car_insurance/ca-per-zip.csv", "combined_premium", "minority", True, False, "state_risk",
                  ["zipcode", "companies_name", "bi_policy_premium", "pd_policy_premium", "risk_difference"]),
    "adult": ("tables/adult.csv", "Income", "Sex", True, True, None, []),
    "compas": ("tables/compas.csv", "label_value", "race", True, True, None, ["entity_id"]),
    "german": ("tables/german_credit.csv", "class-label", "age", False, True, None, []),
    "clients": ("tables/credit_card_clients.csv", "default payment", "AGE", False, True, None, []),
    "students": ("tables/student_math.csv", "G2", "sex", True, False, None, ["G1", "class"]),
}


def encoded(texts) -> np.ndarray:
    """Numbers standardised, texts as one column a category."""
    try:
        values = np.array([float(t) for t in texts])
        return ((values - values.mean()) / (values.std() or 1.0))[:, None]
    except ValueError:
        kinds, codes = np.unique(texts, return_inverse=True)
        return np.eye(len(kinds))[codes][:, :min(len(kinds), 40)]


def table(name: str, seed: int, most: int = 6000):
    """x, target, given, z of random rows, and whether the target is a class."""
    file, target, z, z_class, y_class, given, dropped = TABLES[name]
    with open(os.path.join(os.environ["CIRCE_DATA"], file), newline="") as lines:
        rows = list(csv.DictReader(lines))
    rows = [r for r in rows if all(v not in ("", "?", "NA", None) for v in r.values())]
    random = np.random.default_rng(seed)
    rows = [rows[i] for i in random.permutation(len(rows))[:most]]
    columns = {c: [r[c] for r in rows] for c in rows[0] if c not in dropped}
    x = np.concatenate([encoded(v) for c, v in columns.items() if c != target], axis=1)
    codes = np.unique(columns[target], return_inverse=True)[1].astype(float)[:, None] if y_class else encoded(columns[target])
    y = codes if given is None else encoded(columns[given])
    attribute = np.unique(columns[z], return_inverse=True)[1].astype(float)[:, None] if z_class else encoded(columns[z])
    if name == "compas":
        attribute = np.array([[float(v == "African-American")] for v in columns[z]])
    return x, codes, y, attribute, y_class, z_class, given is None and y_class


# ---- training -----------------------------------------------------------------------------------------------------------


def pair_median(x, torch):
    """The squared median distance over pairs of rows at evenly spaced offsets."""
    n = len(x)
    half = (n - 1) // 2
    count = min(half, max(4, -(-4096 // n)))
    offsets = [int((k + 0.5) * half / count) + 1 for k in range(count)]
    d = torch.cat([(x - x.roll(o, 0)).square().sum(1) for o in offsets])
    positive = d[d > 1e-30]
    if len(positive) == 0:
        return None
    return (d if 2 * len(positive) >= len(d) else positive).median()


class Scaled:
    """The features as the kernel of width 1 sees them."""

    def __init__(self, width: str, torch):
        self.width, self.torch, self.running = width, torch, None

    def __call__(self, x):
        torch, d = self.torch, x.shape[1]
        if self.width.endswith("columns"):
            return x / (float(self.width.split()[0]) * d) ** 0.5
        if self.width == "batch":
            x = (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-20).sqrt()
        if self.width == "rows":
            x = x / x.norm(dim=1, keepdim=True).clamp_min(1e-12)
        with torch.no_grad():
            median = pair_median(x, torch)
            if median is None:
                median = self.running if self.running is not None else torch.ones(())
            self.running = median if self.running is None or self.width != "running" else 0.9 * self.running + 0.1 * median
        return x / self.running.sqrt()


def split(n: int):
    test, hold = min(1500, n // 3), min(1000, n // 5)
    return slice(0, test), slice(test, test + hold), slice(test + hold, n)


def learn(data, width, gamma: float, layer: str, seed: int, torch, circe, steps: int = 600, batch: int = 256):
    x, target, y, z, classes, z_class, y_delta = data
    test, hold, train = split(len(x))
    torch.manual_seed(seed)
    tensor = lambda a: torch.tensor(a, dtype=torch.float32)
    body = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(),
                               torch.nn.Linear(64, 16))
    head = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(16, 1))
    adam = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=3e-3, weight_decay=1e-2)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    if gamma:
        mean = circe.ConditionalMean("delta" if y_delta else "gaussian", "delta" if z_class else "gaussian").fit(y[hold], z[hold])
        loss = circe.torch.CirceLoss(mean, kernel_x="gaussian", sigma2_x=1.0, estimator="ustat")
        scaled = Scaled(width, torch)
    criterion = torch.nn.functional.binary_cross_entropy_with_logits if classes else torch.nn.functional.mse_loss
    X, T, Y, Z = (tensor(a[train]) for a in (x, target, y, z))
    random = np.random.default_rng(seed)
    size = min(batch, len(X))
    for step in range(steps):
        rows = torch.from_numpy(random.choice(len(X), size, replace=False))
        features = body(X[rows])
        prediction = head(features)
        total = criterion(prediction, T[rows])
        if gamma:
            seen = features if layer == "features" else prediction
            total = total + gamma * min(1.0, step / (0.1 * steps)) * loss(scaled(seen), Y[rows], Z[rows])
        adam.zero_grad()
        total.backward()
        adam.step()
        decay.step()
    with torch.no_grad():
        features = body(tensor(x[test]))
        prediction = head(features)
        return float(criterion(prediction, tensor(target[test]))), features.double().numpy(), prediction.double().numpy()


def p_value(circe, x, data, method):
    _, _, y, z, _, z_class, y_delta = data
    test = split(len(y))[0]
    rows = slice(0, 1000 if x.shape[1] == 1 else 600)
    if x.std() == 0:
        return 1.0
    options = {"kernel_y": "delta"} if y_delta else {}
    if method == "kci" and z_class:
        options["kernel_z"] = "delta"
    return float(circe.test(x[rows], y[test][rows], z[test][rows], method=method, checks=False,
                            **(options if method == "kci" else {})))


def study(output: str, names, layers, seeds, gammas, widths) -> None:
    import torch

    import circe
    import circe.torch

    torch.set_num_threads(1)
    circe.set_threads(1)
    warnings.simplefilter("ignore")
    done = set()
    if os.path.exists(output):
        with open(output, newline="") as lines:
            done = {tuple(r[f] for f in FIELDS[:5]) for r in csv.DictReader(lines)}
    with open(output, "a", newline="") as file:
        writer = csv.writer(file)
        if not done:
            writer.writerow(FIELDS)
        for seed, name in itertools.product(range(seeds), names):
            data = table(name, seed)
            plain, features, prediction = learn(data, None, 0.0, "none", seed, torch, circe)
            plain_p, plain_sd = p_value(circe, prediction, data, "kci"), float(features.std(0).mean())
            for layer, gamma, width in itertools.product(layers, gammas, widths):
                if (name, layer, width, str(gamma), str(seed)) in done or (width == "rows" and layer == "prediction"):
                    continue  # a row of one column over its norm is its sign
                began = time.time()
                error, features, prediction = learn(data, width, gamma, layer, seed, torch, circe)
                spent = time.time() - began
                writer.writerow([name, layer, width, gamma, seed, f"{error:.4f}", f"{plain:.4f}",
                                 f"{p_value(circe, features, data, 'kci'):.3g}", f"{p_value(circe, prediction, data, 'kci'):.3g}",
                                 f"{p_value(circe, prediction, data, 'gcm'):.3g}", f"{plain_p:.3g}",
                                 f"{features.std(0).mean():.4g}", f"{plain_sd:.4g}", f"{spent:.1f}"])
                file.flush()


# ---- summary ------------------------------------------------------------------------------------------------------------


def summary(path: str) -> None:
    """By width: in how many runs dependence is not found (p > .05), and the error against the network without a penalty."""
    with open(path, newline="") as lines:
        rows = list(csv.DictReader(lines))
    for layer in sorted({r["layer"] for r in rows}):
        print(f"penalty on: {layer}")
        print(f"{'width':>14} {'gamma':>7} {'runs':>5} {'features':>9} {'prediction':>11} {'gcm':>5} {'all three':>9} {'error':>7} {'sd ratio':>9}")
        for width, gamma in itertools.product(WIDTHS, sorted({float(r["gamma"]) for r in rows})):
            some = [r for r in rows if r["layer"] == layer and r["width"] == width and float(r["gamma"]) == gamma]
            if not some:
                continue
            share = lambda keys: np.mean([all(float(r[k]) > 0.05 for k in keys) for r in some])
            ratio = np.exp(np.mean([np.log(float(r["error"]) / float(r["plain_error"])) for r in some]))
            sd = np.exp(np.median([np.log(max(float(r["sd"]), 1e-9) / float(r["plain_sd"])) for r in some]))
            print(f"{width:>14} {gamma:7g} {len(some):5d} {share(['kci_features']):9.2f} {share(['kci_prediction']):11.2f} "
                  f"{share(['gcm_prediction']):5.2f} {share(['kci_features', 'kci_prediction', 'gcm_prediction']):9.2f} "
                  f"{ratio:7.3f} {sd:9.3g}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="widths.csv")
    parser.add_argument("--summary", metavar="FILE", help="print the table of a file and run nothing")
    parser.add_argument("--data", default=",".join(TABLES))
    parser.add_argument("--layers", default="features,prediction")
    parser.add_argument("--widths", default=",".join(WIDTHS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--gammas", default=",".join(f"{g:g}" for g in GAMMAS))
    options = parser.parse_args()
    if options.summary:
        summary(options.summary)
        return 0
    study(options.output, options.data.split(","), options.layers.split(","), options.seeds,
          [float(g) for g in options.gammas.split(",")], options.widths.split(","))
    return 0


if __name__ == "__main__":
    sys.exit(main())
