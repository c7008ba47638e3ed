"""What a decision is handed, what it may ask for, and the answers (``design.md`` 5: sans-I/O)."""

from __future__ import annotations

import msgspec

from .. import events as ev
from ..identity import Observation
from ..policy import Settings
from .lanes.shape import Part


class Given(msgspec.Struct, frozen=True):
    """What the host and the world said about this pass.

    ``at``: wall clock; ``now``: the host's clock (both ms UTC). ``events``: changes of model, system, tools and policy
    to record first; the fields beside them are the values in force with these taken in. Limits 0 = unknown.
    ``waited``: this pass has waited for a summary, and none came.
    ``system``, ``tools``: digests of the request's own regions (of a side request they may not be the session's).
    ``notes``, ``search``: there is somebody to ask for these.
    """

    at: int
    now: int
    cmd: str
    wire: int
    seen: Observation
    events: tuple[ev.Event, ...]
    model: str
    context_limit: int
    output_limit: int
    settings: Settings
    system: bytes
    system_hash: bytes
    system_tokens: int
    tools: bytes
    tools_names: bytes
    tools_tokens: int
    notes: bool = False
    search: bool = False
    waited: bool = False


class Need(msgspec.Struct, frozen=True):
    """Facts ``decide`` cannot go on without: the texts of the head, rendered now, what parts hold, or what ports say.

    ``fold``: m[0] with all summaries on the path in it, and the guidance; False: m[1] alone, with the new ones; None:
    not the head but the contents of ``parts``, or where ``outlook`` is set whether a summary can come. ``words``: for
    what is said to the agent: it may go unanswered. ``notes``: whether notes of the agent wait; ``query``: what a
    search finds for it, within its deadline.
    """

    fold: bool | None = None
    parts: frozenset[Part] = frozenset()
    words: bool = False
    notes: bool = False
    query: str = ""
    outlook: bool = False


class Outlook(msgspec.Struct, frozen=True):
    """Whether a summary may still come: there is something to read (``coming``), or only a prompt is in its way."""

    coming: bool = False
    blocked: bool = False


class Head(msgspec.Struct, frozen=True):
    """The answer: chunks in order, the texts behind them, their local tokens (``tokens``: m[0], m[1], guidance in all).

    ``cut``: the last message the summaries in it cover, 0 for none. ``fold``: whether m[0] was rendered.
    """

    m0: tuple[bytes, ...]
    m1: tuple[bytes, ...]
    guidance: bytes
    tokens: int
    texts: dict[bytes, bytes]
    cut: int = 0
    fold: bool = True
    m0_tokens: int = 0
    m1_tokens: int = 0
