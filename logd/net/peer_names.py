"""The names of peers in log lines, and of servers as peers call them."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any


def peer_name(address: Any) -> str:
    """Return ``host:port``, or the name of a local socket."""
    host, port = getattr(address, "host", None), getattr(address, "port", None)
    return f"{host}:{port}" if host is not None else str(address)


def is_called_by_address(host: str) -> bool:
    """Return whether a host is an address or this machine's own name: no site can bind one of these to a server."""
    if host in ("localhost", ""):
        return True
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
