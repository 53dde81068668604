"""Starts of a process without the TLS of Twisted, where no endpoint has any.

Where pyOpenSSL is installed Twisted imports it with its first socket, for all eventualities: 13 MB, and a third of
the processor time of a short command of ``logd``. Once Twisted was imported without it, the reactor of this process has
no ``listenSSL`` and ``connectSSL``, and ``tls:`` endpoints cannot be made. So only a process that is a broker or a
command and nothing else may do so.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_PACKAGE = "OpenSSL"
#: The endpoints that serve bytes as they are.
_PLAIN = ("tcp:", "unix:")
#: The name of an endpoint other than _PLAIN, as in ``tls:HOST:PORT``, but not a host before its port; or a word that
#: has to do with TLS or may name a file with endpoints.
_DOUBTFUL = re.compile(r"(?:^|[=,\s])(?!tcp:|unix:)[a-z][\w.-]*:(?!\d)|tls|ssl|config", re.IGNORECASE)

#: A setting or option of an endpoint to listen on that is not plain, with its value; a port may follow a plugin's name.
_LISTENING = re.compile(r"(?:listen|http)=(?!tcp:|unix:)", re.IGNORECASE)


def leave_tls_out(endpoints: Iterable[str]) -> None:
    """Import Twisted's TCP without pyOpenSSL and cryptography, unless one of ``endpoints`` may need them.

    Nothing happens if they are imported already.
    """
    if not all(endpoint.startswith(_PLAIN) for endpoint in endpoints):
        return
    with without_tls():
        import twisted.internet.endpoints  # noqa: F401


def may_need_tls(words: Iterable[str]) -> bool:
    """Return whether one of the words of a command line, or of variables, may name an endpoint that is not plain."""
    before = ""
    for word in words:
        if _DOUBTFUL.search(word) or _LISTENING.search(f"{before}={word}"):
            return True
        before = word
    return False


@contextmanager
def without_tls() -> Iterator[None]:
    """Import Twisted's endpoints and reactor within this context, if at all, without pyOpenSSL and cryptography.

    Nothing happens if they are imported already.
    """
    if _PACKAGE in sys.modules or "twisted.internet.tcp" in sys.modules:
        yield
        return
    sys.modules[_PACKAGE] = None  # type: ignore[assignment]  # an import fails as if it were not installed
    try:
        yield
        if "twisted.internet.endpoints" in sys.modules:
            import twisted.internet.posixbase  # noqa: F401  # imported with the reactor
    finally:
        del sys.modules[_PACKAGE]
