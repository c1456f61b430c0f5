"""What Python adds to a call, and CIRCE in a PyTorch training loop against algorithm 1 written plainly in PyTorch.

    python bench/python.py --library build/libcirce.so [--threads N] [--budget S] [--json FILE]

First the overhead: value and gradient of 4 points, where the C call takes microseconds, called from C (bench/python_call.c,
compiled here), through the NumPy function, and as a loss with its backward pass. The difference is what Python adds. `without C`
is the same step with the C call left out. It is less than what is added: C code that takes turns with PyTorch finds its
instructions gone from the caches, and a core that has just executed 512-bit instructions (OpenBLAS and libcirce do) clocks lower
for about a millisecond, Python's part included. A backward pass costs PyTorch something whatever it computes: `empty` is an
autograd function that does nothing, forward and backward, and `floor` what it costs in turns with a bare C call.

Then the loop: loss and gradient of the sizes of bench/peer.py, float32, in one run and on the same threads. `raw` starts from
x, y, z; `cached` finds residual features by row number. Medians over rounds in which both sides take turns; the brackets are
the smallest and largest ratio of a round. What is asked for is asked of the C call: `less` is the ratio without the overhead
that was measured first.
"""

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import common

HERE = Path(__file__).resolve().parent
NUMPY_US, TORCH_US = 10, 60  # to stay below


def parse():
    parser = common.parser(__doc__)
    parser.add_argument("--library", default="build/libcirce.so")
    parser.add_argument("--threads", type=int, help="of both sides; default: one a core")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds for each side of a row [2]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--overhead-only", action="store_true")
    parser.add_argument("--json")
    return parser.parse_args()


options = parse()
circe = common.package(options.library)

import numpy as np  # noqa: E402
import torch  # noqa: E402

import circe.torch  # noqa: E402
import peer  # noqa: E402
from circe import _native  # noqa: E402


# ---- overhead -----------------------------------------------------------------------------------------------------------


class Microseconds(float):
    """Of the processor, in this thread, per call: the quickest round, since whatever else the machine does only adds; `median`
    over the rounds beside it."""

    def __new__(cls, call, rounds=15, calls=2000):
        taken = []
        for _ in range(rounds):
            before = time.thread_time()
            for _ in range(calls):
                call()
            taken.append(1e6 * (time.thread_time() - before) / calls)
        made = super().__new__(cls, min(taken))
        made.median = statistics.median(taken)
        return made


def time_in_c(folder, points):
    """The same call on the same points, from C."""
    program = Path(folder) / "call"
    library = Path(os.environ["CIRCE_LIBRARY"])
    subprocess.run(["cc", "-O2", f"-I{HERE.parent / 'include'}", str(HERE / "python_call.c"), str(library),
                    f"-Wl,-rpath,{library.parent}", "-o", str(program)], check=True)
    for name, array in points.items():
        np.asarray(array, dtype=np.float64).tofile(Path(folder) / name)
    out = subprocess.run([str(program), folder, str(len(points["Y"])), str(len(points["y"]))], check=True,
                         capture_output=True, text=True).stdout
    return {"float32": float(out.split()[0]), "float64": float(out.split()[1])}


class Empty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sum()

    @staticmethod
    def backward(ctx, d):
        return ctx.saved_tensors[0]


def measure_overhead():
    circe.set_threads(1)
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    Y, y = random.uniform(size=(1267, 1)), random.uniform(size=(4, 1))
    points = {"Y": Y, "Z": Y + 0.05 * random.normal(size=Y.shape), "y": y, "z": y + 0.05 * random.normal(size=y.shape),
              "x": random.normal(size=(4, 1))}
    mean = circe.ConditionalMean(sigma2_y=0.1, sigma2_z=0.01, ridge=0.1, method="lowrank").fit(points["Y"], points["Z"])
    with tempfile.TemporaryDirectory() as folder:
        in_c = time_in_c(folder, points)
    loss = circe.torch.CirceLoss(mean, sigma2_x=1.0)
    empty = torch.zeros(4, 1, requires_grad=True)

    def step(x, y, z):
        x.grad = None
        loss(x, y, z).backward()

    def nothing():
        empty.grad = None
        Empty.apply(empty).backward()

    rows = []
    for dtype in ("float64", "float32"):
        x, y, z = (points[name].astype(dtype) for name in "xyz")
        tensors = [torch.tensor(array) for array in (x, y, z)]
        tensors[0].requires_grad_(True)
        called = Microseconds(lambda: circe.circe(x, y, z, mean, sigma2_x=1.0, grad=True))
        trained = Microseconds(lambda: step(*tensors))
        bare = bare_call(loss, tensors)
        beside = Microseconds(lambda: (nothing(), bare())) - Microseconds(bare)
        frame, _ = loss._plan.frame()
        measure, frame.function = frame.function, lambda *arguments: 0
        alone = Microseconds(lambda: step(*tensors))
        frame.function = measure
        rows.append({"dtype": dtype, "c": in_c[dtype], "numpy": called, "numpy_median": called.median, "torch": trained,
                     "torch_median": trained.median, "without_c": alone, "empty": Microseconds(nothing), "floor": beside})
    return rows


def bare_call(loss, tensors):
    """The C call of a loss, with arguments that stay."""
    grad = torch.empty_like(tensors[0])
    frame, alive = loss._plan.frame()
    code = {torch.float32: _native.FLOAT32, torch.float64: _native.FLOAT64}[grad.dtype]
    views = [(tensor.data_ptr(), len(tensor), 1, 1, code) for tensor in (*tensors, grad)]

    def call(keep=(grad, alive)):
        frame.write(frame.block, 0, *views[0], *views[1], *views[2], *views[3])
        frame.function(*frame.with_grad)

    return call


def print_overhead(rows):
    print(f"overhead of a call with 4 points, one thread, microseconds of processor time: best of 15 rounds (their median); below "
          f"{NUMPY_US} and {TORCH_US} asked for")
    print(f"{'':10}{'in C':>8}{'NumPy':>15}{'adds':>8}{'loss + backward':>18}{'adds':>8}{'floor':>8}{'without C':>12}{'empty':>8}")
    for row in rows:
        print(f"{row['dtype']:10}{row['c']:8.1f}{row['numpy']:8.1f} ({row['numpy_median']:4.1f}){row['numpy'] - row['c']:8.1f}"
              f"{row['torch']:10.1f} ({row['torch_median']:5.1f}){row['torch'] - row['c']:8.1f}{row['floor']:8.1f}"
              f"{row['without_c']:12.1f}{row['empty']:8.1f}")


# ---- the loop -----------------------------------------------------------------------------------------------------------


class Ours:
    """The losses on the peer's data, with its estimator."""

    def __init__(self, step, M):
        Y, Z = peer.draw_points(M, seed=10)
        mean = circe.ConditionalMean(sigma2_y=0.1, sigma2_z=peer.SIGMA2_Z, ridge=0.1, method="lowrank").fit(Y, Z)
        self.step = step
        self.raw_loss = circe.torch.CirceLoss(mean, sigma2_x=step.sigma2_x, estimator="centered")
        self.cached_loss = circe.torch.CirceLoss(circe.torch.residual_features(mean, step.y, step.z), sigma2_x=step.sigma2_x,
                                                 estimator="centered")
        self.index = torch.arange(len(step.x))

    def raw(self):
        x = self.step.x.detach().requires_grad_(True)
        loss = self.raw_loss(x, self.step.y, self.step.z)
        loss.backward()
        return loss.item(), x.grad

    def cached(self):
        x = self.step.x.detach().requires_grad_(True)
        loss = self.cached_loss(x, index=self.index)
        loss.backward()
        return loss.item(), x.grad


def median_ms(call, seconds):
    return 1e3 * statistics.median(common.times(call, seconds))


def measure_loop(B, M, d_x, holdouts):
    step = peer.Step(B, M, d_x, holdouts)
    ours = Ours(step, M)
    expected = step.run()
    for call in (ours.raw, ours.cached):
        value, grad = call()
        # Roughly: algorithm 1 loses digits in float32, with its inverse as a matrix. bench/compare.py checks in float64.
        assert abs(value - expected[0]) < 0.05 * abs(expected[0]), (value, expected[0])
        assert torch.cosine_similarity(grad.ravel(), expected[1].ravel(), dim=0) > 0.98
    seconds = options.budget / options.rounds
    rounds = [{name: median_ms(call, seconds) for name, call in (("peer", step.run), ("raw", ours.raw), ("cached", ours.cached))}
              for _ in range(options.rounds)]
    return {"B": B, "M": M, "d_x": d_x, "rounds": rounds,
            **{name: statistics.median(r[name] for r in rounds) for name in ("peer", "raw", "cached")}}


def ratios(row, name, overhead_ms):
    every = [r["peer"] / r[name] for r in row["rounds"]]
    less = statistics.median(r["peer"] / (r[name] - overhead_ms) for r in row["rounds"])
    return f"{statistics.median(every):6.0f} [{min(every):.0f}-{max(every):.0f}]".ljust(18) + f"{less:6.0f}"


def main():
    result = {"torch": torch.__version__, "numpy": np.__version__, "circe": circe.__version__, "load": os.getloadavg()[0]}
    print(f"PyTorch {torch.__version__}, circe {circe.__version__}, load {result['load']:.1f}\n")
    threads = options.threads or len(os.sched_getaffinity(0))
    result["overhead"] = measure_overhead()
    print_overhead(result["overhead"])
    if not options.overhead_only:
        torch.set_num_threads(threads)
        circe.set_threads(threads)
        print(f"\nloss and gradient in a PyTorch loop, float32, {threads} threads, milliseconds")
        print(f"{'batch':>7}{'holdout':>9}{'d_x':>5}{'PyTorch':>10}{'raw':>9}{'cached':>9}   {'ratio raw':18}{'less':>6}  "
              f"{'ratio cached':18}{'less':>6}   asked for")
        added_ms = 1e-3 * next(row["torch"] - row["c"] for row in result["overhead"] if row["dtype"] == "float32")
        holdouts, result["loop"] = {}, []
        for size in peer.SIZES:
            row = measure_loop(*size, holdouts)
            result["loop"].append(row)
            print(f"{row['B']:7}{row['M']:9}{row['d_x']:5}{row['peer']:10.1f}{row['raw']:9.3f}{row['cached']:9.3f}   "
                  f"{ratios(row, 'raw', added_ms)}  {ratios(row, 'cached', added_ms)}   {peer.TARGETS[size]}", flush=True)
    common.save(options, result)


if __name__ == "__main__":
    main()
