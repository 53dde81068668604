"""The calls of a client in process that are not answered yet: sent in their order, bounded in time, cancellable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from attrs import define
from twisted.internet.defer import Deferred

from logd.coord.errors import CoordinationError, OperationTimeout
from logd.coord.inprocess.left import LeftWatches
from logd.coord.inprocess.link import LinkConnection
from logd.coord.records import Exists, GetChildren, GetData, Request, WatchEvent
from logd.coord.tree.outcome import MultiFailed, Outcome
from logd.interfaces import Clock

T = TypeVar("T")


@define(eq=False)
class _Call:
    """A call that waits for its answer, or to be sent."""

    request: Request
    answered: Deferred[Any]
    #: Makes of the tree's answer what the caller gets; may raise a CoordinationError.
    read: Callable[[Any], Any]
    watch: Deferred[WatchEvent] | None
    sent: float = 0.0


class Calls:
    """What a client asks for. While there is no connection calls wait for one, as long as their time lasts.

    ``heard(when)`` is called for each answer with the time at which its request had been sent.
    """

    def __init__(self, clock: Clock, watches: LeftWatches, heard: Callable[[float], None]) -> None:
        self._clock = clock
        self._watches = watches
        self._heard = heard
        self._connection: LinkConnection | None = None
        self._sent: deque[_Call] = deque()
        self._waiting: deque[_Call] = deque()

    def ask(
        self,
        request: Request,
        read: Callable[[Any], T],
        timeout: float,
        watch: Deferred[WatchEvent] | None = None,
    ) -> Deferred[T]:
        """Ask the tree; ``watch`` is left once the answer has come."""
        answered: Deferred[T] = Deferred()
        call = _Call(request, answered, read, watch)
        timer = self._clock.callLater(timeout, _too_late, answered, timeout)

        def over(result: T) -> T:
            if timer.active():
                timer.cancel()
            if call in self._waiting:
                self._waiting.remove(call)
            return result

        answered.addBoth(over)
        if self._connection is None:
            self._waiting.append(call)
        else:
            self._send(call, self._connection)
        return answered

    def connected(self, connection: LinkConnection) -> None:
        """There is a connection: what has waited is sent."""
        self._connection = connection
        while self._waiting:
            self._send(self._waiting.popleft(), connection)

    def lost(self, error: Callable[[], CoordinationError]) -> None:
        """The connection is gone: calls that were sent fail."""
        self._connection = None
        sent, self._sent = self._sent, deque()
        _fail(sent, error)

    def refuse(self, error: Callable[[], CoordinationError]) -> None:
        """Calls that wait to be sent fail."""
        waiting, self._waiting = self._waiting, deque()
        _fail(waiting, error)

    def _send(self, call: _Call, connection: LinkConnection) -> None:
        call.sent = self._clock.seconds()
        self._sent.append(call)
        connection.execute(call.request, partial(self._answer, call))

    def _answer(self, call: _Call, outcome: Outcome) -> None:
        if not self._sent or self._sent[0] is not call:
            return  # the client was closed meanwhile, and all calls have failed
        self._sent.popleft()  # answers come in the order of the calls
        self._heard(call.sent)
        if call.answered.called:  # it was cancelled, or its time was over
            return
        answer = outcome.answer
        if isinstance(answer, MultiFailed):
            answer = answer.error
        try:
            result = call.read(answer)
        except CoordinationError as error:
            call.answered.errback(error)
            return
        if call.watch is not None:
            assert isinstance(call.request, GetData | Exists | GetChildren)
            children = isinstance(call.request, GetChildren)
            self._watches.add(call.request.path, call.watch, children=children)
        call.answered.callback(result)


def _too_late(answered: Deferred[Any], seconds: float) -> None:
    answered.errback(OperationTimeout(f"no answer within {seconds:g} s"))


def _fail(calls: deque[_Call], error: Callable[[], CoordinationError]) -> None:
    for call in calls:
        if not call.answered.called:
            call.answered.errback(error())
