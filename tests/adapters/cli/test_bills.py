"""``foldlog simulate`` with a simulated provider: whose usage it is, summaries, the bill, the report."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from foldlog.adapters.billing.bill import bill
from foldlog.adapters.billing.profiles import PROFILES
from foldlog.adapters.billing.records import load
from foldlog.adapters.cli.costing import summarizer
from foldlog.adapters.simulate.arms import profile_for
from foldlog.adapters.traces.generator import generate
from foldlog.adapters.traces.reader import write
from foldlog.domain.errors import OptionError
from support.program import ok, run, value

pytestmark = pytest.mark.slow  # every session of this page is played in full

SUMS = ("read", "first", "rewritten", "uncached", "output", "cost")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A session that outgrows its window, as a file."""
    path = tmp_path_factory.mktemp("bills") / "made.jsonl"
    write(generate(7, 90), path)
    return str(path)


@pytest.mark.rule("CLI-24")
def test_the_simulated_figures_are_what_the_session_is_told(made, tmp_path):
    db, log = f"sqlite:///{tmp_path / 'played.db'}", tmp_path / "wire.jsonl"
    told = value(
        "simulate",
        made,
        "--profile",
        "anthropic-5m",
        "--window",
        "60000",
        "--wire-log",
        str(log),
        "--session",
        "s",
        db=db,
    )
    assert told["usage"] == {"simulated": 90}
    found = bill(load(log), PROFILES["anthropic-5m"])
    rows = value("passes", "s", db=db)
    assert [line.prompt for line in found.lines] == [row["prompt"] for row in rows]
    assert max(row["prompt"] for row in rows) == told["largest_prompt"] == found.largest_prompt
    events = [json.loads(line) for line in ok("export", "s", db=db).splitlines()]
    heard = [one["data"] for one in events if one["event"] == "UsageReported"]
    assert [(one["cache_read"], one["output"]) for one in heard] == [
        (line.sums.read, line.sums.output) for line in found.lines
    ]
    assert value("audit", "s", db=db)["differences"] == 0


@pytest.mark.rule("CLI-2")
def test_without_a_profile_the_recorded_usage_is_told(made):
    told = value("simulate", made, "--window", "60000")
    assert "simulated" not in told["usage"]
    assert "bill" not in told
    assert told["compartments"] > 0
    assert (told["profile"], told["summarizer"]) == ("", "extractive")


@pytest.mark.rule("CLI-26")
def test_nobody_summarises_where_nobody_is_asked_to(made):
    told = value("simulate", made, "--window", "60000", "--summarizer", "none")
    assert (told["compartments"], told["summarizer"]) == (0, "")
    assert "nothing is summarised" in ok("simulate", made, "--window", "60000", "--summarizer", "none")


@pytest.mark.rule("CLI-27")
def test_the_bill_is_that_of_the_log_and_its_table_says_the_same(made, tmp_path):
    log = tmp_path / "wire.jsonl"
    given = ("--profile", "anthropic-1h", "--window", "60000", "--system-tokens", "7000", "--wire-log", str(log))
    told = value("simulate", made, *given)["bill"]
    found = bill(load(log), PROFILES["anthropic-1h"])
    ours = told["arms"]["foldlog"]
    assert [row["cause"] for row in ours["rows"]] == [row.cause for row in found.rows]
    for name in SUMS:
        assert ours["total"][name] == pytest.approx(getattr(found.total, name), abs=0.001)
        assert sum(row[name] for row in ours["rows"]) == pytest.approx(ours["total"][name], abs=0.01)
    for arm in ("doing nothing", "compacting once"):
        assert told["ratios"][arm] == pytest.approx(ours["cost"] / told["arms"][arm]["cost"], abs=0.001)
    shown = ok("simulate", made, *given)
    for row in ours["rows"]:
        named = [line for line in shown.splitlines() if f" {row['level']} " in line and f" {row['cause']} " in line]
        assert any(line.split()[-1] == f"{round(row['cost']):,}" for line in named), row
    assert f"{told['ratios']['compacting once']:.3f} of it" in shown


@pytest.mark.rule("CLI-27", "BILL-3")
def test_the_stand_in_for_the_system_is_in_every_arm(made):
    bills = [
        value("simulate", made, "--profile", "openai", "--window", "60000", "--system-tokens", tokens)["bill"]["arms"]
        for tokens in ("0", "5000")
    ]
    without, with_it = bills
    for arm in ("foldlog", "doing nothing", "compacting once"):
        first = {row["cause"]: row for row in without[arm]["rows"]}["first request"]
        then = {row["cause"]: row for row in with_it[arm]["rows"]}["first request"]
        prompts = [sum(row[name] for name in ("read", "first", "rewritten", "uncached")) for row in (first, then)]
        assert prompts[1] - prompts[0] == 5_000, arm


@pytest.mark.rule("CLI-28")
def test_a_report_is_written_and_named(made, tmp_path):
    path = tmp_path / "report.html"
    shown = ok("simulate", made, "--window", "60000", "--report", str(path))
    assert f"report: {path}" in shown
    assert "the bill on anthropic-5m" in shown, "without --profile the one the model points to"
    text = path.read_text(encoding="utf-8")
    for named in ("foldlog", "doing nothing", "compacting once", "window 60,000 tokens", "claude-sonnet-4-5"):
        assert named in text
    result = run("simulate", made, "--report", str(tmp_path / "no" / "such" / "folder.html"))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("claude-opus-4-6", "anthropic-5m"), ("", "anthropic-5m"), ("deepseek/deepseek-chat", "deepseek"),
        ("openai/gpt-5.5", "openai"), ("o3-mini", "openai"),
    ],
)  # fmt: skip
@pytest.mark.rule("CLI-28")
def test_a_model_points_to_a_provider(model, name):
    assert profile_for(model).name == name


@pytest.mark.rule("CLI-24")
def test_the_cache_lifetime_follows_the_profile_unless_set(tmp_path):
    db, made = f"sqlite:///{tmp_path / 'played.db'}", str(tmp_path / "made.jsonl")
    write(generate(7, 3), made)
    for session, more in (("a", ()), ("b", ("--set", "cache_ttl=7m")), ("c", ("--set", "protected_tokens=9000"))):
        ok("simulate", made, "--profile", "anthropic-1h", "--session", session, *more, db=db)
    lifetimes = [value("status", session, db=db)["cache_ttl_ms"] for session in "abc"]
    assert lifetimes == [3_600_000, 420_000, 3_600_000]
    ok("simulate", made, "--profile", "deepseek", "--session", "d", db=db)
    assert value("status", "d", db=db)["cache_ttl_ms"] == 86_400_000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--profile", "gemini"), "there is no such cache profile; known are anthropic-5m"),
        (("--summarizer", "magic"), "a summariser is one of extractive, none"),
        (("--summarizer", "openai:"), "a summariser is one of"),
        (("--summarizer", "openai:gpt@localhost"), "must begin with http"),
        (("--summarizer", "openai:gpt@http://me:key@localhost"), "a key does not belong into an address"),
    ],
)
@pytest.mark.rule("CLI-20", "CLI-26")
def test_a_wrong_name_is_said(given, said, made):
    result = run("simulate", made, *given)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.rule("CLI-26")
def test_summarisers_by_name(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    assert summarizer("none") is None
    hosted: Any = summarizer("openai:gpt-5.5")
    assert (hosted.name, hosted.base_url, hosted.key_env) == (
        "openai:gpt-5.5", "https://api.openai.com/v1", "OPENAI_API_KEY",
    )  # fmt: skip
    own: Any = summarizer("openai:qwen:7b@http://localhost:11434/v1")
    assert (own.model, own.base_url, own.key_env) == ("qwen:7b", "http://localhost:11434/v1", "")
    keyed: Any = summarizer("anthropic:claude@https://proxy.example")
    assert (keyed.base_url, keyed.key_env) == ("https://proxy.example", "ANTHROPIC_API_KEY")
    with pytest.raises(OptionError):
        summarizer("openai")


class Model(BaseHTTPRequestHandler):
    """Summarises whatever it is asked for in one compartment, and says what that took."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = "".join(message["content"] for message in asked["messages"])
        spans = [one.split("]")[0].split("-") for one in text.split("\n[")[1:] if one[:1].isdigit()]
        first, last = spans[0][0], spans[-1][-1]
        tiers = "".join(f"<p{tier}>{'what was done ' * (6 - tier)}</p{tier}>" for tier in (1, 2, 3, 4))
        said = (
            f'<output><compartments><compartment start="{first}" end="{last}" title="Work" importance="50">'
            f"{tiers}</compartment></compartments></output>"
        )
        usage = {"prompt_tokens": 12_345, "completion_tokens": 678}
        answer = {"model": "small", "choices": [{"message": {"content": said}}], "usage": usage}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given: Any) -> None:
        """Say nothing."""


@pytest.fixture
def model():
    server = HTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.rule("CLI-26", "WLOG-9")
def test_calls_of_a_model_are_billed_where_they_fell(model, made, tmp_path):
    log = tmp_path / "wire.jsonl"
    given = ("--profile", "anthropic-5m", "--window", "60000", "--summarizer", f"openai:small@{model}")
    told = value("simulate", made, *given, "--wire-log", str(log))
    assert told["failed_summaries"] == 0
    assert told["compartments"] > 0
    assert told["summary_calls"] > 0
    records = load(log)
    calls = [place for place, record in enumerate(records) if record.kind == "summary"]
    assert len(calls) == told["summary_calls"]
    for place in calls:
        assert (records[place].tokens, records[place].output_tokens, records[place].model) == (12_345, 678, "small")
    folded = next(place for place, record in enumerate(records) if place and record.level in ("hard", "soft"))
    assert calls[0] < folded, "what a fold shows was asked for before it"
    ours = told["bill"]["arms"]["foldlog"]
    assert (ours["added_calls"], ours["added"]["output"]) == (len(calls), 678 * len(calls))
    assert ours["added"]["cost"] == pytest.approx(len(calls) * (12_345 + 5 * 678))


@pytest.mark.rule("CLI-24")
def test_the_same_play_gives_the_same_log_and_bill(made, tmp_path):
    logs, bills = [], []
    for _ in range(2):
        path = tmp_path / "wire.jsonl"
        told = value("simulate", made, "--profile", "anthropic-5m", "--window", "60000", "--wire-log", str(path))
        logs.append(path.read_bytes())
        bills.append(told["bill"])
    assert logs[0] == logs[1]
    assert bills[0] == bills[1]
