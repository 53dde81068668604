"""The load of one measurement, passed to the client's process as JSON, and the stopwatch of that process."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from itertools import repeat
from struct import Struct

from attrs import define, field, frozen

#: The time at which a paced message was due, at the start of its payload, by the clock that all processes share.
DUE = Struct(">d")
#: Seconds that one measurement may take.
PATIENCE_SECONDS = 300.0
#: Seconds in which a broker must have the last of the messages that it does not acknowledge.
STORED_SECONDS = 60.0
#: The longest sleep of a paced sender, in seconds, before it looks at the clock again.
NAP_SECONDS = 0.0005
#: The share of paced messages at the beginning whose latency is not counted, since clients still connect and compile.
WARM_SHARE = 0.2


@frozen
class Load:
    """The number of ``messages`` of ``size`` bytes to send to ``topic``, or to read from its beginning.

    ``batch`` messages make a request; 0 leaves that to the client's defaults, with one message to a call. With ``rate``
    (messages a second) they are sent on a fixed schedule, and the reader measures their latency.
    """

    topic: str
    messages: int
    size: int = 200
    batch: int = 0
    rate: float = 0.0
    #: For clients that have the choice: 0, 1 or -1.
    acks: int = 1

    def payload(self) -> bytes:
        """Return the payload of every message that is not paced."""
        line = b'10.0.0.1 - - [22/Nov/2026:12:00:00 +0000] "GET /members/12345 HTTP/1.1" 200 5120 '
        return (line * (self.size // len(line) + 1))[: self.size]

    def payloads(self) -> Iterator[bytes]:
        """Return the payloads; with a rate, block until each is due."""
        return self._waited() if self.rate else repeat(self.payload(), self.messages)

    def due_payloads(self) -> Iterator[bytes | None]:
        """Yield the payloads, and None while none is due, for a sender that must not block."""
        return self._paced() if self.rate else repeat(self.payload(), self.messages)

    def _waited(self) -> Iterator[bytes]:
        for payload in self._paced():
            if payload is None:
                time.sleep(NAP_SECONDS)
            else:
                yield payload

    def _paced(self) -> Iterator[bytes | None]:
        rest = self.payload()[DUE.size :]
        begin = time.monotonic()
        for number in range(self.messages):
            due = begin + number / self.rate
            while time.monotonic() < due:
                yield None
            yield DUE.pack(due) + rest


@define
class Stopwatch:
    """The time between ``start`` and ``stop``, in which a client does only its load, and the counts of that time."""

    seconds: float = 0.0
    processor_seconds: float = 0.0
    messages: int = 0
    #: Seconds from due to read, of paced messages.
    latencies: list[float] = field(factory=list)
    _began: float = field(default=0.0, init=False)
    _used: float = field(default=0.0, init=False)

    def start(self) -> None:
        """Begin, once the client is connected and knows its partition, and before it sends or fetches."""
        self._used = _processor_seconds()
        self._began = time.perf_counter()

    def stop(self, messages: int) -> None:
        """End: ``messages`` have been acknowledged, or read. The last call counts."""
        self.seconds = time.perf_counter() - self._began
        self.processor_seconds = _processor_seconds() - self._used
        self.messages = messages

    def note(self, payload: bytes) -> None:
        """Record that a paced message has been read."""
        self.latencies.append(time.monotonic() - DUE.unpack_from(payload)[0])

    def counted_latencies(self) -> list[float]:
        """Return the latencies without those of the first messages."""
        return self.latencies[int(len(self.latencies) * WARM_SHARE) :]


def _processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, kinds))
