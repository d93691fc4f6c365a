"""Masks in phasor.torch: masks of blocks beside the same work in other forms, and a learned mask beside torch.

    build/torch-venv/bin/python benchmarks/masks.py

Prints the least time of some alternating runs in milliseconds, on all threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import phasor
import phasor.torch
import torch


def measure(title: str, calls: dict[str, Callable[[], object]], rounds: int = 6) -> None:
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            least[name] = min(least[name], 1e3 * (time.perf_counter() - start))
    print(f"{title:32}", "   ".join(f"{name} {ms:.1f} ms" for name, ms in least.items()))


def tensors(heads: int, tokens: int) -> list[torch.Tensor]:
    return [torch.randn(1, heads, tokens, 64, requires_grad=True) for _ in range(3)]


def step(out: torch.Tensor, *inputs: torch.Tensor) -> object:
    return torch.autograd.grad(out, inputs, torch.ones_like(out))


def forward(function: Callable[..., torch.Tensor], *arguments: torch.Tensor, **options: object) -> torch.Tensor:
    with torch.no_grad():
        return function(*arguments, **options)


def main() -> None:
    torch.manual_seed(0)
    attention = phasor.torch.attention
    tokens = 4096
    q, k, v = tensors(8, tokens)

    document, token = torch.arange(tokens) // (tokens // 8), torch.arange(tokens)
    mask = phasor.make_block_mask((document[:, None] == document) & (token[:, None] >= token))
    starts = torch.arange(9) * (tokens // 8)
    forms = {"blocks": {"block_mask": mask}, "ragged": {"causal": True, "query_starts": starts}}
    measure("8 documents, causal, forward", {n: lambda o=o: forward(attention, q, k, v, **o) for n, o in forms.items()})
    measure("8 documents, causal, training", {n: lambda o=o: step(attention(q, k, v, **o), q, k, v) for n, o in forms.items()})

    seen = torch.rand(tokens // 128, tokens // 128) < 0.1
    visible = seen.repeat_interleave(128, 0).repeat_interleave(128, 1)
    forms = {"blocks": {"block_mask": phasor.make_block_mask(visible)}, "dense": {"mask": visible}}
    measure("9 of 10 blocks empty, forward", {n: lambda o=o: forward(attention, q, k, v, **o) for n, o in forms.items()})
    measure("9 of 10 blocks empty, training", {n: lambda o=o: step(attention(q, k, v, **o), q, k, v) for n, o in forms.items()})

    q, k, v = tensors(12, 1024)
    learned = torch.randn(1, 12, 1024, 1024, requires_grad=True)
    functions = {
        "phasor": phasor.torch.scaled_dot_product_attention,
        "torch": torch.nn.functional.scaled_dot_product_attention,
    }
    measure("learned mask, training", {n: lambda f=f: step(f(q, k, v, learned), q, k, v, learned) for n, f in functions.items()})


main()
