"""The losses in PyTorch: gradients, dtypes, autocast, compilation, row numbers, closing, CUDA."""

import copy
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
    weight = torch.ones((), dtype=x.dtype, requires_grad=True)  # a mixed one
    (grad,) = torch.autograd.grad(weight * loss(x), x, create_graph=True)
    with pytest.raises(circe.UnsupportedError, match="no second derivative"):
        torch.autograd.grad(grad.sum(), weight, allow_unused=True)


@pytest.mark.parametrize("name", ["hessian", "hvp", "vhp", "jvp"])
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
    losses = [(ct.CirceLoss(mean, sigma2_x=1.0), 4), (ct.CirceLoss(mean, sigma2_x=1.0, estimator="centered"), 2),
              (ct.GCMLoss(sigma2_y=1.0, ridge=0.1), 4)]
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
    with pytest.raises(circe.ShapeError, match="GCMLoss needs at least 4 rows, but the batch has 2"):
        ct.GCMLoss(sigma2_y=1.0, ridge=0.1, small_batch="refuse")(torch.ones(2, 1), y[:2], z[:2])
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
    by_row = ct.CirceLoss(ct.residual_features(mean, points.y, points.z), sigma2_x=1.0)
    torch.save(by_row, tmp_path / "loss.pt")
    index = torch.arange(160)
    again = torch.load(tmp_path / "loss.pt", **options)
    assert again(x.float(), index=index).item() == by_row(x.float(), index=index).item()


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
def test_a_small_last_batch_compiles(mean, points):
    y, z = torch.tensor(points.y), torch.tensor(points.z)
    loss = ct.CirceLoss(mean, sigma2_x=1.0)
    function = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=True)
    with pytest.warns(ct.SmallBatchWarning, match="a batch of 1 row is too small"):
        for n in (8, 1, 3):
            x = torch.tensor(points.x[:n], requires_grad=True)
            value = function(x, y[:n], z[:n])
            value.backward()
            assert value.item() == (loss(x, y[:n], z[:n]).item() if n > 3 else 0.0) and bool(x.grad.any()) == (n > 3)


@needs_operators
def test_the_operator_is_well_behaved(batch):
    module, _ = batch.loss("circe")
    x = batch.x.clone().requires_grad_(True)
    torch.library.opcheck(torch.ops.circe.measure, (x, batch.y, batch.z, None, module._plan.number, False))
    with pytest.raises(circe.ClosedError, match="gone"):
        torch.ops.circe.measure(x, batch.y, batch.z, None, 10**9, False)


# ---- what a loss remembers ----------------------------------------------------------------------------------------------


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
        assert loss._plan.frame()[0].context is _runtime.context()
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
    """The library, where a measure that goes to a GPU stays on the CPU: what is passed to it must be right, whatever the device."""

    def __init__(self, library):
        self.library = library
        self.sent = []

    def __getattr__(self, name):
        return getattr(self.library, name)

    def circe_measure_to_cuda(self, *arguments):
        self.sent.append(arguments)
        return 0


class PretendedGpu:
    def __init__(self):
        self.handle, self.pointer, self.frames = _runtime.context().handle, 7, {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["circe", "circe-index", "hsic", "hscic", "hscic-holdout", "gcm", "gcm-linear"])
def test_calls_for_a_gpu(points, mean, monkeypatch, name, dtype):
    batch = Batch(points, mean, dtype, slice(0, 40))
    _, loss = batch.loss(name)
    x = batch.x.clone().requires_grad_(True)
    expected = loss(x)
    expected.backward()
    library, gpu = Pretended(_native.library()), PretendedGpu()
    monkeypatch.setattr(_native, "_library", library)
    monkeypatch.setattr(_cuda, "current", lambda device: gpu)
    monkeypatch.setattr(_evaluate, "_compute_cpu", _evaluate._compute_cuda)
    for quick in ("_quick", "_quick_rows"):
        monkeypatch.setattr(_evaluate, quick, lambda *arguments: None)
    for _ in range(2):
        twin = batch.x.clone().requires_grad_(True)
        value = loss(twin)
        value.backward()
        assert [arguments[1:] for arguments in library.sent] == [(7, 0, 0, 0)]  # one measure for all batches
        torch.testing.assert_close(value, expected, rtol=0, atol=0)
        torch.testing.assert_close(twin.grad, x.grad, rtol=0, atol=0)
