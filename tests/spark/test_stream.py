"""Tests of the stream reader's planning against a made-up broker."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.spark.blocking.reading import DataLost
from logd.spark.worker.options import read_options
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic

#: Where a log begins anew that was lost.
ANEW = 1 << 40

DATA = encode_set([Message(b"%04d" % number) for number in range(100)])


class StreamTests(SynchronousTestCase):
    """From offsets to offsets."""

    def setUp(self) -> None:
        """A topic of one partition."""
        if find_spec("pyspark") is None:
            self.skipTest("pyspark is not installed")
        self.log = FakeLog(DATA)
        self.broker = FakeBroker({"t": FakeTopic("u", [self.log])})

    def reader(self, **options: str) -> Any:
        """A stream of it."""
        from logd.spark.driver.stream import StreamReader

        reader = StreamReader(read_options({"subscribe": "t", **options}, streaming=True))
        reader._cluster = self.broker.cluster(retry_timeout=1.0)
        return reader

    def reached(self, reader: Any, start: dict[str, Any]) -> int:
        """How far a batch from ``start`` goes."""
        offset = reader.latestOffset(start, reader.getDefaultReadLimit())
        return self.position(offset)

    @staticmethod
    def position(offset: dict[str, Any]) -> int:
        """The one of partition 0."""
        position: int = offset["topics"]["t"]["partitions"]["0"]
        return position

    def batch(self, reader: Any, start: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[int, int]]]:
        """The offset that a batch from ``start`` reaches, and the ranges that it reads."""
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        return end, [(each.value.start, each.value.end) for each in reader.partitions(start, end)]

    def test_log_that_ends_before(self) -> None:
        """A log that lost its end is a loss, and told to, the stream goes on at the end: all that comes is read."""
        start = self.reader(startingOffsets="latest").initialOffset()
        self.assertEqual(self.reached(self.reader(), start), len(DATA))
        self.log.data = DATA[:130]
        error = self.assertRaises(DataLost, self.reached, self.reader(), start)
        self.assertIn(f"unknown number of messages between 130 and {len(DATA)}", str(error))
        reader = self.reader(failOnDataLoss="false")
        with self.assertLogs("logd.spark", "WARNING") as logged:
            end, ranges = self.batch(reader, start)
        self.assertEqual((self.position(end), ranges), (130, []))
        self.assertIn("the stream goes on at 130", logged.output[0])
        self.log.data = DATA
        self.assertEqual(self.batch(reader, end)[1], [(130, len(DATA))])

    def test_log_that_begins_behind(self) -> None:
        """A log that was lost begins far above all ids: one loss, said once, and no batch of what lies between."""
        start = self.reader(startingOffsets="latest").initialOffset()
        self.log.start, self.log.data = ANEW, DATA
        error = self.assertRaises(DataLost, self.reached, self.reader(), start)
        self.assertIn(f"unknown number of messages from {len(DATA)} to {ANEW}", str(error))
        reader = self.reader(failOnDataLoss="false", maxBytesPerTrigger=str(len(DATA) // 2))
        with self.assertLogs("logd.spark", "WARNING") as logged:
            end, ranges = self.batch(reader, start)
        self.assertEqual(len(logged.output), 1)
        self.assertEqual(ranges, [(ANEW, ANEW + len(DATA) // 2)])
        again = self.reader(failOnDataLoss="false").partitions(start, end)
        self.assertEqual([(each.value.start, each.value.end) for each in again], ranges)
        with self.assertNoLogs("logd.spark", "WARNING"):
            end, ranges = self.batch(reader, end)
        self.assertEqual(ranges, [(ANEW + len(DATA) // 2, ANEW + len(DATA))])
        self.log.start, self.log.data = 0, DATA
        end, _ = self.batch(reader, end)
        self.log.data = DATA + DATA
        self.assertEqual(self.batch(reader, end)[1], [(len(DATA), len(DATA) + len(DATA) // 2)])

    def test_new_partition(self) -> None:
        """One that comes later begins where its log does, also where that is far above 0."""
        start = self.reader().initialOffset()
        self.broker.topics["t"].logs.append(FakeLog(DATA, start=ANEW))
        self.assertEqual(self.batch(self.reader(), start)[1], [(ANEW, ANEW + len(DATA))])

    def test_messages_per_trigger(self) -> None:
        """With maxOffsetsPerTrigger a batch takes about so many messages, whatever their size."""
        entry = len(DATA) // 100
        _, ranges = self.batch(self.reader(maxOffsetsPerTrigger="10"), self.beginning())
        self.assertEqual(ranges, [(0, 10 * entry)])
        self.log.data = DATA + encode_set([Message(bytes(50_000))] * 20)
        _, ranges = self.batch(self.reader(maxOffsetsPerTrigger="100"), self.beginning())
        self.assertGreaterEqual(ranges[0][1], 50 * entry)
        start = self.beginning()
        start["topics"]["t"]["partitions"]["0"] = len(DATA)
        _, ranges = self.batch(self.reader(maxOffsetsPerTrigger="5"), start)
        self.assertEqual(ranges, [(len(DATA), len(DATA) + 5 * 50_009)])
        self.assertEqual(self.batch(self.reader(maxOffsetsPerTrigger="5"), {**start, **self.at_end()})[1], [])

    def beginning(self) -> dict[str, Any]:
        """The offset at 0."""
        offset: dict[str, Any] = self.reader(startingOffsets="earliest").initialOffset()
        return offset

    def at_end(self) -> dict[str, Any]:
        """The offset at the log's end."""
        offset: dict[str, Any] = self.reader(startingOffsets="latest").initialOffset()
        return offset
