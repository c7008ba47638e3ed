"""Editing a person's JSON, with comments and trailing commas, as text: everything not asked for stays as it is."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from ...domain.errors import InputError

_BLANK = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SCALAR = re.compile(r"[^\s,\]}/]+")
DEEPEST = 200


class Node(msgspec.Struct):
    """A value in the text: its span, and what stands in it.

    ``starts``, ``values``, ``commas``: of each member, where it begins, its value, where its comma stands (-1: none).
    """

    start: int
    end: int
    kind: str
    keys: list[str] = []
    starts: list[int] = []
    values: list[Node] = []
    commas: list[int] = []


def read(text: str) -> Any:
    """Return the decoded value; an empty text is an empty object. Raises ``InputError`` where it is no JSON."""
    return _value(text, _root(text)) if text.strip() else {}


def get(text: str, path: tuple[str, ...]) -> Any:
    """Return the value at ``path``, None where there is none."""
    node = _find(text, path)
    return None if node is None else _value(text, node)


def raw(text: str, path: tuple[str, ...]) -> str | None:
    """Return the text of the value at ``path``, None where there is none."""
    node = _find(text, path)
    return None if node is None else text[node.start : node.end]


def put(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return the text with ``value`` at ``path``; objects on the way that are missing are made.

    ``value`` is a value, or a ``Raw`` text of one. Raises ``InputError`` where something else stands in the way.
    """
    if not text.strip():
        text = "{}\n"
    node = _root(text)
    for depth, key in enumerate(path):
        if node.kind != "object":
            raise InputError(f"{'.'.join(path[:depth]) or 'the file'} is no JSON object", value=".".join(path))
        if key in node.keys:
            node = node.values[node.keys.index(key)]
            continue
        rest: Any = value
        for missing in reversed(path[depth + 1 :]):
            rest = {missing: rest}
        return _insert(text, node, f"{json.dumps(key)}: ", rest)
    indent = _indent_of(text, node.start)
    return text[: node.start] + _written(value, indent, _unit(text)) + text[node.end :]


def append(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return the text with ``value`` at the end of the list at ``path``, which is made if need be."""
    node = _find(text, path) if text.strip() else None
    if node is None:
        return put(text, path, [value])
    if node.kind != "array":
        raise InputError(f"{'.'.join(path)} is no JSON list", value=".".join(path))
    return _insert(text, node, "", value)


def drop(text: str, path: tuple[str, ...]) -> str:
    """Return the text without the member at ``path``; what is not there is not missed."""
    parent = _find(text, path[:-1])
    if parent is None or parent.kind != "object" or path[-1] not in parent.keys:
        return text
    return _cut(text, parent, parent.keys.index(path[-1]))


def drop_item(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return the text without the items of the list at ``path`` that equal ``value``."""
    node = _find(text, path)
    if node is None or node.kind != "array":
        return text
    for index in reversed(range(len(node.values))):
        if _value(text, node.values[index]) == value:
            text = _cut(text, node, index)
            node = _find(text, path)
            assert node is not None
    return text


class Raw(msgspec.Struct, frozen=True):
    """The text of a value, put in as it is."""

    text: str


def _insert(text: str, parent: Node, head: str, value: Any) -> str:
    """Put a member at the end of an object or list, in the style of those before it."""
    unit = _unit(text)
    close = parent.end - 1
    if parent.values:
        last = parent.values[-1]
        inline = "\n" not in text[parent.start : parent.end]
        indent = _indent_of(text, parent.starts[-1])
        separator = " " if inline else "\n" + indent
        written = head + _written(value, indent, unit)
        comma = parent.commas[-1]
        if comma >= 0:  # the list ends with a comma, and goes on doing so
            return text[: comma + 1] + separator + written + "," + text[comma + 1 :]
        rest = 0 if inline else _remark(text, last.end)  # a comment behind the last member stays on its line
        return text[: last.end] + "," + text[last.end : last.end + rest] + separator + written + text[last.end + rest :]
    outer = _indent_of(text, parent.start)
    written = head + _written(value, outer + unit, unit)
    inside = text[parent.start + 1 : close]
    kept = inside.rstrip() if inside.strip() else ""
    return text[: parent.start + 1] + kept + "\n" + outer + unit + written + "\n" + outer + text[close:]


def _cut(text: str, parent: Node, index: int) -> str:
    """Take a member out together with its comma and its line."""
    start, end = parent.starts[index], parent.values[index].end
    comma = parent.commas[index]
    before = parent.commas[index - 1] if index and comma < 0 else -1
    if comma >= 0:
        end = comma + 1
    if len(parent.values) == 1 and not (text[parent.start + 1 : start] + text[end : parent.end - 1]).strip():
        return text[: parent.start + 1] + text[parent.end - 1 :]
    line = text.rfind("\n", 0, start)
    after = end
    while text[after : after + 1] in {" ", "\t"}:
        after += 1
    if line > parent.start and not text[line + 1 : start].strip() and text[after : after + 1] in {"\n", ""}:
        start, end = line, after
    elif before >= 0:
        return text[:before] + text[end:]
    else:
        end = after
    text = text[:start] + text[end:]
    return text[:before] + text[before + 1 :] if before >= 0 else text


def _remark(text: str, at: int) -> int:
    """Return how long the rest of the line is, if only a comment stands there."""
    found = re.compile(r"[ \t]*(?://[^\n]*|/\*[^\n]*?\*/[ \t]*)(?=\n)").match(text, at)
    return 0 if found is None else found.end() - at


def _written(value: Any, indent: str, unit: str) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict) and any(isinstance(one, Raw) for one in value.values()):
        inner = indent + unit
        members = [f"{inner}{json.dumps(key)}: {_written(one, inner, unit)}" for key, one in value.items()]
        return "{\n" + ",\n".join(members) + "\n" + indent + "}"
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", "\n" + indent)


def _unit(text: str) -> str:
    """Return one step of the file's own indentation, two blanks where it shows none."""
    found = re.search(r"\{[^\S\n]*\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _indent_of(text: str, at: int) -> str:
    line = text.rfind("\n", 0, at) + 1
    blank = re.compile(r"[ \t]*").match(text, line)
    return "" if blank is None else blank[0]


def _root(text: str) -> Node:
    node = _parse(text, _skip(text, 0), 0)
    if _skip(text, node.end) != len(text):
        raise _broken(text, node.end)
    return node


def _find(text: str, path: tuple[str, ...]) -> Node | None:
    if not text.strip():
        return None
    node = _root(text)
    for key in path:
        if node.kind != "object" or key not in node.keys:
            return None
        node = node.values[node.keys.index(key)]
    return node


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _parse(text: str, at: int, depth: int) -> Node:
    if at >= len(text) or depth > DEEPEST:
        raise _broken(text, at)
    if text[at] in "{[":
        return _members(text, at, depth)
    kind = "string" if text[at] == '"' else "scalar"
    found = (_STRING if kind == "string" else _SCALAR).match(text, at)
    if found is None:
        raise _broken(text, at)
    return Node(at, found.end(), kind)


def _members(text: str, start: int, depth: int) -> Node:
    closing = "}" if text[start] == "{" else "]"
    node = Node(start, start, "object" if closing == "}" else "array", [], [], [], [])
    at = _skip(text, start + 1)
    while at < len(text) and text[at] != closing:
        node.starts.append(at)
        if closing == "}":
            key = _STRING.match(text, at)
            if key is None:
                raise _broken(text, at)
            node.keys.append(_decoded(text, key[0], at))
            at = _skip(text, key.end())
            if text[at : at + 1] != ":":
                raise _broken(text, at)
            at = _skip(text, at + 1)
        value = _parse(text, at, depth + 1)
        node.values.append(value)
        at = _skip(text, value.end)
        if text[at : at + 1] == ",":
            node.commas.append(at)
            at = _skip(text, at + 1)
        else:
            node.commas.append(-1)
            if text[at : at + 1] != closing:
                raise _broken(text, at)
    if at >= len(text):
        raise _broken(text, at)
    node.end = at + 1
    return node


def _value(text: str, node: Node) -> Any:
    if node.kind == "object":
        return {key: _value(text, value) for key, value in zip(node.keys, node.values, strict=True)}
    if node.kind == "array":
        return [_value(text, value) for value in node.values]
    return _decoded(text, text[node.start : node.end], node.start)


def _decoded(text: str, piece: str, at: int) -> Any:
    try:
        return json.loads(piece)
    except ValueError:
        raise _broken(text, at) from None


def _broken(text: str, at: int) -> InputError:
    line = text.count("\n", 0, at) + 1
    return InputError(f"the file is not JSON at line {line}", value=text[at : at + 40])
