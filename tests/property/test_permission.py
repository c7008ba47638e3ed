"""What a session may rebuild by itself, over any history: never twice for the same, never again and again for little.

An *own* rebuild is one that nobody caused but the session's own pressure: no fold, flush, loss, publication, nothing
the host did to the prefix. The test keeps its own account of usage, episodes and held passes.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import foldlog
from foldlog.domain import events as ev
from foldlog.domain.arcs import call_part
from foldlog.domain.passes import landing, permission, situation
from support.talk import Chat, result, user, words

WINDOW = 100_000
HARD = WINDOW - 4_096
OWN = {"own_worth", "own_held", "force", "execute"}
EXECUTE, FORCE, EMERGENCY = WINDOW * 65 // 100, WINDOW * 85 // 100, -(-HARD * 95 // 100)
WORTH = WINDOW * 2 // 100
MODELS = ("claude-sonnet-4-5", "claude-opus-4-6")
USAGE = [
    30_000, *(at + off for at in (EXECUTE, FORCE, EMERGENCY) for off in (-1, 0, 1)), EXECUTE + 5_000, FORCE + 2_000,
    97_000, 99_500,
]  # fmt: skip

STEP = st.one_of(
    st.tuples(st.just("turn"), st.sampled_from([5, 400])),
    st.tuples(st.just("tool"), st.sampled_from([3, 120, 400, 2_500]), st.sampled_from(["Bash", "read", "grep"])),
    st.tuples(st.just("tool"), st.sampled_from([400, 2_500]), st.just("Bash")),
    st.tuples(st.just("usage"), st.sampled_from(USAGE)),
    st.tuples(st.just("mark"), st.integers(0, 40), st.integers(1, 4)),
    st.tuples(st.just("press"), st.integers(0, 40), st.integers(1, 4), st.sampled_from([EXECUTE, EXECUTE + 5_000])),
    st.tuples(st.just("resend"), st.sampled_from([FORCE, EMERGENCY]), st.sampled_from([97_000, 99_500])),
    st.tuples(st.just("again")),
    st.tuples(st.sampled_from(["flush", "loss", "not_processed", "aborted", "idle"])),
    st.tuples(st.just("model"), st.integers(0, 1)),
    st.tuples(st.just("window"), st.sampled_from([WINDOW, WINDOW * 9 // 10])),
)


class Account:
    """Plays steps on a chat, and keeps account of what may cause a rebuild."""

    def __init__(self, mode: str = "primary", **policy: Any) -> None:
        self.mode = mode
        self.chat = Chat(
            lanes=True, mode=mode, model=MODELS[0], context_limit=WINDOW, policy={"protected_tokens": 2_000, **policy}
        )
        self.request: Any = None
        self.news = True
        self.episode = False
        self.rebuilt = False
        self.held = 0
        self.marked: set[int] = set()
        self.own: list[int] = []
        self.episodes = 0
        self.calls = 0
        self.step("turn", 5)

    def step(self, what: str, *given: Any) -> None:
        """Do one step; where it is a pass, hold it against the account."""
        getattr(self, f"_{what}")(*given)

    def _turn(self, size: int) -> None:
        said = (
            [user(words(size))] if self.request is None else [{"role": "assistant", "content": "ok"}, user(words(size))]
        )
        self._news(*said)

    def _tool(self, size: int, name: str) -> None:
        self.calls += 1
        use = {"type": "tool_use", "id": f"c{self.calls}", "name": name, "input": {"path": f"f{self.calls % 3}"}}
        output = words(size) if name == "read" else words(size) + f" {self.calls}"
        self._news({"role": "assistant", "content": [use]}, user([result(f"c{self.calls}", output)]))

    def _news(self, *messages: Any) -> None:
        self.news = True
        self._pass(lambda: self.chat.say(*messages))

    def _again(self) -> None:
        self._pass(self.chat.again)

    def _idle(self) -> None:
        self.chat.now += 400

    def _usage(self, tokens: int) -> None:
        if self.request is not None:
            self.request.report_usage(input=tokens, cache_read=0, cache_write=0, output=1)

    def _mark(self, place: int, count: int) -> None:
        numbers = [n for n, tag in enumerate(self.chat.state.tags, 1) if tag.status == "active"]
        chosen = numbers[place % max(len(numbers), 1) :][:count]
        if chosen:
            self.chat.session.reduce(",".join(map(str, chosen)))
            self.marked.update(chosen)
            self.news = True

    def _press(self, place: int, count: int, usage: int) -> None:
        """Work is queued, and the session is under mere pressure."""
        self._mark(place, count)
        self._usage(usage)
        self._tool(3, "Bash")

    def _resend(self, usage: int, then: int) -> None:
        """A full session is answered and sends its request again as it is, once more answered with more."""
        self._usage(usage)
        self._tool(400, "Bash")
        self._usage(then)
        self._again()

    def _flush(self) -> None:
        self.chat.session.flush()
        self.news = True

    def _loss(self) -> None:
        self.chat.session.report_cache_loss("said so")
        self.news = True

    def _not_processed(self) -> None:
        self._failed("not_processed")

    def _aborted(self) -> None:
        self._failed("aborted")

    def _failed(self, kind: str) -> None:
        if self.request is not None:
            self.request.report_failure(kind)

    def _model(self, which: int) -> None:
        self.news |= self.chat.options["model"] != MODELS[which]
        self.chat.reopen(model=MODELS[which])

    def _window(self, size: int) -> None:
        self.news |= self.chat.options["context_limit"] != size
        self.chat.reopen(context_limit=size)

    def _pass(self, call: Any) -> None:
        before = self.chat.state.passes
        try:
            self.request = call()
        except foldlog.Refused:
            return
        event: Any = self.request._produced.event
        if event.number > before:
            self._judge(event)

    def _judge(self, event: Any) -> None:
        decision = event.decision
        pressed = decision is not None and decision.schedule == "pressure"
        self.episodes += pressed and not self.episode
        self.rebuilt = self.rebuilt and self.episode and pressed
        self.episode = pressed
        rebuilt = not isinstance(event, ev.PassDeferred)
        if rebuilt and not isinstance(event, ev.BaselineFolded) and set(decision.signals) <= OWN:
            self._own(event)
        if rebuilt:
            self.news, self.held, self.rebuilt = False, 0, True
        elif decision is not None and decision.held:
            self.held += 1

    def _own(self, event: Any) -> None:
        """An own rebuild: there was something new, and it is one the rules allow."""
        self.own.append(event.number)
        assert self.news, f"pass {event.number} rebuilt, and nothing was new since the rebuild before"
        signals = set(event.decision.signals)
        landed = [number for number, _ in event.landed]
        asked = self.marked.intersection(landed)
        freed = sum(map(self._size, landed))
        if self.mode == "subagent":
            return  # every execute pass of a subagent may rebuild
        if "force" not in signals:
            assert asked, f"pass {event.number} rebuilt under mere pressure, and nothing was queued"
            worth = sum(map(self._size, asked)) * 100 >= 2 * self.chat.options["context_limit"]
            assert worth or self.held >= 2, f"pass {event.number} rebuilt for {asked}, {self.held} passes held it"
        elif self.rebuilt and not asked:
            least = self.chat.options["context_limit"] * 2 // 100
            assert freed >= least, f"pass {event.number}: cleanup of {freed} tokens again in one episode"

    def _size(self, number: int) -> int:
        """Return what part ``number`` and its call hold at most."""
        state = self.chat.state
        tag = state.tags[number - 1]
        call = call_part(state, tag.m, tag.p) if tag.kind == "tool" else None
        return int(tag.tokens + (call.tokens if call is not None else 0))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
@given(
    mode=st.sampled_from(["primary", "primary", "subagent"]),
    seed=st.integers(0, 40),
    steps=st.lists(STEP, min_size=10, max_size=60),
)
@pytest.mark.rule("PERM-13", "PERM-2", "AGE-3")
def test_between_two_own_rebuilds_there_is_something_new(mode: str, seed: int, steps: list[tuple[Any, ...]]):
    account = Account(mode, smart_drops=bool(seed % 2))
    for number in range(seed):
        account.step("tool", 400 + number * 7, ("Bash", "read", "grep")[number % 3])
    for step in steps:
        account.step(*step)


PASSES = 1_000


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["primary", "subagent"])
@pytest.mark.parametrize("threshold", [EXECUTE, FORCE, EMERGENCY], ids=["execute", "force", "emergency"])
@pytest.mark.parametrize("where", ["at", "above", "below", "around"])
@pytest.mark.rule("PERM-14", "T24")
def test_a_session_that_sits_at_a_threshold_rebuilds_once_an_episode(mode: str, threshold: int, where: str):
    chance = Random(threshold)
    account = Account(mode)
    for number in range(40):
        account.step("tool", 500 + number, ("Bash", "read", "grep")[number % 3])
    count = PASSES if where == "around" else PASSES // 5
    for number in range(count):
        off = {"at": 0, "above": 1, "below": -1}.get(where, chance.choice((-1, 0, 1)))
        account.step("usage", threshold + off)
        if mode == "primary" and number % 3 == 0:
            account.step("tool", chance.choice((3, 50, 300)), "Bash")
        else:
            account.step("turn", 5)
    assert len(account.own) <= account.episodes
    assert where != "below" or threshold != EXECUTE or not account.episodes
    if threshold != EXECUTE and where != "below":
        assert len(account.own) == 1, "the first pass in the band had work, and no other"


@pytest.mark.rule("PERM-14")
def test_at_95_percent_it_cleans_up_again_once_that_pays_for_itself():
    account = Account()
    for number in range(20):
        account.step("tool", 500 + number, "Bash")
    usage = EMERGENCY
    for _ in range(14):
        account.step("usage", usage)
        account.step("tool", 400, "Bash")
        usage += 450
    assert 2 <= len(account.own) <= 4, account.own


def pays_for_little(patch: pytest.MonkeyPatch) -> None:
    """Queued work of any size lets a primary rebuild by itself."""
    patch.setattr(permission, "WORTH", 1)


def the_same_again(patch: pytest.MonkeyPatch) -> None:
    """A request sent again as it is counts as something new, and cleanup as never done."""
    pressed = property(lambda found: found.due != "defer" or found.gauge.presses)
    patch.setattr(situation.Situation, "news", pressed)
    patch.setattr(landing, "_settled", lambda *_: False)


def age_without_permission(patch: pytest.MonkeyPatch) -> None:
    """Old output leaves whenever there is some, as if every pass had a cause."""
    real = permission.permit

    def permit(**given: Any) -> permission.Permission:
        found = real(**given)
        return found if found.granted else permission.Permission(True, ("own_worth",), 0)

    patch.setattr(permission, "permit", permit)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutation", "said"),
    [
        (pays_for_little, "passes held it|again in one episode"),
        (the_same_again, "nothing was new|again in one episode"),
        (age_without_permission, "nothing was (queued|new)|passes held it"),
    ],
)
def test_the_account_finds_the_mutation(mutation: Any, said: str, monkeypatch: pytest.MonkeyPatch):
    mutation(monkeypatch)
    with pytest.raises(AssertionError, match=said):
        test_between_two_own_rebuilds_there_is_something_new()
