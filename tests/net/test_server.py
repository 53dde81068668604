"""Tests of the broker's side of a connection, with a session that the test plays."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logd.net.limits.connection_limits import LINGER_SECONDS, ConnectionLimits
from logd.net.pause_reasons import PauseReason
from logd.net.server import ConnectionFactory
from logd.net.transfer import PIECE_BYTES, SendfileSender
from logd.protocol.conversation.server import ServerConversation
from logd.protocol.requests.legacy_requests import Fetch, Offsets, Produce
from logd.protocol.requests.legacy_responses import FetchResponse
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.requests import encode_request
from logd.protocol.requests.responses import ErrorResponse
from tests.net.doubles import BytesFile, HandThreads, Range
from tests.net.sessions import PRODUCE, Counters, Opener, Transport, described, fetch, fetched, metadata

LARGE = bytes(range(256)) * (4 * PIECE_BYTES // 256)


class ConnectionTestCase(SynchronousTestCase):
    """A connection of which no more than five requests may be under way."""

    def setUp(self) -> None:
        """Connect."""
        self.clock = Clock()
        self.threads = HandThreads()
        self.opener = Opener()
        limits = ConnectionLimits(pending_answers=5)
        self.factory = ConnectionFactory(
            lambda: ServerConversation(1000), self.opener, SendfileSender(self.threads), self.clock, limits, Counters()
        )
        self.transport = Transport()
        self.connection = self.factory.buildProtocol(None)
        self.connection.makeConnection(self.transport)
        assert self.opener.session is not None
        self.session = self.opener.session

    def receive(self, data: bytes) -> None:
        """The peer sends."""
        self.connection.dataReceived(data)

    def answer(self, request: Any, message_set: Any) -> None:
        """The session answers a fetch."""
        self.session.answer(request, FetchResponse(0, message_set))

    def answer_with_offset(self, request: Fetch) -> None:
        """What most tests answer."""
        self.answer(request, b"<%d>" % request.offset)

    @property
    def reading(self) -> bool:
        """Whether the peer is read."""
        return bool(self.transport.producerState == "producing")


class RequestTests(ConnectionTestCase):
    """Requests in, in order and bounded."""

    def test_order(self) -> None:
        """Requests are handed over in the order in which they came, however they were cut."""
        data = b"".join([fetch(1), PRODUCE, metadata(7), fetch(2)])
        for at in range(0, len(data), 7):
            self.receive(data[at : at + 7])
        expected = [Fetch("t", 0, 1, 10), Produce("t", 0, b"set"), Metadata(None, False, 7), Fetch("t", 0, 2, 10)]
        self.assertEqual(self.session.taken, expected)

    def test_limit(self) -> None:
        """Of many requests in one read five are under way at a time; the others follow as answers leave."""
        self.receive(b"".join(fetch(number) for number in range(12)))
        self.assertEqual(len(self.session.taken), 5)
        self.assertFalse(self.reading)
        for number in range(12):
            self.answer_with_offset(self.session.taken[number])
            self.assertEqual(len(self.session.taken), min(6 + number, 12))
        self.assertTrue(self.reading)
        self.assertEqual(self.transport.received(), b"".join(fetched(b"<%d>" % number) for number in range(12)))

    def test_limit_when_answered_at_once(self) -> None:
        """Requests that are answered as they are taken go on and on."""
        self.session.then = self.answer_with_offset
        self.receive(b"".join(fetch(number) for number in range(1000)))
        self.assertEqual(self.transport.received(), b"".join(fetched(b"<%d>" % number) for number in range(1000)))
        self.assertTrue(self.reading)

    def test_produces_do_not_count(self) -> None:
        """Requests without an answer are taken at once, also behind the last that may be under way."""
        self.receive(PRODUCE * 100 + fetch(0) * 5 + PRODUCE * 3)
        self.assertEqual(len(self.session.taken), 108)
        self.assertFalse(self.reading)
        self.receive(fetch(0) + PRODUCE)  # what TLS had decrypted already
        self.assertEqual(len(self.session.taken), 108)
        self.answer(self.session.taken[100], b"")
        self.assertEqual(len(self.session.taken), 110)

    def test_hold(self) -> None:
        """While it is held nothing is read or taken; when the last hold ends it goes on."""
        self.connection.pause(PauseReason.TOPIC)
        self.connection.pause(PauseReason.FLUSH)
        self.assertFalse(self.reading)
        self.receive(PRODUCE)
        self.connection.resume(PauseReason.FLUSH)
        self.assertEqual(self.session.taken, [])
        self.connection.resume(PauseReason.TOPIC)
        self.assertEqual(len(self.session.taken), 1)
        self.assertTrue(self.reading)

    def test_hold_while_taking(self) -> None:
        """A session that takes fewer than all gets the rest when its hold ends, in order."""

        def hold(request: Produce) -> None:
            self.connection.pause(PauseReason.TOPIC)

        self.session.takes, self.session.then = 1, hold
        self.receive(PRODUCE + fetch(1) + PRODUCE)
        self.assertEqual(self.session.calls, [3])
        self.connection.resume(PauseReason.TOPIC)
        self.assertEqual(self.session.calls, [3, 2])
        self.connection.resume(PauseReason.TOPIC)
        self.assertEqual([type(request) for request in self.session.taken], [Produce, Fetch, Produce])
        self.assertFalse(self.reading)
        self.connection.resume(PauseReason.TOPIC)
        self.assertTrue(self.reading)

    def test_hold_that_is_over_at_once(self) -> None:
        """A hold that ends before the session returns does not stop anything."""

        def hold(request: Produce) -> None:
            self.connection.pause(PauseReason.TOPIC)
            self.connection.resume(PauseReason.TOPIC)

        self.session.takes, self.session.then = 1, hold
        self.receive(PRODUCE * 4)
        self.assertEqual(len(self.session.taken), 4)
        self.assertTrue(self.reading)

    def test_session_raises(self) -> None:
        """A request that the broker fails at is logged, and ends this connection alone."""

        def fail(request: Any) -> None:
            raise ZeroDivisionError("in a request")

        self.session.then = fail
        self.receive(PRODUCE)
        self.assertTrue(self.transport.disconnected)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_refused(self) -> None:
        """A connection that the broker does not want is closed at once, and nothing it sent is looked at."""
        self.opener.refuses = True
        connection, transport = self.factory.buildProtocol(None), Transport()
        connection.makeConnection(transport)
        self.assertTrue(transport.disconnected)
        connection.dataReceived(fetch(1))
        connection.connectionLost(Failure(ConnectionError()))


class AnswerTests(ConnectionTestCase):
    """Answers out, in order and bounded."""

    def test_order_of_legacy(self) -> None:
        """Answers of 0.7 leave in the order of the requests, those of ours when they are there, never cut into one."""
        self.receive(fetch(1) + metadata(7) + fetch(2) + metadata(8) + b"".join(encode_request(Offsets("t", 0, -1, 1))))
        first, ours, second, other, third = self.session.taken
        self.answer(third, b"third")
        self.session.answer(other, ErrorResponse(1, "other"))
        self.answer(second, b"second")
        self.assertEqual(self.transport.received(), described(8, "other"))
        self.answer(first, b"first")
        self.assertEqual(self.transport.received(), fetched(b"first") + fetched(b"second") + fetched(b"third"))
        self.session.answer(ours, ErrorResponse(1, "ours"))
        self.assertEqual(self.transport.received(), described(7, "ours"))

    def test_ours_behind_a_range(self) -> None:
        """While a range is on its way other answers wait behind it."""
        self.transport.stuck = True
        large = Range(BytesFile(LARGE), 0, len(LARGE))
        self.receive(fetch(1) + metadata(7))
        self.answer(self.session.taken[0], large)
        self.session.answer(self.session.taken[1], ErrorResponse(1, "ours"))
        self.assertTrue(self.transport.received().startswith(fetched(LARGE)[:100]))
        self.assertEqual((large.closed, self.connection.idle), (0, False))
        self.assertTrue(self.transport.take().endswith(LARGE[-100:] + described(7, "ours")))
        self.assertEqual((large.closed, self.connection.idle), (1, True))

    def test_peer_that_does_not_take(self) -> None:
        """Answers that the peer does not take count as under way: no more is taken, then no more is read."""
        self.transport.stuck = True
        ranges: list[Range] = []

        def answer(request: Fetch) -> None:
            ranges.append(Range(BytesFile(LARGE), 0, len(LARGE)))
            self.answer(request, ranges[-1])

        self.session.then = answer
        self.receive(b"".join(fetch(number) for number in range(50)))
        self.assertLessEqual(len(ranges), 7)
        self.assertFalse(self.reading)
        self.transport.take()
        self.assertEqual([each.closed for each in ranges], [1] * 50)
        self.assertTrue(self.reading)

    def test_connection_lost(self) -> None:
        """All ranges are closed: on their way, queued, held back behind an earlier request, and answered too late."""
        self.transport.stuck = True
        ranges = [Range(BytesFile(LARGE), 0, len(LARGE)) for _ in range(4)]
        self.receive(b"".join(fetch(number) for number in range(5)))
        requests = self.session.taken
        self.answer(requests[0], ranges[0])
        self.answer(requests[1], ranges[1])
        self.answer(requests[3], ranges[2])
        assert self.transport.producer is not None
        self.transport.producer.stopProducing()
        self.connection.connectionLost(Failure(ConnectionError()))
        self.answer(requests[4], ranges[3])
        self.answer(requests[2], b"late")
        self.assertEqual([each.closed for each in ranges], [1, 1, 1, 1])
        self.assertEqual(self.session.losses, 1)
        self.connection.resume(PauseReason.TOPIC)
        self.connection.pause(PauseReason.TOPIC)
        self.connection.close(drain=False)
        self.connection.close()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_short_file(self) -> None:
        """A range that cannot be sent whole ends the connection: its length was promised."""
        self.receive(fetch(1))
        self.answer(self.session.taken[0], Range(BytesFile(LARGE), len(LARGE) - 10, PIECE_BYTES))
        self.assertTrue(self.transport.disconnected)


class ClosingTests(ConnectionTestCase):
    """The end of a connection."""

    def lose(self) -> None:
        """The transport is gone."""
        self.connection.connectionLost(Failure(ConnectionError()))
        self.assertEqual([call for call in self.clock.getDelayedCalls() if call.active()], [])

    def test_violation(self) -> None:
        """Bytes that are no request close the connection once what came before is answered; the rest is ignored."""
        self.receive(fetch(1) + fetch(2) + b"\0\0\0\0" + fetch(3))
        self.assertFalse(self.transport.disconnecting)
        self.receive(fetch(4))
        self.answer_with_offset(self.session.taken[0])
        self.assertFalse(self.transport.disconnecting)
        self.answer_with_offset(self.session.taken[1])
        self.assertTrue(self.transport.disconnecting)
        self.assertFalse(self.transport.disconnected)
        self.assertEqual(self.transport.received(), fetched(b"<1>") + fetched(b"<2>"))
        self.assertEqual(len(self.session.taken), 2)
        self.assertIsNone(self.transport.producer)
        self.lose()

    def test_violation_behind_a_backlog(self) -> None:
        """Requests that wait for their turn before bytes that are none get it."""
        self.receive(b"".join(fetch(number) for number in range(8)) + b"\xff\xff\xff\xff")
        self.assertEqual(len(self.session.taken), 5)
        for number in range(8):
            self.assertFalse(self.transport.disconnecting)
            self.answer_with_offset(self.session.taken[number])
        self.assertTrue(self.transport.disconnecting)
        self.lose()

    def test_linger(self) -> None:
        """A peer that does not take the answers that it is owed is cut off after some seconds."""
        self.receive(fetch(1) + b"\0\0\0\0")
        self.clock.advance(LINGER_SECONDS - 0.1)
        self.assertFalse(self.transport.disconnected)
        self.clock.advance(0.2)
        self.assertTrue(self.transport.disconnected)
        self.lose()

    def test_close(self) -> None:
        """Closing waits for the answers of what was taken, and for them to leave; what was not taken gets none."""
        self.transport.stuck = True
        large = Range(BytesFile(LARGE), 0, len(LARGE))
        self.receive(b"".join(fetch(number) for number in range(8)))
        self.answer(self.session.taken[0], large)
        self.connection.close()
        for request in self.session.taken[1:]:
            self.assertFalse(self.transport.disconnecting)
            self.answer_with_offset(request)
        self.assertFalse(self.transport.disconnecting)
        self.assertTrue(self.transport.take().endswith(fetched(b"<4>") + fetched(b"<5>")))
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(len(self.session.taken), 6)
        self.lose()

    def test_close_while_taking(self) -> None:
        """A session that closes in the middle of its requests still answers those that it was given."""

        def answer(request: Fetch) -> None:
            if request.offset == 1:
                self.connection.close("of a reason")
            self.answer_with_offset(request)

        self.session.then = answer
        self.receive(fetch(0) + fetch(1) + fetch(2))
        self.assertEqual(self.transport.received(), fetched(b"<0>") + fetched(b"<1>") + fetched(b"<2>"))
        self.assertTrue(self.transport.disconnecting)
        self.lose()

    def test_close_idle(self) -> None:
        """Where nothing is owed closing is done at once; twice is once."""
        self.assertTrue(self.connection.idle)
        self.connection.close()
        self.connection.close()
        self.assertTrue(self.transport.disconnecting)
        self.lose()

    def test_half_a_frame_at_the_end(self) -> None:
        """A peer that goes away in the middle of a request is no trouble."""
        self.receive(fetch(1)[:10])
        self.lose()
        self.assertEqual((self.session.taken, self.session.losses), ([], 1))
