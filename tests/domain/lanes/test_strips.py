"""Pictures the model has seen, calls that marked things as spent, answers of which nothing is left."""

from __future__ import annotations

from typing import Any

import pytest

from support.talk import Chat, assistant, text, thinking, use, user, words

BARE = {"protected_tokens": 0}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo" + "A" * 400}}


def chat(**options: Any) -> Chat:
    made = Chat(lanes=True, **{"policy": BARE, **options})
    made.say(user("start"))
    return made


def fill(host: Chat, count: int, size: int = 400, first: int = 0) -> None:
    for number in range(first, first + count):
        host.tool(f"t{number}", words(size) + str(number), n=number)


def rebuild(host: Chat) -> Any:
    host.session.report_cache_loss("said so")
    return host.turn()


def lanes(host: Chat) -> dict[str, Any]:
    decision = host.last().decision
    return {did.lane: did for did in decision.lanes} if decision else {}


def wire(request: Any) -> str:
    return b"\n".join(request.messages_json).decode()


@pytest.mark.rule("IMAGE-1")
def test_a_picture_leaves_once_later_things_have():
    host = chat()
    host.say(assistant("ok"), user([text("look"), PICTURE]))
    fill(host, 6)
    rebuild(host)
    assert "iVBORw0KGgo" in wire(rebuild(host)), "nothing newer had left before this rebuild"
    request = rebuild(host)
    assert lanes(host)["images"].items == 1
    assert "iVBORw0KGgo" not in wire(request)
    assert "[dropped §4§]" in wire(request)
    assert b"iVBORw0KGgo" in host.session.expand(4)[0].json


@pytest.mark.rule("IMAGE-1")
def test_a_picture_nobody_answered_stays():
    host = chat()
    fill(host, 6)
    rebuild(host)
    rebuild(host)
    host.say(assistant("ok"), user([text("look"), PICTURE]))
    host.session.report_cache_loss("said so")
    assert "iVBORw0KGgo" in wire(host.say(user("and this?")))


@pytest.mark.rule("IMAGE-1", "T3")
def test_a_deferred_pass_takes_no_picture_out():
    host = chat()
    host.say(assistant("ok"), user([text("look"), PICTURE]))
    fill(host, 6)
    rebuild(host)
    rebuild(host)
    for _ in range(4):
        assert "iVBORw0KGgo" in wire(host.turn())


@pytest.mark.rule("STALE-1", "T2")
def test_old_calls_of_ctx_reduce_leave_and_three_stay_as_examples():
    host = chat()
    fill(host, 1)
    for number in range(5):
        host.tool(f"r{number}", "Queued: drop.", name="ctx_reduce", drop=str(number))
    fill(host, 21, 10, first=10)
    rebuild(host)
    rebuild(host)
    left = wire(host.turn()).count('"ctx_reduce"')
    assert left == 3
    for _ in range(6):
        assert wire(host.turn()).count('"ctx_reduce"') == 3


@pytest.mark.rule("HOLLOW-1", "T18")
def test_an_answer_of_placeholders_is_left_out_and_a_prompt_never_is():
    host = chat()
    host.say(assistant([text(words(60)), text(words(60))]), user(words(60)))
    for _ in range(25):
        host.turn()
    host.session.reduce("2-4")
    rebuild(host)
    assert "[dropped §2§]" in wire(host.turn())
    request = rebuild(host)
    assert lanes(host)["hollow"].items == 1
    assert "[dropped §2§]" not in wire(request)
    assert "[dropped §4§]" in wire(request)
    assert rebuild(host).level == "hard"
    assert "hollow" not in lanes(host), "once"


@pytest.mark.rule("HOLLOW-1")
@pytest.mark.parametrize("how", ["thinking", "openai-chat", "newest"])
def test_it_stays_beside_reasoning_on_other_wires_and_among_the_newest(how: str):
    host = chat(**({"codec": "openai-chat"} if how == "openai-chat" else {}))
    host.say(assistant([thinking(), text(words(60))] if how == "thinking" else words(60)), user("next"))
    for _ in range(25 if how != "newest" else 5):
        host.turn()
    host.session.reduce("2")
    rebuild(host)
    rebuild(host)
    assert "[dropped §2§]" in wire(rebuild(host))


@pytest.mark.rule("HOLLOW-1", "LANE-3")
@pytest.mark.parametrize("mode", ["primary", "subagent"])
def test_it_is_never_the_reason_of_a_rebuild(mode: str):
    host = chat(mode=mode, context_limit=4_000)
    host.say(assistant(words(60)), user("next"))
    for _ in range(25):
        host.turn()
    host.session.reduce("2")
    request = rebuild(host)
    for _ in range(3):  # over the window, so that whatever pays for itself may leave
        use(request, 3_999)
        request = host.turn()
        assert request.level == "defer"
    assert lanes(host) == {}
    assert "[dropped §2§]" in wire(request)
    host.session.reduce("3")
    rebuild(host)
    assert lanes(host)["hollow"].landed


@pytest.mark.rule("HOLLOW-1", "TAG-5")
def test_an_answer_the_host_revises_comes_back():
    host = chat()
    host.say(assistant([text(words(60))]), user("next"))
    for _ in range(25):
        host.turn()
    host.session.reduce("2")
    rebuild(host)
    assert "[dropped §2§]" not in wire(rebuild(host))
    host.messages[1] = assistant([text(words(60)), text("and more")])
    assert "and more" in wire(host.again())


@pytest.mark.rule("STALE-1")
@pytest.mark.parametrize("policy", [{"protected_tools": {"ctx_reduce": 10}}, {"protected_tokens": 60_000}])
def test_calls_of_ctx_reduce_that_are_protected_stay(policy: dict[str, Any]):
    host = chat(policy=policy)
    fill(host, 1)
    for number in range(5):
        host.tool(f"r{number}", "Queued: drop.", name="ctx_reduce", drop=str(number))
    fill(host, 21, 10, first=10)
    rebuild(host)
    rebuild(host)
    assert wire(host.turn()).count('"ctx_reduce"') == 5
