"""What the tools do to a session (specs/mcp.md)."""

from __future__ import annotations

import pytest

import foldlog
from foldlog.adapters.mcp import tools
from foldlog.domain.errors import InputError, UnknownTag


@pytest.fixture
def session():
    with foldlog.Engine.open("memory:", summarizer=None) as engine:
        made = engine.session("s")
        made.prepare(
            [
                {"role": "user", "content": "look at both"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"path": f"{n}"}} for n in (1, 2)
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"text {n}" * 20_000} for n in (1, 2)
                    ],
                },
            ]
        )
        yield made


@pytest.mark.rule("MCP-4")
def test_reduce_queues_once(session):
    first = tools.perform("ctx_reduce", session, {"drop": "2"}, "call-1")
    assert "drop" in first
    assert tools.perform("ctx_reduce", session, {"drop": "2"}, "call-1") == first
    assert "already" in tools.perform("ctx_reduce", session, {"drop": "2"}, "call-2")
    assert session.status().queued == 1


@pytest.mark.parametrize("arguments", [{}, {"drop": ""}, {"drop": "x"}, {"drop": 7.5}, {"drop": ["1"]}, {"drop": "99"}])
def test_reduce_says_what_is_wrong(session, arguments):
    with pytest.raises(InputError) as caught:
        tools.perform("ctx_reduce", session, arguments)
    assert str(caught.value)
    assert session.status().queued == 0


@pytest.mark.rule("MCP-6")
def test_expand_brings_originals_back_and_names_what_it_cuts(session):
    assert tools.perform("ctx_expand", session, {"tag": "1"}) == "§1§ look at both"
    assert "look at both" in tools.perform("ctx_expand", session, {"start": 1})
    both = tools.perform("ctx_expand", session, {"tag": "2-3"})
    assert len(both) < tools.LONGEST + 200
    assert both.startswith("§2§ text 1")
    assert "more characters of §2§" in both
    assert "Not shown: §3§" in both


@pytest.mark.parametrize(
    "arguments", [{}, {"tag": "1", "start": 1}, {"tag": "99"}, {"tag": "a"}, {"start": 50}, {"start": "x"}, {"end": 1}]
)
def test_expand_says_what_is_wrong(session, arguments):
    with pytest.raises((InputError, UnknownTag)) as caught:
        tools.perform("ctx_expand", session, arguments)
    assert str(caught.value)


def test_an_unknown_tool_names_those_there_are(session):
    with pytest.raises(InputError) as caught:
        tools.perform("ctx_reducer", session, {})
    assert "ctx_reduce, ctx_expand" in str(caught.value)


def test_every_row_is_complete():
    for row in tools.TABLE:
        assert row.schema["type"] == "object"
        assert row.description
        assert set(row.schema.get("required", ())) <= set(row.schema["properties"])
