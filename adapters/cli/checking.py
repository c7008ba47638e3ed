"""``audit``, ``verify`` and ``backup``: whether what the store holds is whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ...api import Engine
from ...domain.errors import OptionError, StoreDamaged, UnknownSession, counted
from ...domain.streams import escape
from ...projections.audit import Audit
from ...projections.audit import audit as audit_stream
from ...storage.protocol import Fault, Report
from . import options
from .terminal import emit, progress, say

BEHIND = ("event-altered", "event-missing", "tail-cut")
"""Faults of a stream that holds up to them."""


def audit(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="[SESSION]", show_default=False, help="A session: harness/id, or a bare id that only one has."
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every session of the store, and the store around them.")
    ] = False,
    db: options.Db = None,
    as_json: options.Json = False,
) -> None:
    """Check a session from its events alone: every request is rendered again and held against what was stored.

    Holds only if the chain and its head do, every request renders to its digest, no deferred pass touched a byte served
    before it (or before a divergence of the host's), and the host's messages confirm every divergence. Exit code 1 if
    not. Without a key this finds damage, not a determined forger.
    """
    if (session is None) != every:
        raise OptionError("name one session, or give --all", value=session, where="audit")
    with options.reading(db) as engine:
        faults: Sequence[Fault] = ()
        found: list[Audit] = []
        if session is not None:
            try:
                streams = [engine.find(session)]
            except StoreDamaged as damage:
                streams = [damage.stream]  # its head: the audit itself will say so
            except UnknownSession:
                # a stream that was deleted is unknown too, and that is what an audit is for
                streams, faults = [], _lost(engine, session, quiet=as_json)
                if not faults:
                    raise
        else:
            streams = [head.stream for head in engine.log.heads("session/")]
        for stream in streams:
            found.append(_one(engine, stream, quiet=as_json))
        if every:
            red = {one.stream for one in found if one.differences}
            faults = [fault for fault in _verify(engine, quiet=as_json).faults if fault.stream not in red]
    wrong = sum(len(one.differences) for one in found) + len(faults)
    if as_json:
        passes = sum(one.passes for one in found)
        told = msgspec.to_builtins(found)
        store = msgspec.to_builtins(faults)
        emit({"holds": not wrong, "passes": passes, "differences": wrong, "sessions": told, "store": store})
    else:
        say_audit(found, faults)
    if wrong:
        raise typer.Exit(1)


def _one(engine: Engine, stream: str, *, quiet: bool) -> Audit:
    with progress(f"auditing {stream.removeprefix('session/')}", quiet=quiet) as advance:
        return audit_stream(engine.log, stream, lambda done: advance(done, 0))


def _verify(engine: Engine, *, quiet: bool, **how: Any) -> Report:
    with progress("walking the store", quiet=quiet) as advance:
        return engine.log.verify(progress=lambda _, done, of: advance(done, of), **how)


def _lost(engine: Engine, name: str, *, quiet: bool) -> list[Fault]:
    """Return what ``verify`` finds of a session that cannot be found, and of streams whose names are gone."""
    ends = ("/" + escape(name), f"session/{name}")
    report = _verify(engine, quiet=quiet)
    return [fault for fault in report.faults if fault.stream.endswith(ends) or fault.kind.startswith("stray")]


def say_audit(found: Sequence[Audit], faults: Sequence[Fault] = ()) -> None:
    """Print audits as people read them; the last line is the sum."""
    for one in found:
        say(
            f"{one.stream.removeprefix('session/')}: {_passes(one.passes)}, {counted(one.events, 'event')}, "
            f"{counted(one.bytes, 'byte')} rendered, {counted(one.divergences, 'divergence')} of the host, "
            f"{counted(len(one.differences), 'difference')}"
        )
        for difference in one.differences:
            at = f"pass {difference.number}, " if difference.number else ""
            say(f"  {difference.kind} at {at}event {difference.version}: {difference.message}")
    for fault in faults:
        say(f"store: {_fault(fault)}")
    wrong = sum(len(one.differences) for one in found) + len(faults)
    say(f"{_passes(sum(one.passes for one in found))} verified, {counted(wrong, 'difference')}")


def _passes(number: int) -> str:
    return counted(number, "pass", "passes")


def verify(
    repair: Annotated[
        bool, typer.Option("--repair", help="Write heads that are missing, altered or behind, after a walk that holds.")
    ] = False,
    accept_loss: Annotated[
        str,
        typer.Option(
            "--accept-loss",
            metavar="STREAM",
            show_default=False,
            help="Move the head of this stream back to its last event that holds. What is behind it is put aside.",
        ),
    ] = "",
    db: options.Db = None,
    as_json: options.Json = False,
) -> None:
    """Walk every chain, head and chunk of the store. Exit code 1 if something is wrong and was not mended."""
    with options.reading(db) as engine:
        report = _verify(engine, quiet=as_json, repair=repair, accept_loss=accept_loss)
    if as_json:
        emit({"holds": not report.faults, **msgspec.to_builtins(report)})
    else:
        for fault in report.repaired:
            say(f"mended: {_fault(fault)}")
        for fault in report.faults:
            say(f"{_fault(fault)}{_remedy(fault)}")
        walked = ((report.streams, "stream"), (report.events, "event"), (report.chunks, "chunk"))
        say(f"{', '.join(counted(*one) for one in walked)} walked, {counted(len(report.faults), 'fault')}")
    if report.faults:
        raise typer.Exit(1)


def _remedy(fault: Fault) -> str:
    if fault.repairable:
        return "; --repair mends it"
    if fault.kind == "event-newer":
        return ""
    loss = f", or go on without what is behind it: --accept-loss {fault.stream}" if fault.kind in BEHIND else ""
    return f"; restore a backup{loss}"


def _fault(fault: Fault) -> str:
    at = f" @ {fault.version}" if fault.version else ""
    place = f"{fault.stream}{at}: " if fault.stream else ""
    return f"{fault.kind}: {place}{fault.message}"


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy goes; the file must not be there yet.")],
    db: options.Db = None,
    as_json: options.Json = False,
) -> None:
    """Write a consistent copy of the store to a new file, while others may be using it."""
    with options.reading(db) as engine:
        size = engine.log.backup(file)
    if as_json:
        emit({"file": str(file), "bytes": size})
    else:
        say(f"{size:,} bytes written to {file}")
