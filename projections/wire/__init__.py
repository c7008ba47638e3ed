"""The wire versions there are. Each pass names the one it was rendered with; audit renders it with that one again."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files

from ...domain.errors import StoreNewer
from . import v1
from .contract import Wire

CURRENT = 1

RELEASED: dict[int, str] = {
    1: "a4770ab9ebead4ded788293bed396904b78c002c3c9ad6b5ba47fb133f7ebb65",
}
"""SHA-256 of each version's source (``code_digest``), fixed at its release; a test holds them together."""

_VERSIONS: dict[int, Wire] = {1: v1}


def wire(version: int) -> Wire:
    """Return the module of a wire version. Raises ``StoreNewer`` for one this program does not have."""
    found = _VERSIONS.get(version)
    if found is None:
        raise StoreNewer(
            f"this session was rendered with a wire version this program does not have (it has up to {CURRENT}); "
            "install a newer foldlog",
            value=version,
            where="wire",
        )
    return found


def code_digest(version: int) -> str:
    """Return the SHA-256 (hex) over the sorted source files of a wire version: name, NUL, length, NUL, bytes."""
    wire(version)
    digest = sha256()
    folder = files(__name__).joinpath(f"v{version}")
    for source in sorted((f for f in folder.iterdir() if f.name.endswith(".py")), key=lambda f: f.name):
        data = source.read_bytes()
        digest.update(source.name.encode() + b"\0" + str(len(data)).encode() + b"\0" + data)
    return digest.hexdigest()
