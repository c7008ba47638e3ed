"""``sessions``, ``passes``, ``show``, ``status`` and ``export``: what the store holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from ... import standing
from ...api import Engine, Session
from ...domain import events as ev
from ...domain.errors import StoreDamaged, counted
from ...projections import restless
from ...projections.fold import find_pass, load
from ...projections.request import Built, level, reasons
from ...projections.timeline import Row, cause, timeline
from ...projections.wire import wire
from ...storage.protocol import Stored
from ...storage.references import named_chunks
from . import options
from .terminal import emit, emit_raw, moment, raw_json, say, table


class Format(StrEnum):
    """How ``show`` prints a request."""

    TEXT = "text"
    JSON = "json"


def sessions(db: options.Db = None, as_json: options.Json = False) -> None:
    """List the sessions of the store."""
    with options.reading(db) as engine:
        found = engine.sessions()
    if as_json:
        emit([{"session": name, "events": version} for name, version in found])
        return
    table(("session", "events"), found, right=(1,))
    say(counted(len(found), "session"))


def passes(session: options.SessionName, db: options.Db = None, as_json: options.Json = False) -> None:
    """List the passes of a session: level, cause, size, what landed, what the provider said."""
    with options.reading(db) as engine:
        stream = engine.find(session)
        rows = timeline(engine.log, stream)
        changes = None if as_json else _changing(engine, stream, rows)
    if as_json:
        emit(rows)
        return
    columns = ("pass", "time", "level", "cause", "tokens", "prompt", "output", "new parts", "landed", "note")
    shown = [
        (
            row.number, moment(row.now), row.level, cause(row.reasons), row.tokens, row.prompt, row.output, row.parts,
            row.landed, _note(row),
        )
        for row in rows
    ]  # fmt: skip
    table(columns, shown, right=(0, 4, 5, 6, 7, 8))
    whose = (
        "prompt estimated: these requests were never sent"
        if _observed(stream)
        else "prompt and output by the provider's"
    )
    say(f"{counted(len(rows), 'pass', 'passes')}; tokens by our count, {whose}")
    if changes is not None:
        say(restless.words(changes))


def _changing(engine: Engine, stream: str, rows: list[Row]) -> restless.Changing | None:
    """Return what makes the system text of each request another (FOLD-8), None where nothing does.

    The session is folded only where its last requests look like it.
    """
    last = [row for row in rows if row.level != "refused" and not row.side][-restless.ROW :]
    if not all(row.divergence in ("system", "tools") or "system_hash" in row.reasons for row in last):
        return None
    return restless.changing(load(engine.log, stream).state, lambda digest: engine.log.chunks([digest])[0])


def _observed(stream: str) -> bool:
    """Whether a session was only observed by the proxy (PROXY-71)."""
    return stream.split("/")[1].endswith("-observed")


def _lanes(row: Row, *, landed: bool) -> str:
    return ", ".join(f"{one.lane} {one.items:,} ({one.tokens:,} tokens)" for one in row.lanes if one.landed is landed)


def _note(row: Row) -> str:
    lost = f"the host's change: {row.lost:,} tokens were not read from the cache" if row.lost >= 0 else ""
    did, would = _lanes(row, landed=True), _lanes(row, landed=False)
    held = f"held: {would}" if would else "held" if row.held else ""
    broke = f"left out, it broke: {', '.join(row.left_out)}" if row.left_out else ""
    said = f"said: {', '.join(row.said)}" if row.said else ""
    unsaid = f"not said: {', '.join(f'{word} ({why})' for word, why in row.unsaid)}" if row.unsaid else ""
    notes = [did, held, said, unsaid, broke, row.message, row.outcome, "beside the head" if row.side else "", lost]
    return "; ".join(note for note in notes if note)


def show(
    session: options.SessionName,
    number: Annotated[
        int | None, typer.Option("--pass", metavar="N", show_default=False, help="The number of a pass; else the last.")
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="text for people, json for the messages byte for byte.")
    ] = Format.TEXT,
    db: options.Db = None,
    as_json: options.Json = False,
) -> None:
    """Open a request again as it was sent, from the log alone (cache marks left out)."""
    with options.reading(db) as engine:
        stream = engine.find(session)
        event = find_pass(engine.log, stream, number).event
        built = engine.replay(stream.removeprefix("session/"), event.number)
    if as_json or form is Format.JSON:
        _emit_request(stream, event, built)
    else:
        _say_request(stream, event, built)


def _emit_request(stream: str, event: Any, built: Built) -> None:
    head = {
        "session": stream.removeprefix("session/"), "pass": event.number, "level": level(event),
        "reasons": reasons(event), "digest": built.digest.hex(), "codec": built.codec, "wire": built.wire,
        "owners": built.owners,
    }  # fmt: skip
    pieces = [msgspec.json.encode(head)[:-1]]
    if built.system:
        pieces.append(b'"system":' + raw_json(built.system))
    if built.tools:
        pieces.append(b'"tools":' + raw_json(built.tools))
    pieces.append(b'"messages":[' + b",".join(raw_json(raw) for raw in built.messages) + b"]")
    emit_raw(b",".join(pieces) + b"}")


def _say_request(stream: str, event: Any, built: Built) -> None:
    form = wire(built.wire)
    why = cause(reasons(event))
    say(f"{stream.removeprefix('session/')}, pass {event.number}: {level(event)} ({why}), digest {built.digest.hex()}")
    if built.tools:
        names = form.tool_names(built.codec, built.tools)
        say(f"\n--- {counted(len(names), 'tool')}: {', '.join(names)}", lines=True)
    if built.system:
        say("\n--- system", lines=True)
        for block in form.system_blocks(built.codec, built.system):
            value = _decoded(block.form)
            text = value.get("block", {}).get("text") if isinstance(value, dict) else None
            say(text if isinstance(text, str) else block.form.decode("utf-8", "replace"), lines=True)
    for index, (raw, m) in enumerate(zip(built.messages, built.owners, strict=True)):
        place = index - built.leading
        owner = f"message {m}" if m else "system" if place < 0 else f"m[{place}]"
        read = form.read(built.codec, raw, len).message
        say(f"\n--- {owner} ({read.role})", lines=True)
        for p, part in enumerate(read.parts):
            kind = type(part).__name__.lower()
            if kind != "text":
                name = getattr(part, "name", "")
                say(f"[{kind}{' ' + name if name else ''}]")
            say(form.part_text(built.codec, raw, p), lines=True)


def _decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def status(session: options.SessionName, db: options.Db = None, as_json: options.Json = False) -> None:
    """Show how a session stands: usage, the window and whence it is known, thresholds, the cache, what is queued."""
    with options.reading(db) as engine:
        found = _status(engine, engine.find(session))
    if as_json:
        emit(found)
        return
    say(f"{standing.words(found)}\n", lines=True)
    for name, value in msgspec.structs.asdict(found).items():
        say(f"{name.removesuffix('_ms').replace('_', ' '):18} {_told(name, value)}")


def flush(session: options.SessionName, db: options.Db = None, as_json: options.Json = False) -> None:
    """Let what was marked as spent leave with the next request, protected or not."""
    with options.reading(db) as engine:
        held = _held(engine, engine.find(session))
        held.flush()
        found = held.status()
    if as_json:
        emit({"session": f"{found.harness}/{found.session}", "queued": found.queued, "flush_pending": True})
        return
    say(f"{found.harness}/{found.session}: {standing.flushed(found)}")


def _status(engine: Engine, stream: str) -> Any:
    return _held(engine, stream).status()


def _held(engine: Engine, stream: str) -> Session:
    state = load(engine.log, stream).state
    return engine.session(state.session, state.harness, codec=state.codec, mode=state.mode, reduce_tool=state.reduce)


def _told(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int):
        return str(value) or "-"
    if name == "cache_left_ms" and value in (standing.NEVER, standing.FOREVER, 0):
        return {standing.NEVER: "nothing is cached", 0: "expired"}.get(value, "never expires")
    if value < 0:
        return "unknown"
    if name in ("last_answer_ms", "refused_ms"):
        return moment(value) if value else "never"
    if name in ("cache_ttl_ms", "cache_left_ms"):
        return standing.span(value) if value < standing.FOREVER else "never expires"
    return f"{value / 100:.2f}%" if name.endswith("_percent") else f"{value:,}"


def export(
    session: options.SessionName,
    bodies: Annotated[
        bool, typer.Option("--bodies/--no-bodies", help="With the messages and texts the events name, or without.")
    ] = True,
    db: options.Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="The output is JSON either way: a line an event.")] = False,
) -> None:
    """Print a session's events as JSON lines, oldest first: version, digest of the chain, name of the event, its data.

    Data has every field by its name, with digests in hex; content holds, by digest, the messages and texts that an
    event is the first to name.
    """
    with options.reading(db) as engine:
        for line in exported(engine, engine.find(session), bodies=bodies):
            emit_raw(line)


_JSON_BODIES = (ev.MessagesObserved, ev.PartsRevised, ev.SystemChanged, ev.ToolsChanged)


def exported(engine: Engine, stream: str, *, bodies: bool) -> Iterator[bytes]:
    """Yield a session's events as encoded JSON objects. Raises ``StoreDamaged`` for a chain that does not hold."""
    told: set[bytes] = set()
    for stored in engine.log.read(stream):
        head = {
            "version": stored.version, "chain": stored.digest.hex(), "event": type(stored.event).__name__,
            "data": readable(stored.event),
        }  # fmt: skip
        line = json.dumps(head, ensure_ascii=True).encode()
        content = _content(engine, stored, told) if bodies else []
        yield line[:-1] + b',"content":{' + b",".join(content) + b"}}" if content else line


def _content(engine: Engine, stored: Stored, told: set[bytes]) -> list[bytes]:
    found = []
    for digest in named_chunks(stored.event):
        if not digest or digest in told:
            continue
        told.add(digest)
        try:
            raw = engine.log.chunks([digest])[0]
        except StoreDamaged:  # purged or damaged: the event stays readable, and verify says which
            found.append(f'"{digest.hex()}":null'.encode())
            continue
        text = json.dumps(raw.decode("utf-8", "replace")).encode()
        shown = raw_json(raw) if isinstance(stored.event, _JSON_BODIES) else text
        found.append(f'"{digest.hex()}":'.encode() + shown)
    return found


def readable(value: Any) -> Any:
    """Return an event, or a value in one, as plain objects: fields by name, digests in hex, policies decoded."""
    if isinstance(value, msgspec.Struct):
        fields = {name: readable(getattr(value, name)) for name in value.__struct_fields__}
        if isinstance(value, ev.PolicyChanged):
            fields["policy"] = _decoded(value.policy)
        nested = not isinstance(value, ev.Base)
        return {"kind": type(value).__name__, **fields} if nested and "kind" not in fields else fields
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple | list):
        return [readable(one) for one in value]
    if isinstance(value, dict):
        return {str(name): readable(one) for name, one in value.items()}
    return value
