"""Endpoints of brokers for a client without Twisted: ``host:port``, or the description of a Twisted endpoint.

Supports the kinds of endpoint with a host and a port: ``tcp``, ``tls`` and ``ssl``, with the files that TLS needs.
"""

from __future__ import annotations

import re

from attrs import frozen

from logd.clientcore.addresses import separate, split_endpoint
from logd.config.kinds import parse_address
from logd.errors import ConfigurationError

HostPort = tuple[str, int]

#: The TLS arguments of each kind: the folder of trusted certificates, the client's certificate, and its key.
_TLS_WORDS = {
    "tcp": (),
    "tls": ("trustRoots", "certificate", "privateKey"),
    "ssl": ("caCertsDir", "certKey", "privateKey"),
}


@frozen
class BrokerEndpoint:
    """One endpoint. ``tls`` holds the folder of trusted certificates, the client's own and its key; None: no TLS."""

    address: HostPort
    tls: tuple[str | None, str | None, str | None] | None = None


def parse_endpoints(brokers: str) -> tuple[BrokerEndpoint, ...]:
    """Read one or more endpoints, separated by commas. Raises ConfigurationError naming an invalid one.

    They must agree in TLS, since discovered brokers are connected to in the same way.
    """
    found = tuple(map(parse_endpoint, separate(brokers)))
    if len({each.tls for each in found}) > 1:
        raise ConfigurationError(
            f"brokers = {brokers!r} is not allowed: all are reached with the same TLS files, or all without TLS"
        )
    return found


def parse_endpoint(item: str) -> BrokerEndpoint:
    """Read one endpoint. Raises ConfigurationError naming it when it is invalid."""
    try:
        return BrokerEndpoint(parse_address(item))
    except ValueError:
        kind, *parts = (re.sub(r"\\(.?)", r"\1", part) for part in split_endpoint(item))
    words = _TLS_WORDS.get(kind)
    plain = [part for part in parts if "=" not in part]
    named = dict(part.split("=", 1) for part in parts if "=" in part)
    where = dict(zip(("host", "port"), plain, strict=False)) | named
    unknown = set(where) - {"host", "port", *(words or ())}
    host, port = where.get("host", ""), where.get("port", "")
    if words is None or unknown or len(plain) > 2 or not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ConfigurationError(
            f"brokers: {item!r} is not allowed; allowed is HOST:PORT with a port from 1 to 65535 (an IPv6 address in "
            "brackets), tcp:HOST:PORT, or tls:HOST:PORT with trustRoots=FOLDER, certificate=FILE and privateKey=FILE "
            "as needed"
        )
    if not words:
        return BrokerEndpoint((host, int(port)))
    roots, certificate, key = (where.get(word) for word in words)
    return BrokerEndpoint((host, int(port)), (roots, certificate, key))
