"""Forks, subagents, OpenCode's second engine: what hosts do beside one straight session."""

from __future__ import annotations

import time

import httpx
import pytest
from e2e import measure, scripts
from e2e.hosts import base, opencode, pi
from e2e.provider import record
from e2e.provider.scenario import Call, Scenario, Step
from e2e.stage import stage

FORKED = "Go on otherwise. [[main:{step}]]"


def test_a_fork_goes_its_own_way(host, tmp_path):
    """Two branches of one session, each with its own history, both valid; the first is not touched by the second."""
    if not host.FORKS:
        pytest.skip(f"{host.NAME} forks no session without a terminal")
    with stage(
        tmp_path / "r", host, lambda work: scripts.long(work, host.WINDOW, steps=18, stop=8), managed=True
    ) as made:
        first = made.play(scripts.PROMPT.format(track="main", step=0))
        session = host.session_of(first)
        forked = made.play(FORKED.format(step=9), session, fork=True)
        between = len(made.records)
        again = made.play(scripts.PROMPT.format(track="main", step=9), session)
        for ran in (forked, again):
            assert (ran.code, host.said(ran)) == (0, "The list is done."), ran.err
        assert host.session_of(forked) != session
        assert [each.message for each in made.records if each.failure] == []
        records = made.records
        texts = [str(record.body_of(made.room.provider, each)) for each in records]
    begun = next(at for at, each in enumerate(records) if each.step == 9)
    assert "Go on otherwise." in texts[begun]
    assert not any("Go on otherwise." in text for text in texts[between:]), "the fork's prompt is in the first branch"
    assert len(measure.streams(made.db)) >= 2, measure.streams(made.db)


def test_a_subagent_has_a_session_of_its_own(host, tmp_path):
    """Some hosts wait for it by themselves, one has a tool for that, and one goes on at once: there a command waits."""
    if host is pi:
        pytest.skip("it has no subagents")

    def script(work):
        part = [Step(f"Part {n}.", calls=(Call("read", path=str(work / f"part{n:02d}.txt")),)) for n in range(4)]
        part.append(Step("My part is over.", calls=(Call("run", command="touch part.done"),)))
        waits = "until [ -e part.done ]; do sleep 0.1; done"
        tracks = {
            "main": (
                Step("I look myself.", calls=(Call("read", path=str(work / "part09.txt")),)),
                Step("A helper does the rest.", calls=(Call("task", track="sub"),)),
                Step("I wait for it.", calls=(Call("wait"),)),
                Step("Is it done?", calls=(Call("run", command=waits),)),
                Step("And I look again.", calls=(Call("read", path=str(work / "part10.txt")),)),
                Step("The list is done."),
            ),
            "sub": (*part, Step("The part is done.")),
        }
        return Scenario(tracks=tracks, window=host.WINDOW)

    with stage(tmp_path / "r", host, script, managed=True) as made:
        ran = made.play(scripts.PROMPT.format(track="main", step=0))
        assert (ran.code, host.said(ran)) == (0, "The list is done."), ran.err
        assert [each.message for each in made.records if each.failure] == []
        tracks = {each.track for each in made.records if each.kind == "step"}
        assert tracks == {"main", "sub"}
    asked = measure.main(made.records, measure.rows(made.db))
    assert [each.record.n for each in asked if each.changed] == [], "the subagent moved its parent's prefix"
    assert len(measure.streams(made.db)) == 2, measure.streams(made.db)


def _healthy(client):
    """Wait for the server; what is asked of it too early is never answered."""
    for _ in range(60):
        try:
            if client.get("/global/health", timeout=1).is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.3)
    raise AssertionError("opencode serve is not healthy")


def _wait(made, step, seconds):
    """Return whether the provider was asked for ``step`` in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if any(each.kind == "step" and each.step >= step for each in made.records):
            return True
        time.sleep(0.2)
    return False


def test_the_second_engine_of_opencode_goes_through_the_proxy(tmp_path):
    """Its plugin hooks do not fire there: the proxy manages it like any other client."""
    if not (base.NODE_MODULES / opencode.PACKAGE).is_dir():
        pytest.skip("OpenCode is not installed: `make e2e` installs the hosts")
    steps = 24
    script = lambda work: scripts.long(work, opencode.WINDOW, steps=steps, stop=99)  # noqa: E731
    with stage(tmp_path / "r", opencode, script, managed=False) as made:
        made.through_proxy()
        room = made.room
        config = opencode.config(room, f"http://127.0.0.1:{made.proxy}", "openai-chat")
        room.write(".config/opencode/opencode.json", config)
        port = base.free_port()
        binary = str(base.NODE_MODULES / ".bin" / "opencode")
        base.start(room, "opencode", [binary, "serve", "--port", str(port), "--hostname", "127.0.0.1"])
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            _healthy(client)
            where = {"location": {"directory": str(room.work)}}
            session = client.post("/api/session", json=where).json()["data"]["id"]
            prompt = {"text": scripts.PROMPT.format(track="main", step=0)}
            for _ in range(5):  # the engine may find no model while it still starts; it says so and waits to be asked
                assert client.post(f"/api/session/{session}/prompt", json={"prompt": prompt}).is_success
                if _wait(made, 0, 10):
                    break
            assert _wait(made, steps, 60), [(each.step, each.status) for each in made.records]
        time.sleep(0.5)  # the last answer's usage
        records = made.records
    assert [each.message for each in records if each.failure] == []
    found = measure.main(records, measure.rows(made.db))
    levels = {each.row.level for each in found if each.row}
    assert levels >= {"hard", "defer"}
    assert levels & {"soft", "soft+"}, [each.row for each in found]
    assert [each.record.n for each in found if each.changed and each.row.level == "defer"] == []
    assert [each.record.n for each in found if each.cause == "unexplained"] == []
