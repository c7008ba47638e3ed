"""The four cache marks of an Anthropic request, put into bytes by splicing (``specs/proxy.md``, Marks).

Where the client put its own says only how long its entries are to live; the places are ours.
"""

from __future__ import annotations

import re

import msgspec

from ...projections.wire.v1 import spans
from ...projections.wire.v1.blocks import carries_mark
from ...projections.wire.v1.forms import plain
from .body import Body
from .outgoing import Outgoing
from .regions import is_billing

LOOKBACK = 18
"""Blocks between two marks from which on the newer finds no entry of the older: the provider looks 20 back."""
_MARK = re.compile(rb'"cache_control"[ \t\n\r]*+:[ \t\n\r]*+\{[^{}]*+\}')
_HOUR = re.compile(rb'"ttl"[ \t\n\r]*+:[ \t\n\r]*+"1h"')
_NEWEST = 3
"""How many of the client's last messages are looked at for its marks; clients mark the last two at most."""


class Places(msgspec.Struct, frozen=True):
    """The mark of the system text (``b""``: none), and each marked message in its marked form."""

    system: bytes
    messages: dict[int, bytes]


def place(body: Body, out: Outgoing) -> Places:
    """Choose the marks: end of system, m[0], m[1], tail.

    Where the last tail is out of the provider's sight of the new one, it is marked once more, in the place of m[0]
    (whose entry nothing needs while m[1] stays) or in a free one.
    """
    above, behind = lifetimes(body, out)
    heads = list(range(out.leading, out.leading + min(out.head, 2)))
    first = out.leading + out.head
    found: dict[int, bytes] = {}
    last = -1
    for index in range(len(out.starts) - 1, first - 1, -1):
        marked = message(out.message(index), mark(behind))
        if marked is not None:
            last, found[index] = index, marked
            break
    if last != out.tail:
        out.before, out.tail = out.tail, last
    wanted = heads
    if first <= out.before < last and _blocks(out, out.before + 1, last) > LOOKBACK:
        again = message(out.message(out.before), mark(behind))
        if again is not None:
            found[out.before] = again
            wanted = heads[1:]
    for index in wanted:
        marked = out.once(index, above, lambda at=index: message(out.message(at), mark(above)))  # type: ignore[misc]
        if marked is not None:
            found[index] = marked
    return Places(mark(above), found)


def mark(ttl: str | None) -> bytes:
    """Return a mark as a member behind others."""
    return b',"cache_control":{"type":"ephemeral"%b}' % (b',"ttl":"%b"' % ttl.encode() if ttl else b"")


def lifetimes(body: Body, out: Outgoing) -> tuple[str | None, str | None]:
    """Return the lifetimes the client asks for: of the stable front, and of the tail. None: the provider's default.

    An entry of an hour may not stand behind one of five minutes, so the front lives as long as the tail at least.
    """
    above = tuple(body.members.get(name, b"") for name in ("system", "tools", "cache_control"))
    front, own = out.once("front", above, lambda: _front(*above))
    tail = b"".join(_marks(raw) for raw in body.messages[-_NEWEST:]) or own or front
    behind = "1h" if _HOUR.search(tail) else None
    return ("1h" if behind or _HOUR.search(front + own) else None), behind


def _front(system: bytes, tools: bytes, automatic: bytes) -> tuple[bytes, bytes]:
    """Return the marks of system and tools, and the automatic one."""
    return _marks(system) + _marks(tools), b'"cache_control":' + automatic if automatic else b""


def _marks(raw: bytes) -> bytes:
    return b"".join(_MARK.findall(raw)) if b'"cache_control"' in raw else b""


def message(raw: bytes, given: bytes) -> bytes | None:
    """Return a message with a mark on its last block that may carry one; None where none may."""
    tree = spans.scan(raw, 3)
    top = spans.start(raw)
    content = tree.value(top, "content")
    if content is None:
        return None
    begin, end = content
    if raw[begin : begin + 1] == b'"':
        if not plain(raw[begin:end]).strip():
            return None
        alone = b'[{"type":"text","text":' + raw[begin:end] + given + b"}]"
        return spans.splice(raw, [(begin, end, alone)])
    for block, _ in reversed(tree.arrays.get(begin, ())):
        if _carries(raw, tree, block):
            stop = tree.objects[block][-1][3]
            return spans.splice(raw, [(stop, stop, given)])
    return None


def _carries(raw: bytes, tree: spans.Tree, pos: int) -> bool:
    if not tree.objects.get(pos):
        return False
    kind, said = tree.value(pos, "type"), tree.value(pos, "text")
    return carries_mark(
        plain(raw[kind[0] : kind[1]]) if kind else None,
        plain(raw[said[0] : said[1]]) if said else None,
    )


def _blocks(out: Outgoing, begin: int, end: int) -> int:
    """Return how many blocks the messages ``begin`` to ``end`` hold, or a figure below ``LOOKBACK`` for few."""
    stop = out.starts[end + 1] if end + 1 < len(out.starts) else len(out.text)
    most = out.text.count(b'"type"', out.starts[begin], stop) + end - begin + 1
    if most <= LOOKBACK:
        return most
    count = 0
    for index in range(begin, end + 1):
        raw = out.message(index)
        tree = spans.scan(raw, 2)
        content = tree.value(spans.start(raw), "content")
        count += max(len(tree.arrays.get(content[0], ())), 1) if content else 1
    return count


def messages(out: Outgoing, places: Places) -> list[bytes | memoryview]:
    """Return the messages as pieces to join, the marked ones in their marked form."""
    return out.pieces(places.messages)


def system(out: Outgoing, billing: list[bytes], given: bytes) -> bytes:
    """Return the system text to send (``b""``: none): this request's billing blocks, ours as it was, a mark at its end.

    A billing block vouches for one request, so the newest goes; it is in no digest (JSON-9).
    """
    rest = out.once("system", (out.system, given), lambda: _own(out.system, given))
    return b"[" + b",".join([*billing, *rest]) + b"]" if rest or billing else b""


def _own(raw: bytes, given: bytes) -> list[bytes]:
    """Return the blocks of a system text, billing apart, the last that may carry a mark marked."""
    at = spans.start(raw)
    if not raw[at:]:
        return []
    if raw[at : at + 1] == b'"':
        if not plain(raw).strip():
            return []  # a block may not be blank; no system text says the same
        items = [b'{"type":"text","text":' + raw[at:].strip() + b"}"]
    else:
        items = [raw[begin:end] for begin, end in spans.elements(raw, at)]
    rest = [item for item in items if not is_billing(item)]
    for index in range(len(rest) - 1, -1, -1):
        tree = spans.scan(rest[index], 2)
        if _carries(rest[index], tree, 0):
            stop = tree.objects[0][-1][3]
            rest[index] = spans.splice(rest[index], [(stop, stop, given)])
            break
    return rest
