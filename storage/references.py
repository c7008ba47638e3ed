"""Which chunks an event names (for ``verify``, purging and copying)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from ..domain import edits, events, transcript

NAMED: Mapping[type, tuple[str, ...]] = MappingProxyType(
    {
        transcript.Message: ("body",),
        events.SystemChanged: ("body",),
        events.ToolsChanged: ("body",),
        events.Side: ("system", "tools"),
        events.Asked: ("question", "answer"),
        events.RequestOutcome: ("detail",),
        events.OverflowReported: ("detail",),
        events.HistoryRefreshed: ("m1",),
        events.BaselineFolded: ("m0", "m1", "guidance"),
        events.Compartment: ("title", "tiers"),
        events.HistorianFailed: ("message",),
        events.HistorianPublished: ("facts", "events"),
        events.DocsObserved: ("files",),
        edits.SetBody: ("text",),
        edits.SetText: ("text",),
        edits.SetShape: ("text",),
        edits.Insert: ("text",),
    }
)
"""Struct and its fields that hold chunk digests, alone, in tuples or in pairs."""

OTHER: Mapping[type, tuple[str, ...]] = MappingProxyType(
    {
        transcript.Message: ("ident",),
        events.SessionForked: ("digest",),
        events.SystemChanged: ("hash",),
        events.ToolsChanged: ("hash", "names"),
        events.Pin: ("digest",),
        events.PolicyChanged: ("policy",),
        events.PurgeRequested: ("chunks",),
        events.HistorianStarted: ("fingerprint",),
        events.PassDeferred: ("digest",),
        events.ConversationRebuilt: ("digest",),
        events.HistoryRefreshed: ("digest",),
        events.BaselineFolded: ("digest",),
        events.LastGoodReplayed: ("digest",),
    }
)
"""Fields that hold bytes but name no chunk that must exist; a test holds both tables against the catalogue."""


def named_chunks(event: Any) -> Iterator[bytes]:
    """Yield the digest of every chunk ``event`` names, in the order it names them (repeats included)."""
    if isinstance(event, tuple | list):
        for item in event:
            yield from named_chunks(item)
    elif isinstance(event, msgspec.Struct):
        kind = type(event)
        for field in NAMED.get(kind, ()):
            yield from _digests(getattr(event, field))
        for field in kind.__struct_fields__:
            value = getattr(event, field)
            if isinstance(value, tuple | msgspec.Struct):
                yield from named_chunks(value)


def _digests(value: Any) -> Iterator[bytes]:
    if isinstance(value, bytes):
        if value:
            yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _digests(item)
