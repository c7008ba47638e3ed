"""How a call finds its session (specs/mcp.md)."""

from __future__ import annotations

import pytest

import foldlog
from foldlog.adapters.config import Config
from foldlog.adapters.mcp.reaching import answer, asked
from foldlog.domain.errors import FoldlogError, UnknownSession

CONFIG = Config(db="memory:")
CLAUDE = {"claudecode/toolUseId": "toolu_1", "progressToken": 2}
CODEX = {"callId": "call_1", "threadId": "t-1", "sessionId": "t-1", "itemId": "fc_1"}


@pytest.mark.rule("MCP-1")
def test_what_the_host_says_of_a_call_is_read():
    call = asked("ctx_reduce", {"drop": "1", "session": "api/x"}, CLAUDE)
    assert (call.id, call.thread, call.session, call.arguments) == ("toolu_1", "", "api/x", {"drop": "1"})
    call = asked("ctx_reduce", {"drop": "1"}, CODEX)
    assert (call.id, call.thread, call.session) == ("call_1", "t-1", "")
    call = asked("ctx_reduce", None, {"callId": 7, "threadId": ""})
    assert (call.id, call.thread, call.arguments) == ("", "", {})
    assert asked("ctx_reduce", {"session": 5}, None).session == ""


@pytest.mark.rule("MCP-1")
@pytest.mark.parametrize(
    ("meta", "session", "sent"),
    [
        (CLAUDE, "", {"tool_use_id": "toolu_1"}),
        (CODEX, "", {"tool_use_id": "call_1", "session": "t-1"}),
        (CODEX, "api/other", {"tool_use_id": "call_1", "session": "t-1"}),
        ({}, "api/x", {"session": "api/x"}),
        ({}, "", {}),
    ],
)
def test_the_proxy_is_asked_with_what_is_known(proxy, meta, session, sent):
    given = {"drop": "1", **({"session": session} if session else {})}
    assert answer(asked("ctx_reduce", given, meta), CONFIG, {}) == "Queued: drop 1."
    assert proxy.asked == [
        ("/foldlog/tools/ctx_reduce", f"Bearer {proxy.run.token}", {"arguments": {"drop": "1"}, **sent})
    ]


@pytest.mark.rule("MCP-2")
def test_what_the_proxy_refuses_is_told(proxy):
    proxy.answer = 404, {"error": {"code": "UNKNOWN_SESSION", "message": "2 open calls fit, in api/a, api/b"}}
    with pytest.raises(UnknownSession) as caught:
        answer(asked("ctx_reduce", {"drop": "1"}, {}), CONFIG, {})
    assert "api/a, api/b" in str(caught.value)
    proxy.answer = 422, {"error": {"code": "INVALID_RANGE", "message": "no list"}}
    with pytest.raises(FoldlogError) as other:
        answer(asked("ctx_reduce", {"drop": "x"}, {}), CONFIG, {})
    assert (other.value.code, str(other.value)) == ("INVALID_RANGE", "no list")


@pytest.mark.rule("MCP-5")
@pytest.mark.parametrize("said", [(500, {}), (200, {}), (200, {"text": None}), (403, {"error": "not yours"})])
def test_a_proxy_that_answers_nonsense_is_an_error_for_the_model(proxy, said):
    proxy.answer = said
    with pytest.raises(FoldlogError):
        answer(asked("ctx_expand", {"tag": "1"}, CLAUDE), CONFIG, {})


@pytest.mark.rule("MCP-9")
def test_of_several_proxies_each_is_asked_for_the_call(stand_ins):
    first, second = sorted((stand_ins(), stand_ins()), key=lambda one: one.run.port)
    first.answer = 404, {"error": {"code": "UNKNOWN_SESSION", "message": "no such call"}}
    assert answer(asked("ctx_reduce", {"drop": "1"}, CLAUDE), CONFIG, {}) == "Queued: drop 1."
    assert (len(first.asked), len(second.asked)) == (1, 1)
    with pytest.raises(UnknownSession) as caught:
        answer(asked("ctx_reduce", {"drop": "1"}, {}), CONFIG, {})
    assert "2 proxies" in str(caught.value)
    assert len(second.asked) == 1
    named = {"FOLDLOG_PROXY": str(second.file)}
    assert answer(asked("ctx_reduce", {"drop": "1"}, {}), CONFIG, named) == "Queued: drop 1."


@pytest.mark.rule("MCP-3")
def test_without_a_proxy_the_store_is_asked_by_name(tmp_path):
    config = Config(db=f"sqlite:///{tmp_path / 'x.db'}")
    with foldlog.Engine.open(config.db, summarizer=None) as engine:
        for harness in ("api", "other"):
            engine.session("one", harness).prepare([{"role": "user", "content": f"hello of {harness}"}])
    for missing in ("", "nobody", "one"):
        with pytest.raises(UnknownSession) as caught:
            answer(asked("ctx_expand", {"tag": "1", "session": missing}, CLAUDE), config, {})
        if missing != "nobody":
            assert "api/one" in str(caught.value)
            assert "other/one" in str(caught.value)
    said = answer(asked("ctx_expand", {"tag": "1", "session": "other/one"}, CLAUDE), config, {})
    assert said == "§1§ hello of other"
    for _ in range(2):  # MCP-4: the same call, applied once and answered alike
        said = answer(asked("ctx_reduce", {"drop": "1", "session": "other/one"}, CLAUDE), config, {})
        assert said.startswith("Queued")
    other = {"claudecode/toolUseId": "toolu_2"}
    assert "already" in answer(asked("ctx_reduce", {"drop": "1", "session": "other/one"}, other), config, {})
    with foldlog.Engine.open(config.db, summarizer=None) as engine:
        assert engine.session("one", "other").status().queued == 1
