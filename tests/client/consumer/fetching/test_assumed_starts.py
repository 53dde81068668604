"""Tests of reading from the earliest message: a fetch finds the log's start, without a request for its ends."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.consumer import Consumer
from logd.client.consumer.fetching.partition_fetch import FetchState, PartitionFetch
from logd.client.settings import ConsumerSettings
from logd.errors import PartitionOffline
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.requests.describe_log import DescribeLog
from tests.client.doubles import ModelBroker, run

ENTRY = encode_set([Message(b"message")])


class AssumedStartTests(SynchronousTestCase):
    """A consumer of three partitions: one from position 0, one whose beginning was removed, and an empty one."""

    def setUp(self) -> None:
        """Make the logs, and begin to read them."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        logs = self.broker.add("t", 3)
        logs[0].data += ENTRY
        logs[1].start = 5000
        logs[1].data += ENTRY
        self.consumer = Consumer(
            "model:6667", reactor=self.clock, connect=self.broker.connect, random=lambda: 0.5, max_wait=60.0
        )
        (self.stream,) = self.consumer.create_message_streams("t", 1)

    def test_every_log_is_read_from_its_start(self) -> None:
        """The log that begins later has lost nothing that was asked for; no request but fetches was needed."""
        ids: dict[int, int] = {}

        async def read() -> None:
            async for message in self.stream:
                ids[message.partition] = message.id

        Deferred.fromCoroutine(read())
        run(self.clock, 1.0, 0.01)
        self.assertEqual(ids, {0: 0, 1: 5000})
        self.assertEqual(self.stream.jumps, 0)
        self.assertEqual([each for each in self.broker.requests if isinstance(each, DescribeLog)], [])

    def test_positions_of_empty_logs_are_known_at_once(self) -> None:
        """The broker is not asked to wait for bytes until the first answer has come."""
        run(self.clock, 1.0, 0.01)
        self.assertEqual(self.stream.positions(), {0: 0, 1: 5000, 2: 0})
        self.broker.add("empty", 2)
        (stream,) = self.consumer.create_message_streams("empty", 1)
        run(self.clock, 1.0, 0.01)
        self.assertEqual(stream.positions(), {0: 0, 1: 0})

    def test_an_offline_partition_is_described(self) -> None:
        """Its broker says in the description why it is offline; a fetch would only fail."""
        self.broker.add("u")
        self.broker.partition_errors["u", 0] = PartitionOffline.code
        (stream,) = self.consumer.create_message_streams("u", 1)
        run(self.clock, 1.0, 0.01)
        described = [each.topic for each in self.broker.requests if isinstance(each, DescribeLog)]
        self.assertIn("u", described)
        self.assertEqual(stream.positions(), {0: 0})

    def test_a_reader_to_the_end_is_told_of_an_empty_log(self) -> None:
        """It waits for the positions of partitions without messages too."""
        ended: list[bool] = []

        async def read() -> None:
            async for _ in self.stream.batches(until={0: len(ENTRY), 1: 5000 + len(ENTRY), 2: 0}):
                pass
            ended.append(True)

        Deferred.fromCoroutine(read())
        run(self.clock, 1.0, 0.01)
        self.assertEqual(ended, [True])


class AssumedFetchTests(SynchronousTestCase):
    """The state of one partition until the first answer."""

    def setUp(self) -> None:
        """Assume the start, and ask from there."""
        self.fetch = PartitionFetch("t", 0, "earliest", ConsumerSettings())
        self.assertIs(self.fetch.state, FetchState.LOCATING)
        self.fetch.assume_start()
        wanted = self.fetch.wanted(10_000)
        assert wanted is not None
        self.wanted = wanted
        self.fetch.asked(wanted)

    def test_the_position_is_unknown_until_the_answer(self) -> None:
        """An answer without bytes is enough."""
        self.assertEqual((self.wanted.offset, self.wanted.exact), (0, False))
        self.assertEqual((self.fetch.position, self.fetch.behind), (-1, True))
        self.assertTrue(self.fetch.received(self.wanted, 0, b"", 0))
        self.assertEqual((self.fetch.position, self.fetch.behind), (0, False))

    def test_a_log_that_begins_later_is_no_loss(self) -> None:
        """Reading begins where the log does; a second answer of this kind is a jump again."""
        self.assertTrue(self.fetch.begins_elsewhere(self.wanted, 700))
        self.assertEqual((self.fetch.position, self.fetch.losses.jumps), (700, 0))
        again = self.fetch.wanted(10_000)
        assert again is not None
        self.fetch.asked(again)
        self.assertFalse(self.fetch.begins_elsewhere(again, 900))

    def test_a_seek_ends_the_assumption(self) -> None:
        """An answer to the fetch under way means nothing then."""
        self.fetch.seek(300)
        self.assertFalse(self.fetch.begins_elsewhere(self.wanted, 700))
        self.assertEqual(self.fetch.position, 300)

    def test_another_topic_of_that_name_is_asked_again(self) -> None:
        """Bytes of the former topic, under way, are not taken for its bytes."""
        self.fetch.made_again("uuid", 0, 0)
        self.assertFalse(self.fetch.received(self.wanted, 0, ENTRY, len(ENTRY)))
        self.assertEqual((self.fetch.position, self.fetch.losses.jumps), (-1, 0))
