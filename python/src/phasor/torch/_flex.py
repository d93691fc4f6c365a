"""torch.nn.attention.flex_attention.flex_attention, computed by phasor, with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import flex_attention as flex

from phasor._biases import RelativeBias
from phasor._block_mask import BlockMask
from phasor._errors import with_function_name
from phasor.torch._attention import attention
from phasor.torch._score_trace import Form, Indices, run


@with_function_name
def flex_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Callable[..., torch.Tensor] | None = None,
    block_mask: flex.BlockMask | BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: Any = None,
) -> Any:
    """torch's flex_attention on the CPU, with gradients, for those score_mods that are terms of phasor.attention.

    query: [B, H, T, D]; key: [B, G, S, D]; value: [B, G, S, E]; G differs from H only with enable_gqa.
    score_mod: score_mod(score, b, h, q_idx, kv_idx) made of: score + f(b, h, q_idx, kv_idx), score * f(b, h, q_idx),
        c * tanh(score / c), torch.where(f(b, h, q_idx, kv_idx), score, -inf). Tensors that it captures get gradients.
        It is followed function by function; anything else is a NotImplementedError that says what was found. A term of
        kv_idx alone, or of q_idx - kv_idx alone, takes memory that grows with S; one of both takes T x S.
    block_mask: torch's BlockMask, or phasor's.
    scale: what query . key is multiplied by; 1/sqrt(D) when None.
    return_lse: (out, lse) instead of out. return_aux: AuxRequest(lse=True) gives (out, AuxOutput); max_scores are not
        computed.
    kernel_options: tunes torch's GPU kernels, changes no result, and is not used.

    Under torch.compile a score_mod, and a BlockMask of torch that was not used before, break the graph.
    """
    key, value = _checked(query, key, value, block_mask, enable_gqa)
    if return_aux is not None and (return_lse or return_aux.max_scores):
        found = "max_scores" if return_aux.max_scores else "return_lse beside it"
        raise NotImplementedError(f"[flex_attention] return_aux: {found}, expected AuxRequest(lse=True)")
    if kernel_options:
        _check_kernel_options(kernel_options)
    options: dict[str, Any] = {} if score_mod is None else _options_of(score_mod, query, key, scale)
    if scale is not None:
        options.setdefault("scale", scale)
    with_lse = return_lse or (return_aux is not None and return_aux.lse)
    result = attention(query, key, value, block_mask=block_mask, return_lse=with_lse, **options)
    if return_aux is None:
        return result
    return (result[0], flex.AuxOutput(lse=result[1])) if with_lse else (result, flex.AuxOutput())


def _checked(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, block_mask: Any, enable_gqa: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """key and value, of as many sequences as query."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 4:
            raise ValueError(f"{name}: shape {list(x.shape)}, expected 4 dimensions")
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise ValueError(f"key: {key.shape[1]} heads beside {query.shape[1]} of query, expected the same, or enable_gqa=True")
    if isinstance(block_mask, flex.BlockMask) and block_mask.seq_lengths != (query.shape[2], key.shape[2]):
        raise ValueError(
            f"block_mask: for {block_mask.seq_lengths[0]} queries and {block_mask.seq_lengths[1]} keys, expected "
            f"{query.shape[2]} and {key.shape[2]}"
        )
    if key.shape[0] == value.shape[0] == 1 < query.shape[0] and block_mask is not None:
        return key.expand(query.shape[0], -1, -1, -1), value.expand(query.shape[0], -1, -1, -1)
    return key, value


def _check_kernel_options(options: Any) -> None:
    known = set(flex.FlexKernelOptions.__annotations__)
    for name in options:
        if name.removeprefix("fwd_").removeprefix("bwd_") not in known:
            raise ValueError(f"kernel_options: {name}, expected one of torch's FlexKernelOptions")


@torch._disable_dynamo
def _options_of(score_mod: Any, query: torch.Tensor, key: torch.Tensor, scale: float | None) -> dict[str, Any]:
    """Options of attention that do what score_mod does."""
    dtype = torch.float64 if query.dtype is torch.float64 else torch.float32
    sizes = {"b": query.shape[0], "h": query.shape[1], "q": query.shape[2], "k": key.shape[2]}
    if 0 in sizes.values():
        return {}
    mod = _Modification(score_mod, dtype, sizes)
    form = mod.form
    options: dict[str, Any] = {}
    factor = form.inner * (form.outer if form.capped else 1.0)
    if factor != 1.0:
        options["scale"] = factor * (query.shape[3] ** -0.5 if scale is None else scale)
    if form.capped:
        if not form.outer > 0:
            raise NotImplementedError(f"[flex_attention] score_mod: {form.outer} * tanh, expected a number above 0")
        options["softcap"] = form.outer
    return options | mod.factors() | mod.terms()


class _Modification:
    """A score_mod, and what its terms are worth on the indices of a call."""

    def __init__(self, score_mod: Any, dtype: torch.dtype, sizes: dict[str, int]) -> None:
        self._score_mod, self._dtype, self._sizes = score_mod, dtype, sizes
        with torch.no_grad():
            self.form: Form = self._grid(frozenset())[0]

    def _grid(self, indices: Indices) -> tuple[Form, Any]:
        """On all indices of the given names, 0 for the others."""
        b, h, q, k = (torch.arange(self._sizes[name] if name in indices else 1) for name in "bhqk")
        return run(self._score_mod, self._dtype, b, h, (q, k), False)

    def _distances(self) -> Any:
        """On all heads, and one pair of a query and a key for each distance 1 - T .. S - 1: [1, H, T + S - 1]."""
        distance = torch.arange(1 - self._sizes["q"], self._sizes["k"])
        pairs = (-distance).clamp(min=0), distance.clamp(min=0)
        return run(self._score_mod, self._dtype, torch.arange(1), torch.arange(self._sizes["h"]), pairs, True)[1]

    def factors(self) -> dict[str, Any]:
        found = self.form.factors
        if not found:
            return {}
        indices = frozenset("q").union(*(factor.indices for factor in found)) & frozenset("bhq")
        values = self._grid(indices)[1][: len(found)]
        product = values[0]
        for value in values[1:]:
            product = product * value
        return {"query_scale": product[..., 0]}

    def terms(self) -> dict[str, Any]:
        """By key alone, by distance alone, and all others."""
        kinds: dict[str, list[int]] = {"key_bias": [], "relative_bias": [], "mask": []}
        for i, term in enumerate(self.form.terms):
            by_key, by_distance = term.indices <= frozenset("bhk"), term.indices <= frozenset("hd")
            kinds["key_bias" if by_key else "relative_bias" if by_distance else "mask"].append(i)
        return {name: self._sum(name, which) for name, which in kinds.items() if which} | (
            {"query_offsets": 0} if kinds["relative_bias"] else {}
        )

    def _sum(self, kind: str, which: list[int]) -> Any:
        indices = frozenset[str]().union(*(self.form.terms[i].indices for i in which))
        if kind == "relative_bias":
            values = self._distances()
        elif kind == "key_bias":
            values = self._grid(indices | {"k"})[1]
        else:
            values = self._grid(indices | (frozenset("qk") if "d" in indices else frozenset()))[1]
        first = len(self.form.factors)
        total = sum((values[first + i] for i in which[1:]), values[first + which[0]])
        if kind == "key_bias":
            return total[:, :, 0]
        return RelativeBias(total[0], 1 - self._sizes["q"]) if kind == "relative_bias" else total
