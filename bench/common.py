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


def print_shares(shares, limit, of):
    share = statistics.median(shares)
    print(f"\nthe regulariser's share of {of}: {100 * share:.2f} %  {verdict(share <= limit, f'{100 * limit:.0f} %')}")
