"""The end of a broker's process: its signals, its status, and that it comes whatever the process waits for."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any

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

    def __init__(self, reactor: Any, stop_seconds: float, foreground: bool) -> None:
        self._reactor = reactor
        self._stop_seconds = stop_seconds
        self._foreground = foreground
        #: True once SIGTERM was received; a reactor cannot be stopped twice.
        self._terminated = False
        self._has_begun = False
        self._is_clean = False

    def catch_signals(self) -> None:
        """Stop the reactor at SIGTERM, and in the foreground at SIGHUP, and have the process end in time after that."""

        def stop() -> None:
            if not self._terminated:
                self._terminated = True
                self._reactor.stop()

        def terminate(number: int, frame: Any) -> None:
            self._reactor.callFromThread(stop)

        self._reactor.addSystemEventTrigger("before", "shutdown", self._begin)
        signal.signal(signal.SIGTERM, terminate)
        # A closing terminal sends SIGHUP to its processes; under nohup the signal is ignored, and stays ignored.
        if self._foreground and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
            signal.signal(signal.SIGHUP, terminate)

    def stopped(self, is_clean: bool) -> None:
        """Have a process that is ending end soon, as its broker has stopped; ``is_clean``: with everything closed."""
        self._is_clean = is_clean
        if self._has_begun:
            self._end_within(LINGER_SECONDS)

    def _begin(self) -> None:
        self._has_begun = True
        self._end_within(LINGER_SECONDS + (0 if self._is_clean else self._stop_seconds))

    def _end_within(self, seconds: float) -> None:
        for delay, work in ((seconds, self._tell), (seconds + 1, self._end)):  # the log may not be writable
            timer = threading.Timer(delay, work)
            timer.daemon = True
            with suppress(RuntimeError):  # without another thread the process ends by itself, perhaps later
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
