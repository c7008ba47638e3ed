"""Messages in the Anthropic shape: blocks sifted, calls paired, neighbours merged (TRACE-5 to TRACE-10)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .model import Usage
from .parse import blocks_of, decode, items, split, text_of
from .rounds import Ignored, Record, pair, starting_with_input

INTERRUPTED = "[Request interrupted by user for tool use]"
NO_RESULT = "No result provided"


def content(raw: bytes) -> tuple[list[bytes], bytes]:
    """Return a message's content blocks as raw texts, and the content itself where it was a plain string."""
    if raw[:1] == b'"':
        return [b'{"type":"text","text":' + raw + b"}"], raw
    return items(raw), b""


def _is_blank(block: dict[str, Any]) -> bool:
    return block.get("type") == "text" and not text_of(block.get("text")).strip()


def _without_blanks(raw: bytes, block: dict[str, Any], ignored: Ignored) -> bytes:
    """Take blank texts out of a tool result's content; its other bytes stay."""
    inner = block.get("content")
    if not any(_is_blank(one) for one in blocks_of(inner)):
        return raw
    ignored["blank text"] += sum(map(_is_blank, blocks_of(inner)))
    fields = split(raw)
    kept = [one for one in items(fields["content"]) if not _is_blank(decode(one))]
    fields["content"] = b"[" + b",".join(kept) + b"]" if kept else b'""'
    return b"{" + b",".join(msgspec.json.encode(key) + b":" + value for key, value in fields.items()) + b"}"


def answer(
    kind: Literal["answer", "host"],
    blocks: list[bytes],
    ignored: Ignored,
    *,
    text: bytes = b"",
    line: int = 0,
    at: int = 0,
    model: str = "",
    usage: Usage | None = None,
) -> Record | None:
    """Sift an assistant message; None if nothing is left that its host would send back."""
    kept: list[bytes] = []
    calls: list[str] = []
    speaks = False
    for raw in blocks:
        block = decode(raw)
        if not isinstance(block, dict) or _is_blank(block):
            ignored["blank text"] += 1
            continue
        if block.get("type") == "thinking" and not text_of(block.get("signature")):
            ignored["unsigned thinking"] += 1
            continue
        if block.get("type") == "tool_use":
            calls.append(text_of(block.get("id")))
        speaks = speaks or block.get("type") not in ("thinking", "redacted_thinking")
        kept.append(raw)
    if not speaks:
        ignored["answer with nothing left"] += 1
        return None
    whole = text if len(kept) == 1 else b""
    return Record(kind, line, at, blocks=tuple(kept), text=whole, calls=tuple(calls), model=model, usage=usage)


def spoken(raw: bytes, ignored: Ignored, *, line: int = 0, at: int = 0) -> list[Record]:
    """Take a user message apart: one record for each tool result, one for the rest."""
    blocks, text = content(raw)
    records: list[Record] = []
    rest: list[bytes] = []
    for one in blocks:
        block = decode(one)
        if not isinstance(block, dict) or _is_blank(block):
            ignored["blank text"] += 1
        elif block.get("type") == "tool_result":
            kept = _without_blanks(one, block, ignored)
            records.append(Record("result", line, at, blocks=(kept,), of=text_of(block.get("tool_use_id"))))
        else:
            rest.append(one)
    if rest:
        records.append(Record("said", line, at, blocks=tuple(rest), text=text))
    return records


def closing(words: str) -> Any:
    """Return what closes a call of this host that was never answered: an error result with its words."""

    def close(record: Record, call: str) -> Record:
        block = {"type": "tool_result", "tool_use_id": call, "content": words, "is_error": True}
        return Record("result", record.line, record.at, blocks=(msgspec.json.encode(block),), of=call)

    return close


def _message(role: str, blocks: list[bytes], text: bytes) -> bytes:
    body = text if text and len(blocks) == 1 else b"[" + b",".join(blocks) + b"]"
    return b'{"role":"' + role.encode() + b'","content":' + body + b"}"


def arrange(records: list[Record], words: str, ignored: Ignored, *, drop_last: bool = False) -> list[Record]:
    """Pair calls with results and merge neighbours of one role, results first; each record gets its whole message."""
    out: list[Record] = []
    paired = pair(starting_with_input(records, ignored), closing(words), ignored, unique=True, drop_last=drop_last)
    for record in paired:
        speaker = "assistant" if record.kind in ("answer", "host") else "user"
        joins = bool(out) and (out[-1].kind in ("answer", "host")) == (speaker == "assistant")
        if joins and speaker == "assistant":
            # a host's own message may follow an answer, and a model may go on without input: one turn for the provider
            kind: Literal["answer", "host"] = "answer" if "answer" in (out[-1].kind, record.kind) else "host"
            ignored["assistant message joined to the one before"] += 1
            out[-1] = msgspec.structs.replace(out[-1], kind=kind, blocks=out[-1].blocks + record.blocks, text=b"")
        elif joins:
            out[-1] = msgspec.structs.replace(
                out[-1],
                at=_later(out[-1], record),
                line=max(out[-1].line, record.line),
                blocks=out[-1].blocks + record.blocks,
                text=b"",
            )
        else:
            kind_now = record.kind if speaker == "assistant" else "said"
            out.append(msgspec.structs.replace(record, kind=kind_now))
    for record in filter(lambda one: one.blocks, out):
        role = "assistant" if record.kind in ("answer", "host") else "user"
        record.raw = _message(role, list(record.blocks), record.text)
    return out


def _later(one: Record, two: Record) -> int:
    """The time of that line of the two which stands later in the file and has a time."""
    first, second = sorted((one, two), key=lambda record: record.line)
    return second.at or first.at
