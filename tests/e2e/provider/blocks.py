"""A request as the model reads it: one list of blocks in prefix order, whatever forms and marks the client chose.

Cache marks, the billing header, the split into messages, and string against one-block content change nothing a model
would read; two requests with equal blocks are the same prompt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

BILLING = "x-anthropic-billing-header"


@dataclass(frozen=True, slots=True)
class Block:
    """``where`` in the request (wire path), ``role``, canonical ``data``, the cache mark's lifetime if one is set."""

    where: str
    role: str
    data: bytes
    mark: str = ""

    @property
    def tokens(self) -> int:
        """Tokens of the scripted model: one for four bytes."""
        return (len(self.data) + 3) // 4


def canonical(value: Any) -> bytes:
    """Return ``value`` as JSON with sorted keys and no marks."""
    return json.dumps(_bare(value), sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bare(inner) for key, inner in value.items() if key != "cache_control"}
    if isinstance(value, list):
        return [_bare(inner) for inner in value]
    return value


def _mark(item: Any) -> str:
    mark = item.get("cache_control") if isinstance(item, dict) else None
    return (mark.get("ttl") or "5m") if isinstance(mark, dict) else ""


def _texts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _result(block: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """A tool result with its content as a list, and the mark that stands on it or inside it."""
    inner = _texts(block.get("content"))
    mark = _mark(block) or next((_mark(part) for part in inner if _mark(part)), "")
    return {**block, "content": inner}, mark


def anthropic(body: dict[str, Any]) -> list[Block]:
    """Tools, system, messages: the order a cached prefix has."""
    found = [
        Block(f"tools.{at}", "tool", canonical(tool), _mark(tool)) for at, tool in enumerate(body.get("tools") or [])
    ]
    for at, part in enumerate(_texts(body.get("system"))):
        if not str(part.get("text", "")).startswith(BILLING):
            found.append(Block(f"system.{at}", "system", canonical(part), _mark(part)))
    thinking = body.get("thinking")
    if thinking:  # other thinking parameters are another prompt from the messages on
        found.append(Block("thinking", "system", canonical({"type": thinking.get("type")})))
    for at, message in enumerate(body.get("messages") or []):
        for index, part in enumerate(_texts(message.get("content"))):
            block, mark = (part, _mark(part)) if part.get("type") != "tool_result" else _result(part)
            found.append(Block(f"messages.{at}.content.{index}", message["role"], canonical(block), mark))
    return found


def chat(body: dict[str, Any]) -> list[Block]:
    """Tools and messages of a Chat Completions request."""
    found = [Block(f"tools.{at}", "tool", canonical(tool)) for at, tool in enumerate(body.get("tools") or [])]
    for at, message in enumerate(body.get("messages") or []):
        content = message.get("content")
        plain = {**message, "content": _texts(content) if content is not None else None}
        found.append(Block(f"messages.{at}", message.get("role", ""), canonical(plain)))
    return found


def responses(body: dict[str, Any]) -> list[Block]:
    """Tools, instructions and input items of a Responses request. Item ids and states are the client's book-keeping."""
    found = [Block(f"tools.{at}", "tool", canonical(tool)) for at, tool in enumerate(body.get("tools") or [])]
    if body.get("instructions"):
        found.append(Block("instructions", "system", canonical(body["instructions"])))
    items = body.get("input")
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": items}]}]
    for at, item in enumerate(items or []):
        plain = {key: value for key, value in item.items() if key not in {"id", "status"}}
        found.append(Block(f"input.{at}", str(item.get("role") or item.get("type") or ""), canonical(plain)))
    return found


def prefixes(blocks: list[Block]) -> Iterator[bytes]:
    """Yield the digest of everything up to and with each block."""
    running = hashlib.blake2b(digest_size=16)
    for block in blocks:
        running.update(block.role.encode() + b"\0" + block.data + b"\1")
        yield running.copy().digest()


def shared(first: list[Block], second: list[Block]) -> int:
    """Return how many blocks two requests have in common from the start."""
    for at, (one, other) in enumerate(zip(first, second, strict=False)):
        if (one.role, one.data) != (other.role, other.data):
            return at
    return min(len(first), len(second))
