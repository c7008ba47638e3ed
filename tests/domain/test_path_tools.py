"""What counts as the newest tools is what the request shows: no side request's, no left path's (IDENT-3, PROP-7)."""

from __future__ import annotations

from typing import Any

import pytest

from foldlog.domain.state import key
from support.talk import Chat, assistant, call, result, use, user, words

OTHERS = ["side", "rewind", "branch", "fork"]


def chat(mass: int = 4_000, **options: Any) -> Chat:
    made = Chat(lanes=True, policy={"protected_tokens": mass}, **options)
    made.say(user("start"))
    return made


def fill(host: Chat, count: int, size: int, first: int = 0, name: str = "Bash") -> None:
    for number in range(first, first + count):
        host.tool(f"t{number}", words(size) + str(number), name=name, n=number)


def aside(size: int, count: int, name: str = "Bash") -> list[Any]:
    found: list[Any] = [user("a helper's prompt")]
    for number in range(count):
        found += [
            assistant([call(f"s{number}", name, n=number)]),
            user([result(f"s{number}", words(size) + str(number))]),
        ]
    return found


def elsewhere(host: Chat, how: str, size: int = 2_000, count: int = 6, name: str = "Bash") -> Chat:
    """Let tools be called beside the path: by a side request, or on a path that is left again."""
    kept, end = list(host.messages), host.state.end()
    if how == "side":
        host.messages = [*kept[:1], *aside(size, count, name)]
        host.again()
        assert host.last().side is not None
        host.messages = kept
        return host
    host.say(user("try this"))
    fill(host, count, size, 100, name)
    if how == "fork":
        child = host.session.fork("child", at=end)
        made = Chat(host.engine, "child", lanes=True, policy=host.options["policy"])
        made.session, made.messages, made.now = child, kept, host.now
        return made
    host.messages = [*kept, user("no, that")]
    host.again()
    if how == "branch":
        host.say(assistant("sure"), user("go"))
    else:
        host.messages = [*kept, user("or that")]
        host.again()
    return host


def lost(host: Chat) -> Any:
    host.session.report_cache_loss("gone")
    return host.say(assistant("ok"), user("on"))


def gone(host: Chat) -> list[int]:
    return [number for number, tag in enumerate(host.state.tags, 1) if tag.status == "dropped"]


@pytest.mark.rule("IDENT-3", "PROP-7", "DROP-7")
@pytest.mark.parametrize("how", OTHERS)
@pytest.mark.parametrize("size", [1_000, 1_500, 3_000])
def test_protection_is_of_what_is_on_the_path(how: str, size: int):
    def played(host: Chat) -> Chat:
        fill(host, 6, size)
        lost(host)
        return host

    plain = played(chat())
    lost(plain)
    host = elsewhere(played(chat()), how)
    lost(host)
    assert gone(host) == gone(plain) != []


@pytest.mark.rule("IDENT-3", "DROP-1", "T28")
@pytest.mark.parametrize("how", OTHERS)
def test_small_calls_of_the_newest_twenty_on_the_path_stay(how: str):
    host = chat(0)
    fill(host, 5, 600)
    host = elsewhere(host, how, 3, 25)
    lost(host)
    lost(host)
    assert gone(host)
    assert {host.state.tags[number - 1].mode for number in gone(host)} == {"skeleton_real"}


@pytest.mark.rule("IDENT-3", "DROP-7", "STALE-1")
@pytest.mark.parametrize("how", OTHERS)
def test_the_exemplars_are_those_of_the_path(how: str):
    host = chat(0)
    fill(host, 3, 300, name="ctx_reduce")
    host = elsewhere(host, how, 300, 5, "ctx_reduce")
    fill(host, 22, 5, 200)
    host.session.reduce("2-4")
    lost(host)
    lost(host)
    assert not {2, 3, 4} & set(gone(host))


@pytest.mark.rule("PERM-13", "PROP-7")
@pytest.mark.parametrize("size", [10, 3_000])
def test_a_side_request_is_no_news(size: int):
    host = chat(0, mode="subagent", model="a")
    fill(host, 30, 900)
    host.reopen(model="b")
    use(host.turn(), 140_000)
    kept = host.messages
    host.messages = [kept[0], *aside(size, 4)]
    host.again()
    host.messages = kept
    assert host.state.newest == host.state.swept < len(host.state.tags)
    assert host.again().level == "defer", "all was there at the rebuild, though much of it could leave"
    assert host.turn().level == "soft+"


@pytest.mark.rule("PERM-13")
@pytest.mark.parametrize("changed", [{"context_limit": 190_000}, {"policy": {"execute_threshold_percentage": 60}}])
def test_another_window_or_policy_is_news(changed: dict[str, Any]):
    host = chat(0, mode="subagent", model="a")
    fill(host, 30, 900)
    host.reopen(model="b")
    use(host.turn(), 140_000)
    assert host.again().level == "defer"
    host.reopen(**{**changed, "policy": {**host.options["policy"], **changed.get("policy", {})}})
    assert host.again().level == "soft+"


@pytest.mark.rule("IDENT-4", "DROP-7")
def test_a_branch_that_becomes_the_head_brings_its_tools():
    host = chat()
    fill(host, 6, 1_000)
    host.messages = [host.messages[0], *aside(1_500, 5)]
    host.again()
    host.say(assistant("done"), user("next"))
    here = [n for m in host.state.path for p in range(4) if (n := host.state.tag_of.get(key(m, p), 0))]
    tools = [number for number in here if host.state.tags[number - 1].kind == "tool"]
    assert host.state.tools_order == tools != []
    assert host.state.newest == max(here)


@pytest.mark.rule("SAY-4", "IDENT-3")
@pytest.mark.parametrize("how", OTHERS)
def test_what_is_spent_is_counted_on_the_path(how: str):
    plain = chat()
    fill(plain, 12, 1_000)
    lost(plain)
    want = plain.state.spent
    host = chat()
    fill(host, 12, 1_000)
    host = elsewhere(host, how)
    lost(host)
    assert host.state.spent == want > 0
