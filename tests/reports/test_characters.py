"""Reports of characters cut in half, as a kind: several inputs (``specs/reports.md``)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foldlog.adapters.models.summarizers import text as summaries
from foldlog.domain.history import words as history
from foldlog.domain.passes.lanes import smart
from support.linked import Client, Running, runtime_folder
from support.proxy import Provider, Proxy
from support.proxy import user as prompt
from support.talk import Chat, assistant, call, differences, result, text, user, words

FAMILY = "👩‍👩‍👧‍👦"
WIDE = ["🙂", "𝔘", "漢字🙂", FAMILY, "é", "🇩🇪", "\U0010ffff"]
HALVES = ["\\ud83d", "\\ude00\\ud83d", "a\\ud83d\\ud83d\\ude00", "\\udfff"]
"""As JSON text: a half alone, two swapped, a half before a whole, the last of all."""


def whole(said: str) -> bool:
    said.encode()
    return True


# ------------------------------------------------------------------- UN-01: our own cuts


@pytest.mark.rule("UN-01", "PROP-2")
@pytest.mark.parametrize("one", WIDE)
@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_what_we_cut_ends_between_characters(one: str, shift: int):
    """Titles, flat summaries, hints of older edits, at every size: never half a pair."""
    said = "x" * shift + one * 200
    for size in range(1, 60):
        assert whole(history.clip(said, size))
        assert whole(summaries.clip(said, size))
    host = Chat(lanes=True, policy={"protected_tokens": 0, "smart_drops": True})
    host.say(user("start"))
    for number in range(4):
        host.tool(f"e{number}", "done", name="Edit", file_path="/a", old_string=said, new_string=said + str(number))
    for number in range(25):
        host.tool(f"t{number}", words(20) + str(number), n=number)
    for _ in range(2):
        host.session.report_cache_loss("said so")
        request = host.turn()
    raw = b"\n".join(request.messages_json).decode()
    assert smart.CUT in raw, "a hint was cut"
    assert whole(raw)
    assert "\\ud" not in raw


# ------------------------------------------------------------------- UN-01: halves that come in


@pytest.mark.rule("UN-01", "PROP-1", "JSON-2")
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("place", ["prompt", "answer", "result", "argument"])
def test_half_a_character_of_the_hosts_ends_no_session(half: str, place: str):
    """It is kept as it came, shown as it came, counted, dropped and expanded; the turns behind it go on."""
    host = Chat(policy={"protected_tokens": 0})
    host.say(user("start"))
    said = json.loads(f'"cut {half}"')
    if place == "prompt":
        host.messages += [assistant("ok"), user(said)]
    elif place == "answer":
        host.messages += [assistant(said), user("next")]
    else:
        arguments = {"command": said} if place == "argument" else {}
        output = "x" if place == "argument" else said
        host.messages += [assistant([call("t", **arguments)]), user([result("t", output), text("next")])]
    before = host.again()
    assert half in b"".join(before.messages_json).decode()
    after = host.turn()
    assert after.level == "defer"
    assert after.messages_json[: len(before.messages_json)] == before.messages_json
    host.session.reduce("2-3")
    host.session.flush()
    last = host.turn()
    assert (half in b"".join(last.messages_json).decode()) is (place == "argument")
    assert differences(host.engine) == []


@pytest.mark.rule("UN-01", "PROXY-3")
@pytest.mark.parametrize("half", HALVES)
def test_through_the_proxy_too(half: str, provider: Provider, proxy: Proxy):
    """What the client sent is what the provider gets: the proxy makes no half and mends none."""
    history: list[Any] = [prompt("look"), {"role": "assistant", "content": "ok"}, prompt(f"cut {half}")]
    raw = json.dumps({"model": "claude-x", "max_tokens": 9, "stream": True, "messages": history}).replace(
        "\\\\u", "\\u"
    )
    headers = {"x-claude-code-session-id": "s1", "x-api-key": "k", "content-type": "application/json"}
    for _ in range(2):
        assert proxy.client.post("/v1/messages", content=raw.encode(), headers=headers).status_code == 200
        assert half.encode() in provider.seen[-1].body


@pytest.mark.rule("UN-01", "LINK-4")
@pytest.mark.parametrize("half", HALVES)
def test_through_the_link_too(half: str, monkeypatch: pytest.MonkeyPatch):
    import foldlog
    from foldlog.adapters.config import Config

    with runtime_folder(monkeypatch):
        running = Running(Config(), lambda _: foldlog.Engine.open("memory:", summarizer=None))
        client = Client(running.run)
        said = '{"role":"user","content":[{"type":"text","text":"cut ' + half + '"}],"timestamp":1}'
        order = f'[{{"id":"a","message":{said}}}]'
        params = f'{{"session":"s","base":"","order":{order},"count":1,"held":0}}'
        client.raw(f'{{"jsonrpc":"2.0","id":"x","method":"pass","params":{params}}}\n'.encode())
        frame = client.receive()
        assert "error" not in frame, frame
        session = running.desk.store.engine().session("s", harness="pi")
        assert json.loads(f'"cut {half}"') in session.reopen().messages[-1]["content"][0]["text"]
        client.close()
        running.stop()
