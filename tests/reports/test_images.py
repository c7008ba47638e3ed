"""Reports of pictures, each as a kind: several inputs (``specs/reports.md``)."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import pytest

from support.talk import Chat, assistant, call, result, text, user


def png(width: int, height: int, size: int = 0) -> str:
    """Return a picture as base64: its true head, and noise up to ``size`` bytes."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", len(head)) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk + b"\x00" * max(size - 33, 0)).decode()


def picture(width: int, height: int, size: int = 0) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png(width, height, size)}}


# ------------------------------------------------------------------- IM-03: what a picture costs


@pytest.mark.rule("IM-03", "WINDOW-12")
@pytest.mark.parametrize(("width", "height", "cost"), [(1_024, 768, 1_049), (200, 200, 54), (2_400, 1_800, 4_500)])
@pytest.mark.parametrize("size", [1_000, 300_000, 2_600_000])
@pytest.mark.parametrize("place", ["result", "prompt", "several"])
def test_a_picture_is_counted_by_its_pixels(width: int, height: int, cost: int, size: int, place: str):
    """However many bytes it has, and wherever it stands: no rebuild is begun for the length of its base64."""
    host = Chat()
    before = host.say(user("start")).usage_estimate
    one = picture(width, height, size)
    if place == "prompt":
        host.messages += [assistant("ok"), user([one, text("look")])]
    else:
        inner = [one] * (3 if place == "several" else 1)
        host.messages += [assistant([call("t")]), user([result("t", inner)])]
    request = host.again()
    many = 3 if place == "several" else 1
    assert many * cost <= request.usage_estimate - before <= many * cost + 60
    for _ in range(3):
        assert host.turn().level == "defer"
    assert host.session.status().usage_percent < 1_000
