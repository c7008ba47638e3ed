"""The two JSON forms (``specs/json-forms.md``): decoding that loses nothing that matters, and the identity form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from ....domain.errors import MessageError
from .spans import NESTING, check_nesting, malformed

MARK = "cache_control"
BILLING = "x-anthropic-billing-header:"

_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_sorted: Callable[[Any], bytes] = msgspec.json.Encoder(order="sorted").encode
_plain: Callable[[Any], bytes] = msgspec.json.Encoder().encode
_QUOTED_DIGITS = re.compile(rb'"-?[0-9]{19}')
_QUOTES_INTS = _plain(2**64).startswith(b'"')
"""Some releases of msgspec write integers over 64 bits as strings; the identity form must not depend on that."""
_LOW, _HIGH = -(2**63), 2**64 - 1
_CANNOT = (TypeError, ValueError, OverflowError, msgspec.MsgspecError)


class Number:
    """A number token that no machine number holds (``NaN``, ``1e400``, integers over 64 bits): kept as written."""

    __slots__ = ("token",)

    def __init__(self, token: str) -> None:
        self.token = token


def _integer(token: str) -> int | Number:
    if len(token) < 19:
        return int(token)
    if len(token) > 20:
        return Number(token)
    value = int(token)
    return value if _LOW <= value <= _HIGH else Number(token)


def _real(token: str) -> float | Number:
    value = float(token)
    return Number(token) if value in (float("inf"), float("-inf")) else value


_HOLDERS = (dict, list, Number)
_LENIENT = json.JSONDecoder(parse_int=_integer, parse_float=_real, parse_constant=Number)


def decode(raw: bytes) -> Any:
    """Decode one JSON text. Numbers no machine number holds become ``Number``; lone surrogates stay in strings.

    Raises ``MessageError`` with the byte position for what is not JSON, and for nesting over 200.
    """
    check_nesting(raw)
    return decode_again(raw)


def decode_again(raw: bytes) -> Any:
    """Decode one JSON text whose nesting was looked at before: what is sent was read first. Raises as ``decode``."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        pass  # msgspec also refuses tokens hosts do send: the standard library decides
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise malformed(error.start, "the text is not UTF-8") from None
    try:
        return _LENIENT.decode(text)
    except json.JSONDecodeError as error:
        place = len(text[: error.pos].encode())
        raise malformed(place, f"this is not JSON ({error.msg})") from None
    except RecursionError:
        raise MessageError(f"arrays and objects are nested more than {NESTING} deep") from None


def plain(raw: bytes) -> Any:
    """Decode one JSON text into plain Python values: odd numbers become floats and integers again.

    An integer too long for Python to read (over 4,300 digits) becomes a float. Raises as ``decode`` does.
    """
    check_nesting(raw)
    return output(raw)


def output(raw: bytes) -> Any:
    """Decode what is sent as ``plain`` does; its nesting was looked at when it was read (a long array is 40 MB)."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return _plain_values(decode_again(raw))


def _plain_values(value: Any) -> Any:
    if isinstance(value, Number):
        try:
            return int(value.token)
        except ValueError:
            return float(value.token)
    if isinstance(value, dict):
        for key, inner in value.items():
            if type(inner) in _HOLDERS:
                value[key] = _plain_values(inner)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            if type(inner) in _HOLDERS:
                value[i] = _plain_values(inner)
    return value


def canonical(value: Any) -> bytes:
    """Return canonical JSON of a decoded value: sorted keys, no white space, UTF-8; total on what ``decode`` gives."""
    try:
        out = _sorted(value)
    except _CANNOT:
        return _total(value)
    if _QUOTES_INTS and _QUOTED_DIGITS.search(out) and _odd_int(value):
        return _total(value)
    return out


def _odd_int(value: Any) -> bool:
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, int):
            if not _LOW <= item <= _HIGH:
                return True
        elif isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
    return False


def _total(value: Any) -> bytes:
    if isinstance(value, Number):
        return value.token.encode()
    if isinstance(value, dict):
        members = []
        for key in sorted(value):
            members.append(quote(key) + b":" + _total(value[key]))
        return b"{" + b",".join(members) + b"}"
    if isinstance(value, list):
        items = []
        for item in value:
            items.append(_total(item))
        return b"[" + b",".join(items) + b"]"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value).encode()
    return _plain(value)


def quote(text: str) -> bytes:
    """Return ``text`` as a JSON string in UTF-8; only a text with lone surrogates is written with escapes."""
    try:
        return _plain(text)
    except UnicodeEncodeError:
        return json.dumps(text).encode()


def unmark(block: dict[str, Any]) -> dict[str, Any]:
    """Return ``block`` without its cache mark (the same object if it has none)."""
    return {k: v for k, v in block.items() if k != MARK} if MARK in block else block


def as_blocks(content: Any) -> Any:
    """Return content with a string as one text block and without the cache marks of its blocks."""
    if isinstance(content, str):
        return [{"text": content, "type": "text"}]
    if isinstance(content, list):
        return [unmark(b) if isinstance(b, dict) else b for b in content]
    return content


def plain_block(block: Any) -> Any:
    """Return the identity value of one content block: no mark on it or on blocks inside a tool result."""
    if not isinstance(block, dict):
        return block
    block = unmark(block)
    if block.get("type") == "tool_result" and isinstance(block.get("content"), str | list):
        return {**block, "content": as_blocks(block["content"])}
    return block


def identity(raw: bytes) -> bytes:
    """Return the identity form of a message, a block, or a list of blocks (convention 4).

    Canonical JSON; cache marks of blocks removed; string content of a message or tool result as one text block.
    """
    value = decode(raw)
    if isinstance(value, list):
        return canonical([plain_block(v) for v in value])
    if isinstance(value, dict) and "role" in value and "content" in value:
        content = as_blocks(value["content"])
        if isinstance(content, list):
            content = [plain_block(b) for b in content]
        return canonical({**unmark(value), "content": content})
    return canonical(plain_block(value))


def readable(text: str) -> str:
    """Return ``text`` with lone surrogates replaced, for tokenizers and people."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def strings_size(value: Any) -> int:
    """Return the UTF-8 bytes of all string values inside a decoded value (``transform.md`` 3.4)."""
    total = 0
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            total += size(item)
        elif isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
    return total


def size(text: str) -> int:
    """Return the UTF-8 length of ``text`` in bytes (a lone surrogate counts 3)."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def encode(obj: Any) -> bytes:
    """Return the one fixed JSON encoding of a host's Python object (convention 4).

    Compact UTF-8 in the object's own key order; an object holding lone surrogates, NaN, infinities or integers over 64
    bits is written with escapes in ASCII instead. Raises ``MessageError`` with the path of the first value that is no
    JSON (another type, a key that is no string, an object inside itself) and for nesting over 200.
    """
    try:
        out = _plain(obj)
        check_nesting(out)
        if _decode(out) == obj:
            return out
    except (*_CANNOT, RecursionError):
        pass
    # a value of another type, or one the fast encoder would silently change: look closer
    odd = _walk(obj, "", 0)
    try:
        if not odd:
            return _plain(obj)
    except _CANNOT:
        pass  # a kind of number or text of another library's
    try:
        return json.dumps(obj, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise MessageError(f"a value cannot be written as JSON ({error})") from None


def _walk(value: Any, path: str, depth: int) -> bool:
    if depth > NESTING:
        raise MessageError(f"nested more than {NESTING} deep, or inside itself", where=path[:80])
    if value is None or isinstance(value, bool):
        return False
    if isinstance(value, str):
        return not _encodable(value)
    if isinstance(value, int):
        return not _LOW <= value <= _HIGH
    if isinstance(value, float):
        return not float("-inf") < value < float("inf")
    odd = False
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise MessageError("a key of a JSON object must be a string", value=key, where=path or ".")
            odd = _walk(inner, f"{path}.{key}", depth + 1) or not _encodable(key) or odd
        return odd
    if isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            odd = _walk(inner, f"{path}[{i}]", depth + 1) or odd
        return odd
    what = f"a {type(value).__name__} is no JSON value; hand over plain dicts, lists and strings"
    raise MessageError(what, value=value, where=path or ".")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
