"""What a session says to its agent beside its content, in the state machine: notes that wait, what a search found, and
the newest to-do list, said again where its own call has left.

The model keeps what its ports told, and its array has the lists; a request says nothing else.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import foldlog
from support import machine_host as host

if TYPE_CHECKING:
    from support.machine import Machine
    from support.machine_checks import Served

LIST = "todowrite"
STATUSES = ("pending", "in_progress", "completed", "cancelled", "someday")
OVER = ("completed", "cancelled")
OURS = b'"foldlog_todo_'
_NOTE = re.compile(
    r'\n\n<instruction name="deferred_notes">(?:(\d+) notes? of yours)?(?: and )?(?:(\d+) whose time has come)? waits? '
    r"to be looked at\. [^<]*</instruction>\Z"
)
_HINT = re.compile(r"\n\n<ctx-search-hint>\n[^<]*:\n((?:- [^<\n]*\n)+)[^<]*\n</ctx-search-hint>\Z")


class Ports:
    """Both ports of one process. What they answer goes on with each question, and at times it is an error."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def waiting(self, session: str) -> foldlog.Waiting:
        number = self._next()
        if number % 5 == 4:
            raise RuntimeError("the notes are not to be had")
        counts = (number % 3, number % 2)
        self.machine.notes.add(counts)
        return foldlog.Waiting(*counts, self.machine.wall)

    def search(self, query: str, session: str, limit: int, timeout: float) -> Iterable[foldlog.Found]:
        number = self._next()
        if number % 7 == 6:
            raise RuntimeError("the index is not to be had")
        texts = [f"found {number}.{i} of <session-history> & §{i}§" for i in range(number % 4)]
        self.machine.hits |= {text.replace("§", "") for text in texts}
        return [foldlog.Found("memory", text, 0.9 - i * 0.3) for i, text in enumerate(texts)]

    def _next(self) -> int:
        self.machine.counts["asked of ports"] += 1
        return self.machine.counts["asked of ports"]


class Words:
    """The steps and the records of what is said."""

    def do_plan(self: Any, steps: int = 0, door: int = 0, error: bool = False) -> None:
        """The agent writes its to-do list: ``steps`` in base 5, the lowest digit first, is a status each."""
        digits = [steps // 5**i % 5 for i in range(1 + steps % 3)] if steps else []
        todos = [{"content": f"do {i} {self._uid()}", "status": STATUSES[digit]} for i, digit in enumerate(digits)]
        call = {"t": "call", "id": f"call_{self._uid()[1:]}", "name": LIST, "args": {"todos": todos}}
        result = host.result(call["id"], 0, self._uid(), error=error and self.codec not in host.MUTE)
        before = self.flat()
        after = "user" if self.codec == "anthropic" else "tool"
        self.rounds.append([self._message("assistant", [call]), self._message(after, [result])])
        self.now += 10_000
        if door == 0:
            self.send()
        else:
            self.advance(before)


def said(machine: Machine, text: str) -> str:
    """Return a person's text without what was said behind it, all of which its ports told: a hint, then of notes."""
    found = _NOTE.search(text)
    if found is not None:
        counts = (int(found[1] or 0), int(found[2] or 0))
        assert counts in machine.notes, f"a reminder of notes nobody told of: {counts}"
        machine.counts["notes told"] += 1
        text = text[: found.start()]
    found = _HINT.search(text)
    if found is not None:
        told = {html.unescape(line[2:]) for line in found[1].splitlines()}
        assert told <= machine.hits, f"a hint says what no search found: {told - machine.hits}"
        machine.counts["hints"] += 1
        text = text[: found.start()]
    return text


def apart(wire: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return what a message of the host became, and the arcs of ours behind it."""
    ours = tuple(raw for raw in wire if OURS in raw)
    return (tuple(raw for raw in wire if OURS not in raw), ours) if ours else (wire, ())


def places(served: Served | None) -> set[int]:
    """Return the messages that arcs of ours stand behind."""
    zipped = zip(served.ms, served.wire, strict=True) if served is not None else ()
    return {m for m, wire in zipped if wire and apart(wire)[1]}


def written(items: list[host.Message]) -> list[Any]:
    """Return the lists of a path whose calls ended well, in the order of their results."""
    parts = [part for item in items for part in item["parts"]]
    calls = {p["id"]: p["args"]["todos"] for p in parts if p["t"] == "call" and p["name"] == LIST}
    results = (p for p in parts if p["t"] == "result" and p["id"] in calls)
    return [calls[p["id"]] for p in results if not p["err"]]


def listed(machine: Machine, now: Served) -> None:
    """TODO-1 to TODO-3: an arc says a list the agent wrote on this path, one with something left to do, and whole; one
    that is put in says the newest.
    """
    known = written(now.items)
    put_in = {insert.m for insert in now.event.inserts if insert.kind == "arc"}
    said: list[str] = []
    for m, wire in zip(now.ms, now.wire, strict=True):
        blocks = [block for raw in apart(wire or ())[1] for block in host.seen(machine.codec, json.loads(raw))]
        halves = [block[0] for block in blocks]
        assert halves == ["call", "result"] * (len(halves) // 2), f"half an arc of ours: {blocks!r}"
        for call, result in zip(blocks[::2], blocks[1::2], strict=True):
            assert call[1] == result[1], f"an arc of two: {blocks!r}"
            todos = call[3]["todos"]
            assert todos in known, f"TODO-1: a list nobody wrote on this path: {todos!r}"
            assert m not in put_in or todos == known[-1], f"TODO-1: not the newest list: {todos!r}, {known[-1]!r}"
            assert {one["status"] for one in todos} - set(OVER), f"TODO-3: nothing is left to do: {todos!r}"
            assert all(one["status"] in STATUSES[:4] for one in todos), f"TODO-3: not understood: {todos!r}"
            said.append(call[1])
    assert len(said) == len(set(said)), "TODO-2: a list is said twice"
    machine.counts["lists said again"] += len(said)
