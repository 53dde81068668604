"""Addresses of brokers: reads ``host:port,host:port`` or endpoint strings, and makes those of discovered brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from logd.config.kinds import parse_address
from logd.errors import ConfigurationError

#: A host and a port, or the description of a Twisted client endpoint.
Address = str | tuple[str, int]

Item = TypeVar("Item")

#: Kinds of endpoint whose first two positional parts are a host and a port.
_HOST_PORT_KINDS = ("tcp", "tls", "ssl")


def parse_brokers(brokers: str | Sequence[str | tuple[str, int]]) -> tuple[Address, ...]:
    """Read the addresses that a client starts from.

    A string holds one or more, separated by commas; a sequence holds one in each item. Each is ``HOST:PORT`` (an IPv6
    address in brackets) or the description of a Twisted client endpoint such as ``tls:logs.example.org:6668`` (which
    may then hold no comma). Raises ConfigurationError naming an item that is neither.
    """
    items = (
        separate(brokers) if isinstance(brokers, str) else _at_least_one([item for item in brokers if item], brokers)
    )
    return tuple(_parse(item) for item in items)


def separate(brokers: str) -> list[str]:
    """Return the addresses in a text, which are separated by commas. Raises ConfigurationError when there is none."""
    return _at_least_one([item.strip() for item in brokers.split(",") if item.strip()], brokers)


def _at_least_one(items: list[Item], brokers: object) -> list[Item]:
    if not items:
        raise ConfigurationError(f"brokers = {brokers!r} is not allowed; allowed is at least one HOST:PORT or endpoint")
    return items


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
    """Return the address of a broker that advertises ``host`` and ``port`` to a client that began at ``bootstrap``.

    A client that began over TLS stays with TLS: in an endpoint with host and port, only these two are replaced.
    """
    if isinstance(bootstrap, str):
        kind, _, rest = bootstrap.partition(":")
        parts = split_endpoint(rest)
        if kind in _HOST_PORT_KINDS and len(parts) >= 2 and "=" not in parts[0] and "=" not in parts[1]:
            escaped = host.replace("\\", "\\\\").replace(":", "\\:")
            return ":".join([kind, escaped, str(port), *parts[2:]])
    return host, port


def split_endpoint(description: str) -> list[str]:
    """Return the parts of an endpoint's description: those between colons without a backslash, still escaped."""
    parts = [""]
    escaped = False
    for character in description:
        if character == ":" and not escaped:
            parts.append("")
        else:
            parts[-1] += character
        escaped = character == "\\" and not escaped
    return parts


def kind_hint(address: Address) -> str:
    """Return what may have been meant by a host that is called as a kind of endpoint; empty for any other address.

    ``tcp:6667`` describes where a broker listens, and to a client it is a host and a port.
    """
    if isinstance(address, str) or address[0].lower() not in _HOST_PORT_KINDS:
        return ""
    host, port = address
    return f"{host!r} was taken for the name of a host; an endpoint of that kind is {host.lower()}:HOST:{port}"


def name_of(address: Address) -> str:
    """Return the address as text for messages to people."""
    if isinstance(address, str):
        return address
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
