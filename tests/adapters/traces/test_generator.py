"""Generated sessions: deterministic, valid, numbered as foldlog numbers, and like real ones in size and pace."""

from __future__ import annotations

import base64
import json
import os
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from foldlog.adapters.models.tokens import tokenizer
from foldlog.adapters.traces import generator
from foldlog.adapters.traces.bundled import bundled
from foldlog.adapters.traces.generator import generate, ranges, stream
from foldlog.adapters.traces.model import Trace, messages_of
from foldlog.adapters.traces.reader import load, write
from foldlog.domain.errors import OptionError

CODECS = ("anthropic", "pi", "openai-chat")
ITEMS = "openai-responses"
"""Its requests are judged where they are played (tests/test_traces.py, tests/history/test_items.py)."""


def digest(trace: Trace) -> str:
    whole = [raw for step in trace.steps for raw in step.messages]
    return sha256(repr((whole, [(s.at, s.usage) for s in trace.steps], trace.tail)).encode()).hexdigest()


def tagged(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Kind and call id of each part that gets a number: texts not blank, results, files (transform.md 2.1)."""
    role, content = message["role"], message.get("content")
    if role == "system":
        return
    if role in ("tool", "toolResult"):
        yield "result", message.get("tool_call_id") or message["toolCallId"]
        return
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
        if block["type"] == "text" and block["text"].strip():
            yield "text", ""
        elif block["type"] == "tool_result":
            yield "result", block["tool_use_id"]
        elif block["type"] in ("image", "image_url"):
            yield "file", ""


def calls(message: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    content = message.get("content")
    for block in content if isinstance(content, list) else []:
        if block["type"] in ("tool_use", "toolCall"):
            yield block["id"], block["name"], block.get("input", block.get("arguments"))
    for call in message.get("tool_calls") or []:
        yield call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])


@pytest.mark.parametrize("codec", CODECS)
def test_requests_are_valid(codec: Any) -> None:
    """Every request ends in input, begins with an answer, and answers each call in the very next messages."""
    trace = generate(5, 150, codec)
    assert len(trace.steps) == 150
    open_calls: set[str] = set()
    seen: set[str] = set()
    for number, step in enumerate(trace.steps):
        messages = [json.loads(raw) for raw in step.messages]
        roles = [message["role"] for message in messages]
        assert number == 0 or roles[0] == "assistant"
        assert "assistant" not in roles[1:]
        assert roles[-1] != "assistant"
        for message in messages:
            made = {identity for identity, _, _ in calls(message)}
            assert seen.isdisjoint(made)
            seen |= made
            answered = {identity for kind, identity in tagged(message) if kind == "result"}
            assert answered <= open_calls
            open_calls = (open_calls - answered) | made
        assert not open_calls
    assert json.loads(trace.tail[0])["role"] == "assistant"


@pytest.mark.parametrize("codec", CODECS)
def test_drops_name_numbers_as_an_independent_count_gives_them(codec: Any) -> None:
    """TRACE-22: a ctx_reduce call names only parts that exist, none twice, mostly results, never its own calls."""
    trace = generate(7, 400, codec)
    numbers: dict[int, tuple[str, str]] = {}
    names: dict[str, str] = {}
    dropped: set[int] = set()
    asked = kinds = 0
    for raw in messages_of(trace):
        message = json.loads(raw)
        for identity, name, given in calls(message):
            names[identity] = name
            if name == "ctx_reduce":
                asked += 1
                items = [part.split("-") for part in given["drop"].split(",")]
                drop = {n for part in items for n in range(int(part[0]), int(part[-1]) + 1)}
                assert drop <= set(numbers)
                assert dropped.isdisjoint(drop)
                assert all(names.get(numbers[n][1]) != "ctx_reduce" for n in drop)
                assert all(numbers[n][0] in ("result", "text") for n in drop)
                assert len(drop) <= 1000
                kinds += sum(numbers[n][0] == "result" for n in drop)
                dropped |= drop
        for part in tagged(message):
            numbers[len(numbers) + 1] = part
    assert asked >= 10
    assert kinds > len(dropped) / 2
    assert kinds < len(dropped)


def test_without_the_tool_it_is_neither_listed_nor_called() -> None:
    trace = generate(7, 120, reduce=False)
    assert b"ctx_reduce" not in b"".join(messages_of(trace)) + (trace.tools or b"")
    assert b"ctx_reduce" in (generate(7, 1).tools or b"")


def test_equal_in_another_process_with_another_hash_seed() -> None:
    """TRACE-20: a function of its arguments alone."""
    code = (
        "from foldlog.adapters.traces.generator import generate\n"
        "from hashlib import sha256\n"
        "t = generate(3, 80)\n"
        "whole = [raw for step in t.steps for raw in step.messages]\n"
        "print(sha256(repr((whole, [(s.at, s.usage) for s in t.steps], t.tail)).encode()).hexdigest())"
    )
    found = set()
    for seed in ("0", "4242"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        found.add(run.stdout.strip())
    assert found == {digest(generate(3, 80))}
    assert digest(generate(4, 80)) not in found


def test_a_longer_session_begins_like_a_shorter_one() -> None:
    """TRACE-20."""
    assert generate(3, 60).steps[:20] == generate(3, 20).steps == tuple(islice(stream(3), 20))


@pytest.mark.slow
def test_sizes_follow_the_recorded_sessions() -> None:
    """TRACE-21: median growth and pace within a quarter of the measured medians; compression as of real ones."""
    trace = generate(1, 2_500)
    prompts = [u.input + u.cache_read + u.cache_write for u in (step.usage for step in trace.steps) if u]
    growth = sorted(b - a for a, b in pairwise(prompts))
    gaps = sorted((b.at - a.at) / 1000 for a, b in pairwise(trace.steps))
    middle = len(growth) // 2
    assert growth[middle] == pytest.approx(dict(generator.GROWTH_OF_TOOL_STEP)[0.5], rel=0.25)
    assert gaps[middle] == pytest.approx(dict(generator.GAP_OF_TOOL_STEP)[0.5], rel=0.25)
    assert 0.01 < sum(gap > 300 for gap in gaps) / len(gaps) < 0.08
    raw = b"".join(messages_of(trace))
    assert 0.15 < len(zlib.compress(raw, 6)) / len(raw) < 0.30


@pytest.mark.parametrize("codec", [*CODECS, ITEMS])
def test_usage_is_that_of_the_raw_request(codec: Any) -> None:
    """TRACE-23: four bytes a token over all that is sent; what went out five minutes ago is read from the cache."""
    trace = generate(4, 300, codec)
    size, before, sent = len(trace.system or b"") + len(trace.tools or b""), 0, 0
    warm = cold = 0
    for step in trace.steps:
        size += sum(map(len, step.messages))
        used = step.usage
        assert used is not None
        assert used.input + used.cache_read + used.cache_write == max(size // 4, used.input)
        lives = bool(sent) and step.at - sent <= 300_000
        assert used.cache_read == (before if lives else 0)
        warm += lives
        cold += not lives
        before, sent = size // 4, step.at
    assert warm > cold > 1


@pytest.mark.parametrize("codec", [*CODECS, ITEMS])
def test_system_and_tools_are_small(codec: Any) -> None:
    """TRACE-24: under 1,000 tokens together, and there is something of both."""
    trace = generate(4, 1, codec)
    first = json.loads(trace.steps[0].messages[0])
    system = trace.system or trace.steps[0].messages[0]
    assert trace.system or first["role"] == "system"
    assert b"coding agent" in system
    assert b"grep" in (trace.tools or b"")
    assert tokenizer()(system.decode() + (trace.tools or b"").decode()) < 1_000


@pytest.mark.slow
def test_no_long_line_is_said_twice() -> None:
    """Fresh content: nothing that a cache of ours would find again."""
    said = [raw for raw in messages_of(generate(2, 600)) if len(raw) > 600]
    assert len({sha256(raw).digest() for raw in said}) == len(said)
    lines = [line for raw in said for line in raw.decode().split("\\n\\n") if len(line) > 250]
    assert len(set(lines)) == len(lines)


def test_everything_a_session_may_hold_occurs() -> None:
    whole = b"".join(messages_of(generate(2, 120))).decode()
    pieces = ("<|endoftext|>", "Traceback", "diff --git", "git commit", '"thinking"', "image/png", "[Request interr")
    for piece in pieces:
        assert piece in whole, piece
    assert re.search("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]", whole)
    assert re.search("\u0301|\u0308|\u0302|\u200d", whole)
    assert whole.count("§") > 3
    parallel = [raw for raw in messages_of(generate(2, 120)) if raw.count(b'"type":"tool_use"') > 1]
    assert len(parallel) > 5


def test_pictures_are_valid_png() -> None:
    """Every picture, in a person's message or a result, decodes: signature, sizes, checksums, pixels."""
    found = re.findall(rb'"media_type":"image/png","data":"([^"]+)"', b"".join(messages_of(generate(2, 300))))
    assert len(found) > 5
    for text in found:
        png = base64.b64decode(text, validate=True)
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        at, pixels, size = 8, b"", (0, 0)
        while at < len(png):
            length, kind = struct.unpack(">I4s", png[at : at + 8])
            body = png[at + 8 : at + 8 + length]
            assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
            if kind == b"IHDR":
                size = struct.unpack(">II", body[:8])
            pixels += body if kind == b"IDAT" else b""
            at += 12 + length
        assert len(zlib.decompress(pixels)) == size[1] * (1 + 3 * size[0])


def test_pictures_stand_in_results_and_messages() -> None:
    inside = outside = 0
    for raw in messages_of(generate(2, 300)):
        for block in json.loads(raw)["content"] if b"image/png" in raw else []:
            outside += block["type"] == "image"
            inside += block["type"] == "tool_result" and "image/png" in json.dumps(block)
    assert inside > 0
    assert outside > 0


def test_bundled_session_has_what_the_demo_shows() -> None:
    trace = bundled()
    idle = sum(b.at - a.at > 300_000 for a, b in pairwise(trace.steps))
    asked = b"".join(messages_of(trace)).count(b'"name":"ctx_reduce"')
    last = trace.steps[-1].usage
    assert last is not None
    assert 3 <= idle <= 12
    assert asked >= 5
    assert 130_000 < last.input + last.cache_read + last.cache_write < 260_000


@pytest.mark.parametrize("codec", [*CODECS, ITEMS])
def test_files_of_ours_are_read_back(tmp_path: Path, codec: Any) -> None:
    trace = generate(9, 40, codec)
    write(trace, tmp_path / "session")
    assert load(tmp_path / "session") == trace


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(OptionError):
        generate(1, 0)
    with pytest.raises(OptionError):
        generate(1, 1, "gemini")  # type: ignore[arg-type]


def test_ranges() -> None:
    assert ranges([1, 3, 4, 5, 9]) == "1,3-5,9"
    assert ranges([]) == ""
