"""What a tool call did, told from its arguments first and its name second, so that unknown tools are read too."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from . import shell
from .port import ToolCall
from .shell import File
from .text import clip, one_line

_COMMAND = ("command", "cmd", "script", "commands")
_PATHS = (
    "file_path",
    "filePath",
    "path",
    "filename",
    "file",
    "notebook_path",
    "target_file",
    "relative_path",
    "uri",
    "paths",
    "files",
)
_CHANGES = frozenset(
    "old_string oldString oldText old_str new_string newString newText new_str new_source edits content contents "
    "file_text insert_text insert_line diff patch replacement code_edit".split()
)
_SHELL_NAME = re.compile(
    r"(?:^|[_.-])(?:bash|shell|sh|zsh|terminal|exec|execute|run|command|powershell|local_shell)", re.IGNORECASE
)
_EDIT_NAME = re.compile(
    r"edit|write|replace|patch|create_file|insert|update_file|delete_file|rename|move_file|remove_file", re.IGNORECASE
)
_READ_NAME = re.compile(r"read|view|open|cat|fetch|get|grep|glob|search|find|list|ls\b", re.IGNORECASE)
_SEARCH_NAME = re.compile(r"grep|glob|search|find|list|\bls\b", re.IGNORECASE)
_PATCH_FILE = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |\+\+\+ b/)(\S[^\n\t]{0,300})$", re.MULTILINE
)
_TELLING = (
    "description",
    "filePath",
    "path",
    "pattern",
    "query",
    "symbol",
    "module",
    "action",
    "url",
    "skill",
    "subject",
    "name",
)
"""The arguments a call of an unknown tool is told by, first present first (``history.md`` 5.3)."""
_OURS = "ctx_"


class Act(msgspec.Struct, frozen=True):
    """``quote``: the call as a person would tell it; ``program``: what its kind is called; ``ran``: a command in a
    shell.

    ``looks``: it only reads or searches; ``own``: a tool of foldlog itself, which is no part of what happened.
    """

    quote: str
    program: str
    files: tuple[File, ...]
    ran: bool = False
    looks: bool = False
    own: bool = False
    folder: str = ""


def act(call: ToolCall) -> Act:
    """Return what a call did. Never raises: arguments that make no sense give the tool's name alone."""
    given = call.arguments if isinstance(call.arguments, Mapping) else {}
    name = one_line(call.name)[:60] or "tool"
    plain = name.rpartition("__")[2]
    if plain.startswith(_OURS):
        return Act(name, name, (), own=True)
    command = _command(given)
    if command and (_SHELL_NAME.search(plain) or not any(key in given for key in _PATHS)):
        seen = shell.parse(command)
        return Act(
            one_line(seen.quote) or name,
            one_line(seen.program) or name,
            (*_patched(command), *seen.files),
            ran=True,
            folder=seen.folder,
        )
    files = tuple(_files(plain, given))
    looks = not any(file.written for file in files) and _READ_NAME.search(plain) is not None
    return Act(_told(name, given), name, files, looks=looks)


def _command(given: Mapping[str, Any]) -> str:
    for key in _COMMAND:
        value = given.get(key)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
            inner = value[2] if len(value) == 3 and value[1].startswith("-") and "c" in value[1] else ""
            return inner or " ".join(value)
    return ""


def _patched(text: str) -> tuple[File, ...]:
    if "*** " not in text and "+++ b/" not in text:
        return ()
    return tuple(File(one_line(path), True) for path in dict.fromkeys(_PATCH_FILE.findall(text[:200_000])))


def _files(name: str, given: Mapping[str, Any]) -> Iterator[File]:
    searches = _SEARCH_NAME.search(name) is not None
    changes = not _CHANGES.isdisjoint(given) or _EDIT_NAME.search(name) is not None
    for key in ("patch", "diff", "input", "patchText"):
        value = given.get(key)
        if isinstance(value, str):
            yield from _patched(value)
    for key in _PATHS:
        value = given.get(key)
        for path in value if isinstance(value, list) else (value,):
            if not isinstance(path, str) or not path.strip() or len(path) > 400 or "\n" in path:
                continue
            bare = one_line(path.removeprefix("file://"))
            # a search is given a folder more often than a file
            if changes or (shell.path_like(bare) and not (searches and "." not in posixpath.basename(bare))):
                yield File(bare, changes)


def _told(name: str, given: Mapping[str, Any]) -> str:
    for key in _TELLING:
        value = given.get(key)
        if isinstance(value, str) and value.strip():
            return f"{name}({clip(one_line(value), 60)})"
    return name
