"""Shows the bytes done and the rate, or the things done, on stderr if stderr is a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from logd.cli.terminal.progress import clear_progress, show_progress

if TYPE_CHECKING:
    from rich.progress import Progress


class BytesProgress:
    """A progress bar that is redrawn in place; silent with ``quiet`` and when stderr is not a terminal."""

    def __init__(self, what: str, total: int, quiet: bool = False) -> None:
        self._what = what
        self._progress: Progress | None = None
        if quiet or not sys.stderr.isatty():
            return
        self._progress = self._bar()
        self._task = self._progress.add_task(what, total=total)

    def _bar(self) -> Progress:
        from logd.cli.terminal.bars import bytes_bar

        return bytes_bar()

    def reach(self, done: int, total: int | None = None) -> None:
        """Show ``done`` bytes of ``total``, which may have changed."""
        if self._progress is not None:
            self._progress.update(self._task, completed=done, total=total, description=self._what)

    def describe(self, what: str) -> None:
        """Replace the text before the figures, until there is progress again."""
        if self._progress is not None:
            self._progress.update(self._task, description=what)

    def __enter__(self) -> Self:
        if self._progress is not None:
            show_progress(self._progress)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            clear_progress()


class CountProgress(BytesProgress):
    """As BytesProgress, of things that are counted."""

    def _bar(self) -> Progress:
        from logd.cli.terminal.bars import count_bar

        return count_bar()
