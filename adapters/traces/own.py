"""foldlog's own trace files: a header, one line a request, and the tail (JSONL)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from ...domain.errors import InputError
from .model import Codec, Skipped, Step, Trace, Usage
from .parse import Line

MARK = "foldlog-trace"
VERSION = 1


_NULL = msgspec.Raw(b"null")


class _Header(msgspec.Struct):
    type: str
    version: int
    name: str
    codec: Codec
    model: str
    system: msgspec.Raw = _NULL
    tools: msgspec.Raw = _NULL


class _Request(msgspec.Struct):
    type: str
    at: int
    model: str
    messages: list[msgspec.Raw]
    usage: Usage | None = None
    cut: int = -1


class _Tail(msgspec.Struct):
    type: str
    messages: list[msgspec.Raw]


def matches(value: dict[str, Any]) -> bool:
    """Whether a line is the header of such a file."""
    return value.get("type") == MARK


def write(trace: Trace, path: str | Path) -> None:
    """Write a trace so that ``load`` reads it back with the same bytes. Raises ``InputError`` if it cannot."""
    system, tools = (_NULL if raw is None else msgspec.Raw(raw) for raw in (trace.system, trace.tools))
    rows: list[Any] = [_Header(MARK, VERSION, trace.name, trace.codec, trace.model, system, tools)]
    for step in trace.steps:
        messages = [msgspec.Raw(raw) for raw in step.messages]
        rows.append(_Request("request", step.at, step.model, messages, step.usage, step.cut))
    rows.append(_Tail("tail", [msgspec.Raw(raw) for raw in trace.tail]))
    try:
        Path(path).write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    except (OSError, ValueError) as error:
        raise InputError(f"the trace cannot be written ({error}); choose another place", value=str(path)) from error


def load(rows: list[Line], skipped: list[Skipped]) -> Trace:
    """Read such a file. A request that is missing or broken ends it: what follows would have no beginning."""
    header: _Header | None = None
    steps: list[Step] = []
    tail: tuple[bytes, ...] = ()
    ignored: Counter[str] = Counter()
    broken = min((one.line for one in skipped), default=0)
    for row in rows:
        kind = row.value.get("type")
        if (broken and row.number > broken and header is not None) or (kind != MARK and header is None):
            ignored["line behind a broken one" if broken else "line before the header"] += 1
            continue
        try:
            if kind == MARK:
                header = msgspec.json.decode(row.raw, type=_Header)
                if header.version > VERSION:
                    raise InputError(
                        f"this trace was written by a newer foldlog (format {header.version}, known up to {VERSION})",
                        value=header.name,
                    )
            elif kind == "request":
                one = msgspec.json.decode(row.raw, type=_Request)
                steps.append(Step(one.at, one.model, tuple(map(bytes, one.messages)), one.usage, one.cut))
            elif kind == "tail":
                tail = tuple(map(bytes, msgspec.json.decode(row.raw, type=_Tail).messages))
            else:
                ignored[f"line of type {str(kind)[:40]}"] += 1
        except (msgspec.MsgspecError, RecursionError) as error:
            skipped.append(Skipped(row.number, f"not a line of this format: {error}"))
            broken = row.number
    if header is None:
        raise InputError("the header of this foldlog trace is broken; write the trace again", value=MARK)
    system, tools = (None if bytes(raw) == b"null" else bytes(raw) for raw in (header.system, header.tools))
    counts = dict(sorted(ignored.items()))
    return Trace(header.name, header.codec, header.model, system, tools, tuple(steps), tail, tuple(skipped), counts)
