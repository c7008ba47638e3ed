"""Sessions of OpenCode through the engine: calls and results that stand in one message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foldlog import Engine, Session


@pytest.fixture
def session() -> Session:
    engine = Engine.open("memory:", summarizer=None)
    return engine.session("ses_1", harness="opencode", codec="opencode", model="claude-x", context_limit=200_000)


def user(n: int, text: str) -> dict[str, Any]:
    return {"info": {"id": f"msg_{n:03}", "role": "user"}, "parts": [{"type": "text", "text": text, "id": f"prt_{n}"}]}


def step(n: int, *parts: dict[str, Any]) -> dict[str, Any]:
    edges = {"type": "step-start"}, {"type": "step-finish", "cost": n}
    return {"info": {"id": f"msg_{n:03}", "role": "assistant"}, "parts": [edges[0], *parts, edges[1]]}


def tool(call: str, output: str | None = "x " * 200, name: str = "read", **state: Any) -> dict[str, Any]:
    status = "running" if output is None else "completed"
    given = {"input": {"path": "/" + "a" * 2_000}} if output else {"input": {"path": "/a"}}
    said = {} if output is None else {"output": output}
    return {"type": "tool", "callID": call, "tool": name, "state": {"status": status, **given, **said, **state}}


def shown(request: Any) -> dict[str, list[str]]:
    """Return what the request shows of each message of the host: texts, outputs."""
    found = {}
    for raw in request.messages_json[request.built.head :]:
        message = json.loads(raw)
        texts = [
            part["text"] if part["type"] == "text" else part["state"].get("output", "…")
            for part in message["parts"]
            if part["type"] in ("text", "tool")
        ]
        found[message["info"]["id"]] = [text[:14].strip() for text in texts]
    return found


def test_both_halves_leave_together_and_a_message_with_nothing_left_vanishes(session: Session) -> None:
    """VIEW-23, VIEW-24."""
    array = [
        user(1, "go"),
        step(2, tool("c1")),
        step(3, {"type": "text", "text": "well"}, tool("c2")),
        step(4, tool("c3")),
    ]
    first = session.prepare(array)
    assert shown(first)["msg_003"] == ["§3§ well", "§4§ x x x x x"]
    session.reduce("2,4-5")
    session.flush()
    array += [user(5, "on")]
    second = session.prepare(array)
    assert shown(second) == {"msg_001": ["§1§ go"], "msg_003": ["§3§ well"], "msg_005": ["§6§ on"]}


def test_an_arc_of_the_newest_message_keeps_its_call(session: Session) -> None:
    array = [user(1, "go"), step(2, tool("c1"))]
    session.prepare(array)
    session.reduce("2")
    session.flush()
    assert shown(session.prepare(array))["msg_002"] == ["[dropped §2§]"]


def test_an_arc_before_reasoning_keeps_its_call(session: Session) -> None:
    """Without the result between them two answers are one to the provider; reasoning may only lead one (ANT-19)."""
    thought = {"type": "reasoning", "text": "hm", "metadata": {"anthropic": {"signature": "s"}}}
    well = {"type": "text", "text": "well"}
    array = [user(1, "go"), step(2, well, tool("c1")), step(3, thought, tool("c2")), step(4, well)]
    session.prepare([*array, user(5, "on")])
    session.reduce("3-4")
    session.flush()
    now = shown(session.prepare([*array, user(5, "on")]))
    assert now["msg_002"] == ["§2§ well", "[dropped §3§]"]
    assert now["msg_003"] == ["[dropped §4§]"]


def test_the_same_call_id_twice_is_two_arcs(session: Session) -> None:
    """Call ids repeat on this host; a drop of one leaves the other (T8)."""
    array = [
        user(1, "go"),
        step(2, tool("c1"), tool("c1")),
        step(3, tool("c1")),
        step(4, {"type": "text", "text": "ok"}),
    ]
    session.prepare([*array, user(5, "on")])
    session.reduce("4")
    session.flush()
    now = shown(session.prepare([*array, user(5, "on")]))
    assert now["msg_002"] == ["§2§ x x x x x", "§3§ x x x x x"]
    assert "msg_003" not in now


def test_an_open_call_is_sent_as_it_is_and_numbered_when_it_ends(session: Session) -> None:
    array = [user(1, "go"), step(2, tool("c1", None), tool("c2"))]
    assert shown(session.prepare(array))["msg_002"] == ["…", "§2§ x x x x x"]
    array[1] = step(2, tool("c1"), tool("c2"))
    later = session.prepare(array)
    assert later.level == "defer"
    assert shown(later)["msg_002"] == ["§3§ x x x x x", "§2§ x x x x x"]


def test_what_the_host_changes_without_the_model_seeing_it_is_no_revision(session: Session) -> None:
    array = [user(1, "go"), step(2, tool("c1"))]
    first = session.prepare(array)
    array[1]["parts"].append({"type": "patch", "files": []})
    array[1]["info"]["tokens"] = {"input": 3}
    second = session.prepare(array)
    assert (second.pass_number, second.digest) == (first.pass_number, first.digest)


def test_a_notice_to_the_person_is_no_turn(session: Session) -> None:
    notice = {"info": {"id": "msg_002", "role": "user"}, "parts": [{"type": "text", "text": "hm", "ignored": True}]}
    request = session.prepare([user(1, "go"), notice, user(3, "on")])
    assert shown(request) == {"msg_001": ["§1§ go"], "msg_002": ["hm"], "msg_003": ["§2§ on"]}
    assert request.messages_json[request.built.head + 1] == json.dumps(notice, separators=(",", ":")).encode()
