"""The budgets of ``design.md`` 8 that the spine can hold, measured as ratios in one run: ``make bench``.

Content is fresh in every pass (the generator never repeats a paragraph), so no cache of ours is hit by repeated texts.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import itertools
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import end_to_end
from bench import proxied as requests
from bench.floor import Floor

import foldlog
from foldlog.adapters.models.tokens import tokenizer
from foldlog.adapters.traces.generator import stream
from foldlog.domain import events as ev
from foldlog.projections import fold
from foldlog.projections.wire import CURRENT, wire

SIZES = (100, 1_000, 10_000, 50_000)
SAMPLES = 240
POLICY = {"cache_ttl": "never"}
HUGE = 1_000_000_000


def main() -> int:
    """Run the asked-for budgets, print a line each, return 1 where one that must hold does not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="sizes up to 1,000 messages only")
    parser.add_argument("--only", choices=sorted(BUDGETS), action="append", help="one budget (may be repeated)")
    options = parser.parse_args()
    sizes = SIZES[:2] if options.quick else SIZES
    held = True
    for name in options.only or sorted(BUDGETS):
        with tempfile.TemporaryDirectory(prefix="foldlog-bench-") as folder:
            held = BUDGETS[name](Path(folder), sizes) and held
    return 0 if held else 1


def deferred(folder: Path, sizes: tuple[int, ...]) -> bool:
    """1. A deferred pass to which the host hands only what is new: p50 <= 2.5 floors, p99 <= 4 p50, flat."""
    say("1", "deferred pass, incremental door", "p50 ≤ 2.5 × floor; p99 ≤ 4 × p50; p50 flat within 1.25")
    samples: dict[int, tuple[list[float], list[float]]] = {}
    for size in sizes:
        samples[size] = ([], [])
        runs = 6 if size == sizes[0] else 1
        for seed in range(runs):
            session, steps, floor = fresh(folder, f"d{size}-{seed}", seed + size)
            grow(session, steps, size - (SAMPLES if size > 500 else 50))
            for step in itertools.islice(steps, SAMPLES // runs):
                mine, its = timed(session, step.messages, step.at, floor)
                samples[size][0].append(mine)
                samples[size][1].append(its)
    ratios: dict[int, float] = {}
    good = True
    for size, (mine, its) in samples.items():
        p50, base = quantile(mine, 50), quantile(its, 50)
        ratios[size] = p50 / base
        # new content varies from 50 to 60,000 tokens a pass, so the tail is that of pass over floor on the same bytes
        each = [a / b for a, b in zip(mine, its, strict=True)]
        tail = quantile(each, 99) / quantile(each, 50)
        good = good and ratios[size] <= 2.5 and tail <= 4
        show(
            f"{size:>6} messages",
            f"p50 {p50 * 1e3:.2f} ms = {ratios[size]:.2f} × floor ({base * 1e3:.2f} ms)",
            f"p99 of pass / floor is {tail:.1f} × its p50 (raw p99: {quantile(mine, 99) / p50:.1f} × p50, the floor's "
            f"own {quantile(its, 99) / base:.1f})",
        )
    flat = ratios[sizes[-1]] / ratios[sizes[0]]
    show("flat", f"{flat:.2f} (p50 in floors at {sizes[-1]:,} over {sizes[0]:,} messages)")
    return verdict(good and flat <= 1.25)


def whole(folder: Path, sizes: tuple[int, ...]) -> bool:
    """2. The host hands over its whole array of 10k messages: <= 1.5 x decoding and encoding that array once.

    The pass alone, and with the array that comes back, as bytes and as Python objects (which are decoded anew).
    """
    size = min(10_000, sizes[-1])
    say("2", f"deferred pass, whole array of {size:,} messages", "≤ 1.5 × decode + encode of the array with msgspec")
    good = True
    for length in (size, *(n for n in sizes if n > size)):
        session, steps, _ = fresh(folder, f"w{length}", 7)
        array: list[Any] = []
        for step in steps:
            array += [msgspec.json.decode(raw) for raw in step.messages]
            if len(array) >= length:
                break
        request = session.prepare(array)
        assert request.messages_json
        rows = []
        for step in itertools.islice(steps, 12):
            array += [msgspec.json.decode(raw) for raw in step.messages]
            begin = perf_counter()
            request = session.prepare(array, now=step.at / 1000)
            passed = perf_counter()
            assert len(request.messages_json) >= len(array)
            back = perf_counter()
            assert len(request.messages) >= len(array)
            decoded = perf_counter()
            encoded = msgspec.json.encode(array)
            msgspec.json.decode(encoded)
            end = perf_counter()
            rows.append((passed - begin, back - begin, decoded - begin, end - decoded))
        took, bytes_back, objects_back, base = (statistics.median(column) for column in zip(*rows, strict=True))
        good = good and bytes_back <= 1.5 * base
        show(
            f"{length:>6} messages ({len(encoded) / 1e6:.0f} MB)",
            f"pass {took * 1e3:.0f} ms = {took / base:.2f} × ({base * 1e3:.0f} ms)",
            f"with the array back as JSON {bytes_back / base:.2f} ×, as Python objects {objects_back / base:.2f} ×",
        )
    return verdict(good)


def through_the_proxy(folder: Path, sizes: tuple[int, ...]) -> bool:
    """3b. A proxied request that extends the last one: <= 2 x (compare + copy + scan of the new span) + an append."""
    say("3b", "a proxied request that extends the last one, end to end", "≤ 2 × (compare + copy + scan) + one append")
    good = True
    for tokens in end_to_end.TOKENS[:1] if sizes[-1] < 10_000 else end_to_end.TOKENS:
        took = end_to_end.measure(folder, tokens)
        most = 2 * took["base"] + took["append"]
        good = good and took["more"] <= most
        show(
            f"{tokens:,} tokens ({took['bytes'] / 1e6:.1f} MB)",
            f"foldlog {took['ours'] * 1e3:.1f} ms = {took['ours'] / took['plain']:.2f} × a plain proxy "
            f"({took['plain'] * 1e3:.1f} ms)",
            f"added {took['more'] * 1e3:.1f} ms = {took['more'] / most:.2f} × the budget ({took['base'] * 1e3:.1f} ms "
            f"twice, {took['append'] * 1e3:.1f} ms), {took['more'] / took['floor']:.1f} × the floor of its pass",
        )
    return verdict(good, must=False)


def folding(folder: Path, sizes: tuple[int, ...]) -> bool:
    """4. A fold at 10k messages and 500 compartments: <= 100 ms."""
    messages, compartments = (10_000, 500) if sizes[-1] > 1_000 else (1_000, 50)
    say("4", f"a fold at {messages:,} messages and {compartments} compartments", "≤ 100 ms")
    session, steps, _ = fresh(folder, "f", 13)
    grow(session, steps, messages)
    summarised(session, compartments, messages * 19 // 20)
    first = timed_fold(session, steps, "all compartments are rendered for the first time")
    again = min(timed_fold(session, steps, "as they were rendered before") for _ in range(3))
    return verdict(first <= 0.1 and again <= 0.1, must=False)


def proxied(folder: Path, sizes: tuple[int, ...]) -> bool:
    """3. A proxied request that extends the last one: <= 2 x (compare + copy + scan) + one durable append.

    The pass inside it has budget 1, which counts tokenising and compressing the new bytes too: it stands beside.
    """
    say("3", "a proxied request that extends the last one", "≤ 2 × (compare + copy of the body + scan) + one append")
    good = True
    for tokens in requests.TOKENS if sizes[-1] > 1_000 else requests.TOKENS[:1]:
        ours, own, handled, append, floor = requests.median(list(requests.measure(folder, tokens)))
        good = good and ours <= 2 * handled + append
        show(
            f"{tokens:>9,} tokens: {ours * 1e3:.2f} ms = {ours / (2 * handled + append):.2f} × the budget",
            f"around the pass {(ours - own) * 1e3:.2f} ms = {(ours - own) / handled:.2f} × (compare, copy, scan "
            f"{handled * 1e3:.2f} ms)",
            f"the pass {own * 1e3:.2f} ms = {own / floor:.2f} × its floor ({floor * 1e3:.2f} ms; a bare append "
            f"{append * 1e3:.2f} ms)",
        )
    return verdict(good, must=False)


def summarised(session: foldlog.Session, compartments: int, covered: int) -> None:
    """Publish ``compartments`` of equal length over the first ``covered`` messages, as a summariser would."""
    state = session.core.hot().state
    size = covered // compartments
    texts: dict[bytes, bytes] = {}

    def keep(text: str) -> bytes:
        digest = hashlib.sha256(text.encode()).digest()
        texts[digest] = text.encode()
        return digest

    found = []
    for n in range(compartments):
        first, last = state.path[n * size], state.path[(n + 1) * size - 1]
        tiers = [f"Stretch {n}: " + f"worked on file_{n}.py and saw {n * 7} of it. " * k for k in (12, 5, 2, 1)]
        p1, p2, p3, p4 = (keep(text) for text in tiers)
        counts = (330, 140, 60, 35)
        found.append(ev.Compartment(n, first, last, keep(f"Stretch {n}"), (p1, p2, p3, p4), counts, 1 + n * 37 % 100))
    for n in range(0, compartments, 100):
        event = ev.HistorianPublished(0, "", f"run-{n}", tuple(found[n : n + 100]), (), (), ())
        session.core.command(lambda _hot, _at, event=event: [event], texts=texts)


def timed_fold(session: foldlog.Session, steps: Iterator[Any], what: str) -> float:
    """Return the seconds of a pass that folds, the cache having been reported lost."""
    step = next(steps)
    session.report_cache_loss("bench")
    begin = perf_counter()
    request = session.advance(step.messages, now=step.at / 1000)
    took = perf_counter() - begin
    assert request.level == "hard"
    show("fold", f"{took * 1e3:.0f} ms, {what}")
    return took


def memory(folder: Path, sizes: tuple[int, ...]) -> bool:
    """7. Memory of each further hot session: <= 1 x raw + 1.5 kB a part + 20 MB."""
    size = min(10_000, sizes[-1])
    say("7", f"memory of a further hot session of {size:,} messages", "≤ 1 × raw + 1.5 kB a part + 20 MB")
    engine = foldlog.Engine.open(f"sqlite:///{folder / 'm.db'}", summarizer=None)
    sessions = []
    used, allowed = 0, 0
    for n in range(2):
        session = named(engine, f"m{n}")
        before = resident()
        raw = parts = count = 0
        for step in stream(20 + n):
            raw += sum(map(len, step.messages))
            count += len(step.messages)
            session.advance(step.messages, now=step.at / 1000)
            if count >= size:
                break
        parts = sum(len(node.message.parts) for node in session.core.hot().state.nodes)
        sessions.append(session)
        used, allowed = resident() - before, raw + 1_500 * parts + 20_000_000
    show("the second session", f"{used / 1e6:.1f} of {allowed / 1e6:.1f} MB ({raw / 1e6:.1f} MB raw, {parts:,} parts)")
    return verdict(used <= allowed, must=False)


def resident() -> int:
    """Return the resident bytes of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def opening(folder: Path, sizes: tuple[int, ...]) -> bool:
    """5. Opening a session of 100k events: <= 150 ms from a snapshot, <= 1.5 s without."""
    events = 100_000 if sizes[-1] > 1_000 else 5_000
    say("5", f"opening a session of {events:,} events", "≤ 150 ms from a snapshot, ≤ 1.5 s without")
    path = folder / "o.db"
    with foldlog.Engine.open("memory:", summarizer=None) as engine:
        session = named(engine, "o")
        for step in stream(11):
            request = session.advance(step.messages, now=step.at / 1000)
            request.report_usage(input=5, cache_read=1_000, cache_write=50, output=20)
            if request.pass_number * 3 >= events:
                break
        session.core.log.backup(path)
        name = session.core.stream
    cold, warm, saved = [], [], []
    for _ in range(5):
        with foldlog.Engine.open(f"sqlite:///{path}", summarizer=None) as engine:
            begin, own = perf_counter(), process_time()
            folded = fold.load(engine.log, name, snapshots=False)
            cold.append((perf_counter() - begin, process_time() - own))
            version, digest = folded.state.version, folded.digest
            body = msgspec.msgpack.encode((folded.state, folded.view))
            begin = perf_counter()
            engine.log.save_snapshot(name, version, digest, fold.FORM, body)
            saved.append(perf_counter() - begin)
            del folded
        with foldlog.Engine.open(f"sqlite:///{path}", summarizer=None) as engine:
            begin, own = perf_counter(), process_time()
            folded = fold.load(engine.log, name)
            warm.append((perf_counter() - begin, process_time() - own))
            assert folded.snapshot == version
            del folded
    show("without", f"{least(cold)} for {version:,} events")
    show("from a snapshot", f"{least(warm)}, {len(body) / 1e6:.1f} MB (keeping it: {min(saved) * 1e3:.0f} ms)")
    return verdict(min(cold)[0] <= 1.5 and min(warm)[0] <= 0.15, must=False)


def least(taken: list[tuple[float, float]]) -> str:
    """Say the least of several times: by the clock, which counts, and of it this process's own."""
    return f"{min(wall for wall, _ in taken) * 1e3:.0f} ms (processor {min(own for _, own in taken) * 1e3:.0f} ms)"


def size_of_log(folder: Path, sizes: tuple[int, ...]) -> bool:
    """6. Log size: <= 0.55 x raw JSON of messages and revised parts + 400 B a deferred pass + 4 kB a rebuild."""
    say("6", "size of the log", "≤ 0.55 × raw JSON + 400 B a deferred pass + 4 kB a rebuild (attachments apart)")
    good = True
    for size in sizes:
        path = folder / f"s{size}.db"
        raw = deferrals = rebuilds = count = 0
        with foldlog.Engine.open(f"sqlite:///{path}", summarizer=None) as engine:
            session = engine.session("s", codec="anthropic", model="claude-sonnet-4-5", context_limit=HUGE)
            for step in stream(size):
                media = sum(len(m) for m in step.messages if b'"base64"' in m)
                raw += sum(map(len, step.messages)) - media
                count += len(step.messages)
                request = session.advance(step.messages, now=step.at / 1000)
                request.report_usage(input=5, cache_read=1_000, cache_write=50, output=20)
                deferrals += request.level == "defer"
                rebuilds += request.level != "defer"
                if count >= size:
                    break
        taken = Path(path).stat().st_size
        allowed = 0.55 * raw + 400 * deferrals + 4_096 * rebuilds
        good = good and taken <= allowed
        show(
            f"{count:>6} messages",
            f"{taken:,} of {allowed:,.0f} B = {taken / allowed:.2f} of the budget; {taken / raw:.2f} × raw JSON",
        )
    return verdict(good)


def postgres(folder: Path, sizes: tuple[int, ...]) -> bool:
    """8. PostgreSQL: >= 500 appends a second over many sessions."""
    from foldlog.storage.protocol import open_log
    from support.pg import server

    say("8", "PostgreSQL, 16 sessions in 4 threads", "≥ 500 appends a second")
    import threading

    with server() as fresh_url:
        url = fresh_url()
        logs = [open_log(url) for _ in range(4)]
        each = 400

        def work(log: Any, which: int) -> None:
            versions = [0] * 4
            for n in range(each):
                at = n % 4
                event = ev.UsageReported(n, f"{which}-{n}", n, n, 1, 2, 3, 4)
                log.append(f"session/b/{which}-{at}", versions[at], [event])
                versions[at] += 1

        begin = perf_counter()
        threads = [threading.Thread(target=work, args=(log, i)) for i, log in enumerate(logs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rate = each * len(logs) / (perf_counter() - begin)
        for log in logs:
            log.close()
    show("appends", f"{rate:,.0f} a second")
    return verdict(rate >= 500, must=False)


def fresh(folder: Path, name: str, seed: int) -> tuple[foldlog.Session, Iterator[Any], Floor]:
    """Return a new session on SQLite, endless fresh content for it, and a floor beside it."""
    engine = foldlog.Engine.open(f"sqlite:///{folder / name}.db", summarizer=None)
    return named(engine, name), stream(seed), Floor(folder / f"{name}-floor.db")


def named(engine: foldlog.Engine, name: str) -> foldlog.Session:
    """Return a session that nothing but new messages ever happens to."""
    return engine.session(name, codec="anthropic", model="claude-sonnet-4-5", context_limit=HUGE, policy=POLICY)


def grow(session: foldlog.Session, steps: Iterator[Any], messages: int) -> None:
    """Bring a session to a length, many messages a pass."""
    count, waiting = 0, []
    for step in steps:
        waiting += step.messages
        count += len(step.messages)
        if len(waiting) > 400 or count >= messages:
            session.advance(waiting, now=step.at / 1000)
            waiting = []
        if count >= messages:
            return


def timed(session: foldlog.Session, messages: tuple[bytes, ...], at: int, floor: Floor) -> tuple[float, float]:
    """Return the seconds of a pass and of its floor, on the same bytes."""
    texts: list[str] = []
    form = wire(CURRENT)
    for raw in messages:
        form.read("anthropic", raw, lambda text: texts.append(text) or 0)  # type: ignore[func-returns-value]
    begin = perf_counter()
    session.advance(messages, now=at / 1000)
    return perf_counter() - begin, floor.measure(list(messages), texts)


def quantile(values: list[float], percent: int) -> float:
    """Return a quantile of measured seconds."""
    return statistics.quantiles(values, n=100)[percent - 1]


def say(number: str, what: str, budget: str) -> None:
    """Print a budget's heading."""
    print(f"\nbudget {number}: {what}\n  {budget}", flush=True)


def show(*pieces: str) -> None:
    """Print one measured line."""
    print("   ", "; ".join(pieces), flush=True)


def verdict(holds: bool, *, must: bool = True) -> bool:
    """Print whether a budget holds; one that need not hold yet never fails the run."""
    print("  holds" if holds else "  DOES NOT HOLD", flush=True)
    return holds or not must


BUDGETS = {
    "1": deferred,
    "2": whole,
    "3": proxied,
    "3b": through_the_proxy,
    "4": folding,
    "7": memory,
    "5": opening,
    "6": size_of_log,
    "8": postgres,
}

if __name__ == "__main__":
    tokenizer()
    raise SystemExit(main())
