"""The names of peers in log lines."""

from __future__ import annotations

from typing import Any


def peer_name(address: Any) -> str:
    """Return ``host:port``, or the name of a local socket."""
    host, port = getattr(address, "host", None), getattr(address, "port", None)
    return f"{host}:{port}" if host is not None else str(address)
