"""The public doors: ``Engine``, ``Session``, ``Request``, a thin layer over one ``engine.Core`` a session."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import msgspec

from . import engine
from .adapters.historian import Historian
from .adapters.models.summarizers import Extractive, Summarizer
from .adapters.models.tokens import ENCODING, tokenizer
from .domain import arguments
from .domain import events as ev
from .domain.errors import InputError, OptionError, UnknownSession, UnknownTag
from .domain.overflow import Explained, explain, judge, outcome
from .domain.passes import protection
from .domain.passes.schedule import calibrated, gauge
from .domain.policy import Policy, make_policy
from .domain.reduce import evaluate
from .domain.session import path_of
from .domain.state import State
from .domain.streams import escape, session_stream
from .domain.window import percent
from .projections import audit as audits
from .projections import request as requests
from .projections.fold import Folded, find_pass, load
from .projections.hot import Hot
from .projections.intake import Options, Reader
from .projections.wire import CURRENT, wire
from .storage.protocol import Log, open_log

DEFAULT_CODEC = "anthropic"
MODES = ("primary", "subagent")
DETAIL = 2_000
"""How many characters of a provider's error are kept."""
OUTCOMES = ("overflow", "not_processed", "aborted", "broken", "unknown")


class Delta(msgspec.Struct, frozen=True):
    """One message of the host as it is sent now: new, or changed by this pass.

    ``handle``: the host's message id, else the message's ordinal; ``messages``: what it became on the wire (none where
    it is left out), ``json`` the same as bytes.
    """

    handle: str | int
    json: tuple[bytes, ...]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The wire messages, decoded."""
        return [msgspec.json.decode(raw) for raw in self.json]


class Request:
    """What to send on one model call, and the door to say what became of it.

    ``level``: ``defer``, ``soft+``, ``soft`` or ``hard``. ``reasons``: why. ``digest``: hex of the chain over all
    blocks. ``usage_estimate``: prompt tokens, calibrated. ``delta``: new and changed messages, always there.
    ``messages``, ``system`` and ``tools`` are built when asked for, from the log where the session has moved on.
    """

    def __init__(self, session: Session, produced: engine.Produced, estimate: int, timed: bool) -> None:
        event = produced.event
        self._session = session
        self._produced = produced
        self._timed = timed
        self._built: requests.Built | None = None
        self.level = requests.level(event)
        self.reasons: tuple[str, ...] = requests.reasons(event)
        self.digest = event.digest.hex()
        self.pass_number = event.number
        self.usage_estimate = estimate

    def __repr__(self) -> str:
        return f"<Request pass {self.pass_number} {self.level} {self.digest[:12]}>"

    @property
    def delta(self) -> tuple[Delta, ...]:
        """New and changed messages, in path order."""
        state = self._session.core.hot().state
        return tuple(Delta(state.node(one.m).message.host_id or one.m, one.json) for one in self._produced.delta)

    @property
    def built(self) -> requests.Built:
        """The whole request as bytes."""
        if self._built is None:
            self._built = self._session.build(self._produced)
        return self._built

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages to send, with cache marks where the provider takes them."""
        return self.built.marked()[1]

    @property
    def messages_json(self) -> tuple[bytes, ...]:
        """The messages to send, byte for byte, without cache marks."""
        return self.built.messages

    @property
    def system(self) -> Any:
        """The system member to send (None: leave it out), guidance and cache mark included."""
        return self.built.marked()[0]

    @property
    def tools(self) -> Any:
        """The tool list to send, as the host gave it (None: leave it out)."""
        return msgspec.json.decode(self.built.tools) if self.built.tools else None

    def report_usage(
        self,
        input: int | None = None,
        cache_read: int | None = None,
        cache_write: int | None = None,
        output: int | None = None,
        now: Any = None,
        command: str = "",
    ) -> None:
        """Say what the provider counted for this request. None: not reported. Raises ``InputError`` below 0.

        ``command``: the provider's response id, so that a repeated report is taken once.
        """
        given = {"input": input, "cache_read": cache_read, "cache_write": cache_write, "output": output}
        counts = {name: arguments.count(name, value) for name, value in given.items()}
        core = self._session.core
        event = self._produced.event

        def build(_: Hot, at: int) -> list[ev.Event]:
            heard = arguments.milliseconds(now)
            if heard is None:
                heard = event.now if self._timed else at
            return [ev.UsageReported(at, "", event.number, heard, **counts)]

        core.command(build, command)
        core.snapshot()
        self._session.watch()

    def report_failure(
        self, kind: str, *, limit: int | None = None, used: int | None = None, detail: str = "", command: str = ""
    ) -> None:
        """Say that this request failed: ``overflow``, ``not_processed``, ``aborted``, ``broken`` or ``unknown``."""
        if kind not in OUTCOMES:
            raise InputError(f"a request fails by one of {', '.join(OUTCOMES)}", value=kind, where="kind")
        top, taken = arguments.count("limit", limit), arguments.count("used", used)
        said = arguments.text("detail", detail)[:DETAIL].encode("utf-8", "replace")
        words = hashlib.sha256(said).digest() if said else b""

        if kind == "overflow":
            self._overflowed(max(top, 0), max(taken, 0), None, command)
            return

        def build(_: Hot, at: int) -> list[ev.Event]:
            return [ev.RequestOutcome(at, "", self.pass_number, kind, words)]

        self._session.core.command(build, command, {words: said} if said else {})

    def _overflowed(self, limit: int, used: int, model: str | None, command: str) -> None:
        def build(hot: Hot, at: int) -> list[ev.Event]:
            name = hot.state.model if model is None else model
            return [ev.OverflowReported(at, "", self.pass_number, name, limit, used)]

        self._session.core.command(build, command)

    def report_error(
        self,
        status: int | None,
        body: bytes | str = b"",
        *,
        code: str | None = None,
        model: str | None = None,
        command: str = "",
    ) -> Explained:
        """Hand over the provider's error as it came; return what it means, and record it as what it is.

        ``status``: HTTP's, None if there was none; ``code``: one told beside the body (a stop reason, an SDK's class);
        ``model``: which one answered, where a router chose another. An overflow is learnt from, anything else is not.
        """
        if status is not None and (isinstance(status, bool) or not isinstance(status, int)):
            raise InputError("a status is a number or None", value=status, where="status")
        if not isinstance(body, bytes | str):
            raise InputError("a body is bytes or text", value=body, where="body")
        found = explain(status, body, None if code is None else arguments.text("code", code))
        with self._session.core.lock:
            found = judge(found, _share(self._session.core))
            answered = None if model is None else arguments.text("model", model)
            if found.overflow:
                self._overflowed(found.limit, found.used, answered, command)
            else:
                words = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
                self.report_failure(outcome(found), detail=words[:DETAIL], command=command)
        return found

    async def areport_error(self, status: int | None, body: bytes | str = b"", **details: Any) -> Explained:
        """``report_error`` for asyncio."""
        return await asyncio.to_thread(lambda: self.report_error(status, body, **details))

    async def areport_usage(self, **counts: Any) -> None:
        """``report_usage`` for asyncio."""
        await asyncio.to_thread(lambda: self.report_usage(**counts))

    async def areport_failure(self, kind: str, **details: Any) -> None:
        """``report_failure`` for asyncio."""
        await asyncio.to_thread(lambda: self.report_failure(kind, **details))


class Reply(msgspec.Struct, frozen=True):
    """An original: what a tag or message held. ``json``: its raw bytes as the host sent them; ``text``: readable."""

    tag: int
    m: int
    json: bytes
    text: str


class Session:
    """One session of one host. Thread-safe; every call has an ``async`` twin with an ``a`` in front."""

    def __init__(self, core: engine.Core) -> None:
        self.core = core

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
            return self._request(engine.Produced(stored.event, stored.version, ()), timed=False)

    def reduce(self, drop: str, command: str = "") -> str:
        """Mark tags (``3-5,8``) as spent; return the agent's reply. The request changes on a later pass.

        ``command``: the host's tool-call id, so that a repeated call is applied once. Raises ``RangeError``,
        ``UnknownTag``; nothing is queued then.
        """
        replies: list[str] = []

        def build(hot: Hot, at: int) -> list[ev.Event]:
            outcome = evaluate(hot.state, drop)
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
        self.core.command(lambda _, at: [ev.CacheLossReported(at, "", str(reason))], command)

    def fork(self, id: str, at: int | str | None = None) -> Session:
        """Return a new session that goes on from here, or from behind message ``at`` (a handle)."""
        with self.core.lock:
            options = msgspec.structs.replace(self.core.options, session=id)
            stream = session_stream(options.harness, id)
            if self.core.log.head(stream) is not None:
                raise InputError(
                    "a session of that name is there already; a fork needs a new one", value=id, where="id"
                )
            self.core.open()  # a session that was never used can be forked too
            self.core.refresh(self.core.hot())
            hot = self.core.hot()
            m = hot.state.end() if at is None else arguments.handle(hot.state, at, "at")
            child = engine.Core(self.core.log, stream, options, self.core.reader, self.core.clock)
            child.summaries = self.core.summaries
            child.fork_from(self.core.stream, hot.state.version, hot.digest, m)
        return Session(child)

    def status(self) -> Status:
        """Return how the session stands. Changes nothing."""
        with self.core.lock:
            return _status(self.core)

    def build(self, produced: engine.Produced) -> requests.Built:
        """Return the whole request of a pass as bytes: from memory if it is the newest, else from the log."""
        with self.core.lock:
            hot = self.core.hot()
            state = hot.state
            newest = state.last_version == produced.version and state.base == produced.event.number
            if not newest or state.base_keep != state.base_len or len(state.path) != state.base_len:
                return built(self.core, load(self.core.log, self.core.stream, produced.version), produced.event)
            return built(self.core, hot, produced.event)

    def watch(self) -> None:
        """Look whether older history is due for a summary. Called when a request was made or answered."""
        if self.core.summaries is not None:
            self.core.summaries.watch(self.core)

    def _request(self, produced: engine.Produced, timed: bool) -> Request:
        self.watch()
        state = self.core.hot().state
        return Request(self, produced, calibrated(state, state.model, produced.event.tokens), timed)

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


class Status(msgspec.Struct, frozen=True):
    """How a session stands (``transform.md`` 8.3). Tokens; percentages in 1/100 of a per cent, -1 = unknown."""

    session: str
    harness: str
    codec: str
    mode: str
    model: str
    passes: int
    messages: int
    tags: int
    dropped: int
    queued: int
    usage_tokens: int
    usage_percent: int
    usage_source: str
    window: int
    window_known: bool
    execute_percent: int
    force_percent: int
    cache_ttl_ms: int
    protected_tokens: int
    held: int
    flush_pending: bool
    version: int


def _status(core: engine.Core) -> Status:
    state = core.hot().state
    policy = core.options.policy if core.options.policy is not None else state.policy
    now = gauge(state, state.model, state.context_limit, state.output_limit, core.settings(policy, state.model), 0)
    return Status(
        session=core.options.session,
        harness=core.options.harness,
        codec=state.codec or core.options.codec,
        mode=state.mode,
        model=state.model,
        passes=state.passes,
        messages=len(state.path),
        tags=len(state.tags),
        dropped=sum(tag.status == "dropped" for tag in state.tags),
        queued=len(state.queue),
        usage_tokens=now.tokens,
        usage_percent=now.percent,
        usage_source=now.source,
        window=now.window.soft,
        window_known=now.window.known,
        execute_percent=now.bands.execute,
        force_percent=now.bands.force,
        cache_ttl_ms=now.settings.ttl,
        protected_tokens=protection.floor(now.settings, now.window) if state.adopted is None else state.adopted.floor,
        held=state.held,
        flush_pending=state.flush,
        version=state.version,
    )


def _share(core: engine.Core) -> int:
    """Return how much of its known window the session's last request took, in 1/100 of a per cent; -1 = unknown."""
    state = core.hot().state
    now = gauge(
        state, state.model, state.context_limit, state.output_limit, core.settings(state.policy, state.model), 0
    )
    return percent(now.tokens, now.window.hard) if now.window.known and now.source != "none" else -1


class Engine:
    """A store and the sessions in it. Thread-safe; close it, or use it in a ``with`` block."""

    def __init__(
        self,
        log: Log,
        count: Callable[[str], int],
        tokenizer_name: str,
        clock: Callable[[], int],
        summaries: engine.Summaries | None = None,
    ) -> None:
        self.log = log
        self.summaries = summaries
        self._reader = Reader(count)
        self._tokenizer = tokenizer_name
        self._clock = clock
        self._cores: dict[str, engine.Core] = {}
        self._lock = threading.Lock()

    @classmethod
    def open(cls, url: str | None = None, summarizer: Summarizer | str | None = "extractive") -> Engine:
        """Open the store at ``url``: ``sqlite:///path``, ``postgresql://…``, ``memory:``; None: the user's own.

        ``summarizer``: what summarises old history in the background: ``extractive`` needs no model; any callable of
        the ``Summarizer`` port; None: nothing is ever summarised. Raises ``OptionError``, ``StoreUnavailable``,
        ``StoreNewer``.
        """
        count = tokenizer()
        if isinstance(summarizer, str):
            arguments.one_of("summarizer", summarizer, ("extractive",))
            summarizer = Extractive(count)
        summaries = Historian(summarizer, count) if summarizer is not None else None
        return cls(open_log(url), count, ENCODING, wall_clock, summaries)

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
        options = Options(
            harness=harness,
            session=id,
            codec=codec or DEFAULT_CODEC,
            mode=mode,
            reduce=bool(reduce_tool),
            tokenizer=self._tokenizer,
            model=None if model is None else arguments.text("model", model),
            context_limit=arguments.limit("context_limit", context_limit),
            output_limit=arguments.limit("output_limit", output_limit),
            policy=None if policy is None else make_policy(policy).canonical(),
        )
        stream = session_stream(harness, id)
        with self._lock:
            core = self._cores.get(stream)
            if core is None:
                core = self._cores[stream] = engine.Core(self.log, stream, options, self._reader, self._clock)
                core.summaries = self.summaries
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
