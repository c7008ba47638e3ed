"""Reasoning in the state machine: the provider signs what its models think, and refuses a signature that does not fit.

A signature covers the thought itself; a bound model's covers all the request held before it too. The provider
complains in its own words, the host hands them over and sends again. That foldlog alone brought a refusal about is a
failure of the run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from e2e.provider.blocks import Block, anthropic, prefixes

from support import machine_host as host

if TYPE_CHECKING:
    import foldlog
    from support.machine import Machine
    from support.machine_checks import Served

MODELS: dict[str, tuple[str, ...]] = {
    "anthropic": ("claude-test-1", "claude-test-2", "claude-opus-5-5", "kimi-k2", "claude-fable-5.1"),
    "openai-chat": ("claude-test-1", "claude-test-2", "gpt-5.2", "gemini-3-pro", "deepseek-v3"),
    "openai-responses": ("claude-test-1", "claude-test-2", "gpt-5.2", "gpt-6", "grok-4"),
    "pi": ("claude-test-1", "claude-test-2", "claude-opus-5-5", "gpt-5.2", "gemini-3-pro"),
}
"""Which models a session may go on with, by wire; the first two differ in name alone."""
BINDING = ("claude-opus-5-5", "claude-fable-5.1")
SIGNING = ("anthropic", "pi")
"""Wires on which the words of a refusal of a signature can come."""
INVALID = "messages.{place}: Invalid `signature` in `thinking` block"
BOUND = (
    "messages.{place}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove "
    'the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


@dataclass
class Thought:
    """What a signature was made over: the host's messages and regions, what stood before it in its own answer.

    ``loose``: bytes before it may have changed for a cause of the host's: its message was off the path at a rebuild, or
    one took it out and it is said again elsewhere, or the request it answered is in no log.
    """

    items: list[host.Message]
    before: list[host.Part]
    regions: tuple[int, int]
    loose: bool = False


def family(machine: Machine) -> str:
    """Return the model in use."""
    return MODELS[machine.codec][machine.model]


def sign(said: str, bound: bytes) -> str:
    """Return the signature of a thought, ``bound``: the digest of all that stood before it, or nothing."""
    mac = hashlib.sha256(bound + b"\0" + said.encode()).digest()
    return base64.b64encode(mac[:12] + bound).decode()


def thought(machine: Machine, before: list[host.Part]) -> host.Part | None:
    """Return what the model thinks behind ``before``, signed as its provider does; None: nothing."""
    said = f"thinking {machine._uid()}"
    model = family(machine)
    if model == "kimi-k2":
        return {"t": "think", "s": said, "sig": ""}
    if model not in BINDING:
        return {"t": "think", "s": said, "sig": sign(said, b"")}
    head, items = machine.head, machine.flat()
    answers = head is not None and len(head.items) == len(items) and all(map(host.same, head.items, items))
    if not answers or head is None or machine.sent is None:
        return None  # a request that did not go through foldlog: what it held is not known
    unsent = machine.codec == "anthropic"  # a blank text cannot be sent back there (ANT-9): nothing is bound to it
    told = [part for part in before if not (unsent and host.blank(part))]
    answer = host.to_host(machine.codec, {"uid": "#0", "role": "assistant", "parts": told, "id": ""}, 0)
    blocks = _blocks(machine.codec, *machine.sent, [answer] if told else [])
    part = {"t": "think", "s": said, "sig": sign(said, [*prefixes(blocks)][-1])}
    machine.thoughts[part["sig"]] = Thought(list(items), list(before), head.regions, loose=machine.owed is not None)
    machine.counts["bound thoughts"] += 1
    return part


def _blocks(codec: str, system: Any, tools: Any, messages: list[Any], answer: list[Any]) -> list[Block]:
    """Return a request as its model reads it. Both wires hold blocks in messages, and no mark is among them."""
    return anthropic({"system": system, "tools": tools, "messages": [*messages, *answer]})


def request_of(built: Any) -> tuple[Any, Any, list[Any]]:
    """Return system, tools and messages of a request, decoded and without marks."""
    system, tools = (json.loads(raw) if raw else None for raw in (built.system, built.tools))
    return system, tools, [json.loads(raw) for raw in built.messages]


# ----------------------------------------------------------------------------- the provider


def complaint(machine: Machine, sent: tuple[Any, Any, list[Any]]) -> tuple[str, str]:
    """Return the provider's words for what is wrong with the reasoning of a request, and the signature it is about."""
    model = family(machine)
    checks, binds = "claude" in model and machine.codec == "anthropic", model in BINDING
    digests: dict[str, bytes] = {}
    for at, message in enumerate(sent[2]):
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) and message["role"] == "assistant" else ()):
            if block.get("type") != "thinking":
                continue
            place = f"{at}.content.{index}"
            signature = str(block.get("signature") or block.get("thinkingSignature") or "")
            bound = base64.b64decode(signature)[12:]
            if sign(block["thinking"], bound) != signature:
                if checks or signature:
                    return INVALID.format(place=place), signature
                continue
            if bound and binds:
                digests = digests or _before(_blocks(machine.codec, *sent, []))
                if digests[f"messages.{place}"] != bound:
                    return BOUND.format(place=place), signature
    return "", ""


def _before(blocks: list[Block]) -> dict[str, bytes]:
    return dict(zip((block.where for block in blocks), [b"", *prefixes(blocks)], strict=False))


def answered(machine: Machine, request: foldlog.Request, now: Served) -> None:
    """THINK-1, THINK-4, THINK-5: the provider takes the reasoning of a request, or the host itself made it invalid.

    Behind a refusal the next request is taken, whatever it still holds.
    """
    if machine.codec not in SIGNING:
        return
    sent = request_of(request.built)
    side = getattr(now.event, "side", None) is not None
    if not side:
        machine.sent = sent
    words, signature = complaint(machine, sent)
    if not words:
        return
    where = f"{words[:90]} in pass {now.number} ({request.level})"
    if side or machine.unmanaging():
        return  # nothing is rebuilt then: the host's own array would be refused just so
    assert "bound" in words, f"THINK-5: {where}"
    assert not machine.recovering, f"THINK-4: it is refused again: {where}"
    assert _by_host(machine, signature, now), f"THINK-1: the host changed nothing before it: {where}"
    machine.counts["signatures refused"] += 1
    machine.refusals = [(request, words)]


def _by_host(machine: Machine, signature: str, now: Served) -> bool:
    """Whether what stands before a thought is no longer the host's as it was when it was signed."""
    made = machine.thoughts[signature]
    place = next(i for i, item in enumerate(now.items) if any(part.get("sig") == signature for part in item["parts"]))
    parts = now.items[place]["parts"]
    mine = parts[: next(p for p, part in enumerate(parts) if part.get("sig") == signature)]
    alike = len(made.items) == place and all(map(host.same, made.items, now.items))
    return made.loose or not alike or mine != made.before or made.regions != now.regions


# ----------------------------------------------------------------------------- what may leave


def rebuilt(machine: Machine, now: Served) -> None:
    """THINK-1, THINK-4, THINK-5: note which reasoning a rebuild takes out, and that it may."""
    event: Any = now.event
    items = dict(zip(now.ms, now.items, strict=True))
    model = family(machine)
    recovery = "thinking_recovery" in event.decision.signals
    for m, p, _ in event.spares:
        part = items[m]["parts"][p] if m in items and p < len(items[m]["parts"]) else {"t": ""}
        if part["t"] != "think" or machine.codec not in SIGNING:
            continue
        stale = not part["sig"] and machine.codec == "anthropic" and "claude" in model
        assert stale or recovery or model in BINDING, f"THINK-1: {part['s']} left pass {now.number}, and it need not"
        machine.thoughtless.add(part["s"])
        if part["sig"] in machine.thoughts:  # where its host goes back and says it again, it stands behind other bytes
            machine.thoughts[part["sig"]].loose = True
        machine.counts["thoughts taken out"] += 1
    here = {part.get("sig") for item in now.items for part in item["parts"]}
    for signature, made in machine.thoughts.items():
        made.loose = made.loose or signature not in here
    if recovery:
        machine.counts["recovered thinking"] += 1


def unsigned(machine: Machine, items: list[host.Message]) -> None:
    """THINK-5: what is unsigned never goes to a model that wants signatures, once it is new."""
    if machine.codec == "anthropic" and "claude" in family(machine):
        loose = (part for item in items for part in item["parts"] if part["t"] == "think" and not part["sig"])
        machine.thoughtless |= {part["s"] for part in loose}


class Thinking:
    """What the host does about a refusal of reasoning."""

    def settle(self: Any) -> None:
        """Hand the provider's words over, and send again; what then still is refused is foldlog's failure."""
        if not self.refusals:
            return
        ((request, words),), self.refusals = self.refusals, []
        if self.log.fault or self.log.before or request.pass_number != self.passes:
            return  # it is told of one request at a time
        body = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": words}})
        self.command(lambda: self._again(request).report_error(400, body))
        self.recovering = True
        try:
            self.send()
        finally:
            self.recovering = False
