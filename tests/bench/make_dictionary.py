"""Make ``storage/dictionary_v1.bin`` from messages of the project's own session generator.

Run: ``python tests/bench/make_dictionary.py TARGET``. It prints the digest to write into ``storage/dictionary.py``. The
file is only made anew before a release: a released dictionary never changes.

Method: slide over sampled messages, score each stretch of 64 bytes by how many *messages* contain its 8-byte pieces
that the dictionary does not hold yet, take the best stretches, and put the best last, where the window reaches longest.
"""

from __future__ import annotations

import hashlib
import sys
import zlib
from collections import Counter
from pathlib import Path

from foldlog.adapters.traces.generator import generate
from foldlog.adapters.traces.model import Codec, messages_of

SIZE = 32 * 1024 - 262
"""A little under deflate's window: its last 262 bytes cannot be reached."""
PIECE = 8
STRETCH = 64
SAMPLE = 6_000
"""Bytes taken of one message: a long tool output must not crowd out the frames of all others."""
CODECS: tuple[Codec, ...] = ("anthropic", "openai-chat", "pi")


def samples(seeds: range, requests: int) -> list[bytes]:
    """Return messages of generated sessions in every codec, each cut to ``SAMPLE`` bytes."""
    return [raw[:SAMPLE] for seed in seeds for codec in CODECS for raw in messages_of(generate(seed, requests, codec))]


def train(messages: list[bytes]) -> bytes:
    """Return a dictionary of at most ``SIZE`` bytes for ``messages``."""
    counts: Counter[bytes] = Counter()
    for raw in messages:
        counts.update({raw[at : at + PIECE] for at in range(len(raw) - PIECE + 1)})
    gain = {piece: count for piece, count in counts.items() if count > 2}
    scored: list[tuple[int, bytes]] = []
    for raw in dict.fromkeys(messages):
        for at in range(0, max(1, len(raw) - STRETCH), STRETCH // 4):
            stretch = raw[at : at + STRETCH]
            score = _score(stretch, gain)
            if score:
                scored.append((score, stretch))
    scored.sort(key=lambda pair: (-pair[0], pair[1]))
    taken: list[bytes] = []
    left = SIZE
    for score, stretch in scored:
        # Scores only fall as pieces are taken: a stretch worth less than half of what it was is passed over.
        if _score(stretch, gain) * 2 < score:
            continue
        taken.append(stretch[:left])
        left -= len(taken[-1])
        for at in range(len(stretch) - PIECE + 1):
            gain.pop(stretch[at : at + PIECE], None)
        if left <= 0:
            break
    return b"".join(reversed(taken))


def _score(stretch: bytes, gain: dict[bytes, int]) -> int:
    return sum(gain.get(piece, 0) for piece in {stretch[at : at + PIECE] for at in range(len(stretch) - PIECE + 1)})


def ratio(messages: list[bytes], dictionary: bytes) -> float:
    """Return stored size over plain size of ``messages``, each compressed alone as the store does."""
    packed = 0
    for raw in messages:
        work = zlib.compressobj(6, zlib.DEFLATED, -15, 8, zlib.Z_DEFAULT_STRATEGY, dictionary)
        packed += min(len(raw), len(work.compress(raw) + work.flush()))
    return packed / sum(map(len, messages))


def main(target: Path) -> None:
    """Train, write, and say what it is worth on sessions it has not seen."""
    dictionary = train(samples(range(100, 112), 60))
    target.write_bytes(dictionary)
    fresh = [raw for codec in CODECS for raw in messages_of(generate(7, 120, codec))]
    print(f"{len(dictionary)} bytes, sha256 {hashlib.sha256(dictionary).hexdigest()}")
    print(f"messages of other seeds: {ratio(fresh, dictionary):.3f} with it, {ratio(fresh, b' '):.3f} without")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
