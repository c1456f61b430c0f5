"""Training on images against PyTorch, on one machine, in one run, on the same threads.

The paper's dSprites network at batch 1024, without a regulariser and with CIRCE (PyTorch by the paper's algorithm 1 with
a holdout of 5,898 points, as bench/peer.py writes it), and ResNet-18 at 224 by 224, batch 16. Float32, AdamW. A step is:
take a batch, forward, loss, backward, optimiser. PyTorch's images are floats that lie ready; ours are bits and bytes that
are expanded and shifted for every batch.

    python bench/images.py [--circe build/circe] [--threads N] [--rounds 3] [--json OUT]
"""

import json
import os
import statistics
import time
from pathlib import Path

import common

# images a second, ours over theirs
TARGETS = {("dsprites", "none"): 1.0, ("dsprites", "circe"): 3.0, ("resnet18", "none"): 0.9}
SHARE = 0.05  # of a dSprites step that the regulariser may take
STEPS = {("dsprites", "none"): 8, ("dsprites", "circe"): 3, ("resnet18", "none"): 4}
BATCH = {"dsprites": 1024, "resnet18": 16}
HOLDOUT, SPRITES = 5898, 8192


OPTIONS = common.options(__doc__, rounds=3)

import torch  # noqa: E402
from torch import nn  # noqa: E402

import peer  # noqa: E402
from pictures import draw_sprites, draw_variables, dsprites, resnet18  # noqa: E402

torch.set_num_threads(OPTIONS.threads)


# ---- a step -----------------------------------------------------------------------------------------------------


def time_torch(net, regularizer_name):
    batch, steps = BATCH[net], STEPS[net, regularizer_name]
    if net == "dsprites":
        model, (images, y, z) = dsprites(), draw_sprites(SPRITES)
    else:
        model, images = resnet18(), torch.randn(4 * batch, 3, 224, 224)
        y, z = draw_variables(4 * batch, 2)
    regularizer = None
    if regularizer_name == "circe":
        Y, Z = draw_variables(HOLDOUT, 3)
        regularizer = peer.Circe(Y.double(), Z.double(), 0.1, 0.5, 0.1)
    optimizer, criterion = torch.optim.AdamW(model.parameters(), lr=1e-4), nn.MSELoss()
    order, start = torch.randperm(len(images)), 0.0
    for step in range(steps + 1):
        if step == 1:
            start = time.perf_counter()
        rows = order[(step * batch) % len(images):][:batch]
        prediction = model(images[rows])
        loss = criterion(prediction, y[rows])
        if regularizer is not None:
            loss = loss + 300 * regularizer(prediction, y[rows], z[rows], 0.05)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return (time.perf_counter() - start) / steps


def run_circe():
    rows = common.circe(OPTIONS, "bench", "--only", "images", "--quick")["images"]
    return {(row["network"], row["regularizer"]): row for row in rows}


def main():
    print(f"load {os.getloadavg()[0]:.2f}, {OPTIONS.threads} threads, PyTorch {torch.__version__}")
    theirs, ours = ({name: [] for name in TARGETS} for _ in range(2))
    shares = []
    for _ in range(OPTIONS.rounds):
        rows = run_circe()
        shares.append(rows["dsprites", "circe"]["share"])
        for name in TARGETS:
            theirs[name].append(BATCH[name[0]] / time_torch(*name))
            ours[name].append(rows[name]["images_per_second"])
    print(f"\n{'network':10} {'regularizer':12} {'PyTorch, images/s':>24} {'circe, images/s':>24}  ratio")
    out = []
    for name, target in TARGETS.items():
        ratios = [a / b for a, b in zip(ours[name], theirs[name])]
        print(f"{name[0]:10} {name[1]:12} {common.spread(theirs[name]):>24} {common.spread(ours[name]):>24}  "
              f"{common.spread(ratios)}  {common.verdict(statistics.median(ratios) >= target, target)}")
        out.append({"network": name[0], "regularizer": name[1], "torch": theirs[name], "circe": ours[name], "ratios": ratios})
    common.print_shares(shares, SHARE, "a dSprites step")
    if OPTIONS.json:
        Path(OPTIONS.json).write_text(json.dumps({"rows": out, "share": shares}, indent=1))


if __name__ == "__main__":
    main()
