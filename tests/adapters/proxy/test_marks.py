"""The four cache marks, in bytes."""

from __future__ import annotations

import json
import re

import pytest

from foldlog.adapters.config import Config
from foldlog.adapters.proxy import marks
from foldlog.adapters.proxy.app import _policy
from foldlog.adapters.proxy.body import take
from foldlog.adapters.proxy.outgoing import Outgoing
from foldlog.adapters.proxy.protocols import protocol_for
from foldlog.adapters.proxy.protocols.anthropic import assemble

MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
BILL = "x-anthropic-billing-header: cc_version=2; cch="


def text(said: str, **more: object) -> dict:
    return {"type": "text", "text": said, **more}


def results(n: int, **more: object) -> dict:
    blocks = [{"type": "tool_result", "tool_use_id": f"t{i}", "content": "ok"} for i in range(n)]
    blocks[-1] |= more
    return {"role": "user", "content": blocks}


def request(messages: list, **members: object) -> bytes:
    return json.dumps({"model": "m", "messages": messages} | members, separators=(",", ":")).encode()


def outgoing(messages: list, head: int = 2, system: object = "S", tools: object = None) -> Outgoing:
    out = Outgoing(head=head, system=json.dumps(system).encode(), tools=json.dumps(tools).encode() if tools else b"")
    front = [{"role": "user", "content": [text(f"m{i}")]} for i in range(head)]
    for message in [*front, *messages]:
        out._add(json.dumps(message, separators=(",", ":")).encode())
    return out


def marked(data: bytes) -> list[str]:
    """Return the places of the marks, and of each one its lifetime."""
    value = json.loads(data)
    found = [f"tools{i}{ttl(tool)}" for i, tool in enumerate(value.get("tools") or []) if "cache_control" in tool]
    found += [f"system{i}{ttl(one)}" for i, one in enumerate(value.get("system") or []) if "cache_control" in one]
    for i, message in enumerate(value["messages"]):
        if isinstance(message["content"], list):
            found += [f"{i}.{j}{ttl(b)}" for j, b in enumerate(message["content"]) if "cache_control" in b]
    return found


def ttl(block: dict) -> str:
    return " " + block["cache_control"]["ttl"] if "ttl" in block["cache_control"] else ""


@pytest.mark.rule("PROXY-12")
def test_four_marks_wherever_the_client_put_its_own():
    client = [{"role": "user", "content": [text("a", **MARK)]}, results(2, **MARK)]
    tools = [{"name": "x", "input_schema": {}, **MARK}]
    body = take(request(client, system=[text("s", **MARK), text("t", **MARK)], tools=tools, **MARK), "messages")
    plain = [{"role": "user", "content": [text("a")]}, results(2)]
    out = outgoing(plain, system=[text("s"), text("t"), text("guidance")], tools=[{"name": "x", "input_schema": {}}])
    data = assemble(body, out)
    assert marked(data) == ["system2", "0.0", "1.0", "3.1"]
    assert "cache_control" not in json.loads(data)


@pytest.mark.rule("PROXY-12")
def test_marks_change_no_other_byte_and_thinking_and_blank_text_carry_none():
    last = {"role": "assistant", "content": [text("x"), {"type": "thinking", "thinking": "…", "signature": "s"}]}
    messages = [{"role": "user", "content": "hello"}, last, {"role": "user", "content": " \n"}]
    out = outgoing(messages, system="sys\nné")
    data = assemble(take(request(messages), "messages"), out)
    assert marked(data) == ["system0", "0.0", "1.0", "3.0"]
    bare = re.sub(rb',"cache_control":\{[^}]*\}', b"", data)
    assert b'"messages":[' + bytes(out.text) + b"]" in bare
    assert json.loads(bare)["system"] == [text("sys\nné")]
    alone = outgoing([{"role": "user", "content": "hello"}], head=0)
    assert marked(assemble(take(request(messages), "messages"), alone)) == ["system0", "0.0"]


@pytest.mark.rule("PROXY-12")
@pytest.mark.parametrize("blank", ["", " \n", []])
def test_a_blank_system_text_is_left_out(blank):
    body = take(request([{"role": "user", "content": "a"}], system=blank), "messages")
    out = outgoing([{"role": "user", "content": "a"}], system=blank)
    data = json.loads(assemble(body, out))
    assert "system" not in data
    assert marked(json.dumps(data).encode()) == ["0.0", "1.0", "2.0"]


@pytest.mark.rule("PROXY-13")
def test_a_tail_out_of_sight_is_marked_again_in_the_place_of_m0():
    body = take(request([results(1)]), "messages")
    out = outgoing([results(1)])
    assert marked(assemble(body, out)) == ["system0", "0.0", "1.0", "2.0"]
    out._add(json.dumps(results(30)).encode())
    for _ in range(2):  # the same request once more has the same marks
        assert marked(assemble(body, out)) == ["system0", "1.0", "2.0", "3.29"]
    out._add(json.dumps(results(5)).encode())
    assert marked(assemble(body, out)) == ["system0", "0.0", "1.0", "4.4"]


@pytest.mark.rule("PROXY-14")
@pytest.mark.parametrize(
    ("system", "tail", "found"),
    [
        (HOUR, MARK, ["system0 1h", "0.0 1h", "1.0 1h", "2.0"]),
        (HOUR, HOUR, ["system0 1h", "0.0 1h", "1.0 1h", "2.0 1h"]),
        (MARK, HOUR, ["system0 1h", "0.0 1h", "1.0 1h", "2.0 1h"]),
        (HOUR, {}, ["system0 1h", "0.0 1h", "1.0 1h", "2.0 1h"]),
        (MARK, MARK, ["system0", "0.0", "1.0", "2.0"]),
        ({}, {}, ["system0", "0.0", "1.0", "2.0"]),
    ],
)
def test_lifetimes_are_the_clients(system, tail, found):
    body = take(request([{"role": "user", "content": [text("a", **tail)]}], system=[text("s", **system)]), "messages")
    assert marked(assemble(body, outgoing([{"role": "user", "content": "a"}]))) == found
    assert marks.lifetimes(take(request([{"role": "user", "content": "a"}], **HOUR), "messages"), Outgoing()) == (
        "1h",
        "1h",
    )


@pytest.mark.rule("PROXY-14")
def test_a_session_lives_by_the_clients_lifetime():
    anthropic, chat = protocol_for("POST", "/v1/messages"), protocol_for("POST", "/v1/chat/completions")
    said = [({}, "5m"), (MARK, "5m"), (HOUR, "1h")]
    for mark, lifetime in said:
        body = take(request([{"role": "user", "content": [text("a", **mark)]}]), "messages")
        assert anthropic.lifetime(body, Outgoing()) == lifetime
    for asked, lifetime in (("24h", "24h"), ("in_memory", ""), (None, "")):
        body = take(request([{"role": "user", "content": "a"}], prompt_cache_retention=asked), "messages")
        assert chat.lifetime(body, Outgoing()) == lifetime
    config = Config()
    assert _policy(config, "1h").cache_ttl == "1h"
    assert _policy(config, "") is None
    assert _policy(Config(policy={"cache_ttl": "never"}), "1h").cache_ttl == "never"


@pytest.mark.rule("PROXY-15")
def test_the_billing_block_is_that_of_this_request():
    now = request([{"role": "user", "content": "a"}], system=[text(BILL + "new", **MARK), text("s", **MARK)])
    out = outgoing([{"role": "user", "content": "a"}], system=[text(BILL + "old"), text("s"), text("guidance")])
    data = json.loads(assemble(take(now, "messages"), out))
    assert data["system"] == [text(BILL + "new"), text("s"), text("guidance", **MARK)]


@pytest.mark.rule("PROXY-15")
def test_a_prompt_cache_key_goes_through_and_there_are_no_marks():
    chat = protocol_for("POST", "/v1/chat/completions")
    body = take(request([{"role": "user", "content": "a"}], prompt_cache_key="k"), "messages")
    data = chat.assemble(body, outgoing([{"role": "user", "content": "a"}], system=""))
    assert json.loads(data)["prompt_cache_key"] == "k"
    assert b"cache_control" not in data
