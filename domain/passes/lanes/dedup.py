"""Lane: the same look at the same thing is kept once, the newest time (``transform.md`` 3.7, across turns).

Two results are one where tool, arguments and output are equal to the letter, and both looks ended well or neither did.
A file edited in between reads otherwise, so what is equal was not; a command is never taken for a look.
"""

from __future__ import annotations

from ...arcs import call_part
from ...names import LOOKS, plain
from ...state import PARTS_LIMIT, key
from ...transcript import Result
from .drops import drop
from .shape import Ask, Item, Part, Work

NAME = "dedup"


def wants(ask: Ask) -> frozenset[Part]:
    """Return the contents to compare: calls of one tool whose arguments and results are equally long."""
    if not ask.routine:
        return frozenset()
    alike = [parts for group in _groups(ask) if len(group) > 1 for parts in group.values()]
    calls = frozenset(call for call, _ in alike)
    if not calls <= ask.facts.keys():
        return calls
    twins = [parts for group in _twins(ask) if len(group) > 1 for parts in group.values()]
    return frozenset(result for _, result in twins)


def plan(ask: Ask) -> Work:
    """Take out all but the newest of equal looks."""
    if not ask.routine:
        return Work(NAME)
    items: list[Item] = []
    for group in _twins(ask):
        seen: set[str] = set()
        for number, (_, result) in reversed(group.items()):
            output = ask.facts.get(result)
            if output is None or number in ask.taken:
                continue  # what leaves with this pass stands for no other
            twin = output in seen
            seen.add(output)
            item = drop(ask.scene, number, ask.recent) if twin and number not in ask.spared else None
            if item is not None and item.index >= ask.begin and item.net > 0:
                items.append(item)
    return Work(NAME, tuple(sorted(items, key=lambda item: item.tag)))


def _groups(ask: Ask) -> list[dict[int, tuple[Part, Part]]]:
    """Return the looks that may be equal, by name and sizes: tag to (call, result), oldest first."""
    state = ask.scene.state
    found: dict[tuple[str, int, int, int, bool], dict[int, tuple[Part, Part]]] = {}
    for number in ask.tools:
        tag = state.tags[number - 1]
        call = call_part(state, tag.m, tag.p)
        if tag.status != "active" or call is None or plain(call.name) not in LOOKS:
            continue
        result = state.node(tag.m).message.parts[tag.p]
        if tag.m in ask.scene.seen.revised or not isinstance(result, Result) or result.media:
            continue
        caller = divmod(state.call_of[key(tag.m, tag.p)], PARTS_LIMIT)
        alike = (call.name, call.size, call.strings, result.size, result.error)
        found.setdefault(alike, {})[number] = (caller, (tag.m, tag.p))
    return list(found.values())


def _twins(ask: Ask) -> list[dict[int, tuple[Part, Part]]]:
    """Return the groups further parted by their arguments, as far as these are known."""
    found: list[dict[int, tuple[Part, Part]]] = []
    for group in _groups(ask):
        by_arguments: dict[str, dict[int, tuple[Part, Part]]] = {}
        for number, parts in group.items():
            given = ask.facts.get(parts[0])
            if given is not None:
                by_arguments.setdefault(given, {})[number] = parts
        found.extend(by_arguments.values())
    return found
