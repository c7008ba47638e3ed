"""An answer read as it goes by: server-sent events or one JSON text, split anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

_LIMIT = 64 * 1024 * 1024
"""A line or JSON text longer than this is given up: nothing of it is known then."""


class Answer:
    """Splits an answer into JSON values. ``whole`` takes the one JSON text, ``event`` the data of each event.

    ``skip``: beginnings of event data not worth decoding.
    """

    def __init__(
        self, whole: Callable[[Any, bytes], None], event: Callable[[Any, bytes], None], skip: tuple[bytes, ...] = ()
    ) -> None:
        self._whole = whole
        self._event = event
        self._skip = skip
        self._rest = bytearray()
        self._stream: bool | None = None
        self._lost = False

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        if self._lost:
            return
        self._rest += chunk
        if self._stream is None:
            begin = self._rest.lstrip()
            if not begin:
                return
            self._stream = begin[0] not in b"{["
        if self._stream and (b"\n" in chunk or b"\r" in chunk):
            *lines, rest = self._rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            self._rest = rest
            for line in lines:
                self._line(bytes(line))
        if len(self._rest) > _LIMIT:
            self._rest, self._lost = bytearray(), True

    def end(self) -> None:
        """Read what is there of a JSON text, or of a last line without its end."""
        if self._stream is None or not self._rest:
            return
        if self._stream:
            self._line(bytes(self._rest))
            return
        raw = bytes(self._rest)
        value = decoded(raw)
        if value is not None:
            self._whole(value, raw.strip())

    def _line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        data = line[5:].strip()
        if data.startswith(self._skip) if self._skip else False:
            return
        value = "" if data == b"[DONE]" else decoded(data)
        if value is not None:
            self._event(value, data)


def decoded(raw: bytes) -> Any:
    """Return a JSON text decoded, None where it is none."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def count(value: Any) -> int | None:
    """Return a token count, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def text(value: Any) -> str:
    """Return a text, empty for anything else."""
    return value if isinstance(value, str) else ""


def table(value: Any) -> dict[str, Any]:
    """Return an object, empty for anything else."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """Return a list, empty for anything else."""
    return value if isinstance(value, list) else []
