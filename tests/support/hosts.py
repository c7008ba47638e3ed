"""One conversation in the messages of every host: neutral rounds, and a writer for each codec.

A round is what the model answers and what it gets back. A further host joins with a line in ``WRITERS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from foldlog.adapters.traces import shapes
from foldlog.adapters.traces.model import Codec, Trace
from foldlog.adapters.traces.shapes import Called, Returned, Said, Shown, Thought

Raws = tuple[bytes, ...]
Labels = tuple[str, ...]


@dataclass(frozen=True)
class Round:
    """``thoughts``, ``text`` and ``calls`` of an answer, the ``results`` of its calls, and what a person ``asked``."""

    number: int
    at: int
    thoughts: tuple[Thought, ...]
    text: str
    calls: tuple[Called, ...]
    results: tuple[Returned, ...]
    asked: tuple[Said | Shown, ...]

    @property
    def said(self) -> list[Said | Thought | Called]:
        """The answer's parts in order; none in the opening."""
        return [*self.thoughts, *([Said(self.text)] if self.text.strip() else []), *self.calls]


@dataclass(frozen=True)
class Written:
    """The messages of a round, and the name of each numbered part in the order of its numbers."""

    messages: Raws
    labels: Labels


def rounds_of(trace: Trace) -> list[Round]:
    """Return a trace in Anthropic's form as rounds, the opening first. The texts of one answer are joined."""
    found: list[Round] = []
    for step in trace.steps:
        said: list[dict[str, Any]] = []
        given: list[dict[str, Any]] = []
        for raw in step.messages:
            message = msgspec.json.decode(raw)
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            (said if message["role"] == "assistant" else given).extend(blocks)
        found.append(_round(len(found), step.at, said, given))
    return found


def _round(number: int, at: int, said: list[dict[str, Any]], given: list[dict[str, Any]]) -> Round:
    names = {one["id"]: one["name"] for one in said if one["type"] == "tool_use"}
    results = {one["tool_use_id"]: one for one in given if one["type"] == "tool_result"}
    thoughts = [Thought(b["thinking"], b.get("signature", "")) for b in said if b["type"] == "thinking"]
    return Round(
        number,
        at,
        tuple(thoughts[:1]),  # hosts that hold one field for it hold one
        "\n\n".join(one["text"] for one in said if one["type"] == "text" and one["text"].strip()),
        tuple(Called(i, name, next(b["input"] for b in said if b.get("id") == i)) for i, name in names.items()),
        tuple(_returned(i, name, results.get(i)) for i, name in names.items()),
        tuple(_asked(one) for one in given if one["type"] == "image" or one.get("text", "").strip()),
    )


def _returned(id: str, name: str, block: dict[str, Any] | None) -> Returned:
    content = block.get("content", "") if block is not None else "no result"
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = "\n".join(one["text"] for one in blocks if one["type"] == "text")
    picture = next((one["source"]["data"] for one in blocks if one["type"] == "image"), "")
    return Returned(id, name, text, bool(block and block.get("is_error")), picture)


def _asked(block: dict[str, Any]) -> Said | Shown:
    return Said(block["text"]) if block["type"] == "text" else Shown(block["source"]["data"])


def _labels(one: Round) -> list[str]:
    """Return the names of a round's numbered parts, where the host keeps them as they are."""
    named = [f"{one.number}.text"] if one.text.strip() else []
    named += [f"{one.number}.result{i}" for i in range(len(one.results))]
    kinds = ("text" if isinstance(part, Said) else "file" for part in one.asked)
    return [*named, *(f"{one.number}.asked{i}.{kind}" for i, kind in enumerate(kinds))]


def _plain(codec: Codec) -> Callable[[Round, Callable[[str], int]], Written]:
    def write(one: Round, count: Callable[[str], int]) -> Written:
        messages: list[bytes] = []
        if one.said:
            messages += shapes.assistant(codec, one.said, "claude", one.at, {}).messages
        if one.results or one.asked:
            messages += shapes.given(codec, [*one.results], [*one.asked], one.at).messages
        return Written(tuple(messages), tuple(_labels(one)))

    return write


def _responses(one: Round, count: Callable[[str], int]) -> Written:
    """As many characters of encrypted reasoning as are counted like the words it stands for."""
    sealed = tuple(Thought(t.text, "x" * ((16 * count(t.text) + 2) // 3)) for t in one.thoughts)
    return _plain("openai-responses")(
        Round(one.number, one.at, sealed, one.text, one.calls, one.results, one.asked), count
    )


def _chat(one: Round, count: Callable[[str], int]) -> Written:
    """Reasoning is a member of the answer; a picture of a tool's follows its results in a message of the user."""
    written = _plain("openai-chat")(one, count)
    messages = list(written.messages)
    if one.said:
        answer = msgspec.json.decode(messages[0])
        reasoning = {"reasoning_content": one.thoughts[0].text} if one.thoughts else {}
        messages[0] = msgspec.json.encode({**answer, **reasoning})
    labels = list(written.labels)
    shown = [f"{one.number}.picture{i}" for i, result in enumerate(one.results) if result.picture]
    if shown:
        place = bool(one.text.strip()) + len(one.results)
        labels[place:place] = [f"{one.number}.pictures", *shown]
    return Written(tuple(messages), tuple(labels))


def _opencode(one: Round, count: Callable[[str], int]) -> Written:
    """A call and its result are one part of the answer."""
    messages: list[bytes] = []
    if one.said:
        parts: list[dict[str, Any]] = [
            {"type": "reasoning", "text": t.text, "metadata": {"anthropic": {"signature": t.signature}}}
            for t in one.thoughts
        ]
        parts += [{"type": "text", "text": one.text}] if one.text.strip() else []
        parts += [_tool(call, result) for call, result in zip(one.calls, one.results, strict=True)]
        messages.append(_message(one, "assistant", parts))
    if one.asked:
        asked = [{"type": "text", "text": p.text} if isinstance(p, Said) else _file(p.data) for p in one.asked]
        messages.append(_message(one, "user", asked))
    return Written(tuple(messages), tuple(_labels(one)))


def _message(one: Round, role: str, parts: list[dict[str, Any]]) -> bytes:
    info = {"id": f"msg_{one.number:05}_{role}", "role": role, "time": {"created": one.at}}
    return msgspec.json.encode({"info": info, "parts": parts})


def _tool(call: Called, result: Returned) -> dict[str, Any]:
    state: dict[str, Any] = {"status": "error" if result.error else "completed", "input": call.input}
    state["error" if result.error else "output"] = result.text
    if result.picture and not result.error:
        state["attachments"] = [_file(result.picture)]
    return {"type": "tool", "callID": call.id, "tool": call.name, "state": state}


def _file(data: str) -> dict[str, Any]:
    return {"type": "file", "mime": "image/png", "url": f"data:image/png;base64,{data}"}


WRITERS: dict[str, Callable[[Round, Callable[[str], int]], Written]] = {
    "anthropic": _plain("anthropic"),
    "openai-chat": _chat,
    "openai-responses": _responses,
    "pi": _plain("pi"),
    "opencode": _opencode,
}
"""By codec. The first is the one the others are held against."""
