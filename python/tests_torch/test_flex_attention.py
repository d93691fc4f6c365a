"""phasor.torch.flex_attention: results as torch's own, gradients as float64 autograd through dense scores."""

from __future__ import annotations

import math

import phasor.torch
import pytest
import torch
from flex_dense import B, D, E, G, H, S, T, alibi, dense, inputs, normal
from torch.nn.attention import flex_attention as flex


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(23)


# Each makes a score_mod of the tensors that it captures.
def alibi_of_bloom(slopes):
    return lambda score, b, h, i, j: score + slopes[h] * (j - i)


def bias_by_distance(table):
    return lambda score, b, h, i, j: score + table[h, i - j + S - 1]


def bias_by_clamped_distance(table):
    return lambda score, b, h, i, j: score + table[h, (j - i).clamp(-5, 5) + 5]


def bias_of_keys(bias):
    return lambda score, b, h, i, j: score + bias[b, h, j]


def bias_of_pairs(bias):
    return lambda score, b, h, i, j: score + bias[h, i, j]


def bias_of_queries(bias):
    return lambda score, b, h, i, j: score + bias[i]


def scaled_queries(scale):
    return lambda score, b, h, i, j: score * scale[h, i]


def scaled_heads(scale, bias):
    return lambda score, b, h, i, j: (score + bias[j]) * scale[h]


def capped():
    return lambda score, b, h, i, j: 5.0 * torch.tanh(score / 5.0)


def capped_by_a_tensor():
    cap = torch.tensor(3.0)
    return lambda score, b, h, i, j: torch.tanh(score / cap) * cap


def capped_then_biased(slopes, bias):
    return lambda score, b, h, i, j: 4 * torch.tanh(score / 4) + slopes[h] * (j - i) - bias[b, j]


def capped_by_another_number():
    return lambda score, b, h, i, j: 2.0 * torch.tanh(score * 0.3)


def causal():
    return lambda score, b, h, i, j: torch.where(i >= j, score, -math.inf)


def window_and_bias(table):
    def mod(score, b, h, i, j):
        near = (i - j).abs() < 20
        return torch.where(near, score + table[h, i - j + S - 1], float("-inf"))

    return mod


def masked_fill():
    return lambda score, b, h, i, j: score.masked_fill(j % 3 == 1, -math.inf)


def two_sums(bias):
    return lambda score, b, h, i, j: torch.where(j % 2 == 0, score + bias[j], score - 1.5)


def doubled():
    return lambda score, b, h, i, j: 2 * score + 1


def by_product(left, right):
    """As torch runs it, i and j are numbers: the rows' dot product."""
    return lambda score, b, h, i, j: score + (left[i] * right[j]).sum(-1)


def of_floats(table):
    return lambda score, b, h, i, j: score + table[h] * torch.exp(-(i.float() - j.float()).abs() / 7)


def unchanged():
    return lambda score, b, h, i, j: score


# The tensors that are captured, and the options that a score_mod becomes.
MODS = {
    alibi: ([(H,)], {"relative_bias"}),
    alibi_of_bloom: ([(H,)], {"relative_bias"}),
    bias_by_distance: ([(H, T + S)], {"relative_bias"}),
    bias_by_clamped_distance: ([(H, 11)], {"relative_bias"}),
    bias_of_keys: ([(B, H, S)], {"key_bias"}),
    bias_of_pairs: ([(H, T, S)], {"mask"}),
    bias_of_queries: ([(T,)], {"mask"}),
    scaled_queries: ([(H, T)], {"query_scale"}),
    scaled_heads: ([(H,), (S,)], {"query_scale", "key_bias"}),
    capped: ([], {"softcap"}),
    capped_by_a_tensor: ([], {"softcap"}),
    capped_then_biased: ([(H,), (B, S)], {"softcap", "relative_bias", "key_bias"}),
    capped_by_another_number: ([], {"softcap", "scale"}),
    causal: ([], {"relative_bias"}),
    window_and_bias: ([(H, T + S)], {"relative_bias"}),
    masked_fill: ([], {"key_bias"}),
    two_sums: ([(S,)], {"key_bias"}),
    doubled: ([], {"scale", "key_bias"}),
    by_product: ([(T, 3), (S, 3)], {"mask"}),
    of_floats: ([(H,)], {"relative_bias"}),
    unchanged: ([], set()),
}




@pytest.mark.parametrize("make", MODS, ids=lambda make: make.__name__)
def test_score_mods(make):
    tensors, captured = inputs(), [normal(*shape, scale=0.3) for shape in MODS[make][0]]
    out, lse = phasor.torch.flex_attention(*tensors, make(*captured), enable_gqa=True, return_lse=True)
    plain = [x.detach() for x in tensors]
    fixed = make(*[x.detach() for x in captured])
    request = flex.AuxRequest(lse=True)
    torchs, aux = flex.flex_attention(*plain, fixed, enable_gqa=True, return_aux=request)
    torch.testing.assert_close(out, torchs, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(lse, aux.lse, rtol=1e-5, atol=1e-5)

    doubles = [x.detach().double().requires_grad_() for x in (*tensors, *captured)]
    exact = dense(*doubles[:3], make(*doubles[3:]))
    factors = torch.randn(out.shape), torch.randn(lse.shape)
    loss, exact_loss = (sum((x * f.to(x.dtype)).sum() for x, f in zip(y, factors)) for y in ((out, lse), exact))
    gradients = torch.autograd.grad(loss, [*tensors, *captured])
    for ours, true in zip(gradients, torch.autograd.grad(exact_loss, doubles)):
        torch.testing.assert_close(ours.double(), true, rtol=1e-4, atol=1e-4 * max(1.0, true.abs().max().item()))


@pytest.mark.parametrize("make", MODS, ids=lambda make: make.__name__)
def test_options_that_score_mods_become(make):
    """Biases by key or distance take no T x S memory."""
    from phasor.torch._flex import _options_of

    shapes, expected = MODS[make]
    q, k, _ = inputs()
    options = _options_of(make(*[normal(*shape) for shape in shapes]), q, k, None)
    assert options.keys() - {"query_offsets"} == expected


REFUSED = {
    "exp of the score": lambda score, b, h, i, j: score.exp(),
    "mul of the score and itself": lambda score, b, h, i, j: score * score,
    "add of the score and itself": lambda score, b, h, i, j: score + score.tanh(),
    "gt of the score": lambda score, b, h, i, j: torch.where(score > 0, score, 0.0),
    "neg of the score": lambda score, b, h, i, j: -score,
    "sub of the score": lambda score, b, h, i, j: j - score,
    "a factor of the score that depends on kv_idx": lambda score, b, h, i, j: score * j,
    "tanh of a sum": lambda score, b, h, i, j: 2 * torch.tanh((score + j) / 2),
    "tanh of tanh": lambda score, b, h, i, j: score.tanh().tanh(),
    "a tensor times tanh": lambda score, b, h, i, j: score.tanh() * h,
    "torch.where with a number instead of the score": lambda score, b, h, i, j: torch.where(i >= j, score, 0.0),
    "a result of type Tensor that does not come from the score": lambda score, b, h, i, j: i * 1.0,
    r"add_\(\) of the score": lambda score, b, h, i, j: score.add_(j),
    r"-2.0 \* tanh": lambda score, b, h, i, j: -2.0 * score.tanh(),
    "detach of the score": lambda score, b, h, i, j: score.detach() + j,
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_no_term_is_refused_by_name(words):
    q, k, v = inputs()
    with pytest.raises(NotImplementedError, match=rf"\[flex_attention\] score_mod: {words}"):
        phasor.torch.flex_attention(q, k, v, REFUSED[words], enable_gqa=True)


def test_writes_through_views_are_not_mistaken():
    """A table that is written to within score_mod takes part in no shortcut."""

    def mod(score, b, h, i, j):
        x = (i - j).abs().float()
        x.view(()).add_(j)
        return score + x * 0.01

    q, k, v = (x.detach() for x in inputs())
    out = phasor.torch.flex_attention(q, k, v, mod, enable_gqa=True)
    expected, _ = dense(q, k, v, lambda score, b, h, i, j: score + ((i - j).abs() + j) * 0.01)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


def test_captured_numbers_are_read_in_each_call():
    q, k, v = (x.detach() for x in inputs())
    slope = 0.1

    def mod(score, b, h, i, j):
        return score + slope * (j - i)

    for slope in (0.1, -0.5):  # noqa: B007
        out = phasor.torch.flex_attention(q, k, v, mod, enable_gqa=True)
        torch.testing.assert_close(out, dense(q, k, v, mod)[0], rtol=1e-5, atol=1e-5)


def test_score_mods_compile_with_a_graph_break():
    tensors, slopes = inputs(), normal(H)
    function = lambda q, k, v, slopes: phasor.torch.flex_attention(q, k, v, alibi(slopes), enable_gqa=True) * 2  # noqa: E731
    compiled = torch.compile(function, backend="aot_eager")
    results = [torch.autograd.grad(f(*tensors, slopes).sum(), [*tensors, slopes]) for f in (compiled, function)]
    for ours, true in zip(*results):
        torch.testing.assert_close(ours, true)


def test_torch_has_no_gradient_here():
    """What flex_attention of phasor is for; if this fails, torch has learned it."""
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        flex.flex_attention(*inputs(), enable_gqa=True)


def test_half_types_and_float64():
    tensors = [x.detach() for x in inputs()]
    expected = flex.flex_attention(*tensors, alibi(torch.ones(H) / 8), enable_gqa=True)
    for dtype, precision in ((torch.bfloat16, 2**-5), (torch.float16, 2**-8), (torch.float64, 1e-5)):
        wide = torch.float64 if dtype is torch.float64 else torch.float32
        mod = alibi(torch.ones(H, dtype=wide) / 8)
        out = phasor.torch.flex_attention(*(x.to(dtype) for x in tensors), mod, enable_gqa=True)
        assert out.dtype is dtype
        torch.testing.assert_close(out.float(), expected, rtol=precision, atol=precision)


PREFIX = torch.tensor([7, 33])


def prefix(b, h, i, j):
    return (i >= j) | (j < PREFIX[b])


def test_keys_shared_by_sequences():
    """As torch: a batch of 1 of keys beside a block mask for all queries."""
    q, k, v = normal(B, H, T, D), normal(1, G, S, D), normal(1, G, S, E)
    mask = flex.create_block_mask(prefix, B, None, T, S, device="cpu")
    out = phasor.torch.flex_attention(q, k, v, block_mask=mask, enable_gqa=True)
    expected, _ = dense(q, k.expand(B, -1, -1, -1), v.expand(B, -1, -1, -1), mask=prefix)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


def test_results_as_torch_gives_them():
    q, k, v = (x.detach() for x in inputs())
    for request in (None, flex.AuxRequest(), flex.AuxRequest(lse=True)):
        ours, torchs = (f(q, k, v, enable_gqa=True, return_aux=request) for f in (phasor.torch.flex_attention, flex.flex_attention))
        assert type(ours) is type(torchs)
        if request is not None:
            assert type(ours[1]) is type(torchs[1]) and (ours[1].lse is None) == (torchs[1].lse is None)
    options = {"BLOCK_M": 64, "fwd_num_warps": 4}
    torch.testing.assert_close(phasor.torch.flex_attention(q, k, v, enable_gqa=True, kernel_options=options), torchs[0])


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"enable_gqa": False}, ValueError, "key: 2 heads beside 4 of query, expected the same, or enable_gqa=True"),
        ({"block_mask": "m"}, TypeError, "block_mask: str, expected a BlockMask of phasor or torch"),
        ({"block_mask": lambda: flex.create_block_mask(prefix, B, None, 10, S, device="cpu")}, ValueError, "block_mask: for 10 queries and 90 keys, expected 70 and 90"),
        ({"kernel_options": {"TURBO": 1}}, ValueError, "kernel_options: TURBO"),
        ({"return_aux": flex.AuxRequest(max_scores=True)}, NotImplementedError, "return_aux: max_scores"),
        ({"return_aux": flex.AuxRequest(lse=True), "return_lse": True}, NotImplementedError, "return_aux: return_lse"),
    ],
)
def test_errors(change, error, words):
    change = {name: x() if callable(x) else x for name, x in change.items()}
    with pytest.raises(error, match=rf"\[flex_attention\] {words}"):
        phasor.torch.flex_attention(*inputs(), **({"enable_gqa": True} | change))
