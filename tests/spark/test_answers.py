"""Tests of answers that do not fit their questions: nothing of them becomes a row, and nobody waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import BrokerUnavailable, DeliveryFailed, UnknownTopic, UnsupportedVersion
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse
from logd.protocol.requests.fetch_wait import FetchedPart, FetchWait, FetchWaitResponse
from logd.protocol.requests.metadata import Metadata, MetadataResponse
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducedPart
from logd.protocol.requests.responses import ErrorResponse
from logd.spark.blocking.producing import ExecutorProducer
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import RangeReader, ReadSettings
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic

DATA = encode_set([Message(b"%04d" % number) for number in range(100)])


class AnswerTests(SynchronousTestCase):
    """A broker that answers what was not asked."""

    def setUp(self) -> None:
        """A log."""
        self.broker = FakeBroker({"t": FakeTopic("u", [FakeLog(DATA)])})
        self.cluster = self.broker.cluster(retry_timeout=2.0)

    def answer(self, kind: type[Any], response: Callable[[Any], Any]) -> None:
        """Have requests of a kind answered so."""
        self.broker.before = lambda request: response(request) if isinstance(request, kind) else None

    @staticmethod
    def first(response: Any, request: Any) -> Any:
        """The response, whatever was asked."""
        return response

    def read(self) -> int:
        """Read the log; return how many messages came."""
        reader = RangeReader(self.cluster, IdRange("t", "u", 0, 0, len(DATA)), ReadSettings(fetch_bytes=200))
        return sum(len(rows) for rows in reader.rows())

    def test_fetch(self) -> None:
        """Bytes from further on, of another partition, of none: the connection is given up, and then the read."""
        for response in (
            FetchWaitResponse(()),
            FetchWaitResponse((FetchedPart("t", 1, 0, 0, len(DATA), 0, DATA),)),
            FetchWaitResponse((FetchedPart("t", 0, 0, 0, len(DATA), 26, DATA[26:]),)),
        ):
            self.answer(FetchWait, partial(self.first, response))
            error = self.assertRaises(BrokerUnavailable, self.read)
            self.assertIn("its answer to FetchWait is invalid", str(error))
        self.assertGreater(len(self.broker.slept), 3)

    def test_inexact_fetch(self) -> None:
        """Bytes from before those that continue a piece would be taken for its end."""
        before = FetchWaitResponse((FetchedPart("t", 0, 0, 0, len(DATA), 0, DATA[:200]),))
        self.answer(FetchWait, lambda request: before if request.parts[0].exact else None)
        self.assertIn("begins at 0 in place of 200", str(self.assertRaises(BrokerUnavailable, self.read)))

    def test_produce(self) -> None:
        """An acknowledgement of nothing, or of what was not sent, is none: the batch is sent again, then given up."""
        for parts in ((), (ProducedPart("t", 7, 0, 7, 0, 10),)):
            self.answer(ProduceAck, partial(self.first, ProduceAckResponse(parts)))
            producer = ExecutorProducer(self.cluster)
            producer.send("t", Message(b"x"), 0)
            failed = self.assertRaises(DeliveryFailed, producer.flush)
            self.assertIn("its answer to ProduceAck is invalid", str(failed))

    def test_describe(self) -> None:
        """Boundaries that are missing are not taken for none."""
        self.answer(DescribeLog, lambda _: DescribeLogResponse(0, 0, len(DATA), len(DATA)))
        failed = self.assertRaises(BrokerUnavailable, self.cluster.describe, "t", 0, (5,))
        self.assertIn("0 boundaries for 1 positions", str(failed))

    def test_refused(self) -> None:
        """A request that is refused as a whole, by a broker of another release, fails with what that says."""
        text = "version 9 of type 18 is not known here"
        for kind in (FetchWait, Metadata):
            self.answer(kind, lambda _: ErrorResponse(UnsupportedVersion.code, text))
            error = self.assertRaises(UnsupportedVersion, self.read)
            self.assertIn(f"the broker at fake:1: {text}", str(error))
        self.assertEqual(self.broker.slept, [])

    def test_no_topic(self) -> None:
        """Metadata without the topic that was asked for is no topic."""
        self.answer(Metadata, lambda _: MetadataResponse((), ()))
        self.assertIn("said nothing about topic 't'", str(self.assertRaises(UnknownTopic, self.cluster.topic, "t")))
