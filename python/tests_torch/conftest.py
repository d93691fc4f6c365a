"""Before torch is imported.

On some virtual machines with AMX, torch's own products of bf16 (oneDNN) end the process with an illegal instruction,
also where phasor is not imported at all. These tests are of phasor: torch is kept off AMX, unless told otherwise.
"""
import os

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
