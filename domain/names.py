"""What tools do, told by their names: which only look, which change a file, which run anything."""

from __future__ import annotations

READS = frozenset("notebookread outline read read_file read_many_files view zoom".split())
"""Tools that show what a file holds."""
SEARCHES = frozenset(
    "ast_grep_search find find_by_name find_references glob grep list list_dir list_files ls lsp_diagnostics "
    "lsp_find_references lsp_goto_definition lsp_prepare_rename lsp_symbols search search_files".split()
)
LOOKS = READS | SEARCHES
"""Tools whose result depends on the files alone (``transform.md`` 3.7). A command may have effects, so none is here."""
WRITES = frozenset("edit multiedit notebookedit write write_file".split())
PATCHES = frozenset("apply_patch patch".split())
LIST = "todowrite"
LISTS = frozenset((LIST, *"todo_write update_plan write_todos".split()))
"""Tools that hand over a whole to-do list: OpenCode's and Claude Code's, other clients', Codex's, Gemini CLI's."""
ANSWERS = frozenset(
    "ask_followup_question ask_user ask_user_question askuserquestion question request_user_input".split()
)
"""Tools whose result is what a person said (OpenCode, Claude Code, Codex, others): only the agent may mark it."""
AGENTS = frozenset("agent spawn_agent task".split())
WATCHES = frozenset("bash_kill bash_output bash_status bashoutput kill_shell killbash killshell".split())
"""Tools that only look after a command that runs, or end it (OpenCode, Claude Code)."""
EXEMPLARS = 3
"""The newest ``ctx_reduce`` arcs stay as examples of the call."""


def plain(name: str) -> str:
    """Return a tool's own name: lower case, without the prefix a server or host puts before it."""
    return name.lower().rpartition("__")[2].removeprefix("mcp_").removeprefix("aft_").lstrip("_")


def kind(name: str) -> str:
    """Return a tool's own name, the same one for all that keep a to-do list: they are kept alike."""
    own = plain(name)
    return LIST if own in LISTS else own
