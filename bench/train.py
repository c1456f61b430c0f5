"""Training steps against PyTorch's, on one machine, in one run, on the same threads.

The 9x64 network of the paper's synthetic experiments at batch 256 and its dSprites network at batch 1024, without a
regulariser and with CIRCE (PyTorch by the paper's algorithm 1 with a holdout of 1,000 or 5,898 points, as bench/peer.py
writes it), and ResNet-18 at 224 by 224, batch 16. Float32, AdamW. A step is: take a batch, forward, loss, backward,
optimiser. PyTorch's images are floats that lie ready; ours are bits and bytes that are expanded and shifted for every
batch.

    python bench/train.py [--circe build/circe] [--threads N] [--rounds 5] [--only train|images] [--json OUT]
"""

import functools
import os
import statistics
import time

import common

TARGETS = {  # part of circe bench, network, regulariser: how many times faster
    ("train", "9x64", "none"): 1.5, ("train", "9x64", "circe"): 5.0, ("images", "dsprites", "none"): 1.0,
    ("images", "dsprites", "circe"): 3.0, ("images", "resnet18", "none"): 0.9}
SHARES = {"9x64": 0.15, "dsprites": 0.05}  # of a step that the regulariser may take
STEPS = {("9x64", "none"): 150, ("9x64", "circe"): 150, ("dsprites", "none"): 8, ("dsprites", "circe"): 3, ("resnet18", "none"): 4}
BATCH = {"9x64": 256, "dsprites": 1024, "resnet18": 16}
ROWS = 8192

OPTIONS = common.options(__doc__, rounds=5, add=lambda parser: parser.add_argument(
    "--only", choices=["train", "images"], help="one part of circe bench [both]"))

import torch  # noqa: E402

import peer  # noqa: E402
from networks import draw_sprites, draw_variables, dsprites, perceptron, resnet18  # noqa: E402

torch.set_num_threads(OPTIONS.threads)


def draw_univariate(n, seed):
    """Univariate case 1, standardised roughly: what the values are does not change the cost."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randn(n, 1, generator=generator)
    z = (y * y + torch.randn(n, 1, generator=generator) - 1) / 1.7
    a = 0.9 * y + 0.1 * torch.randn(n, 1, generator=generator)
    return torch.cat([a, y, z], 1), y, z


def prepare(net, regularized):
    """The model, its points, target, y, z, and the penalty of a batch."""
    if net == "9x64":
        points, y, z = draw_univariate(ROWS, 1)
        _, Y, Z = draw_univariate(1000, 2)
        measure = peer.Circe(Y.double(), Z.double(), 0.1, 1.0, 0.1) if regularized else None
        return perceptron(), points, z + 0.1 * y, y, z, lambda *batch: 1e3 * measure(*batch, 0.1, "ustat")
    if net == "dsprites":
        points, y, z = draw_sprites(ROWS)
        Y, Z = draw_variables(5898, 3)
        measure = peer.Circe(Y.double(), Z.double(), 0.1, 0.5, 0.1) if regularized else None
        return dsprites(), points, y, y, z, lambda *batch: 300 * measure(*batch, 0.05)
    y, z = draw_variables(4 * BATCH[net], 2)
    return resnet18(), torch.randn(4 * BATCH[net], 3, 224, 224), y, y, z, None


def time_torch(net, regularizer):
    """Seconds of a step."""
    batch, steps, warm = BATCH[net], STEPS[net, regularizer], 10 if net == "9x64" else 1
    model, points, target, y, z, penalty = prepare(net, regularizer == "circe")
    optimizer, criterion = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.3), torch.nn.MSELoss()
    order, start = torch.randperm(len(points)), 0.0
    for step in range(steps + warm):
        if step == warm:
            start = time.perf_counter()
        rows = order[(step * batch) % len(points):][:batch]
        prediction = model(points[rows])
        loss = criterion(prediction, target[rows])
        if regularizer == "circe":
            loss = loss + penalty(prediction, y[rows], z[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return [(time.perf_counter() - start) / steps]


def main():
    print(f"load {os.getloadavg()[0]:.2f}, {OPTIONS.threads} threads, PyTorch {torch.__version__}")
    targets = {name: target for name, target in TARGETS.items() if OPTIONS.only in (None, name[0])}
    shares = {name: [] for name in targets}

    def ours():
        taken = {}
        for part in {name[0] for name in targets}:
            for row in common.circe(OPTIONS, "bench", "--only", part, "--quick")[part]:
                name = part, row["network"], row["regularizer"]
                if name in targets and row["runs"] == 1:
                    taken[name] = row["median_ms"]
                    shares[name].append(row["share"])
        return taken

    found = common.in_turns(OPTIONS.rounds, ours, {name: (name, functools.partial(time_torch, *name[1:])) for name in targets})
    print(f"\n{'network':10} {'regularizer':12} {'PyTorch, ms':>22} {'circe, ms':>22} {'rows/s':>9}  ratio")
    for name, (theirs, mine, ratios) in found.items():
        rate = 1e3 * BATCH[name[1]] / statistics.median(mine)
        print(f"{name[1]:10} {name[2]:12} {common.spread(theirs):>22} {common.spread(mine):>22} {rate:9.0f}  "
              f"{common.spread(ratios)}  {common.verdict(statistics.median(ratios) >= targets[name], targets[name])}")
    for (_, net, regularizer), values in shares.items():
        if regularizer == "circe":
            share, limit = statistics.median(values), SHARES[net]
            print(f"\nthe regulariser's share of a {net} step: {100 * share:.2f} %  "
                  f"{common.verdict(share <= limit, f'{100 * limit:.0f} %')}")
    common.save(OPTIONS, [{"network": name[1], "regularizer": name[2], "torch_ms": theirs, "circe_ms": mine, "ratios": ratios,
                           "share": shares[name]} for name, (theirs, mine, ratios) in found.items()])


if __name__ == "__main__":
    main()
