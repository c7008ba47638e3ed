"""What its host changes with the very pass that rebuilds is no lane's business: no edit, no break, no wrong count."""

from __future__ import annotations

from typing import Any

import pytest

from support.counts import EVERYTHING, LONG, PICTURE, recounted
from support.talk import Chat, assistant, call, differences, result, text, thinking, user, words

REMINDER = "\n<system-reminder>\n" + words(300) + "\n</system-reminder>"


def tool(number: int, output: Any, *before: Any, name: str = "Bash", **arguments: Any) -> list[dict[str, Any]]:
    id = f"t{number}"
    return [assistant([*before, call(id, name, **(arguments or {"n": number}))]), user([result(id, output)])]


def work() -> list[dict[str, Any]]:
    """Return a conversation in which each lane finds work."""
    said = [user("start")]
    for number in range(3):
        said += [assistant([thinking(words(700)), text(LONG * 6 + str(number))]), user(LONG * 3 + REMINDER)]
    said += [assistant(f"<think>{words(600)}</think>so be it"), user([text("look"), PICTURE]), assistant("seen")]
    said += [user("on"), *tool(1, words(300), name="Read", file_path="/same"), *tool(2, words(300), thinking("hm"))]
    said += tool(3, words(300), name="Read", file_path="/same")
    for number in range(4, 7):
        said += tool(number, "done", name="Edit", file_path="/a", old_string=words(200), new_string=words(100))
    said += tool(7, words(300), name="todowrite", todos=[{"content": "a", "status": "pending"}])
    said += tool(8, [text(words(100)), PICTURE], name="shot")
    for number in range(9, 14):
        said += tool(number, "Queued.", name="ctx_reduce", drop="9999")
    for number in range(14, 40):
        said += tool(number, words(30) + str(number))
    return said


WHYS = ["lost", "flush", "pictures"]
WORK = work()
CHANGED = 45
"""So many messages from the beginning are changed in turn; the others stand behind for the lanes that leave a tail."""


def changed(message: dict[str, Any], how: str) -> dict[str, Any]:
    """Return a message as its host sends it now: with more at its end, or with something else in its last part."""
    content = message["content"]
    parts = list(content) if isinstance(content, list) else [text(content)]
    if how == "grown":
        return {**message, "content": [*parts, text("put in later")]}
    kind = parts[-1]["type"]
    other = result(parts[-1]["tool_use_id"], "cut") if kind == "tool_result" else text("put in its place")
    other = {**parts[-1], "input": {"other": 1}} if kind == "tool_use" else other
    return {**message, "content": [*parts[:-1], other]}


@pytest.mark.rule("LANE-2", "TAG-5", "WINDOW-15", "FAIL-2")
@pytest.mark.parametrize("how", ["grown", "other"])
@pytest.mark.parametrize("why", WHYS)
@pytest.mark.parametrize("left", [False, True], ids=["all is there", "much has left"])
def test_no_lane_edits_what_changes_with_its_pass(how: str, why: str, left: bool, monkeypatch: pytest.MonkeyPatch):
    off = recounted(monkeypatch)
    for place in range(1 + WHYS.index(why), CHANGED, len(WHYS)):
        host = Chat(lanes=True, model="claude-sonnet-4-5", policy=EVERYTHING)
        request = host.say(*WORK)
        if left:
            host.session.report_cache_loss("gone")
            request = host.say(assistant("ok"), user("on"))
        tags = len(host.state.tags)
        host.session.reduce(f"2-{tags // 3}")
        if why == "pictures":
            request.report_error(400, "too many images")
        elif why == "flush":
            host.session.flush()
        else:
            host.session.report_cache_loss("gone")
        host.messages[place] = changed(host.messages[place], how)
        host.say(assistant("ok"), user("on"))
        event, m = host.last(), host.state.path[place]
        assert event.edits, (place, why)
        first = next(one.first for one in event.arrivals if one.m == m)
        assert [one for one in event.edits if one.m == m and getattr(one, "p", first) >= first] == [], (place, why)
        assert host.turn().level == "defer"
        assert set(off) == {0}, (place, why)
        assert differences(host.engine) == [], (place, why)
