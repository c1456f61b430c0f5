"""What the comparisons share: the options that all of them take, threads, data, and calling circe.

    options = common.options(__doc__, rounds=5)     # before PyTorch or NumPy are imported: it sets their threads
    rows = common.circe(options, "bench", "--only", "train")["train"]
"""

import argparse
import importlib
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def parser(text):
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)


def limit_threads(threads):
    os.environ.update(dict.fromkeys(THREADS, str(threads)))


def options(text, rounds, add=None):
    """The parsed command line; `add` may put further options into the parser."""
    taken = parser(text)
    taken.add_argument("--circe", default="build/circe", help="the binary [build/circe]")
    taken.add_argument("--threads", type=int, default=os.cpu_count(), help="of both [all cores]")
    taken.add_argument("--rounds", type=int, default=rounds, help=f"of the peer, then circe [{rounds}]")
    taken.add_argument("--json", metavar="OUT", help="also write everything here")
    if add is not None:
        add(taken)
    found = taken.parse_args()
    limit_threads(found.threads)
    return found


def package(library=None):
    """The Python package of these sources, on a library that is named; None: on its own, or that of CIRCE_LIBRARY."""
    if library is not None:
        os.environ["CIRCE_LIBRARY"] = str(Path(library).resolve())
    sys.path.append(sys.path.pop(0))  # csv.py here is not the csv of others
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
    return importlib.import_module("circe")


def circe(found, *arguments):
    """What the command prints as JSON."""
    command = [found.circe, *map(str, arguments), "--threads", str(found.threads), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{Path(sys.argv[0]).name}: {' '.join(command)} failed with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def spread(values, unit=1.0):
    """Median and range."""
    return f"{unit * statistics.median(values):.3g} [{unit * min(values):.3g}-{unit * max(values):.3g}]"


def times(call, budget, least=3, most=math.inf):
    """Seconds of each call within a budget of seconds, after one that only warms up."""
    call()
    taken, start = [], time.perf_counter()
    while len(taken) < least or (time.perf_counter() - start < budget and len(taken) < most):
        before = time.perf_counter()
        call()
        taken.append(time.perf_counter() - before)
    return taken


def in_turns(rounds, ours, peers):
    """Rounds of circe and its peers. ours() gives milliseconds by row; peers: {(peer, ...): (row, call)}, where a call gives seconds of
    repetitions. {name: (the peer's milliseconds, circe's of each round, ratios of each round)}, without what cannot be imported."""
    found = {}
    for _ in range(rounds):
        mine = ours()
        for name, (row, call) in peers.items():
            try:
                taken = [1e3 * seconds for seconds in call()]
            except ImportError as error:
                if name not in found:
                    print(f"{name[0]}: skipped, {error}")
                found[name] = None
                continue
            theirs, own, ratios = found.setdefault(name, ([], [], []))
            theirs += taken
            own.append(mine[row])
            ratios.append(statistics.median(taken) / mine[row])
    return {name: lists for name, lists in found.items() if lists is not None}


def wilson(hits, n, z=1.96):
    """The 95 % interval of a share."""
    share = hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def write_table(path, rows, seed=1):
    """A .csv of y, z that follows it, a feature a of both, and a target b."""
    draw = random.Random(seed)
    with open(path, "w") as out:
        print("a,y,z,b", file=out)
        for _ in range(rows):
            y = draw.gauss(0, 1)
            z = (y * y + draw.gauss(0, 1) - 1) / 1.7
            print(f"{0.6 * y + 0.3 * z + 0.1 * draw.gauss(0, 1):.6f},{y:.6f},{z:.6f},{z + 0.3 * y + 0.1 * draw.gauss(0, 1):.6f}", file=out)


def verdict(reached, target):
    return f"target {target}: {'met' if reached else 'not met'}"


def save(found, results):
    """Where --json says."""
    if found.json:
        Path(found.json).write_text(json.dumps(results, indent=1) + "\n")


def figure(name, width, height):
    """The first lines of a gnuplot script."""
    return [f"set terminal svg size {width},{height} dynamic rounded noenhanced font 'sans-serif,13' background rgb 'white'",
            f"set output '{name}.svg'", "set encoding utf8", "set border 3", "set tics nomirror out scale 0.6",
            "set grid lt 1 lw 0.5 lc rgb '#d9d9d9'"]


def gnuplot(folder, script):
    """Runs the text of a script in the folder where its data are."""
    try:
        subprocess.run(["gnuplot"], input=script, text=True, cwd=folder, check=True)
    except FileNotFoundError:
        sys.exit(f"{Path(sys.argv[0]).name}: gnuplot is not installed; the data are in {folder}")


def resources(command, **more):
    """Runs a command: its wall seconds, processor seconds, peak resident bytes, and what it printed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as problems:
        before = time.perf_counter()
        child = subprocess.Popen([str(part) for part in command], stdout=out, stderr=problems, **more)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - before
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        problems.seek(0)
        if child.returncode != 0:
            sys.exit(f"{Path(sys.argv[0]).name}: {' '.join(map(str, command))} failed with {child.returncode}: "
                     f"{problems.read().decode().strip()}")
        return seconds, usage.ru_utime + usage.ru_stime, 1024.0 * usage.ru_maxrss, out.read().decode()
