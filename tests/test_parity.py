"""One session through every codec: the same decisions, pass by pass and lane by lane (``specs/parity.md``)."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from foldlog.adapters.traces.generator import generate
from foldlog.adapters.traces.reader import load
from foldlog.adapters.traces.shapes import Called, Returned, Said, Thought
from foldlog.projections.wire import CURRENT, wire
from support.counts import recounted
from support.hosts import WRITERS, Round, rounds_of
from support.parity import Player, Row, Script, tokens

FIRST, *OTHERS = WRITERS
SHARED = Path(__file__).resolve().parents[1] / ".." / "shared" / "traces"


def busy(rounds: list[Round], *, reasoning: int) -> list[Round]:
    """Return rounds with what gives every lane work: the same looks, reminders, calls of ours, edits, reasoning.

    ``reasoning``: how many times as much of it (0: none; else nobody speaks beside results, see PAR-6).
    """
    made: list[Round] = []
    for one in rounds:
        n, calls, results, asked = one.number, list(one.calls), list(one.results), list(one.asked)
        if one.calls and n % 5 == 2:
            read = "def value():\n    return 42\n" * 40
            _call(calls, results, f"look{n}", "read", {"path": f"/src/module{n % 3}.py"}, read)
        if one.calls and n % 6 == 3:
            _call(calls, results, f"mark{n}", "ctx_reduce", {"drop": f"{n}-{n + 2}"}, "Queued.")
        if one.calls and n % 4 == 1:
            given = {"file_path": f"/src/file{n % 2}.py", "old_string": "x" * 300, "new_string": f"{n} " * 200}
            _call(calls, results, f"edit{n}", "edit", given, "Edited. " * 50)
        if one.calls and n % 7 == 5 and not 80 < n < 140:  # so that a summary covers the newest list
            steps = [{"content": f"do {n}", "status": "pending" if n % 14 == 5 else "completed"}]
            _call(calls, results, f"todo{n}", "todowrite", {"todos": steps}, "Noted. " * 60)
        if results and reasoning:
            asked = []
        if asked and n % 2:
            reminder = "\n<system-reminder>\nThe build is slow today. " + "Mind it. " * 40 + "\n</system-reminder>"
            asked = [Said(part.text + reminder) if isinstance(part, Said) else part for part in asked]
        thoughts = tuple(Thought(t.text * reasoning, t.signature) for t in one.thoughts) if reasoning else ()
        said = {"thoughts": thoughts, "calls": tuple(calls), "results": tuple(results), "asked": tuple(asked)}
        made.append(dataclasses.replace(one, **said))
    return made


def _call(calls: list[Called], results: list[Returned], id: str, name: str, given: dict[str, Any], output: str) -> None:
    calls.append(Called(f"call_{id}", name, given))
    results.append(Returned(f"call_{id}", name, output))


def marks(rounds: list[Round], seed: int) -> dict[int, list[str]]:
    """Return what the agent marks as spent, and when: most of the older results, and some text."""
    rng, held, found = Random(seed), list[str](), dict[int, list[str]]()
    for one in rounds:
        held += [f"{one.number}.result{i}" for i, result in enumerate(one.results) if tokens(result.text) >= 40]
        if one.number % 9 == 8 and len(held) > 20:
            old, held = held[:-14], held[-14:]
            answers = [one.number - 12, *(r.number for r in rounds[one.number - 30 : one.number - 9] if not r.calls)]
            found[one.number] = [*(name for name in old if rng.random() < 0.5), *(f"{n}.text" for n in answers)]
    return found


EVENTS: dict[str, Any] = {
    "summary": {60: 40, 110: 90, 150: 130},
    "do": {70: "flush", 100: "loss", 125: "not_processed", 165: "overflow"},
    "usage": {52: 70, 53: 70, 54: 70, 85: 96, 86: 96, 87: 89, 88: 89, 140: 88, 141: 89, 142: 70, 143: 50, 144: 88},
    "models": {128: "claude-opus-4-6"},
    "systems": {155: "You work with care."},
}
ALL_ON = {"smart_drops": True, "caveman_text_compression": True}
SOME = {"keep_reasoning_tokens": 3_000}


@cache
def script(name: str) -> Script:
    """Return a scenario by name."""
    if name == "recorded":
        path = SHARED / "claude-code-b-sonnet45.jsonl"
        if not path.exists():
            pytest.skip("the shared traces are not beside this checkout")
        rounds = rounds_of(load(path))[:200]
        return Script(rounds, window=120_000, mark=marks(rounds, 5), **EVENTS)
    quiet = name.startswith("silent")
    rounds = busy(rounds_of(generate(3, 190, reduce=False)), reasoning=0 if quiet else 2)
    given: dict[str, Any] = {"mark": marks(rounds, 3), "policy": ALL_ON if quiet else SOME, "window": 100_000, **EVENTS}
    if name == "bound":
        given["model"], given["models"] = "claude-sonnet-5-5", {}
    if name.endswith("subagent"):
        given |= {"mode": "subagent", "summary": {}, "do": {**EVENTS["do"], 165: ""}}
    if name == "subagent":
        rounds = rounds[:135]  # beyond, what PAR-2 leaves on Pi's wire moves whole passes
    return Script(rounds, **given)


UNSIGNED = {("reasoning", "openai-responses"), ("companions", "openai-responses"), ("companions", "openai-chat")}
BOUNDS = {"age": 250, "smart": 1, "dedup": 1, "stale_reduce": 1, "emergency": 1}
MODES = {"PAR-1", "PAR-2"}


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@cache
def first(name: str) -> tuple[list[Row], list[int]]:
    """Return the rows of the first codec, and the usage that every other is told."""
    player = Player(script(name), FIRST)
    return player.play(), player.usage


@cache
def compared(name: str, codec: str) -> Apart:
    """Play a scenario through a codec and hold it against the first."""
    rows, usage = first(name)
    found = Apart(script(name), codec)
    played = Player(script(name), codec, usage).play()
    assert len(played) == len(rows)
    for a, b in zip(rows, played, strict=True):
        found.row(a, b)
    return found


class Apart:
    """Holds the rows of a codec against those of the first, and names each difference that was meant."""

    def __init__(self, script: Script, codec: str) -> None:
        self.codec = codec
        self.rounds = script.rounds
        self.apart: set[str] = set()
        self.known: set[str] = set()
        self.unknown: list[str] = []

    def row(self, a: Row, b: Row) -> None:
        """Take in one pass of both."""
        left, right = a.get("landed", {}), b.get("landed", {})
        if "kept" in a and "kept" in b:
            self.apart |= a["kept"] ^ b["kept"]  # one wire protects an output more, by its own count
        for label in sorted(left.keys() & right.keys()):
            if left[label] != right[label]:
                self.say(self.mode(label, left[label], right[label]), a, label, left[label], right[label])
        for lane in sorted(a.get("lanes", {}).keys() | b.get("lanes", {}).keys()):
            self.lane(a, lane, a.get("lanes", {}).get(lane), b.get("lanes", {}).get(lane))
        for label in sorted(left.keys() ^ right.keys()):
            self.say("PAR-3" if label in self.apart else "", a, label, left.get(label), right.get(label))
        for key in sorted((a.keys() | b.keys()) - {"lanes", "landed", "kept"}):
            if a.get(key) != b.get(key):
                self.say(self.figure(a, key, a.get(key), b.get(key)), a, key, a.get(key), b.get(key))

    def say(self, rule: str, row: Row, what: str, a: Any, b: Any) -> None:
        if rule:
            self.known.add(rule)
        else:
            self.unknown.append(f"round {row['round']}, {what}: {FIRST} {a}, {self.codec} {b}")

    def mode(self, label: str, a: str, b: str) -> str:
        """Return why a part left in two ways."""
        if self.codec == "openai-chat" and {a, b} == {"skeleton_stripped", "skeleton_real"}:
            return "PAR-7"
        if self.codec == "openai-responses" and {a, b} == {"full", "skeleton_real"}:
            return "PAR-1"
        if not (a.startswith("skeleton") and b == "full"):
            return ""
        return {"openai-chat": "PAR-1", "openai-responses": "PAR-1", "pi": "PAR-2"}.get(self.codec, "")

    def lane(self, row: Row, lane: str, a: Any, b: Any) -> None:
        """Hold what one lane did against what it did elsewhere."""
        if a == b:
            return
        alone = "PAR-8" if lane == "hollow" else "PAR-4" if (lane, self.codec) in UNSIGNED else ""
        if b is None and alone:
            self.say(alone, row, lane, a, b)
            return
        (landed, count, names), (landed_b, count_b, names_b) = a or (b[0], 0, []), b or (a[0], 0, [])
        if lane == "reasoning" and landed == landed_b and abs(count - count_b) <= 4:
            self.say("PAR-5", row, lane, count, count_b)  # steps at the edge of a budget in the provider's tokens
            return
        odd = set(names) ^ set(names_b)
        for label in odd:
            if lane in BOUNDS and self.bordering(label, BOUNDS[lane]):
                self.apart.add(label)
        if lane == "emergency" and self.known & MODES:
            self.apart |= odd
        good = landed == landed_b and bool(odd) and odd <= self.apart and count - count_b == len(names) - len(names_b)
        self.say(
            "PAR-3" if good else "",
            row,
            lane,
            (landed, count, odd & set(names)),
            (landed_b, count_b, odd & set(names_b)),
        )

    def bordering(self, label: str, bound: int) -> bool:
        """Whether a part is worth leaving in one way and not in the other."""
        number, _, kind = label.partition(".")
        if not kind.startswith("result"):
            return False
        one, place = self.rounds[int(number)], int(kind[6:])
        given = one.calls[place].name + " " + canonical(one.calls[place].input)
        less = tokens(one.results[place].text) - 6
        more = less + 6 + tokens(given) + sum(tokens(t.text) for t in one.thoughts)
        return less < bound <= more

    def figure(self, row: Row, key: str, a: Any, b: Any) -> str:
        if key == "percent" and row["source"] == "estimated":
            return "PAR-5" if abs(a - b) <= 50 else "PAR-3" if self.known & MODES else ""
        if key == "drainable" and a and b:
            return "PAR-5" if abs(a - b) <= 5 else "PAR-3" if self.known & MODES else ""
        return ""


PLAYED = [
    *((name, codec) for name in ("silent", "silent-subagent", "plain", "bound") for codec in OTHERS),
    *(("subagent", codec) for codec in ("pi", "opencode")),  # elsewhere PAR-3 moves whole passes
]
RULES = {"PAR-1", "PAR-2", "PAR-3", "PAR-4", "PAR-5", "PAR-7", "PAR-8"}


def test_every_codec_is_held_against_the_first():
    assert set(WRITERS) == set(wire(CURRENT).CODECS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "codec"), PLAYED)
@pytest.mark.rule("PAR-1", "PAR-2", "PAR-3", "PAR-4", "PAR-5", "PAR-7", "PAR-8")
def test_a_session_is_decided_alike_whatever_its_host_writes(name: str, codec: str):
    found = compared(name, codec)
    assert not found.unknown, "\n".join(found.unknown)
    if name.startswith("silent"):  # without reasoning only counts, pictures and a lane of one wire differ
        assert found.known <= {"PAR-5", "PAR-7", "PAR-8"}


@pytest.mark.slow
@pytest.mark.parametrize("codec", OTHERS)
def test_a_recorded_session_is_decided_alike(codec: str):
    found = compared("recorded", codec)
    assert not found.unknown, "\n".join(found.unknown)


@pytest.mark.slow
def test_every_stated_difference_is_seen_and_the_scenarios_have_work_for_all():
    assert set[str]().union(*(compared(name, codec).known for name, codec in PLAYED)) == RULES
    rows = [row for name in ("silent", "silent-subagent", "plain", "bound") for row in first(name)[0]]
    lanes = {lane for row in rows for lane, (landed, *_) in row.get("lanes", {}).items() if landed}
    assert lanes == {
        "queued", "emergency", "injected", "dedup", "terse", "reasoning", "age", "smart", "stale_reduce", "hollow",
        "companions", "todo",
    }  # fmt: skip
    assert {row["level"] for row in rows} == {"defer", "soft+", "soft", "hard"}
    said = {word for row in rows for word in row.get("words", ())}
    assert {"time", "nudge"} <= said
    signals = {signal for row in rows for signal in row.get("signals", ())}
    assert {"force", "flush", "cache_loss", "ttl_idle", "model_change", "system_hash", "published"} <= signals
    assert any(row.get("percent", 0) >= 9_500 for row in rows)


@pytest.mark.rule("PAR-6")
def test_words_beside_results_go_on_with_a_turn_where_they_are_one_message():
    def answer(number: int, *asked: Said) -> Round:
        thought, call = Thought("hm " * 300, "c2ln"), Called(f"t{number}", "bash", {"n": number})
        return Round(number, number * 10_000, (thought,), "", (call,), (Returned(f"t{number}", "bash", "x"),), asked)

    opening = Round(0, 0, (), "", (), (), (Said("start"),))
    rounds = [opening, answer(1, Said("hurry")), *(answer(number) for number in range(2, 6))]
    given = Script(rounds, policy={"keep_reasoning_tokens": 0}, do={3: "loss"})
    gone = {codec: Player(given, codec).play()[4]["lanes"].get("reasoning", (True, 0))[1] for codec in WRITERS}
    assert gone == {"anthropic": 0, "openai-chat": 1, "openai-responses": 0, "pi": 1, "opencode": 1}


def musing(number: int, *thoughts: Thought) -> Round:
    """Return an answer that reasons in its text, and what a person says to it."""
    said = f"<think>\n{'Let me see. ' * 100}\n</think>\nAnswer {number}."
    return Round(number, number * 10_000, thoughts, said, (), (), (Said(f"go on {number}"),))


def lost(rounds: list[Round], at: tuple[int, int], **more: Any) -> dict[str, list[str]]:
    """Return by codec which texts lose their reasoning where the cache is lost behind the rounds ``at``."""
    given = Script(rounds, do=dict.fromkeys(at, "loss"), **more)
    rows = {codec: Player(given, codec).play() for codec in WRITERS}
    return {
        codec: [n for row in rows[codec] for n in row.get("lanes", {}).get("inline", (0, 0, []))[2]]
        for codec in WRITERS
    }


@pytest.mark.rule("THINK-6")
def test_reasoning_in_texts_leaves_alike_on_every_wire():
    opening = Round(0, 0, (), "", (), (), (Said("start"),))
    calls = (Called("t", "bash", {}),), (Returned("t", "bash", "x"),)
    tools = dataclasses.replace(musing(6), calls=calls[0], results=calls[1], asked=())
    rounds = [opening, *(musing(number) for number in range(1, 6)), tools, *(musing(number) for number in range(7, 13))]
    gone = lost(rounds, (6, 11), policy={"keep_reasoning_tokens": 1_100})
    assert set(map(tuple, gone.values())) == {tuple(f"{number}.text" for number in range(1, 10))}


@pytest.mark.rule("PAR-11")
def test_reasoning_that_must_stay_goes_on_to_count():
    """On a bound model a rebuild takes the signed away, and texts keep theirs the longer for it."""
    opening = Round(0, 0, (), "", (), (), (Said("start"),))
    rounds = [opening, *(musing(number, Thought("hm " * 400, "c2ln")) for number in range(1, 13))]
    gone = lost(rounds, (6, 7), policy={"keep_reasoning_tokens": 1_500}, model="claude-sonnet-5-5")
    assert gone["anthropic"] == gone["pi"] == gone["opencode"]
    assert gone["openai-chat"] == gone["openai-responses"]
    assert set(gone["anthropic"]) < set(gone["openai-chat"])


@pytest.mark.slow
@pytest.mark.parametrize("codec", WRITERS)
@pytest.mark.rule("WINDOW-15")
def test_the_count_carried_on_is_what_counting_anew_gives(codec: str, monkeypatch: pytest.MonkeyPatch):
    off = recounted(monkeypatch)
    Player(script("plain"), codec).play()
    assert len(off) > 100
    nudged = 70  # what is said to the agent is counted as it is said, and not anew
    assert max(map(abs, off)) <= nudged, "a rebuild counts what it frees twice, or not at all"
