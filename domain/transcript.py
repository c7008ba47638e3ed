"""The neutral model of what a host said: messages, their parts, and the tree they form (``design.md`` 4).

The raw JSON of the host is kept whole elsewhere (chunks); what stands here is what decisions need: kinds, sizes in
bytes, token counts, call ids. Structs are frozen and array-like: they are stored inside events. They hold no cycles, so
the garbage collector need not walk the hundreds of thousands of them that a long session has (``gc=False``).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Role: TypeAlias = Literal["user", "assistant", "tool", "system", "other"]


class Text(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="t"):
    """A text part. ``blank``: empty or white space only.

    ``inline``: of the tokens of a model's answer, those of reasoning written into it (``domain/inline.py``).
    """

    tokens: int
    size: int
    blank: bool = False
    inline: int = 0


class Call(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="c"):
    """A tool call. ``strings``: UTF-8 bytes of all string values in the arguments (``transform.md`` 3.4)."""

    tokens: int
    size: int
    id: str
    name: str
    strings: int


class Result(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="r"):
    """A tool result. ``tokens`` counts its text and media, ``media`` the attachments inside it."""

    tokens: int
    size: int
    id: str
    media: int = 0
    error: bool = False


class Thinking(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="h"):
    """Reasoning. ``signed``: carries a signature; ``opaque``: redacted or encrypted, no readable text.

    ``paired``: an item of its provider's, which a call of the same answer asks for (``hosts.md`` 6.3).
    """

    tokens: int
    size: int
    signed: bool = False
    opaque: bool = False
    paired: bool = False


class Media(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="m"):
    """An image, document or other file standing as a part of its own."""

    tokens: int
    size: int


class Other(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="o"):
    """Anything else the host sent: kept, never tagged, never edited."""

    tokens: int
    size: int


Part: TypeAlias = Text | Call | Result | Thinking | Media | Other


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One observed message.

    ``body`` is the SHA-256 of its raw bytes (a chunk), ``ident`` the first 16 bytes of the SHA-256 of its identity
    form, ``host_id`` the host's own id or ``""``, ``size`` the raw bytes, ``stamp`` the host's time in ms or 0.
    """

    role: Role
    body: bytes
    ident: bytes
    size: int
    parts: tuple[Part, ...]
    host_id: str = ""
    stamp: int = 0


def speaks(message: Message) -> bool:
    """Whether a person says something here: words or a file, and no results, which go on with a turn."""
    said = any(isinstance(part, Media) or (isinstance(part, Text) and not part.blank) for part in message.parts)
    return message.role == "user" and said and not any(isinstance(part, Result) for part in message.parts)


def thinks_alone(codec: str, message: Message) -> bool:
    """Whether an answer holds reasoning and blank texts alone: without these nothing of it is sent (VIEW-14)."""
    if codec != "anthropic" or message.role != "assistant":
        return False
    parts = message.parts
    blank = any(isinstance(part, Text) and part.blank for part in parts)
    return blank and all(isinstance(part, Thinking) or (isinstance(part, Text) and part.blank) for part in parts)
