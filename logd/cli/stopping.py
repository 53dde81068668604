"""Tells what a command waits for when a signal ends it, and what a second signal would leave unsaid."""

from __future__ import annotations

import signal
from collections.abc import Callable

from attrs import define, field

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
    #: Called when the process ends at once, such as to print a count or remove files. It is called from the handler of
    #: the second signal, wherever the command is.
    last_words: Callable[[], None] = _nothing
    #: Seconds after the first signal at which the process ends as at a second one; None: it has no such limit.
    patience: float | None = None
    _timers: list[Timer] = field(factory=list)

    def begin(self, clock: Clock, number: int, give_up: Callable[[], None] = _nothing) -> None:
        """Take note of the first signal: if the end takes long, tell what the command waits for, or give up."""
        if self.waits:
            self._timers.append(clock.callLater(TELL_SECONDS, self._tell, number))
        if self.patience is not None:
            self._timers.append(clock.callLater(self.patience, give_up))

    def said(self) -> None:
        """Take note that the command itself prints its last words now."""
        self.last_words = _nothing

    def end(self) -> None:
        """Take note of the end of the command's work."""
        for each in self._timers:
            if each.active():
                each.cancel()

    def _tell(self, number: int) -> None:
        clear_progress()  # the work has ended, and its line would go on unchanged
        again = "Ctrl-C again" if number == signal.SIGINT else "another signal"
        complain(f"stopping: waits {self.waits}; {again} ends at once")
