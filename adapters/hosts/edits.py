"""From a pass to the edits a plugin applies itself (``specs/link.md``, Edits): the view in JSON, texts inlined.

``apply.js`` is the other end. Both are pure: what is decided stands in the log already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from ...domain import events as ev
from ...domain.edits import TEXT_ORDER, Insert, MessageSlots, PartSlots
from ...domain.paths import path_of
from ...domain.state import State
from ...projections import request as requests
from ...projections.fold import Folded, load
from ...projections.view import View
from ...request import Request

Text = Callable[[bytes], str]
"""Returns the chunk of a digest."""


def entry(slots: MessageSlots, text: Text) -> dict[str, Any]:
    """Return what a plugin does to one message, without its id: empty for a message that stays as it is."""
    found: dict[str, Any] = {}
    if slots.shape != "keep":
        found["shape"] = slots.shape
    if slots.shape == "shell":
        found["text"] = text(slots.text)
    if slots.trail >= 0:
        found["trail"] = slots.trail
    parts = [_part(slot, text) for slot in slots.parts]
    while parts and parts[-1] == 0:
        parts.pop()
    if parts:
        found["parts"] = parts
    return found


def _part(slot: PartSlots, text: Text) -> int | dict[str, Any]:
    found: dict[str, Any] = {"tag": slot.tag} if slot.tag else {}
    if slot.body != "raw":
        found["body"] = slot.body
    if slot.body in ("text", "marker"):
        found["text"] = text(slot.text)
    for side, given in (("pre", slot.pre), ("post", slot.post)):
        texts = dict(given)
        if texts:
            found[side] = "".join(text(texts[kind]) for kind in TEXT_ORDER if kind in texts)
    if slot.media != "keep":
        found["media"] = slot.media
    if slot.think != "keep":
        found["think"] = slot.think
    return slot.tag if found.keys() <= {"tag"} else found


def unit(insert: Insert, text: Text) -> dict[str, Any]:
    """Return a unit of ours as a plugin builds it."""
    body = text(insert.text)
    if insert.kind == "text":
        return {"kind": "text", "role": insert.role, "text": body}
    arc = msgspec.json.decode(body)
    output = arc["output"] if isinstance(arc["output"], str) else msgspec.json.encode(arc["output"]).decode()
    return {"kind": "arc", "id": str(arc["id"]), "name": str(arc["name"]), "input": arc["input"], "output": output}


def edits(request: Request, base: int = 0, ids: Sequence[str] = ()) -> dict[str, Any]:
    """Return the edits that bring a plugin's view to that of ``request``.

    ``base``: the version (pass number) the plugin holds, 0 for none. Where the request does not lie on it, was made by
    another process, or is one beside the head, the edits are the whole view (``from`` 0). ``ids``: what the host calls
    its messages now, in the order it handed them over; a copied session has the messages of another under new names.
    """
    if not request.recorded:
        return _raw(request, base, ids)
    core, produced = request.session.core, request.produced
    event = produced.event
    with core.lock:
        folded: Folded = core.hot()
        if folded.state.last_version != produced.version or folded.state.passes != event.number:
            folded = load(core.log, core.stream, produced.version)  # the session has moved on
        state, view = folded.state, requests.beside(folded.view, event)

        names = _Names(state, ids if len(ids) == len(state.path) and getattr(event, "side", None) is None else ())

        def text(digest: bytes) -> str:
            return str(core.text(digest), "utf-8", "surrogatepass")

        answer: dict[str, Any] = {
            "from": 0,
            "number": event.number,
            "codec": view.codec,
            "digest": event.digest.hex(),
            "guidance": requests.guidance(view, core.text),
        }
        path = path_of(state, event)
        answer["inserts"] = _inserts(names, view, path, text)
        if _lies_on(event, base) and (produced.made or base == event.number):
            changed = {one.m for one in produced.delta} if base != event.number else set()
            answer["from"] = base
            if base != event.number and not isinstance(event, ev.PassDeferred):
                answer.update(_front(names, view, core.text))
            answer["messages"] = _messages(names, view, (m for m in path if m in changed), text, bare=True)
            return answer
        answer.update(_front(names, view, core.text))
        answer["messages"] = _messages(names, view, path, text, bare=False)
        return answer


def _raw(request: Request, base: int, ids: Sequence[str]) -> dict[str, Any]:
    """Return the edits of a last-good request: those of the request it goes on behind, and nothing for what is new."""
    before = request.session.reopen(request.base)
    count = len(request.session.core.hot().state.path)
    return {**edits(before, base, ids[:count]), "number": request.pass_number, "digest": request.digest}


class _Names(msgspec.Struct, frozen=True):
    """What the host calls each message: as it says now, else as it said first; one without an id is its ordinal."""

    state: State
    ids: Sequence[str]

    def of(self, m: int) -> str:
        place = self.state.pos.get(m, -1)
        now = self.ids[place] if -1 < place < len(self.ids) else ""
        return now or self.state.node(m).message.host_id or str(m)


def _lies_on(event: ev.Pass, base: int) -> bool:
    if base <= 0 or getattr(event, "side", None) is not None:
        return False
    divergence = event.divergence
    if divergence is not None and divergence.cause in ("system", "tools"):
        return False  # what stands before the messages is another
    return base == event.number or (base == event.number - 1 and event.base == base)


def _front(names: _Names, view: View, text: Callable[[bytes], bytes]) -> dict[str, Any]:
    """Return what stands before the messages: the digest of system and tools, the head, the last message it covers."""
    head = tuple(b"".join(text(digest) for digest in chunks).decode() for chunks in (view.m0, view.m1))
    plain = msgspec.structs.replace(view, m0=(), m1=())
    return {
        "prefix": requests.prefix_digest(plain, text).hex(),
        "head": head if view.m0 else None,
        "cut": names.of(view.cut) if view.m0 and view.cut else None,  # a request beside the head may be without both
    }


def _messages(names: _Names, view: View, path: Iterable[int], text: Text, *, bare: bool) -> list[dict[str, Any]]:
    found = ((m, entry(view.of(m), text)) for m in path)
    return [{"id": names.of(m), **made} for m, made in found if made or bare]


def _inserts(names: _Names, view: View, path: list[int], text: Text) -> list[Any]:
    if not view.inserts:
        return []
    return [[names.of(m), [unit(one, text) for one in view.inserts[m]]] for m in path if view.inserts.get(m)]
