"""What the state machine holds every request against. Nothing here asks the product what is right.

``Served`` is the model's own record of a request: the host's messages, and the bytes each of them became.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from checker import anthropic, broken_rules, openai, pi, responses, thinking

from support import machine_host as host

_TAG = re.compile(r"§([0-9]+)§")
_AWAY = re.compile(r"<!-- \+[0-9]+[mhdw](?: [0-9]+[mhd])? -->\n")
_DROPPED = re.compile(r"\[dropped §([0-9]+)§\]")
REPAIRED = {"ANT-8", "ANT-9", "ANT-6"}
"""Rules the host's own array may break where foldlog must not."""
BEHIND_A_GONE_ARC = {"ANT-6", "ANT-19", "OAI-6"}
"""Where the host sends a new result under a call that was dropped in full, or a request beside the head leaves right
behind such an arc, the assistant's text before it ends the request, or meets the thinking of the next answer."""


@dataclass(frozen=True)
class Served:
    """``wire[i]``: what the host's message ``items[i]`` became (None: it lies behind the cut); ``ms[i]``: its ordinal;
    ``prefix``: what stands before the first. ``alone``: a request beside the head, without a head of ours.
    """

    number: int
    items: list[host.Message]
    ms: list[int]
    wire: list[tuple[bytes, ...] | None]
    prefix: tuple[Any, ...]
    regions: tuple[int, int]
    event: Any

    @property
    def alone(self) -> bool:
        side = getattr(self.event, "side", None)
        return bool(side is not None and side.whole)

    def by_m(self) -> dict[int, tuple[host.Message, tuple[bytes, ...]]]:
        """Return (message, bytes) by ordinal of all that was sent."""
        triples = zip(self.ms, self.items, self.wire, strict=True)
        return {m: (item, wire) for m, item, wire in triples if wire is not None}


def record(
    built: Any, event: Any, whole: list[int], begin: int, items: list[host.Message], regions: tuple[int, int]
) -> Served:
    """Return the record of a request. ``built.owners`` must follow the path in order, each message in one stretch.

    ``begin``: the place of the first message behind the cut.
    """
    path = whole[begin:]
    front = built.leading + built.head
    assert not any(built.owners[:front]), "a message of the host stands in the head"
    wire: dict[int, list[bytes]] = {m: [] for m in path}
    assert len(wire) == len(path), "a message stands on the path twice"
    order = [m for i, m in enumerate(built.owners[front:]) if not i or built.owners[front + i - 1] != m]
    assert order == [m for m in path if m in set(order)], "the messages are out of order"
    for m, raw in zip(built.owners[front:], built.messages[front:], strict=True):
        wire[m].append(raw)
    prefix = (built.system, built.tools, *built.messages[:front])
    sent = [None] * begin + [tuple(wire[m]) for m in path]
    return Served(event.number, list(items), list(whole), sent, prefix, regions, event)


def diverges(base: Served, now: Served, rewritten: set[str]) -> int:
    """Return the index of the first message that is not as in ``base`` (its length where all are there).

    ``rewritten``: messages that were handed over otherwise in between, and refused so (``host.rewritten``).
    """
    for index, item in enumerate(base.items):
        if index >= len(now.items) or not host.same(item, now.items[index]) or item["uid"] in rewritten:
            return index
    return len(base.items)


# --------------------------------------------------------------------- bytes, level by level


def unchanged(base: Served, now: Served, strict: bool, rewritten: set[str]) -> None:
    """PROP-1, LAW-3: a deferred pass keeps all bytes before the host's first change, and the edits of all behind it."""
    if base.regions == now.regions and base.alone == now.alone:
        assert base.prefix == now.prefix, f"PROP-1: pass {now.number} changed system, tools or head"
    if base.alone == now.alone:
        assert base.wire.count(None) == now.wire.count(None), f"PROP-1: pass {now.number} moved the cut"
    place = diverges(base, now, rewritten)
    for index in range(place):
        if base.wire[index] is None or now.wire[index] is None:
            continue
        assert base.wire[index] == now.wire[index], _said("PROP-1: before the divergence", base, now, index, index)
    old = base.by_m()
    for index, m in enumerate(now.ms):
        item = now.items[index]
        if m in old and now.wire[index] is not None and host.same(old[m][0], item) and item["uid"] not in rewritten:
            assert old[m][1] == now.wire[index], _said(
                "PROP-1: an unchanged message", base, now, base.ms.index(m), index
            )
    if strict:
        behind = {item["uid"]: i for i, item in enumerate(base.items)}
        for index, item in enumerate(now.items):
            i = behind.get(item["uid"], -1)
            shown = i >= 0 and base.wire[i] is not None and now.wire[index] is not None
            if shown and host.same(base.items[i], item):
                assert base.wire[i] == now.wire[index], _said("PROP-1: a message that only moved", base, now, i, index)


def grown(codec: str, base: Served, now: Served) -> None:
    """PROP-1: the unchanged leading parts of a revised message keep their edits."""
    old = base.by_m()
    for index, m in enumerate(now.ms):
        if m not in old or now.wire[index] is None or host.same(old[m][0], now.items[index]):
            continue
        was, is_ = old[m][0]["parts"], now.items[index]["parts"]
        same = next((i for i, (a, b) in enumerate(zip(was, is_, strict=False)) if a != b), min(len(was), len(is_)))
        kept = [p for p in was[:same] if not host.blank(p)]
        if any(p["t"] not in ("text", "result") for p in kept) or len(old[m][1]) != 1 or len(now.wire[index]) != 1:
            continue
        before, after = (host.seen(codec, json.loads(w[0])) for w in (old[m][1], now.wire[index]))
        pairs = zip(kept, before, strict=False)
        left = any(p["t"] == "result" and block[:2] != ("result", p["id"]) for p, block in pairs)
        if not left and sum(1 for p in was if not host.blank(p)) == len(before):
            assert before[: len(kept)] == after[: len(kept)], _said(
                "PROP-1: leading parts", base, now, base.ms.index(m), index
            )


def rebuilt(
    base: Served, now: Served, owners: set[int], reach: int, rewritten: set[str], *, hard: bool, soft: bool
) -> None:
    """LAW-3, LAW-4, INV-3: a rebuild changes what a landed drop owns, from its reach on; SOFT+ leaves the prefix and
    the cut, SOFT all of the prefix but m[1].
    """
    if not hard and base.regions == now.regions:
        kept = slice(None, -1 if soft else None)
        assert base.prefix[kept] == now.prefix[kept], f"LAW-3: pass {now.number} changed system, tools or head"
    if not hard and not soft:
        assert base.wire.count(None) == now.wire.count(None), f"LAW-3: SOFT+ pass {now.number} moved the cut"
    old = base.by_m()
    for index, m in enumerate(now.ms):
        if now.wire[index] in (None, old[m][1] if m in old else None):
            continue
        item = now.items[index]
        if m in old and host.same(old[m][0], item) and item["uid"] not in rewritten:
            assert m in (owners if index >= reach else ()), _said(
                "LAW-4: changed for no drop", base, now, base.ms.index(m), index
            )


def smaller(base: Served, now: Served, *, strict: bool) -> None:
    """PROP-4: what both requests hold takes fewer bytes after an own rebuild.

    Not ``strict``: the drops may have landed on messages the host brought back, which ``base`` does not hold.
    """
    old = base.by_m()
    both = [(m, wire) for i, (m, wire) in enumerate(zip(now.ms, now.wire, strict=True)) if _both(old, now, i)]
    before = sum(len(raw) for m, _ in both for raw in old[m][1])
    after = sum(len(raw) for _, wire in both for raw in wire or ())
    assert after < before + (not strict), f"PROP-4: the rebuild of pass {now.number} made {before} bytes into {after}"


def _both(old: dict[int, tuple[host.Message, tuple[bytes, ...]]], now: Served, index: int) -> bool:
    m = now.ms[index]
    return m in old and now.wire[index] is not None and host.same(old[m][0], now.items[index])


def _said(what: str, base: Served, now: Served, i: int, j: int) -> str:
    return (
        f"{what}: pass {base.number} sent {b' '.join(base.wire[i] or ())!r}, pass {now.number} "
        f"({type(now.event).__name__}) sends {b' '.join(now.wire[j] or ())!r}"
    )


# ---------------------------------------------------------------------------- one message


@dataclass(frozen=True)
class Left:
    """What may be missing from a message. ``reduce``: numbers are shown; ``shy``: some may not be, since what was
    marked could not leave when they were given; ``dropped``: tags that may be gone; ``thoughts``: reasoning that may;
    ``stripped``: calls whose result may be without its pictures; ``hollow``: answers of which only
    placeholders were left.
    """

    reduce: bool
    shy: bool
    dropped: set[int]
    thoughts: set[str]
    stripped: set[str]
    hollow: set[str]


def explain(
    codec: str, left: Left, message: host.Message, wire: tuple[bytes, ...], told: Callable[[str], str]
) -> tuple[list[tuple[int, int]], set[str]]:
    """LAW-5, PROP-3: what was sent is the host's message with numbers and with drops somebody asked for, nothing else.

    ``told``: takes off a person's text what foldlog says behind it. Return the (tag, part) pairs seen and the call ids
    that are gone.
    """
    blocks = [block for raw in wire for block in host.seen(codec, json.loads(raw))]
    parts = message["parts"]
    tags: list[tuple[int, int]] = []
    gone: set[str] = set()
    at = 0
    sealed = max((p for p, part in enumerate(parts) if part["t"] == "think" and part["sig"]), default=-1)
    if not wire:
        for part in parts if message["uid"] not in left.hollow else ():
            assert part["t"] in ("call", "result", "think") or host.blank(part), f"a message is gone: {parts!r}"
        if message["role"] == "user":
            assert not all(host.blank(part) for part in parts), "a blank user message vanished"
        return [], {part["id"] for part in parts if part["t"] in ("call", "result")}
    if codec == "anthropic" and all(host.blank(part) for part in parts):
        assert blocks == [("text", "(no content)")], f"a blank message became {blocks!r}"
        return [], set()
    for p, part in enumerate(parts):
        block = blocks[at] if at < len(blocks) else ("nothing",)
        kind = part["t"]
        if host.blank(part):
            if codec != "anthropic":
                assert block == ("text", host.written(part))
                at += 1
        elif kind == "text":
            assert block[0] == "text", f"{part!r} became {block!r}"
            said = _spoken(block[1], message, told)
            tags += _tagged(said, part, replace(left, shy=True) if p < sealed else left, p)
            at += 1
        elif kind == "call":
            if block[:2] == ("call", part["id"]):
                assert block == ("call", part["id"], part["name"], part["args"]), f"PROP-3: {part!r} became {block!r}"
                at += 1
            else:
                gone.add(part["id"])
        elif kind == "result":
            if block[:2] == ("result", part["id"]):
                tags += _output(block, part, left, p)
                at += 1
            else:
                gone.add(part["id"])
        elif kind == "think":
            if part["s"] not in left.thoughts or block == ("think", part["s"]):
                assert block == ("think", part["s"]), f"{part!r} became {block!r}"
                at += 1
        else:
            at += _picture(blocks[at : at + 2], left, p, tags)
    assert at == len(blocks), f"{message!r} became {blocks!r}"
    return tags, gone


def hollow(codec: str, message: host.Message, wire: tuple[bytes, ...]) -> bool:
    """Whether of an answer only placeholders are left, which may leave then (HOLLOW-1)."""
    if codec != "anthropic" or message["role"] != "assistant":
        return False
    blocks = [block for raw in wire for block in host.seen(codec, json.loads(raw))]
    return bool(blocks) and all(block[0] == "text" and _DROPPED.fullmatch(block[1]) for block in blocks)


def _spoken(text: str, message: host.Message, told_behind: Callable[[str], str]) -> str:
    """Return a text without what foldlog tells the agent: of a silence before a person's words, the rest behind."""
    if message["role"] != "user" or any(part["t"] == "result" for part in message["parts"]):
        return text
    text = told_behind(text)
    number = _TAG.match(text)
    rest = text[number.end() + 1 :] if number else text
    told = _AWAY.match(rest)
    return text if told is None else (f"{number[0]} " if number else "") + rest[told.end() :]


def _tagged(said: str, part: host.Part, left: Left, p: int) -> list[tuple[int, int]]:
    if (not left.reduce or left.shy) and said == host.written(part):
        return []
    gone = _DROPPED.fullmatch(said)
    if gone:
        assert int(gone[1]) in left.dropped, f"§{gone[1]}§ was dropped, and nobody asked for it"
        return [(int(gone[1]), p)]
    found = _TAG.match(said)
    assert left.reduce, f"{part!r} became {said!r}"
    assert found, f"{part!r} became {said!r}"
    rest = host.stripped(part)
    assert said == (f"{found[0]} {rest}" if rest else found[0]), f"{part!r} became {said!r}"
    return [(int(found[1]), p)]


def _output(block: tuple[Any, ...], part: host.Part, left: Left, p: int) -> list[tuple[int, int]]:
    _, _, texts, media = block
    assert len(texts) <= 1, f"{part!r} became {block!r}"
    said = "".join(texts)
    bare = part["id"] in left.stripped and not part["s"] and _DROPPED.fullmatch(said)
    tags = [(int(bare[1]), p)] if bare else _tagged(said, part, left, p)
    gone = bool(tags) and bool(texts) and bool(_DROPPED.fullmatch(texts[0]))
    kept = 0 if gone else part["media"]
    assert media == kept or (media == 0 and part["id"] in left.stripped), f"{part!r} became {block!r}"
    return tags


def _picture(blocks: list[tuple[Any, ...]], left: Left, p: int, tags: list[tuple[int, int]]) -> int:
    if blocks[:1] == [("media",)] and (not left.reduce or left.shy):
        return 1
    said = blocks[0][1] if blocks and blocks[0][0] == "text" else ""
    gone, found = _DROPPED.fullmatch(said), _TAG.fullmatch(said)
    if gone:
        assert int(gone[1]) in left.dropped, f"§{gone[1]}§ was dropped, and nobody asked for it"
        tags.append((int(gone[1]), p))
        return 1
    assert left.reduce, f"a picture became {blocks!r}"
    assert found, f"a picture became {blocks!r}"
    assert blocks[1:] == [("media",)], f"a picture became {blocks!r}"
    tags.append((int(found[1]), p))
    return 2


# ------------------------------------------------------------------------------- validity


def valid(
    codec: str,
    system: Any,
    tools: Any,
    messages: list[Any],
    raw: list[Any],
    raw_system: Any,
    behind: list[Any],
    half: bool,
) -> None:
    """PROP-2: the request breaks no rule of its provider that the host's own array does not break.

    ``behind``: the host's messages behind the cut, where thinking is to be looked after: a summary takes the place of
    whole messages, their thinking with them.
    """
    found = _broken(codec, system, tools, messages)
    if found:
        allowed = broken_rules(_broken(codec, raw_system, tools, raw)) - REPAIRED
        allowed |= BEHIND_A_GONE_ARC if half else set()
        left = [violation for violation in found if violation.rule not in allowed]
        assert not left, f"PROP-2: {left[0]}"
    if behind and codec == "openai-responses":
        kept = responses.check_against({"input": behind}, {"input": messages})
        assert not kept, f"PROP-2: {kept[0]}"
    if behind and codec == "anthropic":
        kept = thinking.check_against({"messages": behind}, {"messages": messages})
        assert not kept, f"PROP-2: {kept[0]}"


def _broken(codec: str, system: Any, tools: Any, messages: list[Any]) -> list[Any]:
    if codec == "openai-chat":
        return openai.check({"messages": messages, **({"tools": tools} if tools else {})})
    if codec == "pi":
        return pi.check(messages)
    if codec == "openai-responses":
        return responses.check({"input": messages, "tools": tools, "instructions": system or None})
    request = {"messages": messages, **({"system": system} if system else {}), **({"tools": tools} if tools else {})}
    return anthropic.check(request)
