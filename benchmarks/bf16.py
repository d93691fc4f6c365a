"""Attention of bf16 in phasor.torch beside torch's own, and beside phasor's products of floats.

    build/torch-venv/bin/python benchmarks/bf16.py [--threads 1] [--heads 8]

Prints the least and the median time of alternating calls in milliseconds, and how many times as long torch takes. The
gradient of the loss by the result is given. W2's peer is what torch has: its attention over both streams with the norms of
the keys in a channel, which rounds them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import phasor
import phasor.torch
import torch

TOKENS = 2048


def times_of(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float]]:
    """The least and the median, of calls in turns."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if i > 0:  # the first ones allocate
                taken[name].append(1e3 * (time.perf_counter() - start))
    return {name: (min(each), statistics.median(each)) for name, each in taken.items()}


def w2_by_torch(q: Any, k: Any, v: Any, q_log: Any, k_log: Any, v_log: Any, *, tau: float, causal: bool) -> Any:
    """-|q - k|^2 / tau without the part that all keys of a query share."""
    rows = torch.cat((k, (k_log / 2).exp()), -1)
    norm, one = rows.square().sum(-1, keepdim=True), torch.ones_like(q[..., :1])
    queries = torch.cat((q, (q_log / 2).exp(), -0.5 * one), -1)
    values = torch.nn.functional.pad(torch.cat((v, v_log), -1), (0, 1))  # its kernel wants as many channels as of keys
    attention = torch.nn.functional.scaled_dot_product_attention
    out = attention(queries, torch.cat((rows, norm), -1), values, is_causal=causal, scale=2 / tau)
    return out[..., :-1].chunk(2, -1)


def measure(title: str, functions: dict[str, Callable[..., Any]], streams: list[Any], rounds: int, **options: Any) -> None:
    def forward(function: Callable[..., Any]) -> Any:
        with torch.no_grad():
            return function(*streams, **options)

    def training(function: Callable[..., Any]) -> Any:
        outs = function(*streams, **options)
        outs = (outs,) if isinstance(outs, torch.Tensor) else outs
        return torch.autograd.grad(outs, streams, [streams[0]] * len(outs))

    def in_float(run: Callable[..., Any]) -> None:
        phasor.set_precision("float")
        run(functions["phasor"])
        phasor.set_precision("storage")

    for name, run in (("forward", forward), ("forward + backward", training)):
        calls = {of: lambda f=f, r=run: r(f) for of, f in functions.items()}
        times = times_of(calls | {"phasor, float products": lambda r=run: in_float(r)}, rounds)
        text = "   ".join(f"{of} {least:.2f} ({median:.2f}) ms" for of, (least, median) in times.items())
        ratio = [times["torch"][i] / times["phasor"][i] for i in (0, 1)]
        print(f"{name:19} {title:16} {text}   torch / phasor {ratio[0]:.2f} ({ratio[1]:.2f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    phasor.set_num_threads(options.threads)

    def streams(count: int, channels: int) -> list[torch.Tensor]:
        shape = (1, options.heads, TOKENS, channels)
        return [torch.randn(shape, dtype=torch.bfloat16, requires_grad=True) for _ in range(count)]

    ours = phasor.torch.scaled_dot_product_attention
    functions = {"phasor": ours, "torch": torch.nn.functional.scaled_dot_product_attention}
    for channels in (64, 128):
        for causal in (False, True):
            title = f"D{channels} {'causal' if causal else 'full'}"
            measure(title, functions, streams(3, channels), options.rounds, is_causal=causal)
    ours = phasor.torch.w2_attention
    functions = {"phasor": ours, "torch": w2_by_torch}
    measure("W2 D64 causal", functions, streams(6, 64), options.rounds, tau=16.0, causal=True)


main()
