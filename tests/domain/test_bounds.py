"""Where a figure of the specification ends: each bound from both of its sides."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from support.talk import Chat, assistant, call, result, thinking, use, user, words

FREE = {"protected_tokens": 0}


def chat(**options: Any) -> Chat:
    made = Chat(lanes=True, **{"policy": FREE, **options})
    made.say(user("start"))
    return made


def fill(host: Chat, count: int, size: int = 900, first: int = 0, **arguments: Any) -> Any:
    request = None
    for number in range(first, first + count):
        request = host.tool(f"t{number}", words(size) + str(number), n=number, **arguments)
    return request


@pytest.mark.rule("REFUSE-1")
@pytest.mark.parametrize(("share", "refused"), [(90, False), (108, False), (112, True), (118, True)])
def test_a_first_pass_of_more_than_eleven_tenths_of_a_window_is_refused(share: int, refused: bool):
    said = [user(words(9_000)), assistant("ok"), user(words(9_000))]
    size = Chat(context_limit=None).say(*said)._produced.event.tokens
    host = Chat(context_limit=size * 100 // share)
    if refused:
        with pytest.raises(foldlog.Refused) as caught:
            host.say(*said)
        assert caught.value.code == "UNMANAGED_OVER_WINDOW"
    else:
        assert host.say(*said).level == "hard"


@pytest.mark.rule("EMERG-5", "WINDOW-2", "WINDOW-6")
@pytest.mark.parametrize(("used", "gone"), [(146_000, False), (184_000, False), (187_000, True)])
def test_95_per_cent_is_of_the_hard_window(used: int, gone: bool):
    host = chat(policy={"protected_tokens": 100_000}, output_limit=64_000)
    use(fill(host, 12, 2_000), used)
    host.turn()
    assert any(tag.status == "dropped" for tag in host.state.tags) == gone


@pytest.mark.rule("WINDOW-13", "EMERG-2")
def test_another_model_ends_the_emergency_of_the_one_before():
    host = chat(model="a")
    use(fill(host, 40), 176_000)
    host.turn()
    assert host.state.drained is not None
    host.reopen(model="b")
    host.turn()
    use(fill(host, 30, first=40), 177_000)
    assert host.turn().level == "soft+"
    assert "emergency" in {did.lane for did in host.last().decision.lanes}


@pytest.mark.rule("WINDOW-10")
@pytest.mark.parametrize(
    ("words", "window"),
    [
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072),
        ("This endpoint's maximum context length is 131072 tokens. However, you requested 205000", 98_304),
    ],
)
def test_nothing_is_reserved_of_a_limit_that_is_the_prompts_alone(words: str, window: int):
    host = chat(output_limit=64_000)
    host.turn().report_error(400, words)
    assert host.session.status().window == window


@pytest.mark.rule("DROP-1")
@pytest.mark.parametrize("behind", [17, 18, 19, 20, 21])
def test_of_twenty_tools_and_no_more_the_small_calls_stay(behind: int):
    host = chat()
    host.tool("old", words(300), n=1)
    fill(host, behind, 1)
    host.session.reduce("2")
    host.session.flush()
    host.again()
    assert host.state.tags[1].mode == ("skeleton_real" if behind < 20 else "full")


@pytest.mark.rule("DROP-1")
@pytest.mark.parametrize(("arguments", "mode"), [("", "full"), ("{}", "skeleton_real")])
def test_a_call_nobody_can_read_the_input_of_is_not_small(arguments: str, mode: str):
    host = Chat(codec="openai-chat", policy=FREE)
    host.say({"role": "user", "content": "start"})
    for id in ("a", "b", "c", "d", "e"):
        made = {"id": id, "type": "function", "function": {"name": "Bash", "arguments": arguments}}
        host.say(
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": id, "content": words(300)},
        )
    host.session.reduce("2")
    host.session.flush()
    host.again()
    assert host.state.tags[1].mode == mode


@pytest.mark.rule("DROP-2", "PROP-3")
@pytest.mark.parametrize("size", [10, 3_000])
@pytest.mark.parametrize("paths", [1, 2])
def test_a_call_two_paths_answer_never_leaves_whole(size: int, paths: int):
    host = chat()
    kept = [*host.messages, assistant([call("a", command=words(1_500))])]
    host.say(kept[-1], user([result("a", words(size))]))
    if paths == 2:
        fill(host, 2, 5)
        host.messages = [*kept, user([result("a", words(size) + " otherwise")]), assistant("so"), user("on")]
        host.again()
    fill(host, 3, 5, first=10)
    number = host.state.tools_order[0]
    host.session.reduce(str(number))
    host.session.flush()
    host.again()
    tag = host.state.tags[number - 1]
    assert (tag.status, tag.mode) == ("dropped", "skeleton_real" if paths == 2 else "full")


@pytest.mark.rule("THINK-3")
@pytest.mark.parametrize(("budget", "left"), [(0, 1), (2_000, 2), (4_000, 4), (20_000, 6)])
def test_reasoning_nobody_can_read_is_taken_for_a_thousand_tokens(budget: int, left: int):
    host = chat(model="claude-sonnet-4-5", policy={**FREE, "keep_reasoning_tokens": budget})
    for number in range(6):
        hidden = {"type": "thinking", "thinking": "", "signature": f"c2ln{number}"}
        host.say(assistant([hidden, {"type": "text", "text": "ok"}]), user("on"))
    host.session.report_cache_loss("gone")
    request = host.again()
    assert sum(raw.count(b'"signature"') for raw in request.messages_json) == left


@pytest.mark.rule("THINK-3", "T45")
@pytest.mark.parametrize(("scale", "left"), [(1_000, 4), (1_600, 2)])
def test_the_reasoning_budget_is_in_the_providers_tokens(scale: int, left: int):
    host = chat(model="claude-sonnet-4-5", policy={**FREE, "keep_reasoning_tokens": 4_300})
    for _ in range(6):
        host.say(assistant([thinking(words(999)), {"type": "text", "text": "ok"}]), user("on"))
    use(host.again(), host.state.last.tokens * scale // 1_000 + 1)
    host.session.report_cache_loss("gone")
    host.say(user("so"))
    assert abs(host.state.adopted.ratio - scale) < 2
    host.session.report_cache_loss("gone")
    request = host.say(user("and so"))
    assert sum(raw.count(b'"thinking":') for raw in request.messages_json) == left


@pytest.mark.rule("THINK-2")
@pytest.mark.parametrize(("thought", "used", "held"), [(3_500, 140_000, False), (4_500, 140_000, True),
                                                       (4_500, 148_000, True), (4_500, 152_000, False)])  # fmt: skip
def test_what_is_heavy_and_how_far_above_the_threshold_it_waits(thought: int, used: int, held: bool):
    host = chat(model="claude-sonnet-5-5")
    fill(host, 8)
    host.session.reduce("2-6")
    host.say(assistant("ok"), user("go"))
    request = host.tool("t", "x", thinking(words(thought)))
    use(request, used)
    request = host.tool("u", "x", thinking("hm"))
    assert ("thinking_hold" in host.last().decision.signals) == held
    assert (request.level == "defer") == held
