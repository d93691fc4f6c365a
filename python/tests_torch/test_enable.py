"""phasor.torch.enable(): torch's own attention with it and without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import phasor.torch
import pytest
import torch
from phasor.torch import _enable, _report, _rules
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

FUNCTION = "scaled_dot_product_attention"


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(3)
    yield
    phasor.torch.disable()


@pytest.fixture
def any_size(monkeypatch):
    """Small calls, too, are phasor's."""
    monkeypatch.setattr(_rules, "_reason_of_speed", lambda *_: None)
    monkeypatch.setattr(_enable, "is_tiny", lambda *_: False)


def normal(*shape):
    return torch.randn(shape, requires_grad=True)


class Counted:
    """How the report changes in a with block."""

    def __enter__(self):
        self.before = phasor.torch.report()
        return self

    def __exit__(self, *_):
        after = phasor.torch.report()
        self.phasor = sum(after.phasor.values()) - sum(self.before.phasor.values())
        self.compiled = sum(after.compiled.values()) - sum(self.before.compiled.values())
        self.torch = {k: n - self.before.torch.get(k, 0) for k, n in after.torch.items() if n > self.before.torch.get(k, 0)}


CASES = {
    "plain": ((2, 4, 7, 16), (2, 4, 9, 16), {}),
    "three dimensions": ((4, 7, 16), (4, 9, 16), {}),
    "causal": ((2, 4, 7, 16), (2, 4, 7, 16), {"is_causal": True}),
    "causal, more keys": ((2, 4, 5, 16), (2, 4, 9, 16), {"is_causal": True}),
    "scale": ((2, 4, 7, 16), (2, 4, 9, 16), {"scale": 0.5}),
    "grouped": ((2, 4, 7, 16), (2, 2, 9, 16), {"enable_gqa": True}),
    "float mask": ((2, 4, 7, 16), (2, 4, 9, 16), {"attn_mask": (2, 1, 7, 9)}),
    "one batch of keys": ((2, 4, 7, 16), (1, 4, 9, 16), {}),
    "two dimensions": ((7, 16), (9, 16), {"attn_mask": (7, 9)}),
}


@pytest.mark.parametrize("order", ["BHTD", "BTHD"])
@pytest.mark.parametrize("case", CASES)
def test_values_gradients_and_memory_are_torchs(case, order, any_size):
    query_shape, key_shape, options = CASES[case]
    inputs = [normal(*query_shape), normal(*key_shape), normal(*key_shape)]
    if "attn_mask" in options:
        options = options | {"attn_mask": normal(*options["attn_mask"])}
        inputs.append(options["attn_mask"])

    def call():
        swap = (lambda x: x.transpose(-2, -3).contiguous().transpose(-2, -3)) if order == "BTHD" else lambda x: x
        heads = len(query_shape) > 2
        out = sdpa(*(swap(x) if heads else x for x in inputs[:3]), **options)
        return out, torch.autograd.grad(out.square().sum(), inputs)

    expected, expected_gradients = call()
    with Counted() as count, phasor.torch.enable():
        out, gradients = call()
    assert count.phasor == 1 and not count.torch
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    assert out.stride() == expected.stride()
    for ours, theirs in zip(gradients, expected_gradients):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_bool_mask_and_a_row_that_sees_nothing(any_size):
    q, k, v = (torch.randn(1, 2, 4, 8) for _ in range(3))
    mask = torch.rand(4, 4) < 0.6
    mask[2] = False
    expected = sdpa(q, k, v, mask)
    with phasor.torch.enable():
        torch.testing.assert_close(sdpa(q, k, v, mask), expected)


def test_dropout(any_size):
    """A weight w becomes w / (1 - p) or 0, so the mean of 400 calls deviates by w sqrt(p / (1 - p) / 400) = 0.05 w. Weights
    sum to 1, so results deviate by 0.05 of the largest |v| at most; 6 deviations are 0.3."""
    q, k, v = (torch.randn(1, 2, 16, 8) for _ in range(3))
    exact = sdpa(q, k, v)
    with Counted() as count, phasor.torch.enable():
        torch.manual_seed(5)
        one, two = sdpa(q, k, v, dropout_p=0.5), sdpa(q, k, v, dropout_p=0.5)
        torch.manual_seed(5)
        assert torch.equal(one, sdpa(q, k, v, dropout_p=0.5)) and not torch.equal(one, two)
        mean = torch.stack([sdpa(q, k, v, dropout_p=0.5) for _ in range(400)]).mean(0)
    assert count.phasor == 403
    torch.testing.assert_close(mean, exact, rtol=0.0, atol=0.3 * v.abs().max().item())


def test_dropout_has_the_memory_of_torchs(any_size):
    q = torch.randn(2, 16, 4, 8).transpose(1, 2)
    expected = sdpa(q, q, q, dropout_p=0.1)
    with phasor.torch.enable():
        assert sdpa(q, q, q, dropout_p=0.1).stride() == expected.stride()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_and_half_types(dtype, any_size):
    q, k, v = (torch.randn(1, 2, 20, 16) for _ in range(3))
    exact = sdpa(q, k, v)
    with phasor.torch.enable(), Counted() as count, torch.autocast("cpu", dtype=dtype):
        out = sdpa(q, k, v)
    assert out.dtype is dtype and count.phasor == 1
    torch.testing.assert_close(out.float(), exact, rtol=0.0, atol=4 * torch.finfo(dtype).eps * v.abs().max().item())


def test_context_managers_disable_and_repeated_calls():
    q = torch.randn(1, 8, 128, 64)

    def is_phasors():
        with Counted() as count:
            sdpa(q, q, q)
        return count.phasor == 1

    assert not is_phasors()
    with phasor.torch.enable():
        assert is_phasors()
        with phasor.torch.enable():
            assert is_phasors()
        assert is_phasors()
        phasor.torch.disable()
        assert not is_phasors()
    assert not is_phasors()
    phasor.torch.enable()
    phasor.torch.enable()
    with phasor.torch.enable():
        assert is_phasors()
    assert is_phasors()
    phasor.torch.disable()
    assert not is_phasors()
    phasor.torch.disable()
    with pytest.raises(KeyError), phasor.torch.enable():
        raise KeyError
    assert not is_phasors()


def is_on():
    with Counted() as count:
        sdpa(X, X, X)
    return count.phasor == 1


def test_a_context_manager_again_and_within_itself():
    manager = phasor.torch.enable()
    with manager:
        with manager:
            assert is_on()
        assert is_on()
    assert not is_on()
    with manager:
        assert is_on()
    assert not is_on()


def test_a_context_manager_made_before_disable_or_another():
    one = phasor.torch.enable()
    phasor.torch.disable()
    with one:
        assert is_on()
    assert not is_on()
    one, two = phasor.torch.enable(), phasor.torch.enable()
    with one:
        with two:
            pass
        assert is_on()
    assert not is_on()


def test_fork_while_another_thread_counts():
    """As the workers of torch's DataLoader begin: nobody in the new process would give the lock back."""
    held = threading.Event()

    def hold():
        with _report._lock:
            held.set()
            time.sleep(0.3)

    thread = threading.Thread(target=hold)
    phasor.torch.enable()
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        torch.set_num_threads(1)  # as those workers do: torch's own kernels would wait for threads that are not there
        sdpa(X[:, :1, :4], X[:, :1, :4], X[:, :1, :4])
        os._exit(0)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


X = torch.randn(1, 8, 128, 64)
LEFT_TO_TORCH = {
    "float64": lambda: sdpa(X.double(), X.double(), X.double()),
    "small": lambda: sdpa(X[:, :1, :4], X[:, :1, :4], X[:, :1, :4]),
    "sdpa_kernel": lambda: _with_math(X),
    "torch.func": lambda: torch.func.grad(lambda x: sdpa(x, x, x).sum())(X),
    "dropout_p": lambda: sdpa(X, X, X, dropout_p=1.0),
    "shapes": lambda: sdpa(X.repeat(1, 1, 1, 9), X.repeat(1, 1, 1, 9), X),
}


def _with_math(x):
    with sdpa_kernel(SDPBackend.MATH):
        return sdpa(x, x, x)


@pytest.mark.parametrize("reason", LEFT_TO_TORCH)
def test_what_is_left_to_torch_and_why(reason):
    expected = LEFT_TO_TORCH[reason]()
    with phasor.torch.enable(), Counted() as count:
        out = LEFT_TO_TORCH[reason]()
    assert torch.equal(out, expected)
    assert count.phasor == 0 and sum(count.torch.values()) == 1
    assert reason in next(iter(count.torch))


def test_subclasses_are_left_to_torch(any_size):
    from torch.testing._internal.two_tensor import TwoTensor

    x = TwoTensor(torch.randn(1, 2, 4, 8), torch.randn(1, 2, 4, 8))
    expected = sdpa(x, x, x)
    with phasor.torch.enable(), Counted() as count:
        assert torch.equal(sdpa(x, x, x).a, expected.a)
    assert count.phasor == 0 and "TwoTensor" in next(iter(count.torch))


def test_errors_are_torchs():
    wrong, table = torch.randn(1, 3, 128, 64), torch.randn(300, 64)
    for arguments, gqa in (((X, wrong, wrong), False), ((table, table, table), True)):
        with pytest.raises((RuntimeError, IndexError)) as theirs:
            sdpa(*arguments, enable_gqa=gqa)
        with phasor.torch.enable(), pytest.raises((RuntimeError, IndexError)) as ours:
            sdpa(*arguments, enable_gqa=gqa)
        assert ours.type is theirs.type and str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("recorded", [False, True])
def test_bfloat16_where_the_processor_has_amx(recorded, monkeypatch):
    """torch's kernel for calls of medium size, unless there are gradients or dropout."""
    monkeypatch.setattr(_rules, "_HAS_AMX", True)
    monkeypatch.setattr(_rules, "_WORK_OF_BF16_WITH_AMX", 2**28 // torch.get_num_threads())
    x = X.repeat(1, 1, 4, 1).bfloat16().requires_grad_(recorded)
    longer = x.repeat(1, 1, 2, 1)
    with phasor.torch.enable(), Counted() as count:
        sdpa(x, x, x)
        sdpa(x, x, x, dropout_p=0.1)
        sdpa(longer, longer, longer)
    assert count.phasor == 2 + recorded and count.torch == ({} if recorded else {_rules.SMALL: 1})


def test_vmap_and_nothing_to_attend():
    x = torch.randn(3, 2, 8, 128, 64)
    empty = torch.randn(1, 8, 0, 64)
    expected = torch.vmap(lambda a: sdpa(a, a, a))(x)
    with phasor.torch.enable():
        assert torch.equal(torch.vmap(lambda a: sdpa(a, a, a))(x), expected)
        assert not sdpa(X, empty, empty).any()


def test_report_is_readable():
    with phasor.torch.enable():
        sdpa(X, X, X)
        sdpa(X.double(), X.double(), X.double())
    report = phasor.torch.report()
    lines = str(report).splitlines()
    assert lines[0] == f"attention: {sum(report.phasor.values())} calls by phasor, {sum(report.torch.values())} by torch"
    assert f"{report.phasor[FUNCTION]:10}  phasor: {FUNCTION}" in lines
    assert sum("torch: float64" in line for line in lines) == 1


def test_calls_of_several_threads_are_all_counted():
    small = X[:, :1, :4]

    def work():
        for _ in range(500):
            sdpa(small, small, small)

    with phasor.torch.enable(), Counted() as count:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(count.torch.values()) == 4000


def test_flash_attention_implementation_of_torch():
    q, k, v, mask = normal(2, 8, 128, 64), normal(2, 8, 128, 64), normal(2, 8, 128, 64), torch.randn(128, 128)
    for options in ({}, {"is_causal": True}, {"attn_mask": mask}, {"attn_mask": mask > 0}, {"scale": 0.3}):
        expected = sdpa(q, k, v, **options)
        expected_gradients = torch.autograd.grad(expected.square().sum(), (q, k, v))
        torch.nn.attention.activate_flash_attention_impl("phasor")
        try:
            with Counted() as count:
                out = sdpa(q, k, v, **options)
                gradients = torch.autograd.grad(out.square().sum(), (q, k, v))
        finally:
            torch.nn.attention.restore_flash_attention_impl()
        assert count.phasor == 1
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
        assert out.stride() == expected.stride()
        for ours, theirs in zip(gradients, expected_gradients):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    with Counted() as count:
        sdpa(q, k, v)
    assert count.phasor == 0


def run(directory, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "phasor.torch", *arguments], cwd=directory, capture_output=True, text=True, check=False
    )


def test_programs_run_unedited(tmp_path):
    (tmp_path / "beside.py").write_text("words = ['hello']\n")
    (tmp_path / "program.py").write_text(
        "import sys, torch, beside\n"
        "x = torch.randn(1, 8, 128, 64)\n"
        "torch.nn.functional.scaled_dot_product_attention(x, x, x)\n"
        "print(__name__, *beside.words, *sys.argv[1:])\n"
        "sys.exit(3)\n"
    )
    for way in (["program.py"], ["-m", "program"]):
        result = run(tmp_path, "--report", *way, "--report", "-x")
        assert (result.stdout, result.returncode) == ("__main__ hello --report -x\n", 3), result.stderr
        assert "attention: 1 calls by phasor, 0 by torch" in result.stderr
    assert "calls by phasor" not in run(tmp_path, "program.py").stderr
    assert "expected a script" in run(tmp_path).stderr
