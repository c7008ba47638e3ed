"""When a pass is an execute pass: pressure, idle expiry, session time."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from foldlog.domain import events as ev
from support.talk import Chat, assistant, call, events, result, use, user, words


def decision(chat: Chat) -> Any:
    return events(chat.session, ev.Pass)[-1].decision


@pytest.mark.rule("SCHED-1")
def test_the_first_pass_is_scheduled_by_nothing():
    chat = Chat()
    request = chat.say(user("start"))
    assert (request.level, request.reasons) == ("hard", ("first_render",))
    assert decision(chat).schedule == "defer"
    assert chat.session.status().usage_source == "estimated"


@pytest.mark.rule("SCHED-2")
@pytest.mark.parametrize(
    ("tokens", "schedule"), [(129_979, None), (129_980, None), (130_000, "pressure"), (130_001, "pressure")]
)
def test_pressure_begins_at_the_threshold(tokens: int, schedule: str | None):
    chat = Chat()
    use(chat.say(user("start")), tokens)
    chat.turn()
    found = decision(chat)
    assert (found.schedule if found is not None else None) == schedule


@pytest.mark.rule("SCHED-3", "FOLD-2")
@pytest.mark.parametrize(
    ("wait", "level"), [(299.999, "defer"), (300.0, "defer"), (300.001, "hard"), (80_000.0, "hard")]
)
def test_idle_is_strictly_longer_than_the_lifetime(wait: float, level: str):
    chat = Chat()
    use(chat.say(user("start")), 1_000)
    request = chat.turn(wait=wait)
    assert request.level == level
    assert request.reasons == (("ttl_idle",) if level == "hard" else ())


@pytest.mark.rule("SCHED-3")
def test_idle_runs_from_the_answer_not_from_the_request():
    chat = Chat()
    request = chat.say(user("start"))
    request.report_usage(input=1_000, now=chat.now + 100)
    assert chat.turn(wait=400).level == "defer"
    assert chat.turn(wait=301).level == "hard"


@pytest.mark.rule("SCHED-3")
def test_an_answer_without_usage_counts_from_its_request():
    """Convention 19: an array that goes on behind an assistant message was answered, with unknown usage."""
    chat = Chat()
    chat.say(user("start"))
    assert chat.turn(wait=301).reasons == ("ttl_idle",)


@pytest.mark.rule("SCHED-3")
def test_without_an_answer_there_is_no_idle():
    chat = Chat()
    chat.say(user("start"))
    assert chat.say(user("are you there?"), wait=9_000).level == "defer"


@pytest.mark.rule("SCHED-4")
def test_idle_expiry_consumes_itself():
    """T22: one rebuild an idle gap, also where the rebuild is never answered, sent again, or split over processes."""
    chat = Chat()
    use(chat.say(user("start")), 1_000)
    first = chat.turn(wait=600)
    assert first.level == "hard"
    again = chat.again(wait=1)
    assert (again.pass_number, again.digest) == (first.pass_number, first.digest)
    assert chat.say(user("more"), wait=900).level == "defer"
    assert chat.turn(wait=10).level == "defer"


@pytest.mark.rule("SCHED-4")
def test_idle_expiry_comes_back_with_the_next_answer():
    chat = Chat()
    use(chat.say(user("start")), 1_000)
    use(chat.turn(wait=600), 1_000)
    assert chat.turn(wait=100).level == "defer"
    assert chat.turn(wait=600).level == "hard"


@pytest.mark.rule("SCHED-5", "SCHED-6")
def test_the_lifetime_is_live():
    chat = Chat(policy={"cache_ttl": "1h"})
    use(chat.say(user("start")), 1_000)
    use(chat.turn(wait=3_600), 1_000)
    assert len(events(chat.session, ev.BaselineFolded)) == 1
    chat.reopen(policy={"cache_ttl": "never"})
    use(chat.turn(wait=3_000_000), 1_000)
    assert len(events(chat.session, ev.BaselineFolded)) == 1
    chat.reopen(policy={"cache_ttl": "2000"})
    assert chat.turn(wait=3).level == "hard"


@pytest.mark.rule("SCHED-6")
def test_the_lifetime_can_be_per_model():
    chat = Chat(policy={"cache_ttl": {"slow/*": "1h", "default": "5m"}}, model="slow/m-1")
    use(chat.say(user("start")), 1_000)
    assert chat.turn(wait=3_000).level == "defer"


@pytest.mark.rule("SCHED-7")
def test_clocks_that_go_backwards_change_nothing():
    """Session time is the latest seen; both raw values are stored."""
    chat = Chat()
    use(chat.say(user("start")), 1_000)
    later = chat.now
    assert chat.turn(wait=-5_000).level == "defer"
    assert events(chat.session, ev.Pass)[-1].now == round(chat.now * 1000)
    assert chat.state.seen == round(later * 1000)
    chat.now = later
    assert chat.turn(wait=200).level == "defer"


@pytest.mark.rule("SCHED-7")
def test_a_report_with_an_old_clock_moves_no_time_back():
    chat = Chat()
    request = chat.say(user("start"))
    request.report_usage(input=5, now=chat.now + 200)
    chat.turn(wait=250).report_usage(input=5, now=1.0)
    assert chat.state.response_now == round((chat.now - 50) * 1000)
    assert chat.turn(wait=290).level == "defer", "the newest request, answered too, is 290 seconds old"


@pytest.mark.rule("SCHED-8")
def test_a_pressure_episode_is_opened_and_closed_by_usage_alone():
    chat = Chat()
    use(chat.say(user("start")), 150_000)
    first = chat.turn()
    use(first, 150_000)
    assert chat.state.episode == first.pass_number
    use(chat.turn(), 129_000)
    assert chat.state.episode == first.pass_number
    use(chat.turn(), 129_000)
    assert chat.state.episode == 0
    use(chat.turn(wait=600), 1_000)
    assert chat.state.episode == 0, "an idle expiry opens none"


# ---------------------------------------------------------------------------- usage


@pytest.mark.rule("WINDOW-8")
def test_usage_is_the_prompt_cached_or_not_and_never_the_output():
    chat = Chat()
    request = chat.say(user("start"))
    request.report_usage(input=1_000, cache_read=90_000, cache_write=9_000, output=77_000)
    status = chat.session.status()
    assert (status.usage_tokens, status.usage_percent, status.usage_source) == (100_000, 5_000, "provider")


@pytest.mark.rule("WINDOW-8")
@pytest.mark.parametrize("counts", [{}, {"output": 500}, {"input": 0, "cache_read": 0, "cache_write": 0}])
def test_no_prompt_count_is_no_usage(counts: dict[str, int]):
    """PROP-5, CU-07: what was not reported stays unknown."""
    chat = Chat()
    chat.say(user("start")).report_usage(**counts)
    assert chat.session.status().usage_source == "estimated"


@pytest.mark.rule("WINDOW-11")
def test_usage_of_a_pass_before_the_last_rebuild_never_drives_pressure():
    """TC-04."""
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"))
    for number in range(5):
        request = chat.tool(f"t{number}", words(4_000))
    use(request, 150_000)
    chat.session.reduce("2-3")
    old = request
    rebuilt = chat.turn()
    assert rebuilt.level == "soft+"
    assert chat.session.status().usage_source == "estimated"
    use(old, 190_000)
    assert chat.session.status().usage_source == "estimated"
    use(rebuilt, 100_000)
    assert chat.session.status().usage_tokens == 100_000


@pytest.mark.rule("WINDOW-11")
def test_usage_of_a_path_the_host_has_left_drives_no_pressure():
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start", id="1"))
    chat.say(assistant("ok", id="2"), user("go on", id="3"))
    for number in range(4):
        used = [call(f"t{number}")], [result(f"t{number}", words(3_000))]
        request = chat.say(assistant(used[0], id=f"{number}a"), user(used[1], id=f"{number}b"))
    use(request, 190_000)
    chat.messages = chat.messages[:5]
    request = chat.again()
    assert request.level == "defer"
    assert chat.last().decision is None or chat.last().decision.source == "estimated"


@pytest.mark.rule("WINDOW-11")
def test_a_late_report_does_not_replace_a_newer_one():
    chat = Chat()
    first = chat.say(user("start"))
    second = chat.turn()
    use(second, 90_000)
    use(first, 20_000)
    assert chat.session.status().usage_tokens == 90_000


@pytest.mark.rule("WINDOW-12")
def test_without_usage_a_calibrated_estimate_drives_execute_and_force():
    chat = Chat(context_limit=20_000, policy={"protected_tokens": 0})
    use(chat.say(user(words(1_000))), 2_600)
    for number in range(6):
        chat.tool(f"t{number}", words(1_000))
    status = chat.session.status()
    assert status.usage_source == "provider"
    chat.session.report_cache_loss("so that the usage is of an older prefix")
    chat.turn()
    status = chat.session.status()
    assert status.usage_source == "estimated"
    local = chat.state.last.tokens
    assert status.usage_tokens == local * chat.state.ratios[""] // 1000 > local
    chat.session.reduce("2-4")
    request = chat.turn()
    assert request.level == "soft+"
    assert chat.last().decision.source == "estimated"


@pytest.mark.rule("WINDOW-12", "REFUSE-5")
def test_an_estimate_never_refuses():
    chat = Chat(context_limit=20_000)
    chat.say(user("start"))
    for number in range(12):
        request = chat.tool(f"t{number}", words(4_000))
    assert request.usage_estimate > 40_000
    assert chat.state.learnt is None


@pytest.mark.rule("REFUSE-5", "ACC-16")
def test_usage_above_the_window_of_an_accepted_call_never_refuses():
    """TC-01: impossible shares from an accepted call."""
    chat = Chat()
    use(chat.say(user("start")), 404_000)
    assert chat.turn().level == "defer"
    assert chat.session.status().usage_percent == 20_200


@pytest.mark.rule("WINDOW-14")
@pytest.mark.parametrize(
    ("limit", "count", "believed"), [(1_000_000, 25_000_000, False), (200_000, 404_000, True), (None, 9_000_000, True)]
)
def test_a_count_of_something_else_is_not_believed(limit: int | None, count: int, believed: bool):
    """TC-03: many times the window of an accepted call and many times our own count; the own estimate is used."""
    chat = Chat(context_limit=limit)
    request = chat.say(user("start " + words(2_000)))
    use(request, count)
    status = chat.session.status()
    assert status.usage_source == ("provider" if believed else "estimated")
    if not believed:
        assert status.usage_tokens < 10_000
        assert chat.state.ratios == {}
        assert chat.state.accepted == 0
        assert chat.turn().level == "defer"


@pytest.mark.rule("WINDOW-13")
def test_a_model_change_forgets_what_was_measured():
    chat = Chat(model="a")
    request = chat.say(user("start"))
    use(request, 190_000)
    chat.reopen(model="b")
    second = chat.turn()
    assert second.reasons == ("model_change",)
    assert chat.session.status().usage_source == "estimated"
    use(request, 190_000)
    assert chat.session.status().usage_source == "estimated", "an answer of the other model counts for nothing"


@pytest.mark.rule("WINDOW-3")
@pytest.mark.parametrize("limit", [None, 0])
def test_an_unknown_window_is_assumed_and_said_to_be(limit: int | None):
    """OV-19, CU-01: 0 is unknown, never a number; nothing is refused by an assumed window."""
    chat = Chat(context_limit=limit)
    use(chat.say(user("start")), 127_000)
    status = chat.session.status()
    assert (status.window, status.window_known, status.usage_percent) == (128_000, False, 9_921)
    assert chat.turn().level == "defer"
    use(chat.turn(), 500_000)
    assert chat.turn().level == "defer"


@pytest.mark.rule("WINDOW-1")
def test_output_limit_is_reserved():
    chat = Chat(output_limit=32_000)
    chat.say(user("start"))
    assert chat.session.status().window == 168_000


@pytest.mark.rule("WINDOW-10")
def test_a_learnt_limit_narrows_the_window_of_its_model_only():
    chat = Chat(model="a")
    chat.say(user("start"), assistant("x"), user("y"))
    chat.turn().report_failure("overflow", limit=100_000, used=150_000)
    assert chat.session.status().window == 100_000
    chat.reopen(model="b")
    chat.turn()
    assert chat.session.status().window == 200_000
    chat.reopen(model="a")
    chat.turn()
    assert chat.session.status().window == 200_000, "a changed model forgets it"


@pytest.mark.rule("WINDOW-10")
@pytest.mark.parametrize("limit", [1, 1_023, 10_000_001])
def test_an_implausible_limit_is_not_learnt(limit: int):
    chat = Chat()
    chat.say(user("start")).report_failure("overflow", limit=limit)
    assert chat.session.status().window == 200_000


@pytest.mark.rule("WINDOW-10")
def test_a_limit_that_accepted_calls_contradict_is_not_learnt():
    """PROP-6, OV-12: the smaller window of a routed model does not shrink the main one."""
    chat = Chat()
    use(chat.say(user("start")), 150_000)
    chat.session.report_cache_loss("a rebuild in between changes nothing of it")
    chat.turn().report_failure("overflow", limit=131_072, used=134_123)
    assert chat.session.status().window == 200_000


@pytest.mark.rule("WINDOW-10")
def test_an_accepted_call_drops_a_learnt_limit():
    chat = Chat()
    first = chat.say(user("start " + words(300)))
    first.report_failure("overflow", limit=100_000)
    assert chat.session.status().window == 100_000
    chat.messages = [user("start")]
    use(chat.again(), 120_000)
    assert chat.session.status().window == 200_000


def test_reports_can_be_repeated():
    """API-10: a repeated report with the provider's response id is taken once."""
    chat = Chat()
    request = chat.say(user("start"))
    request.report_usage(input=100, command="msg_1")
    version = chat.session.status().version
    request.report_usage(input=900, command="msg_1")
    assert chat.session.status().version == version
    assert chat.session.status().usage_tokens == 100


def test_status_of_a_session_that_never_was_used():
    status = foldlog.Engine.open("memory:", summarizer=None).session("new").status()
    assert (status.passes, status.messages, status.tags, status.usage_percent, status.usage_source) == (
        0,
        0,
        0,
        -1,
        "none",
    )
