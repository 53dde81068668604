"""Reports a server's life to its supervisor: ready, what it does, a sign of life at regular times, stopping."""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from logd.deferreds.repeating import RepeatedCall
from logd.supervision.notify_socket import NotifySocket

#: Seconds between two looks at whether the server serves requests yet.
READY_SECONDS = 0.05
#: Seconds between two looks at its status afterwards, if no watchdog asks for more.
STATUS_SECONDS = 5.0
#: Signs of life within the time that the watchdog allows.
SIGNS = 3


@define(eq=False)
class Supervised:
    """The reports of one server. ``start`` and ``stop`` are called once, on the reactor's thread.

    The signs of life come from the reactor, so a reactor that hangs sends none; and none is sent while ``ailment``
    returns a reason. A supervisor that misses them ends the process and starts it again, so ``ailment`` names only what
    a new start can heal: a full disk or a partition that is offline is in the status, and no reason.
    """

    _log = Logger()

    _clock: IReactorTime
    _socket: NotifySocket
    #: The time in seconds within which the supervisor expects a sign of life; None for no watchdog.
    _watchdog: float | None
    #: Returns whether requests are served.
    _ready: Callable[[], bool]
    #: Returns one line about what the server does.
    _status: Callable[[], str]
    #: Returns the reason why a new process would do better, or None.
    _ailment: Callable[[], str | None]
    _told_ready: bool = field(default=False, init=False)
    _told_status: str = field(default="", init=False)
    _told_ailment: str | None = field(default=None, init=False)
    _loop: RepeatedCall | None = field(default=None, init=False)

    def start(self) -> None:
        """Report from now on."""
        if self._watchdog is not None and not faulthandler.is_enabled() and sys.__stderr__ is not None:
            # The supervisor ends a process that hangs by SIGABRT: the journal then shows where each thread was.
            # twistd's own sys.stderr is no file.
            faulthandler.enable(sys.__stderr__)
        self._loop = RepeatedCall(self._clock, READY_SECONDS, self._look)
        self._loop.start()

    def stop(self) -> None:
        """Report that the server stops; the supervisor then waits for its end, and for no sign of life."""
        if self._loop is not None:
            self._loop.stop()
            self._loop = None
            self._socket.tell(STOPPING="1", STATUS="stopping")

    def _look(self) -> None:
        status = self._status()
        if not self._told_ready:
            if self._ready() and self._socket.tell(READY="1", STATUS=status):
                self._told_ready, self._told_status = True, status
                self._slow_down()
            return
        lines = {} if status == self._told_status else {"STATUS": status}
        if self._watchdog is not None and self._is_well():
            lines["WATCHDOG"] = "1"
        if lines and self._socket.tell(**lines):
            self._told_status = status

    def _is_well(self) -> bool:
        ailment = self._ailment()
        if ailment is not None and ailment != self._told_ailment:
            self._log.critical(
                "no sign of life is sent to the supervisor any more, which will start this server again: {reason}",
                reason=ailment,
            )
        self._told_ailment = ailment
        return ailment is None

    def _slow_down(self) -> None:
        assert self._loop is not None
        self._loop.stop()
        seconds = STATUS_SECONDS if self._watchdog is None else min(STATUS_SECONDS, self._watchdog / SIGNS)
        self._loop = RepeatedCall(self._clock, seconds, self._look)
        self._loop.start()
