"""A process forked after a call computes too."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import multiprocessing, numpy as np, phasor
x = np.random.default_rng(0).standard_normal((2, 4, 400, 64), dtype=np.float32)
phasor.set_num_threads(2)
expected = phasor.attention(x, x, x)
def attend(_):
    return phasor.attention(x, x, x)

context = multiprocessing.get_context("fork")
with context.Pool(2) as pool:
    for given in pool.map_async(attend, [0, 1, 2]).get(timeout=60):
        assert np.array_equal(given, expected)
print("same bits", np.array_equal(phasor.attention(x, x, x), expected))
"""


def test_calls_after_fork_give_the_same_bits():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, timeout=100)
    assert done.stdout == "same bits True\n", done.stderr
