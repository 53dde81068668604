"""The lines to publish: those of text logs, and made-up ones of a web server where the logs are small."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

#: The most bytes of logs that are read from a folder.
MOST_BYTES = 200 << 20
#: Made-up lines are added up to this many bytes; with fewer the rates would mean little.
ENOUGH_BYTES = 96 << 20

_CHUNK_BYTES = 1 << 20
_PATHS = ("/", "/index.html", "/news", "/search?q=logs", "/api/v1/items", "/static/app.js", "/images/logo.png")
_AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", "Mozilla/5.0 (Macintosh)", "bot/2.1 (+http://example.com)")


@frozen
class LogFile:
    """A readable text log and its size in bytes."""

    path: Path
    size: int


def find_logs(folder: Path) -> list[LogFile]:
    """Return the readable text logs below a folder, up to MOST_BYTES of them."""
    chosen, total = [], 0
    for log in sorted(_text_logs(folder), key=lambda log: str(log.path)):
        if total + log.size <= MOST_BYTES:
            chosen.append(log)
            total += log.size
    return chosen


def _text_logs(folder: Path) -> Iterator[LogFile]:
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in names:
            path = Path(where) / name
            try:
                with path.open("rb") as file:
                    head = file.read(4096)
                size = path.stat().st_size
            except OSError:
                continue
            if path.is_file() and head and b"\0" not in head and b"\n" in head:
                yield LogFile(path, size)


def lines_of(path: Path) -> Iterator[list[bytes]]:
    """Yield the lines of a file without their newlines, in lists of those that were read together."""
    rest = b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            yield lines
    if rest:
        yield [rest]


def web_log(total_bytes: int, seed: int = 2011) -> Iterator[list[bytes]]:
    """Yield about ``total_bytes`` of lines as a web server writes them, the same for the same seed."""
    pick = random.Random(seed)
    # Lines are made from these ready parts, since composing each line would take longer than publishing it.
    requests = [
        f'"GET {pick.choice(_PATHS)} HTTP/1.1" {pick.choice((200, 200, 200, 304, 404, 500))} {pick.randrange(90_000)} '
        f'"-" "{pick.choice(_AGENTS)}"'.encode()
        for _ in range(2000)
    ]
    second, left = 1_320_969_600, total_bytes
    while left > 0:
        second += 1
        drawn = pick.choices(requests, k=2000)
        host = pick.randrange(1 << 16)
        lines = [
            b"10.%d.%d.%d - - [%d] %b" % (host >> 8, (host + number) & 255, number & 255, second, request)
            for number, request in enumerate(drawn)
        ]
        left -= sum(map(len, lines))
        yield lines
