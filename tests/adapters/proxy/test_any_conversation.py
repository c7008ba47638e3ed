"""Any conversation of a client: what is sent is the request the log tells of, whatever way the client goes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from checker.base import broken_rules
from hypothesis import example, given, settings
from hypothesis import strategies as st

import foldlog
from foldlog.adapters.historian import Historian
from foldlog.adapters.models.summarizers import Extractive
from foldlog.adapters.models.tokens import ENCODING, tokenizer
from foldlog.adapters.proxy.protocols import protocol_for
from foldlog.adapters.proxy.protocols.base import Usage
from foldlog.adapters.proxy.sessions import Admitted, Opening, Prepared, Sessions
from foldlog.api import wall_clock
from foldlog.domain.errors import Refused, StoreBusy
from foldlog.storage.stores import open_store
from support.machine_store import Watched
from support.talk import words
from support.three_wires import MEMBERS, PATHS, answer, broken, function, prompt, unmarked

WINDOW = 20_000
MOVES = (
    "answer", "answer", "answer", "prompt", "back", "again", "anew", "system", "title", "drop", "full", "restart",
    "busy",
)  # fmt: skip
MOVE = st.tuples(st.sampled_from(MOVES), st.integers(0, 3))


class Client:
    """A client with a conversation, and the proxy's registry over one store."""

    def __init__(self, wire: str, named: bool) -> None:
        self.wire, self.member = wire, MEMBERS[wire]
        self.protocol = protocol_for("POST", PATHS[wire])
        self.headers = {"x-session-id": "it"} if named else {"user-agent": "curl/8"}
        self.messages, self.number, self.system = [prompt(wire, "hello")], 0, "Be brief."
        self.last: Any = None
        self.log = Watched(open_store("memory:"))
        self.start()

    def start(self) -> None:
        summaries = Historian(Extractive(tokenizer()), tokenizer(), inline=True)
        self.engine = foldlog.Engine(self.log, tokenizer(), ENCODING, wall_clock, summaries)
        self.sessions = Sessions(self.engine, self.open)

    def open(self, asked: Opening) -> foldlog.Session:
        return self.engine.session(asked.id, asked.harness, asked.codec, asked.model, WINDOW, mode=asked.mode)

    def body(self, messages: list[Any], **members: Any) -> dict[str, Any]:
        made = {"model": "m", "max_tokens": 99, "tools": [function(self.wire)], self.member: messages}
        if self.wire == "openai":
            made["messages"] = [{"role": "system", "content": self.system}, *messages]
        else:
            made["system" if self.wire == "anthropic" else "instructions"] = self.system
        return {**made, **members}

    def move(self, kind: str, much: int) -> None:
        """Go on in some way, then send."""
        if kind in ("answer", "busy"):
            self.number += 1
            number, out = self.number, words(60 * self.number % 700, f"out{self.number}") + "."
            ids = [f"call_{number}_{n}" for n in range(much)]
            self.messages = [*self.messages, *answer(self.wire, f"answer {number}", ids, out, f"go on {number}")]
        elif kind == "prompt":
            self.messages = [*self.messages, prompt(self.wire, f"and {much}")]
        elif kind == "back":
            places = [i for i, one in enumerate(self.messages) if "go on" in json.dumps(one)]
            if places:
                self.messages = [*self.messages[: places[-1 - much % len(places)]], prompt(self.wire, "another way")]
        elif kind == "anew":
            self.messages = [prompt(self.wire, f"a summary {much}")]
        elif kind == "system":
            self.system = f"Be brief. {much}"
        elif kind == "restart":
            self.last = None
            self.start()
        elif kind == "drop" and self.last is not None:
            total = len(self.last.session.core.hot().state.tags)
            self.last.session.reduce(f"{max(total - much, 1)}-{total}")
        elif kind == "full" and self.last is not None:
            self.last.report_error(400, f"prompt is too long: {WINDOW + much} tokens > {WINDOW} maximum")
        self.log.down = kind == "busy"
        self.send(self.messages, {"tools": []} if kind == "title" else {})
        self.log.down = False

    def prepared(self, admitted: Admitted) -> Prepared | None:
        try:
            return self.sessions.prepare(admitted)
        except StoreBusy:
            return self.sessions.last_good(admitted)

    def send(self, messages: list[Any], members: dict[str, Any]) -> None:
        body = self.body(messages, **members)
        admitted = self.sessions.admit(self.protocol, self.headers, json.dumps(body).encode())
        try:
            if admitted.managed is None:
                return
            prepared = self.prepared(admitted)
            if prepared is None:
                return
            self.last, sent, built = prepared.request, json.loads(prepared.data), prepared.request.built
            wanted = [unmarked(json.loads(raw)) for raw in built.messages]
            assert [unmarked(one) for one in sent[self.member]] == wanted, "PROXY-11: another request was sent"
            excused = broken_rules(broken(self.wire, body))
            assert not [one for one in broken(self.wire, sent) if one.rule not in excused], "PROP-2"
            if not self.log.down:
                self.last.report_usage(input=len(prepared.data) // 4, cache_read=0, cache_write=0, output=9)
                admitted.managed.answered(Usage())
        except Refused:
            self.messages = [*self.messages[:1], prompt(self.wire, f"less {self.number}")]
        finally:
            self.sessions.done(admitted)


@pytest.mark.rule("PROXY-11", "PROP-2")
@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(PATHS)), st.booleans(), st.lists(MOVE, min_size=3, max_size=25))
@example("anthropic", True, [("full", 0), ("prompt", 0), ("answer", 0), ("answer", 0), ("back", 0)])  # beside the head
def test_what_is_sent_is_the_request_of_the_log(wire: str, named: bool, moves: list[tuple[str, int]]):
    client = Client(wire, named)
    client.send(client.messages, {})
    for kind, much in moves:
        client.move(kind, much)
    for name, _ in client.engine.sessions():
        assert [one for one in client.engine.audit(name).differences if one.kind != "wire"] == []
