"""Reads what a summariser wrote, leniently (``history.md`` 5.6). Nothing here raises; ``validate`` decides.

The output is markup in name only: wrappers may be missing, elements unclosed, attributes in any order. A tag that
stands inside an open and closed tier is that tier's text, never structure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from .words import unescape

CATEGORIES = ("PROJECT_RULES", "ARCHITECTURE", "CONSTRAINTS", "CONFIG_VALUES", "NAMING")
DEFAULT_IMPORTANCE = 50

_TAG = re.compile(
    r"""<compartment(?=[\s/>])(?P<attributes>(?:[^<>"']++|"[^"\n]{0,2000}"|'[^'\n]{0,2000}'){0,60}+)>"""
    r"""|(?P<end></compartment\s{0,9}>)"""
    r"""|<(?P<close>/?)p(?P<digit>[0-9])\s{0,9}(?P<void>/?)>"""
)
_ATTRIBUTE = re.compile(r"""([A-Za-z_]{1,40})\s{0,9}=\s{0,9}(?:"([^"]*)"|'([^']*)'|([^\s"'/>]+))""")
_NUMBER = re.compile(r"\s*([0-9]{1,9})\s*")
_SIGNED = re.compile(r"\s*([+-]?[0-9]{1,9})(?:\.[0-9]*)?\s*")
_EVENT = re.compile(r"<([a-z][a-z0-9_]{0,60})(\s[^<>]{0,400})>")
_PRIMER = re.compile(r"<primer(\s[^<>]{0,400})?>")
_FIELD = re.compile(r"<([a-z][a-z0-9_]{0,60})>")
_META = re.compile(r"<unprocessed_from>\s*([0-9]{1,9})\s*</unprocessed_from>")
_SECTIONS = ("facts", "events", "user_observations", "primer_candidates", "meta")


class DraftCompartment(msgspec.Struct, frozen=True):
    """One compartment as written. ``index``: its 1-based place in the output. Without p1, ``content`` is its flat text.

    ``importance`` is as written, 50 where none was; ``validate`` holds it to 1..100.
    """

    index: int
    start: int
    end: int
    title: str
    episode: str
    importance: int
    p1: str
    p2: str
    p3: str
    p4: str
    content: str


class Fact(msgspec.Struct, frozen=True):
    """A stable property of the project, in one of the five categories."""

    category: str
    text: str


class DraftEvent(msgspec.Struct, frozen=True):
    """Something that happened, at compartment ``at`` (1-based in this output), with its child elements as fields."""

    kind: str
    at: int
    fields: tuple[tuple[str, str], ...]


class Primer(msgspec.Struct, frozen=True):
    """A question worth answering before work of this kind. ``at`` 0: not said."""

    at: int
    question: str


class Draft(msgspec.Struct, frozen=True):
    """All that was read, compartments sorted by start. ``unprocessed``: first position left over, if it was said."""

    compartments: tuple[DraftCompartment, ...] = ()
    facts: tuple[Fact, ...] = ()
    events: tuple[DraftEvent, ...] = ()
    observations: tuple[str, ...] = ()
    primers: tuple[Primer, ...] = ()
    unprocessed: int | None = None


class _Open(msgspec.Struct):
    """A compartment being read: its place in the output, attributes, where its body began, tiers, the open tier."""

    index: int
    attributes: dict[str, str]
    body: int
    tiers: dict[str, str]
    tier: str
    tier_from: int


def parse(text: str) -> Draft:
    """Return what can be read in ``text``; of nonsense, an empty draft."""
    compartments, rest = _compartments(text)
    sections = {name: _section(rest, name) for name in _SECTIONS}
    facts = sections["facts"]
    unprocessed = _META.search(rest)
    return Draft(
        compartments=tuple(sorted(compartments, key=lambda one: (one.start, one.index))),
        facts=tuple(_facts(facts if facts is not None else _without(rest, "events"))),
        events=tuple(_events(sections["events"] or "")),
        observations=tuple(_bullets(sections["user_observations"] or "")),
        primers=tuple(_primers(sections["primer_candidates"] or "")),
        unprocessed=int(unprocessed[1]) if unprocessed else None,
    )


# ------------------------------------------------------------------ compartments


def _compartments(text: str) -> tuple[list[DraftCompartment], str]:
    """Return the compartments, and the text that is in none."""
    tags = list(_TAG.finditer(text))
    quoted = _quoted(tags)
    found: list[DraftCompartment] = []
    rest: list[str] = []
    current: _Open | None = None
    at = index = 0
    for place, tag in enumerate(tags):
        if place in quoted:
            continue
        if tag["attributes"] is not None:
            if current is not None:
                _finish(current, text, tag.start(), found)
                at = tag.start()
            rest.append(text[at : tag.start()])
            index += 1
            current = _Open(index, _attributes(tag["attributes"]), tag.end(), {}, "", 0)
            at = tag.end()
            if tag["attributes"].rstrip().endswith("/"):
                _finish(current, text, at, found)
                current = None
        elif current is not None:
            if tag["end"]:
                _finish(current, text, tag.start(), found)
                current, at = None, tag.end()
            else:
                _tier(current, text, tag)
    if current is not None:
        # an unclosed last compartment ends where the next section begins
        stops = [text.find(f"<{name}>", tags[-1].end()) for name in _SECTIONS]
        stops.append(text.find("</compartments>", tags[-1].end()))
        at = min((stop for stop in stops if stop >= 0), default=len(text))
        _finish(current, text, at, found)
    rest.append(text[at:])
    return found, "\n".join(rest)


def _quoted(tags: list[re.Match[str]]) -> set[int]:
    """Return the compartment tags that a tier quotes: the tier tag before opens, the tier tag behind closes."""
    quoted: set[int] = set()
    inside, waiting = False, list[int]()
    for place, tag in enumerate(tags):
        if tag["digit"] is None:
            if inside:
                waiting.append(place)
            continue
        closes = bool(tag["close"])
        if closes:
            quoted.update(waiting)
        waiting.clear()
        inside = not closes and not tag["void"]
    return quoted


def _tier(current: _Open, text: str, tag: re.Match[str]) -> None:
    _close_tier(current, text, tag.start())
    if tag["close"]:
        return
    name = "p" + tag["digit"]
    if tag["void"]:
        current.tiers.setdefault(name, "")
    else:
        current.tier, current.tier_from = name, tag.end()


def _close_tier(current: _Open, text: str, end: int) -> None:
    if current.tier:
        current.tiers.setdefault(current.tier, unescape(text[current.tier_from : max(end, current.tier_from)]).strip())
        current.tier = ""


def _finish(current: _Open, text: str, end: int, found: list[DraftCompartment]) -> None:
    """Add the compartment to ``found``, unless start, end or title is missing."""
    _close_tier(current, text, end)
    start, last = (_NUMBER.fullmatch(current.attributes.get(key, "")) for key in ("start", "end"))
    title = current.attributes.get("title", "").strip()
    if not start or not last or not title:
        return
    importance = _SIGNED.fullmatch(current.attributes.get("importance", ""))
    p1 = current.tiers.get("p1", "")
    p2 = current.tiers.get("p2") or p1
    found.append(
        DraftCompartment(
            index=current.index,
            start=int(start[1]),
            end=int(last[1]),
            title=title,
            episode=current.attributes.get("episode_type", "").strip(),
            importance=int(importance[1]) if importance else DEFAULT_IMPORTANCE,
            p1=p1,
            p2=p2,
            p3=current.tiers.get("p3") or p2,
            p4=current.tiers.get("p4", ""),
            content=p1 or unescape(text[current.body : end]).strip(),
        )
    )


def _attributes(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, double, single, bare in _ATTRIBUTE.findall(text):
        found.setdefault(name.lower(), unescape(double or single or bare))
    return found


# ---------------------------------------------------------------------- sections


def _section(text: str, name: str) -> str | None:
    """Return what stands inside ``<name>``; unclosed, up to the next section. None where it is not there."""
    start = text.find(f"<{name}>")
    if start < 0:
        return None
    start += len(name) + 2
    end = text.find(f"</{name}>", start)
    if end < 0:
        others = (text.find(f"<{other}>", start) for other in _SECTIONS if other != name)
        end = min((place for place in others if place >= 0), default=len(text))
    return text[start:end]


def _without(text: str, name: str) -> str:
    inside = _section(text, name)
    return text if not inside else text.replace(inside, "", 1)


def _bullets(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.lstrip().startswith("*") and (item := unescape(line.lstrip()[1:]).strip()):
            yield item


def _facts(text: str) -> Iterator[Fact]:
    for category in CATEGORIES:
        for inside in _elements(text, category):
            yield from (Fact(category, item) for item in _bullets(inside))


def _elements(text: str, name: str) -> Iterator[str]:
    at = 0
    while (start := text.find(f"<{name}>", at)) >= 0 and (end := text.find(f"</{name}>", start)) >= 0:
        yield text[start + len(name) + 2 : end]
        at = end


def _events(text: str) -> Iterator[DraftEvent]:
    at = 0
    while tag := _EVENT.search(text, at):
        at = tag.end()
        place = _NUMBER.fullmatch(_attributes(tag[2]).get("at_compartment", ""))
        end = text.find(f"</{tag[1]}>", at) if place else -1
        if place and end >= 0:
            yield DraftEvent(tag[1], int(place[1]), tuple(_fields(text[at:end])))
            at = end


def _fields(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while tag := _FIELD.search(text, at):
        end = text.find(f"</{tag[1]}>", tag.end())
        if end >= 0:
            yield tag[1], unescape(text[tag.end() : end]).strip()
        at = max(end, tag.end())


def _primers(text: str) -> Iterator[Primer]:
    elements = list(_PRIMER.finditer(text))
    for tag in elements:
        question = text[tag.end() : max(text.find("</primer>", tag.end()), tag.end())]
        place = _NUMBER.fullmatch(_attributes(tag[1] or "").get("at_compartment", ""))
        if question.strip():
            yield Primer(int(place[1]) if place else 0, unescape(question).strip())
    if not elements:
        yield from (Primer(0, item) for item in _bullets(text))
