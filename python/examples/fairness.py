"""Equalized odds with a continuous attribute: among people with the same outcome, the score must not depend on income.

Equalized odds asks that the score be independent of the attribute given the outcome. With groups one compares rates; here the
attribute is a number, and CIRCE measures the dependence that is left. Applicants have an ability that cannot be seen, a test
result, a recommendation that favours the rich, and an outcome; the score predicts the outcome from test and recommendation.

    python fairness.py [--gamma 300] [--quick]
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
    for _ in range(epochs):
        for rows in torch.randperm(len(features)).split(256):
            score = network(features[rows])
            loss = torch.nn.functional.mse_loss(score, outcome[rows])
            if gamma > 0:
                loss = loss + gamma * circe_loss(score, outcome[rows], income[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gamma", type=float, default=300.0)
    parser.add_argument("--quick", action="store_true", help="fewer epochs")
    options = parser.parse_args()
    epochs = 8 if options.quick else 40

    _, outcome, income = applicants(1000, seed=1)  # people who are not trained on
    mean = circe.ConditionalMean(sigma2_z=1.0).fit(outcome, income)
    circe_loss = circe.torch.CirceLoss(mean, sigma2_x=0.5, estimator="ustat")

    training, test = applicants(3000, seed=2), applicants(3000, seed=3)
    left = {}
    print(f"{'':16}{'error':>10}{'CIRCE':>12}{'|GCM|':>10}")
    for name, gamma in (("plain", 0.0), ("equalized odds", options.gamma)):
        network = train(training, circe_loss, gamma, epochs)
        with torch.no_grad():
            score = network(test[0])
        error = torch.nn.functional.mse_loss(score, test[1]).item()
        left[name] = circe.circe(score, test[1], test[2], mean, sigma2_x=0.5).value
        correlation = circe.gcm(score, test[1], test[2], regression="linear").value
        print(f"{name:16}{error:10.3f}{left[name]:12.2e}{correlation:10.1f}")
    print(f"\nGiven the outcome, the score depends on income {left['plain'] / left['equalized odds']:.0f} times less (CIRCE).")


if __name__ == "__main__":
    main()
