"""Shows on stderr how many bytes are done, and how many in a second, when a person is there to see it."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn


class BytesProgress:
    """A bar that is rewritten in place; nothing at all when stderr is no terminal or ``quiet`` is asked for."""

    def __init__(self, what: str, total: int, quiet: bool = False) -> None:
        self._what = what
        self._progress: Progress | None = None
        if quiet or not sys.stderr.isatty():
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(what, total=total)

    def reach(self, done: int, total: int | None = None) -> None:
        """So many bytes of the total, which may have changed, are done."""
        if self._progress is not None:
            self._progress.update(self._task, completed=done, total=total, description=self._what)

    def describe(self, what: str) -> None:
        """Say something else in front of the figures, until there is progress again."""
        if self._progress is not None:
            self._progress.update(self._task, description=what)

    def __enter__(self) -> BytesProgress:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
