"""The closed algebra of what foldlog may do to a host's message (``specs/view.md``).

An edit names its target by identity (message ordinal ``m``, part index ``p``), never by position in an array. A part
has slots, each with at most one value; a later edit overwrites the slot. Texts are chunks, named by digest.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

BodyKind: TypeAlias = Literal["raw", "text", "placeholder", "skeleton", "marker", "empty", "absent"]
TextKind: TypeAlias = Literal["time", "hint", "note", "nudge"]
ShapeKind: TypeAlias = Literal["keep", "shell", "absent"]
ThinkKind: TypeAlias = Literal["keep", "cleared", "absent"]

TEXT_ORDER: tuple[TextKind, ...] = ("time", "hint", "note", "nudge")
"""Several texts of one slot are written in this order, whatever order they came in."""


class SetTag(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="n"):
    """Give the part number ``tag``: > 0 shown, < 0 known but not shown, 0 none."""

    m: int
    p: int
    tag: int


class SetBody(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="b"):
    """Replace the part's content. ``text``: the chunk of kinds ``text`` and ``marker``, else empty."""

    m: int
    p: int
    kind: BodyKind
    text: bytes = b""


class SetText(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="x"):
    """Put a text before (``pre``) or behind (``post``) the part's body; at most one a kind. An empty ``text``: none."""

    m: int
    p: int
    slot: Literal["pre", "post"]
    kind: TextKind
    text: bytes


class SetMedia(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="i"):
    """Remove (``strip``) or show (``keep``) the media of a tool result or file part."""

    m: int
    p: int
    media: Literal["keep", "strip"]


class SetThink(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="h"):
    """What becomes of a reasoning part."""

    m: int
    p: int
    think: ThinkKind


class SetShape(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="s"):
    """Keep a message, leave it out, or put a shell with one text (a chunk) in its place."""

    m: int
    shape: ShapeKind
    text: bytes = b""


class SetTrail(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="t"):
    """Freeze the trailing blank texts of an assistant message: how many of them stay (-1: as they came)."""

    m: int
    keep: int


Edit: TypeAlias = SetTag | SetBody | SetText | SetMedia | SetThink | SetShape | SetTrail


class Insert(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A neutral unit of ours behind part ``p`` of message ``m``: one text message, or a complete tool arc.

    ``id`` names the unit: a later insert of the same id takes its place, with kind ``none`` it takes it away (on a
    rebuild only). Codecs place it behind the message. ``kind`` ``text``: the chunk is the text, ``role`` the speaker.
    ``kind`` ``arc``: the chunk is canonical JSON ``{"id", "name", "input", "output"}``; codecs write both halves or
    neither. ``tokens``: about what it adds to the request.
    """

    m: int
    p: int
    id: str
    kind: Literal["text", "arc", "none"]
    text: bytes = b""
    role: Literal["user", "assistant"] = "user"
    tokens: int = 0


class Arrival(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Parts of one message that no earlier request contained: all from index ``first`` on.

    ``tags[i]`` is the number of part ``first + i`` (0: none; negative: known, not shown). ``edits`` may set
    slots of just these parts, and the message's shape where ``first`` is 0.
    """

    m: int
    first: int
    tags: tuple[int, ...]
    edits: tuple[Edit, ...] = ()


class PartSlots(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the view holds of one part. ``tag`` > 0: number shown; < 0: number known, not shown; 0: none."""

    tag: int = 0
    body: BodyKind = "raw"
    text: bytes = b""
    pre: tuple[tuple[TextKind, bytes], ...] = ()
    post: tuple[tuple[TextKind, bytes], ...] = ()
    media: Literal["keep", "strip"] = "keep"
    think: ThinkKind = "keep"


class MessageSlots(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the view holds of one message: its shape, its frozen trailing blanks, and the slots of its parts."""

    parts: tuple[PartSlots, ...] = ()
    shape: ShapeKind = "keep"
    text: bytes = b""
    trail: int = -1
