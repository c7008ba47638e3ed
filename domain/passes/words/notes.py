"""Word: notes of the agent wait, with a person's next message after there was occasion (``transform.md`` 6.4).

Occasion is a new summary, a commit in one of the newest answers, a list of todos that is done. It is said in a message
that was not there yet, so nothing that was sent changes (T12); whatever comes of it is a fact of that pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec

from ... import events as ev
from ... import items, reminders
from ...edits import SetText
from ...history.words import tells_commit
from ...names import plain
from ...state import key
from ...todos import done, keeps_list
from ...transcript import Call, Result, Text
from ..heard import Silence, Waiting, answer
from ..lanes.shape import Part
from .shape import Listener, Spoken, Wants, digest

PAUSE = 900_000
"""Milliseconds of session time in which it is said once at most."""
ANSWERS = 5
"""The newest answers in which a commit counts."""
LOOK = 200
"""Most messages that are walked over to find them."""
CALLS = 8
"""Most of the newest calls of one pass that are read."""
NOTE = "ctx_note"


def wants(to: Listener) -> Wants:
    """Return what is to be read in what is new; then, where it is due, whether notes wait."""
    if not (to.notes and to.hosted):
        return Wants()
    prompt = {(to.newest.m, p) for p in to.prompt()} if _due(to) else set()
    unread = to.unread(frozenset(prompt.union(_texts(to), _calls(to))))
    if unread or to.heard.notes is not None:
        return Wants(unread)
    return Wants(notes=_asks(to))


def say(to: Listener) -> Spoken | None:
    """Say how many notes wait, in the first text of a person's new message; keep what was noticed either way."""
    if not (to.notes and to.hosted):
        return None
    noticed = tuple(_noticed(to))
    outcome = _outcome(to, noticed) if _spoken_to(to) else ""
    heard = to.heard.notes
    kept: dict[bytes, bytes] = {}
    if isinstance(heard, Waiting):
        kept[sha256(answer(heard)).digest()] = answer(heard)
    asked = ev.Asked("note", outcome, b"", next(iter(kept), b"")) if outcome else None
    failed = heard.how if isinstance(heard, Silence) and outcome else ""
    if outcome == "said" and isinstance(heard, Waiting):
        name, data = digest(_text(heard))
        edit = SetText(to.newest.m, to.prompt()[0], "post", "note", name)
        return Spoken(edit, data, noticed, asked, kept)
    return Spoken(None, b"", noticed, None if failed else asked, kept, failed) if noticed or asked else None


def _due(to: Listener) -> bool:
    """Whether there was occasion, and this is a message that came after it."""
    scene, kept = to.scene, to.scene.state.reminder
    first = scene.seen.revised[kept.m][0] if kept.m in scene.seen.revised else kept.p + 1
    carried = first > kept.p and scene.index(kept.m) >= scene.start()
    behind = reminders.due(scene.state, carried=carried)
    return 0 < behind < to.newest.m


def _spoken_to(to: Listener) -> bool:
    return _due(to) and bool(to.spoken(to.prompt()))


def _recent(to: Listener) -> bool:
    kept = to.scene.state.reminder
    return bool(kept.now) and to.now - kept.now < PAUSE


def _asks(to: Listener) -> bool:
    return _spoken_to(to) and not _recent(to)


def _outcome(to: Listener, noticed: tuple[ev.Noticed, ...]) -> str:
    heard = to.heard.notes
    if _recent(to):
        return "recent"
    if not isinstance(heard, Waiting):
        return "late"
    if not (heard.notes or heard.ready):
        return "none"
    reads = [(one.m, one.p, to.scene.state.reminder.at) for one in noticed if one.what == "read"]
    read = reads[-1] if reads else to.scene.state.reminder.read
    known = read is not None and read[2] > heard.changed_ms and _visible(to, read[0], read[1])
    return "read" if known else "said"


def _visible(to: Listener, m: int, p: int) -> bool:
    """Whether what a call read is still in the request."""
    scene, state = to.scene, to.scene.state
    index = scene.index(m)
    parts = scene.message(m).parts if index >= scene.start() else ()
    call = parts[p] if p < len(parts) else None
    if not isinstance(call, Call):
        return False
    for place in range(index, min(index + LOOK, scene.length())):
        other = scene.at(place)
        for q, part in enumerate(scene.message(other).parts):
            if isinstance(part, Result) and part.id == call.id:
                number = state.tag_of.get(key(other, q), 0)
                return not part.error and (not number or state.tags[number - 1].status == "active")
    return False


def _text(waiting: Waiting) -> str:
    notes = f"{waiting.notes} note{'s' if waiting.notes > 1 else ''} of yours"
    ready = f"{waiting.ready} whose time has come"
    said = " and ".join(one for one, count in ((notes, waiting.notes), (ready, waiting.ready)) if count)
    verb = "waits" if waiting.notes + waiting.ready == 1 else "wait"
    return (
        f'\n\n<instruction name="deferred_notes">{said} {verb} to be looked at. Read them with ctx_note, action read: '
        "there may be something to do now.</instruction>"
    )


# ---------------------------------------------------------------------- what is noticed


def _noticed(to: Listener) -> Iterator[ev.Noticed]:
    commits = [part for part in _texts(to) if tells_commit(to.facts.get(part, ""))]
    if commits:
        yield ev.Noticed("commit", *commits[-1], occasion=not _told_of_commit(to, commits[0][0]))
    lists = [part for part in _calls(to) if keeps_list(_name(to, part))]
    if lists and done(to.facts.get(lists[-1], "")):
        yield ev.Noticed("todos", *lists[-1], occasion=True)
    reads = [part for part in _calls(to) if _name(to, part) == NOTE and _reads(to.facts.get(part, ""))]
    if reads:
        yield ev.Noticed("read", *reads[-1])


def _fresh(to: Listener) -> list[tuple[int, int]]:
    """Return the newest messages of which nothing was read yet, each with its first new part, in path order.

    What went out without a pass to tell of it is among them.
    """
    scene, known = to.scene, to.scene.state.reminder.seen
    found = {arrival.m: arrival.first for arrival in to.arrivals[-LOOK:]}
    for index in range(scene.length() - 1, max(scene.length() - 1 - LOOK, -1), -1):
        if scene.at(index) <= known:
            break
        found.setdefault(scene.at(index), 0)
    return sorted(found.items(), key=lambda one: scene.index(one[0]))


def _texts(to: Listener) -> list[Part]:
    """Return the new texts of the newest answers, in order."""
    newest = set(_answers(to, to.scene.length()))
    return [
        (m, p)
        for m, first in _fresh(to)
        if items.answer(to.scene, m) in newest
        for p, part in enumerate(to.scene.message(m).parts)
        if p >= first and isinstance(part, Text) and not part.blank
    ]


def _calls(to: Listener) -> list[Part]:
    """Return the newest new calls that read notes or keep a list of todos, in order."""
    found = [
        (m, p)
        for m, first in _fresh(to)
        for p, part in enumerate(to.scene.message(m).parts)
        if p >= first and isinstance(part, Call) and (_name(to, (m, p)) == NOTE or keeps_list(part.name))
    ]
    return found[-CALLS:]


def _answers(to: Listener, end: int) -> Iterator[int]:
    """Yield the newest answers before path index ``end``, each by its first message."""
    told: set[int] = set()
    for index in range(end - 1, max(end - 1 - LOOK, -1), -1):
        if to.scene.message(to.scene.at(index)).role != "assistant":
            continue
        first = items.answer(to.scene, to.scene.at(index))
        if first not in told:
            if len(told) == ANSWERS:
                return
            told.add(first)
            yield first


def _told_of_commit(to: Listener, m: int) -> bool:
    """Whether one of the answers before the one ``m`` is of told of a commit already."""
    before = to.scene.state.reminder.commit
    if to.scene.index(before) < 0:
        return False
    own = items.answer(to.scene, m)
    return items.answer(to.scene, before) in {own, *_answers(to, to.scene.index(own))}


def _name(to: Listener, part: Part) -> str:
    call = to.scene.message(part[0]).parts[part[1]]
    name = plain(call.name) if isinstance(call, Call) else ""
    return NOTE if name.endswith("_" + NOTE) else name


def _arguments(given: str) -> dict[str, Any]:
    try:
        made = msgspec.json.decode(given)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return made if isinstance(made, dict) else {}


def _reads(given: str) -> bool:
    """Whether a call of the notes' tool reads: said so, or with nothing to write (``knowledge.md`` 4.2)."""
    made = _arguments(given)
    content = made.get("content")
    usual = "write" if isinstance(content, str) and content.strip() else "read"
    return bool(made.get("action", usual) == "read")
