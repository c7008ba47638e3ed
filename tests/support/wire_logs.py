"""Small and random wire logs for the tests of billing."""

import hashlib
import random

from foldlog.adapters.billing.records import Record


def block(name, tokens):
    """A block known by its name and size."""
    return hashlib.sha256(f"{name}/{tokens}".encode()).hexdigest()[:16], 4 * tokens, tokens


def blocks(*sizes, name="b"):
    """One block for each size, named by its place."""
    return tuple(block(f"{name}{place}", size) for place, size in enumerate(sizes))


def record(given, marks=None, at=1_000, **more):
    """A record of one session; ``marks`` as indexes, negative ones from the end."""
    points = None if marks is None else tuple(sorted({mark % len(given) for mark in marks}))
    fields = {"session": "s", "model": "claude-sonnet-4-5", "level": "defer", "output_tokens": 0, **more}
    return Record(at=at, blocks=tuple(given), breakpoints=points, **fields)


def random_log(seed):
    """Two sessions that grow, change, shrink, wait and switch models; some requests refused, some added."""
    r = random.Random(seed)
    out, at, prompts, sizes = [], 1_000, {}, {}

    def new():
        name = r.randrange(3_000)
        return block(name, sizes.setdefault(name, r.choice([0, 1, 30, 127, 128, 500, 2_000, 5_000])))

    for _ in range(r.randint(5, 50)):
        session = r.choice("ab")
        now = prompts.get(session, ())
        turn = r.random()
        if turn < 0.7:
            now += tuple(new() for _ in range(r.randint(0, 30)))
        elif turn < 0.85 and now:
            place = r.randrange(len(now))
            now = (*now[:place], new(), *now[place + 1 :])
        elif now:
            now = now[: r.randrange(len(now))] + now[r.randrange(len(now)) :]
        prompts[session] = now
        at += r.choice([0, 1_000, 100_000, 300_000, 300_001, 2_000_000, -5_000])
        marks = r.choice([None, r.sample(range(len(now)), min(len(now), r.randint(0, 4))), [0, -1] if now else None])
        out.append(
            record(
                now,
                marks,
                at,
                session=session,
                model=r.choice(["claude-opus-4-6", "claude-opus-4-6", "another"]),
                level=r.choice(["defer", "defer", "hard", "soft+"]),
                output_tokens=r.choice([None, 5, 300]),
                kind=r.choice(["main"] * 6 + ["summary", "refused"]),
                reasons=r.choice([(), ("flush",)]),
            )
        )
    return out
