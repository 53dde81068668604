"""Faults of the network: between brokers, to the coordination tree, and between clients and brokers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from attrs import define, field

from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.inprocess.link import HostLink
from logd.testing.memory.broker import MemoryBroker
from tests.simulation.replication.cluster import ReplicatedCluster


@define(eq=False)
class NetworkFaults:
    """Faults of connections; all last until ``mend``, which comes a little later."""

    cluster: ReplicatedCluster
    random: Random
    _unreachable: list[HostLink] = field(factory=list, init=False)
    _delayed: list[InProcessCoordination] = field(factory=list, init=False)

    def block(self, one: MemoryBroker, other: MemoryBroker) -> None:
        """Let nothing pass between two brokers."""
        self.cluster.world.network.block(one.host, other.host)

    def block_one_way(self, one: MemoryBroker, other: MemoryBroker) -> None:
        """Let nothing pass from one broker to the other."""
        self.cluster.world.network.block_one_way(one.host, other.host)

    def isolate(self, broker: MemoryBroker) -> None:
        """Let a broker reach no other one; the tree and the clients it reaches."""
        for other in self.cluster.brokers:
            if other is not broker:
                self.block(broker, other)

    def hide_from_clients(self, broker: MemoryBroker, clients: list[str]) -> None:
        """Let no client reach a broker."""
        for client in clients:
            self.cluster.world.network.block(client, broker.host)

    def cut(self) -> None:
        """Break many connections."""
        for wire in tuple(self.cluster.world.network.wires):
            if self.random.random() < 0.5:
                self.cluster.world.network.cut(wire)

    def lose_tree(self, broker: MemoryBroker) -> None:
        """Let a broker reach anything but the tree."""
        if broker.coordination is not None:
            link = broker.coordination.link
            link.reachable = False
            link.cut()
            self._unreachable.append(link)

    def flap(self, broker: MemoryBroker, times: int) -> None:
        """Break a broker's connections, also to the tree, again and again, each time for less than a session."""
        if not times or broker.coordination is None:
            return
        broker.coordination.link.cut()
        for wire in tuple(self.cluster.world.network.wires):
            if broker.host in (wire.ends[0].host.host, wire.ends[1].host.host):
                self.cluster.world.network.cut(wire)
        self._later(0.5 + self.random.random(), lambda: self.flap(broker, times - 1))

    def delay_tree(self, broker: MemoryBroker) -> None:
        """Let what the tree says reach a broker late: answers, and watches."""
        client = broker.coordination
        if client is not None:
            client.link.delay = lambda: 1.5 * self.random.random()
            self._delayed.append(client)

    def expire(self, broker: MemoryBroker) -> None:
        """End a broker's session."""
        server, client = self.cluster.tree.server, broker.coordination
        if server is not None and server.serving and client is not None and client.session_id in server.tree.sessions:
            server.host.expire(client.session_id)

    def expire_all(self) -> None:
        """End the sessions of all brokers."""
        for broker in self.cluster.brokers:
            self.expire(broker)

    def mend(self) -> None:
        """Let everything pass again."""
        self.cluster.world.network.heal()
        while self._unreachable:
            self._unreachable.pop().reachable = True
        while self._delayed:
            self._delayed.pop().link.delay = self.cluster.world.delay

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self.cluster.world.clock.callLater(seconds, call)
