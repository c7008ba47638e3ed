"""What the proxy does where the store is busy, broken or newer: never an unmanaged request unless the user said so."""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.adapters.config import Config
from foldlog.adapters.proxy.gate import Blocked
from foldlog.adapters.proxy.protocols.anthropic import ANTHROPIC
from foldlog.domain import events as ev
from foldlog.domain.errors import FoldlogError, OptionError, StoreBusy, StoreNewer, StoreUnavailable
from support.proxy import Provider, assistant, body, serving, user, wait_for

ONE = [user("hello")]
TITLE = {"system": "Generate a concise, sentence-case title for this session."}


class Store:
    """Opens engines, or fails as it is told."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.opened = 0

    def __call__(self) -> foldlog.Engine:
        self.opened += 1
        if self.fault is not None:
            raise self.fault
        return foldlog.Engine.open("memory:", summarizer=None)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (StoreUnavailable("the file is not a foldlog store", value="/x/f.db"), "foldlog verify"),
        (StoreNewer("the store was written by foldlog 9"), "Update"),
    ],
)
def test_a_store_that_cannot_be_used_refuses_every_pass_and_is_tried_again(
    provider: Provider, config: Config, fault: Exception, words: str
) -> None:
    """PROXY-61."""
    store = Store()
    store.fault = fault
    with serving(config, store) as proxy:
        for _ in range(5):
            answer = proxy.ask(ONE)
            said = answer.json()["error"]["message"]
            assert answer.status_code == 400
            assert answer.json()["type"] == "error"
            assert str(fault.args[0]) in said
            assert words in said
            assert "Nothing was sent" in said
            assert "FAIL_CLOSED_BLOCKING" in said
        assert store.opened == 1
        proxy.ask(ONE)
        assert store.opened == 2  # the first refusal opened it; the fifth behind it tried again
        assert not provider.seen
        store.fault = None
        codes = [proxy.ask(ONE).status_code for _ in range(5)]
        assert codes == [400, 400, 400, 400, 200]
        assert len(provider.seen) == 1
        assert proxy.page("/foldlog/health").json()["store"] == ""


def test_helper_calls_need_no_store(provider: Provider, config: Config) -> None:
    """PROXY-61, PROXY-44."""
    store = Store()
    store.fault = StoreUnavailable("gone")
    with serving(config, store) as proxy:
        answer = proxy.ask(ONE, **TITLE)
        assert answer.status_code == 200
        assert proxy.client.post("/v1/messages/count_tokens", json={"messages": ONE, "model": "m"}).status_code == 200
        assert proxy.client.get("/v1/models", headers={"x-api-key": "k"}).status_code == 200
    assert len(provider.seen) == 3


def test_the_user_may_let_the_hosts_own_request_pass(provider: Provider, config: Config) -> None:
    """PROXY-62: by the configuration, and by nothing else."""
    store = Store()
    store.fault = StoreUnavailable("gone")
    loose = config.model_copy(update={"fail_closed_blocking": False})
    with serving(loose, store) as proxy:
        answer = proxy.ask(ONE, top_k=7)
        assert answer.status_code == 200
        wait_for(proxy.moments)
        (moment,) = proxy.moments()
        assert (moment["level"], moment["note"]) == ("raw", "the store cannot be used")
    assert provider.seen[0].json["messages"] == ONE


def test_a_store_that_fails_under_a_pass_shuts_the_gate(
    provider: Provider, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROXY-61: a newer program migrated it meanwhile."""
    store = Store()
    with serving(config, store) as proxy:
        assert proxy.ask(ONE).status_code == 200
        engine = proxy.door.gate._engine

        def newer(*given: Any, **named: Any) -> Any:
            raise StoreNewer("the store was written by foldlog 9")

        monkeypatch.setattr(engine.log, "append", newer)
        more = [*ONE, assistant("ok"), user("on")]
        for _ in range(5):
            answer = proxy.ask(more)
            assert answer.status_code == 400
            assert "Update" in answer.json()["error"]["message"]
        assert len(provider.seen) == 1
        assert proxy.ask(more).status_code == 200  # opened anew
        assert store.opened == 2


def busy_once(engine: foldlog.Engine, monkeypatch: pytest.MonkeyPatch, times: int) -> Callable[[], int]:
    real, left = engine.log.append, [times]

    def append(*given: Any, **named: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            raise StoreBusy("another process holds the store")
        return real(*given, **named)

    monkeypatch.setattr(engine.log, "append", append)
    return lambda: left[0]


def test_a_busy_store_is_tried_again(provider: Provider, config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROXY-60."""
    with serving(config, Store()) as proxy:
        proxy.ask(ONE)
        proxy.settle()
        left = busy_once(proxy.door.gate._engine, monkeypatch, 2)
        assert proxy.ask([*ONE, assistant("ok"), user("on")]).status_code == 200
        assert left() == 0
        assert [type(e).__name__ for e in proxy.events() if isinstance(e, ev.Pass)][-1] == "PassDeferred"


def test_a_store_that_stays_busy_is_gone_round_by_the_last_good_request(
    provider: Provider, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROXY-60, LAST-2: and what went out so is recorded when the store is back."""
    from foldlog.adapters.proxy import preparing, reporting

    for module in (preparing, reporting):
        monkeypatch.setattr(module, "BUSY_PAUSES", (0.001,) * 3)
    messages = [*ONE, assistant("ok"), user("on")]
    with serving(config, Store()) as proxy:
        proxy.ask(ONE)
        proxy.settle()
        with monkeypatch.context() as patch:
            busy_once(proxy.door.gate._engine, patch, 10_000)
            assert proxy.ask(messages).status_code == 200
            messages += [assistant("ok"), user("and on")]
            assert proxy.ask(messages).status_code == 200
            proxy.settle()
            registry = proxy.door.gate.ready
            registry._limit = 0
            registry.done(registry.admit(ANTHROPIC, {"x-claude-code-session-id": "s2"}, json.dumps(body(ONE)).encode()))
            assert [one.id for one in registry.all()] == ["s1"]  # it still owes the store a record
        messages += [assistant("ok"), user("at last")]
        assert proxy.ask(messages).status_code == 200
        found = [type(e).__name__ for e in proxy.events() if isinstance(e, ev.Pass | ev.LastGoodReplayed)]
        assert found == ["BaselineFolded", "LastGoodReplayed", "PassDeferred"]
        assert not proxy.door.gate._engine.audit("claude-code/s1").differences
        assert [moment["reasons"] for moment in proxy.moments()][1:3] == [["last_good"]] * 2
    bodies = [without_marks(seen.json["messages"]) for seen in provider.seen]
    for before, after in itertools.pairwise(bodies):
        assert after[: len(before)] == before
    assert provider.seen[1].json["messages"][-1]["content"][-1]["text"] == "on"


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_marks(inner) for name, inner in value.items() if name != "cache_control"}
    return [without_marks(inner) for inner in value] if isinstance(value, list) else value


def test_a_store_that_stays_busy_refuses_where_the_last_request_is_not_safe(
    provider: Provider, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROXY-60: with a status on which the client tries again."""
    from foldlog.adapters.proxy import preparing

    monkeypatch.setattr(preparing, "BUSY_PAUSES", (0.001,) * 3)
    with serving(config, Store()) as proxy:
        proxy.ask(ONE)
        proxy.settle()
        left = busy_once(proxy.door.gate._engine, monkeypatch, 10_000)
        answer = proxy.ask([user("something else"), assistant("ok"), user("on")])
        assert answer.status_code == 503
        assert answer.json()["error"]["type"] == "overloaded_error"
        assert "send the message again" in answer.json()["error"]["message"]
        assert left() == 10_000 - 4
    assert len(provider.seen) == 1


def test_a_real_lock_of_another_process(
    provider: Provider, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROXY-60."""
    monkeypatch.setattr("foldlog.adapters.proxy.preparing.BUSY_PAUSES", (0.001,))
    url = f"sqlite:///{tmp_path / 'f.db'}"
    with serving(config, lambda: foldlog.Engine.open(url, summarizer=None)) as proxy:
        proxy.ask(ONE)
        proxy.settle()
        with sqlite3.connect(tmp_path / "f.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            assert proxy.ask([user("hello again")]).status_code == 503
            assert proxy.ask([*ONE, assistant("ok"), user("on")]).status_code == 200
            other.execute("ROLLBACK")
        assert proxy.ask([*ONE, assistant("ok"), user("on"), assistant("ok"), user("and on")]).status_code == 200
        assert not proxy.door.gate._engine.audit("claude-code/s1").differences


@pytest.mark.parametrize("cause", [StoreNewer("newer"), OptionError("no such place"), StoreUnavailable("gone")])
def test_a_refusal_says_what_to_do_in_whole_sentences(cause: FoldlogError) -> None:
    """PROXY-61."""
    assert re.search(r"\. Nothing was sent, since this [a-z ]+\. (Update|Correct|Run) .*\.$", str(Blocked(cause)))
