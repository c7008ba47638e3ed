"""Reports of sessions resumed, forked, edited or undone, each as a kind: several inputs (``specs/reports.md``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import foldlog
from support.past import Scripted, covered, headings, opened, press, sent, summarise, tail, talk, texts
from support.proxy import Provider, Proxy
from support.proxy import assistant as answer
from support.proxy import user as prompt
from support.talk import Chat, assistant, differences, fingerprint, shown, use, user, words

FREE = {"protected_tokens": 0}


def managed(codec: str = "anthropic", **options: Any) -> Chat:
    """A session of forty turns, the first thirty messages of it in two summaries."""
    host = Chat(opened(), codec=codec, context_limit=20_000, policy=FREE, **options)
    request = talk(host, 22, mark="OLD")
    summarise(host, 16)
    summarise(host, 30)
    press(host, request)
    press(host, talk(host, 1, mark="OLD"), 20)
    assert host.state.cut == 30
    return host


# ------------------------------------------------------------------- RF-01: a fork


@pytest.mark.rule("RF-01", "TAG-7")
@pytest.mark.parametrize("at", [3, 7, 11, None])
@pytest.mark.parametrize("how", ["drops", "summaries"])
def test_a_fork_is_as_small_as_its_parent(at: int | None, how: str):
    """What was decided up to the fork point holds: it never begins with two or four times its window."""
    if how == "summaries":
        host = managed()
        size = sum(map(len, host.again().messages_json))
        child = host.session.fork("child")
        request = child.prepare([*host.messages, assistant("ok"), user("go")], now=host.now + 5)
        assert request.level == "defer"
        assert sum(map(len, request.messages_json)) < size + 400
        return
    host = Chat(policy=FREE)
    host.say(user("start"))
    for number in range(6):
        host.tool(f"t{number}", words(9_000) + str(number))
    host.session.reduce("2-5")
    host.session.flush()
    old = host.turn()
    child = host.session.fork("child", at=at)
    messages = [*host.messages[: at or len(host.messages)], assistant("here I turn"), user("go")]
    request = child.prepare(messages, now=host.now + 5)
    same = len(request.messages_json) - 2
    assert request.level == "defer"
    assert request.messages_json[:same] == old.messages_json[:same]
    assert child.status().usage_source == "estimated"
    assert differences(host.engine, "child") == []


# ------------------------------------------------------------------- RF-02: a boundary that is out of view


@pytest.mark.rule("RF-02", "IDENT-6", "IDENT-13", "HIST-33", "OC-8")
@pytest.mark.parametrize("begins", [10, 20, 29, 34, 40])
@pytest.mark.parametrize("ids", [True, False])
def test_a_list_that_begins_behind_the_boundary_is_managed_again(begins: int, ids: bool):
    """The host cuts its list at a mark of its own, before, at or behind what our summaries cover: one fold at most,
    then deferred passes, drops that land, and nothing degraded for good.
    """
    host = managed("openai-chat" if ids else "anthropic")
    if ids:
        host = with_ids()
    host.messages = host.messages[begins:]
    if host.messages[0]["role"] == "assistant":
        del host.messages[0]
    host.again()
    levels = []
    for number in range(6):
        request = say(host, ids, f"next {number}")
        use(request, 8_000)
        levels.append(request.level)
        owners = [m for m in request.built.owners if m]
        assert list(dict.fromkeys(owners)) == host.state.path[host.state.start() :]
    assert levels[1:].count("defer") >= len(levels) - 2
    number = next(n for n in range(len(host.state.tags), 0, -1) if host.state.tags[n - 1].status == "active") - 4
    host.session.reduce(str(number))
    host.session.flush()
    assert f"[dropped §{number}§]" in sent(say(host, ids, "and"))
    assert differences(host.engine) == []


def with_ids() -> Chat:
    """The same on a host whose messages have ids."""
    host = Chat(opened(), codec="openai-chat", context_limit=20_000, policy=FREE)
    host.messages = [named("user", "m0", words(100))]
    request = host.again()
    for number in range(22):
        request = say(host, True, f"prompt {number} {words(100)}")
    summarise(host, 16)
    summarise(host, 30)
    press(host, request)
    press(host, say(host, True, "on"), 20)
    assert host.state.cut == 30
    return host


def named(role: str, id: str, said: str) -> dict[str, Any]:
    return {"role": role, "content": said, "id": id}


def say(host: Chat, ids: bool, said: str) -> foldlog.Request:
    if not ids:
        return host.say(assistant(f"ok {words(40)}"), user(said))
    at = f"{host.now:.0f}"
    return host.say(named("assistant", f"a{at}", f"ok {words(40)}"), named("user", f"u{at}", said))


# ------------------------------------------------------------------- RF-04: undo and redo


@pytest.mark.rule("RF-04", "TAG-6", "IDENT-4", "IDENT-5")
@pytest.mark.parametrize("turns", [1, 2, 4])
@pytest.mark.parametrize("marked", ["queued", "dropped"])
def test_undo_takes_back_what_was_decided_of_it_and_redo_restores_it(turns: int, marked: str):
    """Numbers, drops and marks of the messages an undo removes are off the path with them, and come back with them."""
    host = Chat(policy=FREE)
    host.say(user("start"))
    for number in range(8):
        host.tool(f"t{number}", words(2_000) + str(number))
    host.session.reduce("7-8")
    if marked == "dropped":
        host.session.flush()
    before = host.turn()
    whole, numbers = list(host.messages), shown(before)
    host.messages = [*whole[: -2 * turns - 4], assistant("hm"), user("otherwise")]
    host.again()
    undone = host.turn("on")
    assert not set(shown(undone)[-4:]) & set(numbers), "no number is given twice"
    away = {n for n in (7, 8) if host.state.tags[n - 1].m not in host.state.pos}
    assert away
    use(undone, 196_000)
    host.turn()
    assert marked == "dropped" or away <= set(host.state.queue), "what is queued on them does not run"
    host.messages = whole
    host.again()
    redone = host.turn("again")
    assert "§7§" not in "".join(f"§{n}§" for n in shown(redone)) or marked == "queued"
    assert [n for n in shown(redone) if n <= max(numbers) and n not in (7, 8)] == [
        n for n in numbers if n not in (7, 8)
    ]
    assert differences(host.engine) == []


# ------------------------------------------------------------------- RF-06: another folder


@pytest.mark.rule("RF-06", "PROXY-4")
@pytest.mark.parametrize("folders", [("/home/dev/a", "/home/dev"), ("/", "/tmp"), ("/a b/ü", "/a b")])
def test_a_session_is_its_id_in_whatever_folder_it_is_opened(
    folders: tuple[str, str], provider: Provider, proxy: Proxy
):
    """The client tells its folder in the system text alone: the same session goes on, with its numbers and drops."""
    history = [prompt("look"), answer("I look"), prompt("and this")]
    proxy.ask(history, system=f"You work in {folders[0]}.")
    assert proxy.page("/foldlog/tools/ctx_reduce", json={"arguments": {"drop": "1"}, "session": "s1"}).is_success
    proxy.settle()
    proxy.ask([*history, answer("ok"), prompt("on")], system=f"You work in {folders[1]}.")
    body = provider.seen[-1].json
    assert folders[1] in json.dumps(body["system"], ensure_ascii=False)
    assert "[dropped §1§]" in json.dumps(body["messages"], ensure_ascii=False)
    assert {moment["session"] for moment in proxy.moments()} == {"claude-code/s1"}


@pytest.mark.rule("RF-06", "API-5")
@pytest.mark.parametrize("folders", [("a", "b"), ("a", ".")])
def test_the_store_is_found_from_another_folder(
    folders: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    url = f"sqlite:///{tmp_path}/s.db"
    before: tuple[bytes, ...] = ()
    messages: list[Any] = [user("start")]
    for number, folder in enumerate(folders):
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        with foldlog.Engine.open(url, summarizer=None) as engine:
            after = engine.session("s").prepare(messages, now=1_750_000_000 + number)
            assert len(engine.sessions()) == 1
            sent_now = after.messages_json
        assert sent_now[: len(before)] == before
        before, messages = sent_now, [*messages, assistant("ok"), user("on")]


# ------------------------------------------------------------------- RF-07: what is opened stays once


@pytest.mark.rule("RF-07", "INV-4", "REDUCE-8")
@pytest.mark.parametrize("asked", [(1, 30), (3, 20), (16, 17), (29, 36)])
def test_looking_into_summaries_brings_nothing_back(asked: tuple[int, int]):
    """Originals are read, not opened: every message is in one summary or in the tail, before and after."""
    host = managed()
    before, state = host.again(), fingerprint(host.session)
    found = host.session.expand(*asked)
    assert len(found) == asked[1] - asked[0] + 1
    assert fingerprint(host.session) == state
    for _ in range(2):
        after = talk(host, 1)
        assert after.level == "defer"
        assert after.messages_json[: len(before.messages_json)] == before.messages_json
    host.session.report_cache_loss("said so")
    after = talk(host, 1)
    inside = covered(host)
    assert inside == list(range(1, 31)), "each once"
    assert sorted([*inside, *tail(after)]) == sorted(host.state.path)
    assert headings(texts(after)[0]) == [(1, 16), (17, 30)]


# ------------------------------------------------------------------- RF-10: an edit before the boundary


@pytest.mark.rule("RF-10", "HIST-32", "HIST-33", "INV-4")
@pytest.mark.parametrize(("place", "left"), [(3, 0), (11, 0), (17, 16), (29, 16), (33, 30)])
def test_an_edit_voids_the_summaries_behind_it_and_no_other(place: int, left: int):
    """A prompt is written anew and the conversation goes on from there: older summaries stay, those of what came
    behind are void, and no word of the branch that was left is read for a later summary.
    """
    host = managed()
    host.messages = [*host.messages[: place - 1], user("an edited prompt")]
    host.again()
    request = talk(host, 1, mark="BRANCH")
    assert host.state.cut == left
    assert [m for m in tail(request) if m < place] == list(range(left + 1, place))
    assert all(f"prompt {number} OLD" not in sent(request) for number in range(place, 46))
    summarizer = Scripted()
    request = talk(host, 24, mark="BRANCH")
    for end in (place + 8, place + 16):
        summarise(host, end, summarizer)
    read = "\n".join(job.chunk for job in summarizer.jobs)
    assert "BRANCH" in read
    assert all(f"{said} {number} OLD" not in read for number in range(place - 1, 46) for said in ("prompt", "answer"))
    press(host, request)
    after = talk(host, 1, mark="BRANCH")
    assert sorted([*covered(host), *tail(after)]) == sorted(host.state.path)
    assert differences(host.engine) == []
