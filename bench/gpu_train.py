"""Training on images on a GPU against PyTorch on the same GPU, in one run.

The paper's dSprites network at batch 1024, without a regulariser and with CIRCE (holdout of 5,898 points; PyTorch by the
paper's algorithm 1, bench/peer.py), and ResNet-18 at 224 by 224, batch 16; AdamW. A step is: take a batch, forward, loss,
backward, optimiser. PyTorch is eager, its data on the GPU as floats; once as it comes (its convolutions are TF32 then) and
once with float32 throughout, as ours are. PyTorch is timed by device events around many steps, ours by `circe bench`.

    python bench/gpu_train.py [--circe build-cuda/circe] [--rounds 3] [--json OUT]
"""

import json
import statistics
from pathlib import Path

import common

OPTIONS = common.options(__doc__, rounds=3)

import torch  # noqa: E402
from torch import nn  # noqa: E402

import peer  # noqa: E402
from pictures import draw_sprites, draw_variables, dsprites, resnet18  # noqa: E402

BATCH = {"dsprites": 1024, "resnet18": 16}
STEPS = {"none": 200, "circe": 60}
HOLDOUT, SPRITES = 5898, 16384
ROWS = [("dsprites", "none"), ("dsprites", "circe"), ("resnet18", "none")]
SHARE = 0.05  # of a step that the regulariser may take


def make(net):
    if net == "dsprites":
        images, y, z = draw_sprites(SPRITES)
        return dsprites(), images, y, z
    images = torch.randn(4 * BATCH[net], 3, 224, 224)
    return resnet18(), images, *draw_variables(len(images), 2)


class Training:
    """One network in PyTorch, ready to take steps."""

    def __init__(self, net, regularizer):
        model, *data = make(net)
        self.model, self.batch = model.cuda(), BATCH[net]
        self.images, self.y, self.z = (part.cuda() for part in data)
        self.regularizer = None
        if regularizer == "circe":
            Y, Z = draw_variables(HOLDOUT, 3)
            self.regularizer = peer.Circe(Y.double(), Z.double(), 0.1, 0.5, 0.1)
            for name in ("W1", "W2", "Y", "Z"):
                setattr(self.regularizer, name, getattr(self.regularizer, name).cuda())
        self.optimizer, self.criterion = torch.optim.AdamW(self.model.parameters(), lr=1e-4), nn.MSELoss()
        self.order = torch.randperm(len(self.images), device="cuda")

    def step(self, number):
        rows = self.order[number * self.batch % len(self.images):][:self.batch]
        prediction = self.model(self.images[rows])
        loss = self.criterion(prediction, self.y[rows])
        if self.regularizer is not None:
            loss = loss + 300 * self.regularizer(prediction, self.y[rows], self.z[rows], 0.05)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def seconds(self, steps):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for number in range(10):
            self.step(number)
        begin.record()
        for number in range(steps):
            self.step(number)
        end.record()
        end.synchronize()
        return 1e-3 * begin.elapsed_time(end) / steps


def time_torch(training, steps, tf32):
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    return training.batch / training.seconds(steps)


def measure(rows):
    """Images a second, round by round."""
    found = {name: {"tf32": [], "float32": [], "circe": [], "share": []} for name in rows}
    for _ in range(OPTIONS.rounds):
        ours = common.circe(OPTIONS, "bench", "--only", "images", "--quick", "--device", "cuda")["images"]
        ours = {(row["network"], row["regularizer"]): row for row in ours}
        for name in rows:
            training = Training(*name)
            for kind in ("tf32", "float32"):
                found[name][kind].append(time_torch(training, STEPS[name[1]], kind == "tf32"))
            found[name]["circe"].append(ours[name]["images_per_second"])
            found[name]["share"].append(ours[name]["share"])
    return found


def main():
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    found = measure(ROWS)
    print(f"\nimages a second\n{'network':10} {'regularizer':12} {'PyTorch':>30} {'PyTorch, float32':>30} {'circe, float32':>30}")
    for (net, regularizer), row in found.items():
        print(f"{net:10} {regularizer:12} " + " ".join(f"{common.spread(row[kind]):>30}" for kind in ("tf32", "float32", "circe")))
    median = {name: {kind: statistics.median(row[kind]) for kind in row} for name, row in found.items()}
    with_circe, without = median["dsprites", "circe"], median["dsprites", "none"]
    gain, beside = with_circe["circe"] / with_circe["tf32"], with_circe["circe"] / without["tf32"]
    print(f"\nwith CIRCE, over PyTorch with the plain regulariser: {gain:.2f}  {common.verdict(gain >= 2, 2)}")
    print(f"with CIRCE, over PyTorch without a regulariser: {beside:.2f}  {common.verdict(beside >= 1, 1)}")
    common.print_shares(found["dsprites", "circe"]["share"], SHARE, "a dSprites step, by events")
    print(f"and by the difference of steps with and without it: {100 * (1 - with_circe['circe'] / without['circe']):.2f} %")
    if OPTIONS.json:
        Path(OPTIONS.json).write_text(json.dumps([{"network": net, "regularizer": regularizer, **row}
                                                  for (net, regularizer), row in found.items()], indent=1))


if __name__ == "__main__":
    main()
