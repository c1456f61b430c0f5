"""circe against algorithm 1 in plain PyTorch on one GPU, in one run: loss and gradient of a mini-batch.

First checks in float64 that both compute the same thing. Then times, by device events, medians of many: PyTorch eager and
compiled (bench/peer.py, dense, float32), and circe's call on a stream and as a replayed CUDA graph. The library is loaded
as any C program would use it; the batch, its features and the gradient live on the GPU.

    python bench/gpu.py --library build-cuda/libcirce.so [--no-compile] [--only circe|measures|fits] [--json FILE]

bench/gpu_measures.py has the measures that regress the batch on itself, and the fits.
"""

import ctypes
import statistics

import common


def parse_options():
    parser = common.parser(__doc__)
    parser.add_argument("--library", default="build-cuda/libcirce.so")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, which takes a minute")
    parser.add_argument("--only", choices=["circe", "measures", "fits"], help="this part alone")
    parser.add_argument("--json", help="also write the numbers here")
    return parser.parse_args()


OPTIONS = parse_options()
common.package(OPTIONS.library)

import torch  # noqa: E402

import gpu_measures  # noqa: E402
import peer  # noqa: E402
from circe import _native  # noqa: E402

SIZES = [(256, 1267, 64), (1024, 5898, 64), (4096, 5898, 64)]  # B, M, d_x
EXTRA = [(1024, 5898, 1), (1024, 5898, 512), (16384, 5898, 64)]  # circe alone
TARGET_US = {256: 25, 1024: 55, 4096: 210}
SIGMA2_Y, SIGMA2_Z, RIDGE = 0.1, 0.01, 0.1
DTYPES = {torch.float32: _native.FLOAT32, torch.float64: _native.FLOAT64}


def mat(tensor):
    return _native.mat(tensor.data_ptr(), tensor.shape[0], tensor.shape[1], tensor.stride(0), DTYPES[tensor.dtype])


class Library:
    """A context, a device, and what a training step needs of both."""

    def __init__(self):
        self.c = _native.library()
        self.context = self.make("circe_context_create", None)
        self.cuda = self.make("circe_cuda_open", self.context, 0, None)

    def call(self, name, *arguments):
        _native.check(getattr(self.c, name)(*arguments))

    def make(self, name, *arguments):
        made = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(made))
        return made

    def gaussian(self, sigma2=None):
        """None: the width is free."""
        text = "gaussian" if sigma2 is None else f"gaussian({sigma2!r})"
        return self.make("circe_kernel_parse", self.context, text.encode())

    def options(self, method):
        options = _native.CmeOptions()
        self.c.circe_cme_options_init(ctypes.byref(options))
        options.method = _native.METHODS[method]
        return options

    def fit(self, Y, Z):
        options, ridge = self.options("lowrank"), ctypes.c_double(RIDGE)
        options.ridge, options.n_ridge = ctypes.pointer(ridge), 1
        return self.make("circe_cme_fit", self.context, mat(Y), mat(Z), self.gaussian(SIGMA2_Y), self.gaussian(SIGMA2_Z),
                         ctypes.byref(options))

    def features(self, cme, y, z, dtype):
        """y and zeta of a data set, as views of device memory."""
        host = self.make("circe_features_create", self.context, cme, mat(y), mat(z), dtype)
        copy = self.make("circe_cuda_features_create", self.cuda, host)
        views = _native.Mat(), _native.Mat()
        self.call("circe_cuda_features_get", copy, *map(ctypes.byref, views))
        return views


class Step:
    """circe's loss and gradient of a batch on the GPU."""

    def __init__(self, library, cme, x, y, z):
        self.library, self.x = library, x
        self.y, self.zeta = library.features(cme, y, z, DTYPES[x.dtype])
        self.grad, self.value = torch.empty_like(x), torch.empty(1, dtype=torch.float64, device="cuda")
        kernel_y, kernel_x = library.gaussian(SIGMA2_Y), library.gaussian(float(x.shape[1]))
        self.arguments = (library.cuda, kernel_y, ctypes.byref(self.y), ctypes.byref(self.zeta), None, len(x), kernel_x, mat(x),
                          _native.ESTIMATORS["centered"], self.value.data_ptr(), mat(self.grad))

    def __call__(self):
        self.library.call("circe_cuda_measure_circe", *self.arguments)


def graph_of(library, step):
    """The call captured once, to be replayed."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()

    def use(stream):
        library.call("circe_cuda_set_stream", library.cuda, stream.cuda_stream)

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


def compare(library):
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
            if not OPTIONS.no_compile:
                row["compiled_us"] = median_us(peer_step(circe, x, y, z, True), 3, 20)
            row["target_us"] = TARGET_US[B]
        rows.append(row)
        text = ", ".join(f"{k[:-3]} {v:.1f} us" for k, v in row.items() if k.endswith("_us"))
        ratio = f", eager / stream {row['eager_us'] / row['stream_us']:.0f}" if "eager_us" in row else ""
        print(f"B={B} M={M} d_x={d_x} q={row['columns']}: {text}, {row['tera_fma']:.1f} TFMA/s{ratio}", flush=True)
    return rows


def main():
    library = Library()
    name = torch.cuda.get_device_name()
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    print(f"{name}, {processors} multiprocessors, PyTorch {torch.__version__}")
    parts = {"circe": lambda: compare(library),
             "measures": lambda: gpu_measures.measures(library, mat, graph_of, median_us),
             "fits": lambda: gpu_measures.fits(library, mat)}
    found = {part: run() for part, run in parts.items() if OPTIONS.only in (None, part)}
    common.save(OPTIONS, {"gpu": name, "torch": torch.__version__, **found})


if __name__ == "__main__":
    main()
