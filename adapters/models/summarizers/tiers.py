"""The four texts of a compartment, each within its budget and shorter than the one before (``history.md`` 5.5)."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Sequence

import msgspec

from .digest import Digest
from .text import clip

Count = Callable[[str], int]

SHARE = 5
"""Tier 1 takes at most one ``SHARE``-th of the tokens of its stretch."""
_SHRINK = (2, 5)
_CAPS = (1_200, 160, 60)
_FLOORS = (24, 16, 12)
_INLINE = {"commits": "Commits", "edited": "Edited", "read": "Read", "ran": "Ran", "names": "Names"}
_LISTED = {"failed": "Failed", "decided": "Decided", "errors": "Errors"}
_ORDER = ("root", "user", "said", "commits", "edited", "failed", "decided", "errors", "read", "ran", "names")
"""The sections as written. What is kept first is the order of the items, which is not this one."""


class Item(msgspec.Struct, frozen=True):
    """One thing a tier may hold. ``place`` orders it inside its section."""

    section: str
    text: str
    place: int = 0


def tiers(found: Digest, title: str, budget: int, count: Count) -> tuple[str, str, str, str]:
    """Return the tiers. ``budget``: tokens of tier 1. ``count`` counts tokens.

    Tier 1 is never blank; each further tier has fewer tokens than the one before, or is empty.
    """
    first = fit(_full(found, title), budget, count) or clip(title, 8) or "…"
    out = [first]
    for items, cap, floor in zip(
        (_canonical(found, title), _outcome(found, title), _anchor(found)), _CAPS, _FLOORS, strict=True
    ):
        above = count(out[-1])
        out.append(fit(items, min(above - 1, max(above * _SHRINK[0] // _SHRINK[1], floor), cap), count))
    return out[0], out[1], out[2], out[3]


def _full(found: Digest, title: str) -> list[Item]:
    binding = [Item("user", line.text, at) for at, line in enumerate(found.lines) if line.binds]
    asked = [Item("user", line.text, at) for at, line in enumerate(found.lines) if not line.binds]
    said = [Item("said", found.first)] if found.first and not found.decided else []
    items = [
        *binding,
        *_commits(found, 90),
        *_listed("edited", found.edited),
        *_listed("failed", (one.text for one in found.failed)),
        *asked,
        *_listed("decided", found.decided),
        *_listed("errors", found.errors),
        *said,
        *_listed("read", found.looked),
        *_listed("ran", found.ran),
        *_listed("names", found.names),
    ]
    return _rooted(found, items) or [Item("said", title)]


def _canonical(found: Digest, title: str) -> list[Item]:
    binding = [Item("user", line.text, at) for at, line in enumerate(found.lines) if line.binds]
    decided = _listed("decided", sorted(found.decided, key=lambda text: text != found.best)[:3])
    return [
        *_commits(found, 48),
        *_listed("edited", found.edited),
        *decided[:1],
        *binding,
        *_listed("failed", (clip(one.text, 90) for one in found.failed if one.open)),
        *decided[1:],
        *_listed("user", (clip(line.text, 100) for line in found.lines[:1] if not line.binds)),
    ] or [Item("said", clip(found.first or title, 100))]


def _outcome(found: Digest, title: str) -> list[Item]:
    best = found.best or next((line.text for line in found.lines if line.binds), found.first or title)
    return [
        *_commits(found, 0),
        Item("said", clip(best, 160)),
        *_listed("edited", (posixpath.basename(path) for path in found.edited[:4])),
    ]


def _anchor(found: Digest) -> list[Item]:
    return [*_commits(found, 0), *_listed("edited", (posixpath.basename(path) for path in found.edited[:2]))]


def _commits(found: Digest, subject: int) -> list[Item]:
    told = (f"{h} {clip(s, subject)}".rstrip() if subject else h for h, s in found.commits)
    return _listed("commits", told)


def _listed(section: str, texts: Iterable[str]) -> list[Item]:
    return [Item(section, text, at) for at, text in enumerate(texts)]


def _rooted(found: Digest, items: list[Item]) -> list[Item]:
    """Name the root before the first path, where paths are told from it."""
    at = next((i for i, item in enumerate(items) if item.section in ("edited", "read")), -1)
    if at >= 0 and found.root:
        items.insert(at, Item("root", found.root))
    return items


def fit(items: Sequence[Item], budget: int, count: Count) -> str:
    """Return the text of as many items as fit into ``budget`` tokens, earlier ones first; empty where none does."""
    left = budget
    kept: list[Item] = []
    sections: set[str] = set()
    folders: set[str] = set()
    for item in items:
        told, folder = item.text, ""
        if item.section in ("edited", "read"):
            folder, _, told = item.text.rpartition("/")
        cost = count(told) + 2
        if item.section not in sections:
            cost += 2
        if folder and folder not in folders:
            cost += count(folder) + 2
        if cost > left:
            continue
        left -= cost
        kept.append(item)
        sections.add(item.section)
        folders.add(folder)
    while kept:
        text = written(kept)
        if count(text) <= budget:
            return text
        kept.pop()
    return _clipped(items[0].text, budget, count) if items else ""


def _clipped(text: str, budget: int, count: Count) -> str:
    size = min(len(text), budget * 4)
    while size > 0:
        short = clip(text, size)
        if count(short) <= budget:
            return short
        size = size * 3 // 4
    return ""


def written(items: Iterable[Item]) -> str:
    """Return items as text: sections in a fixed order, paths joined by their folder."""
    sections: dict[str, list[str]] = {}
    for item in sorted(items, key=lambda item: (_ORDER.index(item.section), item.place)):
        sections.setdefault(item.section, []).append(item.text)
    out: list[str] = []
    for section, texts in sections.items():
        if section == "user":
            out += [f"U: {text}" for text in texts]
        elif section == "said":
            out += texts
        elif section == "root":
            out.append(f"Root: {texts[0]}")
        elif section in _LISTED:
            out += (
                [f"{_LISTED[section]}: {texts[0]}"]
                if len(texts) == 1
                else [f"{_LISTED[section]}:", *(f"- {t}" for t in texts)]
            )
        else:
            shown = grouped(texts) if section in ("edited", "read") else texts
            out.append(f"{_INLINE[section]}: {'; '.join(shown)}")
    return "\n".join(out)


def grouped(paths: Iterable[str]) -> list[str]:
    """Join paths of one folder: ``a/b.py``, ``a/c.py`` become ``a/{b.py,c.py}``; order of first appearance."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, slash, name = path.rpartition("/")
        folders.setdefault(folder + slash, []).append(name)
    out: list[str] = []
    for folder, names in folders.items():
        if folder and len(names) > 1:
            out.append(f"{folder}{{{','.join(names)}}}")
        else:
            out += [folder + name for name in names]
    return out
