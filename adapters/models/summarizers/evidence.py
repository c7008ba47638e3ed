"""What a stretch holds that is worth keeping, gathered turn by turn: the input of titles, tiers and importance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from . import text
from .outcomes import Outcome, made_commits, named_commits, outcome
from .port import ToolCall, ToolOutput, Turn
from .shell import path_like
from .text import Line
from .tools import Act, act

_DECIDES = (
    (4, re.compile(r"\b(?:root cause|decided|decision|turns? out|instead of|chose|trade-?off|rather than"
                   r"|by design)\b", re.IGNORECASE)),
    (2, re.compile(r"\b(?:because|fix(?:ed|es)?|the (?:issue|problem|bug|cause|reason|key|solution)|so that"
                   r"|this means|can(?:no|')t|resolved"
                   r"|removed|replaced|moved|renamed|added|implemented|no longer|should|workaround"
                   r"|conclu\w+)\b", re.IGNORECASE)),
)  # fmt: skip
_PLANS = re.compile(
    r"(?:let me|let's|now|i'll|i will|i need|next|first|i'm going|good|perfect|great|looking|wait|maybe|actually)\b",
    re.IGNORECASE,
)
_COURTESY = re.compile(
    r"(?:you(?:(?:'|’)re| are| were)|absolutely|sorry|yes|no|yeah|right|ah|ha|done|ok(?:ay)?|excellent|wow|hmm?"
    r"|sure)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"`([A-Za-z_][\w.:]{3,58}(?:\(\))?)`")


class Doing(msgspec.Struct, frozen=True):
    """A call with how it ended."""

    act: Act
    outcome: Outcome
    position: int


class Saying(msgspec.Struct, frozen=True):
    """A sentence of the assistant that tells a decision or result; ``weight`` 1 and up."""

    text: str
    weight: int
    position: int


class Seen(msgspec.Struct, frozen=True):
    """One turn, read. ``size`` in characters; ``asks``: a person says something that can begin an objective."""

    position: int
    size: int
    lines: tuple[Line, ...] = ()
    asks: bool = False
    doings: tuple[Doing, ...] = ()
    commits: tuple[tuple[str, str], ...] = ()
    sayings: tuple[Saying, ...] = ()
    names: tuple[str, ...] = ()
    first: str = ""


def read(turns: Sequence[Turn]) -> tuple[Seen, ...]:
    """Return what each turn holds. A result is told with its call, at the position of the call."""
    answers = {(result.id, at): result for at, result in _answers(turns)}
    return tuple(_read(turns, index, answers) for index in range(len(turns)))


def arcs(turns: Sequence[Turn]) -> list[tuple[int, int]]:
    """Return (index of the call's turn, index of its result's turn) of every answered call."""
    return [(call, answer) for call, answer, _, _ in _pairs(turns)]


def _pairs(turns: Sequence[Turn]) -> Iterator[tuple[int, int, ToolCall, ToolOutput]]:
    # some hosts count call ids anew each turn: an answer belongs to the nearest open call of its id
    opened: dict[str, tuple[int, ToolCall]] = {}
    for index, turn in enumerate(turns):
        for result in turn.results:
            found = opened.pop(result.id, None)
            if found is not None:
                yield found[0], index, found[1], result
        for call in turn.calls:
            opened[call.id] = (index, call)


def _answers(turns: Sequence[Turn]) -> Iterator[tuple[int, ToolOutput]]:
    for call, _, _, result in _pairs(turns):
        yield call, result


def _read(turns: Sequence[Turn], index: int, answers: dict[tuple[str, int], ToolOutput]) -> Seen:
    turn = turns[index]
    size = sum(map(len, turn.texts)) + sum(len(result.text) for result in turn.results)
    size += sum(len(call.name) + _size(call.arguments) for call in turn.calls)
    lines: list[Line] = []
    asks = False
    if turn.role == "user":
        for given in turn.texts:
            lines += text.person(given)
        asks = bool(lines)
    for result in turn.results:
        # a person's words behind a refused call stand in its result
        if said := text.said_in(result.text):
            lines += text.person(said)
    doings: list[Doing] = []
    commits: list[tuple[str, str]] = []
    for call in turn.calls:
        done = act(call)
        if done.own:
            continue
        output = answers.get((call.id, index))
        ended = outcome(output, done.ran)
        doings.append(Doing(done, ended, turn.position))
        if output is not None and not done.looks and not any(file.written for file in done.files):
            commits += made_commits(output.text)
    spoken = turn.texts if turn.role == "assistant" else ()
    last = _closes(turns, index)
    sayings: list[Saying] = []
    first = ""
    for given in spoken:
        told = text.sentences(given)
        first = first or next(
            (s for s in told if len(s) > 24 and s[-1] != ":" and not (_PLANS.match(s) or _COURTESY.match(s))), ""
        )
        sayings += _sayings(told, turn.position, last)
        commits += [(found, "") for found in named_commits(given)]
    names = tuple(name for given in spoken for name in _NAME.findall(text.ends(given)) if not path_like(name))
    return Seen(turn.position, size, tuple(lines), asks, tuple(doings), tuple(commits), tuple(sayings), names, first)


def _sayings(told: list[str], position: int, last: bool) -> Iterator[Saying]:
    opening = True
    for sentence in told:
        if not 30 <= len(sentence) <= 400 or sentence.endswith((":", "?")):
            continue
        weight = sum(points for points, cue in _DECIDES if cue.search(sentence))
        if last and opening:
            weight += 2
            opening = False
        if _PLANS.match(sentence) or _COURTESY.match(sentence):
            weight -= 2
        if weight > 0:
            yield Saying(text.clip(sentence, text.LINE), weight, position)


def _closes(turns: Sequence[Turn], index: int) -> bool:
    """Whether a turn is the assistant's last word before a person speaks, or at the end."""
    if turns[index].role != "assistant" or turns[index].calls:
        return False
    return index + 1 == len(turns) or turns[index + 1].role == "user"


def _size(value: object) -> int:
    total = 0
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, dict):
            todo.extend(item.keys())
            todo.extend(item.values())
        elif isinstance(item, list | tuple):
            todo.extend(item)
        else:
            total += 4
    return total
