"""Tests of a client's connection, against a broker's side whose answers the test gives."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path
from typing import Any

from twisted.internet.abstract import FileDescriptor
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
    NothingHeard,
    ProtocolViolation,
)
from logd.net import connection
from logd.net.connection import BrokerConnection, endpoint_for
from logd.net.limits.server_limits import ConnectionLimits
from logd.net.server import ConnectionFactory
from logd.net.transfer import SendfileSender
from logd.protocol.conversation.server import ServerConversation
from logd.protocol.requests.create_delete_topic import DeleteTopic
from logd.protocol.requests.legacy_requests import Fetch, Offsets, Produce
from logd.protocol.requests.legacy_responses import FetchResponse, OffsetsResponse
from logd.protocol.requests.metadata import Metadata, MetadataResponse
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.responses import ErrorResponse
from tests.log.threads import Threads
from tests.net.doubles import BytesFile, Range
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
            SendfileSender(Threads()),
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
        """Return the requests that have arrived since the last call."""
        self.pump.flush()
        taken, self.session.taken = self.session.taken, []
        return taken

    def answer(self, request: Any, response: Any) -> None:
        """Answer a request as the broker."""
        self.session.answer(request, response)
        self.pump.flush()

    def test_each_request_gets_its_own_answer(self) -> None:
        """Answers of 0.7 come in their order, those of ours in any."""
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

    def test_a_port_that_answers_nothing_is_told_from_a_lost_broker(self) -> None:
        """The first may speak another protocol, which the commands say."""
        waiting = self.client.request(Metadata(None))
        (request,) = self.sent()
        self.answer(request, MetadataResponse((), ()))
        self.successResultOf(waiting)
        silent = BrokerConnection(1 << 20)
        silent.makeConnection(StringTransport())
        for lost, kind in ((self.client, BrokerUnavailable), (silent, NothingHeard)):
            waiting = lost.request(Metadata(None))
            lost.connectionLost(Failure(ConnectionDone()))
            self.assertIs(self.failureResultOf(waiting).type, kind)

    def test_bytes_from_a_file_arrive_whole(self) -> None:
        """The broker sends them as a range, in many pieces."""
        waiting = self.client.request(Fetch("t", 0, 0, len(CONTENT)))
        (request,) = self.sent()
        self.answer(request, FetchResponse(0, Range(BytesFile(CONTENT), 0, len(CONTENT))))
        self.assertEqual(self.successResultOf(waiting), FetchResponse(0, CONTENT))

    def test_a_request_object_can_be_sent_twice(self) -> None:
        """Requests are told apart by their place or number, not by the object."""
        for request, response in ((FETCH, FetchResponse(0, b"x")), (Metadata(None), MetadataResponse((), ()))):
            waiting = [self.client.request(request) for _ in range(3)]
            for number, sent in enumerate(self.sent()):
                self.assertNoResult(waiting[number])
                self.answer(sent, response)
                self.assertEqual(self.successResultOf(waiting[number]), response)

    def test_requests_without_an_answer_are_sent(self) -> None:
        """Frames that are encoded already are sent likewise."""
        produce = Produce("t", 0, b"set")
        self.client.send_only(produce)
        self.client.send_only(ProduceAck(0, 0, (ProducePart("t", 0, 0, False, b"set"),)))
        self.client.send_frames([bytes.fromhex("00000010 0000 0001 74 00000000 00000003"), b"set"])
        first, second, third = self.sent()
        self.assertEqual((first, third, type(second)), (produce, produce, ProduceAck))

    def test_a_cancelled_request_spares_the_next(self) -> None:
        """The answer still comes, and is dropped."""
        first, second = self.client.request(FETCH), self.client.request(Fetch("t", 0, 9, 100))
        first.cancel()
        self.failureResultOf(first, CancelledError)
        for number, request in enumerate(self.sent()):
            self.answer(request, FetchResponse(0, b"%d" % number))
        self.assertEqual(self.successResultOf(second), FetchResponse(0, b"1"))

    def test_an_unfit_request_is_refused_at_once(self) -> None:
        """Nothing of it is sent, so the next request gets its own answer."""
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

    def test_a_lost_connection_fails_all_requests(self) -> None:
        """The error names the broker; later requests fail as well."""
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

    def test_closing_sends_what_was_written(self) -> None:
        """A producer that stops at once would lose messages otherwise."""
        self.client.send_only(Produce("t", 0, bytes(300_000)))
        closed = self.client.close()
        self.assertEqual(len(self.sent()), 1)
        self.assertIsNone(self.successResultOf(closed))
        self.assertFalse(self.client.connected_now)
        self.assertTrue(self.session.losses)


class TransportTests(SynchronousTestCase):
    """A connection over a transport that the test plays."""

    def setUp(self) -> None:
        """Connect to a transport without another end."""
        self.client = BrokerConnection(1 << 20)
        self.transport = StringTransport()
        self.client.makeConnection(self.transport)

    def test_a_write_to_the_socket_is_large(self) -> None:
        """Twisted's transports take the limit of one write from their own attribute."""
        written: list[int] = []

        class Descriptor(FileDescriptor):
            def writeSomeData(self, data: bytes) -> int:  # noqa: N802
                written.append(min(len(data), self.SEND_LIMIT))
                return written[-1]

            def startWriting(self) -> None:  # noqa: N802
                """Wait for the test to write."""

            def stopWriting(self) -> None:  # noqa: N802
                """Stay as it is."""

        transport = Descriptor(MemoryReactorClock())
        transport.connected = 1
        client = BrokerConnection(1 << 20)
        client.makeConnection(transport)
        client.send_frames([bytes(100 << 10)] * 10)
        while sum(written) < 1000 << 10:
            transport.doWrite()
        self.assertEqual(written, [512 << 10, 488 << 10])

    def test_a_function_is_told_of_a_lost_connection(self) -> None:
        """With the error that a Deferred would fail with; a request after that raises it."""
        told: list[Any] = []
        self.client.request_told(FETCH, told.append)
        self.client.connectionLost(Failure(ConnectionDone()))
        (error,) = told
        self.assertIsInstance(error, BrokerUnavailable)
        with self.assertRaises(BrokerUnavailable):
            self.client.request_told(FETCH, told.append)
        self.client.together(lambda: None)
        self.assertEqual(len(told), 1)

    def test_nonsense_ends_the_connection(self) -> None:
        """The waiting request fails with the reason."""
        waiting = self.client.request(FETCH)
        self.client.dataReceived(bytes.fromhex("00000002 0000 00000000"))
        self.assertEqual(self.successResultOf(waiting), FetchResponse(0))
        waiting = self.client.request(FETCH)
        self.failureResultOf(waiting, ProtocolViolation)
        self.assertTrue(self.transport.disconnected)
        self.client.connectionLost(Failure(ConnectionDone()))
        self.assertIsInstance(self.successResultOf(self.client.when_lost()), ProtocolViolation)

    def test_an_unexpected_answer_ends_the_connection(self) -> None:
        """Later answers could belong to any request."""
        self.client.dataReceived(bytes.fromhex("00000002 0000"))
        self.assertTrue(self.transport.disconnected)
        self.assertFalse(self.client.connected_now)

    def test_a_writer_waits_for_its_transport(self) -> None:
        """One that is cancelled is forgotten."""
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

    def test_a_failed_request_may_cancel_the_next(self) -> None:
        """As requests that are gathered do; those behind fail all the same."""
        asked = [self.client.request(Metadata((str(number),))) for number in range(3)]
        outcomes: list[object] = []
        asked[0].addErrback(lambda _: asked[1].cancel())
        for each in asked:
            each.addBoth(outcomes.append)
        self.client.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(len(outcomes), 3)

    def test_a_lost_connection_ends_the_wait(self) -> None:
        """The writer gets the error."""
        self.client.pauseProducing()
        waiting = self.client.when_writable()
        self.client.stopProducing()
        self.client.connectionLost(Failure(ConnectionDone()))
        self.failureResultOf(waiting, BrokerUnavailable)


@implementer(IStreamClientEndpoint)
class HandEndpoint:
    """An endpoint that connects when the test says so."""

    def __init__(self) -> None:
        self.cancelled = False
        self.connecting: Deferred[Any] = Deferred(self.cancel)

    def cancel(self, _: Any) -> None:
        """Note the cancellation."""
        self.cancelled = True

    def connect(self, factory: IProtocolFactory) -> Deferred[Any]:
        """See IStreamClientEndpoint."""
        return self.connecting


class ConnectTests(SynchronousTestCase):
    """Attempts to connect."""

    def test_a_failed_attempt_says_why(self) -> None:
        """The error has the reason of the endpoint."""
        endpoint = HandEndpoint()
        connecting = BrokerConnection.connect(Clock(), endpoint)
        endpoint.connecting.errback(ConnectionRefusedError("nobody there"))
        text = str(self.failureResultOf(connecting, BrokerUnavailable).value)
        self.assertIn("cannot connect to the broker", text)
        self.assertIn("nobody there", text)

    def test_the_reason_is_said_once(self) -> None:
        """The reason is in the system's own words, and available without the address, also after pickling."""
        endpoint = HandEndpoint()
        connecting = BrokerConnection.connect(Clock(), endpoint)
        endpoint.connecting.errback(TwistedConnectionRefused(errno.ECONNREFUSED, "Connection refused"))
        error = self.failureResultOf(connecting, CannotConnect).value
        self.assertEqual(str(error), "cannot connect to the broker at ?: Connection refused")
        self.assertEqual(error.reason, "Connection refused")
        self.assertEqual(pickle.loads(pickle.dumps(error)).reason, "Connection refused")

    def test_the_error_names_the_address(self) -> None:
        """An address may be written in several ways."""
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

    def test_an_attempt_can_be_cancelled(self) -> None:
        """The endpoint stops as well."""
        endpoint = HandEndpoint()
        connecting = BrokerConnection.connect(Clock(), endpoint)
        connecting.cancel()
        self.failureResultOf(connecting, CancelledError)
        self.assertTrue(endpoint.cancelled)

    def test_addresses_are_understood_or_named(self) -> None:
        """HOST:PORT, IPv6 in brackets and endpoint strings are known; the error quotes anything else."""
        reactor = MemoryReactorClock()
        for address in ("localhost:1", "[::1]:65535", "tcp:localhost:6667", "tcp:host=localhost:port=1", ("::1", 5)):
            self.assertTrue(IStreamClientEndpoint.providedBy(endpoint_for(reactor, address)), address)
        wrong = ("localhost", "nothing:x:y", "", "localhost:port", "tls:localhost", "tcp:h:1:more=x", "tcp:h:port")
        for address in ("localhost:0", "localhost:65536", ":6667", *wrong):
            with self.assertRaises(ConfigurationError) as caught:
                endpoint_for(reactor, address)
            self.assertIn(repr(address), str(caught.exception))
            self.assertNotIn("_parse", str(caught.exception))  # the name of a function of Twisted's
            if address in wrong:
                self.assertIn("tls:logs.example.org:6668", str(caught.exception))

    def test_every_kind_of_endpoint_keeps_the_time(self) -> None:
        """Those that are described have another one by default, and none for the look-up of a name."""
        cancelled: list[object] = []

        @implementer(IStreamClientEndpoint)
        class Silent:
            def connect(self, factory: IProtocolFactory) -> Deferred[Any]:
                return Deferred(cancelled.append)

        reactor = MemoryReactorClock()
        self.patch(connection, "clientFromString", lambda reactor, address: Silent())
        connecting = BrokerConnection.connect(reactor, "tls:logs.example.org:6668", timeout=2.0)
        reactor.advance(1.9)
        self.assertNoResult(connecting)
        reactor.advance(0.2)
        error = self.failureResultOf(connecting, CannotConnect).value
        self.assertIn("no connection after 2 seconds", str(error))
        self.assertEqual(len(cancelled), 1)
        connecting = BrokerConnection.connect(reactor, "tls:logs.example.org:6668:timeout=60", timeout=2.0)
        reactor.advance(59.0)
        self.assertNoResult(connecting)

    def test_tls_without_its_packages_names_the_extra(self) -> None:
        """Twisted's parser then uses a name that it has not imported."""

        def parse(reactor: object, description: str) -> None:
            raise NameError("name 'optionsForClientTLS' is not defined", name="optionsForClientTLS")

        self.patch(connection, "clientFromString", parse)
        words = r"'tls:h:6667' cannot be used: .*pip install 'twisted\[tls\]>=25.5'"
        with self.assertRaisesRegex(ConfigurationError, words):
            endpoint_for(MemoryReactorClock(), "tls:h:6667")

    def test_files_that_an_endpoint_names_and_that_are_of_no_use_are_told(self) -> None:
        """A file that is missing, one that has no certificate, and no folder of authorities."""
        junk = self.mktemp()
        Path(junk).write_text("no certificate")
        reactor = MemoryReactorClock()
        for more in (f"certificate={junk}-not:privateKey={junk}-not", f"certificate={junk}", f"trustRoots={junk}-not"):
            address = f"tls:localhost:6667:{more}"
            with self.assertRaises(ConfigurationError) as caught:
                endpoint_for(reactor, address)
            self.assertIn(f"{address!r} names a file that cannot be used: ", str(caught.exception))
