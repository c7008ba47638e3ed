"""Lane: files a person showed, once the model has answered and later things have left (``transform.md`` 4.8)."""

from __future__ import annotations

from collections.abc import Iterator

from ...edits import SetMedia
from ...identity import Observation, Scene
from ...state import State, key
from ...transcript import Media, Result
from .drops import drop
from .shape import Ask, Item, Work

NAME = "images"
LARGE = 200
"""Bytes up to which a file costs nothing worth a thought: a link, not a picture."""
COST = 1_200
"""Tokens taken for a picture inside a result: what it is known to hold is the result's alone."""


def plan(ask: Ask) -> Work:
    """Take out large files older than the newest thing that was ever dropped; each keeps its number in its place."""
    if not ask.routine:
        return Work(NAME)
    scene, state = ask.scene, ask.scene.state
    large = sorted(_large(ask))
    oldest = large[0] if large else len(state.tags)
    newest = next((n for n in range(len(state.tags), oldest, -1) if state.tags[n - 1].status == "dropped"), 0)
    items: list[Item] = []
    for number in large:
        if number < newest and number <= state.swept and number not in ask.taken:
            item = drop(scene, number, ask.recent)
            if item is not None and item.net > 0:
                items.append(item)
    return Work(NAME, tuple(items))


def _large(ask: Ask) -> Iterator[int]:
    """Yield the numbers of a person's large files that are sent and that the model has answered."""
    scene, state = ask.scene, ask.scene.state
    for index in range(ask.begin, _answered(ask)):
        m = scene.at(index)
        message = scene.message(m)
        if message.role != "user":
            continue
        for p, part in enumerate(message.parts):
            number = state.tag_of.get(key(m, p), 0)
            if number and isinstance(part, Media) and part.size > LARGE and state.tags[number - 1].kind == "file":
                yield number


def shed(ask: Ask) -> Work:
    """Take pictures out after a provider refused them, or the body for its bytes (IMAGE-2).

    All but those of the newest message that holds any go first; where there are no others, those. A file keeps its
    number in its place, a result its text.
    """
    scene = ask.scene
    if not scene.state.bulky:
        return Work("pictures")
    places = [
        index for index in range(min(scene.start(), ask.begin), scene.length()) if _pictures(scene, scene.at(index))
    ]
    out = (index for index in places[:-1] or places if index >= ask.begin)  # a fold may cover some of them
    items = [item for index in out for item in _without(ask, scene.at(index), index)]
    return Work("pictures", tuple(items))


def shows_pictures(state: State) -> bool:
    """Whether the last request showed a picture, or anything else that is sent as a file."""
    scene = Scene(state, Observation(keep=len(state.path)))
    return any(_pictures(scene, m) for m in state.path[state.start() :])


def _pictures(scene: Scene, m: int) -> list[int]:
    """Return the parts of a message that the last request showed pictures of."""
    state = scene.state
    found = []
    for p, part in enumerate(scene.message(m).parts if m not in scene.seen.revised else ()):
        number = state.tag_of.get(key(m, p), 0)
        if not number or state.tags[number - 1].status != "active":
            continue
        inside = isinstance(part, Result) and part.media and state.spares.get(key(m, p), 0) < _cost(part)
        if inside or isinstance(part, Media):  # to the provider a link is a picture too
            found.append(p)
    return found


def _cost(part: Result) -> int:
    return min(part.media * COST, part.tokens)


def _without(ask: Ask, m: int, index: int) -> list[Item]:
    """Return how the pictures of a message leave."""
    scene = ask.scene
    items: list[Item] = []
    for p in _pictures(scene, m):
        if scene.state.tag_of[key(m, p)] in ask.taken:
            continue  # another lane takes it out on this pass
        part = scene.message(m).parts[p]
        if isinstance(part, Result):
            frees = _cost(part)
            items.append(Item(0, "", (SetMedia(m, p, "strip"),), frees, index, frees, ((m, p, frees),)))
        else:
            item = drop(scene, scene.state.tag_of[key(m, p)], ask.recent)
            items += [item] if item is not None else []
    return items


def _answered(ask: Ask) -> int:
    """Return the path index of the newest answer of the model: what stands before it was answered."""
    scene = ask.scene
    for index in range(scene.length() - 1, -1, -1):
        if scene.message(scene.at(index)).role == "assistant":
            return index
    return 0
