"""A request whose bytes were asked for is gone on behind by the next one; the log alone gives the same bytes."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from foldlog.projections import request as requests
from support.talk import Chat, result, user, words


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note each message that is rendered for a whole request."""
    seen: list[int] = []
    build = requests.build

    def noted(view: Any, path: Any, *more: Any) -> requests.Built:
        seen.extend(path)
        return build(view, path, *more)

    monkeypatch.setattr(requests, "build", noted)
    return seen


def same(chat: Chat, request: foldlog.Request) -> None:
    """Hold a request against the one its log alone gives."""
    assert request.built == chat.engine.replay("chat", request.pass_number)


@pytest.mark.rule("API-12")
def test_what_an_earlier_request_holds_is_not_rendered_again(rendered: list[int]) -> None:
    chat = Chat()
    request = chat.say(user("start"))
    held = request.messages_json
    rendered.clear()
    for number in range(5):
        request = chat.tool(f"t{number}", words(50), n=number)
        assert request.level == "defer"
        assert request.messages_json[: len(held)] == held
        held = request.messages_json
        assert not rendered
        same(chat, request)
        rendered.clear()


@pytest.mark.rule("API-12")
def test_whatever_comes_between_the_bytes_are_those_of_the_log() -> None:
    chat = Chat(policy={"protected_tokens": 0})
    request = chat.say(user("start"), system="one")
    same(chat, request)
    levels = set()
    for number in range(14):
        if number == 2:
            chat.session.reduce("1")
            chat.session.flush()
        if number == 4:
            chat.messages[-1] = user([result("t3", "said otherwise")])
        if number == 6:
            del chat.messages[-4:]
        if number == 8:
            same(chat, chat.session.prepare([user("a title, please")], system="other", now=chat.now))
        if number == 10:
            chat.session.report_cache_loss("test")
        if number == 12:
            chat.given["system"] = "two"
        request = chat.tool(f"t{number}", words(200), n=number)
        levels.add((request.level, bool(request.reasons)))
        same(chat, request)
        same(chat, chat.again())
    assert {("defer", False), ("defer", True), ("hard", True)} <= levels
