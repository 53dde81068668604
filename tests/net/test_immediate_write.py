"""Tests of requests that a client's connection gives to its socket without a turn of the reactor."""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.trial.unittest import SynchronousTestCase

from logd.net.connection import BrokerConnection
from logd.protocol.requests.legacy_requests import Fetch
from logd.protocol.requests.legacy_responses import FetchResponse
from tests.net.doubles import DirectTransport

FETCH = Fetch("t", 0, 5, 100)


class TogetherTests(SynchronousTestCase):
    """Requests over a transport whose socket the test plays; no reactor runs."""

    def test_requests_that_are_made_together_leave_at_once(self) -> None:
        """One write to the socket has them all, without a turn of the reactor; so have those that answers lead to."""
        transport = DirectTransport()
        client = BrokerConnection(1 << 20)
        client.makeConnection(transport)
        responses: list[Any] = []

        def two() -> None:
            client.together(lambda: client.request_told(FETCH, responses.append))  # one within the other
            client.request(FETCH).addCallback(lambda _: [client.request(FETCH), client.request(FETCH)])
            self.assertEqual(transport.written, [])

        client.together(two)
        (both,) = transport.written
        self.assertEqual(len(both) % 2, 0)
        self.assertEqual(both[: len(both) // 2], both[len(both) // 2 :])
        client.dataReceived(bytes.fromhex("00000002 0000 00000002 0000"))
        self.assertEqual(responses, [FetchResponse(0)])
        self.assertEqual(transport.written, [both, both])

    def test_a_function_is_called_once_for_all_answers_of_a_read(self) -> None:
        """After the last of them; what it sends leaves with what they led to. Outside of a read it is called now."""
        transport = DirectTransport()
        client = BrokerConnection(1 << 20)
        client.makeConnection(transport)
        calls: list[str] = []

        def after() -> None:
            calls.append("after")
            client.request(FETCH)

        def told(_: Any) -> None:
            calls.append("told")
            client.request(FETCH)
            client.after_answers(after)

        def two() -> None:
            client.request_told(FETCH, told)
            client.request_told(FETCH, told)

        client.together(two)
        (both,) = transport.written
        client.dataReceived(bytes.fromhex("00000002 0000 00000002 0000"))
        self.assertEqual(calls, ["told", "told", "after"])
        self.assertEqual(transport.written, [both, both + both[: len(both) // 2]])
        client.after_answers(after)
        self.assertEqual(calls[3:], ["after"])

    def test_what_the_socket_does_not_take_is_left_to_the_reactor(self) -> None:
        """The rest in order, and an error, which only the reactor turns into a lost connection."""
        for room in (0, 5):
            transport = DirectTransport(room)
            client = BrokerConnection(1 << 20)
            client.makeConnection(transport)
            client.together(partial(self.ask_twice, client))
            client.request(FETCH)
            self.assertEqual(sum(map(len, transport.written)), room)
            self.assertTrue(transport.waits)
            transport.room = 1 << 20
            transport.doWrite()
            whole = b"".join(transport.written)
            self.assertEqual(whole, whole[: len(whole) // 3] * 3)
        transport = DirectTransport()
        client = BrokerConnection(1 << 20)
        client.makeConnection(transport)
        transport.error = ConnectionDone()
        client.together(lambda: client.request(FETCH))
        self.assertTrue(transport.waits)
        self.assertTrue(client.connected_now)

    def ask_twice(self, client: BrokerConnection) -> None:
        """Send two requests whose answers do not matter."""
        for _ in range(2):
            client.request(FETCH)

    def test_requests_leave_before_the_connection_closes(self) -> None:
        """Also where an answer closes it; nothing is written to a connection that is aborted or lost."""
        transport = DirectTransport()
        client = BrokerConnection(1 << 20)
        client.makeConnection(transport)

        def close(_: Any) -> None:
            client.request_told(FETCH, lambda _: None)
            client.close()

        client.request_told(FETCH, close)
        transport.doWrite()
        client.dataReceived(bytes.fromhex("00000002 0000"))
        self.assertTrue(transport.disconnecting)
        transport.doWrite()
        self.assertEqual(transport.written[0], transport.written[1])
        client.together(lambda: client.request_told(FETCH, lambda _: None))
        self.assertTrue(transport.waits, "the reactor has to find out that the connection may close")
