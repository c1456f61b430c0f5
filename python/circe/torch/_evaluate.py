"""From tensors to value and gradient: checks, views, and the two ways PyTorch calls them.

Eager mode uses an autograd function, which costs the least. torch.compile uses an operator, circe::measure, with a fake
implementation, so that the graph does not break. PyTorch before 2.4 lacks such operators, and its graphs break.
"""

from __future__ import annotations

import contextlib
from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from .. import _arrays, _codes, _native, errors
from . import _cuda, _gather, _plans

_CODES = _cuda._CODES
_strided = torch.strided
_unguarded = contextlib.nullcontext()
Value = Union[float, Tensor]


# ---- checks -------------------------------------------------------------------------------------------------------------


def _points(tensor, name: str, x: Tensor, plan: _plans.Plan) -> Tensor:
    """y or z as (n, columns) on the device of x, with contiguous rows and of float32 or float64."""
    if tensor is None:
        raise errors.DTypeError(f"{name} is missing")
    if not isinstance(tensor, Tensor):
        tensor = torch.as_tensor(_codes.numbers(tensor, name, plan.mean, getattr(plan.spec, name)), device=x.device)
    elif plan.coded() and tensor.device.type == "cpu":
        _codes.refuse_others(tensor.detach().double().numpy(), name, plan.mean)
    if tensor.device != x.device:
        raise errors.DeviceError(f"{name} is on {tensor.device} and x on {x.device}; they must be on one device: "
                                 f"{name}.to(x.device)")
    if tensor.requires_grad:
        raise errors.ArgumentError(f"{name} requires grad, but the loss has a gradient in x only: pass {name}.detach()")
    if tensor.dtype is not x.dtype and (tensor.dtype not in _CODES or x.device.type != "cpu"):
        if tensor.is_complex():
            raise errors.DTypeError(f"{name} has dtype {tensor.dtype}; it must contain real numbers")
        tensor = tensor.to(x.dtype)
    return _rows(tensor, name)


def _rows(tensor: Tensor, name: str) -> Tensor:
    if tensor.layout is not torch.strided:
        kind = "a sparse tensor" if "sparse" in str(tensor.layout) else f"a tensor of {tensor.layout}"
        raise errors.DTypeError(f"{name} is {kind}; it must be dense: {name}.to_dense()")
    if tensor.dim() == 2 and tensor.is_contiguous() and tensor.numel():  # the common case is quick
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


def _weights(weights, x: Tensor) -> Tensor:
    """(n,), float64, on the CPU."""
    if x.device.type != "cpu":
        raise errors.UnsupportedError(f"weights: a loss on {x.device} takes no weights of rows; leave them out, or move x, y and z to "
                                      "the CPU")
    if not isinstance(weights, Tensor):
        weights = torch.from_numpy(_arrays.weights_of(weights, len(x)))
    if weights.requires_grad:
        raise errors.ArgumentError("weights requires grad, but the loss has a gradient in x only: pass weights.detach()")
    if weights.shape not in ((len(x),), (len(x), 1)):
        raise errors.ShapeError(f"weights has shape {tuple(weights.shape)} and x has {len(x)} rows; give one weight for each")
    if weights.is_complex() or weights.layout is not torch.strided:
        raise errors.DTypeError(f"weights is {weights.dtype}, {weights.layout}; it must be a dense tensor of numbers")
    weights = weights.to(device="cpu", dtype=torch.float64).reshape(len(x)).contiguous()
    wrong = torch.nonzero(~((weights >= 0) & torch.isfinite(weights)))
    if len(wrong):
        raise errors.DataError(f"the weight of row {int(wrong[0])} is {float(weights[wrong[0]])}; a weight must be a number, at least 0")
    return weights


def _index(index, x: Tensor) -> Tensor:
    if not isinstance(index, Tensor):
        index = torch.as_tensor(index, device=x.device)
    if index.dtype.is_floating_point or index.dtype is torch.bool or index.is_complex():
        raise errors.DTypeError(f"index has dtype {index.dtype}; it must contain row numbers")
    if index.device != x.device:
        raise errors.DeviceError(f"index is on {index.device} and x on {x.device}; they must be on one device")
    if index.dim() != 1 or len(index) != len(x):
        raise errors.ShapeError(f"index has shape {tuple(index.shape)} and x has {len(x)} rows; give one row number for each")
    return index.to(torch.int64).contiguous()


def _widened(x) -> Tensor:
    """x as float32 or float64: half precision is widened, with its gradient."""
    if not isinstance(x, Tensor):
        raise errors.DTypeError(f"x is {type(x).__name__}; it must be a tensor")
    if x.dtype in _CODES:
        return x
    if not x.is_floating_point():
        raise errors.DTypeError(f"x has dtype {x.dtype}; it must contain floating-point numbers")
    return x.float()


# ---- value and gradient -------------------------------------------------------------------------------------------------


def _sides(shape: torch.Size) -> Tuple[int, int]:
    """Rows and columns; 0 and 0 unless there are one or two dimensions."""
    return shape if len(shape) == 2 else (shape[0], 1) if len(shape) == 1 else (0, 0)


def _quick(plan: _plans.Plan, x: Tensor, y: Optional[Tensor], z: Optional[Tensor], with_grad: bool):
    """(value, gradient) of tensors whose layout suits the library, as in a training step; None for all others, which
    are then checked one by one. The code is inlined: it runs in every step, and calls would cost more than their
    work."""
    if y is None and not plan.uses_y:
        y = z
    if not (x.__class__ is y.__class__ is z.__class__ is Tensor and x.is_cpu and y.is_cpu and z.is_cpu
            and x.layout is y.layout is z.layout is _strided
            and x.is_contiguous() and y.is_contiguous() and z.is_contiguous()) or y.requires_grad or z.requires_grad or plan.coded():
        return None
    code_x, code_y, code_z = _CODES.get(x.dtype), _CODES.get(y.dtype), _CODES.get(z.dtype)
    shape_x, shape_y, shape_z = x.shape, y.shape, z.shape
    rows_x, cols_x = shape_x if len(shape_x) == 2 else _sides(shape_x)
    rows_y, cols_y = shape_y if len(shape_y) == 2 else _sides(shape_y)
    rows_z, cols_z = shape_z if len(shape_z) == 2 else _sides(shape_z)
    if not (code_x and code_y and code_z and rows_x and cols_x and rows_y and cols_y and rows_z and cols_z):
        return None
    frame, alive = plan.frame()
    if with_grad:
        grad, arguments = torch.empty_like(x), frame.with_grad
        address = grad.data_ptr()
    else:
        grad, arguments, address = None, frame.without, 0
    frame.write(frame.block, 0, x.data_ptr(), rows_x, cols_x, cols_x, code_x, y.data_ptr(), rows_y, cols_y, cols_y, code_y,
                z.data_ptr(), rows_z, cols_z, cols_z, code_z, address, rows_x, cols_x, cols_x, code_x)
    if frame.guard is None:
        status = frame.function(*arguments)
    else:
        with frame.guard:
            status = frame.function(*arguments)
    if status:
        raise _native.fail(status)
    return frame.value.value, grad


def _quick_rows(plan: _plans.Plan, x: Tensor, index, with_grad: bool):
    """The same if row numbers choose y and z."""
    if not (x.__class__ is index.__class__ is Tensor and x.is_cpu and index.is_cpu and x.layout is index.layout is _strided
            and index.dtype is torch.int64 and x.is_contiguous() and index.is_contiguous()):
        return None
    code, (rows, cols) = _CODES.get(x.dtype), _sides(x.shape)
    if not (code and rows and cols and index.shape == (rows,)):
        return None
    grad = torch.empty_like(x) if with_grad else None
    view_grad = None if grad is None else (grad.data_ptr(), rows, cols, cols, code)
    return _call(plan, (x.data_ptr(), rows, cols, cols, code), _plans.NO_VIEW, _plans.NO_VIEW, view_grad,
                 index.data_ptr()), grad


def _call(plan: _plans.Plan, x, y, z, grad, index: Optional[int], weights: Optional[Tensor] = None, gpu=None, value: int = 0) -> float:
    """The value; views are five numbers each (_plans.Frame). On a GPU it is queued to be written to the address `value`."""
    frame, alive = plan.frame(gpu)
    frame.write(frame.block, 0, *x, *y, *z, *(grad or _plans.NO_VIEW))
    arguments = frame.with_grad if grad else frame.without
    if gpu is not None:
        arguments = (*arguments[:-2], value, arguments[-1])
    if index is not None:
        arguments = (*arguments[:_plans.INDEX_AT], index, x[1], *arguments[_plans.INDEX_AT:])
    with frame.guard or _unguarded:
        if weights is not None:
            _native.check(_native.library().circe_measure_set_weights(frame.keep.pointer, weights.data_ptr(), len(weights)))
        status = frame.function(*arguments)
    if status:
        raise _native.fail(status)
    return frame.value.value


def evaluate(plan: _plans.Plan, x: Tensor, y: Optional[Tensor], z: Optional[Tensor], index: Optional[Tensor],
             with_grad: bool, gather: bool, weights: Optional[Tensor] = None) -> Tuple[Value, Optional[Tensor]]:
    """The value, a number or a tensor of the device, and d value / d x."""
    if plan.scaling is None or gather or not plan.scaling.due() or x.device.type not in ("cpu", "cuda"):
        return _evaluate(plan, x, y, z, index, with_grad, gather, weights)
    points = _rows(x.detach(), "x")  # with ranks, all rows are scaled together later
    seen, *scaled = plan.scaling.forward(points)
    value, grad = _evaluate(plan, seen, y, z, index, with_grad, gather, weights)
    if grad is not None:
        grad = plan.scaling.backward(points, *scaled, grad)
    return value, grad if grad is None or grad.shape == x.shape else grad.view(x.shape)


def _evaluate(plan, x, y, z, index, with_grad, gather, weights):
    if gather or weights is not None:
        found = None
    elif plan.features is None:
        found = _quick(plan, x, y, z, with_grad)
    else:
        found = _quick_rows(plan, x, index, with_grad)
    return found or _evaluate_any(plan, x, y, z, index, with_grad, gather, weights)


def _evaluate_any(plan, x, y, z, index, with_grad, gather, weights):
    """The same for tensors on any device and of any layout; reports what is wrong with them."""
    points = _rows(x.detach(), "x")
    weights = None if weights is None else _weights(weights, x)
    _arrays.same_order(y=y, z=z)
    if plan.features is None:
        z = _points(z, "z", x, plan)
        y = _points(y, "y", x, plan) if plan.uses_y else None
    else:
        index = _index(index, x)
    compute = _compute_global if gather else _compute
    value, grad = compute(plan, points, y, z, index, with_grad, weights)
    return value, grad if grad is None or grad.shape == x.shape else grad.view(x.shape)


def _compute(plan, x, y, z, index, with_grad, weights):
    dtype = x.dtype
    if plan.features is not None and x.device.type == "cuda":  # the features are there in one dtype
        x = x.to(getattr(torch, plan.features.dtype.name))
    grad = torch.empty_like(x, memory_format=torch.contiguous_format) if with_grad else None
    if weights is not None and not plan.enough(int((weights > 0).sum())):
        return 0.0, grad if grad is None else grad.zero_()
    rows = None if index is None else index.data_ptr()
    if x.device.type not in ("cpu", "cuda"):
        raise errors.DeviceError(f"x is on {x.device}; it must be on the CPU or on a CUDA device")
    on_device = _compute_cpu if x.device.type == "cpu" else _compute_cuda
    value = on_device(plan, x, y, z, rows, grad, weights)
    return value, grad if grad is None else grad.to(dtype)


def _view(tensor: Optional[Tensor]) -> Tuple[int, int, int, int, int]:
    if tensor is None:
        return _plans.NO_VIEW
    rows, cols = tensor.shape
    return tensor.data_ptr(), rows, cols, cols if tensor.is_contiguous() else tensor.stride(0), _CODES[tensor.dtype]


def _compute_cpu(plan, x, y, z, index, grad, weights) -> float:
    return _call(plan, _view(x), _view(y), _view(z), None if grad is None else _view(grad), index, weights)


def _compute_cuda(plan, x, y, z, index, grad, weights=None) -> Tensor:
    value = torch.empty((), dtype=torch.float64, device=x.device)
    _call(plan, _view(x), _view(y), _view(z), None if grad is None else _view(grad), index, weights, _cuda.current(x.device),
          value.data_ptr())
    return value


def _compute_global(plan, x, y, z, index, with_grad, weights):
    """The value of all ranks' rows, and the gradient of this rank's rows times the number of ranks (_gather.py)."""
    group = plan.group
    counts = _gather.sizes(len(x), x.device, group, plan.same_size)
    every = [None if part is None else _gather.rows(part, counts, group) for part in (x, y, z, index, weights)]
    points, scaled = every[0], None
    if plan.scaling is not None:
        every[0], *scaled = plan.scaling.forward(points)
    value, grad = _compute(plan, *every[:4], with_grad, every[4])
    if grad is not None and scaled is not None:
        grad = plan.scaling.backward(points, *scaled, grad)
    if grad is not None:
        first = sum(counts[:torch.distributed.get_rank(group)])
        grad = grad[first:first + len(x)] * len(counts)
    return value, grad


def _tensor(value: Value, dtype: torch.dtype) -> Tensor:
    """A tensor without dimensions, of the dtype of x."""
    return torch.scalar_tensor(value, dtype=dtype) if isinstance(value, float) else value.to(dtype)


class _Measure(torch.autograd.Function):
    """Value and gradient were computed together; here they become a node of the graph."""

    @staticmethod
    def forward(ctx, x, value, grad):
        if grad is not None:
            ctx.save_for_backward(grad)
            ctx.x = x  # only for its place in the graph: its values may change
        return _tensor(value, x.dtype)

    @staticmethod
    def backward(ctx, d_value):
        return _times(ctx.saved_tensors[0], d_value, ctx.x), None, None


def _times(grad: Tensor, d_value: Tensor, x: Optional[Tensor] = None) -> Tensor:
    """The gradient for x. If the caller asks for a graph of the backward pass, a node between the gradient and x and
    d_value refuses to be differentiated. Autograd would take the gradient for a constant: a sum with other terms would
    silently lack our part, and a Hessian would be 0."""
    product = grad * d_value
    if torch.is_grad_enabled():
        return _Once.apply(product if product.requires_grad else product.requires_grad_(), x)
    return product


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, grad, x):
        return grad.view_as(grad)

    @staticmethod
    def backward(ctx, d_grad):
        raise errors.UnsupportedError("a loss of circe has a gradient but no second derivative, which is asked for here (of a "
                                      "gradient that was taken with create_graph=True): leave the loss out of what is "
                                      "differentiated twice")


_node = _Measure.apply
_is_tracing = torch._C._get_tracing_state  # of torch.jit.trace; None if there is none
_is_transformed = getattr(torch._C, "_are_functorch_transforms_active", bool)  # bool() is False


# ---- torch.compile ------------------------------------------------------------------------------------------------------

_HAS_OPERATORS = hasattr(torch.library, "custom_op")

if _HAS_OPERATORS:
    _is_compiling = torch.compiler.is_compiling

    @torch.library.custom_op("circe::measure", mutates_args=())
    def _operator(x: Tensor, y: Optional[Tensor], z: Optional[Tensor], index: Optional[Tensor], plan: int,
                  gather: bool, weights: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        found = _plans.find(plan)
        if _is_nothing(found, x, gather):
            return x.new_zeros(()), torch.zeros_like(x)
        value, grad = evaluate(found, x, y, z, index, True, gather, weights)
        assert grad is not None
        return _tensor(value, x.dtype), grad

    @_operator.register_fake
    def _(x, y, z, index, plan, gather, weights=None):
        return x.new_empty(()), x.new_empty(x.shape)

    def _keep_gradient(ctx, inputs, output):
        ctx.save_for_backward(output[1])

    def _backward(ctx, d_value, d_grad):
        (grad,) = ctx.saved_tensors
        return _times(grad, d_value), None, None, None, None, None, None

    _operator.register_autograd(_backward, setup_context=_keep_gradient)
else:
    def _is_compiling() -> bool:
        return False


def _is_nothing(plan: _plans.Plan, x: Tensor, gather: bool) -> bool:
    """Whether the batch has too few rows, and counts as 0. With ranks, all rows count together."""
    return not gather and x.dim() > 0 and 0 < len(x) < plan.least and not plan.enough(len(x))


def measure(plan: _plans.Plan, x: Tensor, y, z, index, gather: bool, weights=None) -> Tensor:
    """The loss, with its gradient in x."""
    if x.__class__ is not Tensor or x.dtype not in _CODES:
        x = _widened(x)
    if _is_compiling():
        return torch.ops.circe.measure(x, y, z, index, plan.number, gather, weights)[0]
    if _is_tracing():
        raise errors.UnsupportedError("x is under torch.jit.trace, which would keep this batch's value for all others; use "
                                      "torch.compile")
    if _is_nothing(plan, x, gather):
        return (x * 0.0).sum()
    try:
        value, grad = evaluate(plan, x, y, z, index, x.requires_grad and torch.is_grad_enabled(), gather, weights)
    except RuntimeError as error:
        if _is_transformed() and not isinstance(error, errors.CirceError):
            raise errors.UnsupportedError("x is under torch.func (grad, vmap, jvp, ...), which sees no tensor with numbers in it; "
                                          "use loss.backward() or torch.autograd.grad") from error
        raise
    return _node(x, value, grad)  # also without a gradient, because it refuses forward-mode differentiation


if not _HAS_OPERATORS and hasattr(torch, "_dynamo"):  # 2.0 to 2.3: a clean break of the graph
    measure = torch._dynamo.disable(measure)
