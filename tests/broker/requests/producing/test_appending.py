"""Tests of logd.broker.requests.appender: sets of several requests become one write for each log."""

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
    """A log that notes its appends; those whose numbers are in ``fails`` fail."""

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
    """The sets of one read, log by log."""

    def setUp(self) -> None:
        """Make an appender without any sets."""
        self.counters = Counters()
        self.appender = Appender(self.counters)
        self.told: list[object] = []

    def add(self, log: PlayedLog, *sets: bytes) -> None:
        """Add sets, and note their ids or their error."""
        for each in sets:
            self.appender.add_told(log, each, 1, -1, lambda *ids: self.told.append(ids), self.told.append)

    def test_sets_of_a_log_become_one_write(self) -> None:
        """The sets keep their order; the write has the sum of their messages and the newest of their times."""
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

    def test_each_sender_gets_its_own_ids(self) -> None:
        """Sets of other senders stand between them in the write."""
        log = PlayedLog(end=3)
        self.add(log, b"aa")
        self.appender.add(log, b"b", 1, -1)
        self.add(log, b"ccc")
        self.appender.append()
        self.assertEqual(self.told, [(3, 5), (6, 9)])

    def test_an_error_reaches_every_sender(self) -> None:
        """Sets without a callback have it returned, so that it can be counted and logged."""
        log = PlayedLog(fails=[0])
        self.add(log, b"a")
        self.appender.add(log, b"b", 1, -1)
        self.add(log, b"c")
        errors = self.appender.append()
        self.assertEqual([type(each) for each in (*self.told, *errors)], [StorageFull] * 3)
        self.assertEqual((self.counters.sets_refused, self.counters.messages_in), (1, 0))

    def test_a_write_ends_where_a_segment_rolls(self) -> None:
        """Segments begin where they would if the sets came one by one."""
        log = PlayedLog()
        for size in (4, 4, 4, 4, 20, 1, 1):
            self.appender.add(log, bytes(size), 10, 7)
        self.appender.append()
        self.assertEqual([[len(each) for each in sets] for sets, _, _ in log.appends], [[4, 4, 4], [4, 20], [1, 1]])
        self.assertEqual(sum(messages for _, messages, _ in log.appends), 70)
        self.assertEqual({newest for _, _, newest in log.appends}, {7})

    def test_no_set_overtakes_a_failed_one(self) -> None:
        """Sets for the next segment might fit on the disk, but stand behind the failed one."""
        log = PlayedLog(fails=[1])
        self.add(log, bytes(11), b"next", b"too", bytes(11), b"last")
        self.appender.append()
        self.assertEqual(len(log.appends), 2)
        self.assertEqual([type(each) for each in self.told], [tuple] + [StorageFull] * 4)
