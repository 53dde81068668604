"""A record of a process's work that survives its SIGKILL: each entry is one ``write``, and a torn last line is none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path


class Ledger:
    """An append-only file; each row is some whole numbers."""

    def __init__(self, path: str | Path) -> None:
        """Open for appending, made when missing."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, rows: Iterable[tuple[int, ...]]) -> None:
        """Write rows; the kernel has them on return, so that only a loss of power takes them back."""
        data = b"".join(b"%s\n" % b" ".join(b"%d" % number for number in row) for row in rows)
        while data:
            data = data[os.write(self._file, data) :]


def read_rows(path: Path) -> Iterator[tuple[int, ...]]:
    """Yield the rows of a ledger, except one that was being written when its process was killed."""
    for line in path.read_bytes().split(b"\n")[:-1]:
        yield tuple(int(number) for number in line.split())
