"""Any row of overflows, drops, talk and answers: recovery ends, sends only what fits, and forgets nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foldlog
from foldlog.domain.passes import recovery
from support.talk import Chat, assistant, differences, events, use, user, words

KINDS = ("plain", "limit", "figures", "output")
MOVES = st.one_of(
    st.tuples(st.just("overflow"), st.sampled_from(KINDS), st.integers(50, 99)),
    st.tuples(st.just("talk"), st.integers(1, 400), st.just(0)),
    st.tuples(st.just("tool"), st.integers(100, 2_000), st.just(0)),
    st.tuples(st.just("drop"), st.integers(1, 30), st.integers(1, 6)),
    st.tuples(st.just("answer"), st.just(0), st.just(0)),
    st.tuples(st.just("again"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("cut"), st.integers(1, 6), st.just(0)),
)


class Play:
    """A host that does what the moves say, and keeps what it was refused and sent."""

    def __init__(self, mode: str, forgetful: bool) -> None:
        self.chat = Chat(mode=mode, context_limit=60_000, policy={"protected_tokens": 0, "protected_tools": {}})
        self.forgetful = forgetful
        self.open = True
        self.number = 0
        self.request = self.chat.say(user("start " + words(2_000)))

    def size(self) -> int:
        return self.request._produced.event.tokens

    def move(self, what: str, first: Any, second: int) -> None:
        self.number += 1
        if what == "overflow":
            self.refuse(first, second)
        elif what == "answer" and self.open:
            use(self.request, self.size())
        elif what == "drop":
            try:
                self.chat.session.reduce(f"{first}-{first + second}")
            except foldlog.UnknownTag:
                pass
        elif what == "again":
            self.chat.messages += [user(f"{self.number}")] * first
            self.send()
        elif what == "cut":
            prompts = [n for n, one in enumerate(self.chat.messages) if n and isinstance(one["content"], str)]
            prompts = [n for n in prompts if self.chat.messages[n]["role"] == "user"]
            if prompts:  # no call is parted from its result
                del self.chat.messages[1 : prompts[min(first, len(prompts)) - 1]]
            self.send()
        elif what in ("tool", "talk"):
            id = f"t{self.number}"
            if what == "tool":
                call = {"type": "tool_use", "id": id, "name": "fetch", "input": {}}
                said = user([{"type": "tool_result", "tool_use_id": id, "content": words(first)}])
                self.chat.messages += [assistant([call]), said]
            else:
                self.chat.messages += [assistant("ok"), user(f"{self.number} {words(first)}")]
            self.send()

    def refuse(self, kind: str, share: int) -> None:
        if self.chat.state.last.number != self.request.pass_number:
            return
        self.open = False
        size = self.size()
        limit = max(size * share // 100, recovery.GAIN)
        if kind == "plain":
            self.request.report_error(400, "prompt is too long")
        elif kind == "limit":
            self.request.report_failure("overflow", limit=limit)
        elif kind == "figures":
            self.request.report_error(400, f"prompt is too long: {size} tokens > {limit} maximum")
        else:
            self.request.report_error(
                400, f"input length and `max_tokens` exceed context limit: {size} + 900 > {limit + 900}"
            )

    def send(self) -> None:
        if self.forgetful:
            self.chat.session.core._hot = None
        before = self.chat.state.overflow
        try:
            request = self.chat.again()
        except foldlog.Refused as refused:
            assert refused.code in ("CONTEXT_FULL", "UNMANAGED_OVER_WINDOW", "PROTECTED_OVER_LIMIT")
            return
        self.open = self.open or request.pass_number != self.request.pass_number
        self.request = request
        if before is None or self.chat.state.overflow is None:
            return  # what was said since is the answer of another request
        if getattr(self.request._produced.event, "side", None) is not None:
            return  # beside the head until it goes on: a helper's, and refused by nothing
        if before.limit and before.used:
            assert self.size() * before.used // before.tokens + before.output <= before.limit, (
                "what cannot fit was sent"
            )
        if before.tries >= recovery.TRIES:
            assert self.size() * 2 <= before.tokens, "a long row is ended by half"


def told(play: Play) -> list[Any]:
    return [msgspec.structs.replace(event, at=0, cmd="") for event in events(play.chat.session)]


@pytest.mark.rule("OVER-12", "OVER-13", "OVER-14", "OVER-23")
@pytest.mark.parametrize("mode", ["primary", "subagent"])
@given(st.lists(MOVES, max_size=20))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_row_of_overflows_ends(mode: str, moves: list[tuple[str, Any, int]]):
    plays = [Play(mode, forgetful) for forgetful in (False, True)]
    for play in plays:
        for move in moves:
            play.move(*move)
    assert told(plays[0]) == told(plays[1]), "a restart changed what was decided"
    assert differences(plays[0].chat.engine) == []
