"""Other packages' tests of conditional independence under one call: NAMES, and p_value(name, x, y, z, seed).

Each peer runs with its defaults. A package that is not installed is left out by available()."""

import numpy as np


def _causal_learn_kci(x, y, z, seed):
    from causallearn.utils.KCI.KCI import KCI_CInd

    return KCI_CInd().compute_pvalue(x, z, y)[0]


def _causal_learn_rcit(x, y, z, seed):
    from causallearn.utils.RCIT.RCIT import RCIT

    np.random.seed(seed)
    return RCIT().compute_pvalue(x, z, y)[0]


def _causal_learn_fisherz(x, y, z, seed):
    from causallearn.utils.cit import CIT

    table = np.column_stack([x[:, :1], z[:, :1], y])
    return CIT(table, "fisherz")(0, 1, list(range(2, table.shape[1])))


def _hyppo_fcit(x, y, z, seed):
    from hyppo.conditional import FCIT

    np.random.seed(seed)
    return FCIT().test(x, z, y)[1]


def _hyppo_pdcorr(x, y, z, seed):
    from hyppo.conditional import PartialDcorr

    return PartialDcorr().test(x, z, y, reps=200, workers=1, random_state=seed)[1]


def _tigramite(kind):
    def run(x, y, z, seed):
        if kind == "cmiknn":
            from tigramite.independence_tests.cmiknn import CMIknn

            test = CMIknn(sig_samples=100, seed=seed)
        else:
            from tigramite.independence_tests.gpdc import GPDC

            test = GPDC(seed=seed)
        array = np.column_stack([x[:, :1], z[:, :1], y]).T
        xyz = np.array([0, 1] + [2] * y.shape[1])
        if kind == "cmiknn":
            value = test.get_dependence_measure(array, xyz)
            return test.get_shuffle_significance(array, xyz, value)
        value = test.get_dependence_measure(array, xyz)
        return test.get_analytic_significance(value, array.shape[1], array.shape[0], xyz)

    return run


_PEERS = {
    "causal-learn kci": _causal_learn_kci,
    "causal-learn rcit": _causal_learn_rcit,
    "causal-learn fisherz": _causal_learn_fisherz,
    "hyppo fcit": _hyppo_fcit,
    "hyppo partial dcorr": _hyppo_pdcorr,
    "tigramite cmiknn": _tigramite("cmiknn"),
    "tigramite gpdc": _tigramite("gpdc"),
}
NAMES = list(_PEERS)


def p_value(name, x, y, z, seed=0):
    return float(np.squeeze(_PEERS[name](x, y, z, seed)))


def available(names=NAMES):
    """Those that can be run here, and why the others cannot."""
    rng, found, missing = np.random.default_rng(0), [], {}
    x, y, z = (rng.standard_normal((60, 1)) for _ in range(3))
    for name in names:
        try:
            p_value(name, x, y, z)
            found.append(name)
        except Exception as error:  # noqa: BLE001 - a peer that cannot run is a line of the report
            missing[name] = f"{type(error).__name__}: {error}"
    return found, missing
