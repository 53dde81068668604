"""The end of a server's connection that could not speak TLS with its peer, in words."""

from __future__ import annotations

from typing import Any

from twisted.python.failure import Failure

from logd.protocol.conversation.foreign import ForeignClient

#: By name, since the package may be missing where there is no TLS.
_TLS_ERROR = "OpenSSL.SSL.Error"
#: OpenSSL's words for first bytes that are none of TLS.
_NOT_TLS = ("wrong version number", "packet length too long", "record layer failure", "unknown protocol")
_HTTP = ("http request", "https proxy request")


def tls_failure(reason: Failure | None) -> ForeignClient | None:
    """Return the kind of client with which TLS failed, None for another end of a connection."""
    if reason is None or not reason.check(_TLS_ERROR):
        return None
    errors: Any = reason.value.args[0] if reason.value is not None and reason.value.args else ()
    words = ", ".join(str(error[-1]) for error in errors if error) if isinstance(errors, list) else str(errors)
    if words in _HTTP:
        return ForeignClient(
            "HTTP",
            "an HTTP client called, and this port does not speak HTTP; /health and /metrics are served at the address "
            "of the setting http (option --http)",
        )
    if words in _NOT_TLS:
        return ForeignClient(
            "no TLS",
            "a client without TLS called, and this port speaks TLS; have it connect with TLS (Kafka's clients: "
            "security.protocol=SSL), or to a port without",
        )
    remedy = ""
    if "unknown ca" in words or "certificate" in words:
        remedy = (
            "; it does not trust this broker's certificate: name the authority to it (ssl.ca.location; in Java "
            "ssl.truststore.location), or advertise an address that the certificate is for"
        )
    return ForeignClient("TLS failed", f"TLS with it failed: {words or 'no reason is known'}{remedy}")
