"""Tests of the stream reader's planning against a made-up broker."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.spark.options import read_options
from logd.spark.reading import DataLost
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic

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
        from logd.spark.stream import StreamReader

        reader = StreamReader(read_options({"subscribe": "t", **options}, streaming=True))
        reader._cluster = self.broker.cluster(retry_timeout=1.0)
        return reader

    def reached(self, reader: Any, start: dict[str, Any]) -> int:
        """How far a batch from ``start`` goes."""
        offset = reader.latestOffset(start, reader.getDefaultReadLimit())
        position: int = offset["topics"]["t"]["partitions"]["0"]
        return position

    def test_log_that_ends_before(self) -> None:
        """A log that lost its end gives the same ids again: that is a loss, said before any of it is passed over."""
        start = self.reader(startingOffsets="latest").initialOffset()
        self.assertEqual(self.reached(self.reader(), start), len(DATA))
        self.log.data = DATA[:130]
        error = self.assertRaises(DataLost, self.reached, self.reader(), start)
        self.assertIn(f"ends at 130, before {len(DATA)}", str(error))
        with self.assertLogs("logd.spark", "WARNING") as logged:
            self.assertEqual(self.reached(self.reader(failOnDataLoss="false"), start), len(DATA))
        self.assertIn("the stream goes on behind", logged.output[0])
