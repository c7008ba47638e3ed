"""From the view to bytes: the request of a pass, and the chain digest over its blocks (``specs/view.md``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from ..domain import events as ev
from ..domain.edits import Insert, MessageSlots
from .view import Change, View
from .wire import wire

Text = Callable[[bytes], bytes]
"""Returns the chunk of a digest."""


class Sent(msgspec.Struct, frozen=True):
    """What one message of the path became: its wire messages (0, 1, with inserts more), the chain digest after it.

    ``blocks``: the digests of its blocks. ``json`` is empty where they were known and nothing was rendered.
    """

    m: int
    json: tuple[bytes, ...]
    digest: bytes
    blocks: tuple[bytes, ...] = ()


def unknown(_: int) -> tuple[bytes, ...] | None:
    """Say of every message that its blocks are not known: it is rendered."""
    return None


_UNCHANGED = Change({}, {}, {})
_NONE: Mapping[int, tuple[Insert, ...]] = MappingProxyType({})


def level(event: ev.Event) -> str:
    """Return the level of a pass event as people name it."""
    return _LEVELS[type(event)]


_LEVELS: dict[type, str] = {
    ev.PassDeferred: "defer",
    ev.LastGoodReplayed: "defer",
    ev.ConversationRebuilt: "soft+",
    ev.HistoryRefreshed: "soft",
    ev.BaselineFolded: "hard",
    ev.PassRefused: "refused",
}


def head_messages(view: View, text: Text) -> tuple[bytes, ...]:
    """Return the wire messages of m[0] and m[1], empty for a session without a head."""
    if not view.m0:
        return ()
    m0, m1 = (b"".join(text(digest) for digest in chunks).decode() for chunks in (view.m0, view.m1))
    return wire(view.wire).head_messages(view.codec, m0, m1)


def guidance(view: View, text: Text) -> str:
    """Return the guidance the last fold pinned."""
    return text(view.guidance).decode() if view.guidance else ""


def system_messages(view: View, text: Text) -> tuple[bytes, ...]:
    """Return the leading system messages of codecs that have them, guidance included."""
    form = wire(view.wire)
    _, leading = form.region(view.codec, text(view.system) if view.system else b"")
    return form.system_messages(view.codec, leading, guidance(view, text))


def system(view: View, text: Text) -> bytes:
    """Return the system member of the request as JSON; empty where there is none.

    It holds the guidance, unless leading system messages stand nearer to the conversation: then the last of those does.
    """
    form = wire(view.wire)
    member, leading = form.region(view.codec, text(view.system) if view.system else b"")
    if leading or view.codec == "openai-chat":
        return member
    return form.with_guidance(view.codec, member, guidance(view, text))


def beside(view: View, event: ev.Event) -> View:
    """Return the view of a pass: of a side request, with its own system and tools."""
    side = event.side if isinstance(event, ev.PassDeferred) else None
    if side is None:
        return view
    if side.whole:
        return msgspec.structs.replace(view, system=side.system, tools=side.tools, m0=(), m1=())
    if (side.system, side.tools) == (view.system, view.tools):
        return view
    return msgspec.structs.replace(view, system=side.system, tools=side.tools)


def prefix_blocks(view: View, text: Text) -> Iterator[Any]:
    """Yield the blocks before the first message of the path: tools, system, m[0], m[1]."""
    form = wire(view.wire)
    if view.tools:
        yield from form.tools_blocks(view.codec, text(view.tools))
    above = system(view, text)
    if above:
        yield from form.system_blocks(view.codec, above)
    for message in (*system_messages(view, text), *head_messages(view, text)):
        yield from form.blocks(view.codec, message)


def prefix_digest(view: View, text: Text) -> bytes:
    """Return the chain digest of everything before the first message of the path."""
    form = wire(view.wire)
    return form.chain(form.GENESIS(view.codec), prefix_blocks(view, text))


def render(view: View, raw: bytes, slots: MessageSlots, inserts: Sequence[Insert], text: Text) -> tuple[bytes, ...]:
    """Return the wire messages one message of the host becomes."""
    form = wire(view.wire)
    own = form.render(view.codec, raw, slots, text)
    units = [message for insert in inserts for message in form.insert_messages(view.codec, insert, text(insert.text))]
    return (own, *units) if own is not None else tuple(units)


def follow(
    view: View,
    start: bytes,
    path: Iterable[int],
    raw: Callable[[int], bytes],
    text: Text,
    change: Change = _UNCHANGED,
    inserts: Mapping[int, tuple[Insert, ...]] = _NONE,
    known: Callable[[int], tuple[bytes, ...] | None] = unknown,
) -> Iterator[Sent]:
    """Render the messages of ``path`` and carry the chain digest on from ``start``.

    ``change`` and ``inserts`` lie over the view's own: what a pass that is not stored yet does to it. ``known``: block
    digests of messages that need not be rendered again.
    """
    form = wire(view.wire)
    digest = start
    for m in path:
        blocks = known(m)
        if blocks is not None:  # as it was sent before: only the chain goes on over it
            digest = form.link(digest, blocks)
            yield Sent(m, (), digest, blocks)
            continue
        units = inserts[m] if m in inserts else view.inserts.get(m, ())
        json = render(view, raw(m), change.of(m, view), units, text)
        blocks = tuple(block.digest for message in json for block in form.blocks(view.codec, message))
        digest = form.link(digest, blocks)
        yield Sent(m, json, digest, blocks)


class Built(msgspec.Struct, frozen=True):
    """A request as bytes. ``system`` and ``tools``: JSON, empty to leave out; the first ``head`` messages are ours.

    ``leading`` of ``messages`` are system messages; ``owners[i]`` is the ordinal message i came from (0: ours).
    ``length``: how many messages of the path it holds, those included that became none.
    """

    codec: str
    wire: int
    system: bytes
    tools: bytes
    messages: tuple[bytes, ...]
    owners: tuple[int, ...]
    leading: int
    head: int
    digest: bytes
    length: int

    def marked(self, ttl: str | None = None) -> tuple[Any, list[Any]]:
        """Return new objects of system and messages with cache marks: system end, m[0], m[1], tail (convention 26)."""
        form = wire(self.wire)
        system_part = form.output(self.system) if self.system else None
        messages = [form.output(raw) for raw in self.messages]
        if self.codec == "anthropic" and isinstance(system_part, str):
            system_part = [{"type": "text", "text": system_part}]  # only a block can carry a mark
        form.marks(self.codec, system_part, messages, self.head, ttl)
        return system_part, messages


def build(view: View, path: Sequence[int], raw: Callable[[int], bytes], text: Text) -> Built:
    """Render the whole request of a path, with its digest."""
    above, front = system_messages(view, text), head_messages(view, text)
    sent = list(follow(view, prefix_digest(view, text), path, raw, text))
    ours = (0,) * (len(above) + len(front))
    return Built(
        codec=view.codec,
        wire=view.wire,
        system=system(view, text),
        tools=wire(view.wire).unmarked(text(view.tools)) if view.tools else b"",
        messages=(*above, *front, *(message for one in sent for message in one.json)),
        owners=(*ours, *(one.m for one in sent for _ in one.json)),
        leading=len(above),
        head=len(front),
        digest=sent[-1].digest if sent else prefix_digest(view, text),
        length=len(sent),
    )


def extend(before: Built, number: int, event: ev.Pass, path: Sequence[int], delta: Sequence[Sent]) -> Built | None:
    """Return the request of ``event`` as that of pass ``number`` and what is new; None where it is anything else.

    ``path``: the messages the request of ``event`` sends, ``delta``: what the pass added to them.
    """
    if not isinstance(event, ev.PassDeferred) or event.side is not None or event.divergence is not None:
        return None
    added = [one.m for one in delta]
    if event.base != number or event.wire != before.wire or list(path[before.length :]) != added:
        return None
    if not delta or delta[-1].digest != event.digest:
        return None
    return msgspec.structs.replace(
        before,
        messages=(*before.messages, *(message for one in delta for message in one.json)),
        owners=(*before.owners, *(one.m for one in delta for _ in one.json)),
        digest=event.digest,
        length=len(path),
    )


def reasons(event: ev.Event) -> tuple[str, ...]:
    """Return why a pass was what it was: the fold's reasons, the signals that were true, the host's divergence."""
    if isinstance(event, ev.LastGoodReplayed):
        return ("last_good",)
    if isinstance(event, ev.PassRefused):
        return (event.code,)
    found: list[str] = list(event.reasons) if isinstance(event, ev.BaselineFolded) else []
    decision = getattr(event, "decision", None)
    if decision is not None:
        found += [signal for signal in decision.signals if signal not in found]
    divergence = getattr(event, "divergence", None)
    if divergence is not None:
        found.append(f"host_{divergence.cause}")
    return tuple(found)
