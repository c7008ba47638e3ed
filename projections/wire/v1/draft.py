"""The edits of one message while they are collected, and the small acts every renderer needs (``specs/view.md``)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ....domain.edits import TEXT_ORDER, PartSlots
from ....domain.errors import MessageError
from . import forms, spans
from .unit import Layout

Chunk = Callable[[bytes], bytes]

PLAIN = PartSlots()
"""The slots of a part the view holds nothing of."""


class Draft(msgspec.Struct):
    """The edits of one message while they are collected; ``top`` is the offset of the message's own bracket.

    ``gone``: the parts (opencode: the host's parts) that leave.
    """

    codec: str
    raw: bytes
    seen: Layout
    chunk: Chunk
    tree: spans.Tree
    top: int
    edits: list[spans.Splice] = []
    gone: set[int] = set()


def idle(slot: PartSlots) -> bool:
    """Return whether a slot leaves its part as the host sent it."""
    return slot is PLAIN or (
        slot.tag <= 0
        and slot.body == "raw"
        and slot.media == "keep"
        and slot.think == "keep"
        and not slot.pre
        and not slot.post
    )


# ------------------------------------------------------------------ what is written


def chunk_text(draft: Draft, digest: bytes) -> str:
    """Return the text of a chunk. Raises ``MessageError`` where it is not UTF-8."""
    try:
        return draft.chunk(digest).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise MessageError("a stored text is not UTF-8", value=digest.hex(), where=f"byte {error.start}") from None


def texts_of(draft: Draft, given: tuple[tuple[str, bytes], ...]) -> str:
    """Return the texts of a slot, one behind the other, in the order of their kinds."""
    if not given:
        return ""
    by_kind = dict(given)
    return "".join(chunk_text(draft, by_kind[kind]) for kind in TEXT_ORDER if kind in by_kind)


def wrap(draft: Draft, slot: PartSlots, empty: bool) -> tuple[str, str]:
    """Return what stands before and behind a body; an empty body gets no blank behind its tag."""
    pre, post = texts_of(draft, slot.pre), texts_of(draft, slot.post)
    if slot.tag <= 0:
        return pre, post
    return (f"§{slot.tag}§" if empty and not pre and not post else f"§{slot.tag}§ {pre}"), post


def dropped(tag: int) -> str:
    """Return the placeholder of a dropped part."""
    return f"[dropped §{abs(tag)}§]" if tag else "[dropped]"


def inner(text: str) -> bytes:
    """Return ``text`` as it stands between the quotes of a JSON string."""
    return forms.quote(text)[1:-1]


def text_block(text: str) -> bytes:
    """Return a text block of ours."""
    return b'{"type":"text","text":' + forms.quote(text) + b"}"


# --------------------------------------------------------------------- where it stands


def need(draft: Draft, pos: int, key: str) -> spans.Span:
    """Return the span of a member that has to be there. Raises ``MessageError``."""
    found = draft.tree.value(pos, key)
    if found is None:
        raise MessageError(f"the message has no {key}")
    return found


def put(draft: Draft, holder: int, key: str, value: bytes) -> None:
    """Write ``value`` as member ``key`` of the object at ``holder`` (never empty: it has a type or role)."""
    at = draft.tree.value(holder, key)
    if at is not None:
        draft.edits.append((*at, value))
    else:
        end = draft.tree.objects[holder][-1][3]
        draft.edits.append((end, end, b"," + forms.quote(key) + b":" + value))


def offset(raw: bytes, begin: int, count: int) -> int:
    """Return the offset behind the first ``count`` characters of the JSON string whose quote is at ``begin``."""
    at = begin + 1
    for _ in range(count):
        if raw[at] == 92:
            at += 6 if raw[at + 1] == 117 else 2
        else:
            at += 1
            while raw[at] & 0xC0 == 0x80:
                at += 1
    return at


def affix(draft: Draft, at: spans.Span, stripped: int, before: str, after: str) -> None:
    """Write ``before`` and ``after`` inside the string at ``at``, whose first ``stripped`` characters go."""
    begin, end = at
    if before or stripped:
        draft.edits.append((begin + 1, offset(draft.raw, begin, stripped), inner(before)))
    if after:
        draft.edits.append((end - 1, end - 1, inner(after)))
