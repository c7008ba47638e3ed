"""Signed thinking: made when the scripted model answers, really checked when it comes back."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from typing import Any

from .blocks import Block, prefixes

_SECRET = b"scripted provider"
CALL = re.compile(r"(?:toolu|call)_([a-z0-9]+)_(\d{4})_(\d+)n\d+")
"""A call's id: track, step, index of the call, and the number of the request it answered, which makes it unique."""


def sign(thinking: str, step: str, prefix: bytes | None) -> str:
    """Return the signature of ``thinking`` made at ``step``; with a ``prefix`` digest it is bound to it."""
    said = {"step": step, "bound": prefix.hex() if prefix is not None else ""}
    head = json.dumps(said, sort_keys=True).encode()
    mac = hmac.new(_SECRET, head + b"\0" + thinking.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
    return base64.b64encode(mac + head).decode()


def opened(thinking: str, signature: Any) -> dict[str, str] | None:
    """Return what a genuine signature says (``step``, ``bound``), or None if it is not genuine for this text."""
    try:
        raw = base64.b64decode(signature, validate=True)
        said = json.loads(raw[32:])
        genuine = sign(thinking, said["step"], bytes.fromhex(said["bound"]) if said["bound"] else None)
    except (TypeError, ValueError, KeyError):
        return None
    return said if hmac.compare_digest(genuine, str(signature)) else None


def anthropic_complaint(body: dict[str, Any], blocks: list[Block], thought: set[str]) -> str:
    """Return the provider's words for what is wrong with the thinking of ``body``, or nothing.

    ``thought`` are the steps (``track_0012``) that were answered with thinking.
    """
    digests = dict(zip((block.where for block in blocks), [b"", *prefixes(blocks)], strict=False))
    steps: set[str] = set()
    for at, message in enumerate(body.get("messages") or []):
        content = message.get("content")
        if message.get("role") != "assistant" or not isinstance(content, list):
            continue
        for index, block in enumerate(content):
            if block.get("type") != "thinking":
                continue
            said = opened(str(block.get("thinking")), block.get("signature"))
            where = f"messages.{at}.content.{index}"
            if said is None:
                return f"{where}: Invalid `signature` in `thinking` block"
            if said["bound"] and said["bound"] != digests[where].hex():
                return (
                    f"{where}: Invalid `signature` in `thinking` block. The block is bound to a different "
                    "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
                    '"drop_block".'
                )
            calls = {f"{m[1]}_{m[2]}" for other in content if (m := CALL.fullmatch(str(other.get("id", ""))))}
            if calls and said["step"] not in calls:
                return (
                    f"{where}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
                    "modified. These blocks must remain as they were in the original response."
                )
            steps.add(said["step"])
    newest = _newest_answer(body)
    on = (body.get("thinking") or {}).get("type") in {"enabled", "adaptive"}
    if on and steps and newest in thought and newest not in steps:  # all of it may go, a part of it may not
        return (
            f"messages.{len(body['messages']) - 2}: `thinking` or `redacted_thinking` blocks in the latest assistant "
            "message cannot be modified. These blocks must remain as they were in the original response."
        )
    return ""


def _newest_answer(body: dict[str, Any]) -> str:
    """The step of the newest answer with calls."""
    for message in reversed(body.get("messages") or []):
        content = message.get("content")
        if message.get("role") == "assistant" and isinstance(content, list):
            for block in content:
                if m := CALL.fullmatch(str(block.get("id", ""))):
                    return f"{m[1]}_{m[2]}"
    return ""


def responses_complaint(items: list[dict[str, Any]]) -> str:
    """Return what is wrong with the encrypted reasoning of a Responses request, or nothing."""
    for at, item in enumerate(items):
        if item.get("type") == "reasoning" and item.get("encrypted_content"):
            summary = "".join(part.get("text", "") for part in item.get("summary") or [])
            if opened(summary, item["encrypted_content"]) is None:
                return f"The encrypted content for item input[{at}] could not be verified."
    return ""
