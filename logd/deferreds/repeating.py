"""A call that is made again and again, on a clock."""

from __future__ import annotations

from collections.abc import Callable

from logd.interfaces import Clock, Timer


class RepeatedCall:
    """Calls ``call()`` every ``seconds`` from ``start`` to ``stop``, first after ``seconds``.

    Twisted's LoopingCall imports the process's reactor before it can be given another clock. That import installs a
    reactor, and a program that runs a broker on a reactor of its own may want to install another one later.
    """

    def __init__(self, clock: Clock, seconds: float, call: Callable[[], object]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._call = call
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin."""
        self._timer = self._clock.callLater(self._seconds, self._run)

    def stop(self) -> None:
        """End. May be called at any time, also from the call itself."""
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _run(self) -> None:
        self.start()  # first, so that a call that raises is made again, and one that stops this is not
        self._call()
