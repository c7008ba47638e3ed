"""Where a request goes and what of its headers goes with it (``specs/proxy.md``, Serving)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping

import httpx
import zstandard

from ...domain.errors import MessageError, TooLarge

Pairs = list[tuple[bytes, bytes]]

CHATGPT = "/backend-api/codex"
"""Codex with a ChatGPT login asks under this path; what is behind it goes to the ``chatgpt`` upstream."""
ACCOUNT = b"chatgpt-account-id"
HOP_BY_HOP = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
        b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings",
    }
)  # fmt: skip
"""They speak of one connection, not of the request (RFC 9110, 7.6.1)."""
SECRETS = frozenset({b"authorization", b"x-api-key", b"api-key", b"cookie", b"set-cookie", b"x-goog-api-key"})
READABLE = frozenset({"gzip", "deflate", "identity"})
"""Encodings the meter can read; no other is asked for on a managed request."""
_PIECE = 1024
"""A packed body is opened in pieces, so that a small one cannot become a huge one unseen: 4 bytes may hold 128 KiB."""
_ANTHROPIC_PATHS = ("/v1/messages", "/v1/complete", "/v1/files", "/v1/skills", "/api/")
_OPENAI_PATHS = ("/v1/chat/", "/v1/responses", "/v1/completions", "/v1/embeddings", "/v1/realtime", "/v1/conversations")
_ANTHROPIC_AGENTS = ("claude", "anthropic")


def client(connections: int = 512) -> httpx.AsyncClient:
    """Return the pool of connections to the providers: HTTP/2 where they speak it, no redirects, no cookies of ours.

    A model may think for minutes before its first byte and between two: only connecting has a short limit.
    """
    return httpx.AsyncClient(
        http2=True,
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=30.0, pool=60.0),
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=64, keepalive_expiry=60.0),
    )


def family(path: str, headers: Mapping[bytes, bytes], named: str | None = None) -> str:
    """Return the name of the upstream for a request. ``named``: what its protocol says, None for another path."""
    if path.startswith(CHATGPT) or ACCOUNT in headers:
        return "chatgpt"
    if named is not None:
        return named
    if path.startswith(_ANTHROPIC_PATHS):
        return "anthropic"
    if path.startswith(_OPENAI_PATHS):
        return "openai"
    agent = headers.get(b"user-agent", b"").decode("latin-1").lower()
    if b"anthropic-version" in headers or b"x-api-key" in headers or agent.startswith(_ANTHROPIC_AGENTS):
        return "anthropic"
    return "openai"


def address(base: str, path: str, query: bytes) -> httpx.URL:
    """Return the whole address: ``base`` with the client's path and query as they are.

    A version both of them name stands once; for Codex's login the base already holds what its path begins with.
    """
    base = base.rstrip("/")
    if path.startswith(CHATGPT):
        path = path.removeprefix(CHATGPT) if base.endswith(CHATGPT) else path
    elif base.endswith((CHATGPT, "/v1")):
        path = path.removeprefix("/v1")
    return httpx.URL(base + path + ("?" + query.decode("latin-1") if query else ""))


def canonical(path: str) -> str:
    """Return a path as providers read it: without doubled slashes, and nothing escaped that need not be.

    A client whose base address ends with a slash asks under ``//v1/…``; that is no other path.
    """
    once = re.sub("/{2,}", "/", path)
    return re.sub("%([0-9A-Fa-f]{2})", lambda found: _unescaped(found[0], int(found[1], 16)), once)


def _unescaped(escape: str, code: int) -> str:
    letter = chr(code)
    return letter if letter.isascii() and (letter.isalnum() or letter in "-._~") else escape


def forwarded(headers: Iterable[tuple[bytes, bytes]], *, remade: bool = False, read: bool = False) -> Pairs:
    """Return the headers to send on: the client's own, keys included, without those of its connection.

    ``remade``: the body is ours, and so are its length and encoding. ``read``: the answer is looked at on its way, so
    only encodings are asked for that both the client and we can read.
    """
    given = [(name.lower(), value) for name, value in headers]
    gone = HOP_BY_HOP | {b"host", b"expect", *_named(given)}
    if remade:
        gone |= {b"content-length", b"content-encoding"}
    if read:
        gone |= {b"accept-encoding"}
    kept = [(name, value) for name, value in given if name not in gone]
    if read:
        kept.append((b"accept-encoding", _readable(given)))
    return kept


def returned(headers: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """Return the headers of an answer as the client gets them."""
    given = [(name.lower(), value) for name, value in headers]
    gone = HOP_BY_HOP | set(_named(given))
    return [(name, value) for name, value in given if name not in gone]


def _named(headers: Pairs) -> list[bytes]:
    """Return the headers that ``Connection`` says belong to the connection."""
    return [
        part.strip().lower() for name, value in headers if name == b"connection" for part in value.split(b",") if part
    ]


def _readable(headers: Pairs) -> bytes:
    """Return which of the client's encodings we can read too; ``identity`` where there is none."""
    wanted = b",".join(value for name, value in headers if name == b"accept-encoding").decode("latin-1")
    found = []
    for item in wanted.split(","):
        name, _, rest = item.strip().partition(";")
        refused = re.fullmatch(r"q=0(\.0*)?", rest.strip().lower())
        if name.strip().lower() in READABLE and not refused:
            found.append(name.strip().lower())
    return ", ".join(found).encode() or b"identity"


def secrets(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    """Return the keys a client sent, whole and without their scheme, so that they can be taken out of any text."""
    found: set[str] = set()
    for name, value in headers:
        lower = name.lower()
        if lower not in SECRETS and not lower.endswith((b"-key", b"-token")):
            continue
        text = value.decode("latin-1").strip()
        found |= {text, text.partition(" ")[2].strip()}
    return sorted((text for text in found if len(text) > 5), key=len, reverse=True)


def redacted(text: str, keys: Iterable[str]) -> str:
    """Return ``text`` without the keys: some providers repeat what they refuse."""
    for key in keys:
        text = text.replace(key, "…")
    return text


def plain_body(raw: bytes, headers: Mapping[bytes, bytes], limit: int) -> bytes:
    """Return a request's body without its content encoding. Raises ``MessageError``, ``TooLarge``."""
    if len(raw) > limit:
        raise TooLarge(f"the request is larger than {limit:,} bytes", where="body")
    encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
    if encoding in ("", "identity"):
        return raw
    if encoding in ("gzip", "x-gzip", "deflate"):
        try:
            opened = zlib.decompressobj(47)
            plain = opened.decompress(raw, limit + 1)
        except zlib.error:
            raise MessageError(f"the body is not {encoding}, as its header says", where="body") from None
        if opened.eof and len(plain) <= limit:
            return plain
        raise MessageError(f"the body is cut off, or larger than {limit:,} bytes unpacked", where="body")
    if encoding == "zstd":  # Codex with a ChatGPT login
        return _zstd(raw, limit)
    raise MessageError(
        "foldlog cannot read a body in this encoding; turn request compression off in the client",
        value=encoding,
        where="content-encoding",
    )


def _zstd(raw: bytes, limit: int) -> bytes:
    opened = zstandard.ZstdDecompressor().decompressobj()
    found = bytearray()
    try:
        for at in range(0, len(raw), _PIECE):
            found += opened.decompress(raw[at : at + _PIECE])
            if len(found) > limit or opened.eof:
                break
    except zstandard.ZstdError:
        raise MessageError("the body is not zstd, as its header says", where="body") from None
    if opened.eof and len(found) <= limit:
        return bytes(found)
    raise MessageError(f"the body is cut off, or larger than {limit:,} bytes unpacked", where="body")


class Opened:
    """Reads an answer beside the client: bytes as they come in, their plain text out. Never raises."""

    def __init__(self, response: httpx.Response) -> None:
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        self._plain = encoding in ("", "identity")
        self._pack = zlib.decompressobj(47) if encoding in ("gzip", "x-gzip", "deflate") else None

    def feed(self, chunk: bytes) -> bytes:
        """Return what ``chunk`` holds; nothing where it cannot be read."""
        if self._plain:
            return chunk
        if self._pack is None:
            return b""
        try:
            return self._pack.decompress(chunk)
        except zlib.error:
            self._pack = None
            return b""
