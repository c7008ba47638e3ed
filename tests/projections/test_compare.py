"""Two requests held against each other (specs/cli.md, CLI-13)."""

from __future__ import annotations

import pytest

import foldlog
from foldlog.projections.compare import _differs, diff
from support.past import opened, summarise, talk
from support.talk import Chat

STREAM = "session/api/s"
LONG = "some words " * 200


@pytest.fixture
def engine():
    with foldlog.Engine.open("memory:", summarizer=None) as opened:
        yield opened


def ask(text):
    return {"role": "user", "content": text}


def answer(*texts):
    return {"role": "assistant", "content": [{"type": "text", "text": text} for text in texts]}


def wire(engine, number):
    """The request's bytes in wire order, as specs/cli.md counts them."""
    built = engine.replay("s", number)
    return built.tools + built.system + b"".join(built.messages)


def holds(engine, found):
    """The first difference is where the bytes say it is."""
    left, right = wire(engine, found.left), wire(engine, found.right)
    assert (found.left_bytes, found.right_bytes) == (len(left), len(right))
    if found.first is None:
        assert left.startswith(right) or right.startswith(left)
        return
    at = found.first.byte
    assert left[:at] == right[:at]
    assert left[at : at + 1] != right[at : at + 1]


@pytest.mark.rule("CLI-13")
def test_a_request_that_goes_on_has_no_first_difference(engine):
    session = engine.session("s")
    session.prepare([ask("one")])
    session.prepare([ask("one"), answer("a", "b"), ask("two")])
    found = diff(engine.log, STREAM, 1, 2)
    holds(engine, found)
    assert found.first is None
    assert [(one.kind, one.m, one.p) for one in found.changes] == [("added", 2, 0), ("added", 2, 1), ("added", 3, 0)]
    assert {one.owner.event for one in found.changes} == {"MessagesObserved"}
    back = diff(engine.log, STREAM, 2, 1)
    assert [(one.kind, one.m, one.p) for one in back.changes] == [
        ("removed", 2, 0),
        ("removed", 2, 1),
        ("removed", 3, 0),
    ]


def test_a_pass_is_equal_to_itself(engine):
    session = engine.session("s")
    session.prepare([ask("one")])
    found = diff(engine.log, STREAM, 1, 1)
    assert (found.first, found.changes) == (None, ())
    assert found.same > 0


@pytest.mark.rule("CLI-13")
def test_a_landed_drop_owns_its_difference(engine):
    session = engine.session("s", context_limit=1_000_000)
    messages = [ask("one"), answer("first", LONG), ask("two")]
    session.prepare(messages, system="You help.", tools=[{"name": "read", "input_schema": {}}])
    session.reduce("3")
    session.flush()
    session.prepare([*messages, answer("done"), ask("three")])
    found = diff(engine.log, STREAM, 1, 2)
    holds(engine, found)
    (changed,) = [one for one in found.changes if one.kind == "changed"]
    assert (changed.m, changed.p) == (2, 1)
    assert (changed.owner.event, changed.owner.number) == ("ConversationRebuilt", 2)
    assert changed.owner.edit == "body = placeholder"
    assert changed.now < changed.was
    assert (found.first.m, found.first.p, found.first.owner) == (2, 1, changed.owner)
    assert "[dropped §3§]" in found.first.now


@pytest.mark.rule("CLI-13")
def test_what_a_summary_covers_is_removed_by_the_first_fold_that_covers_it():
    """Also where something was done to it before, and where the head is rendered again behind that fold."""
    host = Chat(opened(), context_limit=20_000)
    talk(host, 6)
    host.session.reduce("2")
    host.session.flush()
    talk(host, 1)
    summarise(host, 6)
    for _ in range(2):
        host.session.report_cache_loss("said so")
        talk(host, 1)
    found = diff(host.engine.log, "session/api/chat", 6, 9)
    removed = [one for one in found.changes if one.kind == "removed"]
    assert [one.m for one in removed] == [1, 2, 3, 4, 5, 6]
    assert {(one.owner.event, one.owner.number) for one in removed} == {("BaselineFolded", 8)}
    assert {one.owner.edit for one in removed} == {"a summary of history stands for it"}
    back = diff(host.engine.log, "session/api/chat", 9, 6)
    assert {one.owner.number for one in back.changes if one.kind == "added"} == {8}


def test_a_dropped_arc_is_removed_not_shifted(engine):
    """What stands behind a removed block is the same block, not another one a place further on."""
    policy = {"protected_tokens": 0, "protected_tools": {"x": 100}}
    session = engine.session("s", context_limit=1_000_000, policy=policy)
    messages = [ask("look")]
    for number in range(24):
        given = {"path": "x" * 2_000}
        messages += [
            {"role": "assistant", "content": [{"type": "tool_use", "id": f"c{number}", "name": "x", "input": given}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{number}", "content": LONG}]},
        ]
    session.prepare(messages)
    session.reduce("2")
    session.flush()
    session.prepare([*messages, answer("done"), ask("on")])
    found = diff(engine.log, STREAM, 1, 2)
    holds(engine, found)
    gone = [(one.m, one.p) for one in found.changes if one.kind == "removed"]
    assert gone == [(2, 0), (3, 0)]
    assert [one for one in found.changes if one.kind == "changed"] == []
    assert {one.owner.edit for one in found.changes if one.kind == "removed"} == {"body = absent"}


@pytest.mark.rule("CLI-13")
def test_the_hosts_own_change_is_its_events(engine):
    session = engine.session("s")
    session.prepare([ask("one"), answer("same", "old"), ask("two")])
    session.prepare([ask("one"), answer("same", "new"), ask("two"), answer("x"), ask("three")])
    found = diff(engine.log, STREAM, 1, 2)
    holds(engine, found)
    assert (found.first.m, found.first.p, found.first.owner.event) == (2, 1, "PartsRevised")


def test_a_rewind_is_the_head_moving(engine):
    session = engine.session("s")
    session.prepare([ask("one"), answer("a"), ask("two")])
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    session.prepare([ask("one"), answer("a"), {"role": "user", "content": [{"type": "image", "source": source}]}])
    found = diff(engine.log, STREAM, 1, 2)
    holds(engine, found)
    assert {one.kind for one in found.changes} & {"removed", "changed"}
    assert {one.owner.event for one in found.changes} <= {"HeadMoved", "MessagesObserved", "PartsRevised"}


@pytest.mark.rule("CLI-13")
def test_a_changed_system_text_is_told(engine):
    session = engine.session("s")
    session.prepare([ask("one")], system="You help.")
    session.prepare([ask("one"), answer("a"), ask("two")], system="You help much.")
    found = diff(engine.log, STREAM, 1, 2)
    holds(engine, found)
    assert found.first.region == "system"
    assert found.first.owner.event in ("SystemChanged", "BaselineFolded")


@pytest.mark.parametrize("codec", ["openai-chat", "pi"])
def test_other_codecs(engine, codec):
    session = engine.session("s", codec=codec, context_limit=1_000_000)
    tail = {"stopReason": "stop", "timestamp": 0} if codec == "pi" else {}
    said = {"role": "assistant", "content": [{"type": "text", "text": LONG}], **tail}
    messages = [ask("one"), said, ask("two")]
    if codec == "openai-chat":
        messages.insert(0, {"role": "system", "content": "You help."})
    session.prepare(messages)
    session.reduce("2")
    session.flush()
    session.prepare([*messages, said, ask("three")])
    found = diff(engine.log, STREAM, 1, 2)
    holds(engine, found)
    assert (found.first.m, found.first.p) == (2, 0)
    assert found.first.owner.edit == "body = placeholder"


@pytest.mark.parametrize(("left", "right"), [(1, 2), (0, 1), (7, 1)])
def test_a_pass_that_is_not_there_is_an_error(engine, left, right):
    engine.session("s").prepare([ask("one")])
    with pytest.raises(foldlog.UnknownTag):
        diff(engine.log, STREAM, left, right)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (b"", b""),
        (b"", b"x"),
        (b"abc", b"abd"),
        (b"abc", b"ab"),
        (b"xbc", b"ybc"),
        (b"a" * 1000 + b"1", b"a" * 1000 + b"2"),
    ],
)
def test_where_two_texts_differ(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert _differs(a, b) == at
