"""The wire log: one JSON line a request, with the digest, bytes and tokens of every block (``specs/wire-log.md``).

A request that only goes on costs what is new: the list of the one before is kept, encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

import msgspec

from ...api import Request
from ...domain import events as ev
from ...domain.state import State
from ...projections.compare import spread
from ...projections.request import Built
from ...projections.view import View
from ...projections.wire import wire
from ..billing.records import REFUSED, Block, Record, dumps, made


class _Message(msgspec.Struct):
    """A wire message: its blocks, also encoded; ``mark``: which of them would carry a cache mark, -1 if none."""

    rows: tuple[Block, ...]
    text: bytes
    mark: int


class _Head(msgspec.Struct, frozen=True):
    """What stands above the first message: how many blocks, and which of these and of the head's carry a mark."""

    rows: int
    marks: tuple[int, ...]


class WireLog(msgspec.Struct):
    """The requests of one session as records, written to ``out`` where there is one. ``count``: tokens of a text.

    ``marks``: mark blocks for every codec, as a provider with marks would be sent them (convention 26), not only for
    Anthropic's. ``lead``: blocks that stand before everything, for system and tools a trace does not hold.
    """

    out: BinaryIO | None
    session: str
    codec: str
    count: Callable[[str], int]
    marks: bool = False
    lead: tuple[Block, ...] = ()
    tokens: dict[bytes, int] = msgspec.field(default_factory=dict)
    known: dict[bytes, _Message] = msgspec.field(default_factory=dict)
    front: _Head = _Head(0, ())
    line: bytearray = msgspec.field(default_factory=bytearray)
    rows: list[Block] = msgspec.field(default_factory=list)
    messages: list[tuple[int, _Message]] = msgspec.field(default_factory=list)
    taken: tuple[Block, ...] = ()
    version: int = 1

    def take(self, request: Request, state: State, view: View, at: int, model: str, output: int) -> Record:
        """Return the record of a request just produced. ``at``: ms UTC; ``output``: tokens of its answer, -1 = unknown.

        Requests are taken in the order they were made; nothing is written yet.
        """
        event = request.produced.event
        if self._goes_on(event):
            for one in request.produced.delta:
                self._extend((one.m, raw) for raw in one.json)
        else:
            self._start(request.built, view.wire)
        self.taken = tuple(self.rows)
        split = event.divergence if isinstance(event, ev.PassDeferred) else None
        return Record(
            session=self.session,
            at=at,
            model=model,
            level=request.level,
            blocks=self.taken,
            breakpoints=self._breakpoints(),
            output_tokens=output if output >= 0 else None,
            divergence=None if split is None else self._place(split, state, view),
            reasons=request.reasons,
        )

    def refusal(self, at: int, model: str, code: str, tokens: int, number: int) -> Record:
        """Return the record of request ``number``, which foldlog did not make: one block tells its ``tokens``."""
        body = made(f"refused request {number} of {self.session}", tokens)
        return Record(self.session, at, model, "", (*self.lead, body), kind=REFUSED, reasons=(code,))

    def put(self, record: Record) -> None:
        """Write a record."""
        if self.out is None:
            return
        ours = record.blocks is self.taken  # they are kept encoded
        self.out.write(dumps(record, bytes(self.line) if ours else None) + b"\n")

    def _goes_on(self, event: Any) -> bool:
        return (
            isinstance(event, ev.PassDeferred) and event.divergence is None and event.side is None and bool(self.rows)
        )

    def _start(self, built: Built, version: int) -> None:
        self.version = version
        form = wire(version)
        tools, system = form.tools_blocks(self.codec, built.tools), form.system_blocks(self.codec, built.system)
        rows = [*self.lead, *(self._row(block, self.count) for block in (*tools, *system))]
        leading = [form.blocks(self.codec, raw) for raw in built.messages[: built.leading]]
        head = [form.blocks(self.codec, raw) for raw in built.messages[built.leading : built.leading + built.head]]
        if self.codec == "anthropic":
            marks = list(form.mark_indexes(self.codec, len(self.lead) + len(tools), len(system), head, built.head))
        else:
            marks = _ends(len(rows), leading, head) if self.marks else []
        self.front = _Head(len(rows), tuple(marks))
        self.line = bytearray(_encoded(rows))
        self.rows = rows
        self.messages = []
        self._extend(zip(built.owners, built.messages, strict=True))

    def _extend(self, given: Iterable[tuple[int, bytes]]) -> None:
        for m, raw in given:
            message = self.known.get(raw)
            if message is None:
                message = self.known[raw] = self._message(raw)
            if self.line and message.text:
                self.line += b","
            self.line += message.text
            self.rows += message.rows
            self.messages.append((m, message))

    def _message(self, raw: bytes) -> _Message:
        form = wire(self.version)
        blocks = form.blocks(self.codec, raw)
        parts = form.read(self.codec, raw, self.count).message.parts
        rows = []
        for index, block in enumerate(blocks):
            tokens = parts[index].tokens if len(parts) == len(blocks) else None
            rows.append(self._row(block, self.count, tokens))
        mark = form.mark_indexes(self.codec, 0, 0, [blocks], 0) if self.codec == "anthropic" else (len(rows) - 1,)
        return _Message(tuple(rows), _encoded(rows), mark[-1] if mark else -1)

    def _row(self, block: Any, count: Callable[[str], int], tokens: int | None = None) -> Block:
        known = self.tokens.get(block.digest)
        if known is None:
            known = count(block.form.decode("utf-8", "replace")) if tokens is None else tokens
            self.tokens[block.digest] = known
        return block.digest.hex()[:16], block.size, known

    def _breakpoints(self) -> tuple[int, ...] | None:
        """Return the marked blocks: end of the system, m[0], m[1], and the last block that can carry a mark."""
        if self.codec != "anthropic" and not self.marks:
            return None
        marks = list(self.front.marks)
        end = len(self.rows)
        for _, message in reversed(self.messages):
            end -= len(message.rows)
            if message.mark >= 0:
                if end + message.mark not in marks:
                    marks.append(end + message.mark)
                break
        return tuple(marks)

    def _place(self, divergence: ev.Divergence, state: State, view: View) -> int:
        """Return the index of the first block a divergence concerns."""
        if divergence.cause in ("system", "tools"):
            return len(self.lead)
        at, path = self.front.rows, 0
        owners: Sequence[tuple[int, _Message]] = self.messages
        last = 0
        for m, message in owners:
            if m and m != last:
                path += 1
                last = m
            if m and (m == divergence.m or path > divergence.index):
                if m == divergence.m and divergence.p:
                    parts = spread(view.of(m), state.node(m).message, len(message.rows))
                    at += sum(0 <= p < divergence.p for p in parts)
                break
            at += len(message.rows)
        return at


def _ends(rows: int, leading: Sequence[Sequence[Any]], head: Sequence[Sequence[Any]]) -> list[int]:
    """Return the last blocks of the system (``rows`` blocks, then the ``leading`` messages), of m[0] and of m[1]."""
    at = rows + sum(len(message) for message in leading)
    ends = [at - 1] if at else []
    for message in head:
        at += len(message)
        ends.append(at - 1)
    return ends


def _encoded(rows: Sequence[Block]) -> bytes:
    return msgspec.json.encode(rows)[1:-1]
