"""Tests of what a batch or a stream plans to read from the places that were asked for."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import ConfigurationError
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.spark.blocking.range_planning import plan_ranges
from logd.spark.blocking.reading import DataLost
from logd.spark.worker.options import read_options
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic

DATA = encode_set([Message(b"x")] * 100)
ANEW = 1 << 40


class PlanTests(SynchronousTestCase):
    """``plan_ranges`` over topic ``t`` of two partitions, the second of which was lost and begins anew."""

    def setUp(self) -> None:
        """The topic."""
        self.broker = FakeBroker({"t": FakeTopic("u", [FakeLog(DATA), FakeLog(DATA, start=ANEW)])})

    def plan(self, **options: str) -> list[tuple[int, int]]:
        """Start and end of each partition."""
        given = read_options({"subscribe": "t", **options}, streaming=False)
        strict = given.reading.fail_on_data_loss
        ranges = plan_ranges(self.broker.cluster(), given.subscription, given.starting, given.ending, strict)
        return [(each.start, each.end) for each in ranges]

    def refused(self, **options: str) -> str:
        """The words with which they are refused."""
        return str(self.assertRaises(ConfigurationError, self.plan, **options))

    def test_all(self) -> None:
        """From the start of each log to its end."""
        self.assertEqual(self.plan(), [(0, len(DATA)), (ANEW, ANEW + len(DATA))])

    def test_partial(self) -> None:
        """Places that leave out a partition are refused, as by Kafka's source; so are those of one that is not read."""
        self.assertIn("leave out topic 't', partition 1", self.refused(startingOffsets='{"t": {"0": 10}}'))
        self.assertIn("leave out topic 't', partition 1", self.refused(endingOffsets='{"t": {"0": 10}}'))
        by_time = '{"t": {"1": 1320969600000}}'
        self.assertIn("leave out topic 't', partition 0", self.refused(startingOffsetsByTimestamp=by_time))
        self.assertIn("partition 2, which is not read", self.refused(startingOffsets='{"t": {"0": 1, "1": 1, "2": 1}}'))
        text = '{"t": {"0": 10, "1": -2}}'
        self.assertEqual(self.plan(startingOffsets=text), [(10, len(DATA)), (ANEW, ANEW + len(DATA))])

    def test_end_before_start(self) -> None:
        """An end before the start is refused, not read as nothing."""
        start, end = '{"t": {"0": 50, "1": -2}}', '{"t": {"0": 40, "1": -1}}'
        self.assertIn(
            "ending offset 40 is before the starting offset 50", self.refused(startingOffsets=start, endingOffsets=end)
        )
        self.assertEqual(self.plan(startingOffsets=start, endingOffsets=start.replace("-2", "-1"))[0], (50, 50))

    def test_not_in_the_log(self) -> None:
        """A start before a log that begins anew is a loss of an unknown number of messages."""
        text = '{"t": {"0": 0, "1": 77}}'
        error = self.assertRaises(DataLost, self.plan, startingOffsets=text)
        self.assertIn("the starting offset 77 is not in the log", str(error))
        self.assertIn("an unknown number of messages", str(error))
        with self.assertLogs("logd.spark", "WARNING"):
            found = self.plan(startingOffsets=text, failOnDataLoss="false")
        self.assertEqual(found[1], (ANEW, ANEW + len(DATA)))
