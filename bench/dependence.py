"""Rows that depend on each other: how often tests at level .05 reject true nulls of series and groups, with and without
knowing of the dependence, and their power.

    python bench/dependence.py --sets 400

Needs the built library (CIRCE_LIBRARY) and NumPy. Every cell: share of p <= .05 [95 % interval, Wilson].
"""

import common

circe = common.package()

import numpy as np  # noqa: E402


def series(rng, n, rho):
    """A stationary AR(1) of variance 1."""
    noise = rng.standard_normal(n)
    out = np.empty(n)
    out[0] = noise[0]
    for t in range(1, n):
        out[t] = rho * out[t - 1] + np.sqrt(1 - rho * rho) * noise[t]
    return out


def two_series(n, rho, rho_y=0.5, shared=0.0):
    def make(rng):
        y, u, v = series(rng, n, rho_y), series(rng, n, rho), series(rng, n, rho)
        return np.sin(2 * y) + 0.5 * u, y, y * y / 2 + 0.5 * v + shared * u, {"time": np.arange(n)}
    return make


def groups_of(sizes, of_rows, shared=0.0, y_of_groups=False):
    """Effects of groups on x and z; y of rows, or of groups."""
    def make(rng):
        g = np.repeat(np.arange(len(sizes)), sizes)
        a, b = rng.standard_normal((2, len(sizes)))
        y = rng.standard_normal(len(sizes))[g] if y_of_groups else rng.standard_normal(len(g))
        e, f = of_rows * rng.standard_normal((2, len(g)))
        return np.sin(2 * y) + a[g] + e, y, y + b[g] + f + shared * (a[g] + e), {"groups": g}
    return make


def panel(units, n, rho, shared=0.0):
    def make(rng):
        parts = [two_series(n, rho, 0.5, shared)(rng) for _ in range(units)]
        x, y, z = (np.concatenate([p[k] for p in parts]) for k in range(3))
        return x, y, z, {"groups": np.repeat(np.arange(units), n), "time": np.tile(np.arange(n), units)}
    return make


UNEVEN = [40, 30, 25, 20, 20, 15, 15, 12, 12, 10, 10, 10, 8, 8, 8, 6, 6, 6, 5, 5, 5, 4, 4, 4, 3, 3, 3, 2, 2, 2]
NULLS = {
    "AR(1) .8, n = 400": two_series(400, 0.8),
    "AR(1) .9, n = 1,000": two_series(1000, 0.9),
    "AR(1) .9, y .95, n = 1,000": two_series(1000, 0.9, 0.95),
    "AR(1) .5, n = 300": two_series(300, 0.5),
    "independent rows as a series, n = 400": two_series(400, 0.0, 0.0),
    "50 groups of 10": groups_of([10] * 50, 0.5),
    "50 groups of 10, y of groups": groups_of([10] * 50, 0.5, y_of_groups=True),
    "30 groups of 2 to 40": groups_of(UNEVEN, 0.5),
    "12 groups of 30": groups_of([30] * 12, 1.0),
    "10 series of 60, AR(1) .8": panel(10, 60, 0.8),
}
ALTERNATIVES = {
    "AR(1) .8, n = 400": two_series(400, 0.8, shared=0.3),
    "50 groups of 10": groups_of([10] * 50, 0.5, shared=0.4),
    "independent rows as a series, n = 400": two_series(400, 0.0, 0.0, shared=0.12),
}


def cell(make, method, plain, sets, seed):
    """How many are rejected."""
    rejected = 0
    for s in range(sets):
        x, y, z, of_rows = make(np.random.default_rng([seed, s]))
        given = None if method == "hsic" else y
        found = circe.test(x, given, z, method=method, seed=s, checks=False, **({} if plain else of_rows))
        rejected += found.p_value <= 0.05
    return rejected


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--methods", default="kci,circe,gcm,rcot")
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument("--parts", default="nulls,alternatives")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    methods = options.methods.split(",")
    for part, table in (("nulls", NULLS), ("alternatives", ALTERNATIVES)):
        if part not in options.parts:
            continue
        print(f"\n| {part[:-1]} | rows taken as | {' | '.join(methods)} |\n|---|---|{'---|' * len(methods)}")
        for name, make in table.items():
            if options.only not in name:
                continue
            for plain in (True, False):
                cells = []
                for method in methods:
                    rejected = cell(make, method, plain, options.sets, options.seed)
                    low, high = common.wilson(rejected, options.sets)
                    cells.append(f"{rejected / options.sets:.3f} [{low:.3f}, {high:.3f}]")
                print(f"| {name} | {'independent' if plain else 'they are'} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
