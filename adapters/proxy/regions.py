"""What stands before the messages: system text and tools, and the billing blocks among them."""

from __future__ import annotations

from ...projections.wire import CURRENT, wire
from ...projections.wire.v1.forms import BILLING, decode
from .body import Body

_BILLING = BILLING.encode()
Regions = tuple[tuple[bytes, ...], bytes]
"""The pieces of the system text without billing blocks, and the tools: the same as long as a client changes neither."""


def is_billing(item: bytes) -> bool:
    """Whether a system block is a billing or attestation header, which changes with every request (JSON-9)."""
    if _BILLING not in item[:200]:
        return False
    value = decode(item)
    said = value.get("text") if isinstance(value, dict) else None
    return isinstance(said, str) and said.startswith(BILLING)


def billing(body: Body) -> list[bytes]:
    """Return the billing blocks of a request's system text."""
    system = body.arrays.get("system")
    return [unmarked_block(item) for item in system.items if is_billing(item)] if system else []


def unmarked_block(item: bytes) -> bytes:
    """Return a block without its cache mark."""
    return wire(CURRENT).unmarked(b"[" + item + b"]")[1:-1]


def regions(codec: str, body: Body) -> Regions:
    """Return a request's regions. Equal ones cost comparisons of objects."""
    tools = body.members.get("tools", b"")
    if codec in ("openai-chat", "openai-responses"):
        return (*body.messages[: leading(codec, body)], body.members.get("instructions", b"")), tools
    system = body.arrays.get("system")
    if system is None:
        return (body.members.get("system", b""),), tools
    return tuple(item for item in system.items if not is_billing(item)), tools


def leading(codec: str, body: Body) -> int:
    """Return how many of the messages are leading system messages."""
    return wire(CURRENT).split_system(codec, body.messages)
