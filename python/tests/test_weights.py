"""Weights of rows in measures, fits and audits: NumPy's own formulas, repeated rows, scikit-learn's rates, refusals.

Tolerances: 1e-9 relative, where systems of condition 1e3 are solved in two ways; rates are ratios of sums of a few hundred
numbers, 1e-12.
"""

import numpy as np
import pytest

import circe

RANDOM = np.random.default_rng(7)
N = 60
Y = RANDOM.normal(size=N)
Z = Y + 0.5 * RANDOM.normal(size=N)
X = np.stack([Z + 0.5 * RANDOM.normal(size=N), RANDOM.normal(size=N)], axis=1)
W = RANDOM.gamma(1.0, size=N)
W[::7] = 0
WIDTHS = {"x": 1.0, "y": 0.5, "z": 0.7}


def gram(values, sigma2):
    rows = np.asarray(values).reshape(len(values), -1)
    return np.exp(-((rows[:, None] - rows[None]) ** 2).sum(-1) / (2 * sigma2))


def normalised():
    kept = W > 0
    return kept, W[kept] / W[kept].mean()


def grams():
    kept, w = normalised()
    return gram(X[kept], WIDTHS["x"]), gram(Y[kept], WIDTHS["y"]), gram(Z[kept], WIDTHS["z"]), w


def smoother(K, w, ridge):
    root = np.sqrt(w)
    scaled = root[:, None] * K * root
    return scaled @ np.linalg.inv(scaled + ridge * np.eye(len(w))), root


def brute_hsic():
    K, _, L, w = grams()
    n = len(w)
    H = np.eye(n) - np.outer(np.ones(n), w) / n
    return (np.outer(w, w) * (H @ K @ H.T) * (H @ L @ H.T)).sum() / n**2


def brute_hscic():
    K, Kyy, L, w = grams()
    S, root = smoother(Kyy, w, 0.1)
    A = root[:, None] * S / root  # column k: the weights of the conditional mean at y_k
    value = 0.0
    for k in range(len(w)):
        a = A[:, k]
        value += w[k] / len(w) * (a @ (K * L) @ a - 2 * (a * (K @ a) * (L @ a)).sum() + (a @ K @ a) * (a @ L @ a))
    return value


def brute_kci():
    K, Kyy, L, w = grams()
    n, root = len(w), np.sqrt(w)
    H = np.eye(n) - np.outer(root, root) / n
    centred = lambda matrix: H @ (root[:, None] * matrix * root) @ H  # noqa: E731
    R = 0.1 * np.linalg.inv(centred(Kyy) + 0.1 * np.eye(n))
    return np.trace(R @ centred(K * Kyy) @ R @ R @ centred(L) @ R) / n


def brute_kpc():
    K, Kyy, L, w = grams()
    n, root = len(w), np.sqrt(w)
    H = np.eye(n) - np.outer(root, root) / n
    centred = lambda matrix: H @ (root[:, None] * matrix * root) @ H  # noqa: E731
    S = lambda matrix: centred(matrix) @ np.linalg.inv(centred(matrix) + n * 1e-3 * np.eye(n))  # noqa: E731
    M, R = S(Kyy) - S(Kyy * L), np.eye(n) - S(Kyy)
    return np.trace(M @ centred(K) @ M) / np.trace(R @ centred(K) @ R)


KNOWN = dict(sigma2_x=WIDTHS["x"], sigma2_y=WIDTHS["y"], sigma2_z=WIDTHS["z"])


def measured(name, weights, **more):
    if name == "hsic":
        return circe.hsic(X, Z, sigma2_x=WIDTHS["x"], sigma2_z=WIDTHS["z"], estimator="biased", weights=weights, **more)
    ridge = {} if name == "kpc" else {"ridge": 0.1}
    return getattr(circe, name)(X, Y, Z, weights=weights, **KNOWN, **ridge, **more)


@pytest.mark.parametrize("name, brute", [("hsic", brute_hsic), ("hscic", brute_hscic), ("kci", brute_kci), ("kpc", brute_kpc)])
@pytest.mark.parametrize("method", ["dense", "lowrank"])
def test_formulas(name, brute, method):
    how = {} if name == "hsic" else {"method": method}
    assert measured(name, W, **how).value == pytest.approx(brute(), rel=1e-9)


def test_gcm():
    """The definition: weighted regressions and means, and as many rows as equal weights would need."""
    kept, w = normalised()
    D = np.sqrt(w)
    scaled = D[:, None] * gram(Y[kept], WIDTHS["y"]) * D
    left = np.linalg.solve(scaled + 0.1 * np.eye(len(w)), 0.1 * np.c_[X, Z][kept] * D[:, None]) / D[:, None]
    R = left[:, :2] * left[:, 2:]
    mean = w @ R / w.sum()
    T = w.sum() / np.sqrt((w**2).sum()) * mean / np.sqrt(w @ (R - mean) ** 2 / w.sum())
    how = dict(sigma2_y=WIDTHS["y"], ridge=0.1)
    assert circe.gcm(X, Y, Z, weights=W, **how).value == pytest.approx(abs(T).max(), rel=1e-9)
    assert circe.gcm(X, Y, Z, weights=W, combine="squares", **how).value == pytest.approx((T**2).sum(), rel=1e-9)
    found = circe.gcm(X, Y, Z, weights=W, grad=True, **how)
    assert found.n == kept.sum() and not found.grad[~kept].any()
    design = np.c_[np.ones(len(w)), Y[kept]] * D[:, None]
    left = np.c_[X, Z][kept] - np.c_[np.ones(len(w)), Y[kept]] @ np.linalg.lstsq(design, np.c_[X, Z][kept] * D[:, None], rcond=None)[0]
    R = left[:, :2] * left[:, 2:]
    mean = w @ R / w.sum()
    T = w.sum() / np.sqrt((w**2).sum()) * mean / np.sqrt(w @ (R - mean) ** 2 / w.sum())
    assert circe.gcm(X, Y, Z, weights=W, regression="linear").value == pytest.approx(abs(T).max(), rel=1e-9)


def test_weighted_ridge_regression():
    kept, w = normalised()
    K = gram(Y[kept], 0.5)
    for method in ("dense", "lowrank"):
        mean = circe.ConditionalMean(sigma2_y=0.5, sigma2_z=0.7, ridge=0.2, method=method).fit(Y, Z, weights=W)
        assert mean.n_rows_ == kept.sum()
        W1 = np.linalg.solve(w[:, None] * K + 0.2 * np.eye(len(w)), w[:, None] * np.eye(len(w)))  # (DK + ridge)^-1 D
        cross = gram(np.r_[Y[kept], Y], 0.5)[len(w):, :len(w)] @ W1
        L = gram(np.r_[Z[kept], Z], 0.7)
        Kc = (L[len(w):, len(w):] - cross @ L[:len(w), len(w):] - (cross @ L[:len(w), len(w):]).T
              + cross @ L[:len(w), :len(w)] @ cross.T)
        features = mean.residual_features(Y, Z)
        np.testing.assert_allclose(features.zeta @ features.zeta.T, Kc, atol=1e-7)  # directions below 1e-8 are left out
        value = circe.circe(X, Y, Z, mean, sigma2_x=1.0, estimator="biased", weights=W).value
        Q = (gram(Y, 0.5) * Kc * gram(X, 1.0))[np.ix_(kept, kept)]
        assert value == pytest.approx((np.outer(w, w) * Q).sum() / (len(w) * (len(w) - 1)), rel=1e-7)


def test_random_features():
    """Near the formula, while that without weights is far: the error of a mean over 20 draws of 512 features is about .01."""
    y, sign = RANDOM.uniform(-2, 2, size=80), np.where(np.arange(80) % 2 == 0, 1.0, -1.0)
    z, w = sign * y, np.where(sign > 0, 1.0, 0.01)
    known = dict(sigma2_y=0.5, sigma2_z=0.7, ridge=0.2, method="rff", rff_features=512, rff_batch=512, rff_every=1)
    mean, one = circe.ConditionalMean(**known).fit(y, z, weights=w), (slice(None, None, 2), np.zeros(40))

    def exact(w):
        cross = gram(y, 0.5) @ np.linalg.solve(w[:, None] * gram(y, 0.5) + 0.2 * np.eye(80), np.diag(w))
        L = gram(z, 0.7)
        Kc = L - cross @ L - (cross @ L).T + cross @ L @ cross.T
        return (gram(y, 0.5) * Kc)[::2, ::2].sum() / (40 * 39)

    values = []
    for step in range(20):
        mean.rff_step(step)
        values.append(circe.circe(one[1], y[one[0]], z[one[0]], mean, sigma2_x=1.0, estimator="biased").value)
    assert exact(np.ones(80)) - exact(w / w.mean()) > 0.09
    assert np.mean(values) == pytest.approx(exact(w / w.mean()), abs=0.03)


def test_gradient_and_dropped_rows():
    found = measured("hscic", W, grad=True)
    assert found.n == (W > 0).sum() and not found.grad[W == 0].any() and found.grad[W > 0].all()
    holed = Y.copy()
    holed[3] = np.nan
    weights = W.copy()
    weights[3] = 0
    a = circe.hscic(X, holed, Z, weights=W, missing="drop", ridge=0.1, grad=True, **KNOWN)
    b = circe.hscic(X, Y, Z, weights=weights, ridge=0.1, grad=True, **KNOWN)
    assert a.value == pytest.approx(b.value, rel=1e-12)
    np.testing.assert_allclose(a.grad, b.grad, atol=1e-12)
    assert circe.hsic(X, Z).value == circe.hsic(X, Z, weights=None).value


@pytest.mark.parametrize("weights, error, text", [
    (np.zeros(N), circe.DataError, "all weights are 0"), (-W - 1, circe.DataError, "row 0"),
    (np.where(np.arange(N) == 5, np.nan, W), circe.DataError, "row 5"), (W[:-1], circe.ShapeError, "60 rows"),
    (np.full(N, "a"), circe.DTypeError, "text"), (np.ma.masked_equal(W, 0), circe.CirceError, ""),
    (np.eye(1, N)[0], circe.ShapeError, "at least")])
def test_refusals(weights, error, text):
    with pytest.raises(error, match=text):
        circe.hsic(X, Z, weights=weights)
    with pytest.raises(circe.CirceError):
        circe.ConditionalMean().fit(Y, Z, weights=weights)
    with pytest.raises(error, match=text):
        circe.gcm(X, Y, Z, weights=weights)
    assert circe.gcm(X, Y, Z).n == N
    with pytest.raises(circe.ArgumentError, match="all rows at once"):
        circe.blocks("hsic", X, None, Z, weights=W)
    assert circe.hsic(X, Z).n == N  # nothing stays behind


# ---- losses

def batch(repeats=None):
    """x, y, z, and weights: whole ones, or the rows that they repeat."""
    w = np.array([0, 1, 2, 3] * (N // 4)) if repeats is None else repeats
    rows = np.repeat(np.arange(N), w)
    return (X, Y, Z, w), (X[rows], Y[rows], Z[rows]), rows


def mean_of_y():
    random = np.random.default_rng(4)
    y = random.normal(size=200)
    return circe.ConditionalMean(sigma2_y=0.5, sigma2_z=0.7, ridge=0.1).fit(y, y + 0.5 * random.normal(size=200))


def test_losses_of_pytorch():
    torch = pytest.importorskip("torch")
    import circe.torch

    (x, y, z, w), (xs, ys, zs), rows = batch()
    n, total, mean = (w > 0).sum(), w.sum(), mean_of_y()
    linear = circe.ConditionalMean(kernel_z="linear", sigma2_y=0.5, ridge=0.1).fit(Y[::-1].copy(), Z[::-1].copy())
    losses = circe.torch
    of = lambda loss, *data, **more: loss(*(torch.tensor(v, requires_grad=i == 0) for i, v in enumerate(data)), **more)  # noqa: E731
    gcm = total / np.sqrt((w**2).sum() * total)  # GCM's sqrt(n)
    forms = [(lambda r: losses.CirceLoss(mean, sigma2_x=1.0, estimator="biased"), 0.1, n / (n - 1) * (total - 1) / total, True),
             (lambda r: losses.CirceLoss(mean, sigma2_x=1.0, estimator="centered"), 0.1, n / (n - 1) * (total - 1) / total, True),
             (lambda r: losses.HSICLoss(sigma2_x=1.0, sigma2_z=0.7, estimator="biased"), 0.1, 1.0, False),
             (lambda r: losses.HSCICLoss(sigma2_x=1.0, sigma2_y=0.5, sigma2_z=0.7, ridge=r), 0.1, 1.0, True),
             (lambda r: losses.HSCICLoss(mean=mean, sigma2_x=1.0, ridge=r), 0.1, 1.0, True),
             (lambda r: losses.GCMLoss(regression="linear", combine="squares"), 0.1, gcm**2, True),
             (lambda r: losses.GCMLoss(sigma2_y=0.5, ridge=r, combine="max"), 0.1, gcm, True)]
    for make, ridge, factor, with_y in forms:
        data, copies = ((x, y, z), (xs, ys, zs)) if with_y else ((x, z), (xs, zs))
        points = [torch.tensor(v, requires_grad=i == 0) for i, v in enumerate(data)]
        again = [torch.tensor(v, requires_grad=i == 0) for i, v in enumerate(copies)]
        value = make(ridge * n / total)(*points, weights=torch.tensor(w))
        repeated = factor * make(ridge)(*again)
        value.backward()
        repeated.backward()
        assert value.item() == pytest.approx(repeated.item(), rel=1e-9)
        sums = np.zeros_like(x)
        np.add.at(sums, rows, again[0].grad.numpy())
        np.testing.assert_allclose(points[0].grad.numpy(), sums, atol=1e-8 * abs(sums).max())
    loss = losses.CirceLoss(mean, sigma2_x=1.0)  # ustat has other pairs than copies
    found = of(loss, x, y, z, weights=w)
    assert found.item() == pytest.approx(circe.circe(x, y, z, mean, sigma2_x=1.0, weights=w).value, rel=1e-9)
    assert of(loss, x, y, z, weights=w).item() == found.item() != of(loss, x, y, z).item()  # nothing stays behind
    features = losses.CirceLoss(mean.residual_features(Y, Z), sigma2_x=1.0)
    assert of(features, x, index=torch.arange(N), weights=w).item() == pytest.approx(found.item(), rel=1e-9)
    narrow = of(loss, x.astype(np.float32), y, z, weights=torch.tensor(w, dtype=torch.float16)[:, None])
    assert narrow.dtype == torch.float32 and narrow.item() == pytest.approx(found.item(), rel=1e-5)
    of(losses.GCMLoss(mean=linear), x, y, z, weights=w)
    few = np.eye(N)[:3].sum(0)
    with pytest.warns(losses.SmallBatchWarning, match="3 rows is too small"):
        points = [torch.tensor(v, requires_grad=i == 0) for i, v in enumerate((x, y, z))]
        value = loss(*points, weights=few)
        value.backward()
    assert value.item() == 0 and not points[0].grad.any()
    with pytest.raises(circe.ShapeError, match="at least 4 rows"):
        of(losses.CirceLoss(mean, small_batch="refuse"), x, y, z, weights=few)
    for bad, error, text in ((w[:-1], circe.ShapeError, "60 rows"), (-torch.tensor(w), circe.DataError, "row 1 is -1"),
                             (torch.full((N,), float("nan")), circe.DataError, "row 0 is nan"), (["a"] * N, circe.DTypeError, "text"),
                             (torch.ones(N, requires_grad=True), circe.ArgumentError, "detach"), (torch.ones(N, 2), circe.ShapeError, "60 rows")):
        with pytest.raises(error, match=text):
            of(loss, x, y, z, weights=bad)
    if hasattr(torch.library, "custom_op"):
        compiled = torch.compile(lambda x, y, z, w: loss(x, y, z, weights=w), fullgraph=True, backend="eager")
        assert compiled(torch.tensor(x), torch.tensor(y), torch.tensor(z), torch.tensor(w)).item() == found.item()


# ---- audits


def table():
    random = np.random.default_rng(1)
    n = 300
    repaid = (random.random(n) < 0.4).astype(int)
    sex = random.choice(["f", "m"], n)
    score = 1 / (1 + np.exp(-(1.5 * repaid - 0.7 + 0.4 * (sex == "m") + random.normal(size=n))))
    return {"score": score, "repaid": repaid, "sex": sex, "w": random.integers(0, 4, n) * 0.7}


def audited(columns, **options):
    return circe.audit(columns, prediction="score", target="repaid", sensitive="sex", calibrate=0, **options)


def test_audit_is_that_of_repeated_rows():
    columns = table()
    copies = np.repeat(np.arange(300), np.rint(columns["w"] / 0.7).astype(int))
    weighted = audited(columns, weights="w")
    repeated = audited({name: values[copies] for name, values in columns.items()})
    for name in ("selection_rate", "true_positive_rate", "false_positive_rate", "precision", "accuracy", "auc",
                 "root_mean_square_error"):
        assert weighted.quality[0][name]["value"] == pytest.approx(repeated.quality[0][name]["value"], rel=1e-12)
    for one, other in zip(weighted.findings[0].gaps, repeated.findings[0].gaps):
        assert one["gap"] == pytest.approx(other["gap"], rel=1e-12)
        assert one["upper"] - one["lower"] > other["upper"] - other["lower"]  # copies are not more data
    assert weighted.n == (columns["w"] > 0).sum()
    assert weighted.results["weights"]["sum"] == pytest.approx(columns["w"].sum())


def weighted_gaps(audit):
    return [(finding.notion, gap["gap"]) for finding in audit.findings for gap in finding.gaps]


def test_groups_of_numbers_have_equal_weight():
    """An attribute, and a column given, that are numbers: they are cut where repeated rows are."""
    columns = table()
    columns["age"] = np.random.default_rng(2).normal(size=300) + columns["repaid"]
    copies = np.repeat(np.arange(300), np.rint(columns["w"] / 0.7).astype(int))
    repeated = {name: values[copies] for name, values in columns.items()}
    for options in ({"sensitive": "age"}, {"sensitive": "sex", "given": "age"}):
        how = {"prediction": "score", "target": "repaid", "notion": "independence", "calibrate": 0, **options}
        one, other = circe.audit(columns, weights="w", **how), circe.audit(repeated, **how)
        if "given" not in options:  # given numbers are regressed on, with a ridge that is chosen (see below)
            np.testing.assert_allclose([gap for _, gap in weighted_gaps(one)], [gap for _, gap in weighted_gaps(other)], rtol=1e-9)
        rates = [gap["gap"] for gap in one.findings[0].gaps if "rate" in gap["of"]]
        np.testing.assert_allclose(rates, [gap["gap"] for gap in other.findings[0].gaps if "rate" in gap["of"]], rtol=1e-9)
        assert rates


def test_calibration_gap_of_chosen_regressions():
    """The outcome is regressed on the prediction, and leave-one-out of repeated rows leaves their copies in: it takes too
    small a ridge. With the weighted one's choice, repeated rows have its gap."""
    columns = table()
    y, s, w = columns["repaid"].astype(float), columns["score"], np.rint(columns["w"] / 0.7)
    copies, n, total = np.repeat(np.arange(300), w.astype(int)), (w > 0).sum(), w.sum()
    chosen = circe.ConditionalMean(kernel_z="linear").fit(s, y - np.average(y, weights=w), weights=w)
    again = circe.ConditionalMean(kernel_z="linear", sigma2_y=chosen.sigma2_y_, ridge=chosen.ridge_ * total / n)
    again.fit(s[copies], (y - np.average(y, weights=w))[copies])
    left = (y - np.average(y, weights=w))[copies] - again.predict(s[copies])[:, 0]
    scores, counts = np.unique(s[copies], return_counts=True)
    last = [scores[np.argmin(abs(np.cumsum(counts) - share * total))] for share in (0.2, 0.4, 0.6, 0.8)]
    levels = np.searchsorted(last, s[copies])
    men = columns["sex"][copies] == "m"
    gap = sum((levels == k).mean() * abs(left[(levels == k) & men].mean() - left[(levels == k) & ~men].mean()) for k in range(5))
    audit = circe.audit(columns, prediction="score", target="repaid", sensitive="sex", notion="sufficiency", calibrate=0, weights="w")
    found = {gap["of"]: gap["gap"] for gap in audit.findings[0].gaps}
    assert found["calibration"] == pytest.approx(gap, rel=1e-6)


def test_audit_as_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    columns = table()
    quality = audited(columns, weights="w").quality[0]
    y, s, w = columns["repaid"], columns["score"], columns["w"]
    assert quality["auc"]["value"] == pytest.approx(metrics.roc_auc_score(y, s, sample_weight=w), rel=1e-12)
    assert quality["accuracy"]["value"] == pytest.approx(metrics.accuracy_score(y, s >= 0.5, sample_weight=w), rel=1e-12)
    assert quality["precision"]["value"] == pytest.approx(metrics.precision_score(y, s >= 0.5, sample_weight=w), rel=1e-12)
    rms = np.sqrt(metrics.mean_squared_error(y, s, sample_weight=w))
    assert quality["root_mean_square_error"]["value"] == pytest.approx(rms, rel=1e-12)


def test_audit_refuses():
    columns = table()
    for weights, text in ((np.zeros(300), "0 rows have a weight"), (-columns["w"] - 1, "at least 0"),
                          (columns["sex"], "one column of numbers")):
        with pytest.raises(circe.CirceError, match=text):
            audited({**columns, "w": weights}, weights="w")
    with pytest.raises(circe.CirceError, match="no column 'v'"):
        audited(columns, weights="v")


def test_a_bad_weight_is_told_by_its_own_row():
    """Rows with missing cells are left out, and still count."""
    x, y, z = np.random.default_rng(0).normal(size=(3, 60))
    x[2], weights = np.nan, np.where(np.arange(60) == 9, -1.0, 1.0)
    options = {"weights": weights, "missing": "drop"}
    for call in (lambda: circe.test(x, y, z, **options), lambda: circe.kci(x, y, z, **options),
                 lambda: circe.ConditionalMean(missing="drop").fit(x, z, weights)):
        with pytest.raises(circe.DataError, match="the weight of row 9 is -1"):
            call()
    weights[9] = np.nan  # missing, too
    assert circe.test(x, y, z, **options).n == 58
