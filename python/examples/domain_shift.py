"""Domain shift with images: the height of a bar, whatever the light it was photographed in.

In the training pictures tall bars were photographed in bright light; in the test pictures in dim light. A network that
reads the brightness is right in training and wrong in the test. Here its features are asked to tell nothing about the light
beyond the height itself: y is the height, z the light. Residual features of the training set are computed once, and each step
finds its rows by number.

    python domain_shift.py [--gamma 1000] [--quick]
"""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

import circe
import circe.torch

SIDE = 12


def photographs(n, seed, slope):
    """Pictures (n, 1, 12, 12), heights (n, 1), light (n, 1). The light follows the height by `slope`."""
    random = torch.Generator().manual_seed(seed)
    height = torch.rand(n, 1, generator=random)
    light = 0.5 + slope * (height - 0.5) + 0.15 * torch.randn(n, 1, generator=random)
    rows = torch.arange(SIDE).view(1, SIDE, 1)
    place = torch.randint(2, SIDE - 3, (n, 1, 1), generator=random)
    columns = torch.arange(SIDE).view(1, 1, SIDE)
    bar = ((SIDE - rows) <= 2 + 9 * height.view(n, 1, 1)) & ((columns - place).abs() <= 1)
    noise = 0.35 * torch.randn(n, SIDE, SIDE, generator=random)
    return (0.5 * bar + light.view(n, 1, 1) + noise).unsqueeze(1), height, light


def train(pictures, height, circe_loss, gamma, epochs):
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(200, 32), torch.nn.ReLU(),
        torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    data = circe.torch.IndexedDataset(TensorDataset(pictures, height))
    for _ in range(epochs):
        for batch, target, index in DataLoader(data, batch_size=256, shuffle=True, drop_last=True):
            predicted = network(batch)
            loss = torch.nn.functional.mse_loss(predicted, target) + gamma * circe_loss(predicted, index=index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gamma", type=float, default=100.0)
    parser.add_argument("--quick", action="store_true", help="fewer pictures and epochs")
    options = parser.parse_args()
    n, epochs = (1536, 12) if options.quick else (4096, 30)

    _, height, light = photographs(800, seed=1, slope=0.6)  # labels alone are enough for the holdout
    mean = circe.ConditionalMean(sigma2_z=0.1).fit(height, light)
    pictures, height, light = photographs(n, seed=2, slope=0.6)
    features = circe.torch.residual_features(mean, height, light)
    circe_loss = circe.torch.CirceLoss(features, sigma2_x=0.05, estimator="ustat")

    same, shifted = photographs(1000, seed=3, slope=0.6), photographs(1000, seed=4, slope=-0.6)
    errors = {}
    print(f"{'':12}{'same light':>12}{'other light':>13}   (squared error of the height)")
    for name, gamma in (("plain", 0.0), ("with CIRCE", options.gamma)):
        network = train(pictures, height, circe_loss, gamma, epochs)
        with torch.no_grad():
            errors[name] = [torch.nn.functional.mse_loss(network(p), h).item() for p, h, _ in (same, shifted)]
        print(f"{name:12}{errors[name][0]:12.4f}{errors[name][1]:13.4f}")
    print(f"\nIn other light the error is {errors['plain'][1] / errors['with CIRCE'][1]:.1f} times less.")


if __name__ == "__main__":
    main()
