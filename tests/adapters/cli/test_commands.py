"""The commands that look, over a played session (specs/cli.md)."""

from __future__ import annotations

import json

import pytest
import typer

import foldlog
from foldlog.adapters.cli import app
from foldlog.projections.fold import load
from support.program import environment, ok, process, run, value

COMMANDS = sorted(
    name
    for name, command in typer.main.get_command(app).commands.items()  # type: ignore[attr-defined]
    if not command.hidden
)
LOOKING = {
    "sessions": [], "passes": ["played"], "show": ["played"], "diff": ["played", "2", "40"], "why": ["played", "20"],
    "status": ["played"], "audit": ["played"], "export": ["played"], "verify": [],
}  # fmt: skip


WORKING = {"run", "serve", "mcp", "watch", "enable", "disable", "restart", "setup", "explain-error"}
"""Commands that serve, start or set up something: not all have a store or a result."""


def test_these_are_the_commands():
    assert {*LOOKING, "simulate", "demo", "backup", "flush"} == set(COMMANDS) - WORKING


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    text = ok(name, "--help")
    assert text.startswith("Usage:")
    assert name in WORKING or ("--db" in text and "--json" in text)


def test_the_program_has_help_and_a_version():
    text = ok("--help")
    assert all(name in text for name in COMMANDS)
    assert ok("--version").strip() == f"foldlog {foldlog.__version__}"


@pytest.mark.parametrize("name", sorted(LOOKING))
@pytest.mark.rule("CLI-22")
def test_json_is_one_json_text_and_nothing_else(name, db):
    result = run(name, *LOOKING[name], "--json", db=db)
    assert result.exit_code == 0
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert len(lines) == 1 or name == "export"
    for line in lines:
        json.loads(line)


def test_backup_says_where_it_went(db, tmp_path, played):
    target = tmp_path / "copy.db"
    told = value("backup", str(target), db=db)
    assert (told["file"], told["bytes"]) == (str(target), target.stat().st_size)
    copy = f"sqlite:///{target}"
    assert value("audit", "played", db=copy)["passes"] == played.requests
    again = run("backup", str(target), db=db)
    assert again.exit_code == 2
    assert "exists" in again.stderr


@pytest.mark.rule("CLI-11")
def test_sessions_and_passes(db, played):
    assert [one["session"] for one in value("sessions", db=db)] == ["trace/played"]
    shown = ok("sessions", db=db)
    assert "trace/played" in shown
    assert shown.endswith("\n1 session\n")
    rows = value("passes", "played", db=db)
    assert [row["number"] for row in rows] == list(range(1, played.requests + 1))
    for one in played.passes:
        same = [
            row for row in rows if row["level"] == one.level and (", ".join(row["reasons"]) or "quiet") == one.cause
        ]
        assert len(same) == one.passes
    shown = ok("passes", "played", db=db)
    assert f"{played.requests} passes" in shown
    assert all(any(line.split()[:1] == [str(row["number"])] for line in shown.splitlines()) for row in rows)
    landed = [did for row in rows for did in row["lanes"] if did["landed"]]
    assert {did["lane"] for did in landed} >= {"queued"}
    assert f"queued {landed[0]['items']:,} (" in shown


@pytest.mark.rule("CLI-12")
def test_show_opens_a_request_byte_for_byte(db, played):
    with foldlog.Engine.open(db, summarizer=None) as engine:
        built = engine.replay("played", 12)
    raw = ok("show", "played", "--pass", "12", "--format", "json", db=db).encode()
    for message in built.messages:
        assert message in raw
    assert built.system in raw
    assert built.tools in raw
    sent = json.loads(raw)
    assert sent["messages"] == [json.loads(message) for message in built.messages]
    assert (sent["pass"], sent["digest"]) == (12, built.digest.hex())
    text = ok("show", "played", "--pass", "12", db=db)
    assert built.digest.hex() in text
    assert "--- m[0]" in text
    assert "§1§" in text
    last = json.loads(ok("show", "played", "--json", db=db))
    assert last["pass"] == played.requests


@pytest.mark.rule("CLI-13", "CLI-14")
def test_diff_and_why_name_the_events(db, played):
    rows = value("passes", "played", db=db)
    rebuilt = next(row["number"] for row in rows if row["level"] == "soft+")
    found = value("diff", "played", str(rebuilt - 1), str(rebuilt), db=db)
    owner = found["first"]["owner"]
    assert (owner["event"], owner["number"]) == ("ConversationRebuilt", rebuilt)
    assert owner["version"] == rows[rebuilt - 1]["version"]
    text = ok("diff", "played", str(rebuilt - 1), str(rebuilt), db=db)
    assert f"first difference: byte {found['first']['byte']:,}" in text
    assert f"by event {owner['version']}, ConversationRebuilt of pass {rebuilt}" in text
    (numbered,) = [one for one in value("why", "played", "1", db=db)["steps"] if "numbered" in one["what"]]
    assert numbered["number"] == 1
    landed = next(
        tag for tag in range(1, 200) if "landed" in json.dumps(value("why", "played", f"§{tag}§", db=db)["steps"])
    )
    text = ok("why", "played", str(landed), db=db)
    for piece in ("observed", "numbered", "queued", "landed", "DropsQueued"):
        assert piece in text


@pytest.mark.rule("CLI-16")
def test_export_says_every_event_by_name(db):
    lines = [json.loads(line) for line in ok("export", "played", db=db).splitlines()]
    with foldlog.Engine.open(db, summarizer=None) as engine:
        stored = list(engine.log.read("session/trace/played"))
        assert [line["version"] for line in lines] == [one.version for one in stored]
        assert [line["chain"] for line in lines] == [one.digest.hex() for one in stored]
        assert [line["event"] for line in lines] == [type(one.event).__name__ for one in stored]
        for line, one in zip(lines, stored, strict=True):
            assert set(one.event.__struct_fields__) <= set(line["data"])
        first = next(line for line in lines if line["event"] == "MessagesObserved")
        named = first["data"]["messages"][0]["body"]
        assert first["content"][named] == json.loads(engine.log.chunks([bytes.fromhex(named)])[0])
    told = [digest for line in lines for digest in line.get("content", {})]
    assert len(told) == len(set(told)) > 100
    bare = ok("export", "played", "--no-bodies", db=db)
    assert '"content"' not in bare.splitlines()[5]
    assert len(bare) < len(ok("export", "played", db=db)) / 2


def test_status_says_what_the_session_says(db, played):
    told = value("status", "played", db=db)
    assert (told["passes"], told["dropped"], told["queued"]) == (played.requests, played.landed, played.queued)
    assert "execute percent" in ok("status", "played", db=db)


@pytest.mark.rule("CLI-10")
def test_sessions_are_named_in_full_or_by_a_bare_id(db, played):
    with foldlog.Engine.open(db, summarizer=None) as engine:
        engine.session("played", harness="other").prepare([{"role": "user", "content": "hello"}])
        engine.session("only here/ü", harness="other").prepare([{"role": "user", "content": "hello"}])
    both = run("passes", "played", db=db)
    assert both.exit_code == 2
    assert "other/played" in both.stderr
    assert "trace/played" in both.stderr
    assert len(value("passes", "other/played", db=db)) == 1
    assert len(value("passes", "trace/played", db=db)) == played.requests
    assert len(value("passes", "only here/ü", db=db)) == 1
    for one in value("sessions", db=db):
        ok("status", one["session"], db=db)


@pytest.mark.rule("CLI-15")
def test_audit_all_takes_every_session(db, played):
    with foldlog.Engine.open(db, summarizer=None) as engine:
        engine.session("second").prepare([{"role": "user", "content": "hello"}])
    found = value("audit", "--all", db=db)
    assert [one["stream"] for one in found["sessions"]] == ["session/api/second", "session/trace/played"]
    assert (found["passes"], found["differences"], found["holds"]) == (played.requests + 1, 0, True)
    assert ok("audit", "--all", db=db).splitlines()[-1] == f"{played.requests + 1} passes verified, 0 differences"


@pytest.mark.rule("CLI-23")
def test_content_cannot_act_on_a_terminal(tmp_path):
    """Controls, direction overrides and half surrogate pairs are written as escapes."""
    db = f"sqlite:///{tmp_path / 'odd.db'}"
    nasty = "\x1b[31mred\x07\u202e\x9b2J"
    with foldlog.Engine.open(db, summarizer=None) as engine:
        session = engine.session("odd")
        raw = b'{"role":"user","content":"half \\ud800 pair"}'
        session.prepare([{"role": "user", "content": nasty}, {"role": "assistant", "content": "ok"}, raw])
        session.prepare([{"role": "user", "content": "x" + nasty}, {"role": "assistant", "content": "ok"}, raw])
    for command in (["show", "odd"], ["diff", "odd", "1", "2"], ["why", "odd", "1"], ["passes", "odd"]):
        text = ok(*command, db=db)
        assert not set(text) & set("\x1b\x07\u202e\x9b"), command
        assert not any("\ud800" <= letter <= "\udfff" for letter in text), command
    assert "\\x1b[31mred" in ok("show", "odd", db=db)
    for command in (["show", "odd", "--json"], ["export", "odd"], ["diff", "odd", "1", "2", "--json"]):
        for line in ok(*command, db=db).splitlines():
            json.loads(line)
    done = process(["show", "odd", "--db", db], env={**environment(), "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fork_is_shown_like_any_session(db):
    with foldlog.Engine.open(db, summarizer=None) as engine:
        state = load(engine.log, "session/trace/played").state
        parent = engine.session("played", "trace", codec="anthropic")
        child = parent.fork("forked")
        messages = [engine.log.chunks([state.node(m).message.body])[0] for m in state.path]
        child.prepare([*messages, b'{"role":"assistant","content":"ok"}', b'{"role":"user","content":"on"}'])
    assert value("audit", "forked", db=db)["differences"] == 0
    assert len(value("passes", "forked", db=db)) == 1
    streams = {step["stream"] for step in value("why", "forked", "1", db=db)["steps"]}
    assert streams == {"session/trace/played", "session/trace/forked"}
    ok("show", "forked", db=db)
    ok("export", "forked", db=db)


@pytest.mark.rule("CLI-30", "PERM-5")
def test_flush_asks_for_what_is_marked_to_leave(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    with foldlog.Engine.open(url, summarizer=None) as engine:
        session = engine.session("s", context_limit=200_000)
        session.prepare([{"role": "user", "content": "hello " * 50}])
        session.reduce("1")
    assert value("flush", "s", db=url) == {"session": "api/s", "queued": 1, "flush_pending": True}
    assert value("status", "s", db=url)["flush_pending"] is True
    assert "api/s: what is marked leaves with the next request: 1 part\n" in ok("flush", "api/s", db=url)
    with foldlog.Engine.open(url, summarizer=None) as engine:
        session = engine.session("s", context_limit=200_000)
        request = session.prepare(
            [
                {"role": "user", "content": "hello " * 50},
                {"role": "assistant", "content": "ok"},
                {"role": "user", "content": "and?"},
            ]
        )
    assert "[dropped §1§]" in str(request.messages)
    missing = run("flush", "nobody", db=url)
    assert missing.exit_code == 2
