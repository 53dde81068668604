"""Tests of logd.client.admin: the lag of a group, and the positions to which it may be moved."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from logd.client.admin.admin import Admin
from logd.client.admin.group_reset import target
from logd.client.admin.lag import LagReader, PartitionLag, find_brokers, partitions_of, streams_by_consumer, together
from logd.client.admin.lag_times import EXACT, age_at
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.read_timeout import PATIENCE
from logd.coord.groups.inspection import GroupEntry
from logd.coord.registries.consumers import PatternStreams, Subscription
from logd.coord.registries.offsets import Offset
from logd.coord.registries.owners import Owner
from logd.errors import BrokerUnavailable, OffsetOutOfRange
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.protocol.requests.describe_log import DescribeLogResponse
from logd.protocol.requests.fetch_wait import FetchWait
from logd.protocol.requests.metadata import Metadata
from logd.topic import TopicPartition
from tests.client.doubles import run
from tests.client.groups import ClientGroupTestCase


def tp(partition: int, topic: str = "t") -> TopicPartition:
    """Return a partition of topic ``t``, or of another one."""
    return TopicPartition(topic, partition)


class LagTestCase(ClientGroupTestCase):
    """A group in the model, and a client for administration that asks about it."""

    def setUp(self) -> None:
        """Make a client for administration."""
        super().setUp()
        self.admin = Admin("model:6667", reactor=self.clock, connect=self.broker.connect)

    def consumer(self) -> Consumer:
        """Make a consumer of no group."""
        return Consumer("model:6667", reactor=self.clock, connect=self.broker.connect)

    def do(self, work: Any) -> Any:
        """Run a coroutine and return its result."""
        waiting = Deferred.fromCoroutine(work)
        for _ in range(2000):
            if waiting.called:
                break
            self.clock.advance(0.002)
        return self.successResultOf(waiting)

    def lags(self, entry: GroupEntry, **more: Any) -> list[PartitionLag]:
        """Return the group's lag in the first two partitions."""
        reader = LagReader(self.admin, self.consumer, self.clock, lambda: 100.0, **{"seconds": False, **more})
        found = self.do(reader.read(entry, [tp(0), tp(1)]))
        assert isinstance(found, list)
        return found


class LagTests(LagTestCase):
    """``LagReader``."""

    def test_a_lag_is_measured_in_bytes_and_messages(self) -> None:
        """A partition without a position has an end alone, and leaves the sum unknown."""
        end = self.broker.logs["t"][0].end
        entry = GroupEntry("g", {}, {tp(0): Owner("a-0", 1)}, {tp(0): Offset(end // 50 * 47, 3)})
        one, other = self.lags(entry)
        self.assertEqual(
            (one.owner, one.lag_bytes, one.lag_messages, one.log_end), ("a-0", end - end // 50 * 47, 3, end)
        )
        self.assertEqual((other.owner, other.position, other.lag_bytes, other.lag_messages), (None,) * 4)
        self.assertEqual(other.log_end, self.broker.logs["t"][1].end)
        self.assertIsNone(together([one, other], "lag_bytes"))
        self.assertEqual(together([one], "lag_messages"), 3)

    def test_one_consumer_counts_all_partitions(self) -> None:
        """A consumer for each partition would read the topic's metadata once for each of them."""
        entry = GroupEntry("g", offsets={tp(0): Offset(0, 1), tp(1): Offset(0, 1)})
        lags = self.lags(entry)
        self.assertEqual([each.lag_messages for each in lags], [50, 50])
        self.assertEqual(len(self.broker.connections), 2)
        self.assertEqual(sum(isinstance(each, Metadata) for each in self.broker.requests), 2)

    def test_an_unreadable_position_is_the_partitions_error(self) -> None:
        """The other partitions of the group are shown all the same."""
        (one, other) = self.lags(GroupEntry("g", offsets={tp(0): Offset(None, 1, "its node has no position")}))
        self.assertEqual((one.error, one.lag_bytes, other.error), ("its node has no position", None, None))

    def test_a_lag_beyond_the_bound_is_not_counted(self) -> None:
        """Counting reads the messages; beyond ``count_bytes`` the bytes are known alone."""
        (one, _) = self.lags(GroupEntry("g", offsets={tp(0): Offset(0, 1)}), count_bytes=100)
        self.assertEqual((one.lag_bytes, one.lag_messages), (self.broker.logs["t"][0].end, None))

    def test_a_loss_is_told_apart_from_the_lag(self) -> None:
        """Removed messages and a position behind the end are given as two positions; the latter is an error, too."""
        log = self.broker.logs["t"][0]
        size = log.end // 50
        del log.data[: 10 * size]
        log.start = 10 * size
        entry = GroupEntry("g", offsets={tp(0): Offset(4 * size, 1), tp(1): Offset(10**9, 1)})
        one, other = self.lags(entry)
        self.assertEqual((one.lost, one.lag_bytes, one.lag_messages), ((4 * size, 10 * size), 40 * size, 40))
        self.assertIn("behind the log's end", other.error or "")
        self.assertEqual((other.lag_bytes, other.lost), (0, (self.broker.logs["t"][1].end, 10**9)))

    def test_a_log_that_begins_anew_is_counted_whole(self) -> None:
        """The lag of a position far below the log's start is what the log has, not the distance between the two."""
        log = self.broker.logs["t"][0]
        log.start = 1 << 40
        one, other = self.lags(GroupEntry("g", offsets={tp(0): Offset(100, 1), tp(1): Offset(0, 1)}))
        self.assertEqual((one.lost, one.lag_bytes, one.lag_messages), ((100, 1 << 40), len(log.data), 50))
        self.assertEqual((other.lost, other.lag_messages), (None, 50))
        self.assertEqual(together([one, other], "lag_bytes"), 2 * len(log.data))

    def test_a_log_that_cannot_be_described_has_an_error(self) -> None:
        """The error stands in that partition's place, and the others are described."""
        del self.broker.logs["t"][0]
        one, other = self.lags(GroupEntry("g", offsets={tp(0): Offset(5, 1), tp(1): Offset(0, 1)}))
        self.assertTrue(one.error)
        self.assertEqual((one.position, other.error, other.lag_messages), (5, None, 50))

    def test_a_leader_that_falls_silent_is_not_waited_for(self) -> None:
        """A leader may stop after it has described the log; each partition gets an error with a remedy."""
        self.broker.silent = (FetchWait,)
        entry = GroupEntry("g", offsets={tp(0): Offset(0, 1), tp(1): Offset(0, 1)})
        reader = LagReader(self.admin, self.consumer, self.clock, lambda: 100.0, seconds=False)
        waiting = Deferred.fromCoroutine(reader.read(entry, [tp(0), tp(1)]))
        self.run_for(0.1)
        self.assertNoResult(waiting)
        run(self.clock, 2 * PATIENCE, 0.1)
        one, other = self.successResultOf(waiting)
        self.assertEqual((one.lag_bytes, one.lag_messages), (self.broker.logs["t"][0].end, None))
        for each in (one, other):
            self.assertIn(f"topic 't', partition {each.partition}", each.error)
            self.assertIn("logd topics describe t", each.error)

    def test_partitions_of_interest_are_found_in_the_tree(self) -> None:
        """These are partitions of topics that are read, by name or pattern, and those with a position or an owner."""
        self.topic("u", 1, 1)
        self.topic("v", 1, 1)
        entry = GroupEntry(
            "g",
            {"a": Subscription({}, (PatternStreams("u.*", 1),))},
            {},
            {tp(1): Offset(5, 1), tp(7, "gone"): Offset(5, 1)},
        )
        found = self.do(partitions_of(self.eye, entry, None))
        self.assertEqual(found, [tp(7, "gone"), *map(tp, range(4)), tp(0, "u")])
        self.assertEqual(self.do(partitions_of(self.eye, entry, "u")), [tp(0, "u")])
        self.assertEqual(self.do(find_brokers(self.eye)), [("model", 6667), ("model", 6668)])

    def test_owners_are_put_together_by_consumer(self) -> None:
        """The id of a stream begins with its consumer's, which may itself begin with another consumer's id."""
        entry = GroupEntry(
            "g",
            {"a": Subscription({"t": 2}), "a-1": Subscription({"t": 1})},
            {tp(0): Owner("a-0", 1), tp(1): Owner("a-1", 1), tp(2): Owner("a-1-0", 2)},
        )
        self.assertEqual(
            dict(streams_by_consumer(entry)), {"a": {"a-0": [tp(0)], "a-1": [tp(1)]}, "a-1": {"a-1-0": [tp(2)]}}
        )


class TargetTests(LagTestCase):
    """``target``, which turns the aim of a reset into a position."""

    def where(self, to: Any) -> int:
        """Return the position that ``to`` means in partition 0."""
        found = self.do(target(self.admin, self.consumer, self.clock, tp(0), to))
        assert isinstance(found, int)
        return found

    def test_ends_and_entry_boundaries_are_accepted(self) -> None:
        """These are the positions at which a message begins, and the end at which the next one will."""
        end = self.broker.logs["t"][0].end
        self.assertEqual([self.where(to) for to in ("earliest", "latest", end // 50, end)], [0, end, end // 50, end])

    def test_a_position_inside_a_message_is_refused(self) -> None:
        """Inside a compressed set each message has a position, and the refusal names the wrapper's."""
        log = self.broker.logs["t"][0]
        size, wrapper = log.end // 50, log.end
        for position in (size - 1, log.end + 1):
            waiting = Deferred.fromCoroutine(target(self.admin, self.consumer, self.clock, tp(0), position))
            self.run_for(0.5)
            self.failureResultOf(waiting, OffsetOutOfRange)
        log.data += wrap([Message(b"x") for _ in range(3)], "gzip")
        self.assertEqual(self.where(log.end - 1), log.end - 1)
        waiting = Deferred.fromCoroutine(target(self.admin, self.consumer, self.clock, tp(0), wrapper + 3))
        self.run_for(0.5)
        self.assertIn(str(wrapper), str(self.failureResultOf(waiting, OffsetOutOfRange).value))

    def test_a_silent_leader_fails_the_reset_in_time(self) -> None:
        """The leader is asked whether a message begins at the position, and does not answer."""
        self.broker.silent = (FetchWait,)
        waiting = Deferred.fromCoroutine(target(self.admin, self.consumer, self.clock, tp(0), 3))
        run(self.clock, 2 * PATIENCE, 0.1)
        text = str(self.failureResultOf(waiting, BrokerUnavailable).value)
        self.assertIn("topic 't', partition 0", text)
        self.assertIn("logd topics describe t", text)


class _Times:
    """A log whose message at position n came at ``times[n]`` (ms), ascending."""

    def __init__(self, times: list[int]) -> None:
        self.times = times
        self.asked = 0

    def describe_log(self, topic: str, partition: int, time: int) -> Deferred[DescribeLogResponse]:
        """Answer as Admin does, and count the questions."""
        self.asked += 1
        position = next((at for at, each in enumerate(self.times) if each >= time), len(self.times))
        return succeed(DescribeLogResponse(0, 0, 9, 9, time_position=position))


class AgesTests(SynchronousTestCase):
    """``age_at``."""

    @given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20), st.integers(0, 10**6), st.data())
    def test_an_age_is_found_by_few_questions(self, times: list[int], later: int, data: st.DataObject) -> None:
        """The age is right to a second or a sixty-fourth, and the log is asked 45 times at most."""
        times.sort()
        now = times[-1] + later
        position = data.draw(st.integers(0, len(times) - 1))
        log: Any = _Times(times)
        age = self.successResultOf(Deferred.fromCoroutine(age_at(log, "t", 0, position, now)))
        true = (now - times[position]) / 1000
        self.assertLessEqual(true - 0.06, age)
        self.assertLessEqual(age, true + max(1.0, age * EXACT) + 0.06)
        self.assertLessEqual(log.asked, 45)
