"""Tests of Spark's reader when the broker that it asks led before, and does not know its successor yet."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.spark.blocking.offsets import parse_offsets
from logd.spark.blocking.range_planning import plan_ranges
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import RangeReader, ReadSettings
from logd.spark.blocking.subscription import SourceSubscription
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic

VALUES: list[bytes | None] = [b"%04d" % number for number in range(100)]
DATA = encode_set([Message(value) for value in VALUES])
#: The bytes of the messages that the former leader has, and their number.
OLD_BYTES, OLD = len(DATA) // 2, len(VALUES) // 2


class DeposedLeaderReadingTests(SynchronousTestCase):
    """Three brokers, of which the first led, and has half of the log."""

    def setUp(self) -> None:
        """Fill a log, whose second half lies behind the former leader's end."""
        self.log = FakeLog(DATA)
        self.broker = FakeBroker({"t": FakeTopic("u", [self.log])}, hosts=("one", "two", "three"))
        self.cluster = self.broker.cluster()
        self.settings = ReadSettings(fetch_bytes=200, fail_on_data_loss=False)
        self.reader = RangeReader(self.cluster, IdRange("t", "u", 0, OLD_BYTES + 17, len(DATA)), self.settings)

    def read(self) -> list[bytes | None]:
        """Read the range."""
        return [value for rows in self.reader.rows() for value in rows.values]

    def test_the_messages_are_not_lost(self) -> None:
        """The next leader has them, whatever the first broker says."""
        self.broker.depose("one", self.log, DATA[:OLD_BYTES], 1)
        self.assertEqual(self.read(), VALUES[OLD + 1 :])
        self.assertEqual(self.reader.report.losses, [])

    def test_messages_that_the_leader_has_not_are_lost(self) -> None:
        """The others name no later leader."""
        self.log.data = DATA[:OLD_BYTES]
        self.assertEqual(self.read(), [])
        self.assertEqual(self.reader.report.losses, [(OLD_BYTES + 17, len(DATA))])

    def test_it_is_no_loss_where_a_loss_fails(self) -> None:
        """A query that may lose nothing goes on as well."""
        self.broker.depose("one", self.log, DATA[:OLD_BYTES], 1)
        strict = ReadSettings(fetch_bytes=200)
        self.reader = RangeReader(self.cluster, IdRange("t", "u", 0, OLD_BYTES + 17, len(DATA)), strict)
        self.assertEqual(self.read(), VALUES[OLD + 1 :])

    def test_a_plan_names_what_the_next_leader_has(self) -> None:
        """Neither the start nor the end of a batch is moved to the former leader's end, or taken for lost."""
        self.broker.depose("one", self.log, DATA[:OLD_BYTES], 1)
        places = [parse_offsets(f'{{"t": {{"0": {at}}}}}', "latest") for at in (OLD_BYTES + 17, len(DATA), 17)]
        everything = SourceSubscription(topics=("t",))
        for start, strict in ((places[0], False), (places[0], True), (places[2], True)):
            with self.broker.cluster() as cluster:
                (planned,) = plan_ranges(cluster, everything, start, places[1], strict)
            self.assertEqual((planned.start, planned.end), (start.at("t", 0).position, len(DATA)))
