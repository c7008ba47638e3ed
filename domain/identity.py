"""Who is who when a host hands over messages: the tree of ``design.md`` 4, as one pure function.

The caller has compared the host's array with the head's path and found that its first ``keep`` messages are the same;
``align`` says what became of the rest, as the events that record it and the path the next request has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from . import events as ev
from .coverage import covering, fresh
from .errors import MessageError
from .paths import children, request_of
from .ranges import ranges
from .state import State
from .transcript import Call, Message, Result, Text

EVENT_WEIGHT = 500_000
"""About how many bytes of messages one event holds; a longer array takes several (an event may have 1 MiB)."""
SHIFT = 64
"""How far a removed or inserted stretch is looked for before the path counts as another branch."""


class Observation(msgspec.Struct, frozen=True):
    """What the host's messages mean for the session; the state is not changed yet.

    The new path is ``state.path[:keep] + tail``; ordinals above ``len(state.nodes)`` name ``new``. ``revised`` maps an
    ordinal to (first changed part, message). ``touched``: first path index whose content is not as it was. ``side``: a
    request beside the head. ``base``: (pass, path length) the request extends where that is not the head's last.
    """

    events: tuple[ev.Event, ...] = ()
    keep: int = 0
    tail: tuple[int, ...] = ()
    new: tuple[Message, ...] = ()
    revised: dict[int, tuple[int, Message]] = {}
    touched: int = 0
    part: int = 0
    cause: str = ""
    side: bool = False
    base: tuple[int, int] | None = None


class Scene(msgspec.Struct, frozen=True):
    """The session as it is with an observation taken in, for reading only."""

    state: State
    seen: Observation
    places: dict[int, int] = {}

    def __post_init__(self) -> None:
        self.places.update({m: self.seen.keep + j for j, m in enumerate(self.seen.tail)})

    def base(self) -> tuple[bytes, bytes, str]:
        """Return system text, tools and model of the request this one goes on behind: the last, or one beside it."""
        state, base = self.state, self.seen.base
        head = state.base_system, state.base_tools, state.base_model
        return head if base is None else state.sides.get(base[0], head)

    def message(self, m: int) -> Message:
        """Return what the host last sent as message ``m``."""
        if m in self.seen.revised:
            return self.seen.revised[m][1]
        known = len(self.state.nodes)
        return self.state.nodes[m - 1].message if m <= known else self.seen.new[m - known - 1]

    def length(self) -> int:
        """Return how many messages the path has."""
        return self.seen.keep + len(self.seen.tail)

    def at(self, index: int) -> int:
        """Return the ordinal at a path index, 0 outside the path."""
        if index < 0 or index >= self.length():
            return 0
        keep = self.seen.keep
        return self.state.path[index] if index < keep else self.seen.tail[index - keep]

    def index(self, m: int) -> int:
        """Return the path index of ``m``, -1 where it is not on the path."""
        found = self.state.pos.get(m, -1)
        if 0 <= found < self.seen.keep:
            return found
        return self.places.get(m, -1)

    def unshown(self) -> list[tuple[int, int]]:
        """Return (ordinal, first part) of all on the path that no request held in its present form, in path order."""
        waiting = dict(self.state.unshown) if self._grows() else {**self.state.aside, **self.state.unshown}
        for m, (first, _) in self.seen.revised.items():
            waiting[m] = min(first, waiting.get(m, first))
        for m in range(len(self.state.nodes) + 1, len(self.state.nodes) + len(self.seen.new) + 1):
            waiting[m] = 0
        placed = [(self.index(m), m, first) for m, first in waiting.items()]
        begin = 0 if self.void() else self.start()  # a fold may move the cut back: what it covered is sent again
        return [(m, first) for index, m, first in sorted(placed) if index >= begin]

    def start(self) -> int:
        """Return the path index of the first message this request sends, as the cut stands before it.

        Where the head leaves what the summaries cover, that is what the fold to come will leave covered.
        """
        if self.void():
            covered = self.covered()
            return self.index(covered[-1].last) + 1 if covered else 0
        return 0 if self.whole() else self.state.start()

    def covered(self) -> list[ev.Compartment]:
        """Return the summaries that cover the coming path from its beginning."""
        return list(self._covering())

    def fresh(self) -> bool:
        """Whether one of them is in no request yet. What is only added behind the head's path changes none."""
        return self.state.fresh if self._grows() else fresh(self.state, self._covering())

    def _grows(self) -> bool:
        """Whether messages are only added behind the head's path, and what its summaries cover stays covered."""
        state, known = self.state, len(self.state.nodes)
        return not state.void and self.seen.keep == len(state.path) and all(m > known for m in self.seen.tail)

    def _covering(self) -> Iterator[ev.Compartment]:
        path = [*self.state.path[: self.seen.keep], *self.seen.tail]
        yield from covering(self.state.compartments, self.state.spans, path, self.index)

    def whole(self) -> bool:
        """Whether this is a side request that leaves the head before the cut."""
        return self.seen.side and (self.state.void or self.seen.keep < self.state.start())

    def void(self) -> bool:
        """Whether the head leaves what the summaries cover: the next pass folds (``design.md`` 4)."""
        return not self.seen.side and (self.state.void or self.seen.keep < self.state.start())


def align(
    state: State,
    keep: int,
    rest: Sequence[Message],
    leading: Callable[[int, int], int],
    at: int,
) -> Observation:
    """Say what an array means whose first ``keep`` messages are the head's, and whose others are ``rest``.

    ``leading(m, j)`` counts the leading parts of equal content that node ``m`` and ``rest[j]`` have. Raises
    ``MessageError`` where one host id stands twice.
    """
    _unique(state, rest, keep)
    seen = _align(state, keep, rest, leading, at)
    return msgspec.structs.replace(seen, events=split(state, seen.events))


def _align(
    state: State, keep: int, rest: Sequence[Message], leading: Callable[[int, int], int], at: int
) -> Observation:
    path = state.path
    if keep == len(path):
        return _append(state, keep, rest, at)
    # an array of which no id is known leaves the path like one without ids: it may be a helper's (PROP-7)
    named = all(message.host_id for message in rest) and _named(state, path[keep:])
    known = any(state.hosts.get(message.host_id, 0) in state.pos for message in rest)
    linked = keep >= len(path) - 1 or not rest or known
    if keep + len(rest) and named and linked:
        return _by_id(state, keep, rest, leading, at)
    changed = _in_place(state, keep, rest, leading)
    if changed is not None:
        return _revise(state, keep, rest, changed, at)
    shifted = _shift(state, keep, rest)
    if shifted is not None:
        return shifted(at)
    return _branch(state, keep, rest, at)


def _named(state: State, path: Sequence[int]) -> bool:
    return all(state.node(m).message.host_id for m in path)


def edit(
    state: State,
    revised: Sequence[tuple[int, int, Message]],
    retracted: Sequence[int],
    new: Sequence[Message],
    at: int,
) -> Observation:
    """Say what a host's own account of its changes means: (ordinal, first part, message), ordinals taken away, new.

    Raises ``MessageError`` for a message named twice.
    """
    names = [m for m, _, _ in revised] + list(retracted)
    again = next((m for j, m in enumerate(names) if m in names[:j]), 0)
    if again:
        raise MessageError("a message is named twice among the revised and retracted ones", value=again)
    revised = [(m, _from(message, first), message) for m, first, message in revised]
    stays = [message for message in new if state.hosts.get(message.host_id, 0) not in retracted]
    _unique(state, stays, len(state.path))
    events: list[ev.Event] = [ev.PartsRevised(at, "", m, first, message) for m, first, message in revised]
    places = [(state.pos[m], first) for m, first, _ in revised] + [(state.pos[m], 0) for m in retracted]
    touched, part = min(places, default=(len(state.path), 0))
    keep = len(state.path)
    tail: tuple[int, ...] = ()
    if retracted:
        gone = set(retracted)
        keep = min(state.pos[m] for m in retracted)
        tail = tuple(m for m in state.path[keep:] if m not in gone)
        events.append(ev.HeadMoved(at, "", keep, ranges(tail), "removed"))
    numbers = tuple(range(len(state.nodes) + 1, len(state.nodes) + len(new) + 1))
    if new:
        end = tail[-1] if tail else state.path[keep - 1] if keep else 0
        events.append(ev.MessagesObserved(at, "", end, tuple(new)))
    cause = "removed" if retracted else "revised" if revised else ""
    return Observation(
        split(state, events),
        keep,
        tail + numbers,
        tuple(new),
        {m: (f, msg) for m, f, msg in revised},
        touched,
        part,
        cause,
    )


def split(state: State, events: Sequence[ev.Event]) -> tuple[ev.Event, ...]:
    """Return the events with long stretches of messages told in several, none over the limit of an event."""
    found: list[ev.Event] = []
    ahead = len(state.nodes)
    for event in events:
        if not isinstance(event, ev.MessagesObserved):
            found.append(event)
            continue
        after, weight = event.after, 0
        stretch: list[Message] = []
        for message in event.messages:
            own = 150 + 100 * len(message.parts)
            if stretch and weight + own > EVENT_WEIGHT:
                found.append(msgspec.structs.replace(event, after=after, messages=tuple(stretch)))
                after, stretch, weight = ahead, [], 0
            stretch.append(message)
            weight, ahead = weight + own, ahead + 1
        found.append(msgspec.structs.replace(event, after=after, messages=tuple(stretch)))
    return tuple(found)


def _from(message: Message, first: int) -> int:
    """Return the first part a revision shows anew: all, where only blank texts come before (they stood for nothing)."""
    return 0 if all(isinstance(part, Text) and part.blank for part in message.parts[:first]) else first


def _append(state: State, keep: int, rest: Sequence[Message], at: int) -> Observation:
    if not rest:
        return Observation(keep=keep, touched=keep)
    if state.end() in state.left:
        back = _returning(state, state.end(), rest)
        if back:
            return _return(state, keep, back, rest[len(back) :], at)
    numbers = tuple(range(len(state.nodes) + 1, len(state.nodes) + len(rest) + 1))
    events = (ev.MessagesObserved(at, "", state.end(), tuple(rest)),)
    return Observation(events, keep, numbers, tuple(rest), touched=keep)


def _returning(state: State, parent: int, rest: Sequence[Message]) -> tuple[int, ...]:
    """Return the known nodes that ``rest`` begins with behind ``parent``: a path that comes back finds its numbers."""
    known = children(state)
    chain: list[int] = []
    for message in rest:
        child = next((m for m in known.get(parent, ()) if state.node(m).message.ident == message.ident), 0)
        if not child:
            break
        chain.append(child)
        parent = child
    return tuple(chain)


def _return(state: State, keep: int, back: tuple[int, ...], rest: Sequence[Message], at: int) -> Observation:
    events: list[ev.Event] = [ev.HeadMoved(at, "", keep, ranges(back), "return")]
    if rest:
        events.append(ev.MessagesObserved(at, "", back[-1], tuple(rest)))
    numbers = tuple(range(len(state.nodes) + 1, len(state.nodes) + len(rest) + 1))
    return Observation(tuple(events), keep, back + numbers, tuple(rest), touched=keep)


def _in_place(
    state: State, keep: int, rest: Sequence[Message], leading: Callable[[int, int], int]
) -> dict[int, int] | None:
    """Return {rest index: first changed part} if every message of the path still has its place in ``rest``."""
    old = state.path[keep:]
    if len(rest) < len(old):
        return None
    changed: dict[int, int] = {}
    for j, m in enumerate(old):
        known = state.node(m).message
        if known.ident == rest[j].ident:
            continue
        if known.role != rest[j].role:
            return None
        common = leading(m, j)
        following = j + 1 < len(old) and state.node(old[j + 1]).message.ident == rest[j + 1].ident
        if not common and not following and not _kin(known, rest[j]):
            return None
        changed[j] = _from(rest[j], common)
    return changed or None


def _revise(state: State, keep: int, rest: Sequence[Message], changed: dict[int, int], at: int) -> Observation:
    old = state.path[keep:]
    events: list[ev.Event] = []
    revised: dict[int, tuple[int, Message]] = {}
    for j, first in changed.items():
        revised[old[j]] = (first, rest[j])
        events.append(ev.PartsRevised(at, "", old[j], first, rest[j]))
    new = tuple(rest[len(old) :])
    numbers = tuple(range(len(state.nodes) + 1, len(state.nodes) + len(new) + 1))
    if new:
        events.append(ev.MessagesObserved(at, "", state.end(), new))
    where = min(changed)
    return Observation(
        tuple(events), len(state.path), numbers, new, revised, keep + where, revised[old[where]][0], "revised"
    )


def _kin(old: Message, new: Message) -> bool:
    """Whether both begin with a tool part of one call id: named by it, whatever they hold (``design.md`` 4)."""
    if not old.parts or not new.parts:
        return False
    a, b = old.parts[0], new.parts[0]
    return isinstance(a, Call | Result) and isinstance(b, Call | Result) and a.id == b.id


def _shift(state: State, keep: int, rest: Sequence[Message]) -> Callable[[int], Observation] | None:
    """Find one stretch the host removed from the middle, or put into it, with all behind it unchanged."""
    old = [state.node(m).message.ident for m in state.path[keep:]]
    now = [message.ident for message in rest]
    for gap in range(1, min(SHIFT, len(old) - 1) + 1):
        kept = old[gap:]
        if len(kept) <= len(now) and kept == now[: len(kept)]:
            return lambda at, gap=gap: _removed(state, keep, gap, rest, at)  # type: ignore[misc]
    for gap in range(1, min(SHIFT, len(now)) + 1):
        if old and len(now) >= gap + len(old) and now[gap : gap + len(old)] == old:
            return lambda at, gap=gap: _inserted(state, keep, gap, rest, at)  # type: ignore[misc]
    return None


def _removed(state: State, keep: int, gap: int, rest: Sequence[Message], at: int) -> Observation:
    stays = tuple(state.path[keep + gap :])
    new = tuple(rest[len(stays) :])
    events: list[ev.Event] = [ev.HeadMoved(at, "", keep, ranges(stays), "removed")]
    if new:
        events.append(ev.MessagesObserved(at, "", stays[-1], new))
    numbers = tuple(range(len(state.nodes) + 1, len(state.nodes) + len(new) + 1))
    return Observation(tuple(events), keep, stays + numbers, new, touched=keep, cause="removed")


def _inserted(state: State, keep: int, gap: int, rest: Sequence[Message], at: int) -> Observation:
    first = len(state.nodes) + 1
    middle = tuple(range(first, first + gap))
    stays = tuple(state.path[keep:])
    parent = state.path[keep - 1] if keep else 0
    ends = tuple(rest[gap + len(stays) :])
    events: list[ev.Event] = [
        ev.MessagesObserved(at, "", parent, tuple(rest[:gap])),
        ev.HeadMoved(at, "", keep, ranges(middle + stays), "inserted"),
    ]
    if ends:
        events.append(ev.MessagesObserved(at, "", stays[-1], ends))
    tail = middle + stays + tuple(range(first + gap, first + gap + len(ends)))
    return Observation(tuple(events), keep, tail, tuple(rest[:gap]) + ends, touched=keep, cause="inserted")


def _by_id(
    state: State, keep: int, rest: Sequence[Message], leading: Callable[[int, int], int], at: int
) -> Observation:
    """A host with ids says itself what moved: known ids keep their nodes, an unknown id is a new message."""
    events: list[ev.Event] = []
    revised: dict[int, tuple[int, Message]] = {}
    tail: list[int] = []
    new: list[Message] = []
    ahead = len(state.nodes)
    old = state.path[keep:]
    for j, message in enumerate(rest):
        m = state.hosts.get(message.host_id, 0)
        if not m and j < len(old) and state.node(old[j]).message.ident == message.ident:
            m = old[j]  # the host re-keyed it; it is the same message at the same place (transform.md 2.5)
        if not m:
            new.append(message)
            m = ahead + len(new)
        elif state.node(m).message.ident != message.ident:
            first = _from(message, leading(m, j))
            revised[m] = (first, message)
            events.append(ev.PartsRevised(at, "", m, first, message))
        tail.append(m)
    if new:
        events.append(ev.MessagesObserved(at, "", _parent(state, keep, tail, ahead), tuple(new)))
    events = _reordered(events)
    moved = tail[: len(old)] != old
    trailing = [m for m in tail if m > ahead] == tail[len(old) :] and not moved
    cause = "revised" if not moved else "removed" if set(old) - set(tail) else "inserted"
    if not trailing:
        events.append(ev.HeadMoved(at, "", keep, ranges(tuple(tail)), cause))
    same = next(
        (j for j, (a, b) in enumerate(zip(old, tail, strict=False)) if a != b or b in revised), min(len(old), len(tail))
    )
    first = revised[tail[same]][0] if same < len(tail) and tail[same] in revised else 0
    touched = keep + same
    if trailing:  # the head stays where it was: what the summaries cover is not left
        keep, tail = len(state.path), tail[len(old) :]
    return Observation(tuple(events), keep, tuple(tail), tuple(new), revised, touched, first, cause)


def _reordered(events: list[ev.Event]) -> list[ev.Event]:
    return sorted(events, key=lambda event: isinstance(event, ev.MessagesObserved))


def _parent(state: State, keep: int, tail: Sequence[int], ahead: int) -> int:
    """Return the node the new messages hang on: the one before the first of them."""
    place = next(j for j, m in enumerate(tail) if m > ahead)
    return tail[place - 1] if place else state.path[keep - 1] if keep else 0


def _branch(state: State, keep: int, rest: Sequence[Message], at: int) -> Observation:
    """Another path of the tree: the head only if it leaves by the last message, or goes on behind a known branch."""
    parent = state.path[keep - 1] if keep else 0
    chain = _returning(state, parent, rest)
    parent = chain[-1] if chain else parent
    new = tuple(rest[len(chain) :])
    numbers = tuple(range(len(state.nodes) + 1, len(state.nodes) + len(new) + 1))
    tail = chain + numbers
    events: list[ev.Event] = [ev.MessagesObserved(at, "", parent, new, side=True)] if new else []
    passed = [index for index, m in enumerate(tail[:-1]) if m in state.tips]
    leaves_by_last = keep == len(state.path) - 1 or state.last is None
    if not passed and not leaves_by_last:
        return Observation(tuple(events), keep, tail, new, touched=keep, cause="branch", side=True)
    events.append(ev.HeadMoved(at, "", keep, ranges(tail), "branch" if passed else "rewind"))
    tip = tail[passed[-1]] if passed else 0
    number = request_of(state, [*state.path[:keep], *tail[: passed[-1] + 1]]) if tip else 0
    base = (number, keep + passed[-1] + 1) if number else None
    touched = base[1] if base else keep
    return Observation(
        tuple(events), keep, tail, new, touched=touched, cause="branch" if passed else "rewind", base=base
    )


def _unique(state: State, rest: Sequence[Message], keep: int) -> None:
    seen: set[str] = set()
    for j, message in enumerate(rest):
        earlier = state.pos.get(state.hosts.get(message.host_id, 0), keep) < keep
        if message.host_id and (message.host_id in seen or earlier):
            raise MessageError("two messages carry the same id", value=message.host_id, where=f"messages[{keep + j}]")
        seen.add(message.host_id)
