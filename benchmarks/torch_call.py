"""What a call of phasor.torch costs over the C++ function: a shape so small that the kernel hardly counts.

    OMP_NUM_THREADS=1 build/torch-venv/bin/python benchmarks/torch_call.py

Prints microseconds of processor time a call, the least of 16 runs; the C++ functions' own times are on the first lines. A
step is a call and the backward pass by torch.autograd.grad, which for torch's own multiplication takes what the last
line says.
"""

from __future__ import annotations

import time

import phasor
import phasor.torch
import torch
from phasor import _phasor


def measure(name: str, call) -> None:
    number, least = 500, float("inf")
    for _ in range(16):
        start = time.process_time()
        for _ in range(number):
            call()
        least = min(least, (time.process_time() - start) / number * 1e6)
    print(f"{name:52} {least:6.1f} us")


def main() -> None:
    torch.set_num_threads(1)
    phasor.set_num_threads(1)
    x = torch.ones(1, 1, 1, 8)
    out, softmax = torch.empty_like(x), torch.empty(1, 1, 1, 2)
    gradients = [torch.empty_like(x) for _ in range(3)]
    q, k, v = (torch.ones(1, 1, 1, 8, requires_grad=True) for _ in range(3))
    table = phasor.Rope(8).table(torch.arange(1))
    rotated = {"causal": True, "q_rotary": table, "k_rotary": table}
    step = torch.autograd.grad
    sdpa = torch.nn.functional.scaled_dot_product_attention
    measure("C++ forward", lambda: _phasor.attention_forward(x, x, x, out, None, softmax, None))
    backward = _phasor.attention_backward
    measure("C++ backward", lambda: backward(x, x, x, out, softmax, x, None, *gradients, option_gradients={}))
    w2 = _phasor.w2_attention_forward
    measure("C++ W2 forward", lambda: w2(x, x, x, x, x, x, out, gradients[0], None, None, None))
    measure("attention", lambda: phasor.torch.attention(x, x, x))
    measure("attention, causal, rotated", lambda: phasor.torch.attention(x, x, x, **rotated))
    measure("attention, recording gradients", lambda: phasor.torch.attention(q, k, v))
    measure("attention, step", lambda: step(phasor.torch.attention(q, k, v), (q, k, v), x))
    measure("w2_attention", lambda: phasor.torch.w2_attention(x, x, x, x, x, x))
    measure("apply_rotary", lambda: phasor.torch.apply_rotary(x, table))
    measure("torch's scaled_dot_product_attention", lambda: sdpa(x, x, x))
    measure("torch's scaled_dot_product_attention, step", lambda: step(sdpa(q, k, v), (q, k, v), x))
    measure("torch's multiplication, step", lambda: step(q * k, (q, k), x))


main()
