"""Troubles that peers make: they hang up, keep sending, leave requests incomplete, or are closed without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest import mock

from attrs import define, field

from logd.net.server import Connection
from logd.testing.memory.broker import MemoryBroker
from tests.simulation.actors.peers import LeavingProducer, Peer, Peers
from tests.simulation.cluster import TOPICS, SimulatedCluster
from tests.simulation.violation import check
from tests.simulation.world import World

#: The share of seeds in which peers make trouble.
LIKELY = 0.4
#: Bytes of a request that is never complete: a few of them are more than a broker with small limits keeps.
HALF_BYTES = 380_000
#: Seconds for which a peer keeps sending, if the broker lets it: longer than a stop may take.
FLOOD_SECONDS = 14.0
FLOOD_PACE = 0.05


@define(eq=False)
class PeerFaults:
    """Makes trouble until ``end``, in some seeds."""

    world: World
    cluster: SimulatedCluster
    note: Callable[[str, str], None]
    stop: Callable[[MemoryBroker], None]
    random: Random = field(init=False)
    peers: Peers = field(init=False)
    _over: bool = field(default=False, init=False)
    _kinds: list[Callable[[], None]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random("peers")
        self.peers = Peers(self.world, self.cluster.ledger, self.random)
        self._kinds = [self._hang_up, self._keep_sending, self._leave_incomplete, self._close_without_network]

    def begin(self) -> None:
        """From now on peers make trouble, if this seed is one of those."""
        self._over = self.random.random() >= LIKELY
        self._later(8.0, self._next)

    def end(self) -> None:
        """Make no more trouble; disks are as fast as before."""
        now, slow = self.world.clock.seconds(), self.cluster.slow
        slow.update({host: min(until, now) for host, until in slow.items()})
        self._over = True

    def _next(self) -> None:
        if not self._over:
            self.random.choice(self._kinds)()
            self._later(8.0, self._next)

    def _later(self, longest: float, call: Callable[[], None]) -> None:
        self.world.clock.callLater(longest * self.random.random(), call)

    def _some_broker(self) -> MemoryBroker | None:
        """Return a broker that runs, and does not stand still."""
        live = [each for each in self.cluster.brokers if each.clock is not None and not each.clock.paused]
        return self.random.choice(live) if live else None

    def _some_partition(self, broker: MemoryBroker) -> tuple[str, int] | None:
        logs = [] if broker.store is None else [log for log in broker.store.logs() if log.offline is None]
        logs = [log for log in logs if log.topic in TOPICS]
        if not logs:
            return None
        log = self.random.choice(logs)
        return log.topic, log.partition

    def _slow_down(self, broker: MemoryBroker, seconds: float) -> None:
        """Have each wait for a broker's disk take longer for a while."""
        self.cluster.slow[broker.host] = self.world.clock.seconds() + seconds

    def _hang_up(self) -> None:
        """Connections with a broker are cut one after another, while its disk is slow."""
        broker = self._some_broker()
        if broker is not None:
            self.note("peers hang up", broker.host)
            self._slow_down(broker, 4.0)
            for _ in range(8):
                self._later(4.0, lambda: self._cut_one(broker))

    def _cut_one(self, broker: MemoryBroker) -> None:
        wires = [each for each in self.world.network.wires if each.ends[1].host.host == broker.host]
        if wires and not self._over:
            self.world.network.cut(self.random.choice(wires))

    def _keep_sending(self) -> None:
        """A producer of 0.7 sends as fast as the disk can flush, and the broker is stopped meanwhile."""
        broker = self._some_broker()
        where = None if broker is None else self._some_partition(broker)
        if broker is None or where is None:
            return
        self.note("keeps sending", broker.host)
        until, name = self.world.clock.seconds() + FLOOD_SECONDS, self.peers.new_host()

        def send(peer: Peer) -> None:
            if peer.is_connected and self.world.clock.seconds() < until:
                peer.send(self.peers.request(name, *where, 0))
                self.world.clock.callLater(FLOOD_PACE, send, peer)

        self.peers.connect(broker, send)
        self._slow_down(broker, FLOOD_SECONDS)
        self.world.clock.callLater(0.5, self._stop_unless_over, broker)

    def _stop_unless_over(self, broker: MemoryBroker) -> None:
        if not self._over:
            self.stop(broker)

    def _leave_incomplete(self) -> None:
        """Peers leave requests incomplete; the first of them has sent so much before that it is paused."""
        broker = self._some_broker()
        where = None if broker is None else self._some_partition(broker)
        if broker is None or where is None or broker.settings.frame_bytes > 2 * HALF_BYTES:
            return
        self.note("incomplete requests", broker.host)
        half = (HALF_BYTES + 1000).to_bytes(4, "big") + bytes(HALF_BYTES)
        full = self.peers.request(self.peers.new_host(), *where, 2 * broker.settings.unflushed_bytes)
        self._slow_down(broker, 3.0)

        def leave(data: bytes, wait: float) -> Callable[[Peer], None]:
            def begin(peer: Peer) -> None:
                self.world.clock.callLater(wait, peer.send, data)
                self.world.clock.callLater(3.0, peer.hang_up)

            return begin

        self.peers.connect(broker, leave(full + half, 0.0))
        for _ in range(4):
            self.peers.connect(broker, leave(half, 0.2))

    def _close_without_network(self) -> None:
        """A producer with acks=0 is closed on a machine that has lost its network while it stood still."""
        self.note("closed without a network", "peer")
        addresses = [broker.address for broker in self.cluster.brokers]
        LeavingProducer(self.peers, self.random.choice(TOPICS), addresses).begin()


@contextmanager
def closes_watched() -> Iterator[None]:
    """Have it break a promise that a connection is closed for a request that the broker itself does not read on."""
    close = Connection.close

    def watched(connection: Connection, reason: str = "", *, drain: bool = True) -> None:
        if reason.startswith("the incomplete requests of all connections"):
            others: list[Any] = [each for each in connection._watch.untaken._kept if each.reading]
            paused = not connection.reading and others
            check(not paused, "a connection that the broker has paused is closed for its request", reason)
        close(connection, reason, drain=drain)

    with mock.patch.object(Connection, "close", watched):
        yield
