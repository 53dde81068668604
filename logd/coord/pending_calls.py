"""Requests without an answer yet: they wait for a free slot, can be cancelled, and have deadlines."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.internet.defer import Deferred, fail

from logd.coord.errors import ConnectionLoss, CoordinationError, OperationTimeout
from logd.coord.records import ClientCall
from logd.interfaces import Clock, Timer


@define(eq=False)
class PendingCall:
    """One request, waiting or sent; ``answer`` fires at most once, whatever comes late."""

    request: ClientCall
    path: str
    answer: Deferred[object]
    #: Called with the value just before ``answer`` fires with it; registers a watch.
    before: Callable[[object], None] | None = None
    timer: Timer | None = None


class PendingCalls:
    """Sends calls in order, at most ``limit`` at a time; at most ``room`` wait.

    ``send(call)`` returns whether the connection took it; a call that it did not take waits for ``flush``. A waiting
    call that times out or is cancelled is never sent; a sent call keeps its slot until it is answered.
    """

    def __init__(self, clock: Clock, send: Callable[[PendingCall], bool], limit: int, room: int) -> None:
        self._clock = clock
        self._send = send
        self._limit = limit
        self._room = room
        self._waiting: dict[PendingCall, None] = {}
        self._sent: dict[PendingCall, None] = {}

    def ask(
        self, request: ClientCall, path: str, timeout: float | None, before: Callable[[object], None] | None = None
    ) -> Deferred[object]:
        """Send the request now or as soon as possible; without ``timeout`` there is no deadline.

        Fails with ConnectionLoss at once when too many wait already.
        """
        if len(self._waiting) >= self._room:
            return fail(ConnectionLoss(f"{path}: not sent, since {self._room} calls wait already", path))
        call = PendingCall(request, path, Deferred(lambda _: self._take_back(call)), before)
        if timeout is not None:
            call.timer = self._clock.callLater(timeout, self._late, call, timeout)
        self._waiting[call] = None
        if len(self._waiting) == 1:
            self.flush()
        return call.answer

    def ask_at_once(self, request: ClientCall, path: str) -> Deferred[object]:
        """Send the request before all waiting calls, whatever is under way, or fail with ConnectionLoss."""
        call = PendingCall(request, path, Deferred())
        if not self._send(call):
            return fail(ConnectionLoss(path=path))
        self._sent[call] = None
        return call.answer

    def flush(self) -> None:
        """Send the waiting calls, as far as possible."""
        while self._waiting and len(self._sent) < self._limit:
            call = next(iter(self._waiting))
            if not self._send(call):
                return
            del self._waiting[call]
            self._sent[call] = None

    def answered(self, call: PendingCall, value: object, error: CoordinationError | None) -> None:
        """Finish a call that was sent, with its answer."""
        if self._sent.pop(call, call) is None:
            self._finish(call, value, error)
            if self._waiting:
                self.flush()

    def fail_all(self, error: Callable[[str], CoordinationError], *, sent_alone: bool = False) -> None:
        """Fail all calls with ``error(path)``, or only those that were sent."""
        failing = list(self._sent)
        self._sent.clear()
        if not sent_alone:
            failing.extend(self._waiting)
            self._waiting.clear()
        for call in failing:
            self._finish(call, None, error(call.path))

    def _finish(self, call: PendingCall, value: object, error: CoordinationError | None) -> None:
        if call.timer is not None and call.timer.active():
            call.timer.cancel()
        if call.answer.called:
            return
        if error is not None:
            call.answer.errback(error)
        else:
            if call.before is not None:
                call.before(value)
            call.answer.callback(value)

    def _take_back(self, call: PendingCall) -> None:
        self._waiting.pop(call, None)
        if call.timer is not None and call.timer.active():
            call.timer.cancel()

    def _late(self, call: PendingCall, timeout: float) -> None:
        waiting = self._waiting.pop(call, call) is None
        if not call.answer.called:
            text = f"{call.path}: no answer within {timeout:g} s" + (" (it was never sent)" if waiting else "")
            call.answer.errback(OperationTimeout(text, call.path))
