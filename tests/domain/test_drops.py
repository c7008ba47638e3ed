"""Queued drops: real or absent, what can leave, and what stays where it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

import foldlog
from foldlog.domain.passes.lanes.drops import SKELETONS, SMALL_INPUT
from support.talk import Chat, assistant, call, image, result, text, thinking, use, user, words

FREE = {"protected_tokens": 0}


def pressed(chat: Chat, drop: str) -> foldlog.Request:
    """Queue ``drop`` and let the next pass land it: in the force band, protection of the newest three kept."""
    use(chat.turn(), 175_000)
    chat.session.reduce(drop)
    return chat.turn()


def wire(request: foldlog.Request) -> str:
    return b"\n".join(request.messages_json).decode()


def fill(chat: Chat, count: int = 3) -> None:
    """Put newer tools behind those a test drops: the newest three are always protected."""
    for number in range(count):
        chat.tool(f"f{number}", "x", n=number)


def mode(chat: Chat, tag: int) -> tuple[str, str]:
    return chat.state.tags[tag - 1].status, chat.state.tags[tag - 1].mode


@pytest.mark.rule("DROP-1")
@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({"a": "x" * SMALL_INPUT}, True),
        ({"a": "x" * (SMALL_INPUT + 1)}, False),
        ({"a": "é" * (SMALL_INPUT // 2)}, True),
        ({"a": "é" * (SMALL_INPUT // 2) + "x"}, False),
        ({"a": {"b": ["x" * 600, {"c": "x" * 424}]}}, True),
        ({"a": {"b": ["x" * 600, {"c": "x" * 425}]}}, False),
        ({"k" * 5_000: 10**15, "l": [True, None, 1.5] * 500}, True),
        ({}, True),
    ],
    ids=["1024", "1025", "1024-utf8", "1025-utf8", "nested-1024", "nested-1025", "keys-and-numbers", "none"],
)
def test_small_is_a_matter_of_string_values(arguments: dict[str, Any], kept: bool):
    """In the window of the newest twenty tools a small call stays with its real arguments (3.4)."""
    chat = Chat(policy=FREE)
    chat.say(user("start"))
    chat.tool("t1", words(9_000), **arguments)
    fill(chat)
    request = pressed(chat, "2")
    assert request.level == "soft+"
    assert mode(chat, 2) == ("dropped", "skeleton_real" if kept else "full")
    assert ('"t1"' in wire(request)) is kept
    if kept:
        sent = next(b for m in request.messages for b in m["content"] if isinstance(b, dict) and b.get("id") == "t1")
        assert sent["input"] == arguments
        assert "[dropped §2§]" in wire(request)


@pytest.mark.rule("DROP-1", "DROP-2")
def test_the_skeleton_window_holds_twenty_tools_of_any_status():
    chat = Chat(policy=FREE, context_limit=400_000)
    chat.say(user("start"))
    for number in range(SKELETONS + 5):
        chat.tool(f"t{number}", words(400) + str(number), n=number)
    use(chat.turn(), 380_000)
    chat.session.reduce("2-23")
    chat.turn()
    modes = [chat.state.tags[tag - 1].mode for tag in range(2, 24)]
    # 25 tools have the numbers 2 to 26, so the newest twenty are 7 to 26; 24 to 26 are protected
    assert modes == ["full"] * 5 + ["skeleton_real"] * 17
    use(chat.turn(), 380_000)
    for number in range(3):
        chat.tool(f"u{number}", "x")
    assert [chat.state.tags[tag - 1].mode for tag in range(2, 24)] == modes, "decided once, never decided again"


@pytest.mark.rule("DROP-2")
def test_a_large_call_goes_with_its_result_and_leaves_no_empty_message():
    chat = Chat(policy=FREE)
    chat.say(user("start"))
    chat.tool("t1", words(9_000), text("I look."), a="x" * 2_000)
    chat.say(assistant([call("t2", a="y" * 2_000)]), user([result("t2", words(50))]))
    fill(chat)
    request = pressed(chat, "3,4")
    sent = wire(request)
    assert mode(chat, 3) == mode(chat, 4) == ("dropped", "full")
    assert '"t1"' not in sent
    assert '"t2"' not in sent
    assert "§2§ I look." in sent
    assert all(message["content"] for message in request.messages)


@pytest.mark.rule("DROP-3")
def test_the_last_result_of_a_request_stays_as_a_skeleton():
    chat = Chat(policy=FREE)
    chat.say(user("start"))
    use(chat.tool("t1", words(9_000), a="x" * 5_000), 195_000)
    chat.session.reduce("2")
    request = chat.again()
    assert mode(chat, 2) == ("dropped", "skeleton_real")
    assert request.messages[-1]["content"][0]["content"] == "[dropped §2§]"


@pytest.mark.rule("DROP-4")
def test_beside_thinking_a_large_call_stays():
    chat = Chat(policy=FREE)
    chat.say(user("start"))
    chat.tool("t1", words(9_000), thinking(), a="x" * 5_000)
    chat.tool("t2", words(9_000), a="x" * 5_000)
    chat.tool("t3", words(9_000), a="x" * 5_000)
    fill(chat)
    request = pressed(chat, "2-4")
    assert mode(chat, 2) == ("dropped", "skeleton_real")
    assert mode(chat, 4) == ("dropped", "full")
    sent = wire(request)
    assert sent.count('"signature":"c2ln"') == 1
    assert "x" * 5_000 in sent


@pytest.mark.rule("DROP-4")
def test_two_reasoned_turns_are_not_fused():
    """An arc between two turns with thinking stays as a skeleton: without it their thinking would meet (6.1, 9)."""
    chat = Chat(policy=FREE)
    chat.say(user("start"))
    chat.tool("t1", words(9_000), a="x" * 5_000)
    chat.tool("t2", words(90), thinking(), a="x" * 5_000)
    fill(chat)
    pressed(chat, "2")
    assert mode(chat, 2) == ("dropped", "skeleton_real")


@pytest.mark.rule("DROP-4")
def test_on_openai_reasoning_does_not_hold_a_call():
    chat = Chat(codec="openai-chat", policy=FREE)

    def tool(id: str, output: str) -> None:
        arc = {"id": id, "type": "function", "function": {"name": "Bash", "arguments": json.dumps({"a": "x" * 5_000})}}
        chat.say(
            {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [arc]},
            {"role": "tool", "tool_call_id": id, "content": output},
        )

    chat.say(user("start"))
    tool("t1", words(9_000))
    for number in range(3):
        tool(f"u{number}", "x")
    sent = wire(pressed(chat, "2"))
    assert mode(chat, 2) == ("dropped", "full")
    assert '"t1"' not in sent


@pytest.mark.rule("DROP-5")
def test_attachments_of_a_skeleton_are_stripped():
    chat = Chat(policy=FREE)
    chat.say(user("start"))
    chat.tool("t1", [text(words(9_000)), image()])
    fill(chat)
    request = pressed(chat, "2")
    assert mode(chat, 2) == ("dropped", "skeleton_stripped")
    assert "iVBORw0KGgo" not in wire(request)
    assert "[dropped §2§]" in wire(request)


@pytest.mark.rule("DROP-6")
def test_texts_and_files_become_placeholders():
    chat = Chat(policy=FREE)
    chat.say(user([text("see " + words(9_000)), image(), text("and this")]))
    request = pressed(chat, "1,2")
    content = request.messages[2]["content"]
    assert [block.get("text") for block in content] == ["[dropped §1§]", "[dropped §2§]", "§3§ and this"]
    assert mode(chat, 1) == mode(chat, 2) == ("dropped", "placeholder")


@pytest.mark.rule("DROP-10")
def test_an_open_call_and_a_call_off_the_path_stay_queued():
    """Queued work on messages off the current path does not run, and comes back with the path (PROP-9)."""
    chat = Chat(policy=FREE)
    chat.say(user("start"))
    chat.tool("t1", words(9_000))
    fill(chat)
    use(chat.turn(), 100)
    chat.session.reduce("2")
    gone = chat.advance(retracted=[2, 3])
    use(gone, 190_000)
    assert chat.advance(assistant("fine"), user("on")).level == "defer"
    assert list(chat.state.queue) == [2]
    assert mode(chat, 2) == ("active", "")
    assert "t1" not in wire(gone)


@pytest.mark.rule("DROP-10")
def test_drainable_counts_only_what_can_go():
    chat = Chat(policy={"protected_tokens": 28_000})
    chat.say(user("start"))
    chat.tool("t1", words(9_000))
    chat.tool("t2", words(8_000))
    for number in range(3):
        chat.tool(f"t{3 + number}", words(7_000))
    use(chat.turn(), 140_000)
    chat.session.reduce("2-6")
    request = chat.turn()
    # tools 3 to 6 hold the newest 28,000 tokens: only tool 2 can go
    assert request.level == "soft+"
    assert 8_900 < chat.last().decision.drainable < 9_100
    assert sorted(chat.state.queue) == [3, 4, 5, 6]


@pytest.mark.rule("DROP-11")
def test_what_was_dropped_stays_dropped_byte_for_byte():
    """CB-04: a removal is decided once and kept, on defers, rebuilds and in a new process."""
    chat = Chat(policy=FREE)
    chat.say(user("start"))
    chat.tool("t1", words(9_000), text("I look."), a="x" * 5_000)
    chat.tool("t2", words(9_000))
    fill(chat)
    served = pressed(chat, "3,4").messages_json
    for number in range(30):
        request = chat.tool(f"n{number}", "x")
        assert request.level == "defer"
        assert request.messages_json[: len(served)] == served
    chat.session.report_cache_loss("test")
    request = chat.turn()
    assert request.level == "hard"
    assert request.messages_json[: len(served)] == served


@pytest.mark.rule("DROP-12")
def test_the_arguments_of_a_call_are_whole_or_gone():
    """PROP-3, DL-01: no altered copy of arguments is ever sent."""
    chat = Chat(policy=FREE)
    chat.say(user("start"))
    given = {f"t{n}": {"command": f"echo {n} " + "z" * (n * 150)} for n in range(24)}
    for name, arguments in given.items():
        chat.tool(name, words(500), **arguments)
    request = pressed(chat, "2-25")
    sent = {
        block["id"]: block["input"]
        for message in request.messages
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_use"
    }
    assert 3 <= len(sent) < 24
    assert all(given[name] == arguments for name, arguments in sent.items())
    answered = [
        block["tool_use_id"]
        for message in request.messages
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    ]
    assert answered == list(sent)
