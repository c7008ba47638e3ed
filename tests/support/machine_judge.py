"""One request judged: against the model's own record of what was served, and against what may move a rebuild."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from foldlog.domain import events as ev
from foldlog.domain.edits import SetBody
from foldlog.domain.paths import path_of
from foldlog.domain.state import PARTS_LIMIT
from foldlog.projections.wire import wire as version
from support import machine_checks as checks
from support import machine_host as host
from support import machine_outage as outage
from support import machine_pictures as pictures
from support import machine_signing as signing
from support import machine_words as words
from support.machine_history import Told, judged
from support.machine_steps import OUTPUTS, OWN, POLICIES, THRESHOLDS, TTLS, WINDOWS

if TYPE_CHECKING:
    import foldlog
    from support.machine import Machine


NUMBERED = ("text", "result", "media")
"""Parts that can have a number."""


def judge(machine: Machine, request: foldlog.Request, session: foldlog.Session, items: list[host.Message]) -> None:
    """Check ``request`` and put it on the record."""
    event: Any = request._produced.event
    hot = session.core.hot()
    told = machine._told(request._produced.version)
    if event.number <= machine.passes:
        _repeated(machine, request, items)
        return
    outage.missed(machine, event.number, items)
    outage.given_up(machine)
    assert event.number == machine.passes + 1, (
        f"pass {event.number} after {machine.passes}: something was applied twice"
    )
    machine.passes = event.number
    machine.models[event.number] = machine.model
    machine.seen = max(machine.seen, machine.now)
    state = hot.state
    side = isinstance(event, ev.PassDeferred) and event.side is not None
    begin = judged(machine, request, told, items)
    whole = told.whole(event)
    revealed: set[int] = set()
    if not isinstance(event, ev.PassDeferred):  # from here on their numbers show
        revealed = {m for m in machine.raw & set(whole) if whole.index(m) >= event.decision.reach}
        machine.raw -= revealed
    assert path_of(state, event) == whole[begin:], "the request is not of the path behind the cut"
    now = checks.record(request.built, event, whole, begin, items, (machine.system, machine.tools))
    assert _digest(request.built) == event.digest, "LAW-2: the request's bytes have another digest than its event"
    machine.counts[request.level] += 1
    rebuilt = not isinstance(event, ev.PassDeferred)
    signing.unsigned(machine, items)
    if rebuilt:
        pictures.allowed(machine, now)
        signing.rebuilt(machine, now)
    outage.found(machine, now)
    _bytes(machine, now, state, revealed)
    _causes(machine, now, state, told)
    if rebuilt:
        pictures.rebuilt(machine, now, {state.tags[number - 1].m for number, _ in event.landed})
        _batches(machine, now)
    _content(machine, now)
    words.listed(machine, now)
    machine.numbered = len(state.tags)
    marked = request.built.marked()
    raw = machine.handed(items)
    if machine.codec == "openai-chat":
        system = machine.system_now()
        raw = [{"role": "system", "content": system}, *raw] if system else raw
    thinks = any(part["t"] == "think" for item in items for part in item["parts"])
    behind = machine.handed(_thinking(machine, items[begin:], b"".join(request.built.messages))) if thinks else []
    checks.valid(
        machine.codec, marked[0], request.tools, marked[1], raw, machine.system_now(), behind, _half(machine, event)
    )
    machine.served[event.number] = now
    machine.where[event.number] = machine.id
    machine.last = request
    signing.answered(machine, request, now)
    if side:
        return
    if not isinstance(event, ev.PassDeferred):
        machine.rebuilt_now, machine.swept = machine.seen, len(state.tags)
        machine.reopened = False
        machine.flushed = False
        machine.totals = []
        machine.counts["rebuilds"] += 1
        if isinstance(event, ev.BaselineFolded):
            machine.folded_model = machine.model
            machine.unmanaged = (POLICIES[machine.policy] or {}).get("compaction") is False
    if "cache_loss" in request.reasons:
        machine.lost = False
    machine.head = now
    machine.edits, machine.rewritten, machine.beyond = [], set(), []
    machine.interloped = machine.orphaned = False
    low = event.decision is None or (event.decision.source == "provider" and event.decision.percent < 8_000)
    other = machine.batch is not None and machine.batch[1] != (machine.id, signing.family(machine))
    machine.batch = None if low or other else machine.batch
    machine.counts["diverged"] += event.divergence is not None
    if event.number % 4 == 0:
        machine.check_replay(event.number)


def _digest(built: Any) -> bytes:
    """Return the chain digest over the bytes of a request, whatever it says of itself."""
    form = version(built.wire)
    blocks = [
        *(form.tools_blocks(built.codec, built.tools) if built.tools else ()),
        *(form.system_blocks(built.codec, built.system) if built.system else ()),
        *(block for raw in built.messages for block in form.blocks(built.codec, raw)),
    ]
    return form.chain(form.GENESIS(built.codec), blocks)


def _thinking(machine: Machine, items: list[host.Message], sent: bytes) -> list[host.Message]:
    """Return the messages without the reasoning that may be gone and is."""
    gone = {said for said in machine.thoughtless if f'"{said}"'.encode() not in sent}
    parts = ([part for part in item["parts"] if part["t"] != "think" or part["s"] not in gone] for item in items)
    return [{**item, "parts": kept} for item, kept in zip(items, parts, strict=True) if kept]


def _repeated(machine: Machine, request: foldlog.Request, items: list[host.Message]) -> None:
    """PROP-1: a request that was handed out before is the newest one, for the same messages."""
    assert request.pass_number == machine.passes, f"{request!r} came back, the newest pass is {machine.passes}"
    served = machine.served[request.pass_number]
    same = len(served.items) == len(items) and all(map(host.same, served.items, items))
    assert same, f"{request!r} came back for other messages"
    assert request.digest == served.event.digest.hex()
    machine.counts["repeated"] += 1


def _half(machine: Any, event: Any) -> bool:
    """Whether half of a dropped arc stays out on this pass, and no lane may bring the arc back (DROP-13)."""
    edits = (edit for arrival in event.arrivals for edit in arrival.edits)
    half = any(isinstance(edit, SetBody) and edit.kind == "absent" for edit in edits)
    fixed = (POLICIES[machine.policy] or {}).get("compaction") is False
    return half or fixed or getattr(event, "side", None) is not None


def _bytes(machine: Machine, now: checks.Served, state: Any, revealed: set[int]) -> None:
    event = now.event
    head = machine.head
    if head is None:
        return
    if isinstance(event, ev.PassDeferred):
        single = len(machine.edits) == 1 and machine.edits[0].split()[0] in ("revise", "remove", "insert")
        strict = event.side is None and (single or not machine.edits) and not machine.interloped
        base = machine.served.get(event.base)
        beside = base is not None and base is not head and getattr(base.event, "side", None) is not None
        if not beside or len(machine.edits) < 2:  # what comes back there as it stood in the head has its own numbers
            checks.unchanged(head, now, strict, machine.rewritten)
            checks.grown(machine.codec, head, now)
        if base is not None and base is not head:
            checks.unchanged(base, now, False, machine.rewritten)
        return
    hard = isinstance(event, ev.BaselineFolded)
    owners = set(revealed)
    items = dict(zip(now.ms, now.items, strict=True))
    for number, _ in event.landed:
        tag = state.tags[number - 1]
        if tag.kind == "tool" and tag.m in items:  # it may never have shown, as while nothing could leave
            machine.call_tags.setdefault(items[tag.m]["parts"][tag.p]["id"], set()).add(number)
        owners.add(tag.m)
        owners.add(state.call_of.get(tag.m * PARTS_LIMIT + tag.p, 0) // PARTS_LIMIT)
        machine.counts["landed"] += 1
    owners |= {m for m, _, _ in event.spares}  # reasoning that left, pictures that were refused
    owners |= words.places(head) | words.places(now)  # a to-do list said again, or no more
    soft = isinstance(event, ev.HistoryRefreshed)
    checks.rebuilt(head, now, owners, event.decision.reach, machine.rewritten, hard=hard, soft=soft)
    signals = event.decision.signals
    if isinstance(event, ev.ConversationRebuilt) and set(signals) <= OWN:
        base = machine.served.get(event.base, head)
        mended = any(did.lane == "mended" and did.landed for did in event.decision.lanes)
        if not revealed and not mended:  # numbers that now show cost bytes, and so does an arc that has to come back
            checks.smaller(base, now, strict=event.divergence is None)
        machine.counts["own"] += 1


def _causes(machine: Machine, now: checks.Served, state: Any, told: Told) -> None:
    """LAW-4, PROP-4: a rebuild has a cause the model knows of; only what was asked for lands, protected parts last."""
    event = now.event
    decision = event.decision
    if decision is not None and decision.source == "provider":
        side = getattr(event, "side", None) is not None  # beside the head another model is not the session's yet
        limits = _windows(machine, {*WINDOWS, *machine.limits, 3_000, 900, 128_000} - {0}, side)
        expected = {total * 10_000 // limit for total in machine.totals for limit in limits}
        assert decision.percent in expected, f"PROP-5: usage of {decision.percent} was never reported"
    if isinstance(event, ev.PassDeferred):
        return
    mended = {n for did in decision.lanes if did.lane == "mended" for a, b in did.tags for n in range(a, b + 1)}
    landed = {number for number, _ in event.landed} - mended
    _by_themselves(machine, now, state, landed - machine.asked)
    _brought_back(machine, now, state, mended - machine.asked)
    if isinstance(event, ev.BaselineFolded):
        _fold_causes(machine, now, told)
    else:
        waited = machine.seen - machine.rebuilt_now > min(TTLS[machine.policy], 300_000)
        pressed = decision.percent >= THRESHOLDS[machine.policy] or (decision.schedule == "idle" and waited)
        head = machine.head
        diverged = head is not None and (
            checks.diverges(head, now, machine.rewritten) < len(head.items)
            or head.regions != now.regions
            or not _goes_on(machine.beyond, now.items[len(head.items) :])
        )
        lasting = machine.flushed or machine.lost or machine.reopened or machine.recovering
        assert pressed or lasting or diverged, f"LAW-4: pass {event.number} rebuilt for no cause ({decision})"
        soft = isinstance(event, ev.HistoryRefreshed)
        assert not soft or told.waited, f"LAW-4: pass {event.number} renders m[1] again, and nothing new was published"
        recovered = event.spares and (
            diverged or {"thinking_recovery", "picture_recovery", "flush"} & set(decision.signals)
        )
        assert landed or soft or recovered or mended, f"PROP-4: pass {event.number} rebuilt and landed nothing"
    if (
        "flush" in decision.signals
        or decision.percent >= 9_000
        or (POLICIES[machine.policy] or {}).get("compaction") is False
    ):
        return
    tools = [number for number, tag in enumerate(state.tags, 1) if tag.kind == "tool"]
    newest = [number for number in tools if number <= machine.numbered][-3:]
    assert not landed & set(newest), f"a protected result was dropped: {landed & set(newest)}"


def _windows(machine: Machine, contexts: set[int], side: bool) -> set[int]:
    """WINDOW-1: what of a context is usable, whichever of its outputs is kept free."""
    if "gemini" in signing.family(machine) and not side:
        return contexts
    kept = {min(output, context // 4) for context in contexts for output in OUTPUTS if output < context}
    return contexts | {max(context - less, context // 2, 1_024) for context in contexts for less in kept}


def _goes_on(before: list[host.Message], items: list[host.Message]) -> bool:
    """Whether messages stand where a request showed them that was missed, and known only as a refused pass told it."""
    return len(before) <= len(items) and all(map(host.same, before, items))


def _batches(machine: Machine, now: checks.Served) -> None:
    """EMERG-2: in one stay in the force band a second batch of its own is of another figure, or something else pays."""
    decision = now.event.decision
    stay = machine.id, signing.family(machine)
    if machine.batch is not None and machine.batch[1] != stay:
        machine.batch = None
    mine = any(did.landed and did.lane == "emergency" for did in decision.lanes)
    if not mine:
        return
    alone = isinstance(now.event, ev.ConversationRebuilt) and set(decision.signals) <= OWN
    alone = alone and not any(did.landed and did.lane in ("queued", "mended") for did in decision.lanes)
    if machine.batch is not None:
        assert decision.tokens != machine.batch[0], f"EMERG-2: pass {now.number} drops a second time on one sample"
        assert not alone or decision.percent >= 9_000, f"EMERG-2: pass {now.number} drops again in one stay"
    machine.batch = decision.tokens, stay
    machine.counts["emergency batches"] += 1


def _by_themselves(machine: Machine, now: checks.Served, state: Any, numbers: set[int]) -> None:
    """What leaves unasked: tools' output that the last rebuild showed, any of it where the window is nearly full, an
    output that a newer one repeats to the letter, a picture behind which something has left.
    """
    event = now.event
    last = max((n for n, tag in enumerate(state.tags, 1) if tag.status == "dropped"), default=0)
    for number in numbers:
        tag = state.tags[number - 1]
        assert tag.kind != "text", f"§{number}§ is a text and landed, and nobody asked for it"
        if tag.kind == "file":
            assert number < last or "picture_recovery" in event.decision.signals, (
                f"§{number}§ is a picture with nothing dropped behind it, and nobody asked for it"
            )
            continue
        due = number <= machine.swept or event.decision.percent >= 8_500
        assert due or _repeated_later(now, tag.m), f"§{number}§ landed, and nobody asked for it"
    machine.asked |= numbers
    machine.counts["unasked"] += len(numbers)


def _brought_back(machine: Machine, now: checks.Served, state: Any, numbers: set[int]) -> None:
    """DROP-13: in place of a result that was sent anew under a dropped call the placeholder of that arc comes back."""
    items = dict(zip(now.ms, now.items, strict=True))
    for number in numbers:
        tag = state.tags[number - 1]
        if tag.m not in items:
            continue  # of a path the head left
        known = machine.call_tags.get(items[tag.m]["parts"][tag.p]["id"], set())
        assert known & machine.asked or not machine.reduce, f"§{number}§ came back, and nobody asked for its drop"
    machine.asked |= numbers


def _repeated_later(now: checks.Served, m: int) -> bool:
    """Whether an output of message ``m`` stands again in a later one, by the same call."""
    parts = [part for item in now.items for part in item["parts"]]
    calls = {part["id"]: (part["name"], str(part["args"])) for part in parts if part["t"] == "call"}
    told = [
        (at, (calls.get(part["id"]), {**part, "id": ""}))
        for at, item in zip(now.ms, now.items, strict=True)
        for part in item["parts"]
        if part["t"] == "result"
    ]
    mine = [what for at, what in told if at == m]
    place = now.ms.index(m) if m in now.ms else -1
    return any(what in mine for at, what in told if now.ms.index(at) > place)


def _fold_causes(machine: Machine, now: checks.Served, told: Told) -> None:
    last = next((s for s in reversed(machine.served.values()) if isinstance(s.event, ev.BaselineFolded)), None)
    waited = machine.seen - machine.rebuilt_now
    machine.counts["folds"] += last is not None
    for reason in now.event.reasons:
        machine.counts[reason] += 1
        if reason == "first_render":
            assert last is None or machine.unmanaged, "LAW-4: the first render came twice"
        elif reason == "ttl_idle":
            assert waited > min(TTLS[machine.policy], 300_000), (
                f"LAW-4: folded for idleness {waited} ms after a rebuild"
            )
        elif reason == "cache_loss":
            assert machine.lost, "LAW-4: folded for a cache loss nobody reported"
        elif reason in ("system_hash", "tools_change"):
            assert last is not None
            assert last.regions != now.regions, f"LAW-4: folded for {reason}, and nothing changed"
        elif reason == "model_change":
            others = machine.models.get(now.event.base, machine.model) != machine.model  # it goes on behind another's
            assert others or machine.folded_model not in ("", machine.model), (
                "LAW-4: folded for another model, and it is the same"
            )
        elif reason == "cut_void":
            assert told.left, "LAW-4: folded because the head left what is covered, and it did not"
        elif reason == "pressure_refold":
            assert told.waited, "LAW-4: folded for what m[1] holds, and nothing new was published"
        else:
            raise AssertionError(f"LAW-4: an unknown reason {reason}")


def _content(machine: Machine, now: checks.Served) -> set[str]:
    """LAW-5, PROP-3, PROP-9: bytes explained by the host's message; arcs whole; a number has one owner for ever."""
    gone: set[str] = set()
    seen: set[int] = set()
    machine.shy = machine.shy or machine.policy_now().get("compaction") is False
    known = machine.explained
    left = checks.Left(
        machine.reduce, machine.shy, machine.asked, machine.thoughtless, machine.stripped, machine.hollow
    )
    for m, item, wire in zip(now.ms, now.items, now.wire, strict=True):
        if wire is None:
            continue
        key = (id(item), wire)
        if key not in known:
            mine = replace(left, shy=left.shy or m in machine.raw)
            own, _ = words.apart(wire)
            spoken = partial(words.said, machine)
            known[key] = (item, *checks.explain(machine.codec, mine, item, own, spoken))
            if checks.hollow(machine.codec, item, own):
                machine.hollow.add(item["uid"])
        _, tags, lost = known[key]
        assert not tags or m not in machine.raw or not host.same(item, machine.went_out.get(m, item)), (
            f"LAST-6: §{tags[0][0]}§ shows in what went out raw"
        )
        numbered = (p for p, part in enumerate(item["parts"]) if part["t"] in NUMBERED and not host.blank(part))
        if m in machine.raw and tags and tags[0][1] == next(numbered, -1):
            machine.raw.discard(m)  # its host revised all of it; its way back is a revision as well
        for number, p in tags:
            assert number not in seen, f"PROP-9: §{number}§ stands twice in pass {now.number}"
            seen.add(number)
            part = item["parts"][p]
            owner = machine.owners.setdefault(number, (item["uid"], p, part, m))
            mine = owner[:2] == (item["uid"], p) or owner[2] == part or owner[3] == m
            assert mine, f"PROP-9: §{number}§ was {owner}, now {(item['uid'], p, part, m)}"
            machine.owners[number] = (item["uid"], p, part, m)
            if part["t"] == "result":
                machine.call_tags.setdefault(part["id"], set()).add(number)
        gone |= lost
    for item, wire in zip(now.items, now.wire, strict=True):
        if wire is None:
            continue
        present = {part["id"] for part in item["parts"] if "id" in part} - (known[id(item), wire][2])
        assert not present & gone, f"PROP-3: half of a tool arc is gone in pass {now.number}: {present & gone}"
    for call in gone:
        numbers = machine.call_tags.get(call, set())  # one for each path of the tree that answers it
        hidden = not machine.reduce or not numbers  # its number never showed: a summary covered it at once
        assert numbers & machine.asked or hidden, f"PROP-3: the arc {call} is gone, and nobody asked for it"
    return gone
