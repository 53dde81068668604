"""Payloads of a bench: lines like those of a web server's log, so that compression finds what it finds in practice."""

from __future__ import annotations

from random import Random

_VERBS = ("GET", "GET", "GET", "POST", "PUT", "HEAD")
_PLACES = ("members", "search", "feed", "messages", "jobs", "static/style", "images/logo", "groups")
_STATUS = (200, 200, 200, 200, 302, 304, 404, 500)


def payloads(count: int, size: int, seed: int = 1) -> list[bytes]:
    """Return ``count`` different payloads of ``size`` bytes each, always the same ones for a ``seed``.

    In sets of 50 lines of 200 bytes, gzip leaves about a quarter of their bytes.
    """
    random = Random(seed)
    return [_payload(random, size) for _ in range(count)]


def _payload(random: Random, size: int) -> bytes:
    pieces: list[bytes] = []
    length = 0
    while length < size:
        address = ".".join(str(random.randrange(256)) for _ in range(4))
        text = (
            f"{address} - - [22/Nov/2026:12:{random.randrange(60):02}:{random.randrange(60):02} +0000] "
            f'"{random.choice(_VERBS)} /{random.choice(_PLACES)}/{random.randrange(10**7)} HTTP/1.1" '
            f"{random.choice(_STATUS)} {random.randrange(50_000)} session={random.getrandbits(64):016x} "
        )
        pieces.append(text.encode("ascii"))
        length += len(text)
    return b"".join(pieces)[:size]
