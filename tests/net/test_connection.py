"""Tests of a client's connection, against the broker's side of one whose answers the test gives."""

from __future__ import annotations

import errno
import pickle
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.error import ConnectionRefusedError as TwistedConnectionRefused
from twisted.internet.interfaces import IProtocolFactory, IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure
from twisted.test.iosim import FakeTransport, connect
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from logd.errors import (
    BrokerUnavailable,
    CannotConnect,
    ConfigurationError,
    InvalidRequest,
    MessageTooLarge,
    ProtocolViolation,
)
from logd.net.connection import BrokerConnection, endpoint_for
from logd.net.limits.connection_limits import ConnectionLimits
from logd.net.server import ConnectionFactory
from logd.net.transfer import SendfileSender
from logd.protocol.conversation.server import ServerConversation
from logd.protocol.requests.administration import DeleteTopic
from logd.protocol.requests.legacy_requests import Fetch, Offsets, Produce
from logd.protocol.requests.legacy_responses import FetchResponse, OffsetsResponse
from logd.protocol.requests.metadata import Metadata, MetadataResponse
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.responses import ErrorResponse
from tests.net.doubles import BytesFile, HandThreads, Range
from tests.net.sessions import Counters, Opener

FETCH = Fetch("t", 0, 5, 100)
CONTENT = bytes(range(256)) * 2000


class ConversationTests(SynchronousTestCase):
    """Requests and answers over a connection in memory."""

    def setUp(self) -> None:
        """Connect both sides."""
        self.opener = Opener()
        factory = ConnectionFactory(
            lambda: ServerConversation(1 << 20),
            self.opener,
            SendfileSender(HandThreads()),
            Clock(),
            ConnectionLimits(100),
            Counters(),
        )
        self.server = factory.buildProtocol(None)
        self.client = BrokerConnection(1 << 20)
        self.pump = connect(
            self.server, FakeTransport(self.server, True), self.client, FakeTransport(self.client, False)
        )
        assert self.opener.session is not None
        self.session = self.opener.session

    def sent(self) -> list[Any]:
        """Requests that have arrived since the last call."""
        self.pump.flush()
        taken, self.session.taken = self.session.taken, []
        return taken

    def answer(self, request: Any, response: Any) -> None:
        """The broker answers."""
        self.session.answer(request, response)
        self.pump.flush()

    def test_answers(self) -> None:
        """Each request gets its own answer: of 0.7 in order, of ours in any."""
        requests = [Metadata(None), FETCH, DeleteTopic("t"), Offsets("t", 0, -1, 1)]
        waiting = [self.client.request(request) for request in requests]
        metadata, fetch, delete, offsets = self.sent()
        self.answer(offsets, OffsetsResponse(0, (7,)))
        self.answer(delete, ErrorResponse(101, "no topic t"))
        for each in (waiting[0], waiting[1], waiting[3]):
            self.assertNoResult(each)
        self.assertEqual(self.successResultOf(waiting[2]).error, 101)
        self.answer(fetch, FetchResponse(0, b"set"))
        self.assertEqual(self.successResultOf(waiting[1]), FetchResponse(0, b"set"))
        self.assertEqual(self.successResultOf(waiting[3]), OffsetsResponse(0, (7,)))
        self.answer(metadata, MetadataResponse((), ()))
        self.assertEqual(self.successResultOf(waiting[0]), MetadataResponse((), ()))

    def test_range(self) -> None:
        """Bytes that the broker sends from a file arrive whole."""
        waiting = self.client.request(Fetch("t", 0, 0, len(CONTENT)))
        (request,) = self.sent()
        self.answer(request, FetchResponse(0, Range(BytesFile(CONTENT), 0, len(CONTENT))))
        self.assertEqual(self.successResultOf(waiting), FetchResponse(0, CONTENT))

    def test_same_object_twice(self) -> None:
        """One request object sent twice is two requests with an answer each."""
        for request, response in ((FETCH, FetchResponse(0, b"x")), (Metadata(None), MetadataResponse((), ()))):
            waiting = [self.client.request(request) for _ in range(3)]
            for number, sent in enumerate(self.sent()):
                self.assertNoResult(waiting[number])
                self.answer(sent, response)
                self.assertEqual(self.successResultOf(waiting[number]), response)

    def test_send_only(self) -> None:
        """Requests that nothing answers, and frames that are encoded already."""
        produce = Produce("t", 0, b"set")
        self.client.send_only(produce)
        self.client.send_only(ProduceAck(0, 0, (ProducePart("t", 0, 0, False, b"set"),)))
        self.client.send_frames([bytes.fromhex("00000010 0000 0001 74 00000000 00000003"), b"set"])
        first, second, third = self.sent()
        self.assertEqual((first, third, type(second)), (produce, produce, ProduceAck))

    def test_cancel(self) -> None:
        """Cancelling stops the waiting alone; the answer that still comes is nobody's, and the next one is right."""
        first, second = self.client.request(FETCH), self.client.request(Fetch("t", 0, 9, 100))
        first.cancel()
        self.failureResultOf(first, CancelledError)
        for number, request in enumerate(self.sent()):
            self.answer(request, FetchResponse(0, b"%d" % number))
        self.assertEqual(self.successResultOf(second), FetchResponse(0, b"1"))

    def test_cannot_be_sent(self) -> None:
        """A request that does not fit a frame or its fields is refused, and nothing is expected for it."""
        with self.assertRaises(MessageTooLarge):
            self.client.send_only(Produce("t", 0, bytes(2 << 20)))
        with self.assertRaises(InvalidRequest):
            self.client.request(Fetch("t" * 40_000, 0, 0, 0))
        with self.assertRaises(InvalidRequest):
            self.client.request(Fetch("t", 1 << 40, 0, 0))
        waiting = self.client.request(FETCH)
        (request,) = self.sent()
        self.answer(request, FetchResponse(1))
        self.assertEqual(self.successResultOf(waiting), FetchResponse(1))

    def test_lost(self) -> None:
        """When the connection is lost everything that waits fails with the reason, and so does everything later."""
        self.client.address = "broker.example:6667"
        waiting = [self.client.request(FETCH), self.client.request(Metadata(None))]
        lost = self.client.when_lost()
        self.assertTrue(self.client.connected_now)
        self.server.close(drain=False)
        self.pump.flush()
        self.assertFalse(self.client.connected_now)
        self.assertIsInstance(self.successResultOf(lost), Exception)
        self.assertIsInstance(self.successResultOf(self.client.when_lost()), Exception)
        for deferred in (*waiting, self.client.request(FETCH), self.client.when_writable()):
            text = str(self.failureResultOf(deferred, BrokerUnavailable).value)
            self.assertIn("the connection to the broker at broker.example:6667 was lost", text)
        for send in (self.client.send_only, self.client.send_frames):
            with self.assertRaises(BrokerUnavailable):
                send([])
        self.successResultOf(self.client.close())
        self.client.abort()

    def test_close(self) -> None:
        """Closing lets what was written leave."""
        self.client.send_only(Produce("t", 0, bytes(300_000)))
        closed = self.client.close()
        self.assertEqual(len(self.sent()), 1)
        self.assertIsNone(self.successResultOf(closed))
        self.assertFalse(self.client.connected_now)
        self.assertTrue(self.session.losses)


class TransportTests(SynchronousTestCase):
    """What only a transport played by hand can do."""

    def setUp(self) -> None:
        """Connect to nobody."""
        self.client = BrokerConnection(1 << 20)
        self.transport = StringTransport()
        self.client.makeConnection(self.transport)

    def test_nonsense(self) -> None:
        """Bytes that are no answer end the connection, and what waited knows why."""
        waiting = self.client.request(FETCH)
        self.client.dataReceived(bytes.fromhex("00000002 0000 00000000"))
        self.assertEqual(self.successResultOf(waiting), FetchResponse(0))
        waiting = self.client.request(FETCH)
        self.failureResultOf(waiting, ProtocolViolation)
        self.assertTrue(self.transport.disconnected)
        self.client.connectionLost(Failure(ConnectionDone()))
        self.assertIsInstance(self.successResultOf(self.client.when_lost()), ProtocolViolation)

    def test_unasked(self) -> None:
        """An answer to nothing is nonsense, too."""
        self.client.dataReceived(bytes.fromhex("00000002 0000"))
        self.assertTrue(self.transport.disconnected)
        self.assertFalse(self.client.connected_now)

    def test_writable(self) -> None:
        """Who waits to write is told when the transport takes more; one who does not wait any more is forgotten."""
        self.assertIsNone(self.successResultOf(self.client.when_writable()))
        self.client.pauseProducing()
        self.assertFalse(self.client.writable)
        first, second = self.client.when_writable(), self.client.when_writable()
        second.cancel()
        self.failureResultOf(second, CancelledError)
        self.assertNoResult(first)
        self.client.resumeProducing()
        self.assertIsNone(self.successResultOf(first))
        self.assertTrue(self.client.writable)

    def test_lost_while_not_writable(self) -> None:
        """Who waits to write learns of the loss."""
        self.client.pauseProducing()
        waiting = self.client.when_writable()
        self.client.stopProducing()
        self.client.connectionLost(Failure(ConnectionDone()))
        self.failureResultOf(waiting, BrokerUnavailable)


@implementer(IStreamClientEndpoint)
class HandEndpoint:
    """An endpoint that connects when told to."""

    def __init__(self) -> None:
        self.cancelled = False
        self.connecting: Deferred[Any] = Deferred(self.cancel)

    def cancel(self, _: Any) -> None:
        """Note it."""
        self.cancelled = True

    def connect(self, factory: IProtocolFactory) -> Deferred[Any]:
        """See IStreamClientEndpoint."""
        return self.connecting


class ConnectTests(SynchronousTestCase):
    """Getting a connection."""

    def test_refused(self) -> None:
        """A connection that cannot be had fails with where to and why."""
        endpoint = HandEndpoint()
        connecting = BrokerConnection.connect(Clock(), endpoint)
        endpoint.connecting.errback(ConnectionRefusedError("nobody there"))
        text = str(self.failureResultOf(connecting, BrokerUnavailable).value)
        self.assertIn("cannot connect to the broker", text)
        self.assertIn("nobody there", text)

    def test_reason(self) -> None:
        """The system's reason is said once, in its own words, and can be had without the address."""
        endpoint = HandEndpoint()
        connecting = BrokerConnection.connect(Clock(), endpoint)
        endpoint.connecting.errback(TwistedConnectionRefused(errno.ECONNREFUSED, "Connection refused"))
        error = self.failureResultOf(connecting, CannotConnect).value
        self.assertEqual(str(error), "cannot connect to the broker at ?: Connection refused")
        self.assertEqual(error.reason, "Connection refused")
        self.assertEqual(pickle.loads(pickle.dumps(error)).reason, "Connection refused")

    def test_named(self) -> None:
        """The error names the address that was asked for."""
        reactor = MemoryReactorClock()
        for address in ("127.0.0.1:6667", ("127.0.0.1", 6667), "tcp:127.0.0.1:6667"):
            connecting = BrokerConnection.connect(reactor, address, timeout=3)
            reactor.advance(0)
            reactor.connectors[-1].stopConnecting()
            factory = reactor.tcpClients[-1][2]
            factory.clientConnectionFailed(reactor.connectors[-1], Failure(ConnectionRefusedError("nobody there")))
            reactor.advance(10)
            text = str(self.failureResultOf(connecting, BrokerUnavailable).value)
            self.assertIn("127.0.0.1:6667", text)

    def test_cancel(self) -> None:
        """It can be cancelled."""
        endpoint = HandEndpoint()
        connecting = BrokerConnection.connect(Clock(), endpoint)
        connecting.cancel()
        self.failureResultOf(connecting, CancelledError)
        self.assertTrue(endpoint.cancelled)

    def test_addresses(self) -> None:
        """HOST:PORT, IPv6 in brackets and endpoint strings are understood; what is none of these is named."""
        reactor = MemoryReactorClock()
        for address in ("localhost:1", "[::1]:65535", "tcp:localhost:6667", "tcp:host=localhost:port=1", ("::1", 5)):
            self.assertTrue(IStreamClientEndpoint.providedBy(endpoint_for(reactor, address)), address)
        for address in ("localhost:0", "localhost:65536", ":6667", "localhost", "nothing:x:y", "", "localhost:port"):
            with self.assertRaises(ConfigurationError) as caught:
                endpoint_for(reactor, address)
            self.assertIn(repr(address), str(caught.exception))
