#!/usr/bin/env python3
"""Writes tokenizers.json: small tokenizers of every kind, and what the package tokenizers makes of some texts; and one of
them, examples/tokenizer.json, for the documentation.

Each entry has a tokenizer.json as an object, the texts, their ids with and without special tokens, the decoded texts with and
without special tokens, and a pair of texts.
"""

from __future__ import annotations

import json
import pathlib
import struct
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LINES = [
    "The quick brown fox jumps over the lazy dog. The dog sleeps, the fox doesn't.",
    "It's 2024: we've seen 1,234 foxes and 56789 dogs!",
    "def encode(text):\n    return [token for token in text.split()]\n",
    "Привет, мир! Ça va très bien, déjà vu. 你好，世界。",
    "the fox, the dog, the foxes and the dogs; encode and decode the text",
]
TEXTS = [
    *LINES,
    "",
    " ",
    "  leading and trailing  ",
    "a\tb\n\nc\r\n  d   e",
    "naïve café e\u0301 Ångström İstanbul ﬁne ² ½ Ⅷ ＡＢＣ",
    "مرحبا नमस्ते ไทย 한국어 日本語",
    "🤗👩‍💻🏳️‍🌈 and text",
    "<s>special</s> [MASK] <new> new newer <|x|>",
    "under_score kebab-case $100 x=y+z; 'quoted' \"double\"",
    "\u200b\ufeff\u00a0\u3000\u2581▁x",
    "\u0000\u0001\ufffd",
]
GPT4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]




def train(tokenizer: Tokenizer, trainer: Any) -> Tokenizer:
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


def byte_level_trainer(**settings: Any) -> Any:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return trainers.BpeTrainer(vocab_size=330, show_progress=False, initial_alphabet=alphabet, **settings)


def gpt2() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, byte_level_trainer(special_tokens=["<|x|>"]))


def llama3() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(GPT4), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer = train(tokenizer, byte_level_trainer(special_tokens=["<s>"]))
    template = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 0)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), template])
    return tokenizer


def qwen() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(GPT4.replace("{1,3}", "")), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, byte_level_trainer())
    tokenizer.add_tokens([AddedToken("new", single_word=True), AddedToken("<new>", lstrip=True, rstrip=True, normalized=False)])
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return tokenizer


def smollm() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=True)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, byte_level_trainer(special_tokens=["<|x|>"]))


def roberta() -> Tokenizer:
    tokenizer = gpt2()
    tokenizer.add_special_tokens(["<s>", "</s>", AddedToken("<mask>", lstrip=True)])
    ids = {each: tokenizer.token_to_id(each) for each in ("<s>", "</s>")}
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"]))
    return tokenizer


def llama2() -> Tokenizer:
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    train(trained, trainers.BpeTrainer(vocab_size=150, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    vocab = {token: id for id, token in enumerate(["<unk>", "<s>", "</s>", *BYTES, *model["vocab"]])}
    tokenizer = Tokenizer(models.BPE(vocab, [tuple(each) for each in model["merges"]], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tokenizer


def fused() -> Tokenizer:
    """Without bytes: unknown characters side by side are one token."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Strip()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace()
    return train(tokenizer, trainers.BpeTrainer(vocab_size=120, limit_alphabet=40, show_progress=False, special_tokens=["<unk>", "</s>"]))


def words_with_ends() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.BPEDecoder()
    return train(tokenizer, trainers.BpeTrainer(vocab_size=150, end_of_word_suffix="</w>", show_progress=False, special_tokens=["<unk>"]))


def bert(**settings: Any) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12))
    tokenizer.normalizer = normalizers.BertNormalizer(**settings)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    train(tokenizer, trainers.WordPieceTrainer(vocab_size=200, show_progress=False, special_tokens=special))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def bert_of_fixed_length() -> Tokenizer:
    tokenizer = bert(lowercase=False)
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(pad_to_multiple_of=6, direction="left")
    return tokenizer


def unigram_trainer(**settings: Any) -> Any:
    return trainers.UnigramTrainer(vocab_size=150, show_progress=False, unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"], **settings)


def t5() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Precompiled(charsmap({"ﬁ": "fi", "Ａ": "A", "²": "2", "\u00a0": " ", "e\u0301": "é", "½": "1/2", "\u200b": ""}))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    train(tokenizer, unigram_trainer())
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def xlmr() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    train(tokenizer, unigram_trainer())
    tokenizer.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
    return tokenizer


def unigram_with_bytes() -> Tokenizer:
    scores = [("<unk>", 0.0), *((each, -20.0) for each in BYTES), ("▁", -2.0), ("▁the", -3.0), ("fox", -4.0), ("o", -6.0), ("x", -6.5), ("f", -7.0), ("e", -7.0), ("s", -7.25)]
    tokenizer = Tokenizer(models.Unigram(scores, 0, True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=False, prepend_scheme="never")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never")])
    return tokenizer


def splits(behavior: str, invert: bool) -> Tokenizer:
    """Every way to split, on words that are all known."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"[\p{Lu}\s]|,+"), behavior, invert), pre_tokenizers.Punctuation("merged_with_previous")]
    )
    return train(tokenizer, trainers.BpeTrainer(vocab_size=130, show_progress=False, special_tokens=["<unk>"]))


def byte_level_normalizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.ByteLevel()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("Ġ", "merged_with_next")
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, byte_level_trainer())


def charsmap(replacements: dict[str, str]) -> bytes:
    """SentencePiece's table, as a double array in which every node has 256 places of its own."""
    texts, places = b"", {}
    for key, value in replacements.items():
        places[key.encode()] = len(texts)
        texts += value.encode() + b"\0"
    nodes = {b""} | {key[:i] for key in places for i in range(1, len(key) + 1)}
    base = {node: 256 * (i + 1) for i, node in enumerate(sorted(nodes))}
    units = [0] * (256 * (len(nodes) + 2))

    def unit(node: bytes, at: int) -> int:
        offset = at ^ base[node]  # of the children, from here
        return offset << 10 | (node in places) << 8 | (node[-1] if node else 0)

    units[0] = unit(b"", 0)
    for node in nodes - {b""}:
        at = base[node[:-1]] ^ node[-1]
        units[at] = unit(node, at)
        if node in places:
            units[base[node]] = 1 << 31 | places[node]
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + texts


def entry(name: str, tokenizer: Tokenizer) -> dict[str, Any]:
    encoded = [tokenizer.encode(text).ids for text in TEXTS]
    pair = tokenizer.encode(TEXTS[0], TEXTS[1])
    return {
        "name": name,
        "tokenizer": json.loads(tokenizer.to_str()),
        "vocab_size": tokenizer.get_vocab_size(),
        "ids": encoded,
        "ids_without_special_tokens": [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS],
        "text": [tokenizer.decode(ids) for ids in encoded],
        "text_with_special_tokens": [tokenizer.decode(ids, skip_special_tokens=False) for ids in encoded],
        "pair": {"ids": pair.ids, "type_ids": pair.type_ids, "attention_mask": pair.attention_mask},
    }


def main() -> None:
    makers = [gpt2, llama3, qwen, smollm, roberta, llama2, fused, words_with_ends, bert, bert_of_fixed_length, t5, xlmr, unigram_with_bytes, byte_level_normalizer]
    entries = [entry(maker.__name__, maker()) for maker in makers]
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        entries += [entry(f"split_{behavior}{'_inverted' if invert else ''}", splits(behavior, invert)) for invert in (False, True)]
    text = json.dumps({"texts": TEXTS, "tokenizers": entries}, ensure_ascii=True, separators=(",", ":"))
    path = pathlib.Path(__file__).with_name("tokenizers.json")
    path.write_text(text.replace('{"name"', '\n{"name"') + "\n")
    example = pathlib.Path(__file__).parents[2] / "examples" / "tokenizer.json"
    example.write_text(json.dumps(entries[1]["tokenizer"], ensure_ascii=True, separators=(",", ":")) + "\n")
    print(f"{path.name}: {len(entries)} tokenizers, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
