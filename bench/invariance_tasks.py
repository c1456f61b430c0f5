"""The tasks of invariance.py: public tables, and pictures, with an attribute that a prediction must not depend on once the target
is known.

A task is a table, its rows cut by the seed into training rows and fresh rows. Columns are arrays of numbers or of text; text is
a category. The target of a classification is text. A column of pictures is what the network sees, in place of all others.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from typing import Callable, Dict, Optional, Tuple

import numpy as np

import invariance_pictures as pictures

Columns = Dict[str, np.ndarray]
MOST_ROWS, FRESH_SHARE = 4500, 1.0 / 3.0
PICTURES = 1800


@dataclass(frozen=True)
class Task:
    """Where a task comes from; file "": drawn, or invented. text: columns of codes that are categories."""

    file: str
    target: str
    attribute: str
    classes: bool
    left_out: Tuple[str, ...] = ()
    text: Tuple[str, ...] = ()
    rows: Optional[Callable[[Columns], np.ndarray]] = None


@dataclass(frozen=True)
class Cut:
    """One task with one seed."""

    name: str
    train: Columns
    fresh: Columns
    features: Tuple[str, ...]
    target: str
    attribute: str
    classes: bool

    @property
    def groups(self) -> bool:
        """Is the attribute discrete?"""
        return self.train[self.attribute].dtype == object

    @property
    def pictures(self) -> bool:
        return "picture" in self.train


_CRIME = ("state", "communityname", "fold", "Black", "class")
_PREMIUMS = ("zipcode", "name", "bi_policy_premium", "pd_policy_premium", "risk_difference")
_CLIENTS = ("SEX", "EDUCATION", "MARRIAGE", "default payment")


def _common_races(columns: Columns) -> np.ndarray:
    return np.isin(columns["race"], ["African-American", "Caucasian", "Hispanic"])


def _common_degrees(columns: Columns) -> np.ndarray:
    return np.isin(columns["EDUCATION"], [f"EDUCATION {code}" for code in (1, 2, 3)])


TASKS = {
    "crime, race": Task("communities_crime.csv", "ViolentCrimesPerPop", "racepctblack", False, _CRIME),
    "crime, foreign-born": Task("communities_crime.csv", "ViolentCrimesPerPop", "PctForeignBorn", False, _CRIME),
    "insurance, minority": Task("car_insurance/ca-per-zip.csv", "combined_premium", "minority", False, _PREMIUMS),
    "students, sex": Task("tables/student_math.csv", "G2", "sex", False, ("G1", "class")),
    "clients' limit, age": Task("tables/credit_card_clients.csv", "LIMIT_BAL", "AGE", False, (), _CLIENTS),
    "adult, sex": Task("tables/adult.csv", "Income", "Sex", True, (), ("HoursPerWeek",)),
    "adult, race": Task("tables/adult.csv", "Income", "Race", True, (), ("HoursPerWeek",)),
    "compas, race": Task("tables/compas.csv", "label_value", "race", True, ("entity_id",), ("label_value",), _common_races),
    "compas, age": Task("tables/compas.csv", "label_value", "age_cat", True, ("entity_id",), ("label_value",)),
    "german, age": Task("tables/german_credit.csv", "class-label", "age", True, (), ("class-label",)),
    "clients, education": Task("tables/credit_card_clients.csv", "default payment", "EDUCATION", True, (), _CLIENTS, _common_degrees),
    "clients, age": Task("tables/credit_card_clients.csv", "default payment", "AGE", True, (), _CLIENTS),
    "sprites, place": Task("", "height", "across", False),
}


def _column(cells, name: str, text: bool) -> np.ndarray:
    """Numbers where all cells are; codes that are categories get a word in front, which makes them text."""
    if text:
        return np.array([f"{name} {cell}" for cell in cells], dtype=object)
    try:
        return np.array([float(cell) for cell in cells])
    except ValueError:
        return np.array(cells, dtype=object)


def read(task: Task, folder: str) -> Columns:
    """The columns of a table without rows that miss a cell."""
    with open(os.path.join(folder, task.file), newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if all(cell not in ("", "?", "NA", None) for cell in row.values())]
    columns = {name: _column([row[name] for row in rows], name, name in task.text) for name in rows[0] if name not in task.left_out}
    return columns if task.rows is None else taken(columns, task.rows(columns))


def taken(columns: Columns, rows) -> Columns:
    return {name: values[rows] for name, values in columns.items()}


def invented(seed: int, n: int = 360) -> Columns:
    """A small table for tests: z shows in one feature, given y."""
    y, z, e, f = np.random.default_rng(seed).normal(size=(4, n))
    label = np.where(y + 0.5 * e > 0, "yes", "no").astype(object)
    return {"u": y + z + 0.2 * e, "w": y + f, "y": label, "group": np.where(z > 0, "a", "b").astype(object)}


def cut(name: str, seed: int, folder: Optional[str]) -> Cut:
    """Training rows and fresh rows, by the seed alone."""
    if name == "invented":
        columns, task = invented(seed), Task("", "y", "group", True)
    elif name in pictures.DRAWINGS:
        columns, task = pictures.DRAWINGS[name](seed, PICTURES), TASKS[name]
    else:
        task = TASKS[name]
        columns = read(task, folder or "")
    n = len(columns[task.target])
    order = np.random.default_rng([seed, 2026]).permutation(n)[:MOST_ROWS]
    fresh, train = (taken(columns, rows) for rows in np.split(order, [int(len(order) * FRESH_SHARE)]))
    features = ("picture",) if "picture" in columns else tuple(name for name in columns if name != task.target)
    return Cut(name, train, _familiar(fresh, train), features, task.target, task.attribute, task.classes)


def _familiar(fresh: Columns, train: Columns) -> Columns:
    """Without the few rows that contain a category which no training row has."""
    known = [np.isin(values, train[name]) for name, values in fresh.items() if values.dtype == object]
    return taken(fresh, np.all(known, axis=0)) if known else fresh


def numbers(some: Cut) -> Tuple[np.ndarray, np.ndarray]:
    """The features of training and fresh rows as one matrix each: numbers standardised, one column for each category; pixels from
    -1 to 1."""
    if some.pictures:
        left, right = (part["picture"].reshape(len(part["picture"]), -1) / 127.5 - 1.0 for part in (some.train, some.fresh))
        return left, right
    left, right = [], []
    for name in some.features:
        train, fresh = some.train[name], some.fresh[name]
        if train.dtype == object:
            kinds = sorted(set(train))
            left += [(train == kind).astype(float) for kind in kinds]
            right += [(fresh == kind).astype(float) for kind in kinds]
        else:
            mean, spread = train.mean(), train.std() or 1.0
            left.append((train - mean) / spread)
            right.append((fresh - mean) / spread)
    return np.stack(left, 1), np.stack(right, 1)
