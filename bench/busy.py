"""What a busy machine costs: calls of the library, of the Python package and of the command, beside processes that never sleep.

    python bench/busy.py --library build/libcirce.so --circe build/circe [--threads 2] [--busy 2] [--rounds 7] [--json FILE]

A call on T threads beside S processes that want a processor each, on C processors, has a share C / (T + S) of what it would
have alone: with two threads beside two processes on two processors, a half. `cost` is the time beside them over the time on the
idle machine, times that share: 1 where sharing explains all of it. What exceeds 1 is waiting: for a thread that has lost its
processor, or by threads that spin while those they wait for cannot run. More than 3 is a defect.

Idle and busy rounds take turns: the processes are stopped and continued by signals. Each round gives the mean over its calls: a
median would not see those in which a processor was lost. The table has medians and ranges over the rounds. `others` is the share
of the machine that neither this program nor its busy processes used; a round in which it exceeds a tenth says little: it is
counted as disturbed, and left out where undisturbed ones remain.

The fit, the measures and the tests are called through the Python package, which adds microseconds. A training step is that of
`circe train`. Needs NumPy.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common

MOST = 3.0  # of the cost
DISTURBED = 0.1
TICK = os.sysconf("SC_CLK_TCK")


def add(parser):
    parser.add_argument("--library", default="build/libcirce.so")
    parser.add_argument("--busy", type=int, default=2, help="processes beside it [2]")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a call's round, at least one call [1]")
    parser.add_argument("--only", default="", help="calls whose name contains this")


options = common.options(__doc__, rounds=7, add=add)
circe = common.package(options.library)

import numpy as np  # noqa: E402

# ---- the load -----------------------------------------------------------------------------------------------------------


class Load:
    """Processes that want all of a processor each, while it is on."""

    def __init__(self, n):
        self.processes = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(n)]
        self.signal(signal.SIGSTOP)

    def signal(self, which):
        for process in self.processes:
            process.send_signal(which)

    def __enter__(self):
        self.signal(signal.SIGCONT)
        time.sleep(0.05)

    def __exit__(self, *_):
        self.signal(signal.SIGSTOP)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def used(self):
        """Seconds of processor time so far."""
        total = 0
        for process in self.processes:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / TICK
        return total


def machine_used():
    """Seconds of processor time of everybody, and of all there were."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / TICK, sum(fields) / TICK


def own_used():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


# ---- the calls ----------------------------------------------------------------------------------------------------------


def draw(n, seed):
    normal = np.random.default_rng(seed).normal
    y = normal(size=(n, 1))
    z = y**2 + normal(size=(n, 1))
    return np.concatenate([z, np.sin(y)], axis=1) + 0.1 * normal(size=(n, 2)), y, z


class Timed:
    """A call whose time is what it says itself, and not that of starting a process."""

    def __init__(self, folder):
        self.folder = folder
        common.write_table(f"{folder}/table.csv", 4000)

    def __call__(self):
        said = common.circe(options, "train", "--data", f"{self.folder}/table.csv", "--features", "a,y,z", "--target", "b",
                            "--given", "y", "--invariant-to", "z", "--gamma", "10", "--net", "9x64", "--epochs", "40", "--batch",
                            "256", "--no-report", "--quiet", "-o", f"{self.folder}/model.safetensors")
        return said["seconds"] / said["steps"]


def calls(folder):
    circe.set_threads(options.threads)
    _, Y, Z = draw(5000, 1)
    mean = circe.ConditionalMean(sigma2_y=0.1, ridge=0.1, sigma2_z=1.0, method="lowrank").fit(Y, Z)
    made = {}
    for n in (256, 1024):
        x, y, z = draw(n, n)
        made[f"CIRCE cached, B={n}"] = lambda f=mean.residual_features(y, z), x=x: f.measure(x, sigma2_x=1.0, grad=True)
    made["HSCIC, B=1024"] = lambda: circe.hscic(x, y, z, sigma2_x=1.0, sigma2_y=1.0, sigma2_z=1.0, ridge=0.1, grad=True)
    made["dense fit, 1,500 rows"] = lambda: circe.ConditionalMean(sigma2_z=1.0, method="dense").fit(Y[:1500], Z[:1500])
    made["low-rank fit, 5,000 rows"] = lambda: circe.ConditionalMean(sigma2_z=1.0, method="lowrank").fit(Y, Z)
    made["KCI test, 500 rows"] = lambda: circe.test(x[:500], y[:500], z[:500], method="kci")
    made["training step, 9x64"] = Timed(folder)
    return {name: call for name, call in made.items() if options.only in name}


# ---- rounds -------------------------------------------------------------------------------------------------------------


def measure(call, load):
    """The mean time of a call, and what others had of the machine meanwhile."""
    taken, begin, own, busy = [], time.perf_counter(), own_used(), load.used()
    everybody, all_there = machine_used()
    while not taken or time.perf_counter() - begin < options.seconds:
        before = time.perf_counter()
        said = call()
        taken.append(said if isinstance(call, Timed) else time.perf_counter() - before)
    own, busy = own_used() - own, load.used() - busy
    after, all_after = machine_used()
    others = (after - everybody - own - busy) / max(all_after - all_there, 1e-9)
    return statistics.fmean(taken), max(others, 0.0)


def run_rounds(name, call, load):
    call()
    rounds = []
    for _ in range(options.rounds):
        idle, others_idle = measure(call, load)
        with load:
            busy, others_busy = measure(call, load)
        rounds.append({"idle": idle, "busy": busy, "others": max(others_idle, others_busy)})
    kept = [r for r in rounds if r["others"] <= DISTURBED] or rounds
    share = min(1.0, len(os.sched_getaffinity(0)) / (options.threads + options.busy))
    costs = [r["busy"] / r["idle"] * share for r in kept]
    return {"call": name, "share": share, "rounds": rounds, "disturbed": sum(r["others"] > DISTURBED for r in rounds),
            "idle_ms": [1e3 * r["idle"] for r in kept], "busy_ms": [1e3 * r["busy"] for r in kept], "costs": costs,
            "cost": statistics.median(costs)}


def main():
    load, found = Load(options.busy), []
    try:
        with tempfile.TemporaryDirectory(prefix="circe-") as folder:
            print(f"{options.threads} threads beside {options.busy} busy processes on {len(os.sched_getaffinity(0))} processors; "
                  f"ms, medians and ranges of {options.rounds} rounds\n")
            print(f"{'call':26} {'idle':>22} {'busy':>22} {'cost':>20}  disturbed")
            for name, call in calls(folder).items():
                row = run_rounds(name, call, load)
                found.append(row)
                print(f"{name:26} {common.spread(row['idle_ms']):>22} {common.spread(row['busy_ms']):>22} "
                      f"{common.spread(row['costs']):>20}  {row['disturbed']} of {options.rounds}", flush=True)
    finally:
        load.end()
    if not found:
        sys.exit(f"no call's name contains '{options.only}'")
    worst = max(found, key=lambda row: row["cost"])
    print(f"\nthe largest cost is {worst['cost']:.2f}, of {worst['call']}  {common.verdict(worst['cost'] <= MOST, MOST)}")
    if all(row["disturbed"] == options.rounds for row in found):
        print("other processes were at work in every round: run it again on a quiet machine")
    common.save(options, {"threads": options.threads, "busy": options.busy, "calls": found})
    return 0 if worst["cost"] <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
