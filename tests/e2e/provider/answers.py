"""What a wire gives for one answer: parts in the order of a stream, and the same as one JSON body."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .cache import Billed
from .script import Tool


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer before it has a wire form. ``calls``: (id, tool, arguments). ``output``: tokens of it."""

    number: int
    model: str
    say: str
    think: str
    signature: str
    calls: tuple[tuple[str, Tool, dict[str, Any]], ...]
    billed: Billed

    @property
    def output(self) -> int:
        """Return the answer's tokens."""
        said = len(self.say) + len(self.think) + sum(len(json.dumps(call[2])) + 40 for call in self.calls)
        return said // 4 + 8


def sse(event: str, data: dict[str, Any]) -> bytes:
    """Return one server-sent event."""
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def halves(text: str) -> tuple[str, str]:
    """Split ``text`` so that a stream has more than one delta."""
    middle = len(text) // 2
    return text[:middle], text[middle:]
