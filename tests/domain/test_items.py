"""Hosts whose messages are single items (Responses): what belongs together leaves, stays and is summarised together."""

from __future__ import annotations

import json
from typing import Any

import checker
import pytest

import foldlog
from foldlog.domain.errors import MessageError
from foldlog.domain.history.boundary import find_arcs
from support.counts import recounted
from support.rules import rule
from support.talk import Chat, differences, use, words

CODEC = "openai-responses"
FREE = {"protected_tokens": 0}
Item = dict[str, Any]


def said(text: str, role: str = "user") -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def thought(name: str) -> Item:
    return {"type": "reasoning", "id": f"rs_{name}", "summary": [], "encrypted_content": "QUFB" * 40}


def call(name: str, size: int = 5_000) -> Item:
    arguments = json.dumps({"a": "x" * size})
    return {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": "Bash", "arguments": arguments}


SEARCH: Item = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}}


def output(name: str, text: str = "") -> Item:
    return {"type": "function_call_output", "call_id": name, "output": text or words(9_000)}


class Host(Chat):
    """Keeps its items; every request it gets is judged, alone and beside what it handed over."""

    def __init__(self, engine: foldlog.Engine | None = None, **options: Any) -> None:
        super().__init__(engine, codec=CODEC, **{"policy": FREE, **options})

    def again(self, **given: Any) -> foldlog.Request:
        request = super().again(**given)
        sent = {"input": request.messages, "tools": request.tools, "instructions": request.system}
        assert checker.responses.check(sent) == []
        assert checker.responses.check_against({"input": self.messages}, sent) == []
        return request

    def turn(self, text: str = "go on", **given: Any) -> foldlog.Request:
        return self.say(said("ok", "assistant"), said(text), **given)

    def fill(self) -> None:
        for number in range(3):
            self.say(call(f"f{number}", 1), output(f"f{number}", "x"))

    def pressed(self, drop: str) -> str:
        """Queue ``drop``, land it with the next pass, return what is sent."""
        use(self.turn(), 175_000)
        self.session.reduce(drop)
        return b"\n".join(self.turn().messages_json).decode()

    def mode(self, tag: int) -> str:
        return str(self.state.tags[tag - 1].mode)


@rule("ITEM-5")
def test_a_call_leaves_with_its_output_and_the_reasoning_that_led_to_it() -> None:
    host = Host()
    host.say(said("start"))
    host.say(thought("1"), call("c1"), output("c1"))
    host.fill()
    before = host.state.last.tokens
    sent = host.pressed("2")
    assert host.mode(2) == "full"
    assert not any(name in sent for name in ("rs_1", "fc_c1", '"c1"'))
    part = host.state.nodes[1].message.parts[0]
    assert host.state.spares == {} or part.tokens in host.state.spares.values()
    assert host.state.last.tokens < before
    assert differences(host.engine) == []


@rule("ITEM-5")
@pytest.mark.parametrize(
    ("answer", "outputs", "modes"),
    [
        # reasoning led to both: removing the first would leave it before what it did not lead to
        ((thought("1"), call("c1"), call("c2")), ("c1", "c2"), ("skeleton_real", "full")),
        ((thought("1"), said("I look.", "assistant"), call("c1"), call("c2")), ("c2", "c1"), ("full", "full")),
        ((thought("1"), thought("2"), call("c1")), ("c1",), ("full",)),
        ((thought("1"), call("c1"), thought("2"), call("c2")), ("c1", "c2"), ("skeleton_real", "full")),
        ((call("c1"), call("c2")), ("c1", "c2"), ("full", "full")),
        ((thought("1"), call("c1"), SEARCH), ("c1",), ("skeleton_real",)),
    ],
    ids=["parallel", "behind-a-text", "two-thoughts", "interleaved", "unreasoned", "hosted-behind"],
)  # fmt: skip
def test_reasoning_never_stands_before_what_it_did_not_lead_to(
    answer: tuple[Item, ...], outputs: tuple[str, ...], modes: tuple[str, ...]
) -> None:
    host = Host()
    host.say(said("start"))
    host.say(*answer, *map(output, outputs))
    host.fill()
    numbers = {
        host.state.nodes[tag.m - 1].message.parts[0].id: n
        for n, tag in enumerate(host.state.tags, 1)
        if tag.kind == "tool"
    }
    host.pressed(f"{numbers['c1']},{numbers['c2']}" if "c2" in numbers else f"{numbers['c1']}")
    assert tuple(host.mode(numbers[name]) for name in sorted(outputs)) == modes
    assert differences(host.engine) == []


@rule("ITEM-5", "PROP-3", "WINDOW-15")
def test_what_left_stays_away_when_the_host_sends_it_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that reads its items back from disk may write them otherwise: the other halves do not come back alone."""
    host = Host()
    host.say(said("start"))
    host.say(thought("1"), call("c1"), output("c1"))
    host.fill()
    host.pressed("2")
    off = recounted(monkeypatch)
    host.messages[1] = {**thought("1"), "summary": [{"type": "summary_text", "text": words(500)}]}
    sent = b"\n".join(host.turn().messages_json).decode()
    assert "rs_1" not in sent
    host.messages[3] = output("c1", "another")
    sent = b"\n".join(host.turn().messages_json).decode()
    assert '"c1"' not in sent
    host.session.report_cache_loss("said so")
    host.turn()
    host.turn()
    assert set(off) == {0}, "nor does it count"
    assert differences(host.engine) == []


@rule("ITEM-4", "PROP-1")
def test_items_without_their_ids_are_the_same_items() -> None:
    host = Host()
    host.say(said("start"))
    first = host.say(thought("1"), call("c1", 3), output("c1", "x"))
    host.messages = [{k: v for k, v in item.items() if k not in ("id", "status")} for item in host.messages]
    second = host.turn()
    assert second.level == "defer"
    assert not any("host" in why for why in second.reasons)
    assert second.messages_json[: len(first.messages_json)] == first.messages_json


@rule("ITEM-1")
def test_what_leads_stays_in_front_and_is_never_summarised() -> None:
    leading = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are an agent."}]}
    host = Host()
    request = host.say(leading, said("start"), system="Be brief.")
    assert request.system == "Be brief."
    assert request.messages[0]["content"][0] == leading["content"][0]
    assert len(request.messages[0]["content"]) == 2  # the guidance
    assert request.built.leading == 1
    assert [item["role"] for item in request.messages] == ["developer", "user", "user", "user"]
    # what is not said again is unchanged; what leads is always there
    assert host.turn(system=None).system == "Be brief."
    renamed = {**leading, "id": "msg_1"}
    host.messages[0] = renamed
    assert host.turn().level == "defer"
    host.messages[0] = {**leading, "content": [{"type": "input_text", "text": "You are another."}]}
    assert host.turn().level == "hard"
    assert differences(host.engine) == []


@rule("ITEM-7")
@pytest.mark.parametrize(
    ("items", "ok"),
    [
        ((call("c1", 1), call("c2", 1), output("c2", "x"), output("c1", "x")), True),
        ((call("c1", 1), said("Meanwhile.", "assistant"), said("And?"), output("c1", "x")), True),
        ((call("c1", 1), call("c2", 1), output("c2", "x")), False),
        ((output("c1", "x"),), False),
        (({"type": "item_reference", "id": "fc_1"}, output("c1", "x")), True),
        ((call("c1", 1), output("c1", "x"), output("c1", "x")), False),
        ((call("c1", 1), call("c1", 1), output("c1", "x")), False),
    ],
)
def test_calls_and_outputs_pair_at_any_distance(items: tuple[Item, ...], ok: bool) -> None:
    session = foldlog.Engine.open("memory:", summarizer=None).session("s", codec=CODEC)
    if ok:
        session.prepare([said("start"), *items, said("go on")])
        return
    with pytest.raises(MessageError):
        session.prepare([said("start"), *items, said("go on")])


def test_a_late_output_is_found_behind_later_passes() -> None:
    session = foldlog.Engine.open("memory:", summarizer=None).session("s", codec=CODEC)
    items = [said("start"), call("c1", 1), call("c2", 1), output("c2", "x"), output("c1", "x")]
    session.prepare(items)
    session.prepare([*items, said("ok", "assistant"), said("go on")])
    with pytest.raises(MessageError, match="no result in the turn behind it") as caught:
        session.prepare([*items[:-1], said("ok", "assistant"), said("go on")])
    assert caught.value.value == "c1"


@rule("ITEM-7")
def test_an_output_behind_a_reference_stays() -> None:
    """What its call was is not seen, so nobody can say what has to leave with it."""
    host = Chat(codec=CODEC, policy=FREE)
    host.say(said("start"), {"type": "item_reference", "id": "fc_1"}, output("c1"))
    host.say(said("ok", "assistant"), said("go on"), call("c2", 1), output("c2", "x"))
    use(host.say(said("ok", "assistant"), said("go on")), 175_000)
    host.session.reduce("2")
    sent = b"\n".join(host.say(said("ok", "assistant"), said("go on")).messages_json).decode()
    assert "fc_1" in sent
    assert words(100) in sent
    assert differences(host.engine) == []


@rule("ITEM-6")
def test_a_summary_ends_between_answers_only() -> None:
    rows = [((), ()), ((), ()), (("c1",), ()), (("c2",), ()), ((), ("c1",)), ((), ("c2",)), ((), ()), ((), ())]
    arcs = find_arcs(rows, 1, tied=(3, 4, 8))
    assert arcs.spans == ((2, 6), (7, 8))


@rule("DROP-13", "ITEM-5")
@pytest.mark.parametrize("reasoned", [False, True])
def test_where_the_host_goes_back_to_the_end_of_an_arc_that_left_it_stays_away(reasoned: bool) -> None:
    """An answer may be the last thing of such a request: nothing has to come back, and nothing is written again."""
    host = Host()
    host.say(said("start"))
    host.say(said("I look.", "assistant"), *([thought("1")] if reasoned else []), call("c1"), output("c1"))
    host.say(said("done", "assistant"), said("go on"))
    host.session.reduce("3")
    host.session.flush()
    before = host.turn()
    assert "c1" not in str(before.messages)
    place = next(index for index, one in enumerate(host.messages) if one.get("type") == "function_call_output")
    last = list(host.state.path[place + 1 :])
    request = host.advance(retracted=last)
    assert request.level == "defer"
    assert [json.loads(raw) for raw in request.messages_json] == [json.loads(raw) for raw in before.messages_json[:4]]
    assert differences(host.engine) == []
