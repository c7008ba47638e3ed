"""What is looked up and reminded of is the same on every wire, at the same passes, in the same words."""

from __future__ import annotations

import re
from typing import Any

import pytest

import foldlog
from foldlog.adapters.models.tokens import ENCODING
from foldlog.adapters.traces.shapes import Called, Returned, Said, Shown, Thought
from foldlog.domain import events as ev
from foldlog.storage.stores import open_store
from support import ports
from support.hosts import WRITERS, Round
from support.parity import tokens
from support.talk import PIXEL, differences

ASKS = "please look into part {} of the parser"


def rounds() -> list[Round]:
    """Return a conversation with commits, lists that are done, reads of notes, short and long words, pictures."""
    found = [Round(0, 0, (), "", (), (), (Said(ASKS.format(0)),))]
    for n in range(1, 60):
        text, calls, asked = f"step {n}", list[Called](), list[Said | Shown]()
        if n % 9 in (4, 6):
            text = f"committed as 1a2b3c{n}"
        if n % 13 == 7:
            calls = [Called(f"t{n}", "todowrite", {"todos": [{"content": "a", "status": "completed"}]})]
        elif n % 17 == 8:
            calls = [Called(f"t{n}", "ctx_note", {"action": "read"}), Called(f"u{n}", "bash", {"n": n})]
        elif n % 3:
            calls = [Called(f"t{n}", "bash", {"n": n})]
        else:
            asked = [Said("yes" if n % 2 else ASKS.format(n)), *([Shown(PIXEL)] if n % 4 == 0 else [])]
        results = tuple(Returned(call.id, call.name, f"output {n}") for call in calls)
        thoughts = (Thought(f"thinking of {n}", "c2ln"),) if n % 2 else ()
        found.append(Round(n, n * 240_000, thoughts, text, tuple(calls), results, tuple(asked)))
    return found


def played(codec: str) -> tuple[list[Any], foldlog.Engine]:
    notes, search = ports.Notes(2, 1), ports.Search(ports.found(), ports.found("another", 0.5))
    engine = foldlog.Engine(
        open_store("memory:"), tokens, ENCODING, iter(range(10**12, 2 * 10**12)).__next__, notes=notes, search=search
    )
    session = engine.session("s", codec=codec, context_limit=1_000_000, policy={"cache_ttl": "never"})
    messages: list[bytes] = []
    rows: list[Any] = []
    for one in rounds():
        messages += WRITERS[codec](one, tokens).messages
        request = session.prepare(messages, now=one.at / 1000)
        request.report_usage(input=10, cache_read=0, cache_write=0, output=1)
        decision = request._produced.event.decision
        asked = [(a.word, a.outcome) for a in decision.asked] if decision else []
        noticed = [(seen.what, seen.occasion) for seen in decision.noticed] if decision else []
        sent = b"\n".join(request.messages_json).decode()
        told = re.findall(r"<ctx-search-hint>.*?</ctx-search-hint>|<instruction name=.*?</instruction>", sent)
        rows.append((one.number, asked, noticed, told, list(notes.calls), search.queries.copy()))
    return rows, engine


@pytest.mark.rule("SAY-5")
@pytest.mark.parametrize("codec", [codec for codec in WRITERS if codec != "anthropic"])
def test_every_wire_says_the_same(codec: str):
    first, engine = played("anthropic")
    assert {word for row in first for word in row[1]} == {
        ("hint", "said"), ("hint", "too-short"), ("note", "said"), ("note", "recent"), ("note", "read"),
    }  # fmt: skip
    assert {seen for row in first for seen in row[2]} == {
        ("commit", True), ("commit", False), ("todos", True), ("read", False),
    }  # fmt: skip
    rows, other = played(codec)
    assert rows == first
    assert differences(engine, "s") == differences(other, "s") == []
    assert any(isinstance(one.event, ev.Pass) for one in other.log.read("session/api/s"))
