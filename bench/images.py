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

torch.set_num_threads(OPTIONS.threads)


# ---- networks ---------------------------------------------------------------------------------------------------


def dsprites():
    def convolution(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.LeakyReLU(0.01)]

    return nn.Sequential(*convolution(1, 16), *convolution(16, 32), nn.MaxPool2d(2), *convolution(32, 64), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(256, 128), nn.LeakyReLU(0.01), nn.Linear(128, 64), nn.Linear(64, 1))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu, self.downsample = nn.ReLU(inplace=True), None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        skipped = x if self.downsample is None else self.downsample(x)
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + skipped)


def resnet18():
    layers, inputs = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 128), nn.LeakyReLU(0.01),
                         nn.Linear(128, 64), nn.Linear(64, 1))


# ---- data -------------------------------------------------------------------------------------------------------


def draw_sprites():
    """Pictures of the right size; what they show does not change the cost."""
    generator = torch.Generator().manual_seed(1)
    images = 2.0 * (torch.rand(SPRITES, 1, 64, 64, generator=generator) < 0.1) - 1.0
    return images, *draw_variables(SPRITES, 2)


def draw_variables(n, seed):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 32, (n, 1), generator=generator) / 31.0
    z = torch.randint(0, 4, (n, 1), generator=generator).sqrt() * (2.0 * torch.randint(0, 2, (n, 1), generator=generator) - 1)
    return y, z


# ---- a step -----------------------------------------------------------------------------------------------------


def time_torch(net, regularizer_name):
    batch, steps = BATCH[net], STEPS[net, regularizer_name]
    if net == "dsprites":
        model, (images, y, z) = dsprites(), draw_sprites()
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
