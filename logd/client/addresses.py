"""Where brokers are: reads ``host:port,host:port`` or endpoint strings, and the addresses of discovered brokers."""

from __future__ import annotations

from collections.abc import Sequence

from logd.config.kinds import parse_address
from logd.errors import ConfigurationError

#: A host and a port, or the description of a Twisted client endpoint.
Address = str | tuple[str, int]

#: Kinds of endpoint whose first two positional parts are a host and a port.
_HOST_PORT_KINDS = ("tcp", "tls", "ssl")


def parse_brokers(brokers: str | Sequence[str | tuple[str, int]]) -> tuple[Address, ...]:
    """Read the addresses that a client starts from.

    A string holds one or more, separated by commas; a sequence holds one in each item. Each is ``HOST:PORT`` (an IPv6
    address in brackets) or the description of a Twisted client endpoint such as ``tls:logs.example.org:6668`` (which
    then may hold no comma). Raises ConfigurationError that names what is neither.
    """
    items = [item.strip() for item in brokers.split(",")] if isinstance(brokers, str) else list(brokers)
    addresses = tuple(_parse(item) for item in items if item)
    if not addresses:
        raise ConfigurationError(f"brokers = {brokers!r} is not allowed; allowed is at least one HOST:PORT or endpoint")
    return addresses


def _parse(item: str | tuple[str, int]) -> Address:
    if isinstance(item, tuple):
        return item
    try:
        return parse_address(item)
    except ValueError:
        kind, colon, rest = item.partition(":")
        if not colon or not rest or not kind.isidentifier() or rest.isdigit():
            raise ConfigurationError(
                f"brokers: {item!r} is not allowed; allowed is HOST:PORT with a port from 1 to 65535 (an IPv6 address "
                "in brackets), or the description of a Twisted client endpoint, such as 'tls:logs.example.org:6668'"
            ) from None
        return item


def discovered(host: str, port: int, bootstrap: Address) -> Address:
    """The address of a broker that advertises ``host`` and ``port`` to a client that began at ``bootstrap``.

    Who came in over TLS goes on over TLS: of an endpoint that names a host and a port, these two are replaced.
    """
    if isinstance(bootstrap, str):
        kind, _, rest = bootstrap.partition(":")
        parts = _split(rest)
        if kind in _HOST_PORT_KINDS and len(parts) >= 2 and "=" not in parts[0] and "=" not in parts[1]:
            escaped = host.replace("\\", "\\\\").replace(":", "\\:")
            return ":".join([kind, escaped, str(port), *parts[2:]])
    return host, port


def _split(description: str) -> list[str]:
    """Split at colons that no backslash escapes, keeping the escapes."""
    parts = [""]
    escaped = False
    for character in description:
        if character == ":" and not escaped:
            parts.append("")
        else:
            parts[-1] += character
        escaped = character == "\\" and not escaped
    return parts


def name_of(address: Address) -> str:
    """The address as text for messages to people."""
    if isinstance(address, str):
        return address
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
