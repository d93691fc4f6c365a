"""Rotation by bare cos and sin, the modules that make them, and the additive encodings: the documents' numbers."""

from __future__ import annotations

from types import SimpleNamespace

import phasor
import phasor.torch
import pytest
import torch
from phasor.torch import apply_rotary_emb, apply_rotary_pos_emb, precompute_freqs_cis, rotate_half

QWEN3 = SimpleNamespace(
    hidden_size=4096, num_attention_heads=32, max_position_embeddings=4096, rope_theta=10000.0, rope_scaling=None
)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(31)


def plain(x, cos, sin):
    return x * cos + rotate_half(x) * sin


def test_numbers_of_document_004():
    rotary = phasor.torch.Qwen3RotaryEmbedding(QWEN3)
    inv_freq = rotary.inv_freq
    assert inv_freq.shape == (64,) and rotary.attention_scaling == 1.0 and rotary.rope_type == "default"
    assert f"{inv_freq.min():.6f} {inv_freq.max():.6f} {inv_freq.mean():.6f}" == "0.000115 1.000000 0.116562"
    first = torch.tensor([1, 0.865964, 0.749894, 0.649382, 0.562341])
    torch.testing.assert_close(inv_freq[:5], first, rtol=0, atol=1e-6)
    cos, sin = rotary(torch.randn(2, 16, 4096), torch.arange(16).repeat(2, 1))
    assert cos.shape == sin.shape == (2, 16, 128)
    assert (cos.square() + sin.square() - 1).abs().max() < 2.5e-7
    for distance, printed in ((0, "0.0000"), (1, "0.1094"), (4, "0.1844"), (8, "0.1783")):
        near, far = slice(0, 16 - distance), slice(distance, 16)
        mean = (cos[0, near] * sin[0, far] - sin[0, near] * cos[0, far]).mean().item()
        assert f"{abs(mean):.4f}" == printed


def test_second_run_of_document_004():
    """Its table repeats each angle in a row, for adjacent pairs, and goes through the half-split rotation."""
    torch.manual_seed(42)
    q, k = torch.randn(2, 32, 16, 128), torch.randn(2, 32, 16, 128)
    angles = 0.1 * torch.arange(16.0)[:, None] * 0.5 ** torch.arange(64.0)
    wide = angles.repeat_interleave(2, -1)
    cos, sin = wide.cos().expand(2, 16, 128), wide.sin().expand(2, 16, 128)

    turned = plain(q, cos[:, None], sin[:, None])  # what the document did
    before, after = (x[0, 0].norm(dim=-1) for x in (q, turned))
    assert f"{before[0]:.4f} {after[0]:.4f}" == "10.8772 10.8772"
    assert f"{before[15]:.4f} {after[15]:.4f}" == "10.4785 10.4008"
    for position, printed in ((0, 118.314240), (1, 20.345375), (2, -4.198829), (4, 8.441195), (8, -8.702080)):
        assert abs((turned[0, 0, 0] @ turned[0, 0, position]).item() - printed) < 2e-5
    assert f"{(q.norm(dim=-1) - turned.norm(dim=-1)).abs().max():.3f}" == "0.487"

    with pytest.raises(
        ValueError,
        match=r"\[apply_rotary_pos_emb\] cos: a table for adjacent pairs, .* expected equal halves: pairing half",
    ):
        apply_rotary_pos_emb(q, k, cos, sin)
    for right in (
        apply_rotary_pos_emb(q, k, *(torch.cat((t, t), -1).expand(2, 16, 128) for t in (angles.cos(), angles.sin()))),
        apply_rotary_pos_emb(q, k, angles.cos()[None], angles.sin()[None]),  # half as wide: adjacent pairs
    ):
        for x, y in zip((q, k), right):
            assert (x.norm(dim=-1) - y.norm(dim=-1)).abs().max() < 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_apply_rotary_pos_emb_of_every_layout(dtype):
    rotary = phasor.torch.Qwen3RotaryEmbedding(QWEN3)
    position_ids = torch.stack((torch.arange(9), torch.arange(3, 12)))
    q, k = torch.randn(2, 4, 9, 128, dtype=dtype), torch.randn(2, 2, 9, 128, dtype=dtype)
    cos, sin = rotary(q.float(), position_ids)
    precision = {torch.float32: 2e-6, torch.float64: 2e-6, torch.bfloat16: 0.03}[dtype]
    same = lambda x, y: torch.testing.assert_close(x.double(), y.double(), rtol=precision, atol=precision)  # noqa: E731

    ours = apply_rotary_pos_emb(q, k, cos, sin)
    for x, y in zip(ours, (q, k)):
        assert x.dtype is dtype
        same(x, plain(y.double(), cos.double()[:, None], sin.double()[:, None]))
    swapped = apply_rotary_pos_emb(q.transpose(1, 2), k.transpose(1, 2), cos, sin, unsqueeze_dim=2)
    for x, y in zip(swapped, ours):
        same(x.transpose(1, 2), y)
    rows = torch.arange(20)
    table = [t[0] for t in rotary(q.float(), rows[None])]
    for x, y in zip(apply_rotary_pos_emb(q, k, *table, position_ids=position_ids), ours):
        same(x, y)
    shared = [t[:9] for t in table]
    one = apply_rotary_pos_emb(q, *shared)  # document 003: one tensor
    assert isinstance(one, torch.Tensor)
    same(one, plain(q.double(), *(t.double() for t in shared)))
    same(apply_rotary_pos_emb(q, *(t[None, None] for t in shared)), one)  # document 000
    tokens_first = q.transpose(1, 2)
    same(apply_rotary_pos_emb(tokens_first, tokens_first, *shared)[0].transpose(1, 2), one)  # MiniMind
    same(apply_rotary_pos_emb(q[0, 0], *shared), one[0, 0])  # [T, D]


def test_rotation_has_gradients_and_compiles():
    q, k = torch.randn(1, 2, 5, 16, requires_grad=True), torch.randn(1, 2, 5, 16, requires_grad=True)
    cos, sin = phasor.torch.RotaryEmbedding(16)(q, seq_len=5)
    factor = torch.randn(1, 2, 5, 16)
    ours = torch.autograd.grad((apply_rotary_pos_emb(q, k, cos, sin)[0] * factor).sum(), q)[0]
    true = torch.autograd.grad((plain(q, cos, sin) * factor).sum(), q)[0]
    torch.testing.assert_close(ours, true)
    compiled = torch.compile(apply_rotary_pos_emb, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k, cos, sin)[1], plain(k, cos, sin))


def test_bare_tables_that_cannot_be():
    q = torch.randn(1, 2, 5, 16)
    with pytest.raises(ValueError, match=r"cos: 12 channels, expected 16 \(half-split pairs\) or 8 \(adjacent pairs\)"):
        apply_rotary_pos_emb(q, q, torch.ones(5, 12), torch.ones(5, 12))
    with pytest.raises(ValueError, match=r"sin: shape \[4, 16\], expected \[5, 16\] as cos has"):
        apply_rotary_pos_emb(q, q, torch.ones(5, 16), torch.ones(4, 16))
    with pytest.raises(ValueError, match="sin: two different halves, expected equal halves"):
        apply_rotary_pos_emb(q, q, torch.ones(5, 16), torch.rand(5, 16))
    with pytest.raises(TypeError, match="freqs_cis: torch.float32, expected complex"):
        apply_rotary_emb(q, q, torch.ones(2, 8))
    with pytest.raises(ValueError, match=r"freqs_cis: shape \[9, 8\], expected \[2, 8\]"):
        apply_rotary_emb(q, q, precompute_freqs_cis(16, 9))
    with pytest.raises(ValueError, match="head_dim: 7, expected an even number"):
        phasor.torch.generate_rope_embeddings(4, 7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_complex_form(dtype):
    freqs_cis = precompute_freqs_cis(16, 9)
    assert freqs_cis.dtype is torch.complex64 and freqs_cis.shape == (9, 8)
    xq, xk = torch.randn(2, 9, 4, 16, dtype=dtype), torch.randn(2, 9, 2, 16, dtype=dtype)
    for ours, x in zip(apply_rotary_emb(xq, xk, freqs_cis), (xq, xk)):
        pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)))
        exact = torch.view_as_real(pairs * freqs_cis[:, None]).flatten(-2)
        assert ours.dtype is dtype
        torch.testing.assert_close(ours.double(), exact, rtol=1e-6, atol=1e-6)


def test_generate_rope_embeddings():
    cos, sin = phasor.torch.generate_rope_embeddings(4096, 64, dtype=torch.bfloat16)
    assert cos.shape == sin.shape == (4096, 32) and cos.dtype is torch.bfloat16
    exact = phasor.Rope(64, pairing="adjacent").table(torch.arange(4096))
    torch.testing.assert_close(cos.float(), exact.cos, rtol=0, atol=0.004)  # no collision of positions above 256
    torch.testing.assert_close(
        phasor.torch.generate_rope_embeddings(9, 64, base=500.0)[1][8, 0], torch.tensor(8.0).sin()
    )


@pytest.mark.parametrize(
    "scaling",
    [
        {"type": "linear", "factor": 4.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
        {"rope_type": "dynamic", "factor": 2.0},
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 1024,
        },
        {
            "rope_type": "longrope",
            "short_factor": [1.0] * 64,
            "long_factor": [3.0] * 64,
            "original_max_position_embeddings": 1024,
        },
    ],
    ids=lambda scaling: next(iter(scaling.values())),
)
def test_rope_types(scaling):
    config = SimpleNamespace(**(vars(QWEN3) | {"rope_scaling": scaling}))
    rotary = phasor.torch.Qwen3RotaryEmbedding(config)
    rope = phasor.Rope(128, scaling=scaling, max_position_embeddings=4096)
    assert rotary.rope_type == rope.type and rotary.attention_scaling == pytest.approx(rope.attention_scaling)
    for length in (100, 6000, 200):  # also back again
        positions = torch.arange(length - 3, length)
        exact = rope.table(positions)
        cos, sin = rotary(torch.empty(0), positions[None])
        for ours, true in ((cos, exact.cos), (sin, exact.sin)):
            torch.testing.assert_close(ours[0, :, :64], true, rtol=0, atol=2e-3)  # float32 angles of up to 6000
            assert torch.equal(ours[..., :64], ours[..., 64:])
    inv_freq, scale = phasor.torch.ROPE_INIT_FUNCTIONS[rope.type](config, "cpu")
    assert torch.equal(inv_freq, rotary.inv_freq) and scale == rotary.attention_scaling


def test_rotary_modules_grow_exactly():
    short, long = phasor.torch.RotaryEmbedding(16, 8), phasor.torch.RotaryEmbedding(16, 64)
    for one, two in zip(short(torch.empty(0), seq_len=64), long(torch.empty(0), seq_len=64)):
        assert one.shape == (1, 1, 64, 16) and torch.equal(one, two)
    module = phasor.torch.RotaryPositionalEncoding(16, max_len=4)
    q, k = torch.randn(1, 2, 3, 16), torch.randn(1, 2, 7, 16)
    turned_q, turned_k = module(q, k, offset=2)
    table = phasor.Rope(16).table(torch.arange(2, 9))
    torch.testing.assert_close(turned_k, phasor.torch.apply_rotary(k, table))
    torch.testing.assert_close(turned_q, module(q, offset=2))
    scores = [(module(q, offset=a) @ module(k, offset=a).mT) for a in (0, 30)]
    torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-4)  # only distances count


def test_additive_encodings():
    x = torch.randn(2, 40, 32)
    learned = phasor.torch.LearnedPositionalEncoding(32, 40)
    learned(x).sum().backward()
    assert torch.equal(learned.embedding.weight.grad, torch.full((40, 32), 2.0))
    sinusoidal = phasor.torch.SinusoidalPositionalEncoding(32, max_len=10)  # longer than it was made for
    torch.testing.assert_close(
        sinusoidal(x) - x, torch.from_numpy(phasor.sinusoidal(40, 32)).expand(2, -1, -1), rtol=0, atol=1e-6
    )
    with pytest.raises(ValueError, match="dim"):
        phasor.torch.SinusoidalPositionalEncoding(33)
    alibi = phasor.torch.ALiBi(8)
    assert alibi.slopes.tolist() == [2.0**-i for i in range(1, 9)]
    q = torch.randn(2, 8, 6, 16)
    scores = alibi(q @ q.mT / 4)
    torch.testing.assert_close(
        torch.softmax(scores, -1) @ q, phasor.torch.attention(q, q, q, alibi_slopes=alibi.slopes)
    )
    causal = phasor.torch.ALiBi(8, causal=True)(q @ q.mT / 4)
    torch.testing.assert_close(
        torch.softmax(causal, -1) @ q, phasor.torch.attention(q, q, q, alibi_slopes=alibi.slopes, causal=True)
    )
    assert alibi(3)[0].tolist() == [[-0.0, -0.5, -1.0], [-0.5, -0.0, -0.5], [-1.0, -0.5, -0.0]]
