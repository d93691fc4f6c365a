"""Which calls of torch's attention phasor computes, and why it leaves others to torch."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import forward_ad

_HALF = frozenset((torch.bfloat16, torch.float16))
_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_TRACED = frozenset((FakeTensor, FunctionalTensor))
_TENSORS = _PLAIN | _TRACED
_LARGEST_HEAD = 512

# Where torch is faster, measured by benchmarks/torch_break_even.py on an AMD EPYC (Zen 4) and an Intel Xeon (Sapphire
# Rapids), of which a limit serves both. Work is T x S x D, for all heads. Below a limit, which is for each thread, the time
# that Python takes for a call of phasor's, some 20 us, is more than its kernels save.
_WORK = 2**22
_WORK_OF_HALF = 2**21
_WORK_OF_HALF_ROW, _WORK_OF_HALF_RECORDED = 2**18, 2**15
_WORK_OF_BF16_WITH_AMX = 2**27  # forward alone: both multiply on tiles
_WORK_OF_DROPOUT = 2**17
_SCORES_OF_HEAD, _SCORES_OF_DROPOUT = 48 * 48, 32 * 32  # T x S: fewer do not fill the lanes of phasor's kernel
_QUERIES = 16  # the same, with dropout or for gradients
_HAS_AMX = torch.cpu._is_amx_tile_supported()

SMALL = "small: torch's own kernel is faster"
OTHER_SHAPES = "shapes that phasor does not take"


def is_tiny(query: torch.Tensor, key: torch.Tensor, may_drop: bool) -> bool:
    """Whether nothing else need be known: it is below the least limit of its type."""
    if key.dim() < 2:
        return True  # wrong, which torch finds
    work = query.numel() * key.size(-2)
    if query.dtype is torch.float32:
        limit = _WORK_OF_DROPOUT if may_drop else _WORK
    else:
        limit = _WORK_OF_HALF_RECORDED
    return type(work) is int and work < limit


def reason_for_torch(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout_p: float,
    recorded: bool,
) -> str | None:
    """Why torch's own implementation is to compute a call; None for one that phasor computes. Small calls are found
    first, because they are those that a microsecond hurts. recorded: whether there is a backward pass."""
    if query.dim() < 2 or key.dim() < 2 or value.dim() < 2:
        return OTHER_SHAPES
    reason = _reason_of_speed(query, key, dropout_p, recorded)
    if reason is not None:
        return reason
    if not (0 < query.size(-1) <= _LARGEST_HEAD and 0 < value.size(-1) <= _LARGEST_HEAD):
        return OTHER_SHAPES
    return _reason_of_kind(query, key, value, mask, dropout_p)


def is_recorded(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> bool:
    return torch.is_grad_enabled() and (
        query.requires_grad or key.requires_grad or value.requires_grad or (mask is not None and mask.requires_grad)
    )


def is_traced(tensor: torch.Tensor) -> bool:
    """Whether a call only goes into a graph of torch.compile."""
    return type(tensor) in _TRACED


def _reason_of_kind(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, dropout_p: float
) -> str | None:
    if query.dtype is not torch.float32 and query.dtype not in _HALF:
        return f"{str(query.dtype).removeprefix('torch.')}: phasor has float32, bfloat16 and float16"
    for tensor in (query, key, value) if mask is None else (query, key, value, mask):
        if type(tensor) not in _TENSORS:
            return f"{type(tensor).__name__}: a tensor with functions of its own"
    if not torch._C._get_flash_sdp_enabled():
        return "sdpa_kernel or flash_sdp: flash attention is not wanted"
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return "torch.func or forward-mode differentiation"
    if torch._C._get_tracing_state() or (type(query) in _TRACED and torch.compiler.is_exporting()):
        return "torch.export or torch.jit.trace"
    if not 0.0 <= dropout_p < 1.0:
        return "dropout_p is not in [0, 1)"
    return None


def _reason_of_speed(query: torch.Tensor, key: torch.Tensor, dropout_p: float, recorded: bool) -> str | None:
    """Where torch's kernel is faster."""
    queries, keys = query.size(-2), key.size(-2)
    if (recorded or dropout_p) and _surely(queries, _QUERIES):
        return SMALL
    is_row = _surely(queries, 2)
    limit, scores = _WORK, 0 if is_row else _SCORES_OF_HEAD
    if dropout_p:
        limit, scores = _WORK_OF_DROPOUT, _SCORES_OF_DROPOUT
    elif query.dtype is not torch.float32:
        if recorded:
            limit, scores = _WORK_OF_HALF_RECORDED, 0
        elif _HAS_AMX and query.dtype is torch.bfloat16:
            limit = _WORK_OF_BF16_WITH_AMX
        else:
            limit = _WORK_OF_HALF_ROW if is_row else _WORK_OF_HALF
    if _surely(queries * keys, scores) or _surely(query.numel() * keys, limit * torch.get_num_threads()):
        return SMALL
    return None


def _surely(number: Any, limit: int) -> bool:
    """Whether it is below the limit. A symbolic one, of which that is not known, is taken to be large: no guard."""
    if type(number) is int:
        return number < limit
    return torch.fx.experimental.symbolic_shapes.statically_known_true(number < limit)
