"""Tests of flush.messages and flush.ms over a whole broker, by the time when messages become visible."""

from __future__ import annotations

from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain


class GatheredTests(BrokerTestCase):
    """A topic with ``flush.messages`` and ``flush.ms``."""

    def test_messages_are_invisible_until_their_flush(self) -> None:
        """Messages wait for their number, unless a producer with acks -1 has them flushed at once."""
        self.create("t", 1, flush_messages=10_000, flush_ms=60_000)
        peer = self.connect()
        for _ in range(20):
            self.produce(peer, "t", plain(b"gathered"), acks=1)
        log = self.log_of("t")
        self.assertEqual((log.end > 0, log.visible_end), (True, 0))
        self.assertEqual(self.produce(peer, "t", plain(b"now"), acks=-1).error, 0)
        self.assertEqual(log.visible_end, log.end)

    def test_flush_ms_bounds_the_wait(self) -> None:
        """The time counts for producers too that do not wait for the flush."""
        self.create("t", 1, flush_ms=60_000)
        peer = self.connect()
        self.produce(peer, "t", plain(b"gathered"), acks=1)
        self.clock.advance(59)
        self.settle()
        self.assertEqual(self.log_of("t").visible_end, 0)
        self.clock.advance(1)
        self.settle()
        self.assertEqual(self.log_of("t").visible_end, self.log_of("t").end)
