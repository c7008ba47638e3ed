"""Which session a request belongs to, and what is sent for it."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
from checker import anthropic as rules

import foldlog
from foldlog.adapters.proxy.protocols import protocol_for
from foldlog.adapters.proxy.protocols.base import Usage
from foldlog.adapters.proxy.sessions import Admitted, Opening, Sessions
from foldlog.domain import events as ev
from support.wires import RUNS, sent

TOOL = {"name": "Bash", "description": "runs", "input_schema": {"type": "object", "properties": {}}}
NOBODY = {"user-agent": "curl/8"}


class Door:
    """A registry over one store, as the proxy uses it; ``restart`` is a new process."""

    def __init__(self, url: str, limit: int = 1 << 30) -> None:
        self.url = url
        self.limit = limit
        self.start()

    def start(self) -> None:
        self.engine = foldlog.Engine.open(self.url, summarizer=None)
        self.sessions = Sessions(self.engine, self.open, self.limit)

    def restart(self) -> None:
        self.engine.close()
        self.start()

    def open(self, asked: Opening) -> foldlog.Session:
        return self.engine.session(
            asked.id,
            harness=asked.harness,
            codec=asked.codec,
            model=asked.model,
            mode=asked.mode,
            context_limit=200_000,
        )

    def admit(self, headers: dict[str, str] = NOBODY, path: str = "/v1/messages", **members: Any) -> Admitted:
        members = {"model": "claude-x", "system": "Be brief.", "tools": [TOOL], "max_tokens": 99} | members
        return self.sessions.admit(protocol_for("POST", path), headers, json.dumps(members).encode())

    def send(self, messages: list, headers: dict[str, str] = NOBODY, **members: Any) -> tuple[str, dict]:
        admitted = self.admit(headers, messages=messages, **members)
        try:
            name = admitted.managed.name if admitted.managed else admitted.caller.kind
            if admitted.managed is None:
                return name, json.loads(admitted.body.raw)
            prepared = self.sessions.prepare(admitted)
            assert admitted.managed.outgoing.messages() == list(prepared.request.built.messages)
            return name, json.loads(prepared.data)
        finally:
            self.sessions.done(admitted)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    made = Door(f"sqlite:///{tmp_path / 'store.db'}")
    yield made
    made.engine.close()


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def says(text: str) -> dict:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def step(n: str, out: str = "out") -> list[dict]:
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": f"toolu_{n}", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": f"{out} {n}"}]},
    ]


@pytest.mark.rule("PROXY-9")
def test_two_unnamed_sessions_that_begin_alike_never_mix(door):
    hello = [user("hello")]
    first, _ = door.send(hello)
    door.sessions.all()[-1].answered(Usage(calls=(("toolu_a1", "Bash"),)))
    a, b = [*hello, *step("a1")], [*hello, *step("b1")]
    other, _ = door.send(hello, system="Be brief. /home/other")
    assert other != first
    second, _ = door.send(b)
    assert second != first  # the answer it holds is not the one that session got
    assert door.send(a)[0] == first
    for n in range(2, 5):
        a, b = [*a, *step(f"a{n}")], [*b, *step(f"b{n}")]
        assert door.send(b)[0] == second
        assert door.send(a)[0] == first
    third, _ = door.send(hello)
    assert third not in {first, second}  # both have gone on: a new conversation that begins alike


@pytest.mark.rule("PROXY-9")
def test_an_unnamed_session_is_found_again_after_a_restart_and_a_rewind(door):
    path = [user("hello")]
    name, _ = door.send(path)
    for n in range(4):
        path = [*path, *step(f"a{n}")]
        assert door.send(path)[0] == name
    stranger = [user("hello"), *step("z")]
    other, _ = door.send(stranger)
    assert other != name
    door.restart()
    path = [*path, *step("a4")]
    assert door.send(path)[0] == name
    assert door.send([*stranger, *step("z2")])[0] == other
    assert door.send(path[:7])[0] == name  # the last answers are asked for again
    assert door.send([*path[:5], user("go on")])[0] == name  # two answers shared, left at a prompt
    assert door.send([*path[:5], says("No."), user("another way")])[0] != name  # an answer it never got


@pytest.mark.rule("PROXY-9")
def test_a_first_message_written_anew_does_not_make_a_new_session(door):
    path = [user("It is Monday. hello"), *step("a"), *step("b")]
    name, _ = door.send(path)
    assert door.send([user("It is Tuesday. hello"), *path[1:], *step("c")])[0] == name
    assert door.send([user("It is Tuesday. hello"), *path[1:3]])[0] != name  # one answer in common is too little


@pytest.mark.rule("PROXY-9")
def test_marks_forms_and_key_order_do_not_make_another_session(door):
    name, _ = door.send([user("hello")])
    marked = {
        "content": [{"text": "hello", "type": "text", "cache_control": {"type": "ephemeral"}}],
        "role": "user",
    }
    assert door.send([marked, *step("a1")])[0] == name
    chat = {"path": "/v1/chat/completions"}
    told = [{"role": "system", "content": "s"}, user("hello")]
    admitted = door.admit(messages=told, **chat)
    assert admitted.managed.name not in name
    door.sessions.prepare(admitted)


@pytest.mark.rule("PROXY-6")
def test_a_call_without_tools_beside_a_session_with_tools_touches_nothing(door):
    named = {"x-session-id": "ses_1"}
    path = [user("hello"), *step("1")]
    door.send(path, named)
    version = door.engine.sessions()
    assert door.send([user("Name this conversation: hello")], named, tools=[])[0] == "helper"
    assert door.engine.sessions() == version
    assert door.send([*path, *step("2")], named, tools=[])[0] == "proxy/ses_1"


@pytest.mark.rule("PROXY-6")
def test_a_call_of_a_system_text_alone_is_beside_the_conversation(door):
    named, path = {"x-session-id": "ses_1"}, "/v1/chat/completions"
    system = {"role": "system", "content": "Be brief."}
    tools = [{"type": "function", "function": {"name": "Bash"}}]
    first = door.admit(named, path, messages=[system, user("hello")], tools=tools)
    door.sessions.prepare(first)
    door.sessions.done(first)
    version = door.engine.sessions()
    assert door.admit(named, path, messages=[system], tools=[]).caller.kind == "helper"
    assert door.engine.sessions() == version


@pytest.mark.rule("PROXY-6")
def test_a_call_that_keeps_the_cache_warm_is_the_sessions_own_request_again(door):
    named = {"x-session-id": "ses_1"}
    path = [user("hello"), *step("1")]
    _, real = door.send(path, named)
    version = door.engine.sessions()
    _, warm = door.send(path, named, max_tokens=1)
    assert warm == real | {"max_tokens": 1}
    assert door.engine.sessions() == version


@pytest.mark.rule("PROXY-45")
def test_two_first_requests_at_once_are_of_one_session(door, monkeypatch):
    both, real = threading.Barrier(2), door.sessions._speaks

    def speaks(*given: Any) -> str:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.2)  # were both let in, each would find none and begin one of its own
        return real(*given)

    monkeypatch.setattr(door.sessions, "_speaks", speaks)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(door.admit, {"x-session-id": "ses_1"}, messages=[user(text)]) for text in ("one", "two")]
        first, second = (one.result() for one in asked)
    assert first.managed is second.managed
    assert first.managed.users == 2
    assert door.sessions.all() == [first.managed]


@pytest.mark.rule("T30", "PROXY-3")
@pytest.mark.parametrize(
    "changed",
    [
        {"thinking": {"type": "enabled", "budget_tokens": 9_000}}, {"temperature": 0.5}, {"max_tokens": 50},
        {"output_config": {"effort": "high"}}, {"tool_choice": {"type": "any"}},
    ],
    ids=lambda changed: next(iter(changed)),
)  # fmt: skip
def test_what_is_asked_for_beside_the_messages_triggers_nothing(door, changed):
    hello = [user("hello")]
    name, first = door.send(hello)
    other, second = door.send([*hello, says("ok"), user("go on")], **changed)
    assert other == name
    (stream,) = [one for one, _ in door.engine.sessions()]
    last = list(door.engine.log.read(door.engine.find(stream)))[-1].event
    assert isinstance(last, ev.PassDeferred)
    assert last.decision is None
    assert second["messages"][:2] == first["messages"][:2]


@pytest.mark.rule("PROXY-5")
def test_subagents_are_sessions_of_their_own(door):
    named = {"x-claude-code-session-id": "s", "user-agent": "claude-cli/2"}
    door.send([user("main")], named)
    name, request = door.send([user("look")], named | {"x-claude-code-agent-id": "a1"})
    assert name == "claude-code/s:a1"
    assert len(request["messages"]) == 1  # no head
    assert door.engine.session("s:a1", harness="claude-code").status().mode == "subagent"
    inner = named | {"x-claude-code-request-class": "subagent"}
    one, two = door.send([user("find x")], inner)[0], door.send([user("find y")], inner)[0]
    assert len({name, one, two, "claude-code/s"}) == 4
    door.restart()
    assert door.send([user("find x"), *step("q")], inner)[0] == one


@pytest.mark.rule("PROXY-4")
def test_a_client_that_changes_the_api_in_a_session_goes_on_under_a_name_beside(door):
    named = {"x-session-id": "ses_1"}
    path = [user("hello"), *step("1")]
    assert door.send([user("hello")], named)[0] == "proxy/ses_1"
    chat = {"path": "/v1/chat/completions", "messages": [user("hello"), *chat_step("1")]}
    for _ in range(2):
        admitted = door.admit(named, **chat)
        door.sessions.prepare(admitted)
        door.sessions.done(admitted)
        assert admitted.managed.name == "proxy/ses_1.openai-chat"
        door.restart()
    assert door.send(path, named)[0] == "proxy/ses_1"


@pytest.mark.rule("PROXY-10")
def test_sessions_no_request_uses_are_put_away_and_come_back(door):
    door.limit = door.sessions._limit = 0
    path = [user("hello")]
    for n in range(3):
        name, sent_now = door.send(path, {"x-session-id": "ses_1"})
        assert door.sessions.all() == []
        path = [*path, *step(f"{n}")]
    assert name == "proxy/ses_1"
    assert sent_now["messages"][-1]["content"][0]["content"].endswith("out 1")
    held = door.admit({"x-session-id": "ses_1"}, messages=path)
    door.send(path, {"x-session-id": "ses_2"})
    assert [one.name for one in door.sessions.all()] == ["proxy/ses_1"]  # in use
    door.sessions.done(held)
    assert door.sessions.all() == []


@pytest.mark.rule("PROXY-3", "PROXY-11", "PROXY-12")
@pytest.mark.parametrize("run", [run for run in RUNS if not run.startswith("codex")])
def test_recorded_hosts_are_served(door, run):
    """Valid, every member of the client's there, our marks only, deferred passes adding behind what was sent."""
    before: dict[str, list] = {}
    for one in sent(run):
        protocol = protocol_for("POST", one.path)
        admitted = door.sessions.admit(protocol, one.headers, one.raw)
        if admitted.managed is None:
            door.sessions.done(admitted)
            continue
        prepared = door.sessions.prepare(admitted)
        door.sessions.done(admitted)
        request = json.loads(prepared.data)
        kept = {name: value for name, value in one.body.items() if name not in ("messages", "system", "tools")}
        assert {name: request[name] for name in kept} == kept
        assert admitted.managed.outgoing.messages() == list(prepared.request.built.messages)
        bare = [strip(message) for message in request["messages"]]
        name = admitted.managed.name
        if prepared.request.level == "defer" and not prepared.request.reasons:
            assert bare[: len(before[name])] == before[name]
        before[name] = bare
        if protocol.name == "anthropic":
            assert prepared.data.count(b'"cache_control":{"type":"ephemeral"') <= 4
            assert "cache_control" in request["system"][-1]
            assert rules.check(request) == []


def strip(message: dict) -> dict:
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return {
        **message,
        "content": [{k: v for k, v in block.items() if k != "cache_control"} for block in content or []],
    }


@pytest.mark.rule("PROXY-11")
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_is_what_would_be_built(door, path, seed):
    """Whatever the host, the agent, the clock of the cache and other processes do."""
    rng = Random(seed)
    chat = path.endswith("completions")
    front = [{"role": "system", "content": "s"}] if chat else []
    make = chat_step if chat else step
    named = {"x-session-id": "ses_1"}
    messages = [user("hello")]
    levels = set()
    for n in range(40):
        act = rng.choice(["go", "go", "go", "go", "reduce", "rewind", "revise", "system", "other", "restart", "again"])
        if act == "rewind" and len(messages) > 4:
            messages = [*messages[:-4], *make(f"{n}")]
        elif act == "revise" and len(messages) > 2:
            messages = [*messages[:-2], *make(f"{len(messages)}", f"changed {n}")]
        elif act != "again":
            messages = [*messages, *make(f"{len(messages) + 1}-{n}")]
        if act == "system":
            front = [{"role": "system", "content": f"s{n}"}] if chat else []
        if act == "restart":
            door.restart()
        session = door.engine.session("ses_1", harness="proxy")
        if act == "reduce" and session.status().tags > 2:
            session.reduce(str(rng.randint(1, session.status().tags)), command=f"r{n}")
            session.flush(command=f"f{n}")
        if act == "other":  # another process takes two passes of the same session
            other = Door(door.url)
            for turn in range(2):
                other.send([*front, *messages], named, path=path)
                messages = [*messages, *make(f"{n}-{turn}")]
            other.engine.close()
        admitted = door.admit(named, path, messages=[*front, *messages], system=f"s{n if act == 'system' else ''}")
        prepared = door.sessions.prepare(admitted)
        door.sessions.done(admitted)
        built, out = prepared.request.built, admitted.managed.outgoing
        assert out.messages() == list(built.messages)
        assert (out.system, out.tools, out.head, out.leading) == (built.system, built.tools, built.head, built.leading)
        levels.add(prepared.request.level)
    assert {"hard", "defer"} <= levels


def chat_step(n: str, out: str = "out") -> list[dict]:
    call = {"id": f"call_{n}", "type": "function", "function": {"name": "Bash", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{n}", "content": f"{out} {n}"},
    ]


@pytest.mark.rule("PROXY-17")
def test_a_history_the_client_compacted_goes_on_in_its_session(door):
    claude = {"x-claude-code-session-id": "s", "user-agent": "claude-cli/2"}
    path = [user("hello")]
    for n in range(4):
        door.send(path, claude)
        path = [*path, *step(f"{n}")]
    critical = {"type": "text", "text": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."}
    asked = [*path[:-1], path[-1] | {"content": [*path[-1]["content"], critical]}]
    version = door.engine.sessions()
    assert door.send(asked, claude)[0] == "compaction"
    assert door.engine.sessions() == version
    path = [user("This session is being continued from a previous conversation that ran out of context. …")]
    seen = []
    for n in range(4):
        admitted = door.admit(claude, messages=path)
        request = door.sessions.prepare(admitted).request
        door.sessions.done(admitted)
        assert admitted.managed.name == "claude-code/s"
        assert admitted.managed.outgoing.messages() == list(request.built.messages)
        seen.append((request.level, request.reasons))
        path = [*path, *step(f"again{n}")]
    assert seen == [("defer", ("host_branch",)), ("defer", ()), ("defer", ()), ("defer", ())]
    assert door.engine.session("s", harness="claude-code").status().messages == 7
