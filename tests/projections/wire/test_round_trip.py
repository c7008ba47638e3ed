"""Bytes go through untouched: recorded sessions, real hosts' requests, and odd JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldlog.domain.edits import MessageSlots, PartSlots
from foldlog.projections.wire import v1

SHARED = Path(__file__).parents[4] / "shared"
PLAIN = MessageSlots()
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is absent: no recorded sessions here")


def no_text(digest: bytes) -> bytes:
    raise AssertionError(f"no chunk was to be read: {digest.hex()}")


def recorded() -> Iterator[tuple[str, bytes]]:
    """Yield (codec, raw message) of the traces, each as the bytes that stand in the file."""
    for path in sorted((SHARED / "traces").glob("*.jsonl")):
        codec = {"claude": "anthropic", "pi-a-o": "pi", "mini-s": "openai-chat"}[path.name[:6]]
        for line in path.read_bytes().splitlines():
            value = json.loads(line)
            if isinstance(value.get("message"), dict) and value["message"]["role"] != "exit":
                start = v1.spans.scan(line, 1).value(0, "message")
                assert start is not None
                yield codec, line[slice(*start)]


def sampled() -> Iterator[tuple[str, bytes]]:
    """Yield (codec, raw message) of the hosts' samples, in the layout of the sample files."""
    for path in sorted((SHARED / "hosts" / "samples").glob("*/*/*.json")):
        value = json.loads(path.read_bytes())
        body = value.get("body") if isinstance(value, dict) else None
        if isinstance(body, dict) and isinstance(body.get("messages"), list):
            codec = "openai-chat" if "completions" in path.name else "anthropic"
            yield from ((codec, json.dumps(m, indent=1).encode()) for m in body["messages"])
        elif isinstance(body, dict) and isinstance(body.get("input"), list):
            yield from (("openai-responses", json.dumps(item, indent=1).encode()) for item in body["input"])
        elif path.name.endswith("context.in.json") and path.parts[-3] in ("pi", "omp"):
            for message in value["event"]["messages"]:
                yield "pi", json.dumps(message, indent=1, ensure_ascii=False).encode()


@needs_shared
@pytest.mark.parametrize(("source", "least"), [(recorded, 2900), (sampled, 300)])
def test_every_real_message_round_trips(source: Any, least: int) -> None:
    """JSON-1: what no slot names keeps its bytes; a part's original is a piece of them; marks alone go."""
    count = parts = 0
    for codec, raw in source():
        incoming = v1.read(codec, raw, len)
        out = v1.render(codec, raw, PLAIN, no_text)
        assert out is not None
        if b"cache_control" in raw:
            assert v1.read(codec, out, len).message.ident == incoming.message.ident
            assert b'"cache_control"' not in out
        else:
            assert out is raw
        assert incoming.message.size == len(raw)
        for p in range(len(incoming.message.parts)):
            assert v1.original(codec, raw, p) in raw
            v1.part_text(codec, raw, p)
            # a number that is taken off again leaves the original bytes
            tagged = v1.render(codec, out, MessageSlots(parts=(PartSlots(),) * p + (PartSlots(tag=77),)), no_text)
            assert tagged is not None
            assert tagged.replace("§77§ ".encode(), b"", 1) in (out, tagged)
            parts += 1
        digests = v1.blocks(codec, out)
        assert len(digests) == max(1, len(incoming.message.parts))
        count += 1
    assert count >= least
    print(f"{source.__name__}: {count} messages, {parts} parts")


strings = st.text(st.characters(codec=None), max_size=12)
leaves = st.one_of(
    st.sampled_from(["1.10", "-0", "1e400", "NaN", "-Infinity", "123456789012345678901", "1E5", "true", "null", "0.0"]),
    strings.map(json.dumps),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(lambda t: json.dumps(t, ensure_ascii=False)),
)
blanks = st.sampled_from(["", " ", "\n\t", "\r\n  "])


def array(items: list[str], blank: str) -> str:
    return f"[{blank}" + f"{blank},{blank}".join(items) + f"{blank}]"


def obj(items: list[tuple[str, str]], blank: str) -> str:
    return f"{{{blank}" + f"{blank},{blank}".join(f"{k}{blank}:{blank}{v}" for k, v in items) + f"{blank}}}"


values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(array, st.lists(inner, max_size=3), blanks),
        st.builds(obj, st.lists(st.tuples(strings.map(json.dumps), inner), max_size=3), blanks),
    ),
    max_leaves=6,
)


@st.composite
def messages(draw: st.DrawFn) -> tuple[bytes, int]:
    """An assistant message in odd but valid JSON, and its number of blocks."""
    blank = draw(blanks)
    pieces: list[str] = []
    for i in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["text", "tool_use", "thinking", "server_tool_use"]))
        own = {
            "text": [('"text"', draw(strings.map(json.dumps)))],
            "tool_use": [('"id"', f'"t{i}"'), ('"name"', '"x"'), ('"input"', draw(values))],
            "thinking": [('"thinking"', '"hm"'), ('"signature"', '"s"')],
            "server_tool_use": [('"input"', draw(values))],
        }[kind]
        extra = [(json.dumps("x" + k), v) for k, v in draw(st.lists(st.tuples(strings, values), max_size=2))]
        pieces.append(obj(draw(st.permutations([('"type"', f'"{kind}"'), *own, *extra])), blank))
    extra = [(json.dumps("x" + k), v) for k, v in draw(st.lists(st.tuples(strings, values), max_size=2))]
    whole = [('"role"', '"assistant"'), ('"content"', array(pieces, blank)), *extra]
    return (blank + obj(draw(st.permutations(whole)), blank) + blank).encode(), len(pieces)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(messages(), st.data())
def test_odd_json_survives_an_edit_beside_it(given_: tuple[bytes, int], data: st.DataObject) -> None:
    """JSON-2: white space, tokens, duplicate keys and surrogates outside the edited string keep their bytes."""
    raw, count = given_
    incoming = v1.read("anthropic", raw, len)
    assert len(incoming.message.parts) == count
    assert v1.render("anthropic", raw, PLAIN, no_text) is raw
    p = data.draw(st.integers(0, count - 1))
    piece = v1.original("anthropic", raw, p)
    assert raw.count(piece) >= 1
    out = v1.render("anthropic", raw, MessageSlots(parts=(PartSlots(),) * p + (PartSlots(tag=5),)), no_text)
    assert out is not None
    if v1.part_text("anthropic", raw, p).startswith("§") or incoming.message.parts[p].__class__.__name__ != "Text":
        assert out == raw or b"\\u00a7" in raw or "§".encode() in raw
    else:
        cut = out.index("§5§".encode())
        taken = "§5§ ".encode() if out.startswith("§5§ ".encode(), cut) else "§5§".encode()
        assert out[:cut] + out[cut + len(taken) :] == raw
    again = v1.read("anthropic", out, len)
    assert [a for i, a in enumerate(again.part_idents) if i != p] == [
        a for i, a in enumerate(incoming.part_idents) if i != p
    ]
    gone = v1.render("anthropic", raw, MessageSlots(parts=(PartSlots(),) * p + (PartSlots(body="absent"),)), no_text)
    if gone is not None and incoming.message.parts[p].__class__.__name__ != "Other":
        left = v1.read("anthropic", gone, len)
        assert left.part_idents == incoming.part_idents[:p] + incoming.part_idents[p + 1 :]


@pytest.mark.parametrize("token", ["1.10", "-0", "1e400", "NaN", "123456789012345678901", '"\\ud800"', '{"a":1,"a":2}'])
@pytest.mark.parametrize(
    ("codec", "raw", "p", "wanted"),
    [
        (
            "anthropic",
            '{"role":"user","content":[{"type":"text","text":"hi"},{"type":"x","v":TOKEN}]}',
            0,
            '"§5§ hi"',
        ),
        ("openai-chat", '{"role":"tool","x":TOKEN,"tool_call_id":"c","content":"hi"}', 0, '"§5§ hi"'),
        (
            "pi",
            '{"role":"toolResult","toolCallId":"c","details":TOKEN,"content":[{"type":"text","text":"hi"}]}',
            0,
            '"§5§ hi"',
        ),
    ],
)
def test_tokens_survive(codec: str, raw: str, p: int, wanted: str, token: str) -> None:
    """JSON-2."""
    given_ = raw.replace("TOKEN", token)
    slots = MessageSlots(parts=(PartSlots(),) * p + (PartSlots(tag=5),))
    assert v1.render(codec, given_.encode(), slots, no_text) == given_.replace('"hi"', wanted).encode()


def test_speed_is_shown() -> None:
    """Printed, not asserted (design.md 8); what is asserted is that the quick way out is taken."""
    text = 'def f(x):\n    return {"a": x}\n' * 70
    raw = v1.encode({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": text}]})
    slots = MessageSlots(parts=(PartSlots(tag=7),))
    tagged = v1.render("anthropic", raw, slots, no_text)
    assert tagged is not None
    assert v1.render("anthropic", raw, PLAIN, no_text) is raw
    for name, call in {
        "read": lambda: v1.read("anthropic", raw, len),
        "render": lambda: v1.render("anthropic", raw, slots, no_text),
        "blocks": lambda: v1.blocks("anthropic", tagged),
    }.items():
        best = min(_timed(call) for _ in range(20))
        print(f"{name}: {best * 1e6:.1f} µs for {len(raw)} bytes")


def _timed(call: Any) -> float:
    start = perf_counter()
    for _ in range(50):
        call()
    return (perf_counter() - start) / 50
