"""Failures of foldlog as the client's provider would word them: a status, a code, a sentence for the person."""

from __future__ import annotations

import msgspec

from ...domain.errors import FoldlogError, InputError, MessageError, Refused, StoreBusy, StoreError, TooLarge

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body, as ``Protocol.refusal`` makes it."""

BLOCKED = "FAIL_CLOSED_BLOCKING"


def status(error: FoldlogError) -> int:
    """Return the HTTP status of a refusal.

    A client tries again by itself on 503, which is right where waiting helps; on 400 it shows the person what is said.
    """
    if isinstance(error, TooLarge):
        return 413
    if isinstance(error, InputError | Refused):
        return 400
    if isinstance(error, StoreError) and error.recoverable:
        return 503
    return 400 if error.code == BLOCKED else 500


def sentence(error: FoldlogError) -> str:
    """Return what a person is told: what happened, what it means and what to do. Values of a request stay out of it."""
    place = f" ({error.where})" if isinstance(error, MessageError) and error.where else ""
    if isinstance(error, StoreBusy):
        return "another process held the session's store too long. Nothing was sent; send the message again."
    return f"{error.message}{place}"


def plain(code: str, message: str, status_code: int) -> Answer:
    """Return a failure where no provider's shape applies."""
    body = msgspec.json.encode({"error": {"type": code, "code": code, "message": f"foldlog: {message}"}})
    return status_code, {"content-type": "application/json"}, body
