"""What every codec takes a message apart into: units, and the layout they stand in."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from ....domain.errors import MessageError
from ....domain.transcript import Role

Kind: TypeAlias = Literal["text", "call", "result", "thinking", "media", "other"]
Place: TypeAlias = Literal["string", "item", "call", "member", "message"]


class Unit(msgspec.Struct):
    """One part: its kind, decoded value, and where it stands.

    ``at``: ``string`` (the message's content string), ``item`` (element ``index`` of its content; opencode: of its
    parts, of which a tool part is two units, call and result), ``call`` (element of ``tool_calls``), ``member``
    (message member ``key``), ``message`` (the message itself).
    """

    kind: Kind
    value: Any
    at: Place
    index: int = 0
    key: str = ""


class Layout(msgspec.Struct):
    """A message as its codec sees it.

    ``role`` is neutral, ``said`` the host's own word; ``members`` reach the model beside the units.
    """

    role: Role
    said: str
    units: list[Unit]
    members: dict[str, Any] | None = None


def check_name(value: Any, what: str, where: str) -> None:
    """Raise ``MessageError`` unless ``value`` can name something: a string, not empty, without lone surrogates."""
    if not isinstance(value, str) or not value:
        raise MessageError(f"{what} must be a non-empty string", value=value, where=where)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise MessageError(f"{what} holds a lone surrogate", value=value, where=where) from None


def unknown_role(said: Any, known: str, where: str) -> MessageError:
    """Return the error for a role the codec does not have."""
    return MessageError(f"unknown role; this codec knows {known}", value=said, where=where)
