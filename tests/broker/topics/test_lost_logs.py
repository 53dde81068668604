"""Tests of lost logs: a log that the tree knows and the disk has not is never served as an empty one."""

from __future__ import annotations

from logd.broker.topics.ends_schedule import LEAD_SECONDS, WRITE_SECONDS
from logd.coord import paths
from logd.coord.registries.stored_ends import StoredEnds
from logd.coord.registries.topics import encode_entry
from logd.log.disk.names import segment_name
from logd.log.recovery.lost_log_replacement import JUMP
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.repair import LOST_LOG, OFFLINE, SERVED_AGAIN
from logd.topic import TopicEntry
from tests.broker.lost_logs import HELLO, LostLogTestCase

OFFLINE_ERROR, OUT_OF_RANGE = 106, 1


class LossTests(LostLogTestCase):
    """Ways to lose a log."""

    def test_a_log_without_its_folder_is_offline(self) -> None:
        """The reason names a remedy, and the other partition is served."""
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

    def test_an_empty_log_can_be_lost_too(self) -> None:
        """Messages may have come just before, after the stored end was written."""
        self.kill()
        self.remove_folder("t-1")
        self.open()
        self.assertIn("up to 0 at least", self.reason("t", 1))

    def test_an_empty_folder_is_no_log(self) -> None:
        """A disk that is not mounted leaves one, and nothing may be written there."""
        self.kill()
        self.remove_folder("t-0")
        self.files.make_directory("/data/t-0")
        self.open()
        self.assertIn("no log", self.reason())
        self.assertEqual(self.files.list("/data/t-0"), [])

    def test_a_replaced_disk_has_no_logs(self) -> None:
        """All partitions are offline through restarts, and the topic keeps its uuid."""
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

    def test_an_old_backup_is_offline(self) -> None:
        """The files end before the stored end; once newer ones are back, a repair serves them."""
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
        """Write these bytes as the only file of the first partition."""
        for name in self.files.list("/data/t-0"):
            self.files.remove(f"/data/t-0/{name}")
        file = self.files.open("/data/t-0/00000000000000000000.log", create=True)
        file.append([data])
        file.sync_data()
        file.close()
        self.files.sync_directory("/data/t-0")

    def test_a_moved_partition_needs_its_files(self) -> None:
        """Another broker stored messages of it, whose ids must not be given again."""
        entry = TopicEntry("moved", {0: (0,)})
        self.in_tree(paths.stored_ends("moved", 7), StoredEnds("seven", {0: 500}).encode())
        self.in_tree(paths.topic("m"), encode_entry(entry))
        reason = self.reason("m")
        self.assertIn("broker 7 stored it up to 500", reason)
        self.assertFalse(self.files.exists("/data/m-0"))

    def test_a_missing_log_waits_for_the_tree(self) -> None:
        """Without the tree the broker cannot tell if it is new or lost."""
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

    def test_a_bad_node_takes_its_topic_offline(self) -> None:
        """The reason names the node; once that is mended the topic is served."""
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


class GivenUpTests(LostLogTestCase):
    """Losses that are accepted in the tree, as the restoration of a backup leaves them."""

    END = 700 * JUMP

    def give_up(self, *partitions: int) -> None:
        """Say in the tree that these partitions are given up."""
        value = StoredEnds("another", {0: self.END, 1: self.END}, given_up=frozenset(partitions))
        self.in_tree(paths.stored_ends(self.uuid, 0), value.encode())

    def test_a_log_begins_again_by_itself(self) -> None:
        """Behind the stored end, on an empty disk; the others wait for an operator."""
        self.give_up(0)
        self.kill()
        self.replace_disk()
        self.open()
        log = self.log_of("t", 0)
        self.assertEqual((log.offline, log.start, log.end), (None, self.END + JUMP, self.END + JUMP))
        self.reason("t", 1)
        answer = self.produce(self.connect(), "t", HELLO)
        self.assertEqual((answer.error, answer.first_id), (0, self.END + JUMP))

    def test_logs_that_are_here_are_set_aside(self) -> None:
        """Messages that were given up do not come back among the ids of the new log."""
        self.give_up(0, 1)
        self.kill()
        self.open()
        self.assertEqual([self.log_of("t", number).start for number in (0, 1)], [self.END + JUMP] * 2)
        self.assertIn(f"t-0.{self.END + JUMP}.lost", self.files.list("/data"))

    def test_a_later_loss_is_another_one(self) -> None:
        """The acceptance is used up: a log that is lost after that is offline until an operator has seen it."""
        self.give_up(0, 1)
        self.kill()
        self.replace_disk()
        self.open()
        stored = self.stored_ends()
        assert stored is not None
        self.assertEqual((stored.given_up, stored.ends), (frozenset(), {0: self.END + JUMP, 1: self.END + JUMP}))
        self.kill()
        self.replace_disk()
        self.open()
        self.reason("t", 0)
        self.reason("t", 1)


class NoLossTests(LostLogTestCase):
    """Cases that look like a loss and are none."""

    def test_a_killed_broker_serves_all_again(self) -> None:
        """The partition that is empty has a log too."""
        self.kill()
        self.open()
        self.assertEqual([self.log_of("t", number).offline for number in (0, 1)], [None, None])

    def test_stored_ends_are_made_from_the_logs(self) -> None:
        """A tree of an earlier release has none."""
        before = self.stored_ends()
        for path in (paths.stored_ends(self.uuid, 0), paths.stored_topic(self.uuid)):
            self.access.client.delete(path)
        self.settle()
        self.assertIsNone(self.stored_ends())
        self.kill()
        self.open()
        self.assertEqual([self.log_of("t", number).offline for number in (0, 1)], [None, None])
        self.assertEqual(self.stored_ends(), before)

    def test_a_lost_topic_can_be_deleted(self) -> None:
        """The stored ends go with the topic, so that it can be made again."""
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

    def test_a_new_log_waits_for_its_node(self) -> None:
        """Messages that come before wait in order, while other topics take theirs."""
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
    """A damaged topics.json, beside a tree that has the same topics."""

    def damage(self) -> None:
        """Kill the broker, and flip a bit of the topic's uuid on the disk."""
        self.kill()
        data = self.files._inode("/data/topics.json").data
        data[data.index(self.uuid.encode())] ^= 1

    def test_the_tree_mends_topics_json(self) -> None:
        """The topic keeps its uuid, its settings and its messages."""
        self.damage()
        self.open()
        self.assertEqual(self.entry("t").uuid, self.uuid)
        self.assertEqual(self.content("t"), HELLO + HELLO)
        self.assertEqual([self.log_of("t", number).offline for number in (0, 1)], [None, None])
        self.assertIn(self.uuid.encode(), bytes(self.files._inode("/data/topics.json").data))

    def test_damage_waits_for_the_tree(self) -> None:
        """No uuid is made up meanwhile, so the logs are not served."""
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
    """Losses that an operator has been shown, and accepts."""

    def test_an_accepted_loss_jumps_far_ahead(self) -> None:
        """The new log begins at a multiple of 2^40, above all ids given before, so that none is given twice."""
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

    def test_a_loss_is_accepted_as_shown(self) -> None:
        """An acceptance with another position changes nothing."""
        self.kill()
        self.remove_folder("t-0")
        self.open()
        for position in (-1, 0, 2 * JUMP):
            answer = self.repair(0, position, accept=True)
            self.assertEqual((answer.state, answer.described[0].mended), (OFFLINE, False))
        self.reason()

    def test_a_loss_shown_again_can_be_accepted(self) -> None:
        """The node of the stored ends was written meanwhile, and the log begins behind its ends."""
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

    def test_acceptance_covers_one_partition(self) -> None:
        """Files that turn up for another one are not taken for the log that was lost."""
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

    def test_an_end_of_all_positions_is_refused(self) -> None:
        """A file whose name is near 2^63 leaves no position for a jump; the text says to move it away."""
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

    def test_each_partition_is_accepted_by_itself(self) -> None:
        """The others stay lost through restarts."""
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

    def test_a_second_loss_jumps_further(self) -> None:
        """The ids that were given after the first one are behind it."""
        for jump in (JUMP, 2 * JUMP):
            self.kill()
            self.remove_folder("t-0")
            self.open()
            self.assertEqual(self.accept(), jump)

    def test_files_put_back_undo_the_loss(self) -> None:
        """The acceptance gives nothing up, since the log is there again."""
        self.kill()
        self.files.rename("/data/t-0", "/data/away")
        self.open()
        position = self.repair(dry=True).end
        self.files.rename("/data/away", "/data/t-0")
        answer = self.repair(0, position, accept=True)
        self.assertEqual((answer.state, answer.described), (SERVED_AGAIN, ()))
        self.assertEqual((self.log_of("t").start, self.log_of("t").end), (0, 2 * len(HELLO)))
