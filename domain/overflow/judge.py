"""What a session makes of an explained refusal: its own use of the window decides what the words left open."""

from __future__ import annotations

import msgspec

from .explain import Explained

NEAR = 9_000
"""From here on (1/100 of a per cent of the window) a bad request that says nothing is taken for an overflow (OV-11)."""
FAR = 5_000
"""Up to here a body that was too large was too large in bytes: its tokens are not the matter (OV-08)."""


def judge(said: Explained, share: int, *, pictures: bool = True) -> Explained:
    """Return ``said`` in the light of what was sent.

    ``share``: the used part of the window in 1/100 of a per cent (-1: unknown); ``pictures``: whether it held any.
    """
    if said.kind == "bytes" and share > FAR and not pictures:
        # some call every prompt that is too long a body that is too large (1.8)
        words = "No picture is left to shed: make the request smaller, then send it."
        return msgspec.structs.replace(said, overflow=True, kind="suspected", what_to_do=words)
    if said.kind == "unknown" and said.status in (400, 413, 422) and share >= NEAR:
        words = (
            "The provider did not say why, and the window is nearly full: make the request smaller once, then send it."
        )
        return msgspec.structs.replace(said, overflow=True, kind="suspected", what_to_do=words)
    if said.kind == "suspected" and 0 <= share <= FAR:
        words = (
            "The window is not full: the body is too large in bytes. Shed images and other large blobs, oldest first."
        )
        return msgspec.structs.replace(said, overflow=False, kind="bytes", what_to_do=words)
    return said


def unbound(said: Explained, words: str) -> bool:
    """Whether the provider took signed reasoning for that of another conversation (``transform.md`` 4.6)."""
    return said.kind == "thinking" and "bound to a different conversation" in words.lower()


def bulky(said: Explained) -> bool:
    """Whether pictures were refused, or the body for its bytes: what is shed then is pictures (IMAGE-2)."""
    return said.kind in ("images", "bytes")


def outcome(said: Explained) -> str:
    """Return how a request ended that did not overflow: ``not_processed``, ``broken`` or ``unknown``.

    Refused before it was read (4xx, 529): nothing of it is in the provider's cache. In the middle of an answer (2xx):
    the stream broke. A server's fault: nobody knows.
    """
    if said.status in range(200, 300):
        return "broken"
    if said.status in range(400, 500) or said.status == 529 or said.kind in _REFUSED:
        return "not_processed"
    return "unknown"


_REFUSED = frozenset(
    "rate rate_tier quota output_cap bytes string_length images pairing cache_marks thinking empty_block shape "
    "config auth"
    " model".split()
)
