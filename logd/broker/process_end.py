"""The end of a broker's process: its status, and that it comes whatever the process waits for."""

from __future__ import annotations

import os
import sys
import threading

from twisted.logger import Logger

#: Exit status of a process whose broker did not flush or close everything within ``stop.ms``.
UNCLEAN_STATUS = 1
#: Seconds from the broker's stop, or from the end of ``stop.ms``, in which the process has to end by itself.
LINGER_SECONDS = 5.0


class ProcessEnd:
    """The end of a process that belongs to a broker, which may take ``stop_seconds`` to stop.

    The reactor and Python wait for their threads, and one that looks up a name may take minutes.
    """

    _log = Logger()

    def __init__(self, stop_seconds: float) -> None:
        self._stop_seconds = stop_seconds
        self._has_begun = False
        self._is_clean = False

    def begin(self) -> None:
        """Have the process end in time, as the reactor stops."""
        self._has_begun = True
        self._end_within(LINGER_SECONDS + (0 if self._is_clean else self._stop_seconds))

    def stopped(self, is_clean: bool) -> None:
        """Have a process that is ending end soon, as its broker has stopped; ``is_clean``: with everything closed."""
        self._is_clean = is_clean
        if self._has_begun:
            self._end_within(LINGER_SECONDS)

    def _end_within(self, seconds: float) -> None:
        for delay, work in ((seconds, self._tell), (seconds + 1, self._end)):  # the log may not be writable
            timer = threading.Timer(delay, work)
            timer.daemon = True
            timer.start()

    def _tell(self) -> None:
        self._log.warn("the process waits for something else, such as the address of a name, and is ended")

    def _end(self) -> None:
        os._exit(0 if self._is_clean else UNCLEAN_STATUS)


def end_unclean() -> None:
    """End the process at once, with the status that tells a supervisor of it."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(UNCLEAN_STATUS)
