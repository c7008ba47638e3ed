"""Anything at all through every public door: a foldlog error with the state as it was, or a request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foldlog
from foldlog.domain.errors import FoldlogError
from support.talk import START, assistant, call, differences, fingerprint, result, text, user

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.binary(max_size=8),
    st.sampled_from(
        [
            "user",
            "assistant",
            "tool",
            "system",
            "toolResult",
            "text",
            "tool_use",
            "tool_result",
            "t0",
            "t1",
            "\ud800",
            "§1§",
            "§1§ x",
            "1-3",
            "1",
            "image",
            "thinking",
            "",
            " ",
            '{"a":1}',
            '{"role":"user","content":"a"}',
        ]
    ),
)
KEYS = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "id",
        "tool_use_id",
        "tool_call_id",
        "tool_calls",
        "name",
        "input",
        "arguments",
        "function",
        "source",
        "data",
        "thinking",
        "signature",
        "cache_control",
        "timestamp",
        "toolCallId",
        "x",
    ]
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=5), st.tuples(inner, inner)
    ),
    max_leaves=10,
)
BLOCK = st.one_of(
    st.builds(text, st.text(max_size=5)),
    st.builds(call, st.sampled_from(["t0", "t1", "t2"])),
    st.builds(result, st.sampled_from(["t0", "t1", "t2"]), st.one_of(st.text(max_size=4), ANYTHING)),
    st.dictionaries(KEYS, ANYTHING, max_size=4),
)
MESSAGE = st.one_of(
    ANYTHING,
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "tool", "system", "developer", "toolResult"]),
            "content": st.one_of(st.text(max_size=5), st.lists(BLOCK, max_size=3), ANYTHING),
        },
        optional={
            "id": ANYTHING,
            "tool_calls": ANYTHING,
            "tool_call_id": ANYTHING,
            "timestamp": ANYTHING,
            "toolCallId": ANYTHING,
        },
    ),
)
LIST = st.one_of(st.lists(MESSAGE, max_size=4), ANYTHING)
OPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("prepare"),
            LIST,
            st.one_of(st.none(), ANYTHING),
            st.one_of(st.none(), ANYTHING),
            st.one_of(st.none(), SCALARS),
        ),
        st.tuples(st.just("grow"), LIST),
        st.tuples(st.just("advance"), LIST, st.one_of(st.just([]), ANYTHING), st.one_of(st.just([]), ANYTHING)),
        st.tuples(st.just("revise"), st.integers(-1, 6), MESSAGE),
        st.tuples(st.just("retract"), st.lists(st.integers(-1, 6), max_size=3)),
        st.tuples(st.just("reduce"), st.one_of(SCALARS, ANYTHING), ANYTHING),
        st.tuples(st.just("expand"), ANYTHING, st.one_of(st.none(), ANYTHING)),
        st.tuples(st.just("usage"), SCALARS, SCALARS, SCALARS),
        st.tuples(
            st.just("failure"),
            st.one_of(st.sampled_from(["overflow", "not_processed", "aborted"]), SCALARS),
            SCALARS,
            SCALARS,
        ),
        st.tuples(st.just("flush"), SCALARS),
        st.tuples(st.just("loss"), SCALARS),
        st.tuples(st.just("fork"), ANYTHING, ANYTHING),
        st.tuples(
            st.just("options"),
            st.sampled_from(["model", "context_limit", "output_limit", "policy", "codec", "mode"]),
            ANYTHING,
        ),
    ),
    min_size=1,
    max_size=5,
)

FIRST: dict[str, list[Any]] = {
    "anthropic": [user("start"), assistant([call("t0")]), user([result("t0", "out"), text("and?")])],
    "openai-chat": [
        user("start"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t0", "type": "function", "function": {"name": "x", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "t0", "content": "out"},
    ],
    "openai-responses": [
        user("start"),
        {"type": "reasoning", "id": "rs_0", "summary": [], "encrypted_content": "QQ=="},
        {"type": "function_call", "id": "fc_0", "call_id": "t0", "name": "x", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t0", "output": "out"},
    ],
    "pi": [
        {"role": "user", "content": "start", "timestamp": 1},
        {"role": "assistant", "content": [], "timestamp": 2},
        {"role": "user", "content": "y", "timestamp": 3},
    ],
}


def perform(
    engine: foldlog.Engine, session: foldlog.Session, request: foldlog.Request, op: tuple[Any, ...], array: list[Any]
) -> Any:
    name, *given_values = op
    if name == "prepare":
        messages, system, tools, now = given_values
        return session.prepare(messages, system=system, tools=tools, now=now).messages_json
    if name == "grow":
        more = given_values[0]
        return session.prepare([*array, *more] if isinstance(more, list) else more, now=START).built
    if name == "advance":
        return session.advance(given_values[0], revised=given_values[1], retracted=given_values[2]).messages_json
    if name == "revise":
        return session.advance(revised=[tuple(given_values)]).messages_json
    if name == "retract":
        return session.advance(retracted=given_values[0]).messages_json
    if name == "reduce":
        return session.reduce(given_values[0], command=given_values[1])
    if name == "expand":
        return session.expand(*given_values)
    if name == "usage":
        return request.report_usage(input=given_values[0], cache_read=given_values[1], now=given_values[2])
    if name == "failure":
        return request.report_failure(given_values[0], limit=given_values[1], detail=given_values[2])
    if name == "flush":
        return session.flush(command=given_values[0])
    if name == "loss":
        return session.report_cache_loss(given_values[0])
    if name == "fork":
        return session.fork(given_values[0], at=given_values[1]).status()
    return engine.session("fuzz", **{given_values[0]: given_values[1]})


@pytest.mark.slow
@pytest.mark.rule("API-9", "PROP-11")
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.sampled_from(["anthropic", "openai-chat", "pi", "openai-responses"]), OPS)
def test_anything_at_all_is_an_error_of_ours_or_works(codec: str, ops: list[tuple[Any, ...]]):
    engine = foldlog.Engine.open("memory:", summarizer=None)
    session = engine.session("fuzz", codec=codec, context_limit=200_000)
    array = FIRST[codec]
    request = session.prepare(array, now=START)
    for op in ops:
        before = fingerprint(session)
        try:
            perform(engine, session, request, op, array)
        except foldlog.Refused:
            continue  # a refusal is stored
        except FoldlogError:
            assert fingerprint(session) == before
    assert differences(engine, "fuzz") == []
    said = {"role": "user", "content": "still here", **({"timestamp": 9} if codec == "pi" else {})}
    try:
        good = session.prepare([*array, said], now=START)
    except foldlog.Refused:
        return
    assert "still here" in good.messages_json[-1].decode()
