"""The event of a request that went out without a pass: the last one, and what is new behind it raw (LAST-1, LAST-6)."""

from __future__ import annotations

import msgspec

from ..domain import events as ev
from ..domain import pairing, unrecorded
from ..domain.identity import Scene, split
from ..domain.passes import tagger
from ..domain.policy import Settings
from ..domain.state import State
from ..domain.transcript import Message
from . import request
from .hot import Hot
from .intake import Intake
from .view import Change
from .wire import wire


class Replayed(msgspec.Struct, frozen=True):
    """A last-good request: the event that will tell of it, and what it adds to the request it goes on behind."""

    event: ev.LastGoodReplayed
    delta: tuple[request.Sent, ...]


def replay(hot: Hot, intake: Intake, settings: Settings, text: request.Text, at: int, now: int) -> Replayed | None:
    """Return what goes on raw behind the last request; None where it would not be valid as it is."""
    state, seen = hot.state, intake.seen
    if state.last is None or not _whole(hot, intake):
        return None
    scene = Scene(state, seen)
    tagged = tagger.tag(scene, bound=settings.bound, model=state.model, managed=settings.compaction)
    if any(one.edits for one in tagged.arrivals) or [one.m for one in tagged.arrivals] != list(seen.tail):
        return None  # it would have to be mended, or a refused pass left messages that no request held
    change = Change({one.m: tuple(-abs(number) for number in one.tags) for one in tagged.arrivals}, {}, {})
    raw = {m: message.body for m, message in zip(seen.tail, seen.new, strict=True)}
    sent = tuple(
        request.follow(hot.view, state.last.digest, seen.tail, lambda m: intake.bodies[raw[m]][0], text, change)
    )
    event = ev.LastGoodReplayed(
        at,
        "",
        state.passes + 1,
        now,
        state.wire,
        state.base,
        tagged.arrivals,
        sent[-1].digest,
        state.last.tokens + tagged.tokens,
    )
    return Replayed(event, sent)


def untold(
    hot: Hot, intake: Intake, settings: Settings, text: request.Text, at: int, now: int
) -> tuple[Intake, Replayed] | None:
    """Return what an answer shows to have gone out raw, as a call of its own, and its event; None where nothing did.

    Raises ``MessageError`` where calls and results do not fit: what cannot be taken in leaves everything as it was.
    """
    state, form = hot.state, wire(hot.state.wire)

    def said(message: Message) -> str:
        return form.part_text(state.codec, intake.bodies[message.body][0], 0)

    count = unrecorded.went_out(state, intake.seen, said)
    if not count:
        return None
    pairing.check_news(state, intake.seen)
    part = _leading(state, intake, count, at)
    made = replay(hot, part, settings, text, at, unrecorded.when(state, part.seen, now))
    return None if made is None else (part, made)


def _leading(state: State, intake: Intake, count: int, at: int) -> Intake:
    """Return the same call of the host as if it had ended behind its first ``count`` new messages."""
    seen = intake.seen
    new = seen.new[:count]
    events = split(state, (ev.MessagesObserved(at, "", state.end(), new),))
    shorter = msgspec.structs.replace(seen, events=events, tail=seen.tail[:count], new=new)
    received = None
    if intake.received is not None:
        keep, raws = intake.received
        received = keep, raws[: keep + count]
    bodies = {message.body: intake.bodies[message.body] for message in new}
    return msgspec.structs.replace(intake, seen=shorter, bodies=bodies, received=received, events=[], texts={})


def _whole(hot: Hot, intake: Intake) -> bool:
    """Whether the last request is what the host sends again, to the letter, with something new behind it."""
    state, seen = hot.state, intake.seen
    if state.last is None or seen.side or seen.revised or seen.base is not None or not seen.new:
        return False
    as_sent = state.base == state.last.number and state.base_keep == state.base_len == len(state.path) == seen.keep
    regions = (state.base_system, state.base_tools) == (intake.system, intake.tools)
    return as_sent and regions and intake.model == state.model
