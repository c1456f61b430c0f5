"""What the comparisons of training steps share: the networks in PyTorch, and data of the right size."""

import torch
from torch import nn


# ---- networks ---------------------------------------------------------------------------------------------------


def perceptron():
    """9x64."""
    sizes = [3] + 9 * [64]
    hidden = [layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(64, 1))


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


def draw_sprites(n):
    """Pictures of the right size; what they show does not change the cost."""
    generator = torch.Generator().manual_seed(1)
    images = 2.0 * (torch.rand(n, 1, 64, 64, generator=generator) < 0.1) - 1.0
    return images, *draw_variables(n, 2)


def draw_variables(n, seed):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 32, (n, 1), generator=generator) / 31.0
    z = torch.randint(0, 4, (n, 1), generator=generator).sqrt() * (2.0 * torch.randint(0, 2, (n, 1), generator=generator) - 1)
    return y, z
