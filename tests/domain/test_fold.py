"""Folds: their triggers, what is none, the head, the guidance."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from foldlog.adapters.models.tokens import tokenizer
from foldlog.domain import events as ev
from foldlog.projections import guidance, head
from support.past import summarise, talk
from support.talk import Chat, assistant, differences, events, user, words

BASH = {"name": "Bash", "description": "runs a command", "input_schema": {"type": "object"}}
REDUCE = {"name": "ctx_reduce", "description": "marks", "input_schema": {"type": "object"}}


@pytest.mark.rule("FOLD-1")
def test_a_primary_has_its_head_from_the_first_pass_on():
    chat = Chat()
    first = chat.say(user("start"))
    assert (first.level, first.reasons) == ("hard", ("first_render",))
    assert [m["role"] for m in first.messages] == ["user", "user", "user"]
    heads = [request.messages_json[:2] for request in (first, chat.turn(), chat.turn(wait=900))]
    assert len(set(heads)) == 1
    assert heads[0][0] != heads[0][1]
    assert b"start" not in b"".join(heads[0])


@pytest.mark.rule("FOLD-1")
@pytest.mark.parametrize("codec", ["anthropic", "openai-chat", "pi"])
def test_a_subagent_has_none(codec: str):
    said = user("start") if codec != "pi" else {"role": "user", "content": "start", "timestamp": 1}
    chat = Chat(mode="subagent", codec=codec)
    request = chat.say(said)
    assert (request.level, request.reasons) == ("hard", ("first_render",))
    ours = [m for m in request.messages if m["role"] not in ("system", "developer")]
    assert len(ours) == 1
    assert (chat.last().m0, chat.last().m1) == ((), ()), "nor does it count one"


@pytest.mark.rule("FOLD-2")
def test_model_change():
    chat = Chat(model="anthropic/a")
    chat.say(user("start"))
    chat.reopen(model="anthropic/b")
    request = chat.turn()
    assert (request.level, request.reasons) == ("hard", ("model_change",))
    assert chat.turn().level == "defer"


@pytest.mark.rule("FOLD-2", "THINK-5")
def test_going_on_behind_what_another_model_answered_beside_the_head():
    chat = Chat(model="anthropic/a")
    chat.say(user("start"))
    for said in ("one", "two", "three"):
        chat.turn(said)
    chat.messages = [*chat.messages[:1], assistant("another answer"), user("another way")]
    chat.reopen(model="anthropic/b")
    chat.again()
    assert chat.last().side.model == "anthropic/b", "it is beside the head"
    chat.reopen(model="anthropic/a")
    assert chat.turn().reasons == ("model_change",)
    assert chat.turn().level == "defer"


@pytest.mark.rule("FOLD-2")
def test_system_text_change():
    chat = Chat()
    chat.say(user("start"), system="You are one.")
    request = chat.turn(system="You are another.")
    assert request.level == "hard"
    assert request.reasons[0] == "system_hash"
    assert "You are another." in str(request.system)
    assert chat.turn(system="You are another.").level == "defer"
    assert chat.turn().level == "defer"
    assert chat.turn(system="").reasons[0] == "system_hash"


@pytest.mark.rule("FOLD-2")
@pytest.mark.parametrize("changed", [{**BASH, "description": "runs it"}, {**BASH, "name": "Sh"}])
def test_tool_change(changed: dict[str, Any]):
    chat = Chat()
    chat.say(user("start"), tools=[BASH, REDUCE])
    request = chat.turn(tools=[changed, REDUCE])
    assert request.level == "hard"
    assert request.reasons[0] == "tools_change"
    assert request.tools == [changed, REDUCE]
    assert chat.turn(tools=[changed, REDUCE]).level == "defer"


@pytest.mark.rule("FOLD-2")
def test_several_reasons_are_all_named():
    chat = Chat(model="a")
    chat.say(user("start"), system="one")
    chat.session.report_cache_loss("x")
    chat.reopen(model="b")
    request = chat.turn(system="two", wait=900)
    assert request.reasons[:4] == ("model_change", "system_hash", "ttl_idle", "cache_loss")
    assert chat.turn(system="two").level == "defer"


@pytest.mark.rule("FOLD-3")
def test_marks_and_billing_blocks_are_no_change_of_the_system():
    chat = Chat()

    def system(cost: int, **mark: Any) -> list[dict[str, Any]]:
        billing = {"type": "text", "text": f"x-anthropic-billing-header: cch={cost}"}
        return [billing, {"type": "text", "text": "You are one.", **mark}]

    first = chat.say(user("start"), system=system(1))
    for cost in (2, 3):
        request = chat.turn(system=system(cost, cache_control={"type": "ephemeral"}))
        assert request.level == "defer"
        assert request.messages_json[: len(first.messages_json)] == first.messages_json


@pytest.mark.rule("FOLD-3")
def test_a_system_string_and_its_one_block_are_the_same():
    chat = Chat()
    chat.say(user("start"), system="You are one.")
    assert chat.turn(system=[{"type": "text", "text": "You are one."}]).level == "defer"


@pytest.mark.rule("FOLD-3")
def test_no_system_text_is_none_first_or_later():
    """Set and taken back while nothing may be rebuilt: the head is as it was made."""
    chat = Chat()
    chat.say(user("start"), system="")
    chat.reopen(policy={"compaction": False})
    chat.turn(system="for a while")
    chat.turn(system="")
    chat.reopen(policy={})
    assert "system_hash" not in chat.turn(system="").reasons


@pytest.mark.rule("FOLD-3")
@pytest.mark.parametrize(
    "tools",
    [
        [REDUCE, {**BASH, "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}}],
        [BASH, {**REDUCE, "input_schema": {}}],
    ],
    ids=["schema-and-order", "schema"],
)
def test_schemas_and_order_of_tools_are_no_trigger(tools: list[dict[str, Any]]):
    chat = Chat()
    chat.say(user("start"), tools=[BASH, REDUCE])
    request = chat.turn(tools=tools)
    assert request.level == "defer"
    assert request.tools == tools, "what the host sends now is what is sent"
    assert request.reasons == ("host_tools",)


@pytest.mark.rule("FOLD-6")
def test_what_becomes_known_is_adopted_once_and_silently():
    chat = Chat()
    chat.say(user("start"))
    chat.reopen(model="a")
    assert chat.turn().level == "defer"
    chat.reopen(model="b")
    assert chat.turn().reasons == ("model_change",)
    assert chat.turn(tools=[BASH]).level == "defer"
    assert chat.turn(tools=[{**BASH, "name": "Sh"}]).reasons[0] == "tools_change"


@pytest.mark.rule("FOLD-6")
def test_what_is_not_given_is_unchanged():
    chat = Chat(model="a")
    chat.say(user("start"), system="one", tools=[BASH])
    chat.options.pop("model")
    chat.session = chat.engine.session(chat.id)
    request = chat.turn()
    assert request.level == "defer"
    assert request.tools == [BASH]


@pytest.mark.rule("FOLD-4")
def test_a_fold_drains_all_that_can_go():
    """T9: everything goes into a bust that is paid, whatever it frees."""
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"))
    for number in range(6):
        chat.tool(f"t{number}", "x")
    chat.session.reduce("2-4")
    request = chat.turn(wait=900)
    assert (request.level, request.reasons) == ("hard", ("ttl_idle",))
    assert chat.session.status().dropped == 3
    assert chat.session.status().queued == 0


@pytest.mark.rule("FOLD-5")
def test_the_guidance_keeps_its_budget():
    assert tokenizer()(guidance.GUIDANCE) <= guidance.LIMIT_TOKENS == 600


@pytest.mark.rule("FOLD-5")
def test_a_new_guidance_waits_for_a_fold_and_causes_none(monkeypatch: pytest.MonkeyPatch):
    chat = Chat()
    first = chat.say(user("start"), system="You are one.")
    assert guidance.GUIDANCE in first.system[0]["text"]
    monkeypatch.setattr(head, "GUIDANCE", "another guidance")
    second = chat.turn(system="You are one.")
    assert second.level == "defer"
    assert second.system == first.system
    chat.session.report_cache_loss("x")
    third = chat.turn()
    assert third.system[0]["text"] == "You are one.\n\nanother guidance"
    assert chat.engine.replay("chat", 2).system == second.built.system


@pytest.mark.rule("FOLD-5")
def test_the_guidance_stands_behind_the_hosts_own_text():
    system = [{"type": "text", "text": "You are one."}, {"type": "text", "text": "Be brief."}]
    chat = Chat()
    sent = chat.say(user("start"), system=system).system
    assert [block["text"] for block in sent[:2]] == ["You are one.", "Be brief."]
    assert sent[2]["text"] == guidance.GUIDANCE
    assert system == [{"type": "text", "text": "You are one."}, {"type": "text", "text": "Be brief."}]


@pytest.mark.rule("FOLD-2", "IDENT-10")
def test_a_head_before_the_cut_voids_the_baseline():
    """The cut is always 0 in this version: the events that will move it are made by hand."""
    chat = Chat()
    chat.say(user("start"), assistant("a"), user("b"), assistant("c"), user("d"))
    state = chat.state
    state.cut = 3
    chat.messages = [user("start"), assistant("a"), user("quite another way")]
    chat.again()
    chat.messages += [assistant("x"), user("y")]
    request = chat.again()
    assert request.level == "hard"
    assert request.reasons[0] == "cut_void"
    assert events(chat.session, ev.BaselineFolded)[-1].cut == 0
    assert chat.turn().level == "defer"


@pytest.mark.rule("FOLD-2")
def test_a_subagent_folds_for_model_system_and_tools_only():
    chat = Chat(mode="subagent", model="a")
    foldlog_request = chat.say(user("start"), system="one", tools=[BASH])
    assert foldlog_request.level == "hard"
    assert chat.turn(wait=9_000).level == "defer"
    chat.session.report_cache_loss("x")
    assert chat.turn().level == "defer"
    assert chat.turn(system="two").reasons[0] == "system_hash"
    chat.reopen(model="b")
    assert chat.turn().reasons[0] == "model_change"


@pytest.mark.rule("FOLD-3")
def test_a_fold_of_the_same_head_is_the_same_bytes():
    chat = Chat()
    chat.say(user("start"), system="one")
    before = chat.turn(words(20))
    chat.session.report_cache_loss("x")
    after = chat.turn()
    assert after.level == "hard"
    assert after.messages_json[: len(before.messages_json)] == before.messages_json
    assert isinstance(events(chat.session)[-1], ev.BaselineFolded)
    assert foldlog.__version__


@pytest.mark.rule("LAW-2", "PERM-7")
def test_the_chain_begins_anew_where_another_system_text_stands_before_the_cut():
    chat = Chat(context_limit=20_000)
    talk(chat, 6)
    summarise(chat, 2)
    chat.session.report_cache_loss("said so")
    assert chat.turn(system="one").level == "hard"
    chat.reopen(policy={"compaction": False})
    assert chat.turn(system="another").level == "defer", "what changed lies before what this process keeps"
    del chat.messages[2:4]
    chat.again()
    assert differences(chat.engine) == []
