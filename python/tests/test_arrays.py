"""Arrays are not copied, results are of the kind of the input, the GIL is released, threads change no bit."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time

import array_api_strict
import ml_dtypes
import numpy as np
import phasor
import pytest
from phasor import _phasor


def normal(*shape):
    return np.random.default_rng(23).standard_normal(shape).astype(np.float32)


def pointer(x):
    return x.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, bool, np.int64])
def test_the_extension_sees_the_memory_itself(dtype):
    whole = normal(2, 3, 4, 6).astype(dtype)
    read_only = whole.copy()
    read_only.flags.writeable = False
    for x in (whole, whole[1:], whole[:, ::2], whole.transpose(1, 0, 2, 3), whole[:, ::-1], read_only):
        assert _phasor.address(x) == pointer(x)


def addresses(x):
    """Those of an argument: an array, None, a table, or arrays by name. Numbers have none."""
    if isinstance(x, dict):
        return [pointer(array) for array in x.values()]
    if isinstance(x, phasor.RotaryTable):
        return [pointer(x.cos), pointer(x.sin)]
    return [None if x is None else pointer(x)] if x is None or isinstance(x, np.ndarray) else []


def recorded(monkeypatch, name):
    """The addresses that calls of a function of the extension are given, in order of its arguments."""
    original, seen = getattr(_phasor, name), []

    def record(*args, **kwargs):
        for x in (*args, *kwargs.values()):
            seen.extend(addresses(x))
        return original(*args, **kwargs)

    monkeypatch.setattr(_phasor, name, record)
    return seen


def test_attention_passes_arrays_on(monkeypatch):
    q, k, v = (normal(1, 6, 2, 8).transpose(0, 2, 1, 3) for _ in range(3))
    mask, table = normal(6, 6), phasor.Rope(8).table(np.arange(6))
    options = {"mask": mask, "q_rotary": table, "key_bias": normal(6), "sinks": normal(2)}
    seen = recorded(monkeypatch, "attention_forward")
    out, lse, softmax = phasor.attention(q, k, v, **options, return_lse=True, return_softmax=True)
    expected = [q, k, v, out, lse, softmax, None, mask, table.cos, table.sin, options["key_bias"], options["sinks"]]
    assert seen == [None if x is None else pointer(x) for x in expected]
    seen = recorded(monkeypatch, "attention_backward")
    grad_out = normal(1, 2, 6, 8)
    gradients = phasor.attention_backward(q, k, v, out, softmax, grad_out, **options)
    expected = [q, k, v, out, softmax, grad_out, None, gradients.q, gradients.k, gradients.v]
    expected += [gradients.mask, gradients.key_bias, gradients.sinks, mask, table.cos, table.sin]
    assert seen[: len(expected)] == [None if x is None else pointer(x) for x in expected]


def test_w2_and_rotation_pass_arrays_on(monkeypatch):
    streams = [normal(1, 2, 3, 4) for _ in range(6)]
    seen = recorded(monkeypatch, "w2_attention_forward")
    out_mu, out_log_sigma = phasor.w2_attention(*streams)
    assert seen[:3] == [pointer(x) for x in streams[:3]]
    assert seen[5:8] == [pointer(x) for x in (streams[5], out_mu, out_log_sigma)]
    seen = recorded(monkeypatch, "apply_rotary")
    table = phasor.Rope(4).table(np.arange(3))
    out = phasor.apply_rotary(streams[0], table)
    assert seen[:4] == [pointer(x) for x in (streams[0], table.cos, table.sin, out)]


class Foreign:
    """Memory with DLPack and nothing else."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_other_libraries_get_their_own_arrays():
    q, k, v = normal(1, 2, 5, 8), normal(1, 2, 5, 8), normal(1, 2, 5, 8)
    table = phasor.Rope(8).table(np.arange(5))
    expected, expected_lse, _ = phasor.attention(q, k, v, q_rotary=table, return_lse=True, return_softmax=True)
    theirs = [array_api_strict.asarray(x) for x in (q, k, v)]
    out, lse, softmax = phasor.attention(*theirs, q_rotary=table, return_lse=True, return_softmax=True)
    assert type(out) is type(lse) is type(softmax) is type(theirs[0])
    assert np.array_equal(np.from_dlpack(out), expected) and np.array_equal(np.from_dlpack(lse), expected_lse)
    gradients = phasor.attention_backward(*theirs, out, softmax, theirs[0], q_rotary=table)
    assert type(gradients.q) is type(out)
    assert type(phasor.w2_attention(*theirs, *theirs)[1]) is type(out)
    rotated = phasor.apply_rotary(theirs[0], table)
    assert np.array_equal(np.from_dlpack(rotated), phasor.apply_rotary(q, table))
    positions = phasor.Rope(8).table(array_api_strict.asarray([3, 4]))
    weight = np.arange(64, dtype=np.float32).reshape(32, 2)
    bias, made = phasor.t5_bias(array_api_strict.asarray(weight)), phasor.t5_bias(weight)
    assert isinstance(bias.table, type(theirs[0])) and np.array_equal(np.from_dlpack(bias.table), made.table)
    turned = phasor.convert_pairing(array_api_strict.asarray(weight), 4, to="adjacent")
    expected = phasor.convert_pairing(weight, 4, to="adjacent")
    assert isinstance(turned, type(theirs[0])) and np.array_equal(np.from_dlpack(turned), expected)
    assert type(positions.cos) is type(out)
    with pytest.raises(TypeError, match="q: float64, expected float32 or float16"):
        phasor.attention(*(array_api_strict.asarray(x.astype(np.float64)) for x in (q, k, v)))


def test_arrays_whose_library_takes_nothing_back():
    q, k = normal(1, 2, 5, 8), normal(1, 2, 5, 8)
    with pytest.raises(TypeError, match="q: Foreign, whose library has no from_dlpack"):
        phasor.attention(Foreign(q), k, k)
    assert np.array_equal(phasor.attention(q, Foreign(k), Foreign(k)), phasor.attention(q, k, k))


def test_torch_is_not_imported():
    assert "torch" not in sys.modules


def test_other_threads_run_meanwhile():
    """While a long call runs, this thread goes on: some of its ticks fall within the call."""
    q = normal(1, 8, 1536, 64)
    phasor.set_num_threads(1)
    span = []

    def call():
        begin = time.perf_counter()
        phasor.attention(q, q, q)
        span.extend((begin, time.perf_counter()))

    thread = threading.Thread(target=call)
    ticks = []
    thread.start()
    while thread.is_alive():
        ticks.append(time.perf_counter())
        time.sleep(0.001)
    phasor.set_num_threads(0)
    begin, end = span
    inner = (begin + 0.25 * (end - begin), end - 0.25 * (end - begin))
    assert any(inner[0] < tick < inner[1] for tick in ticks)


def test_any_number_of_threads_gives_the_same_bits():
    q, k = normal(2, 4, 130, 32), normal(2, 2, 150, 32)
    streams = [q, k, k, 0.1 * q, 0.1 * k, k]
    results = []
    for count in (1, 2, 5):
        phasor.set_num_threads(count)
        assert phasor.num_threads() == count
        options = {"causal": True, "dropout": 0.1, "seed": 3}
        out, lse, softmax = phasor.attention(q, k, k, **options, return_lse=True, return_softmax=True)
        gradients = phasor.attention_backward(q, k, k, out, softmax, q, **options)
        results.append([out, lse, softmax, *gradients[:3], *phasor.w2_attention(*streams)])
    phasor.set_num_threads(0)
    for others in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], others, strict=True))


def test_calls_from_many_threads():
    q = normal(1, 2, 70, 16)
    expected = phasor.attention(q, q, q, causal=True)
    results = [None] * 8

    def call(i):
        results[i] = phasor.attention(q, q, q, causal=True)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(result, expected) for result in results)


def attention_in_child(queue, q):
    queue.put((phasor.num_threads(), phasor.attention(q, q, q, causal=True)))


def test_a_process_forked_after_a_call():
    """The child has none of the parent's threads: it works alone, and gives the same bits."""
    q = normal(2, 4, 400, 64)
    phasor.set_num_threads(4)
    expected = phasor.attention(q, q, q, causal=True)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=attention_in_child, args=(queue, q))
    child.start()
    try:
        threads, out = queue.get(timeout=60)
    finally:
        child.kill()
        child.join()
    assert phasor.num_threads() == 4
    phasor.set_num_threads(0)
    assert threads == 1
    assert np.array_equal(out, expected)
