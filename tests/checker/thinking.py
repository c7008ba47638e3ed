"""The rules of signed thinking that need the raw request beside the sent one (``hosts.md`` 6.1, points 7 and 8)."""

from __future__ import annotations

from typing import Any

from .base import Violation, fingerprint

RULES: dict[str, str] = {
    "ANT-31": "each thinking block stands in the raw request too, unchanged",
    "ANT-32": "the thinking of the running round of calls is all there, in its order",
}


def check_against(raw: dict[str, Any], request: dict[str, Any], *, may_clear_round: bool = False) -> list[Violation]:
    """Return what is wrong with the thinking of ``request``, given the ``raw`` request the host would have sent.

    The running round begins behind the last user turn that holds more than results. ``may_clear_round`` allows a
    rebuild that removes all thinking of that round (rulings, signed-thinking hold); a part of it is never allowed.
    Both requests are valid by the other rules.
    """
    known = {fingerprint(_bare(block)) for _, block in _thinking(raw, 0)}
    sent = [(place, fingerprint(_bare(block))) for place, block in _thinking(request, 0)]
    changed = [place for place, key in sent if key not in known]
    found = [Violation("ANT-31", place, "the raw request does not hold this thinking") for place in changed]
    running = [(place, fingerprint(_bare(block))) for place, block in _thinking(raw, _round_start(raw))]
    keys = iter(key for _, key in sent)
    lost = [place for place, key in running if not any(key == other for other in keys)]
    if lost and not (may_clear_round and not {key for _, key in sent} & {key for _, key in running}):
        found.append(
            Violation("ANT-32", lost[0], f"{len(lost)} thinking blocks of the running round are gone or moved")
        )
    return found


def _bare(block: dict[str, Any]) -> list[Any]:
    return [block.get(name) for name in ("type", "thinking", "signature", "data")]


def _thinking(request: dict[str, Any], start: int) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"messages[{at}].content[{index}]", block)
        for at, message in enumerate(request["messages"])
        if at >= start and isinstance(message["content"], list)
        for index, block in enumerate(message["content"])
        if block["type"] in ("thinking", "redacted_thinking")
    ]


def _has_others(content: list[dict[str, Any]]) -> bool:
    return any(block["type"] != "tool_result" for block in content)


def _round_start(request: dict[str, Any]) -> int:
    for at in range(len(request["messages"]) - 1, -1, -1):
        message = request["messages"][at]
        content = message["content"]
        if message["role"] == "user" and (isinstance(content, str) or _has_others(content)):
            return at
    return 0
