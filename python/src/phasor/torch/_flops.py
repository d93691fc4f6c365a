"""What torch.utils.flop_counter.FlopCounterMode counts for phasor's operators: as for torch's own, whatever is masked."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula, sdpa_backward_flop_count, sdpa_flop_count

from phasor.torch import _operators as _operators  # which registers them


@register_flop_formula(torch.ops.phasor.attention_forward)
def _forward(q: Any, k: Any, v: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(q, k, v))


@register_flop_formula(torch.ops.phasor.attention_backward)
def _backward(q: Any, k: Any, v: Any, out: Any, softmax: Any, grad_out: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_backward_flop_count(grad_out, q, k, v))


@register_flop_formula(torch.ops.phasor.w2_attention_forward)
def _w2_forward(q_mu: Any, k_mu: Any, v_mu: Any, *_: Any, **__: Any) -> int:
    return 2 * int(sdpa_flop_count(q_mu, k_mu, v_mu))  # heads of twice the size


@register_flop_formula(torch.ops.phasor.w2_attention_backward)
def _w2_backward(q_mu: Any, k_mu: Any, v_mu: Any, *_: Any, **__: Any) -> int:
    out_mu = [*q_mu[:3], v_mu[3]]
    return 2 * int(sdpa_backward_flop_count(out_mu, q_mu, k_mu, v_mu))
