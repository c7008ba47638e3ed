"""Lane: what a later call made pointless (``transform.md`` 3.6), if the policy says so."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from ... import costs, items
from ...arcs import call_part
from ...edits import SetBody, SetMedia
from ...names import EXEMPLARS, LIST, WATCHES, WRITES, kind, plain
from ...state import PARTS_LIMIT, key
from ...transcript import Call, Result
from .drops import drop
from .shape import Ask, Item, Part, Work

NAME = "smart"
RECENT = 20
"""The newest answers with tools whose calls stay."""
HINT = 40
"""Characters of an edit that are kept, in its marker."""
CUT = "...[truncated]"
KEPT = {LIST: 1, "ctx_reduce": EXEMPLARS, **dict.fromkeys(WATCHES, 0)}
NOTE = "ctx_note"
READS_NOTES = ("read", "dismiss")
PATHS = ("filePath", "file_path", "path")
CONTENT = ("oldString", "newString", "content", "old_string", "new_string")


def wants(ask: Ask) -> frozenset[Part]:
    """Return the calls whose arguments decide: edits of a file, and what notes were asked for."""
    if not _on(ask):
        return frozenset()
    return frozenset(_caller(ask, number) for number, call in _old(ask) if plain(call.name) in (WRITES | {NOTE}))


def plan(ask: Ask) -> Work:
    """Take out superseded calls; of a file's edits the newest stays whole, older ones keep a hint."""
    if not _on(ask):
        return Work(NAME)
    found: list[Item] = []
    texts: dict[bytes, bytes] = {}
    left = dict(KEPT)
    edited = _newest_edits(ask)
    for number, call in reversed(_old(ask)):
        name = kind(call.name)
        if number in ask.spared or number in ask.taken:
            left[name] = left.get(name, 0) - 1
            continue
        item: Item | None = None
        if name in left:
            left[name] -= 1
            item = drop(ask.scene, number, ask.recent) if left[name] < 0 else None
        elif name == NOTE:
            action = _arguments(ask, number).get("action")
            item = drop(ask.scene, number, ask.recent) if action in READS_NOTES else None
        elif name in WRITES:
            item = _marker(ask, number, call, edited, texts)
        if item is not None and item.index >= ask.begin and item.net > 0:
            found.append(item)
    used = {edit.text for item in found for edit in item.edits if isinstance(edit, SetBody) and edit.text}
    return Work(NAME, tuple(reversed(found)), {digest: data for digest, data in texts.items() if digest in used})


def _on(ask: Ask) -> bool:
    return ask.settings.smart and ask.routine


def _old(ask: Ask) -> list[tuple[int, Call]]:
    """Return active tool tags with their calls, oldest first, without those of the newest answers."""
    state = ask.scene.state
    found: list[tuple[int, Call]] = []
    owners: dict[int, int] = {}
    for number in reversed(ask.tools):
        tag = state.tags[number - 1]
        owner = state.call_of.get(key(tag.m, tag.p), 0) // PARTS_LIMIT
        place = owners.setdefault(items.answer(ask.scene, owner), len(owners))
        call = call_part(state, tag.m, tag.p)
        if call is not None and tag.status == "active" and place >= RECENT:
            found.append((number, call))
    return found[::-1]


def _caller(ask: Ask, number: int) -> Part:
    tag = ask.scene.state.tags[number - 1]
    return divmod(ask.scene.state.call_of[key(tag.m, tag.p)], PARTS_LIMIT)


def _arguments(ask: Ask, number: int) -> dict[str, Any]:
    try:
        given = msgspec.json.decode(ask.facts.get(_caller(ask, number), "{}"))
    except msgspec.DecodeError:
        return {}  # a call nobody can read is kept
    return given if isinstance(given, dict) else {}


def _path(given: dict[str, Any]) -> str:
    return next((given[name] for name in PATHS if isinstance(given.get(name), str)), "")


def _newest_edits(ask: Ask) -> dict[str, int]:
    """Return the newest edit of each file among the old ones, which stays whole."""
    edits = [number for number, call in _old(ask) if plain(call.name) in WRITES]
    return {path: number for number in edits if (path := _path(_arguments(ask, number)))}


def _marker(ask: Ask, number: int, call: Call, edited: dict[str, int], texts: dict[bytes, bytes]) -> Item | None:
    given = _arguments(ask, number)
    path = _path(given)
    if not path or edited.get(path, number) == number:
        return None
    whole = drop(ask.scene, number, ask.recent)
    if whole is None:
        return None
    short = {
        name: hint(value) if name in CONTENT and isinstance(value, str) else value for name, value in given.items()
    }
    marker = msgspec.json.encode(short)
    digest = sha256(marker).digest()
    texts[digest] = marker
    state, (cm, cp) = ask.scene.state, _caller(ask, number)
    tag = state.tags[number - 1]
    result = state.node(tag.m).message.parts[tag.p]
    media = isinstance(result, Result) and bool(result.media)
    edits = (SetBody(cm, cp, "marker", digest), SetBody(tag.m, tag.p, "placeholder"))
    spared = max(call.tokens - call.tokens * len(marker) // max(call.size, 1), 0)
    net = costs.of(state, tag) - costs.PLACEHOLDER_TOKENS + spared
    return Item(
        number,
        "edit_marker_stripped" if media else "edit_marker",
        (*edits, SetMedia(tag.m, tag.p, "strip")) if media else edits,
        max(net, 0),
        min(ask.scene.index(cm), ask.scene.index(tag.m)),
        net,
        ((cm, cp, spared),),
    )


def hint(value: str) -> str:
    """Return what an older edit still shows of a text; plugins stop calls that copy it (T27)."""
    return value if len(value) <= HINT else value[:HINT] + CUT
