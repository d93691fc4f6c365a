#!/usr/bin/env python3
"""flags.py PHASOR FOLDER: every flag of every command is honoured or refused, never ignored or cut to size.

The flags are those that --help lists, so that a new one is tried, too."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import tool

# What each command needs beside the flag that is tried.
NEEDED = {"train": ["--out", "no_such_folder/run"], "eval": ["no_such_folder"], "generate": ["no_such_folder"],
          "embed": ["no_such_folder"],
          "perplexity": ["no_such_folder", "--text", "no_such_text"],
          "compare": ["--out", "no_such_folder/out"]}
NOT_WHOLE = ["99999999999999999999", "-99999999999999999999", "1.5", "abc", "", "1e3", "0x10", "5 "]
NOT_REAL = ["abc", "", "1;5", "5 "]


def commands(program: str) -> list[str]:
    listed = tool.run([program, "--help"]).expect(0).output.split("Subcommands:")[1]
    return re.findall(r"^  (\w+)", listed, re.MULTILINE)


def flags(program: str, command: str) -> dict[str, str]:
    """The flags of a command, and their types: INT, UINT, FLOAT, TEXT; none for a switch."""
    listed = tool.run([program, command, "--help"]).expect(0).output
    return dict(re.findall(r"^  (?:-\w,)?(--[\w-]+)(?: ([A-Z]+))?", listed, re.MULTILINE))


def misspelt(program: str) -> None:
    def refused(words: list[str], *expected: str) -> None:
        tool.run([program, *words]).expect(2, *expected)

    refused([], "no command", "train", "compare")
    refused(["trian"], "trian: not a command", "did you mean train?")
    refused(["xyzzy"], "xyzzy: not a command", "expected one of rope")
    refused(["--steps", "5", "train"], "--steps: a flag without a command")
    # The misspelt word comes before what is missing because of it.
    refused(["train", "--stpes", "5", "--uot", "x"], "--stpes: not a flag of phasor train", "did you mean --steps?")
    refused(["train", "--stpes=5"], "--stpes: not a flag")
    refused(["eval", "--lenght", "5", "run"], "--lenght: not a flag of phasor eval", "did you mean --length?")
    refused(["rope", "extra"], "extra: one word more")
    refused(["train", "--task", "copy"], "--out is required")
    refused(["train", "--out", "x", "--steps"], "--steps: no value")
    refused(["train", "--steps", "--out", "x"], "--steps: --out, expected a whole number")
    refused(["train", "--steps", "1", "--steps", "2", "--out", "x"], "--steps: given more than once")


def values(program: str, folder: Path) -> None:
    count = 0
    for command in commands(program):
        for flag, kind in flags(program, command).items():
            tried = {"INT": NOT_WHOLE, "UINT": [*NOT_WHOLE, "-1"], "FLOAT": NOT_REAL}.get(kind, [])
            for value in tried:
                words = [program, command, *NEEDED.get(command, []), f"{flag}={value}"]
                tool.run(words, cwd=folder).expect(2, flag)
                count += 1
    if count < 100 or any(folder.iterdir()):
        sys.exit(f"{count} values tried, expected more, and nothing written")
    print(f"{count} values that are no numbers, or none that fit, are refused")


def together(program: str, folder: Path) -> None:
    """Flags that mean nothing beside others."""
    run, text_run, text = folder / "run", folder / "text_run", folder / "text"
    text.write_text("a line of text\n" * 40)
    tool.run(tool.train(program, run, 2)).expect(0)
    tool.run([program, "train", "--text", str(text), *tool.SIZE, "--steps", "2", "--out", str(text_run)]).expect(0)
    new = ["--out", str(folder / "new")]
    train, compare = [program, "train", *new], [program, "compare", *new]
    for words, expected in [
        ([*train, "--task", "copy", "--encoding", "w2-rope", "--score", "dot"], "--score: dot with --encoding w2-rope"),
        ([*train, "--task", "copy", "--encoding", "rope+yarn"], "--encoding: rope+yarn, expected rope"),
        ([*train, "--task", "copy", "--encoding", "spiral"], "--encoding: spiral, expected one of none"),
        ([*train, "--task", "copy", "--distance", "3"], "--distance: given for task copy"),
        ([*train, "--task", "copy", "--text", str(text)], "--text"),
        ([*train, "--text", str(text), "--symbols", "9"], "--symbols"),
        ([*train, "--task", "copy", "--hidden", "10", "--heads", "4"], "--hidden: 10, expected a multiple of --heads 4"),
        ([*train, "--task", "copy", "--hidden", "10", "--heads", "2"], "--hidden 10, --heads 2"),
        ([*train, "--task", "copy", "--heads", "4", "--kv-heads", "3"], "--kv-heads: 3, expected a divisor of --heads 4"),
        ([*train, "--task", "copy", "--warmup", "9", "--steps", "5"], "--warmup: 9, expected 0 to --steps 5"),
        ([*train, "--task", "copy", "--steps", "9223372036854775807"], "--steps: 9223372036854775807, expected 1 to"),
        ([*train, "--task", "copy", "--lr", "nan"], "--lr: nan"),
        ([*train, "--task", "copy", "--clip=-1"], "--clip: -1"),
        ([program, "train", "--resume", "--out", str(run), "--steps", "9"], "--steps: given with --resume"),
        ([program, "eval", str(run), "--factor", "2"], "--factor: given without --rope-scaling"),
        ([program, "eval", str(run), "--rope-scaling", "default"], "--rope-scaling: default, expected one of linear"),
        ([program, "eval", str(run), "--distance", "3"], "--distance: given for task copy"),
        ([program, "eval", str(text_run), "--distance", "3"], "--distance: given for a text"),
        ([program, "eval", str(text_run), "--symbols", "3"], "--symbols: given for a model of text"),
        ([program, "generate", str(run), "--tokens", "1", "--top-k", "3"], "--top-k: given with --temperature 0"),
        ([program, "generate", str(run), "--tokens", "1", "--top-p", "0.5"], "--top-p: given with --temperature 0"),
        ([program, "generate", str(run), "--tokens", "1", "--seed", "3"], "--seed: given with --temperature 0"),
        ([program, "generate", str(run), "--tokens", "1", "--prompt", "a"], "given twice"),
        ([program, "generate", str(run), "--tokens", "99"], "--tokens: 99, expected 0 to 4"),
        ([program, "generate", str(run), "--prompt", "a"], "--prompt: text for a model of 5 tokens"),
        ([program, "perplexity", str(text_run), "--text", str(text), "--factor", "2"], "--factor: given without --rope-scaling"),
        ([*compare, "--steps", "5", "--budget-seconds", "5"], "--budget-seconds"),
        ([*compare, "--distance", "5"], "--distance: given for task induction"),
        ([*compare, "--seeds", "100000000"], "--seeds: 100000000, expected a whole number from 1 to 10000"),
        ([*compare, "--learning-rates", "0"], "--learning-rates: 0, expected more than 0"),
        ([*compare, "--encodings", "rope+longrope"], "--encodings: rope+longrope, expected one of linear"),
    ]:
        tool.run(words).expect(2, expected)
    if (folder / "new").exists():
        sys.exit("a command that was refused wrote its folder")
    # Honoured: how often to save may change; both names of W2.
    tool.run([program, "train", "--resume", "--out", str(run), "--save-every", "1"]).expect(0)
    for number, more in enumerate((["--encoding", "w2-rope"], ["--encoding", "w2-rope", "--score", "w2"],
                                   ["--encoding", "rope", "--score", "w2"])):
        tool.run(tool.train(program, folder / f"w2-{number}", 2, *more)).expect(0)
        tool.same_checkpoint(folder / "w2-0", folder / f"w2-{number}")
    print("flags that mean nothing beside others are refused")


def texts(program: str, folder: Path) -> None:
    """What was read of a folder is said."""
    texts_folder = folder / "texts"
    texts_folder.mkdir()
    (texts_folder / "a.txt").write_text("a line\n" * 30)
    (texts_folder / "b.txt").write_text("\u00e4 line\n" * 30)
    (texts_folder / "c.png").write_bytes(bytes(range(256)))
    tool.run([program, "train", "--text", str(texts_folder), *tool.SIZE, "--steps", "1", "--out", str(folder / "of_texts")]
             ).expect(0, "2 files, 450 bytes; skipped 1 that are not UTF-8 text")


def main() -> None:
    program, folder = tool.arguments()
    misspelt(program)
    values(program, folder)
    together(program, folder)
    texts(program, folder)


main()
