"""How many tokens a picture or document stands for (``transform.md`` 1.5), and where its bytes are in the raw text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

from .forms import readable
from .spans import Span

UNREADABLE = 1_200
_MOST = 4_500
_HEAD = 1 << 18
_INLINE = re.compile(rb"[A-Za-z0-9+/=]{1024,}")


def attachment_spans(raw: bytes, begin: int, end: int) -> list[Span]:
    """Return the runs of at least 1 KiB of base64 letters in ``raw[begin:end]``."""
    if end - begin < 1024:
        return []
    return [found.span() for found in _INLINE.finditer(raw, begin, end)]


def media_tokens(block: dict[str, Any], count: Callable[[str], int]) -> int:
    """Return the tokens of a media block: pictures by their size, plain text documents counted, else 1,200."""
    source = block.get("source")
    if isinstance(source, dict):
        if source.get("type") == "text" and isinstance(source.get("data"), str):
            return count(readable(source["data"]))
        if source.get("type") == "content" and isinstance(source.get("content"), str):
            return count(readable(source["content"]))
        return _picture(source.get("data"))
    image = block.get("image_url")
    if isinstance(image, dict):
        image = image.get("url")
    if isinstance(image, str) and image.startswith("data:"):
        return _picture(image.partition(",")[2])
    return _picture(block.get("data"))


def _picture(data: Any) -> int:
    if not isinstance(data, str) or not data:
        return UNREADABLE
    try:
        head = base64.b64decode(data[:_HEAD] + "=" * (-len(data[:_HEAD]) % 4))
    except (binascii.Error, ValueError):
        return UNREADABLE
    width, height = dimensions(head)
    if width <= 0 or height <= 0:
        return UNREADABLE
    return max(1, min(_MOST, -(-width * height // 750)))


def dimensions(head: bytes) -> tuple[int, int]:
    """Return width and height in pixels from the first bytes of a PNG, JPEG, GIF or WebP, or (0, 0)."""
    if head[:8] == b"\x89PNG\r\n\x1a\n" and len(head) >= 24:
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if head[:6] in (b"GIF87a", b"GIF89a") and len(head) >= 10:
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp(head)
    if head[:2] == b"\xff\xd8":
        return _jpeg(head)
    return 0, 0


def _webp(head: bytes) -> tuple[int, int]:
    form = head[12:16]
    if form == b"VP8X" and len(head) >= 30:
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if form == b"VP8L" and len(head) >= 25:
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 " and len(head) >= 30:
        return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF
    return 0, 0


def _jpeg(head: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(head):
        if head[at] != 0xFF:
            return 0, 0
        marker = head[at + 1]
        if marker == 0xFF:
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[at + 7 : at + 9], "big"), int.from_bytes(head[at + 5 : at + 7], "big")
        elif marker == 0x01 or 0xD0 <= marker <= 0xD7:
            at += 2
        else:
            at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return 0, 0
