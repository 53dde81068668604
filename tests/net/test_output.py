"""Tests of the way out of a connection."""

from __future__ import annotations

from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logd.net.output import UNSENT_BYTES, OutputQueue
from logd.net.transfer import PIECE_BYTES, SendfileSender
from tests.net.doubles import BytesFile, HandThreads, MemoryTransport, Range

LARGE = bytes(range(256)) * (2 * PIECE_BYTES // 256 + 1)


class OutputQueueTests(SynchronousTestCase):
    """Order, congestion and what becomes of ranges."""

    def setUp(self) -> None:
        """A queue over a transport that takes everything at its own pace."""
        self.transport = MemoryTransport(pause=True)
        self.empty = 0
        self.failures: list[Failure] = []
        self.queue = OutputQueue(
            self.transport, SendfileSender(HandThreads()), self.count_empty, self.failures.append
        )

    def count_empty(self) -> None:
        """Note that the queue said that it is empty."""
        self.empty += 1

    def drain(self) -> None:
        """The peer takes everything."""
        for _ in range(1000):
            if self.transport.producer is None:
                return
            self.transport.producer.resumeProducing()
        self.fail("it never ends")

    def test_bytes_go_at_once(self) -> None:
        """Plain bytes are written when nothing waits."""
        self.queue.send([b"a", b"b"])
        self.assertEqual(self.transport.written, b"ab")
        self.assertFalse(self.queue.congested)

    def test_small_range_is_copied(self) -> None:
        """A small cached range is written with what stands around it, and closed."""
        small = Range(BytesFile(b"0123456789"), 2, 3)
        self.queue.send([b"head", small, b"tail"])
        self.assertEqual(self.transport.written, b"head234tail")
        self.assertEqual(small.closed, 1)
        self.assertFalse(self.queue.congested)

    def test_order(self) -> None:
        """Bytes that come while a range is on its way leave behind it; each range is closed once."""
        first, second = Range(BytesFile(LARGE), 0, len(LARGE)), Range(BytesFile(LARGE), 1, len(LARGE) - 1)
        self.queue.send([b"<", first, b"|"])
        self.queue.send([second, b">"])
        self.assertTrue(self.queue.congested)
        self.drain()
        self.assertEqual(self.transport.written, b"<" + LARGE + b"|" + LARGE[1:] + b">")
        self.assertEqual((first.closed, second.closed, self.empty), (1, 1, 1))
        self.assertFalse(self.queue.congested)

    def test_many_bytes_congest(self) -> None:
        """After more plain bytes than UNSENT_BYTES the queue waits until they are gone before it takes the next."""
        self.queue.send([bytes(UNSENT_BYTES + 1)])
        self.assertTrue(self.queue.congested)
        self.queue.send([b"next"])
        self.assertEqual(len(self.transport.written), UNSENT_BYTES + 1)
        self.drain()
        self.assertTrue(self.transport.written.endswith(b"next"))
        self.assertEqual(self.empty, 1)

    def test_short_file(self) -> None:
        """A range that cannot be sent whole is reported, and what stands behind it is dropped and closed."""
        short, behind = Range(BytesFile(LARGE), 0, len(LARGE) + 5), Range(BytesFile(LARGE), 0, 10)
        self.queue.send([short, behind])
        self.drain()
        self.assertEqual(len(self.failures), 1)
        self.assertEqual((short.closed, behind.closed), (1, 1))

    def test_close(self) -> None:
        """A closed queue closes what it holds and what comes later."""
        sending, queued, late = (Range(BytesFile(LARGE), 0, len(LARGE)) for _ in range(3))
        self.queue.send([sending, queued])
        producer = self.transport.producer
        assert producer is not None
        self.queue.close()
        producer.stopProducing()
        self.queue.send([late])
        self.assertEqual((sending.closed, queued.closed, late.closed), (1, 1, 1))
        self.assertEqual(self.failures, [])
