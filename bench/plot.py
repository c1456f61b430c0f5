"""Draws the growth tables of compare.py's JSON as bench_growth.svg, its gnuplot script and data left beside it."""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", help="what compare.py --json wrote")
    parser.add_argument("--out", default="docs/figures", help="folder [docs/figures]")
    options = parser.parse_args()
    result = json.loads(Path(options.results).read_text())
    if "growth" not in result:
        sys.exit(f"plot.py: {options.results} has no growth tables; run compare.py without --no-growth")
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    machine = result["machine"]
    with open(folder / "bench_growth.dat", "w") as data:
        data.write(f"# {machine['cpu']}, {machine['threads']} threads, {machine['isa']}; circe {machine['circe']}\n")
        for table in result["growth"]:
            data.write(f"# {table['with']}  milliseconds: {table['of']}; exponent {table['exponent']:.2f}\n")
            data.writelines(f"{size} {ms:.6g}\n" for size, ms in zip(table["sizes"], table["ms"]))
            data.write("\n\n")
    shutil.copyfile(Path(__file__).parent / "growth.gp", folder / "bench_growth.gp")
    try:
        subprocess.run(["gnuplot", "bench_growth.gp"], cwd=folder, check=True)
    except FileNotFoundError:
        sys.exit(f"plot.py: gnuplot is not installed; the data are in {folder}/bench_growth.dat")
    print(f"{folder}/bench_growth.svg")


if __name__ == "__main__":
    main()
