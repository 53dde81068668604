"""Tests of logd.net.transfer: file ranges on their way to a transport."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.log.disk.local_files import LocalFiles
from logd.net.transfer import PIECE_BYTES, TURN_BYTES, PeerLeft, SendfileSender, TransferFailed, can_sendfile
from tests.log.threads import Threads
from tests.net.doubles import BytesFile, PeerTransport, Range, SocketTransport

CONTENT = os.urandom(3 * TURN_BYTES + 17)


class SendfileTests(SynchronousTestCase):
    """Transfers from a real file to a real socket."""

    def setUp(self) -> None:
        """Make a file, a socket pair, and threads worked by hand."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "segment")
        with open(path, "wb") as file:
            file.write(CONTENT)
        self.file: Any = LocalFiles().open_for_reading(path)
        self.addCleanup(self.file.close)
        self.transport = SocketTransport()
        self.addCleanup(self.transport.close)
        self.threads = Threads()
        self.sender = SendfileSender(self.threads)

    def test_a_range_arrives_whole(self) -> None:
        """The range takes several turns, and follows the bytes written before it."""
        self.transport.write(b"head")
        done = self.sender.begin_file_transfer(Range(self.file, 5, len(CONTENT) - 9), self.transport)
        self.assertEqual(self.transport.run(len(CONTENT) - 5), b"head" + CONTENT[5:-4])
        self.assertIsNone(self.successResultOf(done))
        self.assertIsNone(self.transport.producer)

    def test_a_turn_sends_a_bounded_share(self) -> None:
        """The socket would take more, but other connections want the reactor."""
        self.transport.near.setsockopt(1, 7, 64 << 20)
        self.sender.begin_file_transfer(Range(self.file, 0, len(CONTENT)), self.transport)
        self.transport.turn()
        self.transport.far.setblocking(False)
        got = 0
        while True:
            try:
                got += len(self.transport.far.recv(1 << 20))
            except BlockingIOError:
                break
        self.assertLessEqual(got, TURN_BYTES)
        self.assertTrue(self.transport.writing)

    def test_a_short_file_fails_the_transfer(self) -> None:
        """The place is noted as unreadable for later requests."""
        asked = Range(self.file, len(CONTENT) - 10, 20)
        done = self.sender.begin_file_transfer(asked, self.transport)
        self.transport.run(20)
        self.failureResultOf(done, TransferFailed)
        self.assertEqual(asked.unreadable_at, [len(CONTENT)])

    def test_a_lost_connection_fails_the_transfer(self) -> None:
        """Nothing is sent after that."""
        done = self.sender.begin_file_transfer(Range(self.file, 0, 100), self.transport)
        producer = self.transport.producer
        producer.stopProducing()
        self.failureResultOf(done, TransferFailed)
        producer.resumeProducing()
        self.assertIsNone(self.transport.producer)

    def test_cold_pages_are_read_on_a_thread(self) -> None:
        """The reactor would wait for the disk otherwise."""
        cold = BytesFile(CONTENT, descriptor=self.file.fileno(), cold=True)
        done = self.sender.begin_file_transfer(Range(cold, 0, PIECE_BYTES + 1), self.transport)
        self.transport.turn()
        self.assertEqual(len(self.threads.works), 1)
        self.assertFalse(self.transport.writing)
        self.assertNoResult(done)
        self.threads.settle()
        self.assertEqual(self.transport.run(PIECE_BYTES + 1), CONTENT[: PIECE_BYTES + 1])
        self.successResultOf(done)

    def test_a_forgetful_cache_stops_no_transfer(self) -> None:
        """Pages are gone again as soon as they are read."""

        class Forgetful(BytesFile):
            def is_cached(self, position: int, count: int) -> bool:
                return False

        forgetful = Forgetful(CONTENT, descriptor=self.file.fileno())
        done = self.sender.begin_file_transfer(Range(forgetful, 0, len(CONTENT)), self.transport)
        got = b""
        while len(got) < len(CONTENT):
            got += self.transport.run(1)
            self.threads.settle()
        self.assertEqual(got, CONTENT)
        self.successResultOf(done)

    def test_only_a_plain_socket_can_sendfile(self) -> None:
        """TLS has to encrypt the bytes, and some transports have no descriptor."""
        self.assertTrue(can_sendfile(self.transport))
        self.assertFalse(can_sendfile(PeerTransport()))
        self.transport.TLS = True  # type: ignore[attr-defined]
        self.assertFalse(can_sendfile(self.transport))


class WritingTests(SynchronousTestCase):
    """Transfers to a consumer without a descriptor."""

    def setUp(self) -> None:
        """Make threads worked by hand."""
        self.threads = Threads()
        self.sender = SendfileSender(self.threads)

    def test_a_range_follows_its_consumers_pace(self) -> None:
        """The consumer pauses after each piece."""
        transport = PeerTransport(taking=False, buffer_bytes=0)
        done = self.sender.begin_file_transfer(Range(BytesFile(CONTENT), 3, len(CONTENT) - 3), transport)
        turns = 1
        while transport.producer is not None:
            self.assertLessEqual(len(transport.value()), turns * PIECE_BYTES)
            transport.take()
            turns += 1
        self.assertEqual(turns, -(-(len(CONTENT) - 3) // PIECE_BYTES))
        self.assertEqual(transport.value(), CONTENT[3:])
        self.successResultOf(done)

    def test_cold_bytes_are_read_on_a_thread(self) -> None:
        """The bytes are written once they have been read."""
        transport = PeerTransport()
        done = self.sender.begin_file_transfer(Range(BytesFile(CONTENT, cold=True), 0, 1000), transport)
        self.assertEqual(transport.value(), b"")
        self.threads.settle()
        self.assertEqual(transport.value(), CONTENT[:1000])
        self.successResultOf(done)

    def test_an_unreadable_file_fails_the_transfer(self) -> None:
        """The error has the reason, and the place is noted."""

        class Broken(BytesFile):
            def read_at(self, position: int, count: int) -> bytes:
                raise OSError(5, "Input/output error")

        transport = PeerTransport()
        asked = Range(Broken(CONTENT, cold=True), 7, 1000)
        done = self.sender.begin_file_transfer(asked, transport)
        self.threads.settle()
        self.assertIn("Input/output error", str(self.failureResultOf(done, TransferFailed).value))
        self.assertEqual(asked.unreadable_at, [7])

    def test_the_unreadable_place_is_exact(self) -> None:
        """The place is behind the bytes that could be read, even if only a moment ago."""

        class Fading(BytesFile):
            fails_at = 2

            def read_at(self, position: int, count: int) -> bytes:
                if len(self.reads) + 1 >= self.fails_at:
                    raise OSError(5, "Input/output error")
                return super().read_at(position, count)

        for fails_at, place in ((1, 0), (2, PIECE_BYTES)):
            file = Fading(bytes(3 * PIECE_BYTES), cold=True)
            file.fails_at = fails_at
            asked = Range(file, 0, 3 * PIECE_BYTES)
            done = self.sender.begin_file_transfer(asked, PeerTransport())
            self.threads.settle()
            self.failureResultOf(done, TransferFailed)
            self.assertEqual(asked.unreadable_at, [place])
        file = Fading(bytes(PIECE_BYTES), cold=True)
        asked = Range(file, 0, PIECE_BYTES)
        done = self.sender.begin_file_transfer(asked, PeerTransport())
        self.threads.settle()  # it is warmed by one read, and then read once more
        self.failureResultOf(done, TransferFailed)
        self.assertEqual(asked.unreadable_at, [0])

    def test_a_short_file_fails_the_transfer(self) -> None:
        """The place is noted as unreadable."""
        transport = PeerTransport()
        asked = Range(BytesFile(b"abc"), 0, 5)
        done = self.sender.begin_file_transfer(asked, transport)
        self.failureResultOf(done, TransferFailed)
        self.assertEqual(asked.unreadable_at, [3])


class HangingUpTests(SynchronousTestCase):
    """A peer that leaves while a thread reads cold pages for it."""

    def setUp(self) -> None:
        """Make a cold file, and threads worked by hand."""
        self.threads = Threads()
        self.sender = SendfileSender(self.threads)
        self.file = BytesFile(CONTENT, cold=True)

    def hung_up(self, transport: Any, file: BytesFile) -> tuple[Any, Range]:
        """Begin a transfer whose peer leaves before its thread reads; return its Deferred and its range."""
        asked = Range(file, 0, TURN_BYTES)
        done = self.sender.begin_file_transfer(asked, transport)
        if transport.producer is not None and not self.threads.works:
            transport.producer.resumeProducing()
        self.assertEqual(len(self.threads.works), 1)
        transport.producer.stopProducing()
        self.assertIsNone(transport.producer)
        return done, asked

    def test_a_file_outlives_its_peer(self) -> None:
        """The transfer ends only when the thread has let go of the file, so that it is not closed before."""
        transport = SocketTransport()
        self.addCleanup(transport.close)
        for other, file in ((PeerTransport(), self.file), (transport, BytesFile(CONTENT, descriptor=0, cold=True))):
            done, _ = self.hung_up(other, file)
            self.assertNoResult(done)
            self.threads.settle()
            self.failureResultOf(done, PeerLeft)

    def test_a_late_read_error_is_ignored(self) -> None:
        """The file may have been closed meanwhile, so the place may be sound."""

        class Gone(BytesFile):
            def read_at(self, position: int, count: int) -> bytes:
                raise OSError(9, "Bad file descriptor")

        done, asked = self.hung_up(PeerTransport(), Gone(CONTENT, cold=True))
        self.threads.settle()
        self.failureResultOf(done, PeerLeft)
        self.assertEqual(asked.unreadable_at, [])

    def test_a_thread_stops_for_a_lost_peer(self) -> None:
        """The rest of the range has no reader any more."""

        class Interrupted(BytesFile):
            interrupt: Any = None

            def read_at(self, position: int, count: int) -> bytes:
                self.interrupt()
                return super().read_at(position, count)

        transport = PeerTransport()
        file = Interrupted(CONTENT, cold=True)
        file.interrupt = lambda: transport.producer.stopProducing()
        done = self.sender.begin_file_transfer(Range(file, 0, TURN_BYTES), transport)
        self.threads.settle()
        self.failureResultOf(done, PeerLeft)
        self.assertEqual(len(file.reads), 1)
        self.assertEqual(transport.value(), b"")
