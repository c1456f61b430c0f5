"""A training step against PyTorch's, on one machine, in one run, on the same threads.

The network of the paper's synthetic experiments: 3 inputs, 9 hidden layers of 64, ReLU, one output; batch 256, AdamW,
float32. Without a regulariser, and with CIRCE: PyTorch by the paper's algorithm 1 with a holdout of 1,000 points, as
bench/peer.py writes it. A step is: take a batch, forward, loss, backward, optimiser.

    python bench/train.py [--circe build/circe] [--threads N] [--rounds 5] [--json OUT]
"""

import json
import os
import statistics
import time
from pathlib import Path

import common

TARGETS = {"none": 1.5, "circe": 5.0}
SHARE = 0.15  # of a step that the regulariser may take
ROWS, HOLDOUT, BATCH = 8192, 1000, 256


OPTIONS = common.options(__doc__, rounds=5)

import torch  # noqa: E402

import peer  # noqa: E402

torch.set_num_threads(OPTIONS.threads)


def network():
    layers, width = [], 3
    for _ in range(9):
        layers += [torch.nn.Linear(width, 64), torch.nn.ReLU()]
        width = 64
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))


def draw(n, seed):
    """Univariate case 1, standardised roughly: what the values are does not change the cost."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randn(n, 1, generator=generator)
    z = (y * y + torch.randn(n, 1, generator=generator) - 1) / 1.7
    a = 0.9 * y + 0.1 * torch.randn(n, 1, generator=generator)
    return torch.cat([a, y, z], 1), y, z


def ustat(K_xx, Q):
    n = len(K_xx)
    K, L = K_xx - torch.diag(torch.diag(K_xx)), Q - torch.diag(torch.diag(Q))
    k, l = K.sum(1), L.sum(1)
    return ((K * L).sum() - 2 / (n - 2) * k @ l + K.sum() * L.sum() / ((n - 1) * (n - 2))) / (n * (n - 3))


class Regularizer(peer.Circe):
    """Algorithm 1 with the estimator that trains best."""

    def __call__(self, x, y, z, sigma2_x, estimator="ustat"):
        K_xx = peer.gaussian(x, x, sigma2_x)
        K_yY = peer.gaussian(y, self.Y, self.sigma2_y)
        cross, square = self.products(K_yY, peer.gaussian(self.Z, z, self.sigma2_z))
        Q = peer.gaussian(y, y, self.sigma2_y) * (peer.gaussian(z, z, self.sigma2_z) - cross - cross.T + square)
        return ustat(K_xx, Q)


def time_torch(regularized, steps=150):
    features, y, z = draw(ROWS, 1)
    target = z + 0.1 * y
    _, Y, Z = draw(HOLDOUT, 2)
    regularizer = Regularizer(Y.double(), Z.double(), 0.1, 1.0, 0.1) if regularized else None
    model, criterion = network(), torch.nn.MSELoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.3)
    order = torch.randperm(ROWS)
    start = 0.0
    for step in range(steps + 10):
        if step == 10:
            start = time.perf_counter()
        rows = order[(step * BATCH) % ROWS:][:BATCH]
        prediction = model(features[rows])
        loss = criterion(prediction, target[rows])
        if regularized:
            loss = loss + 1e3 * regularizer(prediction, y[rows], z[rows], 0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return (time.perf_counter() - start) / steps


def main():
    print(f"load {os.getloadavg()[0]:.2f}, {OPTIONS.threads} threads, PyTorch {torch.__version__}")
    theirs, ours, shares = ({name: [] for name in TARGETS} for _ in range(3))
    for _ in range(OPTIONS.rounds):
        rows = {row["regularizer"]: row for row in common.circe(OPTIONS, "bench", "--only", "train", "--quick")["train"]}
        for name in TARGETS:
            theirs[name].append(time_torch(name == "circe"))
            ours[name].append(rows[name]["median_ms"] / 1e3)
            shares[name].append(rows[name]["share"])
    print(f"\n{'regularizer':12} {'PyTorch, ms':>22} {'circe, ms':>22}  ratio")
    out = []
    for name, target in TARGETS.items():
        ratios = [a / b for a, b in zip(theirs[name], ours[name])]
        print(f"{name:12} {common.spread(theirs[name], 1e3):>22} {common.spread(ours[name], 1e3):>22}  {common.spread(ratios)}"
              f"  {common.verdict(statistics.median(ratios) >= target, target)}")
        out.append({"regularizer": name, "torch": theirs[name], "circe": ours[name], "ratios": ratios})
    common.print_shares(shares["circe"], SHARE, "a step")
    if OPTIONS.json:
        Path(OPTIONS.json).write_text(json.dumps({"rows": out, "share": shares["circe"]}, indent=1))


if __name__ == "__main__":
    main()
