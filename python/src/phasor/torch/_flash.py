"""CPU kernels for the flash-attention operators of torch.

    torch.nn.attention.activate_flash_attention_impl("phasor")

aten::_scaled_dot_product_flash_attention_for_cpu is what torch's scaled_dot_product_attention calls where it has a flash
kernel. aten::_flash_attention_forward, over packed sequences, has none on the CPU: it is what varlen_attn
(torch.nn.attention.varlen) calls. Backward kernels get the log-sum-exp alone. As the softmax of phasor's backward pass it
is the pair (lse, 1), since exp(score - lse) / 1 is the weight.
"""

from __future__ import annotations

import math
import re
from typing import Any

import torch

from phasor import _phasor
from phasor.torch._inputs import empty_float32, with_contiguous_rows
from phasor.torch._overrides import Overrides
from phasor.torch._report import count_phasor, count_torch
from phasor.torch._rules import is_recorded, reason_for_torch

Tensors = tuple[torch.Tensor, ...]


def _softmax(lse: torch.Tensor) -> torch.Tensor:
    """[..., 2]: the largest score, times log2(e), and the sum of a query. No key, no sum."""
    return torch.stack((lse * math.log2(math.e), (lse > -math.inf).float()), -1)


def _forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    """Writes out; returns the log-sum-exp [B, H, T]."""
    lse = empty_float32(q.shape[:3])
    q, k, v = (with_contiguous_rows(x) for x in (q, k, v))
    _phasor.attention_forward(q, k, v, out, lse, None, None, **options)
    return lse


def _backward(
    grad_out: torch.Tensor, tokens: Tensors, out: torch.Tensor, lse: torch.Tensor, grads: Tensors, options: dict[str, Any]
) -> None:
    """Writes grads: of q, k and v."""
    q, k, v, out, grad_out = (with_contiguous_rows(x) for x in (*tokens, out, grad_out))
    softmax, (grad_q, grad_k, grad_v) = _softmax(lse), grads
    _phasor.attention_backward(
        q, k, v, out, softmax, grad_out, None, grad_q, grad_k, grad_v, option_gradients={}, **options
    )


# ---------------------------------------------------------------------------------------------- one length for all queries

_FOR_CPU = "_scaled_dot_product_flash_attention_for_cpu"
_BACKWARD_FOR_CPU = f"{_FOR_CPU}_backward"
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_torchs = {name: torch.library.get_kernel(f"aten::{name}", "CPU") for name in (_FOR_CPU, _BACKWARD_FOR_CPU)}


def _dense_options(is_causal: bool, mask: torch.Tensor | None, scale: float | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if is_causal:
        options = {"causal": True, "query_offsets": torch.zeros(1, dtype=torch.int64)}
    if mask is not None:
        mask = mask if mask.dtype is torch.bool else mask.float()
        options["mask"] = with_contiguous_rows(mask[(None,) * (2 - mask.dim())])
    if scale is not None:
        options["scale"] = scale
    return options


def _dense_forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Tensors:
    recorded = is_recorded(query, key, value, attn_mask)
    reason = reason_for_torch(query, key, value, attn_mask, dropout_p, recorded)
    if reason is None and dropout_p:
        reason = "dropout: the flash operator of torch has none"
    if reason is not None:
        count_torch(reason)
        return _torchs[_FOR_CPU].call_boxed(
            _CPU, query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
        )
    count_phasor("flash attention")
    out = torch.empty_like(query)
    batch, heads, queries = query.shape[:3]
    lse = query.new_empty((batch, queries, heads), dtype=torch.float32).transpose(1, 2)  # in torch's order of memory
    lse.copy_(_forward(query, key, value, out, _dense_options(is_causal, attn_mask, scale)))
    return out, lse


def _dense_backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Tensors:
    if dropout_p or reason_for_torch(query, key, value, attn_mask, dropout_p, True) is not None:
        return _torchs[_BACKWARD_FOR_CPU].call_boxed(
            _CPU, grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
        )
    tokens = (query, key, value)
    grads = tuple(torch.empty_permuted(x.shape, (0, 2, 1, 3), dtype=x.dtype, device=x.device) for x in tokens)
    _backward(grad_out, tokens, out, logsumexp, grads, _dense_options(is_causal, attn_mask, scale))
    return grads


DENSE = Overrides({(_FOR_CPU, "CPU"): _dense_forward, (_BACKWARD_FOR_CPU, "CPU"): _dense_backward})


# ------------------------------------------------------------------------------------------------------- packed sequences


def _bound(name: str, size: int | None) -> int | None:
    """Of a window. torch counts the keys beside the query's own, and -1 is no bound."""
    if size is not None and size < -1:
        raise ValueError(f"[_flash_attention_forward] {name}: {size}, expected -1 or more")
    return None if size is None or size < 0 else size + 1


# What options of phasor are called in torch's function.
_NAMES = {"query_starts": "cu_seq_q", "key_starts": "cu_seq_k", "key_lengths": "seqused_k"}


def _whole(option: str, numbers: torch.Tensor) -> torch.Tensor:
    if numbers.dtype not in (torch.int32, torch.int64):
        given = str(numbers.dtype).removeprefix("torch.")
        raise TypeError(f"[_flash_attention_forward] {_NAMES[option]}: {given}, expected int32 or int64")
    return numbers.long()


def _with_torchs_names(text: str) -> str:
    text = text.replace("[attention_forward]", "[_flash_attention_forward]")
    return re.sub("|".join(_NAMES), lambda name: _NAMES[name[0]], text)


def _packed_options(
    starts: tuple[torch.Tensor | None, torch.Tensor | None],
    is_causal: bool,
    scale: float | None,
    window: tuple[int | None, int | None],
    used: torch.Tensor | None = None,
) -> dict[str, Any]:
    """starts: of queries and keys in packed sequences. The last query is at the last key, of those in use."""
    options: dict[str, Any] = {} if scale is None else {"scale": scale}
    if is_causal:
        options["causal"] = True
    bounds = (_bound("window_size_left", window[0]), _bound("window_size_right", window[1]))
    if bounds != (None, None):
        options["window"] = bounds
    if starts[0] is not None:
        options["query_starts"] = _whole("query_starts", starts[0])
        if starts[1] is not None:
            options["key_starts"] = _whole("key_starts", starts[1])
    if used is not None:
        options["key_lengths"] = _whole("key_lengths", used)
        if starts[0] is not None:
            options["query_offsets"] = options["key_lengths"] - options["query_starts"].diff()
    return options


def _heads_first(x: torch.Tensor) -> torch.Tensor:
    """[B, H, T, D] of [T, H, D] or [B, T, H, D], which the operators of packed sequences have; a view."""
    return x.transpose(-3, -2) if x.dim() == 4 else x.transpose(0, 1)[None]


def _pages_as_sequences(key: torch.Tensor, value: torch.Tensor, table: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Keys and values [pages, size, G, D] of a block table [n, pages of a sequence], one sequence after another, and
    where they start."""
    key, value = (x[table.long()].flatten(0, 2) for x in (key, value))
    length = key.shape[0] // table.shape[0]
    return key, value, torch.arange(table.shape[0] + 1) * length


def _check_packed(query: torch.Tensor, dropout_p: float, return_debug_mask: bool, alibi_slopes: Any) -> None:
    function = "[_flash_attention_forward]"
    if query.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        given = str(query.dtype).removeprefix("torch.")
        raise TypeError(f"{function} query: {given}, expected float32, bfloat16 or float16")
    if dropout_p != 0.0:
        raise NotImplementedError(f"{function} dropout_p: {dropout_p}, expected 0")
    if return_debug_mask:
        raise NotImplementedError(f"{function} return_debug_mask: True, expected False")
    if alibi_slopes is not None:
        raise NotImplementedError(f"{function} alibi_slopes: given, expected None; phasor.torch.attention has them")


def _packed_forward_into(
    out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cum_seq_q: torch.Tensor | None,
    cum_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
    seqused_k: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    num_splits: int | None = None,  # how a GPU is to split the keys: changes no result
) -> torch.Tensor:
    """Returns the log-sum-exp, [H, T] for packed sequences."""
    _check_packed(query, dropout_p, return_debug_mask, alibi_slopes)
    if block_table is not None:
        if cum_seq_q is None or seqused_k is None:
            raise ValueError("[_flash_attention_forward] block_table: given, expected cum_seq_q and seqused_k beside it")
        key, value, cum_seq_k = _pages_as_sequences(key, value, block_table)
    count_phasor("varlen_attn")
    window = (window_size_left, window_size_right)
    options = _packed_options((cum_seq_q, cum_seq_k), is_causal, scale, window, seqused_k)
    try:
        lse = _forward(_heads_first(query), _heads_first(key), _heads_first(value), _heads_first(out), options)
    except ValueError as error:
        raise ValueError(_with_torchs_names(str(error))) from None
    return lse[0] if query.dim() == 3 else lse


def _packed_forward(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **options: Any) -> Tensors:
    out = query.new_empty((*query.shape[:-1], value.shape[-1]))
    lse = _packed_forward_into(out, query, key, value, *args, **options)
    rng_state, unused = (torch.zeros(shape, dtype=torch.uint64) for shape in ((2,), ()))
    return out, lse, rng_state, unused, query.new_empty((0,))


def _packed_backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    cum_seq_q: torch.Tensor,
    cum_seq_k: torch.Tensor,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    rng_state: torch.Tensor,
    unused: torch.Tensor,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
) -> Tensors:
    tokens = (query, key, value)
    grads = tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in tokens)
    options = _packed_options((cum_seq_q, cum_seq_k), is_causal, scale, (window_size_left, window_size_right))
    _backward(
        _heads_first(grad_out),
        tuple(map(_heads_first, tokens)),
        _heads_first(out),
        logsumexp[None] if query.dim() == 3 else logsumexp,
        tuple(map(_heads_first, grads)),
        options,
    )
    return grads


PACKED = Overrides(
    {
        ("_flash_attention_forward", "CPU"): _packed_forward,
        ("_flash_attention_forward_no_dropout_inplace", "CPU"): _packed_forward_into,
        ("_flash_attention_backward", "CPU"): _packed_backward,
    }
)


class _Active:
    """What activate_flash_attention_impl("phasor") keeps until another implementation, or torch's own, is wanted."""

    def __init__(self) -> None:
        DENSE.add()
        PACKED.add()

    def remove(self) -> None:
        DENSE.remove()
        PACKED.remove()


torch.nn.attention.register_flash_attention_impl("phasor", register_fn=_Active)
