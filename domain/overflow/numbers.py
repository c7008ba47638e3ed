"""What the numbers of an overflow's text count, told by the words that stand right at them.

No pattern of a whole sentence: each number is labelled by what is before and behind it, so that other figures, other
model names, another order and other separators are read the same. A number nothing speaks for is nobody's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from .parts import FRONT

Label: TypeAlias = Literal["limit", "used", "input", "part", "output", "other"]
Bounds: TypeAlias = Literal["", "prompt", "combined", "unknown"]

LARGEST = 10**10
NUMBERS = 64
"""So many numbers of a text are looked at."""
_BEFORE, _BEHIND = 110, 48

_LETTERS = r"0-9A-Za-z_\u00c0-\u02af\u0370-\u052f"
"""Letters a number may be a part of a name with; Chinese ones stand at any number without a blank."""

NUMBER = re.compile(
    rf"(?<![{_LETTERS}./#\-])(?:"
    r"(?P<group>\d{1,3}(?P<sep>[,.'_ ])\d{3}(?:(?P=sep)\d{3}){0,3}(?!\d|[.,]\d)|\d{1,2}(?:,\d{2}){1,4},\d{3}(?!\d))"
    r"|(?P<short>\d{1,5}(?:\.\d{1,3})?) ?(?P<unit>[kKmM])(?![\w-])"
    rf"|(?P<plain>\d{{1,12}})(?:(?=(?i:tokens?)\b)|(?![{_LETTERS}]|[.,]\d))"
    r")"
)

_UNIT_OTHER = re.compile(
    r"[ -]?(?:m?s\b|secs?\b|seconds?\b|minutes?\b|mins?\b|hours?\b|days?\b|px\b|pixels?\b|images?\b|pages?\b"
    r"|tools?\b(?! ?,)"
    r"|messages?\b(?! tokens)|blocks?\b|[kmg]i?b\b|bytes?\b|characters?\b|chars?\b|%|requests?\b)"
    r"|[ -]?tokens? ?(?:per|/) ?(?:min|hour|day|second|sec)",
    re.IGNORECASE,
)
_EXCESS = re.compile(r"\b(?:by(?: about| approximately| roughly| over)?|at least) ?$", re.IGNORECASE)
"""Before what a request was too much by, and before what it had at least: neither is its size."""
_CODED = re.compile(
    r"\b(?:code|status|error|errno|http|line|column|retry|attempt|step|index)[ :=#(]{0,3}$", re.IGNORECASE
)
_BETWEEN = re.compile(r"[ :=(]{0,3}(?:(?:of|is|was|about) )?")
_MEMBER = re.compile(r"[\"'] ?: ?[\"']?$")
_EITHER = re.compile(r"\bmax(?:imum)? tokens of $", re.IGNORECASE)
"""A name of the window in some mouths, of the answer's allowance in most."""
_BARE_PAREN = re.compile(r"\blimit ?\($", re.IGNORECASE)
_TOKENS = re.compile(r"[ -]?tokens?\b", re.IGNORECASE)

_OUT_NAME = (
    r"(?:max_?(?:new_|output_|completion_)?tokens|max_?output_?tokens|completion tokens?|output tokens?|new tokens?"
    r"|generated tokens?)"
)
_OUT_LEFT = re.compile(
    r"(?:\+ ?(?:[a-z]{1,12} (?:output|completion|response|answer|reply) ?)?"
    rf"|{_OUT_NAME}['\"]?(?: is| of| to| too| large| high| big| value|:|=| \()* ?\(?)$",
    re.IGNORECASE,
)
_OVER_ROOM = re.compile(r" ?> ?\d[\d.,'_]{0,14} - \d")
"""Behind an answer's allowance that is more than the window less the input."""
_OUT_RIGHT = re.compile(
    rf"[ -]?['\"]?(?:{_OUT_NAME}|(?:tokens? )?(?:is |are )?(?:reserved |requested )?(?:in|for|of|from) "
    r"(?:the |your |its )?(?:max )?(?:completion|output|response|answer|generation|reply))\b",
    re.IGNORECASE,
)
_PART_RIGHT = re.compile(
    r"[ -]?(?:tokens? )?(?:in|of|from|for) (?:the |your |its )?"
    r"(?:text input|messages?|input|prompt|functions?|tools?|tool definitions?|system|images?|history|conversation)\b",
    re.IGNORECASE,
)
_IN_LEFT = re.compile(r"\b(?:inputs?|prompt)[ _]tokens? ?\($", re.IGNORECASE)
_IN_RIGHT = re.compile(r"[ -]?(?:inputs?|prompt|text)[ -]tokens?\b| ?\+", re.IGNORECASE)
_CMP_RIGHT = re.compile(r"[ )]{0,2}(?:[a-z]{0,8} )?(?:tokens? )?(?:>|\u2265)", re.IGNORECASE)
_OVER_RIGHT = re.compile(
    r"[ )]{0,2}(?:tokens? )?(?:exceed(?:s|ing)?|surpass(?:es)?|over (?:the|our)"
    r"|(?:is|are) (?:long|larg|great|bigg)er than)\b"
    r"|[ )]{0,2}(?:\u4e2a? ?tokens? ?)?(?:\u8d85\u8fc7|\u8d85\u51fa|\u5927\u4e8e)",
    re.IGNORECASE,
)
_USED_RIGHT = re.compile(
    r"(?: tokens?)? (?:(?:were|was|are|is|have been) )?"
    r"(?:requested|supplied|provided|sent|given|received|submitted|passed)\b",
    re.IGNORECASE,
)
_VERSUS_RIGHT = re.compile(r"[ )]{0,2}(?:tokens? )?(?:vs\b|versus\b|out of )", re.IGNORECASE)
_VERSUS_LEFT = re.compile(r"\b(?:vs\.?|versus|out of) ?\(?$", re.IGNORECASE)
_CMP_LESS = re.compile(r"[ )]{0,2}(?:tokens? )?<", re.IGNORECASE)
_CMP_LEFT = re.compile(r"(?:>|\u2265)=? ?(?:[\w.]{1,30} ?[:=] ?)?$")
_LESS_LEFT = re.compile(r"(?:<|\u2264)=? ?$")
_EXCEEDS = re.compile(r"\bexceed(?:s|ing)? $", re.IGNORECASE)
_RANGE = re.compile(r"\[ ?\d{1,3} ?, ?$")

_LIMIT_LEFT = re.compile(
    r"(?:\b(?:model(?:'s)? context|limit|limits|limited|maximum|max|max_\w{1,20}|n_ctx"
    r"|allowed|permitted|supported|supports?|accepts?"
    r"|allows?|up to"
    r"|at most|no more than|truncate to|(?:less|fewer) than|(?:cannot|can't|must not|may not) exceed)\b"
    r"|\b(?:context|model|model's|sequence|token)(?:'s)?[ _-](?:window|length|size|limit|len|capacity|budget)\b"
    r"|\u6700\u5927|\u4e0a\u9650|\u9650\u5236|\u6700\u591a)"
    r"(?:[ _:=(,\"-]{1,3}(?:number|tokens?|length|window|size|prompt|input|context|model|limit|allowed|supported"
    r"|of|is|are"
    r"|was|be|for|the|this|that|only|just|at|to|up|set|currently|configured|about|with|max|maximum|most|in|total|its"
    r"|which|by|value|len|a|an|it)){0,9}"
    r"(?:(?: for| of| on)? (?:model )?[\w./:-]{2,60}(?: is| of|:))?"
    r"(?:[\u4e00-\u9fff]{0,8})[ :=(\"'\[]{0,3}$",
    re.IGNORECASE,
)
_LIMIT_RIGHT = re.compile(
    r"[ -]?(?:tokens?[ -])?(?:is (?:the|our) )?(?:maximum|max|limit|token limit|(?:input "
    r"|prompt )?context(?: window| length| size)?"
    r"|window|allowed|tokens? allowed|limit for)\b",
    re.IGNORECASE,
)
_TOLD = re.compile(
    r"\b(?:requested|request(?:ing)?|resulted in|contain(?:s|ed|ing)?|has|have|passed|provided|sent|submitted|given|got"
    r"|received|used|totall?(?:ing|s|ed)?|current(?: length| size)?|count)\b[^.;]{0,40}$",
    re.IGNORECASE,
)
_USED_LEFT = re.compile(
    r"(?:\b(?:resulted in|requested|request(?:ing)? for|contain(?:s|ed|ing)?|has|have|had|passed|provided|sent"
    r"|submitted"
    r"|given|got|received|uses?|used|is using|estimated|for model|totall?(?:ing|s|ed)?|counts?|length|size|long"
    r"|large|n_keep"
    r"|n_prompt_tokens|n_tokens|num_tokens"
    r"|input_tokens|input_ids|prompt_tokens|tokens|prompt|input|inputs|messages|request|conversation|history|context)\b"
    r"|\u5f53\u524d|\u5b9e\u9645|\u8f93\u5165)"
    r"(?:[ :=(]{1,2}(?:is|was|are|were|of|a|an|at|with|has|in|about|approximately|around|roughly|over|nearly"
    r"|total|tokens?"
    r"|length|count|currently)){0,5}"
    r"(?:[\u4e00-\u9fff]{0,8})[ :=(~\"']{0,3}$",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"\b(?:tokens?|prompt|inputs?|messages?|request|requested|context|length|conversation|history|n_keep|\w{1,8}_tokens)\b|\u8f93\u5165",
    re.IGNORECASE,
)
_MOST = r"\u6700\u5927|\u4e0a\u9650|\u9650\u5236|\u6700\u591a|\u6700\u9ad8"
_SAID = re.compile(
    r"(?:^|[-.,;:(] ?|\b(?:but|yet|and|while|whereas) )"
    r"(?:given|got|received|requested|required|current(?:ly)?|actual|provided|you (?:sent|provided|requested))"
    rf"[ :=]{{1,3}}$|(?:\u4f20\u5165|\u8bf7\u6c42|\u8f93\u5165)(?:(?!{_MOST})[\u4e00-\u9fff]){{0,8}}[ :=(]{{0,3}}$",
    re.IGNORECASE,
)
"""A word for what came, behind the limit it is held against."""
_NOW = re.compile(
    rf"(?:(?:\u5f53\u524d|\u5b9e\u9645|\u672c\u6b21)(?:(?!{_MOST})[\u4e00-\u9fff]){{0,8}}"
    rf"|\u8f93\u5165(?:(?!{_MOST})[\w ]){{0,16}}\u4e3a)[ :=(]{{0,3}}$"
)
_PROMPT_SIDE = re.compile(
    r"\b(?:prompt|input|range of input)(?:[ _-](?:token|tokens|length|limit|size|count))|input tokens"
    r"|prompt is too long"
    r"|prompt token count|maximum prompt|max_prompt",
    re.IGNORECASE,
)
_BOTH_SIDES = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|max_context|model length|max_(?:new_)?tokens|n_ctx", re.IGNORECASE
)

LIMIT_FIELDS = (
    "n_ctx", "max_context_length", "context_length", "context_window", "context_size", "max_context_tokens",
    "max_context", "max_model_len", "context_limit", "max_input_tokens", "max_prompt_tokens", "model_max_prompt_tokens",
    "input_token_limit", "token_limit", "max_sequence_length",
)  # fmt: skip
USED_FIELDS = (
    "n_prompt_tokens", "prompt_tokens", "input_tokens", "prompt_token_count", "input_token_count", "num_prompt_tokens",
    "num_tokens", "token_count", "used_tokens", "actual_tokens", "requested_tokens", "total_tokens",
)  # fmt: skip


class Figures(msgspec.Struct, frozen=True):
    """What a refusal says in tokens, 0 = not said. ``used``: input and asked-for output together where both are told.

    ``input``, ``output``: the two parts, -1 = not said. ``bounds``: what the limit counts. ``provenance``: the words or
    fields the figures were read from.
    """

    limit: int = 0
    used: int = 0
    input: int = -1
    output: int = -1
    bounds: Bounds = ""
    provenance: str = ""


class _Seen(msgspec.Struct, frozen=True):
    value: int
    label: Label
    words: str
    front: bool


def read(text: str, fields: Mapping[str, int]) -> Figures:
    """Return the figures of an overflow's text, or of the fields beside it where the text has none.

    A status a client put in front ("400 Input tokens exceed ...", "request 400 Input ...") is no limit, and an amount
    only where it is over the limit; nor is an amount any that would have fit by itself.
    """
    seen = [one for one in _labelled(text) if one.label != "other"]
    limit = next((one for one in seen if one.label == "limit" and not one.front), None)
    seen = [one for one in seen if not one.front or (limit is not None and one.value > limit.value)]
    output = next((one for one in seen if one.label == "output"), None)
    least = limit.value if limit is not None and output is None else 0
    used = next((one for one in seen if one.label == "used" and one.value >= least), None)
    parts = _distinct([one for one in seen if one.label == "part"])
    inputs = parts or [one for one in seen if one.label == "input"][:1]
    said = [f'{name} "{one.words}"' for name, one in (("limit", limit), ("used", used)) if one is not None]
    top = limit.value if limit is not None else 0
    given = sum(one.value for one in inputs) if inputs else -1
    asked = output.value if output is not None else -1
    taken = used.value if used is not None else max(given, 0) + max(asked, 0) if inputs else 0
    if used is None and inputs:
        said.append(" + ".join(f'used "{one.words}"' for one in [*inputs, *([output] if output is not None else [])]))
    if given < 0 and used is not None:
        given = used.value - asked if asked > 0 and "requested" in used.words.lower() else used.value
    if not top:
        top, name = next(((fields[name], name) for name in LIMIT_FIELDS if fields.get(name)), (0, ""))
        said += [f"limit field {name}"] if top else []
    if not taken:
        taken, name = next(((fields[name], name) for name in USED_FIELDS if fields.get(name)), (0, ""))
        given = taken or given
        said += [f"used field {name}"] if taken else []
    return Figures(top, taken, given, asked, _bounds(text) if top else "", "; ".join(said))


def count(text: str, label: re.Pattern[str]) -> int:
    """Return the number that stands right behind ``label`` in a text, 0 for none."""
    for found in label.finditer(text):
        number = NUMBER.match(text, _BETWEEN.match(text, found.end()).end())  # type: ignore[union-attr]
        if number is not None:
            return _value(number)
    return 0


def _bounds(text: str) -> Bounds:
    if _BOTH_SIDES.search(text):
        return "combined"
    return "prompt" if _PROMPT_SIDE.search(text) else "unknown"


def _distinct(parts: list[_Seen]) -> list[_Seen]:
    """Return the parts of the first enumeration: the same words again would be the same tokens again."""
    return list({one.words.split()[-1].lower(): one for one in reversed(parts)}.values())[::-1]


def _labelled(text: str) -> list[_Seen]:
    found: list[_Seen] = []
    numbers = []
    status = FRONT.match(text[:120])
    front = status.start(1) if status is not None and int(status[1]) >= 400 else -1
    for number in NUMBER.finditer(text):
        numbers.append(number)
        if len(numbers) == NUMBERS:
            break
    for index, number in enumerate(numbers):
        value = _value(number)
        begin = numbers[index - 1].end() if index else 0
        end = numbers[index + 1].start() if index + 1 < len(numbers) else len(text)
        left = text[max(begin, number.start() - _BEFORE) : number.start()]
        right = text[number.end() : min(end, number.end() + _BEHIND)]
        near = text[max(0, number.start() - 12) : number.start()]
        label: Label = _label(_sentence(left), right, near) if 0 <= value < LARGEST else "other"
        if not right and _MEMBER.search(left):
            label = "other"  # a member of JSON that was cut off: how many digits it had nobody knows
        if label == "other" and _SAID.search(left) and any(one.label == "limit" for one in found):
            label = "used"
        words = f"{_sentence(left)[-60:].lstrip()}{number[0]}{re.split(r'[.;,)]', right)[0][:32].rstrip()}"
        if label == "limit" and (_VERSUS_LEFT.search(left) or _CMP_LEFT.search(left)):
            _hold_against(found, value)
        bare = label == "used" and 400 <= value < 600 and not _TOKENS.match(right)
        found.append(_Seen(value, label, words.strip(" ,;:("), bare or number.start() == front))
    return found


def _hold_against(found: list[_Seen], limit: int) -> None:
    """Take a limit before for the amount where a smaller one is held against it: "window: 9 (7 and 2) vs 8"."""
    for place, one in enumerate(found):
        if one.label == "limit" and one.value > limit:
            found[place] = msgspec.structs.replace(one, label="used")


def _sentence(left: str) -> str:
    return re.split(r"[.;!] ", left)[-1]


def _label(left: str, right: str, near: str) -> Label:
    """Say what a number counts. The order is the order of how sure the words are."""
    if _RANGE.search(near):
        return "limit"
    if near.endswith("<") and right.startswith(">"):
        return "other"
    if _UNIT_OTHER.match(right) or _EXCESS.search(left) or _CODED.search(left) or _EITHER.search(left):
        return "other"
    if _OUT_LEFT.search(left) or _OUT_RIGHT.match(right) or _OVER_ROOM.match(right):
        return "output"
    if _PART_RIGHT.match(right) and not _TOLD.search(left):
        return "part"
    if _IN_RIGHT.match(right) or _IN_LEFT.search(left):
        return "input"
    if _CMP_RIGHT.match(right) or _VERSUS_RIGHT.match(right) or _OVER_RIGHT.match(right) or _USED_RIGHT.match(right):
        return "used"
    if any(words.search(left) for words in (_VERSUS_LEFT, _CMP_LEFT, _EXCEEDS)) or _CMP_LESS.match(right):
        return "limit"
    if _LESS_LEFT.search(left):
        return "used" if not re.search(r"[a-z]", left, re.IGNORECASE) else "limit"
    if _BARE_PAREN.search(left) and not _TOKENS.match(right):
        return "other"
    if _NOW.search(left):
        return "used"
    spoken = bool(_USED_LEFT.search(left)) and (bool(_ABOUT.search(left)) or bool(_TOKENS.match(right)))
    if _LIMIT_LEFT.search(left):
        return "limit"
    if _LIMIT_RIGHT.match(right) and not _TOLD.search(left):
        return "limit"
    if spoken:
        return "used"
    return "other"


def _value(number: re.Match[str]) -> int:
    if number["plain"]:
        return int(number["plain"])
    if number["group"]:
        return int(re.sub(r"\D", "", number["group"]))
    scale = 1_000 if number["unit"] in "kK" else 1_000_000
    whole, _, rest = number["short"].partition(".")
    return int(whole) * scale + (int(rest.ljust(6, "0")) * scale // 1_000_000 if rest else 0)
