"""Progress bars on stderr, which imports Rich: only for commands at a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from logd.plurals import counted


class _RateColumn(ProgressColumn):
    """The number of messages, and the rate per second."""

    def render(self, task: Task) -> Text:
        messages = task.fields["messages"]
        elapsed = task.elapsed or 0.0
        rate = f" ({messages / elapsed:,.0f}/s)" if elapsed > 0.5 else ""
        return Text(f"{counted(messages, 'message')}{rate}")


def rate_bar(with_bar: bool) -> Progress:
    """Return a line with the messages and their rate; ``with_bar`` where the total is known."""
    bar = (BarColumn(),) if with_bar else ()
    return _on_stderr(SpinnerColumn(), _description(), *bar, _RateColumn(), TimeElapsedColumn())


def bytes_bar() -> Progress:
    """Return a bar with the bytes done, their rate and the time that is left."""
    return _on_stderr(_description(), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())


def count_bar() -> Progress:
    """Return a bar with the number of things done, and of all."""
    return _on_stderr(_description(), BarColumn(), MofNCompleteColumn())


def _description() -> TextColumn:
    return TextColumn("{task.description}", markup=False)


def _on_stderr(*columns: ProgressColumn) -> Progress:
    return Progress(*columns, console=Console(stderr=True), transient=True)
