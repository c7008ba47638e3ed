"""Sessions with a past: summarisers that do what a test says, a store with its own clock, summaries on demand."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import foldlog
from foldlog.adapters.historian import Historian, _offset
from foldlog.adapters.models.summarizers.port import Job, Summarised, Summary
from foldlog.adapters.models.tokens import ENCODING, tokenizer
from foldlog.domain.coverage import history
from foldlog.domain.history.boundary import Boundary
from foldlog.storage.stores import open_store
from support.talk import START, Chat, assistant, use, user, words

WINDOW = 20_000
HEADING = re.compile(r"(?m)^## (\d+)-(\d+)")


class Scripted:
    """Covers its stretch with ``pieces`` compartments whose texts say what they cover. ``answer`` replaces that."""

    name, free = "scripted", False

    def __init__(self, pieces: int = 1, answer: Callable[[Job], Summarised] | None = None, size: int = 30) -> None:
        self.pieces = pieces
        self.answer = answer
        self.size = size
        self.jobs: list[Job] = []

    def __call__(self, job: Job) -> Summarised:
        self.jobs.append(job)
        if self.answer is not None:
            return self.answer(job)
        step = max((job.end - job.start + 1) // self.pieces, 1)
        edges = [*[*range(job.start, job.end + 1, step)][: self.pieces], job.end + 1]
        return summarised(*((a, b - 1) for a, b in pairwise(edges)), size=self.size)


class Hanging(Scripted):
    """Hangs until ``go`` is set; ``begun`` says that it does."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, job: Job) -> Summarised:
        self.begun.set()
        assert self.go.wait(60), "nobody let the summariser go on"
        return super().__call__(job)


def summarised(*spans: tuple[int, int], size: int = 30) -> Summarised:
    """Return the outcome of a run that made one compartment a span."""
    return Summarised(tuple(_summary(a, b, size) for a, b in spans), "", 0, 0, "scripted")


def _summary(start: int, end: int, size: int) -> Summary:
    said = f"Stretch {start}-{end}."
    return Summary(start, end, f"From {start} to {end}", (f"{said} {words(size, 'it')}", said + " short", said, ""), 50)


class Clock:
    """A wall clock a test moves, in ms."""

    def __init__(self) -> None:
        self.now = int(START * 1000)

    def __call__(self) -> int:
        return self.now


def opened(
    url: str = "memory:", summarizer: Any = None, *, hook: Any = None, clock: Any = None, **how: Any
) -> foldlog.Engine:
    """Open a store with a hook, a clock, and a summariser that works in the caller's thread unless told otherwise."""
    historian = Historian(summarizer, tokenizer(), **{"inline": True, **how}) if summarizer is not None else None
    return foldlog.Engine(open_store(url, hook), tokenizer(), ENCODING, clock or Clock(), historian)


def summarise(chat: Chat, end: int, summarizer: Any = None) -> None:
    """Publish a summary of everything uncovered up to path position ``end`` (1-based), now."""
    core = chat.session.core
    historian = Historian(summarizer or Scripted(), tokenizer(), inline=True)
    with core.lock:
        state = core.hot().state
        offset = _offset(state)
        found = Boundary(offset, end + 1, end + 1, "size-walk", False, 0, 0, False, len(state.path), 100)
        work = historian._start(core, state, found)
    assert work is not None, "another run is on"
    historian._go(core, work, None)


def talk(chat: Chat, turns: int, size: int = 100, mark: str = "", **given: Any) -> foldlog.Request:
    """Let the session go on by ``turns`` prompts, each with an answer of ``size`` tokens before it."""
    request = None
    for _ in range(turns):
        number = len(chat.messages)
        before = [assistant(f"answer {number} {mark} {words(size)}")] if chat.messages else []
        request = chat.say(*before, user(f"prompt {number} {mark}"), **given)
    assert request is not None
    return request


def work(chat: Chat, steps: int, size: int = 200) -> foldlog.Request:
    """Let the agent work: ``steps`` tool calls with results of ``size`` tokens."""
    request = None
    for _ in range(steps):
        number = len(chat.messages)
        request = chat.tool(f"t{number}", f"output {number} {words(size)}", command=f"make step{number}")
    assert request is not None
    return request


def press(chat: Chat, request: foldlog.Request, share: int = 70) -> None:
    """Let the provider count ``share`` per cent of the window for a request."""
    use(request, chat.options["context_limit"] * share // 100)


def texts(request: foldlog.Request) -> tuple[str, str]:
    """Return the texts of m[0] and m[1]."""
    built = request.built
    assert built.head == 2, "the request has no head"
    return tuple(said(raw) for raw in built.messages[built.leading : built.leading + 2])  # type: ignore[return-value]


def said(raw: bytes) -> str:
    """Return the text of a wire message."""
    content = json.loads(raw)["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def headings(text: str) -> list[tuple[int, int]]:
    """Return the stretches a rendered history names."""
    return [(int(a), int(b)) for a, b in HEADING.findall(text)]


def tail(request: foldlog.Request) -> list[int]:
    """Return the ordinals of the host's messages a request holds, in order, each once."""
    return list(dict.fromkeys(m for m in request.built.owners if m))


def sent(request: foldlog.Request) -> str:
    """Return all of a request's messages as one text."""
    return "\n".join(raw.decode() for raw in request.messages_json)


def covered(chat: Chat, cut: int | None = None) -> list[int]:
    """Return the ordinals on the path that stored compartments up to the cut cover, in order, with repetitions."""
    state = chat.state
    cut = state.cut if cut is None else cut
    end = state.pos[cut] if cut else -1
    found: list[int] = []
    for one in history(state):
        if state.pos[one.last] <= end:
            found += state.path[state.pos[one.first] : state.pos[one.last] + 1]
    return found


@contextmanager
def running(summarizer: Any, **how: Any) -> Iterator[tuple[foldlog.Engine, Historian]]:
    """Open a store in memory whose historian works in the background."""
    engine = opened("memory:", summarizer, inline=False, **how)
    historian = engine.summaries
    assert isinstance(historian, Historian)
    try:
        yield engine, historian
    finally:
        if isinstance(summarizer, Hanging):
            summarizer.go.set()
        engine.close()


def arcs(messages: list[Any]) -> list[tuple[int, int]]:
    """Return (call, result) places in the head's path, from 1, of every completed pair of a raw array, of any codec."""
    calls: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    decoded = [json.loads(message) if isinstance(message, bytes) else message for message in messages]
    for place, message in enumerate((one for one in decoded if one["role"] != "system"), 1):
        blocks = message["content"] if isinstance(message.get("content"), list) else []
        for one in [message, *blocks, *(message.get("tool_calls") or ())]:
            answered = one.get("tool_use_id") or one.get("toolCallId") or one.get("tool_call_id")
            if answered in calls:
                found.append((calls[answered], place))
            elif one.get("type") in ("tool_use", "toolCall", "function"):
                calls[one["id"]] = place
    return found
