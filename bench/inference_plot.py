"""Draws what inference.py printed: type I error on the circle over N, and over the dimension of y, with 95 % intervals.

    python bench/inference.py --parts levels | tee levels.txt
    python bench/inference_plot.py levels.txt [--out docs/figures]

Leaves inference_levels.svg and its data. Of a cell that was printed twice the last one counts.
"""

import re
import sys
from pathlib import Path

import common

LINE = re.compile(r"(?P<data>circle, N|post-nonlinear, n = 500, dim y) = (?P<at>\d+)\s+(?P<method>\S.*?)\s+"
                  r"(?P<share>[01]\.\d+) \[(?P<low>[\d.]+), (?P<high>[\d.]+)\] of")
METHODS = {"kci, gamma": "#0072b2", "circe": "#d55e00", "circe, auxiliary": "#cc79a7", "splitkci": "#009e73", "gcm": "#e69f00"}
PANELS = {"circle, N": ("y on the unit circle", "rows N", 10), "post-nonlinear, n = 500, dim y": ("post-nonlinear, n = 500", "dimensions of y", 0.06)}


def read(paths):
    found = {}
    for path in paths:
        for match in LINE.finditer(Path(path).read_text()):
            if match["method"] in METHODS:
                key = (match["data"], match["method"])
                found.setdefault(key, {})[int(match["at"])] = tuple(float(match[k]) for k in ("share", "low", "high"))
    return found


def write_data(found, path):
    """One block a curve, in the order of the keys; moved sideways a little, so that intervals do not hide each other."""
    with open(path, "w") as out:
        for data, method in found:
            shift = (list(METHODS).index(method) - 2) * PANELS[data][2]
            out.write(f"# {data}: {method}\n")
            out.writelines(f"{at + shift:g} {share} {low} {high}\n" for at, (share, low, high) in sorted(found[data, method].items()))
            out.write("\n\n")


def script(found):
    lines = [*common.figure("inference_levels", 960, 400), "set yrange [0:0.14]",
             "set key top left Left reverse maxrows 4 samplen 1.5", "set multiplot layout 1,2"]
    for data, (title, label, _) in PANELS.items():
        curves = [(i, method) for i, (own, method) in enumerate(found) if own == data]
        if not curves:
            continue
        plots = [f"'inference_levels.dat' index {i} using 1:2:3:4 with yerrorbars lc rgb '{METHODS[method]}' pt 7 ps 0.6 title '{method}'"
                 for i, method in curves]
        plots += ["0.05 with lines lc rgb '#808080' title 'level'", "0.065 with lines lc rgb '#808080' dt 2 title 'to reach'"]
        if data != next(iter(PANELS)):
            lines += ["unset key", "set xtics 1"]
        lines += [f"set title '{title}'", f"set xlabel '{label}'", "set ylabel 'rejected without dependence'",
                  "set offsets graph 0.08, graph 0.08, 0, 0", "plot " + ", \\\n     ".join(plots)]
    return "\n".join(lines) + "\nunset multiplot\n"


def main():
    parser = common.parser(__doc__)
    parser.add_argument("printed", nargs="+", help="what inference.py printed")
    parser.add_argument("--out", default="docs/figures", help="folder [docs/figures]")
    options = parser.parse_args()
    found = read(options.printed)
    if not found:
        sys.exit(f"inference_plot.py: {', '.join(options.printed)} contain no levels; run inference.py with --parts levels")
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    write_data(found, folder / "inference_levels.dat")
    common.gnuplot(folder, script(found))


if __name__ == "__main__":
    main()
