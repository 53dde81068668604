"""Shows on stderr how far a command is, when a person is there to see it."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text


class _RateColumn(ProgressColumn):
    """Messages so far, and per second."""

    def render(self, task: Task) -> Text:
        messages = task.fields["messages"]
        elapsed = task.elapsed or 0.0
        rate = f" ({messages / elapsed:,.0f}/s)" if elapsed > 0.5 else ""
        return Text(f"{messages:,} messages{rate}")


class ProgressLine:
    """A line that is rewritten in place; nothing at all when stderr is no terminal or ``quiet`` is asked for.

    ``total`` is what there is to do, in bytes or messages, None when that is not known.
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
        """So many more messages are done, and so many more of the total."""
        self._messages += messages
        if self._progress is not None:
            self._progress.update(self._task, advance=steps, messages=self._messages)

    def describe(self, what: str) -> None:
        """Say something else in front of the figures."""
        if self._progress is not None:
            self._progress.update(self._task, description=what)
