"""Small hand-written requests that are valid and hold every kind of block the mutants need."""

from __future__ import annotations

from typing import Any

_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_SHORT = {"type": "ephemeral"}
_LONG = {"type": "ephemeral", "ttl": "1h"}


def anthropic_request() -> dict[str, Any]:
    """Return an Anthropic request with two rounds of calls, thinking, an image, a document and three marks."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PIXEL}}
    text = {"type": "text", "media_type": "text/plain", "data": "Read me."}
    document = {"type": "document", "source": text, "title": "A"}
    return {
        "model": "claude-opus-4-6",
        "system": [{"type": "text", "text": "You help with code.", "cache_control": dict(_LONG)}],
        "tools": [
            {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object", "properties": {}}},
            {"name": "bash", "input_schema": {"type": "object"}, "cache_control": dict(_LONG)},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "messages": [
            {"role": "user", "content": "What is in notes.txt?"},
            {"role": "user", "content": [{"type": "text", "text": "See the picture."}, image, document]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "I look.", "signature": "c2lnbmVk"},
                    {"type": "redacted_thinking", "data": "b3BhcXVl"},
                    {"type": "text", "text": "I will look."},
                    {"type": "tool_use", "id": "toolu_01", "name": "read", "input": {"path": "notes.txt"}},
                    {"type": "tool_use", "id": "toolu_02", "name": "bash", "input": {}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_02", "content": ""}]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_01",
                        "content": [{"type": "text", "text": "a note"}, dict(image)],
                        "is_error": False,
                    },
                    {"type": "text", "text": "Mind the budget."},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {"query": "x"}},
                    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_01", "content": []},
                    {"type": "thinking", "thinking": "One more.", "signature": "c2lnbmVkMg=="},
                    {"type": "tool_use", "id": "toolu_03", "name": "read", "input": {"path": "more.txt"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_03", "is_error": True, "content": "no such file"},
                    {"type": "text", "text": "Go on with naïve 🙂 text.", "cache_control": dict(_SHORT)},
                ],
            },
        ],
    }


def anthropic_running() -> dict[str, Any]:
    """Return an Anthropic request that ends inside a round of two calls that both think."""
    request = anthropic_request()
    for name in ("toolu_04", "toolu_05"):
        thought = {"type": "thinking", "thinking": f"For {name}.", "signature": "c2lnbmVk"}
        call: dict[str, Any] = {"type": "tool_use", "id": name, "name": "read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": name, "content": "x"}
        request["messages"].append({"role": "assistant", "content": [thought, call]})
        request["messages"].append({"role": "user", "content": [result]})
    return request


def openai_request() -> dict[str, Any]:
    """Return a Chat Completions request with parallel calls, an image and an empty tool output."""
    return {
        "model": "gpt-5.4",
        "tools": [
            {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}},
            {"type": "function", "function": {"name": "bash", "description": "Runs a command."}},
        ],
        "messages": [
            {"role": "system", "content": "You help with code."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PIXEL}"}},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "",
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}},
                    {"id": "call_2", "type": "function", "function": {"name": "bash", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "call_2", "content": ""},
            {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "a note"}]},
            {"role": "assistant", "content": "It is a note."},
            {"role": "user", "content": "Read more."},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "call_3", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "call_3", "content": "naïve 🙂.txt"},
        ],
    }


def responses_request() -> dict[str, Any]:
    """Return a Responses request with reasoning, parallel calls, custom and hosted tools, an image, a compaction."""
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{_PIXEL}"}
    thought: dict[str, Any] = {"type": "reasoning", "summary": [], "encrypted_content": "b3BhcXVl"}
    return {
        "model": "gpt-5.4",
        "instructions": "You help with code.",
        "tools": [
            {"type": "function", "name": "read", "parameters": {"type": "object"}},
            {"type": "custom", "name": "apply_patch"},
            {"type": "namespace", "name": "mcp__x", "tools": [{"type": "function", "name": "read"}]},
            {"type": "web_search"},
        ],
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
            {"type": "compaction", "encrypted_content": "b3BhcXVl"},
            {"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, image]},
            {**thought, "id": "rs_1"},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": '{"path": "a"}'},
            {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_2", "output": ""},
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [{"type": "input_text", "text": "a"}, image],
            },
            {**thought, "id": "rs_2", "content": None},
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "I patch it.", "annotations": []}],
            },
            {
                "type": "custom_tool_call",
                "id": "ctc_1",
                "call_id": "call_3",
                "name": "apply_patch",
                "input": "*** Begin",
            },
            {"type": "custom_tool_call_output", "call_id": "call_3", "output": "done"},
            {**thought, "id": "rs_3"},
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
            {"type": "local_shell_call", "id": "sh_1", "call_id": "call_4", "action": {"type": "exec", "command": []}},
            {"type": "function_call_output", "call_id": "call_4", "output": "naïve 🙂"},
            {"type": "message", "role": "user", "content": "Go on."},
        ],
    }


def pi_messages() -> list[dict[str, Any]]:
    """Return Pi AgentMessages with each role, an aborted turn, a call without a result, and odd thinking."""
    said: dict[str, Any] = {"role": "assistant", "api": "anthropic-messages", "model": "claude-opus-4-6"}
    return [
        {"role": "compactionSummary", "summary": "We began."},
        {"role": "user", "content": "Look at notes.txt"},
        {
            **said,
            "stopReason": "toolUse",
            "content": [
                {"type": "thinking", "thinking": "I look.", "thinkingSignature": "c2lnbmVk"},
                {"type": "thinking", "thinking": "", "thinkingSignature": "b3BhcXVl", "redacted": True},
                {"type": "text", "text": " \n"},
                {"type": "toolCall", "id": "toolu_01", "name": "read", "arguments": {"path": "notes.txt"}},
                {"type": "toolCall", "id": "toolu_02", "name": "bash", "arguments": {}},
            ],
        },
        {
            "role": "toolResult",
            "toolCallId": "toolu_01",
            "toolName": "read",
            "content": [{"type": "text", "text": "a note"}, {"type": "image", "data": _PIXEL, "mimeType": "image/png"}],
            "isError": False,
        },
        {"role": "bashExecution", "command": "ls", "output": "a\n", "exitCode": 2, "cancelled": False},
        {"role": "bashExecution", "command": "id", "output": "", "exitCode": 0, "excludeFromContext": True},
        {
            **said,
            "stopReason": "aborted",
            "content": [{"type": "toolCall", "id": "toolu_03", "name": "bash", "arguments": {}}],
        },
        {"role": "branchSummary", "summary": "We tried."},
        {"role": "custom", "customType": "note", "content": "Mind the budget.", "display": False},
        {
            **said,
            "stopReason": "stop",
            "content": [{"type": "thinking", "thinking": "Half a thought."}, {"type": "text", "text": "Done."}],
        },
        {"role": "user", "content": [{"type": "text", "text": "Thanks."}, {"type": "text", "text": ""}]},
    ]
