"""Tests of what is done about connections that keep halves, take nothing, or say nothing."""

from __future__ import annotations

from unittest import mock

from attrs import define, field
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.net.limits.connection_limits import ConnectionLimits, Watch
from logd.net.limits.idle import IdleConnections, StuckReceivers
from logd.net.limits.request_memory import RequestMemory
from logd.net.pause_reasons import PauseReason
from logd.net.server import Connection, ConnectionFactory
from logd.net.transfer import SendfileSender
from logd.protocol.conversation.server import ServerConversation
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.legacy_responses import FetchResponse
from logd.protocol.requests.requests import encode_request
from tests.net.doubles import BytesFile, HandThreads, Range
from tests.net.sessions import Counters, Opener, Transport


@define(eq=False)
class Peer:
    """A connection as the watch sees it."""

    reading: bool = True
    idle: bool = True
    took: tuple[int, int] | None = (0, 10)
    reasons: list[str] = field(factory=list)

    def uptake(self) -> tuple[int, int] | None:
        """What it has taken."""
        return self.took

    def close(self, reason: str = "", *, drain: bool = True) -> None:
        """Note why."""
        self.reasons.append(reason)


class UntakenTests(SynchronousTestCase):
    """At most 100 bytes in all, at most ten seconds each."""

    def setUp(self) -> None:
        """Three peers."""
        self.clock = Clock()
        self.untaken = RequestMemory(self.clock, 100, 10.0)
        self.peers = [Peer() for _ in range(3)]

    def cut(self) -> list[int]:
        """How often each was cut off."""
        return [len(peer.reasons) for peer in self.peers]

    def test_oldest_goes(self) -> None:
        """Above the limit goes the oldest, not the largest; then there is room."""
        for peer, count in zip(self.peers, (10, 50, 40), strict=True):
            self.untaken.keeps(peer, count, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([0, 0, 0], 100))
        self.untaken.keeps(self.peers[2], 41, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([1, 0, 0], 91))
        self.assertIn("frames.bytes = 100", self.peers[0].reasons[0])

    def test_who_gets_on(self) -> None:
        """Who completes requests and begins others is not old; who completes them all holds nothing."""
        for peer in self.peers:
            self.untaken.keeps(peer, 30, False)
        self.untaken.keeps(self.peers[0], 30, True)
        self.untaken.keeps(self.peers[1], 0, True)
        self.untaken.keeps(self.peers[0], 80, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([0, 0, 1], 80))

    def test_as_many_as_needed(self) -> None:
        """One large piece pushes out several, in the end its own sender."""
        for peer in self.peers[:2]:
            self.untaken.keeps(peer, 40, False)
        self.untaken.keeps(self.peers[2], 101, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([1, 1, 1], 0))

    def test_time(self) -> None:
        """A request has ten seconds, however its bytes dribble in; another one has its own ten."""
        for peer in self.peers:
            self.untaken.keeps(peer, 1, False)
        for second in range(1, 10):
            self.clock.advance(1)
            self.untaken.keeps(self.peers[0], 1 + second, False)
            self.untaken.keeps(self.peers[1], 1 + second, second == 5)
        self.untaken.keeps(self.peers[2], 0, False)
        self.clock.advance(1)
        self.assertEqual(self.cut(), [1, 0, 0])
        self.assertIn("frame.ms = 10000", self.peers[0].reasons[0])
        self.clock.advance(5)
        self.assertEqual(self.cut(), [1, 1, 0])

    def test_not_read_from(self) -> None:
        """Time does not count while the broker does not read, and begins anew when it reads again."""
        peer = self.peers[0]
        self.untaken.keeps(peer, 1, False)
        peer.reading = False
        self.clock.pump([10, 10, 5])
        peer.reading = True
        self.untaken.restart(peer)
        self.clock.advance(9)
        self.assertEqual(peer.reasons, [])
        self.clock.advance(1)
        self.assertEqual(len(peer.reasons), 1)

    def test_paused_by_us(self) -> None:
        """Above the limit a connection that we do not read is spared for a younger one that we do."""
        for peer in self.peers:
            self.untaken.keeps(peer, 30, False)
        self.peers[0].reading = False
        self.untaken.keeps(self.peers[2], 50, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([0, 1, 0], 80))

    def test_read_again(self) -> None:
        """One that is read again is the youngest: it could not get on meanwhile."""
        for peer in self.peers:
            self.untaken.keeps(peer, 30, False)
        self.peers[0].reading = False
        self.untaken.keeps(self.peers[1], 35, False)
        self.peers[0].reading = True
        self.untaken.restart(self.peers[0])
        self.untaken.keeps(self.peers[2], 50, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([0, 1, 0], 80))

    def test_all_paused_by_us(self) -> None:
        """The limit holds all the same: where nobody is read the oldest goes."""
        for peer in self.peers:
            self.untaken.keeps(peer, 30, False)
            peer.reading = False
        self.untaken.keeps(self.peers[2], 50, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([1, 0, 0], 80))

    def test_gone(self) -> None:
        """Who leaves takes its bytes along."""
        self.untaken.keeps(self.peers[0], 90, False)
        self.untaken.leave(self.peers[0])
        self.untaken.keeps(self.peers[1], 90, False)
        self.untaken.leave(self.peers[1])
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([0, 0, 0], 0))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_no_limit_on_time(self) -> None:
        """Without a time nobody is late."""
        untaken = RequestMemory(self.clock, 100, None)
        untaken.keeps(self.peers[0], 1, False)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class StuckTests(SynchronousTestCase):
    """Ten seconds to take something."""

    def setUp(self) -> None:
        """A peer for which bytes wait."""
        self.clock = Clock()
        self.stuck = StuckReceivers(self.clock, 10.0)
        self.peer = Peer()
        self.stuck.begin(self.peer)

    def test_takes_nothing(self) -> None:
        """It is cut off at the first look that finds nothing taken, once."""
        self.clock.pump([9.0])
        self.assertEqual(self.peer.reasons, [])
        self.clock.pump([1.0, 10.0, 10.0])
        (reason,) = self.peer.reasons
        self.assertIn("send.ms = 10000", reason)

    def test_takes_a_little(self) -> None:
        """As long as it takes something from look to look it may be as slow as it likes."""
        for second in range(100):
            self.peer.took = (second // 9, 10)
            self.clock.advance(1)
        self.assertEqual(self.peer.reasons, [])

    def test_our_fault(self) -> None:
        """With nothing in the kernel it is the disk that is waited for; a socket that cannot be asked is let be."""
        for took in ((7, 0), (7, 0), None, None):
            self.peer.took = took
            self.clock.advance(10)
        self.assertEqual(self.peer.reasons, [])

    def test_over(self) -> None:
        """Who has taken all, or is gone, is not looked at any more."""
        other = Peer()
        self.stuck.begin(other)
        self.stuck.begin(other)
        self.stuck.end(other)
        self.stuck.leave(self.peer)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class IdleTests(SynchronousTestCase):
    """Ten seconds to say something."""

    def test_idle(self) -> None:
        """Who says nothing and waits for nothing is closed; who waits for an answer is not."""
        clock = Clock()
        idle = IdleConnections(clock, 10.0)
        silent, waiting, talking = peers = [Peer(), Peer(idle=False), Peer()]
        for peer in peers:
            idle.heard(peer)
        for _ in range(25):
            clock.advance(1)
            idle.heard(talking)
        self.assertEqual([len(peer.reasons) for peer in peers], [1, 0, 0])
        self.assertIn("idle.ms = 10000", silent.reasons[0])
        waiting.idle = True
        clock.advance(10)
        self.assertEqual(len(waiting.reasons), 1)


class WatchedTransport(Transport):
    """Knows its connection."""

    def __init__(self, protocol: Connection) -> None:
        super().__init__()
        self.protocol = protocol


class WatchedConnectionTests(SynchronousTestCase):
    """Connections tell the watch what it has to know."""

    def setUp(self) -> None:
        """A factory with small limits."""
        self.clock = Clock()
        self.opener = Opener()
        self.threads = HandThreads()
        self.limits = ConnectionLimits(5, frames_bytes=2000, frame_ms=10_000, send_ms=20_000, idle_ms=30_000)
        self.factory = ConnectionFactory(
            lambda: ServerConversation(1000),
            self.opener,
            SendfileSender(self.threads),
            self.clock,
            self.limits,
            Counters(),
        )
        self.half = (1000).to_bytes(4, "big") + bytes(596)

    def connect(self) -> WatchedTransport:
        """Connect."""
        connection = self.factory.buildProtocol(None)
        transport = WatchedTransport(connection)
        connection.makeConnection(transport)
        return transport

    @property
    def kept(self) -> int:
        """Bytes that all connections hold."""
        return self.factory.watch.untaken.total_bytes

    def test_halves(self) -> None:
        """What is kept of halves is counted, and what is completed or lost is not; the oldest goes for the newest."""
        first, _, _, fourth = transports = [self.connect() for _ in range(4)]
        for transport in transports[:3]:
            transport.protocol.dataReceived(self.half)
        self.assertEqual(self.kept, 1800)
        whole = b"".join(encode_request(Produce("t", 0, bytes(900))))
        fourth.protocol.dataReceived(whole)
        self.assertEqual(self.kept, 1800)
        fourth.protocol.dataReceived(whole + self.half)
        self.assertTrue(first.disconnected)
        self.assertEqual(self.kept, 1800)
        first.protocol.dataReceived(bytes(10_000))
        self.assertEqual(self.kept, 1800)
        for transport in transports:
            transport.protocol.connectionLost()
        self.assertEqual(self.kept, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_held_back(self) -> None:
        """Whole requests that cannot be taken yet are counted as well."""
        transport = self.connect()
        assert self.opener.session is not None
        self.opener.session.takes = 0
        self.opener.session.then = lambda request: None
        transport.protocol.pause(PauseReason.TOPIC)
        produce = b"".join(encode_request(Produce("t", 0, bytes(500))))
        transport.protocol.dataReceived(produce * 2)
        self.assertEqual(self.kept, 2 * len(produce))
        self.clock.pump([10, 10])
        self.assertFalse(transport.disconnected)
        self.opener.session.takes = 10
        transport.protocol.resume(PauseReason.TOPIC)
        self.assertEqual(self.kept, 0)

    def test_never_complete(self) -> None:
        """A dribbling peer is closed after its time; an idle one later, and only where that is asked for."""
        dribbling, idle = self.connect(), self.connect()
        dribbling.protocol.dataReceived(self.half)
        for _ in range(9):
            self.clock.advance(1)
            dribbling.protocol.dataReceived(b"\0")
        self.assertFalse(dribbling.disconnected)
        self.clock.advance(1)
        self.assertEqual((dribbling.disconnected, idle.disconnected), (True, False))
        self.clock.advance(20)
        self.assertTrue(idle.disconnected)

    def test_takes_nothing(self) -> None:
        """A peer that takes nothing of its answer is closed after its time; what was to be sent is let go of."""
        transport = self.connect()
        assert self.opener.session is not None
        transport.stuck = True
        transport.protocol.dataReceived(b"".join(encode_request(Fetch("t", 0, 0, 1))))
        large = Range(BytesFile(bytes(1_000_000)), 0, 1_000_000)
        with mock.patch("logd.net.server.uptake", lambda transport: (1, 1)):
            transport.protocol.answer(self.opener.session.received[0][1], FetchResponse(0, large))
            self.clock.advance(19)
            self.assertFalse(transport.disconnected)
            self.clock.advance(1)
        self.assertTrue(transport.disconnected)
        assert transport.producer is not None
        transport.producer.stopProducing()
        transport.protocol.connectionLost()
        self.assertEqual(large.closed, 1)

    def test_stopped(self) -> None:
        """When nobody listens any more no timer is left."""
        self.connect().protocol.dataReceived(self.half)
        self.factory.stopFactory()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_no_limits(self) -> None:
        """Each of the times can be left out."""
        watch: Watch[Connection] = Watch(self.clock, ConnectionLimits(frame_ms=None, send_ms=None), Counters())
        self.assertEqual((watch.stuck, watch.idle), (None, None))
        watch.stop()
