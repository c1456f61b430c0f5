"""The fastest that a careful user of PyTorch has on this GPU, beside circe: whole steps in a CUDA graph, channels last.

The paper's dSprites network at batch 1024, the synthetic experiments' 9x64 at 256, ResNet-18 at 16, 64 and 256; AdamW,
fused. A step is: take a batch, forward, loss, backward, optimiser. Eager float32 is there for comparison.

    python bench/gpu_best.py [--circe build-cuda/circe] [--peer-only] [--networks A,B] [--modes tf32] [--rounds 3] [--json OUT]
"""

import statistics

import common


def add_options(parser):
    parser.add_argument("--peer-only", action="store_true", help="PyTorch alone")
    parser.add_argument("--networks", default="dsprites,9x64,resnet18", help="those to time")
    parser.add_argument("--modes", default="", metavar="PRECISION", help="only these: float32, tf32 or bf16")


OPTIONS = common.options(__doc__, rounds=3, add=add_options)

import torch  # noqa: E402
from torch import nn  # noqa: E402

from networks import draw_sprites, draw_variables, dsprites, perceptron, resnet18  # noqa: E402

NETWORKS = [("dsprites", 1024), ("9x64", 256), ("resnet18", 16), ("resnet18", 64), ("resnet18", 256)]
STEPS = {16: 30, 64: 16, 256: 8}
MODES = {"eager, float32": {}, "graph, float32": {"graph": True},
         "graph, float32, channels last": {"graph": True, "last": True}, "graph, tf32": {"graph": True, "tf32": True},
         "graph, tf32, channels last": {"graph": True, "tf32": True, "last": True},
         "graph, bf16, channels last": {"graph": True, "tf32": True, "last": True, "half": True}}


def make(net, batch):
    if net == "dsprites":
        return dsprites(), *draw_sprites(16384)[:2]
    if net == "9x64":
        return perceptron(), torch.randn(8192, 3), draw_variables(8192, 2)[0]
    images = torch.randn(2 * batch, 3, 224, 224, device="cuda")
    return resnet18(), images, draw_variables(2 * batch, 2)[0]


class Step:
    def __init__(self, net, batch, tf32=False, last=False, half=False, graph=False):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True
        model, points, targets = make(net, batch)
        self.kind = torch.channels_last if last and points.dim() == 4 else torch.contiguous_format
        self.model = model.cuda().to(memory_format=self.kind)
        self.points, self.targets = points.cuda(), targets.cuda()
        if points.dim() == 4:
            self.points = self.points.contiguous(memory_format=self.kind)
        self.half, self.batch = half, batch
        self.rows = torch.randperm(len(points), device="cuda")[:self.batch].clone()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True, capturable=graph)
        self.run = self.captured() if graph else self.once

    def once(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.half):
            loss = nn.functional.mse_loss(self.model(self.points[self.rows]).float(), self.targets[self.rows])
        loss.backward()
        self.optimizer.step()

    def captured(self):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(5):
                self.once()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.once()
        return graph.replay

    def milliseconds(self, steps):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(10):
            self.run()
        begin.record()
        for _ in range(steps):
            self.run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / steps


def ours():
    found = {}
    for precision in ("float32", "tf32", "bf16"):
        for part in ("images", "train"):
            rows = common.circe(OPTIONS, "bench", "--only", part, "--quick", "--device", "cuda", "--precision", precision)
            for row in rows[part]:
                if row["regularizer"] == "none" and row["runs"] == 1:
                    found[row["network"], row["batch"], f"circe, {precision}"] = [row["median_ms"]]
    return found


def show(net, batch, mode, times):
    rate = 1e3 * batch / statistics.median(times)
    print(f"{net:9} batch {batch:5}  {mode:30} {common.spread(times):>24}  {rate:12.0f} a second", flush=True)


def main():
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}; ms a step")
    found = {} if OPTIONS.peer_only else ours()
    for place, times in found.items():
        show(*place, times)
    wanted = OPTIONS.networks.split(",")
    for net, batch in ((net, batch) for net, batch in NETWORKS if net in wanted):
        for mode, how in ((mode, how) for mode, how in MODES.items() if OPTIONS.modes in mode):
            step = Step(net, batch, **how)
            found[net, batch, mode] = [step.milliseconds(STEPS[batch] if net == "resnet18" else 100)
                                       for _ in range(OPTIONS.rounds)]
            show(net, batch, mode, found[net, batch, mode])
            del step
            torch.cuda.empty_cache()
    common.save(OPTIONS, [{"network": net, "batch": batch, "mode": mode, "ms": times}
                          for (net, batch, mode), times in found.items()])


if __name__ == "__main__":
    main()
