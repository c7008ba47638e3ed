"""Pictures a provider refuses: their number, their size, the body's bytes. Which have to leave then, and no others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support import machine_host as host

if TYPE_CHECKING:
    from support.machine import Machine
    from support.machine_checks import Served

WORDS = {
    "anthropic": (
        "Too many images and documents: 101 + 0 > 100",
        "messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
        "messages.21.content.91.image.source.base64.data: image dimensions exceed max allowed size: 8000 pixels",
    ),
    "openai-chat": ("request contains 52 images, exceeding the maximum of 50 allowed per request",),
    "openai-responses": ("request contains 52 images, exceeding the maximum of 50 allowed per request",),
    "pi": ("Too many images and documents: 101 + 0 > 100",),
}
"""Real words of providers (``specs/vectors/overflow.json``)."""


def shown(codec: str, wire: tuple[bytes, ...] | None) -> int:
    """Return how many pictures stand in what a message became."""
    blocks = (block for raw in wire or () for block in host.seen(codec, json.loads(raw)))
    return sum(block[3] if block[0] == "result" else block[0] == "media" for block in blocks)


def rebuilt(machine: Machine, now: Served, landed: set[int]) -> None:
    """IMAGE-2: behind a refusal just the pictures of all messages but the newest that holds any are gone, or its own.

    ``landed``: the messages of which a drop took something; its pictures may have been among that.
    """
    before, machine.bulky = machine.bulky, {}
    if not before or "picture_recovery" not in now.event.decision.signals:
        return
    sent = {m: shown(machine.codec, wire) for m, wire in zip(now.ms, now.wire, strict=True) if wire is not None}
    old = machine.head.by_m() if machine.head is not None else {}
    # what its host changes with this pass is new, and nobody refused it
    held = [
        m
        for m, item in zip(now.ms, now.items, strict=True)
        if before.get(m) and (m not in old or host.same(old[m][0], item))
    ]
    out = held[:-1] or held
    for m in held:
        if m not in sent:
            continue  # a summary stands for it
        wanted = 0 if m in out else before[m]
        assert sent[m] == wanted or (m in landed and sent[m] < wanted), (
            f"IMAGE-2: pass {now.number} shows {sent[m]} pictures of message {m}, not {wanted}"
        )
    machine.counts["pictures shed"] += len(out)


def allowed(machine: Machine, now: Served) -> None:
    """Note whose pictures a rebuild behind a refusal may have taken out, before its bytes are looked at."""
    if not machine.bulky or "picture_recovery" not in now.event.decision.signals:
        return
    held = [(m, item) for m, item in zip(now.ms, now.items, strict=True) if machine.bulky.get(m)]
    for _, item in held[:-1] or held:
        machine.stripped |= {part["id"] for part in item["parts"] if part["t"] == "result"}


class Pictures:
    """The step of a provider that takes no more pictures."""

    def do_crowd(self: Any, count: int = 2, words: int = 0, again: bool = False) -> None:
        """The agent and the user look at pictures, the provider refuses them in its own words, the host sends again."""
        for i in range(count % 4):
            self.do_round(say=1, calls=1, out=1, media=1, extra=2, door=0, big=bool(i % 2))
        self._refused_for_pictures(words)
        if again:
            self._refused_for_pictures(words + 1)

    def _refused_for_pictures(self: Any, words: int) -> None:
        request, head = self.last, self.head
        if request is None or head is None or request.pass_number != head.number or self.log.fault or self.log.before:
            return
        before = {m: shown(self.codec, wire) for m, wire in zip(head.ms, head.wire, strict=True)}
        if not any(before.values()) or not self._current(self.flat()):
            return
        said = WORDS[self.codec][words % len(WORDS[self.codec])]
        body = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": said}})
        found = self.command(lambda: self._again(request).report_error(400, body))
        assert found.kind == "images", f"IMAGE-2: {said!r} is taken for {found.kind}"
        self.counts["pictures refused"] += 1
        self.reopened = True
        self.bulky = before
        self.send()
        if self.last is not request and not self.unmanaging():
            assert not self.bulky or self.bulky is not before, "IMAGE-2: refused pictures were not shed"
