"""What foldlog itself writes on the wire: the head, inserts, the guidance in the system text, cache marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....domain.edits import Insert
from ....domain.errors import MessageError
from . import forms, responses, spans
from .blocks import carries_mark
from .opencode_render import text_part
from .units import CODECS

_LEADING = ("openai-chat", responses.CODEC)
_EMPTY_USAGE = (
    b'{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,'
    b'"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}'
)


def _text_block(text: str, codec: str = "") -> bytes:
    if codec == responses.CODEC:
        return responses.text_block("system", text)
    return b'{"type":"text","text":' + forms.quote(text) + b"}"


def text_message(codec: str, role: str, text: str) -> bytes:
    """Return a message of one text in the codec's own form (``role``: ``user`` or ``assistant``)."""
    if codec == "opencode":
        return b'{"info":{"role":"' + role.encode() + b'"},"parts":[' + text_part(text) + b"]}"
    if codec == responses.CODEC:
        return responses.text_item(role, text)
    if codec == "openai-chat":
        return b'{"role":"' + role.encode() + b'","content":' + forms.quote(text) + b"}"
    content = b'{"role":"' + role.encode() + b'","content":[' + _text_block(text) + b"]"
    if codec != "pi":
        return content + b"}"
    return content + (_pi_assistant("stop") if role == "assistant" else b',"timestamp":0}')


def _pi_assistant(stop: str) -> bytes:
    return (
        b',"api":"foldlog","provider":"foldlog","model":"foldlog","usage":'
        + _EMPTY_USAGE
        + b',"stopReason":"'
        + stop.encode()
        + b'","timestamp":0}'
    )


def head_messages(codec: str, m0: str, m1: str) -> tuple[bytes, bytes]:
    """Return m[0] and m[1] as two user messages; they stay separate (convention 8)."""
    return text_message(codec, "user", m0), text_message(codec, "user", m1)


def insert_messages(codec: str, insert: Insert, text: bytes) -> tuple[bytes, ...]:
    """Return an insert as messages: one text message, or both halves of a tool arc.

    ``text`` is the insert's chunk. Raises ``MessageError`` for an arc whose chunk is not
    ``{"id", "name", "input", "output"}``.
    """
    if insert.kind == "text":
        return (text_message(codec, insert.role, text.decode("utf-8", "replace")),)
    arc = forms.decode(text)
    if not isinstance(arc, dict) or not {"id", "name", "input", "output"} <= arc.keys():
        raise MessageError("a tool arc needs id, name, input and output", value=arc, where="insert")
    call, name, given = forms.quote(str(arc["id"])), forms.quote(str(arc["name"])), forms.canonical(arc["input"])
    output = arc["output"] if isinstance(arc["output"], str) else forms.canonical(arc["output"]).decode()
    if codec == "opencode":
        return (
            b'{"info":{"role":"assistant"},"parts":[{"type":"tool","callID":%b,"tool":%b,"state":{"status":"completed",'
            b'"input":%b,"output":%b,"title":"","metadata":{},"time":{"start":0,"end":0}}}]}'
            % (call, name, given, forms.quote(output)),
        )
    if codec == responses.CODEC:
        return responses.arc_items(call, name, given.decode(), output)
    if codec == "anthropic":
        return (
            b'{"role":"assistant","content":[{"type":"tool_use","id":%b,"name":%b,"input":%b}]}' % (call, name, given),
            b'{"role":"user","content":[{"type":"tool_result","tool_use_id":%b,"content":%b}]}'
            % (call, forms.quote(output)),
        )
    if codec == "openai-chat":
        return (
            b'{"role":"assistant","content":null,"tool_calls":[{"id":%b,"type":"function",'
            b'"function":{"name":%b,"arguments":%b}}]}' % (call, name, forms.quote(given.decode())),
            b'{"role":"tool","tool_call_id":%b,"content":%b}' % (call, forms.quote(output)),
        )
    return (
        b'{"role":"assistant","content":[{"type":"toolCall","id":%b,"name":%b,"arguments":%b}]' % (call, name, given)
        + _pi_assistant("toolUse"),
        b'{"role":"toolResult","toolCallId":%b,"toolName":%b,"content":[%b],"isError":false,"timestamp":0}'
        % (call, name, _text_block(output)),
    )


# ----------------------------------------------------------------------------- system


def with_guidance(codec: str, system_raw: bytes, guidance: str) -> bytes:
    """Return the host's system text with ``guidance`` as one stable text at its end (``""``: unchanged).

    A string gets it behind a blank line; a list gets one more text block; nothing becomes the string itself; a list of
    system messages gets it at the end of its last message.
    """
    if not guidance:
        return system_raw
    at = spans.start(system_raw)
    first = system_raw[at : at + 1]
    if not first or system_raw[at:].strip() in (b'""', b"null"):
        return forms.quote(guidance)
    if first == b'"':
        end = spans.string_end(system_raw, at)
        return spans.splice(system_raw, [(end - 1, end - 1, forms.quote("\n\n" + guidance)[1:-1])])
    tree = spans.scan(system_raw, 2)
    if at not in tree.arrays:
        raise MessageError("the system text must be a string or a list of blocks", where="system")
    items = tree.arrays[at]
    if not items:
        return b"[" + _text_block(guidance, codec) + b"]"
    begin, end = items[-1]
    if tree.value(begin, "role") is not None:
        return spans.splice(system_raw, [(begin, end, _append(codec, system_raw[begin:end], guidance))])
    return spans.splice(system_raw, [(end, end, b"," + _text_block(guidance, codec))])


def _append(codec: str, raw: bytes, guidance: str) -> bytes:
    at = spans.scan(raw).value(spans.start(raw), "content")
    if at is None:
        raise MessageError("a system message must have content", where="system")
    return spans.splice(raw, [(*at, with_guidance(codec, raw[at[0] : at[1]], guidance))])


def split_system(codec: str, raws: Sequence[bytes]) -> int:
    """Return how many leading messages are system or developer messages (0 for codecs with a system field)."""
    if codec not in _LEADING:
        return 0
    n = 0
    for raw in raws:
        role = spans.scan(raw, 1).value(spans.start(raw), "role")
        if role is None or forms.decode(raw[role[0] : role[1]]) not in ("system", "developer"):
            break
        n += 1
    return n


def elements(raw: bytes) -> tuple[bytes, ...]:
    """Return the elements of a JSON array, byte for byte. Raises ``MessageError`` for anything else."""
    return tuple(raw[begin:end] for begin, end in spans.elements(raw, spans.start(raw)))


def region(codec: str, system_raw: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """Return a system region as (the request's system member, the leading system messages), each empty where none is.

    On ``openai-responses`` a region without leading messages is the member itself; with them it is a list whose first
    element, where that is a string, is the member.
    """
    if codec not in _LEADING or not system_raw:
        return system_raw, ()
    at = spans.start(system_raw)
    if codec == responses.CODEC and system_raw[at : at + 1] != b"[":
        return system_raw, ()
    found = elements(system_raw)
    own = bool(found) and codec == responses.CODEC and found[0][:1] == b'"'
    return (found[0], found[1:]) if own else (b"", found)


def system_messages(codec: str, raws: Sequence[bytes], guidance: str) -> tuple[bytes, ...]:
    """Return the leading system messages with ``guidance`` at the end of the last.

    None and a guidance: a new one on ``openai-chat``; elsewhere the system member holds it.
    """
    if not guidance or (not raws and codec != "openai-chat"):
        return tuple(raws)
    if not raws:
        return (b'{"role":"system","content":' + forms.quote(guidance) + b"}",)
    return (*raws[:-1], _append(codec, raws[-1], guidance))


# -------------------------------------------------------------------------- cache marks


def marks(codec: str, system: Any, messages: list[dict[str, Any]], head: int, ttl: str | None = None) -> None:
    """Put at most four cache marks into decoded copies made for output: system end, m[0], m[1], tail.

    ``system``: a list of blocks (a string cannot carry a mark and is left alone), ``head``: how many messages are the
    head, ``ttl``: ``"5m"``, ``"1h"`` or None. Marks the system blocks had are taken off. Only ``anthropic`` has marks.
    """
    if codec != CODECS[0]:
        return
    mark: dict[str, str] = {"type": "ephemeral"}
    if ttl:
        mark["ttl"] = ttl
    if isinstance(system, list):
        for block in system:
            block.pop(forms.MARK, None)
        _mark_last(system, mark)
    for message in messages[: min(head, 2)]:
        _mark_message(message, mark)
    for message in reversed(messages):
        if _mark_message(message, mark):
            return


def _mark_message(message: dict[str, Any], mark: dict[str, str]) -> bool:
    content = message.get("content")
    if isinstance(content, str):
        if not content.strip():
            return False
        content = message["content"] = [{"type": "text", "text": content}]
    return isinstance(content, list) and _mark_last(content, mark)


def _mark_last(blocks: list[Any], mark: dict[str, str]) -> bool:
    for block in reversed(blocks):
        if isinstance(block, dict) and carries_mark(block.get("type"), block.get("text")):
            block[forms.MARK] = dict(mark)
            return True
    return False
