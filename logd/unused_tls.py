"""Starts of a process without the TLS of Twisted, where no endpoint has any."""

from __future__ import annotations

import sys
from collections.abc import Iterable

_PACKAGE = "OpenSSL"
#: The endpoints that serve bytes as they are.
_PLAIN = ("tcp:", "unix:")


def leave_tls_out(endpoints: Iterable[str]) -> None:
    """Import Twisted's TCP without pyOpenSSL and cryptography, unless one of ``endpoints`` may need them.

    Where they are installed Twisted imports them with its first socket, for all eventualities: 13 MB and 60 ms.
    Afterwards the reactor of this process has no ``listenSSL`` and ``connectSSL``. So only a process that is a broker
    and nothing else may call it. Nothing happens if they are imported already.
    """
    if _PACKAGE in sys.modules or "twisted.internet.tcp" in sys.modules:
        return
    if not all(endpoint.startswith(_PLAIN) for endpoint in endpoints):
        return
    sys.modules[_PACKAGE] = None  # type: ignore[assignment]  # an import fails as if it were not installed
    try:
        import twisted.internet.endpoints
        import twisted.internet.posixbase  # noqa: F401
    finally:
        del sys.modules[_PACKAGE]
