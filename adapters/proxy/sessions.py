"""The sessions the proxy has in hand: which one a request belongs to, and what it sends next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import msgspec

from ... import api
from ...domain.errors import InputError, LawBroken
from ...domain.streams import session_stream
from ...projections.fold import load
from . import prefixes
from .body import Body, behind, common, take, unchanged
from .outgoing import Outgoing
from .protocols.base import AGENT_HEADERS, SESSION_HEADERS, Caller, Protocol, Usage, harness, named, small
from .protocols.helpers import bare
from .regions import Regions, leading, regions

MEGABYTE = 1024 * 1024
_ANSWERS = 8
"""How many answers of a session a client may go on behind by their ids."""
_CANDIDATES = 8
"""How many stored sessions that begin alike are looked at for an unnamed request; the newest first."""


class Opening(msgspec.Struct, frozen=True):
    """What ``Engine.session`` is asked for: limits and policy are the caller's to add.

    ``betas``: the request's ``anthropic-beta`` header, which may widen the model's window. ``lifetime``: how long the
    client asks the provider to keep its cache (``5m``, ``1h``, ``24h``; empty: it says nothing).
    """

    id: str
    harness: str
    codec: str
    model: str
    mode: str
    betas: str = ""
    lifetime: str = ""


class Managed:
    """A session in hand. ``lock`` is held from taking a request to having its bytes: one after the other.

    ``body``: the last request as the client sent it; ``outgoing``: as we sent it; ``calls``: ids of the calls in its
    answer, in all of them where it was sent several times; ``plain``: one of them called nothing; ``answers``: by the
    id of an answer, all messages up to its end (PREV-1); ``turns``: how the messages of ``body`` are recognised, where
    the client names no session; ``users``: requests under way, which keep it from being put away.
    """

    def __init__(self, id: str, harness: str, mode: str, protocol: Protocol) -> None:
        self.id = id
        self.harness = harness
        self.mode = mode
        self.protocol = protocol
        self.lock = threading.RLock()
        self.session: api.Session | None = None
        self.asked = ""
        self.body: Body | None = None
        self.outgoing = Outgoing()
        self.turns: list[prefixes.Turn] = []
        self.first = 0
        self.regions: Regions | None = None
        self.calls: tuple[str, ...] = ()
        self.plain = False
        self.answers: dict[str, list[bytes]] = {}
        self.users = 0

    @property
    def name(self) -> str:
        """The session as commands name it: ``harness/id``."""
        return f"{self.harness}/{self.id}"

    @property
    def owing(self) -> bool:
        """Whether something went out that only memory knows of (LAST-2): it is not put away before that is recorded."""
        return self.session is not None and self.session.core.unrecorded is not None

    def answered(self, usage: Usage, body: Body | None = None) -> None:
        """Say what the answer to ``body`` told. Where a client names no session, its calls tell whose the next is."""
        if body is None or self.body is None or body.messages == self.body.messages:  # else it is late: of one before
            self.calls += tuple(id for id, _ in usage.calls)
            self.plain = self.plain or (usage.complete and not usage.calls)
        if usage.items and usage.response_id and usage.complete and body is not None:
            self.answers[usage.response_id] = [*body.messages, *usage.items]
            while len(self.answers) > _ANSWERS:
                del self.answers[next(iter(self.answers))]

    def size(self) -> int:
        """Return about how many bytes this session takes in memory, its folds included."""
        held = len(self.body.raw) if self.body is not None else 0
        return 3 * held + self.outgoing.size()


class Admitted(msgspec.Struct, frozen=True):
    """A request taken in. ``managed``: its session (None: it goes through untouched); ``betas`` as in ``Opening``."""

    protocol: Protocol
    caller: Caller
    body: Body
    managed: Managed | None
    betas: str = ""


class Prepared(msgspec.Struct, frozen=True):
    """A pass and the request to send for it, as bytes."""

    request: api.Request
    data: bytes


class Sessions:
    """The registry. Thread-safe; every method may block on the store, so call it from a worker thread.

    ``open_session`` makes or opens a session; ``limit``: bytes of sessions kept in memory. In use:

        admitted = sessions.admit(protocol, headers, raw)      # MessageError: not a request
        if admitted.managed is None: ...pass ``raw`` through...
        try:
            prepared = sessions.prepare(admitted)              # Refused, StoreBusy, …
            ...send prepared.data, report by prepared.request, managed.answered(usage)...
        finally:
            sessions.done(admitted)
    """

    def __init__(
        self, engine: api.Engine, open_session: Callable[[Opening], api.Session], limit: int = 512 * MEGABYTE
    ) -> None:
        self._engine = engine
        self._open = open_session
        self._limit = limit
        self._lock = threading.RLock()
        self._known: dict[tuple[str, str], Managed] = {}

    def admit(self, protocol: Protocol, headers: Mapping[str, str], raw: bytes) -> Admitted:
        """Take a request apart and find its session. Raises ``MessageError`` where it is no request of the protocol.

        A managed one is in use from here on, until ``done``.
        """
        with self._lock:
            near = self._nearest(protocol, headers, raw)
        last = near.body if near is not None else None
        body = take(raw, protocol.member, last)
        caller = protocol.who(headers, body)
        if not caller.managed:
            return Admitted(protocol, caller, body, None)
        with self._lock:
            earlier: list[bytes] = []
            previous = protocol.previous(body)
            if previous:
                near, earlier = self._answered(protocol, previous)
                body = behind(body, earlier)
            if caller.session:
                managed = self._named(protocol, caller, body)
                if managed is None:
                    return Admitted(protocol, _helper(caller), body, None)
            else:
                managed = self._by_prefix(protocol, caller, body, near)
            if managed.body is not None and managed.body is not last:
                body = take(raw, protocol.member, managed.body)  # the same, now with that session's own objects
                body = behind(body, earlier) if earlier else body
            managed.body, managed.calls, managed.plain = body, (), False
            managed.users += 1
            self._known[managed.harness, managed.id] = self._known.pop((managed.harness, managed.id), managed)
        return Admitted(protocol, caller, body, managed, headers.get("anthropic-beta", ""))

    def prepare(self, admitted: Admitted, waiting: Callable[[str], None] | None = None) -> Prepared:
        """Make the next pass of a managed request, and the bytes to send for it.

        Called again for the same request (a fold may make it fit after an overflow was reported), it makes the pass
        that follows. Raises what ``Session.prepare`` raises.
        """
        managed, body, protocol = admitted.managed, admitted.body, admitted.protocol
        if managed is None:
            raise LawBroken("a request that goes through untouched has no pass")
        with managed.lock:
            session = self._session(managed, body, admitted.betas)
            request = session.prepare(
                body.messages, system=protocol.system_of(body), tools=protocol.tools_of(body), waiting=waiting
            )
            managed.outgoing.follow(request, regions(protocol.codec, body))
            return Prepared(request, protocol.assemble(body, managed.outgoing))

    def last_good(self, admitted: Admitted) -> Prepared | None:
        """Where ``prepare`` raised ``StoreBusy``: the last request with what is new behind it; None: not safe.

        What is kept between passes stays at the last pass: until the store is back this may be asked for again.
        """
        managed, body, protocol = admitted.managed, admitted.body, admitted.protocol
        if managed is None or managed.session is None:
            return None
        with managed.lock:
            mine = regions(protocol.codec, body)
            request = managed.session.last_good(
                body.messages, system=protocol.system_of(body), tools=protocol.tools_of(body)
            )
            if request is None or request.base != managed.outgoing.number or mine != managed.outgoing.regions:
                return None
            sent = managed.outgoing.copy()
            sent.follow(request, mine)
            return Prepared(request, protocol.assemble(body, sent))

    def done(self, admitted: Admitted) -> None:
        """Say that a request is over. Sessions no request uses are put away, the longest unused first, if too many."""
        managed = admitted.managed
        if managed is None:
            return
        with self._lock:
            managed.users -= 1
            total = sum(one.size() for one in self._known.values())
            for key, one in list(self._known.items()):
                if total <= self._limit:
                    break
                if one.users <= 0 and not one.owing:
                    total -= one.size()
                    del self._known[key]
                    self._engine.release(one.id, one.harness)

    def all(self) -> list[Managed]:
        """Return the sessions in hand, the longest unused first."""
        with self._lock:
            return list(self._known.values())

    def _answered(self, protocol: Protocol, response: str) -> tuple[Managed, list[bytes]]:
        """Return the session that got this answer, and all messages up to its end. Raises ``InputError``."""
        for one in self._known.values():
            if one.protocol.codec == protocol.codec and response in one.answers:
                return one, one.answers[response]
        raise InputError(
            "the request goes on behind an answer that this process did not see; send the whole input without "
            "previous_response_id, as after an answer that expired",
            value=response,
            where="previous_response_id",
            code="previous_response_not_found",
        )

    def reach(self, name: str) -> api.Session:
        """Return the session ``harness/id`` for a command, from memory or as it was left. Raises ``UnknownSession``."""
        with self._lock:
            known = next((one.session for one in self._known.values() if one.name == name and one.session), None)
        if known is not None:
            return known
        state = load(self._engine.log, self._engine.find(name)).state
        session = self._engine.session(
            state.session, state.harness, codec=state.codec, mode=state.mode, reduce_tool=state.reduce
        )
        self._engine.release(state.session, state.harness)  # for this one call; memory is for sessions in use
        return session

    def _session(self, managed: Managed, body: Body, betas: str) -> api.Session:
        model = small(body, "model")
        model = model if isinstance(model, str) else ""
        lifetime = managed.protocol.lifetime(body, managed.outgoing)
        asked = f"{model} {lifetime} {betas}"
        if managed.session is None or managed.asked != asked:
            codec = managed.protocol.codec
            opening = Opening(managed.id, managed.harness, codec, model, managed.mode, betas, lifetime)
            managed.session, managed.asked = self._open(opening), asked
        return managed.session

    def _nearest(self, protocol: Protocol, headers: Mapping[str, str], raw: bytes) -> Managed | None:
        """Return the session whose last body this one most likely goes on from: the named one, else the most alike."""
        id, agent = named(headers, SESSION_HEADERS), named(headers, AGENT_HEADERS)
        one = self._known.get((harness(headers), f"{id}:{agent}" if agent else id or ""))
        if one is not None and one.body is not None and one.protocol.member == protocol.member:
            return one
        best: tuple[int, Managed] | None = None
        for one in reversed(self._known.values()):
            if one.body is not None and one.protocol.member == protocol.member:
                same = common(raw, 0, one.body.raw, 0)
                if best is None or same > best[0]:
                    best = (same, one)
        return best[1] if best else None

    def _named(self, protocol: Protocol, caller: Caller, body: Body) -> Managed | None:
        """Return the session the client names; None for a call beside it: without tools, from another beginning."""
        id = f"{caller.session}:{caller.agent}" if caller.agent else caller.session or ""
        for name in (
            id,
            f"{id}.{protocol.name}",
        ):  # a client that changes the provider's API goes on under a name beside
            found = self._known.get((caller.harness, name))
            if self._speaks(caller.harness, name, found) in ("", protocol.codec):
                id = name
                break
        if found is None:
            return Managed(id, caller.harness, "subagent" if caller.kind == "subagent" else "primary", protocol)
        if caller.kind == "main" and found.body is not None and bare(body) and not bare(found.body):
            first = leading(protocol.codec, body)
            if _turn(protocol, body, first) != _turn(protocol, found.body, leading(protocol.codec, found.body)):
                return None
        return found

    def _speaks(self, harness: str, id: str, known: Managed | None) -> str:
        """Return the codec of a session, in memory or stored; empty where there is none of that name."""
        if known is not None:
            return known.protocol.codec
        if self._engine.log.head(session_stream(harness, id)) is None:
            return ""
        return self._engine.session(id, harness).core.hot().state.codec

    def _by_prefix(self, protocol: Protocol, caller: Caller, body: Body, near: Managed | None) -> Managed:
        """Return the session whose messages this request carries on, or a new one.

        ``body`` was taken against the last one of ``near``.
        """
        first = leading(protocol.codec, body)
        turns: list[prefixes.Turn] = []
        if near is not None and near.body is not None and near.first == first:
            turns = near.turns[: max(unchanged(body, near.body) - first, 0)]
        begin = first + len(turns)
        turns += [prefixes.turn(protocol.codec, raw, begin + i) for i, raw in enumerate(body.messages[begin:])]
        base = prefixes.name(protocol.codec, turns[0], caller.scope) if turns else "prefix-empty"
        mine = regions(protocol.codec, body)
        names = self._alike(caller.harness, base)
        known = [self._seen(protocol, caller.harness, name) for name in names]
        id = prefixes.owner(turns, mine, known) or prefixes.rewritten(turns, self._unnamed(protocol, caller.harness))
        if id is None:
            last = max((_number(name, base) for name in names), default=0)
            id = f"{base}-{last + 1}" if last else base
        managed = self._known.get((caller.harness, id)) or Managed(id, caller.harness, "primary", protocol)
        managed.turns, managed.first, managed.regions = turns, first, mine
        return managed

    def _unnamed(self, protocol: Protocol, harness: str) -> list[prefixes.Known]:
        """Return the sessions in memory that are known by their messages."""
        return [
            prefixes.Known(id, one.turns)
            for (kept, id), one in self._known.items()
            if kept == harness and one.turns and one.protocol.codec == protocol.codec
        ]

    def _alike(self, harness: str, base: str) -> list[str]:
        """Return the names of the sessions that begin with this message, in memory and stored."""
        found = {id for kept, id in self._known if kept == harness and (id == base or id.startswith(base + "-"))}
        stem = session_stream(harness, base)
        for head in self._engine.log.heads(stem):
            found.add(base + head.stream.removeprefix(stem))
        return sorted(found, key=lambda name: -_number(name, base))[:_CANDIDATES]

    def _seen(self, protocol: Protocol, harness: str, name: str) -> prefixes.Known:
        """Return a session as its messages know it; one this process has not seen yet from its log."""
        one = self._known.get((harness, name))
        if one is None:
            state = self._engine.session(name, harness, protocol.codec).core.hot().state  # raises where it is busy
            one = self._known[harness, name] = Managed(name, harness, "primary", protocol)
            one.turns = [prefixes.stored(state.node(m).message) for m in state.path]
        return prefixes.Known(name, one.turns, one.regions, () if one.plain else one.calls)


def _helper(caller: Caller) -> Caller:
    return msgspec.structs.replace(caller, kind="helper", why="it has no tools and begins otherwise than its session")


def _turn(protocol: Protocol, body: Body, index: int) -> prefixes.Turn:
    if index >= len(body.messages):
        return prefixes.Turn(b"", False)
    return prefixes.turn(protocol.codec, body.messages[index], index)


def _number(name: str, base: str) -> int:
    tail = name.removeprefix(base).removeprefix("-")
    return int(tail) if tail.isdecimal() else 1
