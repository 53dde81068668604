"""The base of a simulation: one clock, one network, random numbers from the seed, and the trace."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from unittest import mock

from attrs import define, field, frozen
from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogPublisher
from zope.interface import implementer

from logd.testing.memory.event_clock import EventClock
from logd.testing.memory.network import MemoryNetwork
from logd.testing.memory.transport import MemoryTransport
from tests.frozen_objects import collect_quietly
from tests.simulation.trace import Trace
from tests.simulation.violation import Violation

#: Seconds since the epoch when a simulation begins.
BEGIN = 1_600_000_000.0
#: A simulation with more events than this does not end.
MOST_EVENTS = 400_000


@define(eq=False)
class World:
    """The clock, network and trace of one life; ``seed`` decides the order of all events, the same each time."""

    seed: int
    show: Callable[[str], None] | None = None
    clock: EventClock = field(init=False)
    trace: Trace = field(init=False)
    network: MemoryNetwork = field(init=False)
    #: The network's usual delay in seconds, chosen by the seed.
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
        """Return random numbers for one purpose, whose use does not shift those of other purposes."""
        return Random(int.from_bytes(hashlib.sha256(f"{self.seed} {name}".encode()).digest()[:8], "big"))

    def delay(self) -> float:
        """Return the seconds of a delay on the network: mostly short, now and then long."""
        drawn = self._delays.random()
        return self.latency * (0.5 + drawn) if drawn < 0.97 else self.latency * 40 * self._delays.random()

    def disk_delay(self) -> float:
        """Return the seconds of a write of a disk."""
        drawn = self._delays.random()
        return 0.001 + 0.002 * drawn if drawn < 0.97 else 0.2 * self._delays.random()

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let ``seconds`` pass at most; return True once ``until()`` holds, which is asked after each event."""
        end = self.clock.seconds() + seconds
        while not (until is not None and until()):
            if Violation.noted:
                raise Violation.noted[0]
            if self.clock.events > MOST_EVENTS:
                raise Violation("the cluster never comes to rest", self.clock.events)
            if not self.clock.step(end):
                return until is not None and until()
        return True

    def logged(self, event: LogEvent) -> None:
        """Take a log event: a logged failure, unhandled or a bug, is a Violation."""
        if event.get("log_failure") is not None:
            failure = event["log_failure"]
            if not failure.check(Violation):
                text = f"a failure was logged: {event.get('log_format')}: {failure.value!r}\n{failure.getTraceback()}"
                Violation(text).__cause__ = failure.value
        elif self.show is not None and event["log_level"] is not LogLevel.debug:
            self.show(f"{self.clock.seconds() - BEGIN:.6f} log {formatEvent(event)}")

    def bury(self) -> None:
        """Release all that was killed. Its coroutines end now; what they log about that is dropped."""
        collect_quietly(self.network.graveyard.clear)
        # The rest stays for good, some twenty thousand objects: a watch over a dropped stream holds a clock, which
        # holds calls of all processes, and their coroutines must not end. No later collection has to look through it.
        gc.freeze()

    @contextmanager
    def unburied(self) -> Iterator[None]:
        """Keep Python from collecting what was killed: its coroutines would act when collected.

        The graveyard does not hold all of it: a coroutine of a process holds others that nothing else refers to.
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
        """Let logged failures end the simulation."""
        observer = Listening(self)
        globalLogPublisher.addObserver(observer)
        try:
            yield
        finally:
            globalLogPublisher.removeObserver(observer)

    @contextmanager
    def randomness(self) -> Iterator[None]:
        """Make new uuids and secrets from the seed, and give each process the same number: all may be sent.

        The modules uuid and secrets take their bytes from the two functions that are replaced.
        """
        random = self.random("uuids and secrets")
        with (
            mock.patch("os.urandom", random.randbytes),
            mock.patch("random._urandom", random.randbytes),
            mock.patch("os.getpid", lambda: 1),
        ):
            yield

    def _passed(self, source: MemoryTransport, target: MemoryTransport, data: bytes) -> None:
        self.trace.passed(f"{source.host.host}>{target.host.host}", data)
        if self.show is not None:
            self.show(f"{self.clock.seconds() - BEGIN:.6f} {source.host.host} > {target.host.host} {len(data)} bytes")


@implementer(ILogObserver)
@frozen
class Listening:
    """An observer that hands log events to the world."""

    world: World

    def __call__(self, event: LogEvent) -> None:
        """See ILogObserver."""
        self.world.logged(event)
