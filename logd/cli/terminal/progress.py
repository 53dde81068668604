"""Shows the progress of a command on stderr if stderr is a terminal.

Rich is imported only then: most commands run in scripts, and it is a tenth of what a command has to import.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

#: Progress that is shown: redrawn in place, with the cursor hidden.
_shown: list[Progress] = []


def show_progress(progress: Progress) -> None:
    """Begin to redraw, until ``clear_progress``."""
    _shown.append(progress)
    progress.start()


def clear_progress() -> None:
    """Remove what is redrawn in place, and show the cursor again: the command ends, or its process."""
    while _shown:
        _shown.pop().stop()


class ProgressLine:
    """A progress line that is redrawn in place; silent with ``quiet`` and when stderr is not a terminal.

    ``total`` is the work to do, in bytes or messages, or None when it is not known.
    """

    def __init__(self, what: str, total: int | None = None, quiet: bool = False) -> None:
        self._messages = 0
        self._progress: Progress | None = None
        if quiet or not sys.stderr.isatty():
            return
        from logd.cli.terminal.bars import rate_bar

        self._progress = rate_bar(with_bar=bool(total))
        self._task = self._progress.add_task(what, total=total, messages=0)

    def __enter__(self) -> ProgressLine:
        if self._progress is not None:
            show_progress(self._progress)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            clear_progress()

    def advance(self, messages: int, steps: int = 0) -> None:
        """Add ``messages`` to the messages done and ``steps`` to the work done."""
        self._messages += messages
        if self._progress is not None:
            self._progress.update(self._task, advance=steps, messages=self._messages)

    def describe(self, what: str) -> None:
        """Replace the text before the figures."""
        if self._progress is not None:
            self._progress.update(self._task, description=what)
