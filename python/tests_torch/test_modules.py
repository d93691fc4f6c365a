"""Modules against plain torch twins of the same weights, in double; copies, state and pickles of them."""

from __future__ import annotations

import copy
import io
import math
import pickle
import warnings
from types import SimpleNamespace

import phasor.torch
import pytest
import torch
import twins
from phasor.torch import _gaussian, _standard

CONFIG = SimpleNamespace(hidden_size=64, num_attention_heads=4, intermediate_size=96, rms_norm_eps=1e-6)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(23)


@pytest.fixture(params=["kernel", "plain torch"])
def form(request, monkeypatch):
    """Both forms of a module: that of the CPU, and that of other devices."""
    if request.param == "plain torch":
        monkeypatch.setattr(_gaussian, "has_kernels", lambda _: False)
        monkeypatch.setattr(_standard, "has_kernels", lambda _: False)
    return request.param


def compare(module, twin, inputs, call, call_twin):
    """Outputs to 1e-5, gradients of all parameters and inputs to 1e-4."""
    twin = twin.double()
    twin.load_state_dict(module.state_dict())
    inputs = [x.requires_grad_() for x in inputs]
    doubles = [x.detach().double().requires_grad_() for x in inputs]
    ours, exact = call(module, *inputs), call_twin(twin, *doubles)
    loss = exact_loss = 0.0
    for our, true in zip(ours, exact):
        torch.testing.assert_close(our.double(), true, rtol=1e-5, atol=1e-5)
        factor = torch.randn(our.shape) / our.shape[1]
        loss, exact_loss = loss + (our * factor).sum(), exact_loss + (true * factor).sum()
    names = dict(module.named_parameters())
    gradients = torch.autograd.grad(loss, [*names.values(), *inputs])
    exact_parameters = dict(twin.named_parameters())
    exact_gradients = torch.autograd.grad(exact_loss, [*(exact_parameters[n] for n in names), *doubles])
    for name, our, true in zip([*names, *(f"input {i}" for i in range(len(inputs)))], gradients, exact_gradients):
        assert true.abs().max() > 0, name
        torch.testing.assert_close(
            our.double(), true, rtol=1e-4, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


MASKS = {
    "none": None,
    "causal": torch.full((19, 19), -math.inf).triu(1),
    "padding": torch.zeros(2, 1, 1, 19).masked_fill(
        torch.arange(19) > torch.tensor([18, 11])[:, None, None, None], -math.inf
    ),
}


@pytest.mark.parametrize("mask", MASKS)
def test_w2_block(mask, form):
    tables = phasor.torch.RotaryEmbedding(16)(torch.empty(0), seq_len=19)
    module = phasor.torch.W2TransformerBlock(CONFIG)
    with torch.no_grad():
        module.attention.tau.fill_(4.0)
    streams = [torch.randn(2, 19, 64), torch.randn(2, 19, 64)]
    exact_tables = tuple(x.double() for x in tables)
    compare(
        module,
        twins.Block(CONFIG),
        streams,
        lambda block, mu, log_sigma: block(
            hidden_states_mu=mu,
            hidden_states_log_sigma=log_sigma,
            rotary_emb_outputs=tables,
            attention_mask=MASKS[mask],
        ),
        lambda block, mu, log_sigma: block(mu, log_sigma, exact_tables, MASKS[mask]),
    )


def test_w2_masks_of_other_kinds(form):
    module = phasor.torch.W2TransformerBlock(CONFIG)
    tables = phasor.torch.RotaryEmbedding(16)(torch.empty(0), seq_len=19)
    mu, log_sigma = torch.randn(2, 19, 64), torch.randn(2, 19, 64)
    added = module(mu, log_sigma, tables, MASKS["causal"])
    for ours in (module(mu, log_sigma, tables, MASKS["causal"] == 0), module(mu, log_sigma, tables, is_causal=True)):
        for one, two in zip(ours, added):
            torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)


def test_w2_tables_longer_than_the_text(form):
    module = phasor.torch.W2Attention(CONFIG)
    mu, log_sigma = torch.randn(2, 19, 64), torch.randn(2, 19, 64)
    embedding = phasor.torch.RotaryEmbedding(16)
    exact, longer = (embedding(torch.empty(0), seq_len=length) for length in (19, 25))
    for one, two in zip(module(mu, log_sigma, longer), module(mu, log_sigma, exact)):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_standard_attention_with_a_mask_of_keys(dtype, form):
    module = phasor.torch.StandardAttentionWithRoPE(64, 4).eval()
    x, keep = torch.randn(2, 19, 64), torch.arange(19) < 12
    mask = keep if dtype is torch.bool else torch.zeros(19).masked_fill(~keep, -math.inf)
    for return_attn in (False, True):
        out = module(x, x, x, attn_mask=mask, return_attn=return_attn)
        expected = module(x, x[:, :12], x[:, :12], return_attn=return_attn)
        if return_attn:
            out, expected = out[0], expected[0]
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mask", MASKS)
def test_standard_attention(mask, form):
    tables = phasor.torch.generate_rope_embeddings(25, 16)
    exact_tables = tuple(x.double() for x in tables)
    compare(
        phasor.torch.StandardAttentionWithRoPE(64, 4, dropout=0.3).eval(),
        twins.Standard(64, 4),
        [torch.randn(2, 19, 64)],
        lambda m, x: (m(x, x, x, rope_embeddings=tables, attn_mask=MASKS[mask]),),
        lambda m, x: m(x, x, x, exact_tables, MASKS[mask])[:1],
    )


def test_standard_cross_attention_and_weights(form):
    tables = phasor.torch.generate_rope_embeddings(19, 16)
    module, twin = phasor.torch.StandardAttentionWithRoPE(64, 4), twins.Standard(64, 4).double()
    twin.load_state_dict(module.state_dict())
    query, key, value = torch.randn(2, 7, 64), torch.randn(2, 19, 64), torch.randn(2, 19, 64)
    out, weights = module(query, key, value, tables, return_attn=True)
    exact = twin(query.double(), key.double(), value.double(), tuple(x.double() for x in tables), None)
    for ours, true in zip((out, weights), exact):
        torch.testing.assert_close(ours.double(), true, rtol=1e-5, atol=1e-5)
    assert weights.shape == (2, 4, 7, 19)


def test_standard_padding_example_gives_no_nan(form):
    """Document 002 multiplies a bool mask by -infinity, so tokens to keep get 0 * -infinity = NaN."""
    module = phasor.torch.StandardAttentionWithRoPE(64, 4)
    x, tables = torch.randn(2, 9, 64), phasor.torch.generate_rope_embeddings(9, 16)
    keep = torch.arange(9) < torch.tensor([9, 5])[:, None]
    document = (~keep).unsqueeze(1).unsqueeze(2) * float("-inf")
    assert document.isnan().any()
    out = module(x, x, x, tables, document)
    right = module(x, x, x, tables, torch.zeros(2, 1, 1, 9).masked_fill(~keep[:, None, None], -math.inf))
    torch.testing.assert_close(out, right)
    torch.testing.assert_close(module(x, x, x, tables, keep[:, None, None]), right)


def test_standard_repeats_the_last_row_of_a_short_table_and_warns_once(form):
    module, x = phasor.torch.StandardAttentionWithRoPE(64, 4), torch.randn(1, 9, 64)
    cos, sin = phasor.torch.generate_rope_embeddings(6, 16)
    rows = torch.arange(9).clamp(max=5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        short = [module(x, x, x, (cos, sin)) for _ in range(3)][0]
    assert len(caught) == 1 and "6 rows for 9 tokens" in str(caught[0].message)
    torch.testing.assert_close(short, module(x, x, x, (cos[rows], sin[rows])))


def test_standard_dropout_is_for_training_only():
    module, x = phasor.torch.StandardAttentionWithRoPE(64, 4, dropout=0.5), torch.randn(1, 9, 64)
    torch.manual_seed(1)
    _, weights = module(x, x, x, return_attn=True)
    torch.manual_seed(1)
    _, again = module(x, x, x, return_attn=True)
    assert torch.equal(weights, again) and 0.3 < (weights == 0).float().mean() < 0.7
    _, kept = module.eval()(x, x, x, return_attn=True)
    torch.testing.assert_close(kept.sum(-1), torch.ones(1, 4, 9))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types(dtype, form):
    block = phasor.torch.W2TransformerBlock(CONFIG).to(dtype)
    standard = phasor.torch.StandardAttentionWithRoPE(64, 4).to(dtype)
    x = torch.randn(2, 19, 64, dtype=dtype)
    cos, sin = phasor.torch.RotaryEmbedding(16)(x, seq_len=19)
    assert cos.dtype is dtype
    for out in block(x, x, (cos, sin)):
        assert out.dtype is dtype and out.isfinite().all()
    out = standard(x, x, x, phasor.torch.generate_rope_embeddings(19, 16))
    assert out.dtype is dtype and out.isfinite().all()


def modules():
    return {
        "W2TransformerBlock": phasor.torch.W2TransformerBlock(CONFIG),
        "StandardAttentionWithRoPE": phasor.torch.StandardAttentionWithRoPE(64, 4, 0.1).eval(),
        "RotaryEmbedding": phasor.torch.RotaryEmbedding(16),
        "Qwen3RotaryEmbedding": phasor.torch.Qwen3RotaryEmbedding(
            {"model_type": "qwen3", "head_dim": 16, "max_position_embeddings": 64, "rope_theta": 1e4}
        ),
        "LearnedPositionalEncoding": phasor.torch.LearnedPositionalEncoding(64, 32),
        "SinusoidalPositionalEncoding": phasor.torch.SinusoidalPositionalEncoding(64),
        "RotaryPositionalEncoding": phasor.torch.RotaryPositionalEncoding(16),
        "ALiBi": phasor.torch.ALiBi(4),
    }


def run(name, module):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 19, 64, generator=generator)
    heads = x.unflatten(-1, (4, 16)).transpose(1, 2)
    tables = phasor.torch.RotaryEmbedding(16)(x, seq_len=19)
    calls = {
        "W2TransformerBlock": lambda: torch.cat(module(x, x, tables)),
        "StandardAttentionWithRoPE": lambda: module(x, x, x, tuple(t[0, 0, :, :8] for t in tables)),
        "RotaryEmbedding": lambda: torch.cat(module(x, seq_len=3000)),
        "Qwen3RotaryEmbedding": lambda: torch.cat(module(x, torch.arange(19)[None])),
        "RotaryPositionalEncoding": lambda: torch.cat(module(heads, heads)),
        "ALiBi": lambda: module(heads @ heads.mT),
    }
    return calls.get(name, lambda: module(x))()


@pytest.mark.parametrize("name", modules())
def test_copies_state_and_pickles(name):
    module = modules()[name]
    out = run(name, module)
    restored = pickle.loads(pickle.dumps(module))
    buffer = io.BytesIO()
    torch.save(module.state_dict(), buffer)
    buffer.seek(0)
    loaded = modules()[name]
    loaded.load_state_dict(torch.load(buffer))
    for other in (copy.deepcopy(module), restored, loaded):
        assert torch.equal(run(name, other), out)
        assert other.state_dict().keys() == module.state_dict().keys()
    if list(module.parameters()):
        changed = copy.deepcopy(module)
        with torch.no_grad():
            next(changed.parameters()).add_(1.0)
        assert torch.equal(run(name, module), out) and not torch.equal(run(name, changed), out)


@pytest.mark.parametrize("name", ["W2TransformerBlock", "StandardAttentionWithRoPE"])
def test_modules_compile(name):
    module = modules()[name]
    x = torch.randn(2, 19, 64)
    tables = phasor.torch.RotaryEmbedding(16)(x, seq_len=19)
    if name == "W2TransformerBlock":
        call = lambda: torch.cat(torch.compile(module, fullgraph=True, backend="aot_eager")(x, x, tables))  # noqa: E731
        true = torch.cat(module(x, x, tables))
    else:
        tables = tuple(t[0, 0, :, :8] for t in tables)
        call = lambda: torch.compile(module, fullgraph=True, backend="aot_eager")(x, x, x, tables)  # noqa: E731
        true = module(x, x, x, tables)
    torch.testing.assert_close(call(), true)


def test_bad_configs():
    with pytest.raises(ValueError, match=r"embed_dim: 65, expected a multiple of num_heads 4"):
        phasor.torch.StandardAttentionWithRoPE(65, 4)
    with pytest.raises(ValueError, match="heads of 3 channels, expected an even number"):
        phasor.torch.StandardAttentionWithRoPE(12, 4)
    with pytest.raises(ValueError, match="hidden_size: 66, expected a multiple of num_attention_heads 4"):
        phasor.torch.W2Attention(SimpleNamespace(hidden_size=66, num_attention_heads=4))
    module, x = phasor.torch.StandardAttentionWithRoPE(64, 4), torch.randn(1, 5, 64)
    with pytest.raises(ValueError, match=r"rope_embeddings: cos of shape \[5, 16\], expected \[length, 8\]"):
        module(x, x, x, (torch.ones(5, 16), torch.ones(5, 16)))
    with pytest.raises(ValueError, match="value: shape"):
        module(x, x, x[:, :3])
    with pytest.raises(ValueError, match="x: 40 tokens, expected at most max_len 32"):
        phasor.torch.LearnedPositionalEncoding(64, 32)(torch.randn(1, 40, 64))
