"""Handles of the library for CUDA devices: one per stream that a thread works on, with scratch that it keeps.

Everything is queued on PyTorch's current stream; nothing here waits for the device. Tensors that only live during a call may
be freed when it returns: PyTorch hands their memory out again in the order of the same stream.
"""

from __future__ import annotations

import weakref

import torch

from .. import _native, _runtime

_MAX_HANDLES = 16
_CODES = {torch.float32: _native.FLOAT32, torch.float64: _native.FLOAT64}


class Gpu:
    """A device and a stream. `frames`: the calls of the plans on it (_plans.Frame)."""

    def __init__(self, context: _runtime.Context, device: torch.device, stream: int):
        self.context, self.device = context, device
        self.handle = _runtime.make("circe_cuda_open", "circe_cuda_close", context.pointer, device.index, stream,
                                    parents=[context.handle])
        self.pointer = self.handle.pointer
        self.frames: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def view(tensor: torch.Tensor) -> bytes:
    """Of a tensor that _evaluate.py has made (n, columns) with contiguous rows."""
    rows, cols = tensor.shape
    return _native.mat(tensor.data_ptr(), rows, cols, max(tensor.stride(0), cols), _CODES[tensor.dtype])


def current(device: torch.device) -> Gpu:
    """The handle of this thread for PyTorch's current stream of the device."""
    context = _runtime.context()
    stream = torch.cuda.current_stream(device).cuda_stream
    key = (device.index, stream)
    gpu = context.cuda.get(key)
    if gpu is None:
        gpu = context.cuda[key] = Gpu(context, device, stream)
        if len(context.cuda) > _MAX_HANDLES:
            context.cuda.popitem(last=False)
    return gpu
