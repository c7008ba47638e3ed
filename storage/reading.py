"""Reading chunks: fetching what each stored form needs, and checking every digest."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from ..domain.errors import StoreDamaged
from .backend import Backend
from .content import DEPTH_LIMIT, decode_body, needs
from .packing import Packer, Unreadable

ROUNDS = DEPTH_LIMIT + 2
"""A delta stands on at most ``DEPTH_LIMIT`` others, and each may need attachments: more rounds are damage."""


def read_chunks(backend: Backend, packer: Packer, digests: Sequence[bytes]) -> list[bytes]:
    """Return the plain bytes of each digest, in order.

    Raises ``StoreDamaged`` with the chunk's digest for one that is missing, or whose bytes are not what it says.
    """
    bodies: dict[bytes, bytes] = {}
    wanted: dict[bytes, tuple[bytes, ...]] = {}
    ask = list(dict.fromkeys(digests))
    for _ in range(ROUNDS):
        if not ask:
            break
        found = backend.stored(ask)
        more: dict[bytes, None] = {}
        for digest in ask:
            if digest not in found:
                raise chunk_error(digest, "it is missing")
            bodies[digest] = found[digest]
            try:
                wanted[digest] = needs(found[digest])
            except Unreadable as error:
                raise chunk_error(digest, str(error)) from error
            more.update(dict.fromkeys(wanted[digest]))
        ask = [digest for digest in more if digest not in bodies]
    if ask:
        raise chunk_error(ask[0], "it stands on too many others")
    plain: dict[bytes, bytes] = {}
    for digest in digests:
        _resolve(packer, digest, bodies, wanted, plain, ROUNDS)
    return [plain[digest] for digest in digests]


def _resolve(
    packer: Packer,
    digest: bytes,
    bodies: dict[bytes, bytes],
    wanted: dict[bytes, tuple[bytes, ...]],
    plain: dict[bytes, bytes],
    rounds: int,
) -> None:
    if digest in plain:
        return
    if rounds == 0:
        raise chunk_error(digest, "it stands on too many others")
    for part in wanted[digest]:
        _resolve(packer, part, bodies, wanted, plain, rounds - 1)
    try:
        data = decode_body(packer, bodies[digest], plain)
    except Unreadable as error:
        raise chunk_error(digest, str(error)) from error
    if sha256(data).digest() != digest:
        raise chunk_error(digest, "its bytes are not what its digest says")
    plain[digest] = data


def chunk_error(digest: bytes, why: str) -> StoreDamaged:
    """Return the error for a chunk that cannot be read."""
    name = digest.hex() if isinstance(digest, bytes) else repr(digest)
    return StoreDamaged(f"the stored chunk {name} is damaged: {why}; run `foldlog verify` to see what it belongs to")
