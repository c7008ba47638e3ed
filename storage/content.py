"""Chunks to stored bodies and back (``design.md`` 3, Content; convention 3).

A chunk is named by the SHA-256 of its plain bytes, however it is stored. Stored forms, by header byte (``packing``):
plain or zlib; *splice*, where attachments are chunks of their own and the rest is a body; *delta*, where only the
middle that differs from a base chunk is a body; *base64*, where the decoded bytes stand for their base64 text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from ..domain.errors import InputError, TooLarge
from .packing import (
    BASE64,
    DELTA,
    PLAIN,
    SMALL,
    SPLICE,
    ZLIB,
    ZLIB_DICT,
    Packer,
    Unreadable,
    pack,
    unknown_kind,
    unpack,
)
from .protocol import ATTACHMENT_LIMIT, MESSAGE_LIMIT, Chunk

DEPTH_LIMIT = 8
"""How many deltas may stand on each other: the cost of reading the newest revision stays bounded."""

PLAIN_LIMIT = MESSAGE_LIMIT + 4 * ATTACHMENT_LIMIT
_ENCODER = msgspec.msgpack.Encoder()

Span = tuple[int, int]


class Spliced(msgspec.Struct, frozen=True, array_like=True):
    """``cuts``: (offset in the rest, digest of the attachment that stood there), in order; ``rest``: a stored body."""

    cuts: tuple[tuple[int, bytes], ...]
    rest: bytes


class Delta(msgspec.Struct, frozen=True, array_like=True):
    """The first ``front`` and last ``back`` bytes are those of ``base``; ``middle`` is a stored body."""

    base: bytes
    depth: int
    front: int
    back: int
    middle: bytes


_SPLICED = msgspec.msgpack.Decoder(Spliced)
_DELTA = msgspec.msgpack.Decoder(Delta)


class Base(NamedTuple):
    """A chunk another one may be a delta against: its plain bytes and how many deltas it stands on itself."""

    plain: bytes
    depth: int


def check_chunk(chunk: Chunk, where: str) -> list[Span]:
    """Return the attachment spans worth cutting out.

    Raises ``InputError`` for a wrong digest or wrong spans, ``TooLarge`` for an attachment over ``ATTACHMENT_LIMIT`` or
    a message that without its attachments is over ``MESSAGE_LIMIT``.
    """
    data = chunk.data
    if not isinstance(data, bytes) or sha256(data).digest() != chunk.digest:
        raise InputError(
            "the digest of a chunk must be the SHA-256 of its bytes; nothing was stored",
            value=chunk.digest,
            where=where,
        )
    spans: list[Span] = []
    end = cut = 0
    for number, (start, stop) in enumerate(chunk.attachments):
        if not end <= start <= stop <= len(data):
            raise InputError(
                f"attachment spans must be in order, apart and inside the {len(data)} bytes of the chunk",
                value=(start, stop),
                where=f"{where}.attachments[{number}]",
            )
        if stop - start > ATTACHMENT_LIMIT:
            raise TooLarge(
                f"the attachment is {stop - start} bytes, {ATTACHMENT_LIMIT} are allowed; nothing was stored",
                value=stop - start,
                where=f"{where}.attachments[{number}]",
            )
        cut += stop - start
        end = stop
        if stop - start >= SMALL:
            spans.append((start, stop))
    if len(data) - cut > MESSAGE_LIMIT:
        raise TooLarge(
            f"the message is {len(data) - cut} bytes without its attachments, {MESSAGE_LIMIT} are allowed; "
            "nothing was stored",
            value=len(data) - cut,
            where=where,
        )
    return spans


def encode_chunk(packer: Packer, chunk: Chunk, spans: Sequence[Span], base: Base | None) -> list[tuple[bytes, bytes]]:
    """Return (digest, stored body) of ``chunk`` and of the attachments cut out of it; the chunk itself is the first."""
    data, parts = chunk.data, list[tuple[bytes, bytes]]()
    if base is not None and base.depth < DEPTH_LIMIT:
        front, back = common_ends(base.plain, data)
        front, back = _clear_of(spans, front, back, len(data))
        if front + back >= SMALL and (front + back) * 2 >= len(data):
            stop = len(data) - back
            inner = [(a - front, b - front) for a, b in spans if a >= front and b <= stop]
            middle = _body(packer, data[front:stop], inner, parts)
            delta = Delta(chunk.base, base.depth + 1, front, back, middle)
            return [(chunk.digest, bytes((DELTA,)) + _ENCODER.encode(delta)), *parts]
    return [(chunk.digest, _body(packer, data, spans, parts)), *parts]


def _body(packer: Packer, data: bytes, spans: Sequence[Span], parts: list[tuple[bytes, bytes]]) -> bytes:
    if not spans:
        return pack(packer, data)
    cuts, rest, end, at = list[tuple[int, bytes]](), list[bytes](), 0, 0
    for start, stop in spans:
        piece = data[start:stop]
        digest = sha256(piece).digest()
        parts.append((digest, _attachment(packer, piece)))
        rest.append(data[end:start])
        at += start - end
        cuts.append((at, digest))
        end = stop
    rest.append(data[end:])
    return bytes((SPLICE,)) + _ENCODER.encode(Spliced(tuple(cuts), pack(packer, b"".join(rest))))


def _attachment(packer: Packer, piece: bytes) -> bytes:
    try:
        raw = base64.b64decode(piece, validate=True)
    except (binascii.Error, ValueError):
        return pack(packer, piece)
    if base64.b64encode(raw) != piece:
        return pack(packer, piece)
    return bytes((BASE64,)) + raw


def _clear_of(spans: Sequence[Span], front: int, back: int, size: int) -> tuple[int, int]:
    # An attachment that straddles the edge of the middle would be stored again as text: give the middle all of it.
    stop = size - back
    for start, end in spans:
        if start < front < end:
            front = start
        if start < stop < end:
            stop = end
    return front, size - stop


def common_ends(old: bytes, new: bytes) -> tuple[int, int]:
    """Return how many bytes ``old`` and ``new`` share at their beginning and, behind those, at their end."""
    room = min(len(old), len(new))
    front = _shared(old, new, room)
    room -= front
    back = _shared(old[len(old) - room :][::-1], new[len(new) - room :][::-1], room) if room else 0
    return front, back


def _shared(a: bytes, b: bytes, room: int) -> int:
    # Halving compares whole slices in C; a loop over bytes would take a second for a large tool result.
    low, high = 0, room
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def depth(stored: bytes) -> int:
    """Return how many deltas a stored body stands on. Raises ``Unreadable``."""
    return _parsed_delta(stored).depth if stored[:1] == bytes((DELTA,)) else 0


def needs(stored: bytes) -> tuple[bytes, ...]:
    """Return the digests of the chunks that must be at hand to read ``stored``. Raises ``Unreadable``."""
    kind = stored[0] if stored else -1
    if kind == SPLICE:
        return tuple(digest for _, digest in _parsed_splice(stored).cuts)
    if kind == DELTA:
        delta = _parsed_delta(stored)
        return (delta.base, *needs(delta.middle))
    return ()


def decode_body(packer: Packer, stored: bytes, parts: Mapping[bytes, bytes]) -> bytes:
    """Return the plain bytes of ``stored``; ``parts`` holds the plain bytes it needs. Raises ``Unreadable``."""
    kind = stored[0] if stored else -1
    if kind in (PLAIN, ZLIB_DICT, ZLIB):
        return unpack(packer, stored, PLAIN_LIMIT)
    if kind == BASE64:
        return base64.b64encode(memoryview(stored)[1:])
    if kind == SPLICE:
        spliced = _parsed_splice(stored)
        rest = unpack(packer, spliced.rest, PLAIN_LIMIT)
        pieces, end = list[bytes](), 0
        for at, digest in spliced.cuts:
            pieces += (rest[end:at], parts[digest])
            end = at
        return b"".join((*pieces, rest[end:]))
    if kind == DELTA:
        delta = _parsed_delta(stored)
        base = parts[delta.base]
        if delta.front < 0 or delta.back < 0 or delta.front + delta.back > len(base):
            raise Unreadable("it refers to bytes its base does not have")
        middle = decode_body(packer, delta.middle, parts)
        return base[: delta.front] + middle + base[len(base) - delta.back :]
    raise Unreadable(unknown_kind(kind))


def _parsed_splice(stored: bytes) -> Spliced:
    try:
        return _SPLICED.decode(memoryview(stored)[1:])
    except msgspec.MsgspecError as error:
        raise Unreadable("its list of attachments cannot be read") from error


def _parsed_delta(stored: bytes) -> Delta:
    try:
        delta = _DELTA.decode(memoryview(stored)[1:])
    except msgspec.MsgspecError as error:
        raise Unreadable("its difference to another chunk cannot be read") from error
    if delta.middle[:1] == bytes((DELTA,)):
        raise Unreadable("its difference to another chunk is nested")
    return delta
