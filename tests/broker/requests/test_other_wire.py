"""Tests that a wire protocol is plugged in by a conversation alone: nothing of the server or the handlers knows it."""

from __future__ import annotations

from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from logd.errors import OffsetOutOfRange, WrongPartition
from logd.net.limits.connection_limits import ConnectionLimits
from logd.net.server import ConnectionFactory
from logd.net.transfer import SendfileSender
from logd.protocol.conversation.interfaces import IConversation
from logd.protocol.loops import decode_set
from tests.broker.doubles import BrokerTestCase, PeerTransport
from tests.broker.lineconversation import LineConversation


class LineProtocolTests(BrokerTestCase):
    """A listener of its own for a protocol of lines, beside the broker's."""

    def setUp(self) -> None:
        """Connect to it."""
        super().setUp()
        limits, sender = ConnectionLimits(pending_answers=3), SendfileSender(self.reads)
        lines = ConnectionFactory(LineConversation, self.broker, sender, self.clock, limits, self.broker.counters)
        self.addCleanup(lines.stopFactory)
        self.connection = lines.buildProtocol(None)
        self.transport = PeerTransport("10.0.0.9")
        self.connection.makeConnection(self.transport)
        self.addCleanup(self.lose)
        self.create("t", 2)

    def lose(self) -> None:
        """The connection is gone."""
        self.connection.connectionLost(Failure(ConnectionError("lost")))

    def say(self, *lines: str) -> bytes:
        """Send lines, byte by byte, and return all that comes back."""
        for byte in "".join(line + "\n" for line in lines).encode():
            self.connection.dataReceived(bytes([byte]))
        return self.heard()

    def heard(self) -> bytes:
        """Return what has come back."""
        self.settle()
        data = bytes(self.transport.value())
        self.transport.clear()
        return data

    def test_interface(self) -> None:
        """It is a conversation."""
        self.assertTrue(verifyObject(IConversation, LineConversation()))

    def test_produce_and_fetch(self) -> None:
        """What is put is acknowledged once it is flushed, and served from its file, beside what others produce."""
        self.assertEqual(self.say("PUT t 0 hello", "PUT t 1 world"), b"OK 0 14\nOK 0 14\n")
        answer = self.say("GET t 0 0")
        self.assertTrue(answer.startswith(b"OK 14\n"))
        self.assertEqual([message.payload for message in decode_set(answer[6:]).messages], [b"hello"])
        self.assertEqual(self.produce(self.connect(), "t", answer[6:], 0).first_id, 14)
        self.assertEqual(self.say("GET t 0 14"), answer)

    def test_order(self) -> None:
        """A read waits for the answers to the writes before it, and sees the log as they have left it, unflushed."""
        self.connection.dataReceived(b"PUT t 0 first\nGET t 0 0\n")
        self.assertEqual(bytes(self.transport.value()), b"")
        self.assertEqual(self.heard(), b"OK 0 14\nOK 0\n")

    def test_refused(self) -> None:
        """What handlers refuse is an error of its own request."""
        answers = self.say("PUT t 7 hello", "GET t 0 5", "PUT t 0 hello").split(b"\n")
        expected = [b"ERROR %d" % WrongPartition.code, b"ERROR %d" % OffsetOutOfRange.code, b"OK 0 14", b""]
        self.assertEqual(answers, expected)

    def test_created(self) -> None:
        """A topic that is not there is made, as for every client."""
        self.assertEqual(self.say("PUT new 0 hello"), b"OK 0 14\n")

    def test_bounded(self) -> None:
        """The limits of connections hold: no more than three requests are under way."""
        self.connection.dataReceived(b"PUT t 0 x\n" * 10)
        self.assertEqual(self.transport.producerState, "paused")
        self.assertEqual(self.heard().count(b"OK"), 10)
        self.assertEqual(self.transport.producerState, "producing")

    def test_violation(self) -> None:
        """A line that is no request closes the connection, once those before it are answered."""
        self.connection.dataReceived(b"PUT t 0 hello\nHELP\nPUT t 0 more\n")
        self.assertFalse(self.transport.disconnecting)
        self.assertEqual(self.heard(), b"OK 0 14\n")
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(len(self.events.warnings("a line that is no request")), 1)
