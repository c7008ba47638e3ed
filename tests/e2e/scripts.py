"""The scenarios: sessions on a scratch folder, made of seeded text, so that each run sends the same bytes."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

from e2e.provider.scenario import Call, Failure, Scenario, Step

_WORDS = (
    "queue worker retry ledger cursor shard replica index parser token buffer socket timeout header payload schema "
    "migration checkpoint snapshot lease epoch cluster router gateway cache eviction budget planner scheduler metric "
    "alert fixture harness assertion coverage boundary adapter codec stream digest signature manifest registry volume"
).split()
STEPS, STOP, KILLED = 40, 24, 32
"""Steps of the long session, where its first turn ends, and where its second is killed."""
GOAL = "walk through all the files"
"""What the to-do list says that the model writes in its second step, where its host has a tool for it."""
TTL_S = 5
"""How long foldlog is told that caches live; the second turn of the long session begins after more."""
FILES = 24
LINES = 90
"""About 6 kB a file: a read brings some 1,700 tokens."""
SHOTS = 5
FULL = 97
"""Per cent of the window that the output of a step fills."""
CUT_FOLDLOG, FIRST_MARK, CUT_HOST, SECOND_MARK, LAST = 2, 4, 6, 7, 12
"""Of the session with the kills: foldlog while step 2 is answered, and in the pass behind step 4; the host while step 6
is answered, and, resumed there, in the pass behind step 7; its last step.
"""
MARKED_S = 0.5
SECOND, POURED, FLUSHED = 6, 8, 9
"""Of the session that gets full: the step its second turn begins with, the one whose request holds what fills it, and
the one during which a person flushes.
"""
PROMPT = "Work through the list in this folder, file after file. [[{track}:{step}]]"


def fill(folder: Path) -> None:
    """Write the scratch folder's files."""
    for number in range(FILES):
        lines = "".join(f"{line}\n" for line in _lines(number))
        (folder / f"part{number:02d}.txt").write_text(lines, encoding="utf-8")


def _lines(number: int) -> list[str]:
    words = random.Random(number)
    return [f"{number:02d}.{line:03d} {' '.join(words.choices(_WORDS, k=8))}" for line in range(LINES)]


def first_line(number: int) -> str:
    """Return the first line of a file, by which its original is known."""
    return _lines(number)[0]


def long(
    work: Path, window: int, *, steps: int = STEPS, stop: int = STOP, bound: bool = False, tools: bool = True
) -> Scenario:
    """Return a session of ``steps`` steps in two turns, the first of which ends behind step ``stop``.

    Files are read and searched, notes are written; with ``tools`` the model drops what it has read every seven steps
    and brings an original back near the end.
    """
    played: list[Step] = []
    for number in range(steps):
        think = f"File {number} is next; the list says so." if number % 3 == 0 else ""
        if number == stop:
            played.append(Step(f"The first half is done, {number} steps.", think))
        elif tools and number % 7 == 6:
            played.append(Step("These are noted; I let them go.", think, (Call("reduce", keep=5),)))
        elif tools and number == steps - 3:
            played.append(Step("I want to see the first one again.", think, (Call("expand"),)))
        elif number % 4 == 3:
            note = f"notes of step {number}\n" + "\n".join(first_line(each) for each in range(number % FILES))
            path = str(work / f"notes{number:02d}.txt")
            played.append(
                Step(f"Step {number}: I write down what I found.", think, (Call("write", path=path, content=note),))
            )
        elif number % 4 == 2:
            command = f"sort -r part{number % FILES:02d}.txt | head -n 70; echo step {number}"
            played.append(Step(f"Step {number}: I search.", think, (Call("run", command=command),)))
        else:
            path = str(work / f"part{number % FILES:02d}.txt")
            plan = (Call("plan", content=GOAL),) if number == 1 else ()
            played.append(Step(f"Step {number}: I read the next file.", think, (Call("read", path=path), *plan)))
    played.append(Step("The list is done."))
    return Scenario(tracks={"main": tuple(played)}, window=window, bound=bound)


def trouble(
    work: Path, window: int, failures: tuple[Failure, ...], *, steps: int = 12, bound: bool = False
) -> Scenario:
    """Return a short session with scripted failures."""
    whole = long(work, window, steps=steps, stop=steps + 1, bound=bound)
    return Scenario(tracks=whole.tracks, window=window, bound=bound, failures=failures)


def picture(number: int) -> bytes:
    """Return a grey PNG of 800 x 600 pixels: some 640 tokens by its pixels, and about as many by its base64."""
    rows = b"".join(b"\0" + random.Random(1000 * number + row).randbytes(800) for row in (1, 2)) + bytes(801 * 598)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 800, 600, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def marked(mark: str) -> Call:
    """Return a call that leaves the file ``mark`` in the work folder and takes ``MARKED_S`` from there on."""
    return Call("run", command=f"touch {mark}; sleep {MARKED_S}; head -n 20 part00.txt")


def filling(work: Path) -> Call:
    """Return a call whose output fills the window."""
    lines = (line for number in range(100, 160) for line in _lines(number))
    (work / "filler.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Call("run", path=str(work / "filler.txt"), fill=FULL)


def killed(work: Path, window: int) -> Scenario:
    """Return a session for kills in mid-stream and in mid-pass, of foldlog and the host; at its end it gets full."""
    read = lambda n: Call("read", path=str(work / f"part{n:02d}.txt"))  # noqa: E731
    small = Call("run", command="echo on")  # at the step that fills the window no summary may be due yet
    calls = {0: small, 3: small, 5: small, 8: small}
    calls |= {FIRST_MARK: marked("mark1"), SECOND_MARK: marked("mark2"), LAST - 3: filling(work)}
    played = [
        Step(f"Step {step}.", "I go on." if step % 2 else "", (calls.get(step, read(step)),)) for step in range(LAST)
    ]
    stalls = tuple(Failure(step, "stall", seconds=1.0) for step in (CUT_FOLDLOG, CUT_HOST))
    return Scenario(tracks={"main": (*played, Step("The list is done."))}, window=window, failures=stalls)


def full(work: Path, window: int) -> Scenario:
    """Return a session of two turns: pictures, more of them than the provider takes; another picture, and output that
    fills the window. On the track ``none`` the provider refuses whatever is sent, with nothing in it that could go.
    """
    for number in range(SHOTS):
        (work / f"shot{number}.png").write_bytes(picture(number))
    look = lambda n: Call("look", path=str(work / f"shot{n}.png"))  # noqa: E731
    read = lambda n: Call("read", path=str(work / f"part{n:02d}.txt"))  # noqa: E731
    played = (
        Step("I look.", calls=(look(1),)),
        Step("I look again.", calls=(look(2),)),
        Step("I read.", calls=(read(1),)),
        Step("A third look.", calls=(look(3),)),
        Step("I read on.", calls=(read(2),)),
        Step("The pictures are seen."),
        Step("I read more.", calls=(read(3),)),
        Step("Now all of it.", calls=(filling(work),)),
        Step("That was much.", calls=(read(4),)),
        Step("A little more.", calls=(read(5),)),
        Step("The list is done."),
    )
    none = (Step("I begin.", calls=(Call("run", command="echo begun"),)), Step("Nobody hears this."))
    failures = (
        Failure(FLUSHED, "slow", seconds=1.5),
        Failure(1, "overflow", times=99, track="none", limit=window * 99 // 100, used=window * 5 // 4),
    )
    return Scenario(tracks={"main": played, "none": none}, window=window, pictures=3, failures=failures)
