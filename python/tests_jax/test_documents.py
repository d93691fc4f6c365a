"""Every Python block of docs/jax.md runs as pasted, and prints the block of output that follows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs/jax.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```\n\n^```text\n(.*?)^```\n", PAGE, re.M | re.S)


def test_blocks():
    assert len(BLOCKS) == PAGE.count("```python\n") > 0
    for program, output in BLOCKS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, "block", "exec"), {"__name__": "__main__"})
        assert printed.getvalue() == output
