"""Reports of reasoning and its signatures, each as a kind: several inputs (``specs/reports.md``)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from checker import broken_rules
from checker import thinking as signed
from checker.anthropic import check

import foldlog
from foldlog.adapters.config import Config
from support.proxy import Provider, Proxy
from support.talk import Chat, assistant, call, differences, result, text, use, user, words

BARE = {"protected_tokens": 0}
CLAUDE = "claude-sonnet-4-5"
BOUND = "claude-sonnet-5-5"


def thought(said: str = "hm", signature: str | None = "c2ln") -> dict[str, Any]:
    return {"type": "thinking", "thinking": said, **({} if signature is None else {"signature": signature})}


def kept(request: foldlog.Request) -> list[dict[str, Any]]:
    """Return the blocks of reasoning a request holds, in order."""
    blocks = [b for m in request.messages if isinstance(m["content"], list) for b in m["content"]]
    return [block for block in blocks if block["type"] in ("thinking", "redacted_thinking")]


def rebuilt(host: Chat, how: str, request: foldlog.Request) -> None:
    """Let the next pass rebuild, for one reason or another."""
    if how == "fold":
        host.session.report_cache_loss("said so")
    elif how == "flush":
        host.session.reduce("2-5")
        host.session.flush()
    else:
        host.session.reduce("2-5")
        use(request, {"force": 175_000, "emergency": 196_000}[how])


# ------------------------------------------------------------------- TH-01: the newest turn


@pytest.mark.rule("TH-01", "THINK-3")
@pytest.mark.parametrize("keep", [0, 1, 10_000, 1_000_000])
@pytest.mark.parametrize("how", ["fold", "flush", "force", "emergency"])
def test_in_a_session_of_one_turn_no_reasoning_is_touched(keep: int, how: str):
    """One prompt, forty steps that think: whatever may be kept, and whatever rebuilds, each block stays as it was."""
    host = Chat(lanes=True, model=CLAUDE, policy={**BARE, "keep_reasoning_tokens": keep})
    request = host.say(user("start"))
    blocks = [thought(f"step {number} " + words(100)) for number in range(40)]
    for number, block in enumerate(blocks):
        request = host.tool(f"t{number}", words(300) + str(number), block, n=number)
    rebuilt(host, how, request)
    blocks.append(thought("last"))
    request = host.tool("last", "x", blocks[-1])
    assert request.level != "defer"
    assert kept(request) == blocks
    sent = {"messages": request.messages}
    assert broken_rules([*check(sent), *signed.check_against({"messages": host.messages}, sent)]) == set()


# ------------------------------------------------------------------- TH-03: signed, and empty


@pytest.mark.slow
@pytest.mark.rule("TH-03", "THINK-5")
@pytest.mark.parametrize("block", [thought(""), {"type": "redacted_thinking", "data": "ZGF0YQ=="}, thought(" \n")])
@pytest.mark.parametrize("model", [CLAUDE, BOUND, ""])
@pytest.mark.parametrize("how", ["defer", "fold", "flush"])
def test_a_signed_block_without_a_text_is_a_block(block: dict[str, Any], model: str, how: str):
    """What the server emptied is not blank: it is judged by its signature, on deferred passes and rebuilds."""
    host = Chat(lanes=True, model=model, policy=BARE)
    request = host.say(user("start"))
    for number in range(5):
        request = host.tool(f"t{number}", words(300) + str(number), block, n=number)
    assert kept(request) == [block] * 5
    if how != "defer" and model != BOUND:
        rebuilt(host, how, request)
    request = host.tool("last", "x", block)
    assert kept(request) == [block] * 6
    assert (request.level == "defer") is (how == "defer" or model == BOUND)


# ------------------------------------------------------------------- TH-04: signatures that are lost


@pytest.mark.rule("TH-04", "THINK-5", "PROP-1")
@pytest.mark.parametrize("signature", ["", None])
@pytest.mark.parametrize("model", [CLAUDE, BOUND, "anthropic/claude-opus-4.6"])
@pytest.mark.parametrize("after", ["call", "text", "nothing"])
def test_reasoning_whose_signature_was_lost_is_left_out(signature: str | None, model: str, after: str):
    """A stored session is resumed: such blocks never go out, are gone on every pass, and can be had back."""
    host = Chat(lanes=True, model=model, policy=BARE)
    host.messages = [user("start")]
    for number in range(6):
        block = thought(f"lost {number}", signature)
        rest = {"call": [call(f"t{number}")], "text": [text("ok")], "nothing": []}[after]
        back = user([result(f"t{number}", words(50))]) if after == "call" else user(f"next {number}")
        host.messages += [assistant([block, *rest]), back]
    before = host.again()
    assert kept(before) == []
    assert "lost" not in str(before.messages)
    assert broken_rules(check({"messages": before.messages})) == set()
    grown = host.tool("new", "x", thought("new"))
    assert grown.level == "defer"
    assert grown.messages_json[: len(before.messages_json)] == before.messages_json
    assert [block["thinking"] for block in kept(grown)] == ["new"]
    host.session.report_cache_loss("said so")
    use(host.tool("newer", "x", thought("new", signature)), 1_000)
    assert "lost" not in str(host.again().messages)
    assert b"lost 3" in host.session.expand(8, 8)[0].json
    assert differences(host.engine) == []


@pytest.mark.rule("TH-04", "THINK-5")
@pytest.mark.parametrize("signature", ["", None])
@pytest.mark.parametrize("leading", [1, 3])
@pytest.mark.parametrize("more", ["a text", "a call", "lost reasoning"])
def test_it_stays_out_of_an_answer_that_grows(signature: str | None, leading: int, more: str):
    """A host may show an answer before it is whole: what stood out of it stays out, what comes is judged by itself."""
    host = Chat(lanes=True, model=CLAUDE, policy=BARE)
    lost = [thought(f"lost {number}", signature) for number in range(leading)]
    host.say(user("start"))
    before = host.say(assistant([*lost, text("one")]))
    added = {"a text": text("two"), "a call": call("two"), "lost reasoning": thought("lost two", signature)}[more]
    host.messages[-1] = assistant([*lost, text("one"), added])
    grown = host.say(user([result("two", "x")] if more == "a call" else "go on"))
    assert (grown.level, kept(grown)) == ("defer", [])
    assert before.messages[-1]["content"][0]["text"] == grown.messages[-2]["content"][0]["text"]
    assert ("two" in str(grown.messages[-2])) is (more != "lost reasoning")
    assert differences(host.engine) == []


@pytest.mark.rule("TH-04", "THINK-5")
@pytest.mark.parametrize("model", ["kimi-k2.6", "minimax-m2", "glm-5", ""])
def test_of_a_model_that_never_signs_reasoning_stays(model: str):
    """Others speak the same wire, and want their reasoning back; once Claude goes on, it leaves."""
    host = Chat(lanes=True, model=model, policy=BARE)
    request = host.say(user("start"))
    for number in range(4):
        request = host.tool(f"t{number}", words(50) + str(number), thought(f"mine {number}", ""), n=number)
    assert len(kept(request)) == 4
    if model:
        host.reopen(model=CLAUDE)
        request = host.tool("last", "x", thought("signed"))
        assert request.level == "hard"
        assert [block["thinking"] for block in kept(request)] == ["signed"]
        assert differences(host.engine) == []


# ------------------------------------------------------------------- TH-07: bound to what stands before


@pytest.mark.rule("TH-07", "THINK-1")
@pytest.mark.parametrize("tag", [2, 5, 8])
@pytest.mark.parametrize("how", ["flush", "edit", "edit and flush", "fold"])
def test_what_a_change_invalidates_leaves_with_it(tag: int, how: str):
    """Where one old output goes, all bound reasoning behind it goes in the same pass, none before, none on a defer."""
    host = Chat(lanes=True, model=BOUND, policy=BARE)
    request = host.say(user("start"))
    for number in range(10):
        request = host.tool(f"t{number}", words(400) + str(number), thought(f"{number}"), n=number)
        assert len(kept(request)) == number + 1
    if how.startswith("edit"):
        host.messages[2 * (tag - 1)] = user([result(f"t{tag - 2}", "other words")])
    if how.endswith("flush"):
        host.session.reduce(str(tag) if how == "flush" else "10")
        host.session.flush()
    if how == "fold":
        host.session.report_cache_loss("said so")
    request = host.tool("last", "x", thought("last"))
    left = [block["thinking"] for block in kept(request)]
    if how.endswith("flush"):
        assert left == [str(number) for number in range(tag - 1)]
    elif how == "fold":
        assert left == []
    else:
        assert len(left) == 11, "a pass that changes nothing takes nothing out"
    assert len(kept(host.tool("more", "x", thought("more")))) == len(left) + 1


# ------------------------------------------------------------------- TH-09: switched on and off


@pytest.mark.rule("TH-09", "PROXY-3")
@pytest.mark.parametrize("modes", [(True, True, False), (True, False, False), (False, True, True), (True, False, True)])
@pytest.mark.parametrize("drop", [True, False])
def test_the_newest_answer_is_what_the_client_sent_whatever_its_setting(
    modes: tuple[bool, ...], drop: bool, provider: Provider, proxy: Proxy, config: Config
):
    """Thinking goes on and off between requests: the setting goes out as it came, and so does the running turn."""
    history: list[Any] = [{"role": "user", "content": [text("look")]}]
    for number, on in enumerate(modes):
        if drop and number == len(modes) - 1:
            answer = proxy.page("/foldlog/tools/ctx_reduce", json={"arguments": {"drop": "1"}, "session": "s1"})
            assert answer.is_success
        setting = (
            {"thinking": {"type": "enabled", "budget_tokens": 2_000}} if on else {"thinking": {"type": "disabled"}}
        )
        assert proxy.ask(history, **setting).status_code == 200
        proxy.settle()
        sent = provider.seen[-1].json
        assert sent["thinking"] == setting["thinking"]
        if number:
            assert bare(sent["messages"][-2]) == bare(history[-2])
        blocks = [thought(f"step {number}")] if on else []
        history += [
            assistant([*blocks, call(f"toolu_{number}", "Read", path="/f")]),
            user([result(f"toolu_{number}", [text("out")])]),
        ]


def bare(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without its cache marks."""
    return {**message, "content": [{k: v for k, v in b.items() if k != "cache_control"} for b in message["content"]]}


# ------------------------------------------------------------------- TH-10: reasoning_content


@pytest.mark.rule("TH-10", "THINK-3")
@pytest.mark.parametrize("model", ["gpt-x", "deepseek-v3.2", "moonshot/kimi-k2.6", "qwen3-max", "glm-5", "mimo-v2", ""])
@pytest.mark.parametrize("how", ["fold", "flush", "emergency"])
def test_reasoning_of_the_running_calls_comes_back(model: str, how: str):
    """Whoever wants it back: within the running turn nothing is taken out; of finished turns only where it may be.

    At 95% calls leave whole, their reasoning with them (EMERG-5); what is still called has its own.
    """
    host = Chat(lanes=True, codec="openai-chat", model=model, policy={**BARE, "keep_reasoning_tokens": 0})
    request = host.say(user("start"))
    for number in range(3):
        request = host.say(step(f"a{number}", f"old {number}"), output(f"a{number}"))
    request = host.say({"role": "assistant", "content": "ok", "reasoning_content": "old 3"}, user("next"))
    for number in range(5):
        request = host.say(step(f"b{number}", f"new {number}"), output(f"b{number}"))
    rebuilt(host, how, request)
    request = host.say(step("last", "newest"), output("last"))
    assert request.level != "defer"
    back = [m["reasoning_content"] for m in request.messages if "reasoning_content" in m]
    called = [m for m in request.messages if m.get("tool_calls")]
    if how == "emergency":
        assert len(called) < 9
        assert back[-1] == "newest"
        assert all("reasoning_content" in m for m in called if m["tool_calls"][0]["id"][0] != "a")
    else:
        assert back[-6:] == [*(f"new {number}" for number in range(5)), "newest"]
    wanted = any(name in model for name in ("deepseek", "kimi", "qwen", "glm", "mimo"))
    assert ("old 3" in back) is wanted or how not in ("fold", "flush")


def step(id: str, said: str) -> dict[str, Any]:
    function = {"name": "sh", "arguments": "{}"}
    arc = {"id": id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "reasoning_content": said, "tool_calls": [arc]}


def output(id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": words(400) + id}


# ------------------------------------------------------------------- TH-11: encrypted, and never pruned


@pytest.mark.rule("TH-11", "ITEM-5", "EMERG-1")
@pytest.mark.parametrize("size", [2_000, 8_000])
@pytest.mark.parametrize("share", [86, 96])
def test_encrypted_reasoning_of_old_steps_leaves_with_their_calls(size: int, share: int):
    """One prompt and a long run of steps: what each step thought is mass that goes, the newest steps' stays."""
    host = Chat(lanes=True, codec="openai-responses", context_limit=1_000_000, policy=BARE)
    request = host.say({"type": "message", "role": "user", "content": "start"})
    for number in range(60):
        request = host.say(*items(number, size))
    counted = request._produced.event.tokens
    assert counted > 60 * size * 3 // 16, "it counts"
    host.reopen(context_limit=counted * 100 // share)
    use(request, counted)
    request = host.say(*items(60, size))
    assert request.level == "soft+"
    left = [item["id"] for item in request.messages if item.get("type") == "reasoning"]
    assert 0 < len(left) < 50
    assert left[-1] == "rs_60"
    assert request._produced.event.tokens < counted * 3 // 4


def items(number: int, size: int) -> list[dict[str, Any]]:
    return [
        {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "Q" * size},
        {
            "type": "function_call", "id": f"fc_{number}", "call_id": f"c{number}", "name": "sh",
            "arguments": json.dumps({"command": "x" * 1_500}),
        },
        {"type": "function_call_output", "call_id": f"c{number}", "output": words(100) + str(number)},
    ]  # fmt: skip


@pytest.mark.rule("TH-07", "THINK-1", "IDENT-2")
@pytest.mark.parametrize("place", [3, 7, 11])
@pytest.mark.parametrize("why", ["flush", "force"])
def test_what_leads_the_message_its_host_changes_stands_before_the_change(place: int, why: str):
    """The first byte that changes is behind it: it stays, bound as it is, and all reasoning behind that goes."""
    host = Chat(lanes=True, model=BOUND, policy=BARE)
    request = host.say(user("start"))
    for number in range(8):
        lead = [thought(f"{number}"), text("I look.")]
        request = host.tool(f"t{number}", words(900) + str(number), *lead, n=number)
    host.session.reduce("12-15")
    if why == "flush":
        host.session.flush()
    content = host.messages[place]["content"]
    host.messages[place] = assistant([content[0], text("I look twice."), content[2]])
    if why == "force":
        use(request, 175_000)
        host.session.flush()
    request = host.tool("last", "x", thought("last"))
    assert request.level == "soft+"
    first = min(place // 2, 8)
    assert [block["thinking"] for block in kept(request)][: first + 1] == [f"{number}" for number in range(first + 1)]
    assert differences(host.engine) == []
