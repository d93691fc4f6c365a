"""What the tests of the command line share: the smallest training, and how a program ended.

Random cases begin at seed PHASOR_SEED_START (default: the day's number, so that every day sees others); a failure prints
its seed. With PHASOR_NIGHT=1 there are many more of them.
"""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NIGHT = os.environ.get("PHASOR_NIGHT") == "1"
SEED = int(os.environ.get("PHASOR_SEED_START", time.time() // 86400))
SIZE = ["--layers", "1", "--hidden", "8", "--heads", "2", "--ffn", "8", "--length", "8", "--batch", "2"]
TASK = ["--task", "copy", "--symbols", "4"]
# One thread: models of this size gain nothing by more, and the tests run beside others.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


class Ended:
    """How a program ended, and what it printed."""

    def __init__(self, arguments: list[str], code: int, output: str, megabytes: float = 0.0) -> None:
        self.arguments, self.code, self.output, self.megabytes = arguments, code, output, megabytes

    def fail(self, why: str) -> None:
        sys.exit(f"{' '.join(self.arguments)}\n{why}; it ended with code {self.code} and printed:\n{self.output}")

    def expect(self, code: int, *words: str) -> Ended:
        """This exit code, and each of the words in what it printed. An error is one line."""
        if self.code != code:
            self.fail(f"expected code {code}")
        for word in words:
            if word not in self.output:
                self.fail(f"expected it to print: {word}")
        if code == 2:
            lines = [line for line in self.output.splitlines() if line.startswith("phasor: ")]
            if len(lines) != 1 or not self.output.endswith(lines[0] + "\n"):
                self.fail("expected one line that begins with 'phasor: ', the last one")
            for internal in ("json.exception", "[", "std::", "terminate"):
                if lines[0].startswith(f"phasor: {internal}") or (internal != "[" and internal in lines[0]):
                    self.fail(f"expected words of the user, not {internal}")
        return self


def arguments() -> tuple[str, Path]:
    """The program, and an empty folder for the test."""
    program, folder = sys.argv[1], Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"seed {SEED}" + (", the night's number of cases" if NIGHT else ""), flush=True)
    return os.path.abspath(program), folder.absolute()


def start(command: list[str], **options: Any) -> subprocess.Popen[str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               env=ENVIRONMENT, **options)
    atexit.register(process.kill)  # a test that fails leaves nothing running
    return process


def end_of(process: subprocess.Popen[str], seconds: float = 60.0) -> Ended:
    """Waits; a program that hangs is killed and fails the test."""
    command = [str(word) for word in process.args]  # type: ignore[union-attr]
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        Ended(command, process.returncode, output).fail(f"expected an end within {seconds} s")
    return Ended(command, process.returncode, output)


def run(command: list[str], seconds: float = 60.0, **options: Any) -> Ended:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    ended = end_of(start(command, **options), seconds)
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    ended.megabytes = after / 1024 if after > before else 0.0  # the largest of all children so far
    return ended


def train(program: str, out: Path, steps: int, *more: str) -> list[str]:
    return [program, "train", *TASK, *SIZE, "--steps", str(steps), "--evaluate-every", "5", "--out", str(out), *more]


CHECKPOINT = ("config.json", "model.safetensors", "training.json", "training.safetensors")


def same_checkpoint(a: Path, b: Path) -> None:
    for name in CHECKPOINT:
        if (a / name).read_bytes() != (b / name).read_bytes():
            sys.exit(f"{a / name} and {b / name} differ")


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Until the file is there."""
    end = time.time() + 30
    while not path.exists():
        if process.poll() is not None or time.time() > end:
            end_of(process).fail(f"expected it to write {path}")
        time.sleep(0.005)
