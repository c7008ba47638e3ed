"""Writes the generated part of specs/events.md from ``domain/events.py`` (`make specs`; a test compares)."""

from __future__ import annotations

import inspect
import re
import sys
import typing
from pathlib import Path
from typing import Any

import msgspec

from foldlog.domain import edits, events, transcript

PAGE = Path(__file__).resolve().parents[2] / "specs" / "events.md"
BEGIN = "<!-- generated from domain/events.py by `make specs`: begin -->"
END = "<!-- generated: end -->"

_SECTION = re.compile(r"^# -{4,} (.+)$|^class (\w+)\(", re.MULTILINE)


def sections() -> list[tuple[str, list[type[Any]]]]:
    """Return the events by the sections of the source, in its order."""
    known = {event.__name__: event for event in typing.get_args(events.Event)}
    found: list[tuple[str, list[type[Any]]]] = []
    for match in _SECTION.finditer(inspect.getsource(events)):
        title, name = match.groups()
        if title:
            found.append((title.strip(), []))
        elif name in known:
            found[-1][1].append(known.pop(name))
    if known:
        raise ValueError(f"events outside the module: {sorted(known)}")
    return found


def shown_default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        return f"`{field.default!r}`"
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{field.default_factory.__name__}()`"
    return ""


def written_type(struct: type[Any], name: str) -> str:
    """Return the field's type as the source writes it (``X | None`` escaped for a table)."""
    for cls in struct.__mro__:
        own = inspect.get_annotations(cls)
        if name in own:
            return str(own[name]).replace("|", r"\|")
    raise ValueError(f"{struct.__name__}.{name} has no annotation")


def table(struct: type[Any], skip: tuple[str, ...] = ()) -> list[str]:
    fields = [field for field in msgspec.structs.fields(struct) if field.name not in skip]
    if not fields:
        return ["No fields of its own.", ""]
    rows = [f"| `{f.name}` | `{written_type(struct, f.name)}` | {shown_default(f)} |" for f in fields]
    return ["| field | type | default |", "|---|---|---|", *rows, ""]


def entry(struct: type[Any], skip: tuple[str, ...] = ()) -> list[str]:
    tag = struct.__struct_config__.tag
    title = f"`{struct.__name__}`" + (f" · tag `{tag}`" if tag else "")
    meaning = inspect.cleandoc(struct.__doc__ or "").replace("``", "`")
    return [f"#### {title}", "", meaning, "", *table(struct, skip)]


def inner() -> list[type[Any]]:
    """Return the structs events are made of, in the order of their modules."""
    found = []
    for module in (transcript, edits, events):
        for value in vars(module).values():
            own = isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__
            if own and not issubclass(value, events.Base) and value.__struct_config__.array_like:
                found.append(value)
    return [value for value in found if value.__name__ not in {"PartSlots", "MessageSlots"}]


def aliases() -> list[str]:
    """Return the closed lists of words that fields may hold."""
    rows = []
    for module in (transcript, edits):
        for name, value in vars(module).items():
            if not name.startswith("_") and typing.get_origin(value) is typing.Literal:
                words = ", ".join(f"`{word}`" for word in typing.get_args(value))
                rows.append(f"| `{name}` | {words} |")
    return ["| type | one of |", "|---|---|", *rows, ""]


def tables() -> str:
    """Return the generated part of the page."""
    lines = ["### What every event begins with", "", *table(events.Base)]
    for title, members in sections():
        lines += [f"### {title[0].upper()}{title[1:]}", ""]
        for event in members:
            lines += entry(event, skip=("at", "cmd"))
    lines += ["### What events are made of", ""]
    for struct in inner():
        lines += entry(struct)
    lines += ["### Words", "", *aliases()]
    return "\n".join(lines)


def updated(page: str) -> str:
    """Return ``page`` with its generated part written anew. Raises ValueError where its marks are missing."""
    head, found, rest = page.partition(BEGIN)
    _, closed, tail = rest.partition(END)
    if not found or not closed:
        raise ValueError("the page has no generated part: its two marks are missing")
    return f"{head}{BEGIN}\n\n{tables()}\n{END}{tail}"


if __name__ == "__main__":
    text = updated(PAGE.read_text(encoding="utf-8"))
    if "--write" in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)
