"""Sets of one partition on their way to the target, which leave in order, each once a gate lets it pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from logd.errors import LogdError
from logd.mirror.sets.whole_entries import MovingSet
from logd.topic import TopicPartition

#: Returns what a set has to wait for before it is sent, cancellable; None if it need not wait.
Gate = Callable[[TopicPartition, MovingSet], Deferred[None] | None]


@define(eq=False)
class HeldSets:
    """The sets that wait behind the first one that the gate does not let pass; none without a gate."""

    gate: Gate | None = None
    #: Set once nothing more may be sent.
    closed: bool = field(default=False, init=False)
    _held: deque[tuple[TopicPartition, MovingSet, Callable[[], None]]] = field(factory=deque, init=False)
    _opens: Deferred[None] | None = field(default=None, init=False)

    def add(
        self, where: TopicPartition, moving: MovingSet, send: Callable[[], None], failed: Callable[[Exception], None]
    ) -> None:
        """Call ``send`` at once, or once the gate lets this set pass and those before it are sent.

        Raises as the gate and ``send`` do, and then does not hold the set; what they raise later, ``failed`` is called
        with.
        """
        self._held.append((where, moving, send))
        if self._opens is None:
            self._let_pass(failed)

    def close(self) -> int:
        """Send nothing more, and return the number of sets that were held: the last ones that were added."""
        self.closed = True
        dropped = len(self._held)
        self._held.clear()
        opens, self._opens = self._opens, None
        if opens is not None:
            opens.cancel()
        return dropped

    def _let_pass(self, failed: Callable[[Exception], None]) -> None:
        while self._held:
            where, moving, send = self._held[0]
            try:
                opens = self.gate(where, moving) if self.gate is not None and moving.data else None
            except Exception:
                self._held.popleft()
                raise
            if opens is not None:
                self._opens = opens
                opens.addCallback(self._opened, failed).addErrback(self._failed, failed)
                return
            self._held.popleft()
            send()

    def _opened(self, _: None, failed: Callable[[Exception], None]) -> None:
        self._opens = None
        self._held.popleft()[2]()
        self._let_pass(failed)

    def _failed(self, failure: Failure, failed: Callable[[Exception], None]) -> None:
        if not self.closed:
            error = failure.value
            failed(error if isinstance(error, LogdError) else LogdError(failure.getErrorMessage()))
        elif not failure.check(CancelledError):
            failure.raiseException()
