"""OpenCode's parts in the neutral model, where they differ from other hosts' (``opencode``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....domain import transcript
from . import forms, spans
from .media import attachment_spans, media_tokens
from .opencode import output_of
from .unit import Unit

Count = Callable[[str], int]

DEEP = frozenset({"parts", "state", "attachments", "metadata"})
"""Members an edit or an attachment can stand in."""


def _call(unit: Unit, codec: str, count: Count, form: bytes) -> transcript.Part:
    given = unit.value["state"].get("input")
    text = forms.canonical(given).decode() if given is not None else ""
    name = unit.value["tool"]
    tokens = count(forms.readable(f"{name} {text}"))
    return transcript.Call(tokens, forms.size(text), unit.value["callID"], name, forms.strings_size(given))


def _result(unit: Unit, codec: str, count: Count, form: bytes) -> transcript.Part:
    out = output_of(unit.value)
    tokens, size = count(forms.readable(out.text)), forms.size(out.text)
    for one in out.attachments:
        tokens += _file_tokens(one, count)
        size += len(forms.canonical(one))
    return transcript.Result(tokens, size, unit.value["callID"], len(out.attachments), out.failed)


def _thinking(unit: Unit, codec: str, count: Count, form: bytes) -> transcript.Part:
    text, metadata = unit.value["text"], unit.value.get("metadata")
    told = [one for one in metadata.values() if isinstance(one, dict)] if isinstance(metadata, dict) else []
    signed = any(one.get(key) for one in told for key in ("signature", "redactedData", "reasoningEncryptedContent"))
    paired = any(one.get("itemId") for one in told)
    return transcript.Thinking(count(forms.readable(text)), forms.size(text), signed, signed and not text, paired)


def _media(unit: Unit, codec: str, count: Count, form: bytes) -> transcript.Part:
    return transcript.Media(_file_tokens(unit.value, count), len(form))


def _file_tokens(part: dict[str, Any], count: Count) -> int:
    return media_tokens({"image_url": part.get("url")}, count)


PARTS: dict[str, Callable[[Unit, str, Count, bytes], transcript.Part]] = {
    "call": _call,
    "result": _result,
    "thinking": _thinking,
    "media": _media,
}


def attachments(raw: bytes) -> list[spans.Span]:
    """Return the byte spans of base64 media: in file parts, and in what finished tool parts have attached."""
    tree = spans.scan(raw, deep=DEEP)
    out: list[spans.Span] = []
    for begin, end in tree.arrays[(tree.value(spans.start(raw), "parts") or (0, 0))[0]]:
        if tree.value(begin, "mime"):
            out.extend(attachment_spans(raw, begin, end))
        state = tree.value(begin, "state")
        given = tree.value(state[0], "attachments") if state else None
        if given:
            out.extend(attachment_spans(raw, *given))
    return out


def original(raw: bytes, unit: Unit) -> bytes:
    """Return the raw JSON of the part a unit is, or is half of."""
    tree = spans.scan(raw, deep=DEEP)
    begin, end = tree.arrays[(tree.value(spans.start(raw), "parts") or (0, 0))[0]][unit.index]
    return raw[begin:end]


def _arguments(part: dict[str, Any]) -> str:
    return forms.canonical(part["state"].get("input")).decode()


def _output(part: dict[str, Any]) -> str:
    out = output_of(part)
    return "\n".join([*([out.text] if out.text else []), *(_named(one) for one in out.attachments)])


def _named(part: dict[str, Any]) -> str:
    mime = part.get("mime")
    return f"[{mime if isinstance(mime, str) else 'file'}]"


def _reasoning(part: dict[str, Any]) -> str:
    return str(part["text"])


TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "call": _arguments,
    "result": _output,
    "media": _named,
    "thinking": _reasoning,
}
"""How a person reads a part of that kind."""
