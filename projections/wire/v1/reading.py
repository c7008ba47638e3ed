"""From a host's raw message to the neutral model: parts, sizes, tokens, identities; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from ....domain import inline, transcript
from ....domain.errors import MessageError, UnknownTag
from . import forms, opencode_reading, responses, spans
from .media import attachment_spans, media_tokens
from .unit import Layout, Unit
from .units import MEDIA, arguments, call_name, identity_value, layout, output_blocks, pair_id

Count = Callable[[str], int]

_STAMPS = 2**53


class Incoming(msgspec.Struct, frozen=True):
    """A message just read.

    ``part_idents``: 16 bytes a part, the first of the SHA-256 of the part's identity form. ``attachments``: byte spans
    of ``raw`` that hold at least 1 KiB of base64 media each, in order, not overlapping.
    """

    message: transcript.Message
    part_idents: tuple[bytes, ...]
    attachments: tuple[tuple[int, int], ...]


def read(codec: str, raw: bytes, count: Count, where: str = "messages[0]") -> Incoming:
    """Read one raw message. ``count`` returns the tokens of a text; it gets no lone surrogates.

    Raises ``MessageError`` naming ``where`` for what is not JSON, an unknown role, content of a wrong type, a block
    without a type, a call or result without an id, nesting over 200.
    """
    try:
        message = forms.decode(raw)
    except MessageError as error:
        error.where = error.where or where
        raise
    seen = layout(codec, message, where)
    idents: list[bytes] = []
    parts: list[transcript.Part] = []
    media = False
    kinds = _OPENCODE if codec == "opencode" else _PARTS
    for unit in seen.units:
        form = forms.canonical(identity_value(unit, codec))
        idents.append(sha256(form).digest()[:16])
        part = kinds[unit.kind](unit, codec, count, form)
        if seen.role == "assistant" and isinstance(part, transcript.Text):
            part = _answer(unit, part, count)
        parts.append(part)
        media = media or unit.kind == "media" or (isinstance(part, transcript.Result) and part.media > 0)
    return Incoming(
        transcript.Message(
            role=seen.role,
            body=sha256(raw).digest(),
            ident=_message_ident(seen, idents),
            size=len(raw),
            parts=tuple(parts),
            host_id=_host_id(codec, message),
            stamp=_stamp(_told(codec, message)),
        ),
        tuple(idents),
        tuple(_attachments(codec, raw)) if media else (),
    )


def part_idents(codec: str, raw: bytes) -> tuple[bytes, ...]:
    """Return the identity of each part (16 bytes), in part order."""
    seen = layout(codec, forms.decode(raw), "message")
    return tuple(sha256(forms.canonical(identity_value(u, codec))).digest()[:16] for u in seen.units)


def _message_ident(seen: Layout, idents: list[bytes]) -> bytes:
    # over the parts' identities, so that a large message is hashed once a part and not twice
    value: dict[str, Any] = {"parts": [i.hex() for i in idents], "role": seen.said}
    if seen.members:
        value["members"] = seen.members
    return sha256(forms.canonical(value)).digest()[:16]


def _host_id(codec: str, message: dict[str, Any]) -> str:
    if codec == responses.CODEC:
        return ""  # an item may come back without its id
    given = (message["info"] if codec == "opencode" else message).get("id")
    return given if isinstance(given, str) and forms.readable(given) == given else ""


def _told(codec: str, message: dict[str, Any]) -> Any:
    """Return the time a host gives its message, in ms, None where it gives none."""
    if codec == "opencode":
        time = message["info"].get("time")
        return time.get("created") if isinstance(time, dict) else None
    return message.get("timestamp") if codec == "pi" else None


def _stamp(given: Any) -> int:
    if isinstance(given, int | float) and not isinstance(given, bool) and abs(given) <= _STAMPS:
        return int(given)
    return 0


def _text(unit: Unit, codec: str, count: Count, form: bytes) -> transcript.Part:
    text = _said(unit)
    return transcript.Text(count(forms.readable(text)), forms.size(text), not text or text.isspace())


def _said(unit: Unit) -> str:
    return str(unit.value if unit.at == "string" else unit.value["text"])


def _answer(unit: Unit, part: transcript.Text, count: Count) -> transcript.Text:
    """Return a text of the model's with what of it is reasoning (THINK-6)."""
    text = _said(unit)
    left = inline.without(text)
    if left is text:
        return part
    return transcript.Text(part.tokens, part.size, part.blank, max(part.tokens - count(forms.readable(left)), 0))


def _call(unit: Unit, codec: str, count: Count, form: bytes) -> transcript.Part:
    given = arguments(unit, codec)
    if codec == "openai-chat" or (codec == responses.CODEC and isinstance(given, str)):
        text = given if isinstance(given, str) else ""
        strings = forms.size(text)
        if unit.value.get("type") not in ("custom", "custom_tool_call"):
            with suppress(MessageError, UnicodeEncodeError):  # not decodable: the whole string counts
                strings = forms.strings_size(forms.decode(text.encode()))
    else:
        text = forms.canonical(given).decode() if given is not None else ""
        strings = forms.strings_size(given)
    name = call_name(unit, codec)
    tokens = count(forms.readable(f"{name} {text}"))
    return transcript.Call(tokens, forms.size(text), pair_id(unit, codec), name, strings)


def _result(unit: Unit, codec: str, count: Count, form: bytes) -> transcript.Part:
    value = unit.value
    content = output_blocks(unit, codec)
    tokens = size = media = 0
    if isinstance(content, str):
        tokens, size = count(forms.readable(content)), forms.size(content)
    elif content:
        for block in content:
            if block["type"] == "text":
                tokens += count(forms.readable(block["text"]))
                size += forms.size(block["text"])
            elif block["type"] in MEDIA:
                media += 1
                tokens += media_tokens(block, count)
                size += len(forms.canonical(block))
            else:
                plain = forms.canonical(block)
                tokens += count(forms.readable(plain.decode()))
                size += len(plain)
    failed = value.get("isError" if codec == "pi" else "is_error") is True
    return transcript.Result(tokens, size, pair_id(unit, codec), media, failed)


def _thinking(unit: Unit, codec: str, count: Count, form: bytes) -> transcript.Part:
    value = unit.value
    if isinstance(value, str):
        return transcript.Thinking(count(forms.readable(value)), forms.size(value))
    if isinstance(value, list):  # reasoning_details repeat the readable text, with signatures
        return transcript.Thinking(0, len(form), True, True)
    if codec == responses.CODEC:
        text, hidden = responses.reasoning_text(value), responses.hidden(value)
        size = hidden or forms.size(text)
        return transcript.Thinking(
            hidden * 3 // 16 if hidden else count(forms.readable(text)), size, bool(hidden), bool(hidden and not text)
        )
    if value["type"] == "redacted_thinking":
        data = value.get("data")
        size = len(data) if isinstance(data, str) else 0
        return transcript.Thinking(size * 3 // 16, size, True, True)
    text = value.get("thinking", "")
    signature = value.get("thinkingSignature" if codec == "pi" else "signature")
    paired = codec == "pi" and isinstance(signature, str) and signature.startswith("{")  # Pi keeps the whole item there
    opaque = value.get("redacted") is True
    return transcript.Thinking(count(forms.readable(text)), forms.size(text), bool(signature), opaque, paired)


def _media(unit: Unit, codec: str, count: Count, form: bytes) -> transcript.Part:
    return transcript.Media(media_tokens(unit.value, count), len(form))


def _other(unit: Unit, codec: str, count: Count, form: bytes) -> transcript.Part:
    if codec == responses.CODEC:
        opaque = responses.opaque(unit.value)
        if opaque is not None:  # a picture, or a text only the provider can read: no words to count
            return transcript.Other(opaque, len(form))
    return transcript.Other(count(forms.readable(form.decode())), len(form))


_PARTS: dict[str, Callable[[Unit, str, Count, bytes], transcript.Part]] = {
    "text": _text,
    "call": _call,
    "result": _result,
    "thinking": _thinking,
    "media": _media,
    "other": _other,
}
_OPENCODE = {**_PARTS, **opencode_reading.PARTS}


def _attachments(codec: str, raw: bytes) -> list[spans.Span]:
    if codec == responses.CODEC:
        return attachment_spans(raw, 0, len(raw))
    if codec == "opencode":
        return opencode_reading.attachments(raw)
    tree = spans.scan(raw)
    content = tree.value(spans.start(raw), "content")
    out: list[spans.Span] = []
    for begin, end in tree.arrays.get(content[0], []) if content else []:
        kind = _type(raw, tree, begin)
        if kind in MEDIA:
            out.extend(attachment_spans(raw, begin, end))
        elif kind == "tool_result":
            inner = tree.value(begin, "content")
            for b, e in tree.arrays.get(inner[0], []) if inner else []:
                if _type(raw, tree, b) in MEDIA:
                    out.extend(attachment_spans(raw, b, e))
    return out


def _type(raw: bytes, tree: spans.Tree, pos: int) -> Any:
    at = tree.value(pos, "type")
    return forms.decode(raw[at[0] : at[1]]) if at else None


def original(codec: str, raw: bytes, p: int) -> bytes:
    """Return the raw JSON of part ``p`` as the host sent it (string content: the JSON string).

    Raises ``UnknownTag`` when the message has no such part.
    """
    unit = _unit(codec, raw, p)
    if unit.at == "message":
        return raw
    if codec == "opencode":
        return opencode_reading.original(raw, unit)
    tree = spans.scan(raw)
    key = {"string": "content", "item": "content", "call": "tool_calls"}.get(unit.at, unit.key)
    begin, end = tree.value(spans.start(raw), key) or (0, len(raw))
    if unit.at in ("item", "call"):
        begin, end = tree.arrays[begin][unit.index]
    return raw[begin:end]


def part_text(codec: str, raw: bytes, p: int) -> str:
    """Return part ``p`` as a person reads it: text, tool output, arguments as JSON, thinking; other parts as JSON.

    Media show as ``[image/png]``. Raises ``UnknownTag`` when the message has no such part.
    """
    unit = _unit(codec, raw, p)
    value = unit.value
    if codec == "opencode" and unit.kind in opencode_reading.TEXTS:
        return opencode_reading.TEXTS[unit.kind](value)
    if unit.kind == "text":
        return _said(unit)
    if unit.kind == "call":
        given = arguments(unit, codec)
        return given if isinstance(given, str) else forms.canonical(given).decode()
    if unit.kind == "result":
        content = output_blocks(unit, codec)
        if not isinstance(content, list):
            return content or ""
        return "\n".join(_shown(b) for b in content)
    if unit.kind == "thinking" and codec == responses.CODEC:
        return responses.reasoning_text(value)
    if unit.kind == "thinking" and isinstance(value, dict) and isinstance(value.get("thinking"), str):
        return str(value["thinking"])
    if isinstance(value, str):
        return value
    return _shown(value) if unit.kind == "media" else forms.canonical(value).decode()


def _shown(block: dict[str, Any]) -> str:
    if block["type"] == "text":
        return str(block["text"])
    if block["type"] not in MEDIA:
        return forms.canonical(block).decode()
    source = block.get("source")
    kind = source.get("media_type") if isinstance(source, dict) else block.get("mimeType")
    return f"[{kind if isinstance(kind, str) else block['type']}]"


def _unit(codec: str, raw: bytes, p: int) -> Unit:
    units = layout(codec, forms.decode(raw), "message").units
    if not 0 <= p < len(units):
        raise UnknownTag(f"the message has {len(units)} parts, none with this number", value=p)
    return units[p]
