"""The emergency drop: by tiers, once a stay in the force band, in the provider's tokens."""

from __future__ import annotations

from typing import Any

import pytest

from foldlog.domain.passes.lanes.emergency import tier
from support.past import summarise
from support.talk import Chat, assistant, use, user, words

BARE = {"protected_tokens": 0}


def chat(**options: Any) -> Chat:
    made = Chat(lanes=True, **{"policy": BARE, **options})
    made.say(user("start"))
    return made


def fill(host: Chat, count: int, size: int = 900, name: str = "Bash", first: int = 0) -> Any:
    request = None
    for number in range(first, first + count):
        request = host.tool(f"t{number}", words(size) + str(number), name=name, n=number)
    return request


def dropped(host: Chat) -> list[int]:
    return [number for number, tag in enumerate(host.state.tags, 1) if tag.status == "dropped"]


def lanes(host: Chat) -> dict[str, Any]:
    decision = host.last().decision
    return {did.lane: did for did in decision.lanes} if decision else {}


@pytest.mark.rule("EMERG-1")
@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("Read", 1),
        ("mcp_read", 1),
        ("todowrite", 1),
        ("task", 1),
        ("read_file", 1),
        ("update_plan", 1),
        ("Agent", 1),
        ("Edit", 2),
        ("MultiEdit", 2),
        ("NotebookEdit", 2),
        ("list_dir", 2),
        ("GREP", 2),
        ("apply_patch", 2),
        ("Bash", 3),
        ("x", 3),
    ],
)
def test_tools_have_tiers(name: str, level: int):
    assert tier(name) == level


@pytest.mark.rule("EMERG-1", "T20")
def test_tier_three_leaves_first_oldest_first_and_never_what_people_wrote():
    host = chat()
    host.say(user(words(5_000)))
    fill(host, 10, name="Read")
    request = fill(host, 160, 900, first=10)
    use(request, 172_000)
    host.turn()
    gone = lanes(host)["emergency"]
    assert gone.landed
    assert {host.state.tags[number - 1].kind for number in dropped(host)} == {"tool"}
    assert dropped(host) == list(range(13, 13 + len(dropped(host)))), "tier 1 stands before, and stays while 3 lasts"


@pytest.mark.rule("EMERG-2", "T19")
def test_one_batch_a_stay_in_the_force_band():
    host = chat()
    request = fill(host, 40)
    use(request, 176_000)
    host.turn()
    assert "emergency" in lanes(host)
    levels = []
    for number in range(40, 50):
        request = host.tool(f"t{number}", words(900), n=number)
        use(request, 176_000)
        levels.append(request.level)
    assert set(levels) == {"defer"}


@pytest.mark.rule("EMERG-2")
@pytest.mark.parametrize("threshold", [65, 80, 82, 90])
def test_it_is_armed_again_five_points_under_the_band(threshold: int):
    host = chat(policy={**BARE, "execute_threshold_percentage": threshold})
    request = fill(host, 40)
    use(request, 186_000)
    request = host.turn()
    assert lanes(host)["emergency"].landed
    use(request, 150_000)
    request = fill(host, 20, first=40)
    use(request, 187_000)
    host.turn()
    assert lanes(host)["emergency"].landed


@pytest.mark.rule("EMERG-2")
@pytest.mark.parametrize(("between", "again"), [(169_000, False), (161_000, False), (159_000, True)])
def test_what_ends_a_stay_is_five_points_under_the_band(between: int, again: bool):
    host = chat()
    use(fill(host, 40), 176_000)
    use(host.turn(), between)
    use(fill(host, 20, first=40), 177_000)
    host.turn()
    assert ("emergency" in lanes(host)) == again


@pytest.mark.rule("EMERG-1", "EMERG-4")
@pytest.mark.parametrize(("reads", "edits"), [(10, 10), (16, 8), (12, 14)])
def test_the_second_tier_leaves_before_the_first(reads: int, edits: int):
    host = chat(policy={**BARE, "execute_threshold_percentage": 90})
    fill(host, reads, name="Read")
    fill(host, edits, name="Edit", first=reads)
    use(fill(host, 14, first=reads + edits), 184_500)
    host.turn()
    seen = {number - 2 for number in dropped(host)}
    kept = -(-edits // 5)
    assert seen & set(range(reads, reads + edits)) == set(range(reads, reads + edits - kept)), "all but the reserve"
    first = sorted(number for number in seen if number < reads)
    assert first == list(range(len(first)))
    assert 0 < len(first) < reads - -(-reads // 5)


@pytest.mark.rule("EMERG-3", "T20")
@pytest.mark.parametrize("talk", [10, 2_000, 4_000])
@pytest.mark.parametrize("used", [172_000, 186_000])
@pytest.mark.parametrize("threshold", [40, 65])
def test_what_may_stay_filled_is_thirty_per_cent_above_what_no_drop_can_reach(talk: int, used: int, threshold: int):
    host = chat(policy={**BARE, "execute_threshold_percentage": threshold})
    host.say(assistant("ok"), user(words(talk)))
    use(fill(host, 60), used)
    host.turn()
    did, scale = lanes(host)["emergency"], host.state.ratios[""]
    mass = sum(tag.tokens + (host.state.node(tag.m - 1).message.parts[0].tokens if tag.kind == "tool" else 0)
               for tag in host.state.tags[:-1])  # fmt: skip
    fixed = max(used - mass * scale // 1_000, 0)
    aim = fixed + (200_000 * threshold // 100 - fixed) * 30 // 100
    left = used - did.tokens * scale // 1_000
    assert aim - 960 * scale // 1_000 <= left <= aim + 100


@pytest.mark.rule("EMERG-2", "LAW-1")
def test_a_restart_does_not_arm_it():
    host = chat()
    request = fill(host, 40)
    use(request, 176_000)
    request = host.turn()
    use(request, 176_000)
    host.session.core._hot = None
    assert host.turn().level == "defer"


@pytest.mark.rule("EMERG-3", "LANE-3")
def test_below_two_thousand_tokens_it_is_not_worth_a_rebuild():
    host = chat()
    host.say(user(words(60_000)))
    request = fill(host, 4, 100)
    use(request, 171_000)
    assert host.turn().level == "defer"


@pytest.mark.rule("EMERG-3", "WINDOW-12")
@pytest.mark.parametrize("missing", [0, None])
@pytest.mark.parametrize(("count", "level"), [(75, "defer"), (90, "soft+")])
def test_usage_nobody_reports_is_estimated(missing: int | None, count: int, level: str):
    host = chat(context_limit=100_000)
    request = fill(host, 10)
    for number in range(10, count):
        request.report_usage(input=missing)
        request = host.tool(f"t{number}", words(960) + str(number), n=number)
        if request.level != "defer":
            break
    assert request.level == level
    if level == "soft+":
        assert (host.last().decision.source, lanes(host)["emergency"].landed) == ("estimated", True)
        assert 8_500 <= host.last().decision.percent < 8_700


@pytest.mark.rule("EMERG-3", "WINDOW-3", "PROP-5")
@pytest.mark.parametrize("limit", [None, 0])
@pytest.mark.parametrize("used", [112_000, 125_000, 400_000])
def test_an_assumed_window_plans_nothing(limit: int | None, used: int):
    """Nobody knows how much is too much: protection stays, and no tier leaves."""
    host = chat(policy={"protected_tokens": 100_000}, context_limit=limit)
    use(fill(host, 12, 2_000), used)
    host.session.reduce("2-4")
    host.turn()
    assert dropped(host) == []
    host = chat(context_limit=limit)
    use(fill(host, 12, 2_000), used)
    host.turn()
    assert "emergency" not in lanes(host)
    assert dropped(host) == []


@pytest.mark.rule("EMERG-3", "REFUSE-3")
def test_a_refusal_of_the_provider_says_how_much_is_too_much():
    host = chat(context_limit=None)
    fill(host, 20, 2_000).report_failure("overflow")
    assert host.turn().level == "soft+"
    assert lanes(host)["emergency"].landed


@pytest.mark.rule("EMERG-7")
@pytest.mark.parametrize(("limit", "level"), [(100_000, 8_500), (104_000, 8_500), (92_000, 9_500)])
def test_another_models_rebuild_does_the_emergency_work_with_it(limit: int, level: int):
    """Nothing is known of its usage but what was counted here: one rebuild is paid for, not two."""
    host = chat(model="claude-sonnet-4-5")
    use(fill(host, 100), 60_000)
    host.reopen(model="claude-other", context_limit=limit)
    request = host.turn()
    decision = host.last().decision
    assert (request.level, decision.source, decision.schedule) == ("hard", "estimated", "defer")
    assert decision.percent >= level
    assert lanes(host)["emergency"].landed
    assert request.usage_estimate < limit * 65 // 100
    for _ in range(3):
        use(request, limit * 60 // 100)
        request = host.turn()
        assert request.level == "defer"


@pytest.mark.rule("EMERG-7", "PERM-1", "FOLD-6")
def test_a_model_that_comes_to_be_known_is_no_reason_for_one():
    """It folds nothing, so there is no rebuild the estimate could say anything of."""
    host = chat(context_limit=30_000)
    for number in range(25):
        use(host.tool(f"t{number}", words(900) + str(number), n=number), 1_000)
    host.reopen(model="claude-other", context_limit=24_000)
    assert host.turn().level == "defer"
    assert host.last().decision is None


@pytest.mark.rule("EMERG-4")
def test_the_newest_fifth_of_the_kept_tiers_stays():
    host = chat(policy={**BARE, "protected_tools": {"todowrite": 0}})
    request = fill(host, 10, 2_000, name="Read")
    use(request, 178_000)
    host.turn()
    gone = len(dropped(host))
    assert gone <= 8, "two of ten of tier 1 are kept back"
    assert gone > 0


@pytest.mark.rule("EMERG-4")
def test_a_single_tool_of_a_kept_tier_stays():
    host = chat()
    fill(host, 1, 9_000, name="Read")
    request = fill(host, 3, 10, first=1)
    use(request, 178_000)
    host.turn()
    assert dropped(host) == []


@pytest.mark.rule("EMERG-5")
def test_at_95_per_cent_protection_and_reserve_are_given_up():
    host = chat(policy={"protected_tokens": 100_000})
    request = fill(host, 12, 2_000, name="Read")
    use(request, 176_000)
    host.turn()
    assert dropped(host) == [], "all of it is protected"
    host = chat(policy={"protected_tokens": 100_000})
    request = fill(host, 12, 2_000, name="Read")
    use(request, 194_000)
    host.turn()
    assert len(dropped(host)) >= 10


@pytest.mark.rule("EMERG-5", "DROP-1", "T28")
@pytest.mark.parametrize(("used", "modes"), [(178_000, {"skeleton_real"}), (195_000, {"full"})])
def test_at_95_per_cent_small_new_calls_leave_whole(used: int, modes: set[str]):
    host = chat()
    use(fill(host, 24, 2_000), used)
    host.turn()
    newest = [host.state.tags[number - 1] for number in host.state.tools_order[-20:]]
    assert {tag.mode for tag in newest if tag.status == "dropped"} == modes


@pytest.mark.rule("EMERG-5", "DROP-3")
def test_at_95_per_cent_the_result_the_model_is_to_answer_stays_a_skeleton():
    host = chat()
    request = fill(host, 24, 2_000)
    use(request, 196_000)
    host.tool("newest", words(2_000))
    assert host.state.tags[host.state.tools_order[-1] - 1].mode in ("", "skeleton_real")
    assert host.state.tags[host.state.tools_order[0] - 1].mode == "full"


@pytest.mark.rule("EMERG-1")
@pytest.mark.parametrize("said", [(), (user("Go on where you were."),)], ids=["last", "words behind it"])
def test_what_the_model_has_not_read_yet_leaves_last(said: tuple[Any, ...]):
    """Whatever its tier: the request that held it was refused, and without it the model would do the same once more."""
    host = chat()
    use(fill(host, 24, 3_000, name="Read"), 100_000)
    host.tool("newest", words(3_000)).report_failure("overflow", limit=99_000, used=104_000)
    host.say(*said)
    order = host.state.tools_order
    assert len(dropped(host)) >= 10
    assert dropped(host)[0] == order[0]
    assert order[-1] not in dropped(host)


@pytest.mark.rule("EMERG-1")
@pytest.mark.parametrize("failed", [False, True])
def test_what_the_model_has_not_read_yet_leaves_no_doubt_what_it_did(failed: bool):
    """Its call stays although words stand behind it: the model sees what it asked for, and can ask for it again.

    ``failed``: the host keeps the answer that was none.
    """
    host = chat()
    use(fill(host, 3, 3_000, name="Read"), 100_000)
    request = host.tool("newest", words(60_000), a="x" * 5_000)
    request.report_failure("overflow", limit=99_000, used=110_000)
    request = host.say(*([assistant([])] if failed else []), user("Go on where you were."))
    tags = [host.state.tags[number - 1] for number in host.state.tools_order]
    assert [tag.mode for tag in tags] == ["full"] * 3 + ["skeleton_real"]
    assert b"[dropped \xc2\xa75\xc2\xa7]" in b"".join(request.messages_json)


@pytest.mark.rule("EMERG-3", "EMERG-1")
@pytest.mark.parametrize(("last", "left"), [(24, 0), (20, 0), (10, 3)])
def test_what_a_summary_of_the_same_pass_covers_is_gone_already(last: int, left: int):
    """The model keeps what it has not read where the summary alone makes room; else the emergency does the rest."""
    host = chat(policy={"protected_tokens": 0})
    fill(host, 24, 3_000, name="Bash")
    host.tool("newest", words(3_000)).report_failure("overflow", limit=80_000, used=84_000)
    summarise(host, 2 * last + 1)
    request = host.again()
    assert request.level == "soft"
    order = host.state.tools_order
    assert order[-1] not in dropped(host)
    assert len(dropped(host)) >= left
    assert bool(dropped(host)) == bool(left)
    assert host.state.tail < 40_000


@pytest.mark.rule("EMERG-6", "T23")
def test_a_subagent_has_it_too():
    host = chat(mode="subagent")
    request = fill(host, 40)
    use(request, 176_000)
    host.turn()
    assert lanes(host)["emergency"].landed


@pytest.mark.rule("LANE-1", "T53")
def test_what_lanes_would_do_is_told_where_drops_are_held():
    host = chat()
    request = fill(host, 6)
    host.session.reduce("2")
    use(request, 140_000)
    host.turn()
    decision = host.last().decision
    assert decision.held
    (did,) = decision.lanes
    assert (did.lane, did.landed, did.items, did.tags) == ("queued", False, 1, ((2, 2),))
    assert host.state.tags[1].status == "active"
