"""Reads lines from files and standard input in chunks, without blocking the reactor or holding a whole file."""

from __future__ import annotations

import os
import select
from collections.abc import AsyncGenerator, Sequence

from attrs import frozen

from logd.cli.terminal.blocking_calls import BackgroundThread
from logd.errors import LogdError

STANDARD_INPUT = "-"
#: Bytes read at a time: large enough to make the cost of a call to another thread negligible.
CHUNK_BYTES = 1 << 18


class InputLineTooLong(LogdError):
    """A line is longer than a message may be."""


class LineSplitter:
    """Splits bytes into lines at ``\\n`` only; all other bytes are kept, ``\\r`` too.

    Holds at most one unfinished line, of at most ``limit`` bytes. ``name`` is the source's name in errors. Longer lines
    raise InputLineTooLong or, with ``skip``, are left out and counted.
    """

    def __init__(self, name: str, limit: int, skip: bool = False) -> None:
        self._skip = skip
        #: True while the rest of a skipped line is still to come.
        self._skipping = False
        #: Lines that were left out.
        self.skipped = 0
        self._name = name
        self._limit = limit
        self._pieces: list[bytes] = []
        self._held = 0
        #: Lines handed out so far.
        self.count = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes. Raises InputLineTooLong."""
        if self._skipping:
            _, newline, chunk = chunk.partition(b"\n")
            if not newline:
                return []
            self._skipping = False
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            if self._pieces:
                lines[0] = b"".join((*self._pieces, lines[0]))
                self._pieces.clear()
                self._held = 0
            if len(max(lines, key=len)) > self._limit:
                if self._skip:
                    return self._leave_out(lines, rest)
                raise self._too_long(next(index for index, line in enumerate(lines) if len(line) > self._limit))
        if rest:
            self._hold(rest, len(lines))
        self.count += len(lines)
        return lines

    def _leave_out(self, lines: list[bytes], rest: bytes) -> list[bytes]:
        kept = [line for line in lines if len(line) <= self._limit]
        self.skipped += len(lines) - len(kept)
        self.count += len(lines)
        if rest:
            self._hold(rest, 0)
        return kept

    def _hold(self, rest: bytes, lines: int) -> None:
        self._pieces.append(rest)
        self._held += len(rest)
        if self._held > self._limit:
            if not self._skip:
                raise self._too_long(lines)
            self._pieces.clear()
            self._held = 0
            self._skipping = True
            self.skipped += 1
            self.count += 1

    def finish(self) -> list[bytes]:
        """Return the last line, if the source does not end with a newline."""
        if not self._pieces:
            return []
        line = b"".join(self._pieces)
        self._pieces.clear()
        self.count += 1
        return [line]

    def _too_long(self, index: int) -> InputLineTooLong:
        return InputLineTooLong(
            f"line {self.count + index + 1} of {self._name} is longer than {self._limit} bytes; "
            "raise --message-bytes if the broker's message.bytes allows it, or skip such lines with --skip-too-long"
        )


@frozen
class LineBatch:
    """Lines of one source, the number of the first, and the bytes of the source that were read for them."""

    source: str
    first_line: int
    lines: list[bytes]
    bytes_read: int
    #: Lines left out since the previous batch because they are too long.
    skipped: int = 0


async def read_lines(
    thread: BackgroundThread, paths: Sequence[str], limit: int, skip: bool = False
) -> AsyncGenerator[LineBatch, None]:
    """Yield the lines of each path in turn ("-" is standard input), one batch for each read.

    With ``skip``, lines of more than ``limit`` bytes are left out.
    Raises InputLineTooLong, or LogdError that names a file which cannot be read.
    """
    for path in paths:
        name = "standard input" if path == STANDARD_INPUT else path
        splitter = LineSplitter(name, limit, skip)
        try:
            # Opening a named pipe waits for its writer.
            descriptor = 0 if path == STANDARD_INPUT else await thread.run(os.open, path, os.O_RDONLY)
            try:
                while chunk := await thread.run(_read_some, descriptor):
                    first, skipped = splitter.count + 1, splitter.skipped
                    lines = splitter.feed(chunk)
                    yield LineBatch(name, first, lines, len(chunk), splitter.skipped - skipped)
            finally:
                if path != STANDARD_INPUT:
                    os.close(descriptor)
        except OSError as error:
            raise LogdError(f"{name} cannot be read: {os.strerror(error.errno or 0)}") from error
        first = splitter.count + 1
        if last := splitter.finish():
            yield LineBatch(name, first, last, 0)


def _read_some(descriptor: int) -> bytes:
    """Read what there is, waiting as long as the writer does; empty at the end. Raises OSError."""
    while True:
        try:
            return os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:  # another program that has the same terminal or pipe has set it so
            select.select((descriptor,), (), ())


def total_bytes(paths: Sequence[str]) -> int | None:
    """Return the size of all files together, or None when one of them is not a regular file."""
    total = 0
    for path in paths:
        if path == STANDARD_INPUT or not os.path.isfile(path):
            return None
        total += os.path.getsize(path)
    return total
