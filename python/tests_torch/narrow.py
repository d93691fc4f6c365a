"""The error of phasor's bf16 attention beside that of torch's own bf16 SDPA: both against float64 on the same inputs.

    python narrow.py --count 200     # the table of docs/numerics.md
"""

from __future__ import annotations

import argparse
import random
from typing import Any, NamedTuple

import phasor.torch
import torch

NAMES = ("out", "grad q", "grad k", "grad v")


class Case(NamedTuple):
    """Arguments of scaled_dot_product_attention, and the gradient of the loss by its result."""

    streams: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    grad_out: torch.Tensor
    options: dict[str, Any]


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
    return Case((q, k, v), grad_out, options)


def results(function: Any, case: Case, dtype: torch.dtype) -> list[torch.Tensor]:
    """out and the gradients of q, k and v, in double."""
    streams = [x.to(dtype).requires_grad_() for x in case.streams]
    options = {name: x.to(dtype) if isinstance(x, torch.Tensor) else x for name, x in case.options.items()}
    out = function(*streams, **options)
    return [x.detach().double() for x in (out, *torch.autograd.grad(out, streams, case.grad_out.to(dtype)))]


def errors(seed: int) -> dict[str, tuple[float, float]]:
    """By tensor: the root mean squares of the errors of phasor and of torch, relative to that of the tensor."""
    case = make_case(seed)
    torchs = torch.nn.functional.scaled_dot_product_attention
    exact = results(torchs, case, torch.float64)
    ours = results(phasor.torch.scaled_dot_product_attention, case, torch.bfloat16)
    theirs = results(torchs, case, torch.bfloat16)
    found = {}
    for name, x, a, b in zip(NAMES, exact, ours, theirs):
        norm = x.square().mean().sqrt()
        found[name] = tuple(((y - x).square().mean().sqrt() / norm).item() for y in (a, b))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many seeds")
    count = parser.parse_args().count
    cases = [errors(seed) for seed in range(count)]
    print("| tensor | phasor | torch | worst ratio of a case |\n|---|---|---|---|")
    for name in NAMES:
        ours, theirs = zip(*(case[name] for case in cases))
        worst = max(a / b for a, b in zip(ours, theirs))
        print(f"| {name} | {sum(ours) / count:.1e} | {sum(theirs) / count:.1e} | {worst:.2f} |")


if __name__ == "__main__":
    main()
