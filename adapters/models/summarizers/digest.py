"""The evidence of one compartment, joined over its turns: no duplicates, final states, short paths."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from .evidence import Doing, Saying, Seen
from .text import Line, clip

_DECISIONS = range(4, 15)
"""At least and below how many decisions a compartment keeps; between, one for eight turns."""
_ERRORS = 10
_NAMES = 10


class Failure(msgspec.Struct, frozen=True):
    """A command that failed at least once. ``open``: neither it nor its kind succeeded afterwards."""

    text: str
    open: bool


class Digest(msgspec.Struct, frozen=True):
    """What the tiers are written from; every list in order of appearance.

    ``decided``: the weightiest sentences; ``best`` the one that tells most, or ``""``. ``edited``, ``looked``: paths
    below ``root``, or whole where they lie elsewhere. ``first``: what the assistant said first.
    """

    lines: tuple[Line, ...]
    commits: tuple[tuple[str, str], ...]
    root: str
    edited: tuple[str, ...]
    looked: tuple[str, ...]
    failed: tuple[Failure, ...]
    decided: tuple[str, ...]
    best: str
    errors: tuple[str, ...]
    ran: tuple[str, ...]
    names: tuple[str, ...]
    first: str


def root_of(seen: Sequence[Seen]) -> str:
    """Return the folder most paths of a stretch lie under, or ``""``.

    Where the same file is named both absolutely and relatively, the difference is the root; else it is the folder
    commands were run in that holds most; else the deepest that holds nine tenths of the absolute paths.
    """
    paths = Counter(file.path for one in seen for doing in one.doings for file in doing.act.files)
    absolute = {path: n for path, n in paths.items() if path.startswith("/")}
    relative = sorted(path for path in paths if "/" in path.lstrip("/") and not path.startswith(("/", "~", "..")))
    votes: Counter[str] = Counter()
    for path in absolute:
        votes.update(path[: -len(rel) - 1] for rel in relative[:400] if path.endswith("/" + rel))
    if votes:
        return min(votes, key=lambda folder: (-votes[folder], folder))
    entered = {doing.act.folder for one in seen for doing in one.doings if doing.act.folder.count("/") > 1}
    held = {folder: sum(n for path, n in absolute.items() if path.startswith(folder + "/")) for folder in entered}
    if any(held.values()):
        return min(held, key=lambda folder: (-held[folder], -len(folder), folder))
    folders: Counter[str] = Counter()
    for path, n in absolute.items():
        folder = posixpath.dirname(path)
        while folder.count("/") >= 2:
            folders[folder] += n
            folder = posixpath.dirname(folder)
    enough = sum(absolute.values()) * 9
    most = [folder for folder, n in folders.items() if n * 10 >= enough]
    return max(most, key=lambda folder: (folder.count("/"), folder), default="") if len(absolute) > 1 else ""


def digest(seen: Sequence[Seen], root: str) -> Digest:
    """Join the evidence of the turns of one compartment."""
    doings = [doing for one in seen for doing in one.doings]
    edited, looked = _files(doings, root)
    decided = _decided([saying for one in seen for saying in one.sayings], len(seen))
    failed, ran = _commands([doing for doing in doings if doing.act.ran], root)
    used = root if any(f.path.startswith(root + "/") for d in doings for f in d.act.files) else ""
    names = Counter(name for one in seen for name in one.names)
    common = sorted((n for n in names if names[n] > 1), key=lambda n: (-names[n], n))[:_NAMES]
    return Digest(
        lines=_lines(line for one in seen for line in one.lines),
        commits=_commits(pair for one in seen for pair in one.commits),
        root=used if root else "",
        edited=edited,
        looked=looked,
        failed=failed,
        decided=tuple(saying.text for saying in sorted(decided, key=lambda s: s.position)),
        best=decided[0].text if decided else "",
        errors=_errors(doings),
        ran=(*ran, *_tools(doings)),
        names=tuple(common),
        first=next((one.first for one in seen if one.first), ""),
    )


def _lines(lines: Iterable[Line]) -> tuple[Line, ...]:
    out: dict[str, Line] = {}
    for line in lines:
        key = line.text.casefold()
        out.setdefault(key, line if line.binds else Line(clip(line.text, 160), False))
    return tuple(out.values())


def _commits(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Join abbreviations of one hash; the longest is kept, so every form that was said is found in it."""
    out: dict[str, tuple[str, str]] = {}
    for given, subject in pairs:
        known = next((k for k in out if k.startswith(given) or given.startswith(k)), None)
        if known is None:
            out[given] = (given, subject)
            continue
        old, told = out[known]
        out[known] = (max(old, given, key=len), told or subject)
    return tuple(out.values())


def _short(path: str, root: str) -> str:
    return path[len(root) + 1 :] if root and path.startswith(root + "/") else path


def _files(doings: Iterable[Doing], root: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    edited: dict[str, None] = {}
    looked: dict[str, None] = {}
    for doing in doings:
        if doing.outcome.state in ("refused", "open"):
            continue
        for file in doing.act.files:
            # a command may have written before it failed, an edit that failed wrote nothing
            wrote = file.written and (doing.outcome.state == "ok" or doing.act.ran)
            (edited if wrote else looked)[_short(file.path, root)] = None
    return tuple(edited), tuple(path for path in looked if path not in edited)


def _decided(sayings: list[Saying], turns: int) -> list[Saying]:
    """Return the weightiest sentences, best first; of equal weight the later, which knew more."""
    unlike: dict[str, Saying] = {}
    for saying in sayings:
        unlike[saying.text.casefold()[:60]] = saying
    most = min(max(_DECISIONS.start, turns // 8), _DECISIONS.stop - 1)
    return sorted(unlike.values(), key=lambda s: (-s.weight, -s.position, s.text))[:most]


def _commands(doings: list[Doing], root: str) -> tuple[tuple[Failure, ...], tuple[str, ...]]:
    runs: dict[str, list[Doing]] = {}
    last: dict[str, str] = {}
    for doing in doings:
        runs.setdefault(_quoted(doing, root), []).append(doing)
        last[doing.act.program] = doing.outcome.state
    failed: list[Failure] = []
    fine: dict[str, list[tuple[str, Doing]]] = {}
    for quote, group in runs.items():
        bad = [doing for doing in group if doing.outcome.state == "failed"]
        if bad:
            failed.append(_failure(quote, group, bad, last[group[-1].act.program]))
        else:
            fine.setdefault(group[-1].act.program, []).extend((quote, doing) for doing in group)
    return tuple(failed), tuple(_fine(program, group) for program, group in fine.items())


def _quoted(doing: Doing, root: str) -> str:
    return doing.act.quote.replace(root + "/", "") if root else doing.act.quote


def _failure(quote: str, group: list[Doing], bad: list[Doing], kind: str) -> Failure:
    ended = bad[-1].outcome
    ways = list(dict.fromkeys(doing.outcome.note or "failed" for doing in reversed(bad)))
    told = " or ".join(ways[:3])
    if ended.tests:
        more = len(ended.tests) - 4
        told += ": " + ", ".join(clip(test, 80) for test in ended.tests[:4]) + (f" and {more} more" if more > 0 else "")
    times = f" ×{len(group)}" if len(group) > 1 else ""
    mended = group[-1].outcome.state == "ok"
    then = ", then ok" if mended else ", later ok" if kind == "ok" else ""
    return Failure(f"{quote}{times} → {told}{then}", not then)


def _fine(program: str, group: list[tuple[str, Doing]]) -> str:
    quotes = dict.fromkeys(quote for quote, _ in group)
    note = next((doing.outcome.note for _, doing in reversed(group) if doing.outcome.note), "")
    told = clip(next(iter(quotes)), 60) if len(quotes) == 1 else program
    return told + (f" ×{len(group)}" if len(group) > 1 else "") + (f" ({note})" if note else "")


def _tools(doings: list[Doing]) -> list[str]:
    """Tell the calls that are neither commands nor about files: each once, or its kind with a number."""
    groups: dict[str, list[str]] = {}
    for doing in doings:
        if not doing.act.ran and not doing.act.files and doing.outcome.state == "ok":
            groups.setdefault(doing.act.program, []).append(doing.act.quote)
    return [quotes[0] if len(quotes) == 1 else f"{name} ×{len(quotes)}" for name, quotes in groups.items()]


def _errors(doings: list[Doing]) -> tuple[str, ...]:
    out: Counter[str] = Counter()
    for doing in doings:
        if doing.outcome.state != "failed":
            continue
        if doing.act.ran:
            out.update(doing.outcome.errors)
        else:
            out.update([f"{doing.act.program}: {next(iter(doing.outcome.errors), 'failed')}"])
    kept = list(out.items())[-_ERRORS:]
    return tuple(f"{line} (×{n})" if n > 1 else line for line, n in kept)
