"""What the comparisons share: the options that all of them take, threads, and calling circe.

    options = common.options(__doc__, rounds=5)     # before PyTorch or NumPy are imported: it sets their threads
    rows = common.circe(options, "bench", "--only", "train")["train"]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def options(text, rounds, add=None):
    """The parsed command line; `add` may put further options into the parser."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--circe", default="build/circe", help="the binary [build/circe]")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of both [all cores]")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"of the peer, then circe [{rounds}]")
    parser.add_argument("--json", metavar="OUT", help="also write everything here")
    if add is not None:
        add(parser)
    found = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(found.threads)
    return found


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


def verdict(reached, target):
    return f"target {target}: {'met' if reached else 'not met'}"


def save(found, results):
    """Where --json says."""
    if found.json:
        Path(found.json).write_text(json.dumps(results, indent=1) + "\n")


def gnuplot(folder, script):
    """Runs a script in its folder, where its data are, and says which figure it drew."""
    try:
        subprocess.run(["gnuplot", script], cwd=folder, check=True)
    except FileNotFoundError:
        sys.exit(f"{Path(sys.argv[0]).name}: gnuplot is not installed; the data are in {folder}, beside {script}")
    print((Path(folder) / script).with_suffix(".svg"))


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
