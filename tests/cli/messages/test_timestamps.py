"""Tests of logd.cli.messages.timestamps: the times that lines are given."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.cli.messages.timestamps import Stamp
from logd.protocol.loops import encode_set


class StampTests(SynchronousTestCase):
    """``Stamp``."""

    def test_messages_have_the_time_in_milliseconds(self) -> None:
        """Without a clock they have none, and are as small as can be."""
        stamped = Stamp(lambda: 1320969600.5, 1000).messages([b"one", b"two"])
        self.assertEqual([message.timestamp for message in stamped], [1320969600500] * 2)
        (plain,) = Stamp(None, 1000).messages([b"one"])
        self.assertEqual((plain.timestamp, len(encode_set([plain]))), (None, 12))

    def test_a_line_is_never_refused_for_its_time(self) -> None:
        """A line that is too long with a time goes without one."""
        stamp = Stamp(lambda: 1.0, 100)
        for key in (None, b"key"):
            beside = len(key or b"")
            for size in range(80 - beside, 101 - beside):
                (message,) = stamp.messages([b"x" * size], key)
                if message.timestamp is not None:
                    self.assertLessEqual(len(encode_set([message])) - 8 - 1, 100)
                else:
                    self.assertGreater(size + 14 + beside, 100)
