"""phasor beside float64 torch over all options (differential.py): other cases every day, thousands at night.

PHASOR_NIGHT=1 runs 3,000 cases. PHASOR_SEED_START repeats a window; a failure names its seed, and
`python python/tests_torch/differential.py --seed N` shows that case.
"""

from __future__ import annotations

import os
import time

import pytest
from differential import run

COUNT = 3000 if os.environ.get("PHASOR_NIGHT") == "1" else 150
FIRST = int(os.environ.get("PHASOR_SEED_START", int(time.time() // 86400) * 3000))  # windows of two days are apart
STEP = 10


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, STEP))
def test_obeys_the_error_rule(first):
    failures = []
    for seed in range(first, first + STEP):
        case, findings = run(seed)
        over = [f"  {finding.tensor}: {finding.excess:.3g} times what is allowed: {finding.text}" for finding in findings if finding.excess > 1]
        if over:
            failures += [str(case), *over, f"  repeat: python python/tests_torch/differential.py --seed {seed}"]
    assert not failures, "\n".join(failures)
