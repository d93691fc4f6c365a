"""Every program of docs/guide.md runs, and prints what the guide says."""
import pathlib
import re
import subprocess
import sys

import pytest

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide.md"
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", GUIDE.read_text(), re.S)


def test_the_guide_has_programs() -> None:
    assert len(PROGRAMS) >= 8
    assert len(PROGRAMS) == GUIDE.read_text().count("```python\n")


@pytest.mark.parametrize(("program", "output"), PROGRAMS)
def test_program_prints_what_the_guide_says(program: str, output: str) -> None:
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == output
