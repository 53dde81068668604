"""Tests of the states of a produce request, and that nothing overtakes a request that waits in one of them."""

from __future__ import annotations

from logd.broker.requests.produce_request import AcknowledgedProduceRequest, ProduceRequest, ProduceState
from logd.broker.requests.session import BrokerSession
from logd.broker.requests.sliced_checks import AT_ONCE_BYTES
from logd.net.session import PauseReason
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.legacy_requests import MultiProduce, Offsets, Produce
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.rig import BrokerTestCase

SMALL = MessageSet([Message(b"hello")]).encode()
LARGE = MessageSet([Message(bytes(90))] * (AT_ONCE_BYTES // 90)).encode()


def ask(*sets: bytes, topic: str = "t") -> ProduceAck:
    """Return a request for partition 0 that is answered once it is flushed."""
    return ProduceAck(-1, 0, tuple([ProducePart(topic, 0, 0, False, message_set) for message_set in sets]))


class StateTests(BrokerTestCase):
    """One connection that produces to a topic of one partition."""

    def setUp(self) -> None:
        """Make the topic and connect."""
        super().setUp()
        self.create("t")
        self.peer = self.connect()
        session = self.peer.connection.session
        assert isinstance(session, BrokerSession)
        self.producing = session._producing

    def waiting(self) -> ProduceRequest:
        """Return the request that waits before it is gathered."""
        assert self.producing.waiting is not None
        return self.producing.waiting

    def test_a_request_waits_for_its_new_topic(self) -> None:
        """The request stays as it was received while the topic is made, and holds up those behind it."""
        self.peer.send(ask(SMALL, topic="new"), Produce("t", 0, SMALL))
        request = self.waiting()
        self.assertIs(request.state, ProduceState.RECEIVED)
        self.assertEqual((self.peer.connection._pauses, self.content("t")), ({PauseReason.TOPIC}, b""))
        self.settle()
        self.assertIs(request.state, ProduceState.ANSWERED)
        self.assertEqual((self.producing.waiting, self.content("t"), self.content("new")), (None, SMALL, SMALL))

    def test_large_sets_are_checked_in_slices(self) -> None:
        """The request keeps its place, behind the sets before it and ahead of those that follow."""
        self.peer.send(Produce("t", 0, SMALL), MultiProduce((Produce("t", 0, LARGE),)), Produce("t", 0, SMALL))
        request = self.waiting()
        self.assertIs(request.state, ProduceState.TOPICS_KNOWN)
        self.assertEqual((self.peer.connection._pauses, self.content("t")), ({PauseReason.CHECK}, SMALL))
        self.settle()
        self.assertEqual(self.content("t"), SMALL + LARGE + SMALL)

    def test_a_request_waits_until_its_log_may_grow(self) -> None:
        """The log is asked once more after the check, since it may have been held meanwhile."""
        log = self.log_of("t")
        self.broker.growth.hold(log)
        self.peer.send(ask(LARGE))
        request = self.waiting()
        self.assertIs(request.state, ProduceState.RECEIVED)
        self.broker.growth.let_go([log])
        self.assertIs(request.state, ProduceState.TOPICS_KNOWN)
        self.broker.growth.hold(log)
        self.settle()
        self.assertIs(request.state, ProduceState.TOPICS_KNOWN)
        self.assertEqual(self.peer.connection._pauses, {PauseReason.GROWTH})
        self.broker.growth.let_go([log])
        self.settle()
        self.assertIs(request.state, ProduceState.ANSWERED)

    def test_an_appended_request_waits_for_its_flush_alone(self) -> None:
        """Others are taken meanwhile, and an Offsets request sees the end of the log."""
        self.peer.send(ask(SMALL, SMALL), Offsets("t", 0, -1, 1))
        (request,) = self.producing.unanswered
        assert isinstance(request, AcknowledgedProduceRequest)
        self.assertIs(request.state, ProduceState.APPENDED)
        self.assertEqual((self.producing.waiting, self.content("t")), (None, SMALL * 2))
        self.settle()
        self.assertIs(request.state, ProduceState.ANSWERED)
        self.assertEqual((list(self.producing.unanswered), len(self.peer.answers())), ([], 2))

    def test_a_lost_connection_ends_its_check(self) -> None:
        """A set that is not checked to the end is not appended."""
        self.peer.send(ask(LARGE))
        request = self.waiting()
        self.peer.lose()
        self.settle()
        self.assertIs(request.state, ProduceState.TOPICS_KNOWN)
        self.assertEqual(self.content("t"), b"")
