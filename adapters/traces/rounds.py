"""From the records of a log to requests a provider accepts: calls joined to results, arrays cut into steps.

Shared by all formats; the rules are TRACE-4 to TRACE-12 of ``specs/traces.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

import msgspec

from .model import Codec, Skipped, Step, Trace, Usage

Ignored: TypeAlias = "Counter[str]"


class Record(msgspec.Struct):
    """One thing said, before the rules are applied.

    ``kind``: ``answer`` of the model; ``host``, an assistant message that the host made up; ``result`` of a call;
    ``said``, anything else that goes into the array. ``raw``: the whole message (Pi, OpenAI chat). ``blocks``: its
    content blocks (Anthropic), ``text`` the content where it was a plain string. ``calls``: ids of the calls made,
    ``of`` the call a result belongs to, ``line`` the place in the file.
    """

    kind: Literal["answer", "host", "result", "said"]
    line: int = 0
    at: int = 0
    raw: bytes = b""
    blocks: tuple[bytes, ...] = ()
    text: bytes = b""
    calls: tuple[str, ...] = ()
    of: str = ""
    model: str = ""
    usage: Usage | None = None


def pair(
    records: list[Record], close: Callable[[Record, str], Record], ignored: Ignored, *, unique: bool, drop_last: bool
) -> list[Record]:
    """Put every result right behind its call, close what was never answered, leave out what has no partner.

    A result belongs to the nearest call of its id before it that is still open. ``close`` makes the host's error
    result. ``unique``: a message that uses a call id again is left out (the provider would refuse it). ``drop_last``:
    an unanswered call of the last answer empties that answer, as a host that stopped there never sent it; that it was
    asked for stays.
    """
    open_calls: dict[str, int] = {}
    given: dict[int, list[Record]] = {}
    seen: set[str] = set()
    out: list[int] = []
    for index, record in enumerate(records):
        if record.kind == "result":
            owner = open_calls.pop(record.of, None)
            if owner is None:
                ignored["result without a call"] += 1
            else:
                given[owner].append(record)
            continue
        if record.calls:
            if len(set(record.calls)) < len(record.calls) or (unique and not seen.isdisjoint(record.calls)):
                ignored["repeated call id"] += 1
                continue
            seen.update(record.calls)
            given[index] = []
            open_calls.update((call, index) for call in record.calls)
        out.append(index)
    last = max((i for i in out if records[i].kind == "answer"), default=-1)
    paired: list[Record] = []
    for index in out:
        record = records[index]
        results = given.get(index, [])
        answered = {result.of for result in results}
        missing = [call for call in record.calls if call not in answered]
        if missing and drop_last and index == last:
            ignored["last answer with an unanswered call"] += 1
            paired.append(msgspec.structs.replace(record, raw=b"", blocks=(), text=b"", calls=()))
            continue
        ignored["call closed as unanswered"] += len(missing)
        paired.append(record)
        paired += results
        paired += [close(record, call) for call in missing]
    return paired


def starting_with_input(records: list[Record], ignored: Ignored) -> list[Record]:
    """Leave out what the model said before anything was said to it: a log cut at its start. Results go with it."""
    first = next((i for i, record in enumerate(records) if record.kind == "said"), len(records))
    ignored["message before the first input"] += first
    return records[first:]


def to_trace(
    name: str,
    codec: Codec,
    records: Iterable[Record],
    *,
    system: bytes | None = None,
    tools: bytes | None = None,
    skipped: Iterable[Skipped] = (),
    ignored: Ignored | None = None,
) -> Trace:
    """Cut paired records, each with its whole message in ``raw``, into steps (TRACE-2, TRACE-12)."""
    steps: list[Step] = []
    pending: list[bytes] = []
    fresh = False
    at = 0
    models: Counter[str] = Counter()
    for record in records:
        if record.kind == "answer" and fresh:
            steps.append(Step(at=at or record.at, model=record.model, messages=tuple(pending), usage=record.usage))
            models[record.model] += 1
            pending = []
            fresh = False
        elif record.kind != "answer":
            fresh = True
            at = record.at or at
        if record.raw:
            pending.append(record.raw)
    counts = {key: count for key, count in sorted((ignored or Counter()).items()) if count}
    model = models.most_common(1)[0][0] if models else ""
    return Trace(name, codec, model, system, tools, tuple(steps), tuple(pending), tuple(skipped), counts)
