"""The model's reasoning under rebuilds: a budget where signatures stand alone, all or nothing where they are bound."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import msgspec
import pytest

from foldlog.domain import events as ev
from foldlog.domain.passes import lanes
from foldlog.domain.passes.lanes import reasoning
from foldlog.domain.passes.lanes.reasoning import HEAVY, HOLDS
from support.past import summarise
from support.talk import Chat, assistant, call, events, result, text, use, user, words

BARE = {"protected_tokens": 0}
BOUND = "claude-sonnet-5-5"


class Model:
    """A provider whose signatures cover every byte before them, reasoning apart that was taken out from the front."""

    @staticmethod
    def sign(request: Any, said: str) -> dict[str, Any]:
        """Return reasoning as the answer to ``request``."""
        covered = digest(request.messages)
        return {"type": "thinking", "thinking": said, "signature": base64.b64encode(covered).decode()}

    @staticmethod
    def accepts(request: Any) -> bool:
        """Whether every block of reasoning stands behind what it was made behind."""
        before: list[Any] = []
        for message in request.messages:
            content = message["content"] if isinstance(message["content"], list) else [text(message["content"])]
            for place, block in enumerate(content):
                if block["type"] == "thinking":
                    ahead = [*before, {**message, "content": content[:place]}] if place else before
                    if base64.b64decode(block["signature"]) != digest(ahead):
                        return False
            before = [*before, message]
        return True


def digest(messages: list[Any]) -> bytes:
    """Return what a signature covers: everything, in whichever form it was written, cache marks apart."""
    listed = [
        {**m, "content": [text(m["content"])] if isinstance(m["content"], str) else m["content"]} for m in messages
    ]
    plain = json.loads(
        json.dumps(listed), object_hook=lambda one: {k: v for k, v in one.items() if k != "cache_control"}
    )
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).digest()


def chat(model: str = BOUND, **policy: Any) -> Chat:
    made = Chat(lanes=True, model=model, policy={**BARE, **policy})
    made.say(user("start"))
    return made


def step(host: Chat, model: Model, request: Any, number: int, said: str = "hm", size: int = 400) -> Any:
    """Answer with reasoning and a call, and send the result of it."""
    block = model.sign(request, said)
    id = f"t{number}"
    request = host.say(assistant([block, call(id, n=number)]), user([result(id, words(size))]))
    assert model.accepts(request), f"step {number}: reasoning of another conversation"
    return request


def thoughts(request: Any) -> int:
    blocks = [b for m in request.messages if isinstance(m["content"], list) for b in m["content"]]
    return sum(block["type"] == "thinking" for block in blocks)


@pytest.mark.rule("THINK-1", "T43")
def test_on_a_bound_model_every_rebuild_keeps_the_request_acceptable():
    host, model = chat(), Model()
    request = host.again()
    for number in range(12):
        request = step(host, model, request, number)
    assert thoughts(request) == 12
    host.session.reduce("4")
    use(request, 185_000)
    request = step(host, model, request, 12)
    assert request.level == "soft+"
    assert thoughts(request) < 13
    for number in range(13, 20):
        request = step(host, model, request, number)
    assert thoughts(request) >= 7
    host.session.report_cache_loss("said so")
    request = step(host, model, request, 20)
    assert request.level == "hard"
    assert thoughts(request) == 0


@pytest.mark.rule("THINK-1")
def test_what_stands_before_the_first_changed_byte_stays():
    host, model = chat(), Model()
    request = host.again()
    for number in range(12):
        request = step(host, model, request, number)
    host.session.reduce("9")
    host.session.flush()
    request = step(host, model, request, 12)
    assert thoughts(request) == 8, "the reasoning of steps up to the one whose result was dropped"


@pytest.mark.rule("THINK-1", "PROP-1")
def test_a_deferred_pass_takes_no_reasoning_out():
    host, model = chat(), Model()
    request = host.again()
    for number in range(8):
        request = step(host, model, request, number, "hm " * 3_000)
        assert request.level == "defer"
    assert thoughts(request) == 8


@pytest.mark.rule("THINK-1", "T43")
def test_a_session_taken_over_in_the_middle_loses_its_old_reasoning():
    host = Chat(lanes=True, model=BOUND, policy=BARE)
    host.messages = [user("start")]
    for number in range(4):
        block = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
        host.messages += [assistant([block, call(f"t{number}")]), user([result(f"t{number}", "x")])]
    request = host.say(assistant("done"), user("and now?"))
    assert request.level == "hard"
    assert thoughts(request) == 0


@pytest.mark.rule("THINK-2")
def test_a_rebuild_waits_a_stated_number_of_passes_for_heavy_reasoning():
    host, model = chat(), Model()
    request = host.again()
    for number in range(6):
        request = step(host, model, request, number, "think " * HEAVY)
    host.session.reduce("2-4")
    levels = []
    for number in range(6, 6 + HOLDS + 3):
        use(request, 145_000)
        request = step(host, model, request, number, "think " * HEAVY)
        levels.append(request.level)
    waited = [p for p in passes(host) if p.decision is not None and "thinking_hold" in p.decision.signals]
    assert len(waited) == HOLDS, levels
    assert "soft+" in levels


def passes(host: Chat) -> list[Any]:
    return [event for event in events(host.session) if hasattr(event, "decision")]


@pytest.mark.rule("THINK-2")
@pytest.mark.parametrize("how", ["light", "ceiling", "flush", "fold"])
def test_nothing_waits_where_it_must_not(how: str):
    host, model = chat(), Model()
    request = host.again()
    for number in range(6):
        request = step(host, model, request, number, "hm" if how == "light" else "think " * HEAVY)
    host.session.reduce("2-3")
    if how == "flush":
        host.session.flush()
    if how == "fold":
        host.session.report_cache_loss("said so")
    use(request, {"light": 175_000, "ceiling": 175_000}.get(how, 140_000))
    assert step(host, model, request, 6, "hm").level in ("soft+", "hard")


@pytest.mark.rule("THINK-2")
def test_nothing_waits_where_a_signature_covers_its_reasoning_alone():
    host = chat("claude-sonnet-4-5")
    block = {"type": "thinking", "thinking": "think " * HEAVY, "signature": "c2ln"}
    for number in range(6):
        request = host.tool(f"t{number}", words(3_000), block)
    host.session.reduce("2-3")
    use(request, 140_000)
    assert host.tool("t6", "x", block).level == "soft+"


@pytest.mark.rule("THINK-2")
def test_nothing_waits_for_reasoning_that_a_summary_covers():
    host, model = chat(), Model()
    request = host.again()
    for number in range(6):
        request = step(host, model, request, number, "think " * HEAVY)
    summarise(host, 9)
    host.session.report_cache_loss("said so")
    for number in range(6, 12):
        request = step(host, model, request, number, size=3_000)
    host.session.reduce("8-9")
    use(request, 145_000)
    assert step(host, model, request, 12).level == "soft+"
    assert not any("thinking_hold" in p.decision.signals for p in passes(host) if p.decision is not None)


@pytest.mark.rule("THINK-3")
def test_elsewhere_the_oldest_reasoning_leaves_beyond_the_budget():
    host = chat("claude-sonnet-4-5", keep_reasoning_tokens=1_000)
    for number in range(10):
        block = {"type": "thinking", "thinking": words(300), "signature": "c2ln"}
        host.say(assistant([block, text("ok")]), user(f"next {number}"))
    host.session.report_cache_loss("said so")
    request = host.turn()
    assert thoughts(request) == 3
    assert host.session.core.hot().state.spares
    assert thoughts(host.turn()) == 3, "and so it stays"
    answers = [m["content"] for m in request.messages if m["role"] == "assistant"]
    kept = [isinstance(content, list) and content[0]["type"] == "thinking" for content in answers]
    assert kept == [False] * 7 + [True] * 3 + [False]


@pytest.mark.rule("THINK-3")
def test_the_running_turn_s_reasoning_is_never_part_of_what_leaves():
    host = chat("claude-sonnet-4-5", keep_reasoning_tokens=0)
    for number in range(6):
        block = {"type": "thinking", "thinking": words(300), "signature": "c2ln"}
        host.say(assistant([block, call(f"t{number}")]), user([result(f"t{number}", "x"), text("<r>hurry</r>")]))
    host.session.report_cache_loss("said so")
    block = {"type": "thinking", "thinking": words(300), "signature": "c2ln"}
    request = host.say(assistant([block, call("t9")]), user([result("t9", "x")]))
    assert request.level == "hard"
    assert thoughts(request) == 7


@pytest.mark.rule("THINK-3")
@pytest.mark.parametrize(("model", "stays"), [("gpt-x", False), ("moonshot/kimi-k2.6", True), ("deepseek-v3p2", True)])
def test_on_chat_wires_it_leaves_unless_the_model_wants_it_back(model: str, stays: bool):
    host = Chat(lanes=True, codec="openai-chat", model=model, policy={**BARE, "keep_reasoning_tokens": 0})
    host.say(user("start"))
    for number in range(4):
        host.say({"role": "assistant", "content": "ok", "reasoning_content": words(300)}, user(f"next {number}"))
    host.session.report_cache_loss("said so")
    request = host.turn()
    assert any("reasoning_content" in m for m in request.messages) is stays


@pytest.mark.rule("THINK-4")
@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("model", [BOUND, "claude-sonnet-4-5"])
def test_reasoning_refused_as_of_another_conversation_leaves_with_the_next_request(model: str, running: bool):
    """A summary under way, which other rebuilds wait for, does not keep it."""
    host = chat(model)
    request = host.again()
    for number in range(4):
        block = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
        request = host.say(assistant([block, call(f"t{number}")]), user([result(f"t{number}", "x")]))
    refusal = (
        "messages.3.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
        'conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
    )
    error = {"type": "invalid_request_error", "message": refusal}
    said = request.report_error(400, json.dumps({"type": "error", "error": error}))
    assert said.kind == "thinking"
    if running:
        run = ev.HistorianStarted(0, "", "run", 1, 2, b"f", "other", 10**15)
        host.session.core.command(lambda hot, at: [msgspec.structs.replace(run, at=at)])
    request = host.again()
    assert thoughts(request) == 0
    assert "thinking_recovery" in request.reasons
    request = host.say(
        assistant([{"type": "thinking", "thinking": "new", "signature": "c2ln"}, text("ok")]), user("go")
    )
    assert (request.level, thoughts(request)) == ("defer", 1)


@pytest.mark.rule("THINK-4")
@pytest.mark.parametrize("how", ["usage", "history", "error", "nothing"])
def test_a_refusal_with_nothing_to_take_out_is_over_with_the_next_answer(how: str):
    """An error that the host keeps as the model's words, or the answer to an earlier request, is none."""
    host = chat()
    earlier = host.turn()
    request = host.turn()
    refusal = "Invalid `signature` in `thinking` block. The block is bound to a different conversation."
    request.report_error(400, refusal)
    assert host.state.unbound == request.pass_number
    if how == "error":
        host.messages += [assistant("API error: 400"), user("well?")]
    request = host.again()
    assert host.state.unbound, "nothing was there to take out"
    if how == "usage":
        use(request, 5_000)
    elif how == "history":
        host.turn()
    elif how == "nothing":
        use(earlier, 5_000)
    assert bool(host.state.unbound) == (how in ("error", "nothing"))


@pytest.mark.rule("THINK-4")
def test_other_words_about_signatures_change_nothing():
    host = chat()
    request = host.say(assistant([{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, text("ok")]), user("go"))
    request.report_error(400, "messages.1.content.0: Invalid `signature` in `thinking` block")
    assert thoughts(host.again()) == 1


@pytest.mark.rule("THINK-1")
def test_the_provider_s_model_finds_a_rebuild_without_companions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes, "LANES", tuple(lane for lane in lanes.LANES if lane.plan is not reasoning.companions))
    with pytest.raises(AssertionError, match="reasoning of another conversation"):
        test_on_a_bound_model_every_rebuild_keeps_the_request_acceptable()


@pytest.mark.rule("THINK-3")
@pytest.mark.parametrize(
    ("size", "budget", "stay"),
    [(300, 0, 1), (300, 899, 2), (300, 900, 3), (300, 901, 3), (0, 1_999, 1), (0, 2_000, 2), (0, 2_001, 2)],
)
def test_the_newest_answer_stays_and_is_counted_first(size: int, budget: int, stay: int):
    """Its reasoning, and the newest that is signed, is what the model goes on from; what is hidden counts 1,000."""
    host = chat("claude-sonnet-4-5", keep_reasoning_tokens=budget)
    for number in range(6):
        readable = {"type": "thinking", "thinking": words(size), "signature": "c2ln"}
        block = readable if size else {"type": "redacted_thinking", "data": ""}
        host.say(assistant([block, text("ok")]), user(f"next {number}"))
    host.session.report_cache_loss("said so")
    request = host.say()
    blocks = [b for m in request.messages if isinstance(m["content"], list) for b in m["content"]]
    assert sum("thinking" in block["type"] for block in blocks) == stay


@pytest.mark.rule("THINK-3")
def test_once_one_does_not_fit_all_older_ones_go():
    host = chat("claude-sonnet-4-5", keep_reasoning_tokens=1_000)
    for number, size in enumerate([100, 100, 900, 300, 300]):
        block = {"type": "thinking", "thinking": words(size), "signature": "c2ln"}
        host.say(assistant([block, text("ok")]), user(f"next {number}"))
    host.session.report_cache_loss("said so")
    assert thoughts(host.say()) == 2


@pytest.mark.rule("THINK-3")
def test_details_that_repeat_what_can_be_read_count_once():
    host = Chat(lanes=True, codec="openai-chat", model="gpt-x", policy={**BARE, "keep_reasoning_tokens": 1_000})
    host.say(user("start"))
    for number in range(12):
        said = words(100) + str(number)
        more = {"reasoning_content": said, "reasoning_details": [{"type": "reasoning.text", "text": said}]}
        host.say({"role": "assistant", "content": "ok", **more}, user(f"next {number}"))
    host.session.report_cache_loss("said so")
    kept = sum("reasoning_content" in message for message in host.say().messages)
    assert 8 <= kept <= 10


@pytest.mark.rule("THINK-3", "T52")
@pytest.mark.parametrize(
    ("before", "after", "stays"), [("gpt-x", "deepseek-v3", True), ("deepseek-v3", "gpt-x", False)]
)
def test_the_model_a_request_goes_to_says_whether_reasoning_comes_back(before: str, after: str, stays: bool):
    policy = {**BARE, "keep_reasoning_tokens": 0}
    host = Chat(lanes=True, codec="openai-chat", model=before, policy=policy)
    host.say(user("start"))
    for number in range(4):
        host.say({"role": "assistant", "content": "ok", "reasoning_content": words(300)}, user(f"next {number}"))
    host.reopen(model=after)
    request = host.say({"role": "assistant", "content": "ok"}, user("go"))
    assert request.level == "hard"
    assert any("reasoning_content" in message for message in request.messages) is stays


def _opencode(number: int) -> list[dict[str, Any]]:
    reasoning_ = {"openai": {"itemId": f"rs_{number}", "reasoningEncryptedContent": "g" * 2_000}}
    time = {"start": 1, "end": 2}
    state = {"status": "completed", "input": {"n": number}, "output": "x", "title": "", "metadata": {}, "time": time}
    parts = [
        {"type": "reasoning", "text": "", "time": time, "metadata": reasoning_},
        {
            "type": "tool", "tool": "read", "callID": f"call_{number}", "state": state,
            "metadata": {"openai": {"itemId": f"fc_{number}"}},
        },
    ]  # fmt: skip
    return [
        _row(f"msg_{number}a", "assistant", parts),
        _row(f"msg_{number}b", "user", [{"type": "text", "text": "go"}]),
    ]


def _row(id: str, role: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    info = {"id": id, "sessionID": "s", "role": role, "time": {"created": 1}}
    named = [{"id": f"{id}_{place}", "messageID": id, "sessionID": "s", **part} for place, part in enumerate(parts)]
    return {"info": {**info, "providerID": "openai", "modelID": "gpt-5"}, "parts": named}


def _pi(number: int) -> list[dict[str, Any]]:
    item = json.dumps({"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "g" * 2_000})
    made = {"api": "openai-responses", "provider": "openai", "model": "gpt-5", "stopReason": "toolUse", "timestamp": 1}
    called = {"type": "toolCall", "id": f"call_{number}|fc_{number}", "name": "read", "arguments": {"n": number}}
    thought = {"type": "thinking", "thinking": "", "thinkingSignature": item}
    answered = {"toolCallId": called["id"], "toolName": "read", "content": [text("x")], "isError": False}
    return [
        {"role": "assistant", "content": [thought, called], **made},
        {"role": "toolResult", "timestamp": 1, **answered},
        {"role": "assistant", "content": [text("ok")], **made, "stopReason": "stop"},
        {"role": "user", "content": [text("go on")], "timestamp": 1},
    ]


@pytest.mark.rule("THINK-3", "ITEM-5")
@pytest.mark.parametrize(("codec", "more"), [("opencode", _opencode), ("pi", _pi)])
@pytest.mark.parametrize("model", ["openai/gpt-5", BOUND])
def test_an_item_a_call_asks_for_stays_on_every_wire_that_carries_it(codec: str, more: Any, model: str):
    """OpenAI's items reach hosts of other wires too: a call sent without its reasoning is refused."""
    host = Chat(lanes=True, codec=codec, model=model, policy={**BARE, "keep_reasoning_tokens": 0})
    host.say(*([_row("msg_0", "user", [{"type": "text", "text": "start"}])] if codec == "opencode" else _pi(0)[3:]))
    for number in range(1, 15):
        host.say(*more(number))
    host.session.report_cache_loss("said so")
    request = host.say(*more(15))
    assert request.level == "hard"
    wire = b"\n".join(request.messages_json).decode()
    for number in range(1, 16):
        assert (f"fc_{number}" in wire) <= (f"rs_{number}" in wire)


@pytest.mark.rule("THINK-1", "ITEM-5")
def test_on_openai_s_items_no_reasoning_leaves_without_its_call():
    host = Chat(lanes=True, codec="openai-responses", model=BOUND, policy=BARE)
    host.say({"type": "message", "role": "user", "content": "start"})
    for number in range(8):
        host.say(
            {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "Q" * 800},
            {"type": "function_call", "id": f"fc_{number}", "call_id": f"c{number}", "name": "sh", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": words(100) + str(number)},
        )
    host.session.report_cache_loss("said so")
    request = host.say()
    kinds = [item["type"] for item in request.messages]
    assert kinds.count("reasoning") == kinds.count("function_call") > 0
