"""What a host hands over, made ready for a decision: raw bytes, neutral messages, changed settings and regions.

Reading is versioned with the wire (``wire/vN``): the parts an edit names are the parts that version sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from ..domain import events as ev
from ..domain.errors import InputError, MessageError, TooLarge
from ..domain.identity import Observation
from ..domain.state import PARTS_LIMIT, State
from . import arrays
from .arrays import Taken
from .wire import CURRENT, wire
from .wire.contract import Incoming, Wire

MESSAGE_LIMIT = 32 * 1024 * 1024


class Options(msgspec.Struct, frozen=True):
    """What ``Engine.session`` was told. Limits in tokens, 0 = unknown; None: whatever the session already has."""

    harness: str
    session: str
    codec: str
    mode: str
    reduce: bool
    tokenizer: str
    model: str | None = None
    context_limit: int | None = None
    output_limit: int | None = None
    policy: bytes | None = None


class Reader(msgspec.Struct, frozen=True):
    """Reads host messages with one tokenizer. ``count`` returns the tokens of a text."""

    count: Callable[[str], int]

    def raws(self, messages: Any) -> list[bytes]:
        """Return each message as raw JSON: dicts in the one fixed encoding, bytes and text as they are."""
        return self._encoded(_listed(messages), 0)

    def array(self, messages: Any, last: Taken | None) -> Taken:
        """Return a whole array as ``raws`` does; what is as it was in ``last`` is not encoded again."""
        return arrays.take(_listed(messages), self._encoded, last)

    def _encoded(self, given: list[Any], index: int) -> list[bytes]:
        return [  # a long array costs one look each: most of it was here before
            message
            if type(message) is bytes and len(message) <= MESSAGE_LIMIT
            else self.raw(message, f"messages[{at}]")
            for at, message in enumerate(given, index)
        ]

    def raw(self, message: Any, where: str) -> bytes:
        """Return one message as raw JSON. Raises ``MessageError``, ``TooLarge``."""
        if isinstance(message, bytes):
            raw = message
        elif isinstance(message, str):
            raw = message.encode("utf-8", "surrogatepass")
        else:
            raw = encode(message, where)
        if len(raw) > MESSAGE_LIMIT:
            raise TooLarge(
                f"the message has {len(raw):,} bytes; a message may have {MESSAGE_LIMIT:,}. Send large content as "
                "a file",
                where=where,
            )
        return raw

    def read(self, state: State, raw: bytes, index: int) -> Incoming:
        """Return the neutral form of a raw message, as the session's wire version reads it. Raises ``MessageError``."""
        incoming = wire(state.wire).read(state.codec, raw, self.count, f"messages[{index}]")
        if len(incoming.message.parts) >= PARTS_LIMIT:
            raise TooLarge(f"a message may have {PARTS_LIMIT - 1:,} parts", value=len(incoming.message.parts))
        return incoming

    def ident(self, state: State, raw: bytes, index: int) -> bytes:
        """Return a message's identity, without counting its tokens. Raises ``MessageError``."""
        return wire(state.wire).read(state.codec, raw, _uncounted, f"messages[{index}]").message.ident

    def idents(self, state: State, raw: bytes) -> tuple[bytes, ...]:
        """Return the identity of each part of a raw message."""
        return wire(state.wire).part_idents(state.codec, raw)


def _listed(messages: Any) -> list[Any]:
    if isinstance(messages, bytes | str):
        raise InputError("messages must be a list of messages, not one text", value=messages, where="messages")
    try:
        return list(messages)
    except TypeError:
        raise InputError("messages must be a list of dicts or JSON bytes", value=messages, where="messages") from None


def _uncounted(_: str) -> int:
    return 0


def encode(value: Any, where: str) -> bytes:
    """Return a host's object in the one fixed encoding, JSON bytes as they are; errors name the place in its terms."""
    if isinstance(value, bytes):
        return value
    try:
        return wire(CURRENT).encode(value)
    except MessageError as error:
        raise MessageError(error.message, value=error.value, where=(where + error.where).rstrip(".")) from None


class Intake(msgspec.Struct):
    """One call of the host. ``events`` record what changed beside the messages; the values are those now in force.

    ``bodies`` maps a chunk's digest to its bytes and neutral form; ``received``: (unchanged messages, the whole array).
    """

    seen: Observation
    bodies: dict[bytes, tuple[bytes, Incoming]]
    received: tuple[int, list[bytes]] | None
    events: list[ev.Event]
    texts: dict[bytes, bytes]
    model: str
    context_limit: int
    output_limit: int
    policy: bytes
    system: bytes
    system_hash: bytes
    system_tokens: int
    tools: bytes
    tools_hash: bytes
    tools_names: bytes
    tools_tokens: int


def take_in(
    reader: Reader,
    options: Options,
    state: State,
    seen: Observation,
    at: int,
    leading: Sequence[bytes],
    system: Any,
    tools: Any,
    before: bytes = b"",
) -> Intake:
    """Return an intake: which of model, limits, policy, system, tools changed with these messages.

    ``leading``: system messages that stood at the front of the array. None means unchanged since last time; ``before``:
    the system region that then was. A side request changes nothing of the session: its model and regions are only its
    own (PROP-7).
    """
    into = Intake(
        seen, {}, None, [], {}, state.model, state.context_limit, state.output_limit, state.policy,
        state.system, state.system_hash, state.system_tokens,
        state.tools, state.tools_hash, state.tools_names, state.tools_tokens,
    )  # fmt: skip
    if seen.side:
        into.model = state.model if options.model is None else options.model
    else:
        _model(into, options, at)
        if options.policy is not None and options.policy != state.policy:
            into.events.append(ev.PolicyChanged(at, "", options.policy))
            into.policy = options.policy
    region = _system_body(wire(state.wire), state.codec, leading, system, before)
    if _system(into, reader, state, region) and not seen.side:
        into.events.append(ev.SystemChanged(at, "", into.system, into.system_hash, into.system_tokens))
    if (
        _tools(into, reader, state, None if tools is None else encode(tools, "tools") if tools else b"")
        and not seen.side
    ):
        into.events.append(ev.ToolsChanged(at, "", into.tools, into.tools_hash, into.tools_names, into.tools_tokens))
    return into


def _model(into: Intake, options: Options, at: int) -> None:
    model = into.model if options.model is None else options.model
    context = into.context_limit if options.context_limit is None else options.context_limit
    output = into.output_limit if options.output_limit is None else options.output_limit
    if (model, context, output) != (into.model, into.context_limit, into.output_limit):
        into.events.append(ev.ModelChanged(at, "", model, context, output))
        into.model, into.context_limit, into.output_limit = model, context, output


def _system_body(form: Wire, codec: str, leading: Sequence[bytes], system: Any, before: bytes) -> bytes | None:
    """Return the host's system region as one chunk, ``b""`` for none, None for unchanged."""
    if codec == "openai-responses" and leading:
        member = form.region(codec, before)[0] if system is None else encode(system, "system") if system else b""
        return b"[" + b",".join((*([member] if member else ()), *leading)) + b"]"
    if codec != "openai-chat":
        return None if system is None else encode(system, "system") if system else b""
    if system is None:
        return b"[" + b",".join(leading) + b"]" if leading else None
    if leading:
        raise InputError("give the system text as an argument or as a leading message, not both", where="system")
    return b"[" + encode({"role": "system", "content": system}, "system") + b"]" if system else b""


def _system(into: Intake, reader: Reader, state: State, body: bytes | None) -> bool:
    """Take in a system region; return whether it differs from the session's, marks, billing and form apart."""
    if body is None or sha256(body).digest() == state.system or (not body and not state.system):
        return False
    form = wire(state.wire)
    hashed = form.system_hash(state.codec, body)
    if hashed == (state.system_hash or form.system_hash(state.codec, b"")):
        return False  # the first-served bytes stay (conventions 5 and 6)
    into.system, into.system_hash = _keep(into, body), hashed if body else b""  # none is none, first or later
    into.system_tokens = sum(reader.count(_text(block.form)) for block in form.system_blocks(state.codec, body))
    return True


def _tools(into: Intake, reader: Reader, state: State, body: bytes | None) -> bool:
    """Take in a tool list; return whether it differs from the session's, marks and form apart."""
    if body is None or sha256(body).digest() == state.tools or (not body and not state.tools):
        return False
    form = wire(state.wire)
    blocks = form.tools_blocks(state.codec, body)
    hashed = sha256(b"".join(block.digest for block in blocks)).digest()
    if hashed == state.tools_hash:
        return False  # the first-served bytes stay (convention 5)
    into.tools, into.tools_hash = _keep(into, body), hashed
    into.tools_names = form.tools_names_hash(state.codec, body) if body else b""
    into.tools_tokens = sum(reader.count(_text(block.form)) for block in blocks)
    return True


def _text(form: bytes) -> str:
    return form.decode("utf-8", "replace")


def _keep(into: Intake, body: bytes) -> bytes:
    if not body:
        return b""
    digest = sha256(body).digest()
    into.texts[digest] = body
    return digest


def told_tools(state: State, intake: Intake, text: Callable[[bytes], bytes]) -> str:
    """Return the names of the tools a request has as a JSON list, null where no host ever told them."""
    names = wire(state.wire).tool_names(state.codec, text(intake.tools)) if intake.tools else ()
    return msgspec.json.encode(names if intake.tools_hash else None).decode()
