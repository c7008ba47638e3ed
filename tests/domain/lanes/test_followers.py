"""Instructions in the middle of a conversation, as newer models take them and their hosts send them."""

from __future__ import annotations

from typing import Any

import pytest
from checker.anthropic import check

from support.talk import Chat, assistant, call, result, text, use, user, words

BARE = {"protected_tokens": 0}


def system(said: str, listed: bool = False) -> dict[str, Any]:
    return {"role": "system", "content": [text(said)] if listed else said}


def chat(**options: Any) -> Chat:
    made = Chat(lanes=True, **{"policy": BARE, **options})
    made.say(user("start"), system("# Environment\nhere"))
    return made


def rounds(host: Chat, count: int, first: int = 0, size: int = 400) -> Any:
    """Take calls whose results a count of tokens follows, as the host sends it."""
    request = None
    for number in range(first, first + count):
        id = f"t{number}"
        said = system(f"<total_tokens>{number} left", listed=True)
        request = host.say(assistant([call(id, n=number)]), user([result(id, words(size))]), said)
        valid(request)
    return request


def valid(request: Any) -> None:
    tools = [{"name": "Bash", "input_schema": {"type": "object"}}]
    sent = {"model": "m", "max_tokens": 9, "messages": request.messages, "tools": tools}
    faults = check({**sent, "system": request.system} if request.system else sent)
    assert faults == [], faults


def rebuild(host: Chat) -> Any:
    host.session.report_cache_loss("said so")
    request = host.turn()
    valid(request)
    return request


@pytest.mark.rule("SYSMSG-1")
def test_they_are_sent_where_they_stand_without_a_number():
    host = chat()
    request = rounds(host, 3)
    roles = [message["role"] for message in request.messages]
    assert roles[:4] == ["user", "user", "user", "system"]
    assert roles[-1] == "system"
    assert request.messages[3]["content"] == "# Environment\nhere"
    assert {tag.kind for tag in host.state.tags} == {"text", "tool"}
    assert len(host.state.tags) == 4


@pytest.mark.rule("SYSMSG-1")
def test_text_or_one_block_is_the_same():
    host = chat()
    rounds(host, 2)
    host.messages[1] = system("# Environment\nhere", listed=True)
    request = host.turn()
    assert request.level == "defer"
    assert host.last().divergence is None


@pytest.mark.rule("SYSMSG-2")
def test_they_leave_with_the_result_they_stand_behind():
    host = chat()
    rounds(host, 30)
    rebuild(host)
    rounds(host, 5, first=30)
    request = rebuild(host)
    gone = [tag for tag in host.state.tags if tag.mode == "full"]
    assert gone, "some calls are older than the newest twenty"
    said = [message["content"] for message in request.messages if message["role"] == "system"]
    assert len(said) == 36 - len(gone)
    assert "# Environment\nhere" in said
    before = request.messages_json
    assert host.turn().messages_json[: len(before)] == before


@pytest.mark.rule("SYSMSG-2")
def test_one_that_changes_behind_a_dropped_result_stays_out():
    host = chat()
    rounds(host, 30)
    rebuild(host)
    rounds(host, 5, first=30)
    rebuild(host)
    host.messages[4] = system("<total_tokens>now another number")
    request = host.turn()
    valid(request)
    assert "another number" not in str(request.messages)


@pytest.mark.rule("SYSMSG-3")
def test_a_call_stays_where_a_prompt_would_come_behind_instructions():
    host = chat()
    for number in range(30):
        id = f"t{number}"
        said = text("and hurry") if number == 2 else None
        content = [result(id, words(400))] + ([said] if said else [])
        host.say(assistant([call(id, n=number)]), user(content), system(f"{number} left"))
    rebuild(host)
    request = rebuild(host)
    assert "and hurry" in str(request.messages)


@pytest.mark.rule("SYSMSG-2", "EMERG-5")
def test_the_emergency_keeps_the_request_valid_too():
    host = chat()
    request = rounds(host, 30, size=900)
    use(request, 194_000)
    valid(host.turn())
