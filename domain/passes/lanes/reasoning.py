"""Lanes: what becomes of the model's reasoning when the request is rebuilt (``transform.md`` 4.4 to 4.6, as ruled).

A model's reasoning may be signed, and of some models the signature covers every byte before it (*bound*). There a
rebuild removes, in the same pass, all reasoning behind the first byte it changes: what stands before stays valid.
"""

from __future__ import annotations

from ... import items as answers
from ...edits import SetThink
from ...hygiene import calibrated
from ...identity import Scene
from ...policy import Settings
from ...state import State, key
from ...transcript import Text, Thinking, speaks, thinks_alone
from .shape import Ask, Item, Work

ITEMS = answers.CODEC
COMPANIONS = "companions"
"""The lane whose work is done because a rebuild is, and never the reason of one."""
OPAQUE = 1_000
"""Tokens taken for reasoning nobody can read."""
HEAVY = 4_000
"""Tokens of signed reasoning in the running turn from which a rebuild that would remove it is put off."""
HOLDS = 3
"""How many passes in a row a rebuild is put off for it."""
CEILING = 1_000
"""How far above the threshold, in 1/100 of a per cent, nothing is put off any more."""
SURVIVES = ("deepseek", "glm", "kimi", "mimo", "minimax", "qwen")
"""Names of models that want their reasoning back, on wires without signatures (``transform.md`` 4.4)."""


def budget(ask: Ask) -> Work:
    """Take out the oldest reasoning of finished turns, beyond what the newest steps may hold."""
    scene, state, settings = ask.scene, ask.scene.state, ask.settings
    if not ask.routine or settings.bound or state.unbound or not _may_go(state.codec, ask.model):
        return Work("reasoning")
    found = ((scene.at(index), index) for index in sorted(outdated(ask)))
    return Work("reasoning", tuple(_removal(m, index, _here(scene, m)) for m, index in found if _thought(scene, m)))


def outdated(ask: Ask) -> frozenset[int]:
    """Return the path indexes of the steps that are too old for their reasoning to be kept, as far as they may change.

    The first step, from the newest back, that the budget has no room for, and all older ones: not the running turn, the
    newest answer, nor the newest with signed reasoning.
    """
    scene, start = ask.scene, ask.scene.start()
    turn = running_turn(scene)
    exempt = {*range(turn, scene.length()), *(index for newest in _newest(scene) for index in _step(scene, newest))}
    left = ask.settings.reasoning - sum(_cost(scene, scene.at(index)) for index in exempt)
    index = turn - 1
    while index >= start:
        step = _step(scene, index)
        if index not in exempt:
            cost = sum(_cost(scene, scene.at(place)) for place in step if place >= start)
            left -= cost
            if cost and left < 0:
                return frozenset(range(ask.begin, step.stop)) - exempt
        index = step.start - 1
    return frozenset()


def unsigned(ask: Ask) -> Work:
    """Take out reasoning whose signature is missing where this model wants one: another model left it (THINK-5)."""
    scene, state = ask.scene, ask.scene.state
    if not wants_signatures(state.codec, ask.model):
        return Work("unsigned")
    found = ((index, _unsigned(scene, scene.at(index))) for index in range(ask.begin, scene.length()))
    places = [(index, here) for index, here in found if here]
    if not places:
        return Work("unsigned")
    before = {item.index for item in budget(ask).items}
    items = (_removal(scene.at(index), index, here) for index, here in places if index not in before)
    return Work("unsigned", tuple(items))


def wants_signatures(codec: str, model: str) -> bool:
    """Whether the provider refuses reasoning without a signature. Others that speak Claude's wire never sign theirs."""
    return codec == "anthropic" and "claude" in model.lower()


def companions(ask: Ask) -> Work:
    """Take out the signed reasoning this rebuild would make invalid: all behind the first byte it changes.

    Not on OpenAI's items: there reasoning leaves with its call or stays (ITEM-5).
    """
    scene, state = ask.scene, ask.scene.state
    whole = ask.headed or bool(state.unbound)
    first = ask.begin if whole else _first(ask)
    if state.codec == ITEMS or not (ask.settings.bound or state.unbound) or first is None:
        return Work(COMPANIONS)
    found = ((scene.at(index), index) for index in range(max(first, ask.begin), scene.length()))
    # where its host's change of a message is the first byte, what leads that message stands before it
    led = -1 if whole or scene.at(first) not in scene.seen.revised else first
    gone = ((m, index) for m, index in found if index != led and _signed(scene, m))
    return Work(COMPANIONS, tuple(_removal(m, index, _here(scene, m)) for m, index in gone))


def recoverable(state: State) -> bool:
    """Whether the newest request holds reasoning that leaves where its provider takes it for another's (THINK-4)."""
    if state.codec == ITEMS:
        return False
    parts = ((m, p, part) for m in state.path[state.start() :] for p, part in enumerate(state.node(m).message.parts))
    return any(
        isinstance(part, Thinking) and part.signed and not part.paired and key(m, p) not in state.spares
        for m, p, part in parts
    )


def _first(ask: Ask) -> int | None:
    """Return the first path index the rebuild changes: numbers that were held back show with it (LAST-3)."""
    if ask.first is None:
        return None
    shown = (ask.scene.index(m) for m in ask.scene.state.concealed)
    return min([ask.first, *(index for index in shown if index >= ask.begin)])


def holds(scene: Scene, settings: Settings, percent: int, threshold: int) -> bool:
    """Whether a rebuild is put off on this pass, to keep what the running turn has just thought."""
    if not settings.bound or scene.state.withheld >= HOLDS or percent >= threshold + CEILING:
        return False
    turn = (scene.at(index) for index in range(running_turn(scene), scene.length()))
    return sum(_thought(scene, m) for m in turn if _signed(scene, m)) >= HEAVY


def running_turn(scene: Scene) -> int:
    """Return the path index behind the newest message of a person: results, and what hosts add to them, go on.

    Of a turn whose beginning a summary covers, what is sent.
    """
    begin = scene.start()
    for index in range(scene.length() - 1, begin - 1, -1):
        if speaks(scene.message(scene.at(index))):
            return index + 1
    return begin


def _may_go(codec: str, model: str) -> bool:
    """Whether reasoning can be left out on this wire: not where items pair with it, nor where ``model`` wants it back.

    ``model``: the one this request goes to (T52).
    """
    if codec == ITEMS:
        return False
    name = model.lower()
    return "claude" in name or codec == "anthropic" or not any(word in name for word in SURVIVES)


def _step(scene: Scene, index: int) -> range:
    """Return the path indexes of the answer a message is of: where items are messages, it has several."""
    begin, stop = index, index + 1
    while begin and _one(scene, begin):
        begin -= 1
    while _one(scene, stop):
        stop += 1
    return range(begin, stop)


def _one(scene: Scene, index: int) -> bool:
    """Whether what stands at a path index is of one answer with what stands before it."""
    if scene.state.codec != ITEMS or index >= scene.length():
        return False
    return answers.tied(ITEMS, scene.message(scene.at(index - 1)), scene.message(scene.at(index)))


def _newest(scene: Scene) -> list[int]:
    """Return the path indexes of the newest answer, and of the newest with signed reasoning: these stay (4.4)."""
    found: list[int] = []
    for index in range(scene.length() - 1, scene.start() - 1, -1):
        m = scene.at(index)
        if scene.message(m).role == "assistant":
            if not found:
                found.append(index)
            if _signed(scene, m):
                return [*found, index]
    return found


def _here(scene: Scene, m: int) -> list[tuple[int, Thinking]]:
    """Return the reasoning of a message that is still sent and that a lane may take out: no item of a call's.

    Of a message its host changes with this pass what leads it, unchanged.
    """
    spares, parts = scene.state.spares, scene.message(m).parts
    if thinks_alone(scene.state.codec, scene.message(m)):
        return []
    if m in scene.seen.revised:
        parts = parts[: scene.seen.revised[m][0]]
    left = ((p, part) for p, part in enumerate(parts) if key(m, p) not in spares)
    return [(p, part) for p, part in left if isinstance(part, Thinking) and not part.paired]


def _unsigned(scene: Scene, m: int) -> list[tuple[int, Thinking]]:
    """Return the reasoning of this message that earlier requests showed, nothing where any of it is signed."""
    if m > len(scene.state.nodes):
        return []
    unshown = scene.state.waits(m)
    here = [(p, part) for p, part in _here(scene, m) if unshown is None or p < unshown]
    return [] if any(part.signed for _, part in here) else here


def _signed(scene: Scene, m: int) -> bool:
    return any(part.signed for _, part in _here(scene, m))


def _cost(scene: Scene, m: int) -> int:
    """Return what the reasoning of a message counts, that written into its texts too."""
    if scene.message(m).role != "assistant":
        return 0
    known, parts = scene.state.inline, enumerate(scene.message(m).parts)
    written = sum(known.get(key(m, p), part.inline) for p, part in parts if isinstance(part, Text) and part.inline)
    return _thought(scene, m) + calibrated(scene.state, written)


def _thought(scene: Scene, m: int) -> int:
    """Return what reasoning in parts of its own counts: what can be read, else a flat sum where anything is there."""
    here = _here(scene, m)
    hidden = any(part.signed or part.opaque for _, part in here)
    return calibrated(scene.state, sum(part.tokens for _, part in here)) or (OPAQUE if hidden else 0)


def _removal(m: int, index: int, here: list[tuple[int, Thinking]]) -> Item:
    edits = tuple(SetThink(m, p, "absent") for p, _ in here)
    frees = sum(part.tokens for _, part in here)
    return Item(0, "", edits, frees, index, frees, tuple((m, p, part.tokens) for p, part in here))
