"""bf16 tensors multiplied in bf16 (narrow.py): at most 1.5 times the error of torch in bf16."""

from __future__ import annotations

import os

import phasor
import phasor.torch
import pytest
import torch
from narrow import errors, make_case, results, w2_errors
from phasor import _phasor

COUNT = 1000 if os.environ.get("PHASOR_NIGHT") == "1" else 40
TARGETS = [name for name in ("AMX", "AVX512_BF16") if name in _phasor.simd_targets()] + ["EMU_BF16"]
MOST = 1.5


@pytest.fixture(params=TARGETS)
def target(request):
    _phasor.set_simd_target(request.param)
    yield request.param
    _phasor.set_simd_target("")


def test_error_beside_torchs(target):
    count = COUNT if target != "EMU_BF16" else 3
    for seed in range(count):
        for name, x in errors(seed).items():
            assert x.ours <= MOST * x.torchs, f"seed {seed}, {name}: {x}"


def test_w2_error_beside_torchs(target):
    """Also of float products. Storing the result in 16 bits shifts the gradients of all scores of a row: where a key has
    nearly all weight, that is more than what operations of torch round, which keep the weights.
    """
    count = COUNT if target != "EMU_BF16" else 3
    for seed in range(count):
        for name, x in w2_errors(seed).items():
            assert x.ours <= MOST * max(x.torchs, x.float) and x.float <= 2 * x.torchs, f"seed {seed}, {name}: {x}"


def test_precision_of_a_call_and_of_the_process(target):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 70, 33) for _ in range(3))
    narrow = tuple(x.bfloat16() for x in (q, k, v))
    attention = phasor.torch.attention
    stored, wide = attention(*narrow), attention(*narrow, precision="float")
    assert not stored.equal(wide)
    # Floats that hold bf16 are the same operands; the result is stored with more digits.
    rounded = attention(*(x.float() for x in narrow), precision="bf16")
    assert rounded.bfloat16().equal(stored) and not attention(q, k, v).equal(rounded)
    assert phasor.precision() == "storage"
    phasor.set_precision("float")
    try:
        assert attention(*narrow).equal(wide) and attention(*narrow, precision="storage").equal(stored)
        phasor.set_precision("bf16")
        assert attention(*(x.float() for x in narrow)).equal(rounded)
    finally:
        phasor.set_precision("storage")
    with pytest.raises(ValueError, match='precision: "half", expected "storage", "float" or "bf16"'):
        attention(q, k, v, precision="half")


@pytest.mark.skipif("AMX" not in TARGETS, reason="the CPU has no AMX")
def test_torch_and_phasor_use_tiles_in_turns():
    """torch's own attention of bf16, and phasor's, again and again in one process: each gives the same bits."""
    case = make_case(3)
    torchs, ours = torch.nn.functional.scaled_dot_product_attention, phasor.torch.scaled_dot_product_attention
    first = [results(f, case, torch.bfloat16) for f in (torchs, ours)]
    for _ in range(10):
        for f, expected in zip((torchs, ours), first):
            assert all(a.equal(b) for a, b in zip(results(f, case, torch.bfloat16), expected))
