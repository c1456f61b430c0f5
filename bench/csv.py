"""Reading a large .csv: circe against pandas' reader (engine c) and, for information, pyarrow's, in one run on one file.

    python bench/csv.py [--rows 5000000] [--columns 10] [--digits 5] [--threads 2] [--rounds 3] [--file F]

Each reader runs in a process of its own, in turn; the median of the rounds counts. `clock` is what a person waits for, and
means something only on an idle machine; `processor` is the time of all threads together. Needs numpy, pandas and pyarrow.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import common

ROOT = Path(__file__).resolve().parent.parent

PEER = """
import json, resource, sys, time
reader, path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
if reader == "pandas":
    import pandas
    read = lambda: pandas.read_csv(path, engine="c").to_numpy()
else:
    import pyarrow, pyarrow.csv
    pyarrow.set_cpu_count(threads)
    read = lambda: pyarrow.csv.read_csv(path)
def used():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime
before, start = used(), time.perf_counter()
table = read()
print(json.dumps({"rows": table.shape[0], "cols": table.shape[1], "seconds": time.perf_counter() - start,
                  "processor": used() - before, "resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def make(path, rows, columns, digits):
    import numpy
    import pyarrow
    import pyarrow.csv
    draw = numpy.random.default_rng(0)
    table = pyarrow.table({f"c{k}": numpy.round(draw.normal(size=rows), digits) for k in range(columns)})
    pyarrow.csv.write_csv(table, path)


def run(reader, found, path, program):
    command = [str(program), path, str(found.threads)] if reader == "circe" else [sys.executable, "-c", PEER, reader, path,
                                                                                  str(found.threads)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--build", default="build", help="the build folder [build]")
    parser.add_argument("--rows", type=int, default=5000000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--digits", type=int, default=5, help="after the point; 17: as doubles are written in full")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--file", help="a .csv of your own")
    found = parser.parse_args()
    subprocess.run(["cmake", "--build", found.build, "--target", "csv_read"], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    program = (ROOT / found.build / "csv_read").resolve()
    with tempfile.TemporaryDirectory() as folder:
        path = found.file or str(Path(folder) / "table.csv")
        if not found.file:
            make(path, found.rows, found.columns, found.digits)
        results = {reader: [] for reader in ("pandas", "pyarrow", "circe")}
        for _ in range(found.rounds):
            for reader, taken in results.items():
                taken.append(run(reader, found, path, program))
        size = os.path.getsize(path) / 1e6
    first = results["circe"][0]
    print(f"{first['rows']} x {first['cols']}, {size:.0f} MB, {found.threads} threads, load {os.getloadavg()[0]:.1f}\n")
    print(f"{'reader':<10}{'clock s':>10}{'processor s':>13}{'resident MB':>13}{'clock / circe':>15}")
    median = {name: {key: statistics.median(one[key] for one in taken) for key in ("seconds", "processor", "resident_mb")}
              for name, taken in results.items()}
    for name, one in median.items():
        print(f"{name:<10}{one['seconds']:>10.2f}{one['processor']:>13.2f}{one['resident_mb']:>13.0f}"
              f"{one['seconds'] / median['circe']['seconds']:>15.2f}")


if __name__ == "__main__":
    main()
