"""The pictures of a request, on every wire: what of them the provider saw."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any


def digest(picture: bytes) -> str:
    """Return what a picture is known by."""
    return hashlib.blake2b(picture, digest_size=8).hexdigest()


def shown(body: dict[str, Any]) -> tuple[str, ...]:
    """Return the digests of the pictures in the messages of ``body``, in the order they stand there."""
    return tuple(map(digest, _pictures(body.get("messages") or body.get("input"))))


def _pictures(value: Any) -> Iterator[bytes]:
    if isinstance(value, list):
        for inner in value:
            yield from _pictures(inner)
    elif isinstance(value, dict):
        if value.get("type") == "image":
            yield base64.b64decode(value["source"]["data"])
        elif value.get("type") in {"input_image", "image_url"}:
            url = value["image_url"]
            yield base64.b64decode(str(url["url"] if isinstance(url, dict) else url).partition(",")[2])
        else:
            for inner in value.values():
                yield from _pictures(inner)
