"""Tests of logd.net.output: the queue of bytes and ranges that leave a connection."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logd.log.disk.local_files import LocalFiles
from logd.net.output import UNSENT_BYTES, OutputQueue
from logd.net.transfer import PIECE_BYTES, SendfileSender
from tests.log.threads import Threads
from tests.net.doubles import BytesFile, DirectTransport, PeerTransport, Range, SocketTransport

LARGE = bytes(range(256)) * (2 * PIECE_BYTES // 256 + 1)


class OutputQueueTests(SynchronousTestCase):
    """The queue's order, its congestion, and the end of each range."""

    def setUp(self) -> None:
        """Make a queue over a transport that takes its bytes when the test says so."""
        self.transport = PeerTransport(taking=False, buffer_bytes=UNSENT_BYTES)
        self.empty = 0
        self.failures: list[Failure] = []
        self.queue = OutputQueue(self.transport, SendfileSender(Threads()), self.count_empty, self.failures.append)

    def count_empty(self) -> None:
        """Count a call by which the queue says that it is empty."""
        self.empty += 1

    def drain(self) -> None:
        """Let the peer take everything."""
        for _ in range(1000):
            if not self.queue.congested or self.failures:
                return
            self.transport.take()
        self.fail("it never ends")

    def test_bytes_go_out_at_once(self) -> None:
        """Nothing waits before them."""
        self.queue.send([b"a", b"b"])
        self.assertEqual(self.transport.value(), b"ab")
        self.assertFalse(self.queue.congested)

    def test_a_small_range_is_copied(self) -> None:
        """Being in the page cache, it is written together with the bytes around it."""
        small = Range(BytesFile(b"0123456789"), 2, 3)
        self.queue.send([b"head", small, b"tail"])
        self.assertEqual(self.transport.value(), b"head234tail")
        self.assertEqual(small.closed, 1)
        self.assertFalse(self.queue.congested)

    def test_what_is_held_leaves_in_one_write_at_once(self) -> None:
        """Without a turn of the reactor, in order with a range that has to wait for the socket."""
        transport = DirectTransport()
        queue = OutputQueue(transport, SendfileSender(Threads()), self.count_empty, self.failures.append)
        queue.let_go()
        queue.hold()
        queue.send([b"a"])
        queue.send([b"b", Range(BytesFile(b"0123456789"), 2, 3), b"c"])
        queue.send([b"d"])
        self.assertEqual((transport.written, len(queue)), ([], 0))
        queue.let_go()
        self.assertEqual(transport.written, [b"ab234cd"])
        queue.send([b"e"])
        self.assertEqual((len(transport.written), transport.waits), (1, True))
        transport.doWrite()
        self.assertEqual(transport.written[1:], [b"e"])

    def test_what_is_held_stays_before_what_waits(self) -> None:
        """No more than UNSENT_BYTES are held, and none behind a range that has to be sent first."""
        transport = DirectTransport()
        queue = OutputQueue(transport, SendfileSender(Threads()), self.count_empty, self.failures.append)
        queue.hold()
        count = UNSENT_BYTES // 1000 + 10
        for number in range(count):
            queue.send([b"%1000d" % number])
        self.assertTrue(queue.congested)
        self.assertEqual(len(queue), 9)
        queue.let_go()
        while queue.congested:
            transport.doWrite()
        transport.doWrite()
        self.assertEqual(b"".join(transport.written), b"".join(b"%1000d" % number for number in range(count)))
        queue.hold()
        queue.send([b"<"])
        queue.send([Range(BytesFile(LARGE), 0, len(LARGE))])
        queue.send([b">"])
        queue.let_go()
        while queue.congested:
            transport.doWrite()
        transport.doWrite()
        self.assertTrue(b"".join(transport.written).endswith(b"<" + LARGE + b">"))
        queue.hold()
        queue.send([b"last"])
        queue.finish()
        transport.doWrite()
        self.assertEqual(transport.written[-1], b"last")
        queue.send([b"never"])
        queue.close()
        queue.let_go()
        self.assertEqual(transport.written[-1], b"last")

    def test_bytes_wait_behind_a_range(self) -> None:
        """Each range is closed once."""
        first, second = Range(BytesFile(LARGE), 0, len(LARGE)), Range(BytesFile(LARGE), 1, len(LARGE) - 1)
        self.queue.send([b"<", first, b"|"])
        self.queue.send([second, b">"])
        self.assertTrue(self.queue.congested)
        self.drain()
        self.assertEqual(self.transport.value(), b"<" + LARGE + b"|" + LARGE[1:] + b">")
        self.assertEqual((first.closed, second.closed, self.empty), (1, 1, 1))
        self.assertFalse(self.queue.congested)

    def test_many_bytes_congest_the_queue(self) -> None:
        """Beyond UNSENT_BYTES the next ones wait until those are gone."""
        self.queue.send([bytes(UNSENT_BYTES + 1)])
        self.assertTrue(self.queue.congested)
        self.queue.send([b"next"])
        self.assertEqual(len(self.transport.value()), UNSENT_BYTES + 1)
        self.drain()
        self.assertTrue(self.transport.value().endswith(b"next"))
        self.assertEqual(self.empty, 1)

    def test_bytes_that_wait_are_counted(self) -> None:
        """Those in memory, while they are in the queue."""
        self.queue.send([bytes(UNSENT_BYTES + 1)])
        self.queue.send([b"one", Range(BytesFile(LARGE), 0, len(LARGE)), b"three"])
        self.assertEqual(self.queue.waiting_bytes, len(b"one" + b"three"))
        self.drain()
        self.assertEqual(self.queue.waiting_bytes, 0)
        self.queue.send([bytes(UNSENT_BYTES + 1), b"more"])
        self.queue.close()
        self.assertEqual(self.queue.waiting_bytes, 0)

    def test_a_short_file_fails_the_queue(self) -> None:
        """The length was announced, so the pieces behind the range cannot be sent; all ranges are closed."""
        short, behind = Range(BytesFile(LARGE), 0, len(LARGE) + 5), Range(BytesFile(LARGE), 0, 10)
        self.queue.send([short, behind])
        self.drain()
        self.assertEqual(len(self.failures), 1)
        self.assertEqual((short.closed, behind.closed), (1, 1))

    def test_the_queue_waits_for_its_peer(self) -> None:
        """Thousands of small ranges neither fill the transport nor recurse."""
        middling = [Range(BytesFile(LARGE), 0, PIECE_BYTES) for _ in range(20)]
        tiny = [Range(BytesFile(LARGE), 7, 3) for _ in range(5000)]
        self.queue.send([*middling, *tiny])
        most = 0
        for _ in range(100):
            most = max(most, self.transport.untaken)
            if not self.queue.congested:
                break
            self.transport.take()
        self.assertEqual(self.transport.value(), LARGE[:PIECE_BYTES] * 20 + LARGE[7:10] * 5000)
        self.assertLessEqual(most, UNSENT_BYTES + PIECE_BYTES)
        self.assertEqual({each.closed for each in (*middling, *tiny)}, {1})

    def test_small_ranges_behind_others_share_writes(self) -> None:
        """Each answer for thousands of partitions has thousands of them, and a turn of the reactor for each is slow."""
        self.queue.send([bytes(UNSENT_BYTES + 1)])
        writes: list[int] = []
        write = self.transport.write

        def counted(data: bytes) -> None:
            writes.append(len(data))
            write(data)

        self.transport.write = counted  # type: ignore[method-assign]
        small = [Range(BytesFile(LARGE), 0, 4000) for _ in range(100)]
        self.queue.send([piece for each in small for piece in (b"head", each)])
        self.drain()
        self.assertEqual(sum(writes), 100 * 4004)
        self.assertLessEqual(len(writes), 100 * 4004 // UNSENT_BYTES + 1)
        self.assertLessEqual(max(writes), UNSENT_BYTES + 4000)
        self.assertEqual({each.closed for each in small}, {1})

    def test_a_paused_transport_gets_nothing(self) -> None:
        """A transport may find out late how much it has buffered."""
        self.queue.send([b"first"])
        self.transport.producer.pauseProducing()
        self.queue.send([b"second", Range(BytesFile(b"third"), 0, 5)])
        self.assertEqual(self.transport.value(), b"first")
        self.assertTrue(self.queue.congested)
        self.drain()
        self.assertEqual(self.transport.value(), b"firstsecondthird")
        self.assertEqual(self.empty, 1)

    def test_finishing_releases_the_transport(self) -> None:
        """Over TLS the last bytes are lost otherwise."""
        self.queue.send([b"last"])
        self.queue.finish()
        self.assertIsNone(self.transport.producer)
        self.queue.finish()

    def test_an_unreadable_range_fails_the_queue(self) -> None:
        """The answers before it have left."""

        class Broken(BytesFile):
            def read_cached(self, position: int, count: int) -> bytes | None:
                raise OSError(5, "Input/output error")

        broken = Range(Broken(b"0123456789"), 0, 10)
        self.queue.send([b"before", broken, b"behind"])
        self.assertEqual((len(self.failures), broken.closed), (1, 1))
        self.assertIn("Input/output error", str(self.failures[0].value))
        self.assertEqual(self.transport.value(), b"before")

    def test_closing_closes_every_range(self) -> None:
        """The one under way, those that wait, and those that come later."""
        sending, queued, late = (Range(BytesFile(LARGE), 0, len(LARGE)) for _ in range(3))
        self.queue.send([sending, queued])
        producer = self.transport.producer
        assert producer is not None
        self.queue.close()
        producer.stopProducing()
        self.queue.send([late])
        self.assertEqual((sending.closed, queued.closed, late.closed), (1, 1, 1))
        self.assertEqual(self.failures, [])


class SocketOutputTests(SynchronousTestCase):
    """The queue over a real socket, where ranges leave by sendfile."""

    def setUp(self) -> None:
        """Make a socket pair, a file and a queue."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "segment")
        with open(path, "wb") as file:
            file.write(LARGE)
        self.file: Any = LocalFiles().open_for_reading(path)
        self.addCleanup(self.file.close)
        self.transport = SocketTransport()
        self.addCleanup(self.transport.close)
        self.failures: list[Failure] = []
        sender = SendfileSender(Threads())
        self.queue = OutputQueue(self.transport, sender, lambda: None, self.failures.append)

    def test_bytes_and_ranges_arrive_in_order(self) -> None:
        """Small and large ones alternate."""
        expected = b""
        for turn in range(30):
            size = (5, 100_000, 20_000)[turn % 3]
            self.queue.send([b"<%d" % turn, Range(self.file, turn, size), b">"])
            expected += b"<%d" % turn + LARGE[turn : turn + size] + b">"
        self.assertEqual(self.transport.run(len(expected)), expected)
        self.assertFalse(self.queue.congested)
        self.assertEqual(self.failures, [])

    def test_plain_bytes_wait_for_the_socket(self) -> None:
        """The transport's buffer would grow without a bound otherwise."""
        for _ in range(100):
            self.queue.send([bytes(UNSENT_BYTES)])
        self.assertLessEqual(len(self.transport.buffer), 2 * UNSENT_BYTES)
        self.assertEqual(len(self.transport.run(100 * UNSENT_BYTES)), 100 * UNSENT_BYTES)
        self.transport.turn()
        self.assertFalse(self.queue.congested)

    def test_ranges_without_a_descriptor_wait_for_the_socket(self) -> None:
        """They can only be read, small and large ones; the transport's buffer stays bounded here too."""
        for size in (40 << 10, 100 << 10):
            ranges = [Range(BytesFile(LARGE), number, size) for number in range(20)]
            self.queue.send(ranges)
            self.assertLessEqual(len(self.transport.buffer), 4 * UNSENT_BYTES)
            expected = b"".join([LARGE[number : number + size] for number in range(20)])
            self.assertEqual(self.transport.run(len(expected)), expected)
            self.transport.turn()
            self.assertFalse(self.queue.congested)
            self.assertEqual([each.closed for each in ranges], [1] * 20)
