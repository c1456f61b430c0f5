"""GPUs for tests: by name, or those that hold the tensors."""

from __future__ import annotations

import re
from typing import Any, Optional, Tuple

from . import _arrays, _runtime, errors

_NAME = re.compile(r"cuda(?::(\d{1,3}))?")


def fetched(x, y, z, device: Any) -> Tuple[Any, Any, Any, Any]:
    """x, y and z in host memory, and the device: that of the tensors if none is given."""
    found = [v.detach().cpu() if _arrays.is_torch(v) and v.device.type == "cuda" else v for v in (x, y, z)]
    if device is None:
        device = next((str(old.device) for old, new in zip((x, y, z), found) if old is not new), None)
    return (*found, device)


def test_device(context: _runtime.Context, device: Any) -> Optional[_runtime.Handle]:
    """For the options of a test; None: the CPU."""
    name = "cpu" if device is None else str(device)
    if name == "cpu":
        return None
    match = _NAME.fullmatch(name)
    if match is None and name != "auto":
        raise errors.ArgumentError(f"device is {name!r}; it must be 'cpu', 'cuda', 'cuda:1' (the second GPU) or 'auto'")
    number = int(match.group(1) or 0) if match else 0
    key = ("test", number)
    if key not in context.cuda:
        try:
            gpu = _runtime.make("circe_cuda_open", "circe_cuda_close", context.pointer, number, None, parents=[context.handle])
        except errors.UnsupportedError:
            if name == "auto":
                return None
            raise
        context.cuda[key] = _runtime.make("circe_cuda_test_device", "circe_test_device_destroy", gpu.pointer, parents=[gpu])
    return context.cuda[key]
