"""``foldlog simulate`` and ``foldlog demo`` (specs/cli.md, CLI-1 to CLI-9)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from foldlog.adapters.traces.generator import generate
from foldlog.adapters.traces.reader import load, write
from support.program import environment, ok, process, run, value

SHARED = Path(__file__).resolve().parents[3] / ".." / "shared" / "traces"
RECORDED = ("claude-code-a-opus46", "claude-code-b-sonnet45", "mini-swe-a-sqlfluff-deepseek", "pi-a-opus45")


def levels(told):
    return told["levels"]


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.rule("CLI-1", "CLI-2")
def test_a_recorded_session_plays_and_a_fresh_process_audits_it(name, tmp_path, capsys):
    path = SHARED / f"{name}.jsonl"
    if not path.exists():
        pytest.skip("the shared traces are not beside this checkout")
    db = f"sqlite:///{tmp_path / 'played.db'}"
    told = value("simulate", str(path), "--window", "1000000", "--summarizer", "none", db=db)
    audited = process(["audit", name, "--db", db, "--json"])
    found = json.loads(audited.stdout)
    with capsys.disabled():
        print(
            f"\n{name}: {told['requests']} requests, {levels(told)}, {found['passes']} verified, "
            f"{found['differences']} differences"
        )
    assert audited.returncode == 0
    assert (found["holds"], found["differences"]) == (True, 0)
    assert told["requests"] == found["passes"] == sum(one["passes"] for one in told["passes"]) == len(load(path).steps)
    assert told["refusals"] == {}
    assert levels(told)["hard"] >= 1
    reduced = told["usage"].get("reduced", 0)
    assert not reduced or told["landed"], "only what was dropped is taken off the recorded usage"


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["anthropic", "openai-chat", "pi"])
@pytest.mark.rule("CLI-1", "CLI-4")
def test_a_generated_session_drops_and_rebuilds(codec, tmp_path, capsys):
    path, db = tmp_path / "made.jsonl", f"sqlite:///{tmp_path / 'played.db'}"
    write(generate(7, 120, codec=codec), path)
    told = value("simulate", str(path), "--window", "110000", "--session", "mine", "--summarizer", "none", db=db)
    with capsys.disabled():
        print(f"\ngenerated ({codec}): {levels(told)}, {told['landed']} drops landed")
    assert levels(told)["hard"] > 0
    assert told["landed"] > 0
    assert told["reduces"] > 0
    assert told["refused_reduces"] == 0
    assert told["freed"] > told["landed"]
    assert value("audit", "mine", db=db)["differences"] == 0
    rows = value("passes", "mine", db=db)
    assert sum(row["landed"] for row in rows) == told["landed"]
    assert value("status", "mine", db=db)["dropped"] == told["landed"]


@pytest.mark.rule("CLI-1")
def test_the_table_says_what_the_json_says(tmp_path):
    path = tmp_path / "made.jsonl"
    write(generate(7, 60), path)
    told = value("simulate", str(path), "--window", "110000")
    shown = ok("simulate", str(path), "--window", "110000")
    for one in told["passes"]:
        line = next(
            line for line in shown.splitlines() if line.split()[:1] == [one["level"]] and f" {one['cause']} " in line
        )
        assert line.split()[-1] == str(one["passes"])
    assert f"drops landed: {told['landed']}" in shown
    assert "refusals: 0" in shown
    assert f"{told['largest_request']:,} tokens by our count" in shown
    assert "time per pass:" in shown


@pytest.mark.slow
@pytest.mark.rule("CLI-3")
def test_refusals_are_counted_and_the_play_goes_on(tmp_path):
    path, db = tmp_path / "made.jsonl", f"sqlite:///{tmp_path / 'played.db'}"
    write(generate(7, 90, reduce=False), path)
    told = value("simulate", str(path), "--window", "30000", "--summarizer", "none", db=db)
    refused = sum(told["refusals"].values())
    assert 0 < refused < told["requests"]
    assert told["overflows"] > 0
    assert levels(told)["refused"] == refused
    assert sum(one["passes"] for one in told["passes"]) == told["requests"]
    rows = value("passes", told["session"], db=db)
    assert {row["reasons"][0] for row in rows if row["level"] == "refused"} == set(told["refusals"])
    assert sum(row["outcome"] == "overflow" for row in rows) == told["overflows"]
    assert max(row["prompt"] for row in rows) <= 30_000
    assert value("audit", told["session"], db=db)["differences"] == 0


@pytest.mark.rule("CLI-4")
def test_a_reduce_that_is_wrong_is_counted_only(tmp_path):
    trace = generate(7, 60)
    wrong = tuple(
        msgspec.structs.replace(step, messages=tuple(m.replace(b'"drop":"', b'"drop":"999999,') for m in step.messages))
        for step in trace.steps
    )
    path = tmp_path / "made.jsonl"
    write(msgspec.structs.replace(trace, steps=wrong), path)
    db = f"sqlite:///{tmp_path / 'played.db'}"
    told = value("simulate", str(path), "--window", "60000", "--summarizer", "none", db=db)
    assert told["reduces"] == told["refused_reduces"] > 0
    lanes = {did["lane"] for row in value("passes", told["session"], db=db) for did in row["lanes"]}
    assert "queued" not in lanes


@pytest.mark.rule("CLI-5")
def test_a_broken_line_is_named_and_counted(tmp_path):
    path = tmp_path / "session.jsonl"
    rows = [
        json.dumps({"role": "user", "content": "Fix it."}),
        "{broken",
        json.dumps({"role": "assistant", "content": "Done."}),
        json.dumps({"role": "user", "content": "Thanks."}),
        "[]",
    ]
    path.write_text("\n".join(rows))
    result = run("simulate", str(path))
    assert result.exit_code == 0
    assert f"{path}:2: " in result.stderr
    assert f"{path}:5: " in result.stderr
    assert "broken lines skipped: 2" in result.stdout
    told = json.loads(run("simulate", str(path), "--json").stdout)
    assert [one["line"] for one in told["skipped"]] == [2, 5]


@pytest.mark.parametrize("content", ["", "no json at all\n", "{}\n[]\n", '{"role":"nobody"}\n'])
@pytest.mark.rule("CLI-5", "CLI-20")
def test_a_file_with_nothing_usable_is_an_error(content, tmp_path):
    path = tmp_path / "nothing.jsonl"
    path.write_text(content)
    result = run("simulate", str(path))
    assert result.exit_code == 2
    assert "nothing in this file" in result.stderr
    assert result.stdout == ""


@pytest.mark.rule("CLI-6")
def test_settings_reach_the_policy(tmp_path):
    path, db = tmp_path / "made.jsonl", f"sqlite:///{tmp_path / 'played.db'}"
    write(generate(7, 40), path)
    settings = ("--set", "execute_threshold_percentage=50", "--set", "cache_ttl=1h", "--set", "compaction=true")
    ok("simulate", str(path), *settings, "--session", "a", db=db)
    held = value("status", "a", db=db)
    assert (held["execute_percent"], held["cache_ttl_ms"]) == (5000, 3_600_000)
    ok("simulate", str(path), "--set", 'protected_tokens={"default": 7000}', "--session", "b", db=db)
    assert value("status", "b", db=db)["execute_percent"] == 6500
    (changed,) = [json.loads(line) for line in ok("export", "b", db=db).splitlines() if '"PolicyChanged"' in line]
    assert changed["data"]["policy"] == {"protected_tokens": {"default": 7000}}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("nonsense=1", "no setting of that name"),
        ("execute_threshold_percentage", "key=value"),
        ("execute_threshold_percentage=abc", "'execute_threshold_percentage' cannot be used"),
        ("execute_threshold_percentage=95", "it takes 90 at most"),
        ("cache_ttl=soon", "cache_ttl"),
        ("cache_ttl=90ms", "cache_ttl"),
        ("cache_ttl=5 m", "cache_ttl"),
        ('cache_ttl={"default": 5}', "cache_ttl"),
        ("protected_tokens={broken", "not a JSON object"),
        ("protected_tokens=-1", "it takes 0 or more"),
        ("=3", "key=value"),
    ],
)
@pytest.mark.rule("CLI-6", "CLI-20")
def test_a_wrong_setting_is_named(setting, said, tmp_path):
    path = tmp_path / "made.jsonl"
    write(generate(1, 2), path)
    result = run("simulate", str(path), "--set", setting)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.rule("CLI-7")
def test_a_session_that_is_there_is_not_played_over(db, played):
    path = Path(db.removeprefix("sqlite:///")).parent / "made.jsonl"
    write(generate(7, 3), path)
    result = run("simulate", str(path), "--session", played.session, db=db)
    assert result.exit_code == 2
    assert "--session" in result.stderr
    ok("simulate", str(path), "--session", "another", db=db)
    assert {one["session"] for one in value("sessions", db=db)} == {"trace/played", "trace/another"}


@pytest.mark.rule("CLI-7")
def test_without_a_store_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDLOG_DB", str(tmp_path / "own.db"))
    path = tmp_path / "made.jsonl"
    write(generate(1, 2), path)
    assert "in memory only" in ok("simulate", str(path))
    assert not (tmp_path / "own.db").exists()


@pytest.mark.slow
@pytest.mark.rule("CLI-9")
def test_the_demo_ends_in_its_audit(tmp_path):
    """A fresh process, nothing but a place for temporary files; the last line is the audit's, the report is left."""
    done = process(["demo"], env={**environment(), "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "180 passes verified, 0 differences"
    assert done.stderr == ""
    report = tmp_path / "foldlog-demo.html"
    assert list(tmp_path.glob("foldlog*")) == [report]
    assert f"report: {report}" in lines
    assert [line.split()[0] for line in lines if line.strip().startswith(("foldlog ", "doing ", "compacting "))] != []
    told = value("demo", "--report", str(tmp_path / "mine.html"))
    assert told["report"] == str(tmp_path / "mine.html")
    assert levels(told)["hard"] > 1
    assert levels(told)["soft"] > 0
    assert told["landed"] > 10
    assert told["compartments"] > 0
    assert told["refusals"] == {}
    assert set(told["bill"]["arms"]) == {"foldlog", "doing nothing", "compacting once"}
    assert told["bill"]["ratios"]["compacting once"] < 1
    assert (told["audit"]["passes"], told["audit"]["differences"]) == (180, [])
    for path in (report, tmp_path / "mine.html"):
        text = path.read_text(encoding="utf-8")
        assert "compacting once" in text
        assert "pressure_refold" in text


@pytest.mark.slow
@pytest.mark.rule("CLI-9")
def test_the_demo_can_be_kept_and_played_again(tmp_path):
    db = f"sqlite:///{tmp_path / 'demo.db'}"
    for _ in range(2):
        ok("demo", "--report", str(tmp_path / "demo.html"), db=db)
    assert [one["session"] for one in value("sessions", db=db)] == ["trace/bundled", "trace/bundled-2"]
    assert value("audit", "--all", db=db)["passes"] == 360


@pytest.mark.rule("CLI-9")
def test_a_demo_that_does_not_hold_fails(monkeypatch, tmp_path):
    from foldlog.adapters.cli import playing
    from foldlog.projections import wire

    monkeypatch.setattr(playing, "bundled", lambda: generate(7, 5))
    monkeypatch.setitem(wire.RELEASED, 1, "another digest")
    result = run("demo", "--report", str(tmp_path / "demo.html"))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "5 passes verified, 1 difference"
    assert "wire at pass 1" in result.stdout
