"""The wire log, read by a reader of its own (specs/wire-log.md)."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog.adapters.billing.profiles import PROFILES
from foldlog.adapters.billing.records import Record, dumps, load, stand_in
from foldlog.adapters.simulate.play import Playing, play
from foldlog.adapters.simulate.wirelog import WireLog
from foldlog.adapters.traces.generator import generate
from foldlog.adapters.traces.reader import write
from foldlog.projections.timeline import timeline
from foldlog.projections.wire import wire
from support.program import value

pytestmark = pytest.mark.slow  # every session of this page is played in full

MEMBERS = ["session", "at", "model", "level", "blocks", "breakpoints", "output_tokens", "kind"]


def canonical(item: Any) -> bytes:
    return json.dumps(item, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest16(block: dict[str, Any], role: str) -> str:
    return hashlib.sha256(canonical({"block": block, "role": role})).hexdigest()[:16]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture(scope="module", params=["anthropic", "openai-chat", "pi"])
def logged(request, tmp_path_factory):
    """A played session, its log, and its trace."""
    folder = tmp_path_factory.mktemp("wire")
    trace = generate(7, 110, codec=request.param)
    write(trace, folder / "made.jsonl")
    db = f"sqlite:///{folder / 'played.db'}"
    files = str(folder / "made.jsonl"), "--wire-log", str(folder / "wire.jsonl")
    told = value("simulate", *files, "--window", "110000", "--summarizer", "none", db=db)
    return trace, told, read(folder / "wire.jsonl"), db


@pytest.mark.rule("WLOG-1", "WLOG-6", "WLOG-8")
def test_a_line_a_request_with_these_members(logged):
    trace, told, lines, db = logged
    assert told["refusals"] == {}
    rows = value("passes", told["session"], db=db)
    for line, step, row in zip(lines, trace.steps, rows, strict=True):
        assert list(line) == [*MEMBERS, *(["reasons"] if row["reasons"] else [])]
        assert (line["level"], line.get("reasons", [])) == (row["level"], row["reasons"])
        assert (line["session"], line["kind"], line["model"]) == (told["session"], "main", trace.model)
        assert (line["at"], line["output_tokens"]) == (step.at, step.usage.output)
    for level in ("defer", "soft+", "hard"):
        assert sum(line["level"] == level for line in lines) == told["levels"][level] > 0


@pytest.mark.rule("WLOG-2")
def test_a_deferred_request_extends_the_one_before(logged):
    _, _, lines, _ = logged
    extended = 0
    for before, line in pairwise(lines):
        if line["level"] == "defer":
            assert line["blocks"][: len(before["blocks"])] == before["blocks"]
            extended += len(line["blocks"]) > len(before["blocks"])
    assert extended > 50


@pytest.mark.rule("WLOG-2")
def test_a_rebuild_changes_blocks(logged):
    _, _, lines, _ = logged
    landed = [(before, line) for before, line in pairwise(lines) if line["level"] == "soft+"]
    for before, line in landed:
        assert line["blocks"][: len(before["blocks"])] != before["blocks"]
        gone = {digest for digest, _, _ in before["blocks"]} - {digest for digest, _, _ in line["blocks"]}
        assert gone


@pytest.mark.rule("WLOG-3")
def test_the_blocks_are_those_of_the_request(logged):
    """Digests and sizes are made anew from what ``show`` prints; the last, a middle and a rebuilt request."""
    trace, told, lines, db = logged
    rebuilt = next(i for i, line in enumerate(lines) if line["level"] == "soft+")
    for index in (0, rebuilt, len(lines) // 2, len(lines) - 1):
        sent = value("show", told["session"], "--pass", str(index + 1), db=db)
        expected = list(blocks_of(sent, trace.codec))
        got = [(digest, size) for digest, size, _ in lines[index]["blocks"]]
        assert got == expected, index


def blocks_of(sent: dict[str, Any], codec: str) -> Any:
    for tool in sent.get("tools") or []:
        yield digest16(tool, "tools"), len(canonical(tool))
    system = sent.get("system") or []
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield digest16(block, "system"), len(canonical(block))
    form = wire(1)
    for message in sent["messages"]:
        if codec == "anthropic":
            content = message["content"]
            texts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for given in texts:
                block = given
                if block["type"] == "tool_result" and isinstance(block["content"], str):
                    block = {**block, "content": [{"type": "text", "text": block["content"]}]}
                yield digest16(block, message["role"]), len(canonical(block))
        else:  # what of a message reaches the model is the codec's own matter
            for one in form.blocks(codec, json.dumps(message, ensure_ascii=False).encode()):
                yield hashlib.sha256(one.form).hexdigest()[:16], one.size


@pytest.mark.rule("WLOG-4")
def test_the_breakpoints_are_where_the_marks_are(logged):
    trace, told, lines, db = logged
    if trace.codec != "anthropic":
        assert {line["breakpoints"] for line in lines} == {None}
        return
    for line in lines:
        marks = line["breakpoints"]
        assert marks == sorted(set(marks))
        assert len(marks) == 4
        assert marks[-1] < len(line["blocks"])
    with foldlog.Engine.open(db, summarizer=None) as engine:
        for index in (0, 40, len(lines) - 1):
            built = engine.replay(told["session"], index + 1)
            system, messages = built.marked()
            tools = msgspec.json.decode(built.tools)
            said = [m["content"] if isinstance(m["content"], list) else [{"text": m["content"]}] for m in messages]
            blocks = [*tools, *system, *(block for content in said for block in content)]
            assert [i for i, block in enumerate(blocks) if "cache_control" in block] == lines[index]["breakpoints"]


@pytest.mark.rule("WLOG-5")
def test_tokens_are_counted_once_and_plausible(logged):
    _, told, lines, _ = logged
    for line in lines:
        by_digest: dict[str, int] = {}
        for digest, size, tokens in line["blocks"]:
            assert by_digest.setdefault(digest, tokens) == tokens
            assert 0 <= tokens <= size
    largest = max(sum(tokens for _, _, tokens in line["blocks"]) for line in lines)
    assert 0.9 < largest / told["largest_request"] < 1.1


def answer(*texts: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text} for text in texts]}


@pytest.mark.rule("WLOG-7")
def test_a_divergence_says_which_block_it_concerns(tmp_path):
    """The host revises a message in the middle: the log goes on, says where, and the blocks before it are the same."""
    path = tmp_path / "wire.jsonl"
    with foldlog.Engine.open("memory:", summarizer=None) as engine, path.open("wb") as out:
        session = engine.session("s", context_limit=200_000)
        log = WireLog(out, "s", "anthropic", len)
        messages: list[dict[str, Any]] = []
        for number in range(6):
            messages += [{"role": "user", "content": f"question {number}"}]
            request = session.prepare(messages)
            hot = session.core.hot()
            log.put(log.take(request, hot.state, hot.view, 0, "", -1))
            messages += [answer(f"answer {number}", "more")]
        messages[5] = answer("answer 2", "revised")
        request = session.prepare([*messages, {"role": "user", "content": "and?"}])
        hot = session.core.hot()
        log.put(log.take(request, hot.state, hot.view, 0, "", -1))
        assert request.reasons == ("host_revised",)
    *_, before, after = read(path)
    assert list(after) == [*MEMBERS, "divergence", "reasons"]
    assert after["reasons"] == ["host_revised"]
    at = after["divergence"]
    assert after["blocks"][:at] == before["blocks"][:at]
    assert after["blocks"][at] != before["blocks"][at]
    assert after["blocks"][at + 1] == before["blocks"][at + 1]
    assert before["output_tokens"] is None


@pytest.mark.rule("WLOG-1")
def test_playing_again_writes_the_same_log(tmp_path):
    logs = []
    for _ in range(2):
        path = tmp_path / "wire.jsonl"
        with foldlog.Engine.open("memory:", summarizer=None) as engine, path.open("wb") as out:
            play(engine, generate(7, 50), Playing(window=110_000, wire_log=out))
        logs.append(path.read_bytes())
    assert logs[0] == logs[1]


@pytest.mark.parametrize("codec", ["anthropic", "openai-chat", "pi"])
@pytest.mark.rule("WLOG-4", "WLOG-10", "CLI-24")
def test_a_provider_with_marks_is_sent_them_by_every_codec(codec, tmp_path):
    """System end, m[0], m[1], tail: where they are is told by what the built request holds."""
    records: list[Record] = []
    with foldlog.Engine.open("memory:", summarizer=None) as engine:
        trace = generate(7, 30, codec=codec)
        how = Playing(profile=PROFILES["anthropic-5m"], system_tokens=500, taken=records.append)
        play(engine, trace, how)
        built = engine.replay(trace.name)
    form = wire(1)
    last = records[-1]
    assert last.blocks[0] == stand_in(500)[0]
    above = 1 + len(form.tools_blocks(codec, built.tools)) + len(form.system_blocks(codec, built.system))
    above += sum(len(form.blocks(codec, raw)) for raw in built.messages[: built.leading])
    head = [len(form.blocks(codec, raw)) for raw in built.messages[built.leading : built.leading + built.head]]
    assert len(head) == 2
    assert last.breakpoints == (above - 1, above + head[0] - 1, above + sum(head) - 1, len(last.blocks) - 1)
    assert {len(record.breakpoints or ()) for record in records} == {4}


@pytest.mark.parametrize("window", [0, 30_000])
@pytest.mark.rule("WLOG-1", "WLOG-8", "WLOG-9")
def test_the_log_is_what_the_bill_is_made_of(window, tmp_path):
    """The records handed on are the lines; what foldlog or the provider refused has a line that costs nothing."""
    path, records = tmp_path / "wire.jsonl", list[Record]()
    trace = generate(7, 90, reduce=False)
    with foldlog.Engine.open("memory:", summarizer=None) as engine, path.open("wb") as out:
        how = Playing(window=window, wire_log=out, profile=PROFILES["anthropic-5m"], taken=records.append)
        played = play(engine, trace, how)
        rows = timeline(engine.log, "session/trace/" + trace.name)
    assert load(path) == records
    assert path.read_bytes() == b"".join(dumps(record) + b"\n" for record in records)
    refused = [record for record in records if record.kind == "refused"]
    assert len(records) == 90
    assert len(refused) == sum(played.refusals.values()) + played.overflows
    assert bool(refused) == bool(window)
    for record, row in zip(records, rows, strict=True):
        assert (record.kind == "refused") == (row.level == "refused" or row.outcome == "overflow")
        if row.level == "refused":
            assert (record.reasons, record.tokens) == (row.reasons, row.tokens)
        elif row.outcome == "overflow":
            assert record.reasons == ("overflow",)
            assert record.tokens > window


@pytest.mark.rule("WLOG-1")
def test_a_log_that_cannot_be_written_is_a_wrong_argument(tmp_path):
    from support.program import run

    write(generate(1, 2), tmp_path / "made.jsonl")
    result = run("simulate", str(tmp_path / "made.jsonl"), "--wire-log", str(tmp_path / "no" / "such" / "folder"))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
