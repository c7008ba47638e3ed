"""How a call ended, read from its output: the host's mark, exit codes, test summaries, error lines, commits."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

from .port import ToolOutput
from .text import clip, ends, one_line

State: TypeAlias = Literal["ok", "failed", "refused", "open"]
"""``refused``: a person turned the call down or stopped it; ``open``: it was never answered."""

_EDGE = 600
_EXIT = re.compile(
    r"(?:\bexit(?:ed)?(?: with)?(?: code| status)?:? |\bexit_?code\W{1,4}|<returncode>"
    r"|\breturn ?code\W{1,3})(-?\d{1,4})\b",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"The user doesn't want to|\[Request interrupted|Command aborted|.{0,40}\brejected by (?:the )?user", re.IGNORECASE
)
_OPEN = re.compile(r"No result provided\b")
_SUMMARY = re.compile(
    r"^(?:=+ ?)?((?:\d+ (?:failed|passed|errors?|skipped|xfailed|xpassed|deselected"
    r"|warnings?)(?:, )?){1,7})(?: in [\d.:]+ ?m?s.*)?=*$"
    r"|^[ \t]*Tests?:?\s+((?:\d+ (?:failed|passed|skipped|todo|total)(?:, |\s\|\s)?){1,5})"
    r"|^test result: (\w+\. \d+ passed; \d+ failed)"
    r"|^(?:FAILED|OK) \((\w+=\d+[^)]{0,60})\)$"
    r"|\b(\d+ (?:passing|failing))\b"
    r"|^Found (\d+ errors?)\b",
    re.MULTILINE,
)
_BAD_SUMMARY = re.compile(r"(?<!\d)[1-9]\d* (?:failed|failing|errors?)|FAILED|failures=[1-9]|errors=[1-9]")
_SIGNS = re.compile(
    r"^(?:FAIL\b|FAILED\b|--- FAIL:|npm (?:ERR!|error)|error(?:\[E\d+\])?: |fatal: |panic: |CONFLICT \("
    r"|Automatic merge failed"
    r"|Traceback \(most recent|✗ |make(?:\[\d+\])?: \*\*\* )",
    re.MULTILINE,
)
_TESTS = re.compile(
    r"^[ \t]*(?:--- FAIL: (\S+)|FAILED (\S+)|(?:✕|✗|×|not ok \d+ -?) (.{3,80}?)(?: \(\d+ ?ms\))?$"
    r"|test (\S+) \.\.\. FAILED)",
    re.MULTILINE,
)
_ERROR = re.compile(
    r"^[ \t>|E]{0,8}((?:[\w.]{0,60}(?:Error|Exception|Warning as error|Panic)\b(?:\[\w+\])?: .{3,200})"
    r"|error(?:\[E\d+\])?: .{3,200}"
    r"|fatal: .{3,200}|panic: .{3,200}|CONFLICT \([^)]*\): .{3,200}|.{1,120}\berror (?:TS|CS|E)\d+: .{3,200}"
    r"|\S{1,120}:\d+:\d+: .{3,200}|\S{1,60}: .{1,100}: (?:No such file or directory|command not found"
    r"|Permission denied)"
    r"|.{0,80}\b(?:not found|cannot find|could not find|undefined:).{1,150})$",
    re.MULTILINE | re.IGNORECASE,
)
_WRAPPER = re.compile(r"</?tool_use_error>")
_COMMIT = re.compile(r"^[ \t]*\[[^\[\]\n]{1,200}? ([0-9a-f]{7,40})\] ?([^\n]{0,300})$", re.MULTILINE)
_PUSHED = re.compile(r"^ +\+? ?[0-9a-f]{7,40}\.\.\.?([0-9a-f]{7,40}) +\S+ -> \S+", re.MULTILINE)
_HASH = re.compile(r"(?<![\w-])(?=[0-9a-f]*\d)[0-9a-f]{7,40}(?![\w-])")
_COMMIT_WORD = re.compile(r"\b(?:commit|cherry-pick|merg|rebas|revert|push|squash|HEAD\b|sha\b|git\b)", re.IGNORECASE)


class Outcome(msgspec.Struct, frozen=True):
    """``note``: exit code and test summary in words; ``errors``: the lines that say what went wrong; ``tests``: failed
    ones.
    """

    state: State
    note: str = ""
    errors: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


def outcome(output: ToolOutput | None, shell: bool) -> Outcome:
    """Return how a call ended. ``shell``: its output is a program's, so test summaries and failure lines in it
    count.
    """
    if output is None:
        return Outcome("open")
    text = ends(output.text)
    if _REFUSED.match(text.lstrip()[:80]):
        return Outcome("refused")
    if output.error and _OPEN.match(text):
        return Outcome("open")
    code = _exit(text) if shell or output.error else None
    summary = _summary(text) if shell else ""
    failed = output.error or bool(code) or (shell and (_BAD_SUMMARY.search(summary) or _SIGNS.search(text)) is not None)
    if not failed:
        return Outcome("ok", summary)
    tests = dict.fromkeys(one_line(next(filter(None, m.groups()))) for m in _TESTS.finditer(text)) if shell else {}
    notes = [f"exit {code}" if code else "", summary]
    return Outcome("failed", ": ".join(filter(None, notes)), _errors(text), tuple(tests))


def made_commits(text: str) -> list[tuple[str, str]]:
    """Return (hash, subject) of the commits a command's output says it made or pushed."""
    text = ends(text)
    found = [(m[1], one_line(m[2])) for m in _COMMIT.finditer(text)] if "[" in text else []
    if " -> " in text:
        found += [(m[1], "") for m in _PUSHED.finditer(text)]
    return found


def named_commits(text: str) -> list[str]:
    """Return the hashes a text of the assistant names (``history.md`` 5.3), where it speaks of git's work at all.

    Without that, session ids and digests would count as commits and stay in every tier.
    """
    text = ends(text)
    found = [match[0][:12] for match in _HASH.finditer(text)]
    return found if found and _COMMIT_WORD.search(text) else []


def _exit(text: str) -> int | None:
    for edge in (text[:_EDGE], text[-_EDGE:]) if len(text) > _EDGE else (text,):
        found = _EXIT.search(edge)
        if found is not None:
            return int(found[1])
    return None


def _summary(text: str) -> str:
    last = ""
    for match in _SUMMARY.finditer(text):
        last = next(filter(None, match.groups()))
    return one_line(last).rstrip(", |")


def _errors(text: str) -> tuple[str, ...]:
    text = _WRAPPER.sub("", text)
    found = list(dict.fromkeys(clip(one_line(m[1]), 160) for m in _ERROR.finditer(text)))
    if not found:
        lines = [one_line(line) for line in text.splitlines()[:6]]
        told = (
            line
            for line in lines
            if len(line) > 8 and not _EXIT.match(line) and not line.startswith(("<", ">", "Traceback"))
        )
        found = [clip(line, 120) for line in told][:1]
    return tuple(found[:3] if len(found) <= 4 else [*found[:2], found[-1]])
