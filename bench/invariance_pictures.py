"""The picture task of invariance.py: sprites in the manner of dSprites, drawn here, 16 by 16 pixels of grey.

    sprites, place     The height of a sprite is to be predicted, but the picture is moved up or down at random. The place
                       from left to right follows the height, so that a network without a regulariser looks there. Z is this
                       place.

This is the linear task of the paper's dSprites, small enough for a CPU.
"""

from __future__ import annotations

from typing import Callable, Dict

import numpy as np

SIDE = 16


def _drawn(square, size, across, down, noise: float, random) -> np.ndarray:
    """(n, SIDE, SIDE) bytes: a square or an ellipse of half-width `size` about (across, down) in pixels, with soft edges."""
    place = np.arange(SIDE)
    turn = random.uniform(0.0, np.pi, len(size))[:, None, None]
    x = place[None, None, :] - across[:, None, None]
    y = place[None, :, None] - down[:, None, None]
    u, v = np.cos(turn) * x - np.sin(turn) * y, np.sin(turn) * x + np.cos(turn) * y
    half = size[:, None, None]
    inside = np.where(square[:, None, None], half - np.maximum(abs(u), abs(v)), half - np.hypot(u / 1.3, 1.3 * v))
    grey = np.clip(inside + 0.5, 0.0, 1.0) + noise * random.normal(size=inside.shape)
    return np.rint(255 * np.clip(grey, 0.0, 1.0)).astype(np.uint8)


def place(seed: int, n: int) -> Dict[str, np.ndarray]:
    """Numbers: the target is the height before the picture was moved."""
    random = np.random.default_rng([seed, 16])
    height = random.uniform(-1.0, 1.0, n)
    across = height + 0.15 * random.normal(size=n)
    moved = height + 0.3 * random.normal(size=n)
    middle, reach = (SIDE - 1) / 2, 3.5
    pictures = _drawn(random.random(n) < 0.5, random.uniform(2.0, 3.0, n), middle + reach * across, middle + reach * moved, 0.05, random)
    return {"picture": pictures, "height": height, "across": across}


DRAWINGS: Dict[str, Callable[[int, int], Dict[str, np.ndarray]]] = {"sprites, place": place}
