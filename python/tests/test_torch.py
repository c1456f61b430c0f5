"""The losses in PyTorch: gradients, dtypes, autocast, compilation, ranks, row numbers, refusals."""

import copy
import ctypes
import os
import subprocess
import sys
import warnings
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import circe
import circe.torch as ct
from circe import _native, _runtime
from circe.torch import _cuda, _evaluate

VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
needs_operators = pytest.mark.skipif(VERSION < (2, 4), reason="PyTorch before 2.4 has no custom operators")
EVERY = ["circe", "circe-index", "hsic", "hscic", "hscic-holdout", "gcm", "gcm-linear", "gcm-holdout"]


class Batch:
    """Tensors of the batch, and every loss as a function of x."""

    def __init__(self, points, mean, dtype=torch.float64, rows=slice(None)):
        self.x, self.y, self.z = (torch.tensor(getattr(points, name)[rows], dtype=dtype) for name in "xyz")
        self.points, self.mean, self.dtype = points, mean, dtype
        self.index = torch.arange(160)[rows]

    def loss(self, name, **options):
        y, z = self.y, self.z
        width = {"sigma2_x": 1.0, "sigma2_y": 0.5, "sigma2_z": 1.0}
        if name == "circe":
            module = ct.CirceLoss(self.mean, sigma2_x=1.0, **options)
        elif name == "circe-index":
            features = ct.residual_features(self.mean, self.points.y, self.points.z, self.dtype)
            module = ct.CirceLoss(features, sigma2_x=1.0, **options)
            return module, lambda x: module(x, index=self.index)
        elif name == "hsic":
            module = ct.HSICLoss(sigma2_x=1.0, sigma2_z=1.0, **options)
            return module, lambda x: module(x, z)
        elif name == "hscic":
            module = ct.HSCICLoss(**width, ridge=0.1, **options)
        elif name == "hscic-holdout":
            module = ct.HSCICLoss(mean=self.mean, sigma2_x=1.0, **options)
        elif name == "gcm":
            module = ct.GCMLoss(sigma2_y=0.5, ridge=0.1, **options)
        elif name == "gcm-linear":
            module = ct.GCMLoss(regression="linear", combine="squares", **options)
        elif name == "gcm-holdout":
            linear = circe.ConditionalMean(kernel_z="linear", sigma2_y=0.5, ridge=0.1)
            module = ct.GCMLoss(mean=linear.fit(self.points.Y, self.points.Z), **options)
        return module, lambda x: module(x, y, z)


@pytest.fixture
def batch(points, mean):
    return Batch(points, mean, rows=slice(0, 24))


@pytest.mark.parametrize("name", EVERY)
def test_gradcheck(batch, name):
    _, loss = batch.loss(name)
    assert torch.autograd.gradcheck(loss, batch.x.clone().requires_grad_(True))


@pytest.mark.parametrize("name", EVERY)
def test_the_numbers_are_the_librarys(points, mean, batch, name):
    _, loss = batch.loss(name)
    x = batch.x.clone().requires_grad_(True)
    value = loss(x)
    (3 * value).backward()
    p, rows = points, slice(0, 24)
    width = {"sigma2_x": 1.0, "sigma2_y": 0.5, "sigma2_z": 1.0}
    linear = circe.ConditionalMean(kernel_z="linear", sigma2_y=0.5, ridge=0.1).fit(p.Y, p.Z)
    measure, options = {
        "circe": ("circe", {"mean": mean, "sigma2_x": 1.0}), "circe-index": ("circe", {"mean": mean, "sigma2_x": 1.0}),
        "hsic": ("hsic", {"sigma2_x": 1.0, "sigma2_z": 1.0}), "hscic": ("hscic", {**width, "ridge": 0.1}),
        "hscic-holdout": ("hscic", {"mean": mean, "sigma2_x": 1.0}),
        "gcm": ("gcm", {"sigma2_y": 0.5, "ridge": 0.1, "combine": "logsumexp"}),
        "gcm-linear": ("gcm", {"regression": "linear", "combine": "squares"}),
        "gcm-holdout": ("gcm", {"mean": linear, "combine": "logsumexp"})}[name]
    expected = circe.measure(measure, p.x[rows], p.y[rows], p.z[rows], grad=True, **options)
    assert value.item() == pytest.approx(expected.value, rel=1e-6, abs=1e-10)
    np.testing.assert_allclose(x.grad.numpy(), 3 * expected.grad, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dtypes(points, mean, batch, dtype):
    module, _ = batch.loss("circe")
    x = batch.x.to(dtype).requires_grad_(True)
    value = module(x, batch.y.to(dtype), batch.z)
    value.backward()
    assert value.dtype == torch.float32 and x.grad.dtype == dtype and value.dim() == 0
    exact = module(x.detach().double(), batch.y.to(dtype).double(), batch.z)
    assert value.item() == pytest.approx(exact.item(), rel=1e-4)


def test_autocast(batch):
    module, _ = batch.loss("circe")
    layer = torch.nn.Linear(2, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = layer(batch.x.float())
        value = module(features, batch.y, batch.z)
    assert features.dtype == torch.bfloat16 and value.dtype == torch.float32
    value.backward()
    assert torch.isfinite(layer.weight.grad).all() and layer.weight.grad.abs().sum() > 0


def test_without_gradient(batch):
    module, loss = batch.loss("circe")
    with torch.no_grad():
        value = loss(batch.x.clone().requires_grad_(True))
    assert not value.requires_grad and not loss(batch.x).requires_grad
    assert value.item() == loss(batch.x.clone().requires_grad_(True)).item()


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_operators)])
def test_second_derivatives_are_refused(batch, compiled):
    """Also in a sum, whose other terms have one: without ours it would be wrong."""
    _, loss = batch.loss("circe")
    x = batch.x.clone().requires_grad_(True)
    (expected,) = torch.autograd.grad(loss(x), x)
    if compiled:
        loss = torch.compile(loss, backend="eager")
    cubes = 3 * batch.x**2
    for whole, derivative in ((loss, expected), (lambda x: loss(x).square(), 2 * loss(x).item() * expected),
                              (lambda x: loss(x) + x.pow(3).sum(), expected + cubes)):
        (grad,) = torch.autograd.grad(whole(x), x, create_graph=True)
        torch.testing.assert_close(grad.detach(), derivative)
        with pytest.raises(circe.UnsupportedError, match="no second derivative"):
            grad.square().sum().backward()


@pytest.mark.parametrize("name", ["hessian", "hvp", "vhp"])
def test_hessians_are_refused(batch, name):
    """They pass on what is 0 without a word, where the gradient is a constant to autograd."""
    _, loss = batch.loss("circe")
    ask = getattr(torch.autograd.functional, name)
    with pytest.raises(circe.UnsupportedError, match="no second derivative"):
        ask(loss, batch.x) if name == "hessian" else ask(loss, batch.x, torch.ones_like(batch.x))


def test_features_may_be_written_to(batch):
    _, loss = batch.loss("circe")
    x = batch.x.clone().requires_grad_(True)
    hidden = x * 1.0
    value = loss(hidden)
    hidden.mul_(2.0)
    value.backward()
    (expected,) = torch.autograd.grad(loss(x), x)
    torch.testing.assert_close(x.grad, expected)


def test_the_last_batch_may_be_small(mean, points):
    """As a DataLoader leaves it: 0, with zeros for a gradient, and one warning."""
    y, z = torch.tensor(points.y), torch.tensor(points.z)
    losses = [(ct.CirceLoss(mean, sigma2_x=1.0), 4), (ct.CirceLoss(mean, sigma2_x=1.0, estimator="centered"), 2)]
    for loss, least in losses:
        with pytest.warns(ct.SmallBatchWarning, match=f"which needs {least}") as caught:
            for n in (1, least - 1):
                x = torch.ones(n, 2, dtype=torch.float64, requires_grad=True)
                value = loss(x, y[:n], z[:n])
                value.backward()
                assert value.item() == 0 and not x.grad.any()
        assert len(caught) == 1
        assert loss(torch.tensor(points.x[:least]), y[:least], z[:least]).item() != 0
    with pytest.raises(circe.ShapeError, match="at least 4 rows"):
        ct.CirceLoss(mean, sigma2_x=1.0, estimator="ustat", small_batch="refuse")(torch.ones(3, 1), y[:3], z[:3])
    with pytest.raises(circe.ArgumentError, match="small_batch is 'ignore'; it must be one of zero, refuse"):
        ct.HSICLoss(sigma2_x=1.0, sigma2_z=1.0, small_batch="ignore")


def test_layouts(batch):
    """Strided rows, transposed, one dimension, integers: the same value, gradients shaped like x."""
    module, loss = batch.loss("circe")
    expected = loss(batch.x).item()
    wide = torch.zeros(24, 7, dtype=torch.float64)
    wide[:, 2:4] = batch.x
    for x in (wide[:, 2:4], batch.x.t().contiguous().t(), batch.x.expand(24, 2)):
        x = x.requires_grad_(True) if x.is_leaf else x.detach().requires_grad_(True)
        value = loss(x)
        value.backward()
        assert value.item() == expected and x.grad.shape == x.shape
    flat = module(batch.x[:, 0], batch.y[:, 0], batch.z[:, 0])
    assert flat.item() == module(batch.x[:, :1], batch.y, batch.z).item()
    whole = ct.HSICLoss(sigma2_x=1.0, kernel_z="delta")
    groups = torch.arange(24) % 3
    assert whole(batch.x, groups).item() == whole(batch.x, groups.double()).item()


def test_training_makes_it_smaller(points, mean):
    """x = z + w: the loss falls when x follows its gradient."""
    batch = Batch(points, mean, torch.float32)
    _, loss = batch.loss("circe", estimator="ustat")
    x = batch.z.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([x], lr=0.05)
    before = loss(x).item()
    for _ in range(60):
        optimizer.zero_grad()
        value = loss(x)
        value.backward()
        optimizer.step()
    assert loss(x).item() < 0.2 * before


def test_modules(batch):
    module, _ = batch.loss("circe")
    assert "estimator='ustat'" in repr(module) and not list(module.parameters()) and module.state_dict() == {}
    twin = copy.deepcopy(module)
    assert twin(batch.x, batch.y, batch.z).item() == module(batch.x, batch.y, batch.z).item()


def test_losses_can_be_saved(points, mean, tmp_path):
    """With the mean that they hold, as torch.save and torch.multiprocessing do it."""
    x, y, z = (torch.tensor(v) for v in (points.x, points.y, points.z))
    widths = {"sigma2_x": 1.0, "sigma2_z": 1.0}
    for loss, given in ((ct.CirceLoss(mean, sigma2_x=1.0, estimator="ustat"), (x, y, z)), (ct.HSICLoss(**widths), (x, z)),
                        (ct.HSCICLoss(**widths, sigma2_y=1.0, ridge=0.1), (x, y, z)),
                        (ct.GCMLoss(regression="linear"), (x, y, z))):
        loss.eval()
        torch.save(torch.nn.ModuleDict({"loss": loss}), tmp_path / "loss.pt")
        options = {} if torch.__version__ < "1.13" else {"weights_only": False}
        again = torch.load(tmp_path / "loss.pt", **options)["loss"]
        assert again(*given).item() == loss(*given).item() and not again.training and repr(again) == repr(loss)
    features = mean.residual_features(points.y, points.z)
    with pytest.raises(TypeError, match="ResidualFeatures cannot be pickled"):
        torch.save(ct.CirceLoss(features, sigma2_x=1.0), tmp_path / "loss.pt")


# ---- row numbers --------------------------------------------------------------------------------------------------------


def test_indexed_data(points, mean):
    from torch.utils.data import DataLoader, TensorDataset

    x, b = torch.tensor(points.x).float(), torch.tensor(points.z).float()
    data = ct.IndexedDataset(TensorDataset(x, b))
    loss = ct.CirceLoss(ct.residual_features(mean, points.y, points.z), sigma2_x=1.0)
    plain = ct.CirceLoss(mean, sigma2_x=1.0)
    assert len(data) == 160 and data[5][2] == 5 and ct.IndexedDataset([7.0])[0] == (7.0, 0)
    assert ct.IndexedDataset([[7.0, 8.0]])[0] == (7.0, 8.0, 0)  # items may be lists
    seen = []
    for rows, _, index in DataLoader(data, batch_size=50, shuffle=True):
        expected = plain(rows, torch.tensor(points.y)[index], torch.tensor(points.z)[index])
        assert loss(rows, index=index).item() == pytest.approx(expected.item(), rel=1e-4)
        seen += index.tolist()
    assert sorted(seen) == list(range(160))
    for workers in (2,):  # processes that are forked beside OpenMP threads
        assert sum(len(index) for _, _, index in DataLoader(data, batch_size=50, num_workers=workers)) == 160


# ---- torch.compile ------------------------------------------------------------------------------------------------------


@needs_operators
@pytest.mark.parametrize("name", ["circe", "circe-index", "hscic"])
def test_compile_does_not_break_the_graph(batch, name):
    _, loss = batch.loss(name)
    x, twin = (batch.x.clone().requires_grad_(True) for _ in range(2))
    function = torch.compile(lambda x: 2 * loss(torch.tanh(x)), fullgraph=True, backend="aot_eager")
    value = function(x)
    value.backward()
    expected = 2 * loss(torch.tanh(twin))
    expected.backward()
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    torch.testing.assert_close(x.grad, twin.grad)


@needs_operators
def test_the_operator_is_well_behaved(batch):
    module, _ = batch.loss("circe")
    x = batch.x.clone().requires_grad_(True)
    torch.library.opcheck(torch.ops.circe.measure, (x, batch.y, batch.z, None, module._plan.number, False))
    with pytest.raises(circe.ClosedError, match="gone"):
        torch.ops.circe.measure(x, batch.y, batch.z, None, 10**9, False)


# ---- ranks --------------------------------------------------------------------------------------------------------------

RANKS = """
import sys, torch, numpy as np, circe, circe.torch as ct
import torch.distributed as dist
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
random = np.random.default_rng(0)
y = random.normal(size=(460, 1)); z = y**2 + random.normal(size=(460, 1))
mean = circe.ConditionalMean(sigma2_y=0.5, sigma2_z=1.0, ridge=0.1).fit(y[:400], z[:400])
y, z = torch.tensor(y[400:]), torch.tensor(z[400:])
a = torch.cat([y, z], 1)
features = ct.residual_features(mean, y.numpy(), z.numpy(), torch.float64)

def same(kind, loss, cut):
    rows = torch.arange(60)[:cut] if rank == 0 else torch.arange(60)[cut:]
    run = (lambda f, r: loss(f, index=r)) if kind == "index" else (lambda f, r: loss(f, y[r], z[r]))
    torch.manual_seed(0)
    network, alone = torch.nn.Linear(2, 2).double(), torch.nn.Linear(2, 2).double()
    alone.load_state_dict(network.state_dict())
    parallel = torch.nn.parallel.DistributedDataParallel(network)
    value = run(parallel(a[rows]), rows)
    value.backward()
    loss.eval()                                     # from here on this rank alone
    expected = run(alone(a), torch.arange(60))
    expected.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(network.weight.grad, alone.weight.grad)
    assert alone.weight.grad.abs().max() > 1e-5
    assert abs(run(network(a[rows]), rows).item() - value.item()) > 1e-9
    print(kind, "right")

same("same", ct.CirceLoss(mean, sigma2_x=1.0, same_size=True), 30)
same("different", ct.CirceLoss(mean, sigma2_x=1.0), 23)
same("index", ct.CirceLoss(features, sigma2_x=1.0), 41)
dist.barrier()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed")
def test_ranks_share_the_batch(tmp_path):
    """Two processes with DistributedDataParallel: value and gradient of the global batch, also of unequal parts."""
    script = tmp_path / "ranks.py"
    script.write_text(RANKS)
    processes = [subprocess.Popen([sys.executable, str(script), str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}) for rank in range(2)]
    for process in processes:
        out, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert out.split() == ["same", "right", "different", "right", "index", "right"]


# ---- refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change,error,text", [
    ({"x": None}, circe.DTypeError, "x is NoneType"), ({"x": "numpy"}, circe.DTypeError, "x is ndarray"),
    ({"x": lambda t: t.long()}, circe.DTypeError, "x holds torch.int64"),
    ({"x": lambda t: t[:, :, None]}, circe.ShapeError, "x has 3 dimensions"),
    ({"x": lambda t: t[:0]}, circe.ShapeError, "x is empty"), ({"x": lambda t: t[:5]}, circe.ShapeError, "x|y"),
    ({"x": lambda t: t * float("nan")}, circe.DataError, "x holds a NaN at row 0, column 0"),
    ({"x": lambda t: t.to("meta")}, circe.DeviceError, "z is on cpu and x on meta"),
    ({"x": lambda t: t.to_sparse()}, circe.DTypeError, "x is a sparse tensor"),
    ({"x": lambda t: t.float().to_mkldnn()}, circe.DTypeError, "x is a tensor of torch._mkldnn; it must be dense"),
    ({"y": None}, circe.DTypeError, "y is missing"), ({"y": "numpy"}, circe.DTypeError, "y is ndarray; it must be a tensor"),
    ({"y": lambda t: t.to("meta")}, circe.DeviceError, "y is on meta and x on cpu"),
    ({"y": lambda t: t.requires_grad_(True)}, circe.ArgumentError, "y requires grad"),
    ({"y": lambda t: t.to(torch.complex64)}, circe.DTypeError, "y holds torch.complex64"),
    ({"y": lambda t: t[:3]}, circe.ShapeError, "y|z"), ({"z": lambda t: t[:3]}, circe.ShapeError, "z"),
    ({"z": lambda t: t / 0}, circe.DataError, "z holds an infinity|z holds a NaN"),
    ({"z": lambda t: t.expand(24, 3)}, circe.ShapeError, "z has 3 columns")])
def test_refused(points, mean, change, error, text):
    batch = Batch(points, mean, rows=slice(0, 24))
    (name, how), = change.items()
    tensors = {"x": batch.x, "y": batch.y, "z": batch.z}
    tensors[name] = None if how is None else tensors[name].numpy() if how == "numpy" else how(tensors[name])
    with pytest.raises(error, match=text):
        ct.CirceLoss(mean, sigma2_x=1.0)(**tensors)


def test_row_numbers_refused(points, mean):
    loss = ct.CirceLoss(ct.residual_features(mean, points.y, points.z), sigma2_x=1.0, estimator="centered")
    x = torch.zeros(2, 1)
    for arguments, error, text in (
            ({"index": torch.tensor([0, 160])}, circe.ArgumentError, r"index\[1\] is 160; there are 160 rows"),
            ({"index": torch.tensor([0.0, 1.0])}, circe.DTypeError, "index holds torch.float32"),
            ({"index": torch.tensor([0])}, circe.ShapeError, "index has shape"),
            ({"index": torch.zeros(2, device="meta").long()}, circe.DeviceError, "index is on meta"),
            ({}, circe.ArgumentError, "index: this loss was made from ResidualFeatures"),
            ({"y": x, "z": x, "index": [0, 1]}, circe.ArgumentError, "index:")):
        with pytest.raises(error, match=text):
            loss(x, **arguments)
    with pytest.raises(circe.ArgumentError, match="index: this loss was made from a ConditionalMean"):
        ct.CirceLoss(mean, sigma2_x=1.0)(x, x, x, index=[0, 1])


# ---- widths that follow the features ------------------------------------------------------------------------------------


def _grad(loss, x, *given):
    x = x.detach().requires_grad_()
    value = loss(x, *given)
    value.backward()
    return value.item(), x.grad


@pytest.mark.parametrize("normalize", ["none", "rows", "batch"])
def test_the_width_follows_the_features(points, mean, normalize):
    """The median of the batch: the scale of x does not count. As torch itself would compute it."""
    x, y, z = (torch.tensor(v[:60]) for v in (points.x, points.y, points.z))
    loss = ct.CirceLoss(mean, normalize_x=normalize)
    value, grad = _grad(loss, x, y, z)
    assert _grad(loss, 1000 * x, y, z)[0] == pytest.approx(value, rel=1e-9)
    own = x.clone().requires_grad_()
    seen = own
    if normalize == "rows":
        seen = own / own.norm(dim=1, keepdim=True)
    if normalize == "batch":
        seen = (own - own.mean(0)) / own.std(0, unbiased=False)
    width = circe.median_sigma2(seen.detach().numpy())  # of 60 rows all pairs count
    expected = ct.CirceLoss(mean, sigma2_x=width)(seen, y, z)
    expected.backward()
    assert value == pytest.approx(expected.item(), rel=1e-9)
    torch.testing.assert_close(grad, own.grad, rtol=1e-7, atol=1e-10)


def test_the_running_width_is_a_buffer(points, mean, tmp_path):
    x, y, z = (torch.tensor(v[:60]) for v in (points.x, points.y, points.z))
    loss = ct.CirceLoss(mean, sigma2_x="running")
    loss(x, y, z)
    first = loss.state_dict()["running_sigma2"].item()
    assert first == pytest.approx(circe.median_sigma2(points.x[:60]), rel=1e-9)
    twin = copy.deepcopy(loss)
    loss(3 * x, y, z)
    assert loss.running_sigma2.item() == pytest.approx(0.9 * first + 0.1 * 9 * first) and twin.running_sigma2.item() == first
    torch.save(loss, tmp_path / "loss.pt")
    again = torch.load(tmp_path / "loss.pt", **({} if torch.__version__ < "1.13" else {"weights_only": False}))
    twin.load_state_dict(loss.state_dict())
    for other in (again, twin):
        assert other(x, y, z).item() == copy.deepcopy(loss)(x, y, z).item()
    loss.eval()
    kept = loss.running_sigma2.item()
    before = loss(x, y, z).item()
    loss(100 * x, y, z)
    assert loss.running_sigma2.item() == kept and loss(x, y, z).item() == before
    loss.train().float()
    loss(x, y, z)
    assert loss.running_sigma2.item() != kept


def test_the_watchman(points, mean):
    """A kernel that sees nothing, and features that grow or shrink: said once each; silent where all is well."""
    x, y, z = (torch.tensor(v[:60]) for v in (points.x, points.y, points.z))
    for options, factor, text in (({"sigma2_x": 1e-5}, 1.0, "so narrow that the loss sees hardly any dependence"),
                                  ({"sigma2_x": 1e5}, 1.0, "x hardly varies for it"),
                                  ({"sigma2_x": 1.0}, 1.1, "no longer measures the same thing"),
                                  ({}, 1.1, "has grown from"), ({}, 0.9, "about to collapse")):
        loss = ct.CirceLoss(mean, **options)
        with pytest.warns(ct.InvarianceWarning, match=text) as caught:
            for step in range(60):
                loss(x * factor**step, y, z)
        assert sum(text in str(w.message) for w in caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss in (ct.CirceLoss(mean), ct.CirceLoss(mean, sigma2_x="running", normalize_x="batch")):
            for step in range(60):
                loss(x + step, y, z)
        loss.eval()
        for step in range(60):
            loss(x * 1.1**step, y, z)



@pytest.mark.parametrize("make,text", [
    (lambda m: ct.CirceLoss(None, sigma2_x=1.0), "mean is None"), (lambda m: ct.CirceLoss(m, sigma2_x=None), "kernel_x 'gaussian' has no width"),
    (lambda m: ct.CirceLoss(m, sigma2_x="mean"), "sigma2_x is 'mean'"),
    (lambda m: ct.CirceLoss(m, normalize_x="columns"), "normalize_x is 'columns'; it must be one of none, rows, batch"),
    (lambda m: ct.CirceLoss(m, sigma2_x=0), "sigma2_x is 0"), (lambda m: ct.CirceLoss(m, sigma2_x=1.0, estimator="best"), "estimator is"),
    (lambda m: ct.CirceLoss(circe.ConditionalMean(), sigma2_x=1.0), "not fitted"),
    (lambda m: ct.HSICLoss(sigma2_x=1.0), "kernel_z 'gaussian' has no width"),
    (lambda m: ct.HSCICLoss(sigma2_x=1.0, sigma2_y=1.0, sigma2_z=1.0), "ridge is missing"),
    (lambda m: ct.GCMLoss(sigma2_y=1.0), "ridge is missing"), (lambda m: ct.GCMLoss(ridge=1.0), "kernel_y 'gaussian' has no width"),
    (lambda m: ct.GCMLoss(regression="cubic"), "regression is"), (lambda m: ct.IndexedDataset(3), "dataset is int"),
    (lambda m: ct.residual_features(m, [0.0], [0.0], torch.float16), "dtype is torch.float16")])
def test_losses_refuse_what_cannot_work(mean, make, text):
    with pytest.raises(circe.CirceError, match=text):
        make(mean)


def test_what_a_loss_remembers_is_not_stale(points, batch):
    """A loss keeps the pointers of its last call; fitting again, closing, and another number of threads must be seen."""
    mean = circe.ConditionalMean(sigma2_y=1.0, sigma2_z=1.0, ridge=1.0).fit(points.Y, points.Z)
    features = ct.residual_features(mean, points.y, points.z)
    loss, by_row = ct.CirceLoss(mean, sigma2_x=1.0), ct.CirceLoss(features, sigma2_x=1.0)
    index = torch.arange(160)
    x, y, z = (torch.tensor(values) for values in (points.x, points.y, points.z))
    before = loss(x, y, z).item()
    assert by_row(x.float(), index=index).item() == pytest.approx(before, rel=1e-4)
    threads = circe.get_threads()
    circe.set_threads(1)
    try:
        assert loss(x, y, z).item() == pytest.approx(before, rel=1e-12)
        assert loss._plan.frame().context is _runtime.context()
    finally:
        circe.set_threads(threads)
    assert loss(x, y, z).item() == pytest.approx(before, rel=1e-12)  # which it remembers from here on
    mean.fit(points.Y[::2], points.Z[::2])
    again = loss(x, y, z).item()
    assert again != before and again == pytest.approx(circe.circe(x, y, z, mean, sigma2_x=1.0).value, rel=1e-12)
    by_row(x.float(), index=index)
    features.close()
    with pytest.raises(circe.ClosedError, match="ResidualFeatures were closed"):
        by_row(x.float(), index=index)
    loss(x, y, z)
    mean.close()
    with pytest.raises(circe.ClosedError, match="ConditionalMean was closed"):
        loss(x, y, z)


def test_closing_frees_although_a_loss_remembers(points, batch):
    mean = circe.ConditionalMean(sigma2_z=1.0).fit(points.Y, points.Z)
    loss = ct.CirceLoss(mean, sigma2_x=1.0)
    loss(batch.x, batch.y, batch.z)
    model = weakref.ref(mean.model.handle)
    mean.close()
    assert model() is None


@pytest.mark.parametrize("name", ["circe", "circe-index", "hsic", "hscic", "gcm"])
def test_every_layout_gives_the_same(points, mean, name):
    """Tensors that are used where they lie by the quick way, and those that are not."""
    batch = Batch(points, mean, rows=slice(0, 40))
    first = batch.x.clone().requires_grad_(True)
    expected = batch.loss(name)[1](first)
    expected.backward()
    for wrapped in (lambda t: t.t().contiguous().t(), lambda t: t.repeat(1, 2)[:, :t.shape[1]], lambda t: t.repeat_interleave(2, 0)[::2]):
        other = Batch(points, mean, rows=slice(0, 40))
        x, other.y, other.z = (wrapped(t) for t in (other.x, other.y, other.z))
        x = x.detach().requires_grad_(True)
        value = other.loss(name)[1](x)
        value.backward()
        assert value.item() == pytest.approx(expected.item(), rel=1e-12)
        torch.testing.assert_close(x.grad, first.grad)


def test_what_pytorch_could_get_wrong_is_refused(batch):
    """Ways of PyTorch in which a value or a derivative would be silently wrong."""
    import torch.autograd.forward_ad as forward

    _, loss = batch.loss("circe")
    with pytest.raises(circe.UnsupportedError, match="x is under torch.jit.trace"):
        torch.jit.trace(loss, batch.x)
    for x in (batch.x, batch.x.clone().requires_grad_(True)):
        with forward.dual_level(), pytest.raises((NotImplementedError, RuntimeError), match="jvp"):
            loss(forward.make_dual(x, torch.ones_like(x)))
    if hasattr(torch, "func"):
        with pytest.raises(circe.UnsupportedError, match=r"x is under torch.func"):
            torch.func.grad(loss)(batch.x)
        with pytest.raises(circe.UnsupportedError, match=r"x is under torch.func"):
            torch.vmap(loss)(batch.x[None])


def test_without_a_gradient(batch):
    _, loss = batch.loss("circe")
    x = batch.x.clone().requires_grad_(True)
    expected = loss(x)
    for how in (torch.no_grad(), torch.inference_mode()):
        with how:
            value = loss(x)
        assert not value.requires_grad and value.item() == expected.item()
    assert not loss(batch.x).requires_grad and expected.requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        loss(batch.x).backward()


@pytest.mark.skipif(VERSION < (2, 0), reason="PyTorch before 2.0 has no such checkpoints")
def test_checkpoints(batch):
    from torch.utils.checkpoint import checkpoint

    _, loss = batch.loss("circe")
    x, twin = (batch.x.clone().requires_grad_(True) for _ in range(2))
    checkpoint(lambda x: loss(torch.tanh(x)), x, use_reentrant=False).backward()
    loss(torch.tanh(twin)).backward()
    torch.testing.assert_close(x.grad, twin.grad)


def test_closed(points, batch):
    mean = circe.ConditionalMean(sigma2_z=1.0).fit(points.Y, points.Z)
    loss = ct.CirceLoss(mean, sigma2_x=1.0)
    mean.close()
    with pytest.raises(circe.ClosedError, match="closed"):
        loss(batch.x, batch.y, batch.z)


# ---- CUDA ---------------------------------------------------------------------------------------------------------------


def cuda_served():
    if not torch.cuda.is_available():
        return False
    try:
        _cuda.current(torch.device("cuda", 0))
    except circe.CirceError:
        return False
    return True


@pytest.mark.skipif(not cuda_served(), reason="no CUDA device, or a library without CUDA")
@pytest.mark.parametrize("name", ["circe", "circe-index", "hsic", "hscic", "hscic-holdout", "gcm", "gcm-linear"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cuda_agrees_with_the_cpu(points, mean, name, dtype):
    batch = Batch(points, mean, dtype)
    _, loss = batch.loss(name)
    x = batch.x.clone().requires_grad_(True)
    expected = loss(x)
    expected.backward()
    batch.x, batch.y, batch.z, batch.index = (t.cuda() for t in (batch.x, batch.y, batch.z, batch.index))
    _, loss = batch.loss(name)
    on_gpu = batch.x.clone().requires_grad_(True)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        value = loss(on_gpu)
        value.backward()
    torch.cuda.synchronize()
    assert value.device.type == "cuda" and value.dtype == dtype
    tolerance = 1e-3 if dtype == torch.float32 else 1e-7
    assert value.item() == pytest.approx(expected.item(), rel=tolerance)
    torch.testing.assert_close(on_gpu.grad.cpu(), x.grad, rtol=10 * tolerance, atol=tolerance * x.grad.abs().max().item())
    if name != "circe-index":
        with pytest.raises(circe.DeviceError, match="z is on cpu and x on cuda:0"):
            batch.z = batch.z.cpu()
            batch.loss(name)[1](on_gpu)


class Pretended:
    """The library, whose calls for a GPU are done by the CPU: what is passed to them must be right, whatever the device."""

    def __init__(self, library):
        self.library = library
        self.called = []

    def __getattr__(self, name):
        if not name.startswith("circe_cuda_"):
            return getattr(self.library, name)
        assert len(_native.SIGNATURES[name]) > 1

        def call(*arguments):
            assert len(arguments) == len(_native.SIGNATURES[name]) - 1, name
            self.called.append(name)
            return getattr(self, name[len("circe_cuda_"):])(*arguments)

        return call

    @staticmethod
    def value(address):
        return ctypes.cast(address, ctypes.POINTER(ctypes.c_double))

    def measure_hsic(self, cuda, kernels, x, z, form, value, grad):
        return self.library.circe_measure_hsic(_runtime.context().work, kernels, x, z, form, self.value(value), grad)

    def measure_hscic(self, cuda, kernels, x, y, z, index, options, value, grad):
        assert index is None
        return self.library.circe_measure_hscic(_runtime.context().work, kernels, x, y, z, options, self.value(value), grad)

    def measure_gcm(self, cuda, kernel_y, x, y, z, z_hat, index, options, value, grad):
        assert z_hat is None and index is None
        return self.library.circe_measure_gcm(_runtime.context().work, kernel_y, x, y, z, options, self.value(value), grad)

    def measure_circe(self, cuda, kernel_y, y, zeta, index, n, kernel_x, x, form, value, grad):
        """By the witness of features and a contraction."""
        dll, work = self.library._dll, ctypes.c_void_p(_runtime.context().work)
        y, zeta = (self.rows(view, index, n) for view in (y, zeta))
        witness = np.zeros((n, n), y[1].dtype)
        packed = _native.mat(witness.ctypes.data, n, n, n, _native.Mat.from_buffer_copy(x).dtype)
        status = dll.circe_witness_features(work, ctypes.c_void_p(kernel_y), y[0], zeta[0], form, packed)
        return status or dll.circe_contract(work, ctypes.c_void_p(kernel_x), x, packed, self.value(value), grad)

    @staticmethod
    def rows(packed, index, n):
        view = _native.Mat.from_buffer_copy(packed)
        kind = {1: ctypes.c_float, 2: ctypes.c_double}[view.dtype]
        array = np.ctypeslib.as_array((kind * (view.rows * view.ld)).from_address(view.data)).reshape(view.rows, view.ld)
        if index:
            array = array[np.ctypeslib.as_array((ctypes.c_int64 * n).from_address(index))]
        array = np.ascontiguousarray(array)
        assert len(array) == n
        return _native.mat(array.ctypes.data, *array.shape, array.shape[1], view.dtype), array


class PretendedGpu:
    pointer = None

    def __init__(self, mean, batch):
        self.context, self.device, self.mean, self.batch = _runtime.context(), torch.device("cpu"), mean, batch

    view = staticmethod(_cuda.Gpu.view)

    def residual_features(self, model, y, z):
        assert model is self.mean.model and y is not None and z is not None
        return torch.tensor(np.asarray(self.mean.residual_features(y, z, y.numpy().dtype)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["circe", "circe-index", "hsic", "hscic", "gcm", "gcm-linear"])
def test_calls_for_a_gpu(points, mean, monkeypatch, name, dtype):
    batch = Batch(points, mean, dtype, slice(0, 40))
    _, loss = batch.loss(name)
    x = batch.x.clone().requires_grad_(True)
    expected = loss(x)
    expected.backward()
    library = Pretended(_native.library())
    monkeypatch.setattr(_native, "_library", library)
    monkeypatch.setattr(_cuda, "current", lambda device: PretendedGpu(mean, batch))
    monkeypatch.setattr(_evaluate, "_compute_cpu", _evaluate._compute_cuda)
    for name in ("_quick", "_quick_rows"):
        monkeypatch.setattr(_evaluate, name, lambda *arguments: None)
    twin = batch.x.clone().requires_grad_(True)
    value = loss(twin)
    value.backward()
    assert len(library.called) == 1
    torch.testing.assert_close(value, expected, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(twin.grad, x.grad, rtol=1e-3, atol=1e-6)
