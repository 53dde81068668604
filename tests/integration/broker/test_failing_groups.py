"""A real broker whose partitions share syncs of a file system, on a disk that fails: what is acknowledged is kept.

Mounting needs root; elsewhere these tests are skipped.
"""

from __future__ import annotations

import os

from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.create_delete_topic import CreateTopic
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.integration.broker.mounts import Journal, enlarge, mount_failing, mount_image, mount_small, unmount
from tests.integration.broker.test_disks import OFFLINE, DiskTestCase

#: Partitions of the topic: enough for several groups' worth of sets in one request.
PARTITIONS = 40
#: Bytes of a message.
SIZE = 20_000
#: Bytes of the disk while it is sound.
ROOM = 64 << 20


class FailingGroupTests(DiskTestCase):
    """The whole data directory on a disk whose writes fail once it is full, below a file system that sees room."""

    def start_on(self, journal: Journal) -> None:
        """Mount the disk, start the broker, and create a topic that takes sets."""
        self.below = self.base / "below"
        mount_small(self.below, ROOM, self.addCleanup)
        self.image = self.below / "image"
        mount_failing(self.data, self.image, self.addCleanup, journal=journal)
        self.kept = {number: {} for number in range(PARTITIONS)}
        self.peer = self.start("--set", "flush.threads=1")
        self.assertEqual(self.peer.ask(CreateTopic("t", PARTITIONS, {})).error, 0)
        self.assertEqual(self.produce_all(), [0] * PARTITIONS)

    def leave_room(self, count: int) -> None:
        """Let the disk take ``count`` bytes more."""
        os.sync()
        enlarge(self.below, os.stat(self.image).st_blocks * 512 + count)

    def produce_all(self) -> list[int]:
        """Produce a set for each partition in one request, acknowledged when flushed; return the errors."""
        encoded = [MessageSet([Message(b"%d " % number + os.urandom(SIZE))]).encode() for number in range(PARTITIONS)]
        parts = tuple(ProducePart("t", number, 0, True, each) for number, each in enumerate(encoded))
        results = self.peer.ask(ProduceAck(-1, 30_000, parts)).parts
        for each, message_set in zip(results, encoded, strict=True):
            if not each.error:
                self.kept[each.partition][each.first_id] = message_set
        return [each.error for each in results]

    def check_after_crash(self) -> None:
        """Kill the broker, forget all that is not on the disk, which is mended, and find each acknowledged set."""
        self.peer.close()
        self.broker.kill()
        unmount(self.data)
        mount_image(self.data, self.image)
        self.broker.start()
        self.peer = self.connect()
        for number in range(PARTITIONS):
            self.all_there(self.peer, number)
        self.assertEqual(self.produce_all(), [0] * PARTITIONS)

    def test_what_a_failing_disk_has_not_is_not_acknowledged(self) -> None:
        """Only the partitions whose own bytes failed go offline; the others take sets once there is room."""
        self.start_on(Journal.SOUND)
        self.leave_room(PARTITIONS * SIZE * 3 // 4)
        errors = self.produce_all()
        self.assertEqual(set(errors), {0, OFFLINE})
        enlarge(self.below, ROOM)
        self.assertEqual(self.produce_all(), errors)
        offline = self.health()[1]["offline"]
        self.assertEqual(set(offline), {f"t-{number}" for number, error in enumerate(errors) if error})
        for reason in offline.values():
            self.assertIn("could not be flushed: [Errno", reason)
        self.check_after_crash()

    def test_nothing_is_acknowledged_on_a_file_system_that_has_stopped(self) -> None:
        """A sync of it all may succeed there and do nothing; the one of a partition fails."""
        self.start_on(Journal.FAILING)
        self.leave_room(0)
        self.assertIn(OFFLINE, self.produce_all())
        enlarge(self.below, ROOM)
        self.assertEqual(self.produce_all(), [OFFLINE] * PARTITIONS)
        self.check_after_crash()

    def test_an_error_of_another_file_takes_nothing_offline(self) -> None:
        """A sync of the file system reports it, and each partition is asked for its own errors then."""
        self.start_on(Journal.SOUND)
        self.leave_room(0)
        with open(self.data / "of-another-program", "wb", buffering=0) as file:
            file.write(os.urandom(ROOM // 16))
            with self.assertRaises(OSError):
                os.fdatasync(file.fileno())
        enlarge(self.below, ROOM)
        for _ in range(2):
            self.assertEqual(self.produce_all(), [0] * PARTITIONS)
        self.assertEqual(self.health()[1]["status"], "ok")
        self.check_after_crash()
