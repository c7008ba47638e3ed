"""Bodies taken apart by comparison."""

from __future__ import annotations

import json

import pytest

from foldlog.adapters.proxy.body import Body, rewrite, take
from foldlog.domain.errors import MessageError


def raw(**members: object) -> bytes:
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()


def user(text: str, mark: bool = False) -> dict:
    block: dict = {"type": "text", "text": text}
    return {"role": "user", "content": [block | ({"cache_control": {"type": "ephemeral"}} if mark else {})]}


def reads_as(body: Body, given: bytes) -> None:
    """What was taken is what a decoder finds."""
    value = json.loads(given)
    assert [json.loads(one) for one in body.messages] == value[body.member]
    assert {name: json.loads(one) for name, one in body.members.items()} == {
        name: one for name, one in value.items() if name != body.member
    }


@pytest.mark.rule("PROXY-1")
def test_only_what_is_new_is_scanned_and_the_rest_are_the_same_objects():
    history = [user("x" * 2_000 + str(i)) for i in range(50)]
    first = take(raw(model="m", system="s" * 5_000, messages=[*history, user("last " * 200, mark=True)]), "messages")
    given = raw(model="m", system="s" * 5_000, messages=[*history, user("last " * 200), user("new", mark=True)])
    body = take(given, "messages", first)
    reads_as(body, given)
    assert all(a is b for a, b in zip(body.messages[:50], first.messages, strict=False))
    assert body.members["system"] is first.members["system"]
    assert body.parsed < len(body.messages[-1]) + 60  # the marked message was compared, not scanned


@pytest.mark.rule("PROXY-2")
@pytest.mark.parametrize(
    "given",
    [
        b"", b"[]", b"null", b"{", b'{"messages"', b'{"messages":[', b'{"messages":[{}', b'{"messages":[{}]',
        b'{"messages":{}}', b'{"model":"m"}', b'{"messages":[{}]} x', b'{"messages":[{},]}', b'{"messages":[{}],}',
        b'{"model":tru,"messages":[]}', b'{"a\\u12":1,"messages":[]}', b'\xff{"messages":[]}', b'{"messages":[{}]]',
        b'{"messages":"[]"}', b'{"model":"m" "messages":[]}',
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(given):
    with pytest.raises(MessageError) as error:
        take(given, "messages")
    assert error.value.where == "body"


@pytest.mark.rule("PROXY-3")
def test_all_other_members_stay_byte_for_byte():
    given = b' { "b" : 1.10 , "messages" : [ {"role":"user"} ] ,\n"tools":[], "odd":{"a":[1 , 2]} } '
    body = take(given, "messages")
    assert rewrite(body, {}) == given
    assert rewrite(body, {"messages": [b"[", b"1]"], "tools": None, "system": [b'"s"']}) == (
        b' {"system":"s", "b" : 1.10 , "messages" : [1], "odd":{"a":[1 , 2]} } '
    )
