"""Why a part looks as it does (specs/cli.md, CLI-14)."""

from __future__ import annotations

import pytest

import foldlog
from foldlog.projections.provenance import why
from support.past import opened, summarise, talk
from support.talk import Chat, user, words

STREAM = "session/api/s"


@pytest.fixture
def engine():
    with foldlog.Engine.open("memory:", summarizer=None) as opened:
        yield opened


def ask(text):
    return {"role": "user", "content": text}


def call(number):
    given = {"path": "x" * 2_000}
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": f"call{number}", "name": "read", "input": given}],
    }


def result(number, text):
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"call{number}", "content": text}]}


def tool_session(engine, **options):
    """One question, 25 calls with long results, a last answer: parts 2 to 26 are the results."""
    messages = [ask("look")]
    for number in range(25):
        messages += [call(number), result(number, f"line {number} " * 400)]
    session = engine.session("s", context_limit=1_000_000, policy={"protected_tokens": 0}, **options)
    session.prepare(messages)
    return session, messages


def events(found):
    return [step.event for step in found.steps]


def said(found):
    return " | ".join(step.what for step in found.steps)


@pytest.mark.rule("CLI-14")
def test_a_dropped_result_tells_its_whole_story(engine):
    session, messages = tool_session(engine)
    session.reduce("2", command="the-call")
    session.flush()
    session.prepare([*messages, {"role": "assistant", "content": "done"}, ask("more")])
    found = why(engine.log, STREAM, 2)
    assert (found.kind, found.m, found.p, found.status, found.on_path) == ("tool result", 3, 0, "dropped", True)
    assert events(found)[:2] == ["MessagesObserved", "MessagesObserved"]
    assert [name for name in events(found) if name != "MessagesObserved"] == [
        "BaselineFolded", "DropsQueued", "FlushRequested", *["ConversationRebuilt"] * 3,
    ]  # fmt: skip
    text = said(found)
    call_seen = "its call was observed: read (call0)"
    for piece in (call_seen, "numbered §2§", "(call the-call)", "landed in pass 2 (soft+)", "flush"):
        assert piece in text
    assert "together with its call" in found.present
    versions = [step.version for step in found.steps]
    assert versions == sorted(versions)
    assert all(step.at > 0 and step.stream == STREAM for step in found.steps)


@pytest.mark.rule("CLI-14", "LANE-1")
def test_what_left_unasked_names_its_lane(engine):
    session, messages = tool_session(engine)
    session.reduce("2")
    session.flush()
    session.prepare([*messages, {"role": "assistant", "content": "done"}, ask("more")])
    text = said(why(engine.log, STREAM, 4))
    assert "taken out (an earlier rebuild had shown it) by pass 2 (soft+), because of flush" in text
    assert "nothing was queued" not in text


@pytest.mark.rule("CLI-14", "LANE-1")
def test_what_a_held_pass_would_have_taken_out_is_told(engine):
    session, messages = tool_session(engine)
    session.reduce("2")
    messages += [{"role": "assistant", "content": "done"}, ask("more")]
    session.prepare(messages).report_usage(input=700_000)
    session.prepare([*messages, {"role": "assistant", "content": "done"}, ask("and more")])
    (step,) = [step for step in why(engine.log, STREAM, 5).steps if "would have" in step.what]
    assert step.what == "passes that could not rebuild would have taken it out: an earlier rebuild had shown it"


def test_a_part_nothing_happened_to_is_sent_whole(engine):
    tool_session(engine)
    found = why(engine.log, STREAM, 3)
    assert found.status == "active"
    assert found.present == "sent whole as §3§"
    assert events(found) == ["MessagesObserved", "MessagesObserved", "BaselineFolded"]


@pytest.mark.rule("CLI-14")
@pytest.mark.parametrize("queued", [False, True])
def test_what_a_summary_stands_for_is_not_sent_and_is_told_once(queued):
    """However often the summary is sent anew; and a part that is sent again says so."""
    host = Chat(opened(), context_limit=20_000)
    talk(host, 6)
    if queued:
        host.session.reduce("3")
    summarise(host, 6)
    for _ in range(3):
        host.session.report_cache_loss("said so")
        assert talk(host, 1).level == "hard"
    found = why(host.engine.log, "session/api/chat", 3)
    assert (found.status, found.present) == ("covered", "not sent: a summary of history stands for its message")
    assert said(found).count("covered by a summary") == 1
    assert why(host.engine.log, "session/api/chat", 8).present == "sent whole as §8§"
    del host.messages[3:]
    talk(host, 2, mark="again")
    found = why(host.engine.log, "session/api/chat", 3)
    assert found.present.startswith("sent whole")
    assert said(found).count("no summary of history stands for it any more") == 1


@pytest.mark.rule("CLI-14", "SAY-7")
def test_what_was_said_beside_a_part_is_told():
    host = Chat(context_limit=1_000_000)
    host.say(user("start")).report_usage(input=5_000)
    host.turn("back again", wait=720)
    assert "pass 2 (hard): said before it: a silence (" in said(why(host.engine.log, "session/api/chat", 3))
    host = Chat(context_limit=1_000_000, policy={"protected_tokens": 0, "cache_ttl": "never"})
    host.say(user("start"))
    for number in range(16):
        host.tool(f"t{number}", words(5_000) + str(number), n=number)
    told = [one.what for tag in range(2, 18) for one in why(host.engine.log, "session/api/chat", tag).steps]
    assert any("(defer): said behind it: a nudge (" in what for what in told)


def test_a_queued_part_says_so(engine):
    session, messages = tool_session(engine)
    session.reduce("2")
    session.prepare([*messages, {"role": "assistant", "content": "done"}, ask("more")])
    found = why(engine.log, STREAM, 2)
    assert found.status == "queued"
    assert events(found)[-1] == "DropsQueued"


def test_a_revision_and_a_rewind_are_told(engine):
    session = engine.session("s")
    session.prepare([ask("one"), {"role": "assistant", "content": "a"}, ask("two")])
    session.prepare([ask("one"), {"role": "assistant", "content": "b"}, ask("two")])
    assert "the host changed message 2" in said(why(engine.log, STREAM, 2))
    session.prepare([ask("one"), {"role": "assistant", "content": "b"}, ask("three")])
    found = why(engine.log, STREAM, 3)
    assert not found.on_path or "the host changed" in said(found)
    assert "the host changed message 3" in said(found) or "off the path" in said(found)


def test_a_fork_tells_its_parents_events_too(engine):
    session, messages = tool_session(engine)
    session.reduce("2")
    child = session.fork("child")
    child.prepare([*messages, {"role": "assistant", "content": "done"}, ask("more")])
    found = why(engine.log, "session/api/child", 2)
    streams = [step.stream for step in found.steps]
    assert streams == sorted(streams, reverse=True)
    assert set(streams) == {STREAM, "session/api/child"}
    assert "forked from api/s" in said(found)


def test_repeated_events_are_told_once(engine):
    session = engine.session("s", context_limit=1_000_000)
    messages = [ask("look")]
    session.prepare(messages)
    session.reduce("1")
    for _ in range(3):
        session.flush()
    found = why(engine.log, STREAM, 1)
    (flushes,) = [step for step in found.steps if step.event == "FlushRequested"]
    assert flushes.times == 3


@pytest.mark.parametrize("tag", [0, -1, 27, 10**9])
def test_a_number_never_given_is_an_error(engine, tag):
    tool_session(engine)
    with pytest.raises(foldlog.UnknownTag):
        why(engine.log, STREAM, tag)
