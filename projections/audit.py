"""The proof: a session read from its events alone, every request rendered again and held against what was stored.

Nothing is taken from a snapshot. ``read`` has checked chain and heads before an event comes here (``design.md`` 3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from ..domain import events as ev
from ..domain.edits import MessageSlots
from ..domain.errors import FoldlogError, StoreDamaged, shown
from ..domain.paths import path_of
from ..domain.state import State
from . import request
from . import view as views
from .fold import Folded, Source, load, take
from .wire import RELEASED, code_digest, wire


class Difference(msgspec.Struct, frozen=True):
    """One thing that does not hold. ``version``: event; ``number``: pass; ``m``, ``byte``: where, 0/-1 if nowhere."""

    kind: str
    version: int
    number: int
    message: str
    m: int = 0
    byte: int = -1


class Audit(msgspec.Struct, frozen=True):
    """What an audit saw: passes verified, bytes rendered, divergences confirmed, differences found."""

    stream: str
    events: int
    passes: int
    bytes: int
    divergences: int
    differences: tuple[Difference, ...]


class Entry(msgspec.Struct):
    """One rendered message: the slots and body it was rendered from, what came out, its block digests.

    ``revision``: how often its host had changed it; there and back are two changes.
    """

    m: int
    body: bytes
    revision: int
    slots: MessageSlots
    inserts: tuple[Any, ...]
    json: tuple[bytes, ...]
    digests: tuple[Any, ...]


_REQUESTS = (ev.PassDeferred, ev.ConversationRebuilt, ev.HistoryRefreshed, ev.BaselineFolded, ev.LastGoodReplayed)
_Sent: TypeAlias = ev.Pass | ev.LastGoodReplayed


class _Request(msgspec.Struct):
    """A request as served: its entries and everything before them."""

    entries: list[Entry]
    prefix: tuple[bytes, ...]
    whole: bool = True
    start: int = 0


class _Auditor(msgspec.Struct):
    source: Source
    folded: Folded
    known: dict[int, Entry]
    served: dict[int, _Request]
    texts: dict[bytes, bytes]
    found: list[Difference]
    checked: set[int]
    passes: int = 0
    size: int = 0
    divergences: int = 0

    def text(self, digest: bytes) -> bytes:
        if digest not in self.texts:
            self.texts[digest] = self.source.chunks([digest])[0]
        return self.texts[digest]

    def see(self, stored: Any) -> None:
        """Take one event, and check it if it is a pass."""
        event = stored.event
        base = self.served.get(event.base) if isinstance(event, _REQUESTS) else None
        take(self.source, self.folded, stored, snapshots=False)
        if isinstance(event, ev.SessionForked):
            self._inherit(event)
        if isinstance(event, _REQUESTS):
            self._check(stored.version, event, base)

    def _inherit(self, event: ev.SessionForked) -> None:
        """Render the parent's last request: the first of the fork extends it."""
        parent = load(self.source, event.parent, event.version, snapshots=False)
        state = parent.state
        entries = [self._entry(state, parent.view, m) for m in state.path[state.start() : state.base_keep]]
        prefix = tuple(block.digest for block in request.prefix_blocks(parent.view, self.text))
        self.served[state.base] = _Request(entries, prefix, state.base_keep == state.base_len, state.start())

    def _check(self, version: int, event: _Sent, base: _Request | None) -> None:
        self.passes += 1
        self._check_wire(version, event)
        state, view = self.folded.state, request.beside(self.folded.view, event)
        entries = [self._entry(state, view, m) for m in path_of(state, event)]
        prefix = tuple(block.digest for block in request.prefix_blocks(view, self.text))
        form = wire(view.wire)
        digest = form.chain(form.GENESIS(view.codec), request.prefix_blocks(view, self.text))
        for entry in entries:
            digest = form.chain(digest, entry.digests)
            self.size += sum(map(len, entry.json))
        if digest != event.digest:
            self._differ(
                "digest",
                version,
                event,
                f"the request renders to {digest.hex()[:16]}, stored is {event.digest.hex()[:16]}",
            )
        skipped = (
            0 if isinstance(event, ev.PassDeferred) and event.side is not None and event.side.whole else state.start()
        )
        now = _Request(entries, prefix, start=skipped)
        if base is not None:
            self._against(version, event, base, now)
        elif event.base:
            self._differ("base", version, event, f"it extends pass {event.base}, which no request of this session is")
        self.served[event.number] = now
        keep = {event.number, state.base, *state.tips.values(), state.last.number if state.last else 0}
        self.served = {number: one for number, one in self.served.items() if number in keep}

    def _check_wire(self, version: int, event: _Sent) -> None:
        if event.wire in self.checked:
            return
        self.checked.add(event.wire)
        if code_digest(event.wire) != RELEASED.get(event.wire):
            self._differ("wire", version, event, f"the code of wire version {event.wire} is not what was released")

    def _entry(self, state: State, view: views.View, m: int) -> Entry:
        node, slots, inserts = state.node(m), view.of(m), view.inserts.get(m, ())
        body = node.message.body
        entry = self.known.get(m)
        made_of = body, node.revision, slots, inserts
        if entry is None or (entry.body, entry.revision, entry.slots, entry.inserts) != made_of:
            raw = self.source.chunks([body])[0]
            json = request.render(view, raw, slots, inserts, self.text)
            digests = tuple(block for one in json for block in wire(view.wire).blocks(view.codec, one))
            entry = self.known[m] = Entry(m, *made_of, json, digests)
        return entry

    def _against(self, version: int, event: _Sent, base: _Request, now: _Request) -> None:
        """Hold a request against the one it extends: only what its level and its divergence allow may change."""
        divergence = event.divergence
        whole = isinstance(event, ev.PassDeferred) and event.side is not None and event.side.whole
        region = whole or (divergence is not None and divergence.cause in ("system", "tools"))
        if base.prefix != now.prefix and not region and not isinstance(event, (ev.HistoryRefreshed, ev.BaselineFolded)):
            self._differ("prefix", version, event, "system, tools, m[0] or m[1] changed where they may not")
        if isinstance(event, ev.HistoryRefreshed) and base.prefix[:-1] != now.prefix[:-1] and not region:
            self._differ("prefix", version, event, "system, tools or m[0] changed where only m[1] may")
        limit = len(base.entries)
        if divergence is not None:
            self.divergences += 1
            limit = max(divergence.index - base.start, 0)
            fold = isinstance(event, ev.BaselineFolded)
            if not whole and not self._confirmed(divergence, base, now, fold=fold):
                self._differ(
                    "divergence", version, event, "the host's messages do not differ where the event says they do"
                )
        if isinstance(event, ev.ConversationRebuilt):
            limit = min(limit, max(event.decision.reach - base.start, 0))
        if isinstance(event, (ev.HistoryRefreshed, ev.BaselineFolded)) or whole:
            return
        if len(now.entries) < limit:
            self._differ("bytes", version, event, f"messages are missing: {len(now.entries)} of {limit}")
        for index, (old, new) in enumerate(zip(base.entries[:limit], now.entries, strict=False)):
            self._same(version, event, old, new, index)
        if isinstance(event, ev.PassDeferred) and divergence is not None:
            behind = {entry.m: entry for entry in base.entries[limit:]}
            for index, new in enumerate(now.entries[limit:], limit):
                old_one = behind.get(new.m)
                if old_one is not None and old_one.body == new.body:
                    self._same(version, event, old_one, new, index)

    def _same(self, version: int, event: _Sent, old: Entry, new: Entry, index: int) -> None:
        if old is new or old.json == new.json:
            return
        was, is_ = b"".join(old.json), b"".join(new.json)
        byte = next((i for i, (a, b) in enumerate(zip(was, is_, strict=False)) if a != b), min(len(was), len(is_)))
        self._differ(
            "bytes",
            version,
            event,
            f"message {new.m} (place {index}) was served otherwise: byte {byte} is {shown(was[byte : byte + 24])}, "
            f"now {shown(is_[byte : byte + 24])}",
            new.m,
            byte,
        )

    def _confirmed(self, divergence: ev.Divergence, base: _Request, now: _Request, *, fold: bool) -> bool:
        if divergence.cause in ("system", "tools"):
            return base.prefix != now.prefix
        old = [(entry.m, entry.body, entry.revision) for entry in base.entries]
        new = [(entry.m, entry.body, entry.revision) for entry in now.entries]
        index = max(divergence.index - base.start, 0)
        if base.start != now.start:
            return True  # the cut moved with this pass: the two do not stand side by side
        if fold and divergence.index < base.start:
            return True  # it lies in what summaries covered, which neither of the two holds
        if not base.whole and index >= len(old):
            return True  # what stood there was never the parent's to keep: its own last request was cut before the fork
        return (
            old[:index] == new[:index] and index < len(old) and old[index] != (new[index] if index < len(new) else None)
        )

    def _differ(self, kind: str, version: int, event: _Sent, message: str, m: int = 0, byte: int = -1) -> None:
        self.found.append(Difference(kind, version, event.number, message, m, byte))


def audit(source: Source, stream: str, progress: Callable[[int], None] | None = None) -> Audit:
    """Check one session. Damage of the store, an unknown event or one that cannot follow end up as differences."""
    folded = Folded(State(stream=stream), views.View())
    auditor = _Auditor(source, folded, {}, {}, {}, [], set())
    version = 0
    try:
        before = -1
        while before < version:  # once more where somebody appended meanwhile: a session may be at work
            before = version
            for stored in source.read(stream, version, None, folded.digest or None):
                version = stored.version
                auditor.see(stored)
                if progress is not None:
                    progress(auditor.passes)
            end = source.head(stream)
            if end is None or end.version <= version:
                break
        if end is None or (end.version, end.digest) != (version, folded.digest):
            auditor.found.append(Difference("head", version, 0, "the stream does not end where its head says"))
    except FoldlogError as error:
        at = error.version if isinstance(error, StoreDamaged) and error.version else version
        auditor.found.append(Difference(error.code.lower(), at, folded.state.passes, str(error)))
    return Audit(stream, version, auditor.passes, auditor.size, auditor.divergences, tuple(auditor.found))
