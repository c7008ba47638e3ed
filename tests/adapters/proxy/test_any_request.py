"""Any bytes as a request: an error of foldlog, or a request that a decoder reads; never another exception."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foldlog
from foldlog.adapters.proxy.body import take
from foldlog.adapters.proxy.protocols import protocol_for
from foldlog.adapters.proxy.sessions import Opening, Sessions
from foldlog.domain.errors import FoldlogError, MessageError

PATHS = ("/v1/messages", "/v1/chat/completions", "/v1/messages/count_tokens", "/v1/responses")
_SCALAR = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "user", "text", "x-anthropic-billing-"])
_JSON = st.recursive(
    _SCALAR,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "role", "content", "cache_control", "id"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
_BLOCKS = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["text", "image", "odd"])}, optional={"text": _SCALAR | st.text()}),
    max_size=3,
)
_MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "user", "system"]), "content": st.text() | _BLOCKS},
        optional={"odd": _JSON},
    )
    | _JSON,
    max_size=4,
)
_OTHERS = ("tools", "metadata", "max_tokens", "user", "prompt_cache_key", "cache_control", "stream")
_BODY = st.fixed_dictionaries(
    {"model": _JSON, "messages": _MESSAGES, "input": _MESSAGES},
    optional={
        "system": _JSON | st.text() | _BLOCKS,
        "instructions": _JSON | st.text(),
        **dict.fromkeys(_OTHERS, _JSON),
    },
)
_HEADERS = st.dictionaries(
    st.sampled_from(["x-session-id", "x-claude-code-agent-id", "user-agent", "x-claude-code-request-class"]),
    st.sampled_from(["", "s", "claude-cli/2", "auxiliary", "subagent", "a" * 500, "\x00", "§ é/.."]),
)
GOOD = (
    b'{"model":"m","system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user",'
    b'"content":"hi"},{"role":"assistant","content":[{"type":"text","text":"a\\"}]"}]},{"role":"user","content":[{"type":'
    b'"text","text":"on","cache_control":{"type":"ephemeral"}}]}],"max_tokens":9}'
)


def registry() -> Sessions:
    engine = foldlog.Engine.open("memory:", summarizer=None)

    def opened(asked: Opening) -> foldlog.Session:
        return engine.session(asked.id, asked.harness, asked.codec, asked.model, mode=asked.mode)

    return Sessions(engine, opened)


@pytest.mark.rule("PROXY-2")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PATHS), _HEADERS, _BODY), min_size=1, max_size=3))
def test_any_json(requests: list[tuple[str, dict[str, str], dict[str, Any]]]):
    sessions = registry()
    for path, headers, value in requests:
        protocol = protocol_for("POST", path)
        try:
            admitted = sessions.admit(protocol, headers, json.dumps(value).encode())
        except FoldlogError:
            continue
        try:
            if admitted.managed is not None:
                assert isinstance(json.loads(sessions.prepare(admitted).data), dict)
        except FoldlogError:
            pass
        finally:
            sessions.done(admitted)
    assert all(one.users == 0 for one in sessions.all())


@pytest.mark.rule("PROXY-2")
@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, len(GOOD) - 1),
    st.integers(0, len(GOOD) - 1),
    st.binary(max_size=3) | st.sampled_from([b'"', b"\\", b"]"]),
)
def test_any_bytes(begin: int, end: int, put: bytes):
    """A body whose bytes were damaged is refused, or the same is taken of it with and without a last one."""
    raw = GOOD[:begin] + put + (GOOD[end:] if end > begin else GOOD[begin + 1 :])
    try:
        body = take(raw, "messages", take(GOOD, "messages"))
    except MessageError:
        return
    alone = take(raw, "messages")
    assert (body.messages, body.members, body.spans) == (alone.messages, alone.members, alone.spans)


@pytest.mark.rule("PROXY-10")
def test_many_at_once():
    sessions = registry()
    sessions._limit = 10_000
    protocol = protocol_for("POST", "/v1/messages")
    failed: list[BaseException] = []

    def talk(name: str) -> None:
        messages = [{"role": "user", "content": "hello"}]
        try:
            for n in range(8):
                raw = json.dumps({"model": "m", "messages": messages}).encode()
                admitted = sessions.admit(protocol, {"x-session-id": name} if name else {}, raw)
                try:
                    data = json.loads(sessions.prepare(admitted).data)
                finally:
                    sessions.done(admitted)
                assert data["messages"][-1]["role"] == "user"
                messages += [{"role": "assistant", "content": f"{name} {n}"}, {"role": "user", "content": f"go {n}"}]
        except BaseException as error:  # noqa: BLE001 - of a thread: shown below
            failed.append(error)

    threads = [threading.Thread(target=talk, args=(name,)) for name in ("a", "b", "a", "", "", "c")]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    assert all(one.users == 0 for one in sessions.all())
