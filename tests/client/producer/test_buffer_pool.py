"""Tests of logd.client.producer.buffer_pool."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.client.producer.buffer_pool import BufferPool
from logd.errors import ProducerBufferFull


class RoomTests(SynchronousTestCase):
    """BufferPool."""

    def setUp(self) -> None:
        """A room of ten bytes with a line of two."""
        self.room = BufferPool(10, 2)
        self.admitted: list[str] = []

    def wait(self, name: str, size: int = 10) -> object:
        """Stand in line; once admitted take ``size`` bytes."""

        def admit() -> None:
            self.admitted.append(name)
            self.room.take(size)

        return self.room.wait(admit)

    def test_admits_in_order(self) -> None:
        """Whoever waits is admitted in the order of arrival, as room comes."""
        self.room.take(10)
        self.wait("a")
        self.wait("b")
        self.room.give(10)
        self.assertEqual(self.admitted, ["a"])
        self.room.give(10)
        self.assertEqual(self.admitted, ["a", "b"])

    def test_nobody_overtakes(self) -> None:
        """While somebody waits there is no free room, even if bytes are free."""
        seen: list[bool] = []
        self.room.take(10)
        self.room.wait(lambda: seen.append(self.room.free))
        self.wait("b", 1)
        self.room.give(5)
        self.assertEqual((seen, self.room.free), ([False], True))

    def test_line_is_bounded(self) -> None:
        """One more than allowed in line is refused; one who left makes a place."""
        self.room.take(10)
        first = self.wait("a")
        self.wait("b")
        self.assertRaises(ProducerBufferFull, self.wait, "c")
        self.room.leave(first)  # type: ignore[arg-type]  # a Place
        self.wait("c")
        self.room.give(10)
        self.assertEqual(self.admitted, ["b"])

    def test_ready_waits_behind_the_line(self) -> None:
        """ready fires when there is room after those who waited before; it takes no place that counts."""
        self.assertEqual(self.successResultOf(self.room.ready()), None)
        self.room.take(10)
        self.wait("a", 4)
        self.wait("b", 4)
        ready = self.room.ready()
        self.room.give(1)
        self.assertNoResult(ready)
        self.room.give(6)
        self.assertNoResult(ready)
        self.room.give(2)
        self.successResultOf(ready)
        self.assertEqual(self.admitted, ["a", "b"])

    def test_cancelled_ready_holds_nobody_up(self) -> None:
        """Cancelling ready at the head of the line lets the next one in as if it had never been there."""
        self.room.take(10)
        ready = self.room.ready()
        self.wait("a")
        ready.cancel()
        self.failureResultOf(ready)
        self.room.give(1)
        self.assertEqual(self.admitted, ["a"])

    def test_giving_back_while_admitted(self) -> None:
        """Somebody who is admitted and lets go at once does not nest admissions."""
        self.room.take(10)

        def admit() -> None:
            self.admitted.append("a")
            self.room.give(0)

        self.room.wait(admit)
        self.room.wait(lambda: self.admitted.append("b"))
        self.room.give(10)
        self.assertEqual(self.admitted, ["a", "b"])
