"""The Responses wire: who calls, what an answer tells, what goes out, and input that goes on behind an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard

import foldlog
from foldlog.adapters.config import Config
from foldlog.adapters.proxy.body import Body, take
from foldlog.adapters.proxy.protocols import Caller, Usage, protocol_for
from foldlog.adapters.proxy.protocols.responses import COMPACTING, RESPONSES
from foldlog.adapters.proxy.sessions import Admitted, Opening, Sessions
from foldlog.domain.errors import InputError, OptionError
from support.proxy import Provider, Proxy, serving, streamed
from support.rules import rule

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "hosts" / "samples" / "codex"
THREAD = "01a22b9e-9013-7672-9fe4-ef1a3194e75b"
ROOT = "01a22b9e-9013-7672-9fe4-000000000000"
CODEX = {"user-agent": "codex_exec/0.171.0 (Debian) xterm", "session-id": ROOT, "thread-id": THREAD}
TOOL = {"type": "function", "name": "exec_command", "parameters": {"type": "object"}}


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def call(name: str) -> dict[str, Any]:
    return {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": "exec_command", "arguments": "{}"}


def output(name: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": name, "output": "x"}


def body(*items: Any, **members: Any) -> Body:
    return take(json.dumps({"model": "m", "tools": [TOOL], "input": list(items), **members}).encode(), "input")


def who(headers: dict[str, str], *items: Any, **members: Any) -> Caller:
    return RESPONSES.who(headers, body(*(items or (user("hi"),)), **members))


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/v1/responses", RESPONSES),
        ("/v1/responses?x=1", RESPONSES),
        ("/backend-api/codex/responses", RESPONSES),
        ("/v1/responses/compact", COMPACTING),
        ("/v1/responses/resp_1/cancel", None),
        ("/v1/responses/input_tokens", None),
    ],
)
def test_paths(path: str, known: Any) -> None:
    assert protocol_for("POST", path) is known
    assert protocol_for("GET", path) is None


@rule("CODEX-1")
def test_codex_names_its_thread() -> None:
    """A subagent's session-id is that of its root, so the thread tells."""
    main = who(CODEX, prompt_cache_key=THREAD)
    assert (main.kind, main.harness, main.session) == ("main", "codex", THREAD)
    sub = who({**CODEX, "x-openai-subagent": "review"})
    assert (sub.kind, sub.session) == ("subagent", THREAD)
    assert who({**CODEX, "x-codex-parent-thread-id": ROOT}).kind == "subagent"
    told = {"x-codex-turn-metadata": json.dumps({"thread_id": THREAD, "thread_source": "subagent"})}
    assert who({"user-agent": "codex-tui/1", **told}) == who({**told, "user-agent": "codex-tui/1", "session-id": ROOT})
    assert who({"user-agent": "codex-tui/1", **told}).session == THREAD
    # other clients: the cache key where it is made for one session
    assert who({"user-agent": "x"}, prompt_cache_key=THREAD).session == THREAD
    assert who({"user-agent": "x"}, prompt_cache_key="my-app").session is None
    assert who({"user-agent": "x"}, prompt_cache_key="my-app").scope == "my-app"


@rule("CODEX-2")
def test_calls_beside_the_conversation() -> None:
    compaction = [
        who({**CODEX, "x-openai-subagent": "compact"}),
        who({**CODEX, "x-codex-turn-metadata": '{"request_kind":"compaction"}'}),
        who(CODEX, user("hi"), {"type": "compaction_trigger"}),
        who(CODEX, user("hi"), user("You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff")),
        COMPACTING.who(CODEX, body(user("hi"))),
    ]
    assert {one.kind for one in compaction} == {"compaction"}
    assert all(one.why for one in compaction)
    title = who(CODEX, user("x"), tools=[], instructions="Generate a concise, single-line task title of at most 60")
    assert title.kind == "helper"
    assert (who(CODEX, generate=False).kind, who(CODEX, generate=True).kind) == ("helper", "main")
    assert who(CODEX, {"type": "compaction", "encrypted_content": "x"}, user("go on")).kind == "main"
    assert who({**CODEX, "x-codex-turn-metadata": '{"request_kind":"of_a_later_year"}'}).kind == "main"
    assert who({**CODEX, "x-codex-turn-metadata": "{broken"}).kind == "main"


def events(*items: dict[str, Any], usage: Any = None, store: bool = True, end: str = "completed") -> bytes:
    said = {"id": "resp_1", "model": "gpt-x", "store": store, "status": "in_progress", "output": [], "usage": None}
    told: list[dict[str, Any]] = [{"type": "response.created", "response": said}]
    for index, item in enumerate(items):
        told.append({"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""}})
        told.append({"type": "response.output_text.delta", "delta": "x" * 40})
        told.append({"type": "response.output_item.done", "output_index": index, "item": item})
    told.append({"type": f"response.{end}", "response": {**said, "status": end, "usage": usage}})
    return b"".join(b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in told)


USED = {
    "input_tokens": 900,
    "input_tokens_details": {"cached_tokens": 640, "cache_write_tokens": 100},
    "output_tokens": 7,
}


def read(data: bytes, step: int = 7) -> Usage:
    meter = RESPONSES.meter()
    for at in range(0, len(data), step):
        meter.feed(data[at : at + step])
    return meter.result()


@pytest.mark.parametrize("step", [1, 7, 64, 100_000])
def test_a_stream_is_read_wherever_it_is_split(step: int) -> None:
    """Cached tokens are part of the input tokens; what is told apart is what was neither read nor written."""
    found = read(events({"type": "reasoning", "id": "rs_1", "summary": []}, call("c1"), usage=USED), step)
    assert (found.input, found.cache_read, found.cache_write, found.output) == (160, 640, 100, 7)
    assert (found.response_id, found.model, found.stop, found.complete) == ("resp_1", "gpt-x", "completed", True)
    assert found.calls == (("c1", "exec_command"),)
    assert [json.loads(item)["type"] for item in found.items] == ["reasoning", "function_call"]


def test_what_an_answer_did_not_say_is_not_known() -> None:
    found = read(events(call("c1"), end="incomplete", store=False))
    assert (found.input, found.cache_read, found.output) == (None, None, None)
    assert (found.complete, found.stop, found.items) == (True, "incomplete", ())
    half = events(call("c1"))
    half = half[: half.index(b"event: response.completed")]
    assert not read(half).complete
    assert read(half).calls == (("c1", "exec_command"),)
    assert read(b"") == read(b"<html>") == Usage()


def test_errors_inside_a_stream_and_instead_of_one() -> None:
    failed = {"type": "response.failed", "response": {"id": "resp_1", "error": {"code": "context_length_exceeded"}}}
    for event in (failed, {"type": "error", "code": "server_error", "message": "x"}):
        found = read(b"event: x\ndata: " + json.dumps(event).encode() + b"\n\n")
        assert json.loads(found.error) == event
        assert not found.complete
    assert b"too long" in read(b'{"error":{"message":"too long"}}').error
    whole = {"id": "resp_2", "status": "completed", "error": None, "output": [call("c2")], "usage": USED}
    found = read(json.dumps(whole, indent=1).encode())
    assert (found.complete, found.error, found.calls) == (True, b"", (("c2", "exec_command"),))
    assert (found.input, found.response_id) == (160, "resp_2")


def test_a_refusal_is_in_the_provider_s_shape() -> None:
    status, headers, raw = RESPONSES.refusal("TOO_LONG", "it does not fit", 400)
    assert (status, headers["content-type"]) == (400, "application/json")
    assert json.loads(raw)["error"]["code"] == "TOO_LONG"


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    engine = foldlog.Engine.open("memory:", summarizer=None)

    def opened(wanted: Opening) -> foldlog.Session:
        return engine.session(
            wanted.id, harness=wanted.harness, codec=wanted.codec, mode=wanted.mode, context_limit=200_000
        )

    yield Sessions(engine, opened)
    engine.close()


def request(*items: Any, **members: Any) -> bytes:
    return json.dumps({"model": "m", "stream": True, "input": list(items), "tools": [TOOL], **members}).encode()


def sent(sessions: Sessions, raw: bytes, headers: dict[str, str] = CODEX) -> tuple[Admitted, dict[str, Any]]:
    admitted = sessions.admit(RESPONSES, headers, raw)
    data = sessions.prepare(admitted).data
    sessions.done(admitted)
    found: dict[str, Any] = json.loads(data)
    return admitted, found


@rule("PROXY-3")
def test_all_else_goes_out_byte_for_byte(sessions: Sessions) -> None:
    raw = (
        b'{"store" : false, "model":"m", "x":1.10,"input":[ ' + json.dumps(user("hi")).encode() + b' ],\n"tools": [ '
        + json.dumps(TOOL).encode() + b'],"prompt_cache_key":"k"}'
    )  # fmt: skip
    admitted = sessions.admit(RESPONSES, CODEX, raw)
    data = sessions.prepare(admitted).data
    assert data.endswith(b',"prompt_cache_key":"k"}')
    assert b'"store" : false, "model":"m", "x":1.10,"input":[' in data
    found = json.loads(data)
    assert [item["role"] for item in found["input"]] == ["user"] * 3  # the head, then what was said
    assert "ctx_reduce" not in str(found["tools"])
    assert found["input"][2]["content"][0]["text"].endswith("hi")


@rule("ITEM-1")
def test_instructions_and_what_leads(sessions: Sessions) -> None:
    tools = [TOOL, {"type": "namespace", "name": "mcp__foldlog", "tools": [{**TOOL, "name": "ctx_reduce"}]}]
    developer = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Agent."}]}
    _, found = sent(sessions, request(developer, user("hi"), instructions="Be brief.", tools=tools))
    assert found["instructions"] == "Be brief."
    assert found["input"][0]["content"][0]["text"] == "Agent."
    assert len(found["input"][0]["content"]) == 2  # the guidance
    _, other = sent(sessions, request(user("hi"), instructions="Be brief.", tools=tools), {"user-agent": "x"})
    assert other["instructions"].startswith("Be brief.\n\n")
    _, bare = sent(sessions, request(user("hello"), instructions="", tools=tools), {"user-agent": "x"})
    assert bare["instructions"]  # the guidance, where nothing else can hold it
    _, plain = sent(sessions, request(user("hey"), instructions=""), {"user-agent": "x"})
    assert plain["instructions"] == ""


def test_an_input_that_is_a_text(sessions: Sessions) -> None:
    raw = b'{"model":"m","input":"say \\"hi\\"","tools":[]}'
    _, found = sent(sessions, raw, {"user-agent": "x"})
    assert found["input"][-1]["content"].endswith('say "hi"')


@rule("PREV-1")
def test_an_input_behind_a_known_answer_is_made_whole(sessions: Sessions) -> None:
    """The provider gets the whole input, as the client would have sent it, so foldlog may fold it."""
    headers = {"user-agent": "an-sdk/1"}
    first, _ = sent(sessions, request(user("hi"), store=True), headers)
    assert first.managed is not None
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    first.managed.answered(read(events(thought, call("c1"), usage=USED)), first.body)
    second, found = sent(sessions, request(output("c1"), previous_response_id="resp_1", store=True), headers)
    assert second.managed is first.managed
    assert "previous_response_id" not in found
    assert found["store"] is True
    kinds = [item.get("type") for item in found["input"]]
    assert kinds == ["message", "message", "message", "reasoning", "function_call", "function_call_output"]
    assert found["input"][3] == thought
    # the same, said in full by a client that keeps its history
    whole = sessions.admit(RESPONSES, headers, request(user("hi"), thought, call("c1"), output("c1"), store=True))
    assert whole.managed is first.managed
    assert json.loads(sessions.prepare(whole).data)["input"] == found["input"]


@rule("PREV-2")
def test_an_input_behind_an_unknown_answer_is_refused(sessions: Sessions) -> None:
    """With the API's own word for an answer it no longer has: clients know to send everything then."""
    with pytest.raises(InputError) as caught:
        sessions.admit(RESPONSES, CODEX, request(output("c1"), previous_response_id="resp_9"))
    assert caught.value.code == "previous_response_not_found"
    first, _ = sent(sessions, request(user("hi"), store=True))
    assert first.managed is not None
    first.managed.answered(read(events(call("c1"), usage=USED)[:-200]), first.body)  # a stream that broke
    with pytest.raises(InputError):
        sessions.admit(RESPONSES, CODEX, request(output("c1"), previous_response_id="resp_1"))
    with pytest.raises(OptionError, match="conversation"):
        sessions.admit(RESPONSES, CODEX, request(user("hi"), conversation="conv_1"))
    helper = sessions.admit(RESPONSES, CODEX, request({"type": "compaction_trigger"}, previous_response_id="resp_9"))
    assert helper.managed is None  # it goes through untouched


@rule("PREV-3")
def test_answers_of_clients_that_keep_their_history_are_not_kept(sessions: Sessions) -> None:
    first, _ = sent(sessions, request(user("hi"), store=False))
    assert first.managed is not None
    first.managed.answered(read(events(call("c1"), store=False)), first.body)
    assert first.managed.answers == {}
    for number in range(12):
        told = read(events(call("c1")).replace(b"resp_1", b"resp_%d" % number))
        first.managed.answered(told, first.body)
    assert list(first.managed.answers) == [f"resp_{number}" for number in range(4, 12)]


def test_an_unnamed_client_finds_its_session_by_its_calls(sessions: Sessions) -> None:
    """Two that begin alike: the answer they go on with tells them apart, though it begins with reasoning."""
    headers = {"user-agent": "an-sdk/1"}
    one, _ = sent(sessions, request(user("hi")), headers)
    assert one.managed is not None
    one.managed.answered(read(events(call("c1"), store=False)), one.body)
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "QQ=="}
    mine, _ = sent(sessions, request(user("hi"), thought, call("c1"), output("c1")), headers)
    assert mine.managed is one.managed
    sessions.admit(RESPONSES, headers, request(user("ho")))
    two, _ = sent(sessions, request(user("hi"), thought, call("c9"), output("c9")), headers)
    assert two.managed is not one.managed


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="../shared/hosts/samples is absent")
def test_the_recorded_codex_session_is_one_session(sessions: Sessions) -> None:
    found = []
    for path in sorted((SAMPLES / "wire_a").glob("*.json")):
        sample = json.loads(path.read_bytes())
        _, wire = sent(sessions, json.dumps(sample["body"]).encode(), sample["headers"])
        found.append(wire)
    assert [one.name for one in sessions.all()] == [f"codex/{THREAD}"]
    for before, after in pairwise(found):
        assert after["input"][: len(before["input"])] == before["input"]
        assert {**after, "input": 0, "client_metadata": 0} == {**before, "input": 0, "client_metadata": 0}


# ------------------------------------------------------------------------- over the whole proxy


def pieces(*items: dict[str, Any], id: str = "resp_1", store: bool = True) -> list[bytes]:
    data = events(*items, usage=USED, store=store).replace(b"resp_1", id.encode())
    return [part + b"\n\n" for part in data.split(b"\n\n") if part]


def ask(proxy: Proxy, raw: bytes, **headers: str) -> httpx.Response:
    sent = {**CODEX, "authorization": "Bearer planted-key-1", "content-type": "application/json", **headers}
    return proxy.client.post("/v1/responses", content=raw, headers=sent)


@rule("CODEX-3")
def test_a_chatgpt_login_has_its_own_upstream(provider: Provider, proxy: Proxy) -> None:
    """Told by the account's header: path and login go on as they came; the packed body goes out unpacked."""
    provider.usual = streamed(pieces(call("c1"), store=False))
    raw = request(user("hi"), store=False)
    answer = ask(
        proxy, zstandard.compress(raw), **{"chatgpt-account-id": "acc_1", "content-encoding": "zstd", "accept": "x/y"}
    )
    assert answer.status_code == 200
    assert answer.content == b"".join(pieces(call("c1"), store=False))
    seen = provider.seen[0]
    assert seen.path == "/backend-api/codex/responses"
    assert seen.headers["authorization"] == "Bearer planted-key-1"
    assert seen.headers["chatgpt-account-id"] == "acc_1"
    assert "content-encoding" not in seen.headers
    assert seen.json["input"][-1]["content"][0]["text"].endswith("hi")
    ask(proxy, raw)
    assert provider.seen[1].path == "/v1/responses"
    name = f"codex/{THREAD}"
    told = [event for event in proxy.events(name) if type(event).__name__ == "UsageReported"]
    assert told
    assert (told[0].input, told[0].cache_read, told[0].cache_write) == (160, 640, 100)
    assert "planted" not in str(proxy.events(name))


@rule("PREV-1", "PREV-2")
def test_a_client_that_sends_only_what_is_new(provider: Provider, proxy: Proxy) -> None:
    provider.script = [streamed(pieces(call("c1"))), streamed(pieces(id="resp_2"))]
    assert ask(proxy, request(user("hi"), store=True)).status_code == 200
    answer = ask(proxy, request(output("c1"), store=True, previous_response_id="resp_1"))
    assert answer.status_code == 200
    second = provider.seen[1].json
    assert "previous_response_id" not in second
    assert second["input"][: len(provider.seen[0].json["input"])] == provider.seen[0].json["input"]
    assert [item.get("type") for item in second["input"][-2:]] == ["function_call", "function_call_output"]
    answer = ask(proxy, request(user("more"), store=True, previous_response_id="resp_7"))
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "previous_response_not_found"
    assert len(provider.seen) == 2


@rule("PREV-2")
@pytest.mark.parametrize("named", [True, False])
def test_after_a_restart_a_client_is_told_to_send_everything_and_goes_on(
    provider: Provider, config: Config, tmp_path: Path, named: bool
) -> None:
    """In the words its provider has for an answer that expired; then the same session, behind the same bytes."""
    headers = {**(CODEX if named else {"user-agent": "an-sdk/1"}), "content-type": "application/json"}
    provider.script = [streamed(pieces(call("c1"))), streamed(pieces(id="resp_2"))]

    def store() -> foldlog.Engine:
        return foldlog.Engine.open(f"sqlite:///{tmp_path / 'log.db'}", summarizer=None)

    with serving(config, store) as proxy:
        assert (
            proxy.client.post("/v1/responses", content=request(user("hi"), store=True), headers=headers).status_code
            == 200
        )
        proxy.settle()
    with serving(config, store) as proxy:
        refused = proxy.client.post(
            "/v1/responses", content=request(output("c1"), store=True, previous_response_id="resp_1"), headers=headers
        )
        assert refused.status_code == 400
        error = refused.json()["error"]
        assert (error["code"], error["type"]) == ("previous_response_not_found", "invalid_request_error")
        assert "send the whole input" in error["message"]
        assert len(provider.seen) == 1
        whole = proxy.client.post(
            "/v1/responses", content=request(user("hi"), call("c1"), output("c1"), store=True), headers=headers
        )
        assert whole.status_code == 200
        assert len(proxy.door.gate._engine.log.heads("session/")) == 1
    first, second = (seen.json["input"] for seen in provider.seen)
    assert second[: len(first)] == first


@rule("CODEX-2")
def test_a_compaction_goes_through_untouched(provider: Provider, proxy: Proxy) -> None:
    provider.usual = streamed(pieces({"type": "compaction", "encrypted_content": "QQ=="}, store=False))
    raw = request(user("hi"), {"type": "compaction_trigger"}, store=False)
    assert ask(proxy, raw).status_code == 200
    assert provider.seen[0].body == raw
    compact = {**CODEX, "content-type": "application/json"}
    assert proxy.client.post("/v1/responses/compact", content=raw, headers=compact).status_code == 200
    assert provider.seen[1].body == raw
    assert provider.seen[1].path == "/v1/responses/compact"
