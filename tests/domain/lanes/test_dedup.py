"""Equal looks at the same thing are kept once, across turns."""

from __future__ import annotations

from typing import Any

import pytest

from support.talk import Chat, assistant, call, result, user, words

BARE = {"protected_tokens": 0}
FILE = words(500, "line")


def chat() -> Chat:
    made = Chat(lanes=True, policy=BARE)
    made.say(user("start"))
    return made


def fill(host: Chat, first: int, count: int = 4) -> None:
    for number in range(first, first + count):
        host.tool(f"f{number}", f"x{number}", n=number)


def rebuild(host: Chat) -> Any:
    host.session.report_cache_loss("said so")
    return host.turn()


def taken(host: Chat) -> list[int]:
    """Return the tags that left as duplicates."""
    decision = host.last().decision
    did = next((one for one in decision.lanes if one.lane == "dedup"), None)
    return [n for first, last in did.tags for n in range(first, last + 1)] if did else []


@pytest.mark.rule("DEDUP-1")
@pytest.mark.parametrize("name", ["Read", "mcp_read", "grep", "Glob", "_read", "mcp__fs__read_file", "lsp_symbols"])
def test_the_newest_of_equal_looks_stays(name: str):
    host = chat()
    host.tool("a", FILE, name=name, file_path="a.py")
    fill(host, 0)
    host.tool("b", FILE, name=name, file_path="a.py")
    fill(host, 10)
    rebuild(host)
    assert taken(host) == [2]
    assert host.state.tags[1].status == "dropped"


@pytest.mark.rule("DEDUP-1", "TAG-5")
@pytest.mark.parametrize("how", ["dropped", "changed", "off the path"])
@pytest.mark.parametrize("others", [1, 2])
def test_a_look_that_is_not_sent_any_more_stands_for_none(how: str, others: int):
    """The newest has left, says something else now, or is on a path that was left: the one before it is the newest."""
    host, file = chat(), words(200, "line")  # so little leaves by no age
    for number in range(others):
        host.tool(f"a{number}", file, name="Read", file_path="a.py")
        fill(host, 10 * number)
    host.tool("b", file, name="Read", file_path="a.py")
    newest = len(host.state.tags)
    fill(host, 40)
    if how == "dropped":
        host.session.reduce(str(newest))
        host.session.flush()
        host.turn()
    place = next(n for n, one in enumerate(host.messages) if "'b'" in str(one) and one["role"] == "user")
    if how == "changed":
        host.messages[place] = user([result("b", "cut")])
    elif how == "off the path":
        host.messages[place - 1 :] = [assistant("otherwise"), user("on")]
        host.again()
        fill(host, 60)
    rebuild(host)
    assert sum(b"line line" in raw for raw in host.again().messages_json) == 1


@pytest.mark.rule("DEDUP-1")
def test_a_look_that_failed_is_none_that_did_not():
    """Two that failed alike are one."""
    host = chat()
    for number, failed in enumerate((False, True, True)):
        asked = call(f"a{number}", "Read", file_path="a.py")
        host.say(assistant([asked]), user([result(f"a{number}", FILE, is_error=failed)]))
        fill(host, 10 * number)
    rebuild(host)
    assert taken(host) == [7]


@pytest.mark.rule("DEDUP-1")
@pytest.mark.parametrize(
    ("second", "output"),
    [
        ({"file_path": "b.py"}, FILE),
        ({"file_path": "a.py", "offset": 1}, FILE),
        ({"file_path": "a.py"}, FILE[:-1] + "E"),
        ({"file_path": "a.py"}, FILE + "\nmore"),
    ],
    ids=["another-file", "another-part", "edited-in-between", "grown-in-between"],
)
def test_what_differs_in_anything_is_no_duplicate(second: dict[str, Any], output: str):
    host = chat()
    host.tool("a", FILE, name="Read", file_path="a.py")
    host.tool("b", output, name="Read", **second)
    fill(host, 0)
    rebuild(host)
    assert taken(host) == []


@pytest.mark.rule("DEDUP-2")
@pytest.mark.parametrize("name", ["Bash", "shell", "exec_command", "WebFetch", "mcp__db__query", "readme"])
def test_a_command_is_never_a_duplicate(name: str):
    host = chat()
    host.tool("a", FILE, name=name, command="make")
    host.tool("b", FILE, name=name, command="make")
    fill(host, 0)
    rebuild(host)
    assert taken(host) == []


@pytest.mark.rule("DEDUP-1")
def test_three_times_the_same_leaves_one_and_a_small_one_stays():
    host = chat()
    for number in range(3):
        host.tool(f"a{number}", FILE, name="Read", file_path="a.py")
        host.tool(f"b{number}", "ok", name="Read", file_path="b.py")
    fill(host, 0)
    rebuild(host)
    assert taken(host) == [2, 4]


@pytest.mark.rule("DEDUP-1", "LANE-2")
def test_a_deferred_pass_compares_nothing():
    host = chat()
    host.tool("a", FILE, name="Read", file_path="a.py")
    host.tool("b", FILE, name="Read", file_path="a.py")
    fill(host, 0)
    assert host.last().decision is None
    assert all(tag.status == "active" for tag in host.state.tags)
