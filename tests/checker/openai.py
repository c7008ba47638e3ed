"""The rules of OpenAI Chat Completions requests and compatible wires (``hosts.md`` 6.2), numbered OAI-n.

``Incremental`` and ``check`` relate as in ``checker.anthropic``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .base import Violation, fingerprint, has_lone_surrogate, is_blank, is_filled, not_json

RULES: dict[str, str] = {
    "OAI-1": "everything is JSON: no NaN, no infinity, only text as keys",
    "OAI-2": "no text holds half a surrogate pair",
    "OAI-3": "messages is a non-empty list of objects",
    "OAI-4": "the role of a message is system, developer, user, assistant or tool",
    "OAI-5": "at most one system or developer message, and it is the first",
    "OAI-6": "the last message is a user's or a tool's; where a model takes a prefill, it may be an assistant's",
    "OAI-7": "the content of system, developer and user messages is a text or a non-empty list of parts",
    "OAI-8": "the content of a tool message is a text or a non-empty list of text parts; media has no place there",
    "OAI-9": "the content of an assistant message is absent, null, a text or a non-empty list of text or refusal parts",
    "OAI-10": "an assistant message has visible content or calls",
    "OAI-11": "no system, developer or user text and no text part is blank",
    "OAI-12": "each part of a content is of a known kind, whole, and allowed for its role",
    "OAI-13": "tool_calls, where present, is a non-empty list of functions, in an assistant message",
    "OAI-14": "call ids are non-empty texts of at most 64 characters without white space",
    "OAI-15": "call ids are unique in the request",
    "OAI-16": "the arguments of a call are a text that is a JSON object",
    "OAI-17": "the messages directly behind one with calls are tool messages that answer every call",
    "OAI-18": "each tool message answers a call of the assistant message its run of tool messages stands behind",
    "OAI-19": "a call is answered once",
    "OAI-20": "the name of a called function is well-formed",
    "OAI-21": "each tool is a function with a well-formed name; its parameters, where given, are an object",
    "OAI-22": "tool names are unique",
}

_ROLES = ("system", "developer", "user", "assistant", "tool")
_FUNCTION = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL = re.compile(r"\S{1,64}")
_PARTS = {
    "system": ("text",),
    "developer": ("text",),
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
}


class Incremental:
    """A growing request, judged message by message."""

    def __init__(self, tools: Any = None, *, prefill: bool = False) -> None:
        self.prefill = prefill
        self._start(tools)

    def _start(self, tools: Any) -> None:
        self._found: list[Violation] = []
        self._seen: list[bytes] = []
        self._head = b""
        self._count = 0
        self._last = ""
        self._ids: set[str] = set()
        self._calls: dict[str, str] = {}
        self._answered: set[str] = set()
        self._walk(tools, "tools")
        self._found += _check_tools(tools)

    def request(self, request: dict[str, Any]) -> list[Violation]:
        """Return what ``check`` returns for ``request``, at the price of what is new since the last call."""
        messages = request.get("messages")
        try:
            head = fingerprint(request.get("tools"))
            digests = [fingerprint(message) for message in messages] if isinstance(messages, list) else None
        except ValueError:
            digests = None
        if digests is None:
            return check(request, prefill=self.prefill)
        if head != self._head or digests[: len(self._seen)] != self._seen:
            self._start(request.get("tools"))
            self._head = head
        assert isinstance(messages, list)
        for message, digest in zip(messages[len(self._seen) :], digests[len(self._seen) :], strict=True):
            self.feed(message)
            self._seen.append(digest)
        return self.verdict()

    def feed(self, message: Any) -> None:
        """Take the next message."""
        where = f"messages[{self._count}]"
        self._count += 1
        self._walk(message, where)
        if not isinstance(message, dict):
            self._add("OAI-3", where, "a message is an object")
            return
        role = message.get("role")
        if role not in _ROLES:
            self._add("OAI-4", where, f"the role {role!r} is unknown")
            return
        if role in ("system", "developer") and self._last:
            self._add("OAI-5", where, "a system message behind the first message")
        self._last = role
        if role == "tool":
            self._tool(message, where)
        else:
            self._found += self._unanswered()
            self._calls, self._answered = {}, set()
        if role == "assistant":
            self._assistant(message, where)
        else:
            if "tool_calls" in message:
                self._add("OAI-13", where, f"tool_calls in a message of the {role}")
            if role != "tool":
                self._found += _content(message.get("content"), role, "OAI-7", where)
                if is_blank(message.get("content")):
                    self._add("OAI-11", where, "the content is blank")

    def verdict(self) -> list[Violation]:
        """Return every violation of the request that ends with the message fed last."""
        found = list(self._found)
        if not self._count:
            found.append(Violation("OAI-3", "messages", "there is no message"))
        elif self._last and self._last not in ("user", "tool") and not (self.prefill and self._last == "assistant"):
            found.append(Violation("OAI-6", f"messages[{self._count - 1}]", f"the last message is the {self._last}'s"))
        return [*found, *self._unanswered()]

    def _add(self, rule: str, where: str, message: str) -> None:
        self._found.append(Violation(rule, where, message))

    def _walk(self, value: Any, where: str) -> None:
        self._found += [Violation("OAI-1", where, line) for line in not_json(value, where)]
        if has_lone_surrogate(value):
            self._add("OAI-2", where, "half a surrogate pair")

    def _unanswered(self) -> list[Violation]:
        missing = [(call, place) for call, place in self._calls.items() if call not in self._answered]
        return [Violation("OAI-17", place, f"no answer to {call!r} directly behind it") for call, place in missing]

    def _tool(self, message: dict[str, Any], where: str) -> None:
        content = message.get("content")
        if isinstance(content, list) and content:
            for index, part in enumerate(content):
                place = f"{where}.content[{index}]"
                if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                    self._add("OAI-8", place, "a tool message holds text only")
                elif is_blank(part["text"]):
                    self._add("OAI-11", place, "the text is blank")
        elif not isinstance(content, str):
            self._add("OAI-8", where, "the content of a tool message is a text")
        call = message.get("tool_call_id")
        if not isinstance(call, str) or call not in self._calls:
            self._add("OAI-18", where, f"no call {call!r} directly before")
        elif call in self._answered:
            self._add("OAI-19", where, f"the call {call!r} is answered twice")
        else:
            self._answered.add(call)

    def _assistant(self, message: dict[str, Any], where: str) -> None:
        content, calls = message.get("content"), message.get("tool_calls")
        if content is not None:
            self._found += _content(content, "assistant", "OAI-9", where)
        if calls is None and (content is None or content == [] or is_blank(content)):
            self._add("OAI-10", where, "neither visible content nor calls")
        if calls is None:
            return
        if not isinstance(calls, list) or not calls:
            self._add("OAI-13", where, "tool_calls is no list of calls, or empty")
            return
        for index, call in enumerate(calls):
            self._call(call, f"{where}.tool_calls[{index}]")

    def _call(self, call: Any, where: str) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type") != "function":
            self._add("OAI-13", where, "a call is {id, type: function, function}")
        if not isinstance(call, dict):
            return
        if isinstance(function, dict):
            name = function.get("name")
            if not isinstance(name, str) or _FUNCTION.fullmatch(name) is None:
                self._add("OAI-20", where, f"the function name {name!r} is malformed")
            if not _is_object(function.get("arguments")):
                self._add("OAI-16", where, "the arguments are no text that is a JSON object")
        identity = call.get("id")
        if not isinstance(identity, str) or _CALL.fullmatch(identity) is None:
            self._add("OAI-14", where, f"the call id {str(identity)[:80]!r} is malformed")
        if isinstance(identity, str):
            if identity in self._ids:
                self._add("OAI-15", where, f"the call id {identity!r} was used before")
            self._ids.add(identity)
            self._calls[identity] = where


def check(request: dict[str, Any], *, prefill: bool = False) -> list[Violation]:
    """Return every violation of ``request`` (``tools``, ``messages``; other members are not judged)."""
    state = Incremental(request.get("tools"), prefill=prefill)
    messages = request.get("messages")
    if not isinstance(messages, list):
        return [*state.verdict()[:-1], Violation("OAI-3", "messages", "messages is no list")]
    for message in messages:
        state.feed(message)
    return state.verdict()


def _is_object(arguments: Any) -> bool:
    if not isinstance(arguments, str):
        return False
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _content(content: Any, role: str, rule: str, where: str) -> list[Violation]:
    if isinstance(content, str):
        return []
    if not isinstance(content, list) or not content:
        return [Violation(rule, where, f"the content of the {role} is neither a text nor a list of parts")]
    found: list[Violation] = []
    for index, part in enumerate(content):
        place = f"{where}.content[{index}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _PARTS[role] or not _is_whole(part, str(kind)):
            found.append(Violation("OAI-12", place, f"{kind!r} is unknown, not whole, or not for the {role}"))
        elif kind == "text" and is_blank(part["text"]):
            found.append(Violation("OAI-11", place, "the text is blank"))
    return found


def _is_whole(part: dict[str, Any], kind: str) -> bool:
    if kind == "image_url":
        image = part.get("image_url")
        return isinstance(image, dict) and is_filled(image.get("url")) and not image["url"].endswith(";base64,")
    if kind == "input_audio":
        audio = part.get("input_audio")
        return isinstance(audio, dict) and is_filled(audio.get("data")) and is_filled(audio.get("format"))
    if kind == "file":
        return isinstance(part.get("file"), dict) and bool(part["file"])
    return isinstance(part.get(kind), str)


def _check_tools(tools: Any) -> list[Violation]:
    if tools is None:
        return []
    if not isinstance(tools, list):
        return [Violation("OAI-21", "tools", "tools is no list")]
    found: list[Violation] = []
    names: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        function = tool.get("function") if isinstance(tool, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function" or not isinstance(name, str):
            found.append(Violation("OAI-21", where, "a tool is {type: function, function: {name}}"))
            continue
        if _FUNCTION.fullmatch(name) is None or not isinstance(function.get("parameters", {}), dict):
            found.append(Violation("OAI-21", where, f"the tool {name!r} has a malformed name or parameters"))
        if name in names:
            found.append(Violation("OAI-22", where, f"a second tool is named {name}"))
        names.add(name)
    return found
