"""Rope, tables and rotation."""

from __future__ import annotations

import copy
import json
import pickle

import ml_dtypes
import numpy as np
import phasor
import pytest
import reference


def normal(*shape):
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def test_frequencies_and_table():
    rope = phasor.Rope(64, theta=5e5)
    inv_freq = 5e5 ** (-np.arange(32) / 32)
    np.testing.assert_allclose(rope.inv_freq, inv_freq, rtol=1e-14)
    assert (rope.head_dim, rope.rotary_dim, rope.pairing, rope.type) == (64, 64, "half", "default")
    assert rope.attention_scaling == 1.0 and rope.scale == 0.125
    positions = np.array([0, 1, 17, 1_048_575, -4])
    table = rope.table(positions)
    assert table.pairing == "half" and table.cos.dtype == table.sin.dtype == np.float32
    angles = positions[:, None] * rope.inv_freq
    np.testing.assert_allclose(table.cos, np.cos(angles), atol=2e-7)
    np.testing.assert_allclose(table.sin, np.sin(angles), atol=2e-7)


@pytest.mark.parametrize("shape", [(), (7,), (2, 7), (0,)])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_shapes_of_positions(shape, dtype):
    positions = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    table = phasor.Rope(16, rotary_dim=8).table(positions)
    assert table.cos.shape == table.sin.shape == (*shape, 4)


def test_positions_from_lists_and_transposed():
    rope = phasor.Rope(8)
    assert np.array_equal(rope.table([[3, 1], [4, 1]]).cos, rope.table(np.array([[3, 4], [1, 1]]).T).cos)
    with pytest.raises(TypeError, match="positions: float64"):
        rope.table([0.5])
    with pytest.raises(ValueError, match=r"positions: shape \[1, 1, 1\]"):
        rope.table([[[1]]])


def test_scalings():
    plain = phasor.Rope(64)
    linear = phasor.Rope(64, scaling={"rope_type": "linear", "factor": 4.0})
    np.testing.assert_allclose(linear.inv_freq, plain.inv_freq / 4, rtol=1e-14)
    yarn = phasor.Rope(64, scaling={"type": "yarn", "factor": 4.0}, max_position_embeddings=2048)
    assert yarn.attention_scaling == pytest.approx(0.1 * np.log(4) + 1)
    assert yarn.type == "yarn" and yarn.inv_freq[0] == plain.inv_freq[0]
    dynamic = phasor.Rope(64, scaling={"rope_type": "dynamic", "factor": 2.0}, max_position_embeddings=128)
    assert np.array_equal(dynamic.inv_freq, plain.inv_freq)
    stretched = 10000 * (2 * 256 / 128 - 1) ** (64 / 62)
    np.testing.assert_allclose(dynamic.inv_freq_at(256), stretched ** (-np.arange(32) / 32), rtol=1e-12)
    assert np.array_equal(dynamic.table([255]).cos, dynamic.table([255], length=256).cos)
    assert not np.array_equal(dynamic.table([255]).cos, dynamic.table([255], length=128).cos)


def test_ntk_aware():
    rope = phasor.ntk_aware_rope(64, 8.0, pairing="adjacent")
    base = 10000 * 8 ** (64 / 62)
    np.testing.assert_allclose(rope.inv_freq, base ** (-np.arange(32) / 32), rtol=1e-12)
    assert rope.pairing == "adjacent"


def test_from_config(tmp_path):
    config = {"model_type": "qwen3", "rope_theta": 1e6, "head_dim": 128, "hidden_size": 1024, "num_attention_heads": 16}
    (tmp_path / "config.json").write_text(json.dumps(config))

    class Config:
        def to_dict(self):
            return {**config, "dtype": np.dtype("float32")}

    for given in (config, tmp_path, str(tmp_path / "config.json"), Config()):
        rope = phasor.Rope.from_config(given)
        assert (rope.theta, rope.head_dim, rope.rotary_dim) == (1e6, 128, 128)
    with pytest.raises(ValueError, match="rope_theta"):
        phasor.Rope.from_config({**config, "rope_theta": "big"})
    with pytest.raises(TypeError, match="config: int"):
        phasor.Rope.from_config(3)
    with pytest.raises(FileNotFoundError):
        phasor.Rope.from_config(tmp_path / "none.json")


def test_layer_types():
    config = {"model_type": "gemma3_text", "rope_theta": 1e6, "rope_local_base_freq": 1e4, "head_dim": 256}
    assert phasor.Rope.from_config(config, "sliding_attention").theta == 1e4
    assert phasor.Rope.from_config(config, layer_type="full_attention").theta == 1e6
    with pytest.raises(ValueError, match="layer_type"):
        phasor.Rope.from_config(config)


def test_several_axes():
    config = {
        "model_type": "qwen2_vl", "hidden_size": 256, "num_attention_heads": 2, "rope_theta": 1e6,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    }  # fmt: skip
    rope = phasor.Rope.from_config(config)
    assert rope.axes == 3
    positions = np.random.default_rng(1).integers(0, 99, (3, 2, 5))
    table = rope.table(positions)
    axis = np.repeat([0, 1, 2], [16, 24, 24])
    angles = positions[axis].transpose(1, 2, 0) * rope.inv_freq
    np.testing.assert_allclose(table.cos, np.cos(angles), atol=2e-7)
    assert rope.table(positions[:, 0]).sin.shape == (5, 64)
    with pytest.raises(ValueError, match="positions"):
        rope.table(positions[:2])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda rope: pickle.loads(pickle.dumps(rope))])
def test_copies(copied):
    config = {"model_type": "llama", "head_dim": 32, "rope_theta": 5e5}
    for rope in (phasor.Rope(32, rotary_dim=16, pairing="adjacent"), phasor.Rope.from_config(config)):
        assert repr(copied(rope)) == repr(rope)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"head_dim": 7}, "rotary_dim: 7"),
        ({"head_dim": 0}, "head_dim: 0"),
        ({"head_dim": 8, "rotary_dim": 10}, "rotary_dim: 10"),
        ({"head_dim": 8, "rotary_dim": 0}, "rotary_dim: 0"),
        ({"head_dim": 8, "theta": float("nan")}, "theta: nan"),
        ({"head_dim": 8, "pairing": "both"}, "pairing: 'both', expected \"half\" or \"adjacent\""),
        ({"head_dim": 8, "scaling": {"rope_type": "spiral"}}, "spiral"),
        ({"head_dim": 8, "scaling": {"rope_type": "linear"}}, "factor: missing"),
        ({"head_dim": 8, "scaling": {"rope_type": "linear", "factor": float("inf")}}, "scaling: "),
        ({"head_dim": 8, "scaling": {"rope_theta": 1e6}}, "rope_theta: "),
    ],
)
def test_bad_settings_are_named(arguments, words):
    with pytest.raises(ValueError) as raised:
        phasor.Rope(**arguments)
    assert words in str(raised.value)


@pytest.mark.parametrize("pairing", ["half", "adjacent"])
@pytest.mark.parametrize("dtype, precision", [(np.float32, 0), (np.float16, 2**-11), (ml_dtypes.bfloat16, 2**-8)])
def test_apply_rotary(pairing, dtype, precision):
    x = normal(2, 3, 11, 20).astype(dtype)
    table = phasor.Rope(20, rotary_dim=12, pairing=pairing).table(np.arange(22).reshape(2, 11) * 3)
    turned = phasor.apply_rotary(x, table)
    assert turned.dtype == dtype
    expected = reference.rotate(np.float64(x.astype(np.float32)), table.cos, table.sin, pairing)
    np.testing.assert_allclose(turned.astype(np.float64), expected, rtol=precision, atol=1e-6)
    if dtype == np.float32:
        np.testing.assert_allclose(phasor.apply_rotary(turned, table, transpose=True), x, atol=1e-6)


def test_apply_rotary_into_given_memory():
    x = normal(1, 2, 5, 8)
    table = phasor.Rope(8).table(np.arange(9))  # more tokens than needed
    expected = phasor.apply_rotary(x, table)
    out = np.empty((1, 5, 2, 8), np.float32).transpose(0, 2, 1, 3)
    assert phasor.apply_rotary(x, table, out=out) is out and np.array_equal(out, expected)
    assert phasor.apply_rotary(x, table, out=x) is x and np.array_equal(x, expected)


def test_given_tables():
    cos, sin = normal(2, 5, 4), normal(2, 5, 4)
    table = phasor.rotary_table(cos, sin, pairing="adjacent")
    assert table.cos is cos and table.sin is sin
    x = normal(2, 3, 5, 8)
    np.testing.assert_allclose(phasor.apply_rotary(x, table), reference.rotate(x, cos, sin, "adjacent"), atol=1e-6)
    for bad, error, words in (
        ((cos, sin[:1], "half"), ValueError, r"sin: shape \[1, 5, 4\]"),
        ((cos, sin.astype(np.float64), "half"), TypeError, "sin: float64, expected float32"),
        ((cos[0, 0], sin[0, 0], "half"), ValueError, r"cos: shape \[4\]"),
        ((cos, sin, "quarter"), ValueError, "pairing: 'quarter'"),
        (([1.0], sin, "half"), TypeError, "cos: list"),
    ):
        with pytest.raises(error, match=words):
            phasor.rotary_table(bad[0], bad[1], pairing=bad[2])


def test_convert_pairing():
    weight = normal(3 * 8, 5)
    converted = phasor.convert_pairing(weight, 3, to="half")
    assert np.array_equal(phasor.convert_pairing(converted, 3, to="adjacent"), weight)
    x = normal(1, 1, 7, 5)
    rotated = []
    for rows, pairing in ((weight, "adjacent"), (converted, "half")):
        heads = (x[0, 0] @ rows.T).reshape(1, 7, 3, 8).transpose(0, 2, 1, 3)
        table = phasor.Rope(8, pairing=pairing).table(np.arange(7))
        turned = phasor.apply_rotary(heads, table)
        rotated.append(turned @ turned.swapaxes(2, 3))
    np.testing.assert_allclose(*rotated, atol=1e-4)
    assert phasor.convert_pairing(weight[:, 0].astype(np.float64), 3, to="half").dtype == np.float64
    partial = phasor.convert_pairing(weight, 3, to="half", rotary_dim=4)
    assert np.array_equal(partial.reshape(3, 8, 5)[:, 4:], weight.reshape(3, 8, 5)[:, 4:])
    with pytest.raises(ValueError, match="heads: 5, expected a divisor of the 24 rows"):
        phasor.convert_pairing(weight, 5, to="half")
    with pytest.raises(ValueError, match="pairing: 'other'"):
        phasor.convert_pairing(weight, 3, to="other")


def test_precompute_freqs_cis():
    freqs = phasor.precompute_freqs_cis(16, 9)
    angles = np.arange(9)[:, None] * 10000 ** (-np.arange(8) / 8)
    assert freqs.dtype == np.complex64
    np.testing.assert_allclose(freqs, np.exp(1j * angles), atol=2e-7)
