"""What a process did, in lines that survive its SIGKILL: one ``write`` for each entry, and a torn last line is none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path


class Ledger:
    """Append-only; each row is some whole numbers."""

    def __init__(self, path: str | Path) -> None:
        """Open for appending, made when missing."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, rows: Iterable[tuple[int, ...]]) -> None:
        """Write rows; they are with the kernel on return, so that only a loss of power takes them back."""
        data = b"".join(b"%s\n" % b" ".join(b"%d" % number for number in row) for row in rows)
        while data:
            data = data[os.write(self._file, data) :]


def read_rows(path: Path) -> Iterator[tuple[int, ...]]:
    """The rows of a ledger, but for one that was being written when its process was killed."""
    for line in path.read_bytes().split(b"\n")[:-1]:
        yield tuple(int(number) for number in line.split())
