"""Where brokers are, as every command and client takes it: ``host:port``, or a Twisted endpoint's description.

The workers speak no Twisted, so the kinds of endpoint that name a host and a port are read here: ``tcp``, ``tls`` and
``ssl``, with the files that TLS needs.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from attrs import frozen

from logd.config.kinds import parse_address
from logd.errors import ConfigurationError

Address = tuple[str, int]

#: What each kind may say of TLS: its word for the folder of certificates to trust, for a client's own and for its key.
_TLS_WORDS = {
    "tcp": (),
    "tls": ("trustRoots", "certificate", "privateKey"),
    "ssl": ("caCertsDir", "certKey", "privateKey"),
}


@frozen
class Endpoint:
    """One place. ``tls`` holds the folder of trusted certificates, the client's own and its key; None without TLS."""

    address: Address
    tls: tuple[str | None, str | None, str | None] | None = None


def parse_endpoints(brokers: str) -> tuple[Endpoint, ...]:
    """Read one or more, separated by commas. Raises ConfigurationError that names what is none.

    They agree in TLS, since brokers that are discovered on the way are spoken to as the first ones are.
    """
    found = tuple(_endpoint(item.strip()) for item in brokers.split(",") if item.strip())
    if not found:
        raise ConfigurationError(f"brokers = {brokers!r} is not allowed; allowed is at least one HOST:PORT or endpoint")
    if len({each.tls for each in found}) > 1:
        raise ConfigurationError(f"brokers = {brokers!r} is not allowed: all are reached alike, with or without TLS")
    return found


def _endpoint(item: str) -> Endpoint:
    try:
        return Endpoint(parse_address(item))
    except ValueError:
        kind, *parts = _split(item)
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
        return Endpoint((host, int(port)))
    roots, certificate, key = (where.get(word) for word in words)
    return Endpoint((host, int(port)), (roots, certificate, key))


def _split(description: str) -> list[str]:
    """Split at colons that no backslash escapes, and take the escapes away."""
    parts = [""]
    characters = iter(description)
    for character in characters:
        if character == ":":
            parts.append("")
        else:
            parts[-1] += next(characters, "") if character == "\\" else character
    return parts


def tls_context(
    trust_file: str | None, trust_folder: str | None, certificate: str | None, key: str | None
) -> ssl.SSLContext:
    """What TLS connections trust and show. Without a file or a folder (of ``*.pem``) the system's are trusted.

    Raises ConfigurationError when one cannot be read.
    """
    try:
        if trust_folder is None:
            context = ssl.create_default_context(cafile=trust_file)
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            files = [path for path in Path(trust_folder).iterdir() if path.suffix.lower() == ".pem"]
            if trust_file is not None:
                files.append(Path(trust_file))
            for path in files:
                context.load_verify_locations(cafile=path)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        named = ", ".join(each for each in (trust_file, trust_folder, certificate, key) if each is not None)
        raise ConfigurationError(f"the certificates for TLS ({named}) cannot be used: {error}") from None
    return context
