"""The two JSON forms: what is accepted, what is refused, and what counts as the same."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldlog.domain.edits import MessageSlots
from foldlog.domain.errors import MessageError
from foldlog.projections.wire import v1

BIG = 123456789012345678901


def user(content: str) -> bytes:
    return f'{{"role":"user","content":{content}}}'.encode()


def ident(raw: bytes, codec: str = "anthropic") -> bytes:
    return v1.read(codec, raw, len).message.ident


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":[1,2]}', ' { "b" : [ 1,2 ] , "a":1 }'),
        ('{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}', '{"text":"x","type":"text"}'),
        ('{"role":"user","content":"x"}', '{"content":[{"type":"text","text":"x"}],"role":"user"}'),
        ('{"a":1.10}', '{"a":1.1}'),
        ('{"a":"\\u00e9\\/"}', '{"a":"é/"}'),
        ('{"a":1,"a":2}', '{"a":2}'),
        (
            '{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}',
            '{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"}]}]}',
        ),
    ],
)
def test_same_identity(one: str, other: str) -> None:
    """JSON-5, JSON-6, JSON-7, JSON-8."""
    assert v1.identity(one.encode()) == v1.identity(other.encode())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (str(BIG), f'"{BIG}"'),
        ("NaN", '"NaN"'),
        ("NaN", "null"),
        ("1e400", "Infinity"),
        ("1", "1.0"),
        ("1", "true"),
        ('"\\ud800"', '"\\udbff"'),
        ('"\\ud800"', '"?"'),
        ("1" * 5000, "1" * 5001),
        ('{"input":{"cache_control":1}}', '{"input":{}}'),
    ],
)
def test_other_identity(one: str, other: str) -> None:
    """JSON-6, JSON-7."""
    assert v1.identity(one.encode()) != v1.identity(other.encode())


def test_odd_values_leave_other_parts_identities_alone() -> None:
    """JSON-6: a part's identity does not depend on which decoder its neighbour needed."""
    numbers = '{"a":1.10,"b":1e22,"c":-0.0,"d":-0,"e":18446744073709551615}'
    text = f'{{"type":"tool_use","id":"t","name":"n","input":{numbers}}}'
    plain = f'{{"role":"assistant","content":[{text}]}}'.encode()
    for odd in ('{"v":NaN}', '{"v":"\\udfff"}', f'{{"v":{BIG}}}', '{"v":1e999}'):
        beside = f'{{"role":"assistant","content":[{text},{{"type":"x","input":{odd}}}]}}'.encode()
        assert v1.part_idents("anthropic", beside)[0] == v1.part_idents("anthropic", plain)[0]
        assert v1.blocks("anthropic", beside)[0] == v1.blocks("anthropic", plain)[0]


def test_message_identity_ignores_bookkeeping_only() -> None:
    """JSON-10."""
    base = b'{"role":"assistant","content":"x","stopReason":"stop","timestamp":1,"usage":{"input":1}}'
    assert ident(base, "pi") == ident(base.replace(b'"timestamp":1', b'"timestamp":2'), "pi")
    assert ident(base, "pi") == ident(base.replace(b'"input":1', b'"input":9'), "pi")
    assert ident(base, "pi") != ident(base.replace(b'"stop"', b'"error"'), "pi")
    assert ident(user('"x"')) == ident(b'{"role":"user","content":"x","id":"msg_1"}')
    assert ident(user('"x"')) != ident(b'{"role":"assistant","content":"x"}')
    assert ident(user('"x"'), "openai-chat") != ident(b'{"role":"user","content":"x","name":"bob"}', "openai-chat")
    assert ident(user('[{"type":"text","text":"ab"}]')) != ident(
        user('[{"type":"text","text":"a"},{"type":"text","text":"b"}]')
    )


@pytest.mark.parametrize(("depth", "fine"), [(197, True), (198, False), (10_000, False), (500_000, False)])
@pytest.mark.parametrize("bracket", ["[]", "{}"])
def test_nesting(depth: int, fine: bool, bracket: str) -> None:
    """JSON-4: message, content and block are three levels of the 200."""
    inner = "[" * depth + "]" * depth if bracket == "[]" else '{"a":' * depth + "1" + "}" * depth
    raw = user(f'[{{"type":"x","v":{inner}}}]')
    if fine:
        assert v1.render("anthropic", raw, MessageSlots(), lambda _: b"") is raw
        assert len(v1.blocks("anthropic", raw)) == 1
        ident(raw)
    else:
        with pytest.raises(MessageError, match="200"):
            ident(raw)


def test_brackets_in_strings_are_not_nesting() -> None:
    """JSON-4."""
    text = '[{"\\' * 5000
    raw = v1.encode({"role": "user", "content": text})
    assert v1.part_text("anthropic", raw, 0) == text
    assert v1.read("anthropic", raw, len).message.parts[0].tokens == len(text)


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b"", 0),
        (b"{", 1),
        (b'{"role":"user","content":"x"', 28),
        (b'{"role":"user" "content":"x"}', 15),
        (b'{"role":"user","content":"\xff"}', 26),
        (b'{"role":"user","content":"\xc3\xa9",}', 30),
        (b"not json", 0),
        (b'{"role":"user","content":01}', 26),
    ],
)
def test_malformed_json_names_its_byte(raw: bytes, place: int) -> None:
    """JSON-4."""
    with pytest.raises(MessageError) as caught:
        v1.read("anthropic", raw, len, "messages[7]")
    assert caught.value.where == "messages[7]"
    assert f"at byte {place};" in caught.value.message


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(codec=None), max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(st.characters(codec=None), max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


@given(json_values)
def test_plain_gives_python_values_back(value: Any) -> None:
    """JSON-3: what is decoded for output holds no type of ours."""
    assert same(v1.output(v1.encode(value)), value)


def test_plain_reads_numbers_python_cannot() -> None:
    assert v1.output(b'{"a":[1e400,' + b"1" * 5000 + b"]}") == {"a": [math.inf, math.inf]}


@given(json_values)
def test_encode_loses_nothing(value: Any) -> None:
    """JSON-3: whatever JSON value Python holds, the bytes say the same, and always the same bytes."""
    raw = v1.encode(value)
    assert same(json.loads(raw), value)
    assert v1.encode(value) == raw
    v1.identity(raw)


def test_encode_is_compact_utf8_in_the_objects_order() -> None:
    """JSON-3."""
    assert v1.encode({"b": "é", "a": (1, 2)}) == '{"b":"é","a":[1,2]}'.encode()
    assert v1.encode({"b": "é\ud800", "a": BIG}) == b'{"b":"\\u00e9\\ud800","a":123456789012345678901}'


def looped() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = [value]
    return value


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"content": [{"input": {"x": dt.date(2026, 1, 1)}}]}, ".content[0].input.x"),
        ({"a": [1, b"x"]}, ".a[1]"),
        ({"a": {1, 2}}, ".a"),
        ({"a": {1: 2}}, ".a"),
        (object(), "."),
        (looped(), ".self[0].self[0]"),
    ],
)
def test_encode_names_what_is_no_json(value: Any, where: str) -> None:
    """JSON-3."""
    with pytest.raises(MessageError) as caught:
        v1.encode(value)
    assert caught.value.where.startswith(where)


class Named(str):
    """A text of a library's own kind."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "out"),
    [
        (np.float64(1.5), b"1.5"), (Named("a"), b'"a"'), ({"t": [np.float64(2), Named("b")]}, b'{"t":[2.0,"b"]}'),
        (np.str_("c"), b'"c"'),
    ],
)  # fmt: skip
def test_encode_takes_numbers_and_texts_of_other_libraries(value: Any, out: bytes) -> None:
    """JSON-3."""
    assert v1.encode(value) == out


def test_encode_refuses_deep_nesting() -> None:
    """JSON-4."""
    value: Any = 1
    for _ in range(201):
        value = [value]
    with pytest.raises(MessageError, match="200"):
        v1.encode(value)
    assert v1.encode(value[0]) == b"[" * 200 + b"1" + b"]" * 200
