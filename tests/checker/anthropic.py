"""The rules of Anthropic Messages requests (``hosts.md`` 6.1), as ``specs/provider-rules.md`` numbers them (ANT-n).

``check`` judges one request; ``Incremental`` judges a growing one by looking only at what is new. Both run the same
code, message by message, so they cannot disagree.
"""

from __future__ import annotations

from typing import Any

from .anthropic_blocks import Marks, check_block, check_system, check_tools
from .base import Violation, fingerprint, has_lone_surrogate, is_blank, not_json

RULES: dict[str, str] = {
    "ANT-1": "everything is JSON: no NaN, no infinity, only text as keys",
    "ANT-2": "no text holds half a surrogate pair",
    "ANT-3": "messages is a non-empty list of objects with the members role and content and no others; "
    "a system message may say output_config and clear_at",
    "ANT-4": "the role of a message is user, assistant or system",
    "ANT-5": "the first message is a user message",
    "ANT-6": "the last message is a user message; where a model takes a prefill, it may be an assistant's "
    "that does not end in white space",
    "ANT-7": "content is a text or a list of objects",
    "ANT-8": "only a final assistant message may be empty",
    "ANT-9": "no text block, string content or system text is blank",
    "ANT-10": "each block is of a known type with its required members, of the right types, and no foreign ones",
    "ANT-11": "each block stands in a message of a role that may hold it",
    "ANT-12": "call ids match ^[a-zA-Z0-9_-]+$ and have at most 64 characters",
    "ANT-13": "call ids are unique in the request",
    "ANT-14": "each call is answered in the very next user turn",
    "ANT-15": "each result answers a call of the assistant turn just before it",
    "ANT-16": "a call is answered once",
    "ANT-17": "results stand before every other block of their turn",
    "ANT-18": "thinking is whole: text and signature, or the data of a redacted block, all non-empty",
    "ANT-19": "an assistant turn holds thinking only as one run at the head of its first message "
    "(or just behind a server tool's result)",
    "ANT-20": "at most four cache marks",
    "ANT-21": "marks of one hour stand before marks of five minutes",
    "ANT-22": "a mark is {type: ephemeral} with no ttl, 5m or 1h",
    "ANT-23": "no mark on thinking or on blank text",
    "ANT-24": "images and documents have a whole source: media type and base64 data, a URL, or text",
    "ANT-25": "a result's content is absent, a text, or a list of text, image, document, search result "
    "or tool reference",
    "ANT-26": "each tool has a well-formed name and, unless the provider's own, an object as input schema",
    "ANT-27": "tool names are unique",
    "ANT-28": "the name in a call is well-formed",
    "ANT-29": "the arguments of a call are an object",
    "ANT-30": "system is absent, a text, or a list of text blocks",
    "ANT-33": "a system message stands directly behind a user message, ends the request or stands before an "
    "assistant's, and holds text",
}

_BESIDE_SYSTEM = {"output_config", "clear_at"}
"""What a system message may carry beside its text: it changes the effort, or is there for one turn."""


class Incremental:
    """A growing request: ``feed`` each new message, ``verdict`` gives what is wrong with the request up to here.

    ``verdict`` changes nothing, so it may be asked after each message. ``request`` is the door for whole requests that
    mostly extend the last one: it compares digests of messages and feeds what is new, or starts anew.
    """

    def __init__(self, system: Any = None, tools: Any = None, *, prefill: bool = False) -> None:
        self.prefill = prefill
        self._start(system, tools)

    def _start(self, system: Any, tools: Any) -> None:
        self._found: list[Violation] = []
        self._marks = Marks()
        self._seen: list[bytes] = []
        self._head = b""
        self._count = 0
        self._ids: set[str] = set()
        self._turn = ""  # role of the merged turn that is open
        self._opened = False  # the open assistant turn already has a message with blocks
        self._calls: dict[str, str] = {}  # calls of the newest assistant turn: id -> place
        self._answered: set[str] = set()
        self._results_over = False  # the open user turn already has another block than results
        self._last: tuple[str, Any] = ("", None)
        self._empty = ""  # place of an empty assistant message that is fine only if it stays last
        for part, name in ((tools, "tools"), (system, "system")):  # tools stand first in the cached prefix
            self._walk(part, name)
        self._found += check_tools(tools, self._marks)
        self._found += check_system(system, self._marks)

    def request(self, request: dict[str, Any]) -> list[Violation]:
        """Return what ``check`` returns for ``request``, at the price of what is new since the last call."""
        messages = request.get("messages")
        try:
            head = fingerprint([request.get("system"), request.get("tools")])
            digests = [fingerprint(message) for message in messages] if isinstance(messages, list) else None
        except ValueError:
            digests = None
        if digests is None:
            return check(request, prefill=self.prefill)
        if head != self._head or digests[: len(self._seen)] != self._seen:
            self._start(request.get("system"), request.get("tools"))
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
            self._add("ANT-3", where, "a message is an object")
            return
        beside = _BESIDE_SYSTEM if message.get("role") == "system" else set()
        if set(message) - beside != {"role", "content"}:
            self._add("ANT-3", where, f"a message has role and content, not {sorted(map(str, message))}")
        role = message.get("role")
        if role not in ("user", "assistant", "system"):
            self._add("ANT-4", where, f"the role {role!r} is unknown")
            return
        if self._last[0] == "system" and role != "assistant":
            self._add("ANT-33", where, f"a message of the {role} behind a system message")
        if not self._last[0] and role != "user":
            self._add("ANT-5", where, "the first message is the assistant's")
        if self._empty:
            self._add("ANT-8", self._empty, "the message is empty and not the last")
            self._empty = ""
        content = message.get("content")
        if role == "system":
            self._system(content, where)
            return
        self._last = (role, content)
        if role != self._turn:
            self._open_turn(role)
        self._content(role, content, where)

    def verdict(self) -> list[Violation]:
        """Return every violation of the request that ends with the message fed last."""
        found = [*self._found, *self._marks.violations()]
        if not self._count:
            found.append(Violation("ANT-3", "messages", "there is no message"))
        role, content = self._last
        end = f"messages[{self._count - 1}]"
        if role == "assistant":
            if not self.prefill:
                found.append(Violation("ANT-6", end, "the last message is the assistant's"))
            elif _ends_in_space(content):
                found.append(Violation("ANT-6", end, "the last assistant message ends in white space"))
        found += self._unanswered()
        return found

    def _add(self, rule: str, where: str, message: str) -> None:
        self._found.append(Violation(rule, where, message))

    def _system(self, content: Any, where: str) -> None:
        """Take instructions in the middle; the turns on both sides are what they are without them."""
        if self._last[0] != "user":
            self._add("ANT-33", where, "a system message that is not directly behind a user message")
        self._last = ("system", content)
        self._found += check_system(content or [], self._marks, where, "ANT-33")
        if not content:
            self._add("ANT-33", where, "the system message is empty")

    def _walk(self, value: Any, where: str) -> None:
        self._found += [Violation("ANT-1", where, line) for line in not_json(value, where)]
        if has_lone_surrogate(value):
            self._add("ANT-2", where, "half a surrogate pair")

    def _unanswered(self) -> list[Violation]:
        missing = [(call, place) for call, place in self._calls.items() if call not in self._answered]
        return [Violation("ANT-14", place, f"no answer to {call!r} in the next turn") for call, place in missing]

    def _open_turn(self, role: str) -> None:
        if role == "assistant":
            self._found += self._unanswered()
            self._calls = {}
            self._opened = False
        self._answered = set()
        self._results_over = False
        self._turn = role

    def _content(self, role: str, content: Any, where: str) -> None:
        if isinstance(content, str):
            if not content and role == "assistant":
                self._empty = where
            elif is_blank(content):
                self._add("ANT-9", where, "the content is blank")
            self._results_over = True
            self._opened = self._opened or bool(content)
            return
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            self._add("ANT-7", where, "the content is neither a text nor a list of blocks")
            return
        if not content:
            if role == "assistant":
                self._empty = where
            else:
                self._add("ANT-8", where, "the message is empty")
            return
        may_think = not self._opened
        self._opened = True
        for index, block in enumerate(content):
            place = f"{where}.content[{index}]"
            kind = block.get("type")
            self._found += check_block(block, role, place, self._marks)
            if kind in ("thinking", "redacted_thinking"):
                if not may_think and role == "assistant":
                    self._add("ANT-19", place, "thinking behind the head of its turn")
            else:
                may_think = isinstance(kind, str) and kind != "tool_result" and kind.endswith("_tool_result")
            if role == "assistant" and kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
                self._call(block, place, answered_here=kind != "tool_use")
            if role == "user":
                if kind == "tool_result":
                    self._result(block, place)
                else:
                    self._results_over = True

    def _call(self, block: dict[str, Any], place: str, *, answered_here: bool) -> None:
        call = block.get("id")
        if not isinstance(call, str):
            return
        if call in self._ids:
            self._add("ANT-13", place, f"the call id {call!r} was used before")
        self._ids.add(call)
        if not answered_here:
            self._calls[call] = place

    def _result(self, block: dict[str, Any], place: str) -> None:
        call = block.get("tool_use_id")
        if self._results_over:
            self._add("ANT-17", place, "a result behind another block of its turn")
        if not isinstance(call, str):
            return
        if call not in self._calls:
            self._add("ANT-15", place, f"no call {call!r} in the turn before")
        elif call in self._answered:
            self._add("ANT-16", place, f"the call {call!r} is answered twice")
        self._answered.add(call)


def check(request: dict[str, Any], *, prefill: bool = False) -> list[Violation]:
    """Return every violation of ``request`` (``system``, ``tools``, ``messages``; other members are not judged).

    ``prefill`` says whether the model takes a trailing assistant message. The cost is linear in the request.
    """
    state = Incremental(request.get("system"), request.get("tools"), prefill=prefill)
    messages = request.get("messages")
    if not isinstance(messages, list):
        return [*state.verdict()[:-1], Violation("ANT-3", "messages", "messages is no list")]
    for message in messages:
        state.feed(message)
    return state.verdict()


def _ends_in_space(content: Any) -> bool:
    if isinstance(content, list) and content and isinstance(content[-1], dict):
        content = content[-1].get("text")
    return isinstance(content, str) and bool(content) and content != content.rstrip()
