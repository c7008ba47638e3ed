"""Editing a person's TOML as text: a key or a table is put in or taken out, everything else stays as it is.

What an edit came to is read again and compared; a file written in a way these edits do not understand is refused.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

import msgspec

from ...domain.errors import InputError

_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def read(text: str) -> dict[str, Any]:
    """Return the decoded file. Raises ``InputError`` where it is no TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the file is not TOML: {error}") from None


def get(text: str, path: tuple[str, ...]) -> Any:
    """Return the value at ``path``, None where there is none."""
    found: Any = read(text)
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def put(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return the text with ``value`` at ``path``; a dict becomes a table of its own. Raises ``InputError``."""
    if isinstance(value, dict):
        lines = [f"[{_dotted(path)}]", *(f"{key(name)} = {written(one)}" for name, one in value.items())]
        made = _put_table(text, path, "\n".join(lines) + "\n")
    else:
        made = _put_key(text, path, f"{key(path[-1])} = {written(value)}")
    return _checked(text, made, path, value)


def drop(text: str, path: tuple[str, ...]) -> str:
    """Return the text without the key or table at ``path``; what is not there is not missed."""
    if get(text, path) is None:
        return text
    table = _table_span(text, path)
    if table is not None:
        start, end = table
        if start and text[:start].endswith("\n\n"):
            start -= 1  # the blank line we put before it
        made = text[:start] + text[end:]
    else:
        line = _key_span(text, path)
        if line is None:
            raise InputError("this setting is written in a way only its author can change", value=".".join(path))
        made = text[: line[0]] + text[line[1] :]
    return _checked(text, made, path, None)


def raw(text: str, path: tuple[str, ...]) -> str | None:
    """Return the line of a key or the lines of a table as they stand, None where there are none."""
    span = _table_span(text, path) or _key_span(text, path)
    return None if span is None else text[span[0] : span[1]]


def put_raw(text: str, path: tuple[str, ...], lines: str) -> str:
    """Return the text with what ``raw`` gave back in the place of what stands there now."""
    span = _table_span(text, path) or _key_span(text, path)
    return text if span is None else text[: span[0]] + lines + text[span[1] :]


def written(value: Any) -> str:
    """Return a value as TOML on one line."""
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{key(name)} = {written(one)}" for name, one in value.items()) + " }" if value else "{}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(written(one) for one in value) + "]"
    return msgspec.json.encode(value).decode()  # strings, numbers and booleans are written alike


def key(name: str) -> str:
    """Return a key, quoted where it must be."""
    return name if _BARE.fullmatch(name) else written(name)


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(key(name) for name in path)


def _checked(before: str, after: str, path: tuple[str, ...], value: Any) -> str:
    """Return ``after`` if it is ``before`` with only that value changed."""
    wanted: Any = read(before)
    at = wanted
    for name in path[:-1]:
        at = at.setdefault(name, {})
        if not isinstance(at, dict):
            raise InputError(f"{name} is no table", value=".".join(path))
    if value is None:
        at.pop(path[-1], None)
    else:
        at[path[-1]] = value
    try:
        same = _bare(tomllib.loads(after)) == _bare(wanted)
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise InputError("this setting is written in a way only its author can change", value=".".join(path))
    return after


def _bare(value: Any) -> Any:
    """Leave out empty tables: whether they are written says nothing."""
    if isinstance(value, dict):
        return {name: found for name, one in value.items() if (found := _bare(one)) != {}}
    return value


def _put_table(text: str, path: tuple[str, ...], block: str) -> str:
    span = _table_span(text, path)
    if span is not None:
        tail = "\n" if text[span[1] :].startswith("[") else ""
        return text[: span[0]] + block + tail + text[span[1] :]
    if text and not text.endswith("\n"):
        text += "\n"
    return text + ("\n" if text else "") + block


def _put_key(text: str, path: tuple[str, ...], line: str) -> str:
    span = _key_span(text, path)
    if span is not None:
        return text[: span[0]] + line + "\n" + text[span[1] :]
    if len(path) == 1:
        return line + "\n" + text
    table = _table_span(text, path[:-1])
    if table is None:
        return _put_table(text, path[:-1], f"[{_dotted(path[:-1])}]\n{line}\n")
    head = text.find("\n", table[0]) + 1 or len(text)
    return text[:head] + ("" if text[:head].endswith("\n") else "\n") + line + "\n" + text[head:]


def _table_span(text: str, path: tuple[str, ...]) -> tuple[int, int] | None:
    """Return where the table's header begins and where its last line ends, trailing blank lines left out."""
    name = r"[ \t]*\.[ \t]*".join(
        f"(?:{re.escape(key(one))}|{re.escape(written(one))}|'{re.escape(one)}')" for one in path
    )
    found = re.compile(rf"^[ \t]*\[[ \t]*{name}[ \t]*\][^\n]*(?:\n|\Z)", re.MULTILINE).search(text)
    if found is None:
        return None
    following = _HEADER.search(text, found.end())
    end = following.start() if following else len(text)
    lines = text[found.end() : end].splitlines(keepends=True)
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()  # blank lines, and comments that stand right above the next header
    return found.start(), found.end() + sum(len(line) for line in lines)


def _key_span(text: str, path: tuple[str, ...]) -> tuple[int, int] | None:
    """Return the line of a key in its own table."""
    if len(path) == 1:
        first = _HEADER.search(text)
        start, end = 0, first.start() if first else len(text)
    else:
        table = _table_span(text, path[:-1])
        if table is None:
            return None
        start, end = table
    name = f"(?:{re.escape(key(path[-1]))}|{re.escape(written(path[-1]))})"
    found = re.compile(rf"^[ \t]*{name}[ \t]*=[^\n]*(?:\n|\Z)", re.MULTILINE).search(text, start, end)
    return None if found is None else (found.start(), found.end())
