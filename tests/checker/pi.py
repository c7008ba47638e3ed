"""What Pi sends for its AgentMessages on an Anthropic model (``hosts.md`` 3.1 to 3.3; pairs of hook and wire samples).

``check`` judges the AgentMessages themselves (PI-n: their shapes) and the request they become (ANT-n).
"""

from __future__ import annotations

import re
from typing import Any

from . import anthropic
from .base import Violation, is_blank, is_filled

RULES: dict[str, str] = {
    "PI-1": "a message is an object with a known role",
    "PI-2": "each message has the members of its role, of the right types",
    "PI-3": "each part of a content is of a kind its role may hold, with its members",
}

_TEXTS: dict[str, tuple[str, ...]] = {
    "toolResult": ("toolCallId", "toolName"),
    "bashExecution": ("command", "output"),
    "branchSummary": ("summary",),
    "compactionSummary": ("summary",),
    "custom": ("customType",),
}
_PARTS: dict[str, dict[str, dict[str, type]]] = {
    "input": {"text": {"text": str}, "image": {"data": str, "mimeType": str}},
    "assistant": {
        "text": {"text": str},
        "thinking": {"thinking": str},
        "toolCall": {"id": str, "name": str, "arguments": dict},
    },
}
_COMPACTED = "The conversation history before this point was compacted into the following summary:"
_BRANCH = "The following is a summary of a branch that this conversation came back from:"
_NO_RESULT = "No result provided"


def check(messages: Any, system: str = "", *, model: str | None = None) -> list[Violation]:
    """Return every violation of ``messages``: of their shapes, and, if these hold, of the request Pi makes of them."""
    found = _shapes(messages)
    return found or anthropic.check(to_anthropic(messages, system, model=model))


def to_anthropic(messages: list[dict[str, Any]], system: str = "", *, model: str | None = None) -> dict[str, Any]:
    """Return the Anthropic request (``messages``, ``system`` if any, ``model`` if given) that Pi makes of ``messages``.

    Cache marks and tools are left out. With ``model``, thinking of another model becomes text, as foreign blocks do.
    Nothing is repaired that Pi does not repair: an orphan result, a repeated id or half a surrogate pair stays visible.
    """
    wire: list[dict[str, Any]] = []
    state = Converter(model=model)
    for message in messages:
        wire += state.take(message)
    wire += state.close()
    request: dict[str, Any] = {"messages": wire}
    if system:
        request["system"] = [{"type": "text", "text": system}]
    if model is not None:
        request["model"] = model
    return request


class Converter:
    """Turns AgentMessages into wire messages one at a time; what it gave out it never changes.

    Results wait until the turn of results is over, so that they share one user message.
    """

    def __init__(self, *, model: str | None = None) -> None:
        self._model = model
        self._open: list[str] = []  # calls without a result yet
        self._results: list[dict[str, Any]] = []
        self._renamed: dict[str, str] = {}

    def take(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the wire messages that are settled now that ``message`` has come."""
        role = message["role"]
        if role == "toolResult":
            call = self._renamed.get(message["toolCallId"], message["toolCallId"])
            if call in self._open:
                self._open.remove(call)
            self._results.append(
                {
                    "type": "tool_result",
                    "tool_use_id": call,
                    "content": _result(message["content"]),
                    "is_error": message.get("isError", False),
                }
            )
            return []
        if role == "assistant":
            if message.get("stopReason") in ("error", "aborted"):
                return []
            content = self._assistant(message)
            given = self.close()
            self._open = [block["id"] for block in content if block["type"] == "tool_use"]
            return [*given, {"role": "assistant", "content": content}] if content else given
        content_of_user = _user(message)
        if not content_of_user:
            return []
        return [*self.close(), {"role": "user", "content": content_of_user}]

    def close(self) -> list[dict[str, Any]]:
        """Return the waiting results, with an error result for each call that has none."""
        for call in self._open:
            self._results.append({"type": "tool_result", "tool_use_id": call, "content": _NO_RESULT, "is_error": True})
        results, self._results, self._open = self._results, [], []
        return [{"role": "user", "content": results}] if results else []

    def _assistant(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        foreign = self._model is not None and message.get("model") not in (None, self._model)
        other_wire = message.get("api") not in (None, "anthropic-messages")
        content: list[dict[str, Any]] = []
        for part in message["content"]:
            kind = part["type"]
            if kind == "text" and not is_blank(part["text"]):
                content.append({"type": "text", "text": part["text"]})
            elif kind == "thinking":
                content += _thinking(part, foreign or other_wire)
            elif kind == "toolCall":
                call = part["id"]
                if other_wire:  # ids of other providers have characters and lengths this one refuses
                    call = self._renamed[part["id"]] = re.sub(r"[^a-zA-Z0-9_-]", "_", part["id"])[:64]
                content.append({"type": "tool_use", "id": call, "name": part["name"], "input": part["arguments"]})
        return content


def _thinking(part: dict[str, Any], foreign: bool) -> list[dict[str, Any]]:
    signature = part.get("thinkingSignature")
    if part.get("redacted"):
        return [] if foreign or not signature else [{"type": "redacted_thinking", "data": signature}]
    if is_blank(part["thinking"]):
        return []
    if foreign or not is_filled(signature):
        return [{"type": "text", "text": part["thinking"]}]
    return [{"type": "thinking", "thinking": part["thinking"], "signature": signature}]


def _blocks(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if part["type"] == "image":
            source = {"type": "base64", "media_type": part["mimeType"], "data": part["data"]}
            blocks.append({"type": "image", "source": source})
        elif not is_blank(part["text"]):
            blocks.append({"type": "text", "text": part["text"]})
    return blocks


def _result(parts: list[dict[str, Any]]) -> Any:
    if any(part["type"] == "image" for part in parts):
        return _blocks(parts)
    return "\n".join(part["text"] for part in parts)


def _user(message: dict[str, Any]) -> list[dict[str, Any]]:
    role = message["role"]
    if role == "bashExecution":
        return [] if message.get("excludeFromContext") else [{"type": "text", "text": _bash(message)}]
    if role in ("branchSummary", "compactionSummary"):
        opening = _COMPACTED if role == "compactionSummary" else _BRANCH
        return [{"type": "text", "text": f"{opening}\n\n<summary>\n{message['summary']}\n</summary>"}]
    content = message["content"]
    return _blocks([{"type": "text", "text": content}] if isinstance(content, str) else content)


def _bash(message: dict[str, Any]) -> str:
    lines = [f"Ran `{message['command']}`"]
    lines.append(f"```\n{message['output']}\n```" if message["output"] else "(no output)")
    if message.get("cancelled"):
        lines.append("\n(command cancelled)")
    elif message.get("exitCode"):
        lines.append(f"\nCommand exited with code {message['exitCode']}")
    if message.get("truncated") and message.get("fullOutputPath"):
        lines.append(f"\n[Output truncated. Full output: {message['fullOutputPath']}]")
    return "\n".join(lines)


def _shapes(messages: Any) -> list[Violation]:
    if not isinstance(messages, list):
        return [Violation("PI-1", "messages", "messages is no list")]
    found: list[Violation] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant", *_TEXTS):
            found.append(Violation("PI-1", where, f"the role {role!r} is unknown"))
            continue
        for name in _TEXTS.get(role, ()):
            if not isinstance(message.get(name), str):
                found.append(Violation("PI-2", where, f"{role} needs {name}"))
        if role == "toolResult" and not isinstance(message.get("isError"), bool):
            found.append(Violation("PI-2", where, "toolResult needs isError"))
        if role == "assistant" and not isinstance(message.get("stopReason"), str):
            found.append(Violation("PI-2", where, "assistant needs stopReason"))
        if role in ("user", "assistant", "toolResult", "custom"):
            found += _parts(message.get("content"), role, where)
    return found


def _parts(content: Any, role: str, where: str) -> list[Violation]:
    if isinstance(content, str) and role in ("user", "custom"):
        return []
    if not isinstance(content, list):
        return [Violation("PI-2", where, f"the content of {role} is no list")]
    kinds = _PARTS["assistant" if role == "assistant" else "input"]
    found: list[Violation] = []
    for index, part in enumerate(content):
        place = f"{where}.content[{index}]"
        members = kinds.get(str(part.get("type"))) if isinstance(part, dict) else None
        if members is None:
            found.append(Violation("PI-3", place, f"{role} cannot hold this part"))
            continue
        found += [
            Violation("PI-3", place, f"{part['type']} needs {name}")
            for name, form in members.items()
            if not isinstance(part.get(name), form)
        ]
    return found
