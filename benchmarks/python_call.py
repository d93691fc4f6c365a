"""What a call costs from Python: a shape so small that the kernel hardly counts.

    build/python-venv/bin/python benchmarks/python_call.py

Prints microseconds a call, the median of 15 runs, and the least, for phasor.attention and for the extension's function
under it. Both include the C++ function, so they bound what Python adds.
"""

from __future__ import annotations

import statistics
import sys
import timeit

import numpy as np
import phasor
from phasor import _phasor


def measure(name: str, call) -> None:
    number = 2000
    call()
    times = [seconds / number * 1e6 for seconds in timeit.repeat(call, number=number, repeat=15)]
    print(f"{name:44} {statistics.median(times):6.1f} us   least {min(times):6.1f} us")


def main() -> None:
    x = np.ones((1, 1, 1, 8), np.float32)
    out = np.empty_like(x)
    table = phasor.Rope(8).table([0])
    print("B1 H1 T1 S1 D8, float32")
    measure("_phasor.attention_forward, NumPy", lambda: _phasor.attention_forward(x, x, x, out, None, None, None))
    measure("phasor.attention, NumPy", lambda: phasor.attention(x, x, x))
    rotated = {"causal": True, "q_rotary": table, "k_rotary": table}
    measure("phasor.attention, NumPy, causal, rotated", lambda: phasor.attention(x, x, x, **rotated))
    measure("phasor.apply_rotary, NumPy", lambda: phasor.apply_rotary(x, table))
    if "--torch" in sys.argv:
        import torch

        t, t_out = torch.from_numpy(x), torch.empty(x.shape)
        measure("_phasor.attention_forward, torch", lambda: _phasor.attention_forward(t, t, t, t_out, None, None))
        measure("phasor.attention, torch", lambda: phasor.attention(t, t, t))


main()
