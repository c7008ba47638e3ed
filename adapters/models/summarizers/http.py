"""One JSON request to a model's endpoint: bounded in time, size and attempts. The key is read, sent and forgotten."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ....domain.errors import FoldlogError, OptionError
from ....domain.history.parse import parse
from .port import Summarised, Summary, failure
from .text import clip, one_line

EXTRA = "embeddings"
"""The extra of the package that brings ``httpx``."""
PAUSES = ((2.0, 3.0), (6.0, 8.0))
"""Seconds, from and to, before each further attempt (``history.md`` 5.8)."""
LONGEST_PAUSE = 30.0
"""A provider's ``retry-after`` is followed up to this many seconds."""
LARGEST = 8 * 1024 * 1024
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504, 529})


class Endpoint(msgspec.Struct, frozen=True):
    """Where to ask. ``key_env``: the environment variable that holds the key, ``""`` for none; ``timeout``: seconds a
    call.

    ``sleep`` waits, ``draw`` picks a number between two; both are parameters so that tests need not wait.
    """

    url: str
    key_env: str
    timeout: float
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[float, float], float] = random.uniform


class Answer(msgspec.Struct, frozen=True):
    """What a model wrote. ``thought``: its reasoning, where it gave any; ``cut``: it stopped at its output limit."""

    text: str
    thought: str
    cut: bool
    input_tokens: int
    output_tokens: int
    model: str


def endpoint(url: str, key_env: str, timeout: float) -> None:
    """Check an endpoint's settings. Raises ``OptionError`` naming the one that is wrong."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OptionError(
            "the address of a model must begin with http:// or https:// and name a host", where="base_url"
        )
    if parts.username is not None or parts.password is not None:
        raise OptionError(
            "a key does not belong into an address; name the environment variable that holds it", where="base_url"
        )
    if not (isinstance(timeout, int | float) and math.isfinite(timeout) and timeout > 0):
        raise OptionError(
            "the time limit of a call must be a number of seconds above 0", value=timeout, where="timeout"
        )
    if key_env and not key_env.replace("_", "").isalnum():
        raise OptionError("this must be the name of an environment variable, not a key", where="key_env")


def ask(to: Endpoint, headers: Callable[[str], Mapping[str, str]], body: Mapping[str, Any]) -> Any:
    """Post ``body`` and return the decoded JSON answer. ``headers``: made from the key.

    Three attempts, the further ones only after failures that pass (429, 5xx, time-outs, broken connections). Raises
    ``FoldlogError`` (``SUMMARISER``): ``missing``, ``refused``, ``unreachable``, ``timeout`` or ``rubbish``. No error,
    and nothing an error leads to, holds the key.
    """
    try:
        import httpx
    except ImportError:
        how = f"pip install 'foldlog[{EXTRA}]'"
        raise failure("missing", f"asking a model needs the package httpx; install it with: {how}") from None
    key = _key(to.key_env)
    payload = msgspec.json.encode(body)
    wait: float | None = None
    problem: FoldlogError | None = None
    for attempt in range(len(PAUSES) + 1):
        if attempt:
            to.sleep(max(to.draw(*PAUSES[attempt - 1]), wait or 0.0))
        status, raw, wait, problem = _once(httpx, to, {**headers(key), "content-type": "application/json"}, payload)
        if problem is None and status < 400:
            return _decoded(raw)
        if problem is None:
            problem = _refusal(to, status, raw, key)
        if not problem.recoverable:
            break
    assert problem is not None
    raise problem


def _key(name: str) -> str:
    if not name:
        return ""
    key = os.environ.get(name, "").strip()
    if not key:
        raise failure(
            "missing", f"the environment variable {name} holds no key; set it, or choose the extractive summariser"
        )
    if not key.isascii() or not key.isprintable():
        raise failure("missing", f"the key in the environment variable {name} has characters no key has; set it anew")
    return key


def _once(
    httpx: Any, to: Endpoint, headers: Mapping[str, str], payload: bytes
) -> tuple[int, bytes, float | None, FoldlogError | None]:
    """Make one attempt: (status, body, seconds the provider asks to wait, what went wrong).

    Errors are made here and raised by the caller, outside the handlers: the client's own exceptions hold the request.
    """
    deadline = time.monotonic() + to.timeout
    host = urlsplit(to.url).netloc
    late = failure("timeout", f"{host} did not answer within {to.timeout:g} seconds", again=True)
    try:
        with (
            httpx.Client(timeout=to.timeout, follow_redirects=False) as client,
            client.stream("POST", to.url, headers=dict(headers), content=payload) as response,
        ):
            got = bytearray()
            for piece in response.iter_bytes():
                got += piece
                # the client's limit is between two bytes; one that drips would hold the run for ever
                if time.monotonic() > deadline:
                    return 0, b"", None, late
                if len(got) > LARGEST:
                    return 0, b"", None, failure("rubbish", f"the answer of {host} is larger than {LARGEST} bytes")
            return response.status_code, bytes(got), _pause(response.headers.get("retry-after")), None
    except httpx.TimeoutException:
        return 0, b"", None, late
    except httpx.TransportError as error:
        kind = type(error).__name__
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        kind = type(error).__name__
        return 0, b"", None, failure("refused", f"{host} could not be asked ({kind}); check its address")
    return (
        0,
        b"",
        None,
        failure(
            "unreachable", f"no connection to {host} ({kind}); is the address right and the network up?", again=True
        ),
    )


def _pause(given: str | None) -> float | None:
    try:
        seconds = float(given) if given else 0.0
    except ValueError:
        return None
    return min(seconds, LONGEST_PAUSE) if math.isfinite(seconds) and seconds > 0 else None


def _refusal(to: Endpoint, status: int, raw: bytes, key: str) -> FoldlogError:
    told = raw[:4_000].decode("utf-8", "replace")
    if key:
        # some endpoints repeat the key they refuse
        told = told.replace(key, "…")
    told = clip(one_line(told), 200)
    what = f"{urlsplit(to.url).netloc} answered with status {status}"
    return failure("refused", f"{what}: {told}" if told else what, again=status in TRANSIENT or status >= 500)


def _decoded(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    raise failure("rubbish", "the endpoint's answer is not JSON; is the address that of a model's API?")


def summarised(answer: Answer) -> Summarised:
    """Return a model's text as compartments; they are not validated yet.

    A model that wrote its output into its reasoning is taken at its word (5.8). Raises ``FoldlogError``
    (``SUMMARISER``), ``cut`` or ``rubbish``.
    """
    text = answer.text if answer.text.strip() else answer.thought
    if answer.cut and not answer.text.strip():
        raise failure(
            "cut", "the model reached its output limit before it wrote anything; raise max_tokens for the summariser"
        )
    found = tuple(
        Summary(c.start, c.end, clip(one_line(c.title), 200), (c.p1, c.p2, c.p3, c.p4), min(max(c.importance, 1), 100))
        for c in parse(text).compartments
    )
    if not found:
        why = (
            "its output limit cut it off; raise max_tokens for the summariser"
            if answer.cut
            else "it wrote no compartment"
        )
        raise failure("cut" if answer.cut else "rubbish", f"the model's summary cannot be used: {why}")
    return Summarised(found, text, answer.input_tokens, answer.output_tokens, answer.model)


def whole(value: Any) -> int:
    """Return a count a provider gave, or 0 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def table(value: Any) -> Mapping[str, Any]:
    """Return a JSON object, or an empty one in its place."""
    return value if isinstance(value, dict) else {}


def joined(value: Any, kind: str, member: str) -> str:
    """Return the texts under ``member`` of the blocks of type ``kind`` in a content list; a string is itself."""
    if isinstance(value, str):
        return value if kind == "text" else ""
    blocks = [table(block) for block in value] if isinstance(value, list) else []
    return "".join(b[member] for b in blocks if b.get("type") == kind and isinstance(b.get(member), str))
