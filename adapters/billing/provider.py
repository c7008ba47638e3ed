"""The simulated provider: a prompt cache that sees digests and token counts only, and says what it read and wrote.

An entry is a prefix: the chain of its blocks' digests, for one model. A prefix has a number here, given when it is
first seen: its parent prefix and its last block decide it, so equal numbers are equal chains.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from ...domain.errors import InputError
from .profiles import Profile
from .records import MAIN, REFUSED, Block, Record, shared

Miss: TypeAlias = Literal["", "first", "model", "expired", "changed", "unfound"]
"""Why the prefix the session last left in the cache was not read whole; "": it was. ``first``: there was no request.
``changed``: this prompt does not begin with it. ``unfound``: it does, the entry lives, but no mark is near enough."""

_NEVER = -(1 << 62)


class Usage(msgspec.Struct, frozen=True):
    """The provider's figures for one request, in tokens. ``read + written + uncached`` is the prompt.

    ``cached``: tokens of the prompt that are in the cache now. ``kept``: leading blocks equal to those of the session's
    request before of the same kind.
    """

    read: int
    written: int
    uncached: int
    output: int
    cached: int = 0
    kept: int = 0
    miss: Miss = ""

    @property
    def prompt(self) -> int:
        """Return the tokens of the prompt."""
        return self.read + self.written + self.uncached


class _Path(msgspec.Struct):
    """A session's last prompt of one kind: ``nodes[i]`` the prefix that ends with block i, ``ends[i]`` its tokens."""

    model: str
    blocks: tuple[Block, ...] = ()
    nodes: list[int] = []
    ends: list[int] = []


class _Cached(msgspec.Struct, frozen=True):
    """What the last request of a session that cached anything left there: the prefix up to block ``index``."""

    model: str
    node: int
    index: int
    tokens: int


class _Found(msgspec.Struct, frozen=True):
    """``read`` and ``cached`` in tokens; ``end``: last block of the longest prefix that is cached now, -1 = none."""

    read: int
    cached: int
    end: int
    touched: Sequence[int]


class Provider:
    """A provider's cache over any number of sessions. Its clock never runs backward (convention 23)."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._clock = 0
        self._roots: dict[str, int] = {}
        self._children: dict[tuple[int, str], int] = {}
        self._used: list[int] = []
        self._answers: dict[int, int] = {}
        self._paths: dict[tuple[str, str], _Path] = {}
        self._last: dict[str, _Cached] = {}

    def answer(self, record: Record) -> Usage:
        """Serve one request and say what it cost in tokens. Requests come in the order they were sent.

        Raises ``InputError`` for a request no provider would take: marks out of order, out of range or too many,
        negative counts, or kind ``refused``.
        """
        if record.kind == REFUSED:
            raise InputError("a refused request was never sent; leave it out", where=_where(record))
        marks = self._marks(record)
        path, kept = self._follow(record)
        self._clock = max(self._clock, record.at)
        total = path.ends[-1] if path.ends else 0
        if self.profile.way == "marks":
            found = self._by_marks(path, marks)
        elif self.profile.way == "steps":
            found = self._by_steps(path, total)
        else:
            found = self._by_entries(path, marks, total)
        output = record.output_tokens or 0
        miss = self._miss(record, path, found)
        for node in found.touched:
            self._used[node] = self._clock
        if path.nodes and self.profile.answers:
            self._answers[path.nodes[-1]] = output
        if record.kind == MAIN and found.end >= 0:
            self._last[record.session] = _Cached(record.model, path.nodes[found.end], found.end, found.cached)
        elif record.kind == MAIN:
            self._last.setdefault(record.session, _Cached(record.model, -1, -1, 0))
        return Usage(
            read=found.read,
            written=found.cached - found.read,
            uncached=total - found.cached,
            output=output,
            cached=found.cached,
            kept=kept,
            miss=miss,
        )

    # ------------------------------------------------------------------- prefixes

    def _node(self) -> int:
        self._used.append(_NEVER)
        return len(self._used) - 1

    def _alive(self, node: int) -> bool:
        return self._clock - self._used[node] <= self.profile.lifetime

    def _follow(self, record: Record) -> tuple[_Path, int]:
        """Number the prefixes of this prompt, going on from the session's last where it can."""
        if record.output_tokens is not None and record.output_tokens < 0:
            raise InputError("an answer has 0 tokens or more", value=record.output_tokens, where=_where(record))
        key = (record.session, record.kind)
        path = self._paths.get(key)
        blocks = record.blocks
        kept = 0
        if path is not None:
            kept = shared(path.blocks, blocks)
        if path is None or path.model != record.model:
            path = self._paths[key] = _Path(record.model)
            self._extend(path, blocks, 0, record)
            return path, kept
        self._extend(path, blocks, kept, record)
        return path, kept

    def _extend(self, path: _Path, blocks: tuple[Block, ...], kept: int, record: Record) -> None:
        nodes, ends = path.nodes, path.ends
        del nodes[kept:], ends[kept:]
        path.blocks = blocks[:kept]
        node = nodes[-1] if nodes else self._root(record.model)
        end = ends[-1] if ends else 0
        children = self._children
        for index in range(kept, len(blocks)):
            digest, size, tokens = blocks[index]
            if tokens < 0 or size < 0:
                del nodes[kept:], ends[kept:]
                raise InputError(
                    "a block cannot have fewer than 0 tokens or bytes",
                    value=blocks[index],
                    where=f"{_where(record)}, blocks[{index}]",
                )
            step = (node, digest)
            known = children.get(step)
            if known is None:
                known = children[step] = self._node()
            node = known
            end += tokens
            nodes.append(node)
            ends.append(end)
        path.blocks = blocks

    def _root(self, model: str) -> int:
        root = self._roots.get(model)
        if root is None:
            root = self._roots[model] = self._node()
        return root

    # ---------------------------------------------------------------- ways to cache

    def _marks(self, record: Record) -> tuple[int, ...]:
        marks = record.breakpoints
        if marks is None or self.profile.way == "steps":
            return ()
        last = len(record.blocks) - 1
        wrong = any(a >= b for a, b in pairwise(marks)) or any(not 0 <= m <= last for m in marks)
        if wrong:
            raise InputError(
                f"breakpoints must be ascending indexes of the {last + 1} blocks", value=marks, where=_where(record)
            )
        if self.profile.way == "entries":
            # a log marked for another provider: its last mark stands next to the entry the newest message has anyway
            return tuple(mark for mark in marks if mark != last)[: self.profile.marks]
        if len(marks) > self.profile.marks:
            raise InputError(
                f"{self.profile.name} takes at most {self.profile.marks} cache marks", value=marks, where=_where(record)
            )
        return marks

    def _by_marks(self, path: _Path, marks: Sequence[int]) -> _Found:
        nodes, ends = path.nodes, path.ends
        least = self.profile.least(path.model)
        marks = [mark for mark in marks if ends[mark] >= least]
        if not marks:
            return _Found(0, 0, -1, ())
        best = self._look_back(nodes, marks)
        touched = [nodes[mark] for mark in marks]
        if best >= 0:
            touched.append(nodes[best])
        return _Found(ends[best] if best >= 0 else 0, ends[marks[-1]], marks[-1], touched)

    def _look_back(self, nodes: Sequence[int], marks: Sequence[int]) -> int:
        """Return the block at which the longest entry ends that a mark finds, -1 if none does."""
        for mark in reversed(marks):
            for index in range(mark, max(mark - self.profile.lookback, 0) - 1, -1):
                if self._alive(nodes[index]):
                    return index
        return -1

    def _by_steps(self, path: _Path, total: int) -> _Found:
        nodes, ends = path.nodes, path.ends
        best = self._deepest(nodes)
        common = ends[best] if best >= 0 else 0
        if best >= 0 and self.profile.answers:
            common = min(total, common + self._answers.get(nodes[best], 0))
        cached = self._whole_steps(total, path.model)
        return _Found(self._whole_steps(common, path.model), cached, len(nodes) - 1 if cached else -1, nodes)

    def _whole_steps(self, tokens: int, model: str) -> int:
        whole = tokens // self.profile.step * self.profile.step
        return whole if whole >= self.profile.least(model) else 0

    def _by_entries(self, path: _Path, marks: Sequence[int], total: int) -> _Found:
        nodes, ends = path.nodes, path.ends
        least = self.profile.least(path.model)
        if total < least or not nodes:
            return _Found(0, 0, -1, ())
        best = self._deepest(nodes)
        touched = [nodes[mark] for mark in marks if ends[mark] >= least]
        touched.append(nodes[-1])
        if best >= 0:
            touched.append(nodes[best])
        return _Found(ends[best] if best >= 0 else 0, total, len(nodes) - 1, touched)

    def _deepest(self, nodes: Sequence[int]) -> int:
        for index in range(len(nodes) - 1, -1, -1):
            if self._alive(nodes[index]):
                return index
        return -1

    def _miss(self, record: Record, path: _Path, found: _Found) -> Miss:
        last = self._last.get(record.session)
        if last is None:
            return "first"
        if last.node < 0:
            return ""
        goes_on = last.index < len(path.nodes) and path.nodes[last.index] == last.node
        if goes_on and found.read >= last.tokens:
            return ""
        if last.model != record.model:
            return "model"
        if not self._alive(last.node):
            return "expired"
        return "unfound" if goes_on else "changed"


def _where(record: Record) -> str:
    return f"request of {record.session} at {record.at}"
