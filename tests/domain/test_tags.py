"""Numbers: what gets one, that they are never reused, that they stand where they stood."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from foldlog.domain.state import State
from support.talk import Chat, assistant, call, differences, image, result, shown, text, thinking, use, user, words


def texts(message: dict[str, Any]) -> list[Any]:
    content = message["content"]
    return [content] if isinstance(content, str) else [block.get("text", block["type"]) for block in content]


@pytest.mark.rule("TAG-1", "TAG-2", "TAG-3")
def test_what_gets_a_number():
    chat = Chat()
    request = chat.say(
        user([text("look"), image(), text("  \n")]),
        assistant([thinking(), text("I see"), call("a"), call("b")]),
        user([result("a", "out"), result("b", [text("two"), image()]), text("so?")]),
    )
    sent = request.messages
    assert texts(sent[2]) == ["§1§ look", "§2§", "image"]
    assert texts(sent[3]) == ["thinking", "§3§ I see", "tool_use", "tool_use"]
    assert sent[4]["content"][0]["content"] == "§4§ out"
    assert texts(sent[4]["content"][1]) == ["§5§ two", "image"]
    assert sent[4]["content"][2]["text"] == "§6§ so?"
    assert shown(request) == [1, 2, 3, 4, 5, 6]


@pytest.mark.rule("TAG-3")
@pytest.mark.parametrize(("output", "sent"), [("", "§2§"), ([], "§2§"), ([text("")], [text("§2§")])])
def test_an_empty_output_is_its_number(output: Any, sent: Any):
    chat = Chat()
    request = chat.say(user("start"), assistant([call("a")]), user([result("a", output), text("and")]))
    assert request.messages[-1]["content"][0]["content"] == sent


@pytest.mark.rule("TAG-1")
def test_an_error_result_gets_a_number_too():
    chat = Chat()
    request = chat.say(
        user("start"), assistant([call("a")]), user([result("a", "no such file", is_error=True), text("hm")])
    )
    assert request.messages[-1]["content"][0] == {**result("a", "§2§ no such file"), "is_error": True}


@pytest.mark.rule("TAG-4", "TAG-10")
def test_numbers_the_agent_cannot_use_are_not_shown():
    chat = Chat(reduce_tool=False)
    request = chat.say(user("start"))
    assert request.messages[-1]["content"][0]["text"] == "start"
    assert request.system is None
    assert [tag.kind for tag in chat.state.tags] == ["text"]
    assert chat.session.expand(1)[0].text == "start"


@pytest.mark.rule("TAG-10")
@pytest.mark.parametrize(
    ("codec", "tool", "callable_"),
    [
        ("anthropic", {"name": "ctx_reduce", "input_schema": {}}, True),
        ("anthropic", {"name": "mcp__foldlog__ctx_reduce", "input_schema": {}}, True),
        ("anthropic", {"name": "foldlog_ctx_reduce", "input_schema": {}}, True),
        ("anthropic", {"name": "ctx_reduce_later", "input_schema": {}}, False),
        ("openai-chat", {"type": "function", "function": {"name": "ctx_reduce", "parameters": {}}}, True),
        ("openai-chat", {"type": "function", "function": {"name": "Bash", "parameters": {}}}, False),
    ],
)
@pytest.mark.parametrize("option", [True, False])
def test_a_tool_list_says_whether_ctx_reduce_can_be_called(
    codec: str, tool: dict[str, Any], callable_: bool, option: bool
):
    """Convention 10: the request's own list decides; frozen at the first pass."""
    chat = Chat(codec=codec, reduce_tool=option)
    assert bool(shown(chat.say(user("start"), tools=[tool]))) is callable_
    assert bool(shown(chat.turn(tools=[]))) is callable_


@pytest.mark.rule("TAG-10")
@pytest.mark.parametrize("option", [True, False])
def test_without_a_list_the_option_says_it(option: bool):
    chat = Chat(reduce_tool=option)
    assert bool(shown(chat.say(user("start")))) is option
    chat.reopen(reduce_tool=not option)
    assert bool(shown(chat.turn())) is option


@pytest.mark.rule("TAG-5")
def test_an_edited_message_is_served_as_edited_under_its_number():
    """2.5, fixed: the stored source does not mask an edit."""
    chat = Chat()
    chat.say(user("start"), assistant("first draft"), user("second"))
    chat.messages[1] = assistant("the edited draft")
    request = chat.say(assistant("third"), user("fourth"))
    assert [texts(m)[0] for m in request.messages[2:]] == [
        "§1§ start", "§2§ the edited draft", "§3§ second", "§4§ third", "§5§ fourth",
    ]  # fmt: skip
    assert request.reasons == ("host_revised",)
    assert chat.session.expand(2)[0].text == "the edited draft"


@pytest.mark.rule("TAG-5")
def test_a_dropped_part_the_host_edits_comes_back_as_edited():
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"))
    for number in range(5):
        chat.tool(f"t{number}", words(3_000))
    use(chat.turn(), 180_000)
    chat.session.reduce("2")
    assert chat.turn().level == "soft+"
    request = chat.advance(revised=[(3, user([result("t0", "short now")]))])
    assert "§2§ short now" in str(request.messages)
    assert chat.state.tags[1].status == "active"
    assert "Queued" in chat.session.reduce("2")


@pytest.mark.rule("TAG-6")
def test_numbers_of_removed_messages_are_never_given_again():
    chat = Chat()
    chat.say(user("a"), assistant("b"), user("c"), assistant("d"), user("e"))
    chat.advance(retracted=[3, 4])
    request = chat.advance(assistant("f"), user("g"))
    assert shown(request) == [1, 2, 5, 6, 7]


@pytest.mark.rule("TAG-6", "IDENT-4")
def test_a_path_that_comes_back_finds_its_numbers_drops_and_queue():
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"))
    for number in range(5):
        chat.tool(f"t{number}", words(3_000))
    use(chat.turn(), 180_000)
    chat.session.reduce("2")
    old = chat.turn()
    chat.session.reduce("3")
    main = list(chat.messages)
    chat.messages = [*main[:5], user("another way")]
    chat.again()
    chat.messages = [*chat.messages, assistant("yes"), user("on with it")]
    branch = chat.again()
    assert shown(branch)[-3:] == [11, 12, 13]
    assert "[dropped §2§]" in str(branch.messages)
    chat.messages = main
    chat.again()
    back = chat.turn()
    assert back.messages_json[: len(old.messages_json)] == old.messages_json
    assert 3 in chat.state.queue
    assert shown(back)[-1] == 15


@pytest.mark.rule("TAG-5", "TAG-6", "IDENT-2")
@pytest.mark.parametrize("marked", ["", "queued", "dropped"])
@pytest.mark.parametrize("kind", ["texts", "results"])
def test_what_comes_where_a_part_was_taken_away_has_a_number_of_its_own(kind: str, marked: str):
    """A message that grew shorter and longer again: nothing of the old part is the new one's."""
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"))
    ids = ["a", "b"] if kind == "results" else []
    chat.say(
        assistant([text("I look."), *(call(id) for id in ids)]),
        user([result(id, words(300)) for id in ids] or [text("one " + words(300)), text("two " + words(300))]),
    )
    for number in range(4):
        chat.tool(f"t{number}", "x")
    old = 4
    assert chat.state.tags[old - 1].m == 3
    if marked:
        chat.session.reduce(str(old))
    if marked == "dropped":
        chat.session.flush()
    chat.turn()
    one, two = user(chat.messages[2]["content"][:1]), assistant(chat.messages[1]["content"][: 1 + len(ids) // 2])
    chat.advance(revised=[(2, two), (3, one)] if ids else [(3, one)])
    assert (old in chat.state.queue, old in chat.state.tools_order) == (False, False)
    three = user([*one["content"], result("c", "new")] if ids else [*one["content"], text("three")])
    request = chat.advance(revised=[(2, assistant([*two["content"], call("c")])), (3, three)] if ids else [(3, three)])
    new = len(chat.state.tags)
    assert chat.state.tags[new - 1].m == 3
    assert chat.state.tags[new - 1].status == "active"
    assert f"§{new}§ {'new' if ids else 'three'}" in b"".join(request.messages_json).decode()
    assert "two" in chat.session.expand(old)[0].text or ids
    assert (new in chat.state.tools_order) is bool(ids)
    assert differences(chat.engine) == []


@pytest.mark.rule("TAG-5", "TAG-6", "DROP-7", "REDUCE-4")
@pytest.mark.parametrize("marked", ["", "before", "after"])
@pytest.mark.parametrize("kind", ["an output", "a text"])
def test_what_comes_where_a_part_of_another_kind_stood_has_a_number_of_its_own(kind: str, marked: str):
    """What was marked is no more; whoever marks the old number marks nothing, and the new part stays."""
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"))
    chat.tool("a", "x")
    if kind == "an output":
        chat.say(assistant([call("b"), call("c")]), user([result("b", "x"), result("c", words(300))]))
        revised = [(4, assistant([call("b")])), (5, user([result("b", "x"), text("it said words")]))]
    else:
        chat.say(assistant("seen"), user([text("look"), text("and " + words(300))]))
        revised = [(5, user([text("look"), image()]))]
    old = len(chat.state.tags)
    tools = [number for number in chat.state.tools_order if number != old]
    if marked == "before":
        chat.session.reduce(str(old))
    for m, message in revised:
        chat.messages[m - 1] = message
    sent = chat.again().messages[-1]["content"]
    if marked == "after":
        assert "already" in chat.session.reduce(str(old))
    assert (chat.state.queue, chat.state.tools_order) == ({}, tools)
    chat.session.flush()
    assert chat.again().messages[-1]["content"] == sent
    assert chat.state.tags[old].status == "active"
    assert chat.state.tags[old].kind == ("text" if kind == "an output" else "file")
    assert differences(chat.engine) == []


@pytest.mark.rule("TAG-6", "IDENT-6")
@pytest.mark.parametrize("how", ["removed", "inserted"])
@pytest.mark.parametrize("before", [0, 2])
def test_a_path_that_a_host_joined_anew_comes_back_with_its_numbers(how: str, before: int):
    """Where a stretch was taken out or put in, what stood behind it stands behind another message from then on."""
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"), *(m for n in range(6) for m in (assistant(f"a {n}"), user(f"u {n} {words(50)}"))))
    chat.messages[3:5] = [] if how == "removed" else [*chat.messages[3:5], assistant("put"), user("in")]
    chat.again()
    chat.session.reduce("9")
    chat.session.flush()
    old = chat.turn()
    assert "[dropped §9§]" in str(old.messages)
    main = list(chat.messages)
    chat.messages = [*main[: (3 if how == "removed" else 7) - before], assistant("otherwise"), user("another way")]
    chat.again()
    chat.turn()
    chat.messages = main
    assert chat.again().messages_json == old.messages_json
    after = chat.turn()
    assert after.messages_json[: len(old.messages_json)] == old.messages_json
    assert differences(chat.engine) == []


@pytest.mark.rule("TAG-7")
def test_a_fork_goes_on_with_its_parents_numbers():
    """RF-01: decisions up to the fork point hold; numbers go on; nothing the provider measured is inherited."""
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"))
    for number in range(5):
        chat.tool(f"t{number}", words(3_000))
    use(chat.turn(), 180_000)
    chat.session.reduce("2")
    old = chat.turn()
    fork = chat.session.fork("child", at=5)
    request = fork.prepare([*chat.messages[:5], assistant("here I turn"), user("go")], now=chat.now + 5)
    assert request.level == "defer"
    assert request.messages_json[:7] == old.messages_json[:7]
    assert shown(request) == [1, 3, 11, 12]
    assert fork.status().usage_source == "estimated"
    assert chat.turn().messages_json[: len(old.messages_json)] == old.messages_json
    assert chat.session.status().tags == 12
    assert [differences(chat.engine, name) for name in ("chat", "child")] == [[], []]


def full(chat: Chat, request: Any) -> None:
    use(request, 178_000)
    chat.turn()


def held(chat: Chat, request: Any) -> None:
    use(request, 140_000)
    chat.session.reduce("3")
    for _ in range(2):
        use(chat.turn(), 140_000)


def unsent(chat: Chat, request: Any) -> None:
    del request
    chat.session.reduce("2")
    chat.session.flush()
    chat.turn().report_failure("not_processed")


UNBOUND = "thinking block is bound to a different conversation"
WAITING: dict[str, tuple[Any, tuple[str, ...]]] = {
    "usage": (lambda _, request: use(request, 50_000), ("usage", "accepted", "ratios", "counted")),
    "held": (held, ("held",)),
    "flush": (lambda chat, _: chat.session.flush(), ("flush",)),
    "lost": (lambda chat, _: chat.session.report_cache_loss("said so"), ("lost",)),
    "unsent": (unsent, ("reopened", "flush", "flushed_by")),
    "overflow": (lambda _, request: request.report_failure("overflow", limit=100_000), ("overflow", "learnt")),
    "pictures": (lambda _, request: request.report_error(400, "too many images"), ("bulky",)),
    "reasoning": (lambda _, request: request.report_error(400, UNBOUND), ("unbound",)),
    "full": (full, ("drained", "paid")),
}


@pytest.mark.rule("TAG-7", "T50")
@pytest.mark.parametrize("what", WAITING)
def test_a_fork_inherits_nothing_that_was_measured_asked_for_or_owed(what: str):
    """All of that was of its parent's requests: what the child's first is answered with is its own."""
    made, fields = WAITING[what]
    chat = Chat(lanes=True, model="claude-sonnet-5-5", policy={"protected_tokens": 0})
    chat.say(user([text("start"), image()]))
    for number in range(40):
        chat.tool(f"t{number}", words(900), *([thinking()] if number > 37 else []))
    made(chat, chat.turn())
    own = State(stream=chat.state.stream)
    assert [name for name in fields if getattr(chat.state, name) == getattr(own, name)] == []
    chat.session.fork("child")
    child = Chat(chat.engine, id="child", lanes=True, model="claude-sonnet-5-5", policy={"protected_tokens": 0})
    assert {name: getattr(child.state, name) for name in fields} == {name: getattr(own, name) for name in fields}
    child.messages = [*chat.messages, assistant("here I turn"), user("go")]
    child.now = chat.now
    request = child.again()
    assert (request.level, request.reasons) == ("defer", ())
    assert [differences(chat.engine, name) for name in ("chat", "child")] == [[], []]


@pytest.mark.rule("TAG-8")
def test_head_and_guidance_carry_no_number():
    chat = Chat()
    request = chat.say(user("start"), system="You are one.")
    ours = b"".join(request.messages_json[:2]).decode()
    assert "§" not in ours
    assert [tag.m for tag in chat.state.tags] == [1]


@pytest.mark.rule("TAG-9")
def test_the_models_echo_of_a_number_never_piles_up():
    """CB-06: bytes depend on the number and the text alone, whatever came back."""
    chat = Chat()
    chat.say(user("§9§ §8§ start"))
    request = chat.say(assistant("§7§ ok"), user("§5.1 of the law"))
    assert [texts(m)[0] for m in request.messages[2:]] == ["§1§ start", "§2§ ok", "§3§ §5.1 of the law"]
    served = request.messages_json[2:]
    other = Chat()
    other.say(user("start"))
    assert other.say(assistant("ok"), user("§5.1 of the law")).messages_json[2:] == served


@pytest.mark.rule("TAG-11")
def test_a_call_id_used_again_is_another_part():
    """T8, TP-02: dropping one turn's output leaves the other's, though both carry the id X."""
    chat = Chat(codec="openai-chat", policy={"protected_tokens": 0})

    def turn(output: str) -> foldlog.Request:
        arc = {"id": "X", "type": "function", "function": {"name": "Bash", "arguments": "{}"}}
        return chat.say(
            {"role": "assistant", "content": None, "tool_calls": [arc]},
            {"role": "tool", "tool_call_id": "X", "content": output},
        )

    chat.say(user("start"))
    for output in ("first " + words(9_000), "second", "third", "fourth"):
        request = turn(output)
    use(request, 180_000)
    chat.session.reduce("2")
    outputs = [m["content"] for m in turn("fifth").messages if m["role"] == "tool"]
    assert outputs == ["[dropped §2§]", "§3§ second", "§4§ third", "§5§ fourth", "§6§ fifth"]


@pytest.mark.rule("TAG-2")
def test_numbers_follow_the_path_however_they_arrive():
    whole = Chat()
    messages = [
        user("a"),
        assistant([text("b"), call("t")]),
        user([result("t", "c"), text("d")]),
        assistant("e"),
        user("f"),
    ]
    expected = shown(whole.say(*messages))
    steps = Chat()
    for upto in (1, 3, 5):
        request = steps.session.prepare(messages[:upto])
    assert shown(request) == expected == [1, 2, 3, 4, 5, 6]
