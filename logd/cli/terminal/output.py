"""Writes standard output in large pieces on a thread, so that a slow reader does not block the reactor."""

from __future__ import annotations

import os
import select

from logd.cli.terminal.blocking_calls import BackgroundThread


class Output:
    """Writes all data in order. Raises BrokenPipeError when the reader has closed the pipe."""

    def __init__(self, thread: BackgroundThread, descriptor: int = 1) -> None:
        self._thread = thread
        self._descriptor = descriptor

    async def write(self, data: bytes) -> None:
        """Return once the last byte is written."""
        if data:
            await self._thread.run(write_all, self._descriptor, data)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all data, waiting as long as the reader does. Raises OSError."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # another program that has the same terminal or pipe has set it so
            select.select((), (descriptor,), ())
