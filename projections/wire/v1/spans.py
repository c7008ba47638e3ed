"""Where the members and elements of a JSON text stand, as byte offsets, without decoding it.

Edits are splices of these spans, so that every byte an edit does not name survives (convention 4). The text was checked
when it was read; the scanner still refuses what it cannot walk rather than guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence

import msgspec

from ....domain.errors import LawBroken, MessageError

NESTING = 200
"""Deepest nesting of arrays and objects accepted (convention 4)."""

Span = tuple[int, int]
Member = tuple[str, int, int, int]
"""Key, start of the key's quote, start of the value, end of the value."""
Splice = tuple[int, int, bytes]

_BODY = re.compile(rb'[^"]*+(?:(?:(?<=[^\\]\\)|(?<=[^\\]\\\\\\))"[^"]*+)*+"')
"""A string up to its closing quote, or up to a quote behind many backslashes, whose parity must be counted."""
_KEY = re.compile(rb'[ \t\n\r]*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"[ \t\n\r]*+:[ \t\n\r]*+', re.DOTALL)
_BLANK = re.compile(rb"[ \t\n\r]*+")
_NEXT = re.compile(rb"[ \t\n\r]*+([,}\]])[ \t\n\r]*+")
_SCALAR = re.compile(rb'[^ \t\n\r\[\]{},:"]++')
_TURN = re.compile(rb'["{}\[\]]')
_BRACKET = re.compile(rb"[\[\]{}]")
_DEEP = frozenset({"content", "tool_calls", "function", "custom"})
"""Members worth looking into: all that an edit can reach (a codec may name its own)."""
_LEVELS = 5
"""Message, its content, a block, the content of a tool result, a block of it."""


def malformed(pos: int, what: str = "the JSON cannot be read") -> MessageError:
    """Return the error for a JSON text that breaks at byte ``pos``."""
    return MessageError(f"{what} at byte {pos}; hand over the message exactly as it was received", value=None)


def check_nesting(raw: bytes) -> None:
    """Refuse ``raw`` when arrays and objects are nested deeper than ``NESTING``; linear, not recursive."""
    # counting brackets inside strings too is cheap and only ever over-estimates
    if len(raw) <= 2 * NESTING or raw.count(b"[") + raw.count(b"{") <= NESTING:
        return
    # in JSON a backslash stands only inside strings, so every second piece between quotes is structure
    pieces = raw.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    depth = 0
    for found in _BRACKET.findall(b"".join(pieces[::2])):
        if found in b"[{":
            depth += 1
            if depth > NESTING:
                raise MessageError(f"arrays and objects are nested more than {NESTING} deep; such a message is refused")
        else:
            depth -= 1


def string_end(raw: bytes, pos: int) -> int:
    """Return the offset behind the closing quote of the string whose opening quote is at ``pos``."""
    quote = raw.find(b'"', pos + 1)
    if raw[quote - 1] != 92 and quote > 0:
        return quote + 1
    at = pos + 1
    while True:
        found = _BODY.match(raw, at)
        if found is None:
            raise malformed(pos, "a string is not closed")
        at = found.end()
        slash = at - 2
        while raw[slash] == 92:
            slash -= 1
        if (at - slash) % 2 == 0:
            return at


def value_end(raw: bytes, pos: int) -> int:
    """Return the offset behind the value that starts at ``pos``."""
    first = raw[pos : pos + 1]
    if first == b'"':
        return string_end(raw, pos)
    if first in (b"{", b"["):
        depth, at = 1, pos + 1
        while True:
            turn = _TURN.search(raw, at)
            if turn is None:
                raise malformed(pos, "an array or object is not closed")
            at = turn.start()
            what = raw[at]
            if what == 34:
                at = string_end(raw, at)
                continue
            at += 1
            if what in b"{[":
                depth += 1
            else:
                depth -= 1
                if not depth:
                    return at
    scalar = _SCALAR.match(raw, pos)
    if scalar is None:
        raise malformed(pos)
    return scalar.end()


def start(raw: bytes, pos: int = 0) -> int:
    """Return the offset of the first byte from ``pos`` on that is not white space."""
    found = _BLANK.match(raw, pos)
    return found.end() if found else pos


class Tree(msgspec.Struct):
    """The spans of a JSON text, found in one walk.

    ``objects`` and ``arrays`` map the offset of an opening bracket to the members (in written order, duplicate keys
    included) or elements behind it. ``deep``: the members that are looked into.
    """

    objects: dict[int, list[Member]] = {}
    arrays: dict[int, list[Span]] = {}
    deep: frozenset[str] = _DEEP

    def value(self, pos: int, key: str) -> Span | None:
        """Return the value span of the last member ``key`` (readers of JSON take the last) of the object at ``pos``."""
        return member(self.objects[pos], key) if pos in self.objects else None


def scan(raw: bytes, depth: int = _LEVELS, deep: frozenset[str] = _DEEP) -> Tree:
    """Return the spans of the value in ``raw``, ``depth`` levels deep; members not ``deep`` are passed over whole."""
    tree = Tree(deep=deep)
    _walk(raw, start(raw), tree, depth)
    return tree


def _walk(raw: bytes, pos: int, tree: Tree, depth: int) -> int:
    if depth:
        first = raw[pos : pos + 1]
        if first == b"{":
            return _object(raw, pos, tree, depth - 1)
        if first == b"[":
            return _array(raw, pos, tree, depth - 1)
    return value_end(raw, pos)


def _object(raw: bytes, pos: int, tree: Tree, depth: int) -> int:
    out: list[Member] = []
    tree.objects[pos] = out
    at = pos + 1
    while True:
        key = _KEY.match(raw, at)
        if key is None:
            step = _NEXT.match(raw, at)
            if out or step is None or step.group(1) != b"}":
                raise malformed(at)
            return step.end(1)
        begin, stop = key.span(1)
        name = raw[begin:stop]
        text = _escaped(name, begin) if b"\\" in name else name.decode("utf-8", "replace")
        value = key.end()
        at = _walk(raw, value, tree, depth) if text in tree.deep else value_end(raw, value)
        out.append((text, begin - 1, value, at))
        step = _NEXT.match(raw, at)
        if step is None or step.group(1) == b"]":
            raise malformed(at)
        if step.group(1) == b"}":
            return step.end(1)
        at = step.end()


def _escaped(name: bytes, pos: int) -> str:
    try:
        return str(json.loads(b'"' + name + b'"'))
    except ValueError:
        raise malformed(pos, "a key cannot be read") from None


def _array(raw: bytes, pos: int, tree: Tree, depth: int) -> int:
    out: list[Span] = []
    tree.arrays[pos] = out
    at = start(raw, pos + 1)
    if raw[at : at + 1] == b"]":
        return at + 1
    while True:
        begin = at
        at = _walk(raw, begin, tree, depth)
        out.append((begin, at))
        step = _NEXT.match(raw, at)
        if step is None or step.group(1) == b"}":
            raise malformed(at)
        if step.group(1) == b"]":
            return step.end(1)
        at = step.end()


def member(found: Sequence[Member], key: str) -> Span | None:
    """Return the value span of the last member called ``key``, or None."""
    for name, _, begin, end in reversed(found):
        if name == key:
            return begin, end
    return None


def elements(raw: bytes, pos: int) -> list[Span]:
    """Return the spans of the elements of the array at ``pos``. Raises ``MessageError`` where there is no array."""
    tree = Tree()
    _walk(raw, pos, tree, 1)
    if pos not in tree.arrays:
        raise malformed(pos, "an array was expected")
    return tree.arrays[pos]


def removals(items: Sequence[Span], gone: Collection[int]) -> list[Splice]:
    """Return the splices that take the items numbered ``gone`` out of their array or object, commas included."""
    out: list[Splice] = []
    kept = False
    for i, (begin, end) in enumerate(items):
        if i not in gone:
            kept = True
        elif kept:
            out.append((items[i - 1][1], end, b""))
        else:
            out.append((begin, items[i + 1][0] if i + 1 < len(items) else end, b""))
    return out


def splice(raw: bytes, edits: Iterable[Splice]) -> bytes:
    """Return ``raw`` with each span replaced. Spans may touch, not overlap (``LawBroken``: a defect of ours)."""
    out: list[bytes] = []
    at = 0
    for begin, end, text in sorted(edits, key=_order):
        if begin < at:
            raise LawBroken("two edits of one message overlap", value=(begin, end))
        out.append(raw[at:begin])
        out.append(text)
        at = end
    out.append(raw[at:])
    return b"".join(out)


def _order(edit: Splice) -> Span:
    return edit[0], edit[1]
