"""Tests of logd.spark.blocking.reading: a range of ids, from a broker that fails in many ways."""

from __future__ import annotations

import tracemalloc
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import BrokerUnavailable, CorruptMessage, PartitionOffline, UnknownTopic, WrapperTooLarge
from logd.protocol.batch import encode_batch
from logd.protocol.entry import encode_gap
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.protocol.requests.fetch_wait import FetchedPart, FetchWait, FetchWaitResponse
from logd.protocol.requests.metadata import Metadata
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import DataLost, RangeReader, ReadSettings
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic

VALUES = [b"%05d" % number * (number % 50) for number in range(500)]
DATA = encode_set([Message(value) for value in VALUES])
SMALL = ReadSettings(fetch_bytes=1000, rows=40)


class ReadingTestCase(SynchronousTestCase):
    """A broker with one log, and a reader of all of it."""

    def setUp(self) -> None:
        """Make the log."""
        self.log = FakeLog(DATA)
        self.broker = FakeBroker({"t": FakeTopic("uuid-1", [self.log])})

    def reader(
        self, settings: ReadSettings = SMALL, start: int = 0, end: int = len(DATA), patience: float = 10.0
    ) -> RangeReader:
        """Make a reader of a range."""
        cluster = self.broker.cluster(retry_timeout=patience)
        return RangeReader(cluster, IdRange("t", "uuid-1", 0, start, end), settings)

    def values(self, reader: RangeReader) -> list[bytes | None]:
        """Return the values of all rows that a reader gives."""
        found: list[bytes | None] = []
        for rows in reader.rows():
            self.assertLessEqual(len(rows), reader.settings.rows)
            found += rows.values
        return found


class SoundTests(ReadingTestCase):
    """Logs without damage, and brokers that answer."""

    def test_a_range_is_read_whole(self) -> None:
        """Entries that answers cut off are put together; the next answer is asked for before this one is decoded."""
        reader = self.reader()
        self.assertEqual(self.values(reader), VALUES)
        self.assertEqual((reader.report.messages, reader.report.bytes), (500, len(DATA)))
        self.assertEqual(self.broker.connections, 1)
        self.assertEqual(self.broker.count(FetchWait), -(-len(DATA) // 1000))
        self.assertEqual(self.broker.count(Metadata), 2)

    def test_small_answers_give_the_same_rows(self) -> None:
        """An answer may end inside any entry."""
        for self.log.piece in (64, 65, 100, 999):
            self.assertEqual(self.values(self.reader()), VALUES)

    def test_a_message_is_in_one_range_alone(self) -> None:
        """Ranges may begin and end inside entries."""
        for cut in (1, 9, 777, len(DATA) - 1):
            found = self.values(self.reader(end=cut)) + self.values(self.reader(start=cut))
            self.assertEqual(found, VALUES)

    def test_gaps_are_skipped_and_counted(self) -> None:
        """The report has their number and bytes."""
        self.log.data = encode_gap(30) + bytes(21) + DATA + encode_gap(3000) + bytes(2991) + DATA
        reader = self.reader(end=self.log.end)
        self.assertEqual(self.values(reader), VALUES * 2)
        self.assertEqual((reader.report.gaps, reader.report.gap_bytes), (2, 3030))

    def test_a_huge_gap_is_fetched_at_its_beginning_alone(self) -> None:
        """The gap has 2^30 bytes, as in the place of a segment that was lost."""
        size = 1 << 30
        fetched = 0

        def sparse(request: Any) -> FetchWaitResponse | None:
            nonlocal fetched
            if not isinstance(request, FetchWait):
                return None
            (part,) = request.parts
            if part.offset < size:
                data = (encode_gap(size) + bytes(part.max_bytes))[part.offset :][: part.max_bytes]
                fetched += len(data)
            else:
                data = DATA[part.offset - size :][: part.max_bytes]
            answer = FetchedPart("t", 0, 0, 0, size + len(DATA), part.offset, data)
            return FetchWaitResponse((answer,))

        self.broker.before = sparse
        reader = self.reader(end=size + len(DATA))
        self.assertEqual(self.values(reader), VALUES)
        self.assertEqual((reader.report.gaps, reader.report.gap_bytes), (1, size))
        self.assertLessEqual(fetched, 2 * SMALL.fetch_bytes)

    def test_a_reader_that_stops_early_gives_its_connection_up(self) -> None:
        """The answer under way would be taken for another caller's."""
        reader = self.reader()
        rows = reader.rows()
        next(rows)
        rows.close()
        self.assertEqual(reader.cluster.describe("t", 0).visible_end, len(DATA))
        self.assertEqual(self.broker.connections, 2)

    def test_a_large_wrapper_or_batch_is_read_in_slices(self) -> None:
        """The number of messages is bounded, and the error names the option that raises the bound."""
        inside = [Message(b"%03d" % number) for number in range(100)]
        bounded = evolve(SMALL, max_decompressed_messages=99)
        for entry in (wrap(inside, "gzip"), encode_batch(inside), encode_batch(inside, "lz4")):
            self.log.data = encode_set([Message(b"before")]) + entry + DATA
            reader = self.reader(end=self.log.end)
            self.assertEqual(self.values(reader), [b"before", *[each.payload for each in inside], *VALUES])
            bound = self.reader(bounded, end=self.log.end)
            error = self.assertRaises(WrapperTooLarge, self.values, bound)
            self.assertIn("topic 't', partition 0", str(error))
            self.assertIn("maxDecompressedMessages = 99", str(error))
            self.assertIn(f"at position {self.log.end - len(DATA)}", str(error))


def lose() -> None:
    """Lose the connection."""
    raise ConnectionResetError("reset by a test")


class FailingTests(ReadingTestCase):
    """Brokers that go away and come back."""

    def test_reading_goes_on_after_lost_connections(self) -> None:
        """The last id is where it goes on: no row comes twice and none is left out."""
        self.broker.before = self.every(4, lose)
        self.assertEqual(self.values(self.reader()), VALUES)
        self.assertGreater(self.broker.connections, 10)

    def test_an_absent_broker_is_tried_until_patience_ends(self) -> None:
        """Attempts become rarer, and the error names the reason."""
        reader = self.reader()
        rows = reader.rows()
        next(rows)
        self.broker.before = lambda _: lose()
        with self.assertRaises(BrokerUnavailable) as caught:
            list(rows)
        self.assertIn("reset by a test", str(caught.exception))
        self.assertEqual(self.broker.slept[:4], [0.1, 0.2, 0.4, 0.8])
        self.assertLessEqual(sum(self.broker.slept), 20.0)

    def test_an_offline_partition_is_tried_again(self) -> None:
        """The task goes on when the partition is served again."""
        offline = FetchWaitResponse((FetchedPart("t", 0, PartitionOffline.code),))
        self.broker.before = self.every(4, lambda: offline, FetchWait)
        self.assertEqual(self.values(self.reader()), VALUES)

    def test_lasting_damage_is_an_error(self) -> None:
        """The entry is fetched three times first, so that one damaged on its way is read."""
        damaged = bytearray(DATA)
        damaged[5000] ^= 1
        self.log.data = bytes(damaged)
        error = self.assertRaises(CorruptMessage, lambda: self.values(self.reader()))
        self.assertIn("logd repair", str(error))
        self.assertLessEqual(error.position, 5000)
        reader = self.reader()
        rows = reader.rows()
        next(rows)

        def heal(request: Any) -> None:
            if isinstance(request, FetchWait) and not request.parts[0].exact:
                self.log.data = DATA

        self.broker.before = heal
        self.assertEqual(sum(len(each) for each in rows) + 40, 500)

    def every(self, number: int, what: Any, kind: type[Any] = object) -> Any:
        """Return a ``before`` that calls ``what`` at each ``number``-th request of a kind."""
        seen = 0

        def before(request: Any) -> Any:
            nonlocal seen
            seen += isinstance(request, kind)
            return what() if isinstance(request, kind) and seen % number == 0 else None

        return before


class LossTests(ReadingTestCase):
    """Logs whose messages are gone."""

    lenient = ReadSettings(fetch_bytes=1000, rows=40, fail_on_data_loss=False)

    def test_messages_removed_during_a_read_are_a_loss(self) -> None:
        """The read fails, or jumps to the messages that are left and counts the loss."""
        removed = self.log.boundary(len(DATA) // 2)

        def remove(request: Any) -> None:
            if self.broker.count(FetchWait) == 5:
                self.log.data, self.log.start = DATA[removed:], removed

        self.broker.before = remove
        self.assertIn("failOnDataLoss", str(self.assertRaises(DataLost, lambda: self.values(self.reader()))))
        self.log.data, self.log.start = DATA, 0
        self.broker.requests.clear()
        reader = self.reader(self.lenient)
        found = self.values(reader)
        rest = [v for v, at in zip(VALUES, self.starts(), strict=True) if at >= removed]
        self.assertEqual(found[-len(rest) :], rest)
        self.assertEqual(found[: -len(rest)], VALUES[: len(found) - len(rest)])
        ((start, end),) = reader.report.losses
        self.assertEqual((reader.report.bytes + end - start, end), (len(DATA), removed))

    def test_a_topic_created_again_is_not_read(self) -> None:
        """The ids of another topic are not those that were planned, before the read or during it."""
        self.broker.topics["t"].uuid = "uuid-2"
        self.assertIn("created again", str(self.assertRaises(DataLost, lambda: self.values(self.reader()))))
        self.assertEqual(self.values(self.reader(self.lenient)), [])
        self.assertEqual(self.broker.count(FetchWait), 0)
        self.broker.topics["t"].uuid = "uuid-1"

        def replace(request: Any) -> None:
            if self.broker.count(FetchWait) == 5:
                self.broker.topics["t"].uuid = "uuid-2"

        self.broker.before = replace
        self.assertRaises(DataLost, lambda: self.values(self.reader()))

    def test_a_topic_deleted_during_a_read_is_a_loss(self) -> None:
        """The messages that were planned cannot be read any more."""

        def delete(request: Any) -> None:
            if self.broker.count(FetchWait) == 5:
                self.broker.topics.clear()

        self.broker.before = delete
        self.assertIn("does not exist", str(self.assertRaises(DataLost, lambda: self.values(self.reader()))))

    def test_the_leader_knows_its_topic_best(self) -> None:
        """The broker that gives metadata has not heard yet that the topic was made again."""
        present = {"t": FakeTopic("uuid-2", [self.log])}
        self.broker.hear_late("fake", {"t": FakeTopic("uuid-1", [self.log])}, present)
        self.assertIn("created again", str(self.assertRaises(DataLost, lambda: self.values(self.reader()))))
        self.assertEqual(self.values(self.reader(self.lenient)), [])

    def test_a_topic_that_one_broker_does_not_know_is_no_loss(self) -> None:
        """It has not heard yet of a new topic, or of one that was made again; then it has, and all is read."""
        self.broker.hosts = ("late", "fake")
        self.broker.leader = 1
        old: list[dict[str, FakeTopic]] = [{}, {"t": FakeTopic("uuid-0", [self.log])}]
        present = self.broker.topics
        for topics in old:
            self.broker.hear_late("late", topics, present)
            reader = self.reader(self.lenient)
            self.assertEqual(self.values(reader), VALUES)
            self.assertEqual(reader.report.losses, [])

    def test_a_leader_that_does_not_know_its_topic_is_no_loss_while_others_do(self) -> None:
        """It has not heard yet that it leads, and of what; the next fetch is answered."""

        def forget(request: Any) -> FetchWaitResponse | None:
            late = isinstance(request, FetchWait) and self.broker.count(FetchWait) == 5
            return FetchWaitResponse((FetchedPart("t", 0, UnknownTopic.code),)) if late else None

        self.broker.before = forget
        reader = self.reader(self.lenient)
        self.assertEqual((self.values(reader), reader.report.losses), (VALUES, []))

    def test_a_topic_that_one_broker_does_not_know_is_no_loss_while_the_others_are_away(self) -> None:
        """They live, and would know it: the read waits until they answer."""
        self.broker.hosts = ("late", "fake")
        present = self.broker.topics

        def before(request: Any) -> None:
            early = len(self.broker.slept) < 3
            if early and self.broker.asked == "fake":
                lose()
            self.broker.topics = {} if early else present

        self.broker.before = before
        reader = self.reader(self.lenient)
        self.assertEqual((self.values(reader), reader.report.losses), (VALUES, []))

    @staticmethod
    def starts() -> list[int]:
        """Return the position at which each message begins."""
        position, found = 0, []
        for value in VALUES:
            found.append(position)
            position += 9 + len(value)
        return found


class MemoryTests(SynchronousTestCase):
    """The memory of a task."""

    def peak(self, count: int) -> int:
        """Return the most bytes that reading ``count`` messages of 10,000 bytes takes beside the log itself."""
        log = FakeLog(encode_set([Message(bytes(10_000))]) * count)
        cluster = FakeBroker({"t": FakeTopic("u", [log])}).cluster()
        reader = RangeReader(cluster, IdRange("t", "u", 0, 0, log.end), ReadSettings(fetch_bytes=1 << 20, rows=100))
        tracemalloc.start()
        try:
            self.assertEqual(sum(len(rows) for rows in reader.rows()), count)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def test_memory_does_not_grow_with_the_range(self) -> None:
        """A range that is eight times as long takes the same."""
        small, large = self.peak(500), self.peak(4000)
        self.assertLess(large, 8 << 20)
        self.assertLess(large, 1.3 * small)
