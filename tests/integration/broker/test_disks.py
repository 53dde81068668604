"""Real brokers on disks that are full or fail: what producers and consumers are told, and what is kept.

Mounting needs root; elsewhere those tests are skipped, and the one with a limit on the size of files remains.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.log.disk.local_files import LocalFiles
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.create_delete_topic import CreateTopic
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.broker.mounts import enlarge, mount_failing, mount_small, see_to
from tests.integration.broker.segments import check_partition
from tests.integration.peers import PATIENCE, POLL_SECONDS, Peer

UNKNOWN, OFFLINE, FULL = -1, 106, 110


class DiskTestCase(SynchronousTestCase):
    """A broker over a data directory that the test has made ready."""

    def setUp(self) -> None:
        """Make a folder for the broker; no set is acknowledged yet."""
        self.base = Path(os.path.abspath(self.mktemp()))
        self.base.mkdir()
        self.data = self.base / "data"
        #: By partition: id -> set.
        self.kept: dict[int, dict[int, bytes]] = {0: {}, 1: {}}
        self.serial = 0

    def start(self, *options: str, wrap: tuple[str, ...] = ()) -> Peer:
        """Start the broker, also again, and connect."""
        self.http = free_port()
        self.broker = BrokerProcess(
            str(self.data),
            ("--http", f"tcp:{self.http}:interface=127.0.0.1", *options),
            log_path=str(self.base / "broker.log"),
            wrap=wrap,
        )
        self.broker.start()
        self.addCleanup(self.broker.kill)
        return self.connect()

    def connect(self) -> Peer:
        """Return another connection."""
        peer = Peer(self.broker.port)
        self.addCleanup(peer.close)
        return peer

    def produce(self, peer: Peer, partition: int = 0, size: int = 50_000) -> int:
        """Produce one set, acknowledged when flushed, and remember it; return the error, 0 for none."""
        self.serial += 1
        encoded = MessageSet([Message(b"%d " % self.serial + os.urandom(size))]).encode()
        (stored,) = peer.ask(ProduceAck(-1, 30_000, (ProducePart("t", partition, 0, True, encoded),))).parts
        if not stored.error:
            self.kept[partition][stored.first_id] = encoded
        return int(stored.error)

    def fetch(self, peer: Peer, partition: int, offset: int) -> tuple[int, bytes]:
        """Fetch from one partition; return the error and the bytes."""
        part = FetchPart("t", partition, 0, offset, 1 << 20, True)
        (found,) = peer.ask(FetchWait(0, 1, 1 << 20, (part,))).parts
        return found.error, found.message_set

    def all_there(self, peer: Peer, partition: int = 0) -> None:
        """Check that every acknowledged set is delivered."""
        for first, encoded in self.kept[partition].items():
            error, found = self.fetch(peer, partition, first)
            self.assertEqual((error, found[: len(encoded)] == encoded), (0, True), first)

    def health(self) -> tuple[int, dict[str, Any]]:
        """Return the status and the content of /health."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/health", timeout=PATIENCE) as page:
                return page.status, json.load(page)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def is_well(self, peer: Peer, *partitions: int) -> None:
        """Check that /health is ok, every set is delivered, a clean stop works, and the files are sound."""
        self.assertEqual((self.health()[0], self.health()[1]["status"]), (200, "ok"))
        for partition in partitions:
            self.all_there(peer, partition)
        peer.close()
        self.assertEqual(self.broker.stop(), 0)
        for partition in partitions:
            check_partition(self.data / f"t-{partition}")


class FullTests(DiskTestCase):
    """Disks without room, and files that may not grow."""

    def fill(self, peer: Peer) -> int:
        """Produce until the disk is full; return the number of sets that were kept."""
        before = len(self.kept[0])
        while (error := self.produce(peer)) == 0:
            pass
        self.assertEqual(error, FULL)
        return len(self.kept[0]) - before

    def segment_starts(self) -> list[int]:
        """Return the first positions of the segments of t-0, by their files."""
        return sorted(int(path.stem) for path in (self.data / "t-0").glob("*.log"))

    def test_a_full_disk_refuses_producers_and_serves_consumers(self) -> None:
        """/health shows it; a killed broker starts on the full disk; with room, producers go on without a restart."""
        mount_small(self.data, 3 << 20, self.addCleanup)
        (self.data / "lost+found").mkdir()
        ballast = self.data / "ballast"
        ballast.write_bytes(bytes(1 << 20))
        peer = self.start("--set", "segment.bytes=200000")
        self.assertGreater(self.fill(peer), 10)
        self.all_there(self.connect())
        status, page = self.health()
        self.assertEqual((status, page["status"], page["full"]), (503, "full", ["t-0"]))
        # Small sets fill the last page; then there is no room for another one, nor for a topic.
        while self.produce(peer, size=10) == 0:
            pass
        self.assertIn(peer.ask(CreateTopic("new", 1, {})).error, (FULL, 0))
        # Killed, and started on the full disk: it serves.
        self.broker.kill()
        self.broker.start()
        peer = self.connect()
        self.all_there(peer)
        self.assertEqual(self.produce(peer), FULL)
        ballast.unlink()
        self.assertGreater(self.fill(peer), 10)
        self.all_there(peer)
        self.broker.kill()
        self.broker.start()
        peer = self.connect()
        self.all_there(peer)
        self.assertEqual(self.produce(peer), FULL)
        self.broker.kill()
        check_partition(self.data / "t-0")

    def test_retention_makes_room_on_a_full_disk(self) -> None:
        """The disk is full to the last byte; removing segments must need no room itself."""
        mount_small(self.data, 2 << 20, self.addCleanup)
        peer = self.start(
            "--set", "segment.bytes=200000", "--set", "retention.bytes=3000000", "--set", "retention.check.ms=50"
        )
        self.fill(peer)
        with contextlib.suppress(OSError), open(self.data / "ballast", "wb", buffering=0) as ballast:
            while ballast.write(bytes(4096)):
                pass
        self.broker.kill()
        peer = self.start(
            "--set", "segment.bytes=200000", "--set", "retention.bytes=800000", "--set", "retention.check.ms=50"
        )
        deadline = time.monotonic() + PATIENCE
        for _ in range(100):
            while self.produce(peer):
                self.assertLess(time.monotonic(), deadline, "no room is made")
        end = max(first + len(encoded) for first, encoded in self.kept[0].items())
        while end - (starts := self.segment_starts())[1] >= 800_000:  # the next look of retention will remove one
            self.assertLess(time.monotonic(), deadline, "retention does not keep pace")
            time.sleep(POLL_SECONDS)
        self.kept[0] = {first: encoded for first, encoded in self.kept[0].items() if first >= starts[0]}
        self.is_well(peer, 0)

    def test_a_file_at_the_process_limit_counts_as_full(self) -> None:
        """A segment that `ulimit -f` stops is refused like a full disk, and the next segment takes the sets."""
        peer = self.start(wrap=("bash", "-c", 'ulimit -f 300; exec "$@"', "limited"))
        errors = [self.produce(peer) for _ in range(30)]
        self.assertEqual(set(errors), {0, FULL})
        self.assertLess(errors.count(FULL), 8)
        self.assertGreater(len(list((self.data / "t-0").glob("*.log"))), 3)
        self.is_well(peer, 0)


class FailingTests(DiskTestCase):
    """One partition on a disk of its own that fails."""

    def start_failing(self, room: int) -> Peer:
        """Partition t-0 on a disk that takes ``room`` bytes, t-1 on a good one."""
        with BrokerProcess(str(self.data), log_path=str(self.base / "first.log")) as broker, Peer(broker.port) as peer:
            self.assertEqual(peer.ask(CreateTopic("t", 2, {})).error, 0)
        mount_small(self.base / "below", room, self.addCleanup)
        self.image = self.base / "below" / "image"
        folder, kept = self.data / "t-0", self.base / "kept"
        shutil.copytree(folder, kept)
        mount_failing(folder, self.image, self.addCleanup)
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        return self.start("--set", "segment.bytes=300000")

    def test_a_failed_sync_takes_one_partition_offline(self) -> None:
        """Nothing may be acknowledged after a failed fdatasync; the other partition goes on, a restart serves both."""
        peer = self.start_failing(12 << 20)
        while (error := self.produce(peer, 0, 400_000)) == 0:
            self.assertLess(len(self.kept[0]), 200)
        self.assertEqual(error, OFFLINE)
        self.assertEqual(self.produce(peer, 0), OFFLINE)
        self.assertEqual(self.produce(peer, 1), 0)
        self.assertEqual(self.fetch(peer, 0, 0)[0], OFFLINE)
        self.assertEqual(peer.ask(Fetch("t", 0, 0, 100)).error, UNKNOWN)
        (topic,) = peer.ask(Metadata(("t",), False)).topics
        self.assertEqual([partition.error for partition in topic.partitions], [OFFLINE, 0])
        status, page = self.health()
        self.assertEqual((status, page["status"], list(page["offline"])), (503, "degraded", ["t-0"]))
        for word in (str(self.data / "t-0"), "could not be flushed", "restart the broker"):
            self.assertIn(word, page["offline"]["t-0"])
        peer.close()
        enlarge(self.base / "below", 64 << 20)
        self.broker.kill()
        see_to(self.data / "t-0")
        self.broker.start()
        peer = self.connect()
        self.assertEqual([self.produce(peer, 0), self.produce(peer, 1)], [0, 0])
        self.is_well(peer, 0, 1)

    def test_a_read_error_costs_one_connection_at_most_once(self) -> None:
        """A sent answer cannot be taken back; after that the place is known, and its partition answers errors."""
        peer = self.start_failing(64 << 20)
        for _ in range(20):
            self.assertEqual(self.produce(peer, 0, 100_000), 0)
            self.assertEqual(self.produce(peer, 1, 1000), 0)
        file = LocalFiles().open_for_reading(str(self.data / "t-0" / f"{0:020}.log"))
        self.addCleanup(file.close)
        file.sync_data()
        # Cut first: to ask whether a page is cached has the kernel read it ahead, which must fail by then.
        os.truncate(self.image, 1 << 12)
        for _ in range(500):
            file.drop_cache()
            if not any(file.is_cached(at, 1) for at in range(0, file.size(), 4096)):
                break
            time.sleep(POLL_SECONDS)  # pages that were just used stay for a moment
        else:
            raise SkipTest("the page cache does not let go")
        # The kernel may still have the file's beginning somewhere, so the place that fails has to be looked for.
        offset = losses = error = 0
        while not error:
            parts = (FetchPart("t", 0, 0, offset, 1 << 18, True), FetchPart("t", 1, 0, 0, 1 << 18, True))
            try:
                bad, good = peer.ask(FetchWait(0, 1, 1 << 20, parts)).parts
            except ConnectionError:
                losses += 1
                self.assertLessEqual(losses, 5, "a place that is known costs a connection again")
                peer = self.connect()
                continue
            self.assertEqual((good.error, len(good.message_set)), (0, sum(map(len, self.kept[1].values()))))
            error = bad.error
            self.assertTrue(error or bad.message_set, "all of it can be read")
            offset += len(bad.message_set)
        self.assertEqual(error, UNKNOWN)
        self.assertGreater(losses, 0)
        self.assertIn(f"t-0 cannot be read at position {offset}:", Path(self.broker.log_path).read_text())
        peer.close()
        self.broker.kill()
