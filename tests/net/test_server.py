"""Tests of the broker's side of a connection, with a session that the test plays."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.fair_turns import TURN_SECONDS
from logd.net import server
from logd.net.backlog import TURN_REQUESTS
from logd.net.limits.server_limits import LINGER_SECONDS, ConnectionLimits
from logd.net.server import ConnectionFactory
from logd.net.session import PauseReason
from logd.net.transfer import PIECE_BYTES, SendfileSender
from logd.protocol.conversation.server import ServerConversation
from logd.protocol.requests.legacy_requests import Fetch, Offsets, Produce
from logd.protocol.requests.legacy_responses import FetchResponse
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.requests import encode_request
from logd.protocol.requests.responses import ErrorResponse
from tests.log.threads import Threads
from tests.net.doubles import BytesFile, PeerTransport, Range
from tests.net.sessions import PRODUCE, Counters, Opener, described, fetch, fetched, metadata

LARGE = bytes(range(256)) * (4 * PIECE_BYTES // 256)


class ConnectionTestCase(SynchronousTestCase):
    """A connection that may have five unanswered requests."""

    def setUp(self) -> None:
        """Connect."""
        self.clock = Clock()
        self.threads = Threads()
        self.opener = Opener()
        limits = ConnectionLimits(pending_answers=5)
        self.factory = ConnectionFactory(
            lambda: ServerConversation(1000), self.opener, SendfileSender(self.threads), self.clock, limits, Counters()
        )
        self.transport = PeerTransport()
        self.connection = self.factory.buildProtocol(None)
        self.connection.makeConnection(self.transport)
        assert self.opener.session is not None
        self.session = self.opener.session

    def receive(self, data: bytes) -> None:
        """Receive bytes from the peer."""
        self.connection.dataReceived(data)

    def answer(self, request: Any, message_set: Any) -> None:
        """Answer a fetch as the session."""
        self.session.answer(request, FetchResponse(0, message_set))

    def answer_with_offset(self, request: Fetch) -> None:
        """Answer a fetch with its own offset."""
        self.answer(request, b"<%d>" % request.offset)

    @property
    def reading(self) -> bool:
        """True while the peer is read."""
        return bool(self.transport.producerState == "producing")


class RequestTests(ConnectionTestCase):
    """Requests that arrive: their order, and their bound."""

    def test_requests_arrive_in_their_order(self) -> None:
        """Requests may be cut anywhere on the way."""
        data = b"".join([fetch(1), PRODUCE, metadata(7), fetch(2)])
        for at in range(0, len(data), 7):
            self.receive(data[at : at + 7])
        expected = [Fetch("t", 0, 1, 10), Produce("t", 0, b"set"), Metadata(None, False, 7), Fetch("t", 0, 2, 10)]
        self.assertEqual(self.session.taken, expected)

    def test_five_requests_are_under_way(self) -> None:
        """Of many in one read, the others follow as answers leave."""
        self.receive(b"".join(fetch(number) for number in range(12)))
        self.assertEqual(len(self.session.taken), 5)
        self.assertFalse(self.reading)
        for number in range(12):
            self.answer_with_offset(self.session.taken[number])
            self.assertEqual(len(self.session.taken), min(6 + number, 12))
        self.assertTrue(self.reading)
        self.assertEqual(self.transport.received(), b"".join(fetched(b"<%d>" % number) for number in range(12)))

    def test_immediate_answers_never_reach_the_limit(self) -> None:
        """A thousand requests in one read are taken in a loop, not by recursion."""
        self.session.then = self.answer_with_offset
        self.receive(b"".join(fetch(number) for number in range(1000)))
        self.assertEqual(self.transport.received(), b"".join(fetched(b"<%d>" % number) for number in range(1000)))
        self.assertTrue(self.reading)

    def test_produce_requests_do_not_count(self) -> None:
        """Requests without an answer are taken behind the last one that may be under way."""
        self.receive(PRODUCE * 100 + fetch(0) * 5 + PRODUCE * 3)
        self.assertEqual(len(self.session.taken), 108)
        self.assertFalse(self.reading)
        self.receive(fetch(0) + PRODUCE)  # bytes that TLS had decrypted already
        self.assertEqual(len(self.session.taken), 108)
        self.answer(self.session.taken[100], b"")
        self.assertEqual(len(self.session.taken), 110)

    def test_a_pause_stops_the_reading(self) -> None:
        """Reading goes on when the last of several reasons to pause ends."""
        self.connection.pause(PauseReason.TOPIC)
        self.connection.pause(PauseReason.FLUSH)
        self.assertFalse(self.reading)
        self.receive(PRODUCE)
        self.connection.resume(PauseReason.FLUSH)
        self.assertEqual(self.session.taken, [])
        self.connection.resume(PauseReason.TOPIC)
        self.assertEqual(len(self.session.taken), 1)
        self.assertTrue(self.reading)

    def test_a_pause_keeps_the_rest_in_order(self) -> None:
        """The session took fewer requests than it was given."""

        def pause(request: Produce) -> None:
            self.connection.pause(PauseReason.TOPIC)

        self.session.takes, self.session.then = 1, pause
        self.receive(PRODUCE + fetch(1) + PRODUCE)
        self.assertEqual(self.session.calls, [3])
        self.connection.resume(PauseReason.TOPIC)
        self.assertEqual(self.session.calls, [3, 2])
        self.connection.resume(PauseReason.TOPIC)
        self.assertEqual([type(request) for request in self.session.taken], [Produce, Fetch, Produce])
        self.assertFalse(self.reading)
        self.connection.resume(PauseReason.TOPIC)
        self.assertTrue(self.reading)

    def test_a_short_pause_stops_nothing(self) -> None:
        """The pause ends before the session returns."""

        def pause(request: Produce) -> None:
            self.connection.pause(PauseReason.TOPIC)
            self.connection.resume(PauseReason.TOPIC)

        self.session.takes, self.session.then = 1, pause
        self.receive(PRODUCE * 4)
        self.assertEqual(len(self.session.taken), 4)
        self.assertTrue(self.reading)

    def test_requests_that_take_long_leave_turns_to_others(self) -> None:
        """Thousands may arrive in one read; another connection of the same reactor is served in between."""

        def work(request: Produce) -> None:
            self.clock.rightNow += 2 * TURN_SECONDS / TURN_REQUESTS

        self.session.then = work
        self.receive(PRODUCE * (3 * TURN_REQUESTS))
        self.assertEqual((len(self.session.taken), self.reading), (TURN_REQUESTS, False))
        meanwhile: list[int] = []
        self.clock.callLater(0, lambda: meanwhile.append(len(self.session.taken)))
        self.clock.advance(0)
        self.assertEqual(meanwhile, [2 * TURN_REQUESTS])
        self.assertEqual((len(self.session.taken), self.reading), (3 * TURN_REQUESTS, True))

    def test_a_failing_session_ends_its_connection(self) -> None:
        """The error is logged, and the broker goes on."""

        def fail(request: Any) -> None:
            raise ZeroDivisionError("in a request")

        self.session.then = fail
        self.receive(PRODUCE)
        self.assertTrue(self.transport.disconnected)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_an_unwanted_connection_is_closed(self) -> None:
        """Nothing that it sent is looked at."""
        self.opener.refuses = True
        connection, transport = self.factory.buildProtocol(None), PeerTransport()
        connection.makeConnection(transport)
        self.assertTrue(transport.disconnected)
        connection.dataReceived(fetch(1))
        connection.connectionLost(Failure(ConnectionError()))


class AnswerTests(ConnectionTestCase):
    """Answers that leave: their order, and their bound."""

    def test_legacy_answers_keep_their_order(self) -> None:
        """Answers of ours leave as soon as they are there, between whole answers."""
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

    def test_answers_wait_behind_a_range(self) -> None:
        """An answer in the middle of its bytes would be read as messages."""
        self.transport.taking = False
        large = Range(BytesFile(LARGE), 0, len(LARGE))
        self.receive(fetch(1) + metadata(7))
        self.answer(self.session.taken[0], large)
        self.session.answer(self.session.taken[1], ErrorResponse(1, "ours"))
        self.assertTrue(self.transport.received().startswith(fetched(LARGE)[:100]))
        self.assertEqual((large.closed, self.connection.idle), (0, False))
        self.assertTrue(self.transport.take_all().endswith(LARGE[-100:] + described(7, "ours")))
        self.assertEqual((large.closed, self.connection.idle), (1, True))

    def test_untaken_answers_count_as_under_way(self) -> None:
        """A peer that takes nothing is not read after a few of them."""
        self.transport.taking = False
        ranges: list[Range] = []

        def answer(request: Fetch) -> None:
            ranges.append(Range(BytesFile(LARGE), 0, len(LARGE)))
            self.answer(request, ranges[-1])

        self.session.then = answer
        self.receive(b"".join(fetch(number) for number in range(50)))
        self.assertLessEqual(len(ranges), 7)
        self.assertFalse(self.reading)
        self.transport.take_all()
        self.assertEqual([each.closed for each in ranges], [1] * 50)
        self.assertTrue(self.reading)

    def test_a_peer_that_takes_nothing_costs_bounded_memory(self) -> None:
        """Its requests are taken again once it has taken the answers."""
        self.patch(server, "MOST_WAITING_BYTES", 100_000)
        self.transport.taking = False
        self.session.then = lambda request: self.answer(request, bytes(60_000))
        for number in range(20):
            self.receive(fetch(number))
        self.assertEqual(len(self.session.taken), 4)  # two in the transport, and two in the queue: less than five
        self.assertFalse(self.reading)
        self.transport.take_all()
        self.assertEqual(len(self.session.taken), 20)
        self.assertTrue(self.reading)

    def test_a_lost_connection_closes_all_ranges(self) -> None:
        """Under way, queued, held back behind an earlier request, and answered too late."""
        self.transport.taking = False
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

    def test_a_short_range_ends_the_connection(self) -> None:
        """The length was announced, so the peer would take other bytes for the rest."""
        self.receive(fetch(1))
        self.answer(self.session.taken[0], Range(BytesFile(LARGE), len(LARGE) - 10, PIECE_BYTES))
        self.assertTrue(self.transport.disconnected)


class ClosingTests(ConnectionTestCase):
    """The end of a connection."""

    def lose(self) -> None:
        """Lose the connection, and check that no timer is left."""
        self.connection.connectionLost(Failure(ConnectionError()))
        self.assertEqual([call for call in self.clock.getDelayedCalls() if call.active()], [])

    def test_a_violation_closes_after_the_answers(self) -> None:
        """Bytes behind it are ignored."""
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

    def test_requests_before_a_violation_get_their_turn(self) -> None:
        """The limit on requests has kept them waiting."""
        self.receive(b"".join(fetch(number) for number in range(8)) + b"\xff\xff\xff\xff")
        self.assertEqual(len(self.session.taken), 5)
        for number in range(8):
            self.assertFalse(self.transport.disconnecting)
            self.answer_with_offset(self.session.taken[number])
        self.assertTrue(self.transport.disconnecting)
        self.lose()

    def test_a_stuck_peer_is_cut_off(self) -> None:
        """A peer that does not take its answers would keep the connection open for ever."""
        self.receive(fetch(1) + b"\0\0\0\0")
        self.clock.advance(LINGER_SECONDS - 0.1)
        self.assertFalse(self.transport.disconnected)
        self.clock.advance(0.2)
        self.assertTrue(self.transport.disconnected)
        self.lose()

    def test_closing_waits_for_the_answers(self) -> None:
        """Requests that were not taken yet get none."""
        self.transport.taking = False
        large = Range(BytesFile(LARGE), 0, len(LARGE))
        self.receive(b"".join(fetch(number) for number in range(8)))
        self.answer(self.session.taken[0], large)
        self.connection.close()
        for request in self.session.taken[1:]:
            self.assertFalse(self.transport.disconnecting)
            self.answer_with_offset(request)
        self.assertFalse(self.transport.disconnecting)
        self.assertTrue(self.transport.take_all().endswith(fetched(b"<4>") + fetched(b"<5>")))
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(len(self.session.taken), 6)
        self.lose()

    def test_requests_of_one_read_are_answered(self) -> None:
        """The session closes in the middle of them."""

        def answer(request: Fetch) -> None:
            if request.offset == 1:
                self.connection.close("of a reason")
            self.answer_with_offset(request)

        self.session.then = answer
        self.receive(fetch(0) + fetch(1) + fetch(2))
        self.assertEqual(self.transport.received(), fetched(b"<0>") + fetched(b"<1>") + fetched(b"<2>"))
        self.assertTrue(self.transport.disconnecting)
        self.lose()

    def test_an_idle_connection_closes_at_once(self) -> None:
        """A second close changes nothing."""
        self.assertTrue(self.connection.idle)
        self.connection.close()
        self.connection.close()
        self.assertTrue(self.transport.disconnecting)
        self.lose()

    def test_a_peer_may_leave_within_a_frame(self) -> None:
        """The session learns of it once, and of no request."""
        self.receive(fetch(1)[:10])
        self.lose()
        self.assertEqual((self.session.taken, self.session.losses), ([], 1))
