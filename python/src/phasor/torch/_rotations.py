"""Rotation by bare cos and sin, as models do it: rotate_half, apply_rotary_pos_emb, LLaMA's complex form.

A bare table does not say which channels are pairs. Tables as wide as the head (Hugging Face) hold each angle twice and
are for the half-split pairs (i, i + D/2): their halves must be equal. Tables of half the width are for adjacent pairs.
"""

from __future__ import annotations

from typing import Any, Literal

import torch

from phasor import _rotary
from phasor._errors import with_function_name
from phasor._rotary import Pairing, RotaryTable
from phasor.torch._devices import has_kernels
from phasor.torch._plain import rotate_plainly
from phasor.torch._rotary import apply_rotary

Tensors = tuple[torch.Tensor, torch.Tensor]


def table_of(cos: torch.Tensor, sin: torch.Tensor, head_dim: int) -> RotaryTable:
    """cos and sin [..., D] or [..., D/2] as a table [..., D/2], float32."""
    pairing = pairing_of(cos, sin, head_dim)
    half = head_dim // 2
    return RotaryTable(cos[..., :half].float(), sin[..., :half].float(), pairing)


def rows_of(table: RotaryTable) -> RotaryTable:
    """A table [1, 1, T, D/2] or [B, 1, T, D/2] as attention takes it: [T, D/2] or [B, T, D/2]."""
    return RotaryTable(_rows(table.cos, 2), _rows(table.sin, 2), table.pairing)


def pairing_of(cos: torch.Tensor, sin: torch.Tensor, head_dim: int) -> Pairing:
    """By the width of a bare table; ValueError where its halves differ."""
    if cos.shape != sin.shape:
        raise ValueError(f"sin: shape {list(sin.shape)}, expected {list(cos.shape)} as cos has")
    if 2 * cos.shape[-1] == head_dim:
        return "adjacent"
    if cos.shape[-1] != head_dim:
        raise ValueError(
            f"cos: {cos.shape[-1]} channels, expected {head_dim} (half-split pairs) or {head_dim // 2} (adjacent pairs)"
        )
    if not torch.compiler.is_compiling():  # the check looks at values
        _check_halves("cos", cos)
        _check_halves("sin", sin)
    return "half"


def _check_halves(name: str, table: torch.Tensor) -> None:
    first, second = table.chunk(2, -1)
    if table.is_meta or torch.equal(first, second):
        return
    found = "two different halves"
    if torch.equal(table[..., 0::2], table[..., 1::2]):
        found = "a table for adjacent pairs, each angle twice in a row"
    raise ValueError(
        f"{name}: {found}, expected equal halves: pairing half turns channel i with i + {table.shape[-1] // 2}"
    )


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    """The second half of the channels, negated, before the first: a quarter turn of all half-split pairs."""
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


@with_function_name
def apply_rotary_pos_emb(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor | None = None,
    position_ids: torch.Tensor | None = None,
    unsqueeze_dim: int = 1,
) -> Any:
    """q cos + rotate_half(q) sin, and k likewise: (q, k) rotated.

    q: [B, H, T, D] with cos [B, T, D] or [1, 1, T, D]; or [B, T, H, D] with cos [B, T, D] and unsqueeze_dim=2, or with
        cos [T, D]. k: the same with its own heads.
    cos, sin: their halves must be equal, else ValueError: an adjacent-pair table here would change the length of
        vectors. Of D/2 channels: adjacent pairs.
    position_ids: [B, T], rows of cos and sin [length, D] to take.
    unsqueeze_dim: where cos and sin of fewer dimensions than q get that of heads.

    Also apply_rotary_pos_emb(x, cos, sin), which gives x rotated: x [..., T, D], cos [T, D] or any that broadcasts with
    it.
    """
    if sin is None:
        table = table_of(k, cos, q.shape[-1])
        return _rotated(q, table.cos, table.sin, table.pairing)
    table = table_of(cos, sin, q.shape[-1])
    cos, sin = table.cos, table.sin
    if position_ids is not None and cos.dim() == 2:
        cos, sin = cos[position_ids], sin[position_ids]
    if cos.dim() < q.dim():
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return _rotated(q, cos, sin, table.pairing), _rotated(k, cos, sin, table.pairing)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, pairing: Pairing) -> torch.Tensor:
    """By the kernel where it knows the layout, else in plain torch. cos and sin broadcast with x."""
    tokens = _token_dimension(x, cos)
    if tokens is None or not has_kernels(x) or cos.requires_grad or sin.requires_grad:
        _check_broadcast(x, cos)
        return rotate_plainly(x, cos, sin, pairing)
    rows = RotaryTable(_rows(cos, tokens), _rows(sin, tokens), pairing)
    if tokens == 2:
        return apply_rotary(x, rows)
    return apply_rotary(x.transpose(1, 2), rows).transpose(1, 2)


def _check_broadcast(x: torch.Tensor, cos: torch.Tensor) -> None:
    for size, rows in zip(reversed(x.shape[:-1]), reversed(cos.shape[:-1])):
        if size != rows and size != 1 and rows != 1:
            raise ValueError(
                f"cos: rows of shape {list(cos.shape[:-1])}, expected one for each token: a shape that broadcasts with "
                f"{list(x.shape[:-1])}"
            )


def _token_dimension(x: torch.Tensor, cos: torch.Tensor) -> Literal[1, 2, None]:
    """2 for x [B, H, T, D], 1 for [B, T, H, D], by the shape that cos broadcasts with; None for anything else."""
    if x.dim() != 4 or cos.dim() not in (2, 3, 4):
        return None
    batch, first, second = (1, 1, *cos.shape[:-1])[-3:]
    if batch not in (1, x.shape[0]):
        return None
    if first == 1 and second == x.shape[2]:
        return 2
    if second == 1 and first == x.shape[1]:
        return 1
    return None


def _rows(table: torch.Tensor, tokens: int) -> torch.Tensor:
    """[B, T, D/2], or [T, D/2] where all sequences share it."""
    if table.dim() == 4:
        table = table[:, 0] if tokens == 2 else table[:, :, 0]
    elif table.dim() == 3 and tokens == 1:
        table = table[None, :, 0]
    if table.dim() == 2:
        return table
    return table[0] if table.shape[0] == 1 else table


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0) -> torch.Tensor:
    """LLaMA's table: cos + i sin of position * theta^(-2j/dim), complex64 [end, dim/2]."""
    return torch.from_numpy(_rotary.precompute_freqs_cis(dim, end, theta))


def apply_rotary_emb(xq: torch.Tensor, xk: torch.Tensor, freqs_cis: torch.Tensor) -> Tensors:
    """LLaMA's rotation of adjacent pairs, (x[2i] + i x[2i+1]) * freqs_cis.

    xq: [B, T, H, D]; xk: [B, T, G, D]; freqs_cis: complex [T, D/2] from precompute_freqs_cis.
    """
    if not freqs_cis.is_complex():
        raise TypeError(
            f"[apply_rotary_emb] freqs_cis: {freqs_cis.dtype}, expected complex, as precompute_freqs_cis gives"
        )
    if freqs_cis.shape != (xq.shape[1], xq.shape[-1] // 2):
        raise ValueError(
            f"[apply_rotary_emb] freqs_cis: shape {list(freqs_cis.shape)}, "
            f"expected {[xq.shape[1], xq.shape[-1] // 2]}: a row for each token, a column for each pair"
        )
    cos, sin = freqs_cis.real.contiguous().float(), freqs_cis.imag.contiguous().float()
    table = RotaryTable(cos, sin, "adjacent")
    return _rotated_adjacent(xq, table), _rotated_adjacent(xk, table)


def _rotated_adjacent(x: torch.Tensor, table: RotaryTable) -> torch.Tensor:
    if has_kernels(x):
        return apply_rotary(x.transpose(1, 2), table).transpose(1, 2)
    return rotate_plainly(x, table.cos[:, None], table.sin[:, None], "adjacent")


def generate_rope_embeddings(
    seq_len: int,
    head_dim: int,
    base: float = 10000.0,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Tensors:
    """cos and sin of position * base^(-2i/head_dim), [seq_len, head_dim/2] each, for adjacent pairs.

    Angles are computed in double whatever `dtype` (float32 when None): in bfloat16 positions above 256 would collide.
    """
    if head_dim < 2 or head_dim % 2 != 0:
        raise ValueError(f"[generate_rope_embeddings] head_dim: {head_dim}, expected an even number of at least 2")
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    angles = torch.outer(torch.arange(seq_len, dtype=torch.float64), base**-exponents)
    dtype = dtype or torch.float32
    return angles.cos().to(device, dtype), angles.sin().to(device, dtype)
