"""When the prefix is lost anyway, or its own content must change: the triggers of a fold (seed 000, rulings).

Checked in order; all that hold are kept as reasons, the first names the fold.
"""

from __future__ import annotations

from ..identity import Scene

REGIONS = frozenset({"system_hash", "tools_change"})
"""The reasons that lie before the messages: they may hold on every pass, whatever the session needs."""


def fold_reasons(
    scene: Scene, *, model: str, system_hash: bytes, tools_names: bytes, idle: bool, managed: bool
) -> tuple[str, ...]:
    """Return why m[0] must be rendered again, empty for no fold. An unknown signal never triggers."""
    state = scene.state
    fold = state.fold
    # None yet, or made while compaction was off.
    if fold is None or (managed and state.primary and not fold.head_tokens):
        return ("first_render",)
    found = []
    if model and {fold.model, scene.base()[2]} - {"", model}:
        found.append("model_change")
    if system_hash != fold.system:
        found.append("system_hash")
    if tools_names and fold.tools and tools_names != fold.tools:
        found.append("tools_change")
    if not state.primary:
        return tuple(found)
    if idle:
        found.append("ttl_idle")
    if state.lost:
        found.append("cache_loss")
    if state.compacted:
        found.append("host_compaction")
    if scene.void():
        found.append("cut_void")
    return tuple(found)
