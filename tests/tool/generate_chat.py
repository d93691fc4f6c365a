#!/usr/bin/env python3
"""generate_chat.py PHASOR FOLDER: text and chats of a Hugging Face folder: stop texts and tokens, lengths, sampling, what is
refused, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import tool

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import text_model  # noqa: E402

PROMPT = "the end of the "


class Folder:
    def __init__(self, program: str, path: Path) -> None:
        self.program, self.path = program, path
        text_model.write(path)

    def change(self, name: str, **values: object) -> None:
        """Keys of a JSON file of the folder; None takes one away."""
        path = self.path / name
        content = {**json.loads(path.read_text()), **values}
        path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))

    def command(self, *words: str) -> list[str]:
        return [self.program, "generate", str(self.path), *words]

    def run(self, *words: str) -> tuple[str, str]:
        """What it writes to standard output and to standard error."""
        ended = subprocess.run(self.command(*words), capture_output=True, env=tool.ENVIRONMENT, timeout=60)
        if ended.returncode != 0:
            sys.exit(f"{words}: ended with {ended.returncode}: {ended.stderr.decode()}")
        return ended.stdout.decode(), ended.stderr.decode()

    def refuse(self, *words: str, expected: str) -> None:
        tool.run(self.command(*words)).expect(2, expected)


def same(found: object, expected: object) -> None:
    if found != expected:
        sys.exit(f"found {found!r}, expected {expected!r}")


def stops(folder: Folder) -> None:
    folder.change("generation_config.json", eos_token_id=None)
    whole, _ = folder.run("--prompt", PROMPT, "--max-tokens", "60")
    text = whole.removeprefix(PROMPT).removesuffix("\n")
    if whole == text or len(text) < 30:
        sys.exit(f"{whole!r}: expected the prompt and a longer text")
    for stop in (text[10:13], text[20:28], text[12]):
        written, _ = folder.run("--prompt", PROMPT, "--max-tokens", "60", "--stop", stop, "--stop", "@never@")
        same(written, PROMPT + text[: text.index(stop)] + "\n")
    # A stop token ends the text, and is no part of it: here one that is not special.
    ids = [int(word) for word in folder.run("--tokens", "45,12,9", "--max-tokens", "20")[0].split()]
    folder.change("generation_config.json", eos_token_id=[2, ids[7]])
    first = ids.index(ids[7])
    same([int(word) for word in folder.run("--tokens", "45,12,9", "--max-tokens", "20")[0].split()], ids[: first + 1])
    folder.change("generation_config.json", eos_token_id=2)


def chats(folder: Folder) -> None:
    """A chat is the prompt that its template writes, and only the answer is printed."""
    formatted = "<|im_start|>system\nbe kind<|im_end|>\n<|im_start|>user\nthe end?<|im_end|>\n<|im_start|>assistant\n"
    answer, _ = folder.run("--chat", "--system", "be kind", "--prompt", "the end?", "--max-tokens", "20")
    same(formatted + answer, folder.run("--prompt", formatted, "--max-tokens", "20")[0])
    folder.refuse("--chat", "--prompt", "a", "--system", "b", "--stop", "", expected="--stop: nothing, expected a text")
    folder.refuse("--prompt", "a", "--system", "b", expected="--system: given without --chat")
    folder.refuse("--tokens", "5", "--chat", expected="--chat: given with --tokens")
    folder.refuse("--tokens", "5", "--stop", "a", expected="--stop: given with --tokens")
    folder.change("tokenizer_config.json", chat_template="{{ messages | tojson }}")
    folder.refuse("--chat", "--prompt", "a", expected="chat_template: line 1: the filter tojson")
    folder.change("tokenizer_config.json", chat_template="{{ raise_exception('No system messages') }}")
    folder.refuse("--chat", "--prompt", "a", expected='the template refuses these messages: "No system messages"')
    folder.change("tokenizer_config.json", chat_template=None)
    folder.refuse("--chat", "--prompt", "a", expected="no template of chats, expected chat_template.jinja")


def sampling(folder: Folder) -> None:
    drawn = ["--prompt", PROMPT, "--max-tokens", "20", "--temperature", "1.5"]
    texts = {folder.run(*drawn, "--seed", str(seed))[0] for seed in range(4)}
    if len(texts) < 3:
        sys.exit(f"seeds draw the same: {texts}")
    greedy, _ = folder.run("--prompt", PROMPT, "--max-tokens", "20")
    for likeliest in (["--top-k", "1"], ["--top-p", "1e-9"], ["--min-p", "1"]):
        same(folder.run(*drawn, *likeliest)[0], greedy)
    if folder.run("--prompt", PROMPT, "--max-tokens", "20", "--repetition-penalty", "5")[0] == greedy:
        sys.exit("a penalty changes nothing")
    folder.refuse("--prompt", "a", "--min-p", "0.1", expected="--min-p: given with --temperature 0")
    folder.refuse("--prompt", "a", "--min-p", "2", "--temperature", "1", expected="--min-p: 2, expected 0 to 1")
    folder.refuse("--prompt", "a", "--repetition-penalty", "0", expected="--repetition-penalty: 0, expected above 0")


def statistics(folder: Folder) -> None:
    text, rates = folder.run("--prompt", PROMPT, "--max-tokens", "5", "--stats")
    same(text, folder.run("--prompt", PROMPT, "--max-tokens", "5")[0])
    for words in ("load", "prefill", " tokens in ", "generation 4 tokens in ", " tokens/s"):
        if words not in rates:
            sys.exit(f"{rates!r}, expected {words!r}")


def lengths(program: str, folder: Path) -> None:
    """A prompt longer than a table of positions, in a model that has one."""
    text = folder / "text"
    text.write_text("a line of text\n" * 40)
    run = folder / "learned"
    tool.run([program, "train", "--text", str(text), *tool.SIZE, "--encoding", "learned", "--steps", "2", "--out", str(run)]
             ).expect(0)
    generate = [program, "generate", str(run)]
    longest = json.loads((run / "config.json").read_text())["encoding"]["max_length"]
    ended = tool.run([*generate, "--tokens", "1,2,3"]).expect(0)  # the last token is not read
    same(len(ended.output.split()), longest - 3 + 1)
    tool.run([*generate, "--prompt", "x" * (longest + 5)]).expect(2, f"prompt: {longest + 5} tokens, expected at most {longest}")
    tool.run([*generate, "--prompt", "xxx", "--max-tokens", str(longest)]).expect(2, f"max_tokens: {longest} after a prompt of 3")
    tool.run([*generate, "--chat", "--prompt", "x"]).expect(2, "--chat: given for a model of bytes")


def golden(path: Path, name: str) -> list[int]:
    """Integers of a safetensors file."""
    data = path.read_bytes()
    header = struct.unpack_from("<Q", data)[0]
    about = json.loads(data[8 : 8 + header])[name]
    begin, end = (8 + header + offset for offset in about["data_offsets"])
    return list(struct.unpack(f"<{(end - begin) // 4}i", data[begin:end]))


def encoder_and_decoder(program: str) -> None:
    """A model that reads a source text and writes another one."""
    for name in ("t5", "marian"):
        folder = Path(__file__).parents[1] / "golden" / "architectures" / name
        source = golden(folder / "expected.safetensors", "source")
        written = golden(folder / "expected.safetensors", "generated")
        first = ",".join(map(str, source[: len(source) // 2]))
        ended = tool.run([program, "generate", str(folder), "--tokens", first, "--max-tokens", "16"]).expect(0)
        same([int(word) for word in ended.output.split()], written[1:])
        tool.run([program, "perplexity", str(folder), "--text", __file__]).expect(2, "a model of an encoder and a decoder")


def interrupt(folder: Folder) -> None:
    process = subprocess.Popen(folder.command("--prompt", PROMPT, "--max-tokens", "1000000", "--stats"), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=tool.ENVIRONMENT)
    assert process.stdout is not None
    begin = process.stdout.read(len(PROMPT) + 5)  # it writes
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    text, rates = process.communicate(timeout=60)
    same(process.returncode, 130)
    (begin + text).decode()  # whole characters
    if not text.endswith(b"\n") or b"generation" not in rates:
        sys.exit(f"{text[-20:]!r}, {rates!r}: expected an end of the line and rates")


def main() -> None:
    program, path = tool.arguments()
    folder = Folder(program, path / "model")
    stops(folder)
    sampling(folder)
    statistics(folder)
    folder.change("generation_config.json", eos_token_id=None)
    interrupt(folder)
    chats(folder)
    lengths(program, path)
    encoder_and_decoder(program)
    (folder.path / "tokenizer.json").unlink()
    folder.refuse("--prompt", "a", expected="model/tokenizer.json: no such file, expected it")
    print("text, chats and their ends")


main()
