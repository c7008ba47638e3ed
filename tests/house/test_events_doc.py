"""specs/events.md is the catalogue of what the code stores: its tables are written from the code."""

from __future__ import annotations

import typing

import msgspec
import pytest

from foldlog.domain import events
from support import catalogue

EVENTS = typing.get_args(events.Event)


def test_the_page_equals_the_code():
    page = catalogue.PAGE.read_text(encoding="utf-8")
    assert page == catalogue.updated(page), "run `make specs` and read what changed: fields are only appended"


def test_the_page_names_every_event_and_field():
    text = catalogue.tables()
    for event in EVENTS:
        assert f"`{event.__struct_config__.tag}`" in text
        assert f"`{event.__name__}`" in text
        for field in msgspec.structs.fields(event):
            assert f"`{field.name}`" in text


def test_every_event_class_is_in_the_union():
    """An event that is not in ``Event`` could be written but never read."""
    classes = [
        value
        for value in vars(events).values()
        if isinstance(value, type) and issubclass(value, events.Base) and value is not events.Base
    ]
    assert [value.__name__ for value in classes if value not in EVENTS] == []
    assert len(classes) == len(EVENTS)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_an_event_is_frozen_tagged_array_like_and_explained(event):
    config = event.__struct_config__
    assert config.frozen
    assert config.array_like
    assert isinstance(config.tag, str)
    assert 1 <= len(config.tag) <= 2
    assert event.__doc__, f"{event.__name__} needs a sentence of meaning"
    assert event.__struct_fields__[:2] == ("at", "cmd")


def test_tags_are_unique():
    tags = [event.__struct_config__.tag for event in EVENTS]
    assert len(set(tags)) == len(tags)


def test_a_changed_field_changes_the_page():
    page = catalogue.PAGE.read_text(encoding="utf-8")
    altered = page.replace("| `cache_read` |", "| `cache_reads` |", 1)
    assert altered != page
    assert catalogue.updated(altered) == catalogue.updated(page)
    assert "| `cache_reads` |" not in catalogue.updated(altered)


def test_a_page_without_marks_is_refused():
    with pytest.raises(ValueError, match="generated"):
        catalogue.updated("# Events\n")
