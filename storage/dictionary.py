"""The compression dictionary that ships with foldlog (convention 30).

A released dictionary is never changed: bodies written with it could not be read any more. A better one is a new file
with a new header byte. ``tests/bench/make_dictionary.py`` makes the file.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

from ..domain.errors import StoreUnavailable

VERSION = 1
FILE = "dictionary_v1.bin"
SHA256 = "498ea065a663244820b9df2b82a74723530be567ddb7f951fffb0b5b7dd89dd4"


def load_dictionary() -> bytes:
    """Return the bytes of dictionary version 1 (at most 32 KiB).

    Raises ``StoreUnavailable`` where the file is missing or is not the released one: reading or writing with another
    dictionary would make bodies unreadable.
    """
    try:
        data = files(__name__.rpartition(".")[0]).joinpath(FILE).read_bytes()
    except OSError as error:
        raise StoreUnavailable(
            f"the compression dictionary {FILE} is missing from this installation; install foldlog again", value=FILE
        ) from error
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise StoreUnavailable(
            f"the compression dictionary {FILE} is not the one this version was released with; install foldlog again",
            value=hashlib.sha256(data).hexdigest(),
        )
    return data
