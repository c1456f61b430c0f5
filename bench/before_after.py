"""Two builds of circe against each other, in turns, on one machine: is the newer one as fast?

    python bench/before_after.py --before OLD/build/circe --circe build/circe [--rounds 7] [--only circe|measures|train]
    python bench/before_after.py --revision fa5073c --circe build/circe     # checks that revision out below --work and builds it

Runs `circe bench --json` of both, one after the other and the other one first in every second round, and prints for every row
both medians over the rounds and the median of the ratios after / before of single rounds with their range. Rows that only one
build has are left out. A row is marked where every round was slower by more than --slack, which is what noise alone would not do.
"""

import statistics
import subprocess
import sys
from pathlib import Path

import common


def more_options(parser):
    parser.add_argument("--before", help="the binary of the older build")
    parser.add_argument("--revision", help="or a revision, which is checked out and built")
    parser.add_argument("--work", default="build-before", help="where to, with --revision [build-before]")
    parser.add_argument("--only", choices=["circe", "measures", "train", "images"], help="one part of the benchmark")
    parser.add_argument("--full", action="store_true", help="not the quick version: minutes a round")
    parser.add_argument("--slack", type=float, default=0.05, help="what counts as slower [0.05]")


def built(revision, work):
    """The binary of a revision, in a worktree of its own."""
    tree = Path(work).resolve()
    if not tree.exists():
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), revision], check=True)
    subprocess.run(["cmake", "--preset", "release", "-DCIRCE_TESTS=OFF"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "release"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    return str(tree / "build" / "circe")


def times(found, where=""):
    """Every median in a result of `circe bench`, by the path and the settings of its row."""
    rows = {}
    if isinstance(found, dict):
        keys = ("name", "path", "measure", "n", "regularizer", "B", "M", "d_x", "batch", *(("rank_y",) if where.endswith("rank") else ()))
        named = [f"{key}={found[key]}" for key in keys if isinstance(found.get(key), (str, int))]
        here = " ".join([where, *named]).strip()
        for key, value in found.items():
            if isinstance(value, (dict, list)):
                rows.update(times(value, f"{here} {key}".strip()))
            elif isinstance(value, (int, float)) and (key.startswith("median") or key == "seconds") and value > 0:
                rows[f"{here} {key}"] = float(value)
    elif isinstance(found, list):
        for part in found:
            rows.update(times(part, where))
    return rows


def run(options, binary):
    arguments = ["bench", *(() if options.full else ("--quick",)), *(("--only", options.only) if options.only else ())]
    options.circe = binary
    return times(common.circe(options, *arguments))


def main():
    options = common.options(__doc__, rounds=7, add=more_options)
    after = options.circe
    before = options.before or (built(options.revision, options.work) if options.revision else None)
    if before is None:
        sys.exit("before_after.py: give the older build, --before BINARY or --revision REVISION")
    rounds = []
    for number in range(options.rounds):
        order = (before, after) if number % 2 == 0 else (after, before)
        rounds.append({binary: run(options, binary) for binary in order})
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    table, slower = [], 0
    for row in rounds[0][before]:
        pairs = [(r[before][row], r[after][row]) for r in rounds if row in r[before] and row in r[after]]
        if len(pairs) < options.rounds:
            continue
        ratios = [b / a for a, b in pairs]
        marked = min(ratios) > 1 + options.slack
        slower += marked
        table.append({"row": row, "before": statistics.median(a for a, _ in pairs), "after": statistics.median(b for _, b in pairs),
                      "ratios": ratios})
        print(f"{row:70} {table[-1]['before']:10.4g} {table[-1]['after']:10.4g}  {common.spread(ratios)}{'  SLOWER' if marked else ''}")
    ratios = [statistics.median(row["ratios"]) for row in table]
    print(f"\n{len(table)} rows; median ratio after / before {common.spread(ratios)}; {slower} slower in every round")
    common.save(options, {"before": before, "after": after, "rows": table})
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
