"""``diff`` and ``why``: what changed, and which event did it."""

from __future__ import annotations

from typing import Annotated

import typer

from ...projections import compare, provenance
from . import options
from .terminal import emit, moment, say

LISTED = 60
"""So many changed blocks are told one by one; JSON has them all."""


def diff(
    session: options.SessionName,
    left: Annotated[int, typer.Argument(metavar="N", help="The number of a pass.")],
    right: Annotated[int, typer.Argument(metavar="M", help="The number of the pass to hold against it.")],
    db: options.Db = None,
    as_json: options.Json = False,
) -> None:
    """Compare the requests of two passes block by block, and name the event behind each difference.

    First comes the first byte that differs, with the message, part, edit and event that own it.
    """
    with options.reading(db) as engine:
        found = compare.diff(engine.log, engine.find(session), left, right)
    if as_json:
        emit(found)
        return
    sizes = f"pass {left}: {found.left_bytes:,} bytes; pass {right}: {found.right_bytes:,} bytes"
    say(f"{sizes}; {found.same:,} blocks are the same")
    first = found.first
    if first is None and not found.changes:
        say("the requests are the same, byte for byte")
        return
    if first is None:
        shorter, longer = (left, right) if found.left_bytes <= found.right_bytes else (right, left)
        say(f"no byte differs: the request of pass {longer} goes on where that of pass {shorter} ends")
    else:
        place = _place(first.region, first.m, first.p)
        say(f"first difference: byte {first.byte:,} of the request, byte {first.inside:,} of {place}")
        say(f"  pass {left}: {first.was}")
        say(f"  pass {right}: {first.now}")
        say(f"  {_owner(first.owner)}")
    for change in found.changes[:LISTED]:
        told = {
            "changed": f"{change.was:,} -> {change.now:,} bytes, from byte {change.byte:,} on",
            "added": f"{change.now:,} bytes",
            "removed": f"{change.was:,} bytes",
        }[change.kind]
        say(f"{change.kind:8} {_place(change.region, change.m, change.p)}: {told}; {_owner(change.owner)}")
    if len(found.changes) > LISTED:
        say(f"and {len(found.changes) - LISTED:,} more; --json lists all")


def _place(region: str, m: int, p: int) -> str:
    if region == "message":
        return f"message {m}, part {p}" if p >= 0 else f"message {m}"
    if region in ("m0", "m1"):
        return f"m[{region[1]}]"
    if region == "insert":
        return f"what foldlog put behind message {m}"
    return f"the {region}"


def _owner(owner: compare.Owner) -> str:
    if not owner.version:
        return "no event in between owns it"
    at = f" of pass {owner.number}" if owner.number else ""
    return f"by event {owner.version}, {owner.event}{at}" + (f": {owner.edit}" if owner.edit else "")


def why(
    session: options.SessionName,
    tag: Annotated[str, typer.Argument(metavar="TAG", help="The number of a part: 42 or §42§.")],
    db: options.Db = None,
    as_json: options.Json = False,
) -> None:
    """Tell how a numbered part came to its present form: every event behind it, with versions and times."""
    number = tag.strip().strip("§")
    if not (number.isascii() and number.isdigit() and len(number) <= 9):
        raise typer.BadParameter(f"{tag!r} is not the number of a part, such as 42", param_hint="TAG")
    with options.reading(db) as engine:
        stream = engine.find(session)
        found = provenance.why(engine.log, stream, int(number))
    if as_json:
        emit(found)
        return
    place = f"part {found.p} of message {found.m}"
    say(f"§{found.tag}§: {found.kind}, {place}, {found.tokens:,} tokens, {found.size:,} bytes")
    say(f"now {found.status}: {found.present}")
    for step in found.steps:
        place = "" if step.stream == stream else f" of {step.stream.removeprefix('session/')}"
        often = f" ({step.times} times, up to pass {step.until})" if step.times > 1 else ""
        say(f"  event {step.version}{place}, {moment(step.at)}, {step.event}: {step.what}{often}")
