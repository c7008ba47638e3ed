"""A seeded generator of realistic coding sessions, at any length, in every codec.

A person asks; the agent thinks, reads, edits, tests, commits, asks for parts to be dropped, and reports. The same
script is written in the shape of any codec. One ``random.Random(seed)`` is the only source of chance.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from itertools import islice, pairwise
from random import Random
from typing import Any

import msgspec

from ...domain.errors import OptionError
from . import texts
from .anthropic import INTERRUPTED, NO_RESULT
from .model import Codec, Step, Trace, Usage
from .shapes import Called, Returned, Said, Shown, Thought, Written, answer, assistant, given, tools
from .texts import Pools, pools
from .toolbox import REDUCE, SYSTEM, TOOLS, call

# Measured over the 17,397 requests of 271 recorded Claude Code sessions (usage-claude-code-requests.csv of the trace
# collection), as (share of cases, value): growth of the prompt from one request to the next in tokens (uncached +
# cache reads + cache writes, compactions left out, for the second only where it grew), and seconds between requests.
GROWTH_OF_TOOL_STEP = (
    (0.0, 60), (0.01, 99), (0.05, 147), (0.1, 187), (0.25, 330), (0.5, 618), (0.75, 1_227), (0.9, 2_570), (0.95, 4_699),
    (0.99, 15_375), (0.999, 38_010), (1.0, 40_000),
)  # fmt: skip
GROWTH_OF_PERSON_TURN = (
    (0.0, 20), (0.01, 33), (0.05, 82), (0.1, 131), (0.25, 260), (0.5, 466), (0.75, 832), (0.9, 1_593), (0.95, 2_383),
    (0.99, 4_854), (0.999, 19_533), (1.0, 20_000),
)  # fmt: skip
GAP_OF_TOOL_STEP = (
    (0.0, 2.0), (0.01, 2.8), (0.05, 3.4), (0.1, 3.8), (0.25, 4.8), (0.5, 6.6), (0.75, 11.0), (0.9, 27.0), (0.95, 63.5),
    (0.99, 298.3), (0.999, 3_615.1), (1.0, 4_000.0),
)  # fmt: skip
GAP_OF_PERSON_TURN = (
    (0.0, 3.0), (0.01, 3.5), (0.05, 14.3), (0.1, 24.1), (0.25, 55.0), (0.5, 122.1), (0.75, 306.8), (0.9, 924.5),
    (0.95, 2_236.0), (0.99, 19_571.6), (0.999, 71_649.9), (1.0, 80_000.0),
)  # fmt: skip
PERSON_TURNS = 0.1024
"""Share of requests that a person's text preceded."""

# Output tokens an answer, of the 465 finished answers of the recorded Pi session (the outputs that Claude Code logs are
# partial counts, so they are not used).
OUTPUT = (
    (0.0, 25), (0.01, 32), (0.05, 69), (0.1, 79), (0.25, 101), (0.5, 133), (0.75, 283), (0.9, 722), (0.95, 1_402),
    (0.99, 4_397), (0.999, 16_099), (1.0, 17_000),
)  # fmt: skip

BYTES_PER_TOKEN = 4
CACHE_LIFE_MS = 300_000
START_MS = 1_767_600_000_000
_MODELS: dict[Codec, str] = {
    "anthropic": "claude-sonnet-4-5",
    "pi": "claude-sonnet-4-5",
    "openai-chat": "deepseek-chat",
    "openai-responses": "gpt-5.2",
}
_UNANSWERED: dict[Codec, str] = {
    "anthropic": INTERRUPTED,
    "pi": NO_RESULT,
    "openai-chat": NO_RESULT,
    "openai-responses": NO_RESULT,
}
_KEEP_NEWEST = 12
_ASK_FROM = 60_000
_ABORTS = 0.026
"""Share of requests whose last call a person stops, one in 47 at a fixed place; what follows is a person's turn too."""
_ENVELOPE = 380
"""Bytes of JSON around a call and its result."""


def drawn(rng: Random, quantiles: tuple[tuple[float, float], ...]) -> float:
    """Draw from a distribution given by its quantiles, interpolating the logarithm."""
    at = rng.random()
    for (low, first), (high, second) in pairwise(quantiles):
        if at <= high:
            return math.exp(math.log(first) + (at - low) / (high - low) * (math.log(second) - math.log(first)))
    return quantiles[-1][1]


def ranges(numbers: list[int]) -> str:
    """Write sorted numbers as ``3-5,8``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


class _Session(msgspec.Struct):
    """What the script knows while it writes: clock, vocabulary, numbers given so far, what the agent could drop."""

    rng: Random
    codec: Codec
    reduce: bool
    have: Pools
    clock: int
    tag: int = 0
    calls: int = 0
    size: int = 0
    held: list[tuple[int, int]] = []
    spare: list[int] = []


def stream(seed: int, codec: Codec = "anthropic", reduce: bool = True) -> Iterator[Step]:
    """Yield the requests of an endless session, one by one."""
    rng = Random(seed)  # noqa: S311 - chance here must repeat, not resist guessing
    session = _Session(rng, codec, reduce, pools(rng), START_MS + rng.randrange(86_400) * 1000)
    system, listed = _frame(codec, reduce)
    session.size = len(system or b"") + len(listed)
    head: tuple[bytes, ...] = ()
    if codec == "openai-chat":
        head = (msgspec.json.encode({"role": "system", "content": SYSTEM}),)
        # no number for it: tags count what the person and the agent say
    opening = given(codec, [], _ask(session, first=True), session.clock)
    _numbered(session, opening, [])
    new = head + opening.messages
    cached, seen, index, left = 0, 0, 0, _turn_length(rng)
    person = True
    while True:
        session.size += sum(map(len, new))
        prompt = session.size // BYTES_PER_TOKEN
        warm = seen and session.clock - seen <= CACHE_LIFE_MS
        read = cached if warm else 0
        asked = session.clock
        parts, results, last = _answer(session, index, left, person)
        used = Usage(3, read, max(0, prompt - read - 3), sum(map(_weight, parts)) // BYTES_PER_TOKEN)
        yield Step(at=asked, model=_MODELS[codec], messages=new, usage=used)
        cached, seen = prompt, asked
        said = assistant(codec, parts, _MODELS[codec], asked + 400, _pi_usage(used))
        _numbered(session, said, [])
        aborted = bool(results) and results[-1].text == _UNANSWERED[codec]
        left = _turn_length(rng) if last or aborted else left - 1
        person = last or aborted
        gap = drawn(rng, GAP_OF_PERSON_TURN if person else GAP_OF_TOOL_STEP)
        session.clock += max(500, round(gap * 1000))
        back = given(codec, results, _ask(session, index=index) if person else [], session.clock)
        _numbered(session, back, results)
        new = said.messages + back.messages
        index += 1


def generate(seed: int, requests: int, codec: Codec = "anthropic", reduce: bool = True) -> Trace:
    """Return a session of ``requests`` requests; ``reduce``: the agent has ``ctx_reduce`` and uses it.

    Equal arguments give equal bytes, in every process. A longer session begins like a shorter one of the same seed.
    Raises ``OptionError`` for fewer than one request or an unknown codec.
    """
    if requests < 1:
        raise OptionError("a session has at least one request; ask for 1 or more", value=requests, where="requests")
    if codec not in _MODELS:
        raise OptionError(f"no such codec; known are {', '.join(_MODELS)}", value=codec, where="codec")
    steps = list(islice(stream(seed, codec, reduce), requests + 1))
    tail = answer(codec, steps.pop().messages)
    return Trace(f"generated-{seed}", codec, _MODELS[codec], *_frame(codec, reduce), tuple(steps), tail)


def _frame(codec: Codec, reduce: bool) -> tuple[bytes | None, bytes]:
    """Return the system prompt (in chat it is the first message instead) and the tool list, as raw JSON."""
    listed = tools(codec, (*TOOLS, REDUCE) if reduce else TOOLS)
    if codec == "openai-chat":
        return None, listed
    return msgspec.json.encode([{"type": "text", "text": SYSTEM}] if codec == "anthropic" else SYSTEM), listed


def _turn_length(rng: Random) -> int:
    """How many requests the agent makes for one ask: geometric, with the measured mean."""
    ends = PERSON_TURNS - _ABORTS
    return min(60, 1 + int(math.log(1 - rng.random()) / math.log(1 - ends)))


def _weight(part: Any) -> int:
    return len(msgspec.json.encode(part))


def _pi_usage(used: Usage) -> dict[str, Any]:
    total = used.input + used.cache_read + used.cache_write + used.output
    return {
        "input": used.input,
        "output": used.output,
        "cacheRead": used.cache_read,
        "cacheWrite": used.cache_write,
        "totalTokens": total,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
    }


def _numbered(session: _Session, written: Written, results: list[Returned]) -> None:
    """Count the numbers these parts get, and note which results could be dropped later."""
    at = 0
    for kind in written.numbered:
        session.tag += 1
        if kind == "result":
            result = results[at]
            at += 1
            if result.name != "ctx_reduce":
                session.held.append((session.tag, len(result.text) + len(result.picture)))
        elif kind == "text" and session.rng.random() < 0.25 and session.tag > 2:
            session.spare.append(session.tag)


def _ask(session: _Session, *, first: bool = False, index: int = 0) -> list[Said | Shown]:
    """What a person says: mostly short, sometimes with a pasted log or a picture."""
    rng = session.rng
    if not first and rng.random() < 0.5:
        session.have = pools(rng)
    have = session.have
    said = texts.prose(rng, texts.ASKS, have, 160 if first else rng.choice((20, 40, 90, 200)))
    grown = drawn(rng, GROWTH_OF_PERSON_TURN) * BYTES_PER_TOKEN
    if grown > 3_000:
        said += "\n\n```\n" + "\n".join(texts.fill(rng, texts.LOGS, have, int(grown) - len(said))) + "\n```"
    if rng.random() < 0.15:
        said += "\n" + texts.foreign(rng, have)
    shown = [Shown(texts.picture(rng))] if first or rng.random() < 0.08 else []
    return [Said(said), *shown]


def _answer(
    session: _Session, index: int, left: int, person: bool
) -> tuple[list[Said | Thought | Called], list[Returned], bool]:
    """Return the answer to request ``index``, the results of its calls, and whether it ends the turn."""
    rng, have = session.rng, session.have
    size = int(drawn(rng, OUTPUT) * BYTES_PER_TOKEN)
    parts: list[Said | Thought | Called] = []
    if session.codec != "openai-chat" and rng.random() < 0.5:
        thought = texts.prose(rng, texts.REASONING, have, min(4_000, max(60, size // 3)))
        signature = base64.b64encode(rng.randbytes(rng.randrange(90, 160))).decode()
        parts.append(Thought(thought, signature))
    drop = _drop(session)
    last = left <= 1 and not drop
    if last:
        if rng.random() < 0.2:
            parts.append(Said(texts.foreign(rng, have)))
        parts.append(Said("\n".join(texts.fill(rng, texts.SUMMARY, have, max(150, size)))))
        return parts, [], True
    if person or rng.random() < 0.45:
        parts.append(Said(texts.prose(rng, texts.SAYS, have, min(900, max(40, size // 3)))))
    results: list[Returned] = []
    if drop:
        session.calls += 1
        identity = _call_id(session)
        parts.append(Called(identity, "ctx_reduce", {"drop": drop}))
        results.append(Returned(identity, "ctx_reduce", _queued(drop)))
    grown = drawn(rng, GROWTH_OF_TOOL_STEP) * BYTES_PER_TOKEN
    target = max(40, int(grown * 0.92) - sum(map(_weight, parts)) - _ENVELOPE)
    many = 1 if rng.random() < 0.86 else rng.randrange(2, 5)
    for number in range(many):
        _one_call(session, index, number, target // many, parts, results)
    if index % 47 == 23 or rng.random() < _ABORTS - 1 / 47:
        stopped = results[-1]
        results[-1] = Returned(stopped.id, stopped.name, _UNANSWERED[session.codec], error=True)
    return parts, results, False


def _call_id(session: _Session) -> str:
    prefix = "call_" if session.codec in ("openai-chat", "openai-responses") else "toolu_"
    return f"{prefix}{session.calls:06x}{session.rng.getrandbits(72):018x}"


def _one_call(
    session: _Session, index: int, number: int, size: int, parts: list[Said | Thought | Called], results: list[Returned]
) -> None:
    rng = session.rng
    session.calls += 1
    identity = _call_id(session)
    if number == 0 and (index % 61 == 9 or rng.random() < 0.004):
        url = f"http://localhost:{rng.randrange(3000, 9000)}/{rng.choice(session.have['i'])}"
        parts.append(Called(identity, "screenshot", {"url": url}))
        note = f"screenshot of {url} ({rng.randrange(20, 900)} ms)"
        results.append(Returned(identity, "screenshot", note, picture=texts.picture(rng)))
        return
    name, given_input, output, failed = call(rng, session.have, size, special=number == 0 and index % 83 == 4)
    parts.append(Called(identity, name, given_input))
    results.append(Returned(identity, name, output, failed))


def _drop(session: _Session) -> str:
    """Choose spent parts once enough has gathered: old results, mostly all of them, and some old texts."""
    if not session.reduce or len(session.held) <= _KEEP_NEWEST:
        return ""
    old = session.held[:-_KEEP_NEWEST]
    rng = session.rng
    if sum(size for _, size in old) < _ASK_FROM or rng.random() < 0.5:
        return ""
    chosen = [tag for tag, size in old if size > 300 or rng.random() < 0.7]
    border = old[-1][0]
    chosen += [tag for tag in session.spare if tag < border]
    session.held = session.held[-_KEEP_NEWEST:]
    session.spare = [tag for tag in session.spare if tag >= border]
    return ranges(sorted(chosen)[:900])


def _queued(drop: str) -> str:
    shown = [f"§{part.replace('-', '§-§')}§" for part in drop.split(",")[:20]]
    return "Queued: drop " + ", ".join(shown) + ("." if drop.count(",") < 20 else ", and others.")
