"""Texts of a generated session: files, outputs, diffs, prose, pictures. All of it from one ``random.Random``."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from random import Random
from typing import TypeAlias

from . import words

Pools: TypeAlias = dict[str, list[str]]
Pattern: TypeAlias = tuple[str, tuple[str, ...]]

_SLOT = re.compile(r"\{\{|\}\}|\{(\w)\}")


def compiled(patterns: tuple[str, ...]) -> list[Pattern]:
    """Turn patterns into format strings with the pools their slots take from."""
    out: list[Pattern] = []
    for pattern in patterns:
        slots = tuple(found[1] for found in _SLOT.finditer(pattern) if found[1])
        text = _SLOT.sub(lambda found: "%s" if found[1] else found[0][0], pattern.replace("%", "%%"))
        out.append((text, slots))
    return out


PYTHON, TYPESCRIPT, GO = compiled(words.PYTHON), compiled(words.TYPESCRIPT), compiled(words.GO)
LOGS, TESTS, TRACES = compiled(words.LOGS), compiled(words.TESTS), compiled(words.TRACES)
SEARCH, LISTING, GIT = compiled(words.SEARCH), compiled(words.LISTING), compiled(words.GIT)
DATA, DOCS, FOREIGN = compiled(words.DATA), compiled(words.DOCS), compiled(words.FOREIGN)
REASONING, SAYS, SUMMARY, ASKS = (
    compiled(words.REASONING),
    compiled(words.SAYS),
    compiled(words.SUMMARY),
    compiled(words.ASKS),
)
_LANGUAGES = ((PYTHON, "py"), (TYPESCRIPT, "ts"), (GO, "go"))


def pools(rng: Random) -> Pools:
    """Make the vocabulary of one task: its own identifiers, types, paths, numbers, hashes and times."""
    stems, verbs, adjectives = words.STEMS, words.VERBS, words.ADJECTIVES
    pick = rng.choice

    def ident() -> str:
        shape = rng.random()
        if shape < 0.3:
            return pick(stems)
        if shape < 0.75:
            return f"{pick(stems)}_{pick(stems)}"
        return f"{pick(adjectives)}_{pick(stems)}{rng.randrange(100) if shape > 0.93 else ''}"

    types = [pick(stems).title() + pick(stems).title() for _ in range(44)]
    idents = [ident() for _ in range(150)]
    folders = [f"{pick(('src', 'lib', 'app', 'pkg', 'internal'))}/{pick(stems)}" for _ in range(12)]
    paths = [f"{pick(folders)}/{pick(idents)}.{pick(('py', 'py', 'ts', 'go'))}" for _ in range(40)]
    numbers = [str(int(10 ** rng.uniform(0, 3.8))) for _ in range(256)]
    start = rng.randrange(86_400)
    seconds = range(start, start + 240)
    times = [f"{t // 3600 % 24:02}:{t // 60 % 60:02}:{t % 60:02}.{rng.randrange(1000):03}" for t in seconds]
    made = {
        "i": idents,
        "t": types,
        "T": ["Test" + one for one in types],
        "f": [f"{pick(verbs)}_{pick(stems)}" for _ in range(80)],
        "p": paths,
        "n": numbers,
        "h": [f"{rng.getrandbits(32):08x}" for _ in range(150)],
        "d": times,
        "s": rng.sample(stems, 60),
        "v": rng.sample(verbs, 45),
        "V": [verb.title() for verb in rng.sample(verbs, 45)],
        "a": rng.sample(adjectives, 24),
        "w": rng.sample(stems, 50),
        "N": list(words.NAMES),
    }
    # every pool has 256 entries, so that eight random bits pick one: this is the inner loop of long sessions
    return {slot: (pool * (256 // len(pool) + 1))[:256] for slot, pool in made.items()}


def fill(rng: Random, patterns: list[Pattern], have: Pools, size: int) -> list[str]:
    """Return lines of about ``size`` characters in all, at least one."""
    roll, bits = rng.random, rng.getrandbits
    total = 0
    many = len(patterns)
    out: list[str] = []
    while total < size or not out:
        text, slots = patterns[int(roll() * many)]
        line = text % tuple([have[slot][bits(8)] for slot in slots])
        out.append(line)
        total += len(line) + 1
    return out


def prose(rng: Random, patterns: list[Pattern], have: Pools, size: int) -> str:
    """Return sentences in paragraphs."""
    parts = fill(rng, patterns, have, size)
    return "".join(part + ("\n\n" if rng.random() < 0.2 else " ") for part in parts).rstrip() or parts[0]


def foreign(rng: Random, have: Pools) -> str:
    """Return one line of a script, an emoji or a sign that programs tend to trip over."""
    return fill(rng, FOREIGN, have, 1)[0]


def source(rng: Random, have: Pools, size: int) -> list[str]:
    """Return lines of a source file."""
    return fill(rng, rng.choice(_LANGUAGES)[0], have, size)


def numbered(rng: Random, have: Pools, size: int, *, special: bool = False) -> str:
    """Return a file as a read tool shows it: every line with its number; ``special`` puts in what tokenizers fear."""
    body = source(rng, have, size) if rng.random() < 0.85 else fill(rng, DOCS, have, size)
    if special:
        body.insert(len(body) // 2, 'STOP = "<|endoftext|>"  # ' + foreign(rng, have))
    first = 1 if rng.random() < 0.6 else rng.randrange(1, 900)
    return "\n".join([f"{number:6d}→{line}" for number, line in enumerate(body, first)])


def diff(rng: Random, have: Pools, size: int) -> str:
    """Return a unified diff."""
    out: list[str] = []
    roll = rng.random
    while size > 0:
        path = rng.choice(have["p"])
        at = rng.randrange(1, 900)
        hunk = source(rng, have, min(size, rng.randrange(300, 1_400)))
        out += [f"diff --git a/{path} b/{path}", f"index {rng.choice(have['h'])}..{rng.choice(have['h'])} 100644"]
        out += [f"--- a/{path}", f"+++ b/{path}", f"@@ -{at},{len(hunk)} +{at},{len(hunk) + 2} @@"]
        for line in hunk:
            turn = roll()
            out.append(("+" if turn < 0.3 else "-" if turn < 0.5 else " ") + line)
        size -= sum(map(len, hunk)) + 160
    return "\n".join(out)


def test_run(rng: Random, have: Pools, size: int) -> tuple[str, bool]:
    """Return the output of a test run, with a stack trace if it failed, and whether it failed."""
    failed = rng.random() < 0.4
    head = fill(rng, TESTS, have, size // 2 if failed else size)
    counted = len(head)
    if failed:
        name = rng.choice(have["f"])
        head += [f"=================== FAILURES ({name}) ===================", "Traceback (most recent call last):"]
        head += fill(rng, TRACES, have, size // 4) + fill(rng, LOGS, have, size // 4)
        why = f"{rng.choice(have['t'])}Error: {rng.choice(have['n'])}"
        head.append(f"FAILED {rng.choice(have['p'])}::test_{name} - {why}")
    head.append(f"{int(failed)} failed, {counted} passed in {rng.uniform(0.2, 90):.2f}s")
    return "\n".join(head), failed


def picture(rng: Random) -> str:
    """Return a small valid PNG (RGB, up to 24 by 24 pixels) in base64."""
    wide, high = rng.randrange(4, 25), rng.randrange(4, 25)
    colours = [rng.randbytes(3) for _ in range(3)]
    rows = b"".join(b"\0" + b"".join(rng.choice(colours) for _ in range(wide)) for _ in range(high))

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return base64.b64encode(png).decode()
