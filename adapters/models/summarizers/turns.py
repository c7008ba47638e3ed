"""Raw messages of a host as the neutral turns a summariser reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ....domain.errors import FoldlogError
from ....domain.transcript import Call, Message, Result, Text
from ....projections.wire import CURRENT, wire
from .port import ToolCall, ToolOutput, Turn


def turn(codec: str, position: int, message: Message, raw: bytes, version: int = CURRENT) -> Turn:
    """Return a message as a turn. ``message``: what ``wire.read`` made of ``raw``.

    Reasoning, media and unknown parts are left out. Raises ``MessageError`` where ``raw`` is not that message.
    """
    text_of = wire(version).part_text
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolOutput] = []
    for p, part in enumerate(message.parts):
        if isinstance(part, Text):
            texts.append(text_of(codec, raw, p))
        elif isinstance(part, Call):
            calls.append(ToolCall(part.name, _arguments(text_of(codec, raw, p)), part.id))
        elif isinstance(part, Result):
            results.append(ToolOutput(part.id, text_of(codec, raw, p), part.error))
    return Turn(position, message.role, tuple(texts), tuple(calls), tuple(results))


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, FoldlogError, RecursionError):
        value = text
    return value if isinstance(value, dict) else {"": value}
