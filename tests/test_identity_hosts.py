"""Who is who: what real hosts do with their arrays, played as they do it (reduced from recorded wires)."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from foldlog.domain import events as ev
from foldlog.domain.session import evolve
from foldlog.domain.state import State
from foldlog.domain.transcript import Message, Text
from support.talk import (
    Chat,
    assistant,
    call,
    differences,
    events,
    fingerprint,
    image,
    result,
    shown,
    text,
    thinking,
    use,
    user,
    words,
)

MARK = {"cache_control": {"type": "ephemeral"}}
REMINDER = "<system-reminder>\nToday is Monday.\n</system-reminder>"


def start() -> Chat:
    chat = Chat()
    chat.say(user([text(REMINDER), text("Look at notes", **MARK)]))
    chat.messages[0] = user([text(REMINDER), text("Look at notes")])
    chat.say(
        assistant(
            [thinking(), text("I will look at the notes."), call("toolu_1", "Read", file_path="/home/dev/notes")]
        ),
        user([result("toolu_1", "1\thello", **MARK)]),
    )
    chat.messages[2] = user([result("toolu_1", "1\thello")])
    chat.say(
        assistant([text("Now two tools at once."), call("toolu_2", command="seq 1 50"), call("toolu_3", command="ls")]),
        user([result("toolu_3", "notes.txt", is_error=False), result("toolu_2", "one\n1\n2", is_error=False, **MARK)]),
    )
    return chat


def grows(chat: Chat, before: foldlog.Request, after: foldlog.Request) -> None:
    assert after.level == "defer"
    assert after.reasons == ()
    assert after.messages_json[: len(before.messages_json)] == before.messages_json


@pytest.mark.rule("IDENT-1")
def test_moving_marks_and_content_that_flips_between_string_and_block():
    """Claude Code writes a lone text as a string in one request and as one marked block in another."""
    chat = start()
    request = chat.say(assistant("All steps done."), user([text("Second question", **MARK)]))
    for shape in ("Second question", [text("Second question")], "Second question", [text("Second question", **MARK)]):
        chat.messages[6] = user(shape)
        again = chat.again()
        assert (again.pass_number, again.digest) == (request.pass_number, request.digest)
    chat.messages[5] = assistant([text("All steps done.")])
    chat.messages[6] = user("Second question")
    after = chat.say(assistant("ok"), user([text("Third", **MARK)]))
    grows(chat, request, after)
    assert len(events(chat.session, ev.PartsRevised)) == 0


@pytest.mark.rule("IDENT-1")
def test_key_order_and_white_space_are_not_content():
    """Convention 5: the first-served bytes are written."""
    chat = Chat()
    chat.say(b'{"role":"user","content":[{"type":"text","text":"a"}]}')
    first = chat.say(b'{"role":"assistant","content":"b"}', b'{"role":"user","content":"c"}')
    chat.messages[0] = b'{ "content" : [ { "text" : "\\u0061", "type" : "text" } ], "role" : "user" }'
    again = chat.again()
    assert (again.pass_number, again.digest) == (first.pass_number, first.digest)
    assert chat.session.expand(1, 1)[0].json == b'{"role":"user","content":[{"type":"text","text":"a"}]}'


@pytest.mark.rule("IDENT-2")
def test_a_last_message_that_grows_from_a_result_to_a_result_and_a_text():
    chat = start()
    before = chat.again()
    chat.messages[4] = user([*chat.messages[4]["content"], text("Stop here.")])
    after = chat.again()
    assert after.reasons == ("host_revised",)
    assert shown(after) == [*shown(before), 8]
    assert after.messages_json[:6] == before.messages_json[:6]
    content = after.messages[-1]["content"]
    assert [block["tool_use_id"] for block in content[:2]] == ["toolu_3", "toolu_2"]
    assert content[2]["text"] == "§8§ Stop here."
    assert [block["content"] for block in content[:2]] == [
        block["content"] for block in before.messages[-1]["content"]
    ], "unchanged leading parts keep number and bytes"
    grows(chat, after, chat.say(assistant("Stopped."), user("Good.")))


@pytest.mark.rule("IDENT-2")
def test_a_message_that_grows_keeps_the_drops_of_its_first_parts():
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user([text(words(4_000)), text("b")]))
    chat.session.reduce("1")
    chat.session.flush()
    assert chat.again().level == "soft+"
    chat.messages = [user([text(words(4_000)), text("b"), text("c")])]
    request = chat.again()
    assert [block["text"] for block in request.messages[-1]["content"]] == ["[dropped §1§]", "§2§ b", "§3§ c"]


@pytest.mark.rule("IDENT-3")
@pytest.mark.parametrize(
    "helper",
    [
        [user("<session>\nLook at notes\n</session>")],
        [user([text("Write a title for this conversation.")])],
        [user("Your task is to summarise what follows."), assistant("Send it."), user(words(300))],
    ],
    ids=["title-string", "title-block", "summary"],
)
def test_a_side_request_on_the_same_session_id(helper: list[dict[str, Any]]):
    """PROP-7: the head's requests are, byte for byte, what they had been without it."""
    chat, control = start(), start()
    served = chat.again()
    side = chat.session.prepare(helper, now=chat.now + 1)
    assert side.level == "defer"
    assert side.messages_json[:2] == served.messages_json[:2]
    assert len(side.messages) == 2 + len(helper)
    side.report_usage(input=199_000, now=chat.now + 2)
    side.report_failure("overflow", limit=5_000)
    assert chat.session.status().usage_source == "estimated"
    assert chat.session.status().window == 200_000
    again = chat.again()
    assert again.messages_json == served.messages_json
    assert again.digest == served.digest
    after = chat.turn("go on")
    grows(chat, served, after)
    control.again()
    expected = control.turn("go on")
    ours = [raw.decode() for raw in after.messages_json]
    theirs = [raw.decode() for raw in expected.messages_json]
    assert ours[: len(served.messages)] == theirs[: len(served.messages)]
    assert [number - len(shown(side)) for number in shown(after)[-2:]] == shown(expected)[-2:]
    assert differences(chat.engine) == []


@pytest.mark.rule("IDENT-3")
def test_a_repeated_side_request_is_the_same_request():
    chat = start()
    helper = [user("Write a title.")]
    first = chat.session.prepare(helper, now=chat.now)
    before = fingerprint(chat.session)
    second = chat.session.prepare(helper, now=chat.now)
    assert (second.pass_number, second.digest, second.messages_json) == (
        first.pass_number, first.digest, first.messages_json,
    )  # fmt: skip
    assert fingerprint(chat.session) == before


@pytest.mark.rule("IDENT-3")
def test_a_title_request_before_the_second_request_of_a_session():
    """Claude Code asks for a title while the first answer is still coming: the path is one message long."""
    chat = Chat()
    first = chat.say(user([text(REMINDER), text("Look at notes")]))
    chat.session.prepare([user("<session>Look at notes</session>")], now=chat.now)
    after = chat.say(assistant("I look."), user("Well?"))
    assert after.level == "defer"
    assert after.messages_json[:3] == first.messages_json
    assert differences(chat.engine) == []


@pytest.mark.rule("IDENT-4", "IDENT-5")
def test_rewinding_the_last_turn_and_going_another_way():
    chat = start()
    before = chat.turn("Delete everything.")
    chat.messages[-1] = user("Keep everything.")
    moved = chat.again()
    assert moved.level == "defer"
    assert moved.messages_json[:-1] == before.messages_json[:-1]
    assert moved.messages[-1]["content"][0]["text"].endswith(" Keep everything.")
    grows(chat, moved, chat.turn("Fine."))


@pytest.mark.rule("IDENT-4")
def test_a_longer_rewind_becomes_the_head_when_it_goes_on():
    chat = start()
    for number in range(4):
        before = chat.turn(f"step {number}")
    chat.messages = [*chat.messages[:7], assistant("ok, otherwise"), user("step other")]
    side = chat.again()
    assert side.reasons == ("host_branch",)
    assert chat.state.path == list(range(1, 14))
    after = chat.turn("and on")
    assert len(chat.state.path) == 11
    assert after.messages_json[: len(side.messages_json)] == side.messages_json
    assert after.messages_json[:9] == before.messages_json[:9]
    assert len(set(shown(after))) == len(shown(after))
    grows(chat, after, chat.turn("and on again"))
    assert differences(chat.engine) == []


@pytest.mark.rule("IDENT-3", "PERM-5", "PERM-12", "PROP-7")
@pytest.mark.parametrize("waiting", ["flush", "lost", "idle", "reopened", "pictures"])
def test_what_waits_for_the_head_is_no_matter_of_a_request_beside_it(waiting: str):
    chat = start()
    for number in range(4):
        request = chat.tool(f"more{number}", words(400))
    if waiting == "flush":
        chat.session.reduce("3")
        chat.session.flush()
    elif waiting == "lost":
        chat.session.report_cache_loss("said so")
    elif waiting == "idle":
        use(request, 1_000)
    elif waiting == "reopened":
        chat.session.reduce("3")
        chat.session.flush()
        chat.turn().report_failure("not_processed")
    else:
        chat.say(assistant("ok"), user([text("look"), image()])).report_error(400, "too many images")
    chat.now += 4_000 if waiting == "idle" else 0
    side = chat.session.prepare([user("Make a title of: look at notes")], now=chat.now)
    assert (side.level, side.reasons) == ("defer", ("host_branch",))
    decision = events(chat.session, ev.PassDeferred)[-1].decision
    assert decision is None or (decision.schedule, decision.signals, decision.lanes) == ("defer", (), ())
    due = {"lost": "cache_loss", "idle": "ttl_idle", "reopened": "open_rebuild", "pictures": "picture_recovery"}
    assert due.get(waiting, "flush") in chat.turn().reasons
    assert differences(chat.engine) == []


def refused_twice(chat: Chat, restart: bool) -> None:
    """Let two passes be refused; the third is sent after all."""
    for number in range(2):
        with pytest.raises(foldlog.Refused):
            chat.again()
        if restart:
            chat.session.core._hot = None
        chat.messages += [assistant(f"again {number}"), user("on")]


@pytest.mark.rule("IDENT-4", "REFUSE-3", "LAW-3")
@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("restart", [False, True])
def test_a_branch_goes_on_behind_its_own_request_where_passes_were_refused_meanwhile(turns: int, restart: bool):
    """What it extends is a fact of the log: a pass that sends nothing, and a new process, forget it not."""
    chat = Chat()
    chat.say(user("start"))
    for number in range(5):
        chat.turn(f"{number} {words(400)}")
    trunk = list(chat.messages)
    chat.messages = [*trunk[:5], assistant("ok, otherwise"), user("step other")]
    side = chat.again()
    for number in range(turns - 1):
        chat.messages += [assistant(f"side {number}"), user(f"side on {number}")]
    chat.messages, branch = trunk, chat.messages
    chat.turn("on").report_failure("overflow")
    chat.messages = [*branch, assistant("x"), user(f"on {words(2_000)}")]
    refused_twice(chat, restart)
    request = chat.again()
    event = chat.last()
    assert (event.base, event.divergence) == (side.pass_number, None)
    assert request.messages_json[: len(side.messages_json)] == side.messages_json
    assert differences(chat.engine) == []


@pytest.mark.rule("IDENT-2", "REFUSE-3", "LAW-3")
@pytest.mark.parametrize("how", ["revised", "removed", "inserted"])
@pytest.mark.parametrize("restart", [False, True])
def test_what_a_host_changed_with_a_refused_pass_is_told_by_the_one_that_is_sent(how: str, restart: bool):
    """Nothing was sent with it, so the change is still to come: the ledger charges it to the host then."""
    chat = Chat()
    chat.say(user("start"))
    for number in range(6):
        chat.turn(f"{number} {words(5 if number == 1 else 400)}")
    chat.again().report_failure("overflow")
    if how == "revised":
        chat.messages[4] = user("otherwise")
    else:
        chat.messages[4:6] = [] if how == "removed" else [*chat.messages[4:6], user("put in"), assistant("here")]
    at = 6 if how == "inserted" else 4
    refused_twice(chat, restart)
    chat.again()
    found = chat.last().divergence
    assert (found.index, found.cause) == (at, how)
    assert differences(chat.engine) == []


@pytest.mark.rule("IDENT-10")
def test_a_rewind_to_before_the_cut_by_events():
    """The head leaves the messages a baseline covers: what a pass must then do is in test_fold."""
    said = Message("user", b"b" * 32, b"i" * 16, 10, (Text(1, 4),))
    state = State(stream="session/api/x")
    history: list[ev.Event] = [
        ev.SessionOpened(1, "", "api", "x", "anthropic", "primary", True, 1, "t"),
        ev.MessagesObserved(1, "", 0, tuple(said for _ in range(6))),
        ev.HeadMoved(1, "", 2, (), "rewind"),
        ev.MessagesObserved(1, "", 2, (said,)),
    ]
    for version, event in enumerate(history, 1):
        evolve(state, version, event)
    assert state.path == [1, 2, 7]
    assert [state.pos.get(m) for m in range(1, 8)] == [0, 1, None, None, None, None, 2]
    evolve(state, 5, ev.HeadMoved(1, "", 2, ((3, 6),), "branch"))
    assert state.path == [1, 2, 3, 4, 5, 6]
    assert len(state.nodes) == 7, "nodes are never forgotten"
    with pytest.raises(foldlog.LawBroken):
        evolve(state, 6, ev.HeadMoved(1, "", 2, ((3, 99),), "branch"))
    with pytest.raises(foldlog.LawBroken):
        evolve(state, 6, ev.MessagesObserved(1, "", 99, (said,)))


@pytest.mark.rule("IDENT-13")
def test_a_hosts_own_compaction_and_a_resume_of_the_old_transcript():
    chat = start()
    for number in range(3):
        before = chat.turn(f"step {number}")
    full = list(chat.messages)
    numbers = shown(before)
    chat.messages = [user("This session is being continued. Summary: " + words(200))]
    chat.again()
    compacted = chat.turn("continue")
    assert len(compacted.messages) == 2 + 3
    assert min(shown(compacted)) > max(numbers)
    chat.turn("still here")
    chat.messages = full
    chat.again()
    resumed = chat.turn("back again")
    assert resumed.messages_json[: len(before.messages_json)] == before.messages_json
    assert shown(resumed)[: len(numbers)] == numbers
    grows(chat, resumed, chat.turn("and on"))
    assert differences(chat.engine) == []


@pytest.mark.rule("IDENT-7")
def test_two_identical_short_messages_are_two():
    chat = Chat()
    chat.say(user("go on"))
    chat.say(assistant("ok"), user("go on"))
    request = chat.say(assistant("ok"), user("go on"))
    assert shown(request) == [1, 2, 3, 4, 5]
    assert len({reply.m for reply in chat.session.expand("1,3,5")}) == 3
    chat.session.reduce("3")
    chat.session.flush()
    sent = [message["content"] for message in chat.again().messages[2:]]
    assert sent[0] == "§1§ go on"
    assert sent[2] == "[dropped §3§]"
    assert "§5§ go on" in str(sent[4])
    chat.messages[:2] = []
    assert "[dropped §3§]" in str(chat.again().messages), "removing the first pair leaves the others who they are"


@pytest.mark.rule("IDENT-9")
def test_a_tool_sent_as_interrupted_that_completes_later():
    chat = Chat()
    chat.say(user("run it"))
    before = chat.say(
        assistant([text("Running."), call("toolu_9", command="make")]),
        user([result("toolu_9", "[Request interrupted by user for tool use]", is_error=True), text("wait")]),
    )
    chat.messages[2] = user([result("toolu_9", "built in 3 s"), text("wait")])
    after = chat.say(assistant("It is built."), user("Good."))
    assert after.level == "defer"
    assert after.reasons == ("host_revised",)
    assert after.messages_json[:4] == before.messages_json[:4]
    content = after.messages[4]["content"]
    assert content[0]["content"] == "§3§ built in 3 s"
    assert content[1]["text"] == "§4§ wait"
    assert shown(after) == [1, 2, 3, 4, 5, 6]
    assert chat.session.expand(3)[0].text == "built in 3 s"


@pytest.mark.rule("IDENT-6")
def test_a_stretch_taken_from_the_middle_keeps_all_behind_it():
    chat = start()
    for number in range(4):
        before = chat.say(assistant(f"answer {number}"), user(f"step {number}"))
    removed = chat.messages[5:9]
    del chat.messages[5:9]
    after = chat.turn("after the cut")
    assert after.level == "defer"
    assert after.reasons == ("host_removed",)
    kept = [raw for index, raw in enumerate(before.messages_json) if not 7 <= index < 11]
    assert list(after.messages_json[: len(kept)]) == kept
    chat.messages[5:5] = removed
    back = chat.turn("put back")
    numbers = shown(back)
    assert len(set(numbers)) == len(numbers)


@pytest.mark.rule("IDENT-6")
def test_a_message_put_into_the_middle():
    chat = start()
    before = chat.turn("step")
    chat.messages[5:5] = [assistant("a note"), user("a reminder the host moved")]
    after = chat.again()
    assert after.reasons == ("host_inserted",)
    assert after.messages_json[:7] == before.messages_json[:7]
    assert after.messages_json[9:] == before.messages_json[7:]
    assert shown(after)[-1] < max(shown(after)), "the inserted ones have the newest numbers"


@pytest.mark.rule("IDENT-6")
def test_a_reminder_moved_out_of_the_first_message():
    """CB-12: resume builds the first message without its reminder; what was equal stays who it was."""
    chat = start()
    before = chat.again()
    chat.messages[0] = user([text("Look at notes")])
    after = chat.say(assistant("ok"), user([text(REMINDER), text("go")]))
    assert after.level == "defer"
    assert after.messages_json[3 : len(before.messages_json)] == before.messages_json[3:]


# -------------------------------------------------------------------- hosts with ids


def said(id: str, role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "id": id}


@pytest.mark.rule("IDENT-8")
def test_ids_say_what_moved():
    chat = Chat(codec="openai-chat")
    ids = ["a", "b", "c", "d", "e"]
    messages = [said(name, "user" if n % 2 == 0 else "assistant", f"text {name}") for n, name in enumerate(ids)]
    before = chat.say(*messages)
    chat.messages = [messages[0], said("b", "assistant", "quite other words"), *messages[2:]]
    after = chat.again()
    assert after.reasons == ("host_revised",)
    assert shown(after) == shown(before) == [1, 2, 3, 4, 5]
    assert "quite other words" in str(after.messages)
    chat.messages = [messages[0], messages[3], messages[4], said("f", "assistant", "new"), said("g", "user", "newer")]
    removed = chat.again()
    assert shown(removed) == [1, 4, 5, 6, 7]
    assert removed.reasons == ("host_removed",)


@pytest.mark.rule("IDENT-8")
@pytest.mark.parametrize("door", ["whole", "appended", "advance", "advance-known"])
def test_an_id_that_stands_twice_is_refused(door: str):
    chat = Chat(codec="openai-chat")
    one, two, again = said("a", "user", "1"), said("b", "assistant", "2"), said("a", "user", "3")
    if door != "whole":
        chat.session.prepare([one, two, said("c", "user", "x")], now=chat.now)
    before = fingerprint(chat.session)
    with pytest.raises(foldlog.MessageError) as caught:
        if door == "whole":
            chat.session.prepare([one, two, again])
        elif door == "appended":
            chat.session.prepare([one, two, said("c", "user", "x"), said("d", "assistant", "y"), again])
        elif door == "advance":
            chat.session.advance([said("d", "assistant", "y"), said("d", "user", "z")])
        else:
            chat.session.advance([said("d", "assistant", "y"), again])
    assert "id" in caught.value.message
    assert fingerprint(chat.session) == before


@pytest.mark.rule("IDENT-3", "IDENT-8", "IDENT-12")
def test_a_side_request_with_ids_of_its_own():
    chat = Chat(codec="openai-chat")
    before = chat.say(*(said(name, "assistant" if name in "bd" else "user", f"text {name}") for name in "abcde"))
    use(before, 150_000)
    side = chat.session.prepare([said("title", "user", "Write a title.")], now=chat.now)
    use(side, 300)
    assert side.reasons == ("host_branch",)
    assert chat.session.status().usage_tokens == 150_000
    again = chat.again()
    assert again.messages_json == before.messages_json
    after = chat.say(said("f", "assistant", "text f"), said("g", "user", "text g"))
    assert after.reasons == ()
    assert after.messages_json[: len(before.messages_json)] == before.messages_json
    other = [said("title", "user", "Write a title."), said("t2", "assistant", "No."), said("t3", "user", "Do.")]
    assert chat.session.prepare(other, now=chat.now).level == "defer"
    assert len(chat.state.path) == 3, "a branch that is extended is the head"
    assert differences(chat.engine) == []


@pytest.mark.rule("IDENT-8")
def test_a_retracted_id_may_come_back():
    chat = Chat(codec="openai-chat")
    chat.session.prepare([said("a", "user", "1"), said("b", "assistant", "2"), said("c", "user", "3")], now=chat.now)
    request = chat.advance(said("c", "user", "3, edited"), retracted=["c"])
    assert "3, edited" in str(request.messages[-1])
    assert len(request.messages) == 3 + 3


@pytest.mark.rule("IDENT-8")
def test_a_handle_is_the_hosts_id_or_the_ordinal():
    """API-4."""
    chat = Chat(codec="openai-chat")
    request = chat.session.prepare(
        [said("a", "user", "1"), {"role": "assistant", "content": "2"}, said("c", "user", "3")]
    )
    assert [delta.handle for delta in request.delta] == ["a", 2, "c"]
    changed = chat.session.advance(
        revised=[("c", said("c", "user", "three")), (2, {"role": "assistant", "content": "two"})]
    )
    assert [delta.handle for delta in changed.delta] == [2, "c"]
    assert [message["content"] for message in changed.messages[-2:]] == ["§2§ two", "§3§ three"]


@pytest.mark.rule("IDENT-2", "IDENT-9")
def test_pi_turns_with_results_of_their_own():
    chat = Chat(codec="pi")

    def pi(role: str, content: Any, **more: Any) -> dict[str, Any]:
        return {"role": role, "content": content, "timestamp": 1_788_873_360_308, **more}

    def tool(output: str, **more: Any) -> dict[str, Any]:
        done = {"toolCallId": "t1", "toolName": "read", "isError": False, **more}
        return pi("toolResult", [text(output)], **done)

    arc = {"type": "toolCall", "id": "t1", "name": "read", "arguments": {"path": "notes.txt"}}
    before = chat.say(
        pi("user", [text("Look at notes")]),
        pi("assistant", [text("I look."), arc], api="anthropic-messages", stopReason="toolUse"),
        tool("Operation aborted", isError=True),
    )
    chat.messages[2] = tool("hello fixture file")
    after = chat.say(pi("assistant", [text("done")], stopReason="stop"), pi("user", "thanks"))
    assert after.reasons == ("host_revised",)
    assert shown(after) == [1, 2, 3, 4, 5]
    assert after.messages_json[:4] == before.messages_json[:4]
    assert "§3§ hello fixture file" in str(after.messages[4])


@pytest.mark.rule("TAG-3")
def test_a_file_has_a_number_the_agent_can_name():
    """Weak spot of 2.1: an image or document is visibly numbered and can be dropped alone."""
    chat = Chat()
    request = chat.say(user([image(), text("what is this?")]))
    assert [block.get("text", block["type"]) for block in request.messages[-1]["content"]] == [
        "§1§", "image", "§2§ what is this?",
    ]  # fmt: skip
    chat.session.reduce("1")
    chat.session.flush()
    assert "iVBORw0KGgo" not in str(chat.again().messages)


@pytest.mark.rule("IDENT-12")
def test_usage_of_a_side_request_is_not_the_heads():
    chat = start()
    use(chat.again(), 150_000)
    side = chat.session.prepare([user("Write a title.")], now=chat.now)
    use(side, 300)
    assert chat.session.status().usage_tokens == 150_000
