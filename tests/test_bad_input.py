"""Whatever a host hands over: a foldlog error with the state as it was, or a request; and the next good pass works."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import foldlog
from foldlog.domain.errors import FoldlogError
from support.talk import START, Chat, assistant, call, differences, fingerprint, image, result, shown, text, user, words

GOOD = [user("start"), assistant([call("t0")]), user([result("t0", "out"), text("and?")])]


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def ring() -> dict[str, Any]:
    value: dict[str, Any] = user("a")
    value["self"] = value
    return value


class Strange:
    def __repr__(self) -> str:
        raise RuntimeError("a host object may be broken")


def established() -> Chat:
    chat = Chat()
    chat.messages = list(GOOD)
    chat.again()
    chat.turn()
    return chat


def refused(chat: Chat, attempt: Callable[[], Any]) -> FoldlogError:
    """Return the error of ``attempt``; nothing of the session may have changed, and the next good pass works."""
    before = fingerprint(chat.session)
    with pytest.raises(FoldlogError) as caught:
        attempt()
    assert fingerprint(chat.session) == before
    assert caught.value.message
    assert str(caught.value)
    passes = chat.session.status().passes
    assert chat.turn().pass_number == passes + 1
    assert differences(chat.engine) == []
    return caught.value


# ------------------------------------------------------------------------ messages

BAD_MESSAGES: dict[str, Any] = {
    "not-json": b"{",
    "not-json-text": '{"role": "user", "content": }',
    "empty-bytes": b"",
    "two-values": b'{"role":"user","content":"a"} {"role":"user","content":"b"}',
    "not-utf8": b'{"role":"user","content":"\xff"}',
    "surrogate-bytes": b'{"role":"user","content":"\xed\xa0\x80"}',
    "utf16": '{"role":"user","content":"a"}'.encode("utf-16"),
    "bom": b'\xef\xbb\xbf{"role":"user","content":"a"}',
    "nothing": None,
    "number": 5,
    "list": [],
    "string": "text",
    "json-null": b"null",
    "json-list": b"[]",
    "no-role": {"content": "a"},
    "unknown-role": {"role": "wizard", "content": "a"},
    "role-of-another-codec": {"role": "toolResult", "content": []},
    "role-number": {"role": 5, "content": "a"},
    "role-list": {"role": ["user"], "content": "a"},
    "no-content": {"role": "user"},
    "content-null": user(None),
    "content-number": user(5),
    "content-dict": user({"type": "text", "text": "a"}),
    "content-of-strings": user(["a"]),
    "block-without-type": user([{"text": "a"}]),
    "block-type-number": user([{"type": 5}]),
    "text-without-text": user([{"type": "text"}]),
    "text-null": user([{"type": "text", "text": None}]),
    "text-number": user([{"type": "text", "text": 5}]),
    "bytes-inside": user(b"a"),
    "set-inside": user({"a"}),
    "datetime-inside": {**user("a"), "at": dt.datetime.now(tz=dt.UTC)},
    "decimal-inside": {**user("a"), "n": Decimal(1)},
    "complex-inside": {**user("a"), "n": 1j},
    "object-inside": {**user("a"), "n": object()},
    "broken-repr-inside": {**user("a"), "n": Strange()},
    "number-key": {**user("a"), 5: 1},
    "none-key": {**user("a"), None: 1},
    "tuple-key": {**user("a"), (1, 2): 1},
    "huge-integer": {**user("a"), "n": 10**5_000},
    "nested-10000": {**user("a"), "n": deep(10_000)},
    "nested-10000-json": b'{"role":"user","content":"a","n":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "nested-10000-open": b'{"role":"user","content":"a","n":' + b"[" * 10_000,
    "nested-201": {**user("a"), "n": deep(201)},
    "ring": ring(),
    "33-MiB": user("x" * (33 << 20)),
    "5000-parts": user([text(f"p{n}") for n in range(5_000)]),
    "call-of-a-user": user([call("t")]),
    "result-without-a-call": user([result("nobody", "x")]),
    "result-without-an-id": user([{"type": "tool_result", "content": "x"}]),
    "result-id-number": user([{"type": "tool_result", "tool_use_id": 5, "content": "x"}]),
    "result-twice": user([result("t0", "x")]),
    "result-content-number": user([{"type": "tool_result", "tool_use_id": "t0", "content": 5}]),
}


@pytest.mark.slow
@pytest.mark.rule("API-9", "PROP-11")
@pytest.mark.parametrize("name", list(BAD_MESSAGES))
@pytest.mark.parametrize("door", ["prepare", "advance", "revised"])
def test_a_message_that_cannot_be_used(name: str, door: str):
    chat = established()
    bad = BAD_MESSAGES[name]
    if door == "prepare":
        refused(chat, lambda: chat.session.prepare([*chat.messages, assistant("x"), bad], now=chat.now))
    elif door == "advance":
        refused(chat, lambda: chat.session.advance([assistant("x"), bad], now=chat.now))
    elif name != "result-twice":
        refused(chat, lambda: chat.session.advance(revised=[(1, bad)], now=chat.now))


@pytest.mark.rule("API-9")
@pytest.mark.parametrize("name", list(BAD_MESSAGES))
def test_a_bad_first_message_makes_no_session_exist(name: str):
    engine = foldlog.Engine.open("memory:", summarizer=None)
    session = engine.session("new")
    with pytest.raises(FoldlogError):
        session.prepare([BAD_MESSAGES[name]])
    assert engine.sessions() == []
    assert session.status().version == 0
    assert session.prepare([user("a")]).pass_number == 1


@pytest.mark.rule("API-9")
def test_errors_say_what_where_and_what_to_do():
    chat = established()
    error = refused(
        chat, lambda: chat.session.prepare([*chat.messages, assistant("x"), user([text("a"), {"text": "b"}])])
    )
    assert isinstance(error, foldlog.MessageError)
    assert error.where == "messages[6].content[1].type"
    error = refused(chat, lambda: chat.session.advance(revised=[(99, user("a"))]))
    assert (error.where, error.value) == ("revised[0]", 99)
    error = refused(chat, lambda: chat.session.prepare([{"role": "user", "content": {"x": {1, 2}}}]))
    assert error.where == "messages[0].content.x"
    error = refused(chat, lambda: chat.session.prepare([b'{"role":"user","content":"a",}']))
    assert "at byte 2" in error.message


@pytest.mark.rule("API-9", "PROP-3")
@pytest.mark.parametrize(
    "messages",
    [
        [user("a"), assistant([call("x")])],
        [user("a"), assistant([call("x")]), user("never mind")],
        [user("a"), assistant([call("x")]), assistant("b"), user("c")],
        [user("a"), assistant([call("x"), call("y")]), user([result("x", "1")])],
        [user("a"), assistant([call("x"), call("x")]), user([result("x", "1"), result("x", "2")])],
        [user("a"), assistant([call("x")]), user([result("x", "1"), result("x", "2")])],
        [user("a"), assistant([call("x")]), user([result("y", "1")])],
        [user([result("x", "1")])],
        [user("a"), assistant([call("x")]), user([result("x", "1")]), assistant([call("x")]), user([result("x", "2")])],
    ],
    ids=["open", "text-instead", "next-turn", "half", "id-twice", "answered-twice", "other-id", "no-call", "id-again"],
)
def test_half_a_pair_and_ids_used_twice(messages: list[Any]):
    """TP-02, TP-05, TP-11: what no provider accepts is refused with its place, and the session goes on."""
    chat = established()
    error = refused(chat, lambda: chat.session.prepare(messages, now=chat.now))
    assert isinstance(error, foldlog.MessageError)
    assert error.where.startswith("messages[")
    shifted = [*GOOD, assistant("ok"), *messages]
    refused(established(), lambda: foldlog.Engine.open("memory:", summarizer=None).session("x").prepare(shifted))


@pytest.mark.rule("API-9")
@pytest.mark.parametrize(
    "messages",
    [None, 5, "text", b"[]", {}, {"role": "user", "content": "a"}, [], (), [[]], {1}, object(), iter(()), True],
    ids=[
        "none",
        "int",
        "text",
        "bytes",
        "dict",
        "message",
        "empty",
        "tuple",
        "lists",
        "set",
        "object",
        "iterator",
        "bool",
    ],
)
def test_what_is_no_array_of_messages(messages: Any):
    chat = established()
    refused(chat, lambda: chat.session.prepare(messages, now=chat.now))


@pytest.mark.rule("API-9")
@pytest.mark.parametrize(
    "given",
    [
        {"revised": None},
        {"revised": 5},
        {"revised": [5]},
        {"revised": [(1,)]},
        {"revised": [(1, user("a"), 2)]},
        {"revised": "ab"},
        {"revised": [(None, user("a"))]},
        {"revised": [([], user("a"))]},
        {"revised": [(True, user("a"))]},
        {"revised": [(0, user("a"))]},
        {"revised": [(-1, user("a"))]},
        {"revised": [("1", user("a"))]},
        {"revised": [(1, user("x")), (1, user("y"))]},
        {"revised": [(1.0, user("a"))]},
        {"retracted": None},
        {"retracted": 5},
        {"retracted": [None]},
        {"retracted": [99]},
        {"retracted": "1"},
        {"retracted": [1, 1]},
        {"retracted": [1, 2, 3, 4, 5]},
        {"retracted": [{}]},
        {"retracted": [2]},
        {"retracted": [3]},
        {"revised": [(1, user("x"))], "retracted": [1]},
        {"new_messages": None},
        {"new_messages": "ab"},
        {"new_messages": 5},
        {"new_messages": [None]},
    ],
    ids=repr,
)
def test_changes_that_cannot_be(given: dict[str, Any]):
    chat = established()
    refused(chat, lambda: chat.session.advance(**given, now=chat.now))


@pytest.mark.rule("API-9")
@pytest.mark.parametrize("name", ["advance", "expand"])
def test_of_a_session_without_messages_no_figures_are_told(name: str):
    session = foldlog.Engine.open("memory:", summarizer=None).session("new")
    with pytest.raises(foldlog.InputError) as caught:
        session.advance() if name == "advance" else session.expand(1, 2)
    assert (
        str(caught.value)
        == {
            "advance": "messages: there is nothing to send: no message was ever told",
            "expand": "the session has no messages yet (got '1-2')",
        }[name]
    )


# --------------------------------------------------------------------- system, tools, now


@pytest.mark.rule("API-9")
@pytest.mark.parametrize(
    "given",
    [
        {"system": 5},
        {"system": {"a": 1}},
        {"system": [1]},
        {"system": [[]]},
        {"system": b"{"},
        {"system": object()},
        {"system": {"x"}},
        {"system": deep(10_000)},
        {"tools": 5},
        {"tools": "x"},
        {"tools": {"a": 1}},
        {"tools": [1]},
        {"tools": [None]},
        {"tools": b"[{]"},
        {"tools": object()},
        {"tools": [{"name": {1}}]},
        {"tools": deep(10_000)},
    ],
    ids=lambda given: next(iter(given)),
)
@pytest.mark.parametrize("new", [True, False])
def test_system_and_tools_that_cannot_be(given: dict[str, Any], new: bool):
    if new:
        engine = foldlog.Engine.open("memory:", summarizer=None)
        with pytest.raises(FoldlogError):
            engine.session("new").prepare([user("a")], **given)
        assert engine.sessions() == []
    else:
        chat = established()
        refused(chat, lambda: chat.session.prepare(chat.messages, **given, now=chat.now))


@pytest.mark.rule("API-13")
@pytest.mark.parametrize(
    "now",
    [
        math.nan,
        math.inf,
        -math.inf,
        -1,
        1e30,
        10**400,
        "now",
        True,
        [],
        dt.datetime(2025, 1, 1),  # noqa: DTZ001
        dt.date(2025, 1, 1),
        dt.datetime.min.replace(tzinfo=dt.UTC),
        Decimal(5),
    ],
    ids=lambda now: repr(now)[:24],
)
def test_times_that_are_none(now: Any):
    chat = established()
    refused(chat, lambda: chat.session.prepare([*chat.messages, assistant("x"), user("y")], now=now))
    refused(chat, lambda: chat.session.advance([assistant("x"), user("y")], now=now))
    request = chat.turn()
    refused(chat, lambda: request.report_usage(input=5, now=now))


# ------------------------------------------------------------------------- reports, options


@pytest.mark.rule("API-9", "WINDOW-8")
@pytest.mark.parametrize("field", ["input", "cache_read", "cache_write", "output"])
@pytest.mark.parametrize("count", [-1, -(10**30), 2**80, 1.5, math.nan, "5", True, [], b"5"], ids=repr)
def test_usage_that_is_no_count(field: str, count: Any):
    chat = established()
    request = chat.turn()
    refused(chat, lambda: request.report_usage(**{field: count}))


@pytest.mark.rule("API-9")
@pytest.mark.parametrize(
    "given",
    [
        {"limit": -1},
        {"used": -1},
        {"limit": "x"},
        {"limit": 2**80},
        {"used": 1.5},
        {"detail": None},
        {"detail": 5},
        {"command": 5},
    ],
    ids=repr,
)
def test_failures_that_cannot_be(given: dict[str, Any]):
    chat = established()
    request = chat.turn()
    refused(chat, lambda: request.report_failure("overflow", **given))


def test_a_detail_of_any_text_is_kept():
    """API-14: a provider's words may hold anything."""
    chat = established()
    chat.turn().report_failure("broken", detail="\ud800 \x00 é" + "x" * 100_000)
    assert chat.turn().level == "defer"
    assert differences(chat.engine) == []


@pytest.mark.rule("API-9")
@pytest.mark.parametrize(
    "options",
    [
        {"id": ""},
        {"id": None},
        {"id": 5},
        {"id": b"x"},
        {"harness": ""},
        {"harness": 5},
        {"codec": ""},
        {"codec": "gpt"},
        {"codec": ["pi"]},
        {"mode": "boss"},
        {"mode": {}},
        {"mode": None},
        {"model": 5},
        {"model": ["m"]},
        {"context_limit": -1},
        {"context_limit": 1.5},
        {"context_limit": "200000"},
        {"context_limit": True},
        {"context_limit": 2**70},
        {"output_limit": -1},
        {"output_limit": math.inf},
        {"policy": 5},
        {"policy": "x"},
        {"policy": {"nothing": 1}},
        {"policy": {"execute_threshold_percentage": 5}},
        {"policy": {"cache_ttl": "\ud800"}},
    ],
    ids=repr,
)
def test_options_that_cannot_be(options: dict[str, Any]):
    engine = foldlog.Engine.open("memory:", summarizer=None)
    with pytest.raises(foldlog.OptionError):
        engine.session(**{"id": "new", **options})
    assert engine.sessions() == []


@pytest.mark.rule("API-9")
@pytest.mark.parametrize("field", ["id", "harness", "model"])
def test_options_with_half_a_character(field: str):
    """A lone surrogate in a name is refused before anything is stored."""
    engine = foldlog.Engine.open("memory:", summarizer=None)
    with pytest.raises(foldlog.OptionError, match=f"{field} holds half a character"):
        engine.session(**{"id": "new", field: "a\ud800"})
    assert engine.sessions() == []
    assert engine.session("good").prepare([user("a")]).pass_number == 1


@pytest.mark.rule("API-9")
@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
@pytest.mark.parametrize("name", ["flush", "reduce", "report_cache_loss", "fork"])
def test_commands_with_half_a_character_do_nothing(name: str, used: bool):
    chat = established() if used else Chat()
    given = {"reduce": ("1",), "report_cache_loss": ("gone",)}.get(name, ())
    before = fingerprint(chat.session)
    with pytest.raises(foldlog.InputError, match="holds half a character"):
        getattr(chat.session, name)(*given, "a\ud800")
    assert fingerprint(chat.session) == before
    assert [found for found, _ in chat.engine.sessions()] == (["api/chat"] if used else [])


def test_a_loss_is_reported_in_any_words():
    """API-9, PERM-12: what a host says of it is never a reason not to know of it."""
    chat = established()
    chat.session.report_cache_loss("\ud800 \x00 é")
    assert "cache_loss" in chat.turn().reasons
    assert differences(chat.engine) == []


# --------------------------------------------------------- strange, and to be taken all the same


@pytest.mark.rule("API-9")
@pytest.mark.parametrize(
    "content",
    ["", "   ", "\n", [], [text("")], [text(" \t")], [text(""), text("\u2003")]],
    ids=repr,
)
def test_empty_content_never_leaves_an_empty_block(content: Any):
    """TP-15: blank texts are left out; a turn that would vanish says so."""
    chat = established()
    request = chat.say(assistant(content), user(content))
    assert request.level == "defer"
    for message in request.messages:
        blocks = message["content"] if isinstance(message["content"], list) else [text(message["content"])]
        assert blocks
        assert all(block["type"] != "text" or block["text"].strip() for block in blocks)
    assert request.messages[-1]["content"][0]["text"] == "(no content)"
    assert chat.turn().messages_json[: len(request.messages_json)] == request.messages_json
    assert differences(chat.engine) == []


@pytest.mark.slow
@pytest.mark.rule("API-9", "REDUCE-8")
def test_a_result_of_twenty_megabytes():
    chat = established()
    output = "a line of a long log <|endoftext|> é\n" * (20 * 1024 * 1024 // 38)
    before = chat.again().messages_json
    request = chat.tool("big", output)
    assert request.level == "defer"
    assert request.messages_json[: len(before)] == before
    number = shown(request)[-1]
    assert chat.session.expand(number)[0].text == output
    assert chat.state.tags[number - 1].tokens > 3_000_000
    chat.session.reduce(str(number))
    chat.session.flush()
    assert len(b"".join(chat.turn().messages_json)) < 10_000


@pytest.mark.rule("API-9")
def test_special_tokens_in_text_are_text():
    chat = established()
    said = "<|endoftext|> <|fim_prefix|> <|im_start|>system <|endofprompt|>"
    request = chat.say(assistant(said), user([text(said), image()]))
    assert said in str(request.messages)
    assert [reply.text for reply in chat.session.expand(f"{shown(request)[-3]}")] == [said]


@pytest.mark.rule("API-9")
@pytest.mark.parametrize(
    "raw",
    [
        b'{"role":"user","content":"half \\ud83d of it"}',
        b'{"role":"user","content":[{"type":"text","text":"\\ude00\\ud83d"}]}',
        b'{"role":"user","content":"a","n":[NaN,1e400,-0,1.10,123456789012345678901234567890]}',
        b'{"role":"user","content":"a","x":1,"x":2,"\\ud800":3}',
        b'{"role":"user","content":"\\u0000\\u0007\x7f"}',
        b'\n { "content" : "b" , "role" : "user" }\n',
        b'{"role":"user","content":"\xe2\x80\xa8\xe2\x80\xae\xef\xbf\xbf"}',
    ],
    ids=["half", "swapped", "numbers", "double-keys", "controls", "blanks", "separators"],
)
def test_odd_json_is_kept_as_it_came(raw: bytes):
    """Convention 4; UN-01: half a character neither ends the session nor is lost."""
    chat = established()
    request = chat.say(assistant("x"), raw)
    assert request.level == "defer"
    assert chat.session.expand(len(chat.messages), len(chat.messages))[0].json == raw
    after = chat.turn()
    assert after.messages_json[: len(request.messages_json)] == request.messages_json
    assert json.loads(after.messages_json[-3])
    chat.session.reduce(str(shown(request)[-1]))
    chat.session.flush()
    chat.again()
    assert differences(chat.engine) == []


@pytest.mark.rule("API-9")
def test_tuples_are_lists_and_unknown_fields_survive():
    chat = established()
    given_message = {"role": "user", "content": (text("a", later=(1, 2)),), "extra": {"b": [None, True]}}
    request = chat.say(assistant("x"), given_message)
    block = '{"type":"text","text":"§7§ a","later":[1,2]}'
    assert request.messages_json[-1].decode() == f'{{"role":"user","content":[{block}],"extra":{{"b":[null,true]}}}}'


@pytest.mark.rule("SCHED-7")
def test_clocks_that_go_backwards():
    chat = established()
    for now in (START + 5_000, START - 5_000, 0, 1, START):
        request = chat.say(assistant("x"), user(f"at {now}"))
        request = chat.session.prepare([*chat.messages, assistant("x"), user("y")], now=now)
        request.report_usage(input=5, now=now)
        chat.messages += [assistant("x"), user("y")]
    assert differences(chat.engine) == []


@pytest.mark.rule("WINDOW-3")
def test_a_window_of_zero_is_unknown():
    """OV-19."""
    chat = Chat(context_limit=0, output_limit=0)
    chat.say(user(words(300)))
    assert not chat.session.status().window_known
    assert chat.turn().level == "defer"


def test_nesting_up_to_the_limit_is_taken():
    """API-9: 200 is the limit of the whole message."""
    chat = established()
    request = chat.say(assistant("x"), {**user("a"), "n": deep(190)})
    assert request.level == "defer"


@pytest.mark.parametrize(
    "url", [5, "", "x", "file:///x", "sqlite:", "sqlite:///", "postgresql:/x", b"memory:", "memory:x", "mysql://a/b"]
)
def test_urls_of_no_store(url: Any):
    """API-9."""
    with pytest.raises(FoldlogError):
        foldlog.Engine.open(url, summarizer=None).close()
