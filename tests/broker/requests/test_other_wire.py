"""Tests that a conversation alone adds a wire protocol: server and handlers know nothing of it."""

from __future__ import annotations

from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from logd.errors import OffsetOutOfRange, WrongPartition
from logd.net.limits.server_limits import ConnectionLimits
from logd.net.server import ConnectionFactory
from logd.net.transfer import SendfileSender
from logd.protocol.conversation.interfaces import IConversation
from logd.protocol.loops import decode_set
from tests.broker.line_conversation import LineConversation
from tests.broker.rig import BrokerTestCase
from tests.net.doubles import PeerTransport


class LineProtocolTests(BrokerTestCase):
    """A listener of its own for a protocol of lines, beside the broker's."""

    def setUp(self) -> None:
        """Listen for lines, and connect."""
        super().setUp()
        limits, sender = ConnectionLimits(pending_answers=3), SendfileSender(self.reads)
        lines = ConnectionFactory(LineConversation, self.broker, sender, self.clock, limits, self.broker.counters)
        self.addCleanup(lines.stopFactory)
        self.connection = lines.buildProtocol(None)
        self.transport = PeerTransport(host="10.0.0.9")
        self.connection.makeConnection(self.transport)
        self.addCleanup(self.lose)
        self.create("t", 2)

    def lose(self) -> None:
        """Lose the connection."""
        self.connection.connectionLost(Failure(ConnectionError("lost")))

    def say(self, *lines: str) -> bytes:
        """Send lines, byte by byte, and return all that comes back."""
        for byte in "".join(line + "\n" for line in lines).encode():
            self.connection.dataReceived(bytes([byte]))
        return self.heard()

    def heard(self) -> bytes:
        """Return the bytes that have come back."""
        self.settle()
        return self.transport.received()

    def test_the_conversation_provides_its_interface(self) -> None:
        """The server knows it by IConversation alone."""
        self.assertTrue(verifyObject(IConversation, LineConversation()))

    def test_lines_produce_and_fetch(self) -> None:
        """A message is acknowledged once flushed, and other clients' messages are in the same log."""
        self.assertEqual(self.say("PUT t 0 hello", "PUT t 1 world"), b"OK 0 14\nOK 0 14\n")
        answer = self.say("GET t 0 0")
        self.assertTrue(answer.startswith(b"OK 14\n"))
        self.assertEqual([message.payload for message in decode_set(answer[6:]).messages], [b"hello"])
        self.assertEqual(self.produce(self.connect(), "t", answer[6:], 0).first_id, 14)
        self.assertEqual(self.say("GET t 0 14"), answer)

    def test_a_read_waits_for_earlier_writes(self) -> None:
        """The read sees the log as the writes have left it, though that is not visible yet."""
        self.connection.dataReceived(b"PUT t 0 first\nGET t 0 0\n")
        self.assertEqual(bytes(self.transport.value()), b"")
        self.assertEqual(self.heard(), b"OK 0 14\nOK 0\n")

    def test_a_refusal_answers_its_own_line(self) -> None:
        """The lines after it are answered as usual."""
        answers = self.say("PUT t 7 hello", "GET t 0 5", "PUT t 0 hello").split(b"\n")
        expected = [b"ERROR %d" % WrongPartition.code, b"ERROR %d" % OffsetOutOfRange.code, b"OK 0 14", b""]
        self.assertEqual(answers, expected)

    def test_an_unknown_topic_is_made(self) -> None:
        """The handlers do that for every wire protocol alike."""
        self.assertEqual(self.say("PUT new 0 hello"), b"OK 0 14\n")

    def test_the_limit_on_requests_holds(self) -> None:
        """Three are under way at most, whatever protocol they came by."""
        self.connection.dataReceived(b"PUT t 0 x\n" * 10)
        self.assertEqual(self.transport.producerState, "paused")
        self.assertEqual(self.heard().count(b"OK"), 10)
        self.assertEqual(self.transport.producerState, "producing")

    def test_a_bad_line_closes_the_connection(self) -> None:
        """The lines before it are answered first."""
        self.connection.dataReceived(b"PUT t 0 hello\nHELP\nPUT t 0 more\n")
        self.assertFalse(self.transport.disconnecting)
        self.assertEqual(self.heard(), b"OK 0 14\n")
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(len(self.events.warnings("a line that is no request")), 1)
