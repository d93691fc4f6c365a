"""In a process with torch, phasor runs on torch's threads: those of either would spin against those of the other."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
{imports}
import os

def threads():
    return len(os.listdir("/proc/self/task"))

torch.set_num_threads(3)
phasor.set_num_threads(3)
x = torch.randn(1, 8, 300, 32)
y = torch.randn(512, 512) @ torch.randn(512, 512)  # on torch's threads
before = threads()
out = {attention}(x, x, x)
assert threads() == before, f"{{threads()}} threads, expected torch's {{before}}"
print("equal" if torch.equal(out, torch.from_numpy(phasor.attention(*3 * [x.numpy()]))) else "different")
"""


@pytest.mark.parametrize("imports", ["import phasor, torch", "import torch, phasor"])
@pytest.mark.parametrize("attention", ["phasor.attention", "phasor.torch.attention"])
def test_no_threads_beside_those_of_torch(imports, attention):
    if "torch." in attention:
        imports += "\nimport phasor.torch"
    program = PROGRAM.format(imports=imports, attention=attention)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert run.stdout.split() == ["equal"], run.stderr
