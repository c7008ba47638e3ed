"""The rules of OpenAI Responses requests (``hosts.md`` 6.3), numbered RESP-n.

``Incremental`` and ``check`` relate as in ``checker.anthropic``; ``check_against`` judges a request beside the raw one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .base import Violation, fingerprint, has_lone_surrogate, is_filled, not_json

RULES: dict[str, str] = {
    "RESP-1": "everything is JSON: no NaN, no infinity, only text as keys",
    "RESP-2": "no text holds half a surrogate pair",
    "RESP-3": "input is a text, or a non-empty list of objects",
    "RESP-4": "each item is of a known type and has the members of its type",
    "RESP-5": "the role of a message is user, assistant, system or developer",
    "RESP-6": "the content of a message is a text or a non-empty list of parts",
    "RESP-7": "each part of a content is of a known kind, whole, and allowed for its role",
    "RESP-8": "call ids are non-empty texts of at most 64 characters without white space",
    "RESP-9": "call ids are unique in the request",
    "RESP-10": "each call has an output behind it",
    "RESP-11": "each output answers a call before it",
    "RESP-12": "a call is answered once",
    "RESP-13": "an output is of the kind of its call",
    "RESP-14": "a reasoning item is followed by an item of the same answer: a message of the assistant or a call",
    "RESP-15": "item ids are non-empty texts of at most 64 characters, unique in the request",
    "RESP-16": "the arguments of a function call are a text that is a JSON object; a custom tool's input is a text",
    "RESP-17": "the output of a function or custom tool is a text or a list of whole text, image and file parts",
    "RESP-18": "the name of a called function is well-formed",
    "RESP-19": "each tool has a type; a function's name is well-formed and its parameters, where given, are an object",
    "RESP-20": "tool names are unique",
    "RESP-21": "instructions is absent, null or a text",
    "RESP-22": "each reasoning item stands in the raw request too, unchanged",
    "RESP-23": "an item that has an id and that reasoning led to has this reasoning before it",
}

_FUNCTION = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_SHORT = re.compile(r"\S{1,64}")
_INPUT = ("input_text", "input_image", "input_file", "input_audio")
_PARTS = {"user": _INPUT, "system": _INPUT, "developer": _INPUT, "assistant": ("output_text", "refusal")}
_CALLS: dict[str, tuple[str, ...]] = {
    "function_call": ("name", "arguments"),
    "custom_tool_call": ("name", "input"),
    "local_shell_call": ("action",),
    "shell_call": ("action",),
    "apply_patch_call": ("operation",),
    "computer_call": (),
    "tool_search_call": ("arguments",),
}
_OUTPUTS = {
    "function_call_output": ("function_call", "local_shell_call"),
    "custom_tool_call_output": ("custom_tool_call",),
    "local_shell_call_output": ("local_shell_call",),
    "shell_call_output": ("shell_call",),
    "apply_patch_call_output": ("apply_patch_call",),
    "computer_call_output": ("computer_call",),
    "tool_search_output": ("tool_search_call",),
}
_HOSTED = (
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call",
    "mcp_list_tools", "mcp_approval_request",
)  # fmt: skip
_LOOSE = (
    "compaction", "compaction_trigger", "context_compaction", "item_reference", "mcp_approval_response",
    "agent_message", "configuration_update", "additional_tools",
)  # fmt: skip


class Incremental:
    """A growing request, judged item by item."""

    def __init__(self, tools: Any = None, instructions: Any = None) -> None:
        self._start(tools, instructions)

    def _start(self, tools: Any, instructions: Any) -> None:
        self._found: list[Violation] = []
        self._seen: list[bytes] = []
        self._head = b""
        self._count = 0
        self._thought = ""
        self._ids: set[str] = set()
        self._calls: dict[str, tuple[str, str]] = {}
        self._answered: set[str] = set()
        self._walk(tools, "tools")
        self._walk(instructions, "instructions")
        if instructions is not None and not isinstance(instructions, str):
            self._add("RESP-21", "instructions", "the instructions are no text")
        self._found += _check_tools(tools)

    def request(self, request: dict[str, Any]) -> list[Violation]:
        """Return what ``check`` returns for ``request``, at the price of what is new since the last call."""
        items = request.get("input")
        try:
            head = fingerprint([request.get("tools"), request.get("instructions")])
            digests = [fingerprint(item) for item in items] if isinstance(items, list) else None
        except ValueError:
            digests = None
        if digests is None:
            return check(request)
        if head != self._head or digests[: len(self._seen)] != self._seen:
            self._start(request.get("tools"), request.get("instructions"))
            self._head = head
        assert isinstance(items, list)
        for item, digest in zip(items[len(self._seen) :], digests[len(self._seen) :], strict=True):
            self.feed(item)
            self._seen.append(digest)
        return self.verdict()

    def feed(self, item: Any) -> None:
        """Take the next item."""
        where = f"input[{self._count}]"
        self._count += 1
        self._walk(item, where)
        if not isinstance(item, dict):
            self._add("RESP-3", where, "an item is an object")
            return
        kind = item.get("type", "message" if "role" in item else None)
        kind = kind if isinstance(kind, str) else repr(kind)
        thought, self._thought = self._thought, where if kind == "reasoning" else ""
        if thought and not _answers(kind, item) and kind != "reasoning":
            self._add("RESP-14", thought, f"reasoning is followed by {kind!r}")
        self._identity(item, where)
        if kind == "message":
            self._message(item, where)
        elif kind == "reasoning":
            if not isinstance(item.get("summary"), list) or not isinstance(item.get("encrypted_content"), str | None):
                self._add("RESP-4", where, "reasoning has a summary, and encrypted content as a text")
        elif kind in _CALLS and not _hosted(item):
            self._call(item, str(kind), where)
        elif kind in _OUTPUTS and not _hosted(item):
            self._output(item, str(kind), where)
        elif kind not in _HOSTED and kind not in _LOOSE and not _hosted(item):
            self._add("RESP-4", where, f"items of the type {kind!r} are unknown")

    def verdict(self) -> list[Violation]:
        """Return every violation of the request that ends with the item fed last."""
        found = list(self._found)
        if not self._count:
            found.append(Violation("RESP-3", "input", "there is no item"))
        if self._thought:
            found.append(Violation("RESP-14", self._thought, "nothing follows the reasoning"))
        missing = [(call, place) for call, (_, place) in self._calls.items() if call not in self._answered]
        return [*found, *(Violation("RESP-10", place, f"no output of {call!r} behind it") for call, place in missing)]

    def _add(self, rule: str, where: str, message: str) -> None:
        self._found.append(Violation(rule, where, message))

    def _walk(self, value: Any, where: str) -> None:
        self._found += [Violation("RESP-1", where, line) for line in not_json(value, where)]
        if has_lone_surrogate(value):
            self._add("RESP-2", where, "half a surrogate pair")

    def _identity(self, item: dict[str, Any], where: str) -> None:
        name = item.get("id")
        if name is None:
            return
        if not isinstance(name, str) or _SHORT.fullmatch(name) is None:
            self._add("RESP-15", where, f"the id {str(name)[:80]!r} is malformed")
        elif name in self._ids and item.get("type") != "item_reference":
            self._add("RESP-15", where, f"the id {name!r} was used before")
        else:
            self._ids.add(name)

    def _message(self, item: dict[str, Any], where: str) -> None:
        role = item.get("role")
        if not isinstance(role, str) or role not in _PARTS:
            self._add("RESP-5", where, f"the role {role!r} is unknown")
            return
        content = item.get("content")
        if isinstance(content, str):
            return
        if not isinstance(content, list) or not content:
            self._add("RESP-6", where, f"the content of the {role} is neither a text nor a list of parts")
            return
        for index, part in enumerate(content):
            kind = part.get("type") if isinstance(part, dict) else None
            if kind not in _PARTS[role] or not _is_whole(part, str(kind)):
                self._add("RESP-7", f"{where}.content[{index}]", f"{kind!r} is unknown, not whole, or not the {role}'s")

    def _call(self, item: dict[str, Any], kind: str, where: str) -> None:
        if any(item.get(member) is None for member in _CALLS[kind]):
            self._add("RESP-4", where, f"a {kind} has {', '.join(_CALLS[kind])}")
        elif kind in ("function_call", "custom_tool_call"):
            if not isinstance(item["name"], str) or _FUNCTION.fullmatch(item["name"]) is None:
                self._add("RESP-18", where, f"the name {item['name']!r} is malformed")
            wrong = not _is_object(item["arguments"]) if kind == "function_call" else not isinstance(item["input"], str)
            if wrong:
                self._add("RESP-16", where, "the arguments are no text that is a JSON object, the input no text")
        call = self._name(item, where)
        if call is None:
            return
        if call in self._calls:
            self._add("RESP-9", where, f"the call id {call!r} was used before")
        self._calls[call] = (kind, where)

    def _output(self, item: dict[str, Any], kind: str, where: str) -> None:
        if kind in ("function_call_output", "custom_tool_call_output"):
            self._given(item.get("output"), where)
        elif "tools" not in item and "output" not in item and kind != "apply_patch_call_output":
            self._add("RESP-4", where, "an output holds what the tool gave")
        call = self._name(item, where)
        if call is None:
            return
        if call not in self._calls:
            self._add("RESP-11", where, f"no call {call!r} before it")
        elif call in self._answered:
            self._add("RESP-12", where, f"the call {call!r} is answered twice")
        elif self._calls[call][0] not in _OUTPUTS[kind]:
            self._add("RESP-13", where, f"a {kind} for a {self._calls[call][0]}")
        self._answered.add(call)

    def _given(self, output: Any, where: str) -> None:
        if isinstance(output, str):
            return
        if not isinstance(output, list):
            self._add("RESP-17", where, "the output is neither a text nor a list")
            return
        for index, part in enumerate(output):
            kind = part.get("type") if isinstance(part, dict) else None
            if kind not in _INPUT or not _is_whole(part, str(kind)):
                self._add("RESP-17", f"{where}.output[{index}]", f"{kind!r} is unknown or not whole")

    def _name(self, item: dict[str, Any], where: str) -> str | None:
        """Return the id that pairs call and output, or say that there is none."""
        call = item.get("call_id")
        if call is None and str(item.get("type")).startswith("local_shell"):
            call = item.get("id")
        if isinstance(call, str) and _SHORT.fullmatch(call):
            return call
        self._add("RESP-8", where, f"the call id {str(call)[:80]!r} is malformed")
        return None


def check(request: dict[str, Any]) -> list[Violation]:
    """Return every violation of ``request`` (``tools``, ``instructions``, ``input``; other members are not judged)."""
    state = Incremental(request.get("tools"), request.get("instructions"))
    items = request.get("input")
    if isinstance(items, str):
        state.feed({"role": "user", "content": items})
    elif isinstance(items, list):
        for item in items:
            state.feed(item)
    else:
        return [*state.verdict()[:-1], Violation("RESP-3", "input", "input is no list")]
    return state.verdict()


def check_against(raw: dict[str, Any], sent: dict[str, Any]) -> list[Violation]:
    """Return what is wrong with the reasoning in ``sent``, beside the ``raw`` request the host made."""
    return [Violation(rule, where, message) for rule, where, message in _reasoning(raw["input"], sent["input"])]


def _reasoning(raw: list[Any], sent: list[Any]) -> Iterator[tuple[str, str, str]]:
    known = [_bare(item) for item in raw if item.get("type") == "reasoning"]
    led = {item["id"]: thoughts for item, thoughts in _led(raw) if item.get("id") and thoughts}
    for at, item in enumerate(sent):
        if item.get("type") == "reasoning" and _bare(item) not in known:
            yield "RESP-22", f"input[{at}]", "the raw request holds no such reasoning"
    for item, thoughts in _led(sent):
        wanted = led.get(item.get("id", ""))
        if wanted is not None and [_key(one) for one in wanted] != [_key(one) for one in thoughts]:
            yield "RESP-23", f"input[{sent.index(item)}]", f"{item.get('id')!r} stands without its reasoning"


def _bare(item: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a host may send or not: its own id, members that are null."""
    return {name: value for name, value in item.items() if name != "id" and value is not None}


def _key(thought: dict[str, Any]) -> Any:
    return thought.get("encrypted_content") or thought.get("id")


def _led(items: list[Any]) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Yield each item that is no reasoning, and the reasoning right before it."""
    thoughts: list[Any] = []
    for item in items:
        if item.get("type") == "reasoning":
            thoughts.append(item)
        else:
            yield item, thoughts
            thoughts = []


def _answers(kind: Any, item: dict[str, Any]) -> bool:
    return kind in _CALLS or kind in _HOSTED or (kind == "message" and item.get("role") == "assistant")


def _hosted(item: dict[str, Any]) -> bool:
    """Whether a tool search is the provider's own: it has no call id, and its output none."""
    return str(item.get("type")).startswith("tool_search") and item.get("call_id") is None


def _is_object(arguments: Any) -> bool:
    if not isinstance(arguments, str):
        return False
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _is_whole(part: dict[str, Any], kind: str) -> bool:
    if kind == "input_image":
        url = part.get("image_url")
        return is_filled(part.get("file_id")) or (is_filled(url) and not str(url).endswith(";base64,"))
    if kind == "input_file":
        return any(is_filled(part.get(name)) for name in ("file_id", "file_url", "file_data"))
    if kind == "input_audio":
        return isinstance(part.get("input_audio"), dict)
    return isinstance(part.get("refusal" if kind == "refusal" else "text"), str)


def _check_tools(tools: Any) -> list[Violation]:
    if tools is None:
        return []
    if not isinstance(tools, list):
        return [Violation("RESP-19", "tools", "tools is no list")]
    found: list[Violation] = []
    names: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        kind = tool.get("type") if isinstance(tool, dict) else None
        if not isinstance(kind, str):
            found.append(Violation("RESP-19", where, "a tool has a type"))
            continue
        name = tool.get("name")
        named = kind in ("function", "custom", "namespace")
        wrong = not isinstance(tool.get("parameters") or {}, dict)
        if named and (wrong or not isinstance(name, str) or _FUNCTION.fullmatch(name) is None):
            found.append(Violation("RESP-19", where, f"the tool {name!r} has a malformed name or parameters"))
            continue
        if kind == "namespace":
            inner = _check_tools(tool.get("tools"))
            found += [Violation(one.rule, f"{where}.{one.where}", one.message) for one in inner]
        if isinstance(name, str) and name in names:
            found.append(Violation("RESP-20", where, f"a second tool is named {name}"))
        if isinstance(name, str):
            names.add(name)
    return found
