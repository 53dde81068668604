"""Tests of streams of groups and for threads that an application drops without closing them."""

from __future__ import annotations

import contextlib
import gc

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from logd.client.blocking.clients import Consumer as BlockingConsumer
from logd.client.consumer.consumer import Consumer
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from tests.client.doubles import ModelBroker
from tests.client.dropped_streams import OwnFaultError, fail_in_a_loop, warnings_of
from tests.client.groups import Application, ClientGroupTestCase
from tests.frozen_objects import freeze_others


class DroppedMemberTests(ClientGroupTestCase):
    """Streams of a group."""

    def setUp(self) -> None:
        """Collect the warnings."""
        super().setUp()
        freeze_others(self)
        self.told = warnings_of(self)

    def test_a_failed_loop_gives_its_partitions_up(self) -> None:
        """The other member gets them all, from where the first one's handling ended."""
        first = Application(self)
        second = Application(self).read()
        self.run_for(2.0)
        self.assertEqual(len(first.streams[0].partitions()), 2)
        begun = first.streams[0].partitions()[0]
        failing = Deferred.fromCoroutine(fail_in_a_loop(first.streams.pop(), 21))
        self.run_for(1.0)
        failure = self.failureResultOf(failing, OwnFaultError)
        failure.cleanFailure()
        del failure, failing
        gc.collect()
        self.run_for(2.0)
        (event,) = self.told
        self.assertEqual((event["topic"], event["group"]), ("t", "g"))
        self.assertEqual(len(second.streams[0].partitions()), 4)
        again = [each for each in second.payloads() if each.startswith(b"t-%d-" % begun.partition)]
        self.assertEqual(again[0], b"t-%d-0020" % begun.partition)  # the one in hand comes again, those before do not
        assert first.consumer.group is not None
        self.assertEqual(first.consumer.group.partitions, ())
        self.assertEqual(first.consumer.group.phase.name, "STEADY")

    def test_a_kept_consumer_opens_another_stream(self) -> None:
        """The new stream goes on where the dropped one was."""
        app = Application(self, commit_interval=0.0).read(10)
        self.run_for(1.0)
        app.streams.clear()
        app.loops.clear()
        self.run_for(1.0)
        self.assertEqual(len(self.told), 1)
        (stream,) = app.consumer.create_message_streams("t", 1)
        app.streams.append(stream)  # type: ignore[arg-type]  # a GroupStream
        app.read()
        self.run_for(1.0)
        self.assertEqual(sorted({*app.payloads()}), self.everything())
        self.assertEqual(len(app.got), 201)

    def test_a_kept_stream_gets_all_partitions(self) -> None:
        """The partitions of the dropped one would not be read by anyone otherwise."""
        app = Application(self, n=2)
        self.run_for(1.0)
        self.assertEqual([len(stream.partitions()) for stream in app.streams], [2, 2])
        del app.streams[0]
        self.run_for(1.0)
        self.assertEqual([len(stream.partitions()) for stream in app.streams], [4])
        app.read()
        self.run_for(1.0)
        self.assertEqual(sorted(app.payloads()), self.everything())

    def test_a_dropped_consumer_leaves_its_group(self) -> None:
        """The client of the tree, which the application still holds, stays connected."""
        second = Application(self)
        first = Application(self)
        coordination = first.coordination  # its session would end with it
        consumer: Consumer | None = first.consumer
        del first
        self.run_for(2.0)
        self.assertEqual(len(second.streams[0].partitions()), 4)  # its streams were dropped at once
        self.assertEqual(len(self.told), 1)
        children = self.eye.get_children("/consumers/g/ids")
        self.run_for(0.1)
        self.assertEqual(len(self.successResultOf(children)), 2)
        consumer = None
        self.run_for(2.0)
        self.assertIsNone(consumer)
        self.assertEqual(coordination.state.name, "CONNECTED")
        children = self.eye.get_children("/consumers/g/ids")
        self.run_for(0.1)
        self.assertEqual(len(self.successResultOf(children)), 1)

    def test_a_closed_stream_gives_its_partitions_back(self) -> None:
        """No warning is logged then, nor later when the stream is dropped."""
        first, second = Application(self), Application(self)
        self.run_for(2.0)
        first.streams[0].close()
        self.run_for(2.0)
        self.assertEqual(len(second.streams[0].partitions()), 4)
        first.consumer.close()
        first.streams.clear()
        self.run_for(1.0)
        self.assertEqual(self.told, [])


class DroppedBlockingTests(TestCase):
    """Streams for threads, under the real reactor."""

    timeout = 240

    def setUp(self) -> None:
        """Fill a topic of one partition."""
        freeze_others(self)
        self.told = warnings_of(self)
        self.broker = ModelBroker(reactor, delay=0.0)  # type: ignore[arg-type]  # a clock all the same
        self.logs = self.broker.add("t", 1)
        self.logs[0].data += encode_set([Message(b"%d" % number) for number in range(10_000)])

    async def test_a_failed_thread_drops_its_stream(self) -> None:
        """The loop ends in the middle of many batches; the consumer can open another stream."""

        def loop(consumer: BlockingConsumer) -> None:
            (stream,) = consumer.create_message_streams("t", 1)
            for number, _ in enumerate(stream):
                if number == 250:
                    raise OwnFaultError

        def work() -> tuple[bytes | None, int]:
            with BlockingConsumer("model:1", connect=self.broker.connect, decode_messages=100) as consumer:
                with contextlib.suppress(OwnFaultError):
                    loop(consumer)
                gc.collect()
                (stream,) = consumer.create_message_streams("t", 1)
                return stream.get(20).payload, len(self.told)

        self.assertEqual(await deferToThread(work), (b"0", 1))

    async def test_an_unread_stream_is_dropped(self) -> None:
        """Batches that wait between the two threads must not keep it alive."""

        def work() -> None:
            consumer = BlockingConsumer("model:1", connect=self.broker.connect, decode_messages=100)
            (stream,) = consumer.create_message_streams("t", 1)
            stream.get(20)

        await deferToThread(work)
        gc.collect()
        while not self.told:  # at most ``timeout``
            await turn()
        self.assertEqual(len(self.told), 1)


def turn() -> Deferred[None]:
    """Let the reactor run for a moment."""
    waiting: Deferred[None] = Deferred()
    reactor.callLater(0.01, waiting.callback, None)
    return waiting
