"""Kills and pauses of clients of Kafka, by random numbers of their own: those of other faults are not shifted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from attrs import define, field

from tests.simulation.kafka.client import KafkaClient
from tests.simulation.world import World

#: Mean seconds between two faults.
PACE = 6.0


@define(eq=False)
class KafkaFaults:
    """The maker of these faults."""

    world: World
    clients: Sequence[KafkaClient]
    note: Callable[[str, str], None]
    random: Random = field(init=False)
    _over: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random("faults of Kafka's clients")

    def begin(self) -> None:
        """Begin to make faults, where there are such clients."""
        if self.clients:
            self._later(PACE, self._next)

    def end(self) -> None:
        """Make no more faults; all clients run in the end."""
        self._over = True
        for client in self.clients:
            if client.clock is None:
                client.start()
            else:
                client.clock.resume()

    def _next(self) -> None:
        if self._over:
            return
        client = self.random.choice(self.clients)
        clock = client.clock
        if clock is not None and self.random.random() < 0.5:
            self.note("kill", client.host)
            client.kill()
            self._later(3.0, lambda: self._start(client))
        elif clock is not None and not clock.paused:
            self.note("pause", client.host)
            clock.pause()
            self._later(8.0, clock.resume)
        self._later(2 * PACE, self._next)

    def _start(self, client: KafkaClient) -> None:
        if client.clock is None:
            client.start()

    def _later(self, longest: float, call: Callable[[], None]) -> None:
        self.world.clock.callLater(longest * self.random.random(), call)
