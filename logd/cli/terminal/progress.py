"""Shows the progress of a command on stderr if stderr is a terminal."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from logd.plurals import counted


class _RateColumn(ProgressColumn):
    """The number of messages, and the rate per second."""

    def render(self, task: Task) -> Text:
        messages = task.fields["messages"]
        elapsed = task.elapsed or 0.0
        rate = f" ({messages / elapsed:,.0f}/s)" if elapsed > 0.5 else ""
        return Text(f"{counted(messages, 'message')}{rate}")


class ProgressLine:
    """A progress line that is redrawn in place; silent with ``quiet`` and when stderr is not a terminal.

    ``total`` is the work to do, in bytes or messages, or None when it is not known.
    """

    def __init__(self, what: str, total: int | None = None, quiet: bool = False) -> None:
        self._messages = 0
        self._progress: Progress | None = None
        if quiet or not sys.stderr.isatty():
            return
        columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        if total:
            columns.append(BarColumn())
        columns += [_RateColumn(), TimeElapsedColumn()]
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(what, total=total, messages=0)

    def __enter__(self) -> ProgressLine:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def advance(self, messages: int, steps: int = 0) -> None:
        """Add ``messages`` to the messages done and ``steps`` to the work done."""
        self._messages += messages
        if self._progress is not None:
            self._progress.update(self._task, advance=steps, messages=self._messages)

    def describe(self, what: str) -> None:
        """Replace the text before the figures."""
        if self._progress is not None:
            self._progress.update(self._task, description=what)
