"""HSCIC, KCI and GCM on one GPU, circe and plain PyTorch: the rows that bench/gpu.py adds. Also fits, circe alone.

The peers are the formulas as matrix products, with autograd: systems in float64, which float32 would lose, the rest in
float32. `check` compares values and gradients in float64 first.
"""

import ctypes
import time

import torch

import peer
from circe import _native

SIZES = [(256, 64), (1024, 64), (4096, 64)]  # n, d_x
FITS = [(1267, "lowrank"), (5898, "lowrank"), (5898, "dense"), (1000000, "lowrank")]
SIGMA2_Y, SIGMA2_Z, RIDGE = 0.1, 0.01, 0.01


# ---- the peers ----------------------------------------------------------------------------------------------------


def inverse(K):
    return torch.cholesky_inverse(torch.linalg.cholesky(K.double() + RIDGE * torch.eye(len(K), device=K.device).double()))


def hscic(x, y, z, sigma2_x):
    K_x, K_z, K_y = peer.gaussian(x, x, sigma2_x), peer.gaussian(z, z, SIGMA2_Z), peer.gaussian(y, y, SIGMA2_Y)
    W = (inverse(K_y) @ K_y.double()).to(x.dtype)
    x_mean, z_mean = K_x @ W, K_z @ W
    joint = (W * ((K_x * K_z) @ W)).sum(0)
    return (joint - 2 * (W * x_mean * z_mean).sum(0) + (W * x_mean).sum(0) * (W * z_mean).sum(0)).mean()


def centered(K):
    return K - K.mean(0, keepdim=True) - K.mean(1, keepdim=True) + K.mean()


def kci(x, y, z, sigma2_x):
    K_y = peer.gaussian(y, y, SIGMA2_Y)
    K_xy, K_z = centered(peer.gaussian(x, x, sigma2_x) * K_y), centered(peer.gaussian(z, z, SIGMA2_Z))
    R = (RIDGE * inverse(centered(K_y.double()))).to(x.dtype)
    return ((R @ K_xy @ R) * (R @ K_z @ R)).sum() / len(x)


def gcm(x, y, z, sigma2_x):
    rest = (RIDGE * inverse(peer.gaussian(y, y, SIGMA2_Y))).to(x.dtype)
    products = (rest @ x)[:, :, None] * (rest @ z)[:, None, :]
    return (len(x) ** 0.5 * products.mean(0) / products.var(0, correction=0).sqrt()).abs().max()


PEERS = {"hscic": hscic, "kci": kci, "gcm": gcm}


# ---- circe --------------------------------------------------------------------------------------------------------


class Measure:
    """One measure of a batch on the GPU, loss and gradient."""

    def __init__(self, library, mat, name, x, y, z, method="dense"):
        self.library, self.name = library, name
        self.value, self.grad = torch.empty(1, dtype=torch.float64, device="cuda"), torch.empty_like(x)
        self.tensors = x, y, z
        self.function = f"circe_cuda_measure_{name}"
        views, value, grad = [mat(tensor) for tensor in self.tensors], self.value.data_ptr(), mat(self.grad)
        kernels = _native.Kernels(library.gaussian(float(x.shape[1])), library.gaussian(SIGMA2_Y), library.gaussian(SIGMA2_Z))
        batch = _native.BatchOptions()
        library.c.circe_batch_options_init(ctypes.byref(batch))
        batch.method = _native.METHODS[method]
        if name == "gcm":
            options = _native.GcmOptions()
            library.c.circe_gcm_options_init(ctypes.byref(options))
            options.batch = batch
            self.arguments = (library.cuda, kernels.y, *views, None, None, ctypes.byref(options), value, grad)
        else:
            self.arguments = (library.cuda, ctypes.byref(kernels), *views, None, ctypes.byref(batch), value, grad)

    def __call__(self):
        self.library.call(self.function, *self.arguments)


def points(n, d_x, dtype):
    y, z = peer.draw_points(n, seed=20, dtype=dtype)
    return peer.draw_x(n, d_x, seed=1, dtype=dtype).cuda(), y.cuda(), z.cuda()


def check(library, mat):
    for name, measure in PEERS.items():
        x, y, z = points(256, 8, torch.float64)
        ours = Measure(library, mat, name, x, y, z)
        ours()
        low = Measure(library, mat, name, x, y, z, "lowrank")
        low()
        assert abs(low.value.item() / ours.value.item() - 1) < 1e-6
        assert (low.grad - ours.grad).abs().max() < 1e-6 * ours.grad.abs().max()
        x = x.requires_grad_(True)
        value = measure(x, y, z, 8.0)
        value.backward()
        error = abs(ours.value.item() / value.item() - 1)
        error_grad = ((ours.grad - x.grad).abs().max() / x.grad.abs().max()).item()
        print(f"{name}, float64 against the peer, n=256: value {error:.1e}, gradient {error_grad:.1e}", flush=True)
        assert error < 1e-6 and error_grad < 1e-6


def peer_step(measure, x, y, z):
    x = x.detach().requires_grad_(True)

    def run():
        x.grad = None
        measure(x, y, z, float(x.shape[1])).backward()

    return run


def operations(name, n, d_x):
    """Multiplications with addition in float64: a factorisation, the inverse of its triangle, products."""
    factor = n ** 3 * (1 / 6 + 1 / 3)
    return factor + 4 * n ** 3 if name != "gcm" else factor + 2 * n ** 2 * (2 * d_x + 1)


def measures(library, mat, graph_of, median_us):
    """Rows of numbers, printed as they come. graph_of makes a replayed CUDA graph of a call."""
    check(library, mat)
    rows = []
    for n, d_x in SIZES:
        x, y, z = points(n, d_x, torch.float32)
        for name, measure in PEERS.items():
            ours = Measure(library, mat, name, x, y, z)
            row = {"measure": name, "n": n, "d_x": d_x, "stream_us": median_us(ours, 3, 15)}
            row["graph_us"] = median_us(graph_of(library, ours), 3, 15)
            row["low_rank_us"] = median_us(graph_of(library, Measure(library, mat, name, x, y, z, "lowrank")), 3, 15)
            row["eager_us"] = median_us(peer_step(measure, x, y, z), 2, 8)
            row["tera_fma"] = operations(name, n, d_x) / row["graph_us"] / 1e6
            rows.append(row)
            print(f"{name} n={n} d_x={d_x}: stream {row['stream_us']:.0f} us, graph {row['graph_us']:.0f} us, low rank "
                  f"{row['low_rank_us']:.0f} us, eager "
                  f"{row['eager_us']:.0f} us, eager / stream {row['eager_us'] / row['stream_us']:.1f}, "
                  f"{row['tera_fma']:.1f} TFMA/s", flush=True)
    return rows


# ---- fits ---------------------------------------------------------------------------------------------------------


def fits(library, mat):
    """The grid of 4 widths and 5 ridges, on the GPU and on the CPU beside it; the same choice."""
    rows = []
    for M, method in FITS:
        Y, Z = peer.draw_points(M, seed=10)
        row = {"M": M, "method": method}
        for place in ("gpu", "cpu"):
            if place == "cpu" and M * (method == "dense") > 3000:
                continue
            y, z = (Y.cuda(), Z.cuda()) if place == "gpu" else (Y, Z)
            name = "circe_cuda_cme_fit" if place == "gpu" else "circe_cme_fit"
            handle = library.cuda if place == "gpu" else library.context
            times = []
            for _ in range(4 if place == "gpu" else 2):
                torch.cuda.synchronize()
                start = time.perf_counter()
                model = library.make(name, handle, mat(y), mat(z), library.gaussian(), library.gaussian(SIGMA2_Z),
                                     ctypes.byref(library.options(method)))
                times.append(time.perf_counter() - start)
                library.c.circe_cme_destroy(model)
            row[f"{place}_ms"] = 1e3 * min(times[1:])
        rows.append(row)
        print(f"fit M={M}, {method}: " + ", ".join(f"{k[:-3]} {v:.1f} ms" for k, v in row.items() if k.endswith("_ms")),
              flush=True)
    return rows
