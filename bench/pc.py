"""A whole PC search with causal-learn: circe's kci against causal-learn's KCI, on the same mixed table.

    python bench/pc.py --columns 10,15,20 --rows 1000

One thread each. causal-learn's search takes minutes to hours, so it runs on `--sample` of its tests: the run of circe records every
question that PC asks, some of each number of conditions go to causal-learn's KCI, and their mean time counts for all. Seconds
are of the processor.
Needs causal-learn and the built library (CIRCE_LIBRARY).
"""

import time

import common

common.limit_threads(1)
common.package()

import numpy as np  # noqa: E402

import circe.causallearn as bridge  # noqa: E402
from causallearn.search.ConstraintBased.PC import pc  # noqa: E402
from causallearn.utils.cit import CIT  # noqa: E402


def table(rng, n, d, edges=1.5):
    """A random graph of smooth functions; every third column has three classes."""
    values, types = np.empty((n, d)), {}
    for j in range(d):
        parents = [k for k in range(j) if rng.random() < edges * 2 / max(d - 1, 1)][:3]
        mean = sum(np.sin(1.5 * values[:, k]) + 0.5 * values[:, k] for k in parents) if parents else np.zeros(n)
        column = mean + rng.normal(size=n) * (0.6 if parents else 1.0)
        if j % 3 == 2:
            column, types[j] = np.digitize(column, np.quantile(column, [0.35, 0.7])).astype(float), "category"
        values[:, j] = (column - column.mean()) / column.std() if j not in types else column
    return values, types


class Recorded(bridge.CirceTest):
    """Which questions a search asks, each once."""

    asked: list = []

    def __call__(self, X, Y, condition_set=None):
        before = len(self.pvalue_cache)
        p = super().__call__(X, Y, condition_set)
        if len(self.pvalue_cache) > before:
            self.asked.append((X, Y, tuple(condition_set or ())))
        return p


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--columns", default="10,15,20")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--sample", type=int, default=12, help="questions that causal-learn's KCI is timed on, per size")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    bridge.cit.register_ci_test("recorded", Recorded)
    print("| columns | rows | tests | given 0, 1, 2, 3+ | circe, s | causal-learn, s (estimated) | ratio |\n|---|---|---|---|---|---|---|")
    for d in map(int, options.columns.split(",")):
        values, types = table(np.random.default_rng([options.seed, d]), options.rows, d)
        Recorded.asked = []
        before = time.process_time()
        pc(values, 0.01, indep_test="recorded", types=types, show_progress=False)
        own = time.process_time() - before
        rng, peer, theirs = np.random.default_rng(1), CIT(values, "kci"), 0.0
        sizes = np.array([min(len(given), 3) for _, _, given in Recorded.asked])
        for size in range(4):
            found = [q for q, s in zip(Recorded.asked, sizes) if s == size]
            if not found:
                continue
            chosen = [found[k] for k in rng.permutation(len(found))[:options.sample]]
            before = time.process_time()
            for x, z, given in chosen:
                peer(x, z, given)
            theirs += (time.process_time() - before) / len(chosen) * len(found)
        counts = ", ".join(str(int((sizes == s).sum())) for s in range(4))
        print(f"| {d} | {options.rows} | {len(sizes)} | {counts} | {own:.1f} | {theirs:.0f} | {theirs / own:.1f} |", flush=True)


if __name__ == "__main__":
    main()
