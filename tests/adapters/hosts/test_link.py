"""The link process: who may call, what it does with lines, how long it lives (LINK-1 to LINK-8)."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

import pytest

from foldlog.adapters import local
from foldlog.adapters.hosts import link, place, rpc
from foldlog.adapters.hosts.desk import Desk
from foldlog.domain.errors import StoreNewer, StoreUnavailable
from support.linked import Plugin, step, user

unix = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets and modes")


@unix
@pytest.mark.rule("LINK-2")
def test_folder_socket_and_file_are_the_users_alone(start, folder):
    run = start().run
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in (folder, *folder.iterdir())}
    assert modes == {"foldlog": 0o700, "link.sock": 0o600, "link.json": 0o600, "link.lock": 0o600}
    assert run.token == ""


@unix
@pytest.mark.rule("LINK-2")
def test_another_users_process_is_turned_away_without_a_word(start, monkeypatch, connect):
    run = start().run
    monkeypatch.setattr(place, "peer_uid", lambda peer: os.geteuid() + 1)
    client = connect(run, greet=False)
    assert client.file.readline() == b""
    monkeypatch.setattr(place, "peer_uid", lambda peer: None)
    assert connect(run, greet=False).file.readline() == b""
    monkeypatch.undo()


@unix
def test_the_system_tells_who_calls():
    """LINK-2: the uid is the kernel's word, not the caller's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    assert place.peer_uid(ours) == os.geteuid()
    assert not place.stranger(theirs)
    ours.close()
    theirs.close()


@unix
@pytest.mark.rule("LINK-1")
def test_a_socket_a_dead_process_left_is_replaced(start, folder, connect):
    folder.mkdir(mode=0o700)
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(folder / "link.sock"))
    left.close()
    assert connect(start().run).call("health", session="a")["protocol"] == 1


@pytest.mark.rule("LINK-1")
def test_only_one_process_holds_the_lock(start):
    start()
    with place.alone() as mine:
        assert not mine


@unix
@pytest.mark.rule("LINK-1")
def test_of_two_started_at_once_one_serves_and_both_say_where(folder):
    program = [sys.executable, "-c", "from foldlog.adapters.cli import main; main()", "link"]
    env = {**os.environ, "FOLDLOG_DB": "memory:"}
    both = [subprocess.Popen(program, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [json.loads(one.stdout.readline()) for one in both]
    assert said[0] == said[1]
    assert said[0]["pid"] in {one.pid for one in both}
    os.kill(said[0]["pid"], signal.SIGTERM)
    assert [one.wait(20) for one in both] == [0, 0]
    assert not (folder / "link.sock").exists()
    assert not (folder / "link.json").exists()
    for one in both:
        one.stdout.close()


@pytest.mark.rule("LINK-3")
def test_it_ends_when_nobody_needs_it_and_not_before(start, folder, connect):
    running = start(idle_exit_s=0.15)
    client = connect(running.run)
    time.sleep(0.4)
    assert client.call("health", session="a")  # somebody is connected
    client.close()
    running.thread.join(5)
    assert not running.thread.is_alive()
    assert [path.name for path in folder.iterdir()] == ["link.lock"]


@pytest.mark.rule("LINK-3")
def test_what_is_under_way_ends_before_the_process_does(start, monkeypatch, connect):
    slow = threading.Event()
    monkeypatch.setitem(link.METHODS, "health", (link.METHODS["health"][0], lambda *_: {"late": slow.wait(0.2)}))
    running = start()
    client = connect(running.run)
    client.send("health", session="a")
    time.sleep(0.05)
    running.stop()
    assert client.receive()["result"] == {"late": False}


@unix
@pytest.mark.rule("LINK-2")
def test_loopback_takes_only_the_token(start, connect):
    run = start(tcp=True).run
    assert run.token
    assert not run.socket
    assert connect(run).call("health", session="a")
    wrong = connect(run, greet=False)
    assert "token" in wrong.ask("hello", host="pi", protocol=1, token="guess")["error"]["message"]
    assert wrong.receive() == {}
    for first in (b"POST / HTTP/1.1\n", b'{"jsonrpc":"2.0","id":1,"method":"health","params":{"session":"a"}}\n'):
        browser = connect(run, greet=False)
        browser.raw(first)
        assert "error" in browser.receive()
        assert browser.receive() == {}


@pytest.mark.rule("LINK-4")
def test_garbage_is_answered_and_ends_nothing_but_its_own_connection(start, connect):
    running = start()
    client, other = connect(running.run), connect(running.run)
    for line in (
        b"garbage",
        b"[1,2]",
        b'{"jsonrpc":"1.0","method":"health"}',
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","id":{}}',
    ):
        client.raw(line + b"\n")
        assert client.receive()["error"]["code"] in {rpc.PARSE, rpc.INVALID}, line
    client.raw(b"\n\n")  # blank lines are nothing
    assert client.call("health", session="a")
    assert client.ask("nope", session="a")["error"]["code"] == rpc.UNKNOWN_METHOD
    assert client.ask("health")["error"]["code"] == rpc.PARAMS
    assert client.ask("pass", session="a", order=[[0, 4]], count=4)["error"]["code"] == rpc.PARAMS
    assert client.ask("pass", session="a", order=[], count=2)["error"]["code"] == rpc.PARAMS
    client.raw(b"x\n" * (link.GARBAGE - 5))
    while frame := client.receive():
        assert frame["error"]["code"] == rpc.PARSE
    assert other.call("health", session="a")


@pytest.mark.rule("LINK-4")
def test_a_line_that_is_too_long_closes_its_connection(start, monkeypatch, connect):
    monkeypatch.setattr(rpc, "LINE_LIMIT", 4096)
    client = connect(start().run)
    client.raw(b'{"jsonrpc":"2.0","id":5,"method":"health","params":{"session":"' + b"a" * 20_000)
    assert "may have 4,096 bytes" in client.receive()["error"]["message"]
    assert client.receive() == {}


@pytest.mark.rule("LINK-4")
def test_half_a_surrogate_pair_comes_through(start, connect):
    running = start()
    plugin = Plugin(running, connect(running.run))
    plugin.take([user("half \ud83d of it", 1)])
    assert plugin.made[-1]["content"][0]["text"] == "§1§ half \ud83d of it"


@pytest.mark.rule("LINK-5")
def test_one_session_waits_and_another_does_not(start, monkeypatch, connect):
    gate = threading.Event()
    seen = []

    def slow(desk, caller, given):
        if given.session == "slow" and not seen:
            seen.append(given.command)
            gate.wait(5)
        else:
            seen.append(given.command)
        return {"did": given.command}

    monkeypatch.setitem(link.METHODS, "status", (link.METHODS["status"][0], slow))
    run = start().run
    one, two = connect(run), connect(run)
    first = one.send("status", session="slow", command="1")
    while not seen:
        time.sleep(0.005)
    second = two.send("status", session="slow", command="2")  # of the same session, by another connection
    assert two.send("status", session="quick", command="q")
    assert two.receive()["result"] == {"did": "q"}  # out of order: it need not wait
    gate.set()
    assert one.receive()["id"] == first
    assert two.receive()["id"] == second
    assert seen == ["1", "q", "2"]


@pytest.mark.rule("LINK-6")
def test_a_defect_of_ours_refuses_the_call_and_shows_no_trace(start, monkeypatch, connect):
    def broken(*_):
        raise ZeroDivisionError("secret detail")

    monkeypatch.setitem(link.METHODS, "status", (link.METHODS["status"][0], broken))
    client = connect(start().run)
    error = client.ask("status", session="a")["error"]
    assert error["data"]["code"] == "DEFECT"
    assert "secret" not in json.dumps(error)
    assert client.call("health", session="a")


@pytest.mark.rule("LINK-7")
@pytest.mark.parametrize("blocking", [True, False])
def test_a_store_that_cannot_be_opened_refuses_and_is_tried_again(start, blocking, connect):
    tries = []

    def make(_):
        tries.append(1)
        if len(tries) < 3:
            raise StoreUnavailable("the store cannot be opened", value="/data/foldlog.db")
        from foldlog import Engine

        return Engine.open("memory:", None)

    client = connect(start(make=make, fail_closed_blocking=blocking).run)
    order = [{"message": user("hello", 1)}]
    errors = [client.ask("pass", session="a", order=order, count=1)["error"] for _ in range(10)]
    assert {error["data"]["code"] for error in errors} == {"STORE_UNAVAILABLE"}
    assert {error["data"]["unmanaged"] for error in errors} == {not blocking}
    assert {error["data"]["last_good"] for error in errors} == {False}
    assert "foldlog verify" in errors[0]["message"]
    assert len(tries) == 2  # at first, and on the fifth of the calls behind it
    assert client.call("pass", session="a", order=order, count=1, helper="title") == {"managed": False}
    assert client.call("pass", session="a", order=order, count=1)["level"] == "hard"


@pytest.mark.rule("LINK-7")
def test_with_a_newer_store_the_process_gives_way_to_a_newer_program(start, connect):
    def make(_):
        raise StoreNewer("the store was written by a newer foldlog")

    running = start(make=make)
    client = connect(running.run)
    for left in range(5, 0, -1):
        assert running.thread.is_alive(), left
        error = client.ask("pass", session="a", order=[{"message": user("hello", 1)}], count=1)["error"]
        assert error["data"]["code"] == "STORE_NEWER"
        assert "update foldlog" in error["message"]
    running.thread.join(5)
    assert not running.thread.is_alive()


@pytest.mark.rule("LINK-8")
def test_no_key_of_the_environment_is_left_anywhere(folder, tmp_path, connect):
    key = "sk-planted-7f3a9c"
    store = tmp_path / "s.db"
    program = [sys.executable, "-c", "from foldlog.adapters.cli import main; main()", "link"]
    env = {**os.environ, "FOLDLOG_DB": f"sqlite:///{store}", "FOLDLOG_IDLE_EXIT_S": "0.3", "ANTHROPIC_API_KEY": key}
    process = subprocess.Popen(program, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    where = process.stdout.readline()
    run = json.loads(where)
    client = connect(local.Run(run["port"], run["pid"], run["token"], run["version"], run["socket"]))
    client.call("pass", session="s", order=[{"message": user("hello", 1)}], count=1)
    heard = [
        json.dumps(client.ask("tool", session="s", name=name, arguments={"drop": 5})) for name in ("ctx_reduce", "x")
    ]
    client.close()
    assert process.wait(10) == 0
    left = b"".join(path.read_bytes() for root in (folder, tmp_path) for path in root.rglob("*") if path.is_file())
    assert len(left) > 1000
    said = where + process.stderr.read() + process.stdout.read() + "".join(heard).encode()
    process.stdout.close()
    process.stderr.close()
    assert key.encode() not in left + said


def test_hello_names_what_does_not_fit(start, connect):
    """LINK-6: another version of the link is said, with what to do."""
    client = connect(start().run, greet=False)
    error = client.ask("hello", host="pi", protocol=99)["error"]
    assert error["data"]["code"] == "PROTOCOL"
    assert "foldlog setup pi" in error["message"]


def test_desk_and_table_agree():
    """LINK-6: every method of the table is one of the desk."""
    assert all(getattr(Desk, method.__name__) is method for _, method in link.METHODS.values())


def test_a_long_session_is_told_by_what_changed(start, connect):
    """LINK-9 and LINK-11: what is told and answered grows with what is new, not with the session."""
    running = start()
    plugin = Plugin(running, connect(running.run))
    messages = [user("begin", 1)]
    for n in range(6):
        messages += step(n)
        answer = plugin.take(messages)
        edits = answer["edits"]
        assert len(edits["messages"]) == (2 if n else 3)
        assert edits["from"] == (n or 0)
        assert len(plugin.asked["order"]) == 3
