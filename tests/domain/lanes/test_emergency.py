"""The emergency drop: by tiers, once a stay in the force band, in the provider's tokens."""

from __future__ import annotations

from typing import Any

import pytest

from foldlog.domain.passes.lanes.emergency import tier
from support.talk import Chat, use, user, words

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


@pytest.mark.rule("EMERG-3")
@pytest.mark.parametrize("missing", [0, None])
def test_unknown_usage_plans_nothing(missing: int | None):
    host = chat()
    request = fill(host, 20)
    request.report_usage(input=missing)
    assert host.turn().level == "defer"


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
