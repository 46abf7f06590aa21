"""Mutations of JSON values, bytes, texts and command lines."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    -1,
    0,
    1,
    1.5,
    1e308,
    -(2**31),
    2**40,
    2**62,
    "",
    "x",
    "x/../..",
    "\x1b[2J",
    "[/b]",
    "\ud800",
    "nan",
    "no.such:Thing",
    "gymnax:No-v0",
    "x" * 600,
    [],
    {},
    [[]],
    [1, "a"],
    [None],
    {"a": []},
    {"": 1},
)
ODD_BYTES = (
    *(b"", b"\x00", b"\xff\xfe", b"\n", b"\n\n", b"{", b"}", b"[" * 50, b'"', b"NaN", b"1e999", b"-0", b","),
    b"9" * 30,
)
ODD_TEXTS = (
    *("", " ", "-", "--", "-1", "0", "1", "2", "7", "1.5", "-0.0", "nan", "inf", "-inf", "1e999", "1e-300"),
    *("99999999999999999999", "4294967296", "0x10", "1_000", "é", "\ud800", "\x00", "None", "True", "false"),
    *("[1,2]", "{}", "a=b", "=", "x=1=2", "beta=", "=1", "--help", "-h", "@file", "%s", "{0}", "[/red]"),
    *("\x1b[2J", ":", "a:b", "no.such:Thing", "gymnasium:", "gymnax:No-v0", "pgx:x", "*", "a,b", ",", "e-az"),
    *("deep-sea", "figure-2-left", "runs/a", "sweep.toml", "x.png", "missing", "1x1", "0x0", "x" * 300, "\n"),
)


def mutated_json(value: Any, draw: Random) -> Any:
    """The value with one part replaced, removed, added or put elsewhere."""
    if isinstance(value, dict | list) and value and draw.random() < 0.9:
        copied: Any = dict(value) if isinstance(value, dict) else list(value)
        name: Any = draw.choice(list(value)) if isinstance(value, dict) else draw.randrange(len(value))
        kind = draw.random()
        if kind < 0.1:
            del copied[name]
        elif kind < 0.15 and isinstance(copied, dict):
            copied[draw.choice(("", "x", "steps", "\x1b"))] = copied.pop(name)
        elif kind < 0.15:
            copied.append(value[name])
        else:
            copied[name] = mutated_json(value[name], draw)
        return copied
    if isinstance(value, int | float) and not isinstance(value, bool) and draw.random() < 0.5:
        return draw.choice((value + 1, -value, value * 1000, float(value), value / 3, str(value), [value]))
    return draw.choice(ODD_VALUES)


def mutated_json_text(content: bytes, draw: Random) -> bytes:
    """A file of one JSON value with one part of it changed."""
    return (json.dumps(mutated_json(json.loads(content), draw)) + "\n").encode()


def mutated_json_lines(content: bytes, draw: Random) -> bytes:
    """A file of JSON lines with a part of one line changed, or lines removed, repeated or in another order."""
    lines = content.splitlines(keepends=True)
    kind, at = draw.random(), draw.randrange(len(lines))
    if kind < 0.7:
        lines[at] = mutated_json_text(lines[at], draw)
    elif kind < 0.8:
        del lines[at]
    elif kind < 0.9:
        lines.insert(draw.randrange(len(lines)), lines[at])
    else:
        draw.shuffle(lines)
    return b"".join(lines)


def mutated_bytes(content: bytes, draw: Random) -> bytes:
    """The bytes with some flipped, removed, repeated, cut off or replaced."""
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        start = draw.randrange(len(content) + 1)
        end = min(len(content), start + draw.choice((0, 1, 1, 3, 20)))
        kind = draw.random()
        if kind < 0.4 and start < len(content):
            changed = bytes([content[start] ^ (1 << draw.randrange(8))])
            content = content[:start] + changed + content[start + 1 :]
        elif kind < 0.6:
            content = content[:start] + draw.choice(ODD_BYTES) + content[end:]
        elif kind < 0.75:
            content = content[:start] + content[end:]
        elif kind < 0.9:
            content = content[:end] + content[start:end] * draw.randrange(1, 4) + content[end:]
        else:
            content = content[:start]
    return content


def mutated_text(text: str, draw: Random, pieces: Sequence[str]) -> str:
    """The text with pieces inserted, and parts removed or replaced."""
    for _ in range(draw.choice((1, 1, 2, 4))):
        start = draw.randrange(len(text) + 1)
        end = min(len(text), start + draw.choice((0, 0, 1, 2, 8)))
        text = text[:start] + draw.choice((draw.choice(pieces), "")) + text[end:]
    return text


def mutated_arguments(arguments: Sequence[str], draw: Random, options: Sequence[str]) -> list[str]:
    """The command line with arguments replaced, removed, repeated, swapped or added. The command itself stays."""
    changed = list(arguments)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at = draw.randrange(1, len(changed)) if len(changed) > 1 else 1
        kind = draw.random()
        if kind < 0.35:
            changed[at : at + 1] = [draw.choice(ODD_TEXTS)]
        elif kind < 0.45:
            del changed[at : at + 1]
        elif kind < 0.5:
            changed[at:at] = changed[at : at + 2]
        elif kind < 0.55:
            other = draw.randrange(len(changed))
            changed[1:] = [*changed[other:], *changed[1:other]] if other else changed[1:]
        elif kind < 0.7:
            changed[at : at + 1] = [mutated_text(one, draw, ODD_TEXTS) for one in changed[at : at + 1]]
        else:
            changed[at:at] = [draw.choice(options), draw.choice(ODD_TEXTS)]
    return changed
