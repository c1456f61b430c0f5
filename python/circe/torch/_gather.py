"""Gathers the batch of all ranks, for a loss of the global batch.

Each rank computes the loss of all rows and takes the gradient of its own. DistributedDataParallel then averages the ranks'
gradients, so each takes its own times the number of ranks: the average is the gradient of the global loss.
"""

from __future__ import annotations

from typing import List

import torch
import torch.distributed as dist


active = dist.is_initialized if dist.is_available() else bool  # bool() is False


def world(group) -> int:
    """How many ranks there are."""
    return dist.get_world_size(group)


def sizes(n: int, device: torch.device, group, same_size: bool) -> List[int]:
    """Rows of each rank. Asking waits for the device; `same_size` does not ask."""
    ranks = world(group)
    if same_size:
        return [n] * ranks
    own = torch.tensor([n], device=device)
    every = [torch.empty_like(own) for _ in range(ranks)]
    dist.all_gather(every, own, group=group)
    return torch.cat(every).tolist()


def rows(tensor: torch.Tensor, counts: List[int], group) -> torch.Tensor:
    """The rows of all ranks, in their order."""
    most = max(counts)
    own = tensor.contiguous()
    if len(own) < most:
        own = torch.cat([own, own.new_zeros((most - len(own), *own.shape[1:]))])
    every = [torch.empty_like(own) for _ in counts]
    dist.all_gather(every, own, group=group)
    return torch.cat([part[:count] for part, count in zip(every, counts)])
