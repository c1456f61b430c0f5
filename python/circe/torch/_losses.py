"""The losses, as modules."""

from __future__ import annotations

import copy
from typing import Optional, Union

import torch
from torch import Tensor

from .. import _native, _specs, errors
from .._kernels import KernelLike
from .._mean import ConditionalMean, ResidualFeatures
from . import _evaluate, _gather, _plans


_SMALL = {"zero": 0, "refuse": 1}
Sigma2 = Union[float, str, None]  # of the features: a number, "median" or "running"


SmallBatchWarning = _plans.SmallBatchWarning


class _Loss(torch.nn.Module):
    """Base: a plan, and whether to gather the batch across ranks.

    Under torch.distributed, in training mode, the loss covers the batches of all ranks (gather=True). Its gradient is correct
    after DistributedDataParallel's averaging. Ranks may have batches of different sizes; same_size=True promises equal sizes
    and saves an exchange of sizes that waits for the device.

    sigma2_x is the squared width of the kernel of the features. "median": the squared median distance of each batch, which
    the gradient treats as a constant. "running": a moving average of it, stored in a buffer (running_sigma2, in the
    state_dict); training mode updates it, eval mode uses it unchanged. Or a number. normalize_x: "rows" divides each row of
    the features by its norm, "batch" standardises each column over the batch; the gradient passes through both. Under
    torch.distributed with gather, medians and means cover the rows of all ranks, so every rank has the same. Without gather
    each rank has its own, and DistributedDataParallel sends the buffer of rank 0 to all ranks if the loss is part of the
    wrapped module. Kernels without a width (linear, delta) and factors with their own width stay as they are.

    In training mode, an InvarianceWarning appears once if the kernel of the features is nearly constant or nearly the
    identity on average, and once if their scale changes by a factor of 5: then the loss sees little.

    A batch with fewer rows than the estimator needs (4 for "ustat" and GCM, otherwise 2), such as the last batch of an epoch,
    gives a loss of 0 with a zero gradient, and one SmallBatchWarning. small_batch="refuse" raises an error instead.

    weights: what each row of the batch counts, at least 0. Only their ratios matter, and a row of weight 0 is left out. Median
    widths and normalize_x="batch" look at all rows alike. On the CPU only.
    """

    def __init__(self, plan: _plans.Plan, gather: bool, group, same_size: bool, small_batch: str, least: int):
        super().__init__()
        plan.name, plan.least = type(self).__name__, least
        plan.refuses_small = _native.choice(_SMALL, "small_batch", small_batch) == 1
        plan.group, plan.same_size = group, bool(same_size)
        self._plan, self._gather, self._group = plan, bool(gather), group
        if plan.scaling is not None:
            plan.scaling.owned_by(self)
            if plan.scaling.runs:
                self.register_buffer("running_sigma2", torch.zeros(plan.scaling.factors, dtype=torch.float64))

    def _measure(self, x: Tensor, y, z, index=None, weights=None) -> Tensor:
        gather = self._gather and self.training and _gather.active() and _gather.world(self._group) > 1
        return _evaluate.measure(self._plan, x, y, z, index, gather, weights)

    def _apply(self, function, *recurse):  # which PyTorch before 2.0 has not
        """Moves the running width with the module, and leaves it float64: as half of a converted model it would overflow."""
        kept = self._buffers.get("running_sigma2")
        super()._apply(function, *recurse)
        if kept is not None and not kept.is_meta:
            self.running_sigma2 = kept.to(self.running_sigma2.device)
        return self

    def __new__(cls, *arguments, **options):
        made = super().__new__(cls)
        made.__dict__["_made"] = arguments, options
        return made

    def __reduce__(self):
        """Makes the loss again from its arguments."""
        if self._group is not None:
            raise TypeError(f"a {type(self).__name__} with a group of processes cannot be pickled: make it anew where they are")
        arguments, options = self._made
        return _remade, (type(self), arguments, options, self.training, dict(self._buffers))

    def __deepcopy__(self, memo):
        """Shares what the plan was made of, which does not change."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._buffers = copy.deepcopy(self._buffers, memo)
        other._plan = self._plan.copied()
        if other._plan.scaling is not None:
            other._plan.scaling.owned_by(other)
        return other


def _remade(kind, arguments, options, training: bool, buffers) -> _Loss:
    made = kind(*arguments, **options).train(training)
    made._buffers.update({name: buffer.clone() for name, buffer in buffers.items()})  # from mp.spawn, they are all ranks' memory
    return made


class CirceLoss(_Loss):
    """CIRCE of a batch: small if the features x say nothing about z that y does not.

    `mean` is the ConditionalMean of z given y, fitted on rows that are not used for training: circe_loss(x, y, z). Or it is
    the ResidualFeatures of the training set (residual_features): circe_loss(x, index=index), with the row numbers of the
    batch, which is cheaper. The estimator "ustat" is unbiased; the others also fall when x shrinks.

    On CUDA devices without `index`, points of z outside the span of the holdout get up to 8 additional columns, enough for a
    few points in the tails. If the holdout covers z less well, use ResidualFeatures, which take as many columns as needed.

    >>> import numpy as np, torch, circe
    >>> random = np.random.default_rng(0)
    >>> y = random.normal(size=600)
    >>> z = y**2 + random.normal(size=600)
    >>> mean = circe.ConditionalMean(sigma2_z=1.0).fit(y[:400], z[:400])
    >>> circe_loss = CirceLoss(mean, sigma2_x=1.0)
    >>> x = torch.tensor(z[400:, None], requires_grad=True)
    >>> loss = circe_loss(x, torch.tensor(y[400:]), torch.tensor(z[400:]))
    >>> loss.backward()
    >>> loss.item() > 0.001, tuple(x.grad.shape)
    (True, (200, 1))
    """

    def __init__(self, mean: Union[ConditionalMean, ResidualFeatures], *, sigma2_x: Sigma2 = "median",
                 normalize_x: str = "none", kernel_x: KernelLike = "gaussian", estimator: str = "ustat", gather: bool = True, group=None,
                 same_size: bool = False, small_batch: str = "zero"):
        super().__init__(_plans.of_circe(mean, estimator, kernel_x=kernel_x, sigma2_x=sigma2_x, normalize_x=normalize_x), gather, group,
                         same_size, small_batch, 4 if estimator == "ustat" else 2)
        self.kernel_x, self.sigma2_x, self.normalize_x, self.estimator = kernel_x, sigma2_x, normalize_x, estimator

    def forward(self, x: Tensor, y: Optional[Tensor] = None, z: Optional[Tensor] = None, *, index=None, weights=None) -> Tensor:
        if self._plan.features is None:
            if index is not None:
                raise errors.ArgumentError("index: this loss was made from a ConditionalMean and takes y and z; make it from "
                                           "ResidualFeatures to take row numbers")
        elif index is None or y is not None or z is not None:
            raise errors.ArgumentError("index: this loss was made from ResidualFeatures and takes the row numbers of the "
                                       "batch: circe_loss(x, index=index)")
        return self._measure(x, y, z, index, weights)

    def extra_repr(self) -> str:
        return (f"kernel_x={str(self.kernel_x)!r}, sigma2_x={self.sigma2_x!r}, normalize_x={self.normalize_x!r}, "
                f"estimator={self.estimator!r}")


class HSICLoss(_Loss):
    """HSIC of a batch: small if x and z are independent. What they share through other variables counts as dependence.

    >>> import torch
    >>> x = torch.linspace(-1, 1, 50)
    >>> HSICLoss(sigma2_x=1.0, sigma2_z=1.0)(x, x).item() > 0.01
    True
    """

    def __init__(self, *, sigma2_x: Sigma2 = "median", sigma2_z: Optional[float] = None, normalize_x: str = "none",
                 kernel_x: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian", estimator: str = "ustat",
                 gather: bool = True, group=None, same_size: bool = False, small_batch: str = "zero"):
        plan = _plans.Plan(_specs.hsic(kernel_z, sigma2_z, estimator), kernel_x=kernel_x, sigma2_x=sigma2_x, normalize_x=normalize_x)
        super().__init__(plan, gather, group, same_size, small_batch, 2 if estimator == "biased" else 4)

    def forward(self, x: Tensor, z: Tensor, *, weights=None) -> Tensor:
        return self._measure(x, None, z, weights=weights)


class HSCICLoss(_Loss):
    """HSCIC of a batch, which is regressed on its own y. With `mean`, the conditional mean of z comes from the holdout;
    kernels and ridge also come from the model unless they are given.

    >>> import torch
    >>> x = torch.linspace(-1, 1, 50)
    >>> HSCICLoss(sigma2_x=1.0, sigma2_y=1.0, sigma2_z=1.0, ridge=0.1)(x, x**2, x).item() > 0
    True
    """

    def __init__(self, *, mean: Optional[ConditionalMean] = None, sigma2_x: Sigma2 = "median",
                 sigma2_y: Optional[float] = None, sigma2_z: Optional[float] = None, normalize_x: str = "none", kernel_x: KernelLike = "gaussian",
                 kernel_y: KernelLike = "gaussian", kernel_z: KernelLike = "gaussian", ridge: Optional[float] = None,
                 gather: bool = True, group=None, same_size: bool = False, small_batch: str = "zero"):
        spec = _specs.hscic(mean, kernel_y, kernel_z, sigma2_y, sigma2_z, ridge)
        plan = _plans.Plan(spec, mean, kernel_x=kernel_x, sigma2_x=sigma2_x, normalize_x=normalize_x)
        super().__init__(plan, gather, group, same_size, small_batch, 2)

    def forward(self, x: Tensor, y: Tensor, z: Tensor, *, weights=None) -> Tensor:
        return self._measure(x, y, z, weights=weights)


class GCMLoss(_Loss):
    """GCM of a batch: the correlation between the residuals of x and of z given y. combine="logsumexp", the default here, is
    a smooth maximum over pairs of columns.

    >>> import torch
    >>> y, x = torch.linspace(-1, 1, 60), torch.linspace(-1, 1, 60).sin() ** 2
    >>> GCMLoss(regression="linear")(x, y, x).item() > 2
    True
    """

    def __init__(self, *, mean: Optional[ConditionalMean] = None, sigma2_y: Optional[float] = None,
                 kernel_y: KernelLike = "gaussian", ridge: Optional[float] = None, regression: str = "kernel",
                 combine: str = "logsumexp", sharpness: float = 1.0, gather: bool = True, group=None,
                 same_size: bool = False, small_batch: str = "zero"):
        plan = _plans.Plan(_specs.gcm(mean, kernel_y, sigma2_y, ridge, regression, combine, sharpness), mean)
        super().__init__(plan, gather, group, same_size, small_batch, 4)

    def forward(self, x: Tensor, y: Tensor, z: Tensor, *, weights=None) -> Tensor:
        return self._measure(x, y, z, weights=weights)
