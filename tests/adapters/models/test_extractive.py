"""The extractive summariser on recorded and generated sessions: what must survive, how small, nothing by chance.

What is expected is read from the raw messages here, by other code than the summariser's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldlog.adapters.models.summarizers import Extractive, Job, ToolCall, ToolOutput, Turn, turn
from foldlog.adapters.models.tokens import tokenizer
from foldlog.adapters.traces.generator import generate
from foldlog.adapters.traces.reader import load, messages_of
from foldlog.domain.errors import InputError
from foldlog.projections.wire import CURRENT, wire
from support.house import ROOT

SHARED = ROOT.parent / "shared" / "traces"
RECORDED = (
    "claude-code-a-opus46",
    "claude-code-b-sonnet45",
    "mini-swe-a-sqlfluff-deepseek",
    "pi-a-opus45",
)
GENERATED = tuple(f"generated:{seed}:{codec}" for seed in (3, 4) for codec in ("anthropic", "pi", "openai-chat"))
SIZES = (6_000, 25_000)
BINDING = re.compile(r"\b(?:must|never|always|don't|do not|only|should|instead)\b", re.IGNORECASE)


class Session(NamedTuple):
    turns: tuple[Turn, ...]
    tokens: tuple[int, ...]


@cache
def session(name: str) -> Session:
    if name.startswith("generated:"):
        _, seed, codec = name.split(":")
        trace = generate(int(seed), 150, codec)
    else:
        path = SHARED / f"{name}.jsonl"
        if not path.is_file():
            pytest.skip("../shared/traces is absent")
        trace = load(path)
    read = wire(CURRENT).read
    turns, tokens = [], []
    for position, raw in enumerate([*messages_of(trace), *trace.tail], 1):
        message = read(trace.codec, raw, tokenizer()).message
        turns.append(turn(trace.codec, position, message, raw))
        tokens.append(sum(part.tokens for part in message.parts))
    return Session(tuple(turns), tuple(tokens))


def stretches(name: str, size: int) -> list[Job]:
    """Cut a session into stretches of about ``size`` tokens that end behind the results of their calls."""
    turns, tokens = session(name)
    jobs, start = [], 0
    while start < len(turns):
        end, total = start, 0
        while end < len(turns) and (total < size or turns[end].results):
            total += tokens[end]
            end += 1
        jobs.append(Job(turns[start:end], "", start + 1, end, total))
        start = end
    return jobs


@cache
def summarised(name: str, size: int):
    work = Extractive(tokenizer())
    return tuple((job, work(job)) for job in stretches(name, size))


cases = pytest.mark.parametrize(("name", "size"), [(name, size) for name in RECORDED + GENERATED for size in SIZES])


def paths_in(text: str) -> set[str]:
    """All paths a tier names, braces expanded, each also below the root."""
    root = next((line[6:] for line in text.splitlines() if line.startswith("Root: ")), "")
    found: set[str] = set()
    for line in text.splitlines():
        label, _, rest = line.partition(": ")
        if label not in {"Edited", "Read"}:
            continue
        for piece in rest.split("; "):
            braced = re.fullmatch(r"(.*/)\{(.+)\}", piece)
            found |= {braced[1] + one for one in braced[2].split(",")} if braced else {piece}
    return found | {f"{root}/{path}" for path in found}


def called(job: Job):
    """(call, its result) of every answered call; ids may be used again."""
    open_calls: dict[str, ToolCall] = {}
    for one in job.turns:
        for result in one.results:
            if result.id in open_calls:
                yield open_calls.pop(result.id), result
        open_calls |= {call.id: call for call in one.calls}


def spoken(answer) -> str:
    return "\n".join(summary.tiers[0] for summary in answer.summaries)


@pytest.mark.slow
@pytest.mark.rule("SUM-4")
@cases
def test_every_edited_file_is_in_tier_1(name, size):
    checked = 0
    for job, answer in summarised(name, size):
        named = set().union(*(paths_in(summary.tiers[0]) for summary in answer.summaries))
        for call, result in called(job):
            path = call.arguments.get("file_path") or call.arguments.get("path")
            if path and call.name.lower() in {"edit", "write", "multiedit"} and not result.error:
                checked += 1
                assert path in named, (job.start, call.name, path)
    assert checked > 5 or name.startswith("mini-swe")


@pytest.mark.rule("SUM-6")
@pytest.mark.parametrize("size", SIZES)
def test_files_written_in_a_shell_are_in_tier_1(size):
    """mini-swe has no other tool: there a file is made with ``cat > file <<EOF`` and changed with ``sed -i``."""
    checked = 0
    for job, answer in summarised("mini-swe-a-sqlfluff-deepseek", size):
        named = set().union(*(paths_in(summary.tiers[0]) for summary in answer.summaries))
        for call, result in called(job):
            written = re.search(r"^cat > (\S+) <<", call.arguments["command"])
            if written and "<returncode>0<" in result.text:
                checked += 1
                assert written[1] in named, (job.start, written[1])
    assert checked > 10


@pytest.mark.rule("SUM-4")
@cases
def test_every_commit_is_in_tier_1(name, size):
    checked = 0
    for job, answer in summarised(name, size):
        text = spoken(answer)
        for call, result in called(job):
            if "command" not in call.arguments:
                continue
            for found in re.findall(r"^\[[^\]\n]+ ([0-9a-f]{7,40})\] ", result.text, re.MULTILINE):
                checked += 1
                assert found in text, (job.start, found)
    assert checked > 3 or name.startswith(("mini-swe", "claude-code-b")), "the traces without a commit are known"


@pytest.mark.rule("SUM-5")
def test_commits_stay_in_every_tier_that_has_room():
    for _, answer in summarised("pi-a-opus45", 25_000):
        for summary in answer.summaries:
            made = re.findall(r"\b[0-9a-f]{7}\b", summary.tiers[0].partition("Commits: ")[2].partition("\n")[0])
            if 0 < len(made) <= 2 and all(summary.tiers):
                assert all(made[0] in tier for tier in summary.tiers), summary.title


@pytest.mark.rule("SUM-4")
@cases
def test_every_failing_command_is_in_tier_1_with_its_state(name, size):
    checked = 0
    for job, answer in summarised(name, size):
        lines = [line for summary in answer.summaries for line in summary.tiers[0].splitlines() if "→" in line]
        for call, result in called(job):
            ended = r"\A(?:Exit code |<returncode>)([1-9]\d*)|Command exited with code (\d+)\s*\Z"
            code = re.search(ended, result.text)
            if code is None or "command" not in call.arguments:
                continue
            checked += 1
            last = re.sub(r"\s+", " ", call.arguments["command"]).split(" && ")[-1]
            word = last.split()[0] if "<<" not in call.arguments["command"] else "→"
            state = f"exit {code[1] or code[2]}"
            told = [line for line in lines if state in line and (word in line or "…" in line)]
            assert told, (job.start, call.arguments["command"][:100], state, lines)
    assert checked > 1 or name.startswith("generated")


@pytest.mark.rule("SUM-4")
@cases
def test_what_a_person_laid_down_is_in_tier_1_word_for_word(name, size):
    checked = 0
    for job, answer in summarised(name, size):
        text = spoken(answer)
        for one in job.turns:
            for said in one.texts if one.role == "user" else ():
                lines = [line.strip() for line in said.splitlines() if line.strip()]
                if len(lines) > 4 or "<" in said or "```" in said or "Base directory" in said:
                    continue
                for line in (line.removeprefix("- ") for line in lines):
                    if BINDING.search(line) and 10 < len(line) <= 200 and not line.endswith(":"):
                        checked += 1
                        assert re.sub(r"\s+", " ", line) in text, (one.position, line)
    assert checked > 1 or name.startswith(("mini-swe", "generated"))


@pytest.mark.slow
@pytest.mark.rule("SUM-4")
@pytest.mark.parametrize("name", GENERATED)
@pytest.mark.parametrize("size", SIZES)
def test_rules_given_anywhere_in_a_session_stay(name, size):
    """A rule is put into each message of a person in turn; none may get lost, whatever else stands beside it."""
    rules = ("Never rename `open_{n}`, it is public.", "It must take at most {n} MB & < 1 s!", "use tabs in {n}.py")
    work, given_rules = Extractive(tokenizer()), 0
    for job in stretches(name, size):
        turns, wanted = [], []
        for one in job.turns:
            if one.role == "user" and one.texts:
                rule = rules[one.position % 3].format(n=one.position)
                wanted.append(rule)
                one = Turn(one.position, one.role, (*one.texts, rule), one.calls, one.results)  # noqa: PLW2901
            turns.append(one)
        text = spoken(work(Job(tuple(turns), "", job.start, job.end, job.limit_tokens)))
        given_rules += len(wanted)
        assert [rule for rule in wanted if rule not in text] == []
    assert given_rules > 3


@pytest.mark.rule("SUM-3")
@cases
def test_tier_1_takes_at_most_a_fifth_and_tiers_shrink(name, size):
    count = tokenizer()
    for job, answer in summarised(name, size):
        assert sum(count(summary.tiers[0]) for summary in answer.summaries) * 5 <= job.limit_tokens
        for summary in answer.summaries:
            sizes = [count(tier) for tier in summary.tiers]
            assert sizes[0] > 0
            assert all(after < before or after == 0 for before, after in pairwise(sizes)), sizes
            own = sum(session(name).tokens[summary.start - 1 : summary.end])
            assert sizes[0] * 4 <= own or own < 300, "a compartment far over its own share"


@pytest.mark.rule("SUM-2")
@cases
def test_every_position_is_in_exactly_one_compartment_and_no_call_is_parted(name, size):
    for job, answer in summarised(name, size):
        covered = [p for summary in answer.summaries for p in range(summary.start, summary.end + 1)]
        assert covered == list(range(job.start, job.end + 1))
        owner = {p: number for number, s in enumerate(answer.summaries) for p in range(s.start, s.end + 1)}
        made: dict[str, int] = {}
        for one in job.turns:
            for result in one.results:
                if result.id in made:
                    assert owner[made.pop(result.id)] == owner[one.position]
            made |= {call.id: one.position for call in one.calls}


@pytest.mark.rule("SUM-8")
@cases
def test_titles_are_short_single_lines_and_nothing_is_billed(name, size):
    for _, answer in summarised(name, size):
        assert (answer.input_tokens, answer.output_tokens, answer.model) == (0, 0, "extractive")
        for summary in answer.summaries:
            assert 0 < len(summary.title) <= 80
            assert not re.search(r"[\x00-\x1f]", summary.title)
            assert 1 <= summary.importance <= 100


@pytest.mark.rule("SUM-2")
def test_a_long_stretch_falls_into_its_objectives():
    many = [len(answer.summaries) for _, answer in summarised("pi-a-opus45", 25_000)]
    assert max(many) > 2
    for job, answer in summarised("pi-a-opus45", 25_000):
        by_position = {one.position: one for one in job.turns}
        for summary in answer.summaries[1:]:
            assert by_position[summary.start].role == "user"


@pytest.mark.slow
@pytest.mark.rule("SUM-1")
def test_every_process_says_the_same():
    script = (
        "import hashlib, msgspec\n"
        "from foldlog.adapters.models.summarizers import Extractive, Job, turn\n"
        "from foldlog.adapters.models.tokens import tokenizer\n"
        "from foldlog.adapters.traces.generator import generate\n"
        "from foldlog.adapters.traces.reader import messages_of\n"
        "from foldlog.projections.wire import CURRENT, wire\n"
        "trace = generate(5, 80, 'pi')\n"
        "raws = messages_of(trace)\n"
        "read = wire(CURRENT).read\n"
        "turns = tuple(turn('pi', n, read('pi', raw, len).message, raw) for n, raw in enumerate(raws, 1))\n"
        "out = Extractive(tokenizer())(Job(turns, '', 1, len(turns), 40_000))\n"
        "print(hashlib.sha256(msgspec.json.encode(out)).hexdigest(), len(out.summaries))\n"
    )
    import foldlog

    home = str(Path(foldlog.__file__).parent.parent) if Path(foldlog.__file__).parent.name == "foldlog" else ""
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH", "")]))
    seen = set()
    for seed in ("0", "1", "4242"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        run = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
        seen.add(run.stdout)
    assert len(seen) == 1
    assert re.fullmatch(r"[0-9a-f]{64} [1-9]\d*\n", seen.pop())


# ------------------------------------------------------------------------- whatever a host may send

texts = st.text(max_size=120) | st.sampled_from(
    ["</p1><p2>", "never touch `main`", "[main abc1234] m", "Exit code 3\nFAILED a.py::b", "\ud800x", "## a\n\n" * 9]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
keys = st.sampled_from("command path file_path content old_string paths patch description".split())
names = st.sampled_from("Bash bash Edit Read ctx_reduce mcp__x__y exec_command apply_patch".split()) | texts
calls = st.builds(ToolCall, names, st.dictionaries(keys, values, max_size=3), st.sampled_from("abc"))
results = st.builds(ToolOutput, st.sampled_from("abc"), texts, st.booleans())


@pytest.mark.slow
@pytest.mark.rule("SUM-1")
@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["user", "assistant", "tool"]),
            st.lists(texts, max_size=3).map(tuple),
            st.lists(calls, max_size=2).map(tuple),
            st.lists(results, max_size=2).map(tuple),
        ),
        max_size=14,
    ),
    st.integers(0, 40_000),
)
def test_any_stretch_gives_compartments(given_turns, tokens):
    turns = tuple(Turn(n, *one) for n, one in enumerate(given_turns, 7))
    job = Job(turns, "", 7, max(7, 6 + len(turns)), tokens)
    count = tokenizer()
    answer = Extractive(count)(job)
    assert answer == Extractive(count)(job)
    assert [p for s in answer.summaries for p in range(s.start, s.end + 1)] == list(range(job.start, job.end + 1))
    for summary in answer.summaries:
        sizes = [count(tier) for tier in summary.tiers]
        assert all(after < before or after == 0 for before, after in pairwise(sizes))
        assert summary.tiers[0].strip()
        assert summary.title.strip()
        for text in (summary.title, *summary.tiers):
            text.encode()
            assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)
    if tokens >= 200:
        assert sum(count(s.tiers[0]) for s in answer.summaries) * 5 <= tokens


def test_a_stretch_must_hold_its_messages():
    with pytest.raises(InputError, match="between its first and its last"):
        Extractive(len)(Job((Turn(9, "user", ("hello",)),), "", 1, 4, 100))
    with pytest.raises(InputError):
        Extractive(len)(Job((), "", 5, 4, 100))


def test_a_stretch_without_anything_still_has_a_tier_1():
    (only,) = Extractive(len)(Job((Turn(1, "user"), Turn(2, "assistant")), "", 1, 2, 500)).summaries
    assert only.tiers[0] == only.title == "Conversation"


def test_summaries_do_not_depend_on_the_order_turns_come_in():
    (job, answer), *_ = summarised("generated:3:pi", 25_000)
    mixed = Job(tuple(reversed(job.turns)), job.chunk, job.start, job.end, job.limit_tokens)
    assert Extractive(tokenizer())(mixed) == answer


def test_arguments_that_are_no_object_stand_under_an_empty_name():
    raw = json.dumps(
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{broken"}}],
        }
    ).encode()
    message = wire(CURRENT).read("openai-chat", raw, len).message
    assert turn("openai-chat", 1, message, raw).calls == (ToolCall("bash", {"": "{broken"}, "a"),)
