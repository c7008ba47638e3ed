"""The one permission: may this pass rebuild, how far back, and because of what (``transform.md`` 5.2, 5.4, law 4)."""

from __future__ import annotations

import msgspec

from .given import Outlook
from .lanes import reasoning
from .situation import Situation

HELD_PASSES = 3
WORTH = 200
"""Queued drops worth 2% (200 hundredths of a per cent) of the usable window let an own execute pass rebuild."""


class Permission(msgspec.Struct, frozen=True):
    """``signals``: every cause that held. ``reach``: first path index a lane may edit. ``own``: pressure alone."""

    granted: bool
    signals: tuple[str, ...]
    reach: int
    own: bool = False


def asks(found: Situation) -> bool:
    """Whether it matters if a summary may still come: where a primary would rebuild for pressure alone."""
    return found.state.primary and found.news and not found.certain and found.due == "pressure"  # idle it folds


def allow(found: Situation, outlook: Outlook | None) -> Permission:
    """Return the permission of one pass, with every veto taken in. ``outlook``: the answer where ``asks``."""
    state, gauge, behind = found.state, found.gauge, found.behind
    coming, blocked = (outlook.coming, outlook.blocked) if outlook is not None else (False, False)
    allowed = permit(
        primary=state.primary,
        compaction=found.manages,
        execute=found.news and found.due != "defer",
        force=found.news and gauge.presses,
        signals=found.signals,
        diverged=behind,
        drainable=sum(item.frees for item in found.queue),
        drainable_behind=sum(item.frees for item in found.queue if behind is not None and item.index >= behind),
        usable=gauge.window.soft,
        held=state.held,
        summary_possible=coming or blocked or found.certain,
        torn=bool(found.torn),
    )
    if blocked and found.due == "pressure" and not allowed.granted:
        # the next look may read past the newest prompt, once; until then a summary can still come (5.4)
        allowed = Permission(False, (*allowed.signals, "floor_mark"), 0)
    if found.running and not found.asked and not gauge.presses and allowed.granted and state.primary:
        allowed = Permission(False, allowed.signals, 0)  # the summary under way lands first (T9, veto)
    urgent = found.asked or state.lost or state.reopened
    if (
        allowed.granted
        and not urgent
        and reasoning.holds(found.scene, gauge.settings, gauge.percent, gauge.bands.execute)
    ):
        allowed = Permission(False, (*allowed.signals, "thinking_hold"), 0)
    if found.given.waited:
        allowed = msgspec.structs.replace(allowed, signals=(*allowed.signals, "summary_wait"))
    return allowed


def permit(
    *,
    primary: bool,
    compaction: bool,
    execute: bool,
    force: bool,
    signals: tuple[str, ...],
    diverged: int | None,
    drainable: int,
    drainable_behind: int,
    usable: int,
    held: int,
    summary_possible: bool,
    torn: bool = False,
) -> Permission:
    """Return the permission of one pass; every lane takes it as it is.

    ``signals`` hold by themselves (a fold's reasons, flush, cache loss, an open rebuild). ``diverged``: path index from
    which the host itself broke the prefix. ``drainable``: tokens the queue could free anywhere,
    ``drainable_behind``: at or behind the divergence. ``held``: execute passes in a row before this one that left
    drainable drops. ``summary_possible``: a summary can still come, so drops wait for it. ``torn``: an arc has to come
    back at ``diverged``, whatever that costs.
    """
    if not compaction:
        return Permission(False, signals, 0)  # seen, and thereby spent: there is nothing they could land
    found = list(signals)
    if force:
        found.append("force")
    if execute and not primary:
        found.append("execute")
    if found:
        return Permission(True, tuple(found), 0)
    worth = drainable * 10_000 >= WORTH * usable
    if execute and drainable > 0 and not summary_possible and (worth or held + 1 >= HELD_PASSES):
        return Permission(True, ("own_worth" if worth else "own_held",), 0, own=True)
    if diverged is not None and (drainable_behind > 0 or torn):
        return Permission(True, ("divergence",), diverged)
    return Permission(False, (), 0)
