"""The one permission: what lets a pass rebuild, and what does not."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foldlog
from foldlog.domain import events as ev
from foldlog.domain.passes import permission, situation
from foldlog.domain.passes.given import Outlook
from foldlog.domain.passes.permission import permit
from foldlog.domain.passes.price import price
from support.talk import Chat, assistant, call, events, fingerprint, result, text, use, user, words

QUIET: dict[str, Any] = {
    "primary": True,
    "compaction": True,
    "execute": False,
    "force": False,
    "signals": (),
    "diverged": None,
    "drainable": 0,
    "drainable_behind": 0,
    "usable": 100_000,
    "held": 0,
    "summary_possible": False,
}


def filled(tools: int = 6, tokens: int = 3_000, **options: Any) -> Chat:
    """A chat with ``tools`` old outputs of ``tokens`` tokens each (tags 2 on), and three newer ones nobody drops."""
    chat = Chat(**{"policy": {"protected_tokens": 0}, **options})
    chat.say(user("start"))
    for number in range(tools):
        chat.tool(f"t{number}", words(tokens) + f" {number}")
    for number in range(3):
        chat.tool(f"new{number}", "x")
    return chat


# ------------------------------------------------------------------ the function


@pytest.mark.rule("PERM-2")
@pytest.mark.parametrize(
    ("drainable", "held", "granted"),
    [(0, 5, False), (1, 0, False), (1, 1, False), (1, 2, True), (1_999, 0, False), (2_000, 0, True), (2_000, 2, True)],
)
def test_an_own_pass_needs_two_per_cent_or_a_third_held_pass(drainable: int, held: int, granted: bool):
    found = permit(**{**QUIET, "execute": True, "drainable": drainable, "held": held})
    assert found.granted is granted
    assert found.own is granted


@pytest.mark.rule("PERM-2")
def test_drops_wait_while_a_summary_can_come():
    assert not permit(**{**QUIET, "execute": True, "drainable": 50_000, "held": 9, "summary_possible": True}).granted


@pytest.mark.rule("PERM-7")
@settings(max_examples=50)
@given(st.booleans(), st.booleans(), st.integers(0, 10**6), st.sampled_from([(), ("flush",), ("first_render",)]))
def test_without_compaction_there_is_none(execute: bool, force: bool, drainable: int, signals: tuple[str, ...]):
    given_now = {"execute": execute, "force": force, "drainable": drainable, "signals": signals, "compaction": False}
    assert not permit(**{**QUIET, **given_now}).granted


@pytest.mark.rule("PERM-10", "T53")
def test_every_cause_that_held_is_named():
    found = permit(**{**QUIET, "primary": False, "execute": True, "force": True, "signals": ("model_change", "flush")})
    assert found.signals == ("model_change", "flush", "force", "execute")
    assert found.reach == 0


@pytest.mark.rule("PERM-8")
def test_a_divergence_opens_only_what_lies_behind_it():
    assert permit(**{**QUIET, "diverged": 7, "drainable_behind": 10}).reach == 7
    assert not permit(**{**QUIET, "diverged": 7, "drainable": 10_000}).granted


def found_by(monkeypatch: pytest.MonkeyPatch) -> situation.Situation:
    """Return what a pass finds that pressure alone lets rebuild."""
    passes: list[situation.Situation] = []
    monkeypatch.setattr(permission, "asks", lambda found: passes.append(found) or False)
    chat = filled()
    use(chat.turn(), 140_000)
    chat.session.reduce("2-7")
    assert chat.turn().reasons == ("own_worth",)
    monkeypatch.undo()
    return passes[-1]


@pytest.mark.rule("PERM-2", "PERM-5", "T9", "FOLD-4")
@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize(
    ("why", "vetoed"),
    [("open_rebuild", True), ("published", True), ("flush", False), ("ttl_idle", False), ("force", False)],
)
def test_a_summary_being_made_puts_off_all_but_what_was_asked_for_or_cannot_wait(
    why: str, vetoed: bool, running: bool, monkeypatch: pytest.MonkeyPatch
):
    replace = msgspec.structs.replace
    found = replace(found_by(monkeypatch), running=running, signals=(why,) if why != "force" else ())
    if why == "flush":
        found.state.flush = True
    elif why == "ttl_idle":
        found = replace(found, reasons=(why,))
    elif why == "force":
        found = replace(found, gauge=replace(found.gauge, percent=found.gauge.bands.force))
    allowed = permission.allow(found, Outlook())
    assert (allowed.granted, allowed.signals) == (not (running and vetoed), (why,))


@pytest.mark.rule("THINK-2", "PERM-11")
@pytest.mark.parametrize("why", ["", "published", "open_rebuild", "cache_loss", "flush", "ttl_idle"])
def test_reasoning_puts_off_no_fold_no_flush_and_nothing_that_is_open_or_lost(
    why: str, monkeypatch: pytest.MonkeyPatch
):
    found = found_by(monkeypatch)
    monkeypatch.setattr(permission.reasoning, "holds", lambda *_: True)
    found = msgspec.structs.replace(found, signals=(why,) if why else (), reasons=(why,) if why == "ttl_idle" else ())
    found.state.flush, found.state.reopened = why == "flush", why == "open_rebuild"
    found.state.lost = "said so" if why == "cache_loss" else ""
    allowed = permission.allow(found, Outlook())
    held = why in ("", "published")
    assert allowed.granted is not held
    assert allowed.signals == ((why or "own_worth",) if not held else (why or "own_worth", "thinking_hold"))
    if not why:
        assert permission.allow(found, Outlook(coming=True)).signals == (), "nothing is put off that would not be done"


@pytest.mark.rule("PERM-2")
@pytest.mark.parametrize("coming", ["running", "fresh", "marked", "told", "blocked", ""])
def test_drops_wait_for_a_summary_that_is_made_that_waits_or_that_a_mark_lets_come(
    coming: str, monkeypatch: pytest.MonkeyPatch
):
    """Each of these alone; what is certain is not asked for. Nothing else of the pass changes."""
    found = found_by(monkeypatch)
    if coming == "marked":
        found.state.marked = found.state.passes
    elif coming in ("running", "fresh"):
        found = msgspec.structs.replace(found, **{coming: True})
    certain = coming in ("running", "fresh", "marked")
    assert permission.asks(found) is not certain
    allowed = permission.allow(found, None if certain else Outlook(coming == "told", coming == "blocked"))
    assert allowed.granted is not bool(coming)
    assert allowed.signals == {"": ("own_worth",), "blocked": ("floor_mark",)}.get(coming, ())


# ----------------------------------------------------------------- in the engine


@pytest.mark.rule("PERM-1", "REDUCE-6")
def test_marking_changes_nothing_until_a_pass_is_pressed():
    """CB-08: marks may be made at any fill; they land together when the window is under pressure."""
    chat = filled()
    use(chat.turn(), 40_000)
    served = chat.again().messages_json
    chat.session.reduce("2-7")
    for _ in range(5):
        request = chat.turn()
        use(request, 40_000)
        assert request.level == "defer"
        assert request.messages_json[: len(served)] == served
    use(chat.turn(), 140_000)
    assert chat.turn().level == "soft+"
    assert chat.session.status().dropped == 6


@pytest.mark.rule("PERM-2", "PERM-3")
def test_a_little_is_held_twice_and_lands_the_third_time():
    chat = filled(tools=1, tokens=1_000)
    use(chat.turn(), 140_000)
    chat.session.reduce("2")
    levels = []
    for _ in range(4):
        request = chat.turn()
        use(request, 140_000)
        levels.append((request.level, request.reasons, chat.state.held))
    assert levels == [("defer", (), 1), ("defer", (), 2), ("soft+", ("own_held",), 0), ("defer", (), 0)]


@pytest.mark.rule("PERM-3")
def test_held_passes_survive_a_restart(tmp_path: Any):
    url = f"sqlite:///{tmp_path}/held.db"
    engine = foldlog.Engine.open(url, summarizer=None)
    chat = filled(tools=1, tokens=1_000, engine=engine)
    use(chat.turn(), 140_000)
    chat.session.reduce("2")
    for expected in ("defer", "defer", "soft+"):
        use(chat.turn(), 140_000)
        assert events(chat.session, ev.Pass)[-1].__class__.__name__ == (
            "PassDeferred" if expected == "defer" else "ConversationRebuilt"
        )
        chat.engine.close()
        chat.engine = foldlog.Engine.open(url, summarizer=None)
        chat.reopen()
    chat.engine.close()


@pytest.mark.rule("PERM-3")
def test_a_quiet_pass_between_does_not_reset_the_count_and_an_empty_queue_does():
    chat = filled(tools=2, tokens=1_000)
    use(chat.turn(), 140_000)
    chat.session.reduce("2")
    use(chat.turn(), 140_000)
    assert chat.state.held == 1
    use(chat.turn(), 10_000)
    assert chat.state.held == 2
    chat.turn()
    assert chat.state.held == 2, "a pass below the threshold is no execute pass"
    chat.session.report_cache_loss("gone")
    chat.turn()
    assert chat.state.held == 0


@pytest.mark.rule("PERM-9")
def test_above_the_threshold_with_nothing_to_drop_nothing_is_rebuilt():
    """CB-03, CU-12: being above the line is no permission; the pass says that nothing could go."""
    chat = filled()
    served = chat.turn()
    use(served, 134_200)
    for _ in range(20):
        request = chat.turn()
        use(request, 134_200)
        assert request.level == "defer"
        assert request.messages_json[: len(served.messages_json)] == served.messages_json
        decision = chat.state and events(chat.session, ev.PassDeferred)[-1].decision
        assert (decision.schedule, decision.drainable) == ("pressure", 0)


@pytest.mark.rule("PERM-2", "PERM-9", "T24")
def test_hovering_at_the_threshold_rebuilds_at_most_every_third_pass():
    """CB-01: small drops on every turn of a long pressure period."""
    chat = filled(tools=0, policy={"protected_tokens": 0, "execute_threshold_percentage": 50})
    levels = []
    for number in range(24):
        request = chat.tool(f"h{number}", words(300) + f" {number}")
        use(request, 104_000)
        levels.append(request.level)
        if number > 4:
            chat.session.reduce(str(number))
    rebuilt = [index for index, level in enumerate(levels) if level == "soft+"]
    assert rebuilt
    assert min(b - a for a, b in pairwise(rebuilt)) >= 3


@pytest.mark.rule("PERM-9")
def test_a_rebuild_that_would_free_nothing_is_not_made():
    chat = filled(tools=3, tokens=1)
    use(chat.turn(), 180_000)
    chat.session.reduce("2-4")
    assert chat.turn().level == "defer"
    assert sorted(chat.state.queue) == [2, 3, 4]


@pytest.mark.rule("PERM-4")
def test_the_force_band_rebuilds_the_conversation_and_not_the_head():
    chat = filled(tools=1, tokens=1_000)
    request = chat.turn()
    use(request, 170_000)
    chat.session.reduce("2")
    rebuilt = chat.turn()
    assert (rebuilt.level, rebuilt.reasons) == ("soft+", ("force",))
    assert rebuilt.messages_json[:2] == request.messages_json[:2]


@pytest.mark.rule("PERM-5")
@pytest.mark.parametrize("protected", [0, 50_000])
def test_a_flush_lands_all_on_the_next_pass_protected_or_not(protected: int):
    chat = filled(policy={"protected_tokens": protected})
    use(chat.turn(), 1_000)
    chat.session.reduce("2-9")
    chat.session.flush()
    assert chat.session.status().flush_pending
    request = chat.turn()
    assert (request.level, request.reasons) == ("soft+", ("flush",))
    assert (chat.session.status().dropped, chat.session.status().queued) == (8, 0)
    assert not chat.session.status().flush_pending
    assert chat.turn().level == "defer"


@pytest.mark.rule("PERM-5")
def test_a_flush_with_nothing_queued_is_spent():
    chat = filled()
    before = chat.turn().messages_json
    chat.session.flush()
    request = chat.turn()
    assert (request.level, request.reasons) == ("defer", ("flush",))
    assert request.messages_json[: len(before)] == before
    assert not chat.session.status().flush_pending


@pytest.mark.rule("PERM-6", "T23")
def test_a_subagent_rebuilds_on_every_execute_pass():
    chat = filled(mode="subagent", tools=4, tokens=200)
    for tag in (2, 3, 4, 5):
        use(chat.turn(), 140_000)
        chat.session.reduce(str(tag))
        request = chat.turn()
        assert (request.level, request.reasons) == ("soft+", ("execute",))
    use(request, 140_000)
    assert chat.turn().level == "defer"


@pytest.mark.rule("PERM-12")
@pytest.mark.parametrize("options", [{}, {"mode": "subagent"}])
def test_a_lost_cache_lands_what_is_held_once(options: dict[str, Any]):
    """A subagent has no head that would be rendered again for it: what it marked leaves all the same."""
    chat = filled(**options)
    chat.session.reduce("2-4")
    use(chat.turn(), 1_000)
    chat.session.report_cache_loss("said so")
    request = chat.turn()
    assert (request.level, request.reasons) == ("soft+" if options else "hard", ("cache_loss",))
    assert chat.session.status().dropped == 3
    chat.session.reduce("5-7")
    assert chat.turn().level == "defer"


@pytest.mark.rule("PERM-7")
def test_compaction_off_leaves_everything_to_the_host():
    chat = filled(policy={"compaction": False})
    plain = chat.turn()
    use(plain, 199_000)
    chat.session.reduce("2-7")
    chat.session.flush()
    chat.session.report_cache_loss("x")
    request = chat.turn(wait=4_000)
    assert request.level == "defer"
    assert chat.session.status().dropped == 0
    assert request.system is None
    assert [msgspec.json.decode(raw) for raw in request.messages_json] == chat.messages


@pytest.mark.rule("PERM-7")
@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("passes", [1, 3])
def test_what_was_marked_or_held_is_void_where_compaction_is_switched_off(flush: bool, passes: int):
    chat = filled(policy={"protected_tokens": 0})
    use(chat.turn(), 1_000)
    chat.session.reduce("2-7")
    if flush:
        chat.session.flush()
    chat.session.report_cache_loss("x")
    chat.again().report_failure("not_processed") if not flush else None
    chat.session.reduce("8") if not flush else None
    chat.reopen(policy={"compaction": False})
    for _ in range(passes):
        chat.turn()
    state = chat.state
    assert (state.queue, state.flush, state.lost, state.reopened) == ({}, False, "", False)
    assert (state.reduced, state.held) == (False, 0), "nothing is marked any more, so the agent may be told again"
    before = chat.session.status().dropped
    chat.reopen(policy={"protected_tokens": 0})
    chat.turn()
    chat.turn()
    assert chat.session.status().dropped == before


@pytest.mark.rule("PERM-7", "OVER-12")
@pytest.mark.parametrize("kind", ["overflow", "pictures", "reasoning"])
def test_what_a_provider_refused_is_the_hosts_matter_where_compaction_is_switched_off(kind: str):
    chat = filled(policy={"protected_tokens": 0})
    request = chat.turn()
    if kind == "overflow":
        request.report_failure("overflow", limit=100_000)
    else:
        words = {"pictures": "too many images", "reasoning": "thinking block is bound to a different conversation"}
        request.report_error(400, words[kind])
    assert chat.state.overflow is not None or chat.state.bulky or chat.state.unbound
    chat.reopen(policy={"compaction": False})
    chat.turn()
    assert (chat.state.overflow, chat.state.bulky, chat.state.unbound) == (None, False, 0)


@pytest.mark.rule("PERM-8")
def test_drops_ride_a_divergence_the_host_made():
    chat = filled(tools=4, tokens=500)
    use(chat.turn(), 1_000)
    chat.session.reduce("2-5")
    served = chat.again().messages_json
    changed = user([result("t1", "the host cut this")])
    request = chat.advance(revised=[(5, changed)])
    assert request.level == "soft+"
    assert request.reasons == ("divergence", "host_revised")
    # messages 1 to 4 lie before it: the first output keeps its bytes and stays queued
    assert request.messages_json[:6] == served[:6]
    assert sorted(chat.state.queue) == [2]
    assert [tag.status for tag in chat.state.tags[1:5]] == ["active", "active", "dropped", "dropped"]


@pytest.mark.rule("PERM-8")
def test_a_divergence_with_nothing_behind_it_is_a_defer():
    chat = filled(tools=2, tokens=500)
    chat.session.reduce("2")
    request = chat.advance(revised=[(5, user([result("t1", "the host cut this")]))])
    assert (request.level, request.reasons) == ("defer", ("host_revised",))
    assert sorted(chat.state.queue) == [2]


@pytest.mark.rule("PERM-10")
def test_the_decision_is_stored_with_its_price():
    chat = filled()
    use(chat.turn(), 140_000)
    chat.session.reduce("2-7")
    chat.turn()
    decision = chat.last().decision
    assert (decision.schedule, decision.percent, decision.source) == ("pressure", 7_000, "provider")
    assert decision.permission
    assert decision.price is not None
    assert decision.price.dropped == decision.drainable > 17_000
    assert decision.price.breakeven > 0


@pytest.mark.rule("PERM-10")
@pytest.mark.parametrize(
    ("kind", "ttl", "dropped", "breakeven"),
    [
        ("anthropic", 60_000, 1_000, 11_500),
        ("anthropic", 300_000, 1_000, 11_500),
        ("anthropic", 300_001, 1_000, 19_000),
        ("anthropic", 3_600_000, 3_000, 6_333),
        ("google", 300_000, 1_000, 9_000),
        ("other", 3_600_000, 1_000, 9_000),
        ("other", 300_000, 0, -1),
        ("anthropic", 300_000, -5, -1),
    ],
)
def test_the_price_is_what_is_written_again_over_what_is_read_less(kind: Any, ttl: int, dropped: int, breakeven: int):
    found = price(kind, ttl, dropped, 10_000)
    assert (found.dropped, found.kept, found.breakeven) == (max(dropped, 0), 10_000, breakeven)


# ------------------------------------------------------------------------ outcomes


@pytest.mark.rule("PERM-11")
@pytest.mark.parametrize("times", [1, 2, 4])
@pytest.mark.parametrize("end", ["not_processed", "aborted"])
def test_it_stays_open_too_where_the_pass_it_was_open_for_had_nothing_to_add(times: int, end: str):
    """Each that adds nothing is a quiet pass; not processed either, the next may still add."""
    chat = filled(tools=4, tokens=3_000)
    use(chat.turn(), 140_000)
    chat.session.reduce("2-3")
    request = chat.turn()
    request.report_failure("not_processed")
    for number in range(times):
        request = chat.again() if number % 2 else chat.turn()
        assert (request.level, request.reasons) == ("defer", ("open_rebuild",))
        request.report_failure(end if number == times - 1 else "not_processed")
    chat.session.reduce("4")
    request = chat.turn()
    assert request.reasons == (("open_rebuild",) if end == "not_processed" else ())
    assert request.level == ("soft+" if end == "not_processed" else "defer")


@pytest.mark.rule("PERM-11")
def test_a_rebuild_that_was_not_processed_stays_open():
    chat = filled(tools=4, tokens=3_000)
    use(chat.turn(), 140_000)
    chat.session.reduce("2-3")
    request = chat.turn()
    assert request.level == "soft+"
    request.report_failure("not_processed")
    chat.session.reduce("4")
    second = chat.again()
    assert (second.level, second.reasons) == ("soft+", ("open_rebuild",))
    assert [tag.status for tag in chat.state.tags[1:4]] == ["dropped"] * 3
    use(second, 100)
    chat.session.reduce("5")
    assert chat.turn().level == "defer"


@pytest.mark.rule("PERM-11")
def test_a_flush_counts_as_served_only_when_it_was_sent():
    chat = filled(tools=2, tokens=1_000)
    chat.session.flush()
    request = chat.turn()
    request.report_failure("not_processed")
    assert chat.session.status().flush_pending
    chat.session.reduce("2")
    again = chat.again()
    assert again.level == "soft+"
    assert "flush" in again.reasons


@pytest.mark.rule("PERM-11")
@pytest.mark.parametrize("kind", ["aborted", "broken", "unknown"])
def test_other_failures_reopen_nothing(kind: str):
    chat = filled(tools=4, tokens=3_000)
    use(chat.turn(), 140_000)
    chat.session.reduce("2-4")
    request = chat.turn()
    assert request.level == "soft+"
    request.report_failure(kind)
    chat.session.reduce("5")
    assert chat.turn().level == "defer"


@pytest.mark.rule("PERM-11")
@pytest.mark.parametrize("figures", [{"input": 9_000}, {}])
@pytest.mark.parametrize("first", ["answered", "not_processed"])
def test_a_copy_of_a_request_that_was_answered_reopens_nothing(figures: dict[str, int], first: str):
    """A client that tries again while its first try still runs: one is answered, the other finds the provider full."""
    chat = filled(tools=4, tokens=3_000)
    use(chat.turn(), 140_000)
    chat.session.reduce("2-3")
    chat.session.flush()
    request = chat.turn()
    assert request.level == "soft+"
    ends = [lambda: request.report_usage(**figures), lambda: request.report_failure("not_processed")]
    for end in ends if first == "answered" else ends[::-1]:
        end()
    chat.session.reduce("5")
    assert (chat.state.reopened, chat.state.flush) == (False, first != "answered")
    if first == "answered":
        assert chat.turn().level == "defer"


@pytest.mark.rule("PERM-11")
def test_a_rate_limit_is_not_processed_and_never_an_overflow():
    """OV-06: nothing is learnt and nothing refused."""
    chat = filled()
    chat.turn().report_failure("not_processed", detail="429 Too many tokens, please wait")
    assert chat.state.overflow is None
    assert chat.state.learnt is None
    assert chat.turn().level == "defer"


@pytest.mark.rule("PERM-12")
def test_a_lost_cache_lands_held_work_once():
    chat = filled(tools=1, tokens=100)
    chat.session.reduce("2")
    assert chat.turn().level == "defer"
    chat.session.report_cache_loss("provider said so")
    request = chat.turn()
    assert (request.level, request.reasons) == ("hard", ("cache_loss",))
    assert chat.session.status().dropped == 1
    assert chat.turn().level == "defer"


@pytest.mark.rule("PERM-1")
def test_a_failed_report_changes_nothing():
    chat = filled()
    request = chat.turn()
    before = fingerprint(chat.session)
    with pytest.raises(foldlog.InputError):
        request.report_failure("exploded")
    with pytest.raises(foldlog.InputError):
        request.report_usage(input=-5)
    assert fingerprint(chat.session) == before


def test_parallel_calls_land_and_stay_paired():
    """DROP-2 with two calls in one message: one goes, the other stays paired."""
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"))
    long = "x" * 3_000
    chat.say(
        assistant([text("both"), call("a", c=long), call("b", c=long)]),
        user([result("a", words(9_000)), result("b", "ok")]),
    )
    for number in range(3):
        chat.tool(f"n{number}", "x")
    use(chat.turn(), 180_000)
    chat.session.reduce("3")
    request = chat.turn()
    sent = b"".join(request.messages_json).decode()
    assert request.level == "soft+"
    assert '"a"' not in sent
    assert sent.count('"b"') == 2
