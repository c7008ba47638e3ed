"""Who sends a request, told from the request itself."""

from __future__ import annotations

import json

import pytest

from foldlog.adapters.proxy.body import take
from foldlog.adapters.proxy.protocols import Caller, protocol_for
from support.wires import sent

CLAUDE = {"user-agent": "claude-cli/2.1.332 (external, cli)"}
TOOL = {"name": "Read", "description": "", "input_schema": {"type": "object"}}
SESSION = "6688f48e-5620-46c2-938e-a610a9284bf2"


def caller(headers: dict[str, str], path: str = "/v1/messages", **members: object) -> Caller:
    members = {"model": "m", "messages": [{"role": "user", "content": "hi"}]} | members
    protocol = protocol_for("POST", path)
    return protocol.who(headers, take(json.dumps(members).encode(), protocol.member))


def recorded(run: str) -> list[tuple[str, str, str | None, str | None]]:
    found = []
    for one in sent(run):
        protocol = protocol_for("POST", one.path)
        told = protocol.who(one.headers, take(one.raw, protocol.member))
        found.append((told.kind, told.harness, told.session, told.agent))
    return found


@pytest.mark.rule("PROXY-4", "PROXY-5", "PROXY-6")
def test_recorded_hosts():
    main = ("main", "claude-code", SESSION, None)
    child = ("subagent", "claude-code", SESSION, "a6f34e9c5127274a3")
    assert recorded("claude-code/wire_agent332") == [main, child, child, main]
    long = "9fdb000f-0f45-4a1d-9d13-15e46b346fee"
    assert [kind for kind, *_ in recorded("claude-code/wire_toolong332")] == ["main", "main", "compaction", "main"]
    assert {session for _, _, session, _ in recorded("claude-code/wire_toolong332")} == {long}
    assert {told[0] for told in recorded("omp/wire_omp_ant")} == {"main"}
    assert [told[0] for told in recorded("opencode/wire_openai")] == ["helper", *["main"] * 5]
    serve = [kind for kind, *_ in recorded("opencode/wire_serve")]
    assert serve == [*["main"] * 6, "subagent", "compaction"]
    assert {told[:3] for told in recorded("pi/wire_ant")} == {("main", "pi", None)}


@pytest.mark.rule("PROXY-4")
def test_ids_made_for_one_session_name_it_and_others_only_narrow():
    assert caller({"x-claude-code-session-id": "s"}).session == "s"
    assert caller({"x-session-affinity": "ses_a"}).session == "ses_a"
    assert caller({}, metadata={"user_id": json.dumps({"session_id": "s"})}).session == "s"
    assert caller({}, metadata={"user_id": f"user_ab_account__session_{SESSION}"}).session == SESSION
    shared = caller({}, metadata={"user_id": "customer 7"})
    assert (shared.session, shared.scope) == (None, "customer 7")
    chat = "/v1/chat/completions"
    assert caller({}, chat, prompt_cache_key=SESSION).session == SESSION
    assert caller({}, chat, prompt_cache_key="ses_0123456789ab").session == "ses_0123456789ab"
    shared = caller({}, chat, prompt_cache_key="my-app", user="ann")
    assert (shared.session, shared.scope) == (None, "my-app ann")
    assert caller({"x-session-id": " "}, metadata=5, user="x").session is None


@pytest.mark.rule("PROXY-5")
def test_subagents():
    for path in ("/v1/messages", "/v1/chat/completions"):
        assert caller({"x-parent-session-id": "p", "x-session-id": "c"}, path).kind == "subagent"
    assert caller({"x-claude-code-request-class": "workflow"}).kind == "subagent"
    system = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cc_is_subagent=1;"}]
    assert caller(CLAUDE, system=system).kind == "subagent"
    assert caller(CLAUDE, system=[{"type": "text", "text": "about cc_is_subagent=1"}]).kind == "main"


@pytest.mark.rule("PROXY-6")
def test_calls_beside_the_conversation():
    assert caller(CLAUDE, max_tokens=1, messages=[{"role": "user", "content": "quota"}]).kind == "helper"
    assert caller(CLAUDE, max_tokens=1, tools=[TOOL]).kind == "main"  # it keeps the session's cache warm
    assert caller({"x-claude-code-request-class": "auxiliary"}, tools=[TOOL]).kind == "helper"
    assert caller({"x-claude-code-request-class": "compaction"}, tools=[TOOL]).kind == "compaction"
    assert caller({}, "/v1/messages/count_tokens").kind == "count"
    said = "[SUGGESTION MODE: Suggest what the user might naturally type next into Claude Code.]\n…"
    asks = [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": said}]}]
    assert caller(CLAUDE, tools=[TOOL], messages=asks).kind == "helper"
    assert caller({}, tools=[TOOL], messages=asks).kind == "main"  # another client's person may say so
    quoted = [{"role": "user", "content": "why does it say " + said}]
    assert caller(CLAUDE, tools=[TOOL], messages=quoted).kind == "main"
    titles = "You are a title generator. You output ONLY a thread title."
    assert caller({}, system=titles).kind == "helper"
    assert caller({}, system=titles, tools=[TOOL]).kind == "main"
    chat = [{"role": "system", "content": titles}, {"role": "user", "content": "hi"}]
    assert caller({}, "/v1/chat/completions", messages=chat).kind == "helper"


def test_paths():
    assert protocol_for("GET", "/v1/messages") is None
    assert protocol_for("POST", "/v1/models") is None
    assert protocol_for("post", "/v1/messages/?beta=true").name == "anthropic"
