"""The request of a pass that is decided and not yet stored: the view as it will be, laid over the view as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ..domain import events as ev
from ..domain.identity import Scene
from . import request
from .view import Change, View, placed


class Chain(Protocol):
    """What is kept of the head's last request: digests behind path index ``known`` on, ``start`` the one before it."""

    view: View
    chain: list[bytes]
    known: int
    start: bytes


class Pending(msgspec.Struct, frozen=True):
    """Everything a projection reads: the kept chain, the coming view and path, what changes, where bytes come from."""

    hot: Any
    ahead: View
    scene: Scene
    change: Change
    raw: request.Text
    text: request.Text
    base_len: int

    def project(self, outcome: ev.Pass, places: Mapping[int, int]) -> tuple[list[request.Sent], int, bytes]:
        """Render what the pass adds or changes; return it with the path index and the digest it starts from."""
        begin = self._start(outcome)
        index = max(self._first(outcome, places), begin)
        digest = self._before(index, begin)
        path = (self.scene.at(i) for i in range(index, self.scene.length()))
        units = placed(self.hot.view, outcome.inserts)
        known = self._known(units) if self.ahead.wire == self.hot.view.wire else request.unknown
        sent = list(request.follow(self.ahead, digest, path, self._raw, self.text, self.change, units, known))
        return sent, index, digest

    def _known(self, units: Mapping[int, Any]) -> Callable[[int], tuple[bytes, ...] | None]:
        """Return what gives the block digests of a message that is sent just as the last request held it."""
        change, blocks, place = self.change, self.hot.blocks, self.hot.state.pos
        length = self.base_len if self.scene.seen.base is None else 0

        def known(m: int) -> tuple[bytes, ...] | None:
            if m in change.plain or m in change.slots or m in units or not -1 < place.get(m, -1) < length:
                return None
            found: tuple[bytes, ...] | None = blocks.get(m)
            return found

        return known

    def _raw(self, m: int) -> bytes:
        return self.raw(self.scene.message(m).body)

    def _first(self, outcome: ev.Pass, places: Mapping[int, int]) -> int:
        if isinstance(outcome, (ev.BaselineFolded, ev.HistoryRefreshed)):
            return 0
        found = [self.scene.length()]
        if outcome.divergence is not None:
            found.append(outcome.divergence.index)
        base = self.scene.seen.base
        found.append(base[1] if base is not None else self.base_len)
        found += [self.scene.index(arrival.m) for arrival in outcome.arrivals]
        found += [self.scene.index(m) for m in placed(self.hot.view, outcome.inserts)]
        if not isinstance(outcome, ev.PassDeferred):
            found += [*places.values(), *(self.scene.index(m) for m in self.change.revealed)]
        return min(index for index in found if index >= 0)

    def _start(self, outcome: ev.Pass) -> int:
        """Return the path index of the first message the request sends."""
        if isinstance(outcome, (ev.BaselineFolded, ev.HistoryRefreshed)):
            return self.scene.index(outcome.cut) + 1 if outcome.cut else 0
        return self.scene.start()

    def _before(self, index: int, begin: int) -> bytes:
        """Return the chain digest before a path index: kept, or reckoned from the front."""
        hot: Chain = self.hot
        # the chain kept is that of the head's path: where the request leaves it, nothing behind is known
        kept = self.ahead is hot.view and index <= self.scene.seen.keep and hot.known >= 0
        if kept and index == hot.known:
            return hot.start
        if kept and hot.known < index <= hot.known + len(hot.chain):
            return hot.chain[index - hot.known - 1]
        digest = request.prefix_digest(self.ahead, self.text)
        path = (self.scene.at(i) for i in range(begin, index))
        known = self._known({}) if self.ahead.wire == self.hot.view.wire else request.unknown
        for one in request.follow(self.ahead, digest, path, self._raw, self.text, self.change, known=known):
            digest = one.digest
        return digest


def ahead(view: View, events: Sequence[ev.Event]) -> View:
    """Return the view with the regions before the first message as these events leave them; itself if they do not."""
    changes: dict[str, Any] = {}
    for event in events:
        if isinstance(event, ev.SystemChanged):
            changes["system"] = event.body
        elif isinstance(event, ev.ToolsChanged):
            changes["tools"] = event.body
        elif isinstance(event, ev.HistoryRefreshed):
            changes.update(m1=event.m1, cut=event.cut)
        elif isinstance(event, ev.BaselineFolded):
            changes.update(m0=event.m0, m1=event.m1, cut=event.cut, guidance=event.guidance, wire=event.wire)
    return request.beside(msgspec.structs.replace(view, **changes) if changes else view, events[-1])
