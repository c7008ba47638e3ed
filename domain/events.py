"""Every fact foldlog stores, as frozen structs (``specs/events.md`` is the catalogue for people).

Evolution: fields are only appended, with defaults; a meaning never changes; a new meaning is a new tag. The tag is the
short first element of the stored array and the store's topic. ``at`` is the wall clock in ms UTC when it was recorded;
``cmd`` is the command id of the append, on its first event only.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from .edits import Arrival, Edit, Insert
from .transcript import Message


class Base(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What every event begins with."""

    at: int
    cmd: str


# ---------------------------------------------------------------- observations


class SessionOpened(Base, frozen=True, array_like=True, gc=False, tag="SO"):
    """The session exists. Options that never flip are frozen here (convention 10)."""

    harness: str
    session: str
    codec: str
    mode: str
    reduce: bool
    wire: int
    tokenizer: str


class SessionForked(Base, frozen=True, array_like=True, gc=False, tag="SF"):
    """First event of a fork: its parent's state at ``version`` (chain digest ``digest``), head moved to ``head``.

    Nothing a provider measured is inherited.
    """

    harness: str
    session: str
    parent: str
    version: int
    digest: bytes
    head: int


class ModelChanged(Base, frozen=True, array_like=True, gc=False, tag="MC"):
    """The next request goes to ``model``; limits in tokens, 0 = unknown (never read as a number)."""

    model: str
    context_limit: int
    output_limit: int


class SystemChanged(Base, frozen=True, array_like=True, gc=False, tag="SC"):
    """The host's own system text, as a chunk (empty: none), its hash without marks and billing blocks, its tokens."""

    body: bytes
    hash: bytes
    tokens: int


class ToolsChanged(Base, frozen=True, array_like=True, gc=False, tag="TC"):
    """The request's tool list, as a chunk (empty: none). ``names`` hashes names and descriptions only, ``hash`` all."""

    body: bytes
    hash: bytes
    names: bytes
    tokens: int


class MessagesObserved(Base, frozen=True, array_like=True, gc=False, tag="MO"):
    """New messages behind node ``after`` (0: the root), one behind the other; they take the next ordinals.

    Where ``after`` is the end of the head's path they extend it, unless ``side`` is set; else they form a branch.
    """

    after: int
    messages: tuple[Message, ...]
    side: bool = False


class PartsRevised(Base, frozen=True, array_like=True, gc=False, tag="PR"):
    """The host changed message ``m`` from part ``first`` on; parts before keep their identity."""

    m: int
    first: int
    message: Message


class HeadMoved(Base, frozen=True, array_like=True, gc=False, tag="HM"):
    """The head's path is now its first ``keep`` messages and then the ordinals of ``then`` (inclusive ranges).

    ``cause``: ``rewind``, ``branch``, ``return``, ``removed``, ``inserted``, ``revised``, ``fork``.
    """

    keep: int
    then: tuple[tuple[int, int], ...]
    cause: str


class UsageReported(Base, frozen=True, array_like=True, gc=False, tag="UR"):
    """What the provider counted for pass ``number``, in tokens. -1 in a field: not reported.

    ``now`` is the host's clock when the answer came. ``input`` are the uncached tokens of the prompt.
    """

    number: int
    now: int
    input: int
    cache_read: int
    cache_write: int
    output: int


class RequestOutcome(Base, frozen=True, array_like=True, gc=False, tag="RO"):
    """How pass ``number`` ended other than by an answer: ``not_processed``, ``aborted``, ``broken``, ``unknown``.

    Refused as of another conversation (THINK-4): ``unbound``; for pictures or bytes (IMAGE-2): ``bulky``. ``detail``:
    the provider's words, as a chunk (they may quote content), empty where there are none.
    """

    number: int
    outcome: str
    detail: bytes = b""


class OverflowReported(Base, frozen=True, array_like=True, gc=False, tag="OR"):
    """The provider refused pass ``number`` as too long. ``limit``, ``used`` in tokens, 0 = not said.

    ``model``: the one that answered. ``kind``: ``overflow``, ``output_driven`` (the input alone fits), ``suspected``.
    ``input``, ``output``: the parts of ``used``, 0 = not said. ``bounds``: what the limit counts, ``prompt``,
    ``combined`` or ``unknown``. ``detail``: the provider's words, as a chunk, empty where there are none.
    """

    number: int
    model: str
    limit: int
    used: int
    kind: str = "overflow"
    input: int = 0
    output: int = 0
    bounds: str = ""
    detail: bytes = b""


class CacheLossReported(Base, frozen=True, array_like=True, gc=False, tag="CL"):
    """The provider's cache of this session is gone, says the host."""

    reason: str


class HostCompacted(Base, frozen=True, array_like=True, gc=False, tag="HC"):
    """The host replaced its own history by a summary; it now stands before node ``m``."""

    m: int


class SessionClosed(Base, frozen=True, array_like=True, gc=False, tag="SX"):
    """The host ended the session. It may be opened again."""

    reason: str


class HeadLost(Base, frozen=True, array_like=True, gc=False, tag="HL"):
    """A person accepted that events were lost: the stream, which ended at ``was``, goes on behind ``kept``."""

    was: int
    kept: int


# --------------------------------------------------------------------- intents


class DropsQueued(Base, frozen=True, array_like=True, gc=False, tag="DQ"):
    """The agent marked ``tags`` as spent. ``reply`` is what it was told (the answer of a repeated command)."""

    tags: tuple[int, ...]
    reply: str


class FlushRequested(Base, frozen=True, array_like=True, gc=False, tag="FR"):
    """A person asked for queued work to land on the next pass."""


class PolicyChanged(Base, frozen=True, array_like=True, gc=False, tag="PC"):
    """The policy in force from here on, as canonical JSON."""

    policy: bytes


class RecompRequested(Base, frozen=True, array_like=True, gc=False, tag="RR"):
    """A person asked for summaries to be made again from the raw history."""

    scope: str = ""


class WrapupRequested(Base, frozen=True, array_like=True, gc=False, tag="WR"):
    """A person asked for older history to be summarised now, keeping the newest ``keep`` messages."""

    keep: int = 0


class PurgeRequested(Base, frozen=True, array_like=True, gc=False, tag="PQ"):
    """Content is to be destroyed, structure kept (reserved; the command comes later).

    ``scope``: ``session``, ``message:<m>`` or ``chunks``; only the last one names ``chunks``, the others mean all that
    events of their scope name and no living event outside it does.
    """

    scope: str
    chunks: tuple[bytes, ...] = ()


# ------------------------------------------------------------------- summaries


class HistorianStarted(Base, frozen=True, array_like=True, gc=False, tag="HS"):
    """A summariser took messages ``first..last`` under a lease until ``lease`` (store's wall clock, ms)."""

    run: str
    first: int
    last: int
    fingerprint: bytes
    owner: str
    lease: int


class Compartment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A summary of messages ``first..last``: title and four tiers as chunks, importance of 1 to 100."""

    seq: int
    first: int
    last: int
    title: bytes
    tiers: tuple[bytes, bytes, bytes, bytes]
    tokens: tuple[int, int, int, int]
    importance: int


class HistorianPublished(Base, frozen=True, array_like=True, gc=False, tag="HP"):
    """The whole result of a run, in one event: compartments, facts, events, and the drops it queues."""

    run: str
    compartments: tuple[Compartment, ...]
    facts: tuple[bytes, ...]
    events: tuple[bytes, ...]
    drops: tuple[int, ...]


class HistorianFailed(Base, frozen=True, array_like=True, gc=False, tag="HF"):
    """A run ended without a result; history is as it was. ``message``: what the summariser said, as a chunk."""

    run: str
    kind: str
    message: bytes


class CompartmentsReplaced(Base, frozen=True, array_like=True, gc=False, tag="CR"):
    """Compartments ``old`` (sequence numbers) gave way to ``new``."""

    old: tuple[int, ...]
    new: tuple[Compartment, ...]


# ---------------------------------------------------------------------- passes


class Divergence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where the host itself left what an earlier request held: position in the path, message, part, cause.

    ``index`` counts the messages of the base request's path that stay equal; ``cause``: ``revised``, ``removed``,
    ``inserted``, ``rewind``, ``branch``, ``system``, ``tools``.
    """

    index: int
    m: int
    p: int
    cause: str


class Side(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A request beside the head: its first ``keep`` messages, then the ordinals of ``then`` (inclusive ranges).

    ``system``, ``tools``: its own regions, as chunks (empty: none). They are not the session's. ``whole``: it leaves
    the head before the cut, so it is sent without the head's two messages and from its beginning. ``model``: whose it
    is, where that is not the session's.
    """

    keep: int
    then: tuple[tuple[int, int], ...]
    system: bytes
    tools: bytes
    whole: bool = False
    model: str = ""


class Price(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a rebuild costs and saves (``design.md`` 5): ``dropped`` and ``kept`` tokens, break-even in 1/100 requests.

    ``breakeven`` is -1 where nothing could be dropped.
    """

    dropped: int
    kept: int
    breakeven: int


class Did(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one lane did on a pass, or would have done had the pass been allowed (``landed`` False).

    ``items``: how many things; ``tokens``: local tokens they free; ``tags``: the numbers that left, as ranges.
    """

    lane: str
    landed: bool
    items: int
    tokens: int
    tags: tuple[tuple[int, int], ...] = ()


class Noticed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a pass read in part ``p`` of message ``m``, new with it: a ``commit``, ``todos`` all done, notes ``read``.

    ``occasion``: the agent may be reminded of its notes for it.
    """

    what: str
    m: int
    p: int
    occasion: bool = False


class Asked(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of a word (``note``, ``hint``) that was due: ``said``, or why not.

    ``question``, ``answer``: what a port was asked and what it said, as chunks; empty where it was not, or was silent.
    """

    word: str
    outcome: str
    question: bytes = b""
    answer: bytes = b""


class Decision(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Why the pass is what it is: kept on every pass that was not plainly quiet.

    ``schedule``: ``defer``, ``pressure``, ``idle``. ``percent``: usage in 1/100 of a per cent of the usable window, -1:
    unknown. ``source``: ``provider``, ``estimated``, ``synthetic``, ``proactive``, ``none``. ``signals``: what held.
    ``permission``: may this pass rebuild. ``reach``: first path index a lane may edit. ``held``: an execute pass that
    left drainable drops where they were. ``drainable``: tokens the queue could free now. ``tokens``: the usage figure,
    0: unknown. ``lanes``: what each lane with work did. ``left_out``: words to the agent that broke and were not said.
    ``noticed``: what was read in what came; ``asked``: what became of reminders of notes and search hints.
    ``looked``: the newest number whose text was looked at for what programs put into it, 0: none was.
    """

    schedule: str
    percent: int
    source: str
    signals: tuple[str, ...]
    permission: bool
    reach: int
    held: bool
    drainable: int
    price: Price | None = None
    tokens: int = 0
    lanes: tuple[Did, ...] = ()
    left_out: tuple[str, ...] = ()
    noticed: tuple[Noticed, ...] = ()
    asked: tuple[Asked, ...] = ()
    looked: int = 0


class Adopted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a rebuild adopts for all passes until the next (convention 14).

    ``floor``: protected tokens; ``ratio``: provider tokens for 1,000 local ones; ``execute``, ``force``: thresholds in
    1/100 of a per cent.
    """

    floor: int
    ratio: int
    execute: int
    force: int


class Pin(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a rendered text was made from: a version of another stream, with its chain digest."""

    stream: str
    version: int
    digest: bytes


class PassDeferred(Base, frozen=True, array_like=True, gc=False, tag="PD"):
    """Nothing served before changes (law 3): only ``arrivals``, and ``inserts`` behind the last part served.

    ``base`` is the pass whose request this one extends, ``now`` the host's clock, ``digest`` the request's chain
    digest, ``tokens`` its local count. ``side`` is its path where that is not the head's.
    """

    number: int
    now: int
    wire: int
    base: int
    arrivals: tuple[Arrival, ...]
    inserts: tuple[Insert, ...]
    digest: bytes
    tokens: int
    divergence: Divergence | None = None
    decision: Decision | None = None
    side: Side | None = None


class ConversationRebuilt(Base, frozen=True, array_like=True, gc=False, tag="P1"):
    """SOFT+: ``edits`` may touch every message behind m[1] from ``decision.reach`` on.

    ``spares``: (message, part, tokens) no longer sent of parts that stay.
    """

    number: int
    now: int
    wire: int
    base: int
    arrivals: tuple[Arrival, ...]
    inserts: tuple[Insert, ...]
    digest: bytes
    tokens: int
    divergence: Divergence | None
    decision: Decision
    edits: tuple[Edit, ...]
    landed: tuple[tuple[int, str], ...]
    adopted: Adopted
    spares: tuple[tuple[int, int, int], ...] = ()


class HistoryRefreshed(Base, frozen=True, array_like=True, gc=False, tag="P2"):
    """SOFT: also re-renders m[1] (``m1``, chunks in order) and moves the cut to ``cut`` (last covered ordinal)."""

    number: int
    now: int
    wire: int
    base: int
    arrivals: tuple[Arrival, ...]
    inserts: tuple[Insert, ...]
    digest: bytes
    tokens: int
    divergence: Divergence | None
    decision: Decision
    edits: tuple[Edit, ...]
    landed: tuple[tuple[int, str], ...]
    adopted: Adopted
    m1: tuple[bytes, ...]
    cut: int
    head_tokens: int
    pins: tuple[Pin, ...] = ()
    spares: tuple[tuple[int, int, int], ...] = ()


class BaselineFolded(Base, frozen=True, array_like=True, gc=False, tag="P3"):
    """HARD: also re-renders m[0] (``m0``) and adopts guidance (chunk), system, tools, model and wire version."""

    number: int
    now: int
    wire: int
    base: int
    arrivals: tuple[Arrival, ...]
    inserts: tuple[Insert, ...]
    digest: bytes
    tokens: int
    divergence: Divergence | None
    decision: Decision
    edits: tuple[Edit, ...]
    landed: tuple[tuple[int, str], ...]
    adopted: Adopted
    m1: tuple[bytes, ...]
    cut: int
    m0: tuple[bytes, ...]
    guidance: bytes
    reasons: tuple[str, ...]
    head_tokens: int
    pins: tuple[Pin, ...] = ()
    spares: tuple[tuple[int, int, int], ...] = ()


class PassRefused(Base, frozen=True, array_like=True, gc=False, tag="P4"):
    """The request was not to be sent. ``code`` and ``message`` are what the host was told.

    ``waited``: it had waited for the summary under way.
    """

    number: int
    now: int
    code: str
    message: str
    tokens: int
    limit: int
    waited: bool = False


class LastGoodReplayed(Base, frozen=True, array_like=True, gc=False, tag="P5"):
    """While the store was unwritable, or unasked, the view of pass ``base`` went out with new messages as they came.

    It stands behind the events that record those messages, before the pass of the same transaction. The parts of
    ``arrivals`` have numbers that show only from the next rebuild on (convention 15).
    """

    number: int
    now: int
    wire: int
    base: int
    arrivals: tuple[Arrival, ...]
    digest: bytes
    tokens: int
    divergence: Divergence | None = None


# ------------------------------------------------------- knowledge, upkeep, user


class DocsObserved(Base, frozen=True, array_like=True, gc=False, tag="KD"):
    """The project's own documents as read: (file name, chunk) pairs."""

    files: tuple[tuple[str, bytes], ...]


class EpochBumped(Base, frozen=True, array_like=True, gc=False, tag="KE"):
    """Somebody edited project knowledge from outside a session."""

    reason: str


class TaskStarted(Base, frozen=True, array_like=True, gc=False, tag="US"):
    """An upkeep task runs under a lease until ``lease`` (store's wall clock, ms)."""

    task: str
    owner: str
    lease: int


class TaskFinished(Base, frozen=True, array_like=True, gc=False, tag="UF"):
    """An upkeep task ended well."""

    task: str
    owner: str


Rebuild: TypeAlias = ConversationRebuilt | HistoryRefreshed | BaselineFolded
Pass: TypeAlias = PassDeferred | ConversationRebuilt | HistoryRefreshed | BaselineFolded

Event: TypeAlias = (
    SessionOpened
    | SessionForked
    | ModelChanged
    | SystemChanged
    | ToolsChanged
    | MessagesObserved
    | PartsRevised
    | HeadMoved
    | UsageReported
    | RequestOutcome
    | OverflowReported
    | CacheLossReported
    | HostCompacted
    | SessionClosed
    | HeadLost
    | DropsQueued
    | FlushRequested
    | PolicyChanged
    | RecompRequested
    | WrapupRequested
    | PurgeRequested
    | HistorianStarted
    | HistorianPublished
    | HistorianFailed
    | CompartmentsReplaced
    | PassDeferred
    | ConversationRebuilt
    | HistoryRefreshed
    | BaselineFolded
    | PassRefused
    | LastGoodReplayed
    | DocsObserved
    | EpochBumped
    | TaskStarted
    | TaskFinished
)
