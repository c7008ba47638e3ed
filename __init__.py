"""foldlog: a context-window manager for coding agents, event-sourced.

The public API: ``Engine``, ``Session``, ``Request``, ``Policy`` and the errors. Names are loaded when first used, so
that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import Delta, Engine, Reply, Request, Session, Status
    from .domain.errors import (
        Conflict,
        FoldlogError,
        InputError,
        LawBroken,
        MessageError,
        OptionError,
        PassFailed,
        RangeError,
        Refused,
        StoreBusy,
        StoreDamaged,
        StoreError,
        StoreNewer,
        StoreUnavailable,
        TooLarge,
        UnknownSession,
        UnknownTag,
    )
    from .domain.overflow import Explained
    from .domain.passes.heard import Waiting
    from .domain.policy import Policy
    from .ports import Found

__version__ = "0.1.0"

__all__ = [
    "Conflict",
    "Delta",
    "Engine",
    "Explained",
    "FoldlogError",
    "Found",
    "InputError",
    "LawBroken",
    "MessageError",
    "OptionError",
    "PassFailed",
    "Policy",
    "RangeError",
    "Refused",
    "Reply",
    "Request",
    "Session",
    "Status",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreNewer",
    "StoreUnavailable",
    "TooLarge",
    "UnknownSession",
    "UnknownTag",
    "Waiting",
]

_API = {"Delta", "Engine", "Reply", "Request", "Session", "Status"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"foldlog has no attribute {name!r}")
    if name in _API:
        from . import api as home
    elif name in ("Found", "Waiting"):
        from . import ports as home  # type: ignore[no-redef]  # one name for whichever module holds it
    elif name == "Explained":
        from .domain import overflow as home  # type: ignore[no-redef]  # one name for whichever module holds it
    elif name == "Policy":
        from .domain import policy as home  # type: ignore[no-redef]  # one name for whichever module holds it
    else:
        from .domain import errors as home  # type: ignore[no-redef]  # one name for whichever module holds it
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted(__all__)
