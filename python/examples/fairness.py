"""Equalized odds with a continuous attribute: among people with the same outcome, the score must not depend on income.

Equalized odds asks that the score be independent of the attribute given the outcome. With groups one compares rates; here the
attribute is a number, and CIRCE measures the dependence that is left. Applicants have an ability that cannot be seen, a test
result, a recommendation that favours the rich, and an outcome; the score predicts the outcome from test and recommendation.

    python fairness.py [--gamma 1000] [--quick]
"""

import argparse

import torch

import circe
import circe.torch


def applicants(n, seed):
    random = torch.Generator().manual_seed(seed)
    draw = lambda: torch.randn(n, 1, generator=random)
    income, ability = draw(), draw()
    outcome = ability + 0.4 * income + 0.5 * draw()
    test = ability + 0.5 * draw()
    recommendation = 0.5 * ability + income + 0.3 * draw()
    return torch.cat([test, recommendation], 1), outcome, income


def train(data, circe_loss, gamma, epochs):
    torch.manual_seed(0)
    features, outcome, income = data
    network = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)  # the last steps are small: batches are noisy
    for _ in range(epochs):
        for rows in torch.randperm(len(features)).split(256):
            score = network(features[rows])
            loss = torch.nn.functional.mse_loss(score, outcome[rows])
            if gamma > 0:
                loss = loss + gamma * circe_loss(score, outcome[rows], income[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    return network


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gamma", type=float, default=1000.0)
    parser.add_argument("--quick", action="store_true", help="fewer epochs")
    options = parser.parse_args()
    epochs = 8 if options.quick else 40

    training, test = applicants(6000, seed=2), applicants(1000, seed=3)
    mean = circe.ConditionalMean().fit(training[1], training[2])
    circe_loss = circe.torch.CirceLoss(mean)

    left = {}
    print(f"{'':16}{'error':>10}{'CIRCE':>12}{'p':>10}")
    for name, gamma in (("plain", 0.0), ("equalized odds", options.gamma)):
        network = train(training, circe_loss, gamma, epochs)
        with torch.no_grad():
            score = network(test[0])
        error = torch.nn.functional.mse_loss(score, test[1]).item()
        left[name] = circe.circe(score, test[1], test[2], mean, sigma2_x="median", estimator="centered").value  # is never negative
        p = circe.test(score, test[1], test[2]).p_value
        print(f"{name:16}{error:10.3f}{left[name]:12.2e}{p:10.2g}")
    print(f"\nGiven the outcome, the score depends on income {left['plain'] / left['equalized odds']:.0f} times less (CIRCE).")


if __name__ == "__main__":
    main()
