"""Tells what a command waits for when a signal ends it, and what a second signal would leave unsaid."""

from __future__ import annotations

import signal
from collections.abc import Callable

from attrs import define

from logd.cli.terminal.exits import complain
from logd.cli.terminal.progress import clear_progress
from logd.interfaces import Clock, Timer

#: Seconds after a signal at which a command that has not ended yet says what it waits for.
TELL_SECONDS = 1.0


def _nothing() -> None:
    """Say nothing."""


@define(eq=False)
class Stopping:
    """The end of a command by a signal, as a person learns of it."""

    #: The longest wait and its reason, such as "up to 5 s for an answer"; "" for a command that ends without a wait.
    waits: str = ""
    #: Called when a second signal ends the process at once, such as to print a count. It is called from the handler of
    #: the signal, wherever the command is.
    last_words: Callable[[], None] = _nothing
    _telling: Timer | None = None

    def begin(self, clock: Clock, number: int) -> None:
        """Take note of the first signal: what the command waits for is told if its end takes long."""
        if self.waits:
            self._telling = clock.callLater(TELL_SECONDS, self._tell, number)

    def said(self) -> None:
        """Take note that the command itself prints its last words now."""
        self.last_words = _nothing

    def end(self) -> None:
        """Take note of the end of the command's work."""
        if self._telling is not None and self._telling.active():
            self._telling.cancel()

    def _tell(self, number: int) -> None:
        clear_progress()  # the work has ended, and its line would go on unchanged
        again = "Ctrl-C again" if number == signal.SIGINT else "another signal"
        complain(f"stopping: waits {self.waits}; {again} ends at once")
