"""While the store cannot be written: the last request, and what is new behind it as the host sent it (LAST-1).

Such a request is made from memory alone. It is recorded at the head of the next transaction that succeeds, before
anything else of its session is.
"""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from . import defects, engine
from .domain import events as ev
from .domain import pairing
from .domain.errors import Conflict, StoreError
from .domain.identity import Scene
from .domain.passes import tagger
from .domain.passes.schedule import gauge
from .domain.window import EMERGENCY
from .projections import request
from .projections.hot import settle
from .projections.intake import Intake
from .projections.view import Change


class Replayed(msgspec.Struct, frozen=True):
    """A last-good request: the event that will tell of it, and what it adds to the request it goes on behind."""

    event: ev.LastGoodReplayed
    delta: tuple[request.Sent, ...]


class Unrecorded(msgspec.Struct, frozen=True):
    """What went out and is not recorded yet; called to record it. ``raws``: the host's array, ``path``: what is new."""

    core: engine.Core
    raws: list[bytes]
    path: tuple[bytes, ...]
    produced: Replayed

    def __call__(self) -> None:
        """Record it. Raises ``StoreError`` where the store still cannot be written."""
        _record(self.core, self.raws, self.produced)


def extend(core: engine.Core, messages: Any, system: Any, tools: Any, now: int | None) -> Replayed | None:
    """Return the last request with what is new behind it, raw; None where that would not be safe.

    It is not stored: the next call that writes to this session records it first. Raises ``MessageError``.
    """
    with core.lock:
        at = core.clock()
        with defects.deciding(core.stream, "the last good request"):
            raws = core.reader.raws(messages)
            made = _made(core, raws, system, tools, at, at if now is None else now)
        if made is None:
            return None
        intake, produced = made
        path = tuple(message.ident for message in intake.seen.new)
        before = core.unrecorded
        if isinstance(before, Unrecorded) and path[: len(before.path)] != before.path:
            return None  # the host went back behind what went out unrecorded: only one of both could be told
        core.unrecorded = Unrecorded(core, raws, path, produced)
        return produced


def _made(
    core: engine.Core, raws: list[bytes], system: Any, tools: Any, at: int, now: int
) -> tuple[Intake, Replayed] | None:
    hot = core.hot()
    state = hot.state
    if state.last is None or not raws:
        return None
    intake = core.observe(hot, at, raws, system, tools)
    seen = intake.seen
    whole = state.base == state.last.number and state.base_keep == state.base_len == len(state.path) == seen.keep
    regions = (state.base_system, state.base_tools) == (state.system, state.tools)
    if not (whole and regions and seen.new) or intake.events or seen.side or seen.revised or seen.base is not None:
        return None
    pairing.check_news(state, seen)
    settings = core.settings(state.policy, state.model)
    tagged = tagger.tag(Scene(state, seen), bound=settings.bound, model=state.model)
    tokens = state.last.tokens + tagged.tokens
    pressure = gauge(state, state.model, intake.context_limit, intake.output_limit, settings, tokens)
    if pressure.percent >= EMERGENCY or any(one.edits for one in tagged.arrivals):
        return None
    if [one.m for one in tagged.arrivals] != list(seen.tail):
        return None  # a refused pass left messages that no request held
    change = Change({one.m: tuple(-abs(number) for number in one.tags) for one in tagged.arrivals}, {}, {})
    raw = {m: message.body for m, message in zip(seen.tail, seen.new, strict=True)}
    sent = tuple(
        request.follow(hot.view, state.last.digest, seen.tail, lambda m: intake.bodies[raw[m]][0], core.text, change)
    )
    event = ev.LastGoodReplayed(
        at, "", state.passes + 1, now, state.wire, state.base, tagged.arrivals, sent[-1].digest, tokens
    )
    return intake, Replayed(event, sent)


def _record(core: engine.Core, raws: list[bytes], produced: Replayed) -> None:
    """Write down what went out. Where another process made a pass meanwhile that is no longer possible (LAST-5)."""
    told = produced.event
    made = _made(core, raws, None, None, told.at, told.now)
    if made is None or (made[1].event.number, made[1].event.digest) != (told.number, told.digest):
        core.unrecorded = None
        return
    intake, again = made
    hot = core.hot()
    events = [*intake.seen.events, again.event]
    command = secrets.token_urlsafe(9)
    events[0] = msgspec.structs.replace(events[0], cmd=command)
    try:
        core._append(hot, events, core._new_bodies(hot.state, intake))
    except StoreError as error:
        if not isinstance(error, Conflict) and error.code != engine.OUTCOME_UNKNOWN:
            raise
        core._catch_up(command)
        if command not in core.hot().state.commands:
            _record(core, raws, produced)
        core.unrecorded = None
        return
    core.unrecorded = None
    core._bodies.update((digest, raw) for digest, (raw, _) in intake.bodies.items())
    core._evolve(hot, events)
    settle(hot)
    assert intake.received is not None
    keep, rest = intake.received
    hot.received[keep:] = rest[keep:]
