"""Tests of logd.spark.blocking.range_planning: the ranges of a batch."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import ConfigurationError, CoordinationUnavailable
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.metadata import BrokerAddress, Metadata, MetadataResponseV1, TopicMetadata
from logd.spark.blocking.range_planning import plan_ranges
from logd.spark.blocking.reading import DataLost
from logd.spark.worker.options import read_options
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic

DATA = encode_set([Message(b"x")] * 100)
ANEW = 1 << 40


class PlanTests(SynchronousTestCase):
    """``plan_ranges`` over topic ``t`` of two partitions, the second of which was lost and begins anew."""

    def setUp(self) -> None:
        """Make the topic."""
        self.broker = FakeBroker({"t": FakeTopic("u", [FakeLog(DATA), FakeLog(DATA, start=ANEW)])})

    def plan(self, **options: str) -> list[tuple[int, int]]:
        """Return start and end of each partition's range."""
        given = read_options({"subscribe": "t", **options}, streaming=False)
        strict = given.reading.fail_on_data_loss
        ranges = plan_ranges(self.broker.cluster(), given.subscription, given.starting, given.ending, strict)
        return [(each.start, each.end) for each in ranges]

    def refused(self, **options: str) -> str:
        """Return the words with which options are refused."""
        return str(self.assertRaises(ConfigurationError, self.plan, **options))

    def test_a_plan_covers_all_logs_by_default(self) -> None:
        """Each range is from the start of the log to its end."""
        self.assertEqual(self.plan(), [(0, len(DATA)), (ANEW, ANEW + len(DATA))])

    def test_offsets_must_cover_the_partitions_read(self) -> None:
        """One that is left out or not read is an error, as with Spark's Kafka source."""
        self.assertIn("leave out topic 't', partition 1", self.refused(startingOffsets='{"t": {"0": 10}}'))
        self.assertIn("leave out topic 't', partition 1", self.refused(endingOffsets='{"t": {"0": 10}}'))
        by_time = '{"t": {"1": 1320969600000}}'
        self.assertIn("leave out topic 't', partition 0", self.refused(startingOffsetsByTimestamp=by_time))
        self.assertIn("partition 2, which is not read", self.refused(startingOffsets='{"t": {"0": 1, "1": 1, "2": 1}}'))
        text = '{"t": {"0": 10, "1": -2}}'
        self.assertEqual(self.plan(startingOffsets=text), [(10, len(DATA)), (ANEW, ANEW + len(DATA))])

    def test_an_end_before_the_start_is_refused(self) -> None:
        """Reading nothing would hide the mistake; an equal end is an empty range."""
        start, end = '{"t": {"0": 50, "1": -2}}', '{"t": {"0": 40, "1": -1}}'
        self.assertIn(
            "ending offset 40 is before the starting offset 50", self.refused(startingOffsets=start, endingOffsets=end)
        )
        self.assertEqual(self.plan(startingOffsets=start, endingOffsets=start.replace("-2", "-1"))[0], (50, 50))

    def test_a_start_outside_the_log_is_a_loss(self) -> None:
        """The log was lost and begins anew, so the number of lost messages is unknown."""
        text = '{"t": {"0": 0, "1": 77}}'
        error = self.assertRaises(DataLost, self.plan, startingOffsets=text)
        self.assertIn("the starting offset 77 is not in the log", str(error))
        self.assertIn("an unknown number of messages", str(error))
        with self.assertLogs("logd.spark", "WARNING"):
            found = self.plan(startingOffsets=text, failOnDataLoss="false")
        self.assertEqual(found[1], (ANEW, ANEW + len(DATA)))

    def test_an_end_after_all_messages_is_that_of_a_log_that_grows(self) -> None:
        """The time of the end is asked for a moment after that of the start, and no message is lost in between."""

        def grow(request: Any) -> None:
            if isinstance(request, DescribeLog):
                self.broker.topics["t"].logs[request.partition].data += DATA

        self.broker.before = grow
        planned = self.plan(startingTimestamp="0", endingTimestamp="4102444800000")
        self.assertEqual([end - start for start, end in planned], [len(DATA)] * 2)
        self.assertEqual(planned[1][1], ANEW + 3 * len(DATA))

    def test_an_error_that_passes_is_waited_for(self) -> None:
        """A broker that has just started may not have read the rules of access yet."""
        left = 3

        def before(request: Any) -> MetadataResponseV1 | None:
            nonlocal left
            left -= isinstance(request, Metadata)
            if left < 0:
                return None
            refused = TopicMetadata("t", CoordinationUnavailable.code, "", ())
            return MetadataResponseV1((BrokerAddress(0, "fake", 1),), (refused,))

        self.broker.before = before
        self.assertEqual(len(self.plan()), 2)
        left = 10_000
        failed = self.assertRaises(CoordinationUnavailable, self.plan)
        self.assertIn("topic 't'", str(failed))
