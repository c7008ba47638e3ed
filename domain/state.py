"""What is known of one session: the data its events are folded into, and nothing that changes it (``design.md`` 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from . import events as ev
from .edits import Insert
from .transcript import Message

PARTS_LIMIT = 4096
"""Most parts of one message: a part's key is ``m * PARTS_LIMIT + p``."""

TagKind: TypeAlias = Literal["text", "tool", "file"]
TagStatus: TypeAlias = Literal["active", "dropped"]


TERSE = ("terse1", "terse2", "terse3")
"""Modes of a text that is still sent, in fewer words."""
INLINE = "inline"
"""Mode of a text that is still sent, without the reasoning that was written into it."""


def laid(units: Mapping[str, Unit], inserts: Iterable[Insert]) -> dict[str, Unit]:
    """Return what stands of ours between the messages once ``inserts`` are made."""
    found = dict(units)
    for insert in inserts:
        found.pop(insert.id, None)
        if insert.kind != "none":
            found[insert.id] = Unit(insert.m, insert.tokens)
    return found


def key(m: int, p: int) -> int:
    """Return the key of part ``p`` of message ``m`` in the state's maps."""
    return m * PARTS_LIMIT + p


class Node(msgspec.Struct, array_like=True, gc=False):
    """A message in the session's tree: the node before it, what the host last sent, how often it was revised."""

    parent: int
    message: Message
    revision: int = 0


class Tag(msgspec.Struct, array_like=True, gc=False):
    """A number given to a part. ``body``: the message's chunk at that time where it was revised since, else empty."""

    m: int
    p: int
    kind: TagKind
    tokens: int
    status: TagStatus = "active"
    mode: str = ""
    body: bytes = b""


class Usage(msgspec.Struct, array_like=True):
    """The newest trusted count of a request: prompt tokens, the pass they belong to."""

    tokens: int
    number: int


class Fold(msgspec.Struct, array_like=True):
    """What the last fold adopted; a fold trigger is a difference to it."""

    number: int
    now: int
    model: str
    system: bytes
    tools: bytes
    guidance: bytes
    head_tokens: int


class Last(msgspec.Struct, array_like=True):
    """The last request produced on the head's path. ``answered``: so a provider processed it."""

    number: int
    end: int
    digest: bytes
    tokens: int
    now: int
    answered: bool = False


class Run(msgspec.Struct, array_like=True):
    """A summariser at work on messages ``first..last`` until ``lease`` (store's wall clock, ms).

    ``waited``: a pass at 95% has waited for it in vain, and no other does.
    """

    run: str
    first: int
    last: int
    owner: str
    lease: int
    waited: bool = False


class Unit(msgspec.Struct, array_like=True, gc=False):
    """A message or arc of ours that stands behind message ``m``, and about what it costs in tokens."""

    m: int
    tokens: int


class Overflow(msgspec.Struct, array_like=True):
    """A provider's refusal not yet answered by an accepted request. ``limit`` 0: not said. ``tokens``: ours for it.

    ``used``: its input in the provider's count, 0: not said; ``output``: what was asked for beside it. ``tries``: how
    many in a row no answer came between; ``refused``: passes since this one that were refused here.
    """

    number: int
    limit: int
    used: int
    tokens: int
    output: int = 0
    tries: int = 1
    refused: int = 0


class Reminder(msgspec.Struct, array_like=True):
    """What is known of reminding the agent of its notes.

    ``due``: how many messages the session had when something gave occasion, 0: nothing did. ``commit``: the newest
    answer that told of a commit. ``read``: message and part of the newest call that read notes, and the wall clock of
    the request it answered, its earliest time. ``at``: wall clock of the newest request; ``seen``: how many messages
    the session had with it: what came later was not read yet.
    The newest reminder: ``m`` and ``p``, message and part it stands in; ``number``, the pass that sent it; ``now``,
    session time of that, 0: never; ``was``: of the one before; ``owed``: its ``due``; ``open``: no provider took it.
    """

    due: int = 0
    commit: int = 0
    read: tuple[int, int, int] | None = None
    at: int = 0
    seen: int = 0
    m: int = 0
    p: int = 0
    number: int = 0
    now: int = 0
    was: int = 0
    owed: int = 0
    open: bool = False


class Refusal(msgspec.Struct, array_like=True):
    """The newest request that was refused here: the pass, the code and message its host was told, session time."""

    number: int
    code: str
    message: str
    now: int


class Restless(msgspec.Struct, array_like=True):
    """How often the host's system text changes.

    ``before``: the text before the present one; ``fresh``: no request was made since it changed; ``row``: how many of
    the head's requests in a row came with another text than the one before them.
    """

    before: bytes = b""
    fresh: bool = False
    row: int = 0


class State(msgspec.Struct, array_like=True):
    """All a decision may know. Lists are indexed by ordinal or tag number minus one.

    ``tools_order``, ``reduces``: tools and calls of ``ctx_reduce`` on the head's path, by number; ``newest``: the
    newest number a part of that path ever had. ``swept``: the newest tag the last rebuild saw; ``looked``: the newest
    whose text was looked at; ``drained``: usage at the last emergency batch of this stay in the force band; ``paid``:
    usage at the newest rebuild of this pressure episode, 0 for none or another model or window since; ``withheld``:
    passes in a row that put a rebuild off for the running turn's reasoning; ``unbound``: the request whose reasoning
    its provider took for that of another conversation, 0 for none, or once one behind it was rebuilt or answered;
    ``bulky``: it refused pictures, or the body for its bytes; ``spares``: tokens no longer sent of parts that stay.
    ``failed``: the newest pass when a summary last failed, ``complaint``: what the summariser said then, as a chunk.
    ``learnt``: model and limit a provider told; ``bounds``: what it counts (``prompt``: it is the input's alone,
    nothing is reserved of it again). ``tail`` to ``reduced``: what ``hygiene`` counts, ``nudged``: the last nudge (how
    loud, tokens spent then, its message), ``called``: it was told in a message of its own. ``todos``: numbers of
    results of tools that keep a to-do list; ``units``: what stands of ours between the messages, by its id.
    ``concealed``: messages that went out raw and whose numbers do not show yet (LAST-3). ``inline``: tokens of
    reasoning still sent of texts it was written into, 0 once it has left. ``fresh``: a summary no request shows yet
    covers a stretch of the head's path. ``unshown``: messages of which a part, from the first on that it names, was in
    no request as it is; ``aside``: those of them the head's last request left out, since they are covered or off its
    path.
    """

    stream: str = ""
    version: int = 0
    harness: str = ""
    session: str = ""
    codec: str = ""
    mode: str = "primary"
    reduce: bool = True
    wire: int = 0
    tokenizer: str = ""
    model: str = ""
    context_limit: int = 0
    output_limit: int = 0
    system: bytes = b""
    system_hash: bytes = b""
    system_tokens: int = 0
    tools: bytes = b""
    tools_hash: bytes = b""
    tools_names: bytes = b""
    tools_tokens: int = 0
    policy: bytes = b"{}"
    nodes: list[Node] = msgspec.field(default_factory=list)
    path: list[int] = msgspec.field(default_factory=list)
    tips: dict[int, int] = msgspec.field(default_factory=dict)
    sides: dict[int, tuple[bytes, bytes, str]] = msgspec.field(default_factory=dict)
    gone: dict[str, int] = msgspec.field(default_factory=dict)
    answers: dict[int, int] = msgspec.field(default_factory=dict)
    tags: list[Tag] = msgspec.field(default_factory=list)
    tag_of: dict[int, int] = msgspec.field(default_factory=dict)
    call_of: dict[int, int] = msgspec.field(default_factory=dict)
    calls: dict[str, int] = msgspec.field(default_factory=dict)
    unshown: dict[int, int] = msgspec.field(default_factory=dict)
    queue: dict[int, int] = msgspec.field(default_factory=dict)
    reduces: list[int] = msgspec.field(default_factory=list)
    tools_order: list[int] = msgspec.field(default_factory=list)
    passes: int = 0
    last_version: int = 0
    seen: int = 0
    last: Last | None = None
    fold: Fold | None = None
    base: int = 0
    base_len: int = 0
    base_keep: int = 0
    base_part: int = 0
    base_cause: str = ""
    base_system: bytes = b""
    base_tools: bytes = b""
    left: dict[int, int] = msgspec.field(default_factory=dict)
    rebuilt: int = 0
    rebuilt_now: int = 0
    adopted: ev.Adopted | None = None
    usage: Usage | None = None
    response_now: int = 0
    ratios: dict[str, int] = msgspec.field(default_factory=dict)
    counted: dict[int, int] = msgspec.field(default_factory=dict)
    learnt: tuple[str, int] | None = None
    overflow: Overflow | None = None
    flush: bool = False
    flushed_by: int = 0
    lost: str = ""
    reopened: bool = False
    held: int = 0
    episode: int = 0
    compacted: int = 0
    unmanaged: bool = False
    cut: int = 0
    void: bool = False
    compartments: list[ev.Compartment] = msgspec.field(default_factory=list)
    baseline: list[int] = msgspec.field(default_factory=list)
    rendered: int = -1
    run: Run | None = None
    failures: int = 0
    marked: int = 0
    commands: dict[str, str] = msgspec.field(default_factory=dict)
    pos: dict[int, int] = msgspec.field(default_factory=dict)
    fostered: dict[int, list[int]] = msgspec.field(default_factory=dict)
    hosts: dict[str, int] = msgspec.field(default_factory=dict)
    accepted: int = 0
    spans: dict[int, list[tuple[int, int]]] = msgspec.field(default_factory=dict)
    roads: dict[int, bytes] = msgspec.field(default_factory=dict)
    base_rest: list[int] | None = msgspec.field(default_factory=list)
    base_torn: tuple[int, int] | None = None
    base_model: str = ""
    swept: int = 0
    looked: int = 0
    withheld: int = 0
    unbound: int = 0
    drained: int | None = None
    paid: int = 0
    spares: dict[int, int] = msgspec.field(default_factory=dict)
    bounds: str = ""
    tail: int = 0
    spent: int = 0
    edge: int = 0
    guarded: int = 0
    known: int = 0
    outputs: int = 0
    oldest: list[int] = msgspec.field(default_factory=list)
    reduced: bool = False
    nudged: tuple[str, int, int] | None = None
    called: bool = False
    bulky: bool = False
    reopened_by: int = 0
    reminder: Reminder = msgspec.field(default_factory=Reminder)
    todos: dict[int, int] = msgspec.field(default_factory=dict)
    units: dict[str, Unit] = msgspec.field(default_factory=dict)
    concealed: list[int] = msgspec.field(default_factory=list)
    newest: int = 0
    refusal: Refusal | None = None
    restless: Restless = msgspec.field(default_factory=Restless)
    failed: int = 0
    inline: dict[int, int] = msgspec.field(default_factory=dict)
    fresh: bool = False
    aside: dict[int, int] = msgspec.field(default_factory=dict)
    complaint: bytes = b""
    files: int = 0

    @property
    def primary(self) -> bool:
        """Whether a person works in this session (else another agent does)."""
        return self.mode == "primary"

    def running(self, now: int) -> bool:
        """Whether a summariser is at work at ``now`` (wall clock, ms): a lease that expired counts as not held."""
        return self.run is not None and self.run.lease > now

    def node(self, m: int) -> Node:
        """Return the node of ordinal ``m`` (1-based)."""
        return self.nodes[m - 1]

    def quiet(self, m: int, p: int) -> bool:
        """Whether a text is sent without the reasoning that was written into it."""
        return self.inline.get(key(m, p)) == 0

    def names(self, number: int) -> bool:
        """Whether a number is that of the part in its place: a host may have put another kind there, or none."""
        tag = self.tags[number - 1]
        return self.tag_of.get(key(tag.m, tag.p)) == number

    def waits(self, m: int) -> int | None:
        """Return the first part of ``m`` that no request held as it is, None where all were in one."""
        return self.unshown.get(m, self.aside.get(m))

    def start(self) -> int:
        """Return the path index of the first message that is sent: the one behind the cut."""
        return self.pos.get(self.cut, -1) + 1 if self.cut else 0

    def end(self) -> int:
        """Return the last node of the head's path, 0 for an empty one."""
        return self.path[-1] if self.path else 0
