"""Write the golden log of the events as they are now: ``python tests/golden/make.py --write``.

Run it only until the first release (see the failure message of ``test_golden.py``). Without ``--write`` it says whether
the committed file is what it would write. Everything is fixed: the clock, the command ids, the messages.
"""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

import foldlog.engine
from foldlog.api import Engine
from foldlog.domain import edits as e
from foldlog.domain import events as ev
from foldlog.domain.errors import Refused
from foldlog.domain.session import evolve
from foldlog.domain.transcript import Media, Message, Result, Text
from foldlog.projections import view as views
from foldlog.projections.fold import load
from foldlog.projections.intake import Reader
from foldlog.projections.wire import CURRENT
from foldlog.storage.protocol import Chunk, Log
from foldlog.storage.stores import open_store
from support import chaos, golden

FILE = golden.FOLDER / "v1.jsonl"
AT = 1_767_600_000_000
PROJECT = "project/golden"
WRITTEN = "session/golden/written"
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def main() -> int:
    log = open_store("memory:")
    foldlog.engine.secrets = _Ids()  # type: ignore[assignment]  # fixed ids in place of random ones
    streams = [*played(log), *written(log), knowledge(log)]
    text = "\n".join(golden.lines(log, streams)) + "\n"
    if "--write" in sys.argv:
        FILE.write_text(text, encoding="ascii")
        print(f"{FILE.name}: {len(text)} bytes, {len(streams)} streams")
        return 0
    same = FILE.exists() and FILE.read_text(encoding="ascii") == text
    print(f"{FILE.name} is what this program writes" if same else f"{FILE.name} differs from what this program writes")
    return 0 if same else 1


class _Ids:
    def __init__(self) -> None:
        self._next = itertools.count(1)

    def token_urlsafe(self, size: int) -> str:
        return f"id-{next(self._next):06}"


# ------------------------------------------------------------- sessions that were played


def played(log: Log) -> list[str]:
    """Play short sessions of every codec through the engine, with everything a host can do."""
    found = []
    for codec, seed in (("anthropic", 11), ("openai-chat", 12), ("pi", 13)):
        script = chaos.script(seed, 14, codec)
        clock = itertools.count(AT, 1000)
        engine = Engine(log, chaos.count, "rough", clock.__next__)
        session = engine.session("played", harness=codec, codec=codec, model=script.model, context_limit=chaos.WINDOW)
        request = None
        prepared = [call for call in script.calls if call.kind == "prepare"]
        for number, call in enumerate(prepared):
            if number == 5:
                session.reduce("2-3,5", "call-1")
            if number == 6:
                session.flush("flush-1")
            if number == 9:
                session = engine.session("played", harness=codec, codec=codec, policy={"cache_ttl": "1h"})
            if number == 11:
                session.report_cache_loss("said so")
            tools = script.tools if number < 10 else b"[]"
            system = script.system if number < 12 or codec == "openai-chat" else b'"another one"'
            request = session.prepare(list(call.messages), system=system, tools=tools, now=call.now)
            if number % 3 == 0:
                request.report_usage(input=3, cache_read=900, cache_write=40, output=50, now=call.now + 2)
            if number == 4:
                request.report_failure("not_processed", detail="529")
        array = list(prepared[-1].messages)
        now = prepared[-1].now
        border = max(n for n in range(len(array) - 1) if _said(array[n]) and not _said(array[n - 1]))
        grown = [*array[:-1], chaos.grown(array[-1])] if codec == "anthropic" else [*array, *ODD[codec]]
        session.prepare(grown, now=now + 3)
        beside = [*array[:border], _user(codec, "another question")]
        session.prepare(beside, now=now + 5)  # beside the head; gone on with, it becomes the head
        session.prepare([*beside, _assistant(codec, "another answer"), _user(codec, "ah")], now=now + 6)
        session.prepare(grown, now=now + 9)  # and back
        assert request is not None
        fork = session.fork("forked")
        fork.prepare([*grown, _assistant(codec, "so be it"), _user(codec, "go on")], now=now + 20)
        last = session.prepare([*grown, _assistant(codec, "yes"), _user(codec, "more")], now=now + 30)
        last.report_failure("overflow", limit=1_100, used=5_000)
        try:
            array = [*grown, _assistant(codec, "yes"), _user(codec, "more"), _user(codec, "again")]
            session.prepare(array, now=now + 40)
        except Refused as refused:
            print(f"{codec}: {refused.code}")
        found += [f"session/{codec}/played", f"session/{codec}/forked"]
    return found


ODD = {
    "openai-chat": [b'{"role":"system","content":"be brief"}', b'{"role":"user","content":"and this"}'],
    "pi": [
        b'{"role":"bashExecution","command":"ls","output":"a.py","exitCode":0,"cancelled":false,"truncated":false,"timestamp":1}',
        b'{"role":"user","content":[{"type":"text","text":"and this"}],"timestamp":2}',
    ],
}
"""Roles that only these hosts have."""


def _said(raw: bytes) -> bool:
    return bool(msgspec.json.decode(raw)["role"] == "assistant")


def _user(codec: str, text: str) -> bytes:
    content: Any = [{"type": "text", "text": text}] if codec != "openai-chat" else text
    return msgspec.json.encode({"role": "user", "content": content})


def _assistant(codec: str, text: str) -> bytes:
    content: Any = [{"type": "text", "text": text}] if codec != "openai-chat" else text
    return msgspec.json.encode({"role": "assistant", "content": content})


# ------------------------------------------------------- a session that was written by hand


def written(log: Log) -> list[str]:
    """Write a session that holds what no engine of today produces: every edit, every event."""
    pen = _Pen(log)
    pen.add(ev.SessionOpened(AT, "id-open", "golden", "written", "anthropic", "primary", True, CURRENT, "rough"))
    pen.add(ev.ModelChanged(AT, "", "claude-x", 200_000, 32_000))
    system = pen.keep(b'"You are careful."')
    pen.add(ev.SystemChanged(AT, "", system, sha256(b"system").digest()[:16], 5))
    first = [
        {"role": "user", "content": [{"type": "text", "text": "look at this"}, PICTURE]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "reading"},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a.py", "limit": 3}},
                {"type": "tool_use", "id": "t2", "name": "read", "input": {"path": "b.py"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "one"}, PICTURE]},
                {"type": "tool_result", "tool_use_id": "t2", "content": "two", "is_error": True},
                {"type": "text", "text": "and?"},
            ],
        },
        {
            "role": "assistant",
            "content": [{"type": "redacted_thinking", "data": "AAAA"}, {"type": "text", "text": "so"}],
        },
        {"role": "user", "content": "a plain ask"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "long", "signature": "c2ln"},
                {"type": "tool_use", "id": "t3", "name": "run", "input": {"cmd": "make"}},
                {"type": "tool_use", "id": "t4", "name": "run", "input": {"cmd": "make test"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t3", "content": "built"},
                {"type": "tool_result", "tool_use_id": "t4", "content": "passed"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "done"}, {"type": "text", "text": " "}]},
        {"role": "user", "content": [{"type": "text", "text": "thanks"}, {"type": "text", "text": "next"}, PICTURE]},
        {"role": "assistant", "content": "what else"},
        {"role": "user", "content": "this"},
    ]
    observed = pen.observe(first)
    head = pen.keep(b"<session-history></session-history>")
    since = pen.keep(b"<session-history-since>(nothing)</session-history-since>")
    guidance = pen.keep(b"# Numbers\n\nParts carry numbers.")
    fold = {"cut": 0, "m0": (head,), "m1": (since,), "guidance": guidance, "head_tokens": 20}
    pen.rebuild(ev.BaselineFolded, observed, (), **fold, reasons=("first_render",))

    # Deferred: texts on what is new, units behind it, frozen blanks.
    observed = pen.observe(
        [
            {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}]},
            {"role": "user", "content": "b"},
        ]
    )
    a, b = (arrival.m for arrival in observed)
    observed = [
        msgspec.structs.replace(observed[0], edits=(e.SetTrail(a, 0),)),
        msgspec.structs.replace(
            observed[1],
            edits=(
                e.SetText(b, 0, "pre", "time", pen.keep(b"[12:00] ")),
                e.SetText(b, 0, "post", "nudge", pen.keep(b" (mark what is spent)")),
            ),
        ),
    ]
    arc = pen.keep(b'{"id":"ours1","name":"ctx_search","input":{"q":"x"},"output":"found"}')
    units = (e.Insert(b, 0, "hint-1", "text", pen.keep(b"a hint")), e.Insert(b, 0, "arc-1", "arc", arc, "assistant"))
    pen.defer(observed, units)

    # A last-good replay, and the pass of the same transaction.
    replayed = pen.observe([{"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}])
    hidden = tuple(msgspec.structs.replace(one, tags=tuple(-abs(tag) for tag in one.tags)) for one in replayed)
    pen.send(ev.LastGoodReplayed(pen.now(), "", pen.number(), pen.now(), CURRENT, pen.base(), hidden, b"", 30))
    pen.defer(pen.observe([{"role": "assistant", "content": "e"}, {"role": "user", "content": "f"}]), ())

    short = pen.keep(b"shortened")
    marker = pen.keep(b'{"path":"a.py","note":"edited since"}')
    every = (
        e.SetBody(1, 0, "text", short), e.SetMedia(1, 1, "strip"), e.SetThink(2, 0, "cleared"),
        e.SetText(2, 1, "pre", "note", pen.keep(b"(note) ")), e.SetText(2, 1, "post", "hint", pen.keep(b" (hint)")),
        e.SetBody(2, 2, "marker", marker), e.SetBody(2, 3, "skeleton"), e.SetBody(3, 1, "placeholder"),
        e.SetMedia(3, 0, "strip"), e.SetThink(4, 0, "absent"), e.SetBody(5, 0, "placeholder"),
        e.SetThink(6, 0, "absent"), e.SetBody(6, 1, "absent"), e.SetBody(7, 0, "absent"),
        e.SetBody(9, 0, "empty"), e.SetTag(9, 1, 0), e.SetShape(10, "shell", short), e.SetShape(11, "absent"),
    )  # fmt: skip
    pen.rebuild(ev.ConversationRebuilt, [], every, landed=((3, "full"), (5, "skeleton_real"), (8, "placeholder")))

    since = pen.keep(b"<session-history-since>compartment 1</session-history-since>")
    pins = (ev.Pin(PROJECT, 2, bytes(range(32))),)
    units = (e.Insert(13, 0, "hint-1", "none"), e.Insert(13, 0, "arc-1", "arc", arc))
    back = (e.SetShape(10, "keep"), e.SetMedia(3, 0, "keep"), e.SetThink(2, 0, "keep"), e.SetTag(9, 1, 9))
    pen.rebuild(
        ev.HistoryRefreshed, [], back, units, m1=(since,), cut=3, head_tokens=25, pins=pins,
        divergence=None, landed=(),
    )  # fmt: skip
    fold |= {"m0": (head, since), "cut": 3}
    pen.rebuild(ev.BaselineFolded, [], (e.SetBody(1, 0, "raw"),), **fold, reasons=("ttl_idle",), pins=pins)
    summaries(pen)
    odd = msgspec.structs.replace(pen.folded.state.node(5).message, role="other")  # a role no codec of wire 1 gives
    pen.add(ev.MessagesObserved(pen.now(), "id-odd", 4, (odd,), True))
    unknown = {"type": "server_note", "about": "a block nobody knows"}
    said = {"role": "assistant", "content": [{"type": "text", "text": "g"}, unknown]}
    pen.defer(pen.observe([said, {"role": "user", "content": "h"}]), ())
    return [WRITTEN]


def summaries(pen: _Pen) -> None:
    """Write events no decision reads yet."""
    tiers = tuple(pen.keep(f"tier {n}".encode()) for n in range(4))
    told = ev.Compartment(1, 1, 3, pen.keep(b"Reading"), tiers, (9, 7, 5, 3), 60)  # type: ignore[arg-type]  # four of them
    now = pen.now()
    pen.add(
        ev.HistorianStarted(now, "id-hs", "run-1", 1, 3, bytes(16), "one", now + 60_000),
        ev.HistorianPublished(now, "id-hp", "run-1", (told,), (pen.keep(b"a fact"),), (pen.keep(b"an event"),), (1,)),
        ev.HistorianStarted(now, "id-hs2", "run-2", 4, 5, bytes(16), "one", now + 60_000),
        ev.HistorianFailed(now, "id-hf", "run-2", "timeout", pen.keep(b"no answer")),
        ev.CompartmentsReplaced(now, "id-cr", (1,), (told,)),
        ev.HostCompacted(now, "id-hc", 2),
        ev.SessionClosed(now, "id-sx", "the person left"),
        ev.RecompRequested(now, "id-rr", "all"),
        ev.WrapupRequested(now, "id-wr", 4),
        ev.PurgeRequested(now, "id-pq", "chunks", (bytes(32),)),
        ev.HeadLost(now, "id-hl", 40, 38),
    )


class _Pen:
    """Appends events to one stream; requests are rendered to seal their passes."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.folded = load(log, WRITTEN)
        self.texts: dict[bytes, bytes] = {}
        self.reader = Reader(chaos.count)
        self.waiting: list[ev.Event] = []

    def keep(self, data: bytes) -> bytes:
        digest = sha256(data).digest()
        self.texts[digest] = data
        return digest

    def now(self) -> int:
        return AT + 60_000 * (self.folded.state.version + 1)

    def number(self) -> int:
        return self.folded.state.passes + 1

    def base(self) -> int:
        return self.folded.state.base

    def add(self, *events: ev.Event) -> None:
        """Take events into the folds; they are appended with the pass that follows them."""
        for event in events:
            evolve(self.folded.state, self.folded.state.version + 1, event)
            views.evolve(self.folded.view, event, self.folded.state.pos)
            self.waiting.append(event)

    def observe(self, messages: Sequence[dict[str, Any]]) -> list[e.Arrival]:
        """Record messages behind the last one and return their arrivals, parts numbered on."""
        state = self.folded.state
        read: list[Message] = []
        for index, message in enumerate(messages):
            raw = msgspec.json.encode(message)
            self.keep(raw)
            read.append(self.reader.read(state, raw, index).message)
        after, number, arrivals = state.end(), len(state.tags), []
        self.add(ev.MessagesObserved(self.now(), "", after, tuple(read)))
        for m, message in enumerate(read, len(state.nodes) - len(read) + 1):
            tags = []
            for part in message.parts:
                numbered = isinstance(part, Result | Media) or (isinstance(part, Text) and not part.blank)
                number += numbered
                tags.append(number if numbered else 0)
            arrivals.append(e.Arrival(m, 0, tuple(tags)))
        return arrivals

    def defer(self, arrivals: Iterable[e.Arrival], inserts: tuple[e.Insert, ...]) -> None:
        self.send(
            ev.PassDeferred(
                self.now(), "", self.number(), self.now(), CURRENT, self.base(), tuple(arrivals), inserts, b"", 40
            )
        )

    def rebuild(
        self,
        kind: Any,
        arrivals: Iterable[e.Arrival],
        edits: tuple[e.Edit, ...],
        inserts: tuple[e.Insert, ...] = (),
        landed: tuple[tuple[int, str], ...] = (),
        divergence: ev.Divergence | None = None,
        **more: Any,
    ) -> None:
        decision = ev.Decision(
            "pressure", 7_000, "provider", ("own_worth",), True, 0, False, 120, ev.Price(120, 400, 230)
        )
        self.send(
            kind(
                at=self.now(), cmd="", number=self.number(), now=self.now(), wire=CURRENT, base=self.base(),
                arrivals=tuple(arrivals), inserts=inserts, digest=b"", tokens=300, divergence=divergence,
                decision=decision, edits=edits, landed=landed, adopted=ev.Adopted(2_400, 1_100, 6_500, 8_500), **more,
            )
        )  # fmt: skip

    def send(self, event: Any) -> None:
        """Append what waits and ``event``, sealed with the digest of the request it makes."""
        trial = copy.deepcopy(self.folded)
        evolve(trial.state, trial.state.version + 1, event)
        views.evolve(trial.view, event, trial.state.pos)
        built = golden.project(trial, event, self.log, self.texts)
        self.add(msgspec.structs.replace(event, digest=built.digest))
        expected = self.folded.state.version - len(self.waiting)
        self.log.append(WRITTEN, expected, self.waiting, [Chunk(name, data) for name, data in self.texts.items()])
        self.waiting = []


# ----------------------------------------------------------------------- other streams


def knowledge(log: Log) -> str:
    doc = b"# The project\n"
    events = [
        ev.DocsObserved(AT, "id-kd", (("README.md", sha256(doc).digest()),)),
        ev.EpochBumped(AT, "id-ke", "edited in the dashboard"),
        ev.TaskStarted(AT, "id-us", "index", "one", AT + 60_000),
        ev.TaskFinished(AT, "id-uf", "index", "one"),
    ]
    log.append(PROJECT, 0, events, [Chunk(sha256(doc).digest(), doc)])
    return PROJECT


if __name__ == "__main__":
    sys.exit(main())
