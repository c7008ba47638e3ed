"""ctx_reduce and ctx_expand: replies, all or nothing, once a command, originals."""

from __future__ import annotations

import json

import pytest

import foldlog
from foldlog.domain import events as ev
from support.talk import Chat, assistant, call, events, fingerprint, image, result, text, use, user, words


def chat_of_tools(count: int = 6) -> Chat:
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"))
    for number in range(count):
        chat.tool(f"t{number}", words(3_000) + f" {number}")
    return chat


@pytest.mark.rule("REDUCE-3")
@pytest.mark.parametrize("drop", ["8", "2,8", "2-900", "900-905"])
def test_an_unknown_number_queues_nothing(drop: str):
    chat = chat_of_tools()
    before = fingerprint(chat.session)
    with pytest.raises(foldlog.UnknownTag) as caught:
        chat.session.reduce(drop)
    assert "§8§" in str(caught.value) or "§900§" in str(caught.value)
    assert fingerprint(chat.session) == before


@pytest.mark.rule("REDUCE-2")
@pytest.mark.parametrize("drop", [None, "", "x", "3-2", 5, "1-2000"])
def test_a_list_that_cannot_be_read_queues_nothing(drop: object):
    chat = chat_of_tools()
    before = fingerprint(chat.session)
    with pytest.raises(foldlog.RangeError):
        chat.session.reduce(drop)  # type: ignore[arg-type]
    assert fingerprint(chat.session) == before


@pytest.mark.rule("REDUCE-4")
def test_what_is_marked_or_dropped_already_needs_nothing():
    chat = chat_of_tools()
    chat.session.reduce("2-3")
    before = fingerprint(chat.session)
    assert "nothing more is needed" in chat.session.reduce("3")
    assert fingerprint(chat.session) == before
    use(chat.turn(), 180_000)
    chat.turn()
    assert chat.session.status().dropped == 2
    assert "nothing more is needed" in chat.session.reduce("2-3")
    assert "1 of the numbers" in chat.session.reduce("3,4")


@pytest.mark.rule("REDUCE-9", "PERM-7")
@pytest.mark.parametrize("passes", [0, 1], ids=["as it is switched off", "behind it"])
def test_without_compaction_nothing_is_marked_and_the_agent_is_told(passes: int):
    chat = chat_of_tools()
    chat.reopen(policy={"compaction": False})
    for _ in range(passes):
        chat.turn()
    before = fingerprint(chat.session)
    assert chat.session.reduce("2-3", "call-1").startswith("Nothing is marked")
    with pytest.raises(foldlog.UnknownTag):
        chat.session.reduce("900")
    assert fingerprint(chat.session) == before
    chat.reopen(policy={"protected_tokens": 0})
    chat.turn()
    assert chat.state.queue == {}, "nothing has waited for it"
    assert chat.session.reduce("2-3", "call-2").startswith("Queued")


@pytest.mark.rule("REDUCE-5")
def test_protected_tags_are_queued_and_named_apart():
    chat = chat_of_tools()
    reply = chat.session.reduce("2,5-7")
    assert reply == "Queued: drop §2§, drop later §5§, §6§, §7§ (still among the newest tool outputs)."
    assert sorted(chat.state.queue) == [2, 5, 6, 7]
    use(chat.turn(), 180_000)
    chat.turn()
    assert sorted(chat.state.queue) == [5, 6, 7]
    for number in range(3):
        use(chat.tool(f"n{number}", "x"), 180_000)
    chat.turn()
    assert sorted(chat.state.queue) == []


@pytest.mark.rule("REDUCE-6")
def test_marking_changes_no_byte():
    chat = chat_of_tools()
    before = chat.turn()
    chat.session.reduce("2-7")
    same = chat.again()
    assert same.digest == before.digest
    assert same.messages_json == before.messages_json


@pytest.mark.rule("REDUCE-7")
def test_a_repeated_command_is_done_once_and_told_the_same():
    chat = chat_of_tools()
    reply = chat.session.reduce("2-3", command="toolu_1")
    before = fingerprint(chat.session)
    assert chat.session.reduce("2-3", command="toolu_1") == reply
    assert chat.session.reduce("4", command="toolu_1") == reply
    assert fingerprint(chat.session) == before
    assert len(events(chat.session, ev.DropsQueued)) == 1
    chat.session.core._hot = None
    assert chat.session.reduce("2-3", command="toolu_1") == reply


@pytest.mark.rule("REDUCE-8", "LAW-5")
def test_originals_come_back_whatever_became_of_them():
    chat = Chat(policy={"protected_tokens": 0})
    raw = b'{"role": "user" ,"content":[ {"type":"text","text":"start \\u00e9"}, %s ]}' % json.dumps(image()).encode()
    chat.say(raw)
    chat.tool("t0", words(9_000) + " <|endoftext|>", a="x" * 3_000)
    for number in range(3):
        chat.tool(f"n{number}", "x")
    use(chat.turn(), 180_000)
    chat.session.reduce("1-3")
    assert "endoftext" not in str(chat.turn().messages)
    first, second, third = chat.session.expand("1-3")
    assert (first.tag, first.text) == (1, "start é")
    assert first.json == b'{"type":"text","text":"start \\u00e9"}'
    assert second.json == json.dumps(image()).encode()
    assert third.text == words(9_000) + " <|endoftext|>"
    assert chat.session.expand(1, 1)[0].json == raw
    assert [reply.m for reply in chat.session.expand(1, 4)] == [1, 2, 3, 4]
    assert chat.session.expand(2, 2)[0].text.startswith('{"a":"xxx')


@pytest.mark.rule("REDUCE-8")
@pytest.mark.parametrize("tag", [0, -1, 99, 2**70, "99", "0", "x", "", None, 1.0, True])
def test_an_unknown_tag_is_an_error(tag: object):
    chat = Chat()
    chat.say(user("a"))
    with pytest.raises(foldlog.InputError):
        chat.session.expand(tag)  # type: ignore[arg-type]


@pytest.mark.rule("REDUCE-8")
@pytest.mark.parametrize(("first", "last"), [(0, 1), (1, 2), (2, 1), ("1", 1), (1, "1"), (1.0, 1), (True, True)])
def test_a_range_outside_the_session_is_an_error(first: object, last: object):
    chat = Chat()
    chat.say(user("a"))
    with pytest.raises(foldlog.InputError):
        chat.session.expand(first, last)  # type: ignore[arg-type]


def test_marks_on_an_unused_session_do_not_make_it_exist():
    """API-9."""
    chat = Chat()
    with pytest.raises(foldlog.UnknownTag):
        chat.session.reduce("1")
    assert chat.engine.sessions() == []


def test_marks_are_for_numbers_of_this_session_only():
    """REDUCE-3: a number another session gave out is unknown here."""
    engine = foldlog.Engine.open("memory:", summarizer=None)
    one, two = Chat(engine, "one"), Chat(engine, "two")
    one.say(user([text("a"), text("b"), text("c")]))
    two.say(user("a"), assistant([call("t")]), user([result("t", "x")]))
    one.session.reduce("3")
    with pytest.raises(foldlog.UnknownTag):
        two.session.reduce("3")
