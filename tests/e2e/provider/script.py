"""Which step a request asks for, and the calls of that step in the terms of the tools the request offers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from .scenario import Call, Scenario, Step
from .signing import CALL

PLACE = re.compile(r"\[\[([a-z0-9]+):(\d+)\]\]")
TAG = re.compile(r"§(\d+)§")
_SUMMARY = re.compile(
    r"TEXT ONLY|detailed summary|handoff (summary|document)|CHECKPOINT COMPACTION|context summarization|"
    r"conversation to summarize|anchored summary|provide a (detailed )?(prompt|summary)|summarize (this|the|our|a) ",
    re.IGNORECASE,
)
"""How the hosts ask for their own compaction."""
STOPPED = "Go on where the work stopped: "
_TITLE = re.compile(r"title", re.IGNORECASE)
SHARE, ANSWER = 2_500, 150
"""Tokens a command prints at most (one host cuts output at 10 kB), and of them what call and result need beside it."""
_KINDS = {
    "read": ("read",),
    "look": ("view_image", "read"),
    "run": ("bash", "exec_command", "shell"),
    "write": ("write",),
    "reduce": ("ctx_reduce",),
    "expand": ("ctx_expand",),
    "task": ("task", "spawn_agent", "agent"),
    "wait": ("wait_agent",),
    "plan": ("todowrite", "update_plan"),
}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool the request offers: its wire name, the namespace it stands in, its properties and required ones."""

    name: str
    properties: dict[str, Any]
    required: tuple[str, ...] = ()
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the model sees of a request: tools, the texts and results since its last answer, all text, the last call."""

    tools: tuple[Tool, ...]
    system: str
    texts: tuple[str, ...]
    results: tuple[str, ...]
    everything: str


@dataclass(frozen=True, slots=True)
class Place:
    """What is asked: ``kind`` is ``step`` (of ``track``), ``summary``, ``title`` or ``other``."""

    kind: str
    track: str = "main"
    step: int = 0


def place(seen: Seen) -> Place:
    """Return the step ``seen`` asks for. A marker in the newest text wins, then the newest result, then history."""
    marked = [m for text in seen.texts for m in PLACE.finditer(text) if not _reported(m, seen)]
    tail = seen.texts[-1] if seen.texts else ""
    if not seen.tools and _TITLE.search(seen.system[:300] + tail[:300]):
        return Place("title")
    if _SUMMARY.search(seen.system[:400]) or (_SUMMARY.search(tail) and not PLACE.search(tail)):
        return _behind("summary", seen)
    if marked:
        return Place("step", marked[-1][1], int(marked[-1][2]))
    for call in reversed(seen.results):
        if m := CALL.search(call):
            return Place("step", m[1], int(m[2]) + 1)
    return _behind("step" if seen.tools else "other", seen)


def _reported(found: re.Match[str], seen: Seen) -> bool:
    """Whether a marker stands in a summary of another track: where a subagent stopped, as reported to its parent."""
    first = PLACE.search(seen.everything)
    return first is not None and first[1] != found[1] and found.string[: found.start()].endswith(STOPPED)


def _behind(kind: str, seen: Seen) -> Place:
    """The step behind the last one that the whole history shows."""
    last = Place("other")
    for m in re.finditer(rf"{PLACE.pattern}|{CALL.pattern}", seen.everything):
        if m[1] and _reported(m, seen):
            continue
        last = Place(kind, m[1], int(m[2])) if m[1] else Place(kind, m[3], int(m[4]) + 1)
    return last


def step_of(scenario: Scenario, at: Place) -> Step:
    """Return the step to play; behind the end of its track the model says that it is done."""
    if at.kind == "title":
        return Step(say="A session on a scratch folder")
    if at.kind == "summary":
        return Step(
            say="<summary>\nGoal: work through the list in the scratch folder; the files so far were read and noted. "
            f"{STOPPED}[[{at.track}:{at.step}]]\n</summary>"
        )
    if at.kind == "other":
        return Step(say="Yes.")
    track = scenario.tracks.get(at.track, ())
    return track[at.step] if at.step < len(track) else Step(say="All done.")


def playable(
    scenario: Scenario, at: Place, seen: Seen, used: int
) -> tuple[Place, Step, list[tuple[Tool, dict[str, Any]]]]:
    """Return the step to play with its calls: the next one whose calls the offered tools can make, or that ends.

    ``used``: tokens of the prompt.
    """
    while True:
        step = _filling(step_of(scenario, at), scenario.window, used)
        if at.kind != "step":
            return at, step, []
        calls = [made for made in (call_of(call, seen) for call in step.calls) if made is not None]
        if calls or not step.calls:
            return at, step, calls
        at = Place(at.kind, at.track, at.step + 1)


def _filling(step: Step, window: int, used: int) -> Step:
    """The step with a call that fills the window as the commands it takes, of equal size."""
    calls: list[Call] = []
    for call in step.calls:
        missing = max(window * call.fill // 100 - used, 0)
        share = -(-missing // SHARE)
        size = max(missing // max(share, 1) - ANSWER, 0) * 4
        commands = [f"tail -c +{each * size + 1} {call.path} | head -c {size}" for each in range(share)]
        calls += [msgspec.structs.replace(call, command=command) for command in commands] if call.fill else [call]
    return msgspec.structs.replace(step, calls=tuple(calls))


def find(kind: str, tools: tuple[Tool, ...]) -> Tool | None:
    """Return the tool that does ``kind``, by its name without prefixes."""
    for wanted in _KINDS[kind]:
        for tool in tools:
            name = tool.name.rsplit("__", 1)[-1].lower()
            if wanted in {name, name.lstrip("_"), tool.name.lower()} or name.endswith(f"_{wanted}"):
                return tool
    return None


def call_of(call: Call, seen: Seen) -> tuple[Tool, dict[str, Any]] | None:
    """Return the tool and the arguments for ``call``, or None where the request offers no such tool.

    Where a host has no tool to read or write, its shell does both.
    """
    tool = find(call.do, seen.tools)
    if tool is None and call.do in {"read", "write"}:
        tool = find("run", seen.tools)
    if tool is None and call.do in {"reduce", "expand"}:
        named = re.search(rf"\bmcp__\w+?__ctx_{call.do}\b", seen.everything)
        tool = Tool(named[0], {"drop": {}} if call.do == "reduce" else {"tag": {}}) if named else None
    if tool is None:
        return None
    arguments: dict[str, Any] = {}
    for name, schema in tool.properties.items():
        value = _argument(name, call, seen)
        if value is None and name in tool.required:
            value = _filler(schema)
        if value is not None:
            arguments[name] = value
    return tool, arguments


def _argument(name: str, call: Call, seen: Seen) -> Any:
    plain = name.lower().replace("_", "")
    if plain in {"filepath", "path"}:
        return call.path or None
    if plain in {"command", "cmd"}:
        if call.do == "read":
            return f"cat {call.path}"
        if call.do == "write":
            return f"cat > {call.path} <<'END'\n{call.content}\nEND"
        return call.command or None
    if plain == "content":
        return call.content
    if call.do == "reduce" and plain in {"drop", "tags"}:
        return tags_to_drop(seen.everything, call.keep) or None
    if call.do == "expand" and plain in {"tag", "tags", "number", "id"}:
        return _dropped(seen.everything)
    if call.do == "task" and plain in {"prompt", "message", "tasks"}:
        prompt = f"Do your part. [[{call.track}:0]]"
        return [{"task": prompt}] if plain == "tasks" else prompt
    if call.do == "wait" and plain == "targets":
        return re.findall(r'agent_id\\*"\s*:\s*\\*"([\w-]+)', seen.everything)
    if call.do == "plan" and plain in {"todos", "plan"}:
        word = "step" if plain == "plan" else "content"
        also = {} if plain == "plan" else {"activeForm": "Walking", "priority": "high"}
        return [{word: call.content, "status": "in_progress", **also}]
    if plain in {"description", "i"}:
        return "one step"
    return None


def tags_to_drop(everything: str, keep: int) -> str:
    """Return the visible tags but the newest ``keep`` and those already dropped, as ``ctx_reduce`` takes them."""
    gone = {int(tag) for tag in re.findall(r"\[dropped §(\d+)§\]", everything)}
    seen = sorted({int(tag) for tag in TAG.findall(everything)} - gone)
    return ",".join(map(str, seen[: max(0, len(seen) - keep)]))


def _dropped(everything: str) -> str:
    """A tag shown as dropped; where there is none, the lowest visible one."""
    gone = re.findall(r"\[dropped §(\d+)§\]", everything)
    return gone[0] if gone else next(iter(sorted(TAG.findall(everything), key=int)), "1")


def _filler(schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, dict) else "string"
    if isinstance(schema, dict) and schema.get("enum"):
        return schema["enum"][0]
    return {"integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}.get(str(kind), "general")


def parse_schema(schema: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return properties and required names of a JSON schema."""
    if not isinstance(schema, dict):
        return {}, ()
    return schema.get("properties") or {}, tuple(schema.get("required") or ())


def text_of(value: Any) -> str:
    """Return ``value`` as text for searching."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
