"""Reports of tokens counted wrong, each as a kind: several inputs (``specs/reports.md``)."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from support.talk import Chat, assistant, events, use, user, words

TOOL = {"name": "Bash", "description": words(400), "input_schema": {"type": "object", "properties": {}}}


# ------------------------------------------------------------------- TC-08: what else is sent


@pytest.mark.rule("TC-08", "WINDOW-12", "SAY-4")
@pytest.mark.parametrize("part", ["system", "tools", "answer", "prompt"])
@pytest.mark.parametrize("codec", ["anthropic", "openai-chat", "openai-responses"])
def test_everything_that_is_sent_is_counted(part: str, codec: str):
    """System text, tools, the model's own answer, what is new: each raises the count by what it holds."""
    host = Chat(codec=codec, context_limit=1_000_000)
    begin = {"type": "message"} if codec == "openai-responses" else {}
    plain = host.say({**begin, **user("start")}, system="You work.", tools=[])
    before = plain.usage_estimate
    given: dict[str, Any] = {"system": "You work.", "tools": []}
    new = [{**begin, **assistant("ok")}, {**begin, **user("on")}]
    if part == "system":
        given["system"] = "You work. " + words(25_000)
    elif part == "tools":
        made = [{**TOOL, "name": f"tool_{n}"} for n in range(60)]
        given["tools"] = made if codec == "anthropic" else [{"type": "function", "function": one} for one in made]
    else:
        new[part == "prompt"]["content"] = words(25_000)
    after = host.say(*new, **given)
    assert 24_000 < after.usage_estimate - before < 32_000


@pytest.mark.rule("TC-08", "OVER-10", "OVER-13")
@pytest.mark.parametrize("answer", [60_000, 120_000])
def test_what_came_since_the_last_figure_is_seen_at_the_latest_by_the_refusal(answer: int):
    """A session at 45% gets a long answer and goes over its window at once. Usage stands until the next answer
    (decisions.md), so the request is sent; refused, it teaches the limit, and what goes next fits.
    """
    host = Chat(policy={"protected_tokens": 0}, lanes=True)
    request = host.say(user("start"))
    for number in range(10):
        request = host.tool(f"t{number}", words(9_000) + str(number), name="fetch")
    use(request, 90_000)
    request = host.say(assistant(words(answer)), user("on"))
    assert request.level == "defer"
    used = 90_000 + answer
    request.report_error(400, f"prompt is too long: {max(used, 200_001)} tokens > 200000 maximum")
    again = host.again()
    assert again.level != "defer"
    assert again._produced.event.tokens < request._produced.event.tokens


# ------------------------------------------------------------------- TC-01, TC-04: figures of another time


@pytest.mark.rule("TC-04", "WINDOW-11")
@pytest.mark.parametrize("how", ["flush", "fold", "pressure"])
@pytest.mark.parametrize("late", [150_000, 196_000])
def test_figures_from_before_a_rebuild_start_no_other(how: str, late: int):
    """Right after a rebuild the last figure still is of the old history, and may come in late or twice."""
    host = Chat(policy={"protected_tokens": 0})
    old = host.say(user("start"))
    for number in range(6):
        old = host.tool(f"t{number}", words(4_000) + str(number))
    host.session.reduce("2-3")
    if how == "flush":
        host.session.flush()
    elif how == "fold":
        host.session.report_cache_loss("said so")
    else:
        use(old, 150_000)
    rebuilt = host.turn()
    assert rebuilt.level != "defer"
    for _ in range(3):
        use(old, late)
        assert host.session.status().usage_source == "estimated"
        assert host.turn().level == "defer"


@pytest.mark.rule("TC-01", "REFUSE-5", "PROP-5")
@pytest.mark.parametrize(
    ("window", "figure"), [(200_000, 404_000), (200_000, 590_000), (32_000, 90_000), (None, 922_000)]
)
def test_an_impossible_share_refuses_nothing_and_is_told_as_it_is(window: int | None, figure: int):
    """More than the window on a call that was accepted: one figure, one window, no refusal, no fold for it."""
    host = Chat(context_limit=window)
    use(host.say(user("start " + words(9_000))), figure)
    status = host.session.status()
    assert status.usage_percent == figure * 10_000 // (window or 128_000)
    assert status.window_known is (window is not None)
    for _ in range(4):
        request = host.turn()
        assert request.level == "defer"
    assert not [event for event in events(host.session) if event.__class__.__name__ == "PassRefused"]
    assert isinstance(request, foldlog.Request)
