"""The peer: algorithm 1 of the paper and its leave-one-out theorem in plain PyTorch.

Written as a user would write it from the page: dense matrices, one line a formula, nothing clever and nothing wasteful.

    x (B, d_x), y (B, 1), z (B, 1)    the mini-batch
    Y (M, 1), Z (M, 1)                the holdout
    W1 = (K_YY + ridge I)^-1          (M, M), once
    W2 = W1 K_ZZ W1                   (M, M), once
    K^c = K_zz - K_yY W1 K_Zz - (K_yY W1 K_Zz)' + K_yY W2 K_Yy

A step costs 4 B M^2 + 4 B^2 M flops for K^c; the fit costs about 5 M^3 for every cell of its grid.
"""

import time

import torch

SIZES = [(256, 1267, 1), (1024, 5898, 1), (1024, 5898, 64)]  # B, M, d_x
TARGETS = {SIZES[0]: 200, SIZES[1]: 500, SIZES[2]: 200}  # how many times faster circe is to be
SIGMA2_Y = (1.0, 0.1, 0.01, 0.001)  # the paper's grids
RIDGE = (0.01, 0.1, 1.0, 10.0, 100.0)
SIGMA2_Z = 0.01
FIT_ROWS = 5898


# ---- data: the distributions of `circe bench` -------------------------------------------------------------------


def draw_points(n, seed, dtype=torch.float64):
    """y uniform on [0, 1], z = y + 0.05 noise."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.rand(n, 1, generator=generator, dtype=torch.float64)
    z = y + 0.05 * torch.randn(n, 1, generator=generator, dtype=torch.float64)
    return y.to(dtype), z.to(dtype)


def draw_x(n, d_x, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d_x, generator=generator, dtype=torch.float64).to(dtype)


# ---- algorithm 1 ------------------------------------------------------------------------------------------------


def gaussian(a, b, sigma2):
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2 * a @ b.T
    return torch.exp(-squares.clamp_min(0) / (2 * sigma2))


def ustat(K_xx, Q):
    """The estimator that trains best: unbiased HSIC of both."""
    n = len(K_xx)
    K, L = K_xx - torch.diag(torch.diag(K_xx)), Q - torch.diag(torch.diag(Q))
    k, l = K.sum(1), L.sum(1)
    return ((K * L).sum() - 2 / (n - 2) * k @ l + K.sum() * L.sum() / ((n - 1) * (n - 2))) / (n * (n - 3))


class Circe:
    """W1 and W2 of a holdout, and the loss of a mini-batch."""

    def __init__(self, Y, Z, sigma2_y, sigma2_z, ridge, dtype=torch.float32):
        # Not timed. The inverse is taken in float64, where float32 would lose it, and kept in the dtype of the work.
        K_YY = gaussian(Y, Y, sigma2_y)
        K_ZZ = gaussian(Z, Z, sigma2_z)
        W1 = torch.linalg.inv(K_YY + ridge * torch.eye(len(Y), dtype=Y.dtype))
        self.W2 = (W1 @ K_ZZ @ W1).to(dtype)
        self.W1 = W1.to(dtype)
        self.Y, self.Z = Y.to(dtype), Z.to(dtype)
        self.sigma2_y, self.sigma2_z = sigma2_y, sigma2_z

    def products(self, K_yY, K_Zz):
        return K_yY @ self.W1 @ K_Zz, K_yY @ self.W2 @ K_yY.T

    def __call__(self, x, y, z, sigma2_x, estimator="centered"):
        K_xx = gaussian(x, x, sigma2_x)
        K_yy = gaussian(y, y, self.sigma2_y)
        K_zz = gaussian(z, z, self.sigma2_z)
        K_yY = gaussian(y, self.Y, self.sigma2_y)
        K_Zz = gaussian(self.Z, z, self.sigma2_z)
        cross, square = self.products(K_yY, K_Zz)
        Q = K_yy * (K_zz - cross - cross.T + square)
        if estimator == "ustat":
            return ustat(K_xx, Q)
        if estimator == "centered":
            K_xx = K_xx - K_xx.mean(0, keepdim=True) - K_xx.mean(1, keepdim=True) + K_xx.mean()
        elif estimator != "biased":
            raise ValueError(f"no estimator {estimator!r}")
        B = len(x)
        return (K_xx * Q).sum() / (B * (B - 1))


class CirceBySolves(Circe):
    """The same formula without the inverse, for checking: W1 and W2 as matrices cost half of the digits here."""

    def __init__(self, Y, Z, sigma2_y, sigma2_z, ridge):
        self.Y, self.Z, self.sigma2_y, self.sigma2_z = Y, Z, sigma2_y, sigma2_z
        self.K_ZZ = gaussian(Z, Z, sigma2_z)
        self.K = gaussian(Y, Y, sigma2_y) + ridge * torch.eye(len(Y), dtype=Y.dtype)
        self.factor = torch.linalg.cholesky(self.K)

    def products(self, K_yY, K_Zz):
        A = torch.cholesky_solve(K_yY.T, self.factor)
        A = (A + torch.cholesky_solve(K_yY.T - self.K @ A, self.factor)).T  # refined once
        return A @ K_Zz, A @ self.K_ZZ @ A.T


def loss_and_gradient(circe, x, y, z, sigma2_x, estimator="centered"):
    x = x.detach().requires_grad_(True)
    loss = circe(x, y, z, sigma2_x, estimator)
    loss.backward()
    return loss.item(), x.grad


# ---- the fit: leave-one-out over the grid -----------------------------------------------------------------------


def loo_error(K_YY, K_ZZ, ridge):
    """The theorem, cell by cell: |psi(z_i) - F(y_i)|^2 / (1 - A_ii)^2, with A = K_YY (K_YY + ridge I)^-1."""
    A = torch.linalg.solve(K_YY + ridge * torch.eye(len(K_YY), dtype=K_YY.dtype), K_YY).T
    A_K = A @ K_ZZ
    squares = K_ZZ.diag() - 2 * A_K.diag() + (A_K * A).sum(1)
    return (squares / (1 - A.diag()) ** 2).mean().item()


def fit(Y, Z, sigma2_z=SIGMA2_Z, sigma2_y=SIGMA2_Y, ridges=RIDGE):
    """The table of errors (len(sigma2_y), len(ridges)), the best pair, then W1 and W2."""
    K_ZZ = gaussian(Z, Z, sigma2_z)
    table = []
    for s in sigma2_y:
        K_YY = gaussian(Y, Y, s)
        table.append([loo_error(K_YY, K_ZZ, r) for r in ridges])
    _, best_sigma2, best_ridge = min(
        (error, s, r) for s, row in zip(sigma2_y, table) for r, error in zip(ridges, row)
    )
    return table, Circe(Y, Z, best_sigma2, sigma2_z, best_ridge, Y.dtype)


# ---- timing -----------------------------------------------------------------------------------------------------


class Step:
    """One row of the table, set up and ready to be repeated."""

    def __init__(self, B, M, d_x, holdouts):
        if M not in holdouts:
            Y, Z = draw_points(M, seed=10)
            holdouts[M] = Circe(Y, Z, 0.1, SIGMA2_Z, 0.1)
        self.circe = holdouts[M]
        self.y, self.z = draw_points(B, seed=20, dtype=torch.float32)
        self.x = draw_x(B, d_x, seed=1, dtype=torch.float32)
        self.sigma2_x = float(d_x)

    def run(self):
        return loss_and_gradient(self.circe, self.x, self.y, self.z, self.sigma2_x)


def time_fit(rows=FIT_ROWS, dtype=torch.float32):
    """Seconds, and the table. float32, PyTorch's default, is the faster choice; its errors are off by up to 0.5 %."""
    Y, Z = draw_points(rows, seed=10, dtype=dtype)
    before = time.perf_counter()
    table, _ = fit(Y, Z)
    return time.perf_counter() - before, table
