"""Tests of the leader epochs that Kafka's clients are told, and name: broker 0 leads in one epoch after the other."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from attrs import evolve
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest

from logd.broker.kafka.fetches import incremental_fetches
from logd.broker.kafka.fetching import KafkaFetching
from logd.coord import paths
from logd.coord.partition_state import PartitionState
from logd.leadership import NO_LEADER
from logd.protocol.batch import encode_batch
from logd.protocol.kafka.apis import APIS
from logd.protocol.kafka.fetch import KafkaFetchPart
from logd.protocol.message import Message
from logd.protocol.requests.fetch_wait import FetchPart
from logd.testing.inprocess.client import InProcessCoordination
from tests.broker.kafka.administration.test_reassignments import ReassignmentsTestCase
from tests.broker.kafka.fetches import behind, fetch, parts_of, values_in
from tests.broker.kafka.test_describing import asked

NOT_LEADER, FENCED, UNKNOWN = 6, 74, 75


class EpochsTestCase(ReassignmentsTestCase):
    """Topic "t" has two replicas, of which broker 0 alone is in sync, and leads."""

    def setUp(self) -> None:
        """Make the topic."""
        super().setUp()
        self.make("t", {0: [0, 1]})
        self.native = self.connect()
        self.hand = InProcessCoordination(self.tree, self.tree_clock)
        self.hand.connect()
        self.lead_in(0)

    def lead_in(self, epoch: int) -> int:
        """Let broker 0 lead in an epoch; return its start."""
        self.elect(0, epoch)
        role = self.broker.replication.leader("t", 0)
        assert role is not None
        assert role.epoch == epoch and role.epoch_start is not None
        return role.epoch_start

    def elect(self, leader: int, epoch: int) -> None:
        """Let a broker, or none, lead in an epoch."""
        path = paths.partition_state("t", 0)
        read = self.hand.get(path)
        self.settle()
        data, stat = self.successResultOf(read)
        state = evolve(PartitionState.decode(data), leader=leader, leader_epoch=epoch, in_sync=(0,))
        written = self.hand.set(path, state.encode(), stat.version)
        self.settle()
        self.successResultOf(written)
        self.pass_seconds(1)

    def put(self, time: int) -> int:
        """Produce a message of this time; return its position."""
        return int(self.produce(self.native, "t", encode_batch([Message(b"m", timestamp=time)])).first_id)

    def end_of(self, epoch: int, *, current: int = -1, version: int = 3, topic: str = "t") -> tuple[int, int, int]:
        """Ask for the end of an epoch; return code, epoch and end."""
        kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        part = kind.OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
        wanted = [kind(topic=topic, partitions=[part])]
        answer = self.ask(self.peer, OffsetForLeaderEpochRequest[version](replica_id=-1, topics=wanted))
        (found,) = answer.topics[0].partitions
        return found.error_code, found.leader_epoch, found.end_offset


class OffsetForLeaderEpochTests(EpochsTestCase):
    """OffsetForLeaderEpoch."""

    def test_each_epoch_ends_where_the_next_one_begins(self) -> None:
        """One without entries ends where the one before it does; of a later one than the leader's nothing is known."""
        self.put(1)
        second, _ = self.lead_in(2), self.put(2)
        fourth, _ = self.lead_in(4), self.put(4)
        end = self.log_of("t").end
        self.assertEqual([self.end_of(epoch) for epoch in (0, 1)], [(0, 0, second)] * 2)
        self.assertEqual([self.end_of(epoch) for epoch in (2, 3)], [(0, 2, fourth)] * 2)
        self.assertEqual([self.end_of(epoch) for epoch in (4, 5, -1)], [(0, 4, end), (0, -1, -1), (0, -1, -1)])

    def test_every_version(self) -> None:
        """The first one has no epoch in its answer, and from the second one on requests name the current epoch."""
        end = self.log_of("t").end
        for version in APIS[23].versions:
            current = -1 if version < 2 else 0
            self.assertEqual(self.end_of(0, current=current, version=version), (0, 0 if version else -1, end))

    def test_another_current_epoch_is_refused(self) -> None:
        """A client that knows a former leader reads the metadata again; one that is ahead of this broker asks again."""
        self.lead_in(3)
        self.assertEqual([self.end_of(0, current=each)[0] for each in (2, 3, 4)], [FENCED, 0, UNKNOWN])

    def test_a_topic_that_is_not_replicated_has_no_epochs(self) -> None:
        """Nor has one that does not exist."""
        self.make("one", {0: [0]})
        self.assertEqual(self.end_of(0, current=7, topic="one"), (0, -1, -1))
        self.assertEqual(self.end_of(0, topic="no-such"), (3, -1, -1))


class EpochsInAnswersTests(EpochsTestCase):
    """The epochs in Metadata, ListOffsets and Fetch."""

    def test_metadata_tells_the_epoch_of_a_replicated_topic(self) -> None:
        """And from version 10 on the topic's id, so that a topic made again is another one."""
        self.make("one", {0: [0]})
        self.lead_in(3)
        for version in APIS[3].versions:
            answer = self.ask(self.peer, asked(version, ["t", "one"]))
            epochs = [topic.partitions[0].leader_epoch for topic in answer.topics]
            self.assertEqual(epochs, [3, -1] if version >= 7 else [-1, -1], version)
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.assertEqual(answer.topics[0].topic_id, UUID(entry.uuid))

    def test_a_name_that_is_null(self) -> None:
        """It names no topic, and the client is told so."""
        answer = self.ask(self.peer, asked(10, [None]))  # type: ignore[list-item]  # as a client may send it
        self.assertEqual([(each.name, each.error_code) for each in answer.topics], [("", 17)])

    def listed(self, time: int, current: int = -1) -> tuple[int, int, int]:
        """Ask for an offset; return code, offset and epoch."""
        kind = ListOffsetsRequest.ListOffsetsTopic
        part = kind.ListOffsetsPartition(partition_index=0, current_leader_epoch=current, timestamp=time)
        request = ListOffsetsRequest[5](
            replica_id=-1, isolation_level=0, topics=[kind(name="t", partitions=[part])]
        )  # fmt: skip
        (found,) = self.ask(self.peer, request).topics[0].partitions
        return found.error_code, found.offset, found.leader_epoch

    def test_offsets_have_the_epochs_of_their_messages(self) -> None:
        """The end has that of the leader; who names another epoch is refused."""
        self.lead_in(1)
        self.put(10)
        self.lead_in(2)
        self.put(20)
        end = self.log_of("t").end
        found = [self.listed(time) for time in (-2, 10, 20, -1, 30)]
        self.assertEqual([(code, epoch) for code, _, epoch in found], [(0, 0), (0, 1), (0, 2), (0, 2), (0, -1)])
        self.assertEqual(found[3], (0, end, 2))
        self.assertEqual([self.listed(-1, current)[0] for current in (1, 2, 3)], [FENCED, 0, UNKNOWN])

    def fetch(self, current: int, wait_ms: int = 0) -> Any:
        """Return a request for what is behind the log's end, or for all of it."""
        kind = FetchRequest.FetchTopic
        part = kind.FetchPartition(
            partition=0, current_leader_epoch=current, fetch_offset=self.log_of("t").visible_end if wait_ms else 0,
            log_start_offset=-1, partition_max_bytes=1 << 20,
        )  # fmt: skip
        return FetchRequest[11](
            replica_id=-1, max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, isolation_level=0, session_id=0,
            session_epoch=-1, topics=[kind(topic="t", partitions=[part])], forgotten_topics_data=[], rack_id="",
        )  # fmt: skip

    def test_a_fetch_with_another_epoch_is_refused(self) -> None:
        """At once, also where it would have to wait for messages; batches carry the epoch of their produce."""
        self.lead_in(2)
        self.put(1)
        for wait_ms in (0, 10_000):
            codes = []
            for current in (1, 2, 3) if not wait_ms else (1, 3):
                (part,) = parts_of(self.ask(self.peer, self.fetch(current, wait_ms)))
                codes.append(part.error_code)
            self.assertEqual(codes, [FENCED, 0, UNKNOWN] if not wait_ms else [FENCED, UNKNOWN])
        (part,) = parts_of(self.ask(self.peer, self.fetch(-1)))
        self.assertEqual((part.error_code, _last_epoch(bytes(part.records))), (0, 2))

    def test_the_place_of_an_entry_is_that_of_one_epoch(self) -> None:
        """Between two a log may be truncated, and then have other entries there."""
        exact: list[bool] = []
        wanted_part = KafkaFetching._wanted_part

        def noted(fetching: KafkaFetching, part: KafkaFetchPart) -> FetchPart:
            found = wanted_part(fetching, part)
            exact.append(found.exact)
            return found

        self.patch(KafkaFetching, "_wanted_part", noted)
        self.put(1)
        for epoch, expected in ((None, [False, True]), (1, [False, False])):
            peer = self.kafka()
            (part,) = parts_of(self.ask(peer, fetch(("t", 0, 0))))
            if epoch is not None:
                self.lead_in(epoch)
            self.ask(peer, fetch(("t", 0, behind(part))))
            self.assertEqual(exact, expected)
            exact.clear()

    def test_a_session_with_another_epoch_is_refused(self) -> None:
        """As soon as it names the partition; when the leader's epoch changes, the client asks for the leader again."""
        self.patch(incremental_fetches, "LEAST_PARTS", 1)
        self.lead_in(2)
        end = self.log_of("t").end
        first = self.ask(self.peer, fetch(("t", 0, end), epoch=0, leader_epoch=2))
        codes = []
        for epoch, leader_epoch in enumerate((1, 2, 3), 1):
            request = fetch(("t", 0, end), session=first.session_id, epoch=epoch, leader_epoch=leader_epoch)
            codes += [part.error_code for part in parts_of(self.ask(self.peer, request))]
        self.assertEqual(codes, [FENCED, 0, UNKNOWN])
        self.ask(self.peer, fetch(("t", 0, end), session=first.session_id, epoch=4, leader_epoch=2))
        self.peer.send(fetch(session=first.session_id, epoch=5, wait_ms=60_000))
        self.lead_in(3)
        (answer,) = self.peer.answers()
        self.assertEqual([part.error_code for part in parts_of(answer)], [NOT_LEADER])
        (part,) = parts_of(self.ask(self.peer, fetch(session=first.session_id, epoch=6, wait_ms=500)))
        self.assertEqual(part.error_code, FENCED)


class SessionTests(EpochsTestCase):
    """A fetch session while the leadership comes and goes."""

    def test_every_message_comes(self) -> None:
        """Once, whether the leadership moves between the fetches or while they wait; no fetch sleeps through that."""
        self.patch(incremental_fetches, "LEAST_PARTS", 1)
        for seed in range(3):
            self.walk(Random(seed))

    def walk(self, random: Random) -> None:
        """Read a partition in a new session, as a client does that asks for the leader after each error."""
        leadership, number = self.log_of("t").leadership, 0
        self.epoch, self.leads = leadership.epoch, True
        position, known = self.log_of("t").visible_end, self.epoch
        response = self.ask(self.peer, fetch(("t", 0, position), epoch=0, leader_epoch=known))
        put: list[bytes | None] = []
        found: list[bytes | None] = []
        told = position, known

        def happen() -> bool:
            """Let something happen; return whether a fetch that waits has to be answered."""
            what = random.choice(("put", "put", "lead", "stop"))
            if what == "put" and self.leads:
                put.append(b"%d" % len(put))
                self.produce(self.native, "t", encode_batch([Message(put[-1])]))
                return True
            if what == "lead":
                self.epoch, self.leads = self.epoch + 1, True
                self.lead_in(self.epoch)
                return True
            if what == "stop" and self.leads:
                self.epoch, self.leads = self.epoch + 1, False
                self.elect(NO_LEADER, self.epoch)
                return True
            return False

        for step in range(60):
            if step == 50 and not self.leads:
                self.epoch, self.leads = self.epoch + 1, True
                self.lead_in(self.epoch)
            if step < 50 and random.random() < 0.5:
                happen()
            number += 1
            parts = [("t", 0, position)] if (position, known) != told or random.random() < 0.1 else []
            told = position, known
            session = response.session_id
            self.peer.send(fetch(*parts, session=session, epoch=number, leader_epoch=known, wait_ms=10_000))
            self.settle()
            answers = self.peer.answers()
            if not answers and step < 50 and happen():
                answers = self.peer.answers()
                self.assertEqual(len(answers), 1, "the fetch sleeps")
            if not answers:
                self.pass_seconds(10)
                answers = self.peer.answers()
            (answer,) = answers
            self.assertEqual((answer.error_code, answer.session_id), (0, session))
            for part in parts_of(answer):
                if part.error_code:
                    known = self.epoch if self.leads else known
                    continue
                found += [value for offset, value in values_in(part) if offset >= position]
                position = max(position, behind(part))
        self.assertEqual(found, put)
        self.assertEqual(position, self.log_of("t").visible_end)


def _last_epoch(records: bytes) -> int:
    """Return the leader epoch of the last batch (int64 base offset | int32 length | int32 leader epoch)."""
    at = last = 0
    while at < len(records):
        last, at = at, at + 12 + int.from_bytes(records[at + 8 : at + 12], "big")
    return int.from_bytes(records[last + 12 : last + 16], "big", signed=True)
