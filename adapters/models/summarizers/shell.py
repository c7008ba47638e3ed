"""Shell commands as data: which programs, which files read and written, and the command as a person would quote it.

Nothing is run and nothing is expanded; what cannot be read is left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

import msgspec

QUOTED = 110
"""A command is quoted up to this many characters."""
_LONGEST = 6_000

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1([^\n]*)\n.*?(?:^[ \t]*\2[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_TOKEN = re.compile(
    r"[ \t]*(?:(\\\n)|(\n|&&|\|\||;|\||&(?![>\d]))|(\d?>>?(?:&\d)?|&>>?|<)"
    r"|((?:[^\s\"'\\;&|<>]|\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*')+)|(.))",
    re.DOTALL,
)
_WRITTEN = re.compile(r"\bcat\s*>+\s*\S+\s*<<\w+\s*?(?:\n|&&|;|\Z)\s*|\bcat\s*<<\w+\s*?>+\s*\S+\s*(?:\n|&&|;|\Z)\s*")
_MESSAGE = re.compile(r"[\"']?\$\(\s*cat\s*<<\w+\s*\)[\"']?")
_NOISE = re.compile(
    r"[ \t]{0,4}(?:2>&1|[12&]?>\s*/dev/null"
    r"|\|\s*(?:tail|head)\b(?:\s+-\S+)*(?:\s+\d+)?(?=\s*(?:$|[|;&])))"
)
_CD = re.compile(r"\s*cd\s+(?:\"[^\"]*\"|'[^']*'|[^\s;&|]+)\s*(?:&&|;|\n)\s*")
_ASSIGN = re.compile(r"[A-Za-z_]\w*=")
_PATH = re.compile(r"[\w.@~+,:/\\-]*[\w+-]\.[A-Za-z]\w{0,9}\Z|[\w.@~+-]*/[\w.@~+,/-]*[\w-]\Z")
_NO_PATH = re.compile(r"-|[sy]/|https?:|\w+://|\d+[.:,]|/dev/|~?\Z|\.{1,2}/?\Z|[\w.-]+@[\w.-]+:|origin/|HEAD")
_FLAT = re.compile(r"\s+")

_WRAPPERS = frozenset("sudo time env nohup exec command timeout xargs".split())
_READ = frozenset("cat head tail less more nl wc bat xxd od file stat diff cmp sort uniq cut strings".split())
_SCRIPTED = frozenset("sed awk grep egrep fgrep rg jq perl ag".split())
"""Their first bare word is a pattern or program, not a file."""
_WRITE = frozenset("tee touch rm mv cp patch truncate ln".split())
_SUBCOMMANDS = frozenset(
    "git npm npx pnpm yarn bun go cargo mise docker kubectl make uv pip pip3 gh poetry dotnet gradle mvn bazel "
    "terraform".split()
)


class File(msgspec.Struct, frozen=True):
    """A file a command names; ``written``: the command changes, makes, moves or deletes it."""

    path: str
    written: bool


class Shell(msgspec.Struct, frozen=True):
    """``quote``: the command on one line without heredoc bodies; ``program``: what it runs, as ``git commit``; its
    files.

    ``folder``: the absolute folder it changes to first, or ``""``.
    """

    quote: str
    program: str
    files: tuple[File, ...]
    folder: str = ""


def parse(command: str) -> Shell:
    """Return what a command line says about itself."""
    bare = _HEREDOC.sub(r"<<\2\3\n", command[:_LONGEST]) if "<<" in command else command[:_LONGEST]
    files: dict[str, bool] = {}
    programs: list[str] = []
    where = folder = ""
    for given, targets in _simple(bare):
        words = _unwrapped(given)
        for target in targets:
            _add(files, where, target, True)
        if not words:
            continue
        name = posixpath.basename(words[0])
        if name == "cd":
            where = posixpath.join(where, words[1]) if len(words) > 1 else ""
            folder = folder or (posixpath.normpath(where) if where.startswith("/") else "")
            continue
        programs.append(_program(name, words))
        for path, written in _named(name, words[1:]):
            _add(files, where, path, written)
    quote = _quote(bare)
    return Shell(quote, _telling(programs) or quote.split(" ")[0], tuple(File(p, w) for p, w in files.items()), folder)


def path_like(word: str) -> bool:
    """Return whether a word looks like the path of one file."""
    return len(word) <= 200 and _PATH.match(word) is not None and _NO_PATH.match(word) is None


def _quote(bare: str) -> str:
    text = bare
    while (moved := _CD.match(text)) is not None and text[moved.end() :].strip():
        text = text[moved.end() :]
    text = _MESSAGE.sub("…", text)
    # a file written by the way stands among the files; what is then run is the command
    text = _WRITTEN.sub("", text).strip() or text
    flat = _FLAT.sub(" ", _NOISE.sub("", text).strip().replace("\n", "; ")).strip()
    if len(flat) <= QUOTED:
        return flat
    return flat[: QUOTED - 1].rstrip() + "…"


def _simple(command: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield (words, targets of redirections) of each simple command."""
    words: list[str] = []
    targets: list[str] = []
    pending = ""
    for match in _TOKEN.finditer(command):
        joined, separator, arrow, word, _ = match.groups()
        if joined:
            continue
        if separator:
            yield words, targets
            words, targets, pending = [], [], ""
        elif arrow:
            pending = "" if "&" in arrow[1:] else arrow
        elif word:
            plain = re.sub(r"[\"']", "", word)
            if not pending:
                words.append(plain)
            elif pending != "<":
                targets.append(plain)
            pending = ""
    yield words, targets


def _unwrapped(words: list[str]) -> list[str]:
    at = 0
    while at < len(words) and (
        _ASSIGN.match(words[at]) or words[at] in _WRAPPERS or (at and (words[at][:1] == "-" or words[at][:1].isdigit()))
    ):
        at += 1
    return words[at:]


def _program(name: str, words: list[str]) -> str:
    if name not in _SUBCOMMANDS:
        return name
    rest = [word for word in words[1:4] if not word.startswith("-") and "/" not in word]
    return " ".join([name, *(rest[:2] if name in ("npm", "mise", "gh") else rest[:1])])


def _telling(programs: list[str]) -> str:
    dull = ("echo", "printf", "true", "sleep", "tail", "head", "cat", "wc", "sort", "xargs", "export", "set", "EOF")
    return next((p for p in programs if p not in dull), programs[0] if programs else "")


def _named(name: str, words: list[str]) -> Iterator[tuple[str, bool]]:
    bare = [word for word in words if not word.startswith("-")]
    if name in _WRITE:
        yield from ((word, True) for word in bare)
    elif name in _SCRIPTED:
        inplace = name in ("sed", "perl") and any(w.startswith(("-i", "-pi", "--in-place")) for w in words)
        # a folder that is searched is no file
        yield from ((word, inplace) for word in bare[1:] if "." in posixpath.basename(word))
    elif name in _READ:
        yield from ((word, False) for word in bare)
    elif name == "git" and bare[:1] in (["rm"], ["mv"], ["restore"]):
        yield from ((word, True) for word in bare[1:])
    elif name == "git" and "--" in words:
        changes = bare[:1] == ["checkout"]
        yield from ((word, changes) for word in words[words.index("--") + 1 :])


def _add(files: dict[str, bool], where: str, path: str, written: bool) -> None:
    if path_like(path):
        whole = posixpath.normpath(posixpath.join(where, path))
        files[whole] = files.get(whole, False) or written
