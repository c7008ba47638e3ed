"""A provider's error taken apart: its words, codes and figures, however deep they lie and whatever stands around them.

Bodies come as plain text, as JSON, as JSON inside a string of JSON, behind a prefix of an SDK, inside the wrapper of a
gateway, as events of a stream, and cut in the middle. Everything here is bounded, so time is linear in the body.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

MOST = 262_144
"""Characters of a body that are read: the first half and the last; errors are short, streams end with theirs."""
WORDS = 16_384
"""Characters of all texts together that are read for their meaning."""
LONG = 8_192
"""Characters of one of them: the first three quarters, and the last."""
TEXTS = 64
DEEP = 12
STARTS = 16
"""Places in a text where JSON is looked for behind a prefix."""
NODES = 20_000

_SPOKEN = frozenset(
    "message msg error errormessage error_message errormsg detail details description error_description reason "
    "raw body "
    "responsebody response_body cause title text status_msg statusmsg errors data output summary localizedmessage "
    "innererror inner_error original_error exception".split()
)
_ECHOED = frozenset(
    "content input messages prompt system tools arguments request request_body requestbody loc body_preview headers "
    "tool_calls function usage user metadata_tags url instructions".split()
)
"""Members that repeat what was sent, or hold what was answered: never the provider's word on a failure."""
_CODED = frozenset(
    "code type status error errorcode error_code __type kind name finish_reason finishreason stop_reason stopreason "
    "error_type errortype reason exception".split()
)
_STATUS = frozenset("code status status_code statuscode http_status httpstatus http_code".split())
_ENDED = ("finish_reason", "stop_reason", "finishreason", "stopreason")
_CODE = re.compile(r"[A-Za-z][\w.:#/-]{2,79}\Z")
_LEADING = re.compile(r"([A-Za-z][\w.]{2,60}(?:Exception|Error))\b")
_LOOSE_CODE = re.compile(
    r"[\"'](code|type|status|error|__type|finish_reason|stop_reason)[\"'] ?: ?[\"']([\w.-]{3,80})[\"']"
)
_LOOSE_FIGURE = re.compile(r"[\"']([A-Za-z_]{3,40})[\"'] ?: ?[\"']?(\d{1,12})[\"']?(?=\s*[,}\]])")
FRONT = re.compile(
    r"\W{0,8}(?:(?:api|http|error|status|code|response|request|failed|with|server|returned|got|unexpected|bad|reason"
    r"|\d{1,2}/\d)[\s:(/#.\[\]\"'-]{0,4}){0,8}([1-5]\d\d)\b(?![.,]?\d)",
    re.IGNORECASE,
)
"""HTTP's status as clients put it in front of what the provider said."""
_STATED = re.compile(
    r"\b(?:request failed|status(?:[ _-]?code)?|http error|error code)[\s:=]{1,3}([45]\d\d)\b(?![.,]?\d| ?tokens)",
    re.IGNORECASE,
)
"""HTTP's status behind other words of a client, in any language."""
_ESCAPED = re.compile(r"\\{1,4}u([0-9a-fA-F]{4})")
_SLASHED = re.compile(r"\\{1,4}([nrt\"'/\\])")
_JOINED = re.compile("(?<=\\d)[\u00a0\u2009\u202f\u2007](?=\\d{3})")
_SUMMED = re.compile(r"(?<![\d.,])(\d{4,12}) {1,3}(?=\d{1,12} ?> ?\d)")
"""A sum held against a limit, whose plus sign the decoding of a form took for a blank; no group has four digits."""
_UNSEEN = re.compile("[`\u200b-\u200f\u2060\ufeff\u00ad]")
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9]{0,15}(?: [^<>]{0,200})?/?>")
_ADDRESS = re.compile(
    r"\b(?:https?://|(?:[a-z0-9][a-z0-9-]{0,40}\.){1,4}[a-z]{2,10}/)[^\s\"'<>)\]}]{0,400}", re.IGNORECASE
)
"""Where to read on or to pay: a word in it says nothing of what went wrong."""
_STAMP = re.compile(
    r"(?<![\w.])\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?(?:[.,]\d{1,9})?(?:Z\b|[+-]\d\d:?\d\d\b)?"
    r"|(?<![\w.:])\d?\d:\d\d:\d\d(?:[.,]\d{1,9})?(?![\w:])"
)
"""When it was: a year counts nothing."""
_BLANK = re.compile(r"\s+")


class Said(msgspec.Struct, frozen=True):
    """What a body says. ``texts``: cleaned, the innermost message first; ``codes``: letters and digits only, lower.

    ``figures``: numbers in fields of their own, by the field's lower name; ``status``: HTTP's, 0 where unknown.
    """

    texts: tuple[str, ...]
    codes: tuple[str, ...]
    figures: Mapping[str, int]
    status: int


class _Found:
    """What is being collected while a body is walked."""

    def __init__(self) -> None:
        self.texts: list[tuple[int, int, str]] = []
        self.codes: list[str] = []
        self.figures: dict[str, int] = {}
        self.status = 0
        self.nodes = 0

    def text(self, depth: int, spoken: bool, text: str) -> None:
        if len(self.texts) < TEXTS:
            self.texts.append((0 if spoken else 1, -depth, text))

    def code(self, text: str) -> None:
        if len(self.codes) < TEXTS and _CODE.match(text):
            self.codes.append(bare(text))


def take(body: bytes | str, status: int = 0) -> Said:
    """Take ``body`` apart. Never raises."""
    raw = body if isinstance(body, bytes) else body.encode("utf-8", "replace")  # half a surrogate pair is no letter
    if len(raw) > 4 * MOST:
        raw = raw[: 2 * MOST] + b"\n" + raw[-2 * MOST :]
    text = raw.decode("utf-8", "replace")
    if len(text) > MOST:
        text = f"{text[: MOST // 2]}\n{text[-MOST // 2 :]}"
    found = _Found()
    found.status = status
    text = text.strip("\ufeff \t\r\n")
    _look(found, text, 0, spoken=True)
    texts: dict[str, None] = {}
    left = WORDS
    for _, _, said in sorted(found.texts, key=lambda one: one[:2]):
        if left > 0 and (cleaned := clean(said)) not in texts:
            texts[cleaned] = None
            left -= len(cleaned)
    texts.pop("", None)
    return Said(tuple(texts), tuple(found.codes), found.figures, found.status)


def _look(found: _Found, text: str, depth: int, *, spoken: bool) -> None:
    """Take in one text: JSON as a whole, events of a stream, JSON behind a prefix, or words."""
    front = FRONT.match(text[:120])
    if front and not found.status and (depth == 0 or int(front[1]) >= 400):
        found.status = int(front[1])
    elif not found.status and (stated := _STATED.search(text[:400])):
        found.status = int(stated[1])
    if depth > DEEP:
        found.text(depth, spoken, text)
        return
    whole = _decoded(text) if text[:1] in '{["' else None
    if isinstance(whole, str):
        _look(found, whole, depth + 1, spoken=spoken)
        return
    if whole is not None:
        _walk(found, whole, depth, spoken=spoken)
        return
    events = list(_events(text))
    if events:
        for event in events:
            _walk(found, event, depth, spoken=spoken)
        return
    inner = list(_inside(text))
    for leading in _LEADING.finditer(text[:400]):
        found.code(leading[1].rpartition(".")[2])
    if not inner:
        for name, code in _LOOSE_CODE.findall(text[:WORDS]):
            if name != "error" or "_" in code:
                found.code(code)
        for name, figure in _LOOSE_FIGURE.findall(text[:WORDS]):
            found.figures.setdefault(name.lower(), int(figure))
    found.text(depth, spoken, text)
    for value in inner:
        _walk(found, value, depth + 1, spoken=spoken)


def _walk(found: _Found, value: Any, depth: int, *, spoken: bool) -> None:
    """Take in a decoded value. An answer that is no error is read for why it ended, and for nothing else."""
    if isinstance(value, dict) and _answered(value):
        _ends(found, value)
        return
    queue: list[tuple[int, str, Any, bool]] = [(depth, "", value, spoken)]
    while queue and found.nodes < NODES:
        found.nodes += 1
        deep, name, one, said = queue.pop(0) if len(queue) < 64 else queue.pop()
        if isinstance(one, dict):
            for key, inner in list(one.items())[:400]:
                lower = key.lower()
                if lower not in _ECHOED:
                    queue.append((deep + 1, lower, inner, lower in _SPOKEN))
        elif isinstance(one, list):
            queue.extend((deep + 1, name, inner, said) for inner in one[:400])
        elif isinstance(one, str):
            _string(found, name, one, deep, spoken=said)
        elif isinstance(one, int) and not isinstance(one, bool):
            _figure(found, name, one)


def _string(found: _Found, name: str, text: str, depth: int, *, spoken: bool) -> None:
    if name in _CODED:
        found.code(text)
        if name in _ENDED:
            return
    if text.isascii() and text.isdigit() and len(text) <= 12:
        _figure(found, name, int(text))
        return
    if len(text) > 3:
        _look(found, text, depth + 1, spoken=spoken)


def _figure(found: _Found, name: str, value: int) -> None:
    if name in _STATUS and 400 <= value <= 599:
        found.status = found.status if found.status >= 400 else value
    elif name and 0 <= value < 10**12:
        found.figures.setdefault(name, value)


def _answered(value: dict[str, Any]) -> bool:
    """Whether a value is a model's answer (or a piece of one in a stream) and not an error."""
    if any(value.get(name) for name in ("error", "errors", "exception", "detail")):
        return False
    kind = value.get("type")
    if isinstance(kind, str) and ("error" in kind.lower() or "failed" in kind.lower()):
        return False
    if isinstance(kind, str) and re.match(r"message_|content_block|response\.|message\Z", kind):
        response = value.get("response")
        return not (isinstance(response, dict) and response.get("error"))
    return any(value.get(name) is not None for name in ("choices", "candidates", "stop_reason", "output"))


def _ends(found: _Found, value: Any) -> None:
    """Take in why an answer ended: some providers tell of an overflow there."""
    queue = [value]
    seen = 0
    while queue and seen < NODES:
        seen += 1
        one = queue.pop()
        if isinstance(one, dict):
            for key, inner in one.items():
                if key.lower() in _ENDED and isinstance(inner, str):
                    found.code(inner)
                elif isinstance(inner, dict | list):
                    queue.append(inner)
        elif isinstance(one, list):
            queue.extend(inner for inner in one[-16:] if isinstance(inner, dict | list))


def _decoded(text: str) -> Any:
    """Return the value of a JSON text, None where it is none."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _events(text: str) -> Iterator[Any]:
    """Yield the JSON values of a stream's ``data:`` lines: the first ones and the last."""
    if not re.search(r"^data:", text, re.MULTILINE):
        return
    lines = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
    for line in [*lines[:32], *lines[32:][-32:]]:
        value = _decoded(line) if line[:1] in "{[" else None
        if value is not None:
            yield value


def _inside(text: str) -> Iterator[Any]:
    """Yield JSON values that stand inside a text, behind a prefix or between words."""
    decoder = json.JSONDecoder(strict=False)
    place = 0
    for _ in range(STARTS):
        begin = min((at for at in (text.find('{"', place), text.find("[{", place)) if at >= 0), default=-1)
        if begin < 0:
            return
        try:
            value, place = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            place = begin + 1
            continue
        yield value


def bare(code: str) -> str:
    """Return a code without case, prefixes and separators: ``contextLengthExceeded``, ``context_length_exceeded``."""
    name = re.split(r"[#:/]", code)[-1] or code
    return re.sub(r"[^a-z0-9]", "", name.lower())


def clean(text: str) -> str:
    """Return a text as the rules read it: one form of each letter and digit, escapes undone, blanks single."""
    if len(text) > LONG:
        text = f"{text[: LONG * 3 // 4]} {text[-LONG // 4 :]}"
    text = _ESCAPED.sub(lambda one: _letter(int(one[1], 16)), text)
    text = _SLASHED.sub(lambda one: " " if one[1] in "nrt" else one[1], text)
    text = _TAG.sub(" ", text)
    if "&" in text:
        text = html.unescape(text)
    text = _STAMP.sub(" ", _ADDRESS.sub(" ", text))
    text = _JOINED.sub(",", text)
    text = unicodedata.normalize("NFKC", text)
    text = _UNSEEN.sub("", text).replace("\u2019", "'")
    return _SUMMED.sub(r"\1 + ", _BLANK.sub(" ", text)).strip()


def _letter(code: int) -> str:
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else chr(code)
