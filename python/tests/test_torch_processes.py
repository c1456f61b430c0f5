"""The losses in several processes: DistributedDataParallel, and losses that are sent to others."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import circe.torch as ct

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
    run = {"index": lambda f, r: loss(f, index=r), "weights": lambda f, r: loss(f, y[r], z[r], weights=r % 4)}.get(
        kind, lambda f, r: loss(f, y[r], z[r]))
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
same("weights", ct.CirceLoss(mean, sigma2_x=1.0), 23)
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
        assert out.split() == [word for kind in ("same", "different", "index", "weights") for word in (kind, "right")]


def _in_another_process(rank, loss, x, index, expected):
    assert loss(x, index=index).item() == pytest.approx(expected, rel=1e-5)


def test_losses_go_to_spawned_processes(points, mean):
    loss = ct.CirceLoss(ct.residual_features(mean, points.y, points.z), sigma2_x=1.0)
    x, index = torch.tensor(points.x).float(), torch.arange(160)
    torch.multiprocessing.spawn(_in_another_process, (loss, x, index, loss(x, index=index).item()), nprocs=1)


def _moves_its_width(rank, loss, x, y, z):
    loss(3 * x, y, z)


def test_ranks_have_running_widths_of_their_own(points, mean):
    """mp.spawn hands tensors over as memory that all processes share: each would move the width of all."""
    x, y, z = (torch.tensor(values) for values in (points.x, points.y, points.z))
    loss = ct.CirceLoss(mean, sigma2_x="running")
    loss(x, y, z)
    before = loss.running_sigma2.item()
    torch.multiprocessing.spawn(_moves_its_width, (loss, x, y, z), nprocs=1)
    assert loss.running_sigma2.item() == before
