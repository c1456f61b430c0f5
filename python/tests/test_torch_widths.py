"""Kernels of features whose widths follow them, and the warnings about kernels that see nothing."""

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")

import circe
import circe.torch as ct


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
    loss.eval().running_sigma2.fill_(1e9)
    before = loss(x, y, z).item()
    for convert in ("half", "bfloat16", "double"):  # float16 ends at 65,504
        assert getattr(loss, convert)()(x, y, z).item() == before


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
