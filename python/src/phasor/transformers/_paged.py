"""Continuous batching: the queries of many requests in one row, and their keys in transformers' paged cache."""

from __future__ import annotations

import functools
from typing import Any

import torch
from transformers.generation.continuous_batching.continuous_api import ContinuousBatchingManager

from phasor.torch import attention
from phasor.transformers._models import NAME


def paged_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    scaling: float | None,
    softcap: float | None,
    s_aux: torch.Tensor | None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """query [1, H, T, D], key and value [1, G, T, D]: the new tokens of all requests -> [1, T, H, D].

    The cache stores them and gives the keys of all requests. The last query of each is at its last key, so what the
    masks of other calls say is in cu_seq_lens_q, cu_seq_lens_k and sliding_window.
    """
    if others.get("block_table") is not None:
        raise NotImplementedError("[attention_forward] block_table: given, expected read_index and write_index")
    cache = others.pop("cache")
    key, value = cache.update(key_states=key, value_states=value, layer_idx=module.layer_idx, kwargs=others)
    out = attention(
        query,
        key,
        value,
        scale=scaling,
        softcap=softcap or 0.0,
        sinks=None if s_aux is None else s_aux.reshape(-1),
        causal=True,
        window=others.get("sliding_window"),
        query_starts=others["cu_seq_lens_q"].to(torch.int64),
        key_starts=others["cu_seq_lens_k"].to(torch.int64),
    )
    return out.transpose(1, 2).contiguous(), None


@functools.cache  # once a process
def allow_continuous_batching() -> None:
    """transformers has a list of implementations that can do it; phasor needs no other one in its place."""
    switch = ContinuousBatchingManager.switch_to_cb_friendly_attn

    @functools.wraps(switch)
    def switch_others(self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        if model.config._attn_implementation != NAME:
            return switch(self, model, *args, **kwargs)
        return None

    ContinuousBatchingManager.switch_to_cb_friendly_attn = switch_others
