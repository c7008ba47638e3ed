"""What the provider writes down of every request: one JSON line, and the body beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from .blocks import Block


class Record(msgspec.Struct):
    """One request as the provider saw it, ``at`` in seconds of the machine's clock.

    Blocks are (where, role, digest, tokens, mark).
    ``shared``: tokens from the start that equal the last answered request of the same ``conversation``; ``before``:
    the number of that request, 0 for none. ``read``, ``write``, ``plain``: the bill. ``kind``: ``step``, ``summary``,
    ``title``, ``other``, ``count``, or ``bad`` for a body that is no JSON. ``failure``: what was scripted or refused.
    ``pictures``: the digests of the pictures in it, of their bytes.
    """

    n: int
    at: float
    wire: str
    path: str
    model: str
    conversation: str
    stream: bool
    kind: str
    track: str
    step: int
    status: int = 200
    failure: str = ""
    message: str = ""
    read: int = 0
    write: int = 0
    plain: int = 0
    before: int = 0
    shared: int = 0
    thinking: int = 0
    tools: int = 0
    calls: tuple[str, ...] = ()
    blocks: tuple[tuple[str, str, str, int, str], ...] = ()
    pictures: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Return the size of the prompt in tokens."""
        return self.read + self.write + self.plain


def digests(blocks: list[Block]) -> tuple[tuple[str, str, str, int, str], ...]:
    """Return ``blocks`` as a record holds them."""
    return tuple(
        (block.where, block.role, hashlib.blake2b(block.data, digest_size=8).hexdigest(), block.tokens, block.mark)
        for block in blocks
    )


def write(folder: Path, record: Record, body: bytes) -> None:
    """Append ``record`` to ``requests.jsonl`` and keep the body as ``bodies/0001.json``."""
    bodies = folder / "bodies"
    bodies.mkdir(parents=True, exist_ok=True)
    (bodies / f"{record.n:04d}.json").write_bytes(body)
    with (folder / "requests.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(record) + b"\n")


def read(folder: Path) -> list[Record]:
    """Return the records of ``folder`` in the order the requests came."""
    file = folder / "requests.jsonl"
    if not file.is_file():
        return []
    whole = file.read_bytes().rpartition(b"\n")[0]  # the last line may be in the middle of being written
    lines = whole.split(b"\n") if whole else []
    return sorted((msgspec.json.decode(line, type=Record) for line in lines), key=lambda each: each.n)


def body_of(folder: Path, record: Record) -> Any:
    """Return the body of ``record`` as JSON objects."""
    return msgspec.json.decode((folder / "bodies" / f"{record.n:04d}.json").read_bytes())
