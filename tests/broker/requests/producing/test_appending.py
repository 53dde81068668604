"""Tests of gathering sets for logs."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.counters import Counters
from logd.broker.requests.appender import Appender
from logd.config import LogSettings
from logd.errors import StorageFull


@define(eq=False)
class PlayedLog:
    """Notes appends; those whose numbers are in ``fails`` fail."""

    fails: Sequence[int] = ()
    settings: LogSettings = field(factory=lambda: LogSettings(segment_bytes=10))
    end: int = 0
    roll_above: int = 10
    appends: list[tuple[list[bytes], int, int]] = field(factory=list)

    def append(self, sets: list[bytes], messages: int, newest_timestamp: int) -> int:
        """See AppendableLog."""
        self.appends.append((list(sets), messages, newest_timestamp))
        if len(self.appends) - 1 in self.fails:
            raise StorageFull("full")
        first = self.end
        if first > self.roll_above:
            self.roll_above = first + self.settings.segment_bytes
        self.end += sum(map(len, sets))
        return first


class AppenderTests(SynchronousTestCase):
    """Sets of one read, log by log."""

    def setUp(self) -> None:
        """Nothing gathered."""
        self.counters = Counters()
        self.appender = Appender(self.counters)
        self.told: list[object] = []

    def add(self, log: PlayedLog, *sets: bytes) -> None:
        """Add sets and ask what becomes of them."""
        for each in sets:
            self.appender.add_told(log, each, 1, -1, lambda *ids: self.told.append(ids), self.told.append)

    def test_gathered(self) -> None:
        """Sets of a log go in one write, in order, with their messages and the newest of their times."""
        one, two = PlayedLog(), PlayedLog()
        self.appender.add(one, b"a", 2, 5)
        self.appender.add(two, b"b", 1, -1)
        self.appender.add(one, b"cc", 3, 4)
        self.assertEqual(self.appender.append(), [])
        self.assertEqual(one.appends, [([b"a", b"cc"], 5, 5)])
        self.assertEqual(two.appends, [([b"b"], 1, -1)])
        self.assertEqual((self.counters.messages_in, self.counters.bytes_in), (6, 4))
        self.assertEqual(self.appender.append(), [])
        self.assertEqual(len(one.appends), 1)

    def test_told(self) -> None:
        """Who asks is told the ids of its own set, whatever stands between."""
        log = PlayedLog(end=3)
        self.add(log, b"aa")
        self.appender.add(log, b"b", 1, -1)
        self.add(log, b"ccc")
        self.appender.append()
        self.assertEqual(self.told, [(3, 5), (6, 9)])

    def test_error(self) -> None:
        """An error is told to all who asked, and returned once for each set that nobody asked about."""
        log = PlayedLog(fails=[0])
        self.add(log, b"a")
        self.appender.add(log, b"b", 1, -1)
        self.add(log, b"c")
        errors = self.appender.append()
        self.assertEqual([type(each) for each in (*self.told, *errors)], [StorageFull] * 3)
        self.assertEqual((self.counters.sets_refused, self.counters.messages_in), (1, 0))

    def test_by_segment(self) -> None:
        """Sets are cut where a segment would roll if they came one by one; counts are right in all."""
        log = PlayedLog()
        for size in (4, 4, 4, 4, 20, 1, 1):
            self.appender.add(log, bytes(size), 10, 7)
        self.appender.append()
        self.assertEqual([[len(each) for each in sets] for sets, _, _ in log.appends], [[4, 4, 4], [4, 20], [1, 1]])
        self.assertEqual(sum(messages for _, messages, _ in log.appends), 70)
        self.assertEqual({newest for _, _, newest in log.appends}, {7})

    def test_nothing_overtakes(self) -> None:
        """When the first segment's sets fail those of the next are not tried, though they might fit."""
        log = PlayedLog(fails=[1])
        self.add(log, bytes(11), b"next", b"too", bytes(11), b"last")
        self.appender.append()
        self.assertEqual(len(log.appends), 2)
        self.assertEqual([type(each) for each in self.told], [tuple] + [StorageFull] * 4)
