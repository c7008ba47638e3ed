"""Header bytes and compression of stored bodies (``design.md`` 3, Content; convention 30).

Every stored body begins with one header byte that says how the rest is to be read. Bytes from 0x80 on are reserved for
encryption: no version has written one so far, so finding one in a store of this schema is damage.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

PLAIN = 0
ZLIB_DICT = 1
ZLIB = 2
SPLICE = 3
DELTA = 4
BASE64 = 5
ENCRYPTED_FROM = 0x80

LEVEL = 4
"""Compressing is what a pass does longest after counting tokens: 6 takes nearly twice as long for 3 % of the size."""
SMALL = 64
"""Bodies shorter than this (bytes) are stored plain: compression cannot pay."""

FAR = 256 * 1024
"""Bodies longer than this do without the dictionary, which only helps the first 32 KiB."""

_RAW = -15


class Unreadable(Exception):
    """A stored body that cannot be turned back into plain bytes. Internal: callers make it a ``StoreDamaged``."""


class Packer(NamedTuple):
    """Compression with the dictionary. ``primed`` is a compressor that has read it, to be copied, never used."""

    dictionary: bytes
    primed: Any


def make_packer(dictionary: bytes) -> Packer:
    """Return a packer for ``dictionary``. Priming once and copying saves hashing 32 KiB per body."""
    return Packer(dictionary, zlib.compressobj(LEVEL, zlib.DEFLATED, _RAW, 8, zlib.Z_DEFAULT_STRATEGY, dictionary))


def pack(packer: Packer, data: bytes) -> bytes:
    """Return ``data`` as header byte and body, compressed where that makes it smaller."""
    if len(data) < SMALL:
        return b"\x00" + data
    if len(data) > FAR:
        work, header = zlib.compressobj(LEVEL, zlib.DEFLATED, _RAW), b"\x02"
    else:
        work, header = packer.primed.copy(), b"\x01"
    body = work.compress(data) + work.flush()
    return header + body if len(body) < len(data) else b"\x00" + data


def plain(data: bytes) -> bytes:
    """Return ``data`` as header byte and body, not compressed."""
    return b"\x00" + data


def unpack(packer: Packer, stored: bytes, limit: int) -> bytes:
    """Return the plain bytes of a body of kind plain or zlib. Raises ``Unreadable``, also over ``limit`` bytes."""
    kind = stored[0] if stored else -1
    if kind == PLAIN:
        return stored[1:]
    if kind not in (ZLIB_DICT, ZLIB):
        raise Unreadable(unknown_kind(kind))
    work = zlib.decompressobj(_RAW, zdict=packer.dictionary) if kind == ZLIB_DICT else zlib.decompressobj(_RAW)
    try:
        data = work.decompress(memoryview(stored)[1:], limit + 1)
    except zlib.error as error:
        raise Unreadable("its compressed bytes do not unpack") from error
    if len(data) > limit:
        raise Unreadable(f"it unpacks to more than {limit} bytes")
    if not work.eof or work.unused_data:
        raise Unreadable("its compressed bytes end in the wrong place")
    return data


def unknown_kind(kind: int) -> str:
    """Say what is wrong with header byte ``kind`` (-1: there is none)."""
    if kind < 0:
        return "it is empty"
    if kind >= ENCRYPTED_FROM:
        return f"its header byte {kind:#04x} is reserved for encryption, which a store of this schema does not hold"
    return f"its header byte {kind:#04x} is unknown"
