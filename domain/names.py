"""What tools do, told by their names: which only look, which change a file, which run anything."""

from __future__ import annotations

LOOKS = frozenset(
    "ast_grep_search find find_by_name find_references glob grep list list_dir list_files ls lsp_diagnostics "
    "lsp_find_references lsp_goto_definition lsp_prepare_rename lsp_symbols notebookread outline read read_file "
    "read_many_files search search_files view zoom".split()
)
"""Tools whose result depends on the files alone (``transform.md`` 3.7). A command may have effects, so none is here."""
WRITES = frozenset("edit multiedit notebookedit write write_file".split())
EXEMPLARS = 3
"""The newest ``ctx_reduce`` arcs stay as examples of the call."""


def plain(name: str) -> str:
    """Return a tool's own name: lower case, without the prefix a server or host puts before it."""
    return name.lower().rpartition("__")[2].removeprefix("mcp_").removeprefix("aft_").lstrip("_")
