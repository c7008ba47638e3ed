"""What a host's call means: its whole array, or only what it says has changed, made ready for a decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..domain import arguments, identity
from ..domain.errors import MessageError
from ..domain.state import State
from .echo import Echo, Heads, own_region
from .hot import Hot
from .intake import Intake, Options, Reader, take_in
from .wire import wire

Load = Callable[[bytes], bytes]
"""Returns the chunk of a digest."""


def whole(
    reader: Reader,
    options: Options,
    hot: Hot,
    body: Load,
    text: Load,
    heads: Heads,
    at: int,
    raws: list[bytes],
    system: Any,
    tools: Any,
) -> Intake:
    """Compare the host's whole array with the head's path. Raises ``MessageError`` where there is nothing to send."""
    state = hot.state
    leading = wire(state.wire).split_system(state.codec, raws)
    rest = raws[leading:]
    if not rest:
        raise MessageError("there is nothing to send but a system message", where="messages")
    keep = _same(reader, hot, rest)
    own = Echo(reader, hot, body, text, heads).restored(rest, keep)
    if own is not None:
        rest = own
        keep = _same(reader, hot, rest)
    read = [reader.read(state, raw, leading + keep + j) for j, raw in enumerate(rest[keep:])]

    def leading_parts(m: int, j: int) -> int:
        return _common(_idents(reader, state, body, m), read[j].part_idents)

    seen = identity.align(state, keep, [one.message for one in read], leading_parts, at)
    above, system = own_region(hot, text, raws[:leading], system)
    before = text(state.system) if system is None and above and state.system else b""
    intake = take_in(reader, options, state, seen, at, above, system, tools, before)
    for one, raw in zip(read, rest[keep:], strict=True):
        intake.bodies[one.message.body] = (raw, one)
    intake.received = (keep, rest)
    return intake


def increment(
    reader: Reader,
    options: Options,
    hot: Hot,
    body: Load,
    text: Load,
    at: int,
    raws: list[bytes],
    changed: list[tuple[Any, bytes]],
    retracted: Sequence[Any],
    since: int,
) -> Intake:
    """Take what the host says has changed. ``since``: the length of the path it counts its news from."""
    state = hot.state
    leading = wire(state.wire).split_system(state.codec, raws) if not state.path else 0
    bodies = {}
    revised = []
    echo = Echo(reader, hot, body, text, tuple)
    raws = echo.ahead(raws)
    for place, (name, raw) in enumerate(changed):
        m = arguments.handle(state, name, f"revised[{place}]")
        one = reader.read(state, raw, state.pos[m])
        bodies[one.message.body] = (raw, one)
        if one.message.ident != state.node(m).message.ident and not echo.comes_back(raw, m):
            revised.append((m, _common(_idents(reader, state, body, m), one.part_idents), one.message))
    gone = [arguments.handle(state, name, f"retracted[{place}]") for place, name in enumerate(retracted)]
    read = [reader.read(state, raw, len(state.path) + j) for j, raw in enumerate(raws[leading:])]
    for one, raw in zip(read, raws[leading:], strict=True):
        bodies[one.message.body] = (raw, one)
    told = state.path[since:]  # by another process meanwhile: what is the same is not said twice
    ahead = _common([state.node(m).message.ident for m in told], [one.message.ident for one in read])
    read = read[ahead:]
    seen = identity.edit(state, revised, gone, [one.message for one in read], at)
    intake = take_in(reader, options, state, seen, at, raws[:leading], None, None)
    intake.bodies = bodies
    if not intake.seen.keep + len(intake.seen.tail):
        said = "nothing would be left to send" if retracted else "there is nothing to send: no message was ever told"
        raise MessageError(said, where="retracted" if retracted else "messages")
    return intake


def _idents(reader: Reader, state: State, body: Load, m: int) -> tuple[bytes, ...]:
    return reader.idents(state, body(state.node(m).message.body))


def _same(reader: Reader, hot: Hot, raws: list[bytes]) -> int:
    """Return how many leading messages are those of the head's path; a comparison of bytes where nothing moved."""
    state, received = hot.state, hot.received
    received.extend([None] * (len(state.path) - len(received)))
    limit = min(len(raws), len(state.path))
    if received[:limit] == raws[:limit]:
        return limit
    for index in range(limit):
        if received[index] == raws[index]:
            continue
        known = state.node(state.path[index]).message
        if reader.ident(state, raws[index], index) != known.ident:
            return index
        received[index] = raws[index]  # the same message in another form: marks moved, a string became a block
    return limit


def _common(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    same = 0
    for a, b in zip(old, new, strict=False):
        if a != b:
            break
        same += 1
    return same
