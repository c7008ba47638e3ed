"""While the store cannot be written: the last request, and what is new behind it as the host sent it (LAST-1).

Such a request is made from memory alone. It is recorded at the head of the next transaction that succeeds, before
anything else of its session is.
"""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from . import defects, engine, keeping
from .domain import events as ev
from .domain import pairing
from .domain.errors import Conflict, StoreError
from .domain.passes.schedule import calibrated, gauge
from .domain.window import EMERGENCY
from .projections import replaying
from .projections.fold import passes
from .projections.intake import Intake, Options
from .projections.replaying import Replayed


class Unrecorded(msgspec.Struct, frozen=True):
    """What went out and is not recorded yet; called to record it. ``raws``: the host's array, ``path``: what is new.

    ``options``: how the host used the session then; what it changed since is the next pass's matter.
    """

    core: engine.Core
    raws: list[bytes]
    path: tuple[bytes, ...]
    produced: Replayed
    options: Options

    def __call__(self) -> None:
        """Record it. Raises ``StoreError`` where the store still cannot be written."""
        later, self.core.options = self.core.options, self.options
        try:
            _record(self.core, self.raws, self.produced)
        finally:
            self.core.options = later


def extend(core: engine.Core, messages: Any, system: Any, tools: Any, now: int | None) -> Replayed | None:
    """Return the last request with what is new behind it, raw; None where that would not be safe.

    It is not stored: the next call that writes to this session records it first. Raises ``MessageError``.
    """
    with core.lock:
        at = core.clock()
        with defects.deciding(core.stream, "the last good request"):
            raws = core.reader.raws(messages)
            made = _made(core, raws, system, tools, at, at if now is None else now)
        if made is None or not _own(core, made[1].event.base):
            return None
        intake, produced = made
        path = tuple(message.ident for message in intake.seen.new)
        before = core.unrecorded
        if isinstance(before, Unrecorded) and path[: len(before.path)] != before.path:
            return None  # the host went back behind what went out unrecorded: only one of both could be told
        core.unrecorded = Unrecorded(core, raws, path, produced, core.options)
        return produced


def _own(core: engine.Core, number: int) -> bool:
    """Whether a request stands in the session's own log: that of a fork's parent cannot be had again there."""
    first = next(iter(core.log.read(core.stream, 0, 1)), None)
    if first is None or not isinstance(first.event, ev.SessionForked):
        return True
    found = (stored.event for stored in passes(core.log, core.stream))
    return any(event.number == number for event in found if not isinstance(event, ev.PassRefused))


def _made(
    core: engine.Core, raws: list[bytes], system: Any, tools: Any, at: int, now: int
) -> tuple[Intake, Replayed] | None:
    hot = core.hot()
    state = hot.state
    if state.last is None or not raws:
        return None
    intake = core.observe(hot, at, raws, system, tools)
    if intake.events:
        return None
    pairing.check_news(state, intake.seen)
    settings = core.settings(state.policy, state.model)
    produced = replaying.replay(hot, intake, settings, core.text, at, now)
    if produced is None:
        return None
    pressure = gauge(state, state.model, intake.context_limit, intake.output_limit, settings, produced.event.tokens)
    over = 0 < pressure.limit < calibrated(state, state.model, produced.event.tokens)  # what is new and raw counts too
    return None if over or pressure.percent >= EMERGENCY else (intake, produced)


def _record(core: engine.Core, raws: list[bytes], produced: Replayed) -> None:
    """Write down what went out. Where another process made a pass meanwhile that is no longer possible (LAST-5)."""
    told = produced.event
    made = _made(core, raws, None, None, told.at, told.now)
    if made is None or (made[1].event.number, made[1].event.digest) != (told.number, told.digest):
        core.unrecorded = None
        return
    intake, again = made
    command = secrets.token_urlsafe(9)
    try:
        core.replayed(intake, again.event, command)
    except StoreError as error:
        if not isinstance(error, Conflict) and error.code != keeping.OUTCOME_UNKNOWN:
            raise
        core._catch_up(command)
        if command not in core.hot().state.commands:
            _record(core, raws, produced)
    core.unrecorded = None
