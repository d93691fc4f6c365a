"""The part of docs/transformers.md that says what came of the sweep."""

from __future__ import annotations

import pathlib
import textwrap
from typing import Any

BEGIN, END = "<!-- sweep: begin -->", "<!-- sweep: end -->"
Results = dict[str, dict[str, Any]]

# Words in a reason -> what they mean for the reader. The first that fits.
_REFUSALS = [
    ("in code of its own", "attention in code of their own, or nothing but eager in transformers itself"),
    ("classes of its own", "a table of classes for eager and sdpa alone"),
    ("it hands", "attention that is sparse, or has more keywords than phasor knows"),
    ("[attention_forward]", "at the first call, by the name of the keyword"),
]
_OBSTACLES = [
    ("requires the", "needs a package that is not installed"),
    ("not reached", "not reached again after a configuration of it was found"),
    (": NoTrial:", "too large also when made small"),
    ("more than", "takes too long"),
    ("memory", "takes too much memory"),
    ("", "no configuration or no inputs that fit together were found"),
]


def write(page: pathlib.Path, version: str, results: Results) -> None:
    text = page.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit(f"{page}: expected one line {BEGIN} and one line {END}")
    before, rest = text.split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{table(version, results)}\n\n{END}{rest.split(END)[1]}")


def table(version: str, results: Results) -> str:
    by_outcome: dict[str, list[str]] = {}
    for name in sorted(results):
        by_outcome.setdefault(results[name]["outcome"], []).append(name)
    equal, rounding = by_outcome.pop("equal", []), by_outcome.pop("rounding", [])
    as_sdpa = by_outcome.pop("as sdpa", [])
    refused, empty = by_outcome.pop("refused", []), by_outcome.pop("without attention", [])
    untried = by_outcome.pop("not tried", [])
    rows = [
        ("equal to eager", equal),
        ("equal but for rounding: sdpa, or eager with weights changed by a millionth, differs from eager as much", rounding),
        ("equal to sdpa, where that differs from eager", as_sdpa),
        ("refused by name", refused),
        ("without attention", empty),
        ("not tried", untried),
        *sorted(by_outcome.items()),
    ]
    lines = [
        f"transformers {version}: {len(results)} model types.",
        "",
        "| outcome | model types |",
        "|---|---|",
        *(f"| {outcome} | {len(names)} |" for outcome, names in rows),
        "",
        _what_was_compared(results, equal + rounding + as_sdpa),
        "",
        _list("Equal", equal),
        "",
        _list("Equal but for rounding", rounding),
        "",
        _list("Equal to sdpa", as_sdpa),
        *(f"\n{part}" for part in _grouped("Refused", refused, results, _REFUSALS)),
        "",
        _list("Without attention", empty),
        *(f"\n{part}" for part in _grouped("Not tried", untried, results, _OBSTACLES)),
        *(f"\n{_list(outcome, names)}" for outcome, names in sorted(by_outcome.items())),
    ]
    return "\n".join(lines)


def _what_was_compared(results: Results, names: list[str]) -> str:
    def count(what: str) -> int:
        return sum(what in results[name]["compared"] for name in names)

    kinds: dict[str, int] = {}
    for name in names:
        kinds[results[name]["inputs"]] = kinds.get(results[name]["inputs"], 0) + 1
    return _wrapped(
        f"Of the {len(names)} in the first three rows, inputs were "
        + ", ".join(f"{kind} ({number})" for kind, number in sorted(kinds.items(), key=lambda each: -each[1]))
        + f"; with padding on the right {count('padding on the right')}, on the left {count('padding on the left')}; "
        f"generation of 8 tokens with a cache {count('generation')}."
    )


def _list(title: str, names: list[str]) -> str:
    return _wrapped(f"**{title}** ({len(names)}): " + (", ".join(f"`{name}`" for name in names) or "none") + ".")


def _grouped(title: str, names: list[str], results: Results, groups: list[tuple[str, str]]) -> list[str]:
    found: dict[str, list[str]] = {}
    for name in names:
        reason = results[name].get("reason", "").split(" | ")[0]
        meaning = next((text for words, text in groups if words in reason), reason)
        found.setdefault(meaning, []).append(name)
    return [_list(f"{title}: {meaning}", members) for meaning, members in found.items()]


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 160, break_long_words=False, break_on_hyphens=False)
