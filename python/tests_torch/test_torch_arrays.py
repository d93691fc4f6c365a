"""The NumPy functions on torch tensors, where torch is there: the same memory, torch results."""

from __future__ import annotations

import numpy as np
import phasor
import pytest
from phasor import _phasor

torch = pytest.importorskip("torch")


def normal(*shape):
    return np.random.default_rng(29).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_extension_sees_the_memory_itself(dtype):
    whole = torch.from_numpy(normal(2, 3, 4, 6)).to(dtype)
    for x in (whole, whole[1:], whole.transpose(0, 1), whole.expand(2, 3, 4, 6), whole[:, :, 1:]):
        assert _phasor.address(x) == x.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_torch_gives_torch(dtype):
    q, k = (torch.from_numpy(normal(2, 6, 3, 8)).to(dtype).transpose(1, 2) for _ in range(2))
    table = phasor.Rope(8).table(torch.arange(6))
    assert isinstance(table.cos, torch.Tensor)
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    options = {"mask": mask, "q_rotary": table, "k_rotary": table, "alibi_slopes": torch.rand(3)}
    out, lse = phasor.attention(q, k, k, **options, return_lse=True)
    assert isinstance(out, torch.Tensor) and out.dtype == dtype and lse.dtype == torch.float32
    wide = [x.float().numpy() for x in (q, k, k)]
    options["mask"] = mask.numpy()
    expected = phasor.attention(*wide, **options)
    np.testing.assert_allclose(out.float(), expected, atol=1e-6 if dtype == torch.float32 else 0.02)
    gradients = phasor.attention_backward(q, k, k, out, lse, q, **options)
    assert gradients.q.dtype == dtype and isinstance(gradients.alibi_slopes, torch.Tensor)
    streams = phasor.w2_attention(q, k, k, q, k, k)
    assert all(isinstance(x, torch.Tensor) and x.dtype == dtype for x in streams)
    assert isinstance(phasor.apply_rotary(q, table), torch.Tensor)
    assert torch.equal(phasor.convert_pairing(q[0, 0], 1, to="half")[0], q[0, 0, 0])


def test_t5_bias_keeps_the_gradient():
    weight = torch.rand(32, 4, requires_grad=True)
    bias = phasor.t5_bias(weight)
    bias.table.sum().backward()
    assert weight.grad is not None and weight.grad.sum() == bias.table.numel()


def test_tensors_that_do_not_fit_are_named():
    q = torch.ones(1, 1, 2, 4)
    for bad, words in (
        (q.clone().requires_grad_(), "q: requires a gradient.*phasor.torch"),
        (q.to("meta"), "q: on device meta, expected the CPU"),
        (q.double(), "q: float64, expected float32"),
    ):
        with pytest.raises(TypeError, match=words):
            phasor.attention(bad, q, q)
    with torch.no_grad():
        phasor.attention(q.clone().requires_grad_(), q, q)


def test_an_empty_tensor_has_no_memory():
    q = torch.ones(1, 2, 0, 4)
    assert phasor.attention(q, q, q).shape == (1, 2, 0, 4)
