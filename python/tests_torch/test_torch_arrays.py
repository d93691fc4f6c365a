"""The NumPy functions on torch tensors: the same memory, torch results."""

from __future__ import annotations

import numpy as np
import phasor
import pytest
import torch
from phasor import _phasor


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
    out, lse, softmax = phasor.attention(q, k, k, **options, return_lse=True, return_softmax=True)
    assert isinstance(out, torch.Tensor) and out.dtype == dtype and lse.dtype == softmax.dtype == torch.float32
    wide = [x.float().numpy() for x in (q, k, k)]
    options["mask"] = mask.numpy()
    expected = phasor.attention(*wide, **options)
    np.testing.assert_allclose(out.float(), expected, atol=1e-6 if dtype == torch.float32 else 0.02)
    gradients = phasor.attention_backward(q, k, k, out, softmax, q, **options)
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


def recorded(tensor):
    return tensor.clone().requires_grad_()


def negative(tensor):
    return torch._neg_view(tensor)


@pytest.mark.parametrize(
    "change, error, words",
    [
        (recorded, TypeError, "requires a gradient, which this function does not record"),
        (negative, ValueError, r"a view that negates its memory, expected x.resolve_neg\(\)"),
        (lambda tensor: tensor.to("meta"), TypeError, "on device meta, expected the CPU's memory"),
    ],
)
def test_tensors_that_are_more_than_their_memory(change, error, words):
    q = torch.randn(1, 2, 3, 8)
    table = phasor.Rope(8).table(torch.arange(3))
    turned = phasor.RotaryTable(table.cos, change(table.sin), table.pairing)
    bad, softmax = change(q), torch.randn(1, 2, 3, 2)
    streams = ("q_mu", "k_mu", "v_mu", "q_log_sigma", "k_log_sigma", "v_log_sigma")
    cache = phasor.KVCache(1, 2, 6, 8)
    cache.append(q, q)
    options = {
        "mask": change(torch.ones(3, 3)),
        "key_bias": change(torch.ones(3)),
        "relative_bias": change(torch.ones(2, 3)),
        "alibi_slopes": change(torch.ones(2)),
        "sinks": change(torch.ones(2)),
        "q_rotary": turned,
        "k_rotary": turned,
    }
    calls = [("q", lambda: phasor.attention(bad, q, q))]
    calls += [("k", lambda: phasor.attention(q, bad, q)), ("v", lambda: phasor.attention(q, q, bad))]
    calls += [(name, lambda name=name: phasor.attention(q, q, q, **{name: options[name]})) for name in options]
    calls += [(name, lambda name=name: phasor.w2_attention(**dict.fromkeys(streams, q) | {name: bad})) for name in streams]
    calls += [("tau", lambda: phasor.w2_attention(q, q, q, q, q, q, tau=change(torch.ones(()))))]
    calls += [("mask", lambda: phasor.w2_attention(q, q, q, q, q, q, mask=options["mask"]))]
    backward = {"q": q, "k": q, "v": q, "out": q, "softmax": softmax, "grad_out": q}
    for name, value in {"k": bad, "out": bad, "softmax": change(softmax), "grad_out": bad, "sinks": options["sinks"]}.items():
        calls += [(name, lambda name=name, value=value: phasor.attention_backward(**backward | {name: value}))]
    calls += [("k", lambda: cache.append(bad, q)), ("v", lambda: cache.append(q, bad))]
    calls += [("rotation", lambda: cache.append(q, q, turned)), ("q", lambda: cache.attention(bad))]
    calls += [("sinks", lambda: cache.attention(q, sinks=options["sinks"]))]
    calls += [("table", lambda: phasor.apply_rotary(q, turned)), ("x", lambda: phasor.apply_rotary(bad, table))]
    for name, call in calls:
        with pytest.raises(error, match=rf"\] {name}: {words}"):
            call()


def test_arrays_of_numpy_beside_tensors_are_looked_at_too():
    q = np.ones((1, 1, 2, 4), np.float32)
    with pytest.raises(TypeError, match="mask: requires a gradient"):
        phasor.attention(q, q, q, mask=torch.ones(2, 2, requires_grad=True))


def test_the_imaginary_part_of_a_conjugate():
    freqs = torch.polar(torch.ones(3, 4), torch.rand(3, 4))
    with pytest.raises(ValueError, match="sin: a view that negates"):
        phasor.rotary_table(freqs.real, freqs.conj().imag, pairing="adjacent")


def test_alibi_slopes_are_float32():
    q = torch.randn(1, 2, 3, 8)
    for dtype in (torch.float64, torch.bfloat16):
        with pytest.raises(TypeError, match=f"alibi_slopes: {str(dtype)[6:]}, expected float32"):
            phasor.attention(q, q, q, alibi_slopes=torch.ones(2, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_cache_of_8_bits(dtype):
    q, k = torch.from_numpy(normal(1, 8, 1, 32)).to(dtype), torch.from_numpy(normal(1, 2, 50, 32)).to(dtype)
    cache = phasor.KVCache(1, 2, 64, 32, dtype="int8")
    cache.append(k, k)
    out = cache.attention(q, causal=True)
    wide = torch.from_numpy(cache.keys * cache.key_scales[..., None]).to(torch.float64)
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), wide, wide, enable_gqa=True)
    assert isinstance(out, torch.Tensor) and out.dtype == dtype
    torch.testing.assert_close(out.double(), expected, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)
