"""Tests of the limits on connections that send half requests, take no answers, or are idle, and of read sizes."""

from __future__ import annotations

from unittest import mock

from attrs import define, field
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.net.limits.idle_and_stuck import IdleConnections, StuckReceivers
from logd.net.limits.read_sizes import FEW_BYTES, MOST_REQUESTS, READ_BYTES, TINY_BYTES, read_size
from logd.net.limits.request_memory import RequestMemory
from logd.net.limits.server_limits import ConnectionLimits, Watch
from logd.net.server import Connection, ConnectionFactory
from logd.net.session import PauseReason
from logd.net.transfer import SendfileSender
from logd.protocol.conversation.server import ServerConversation
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.legacy_responses import FetchResponse
from logd.protocol.requests.requests import encode_request
from tests.log.threads import Threads
from tests.net.doubles import BytesFile, PeerTransport, Range
from tests.net.sessions import Counters, Opener


@define(eq=False)
class Peer:
    """A connection, as the limits see it."""

    reading: bool = True
    idle: bool = True
    took: tuple[int, int] | None = (0, 10)
    reasons: list[str] = field(factory=list)

    def uptake(self) -> tuple[int, int] | None:
        """Return the bytes taken so far, and those that wait in the kernel."""
        return self.took

    def close(self, reason: str = "", *, drain: bool = True) -> None:
        """Note the reason."""
        self.reasons.append(reason)


class RequestMemoryTests(SynchronousTestCase):
    """Incomplete requests: at most 100 bytes in all, and ten seconds each."""

    def setUp(self) -> None:
        """Make three peers."""
        self.clock = Clock()
        self.untaken = RequestMemory(self.clock, 100, 10.0)
        self.peers = [Peer() for _ in range(3)]

    def cut(self) -> list[int]:
        """Return how often each peer was cut off."""
        return [len(peer.reasons) for peer in self.peers]

    def test_the_oldest_makes_room(self) -> None:
        """The oldest has had the most time; the largest may be honest."""
        for peer, count in zip(self.peers, (10, 50, 40), strict=True):
            self.untaken.keeps(peer, count, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([0, 0, 0], 100))
        self.untaken.keeps(self.peers[2], 41, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([1, 0, 0], 91))
        self.assertIn("frames.bytes = 100", self.peers[0].reasons[0])

    def test_progress_renews_the_age(self) -> None:
        """A peer that completes requests is not old, and one that completes all holds nothing."""
        for peer in self.peers:
            self.untaken.keeps(peer, 30, False)
        self.untaken.keeps(self.peers[0], 30, True)
        self.untaken.keeps(self.peers[1], 0, True)
        self.untaken.keeps(self.peers[0], 80, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([0, 0, 1], 80))

    def test_several_make_room_together(self) -> None:
        """One large piece pushes out the others, and in the end its own sender."""
        for peer in self.peers[:2]:
            self.untaken.keeps(peer, 40, False)
        self.untaken.keeps(self.peers[2], 101, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([1, 1, 1], 0))

    def test_a_request_has_its_own_time(self) -> None:
        """Bytes that dribble in do not prolong it; the next request has its own ten seconds."""
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

    def test_unread_time_does_not_count(self) -> None:
        """The broker itself does not read, and the time begins anew afterwards."""
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

    def test_a_paused_peer_is_spared(self) -> None:
        """A paused peer cannot go on; a younger one that is read makes room."""
        for peer in self.peers:
            self.untaken.keeps(peer, 30, False)
        self.peers[0].reading = False
        self.untaken.keeps(self.peers[2], 50, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([0, 1, 0], 80))

    def test_a_resumed_peer_counts_as_young(self) -> None:
        """A peer cannot go on while it is paused."""
        for peer in self.peers:
            self.untaken.keeps(peer, 30, False)
        self.peers[0].reading = False
        self.untaken.keeps(self.peers[1], 35, False)
        self.peers[0].reading = True
        self.untaken.restart(self.peers[0])
        self.untaken.keeps(self.peers[2], 50, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([0, 1, 0], 80))

    def test_the_limit_holds_for_paused_peers(self) -> None:
        """The oldest makes room where no peer is read."""
        for peer in self.peers:
            self.untaken.keeps(peer, 30, False)
            peer.reading = False
        self.untaken.keeps(self.peers[2], 50, False)
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([1, 0, 0], 80))

    def test_a_lost_peer_frees_its_bytes(self) -> None:
        """Others may use them, and no timer stays behind."""
        self.untaken.keeps(self.peers[0], 90, False)
        self.untaken.leave(self.peers[0])
        self.untaken.keeps(self.peers[1], 90, False)
        self.untaken.leave(self.peers[1])
        self.assertEqual((self.cut(), self.untaken.total_bytes), ([0, 0, 0], 0))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_the_time_may_be_unlimited(self) -> None:
        """No timer is set."""
        untaken = RequestMemory(self.clock, 100, None)
        untaken.keeps(self.peers[0], 1, False)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class StuckTests(SynchronousTestCase):
    """Receivers that have ten seconds to take something."""

    def setUp(self) -> None:
        """Make a peer for which bytes wait."""
        self.clock = Clock()
        self.stuck = StuckReceivers(self.clock, 10.0)
        self.peer = Peer()
        self.stuck.begin(self.peer)

    def test_a_stuck_receiver_is_cut_off(self) -> None:
        """The first look that finds nothing taken closes it, once."""
        self.clock.pump([9.0])
        self.assertEqual(self.peer.reasons, [])
        self.clock.pump([1.0, 10.0, 10.0])
        (reason,) = self.peer.reasons
        self.assertIn("send.ms = 10000", reason)

    def test_a_slow_receiver_may_stay(self) -> None:
        """A receiver may be slow if it takes something between any two looks."""
        for second in range(100):
            self.peer.took = (second // 9, 10)
            self.clock.advance(1)
        self.assertEqual(self.peer.reasons, [])

    def test_a_slow_disk_is_no_ones_fault(self) -> None:
        """Nothing waits in the kernel then; a socket that cannot be asked is left alone too."""
        for took in ((7, 0), (7, 0), None, None):
            self.peer.took = took
            self.clock.advance(10)
        self.assertEqual(self.peer.reasons, [])

    def test_a_receiver_without_bytes_is_forgotten(self) -> None:
        """One receiver has taken all, the other one is gone."""
        other = Peer()
        self.stuck.begin(other)
        self.stuck.begin(other)
        self.stuck.end(other)
        self.stuck.leave(self.peer)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class IdleTests(SynchronousTestCase):
    """Connections that have ten seconds to send something."""

    def test_an_idle_connection_is_closed(self) -> None:
        """One that waits for an answer is not idle."""
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


class WatchedTransport(PeerTransport):
    """A transport that knows its connection."""

    def __init__(self, protocol: Connection) -> None:
        super().__init__()
        self.protocol = protocol


class WatchedConnectionTests(SynchronousTestCase):
    """Connections that tell the limits what they keep."""

    def setUp(self) -> None:
        """Make a factory with small limits."""
        self.clock = Clock()
        self.opener = Opener()
        self.threads = Threads()
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
        """Connect a client."""
        connection = self.factory.buildProtocol(None)
        transport = WatchedTransport(connection)
        connection.makeConnection(transport)
        return transport

    @property
    def kept(self) -> int:
        """The bytes of requests that all connections keep."""
        return self.factory.watch.untaken.total_bytes

    def test_half_requests_are_counted(self) -> None:
        """Completed and lost ones are not; the oldest makes room for the newest."""
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

    def test_held_requests_are_counted_too(self) -> None:
        """Held requests are whole, but cannot be taken yet, and have no time limit."""
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

    def test_a_dribbling_peer_is_closed(self) -> None:
        """The time of a request is over sooner than that of an idle connection."""
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

    def test_a_stuck_peer_frees_its_range(self) -> None:
        """The connection is closed when the time to take something is over."""
        transport = self.connect()
        assert self.opener.session is not None
        transport.taking = False
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

    def test_a_stopped_factory_leaves_no_timer(self) -> None:
        """The factory's connections are still there."""
        self.connect().protocol.dataReceived(self.half)
        self.factory.stopFactory()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_each_time_may_be_unlimited(self) -> None:
        """The checks that it belongs to are left out."""
        watch: Watch[Connection] = Watch(self.clock, ConnectionLimits(frame_ms=None, send_ms=None), Counters())
        self.assertEqual((watch.stuck, watch.idle), (None, None))
        watch.stop()


class ReadSizeTests(SynchronousTestCase):
    """The size of the next read."""

    def test_the_first_read_is_small(self) -> None:
        """Nothing is known yet of what the peer sends."""
        self.assertEqual(read_size(None), FEW_BYTES)

    def test_a_read_brings_a_bounded_number_of_requests(self) -> None:
        """Of the size of those before."""
        for each in (16, 22, 64, 65, 100, 300, 5000):
            for requests in (1, 30):
                found = read_size(None, each * requests, requests)
                self.assertLessEqual(found // each, MOST_REQUESTS)
                self.assertEqual(found == FEW_BYTES, each <= TINY_BYTES, each)

    def test_a_busy_producer_is_read_in_large_pieces(self) -> None:
        """Also where a read has brought no end of a request."""
        self.assertEqual(read_size(None, FEW_BYTES), READ_BYTES)
        self.assertEqual(read_size(None, 300, 1), READ_BYTES)
        self.assertEqual(read_size(None, READ_BYTES, 900), READ_BYTES)
