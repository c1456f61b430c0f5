"""The tests of conditional independence against what they must reach: level, power, speed.

    python bench/inference.py [--library build/libcirce.so] [--reps 500] [--quick] [--parts levels,power,...] [--json OUT]

Parts: nulls and alternatives (every data set of inference_generators.py, by circe's tests and by the peers' of
inference_peers.py that are installed: shares rejected, share rejected without an objection of `trust`, milliseconds; --generators and
--methods choose some, --figure draws them), levels (type I error at .05 on the unit circle, post-nonlinear models of 1 to 5 dimensions, the sine task), power,
insurance (premiums permuted within bins of risk; needs CIRCE_DATA), speed, agreement (both against causal-learn).
Every share comes with its 95 % interval (Wilson). Each repetition has its own seed: data set r is the same for every
method and in every run. --quick: 50 repetitions, 20 data sets for the agreement.
"""

import os
import sys
import time
from pathlib import Path

import common

ALL_PARTS = ["nulls", "alternatives", "levels", "power", "insurance", "speed", "agreement"]


def parse_options():
    parser = common.parser(__doc__)
    parser.add_argument("--library", default="build/libcirce.so", help="the shared library [build/libcirce.so]")
    parser.add_argument("--reps", type=int, default=500, help="data sets a cell [500]")
    parser.add_argument("--quick", action="store_true", help="50 repetitions")
    parser.add_argument("--parts", default="levels,power,insurance,speed,agreement", help="which, with commas")
    parser.add_argument("--methods", help="only these rows, with semicolons")
    parser.add_argument("--generators", help="nulls, alternatives: only names that contain one of these, with semicolons")
    parser.add_argument("--peers", action="store_true", help="nulls, alternatives: other packages as well")
    parser.add_argument("--kept", action="store_true", help="nulls, alternatives: only those no setting was chosen on")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first data set [0]")
    parser.add_argument("--threads", type=int, default=1, help="of both sides [1]")
    parser.add_argument("--json", metavar="OUT", help="also write everything here, after every part")
    return parser.parse_args()


OPTIONS = parse_options()
common.limit_threads(OPTIONS.threads)  # before the libraries start their threads
circe = common.package(OPTIONS.library)
circe.set_threads(OPTIONS.threads)

import numpy as np  # noqa: E402

import inference_data as data  # noqa: E402
import inference_generators as generators  # noqa: E402
import inference_peers as peers  # noqa: E402

REPS = 50 if OPTIONS.quick else OPTIONS.reps
ALPHA = 0.05

# name: options; "auxiliary": the first 100 rows are tested, z is known on the others
METHODS = {
    "gcm": {"method": "gcm"},
    "kci, gamma": {"method": "kci"},
    "kci, spectral": {"method": "kci", "null": "spectral"},
    "kci, wild": {"method": "kci", "null": "wild"},
    "circe": {"method": "circe"},
    "circe, split": {"method": "circe", "mean": "split"},
    "circe, auxiliary": {"method": "circe", "auxiliary": 100},
    "splitkci": {"method": "splitkci"},
    "rcot": {"method": "rcot"},
}
NEEDED = ["gcm", "kci, gamma", "circe", "circe, auxiliary", "splitkci"]
WHOLE = [name for name in METHODS if "auxiliary" not in name]  # those that test all rows of a data set


def run_test(sample, seed, options):
    x, y, z = sample
    options = dict(options)
    tested = options.pop("auxiliary", None)
    if tested:
        options["auxiliary"] = y[tested:], z[tested:]
        x, y, z = x[:tested], y[:tested], z[:tested]
    return circe.test(x, y, z, seed=seed, checks=False, **options)


def cell(title, make, names, reps=REPS, bound=None, above=None):
    """Rejections of each method over the same data sets; make(rng, extra) has extra rows for auxiliary ones."""
    rows = []
    for name in names:
        if OPTIONS.methods and name not in OPTIONS.methods.split(";"):
            continue
        options = METHODS[name]
        results = [run_test(make(np.random.default_rng(r), options.get("auxiliary", 0)), r, options) for r in range(reps)]
        p_values = np.array([result.p_value for result in results])
        hits, ms = int(np.sum(p_values <= ALPHA)), 1e3 * float(np.mean([result.seconds for result in results]))
        share, (low, high) = hits / reps, common.wilson(hits, reps)
        target, reached = (above, share > above) if above is not None else (bound, bound is not None and share <= bound)
        met = "" if target is None else "met" if reached else "missed"
        rows.append({"data": title, "method": name, "rejected": share, "interval": [low, high], "reps": reps, "ms": ms,
                     "target": target, "met": met, "p_deciles": np.quantile(p_values, np.arange(0.1, 1.0, 0.1)).round(4).tolist()})
        print(f"{title:34} {name:18} {share:6.3f} [{low:.3f}, {high:.3f}] of {reps:4} {ms:8.1f} ms  {met}", flush=True)
    return rows


CIRCE_TESTS = ["kci", "circe", "gcm", "wgcm", "pcm", "rcot", "splitkci"]


def chosen(text, names):
    return [name for name in names if not text or any(part.strip() in name for part in text.split(";"))]


def answers(generator, method, reps):
    """p-values, whether trust objects, and seconds of a method on the generator's data sets."""
    p_values, objections, seconds = [], [], []
    for r in range(OPTIONS.first, OPTIONS.first + reps):
        x, y, z = generator(np.random.default_rng(r))
        start = time.perf_counter()
        if method in CIRCE_TESTS:
            result = circe.test(x, y, z, method=method, seed=r)
            p_values.append(result.p_value)
            objections.append(result.trust != "good")
        else:
            p_values.append(peers.p_value(method, x, y, z, r))
        seconds.append(time.perf_counter() - start)
    return np.array(p_values), objections, seconds


def table(kinds, title):
    print(f"\n{title} [95 % interval], share rejected without an objection of trust, median milliseconds")
    methods, rows = list(CIRCE_TESTS), []
    if OPTIONS.peers:
        found, missing = peers.available()
        methods += found
        for name, why in missing.items():
            print(f"({name} is left out: {why})")
    for name in chosen(OPTIONS.generators, kinds):
        generator = kinds[name]
        if OPTIONS.kept and not generator.kept:
            continue
        for method in chosen(OPTIONS.methods, methods):
            p_values, objections, seconds = answers(generator, method, REPS)
            hits = int(np.sum(p_values <= ALPHA))
            low, high = common.wilson(hits, REPS)
            row = {"data": name, "n": generator.n, "kept": generator.kept, "method": method, "rejected": hits / REPS,
                   "interval": [low, high], "reps": REPS, "ms": 1e3 * float(np.median(seconds)),
                   "objected": None, "unobjected": None}
            if objections:
                row.update(objected=float(np.mean(objections)),
                           unobjected=float(np.mean((p_values <= ALPHA) & ~np.array(objections))))
            rows.append(row)
            unobjected = "" if row["unobjected"] is None else f"{row['unobjected']:.2f}"
            print(f"{name:42} {method:22} {row['rejected']:5.3f} [{low:.3f}, {high:.3f}] {unobjected:5} {row['ms']:8.1f} ms",
                  flush=True)
    return rows


def nulls():
    return table(generators.NULLS, f"Nulls: share rejected at {ALPHA}")


def alternatives():
    return table(generators.ALTERNATIVES, f"Alternatives: share rejected at {ALPHA}")


def levels():
    print(f"\nType I error at level {ALPHA}: share rejected without dependence [95 % interval]")
    rows = []
    for n in (200, 400, 600, 800, 1000):
        rows += cell(f"circle, N = {n}", lambda g, extra, n=n: data.circle(g, n + extra), METHODS if n in (200, 1000) else NEEDED,
                     bound=0.065)
    for dim in range(1, 6):
        chosen = [name for name in (METHODS if dim in (1, 5) else NEEDED) if name in WHOLE]
        rows += cell(f"post-nonlinear, n = 500, dim y = {dim}", lambda g, _, dim=dim: data.postnonlinear(g, 500, dim), chosen, bound=0.065)
    return rows + cell("sine, n = 500", lambda g, _: data.sine(g, 500), WHOLE, bound=0.08)


def power():
    print("\nPower: share rejected with dependence [95 % interval]")
    rows = []
    for title, make, least in (("square, n = 500", lambda g, _: data.square(g, 500), 0.9),
                               ("sine, n = 500, dependent", lambda g, _: data.sine(g, 500, dependent=True), 0.95)):
        rows += cell(title, make, ["gcm"])  # its covariance is 0 here
        rows += cell(title, make, [name for name in WHOLE if name != "gcm"], above=least)
    rows += cell("circle, N = 200, dependent", lambda g, extra: data.circle(g, 200 + extra, dependent=True), METHODS, above=0.9)
    return rows + cell("post-nonlinear, n = 500, dim y = 3", lambda g, _: data.postnonlinear(g, 500, 3, dependent=True), WHOLE)


def insurance():
    folder = os.environ.get("CIRCE_DATA")
    if not folder or not (Path(folder) / "car_insurance").is_dir():
        print("\nCar insurance: skipped, CIRCE_DATA does not name a folder that has it")
        return []
    print("\nCar insurance, premiums permuted within bins of risk: share rejected [95 % interval]")
    rows = []
    for state in ("ca", "il"):
        companies = list(data.insurance(folder, state).values())

        def draw(rng, _, companies=companies):
            return data.insurance_null(rng, companies[int(rng.integers(len(companies)))])

        rows += cell(f"{state}, {len(companies)} companies", draw, INSURANCE, reps=2 * REPS, bound=0.065)
        premium, risk, minority = (np.concatenate(column) for column in zip(*companies))
        for name in ("kci, gamma", "circe", "gcm", "rcot"):
            result = run_test((premium, risk, minority), 0, METHODS[name])
            print(f"{state}, all {result.n} rows: {name} p = {result.p_value:.3g} in {result.seconds:.2f} s", flush=True)
            rows.append({"data": f"{state}, all rows", "method": name, "p": result.p_value, "seconds": result.seconds})
    return rows


INSURANCE = ["gcm", "kci, gamma", "circe", "splitkci", "rcot"]


def timed(call, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def speed():
    print(f"\nSpeed, {OPTIONS.threads} thread(s), load {os.getloadavg()[0]:.1f} at the start")
    rows, rng = [], np.random.default_rng(0)
    sample = data.postnonlinear(rng, 2000)
    own = timed(lambda: circe.test(*sample), 5)
    rows.append({"what": "kci, n = 2,000", "seconds": own, "target": None})
    try:
        peer = timed(lambda: peers.p_value("causal-learn kci", *sample), 1 if OPTIONS.quick else 3)
        rows[-1].update(causal_learn=peer, ratio=peer / own, target=50)
        print(f"kci, n = 2,000: causal-learn {peer:.2f} s, circe {own * 1e3:.0f} ms: {peer / own:.0f} times faster")
    except ImportError:
        print(f"kci, n = 2,000: {own * 1e3:.0f} ms (causal-learn is not installed)")
    large = data.postnonlinear(rng, 1000000)
    for n, method, bound in (
        (20000, "kci", 10),
        (20000, "circe", 10),
        (20000, "splitkci", None),
        (20000, "gcm", 10),
        (100000, "kci", None),
        (100000, "circe", None),
        (1000000, "rcot", 10),
    ):
        result = circe.test(*(array[:n] for array in large), method=method)
        rows.append({"what": f"{method}, n = {n:,}", "seconds": result.seconds, "target": bound})
        met = "" if bound is None else "met" if result.seconds <= bound else "missed"
        print(f"{method}, n = {n:,}: {result.seconds:.2f} s {met}", flush=True)
    return rows


def agreement():
    """The decisions of both KCI on data sets of both kinds."""
    try:
        import causallearn  # noqa: F401
    except ImportError:
        print("\nAgreement: skipped, causal-learn is not installed")
        return []
    total, same, decisions = 20 if OPTIONS.quick else 200, 0, []
    for r in range(total):
        sample = data.postnonlinear(np.random.default_rng(r), 300, 1 + r % 2, dependent=bool((r // 2) % 2))
        ours, theirs = circe.test(*sample, checks=False).p_value, peers.p_value("causal-learn kci", *sample)
        decisions.append([ours, theirs])
        same += int((ours <= ALPHA) == (theirs <= ALPHA))
    low, high = common.wilson(same, total)
    print(f"\nAgreement with causal-learn's KCI at {ALPHA}: {same} of {total} [{low:.3f}, {high:.3f}], to reach .95")
    return [{"same": same, "total": total, "p_values": decisions}]


def main():
    results = {"reps": REPS, "threads": OPTIONS.threads}
    for part in OPTIONS.parts.split(","):
        if part not in ALL_PARTS:
            sys.exit(f"inference.py: there is no part '{part}'; there are {', '.join(ALL_PARTS)}")
        start = time.time()
        results[part] = globals()[part]()
        print(f"({part}: {time.time() - start:.0f} s)", flush=True)
        common.save(OPTIONS, results)


if __name__ == "__main__":
    main()
