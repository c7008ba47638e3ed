"""Reports of pictures, each as a kind: several inputs (``specs/reports.md``)."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

import pytest
from checker import broken_rules
from checker.anthropic import check

import foldlog
from foldlog.adapters.config import Config
from support.linked import Client, Plugin, Running, runtime_folder
from support.proxy import Provider, Proxy, error, failed, streamed
from support.proxy import assistant as answer
from support.proxy import events as pieces_of
from support.talk import Chat, assistant, call, differences, result, text, use, user


def png(width: int, height: int, size: int = 0) -> str:
    """Return a picture as base64: its true head, and noise up to ``size`` bytes."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", len(head)) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk + b"\x00" * max(size - 33, 0)).decode()


def picture(width: int, height: int, size: int = 0) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png(width, height, size)}}


# ------------------------------------------------------------------- IM-03: what a picture costs


@pytest.mark.slow
@pytest.mark.rule("IM-03", "WINDOW-12")
@pytest.mark.parametrize(("width", "height", "cost"), [(1_024, 768, 1_049), (200, 200, 54), (2_400, 1_800, 4_500)])
@pytest.mark.parametrize("size", [1_000, 300_000, 2_600_000])
@pytest.mark.parametrize("place", ["result", "prompt", "several"])
def test_a_picture_is_counted_by_its_pixels(width: int, height: int, cost: int, size: int, place: str):
    """However many bytes it has, and wherever it stands: no rebuild is begun for the length of its base64."""
    host = Chat()
    before = host.say(user("start")).usage_estimate
    one = picture(width, height, size)
    if place == "prompt":
        host.messages += [assistant("ok"), user([one, text("look")])]
    else:
        inner = [one] * (3 if place == "several" else 1)
        host.messages += [assistant([call("t")]), user([result("t", inner)])]
    request = host.again()
    many = 3 if place == "several" else 1
    assert many * cost <= request.usage_estimate - before <= many * cost + 60
    for _ in range(3):
        assert host.turn().level == "defer"
    assert host.session.status().usage_percent < 1_000


# ------------------------------------------------------------------- IM-01: more than a provider takes

REFUSALS = {
    "pixels": "messages.{n}.content.1.image.source.base64.data: At least one of the image dimensions exceed max "
    "allowed size for many-image requests: 2000 pixels",
    "count": "too many images and documents: 101 + 0 > 100",
    "size": "messages.{n}.content.0.image.source.base64: image exceeds 5 MB maximum: 9023184 bytes > 5242880 bytes",
}


def shown(request: foldlog.Request) -> int:
    """Return how many pictures a request shows."""
    return b"".join(request.messages_json).decode().count('"type":"image"')


def album(place: str, count: int, **options: Any) -> Chat:
    """A session with ``count`` pictures, each in a message of its own."""
    host = Chat(context_limit=1_000_000, **options)
    host.say(user("start"))
    for number in range(count):
        one = picture(800, 600, 400 + number)
        if place == "results" or (place == "mixed" and number % 2):
            host.messages += [assistant([call(f"t{number}")]), user([result(f"t{number}", [text("shot"), one])])]
        else:
            host.messages += [assistant("ok"), user([one, text(f"look {number}")])]
        host.again()
    return host


@pytest.mark.rule("IM-01", "IMAGE-2", "PROP-1")
@pytest.mark.parametrize("place", ["prompts", "results", "mixed"])
@pytest.mark.parametrize("refusal", list(REFUSALS))
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-sonnet-5-5"])
def test_old_pictures_leave_when_the_provider_refuses_them(place: str, refusal: str, model: str):
    """The session goes on: all but the newest leave, then those too; texts stay, originals can be had, nothing of the
    window is learnt, and what left stays away.
    """
    host = album(place, 22, model=model)
    request = host.again()
    assert shown(request) == 22
    refused = json.dumps(error("invalid_request_error", REFUSALS[refusal].format(n=5)))
    said = request.report_error(400, refused)
    assert not said.overflow
    before = request
    request = host.again()
    assert "picture_recovery" in request.reasons or request.level != "defer"
    assert shown(request) == 1
    assert broken_rules(check({"messages": request.messages})) == set()
    assert str(request.messages).count("look") == str(before.messages).count("look")
    assert str(request.messages).count("shot") == str(before.messages).count("shot")
    follows = host.turn()
    assert follows.level == "defer"
    assert follows.messages_json[: len(request.messages_json)] == request.messages_json
    follows.report_error(400, refused)
    assert shown(host.again()) == 0
    status = host.session.status()
    assert (status.window, status.learnt_limit, status.recovering) == (1_000_000, 0, False)
    assert shown(host.turn()) == 0
    assert b"iVBORw0KGgo" in host.session.expand(3, 3)[0].json
    assert differences(host.engine) == []


@pytest.mark.rule("IM-01", "IMAGE-2")
@pytest.mark.parametrize("codec", ["anthropic", "openai-chat", "openai-responses"])
def test_a_link_to_a_picture_is_a_picture_to_its_provider(codec: str):
    """A hundred links are a hundred pictures: they leave like those that are sent whole."""
    place = "https://pictures.example/{}.png"
    forms: dict[str, Any] = {
        "anthropic": lambda url: {"type": "image", "source": {"type": "url", "url": url}},
        "openai-chat": lambda url: {"type": "image_url", "image_url": {"url": url}},
        "openai-responses": lambda url: {"type": "input_image", "image_url": url},
    }
    said, asked = ("input_text", "output_text") if codec == "openai-responses" else ("text", "text")
    item = {"type": "message"} if codec == "openai-responses" else {}
    engine = foldlog.Engine.open("memory:", summarizer=None)
    session = engine.session("s", codec=codec, context_limit=200_000)
    messages: list[Any] = [{**item, "role": "user", "content": [{"type": said, "text": "start"}]}]
    for number in range(4):
        messages.append({**item, "role": "assistant", "content": [{"type": asked, "text": f"ok {number}"}]})
        one = forms[codec](place.format(number))
        messages.append({**item, "role": "user", "content": [one, {"type": said, "text": f"look {number}"}]})
    for wanted in (4, 1, 0):
        request = session.prepare(messages)
        assert b"".join(request.messages_json).count(b"pictures.example") == wanted
        request.report_error(400, REFUSALS["count"])


@pytest.mark.rule("IM-01", "IMAGE-2", "OV-08")
@pytest.mark.parametrize("status", [413, 400])
@pytest.mark.parametrize("place", ["prompts", "results"])
def test_a_body_too_large_in_bytes_sheds_pictures_and_keeps_its_window(status: int, place: str):
    host = album(place, 6)
    request = host.again()
    use(request, 240_000)
    request = host.turn()
    words_ = (
        "Request size exceeds the maximum of 10485760 bytes" if status == 400 else "Request exceeds the maximum size"
    )
    said = request.report_error(status, words_)
    assert (said.overflow, said.kind) == (False, "bytes")
    assert shown(host.again()) == 1
    assert host.session.status().window == 1_000_000


@pytest.mark.rule("IM-01", "IMAGE-2")
@pytest.mark.parametrize("kind", ["none", "subagent", "off", "restart"])
def test_where_there_is_nothing_to_shed_nothing_changes(kind: str):
    """No pictures: the pass is like any other. Without compaction nothing is shed; a restart in between sheds all the
    same; a subagent is treated like a primary.
    """
    options: dict[str, Any] = {"mode": "subagent"} if kind == "subagent" else {}
    if kind == "off":
        options["policy"] = {"compaction": False}
    host = album("prompts", 0 if kind == "none" else 4, **options)
    request = host.turn()
    request.report_error(400, REFUSALS["count"])
    if kind == "restart":
        host.session.core._hot = None
    after = host.again()
    assert shown(after) == {"none": 0, "off": 4}.get(kind, 1)
    if kind in ("none", "off"):
        assert after.messages_json == request.messages_json
        assert host.turn().level == "defer"
    assert differences(host.engine) == []


@pytest.mark.rule("IM-01", "IMAGE-2", "PROXY-56")
@pytest.mark.parametrize("refusal", list(REFUSALS))
def test_the_proxy_sends_it_once_more_before_the_client_sees_anything(refusal: str, provider: Provider, proxy: Proxy):
    history: list[Any] = [{"role": "user", "content": [picture(800, 600, 900 + n), text(f"{n}")]} for n in range(4)]
    messages = [one for number, turn in enumerate(history) for one in (turn, answer(f"ok {number}"))][:-1]
    pieces = pieces_of(input_tokens=9_000)
    refused = error("invalid_request_error", REFUSALS[refusal].format(n=0))
    provider.script = [failed(400, refused), streamed(pieces)]
    got = proxy.ask(messages)
    assert (got.status_code, got.content) == (200, b"".join(pieces))
    first, second = (json.dumps(seen.json).count('"type": "image"') for seen in provider.seen)
    assert (first, second) == (4, 1)


@pytest.mark.rule("IM-01", "IMAGE-2", "EXT-10")
@pytest.mark.parametrize("refusal", list(REFUSALS))
def test_a_plugin_is_told_to_ask_once_more(refusal: str, monkeypatch: pytest.MonkeyPatch):
    """On the hosts of the link the turn does not end with the refusal: one more request, without the old pictures."""
    with runtime_folder(monkeypatch):
        running = Running(Config(), lambda _: foldlog.Engine.open("memory:", summarizer=None))
        client = Client(running.run)
        plugin = Plugin(running, client, model="m", context_limit=200_000)
        told: list[dict[str, Any]] = []
        for number in range(3):
            one = {"type": "image", "mimeType": "image/png", "data": png(800, 600, 700 + number)}
            told += [
                {"role": "user", "content": [one, text(f"look {number}")], "timestamp": 10 * number + 1},
                {"role": "assistant", "content": [text("ok")], "stopReason": "stop", "timestamp": 10 * number + 2},
            ]
        told.append({"role": "user", "content": [text("and?")], "timestamp": 100})
        said = plugin.take(told)
        asked = {"session": "s", "kind": "", "text": REFUSALS[refusal].format(n=0), "status": 400}
        answers = []
        for _ in range(2):
            answers.append(client.call("failure", number=said["edits"]["number"], command="", **asked))
            said = plugin.take(told)
        assert [(found["kind"], found["again"]) for found in answers] == [("images", True), ("images", False)]
        assert json.dumps(plugin.made).count('"type": "image"') == 0
        client.close()
        running.stop()
