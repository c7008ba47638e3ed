"""Answers as they go to the client: a provider's, untouched, or one of ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import httpx

from .refuse import Answer
from .upstream import returned

WORDS = 2_000
"""Bytes of a provider's error that are kept."""
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def begin(send: Send, response: httpx.Response) -> None:
    """Send the status and headers of a provider's answer."""
    headers = returned(response.headers.raw)
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})


async def more(send: Send, piece: bytes) -> None:
    """Send a piece of the body."""
    await send({"type": "http.response.body", "body": piece, "more_body": True})


async def end(send: Send, piece: bytes = b"") -> None:
    """Send the last piece of the body."""
    await send({"type": "http.response.body", "body": piece, "more_body": False})


async def whole(response: httpx.Response) -> bytes:
    """Return the body of an answer as it came, still encoded; what came of it where the provider broke off."""
    pieces = []
    try:
        async for piece in response.aiter_raw():
            pieces.append(piece)
    except (httpx.TransportError, httpx.StreamError):
        pass  # an error that is cut off is still the provider's own
    finally:
        await response.aclose()
    return b"".join(pieces)


async def give(send: Send, response: httpx.Response, body: bytes) -> None:
    """Send a provider's answer whose body was read before."""
    headers = [(name, value) for name, value in returned(response.headers.raw) if name != b"content-length"]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await end(send, body)


async def say(send: Send, answer: Answer) -> None:
    """Send an answer of ours."""
    status, given, body = answer
    headers = [(name.encode(), value.encode()) for name, value in given.items()]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await end(send, body)
