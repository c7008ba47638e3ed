"""A request's body as bytes: taken apart by comparing it with the last one of its session (``specs/proxy.md``).

A client sends its whole history with every request. What is the same as last time is found by comparing bytes; only
what is new is looked at, and even that only for where its values end. Nothing is decoded here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

import msgspec

from ...domain.errors import MessageError
from ...projections.wire.v1 import spans
from ...projections.wire.v1.forms import plain

ARRAYS = ("messages", "input", "system", "tools")
"""Members taken apart by element, where they are arrays: what is new stands at the end of one, or inside one of it."""
_SPACE = b" \t\n\r"
_KEY = re.compile(rb'[ \t\n\r]*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"[ \t\n\r]*+:[ \t\n\r]*+', re.DOTALL)
_NEXT = re.compile(rb"[ \t\n\r]*+([,}\]])[ \t\n\r]*+")
_MARK = re.compile(rb',"cache_control":\{[^{}"\\]*+(?:"[^"\\]*+"[^{}"\\]*+)*+\}')
"""A cache mark behind another member. Such bytes cannot stand inside a string: its quotes would end the string."""
_MARK_HEAD = b',"cache_control":{'
_FIRST_STEP, _LAST_STEP = 256, 256 * 1024
_CLOSED = b'"}]'


class Items(msgspec.Struct):
    """The elements of an array. ``stops[i]``: the offset behind element ``i``, counted from the array's bracket."""

    items: list[bytes]
    stops: list[int]

    def begin(self, index: int) -> int:
        """Return the offset of an element, counted from the array's bracket."""
        return self.stops[index] - len(self.items[index])


class Body(msgspec.Struct):
    """A request body taken apart. Every ``bytes`` that is as it was in the last body is the *same object* as there.

    ``members``: top-level members in written order, each with its raw value, without the message member (``member``),
    which is not sliced as one. Of a duplicate name the last counts. ``messages``: its elements. ``spans``: where each
    value stands in ``raw``, the message member's too. ``arrays``: the elements of the members in ``ARRAYS`` that are
    arrays. ``parsed``: how many bytes were scanned rather than compared. ``keys``: where each member's key begins.
    """

    raw: bytes
    member: str
    members: dict[str, bytes]
    messages: list[bytes]
    parsed: int
    spans: dict[str, tuple[int, int]]
    keys: dict[str, int]
    arrays: dict[str, Items]

    def value(self, name: str) -> Any:
        """Return a member decoded (None where it is absent or null). For small members; ``MessageError`` if broken."""
        raw = self.members.get(name)
        return None if raw is None else plain(raw)


def take(raw: bytes, member: str, last: Body | None = None) -> Body:
    """Take a body apart, comparing it with the last one of its session (None: there is none).

    ``member``: the name of the array of messages (``messages``, ``input``). Scanned are at most the new bytes, one
    message, and the small members that changed (PROXY-1). Any ``last`` gives the same result, a fitting one sooner.
    Raises ``MessageError`` with the byte position for what is not a JSON object with an array of messages.
    """
    if last is not None and last.member != member:
        last = None
    body = Body(raw, member, {}, [], 0, {}, {}, {})
    at = spans.start(raw)
    if raw[at : at + 1] != b"{":
        raise MessageError(f"the request's body must be a JSON object; byte {at} is something else", where="body")
    try:
        at = _members(body, at + 1, last)
    except MessageError as error:
        raise MessageError(error.message, value=error.value, where="body") from None
    if raw[at:].strip(_SPACE):
        raise MessageError(f"the request's body goes on behind its end, at byte {at}", where="body")
    if member not in body.spans:
        raise MessageError(f"the request has no {member}; there is nothing to send", where="body")
    return body


def _members(body: Body, at: int, last: Body | None) -> int:
    """Walk the top-level members from behind the opening brace; return the offset behind the closing one."""
    raw = body.raw
    step = _NEXT.match(raw, at)
    if step is not None and step.group(1) == b"}":
        return step.end(1)
    while True:
        key = _KEY.match(raw, at)
        if key is None:
            raise _broken(raw, at)
        name = _name(key.group(1), key.start(1))
        body.parsed += key.end() - at
        begin = key.end()
        end = _value(body, name, begin, last)
        body.spans[name] = (begin, end)
        body.keys[name] = key.start(1) - 1
        step = _NEXT.match(raw, end)
        if step is None or step.group(1) == b"]":
            raise _broken(raw, end)
        if step.group(1) == b"}":
            return step.end(1)
        at = step.end()


def _name(name: bytes, pos: int) -> str:
    try:
        return str(plain(b'"' + name + b'"')) if b"\\" in name else name.decode("utf-8")
    except (MessageError, UnicodeDecodeError):
        raise spans.malformed(pos, "a key cannot be read") from None


def _broken(raw: bytes, pos: int) -> MessageError:
    return spans.malformed(spans.start(raw, pos))


def _value(body: Body, name: str, begin: int, last: Body | None) -> int:
    """Take one value; return the offset behind it."""
    raw = body.raw
    if name == body.member == "input" and raw[begin : begin + 1] == b'"':  # a text stands for one message
        end = spans.string_end(raw, begin)
        body.parsed += end - begin
        body.messages = [b'{"role":"user","content":' + raw[begin:end] + b"}"]
        plain(body.messages[0])
        return end
    if name == body.member:
        if raw[begin : begin + 1] != b"[":
            raise spans.malformed(begin, f"{name} must be an array")
        before = last.spans[name][0] if last is not None else 0
        items, end = _array(body, begin, last, name, before)
        body.messages = items.items
        body.arrays[name] = items
        return end
    if last is not None and name in last.members:
        known = last.members[name]
        if _stands(raw, begin, known):
            body.members[name] = known
            body.arrays.pop(name, None)
            if name in last.arrays:
                body.arrays[name] = last.arrays[name]
            return begin + len(known)
    if name in ARRAYS and raw[begin : begin + 1] == b"[":
        before = last.spans[name][0] if last is not None and name in last.arrays else 0
        body.arrays[name], end = _array(body, begin, last, name, before)
    else:
        body.arrays.pop(name, None)
        end = spans.value_end(raw, begin)
        body.parsed += end - begin
        plain(raw[begin:end])  # small, and read later: better said now
    body.members[name] = raw[begin:end]
    return end


def _stands(raw: bytes, at: int, value: bytes) -> bool:
    """Whether ``value``, a whole JSON value, stands at ``at`` as a whole."""
    if not raw.startswith(value, at):
        return False
    return value[-1] in _CLOSED or _NEXT.match(raw, at + len(value)) is not None


def _array(body: Body, start: int, last: Body | None, name: str, before: int) -> tuple[Items, int]:
    """Take the array whose bracket is at ``start``, ``before`` in the last body; return it, the offset behind it."""
    raw = body.raw
    known = last.arrays.get(name) if last is not None else None
    items: list[bytes] = []
    stops: list[int] = []
    at = spans.start(raw, start + 1)
    if raw[at : at + 1] == b"]":
        return Items(items, stops), at + 1
    while True:
        place = len(items)
        if known is not None and last is not None and place < len(known.items):
            old = before + known.begin(place)
            same = common(raw, at, last.raw, old)
            count = _whole(known, place, old + same - before, raw, at + same) - place
            if count:
                shift = (at - start) - (old - before)
                items += known.items[place : place + count]
                part = known.stops[place : place + count]
                stops += [stop + shift for stop in part] if shift else part
                end = start + stops[-1]
            else:
                end, item = _element(body, at, known.items[place], same)
                items.append(item)
                stops.append(end - start)
        else:
            end = spans.value_end(raw, at)
            body.parsed += end - at
            items.append(raw[at:end])
            stops.append(end - start)
        step = _NEXT.match(raw, end)
        if step is None or step.group(1) == b"}":
            raise _broken(raw, end)
        if step.group(1) == b"]":
            return Items(items, stops), step.end(1)
        at = step.end()


def _whole(known: Items, place: int, reach: int, raw: bytes, at: int) -> int:
    """Return how many elements of ``known`` end at or before ``reach``, the equal bytes' end (at ``at`` in ``raw``)."""
    count = bisect_right(known.stops, reach, lo=place)
    open_end = count > place and known.stops[count - 1] == reach and known.items[count - 1][-1] not in _CLOSED
    return count - 1 if open_end and _NEXT.match(raw, at) is None else count


def _element(body: Body, at: int, known: bytes, same: int) -> tuple[int, bytes]:
    """Take an element that differs from ``known`` behind its first ``same`` bytes; return where it ends, and it."""
    raw = body.raw
    end = _moved_mark(raw, at, known, same)
    if end < 0:
        end = spans.value_end(raw, at)
        body.parsed += end - at
    return end, raw[at:end]


def _moved_mark(raw: bytes, at: int, known: bytes, same: int) -> int:
    """Return where the element at ``at`` ends if it is ``known`` without one cache mark or with one more, else -1.

    Compared, not scanned: an object with a member more or less ends where its other bytes end.
    """
    begin = known.rfind(_MARK_HEAD, 0, same + len(_MARK_HEAD))
    mark = _MARK.match(known, begin) if begin >= 0 else None
    if mark is not None and begin <= same:
        rest = len(known) - mark.end()
        if raw.startswith(memoryview(known)[mark.end() :], at + begin):
            return at + begin + rest
    begin = raw.rfind(_MARK_HEAD, at, at + same + len(_MARK_HEAD))
    mark = _MARK.match(raw, begin) if begin >= 0 else None
    if mark is not None and begin - at <= same and raw.startswith(memoryview(known)[begin - at :], mark.end()):
        return mark.end() + len(known) - (begin - at)
    return -1


def behind(body: Body, earlier: list[bytes]) -> Body:
    """Return a body whose messages go on behind ``earlier`` ones that the client did not send again."""
    return msgspec.structs.replace(body, messages=[*earlier, *body.messages])


def unchanged(body: Body, last: Body) -> int:
    """Return how many leading messages are the same objects in both."""
    limit = min(len(body.messages), len(last.messages))
    return next((i for i in range(limit) if body.messages[i] is not last.messages[i]), limit)


def common(a: bytes, i: int, b: bytes, j: int) -> int:
    """Return how many bytes from ``a[i]`` and ``b[j]`` on are equal: comparisons of growing stretches, then halves."""
    limit = min(len(a) - i, len(b) - j)
    view = memoryview(b)
    same, step = 0, _FIRST_STEP
    while same < limit:
        size = min(step, limit - same)
        if not a.startswith(view[j + same : j + same + size], i + same):
            break
        same += size
        step = min(step * 2, _LAST_STEP)
    else:
        return limit
    low, high = same, same + size - 1  # the first difference lies behind low..high equal bytes
    while low < high:
        middle = (low + high + 1) // 2
        if a.startswith(view[j + low : j + middle], i + low):
            low = middle
        else:
            high = middle - 1
    return low


def rewrite(body: Body, changes: dict[str, list[bytes | memoryview] | None]) -> bytes:
    """Return the body with members replaced by the joined pieces, or left out (None); all else byte for byte.

    A member that is not there is put in front. Costs one copy of the result.
    """
    raw = memoryview(body.raw)
    names = list(body.spans)
    gone = {i for i, name in enumerate(names) if name in changes and changes[name] is None}
    places = sorted((body.keys[name], body.spans[name][1]) for name in names)
    by_place = {body.keys[name]: i for i, name in enumerate(names)}
    out = {i for i, (key, _) in enumerate(places) if by_place[key] in gone}
    edits: list[tuple[int, int, list[bytes | memoryview]]] = [
        (begin, end, []) for begin, end, _ in spans.removals(places, out)
    ]
    front: list[bytes | memoryview] = []
    for name, pieces in changes.items():
        if pieces is None:
            continue
        if name in body.spans:
            edits.append((*body.spans[name], pieces))
        else:
            front += [b'"' + name.encode() + b'":', *pieces, b"," if names else b""]
    brace = spans.start(body.raw) + 1
    edits.append((brace, brace, front))
    edits.sort(key=_place)
    found: list[bytes | memoryview] = []
    at = 0
    for begin, end, pieces in edits:
        found.append(raw[at:begin])
        found += pieces
        at = end
    found.append(raw[at:])
    return b"".join(found)


def _place(edit: tuple[int, int, Any]) -> tuple[int, int]:
    return edit[0], edit[1]
