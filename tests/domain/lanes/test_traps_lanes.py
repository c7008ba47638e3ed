"""Traps of lanes, reasoning and pictures: each was a real defect of the reference once (transform.md 9 and 10)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from foldlog.domain import events as ev
from foldlog.domain.passes.lanes.reasoning import HEAVY, HOLDS
from support.talk import Chat, assistant, call, events, result, text, use, user, words

BARE = {"protected_tokens": 0}
BOUND = "claude-sonnet-5-5"
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo" + "A" * 400}}


def chat(**options: Any) -> Chat:
    made = Chat(lanes=True, **{**options, "policy": {**BARE, **options.get("policy", {})}})
    made.say(user("start"))
    return made


def fill(host: Chat, count: int, size: int = 900, first: int = 0, name: str = "Bash") -> Any:
    request = None
    for number in range(first, first + count):
        request = host.tool(f"t{number}", words(size) + str(number), name=name, n=number)
    return request


def lost(host: Chat) -> Any:
    host.session.report_cache_loss("said so")
    return host.turn()


def dropped(host: Chat) -> list[int]:
    return [number for number, tag in enumerate(host.state.tags, 1) if tag.status == "dropped"]


def wire(request: Any) -> str:
    return b"\n".join(request.messages_json).decode()


def did(host: Chat) -> dict[str, ev.Did]:
    return {one.lane: one for one in host.last().decision.lanes}


@pytest.mark.rule("ACC-7", "EMERG-3", "T19")
def test_the_emergency_counts_what_the_queue_has_freed_and_only_what_really_goes():
    plain, host = chat(), chat()
    for one in (plain, host):
        request = fill(one, 60)
        if one is host:
            one.session.reduce("2-21")
        use(request, 178_000)
        one.turn()
    alone, behind = did(plain)["emergency"], did(host)["emergency"]
    queued = did(host)["queued"]
    assert queued.items == 20
    assert behind.items < alone.items, "what is queued leaves first"
    assert abs(queued.tokens + behind.tokens - alone.tokens) <= 1_000, "and counts: both end at the same aim"
    tokens = sum(host.state.tags[number - 1].tokens for number in dropped(host))
    assert tokens * 0.9 <= queued.tokens + behind.tokens <= tokens + 60 * len(dropped(host))
    before = dropped(host)
    use(host.again(), 178_000)
    request = host.turn()
    assert dropped(host) == before, "the same figure again is not planned again"
    left = next(n for n, tag in enumerate(host.state.tags, 1) if tag.kind == "tool" and tag.status == "active")
    use(request, 178_000)
    host.session.reduce(str(left))
    assert host.turn().level == "soft+"
    assert "emergency" not in did(host), "nor where something else pays for the rebuild"


@pytest.mark.rule("ACC-7", "T19")
def test_what_an_emergency_left_can_go_in_the_next_one_however_low_its_number():
    """The last batch is no watermark: only what left is behind it."""
    host = chat(policy={"protected_tools": {"Bash": 5}})
    for number in range(12):
        host.tool(f"a{number}", words(900) + str(number), name="Bash" if number % 2 else "Read", n=number)
    request = fill(host, 60, first=12, name="fetch")
    use(request, 171_000)
    request = host.turn()
    low = [number for number in range(2, 14) if host.state.tags[number - 1].status == "active"]
    assert low
    assert max(dropped(host)) > min(low), "higher numbers left, lower ones stayed"
    use(request, 100_000)
    request = fill(host, 3, first=80, name="fetch")
    use(request, 194_000)
    request = host.turn()
    assert set(low) & set(dropped(host))


@pytest.mark.rule("ACC-8", "EMERG-4", "EMERG-1")
@pytest.mark.parametrize(("name", "count", "left"), [("Read", 1, 1), ("Edit", 2, 1), ("Read", 4, 1), ("Bash", 3, 0)])
def test_few_of_a_kept_tier_are_kept_back_and_none_of_the_last(name: str, count: int, left: int):
    host = chat()
    host.say(assistant("ok"), user(words(60_000)))
    fill(host, count, 3_000, name=name)
    request = fill(host, 3, 10, first=10, name="todowrite")
    use(request, 189_000)
    host.turn()
    here = [tag for tag in host.state.tags if tag.kind == "tool" and tag.tokens > 2_000]
    assert sum(tag.status == "active" for tag in here) == left
    assert {host.state.tags[number - 1].kind for number in dropped(host)} <= {"tool"}
    assert host.state.tags[2].status == "active", "what a person wrote stays, however much of the floor it is"


@pytest.mark.rule("ACC-9", "AGE-1", "T48")
def test_age_alone_is_no_permission():
    host = chat()
    fill(host, 8)
    lost(host)
    fill(host, 8, first=8)
    for _ in range(10):
        assert host.turn().level == "defer"
    assert dropped(host) == []


@pytest.mark.rule("ACC-11", "T3")
def test_a_picture_that_left_stays_away_where_nothing_else_ever_left():
    host = chat()
    host.say(assistant("ok"), user([text("look"), PICTURE]))
    host.turn()
    number = next(n for n, tag in enumerate(host.state.tags, 1) if tag.kind == "file")
    host.session.reduce(str(number))
    host.session.flush()
    request = host.turn()
    assert dropped(host) == [number]
    for fresh in range(4):
        host.session.core._hot = None if fresh % 2 else host.session.core._hot
        after = host.turn()
        assert "iVBORw0KGgo" not in wire(after)
        assert after.messages_json[: len(request.messages_json)] == request.messages_json
        request = after


def thought(host: Chat, number: int, request: Any, size: int = HEAVY) -> Any:
    block = {"type": "thinking", "thinking": f"{number} " + "think " * size, "signature": "c2ln"}
    return host.say(assistant([block, call(f"h{number}", n=number)]), user([result(f"h{number}", words(1_500))]))


@pytest.mark.rule("T44", "ACC-18", "THINK-2")
def test_what_is_put_off_for_reasoning_spends_nothing():
    """Held passes only grow, the queue and its cause stay; once they are over, or the model is another, all lands."""

    def held(passes: int = HOLDS) -> tuple[Chat, Any, list[Any]]:
        host = chat(model=BOUND)
        request = None
        for number in range(6):
            request = thought(host, number, request)
        host.session.reduce("2-4")
        requests = []
        for number in range(6, 6 + passes):
            use(request, 145_000)
            request = thought(host, number, request)
            requests.append(request)
        return host, request, requests

    host, request, requests = held()
    assert {one.level for one in requests} == {"defer"}
    assert all("thinking_hold" in one.reasons for one in requests)
    assert all(b.messages_json[: len(a.messages_json)] == a.messages_json for a, b in pairwise(requests))
    assert list(host.state.queue) == [2, 3, 4]
    again = host.again(wait=0)
    assert (again.pass_number, again.messages_json) == (request.pass_number, request.messages_json)
    use(request, 145_000)
    host.session.core._hot = None
    assert thought(host, 20, request).level == "soft+", "its time is over, in a new process too"
    assert not host.state.queue

    host, _, _ = held(1)
    host.reopen(model="gpt-5")
    released = host.again()
    assert released.level == "hard"
    assert not host.state.queue, "without a word of the user"


@pytest.mark.rule("T45", "DROP-9", "WINDOW-12")
def test_protection_and_calibration_move_with_rebuilds_only():
    host = chat(policy={"protected_tokens": 4_000})
    request = fill(host, 6)
    adopted = host.state.adopted
    for step in range(5):
        host.reopen(policy={"protected_tokens": 4_000 + 1_000 * step})
        use(request, 30_000 + 7_000 * step)
        request = host.turn()
        assert request.level == "defer"
        assert host.state.adopted == adopted
    lost(host)
    assert host.state.adopted.floor == 8_000
    assert host.state.adopted.ratio != adopted.ratio
    request = fill(host, 6, first=20)
    tools = [n for n, tag in enumerate(host.state.tags, 1) if tag.kind == "tool" and tag.status == "active"]
    host.session.reduce(str(tools[-5]))
    host.reopen(policy={"protected_tokens": 0})
    for _ in range(4):
        use(request, 140_000)
        request = host.turn()
        assert host.last().decision.drainable == 0, "protected, as the last rebuild adopted it"


@pytest.mark.rule("T2", "T3", "T13", "T20", "LANE-2")
def test_every_lane_that_could_act_waits_for_a_permission_and_then_acts_at_once():
    """All that has become old, twofold, injected or spent stays through any number of deferred passes."""
    host = chat(policy={"caveman_text_compression": True, "smart_drops": True})
    injected = text("see <system-reminder>x</system-reminder> " + "really " * 300)
    host.say(assistant("ok " * 300), user([injected, PICTURE]))
    for number in range(26):
        host.tool(f"t{number}", words(400) + str(number % 5), name="Read", path=f"/f{number % 5}")
    for number in range(6):
        host.tool(f"r{number}", "Queued.", name="ctx_reduce", drop=str(number + 1))
    lost(host)
    request = fill(host, 25, 10, first=100)
    for _ in range(10):
        after = host.turn()
        assert after.level == "defer"
        assert after.messages_json[: len(request.messages_json)] == request.messages_json
        request = after
    lost(host)
    folds = events(host.session, ev.BaselineFolded)
    assert {"injected", "terse", "age"} <= set(did(host))
    assert {"dedup"} <= {one.lane for fold in folds for one in fold.decision.lanes if one.landed}
