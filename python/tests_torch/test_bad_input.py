"""Errors of phasor.torch name the function and the argument, what was given and what was expected."""

from __future__ import annotations

import numpy as np
import phasor
import phasor.torch
import pytest
import torch

Q, K = torch.randn(2, 4, 5, 16), torch.randn(2, 2, 7, 16)
SHORT = phasor.Rope(16).table(torch.arange(4))
TABLE = phasor.Rope(16).table(torch.arange(7))
ADJACENT = phasor.Rope(16, pairing="adjacent").table(torch.arange(5))

CASES = [
    ({"q": Q.double()}, TypeError, "k: float32, expected float64 as the others have"),
    ({"k": K.bfloat16()}, TypeError, "k: bfloat16, expected float32"),
    ({"k": K.int()}, TypeError, "k: int32, expected float32, bfloat16 or float16"),
    ({"q": Q.numpy()}, TypeError, "q: ndarray, expected a torch.Tensor"),
    ({"v": K.to_sparse()}, TypeError, "v: layout torch.sparse_coo, expected a dense tensor"),
    ({"q": Q[0]}, ValueError, r"q: shape \[4, 5, 16\], expected 4 dimensions"),
    ({"v": K[:, :, :3]}, ValueError, r"v: shape \[2, 2, 3, 16\], expected"),
    ({"k": K[..., :8]}, ValueError, "k: shape .*, expected"),
    ({"mask": torch.zeros(5, 7, dtype=torch.float64)}, TypeError, "mask: float64, expected bool or float32"),
    ({"mask": torch.zeros(5, 6)}, ValueError, "mask: shape"),
    ({"mask": torch.zeros(1, 1, 1, 5, 7)}, ValueError, "mask: .*5 dimensions|mask: shape"),
    ({"mask": [[True]]}, TypeError, "mask: list, expected a torch.Tensor"),
    ({"key_bias": torch.zeros(6)}, ValueError, "key_bias: shape"),
    ({"relative_bias": torch.zeros(4, 6)}, ValueError, r"relative_bias: shape \[4, 6\], expected"),
    ({"relative_bias": torch.zeros(4, 3), "alibi_slopes": torch.zeros(4)}, ValueError, "alibi_slopes: given beside"),
    ({"alibi_slopes": torch.zeros(3)}, ValueError, r"alibi_slopes: 3 numbers, expected 4, one for each head"),
    ({"alibi_slopes": torch.zeros(4).double()}, TypeError, "alibi_slopes: float64, expected float32"),
    ({"relative_bias": (torch.zeros(4, 5), 1.5)}, TypeError, "relative_bias: 1.5, expected a whole number"),
    ({"sinks": torch.zeros(5)}, ValueError, "sinks: "),
    ({"sinks": torch.zeros(4, dtype=torch.float64)}, TypeError, "sinks: float64, expected float32"),
    ({"k_rotary": (TABLE.cos, TABLE.sin)}, TypeError, "k_rotary: tuple, expected a RotaryTable"),
    (
        {"k_rotary": TABLE, "q_rotary": ADJACENT},
        ValueError,
        "k_rotary: pairing half, expected adjacent as q_rotary has",
    ),
    ({"q_rotary": SHORT}, ValueError, "q_rotary: "),
    ({"window": (1, 2, 3)}, ValueError, "window: "),
    ({"window": -1}, ValueError, r"window: \(-1, "),
    ({"window": 2.5}, TypeError, "window: 2.5, expected a whole number"),
    ({"window": "ab"}, TypeError, "window: 'ab', expected a whole number"),
    ({"softcap": None}, TypeError, "softcap: None, expected a number"),
    ({"dropout": None}, TypeError, "dropout: None, expected a number"),
    ({"scale": "a"}, TypeError, "scale: 'a', expected a number"),
    ({"key_lengths": "ab"}, TypeError, "key_lengths: 'ab', expected whole numbers"),
    ({"key_lengths": [1.5, 2.5]}, TypeError, "key_lengths: float32, expected int64"),
    ({"key_lengths": []}, ValueError, "key_lengths: no numbers, expected one for each sequence"),
    ({"query_offsets": []}, ValueError, "query_offsets: no numbers"),
    ({"query_offsets": torch.empty(0, dtype=torch.int64)}, ValueError, "query_offsets: no numbers"),
    ({"query_starts": []}, ValueError, "query_starts: no numbers"),
    ({"dropout": 0.5, "seed": -1}, TypeError, "seed: -1, expected a whole number of 64 bits"),
    ({"dropout": 0.5, "seed": 2**64}, TypeError, "seed: 18446744073709551616, expected a whole number of 64 bits"),
    ({"dropout": 0.5, "seed": 1.5}, TypeError, "seed: 1.5, expected a whole number of 64 bits"),
    ({"dropout": 0.5, "seed": torch.ones(1)}, TypeError, r"seed: tensor\(\[1.\]\), expected a whole number"),
    ({"dropout": 1.0}, ValueError, "dropout: rate 1, expected"),
    ({"query_offsets": [1, 2, 3]}, ValueError, "query_offsets: "),
]


@pytest.mark.parametrize(("change", "error", "text"), CASES, ids=[text[:20] for _, _, text in CASES])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_attention(change, error, text, requires_grad):
    arguments = {"q": Q.clone().requires_grad_(requires_grad), "k": K, "v": K} | change
    with pytest.raises(error, match=r"\[attention\] " + text):
        phasor.torch.attention(**arguments)


W2_CASES = [
    ({"q_log_sigma": Q.double()}, TypeError, "q_mu: float32, expected float64 as the others have"),
    ({"k_log_sigma": K[:, :, :2]}, ValueError, "k_log_sigma: shape"),
    ({"v_log_sigma": K[0]}, ValueError, "v_log_sigma: shape .* expected 4 dimensions"),
    ({"tau": float("nan")}, ValueError, "tau: nan, expected"),
    ({"tau": torch.tensor(float("inf"))}, ValueError, "tau: inf, expected"),
    ({"tau": torch.ones(4)}, ValueError, "tau: shape .*, expected one floating-point number"),
    ({"tau": "a"}, TypeError, "tau: 'a', expected a number"),
    ({"tau": None}, TypeError, "tau: None, expected a number"),
    ({"tau": np.ones(1)}, TypeError, r"tau: ndarray of shape \[1\], expected a number"),
    ({"eps": "x"}, TypeError, "eps: 'x', expected a number"),
    ({"eps": -1.0}, ValueError, "eps: -1"),
    ({"mask": torch.zeros(5, 6)}, ValueError, "mask: shape"),
]


@pytest.mark.parametrize(("change", "error", "text"), W2_CASES, ids=[text[:20] for _, _, text in W2_CASES])
def test_w2_attention(change, error, text):
    streams = {f"{name}_{stream}": x for stream in ("mu", "log_sigma") for name, x in zip("qkv", (Q, K, K))}
    with pytest.raises(error, match=r"\[w2_attention\] " + text):
        phasor.torch.w2_attention(**(streams | change))


def test_apply_rotary():
    with pytest.raises(TypeError, match=r"\[apply_rotary\] table: tuple, expected a RotaryTable"):
        phasor.torch.apply_rotary(Q, (TABLE.cos, TABLE.sin))
    with pytest.raises(ValueError, match=r"\[apply_rotary\] "):
        phasor.torch.apply_rotary(Q, SHORT)
    with pytest.raises(TypeError, match=r"\[apply_rotary\] x: int32"):
        phasor.torch.apply_rotary(Q.int(), ADJACENT)


def test_apply_rotary_pos_emb():
    cos = torch.ones(4, 16)
    for arguments in ((Q, cos, cos), (Q, Q, cos[None], cos[None]), (Q[0], cos, cos)):
        with pytest.raises(ValueError, match=r"\[apply_rotary_pos_emb\] cos: rows of shape .*4\], expected one for each"):
            phasor.torch.apply_rotary_pos_emb(*arguments)


class Elsewhere(torch.Tensor):
    """A tensor that says it is on another device."""

    is_cpu = False
    device = torch.device("cuda")


def test_another_device():
    with pytest.raises(TypeError, match=r"\[attention\] k: on device cuda, expected the CPU's memory"):
        phasor.torch.attention(Q, K.as_subclass(Elsewhere), K)
    away = torch.zeros(4).as_subclass(Elsewhere)
    table = phasor.RotaryTable(away, away, "half")
    options = {"mask": away, "sinks": away, "query_offsets": away, "key_lengths": away, "k_rotary": table}
    for name, value in options.items():
        with pytest.raises(TypeError, match=rf"\[attention\] {name}: on device cuda, expected the CPU's memory"):
            phasor.torch.attention(Q, K, K, **{name: value})
    with pytest.raises(TypeError, match=r"\[w2_attention\] tau: on device cuda"):
        phasor.torch.w2_attention(Q, K, K, Q, K, K, tau=away)


META_TABLE = phasor.RotaryTable(TABLE.cos.to("meta"), TABLE.sin.to("meta"), TABLE.pairing)
META = {
    "k": K.to("meta"),
    "v": K.to("meta"),
    "mask": torch.ones(5, 7, dtype=torch.bool, device="meta"),
    "key_bias": torch.ones(7, device="meta"),
    "relative_bias": torch.ones(4, 3, device="meta"),
    "alibi_slopes": torch.ones(4, device="meta"),
    "sinks": torch.ones(4, device="meta"),
    "key_lengths": torch.ones(2, dtype=torch.int64, device="meta"),
    "query_offsets": torch.ones(2, dtype=torch.int64, device="meta"),
    "k_rotary": META_TABLE,
}


@pytest.mark.parametrize("name", META)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_meta_tensor_beside_memory(name, requires_grad):
    arguments = {"q": Q.clone().requires_grad_(requires_grad), "k": K, "v": K, name: META[name]}
    with pytest.raises(TypeError, match=rf"\[attention\] {name}: on device meta, expected the CPU's memory"):
        phasor.torch.attention(**arguments)


def test_a_meta_tensor_beside_memory_in_other_functions():
    with pytest.raises(TypeError, match=r"\[w2_attention\] tau: on device meta"):
        phasor.torch.w2_attention(Q, K, K, Q, K, K, tau=torch.ones((), device="meta"))
    with pytest.raises(TypeError, match=r"\[w2_attention\] k_log_sigma: on device meta"):
        phasor.torch.w2_attention(Q, K, K, Q, K.to("meta"), K)
    with pytest.raises(TypeError, match=r"\[apply_rotary\] table: on device meta"):
        phasor.torch.apply_rotary(Q, META_TABLE)
    with pytest.raises(TypeError, match=r"\[apply_rotary\] table: on device meta"):
        phasor.torch.apply_rotary(Q, phasor.RotaryTable(TABLE.cos, META_TABLE.sin, "half"))
