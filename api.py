"""The public doors: ``Engine``, ``Session``, ``Request``, a thin layer over one ``engine.Core`` a session."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Self

import msgspec

from . import defects, engine, keeping, last_good, standing
from .adapters.historian import Historian
from .adapters.models.summarizers import Extractive, Summarizer
from .adapters.models.tokens import ENCODING, tokenizer
from .adapters.models.windows import WIDE_BETA, limits
from .domain import arguments
from .domain import events as ev
from .domain.errors import InputError, OptionError, UnknownSession, UnknownTag
from .domain.passes.schedule import calibrated
from .domain.paths import path_of
from .domain.policy import Policy, make_policy, managed
from .domain.reduce import evaluate
from .domain.state import State
from .domain.streams import escape, session_stream
from .ports import Asking, Notes, Ports, Search, Summaries
from .projections import audit as audits
from .projections import request as requests
from .projections.fold import Folded, find_pass, load
from .projections.hot import Hot
from .projections.intake import Options, Reader
from .projections.wire import CURRENT, wire
from .request import Delta, InHand, Request
from .standing import Status
from .storage.protocol import Log, open_log

__all__ = ["Delta", "Engine", "Reply", "Request", "Session", "Status", "built", "wall_clock"]

DEFAULT_CODEC = "anthropic"
MODES = ("primary", "subagent")


class Reply(msgspec.Struct, frozen=True):
    """An original: what a tag or message held. ``json``: its raw bytes as the host sent them; ``text``: readable."""

    tag: int
    m: int
    json: bytes
    text: str


class Session:
    """One session of one host. Thread-safe; every call of a host has an ``async`` twin with an ``a`` in front."""

    def __init__(self, core: engine.Core) -> None:
        self.core = core
        self._newest: weakref.ref[Request] | None = None  # what its caller lets go of is not kept here

    @property
    def id(self) -> str:
        """The host's own id of the session."""
        return self.core.options.session

    def prepare(
        self,
        messages: Any,
        system: Any = None,
        tools: Any = None,
        now: Any = None,
        waiting: Callable[[str], None] | None = None,
    ) -> Request:
        """Take the whole array of messages and return what to send.

        ``messages``: dicts or JSON bytes. ``system``, ``tools``: None means unchanged (first time: absent), ``""`` and
        ``[]`` none. ``now``: epoch seconds or an aware datetime. ``waiting`` is called with words for people where the
        request waits for a summary (from 95% on, convention 21). Raises ``MessageError``, ``Refused``, ``StoreBusy``.
        """
        at = arguments.milliseconds(now)
        return self._request(self.core.prepare(messages, system, tools, at, waiting), at is not None)

    def last_good(self, messages: Any, system: Any = None, tools: Any = None, now: Any = None) -> Request | None:
        """Where ``prepare`` raised ``StoreBusy``: the last request with what is new behind it as it is; None: not safe.

        The host refuses then. What goes out so is recorded by the session's next call that writes (LAST-1, LAST-2).
        """
        at = arguments.milliseconds(now)
        with self.core.lock:
            made = last_good.extend(self.core, messages, system, tools, at)
            state = self.core.hot().state
            if made is None:
                return None
            return Request(self, made, calibrated(state, state.model, made.event.tokens), at is not None)

    def advance(
        self,
        new_messages: Any = (),
        revised: Sequence[tuple[Any, Any]] = (),
        retracted: Sequence[Any] = (),
        now: Any = None,
        waiting: Callable[[str], None] | None = None,
    ) -> Request:
        """Take what changed since the last request: new messages, (handle, message) pairs, handles taken away."""
        at = arguments.milliseconds(now)
        changed, gone = arguments.pairs(revised), arguments.listed("retracted", retracted)
        return self._request(self.core.advance(new_messages, changed, gone, at, waiting), at is not None)

    def reopen(self, pass_number: int | None = None) -> Request:
        """Return the request of an earlier pass (None: the last), so that a new process can report what became of it.

        Raises ``UnknownTag`` where the session has no request of that pass.
        """
        with self.core.lock:
            stored = find_pass(self.core.log, self.core.stream, pass_number)
            return self._request(keeping.Produced(stored.event, stored.version, ()), timed=False)

    def reduce(self, drop: str, command: str = "") -> str:
        """Mark tags (``3-5,8``) as spent; return the agent's reply. The request changes on a later pass.

        With compaction off nothing is marked, and the reply says so.

        ``command``: the host's tool-call id, so that a repeated call is applied once. Raises ``RangeError``,
        ``UnknownTag``; nothing is queued then.
        """
        replies: list[str] = []

        def build(hot: Hot, at: int) -> list[ev.Event]:
            policy = self.core.options.policy
            outcome = evaluate(hot.state, drop, managed=managed(hot.state.policy if policy is None else policy))
            replies.append(outcome.reply)
            return [ev.DropsQueued(at, "", outcome.queue, outcome.reply)] if outcome.queue else []

        stored = self.core.command(build, command)
        return stored or (replies[-1] if replies else "")

    def expand(self, tag: int | str, end: int | None = None) -> list[Reply]:
        """Return originals: of one tag or a tag list, or of messages ``tag`` to ``end`` (ordinals, inclusive)."""
        with self.core.lock:
            state = self.core.hot().state
            if end is None:
                return [self._original(state, number) for number in arguments.numbers(tag)]
            return [reply for m in arguments.span(state, tag, end) for reply in self._message(state, m)]

    def flush(self, command: str = "") -> None:
        """Ask for queued work to land on the next request, protected or not."""
        self.core.command(lambda _, at: [ev.FlushRequested(at, "")], command)

    def report_cache_loss(self, reason: str, command: str = "") -> None:
        """Say that the provider's cache of this session is gone, so that held work lands on the next request."""
        said = str(reason).encode("utf-8", "replace").decode()
        self.core.command(lambda _, at: [ev.CacheLossReported(at, "", said)], command)

    def fork(self, id: str, at: int | str | None = None) -> Session:
        """Return a new session that goes on from here, or from behind message ``at`` (a handle)."""
        with self.core.lock:
            options = msgspec.structs.replace(self.core.options, session=id)
            stream = session_stream(options.harness, arguments.named("id", id))
            if self.core.log.head(stream) is not None:
                raise InputError(
                    "a session of that name is there already; a fork needs a new one", value=id, where="id"
                )
            self.core.open()  # a session that was never used can be forked too
            self.core.refresh(self.core.hot())
            hot = self.core.hot()
            m = hot.state.end() if at is None else arguments.handle(hot.state, at, "at")
            child = engine.Core(self.core.log, stream, options, self.core.reader, self.core.clock)
            child.summaries, child.asking = self.core.summaries, Asking(self.core.asking.ports)
            child.fork_from(self.core.stream, hot.state.version, hot.digest, m)
        return Session(child)

    def status(self) -> Status:
        """Return how the session stands. Changes nothing."""
        with self.core.lock:
            return standing.status(self.core, _catalogued)

    def build(self, produced: keeping.Produced, before: InHand | None = None) -> requests.Built:
        """Return the whole request of a pass as bytes: from memory if it is the newest, else from the log.

        Where it only goes on behind ``before`` nothing is rendered again.
        """
        with self.core.lock:
            hot = self.core.hot()
            state = hot.state
            newest = state.last_version == produced.version and state.base == produced.event.number
            if not newest or state.base_keep != state.base_len or len(state.path) != state.base_len:
                return built(self.core, load(self.core.log, self.core.stream, produced.version), produced.event)
            event = produced.event
            longer = before and requests.extend(before[1], before[0], event, path_of(state, event), produced.delta)
            return longer or built(self.core, hot, event)

    def watch(self) -> None:
        """Look whether older history is due for a summary. Called when a request was made or answered."""
        if self.core.summaries is not None:
            with defects.beside(self.core.stream, "summaries"):
                self.core.summaries.watch(self.core)

    def _request(self, produced: keeping.Produced, timed: bool) -> Request:
        self.watch()
        state = self.core.hot().state
        last = self._newest() if self._newest is not None else None
        estimate = calibrated(state, state.model, produced.event.tokens)
        made = Request(self, produced, estimate, timed, last.in_hand if last is not None else None)
        self._newest = weakref.ref(made)
        return made

    def _original(self, state: State, number: int) -> Reply:
        if not 0 < number <= len(state.tags):
            raise UnknownTag("no part of this session has that number", value=number, where=self.core.stream)
        tag = state.tags[number - 1]
        raw = self.core.body(tag.body or state.node(tag.m).message.body)
        form = wire(state.wire)
        return Reply(number, tag.m, form.original(state.codec, raw, tag.p), form.part_text(state.codec, raw, tag.p))

    def _message(self, state: State, m: int) -> list[Reply]:
        raw = self.core.body(state.node(m).message.body)
        form = wire(state.wire)
        parts = range(len(state.node(m).message.parts))
        text = "\n".join(form.part_text(state.codec, raw, p) for p in parts)
        return [Reply(0, m, raw, text)]

    async def aprepare(self, *given: Any, **named: Any) -> Request:
        """``prepare`` for asyncio."""
        return await asyncio.to_thread(lambda: self.prepare(*given, **named))

    async def alast_good(self, *given: Any, **named: Any) -> Request | None:
        """``last_good`` for asyncio."""
        return await asyncio.to_thread(lambda: self.last_good(*given, **named))

    async def areopen(self, pass_number: int | None = None) -> Request:
        """``reopen`` for asyncio."""
        return await asyncio.to_thread(self.reopen, pass_number)

    async def aadvance(self, *given: Any, **named: Any) -> Request:
        """``advance`` for asyncio."""
        return await asyncio.to_thread(lambda: self.advance(*given, **named))

    async def areduce(self, drop: str, command: str = "") -> str:
        """``reduce`` for asyncio."""
        return await asyncio.to_thread(self.reduce, drop, command)

    async def aexpand(self, tag: int | str, end: int | None = None) -> list[Reply]:
        """``expand`` for asyncio."""
        return await asyncio.to_thread(self.expand, tag, end)

    async def aflush(self, command: str = "") -> None:
        """``flush`` for asyncio."""
        await asyncio.to_thread(self.flush, command)

    async def areport_cache_loss(self, reason: str, command: str = "") -> None:
        """``report_cache_loss`` for asyncio."""
        await asyncio.to_thread(self.report_cache_loss, reason, command)

    async def afork(self, id: str, at: int | str | None = None) -> Session:
        """``fork`` for asyncio."""
        return await asyncio.to_thread(self.fork, id, at)

    async def astatus(self) -> Status:
        """``status`` for asyncio."""
        return await asyncio.to_thread(self.status)


def _catalogued(model: str) -> set[int]:
    """Return the windows our own list of models has for one, without and with what asks for a longer one."""
    return {limits(model).context, limits(model, betas=WIDE_BETA).context}


class Engine:
    """A store and the sessions in it. Thread-safe; close it, or use it in a ``with`` block."""

    def __init__(
        self,
        log: Log,
        count: Callable[[str], int],
        tokenizer_name: str,
        clock: Callable[[], int],
        summaries: Summaries | None = None,
        *,
        notes: Notes | None = None,
        search: Search | None = None,
    ) -> None:
        self.log = log
        self.summaries = summaries
        self.ports = Ports(notes, search)
        self._reader = Reader(count)
        self._tokenizer = tokenizer_name
        self._clock = clock
        self._cores: dict[str, engine.Core] = {}
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        url: str | None = None,
        summarizer: Summarizer | str | None = "extractive",
        *,
        notes: Notes | None = None,
        search: Search | None = None,
    ) -> Engine:
        """Open the store at ``url``: ``sqlite:///path``, ``postgresql://…``, ``memory:``; None: the user's own.

        ``summarizer``: what summarises old history in the background: ``extractive`` needs no model; any callable of
        the ``Summarizer`` port; None: nothing is ever summarised. ``notes``, ``search``: where the agent's notes are
        kept, and what finds things remembered (``ports.py``); the agent is told of what waits and what was found.
        Raises ``OptionError``, ``StoreUnavailable``, ``StoreNewer``.
        """
        arguments.able("notes", notes, "waiting")
        arguments.able("search", search, "search")
        count = tokenizer()
        if isinstance(summarizer, str):
            arguments.one_of("summarizer", summarizer, ("extractive",))
            summarizer = Extractive(count)
        arguments.able("summarizer", summarizer, "__call__")
        summaries = Historian(summarizer, count) if summarizer is not None else None
        return cls(open_log(url), count, ENCODING, wall_clock, summaries, notes=notes, search=search)

    def session(
        self,
        id: str,
        harness: str = "api",
        codec: str | None = None,
        model: str | None = None,
        context_limit: int | None = None,
        output_limit: int | None = None,
        mode: str = "primary",
        policy: Policy | dict[str, Any] | None = None,
        reduce_tool: bool = True,
    ) -> Session:
        """Return the session ``id`` of ``harness``, new or as it was left.

        ``codec``: ``anthropic`` (for a new session, if not given), ``openai-chat``, ``openai-responses``, ``pi`` or
        ``opencode``; ``mode``: ``primary`` or ``subagent``; limits in tokens (None or 0: unknown). ``codec``, ``mode``
        and ``reduce_tool`` are frozen with the session's first pass. Raises ``OptionError``.
        """
        if codec is not None:
            arguments.one_of("codec", codec, wire(CURRENT).CODECS)
        arguments.one_of("mode", mode, MODES)
        stream = session_stream(arguments.named("harness", harness), arguments.named("id", id))
        options = Options(
            harness=harness,
            session=id,
            codec=codec or DEFAULT_CODEC,
            mode=mode,
            reduce=bool(reduce_tool),
            tokenizer=self._tokenizer,
            model=None if model is None else arguments.named("model", model),
            context_limit=arguments.limit("context_limit", context_limit),
            output_limit=arguments.limit("output_limit", output_limit),
            policy=None if policy is None else make_policy(policy).canonical(),
        )
        with self._lock:
            core = self._cores.get(stream)
            if core is None:
                core = self._cores[stream] = engine.Core(self.log, stream, options, self._reader, self._clock)
                core.summaries, core.asking = self.summaries, Asking(self.ports)
        with core.lock:
            known = core.hot().state.codec
            if known and codec is not None and known != codec:
                raise OptionError(f"this session speaks {known}; a session keeps its codec", value=codec, where="codec")
            core.options = options
        return Session(core)

    def release(self, id: str, harness: str = "api") -> None:
        """Forget what is in memory of a session; its log stays, and the next use folds it again."""
        with self._lock:
            self._cores.pop(session_stream(harness, id), None)

    def sessions(self) -> list[tuple[str, int]]:
        """Return (``harness/id`` as stored, version) of every session."""
        return [(head.stream.removeprefix("session/"), head.version) for head in self.log.heads("session/")]

    def find(self, name: str) -> str:
        """Return the stream of ``harness/id``, or of a bare id that fits one session. Raises ``UnknownSession``."""
        if not isinstance(name, str):
            raise UnknownSession("a session is named by text", value=name, where="id")
        harness, slash, id_ = name.partition("/")
        wanted = session_stream(harness, id_) if slash and harness and id_ else ""
        if wanted and self.log.head(wanted) is not None:
            return wanted
        streams = [head.stream for head in self.log.heads("session/")]
        for stream in streams:
            if stream == f"session/{name}":
                return stream
        ends = [stream for stream in streams if stream.split("/", 2)[2] == escape(name)]
        if len(ends) == 1:
            return ends[0]
        if ends:
            raise UnknownSession(
                "several sessions have that id: " + ", ".join(end.removeprefix("session/") for end in ends), value=name
            )
        raise UnknownSession("the store has no session of that name; `foldlog sessions` lists them", value=name)

    def replay(self, id: str, pass_number: int | None = None) -> requests.Built:
        """Return the request of a past pass (None: the last one), byte for byte, from the log alone."""
        stream = self.find(id)
        stored = find_pass(self.log, stream, pass_number)
        core = engine.Core(self.log, stream, self._bare(stream), self._reader, self._clock)
        return built(core, load(self.log, stream, stored.version), stored.event)

    def audit(self, id: str, progress: Callable[[int], None] | None = None) -> audits.Audit:
        """Check a session from its events only: chain, heads, every request's bytes and digest, every divergence."""
        return audits.audit(self.log, self.find(id), progress)

    def close(self) -> None:
        """Release the store."""
        if self.summaries is not None:
            self.summaries.close()
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _bare(self, stream: str) -> Options:
        _, harness, id_ = stream.split("/", 2)
        return Options(harness, id_, "", "primary", True, self._tokenizer)


def built(core: engine.Core, hot: Folded, event: ev.Pass) -> requests.Built:
    """Render the request of ``event`` from folds that stand right behind it."""
    state = hot.state
    path = path_of(state, event)
    return requests.build(
        requests.beside(hot.view, event), path, lambda m: core.body(state.node(m).message.body), core.text
    )


def wall_clock() -> int:
    """Return the wall clock in ms UTC."""
    return time.time_ns() // 1_000_000
