#!/usr/bin/env python3
"""interrupted.py PHASOR FOLDER: trainings killed at random moments end with the bytes of one that ran through; SIGTERM
and SIGINT save first and say how to continue; a full disk leaves the checkpoint that was there."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import tool


def kills(program: str, folder: Path, steps: int, count: int) -> None:
    """Killed so often, each time at another moment: while it starts, trains, saves and reads."""
    whole, killed = folder / "whole", folder / "killed"
    save = ["--save-every", "1"]
    tool.run(tool.train(program, whole, steps, *save)).expect(0)
    dice = random.Random(tool.SEED)
    begun, done = False, 0
    while done < count:
        command = [program, "train", "--resume", "--out", str(killed), *save]
        process = tool.start(command if begun else tool.train(program, killed, steps, *save))
        time.sleep(dice.uniform(0.0, 0.08))
        process.kill()
        ended = tool.end_of(process)
        if ended.code == 0:
            break  # it was done before all kills
        if ended.code != -signal.SIGKILL:
            ended.fail(f"seed {tool.SEED}, kill {done}: expected it to run until it is killed")
        begun = begun or (killed / "training.json").exists()
        done += 1
    if begun:
        tool.run([program, "train", "--resume", "--out", str(killed)]).expect(0)
    tool.same_checkpoint(whole, killed)
    left = [path.name for path in folder.iterdir() if path.name not in ("whole", "killed", ".killed.lock")]
    if any(".new-" in name for name in left):
        sys.exit(f"left behind: {left}")
    print(f"{done} kills, the same bytes")


def signals(program: str, folder: Path) -> None:
    whole = folder / "uninterrupted"
    tool.run(tool.train(program, whole, 3000)).expect(0)
    for number in (signal.SIGTERM, signal.SIGINT):
        out = folder / number.name
        process = tool.start(tool.train(program, out, 3000, "--save-every", "10"))
        tool.wait_for(out / "training.json", process)
        process.send_signal(number)
        tool.end_of(process).expect(130, "stopped and saved", f"phasor train --resume --out {out}")
        tool.run([program, "train", "--resume", "--out", str(out)]).expect(0)
        tool.same_checkpoint(whole, out)
    print("SIGTERM and SIGINT: saved, continued, the same bytes")


def full_disk(program: str, folder: Path) -> None:
    """Files may not grow past a limit, which a write meets as it meets a full disk."""
    out = folder / "full"
    tool.run(tool.train(program, out, 5)).expect(0)
    before = {name: (out / name).read_bytes() for name in tool.CHECKPOINT}

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    def limited(command: list[str]) -> tool.Ended:
        return tool.run(command, preexec_fn=limit, restore_signals=False)

    again = folder / "again"
    shutil.copytree(out, again)
    state = (again / "training.json").read_text().replace('"steps": 5', '"steps": 9')
    (again / "training.json").write_text(state)
    limited([program, "train", "--resume", "--out", str(again)]).expect(2, "again", "cannot be written (File too large)")
    if (again / "training.json").read_text() != state:
        sys.exit("a save that failed changed the checkpoint")
    limited(tool.train(program, folder / "new", 5)).expect(2, "cannot be written (File too large)")
    if (folder / "new").exists() or {name: (out / name).read_bytes() for name in tool.CHECKPOINT} != before:
        sys.exit("a save that failed left something")
    if left := [path.name for path in folder.iterdir() if ".new-" in path.name or path.name.endswith(".lock")]:
        sys.exit(f"left behind: {left}")
    print("full disk: refused, what was there is unchanged")


def main() -> None:
    program, folder = tool.arguments()
    kills(program, folder, 60 if not tool.NIGHT else 600, 30 if not tool.NIGHT else 400)
    signals(program, folder)
    full_disk(program, folder)


main()
