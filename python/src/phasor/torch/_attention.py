"""Attention as a differentiable function of torch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from phasor._errors import with_function_name
from phasor._options import with_options
from phasor.torch import _plain
from phasor.torch._devices import warn_of_float64
from phasor.torch._inputs import autocast, check_tensors, with_channels
from phasor.torch._operators import ATTENTION
from phasor.torch._options import pack

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from phasor._options import AttentionOptions


@with_options
@with_function_name
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    return_lse: bool = False,
    return_weights: bool = False,
    **options: Unpack[AttentionOptions],
) -> Any:
    """phasor.attention with gradients: out = softmax(scores) v, in memory that grows with S, never with S x S.

        score(i, j) = cap(scale * query_scale(i) * rotate(q_i) . rotate(k_j)) + key_bias(j) + bias(j - p_i) + mask(i, j)

    q: [B, H, T, D]; k: [B, G, S, D]; v: [B, G, S, E], float32, bfloat16 or float16, on the CPU. Gradients go to q, k, v,
        and, where they require them, to query_scale, mask (a float one, summed over the dimensions it is broadcast in),
        key_bias, relative_bias, alibi_slopes, sinks, and cos and sin of q_rotary and k_rotary; also from lse, not from
        weights.

    Options; arrays are tensors, right-aligned with their shapes, so leading dimensions may be left out. A seed that is
    not given comes from torch's generator: each call drops others, and torch.manual_seed repeats them.
    {options}

    Returns out [B, H, T, E]; with return_lse or return_weights a tuple (out, lse, weights) of those asked for.

    Tensors are not copied, except: one whose last dimension is not contiguous is made so; biases of the half types
    become float32; under autocast q, k and v are cast to its type, as torch's scaled_dot_product_attention does it.
    Works under torch.compile (fullgraph), autocast and activation checkpointing. Not under vmap or in forward mode
    (torch.func.jvp), and there is no second derivative: they raise NotImplementedError.
    """
    wide = check_tensors(q=q, k=k, v=v)
    if torch.is_autocast_enabled("cpu"):
        q, k, v = autocast(q, k, v)
        wide = False
    packed = pack((q.shape[2], k.shape[2]), options, wide)
    if wide or q.shape[1] == k.shape[1] == 0:  # the kernels have at least one head
        if wide:
            warn_of_float64()
        out, lse, weights = _plain.attention(q, k, v, packed)
    else:
        out, lse, _, weights = ATTENTION(*with_channels(q, k, v), return_lse, False, return_weights, *packed)
        if v.shape[3] == 0:
            out = out[..., :0]
    if return_lse:
        return (out, lse, weights) if return_weights else (out, lse)
    return (out, weights) if return_weights else out
