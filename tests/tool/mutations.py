#!/usr/bin/env python3
"""mutations.py PHASOR FOLDER: every file that the tool reads, damaged in random ways. Each time it ends with code 0, or
with 2 and one line: no signal, no hang, no memory for sizes that only a damaged file asks for."""

from __future__ import annotations

import random
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import tool

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import text_model  # noqa: E402

CASES = 2000 if tool.NIGHT else 150
MOST_MEGABYTES = 400
NUMBERS = [b"0", b"-1", b"1", b"2", b"7", b"1000000", b"9223372036854775807", b"-9223372036854775808",
           b"18446744073709551616", b"1e308", b"1e999", b"-1e-999", b"0.5", b"null", b"true", b'""', b"[]", b"{}"]


def replaced_number(data: bytes, dice: random.Random) -> bytes:
    found = list(re.finditer(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?", data[:100_000]))
    if not found:
        return data
    match = dice.choice(found)
    return data[: match.start()] + dice.choice(NUMBERS) + data[match.end():]


def replaced_word(data: bytes, dice: random.Random) -> bytes:
    found = list(re.finditer(rb'"[^"\n]{0,60}"', data[:100_000]))
    if not found:
        return data
    match, other = dice.choice(found), dice.choice(found)
    return data[: match.start()] + other.group() + data[match.end():]


def without_line(data: bytes, dice: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if lines:
        del lines[dice.randrange(len(lines))]
    return b"".join(lines)


def changed_bytes(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 3, 20))):
        if changed:
            # The beginning of a file has more to say than its middle.
            last = len(changed) if dice.random() < 0.5 else min(len(changed), 200)
            changed[dice.randrange(last)] = dice.randrange(256)
    return bytes(changed)


def cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data) + 1)]


def repeated(data: bytes, dice: random.Random) -> bytes:
    begin = dice.randrange(len(data) + 1)
    return data[:begin] + data[begin: begin + dice.randrange(1, 100)] + data[begin:]


MUTATIONS: list[Callable[[bytes, random.Random], bytes]] = [
    replaced_number, replaced_number, replaced_number, replaced_word, without_line, changed_bytes, cut, repeated]


def mutate(path: Path, commands: list[list[str]]) -> None:
    """Damages one file again and again; each command reads it. The file is as it was afterwards."""
    good = path.read_bytes()
    refused = 0
    for case in range(CASES):
        dice = random.Random(f"{tool.SEED}/{path.name}/{case}")
        bad = good
        for _ in range(dice.choice((1, 1, 1, 2, 4))):
            bad = dice.choice(MUTATIONS)(bad, dice)
        path.write_bytes(bad)
        ended = tool.run(dice.choice(commands), seconds=30)
        if ended.code not in (0, 2) or ended.megabytes > MOST_MEGABYTES:
            kept = path.with_name(f"failed-{path.name}")
            kept.write_bytes(bad)
            ended.fail(f"seed {tool.SEED}, case {case} of {path}, kept as {kept}: expected code 0 or 2 and less than "
                       f"{MOST_MEGABYTES} MB, found {ended.megabytes:.0f} MB")
        if ended.code == 2:
            ended.expect(2)
            refused += 1
    path.write_bytes(good)
    print(f"{path.name}: {CASES} mutations, {refused} refused", flush=True)


def of_checkpoint(program: str, folder: Path) -> None:
    run = folder / "run"
    tool.run(tool.train(program, run, 6, "--encoding", "learned", "--save-every", "3")).expect(0)
    evaluate = [program, "eval", str(run), "--rows", "2"]
    generate = [program, "generate", str(run), "--tokens", "1,2", "--max-tokens", "2"]
    resume = [program, "train", "--resume", "--out", str(run)]  # it is done: nothing is written
    mutate(run / "config.json", [evaluate, generate, resume])
    mutate(run / "training.json", [evaluate])
    mutate(run / "model.safetensors", [evaluate, generate, resume])
    mutate(run / "training.safetensors", [resume])


def of_text(program: str, folder: Path) -> None:
    text, run = folder / "text", folder / "of_text"
    text.mkdir()
    for name in ("a.txt", "b.txt"):
        (text / name).write_text("".join(f"line {i} of {name}\n" for i in range(40)))
    tool.run([program, "train", "--text", str(text), *tool.SIZE, "--steps", "2", "--out", str(run)]).expect(0)
    mutate(text / "a.txt", [[program, "eval", str(run), "--rows", "2"],
                            [program, "eval", str(run), "--rows", "2", "--text", str(text)]])


def of_comparison(program: str, folder: Path) -> None:
    out = folder / "comparison"
    command = [program, "compare", *tool.TASK, *tool.SIZE, "--encodings", "none,learned", "--eval-lengths", "8,16",
               "--steps", "4", "--out", str(out)]
    tool.run(command).expect(0)
    shutil.copytree(out, folder / "kept")
    mutate(out / "settings.json", [command])
    trial = "learned-seed1-rate0.003"
    mutate(out / "trials" / f"{trial}.json", [command])
    (out / "trials" / f"{trial}.json").unlink()
    for name in ("training.json", "config.json"):
        # The trial's results are found again each time.
        results = out / "trials" / f"{trial}.json"
        mutate(out / "trials" / trial / name, [["sh", "-c", 'rm -f "$0"; exec "$@"', str(results), *command]])


def of_hugging_face(program: str, folder: Path) -> None:
    golden = Path(__file__).parent.parent / "golden" / "pretrained" / "llama"
    model = folder / "llama"
    shutil.copytree(golden, model)
    generate = [program, "generate", str(model), "--tokens", "5,6", "--max-tokens", "2"]
    mutate(model / "config.json", [generate, [program, "rope", "--config", str(model)],
                                   [program, "rope", "--json", "--config", str(model)],
                                   [program, "atlas", "--config", str(model), "--output", str(folder / "atlas.html")]])
    mutate(model / "model.safetensors", [generate])


def of_text_files(program: str, folder: Path) -> None:
    """What is read beside the weights: the tokenizer, the template of chats, the tokens that end a text."""
    model = folder / "text_model"
    text_model.write(model)
    generate = [program, "generate", str(model), "--prompt", "the <|im_end|> \u20ac", "--max-tokens", "2"]
    for name in ("tokenizer", "tokenizer_config", "generation_config"):
        mutate(model / f"{name}.json", [[*generate, "--chat"], [*generate, "--stop", "e"]])


def main() -> None:
    program, folder = tool.arguments()
    of_checkpoint(program, folder)
    of_text(program, folder)
    of_comparison(program, folder)
    of_hugging_face(program, folder)
    of_text_files(program, folder)


main()
