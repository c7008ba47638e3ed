"""What the link process does for its callers: one function a method, over one engine (``specs/link.md``).

Everything here may block; the process calls it in worker threads, one call a session at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from ... import __version__, standing
from ...api import Engine, Session
from ...domain.errors import FoldlogError, InputError, Refused, StoreBusy, StoreError, UnknownSession
from ...domain.passes.schedule import calibrated, gauge
from ...projections.guidance import GUIDANCE
from ...request import Request
from ..config import Config, policy
from ..mcp import tools
from . import again, arrays, rpc, shapes
from .edits import edits
from .held import Held, Key, Shelf
from .opened import Opened, remedy
from .summarizing import Relay

log = structlog.get_logger("foldlog.link")

PROTOCOL = 1
BUSY_PAUSES = (0.2, 0.5, 1.0)
"""Seconds before a pass is tried again that found the store busy; it waits for the lock itself, too."""
SPARE = 85
"""Per cent of the window up to which a request may grow while the process does not answer."""
CHARACTERS = 2
"""Characters of JSON counted for one token there: fewer than there are, so that it stays below."""
LATER = ("ctx_note", "ctx_memory", "ctx_search")
"""Tools the plugins register already, so that the hosts' tool lists need not change when they come."""
CODECS = {"pi": "pi", "omp": "pi"}
"""Host -> the form of its messages; another host names its codec with the pass."""


class Caller(msgspec.Struct, frozen=True):
    """Who is served: the host's name, and how to tell its person something while a call is worked on."""

    host: str
    waiting: Callable[[str], None]


class Desk:
    """The sessions of all hosts, over one store."""

    def __init__(self, config: Config, make: Callable[[Relay], Engine]) -> None:
        self.config = config
        self.relay = Relay()
        self.store = Opened(lambda: make(self.relay))
        self._lock = threading.Lock()
        self._shelf = Shelf(
            config.hot_sessions_mb * 1024 * 1024, lambda key: self.store.engine().release(key[1], key[0])
        )

    def close(self) -> None:
        """Release the store."""
        self.store.close()

    # -------------------------------------------------------------------- passes

    def open(self, caller: Caller, given: shapes.Open) -> dict[str, Any]:
        """Return the guidance for a session before its first pass, or the one its last fold pinned."""
        core = self._session(caller, given.session).core
        with core.lock:
            hot = core.hot()
            compaction = self._managed()
            text = GUIDANCE if compaction and given.reduce else ""
            if hot.state.passes:
                text = core.text(hot.view.guidance).decode() if hot.view.guidance else ""
            return {"guidance": text, "passes": hot.state.passes, "compaction": compaction}

    def pass_(self, caller: Caller, given: shapes.Pass) -> dict[str, Any]:
        """Take the host's list of messages; return the edits that make of it what the model is to see."""
        if given.helper:
            return {"managed": False}
        key = (caller.host, given.session)
        session = self._session(caller, given.session, given)
        held = self._held(key, given.base)
        codec = given.codec or CODECS.get(caller.host, "")

        def raw(item: Any) -> bytes:
            return named(bytes(item.message), item.id, codec)

        ids = arrays.taken(held.ids if held is not None else [], given.order, given.count, lambda item: item.id)
        raws = arrays.taken(held.raws if held is not None else [], given.order, given.count, raw)
        try:
            request = _patiently(
                lambda: session.prepare(raws, system=given.system, tools=given.tools, waiting=caller.waiting)
            )
        except StoreBusy:
            last = session.last_good(raws, system=given.system, tools=given.tools)
            if last is None:
                self._forget(key)
                raise
            request = last
        except FoldlogError:
            self._forget(key)  # whatever the plugin makes of it, it tells everything next time
            raise
        with self._lock:
            version = self._shelf.name()
            self._shelf.put(key, Held(session, version, ids, raws, request))
        return {
            "version": version,
            "level": request.level,
            "reasons": request.reasons,
            "estimate": request.usage_estimate,
            "spare": spare(session),
            "edits": edits(request, given.held, ids),
        }

    # ------------------------------------------------------------------- reports

    def usage(self, caller: Caller, given: shapes.Usage) -> dict[str, Any]:
        """Take what the provider counted."""
        self._request(caller, given.session, given.number).report_usage(
            given.input, given.cache_read, given.cache_write, given.output, command=given.command
        )
        return {}

    def failure(self, caller: Caller, given: shapes.Failure) -> dict[str, Any]:
        """Take what became of a request: its kind as the host knows it, else the provider's error in its own words."""
        request = self._request(caller, given.session, given.number)
        if given.kind:
            request.report_failure(given.kind, detail=given.text, command=given.command)
            return {"kind": given.kind, "what_to_do": "", "again": False}
        with request.session.core.lock:
            first = again.unmended(request)
            found = request.report_error(given.status or None, given.text, command=given.command)
            worth = first and again.mends(request)
        return {"kind": found.kind, "what_to_do": found.what_to_do, "again": worth}

    def tool(self, caller: Caller, given: shapes.Tool) -> dict[str, Any]:
        """Run a tool of the agent. A wrong argument is an answer for the model, not a failure of the link."""
        if given.name in LATER:
            return {
                "text": f"{given.name} is not built yet in this version of foldlog. Go on without it.",
                "error": True,
            }
        try:
            text = tools.perform(given.name, self._session(caller, given.session), given.arguments, given.call)
        except InputError as error:
            return {"text": str(error), "error": True}
        return {"text": text, "error": False}

    def status(self, caller: Caller, given: shapes.Of) -> dict[str, Any]:
        """Return how a session stands, in figures and in words."""
        found = self._session(caller, given.session).status()
        return {**msgspec.to_builtins(found), "text": standing.words(found)}

    def flush(self, caller: Caller, given: shapes.Of) -> dict[str, Any]:
        """Let queued work land on the next request, and say what that does."""
        session = self._session(caller, given.session)
        session.flush(given.command)
        return {"text": standing.flushed(session.status())}

    def compacted(self, caller: Caller, given: shapes.Of) -> dict[str, Any]:
        """The host replaced its history by itself: its next list stands for itself, and the cache is gone."""
        self._session(caller, given.session).report_cache_loss("host_compacted", given.command)
        self._forget((caller.host, given.session))
        return {}

    def removed(self, caller: Caller, given: shapes.Removed) -> dict[str, Any]:
        """The host took messages away: the next list is told whole, and shows what is left."""
        self._forget((caller.host, given.session))
        return {}

    def fork(self, caller: Caller, given: shapes.Fork) -> dict[str, Any]:
        """Begin a session that goes on from another. One that is there already is left as it is."""
        with suppress(UnknownSession):
            self.store.engine().find(f"{caller.host}/{given.new}")
            return {"session": given.new, "new": False}
        parent = self._session(caller, given.session)
        at = given.at
        if isinstance(at, list):
            with parent.core.lock:
                state = parent.core.hot().state
                known = [id_ for id_ in at if state.hosts.get(id_, 0) in state.pos]
            if not known:
                raise InputError("the session has none of the fork's messages", value=given.session, where="at")
            at = known[-1]
        return {"session": parent.fork(given.new, at or None).id, "new": True}

    def ack(self, caller: Caller, given: shapes.Ack) -> dict[str, Any]:
        """Compare what the plugin made of a view with what the view says."""
        with self._lock:
            held = self._shelf.get((caller.host, given.session))
        if held is None or held.request is None or held.request.pass_number != given.number:
            return {"same": None}
        same = held.request.digest == given.digest
        if not same or given.missing:
            log.warning(
                "the plugin made another request of the view than it says",
                session=f"{caller.host}/{given.session}",
                number=given.number,
                wanted=held.request.digest,
                made=given.digest,
                missing=given.missing,
            )
        return {"same": same}

    def health(self, caller: Caller, given: shapes.Of | None = None) -> dict[str, Any]:
        """Return how the process stands."""
        with self._lock:
            return {"version": __version__, "protocol": PROTOCOL, **self._shelf.figures()}

    # ------------------------------------------------------------------- helpers

    def _managed(self) -> bool:
        made = policy(self.config)
        return made is None or made.compaction

    def _session(self, caller: Caller, id_: str, given: shapes.Pass | None = None) -> Session:
        if not id_:
            raise InputError("a session needs the host's id of it", where="session")
        engine = self.store.engine()
        if given is None:
            return engine.session(id_, harness=caller.host, codec=CODECS.get(caller.host))
        return engine.session(
            id_,
            harness=caller.host,
            codec=given.codec or CODECS.get(caller.host),
            model=given.model or None,
            context_limit=given.context_limit or None,
            output_limit=given.output_limit or None,
            mode="subagent" if given.parent else "primary",
            policy=policy(self.config),
            reduce_tool=given.reduce and self._managed(),
        )

    def _held(self, key: Key, base: str) -> Held | None:
        with self._lock:
            held = self._shelf.get(key)
        if not base:
            return None
        if held is None or held.version != base:
            raise rpc.Problem(
                rpc.FAILED,
                "the process does not have the messages this list continues; send the whole list once",
                {"code": arrays.MISSING_BASE, "recoverable": True},
            )
        return held

    def _forget(self, key: Key) -> None:
        with self._lock:
            self._shelf.drop(key)

    def _request(self, caller: Caller, id_: str, number: int) -> Request:
        with self._lock:
            held = self._shelf.get((caller.host, id_))
        if held is not None and held.request is not None and held.request.pass_number == number:
            return held.request
        return self._session(caller, id_).reopen(number)


def _patiently(prepare: Callable[[], Request]) -> Request:
    """Return a request; where another process holds the store's lock it is tried again a few times."""
    for pause in BUSY_PAUSES:
        try:
            return prepare()
        except StoreBusy:
            time.sleep(pause)
    return prepare()


def problem(error: FoldlogError, config: Config) -> rpc.Problem:
    """Return a failure as the plugin is told it: what it may do instead, and what a person does about it.

    ``last_good``: the view of the last pass may be used once more. ``unmanaged``: the host's own request may go.
    """
    busy = isinstance(error, StoreBusy)
    store = isinstance(error, StoreError) and not isinstance(error, Refused)
    told = rpc.failed(
        error,
        last_good=busy,
        unmanaged=store and not busy and not config.fail_closed_blocking,
    )
    how = remedy(error)
    if how:
        told.message += f". What to do: {how}"
    return told


def named(raw: bytes, id_: str, codec: str) -> bytes:
    """Return a message with the host's id in it, where its form has none: the id is how its identity is kept."""
    if codec != "pi" or not id_ or not raw.startswith(b"{") or raw.startswith(b'{"id":'):
        return raw
    return b'{"id":' + msgspec.json.encode(id_) + (b"" if raw[1:].strip() == b"}" else b",") + raw[1:]


def spare(session: Session) -> int:
    """Return how many characters may go with the last request without being asked about: what stays far below 95%."""
    core = session.core
    with core.lock:
        state = core.hot().state
        settings = core.settings(state.policy, state.model)
        now = gauge(state, state.model, state.context_limit, state.output_limit, settings, 0)
        tokens = state.last.tokens if state.last is not None else 0
        left = now.window.soft * SPARE // 100 - max(now.tokens, calibrated(state, state.model, tokens))
    return max(left, 0) * CHARACTERS
