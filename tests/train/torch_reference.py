"""Networks of the experiments as PyTorch computes them, for test_resnet: torch_reference.py DIRECTORY [PYTHON...]

Writes resnet18.safetensors and dsprites.safetensors there: weights in the file's own names (float32), and under
"reference." what PyTorch made of them in float64: outputs in training and evaluation, gradients, running statistics.
The first PYTHON that has PyTorch does it where this one has not; without any it is skipped (exit status 77), and so is
the test. torchvision is not needed: the modules below have its structure and its names.
"""
import json
import os
import struct
import subprocess
import sys

try:
    import torch
    from torch import nn
except ImportError:
    for python in sys.argv[2:]:
        if os.path.exists(python) and subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0:
            os.execv(python, [python, "-B", __file__, sys.argv[1]])
    print("skipped: PyTorch is not installed (Debian: python3-torch)")
    sys.exit(77)


class BasicBlock(nn.Module):
    def __init__(self, before, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = nn.Identity()
        if stride != 1 or before != channels:
            self.downsample = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False),
                                            nn.BatchNorm2d(channels))

    def forward(self, x):
        branch = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(branch + self.downsample(x))


class ResNet18(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for stage in range(4):
            channels = 64 << stage
            first = BasicBlock(max(64, channels // 2), channels, 2 if stage > 0 else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(first, BasicBlock(channels, channels, 1)))
        self.fc = nn.Sequential(nn.Linear(512, 128), nn.LeakyReLU(0.01), nn.Linear(128, 64), nn.Linear(64, outputs))

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def dsprites(outputs):
    return nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1), nn.LeakyReLU(0.01), nn.Conv2d(16, 32, 3, 2, 1), nn.LeakyReLU(0.01),
                         nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, 2, 1), nn.LeakyReLU(0.01), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(256, 128), nn.LeakyReLU(0.01), nn.Linear(128, 64),
                         nn.Linear(64, outputs))


def write_safetensors(path, tensors):
    kinds = {torch.float32: "F32", torch.int64: "I64"}
    header, data = {}, []
    at = 0
    for name, tensor in tensors.items():
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def write_reference(path, net, image, rows, outputs):
    for module in net.modules():  # no parameter at a value that hides a slip
        if isinstance(module, nn.BatchNorm2d):
            module.weight.data = 1 + 0.2 * torch.randn_like(module.weight)
            module.bias.data = 0.2 * torch.randn_like(module.bias)
            module.running_mean = 0.2 * torch.randn_like(module.running_mean)
            module.running_var = 1 + 0.2 * torch.rand_like(module.running_var)
    made = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    x, g = torch.randn(rows, *image), torch.randn(rows, outputs)
    made["reference.input"], made["reference.output_grad"] = x, g
    net, x, g = net.double(), x.double(), g.double()
    made["reference.evaluated"] = net.eval()(x).float()
    out = net.train()(x)
    (out * g).sum().backward()
    made["reference.output"] = out.float()
    for name, parameter in net.named_parameters():
        made["reference.grad." + name] = parameter.grad.float()
    for name, buffer in net.named_buffers():
        if "running" in name:
            made["reference.after." + name] = buffer.float()
    write_safetensors(path, made)


if __name__ == "__main__":
    torch.manual_seed(1)
    os.makedirs(sys.argv[1], exist_ok=True)
    write_reference(os.path.join(sys.argv[1], "dsprites.safetensors"), dsprites(2), (1, 64, 64), 6, 2)
    write_reference(os.path.join(sys.argv[1], "resnet18.safetensors"), ResNet18(3), (3, 72, 64), 5, 3)
