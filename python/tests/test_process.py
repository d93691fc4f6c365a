"""phasor in a busy process: many Python threads, an interrupt during a call, memory over many calls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import phasor

NIGHT = bool(os.environ.get("PHASOR_NIGHT"))


def call(seed):
    random = np.random.default_rng(seed)
    heads, queries, keys, channels = (int(random.integers(1, most)) for most in (5, 130, 130, 65))
    q = random.standard_normal((1, heads, queries, channels), dtype=np.float32)
    k = random.standard_normal((1, heads, keys, channels), dtype=np.float32)
    out, softmax = phasor.attention(q, k, k, causal=bool(seed % 2), return_softmax=True)
    return phasor.attention_backward(q, k, k, out, softmax, out, causal=bool(seed % 2)).q


def test_many_threads_give_the_bits_of_one():
    alone = [call(seed) for seed in range(60)]
    with ThreadPoolExecutor(16) as pool:
        for expected, given in zip(alone, pool.map(call, range(60))):
            np.testing.assert_array_equal(given, expected)


def test_an_interrupt_ends_as_keyboard_interrupt():
    """The call itself runs to its end; then Python sees the signal."""
    code = (
        "import signal, numpy as np, phasor\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "x = np.ones((1, 8, 4096, 128), np.float32)\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    while True: phasor.attention(x, x, x)\n"
        "except KeyboardInterrupt: print('interrupted', float(phasor.attention(x[:, :, :4], x, x).sum()))"
    )
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert program.stdout.readline() == "ready\n"
    time.sleep(0.5)
    program.send_signal(signal.SIGINT)
    out, error = program.communicate(timeout=120)
    assert out == f"interrupted {8 * 4 * 128:.1f}\n", error
    assert program.returncode == 0


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_does_not_grow():
    """What threads keep for their next call is there after the first calls."""
    calls = 10_000 if NIGHT else 600
    for seed in range(200):
        call(seed)
    before = resident()
    for seed in range(calls):
        call(seed)
    assert resident() - before < 32 * 2**20
    assert threading.active_count() < 64
