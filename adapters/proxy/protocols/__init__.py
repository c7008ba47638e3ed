"""The wires the proxy speaks: one module a provider API. ``protocol_for`` tells which one a request is of."""

from __future__ import annotations

from .anthropic import ANTHROPIC, COUNTING
from .base import Caller, Meter, Protocol, Usage
from .chat import CHAT
from .responses import COMPACTING, RESPONSES

ROUTES: dict[str, Protocol] = {
    "/v1/messages": ANTHROPIC,
    "/v1/messages/count_tokens": COUNTING,
    "/v1/chat/completions": CHAT,
    "/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/responses/compact": COMPACTING,
    "/responses": RESPONSES,
    "/responses/compact": COMPACTING,
    "/backend-api/codex/responses": RESPONSES,
    "/backend-api/codex/responses/compact": COMPACTING,
}

__all__ = ["ROUTES", "Caller", "Meter", "Protocol", "Usage", "protocol_for"]


def protocol_for(method: str, path: str) -> Protocol | None:
    """Return the protocol of a request, None where it is none of ours and goes through untouched.

    ``path`` may carry a query.
    """
    if method.upper() != "POST":
        return None
    return ROUTES.get(path.split("?", 1)[0].rstrip("/"))
