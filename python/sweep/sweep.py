#!/usr/bin/env python3
"""Try every model type of transformers' auto classes with attn_implementation="phasor" beside "eager".

    sweep.py [--write] [--only TYPE...] [--jobs N] [--fresh]

Results are lines of JSON in build/transformers-sweep/VERSION.jsonl. An interrupted sweep goes on where it was. --write
puts the table into docs/transformers.md. --only tries these types again, in place of their earlier results.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import select
import subprocess
import sys
import threading
import time
from typing import Any

sys.dont_write_bytecode = True  # leave no __pycache__ in the sources

import transformers
from table import write
from types_of_models import all_types

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
SECONDS, CHUNK = 600, 20  # for a type; types of a process


class Sweep:
    """Types that remain, and the file of results. Several threads take from it."""

    def __init__(self, results: pathlib.Path, types: list[str]) -> None:
        self.path, self.lock = results, threading.Lock()
        self.waiting = collections.deque(types)
        self.total, self.done, self.stopped = len(types), 0, False

    def chunk(self) -> list[str]:
        with self.lock:
            return [self.waiting.popleft() for _ in range(min(CHUNK, len(self.waiting)))] if not self.stopped else []

    def store(self, result: dict[str, Any]) -> None:
        with self.lock:
            with self.path.open("a") as file:
                file.write(json.dumps(result) + "\n")
            self.done += 1
            print(f"{self.done}/{self.total} {result['type']}: {result['outcome']}", flush=True)

    def work(self) -> None:
        while chunk := self.chunk():
            while chunk and not self.stopped:
                chunk = self._of_process(chunk)

    def _of_process(self, types: list[str]) -> list[str]:
        """What remains: all after a type that ended the process or took too long."""
        remaining = list(types)
        environment = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16", "OMP_NUM_THREADS": "1", **os.environ}
        process = subprocess.Popen(
            [sys.executable, HERE / "trial.py", *types],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # select knows nothing of lines in a buffer
            env=environment,
            start_new_session=True,  # Ctrl-C is for the sweep alone, which ends its processes
        )
        tail = collections.deque[bytes](maxlen=5)
        assert process.stdout is not None and process.stderr is not None
        reader = threading.Thread(target=lambda: tail.extend(process.stderr or []), daemon=True)
        reader.start()
        try:
            while remaining and not self.stopped:
                line = self._line(process.stdout)
                if self.stopped:
                    break
                if line and line.startswith(b"{"):
                    self.store(json.loads(line))
                    remaining.pop(0)
                elif not line:
                    ended = line == b""
                    process.kill()
                    reason = f"the process ended ({process.wait()})" if ended else f"more than {SECONDS} seconds"
                    reader.join(1)
                    words = b" ".join(tail).decode(errors="replace").strip()[-200:] if ended else ""
                    self.store({"type": remaining.pop(0), "outcome": "not tried", "reason": f"{reason} {words}".strip()})
                    return remaining
        finally:
            process.kill()
            process.wait()
        return remaining

    def _line(self, stream: Any) -> bytes | None:
        """The next line, b"" at the end, None when it does not come in time or the sweep is stopped."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and not self.stopped:
            if select.select([stream], [], [], 0.5)[0]:
                line: bytes = stream.readline()
                return line
        return None


def read(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    """The last result of each type. A line that an interruption has cut is left out."""
    results = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            result = json.loads(line)
        except ValueError:
            continue
        results[result["type"]] = result
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", nargs="+", metavar="TYPE")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--fresh", action="store_true", help="forget the results of an earlier sweep")
    arguments = parser.parse_args()
    path = ROOT / "build/transformers-sweep" / f"{transformers.__version__}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = all_types()
    unknown = set(arguments.only or []) - set(known)
    if unknown:
        parser.error(f"--only: {' '.join(sorted(unknown))}, expected model types of transformers {transformers.__version__}")
    if arguments.fresh:
        path.unlink(missing_ok=True)
    results = read(path)
    sweep = Sweep(path, arguments.only or [each for each in known if each not in results])
    threads = [threading.Thread(target=sweep.work) for _ in range(arguments.jobs)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        sweep.stopped = True
        for thread in threads:
            thread.join()
        sys.exit(f"stopped; {path} has what is done, and the same command goes on from there")
    results = read(path)
    for outcome, count in collections.Counter(result["outcome"] for result in results.values()).most_common():
        print(f"{count:4} {outcome}")
    if arguments.write:
        write(ROOT / "docs/transformers.md", transformers.__version__, results)
    if any(result["outcome"] in ("different", "never called") for result in results.values()):
        sys.exit("models that differ from eager, or never call phasor: see above")


if __name__ == "__main__":
    main()
