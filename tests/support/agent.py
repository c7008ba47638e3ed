"""An agent at work on any wire: steps with tool calls, prompts, and every request judged by the checker of its wire."""

from __future__ import annotations

import json
from typing import Any

import checker

import foldlog
from foldlog.adapters.traces.shapes import Called, Returned, Said, Thought
from foldlog.projections.wire import CURRENT, wire
from support.hosts import WRITERS, Round
from support.talk import Chat

CODECS = tuple(WRITERS)
Step = dict[str, Any]


class Agent(Chat):
    """Keeps the array of a host of ``codec``. ``signed``: each answer begins with signed reasoning."""

    def __init__(self, codec: str, engine: foldlog.Engine | None = None, *, signed: bool = False, **options: Any):
        super().__init__(engine, codec=codec, **{"lanes": True, **options})
        self.codec = codec
        self.signed = signed
        self.bound = "sonnet-5-5" in options.get("model", "")
        self.count = 0
        self.starts: list[int] = []

    def ask(self, said: str = "go on", answer: str = "Done.") -> foldlog.Request:
        """Let the model end its turn with an answer, and a person say the next."""
        return self.round(f"{answer} {self.count}" if self.count else "", (), said)  # the same words twice get one id

    def step(self, *calls: tuple[str, Any], output: str = "x " * 200, error: bool = False) -> foldlog.Request:
        """Let the model call tools (by default one that runs something) and get their results."""
        return self.round("", calls or (("bash", {"n": self.count}),), output=output, error=error)

    def list(self, *steps: Step, name: str = "todowrite", **given: Any) -> foldlog.Request:
        """Let the agent write its to-do list."""
        return self.step((name, {"todos": list(steps)}), **given)

    def round(self, text: str, calls: Any, asked: str = "", output: str = "", error: bool = False) -> foldlog.Request:
        """Add one answer and what comes back for it; send the array."""
        n, self.count = self.count, self.count + 1
        made = tuple(Called(f"call_{n}_{i}", name, given) for i, (name, given) in enumerate(calls))
        back = tuple(Returned(one.id, one.name, output, error) for one in made)
        thoughts = (Thought("t" * (20 + n), f"c2ln{n:04}"),) if self.signed and (text or made) else ()
        one = Round(n, int(self.now * 1000), thoughts, text, made, back, (Said(asked),) if asked else ())
        self.starts.append(len(self.messages))
        self.messages += WRITERS[self.codec](one, len).messages
        return self.again()

    def again(self, **given: Any) -> foldlog.Request:
        request = super().again(**given)
        found = judged(self.codec, request, self.messages[self.state.start() :])
        if self.bound:  # what stands before the first changed byte stays, all behind it goes (THINK-1)
            found = [one for one in found if one.rule != "ANT-32"]
        assert found == [], "\n".join(map(str, found))
        return request


def judged(codec: str, request: foldlog.Request, raws: list[Any]) -> list[Any]:
    """Return what is wrong with a request, alone and beside what it was made of: ``raws``, covered messages apart."""
    messages = [json.loads(raw) for raw in request.messages_json]
    given = [json.loads(raw) for raw in raws]
    if codec == "openai-chat":
        return checker.openai.check({"messages": messages})
    if codec == "openai-responses":
        sent = {"input": messages}
        return [*checker.responses.check(sent), *checker.responses.check_against({"input": given}, sent)]
    if codec == "pi":
        return checker.pi.check(messages)
    if codec == "opencode":
        messages, given = spoken(messages), spoken(given)
    sent = {"messages": messages}
    beside = checker.thinking.check_against({"messages": given}, sent, may_clear_round=True)
    return [*checker.anthropic.check(sent), *beside]


def spoken(messages: list[Any]) -> list[Any]:
    """Return the Anthropic messages that OpenCode makes of its own."""
    found: list[Any] = []
    for message in messages:
        said: list[Any] = []
        back: list[Any] = []
        for part in message["parts"]:
            if part["type"] == "text" and part["text"]:
                said.append({"type": "text", "text": part["text"]})
            elif part["type"] == "reasoning":
                signature = part["metadata"]["anthropic"]["signature"]
                said.append({"type": "thinking", "thinking": part["text"], "signature": signature})
            elif part["type"] == "tool":
                state, id = part["state"], part["callID"]
                said.append({"type": "tool_use", "id": id, "name": part["tool"], "input": state["input"]})
                content = state.get("output", state.get("error"))
                back.append({"type": "tool_result", "tool_use_id": id, "content": content})
        found.append({"role": message["info"]["role"], "content": said})
        found += [{"role": "user", "content": back}] if back else []
    return found


def arcs(request: foldlog.Request) -> dict[str, tuple[str, Any, str]]:
    """Return the whole arcs of ours in a request by id: name, input and output. Half of one is an error."""
    codec, count = request.built.codec, len
    calls: dict[str, tuple[str, Any]] = {}
    found: dict[str, tuple[str, Any, str]] = {}
    for raw in request.messages_json:
        parts = wire(CURRENT).read(codec, raw, count).message.parts
        for p, part in enumerate(parts):
            id = getattr(part, "id", "")
            if not id.startswith("foldlog_todo_"):
                continue
            said = wire(CURRENT).part_text(codec, raw, p)
            if id not in calls:
                calls[id] = (part.name, json.loads(said))
            else:
                assert id not in found, "an arc twice"
                found[id] = (*calls[id], said)
    assert calls.keys() == found.keys(), "half an arc"
    return found


def place(request: foldlog.Request) -> list[int]:
    """Return the ordinals of the host's messages that arcs of ours stand behind."""
    zipped = zip(request.messages_json, request.built.owners, strict=True)
    return list(dict.fromkeys(m for raw, m in zipped if b"foldlog_todo_" in raw))
