#!/usr/bin/env python3
"""Write the files of tests/golden/safetensors with the safetensors package itself.

Run it with `make goldens`. all_types has one tensor of each element type, two elements long, whose bytes count up from 0
through the file; floats has the same eight values in every type that is read as float; shapes has a scalar, an empty
tensor and a name that is not ASCII; sharded is a model in two files with an index, as transformers writes it.
Our reader must find just that, and our writer must make the same bytes again.
"""
import ctypes, json, pathlib

import numpy as np
from safetensors import TensorSpec, serialize_file

OUT = pathlib.Path(__file__).with_name("safetensors")
# Element types by the name that the package has for them, and their bytes.
TYPES = {"bool": 1, "uint8": 1, "int8": 1, "float8_e5m2": 1, "float8_e4m3fn": 1, "float8_e8m0fnu": 1, "int16": 2, "uint16": 2,
         "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4, "float32": 4, "complex64": 8, "float64": 8, "int64": 8,
         "uint64": 8}


def save(path, tensors, metadata=None):
    """tensors: name -> (type, shape, bytes)."""
    memory = {name: ctypes.create_string_buffer(data, max(len(data), 1)) for name, (_, _, data) in tensors.items()}
    specs = {name: TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(memory[name]), data_len=len(data))
             for name, (dtype, shape, data) in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    serialize_file(specs, str(path), metadata)


def all_types():
    tensors = {f"a {name}": (name, [2], bytes(2 * size)) for name, size in TYPES.items()}
    tensors["b uint8"] = ("uint8", [2], bytes(2))           # a second of its type: sorted by name within the type
    path = OUT / "all_types.safetensors"
    save(path, tensors, {"format": "pt"})
    raw = bytearray(path.read_bytes())                       # only now it is known in which order they lie
    start = 8 + int.from_bytes(raw[:8], "little")
    raw[start:] = np.arange(len(raw) - start, dtype=np.uint8).tobytes()
    path.write_bytes(raw)


def floats():
    values = np.array([0.0, -0.0, 1.0, -2.5, 0.15625, 2.0**-14, np.inf, -np.inf], np.float32)
    bf16 = (values.view(np.uint32) >> 16).astype(np.uint16)  # exact: these values have few fraction bits
    save(OUT / "floats.safetensors", {
        "f32": ("float32", [2, 4], values.tobytes()), "f16": ("float16", [2, 4], values.astype(np.float16).tobytes()),
        "bf16": ("bfloat16", [2, 4], bf16.tobytes()), "f64": ("float64", [2, 4], values.astype(np.float64).tobytes())})


def shapes():
    save(OUT / "shapes.safetensors", {
        "scalar": ("float32", [], np.float32(7).tobytes()), "empty": ("float32", [3, 0, 2], b""),
        "Größe \"x\"\n\\/": ("float32", [1, 1, 1], np.float32(8).tobytes())}, {"note": "line\nä"})


def sharded():
    weights = {"a": 1, "b": 2, "c": 3}
    where = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors",
             "c": "model-00001-of-00002.safetensors"}
    for file in sorted(set(where.values())):
        save(OUT / "sharded" / file, {name: ("float32", [2], np.full(2, weights[name], np.float32).tobytes())
                                      for name in weights if where[name] == file}, {"format": "pt"})
    index = {"metadata": {"total_size": 24}, "weight_map": where}
    (OUT / "sharded" / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


all_types()
floats()
shapes()
sharded()
