"""The ground of a simulation: one clock, one network, random numbers from the seed, and the trace."""

from __future__ import annotations

import gc
import hashlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from unittest import mock

from attrs import define, field, frozen
from twisted.logger import ILogObserver, LogEvent, LogLevel, LogPublisher, formatEvent, globalLogPublisher
from zope.interface import implementer

from logd.testing.memory.event_clock import EventClock
from logd.testing.memory.network import MemoryNetwork
from logd.testing.memory.transport import MemoryTransport
from tests.simulation.trace import Trace
from tests.simulation.violation import Violation

#: Seconds since the epoch when a simulation begins.
BEGIN = 1_600_000_000.0
#: A simulation that has more events than this goes round in a circle.
MOST_EVENTS = 400_000


@define(eq=False)
class World:
    """Everything in it happens in an order that ``seed`` decides, the same each time."""

    seed: int
    show: Callable[[str], None] | None = None
    clock: EventClock = field(init=False)
    trace: Trace = field(init=False)
    network: MemoryNetwork = field(init=False)
    #: How fast the network is, in seconds; a seed's own.
    latency: float = field(init=False)
    _delays: Random = field(init=False)

    def __attrs_post_init__(self) -> None:
        Violation.noted.clear()
        self.clock = EventClock(BEGIN)
        self.trace = Trace(self.clock.seconds, self.show, BEGIN)
        self._delays = self.random("delays")
        self.latency = self._delays.choice([0.0005, 0.002, 0.02])
        self.network = MemoryNetwork(self.clock, self.delay, self.random("pieces"), self._passed)

    def random(self, name: str) -> Random:
        """Random numbers for one purpose: those of the others do not shift when it takes more of them."""
        return Random(int.from_bytes(hashlib.sha256(f"{self.seed} {name}".encode()).digest()[:8], "big"))

    def delay(self) -> float:
        """Seconds that something takes on the network: mostly little, now and then long."""
        drawn = self._delays.random()
        return self.latency * (0.5 + drawn) if drawn < 0.97 else self.latency * 40 * self._delays.random()

    def disk_delay(self) -> float:
        """Seconds that a disk takes."""
        drawn = self._delays.random()
        return 0.001 + 0.002 * drawn if drawn < 0.97 else 0.2 * self._delays.random()

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass, at most so much; True once ``until()``, which is asked after each event."""
        end = self.clock.seconds() + seconds
        while not (until is not None and until()):
            if Violation.noted:
                raise Violation.noted[0]
            if self.clock.events > MOST_EVENTS:
                raise Violation("it never comes to rest", self.clock.events)
            if not self.clock.step(end):
                return until is not None and until()
        return True

    def logged(self, event: LogEvent) -> None:
        """Somebody logs: a failure that nobody saw, or a bug, breaks a promise."""
        if event.get("log_failure") is not None:
            failure = event["log_failure"]
            if not failure.check(Violation):
                Violation(
                    f"a failure was logged: {event.get('log_format')}: {failure.value!r}\n{failure.getTraceback()}"
                )
        elif self.show is not None and event["log_level"] is not LogLevel.debug:
            self.show(f"{self.clock.seconds() - BEGIN:.6f} log {formatEvent(event)}")

    def bury(self) -> None:
        """Let go of all that was killed. Their coroutines end now; what they say about it is of no interest."""
        with mock.patch.object(LogPublisher, "__call__", lambda publisher, event: None):
            self.network.graveyard.clear()
            for _ in range(5):  # what ends leaves more to collect
                if not gc.collect():
                    break

    @contextmanager
    def unburied(self) -> Iterator[None]:
        """Have Python collect nothing of what was killed, whose coroutines would act when it does.

        Not all of that is in the graveyard: a coroutine of a process holds others that nothing else refers to.
        """
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            self.bury()
            if was_enabled:
                gc.enable()

    @contextmanager
    def observed(self) -> Iterator[None]:
        """Have failures that are logged end the simulation."""
        observer = Listening(self)
        globalLogPublisher.addObserver(observer)
        try:
            yield
        finally:
            globalLogPublisher.removeObserver(observer)

    @contextmanager
    def uuids(self) -> Iterator[None]:
        """Have new uuids come from the seed."""
        random = self.random("uuids")

        def uuid4() -> uuid.UUID:
            return uuid.UUID(int=random.getrandbits(128), version=4)

        with mock.patch("uuid.uuid4", uuid4), mock.patch("logd.client.consumer.group.member_identity.uuid4", uuid4):
            yield

    def _passed(self, source: MemoryTransport, target: MemoryTransport, data: bytes) -> None:
        self.trace.passed(f"{source.host.host}>{target.host.host}", data)
        if self.show is not None:
            self.show(f"{self.clock.seconds() - BEGIN:.6f} {source.host.host} > {target.host.host} {len(data)} bytes")


@implementer(ILogObserver)
@frozen
class Listening:
    """Hears what is logged."""

    world: World

    def __call__(self, event: LogEvent) -> None:
        """See ILogObserver."""
        self.world.logged(event)
