"""What goes wrong: exit codes, messages, damaged stores, readers that go away (specs/cli.md)."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

import foldlog
from foldlog.adapters.cli import checking, playing
from foldlog.adapters.traces.generator import generate
from foldlog.adapters.traces.reader import write
from foldlog.storage.protocol import open_log
from support.program import command, environment, ok, process, run, value
from support.stores import SQLiteKit

STREAM = "session/trace/played"


@pytest.mark.parametrize(
    "args",
    [
        ["bogus"], ["passes"], ["passes", "nobody"], ["passes", "trace/nobody"], ["show", "played", "--pass", "999"],
        ["show", "played", "--pass", "x"], ["show", "played", "--format", "xml"], ["diff", "played", "1"],
        ["diff", "played", "1", "999"], ["diff", "played", "a", "2"], ["why", "played", "x"], ["why", "played", "0"],
        ["why", "played", "99999"], ["why", "played", "-3"], ["audit"], ["audit", "played", "--all"],
        ["audit", "nobody"],
        ["export", "nobody"], ["status", "nobody"], ["verify", "--accept-loss", "session/no/such"], ["backup"],
        ["sessions", "--nonsense"], ["simulate"], ["simulate", "/no/such/file"], ["simulate", "/"],
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.rule("CLI-20", "CLI-21")
def test_a_wrong_argument_exits_with_2_and_a_message(args, db):
    result = run(*args, db=db)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.strip()
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "url", ["foo://x", "sqlite:///", "nothing", "", "postgres://x", "sqlite:////no/such/folder/x.db"]
)
@pytest.mark.rule("CLI-17", "CLI-20")
def test_a_wrong_store_exits_with_2(url):
    result = run("sessions", db=url)
    assert result.exit_code == 2
    assert result.stderr.startswith("foldlog: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.rule("CLI-17")
def test_looking_creates_nothing(tmp_path, monkeypatch):
    path = tmp_path / "none.db"
    monkeypatch.setenv("FOLDLOG_DB", str(path))
    for args in (["sessions"], ["audit", "--all"], ["verify"], ["backup", str(tmp_path / "copy.db")]):
        result = run(*args)
        assert result.exit_code == 2, args
        assert str(path) in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_environment_names_the_store(store, monkeypatch):
    monkeypatch.setenv("FOLDLOG_DB", str(store))
    assert [one["session"] for one in value("sessions")] == ["trace/played"]


@pytest.mark.rule("CLI-31")
def test_a_configured_store_is_looked_into(store, tmp_path, monkeypatch):
    """What ``serve`` and ``run`` wrote there is found without naming it; the environment and --db win."""
    config = tmp_path / "config.toml"
    config.write_text(f'db = "sqlite:///{store}"')
    monkeypatch.setenv("FOLDLOG_CONFIG", str(config))
    monkeypatch.delenv("FOLDLOG_DB", raising=False)
    assert [one["session"] for one in value("sessions")] == ["trace/played"]
    assert value("status", "played")["session"] == "played"
    monkeypatch.setenv("FOLDLOG_DB", str(tmp_path / "other.db"))
    assert "other.db" in run("sessions").stderr
    assert "third.db" in run("sessions", db=f"sqlite:///{tmp_path / 'third.db'}").stderr


@pytest.mark.rule("CLI-20", "CLI-21")
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:///" + "/tmp/" + "x" * 300, "too long"), ("sqlite:///~nobody-here/x.db", "has a home folder"),
        ("sqlite:///none.db", f"{Path.cwd() / 'none.db'}: there is no store"), ("/a/b.db", "is sqlite:////a/b.db"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["--db", "environment", "configured"])
def test_a_place_that_cannot_be_is_named(url, said, how, tmp_path, monkeypatch):
    config = tmp_path / "config.toml"
    config.write_text(f'db = "{url}"' if how == "configured" else "")
    monkeypatch.setenv("FOLDLOG_CONFIG", str(config))
    monkeypatch.setenv("FOLDLOG_DB", url if how == "environment" else "")
    if how == "environment" and "://" not in url:
        said = "there is no store"  # it takes plain paths
    result = run("sessions", db=url if how == "--db" else None)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.rule("CLI-21")
def test_a_folder_that_may_not_be_looked_into_is_named(monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.exists", refused)
    monkeypatch.setattr("foldlog.storage.sqlite.os.open", refused, raising=False)
    result = run("sessions", db="sqlite:////no/such/folder/x.db")
    assert result.exit_code == 2
    assert result.stderr.startswith("foldlog: ")


def test_a_file_that_is_no_store_is_refused(tmp_path):
    path = tmp_path / "text.db"
    path.write_text("not a database " * 1_000)
    result = run("sessions", db=f"sqlite:///{path}")
    assert result.exit_code == 2
    assert path.read_text().startswith("not a database")


def flip(raw: bytes) -> bytes:
    """Change one byte near the end."""
    return raw[:-3] + bytes([raw[-3] ^ 1]) + raw[-2:]


def chunk_of(db: str) -> bytes:
    """The body of the first message, which every request renders."""
    log = open_log(db)
    try:
        event = next(stored.event for stored in log.read(STREAM) if hasattr(stored.event, "messages"))
        return event.messages[0].body
    finally:
        log.close()


def last_of(db: str) -> int:
    with foldlog.Engine.open(db, summarizer=None) as engine:
        head = engine.log.head(STREAM)
        assert head is not None
        return head.version


def unlink(path: Path) -> None:
    """Delete a stream as a whole: its name, its head, its events."""
    with sqlite3.connect(path) as connection:
        (key,) = connection.execute("SELECT key FROM streams WHERE id = ?", (STREAM,)).fetchone()
        for table in ("streams", "heads", "snapshots"):
            connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,))
        connection.execute("DELETE FROM stored_events WHERE originator_id = ?", (str(key),))
    connection.close()


DAMAGES = {
    "an event altered": (lambda kit, db, path: kit.alter_state(STREAM, 20, flip), "@ 20"),
    "an event removed": (lambda kit, db, path: kit.remove(STREAM, 20, 20), "@ 20"),
    "events swapped": (lambda kit, db, path: kit.swap(STREAM, 20, 23), "@ 20"),
    "the last event removed": (lambda kit, db, path: kit.remove(STREAM, last_of(db), last_of(db)), "missing"),
    "the head altered": (lambda kit, db, path: kit.alter_head(STREAM, version=30), "head"),
    "the head removed": (lambda kit, db, path: kit.remove_head(STREAM), "head"),
    "a chunk altered": (lambda kit, db, path: kit.alter_chunk(chunk_of(db), flip), "chunk"),
    "a chunk removed": (lambda kit, db, path: kit.remove_chunk(chunk_of(db)), "chunk"),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", sorted(DAMAGES))
@pytest.mark.rule("CLI-15", "CLI-20")
def test_audit_finds_damage_and_names_it(damage, store, db):
    do, named = DAMAGES[damage]
    kit = SQLiteKit(store)
    try:
        do(kit, db, store)
    finally:
        kit.close()
    for args in (["audit", "trace/played"], ["audit", "played"], ["audit", "--all"]):
        result = run(*args, db=db)
        assert result.exit_code == 1, (args, result.output)
        assert named in result.stdout, (args, result.stdout)
        assert result.stderr == ""
        told = json.loads(run(*args, "--json", db=db).stdout)
        assert (told["holds"], told["differences"] > 0) == (False, True)
    assert run("verify", db=db).exit_code == 1


@pytest.mark.rule("CLI-15")
def test_audit_finds_a_deleted_stream(store, db):
    with foldlog.Engine.open(db, summarizer=None) as engine:
        engine.session("second").prepare([{"role": "user", "content": "hello"}])
    unlink(store)
    for args in (["audit", "played"], ["audit", "--all"], ["verify"]):
        result = run(*args, db=db)
        assert result.exit_code == 1, (args, result.output)
        assert "removed" in result.stdout, (args, result.stdout)
    assert run("audit", "second", db=db).exit_code == 0


@pytest.mark.rule("CLI-20")
def test_verify_mends_what_it_says_it_can(store, db, played):
    kit = SQLiteKit(store)
    try:
        kit.remove_head(STREAM)
    finally:
        kit.close()
    found = run("verify", db=db)
    assert found.exit_code == 1
    assert "--repair mends it" in found.stdout
    mended = ok("verify", "--repair", db=db)
    assert "mended: head-missing" in mended
    assert value("verify", db=db)["holds"] is True
    assert value("audit", "played", db=db)["passes"] == played.requests


@pytest.mark.rule("CLI-21")
@pytest.mark.parametrize("how", ["altered", "cut"])
def test_what_nothing_mends_says_what_can_be_done(how, store, db):
    """Where a session is asked for, and where the store is walked: up to its last good event it can go on."""
    kit = SQLiteKit(store)
    last = last_of(db)
    try:
        kit.remove(STREAM, last, last) if how == "cut" else kit.alter_state(STREAM, 5, lambda _: b"x")
    finally:
        kit.close()
    assert "run `foldlog verify`" in run("status", "played", db=db).stderr
    found = run("verify", db=db).stdout
    assert f"; restore a backup, or go on without what is behind it: --accept-loss {STREAM}\n" in found
    ok("verify", "--accept-loss", STREAM, db=db)
    assert value("verify", db=db)["holds"] is True


@pytest.mark.rule("CLI-20")
def test_a_loss_is_accepted_only_by_name(store, db, played):
    last = last_of(db)
    kit = SQLiteKit(store)
    try:
        kit.remove(STREAM, last, last)
    finally:
        kit.close()
    assert run("verify", "--repair", db=db).exit_code == 1
    ok("verify", "--accept-loss", STREAM, db=db)
    assert last_of(db) == last, "the last event is gone, and that it is stands in the log"
    assert json.loads(ok("export", "played", db=db).splitlines()[-1])["event"] == "HeadLost"
    assert value("verify", db=db)["holds"] is True
    assert value("audit", "played", db=db)["differences"] == 0


def test_reading_a_damaged_session_fails_with_one_line(store, db):
    kit = SQLiteKit(store)
    try:
        kit.alter_state(STREAM, 20, flip)
    finally:
        kit.close()
    for args in (
        ["passes", "played"],
        ["show", "played"],
        ["why", "played", "1"],
        ["export", "played"],
        ["diff", "played", "1", "80"],
    ):
        result = run(*args, db=db)
        assert result.exit_code == 1, args
        assert f"{STREAM} @ " in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.rule("CLI-21")
def test_a_reader_that_goes_away_ends_it_silently(db):
    for args in (["export", "played"], ["show", "played"], ["passes", "played"], ["sessions"]):
        running = subprocess.Popen(
            command(*args, "--db", db), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
        )
        assert running.stdout is not None
        running.stdout.close()
        _, said = running.communicate(timeout=60)
        assert said == b"", args


@pytest.mark.slow
@pytest.mark.rule("CLI-20", "CLI-21")
def test_a_person_can_stop_it(tmp_path):
    path = tmp_path / "long.jsonl"
    write(generate(7, 1_000), path)
    log = tmp_path / "wire.jsonl"
    running = subprocess.Popen(
        command("simulate", str(path), "--wire-log", str(log)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - ignored under some shells
    )
    until = time.monotonic() + 60
    while time.monotonic() < until and not (log.exists() and log.stat().st_size):
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGINT)
    out, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert (out, said) == (b"", b"foldlog: stopped\n")


@pytest.mark.slow
@pytest.mark.parametrize("module", [playing, checking])
@pytest.mark.rule("CLI-22")
def test_progress_is_shown_only_to_a_person(module, db, tmp_path, monkeypatch):
    """No bar without a terminal; a fresh process writes nothing to the error output."""
    path = tmp_path / "made.jsonl"
    write(generate(1, 3), path)
    args = ["simulate", str(path)] if module is playing else ["audit", "played", "--db", db]
    assert process(args).stderr == ""
    asked: list[bool] = []

    def bar(label, *, quiet):
        asked.append(quiet)
        return real(label, quiet=True)

    real = module.progress
    monkeypatch.setattr(module, "progress", bar)
    run(*args)
    run(*args, "--json")
    assert asked == [False, True]
