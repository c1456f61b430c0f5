"""Conditional independence as a loss in PyTorch.

    mean = circe.ConditionalMean().fit(y_holdout, z_holdout)
    circe_loss = circe.torch.CirceLoss(mean)
    loss = criterion(prediction, b) + gamma * circe_loss(features, y, z)

libcirce computes value and gradient together in the forward pass; the backward pass only multiplies. The losses take
tensors on the CPU and on CUDA devices, in float32 and float64 (other types are computed in float32). They work under
autocast, torch.compile and DistributedDataParallel.
"""

from ._data import IndexedDataset, residual_features
from ._losses import CirceLoss, GCMLoss, HSCICLoss, HSICLoss, SmallBatchWarning
from ._scaling import InvarianceWarning

__all__ = ["CirceLoss", "GCMLoss", "HSCICLoss", "HSICLoss", "IndexedDataset", "InvarianceWarning", "SmallBatchWarning",
           "residual_features"]
