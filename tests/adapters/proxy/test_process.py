"""`foldlog serve` as a process: its run file, its end."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldlog.adapters.proxy.server import listen
from foldlog.domain.errors import OptionError
from support.program import command, environment, process
from support.proxy import AGENT, Provider, body, events, streamed, user, wait_for

HEADERS = {"x-claude-code-session-id": "s1", "user-agent": AGENT, "x-api-key": "k"}


@pytest.fixture
def env(provider: Provider, tmp_path: Path) -> dict[str, str]:
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    return {
        **environment(),
        "XDG_RUNTIME_DIR": str(runtime),
        "FOLDLOG_CONFIG": "",
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "FOLDLOG_DB": str(tmp_path / "f.db"),
        "FOLDLOG_ANTHROPIC_UPSTREAM": provider.url,
    }


@pytest.fixture
def serve(env: dict[str, str]) -> Iterator[Any]:
    running: list[subprocess.Popen[str]] = []

    def start(*args: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
        found = subprocess.Popen(
            command("serve", "--port", "0", "--json", *args),
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(found)
        assert found.stdout is not None
        return found, json.loads(found.stdout.readline())

    yield start
    for one in running:
        one.kill()
        one.communicate(timeout=10)


@pytest.mark.slow
def test_open_answers_end_before_the_process_does(provider: Provider, env: dict[str, str], serve: Any) -> None:
    """PROXY-46, PROXY-81."""
    found, said = serve()
    place = Path(env["XDG_RUNTIME_DIR"]) / "foldlog" / f"proxy-{said['port']}.json"
    run = json.loads(place.read_text())
    assert (run["pid"], run["port"]) == (found.pid, said["port"])
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    gate = threading.Event()
    provider.script = [streamed(events(input_tokens=9), wait=gate)]
    watch = {"authorization": f"Bearer {run['token']}"}
    with (
        httpx.stream("GET", said["url"] + "/foldlog/events", headers=watch, timeout=20),
        httpx.stream(
            "POST", said["url"] + "/v1/messages", json=body([user("hi")]), headers=HEADERS, timeout=20
        ) as answer,
    ):
        pieces = answer.iter_raw()
        got = next(pieces)
        found.send_signal(signal.SIGTERM)
        wait_for(lambda: _refuses(said["url"]))
        gate.set()
        assert b"message_stop" in got + b"".join(pieces)
    assert found.wait(10) == 0
    assert found.stderr is not None
    assert "Traceback" not in found.stderr.read()
    assert not place.exists()
    listed = process(["passes", "s1", "--json"], env=env)
    (one,) = json.loads(listed.stdout)
    assert one["prompt"] == 9  # the figures of the answer that ended last are in the store


def _refuses(url: str) -> bool:
    try:
        httpx.get(url + "/", timeout=2)
    except httpx.TransportError:
        return True
    return False


@pytest.mark.slow
def test_a_port_that_is_taken_is_said(serve: Any, env: dict[str, str]) -> None:
    found, said = serve()
    other = process(["serve", "--port", str(said["port"])], env=env)
    assert other.returncode == 2
    assert "--port" in other.stderr
    assert "Traceback" not in other.stderr
    found.send_signal(signal.SIGINT)
    assert found.wait(10) == 0


def test_a_port_that_is_taken_is_let_go_of() -> None:
    """A socket left open would be a warning, and with it red."""
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(OptionError, match="is another one running") as caught:
            listen("127.0.0.1", port)
    assert (caught.value.where, caught.value.value) == ("port", f"127.0.0.1:{port}")
    with listen("127.0.0.1", port) as again:
        assert again.getsockname()[1] == port


@pytest.mark.slow
def test_an_observing_process_sums_up_at_its_end(provider: Provider, env: dict[str, str]) -> None:
    """PROXY-72."""
    found = subprocess.Popen(
        command("serve", "--port", "0", "--observe"), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert found.stdout is not None
    greeting = [found.stdout.readline() for _ in range(3)]  # all of it: what a reader keeps, communicate() never sees
    url = greeting[0].split(" at ")[1].split(" ")[0]
    assert f"ANTHROPIC_BASE_URL={url} " in greeting[1]
    assert httpx.post(url + "/v1/messages", json=body([user("hi")]), headers=HEADERS, timeout=20).status_code == 200
    found.send_signal(signal.SIGTERM)
    _, err = found.communicate(timeout=30)
    assert "observed 1 request of 1 session," in err
    assert "Estimated" in err
    assert found.returncode == 0
