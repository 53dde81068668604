"""Tests of Repair: a broker mends its logs while it serves, and serves again a partition that was offline."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from logd.broker.requests import repair as repairing
from logd.coord import paths
from logd.coord.registries.topics import encode_entry
from logd.errors import InvalidRequest, LogdError
from logd.log.damage.kinds import DamageKind
from logd.log.disk.names import segment_name
from logd.log.recovery.checkpoint import Checkpoint, write_checkpoint
from logd.protocol.loops import Decoded, decode_set
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.repair import OFFLINE, SERVED, SERVED_AGAIN, Repair, RepairedDamage, RepairResponse
from logd.topic import TopicEntry
from tests.broker.lost_logs import write_node
from tests.broker.rig import BrokerTestCase, Peer
from tests.log.entries import plain

ENTRY = plain(b"eleven more")


class RepairTestCase(BrokerTestCase):
    """A topic of ten entries of 20 bytes, in segments of three."""

    log_options: dict[str, Any] = {"segment_bytes": 50}  # noqa: RUF012

    def setUp(self) -> None:
        """Fill the topic."""
        super().setUp()
        self.create("t")
        self.peer = self.connect()
        for _ in range(10):
            self.produce(self.peer, "t", ENTRY)

    def path(self, start: int) -> str:
        """Return the path of a segment."""
        return f"/data/t-0/{segment_name(start)}"

    def data(self, start: int) -> bytearray:
        """Return the bytes of a segment, to be damaged."""
        return self.files._inode(self.path(start)).data

    def repair(self, peer: Peer | None = None, **more: Any) -> list[RepairResponse]:
        """Ask for repairs until the log's end is reached, and return the answers."""
        answers: list[RepairResponse] = []
        position, end = -1, 0
        while position < end:
            answer = self.ask(
                peer or self.peer, Repair("t", 0, more.get("dry", False), more.get("cut", False), position)
            )
            answers.append(answer)
            if answer.error:
                break
            position, end = answer.checked_to, answer.end
        return answers

    def fetched(self) -> Decoded:
        """Fetch the whole log, and decode it as a consumer does."""
        data = bytearray()
        while True:
            part = FetchPart("t", 0, 0, len(data), 1 << 20, exact=True)
            (found,) = self.ask(self.peer, FetchWait(0, 0, 1 << 20, (part,))).parts
            if not found.message_set:
                return decode_set(bytes(data))
            data += found.message_set


class ServedTests(RepairTestCase):
    """A partition that is served."""

    def test_a_sound_log_is_left_alone(self) -> None:
        """The repair answers once for each segment, and changes no byte."""
        before = self.content("t")
        self.assertEqual(self.repair(), [RepairResponse(0, end, 200, state=SERVED) for end in (60, 120, 180, 200)])
        self.assertEqual(self.content("t"), before)

    def test_damage_becomes_gaps(self) -> None:
        """The messages behind it keep their ids, in closed segments and in the last one."""
        self.data(60)[35] ^= 1
        self.data(180)[1] ^= 1
        answers = self.repair()
        damages = [each for answer in answers for each in answer.described]
        self.assertEqual(
            [each[:4] for each in damages],
            [(80, 20, DamageKind.PAYLOAD, True), (180, 20, DamageKind.LENGTH, True)],
        )
        decoded = self.fetched()
        self.assertEqual((decoded.gaps, decoded.error, decoded.position), (2, None, 200))
        self.assertEqual([message.id for message in decoded.messages], [0, 20, 40, 60, 100, 120, 140, 160])
        self.assertEqual([answer.damages for answer in self.repair()], [0, 0, 0, 0])
        self.assertEqual(len(self.events.warnings("replaced by 1 gap,")), 2)

    def test_a_dry_run_changes_nothing(self) -> None:
        """The report has the damage that a repair would mend."""
        self.data(60)[35] ^= 1
        before = self.content("t")
        answers = self.repair(dry=True)
        self.assertEqual(answers[1].described, (RepairedDamage(80, 20, 1, False, "checksum mismatch"),))
        self.assertEqual((answers[1].damages, answers[1].damaged_bytes), (1, 20))
        self.assertEqual(self.content("t"), before)

    def test_appends_go_on_during_a_repair(self) -> None:
        """Bytes that are not visible yet are not checked: they may be half written."""
        self.data(180)[15] ^= 1
        self.peer.send(Repair("t", 0, False, False, 180))
        log = self.log_of("t")
        log.append([ENTRY], 1, -1)
        self.data(180)[-1] ^= 1  # as if it were half written
        self.reads.settle()
        self.data(180)[-1] ^= 1
        (answer,) = self.peer.answers()
        self.assertEqual((answer.checked_to, answer.damages), (200, 1))
        self.settle()
        self.assertEqual((log.end, self.fetched().position), (220, 220))

    def test_a_repair_runs_in_slices(self) -> None:
        """Other work gets its turn in between, and a stop of the broker ends the repair."""
        self.patch(repairing, "SLICE_BLOCKS", 1)
        self.peer.send(Repair("t", 0, False, False, 0))
        self.reads.settle()
        self.peer.answers()
        self.peer.send(Repair("t", 0, False, False, 0))
        self.reads.work()
        self.reads.deliver()  # the file is open
        self.broker.stop()
        self.reads.settle()
        self.assertEqual([answer.error for answer in self.peer.answers()], [111])

    def test_a_second_repair_is_refused_meanwhile(self) -> None:
        """Two repairs of one partition could write to the same entry."""
        other = self.connect()
        self.peer.send(Repair("t", 0))
        other.send(Repair("t", 0))
        self.assertEqual([answer.error for answer in other.answers()], [113])
        self.settle()
        self.assertEqual(self.ask(other, Repair("t", 0)).error, 0)

    def test_expired_segments_are_passed_over(self) -> None:
        """Retention may remove a segment while the repair looks at it."""
        self.peer.send(Repair("t", 0))
        log = self.log_of("t")
        log.configure(evolve(log.settings, retention_bytes=100, retention_ms=-1))
        log.expire()
        self.files.remove(self.path(0))
        self.settle()
        self.assertEqual(self.peer.answers(), [RepairResponse(0, 60, 200)])

    def test_a_missing_segment_becomes_a_gap(self) -> None:
        """Retention did not remove it, so it is damage and is reported with its file."""
        self.fetched()  # its file is open
        self.files.remove(self.path(60))
        for dry in (True, False):
            damage = RepairedDamage(60, 60, DamageKind.MISSING, not dry, f"{self.path(60)} is missing")
            self.assertEqual(self.repair(dry=dry)[1].described, (damage,))
        self.assertEqual((self.fetched().gap_bytes, self.fetched().position), (60, 200))
        self.assertEqual([answer.damages for answer in self.repair()], [0, 0, 0, 0])

    def test_health_shows_a_missing_segment(self) -> None:
        """Within checkpoint.ms and by its file, although that is still open; a repair ends the report."""
        self.fetched()
        self.files.remove(self.path(60))
        self.clock.advance(60)
        self.settle()
        health = self.broker.health()
        self.assertEqual(health["status"], "degraded")
        self.assertEqual(health["lost"], {"t-0": f"{self.path(60)} is missing: bytes 60 to 120 are lost"})
        self.repair(self.connect())
        self.assertEqual((self.broker.health()["status"], self.broker.health()["lost"]), ("ok", {}))

    def test_a_short_segment_gets_a_gap(self) -> None:
        """The gap takes the place of the bytes that were cut off."""
        del self.data(60)[45:]
        (damage,) = self.repair()[1].described
        self.assertEqual(damage[:4], (100, 20, DamageKind.SHORT, True))
        self.assertEqual((self.fetched().gap_bytes, self.fetched().position), (20, 200))

    def test_a_missing_last_segment_takes_it_offline(self) -> None:
        """The next request mends it: the partition is served again, with a gap."""
        self.files.remove(self.path(180))
        answer = self.repair()[-1]
        self.assertIn(f"{self.path(180)} was removed", answer.text)
        self.assertIn(f"{self.path(180)} was removed", str(self.log_of("t").offline))
        (answer,) = self.repair()
        self.assertEqual((answer.state, answer.damages, answer.end), (SERVED_AGAIN, 1, 200))
        self.assertEqual((self.fetched().gap_bytes, self.fetched().position), (20, 200))

    def test_a_deletion_ends_the_repair(self) -> None:
        """A new topic of the same name may be there already, and is not touched."""
        self.data(0)[15] ^= 1
        self.peer.send(Repair("t", 0, False))
        self.reads.work()
        self.broker.administration.delete("t")
        self.flushes.settle()
        self.settle()
        self.create("t")
        self.produce(self.peer_of_new_topic(), "t", ENTRY)
        self.assertEqual(self.content("t"), ENTRY)
        self.assertEqual([answer.error for answer in self.peer.answers()], [101])

    def test_a_deletion_ends_the_repair_of_a_missing_segment(self) -> None:
        """The gaps that are about to be made would take the place of what the new topic has there."""
        self.files.remove(self.path(0))
        self.peer.send(Repair("t", 0, False))
        self.reads.work()
        self.reads.deliver()
        (held,) = self.reads.works
        self.reads.works.clear()
        self.broker.administration.delete("t")
        self.settle()
        self.create("t")
        self.produce(self.peer_of_new_topic(), "t", ENTRY)
        self.reads.works.append(held)
        self.settle()
        self.assertEqual(self.content("t"), ENTRY)
        self.assertEqual([answer.error for answer in self.peer.answers()], [101])

    def peer_of_new_topic(self) -> Peer:
        """Open another connection, so that the answers of the first are not taken."""
        return self.connect()

    def test_an_unknown_place_is_refused(self) -> None:
        """Topic, partition and position each have an error of their own."""
        for request, error in (
            (Repair("none", 0), 101),
            (Repair("t", 7), 3),
            (Repair("t", 0, True, False, 201), 1),
        ):
            self.assertEqual(self.ask(self.peer, request).error, error)


class BoundaryTests(RepairTestCase):
    """Gaps over places where the index has entries begin."""

    log_options: dict[str, Any] = {"segment_bytes": 90, "index_bytes": 1}  # noqa: RUF012

    def test_no_lookup_ends_inside_a_gap(self) -> None:
        """Index entries from before the repair would lead readers to the middle of one."""
        log = self.log_of("t")
        self.assertEqual([start for start, _, _ in log.segments()], [0, 100])
        for start in (0, 100):
            self.data(start)[20:60] = b"\0" * 40
        for answer in self.repair():
            self.assertEqual([each[1:4] for each in answer.described], [(40, DamageKind.LENGTH, True)])
        self.assertEqual([log.find_boundary(at) for at in (45, 60, 145, 160)], [20, 60, 120, 160])
        self.produce(self.connect(), "t", ENTRY)
        self.assertEqual([log.find_boundary(at) for at in (145, 200)], [120, 200])


class OfflineTests(RepairTestCase):
    """A partition that is offline."""

    def setUp(self) -> None:
        """Take the partition offline."""
        super().setUp()
        self.log_of("t").go_offline(OSError(5, "Input/output error"))

    def test_a_repair_brings_a_partition_back(self) -> None:
        """The log is recovered as at a start, and new messages follow the old ones."""
        self.data(60)[35] ^= 1
        (answer,) = self.repair()
        self.assertEqual((answer.state, answer.damages, answer.checked_to, answer.end), (SERVED_AGAIN, 1, 200, 200))
        self.assertEqual(self.fetched().gaps, 1)
        self.assertEqual(self.produce(self.connect(), "t", ENTRY).first_id, 200)
        self.assertEqual(self.fetched().position, 220)

    def test_a_dry_run_leaves_it_offline(self) -> None:
        """The operator wants to see the damage before anything is served."""
        (answer,) = self.repair(dry=True)
        self.assertEqual((answer.state, answer.damages), (OFFLINE, 0))
        self.assertIsNotNone(self.log_of("t").offline)

    def test_gaps_replace_lost_segments(self) -> None:
        """First, middle and last segment are missing; the report names their files."""
        write_checkpoint(self.files, "/data/t-0", Checkpoint(0, 200))
        for start in (0, 120, 180):
            self.files.remove(self.path(start))
        (answer,) = self.repair(dry=True)
        self.assertEqual((answer.state, answer.end), (OFFLINE, 200))
        expected = [(0, 60, DamageKind.MISSING), (120, 80, DamageKind.SHORT)]
        self.assertEqual([each[:3] for each in answer.described], expected)
        self.assertIn(f"{self.path(0)} is missing: bytes 0 to 60 are lost", answer.described[0].text)
        (answer,) = self.repair()
        self.assertEqual((answer.state, answer.damages, answer.damaged_bytes), (SERVED_AGAIN, 2, 140))
        decoded = self.fetched()
        self.assertEqual((decoded.gap_bytes, decoded.position, len(decoded.messages)), (140, 200, 3))
        self.assertEqual(self.produce(self.connect(), "t", ENTRY).first_id, 200)

    def test_a_file_put_back_needs_no_repair(self) -> None:
        """The partition is recovered and served again without a gap."""
        self.files.rename(self.path(60), "/data/t-0/aside")
        self.assertEqual(self.repair(dry=True)[0].damages, 1)
        self.files.rename("/data/t-0/aside", self.path(60))
        (answer,) = self.repair()
        self.assertEqual((answer.state, answer.damages, self.fetched().position), (SERVED_AGAIN, 0, 200))

    def test_a_known_loss_keeps_it_offline(self) -> None:
        """The log was longer once, and the answer says which bytes are lost."""
        self.broker.store.hold("t", 0, LogdError("it was longer"), 500)
        (answer,) = self.repair()
        self.assertIn("bytes 200 to 500 are lost", answer.text)
        self.assertIn("bytes 200 to 500 are lost", str(self.log_of("t").offline))

    def test_a_cut_has_to_be_asked_for(self) -> None:
        """Without a flush mark the last bytes may be a torn write or damage; only the operator can tell."""
        self.files.remove("/data/t-0/mark")
        self.data(180)[:4] = b"\0\0\0\1"
        (answer,) = self.repair()
        self.assertEqual((answer.state, [each.mended for each in answer.described]), (OFFLINE, [False]))
        (answer,) = self.repair(cut=True)
        self.assertEqual((answer.state, [each.mended for each in answer.described]), (SERVED_AGAIN, [True]))
        self.assertEqual(self.log_of("t").end, 180)

    def refuse(self) -> TopicEntry:
        """Let the tree have another topic of that name; return the entry of the one that is stored here."""
        entry = self.broker.topics.get("t")
        assert entry is not None
        write_node(self, self.access.client, paths.topic("t"), encode_entry(evolve(entry, uuid="theirs")))
        return entry

    def test_a_refused_log_is_not_repaired(self) -> None:
        """It may be another topic's, or lack what the tree knows of: only the end of the conflict has it served."""
        self.data(60)[35] ^= 1
        before = bytes(self.data(60))
        for served in (False, True):  # before the conflict: if not, a repair might mend the reason
            if served:
                self.broker.store.reopen(self.log_of("t"), lambda: True, self.assertIsNone)
                self.settle()
            entry = self.refuse()
            self.assertEqual(self.repair(dry=True)[0].damages, 1)
            (answer,) = self.repair()
            self.assertIn("two different topics", answer.text)
            self.assertEqual((answer.error, bytes(self.data(60))), (InvalidRequest.code, before))
            self.assertIsNotNone(self.log_of("t").offline)
            write_node(self, self.access.client, paths.topic("t"), encode_entry(entry))
            self.assertIsNone(self.log_of("t").offline)

    def test_a_log_that_is_refused_during_its_repair_is_not_served(self) -> None:
        """The tree has another topic of that name by then."""
        self.peer.send(Repair("t", 0, False))
        works = [*self.reads.works]
        self.reads.works.clear()
        self.refuse()
        self.reads.works.extend(works)
        self.settle()
        (answer,) = self.peer.answers()
        self.assertEqual((answer.error, answer.state), (0, OFFLINE))
        self.assertIn("two different topics", str(self.log_of("t").offline))

    def test_a_deletion_waits_for_the_repair(self) -> None:
        """A deletion must not remove files that the repair writes; a new topic of the name waits too."""
        self.peer.send(Repair("t", 0, False))
        deleting = self.broker.administration.delete("t")
        self.assertNoResult(deleting)
        self.settle()
        self.successResultOf(deleting)
        self.assertFalse(self.files.exists("/data/t-0"))
        self.create("t")
        self.assertEqual(self.log_of("t").end, 0)

    def test_a_failing_disk_fails_the_repair(self) -> None:
        """The partition stays offline, and the next repair succeeds."""
        self.files.errors["list"] = [OSError(5, "Input/output error")]
        (answer,) = self.repair()
        self.assertEqual(answer.error, -1)
        self.assertIn("Input/output error", answer.text)
        self.assertIsNotNone(self.log_of("t").offline)
        self.assertEqual(self.repair()[0].state, SERVED_AGAIN)
