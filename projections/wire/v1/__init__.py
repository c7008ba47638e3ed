"""Wire version 1: codecs, identity, rendering. Frozen once released (``design.md`` law 2); all functions are pure."""

from __future__ import annotations

from .blocks import (
    Block,
    blocks,
    chain,
    genesis,
    link,
    mark_indexes,
    system_blocks,
    system_hash,
    tool_names,
    tools_blocks,
    tools_names_hash,
)
from .build import (
    elements,
    head_messages,
    insert_messages,
    marks,
    region,
    split_system,
    system_messages,
    text_message,
    with_guidance,
)
from .echo import strip_all, strip_echo
from .forms import encode, identity, output
from .reading import Incoming, original, part_idents, part_text, read
from .render import render, unmarked
from .units import CODECS

VERSION = 1
GENESIS = genesis

__all__ = [
    "CODECS",
    "GENESIS",
    "VERSION",
    "Block",
    "Incoming",
    "blocks",
    "chain",
    "elements",
    "encode",
    "head_messages",
    "identity",
    "insert_messages",
    "link",
    "mark_indexes",
    "marks",
    "original",
    "output",
    "part_idents",
    "part_text",
    "read",
    "region",
    "render",
    "split_system",
    "strip_all",
    "strip_echo",
    "system_blocks",
    "system_hash",
    "system_messages",
    "text_message",
    "tool_names",
    "tools_blocks",
    "tools_names_hash",
    "unmarked",
    "with_guidance",
]
