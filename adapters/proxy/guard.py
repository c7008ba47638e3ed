"""Who may speak to the proxy: programs of the same user on this machine, and no web page (``specs/proxy.md``).

A browser that was talked into resolving a foreign name to 127.0.0.1 sends that name as ``Host``, and its page as
``Origin``; a program of the user sends neither.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from starlette.datastructures import Headers

LOCAL_NAMES = frozenset({"localhost", "localhost.", "127.0.0.1", "::1"})
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
"""Linux: every TCP socket of this network namespace with the user it belongs to."""
_CROSS = frozenset({"cross-site", "same-site"})


def loopback(host: str) -> bool:
    """Whether an address is one of this machine's own loopback addresses."""
    try:
        found = ipaddress.ip_address(host.split("%", 1)[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return found.is_loopback if mapped is None else mapped.is_loopback


def objection(client: str | None, headers: Headers, port: int | None) -> str:
    """Return why a request is not taken, ``""`` where it is. ``port``: the one it came in at, None = not known."""
    if client is not None and not loopback(client):
        return "the proxy serves programs on this machine only"
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _ours(hosts[0], port):
        return "the Host header must name this machine's loopback address and the proxy's port"
    for origin in headers.getlist("origin"):
        if origin.lower() not in _origins(hosts[0]):
            return "a web page of another origin may not use the proxy"
    if headers.get("sec-fetch-site", "").lower() in _CROSS:
        return "a web page of another origin may not use the proxy"
    return ""


def _ours(host: str, port: int | None) -> bool:
    name, found = _split(host.strip().lower())
    if name not in LOCAL_NAMES and not loopback(name):
        return False
    return port is None or found == (port if found or port != 80 else 0)


def _split(host: str) -> tuple[str, int]:
    """Return name and port of a ``Host`` value, port 0 for none and -1 for one that is no number."""
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        given = rest.removeprefix(":")
        if rest and not rest.startswith(":"):
            return "", -1
    else:
        name, _, given = host.partition(":")
    if not given:
        return name, 0
    return name, int(given) if given.isascii() and given.isdigit() and len(given) < 6 else -1


def _origins(host: str) -> tuple[str, str]:
    return f"http://{host.strip().lower()}", f"https://{host.strip().lower()}"


def bearer(headers: Headers, token: str) -> bool:
    """Whether a request for the proxy's own pages carries the token of its run file."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return bool(token) and scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


def same_user(peer: tuple[str, int], own: tuple[str, int], tables: Iterable[str] = TABLES) -> bool | None:
    """Whether the other end of a loopback connection belongs to this process's user (or to root).

    ``peer`` and ``own``: its and our address and port. None: this system does not tell. On Linux the kernel's tables
    do; elsewhere no portable call names the user of a TCP socket, and the proxy's own pages have their token.
    """
    if not sys.platform.startswith("linux"):
        return None
    told = False
    for table in tables:
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except (OSError, UnicodeDecodeError):
            continue
        told = True
        for line in lines:
            fields = line.split()
            if len(fields) > 7 and _end(fields[1]) == peer and _end(fields[2]) == own:
                return fields[7].isdigit() and int(fields[7]) in (0, os.getuid())
    return False if told else None


def _end(field: str) -> tuple[str, int]:
    """Return the address and port of one end as the tables write it: words in the machine's byte order, hex."""
    digits, _, port = field.partition(":")
    try:
        raw = bytes.fromhex(digits)
        words = b"".join(
            int.from_bytes(raw[at : at + 4], sys.byteorder).to_bytes(4, "big") for at in range(0, len(raw), 4)
        )
        address = ipaddress.ip_address(words)
        mapped = getattr(address, "ipv4_mapped", None)
        return str(mapped or address), int(port, 16)
    except ValueError:
        return "", -1
