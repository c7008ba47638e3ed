"""The rules of Anthropic Messages that concern a single block, tool or system text, and the count of cache marks."""

from __future__ import annotations

from typing import Any

from .base import ID, NAME, Violation, is_base64, is_blank, is_filled

# type -> (required members and their types, further members, roles)
_BOTH = ("user", "assistant")
_SERVER_TOOLS = "web_search web_fetch code_execution bash_code_execution text_editor_code_execution tool_search"
_BLOCKS: dict[str, tuple[dict[str, type | tuple[type, ...]], frozenset[str], tuple[str, ...]]] = {
    "text": ({"text": str}, frozenset({"citations"}), _BOTH),
    "image": ({"source": dict}, frozenset(), ("user",)),
    "document": ({"source": dict}, frozenset({"title", "context", "citations"}), ("user",)),
    "search_result": ({"source": str, "title": str, "content": list}, frozenset({"citations"}), ("user",)),
    "tool_result": ({"tool_use_id": str}, frozenset({"content", "is_error"}), ("user",)),
    "container_upload": ({"file_id": str}, frozenset(), ("user",)),
    "tool_use": ({"id": str}, frozenset({"name", "input", "caller"}), ("assistant",)),
    "thinking": ({}, frozenset({"thinking", "signature"}), ("assistant",)),
    "redacted_thinking": ({}, frozenset({"data"}), ("assistant",)),
    "server_tool_use": ({"id": str}, frozenset({"name", "input", "caller"}), ("assistant",)),
    "mcp_tool_use": ({"id": str, "server_name": str}, frozenset({"name", "input"}), ("assistant",)),
    "mcp_tool_result": ({"tool_use_id": str, "content": (str, list)}, frozenset({"is_error"}), ("assistant",)),
    **{
        f"{name}_tool_result": ({"tool_use_id": str, "content": (dict, list)}, frozenset({"caller"}), ("assistant",))
        for name in _SERVER_TOOLS.split()
    },
}
_IN_RESULT = ("text", "image", "document", "search_result", "tool_reference")
_MEDIA = ("image/png", "image/jpeg", "image/gif", "image/webp")


class Marks:
    """The cache marks of a request in wire order (tools, system, messages)."""

    def __init__(self) -> None:
        self.count = 0
        self._first_short = ""
        self._late: list[Violation] = []

    def take(self, owner: dict[str, Any], where: str) -> list[Violation]:
        """Count the mark of ``owner`` if it has one; return what is wrong with its form or its place."""
        mark = owner.get("cache_control")
        if mark is None:
            return []
        self.count += 1
        found: list[Violation] = []
        ttl = mark.get("ttl", "5m") if isinstance(mark, dict) else None
        if not isinstance(mark, dict) or mark.get("type") != "ephemeral" or ttl not in ("5m", "1h"):
            found.append(Violation("ANT-22", where, f"the cache mark is {mark!r}"))
        elif ttl == "5m":
            self._first_short = self._first_short or where
        elif self._first_short:
            self._late.append(Violation("ANT-21", where, f"an hour behind five minutes at {self._first_short}"))
        if owner.get("type") in ("thinking", "redacted_thinking"):
            found.append(Violation("ANT-23", where, "a cache mark on thinking"))
        elif owner.get("type") == "text" and is_blank(owner.get("text")):
            found.append(Violation("ANT-23", where, "a cache mark on blank text"))
        return found

    def violations(self) -> list[Violation]:
        """Return what is wrong with the marks as a whole."""
        many = [Violation("ANT-20", "request", f"{self.count} cache marks")] if self.count > 4 else []
        return [*many, *self._late]


def check_block(block: dict[str, Any], role: str, where: str, marks: Marks) -> list[Violation]:
    """Return what is wrong with a block by itself, standing in a message of ``role``."""
    kind = block.get("type")
    found = marks.take(block, where)
    if not isinstance(kind, str) or kind not in _BLOCKS:
        return [*found, Violation("ANT-10", where, f"the block type {kind!r} is unknown")]
    if role not in _BLOCKS[kind][2]:
        found.append(Violation("ANT-11", where, f"a {kind} block in a message of the {role}"))
    found += _members(block, kind, where)
    if kind == "text":
        found += _text(block, where)
    elif kind in ("image", "document"):
        found += _source(block.get("source"), kind, where)
    elif kind in ("thinking", "redacted_thinking"):
        found += _thinking(block, kind, where)
    elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        found += _id(block.get("id"), where)
        if not isinstance(block.get("name"), str) or NAME.fullmatch(block["name"]) is None:
            found.append(Violation("ANT-28", where, f"the tool name {block.get('name')!r} is malformed"))
        if not isinstance(block.get("input"), dict):
            found.append(Violation("ANT-29", where, "the arguments are no object"))
    elif kind == "tool_result":
        found += _id(block.get("tool_use_id"), where)
        found += _result(block, where, marks)
    return found


def check_system(system: Any, marks: Marks, place: str = "system", rule: str = "ANT-30") -> list[Violation]:
    """Return what is wrong with the system prompt; None, an empty text and an empty list mean none.

    With a ``place`` and a ``rule``: with the content of a system message.
    """
    if system is None or system == "":
        return []
    if isinstance(system, str):
        return [Violation("ANT-9", place, "the system text is blank")] if is_blank(system) else []
    if not isinstance(system, list):
        return [Violation(rule, place, "system is neither a text nor a list")]
    found: list[Violation] = []
    for index, block in enumerate(system):
        where = f"{place}[{index}]" if place == "system" else f"{place}.content[{index}]"
        if not isinstance(block, dict) or block.get("type") != "text":
            found.append(Violation(rule, where, "system holds text blocks only"))
            continue
        found += [*marks.take(block, where), *_members(block, "text", where), *_text(block, where)]
    return found


def check_tools(tools: Any, marks: Marks) -> list[Violation]:
    """Return what is wrong with the tool list."""
    if tools is None:
        return []
    if not isinstance(tools, list):
        return [Violation("ANT-26", "tools", "tools is no list")]
    found: list[Violation] = []
    names: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        if not isinstance(tool, dict):
            found.append(Violation("ANT-26", where, "a tool is an object"))
            continue
        found += marks.take(tool, where)
        name = tool.get("name")
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            found.append(Violation("ANT-26", where, f"the tool name {name!r} is malformed"))
            continue
        own = tool.get("type") not in (None, "custom")
        if not own and not isinstance(tool.get("input_schema"), dict):
            found.append(Violation("ANT-26", where, f"the tool {name} has no input schema"))
        if name in names:
            found.append(Violation("ANT-27", where, f"a second tool is named {name}"))
        names.add(name)
    return found


def _members(block: dict[str, Any], kind: str, where: str) -> list[Violation]:
    required, further, _ = _BLOCKS[kind]
    found = [
        Violation("ANT-10", where, f"{kind} needs {name}")
        for name, form in required.items()
        if not isinstance(block.get(name), form)
    ]
    foreign = set(block) - set(required) - further - {"type", "cache_control"}
    if foreign:
        found.append(Violation("ANT-10", where, f"{kind} does not have {', '.join(sorted(map(str, foreign)))}"))
    return found


def _text(block: dict[str, Any], where: str) -> list[Violation]:
    return [Violation("ANT-9", where, "the text is blank")] if is_blank(block.get("text")) else []


def _id(call: Any, where: str) -> list[Violation]:
    if isinstance(call, str) and ID.fullmatch(call) is None:
        return [Violation("ANT-12", where, f"the call id {call[:80]!r} is malformed")]
    return []


def _thinking(block: dict[str, Any], kind: str, where: str) -> list[Violation]:
    names = ("thinking", "signature") if kind == "thinking" else ("data",)
    return [
        Violation("ANT-18", where, f"{kind} without {name}")
        for name in names
        if not isinstance(block.get(name), str) or not block[name]
    ]


def _source(source: Any, kind: str, where: str) -> list[Violation]:
    if not isinstance(source, dict):
        return []
    form = source.get("type")
    whole = False
    if form == "base64":
        media = source.get("media_type")
        whole = (media in _MEDIA if kind == "image" else is_filled(media)) and is_base64(source.get("data"))
    elif form == "url":
        whole = is_filled(source.get("url"))
    elif form == "file":
        whole = is_filled(source.get("file_id"))
    elif form == "text" and kind == "document":
        whole = is_filled(source.get("data")) and source.get("media_type") == "text/plain"
    elif form == "content" and kind == "document":
        whole = isinstance(source.get("content"), (str, list)) and bool(source["content"])
    return [] if whole else [Violation("ANT-24", where, f"the source of the {kind} is not whole")]


def _result(block: dict[str, Any], where: str, marks: Marks) -> list[Violation]:
    found: list[Violation] = []
    if not isinstance(block.get("is_error", False), bool):
        found.append(Violation("ANT-10", where, "is_error is no truth value"))
    content = block.get("content")
    if "content" not in block or isinstance(content, str):
        return found
    if not isinstance(content, list):
        return [*found, Violation("ANT-25", where, "the content of a result is neither a text nor a list")]
    for index, inner in enumerate(content):
        place = f"{where}.content[{index}]"
        kind = inner.get("type") if isinstance(inner, dict) else None
        if kind not in _IN_RESULT:
            found.append(Violation("ANT-25", place, f"a result cannot hold {kind!r}"))
        elif kind == "tool_reference":
            found += marks.take(inner, place)
            if not is_filled(inner.get("tool_name")):
                found.append(Violation("ANT-10", place, "tool_reference needs tool_name"))
        else:
            found += check_block(inner, "user", place, marks)
    return found
