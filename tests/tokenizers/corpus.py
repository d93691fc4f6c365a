"""Texts to compare tokenizers on: many scripts, code, emoji, whitespace and broken UTF-8, the same at each run."""

from __future__ import annotations

import pathlib
import random
import sys
import unicodedata

# Characters of Unicode 3.2: newer ones have properties that libraries know since different versions.
OLD = unicodedata.ucd_3_2_0
EMOJI = ["🤗", "👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇫🇷🇩🇪", "1️⃣", "❤️", "☺", "🧑🏿‍🚀", "😀😃😄", "©️", "™"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n ", "\u00a0", "\u2003", "\u3000", "\u200b", "\u2028", "\x0b", "\x0c", "\x85", "\u1680"]
WORDS = (
    "The quick brown fox jumps over the lazy dog. It's they're we've I'll you'd I'M DON'T can't 'tis o'clock rock'n'roll "
    "naïve café Ångström fiancée Straße İstanbul ﬁnance ²³ ½ Ⅷ ① e\u0301 n\u0303o 3.14159 1,234,567 2024-11-18 192.168.0.1 "
    "user@example.com https://example.org/a?b=c#d Привет мир как дела здравствуйте Ελληνικά γλώσσα العربية السلام عليكم "
    "עברית שלום हिन्दी नमस्ते दुनिया বাংলা தமிழ் ไทยสวัสดี 你好世界 中文分词测试 日本語テスト ひらがな カタカナ ﾊﾝｶｸ 한국어 안녕하세요 "
    "ქართული Հայերեն አማርኛ ខ្មែរ မြန်မာ Tiếng Việt Türkçe Český Łódź ẞ ǅ ŉ <s> </s> <unk> <pad> [CLS] [SEP] [MASK] <|endoftext|> "
    "<0x0A> ▁ ▁▁ Ġ Ċ ## ##ing <mask> <extra_id_0> # $100 50% C++ x=y+z; {\"a\": [1, 2]} ... --- === !!! ??? ,. . , ! ? ' \" ` ~"
).split()


def scripts(rng: random.Random) -> list[str]:
    """Lines of words from the letters of each block of 128 characters."""
    lines = []
    for start in [*range(0x80, 0x3000, 0x80), *range(0x3000, 0x10000, 0x400), *range(0x10000, 0x30000, 0x400)]:
        characters = [chr(code) for code in range(start, start + (0x80 if start < 0x3000 else 0x400)) if not 0xD800 <= code < 0xE000]
        characters = [each for each in characters if OLD.category(each) not in ("Cn", "Co", "Cs")]
        for _ in range(12 if len(characters) > 8 else 0):
            words = ("".join(rng.choices(characters, k=rng.randint(1, 8))) for _ in range(12))
            lines.append("".join(word + rng.choice([" ", " ", " ", ", ", ". ", "", "-"]) for word in words))
    return lines


def mixtures(rng: random.Random, count: int) -> list[str]:
    return [
        "".join(rng.choice(rng.choice([WORDS, WORDS, WORDS, EMOJI, SPACES])) + rng.choice(["", " ", " ", " "]) for _ in range(rng.randint(1, 40)))
        for _ in range(count)
    ]


def code(limit: int) -> list[str]:
    """Sources of Python's own library, whole."""
    files = sorted(pathlib.Path(sys.modules["random"].__file__ or "").parent.glob("*.py"))
    texts, size = [], 0
    for file in files:
        texts.append(file.read_text(encoding="utf-8", errors="replace"))
        size += len(texts[-1])
        if size > limit:
            break
    return texts


def broken(rng: random.Random, texts: list[str]) -> list[bytes]:
    """Bytes of texts, some of them changed, added or left out."""
    results = []
    for text in texts:
        data = bytearray(text.encode())
        for _ in range(1 + len(data) // 20):
            at = rng.randrange(len(data) + 1)
            data[at : at + rng.randint(0, 2)] = bytes(rng.choices([0xC3, 0xE2, 0x82, 0xF0, 0x9F, 0xFF, 0xED, 0xA0, 0x80, 0xC0, 0x41], k=rng.randint(0, 2)))
        results.append(bytes(data))
    return results


def texts(size: int = 1_000_000) -> list[bytes]:
    """At least so many bytes. A third is whole files, the rest lines."""
    rng = random.Random(20240607)
    found = [each.encode() for each in code(size // 3)]
    found += [each.encode() for each in ("", " ", "\n", "  \t\n ", "a" * 3000, " " * 3000, "\n" * 999, "ab" * 2000, "é" * 1500, "🤗" * 500, "漢字" * 700, "0" * 1000)]
    while sum(map(len, found)) < size:
        lines = scripts(rng) + mixtures(rng, 300)
        rng.shuffle(lines)
        found += [each.encode() for each in lines]
        found += broken(rng, lines[:150])
        found.append("\n".join(lines[:100]).encode())
    return found
