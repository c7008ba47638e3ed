"""Any bytes as a request or as an answer: an error for people or a valid state, and never a defect."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from support.proxy import AGENT, Provider, Proxy, body, events, failed, streamed, user

pytestmark = pytest.mark.slow

CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
TOOL_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
BASES = {
    "/v1/messages": body(
        [user("hello"), {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT]}],
        tools=[{"name": "Bash", "description": "d", "input_schema": {"type": "object"}}],
        metadata={"user_id": "u"},
    ),
    "/v1/chat/completions": {
        "model": "gpt-5",
        "stream": True,
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "q"},
            {"role": "assistant", "tool_calls": [TOOL_CALL]},
            {"role": "tool", "tool_call_id": "c", "content": "o"},
        ],
    },
    "/v1/responses": {
        "model": "gpt-5",
        "stream": True,
        "instructions": "i",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "o"},
        ],
        "tools": [{"type": "function", "name": "f"}],
    },
}  # fmt: skip
PIECES = (
    b"null", b"{}", b"[]", b'""', b"1e400", b"-0", b"true", b'"\\ud800"', b"[[[[", b"}", b'{"a":{"a":1}}', b"9" * 400,
    b"\xff", b"\x00", b" ", b",", b'"role"', b'"type":"thinking"', b'"cache_control":{"type":"ephemeral"}',
)  # fmt: skip
VALUES = (
    None,
    1,
    "x",
    [],
    {},
    [1],
    [{}],
    [[]],
    True,
    {"type": "x"},
    [{"role": "user"}],
    [{"role": "user", "content": None}],
)


def broken(draw: random.Random, raw: bytes) -> bytes:
    """Return ``raw`` with a few places exchanged."""
    made = bytearray(raw)
    for _ in range(draw.randint(1, 4)):
        at, size = draw.randrange(len(made)), draw.choice([0, 1, 1, 5, 20])
        made[at : at + size] = draw.choice(PIECES) if draw.random() < 0.7 else bytes([draw.randrange(256)])
    return bytes(made)


@pytest.mark.parametrize("seed", range(2))
def test_any_request(provider: Provider, proxy: Proxy, seed: int) -> None:
    """PROXY-2, PROXY-63."""
    draw = random.Random(seed)
    provider.usual = failed(200, {"ok": 1})
    for step in range(120):
        path = draw.choice(list(BASES))
        given: Any = dict(BASES[path])
        if draw.random() < 0.35:
            given[draw.choice(list(given))] = draw.choice(VALUES)
            raw = json.dumps(given).encode()
        else:
            raw = broken(draw, json.dumps(given).encode())
        name = "x-claude-code-session-id" if path == "/v1/messages" else "session-id"
        headers = {name: f"s{step % 7}" if draw.random() < 0.5 else f"f{step}"} if draw.random() < 0.6 else {}
        answer = proxy.client.post(path, content=raw, headers=headers)
        assert answer.status_code in (200, 400, 413), (raw, answer.text)
        if answer.status_code != 200:
            assert json.loads(answer.content)["error"]["message"].startswith("foldlog:")
    proxy.settle()
    engine = proxy.door.gate._engine
    assert not [name for name, _ in engine.sessions() if engine.audit(name).differences]


@pytest.mark.parametrize("seed", range(2))
def test_any_answer(provider: Provider, proxy: Proxy, seed: int) -> None:
    """PROXY-50: whatever it is, the client gets its bytes."""
    draw = random.Random(seed)
    whole = b"".join(events(input_tokens=5, id="m"))
    for step in range(50):
        raw = broken(draw, whole)
        cuts = sorted(draw.randrange(len(raw)) for _ in range(draw.randint(0, 5)))
        pieces = [piece for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True) if (piece := raw[a:b])]
        reply = streamed(pieces) if draw.random() < 0.7 else failed(draw.choice([200, 400, 500]), raw)
        provider.script = [reply]
        answer = proxy.client.post(
            "/v1/messages",
            json=body([user("hello")]),
            headers={"x-claude-code-session-id": f"s{step}", "user-agent": AGENT},
        )
        assert answer.content == raw
    assert not [moment for moment in proxy.moments() if moment["outcome"] == ""]
