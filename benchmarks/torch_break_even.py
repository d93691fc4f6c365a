"""From which size on phasor's attention is faster than torch's: the limits of python/src/phasor/torch/_rules.py.

    OMP_NUM_THREADS=1 build/torch-venv/bin/python benchmarks/torch_break_even.py [bfloat16]

Prints torch's time / phasor's, of the processor, least of 6 runs: forward, and a step, which is a call and the backward
pass, both also with dropout. Work is T x S x D for all heads.
"""

from __future__ import annotations

import sys
import time

import phasor
import phasor.torch
import torch

TOKENS = ((1, 32), (1, 128), (1, 512), (1, 2048), (4, 512), (8, 512), (16, 16), (16, 512), (24, 24), (32, 32), (48, 48), (64, 64))


def ratio(call) -> float:
    """call(function) with torch's function and with phasor's, in turns."""
    functions = torch.nn.functional.scaled_dot_product_attention, phasor.torch.scaled_dot_product_attention
    start = time.process_time()
    for function in functions:
        call(function)
    number = max(1, int(0.02 / (time.process_time() - start)))
    least = [float("inf"), float("inf")]
    for _ in range(6):
        for i, function in enumerate(functions):
            start = time.process_time()
            for _ in range(number):
                call(function)
            least[i] = min(least[i], time.process_time() - start)
    return least[0] / least[1]


def main() -> None:
    torch.set_num_threads(1)
    phasor.set_num_threads(1)
    dtype = getattr(torch, sys.argv[1] if len(sys.argv) > 1 else "float32")
    for batch, heads, channels in ((1, 12, 64), (8, 12, 64), (1, 32, 128)):
        for queries, keys in TOKENS:
            shapes = ((batch, heads, n, channels) for n in (queries, keys, keys))
            q, k, v = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)
            grad = torch.randn_like(q)
            with torch.no_grad():
                forward = ratio(lambda f: f(q, k, v))
                dropout = ratio(lambda f: f(q, k, v, None, 0.1))
            step, dropout_step = (ratio(lambda f: torch.autograd.grad(f(q, k, v, None, p), (q, k, v), grad)) for p in (0.0, 0.1))
            shape = f"B{batch} H{heads} T{queries} S{keys} D{channels}"
            work = q.numel() * keys / 2**20
            ratios = f"forward {forward:5.2f}  step {step:5.2f}  with dropout {dropout:5.2f} {dropout_step:5.2f}"
            print(f"{shape:26} work {work:7.2f} Mi  {ratios}", flush=True)


main()
