"""The error of phasor's bf16 attention beside that of torch in bf16: both against float64 on the same inputs.

    python narrow.py --count 200     # the tables of docs/numerics.md

torch's attention is its own SDPA. Wasserstein-2 attention, which it does not have, is composed of its operations.
"""

from __future__ import annotations

import argparse
import random
from typing import Any, NamedTuple

import eager
import phasor
import phasor.torch
import torch

NAMES = ("out", "grad q", "grad k", "grad v")
W2_NAMES = ("out mu", "out log_sigma", *(f"grad {x} {y}" for y in ("mu", "log_sigma") for x in "qkv"))


class Case(NamedTuple):
    """Arguments of a function, and the gradients of the loss by its results."""

    streams: tuple[torch.Tensor, ...]
    grad_outs: tuple[torch.Tensor, ...]
    options: dict[str, Any]


class Errors(NamedTuple):
    """Root mean squares of the errors of a tensor, relative to that of the tensor."""

    ours: float
    torchs: float
    float: float  # ours with precision="float"


def make_case(seed: int) -> Case:
    """Queries and keys of language models: heads in groups, causal or with a mask, some heads with large scores."""
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    batch, group, key_heads = draw.choice([1, 2]), draw.choice([1, 1, 2]), draw.choice([1, 2, 3])
    queries = draw.choice([17, 64, 100, 197, 256, 300])
    keys = draw.choice([queries, 33, 96, 130, 257, 512])
    channels = draw.choice([16, 40, 64, 65, 96, 128])
    size = draw.choice([1.0, 1.0, 2.0, 4.0])

    def normal(heads: int, rows: int) -> torch.Tensor:
        return torch.randn(batch, heads, rows, channels, generator=generator).bfloat16()

    q, k, v, grad_out = (normal(group * key_heads, queries) * size, normal(key_heads, keys), normal(key_heads, keys),
                         normal(group * key_heads, queries))  # fmt: skip
    options: dict[str, Any] = {"enable_gqa": group > 1}
    kind = draw.choice(["all", "causal", "mask"])
    if kind == "causal" and queries == keys:
        options["is_causal"] = True
    elif kind == "mask":
        options["attn_mask"] = torch.randn(batch, 1, queries, keys, generator=generator).bfloat16()
    return Case((q, k, v), (grad_out,), options)


def make_w2_case(seed: int) -> Case:
    """Queries that are far from the keys, near them, or the same; means around 0 or far from it."""
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    batch, group, key_heads = draw.choice([1, 2]), draw.choice([1, 1, 2]), draw.choice([1, 2])
    tokens, channels = draw.choice([17, 64, 100, 197]), draw.choice([8, 16, 40, 64])
    size, offset = draw.choice([1.0, 1.0, 2.0]), draw.choice([0.0, 0.0, 3.0, 30.0])

    def normal(heads: int, deviation: float = 1.0) -> torch.Tensor:
        return torch.randn(batch, heads, tokens, channels, generator=generator) * deviation

    heads = group * key_heads
    k_mu, k_log_sigma = normal(key_heads, size) + offset, normal(key_heads)
    kind = draw.choice(["far", "near", "same"])
    if kind == "far":
        q_mu, q_log_sigma = normal(heads, size) + offset, normal(heads)
    else:
        step = 0.1 if kind == "near" else 0.0
        q_mu, q_log_sigma = (x.repeat_interleave(group, 1) + normal(heads, step) for x in (k_mu, k_log_sigma))
    streams = (q_mu, k_mu, normal(key_heads), q_log_sigma, k_log_sigma, normal(key_heads))
    options = {"tau": size**2 * channels * draw.choice([0.25, 1.0, 4.0]), "causal": draw.choice([True, False])}
    return Case(tuple(x.bfloat16() for x in streams), (normal(heads).bfloat16(), normal(heads).bfloat16()), options)


def results(function: Any, case: Case, dtype: torch.dtype, **more: Any) -> list[torch.Tensor]:
    """The results and the gradients of the streams, in double."""
    streams = [x.to(dtype).requires_grad_() for x in case.streams]
    options = {name: x.to(dtype) if isinstance(x, torch.Tensor) else x for name, x in case.options.items()}
    out = function(*streams, **options, **more)
    outs = (out,) if isinstance(out, torch.Tensor) else out[:2]
    gradients = torch.autograd.grad(outs, streams, [x.to(dtype) for x in case.grad_outs])
    return [x.detach().double() for x in (*outs, *gradients)]


def compare(exact: list[torch.Tensor], *others: list[torch.Tensor]) -> list[Errors]:
    """Of each tensor of three others."""
    return [
        Errors(*(((y - x).square().mean().sqrt() / x.square().mean().sqrt()).item() for y in by))
        for x, *by in zip(exact, *others)
    ]


def errors(seed: int) -> dict[str, Errors]:
    """Of attention, by tensor."""
    case = make_case(seed)
    torchs, ours = torch.nn.functional.scaled_dot_product_attention, phasor.torch.scaled_dot_product_attention
    narrow = results(ours, case, torch.bfloat16)
    phasor.set_precision("float")
    wide = results(ours, case, torch.bfloat16)
    phasor.set_precision("storage")
    exact = results(torchs, case, torch.float64)
    return dict(zip(NAMES, compare(exact, narrow, results(torchs, case, torch.bfloat16), wide)))


def w2_errors(seed: int) -> dict[str, Errors]:
    """Of Wasserstein-2 attention, by tensor."""
    case = make_w2_case(seed)
    narrow = results(phasor.torch.w2_attention, case, torch.bfloat16)
    wide = results(phasor.torch.w2_attention, case, torch.bfloat16, precision="float")
    exact = results(eager.w2_attention, case, torch.float64)
    return dict(zip(W2_NAMES, compare(exact, narrow, results(eager.w2_attention, case, torch.bfloat16), wide)))


def write_table(cases: list[dict[str, Errors]]) -> None:
    print("| tensor | phasor | torch | phasor, float products | worst ratio to torch of a case |\n|---|---|---|---|---|")
    for name in cases[0]:
        of_tensor = [case[name] for case in cases]
        means = " | ".join(f"{sum(column) / len(cases):.1e}" for column in zip(*of_tensor))
        print(f"| {name} | {means} | {max(x.ours / x.torchs for x in of_tensor):.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many seeds")
    count = parser.parse_args().count
    for of_seed in (errors, w2_errors):
        write_table([of_seed(seed) for seed in range(count)])


if __name__ == "__main__":
    main()
