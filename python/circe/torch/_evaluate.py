"""From tensors to value and gradient: checks, views, and the two ways PyTorch calls them.

Eagerly, an autograd function: it costs the least. Under torch.compile an operator, circe::measure, with a fake
implementation, so that the graph does not break. PyTorch before 2.4 has no such operators: there the graph breaks.
"""

from __future__ import annotations

import ctypes
from typing import Optional, Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .. import _native, _runtime, errors
from . import _cuda, _gather, _plans

_CODES = _cuda._CODES


# ---- checks -------------------------------------------------------------------------------------------------------------


def _points(tensor, name: str, x: Tensor) -> Tensor:
    """y or z as (n, columns) on the device of x, with contiguous rows and of float32 or float64."""
    if not isinstance(tensor, Tensor):
        raise errors.DTypeError(f"{name} is {type(tensor).__name__}; it must be a tensor, on the device of x"
                                if tensor is not None else f"{name} is missing")
    if tensor.device != x.device:
        raise errors.DeviceError(f"{name} is on {tensor.device} and x on {x.device}; they must be on one device: "
                                 f"{name}.to(x.device)")
    if tensor.requires_grad:
        raise errors.ArgumentError(f"{name} requires grad, but the loss has a gradient in x only: pass {name}.detach()")
    if tensor.dtype is not x.dtype and (tensor.dtype not in _CODES or x.device.type != "cpu"):
        if tensor.is_complex():
            raise errors.DTypeError(f"{name} holds {tensor.dtype}; it must hold real numbers")
        tensor = tensor.to(x.dtype)
    return _rows(tensor, name)


def _rows(tensor: Tensor, name: str) -> Tensor:
    if tensor.layout is not torch.strided:
        raise errors.DTypeError(f"{name} is a sparse tensor; it must be dense: {name}.to_dense()")
    if tensor.dim() == 2 and tensor.is_contiguous() and tensor.numel():  # the common case, and the quick one
        return tensor
    if tensor.dim() == 1:
        tensor = tensor.unsqueeze(1)
    elif tensor.dim() != 2:
        raise errors.ShapeError(f"{name} has {tensor.dim()} dimensions; it must be (n,) or (n, columns)")
    if tensor.numel() == 0:
        raise errors.ShapeError(f"{name} is empty, of shape {tuple(tensor.shape)}; it needs at least one row and column")
    return tensor if _row_contiguous(tensor) else tensor.contiguous()


def _row_contiguous(tensor: Tensor) -> bool:
    return tensor.is_contiguous() or (tensor.stride(1) == 1 and tensor.stride(0) >= tensor.shape[1])


def _index(index, x: Tensor) -> Tensor:
    if not isinstance(index, Tensor):
        index = torch.as_tensor(index, device=x.device)
    if index.dtype.is_floating_point or index.dtype is torch.bool or index.is_complex():
        raise errors.DTypeError(f"index holds {index.dtype}; it must hold row numbers")
    if index.device != x.device:
        raise errors.DeviceError(f"index is on {index.device} and x on {x.device}; they must be on one device")
    if index.dim() != 1 or len(index) != len(x):
        raise errors.ShapeError(f"index has shape {tuple(index.shape)} and x has {len(x)} rows; give one row number for each")
    return index.to(torch.int64).contiguous()


def _widened(x) -> Tensor:
    """x as float32: half precision is widened, with its gradient."""
    if not isinstance(x, Tensor):
        raise errors.DTypeError(f"x is {type(x).__name__}; it must be a tensor")
    if not x.is_floating_point():
        raise errors.DTypeError(f"x holds {x.dtype}; it must hold floating-point numbers")
    return x.float()


# ---- value and gradient -------------------------------------------------------------------------------------------------


def evaluate(plan: _plans.Plan, x: Tensor, y: Optional[Tensor], z: Optional[Tensor], index: Optional[Tensor],
             with_grad: bool, gather: bool) -> Tuple[Tensor, Optional[Tensor]]:
    """The value, a tensor without dimensions, and d value / d x."""
    points = _rows(x, "x")
    if plan.features is None:
        z = _points(z, "z", x)
        y = _points(y, "y", x) if plan.uses_y else None
    else:
        index = _index(index, x)
    if not gather:
        value, grad = _compute(plan, points, y, z, index, with_grad)
    else:
        value, grad = _compute_global(plan, points, y, z, index, with_grad)
    return value, grad if grad is None or grad.shape == x.shape else grad.view(x.shape)


def _compute(plan, x, y, z, index, with_grad):
    grad = torch.empty_like(x, memory_format=torch.contiguous_format) if with_grad else None
    if x.device.type == "cpu":
        return _compute_cpu(plan, x, y, z, index, grad), grad
    if x.device.type == "cuda":
        return _compute_cuda(plan, x, y, z, index, grad), grad
    raise errors.DeviceError(f"x is on {x.device}; tensors of the CPU and of CUDA devices are served")


def _view(tensor: Optional[Tensor]) -> Optional[bytes]:
    if tensor is None:
        return None
    rows, cols = tensor.shape
    ld = cols if tensor.is_contiguous() else tensor.stride(0)
    return _native.mat(tensor.data_ptr(), rows, cols, ld, _CODES[tensor.dtype])


def _compute_cpu(plan, x, y, z, index, grad) -> Tensor:
    value = ctypes.c_double()
    status = plan.on_cpu(_runtime.context(), _view(x), _view(y), _view(z), None if index is None else index.data_ptr(),
                         len(x), value, _view(grad))
    if status:
        raise _native.fail(status)
    return torch.scalar_tensor(value.value, dtype=x.dtype)


def _compute_cuda(plan, x, y, z, index, grad) -> Tensor:
    value = torch.empty((), dtype=torch.float64, device=x.device)
    status = plan.on_cuda(_cuda.current(x.device), x, y, z, None if index is None else index.data_ptr(), len(x),
                          value.data_ptr(), _view(grad))
    if status:
        raise _native.fail(status)
    return value.to(x.dtype)


def _compute_global(plan, x, y, z, index, with_grad):
    """Of the rows of all ranks; the gradient of this rank's rows, times the number of ranks (_gather.py)."""
    group = plan.group
    counts = _gather.sizes(len(x), x.device, group, plan.same_size)
    every = [None if part is None else _gather.rows(part, counts, group) for part in (x, y, z, index)]
    value, grad = _compute(plan, *every, with_grad)
    if grad is not None:
        first = sum(counts[:torch.distributed.get_rank(group)])
        grad = grad[first:first + len(x)] * len(counts)
    return value, grad


class _Measure(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, plan, y, z, index, gather):
        value, grad = evaluate(plan, x, y, z, index, ctx.needs_input_grad[0], gather)
        if grad is not None:
            ctx.save_for_backward(grad)
        return value

    @staticmethod
    def backward(ctx, d_value):
        if torch.is_grad_enabled():
            return _backward_once(ctx, d_value)
        return ctx.saved_tensors[0] * d_value, None, None, None, None, None


@once_differentiable
def _backward_once(ctx, d_value):
    """Where a graph of the backward pass is asked for: a second derivative through here is refused."""
    return ctx.saved_tensors[0] * d_value, None, None, None, None, None


_measure_eagerly = _Measure.apply


# ---- torch.compile ------------------------------------------------------------------------------------------------------

_HAS_OPERATORS = hasattr(torch.library, "custom_op")

if _HAS_OPERATORS:
    _is_compiling = torch.compiler.is_compiling

    @torch.library.custom_op("circe::measure", mutates_args=())
    def _operator(x: Tensor, y: Optional[Tensor], z: Optional[Tensor], index: Optional[Tensor], plan: int,
                  gather: bool) -> Tuple[Tensor, Tensor]:
        value, grad = evaluate(_plans.find(plan), x, y, z, index, True, gather)
        assert grad is not None
        return value, grad

    @_operator.register_fake
    def _(x, y, z, index, plan, gather):
        return x.new_empty(()), x.new_empty(x.shape)

    def _keep_gradient(ctx, inputs, output):
        ctx.save_for_backward(output[1])

    def _backward(ctx, d_value, d_grad):
        (grad,) = ctx.saved_tensors
        return grad * d_value, None, None, None, None, None

    _operator.register_autograd(_backward, setup_context=_keep_gradient)
else:
    def _is_compiling() -> bool:
        return False

    if hasattr(torch, "_dynamo"):  # 2.0 to 2.3: a clean break of the graph
        _measure_eagerly = torch._dynamo.disable(_measure_eagerly)


def measure(plan: _plans.Plan, x: Tensor, y, z, index, gather: bool) -> Tensor:
    """The loss, with its gradient in x."""
    if not isinstance(x, Tensor) or x.dtype not in _CODES:
        x = _widened(x)
    if _is_compiling():
        return torch.ops.circe.measure(x, y, z, index, plan.number, gather)[0]
    return _measure_eagerly(x, plan, y, z, index, gather)
