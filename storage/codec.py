"""Events to stored rows and back: our own mapper (``design.md`` 3, Chain and Evolution; convention 1).

The stored state of an event is a header byte, the chain digest of its predecessor (32 bytes; zeros for the first), and
the MessagePack body, compressed where it is long and compression pays. The topic is the event's short tag.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import msgspec

from ..domain.errors import InputError, TooLarge
from ..domain.events import Event
from .dictionary import load_dictionary
from .packing import PLAIN, Packer, Unreadable, make_packer, pack, unpack
from .protocol import EVENT_LIMIT

GENESIS = bytes(32)
SCHEMA = 1
"""The fence: the version of everything stored. A store with a greater one is refused."""

PACK_FROM = 240
"""A deferred pass keeps its rows under 600 B with it (convention 12); call ids stand twice, so packing pays early."""
BODY_AT = 33
STREAM_LIMIT = 1024
"""Bytes of a stream id; session ids stay under it by convention 2."""

_PLACE = struct.Struct(">QB")
_U32 = struct.Struct(">I")

KINDS: Mapping[bytes, type[Event]] = MappingProxyType(
    {str(kind.__struct_config__.tag).encode(): kind for kind in get_args(Event)}
)
"""Tag to event class, of all events this program knows."""


class Codec(NamedTuple):
    """What encoding and decoding needs, made once per open store."""

    encoder: msgspec.msgpack.Encoder
    decoder: msgspec.msgpack.Decoder[Any]
    packer: Packer


class Body(NamedTuple):
    """An event ready to be stored, but for its place: tag, plain bytes (chained), packed bytes and their header."""

    tag: bytes
    plain: bytes
    header: bytes
    packed: bytes


Row = tuple[int, bytes, bytes]
"""Version, topic and state as they are stored."""


def make_codec() -> Codec:
    """Return a codec with the shipped dictionary. Raises ``StoreUnavailable`` where that is missing."""
    return Codec(msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Event), make_packer(load_dictionary()))


def encode_event(codec: Codec, event: Event, where: str) -> Body:
    """Return ``event`` as bytes to be stored.

    Raises ``InputError`` for anything that could not be read back (the log would be stuck for good), ``TooLarge`` over
    ``EVENT_LIMIT``.
    """
    kind = type(event)
    tag = str(kind.__struct_config__.tag).encode() if isinstance(event, msgspec.Struct) else b""
    if KINDS.get(tag) is not kind:
        raise InputError("this is not an event foldlog knows; nothing was stored", value=event, where=where)
    try:
        plain = codec.encoder.encode(event)
        codec.decoder.decode(plain)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(
            f"the event {kind.__name__} holds a value that cannot be stored and read back: {error}; nothing was stored",
            where=where,
        ) from error
    if len(plain) > EVENT_LIMIT:
        raise TooLarge(
            f"the event {kind.__name__} is {len(plain)} bytes, {EVENT_LIMIT} are allowed; nothing was stored. "
            "Hand over fewer messages at a time",
            value=len(plain),
            where=where,
        )
    if len(plain) > PACK_FROM:
        stored = pack(codec.packer, plain)
        return Body(tag, plain, stored[:1], stored[1:])
    return Body(tag, plain, b"\x00", plain)


def chain_prefix(stream: str) -> bytes:
    """Return the bytes every chained event of ``stream`` begins with; lengths stand first, so no two encodings meet."""
    name = stream.encode()
    return b"foldlog event 1\x00" + _U32.pack(len(name)) + name


def chain_digest(prefix: bytes, version: int, tag: bytes, prev: bytes, plain: bytes) -> bytes:
    """Return the chain digest: SHA-256 over (stream, version, tag, digest of the predecessor, plain body)."""
    return sha256(b"".join((prefix, prev, _PLACE.pack(version, len(tag)), tag, plain))).digest()


def seal_rows(stream: str, expected: int, prev: bytes, bodies: Sequence[Body]) -> tuple[list[Row], bytes]:
    """Return the rows to insert behind version ``expected`` whose digest is ``prev``, and the digest of the last."""
    prefix = chain_prefix(stream)
    rows: list[Row] = []
    for version, (tag, plain, header, packed) in enumerate(bodies, expected + 1):
        rows.append((version, tag, header + prev + packed))
        prev = chain_digest(prefix, version, tag, prev, plain)
    return rows, prev


def head_seal(stream: str, version: int, digest: bytes) -> bytes:
    """Return 8 bytes that tell an altered head from an altered last event."""
    return sha256(b"".join((b"foldlog head 1\x00", _PLACE.pack(version, 0), digest, stream.encode()))).digest()[:8]


def snapshot_seal(stream: str, form: str, version: int, digest: bytes, state: bytes) -> bytes:
    """Return the digest a snapshot is checked with (32 bytes)."""
    name, kind = stream.encode(), form.encode()
    front = b"foldlog snapshot 1\x00" + _U32.pack(len(name)) + name + _U32.pack(len(kind)) + kind
    return sha256(b"".join((front, _PLACE.pack(version, 0), digest, state))).digest()


def plain_body(codec: Codec, state: bytes) -> bytes:
    """Return the plain body inside a stored state. Raises ``Unreadable``."""
    if len(state) < BODY_AT:
        raise Unreadable("it is too short")
    if state[0] == PLAIN:
        return state[BODY_AT:]
    return unpack(codec.packer, state[:1] + state[BODY_AT:], EVENT_LIMIT)


def check_stream(stream: str) -> str:
    """Return ``stream`` if it can be the id of a stream in every store. Raises ``InputError``."""
    if not isinstance(stream, str) or not stream:
        raise InputError("a stream id must be a text that is not empty", value=stream, where="stream")
    if "\x00" in stream:
        raise InputError("a stream id must not contain NUL characters", value=stream, where="stream")
    try:
        size = len(stream.encode())
    except UnicodeEncodeError as error:
        raise InputError("a stream id must not contain lone surrogates", value=stream, where="stream") from error
    if size > STREAM_LIMIT:
        raise InputError(
            f"a stream id may have {STREAM_LIMIT} bytes, this one has {size}", value=stream, where="stream"
        )
    return stream
