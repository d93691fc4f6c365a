#!/usr/bin/env python3
"""embed.py JSON NPY: both files of phasor embed have the same rows, of length 1. Without NumPy."""

from __future__ import annotations

import ast
import json
import math
import pathlib
import struct
import sys

rows = [json.loads(line) for line in pathlib.Path(sys.argv[1]).read_text().splitlines()]
content = pathlib.Path(sys.argv[2]).read_bytes()
magic, version, size = struct.unpack("<6s2sH", content[:10])
header = ast.literal_eval(content[10 : 10 + size].decode())
assert (magic, version, (10 + size) % 64) == (b"\x93NUMPY", b"\x01\x00", 0), content[:10]
assert header == {"descr": "<f4", "fortran_order": False, "shape": (len(rows), len(rows[0]))}, header
values = struct.unpack(f"<{len(rows) * len(rows[0])}f", content[10 + size :])
for given, found in zip([value for row in rows for value in row], values, strict=True):
    assert abs(given - found) <= 1e-6, (given, found)
for row in rows:
    assert abs(math.hypot(*row) - 1) < 1e-5, row
assert rows[0] != rows[3], "other lines have the same vector"
