"""The tables and the figure of invariance.py: by method, by task, and every run as a line of CSV."""

from __future__ import annotations

import csv
import math
import statistics
import sys
from pathlib import Path

import common
import invariance_methods as methods
import invariance_pictures as pictures
import invariance_tasks as tasks

LEVEL, MOST_OF = 0.05, 0.8  # a method gets there on a task where dependence is not found in 4 of 5 runs
FIELDS = ("task", "method", "seed", "rows", "fresh", "error", "wrong", "p_kci", "p_gcm", "p_kci_few", "p_gcm_few", "kpc", "kpc_lower", "kpc_upper",
          "kpc_chance", "tpr_gap", "fpr_gap", "strength", "seconds", "cpu_seconds", "failed")
COLOURS = {"none": "#808080", "circe": "#d55e00", "hscic": "#0072b2", "gcm": "#e69f00", "hsic": "#009e73", "adversary": "#cc79a7",
           "reductions": "#56b4e9"}


def passed(row, tests=("p_kci",)) -> bool:
    return all(row[test] > LEVEL for test in tests)


def counted(rows, tests) -> str:
    return f"{sum(passed(row, tests) for row in rows)}/{len(rows)}" if rows else ""


def loss(row) -> float:
    """Labels have no probability: their error is the share that is wrong."""
    return row["error"] if "error" in row else row["wrong"]


def mean(rows, key) -> float:
    values = [row[key] for row in rows if key in row and not math.isnan(row[key])]
    return statistics.mean(values) if values else math.nan


def shown(value: float, form: str = ".3f") -> str:
    return "" if math.isnan(value) else format(value, form)


def cells(rows):
    """Runs by task and method, in the order of the tables."""
    found = {}
    for task in (*tasks.TASKS, "invented"):
        for method in methods.METHODS:
            some = [row for row in rows if row["task"] == task and row["method"] == method and "failed" not in row]
            if some:
                found[task, method] = sorted(some, key=lambda row: row["seed"])
    return found


def beside(some, others):
    """The runs of `some` with the seeds of `others`."""
    seeds = {row["seed"] for row in others}
    return [row for row in some if row["seed"] in seeds]


def ratio(found, method, key="error") -> float:
    """The geometric mean over tasks of the error against that without a regulariser, of the same seeds."""
    logs = [math.log(mean(some, key) / mean(beside(found[task, "none"], some), key)) for (task, own), some in found.items()
            if own == method and (task, "none") in found and not math.isnan(mean(some, key))]
    return math.exp(statistics.mean(logs)) if logs else math.nan


def best(found, task, key="error"):
    """Of the methods that get there, the one that CIRCE's error is largest beside: this ratio, its name and its error."""
    there = [(mean(beside(found[task, "circe"], some), key) / mean(some, key), method, mean(some, key))
             for (own, method), some in found.items()
             if own == task and sum(map(passed, some)) >= MOST_OF * len(some) and not math.isnan(mean(some, key))]
    return max(there) if there else None


def by_method(found):
    print("| method | runs | KCI p > .05 | GCM p > .05 | both | KCI, few rows | KPC above chance, % | TPR gap | FPR gap | error / none | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for method in methods.METHODS:
        rows = [row for (_, own), some in found.items() if own == method for row in some]
        if not rows:
            continue
        above = [100 * (row["kpc"] - row["kpc_chance"]) for row in rows if "kpc" in row]
        print(f"| {method} | {len(rows)} | {counted(rows, ['p_kci'])} | {counted(rows, ['p_gcm'])} | {counted(rows, ['p_kci', 'p_gcm'])} "
              f"| {counted([row for row in rows if 'p_kci_few' in row], ['p_kci_few'])} | {statistics.mean(above):.1f} "
              f"| {shown(mean(rows, 'tpr_gap'), '.2f')} | {shown(mean(rows, 'fpr_gap'), '.2f')} "
              f"| {shown(ratio(found, method), '.2f')} | {statistics.median(row['cpu_seconds'] for row in rows):.1f} |")


def by_task(found):
    """Error, and in how many runs neither test finds dependence."""
    present = [method for method in methods.METHODS if any(own == method for _, own in found)]
    print(f"| task | {' | '.join(present)} |")
    print("|---" * (len(present) + 1) + "|")
    for task in dict.fromkeys(task for task, _ in found):
        line = []
        for method in present:
            some = found.get((task, method))
            line.append("" if some is None else f"{statistics.mean(map(loss, some)):.3f}{'' if 'error' in some[0] else ' wrong'}, "
                                                f"{counted(some, ['p_kci'])}, {counted(some, ['p_gcm'])}")
        print(f"| {task} | {' | '.join(line)} |")


def against_best(found):
    print("| task | CIRCE: error | KCI p > .05 | best that gets there | its error | ratio |")
    print("|---|---|---|---|---|---|")
    for task in dict.fromkeys(task for task, method in found if method == "circe"):
        own, other = found[task, "circe"], best(found, task)
        start = f"| {task} | {mean(own, 'error'):.3f} | {counted(own, ['p_kci'])} |"
        print(f"{start} {other[1]} | {other[2]:.3f} | {other[0]:.2f} |" if other else f"{start} no method | | |")


def write_csv(rows, path: Path) -> None:
    order = {name: place for place, name in enumerate(tasks.TASKS)}
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for row in sorted(rows, key=lambda row: (order.get(row["task"], -1), list(methods.METHODS).index(row["method"]), row["seed"])):
            writer.writerow({key: f"{row[key]:.4g}" if isinstance(row.get(key), float) else row.get(key) for key in FIELDS})


SCRIPT = [*common.figure("invariance", 760, 460), "set yrange [0:1.02]",
          "set xlabel 'error, relative to no regulariser (geometric mean over tasks)'",
          "set ylabel 'share of runs in which KCI finds no dependence'", "set offsets graph 0.05, graph 0.15, 0, 0", "unset key"]


def draw(found, folder: Path) -> None:
    """One point for each method that predicts numbers or probabilities: what it costs, and how often dependence is not found."""
    plots = []
    with open(folder / "invariance.dat", "w") as data:
        for method in methods.METHODS:
            rows = [row for (_, own), some in found.items() if own == method for row in some]
            if not rows or math.isnan(ratio(found, method)):
                continue
            share = statistics.mean(map(passed, rows))
            half = 1.96 * math.sqrt(share * (1 - share) / len(rows))
            data.write(f"# {method}\n{ratio(found, method):.4f} {share:.4f} {max(0, share - half):.4f} {min(1, share + half):.4f} {method}\n\n\n")
            look = f"lc rgb '{COLOURS[method]}'"
            plots += [f"'invariance.dat' index {len(plots) // 2} using 1:2:3:4 with yerrorbars {look} pt 7 ps 0.9",
                      f"'' index {len(plots) // 2} using 1:2:5 with labels left offset 1,0.5 tc rgb '{COLOURS[method]}'"]
    common.gnuplot(folder, "\n".join([*SCRIPT, "plot "]) + ", ".join([*plots, "0.9 with lines lc rgb '#808080' dt 2"]) + "\n")


def main(rows, out=None) -> int:
    found = cells(rows)
    if not found:
        print("invariance.py: there are no runs to sum up", file=sys.stderr)
        return 1
    tabular = {key: some for key, some in found.items() if key[0] not in pictures.DRAWINGS}  # pictures are no average of the rest
    for table, some in ((by_method, tabular), (by_task, found), (against_best, found)):
        table(some)
        print()
    for row in rows:
        if "failed" in row:
            print(f"failed: {row['task']}, {row['method']}, seed {row['seed']}: {row['failed']}")
    if out is not None:
        for folder in ("results", "figures"):
            (Path(out) / folder).mkdir(parents=True, exist_ok=True)
        write_csv(rows, Path(out) / "results" / "invariance.csv")
        draw(tabular, Path(out) / "figures")
    return 0
