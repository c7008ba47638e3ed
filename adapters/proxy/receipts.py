"""What the Responses wire says before an answer: it is held back, as a refusal may come behind it (PROXY-56)."""

from __future__ import annotations

import re

import msgspec

KINDS = frozenset({"response.created", "response.in_progress", "response.queued"})
_LINE_END = re.compile(rb"[\r\n]")


class _Event(msgspec.Struct):
    type: str = ""


class Receipts:
    """Tells when a stream has become more than receipts, in whatever pieces its bytes come.

    Only whole events tell: of an error the beginning says nothing yet, and a receipt names types in what it repeats of
    the request.
    """

    def __init__(self) -> None:
        self._rest = b""

    def over(self, plain: bytes) -> bool:
        """Take the next bytes; return whether an event that is no receipt is among them."""
        *lines, self._rest = _LINE_END.split(self._rest + plain)
        return any(line.startswith(b"data:") and _kind(line[5:]) not in KINDS for line in lines)


def _kind(data: bytes) -> str:
    try:
        return msgspec.json.decode(data, type=_Event).type
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
