"""Tests of logd.log.store.log_store, meta and topics_file: the data directory as a whole."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import DataDirectoryError, PartitionOffline, StorageFull, UnknownError
from logd.log.disk.local_files import LocalFiles
from logd.log.store.log_store import LogStore
from logd.log.store.topics_file import TopicsFile
from logd.testing.memory.disk import PowerLoss
from logd.testing.memory.files import MemoryFiles
from logd.topic import TopicEntry
from tests.log.entries import plain
from tests.log.rig import ROOT, Listener, Rig
from tests.log.threads import Threads

ENTRY = plain(b"eleven more")


def store(files: Any, **options: Any) -> LogStore:
    """Return a store over ``files``."""
    return LogStore(options.pop("path", ROOT), files, Clock(), Threads(), LogSettings(), **options)


class DirectoryTests(SynchronousTestCase):
    """The identity of the directory."""

    def test_a_directory_keeps_its_identity(self) -> None:
        """A new directory gets the id that was asked for, 0 by default, and an instance of its own."""
        for asked, given in ((None, 0), (7, 7)):
            files = MemoryFiles()
            first = store(files, broker_id=asked)
            first.open()
            self.assertEqual(first.broker_id, given)
            first.close()
            second = store(files)
            second.open()
            self.assertEqual((second.broker_id, second.instance), (given, first.instance))

    def test_another_brokers_directory_is_refused(self) -> None:
        """The text says with which id to start."""
        files = MemoryFiles()
        first = store(files, broker_id=1)
        first.open()
        first.close()
        with self.assertRaisesRegex(DataDirectoryError, "belongs to broker 1, not 2: start with --id 1"):
            store(files, broker_id=2).open()
        store(files, broker_id=1).open()

    def test_a_directory_in_use_is_refused(self) -> None:
        """The store that has it goes on."""
        files = MemoryFiles()
        first = store(files)
        first.open()
        with self.assertRaisesRegex(DataDirectoryError, "/data is in use by another process"):
            store(files).open()
        first.create("t", 0).append([ENTRY], 1, -1)

    def test_a_later_format_is_refused(self) -> None:
        """An older release would misread it."""
        files = MemoryFiles()
        store(files).open()
        files.restart(False)
        data = files._inode("/data/meta").data
        data[:] = data.replace(b'"format": 1', b'"format": 3').replace(b'"check"', b'"other"')
        with self.assertRaisesRegex(DataDirectoryError, "/data/meta: it says format 3"):
            store(files).open()

    def test_a_damaged_meta_is_mended_by_its_copy(self) -> None:
        """The copy is mended by it as well."""
        files = MemoryFiles()
        first = store(files)
        first.open()
        whole = bytes(files._inode("/data/meta").data)
        self.assertEqual(bytes(files._inode("/data/meta.copy").data), whole)
        files.make_directory("/data/t-0")
        for name in ("meta", "meta.copy"):
            for position in range(len(whole)):
                files.restart(False)
                files._inode(f"/data/{name}").data[position] ^= 1
                again = store(files)
                again.open()
                self.assertEqual((again.instance, again.broker_id), (first.instance, first.broker_id), (name, position))
        for rest in (b"", b'{"format": 1, "bro', bytes(50), b"[]\n"):
            files.restart(False)
            files._inode("/data/meta").data[:] = rest
            store(files).open()
            self.assertEqual(bytes(files._inode("/data/meta").data), whole)

    def test_an_older_meta_is_believed_once(self) -> None:
        """A meta without a checksum gets a copy with one, which is believed from then on."""
        files = MemoryFiles()
        first = store(files)
        first.open()
        old = b'{"format": 1, "broker_id": 0, "instance": "' + first.instance.encode() + b'"}\n'
        files.restart(False)
        files._inode("/data/meta").data[:] = old
        files.remove("/data/meta.copy")
        for instance in (first.instance.encode(), b"another"):
            files._inode("/data/meta").data[:] = old.replace(first.instance.encode(), instance)
            again = store(files)
            again.open()
            self.assertEqual(again.instance, first.instance)
            files.restart(False)

    def test_an_identity_is_never_guessed(self) -> None:
        """A directory without any data gets a new one."""
        for rest in (b"", b'{"format": 1, "bro', bytes(50)):
            files = MemoryFiles()
            store(files).open()
            files.restart(False)
            files.remove("/data/meta.copy")
            files._inode("/data/meta").data[:] = rest
            store(files).open()
            files.restart(False)
            files.remove("/data/meta.copy")
            files._inode("/data/meta").data[:] = rest
            files.make_directory("/data/t-0")
            with self.assertRaisesRegex(DataDirectoryError, "/data/meta is damaged .*not guessed.*/brokers/stored"):
                store(files).open()

    def test_somebody_elses_file_is_not_overwritten(self) -> None:
        """A directory with other files in it may have a ``meta`` of another program."""
        for content in (b"[]\n", b'{"name": "notes"}\n', b"title: notes\n", b'{"format": 7, ' + bytes(500)):
            files = MemoryFiles()
            files.make_directory("/data")
            files.open("/data/meta", create=True).append([content])
            with self.assertRaisesRegex(DataDirectoryError, "/data/meta is no file of logd.*a directory of its own"):
                store(files).open()
            self.assertEqual((bytes(files._inode("/data/meta").data), files.list("/data")), (content, ["meta"]))

    def test_an_unusable_directory_is_named(self) -> None:
        """Nothing stays open or locked, so the next try can succeed."""
        for call in ("make_directory", "lock", "list", "sync_directory"):
            files = MemoryFiles()
            files.errors[call] = [PermissionError(errno.EACCES, "Permission denied")]
            with self.assertRaisesRegex(DataDirectoryError, "/data cannot be .*Permission denied"):
                store(files).open()
            self.assertEqual(files.open_handles, 0)
            store(files).open()


class PartitionsTests(SynchronousTestCase):
    """The partitions of the store."""

    def test_a_partition_is_made_once(self) -> None:
        """The partition is found by its name, and is there after a restart."""
        rig = Rig()
        log = rig.store.create("a-b", 3)
        self.assertIs(rig.store.create("a-b", 3), log)
        self.assertIs(rig.store.log("a-b", 3), log)
        self.assertIsNone(rig.store.log("a-b", 0))
        log.append([ENTRY], 1, -1)
        rig.threads.settle()
        rig.stop()
        rig.open()
        self.assertEqual([(each.topic, each.partition, each.end) for each in rig.store.logs()], [("a-b", 3, 20)])

    def test_a_full_disk_makes_no_partition(self) -> None:
        """The next attempt goes on with anything that was made."""
        rig = Rig()
        rig.files.errors["open"] = [OSError(errno.ENOSPC, "no space")]
        with self.assertRaisesRegex(StorageFull, "no space"):
            rig.store.create("t", 0)
        rig.filled(ENTRY)
        rig.kill(power_lost=True)
        rig.open()
        self.assertEqual(rig.content(rig.log()), ENTRY)

    def test_a_topics_own_settings_hold(self) -> None:
        """The settings hold from the start of the store, and after a change."""
        rig = Rig()
        own = LogSettings(segment_bytes=10)
        log = rig.store.create("t", 0, own)
        rig.filled(ENTRY, ENTRY)
        self.assertEqual(len(log.segments()), 2)
        rig.stop()
        rig.store = store(rig.files)
        rig.store.open(lambda topic: own if topic == "t" else None)
        log = rig.log()
        log.append([ENTRY], 1, -1)
        self.assertEqual(len(log.segments()), 3)
        rig.store.configure("t", LogSettings())
        log.append([ENTRY], 1, -1)
        self.assertEqual(len(log.segments()), 3)

    def test_a_deleted_topic_is_gone_at_once(self) -> None:
        """Waiters fail and files go on a thread; its name is free after that."""
        rig = Rig()
        log = rig.filled(ENTRY)
        rig.log("t-0").append([ENTRY], 1, -1)  # its folder is called t-0-0
        log.append([ENTRY], 1, -1)
        listener = Listener()
        log.wait_visible(40, listener)
        done: list[BaseException | None] = []
        rig.store.delete("t", done.append)
        self.assertIsNone(rig.store.log("t", 0))
        self.assertIsInstance(listener.calls[0], PartitionOffline)
        with self.assertRaisesRegex(UnknownError, "being deleted"):
            rig.store.create("t", 0)
        rig.threads.settle()
        self.assertEqual((done, rig.files.list(ROOT)), ([None], ["meta", "meta.copy", "t-0-0"]))
        self.assertEqual(rig.store.create("t", 0).append([ENTRY], 1, -1), 0)
        rig.threads.settle()
        self.assertEqual(rig.log("t-0").visible_end, 20)

    def test_a_topic_made_again_shows_nothing_of_the_former(self) -> None:
        """Its first segment has the name of the former one, which a reader had left open."""
        rig = Rig(LogSettings(segment_bytes=10))
        secret = plain(b"all secrets")
        self.assertEqual(rig.content(rig.filled(secret, secret)), secret * 2)
        rig.store.delete("t", lambda error: None)
        self.assertEqual(rig.files.open_handles, 1)  # the lock; a deleted file that is open keeps its room
        rig.threads.settle()
        self.assertEqual(rig.content(rig.filled(ENTRY, ENTRY)), ENTRY * 2)

    def test_a_replica_that_begins_again_shows_its_new_files(self) -> None:
        """It begins where one of its former segments did."""
        rig = Rig(LogSettings(segment_bytes=10))
        log = rig.filled(*[plain(b"is no longer")] * 3)
        rig.content(log)
        done: list[BaseException | None] = []
        rig.store.restart(log, log.segments()[1][0], done.append)
        rig.threads.settle()
        self.assertEqual((done, rig.content(rig.filled(ENTRY, ENTRY))), ([None], ENTRY * 2))

    def test_upkeep_never_reaches_a_new_partition(self) -> None:
        """The upkeep was begun for the deleted partition of the same name."""
        rig = Rig()
        log = rig.filled(ENTRY, ENTRY)
        rig.store.write_checkpoints()
        rig.store.delete("t", lambda error: None)
        self.assertEqual(len(rig.threads.works), 1)  # the upkeep; the deletion waits for it
        rig.threads.settle()
        self.assertIsNot(rig.log(), log)
        self.assertFalse(rig.files.exists(f"{ROOT}/t-0/checkpoint"))

    def test_an_interrupted_deletion_is_all_or_nothing(self) -> None:
        """A killed broker left a part, and the power goes during the next start."""
        for power in range(1, 12):
            rig = Rig(LogSettings(segment_bytes=10))
            rig.filled(*[ENTRY] * 3)
            rig.files.skipped.add("directory in store.log_store._remove_partitions")
            rig.store.delete("t", lambda error: None)
            rig.files.errors["remove"] = [OSError(errno.EIO, "killed here")]
            rig.threads.settle()
            rig.kill()
            rig.files.random.seed(power)
            rig.files.power = power
            with contextlib.suppress(PowerLoss):
                rig.open()
            rig.kill(power_lost=True)
            rig.open()
            self.assertIn(rig.content(rig.log()), (b"", ENTRY * 3))
            self.assertNotIn("lost", " ".join(rig.reports))

    def test_many_segments_keep_few_files_open(self) -> None:
        """Reading all of them must not use up the descriptors."""
        rig = Rig(LogSettings(segment_bytes=1), limits={"open_files_limit": 8})
        log = rig.filled(*[ENTRY] * 1000)
        self.assertEqual(rig.content(log), ENTRY * 1000)
        self.assertLessEqual(rig.files.open_handles, 8 + 2)
        rig.stop()
        self.assertEqual(rig.files.open_handles, 0)
        rig.open()
        self.assertEqual(rig.files.open_handles, 1)  # the lock
        self.assertEqual(rig.log().end, 20_000)


class TopicsFileTests(SynchronousTestCase):
    """The file topics.json."""

    def test_topics_are_read_as_written(self) -> None:
        """No file means no topics."""
        files = MemoryFiles()
        files.make_directory(ROOT)
        topics = TopicsFile(files, ROOT)
        self.assertEqual(topics.read(), {})
        entry = TopicEntry("uuid", {0: (0,), 10: (1, 2)}, {"retention.ms": 5})
        topics.write({"b": entry, "a": entry})
        self.assertEqual(topics.read(), {"a": entry, "b": entry})
        topics.write({})
        self.assertEqual(topics.read(), {})

    def test_a_damaged_file_is_reported(self) -> None:
        """A damaged file must not read as one without topics."""
        for content in (b"", b"[]", b'{"a": {}, "a": {}}', b"[" * 100_000, b"\xff"):
            files = MemoryFiles()
            files.make_directory(ROOT)
            files.open(f"{ROOT}/topics.json", create=True).append([content])
            topics = TopicsFile(files, ROOT)
            self.assertEqual((topics.read(), topics.damage != ""), ({}, True))

    def test_a_flipped_byte_costs_two_records_at_most(self) -> None:
        """A sound record is never turned into another one."""
        files = MemoryFiles()
        files.make_directory(ROOT)
        whole = {name: TopicEntry(f"uuid-{name}", {0: (0,)}, {"retention.ms": 5}) for name in ("a", "b", "c")}
        TopicsFile(files, ROOT).write(whole)
        data = files._inode(f"{ROOT}/topics.json").data
        for position in range(len(data)):
            for bit in (1, 0x20):
                data[position] ^= bit
                topics = TopicsFile(files, ROOT)
                found = topics.read()
                self.assertEqual({name: whole[name] for name in found}, found, position)
                self.assertGreaterEqual(len(found), 1, position)
                self.assertTrue(len(found) == 3 or topics.damage, position)
                data[position] ^= bit

    def test_an_unusable_entry_is_kept(self) -> None:
        """The entry is left out of the topics with its reason, and survives every write."""
        files = MemoryFiles()
        files.make_directory(ROOT)
        entry = TopicEntry("u", {0: (0,)})
        bad = {"my topic": entry.to_json(), "a": 1, "b": {"uuid": "../b", "partitions": {}}}
        files.open(f"{ROOT}/topics.json", create=True).append([json.dumps({"t": entry.to_json(), **bad}).encode()])
        topics = TopicsFile(files, ROOT)
        self.assertEqual((topics.read(), sorted(topics.problems)), ({"t": entry}, ["a", "b", "my topic"]))
        topics.write({"t": entry, "b": entry})
        again = TopicsFile(files, ROOT)
        self.assertEqual((again.read(), sorted(again.problems)), ({"t": entry, "b": entry}, ["a", "my topic"]))


class LocalStoreTests(SynchronousTestCase):
    """A store on a real disk."""

    def run_works(self, threads: Threads, until: Callable[[], bool]) -> None:
        """Do all work, and check that it had its effect."""
        threads.settle()
        self.assertTrue(until())

    def test_a_store_works_on_a_real_disk(self) -> None:
        """The store appends over many segments, stops, loses its process and a torn tail, and starts again."""
        path = os.path.abspath(self.mktemp())
        threads = Threads()
        clock = Clock()
        settings = LogSettings(segment_bytes=500, index_bytes=50)

        def opened() -> LogStore:
            made = LogStore(path + "/deep/data", LocalFiles(), clock, threads, settings, open_files_limit=3)
            made.open()
            return made

        first = opened()
        log = first.create("t", 0)
        entries = [plain(os.urandom(number % 60)) for number in range(300)]
        for at in range(0, 300, 3):
            log.append(entries[at : at + 3], 3, -1)
        self.run_works(threads, lambda: log.visible_end == log.end)
        with self.assertRaisesRegex(DataDirectoryError, "in use"):
            opened()
        first.close()
        second = opened()
        log = second.create("t", 0)
        log.append([ENTRY], 1, -1)
        self.run_works(threads, lambda: log.visible_end == log.end)
        segment = path + f"/deep/data/t-0/{log.segments()[-1][0]:020}.log"
        second._directory.unlock()  # as if the process had died
        with open(segment, "ab") as file:
            file.write(b"\x00\x00\x00\x20torn")
        third = opened()
        log = third.create("t", 0)
        content = b""
        while (found := log.read(log.start + len(content), 1 << 20)) is not None:
            content += found.file.read_at(found.file_position, found.count)
            found.close()
        self.assertEqual(content, b"".join(entries) + ENTRY)
        self.assertEqual(log.find_boundary(log.end - 1), log.end - 20)
        done: list[BaseException | None] = []
        third.delete("t", done.append)
        self.run_works(threads, lambda: done == [None])
        self.assertEqual(sorted(os.listdir(path + "/deep/data")), ["meta", "meta.copy"])
        third.close()
