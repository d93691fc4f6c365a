"""One table of options, include/phasor/attention/option_table.h: what lists the options elsewhere agrees with it."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re

import numpy as np
import phasor
import pytest
import test_errors
from phasor import _errors, _phasor
from phasor._options import LEARNED, OPTIONS, AttentionOptions

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = [row.name for row in OPTIONS]
FUNCTIONS = [
    phasor.attention,
    phasor.attention_backward,
    phasor.w2_attention,
    phasor.w2_attention_backward,
    phasor.KVCache.attention,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__qualname__)
def test_signatures(function):
    parameters = list(inspect.signature(function).parameters.values())[-len(OPTIONS) :]
    assert [p.name for p in parameters] == NAMES
    assert [p.default for p in parameters] == [row.default for row in OPTIONS]
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters)


def test_types():
    assert list(AttentionOptions.__annotations__) == NAMES


def test_members():
    """The rows are in the order of the members of AttentionOptions."""
    header = (ROOT / "include/phasor/attention/attention.h").read_text()
    struct = re.search(r"struct AttentionOptions \{(.*?)\n\};", header, re.DOTALL)[1]
    code = re.sub(r"//.*", "", struct)
    assert re.findall(r"(\w+)(?:\{\}| = [^;,]+)(?=[;,])", code) == NAMES


def test_gradients():
    assert phasor.AttentionGradients._fields == ("q", "k", "v", *LEARNED)
    assert phasor.W2Gradients._fields[6:] == ("tau", *LEARNED)


def test_help():
    text = re.sub(r"\s+", " ", inspect.getdoc(phasor.attention))
    for row in OPTIONS:
        assert f"{row.name} ({row.type}" in text and f"{row.doc}." in text


def documented():
    """The table of docs/python.md."""
    lines = ["| option | type | default | gradient | |", "|---|---|---|---|---|"]
    for row in OPTIONS:
        kind = " ".join(filter(None, (row.type, row.shape)))
        doc = row.doc.replace("|", "\\|")
        lines.append(f"| `{row.name}` | {kind} | {row.default} | {'yes' if row.has_gradient else ''} | {doc} |")
    return "\n".join(lines) + "\n"


def test_documentation():
    assert documented() in (ROOT / "docs/python.md").read_text(), f"docs/python.md needs this table:\n{documented()}"


def test_stub():
    """_phasor.pyi has the functions and classes that there are."""
    stub = ast.parse((ROOT / "python/src/phasor/_phasor.pyi").read_text())
    declared = {node.name for node in stub.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    declared.discard("_Cache")  # what two classes share
    assert declared == {name for name in vars(_phasor) if not name.startswith("_")}


def low_level(arguments):
    """The function of the extension that phasor.attention calls."""
    arguments = dict(arguments)
    q, k, v = (arguments.pop(name) for name in "qkv")
    out = np.empty((test_errors.B, test_errors.H, test_errors.T, test_errors.D), np.float32)
    _phasor.attention_forward(q, k, v, out, None, None, None, **arguments)


GOOD = {
    "q": test_errors.normal(test_errors.B, test_errors.H, test_errors.T, test_errors.D),
    "k": test_errors.normal(test_errors.B, test_errors.G, test_errors.S, test_errors.D),
    "v": test_errors.normal(test_errors.B, test_errors.G, test_errors.S, test_errors.D),
}


@pytest.mark.parametrize("bad, error, words", test_errors.CASES, ids=[words for *_, words in test_errors.CASES])
def test_errors_of_the_extension_have_pythons_names(bad, error, words):
    with pytest.raises(error) as raised:
        low_level(GOOD | bad)
    name = re.match(r"\[attention_forward\] (\w+): ", str(raised.value))
    assert name and name[1] == words.partition(":")[0] and name[1] in inspect.signature(phasor.attention).parameters


def test_errors_only_name_the_function():
    """Nothing in _errors changes the name of an argument: a message goes through as it is."""

    @_errors.with_function_name
    def public(text):
        raise ValueError(text)

    for name in [*NAMES, "q_mu", "softmax", "visible", "rotate_q", "query_starts, key_starts", "first_distance"]:
        for function in ("", "[attention_forward] ", "[KvCache::append] "):
            with pytest.raises(ValueError) as raised:
                public(f"{function}{name}: q of shape [1], expected k of shape [2]")
            assert str(raised.value).endswith(f"public] {name}: q of shape [1], expected k of shape [2]")


def test_unknown_names_are_refused():
    q = np.ones((1, 1, 1, 4), np.float32)
    with pytest.raises(TypeError, match=r"\[attention\] query_offset: not an option"):
        phasor.attention(q, q, q, query_offset=1)
    with pytest.raises(TypeError, match=r"grad_scale: not an option"):
        _phasor.attention_backward(q, q, q, q, np.ones((1, 1, 1, 2), np.float32), q, None, q, q, q, {"scale": q})


def test_precision():
    """Names are checked; floats that hold 16 bits give what 16 bits give; so in W2."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 2, 40, 16)).astype(np.float32) for _ in range(3))
    assert np.array_equal(phasor.attention(q, k, v), phasor.attention(q, k, v, precision="float"))
    assert np.array_equal(phasor.attention(q, k, v), phasor.attention(q, k, v, precision="storage"))
    assert np.abs(phasor.attention(q, k, v, precision="bf16") - phasor.attention(q, k, v)).max() < 0.05
    with pytest.raises(ValueError, match=r'\[attention\] precision: "half", expected "storage", "float" or "bf16"'):
        phasor.attention(q, k, v, precision="half")
    with pytest.raises(TypeError, match=r"\[attention\] precision: 16, expected"):
        phasor.attention(q, k, v, precision=16)
    narrow = phasor.w2_attention(q, k, v, q, k, v, tau=16.0, precision="bf16")
    for given, expected in zip(narrow, phasor.w2_attention(q, k, v, q, k, v, tau=16.0)):
        assert np.abs(given - expected).max() < 0.05


def test_set_precision():
    assert phasor.precision() == "storage"
    phasor.set_precision("float")
    try:
        assert phasor.precision() == "float"
    finally:
        phasor.set_precision("storage")
    with pytest.raises(ValueError, match=r'\[set_precision\] precision: "half", expected'):
        phasor.set_precision("half")
    with pytest.raises(TypeError, match=r"\[set_precision\] name: 16, expected"):
        phasor.set_precision(16)
