"""One answer for any error of a provider: which kind it is, what it says of the window, and what helps.

Nothing is guessed: a number counts only where the words or the field at it say what it is, and an error of no known
kind is ``unknown``. Any bytes give an answer; none raise.
"""

from __future__ import annotations

import msgspec

from . import kinds, numbers, parts
from .kinds import OVERFLOWS, Kind
from .numbers import Bounds, Figures

FITS = 75
"""Per cent of the limit: an input up to here fits by itself, so what is too much is the answer allowed for."""


class Explained(msgspec.Struct, frozen=True):
    """What a refusal means. Tokens; 0 = not said.

    ``overflow``: input, or input and asked-for output, were more than the window takes. ``limit``: the window as told;
    ``used``: what was counted against it. ``output_driven``: the input alone fits well, the output allowance is the
    cause. ``provenance``: the words or fields the figures stood in. ``what_to_do``: for people. ``bounds``: what the
    limit counts (``prompt``, ``combined``, ``unknown``, empty: no limit). ``input``, ``output``: the parts of ``used``,
    -1 = not said. ``status``: HTTP's, 0 = unknown.
    """

    overflow: bool
    limit: int
    used: int
    kind: Kind
    output_driven: bool
    provenance: str
    what_to_do: str
    bounds: Bounds = ""
    input: int = -1
    output: int = -1
    status: int = 0


def explain(status: int | None, body: bytes | str, code: str | None = None) -> Explained:
    """Explain a provider's error: HTTP status (None or 0: not known), body, and a code told beside it."""
    said = parts.take(body, status if status is not None and 100 <= status <= 599 else 0)
    if code:
        said = msgspec.structs.replace(said, codes=(parts.bare(str(code)[:80]), *said.codes))
    words = next(((kind, text) for text in said.texts if (kind := kinds.by_words(text)) != "unknown"), None)
    coded = kinds.by_codes(said)
    kind, text = words if words is not None else (coded, " ".join(said.texts[:2]))
    if words is not None and kind in ("config", "shape", "server", "model", "auth") and coded == "overflow":
        kind = coded  # the code names the one thing; these words go with any
    if kind == "rate":
        kind = "server" if said.status >= 500 and kinds.only_waits(text) else _tier(said.texts)
    if said.status == 402:
        kind = "quota"  # payment required: a limit told with it is the account's, whatever it counts
    figures = numbers.read(text, said.figures) if kind in OVERFLOWS else Figures()
    driven = kind == "overflow" and _driven(figures)
    if driven:
        kind = "output_driven"
    return Explained(
        overflow=kind in OVERFLOWS,
        limit=figures.limit,
        used=figures.used,
        kind=kind,
        output_driven=driven,
        provenance=figures.provenance,
        what_to_do=_advice(kind, figures),
        bounds=figures.bounds,
        input=figures.input,
        output=figures.output,
        status=said.status,
    )


def _driven(figures: Figures) -> bool:
    """Whether the input alone fits well, and only the asked-for output makes it too much.

    Where the input is not said: whether the output takes so much that no conversation has room beside it.
    """
    if figures.limit <= 0 or figures.output <= 0:
        return False
    if figures.input < 0:
        return figures.output * 100 >= FITS * figures.limit
    return figures.input * 100 <= FITS * figures.limit


def _tier(texts: tuple[str, ...]) -> Kind:
    """Tell a request that waiting lets through from one that is larger than its tier lets through ever (OV-16)."""
    for text in texts:
        limit, asked = numbers.count(text, kinds.LIMIT_WORD), numbers.count(text, kinds.REQUESTED_WORD)
        if 0 < limit < asked:
            return "rate_tier"
    return "rate"


def _advice(kind: Kind, figures: Figures) -> str:
    if kind == "overflow":
        room = f" The window holds {figures.limit:,} tokens" if figures.limit else ""
        over = f", the request had {figures.used:,}." if room and figures.used else "." if room else ""
        return f"The input is longer than the model's window: make the request smaller, then send it again.{room}{over}"
    if kind == "output_driven":
        most = f" to at most {max(figures.limit - figures.input, 0):,} tokens" if figures.input >= 0 else ""
        return (
            f"The input fits; the answer that was allowed for does not. Lower the output allowance{most}. "
            "Dropping history would not be the cure."
        )
    return _ADVICE[kind]


_ADVICE: dict[Kind, str] = {
    "suspected": "It may be the model's window or the size of the body: make the request smaller once, images first.",
    "rate": "Too much at once, not too long: wait and send the same request again. Nothing is to be dropped.",
    "rate_tier": "One request is larger than this account may send in a minute, so waiting never helps: raise the "
    "tier, or make the request smaller. It says nothing of the model's window.",
    "quota": "The account may not do this: check its plan, credit or quota. The request itself may be fine.",
    "output_cap": "The answer allowed for is longer than this model writes: lower the output allowance. The "
    "input is fine.",
    "bytes": "The body is too large in bytes, not in tokens: shed images and other large blobs, oldest first.",
    "string_length": "One text has too many characters: shorten or split that one. The window is not the matter.",
    "images": "Images are too many or too large: shed old ones or scale them down. The window is not the matter.",
    "pairing": "Tool calls and results do not pair: each call needs its one result right behind it. Fix the shape.",
    "cache_marks": "The cache marks are not as the provider takes them: at most four, none on an empty block.",
    "thinking": "Reasoning was changed, cut or left out: send it whole as it came, or leave the whole block out.",
    "empty_block": "A text is empty or blank where the provider wants words: leave the block out.",
    "shape": "Messages or roles stand in an order the provider does not take: fix the shape, drop nothing.",
    "config": "A setting of the request is wrong: correct it. Sending less would change nothing.",
    "auth": "The provider does not accept the key or the right to this model: check the account.",
    "model": "The provider does not know this model or address: check the name.",
    "filtered": "The provider's filter refused the content: sending less would not be the cure.",
    "server": "The provider could not serve this now: send the same request again later.",
    "unknown": "No known kind of refusal: nothing is learnt from it and nothing is dropped because of it.",
}
