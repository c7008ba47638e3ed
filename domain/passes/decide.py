"""One pass, decided: a pure function of the state, the input and the facts it asked for (``design.md`` 5).

The order is window and bands, schedule, fold triggers, permission, lanes, refusal. The event it returns still lacks its
digest: the engine projects the request from it and seals it, before anything is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from .. import events as ev
from .. import tools
from ..history import budgets
from ..identity import Scene
from ..ranges import ranges
from ..state import State
from ..transcript import Message
from ..window import family
from . import diverged, lanes, local, permission, price, protection, refusal, schedule, tagger, triggers, words
from .forms import Form
from .given import Given, Head, Need, Outlook
from .heard import Heard
from .lanes import drops, reasoning
from .lanes.shape import Ask, Item, Part, Work


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
    now = max(state.seen, given.now)
    tagged = tagger.tag(scene, bound=given.settings.bound, model=given.model, managed=given.settings.compaction)
    said = words.say(scene, tagged, given, now, facts, heard)
    if said.missing is not None:
        return said.missing
    answered = any(message.role == "assistant" for message in given.seen.new)
    divergence = diverged.divergence(scene, given)
    size = local.measure(scene, given, divergence, tagged.tokens + said.tokens)
    moved = divergence is not None and not given.seen.side
    gauge = schedule.gauge(
        state, given.model, given.context_limit, given.output_limit, given.settings, size, moved=moved
    )
    side = given.seen.side
    due = "defer" if side else schedule.schedule(state, gauge, now, answered)
    managed = gauge.settings.compaction
    reasons = () if side else _fold_reasons(scene, given, gauge, now, answered)
    fresh = managed and not side and scene.fresh()
    running = state.running(given.at)
    signals = () if side else _signals(state, reasons, published=fresh and not running and due != "defer")
    torn = lanes.mended.torn(scene) if managed and state.gone else {}
    quiet = due == "defer" and not signals and not gauge.presses and divergence is None and not torn
    keep: frozenset[int] = frozenset()
    queue: tuple[Item, ...] = ()
    if managed and not side and not quiet:
        floor = state.adopted.floor if state.adopted is not None else protection.floor(gauge.settings, gauge.window)
        keep = protection.protected(state, floor, emergency=gauge.emergency, here=tools.here(scene))
        queue = drops.queued(scene, frozenset() if state.flush else keep) if state.queue else ()
    behind = _behind(scene, divergence, torn)
    pressed = due != "defer" or gauge.presses
    news = pressed and (gauge.told or _news(state, given))
    drainable = sum(item.frees for item in queue)
    certain = running or fresh or bool(state.marked)
    if (
        outlook is None
        and state.primary
        and news
        and not certain
        and (due == "pressure" or (drainable and due != "defer"))
    ):
        return Need(outlook=True)
    coming, blocked = (outlook.coming, outlook.blocked) if outlook is not None else (False, False)
    allowed = permission.permit(
        primary=state.primary,
        compaction=managed and not side,
        execute=news and due != "defer",
        force=news and gauge.presses and not side,
        signals=signals,
        diverged=behind,
        drainable=drainable,
        drainable_behind=sum(item.frees for item in queue if behind is not None and item.index >= behind),
        usable=gauge.window.soft,
        held=state.held,
        summary_possible=coming or blocked or certain,
        torn=bool(torn),
    )
    if blocked and due == "pressure" and not allowed.granted:
        # the next look may read past the newest prompt, once; until then a summary can still come (5.4)
        allowed = permission.Permission(False, (*allowed.signals, "floor_mark"), 0)
    # what was refused, or would be, as it is may not go out
    asked = reasons or state.flush or state.bulky or state.unbound or torn
    if running and not asked and not gauge.presses and allowed.granted and state.primary:
        allowed = permission.Permission(False, allowed.signals, 0)  # the summary under way lands first (T9, veto)
    urgent = asked or state.lost or state.reopened
    if allowed.granted and not urgent and reasoning.holds(scene, gauge.settings, gauge.percent, gauge.bands.execute):
        allowed = permission.Permission(False, (*allowed.signals, "thinking_hold"), 0)
    if given.waited:
        allowed = msgspec.structs.replace(allowed, signals=(*allowed.signals, "summary_wait"))
    refresh = fresh and allowed.granted and not allowed.reach  # m[1] lies before what a divergence lets a pass touch
    if (reasons or refresh) and (head is None or (reasons and not head.fold)):
        return Need(fold=bool(reasons))
    if refresh and head is not None and not reasons and not head.fold and _backstop(state, gauge, head):
        return Need(fold=True)
    if refresh and head is not None and head.fold and not reasons:
        reasons = ("pressure_refold",)
    begin = _begin(scene, head if reasons or refresh else None)
    queue = tuple(item for item in queue if item.index >= begin)
    headed = bool(reasons) or refresh
    wanted = headed or state.flush or bool(state.unbound) or state.bulky or bool(torn)
    ask = None
    least = 0 if queue else _least(state, gauge)
    if not quiet:
        ask = _ask(
            scene, gauge, allowed, begin, keep, queue, facts, given.model, behind, least, wanted=wanted, headed=headed
        )  # fmt: skip
    missing = lanes.wants(ask) if ask is not None and allowed.granted else frozenset()
    if missing:
        return Need(parts=missing)
    works = lanes.run(ask) if ask is not None else ()
    landing = _landing(works, allowed, wanted=wanted, least=least)
    if any(work.items for work in landing):
        said = words.hushed(said)
    cost = _price(scene, given, gauge, queue)
    untold = quiet and state.drained is None  # an emergency's stay ends on a pass that told how full the window is
    reached = allowed.granted and allowed.reach <= scene.start()
    looked = state.swept if ask is not None and ask.routine and reached else 0
    decision = _decision(due, gauge, allowed, queue, works, landing, untold, cost, said, looked)
    shape = Form(scene, given, said, divergence, decision, size)
    produced: ev.Pass
    if reasons:
        assert head is not None
        produced = shape.fold(reasons, head, landing, _adopted(state, given, gauge))
    elif refresh:
        assert head is not None
        produced = shape.refresh(head, landing, _adopted(state, given, gauge))
    elif landing:
        produced = shape.rebuild(landing, _adopted(state, given, gauge))
    else:
        produced = shape.deferred()
    refused = None if side else refusal.check(state, given, gauge, produced)
    outcome: ev.Event = produced if refused is None else refused
    texts = {
        **tagged.texts,
        **said.texts,
        **(head.texts if head is not None and (reasons or refresh) and refused is None else {}),
    }
    texts.update((digest, data) for work in landing for digest, data in work.texts.items())
    events = [*given.events, *given.seen.events, outcome]
    events[0] = msgspec.structs.replace(events[0], cmd=given.cmd)
    critical = refused is not None or (gauge.emergency and not gauge.unheard)
    return Decided(tuple(events), texts if refused is None else {**tagged.texts, **said.texts}, said.failed, critical)


def _begin(scene: Scene, head: Head | None) -> int:
    """Return the first path index that is sent; ``head``: the one that is rendered with this pass."""
    if head is None:
        return scene.start()
    return scene.index(head.cut) + 1 if head.cut else 0  # it may cover nothing any more


def _behind(scene: Scene, divergence: ev.Divergence | None, torn: Mapping[int, int]) -> int | None:
    """Return the path index from which the prefix is lost anyway or cannot stay as it is, None for none."""
    places = [*torn.values()]
    if divergence is not None and not diverged.only_blanks(scene):
        places.append(divergence.index)
    return min(places, default=None)


def _backstop(state: State, gauge: schedule.Pressure, head: Head) -> bool:
    """Whether m[1] has grown so large that it is folded into m[0] now (``history.md`` 2.7, 7)."""
    budget = budgets.history(gauge.window.soft if gauge.window.known else 0, gauge.bands.execute)
    if head.m1_tokens * 5 > budget:
        return True
    return head.m0_tokens >= 500 and head.m1_tokens * 100 > 15 * head.m0_tokens


def _adopted(state: State, given: Given, gauge: schedule.Pressure) -> ev.Adopted:
    return ev.Adopted(
        floor=protection.floor(gauge.settings, gauge.window),
        ratio=schedule.scale(state, given.model),
        execute=gauge.bands.execute,
        force=gauge.bands.force,
    )


def _ask(
    scene: Scene,
    gauge: schedule.Pressure,
    allowed: permission.Permission,
    begin: int,
    keep: frozenset[int],
    queue: tuple[Item, ...],
    facts: Mapping[Part, str],
    model: str,
    behind: int | None,
    least: int,
    *,
    wanted: bool,
    headed: bool,
) -> Ask | None:
    """Return what the lanes are asked; without permission only where drops are held, so that it can be told."""
    state = scene.state
    if not gauge.settings.compaction or scene.seen.side or not (allowed.granted or queue):
        return None
    rides = wanted or bool(queue) or (gauge.emergency and _grown(state, gauge))
    fresh = not _settled(state) or (not state.primary and state.tools_order[-1:] > [state.swept])
    routine = rides or (fresh and not (gauge.force and state.drained is not None))
    if not routine and not (gauge.force and gauge.ceiling and state.drained is None):
        return None  # no lane has anything to do: such a pass costs nothing, however many follow each other
    routine = routine and not (_hosts_alone(allowed) and gauge.percent * 2 < gauge.bands.execute)
    first = max(begin, allowed.reach)
    order = tools.here(scene)[0]  # what a summary covers is no lane's business, however much of it there is
    sent = tuple(number for number in order if scene.index(state.tags[number - 1].m) >= first)
    return Ask(
        scene,
        gauge.settings,
        gauge,
        allowed,
        first,
        sent,
        protection.spared(state, keep, sent, dict(gauge.settings.spared)),
        drops.recent_tools(scene),
        rides,
        routine=routine,
        queued=queue,
        facts=facts,
        first=behind,
        headed=headed,
        model=model,
        start=begin,
        wanted=wanted,
        least=least,
    )


def _hosts_alone(allowed: permission.Permission) -> bool:
    """Whether this pass folds only since its host changed what stands before the messages: a clock does each time."""
    return bool(allowed.signals) and set(allowed.signals) <= triggers.REGIONS


def _news(state: State, given: Given) -> bool:
    """Whether anything came since the last rebuild: without it pressure would rebuild the same again."""
    if given.seen.new or given.events or state.newest > state.swept:
        return True
    return any(after >= state.rebuilt for after in state.queue.values())


def _settled(state: State) -> bool:
    """Whether this pressure episode has had a rebuild."""
    return bool(state.episode) and state.rebuilt >= state.episode


def _grown(state: State, gauge: schedule.Pressure) -> bool:
    """Whether a session at 95% may clean up again: usage rose by what is worth a rebuild since the episode's last."""
    risen = (gauge.tokens - state.paid) * 10_000 >= permission.WORTH * gauge.window.soft
    return gauge.told or not _settled(state) or risen


def _least(state: State, gauge: schedule.Pressure) -> int:
    """Return what a primary's cleanup has to free beyond, where its episode had a rebuild and nothing else pays."""
    if not state.primary or gauge.told or not _settled(state):
        return 0
    return permission.WORTH * gauge.window.soft // 10_000


def _landing(works: tuple[Work, ...], allowed: permission.Permission, *, wanted: bool, least: int) -> tuple[Work, ...]:
    """Return the work that lands: all of it, or none where the rebuild would not be worth it.

    ``wanted``: the prefix is lost anyway, or a person asked; then even what frees nothing leaves the queue. ``least``:
    local tokens it has to free more than.
    """
    if not allowed.granted:
        return ()
    return works if wanted or sum(item.net for work in works for item in work.items) > least else ()


def _fold_reasons(scene: Scene, given: Given, gauge: schedule.Pressure, now: int, answered: bool) -> tuple[str, ...]:
    found = triggers.fold_reasons(
        scene,
        model=given.model,
        system_hash=given.system_hash,
        tools_names=given.tools_names,
        managed=gauge.settings.compaction,
        idle=schedule.idle(scene.state, gauge.settings.ttl, now, answered),
    )
    if gauge.settings.compaction or found == ("first_render",):
        return found
    # switched off, nothing of ours moves the prefix; but a head that tells of a path the host left cannot stay
    return ("cut_void",) if "cut_void" in found else ()


def _signals(state: State, reasons: tuple[str, ...], *, published: bool) -> tuple[str, ...]:
    """Return the causes, beside pressure, that give permission by themselves (T53: all that were true are named)."""
    found = list(reasons)
    if state.flush:
        found.append("flush")
    if state.lost and "cache_loss" not in found:
        found.append("cache_loss")
    if state.reopened:
        found.append("open_rebuild")
    if state.unbound:
        found.append("thinking_recovery")
    if state.bulky:
        found.append("picture_recovery")
    if published:
        found.append("published")
    return tuple(found)


def _price(scene: Scene, given: Given, gauge: schedule.Pressure, queue: tuple[Item, ...]) -> ev.Price | None:
    """Return what landing the queue would cost: all behind the first change is written again, but what is dropped."""
    if not any(item.frees for item in queue):
        return None
    first = min(item.index for item in queue)
    frees = sum(item.frees for item in queue)
    behind = sum(_size(scene.message(scene.at(index))) for index in range(first, scene.length()))
    kind = family(scene.state.codec, given.model)
    return price.price(kind, gauge.settings.ttl, frees, max(behind - frees, 0))


def _size(message: Message) -> int:
    return sum(part.tokens for part in message.parts)


def _decision(
    due: str,
    gauge: schedule.Pressure,
    allowed: permission.Permission,
    queue: tuple[Item, ...],
    works: tuple[Work, ...],
    landing: tuple[Work, ...],
    untold: bool,
    cost: ev.Price | None,
    said: words.Said,
    looked: int,
) -> ev.Decision | None:
    told = said.failed or said.noticed or said.asked
    if untold and not allowed.granted and not told:
        return None
    drainable = sum(item.frees for item in queue)
    return ev.Decision(
        schedule=due,
        percent=gauge.percent,
        source=gauge.source,
        signals=allowed.signals,
        permission=allowed.granted,
        reach=allowed.reach,
        held=due != "defer" and drainable > 0 and not landing,
        drainable=drainable,
        price=cost,
        tokens=gauge.tokens,
        lanes=tuple(_did(work, landed=bool(landing)) for work in works),
        left_out=tuple(name for name, _ in said.failed),
        noticed=said.noticed,
        asked=said.asked,
        looked=looked,
    )


def _did(work: Work, *, landed: bool) -> ev.Did:
    tags = tuple(sorted(item.tag for item in work.items if item.tag))
    return ev.Did(work.lane, landed, len(work.items), sum(item.frees for item in work.items), ranges(tags))
