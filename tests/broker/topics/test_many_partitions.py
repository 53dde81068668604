"""Tests of topics with many partitions: they are made in slices, and other work goes on in between."""

from __future__ import annotations

from logd.broker.disk_slices import SLICE_STEPS
from logd.broker.topics.stored_topics import LOGS_AT_ONCE
from logd.log.store.log_store import LogStore
from logd.protocol.requests.create_delete_topic import CreateTopic, DeleteTopic, DeleteTopicResponse
from logd.protocol.requests.legacy_requests import Produce
from logd.testing.memory.files import MemoryFiles
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

PARTITIONS = 1000


class CreationTests(BrokerTestCase):
    """CreateTopic of a thousand partitions."""

    def setUp(self) -> None:
        """Connect a client, and count the folders and logs that are made in one go."""
        super().setUp()
        self.peer = self.connect()
        self.folders = self.logs = 0
        make_directory, create = MemoryFiles.make_directory, LogStore.create

        def make(files: MemoryFiles, path: str) -> None:
            self.folders += 1
            make_directory(files, path)

        def log(*arguments: object) -> object:
            self.logs += 1
            return create(*arguments)  # type: ignore[arg-type]  # passed on as they came

        self.patch(MemoryFiles, "make_directory", make)
        self.patch(LogStore, "create", log)

    def test_partitions_are_made_in_slices(self) -> None:
        """Threads make the folders and the reactor the logs, some at a time."""
        self.peer.send(CreateTopic("t", PARTITIONS, {}))
        most_folders = most_logs = 0
        for _ in range(10_000):
            self.let_tree_answer()
            self.assertEqual(self.folders, 0, "a folder was made on the reactor's thread")
            most_logs, self.logs = max(most_logs, self.logs), 0
            if not self.reads.works:
                break
            self.reads.work()
            most_folders, self.folders = max(most_folders, self.folders), 0
            self.reads.deliver()
        self.settle()
        (answer,) = self.peer.answers()
        self.assertEqual((answer.error, len(self.store.logs_of("t"))), (0, PARTITIONS))
        self.assertEqual((most_folders, most_logs), (SLICE_STEPS, LOGS_AT_ONCE))

    def test_an_unused_log_has_no_open_file(self) -> None:
        """A thousand partitions would use up the descriptors."""
        before = self.files.open_handles
        self.create("t", PARTITIONS)
        self.assertEqual(self.files.open_handles, before)

    def test_a_full_disk_leaves_no_half_topic(self) -> None:
        """No folder of the thousand stays; the next creation succeeds."""
        self.files.errors["make_directory /data/t-600"] = [OSError(28, "No space left on device")]
        answer = self.ask(self.peer, CreateTopic("t", PARTITIONS, {}))
        self.assertEqual((answer.error, self.logs), (110, 0))
        self.assertEqual([name for name in self.files.list("/data") if name.startswith("t-")], [])
        self.assertEqual(self.ask(self.peer, CreateTopic("t", PARTITIONS, {})).error, 0)

    def test_a_produce_waits_for_the_whole_topic(self) -> None:
        """The partition that is produced to is the last one to be made."""
        self.peer.send(CreateTopic("t", PARTITIONS, {}))
        self.let_tree_answer()
        producer = self.connect()
        producer.send(Produce("t", PARTITIONS - 1, plain(b"waited")))
        self.settle()
        self.assertEqual(self.content("t", PARTITIONS - 1), plain(b"waited"))
        self.assertEqual([answer.error for answer in self.peer.answers()], [0])
        self.assertEqual(self.ask(self.peer, DeleteTopic("t")), DeleteTopicResponse(0))
        self.assertEqual([name for name in self.files.list("/data") if name.startswith("t-")], [])

    def test_a_deletion_warns_of_nothing(self) -> None:
        """A line for each partition would hide other warnings."""
        self.create("t", 10)
        self.assertEqual(self.ask(self.peer, DeleteTopic("t")), DeleteTopicResponse(0))
        self.assertEqual(self.events.warnings("goes offline"), [])
