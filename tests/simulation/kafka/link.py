"""One connection of a simulated client of Kafka: requests of kafka-python out, their responses in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.protocol.api_header import ResponseClassRegistry
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure

from logd.errors import BrokerUnavailable
from logd.testing.memory.clocks import ProcessClock
from tests.simulation.violation import Violation

_SIZE_BYTES = 4
#: Seconds after which a request is given up, with its connection.
TIMEOUT = 4.0


class KafkaLink(Protocol):
    """A connection; ``lost()`` is called once when it is over."""

    def __init__(self, clock: ProcessClock, lost: Callable[[], None]) -> None:
        self._clock = clock
        self._on_lost = lost
        self._data = bytearray()
        self._sent = 0
        self._waiting: dict[int, tuple[Any, Deferred[Any]]] = {}
        self._is_lost = False

    def ask(self, request: Any) -> Deferred[Any]:
        """Send a request; fire with its response. Fails with BrokerUnavailable if there is none."""
        waiter: Deferred[Any] = Deferred()
        if self._is_lost:
            waiter.errback(BrokerUnavailable("the connection is lost"))
            return waiter
        self._sent += 1
        number = self._sent
        request.with_header(correlation_id=number, client_id="simulated")
        self._waiting[number] = request, waiter
        assert self.transport is not None
        self.transport.write(bytes(request.encode(header=True, framed=True)))
        self._clock.callLater(TIMEOUT, self._give_up, number)
        return waiter

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """See Protocol."""
        self._data += data
        while len(self._data) >= _SIZE_BYTES:
            end = _SIZE_BYTES + int.from_bytes(self._data[:_SIZE_BYTES], "big")
            if len(self._data) < end:
                return
            frame = bytes(self._data[_SIZE_BYTES:end])
            del self._data[:end]
            number = int.from_bytes(frame[:4], "big")
            if number != next(iter(self._waiting), None):
                raise Violation("Kafka's answers are out of order", number, list(self._waiting))
            request, waiter = self._waiting.pop(number)
            kind = ResponseClassRegistry.get_response_class(request.header)
            waiter.callback(kind.decode(frame, version=request.version, header=True))

    def connectionLost(self, reason: Failure | None = None) -> None:  # noqa: N802
        """See Protocol."""
        if self._is_lost or self._clock.dead:
            return
        self._is_lost = True
        self._on_lost()
        waiting, self._waiting = self._waiting, {}
        for _, waiter in waiting.values():
            waiter.errback(BrokerUnavailable("the connection is lost"))

    def _give_up(self, number: int) -> None:
        if number in self._waiting and not self._is_lost:
            assert self.transport is not None
            transport: Any = self.transport
            transport.abortConnection()
