"""Reading bytes of a log: lines, times, numbers. Raw JSON is kept, so that what is replayed is what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ...domain.errors import InputError
from .model import Skipped, Usage

_BROKEN = (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError)


class Line(msgspec.Struct, frozen=True):
    """One decoded line of a JSONL file (``number`` is 1-based), with its bytes."""

    number: int
    raw: bytes
    value: Any


def read(path: str | Path) -> bytes:
    """Return the file's bytes without a byte order mark. Raises ``InputError`` if it cannot be read."""
    try:
        return Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        message = f"the trace cannot be read ({why}); give the path of a session file"
        raise InputError(message, value=str(path)) from error


def decode(raw: bytes) -> Any:
    """Return the value of a JSON text, or raise ``ValueError`` with a short reason."""
    try:
        return msgspec.json.decode(raw)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise ValueError(f"not JSON: {error}") from None


def split(raw: bytes) -> dict[str, bytes]:
    """Return the members of a JSON object as raw texts (the last of equal keys), or {} if it is none."""
    try:
        return {key: bytes(value) for key, value in msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).items()}
    except _BROKEN:
        return {}


def items(raw: bytes) -> list[bytes]:
    """Return the items of a JSON array as raw texts, or [] if it is none."""
    try:
        return [bytes(value) for value in msgspec.json.decode(raw, type=list[msgspec.Raw])]
    except _BROKEN:
        return []


def lines(body: bytes, skipped: list[Skipped]) -> Iterator[Line]:
    """Yield the lines that are JSON objects; name the others in ``skipped`` (blank lines are no lines)."""
    for number, raw in enumerate(map(bytes.strip, body.split(b"\n")), 1):
        if not raw:
            continue
        try:
            value = decode(raw)
        except ValueError as error:
            skipped.append(Skipped(number, str(error)))
            continue
        if isinstance(value, dict):
            yield Line(number, raw, value)
        else:
            skipped.append(Skipped(number, f"a JSON {type(value).__name__}, not an object"))


def millis(value: Any) -> int:
    """Return a recorded time (ISO text, seconds or milliseconds) as ms UTC; 0 if there is none to be had."""
    try:
        if isinstance(value, str):
            when = datetime.fromisoformat(value)
            return max(0, round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e15:
            return round(value * 1000) if value < 1e11 else round(value)
    except (ValueError, OverflowError):
        pass
    return 0


def count(value: Any) -> int:
    """Return a reported token count, -1 if it is missing or no count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else -1


def usage(value: Any) -> Usage | None:
    """Read the usage of an answer in any of the shapes known: Anthropic, Pi, OpenAI and DeepSeek."""
    if not isinstance(value, dict):
        return None
    if "prompt_tokens" in value:
        prompt = count(value["prompt_tokens"])
        detail = value.get("prompt_tokens_details")
        hit = count(value.get("prompt_cache_hit_tokens"))
        if hit < 0 and isinstance(detail, dict):
            hit = count(detail.get("cached_tokens"))
        fresh = count(value.get("prompt_cache_miss_tokens"))
        if fresh < 0 and prompt >= 0:
            fresh = max(0, prompt - max(0, hit))
        return Usage(fresh, hit, -1, count(value.get("completion_tokens")))
    if "input_tokens" in value:
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    elif "input" in value:
        names = ("input", "cacheRead", "cacheWrite", "output")
    else:
        return None
    return Usage(*(count(value.get(name)) for name in names))


def text_of(value: Any) -> str:
    """Return ``value`` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def blocks_of(value: Any) -> list[dict[str, Any]]:
    """Return the content blocks of a message that are objects; a plain string has none."""
    return [block for block in value if isinstance(block, dict)] if isinstance(value, list) else []
