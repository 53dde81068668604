"""Tests of topics with many partitions: they are made on threads, in slices, with the others' turns in between."""

from __future__ import annotations

from logd.broker.disk_slices import SLICE_STEPS
from logd.broker.topics.stored_topics import LOGS_AT_ONCE
from logd.log.store.log_store import LogStore
from logd.protocol.requests.administration import CreateTopic, DeleteTopic, DeleteTopicResponse
from logd.protocol.requests.legacy_requests import Produce
from logd.testing.memory.files import MemoryFiles
from tests.broker.doubles import BrokerTestCase
from tests.log.entries import plain

PARTITIONS = 1000


class CreationTests(BrokerTestCase):
    """CreateTopic of a thousand partitions."""

    def setUp(self) -> None:
        """A client; count the folders, and the logs, that are made in one go."""
        super().setUp()
        self.peer = self.connect()
        self.folders = self.logs = 0
        make_directory, create = MemoryFiles.make_directory, LogStore.create

        def make(files: MemoryFiles, path: str) -> None:
            self.folders += 1
            make_directory(files, path)

        def log(*arguments: object) -> object:
            self.logs += 1
            return create(*arguments)  # type: ignore[arg-type]  # what it was given

        self.patch(MemoryFiles, "make_directory", make)
        self.patch(LogStore, "create", log)

    def test_in_slices(self) -> None:
        """The reactor makes no folder, a thread some, and then the reactor some logs at a time."""
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

    def test_no_more_open_files(self) -> None:
        """A log that nobody has used has no file open."""
        before = self.files.open_handles
        self.create("t", PARTITIONS)
        self.assertEqual(self.files.open_handles, before)

    def test_full_disk_in_the_middle(self) -> None:
        """Where a folder cannot be made no log appears, and no folder stays; later it goes well."""
        self.files.errors["make_directory /data/t-600"] = [OSError(28, "No space left on device")]
        answer = self.ask(self.peer, CreateTopic("t", PARTITIONS, {}))
        self.assertEqual((answer.error, self.logs), (110, 0))
        self.assertEqual([name for name in self.files.list("/data") if name.startswith("t-")], [])
        self.assertEqual(self.ask(self.peer, CreateTopic("t", PARTITIONS, {})).error, 0)

    def test_produced_to_meanwhile(self) -> None:
        """A produce that waits for the topic is appended once the whole topic is there."""
        self.peer.send(CreateTopic("t", PARTITIONS, {}))
        self.let_tree_answer()
        producer = self.connect()
        producer.send(Produce("t", PARTITIONS - 1, plain(b"waited")))
        self.settle()
        self.assertEqual(self.content("t", PARTITIONS - 1), plain(b"waited"))
        self.assertEqual([answer.error for answer in self.peer.answers()], [0])
        self.assertEqual(self.ask(self.peer, DeleteTopic("t")), DeleteTopicResponse(0))
        self.assertEqual([name for name in self.files.list("/data") if name.startswith("t-")], [])

    def test_deleted_quietly(self) -> None:
        """A topic that is deleted on purpose is no reason for a warning for each of its partitions."""
        self.create("t", 10)
        self.assertEqual(self.ask(self.peer, DeleteTopic("t")), DeleteTopicResponse(0))
        self.assertEqual(self.events.warnings("goes offline"), [])
