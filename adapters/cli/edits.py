"""Changing a person's files so that it can be undone: what changed is recorded, the original kept beside the file."""

from __future__ import annotations

import difflib
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import platformdirs

from ...domain.errors import FoldlogError, InputError
from . import jsonc, tomltext
from .terminal import say

BACKUP = ".before-foldlog"

Kind = Literal["json", "toml", "file"]


class Edit(msgspec.Struct, frozen=True):
    """One change of a file: a value at a path in JSON or TOML, an item of a JSON list (``item``), or a whole file."""

    file: str
    kind: Kind
    value: Any
    path: tuple[str, ...] = ()
    item: bool = False


class Done(msgspec.Struct, frozen=True):
    """A change that was made.

    ``was``: the text that stood there, None for nothing; ``made``: how many of its parents are ours.
    """

    edit: Edit
    was: str | None
    made: int = 0


class Touched(msgspec.Struct, frozen=True):
    """A changed file.

    ``after``: SHA-256 of what we left; ``backup``: where the original lies, ``""`` where there was none; ``folders``:
    those we made for it.
    """

    file: str
    after: str
    backup: str
    done: tuple[Done, ...]
    folders: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True):
    """Everything one set-up changed."""

    files: tuple[Touched, ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """What a file is and would become; None: absent."""

    file: Path
    before: str | None
    after: str | None
    done: tuple[Done, ...] = ()


def record_path(name: str) -> Path:
    """Return where the record of a set-up is kept."""
    return platformdirs.user_data_path("foldlog") / "setup" / f"{name}.json"


def recorded(name: str) -> Record:
    """Return the record of a set-up, an empty one where there is none. Raises ``FoldlogError`` for a broken one."""
    try:
        return msgspec.json.decode(record_path(name).read_bytes(), type=Record)
    except FileNotFoundError:
        return Record()
    except (OSError, msgspec.MsgspecError) as error:
        raise FoldlogError(
            f"the record of what was set up cannot be read ({error}); nothing was changed", value=str(record_path(name))
        ) from None


def made(name: str) -> list[Done]:
    """Return every change a set-up made."""
    return [done for file in recorded(name).files for done in file.done]


def plan(edits: Sequence[Edit]) -> list[Plan]:
    """Return what the files would become; nothing is written. Raises ``InputError`` for one that cannot be edited."""
    plans: dict[str, Plan] = {}
    for edit in edits:
        held = plans.get(edit.file)
        if held is None:
            text = _read(Path(edit.file))
            held = Plan(Path(edit.file), text, text)
        try:
            after, done = _apply(held.after or "", edit)
        except InputError as error:
            raise InputError(error.message, value=error.value, where=edit.file) from None
        plans[edit.file] = Plan(held.file, held.before, after, (*held.done, *done))
    return [one for one in plans.values() if one.after != one.before]


def show(plans: Sequence[Plan]) -> None:
    """Print the changes as a diff."""
    for one in plans:
        before, after = (text.splitlines() if text else [] for text in (one.before, one.after))
        old = str(one.file) if one.before is not None else "/dev/null"
        new = str(one.file) if one.after is not None else "/dev/null"
        for line in difflib.unified_diff(before, after, old, new, n=2, lineterm=""):
            say(line)


def carry_out(name: str, plans: Sequence[Plan]) -> list[str]:
    """Write the files, keep the originals, and record it. Return where the originals lie. Raises ``FoldlogError``."""
    files = {one.file: one for one in recorded(name).files}
    kept: list[str] = []
    for one in plans:
        held = files.get(str(one.file))
        folders = tuple(_missing_folders(one.file.parent))
        backup = held.backup if held is not None else _keep(one)
        if held is None and backup:
            kept.append(backup)
        after = one.after or ""
        _write(one.file, after)
        files[str(one.file)] = Touched(
            str(one.file), _digest(after), backup, _merged(held, one.done), (*(held.folders if held else ()), *folders)
        )
        # after every file: what was done can be undone even if the next one fails
        _write(record_path(name), msgspec.json.encode(Record(tuple(files.values()))).decode())
    return kept


def undoing(name: str, edits: Sequence[Edit]) -> list[Plan]:
    """Return what the files would become without what was set up.

    A file nobody changed since becomes what it was, byte for byte; from one that was changed only our own entries go.
    ``edits``: what a set-up would write, for files of which no record is left.
    """
    plans = []
    known = recorded(name).files
    for one in known:
        text = _read(Path(one.file))
        if text is None:
            continue
        if _digest(text) == one.after:
            plans.append(Plan(Path(one.file), text, _read(Path(one.backup)) if one.backup else None))
            continue
        without: str | None = text
        for done in reversed(one.done):
            without = _take_back(without or "", done)
        plans.append(Plan(Path(one.file), text, without))
    for edit in edits:
        if not known and (text := _read(Path(edit.file))) is not None:
            after = _take_back(text, Done(edit, None))
            plans = [p for p in plans if p.file != Path(edit.file)] + [Plan(Path(edit.file), text, after)]
    return [one for one in plans if one.after != one.before]


def undo(name: str, plans: Sequence[Plan]) -> None:
    """Write what ``undoing`` gave, and clear away originals, folders we made and the record."""
    for one in plans:
        if one.after is None:
            one.file.unlink(missing_ok=True)
        else:
            _write(one.file, one.after)
    for touched in recorded(name).files:
        if touched.backup:
            Path(touched.backup).unlink(missing_ok=True)
        for folder in reversed(touched.folders):
            if Path(folder).is_dir() and not any(Path(folder).iterdir()):
                Path(folder).rmdir()
    record_path(name).unlink(missing_ok=True)


def _apply(text: str, edit: Edit) -> tuple[str, tuple[Done, ...]]:
    if edit.kind == "file":
        return edit.value, () if text == edit.value else (Done(edit, None),)
    if edit.kind == "toml":
        if tomltext.get(text, edit.path) == edit.value:
            return text, ()
        was = tomltext.raw(text, edit.path)
        new = len(edit.path) > 1 and tomltext.get(text, edit.path[:-1]) is None and not isinstance(edit.value, dict)
        return tomltext.put(text, edit.path, edit.value), (Done(edit, was, int(new)),)
    have = jsonc.get(text, edit.path)
    if have == edit.value or (edit.item and isinstance(have, list) and edit.value in have):
        return text, ()
    made = sum(jsonc.get(text, edit.path[:depth]) is None for depth in range(1, len(edit.path)))
    if edit.item:
        return jsonc.append(text, edit.path, edit.value), (Done(edit, None if have is None else "", made),)
    return jsonc.put(text, edit.path, edit.value), (Done(edit, jsonc.raw(text, edit.path), made),)


def _take_back(text: str, done: Done) -> str | None:
    """Return the text without one change of ours; what the person has changed there since is theirs and stays."""
    edit = done.edit
    if edit.kind == "file":
        return None if text == edit.value else text
    if edit.kind == "toml":
        if tomltext.get(text, edit.path) != edit.value:
            return text
        if done.was is not None:
            return tomltext.put_raw(text, edit.path, done.was)
        text = tomltext.drop(text, edit.path)
        if done.made and tomltext.get(text, edit.path[:-1]) == {}:
            text = tomltext.drop(text, edit.path[:-1])
        return text
    if edit.item:
        text = jsonc.drop_item(text, edit.path, edit.value)
        gone = done.was is None and jsonc.get(text, edit.path) == []
    elif jsonc.get(text, edit.path) == edit.value:
        if done.was is not None:
            return jsonc.put(text, edit.path, jsonc.Raw(done.was))
        gone = True
    else:
        return text
    if gone:
        text = jsonc.drop(text, edit.path)
    for depth in range(len(edit.path) - 1, len(edit.path) - 1 - done.made, -1):
        if jsonc.get(text, edit.path[:depth]) == {}:
            text = jsonc.drop(text, edit.path[:depth])
    return text


def _merged(held: Touched | None, done: tuple[Done, ...]) -> tuple[Done, ...]:
    """Keep what stood there at first: a second set-up replaces our own entry, not the person's."""
    if held is None:
        return done
    found = {_place(one): one for one in held.done}
    for one in done:
        before = found.get(_place(one))
        found[_place(one)] = one if before is None else msgspec.structs.replace(one, was=before.was, made=before.made)
    return tuple(found.values())


def _place(done: Done) -> tuple[tuple[str, ...], str]:
    return done.edit.path, str(done.edit.value) if done.edit.item else ""


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the file cannot be read: {error}", where=str(path)) from None


def _keep(one: Plan) -> str:
    if one.before is None:
        return ""
    at = 1
    while (copy := one.file.with_name(one.file.name + BACKUP + (f".{at}" if at > 1 else ""))).exists():
        at += 1
    _write(copy, one.before, like=one.file)
    return str(copy)


def _write(path: Path, text: str, like: Path | None = None) -> None:
    """Write at one stroke, with the mode of the file it replaces (else this user's alone); links are followed."""
    try:
        path = path.resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        model = path if like is None else like
        mode = stat.S_IMODE(model.stat().st_mode) if model.exists() else 0o600
        draft = path.with_name(f".{path.name}.foldlog-new")
        draft.unlink(missing_ok=True)
        handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
        draft.chmod(mode)
        draft.replace(path)
    except OSError as error:
        raise FoldlogError(
            f"the file cannot be written: {error.strerror}", value=str(path), code="NOT_WRITTEN"
        ) from None


def _missing_folders(folder: Path) -> list[str]:
    missing = []
    while not folder.exists() and folder != folder.parent:
        missing.append(str(folder))
        folder = folder.parent
    return missing[::-1]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
