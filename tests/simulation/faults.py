"""The faults of a life, drawn from the seed; after a time all of them are repaired."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from attrs import define, field, frozen
from zope.interface import implementer

from logd.broker.shutdown import StopReport
from logd.interfaces import IFlushListener
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.tree import MemoryTree
from logd.topic import TopicPartition
from tests.simulation.cluster import Process, SimulatedCluster
from tests.simulation.kafka.faults import KafkaFaults
from tests.simulation.machines import MachineFaults
from tests.simulation.peers import PeerFaults
from tests.simulation.retention import removable, remove_segments
from tests.simulation.rot import RotFaults
from tests.simulation.violation import Violation
from tests.simulation.world import World

#: A topic that names two brokers for one partition, which logd does not support.
PAIR = "web-x"


def _entry(brokers: list[int]) -> bytes:
    """Return the entry of a topic with one partition."""
    return json.dumps({"uuid": "12345678-1234-4234-8234-123456789012", "partitions": {"0": brokers}}).encode()


#: Nodes of foreign or broken writers: brokers and clients must pass over each, and do nothing else.
BAD_NODES: tuple[tuple[str, bytes], ...] = (
    ("/brokers/ids/99", b"x:127.0.0.1:9092"),
    ("/brokers/ids/elsewhere", b"[]"),
    ("/brokers/topics/my topic", _entry([0])),
    (f"/brokers/topics/{PAIR}", _entry([0, 1])),
    ("/brokers/topics/web-y", b'{"uuid": 1e999, "partitions": {"0": [1e999]}}'),
    ("/brokers/topics/web-z", b"[" * 50_000),
)
#: Delay of a message that is lost, in seconds.
FOR_EVER = 1e9


class ListenerError(Exception):
    """The error of a listener for messages that has a bug."""


@implementer(IFlushListener)
@frozen
class BadListener:
    """A listener with a bug: each of its methods raises."""

    def visible(self, end: int) -> None:
        """See IFlushListener."""
        raise ListenerError("a bug of a listener")

    def failed(self, error: BaseException) -> None:
        """See IFlushListener."""
        raise ListenerError("a bug of a listener")


@define(eq=False)
class Faults:
    """The maker of faults, from ``begin()`` until ``end()``."""

    world: World
    cluster: SimulatedCluster
    random: Random = field(init=False)
    #: Mean seconds between two faults.
    pace: float = field(init=False)
    tree: MemoryTree = field(init=False)
    brokers: list[MemoryBroker] = field(init=False)
    producers: list[Process] = field(init=False)
    consumers: list[Process] = field(init=False)
    made: dict[str, int] = field(factory=dict, init=False)
    #: Producers that are being closed, or do not run after that: the cluster is not settled before they do.
    closing: int = field(default=0, init=False)
    _silent: list[InProcessCoordination] = field(factory=list, init=False)
    _over: bool = field(default=False, init=False)
    machines: MachineFaults = field(init=False)
    rot: RotFaults = field(init=False)
    peers: PeerFaults = field(init=False)
    kafka: KafkaFaults = field(init=False)
    _kinds: list[tuple[Callable[[], None], int]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random("faults")
        self.pace = self.random.choice([0.5, 1.0, 3.0])
        self.machines = MachineFaults(self.world, self.cluster, self._note, self._stop_this)
        self.rot = RotFaults(self.world, self.cluster, self.machines, self._note)
        self.peers = PeerFaults(self.world, self.cluster, self._note, self._stop_this)
        self.kafka = KafkaFaults(self.world, self.cluster.kafka, self._note)
        cluster = self.cluster
        self.tree, self.brokers = cluster.tree, cluster.brokers
        self.producers, self.consumers = (
            [*cluster.producers, *cluster.strangers],
            [*cluster.consumers, *cluster.members],
        )
        self._kinds = [
            (self._cut, 4),
            (self._half_open, 2),
            (self._block, 2),
            (self._kill_broker, 2),
            (self._stop_broker, 1),
            (self._kill_producer, 1),
            (self._kill_consumer, 2),
            (self._stop_member, 2),
            (self._pause_consumer, 3),
            (self._pause_broker, 1),
            (self._kill_tree, 2),
            (self._stop_tree, 1),
            (self._cut_link, 2),
            (self._silence_link, 2),
            (self._expire, 2),
            (self._move_positions, 2),
            (self._take_from_owners, 2),
            (self._remove_entry, 2),
            (self._spoil_position, 2),
            (self._remove_segments, 3),
            (self._spoil_tree, 4),
            (self._add_bad_listener, 2),
            (self._close_careless, 2),
        ]

    def begin(self) -> None:
        """Begin to make faults."""
        self.world.clock.callLater(self.pace * 2 * self.random.random(), self._next)
        self.machines.begin()
        self.rot.begin()
        self.peers.begin()
        self.kafka.begin()

    def end(self) -> None:
        """Make no more faults, and repair those that last."""
        self._over = self.cluster.operator.over = True
        self.machines.end()
        self.rot.end()
        self.peers.end()
        self.kafka.end()
        self.world.network.heal()
        for client in self._silent:
            self._end_silence(client)
        for broker in self.brokers:
            if broker.clock is not None:
                broker.clock.resume()
        for stranger in self.cluster.strangers:
            self._start(stranger)
        for process in [*self.producers, *self.consumers]:
            if process.clock is not None:
                process.clock.resume()

    def _next(self) -> None:
        if self._over:
            return
        kinds, weights = zip(*self._kinds, strict=True)
        (kind,) = self.random.choices(kinds, weights)
        kind()
        self.world.clock.callLater(self.pace * 2 * self.random.random(), self._next)

    def _note(self, kind: str, who: str) -> None:
        self.made[kind] = self.made.get(kind, 0) + 1
        self.world.trace.note(who, kind)

    def _later(self, longest: float, call: Callable[[], None]) -> None:
        """Call ``call`` within ``longest`` seconds."""
        self.world.clock.callLater(longest * self.random.random(), call)

    def _cut(self) -> None:
        wires = list(self.world.network.wires)
        if wires:
            wire = self.random.choice(wires)
            self._note("cut", f"{wire.ends[0].host.host}-{wire.ends[1].host.host}")
            self.world.network.cut(wire)

    def _half_open(self) -> None:
        wires = list(self.world.network.wires)
        if wires:
            wire = self.random.choice(wires)
            self._note("half-open", f"{wire.ends[0].host.host}-{wire.ends[1].host.host}")
            self.world.network.half_open(wire, self.random.randrange(2))

    def _block(self) -> None:
        one = self.random.choice([*self.producers, *self.consumers]).host
        other = self.random.choice(self.brokers).host
        self._note("block", f"{one}-{other}")
        self.world.network.block(one, other)
        self._later(8.0, self.world.network.heal)

    def _kill_broker(self) -> None:
        broker = self.random.choice(self.brokers)
        if broker.clock is not None:
            power_lost = self.random.random() < 0.7
            self._note("power lost" if power_lost else "kill", broker.host)
            broker.kill(power_lost)
            self._later(5.0, lambda: self._start_broker(broker))

    def _stop_broker(self) -> None:
        self._stop_this(self.random.choice(self.brokers))

    def _stop_this(self, broker: MemoryBroker) -> None:
        if broker.clock is not None and not broker.clock.paused:
            self._note("stop", broker.host)
            clock, began = broker.clock, self.world.clock.seconds()

            def stopped(report: StopReport) -> None:
                took = self.world.clock.seconds() - max(began, clock.resumed_at)
                hung = self.cluster.hung.get(broker.host, 0.0) >= began
                slow = self.cluster.slow.get(broker.host, 0.0) >= began  # too slow for the checkpoints, at worst
                stood_still = clock.resumed_at > began  # and had less time, or none
                is_complete = report.clean or hung or stood_still or (slow and not report.unflushed)
                if took > broker.settings.stop_ms / 1000 + 0.1 or not is_complete:
                    Violation(f"{broker.host} stopped after {took:.3f} s: {report}")
                self._later(3.0, lambda: self._start_broker(broker))

            broker.stop().addCallback(stopped)

    def _start_broker(self, broker: MemoryBroker) -> None:
        if broker.clock is None:
            self.world.trace.note(broker.host, "start")
            broker.start()

    def _kill_tree(self) -> None:
        # At the worst moment: while a change is on its way to the disk.
        self.cluster.overseer.at_next_change = lambda: self._later(self.cluster.tree_disk, self._kill_tree_now)

    def _kill_tree_now(self) -> None:
        if self.tree.clock is not None and not self._over:
            power_lost = self.random.random() < 0.7
            self._note("power lost" if power_lost else "kill", "tree")
            self.tree.kill(power_lost)
            self._later(4.0, self._start_tree)

    def _stop_tree(self) -> None:
        if self.tree.clock is not None:
            self._note("stop", "tree")
            self.tree.stop().addCallback(lambda _: self._later(3.0, self._start_tree))

    def _start_tree(self) -> None:
        if self.tree.clock is None:
            self.world.trace.note("tree", "start")
            self.cluster.start_tree()

    def _cut_link(self) -> None:
        if self.tree.clients:
            client = self.random.choice(self.tree.clients)
            self._note("cut from the tree", f"{client.session_id:x}")
            client.link.clock.callLater(0, client.link.cut)

    def _silence_link(self) -> None:
        if self.tree.clients:
            client = self.random.choice(self.tree.clients)
            self._note("silence to the tree", f"{client.session_id:x}")
            client.link.delay = lambda: FOR_EVER
            self._silent.append(client)
            self._later(15.0, lambda: self._end_silence(client))

    def _end_silence(self, client: InProcessCoordination) -> None:
        client.link.delay = self.world.delay
        client.link.clock.callLater(0, client.link.cut)  # the client would notice by itself some seconds later

    def _expire(self) -> None:
        server = self.tree.server
        if server is not None and server.serving and self.tree.clients:
            client = self.random.choice(self.tree.clients)
            if client.session_id in server.tree.sessions:
                self._note("expire", f"{client.session_id:x}")
                self.cluster.overseer.ended.add(client.session_id)
                server.host.expire(client.session_id)

    def _move_positions(self) -> None:
        group, places = self._some_places()
        if places and self.cluster.operator.connected:
            self._note("positions moved", group)
            self.cluster.operator.move(group, places)

    def _take_from_owners(self) -> None:
        group, places = self._some_places()
        if places and self.cluster.operator.connected:
            self._note("owners removed", group)
            self.cluster.operator.take(group, places)

    def _remove_entry(self) -> None:
        member = self.random.choice(self.cluster.members)
        if member.consumer is not None and member.consumer.group is not None and self.cluster.operator.connected:
            self._note("entry removed", member.host)
            self.cluster.operator.remove_entry(member.group, member.consumer.group.consumer)

    def _spoil_position(self) -> None:
        group, places = self._some_places()
        if places and self.cluster.operator.connected:
            self._note("position spoiled", group)
            self.cluster.operator.spoil(group, places[0])

    def _remove_segments(self) -> None:
        broker = self.random.choice(self.brokers)
        logs = removable(broker, self.cluster.ledger)
        if logs:
            remove_segments(broker, self.random.choice(logs), self.random)
            self._note("segments removed", broker.host)

    def _spoil_tree(self) -> None:
        operator = self.cluster.operator
        if operator.connected:
            path, value = self.random.choice(BAD_NODES)
            self._note("bad node", path)
            operator.write(path, value)

    def _add_bad_listener(self) -> None:
        """Let a listener with a bug wait for messages."""
        broker = self.random.choice(self.brokers)
        logs = [] if broker.store is None else [log for log in broker.store.logs() if log.offline is None]
        if logs:
            self._note("bad listener", broker.host)
            log = self.random.choice(logs)
            log.wait_visible(log.visible_end + 1, BadListener())

    def _close_careless(self) -> None:
        """Close a producer with acks=0 in order, kill it a moment later, and start it again."""
        producers = [each for each in self.cluster.producers if not each.acks and each.clock is not None]
        if producers:
            producer = self.random.choice(producers)
            self._note("closed", producer.host)
            producer.close()
            self.closing += 1
            self.world.clock.callLater(3.0, producer.kill)

            def start() -> None:
                self._start(producer)
                self.closing -= 1

            self.world.clock.callLater(3.0 + 5.0 * self.random.random(), start)

    def _some_places(self) -> tuple[str, list[TopicPartition]]:
        """Return a group, and some partitions that it has read."""
        group = self.random.choice([*self.cluster.groups])
        known = [TopicPartition(*place) for place in sorted(self.cluster.ledger.groups.get(group, {}))]
        return group, self.random.sample(known, self.random.randint(1, len(known))) if known else []

    def _pause_broker(self) -> None:
        self._pause(self.random.choice(self.brokers), 6.0)

    def _pause_consumer(self) -> None:
        self._pause(self.random.choice(self.consumers), 12.0)

    def _pause(self, process: Process | MemoryBroker, longest: float) -> None:
        clock = process.clock
        if clock is not None and not clock.paused:
            self._note("pause", process.host)
            clock.pause()
            self._later(longest, clock.resume)

    def _kill_producer(self) -> None:
        self._kill(self.random.choice(self.producers))

    def _kill_consumer(self) -> None:
        self._kill(self.random.choice(self.consumers))

    def _stop_member(self) -> None:
        member = self.random.choice(self.cluster.members)
        if member.clock is not None and not member.clock.paused and not member.leaving:
            self._note("leave", member.host)
            member.stop().addCallback(lambda _: self._later(4.0, lambda: self._start(member)))

    def _start(self, process: Process) -> None:
        if process.clock is None:
            self.world.trace.note(process.host, "start")
            process.start()

    def _kill(self, process: Process) -> None:
        if process.clock is not None:
            self._note("kill", process.host)
            process.kill()
            self._later(5.0, lambda: self._start(process))
