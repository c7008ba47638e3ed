"""Content blocks in wire order with their digests, and the chain that makes a request's digest of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from ....domain.errors import MessageError
from . import forms, responses
from .units import CODECS, identity_value, layout


class Block(msgspec.Struct, frozen=True):
    """One block as sent. ``form``: canonical JSON with its role; ``digest``: its SHA-256 (32 bytes).

    ``size``: bytes of the block's identity form alone.
    """

    digest: bytes
    size: int
    form: bytes


def _made(block: bytes, role: bytes, members: bytes = b"") -> Block:
    extra = b',"members":' + members if members else b""
    form = b'{"block":' + block + extra + b',"role":' + role + b"}"
    return Block(sha256(form).digest(), len(block), form)


def blocks(codec: str, rendered: bytes) -> tuple[Block, ...]:
    """Return the blocks of one message in wire order; message members that reach the model ride on the first.

    A message without content is one block ``{"type":"empty"}``, so that the chain sees it.
    """
    seen = layout(codec, forms.decode_again(rendered), "message")
    role = forms.quote(seen.said)
    members = forms.canonical(seen.members) if seen.members else b""
    if not seen.units:
        return (_made(b'{"type":"empty"}', role, members),)
    return tuple(
        _made(forms.canonical(identity_value(unit, codec)), role, b"" if i else members)
        for i, unit in enumerate(seen.units)
    )


def genesis(codec: str) -> bytes:
    """Return the start value of a request's chain."""
    return sha256(b"foldlog request v1 " + codec.encode()).digest()


def chain(start: bytes, given: Iterable[Block]) -> bytes:
    """Fold block digests onto ``start``: each step is the SHA-256 of (value so far, block digest)."""
    return link(start, (block.digest for block in given))


def link(start: bytes, digests: Iterable[bytes]) -> bytes:
    """Fold digests of blocks onto ``start``, as ``chain`` does."""
    value = start
    for digest in digests:
        value = sha256(value + digest).digest()
    return value


# ----------------------------------------------------------------------- system, tools


def _system_values(codec: str, raw: bytes) -> list[tuple[str, Any]]:
    """Return (role, identity value) of each system block, billing blocks left out."""
    if not raw:
        return []
    value = forms.decode(raw)
    if value is None:
        return []
    if isinstance(value, str):
        value = [{"text": value, "type": "text"}] if value else []
    if not isinstance(value, list):
        raise MessageError("the system text must be a string or a list of blocks", value=value, where="system")
    out: list[tuple[str, Any]] = []
    if codec == responses.CODEC and value and isinstance(value[0], str):
        value[0] = {"text": value[0], "type": "text"}  # the instructions, before the leading items
    for i, block in enumerate(value):
        if not isinstance(block, dict):
            raise MessageError("a system block must be a JSON object", value=block, where=f"system[{i}]")
        if "role" in block:
            seen = layout(codec, block, f"system[{i}]")
            out.extend((seen.said, identity_value(unit, codec)) for unit in seen.units)
        else:
            out.append(("system", forms.plain_block(block)))
    return [(role, block) for role, block in out if not _billing(block)]


def _billing(block: Any) -> bool:
    text = block.get("text") if isinstance(block, dict) else None
    return isinstance(text, str) and text.startswith(forms.BILLING)


def system_blocks(codec: str, system_raw: bytes) -> tuple[Block, ...]:
    """Return the blocks of a system text: a JSON string, list of text blocks, or list of leading system messages.

    ``b""``: none. Billing blocks change with every request and are left out.
    """
    return tuple(_made(forms.canonical(b), forms.quote(role)) for role, b in _system_values(codec, system_raw))


def system_hash(codec: str, system_raw: bytes) -> bytes:
    """Return the SHA-256 of the system text without marks and billing blocks; a string counts as one block."""
    return sha256(forms.canonical([block for _, block in _system_values(codec, system_raw)])).digest()


def _tools(raw: bytes) -> list[Any]:
    if not raw:
        return []
    value = forms.decode(raw)
    if value is None:
        return []
    if not isinstance(value, list):
        raise MessageError("the tools must be a list", value=value, where="tools")
    for i, tool in enumerate(value):
        if not isinstance(tool, dict):
            raise MessageError("a tool must be a JSON object", value=tool, where=f"tools[{i}]")
    return value


def _spoken(codec: str, tool: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return (name, name to compare, description) of a tool, and of those that stand inside it."""
    if codec == responses.CODEC:
        return responses.spoken(tool)
    function = tool.get("function") if codec == "openai-chat" else None
    body = function if isinstance(function, dict) else tool
    name, description = body.get("name"), body.get("description")
    named = name if isinstance(name, str) else ""
    return [(named, named, description if isinstance(description, str) else "")]


def tools_blocks(codec: str, tools_raw: bytes) -> tuple[Block, ...]:
    """Return one block a tool, in wire order (``b""``: none)."""
    return tuple(_made(forms.canonical(forms.unmark(t)), b'"tools"') for t in _tools(tools_raw))


def tools_names_hash(codec: str, tools_raw: bytes) -> bytes:
    """Return the SHA-256 of the tools' names and descriptions, sorted: schemas and order are not in it."""
    told = sorted([name, about] for tool in _tools(tools_raw) for _, name, about in _spoken(codec, tool))
    return sha256(forms.canonical(told)).digest()


def tool_names(codec: str, tools_raw: bytes) -> tuple[str, ...]:
    """Return the tools' names in wire order; unnamed ones are left out."""
    return tuple(name for tool in _tools(tools_raw) for name, _, _ in _spoken(codec, tool) if name)


# -------------------------------------------------------------------------- cache marks


class _Kind(msgspec.Struct):
    type: str = ""
    text: str = "x"


class _Shown(msgspec.Struct):
    block: _Kind


def carries_mark(kind: Any, text: Any) -> bool:
    """Return whether a block of this type and text may carry a cache mark; reasoning and blank text may not."""
    return kind not in ("thinking", "redacted_thinking", "empty") and (
        kind != "text" or (isinstance(text, str) and bool(text.strip()))
    )


def mark_indexes(
    codec: str, tools: int, system: int, messages: Sequence[Sequence[Block]], head: int
) -> tuple[int, ...]:
    """Return the wire-order indexes of the blocks that ``marks`` marks, given the number of tool and system blocks.

    ``messages`` are the blocks of each message; the first ``head`` messages are m[0] and m[1].
    """
    if codec != CODECS[0]:
        return ()
    out: list[int] = [tools + system - 1] if system else []
    ends: list[int] = []
    at = tools + system
    for group in messages:
        ends.append(_last(group, at))
        at += len(group)
    out.extend(end for end in ends[: min(head, 2)] if end >= 0)
    tail = next((end for end in reversed(ends) if end >= 0), -1)
    if tail >= 0 and tail not in out:
        out.append(tail)
    return tuple(out)


def _last(group: Sequence[Block], at: int) -> int:
    for i in range(len(group) - 1, -1, -1):
        try:
            block = msgspec.json.decode(group[i].form, type=_Shown).block
        except msgspec.MsgspecError:
            return at + i  # only a tool's own value defeats the decoder; such a block can carry a mark
        if carries_mark(block.type, block.text):
            return at + i
    return -1
