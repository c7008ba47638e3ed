"""What a later call made pointless, where the policy lets it leave by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foldlog.domain.passes.lanes.smart import RECENT
from support.talk import Chat, user, words

LONG = words(300, "code")


def chat(smart: bool = True, **more: Any) -> Chat:
    made = Chat(lanes=True, policy={"protected_tokens": 0, "smart_drops": smart, **more})
    made.say(user("start"))
    return made


def fill(host: Chat, count: int = RECENT + 1) -> None:
    for number in range(count):
        host.tool(f"f{number}", "x", n=number)


def rebuild(host: Chat) -> Any:
    host.session.report_cache_loss("said so")
    return host.turn()


def taken(host: Chat) -> list[int]:
    did = next((one for one in host.last().decision.lanes if one.lane == "smart"), None)
    return [n for first, last in did.tags for n in range(first, last + 1)] if did else []


@pytest.mark.rule("SMART-1")
def test_without_the_setting_nothing_leaves_so():
    host = chat(smart=False)
    for number in range(3):
        host.tool(f"t{number}", LONG, name="todowrite", todos=[number])
    fill(host)
    rebuild(host)
    assert taken(host) == []


@pytest.mark.rule("SMART-1")
@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("todowrite", 1), ("update_plan", 1), ("ctx_reduce", 3), ("bash_status", 0), ("bash_kill", 0),
        ("BashOutput", 0), ("KillShell", 0),
    ],
)  # fmt: skip
def test_of_some_tools_only_the_newest_stay(name: str, left: int):
    host = chat()
    for number in range(5):
        host.tool(f"t{number}", LONG, name=name, n=number)
    fill(host)
    rebuild(host)
    assert taken(host) == [2, 3, 4, 5, 6][: 5 - left]


@pytest.mark.rule("SMART-1")
@pytest.mark.parametrize(("action", "goes"), [("read", True), ("dismiss", True), ("write", False), (None, False)])
def test_notes_that_were_only_read_leave(action: str | None, goes: bool):
    host = chat()
    host.tool("t", LONG, name="ctx_note", **({"action": action} if action else {}))
    fill(host)
    rebuild(host)
    assert taken(host) == ([2] if goes else [])


@pytest.mark.rule("SMART-2")
@pytest.mark.parametrize("key", ["filePath", "file_path", "path"])
def test_older_edits_of_a_file_keep_a_hint(key: str):
    host = chat()
    for number in range(2):
        host.tool(f"t{number}", LONG, name="Edit", **{key: "a.py", "old_string": f"{number}" + LONG, "n": number})
    host.tool("other", LONG, name="Edit", **{key: "b.py", "old_string": LONG})
    fill(host)
    request = rebuild(host)
    assert taken(host) == [2]
    edits = [
        b["input"] for m in request.messages for b in m["content"] if isinstance(b, dict) and b.get("name") == "Edit"
    ]
    assert [one[key] for one in edits] == ["a.py", "a.py", "b.py"]
    assert edits[0]["old_string"] == ("0" + LONG)[:40] + "...[truncated]"
    assert edits[1]["old_string"] == "1" + LONG
    assert "[dropped §2§]" in json.dumps(request.messages, ensure_ascii=False)
    assert json.loads(host.session.expand(2)[0].json)["content"] == LONG


@pytest.mark.rule("SMART-2")
def test_an_edit_nobody_can_read_stays():
    host = chat()
    for number in range(3):
        host.tool(f"t{number}", LONG, name="Edit", what=number)
    fill(host)
    rebuild(host)
    assert taken(host) == []


@pytest.mark.rule("SMART-3")
def test_calls_of_the_newest_messages_stay():
    host = chat()
    for number in range(5):
        host.tool(f"t{number}", LONG, name="bash_status", n=number)
    fill(host, RECENT - 3)
    rebuild(host)
    assert taken(host) == [2, 3]
