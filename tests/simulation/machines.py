"""Faults of machines: clocks that are set, and disks that are full, hang, are replaced by empty ones, or lose files."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from attrs import define, field

from logd.coord import paths
from logd.errors import LogdError
from logd.log.disk.names import META, META_COPY
from logd.log.disk.names import TOPICS as TOPICS_FILE
from logd.log.partition import PartitionLog
from logd.log.recovery.flush_mark import read_mark
from logd.testing.memory.broker import DATA, MemoryBroker
from logd.testing.memory.disk import Directory
from logd.testing.memory.files import MemoryFiles
from tests.simulation.actors.accepting import make_gaps
from tests.simulation.cluster import LATE_TOPIC, TOPICS, SimulatedCluster
from tests.simulation.violation import Violation
from tests.simulation.world import World

#: Seconds by which a clock may be set ahead.
AHEAD = (-3600.0, -30.0, 30.0, 3600.0)
#: Probability that a loss is for good.
FOR_GOOD = 0.35
#: Probability that the loss of a segment which a group has not read yet is for good.
GAPS = 0.8
#: Probability that a seed has faults of machines.
LIKELY = 0.6


@define(eq=False)
class MachineFaults:
    """The maker of faults of machines, in some seeds; losses come back, or are accepted."""

    world: World
    cluster: SimulatedCluster
    note: Callable[[str, str], None]
    stop: Callable[[MemoryBroker], None]
    random: Random = field(init=False)
    _over: bool = field(default=False, init=False)
    #: Calls that undo the loss of a machine, by host.
    _lost: dict[str, Callable[[], None]] = field(factory=dict, init=False)
    #: Hosts whose disk is gone for good.
    _gone: set[str] = field(factory=set, init=False)
    _kinds: list[Callable[[], None]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random("machines")
        self._kinds = [
            self._set_clock,
            self._fill_broker,
            self._fill_tree,
            self._hang,
            self._hang_while_it_stops,
            self._lose_disk,
            self._lose_folder,
            self._lose_segment,
            self._flip_byte,
        ]

    def begin(self) -> None:
        """Begin to make faults, in the seeds that have them."""
        self._over = self.random.random() >= LIKELY
        self._later(6.0, self._next)

    def end(self) -> None:
        """Make no more faults, and undo losses; some clocks are set once more, and stay so."""
        if not self._over:
            for _ in self.cluster.brokers:
                self._set_clock()
        self._over = True
        for files in [self.cluster.tree.files, *(broker.files for broker in self.cluster.brokers)]:
            files.room = None
        now, hung = self.world.clock.seconds(), self.cluster.hung
        hung.update({host: min(until, now) for host, until in hung.items()})
        for host in tuple(self._lost):
            self._give_back(host)

    def _next(self) -> None:
        if not self._over:
            self.random.choice(self._kinds)()
            self._later(6.0, self._next)

    def _later(self, longest: float, call: Callable[[], None]) -> None:
        self.world.clock.callLater(longest * self.random.random(), call)

    def _some_broker(self) -> MemoryBroker:
        return self.random.choice(self.cluster.brokers)

    def _set_clock(self) -> None:
        broker = self._some_broker()
        ahead = self.random.choice(AHEAD)
        self.note(f"clock set {'forward' if ahead > broker.wall_offset else 'back'}", broker.host)
        broker.set_clock(ahead)

    def _fill_broker(self) -> None:
        broker = self._some_broker()
        self.note("disk full", broker.host)
        self._fill(broker.files)

    def _fill_tree(self) -> None:
        self.note("disk full", "tree")
        self._fill(self.cluster.tree.files)

    def _fill(self, files: MemoryFiles) -> None:
        files.room = self.random.choice([0, 100, 1000])

        def empty() -> None:
            files.room = None

        self._later(4.0, empty)

    def _hang(self) -> None:
        broker = self._some_broker()
        self.note("disk hangs", broker.host)
        self.cluster.hung[broker.host] = self.world.clock.seconds() + 20.0 * self.random.random()

    def _hang_while_it_stops(self) -> None:
        """Let a disk hang for longer than a stop may take, and stop its broker."""
        broker = self._some_broker()
        self.note("disk hangs", broker.host)
        self.cluster.hung[broker.host] = self.world.clock.seconds() + 15.0 + 10.0 * self.random.random()
        self.stop(broker)

    def _lose_disk(self) -> None:
        """Start a broker over an empty disk; it gets its own back later, or an operator accepts the loss."""
        broker = self._some_broker()
        if self.may_lose(broker):
            assert broker.store is not None
            folders = {(log.topic, log.partition): log.folder for log in broker.store.logs()}
            self.restart(broker, lambda: None)
            own, broker.files = broker.files, MemoryFiles(self.world.random(f"new disk of {broker.host}"), broker.wall)

            def give_back() -> None:
                broker.files = own

            if self.random.random() < FOR_GOOD:
                self.note("loss accepted", broker.host)
                self._gone.add(broker.host)
                self.cluster.acceptor.accept(broker, own, folders)
                return
            self._lost[broker.host] = give_back
            self._lost_something(broker, "disk lost")

    def _lose_folder(self) -> None:
        """Start a broker without one partition's folder, as when a mount did not come up."""
        broker = self._some_broker()
        if self.may_lose(broker):
            assert broker.store is not None
            folders = [log.folder for log in broker.store.logs() if log.offline is None]
            if folders:
                self._lose_name(broker, DATA, self.random.choice(folders).rpartition("/")[2], "folder lost")

    def _lose_segment(self) -> None:
        """Start a broker without one rolled segment; it comes back later, or gaps replace it for good."""
        broker = self._some_broker()
        if self.may_lose(broker):
            assert broker.store is not None
            known = [log for log in broker.store.logs() if log.offline is None and len(log.segments()) > 1]
            # A flush mark that a full disk refused says nothing of what was stored.
            logs = [log for log in known if read_mark(broker.files, log.folder) >= log.segments()[-1][0]]
            if logs:
                rolled = [(log, number) for log in logs for number in range(len(log.segments()) - 1)]
                unread = [each for each in rolled if self._is_unread(*each)]
                log, number = self.random.choice(unread or rolled)
                start = log.segments()[number][0]
                if self.random.random() < (GAPS if unread else FOR_GOOD):
                    self.note("gaps made", broker.host)
                    self.restart(broker, lambda: make_gaps(broker, log, number, self.cluster.ledger))
                    return
                self._lose_name(broker, log.folder, f"{start:020}.log", "segment lost")

    def _flip_byte(self) -> None:
        """Start a broker with one flipped bit in a file about itself or its topics."""
        broker = self._some_broker()
        if self.may_lose(broker) and broker.files.room is None:
            path = f"{DATA}/{self.random.choice([META, META_COPY, TOPICS_FILE])}"
            self.note("byte flipped", broker.host)

            def flip() -> None:
                if broker.files.exists(path):
                    inode = broker.files._inode(path)
                    inode.data[self.random.randrange(len(inode.data))] ^= 1 << self.random.randrange(8)
                    inode.sync()

            self.restart(broker, flip)

    def _is_unread(self, log: PartitionLog, number: int) -> bool:
        """Return True for a segment that a group, or a reader without a group, has not read yet."""
        ledger, start = self.cluster.ledger, log.segments()[number][0]
        return any(
            ledger.progress(name, log.topic, log.partition).handled <= start
            for name in [*self.cluster.groups, *(consumer.host for consumer in self.cluster.consumers)]
        )

    def _lose_name(self, broker: MemoryBroker, folder: str, name: str, kind: str) -> None:
        directory = broker.files._directory(folder)

        def take() -> None:
            node = directory.names.pop(name, None)
            directory.disk.pop(name, None)
            directory.pending.clear()

            def give_back() -> None:
                if node is not None:
                    if isinstance(node, Directory):
                        node.sync()
                    directory.names[name] = directory.disk[name] = node

            self._lost[broker.host] = give_back

        self.restart(broker, take)
        self._lost_something(broker, kind)

    def may_lose(self, broker: MemoryBroker) -> bool:
        """Return True when the tree knows the stored ends of a broker's topics; else a new disk's messages are lost."""
        server = self.cluster.tree.server
        if server is None or broker.clock is None or broker.store is None or broker.host in {*self._lost, *self._gone}:
            return False
        nodes, number = server.tree.nodes, broker.store.broker_id
        for topic in (*TOPICS, LATE_TOPIC):
            node = nodes.get(paths.topic(topic))
            if node is None:
                return False
            entry = json.loads(node.data)
            listed = any(number in brokers for brokers in entry["partitions"].values())
            if listed and paths.stored_ends(entry["uuid"], number) not in nodes:
                return False
        return True

    def _lost_something(self, broker: MemoryBroker, kind: str) -> None:
        self.note(kind, broker.host)
        self._later(12.0, lambda: self._give_back(broker.host))

    def _give_back(self, host: str) -> None:
        give_back = self._lost.pop(host, None)
        broker = next(broker for broker in self.cluster.brokers if broker.host == host)
        if give_back is not None:
            self.note("what was lost is back", host)
            self.restart(broker, give_back)

    def restart(self, broker: MemoryBroker, meanwhile: Callable[[], None]) -> None:
        """Kill a broker, if it runs, and start it again a moment later."""

        def start() -> None:
            if broker.clock is None:
                try:
                    broker.start()
                except LogdError as error:
                    if broker.files.room is None:
                        raise Violation("a broker does not start", broker.host, error) from error
                    broker.kill()  # a full disk without logd's files yet: the start is tried again
                    self.world.clock.callLater(1.0, start)

        broker.kill()
        meanwhile()
        self.world.clock.callLater(0.5, start)
