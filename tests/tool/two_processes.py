#!/usr/bin/env python3
"""two_processes.py PHASOR FOLDER: a second writer is refused by name, readers see whole checkpoints, and a comparison
takes no trial that is not its own."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from pathlib import Path

import tool


def trainings(program: str, folder: Path) -> None:
    out = folder / "run"
    first = tool.start(tool.train(program, out, 1_000_000, "--save-every", "1"))
    tool.wait_for(out / "training.json", first)
    for command in (tool.train(program, out, 5), [program, "train", "--resume", "--out", str(out)]):
        tool.run(command).expect(2, str(out), f"process {first.pid}", "one writer at a time")
    # Readers are welcome, at any moment.
    for _ in range(200 if tool.NIGHT else 25):
        tool.run([program, "eval", str(out), "--rows", "2"]).expect(0)
    first.send_signal(signal.SIGTERM)
    tool.end_of(first).expect(130)
    # A killed process locks nobody out.
    second = tool.start([program, "train", "--resume", "--out", str(out), "--save-every", "1"])
    tool.wait_for(folder / ".run.lock", second)
    second.kill()
    tool.end_of(second)
    third = tool.start([program, "train", "--resume", "--out", str(out), "--save-every", "1"])
    third.send_signal(signal.SIGTERM)
    if tool.end_of(third).code == 2:
        sys.exit("the lock of a killed process was still held")
    print("two trainings: the second is refused, readers see whole checkpoints")


def comparison(program: str, out: Path, *more: str) -> list[str]:
    return [program, "compare", *tool.TASK, *tool.SIZE, "--encodings", "none,rope", "--eval-lengths", "8",
            "--out", str(out), *more]


def scores(out: Path) -> object:
    results = json.loads((out / "results.json").read_text())
    return [(e["name"], e["scores"], e["runs"]) for e in results["encodings"]]


def comparisons(program: str, folder: Path) -> None:
    alone, together = folder / "alone", folder / "together"
    tool.run(comparison(program, alone, "--steps", "400")).expect(0)
    rivals = [tool.start(comparison(program, together, "--steps", "400")) for _ in range(3)]
    ended = [tool.end_of(rival) for rival in rivals]
    if 0 not in [each.code for each in ended]:
        ended[0].fail("expected one of three to end well")
    for each in ended:
        if each.code != 0:
            each.expect(2, str(together), "process", "one writer at a time")
    if scores(alone) != scores(together):
        sys.exit("three at once found other scores than one alone")
    print("three comparisons at once: one is done, the scores of one alone")


def trials_of_others(program: str, folder: Path) -> None:
    """Trials of another comparison, put where this one keeps its own."""
    ours, others = folder / "ours", folder / "others"
    tool.run(comparison(program, ours, "--steps", "10")).expect(0)
    tool.run(comparison(program, others, "--steps", "12")).expect(0)
    name = "rope-seed1-rate0.003"
    kept = (ours / "trials" / f"{name}.json").read_bytes()
    shutil.copy(others / "trials" / f"{name}.json", ours / "trials")
    tool.run(comparison(program, ours, "--steps", "10")).expect(2, f"{name}.json", "steps 12", "expected 10")
    (ours / "trials" / f"{name}.json").unlink()
    shutil.rmtree(ours / "trials" / name)
    shutil.copytree(others / "trials" / name, ours / "trials" / name)
    tool.run(comparison(program, ours, "--steps", "10")).expect(2, name, '"steps": 12', 'expected "steps": 10')
    shutil.rmtree(ours / "trials" / name)
    tool.run(comparison(program, ours, "--steps", "10")).expect(0)
    if json.loads(kept)["encodings"][0]["scores"] != json.loads((ours / "trials" / f"{name}.json").read_text())["encodings"][0]["scores"]:
        sys.exit("the trial, trained anew, has other scores")
    print("trials of another comparison are refused")


def main() -> None:
    program, folder = tool.arguments()
    trainings(program, folder)
    comparisons(program, folder)
    trials_of_others(program, folder)


main()
