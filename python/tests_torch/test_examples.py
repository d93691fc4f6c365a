"""Every program of examples/python runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "python").glob("*.py"))
PRINTED = {
    "w2_transformer.py": "torch.Size([2, 64, 512]) torch.Size([2, 64, 512])",
    "position_encodings.py": "order unseen: True",
    "standard_attention.py": "True True",
    "rotary_by_hand.py": "Rope has the same: True",
    "qwen3_rope.py": "refused: [apply_rotary_pos_emb] cos: a table for adjacent pairs",
    "learned_bias.py": "distance each head looks at: [-3, -3]",
    "plot_weights.py": "written: ",
    "transformers_llama.py": "same tokens: True",
}


def test_all_are_known():
    assert set(PRINTED) <= {path.name for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_runs(path, tmp_path):
    environment = os.environ | {"MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert PRINTED.get(path.name, "") in done.stdout
    assert len(path.read_text().splitlines()) < 60
    if path.stem == "plot_weights":
        assert (tmp_path / "attention_weights.png").read_bytes().startswith(b"\x89PNG")
