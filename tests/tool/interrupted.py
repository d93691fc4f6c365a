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
    save, never = ["--save-every", "5"], ["--save-every", "0"]
    tool.run(tool.train(program, whole, steps, *never)).expect(0)
    dice = random.Random(tool.SEED)
    begin = time.monotonic()
    process = tool.start(tool.train(program, killed, steps, *save))
    tool.wait_for(killed / "training.json", process)  # from here on there is something to continue
    moments = 2 * (time.monotonic() - begin)  # however busy the machine is: while it starts, and after its first saves
    resume = [program, "train", "--resume", "--out", str(killed)]
    done = 0
    while True:
        time.sleep(dice.uniform(0.0, moments))
        process.kill()
        ended = tool.end_of(process)
        if ended.code == 0:
            break  # it was done before all kills
        if ended.code != -signal.SIGKILL:
            ended.fail(f"seed {tool.SEED}, kill {done}: expected it to run until it is killed")
        done += 1
        if done == count:
            break
        process = tool.start([*resume, *save])
    tool.run([*resume, *never]).expect(0)
    tool.same_checkpoint(whole, killed)
    left = [path.name for path in folder.iterdir() if path.name not in ("whole", "killed", ".killed.lock")]
    if any(".new-" in name for name in left):
        sys.exit(f"left behind: {left}")
    if done < count // 2:
        sys.exit(f"{done} kills, expected more before the training is done: give it more steps")
    print(f"{done} kills, the same bytes")


def signals(program: str, folder: Path) -> None:
    whole = folder / "uninterrupted"
    tool.run(tool.train(program, whole, 3000, "--save-every", "0")).expect(0)
    for number in (signal.SIGTERM, signal.SIGINT):
        out = folder / number.name
        process = tool.start(tool.train(program, out, 3000, "--save-every", "10"))
        tool.wait_for(out / "training.json", process)
        process.send_signal(number)
        tool.end_of(process).expect(130, "stopped and saved", f"phasor train --resume --out {out}")
        tool.run([program, "train", "--resume", "--out", str(out), "--save-every", "0"]).expect(0)
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
    kills(program, folder, 3000 if not tool.NIGHT else 40_000, 30 if not tool.NIGHT else 400)
    signals(program, folder)
    full_disk(program, folder)


main()
