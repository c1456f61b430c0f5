"""circe against algorithm 1 in plain PyTorch on one GPU, in one run: loss and gradient of a mini-batch.

First checks in float64 that both compute the same thing. Then times, by device events, medians of many: PyTorch eager and
compiled (bench/peer.py, dense, float32), and circe's call on a stream and as a replayed CUDA graph. The library is loaded
as any C program would use it; the batch, its features and the gradient live on the GPU.

    python bench/gpu.py --library build-cuda/libcirce.so [--no-compile] [--only circe|measures|fits] [--json FILE]

bench/gpu_measures.py has the measures that regress the batch on itself, and the fits.
"""

import argparse
import ctypes
import json
import statistics

import torch

import gpu_measures
import peer

SIZES = [(256, 1267, 64), (1024, 5898, 64), (4096, 5898, 64)]  # B, M, d_x
EXTRA = [(1024, 5898, 1), (1024, 5898, 512), (16384, 5898, 64)]  # circe alone
TARGET_US = {256: 25, 1024: 55, 4096: 210}
SIGMA2_Y, SIGMA2_Z, RIDGE = 0.1, 0.01, 0.1
FLOAT32, FLOAT64, GAUSSIAN, LOWRANK, CENTERED = 1, 2, 1, 1, 3


class Mat(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("rows", ctypes.c_int64), ("cols", ctypes.c_int64), ("ld", ctypes.c_int64),
                ("dtype", ctypes.c_int)]


def mat(tensor):
    dtype = {torch.float32: FLOAT32, torch.float64: FLOAT64}[tensor.dtype]
    return Mat(tensor.data_ptr(), tensor.shape[0], tensor.shape[1], tensor.stride(0), dtype)


class CmeOptions(ctypes.Structure):
    _fields_ = [("method", ctypes.c_int), ("sigma2_y", ctypes.POINTER(ctypes.c_double)), ("n_sigma2_y", ctypes.c_int64),
                ("ridge", ctypes.POINTER(ctypes.c_double)), ("n_ridge", ctypes.c_int64), ("tolerance", ctypes.c_double),
                ("max_rank", ctypes.c_int64), ("force_ridge", ctypes.c_int), ("seed", ctypes.c_uint64),
                ("rff_pool", ctypes.c_int64), ("rff_batch", ctypes.c_int64), ("rff_every", ctypes.c_int64)]


class Library:
    """The few functions that a training step needs, through ctypes."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.circe_last_error.restype = ctypes.c_char_p
        self.context = self.make("circe_context_create", None)
        self.cuda = self.make("circe_cuda_open", self.context, 0, None)

    def call(self, name, *arguments):
        if getattr(self.c, name)(*arguments) != 0:
            raise RuntimeError(f"{name}: {self.c.circe_last_error().decode()}")

    def make(self, name, *arguments):
        made = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(made))
        return made

    def gaussian(self, sigma2):
        return self.make("circe_kernel_create", self.context, GAUSSIAN, ctypes.c_double(sigma2))

    def free_gaussian(self):
        return self.gaussian(0.0)

    def options(self, method):
        options = CmeOptions()
        self.c.circe_cme_options_init(ctypes.byref(options))
        options.method = method
        return options

    def fit(self, Y, Z):
        options = self.options(LOWRANK)
        ridge = ctypes.c_double(RIDGE)
        options.ridge, options.n_ridge = ctypes.pointer(ridge), 1
        return self.make("circe_cme_fit", self.context, ctypes.byref(mat(Y)), ctypes.byref(mat(Z)),
                         self.gaussian(SIGMA2_Y), self.gaussian(SIGMA2_Z), ctypes.byref(options))

    def features(self, cme, y, z, dtype):
        """y and zeta of a data set, as views of device memory."""
        host = self.make("circe_features_create", self.context, cme, ctypes.byref(mat(y)), ctypes.byref(mat(z)), dtype)
        copy = self.make("circe_cuda_features_create", self.cuda, host)
        views = Mat(), Mat()
        self.call("circe_cuda_features_get", copy, *map(ctypes.byref, views))
        return views


class Step:
    """circe's loss and gradient of a batch on the GPU."""

    def __init__(self, library, cme, x, y, z):
        self.library, self.x = library, x
        dtype = FLOAT32 if x.dtype == torch.float32 else FLOAT64
        self.y, self.zeta = library.features(cme, y, z, dtype)
        self.grad, self.value = torch.empty_like(x), torch.empty(1, dtype=torch.float64, device="cuda")
        kernel_y, kernel_x = library.gaussian(SIGMA2_Y), library.gaussian(float(x.shape[1]))
        self.mats = mat(x), mat(self.grad)
        self.arguments = (library.cuda, kernel_y, ctypes.byref(self.y), ctypes.byref(self.zeta), None,
                          ctypes.c_int64(len(x)), kernel_x, ctypes.byref(self.mats[0]), CENTERED,
                          ctypes.c_void_p(self.value.data_ptr()), ctypes.byref(self.mats[1]))

    def __call__(self):
        if self.library.c.circe_cuda_measure_circe(*self.arguments) != 0:
            raise RuntimeError(self.library.c.circe_last_error().decode())


def graph_of(library, step):
    """The call captured once, to be replayed."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()

    def use(stream):
        library.call("circe_cuda_set_stream", library.cuda, ctypes.c_void_p(stream.cuda_stream))

    step()
    torch.cuda.synchronize()
    use(stream)
    with torch.cuda.graph(graph, stream=stream):
        step()
    use(torch.cuda.current_stream())
    return graph.replay


def median_us(run, repeats, rounds):
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(repeats):
            run()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / repeats)
    return statistics.median(times)


def peer_step(circe, x, y, z, compiled):
    x = x.detach().requires_grad_(True)
    sigma2_x = float(x.shape[1])
    loss = torch.compile(lambda x: circe(x, y, z, sigma2_x), dynamic=False) if compiled else (
        lambda x: circe(x, y, z, sigma2_x))

    def run():
        x.grad = None
        loss(x).backward()

    return run


def on_gpu(circe):
    for name in ("W1", "W2", "Y", "Z"):
        setattr(circe, name, getattr(circe, name).cuda())
    return circe


def check(library):
    """Float64 on both sides; the peer by solves, on the CPU."""
    Y, Z = peer.draw_points(1267, seed=10)
    y, z = peer.draw_points(256, seed=20)
    x = peer.draw_x(256, 64, seed=1)
    value, grad = peer.loss_and_gradient(peer.CirceBySolves(Y, Z, SIGMA2_Y, SIGMA2_Z, RIDGE), x, y, z, 64.0)
    step = Step(library, library.fit(Y, Z), x.cuda(), y, z)
    step()
    error = abs(step.value.item() - value) / abs(value)
    error_grad = ((step.grad.cpu() - grad).abs().max() / grad.abs().max()).item()
    print(f"float64 against the peer by solves, B=256: value {error:.1e}, gradient {error_grad:.1e}", flush=True)
    assert error < 1e-7 and error_grad < 1e-7


def operations(B, d_x, columns):
    """Multiplications with addition that the pairs take: features twice, distances, two gradients."""
    return B * (B + 1) / 2 * (2 * (columns + 1) + 3 * d_x)


def compare(library, options):
    """CIRCE at every size."""
    check(library)
    rows, models = [], {}
    for B, M, d_x in SIZES + EXTRA:
        if M not in models:
            Y, Z = peer.draw_points(M, seed=10)
            models[M] = (library.fit(Y, Z), on_gpu(peer.Circe(Y, Z, SIGMA2_Y, SIGMA2_Z, RIDGE)))
        cme, circe = models[M]
        y, z = peer.draw_points(B, seed=20, dtype=torch.float32)
        x = peer.draw_x(B, d_x, seed=1, dtype=torch.float32).cuda()
        step = Step(library, cme, x, y, z)
        row = {"B": B, "M": M, "d_x": d_x, "columns": step.zeta.cols}
        row["stream_us"] = median_us(step, 20, 60)
        row["graph_us"] = median_us(graph_of(library, step), 20, 60)
        row["tera_fma"] = operations(B, d_x, step.zeta.cols) / row["graph_us"] / 1e6
        if (B, M, d_x) in SIZES:
            y, z = y.cuda(), z.cuda()
            row["eager_us"] = median_us(peer_step(circe, x, y, z, False), 3, 20)
            if not options.no_compile:
                row["compiled_us"] = median_us(peer_step(circe, x, y, z, True), 3, 20)
            row["target_us"] = TARGET_US[B]
        rows.append(row)
        text = ", ".join(f"{k[:-3]} {v:.1f} us" for k, v in row.items() if k.endswith("_us"))
        ratio = f", eager / stream {row['eager_us'] / row['stream_us']:.0f}" if "eager_us" in row else ""
        print(f"B={B} M={M} d_x={d_x} q={row['columns']}: {text}, {row['tera_fma']:.1f} TFMA/s{ratio}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description="circe and PyTorch on one GPU")
    parser.add_argument("--library", default="build-cuda/libcirce.so")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, which takes a minute")
    parser.add_argument("--only", choices=["circe", "measures", "fits"], help="this part alone")
    parser.add_argument("--json", help="also write the numbers here")
    options = parser.parse_args()
    library = Library(options.library)
    name = torch.cuda.get_device_name()
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    print(f"{name}, {processors} multiprocessors, PyTorch {torch.__version__}")
    parts = {"circe": lambda: compare(library, options),
             "measures": lambda: gpu_measures.measures(library, mat, graph_of, median_us),
             "fits": lambda: gpu_measures.fits(library, mat, library.options)}
    found = {part: run() for part, run in parts.items() if options.only in (None, part)}
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"gpu": name, "torch": torch.__version__, **found}, file, indent=2)


if __name__ == "__main__":
    main()
