"""Blocks other programs put into a text leave once they are old; what a person wrote stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldlog.domain.passes.lanes.injected import MARKERS, stripped
from support.talk import Chat, assistant, result, user, words

BARE = {"protected_tokens": 0}
REMINDER = "<system-reminder>\nThe to-do list is empty.\n</system-reminder>"


def chat(first: str = "start") -> Chat:
    made = Chat(lanes=True, policy=BARE)
    made.say(user(first))
    return made


def rebuild(host: Chat) -> Any:
    host.session.report_cache_loss("said so")
    return host.turn()


def wire(request: Any) -> str:
    return b"\n".join(request.messages_json).decode()


@pytest.mark.rule("INJECT-1")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"do it\n{REMINDER}", "do it"),
        (f"{REMINDER}\ndo it", "do it"),
        (f"do{REMINDER} it", "do it"),
        (f"{REMINDER}{REMINDER}", ""),
        ("do it\n\n[Category+Skill Reminder] use skills\nand more\n\nplease", "do it\n\nplease"),
        ("do it\n[EMERGENCY CONTEXT WINDOW WARNING] 90%", "do it"),
        ("plain", "plain"),
        ("  plain with its blanks \n", "  plain with its blanks \n"),
        ("<system-reminder> never closed", "<system-reminder> never closed"),
        ("a </system-reminder> b", "a </system-reminder> b"),
        ("<system-reminder>a<system-reminder>b</system-reminder>c", "<system-reminder>ac"),
    ],
)
def test_blocks_are_taken_out(before: str, after: str):
    assert stripped(before) == after


@given(st.lists(st.sampled_from([REMINDER, *MARKERS, "\n\n", " word ", "<system-reminder>", "</system-reminder>"])))
def test_any_text_is_stripped_and_then_stays(pieces: list[str]):
    once = stripped("".join(pieces))
    assert len(once) <= len("".join(pieces))
    assert not any(marker in once for marker in MARKERS)


@pytest.mark.rule("INJECT-2")
def test_a_block_leaves_at_the_second_rebuild_and_not_before():
    host = chat()
    host.say(assistant("ok"), user(f"fix the parser\n{REMINDER}"))
    request = rebuild(host)
    assert "to-do list" in wire(request)
    request = rebuild(host)
    assert "to-do list" not in wire(request)
    assert "fix the parser" in wire(request)
    assert host.session.expand(3)[0].text == f"fix the parser\n{REMINDER}", "the original can be had"
    assert "to-do list" not in wire(host.turn())


@pytest.mark.rule("INJECT-2")
def test_a_text_that_was_nothing_else_becomes_a_placeholder():
    host = chat()
    host.say(assistant("ok"), user(REMINDER))
    rebuild(host)
    request = rebuild(host)
    assert "[dropped §3§]" in wire(request)


@pytest.mark.rule("INJECT-3")
def test_the_first_message_keeps_what_its_host_put_there():
    host = chat(f"{REMINDER}\nstart")
    rebuild(host)
    assert "to-do list" in wire(rebuild(host))


@pytest.mark.rule("INJECT-2", "LANE-2")
def test_a_deferred_pass_takes_no_block_out():
    host = chat()
    host.say(assistant("ok"), user(f"fix the parser\n{REMINDER}"))
    rebuild(host)
    for _ in range(5):
        assert "to-do list" in wire(host.turn())


@pytest.mark.rule("INJECT-2", "TAG-5")
def test_a_text_the_host_revises_is_served_as_revised():
    host = chat()
    host.say(assistant("ok"), user(f"fix the parser\n{REMINDER}"))
    rebuild(host)
    rebuild(host)
    place = next(i for i, m in enumerate(host.messages) if "fix the parser" in str(m))
    host.messages[place] = user(f"fix the parser now\n{REMINDER}")
    assert "to-do list" in wire(host.again())


@pytest.mark.rule("INJECT-2")
def test_a_rebuild_that_does_not_reach_a_text_does_not_count_as_a_look():
    """What looks at texts are routine rebuilds that reach them; another kind in between hides none for ever."""
    host = chat()
    host.say(assistant("ok"), user(f"fix the parser\n{REMINDER}"))
    for number in range(40):
        host.tool(f"t{number}", words(2_000) + str(number), n=number)
    rebuild(host)
    host.session.reduce("30-33")
    place = next(index for index, one in enumerate(host.messages) if "t20" in str(one) and one["role"] == "user")
    host.messages[place] = user([result("t20", "the host cut this")])
    assert host.again().reasons[0] == "divergence"
    assert "to-do list" in wire(host.again())
    for _ in range(2):
        request = rebuild(host)
    assert "to-do list" not in wire(request)
    assert "fix the parser" in wire(request)
