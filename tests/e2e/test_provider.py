"""The scripted provider itself: its script, its caches, its checks, its failures. Needs no host."""

from __future__ import annotations

import base64
import json

import pytest
from e2e import scripts
from e2e.provider import pictures, record
from e2e.provider.app import make_app
from e2e.provider.scenario import Call, Failure, Scenario, Step, load, save
from starlette.testclient import TestClient

TOOLS = [
    {
        "name": "Read",
        "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]},
    }
]
MARK = {"type": "ephemeral"}
SCRIPT = {
    "main": (Step("Look.", "I look.", (Call("read", path="a.txt"),)), Step("Again.", calls=(Call("read", path="b"),)))
}


def provider(folder, **figures):
    return TestClient(make_app(Scenario(tracks=SCRIPT, **figures), folder))


def text(words, **more):
    return {"type": "text", "text": words, **more}


def ask(client, messages, **more):
    body = {"model": "m", "max_tokens": 99, "system": [text("s" * 8000, cache_control=MARK)], "tools": TOOLS, **more}
    return client.post("/v1/messages", json={**body, "messages": messages})


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def marked(message):
    content = [*message["content"][:-1], {**message["content"][-1], "cache_control": MARK}]
    return {**message, "content": content}


def result(answer, said="out"):
    (call,) = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
    return user({"type": "tool_result", "tool_use_id": call, "content": said})


def test_the_script_is_played_by_what_the_request_shows(tmp_path):
    client = provider(tmp_path)
    first = user(text("Go. [[main:0]]"))
    answer = ask(client, [first]).json()
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use"]
    assert answer["content"][1]["input"] == {"file_path": "a.txt"}
    turn = {"role": "assistant", "content": answer["content"]}
    second = ask(client, [first, turn, result(answer)]).json()
    assert second["content"][0]["text"] == "Again."
    forked = ask(client, [user(text("Elsewhere. [[main:1]]"))]).json()
    assert forked["content"][1]["input"] == {"file_path": "b"}
    last = result(second)
    done = ask(client, [first, turn, result(answer), {"role": "assistant", "content": second["content"]}, last]).json()
    assert (done["content"][0]["text"], done["stop_reason"]) == ("All done.", "end_turn")


def test_a_summary_goes_on_where_the_history_stopped(tmp_path):
    client = provider(tmp_path)
    first = user(text("Go. [[main:0]]"))
    answer = ask(client, [first]).json()
    asked = user(*result(answer)["content"], text("Your task is to create a detailed summary of the conversation."))
    said = ask(client, [first, {"role": "assistant", "content": answer["content"]}, asked], tools=[]).json()
    assert "[[main:1]]" in said["content"][0]["text"]


def test_where_a_subagent_stopped_is_no_place_of_its_parent(tmp_path):
    client = provider(tmp_path)
    first = user(text("Go. [[main:0]]"))
    answer = ask(client, [first]).json()
    report = text("<output>Done. <summary>Go on where the work stopped: [[sub:5]]</summary></output>")
    turn = {"role": "assistant", "content": answer["content"]}
    said = ask(client, [first, turn, user(*result(answer)["content"], report)]).json()
    assert said["content"][0]["text"] == "Again."
    ended = {"role": "assistant", "content": [text("All done.")]}
    said = ask(client, [first, turn, result(answer), ended, user(report)]).json()
    assert said["content"][0]["text"] == "Again."  # what its own calls show, for the last text says nothing


def test_cache_reads_are_measured(tmp_path):
    client = provider(tmp_path)
    first = user(text("Go. [[main:0]]"))
    answer = ask(client, [marked(first)]).json()
    written = answer["usage"]["cache_creation_input_tokens"]
    assert written > 2000
    assert answer["usage"]["cache_read_input_tokens"] == 0
    longer = [first, {"role": "assistant", "content": answer["content"]}, marked(result(answer))]
    usage = ask(client, longer).json()["usage"]
    assert usage["cache_read_input_tokens"] == written
    assert usage["cache_creation_input_tokens"] > 0
    changed = ask(client, longer, system=[text("t" * 8000, cache_control=MARK)]).json()["usage"]
    assert changed["cache_read_input_tokens"] < written
    client.post("/control", json={"advance": 301})
    assert ask(client, longer).json()["usage"]["cache_read_input_tokens"] == 0
    records = record.read(tmp_path)
    assert [each.read for each in records][0::3] == [0, 0]
    assert records[1].shared == records[0].total  # the mark moved, the prompt did not change


def test_an_entry_is_found_at_most_twenty_blocks_back(tmp_path):
    client = provider(tmp_path)
    short = [text(f"[[main:0]] {n}") for n in range(30)]
    ask(client, [marked(user(*short[:1]))], system=None)
    near = ask(client, [marked(user(*short[:21]))], system="x" * 9000).json()["usage"]
    assert near["cache_read_input_tokens"] == 0  # the system text differs
    again = ask(client, [marked(user(*short[:9]))], system="x" * 9000).json()["usage"]
    assert again["cache_read_input_tokens"] == 0  # an entry stands at its mark only, not before it
    far = ask(client, [marked(user(*short[:29]))], system="x" * 9000).json()["usage"]
    assert far["cache_read_input_tokens"] > 0  # 28 - 20 = 8


def test_string_and_block_content_are_one_prompt(tmp_path):
    client = provider(tmp_path)
    ask(client, [marked(user(text("[[main:0]]")))])
    usage = ask(client, [{"role": "user", "content": "[[main:0]]"}]).json()["usage"]
    assert usage["cache_read_input_tokens"] > 0


def test_thinking_is_signed_and_checked(tmp_path):
    client = provider(tmp_path)
    on = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    first = user(text("Go. [[main:0]]"))
    answer = ask(client, [first], **on).json()
    assert answer["content"][0]["type"] == "thinking"
    good = [first, {"role": "assistant", "content": answer["content"]}, result(answer)]
    assert ask(client, good, **on).status_code == 200
    forged = json.loads(json.dumps(good))
    forged[1]["content"][0]["thinking"] = "Something else."
    refused = ask(client, forged, **on)
    assert refused.status_code == 400
    assert "messages.1.content.0: Invalid `signature`" in refused.json()["error"]["message"]


def test_bound_thinking_needs_its_prefix(tmp_path):
    client = provider(tmp_path, bound=True)
    on = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    first = user(text("Go. [[main:0]]"))
    answer = ask(client, [marked(first)], **on).json()
    turns = [{"role": "assistant", "content": answer["content"]}, result(answer)]
    assert ask(client, [first, *turns], **on).status_code == 200
    refused = ask(client, [user(text("Go! [[main:0]]")), *turns], **on)
    assert "bound to a different conversation" in refused.json()["error"]["message"]
    gone = [{"role": "assistant", "content": answer["content"][1:]}, turns[1]]
    assert ask(client, [user(text("Go! [[main:0]]")), *gone], **on).status_code == 200


def test_what_the_checker_refuses_is_refused(tmp_path):
    client = provider(tmp_path)
    refused = ask(client, [user({"type": "tool_result", "tool_use_id": "toolu_x", "content": "y"})])
    assert refused.status_code == 400
    assert refused.json()["error"]["type"] == "invalid_request_error"
    assert "toolu_x" in refused.json()["error"]["message"]


def test_a_prompt_beyond_the_window_overflows_in_each_provider_s_words(tmp_path):
    client = provider(tmp_path, window=500)
    assert "tokens > 500 maximum" in ask(client, [user(text("[[main:0]]"))]).json()["error"]["message"]
    long = [{"role": "user", "content": "x" * 9000}]
    chat = client.post("/v1/chat/completions", json={"model": "m", "messages": long}).json()["error"]
    assert chat["code"] == "context_length_exceeded"
    assert "maximum context length is 500 tokens" in chat["message"]
    spoken = client.post("/v1/responses", json={"model": "m", "input": long}).json()["error"]
    assert spoken["code"] == "context_length_exceeded"
    stream = client.post("/v1/responses", json={"model": "m", "input": long, "stream": True})
    assert (stream.status_code, "response.failed" in stream.text) == (200, True)


def picture(number):
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(scripts.picture(number)).decode()}
    return {"type": "image", "source": source}


def test_more_pictures_than_it_takes_are_refused(tmp_path):
    client = provider(tmp_path, pictures=1)
    assert ask(client, [user(picture(0), text("[[main:0]]"))]).status_code == 200
    refused = ask(client, [user(picture(0), picture(1), text("[[main:0]]"))])
    assert refused.json()["error"]["message"] == "Too many images and documents: 2 + 0 > 1"
    url = "data:image/png;base64," + picture(2)["source"]["data"]
    shown = [{"type": "input_image", "image_url": url}, {"type": "input_text", "text": "[[main:0]]"}]
    assert client.post("/v1/responses", json={"model": "m", "input": [{"role": "user", "content": shown}]}).is_success
    shown = [{"type": "image_url", "image_url": {"url": url}}, text("[[main:0]]")]
    body = {"model": "m", "messages": [{"role": "user", "content": shown}]}
    assert client.post("/v1/chat/completions", json=body).is_success
    seen = [list(each.pictures) for each in record.read(tmp_path)]
    assert seen == [[pictures.digest(scripts.picture(n)) for n in given] for given in ([0], [0, 1], [2], [2])]


def test_a_call_fills_the_window(tmp_path):
    shell = {"name": "Bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}
    script = {"main": (Step("Pour.", calls=(Call("run", path="f", fill=80),)),)}
    client = TestClient(make_app(Scenario(tracks=script, window=20_000), tmp_path))
    first = user(text("[[main:0]]"))
    answer = ask(client, [first], tools=[shell]).json()
    calls = [block for block in answer["content"] if block["type"] == "tool_use"]
    sizes = [int(call["input"]["command"].split()[-1]) for call in calls]
    assert len(sizes) > 1
    assert max(sizes) <= 10_000
    out = [
        {"type": "tool_result", "tool_use_id": call["id"], "content": "x" * size}
        for call, size in zip(calls, sizes, strict=True)
    ]
    ask(client, [first, {"role": "assistant", "content": answer["content"]}, user(*out)], tools=[shell])
    assert record.read(tmp_path)[-1].total == pytest.approx(16_000, rel=0.05)


@pytest.mark.parametrize("kind", ["429", "529"])
def test_failures_pass_over(tmp_path, kind):
    client = provider(tmp_path, failures=(Failure(0, kind, times=2),))
    said = [ask(client, [user(text("[[main:0]]"))]).status_code for _ in range(3)]
    assert said == [int(kind), int(kind), 200]


def test_a_cut_stream_and_an_error_inside_one(tmp_path):
    client = provider(tmp_path, failures=(Failure(0, "cut"), Failure(0, "error_event")))
    with pytest.raises(ConnectionResetError):
        ask(client, [user(text("[[main:0]]"))], stream=True)
    broken = ask(client, [user(text("[[main:0]]"))], stream=True).text
    assert "event: error" in broken
    assert "message_stop" not in broken
    assert "message_stop" in ask(client, [user(text("[[main:0]]"))], stream=True).text


def test_openai_prefixes_are_read_in_steps_of_128(tmp_path):
    client = provider(tmp_path)
    head = {"role": "system", "content": "y" * 9000}
    body = {"model": "m", "messages": [head, {"role": "user", "content": "[[main:0]]"}]}
    first = client.post("/v1/chat/completions", json=body).json()["usage"]
    again = client.post("/v1/chat/completions", json=body).json()["usage"]
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    cached = again["prompt_tokens_details"]["cached_tokens"]
    assert cached % 128 == 0
    assert again["prompt_tokens"] - cached < 128


def test_responses_items_come_back_checked(tmp_path):
    client = provider(tmp_path)
    tools = [
        {"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {}}, "required": ["cmd"]}}
    ]
    ask_items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "[[main:0]]"}]}]
    body = {"model": "m", "tools": tools, "input": ask_items}
    output = client.post("/v1/responses", json=body).json()["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call"]
    assert json.loads(output[2]["arguments"]) == {"cmd": "cat a.txt"}
    done = {"type": "function_call_output", "call_id": output[2]["call_id"], "output": "ok"}
    assert client.post("/v1/responses", json={**body, "input": [*ask_items, *output, done]}).status_code == 200
    orphan = client.post("/v1/responses", json={**body, "input": [*ask_items, done]})
    assert output[2]["call_id"] in orphan.json()["error"]["message"]
    forged = [{**output[0], "summary": [{"type": "summary_text", "text": "other"}]}, *output[1:]]
    refused = client.post("/v1/responses", json={**body, "input": [*ask_items, *forged, done]})
    assert "could not be verified" in refused.json()["error"]["message"]


def test_streams_say_what_whole_answers_say(tmp_path):
    client = provider(tmp_path)
    streamed = ask(client, [user(text("[[main:0]]"))], stream=True).text
    deltas = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: ")]
    spoken = "".join(each["delta"].get("text", "") for each in deltas if each["type"] == "content_block_delta")
    assert spoken == "Look."
    chat = {"model": "m", "messages": [{"role": "user", "content": "[[main:0]]"}], "stream": True}
    assert client.post("/v1/chat/completions", json=chat).text.endswith("data: [DONE]\n\n")
    events = client.post("/v1/responses", json={"model": "m", "input": "[[main:0]]", "stream": True}).text
    assert "response.completed" in events


def test_a_scenario_is_data(tmp_path):
    scenario = Scenario(tracks=SCRIPT, failures=(Failure(3, "overflow", limit=5),), window=7)
    save(scenario, tmp_path / "s.json")
    assert load(tmp_path / "s.json") == scenario


def test_reduce_takes_the_tags_it_sees(tmp_path):
    tool = {"name": "mcp__foldlog__ctx_reduce", "input_schema": {"properties": {"drop": {"type": "string"}}}}
    script = {"main": (Step("Drop.", calls=(Call("reduce", keep=2),)),)}
    client = TestClient(make_app(Scenario(tracks=script), tmp_path))
    said = "§1§ one §2§ two [dropped §3§] §4§ §5§ [[main:0]]"
    answer = ask(client, [user(text(said))], tools=[tool]).json()
    assert answer["content"][1]["input"] == {"drop": "1,2"}
