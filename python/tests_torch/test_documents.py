"""Every Python block of README.md and docs/*.md runs as pasted, but those that other tests run; where a block of output
follows, it prints that."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"jax.md", "text.md"}  # tests_jax; tests/test_tokenizer.py, beside the file that the page reads
PAGES = sorted(page for page in (ROOT / "docs").glob("*.md") if page.name not in ELSEWHERE)
FILES = [ROOT / "README.md", *PAGES]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n^```(?:text)?\n(.*?)^```\n)?", re.M | re.S)
BLOCKS = [
    pytest.param(*match.groups(), id=f"{path.name}:{path.read_text()[: match.start()].count(chr(10)) + 1}")
    for path in FILES
    for match in BLOCK.finditer(path.read_text())
]


def test_all_blocks_are_found():
    assert len(BLOCKS) == sum(path.read_text().count("```python\n") for path in FILES) > 8


@pytest.mark.parametrize(("program", "output"), BLOCKS)
def test_runs_as_pasted(program, output, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in re.findall(r'phasor\.load\("([\w.-]+)"\)', program):  # a small model stands for the one that is named
        subprocess.run([sys.executable, ROOT / "tests/support/text_model.py", tmp_path / name], check=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "block", "exec"), {"__name__": "__main__"})
    if output is not None:
        assert printed.getvalue() == output
