"""Bad input: ValueError or TypeError with the argument's name, what was given and what was expected. Never a crash."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import phasor
import pytest

B, H, G, T, S, D = 2, 4, 2, 3, 5, 8


def normal(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


TABLE = phasor.Rope(D).table(np.arange(S))
OTHER = phasor.Rope(D, pairing="adjacent").table(np.arange(S))
UNALIGNED = np.frombuffer(bytes(1 + 4 * B * H * T * D), dtype=np.uint8)[1:].view(np.float32).reshape(B, H, T, D)

HEADS = phasor.rotary_table(np.ones((1, 3, T, 4), np.float32), np.ones((1, 3, T, 4), np.float32), pairing="half")


def block_mask(queries, keys):
    return phasor.make_block_mask(np.ones((queries, keys), bool), (2, 3))


CASES = [
    ({"q": normal(B, H, T, D).astype(np.float64)}, TypeError, "q: float64, expected float32, float16 or bfloat16"),
    ({"q": np.ones((B, H, T, D), np.int32)}, TypeError, "q: int32, expected float32"),
    ({"q": np.ones((B, H, T, D), np.complex64)}, TypeError, "q: complex64, expected float32"),
    ({"q": np.ones((B, H, T, D), object)}, TypeError, "q: ndarray of object"),
    ({"q": np.ones((B, H, T, D), ">f4")}, TypeError, "q: ndarray of >f4"),
    ({"q": [[1.0]]}, TypeError, "q: list, expected an array"),
    ({"q": None}, TypeError, "q: NoneType, expected an array"),
    ({"k": 3.0}, TypeError, "k: float, expected an array"),
    ({"v": "v"}, TypeError, "v: str, expected an array"),
    ({"k": normal(B, G, S, D).astype(np.float16)}, TypeError, "k: float16, expected float32"),
    ({"q": normal(H, T, D)}, ValueError, "q: shape [4, 3, 8], expected 4 dimensions"),
    ({"v": normal(B, G, S)}, ValueError, "v: shape [2, 2, 5], expected 4 dimensions"),
    ({"k": normal(B, 3, S, D), "v": normal(B, 3, S, D)}, ValueError, "k: 3 heads"),
    ({"k": normal(B, G, S, D - 1)}, ValueError, "k: shape [2, 2, 5, 7]"),
    ({"v": normal(B, G, S + 1, D)}, ValueError, "v: shape [2, 2, 6, 8]"),
    ({"v": normal(B, G, D, S).swapaxes(2, 3)}, ValueError, "v: last stride is 5 elements, expected 1"),
    ({"q": UNALIGNED}, ValueError, "q: memory is not aligned"),
    ({"scale": float("nan")}, ValueError, "scale: nan, expected a number from"),
    ({"scale": 1e38}, ValueError, "scale: 1e"),
    ({"softcap": 1e-40}, ValueError, "softcap: 1e-40, expected a number from"),
    ({"scale": "big"}, TypeError, "scale: 'big', expected a number"),
    ({"window": -1}, ValueError, "window: (-1, "),
    ({"window": (1, 2, 3)}, ValueError, "window: (1, 2, 3), expected (left, right)"),
    ({"window": "ab"}, TypeError, "window: 'ab', expected a whole number"),
    ({"window": (None, "b")}, TypeError, "window: 'b', expected a whole number"),
    ({"window": 1.5}, TypeError, "window: 1.5, expected a whole number"),
    ({"query_offsets": [1, 2, 3]}, ValueError, "query_offsets: 3 numbers"),
    ({"query_offsets": 2.5}, TypeError, "query_offsets: float, expected"),
    ({"query_offsets": [[1], [2]]}, TypeError, "query_offsets: [1], expected a whole number"),
    ({"query_offsets": np.ones((1, 2), np.int64)}, ValueError, "query_offsets: shape [1, 2], expected 0 to 1 dimensions"),
    ({"query_offsets": 2**63}, ValueError, "query_offsets: 9223372036854775808, expected"),
    ({"key_lengths": [9, 1]}, ValueError, "key_lengths: 9 for sequence 0"),
    ({"key_lengths": [1]}, ValueError, "key_lengths: 1 numbers"),
    ({"key_lengths": "ab"}, TypeError, "key_lengths: str, expected"),
    ({"key_lengths": []}, ValueError, "key_lengths: no numbers, expected one for each sequence"),
    ({"key_lengths": np.empty(0, np.int64)}, ValueError, "key_lengths: no numbers"),
    ({"query_offsets": []}, ValueError, "query_offsets: no numbers"),
    ({"query_offsets": (), "alibi_slopes": normal(H)}, ValueError, "query_offsets: no numbers"),
    ({"query_offsets": "ab", "alibi_slopes": normal(H)}, TypeError, "query_offsets: str, expected an array"),
    ({"query_starts": []}, ValueError, "query_starts: no numbers"),
    ({"query_starts": [0, 3], "key_starts": []}, ValueError, "key_starts: no numbers"),
    ({"query_starts": [0, 3]}, ValueError, "query_starts: given with q of shape"),
    ({"query_starts": "ab", "alibi_slopes": normal(H)}, TypeError, "query_starts: str, expected an array"),
    ({"mask": np.ones((T, S), np.float64)}, TypeError, "mask: float64, expected bool or float32"),
    ({"mask": np.ones(S + 1, bool)}, ValueError, "mask: shape [1, 1, 1, 6]"),
    ({"mask": np.ones((T, S + 1), bool)}, ValueError, "mask: shape [1, 1, 3, 6]"),
    ({"key_bias": normal(S + 1)}, ValueError, "key_bias: shape [1, 1, 6]"),
    ({"relative_bias": normal(H, 4)}, ValueError, "relative_bias: shape [4, 4], expected [H, 2 n + 1]"),
    ({"relative_bias": (normal(H + 1, 5), 0)}, ValueError, "relative_bias: shape [5, 5], expected 4 heads"),
    ({"relative_bias": (normal(H, 5), 1.5)}, TypeError, "relative_bias: 1.5, expected a whole number"),
    ({"relative_bias": (normal(H, 5), 0, 1)}, ValueError, "relative_bias: a tuple of 3"),
    ({"relative_bias": normal(H, 5), "alibi_slopes": normal(H)}, ValueError, "alibi_slopes: given beside relative_bias"),
    ({"alibi_slopes": normal(H, 1)}, ValueError, "alibi_slopes: shape [4, 1], expected 1 dimensions"),
    ({"alibi_slopes": normal(H + 1)}, ValueError, "alibi_slopes: 5 numbers, expected 4, one for each head"),
    ({"alibi_slopes": np.ones(H)}, TypeError, "alibi_slopes: float64, expected float32"),
    ({"alibi_slopes": "ab"}, TypeError, "alibi_slopes: str, expected an array"),
    ({"q_rotary": (TABLE.cos, TABLE.sin)}, TypeError, "q_rotary: tuple, expected a RotaryTable"),
    ({"q_rotary": TABLE, "k_rotary": OTHER}, ValueError, "k_rotary: pairing adjacent, expected half"),
    ({"k_rotary": phasor.Rope(D).table(np.arange(S - 1))}, ValueError, "k_rotary: shape [1, 1, 4, 4]"),
    ({"q_rotary": phasor.Rope(2 * D).table(np.arange(T))}, ValueError, "q_rotary: rotates 16 channels"),
    ({"q_rotary": phasor.Rope(D).table(3)}, ValueError, "q_rotary: shape [4], expected 2 to 4 dimensions"),
    ({"q_rotary": HEADS}, ValueError, "q_rotary: shape [1, 3, 3, 4], expected 1 or 2 sequences, 1 or 4 heads"),
    ({"query_scale": normal(T + 1)}, ValueError, "query_scale: shape [1, 1, 4], expected [2 or 1, 4 or 1, 3]"),
    ({"query_scale": np.ones(T)}, TypeError, "query_scale: float64, expected float32"),
    ({"key_bias": normal(3, S)}, ValueError, "key_bias: shape [1, 3, 5]"),
    ({"block_mask": np.ones((T, S), bool)}, TypeError, "block_mask: ndarray, expected a BlockMask"),
    ({"block_mask": block_mask(T, S + 4)}, ValueError, "block_mask: a map of shape [1, 1, 2, 3], expected"),
    ({"block_mask": replace(block_mask(T, S), blocks=np.full((1, 1, 2, 2), 9, np.int32))}, ValueError, "block_mask: 9"),
    ({"block_mask": replace(block_mask(T, S), bits=np.ones((0, 2, 2)))}, TypeError, "block_mask: float64, expected uint64"),
    ({"block_mask": replace(block_mask(T, S), query_block=1.5)}, TypeError, "block_mask: 1.5, expected a whole number"),
    ({"block_mask": phasor.make_block_mask(np.ones((T, 200), bool))}, ValueError, "block_mask: a map of shape [1, 1, 1, 2]"),
    ({"softcap": -1.0}, ValueError, "softcap: -1"),
    ({"softcap": None}, TypeError, "softcap: None, expected a number"),
    ({"dropout": None}, TypeError, "dropout: None, expected a number"),
    ({"sinks": normal(H + 1)}, ValueError, "sinks: 5 numbers, expected 4"),
    ({"sinks": normal(2 * H)[::2]}, ValueError, "sinks: last stride is 2"),
    ({"dropout": 0.5}, ValueError, "seed: None beside dropout 0.5, expected a whole number"),
    ({"dropout": 1.0, "seed": 1}, ValueError, "dropout: rate 1"),
    ({"dropout": 0.5, "seed": -1}, TypeError, "seed: -1, expected a whole number"),
]


@pytest.mark.parametrize("bad, error, words", CASES, ids=[words.partition(",")[0] for *_, words in CASES])
def test_the_argument_is_named(bad, error, words):
    arguments = {"q": normal(B, H, T, D), "k": normal(B, G, S, D), "v": normal(B, G, S, D), **bad}
    with pytest.raises(error) as raised:
        phasor.attention(arguments.pop("q"), arguments.pop("k"), arguments.pop("v"), **arguments)
    assert str(raised.value).startswith(f"[attention] {words}"), raised.value
    assert type(raised.value) is error


def test_unknown_options_are_refused():
    q = normal(1, 1, 2, 4)
    with pytest.raises(TypeError, match="is_causal"):
        phasor.attention(q, q, q, is_causal=True)
    with pytest.raises(TypeError, match=r"\[attention_backward\] is_causal: not an option"):
        phasor.attention_backward(q, q, q, q, q[..., :2], q, is_causal=True)


@pytest.mark.parametrize(
    "bad, error, words",
    [
        ({"out": normal(B, H, T, D - 1)}, ValueError, "out: shape"),
        ({"softmax": normal(B, H, T + 1, 2)}, ValueError, "softmax: shape"),
        ({"softmax": normal(B, H, T)}, ValueError, "softmax: shape [2, 4, 3], expected 4 dimensions"),
        ({"softmax": normal(B, H, T, 2).astype(np.float64)}, TypeError, "softmax: float64"),
        ({"grad_out": normal(B, H, T, D).astype(np.float16)}, TypeError, "grad_out: float16"),
        ({"grad_lse": normal(B, H)}, ValueError, "grad_lse: shape [2, 4], expected 3 dimensions"),
        ({"softmax": None}, TypeError, "softmax: None"),
        ({"out": None}, TypeError, "out: None"),
    ],
)
def test_backward(bad, error, words):
    arguments = {
        "q": normal(B, H, T, D), "k": normal(B, G, S, D), "v": normal(B, G, S, D), "out": normal(B, H, T, D),
        "softmax": normal(B, H, T, 2), "grad_out": normal(B, H, T, D), **bad,
    }  # fmt: skip
    with pytest.raises(error) as raised:
        phasor.attention_backward(**arguments)
    assert str(raised.value).startswith(f"[attention_backward] {words}"), raised.value


def test_apply_rotary():
    x = normal(B, H, T, D)
    for bad, error, words in (
        ({"x": x.astype(np.float64)}, TypeError, "x: float64"),
        ({"table": TABLE.cos}, TypeError, "table: ndarray, expected a RotaryTable"),
        ({"out": np.empty((B, H, T, D + 1), np.float32)}, ValueError, "out: shape"),
        ({"out": np.empty((B, H, T, D), np.float16)}, TypeError, "out: float16, expected float32"),
        ({"out": np.broadcast_to(np.float32(0), x.shape)}, ValueError, "out: read-only, expected memory to write to"),
        ({"x": np.ones((B, H, S + 1, D), np.float32)}, ValueError, "table: "),
    ):
        arguments = {"x": x, "table": TABLE, **bad}
        with pytest.raises(error) as raised:
            phasor.apply_rotary(arguments.pop("x"), arguments.pop("table"), **arguments)
        assert str(raised.value).startswith(f"[apply_rotary] {words}"), raised.value


def test_threads():
    with pytest.raises(ValueError, match="count: -1"):
        phasor.set_num_threads(-1)


def test_numbers_are_named():
    q = normal(1, 1, 2, 4)
    streams = (q, q, q, q, q, q)
    calls = (
        (lambda: phasor.w2_attention(*streams, tau="a"), "[w2_attention] tau: 'a', expected a number"),
        (lambda: phasor.w2_attention(*streams, tau=None), "[w2_attention] tau: None, expected a number"),
        (lambda: phasor.w2_attention(*streams, tau=np.ones(1)), "[w2_attention] tau: ndarray of shape [1], expected"),
        (lambda: phasor.w2_attention(*streams, eps="x"), "[w2_attention] eps: 'x', expected a number"),
        (lambda: phasor.Rope("a"), "[Rope] head_dim: 'a', expected a whole number"),
        (lambda: phasor.Rope(8, theta="a"), "[Rope] theta: 'a', expected a number"),
        (lambda: phasor.Rope(8, rotary_dim="a"), "[Rope] rotary_dim: 'a', expected a whole number"),
        (lambda: phasor.Rope(8).inv_freq_at(1.5), "[Rope.inv_freq_at] length: 1.5, expected a whole number"),
        (lambda: phasor.KVCache("a", 1, 1, 4), "[KVCache] batch: 'a', expected a whole number"),
        (lambda: phasor.KVCache(1, 1, 1, 4.0), "[KVCache] channels: 4.0, expected a whole number"),
        (lambda: phasor.KVCache(1, 1, 1, 4, dtype=np.float32), "[KVCache] dtype: "),
        (lambda: phasor.alibi_slopes(2.5), "[alibi_slopes] heads: 2.5, expected a whole number"),
        (lambda: phasor.alibi_bias(np.ones(2), 3), "[alibi_bias] slopes: float64, expected float32"),
        (lambda: phasor.sinusoidal("a", 4), "[sinusoidal] length: 'a', expected a whole number"),
        (lambda: phasor.precompute_freqs_cis(4, 1.5), "[precompute_freqs_cis] end: 1.5, expected a whole number"),
        (lambda: phasor.t5_bias(normal(8, 1), max_distance=2.5), "[t5_bias] max_distance: 2.5, expected"),
        (lambda: phasor.convert_pairing(q[0, 0], 1.0, to="half"), "[convert_pairing] heads: 1.0, expected"),
        (lambda: phasor.set_num_threads(1.5), "[set_num_threads] count: 1.5, expected a whole number"),
    )
    for call, words in calls:
        with pytest.raises(TypeError) as raised:
            call()
        assert str(raised.value).startswith(words), raised.value


def test_numbers_of_numpy_are_numbers():
    q = normal(1, 1, 2, 4)
    expected = phasor.w2_attention(q, q, q, q, q, q, tau=2.0, window=1)
    given = phasor.w2_attention(q, q, q, q, q, q, tau=np.float32(2), window=np.int64(1))
    np.testing.assert_array_equal(given, expected)
    assert phasor.Rope(np.int32(8)).head_dim == 8
