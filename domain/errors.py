"""Every failure foldlog lets out, as classes a program can catch and a person can read.

Each error says what happened, what it means and what to do, and carries the value that was wrong and where it stood.
Nothing else leaves the public API (``design.md`` 9, last property).
"""

from __future__ import annotations

from typing import Any

_SHOWN = 120


def shown(value: Any) -> str:
    """Return a short, single-line, printable form of ``value`` for an error message."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a host object with a broken __repr__ must not hide the real error
        text = f"<{type(value).__name__}>"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + f"… ({len(text)} characters)"


def counted(number: int, one: str, more: str = "") -> str:
    """Return a number with its noun; ``more`` is the noun of several where it is not ``one`` and an s."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def place(error: BaseException) -> str:
    """Return where a defect stands, without a word of what was worked on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"


def how(error: BaseException) -> str:
    """Return kind and place of a defect, for logs."""
    return f"{type(error).__name__} at {place(error)}"


class FoldlogError(Exception):
    """The base of all errors of foldlog.

    ``code`` is stable and machine-readable, ``value`` the offending value (or None), ``where`` its position in the
    input (``messages[3].content[1]``, ``session/api/x @ 17``) and ``recoverable`` whether the same call may succeed
    later.
    """

    code = "FOLDLOG"
    recoverable = False

    def __init__(self, message: str, *, value: Any = None, where: str = "", code: str | None = None) -> None:
        self.message = message
        self.value = value
        self.where = where
        if code is not None:
            self.code = code
        super().__init__(message)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        given = f" (got {shown(self.value)})" if self.value is not None else ""
        return f"{place}{self.message}{given}"


class InputError(FoldlogError):
    """The caller handed over something that cannot be used; nothing was changed."""

    code = "INVALID_INPUT"


class MessageError(InputError):
    """A message of the host cannot be read, or cannot stand where it stands."""

    code = "INVALID_MESSAGE"


class OptionError(InputError):
    """A setting, argument or URL has a wrong value."""

    code = "INVALID_OPTION"


class RangeError(InputError):
    """A tag list such as ``3-5,8`` does not follow its grammar."""

    code = "INVALID_RANGE"


class UnknownTag(InputError):
    """A tag, ordinal or pass number that this session never gave out."""

    code = "UNKNOWN_TAG"


class UnknownSession(InputError):
    """No session of that name is in the store, or the bare id fits several."""

    code = "UNKNOWN_SESSION"


class TooLarge(InputError):
    """A message (32 MiB), an event (1 MiB) or an attachment (64 MiB) is over its limit."""

    code = "TOO_LARGE"


class StoreError(FoldlogError):
    """The store could not do what was asked."""

    code = "STORE"


class StoreUnavailable(StoreError):
    """The store cannot be opened: wrong URL, no permission, not a foldlog store, no server."""

    code = "STORE_UNAVAILABLE"


class StoreBusy(StoreError):
    """Another process held the store's write lock longer than a pass may wait (250 ms)."""

    code = "STORAGE_BUSY"
    recoverable = True


class StoreNewer(StoreError):
    """The store was written by a newer foldlog; this program refuses it rather than guess."""

    code = "STORE_NEWER"


class StoreDamaged(StoreError):
    """A stored event, chunk or head is not what its digest says; replay of that stream stops there."""

    code = "STORE_DAMAGED"

    def __init__(self, message: str, *, stream: str = "", version: int = 0, value: Any = None) -> None:
        self.stream = stream
        self.version = version
        super().__init__(message, value=value, where=f"{stream} @ {version}" if stream else "")


class Conflict(StoreError):
    """Another writer appended to the stream first. The engine handles it; it is let out only after five losses."""

    code = "CONFLICT"
    recoverable = True

    def __init__(self, stream: str, expected: int, found: int) -> None:
        self.stream = stream
        self.expected = expected
        self.found = found
        super().__init__(
            f"another process appended to this session first (it is at version {found}, expected {expected}); "
            "send the message again",
            where=stream,
        )


class Refused(FoldlogError):
    """The request must not be sent as it is. ``code`` names the rule (``transform.md`` 7.3, 7.4)."""

    code = "REFUSED"
    recoverable = True


class LawBroken(FoldlogError):
    """An event would change what its level may not change. A defect of foldlog: nothing was sent, nothing stored."""

    code = "LAW_BROKEN"


class PassFailed(FoldlogError):
    """A part of a pass that decides what is sent broke (``part``). A defect: nothing was sent, nothing stored."""

    code = "PASS_FAILED"

    def __init__(self, part: str, error: Exception) -> None:
        self.part = part
        super().__init__(
            f"foldlog has a defect: {part} broke ({how(error)}), and without it what to "
            "send cannot be known. Nothing was sent and the session is as it was. Please report it with its log."
        )
