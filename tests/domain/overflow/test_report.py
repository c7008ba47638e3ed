"""A provider's error handed to the session it was met in."""

from __future__ import annotations

import asyncio
import json

import pytest

import foldlog
from foldlog.domain import events as ev
from support.talk import Chat, assistant, call, events, fingerprint, image, result, text, use, user, words

LONG = b'{"type":"error","error":{"message":"prompt is too long: 208380 tokens > 200000 maximum"}}'
SLOW = b'{"error":{"type":"rate_limit_error","message":"Too many tokens, please wait before trying again."}}'
BUSY = b'data: {"type":"error","error":{"type":"overloaded_error"}}\n\n'
CAP = b"max_tokens exceeds the limit of 8192"


def outcomes(chat: Chat) -> list[str]:
    return [event.outcome for event in events(chat.session, ev.RequestOutcome)]


@pytest.mark.rule("OVER-10", "WINDOW-10")
def test_an_overflow_is_recorded_with_its_figures():
    chat = Chat(model="a/b")
    said = chat.say(user("hi")).report_error(400, LONG)
    assert said.overflow
    (event,) = events(chat.session, ev.OverflowReported)
    assert (event.model, event.limit, event.used) == ("a/b", 200_000, 208_380)
    assert chat.state.learnt == ("a/b", 200_000)


@pytest.mark.rule("OVER-10", "PERM-11")
@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (429, SLOW, "not_processed"), (529, b"Overloaded", "not_processed"), (400, CAP, "not_processed"),
        (None, SLOW, "not_processed"), (500, b"", "unknown"), (200, BUSY, "broken"),
        (None, b"connection reset by peer", "unknown"), (400, b"what?", "not_processed"),
    ],
)  # fmt: skip
def test_what_is_no_overflow_learns_and_refuses_nothing(status: int | None, body: bytes, outcome: str):
    """OV-06, OV-16: a rate is never taken for an overflow."""
    chat = Chat()
    said = chat.say(user("hi")).report_error(status, body)
    assert not said.overflow
    assert outcomes(chat) == [outcome]
    assert chat.state.learnt is None
    assert chat.state.overflow is None
    assert chat.turn().level == "defer"


@pytest.mark.rule("OVER-11")
@pytest.mark.parametrize(
    ("share", "status", "body", "kind"),
    [
        (0.95, 400, b"Bad Request", "suspected"), (0.95, 422, b"", "suspected"), (0.95, 500, b"", "server"),
        (0.5, 400, b"Bad Request", "unknown"), (0.95, 413, b"", "suspected"), (0.7, 413, b"", "suspected"),
        (0.24, 413, b"", "bytes"), (0.95, 400, CAP, "output_cap"),
    ],
)  # fmt: skip
def test_the_used_part_of_the_window_decides_what_words_left_open(share: float, status: int, body: bytes, kind: str):
    """OV-08, OV-11: an unknown refusal near the limit is suspected; a large body in an empty window is bytes."""
    chat = Chat(context_limit=100_000)
    use(chat.say(user("hi")), int(100_000 * share))
    said = chat.turn().report_error(status, body)
    assert said.kind == kind
    assert said.overflow == (kind == "suspected")
    assert len(events(chat.session, ev.OverflowReported)) == said.overflow
    assert chat.state.learnt is None


TOO_LARGE = [b"Request Entity Too Large", b"<html><h1>413 Request Entity Too Large</h1></html>", b"payload too large"]


@pytest.mark.rule("OVER-11", "IMAGE-2")
@pytest.mark.parametrize("body", TOO_LARGE)
@pytest.mark.parametrize(("share", "kind"), [(0.94, "suspected"), (0.6, "suspected"), (0.5, "bytes")])
def test_a_body_too_large_that_shows_no_picture_is_too_long_where_much_of_the_window_is_used(
    body: bytes, share: float, kind: str
):
    chat = Chat(lanes=True, context_limit=100_000, policy={"protected_tokens": 50_000})
    chat.say(user("start"))
    for number in range(10):
        request = chat.tool(f"t{number}", words(900) + str(number), n=number)
    use(request, int(100_000 * share))
    request = chat.turn()
    assert request.report_error(413, body).kind == kind
    assert (chat.state.overflow is not None) == (kind == "suspected") == (not chat.state.bulky)
    if kind == "suspected":
        again = chat.again()
        assert again.level == "soft+"
        assert again.usage_estimate < request.usage_estimate * 9 // 10


@pytest.mark.rule("OVER-11", "IMAGE-2")
@pytest.mark.parametrize("shown", ["file", "result"])
def test_pictures_are_shed_before_a_full_window_is_suspected(shown: str):
    chat = Chat(lanes=True, context_limit=100_000, policy={"protected_tokens": 50_000})
    chat.say(user([text("look"), image()] if shown == "file" else "look"))
    for number in range(10):
        request = chat.tool(f"t{number}", words(4_000) + str(number), n=number)
    if shown == "result":
        request = chat.say(assistant([call("p", "shot")]), user([result("p", [text("here"), image()])]))
    use(request, 94_000)
    said = []
    for _ in range(3):
        said.append(request.report_error(413, TOO_LARGE[0]).kind)
        if said[-1] == "suspected":
            break
        request = chat.again()
    assert said == ["bytes", "suspected"]
    assert not any(b'"image"' in raw for raw in request.messages_json)


@pytest.mark.rule("OVER-11")
def test_nothing_is_suspected_of_an_unknown_window():
    chat = Chat(context_limit=None)
    use(chat.say(user("hi")), 127_000)
    assert chat.turn().report_error(400, b"").kind == "unknown"
    assert chat.turn().report_error(413, b"").kind == "suspected"


@pytest.mark.rule("OVER-10", "WINDOW-10")
def test_a_routed_models_limit_is_not_learnt_for_the_main_one():
    """OV-12: the smaller model that answered is named; the session's own window stays."""
    chat = Chat(model="vendor/large")
    text = "The input token count (134123) exceeds the maximum number of tokens allowed (131072)."
    chat.say(user("hi")).report_error(400, text, model="vendor/small")
    assert chat.state.learnt is None
    assert chat.session.status().window == 200_000


@pytest.mark.rule("OVER-10", "API-10")
def test_a_report_with_an_id_is_taken_once():
    chat = Chat()
    request = chat.say(user("hi"))
    for _ in range(2):
        request.report_error(429, SLOW, command="req-1")
    assert outcomes(chat) == ["not_processed"]


@pytest.mark.rule("API-6")
def test_it_has_a_twin_for_asyncio():
    chat = Chat()
    assert asyncio.run(chat.say(user("hi")).areport_error(400, LONG, code="x")).limit == 200_000


@pytest.mark.rule("API-9")
@pytest.mark.parametrize(
    "wrong",
    [{"status": "400"}, {"status": True}, {"body": 5}, {"body": None}, {"code": 5}, {"model": 5}, {"command": 5}],
)
def test_wrong_input_is_an_error_of_ours_and_changes_nothing(wrong: dict[str, object]):
    chat = Chat()
    request = chat.say(user("hi"))
    before = fingerprint(chat.session)
    given = {"status": 400, "body": b"", **wrong}
    with pytest.raises(foldlog.InputError):
        request.report_error(given.pop("status"), given.pop("body"), **given)
    assert fingerprint(chat.session) == before


@pytest.mark.rule("OVER-9", "OVER-10")
@pytest.mark.parametrize("body", [b"\xff\xfe\x00", "\ud800", b"[" * 5_000, json.dumps("x" * 50_000)])
def test_any_body_is_taken(body: bytes | str):
    chat = Chat()
    assert chat.say(user("hi")).report_error(400, body).kind == "unknown"
