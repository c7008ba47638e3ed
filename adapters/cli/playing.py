"""``simulate`` and ``demo``: recorded sessions played through the engine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer

from ...api import Engine
from ...domain.errors import OptionError, counted
from ...domain.streams import session_stream
from ...projections.audit import Audit, audit
from ..billing.profiles import PROFILES
from ..billing.records import Record
from ..models.tokens import tokenizer
from ..simulate.arms import Arms, compared
from ..simulate.play import HARNESS, WINDOW, Played, Playing, play
from ..traces.bundled import bundled
from ..traces.model import Trace
from ..traces.reader import load
from . import costing, options
from .checking import say_audit
from .terminal import emit, number, plain, progress, say, table, warn

NAMED = 20
"""So many broken lines are named one by one; JSON has them all."""
DEMO_WINDOW = 100_000
"""Small enough that the bundled session feels its edge."""
DEMO_PROFILE = "anthropic-5m"

Window = Annotated[
    int, typer.Option("--window", min=0, max=1 << 40, metavar="N", help="The model's window in tokens; 0 for unknown.")
]


def simulate(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE",
            help="A recorded session: a log of Claude Code, Pi or mini-swe, an array of OpenAI chat or Anthropic "
            "messages, or a trace of foldlog's own. The format is told by what is in the file.",
        ),
    ],
    db: Annotated[
        str | None,
        typer.Option(
            "--db", metavar="URL", show_default=False, help="Keep the session in this store; else it is in memory only."
        ),
    ] = None,
    session: Annotated[
        str, typer.Option("--session", metavar="ID", show_default=False, help="The id it gets; else the file's name.")
    ] = "",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="key=value",
            show_default=False,
            help="A setting of the policy, such as execute_threshold_percentage=50 or cache_ttl=1h; may be repeated.",
        ),
    ] = None,
    window: Window = WINDOW,
    profile: Annotated[
        str,
        typer.Option(
            "--profile",
            metavar="NAME",
            show_default=False,
            help="Let a simulated provider answer, with this prompt cache, and bill it: "
            f"{', '.join(PROFILES)}. Without it the recorded usage is told.",
        ),
    ] = "",
    summarizer: Annotated[
        str,
        typer.Option("--summarizer", metavar="NAME", help=f"Who summarises older history: {costing.SUMMARIZERS}."),
    ] = "extractive",
    system_tokens: Annotated[
        int,
        typer.Option(
            "--system-tokens",
            min=0,
            max=1 << 40,
            metavar="N",
            help="Tokens that stand in, in every arm, for system and tools a trace lacks.",
        ),
    ] = 0,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE.html",
            show_default=False,
            help="Write the bill as one HTML file with charts; without --profile on the one the model points to.",
        ),
    ] = None,
    wire_log: Annotated[
        Path | None,
        typer.Option(
            "--wire-log", metavar="FILE", show_default=False, help="Write a JSON line a request (specs/wire-log.md)."
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Play a recorded session request by request and show at what level each would have been sent, and why.

    Times are the recorded ones. Usage is the recorded one as far as it applies: less what foldlog removed, and carried
    on by our own count where the host itself compacted. With --profile a simulated provider answers instead, and the
    session is billed beside doing nothing and compacting once. The agent's own ctx_reduce calls are obeyed, summaries
    are made between the requests. Refused requests are counted and the play goes on. To ask about it afterwards
    (passes, show, diff, why, audit), keep it with --db.
    """
    policy = options.policy(setting or ())
    summaries = costing.summarizer(summarizer)
    if profile:
        costing.chosen_profile(profile, "", needed=True)  # a wrong name is said before anything is read
    recorded = load(trace)
    cache = costing.chosen_profile(profile, recorded.model, needed=report is not None)
    _name_broken(trace, recorded, quiet=as_json)
    records: list[Record] = []
    with ExitStack() as stack:
        engine = stack.enter_context(Engine.open("memory:" if db is None else db, summarizer=None))
        out = None if wire_log is None else stack.enter_context(_writing(wire_log))
        how = Playing(
            session=session,
            window=window,
            policy=policy,
            wire_log=out,
            profile=cache,
            summarizer=summaries,
            system_tokens=system_tokens,
            taken=None if cache is None else records.append,
        )
        played = _play(engine, recorded, how, quiet=as_json)
    arms = None if cache is None else compared(recorded, records, cache, tokenizer(), window, system_tokens)
    if arms is not None and report is not None:
        costing.write_report(report, arms, played)
    if as_json:
        emit(_told(played, arms, report))
        return
    kept = "in memory only; --db keeps it" if db is None else f"kept as {played.harness}/{played.session}"
    _say_played(played, kept)
    if arms is not None:
        costing.say_bill(arms)
    if wire_log is not None:
        say(f"wire log: {wire_log}")
    if report is not None:
        say(f"report: {report}")


def demo(
    db: Annotated[
        str | None,
        typer.Option(
            "--db", metavar="URL", show_default=False, help="Keep the session in this store; else in a temporary file."
        ),
    ] = None,
    window: Window = DEMO_WINDOW,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE.html",
            show_default=False,
            help="Where the report goes; else foldlog-demo.html in the folder for temporary files.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Play the bundled session against a simulated provider, table its passes and its bill, and audit it.

    Needs no key and no network. Writes a report of one HTML file, and ends with the audit's line; exit code 1 if
    anything does not hold.
    """
    trace = bundled()
    cache = PROFILES[DEMO_PROFILE]
    records: list[Record] = []
    with ExitStack() as stack:
        url = db
        if url is None:
            made = tempfile.TemporaryDirectory(prefix="foldlog-demo-", ignore_cleanup_errors=True)
            folder = stack.enter_context(made)
            url = f"sqlite:///{Path(folder) / 'demo.db'}"
        with Engine.open(url, summarizer=None) as engine:
            name = _free(engine, trace.name)
            summaries = costing.summarizer("extractive")
            how = Playing(session=name, window=window, profile=cache, summarizer=summaries, taken=records.append)
            played = _play(engine, trace, how, quiet=as_json)
        with options.reading(url) as again:
            found = _audit(again, session_stream(HARNESS, name), played.requests, quiet=as_json)
    arms = compared(trace, records, cache, tokenizer(), window)
    written = report or Path(tempfile.gettempdir()) / "foldlog-demo.html"
    costing.write_report(written, arms, played)
    if as_json:
        emit({**_told(played, arms, written), "audit": msgspec.to_builtins(found)})
    else:
        _say_played(played, "in a temporary file" if db is None else f"kept as {HARNESS}/{name}")
        costing.say_bill(arms)
        say(f"report: {written}")
        say_audit([found])
    if found.differences:
        raise typer.Exit(1)


def _play(engine: Engine, trace: Trace, how: Playing, *, quiet: bool) -> Played:
    with progress(f"playing {trace.name}", quiet=quiet) as advance:
        return play(engine, trace, how, advance)


def _audit(engine: Engine, stream: str, passes: int, *, quiet: bool) -> Audit:
    with progress("auditing", quiet=quiet) as advance:
        return audit(engine.log, stream, lambda done: advance(done, passes))


def _free(engine: Engine, name: str) -> str:
    """Return the name, or the first of name-2, name-3 … that no session of the store has."""
    count, free = 1, name
    while engine.log.head(session_stream(HARNESS, free)) is not None:
        count += 1
        free = f"{name}-{count}"
    return free


@contextmanager
def _writing(path: Path) -> Iterator[BinaryIO]:
    try:
        out = path.open("wb")
    except (OSError, ValueError) as error:
        raise OptionError(f"the file cannot be written ({error}); choose another place", value=str(path)) from None
    with out:
        yield out


def _name_broken(path: Path, trace: Trace, *, quiet: bool) -> None:
    if quiet or not trace.skipped:
        return
    for one in trace.skipped[:NAMED]:
        warn(f"{path}:{one.line}: {one.why}; skipped")
    more = len(trace.skipped) - NAMED
    if more > 0:
        warn(f"{path}: {counted(more, 'more line')} skipped")


def _told(played: Played, arms: Arms | None, report: Path | None) -> dict[str, object]:
    told: dict[str, object] = msgspec.to_builtins(played)
    told["levels"] = {one: played.count(one) for one in ("hard", "soft", "soft+", "defer", "refused")}
    if arms is not None:
        told["bill"] = costing.told(arms)
    if report is not None:
        told["report"] = str(report)
    return told


def _say_played(played: Played, kept: str) -> None:
    window = f"a window of {played.window:,} tokens" if played.window else "an unknown window"
    named = f"{played.trace} ({played.codec}, {played.model or 'no model named'})"
    say(f"{named}, {counted(played.requests, 'request')} on {window}, {kept}")
    table(("level", "cause", "passes"), [(one.level, one.cause, one.passes) for one in played.passes], right=(2,))
    refused = sum(played.refusals.values())
    named = ", ".join(f"{code} {count}" for code, count in played.refusals.items())
    reported = number(played.largest_prompt)
    said = f"drops landed: {played.landed:,} ({played.freed:,} tokens), {played.queued:,} still queued"
    if played.reduces:
        said += f"; ctx_reduce called {counted(played.reduces, 'time')}, {played.refused_reduces:,} with an error"
    say(said)
    say(costing.summary_line(played))
    say(f"largest prompt: {played.largest_request:,} tokens by our count, {reported} by the provider's")
    beyond = counted(played.overflows, "request")
    over = f"; {beyond} over the window told as the provider's" if played.overflows else ""
    say(f"refusals: {refused:,}" + (f" ({named})" if named else "") + over)
    say("usage told: " + (", ".join(f"{count:,} {name}" for name, count in played.usage.items()) or "none"))
    times = played.pass_ms
    say(f"time per pass: {times.mean} ms mean, {times.p50} median, {times.p99} 99th, {times.longest} longest")
    if played.skipped:
        say(plain(f"broken lines skipped: {len(played.skipped):,}"))
