"""Tests of Offsets, the question of 0.7 about segments and time."""

from __future__ import annotations

from logd.protocol.requests.legacy_requests import EARLIEST_TIME, LATEST_TIME, Offsets, Produce
from logd.protocol.requests.legacy_responses import OffsetsResponse
from tests.broker.doubles import BrokerTestCase
from tests.log.entries import plain

ENTRY = plain(b"123")


class OffsetsTests(BrokerTestCase):
    """Segment starts by time."""

    log_options = {"segment_bytes": 100}  # noqa: RUF012

    def setUp(self) -> None:
        """A topic, and a clock that has gone on since it was made."""
        super().setUp()
        self.create("t", 2)
        self.peer = self.connect()
        self.clock.advance(10)

    def offsets(self, time: int, count: int = 100, topic: str = "t", partition: int = 0) -> tuple[int, tuple[int, ...]]:
        """Ask, and return error and offsets."""
        answer = self.ask(self.peer, Offsets(topic, partition, time, count))
        assert isinstance(answer, OffsetsResponse)
        return answer.error, answer.offsets

    def example(self, *groups: int) -> None:
        """The example of 20 appends of 12 bytes to segments of 100, so many in each read."""
        for count in groups:
            self.peer.send(*[Produce("t", 0, ENTRY)] * count)
        self.settle()
        self.before = int(self.clock.seconds() * 1000)
        self.clock.advance(1)
        self.assertEqual(len(ENTRY), 12)
        self.assertEqual(self.offsets(LATEST_TIME), (0, (240, 216, 108, 0)))
        self.assertEqual(self.offsets(self.before), (0, (216, 108, 0)))
        self.assertEqual(self.offsets(EARLIEST_TIME), (0, (0,)))

    def test_example(self) -> None:
        """Each append on its own."""
        self.example(*[1] * 20)

    def test_example_in_one_read(self) -> None:
        """Appends that arrive together roll the segments where they would have one by one."""
        self.example(20)

    def test_example_in_some_reads(self) -> None:
        """However they arrive."""
        self.example(3, 7, 1, 9)

    def test_counts(self) -> None:
        """No more than were asked for; none for 0; a negative count is refused."""
        self.example(20)
        self.assertEqual(self.offsets(LATEST_TIME, 2), (0, (240, 216)))
        self.assertEqual(self.offsets(EARLIEST_TIME, 2), (0, (0,)))
        self.assertEqual(self.offsets(self.before, 1), (0, (216,)))
        self.assertEqual(self.offsets(LATEST_TIME, 0), (0, ()))
        self.assertEqual(self.offsets(LATEST_TIME, -1), (3, ()))

    def test_times(self) -> None:
        """Only segments last changed at or before the time count; before all of them there are none."""
        long_ago = int(self.clock.seconds() * 1000) - 1
        self.example(20)
        self.assertEqual(self.offsets(long_ago), (0, ()))
        self.assertEqual(self.offsets(0), (0, ()))
        self.assertEqual(self.offsets(-3), (0, ()))
        self.assertEqual(self.offsets(self.before + 5000), (0, (240, 216, 108, 0)))

    def test_empty_log(self) -> None:
        """An empty log has one segment, and no end beside it."""
        self.assertEqual(self.offsets(LATEST_TIME), (0, (0,)))
        self.assertEqual(self.offsets(EARLIEST_TIME), (0, (0,)))

    def test_visible_end_counts(self) -> None:
        """What is not flushed is not there yet."""
        self.peer.send(Produce("t", 0, ENTRY), Offsets("t", 0, LATEST_TIME, 10))
        self.assertEqual(self.peer.answers(), [OffsetsResponse(0, (0,))])
        self.settle()
        self.assertEqual(self.offsets(LATEST_TIME), (0, (12, 0)))

    def test_unknown(self) -> None:
        """An unknown topic is answered as an empty log would be, a partition that is not here with error 3."""
        self.assertEqual(self.offsets(LATEST_TIME, topic="none"), (0, (0,)))
        self.assertEqual(self.offsets(EARLIEST_TIME, topic="none"), (0, (0,)))
        self.assertEqual(self.offsets(self.clock.seconds().__int__() * 1000, topic="none"), (0, ()))
        self.assertEqual(self.offsets(LATEST_TIME, 0, topic="none"), (0, ()))
        self.assertEqual(self.offsets(LATEST_TIME, partition=2), (3, ()))
        self.assertEqual(self.offsets(LATEST_TIME, partition=-1), (3, ()))

    def test_offline(self) -> None:
        """A partition that is offline has an error that 0.7 knows."""
        self.log_of("t", 1).go_offline(OSError(5, "Input/output error"))
        self.assertEqual(self.offsets(LATEST_TIME, partition=1), (-1, ()))
