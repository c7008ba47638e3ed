"""The pass event itself, at the level that was decided, from what the decision came to."""

from __future__ import annotations

from typing import Any

import msgspec

from .. import events as ev
from ..edits import Insert
from ..identity import Scene
from ..ranges import ranges
from ..state import Unit, laid
from . import local, words
from .given import Given, Head
from .lanes.shape import Work


class Form(msgspec.Struct, frozen=True):
    """The levels a pass event can have, from the same parts."""

    scene: Scene
    given: Given
    said: words.Said
    divergence: ev.Divergence | None
    decision: ev.Decision | None
    size: int

    def _common(self, landing: tuple[Work, ...] = ()) -> dict[str, Any]:
        state, seen = self.scene.state, self.given.seen
        return {
            "at": self.given.at,
            "cmd": "",
            "number": state.passes + 1,
            "now": self.given.now,
            "wire": state.wire,
            "base": seen.base[0] if seen.base is not None else state.base,
            "arrivals": self.said.arrivals,
            "inserts": (*_inserts(landing), *self.said.inserts),  # an arc stands nearer to the results than words do
            "digest": b"",
            "divergence": self.divergence,
        }

    def deferred(self) -> ev.PassDeferred:
        given, seen = self.given, self.given.seen
        side = None
        if seen.side:
            whole = self.scene.whole()
            model = given.model if given.model != self.scene.state.model else ""
            side = ev.Side(seen.keep, ranges(seen.tail), given.system, given.tools, whole, model)
        return ev.PassDeferred(**self._common(), tokens=self.size, decision=self.decision, side=side)

    def rebuild(self, landing: tuple[Work, ...], adopted: ev.Adopted) -> ev.ConversationRebuilt:
        assert self.decision is not None
        tokens = local.recount(self.scene, self.given, units=self._units(landing)) - _freed(landing)
        return ev.ConversationRebuilt(
            **self._common(landing), tokens=max(tokens, 0), decision=self.decision, **_landed(landing), adopted=adopted
        )

    def refresh(self, head: Head, landing: tuple[Work, ...], adopted: ev.Adopted) -> ev.HistoryRefreshed:
        return ev.HistoryRefreshed(**self._common(landing), **self._headed(head, landing), adopted=adopted)

    def fold(
        self, reasons: tuple[str, ...], head: Head, landing: tuple[Work, ...], adopted: ev.Adopted
    ) -> ev.BaselineFolded:
        common = {**self._common(landing), "wire": self.given.wire}
        return ev.BaselineFolded(
            **common,
            **self._headed(head, landing),
            adopted=adopted,
            m0=head.m0,
            guidance=head.guidance,
            reasons=reasons,
        )

    def _headed(self, head: Head, landing: tuple[Work, ...]) -> dict[str, Any]:
        """Return what a pass with a newly rendered head says of it, and of the request behind its cut."""
        assert self.decision is not None
        start = self.scene.index(head.cut) + 1 if head.cut else 0
        tokens = local.recount(self.scene, self.given, head.tokens, start, self._units(landing)) - _freed(landing)
        return {
            "tokens": max(tokens, 0),
            "decision": self.decision,
            **_landed(landing),
            "m1": head.m1,
            "cut": head.cut,
            "head_tokens": head.tokens,
        }

    def _units(self, landing: tuple[Work, ...]) -> dict[str, Unit]:
        """Return what stands of ours between the messages with this pass."""
        return laid(self.scene.state.units, (*_inserts(landing), *self.said.inserts))


def _inserts(landing: tuple[Work, ...]) -> tuple[Insert, ...]:
    return tuple(insert for work in landing for insert in work.inserts)


def _freed(landing: tuple[Work, ...]) -> int:
    # a placeholder may be larger than what it stands for; what stands of ours between the messages is counted itself
    return sum(item.net if item.tag else item.frees for work in landing for item in work.items)


def _landed(landing: tuple[Work, ...]) -> dict[str, Any]:
    items = [item for work in landing for item in work.items]
    return {
        "edits": tuple(edit for item in items for edit in item.edits),
        "landed": tuple((item.tag, item.mode) for item in items if item.tag),
        "spares": tuple(spare for item in items for spare in item.spares),
    }
