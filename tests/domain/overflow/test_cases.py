"""Full sessions as people reported them, each as a kind: several inputs, not the one that was met."""

from __future__ import annotations

import pytest

import foldlog
from foldlog.adapters import historian
from foldlog.domain import events as ev
from foldlog.domain.history import budgets
from support.past import Scripted, opened, talk
from support.talk import Chat, assistant, differences, events, use, user, words

NUMBERLESS = (
    "Your input exceeds the context window of this model.",
    "This request exceeds the context size limit. Please reduce the size of the prompt and try again.",
    "the request exceeds the available context size, try increasing it",
)


@pytest.mark.rule("OVER-13", "OVER-15")
@pytest.mark.parametrize("text", NUMBERLESS)
@pytest.mark.parametrize("limit", [None, 200_000])
def test_an_overflow_without_figures_in_a_new_session(text: str, limit: int | None):
    """OV-01: nothing can be reduced, so there is one clear refusal a request, no loop, and the session stays usable."""
    chat = Chat(context_limit=limit)
    chat.say(user("start"), assistant("a"), user("b")).report_error(400, text)
    for number in range(2):
        with pytest.raises(foldlog.Refused) as caught:
            chat.again()
        assert caught.value.code == "CONTEXT_FULL"
        chat.messages += [assistant("x"), user(f"{number}")]
    assert chat.session.status().learnt_limit == 0
    assert len(events(chat.session, ev.PassRefused)) == 2
    use(chat.again(), 50)
    assert chat.turn().level == "defer"
    assert differences(chat.engine) == []


@pytest.mark.rule("OVER-12", "PERM-7")
@pytest.mark.parametrize("mode", ["primary", "subagent"])
def test_what_is_switched_off_stays_off_after_an_overflow(mode: str):
    """OV-04: the limit is learnt and nothing is folded, dropped or refused; a larger model has its own window."""
    chat = Chat(model="small", context_limit=128_000, mode=mode, policy={"compaction": False})
    chat.say(user("start " + words(500)))
    use(chat.turn(), 120_000)
    chat.turn().report_error(400, "prompt is too long: 140000 tokens > 128000 maximum")
    for _ in range(3):
        request = chat.turn()
        assert request.level == "defer"
        decision = request._produced.event.decision
        assert decision is None or (decision.permission, decision.source) == (False, "provider")
    chat.reopen(model="large", context_limit=1_000_000)
    assert chat.turn().level in ("defer", "hard")
    use(chat.turn(), 140_000)
    status = chat.session.status()
    assert (status.usage_percent, status.recovering, status.learnt_limit) == (1_400, False, 0)


@pytest.mark.rule("IDENT-12")
@pytest.mark.parametrize("count", [190_000, 199_999, 500_000])
def test_a_helpers_call_is_not_the_sessions(count: int):
    """OV-05: a title's or summary's usage and overflow put nothing under pressure."""
    chat = Chat()
    use(chat.say(user("start"), assistant("a"), user("b")), 20_000)
    side = chat.session.prepare([user("Summarise: " + words(50))], now=chat.now)
    use(side, count)
    side.report_error(400, f"prompt is too long: {count} tokens > 180000 maximum")
    status = chat.session.status()
    assert (status.usage_tokens, status.recovering, status.learnt_limit) == (20_000, False, 0)
    assert chat.turn().level == "defer"


@pytest.mark.rule("HIST-20")
@pytest.mark.parametrize("times", [2, 8])
def test_a_summary_is_made_of_what_its_maker_can_read(times: int, monkeypatch: pytest.MonkeyPatch):
    """OV-13: history of several windows of the summariser is read in stretches, oldest first, each within one."""
    window = 8_000
    monkeypatch.setattr(historian, "CONTEXT", window)
    summarizer = Scripted()
    host = Chat(opened("memory:", summarizer), context_limit=window * times * 2)
    request = None
    while not summarizer.jobs or summarizer.jobs[-1].end * 250 < window * times:
        request = talk(host, 1, 500)
        use(request, min(request._produced.event.tokens, window * times * 2 * 80 // 100))
        if len(host.messages) > 400:
            break
    assert len(summarizer.jobs) >= 2
    count = host.session.core.reader.count
    for job in summarizer.jobs:
        assert count(job.chunk) <= budgets.chunk(window)
    starts = [job.start for job in summarizer.jobs]
    assert starts == sorted(starts)


@pytest.mark.rule("WINDOW-12")
@pytest.mark.parametrize(
    ("text", "least"),
    [("会议记录需要整理成文档", 0.6), ("これは長い会話の履歴です", 0.6), ("이것은 긴 대화 기록입니다", 0.5)],
)
def test_other_scripts_are_not_counted_by_four_letters(text: str, least: float):
    """TC-05: the estimate is a tokenizer's, and then the provider's."""
    chat = Chat()
    said = text * 300
    request = chat.say(user(said))
    assert request.usage_estimate >= len(said) * least
    use(request, len(said) * 2)
    later = chat.say(assistant("ok"), user(said))
    assert later.usage_estimate >= len(said) * 4 * 0.9


@pytest.mark.rule("WINDOW-8", "WINDOW-12")
@pytest.mark.parametrize("counts", [{}, {"input": 0}, {"output": 900}, {"input": 0, "cache_read": 0, "cache_write": 0}])
def test_usage_that_was_not_found_is_unknown(counts: dict[str, int]):
    """TC-06: never 0 per cent; the estimate drives what usage would have driven."""
    chat = Chat(context_limit=20_000)
    chat.say(user(words(17_500))).report_usage(**counts)
    status = chat.session.status()
    assert status.usage_source == "estimated"
    assert status.usage_percent > 8_500


@pytest.mark.rule("WINDOW-12")
@pytest.mark.parametrize("size", [2_000, 6_000])
def test_system_tools_and_the_last_answer_are_in_the_estimate(size: int):
    """TC-08: what no message of a person holds takes room too."""
    tools = [{"name": "t", "description": words(size, "tool"), "input_schema": {"type": "object"}}]
    chat = Chat()
    chat.given = {"system": words(size, "rule"), "tools": tools}
    first = chat.say(user("start"))
    assert first.usage_estimate > 2 * size
    later = chat.say(assistant(words(size, "answer")), user("go on"))
    assert later.usage_estimate > 3 * size
