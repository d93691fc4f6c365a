"""Random calls of phasor.torch.attention and w2_attention: shapes, types, options, and inputs of many kinds."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import phasor
import torch

INFINITY = math.inf


@dataclass
class Case:
    seed: int
    kind: str
    is_w2: bool
    dtype: torch.dtype
    inputs: dict[str, torch.Tensor]  # as phasor gets them: q, k, v, log_sigmas, tau, and the options with a gradient
    clean: dict[str, torch.Tensor]  # the same, with 0 in rows that nobody sees
    options: dict[str, Any]  # all other options; relative_bias as (None, first_distance), learned tables without cos and sin
    loss: dict[str, torch.Tensor]  # what out, lse and others are multiplied by
    with_weights: bool = False
    rounds_scores: bool = False
    keep: torch.Tensor = field(default_factory=lambda: torch.ones(()))  # factors of dropout

    def __str__(self) -> str:
        shapes = " ".join(f"{name} {list(x.shape)}" for name, x in self.inputs.items())
        others = {
            k: f"{v.pairing} {'learned' if v.cos is None else list(v.cos.shape)}" if k.endswith("rotary") else v
            for k, v in self.options.items()
        }
        others = {k: list(v.shape) if isinstance(v, torch.Tensor) else v for k, v in others.items()}
        name = "w2_attention" if self.is_w2 else "attention"
        return f"seed {self.seed} ({self.kind}): {name} {self.dtype} {shapes}, {others}, weights {self.with_weights}"


KINDS = (
    "realistic",
    "realistic",
    "few visible keys",
    "one key chosen",
    "ALiBi far back",
    "key bias by position",
    "T5 offset",
    "key bias of -100",
    "hidden rows",
    "hidden rows",
    "near overflow",
    "masks of -1e9",
)
_ACCURATE = ("realistic", "few visible keys", "hidden rows")  # in which 16-bit types and W2 occur as well


class Maker:
    """One case from one seed."""

    def __init__(self, seed: int) -> None:
        self.random, self.torch = random.Random(seed), torch.Generator().manual_seed(seed)
        choose = self.random.choice
        kind = choose(KINDS)
        types = [torch.float32, torch.float32, torch.bfloat16, torch.float16] if kind in _ACCURATE else [torch.float32]
        self.batch, self.key_heads = choose([1, 1, 2, 3]), choose([1, 2, 4])
        self.heads = self.key_heads * choose([1, 1, 2, 3])
        self.queries = choose([1, 2, 5, 16, 17, 33, 64, 90])
        self.keys = choose([1, 3, 16, 40, 97, 130, 200])
        self.channels, self.value_channels = choose([4, 16, 24, 64, 128]), choose([1, 8, 40, 64])
        is_w2 = self.random.random() < 0.3 and kind not in ("near overflow", "one key chosen")
        self.case = Case(seed, kind, is_w2, choose(types), {}, {}, {}, {})
        self._streams()
        self._options()
        getattr(self, "_" + kind.lower().replace(" ", "_").replace("-", "minus_"))()
        drawn = self.random, self.torch
        self._terms()
        self.random, self.torch = drawn
        self._finish()

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.torch)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _streams(self) -> None:
        case = self.case
        q = (self.batch, self.heads, self.queries, self.channels)
        k, v = ((self.batch, self.key_heads, self.keys, n) for n in (self.channels, self.value_channels))
        size = self.channels**-0.25 if case.is_w2 else 1.0
        case.inputs = {"q": self.normal(*q) * size, "k": self.normal(*k) * size, "v": self.normal(*v)}
        if case.is_w2:
            logs = {"q_log_sigma": self.normal(*q), "k_log_sigma": self.normal(*k), "v_log_sigma": self.normal(*v)}
            case.inputs |= {name: x * 0.5 - 1 for name, x in logs.items()}
            case.inputs["tau"] = torch.tensor(self.random.choice([0.5, 1.0, -2.0, 4.0]))

    def _options(self) -> None:
        """What may be beside anything."""
        case, options = self.case, self.case.options
        if self.batch == 1 and self.chance(0.2):
            options |= {"query_starts": self._cuts(self.queries), "key_starts": self._cuts(self.keys)}
        sequences = len(options["query_starts"]) - 1 if "query_starts" in options else self.batch
        if self.chance(0.4):
            options["causal"] = True
        if self.chance(0.2):
            options["window"] = self.random.choice([1, 7, (20, 3), (None, 30), (50, None)])
        if self.chance(0.2):
            options["query_offsets"] = [self.random.randrange(0, 60) for _ in range(sequences)]
        if self.chance(0.2):
            starts = options.get("key_starts", [])
            lengths = [b - a for a, b in zip(starts, starts[1:])] if starts else [self.keys] * sequences
            options["key_lengths"] = [self.random.randint(0, length) for length in lengths]
        if self.chance(0.2):
            options["scale"] = self.random.choice([0.05, 0.3, 1.0]) if not case.is_w2 else self.random.choice([0.5, 2.0])
        if self.chance(0.15):
            options["softcap"] = self.random.choice([2.0, 30.0])
        if self.chance(0.2) and self.channels > 4:
            self._rotations()
        if self.chance(0.15):
            case.inputs["sinks"] = self.normal(self.heads)
        if self.chance(0.15):
            options["dropout"], options["seed"] = self.random.choice([0.1, 0.5]), self.random.randrange(2**64)
        self._biases()

    def _biases(self) -> None:
        case, options = self.case, self.case.options
        if self.chance(0.3):
            shape = [size if self.chance(0.6) else 1 for size in (self.batch, self.heads, self.queries)] + [self.keys]
            if self.chance(0.5):
                options["mask"] = torch.rand(shape, generator=self.torch) < 0.7
            else:
                case.inputs["mask"] = self.normal(*shape)
        if self.chance(0.2):
            shapes = [(self.keys,), (self.key_heads, self.keys), (self.batch, 1, self.keys)]
            case.inputs["key_bias"] = self.normal(*self.random.choice(shapes))
        choice = self.random.random()
        if choice < 0.15:
            case.inputs["alibi_slopes"] = torch.tensor(phasor.alibi_slopes(self.heads))
        elif choice < 0.3:
            self._table(self.normal(self.heads, self.random.choice([1, 17, 130])))

    def _table(self, table: torch.Tensor) -> None:
        self.case.inputs.pop("alibi_slopes", None)
        self.case.inputs["relative_bias"] = table
        self.case.options["relative_bias"] = (None, self.random.randint(-table.shape[1], 0))

    def _cuts(self, count: int) -> list[int]:
        return sorted([0, count, *(self.random.randint(0, count) for _ in range(2))])

    def _rotations(self) -> None:
        pairing, width = self.random.choice(["half", "adjacent"]), self.random.choice([self.channels, self.channels // 2])
        rope = phasor.Rope(self.channels, rotary_dim=width, pairing=pairing)
        first = self.random.choice([0, 1000])
        self.case.options["q_rotary"] = rope.table(torch.arange(first, first + self.queries))
        self.case.options["k_rotary"] = rope.table(torch.arange(self.keys))

    def _terms(self) -> None:
        """Options that came later, from numbers of their own: the other options of a seed stay what they were."""
        self.random, self.torch = random.Random(-1 - self.case.seed), torch.Generator().manual_seed(2**32 + self.case.seed)
        bias = self.case.inputs.get("key_bias")
        if bias is not None and bias.dim() == 2 and self.chance(0.7):  # of key heads: the same for query heads
            bias = bias.repeat_interleave(self.heads // self.key_heads, 0)
            self.case.inputs["key_bias"] = bias.expand(self.batch, -1, -1).clone() if self.chance(0.5) else bias
        if "q_rotary" in self.case.options and self.chance(0.5):
            self._learned_angles()
        if self.chance(0.15):
            shapes = [(self.queries,), (self.heads, self.queries), (self.batch, 1, self.queries)]
            self.case.inputs["query_scale"] = 1 + 0.3 * self.normal(*self.random.choice(shapes))
        if self.chance(0.2):
            shape = (*(size if self.chance(0.5) else 1 for size in (self.batch, self.heads)), self.queries, self.keys)
            coarse = torch.rand([-(-size // 16) for size in shape[2:]], generator=self.torch) < 0.6
            visible = torch.rand(shape, generator=self.torch) < self.random.choice([0.3, 0.9, 1.0])
            visible &= coarse.repeat_interleave(16, 0).repeat_interleave(16, 1)[: self.queries, : self.keys]
            size = self.random.choice([16, 128, (8, 40), (33, 70)])
            self.case.options["block_mask"] = phasor.make_block_mask(visible, size)

    def _learned_angles(self) -> None:
        """cos and sin of any shape that a table has."""
        for name, tokens, heads in (("q_rotary", self.queries, self.heads), ("k_rotary", self.keys, self.key_heads)):
            table = self.case.options[name]
            shapes = [(tokens,), (self.batch, tokens), (1, heads, tokens), (self.batch, heads, tokens), (1, 1, tokens)]
            angle = self.normal(*self.random.choice(shapes), table.cos.shape[-1]) * 3
            self.case.options[name] = phasor.RotaryTable(None, None, table.pairing)
            self.case.inputs |= {f"{name}_cos": angle.cos(), f"{name}_sin": angle.sin()}

    def _take_away(self, *names: str) -> None:
        for name in names:
            self.case.options.pop(name, None)
            self.case.inputs.pop(name, None)

    # The kinds.

    def _realistic(self) -> None:
        pass

    def _few_visible_keys(self) -> None:
        self.case.options |= {"window": self.random.choice([1, 2, (2, 2)]), "causal": self.chance(0.5)}

    def _one_key_chosen(self) -> None:
        self.case.inputs["q"] *= self.random.choice([5.0, 30.0])

    def _alibi_far_back(self) -> None:
        options, inputs = self.case.options, self.case.inputs
        self._take_away("query_starts", "key_starts", "window", "key_lengths", "relative_bias", "sinks")
        inputs["alibi_slopes"] = torch.tensor(phasor.alibi_slopes(self.heads))
        options["query_offsets"] = self.random.choice([2048, 8192, 131072])

    def _key_bias_by_position(self) -> None:
        """BLOOM's: slope x position, the rows' own part left to softmax."""
        self._take_away("query_starts", "key_starts", "query_offsets", "key_lengths")
        slopes = torch.tensor(phasor.alibi_slopes(self.key_heads))
        first = self.random.choice([0, 2000, 30000])
        self.case.inputs["key_bias"] = slopes[:, None] * (first + torch.arange(self.keys))

    def _t5_offset(self) -> None:
        self._table(self.normal(self.heads, self.random.choice([17, 130])) + 100)

    def _key_bias_of_minus_100(self) -> None:
        self._take_away("sinks")  # beside one, weights of e^-100 are 0 in float
        self.case.inputs["key_bias"] = torch.full((self.keys,), -100.0) + self.random.choice([0, 1]) * self.normal(self.keys)

    def _near_overflow(self) -> None:
        self.case.inputs["v"] *= 3e36
        self.loss_scale = 1e-30

    def _masks_of_minus_1e9(self) -> None:
        case = self.case
        self._take_away("mask", "sinks", "scale")  # scores stay small beside 64, the ulp of 1e9
        case.rounds_scores = True
        shape = (1, 1, self.queries, self.keys)
        # Distances of W2 do not.
        value = -2e38 if case.is_w2 else self.random.choice([-1e9, -2e38])
        if self.chance(0.5):  # every key of every row, or of every third row
            case.inputs["mask"] = torch.full(shape, value)
        else:
            case.inputs["mask"] = torch.where(torch.arange(self.queries)[:, None] % 3 == 0, value, 0.0).expand(shape).clone()

    def _hidden_rows(self) -> None:
        """Keys of the second half are hidden in one of the ways there are; what they hold counts for nothing."""
        case, options, inputs = self.case, self.case.options, self.case.inputs
        first = max(1, self.keys // 2)
        self._take_away("query_starts", "key_starts", "query_offsets", "key_lengths")
        way = self.random.choice(["lengths", "visible", "mask", "key_bias", "relative_bias", "causal", "window"])
        later = torch.arange(self.keys) >= first
        if way == "lengths":
            options["key_lengths"] = [first] * self.batch
        elif way == "visible":
            inputs.pop("mask", None)
            options["mask"] = ~later[None, None, None]
        elif way == "mask":
            options.pop("mask", None)
            inputs["mask"] = torch.zeros(1, 1, 1, self.keys).masked_fill(later, -INFINITY)
        elif way == "key_bias":
            inputs["key_bias"] = torch.zeros(self.keys).masked_fill(later, -INFINITY)
        else:  # the last query stands at the last key that is seen
            options["query_offsets"] = first - self.queries
            if way == "causal":
                options["causal"] = True
            elif way == "window":
                options["window"] = (None, 1)
            else:
                self._table(self.normal(self.heads, 2 * 300 + 1).masked_fill(torch.arange(-300, 301) > 0, -INFINITY))
                options["relative_bias"] = (None, -300)
        self.poison = (later, [math.nan, INFINITY, -INFINITY, 3e38 if case.dtype is not torch.float16 else 6e4])

    def _finish(self) -> None:
        case = self.case
        for name, x in case.inputs.items():
            if x.dim() == 4 and name != "mask" and "rotary" not in name:
                case.inputs[name] = x.to(case.dtype)
        case.clean = dict(case.inputs)
        if hasattr(self, "poison"):
            later, values = self.poison
            for name in ("k", "v", "k_log_sigma", "v_log_sigma"):
                if name in case.inputs:
                    case.clean[name] = case.inputs[name].masked_fill(later[:, None], 0.0)
                    case.inputs[name] = case.inputs[name].masked_fill(later[:, None], self.random.choice(values))
        shape = (self.batch, self.heads, self.queries)
        for out in ("out", "out_log_sigma")[: 1 + case.is_w2]:
            factor = self.normal(*shape, self.value_channels) * getattr(self, "loss_scale", 1.0)
            case.loss[out] = factor.to(case.dtype)
        if self.chance(0.4):
            case.loss["lse"] = self.normal(*shape)
        case.with_weights = self.chance(0.4)


def make_case(seed: int) -> Case:
    return Maker(seed).case
