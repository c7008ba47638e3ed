"""How a session stands, for people and programs: one definition for the API, the command line and the hosts' commands.

Figures are those the next pass would decide by, the window's with where they come from (``transform.md`` 8.3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

from . import engine
from .domain.coverage import history
from .domain.errors import counted
from .domain.history import budgets
from .domain.passes import protection
from .domain.passes.schedule import gauge
from .domain.policy import NEVER_MS
from .domain.state import State
from .projections import restless

Source: TypeAlias = Literal["assumed", "catalogue", "configured", "learnt"]

KEPT = "nothing leaves: the policy leaves the window to the host"
"""What is told of a session without compaction."""
NEVER = -1
"""``cache_left_ms`` where nothing was answered yet, so that nothing is cached."""
FOREVER = NEVER_MS
"""``cache_left_ms`` where the cache never expires."""


class Status(msgspec.Struct, frozen=True):
    """How a session stands. Tokens; percentages in 1/100 of a per cent; times in ms UTC. Negative: unknown.

    ``window``: what usage is measured against; ``window_hard``: what the 95% test is; ``window_source``: a refusal of
    the provider told it (``learnt``), it is as our list of models has it (``catalogue``), as the host or the settings
    say (``configured``), or nobody knows it (``assumed``). ``learnt_limit``: the window as the provider told it when it
    refused a request, 0 = it did not; ``recovering``: such a refusal was not yet followed by an answer.
    ``tail_tokens``: what is sent behind the head, ``spent_tokens``: what of it nothing protects; ``summaries``: how
    many stand for older messages; ``head_tokens``: what the head holds, of ``history_budget`` for its summaries (the
    renderer's own figure, 0 = the window is unknown). ``reminder_due``: there was occasion to remind the agent of its
    notes; with a notes port the next new message does, if some wait.
    ``last_answer_ms``: when the model last answered, 0 = never; ``cache_left_ms``: how long its provider's cache lives
    from now on, 0 = it expired, -1 = there is none yet. ``refused_…``: the newest request that was not sent, code
    empty = none was. ``system_changes``: the host's system text is another one with each request;
    ``system_line``, ``system_text``: the line of it that is (FOLD-8). ``managed``: the policy does not leave the window
    to the host. ``summary_failures``: runs of the summariser that failed since one published, or since it was asked
    for anew; ``summary_error``: what the last of them said.
    """

    session: str
    harness: str
    codec: str
    mode: str
    model: str
    passes: int
    messages: int
    tags: int
    dropped: int
    queued: int
    usage_tokens: int
    usage_percent: int
    usage_source: str
    window: int
    window_known: bool
    execute_percent: int
    force_percent: int
    cache_ttl_ms: int
    protected_tokens: int
    held: int
    flush_pending: bool
    version: int
    learnt_limit: int = 0
    recovering: bool = False
    tail_tokens: int = 0
    spent_tokens: int = 0
    summaries: int = 0
    head_tokens: int = 0
    history_budget: int = 0
    summarising: bool = False
    reminder_due: bool = False
    window_hard: int = 0
    window_source: Source = "assumed"
    last_answer_ms: int = 0
    cache_left_ms: int = NEVER
    refused_code: str = ""
    refused_pass: int = 0
    refused_ms: int = 0
    refused_message: str = ""
    system_changes: bool = False
    system_line: int = 0
    system_text: str = ""
    managed: bool = True
    summary_failures: int = 0
    summary_error: str = ""


def status(core: engine.Core, known: Callable[[str], Collection[int]]) -> Status:
    """Return how the session of ``core``, which is locked, stands. ``known``: the windows a list has for a model."""
    state = core.hot().state
    policy = core.options.policy if core.options.policy is not None else state.policy
    now = gauge(state, state.model, state.context_limit, state.output_limit, core.settings(policy, state.model), 0)
    refusal, found = state.refusal, restless.changing(state, core.text)
    return Status(
        session=core.options.session,
        harness=core.options.harness,
        codec=state.codec or core.options.codec,
        mode=state.mode,
        model=state.model,
        passes=state.passes,
        messages=len(state.path),
        tags=len(state.tags),
        dropped=sum(tag.status == "dropped" for tag in state.tags),
        queued=len(state.queue),
        usage_tokens=now.tokens if now.source != "none" else -1,
        usage_percent=now.percent,
        usage_source=now.source,
        window=now.window.soft,
        window_known=now.window.known,
        execute_percent=now.bands.execute,
        force_percent=now.bands.force,
        cache_ttl_ms=now.settings.ttl,
        protected_tokens=protection.floor(now.settings, now.window) if state.adopted is None else state.adopted.floor,
        held=state.held,
        flush_pending=state.flush,
        version=state.version,
        learnt_limit=state.learnt[1] if state.learnt else 0,
        tail_tokens=state.tail,
        spent_tokens=state.spent,
        summaries=len(history(state)),
        head_tokens=state.fold.head_tokens if state.fold is not None else 0,
        history_budget=budgets.history(now.window.soft, now.bands.execute) if now.window.known else 0,
        summarising=state.run is not None,
        recovering=state.overflow is not None,
        reminder_due=bool(state.reminder.due),
        window_hard=now.window.hard,
        window_source=_source(state, known(state.model)),
        last_answer_ms=state.response_now,
        cache_left_ms=_left(state, now.settings.ttl, core.clock()),
        refused_code=refusal.code if refusal is not None else "",
        refused_pass=refusal.number if refusal is not None else 0,
        refused_ms=refusal.now if refusal is not None else 0,
        refused_message=refusal.message if refusal is not None else "",
        system_changes=found is not None,
        system_line=found.line if found is not None else 0,
        system_text=found.text if found is not None else "",
        managed=now.settings.compaction,
        summary_failures=state.failures,
        summary_error=core.text(state.complaint).decode() if state.failures and state.complaint else "",
    )


def _source(state: State, known: Collection[int]) -> Source:
    context = state.context_limit
    learnt = state.learnt[1] if state.learnt is not None and state.learnt[0] == state.model else 0
    if learnt and (not context or learnt < context):
        return "learnt"
    if not context:
        return "assumed"
    return "catalogue" if context in known else "configured"


def _left(state: State, ttl: int, clock: int) -> int:
    """Return how long the cache lives on: it is read or written with each answer."""
    if not state.response_now:
        return NEVER
    return FOREVER if ttl >= NEVER_MS else max(state.response_now + ttl - max(state.seen, clock), 0)


# ---------------------------------------------------------------------- in words


def words(found: Status) -> str:
    """Return how a session stands, for people: what is used, the window, the cache and what is wrong, a line each."""
    lines = [_used(found), _window(found), _cache(found)]
    if found.refused_code:
        which = f"request {found.refused_pass}, {_time(found.refused_ms)}"
        lines.append(f"last not sent: {which}, {found.refused_code}: {found.refused_message}")
    if found.summary_failures:
        runs = "last run" if found.summary_failures == 1 else f"last {found.summary_failures:,} runs"
        lines.append(f"no summary: the {runs} failed: {found.summary_error or 'nothing was said why'}")
    if found.system_changes:
        lines.append(restless.words(restless.Changing(found.system_line, found.system_text)))
    return "\n".join(lines)


def flushed(found: Status) -> str:
    """Return what a flush that was just asked for does, for people."""
    if not found.managed:
        return KEPT
    if not found.queued:
        return "nothing is marked; other cleanup is made with the next request"
    return f"what is marked leaves with the next request: {counted(found.queued, 'part')}"


def _used(found: Status) -> str:
    about = "about " if found.usage_source == "estimated" else ""
    used = f"{about}{found.usage_tokens:,} tokens" if found.usage_tokens >= 0 else "an unknown number of tokens"
    # after a refusal a session counts as full, however little the request was
    refused = "the provider refused them: counts as " if found.usage_source == "synthetic" else ""
    share = f" ({refused}{found.usage_percent / 100:.0f}% of {found.window:,})" if found.usage_percent >= 0 else ""
    leaves = f"content leaves from {found.execute_percent / 100:.0f}% on"
    if not found.managed:
        leaves = KEPT
    return (
        f"{used}{share} in {counted(found.messages, 'message')} after {counted(found.passes, 'request')}; "
        f"{counted(found.dropped, 'part')} dropped, {found.queued:,} marked; {leaves}"
    )


def _window(found: Status) -> str:
    whence = {
        "learnt": "as the provider told when it refused a request",
        "catalogue": "as foldlog's list of models has it",
        "configured": "as the host or the settings say",
        "assumed": "assumed: nobody told it, and nothing is refused by it",
    }[found.window_source]
    return f"window: {found.window:,} tokens usable, {found.window_hard:,} at most; {whence}"


def _cache(found: Status) -> str:
    if found.cache_left_ms == NEVER:
        return "last answer: never; nothing is cached yet"
    left = "expired" if not found.cache_left_ms else f"lives for {span(found.cache_left_ms)} more"
    left = "never expires" if found.cache_left_ms == FOREVER else left
    return f"last answer: {_time(found.last_answer_ms)}; the provider's cache {left}"


def span(ms: int) -> str:
    """Return a length of time in its two largest units."""
    seconds = max(-(-ms // 1000), 0)
    sizes = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
    counts = []
    for unit, size in sizes:
        count, seconds = divmod(seconds, size)
        counts.append(f"{count}{unit}" if count else "")
    first = next((i for i, one in enumerate(counts) if one), len(counts) - 1)
    return " ".join(one for one in counts[first : first + 2] if one) or "0s"


def _time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"
