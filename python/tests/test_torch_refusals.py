"""What the losses in PyTorch refuse, and in which words."""

import pytest

torch = pytest.importorskip("torch")

import circe
import circe.torch as ct

from test_torch import Batch, batch  # noqa: F401


@pytest.mark.parametrize("change,error,text", [
    ({"x": None}, circe.DTypeError, "x is NoneType"), ({"x": "numpy"}, circe.DTypeError, "x is ndarray"),
    ({"x": lambda t: t.long()}, circe.DTypeError, "x has dtype torch.int64"),
    ({"x": lambda t: t[:, :, None]}, circe.ShapeError, "x has 3 dimensions"),
    ({"x": lambda t: t[:0]}, circe.ShapeError, "x is empty"), ({"x": lambda t: t[:5]}, circe.ShapeError, "x|y"),
    ({"x": lambda t: t * float("nan")}, circe.DataError, "x contains a NaN at row 0, column 0"),
    ({"x": lambda t: t.to("meta")}, circe.DeviceError, "z is on cpu and x on meta"),
    ({"x": lambda t: t.to_sparse()}, circe.DTypeError, "x is a sparse tensor"),
    ({"x": lambda t: t.float().to_mkldnn()}, circe.DTypeError, "x is a tensor of torch._mkldnn; it must be dense"),
    ({"y": None}, circe.DTypeError, "y is missing"), ({"y": lambda t: [object()] * len(t)}, circe.DTypeError, "y has dtype object"),
    ({"y": lambda t: t.to("meta")}, circe.DeviceError, "y is on meta and x on cpu"),
    ({"y": lambda t: t.requires_grad_(True)}, circe.ArgumentError, "y requires grad"),
    ({"y": lambda t: t.to(torch.complex64)}, circe.DTypeError, "y has dtype torch.complex64"),
    ({"y": lambda t: t[:3]}, circe.ShapeError, "y|z"), ({"z": lambda t: t[:3]}, circe.ShapeError, "z"),
    ({"z": lambda t: t / 0}, circe.DataError, "z contains an infinity|z contains a NaN"),
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
            ({"index": torch.tensor([0, 160])}, circe.ArgumentError, r"index\[1\] is 160; the data set has 160 rows"),
            ({"index": torch.tensor([0.0, 1.0])}, circe.DTypeError, "index has dtype torch.float32"),
            ({"index": torch.tensor([0])}, circe.ShapeError, "index has shape"),
            ({"index": torch.zeros(2, device="meta").long()}, circe.DeviceError, "index is on meta"),
            ({}, circe.ArgumentError, "index: this loss was made from ResidualFeatures"),
            ({"y": x, "z": x, "index": [0, 1]}, circe.ArgumentError, "index:")):
        with pytest.raises(error, match=text):
            loss(x, **arguments)
    with pytest.raises(circe.ArgumentError, match="index: this loss was made from a ConditionalMean"):
        ct.CirceLoss(mean, sigma2_x=1.0)(x, x, x, index=[0, 1])


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
