"""Is the state machine worth anything? Each mutation breaks one thing in the engine; the machine must find it.

PROP-1, PROP-3, PROP-4, PROP-7, PROP-9, LAW-1, LAW-2, LAW-4, THINK-1, THINK-4, IMAGE-2, LAST-3, EMERG-2, TODO-1, SAY-6:
each mutant breaks at least one of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test
from msgspec import structs

from foldlog import engine
from foldlog.adapters.historian import Historian
from foldlog.domain import coverage, identity, served, session
from foldlog.domain import events as ev
from foldlog.domain.passes import lanes, protection, schedule
from foldlog.domain.passes.lanes import images, reasoning, todo
from foldlog.domain.passes.lanes.shape import Ask, Work
from foldlog.domain.passes.words import hints
from foldlog.domain.ranges import ranges
from foldlog.projections import view as views
from support.machine_rules import FoldlogMachine, configured

Patch = Callable[[pytest.MonkeyPatch], None]


def protection_ignored(patch: pytest.MonkeyPatch) -> None:
    """The newest tool results can be dropped like any other."""
    patch.setattr(protection, "protected", lambda *_, **__: frozenset())


def drained_without_pressure(patch: pytest.MonkeyPatch) -> None:
    """The queue lands whenever it holds something, as if the window were full."""
    patch.setattr(schedule, "schedule", lambda *_: "pressure")


def placeholder_counts(patch: pytest.MonkeyPatch) -> None:
    """The text of a placeholder depends on when it is rendered, not on its tag alone."""
    number = count()
    patch.setattr(
        sys.modules[engine.__package__ + ".projections.wire.v1.render"],
        "dropped",
        lambda tag: f"[dropped §{abs(tag)}§]" + " " * (next(number) % 2),
    )


def revision_serves_stale_body(patch: pytest.MonkeyPatch) -> None:
    """A revised message goes out as it was first seen."""
    real = identity.Scene.message

    def message(self: identity.Scene, m: int) -> Any:
        known = self.state.nodes
        return known[m - 1].message if m <= len(known) and m in self.seen.revised else real(self, m)

    patch.setattr(identity.Scene, "message", message)


def branch_moves_the_head_at_once(patch: pytest.MonkeyPatch) -> None:
    """A side request is taken for a rewind."""
    real = identity._branch

    def branch(state: session.State, keep: int, rest: Any, at: int) -> Any:
        seen = real(state, keep, rest, at)
        if not seen.side:
            return seen
        moved = ev.HeadMoved(at, "", keep, ranges(seen.tail), "rewind")
        return identity.Observation((*seen.events, moved), keep, seen.tail, seen.new, touched=keep, cause="rewind")

    patch.setattr(identity, "_branch", branch)


def command_applied_twice(patch: pytest.MonkeyPatch) -> None:
    """Command ids are forgotten, so that a repeat, or a conflict with our own append, applies a command again."""
    patch.setattr(session, "_remember", lambda state, event: None)


def tag_numbers_come_again(patch: pytest.MonkeyPatch) -> None:
    """A rewind gives the numbers behind it free."""
    real = session._HANDLERS[ev.HeadMoved]

    def moved(state: session.State, event: ev.HeadMoved) -> None:
        real(state, event)
        while state.tags and state.tags[-1].m not in state.pos:
            number = len(state.tags)
            tag = state.tags.pop()
            state.tag_of.pop(session.key(tag.m, tag.p), None)
            state.queue.pop(number, None)
            for known in (state.tools_order, state.reduces):
                if number in known:
                    known.remove(number)

    patch.setitem(session._HANDLERS, ev.HeadMoved, moved)


def idle_fold_every_pass(patch: pytest.MonkeyPatch) -> None:
    """An idle gap is not consumed by the fold it causes."""

    def idle(state: session.State, ttl: int, now: int, answered: bool) -> bool:
        heard = max(state.response_now, 1)
        return bool(state.response_now) and now - heard > ttl

    patch.setattr(schedule, "idle", idle)


def cut_forgets_the_last_compartment(patch: pytest.MonkeyPatch) -> None:
    """The newest compartment is told of in the head, and its messages are sent all the same."""
    for name in ("fold", "refresh"):
        real = getattr(engine.head, name)

        def shown(state: Any, *given: Any, real: Callable[..., Any] = real, **named: Any) -> Any:
            found = real(state, *given, **named)
            ends = [one.last for one in coverage.history(state)]
            return structs.replace(found, cut=ends[-2] if len(ends) > 1 else 0) if found.cut else found

        patch.setattr(engine.head, name, shown)


def publication_shows_at_once(patch: pytest.MonkeyPatch) -> None:
    """m[1] is rendered again when something is published, not when a pass may."""

    def published(view: views.View, event: ev.HistorianPublished) -> None:
        view.m1 = (*view.m1, event.compartments[-1].title)

    patch.setitem(views._HANDLERS, ev.HistorianPublished, published)


def lost_lease_publishes(patch: pytest.MonkeyPatch) -> None:
    """What comes of a run is stored although another process took its lease over."""
    real = Historian._publish

    def publish(self: Historian, core: engine.Core, work: Any) -> None:
        state = core.hot().state
        if state.run is not None:
            state.run.run = work.stretch.run
        real(self, core, work)

    patch.setattr(Historian, "_publish", publish)


def messages_put_in_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A compartment covers whatever stands between its first and its last message."""
    patch.setattr(coverage, "_tells", lambda one, spans, path, place, end: end >= place)


def _lane(patch: pytest.MonkeyPatch, name: str, plan: Callable[[Ask], Work]) -> None:
    """Put ``plan`` in the place of a lane's own."""
    patch.setattr(
        lanes, "LANES", tuple(lane._replace(plan=plan) if lane.name == name else lane for lane in lanes.LANES)
    )


def signed_reasoning_stays(patch: pytest.MonkeyPatch) -> None:
    """A rebuild leaves the reasoning behind the first byte it changes, whatever it is bound to."""
    _lane(patch, "companions", lambda _: Work("companions"))


def recovery_leaves_the_newest_thought(patch: pytest.MonkeyPatch) -> None:
    """Of the reasoning a provider refused, the newest stays."""

    def companions(ask: Ask) -> Work:
        found = reasoning.companions(ask)
        return structs.replace(found, items=found.items[:-1]) if ask.scene.state.unbound else found

    _lane(patch, "companions", companions)


def newest_pictures_leave_too(patch: pytest.MonkeyPatch) -> None:
    """Where pictures were refused, all of them leave at once."""
    real = images._without

    def shed(ask: Ask) -> Work:
        scene = ask.scene
        places = range(ask.begin, scene.length()) if scene.state.bulky else ()
        return Work("pictures", tuple(item for i in places for item in real(ask, scene.at(i), i)))

    _lane(patch, "pictures", shed)


def raw_messages_show_numbers_at_once(patch: pytest.MonkeyPatch) -> None:
    """What went out raw while the store was busy is numbered as soon as it is recorded."""
    real = views._HANDLERS[ev.LastGoodReplayed]

    def replayed(view: views.View, event: ev.LastGoodReplayed) -> None:
        real(view, event)
        for m, parts in view.hidden.items():
            view.slots[m] = views._reveal(view.of(m), parts)

    patch.setitem(views._HANDLERS, ev.LastGoodReplayed, replayed)


def emergency_twice_on_one_sample(patch: pytest.MonkeyPatch) -> None:
    """The batch of a stay in the force band is forgotten, so that the next pass plans another."""
    real = served._stay

    def stay(state: session.State, decision: ev.Decision | None) -> None:
        real(state, decision)
        state.drained = None

    patch.setattr(served, "_stay", stay)


def an_older_list_is_said_again(patch: pytest.MonkeyPatch) -> None:
    """Of the lists an agent wrote, the first stands for the newest."""
    patch.setattr(todo, "newest", lambda scene: next(reversed(list(todo._known(scene, set()))), None))


def a_hint_says_more_than_was_found(patch: pytest.MonkeyPatch) -> None:
    """What a search found goes into the hint with words of our own."""
    real = hints._fragment
    patch.setattr(hints, "_fragment", lambda hit: real(hit) + " too")


MUTATIONS: dict[Patch, str] = {
    an_older_list_is_said_again: "TODO-1: not the newest list",
    a_hint_says_more_than_was_found: "a hint says what no search found",
    protection_ignored: "a protected result was dropped",
    drained_without_pressure: "LAW-4: .* rebuilt for no cause",
    placeholder_counts: r"LAW-2|PROP-1: (before|an unchanged)|kind='digest'|became '\[dropped",
    revision_serves_stale_body: "LAW-2|became|kind='digest'",
    branch_moves_the_head_at_once: "PROP-7|PROP-1: a message that only moved",
    command_applied_twice: "PROP-1: (a command was applied|the same command)",
    tag_numbers_come_again: "PROP-9|a tag number out of order|no part of this session has the number",
    cut_forgets_the_last_compartment: "INV-4",
    publication_shows_at_once: "LAW-2: the request's bytes|PROP-1: pass .* changed",
    lost_lease_publishes: "HIST-30",
    messages_put_in_are_forgotten: "INV-4",
    signed_reasoning_stays: "THINK-1: the host changed nothing|THINK-4: it is refused again",
    recovery_leaves_the_newest_thought: "THINK-4",
    newest_pictures_leave_too: "IMAGE-2|became",
    raw_messages_show_numbers_at_once: "PROP-1: (before|an unchanged)|LAW-1|LAW-2",
    emergency_twice_on_one_sample: "EMERG-2",
    idle_fold_every_pass: "LAW-4: folded for idleness|PROP-1: twice",
}
"""Each with what the machine says of it, so that no other fault can pass for it."""


@pytest.mark.slow
@pytest.mark.parametrize(("mutation", "said"), MUTATIONS.items(), ids=[patch.__name__ for patch in MUTATIONS])
def test_the_machine_finds_the_mutation(mutation: Patch, said: str, monkeypatch: pytest.MonkeyPatch):
    mutation(monkeypatch)
    with pytest.raises(AssertionError, match=said) as caught:
        run_state_machine_as_test(FoldlogMachine, settings=configured(200))
    print(f"{mutation.__name__}: {str(caught.value).splitlines()[0]:.160}")
