"""torch.compile, autocast, activation checkpointing, dropout's seed; what vmap, forward mode and second derivatives
say."""

from __future__ import annotations

import phasor
import phasor.torch
import pytest
import torch
from phasor.torch._options import LEARNED, pack
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

H, T, D = 4, 9, 16
ops = torch.ops.phasor


def normal(*shape):
    return torch.randn(*shape, requires_grad=True)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(19)


def table(count=T):
    return phasor.Rope(D).table(torch.arange(count))


def attention_inputs():
    return [normal(2, H, T, D), normal(2, 2, T, D), normal(2, 2, T, D), normal(T, T), normal(H), normal(H)]


def full_attention(q, k, v, mask, slopes, sinks, rotary=None):
    out, lse = phasor.torch.attention(
        q, k, v, mask=mask, alibi_slopes=slopes, sinks=sinks, causal=True, window=7, return_lse=True, q_rotary=rotary,
        k_rotary=rotary,
    )  # fmt: skip
    return out.square().sum() + lse.sum()


def w2_inputs():
    return [normal(1, 2, T, D) for _ in range(6)] + [torch.tensor(0.8, requires_grad=True), normal(2, 5)]


def full_w2(q_mu, k_mu, v_mu, q_l, k_l, v_l, tau, bias):
    streams = (q_mu, k_mu, v_mu, q_l, k_l, v_l)
    out_mu, out_l = phasor.torch.w2_attention(*streams, tau=tau, relative_bias=bias, causal=True)
    return out_mu.square().sum() + out_l.sum()


TABLE = table()
BLOCKS = phasor.make_block_mask(torch.rand(T, T) < 0.7, (4, 5))


def term_inputs():
    return [
        normal(2, H, T, D), normal(2, 2, T, D), normal(2, 2, T, D), normal(H, T), normal(2, H, T), normal(1, H, T, 4),
        normal(1, H, T, 4), normal(2, T, 4), normal(2, T, 4),
    ]  # fmt: skip


def attention_terms(q, k, v, query_scale, key_bias, q_cos, q_sin, k_cos, k_sin):
    out, lse = phasor.torch.attention(
        q, k, v, query_scale=query_scale, key_bias=key_bias, q_rotary=phasor.RotaryTable(q_cos, q_sin, "half"),
        k_rotary=phasor.RotaryTable(k_cos, k_sin, "half"), block_mask=BLOCKS, return_lse=True,
    )  # fmt: skip
    return out.square().sum() + lse.sum()


def learned_angles(x, angles):
    table = phasor.RotaryTable(angles.cos(), angles.sin(), "adjacent")
    return phasor.torch.apply_rotary(x, table).pow(2).mul(torch.arange(D)).sum()


def merged(out, lse, out2, lse2):
    out, lse = phasor.torch.merge_attention(out, lse, out2, lse2)
    return out.square().sum() + lse.sin().sum()


def rotation(x):
    return phasor.torch.apply_rotary(x, TABLE).pow(2).mul(torch.arange(D)).sum()


CASES = {
    "attention": (attention_inputs, full_attention),
    "w2_attention": (w2_inputs, full_w2),
    "apply_rotary": (lambda: [normal(2, H, T, D)], rotation),
}
MORE_CASES = CASES | {
    "terms": (term_inputs, attention_terms),
    "learned angles": (lambda: [normal(2, H, T, D), normal(T, D // 2)], learned_angles),
    "merge": (lambda: [normal(2, H, T, D), normal(2, H, T), normal(2, H, T, D), normal(2, H, T)], merged),
}


@pytest.mark.parametrize("case", MORE_CASES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(case, dynamic):
    make, function = MORE_CASES[case]
    inputs = make()
    eager = torch.autograd.grad(function(*inputs), inputs)
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for ours, true in zip(torch.autograd.grad(compiled(*inputs), inputs), eager):
        torch.testing.assert_close(ours, true, rtol=1e-6, atol=1e-6)


def test_compile_by_inductor_with_tables_and_offsets():
    rotary = table(12)

    def function(q, k, v):
        return phasor.torch.attention(
            q, k, v, causal=True, query_offsets=k.shape[2] - q.shape[2], k_rotary=rotary
        ).relu()

    compiled = torch.compile(function, fullgraph=True)
    q, k, v = normal(1, 2, 3, D), normal(1, 2, 12, D), normal(1, 2, 12, D)
    torch.testing.assert_close(compiled(q, k, v), function(q, k, v))
    ours, true = (torch.autograd.grad(f(q, k, v).sum(), (q, k, v)) for f in (compiled, function))
    for one, two in zip(ours, true):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("case", CASES)
def test_operators_keep_torchs_rules(case):
    """opcheck: schema, fake shapes and strides, autograd registration, compilation with symbolic shapes."""
    streams = [normal(2, 2, T, D) for _ in range(6)]
    tables = [torch.rand(T, D // 2), torch.rand(T, D // 2)]
    table = phasor.RotaryTable(*tables, "half")
    options = pack((T, T), {"mask": normal(T, T), "relative_bias": normal(2, 5), "q_rotary": table, "causal": True, "window": 4})
    if case == "apply_rotary":
        torch.library.opcheck(ops.apply_rotary.default, (streams[0], *tables, "half", False))
        return
    if case == "attention":
        streams = streams[:3]
        torch.library.opcheck(ops.attention_forward.default, (*streams, True, True, True, *options))
        backward, head = ops.attention_backward.default, streams
        out, _, softmax, _ = ops.attention_forward(*streams, True, True, False, *options)
        results, eps = [out], []
    else:
        head, eps = [*streams, torch.tensor(1.5, requires_grad=True)], [1e-6]
        torch.library.opcheck(ops.w2_attention_forward.default, (*head, *eps, False, False, True, *options))
        backward = ops.w2_attention_backward.default
        *results, _, softmax, _ = ops.w2_attention_forward(*head, *eps, True, True, False, *options)
    inputs, results = [[x.detach() for x in tensors] for tensors in (head, (*results, softmax, *results))]
    wanted = [name in ("mask", "relative_bias", "q_rotary_cos") for name in LEARNED]
    options = tuple(x.detach() if isinstance(x, torch.Tensor) else x for x in options)
    torch.library.opcheck(backward, (*inputs, *eps, *results, None, wanted, *options))


@pytest.mark.parametrize("case", ["attention", "w2_attention"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_casts_as_torchs_attention(case, dtype):
    make, _ = CASES[case]
    count = 3 if case == "attention" else 6
    inputs = make()[:count]
    function = getattr(phasor.torch, case)
    with torch.autocast("cpu", dtype):
        out = function(*inputs)
        if case == "attention":
            sdpa = torch.nn.functional.scaled_dot_product_attention(*inputs, enable_gqa=True)
            assert sdpa.dtype is out.dtype
    # With gradients too: without, few queries go to the decode kernel, which rounds otherwise.
    exact = function(*(x.detach().to(dtype).requires_grad_() for x in inputs))
    for one, two in zip(*((x,) if case == "attention" else x for x in (out, exact))):
        assert one.dtype is dtype and torch.equal(one, two)
    loss = sum(x.float().sum() for x in ((out,) if case == "attention" else out))
    assert all(gradient.dtype is torch.float32 for gradient in torch.autograd.grad(loss, inputs))


def test_autocast_under_compile():
    q, k, v = normal(2, H, T, D), normal(2, 2, T, D), normal(2, 2, T, D)
    compiled = torch.compile(phasor.torch.attention, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        assert compiled(q, k, v).dtype is torch.bfloat16


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("case", ["attention", "w2_attention"])
def test_checkpointing_recomputes_the_same(case, use_reentrant):
    make, function = CASES[case]
    inputs = make()

    def dropped(*arguments):  # random: the recomputation must meet the same weights
        q, k, v = arguments[:3]
        return function(*arguments) + phasor.torch.attention(q, k, v, dropout=0.4).square().sum()

    torch.manual_seed(2)
    plain = torch.autograd.grad(dropped(*inputs), inputs)
    torch.manual_seed(2)
    loss = checkpoint(dropped, *inputs, use_reentrant=use_reentrant)
    loss.backward()
    for x, true in zip(inputs, plain):
        torch.testing.assert_close(x.grad, true, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: torch.compile(f, fullgraph=True, backend="aot_eager")])
def test_dropout_draws_from_torchs_generator(wrap):
    q, k, v = (torch.randn(1, 2, 16, D) for _ in range(3))
    function = wrap(lambda q, k, v: phasor.torch.attention(q, k, v, dropout=0.3))
    torch.manual_seed(4)
    one, two = function(q, k, v), function(q, k, v)
    torch.manual_seed(4)
    again = function(q, k, v)
    assert torch.equal(one, again) and not torch.equal(one, two)


def test_dropout_with_a_seed():
    q, k, v = (normal(1, 2, 16, D) for _ in range(3))
    for seed in (0, 7, 2**64 - 1):
        out, weights = phasor.torch.attention(q, k, v, dropout=0.3, seed=seed, return_weights=True)
        numpy = phasor.attention(*(x.detach() for x in (q, k, v)), dropout=0.3, seed=seed)
        assert torch.equal(out, numpy)
        kept = (weights != 0).detach()
        assert 0.5 < kept.float().mean() < 0.9
        scores = torch.softmax(q @ k.mT / D**0.5, -1) * kept / 0.7
        ours = torch.autograd.grad(out.square().sum(), (q, k, v))
        true = torch.autograd.grad((scores @ v).square().sum(), (q, k, v))
        for one, two in zip(ours, true):
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_vmap_says_that_it_cannot(case, requires_grad):
    make, function = CASES[case]
    inputs = [x.detach().requires_grad_(requires_grad) for x in make()]
    with pytest.raises(NotImplementedError, match=f"{case}.*vmap.*: not supported"):
        torch.vmap(lambda x: function(x, *inputs[1:]))(torch.stack((inputs[0], inputs[0])))
    with pytest.raises(NotImplementedError, match=f"{case}.*torch.func.grad: not supported"):
        torch.func.grad(function)(*inputs)


@pytest.mark.parametrize("case", ["attention", "w2_attention"])
def test_second_derivatives_say_that_there_are_none(case):
    make, function = CASES[case]
    inputs = make()
    (first,) = torch.autograd.grad(function(*inputs), inputs[0], create_graph=True)
    torch.testing.assert_close(first, torch.autograd.grad(function(*inputs), inputs[0])[0])
    with pytest.raises(NotImplementedError, match=rf"\[{case}\] second derivative: not supported"):
        first.sum().backward()


def test_compile_with_tables_from_outside():
    q, weight = torch.randn(1, H, T, D), torch.randn(32, H, requires_grad=True)
    learned, numpys, rotary = phasor.t5_bias(weight), phasor.alibi_bias(H, T), table()

    def function(q, entries):
        made = phasor.RelativeBias(entries, -2)
        return sum(
            phasor.torch.attention(q, q, q, relative_bias=bias, q_rotary=rotary, k_rotary=rotary)
            for bias in (learned, numpys, made)
        )

    entries = torch.randn(H, 5)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, entries), function(q, entries))


@pytest.mark.parametrize("case", CASES)
def test_forward_mode_says_that_it_cannot(case):
    make, function = CASES[case]
    inputs = [x.detach() for x in make()]
    expected = rf"\[{case}\] forward-mode differentiation .* not supported"
    with pytest.raises(NotImplementedError, match=expected):
        torch.func.jvp(function, tuple(inputs), tuple(torch.ones_like(x) for x in inputs))
    with pytest.raises(NotImplementedError, match=expected):
        torch.func.jacfwd(function)(*inputs)
    for i, given in enumerate(inputs):
        with forward_ad.dual_level():
            function(*inputs)  # no tangent: an ordinary call
            dual = forward_ad.make_dual(given, torch.ones_like(given))
            with pytest.raises(NotImplementedError, match=expected):
                function(*inputs[:i], dual, *inputs[i + 1 :])


def test_a_rotation_has_no_tangent():
    q = torch.randn(1, H, T, D)
    with forward_ad.dual_level():
        cos = forward_ad.make_dual(TABLE.cos, torch.ones_like(TABLE.cos))
        dual = phasor.RotaryTable(cos, TABLE.sin, TABLE.pairing)
        with pytest.raises(NotImplementedError, match=r"\[apply_rotary\] forward-mode"):
            phasor.torch.apply_rotary(q, dual)
        with pytest.raises(NotImplementedError, match=r"\[attention\] forward-mode"):
            phasor.torch.attention(q, q, q, q_rotary=dual)


def test_inference_mode_and_meta_tensors():
    q = torch.randn(1, 2, 4, 8)
    with torch.inference_mode():
        torch.testing.assert_close(
            phasor.torch.attention(q, q, q), torch.nn.functional.scaled_dot_product_attention(q, q, q)
        )
    assert phasor.torch.attention(*(3 * [q.to("meta")])).shape == q.shape


class Seen(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, operator, types, arguments=(), keywords=None):
        self.names.append(str(operator))
        return operator(*arguments, **(keywords or {}))


def test_modes_and_the_profiler_see_the_operators():
    """In plain calls torch's dispatcher is left out, since it takes longer than all else."""
    q = torch.randn(1, 2, 3, 4, requires_grad=True)
    with Seen() as seen:
        phasor.torch.attention(q, q, q).sum().backward()
    assert "phasor.attention_forward.default" in seen.names and "phasor.attention_backward.default" in seen.names
    with torch.profiler.profile() as profile:
        phasor.torch.w2_attention(q, q, q, q, q, q)
    assert "phasor::w2_attention_forward" in {event.key for event in profile.key_averages()}
