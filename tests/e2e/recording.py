"""What hosts sent, kept small: each body as the part that differs from the one before, all of it compressed.

Form, before compression: a JSON array a request on a line: path, headers, bytes equal at the start, bytes equal at the
end, and what stands between as text.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_KEPT = (
    "x-claude-code-",
    "session-id",
    "session_id",
    "thread-id",
    "x-session-",
    "anthropic-",
    "originator",
    "user-agent",
)
"""What tells sessions and hosts apart, and what changes the answer; keys are in none of these."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One request of a host: path with query, the headers that matter, the body's bytes."""

    path: str
    headers: dict[str, str]
    body: bytes


def harmless(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers worth keeping; none of them carries a key."""
    return {name.lower(): value for name, value in headers if name.lower().startswith(_KEPT)}


def write(file: Path, requests: list[Sent]) -> None:
    """Write ``requests`` to ``file``."""
    lines: list[str] = []
    last = b""
    for sent in requests:
        start = _common(last, sent.body)
        end = _common(last[start:][::-1], sent.body[start:][::-1])
        while end and start < len(sent.body) and sent.body[len(sent.body) - end] & 0xC0 == 0x80:
            end -= 1  # cut between characters
        while start and start < len(sent.body) and sent.body[start] & 0xC0 == 0x80:
            start -= 1
        middle = sent.body[start : len(sent.body) - end].decode("utf-8")
        lines.append(json.dumps([sent.path, sent.headers, start, end, middle], ensure_ascii=False))
        last = sent.body
    file.write_bytes(zlib.compress("\n".join(lines).encode("utf-8"), 9))


def _common(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:  # the longest equal start, by halves: comparing bytes is fast
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def read(file: Path) -> list[Sent]:
    """Return the requests of ``file``."""
    found: list[Sent] = []
    last = b""
    for line in zlib.decompress(file.read_bytes()).decode("utf-8").split("\n"):
        path, headers, start, end, middle = json.loads(line)
        body = last[:start] + middle.encode("utf-8") + (last[len(last) - end :] if end else b"")
        found.append(Sent(path, headers, body))
        last = body
    return found
