"""phasor.torch.enable(): torch's own scaled_dot_product_attention is computed by phasor.

aten::scaled_dot_product_attention is a composition of other operators. While enabled, the dispatcher finds a kernel of
ours for the CPU first, for autograd and below it. What we leave to torch runs that composition, which is the kernel of the
key CompositeImplicitAutograd.
"""

from __future__ import annotations

from typing import Any

import torch

import phasor
from phasor.torch import _nested
from phasor.torch._flash import PACKED
from phasor.torch._locks import fork_safe_lock
from phasor.torch._native import NATIVE
from phasor.torch._overrides import Overrides
from phasor.torch._report import count_phasor, count_torch
from phasor.torch._rules import OTHER_SHAPES, SMALL, is_recorded, is_tiny, is_traced, reason_for_torch
from phasor.torch._sdpa import scaled_dot_product_attention

_NAME = "scaled_dot_product_attention"
_torchs = torch.ops.aten.scaled_dot_product_attention.default._op_dk
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_MATH = int(torch.nn.attention.SDPBackend.MATH)


def _kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
    """What the dispatcher calls. Arguments are passed on as they came, in the least time."""
    if is_tiny(query, key, len(rest) > 1 and rest[1] != 0.0):  # rest: attn_mask, dropout_p, ...
        count_torch(SMALL)
    else:
        out, reason = _attention(query, key, value, *rest, **named)
        if reason is None:
            return out
        count_torch(reason)
    return _torchs(_COMPOSITE, query, key, value, *rest, **named)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Any, str | None]:
    """The result by phasor, or why torch is to compute it."""
    if enable_gqa and query.dim() < 3:
        return None, OTHER_SHAPES  # torch's error
    recorded = is_recorded(query, key, value, attn_mask)
    reason = reason_for_torch(query, key, value, attn_mask, dropout_p, recorded)
    if reason is not None:
        return None, reason
    try:
        if recorded and attn_mask is not None and attn_mask.requires_grad:
            attn_mask = _with_own_gradients(attn_mask, query)
        arguments = (query, key, value, attn_mask, dropout_p, is_causal)
        out = scaled_dot_product_attention(*arguments, scale=scale, enable_gqa=enable_gqa)
    except (RuntimeError, TypeError) as error:  # torch has an error of its own, or computes it
        return None, f"refused: {str(error).splitlines()[0]}"
    count_phasor(_NAME, is_traced(query))
    # The order of torch's memory, on which a view of the result may depend: of its flash kernel q's, which is ours too, of
    # its composition of matrix products the usual one.
    if torch._fused_sdp_choice(*arguments, scale=scale, enable_gqa=enable_gqa) == _MATH:
        out = out.contiguous()
    return out, None


def _with_own_gradients(mask: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """The mask, expanded to all batch entries and heads. Their gradients are then written apart, and torch sums them: as
    much memory as torch's own attention takes, for a third less time than phasor's second pass over the scores."""
    outer = torch.broadcast_shapes(mask.shape[:-2], query.shape[:-2])
    return mask.expand(*outer, *mask.shape[-2:])


_SDPA = Overrides({(_NAME, "CPU"): _kernel, (_NAME, "AutogradCPU"): _kernel})
_CACHE_TAG = f"phasor {phasor.__version__}"

_lock = fork_safe_lock()
_is_on = False
_for_good = 0  # calls of enable() that are not the beginning of a with statement
_blocks: list[Enabled] = []  # of with statements that have been entered and not left
_disabled = 0  # calls of disable()


class Enabled:
    """What enable() returns: in a with statement, its end undoes what its beginning did."""

    def __init__(self) -> None:
        self._made_after = _disabled
        self._is_for_good = True

    def __enter__(self) -> Enabled:
        global _for_good
        with _lock:
            if self._is_for_good and self._made_after == _disabled:
                _for_good -= 1
            self._is_for_good = False
            _blocks.append(self)
            _switch(True)
        return self

    def __exit__(self, *_: Any) -> None:
        with _lock:
            if self in _blocks:  # no disable() came between
                _blocks.remove(self)
            _switch(_for_good > 0 or bool(_blocks))


def enable() -> Enabled:
    """From now on phasor computes torch's scaled_dot_product_attention on the CPU, in all threads of the process.

        phasor.torch.enable()              # until disable()
        with phasor.torch.enable(): ...    # until the end of the block

    That is what nn.MultiheadAttention, nn.TransformerEncoder, transformers' "sdpa", timm and diffusers call; also
    attention of nested tensors (layout=torch.jagged) and torch.nn.attention.varlen.varlen_attn, which torch itself does
    not have on the CPU. Results and gradients are torch's; dropout drops other weights, at the same rate. What phasor does
    not have, and small calls, torch computes as before: report() says how many, and why. Functions that torch.compile
    compiled before keep what they were compiled with.
    """
    global _for_good
    with _lock:
        _for_good += 1
        _switch(True)
        return Enabled()


def disable() -> None:
    """Undoes every enable(), also of with statements that have not ended. Does nothing where there was none."""
    global _for_good, _disabled
    with _lock:
        _for_good = 0
        _disabled += 1
        _blocks.clear()
        _switch(False)


def _switch(on: bool) -> None:
    global _is_on
    if on is _is_on:
        return
    _is_on = on
    for kernels in (_SDPA, PACKED, NATIVE):
        kernels.add() if on else kernels.remove()
    _nested.enable() if on else _nested.disable()
    _tag_compiled_code(on)


def _tag_compiled_code(on: bool) -> None:
    """torch.compile keeps what it compiled on the disk, under a name that does not tell whose attention is in it."""
    config = torch.compiler.config
    tags = [tag for tag in config.cache_key_tag.split("; ") if tag not in ("", _CACHE_TAG)]
    config.cache_key_tag = "; ".join([*tags, _CACHE_TAG] if on else tags)
