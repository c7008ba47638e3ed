"""A released wire version is never edited."""

from __future__ import annotations

import pytest

from foldlog.domain.errors import StoreNewer
from foldlog.projections.wire import CURRENT, RELEASED, code_digest, v1, wire


@pytest.mark.parametrize("version", sorted(RELEASED))
def test_source_is_what_was_released(version: int) -> None:
    """VIEW-21. Before a release: put the printed value into RELEASED. After it: make a new version instead."""
    assert RELEASED[version] == code_digest(version), f'    {version}: "{code_digest(version)}",'


def test_versions_are_found_by_number() -> None:
    assert wire(CURRENT) is v1
    assert v1.VERSION == CURRENT
    assert CURRENT in RELEASED


@pytest.mark.parametrize("version", [0, CURRENT + 1, -1])
def test_an_unknown_version_is_a_newer_store(version: int) -> None:
    with pytest.raises(StoreNewer, match="newer foldlog"):
        wire(version)
