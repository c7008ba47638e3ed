"""Bodies taken apart by comparison."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldlog.adapters.proxy.body import Body, rewrite, take
from foldlog.domain.errors import MessageError
from support.wires import RUNS, sent


def raw(**members: object) -> bytes:
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()


def user(text: str, mark: bool = False) -> dict:
    block: dict = {"type": "text", "text": text}
    return {"role": "user", "content": [block | ({"cache_control": {"type": "ephemeral"}} if mark else {})]}


def reads_as(body: Body, text: bytes) -> None:
    """What was taken is what a decoder finds."""
    value = json.loads(text)
    assert [json.loads(one) for one in body.messages] == value[body.member]
    assert {name: json.loads(one) for name, one in body.members.items()} == {
        name: one for name, one in value.items() if name != body.member
    }


@pytest.mark.rule("PROXY-1")
def test_only_what_is_new_is_scanned_and_the_rest_are_the_same_objects():
    history = [user("x" * 2_000 + str(i)) for i in range(50)]
    first = take(raw(model="m", system="s" * 5_000, messages=[*history, user("last " * 200, mark=True)]), "messages")
    now = raw(model="m", system="s" * 5_000, messages=[*history, user("last " * 200), user("new", mark=True)])
    body = take(now, "messages", first)
    reads_as(body, now)
    assert all(a is b for a, b in zip(body.messages[:50], first.messages, strict=False))
    assert body.members["system"] is first.members["system"]
    assert body.parsed < len(body.messages[-1]) + 60  # the marked message was compared, not scanned


@pytest.mark.rule("PROXY-1")
def test_a_number_that_goes_on_is_another_number():
    last = take(b'{"n":12,"tools":[1,2],"messages":[3]}', "messages")
    body = take(b'{"n":123,"tools":[1,23],"messages":[34]}', "messages", last)
    assert (body.members["n"], body.arrays["tools"].items, body.messages) == (b"123", [b"1", b"23"], [b"34"])


@pytest.mark.rule("PROXY-2")
@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"null", b"{", b'{"messages"', b'{"messages":[', b'{"messages":[{}', b'{"messages":[{}]',
        b'{"messages":{}}', b'{"model":"m"}', b'{"messages":[{}]} x', b'{"messages":[{},]}', b'{"messages":[{}],}',
        b'{"model":tru,"messages":[]}', b'{"a\\u12":1,"messages":[]}', b'\xff{"messages":[]}', b'{"messages":[{}]]',
        b'{"messages":"[]"}', b'{"model":"m" "messages":[]}',
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(text):
    with pytest.raises(MessageError) as error:
        take(text, "messages")
    assert error.value.where == "body"


@pytest.mark.rule("PROXY-3")
def test_all_other_members_stay_byte_for_byte():
    text = b' { "b" : 1.10 , "messages" : [ {"role":"user"} ] ,\n"tools":[], "odd":{"a":[1 , 2]} } '
    body = take(text, "messages")
    assert rewrite(body, {}) == text
    assert rewrite(body, {"messages": [b"[", b"1]"], "tools": None, "system": [b'"s"']}) == (
        b' {"system":"s", "b" : 1.10 , "messages" : [1], "odd":{"a":[1 , 2]} } '
    )


@pytest.mark.rule("PROXY-1")
@pytest.mark.parametrize("run", RUNS)
def test_recorded_hosts_cost_their_new_bytes_and_one_message(run):
    last: Body | None = None
    for one in sent(run):
        member = "input" if "responses" in one.path else "messages"
        body = take(one.raw, member, last)
        reads_as(body, one.raw)
        same_shape(body, take(one.raw, member))
        if last is not None and last.messages[0] == body.messages[0]:
            known = set(last.messages)
            fresh = [raw for raw in body.messages if raw not in known]
            # what was only marked anew is not new; of the members only the small ones that changed, and each key
            new = sum(map(len, fresh[-2:])) + max(map(len, last.messages))
            small = sum(len(name) + 4 for name in body.members) + sum(
                len(raw) for name, raw in body.members.items() if last.members.get(name) != raw and name != "system"
            )
            assert body.parsed <= new + small + 400, one.name
        last = body


def same_shape(body: Body, alone: Body) -> None:
    """What was taken by comparison is what is taken without."""
    assert (body.messages, body.members, body.spans, body.keys) == (
        alone.messages, alone.members, alone.spans, alone.keys,
    )  # fmt: skip
    assert body.arrays == alone.arrays
    assert list(body.members) == list(alone.members)


_TEXT = st.text(alphabet='ab"\\\né{}[],:', max_size=30)
_VALUE = st.recursive(st.none() | st.booleans() | st.integers() | _TEXT, lambda inner: st.lists(inner, max_size=3))
_BLOCK = st.fixed_dictionaries({"type": st.just("text"), "text": _TEXT}, optional={"odd": _VALUE})
_MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "content": _TEXT | st.lists(_BLOCK, max_size=3)}
)
_STEP = st.sampled_from(
    ["append", "append", "append", "mark", "unmark", "revise", "flip", "rewind", "insert", "member", "system", "same"]
)


@pytest.mark.rule("PROXY-1", "PROXY-2")
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_body_taken_by_comparison_is_the_body_taken_alone(data):
    value: dict[str, object] = {"model": "m", "system": [{"type": "text", "text": "s"}], "messages": [], "n": 1}
    last: Body | None = None
    for _ in range(data.draw(st.integers(2, 6))):
        change(data, value)
        order = data.draw(st.permutations(list(value)))
        gap = data.draw(st.sampled_from(["", " ", "\n "]))
        text = json.dumps(
            {name: value[name] for name in order}, separators=(f",{gap}", f":{gap}"), ensure_ascii=False
        ).encode()
        body = take(text, "messages", last)
        reads_as(body, text)
        same_shape(body, take(text, "messages"))
        if last is not None:
            at = min(len(body.messages), len(last.messages))
            assert all(a is b for a, b in zip(body.messages[:at], last.messages, strict=False) if a == b)
        last = body


def change(data: st.DataObject, value: dict) -> None:
    """Do to a request what clients do."""
    messages: list = value["messages"]
    step = data.draw(_STEP)
    place = data.draw(st.integers(0, max(len(messages) - 1, 0)))
    if step == "append" or not messages:
        messages.extend(data.draw(st.lists(_MESSAGE, min_size=1, max_size=3)))
    elif step == "revise":
        messages[-1] = data.draw(_MESSAGE)
    elif step == "insert":
        messages.insert(place, data.draw(_MESSAGE))
    elif step == "rewind":
        del messages[place:]
    elif step == "member":
        value[data.draw(st.sampled_from(["n", "x", "tools"]))] = data.draw(_VALUE)
    elif step == "system":
        value["system"] = [*data.draw(st.lists(_BLOCK, max_size=2)), {"type": "text", "text": "s"}]
    elif step == "flip":
        content = messages[place]["content"]
        if isinstance(content, str):
            messages[place] = messages[place] | {"content": [{"type": "text", "text": content}]}
    elif step in ("mark", "unmark") and isinstance(messages[place]["content"], list):
        blocks = [dict(block) for block in messages[place]["content"]]
        for block in blocks[-1:]:
            block.pop("cache_control", None)
            if step == "mark":
                block["cache_control"] = {"type": "ephemeral"}
        messages[place] = messages[place] | {"content": blocks}
