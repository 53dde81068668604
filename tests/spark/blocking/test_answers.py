"""Tests of answers that do not fit their requests: no row comes of them, and no caller waits for ever."""

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
from logd.protocol.requests.metadata import Metadata, MetadataResponseV1
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducedPart
from logd.protocol.requests.responses import ErrorResponse
from logd.spark.blocking.producing import ExecutorProducer
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import RangeReader, ReadSettings
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic

DATA = encode_set([Message(b"%04d" % number) for number in range(100)])


class AnswerTests(SynchronousTestCase):
    """A broker that answers something else than was asked."""

    def setUp(self) -> None:
        """Fill a log."""
        self.broker = FakeBroker({"t": FakeTopic("u", [FakeLog(DATA)])})
        self.cluster = self.broker.cluster(retry_timeout=2.0)

    def answer(self, kind: type[Any], response: Callable[[Any], Any]) -> None:
        """Have requests of a kind answered by ``response``."""
        self.broker.before = lambda request: response(request) if isinstance(request, kind) else None

    @staticmethod
    def first(response: Any, request: Any) -> Any:
        """Return the response, whatever the request is."""
        return response

    def read(self) -> int:
        """Read the log, and return the number of messages."""
        reader = RangeReader(self.cluster, IdRange("t", "u", 0, 0, len(DATA)), ReadSettings(fetch_bytes=200))
        return sum(len(rows) for rows in reader.rows())

    def test_an_answer_with_other_bytes_fails_the_read(self) -> None:
        """The bytes may be from further on, of another partition, or missing; the connection is given up first."""
        for response in (
            FetchWaitResponse(()),
            FetchWaitResponse((FetchedPart("t", 1, 0, 0, len(DATA), 0, DATA),)),
            FetchWaitResponse((FetchedPart("t", 0, 0, 0, len(DATA), 26, DATA[26:]),)),
        ):
            self.answer(FetchWait, partial(self.first, response))
            error = self.assertRaises(BrokerUnavailable, self.read)
            self.assertIn("its answer to FetchWait is invalid", str(error))
        self.assertGreater(len(self.broker.slept), 3)

    def test_a_continuation_must_begin_where_it_was_asked(self) -> None:
        """Bytes from before would be taken for the end of an entry."""
        before = FetchWaitResponse((FetchedPart("t", 0, 0, 0, len(DATA), 0, DATA[:200]),))
        self.answer(FetchWait, lambda request: before if request.parts[0].exact else None)
        self.assertIn("begins at 0 in place of 200", str(self.assertRaises(BrokerUnavailable, self.read)))

    def test_an_acknowledgement_of_another_set_is_none(self) -> None:
        """The batch is sent again, and then given up with an error."""
        for parts in ((), (ProducedPart("t", 7, 0, 7, 0, 10),)):
            self.answer(ProduceAck, partial(self.first, ProduceAckResponse(parts)))
            producer = ExecutorProducer(self.cluster)
            producer.send("t", Message(b"x"), 0)
            failed = self.assertRaises(DeliveryFailed, producer.flush)
            self.assertIn("its answer to ProduceAck is invalid", str(failed))

    def test_missing_boundaries_are_an_error(self) -> None:
        """A range would otherwise be cut at the wrong places."""
        self.answer(DescribeLog, lambda _: DescribeLogResponse(0, 0, len(DATA), len(DATA)))
        failed = self.assertRaises(BrokerUnavailable, self.cluster.describe, "t", 0, (5,))
        self.assertIn("0 boundaries for 1 positions", str(failed))

    def test_a_refused_request_fails_with_the_brokers_words(self) -> None:
        """A broker of another release refuses it whole, so it is not tried again."""
        text = "version 9 of type 18 is not known here"
        for kind in (FetchWait, Metadata):
            self.answer(kind, lambda _: ErrorResponse(UnsupportedVersion.code, text))
            error = self.assertRaises(UnsupportedVersion, self.read)
            self.assertIn(f"the broker at fake:1: {text}", str(error))
        self.assertEqual(self.broker.slept, [])

    def test_metadata_without_the_topic_is_an_error(self) -> None:
        """The topic is taken for one that does not exist."""
        self.answer(Metadata, lambda _: MetadataResponseV1((), ()))
        self.assertIn("said nothing about topic 't'", str(self.assertRaises(UnknownTopic, self.cluster.topic, "t")))
