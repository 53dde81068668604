"""Tests of Offsets, 0.7's question about segments and time."""

from __future__ import annotations

from logd.protocol.requests.legacy_requests import EARLIEST_TIME, LATEST_TIME, Offsets, Produce
from logd.protocol.requests.legacy_responses import OffsetsResponse
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

ENTRY = plain(b"123")


class OffsetsTests(BrokerTestCase):
    """Segment starts, by time."""

    log_options = {"segment_bytes": 100}  # noqa: RUF012

    def setUp(self) -> None:
        """Make a topic, and let the clock go on since then."""
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
        """Produce the 20 entries of the example, so many in each read, and check its three answers."""
        for count in groups:
            self.peer.send(*[Produce("t", 0, ENTRY)] * count)
        self.settle()
        self.before = int(self.clock.seconds() * 1000)
        self.clock.advance(1)
        self.assertEqual(len(ENTRY), 12)
        self.assertEqual(self.offsets(LATEST_TIME), (0, (240, 216, 108, 0)))
        self.assertEqual(self.offsets(self.before), (0, (216, 108, 0)))
        self.assertEqual(self.offsets(EARLIEST_TIME), (0, (0,)))

    def test_single_appends_roll_at_the_segment_size(self) -> None:
        """The example is 20 appends of 12 bytes, to segments of 100."""
        self.example(*[1] * 20)

    def test_appends_of_one_read_roll_alike(self) -> None:
        """The appends become one write, and segments must begin where they would one by one."""
        self.example(20)

    def test_appends_of_several_reads_roll_alike(self) -> None:
        """The sizes of reads must not show in the segments."""
        self.example(3, 7, 1, 9)

    def test_the_count_bounds_the_offsets(self) -> None:
        """None come for 0; a negative count is refused."""
        self.example(20)
        self.assertEqual(self.offsets(LATEST_TIME, 2), (0, (240, 216)))
        self.assertEqual(self.offsets(EARLIEST_TIME, 2), (0, (0,)))
        self.assertEqual(self.offsets(self.before, 1), (0, (216,)))
        self.assertEqual(self.offsets(LATEST_TIME, 0), (0, ()))
        self.assertEqual(self.offsets(LATEST_TIME, -1), (3, ()))

    def test_only_segments_up_to_the_time_count(self) -> None:
        """The time is that of a segment's last change; before all of them there are none."""
        long_ago = int(self.clock.seconds() * 1000) - 1
        self.example(20)
        self.assertEqual(self.offsets(long_ago), (0, ()))
        self.assertEqual(self.offsets(0), (0, ()))
        self.assertEqual(self.offsets(-3), (0, ()))
        self.assertEqual(self.offsets(self.before + 5000), (0, (240, 216, 108, 0)))

    def test_an_empty_log_has_one_offset(self) -> None:
        """Start and end are the same, and are given once."""
        self.assertEqual(self.offsets(LATEST_TIME), (0, (0,)))
        self.assertEqual(self.offsets(EARLIEST_TIME), (0, (0,)))

    def test_unflushed_bytes_have_no_offset_yet(self) -> None:
        """A loss of power could take them back."""
        self.peer.send(Produce("t", 0, ENTRY), Offsets("t", 0, LATEST_TIME, 10))
        self.assertEqual(self.peer.answers(), [OffsetsResponse(0, (0,))])
        self.settle()
        self.assertEqual(self.offsets(LATEST_TIME), (0, (12, 0)))

    def test_an_unknown_topic_looks_empty(self) -> None:
        """A partition that is not here is error 3."""
        self.assertEqual(self.offsets(LATEST_TIME, topic="none"), (0, (0,)))
        self.assertEqual(self.offsets(EARLIEST_TIME, topic="none"), (0, (0,)))
        self.assertEqual(self.offsets(self.clock.seconds().__int__() * 1000, topic="none"), (0, ()))
        self.assertEqual(self.offsets(LATEST_TIME, 0, topic="none"), (0, ()))
        self.assertEqual(self.offsets(LATEST_TIME, partition=2), (3, ()))
        self.assertEqual(self.offsets(LATEST_TIME, partition=-1), (3, ()))

    def test_an_offline_partition_has_a_legacy_error(self) -> None:
        """The error's code must be one that 0.7 knows."""
        self.log_of("t", 1).go_offline(OSError(5, "Input/output error"))
        self.assertEqual(self.offsets(LATEST_TIME, partition=1), (-1, ()))
