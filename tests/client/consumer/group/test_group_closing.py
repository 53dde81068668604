"""Tests of the end of a group's consumer."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred

from logd.client.consumer.group_stream import GroupStream
from logd.errors import ClientClosed
from tests.client.groups import Application, ClientGroupTestCase


class ClosingTests(ClientGroupTestCase):
    """``Consumer.close``."""

    def test_a_second_close_waits_for_the_first(self) -> None:
        """Leaving the group is not cut short, and a third close fires at once."""
        app = Application(self).read(30)
        self.run_for(1.0)
        app.coordination.link.delay = lambda: 0.1
        first, second = app.consumer.close(), app.consumer.close()
        self.run_for(0.1)
        self.assertNoResult(first)
        self.assertNoResult(second)
        self.run_for(2.0)
        self.successResultOf(first)
        self.successResultOf(second)
        self.successResultOf(app.consumer.close())

    def test_an_error_inside_async_with_leaves_the_group(self) -> None:
        """The others take over at once, instead of after the session's timeout."""
        first, second = Application(self), Application(self)

        async def fails() -> None:
            async with first.consumer as consumer:
                self.assertIs(consumer, first.consumer)
                async for _ in first.streams[0]:
                    raise KeyError("the application's own fault")

        failing = Deferred.fromCoroutine(fails())
        self.run_for(3.0)
        self.failureResultOf(failing, KeyError)
        assert second.consumer.group is not None
        self.assertEqual([where.partition for where in second.consumer.group.partitions], [0, 1, 2, 3])
        with self.assertRaises(ClientClosed):
            first.consumer.create_message_streams("other", 1)

    def test_a_cancelled_async_with_leaves_the_group(self) -> None:
        """A service that stops its coroutines ends its membership by it."""
        app = Application(self)

        async def waits() -> None:
            async with app.consumer:
                await Deferred()

        waiting = Deferred.fromCoroutine(waits())
        self.run_for(1.0)
        waiting.cancel()
        self.run_for(1.0)
        self.failureResultOf(waiting, CancelledError)
        assert app.consumer.group is not None
        self.assertEqual(app.consumer.group.phase.name, "LEFT")


class ReplacedStreamsTests(ClientGroupTestCase):
    """A stream that an application makes in place of one that it has closed, at once."""

    def test_a_stream_in_place_of_a_closed_one_gets_its_partitions(self) -> None:
        """The subscription is the same as before; reading goes on behind what the former one had handled."""
        app = Application(self, commit_interval=0.0).read(30)
        self.run_for(1.0)
        app.streams[0].close()
        (stream,) = app.consumer.create_message_streams("t", 1)
        assert isinstance(stream, GroupStream)
        app.streams = [stream]
        app.read()
        self.run_for(2.0)
        self.assertEqual(len(stream.partitions()), 4)
        self.assertEqual(sorted({*app.payloads()}), self.everything())
        self.assertEqual(len(app.got), 200 + 1)  # the one in hand
