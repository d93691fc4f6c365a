"""What a user sees of the package: its version, help, types, examples."""

from __future__ import annotations

import inspect
import pathlib
import re
import subprocess
import sys

import phasor
import pytest

ROOT = pathlib.Path(__file__).parents[2]
TYPED = """
import numpy as np
import numpy.typing as npt
import phasor

q: npt.NDArray[np.float32] = np.zeros((1, 2, 3, 4), np.float32)
table = phasor.Rope(4, scaling={"rope_type": "linear", "factor": 2.0}).table(np.arange(3))
out: npt.NDArray[np.float32] = phasor.attention(q, q, q, causal=True, window=(2, None), q_rotary=table)
both = phasor.attention(q, q, q, return_softmax=True)
turned: npt.NDArray[np.float32] = phasor.apply_rotary(q, table, transpose=True)
slopes: npt.NDArray[np.float32] = phasor.alibi_slopes(2)
gradients: phasor.AttentionGradients = phasor.attention_backward(q, q, q, out, both[1], out, causal=True)
pairing: str = table.pairing
"""


def mypy(tmp_path, code):
    (tmp_path / "sample.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "sample.py"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)


def test_types(tmp_path):
    good = mypy(tmp_path, TYPED)
    assert good.returncode == 0, good.stdout
    bad = mypy(tmp_path, TYPED + 'phasor.attention(q, q, q, causel=True)\nphasor.Rope("4")\nx: int = table.pairing\n')
    assert bad.returncode == 1 and all(f"sample.py:{line}: error" in bad.stdout for line in (14, 15, 16)), bad.stdout


def test_version():
    header = (ROOT / "include/phasor/version.h").read_text()
    assert phasor.__version__ == re.search(r'"(.*)"', header)[1]


@pytest.mark.parametrize("name", [name for name in phasor.__all__ if name != "__version__"])
def test_help(name):
    text = inspect.getdoc(getattr(phasor, name))
    assert text and not text.startswith("Alias for")
    if name in ("attention", "w2_attention", "apply_rotary", "RotaryTable"):
        assert "[B, " in text


def test_log_sigma_is_explained():
    for name in ("w2_attention", "w2_attention_backward"):
        assert re.search("log of the variance", inspect.getdoc(getattr(phasor, name)), re.IGNORECASE)


def test_symbols_of_the_library_stay_inside():
    from phasor import _phasor

    symbols = subprocess.run(["nm", "-D", "--defined-only", _phasor.__file__], capture_output=True, text=True)
    if symbols.returncode != 0:
        pytest.skip("no nm")
    exported = [line.split()[-1] for line in symbols.stdout.splitlines()]
    assert "PyInit__phasor" in exported
    assert not [name for name in exported if name.startswith(("_ZN6phasor", "_ZNK6phasor"))]


def test_the_tool_is_in_the_package():
    command = [sys.executable, "-m", "phasor"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True)
    assert version.returncode == 0 and phasor.__version__ in version.stdout, version.stderr
    wrong = subprocess.run([*command, "no-such-command"], capture_output=True, text=True)
    assert wrong.returncode != 0 and "no-such-command" in wrong.stderr


# Those that need torch are run by tests_torch/test_documents.py.
def test_readme():
    programs = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    without_torch = [(program, output) for program, output in programs if "torch" not in program]
    assert without_torch
    for program, output in without_torch:
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert run.stdout == output


# Those that need torch are run by tests_torch/test_examples.py.
EXAMPLES = [path for path in sorted((ROOT / "examples/python").glob("*.py")) if "import torch" not in path.read_text()]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples(example):
    assert len(example.read_text().splitlines()) <= 60
    result = subprocess.run([sys.executable, str(example)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout


@pytest.mark.parametrize(("module", "missing"), [("torch", "torch"), ("transformers", "torch"), ("transformers", "transformers")])
def test_what_is_missing_is_named(module, missing):
    """Whatever is installed here: a finder hides the package, and torch is an empty one where transformers is missing."""
    code = (
        "import importlib.util, sys\n"
        "found = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, package=None: None if name == {missing!r} else (name == 'torch' or found(name, package))\n"
        f"import phasor.{module}"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode != 0
    message = f"ImportError: phasor.{module} needs {missing}, which is not installed: pip install 'phasor-attention[{module}]'"
    assert run.stderr.strip().splitlines()[-1] == message
