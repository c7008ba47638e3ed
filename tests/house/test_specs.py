"""The table of contents of specs/, and links that lead somewhere."""

from __future__ import annotations

import re

import pytest

from support.house import ROOT

SPECS = ROOT / "specs"
PAGES = sorted([*SPECS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])


def links(text: str) -> list[str]:
    """Return the targets of links into the checkout, without their anchors."""
    found = re.findall(r"\]\(([^)\s]+)\)", text)
    return [link.split("#")[0] for link in found if "://" not in link and not link.startswith("#")]


def test_every_page_is_listed():
    listed = set(links((SPECS / "README.md").read_text(encoding="utf-8")))
    pages = {page.relative_to(SPECS).as_posix() for page in SPECS.rglob("*.md")} - {"README.md"}
    assert len(pages) > 10
    assert pages - listed == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    assert [link for link in links(text) if not (page.parent / link).exists()] == []


def test_links_are_seen():
    text = "[a](x.md#b) [c](https://example.org) [d](#e) `f`"
    assert links(text) == ["x.md"]
