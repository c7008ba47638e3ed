"""One pass, decided: a pure function of the state, the input and the facts it asked for (``design.md`` 5).

The order is window and bands, schedule, fold triggers, permission, lanes, refusal. The event it returns still lacks its
digest: the engine projects the request from it and seals it, before anything is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from .. import events as ev
from ..history import budgets
from ..identity import Scene
from ..ranges import ranges
from ..state import State
from ..transcript import Message
from ..window import family
from . import landing, lanes, permission, price, protection, refusal, schedule, situation, tagger, words
from .forms import Form
from .given import Given, Head, Need, Outlook
from .heard import Heard
from .lanes.shape import Ask, Item, Part, Work
from .permission import Permission
from .situation import Situation

PRESSURE = "pressure_refold"
"""Why m[0] is rendered again where m[1] would grow too large with a new summary (`history.md` 2.7)."""


class Decided(msgspec.Struct, frozen=True):
    """The events of the pass, the pass event last, and the texts (by digest) they name.

    ``failed``: parts that broke and were left out, each with how and where. ``critical``: the pass is refused, or at
    95% by the provider's word or figures of it, so that it waits for a summary first.
    """

    events: tuple[ev.Event, ...]
    texts: dict[bytes, bytes]
    failed: tuple[tuple[str, str], ...] = ()
    critical: bool = False

    @property
    def outcome(self) -> ev.Pass | ev.PassRefused:
        """The pass event."""
        return self.events[-1]  # type: ignore[return-value]  # by construction: decide puts it last


def decide(
    state: State,
    given: Given,
    head: Head | None = None,
    facts: Mapping[Part, str] = MappingProxyType({}),
    heard: Heard = Heard(),  # noqa: B008 - it is frozen
    outlook: Outlook | None = None,
) -> Decided | Need:
    """Decide what the next request is. Returns the events to store, or what has to be known first.

    ``head``, ``facts``, ``heard`` and ``outlook`` are the answers to what was asked for before.
    """
    scene = Scene(state, given.seen)
    tagged = tagger.tag(scene, bound=given.settings.bound, model=given.model, managed=given.settings.compaction)
    said = words.say(scene, tagged, given, max(state.seen, given.now), facts, heard)
    if said.missing is not None:
        return said.missing
    found = situation.look(scene, given, tagged.tokens + said.tokens)
    if outlook is None and permission.asks(found):
        return Need(outlook=True)
    allowed = permission.allow(found, outlook)
    rendered = _rendered(found, allowed, head)
    if isinstance(rendered, Need):
        return rendered
    reasons, head = rendered
    asked = landing.ask(found, allowed, _begin(scene, head), facts, headed=head is not None)
    missing = lanes.wants(asked) if asked is not None and allowed.granted else frozenset()
    if missing:
        return Need(parts=missing)
    works = lanes.run(asked) if asked is not None else ()
    landed = landing.lands(asked, works) if asked is not None else ()
    if any(work.items for work in landed) or _begin(scene, head) != scene.start():
        said = words.hushed(said)
    decision = _decision(found, allowed, asked, works, said, landed=bool(landed))
    shape = Form(scene, given, said, found.divergence, decision, found.size)
    produced = _produced(shape, found, reasons, head, landed)
    refused = None if given.seen.side else refusal.check(state, given, found.gauge, produced)
    texts = {**tagged.texts, **said.texts}
    if refused is None:
        texts |= head.texts if head is not None else {}
        texts.update((digest, data) for work in landed for digest, data in work.texts.items())
    events = [*given.events, *given.seen.events, produced if refused is None else refused]
    events[0] = msgspec.structs.replace(events[0], cmd=given.cmd)
    critical = refused is not None or (found.gauge.emergency and not found.gauge.unheard)
    return Decided(tuple(events), texts, said.failed, critical)


def _rendered(found: Situation, allowed: Permission, head: Head | None) -> tuple[tuple[str, ...], Head | None] | Need:
    """Return why m[0] is rendered again and the head of this pass, None where it stays; or what is needed of it."""
    reasons = found.reasons
    # m[1] lies before what a divergence lets a pass touch
    refresh = found.fresh and allowed.granted and not allowed.reach
    if not reasons and not refresh:
        return (), None
    if head is None:
        return Need(fold=bool(reasons))
    if not reasons and not head.fold and _backstop(found.gauge, head):
        return Need(fold=True)
    return reasons or ((PRESSURE,) if head.fold else ()), head


def pressed(outcome: ev.Pass | ev.PassRefused) -> bool:
    """Whether a pass shows a summary for pressure alone, which a request nobody answered yet may have made."""
    if isinstance(outcome, ev.BaselineFolded):
        return outcome.reasons == (PRESSURE,)
    return isinstance(outcome, ev.HistoryRefreshed) and outcome.decision.schedule == "pressure"


def _produced(
    shape: Form, found: Situation, reasons: tuple[str, ...], head: Head | None, landed: tuple[Work, ...]
) -> ev.Pass:
    """Return the pass event, at the level that follows from what is rendered and what lands."""
    if head is None and not landed:
        return shape.deferred()
    adopted = ev.Adopted(
        floor=protection.floor(found.gauge.settings, found.gauge.window),
        ratio=schedule.scale(found.state, found.given.model),
        execute=found.gauge.bands.execute,
        force=found.gauge.bands.force,
    )
    if head is None:
        return shape.rebuild(landed, adopted)
    return shape.fold(reasons, head, landed, adopted) if reasons else shape.refresh(head, landed, adopted)


def _begin(scene: Scene, head: Head | None) -> int:
    """Return the first path index that is sent; ``head``: the one that is rendered with this pass."""
    if head is None:
        return scene.start()
    return scene.index(head.cut) + 1 if head.cut else 0  # it may cover nothing any more


def _backstop(gauge: schedule.Pressure, head: Head) -> bool:
    """Whether m[1] has grown so large that it is folded into m[0] now (``history.md`` 2.7, 7)."""
    budget = budgets.history(gauge.window.soft if gauge.window.known else 0, gauge.bands.execute)
    if head.m1_tokens * 5 > budget:
        return True
    return head.m0_tokens >= 500 and head.m1_tokens * 100 > 15 * head.m0_tokens


def _decision(
    found: Situation,
    allowed: Permission,
    asked: Ask | None,
    works: tuple[Work, ...],
    said: words.Said,
    *,
    landed: bool,
) -> ev.Decision | None:
    state, gauge = found.state, found.gauge
    told = said.failed or said.noticed or said.asked
    # an emergency's stay ends on a pass that told how full the window is
    if found.quiet and state.drained is None and not allowed.granted and not told:
        return None
    queue = asked.queued if asked is not None else ()
    drainable = sum(item.frees for item in queue)
    reached = allowed.granted and allowed.reach <= found.scene.start()
    return ev.Decision(
        schedule=found.due,
        percent=gauge.percent,
        source=gauge.source,
        signals=allowed.signals,
        permission=allowed.granted,
        reach=allowed.reach,
        held=found.due != "defer" and drainable > 0 and not landed,
        drainable=drainable,
        price=_price(found, queue),
        tokens=gauge.tokens,
        lanes=tuple(_did(work, landed=landed) for work in works),
        left_out=tuple(name for name, _ in said.failed),
        noticed=said.noticed,
        asked=said.asked,
        looked=state.swept if asked is not None and asked.routine and reached else 0,
    )


def _price(found: Situation, queue: tuple[Item, ...]) -> ev.Price | None:
    """Return what landing the queue would cost: all behind the first change is written again, but what is dropped."""
    if not any(item.frees for item in queue):
        return None
    scene = found.scene
    first = min(item.index for item in queue)
    frees = sum(item.frees for item in queue)
    behind = sum(_size(scene.message(scene.at(index))) for index in range(first, scene.length()))
    kind = family(scene.state.codec, found.given.model)
    return price.price(kind, found.gauge.settings.ttl, frees, max(behind - frees, 0))


def _size(message: Message) -> int:
    return sum(part.tokens for part in message.parts)


def _did(work: Work, *, landed: bool) -> ev.Did:
    tags = tuple(sorted(item.tag for item in work.items if item.tag))
    return ev.Did(work.lane, landed, len(work.items), sum(item.frees for item in work.items), ranges(tags))
