"""Every field of an event that holds bytes is known to name chunks, or known not to."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, get_args

import msgspec

from foldlog.domain import events
from foldlog.domain.edits import Arrival, Insert, SetBody, SetText
from foldlog.domain.transcript import Message, Text
from foldlog.storage.references import NAMED, OTHER, named_chunks


def structs(kind: Any, seen: set[type]) -> Iterator[type]:
    """Yield every struct reachable from a type."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind in seen:
            return
        seen.add(kind)
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from structs(field.type, seen)
    for part in get_args(kind):
        yield from structs(part, seen)


def holds_bytes(kind: Any) -> bool:
    """Return whether a field of this type holds bytes outside of structs."""
    return kind is bytes or any(holds_bytes(part) for part in get_args(kind))


def test_every_bytes_field_is_classified() -> None:
    known = {(kind, field) for table in (NAMED, OTHER) for kind, fields in table.items() for field in fields}
    found = {
        (kind, field.name)
        for kind in structs(events.Event, set())
        for field in msgspec.structs.fields(kind)
        if holds_bytes(field.type)
    }
    assert found == known
    assert not {(k, f) for k, fs in NAMED.items() for f in fs} & {(k, f) for k, fs in OTHER.items() for f in fs}


def test_names_are_found_wherever_they_stand() -> None:
    d = [sha256(bytes([n])).digest() for n in range(12)]
    message = Message("user", d[0], d[1][:16], 1, (Text(1, 1),))
    assert list(named_chunks(events.MessagesObserved(1, "", 0, (message, message)))) == [d[0], d[0]]
    arrival = Arrival(1, 0, (1,), (SetBody(1, 0, "text", d[2]), SetText(1, 0, "pre", "time", d[3])))
    assert set(named_chunks((arrival, Insert(1, 0, "x", "text", d[4])))) == {d[2], d[3], d[4]}
    assert list(named_chunks(events.DocsObserved(1, "", (("a", d[5]), ("b", d[6]))))) == [d[5], d[6]]
    tiers = (d[7], d[8], b"", d[9])
    compartment = events.Compartment(1, 1, 2, d[1], tiers, (1, 1, 1, 1), 50)
    published = events.HistorianPublished(1, "", "run", (compartment,), (d[10],), (d[11],), ())
    assert set(named_chunks(published)) == {d[1], d[7], d[8], d[9], d[10], d[11]}
    assert list(named_chunks(events.PurgeRequested(1, "", "scope", (d[0],)))) == []
