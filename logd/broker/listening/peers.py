"""Connections to other brokers, over TCP or TLS as they have registered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, fail

from logd.errors import BrokerUnavailable
from logd.net.connection import BrokerConnection, endpoint_for


def connect_to_broker(
    reactor: Any, authorities: str | None, address: tuple[str, int], tls: bool
) -> Deferred[BrokerConnection]:
    """Connect to another broker. With ``tls`` its certificate must be for its host.

    ``authorities`` is the file of those that may have signed the certificate, None for those of the system. Fails with
    BrokerUnavailable.
    """
    if not tls:
        return BrokerConnection.connect(reactor, address)
    try:
        endpoint = _with_tls(reactor, authorities, address)
    except (ImportError, OSError, ValueError) as error:
        return fail(
            BrokerUnavailable(
                f"the broker at {address[0]}:{address[1]} is reached over TLS, for which this broker needs the "
                f"packages of the extra tls, and a readable file in replica.tls.authorities: {error}"
            )
        )
    return BrokerConnection.connect(reactor, endpoint)


def _with_tls(reactor: Any, authorities: str | None, address: tuple[str, int]) -> Any:
    """Return an endpoint with TLS. Imports it here, as a broker without TLS needs none of it."""
    from twisted.internet import ssl
    from twisted.internet.endpoints import TLSMemoryBIOFactory, wrapClientTLS

    if TLSMemoryBIOFactory is None:  # see logd.unused_tls
        raise ImportError("it was started without TLS")
    trusted = None
    if authorities is not None:
        from cryptography import x509
        from OpenSSL.crypto import X509

        found = x509.load_pem_x509_certificates(Path(authorities).read_bytes())
        trusted = ssl.trustRootFromCertificates([ssl.Certificate(X509.from_cryptography(each)) for each in found])
    return wrapClientTLS(ssl.optionsForClientTLS(address[0], trusted), endpoint_for(reactor, address))
