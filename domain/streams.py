"""Names of streams (convention 2). Project, user and workspace streams belong to no harness."""

from __future__ import annotations

import hashlib
import re

from .errors import OptionError

_SAFE = re.compile(r"[^A-Za-z0-9._~:-]")
LIMIT = 200
KEPT = 100


def escape(id: str) -> str:
    """Return an id percent-encoded to ``[A-Za-z0-9._~:-]``; over 200 bytes its first 100, ``~`` and its SHA-256."""
    if not isinstance(id, str) or not id:
        raise OptionError("an id must be text with at least one character", value=id)
    whole = _SAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass")), id)
    if len(whole) <= LIMIT:
        return whole
    return f"{whole[:KEPT]}~{hashlib.sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()}"


def session_stream(harness: str, id: str) -> str:
    """Return the stream of one host's session."""
    return f"session/{escape(harness)}/{escape(id)}"


def project_stream(identity: str) -> str:
    """Return the stream of a project; it is shared by all hosts."""
    return f"project/{escape(identity)}"
