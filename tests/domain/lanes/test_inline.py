"""Reasoning the model writes into its answers' texts: counted and taken out like any other, on every wire."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from foldlog.adapters.traces.shapes import Called, Returned, Said, Thought
from support.counts import recounted
from support.hosts import WRITERS, Round
from support.parity import tokens
from support.talk import Chat, assistant, differences, text, user, words

BOUND = "claude-sonnet-5-5"
REMINDER = "\n<system-reminder>\nMind the list.\n</system-reminder>"


def hm(number: int, size: int = 300) -> str:
    return f"<think>{words(size, 'hm')}</think>\nAnswer {number}."


def chat(codec: str = "anthropic", model: str = "claude-sonnet-4-5", keep: int = 1_000, **policy: Any) -> Chat:
    policy = {"protected_tokens": 0, "keep_reasoning_tokens": keep, **policy}
    host = Chat(lanes=True, codec=codec, model=model, policy=policy)
    host.say(*write(codec, 0, ""))
    return host


def write(codec: str, number: int, said: str, *, tool: bool = False, thoughts: tuple[Thought, ...] = ()) -> Any:
    """Return what the model says, and what it gets back for it, in the messages of a host."""
    called = (Called(f"c{number}", "bash", {"n": number}),) if tool else ()
    back = tuple(Returned(one.id, one.name, f"ok {number}") for one in called)
    asked = () if tool else (Said(f"go on {number}"),)
    at = 1_700_000_000_000 + number * 1_000
    return WRITERS[codec](Round(number, at, thoughts, said, called, back, asked), tokens).messages


def rebuild(host: Chat, *messages: Any) -> Any:
    host.session.report_cache_loss("said so")
    return host.say(*messages)


def wire(request: Any) -> str:
    return b"\n".join(request.messages_json).decode()


def answers(request: Any) -> list[int]:
    return [int(number) for number in re.findall(r"Answer (\d+)", wire(request))]


def kept(request: Any) -> list[int]:
    """Return the answers that are sent with the reasoning in their texts."""
    return [int(number) for number in re.findall(r"</think>\\nAnswer (\d+)", wire(request))]


def did(host: Chat) -> int:
    """Return how many texts the newest pass took reasoning out of."""
    return next((did.items for did in host.last().decision.lanes if did.lane == "inline"), 0)


@pytest.fixture(autouse=True)
def _counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hold the count each pass begins with against one made anew: what left is counted once (WINDOW-15)."""
    off = recounted(monkeypatch)
    yield
    assert not any(off), off


@pytest.mark.rule("THINK-6", "WINDOW-15")
@pytest.mark.parametrize("codec", WRITERS)
def test_on_every_wire_the_oldest_leaves_beyond_the_budget(codec: str):
    host = chat(codec)
    for number in range(1, 8):
        assert len(kept(host.say(*write(codec, number, hm(number))))) == number, "a quiet pass takes nothing out"
    request = rebuild(host, *write(codec, 8, hm(8)))
    assert answers(request) == [*range(1, 9)]
    assert kept(request) == [6, 7, 8]
    assert kept(host.say(*write(codec, 9, "Answer 9."))) == [6, 7, 8], "and so it stays"
    host.session.core._hot = None
    request = host.say(*write(codec, 10, "Answer 10."))
    assert kept(request) == [6, 7, 8], "in another process too"
    assert host.session.expand(2)[0].text == hm(1), "the original can be had"
    host.say(*write(codec, 11, hm(11)))
    assert kept(rebuild(host, *write(codec, 12, hm(12)))) == [8, 11, 12]
    assert did(host) == 2, "what left does not leave again"
    assert not differences(host.engine)


@pytest.mark.rule("THINK-6")
@pytest.mark.parametrize("codec", WRITERS)
@pytest.mark.parametrize(("keep", "later"), [(0, [8]), (1_300, [5, 6, 7, 8])])
def test_the_running_turn_and_the_newest_answer_keep_it_and_count_first(codec: str, keep: int, later: list[int]):
    host = chat(codec, keep=keep)
    for number in range(1, 4):
        host.say(*write(codec, number, hm(number)))
    for number in range(4, 7):
        host.say(*write(codec, number, hm(number), tool=True))
    assert kept(rebuild(host, *write(codec, 7, hm(7), tool=True))) == [4, 5, 6, 7]
    assert kept(rebuild(host, *write(codec, 8, hm(8)))) == later


@pytest.mark.rule("THINK-6")
def test_where_an_answer_is_several_items_all_of_the_newest_keep_it_and_count():
    host = chat("openai-responses", keep=700)
    for number in range(1, 4):
        host.say(*write("openai-responses", number, hm(number)))
    said = {"type": "message", "role": "assistant"}
    items = [{**said, "content": [{"type": "output_text", "text": hm(number)}]} for number in (4, 5)]
    assert kept(rebuild(host, *items, *write("openai-responses", 6, ""))) == [4, 5]


@pytest.mark.rule("THINK-6")
def test_both_kinds_of_one_step_are_counted_together_and_leave_together():
    host = chat(keep=1_300)
    for number in range(1, 8):
        host.say(*write("anthropic", number, hm(number), thoughts=(Thought(words(300), "c2ln"),)))
    request = rebuild(host)
    assert kept(request) == [6, 7]
    assert wire(request).count("c2ln") == 2


@pytest.mark.rule("THINK-6")
@pytest.mark.parametrize(
    ("codec", "model"),
    [("openai-chat", "moonshot/kimi-k2.6"), ("openai-chat", "deepseek-v3"), ("openai-responses", "")],
)
def test_it_leaves_where_reasoning_in_parts_of_its_own_must_stay(codec: str, model: str):
    host = chat(codec, model or "gpt-5", keep=0)
    for number in range(1, 5):
        host.say(*write(codec, number, hm(number), thoughts=(Thought(words(300), "c2ln"),)))
    request = rebuild(host)
    assert kept(request) == [4]
    kind = "reasoning_content" if codec == "openai-chat" else "encrypted_content"
    assert wire(request).count(kind) == 4


@pytest.mark.rule("THINK-6", "THINK-1")
def test_on_a_bound_model_the_signed_reasoning_behind_it_leaves_with_it():
    host = chat(model=BOUND, keep=400)
    for number in range(1, 8):
        signed = (Thought("short", "c2ln"),) if number not in (1, 2) else ()
        host.say(*write("anthropic", number, hm(number) if number in (1, 2, 7) else "ok", thoughts=signed))
    host.session.reduce("13")
    host.session.flush()
    request = host.say(assistant([{"type": "thinking", "thinking": "x", "signature": "c2ln"}, text("ok")]), user("go"))
    assert request.level == "soft+"
    assert kept(request) == [7]
    assert "c2ln" not in wire(request)


@pytest.mark.rule("THINK-7", "WINDOW-15")
@pytest.mark.parametrize("codec", WRITERS)
def test_a_text_that_was_nothing_else_becomes_a_placeholder(codec: str):
    host = chat(codec, keep=0)
    host.say(*write(codec, 1, f"<thinking>{words(300)}</thinking>", tool=True))
    host.say(*write(codec, 2, "Answer 2."))
    request = rebuild(host)
    assert "[dropped §2§]" in wire(request)
    assert "<thinking>" not in wire(request)
    assert host.session.expand(2)[0].text == f"<thinking>{words(300)}</thinking>"
    assert not differences(host.engine)


@pytest.mark.rule("THINK-7", "THINK-8", "WINDOW-15")
def test_so_does_one_of_which_two_lanes_leave_nothing():
    host = chat(keep=0)
    host.say(assistant(f"<think>{words(300)}</think>{REMINDER}"))
    rebuild(host)
    request = rebuild(host, user("go on"), assistant("ok"), user("go on"))
    assert "[dropped §2§]" in wire(request)
    rebuild(host, *write("anthropic", 5, "ok"))
    assert not differences(host.engine)


@pytest.mark.rule("THINK-6", "TAG-5")
def test_a_text_its_host_revises_is_served_and_counted_as_revised():
    host = chat(keep=0)
    for number in range(1, 4):
        host.messages += [assistant(hm(number)), user("go on")]
        host.again()
    rebuild(host)
    host.messages[1] = assistant(hm(11))
    request = host.again()
    assert kept(request) == [11, 3]
    assert kept(rebuild(host)) == [3]
    assert not differences(host.engine)


@pytest.mark.rule("THINK-6", "TAG-5")
def test_a_text_its_host_writes_without_it_has_none_to_lose():
    host = chat(keep=0)
    for number in range(1, 4):
        host.messages += [assistant(hm(number)), user("go on")]
        host.again()
    host.messages[1] = assistant("Answer 11.")
    host.again()
    rebuild(host)
    assert did(host) == 1


@pytest.mark.rule("THINK-6")
def test_what_a_person_writes_stays():
    host = chat(keep=0)
    for number in range(1, 8, 2):
        host.say(assistant(hm(number)), user(hm(number + 1)))
    assert kept(rebuild(host)) == [2, 4, 6, 7, 8]


@pytest.mark.rule("THINK-8", "WINDOW-15")
@pytest.mark.parametrize("shown", [1, 2])
def test_it_stays_out_where_what_programs_put_in_leaves_later(shown: int):
    """``shown``: rebuilds up to the one its reasoning leaves on: both go at once, or the reminder later."""
    host = chat(keep=0)
    host.say(assistant("ok"), user("go on"))
    host.say(assistant(hm(1) + REMINDER + "\nMore."))
    if shown == 2:
        assert kept(rebuild(host)) == [1], "the newest answer"
    request = rebuild(host, user("go on"), assistant("ok"), user("go on"))
    assert kept(request) == []
    assert ("Mind the list" in wire(request)) is (shown == 1)
    request = rebuild(host)
    assert "Answer 1.\\nMore." in wire(request)
    assert "hm hm" not in wire(request)
    assert "Mind the list" not in wire(request)
    count = host.session.core.reader.count
    gone = count(hm(1) + REMINDER + "\nMore.") - count("Answer 1.\nMore.")
    assert abs(sum(host.state.spares.values()) - gone) <= 12
    rebuild(host, *write("anthropic", 5, "ok"))
    assert not differences(host.engine)


@pytest.mark.rule("THINK-8", "WINDOW-15", "TERSE-3")
@pytest.mark.parametrize("keep", [0, 100_000])
def test_it_stays_out_where_the_text_is_sent_in_fewer_words(keep: int):
    host = chat(keep=keep, caveman_text_compression=True, caveman_min_chars=100)
    for number in range(1, 11):
        host.say(*write("anthropic", number, f"{hm(number)} I think we should really do it, please, the thing. " * 2))
    for _ in range(3):
        request = rebuild(host)
    modes = {tag.mode for tag in host.state.tags}
    assert {"terse1", "terse2", "terse3"} <= modes
    assert ("hm hm" in wire(request).split("Answer 9")[0]) is bool(keep)
    shortened = wire(request).split("Answer 2")[0]
    assert "really" not in shortened
    host.reopen(policy={**host.options["policy"], "keep_reasoning_tokens": 0})
    request = rebuild(host)
    assert "hm hm" not in wire(request).split("Answer 9")[0]
    assert "really" not in wire(request).split("Answer 2")[0], "and fewer words stay fewer words"
    rebuild(host, *write("anthropic", 11, "ok"))
    assert not differences(host.engine)


@pytest.mark.rule("INJECT-3", "THINK-8")
def test_fewer_words_leave_the_first_message_what_its_host_put_there():
    host = Chat(lanes=True, policy={"protected_tokens": 0, "caveman_text_compression": True, "caveman_min_chars": 100})
    host.say(user(f"please do it {words(100)}{REMINDER}"))
    rebuild(host, assistant("ok"), user("go on"))
    request = rebuild(host)
    assert host.state.tags[0].mode == "terse3"
    assert "Mind" in wire(request).split("go on")[0]
