"""phasor.torch.attention, w2_attention and apply_rotary: results and gradients against eager torch in double."""

from __future__ import annotations

import eager
import numpy as np
import phasor
import phasor.torch
import pytest
import torch
from phasor import _phasor

B, H, G, T, S, D, E = 2, 4, 2, 9, 13, 16, 12


def normal(*shape, grad=True, scale=1.0):
    return (torch.randn(*shape) * scale).requires_grad_(grad)


def rope_table(count, first=0, pairing="half", rotary_dim=None, batch=None):
    positions = torch.arange(first, first + count)
    if batch:
        positions = positions + 3 * torch.arange(batch)[:, None]
    return phasor.Rope(D, pairing=pairing, rotary_dim=rotary_dim).table(positions)


CASES = {
    "plain": lambda: {},
    "causal": lambda: {"causal": True, "scale": 0.3},
    "window": lambda: {"causal": True, "window": 4, "softcap": 5.0},
    "offsets": lambda: {"causal": True, "query_offsets": [4, 1], "key_lengths": torch.tensor([13, 7])},
    "offset tensor": lambda: {"causal": True, "query_offsets": torch.tensor([4, 2]), "alibi_slopes": normal(H)},
    "bool mask": lambda: {"mask": torch.rand(B, 1, T, S) < 0.7},
    "float mask": lambda: {"mask": normal(B, H, T, S)},
    "broadcast mask": lambda: {"mask": normal(H, 1, S), "causal": True},
    "mask of all": lambda: {"mask": normal(T, 1)},
    "key bias": lambda: {"key_bias": normal(B, G, S)},
    "key bias of all": lambda: {"key_bias": normal(S)},
    "relative bias": lambda: {"relative_bias": phasor.RelativeBias(normal(H, 9), -6)},
    "alibi": lambda: {"alibi_slopes": normal(H), "causal": True},
    "alibi both ways": lambda: {"alibi_slopes": normal(H), "query_offsets": 1},
    "sinks": lambda: {"causal": True, "sinks": normal(H)},
    "sinks, softcap": lambda: {"sinks": normal(H), "softcap": 3.0, "key_bias": normal(B, G, S)},
    "half": lambda: {"q_rotary": rope_table(T, S - T), "k_rotary": rope_table(S)},
    "adjacent": lambda: {
        "q_rotary": rope_table(T, S - T, "adjacent", 8, B),
        "k_rotary": rope_table(S, 0, "adjacent", 8, B),
    },
    "everything": lambda: {
        "causal": True,
        "mask": normal(T, S),
        "key_bias": normal(1, S),
        "alibi_slopes": normal(H),
        "q_rotary": rope_table(T, S - T),
        "k_rotary": rope_table(S),
    },
}


def angles(pairing, *shapes):
    """Tables of learned angles."""
    return {
        name: phasor.RotaryTable(normal(*shape), normal(*shape), pairing)
        for name, shape in zip(("q_rotary", "k_rotary"), shapes)
    }


CASES |= {
    "query scale": lambda: {"query_scale": normal(B, H, T), "causal": True},
    "query scale of heads": lambda: {"query_scale": normal(H, T), "softcap": 3.0, "sinks": normal(H)},
    "query scale of all": lambda: {"query_scale": normal(T), "mask": normal(T, S)},
    "key bias of query heads": lambda: {"key_bias": normal(B, H, S), "query_scale": normal(B, 1, T)},
    "key bias of query heads, one batch": lambda: {"key_bias": normal(1, H, S), "alibi_slopes": normal(H)},
    "block mask": lambda: {"block_mask": phasor.make_block_mask(torch.rand(B, H, T, S) < 0.6, (4, 5))},
    "block mask of all": lambda: {
        "block_mask": phasor.make_block_mask((torch.rand(T, S) < 0.5).numpy(), 4),
        "key_bias": normal(H, S),
    },
    "angles of all": lambda: angles("half", (T, D // 2), (S, D // 2)),
    "angles of sequences": lambda: angles("adjacent", (B, T, D // 2), (B, S, D // 2)),
    "angles of one sequence": lambda: angles("half", (1, T, 4), (1, S, 4)),
    "angles of heads": lambda: angles("half", (1, H, T, D // 2), (1, G, S, D // 2)),
    "angles of heads, adjacent": lambda: angles("adjacent", (1, H, T, 4), (1, 1, S, 4)),
    "angles of everything": lambda: angles("half", (B, H, T, 3), (B, G, S, 3)) | {"causal": True, "softcap": 4.0},
    "angles of everything, adjacent": lambda: angles("adjacent", (B, H, T, 5), (B, G, S, 5)) | {"query_scale": normal(T)},
    "angles of k": lambda: {"k_rotary": angles("half", (1,), (B, 1, S, 2))["k_rotary"], "sinks": normal(H)},
    "cos alone": lambda: {
        "q_rotary": phasor.RotaryTable(normal(T, 4), normal(T, 4, grad=False), "half"),
        "k_rotary": phasor.RotaryTable(normal(S, 4, grad=False), normal(S, 4), "half"),
    },
}


def learned(options):
    """The tensors among options that require a gradient."""
    found = []
    for value in options.values():
        parts = (value.cos, value.sin) if isinstance(value, phasor.RotaryTable) else value
        parts = parts if isinstance(parts, tuple) else (parts,)
        found += [x for x in parts if isinstance(x, torch.Tensor) and x.requires_grad]
    return found


def check(ours, exact, inputs, exact_inputs):
    """Outputs and the gradients of a random function of them."""
    factors = [torch.randn(x.shape) for x in ours]
    for our, true in zip(ours, exact):
        torch.testing.assert_close(our.double(), true, rtol=1e-5, atol=1e-5)
    loss = sum((x * f).sum() for x, f in zip(ours, factors))
    exact_loss = sum((x * f.double()).sum() for x, f in zip(exact, factors))
    gradients = torch.autograd.grad(loss, inputs)
    exact_gradients = torch.autograd.grad(exact_loss, exact_inputs)
    for our, true in zip(gradients, exact_gradients):
        assert our.dtype is torch.float32 and our.shape == true.shape
        torch.testing.assert_close(our.double(), true, rtol=1e-4, atol=1e-4 * max(1.0, true.abs().max().item()))


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(11)


@pytest.mark.parametrize("case", CASES)
def test_attention(case):
    inputs = [normal(B, H, T, D), normal(B, G, S, D), normal(B, G, S, E)]
    options = CASES[case]()
    exact_inputs = [eager.to_double(x) for x in inputs]
    exact_options = {name: eager.to_double(x) for name, x in options.items()}
    ours = phasor.torch.attention(*inputs, **options, return_lse=True)
    exact = eager.attention(*exact_inputs, **exact_options)[:2]
    check(ours, exact, inputs + learned(options), exact_inputs + learned(exact_options))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("tau", [0.7, -2.0])
def test_w2_attention(case, tau):
    shapes = [(B, H, T, D), (B, G, S, D), (B, G, S, E)] * 2
    inputs = [normal(*shape, scale=0.5) for shape in shapes] + [torch.tensor(tau, requires_grad=True)]
    options = CASES[case]()
    doubles = [eager.to_double(x) for x in inputs]
    exact_options = {name: eager.to_double(x) for name, x in options.items()}
    ours = phasor.torch.w2_attention(*inputs[:6], tau=inputs[6], **options, return_lse=True)
    exact = eager.w2_attention(*doubles[:6], tau=doubles[6], **exact_options)[:3]
    check(ours, exact, inputs + learned(options), doubles + learned(exact_options))


def test_w2_tau_as_number_and_as_tensor_of_a_shape():
    streams = [normal(1, 2, 25, 8, grad=False) for _ in range(6)]  # more queries than the decode kernel takes
    tau = torch.full((1, 1), 0.5, requires_grad=True)
    out = phasor.torch.w2_attention(*streams, tau=tau)
    (gradient,) = torch.autograd.grad(out[0].sum(), tau)
    assert gradient.shape == (1, 1)
    for ours, number in zip(out, phasor.torch.w2_attention(*streams, tau=0.5)):
        assert torch.equal(ours, number)


@pytest.mark.parametrize("pairing", ["half", "adjacent"])
@pytest.mark.parametrize("transpose", [False, True])
def test_apply_rotary(pairing, transpose):
    x = normal(B, H, T, D)
    table = rope_table(T, 5, pairing, 8)
    exact_x = eager.to_double(x)
    exact_table = phasor.RotaryTable(table.cos, -table.sin if transpose else table.sin, pairing)
    ours = phasor.torch.apply_rotary(x, table, transpose=transpose)
    check([ours], [eager.rotate(exact_x, exact_table)], [x], [exact_x])


def test_rotary_has_all_derivatives():
    x = normal(1, 1, 3, D)
    table = rope_table(3, 1)
    (first,) = torch.autograd.grad(phasor.torch.apply_rotary(x, table).pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    exact = eager.to_double(x)
    (first,) = torch.autograd.grad(eager.rotate(exact, table).pow(3).sum(), exact, create_graph=True)
    (true,) = torch.autograd.grad(first.sum(), exact)
    torch.testing.assert_close(second.double(), true, rtol=1e-4, atol=1e-4)


def test_only_lse_or_only_one_stream_is_used():
    q, k, v = normal(1, 2, 5, 8), normal(1, 2, 5, 8), normal(1, 2, 5, 8)
    _, lse = phasor.torch.attention(q, k, v, return_lse=True)
    ours = torch.autograd.grad(lse.sum(), (q, k))
    doubles = [eager.to_double(x) for x in (q, k, v)]
    exact = torch.autograd.grad(eager.attention(*doubles)[1].sum(), doubles[:2])
    for our, true in zip(ours, exact):
        torch.testing.assert_close(our.double(), true, rtol=1e-4, atol=1e-5)
    streams = [normal(1, 2, 5, 8) for _ in range(6)]
    out_log_sigma = phasor.torch.w2_attention(*streams)[1]
    gradients = torch.autograd.grad(out_log_sigma.sum(), streams)
    doubles = [eager.to_double(x) for x in streams]
    exact = torch.autograd.grad(eager.w2_attention(*doubles)[1].sum(), doubles, allow_unused=True)
    assert exact[2] is None and not gradients[2].any()
    for our, true in zip(gradients, exact):
        if true is not None:
            torch.testing.assert_close(our.double(), true, rtol=1e-4, atol=1e-5)


def test_t5_bias_of_a_parameter():
    weight = normal(32, H)
    inputs = [normal(1, H, 40, D) for _ in range(3)]
    bias = phasor.t5_bias(weight, max_distance=20)
    out = phasor.torch.attention(*inputs, relative_bias=bias, scale=1.0)
    exact_weight = eager.to_double(weight)
    doubles = [eager.to_double(x) for x in inputs]
    exact_bias = phasor.t5_bias(exact_weight, max_distance=20)
    exact = eager.attention(*doubles, relative_bias=tuple(exact_bias), scale=1.0)[0]
    check([out], [exact], [*inputs, weight], [*doubles, exact_weight])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types(dtype):
    inputs = [normal(B, H, T, D), normal(B, G, S, D), normal(B, G, S, E)]
    halves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    mask = normal(T, S).detach().to(dtype).requires_grad_()
    out = phasor.torch.attention(*halves, mask=mask)
    doubles = [eager.to_double(x) for x in (*halves, mask)]
    exact = eager.attention(*doubles[:3], mask=doubles[3])[0]
    factor = torch.randn(out.shape).to(dtype)
    ours = torch.autograd.grad((out * factor).sum(), [*halves, mask])
    true = torch.autograd.grad((exact * factor.double()).sum(), doubles)
    precision = 2 * torch.finfo(dtype).eps
    for x, y in zip((out, *ours), (exact, *true)):
        assert x.dtype is dtype
        torch.testing.assert_close(x.double(), y, rtol=precision, atol=precision * y.abs().max().item())


def test_weights_are_returned_and_have_no_gradient():
    q, k, v = normal(1, 2, 5, 8), normal(1, 2, 5, 8), normal(1, 2, 5, 8)
    out, weights = phasor.torch.attention(q, k, v, return_weights=True)
    torch.testing.assert_close(weights @ v, out)
    assert out.requires_grad and not weights.requires_grad
    assert len(phasor.torch.w2_attention(q, k, v, q, k, v, return_lse=True, return_weights=True)) == 4


def test_layouts():
    """Memory of [B, T, H, D] gives such memory; rows that are not contiguous are copied; expanded gradients too."""
    packed = torch.randn(B, T, H, D)
    q = packed.transpose(1, 2).requires_grad_()
    out = phasor.torch.attention(q, q, q)
    assert out.stride() == q.stride()
    torch.testing.assert_close(out, phasor.torch.attention(*(3 * [q.contiguous()])))
    (gradient,) = torch.autograd.grad(out.sum(), q)  # the gradient of a sum is expanded: all strides 0
    assert gradient.stride() == q.stride()
    turned = q.detach().mT.contiguous().mT
    assert turned.stride(-1) != 1
    torch.testing.assert_close(phasor.torch.attention(turned, turned, turned), out.detach())
    mask = torch.randn(T, 1)
    ours = phasor.torch.attention(q, q, q, mask=mask.expand(T, T))
    torch.testing.assert_close(ours, phasor.torch.attention(q, q, q, mask=mask))


def test_nothing_is_copied(monkeypatch):
    seen = []
    forward = _phasor.attention_forward

    def watched(*arguments, **options):
        seen.extend(_phasor.address(x) for x in (*arguments[:3], options["mask"]))
        return forward(*arguments, **options)

    monkeypatch.setattr(_phasor, "attention_forward", watched)
    q, k, v = normal(2, T, H, D).transpose(1, 2), normal(2, G, T, D)[:, :, 1:], normal(2, G, T, D)[:, :, 1:]
    mask = normal(T, T - 1)
    phasor.torch.attention(q, k, v, mask=mask)
    assert seen == [x.data_ptr() for x in (q, k, v, mask)]


def test_ragged_batches():
    q, k, v = (normal(1, H, 12, D) for _ in range(3))
    ours = phasor.torch.attention(q, k, v, query_starts=[0, 5, 12], causal=True)
    parts = [phasor.torch.attention(*(x[:, :, a:b] for x in (q, k, v)), causal=True) for a, b in ((0, 5), (5, 12))]
    torch.testing.assert_close(ours, torch.cat(parts, 2))
    pairs = torch.tensor([0, 5, 12])
    assert torch.equal(ours, phasor.torch.attention(q, k, v, query_starts=pairs, key_starts=pairs, causal=True))


def test_tables_of_numpy():
    torch.manual_seed(1)
    q = torch.randn(1, 4, 5, 16, requires_grad=True)
    slopes = phasor.alibi_slopes(4)
    expected = phasor.torch.attention(q, q, q, alibi_slopes=torch.from_numpy(slopes))
    torch.testing.assert_close(phasor.torch.attention(q, q, q, alibi_slopes=slopes), expected)
    bias = phasor.alibi_bias(slopes, 5)
    torch.testing.assert_close(phasor.torch.attention(q, q, q, relative_bias=bias), expected)
    learned = phasor.t5_bias(np.arange(128, dtype=np.float32).reshape(32, 4))
    table = phasor.RelativeBias(torch.from_numpy(learned.table), learned.first_distance)
    out = phasor.torch.attention(q, q, q, relative_bias=learned)
    torch.testing.assert_close(out, phasor.torch.attention(q, q, q, relative_bias=table))
    out.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_torch_defaults_do_not_matter(dtype):
    """Another default type or device than the usual one, as users of double or of a GPU set it."""
    slopes = torch.ones(H, requires_grad=True)
    x = normal(B, H, T, D)
    options = {"alibi_slopes": slopes, "key_lengths": [T, 3], "dropout": 0.1, "seed": 3}

    def results():
        out = phasor.torch.attention(x, x, x, **options)
        out_mu, out_log_sigma = phasor.torch.w2_attention(x, x, x, x, x, x, **options)
        return out, out_mu, *torch.autograd.grad((out + out_mu + out_log_sigma).sum(), (x, slopes))

    expected = results()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            given = results()
    finally:
        torch.set_default_dtype(torch.float32)
    for ours, usual in zip(given, expected):
        assert torch.equal(ours, usual)


def test_slopes_and_offsets_far_apart():
    """Distances of every size, also in gradients."""
    offsets, slopes = torch.tensor([0, 2**17]), torch.tensor([2.0**-12, 2.0**-16]).requires_grad_()
    q, k, mask = (torch.randn(shape).requires_grad_() for shape in ((2, 2, 3, 8), (2, 2, 5, 8), (3, 5)))
    ours = phasor.torch.attention(q, k, k, alibi_slopes=slopes, query_offsets=offsets, mask=mask, return_lse=True)
    positions = offsets[:, None, None, None] + torch.arange(3)[:, None]
    bias = -slopes[:, None, None] * (torch.arange(5) - positions).abs()
    expected = phasor.torch.attention(q, k, k, mask=bias + mask, return_lse=True)
    torch.testing.assert_close(ours, expected)
    # Of lse as well: else the slopes' gradient is the rounding of a sum of 0 times 2^17.
    factors = [torch.randn(x.shape) for x in ours]
    inputs = (q, k, mask, slopes)
    for our, theirs in zip(*(torch.autograd.grad(x, inputs, factors) for x in (ours, expected))):
        torch.testing.assert_close(our, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sigma_is_float(dtype):
    """16-bit log variances give the scores that they give as float32 where floats are multiplied; rounding sigma to bfloat16
    moves weights by a quarter, all operations in bfloat16 by a half. Products of bfloat16 round sigma minus the mean
    sigma, which moves them by a twentieth.
    """
    means = [torch.randn(1, 2, n, 64) * 0.3 for n in (40, 70)]
    logs = [torch.randn(1, 2, n, 64) * 0.3 + 2 for n in (40, 70)]
    v = torch.randn(1, 2, 70, 16)
    six = [x.to(dtype) for x in (*means, v, *logs, v)]
    for count in (40, 3):  # by the kernel of many queries and by that of few
        streams = [x[:, :, :count] if i in (0, 3) else x for i, x in enumerate(six)]
        asked = {"return_lse": True, "return_weights": True}
        narrow = phasor.torch.w2_attention(*streams, precision="float", **asked)
        wide = phasor.torch.w2_attention(*(x.float() for x in streams), **asked)
        assert torch.equal(narrow[2], wide[2])
        assert torch.equal(narrow[3], wide[3])
        assert torch.equal(narrow[0], wide[0].to(dtype))
        weights = phasor.torch.w2_attention(*streams, **asked)[3]
        assert (weights / wide[3] - 1).abs().max() < 0.1
