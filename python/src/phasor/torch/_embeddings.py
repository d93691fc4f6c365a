"""Modules that make the cos and sin of rotary position embedding, in the models' own forms."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from phasor._rotary import Rope
from phasor.torch._rotations import Tensors, apply_rotary_pos_emb


class RotaryEmbedding(nn.Module):
    """RoPE tables [1, 1, S, D] for layers to share, each angle twice (half-split pairs).

        angle(position, i) = position * base^(-2i/dim)

    dim: channels of a head; max_position_embeddings: how many positions are computed in advance. More are added when
    asked for, exactly.
    """

    inv_freq: torch.Tensor
    cos_cached: torch.Tensor
    sin_cached: torch.Tensor

    def __init__(
        self,
        dim: int,
        max_position_embeddings: int = 2048,
        base: float = 10000.0,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.rope = Rope(dim, theta=base)
        self.register_buffer("inv_freq", torch.from_numpy(self.rope.inv_freq).to(device, torch.float32))
        self.register_buffer("cos_cached", None, persistent=False)
        self.register_buffer("sin_cached", None, persistent=False)
        self._compute(max_position_embeddings, device)

    def _compute(self, length: int, device: torch.device | str | None) -> None:
        self.max_seq_len_cached = length
        table = self.rope.table(torch.arange(length))
        self.cos_cached = torch.cat((table.cos, table.cos), -1)[None, None].to(device)
        self.sin_cached = torch.cat((table.sin, table.sin), -1)[None, None].to(device)

    def forward(self, x: torch.Tensor, seq_len: int | None = None) -> Tensors:
        """cos and sin of positions 0 .. seq_len - 1 (x.shape[-2] when None), [1, 1, seq_len, D] in the type of x."""
        length = x.shape[-2] if seq_len is None else seq_len
        if length > self.max_seq_len_cached:
            self._compute(length, self.cos_cached.device)
        return self.cos_cached[:, :, :length].to(x.dtype), self.sin_cached[:, :, :length].to(x.dtype)


class Qwen3RotaryEmbedding(nn.Module):
    """cos and sin by a model's config, as Hugging Face's Qwen3 makes them: all rope types, half-split pairs.

    config: an object with hidden_size, num_attention_heads, head_dim (optional), max_position_embeddings, rope_theta
        and rope_scaling (None, or a dict with `rope_type` or the old `type`), or with rope_parameters; a transformers
        config; or a dict of these.

    `inv_freq` [R/2] and `attention_scaling` are those of the original length; for dynamic and longrope, frequencies
    follow the longest position of each call.
    """

    inv_freq: torch.Tensor

    attention_scaling: float

    def __init__(self, config: Any, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.config = config
        self.rope_type = rope_of(config).type
        self.rope_init_fn = ROPE_INIT_FUNCTIONS[self.rope_type]
        inv_freq, self.attention_scaling = self.rope_init_fn(config, device)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    @torch.no_grad()
    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> Tensors:
        """cos and sin [B, T, R] of position_ids [B, T], in the type of x; the angles are float32 whatever that is."""
        inv_freq, scaling = self.inv_freq, self.attention_scaling
        if self.rope_type in ("dynamic", "longrope"):
            inv_freq, scaling = self.rope_init_fn(self.config, x.device, int(position_ids.max()) + 1)
        angles = position_ids[..., None].float() * inv_freq.float()
        angles = torch.cat((angles, angles), -1)
        return (angles.cos() * scaling).to(x.dtype), (angles.sin() * scaling).to(x.dtype)


_CONFIG_KEYS = (
    "model_type",
    "hidden_size",
    "num_attention_heads",
    "head_dim",
    "max_position_embeddings",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
)


def rope_of(config: Any) -> Rope:
    """The Rope of a config, which need not be a transformers one."""
    if isinstance(config, Mapping) or hasattr(config, "to_dict"):
        return Rope.from_config(config)
    given = {key: getattr(config, key) for key in _CONFIG_KEYS if getattr(config, key, None) is not None}
    return Rope.from_config(given)


def _frequencies(
    rope_type: str, config: Any, device: torch.device | str | None = None, seq_len: int | None = None
) -> tuple[torch.Tensor, float]:
    rope = rope_of(config)
    if rope.type != rope_type:
        raise ValueError(f"[ROPE_INIT_FUNCTIONS] config: rope_type {rope.type}, expected {rope_type}")
    inv_freq, scaling = rope._config.frequencies(seq_len or 0)
    return torch.from_numpy(inv_freq).to(device, torch.float32), scaling


# By rope_type: (config, device, seq_len) -> (inv_freq, attention_scaling).
ROPE_INIT_FUNCTIONS = {
    name: functools.partial(_frequencies, name)
    for name in ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "ntk")
}


class RotaryPositionalEncoding(nn.Module):
    """RoPE on q and k [B, H, T, D], half-split pairs, with a table that is kept and grows as needed.

    dim: channels of a head.
    """

    def __init__(self, dim: int, max_len: int = 2048, base: float = 10000.0) -> None:
        super().__init__()
        self.tables = RotaryEmbedding(dim, max_len, base)

    def forward(self, q: torch.Tensor, k: torch.Tensor | None = None, offset: int = 0) -> Any:
        """(q, k) rotated, or q alone; the first token stands at `offset`."""
        cos, sin = self.tables(q.new_empty(0, dtype=torch.float32), seq_len=offset + self._tokens(q, k))
        cos, sin = cos[0, 0, offset:], sin[0, 0, offset:]
        rotated = [apply_rotary_pos_emb(x, cos[: x.shape[-2]], sin[: x.shape[-2]]) for x in (q, k) if x is not None]
        return rotated[0] if k is None else tuple(rotated)

    @staticmethod
    def _tokens(q: torch.Tensor, k: torch.Tensor | None) -> int:
        return max(q.shape[-2], 0 if k is None else k.shape[-2])
