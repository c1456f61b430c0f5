"""Draws the growth tables of compare.py's JSON as bench_growth.svg, or scaling.py's as bench_scaling.svg, by growth.gp and
scaling.gp, with the data beside the figure."""

import json
import sys
from pathlib import Path

import common


def write_growth(result, data):
    machine = result["machine"]
    data.write(f"# {machine['cpu']}, {machine['threads']} threads, {machine['isa']}; circe {machine['circe']}\n")
    for table in result["growth"]:
        data.write(f"# {table['with']}  milliseconds: {table['of']}; exponent {table['exponent']:.2f}\n")
        data.writelines(f"{size} {ms:.6g}\n" for size, ms in zip(table["sizes"], table["ms"]))
        data.write("\n\n")


def write_scaling(result, data):
    """A column for each case: how many times faster than on one thread."""
    data.write("threads " + " ".join(result["cases"]) + "\n")
    first = str(result["threads"][0])
    for threads in map(str, result["threads"]):
        times = [case[first]["median_ms"] / case[threads]["median_ms"] for case in result["cases"].values()]
        data.write(threads + " " + " ".join(f"{x:.4g}" for x in times) + "\n")


def main():
    parser = common.parser(__doc__)
    parser.add_argument("results", help="what compare.py or scaling.py wrote with --json")
    parser.add_argument("--out", default="docs/figures", help="folder [docs/figures]")
    options = parser.parse_args()
    result = json.loads(Path(options.results).read_text())
    kinds = {"growth": write_growth, "scaling": write_scaling}
    name = "scaling" if "cases" in result else "growth"
    if name == "growth" and "growth" not in result:
        sys.exit(f"plot.py: {options.results} has no growth tables; run compare.py without --no-growth")
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"bench_{name}.dat", "w") as data:
        kinds[name](result, data)
    common.gnuplot(folder, Path(__file__).with_name(f"{name}.gp").read_text())


if __name__ == "__main__":
    main()
