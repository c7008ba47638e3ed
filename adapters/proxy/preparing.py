"""From a client's body to the request to send: in a worker thread, one request of a session after the other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

import msgspec

from ... import defects
from ...api import Request, Session, wall_clock
from ...domain.errors import FoldlogError, StoreBusy, StoreError, StoreNewer, StoreUnavailable
from ...domain.passes.schedule import calibrated
from ...engine import Core
from ...projections import restless
from .door import Came, Door, Track
from .feed import Moment
from .protocols import Protocol
from .sessions import Admitted, Managed, Sessions
from .sessions import Prepared as Made

R = TypeVar("R")

BUSY_PAUSES = (0.05, 0.1, 0.2, 0.4)
"""Seconds between attempts at a store another process holds; each attempt itself waits 250 ms."""


class Prepared(msgspec.Struct):
    """A request ready to be sent. ``payload``: its bytes; ``whole``: local tokens of the whole history, nothing left
    out, and ``history`` the same calibrated.

    ``key``: ``harness/id``; ``began``: ms UTC; ``lifetime``: ms the provider's cache lives, as configured;
    ``note``: what whoever watches is told of it.
    """

    sessions: Sessions
    admitted: Admitted
    managed: Managed
    session: Session
    request: Request
    payload: bytes
    key: str
    track: Track
    model: str
    began: int
    whole: int
    history: int
    lifetime: int
    note: str = ""


async def admit(door: Door, came: Came, protocol: Protocol) -> tuple[Sessions, Admitted]:
    """Take a request in and find its session, which is in use until ``done``. Raises ``Blocked``, ``MessageError``."""
    sessions = await door.sessions()
    finding = asyncio.ensure_future(patiently(door, lambda: sessions.admit(protocol, came.names, came.body)))
    try:
        return sessions, await asyncio.shield(finding)
    except asyncio.CancelledError:  # the client went away; a thread cannot be stopped
        door.spawn(_given_back(door, sessions, finding))
        raise


async def _given_back(door: Door, sessions: Sessions, finding: asyncio.Future[Admitted]) -> None:
    with contextlib.suppress(FoldlogError):
        done(door, sessions, await finding)


def done(door: Door, sessions: Sessions, admitted: Admitted) -> None:
    """Say that a request is over; what is put away with it is put away in a thread."""
    if admitted.managed is not None:
        door.spawn(door.run(lambda: sessions.done(admitted)))


async def prepare(door: Door, sessions: Sessions, admitted: Admitted, managed: Managed) -> Prepared:
    """Return what to send for a request. Raises ``Blocked``, ``Refused``, ``MessageError``, ``StoreBusy`` or others."""
    began = wall_clock()
    track = door.track(managed.name)
    waits = _notice(door, managed.name)
    async with track.order:
        if track.reports:
            await asyncio.wait(set(track.reports))
        try:
            ready = await patiently(door, lambda: _make(sessions, admitted, managed, track, began, waits))
        except StoreBusy:
            again = await door.run(lambda: _last_good(sessions, admitted, managed, track, began))
            if again is None:
                raise
            ready = again
    door.pending.next(ready.key)
    return ready


async def patiently(door: Door, work: Callable[[], R]) -> R:
    """Do a session's work in a thread, again where the store is busy. A store that fails for good shuts the gate."""
    for pause in (*BUSY_PAUSES, None):
        try:
            return await door.run(work)
        except StoreError as error:
            if isinstance(error, StoreNewer | StoreUnavailable):
                raise door.gate.shut(error) from None
            if not error.recoverable or pause is None:
                raise
            await asyncio.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def _notice(door: Door, session: str) -> Callable[[str], None]:
    """Return what tells the feed that a pass waits for a summary; it is called in the pass's thread."""
    loop = asyncio.get_running_loop()

    def told(words: str) -> None:
        moment = Moment(at=wall_clock(), session=session, level="waiting", note=words)
        loop.call_soon_threadsafe(door.feed.tell, moment)

    return told


def _make(
    sessions: Sessions,
    admitted: Admitted,
    managed: Managed,
    track: Track,
    began: int,
    waits: Callable[[str], None],
) -> Prepared:
    with managed.lock:
        return _filled(sessions.prepare(admitted, waits), sessions, admitted, managed, track, began)


def _last_good(sessions: Sessions, admitted: Admitted, managed: Managed, track: Track, began: int) -> Prepared | None:
    with managed.lock:
        made = sessions.last_good(admitted)
        return None if made is None else _filled(made, sessions, admitted, managed, track, began)


def _filled(made: Made, sessions: Sessions, admitted: Admitted, managed: Managed, track: Track, began: int) -> Prepared:
    session = managed.session
    assert session is not None  # it was just prepared
    core = session.core
    state = core.hot().state
    whole = track.whole(state)
    return Prepared(
        sessions=sessions,
        admitted=admitted,
        managed=managed,
        session=session,
        request=made.request,
        payload=made.data,
        key=managed.name,
        track=track,
        model=state.model,
        began=began,
        whole=whole,
        history=calibrated(state, state.model, whole),
        lifetime=core.settings(state.policy, state.model).ttl,
        note=_note(core),
    )


def _note(core: Core) -> str:
    """Return what whoever watches is told of a request beside its figures."""
    with defects.beside(core.stream, "what changes in the system text"):
        found = restless.changing(core.hot().state, core.text)
        return restless.note(found) if found is not None else ""
    return ""


async def again(door: Door, ready: Prepared) -> Prepared | None:
    """Return the request anew after the provider refused it as too long; None where nothing smaller can be made."""
    waits = _notice(door, ready.key)
    async with ready.track.order:
        try:
            found = await patiently(
                door, lambda: _make(ready.sessions, ready.admitted, ready.managed, ready.track, ready.began, waits)
            )
            fresh = found.request.pass_number != ready.request.pass_number
            if fresh and len(found.payload) < len(ready.payload):
                return found
            if fresh:  # it is not sent
                await patiently(door, lambda: found.request.report_failure("not_processed"))
        except FoldlogError:
            pass  # the provider's own answer says enough
    return None
