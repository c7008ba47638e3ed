"""Requests of one session that overlap: copies of one, late answers, others with other headers; a busy store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.adapters.proxy.outgoing import Outgoing
from foldlog.adapters.proxy.protocols import protocol_for
from foldlog.adapters.proxy.protocols.base import Usage
from foldlog.adapters.proxy.sessions import Admitted, Opening, Sessions
from foldlog.domain.errors import StoreBusy

NOBODY = {"user-agent": "curl/8"}
HELLO = [{"role": "user", "content": "hello"}]


class Door:
    """A registry over one store, and what it was asked to open."""

    def __init__(self) -> None:
        self.engine = foldlog.Engine.open("memory:", summarizer=None)
        self.asked: list[Opening] = []
        self.start()

    def start(self) -> None:
        self.sessions = Sessions(self.engine, self.open)

    def open(self, asked: Opening) -> foldlog.Session:
        self.asked.append(asked)
        return self.engine.session(asked.id, asked.harness, asked.codec, asked.model, mode=asked.mode)

    def admit(self, messages: list[Any], headers: dict[str, str] = NOBODY) -> Admitted:
        members = {"model": "claude-x", "tools": [{"name": "Bash", "input_schema": {}}], "messages": messages}
        return self.sessions.admit(protocol_for("POST", "/v1/messages"), headers, json.dumps(members).encode())

    def send(self, messages: list[Any]) -> Admitted:
        """Take a request in and make its pass; it is under way then."""
        admitted = self.admit(messages)
        self.sessions.prepare(admitted)
        return admitted


def hears(admitted: Admitted, *calls: str) -> None:
    """The answer to a request has come."""
    assert admitted.managed is not None
    admitted.managed.answered(Usage(calls=tuple((id, "Bash") for id in calls), complete=True), admitted.body)


def name(admitted: Admitted) -> str:
    assert admitted.managed is not None
    return admitted.managed.name


def step(id: str) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": id, "name": "Bash", "input": {}}
    result = {"type": "tool_result", "tool_use_id": id, "content": f"out {id}"}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    yield made
    made.engine.close()


@pytest.mark.rule("PROXY-9")
@pytest.mark.parametrize("calls", [("a",), ()])
def test_a_client_goes_on_behind_whichever_copy_of_its_request_was_answered(door: Door, calls: tuple[str, ...]) -> None:
    first, second = door.send(HELLO), door.send(HELLO)
    hears(first, *calls)
    hears(second, "b")
    more = step("a") if calls else [{"role": "assistant", "content": "done"}, {"role": "user", "content": "more"}]
    assert name(door.send([*HELLO, *more])) == name(first) == name(second)


@pytest.mark.rule("PROXY-9")
def test_an_answer_that_comes_late_says_nothing_of_the_request_behind_it(door: Door) -> None:
    """Two terminals that begin alike: one has gone on when the first answer of the other comes."""
    first, other = door.send(HELLO), door.send(HELLO)
    hears(first, "a1")
    second = door.send([*HELLO, *step("a1")])
    hears(second, "a2")
    hears(other, "b1")
    assert name(door.send([*HELLO, *step("a1"), *step("a2")])) == name(first)
    assert name(door.send([*HELLO, *step("b1")])) != name(first)


@pytest.mark.rule("PROXY-39")
def test_a_request_has_the_window_its_own_headers_ask_for(door: Door) -> None:
    headers = NOBODY | {"x-session-id": "s"}
    wide = door.admit(HELLO, headers | {"anthropic-beta": "context-1m-2025-08-07"})
    narrow = door.admit(HELLO, headers)
    for admitted in (wide, narrow):
        door.sessions.prepare(admitted)
    assert [asked.betas for asked in door.asked] == ["context-1m-2025-08-07", ""]


@pytest.mark.rule("PROXY-9", "PROXY-60")
def test_a_session_that_could_not_be_read_is_not_taken_for_one_without_messages(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = name(door.send([*HELLO, *step("a1")]))
    door.start()

    def busy(*given: Any) -> foldlog.Session:
        raise StoreBusy("the store is busy, says the test")

    other = [*HELLO, *step("b1")]
    with monkeypatch.context() as patch, pytest.raises(StoreBusy):
        patch.setattr(door.engine, "session", busy)
        door.admit(other)
    assert name(door.admit(other)) != first


@pytest.mark.rule("PROXY-11", "PROP-1")
def test_what_came_back_by_another_process_is_in_what_goes_out(tmp_path: Path):
    """The other one made the pass that returned to messages this one had taken back; this one is asked for the same."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    here, there = (foldlog.Engine.open(url, summarizer=None).session("s") for _ in range(2))
    array: list[Any] = [*HELLO]
    for number in range(3):
        array += [{"role": "assistant", "content": f"answer {number}"}, {"role": "user", "content": f"and {number}"}]
    more = [*array, {"role": "user", "content": "steered"}]
    out = Outgoing()
    for session, given in ((here, more), (here, array), (there, more), (here, more)):
        request = session.prepare(given)
        if session is here:
            out.follow(request, ((), b""))
    assert request.reasons == ()
    assert out.messages() == list(request.messages_json)
