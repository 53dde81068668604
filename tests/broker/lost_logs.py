"""A broker in memory that loses what it stored, while the coordination tree keeps its stored ends."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.broker.topics.ends_schedule import LEAD_SECONDS
from logd.coord import paths
from logd.coord.errors import NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.registries.stored_ends import StoredEnds
from logd.protocol.requests.repair import SERVED_AGAIN, Repair, RepairResponse
from logd.testing.memory.files import MemoryFiles
from logd.topic import TopicEntry
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

HELLO = plain(b"hello")


def write_node(case: BrokerTestCase, tree: ICoordination, path: str, data: bytes) -> None:
    """Write a node of the tree, made when missing."""

    async def write() -> None:
        try:
            await tree.set(path, data)
        except NoNode:
            await tree.create(path, data, makepath=True)

    writing = Deferred.fromCoroutine(write())
    case.settle()
    case.successResultOf(writing)


class LostLogTestCase(BrokerTestCase):
    """Topic "t" with two partitions, of which the first has two messages."""

    def setUp(self) -> None:
        """Make the topic, fill it, and let its stored ends be written."""
        super().setUp()
        self.create("t", 2)
        peer = self.connect()
        for _ in range(2):
            self.produce(peer, "t", HELLO)
        self.pass_time(LEAD_SECONDS)
        self.uuid = self.entry("t").uuid

    def entry(self, topic: str) -> TopicEntry:
        """Return the topic's entry as the broker knows it."""
        entry = self.broker.topics.get(topic)
        assert entry is not None
        return entry

    def pass_time(self, seconds: float) -> None:
        """Advance the broker's clock, and let everything due happen."""
        self.clock.advance(seconds)
        self.settle()

    def stored_ends(self, uuid: str = "", broker: int = 0) -> StoredEnds | None:
        """Return the stored ends that the tree has of a topic on a broker, or None."""
        path = paths.stored_ends(uuid or self.uuid, broker)
        reading = self.access.client.get(path)
        reading.addErrback(lambda failure: None)
        self.settle()
        found = self.successResultOf(reading)
        return None if found is None else StoredEnds.decode(path, found[0])

    def in_tree(self, path: str, data: bytes) -> None:
        """Write a node of the tree, made when missing."""
        write_node(self, self.access.client, path, data)

    def kill(self) -> None:
        """End the process without a stop, as SIGKILL does; the machine keeps its power."""
        for peer in self.peers:
            peer.lost = True
        self.end_process()
        self.files.restart(False)

    def replace_disk(self) -> None:
        """Put in an empty disk, and let the registration of the former instance run out."""
        self.files = MemoryFiles(now=lambda: self.clock.seconds())
        for _ in range(60):
            self.tree_clock.advance(1)

    def remove_folder(self, name: str) -> None:
        """Remove a partition's folder with all that is in it."""
        for each in self.files.list(f"/data/{name}"):
            self.files.remove(f"/data/{name}/{each}")
        self.files.remove_directory(f"/data/{name}")

    def reason(self, topic: str = "t", partition: int = 0) -> str:
        """Return the reason for which a partition is offline; fail if it is served."""
        log = self.log_of(topic, partition)
        self.assertIsNotNone(log.offline, "it is served")
        return str(log.offline)

    def repair(self, partition: int = 0, position: int = -1, dry: bool = False, accept: bool = False) -> RepairResponse:
        """Ask for a repair of topic "t"."""
        answer = self.ask(self.connect(), Repair("t", partition, dry, False, position, accept))
        assert isinstance(answer, RepairResponse)
        return answer

    def accept(self, partition: int = 0) -> int:
        """Look at a loss and accept it; return the position at which the log begins."""
        position = self.repair(partition, dry=True).end
        answer = self.repair(partition, position, accept=True)
        self.assertEqual((answer.error, answer.state), (0, SERVED_AGAIN), answer.text)
        return position
