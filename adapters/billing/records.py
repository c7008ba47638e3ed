"""A line of a wire log as a value, and wire logs as files (``specs/wire-log.md``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ...domain.errors import InputError

Block: TypeAlias = tuple[str, int, int]
"""One block as sent: 16 hex digits of its digest, bytes, tokens. Within a log one digest has one count of tokens."""

MAIN = "main"
"""A request of the session itself. Any other kind but ``refused`` is an added call, such as ``summary``."""
REFUSED = "refused"
"""A request that was not sent: it costs nothing, touches no cache, and is counted. Its blocks tell its size only."""

SUMMARY = "summary"
"""A call of a model that summarised older history."""

STAND_IN = "system-stand-in"
_BYTES = 4
"""Bytes per token where only tokens are known."""


class Record(msgspec.Struct, frozen=True):
    """One request. ``at``: ms UTC, 0 = unknown; ``breakpoints``: indexes into ``blocks``, ascending, None = no marks.

    ``output_tokens``: of its answer, None = not recorded. ``divergence``: the first block in which the host itself left
    what it had sent, None = it did not. ``reasons``: why the request has its level.
    """

    session: str
    at: int
    model: str
    level: str
    blocks: tuple[Block, ...]
    breakpoints: tuple[int, ...] | None = None
    output_tokens: int | None = None
    kind: str = MAIN
    divergence: int | None = None
    reasons: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """Return the tokens of the prompt."""
        return sum(block[2] for block in self.blocks)


def loads(lines: Iterable[bytes | str], where: str = "wire log") -> Iterator[Record]:
    """Read lines of a wire log; blank ones are passed over. Equal blocks become one object.

    Raises ``InputError`` naming the line (from 1) that is no record.
    """
    decoder = msgspec.json.Decoder(Record)
    known: dict[Block, Block] = {}
    last: tuple[Block, ...] = ()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InputError(
                f"this line is no record of a wire log ({error}); specs/wire-log.md says what one holds",
                value=line,
                where=f"{where}:{number}",
            ) from None
        kept = shared(last, record.blocks)
        last = last[:kept] + tuple([known.setdefault(block, block) for block in record.blocks[kept:]])
        yield msgspec.structs.replace(record, blocks=last)


def shared(old: tuple[Block, ...], new: tuple[Block, ...]) -> int:
    """Return how many leading blocks two prompts share."""
    high = min(len(old), len(new))
    if old[:high] == new[:high]:
        return high
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle
    return low


def load(path: str | Path) -> list[Record]:
    """Read a wire log. Raises ``InputError`` if the file cannot be read or a line of it is no record."""
    try:
        with Path(path).open("rb") as lines:
            return list(loads(lines, str(path)))
    except OSError as error:
        raise InputError(f"the wire log cannot be read ({error})", value=str(path)) from None


def dumps(record: Record, blocks: bytes | None = None) -> bytes:
    """Return the record as one line, without its end; members as ``specs/wire-log.md`` orders them.

    ``blocks``: the items of the list of blocks, where they are encoded already.
    """
    fields: dict[str, Any] = {name: getattr(record, name) for name in _ALWAYS}
    if blocks is not None:
        fields["blocks"] = msgspec.Raw(b"[" + blocks + b"]")
    if record.divergence is not None:
        fields["divergence"] = record.divergence
    if record.reasons:
        fields["reasons"] = record.reasons
    return msgspec.json.encode(fields)


_ALWAYS = ("session", "at", "model", "level", "blocks", "breakpoints", "output_tokens", "kind")


def dump(path: str | Path, records: Iterable[Record]) -> None:
    """Write a wire log. Raises ``InputError`` if the file cannot be written."""
    try:
        with Path(path).open("wb") as out:
            out.writelines(dumps(record) + b"\n" for record in records)
    except OSError as error:
        raise InputError(f"the wire log cannot be written ({error})", value=str(path)) from None


def stand_in(tokens: int) -> tuple[Block, ...]:
    """Return the block that stands in for a system prompt and tools a trace does not hold (``--system-tokens``)."""
    return (made(STAND_IN, tokens),) if tokens > 0 else ()


def made(name: str, tokens: int) -> Block:
    """Return a block that no host sent, known by its name; different counts are different blocks."""
    return sha256(f"foldlog {name} {tokens}".encode()).hexdigest()[:16], tokens * _BYTES, tokens


def with_front(records: Iterable[Record], front: Sequence[Block]) -> Iterator[Record]:
    """Put ``front`` before the blocks of each request of the session itself; added calls have a system of their own."""
    lead = tuple(front)
    shift = len(lead)
    for record in records:
        if not shift or record.kind not in (MAIN, REFUSED):
            yield record
            continue
        marks = record.breakpoints
        yield msgspec.structs.replace(
            record,
            blocks=lead + record.blocks,
            breakpoints=None if marks is None else tuple(mark + shift for mark in marks),
            divergence=None if record.divergence is None else record.divergence + shift,
        )
