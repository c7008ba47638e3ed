"""What goes over the link: JSON-RPC 2.0, one message a line (``specs/link.md``). No input and output here."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from ...domain.errors import FoldlogError

LINE_LIMIT = 128 * 1024 * 1024
"""Bytes of one line. A host that hands over its whole session in one go fits in it."""
PARSE, INVALID, UNKNOWN_METHOD, PARAMS, INTERNAL, FAILED = -32700, -32600, -32601, -32602, -32603, -32000
"""Codes of JSON-RPC; ``FAILED`` stands for every failure of foldlog, whose own code is in ``data``."""

_LONE = re.compile("[\ud800-\udfff]")


class Frame(msgspec.Struct):
    """One line as read. A call has a ``method``, a notification no ``id``, an answer ``result`` or ``error``."""

    jsonrpc: str = ""
    id: int | str | None = None
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Problem(Exception):
    """A line or call that cannot be served, as JSON-RPC says it."""

    def __init__(self, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


def read(line: bytes) -> Frame:
    """Return the frame of one line. Raises ``Problem`` (``PARSE``, ``INVALID``)."""
    try:
        frame = msgspec.json.decode(line, type=Frame)
    except (msgspec.MsgspecError, RecursionError):
        frame = _slowly(line)
    if frame.jsonrpc != "2.0":
        raise Problem(INVALID, 'every line must be one JSON-RPC 2.0 message: an object with "jsonrpc": "2.0"')
    return frame


def _slowly(line: bytes) -> Frame:
    """Read what the quick decoder refuses: half surrogate pairs, as JavaScript writes them (convention 4)."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise Problem(PARSE, "the line is not JSON") from None
    if not isinstance(value, dict):
        raise Problem(INVALID, "every line must be one JSON object")
    try:
        return msgspec.convert(
            {key: dumped(item) if key in {"params", "result", "error"} else item for key, item in value.items()},
            Frame,
        )
    except msgspec.ValidationError as error:
        raise Problem(INVALID, f"the line is no JSON-RPC message: {error}") from None


def dumped(value: Any) -> msgspec.Raw:
    """Return a decoded value as JSON; half surrogate pairs stay escapes, all else is written as UTF-8."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return msgspec.Raw(_LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode())


def params(raw: msgspec.Raw, kind: type[Any]) -> Any:
    """Return the parameters of a call as ``kind``. Raises ``Problem`` (``PARAMS``) naming the member that is wrong."""
    try:
        try:
            return msgspec.json.decode(raw, type=kind)
        except msgspec.ValidationError:
            raise
        except (msgspec.MsgspecError, RecursionError):
            return msgspec.convert(_with_raw_messages(json.loads(bytes(raw))), kind)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise Problem(PARAMS, f"the parameters cannot be used: {_readable(str(error))}") from None


def _with_raw_messages(value: Any) -> Any:
    """Return decoded parameters with the messages among them as JSON again: they are kept as bytes."""
    order = value.get("order") if isinstance(value, dict) else None
    for item in order if isinstance(order, list) else ():
        if isinstance(item, dict) and "message" in item:
            item["message"] = dumped(item["message"])
    return value


def answer(id_: int | str | None, result: Any) -> bytes:
    """Return the line that answers a call."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "result": result}) + b"\n"


def refusal(id_: int | str | None, problem: Problem) -> bytes:
    """Return the line that says why a call cannot be served."""
    error: dict[str, Any] = {"code": problem.code, "message": _readable(problem.message)}
    if problem.data is not None:
        error["data"] = problem.data
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "error": error}) + b"\n"


def words(raw: Any) -> str:
    """Return what the error of a peer's answer says."""
    try:
        said = msgspec.json.decode(raw)["message"]
    except (msgspec.MsgspecError, KeyError, TypeError, RecursionError):
        said = ""
    return str(said)[:500] or "the host could not do what it was asked for"


def call(method: str, values: Any, id_: int | str | None = None) -> bytes:
    """Return the line of a call to the peer, without ``id_`` of a notification."""
    frame: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": values}
    if id_ is not None:
        frame["id"] = id_
    return msgspec.json.encode(frame) + b"\n"


def failed(error: FoldlogError, **more: Any) -> Problem:
    """Return a failure of foldlog as the peer is told it. ``more``: further members of ``data``."""
    data = {"code": error.code, "recoverable": error.recoverable, **more}
    return Problem(FAILED, str(error), data)


def _readable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
