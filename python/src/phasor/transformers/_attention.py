"""The attention function."""

from __future__ import annotations

import dis
import functools
import inspect
import warnings
from typing import Any

import torch

from phasor.torch import attention
from phasor.transformers._masks import PositionMask, added, dense
from phasor.transformers._models import KNOWN
from phasor.transformers._paged import paged_forward

def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """For transformers' AttentionInterface: query [B, H, T, D], key and value [B, G, S, D] -> [B, T, H, D], no weights.

    attention_mask: what position_mask gave, or any tensor that broadcasts to [B, H, T, S]: bool (True attends) or added
        to scores. None with is_causal (by default the module's): query i sees the keys j <= i, as sdpa has it.
    softcap, s_aux (sinks [H]), position_bias (added to scores, [1 or B, H, T, S]): as eager has them.
    others: not read. sliding_window is in the mask, and keywords of the model's own call are passed on to here. A tensor
        among them that the module's eager function reads, or might, raises NotImplementedError.
    """
    if others.get("cache") is not None:
        if position_bias is not None:
            raise NotImplementedError("[attention_forward] position_bias: given with a paged cache, expected none")
        reason = _why_not(query, None, others)
        if reason is not None:
            raise NotImplementedError(f"[attention_forward] cache: a paged one, expected none: {reason}")
        return paged_forward(module, query, key, value, scaling=scaling, softcap=softcap, s_aux=s_aux, **others)
    kind: Any = type(module)
    for name, given in others.items():
        if isinstance(given, torch.Tensor) and name not in KNOWN and _eager_reads(kind, name):
            raise NotImplementedError(
                f"[attention_forward] {name}: a tensor of shape {list(given.shape)} from {type(module).__name__}, expected "
                "none: phasor does not know what it means; use attn_implementation=sdpa"
            )
    if attention_mask is None and query.shape[2] > 1:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    else:
        causal = False
    reason = _why_not(query, attention_mask, others)
    if reason is not None:
        given = {"softcap": softcap, "s_aux": s_aux, "position_bias": position_bias, **others}
        mask = _causal_mask(query, key) if causal else added(attention_mask, query.dtype)
        eager = _eager(module, reason)
        result: tuple[torch.Tensor, torch.Tensor | None] = eager(
            module,
            query,
            key,
            value,
            mask,
            scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
            dropout=dropout,
            **{name: value for name, value in given.items() if value is not None},
        )
        return result
    options = _seen(attention_mask, query.shape[2], key.shape[2])
    if causal:
        options = {"causal": True, "query_offsets": 0}
    if position_bias is not None:
        options = _with_bias(options, position_bias)
    out = attention(
        query,
        key,
        value,
        scale=scaling,
        softcap=softcap or 0.0,
        sinks=None if s_aux is None else s_aux.reshape(-1),
        dropout=dropout if module.training else 0.0,
        **options,
    )
    return out.transpose(1, 2).contiguous(), None


def _seen(mask: torch.Tensor | None, queries: int, keys: int) -> dict[str, Any]:
    """Who sees whom, in options of phasor.torch.attention."""
    if mask is None:
        return {}
    if isinstance(mask, PositionMask) and mask.shape[2:] == (queries, keys):
        return mask.options
    return {"mask": dense(mask)}  # of another shape: attention says what is wrong


def _with_bias(options: dict[str, Any], bias: torch.Tensor) -> dict[str, Any]:
    """`mask` becomes the bias; what was there goes to key_bias, or, where it has rows of queries, into the bias."""
    mask = options.get("mask")
    if mask is None:
        return {**options, "mask": bias}
    if mask.dtype is not torch.bool:
        return {**options, "mask": bias + mask}
    if mask.shape[-2] == 1 and mask.dim() == 4 and mask.shape[1] == 1:
        hidden = torch.zeros(mask.shape, dtype=torch.float32).masked_fill_(~mask, -torch.inf)
        return {**options, "mask": bias, "key_bias": hidden[:, 0]}
    return {**options, "mask": torch.where(mask, bias, -torch.inf)}


def _why_not(query: torch.Tensor, mask: torch.Tensor | None, others: dict[str, Any]) -> str | None:
    """Why phasor does not compute it, or None."""
    if not (query.is_cpu or query.is_meta):
        return f"the tensors are on {query.device.type}, and phasor is for the CPU"
    if query.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"the tensors are {_name(query)}, and phasor has float32, bfloat16 and float16"
    if others.get("output_attentions"):
        return "output_attentions wants the weights with their gradients, and phasor never has them in memory"
    if mask is not None and mask.dtype is not torch.bool and not mask.is_floating_point():
        return f"the mask is {_name(mask)}, and phasor has bool and floating-point ones"
    return None


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _eager(module: torch.nn.Module, reason: str) -> Any:
    """The function that the module's own file has for attn_implementation="eager"."""
    kind: Any = type(module)
    eager = _eager_of(kind)
    if eager is None:
        raise NotImplementedError(
            f"[attention_forward] module: {reason}; {type(module).__name__} has no eager function to run instead"
        )
    warnings.warn(f"{type(module).__name__} runs its eager attention, not phasor: {reason}", stacklevel=1)
    return eager


@functools.cache
def _eager_of(module: type) -> Any:
    for part in module.__mro__:
        if "forward" in vars(part):
            names = inspect.unwrap(vars(part)["forward"]).__globals__
            if "eager_attention_forward" in names:
                return names["eager_attention_forward"]
    return None


@functools.cache
def _eager_reads(module: type, name: str) -> bool:
    """Whether a keyword can change what the module's eager function computes: it has the name, or takes it from **kwargs.

    Models hand down all keywords of their call to every layer: position_ids, image_sizes, labels.
    """
    eager = _eager_of(module)
    if eager is None:
        return True
    others = inspect.getfullargspec(eager).varkw
    read = {step.argval for step in dis.get_instructions(inspect.unwrap(eager)) if step.opname.startswith("LOAD")}
    return name in inspect.signature(eager).parameters or others in read


def _causal_mask(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    visible = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
    return added(visible, query.dtype)[None, None]
