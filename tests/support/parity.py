"""A session played through one codec with a given clock, commands and provider, and what was decided, pass by pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count as counting
from typing import Any
from unittest.mock import patch

import foldlog
from foldlog.adapters.historian import Historian, _offset
from foldlog.adapters.models.summarizers.port import Job, Summarised, Summary
from foldlog.domain import events as ev
from foldlog.domain.edits import SetText
from foldlog.domain.history.boundary import Boundary
from foldlog.domain.passes import protection
from foldlog.domain.passes.protection import protected
from foldlog.storage.protocol import open_log
from support.hosts import WRITERS, Round

MODEL = "claude-sonnet-4-5"


def tokens(text: str) -> int:
    """Count tokens cheaply."""
    return (len(text) + 3) // 4


@dataclass(frozen=True)
class Script:
    """``rounds`` and what happens beside them, by the number of the round behind whose request it happens.

    ``mark``: names of parts the agent marks. ``summary``: the round before which a summary ends. ``do``: one of
    ``flush``, ``loss``, ``not_processed``, ``overflow``. ``usage``: a share of the window in per cent that the
    provider counts instead of what it would. ``model``, ``system``: from then on.
    """

    rounds: list[Round]
    window: int = 60_000
    mode: str = "primary"
    policy: dict[str, Any] = field(default_factory=dict)
    model: str = MODEL
    mark: dict[int, list[str]] = field(default_factory=dict)
    summary: dict[int, int] = field(default_factory=dict)
    do: dict[int, str] = field(default_factory=dict)
    usage: dict[int, int] = field(default_factory=dict)
    models: dict[int, str] = field(default_factory=dict)
    systems: dict[int, str] = field(default_factory=dict)


Row = dict[str, Any]


class _Fixed:
    """Summarises whatever it reads in the same words."""

    name, free = "fixed", False

    def __call__(self, job: Job) -> Summarised:
        piece = Summary(job.start, job.end, "What was done", ("It went well. " * 40, "It went well.", "", ""), 50)
        return Summarised((piece,), "", 0, 0, self.name)


class Player:
    """Plays ``script`` through ``codec``. ``told``: the usage each request is answered with, None to make it up."""

    def __init__(self, script: Script, codec: str, told: list[int] | None = None) -> None:
        self.script, self.codec, self.told = script, codec, told
        self.usage: list[int] = []
        self.rows: list[Row] = []
        self.labels: list[str] = [""]
        self.starts: list[int] = []
        self.messages: list[bytes] = []
        self.kept: list[int] = []
        clock = counting(1_700_000_000_000, 5)
        self.engine = foldlog.Engine(open_log("memory:"), tokens, "test", lambda: next(clock))
        self.model, self.system = script.model, "You work in a repository."

    def session(self) -> foldlog.Session:
        return self.engine.session(
            "s", codec=self.codec, mode=self.script.mode, model=self.model, context_limit=self.script.window,
            policy={"protected_tokens": 4_000, **self.script.policy},
        )  # fmt: skip

    def play(self) -> list[Row]:
        """Return a row a pass."""
        for one in self.script.rounds:
            written = WRITERS[self.codec](one, tokens)
            self.starts.append(len(self.messages))
            self.messages += written.messages
            self.labels += written.labels
            self.step(one)
        return self.rows

    def step(self, one: Round) -> None:
        number, script = one.number, self.script
        self.model = script.models.get(number, self.model)
        self.system = script.systems.get(number, self.system)
        session = self.session()
        self.kept = []
        try:
            with patch.object(protection, "protected", self.protected):
                request = session.prepare(self.messages, system=self.system, now=one.at / 1000)
        except foldlog.Refused as refused:
            self.rows.append({"round": number, "refused": refused.code})
            return
        self.rows.append(self.row(number, request))
        doing = script.do.get(number, "")
        if doing in ("not_processed", "overflow"):
            limit = {"limit": script.window} if doing == "overflow" else {}
            request.report_failure(doing, **limit)
        else:
            self.answer(number, request)
        if doing == "flush":
            session.flush()
        elif doing == "loss":
            session.report_cache_loss("said so")
        if number in script.mark:
            numbers = [i for i, label in enumerate(self.labels) if label in set(script.mark[number])]
            if numbers:
                self.reduce(session, numbers)
        if number in script.summary:
            self.summarise(session, script.summary[number])

    def protected(self, *given: Any, **named: Any) -> frozenset[int]:
        """Protect as the engine does, and keep what: it hangs on a host's own counts (PAR-5)."""
        found = protected(*given, **named)
        self.kept = sorted(found)
        return found

    def reduce(self, session: foldlog.Session, numbers: list[int]) -> None:
        try:
            session.reduce(",".join(map(str, numbers)))
        except foldlog.UnknownTag as error:  # a summary took it: no marking any more
            self.rows[-1]["unknown"] = type(error).__name__

    def answer(self, number: int, request: foldlog.Request) -> None:
        if self.told is not None:
            total = self.told[len(self.usage)]
        elif number in self.script.usage:
            total = self.script.window * self.script.usage[number] // 100
        else:
            total = request._produced.event.tokens * 11 // 10
        self.usage.append(total)
        request.report_usage(input=total // 10, cache_read=total - total // 10, cache_write=0, output=50)

    def summarise(self, session: foldlog.Session, until: int) -> None:
        """Publish a summary of all rounds before ``until`` that none covers yet."""
        core = session.core
        state = core.hot().state
        offset, end = _offset(state), self.starts[until] + 1
        if end <= offset:
            return
        historian = Historian(_Fixed(), tokens, inline=True)
        work = historian._start(core, state, Boundary(offset, end, end, "size-walk", False, 0, 0, False, 0, 100))
        assert work is not None
        historian._summarise(work)
        with core.lock:
            historian._publish(core, work)
        historian.close()
        assert core.hot().state.compartments, "nothing was published"

    def names(self, numbers: Any) -> list[str]:
        return [self.labels[number] for number in numbers]

    def row(self, number: int, request: foldlog.Request) -> Row:
        event: Any = request._produced.event
        decision = event.decision
        row: Row = {"round": number, "level": request.level, "why": list(request.reasons)}
        for divergence in [event.divergence] if event.divergence else []:
            row["divergence"] = divergence.cause
        if decision is not None:
            row |= {
                "schedule": decision.schedule,
                "percent": decision.percent,
                "source": decision.source,
                "signals": list(decision.signals),
                "permission": decision.permission,
                "held": decision.held,
                "drainable": decision.drainable,
            }
            row["lanes"] = {
                did.lane: (did.landed, did.items, self.names(n for a, b in did.tags for n in range(a, b + 1)))
                for did in decision.lanes
            }
        row["kept"] = set(self.names(self.kept))
        if not isinstance(event, ev.PassDeferred):
            row["landed"] = {self.labels[n]: mode for n, mode in event.landed}
            row["adopted"] = (event.adopted.floor, event.adopted.execute, event.adopted.force)
        said = list(event.inserts)
        words = [e for arrival in event.arrivals for e in arrival.edits if isinstance(e, SetText)]
        row["words"] = sorted({e.kind for e in words} | {"message" for _ in said})
        return row
