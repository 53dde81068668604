"""Tests of MessageStream.handle that is cancelled by what it calls itself."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from logd.protocol.message import Message
from tests.client.consumers import ConsumerTestCase


class CancelledHandlingTests(ConsumerTestCase):
    """A topic of three partitions with one hundred messages each, and functions that cancel their handling."""

    def check(self, function: Any, **settings: Any) -> None:
        """Check that a handling ends when ``function``, called with its third message, cancels it."""
        got: list[int] = []
        stream = self.stream([0])

        def handler(message: Message) -> Any:
            got.append(message.id)
            return function(handling) if got == [0, 19, 38] else None

        handling = stream.handle(handler, **settings)
        self.run_for()
        self.failureResultOf(handling, CancelledError)
        self.assertEqual((got, stream.positions()), ([0, 19, 38], {0: 38}))
        again = stream.handle(handler)
        self.run_for(2.0)
        self.assertNoResult(again)
        self.assertEqual(got[3:], list(range(38, 1900, 19)))

    def test_cancelling_from_inside_ends_it(self) -> None:
        """No further message comes, and the one at hand comes again to the next handling."""
        for concurrency in (1, 2):
            self.check(lambda handling: handling.cancel(), concurrency=concurrency)

    def test_cancelling_before_the_first_wait_ends_it(self) -> None:
        """The coroutine that waits then is cancelled in turn."""
        ended: list[BaseException] = []

        async def cancels(handling: Deferred[None]) -> None:
            handling.cancel()
            try:
                await Deferred()
            except CancelledError as error:
                ended.append(error)
                raise

        self.check(cancels)
        self.assertEqual(len(ended), 1)

    def test_an_error_after_cancelling_is_no_dead_letter(self) -> None:
        """The message comes again, as one whose function was cut short."""

        def fails(handling: Deferred[None]) -> None:
            handling.cancel()
            raise ValueError("cut short")

        self.check(fails, retries=0, dead_letters="t.dead")
        self.assertNotIn("t.dead", self.broker.logs)
