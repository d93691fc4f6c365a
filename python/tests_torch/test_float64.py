"""float64 on the CPU: plain torch, which gradcheck holds against differences."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import phasor
import phasor.torch
import pytest
import torch
from differential import _call
from differential_cases import make_case
from differential_oracle import Computation
from differential_rule import sizes

pytestmark = pytest.mark.filterwarnings("ignore:float64 tensors are computed")


def doubles(*shapes):
    torch.manual_seed(5)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("seed", range(500, 640))
def test_every_option(seed):
    case = make_case(seed)
    if "dropout" in case.options or case.kind in ("hidden rows", "masks of -1e9"):
        return  # other weights are dropped; and plain torch computes with NaN that nobody sees
    case.dtype = torch.float64
    case.inputs = case.clean = {name: x.double() for name, x in case.inputs.items()}
    case.loss = {name: x.double() for name, x in case.loss.items()}
    exact = Computation(case, torch.float64)
    expected = exact.results | exact.gradients()
    size = sizes(exact, case)
    for name, given in _call(case).items():
        largest = expected[name].detach().abs().nan_to_num(posinf=0).max().item() if given.numel() else 1.0
        # A gradient that is 0, as that of a bias which all keys have in common, is a sum whose terms cancel.
        terms = size[name].max().item() if name in size and given.numel() else 0.0
        allowed = 1e-9 * largest + 1e-14 * terms + 1e-300
        torch.testing.assert_close(given, expected[name].detach(), rtol=1e-9, atol=allowed)


def test_gradcheck_of_functions():
    q, k, v, mask, slopes = doubles((1, 2, 3, 4), (1, 1, 4, 4), (1, 1, 4, 2), (3, 4), (2,))
    table = phasor.Rope(4).table(torch.arange(4))
    rotated = {"q_rotary": phasor.Rope(4).table(torch.arange(3)), "k_rotary": table}

    def attention(q, k, v, mask, slopes):
        return phasor.torch.attention(q, k, v, mask=mask, alibi_slopes=slopes, causal=True, softcap=3.0, **rotated)

    assert torch.autograd.gradcheck(attention, (q, k, v, mask, slopes))
    assert torch.autograd.gradgradcheck(attention, (q, k, v, mask, slopes))
    assert torch.autograd.gradcheck(lambda q, k, v: phasor.torch.scaled_dot_product_attention(q, k, v, is_causal=True), (k, k, v))
    tau = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *x: phasor.torch.w2_attention(*x[:6], tau=x[6]), (q, k, v, q, k, v, tau))
    for transpose in (False, True):
        assert torch.autograd.gradcheck(lambda k: phasor.torch.apply_rotary(k, table, transpose=transpose), (k,))


def test_gradcheck_of_modules():
    x, y = doubles((1, 3, 8), (1, 3, 8))
    standard = phasor.torch.StandardAttentionWithRoPE(8, 2).double()
    tables = phasor.torch.generate_rope_embeddings(3, 4)
    assert torch.autograd.gradcheck(lambda x: standard(x, x, x, tables), (x,))
    config = SimpleNamespace(hidden_size=8, num_attention_heads=2, intermediate_size=16)
    block = phasor.torch.W2TransformerBlock(config).double()
    cos, sin = phasor.torch.RotaryEmbedding(4)(x, seq_len=3)
    assert torch.autograd.gradcheck(lambda x, y: block(x, y, (cos, sin), is_causal=True), (x, y))


def test_float64_stays_apart():
    x = torch.randn(1, 2, 3, 4)
    with pytest.raises(TypeError, match=r"\[attention\] k: float32, expected float64"):
        phasor.torch.attention(x.double(), x, x)
    with pytest.raises(TypeError, match=r"\[attention\] q: float64, expected float32, float16 or bfloat16"):
        phasor.attention(x.double(), x.double(), x.double())


def test_one_warning_a_process():
    code = (
        "import warnings, torch, phasor.torch as p\n"
        "x = torch.ones(1, 1, 2, 4, dtype=torch.float64)\n"
        "warnings.simplefilter('always')\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    p.attention(x, x, x); p.w2_attention(x, x, x, x, x, x); p.scaled_dot_product_attention(x, x, x)\n"
        "print(len(seen), seen[0].message)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.startswith("1 float64 tensors are computed in plain torch")
