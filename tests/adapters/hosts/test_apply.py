"""The plugins' own view code against the golden vectors: what JavaScript makes equals what Python renders."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from foldlog.adapters.hosts.edits import entry, unit
from foldlog.domain.edits import Insert, MessageSlots, PartSlots
from foldlog.projections.wire import v1
from foldlog.projections.wire.v1.forms import canonical, decode
from support.any_messages import CHUNKS as ANY
from support.any_messages import message_slots, messages
from support.node import needs_node, run

pytestmark = needs_node
HERE = Path(__file__).parent
VECTORS = HERE.parents[2] / "specs" / "vectors"
WIRE: dict[str, Any] = json.loads((VECTORS / "wire-v1.json").read_text("utf-8"))
CHUNKS = {sha256(text.encode()).digest(): text for text in WIRE["chunks"].values()}


def digest(name: str) -> bytes:
    return sha256(WIRE["chunks"][name].encode()).digest() if name else b""


def part_slots(name: str) -> PartSlots:
    given = dict(WIRE["slots"][name])
    for key in ("pre", "post"):
        given[key] = tuple((kind, digest(chunk)) for kind, chunk in given.get(key, ()))
    return PartSlots(**{**given, "text": digest(given.get("text", ""))})


def slots_of(case: dict[str, Any]) -> MessageSlots:
    parts = tuple(part_slots(name) for name in case["parts"])
    return MessageSlots(parts, case.get("shape", "keep"), digest(case.get("text", "")), case.get("trail", -1))


@pytest.mark.parametrize("codec", ["opencode", "pi"])
def test_javascript_renders_the_vectors(codec: str) -> None:
    """EDIT-2, EDIT-3, EDIT-4: values and block digests are equal, and nothing of the host's is written to."""
    cases = [case for case in WIRE["cases"] if case["codec"] == codec]
    assert len(cases) > 100
    raws = [WIRE["messages"][case["message"]]["raw"] for case in cases]
    given = [
        {"codec": codec, "raw": raw, "entry": {"id": "m", **entry(slots_of(case), CHUNKS.__getitem__)}}
        for case, raw in zip(cases, raws, strict=True)
    ]
    for case, raw, found in zip(cases, raws, run(HERE / "vectors.mjs", {"cases": given})["cases"], strict=True):
        wanted = json.loads(raw if case["out"] == "=" else case["out"] or "null")
        assert found["out"] == wanted, case
        if case["out"] is not None:
            assert [one[:16] for one in found["digests"]] == case["digests"], case


@pytest.mark.parametrize("codec", ["opencode", "pi"])
def test_javascript_writes_what_stands_between_messages(codec: str) -> None:
    """EDIT-3, EDIT-4, VIEW-18."""
    cases = [case for case in WIRE["inserts"] if case["codec"] == codec]
    units = [unit(Insert(1, 0, "x", c["kind"], b"c", c["role"]), lambda _, c=c: c["text"]) for c in cases]  # type: ignore[misc]
    found = run(HERE / "vectors.mjs", {"cases": [], "units": [{"codec": codec, "unit": one} for one in units]})
    for case, made in zip(cases, found["units"], strict=True):
        assert made["out"] == [json.loads(one) for one in case["out"]], case
        assert [one[:16] for one in made["digests"]] == case["digests"], case


def test_javascript_strips_notation_as_python_does() -> None:
    """VIEW-16, VIEW-17."""
    echo = json.loads((VECTORS / "echo.json").read_text("utf-8"))
    said, kept = echo["strip_echo"], echo["strip_all"]
    given = {"cases": [], "echo": [a for a, _ in said], "kept": [a for a, _ in kept]}
    found = run(HERE / "vectors.mjs", given)
    assert found["echo"] == [b for _, b in said]
    assert found["kept"] == [b for _, b in kept]


VALUES = [
    {"b": 1, "a": [True, None, "x"], "é": "ü\u2028\x7f\x1f", "\U0001f600": 1, "\uffff": 2, "": {}},
    [0, -1, 1.5, 1e-5, 1.5e-6, 1e-7, 123456789012345680000, 2**53, 0.1, 5e-324, 1.7976931348623157e308, 1.25e300, 12.5],
    '\b\f\n\r\t"\\/',
    {"lone": "a\ud800é", "pair": "\U0001f600"},
]


def test_javascript_writes_canonical_json_as_python_does() -> None:
    """EDIT-4, JSON-6."""
    texts = [json.dumps(value) for value in VALUES]
    given = [json.dumps(json.loads(text, parse_float=_as_javascript)) for text in texts]
    found = run(HERE / "vectors.mjs", {"cases": [], "values": given})["canonical"]
    assert [one.encode("utf-8", "surrogatepass") for one in found] == [canonical(decode(one.encode())) for one in given]


def _as_javascript(token: str) -> Any:
    """Return a number as JSON.stringify writes it: whole ones without a point up to 21 digits."""
    value = float(token)
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


@pytest.mark.slow
def test_javascript_renders_any_message_under_any_slots() -> None:
    """EDIT-2, EDIT-3, EDIT-4: not only the vectors."""
    cases: list[tuple[str, bytes, MessageSlots]] = []

    @settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
    @given(messages(), message_slots)
    def gather(message: tuple[str, bytes], slots: MessageSlots) -> None:
        if message[0] in ("opencode", "pi"):
            cases.append((*message, slots))

    gather()
    assert len(cases) > 100
    given_ = [
        {"codec": codec, "raw": raw.decode(), "entry": {"id": "m", **entry(slots, lambda d: ANY[d].decode())}}
        for codec, raw, slots in cases
    ]
    for case, found in zip(cases, run(HERE / "vectors.mjs", {"cases": given_})["cases"], strict=True):
        codec, raw, slots = case
        out = v1.render(codec, raw, slots, ANY.__getitem__)
        assert found["out"] == (None if out is None else json.loads(out)), case
        if out is not None:
            assert found["digests"] == [block.digest.hex() for block in v1.blocks(codec, out)], case
