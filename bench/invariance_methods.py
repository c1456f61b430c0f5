"""The methods of invariance.py. Each takes a task (invariance_tasks.Cut) and a seed, learns from the training rows, and returns
what it predicts for the fresh rows: a number, the probability of each class, or (fairlearn's reductions) labels.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import os
import tempfile
from typing import Callable, Dict, List, NamedTuple, Optional

import numpy as np

import invariance_tasks as tasks


class Prediction(NamedTuple):
    """values: (rows, 1) numbers, or (rows, classes) probabilities; strength: gamma or the like; labels: are they drawn labels?"""

    values: np.ndarray
    classes: Optional[List[str]]
    strength: Optional[float]
    labels: bool = False


# ---- circe's own --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _sources(task: tasks.Cut):
    """What circe.train and circe.predict get: tables in memory, or files of pictures with their labels."""
    if not task.pictures:
        yield {"data": task.train, "features": list(task.features)}, {"data": task.fresh}
        return
    with tempfile.TemporaryDirectory(prefix="circe-pictures-") as folder:
        labels, images, fresh = (os.path.join(folder, name) for name in ("labels.csv", "images.npy", "fresh.npy"))
        np.save(images, task.train["picture"])
        np.save(fresh, task.fresh["picture"])
        with open(labels, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([task.target, task.attribute])
            writer.writerows(zip(task.train[task.target], task.train[task.attribute]))
        yield {"images": images, "labels": labels}, {"images": fresh}


def trained(regularizer: str) -> Callable[[tasks.Cut, int], Prediction]:
    """circe.train with its defaults. The report's own test rows and second network are not needed: fresh rows are here."""

    def method(task: tasks.Cut, seed: int) -> Prediction:
        import circe

        with _sources(task) as (given, fresh):
            model = circe.train(**given, target=task.target, invariant_to=task.attribute, seed=seed, regularizer=regularizer, test=0,
                                baseline="none", **({"gamma": 0} if regularizer == "none" else {}))
            found = circe.predict(model, **fresh)
        return Prediction(found.values, list(found.names) if task.classes else None, model.gamma)

    return method


# ---- an adversary -------------------------------------------------------------------------------------------------------

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)
HELD_SHARE, PASSES = 0.2, 0.15  # as --gamma auto: p must come to .15 on rows that were held out


def _network(torch, inputs: int, outputs: int, layers: int):
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(inputs, 64), torch.nn.ReLU()]
        inputs = 64
    return torch.nn.Sequential(*parts, torch.nn.Linear(inputs, outputs))


def _picture_network(torch, outputs: int):
    """conv16s2,conv32s2,pool2,128,64 on pictures of 16 by 16 pixels, as circe.train has it."""
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, outputs))


def _reversal(torch):
    class Reversal(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, strength):
            ctx.strength = strength
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return -ctx.strength * gradient, None

    return Reversal.apply


def _coded(torch, values: np.ndarray):
    """Class numbers, or standardised numbers; how many outputs; the loss; what the adversary sees of it."""
    if values.dtype == object:
        kinds, codes = np.unique(values, return_inverse=True)
        codes = torch.from_numpy(codes)
        return codes, len(kinds), torch.nn.functional.cross_entropy, torch.nn.functional.one_hot(codes, len(kinds)).float()
    scaled = torch.tensor((values - values.mean()) / (values.std() or 1.0), dtype=torch.float32)[:, None]
    return scaled, 1, torch.nn.functional.mse_loss, scaled


def _contest(torch, x, y, z, strength: float, seed: int, rows, batch: int = 256):
    """A network that predicts y against one that guesses z from its prediction and y, by gradient reversal.

    Network, rate, decay and steps are those of circe.train, but for tables so small that 100 epochs are few steps."""
    torch.manual_seed(seed)
    steps = max(300, 100 * (len(rows) // batch))
    reverse, random = _reversal(torch), np.random.default_rng(seed)
    network = _picture_network(torch, y[1]) if x.dim() == 4 else _network(torch, x.shape[1], y[1], 3)
    guesser = _network(torch, y[1] + y[3].shape[1], z[1], 2)
    adam = torch.optim.AdamW([*network.parameters(), *guesser.parameters()], lr=1e-3, weight_decay=1.0)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for step in range(steps):
        some = torch.from_numpy(random.choice(rows, min(batch, len(rows)), replace=False))
        output = network(x[some])
        seen = torch.cat([reverse(output, strength * min(1.0, 5 * step / steps)), y[3][some]], 1)
        total = y[2](output, y[0][some]) + z[2](guesser(seen), z[0][some])
        adam.zero_grad()
        total.backward()
        adam.step()
        decay.step()
    return network


def adversary(task: tasks.Cut, seed: int) -> Prediction:
    """Of STRENGTHS, the smallest with which no dependence is found on a fifth of the training rows; then all rows are used."""
    import torch

    import invariance_judge as judge

    torch.set_num_threads(1)
    x, fresh = (torch.tensor(part, dtype=torch.float32) for part in tasks.numbers(task))
    if task.pictures:
        x, fresh = (part.reshape(len(part), 1, *task.train["picture"].shape[1:]) for part in (x, fresh))
    target, attribute = task.train[task.target], task.train[task.attribute]
    y, z = _coded(torch, target), _coded(torch, attribute)
    order = np.random.default_rng(seed).permutation(len(x))
    held, rest = np.split(order, [int(HELD_SHARE * len(order))])

    def predicted(network, rows):
        with torch.no_grad():
            output = network(rows)
            return (output.softmax(1) if task.classes else output * float(target.std()) + float(target.mean())).double().numpy()

    best, best_p = STRENGTHS[-1], -1.0
    for strength in STRENGTHS:
        guess = predicted(_contest(torch, x, y, z, strength, seed, rest), x[held])
        p = min(judge.p_values(guess, target[held], attribute[held]).values())
        if p > best_p:
            best, best_p = strength, p
        if p > PASSES:
            break
    values = predicted(_contest(torch, x, y, z, best, seed, order), fresh)
    return Prediction(values, sorted(set(target)) if task.classes else None, best)


# ---- fairlearn's reductions ---------------------------------------------------------------------------------------------


def reductions(task: tasks.Cut, seed: int) -> Prediction:
    """ExponentiatedGradient with equalised odds, of logistic regression. It promises labels, drawn at random: these are judged.
    It needs groups: numbers are cut at their median."""
    from fairlearn.reductions import EqualizedOdds, ExponentiatedGradient
    from sklearn.linear_model import LogisticRegression

    x, fresh = tasks.numbers(task)
    kinds = sorted(set(task.train[task.target]))
    attribute = task.train[task.attribute]
    groups = attribute.astype(str) if task.groups else attribute > np.median(attribute)
    reduced = ExponentiatedGradient(LogisticRegression(max_iter=1000), EqualizedOdds())
    reduced.fit(x, (task.train[task.target] == kinds[1]).astype(int), sensitive_features=groups)
    drawn = np.asarray(reduced.predict(fresh, random_state=seed)).astype(float)
    return Prediction(np.stack([1.0 - drawn, drawn], 1), kinds, None, labels=True)


METHODS: Dict[str, Callable[[tasks.Cut, int], Prediction]] = {
    "none": trained("none"), "circe": trained("circe"), "hscic": trained("hscic"), "gcm": trained("gcm"), "hsic": trained("hsic"),
    "adversary": adversary, "reductions": reductions,
}


def missing(method: str) -> Optional[str]:
    """Why this machine cannot run the method, if so."""
    needed = {"adversary": ("torch",), "reductions": ("fairlearn", "sklearn")}.get(method, ())
    absent = [name for name in needed if importlib.util.find_spec(name) is None]
    return f"{method} needs the Python package {' and '.join(absent)}" if absent else None


def inapplicable(method: str, task: tasks.Task) -> Optional[str]:
    """Why the method has no answer for the task, if so."""
    if method == "reductions" and not task.classes:
        return "fairlearn's equalised odds is for classes"
    return None
