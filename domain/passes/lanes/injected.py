"""Lane: what other programs put into a text, once it is old (``transform.md`` 3.8)."""

from __future__ import annotations

import re

from ... import costs
from ...edits import SetBody
from ...inline import without
from ...state import key
from ...transcript import Text
from .shape import Ask, Item, Part, Work, chunk

NAME = "injected"
REMINDER = re.compile(r"<system-reminder>(?:(?!<system-reminder>).)*?</system-reminder>(?:[ \t]*\n)?", re.DOTALL)
MARKERS = (
    "<!-- OMO_INTERNAL_INITIATOR -->",
    "[SYSTEM DIRECTIVE: MAGIC-CONTEXT",
    "[SYSTEM DIRECTIVE: OH-MY-OPENCODE",
    "[Category+Skill Reminder]",
    "[EDIT ERROR - IMMEDIATE ACTION REQUIRED]",
    "[task CALL FAILED - IMMEDIATE RETRY REQUIRED]",
    "[EMERGENCY CONTEXT WINDOW WARNING]",
    "Unstable background agent appears idle",
    "**THE SUBAGENT JUST CLAIMED THIS TASK IS DONE.",
)
"""Each stands to the next blank line."""


def stripped(text: str) -> str:
    """Return a text without reminders and directives that programs put into it."""
    found = REMINDER.sub("", text)
    for marker in MARKERS:
        while (begin := found.find(marker)) >= 0:
            end = found.find("\n\n", begin)
            found = found[:begin] + (found[end + 2 :] if end >= 0 else "")
    return found if found == text else found.strip()


def wants(ask: Ask) -> frozenset[Part]:
    """Return the texts the last rebuild showed for the first time: each is looked at once."""
    if not ask.routine:
        return frozenset()
    state = ask.scene.state
    return frozenset((tag.m, tag.p) for tag in state.tags[state.looked : state.swept] if _old(ask, tag.m, tag.kind))


def plan(ask: Ask) -> Work:
    """Take such blocks out of those texts; a text of which nothing is left becomes a placeholder."""
    state = ask.scene.state
    items: list[Item] = []
    texts: dict[bytes, bytes] = {}
    read = {state.tag_of.get(key(m, p), 0): original for (m, p), original in ask.facts.items()}
    for number in sorted(read):
        if not state.looked < number <= state.swept:
            continue
        tag, original = state.tags[number - 1], read[number]
        index = ask.scene.index(tag.m)
        if not _old(ask, tag.m, tag.kind) or number in ask.taken or tag.status != "active":
            continue
        given = without(original) if state.quiet(tag.m, tag.p) else original
        left = stripped(given)
        if left == given or index < ask.begin:
            continue
        if not left:
            net = costs.of(state, tag) - costs.PLACEHOLDER_TOKENS
            items.append(Item(number, "placeholder", (SetBody(tag.m, tag.p, "placeholder"),), max(net, 0), index, net))
            continue
        digest = chunk(left, texts)
        frees = tag.tokens * (len(given) - len(left)) // len(original)
        known = ask.unsent(tag.m, tag.p)
        edit = SetBody(tag.m, tag.p, "text", digest)
        items.append(Item(0, "", (edit,), frees, index, frees, ((tag.m, tag.p, known + frees),)))
    return Work(NAME, tuple(items), texts)


def _old(ask: Ask, m: int, kind: str) -> bool:
    """Whether a text may be looked at: not of the first message, where hosts put the instructions of a project."""
    if kind != "text" or ask.scene.state.pos.get(m, -1) < max(ask.begin, 1) or m in ask.scene.seen.revised:
        return False
    return any(isinstance(part, Text) for part in ask.scene.message(m).parts)
