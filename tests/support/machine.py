"""The state machine's interpreter: steps of plain JSON against the public API, with the host's messages as the model.

A run is a list of steps ``{"op": …, …}``; ``play`` runs one. Every number in a step is taken modulo what there is, so a
step always means something and a run can be cut anywhere.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

import foldlog
from foldlog.adapters.historian import Historian
from foldlog.adapters.models.summarizers import Extractive
from foldlog.domain import events as ev
from foldlog.domain.state import key
from foldlog.projections.fold import load
from foldlog.storage.protocol import open_log
from support import machine_checks as checks
from support import machine_host as host
from support import machine_outage as outage
from support import machine_signing as signing
from support.machine_history import Past, Scripted, Told
from support.machine_judge import judge
from support.machine_pictures import Pictures
from support.machine_steps import OUTPUTS, POLICIES, SYSTEMS, WINDOWS, Step, Steps
from support.machine_store import Watched
from support.machine_words import LIST, Ports, Words


class Machine(Steps, Past, signing.Thinking, Pictures, outage.Outage, Words):
    """One run. ``rounds`` is the host's view: rounds of messages, the first holding the opening message alone."""

    def __init__(
        self,
        codec: str = "anthropic",
        mode: str = "primary",
        reduce: bool = True,
        ids: bool = False,
        sqlite: bool = False,
        window: int = 0,
        policy: int = 0,
        history: int = 0,
        model: int = 0,
        ports: bool = False,
    ) -> None:
        self.codec, self.mode, self.reduce, self.history, self.ports = codec, mode, reduce, history, ports
        self.ids = ids and codec == "pi"
        self.window, self.policy, self.model, self.system, self.tools = window, policy, model, 0, 0
        self.output = 0
        self.counts: Counter[str] = Counter()
        self.folder = tempfile.TemporaryDirectory() if sqlite else None
        self.url = f"sqlite:///{Path(self.folder.name) / 'log.db'}" if self.folder else "memory:"
        self.log = Watched(open_log(self.url))
        self.wall = self.now = 1_700_000_000_000
        self.id = "s0"
        self.done: list[str] = []
        self.forks = 0
        self.uids = 0
        self.rounds: list[host.Round] = [[self._message("user", [host.text(1, self._uid())])]]
        self.asked: set[int] = set()
        self.owners: dict[int, tuple[str, int, Any, int]] = {}
        self.call_tags: dict[str, set[int]] = {}
        self.head: checks.Served | None = None
        self.served: dict[int, checks.Served] = {}
        self.passes = 0
        self.raw: set[int] = set()
        self.edits: list[str] = []
        self.rewritten: set[str] = set()
        self.side: list[host.Round] | None = None
        self.flushed = self.lost = self.reopened = self.interloped = False
        self.totals: list[int] = []
        self.limits: set[int] = set()
        self.last: foldlog.Request | None = None
        self.rebuilt_now = self.seen = self.numbered = self.swept = 0
        self.shy = False
        self.ticks = 0
        self.folded_model: Any = ""
        self.unmanaged = False
        self.conflicts = 0
        self.explained: dict[Any, Any] = {}
        self.recovered: dict[Any, Any] = {}
        self.told: dict[str, Told] = {}
        self.baselines: dict[Any, tuple[bytes, ...]] = {}
        self.work: Any = None
        self.expected: tuple[type[Exception], ...] = ()
        self.where: dict[int, str] = {}
        self.models: dict[int, int] = {}
        self.sent: tuple[Any, Any, list[Any]] | None = None
        self.thoughts: dict[str, signing.Thought] = {}
        self.thoughtless: set[str] = set()
        self.refusals: list[tuple[foldlog.Request, str]] = []
        self.recovering = False
        self.bulky: dict[int, int] = {}
        self.stripped: set[str] = set()
        self.hollow: set[str] = set()
        self.went_out: dict[int, host.Message] = {}
        self.owed: outage.Owed | None = None
        self.orphaned = False
        self.replays: list[ev.LastGoodReplayed] = []
        self.beyond: list[host.Message] = []
        self.notes: set[tuple[int, int]] = set()
        self.hits: set[str] = set()
        self.unsent: dict[int, tuple[host.Message, tuple[bytes, ...]]] = {}
        self.batch: tuple[int, tuple[str, str]] | None = None
        self.engines = [self._engine(), self._engine()]

    # ------------------------------------------------------------------ the world

    def _engine(self) -> foldlog.Engine:
        asked = {"notes": Ports(self), "search": Ports(self)} if self.ports else {}
        return foldlog.Engine(self.log, host.count, "test", self._clock, self._historian(), **asked)

    def _historian(self) -> Historian | None:
        """Return what looks by itself if a summary is due: nothing (0), extracts (1), runs that may fail (2, 3)."""
        if not self.history:
            return None
        summarizer = Extractive(host.count) if self.history == 1 else Scripted(2, self.history - 2)
        return Historian(summarizer, host.count, inline=True, timeout_ms=0)

    def _clock(self) -> int:
        self.wall += 7
        return self.wall

    def _uid(self) -> str:
        self.uids += 1
        return f"#{self.uids}"

    def _message(self, role: str, parts: list[host.Part]) -> host.Message:
        uid = self._uid()
        return {"uid": uid, "role": role, "parts": parts, "id": uid if self.ids else ""}

    def session(self, which: int = 0) -> foldlog.Session:
        """Return the session through one of the two processes."""
        given = {
            "model": signing.family(self),
            "context_limit": WINDOWS[self.window],
            "output_limit": OUTPUTS[self.output],
            "policy": self.policy_now(),
        }
        process = self.engines[which]
        found: foldlog.Session = self.guarded(
            lambda: process.session(self.id, codec=self.codec, mode=self.mode, reduce_tool=self.reduce, **given)
        )
        return found

    def flat(self, rounds: list[host.Round] | None = None) -> list[host.Message]:
        """Return the host's array as neutral messages."""
        return [message for one in (self.rounds if rounds is None else rounds) for message in one]

    def handed(self, messages: list[host.Message], form: int = 0) -> list[Any]:
        """Return what the host hands over. ``form`` picks which messages come in another form of the same content."""
        return [host.to_host(self.codec, m, (form >> i % 5) & 3 if form else 0) for i, m in enumerate(messages)]

    def system_now(self) -> Any:
        """Return the system argument of the next pass."""
        given = SYSTEMS[self.system]
        return (
            ("" if self.system == 0 else given)
            if self.codec not in ("openai-chat", "openai-responses")
            else given
            if isinstance(given, str)
            else ""
        )

    def policy_now(self) -> dict[str, Any]:
        """Return the policy of the next pass."""
        return POLICIES[self.policy] or {}

    def tools_now(self) -> Any:
        """Return the tools argument of the next pass, with ``ctx_reduce`` where the agent has it (convention 10)."""
        names = [
            *(["ctx_reduce"] if self.reduce else []),
            *(["shell" if self.tools == 3 else "bash"] if self.tools else []),
            *([LIST] if self.ports else []),
        ]
        kind = "integer" if self.tools == 2 else "string"
        return [self._tool(name, kind) for name in names]

    def _tool(self, name: str, kind: str) -> dict[str, Any]:
        schema = {"type": "object", "properties": {"a": {"type": kind}}}
        if self.codec == "openai-chat":
            return {"type": "function", "function": {"name": name, "description": "runs", "parameters": schema}}
        if self.codec == "openai-responses":
            return {"type": "function", "name": name, "description": "runs", "parameters": schema}
        return {"name": name, "description": "runs", "input_schema": schema}

    def close(self) -> None:
        """Release the store."""
        self.log.close()
        if self.folder:
            self.folder.cleanup()

    # --------------------------------------------------------------------- steps

    def run(self, step: Step) -> None:
        """Run one step and check what must hold behind every step."""
        given = dict(step)
        op = given.pop("op")
        self.counts[op] += 1
        getattr(self, f"do_{op}")(**given)
        self._told()
        self.settle()
        self.ticks += 1
        if self.ticks % 5 == 0:
            self.check_folds()
        self.counts["conflicts"] += self.log.conflicts - self.conflicts
        self.conflicts = self.log.conflicts

    # ------------------------------------------------------------------- carrying out

    def hot(self) -> Any:
        """Return the active process's session."""
        return self.session().core.hot()

    def version(self) -> int:
        """Return the stream's version in the store."""
        head = self.log.head(self.session().core.stream)
        return head.version if head is not None else 0

    def _current(self, items: list[host.Message]) -> bool:
        head = self.head
        path = self.hot().state.path
        # two processes that both hand over the same news by `advance` say it twice: a host that races hands over all
        alone = self.log.before is None or not self.log.whole
        alone = alone and head is not None and head.regions == (self.system, self.tools)
        return (
            alone
            and head is not None
            and len(head.items) == len(items)
            and head.ms == path
            and all(map(host.same, head.items, items))
        )

    def _handle(self, before: list[host.Message], message: host.Message) -> Any:
        assert self.head is not None
        place = next(i for i, item in enumerate(before) if item is message)
        return message["id"] or self.head.ms[place]

    def _one(self, message: host.Message) -> Any:
        return host.to_host(self.codec, message, 0)

    def send(self, form: int = 0, rounds: list[host.Round] | None = None) -> foldlog.Request | None:
        """Hand over the whole array."""
        items = self.flat(rounds)
        given = self.handed(items, form)
        frozen = json.dumps(given)
        request = self.passing(
            lambda: self.session().prepare(
                given, system=self.system_now(), tools=self.tools_now(), now=self.now / 1000
            ),
            items,
            True,
        )
        assert json.dumps(given) == frozen, "LAW-5: a message of the host was written to"
        return request

    def advance(self, before: list[host.Message]) -> None:
        """Hand over only what is new, where nothing else changed since the last request."""
        if self.interloped or not self._current(before):
            self.send()
            return
        items = self.flat()
        new = [self._one(m) for m in items[len(before) :]]
        self.counts["advanced"] += 1
        self.passing(lambda: self.session().advance(new, now=self.now / 1000), items)

    def passing(
        self, call: Callable[[], foldlog.Request], items: list[host.Message], whole: bool = False
    ) -> foldlog.Request | None:
        """Make one pass, through a fault if one waits; check it."""
        fault = self.log.fault
        try:
            request = self.guarded(call)
        except foldlog.StoreError as error:
            claim(fault, f"a store error out of nothing: {error}")
            self.counts["faults"] += 1
            if fault == "lost" and not whole:
                return self.send()  # what an increment became is not known: the host hands over everything
            try:
                request = self.guarded(call)
            except foldlog.Refused:
                return self._refused(items)
        except foldlog.Refused:
            return self._refused(items)
        self.see(request, self.session(), items)
        return request

    def _refused(self, items: list[host.Message], session: foldlog.Session | None = None) -> None:
        self.counts["refused"] += 1
        self._told()
        number = (session or self.session()).core.hot().state.passes
        outage.missed(self, number, items)
        self.passes = number
        self.seen = max(self.seen, self.now)  # the time of the session goes on (SCHED-7)
        self.rewritten |= host.rewritten(self.head.items, items) if self.head is not None else set()

    def command(self, call: Callable[[], Any], once: bool = False) -> Any:
        """Report or command something, again where the store failed. ``once``: it has a command id of the host's."""
        fault, alone, version = self.log.fault, self.log.before is None, self.version()
        tries = 1
        try:
            reply = self.guarded(call)
        except foldlog.StoreError as error:
            claim(fault, f"a store error out of nothing: {error}")
            self.counts["faults"] += 1
            tries += not once
            reply = self.guarded(call)
        if alone:
            stream = self.session().core.stream
            found = (s.event for s in self.log.read(stream, version))
            added = [event for event in found if not isinstance(event, (ev.SessionOpened, *OF_HISTORY))]
            replays = [i for i, event in enumerate(added) if isinstance(event, ev.LastGoodReplayed)]
            added = added[replays[-1] + 1 :] if replays else added  # what went out unrecorded stands first
            assert len(added) <= tries, f"PROP-1: a command was applied {len(added)} times in {tries} calls ({fault})"
        return reply

    def guarded(self, call: Callable[[], Any]) -> Any:
        """PROP-11: only errors of foldlog come out, and never its own alarm."""
        try:
            return call()
        except foldlog.FoldlogError as error:
            expected = isinstance(error, (foldlog.StoreError, foldlog.Refused, *self.expected))
            claim(expected, f"PROP-11: good input is refused: {error!r}")
            claim(not isinstance(error, foldlog.StoreDamaged | foldlog.Conflict), f"PROP-11: a defect: {error!r}")
            raise

    def fails(self, call: Callable[[], Any], kind: type[Exception]) -> None:
        """PROP-11, PROP-8: an error leaves state, view and store as they were."""
        self.log.fault, self.log.before = "", None
        core = self.session().core
        core.open()
        if core.unrecorded is not None:
            core.unrecorded()  # the next call would record it, whatever becomes of that call
        before, version = folded(self.hot()), self.version()
        behind = self.hot().state.version != version  # then the error is only told after taking in the other's events
        try:
            call()
        except foldlog.FoldlogError as error:
            claim(isinstance(error, kind), f"{error!r} is no {kind.__name__}")
        else:
            raise AssertionError(f"no {kind.__name__}")
        assert behind or folded(self.hot()) == before, "PROP-11: an error changed the state"
        assert self.version() == version, "PROP-11: an error appended something"
        self.check_folds()

    # ----------------------------------------------------------------------- checking

    def see(self, request: foldlog.Request, session: foldlog.Session, items: list[host.Message]) -> None:
        """Check one request against all that was served before."""
        judge(self, request, session, items)

    def check_folds(self) -> None:
        """LAW-1: what is in memory is what the log says, without snapshots."""
        stream = self.session().core.stream
        hot = self.hot()
        head = self.log.head(stream)
        if head is None or hot.state.version != head.version:
            return  # this process has not heard of the other's events yet
        state = hot.state
        numbers = [state.tag_of.get(key(m, p), 0) for m in state.path for p in range(len(state.node(m).message.parts))]
        tools = sorted(number for number in numbers if number and state.tags[number - 1].kind == "tool")
        assert state.tools_order == tools, "IDENT-3: the tools that count are not those of the path"
        fresh = load(self.log.inner, stream, snapshots=False)
        for name, a, b in (("state", hot.state, fresh.state), ("view", hot.view, fresh.view)):
            left, right = msgspec.to_builtins(a), msgspec.to_builtins(b)
            assert left == right, f"LAW-1: the {name} in memory is not the log's: {differing(left, right)}"
        assert folded(hot) == folded(fresh), "LAW-1: the folds are equal, and stored otherwise (order of a map)"
        self.counts["compared"] += 1

    def check_replay(self, number: int) -> None:
        """LAW-2: a past request comes out of the log, in a process that knows nothing, byte for byte."""
        served = self.served[number]
        built = self._engine().replay(f"api/{self.where[number]}", number)
        sent = [raw for wire in served.wire if wire is not None for raw in wire]
        front = built.leading + built.head
        assert built.digest == served.event.digest, f"LAW-2: pass {number} replays to another digest"
        assert [*built.messages[front:]] == sent, f"LAW-2: pass {number} replays to other bytes"
        assert (built.system, built.tools, *built.messages[:front]) == served.prefix, (
            f"LAW-2: pass {number} has another head"
        )
        self.counts["replays"] += 1

    def finish(self) -> None:
        """Audit every session of the run; replay the newest and one old request."""
        self.log.fault, self.log.before = "", None
        self.check_folds()
        self._told()
        numbers = sorted(self.served)
        for number in {*numbers[-1:], *numbers[len(numbers) // 2 :][:1]}:
            self.check_replay(number)
        for name in [*self.done, self.id]:
            if self.log.head(f"session/api/{name}") is None:
                continue
            audit = self._engine().audit(name)
            # the frozen source of the wire is another test's matter
            left = [d for d in audit.differences if d.kind != "wire"]
            assert not left, f"audit: {left[0]}"
            self.counts["audited"] += audit.passes
        faults = self.log.verify().faults
        assert not faults, f"verify: {faults[0]}"


OF_HISTORY = (ev.HistorianStarted, ev.HistorianPublished, ev.HistorianFailed)


def claim(good: bool, said: str) -> None:
    """Assert, inside the handler of an error."""
    if not good:
        raise AssertionError(said)


def folded(hot: Any) -> bytes:
    """Return both folds as they would be stored."""
    return msgspec.msgpack.encode((hot.state, hot.view))


def differing(a: Any, b: Any) -> str:
    """Return where two lists of fields differ, briefly."""
    return "; ".join(f"[{i}] {x!r:.150} / {y!r:.150}" for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)


def shrunk(steps: list[Step], seconds: float) -> list[Step]:
    """Return a shorter run that fails with the same words, as far as ``seconds`` reach."""
    end = time.monotonic() + seconds
    wanted, size = fault(steps), max(len(steps) // 2, 1)
    while wanted and size:
        found = False
        for place in range(len(steps) - size, 0, -size):
            if time.monotonic() > end:
                return steps
            shorter = steps[:place] + steps[place + size :]
            if fault(shorter) == wanted:
                steps, found = shorter, True
        size = size if size == 1 and found else size // 2
    return steps


def fault(steps: list[Step]) -> str:
    """Return what is wrong with a run, without its numbers and bytes; "" if nothing is."""
    try:
        play(steps)
    except Exception as error:  # noqa: BLE001 - whatever comes out is what is looked for
        return f"{type(error).__name__} {re.sub('[0-9]+', '', str(error)[:60])}"
    return ""


def play(steps: list[Step]) -> Counter[str]:
    """Run a recorded list of steps, the first of which opens the session, to the end with all final checks."""
    first = dict(steps[0])
    assert first.pop("op") == "open"
    machine = Machine(**first)
    try:
        for step in steps[1:]:
            machine.run(step)
        machine.finish()
    finally:
        machine.close()
    return machine.counts
