"""Attention in plain torch with torch's own autograd: in float64 what is right, in float32 how far plain float is off.

Nothing here is phasor's. A case (differential_cases.py) has the arguments of a call; results and gradients are
dictionaries by name.
"""

from __future__ import annotations

import math
from typing import Any

import torch

INFINITY = math.inf


class LoopProduct(torch.autograd.Function):
    """a @ b by plain loops: one product at a time is added, in order, as a loop over floats does it."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        sum_ = a.new_zeros(*a.shape[:-1], b.shape[-1])
        for i in range(a.shape[-1]):
            sum_ += a[..., i, None] * b[..., None, i, :]
        return sum_

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        a, b = ctx.saved_tensors
        return LoopProduct.apply(gradient, b.mT), LoopProduct.apply(a.mT, gradient)


def by_loops(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return LoopProduct.apply(a, b)


def by_loops_backwards(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return LoopProduct.apply(a.flip(-1), b.flip(-2))


class Places:
    """Where the tokens of a case stand: positions within their sequences, and who may see whom."""

    def __init__(self, case: Any) -> None:
        options, shape = case.options, case.inputs["q"].shape
        batch, _, queries, _ = shape
        keys = case.inputs["k"].shape[2]
        starts = options.get("query_starts"), options.get("key_starts")
        ends = [(b, 0, queries, 0, keys) for b in range(batch)]
        if starts[0] is not None:
            ends = [(0, *starts[0][s : s + 2], *starts[1][s : s + 2]) for s in range(len(starts[0]) - 1)]
        self.distance = torch.zeros(batch, 1, queries, keys, dtype=torch.int64)
        self.seen = torch.zeros(batch, 1, queries, keys, dtype=torch.bool)
        for s, (b, q0, q1, k0, k1) in enumerate(ends):
            offset = _of_sequence(options.get("query_offsets"), s, (k1 - k0) - (q1 - q0))
            length = _of_sequence(options.get("key_lengths"), s, k1 - k0)
            position, key = offset + torch.arange(q1 - q0)[:, None], torch.arange(k1 - k0)
            seen = (key < length).expand(q1 - q0, -1)
            if options.get("causal"):
                seen = seen & (key <= position)
            window = options.get("window")
            left, right = window if isinstance(window, tuple) else (window, None)
            if left is not None:
                seen = seen & (key > position - left)
            if right is not None:
                seen = seen & (key < position + right)
            self.distance[b, 0, q0:q1, k0:k1] = key - position
            self.seen[b, 0, q0:q1, k0:k1] = seen


def _of_sequence(numbers: Any, s: int, default: int) -> int:
    if numbers is None:
        return default
    if isinstance(numbers, int):
        return numbers
    return int(numbers[s] if len(numbers) > 1 else numbers[0])


class Computation:
    """One case in one type of arithmetic, with one kind of product: results, and the pieces that sizes are made of. A shift of
    all scores, the sinks' too, changes nothing but the roundings."""

    def __init__(self, case: Any, dtype: torch.dtype, product: Any = torch.matmul, shift: float = 0.0) -> None:
        self.case, self.dtype, self.product, self.shift = case, dtype, product, shift
        self.learned = {
            name: x.detach().to(dtype).requires_grad_() for name, x in case.clean.items() if x.is_floating_point()
        }
        places = Places(case)
        self.group = case.inputs["q"].shape[1] // case.inputs["k"].shape[1]
        scores = self._w2_scores() if case.is_w2 else self._dot_scores()
        self.unscaled_scores, self.query_scale = scores, torch.ones((), dtype=dtype)
        if "query_scale" in self.learned:
            self.query_scale = self.learned["query_scale"][..., None]
            scores = scores * self.query_scale
        self.bare_scores, cap = scores, case.options.get("softcap")
        self.slope_of_cap: Any = 1.0
        if cap:
            bent = torch.tanh(scores / cap)
            self.slope_of_cap = 1 - bent.detach() ** 2
            scores = cap * bent
        scores, self.seen = self._biased(scores, places)
        self._attend(scores)

    def _spread(self, x: torch.Tensor) -> torch.Tensor:
        return x.repeat_interleave(self.group, 1)

    def rotated(self, x: torch.Tensor, name: str) -> torch.Tensor:
        table = self.case.options.get(name)
        if table is None:
            return x
        parts = (self.learned.get(f"{name}_cos", table.cos), self.learned.get(f"{name}_sin", table.sin))
        cos, sin = (part.to(self.dtype)[..., : x.shape[2], :] for part in parts)
        cos, sin = (part[:, None] if part.dim() == 3 else part for part in (cos, sin))
        return rotate(x, cos, sin, table.pairing)

    def _dot_scores(self) -> torch.Tensor:
        scale = self.case.options.get("scale")
        self.scale = self.learned["q"].shape[3] ** -0.5 if scale is None else scale
        self.q = self.rotated(self.learned["q"], "q_rotary")
        self.k = self._spread(self.rotated(self.learned["k"], "k_rotary"))
        if self.product is not torch.matmul:  # some programs scale q first, others the scores
            return self.product(self.q * self.scale, self.k.mT)
        return self.product(self.q, self.k.mT) * self.scale

    def _w2_scores(self) -> torch.Tensor:
        """In float64 by the definition; in float by the expansion around a mean key, the form that a plain program has
        which does not hold T x S x D differences."""
        x, scale = self.learned, self.case.options.get("scale")
        self.scale = 1.0 if scale is None else scale
        q = torch.cat((self.rotated(x["q"], "q_rotary"), (x["q_log_sigma"] / 2).exp()), -1)
        k = torch.cat((self.rotated(x["k"], "k_rotary"), (x["k_log_sigma"] / 2).exp()), -1)
        middle = k.detach().mean(-2, keepdim=True)
        self.q, self.k = q - self._spread(middle), self._spread(k - middle)
        self.temperature = x["tau"].abs() + self.case.options.get("eps", 1e-6)
        if self.dtype is torch.float64:
            squares = (self.q[:, :, :, None] - self.k[:, :, None]).square().sum(-1)
        else:
            squares = self.q.square().sum(-1)[..., None] + self.k.square().sum(-1)[:, :, None]
            squares = squares - 2 * self.product(self.q, self.k.mT)
        return -squares / self.temperature * self.scale

    def _biased(self, scores: torch.Tensor, places: Places) -> tuple[torch.Tensor, torch.Tensor]:
        options, x = self.case.options, self.learned
        exact = scores
        seen = places.seen.expand(scores.shape)
        biases = []
        if "key_bias" in x:
            bias = x["key_bias"]
            bias = bias[(None,) * (3 - bias.dim())]
            of_key_heads = bias.shape[1] == scores.shape[1] // self.group
            biases.append((self._spread(bias) if of_key_heads else bias)[:, :, None])
        if "relative_bias" in x:
            column = (places.distance - options["relative_bias"][1]).clamp(0, x["relative_bias"].shape[1] - 1)
            biases.append(x["relative_bias"][:, column[:, 0]].movedim(0, 1))
        if "alibi_slopes" in x:
            biases.append(-x["alibi_slopes"][:, None, None] * places.distance.abs().to(self.dtype))
        if "mask" in x:
            biases.append(x["mask"])
        elif options.get("mask") is not None:
            seen = seen & options["mask"]
        if "block_mask" in options:
            seen = seen & seen_in_blocks(options["block_mask"], *scores.shape[2:])
        self.biases = torch.zeros_like(scores)  # their sum, for the sizes of gradients
        for bias in biases:
            hidden = bias == -INFINITY
            finite = bias.masked_fill(hidden, 0.0)
            scores, seen, self.biases = scores + finite, seen & ~hidden, self.biases + finite
        if self.case.rounds_scores and self.dtype is torch.float64:
            # Masks of -1e9 on every key: what float makes of these scores is what is meant, and weights follow from it.
            rounded = exact.detach().float() + sum((bias.detach().float() for bias in biases), torch.zeros(()))
            scores = scores + (rounded.double() - scores).detach()
        return scores, seen

    def _attend(self, scores: torch.Tensor) -> None:
        scores = scores + self.shift
        top = scores.detach().masked_fill(~self.seen, -INFINITY).amax(-1, keepdim=True)
        sinks = self.learned.get("sinks")
        sinks = None if sinks is None else (sinks + self.shift)[:, None, None].expand_as(top)
        if sinks is not None:
            top = torch.maximum(top, sinks.detach())
        top = top.masked_fill(top == -INFINITY, 0.0)
        powers = (scores.masked_fill(~self.seen, 0.0) - top).masked_fill(~self.seen, -INFINITY).exp()
        total = powers.sum(-1, keepdim=True)
        if sinks is not None:
            self.sink_power = (sinks - top).exp()
            total = total + self.sink_power
        alone = total == 0  # no key in sight
        safe = total.masked_fill(alone, 1.0)
        self.weights = powers / safe
        if sinks is not None:
            self.sink_weight = self.sink_power.detach() / safe.detach()
        dropped = self.weights * self.case.keep.to(self.dtype)
        lse = (top + safe.log() - self.shift).masked_fill(alone, -INFINITY)
        self.results = {"lse": lse.squeeze(-1), "weights": dropped}
        for out, value in (("out", "v"), ("out_log_sigma", "v_log_sigma")):
            if value in self.learned:
                self.results[out] = self.product(dropped, self._spread(self.learned[value]))

    def gradients(self) -> dict[str, torch.Tensor]:
        loss = torch.zeros((), dtype=self.dtype)
        for name, factor in self.case.loss.items():
            result = self.results[name]
            loss = loss + (result.masked_fill(result == -INFINITY, 0.0) * factor.to(self.dtype)).sum()
        names = list(self.learned)
        found = torch.autograd.grad(loss, [self.learned[name] for name in names], allow_unused=True, retain_graph=True)
        return {
            f"grad {name}": torch.zeros_like(self.learned[name]) if x is None else x for name, x in zip(names, found)
        }


def seen_in_blocks(mask: Any, queries: int, keys: int) -> torch.Tensor:
    """A BlockMask, dense: the bit of each pair is looked up."""
    i, j = torch.arange(queries)[:, None], torch.arange(keys)
    block = mask.blocks.long()[:, :, i // mask.query_block, j // mask.key_block]
    column = j % mask.key_block
    bits = torch.cat((mask.bits.view(torch.int64), torch.zeros(1, *mask.bits.shape[1:], dtype=torch.int64)))
    words = bits[block.clamp(min=-1), i % mask.query_block, column // 64]
    return ((words >> (column % 64)) & 1).bool() & (block >= 0) | (block == -2)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, pairing: str) -> torch.Tensor:
    rotated, rest = x[..., : 2 * cos.shape[-1]], x[..., 2 * cos.shape[-1] :]
    if pairing == "half":
        a, b = rotated.chunk(2, -1)
        rotated = torch.cat((a * cos - b * sin, a * sin + b * cos), -1)
    else:
        a, b = rotated[..., 0::2], rotated[..., 1::2]
        rotated = torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
    return torch.cat((rotated, rest), -1)
