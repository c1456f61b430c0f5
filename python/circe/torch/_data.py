"""Residual features of a training set, computed once, and row numbers to find them by."""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import Dataset

from .. import errors
from .._mean import ConditionalMean, ResidualFeatures

_DTYPES = {torch.float32: np.float32, torch.float64: np.float64}


def residual_features(mean: ConditionalMean, y, z, dtype: torch.dtype = torch.float32) -> ResidualFeatures:
    """Precomputes what a training step needs of y and z: y (N, ...) and z (N, ...) are the rows of the data set, in its
    order. dtype: the dtype of the training."""
    if dtype not in _DTYPES:
        raise errors.DTypeError(f"dtype is {dtype}; it must be torch.float32 or torch.float64")
    return mean.residual_features(y, z, _DTYPES[dtype])


class IndexedDataset(Dataset):
    """A data set whose items end with their row number, (*item, index), for losses that take index=.

    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> IndexedDataset(TensorDataset(torch.tensor([4.0, 5.0])))[1]
    (tensor(5.), 1)
    """

    def __init__(self, dataset):
        if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
            raise errors.DTypeError(f"dataset is {type(dataset).__name__}; it must have a length and items by number")
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int):
        item = self.dataset[index]
        return (*item, index) if isinstance(item, (tuple, list)) else (item, index)
