"""A session of 300 passes as a list of calls, and a host that plays it: what every test of faults disturbs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from foldlog.adapters.traces.generator import generate
from foldlog.api import Engine, Request
from foldlog.domain import events as ev
from foldlog.domain.state import State
from foldlog.engine import Core, Produced
from foldlog.projections.fold import find_pass, load
from foldlog.storage.backend import Hook
from foldlog.storage.protocol import Log
from foldlog.storage.stores import open_store

WINDOW = 5_000
LONGEST = 48
"""Texts are cut here: what is tested is order and number of events, not their size."""
_WHOLE = {"drop", "arguments"}


class Call(NamedTuple):
    """One call of the host. ``kind``: ``prepare``, ``reduce``, ``flush``, ``usage``, ``lost``. ``id``: its command."""

    kind: str
    id: str
    now: float
    messages: tuple[bytes, ...] = ()
    drop: str = ""


class Script(NamedTuple):
    """A session as its host lives it."""

    calls: tuple[Call, ...]
    system: bytes | None
    tools: bytes | None
    model: str
    codec: str


class Answer(NamedTuple):
    """What a call came to: the request's digest, level, number and a hash of its new messages, or the reply."""

    digest: str = ""
    level: str = ""
    number: int = 0
    reply: str = ""
    new: str = ""


def shortened(value: Any, key: str = "") -> Any:
    """Return a message with its texts cut."""
    if isinstance(value, str):
        return value if key in _WHOLE else value[:LONGEST]
    if isinstance(value, list):
        return [shortened(item, key) for item in value]
    if isinstance(value, dict):
        return {name: shortened(item, name) for name, item in value.items()}
    return value


def script(seed: int = 5, passes: int = 300, codec: str = "anthropic") -> Script:
    """Return a generated session with drops, flushes, idle gaps, a revised message, a rewind, and repeated requests."""
    trace = generate(seed, passes, codec=codec)  # type: ignore[arg-type]  # one of the codecs
    calls: list[Call] = []
    array: list[bytes] = []
    made = 0
    for number, step in enumerate(trace.steps):
        now = step.at / 1000
        new = [msgspec.json.encode(shortened(msgspec.json.decode(raw))) for raw in step.messages]
        for identity, drop in drops(new):
            calls.append(Call("reduce", identity, now, drop=drop))
        if number % 97 == 41:
            del array[-2:]  # the person went back one step and goes on from there
        elif number % 67 == 66:
            del array[5:]  # and here almost to the beginning
        array += new
        calls.append(Call("prepare", f"pass-{number}", now, tuple(array)))
        made += 1
        if number % 29 == 11 and made < passes:
            calls.append(Call("flush", f"flush-{number}", now))
            calls.append(Call("prepare", f"again-{number}", now + 0.5, tuple(array)))  # nothing new but the flush
            made += 1
        if number % 53 == 17:
            array[-1] = grown(array[-1])  # a result came in late: seen from the next request on
        if number % 71 == 60:
            calls.append(Call("lost", f"lost-{number}", now))
        if number % 2 == 0:
            calls.append(Call("usage", f"response-{number}", now + 1))
        if made >= passes:
            break
    return Script(tuple(calls), trace.system, trace.tools, trace.model, codec)


def grown(raw: bytes) -> bytes:
    """Return a user message with one more text behind what it held."""
    message = msgspec.json.decode(raw)
    content = message["content"]
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return msgspec.json.encode({**message, "content": [*blocks, {"type": "text", "text": "and one thing more"}]})


def drops(new: Iterable[bytes]) -> Iterable[tuple[str, str]]:
    """Yield (call id, numbers) of every use of ``ctx_reduce`` in these messages of an Anthropic session."""
    for raw in new:
        if b'"ctx_reduce"' in raw:
            content = json.loads(raw)["content"]
            for block in content if isinstance(content, list) else ():
                if block.get("name") == "ctx_reduce":
                    yield block["id"], block["input"]["drop"]


def count(text: str) -> int:
    """Count tokens, roughly: the real tokenizer is the dearest part of a small pass, and it is not on trial here."""
    return len(text) // 4 + 1


class Remembering:
    """A reader that keeps what it read. Reading is pure, and every restart reads the whole session again."""

    def __init__(self, reader: Any, kept: dict[Any, Any]) -> None:
        self._reader = reader
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._reader, name)
        if name not in ("read", "ident", "idents"):
            return found

        def once(state: State, *given: Any) -> Any:
            known = (name, state.codec, state.wire, *given)
            if known not in self._kept:
                self._kept[known] = found(state, *given)
            return self._kept[known]

        return once


class Host:
    """One process of a host: an engine on a store, one session, the request in flight."""

    def __init__(
        self,
        url: str | Log,
        script: Script,
        hook: Hook | None = None,
        *,
        session: str = "x",
        harness: str = "api",
        kept: dict[Any, Any] | None = None,
    ) -> None:
        self.script = script
        self.clock = 1_767_600_000_000
        log = open_store(url, hook) if isinstance(url, str) else url
        self.engine = Engine(log, count, "rough", lambda: self.clock)
        if kept is not None:
            self.engine._reader = Remembering(self.engine._reader, kept)  # type: ignore[assignment]  # same methods
        self.session = self.engine.session(
            session, harness=harness, codec=script.codec, model=script.model, context_limit=WINDOW
        )
        self.request: Request | None = None

    @property
    def core(self) -> Core:
        return self.session.core

    def state(self) -> State:
        return self.core.hot().state

    def call(self, call: Call) -> Answer:
        """Make one call. The request it returns stays in flight for ``usage``."""
        if call.kind == "prepare":
            self.request = self.session.prepare(
                list(call.messages), system=self.script.system, tools=self.script.tools, now=call.now
            )
            new = sha256(repr(self.request.delta).encode()).hexdigest()
            return Answer(self.request.digest, self.request.level, self.request.pass_number, new=new)
        if call.kind == "reduce":
            return Answer(reply=self.session.reduce(call.drop, call.id))
        if call.kind == "flush":
            self.session.flush(call.id)
        elif call.kind == "lost":
            self.session.report_cache_loss("the provider said so", command=call.id)
        else:
            self.report(call)
        return Answer()

    def report(self, call: Call) -> None:
        """Report usage of the last pass: what we estimate, a tenth more on some, so that bands are crossed."""
        if self.request is None:  # a new process: its request is what the log says
            stored = find_pass(self.engine.log, self.core.stream, None)
            self.request = Request(self.session, Produced(stored.event, stored.version, ()), 0, True)
        tokens = self.request._produced.event.tokens
        tokens = tokens * (11 if len(call.id) % 2 else 10) // 10
        self.request.report_usage(input=3, cache_read=tokens, output=50, now=call.now, command=call.id)

    def close(self) -> None:
        self.engine.close()


def plain(state: State) -> bytes:
    """Return all of a state but the command ids, of which those of passes are random."""
    kept = state.commands
    state.commands = {}
    try:
        return msgspec.msgpack.encode(state)
    finally:
        state.commands = kept


def brief(state: State) -> dict[str, Any]:
    """Return every small field of a state, and of the large ones how much they hold: cheap enough for every call."""
    found = {name: getattr(state, name) for name in state.__struct_fields__ if name != "commands"}
    small = {name: len(v) if isinstance(v, list | dict) and len(v) > 9 else v for name, v in found.items()}
    return dict(msgspec.to_builtins(small, str_keys=True))


def events_of(log: Log, stream: str = "session/api/x") -> list[ev.Event]:
    """Return the events of a stream without what differs between two runs: when recorded, and random command ids."""
    return [msgspec.structs.replace(stored.event, at=0, cmd="") for stored in log.read(stream)]


def commands_of(log: Log, stream: str = "session/api/x") -> list[str]:
    """Return the command ids of a stream, in order."""
    return [stored.event.cmd for stored in log.read(stream) if stored.event.cmd]


class Truth(NamedTuple):
    """An undisturbed run: what each call came to, the state behind it, the events in the end."""

    answers: tuple[Answer, ...]
    states: tuple[bytes, ...]
    briefs: tuple[dict[str, Any], ...]
    events: tuple[ev.Event, ...]
    appends: tuple[int, ...]


def undisturbed(
    script: Script, see: Callable[[int, Host], None] | None = None, kept: dict[Any, Any] | None = None
) -> Truth:
    """Play a script in memory."""
    seen = [0]

    def hook(where: str) -> None:
        seen[0] += where == "before"

    host = Host("memory:", script, hook, kept=kept)
    answers, states, briefs, appends = [], [], [], []
    for number, call in enumerate(script.calls):
        answers.append(host.call(call))
        states.append(plain(host.state()))
        briefs.append(brief(host.state()))
        appends.append(seen[0])
        if see is not None:
            see(number, host)
    found = Truth(tuple(answers), tuple(states), tuple(briefs), tuple(events_of(host.engine.log)), tuple(appends))
    host.close()
    return found


def folded(log: Log, stream: str = "session/api/x") -> bytes:
    """Return the state a fresh process folds from the log alone."""
    return plain(load(log, stream, snapshots=False).state)
