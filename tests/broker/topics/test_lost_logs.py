"""Tests of lost logs: what the coordination tree knows of and the disk has not is never served from the beginning."""

from __future__ import annotations

from logd.broker.topics.ends_schedule import LEAD_SECONDS, WRITE_SECONDS
from logd.coord import paths
from logd.coord.registries.stored_ends import StoredEnds
from logd.coord.registries.topics import encode_entry
from logd.log.disk.names import segment_name
from logd.log.recovery.beginning import JUMP
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.repair import LOST_LOG, OFFLINE, SERVED_AGAIN
from logd.topic import TopicEntry
from tests.broker.losing import HELLO, LostLogTestCase

OFFLINE_ERROR, OUT_OF_RANGE = 106, 1


class LossTests(LostLogTestCase):
    """Ways to lose a log."""

    def test_folder_missing(self) -> None:
        """A partition whose folder is gone is offline, with reason and remedy; the other one is served."""
        self.kill()
        self.remove_folder("t-0")
        self.open()
        reason = self.reason()
        for text in ("t-0", f"/brokers/stored/{self.uuid}/0", f"up to {2 * len(HELLO)}", "--accept-loss", "no log"):
            self.assertIn(text, reason)
        self.assertFalse(self.files.exists("/data/t-0"))
        peer = self.connect()
        self.assertEqual(self.produce(peer, "t", HELLO).error, OFFLINE_ERROR)
        (part,) = self.ask(peer, FetchWait(0, 1, 100, (FetchPart("t", 0, 0, 0, 100),))).parts
        self.assertEqual(part.error, OFFLINE_ERROR)
        (topic,) = self.ask(peer, Metadata(("t",))).topics
        self.assertEqual([each.error for each in topic.partitions], [OFFLINE_ERROR, 0])
        self.assertEqual(self.broker.health()["status"], "degraded")
        self.assertEqual(self.produce(peer, "t", HELLO, 1).error, 0)

    def test_end_zero(self) -> None:
        """So is one of which nothing was known to be stored: perhaps something was, just before."""
        self.kill()
        self.remove_folder("t-1")
        self.open()
        self.assertIn("up to 0 at least", self.reason("t", 1))

    def test_mount_missing(self) -> None:
        """So is one whose folder is empty, and nothing is written there."""
        self.kill()
        self.remove_folder("t-0")
        self.files.make_directory("/data/t-0")
        self.open()
        self.assertIn("no log", self.reason())
        self.assertEqual(self.files.list("/data/t-0"), [])

    def test_disk_replaced(self) -> None:
        """An empty data directory under the same id: all is offline, and the topic keeps its uuid."""
        self.kill()
        self.replace_disk()
        self.open()
        for partition in (0, 1):
            self.assertIn("is not the data directory of instance", self.reason("t", partition))
        self.assertEqual(self.entry("t").uuid, self.uuid)
        self.assertEqual(self.files.list("/data").count("t-0"), 0)
        # and after one more start
        self.kill()
        self.open()
        self.reason()
        self.reason("t", 1)

    def test_backup_restored(self) -> None:
        """Files that are older than the stored end: offline, until newer ones are back."""
        old = bytes(self.files._inode("/data/t-0/00000000000000000000.log").data)
        peer = self.connect()
        self.produce(peer, "t", HELLO)
        self.pass_time(WRITE_SECONDS)
        self.pass_time(WRITE_SECONDS)
        self.assertEqual(self.stored_ends().ends[0], 3 * len(HELLO))  # type: ignore[union-attr]
        self.kill()
        whole = bytes(self.files._inode("/data/t-0/00000000000000000000.log").data)
        self.write_log(old)
        self.open()
        self.assertIn(f"ends at {2 * len(HELLO)}", self.reason())
        # The files that are back are served by a repair that accepts nothing.
        self.assertEqual(self.repair().state, OFFLINE)
        self.write_log(whole)
        self.assertEqual(self.repair().state, SERVED_AGAIN)
        self.assertEqual(self.produce(self.connect(), "t", HELLO).first_id, 3 * len(HELLO))

    def write_log(self, data: bytes) -> None:
        """Have this, and nothing else, in the folder of the first partition."""
        for name in self.files.list("/data/t-0"):
            self.files.remove(f"/data/t-0/{name}")
        file = self.files.open("/data/t-0/00000000000000000000.log", create=True)
        file.append([data])
        file.sync_data()
        file.close()
        self.files.sync_directory("/data/t-0")

    def test_moved_without_its_files(self) -> None:
        """A partition that the tree gives to this broker, and that another one has stored, does not begin at 0 here."""
        entry = TopicEntry("moved", {0: (0,)})
        self.in_tree(paths.stored_ends("moved", 7), StoredEnds("seven", {0: 500}).encode())
        self.in_tree(paths.topic("m"), encode_entry(entry))
        reason = self.reason("m")
        self.assertIn("broker 7 stored it up to 500", reason)
        self.assertFalse(self.files.exists("/data/m-0"))

    def test_tree_away(self) -> None:
        """While the tree is away a log that is missing is not made; it is offline once the tree is there."""
        self.kill()
        self.remove_folder("t-0")
        self.joins = False
        self.open()
        self.broker.begin()  # as it does when the tree does not answer
        self.assertIsNone(self.store.log("t", 0))
        self.assertNotEqual(self.produce(self.connect(), "t", HELLO).error, 0)
        self.assertEqual(self.produce(self.connect(), "t", HELLO, 1).error, 0)
        self.join()
        self.reason()

    def test_node_that_cannot_be_read(self) -> None:
        """One bad node makes its topic unusable, with a log line that names it; mended, the topic is served."""
        good = self.stored_ends()
        assert good is not None
        self.create("u")
        self.in_tree(paths.stored_ends(self.uuid, 0), b"nonsense")
        self.kill()
        self.open()
        self.assertIn(f"/brokers/stored/{self.uuid}/0", self.reason())
        self.assertIsNone(self.log_of("u").offline)
        self.in_tree(paths.stored_ends(self.uuid, 0), good.encode())
        self.pass_time(5)
        self.assertIsNone(self.log_of("t").offline)


class NoLossTests(LostLogTestCase):
    """What is no loss."""

    def test_restart(self) -> None:
        """After a kill, or a clean stop, all is served, the empty partition too."""
        self.kill()
        self.open()
        self.assertEqual([self.log_of("t", number).offline for number in (0, 1)], [None, None])

    def test_upgrade(self) -> None:
        """Where the tree has no stored ends yet they are made of what is here."""
        before = self.stored_ends()
        for path in (paths.stored_ends(self.uuid, 0), paths.stored_topic(self.uuid)):
            self.access.client.delete(path)
        self.settle()
        self.assertIsNone(self.stored_ends())
        self.kill()
        self.open()
        self.assertEqual([self.log_of("t", number).offline for number in (0, 1)], [None, None])
        self.assertEqual(self.stored_ends(), before)

    def test_deleted(self) -> None:
        """A lost topic can be deleted, and created again; its stored ends are gone."""
        self.kill()
        self.remove_folder("t-0")
        self.open()
        self.reason()
        deleting = self.broker.administration.delete("t")
        self.settle()
        self.successResultOf(deleting)
        self.assertIsNone(self.stored_ends())
        self.create("t", 2)
        self.assertEqual([self.log_of("t", number).offline for number in (0, 1)], [None, None])

    def test_refused_before_it_is_named(self) -> None:
        """A new log takes messages once the tree has its name; those that come before wait, in order."""
        self.store.on_flushed = lambda log: None
        node = paths.stored_ends("new", 0)
        self.in_tree(paths.topic("n"), encode_entry(TopicEntry("new", {0: (0,)})))
        self.assertIsNotNone(self.stored_ends("new"), node)
        self.assertEqual(self.broker.growth.held, {})
        peer = self.connect()
        self.broker.growth.hold(self.log_of("n"))
        peer.send(ProduceAck(-1, 30_000, (ProducePart("n", 0, 0, False, HELLO),)))
        peer.send(ProduceAck(-1, 30_000, (ProducePart("n", -1, 0, False, HELLO + HELLO),)))
        self.settle()
        self.assertEqual(self.log_of("n").end, 0)
        self.assertEqual(self.produce(self.connect(), "t", HELLO).error, 0)
        self.broker.growth.let_go([self.log_of("n")])
        self.settle()
        firsts = [answer.parts[0].first_id for answer in peer.answers()]
        self.assertEqual(firsts, [0, len(HELLO)])


class DamagedRecordTests(LostLogTestCase):
    """topics.json is damaged, and the tree has what stood there."""

    def damage(self) -> None:
        """A byte of the topic's uuid is flipped."""
        self.kill()
        data = self.files._inode("/data/topics.json").data
        data[data.index(self.uuid.encode())] ^= 1

    def test_healed(self) -> None:
        """The topic keeps its uuid, settings and messages; the file is written again."""
        self.damage()
        self.open()
        self.assertEqual(self.entry("t").uuid, self.uuid)
        self.assertEqual(self.content("t"), HELLO + HELLO)
        self.assertEqual([self.log_of("t", number).offline for number in (0, 1)], [None, None])
        self.assertIn(self.uuid.encode(), bytes(self.files._inode("/data/topics.json").data))

    def test_tree_away(self) -> None:
        """While the tree is away its logs are not served, as no uuid is made up."""
        self.damage()
        self.joins = False
        self.open()
        self.broker.begin()
        self.assertIn("topics.json is damaged", self.reason())
        self.assertIsNone(self.broker.topics.get("t"))
        self.join()
        self.assertEqual(self.entry("t").uuid, self.uuid)
        self.assertIsNone(self.log_of("t").offline)


class AcceptedLossTests(LostLogTestCase):
    """An operator accepts a loss, having been shown it."""

    def test_accepted(self) -> None:
        """The log begins at a multiple of 2^40, far above all that was given; old positions are out of range."""
        self.kill()
        self.remove_folder("t-0")
        self.open()
        shown = self.repair(dry=True)
        self.assertEqual((shown.state, shown.end), (OFFLINE, JUMP))
        (loss,) = shown.described
        self.assertEqual((loss.kind, loss.position, loss.position + loss.bytes), (LOST_LOG, 0, JUMP))
        self.assertIn("unknown number", loss.text)
        self.assertEqual(self.accept(), JUMP)
        log = self.log_of("t")
        self.assertEqual((log.start, log.end, log.offline), (JUMP, JUMP, None))
        self.assertEqual(self.stored_ends().ends, {0: JUMP, 1: 0})  # type: ignore[union-attr]
        self.assertEqual(self.produce(self.connect(), "t", HELLO).first_id, JUMP)
        for position in (0, len(HELLO), 2 * len(HELLO), JUMP - 1):
            request = FetchWait(0, 1, 100, (FetchPart("t", 0, 0, position, 100),))
            (part,) = self.ask(self.connect(), request).parts
            self.assertEqual((part.error, part.log_start), (OUT_OF_RANGE, JUMP))
        self.kill()
        self.open()
        self.assertEqual(self.log_of("t").end, JUMP + len(HELLO))
        self.assertIsNone(self.log_of("t").offline)

    def test_not_shown(self) -> None:
        """A loss that was not shown as it is cannot be accepted."""
        self.kill()
        self.remove_folder("t-0")
        self.open()
        for position in (-1, 0, 2 * JUMP):
            answer = self.repair(0, position, accept=True)
            self.assertEqual((answer.state, answer.described[0].mended), (OFFLINE, False))
        self.reason()

    def test_node_changed_meanwhile(self) -> None:
        """A node that was written meanwhile is read again, and the loss can be accepted as before, behind its ends."""
        self.kill()
        self.remove_folder("t-0")
        self.open()
        found = self.stored_ends()
        assert found is not None
        self.in_tree(paths.stored_ends(self.uuid, 0), StoredEnds(found.instance, {0: JUMP, 1: 0}).encode())
        self.produce(self.connect(), "t", HELLO, 1)
        self.pass_time(LEAD_SECONDS)
        self.pass_time(WRITE_SECONDS)
        self.assertIn("--accept-loss", self.reason())
        self.assertEqual(self.accept(), 2 * JUMP)
        self.assertEqual(self.stored_ends().ends, {0: 2 * JUMP, 1: len(HELLO)})  # type: ignore[union-attr]

    def test_accepted_in_part(self) -> None:
        """What was accepted of one partition says nothing of files that turn up for another one: nobody accepted it."""
        self.kill()
        old = self.files
        self.replace_disk()
        self.open()
        self.accept(0)
        self.kill()
        self.files.make_directory("/data/t-1")
        file = self.files.open("/data/t-1/00000000000000000000.log", create=True)
        file.append([HELLO])
        file.sync_data()
        self.open()
        self.assertIn("is not the data directory of instance", self.reason("t", 1))
        self.assertIsNone(self.log_of("t", 0).offline)
        # The former disk is back: it has the one, and not the other.
        self.kill()
        self.replace_disk()
        self.files = old
        self.open()
        self.assertIsNone(self.log_of("t", 1).offline)
        self.assertIn("is not the data directory of instance", self.reason("t", 0))

    def test_no_position_left(self) -> None:
        """A file whose name is a number near 2^63 gets an answer that says so, and no position that nobody can say."""
        self.kill()
        self.remove_folder("t-0")
        self.files.make_directory("/data/t-0")
        self.open()
        stray = f"/data/t-0/{segment_name((1 << 63) - 1)}"
        self.files.open(stray, create=True).close()
        answer = self.repair(dry=True)
        self.assertIn("move it away", answer.text)
        self.files.remove(stray)
        self.accept()

    def test_replaced_disk(self) -> None:
        """Of a replaced disk each partition is accepted by itself, and the others stay lost through restarts."""
        self.kill()
        self.replace_disk()
        self.open()
        self.assertEqual(self.accept(), JUMP)
        self.reason("t", 1)
        self.kill()
        self.open()
        self.assertIsNone(self.log_of("t").offline)
        self.reason("t", 1)
        self.assertEqual(self.accept(1), JUMP)
        self.kill()
        self.open()
        self.assertIsNone(self.log_of("t", 1).offline)

    def test_twice(self) -> None:
        """A log that is lost again begins further on."""
        for jump in (JUMP, 2 * JUMP):
            self.kill()
            self.remove_folder("t-0")
            self.open()
            self.assertEqual(self.accept(), jump)

    def test_files_are_back(self) -> None:
        """Nothing is given up when the files are back meanwhile."""
        self.kill()
        self.files.rename("/data/t-0", "/data/away")
        self.open()
        position = self.repair(dry=True).end
        self.files.rename("/data/away", "/data/t-0")
        answer = self.repair(0, position, accept=True)
        self.assertEqual((answer.state, answer.described), (SERVED_AGAIN, ()))
        self.assertEqual((self.log_of("t").start, self.log_of("t").end), (0, 2 * len(HELLO)))
