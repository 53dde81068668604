"""A real broker closes peers that never finish, never read or never send, and serves others meanwhile."""

from __future__ import annotations

import contextlib
import socket

from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.legacy_requests import Fetch, Offsets
from logd.protocol.requests.legacy_responses import FetchResponse, OffsetsResponse
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.requests import encode_request
from tests.integration.peers import PATIENCE, BrokerTestCase, Peer

MEGABYTE = 1 << 20
#: The size field of a request of one megabyte.
HALF = MEGABYTE.to_bytes(4, "big")


def settings(**more: int) -> tuple[str, ...]:
    """Return options of a command line: ``frame_ms=1`` is the setting frame.ms."""
    return tuple(word for name, value in more.items() for word in ("--set", f"{name.replace('_', '.')}={value}"))


class LimitsTestCase(BrokerTestCase):
    """A broker with another client, which must be served beside the test's peers."""

    def setUp(self) -> None:
        """Store 16 sets."""
        super().setUp()
        self.other = self.connect()
        self.set = MessageSet([Message(bytes(1000))] * 500).encode()
        part = ProducePart("t", 0, 0, False, self.set)
        for _ in range(16):
            self.end = self.other.ask(ProduceAck(-1, 0, (part,))).parts[0].next_position

    def served(self) -> None:
        """Check that the other client is answered."""
        self.assertEqual(self.other.ask(Offsets("t", 0, -1, 1)), OffsetsResponse(0, (self.end,)))

    def closed(self, peer: Peer) -> bool:
        """Return True when the broker has closed the connection by now."""
        peer.socket.setblocking(False)
        try:
            return peer.socket.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        finally:
            peer.socket.settimeout(PATIENCE)


class UnfinishedTests(LimitsTestCase):
    """frame.ms: a request must be complete within seconds; those of the other client may take some."""

    options = settings(frame_ms=4000)

    def test_peers_that_dribble_are_closed(self) -> None:
        """The log says why; peers that have sent nothing, or a whole request, stay."""
        silent, done = self.connect(), self.connect()
        self.assertEqual(done.ask(Fetch("t", 0, 0, 10)).error, 0)
        dribbling = [self.connect() for _ in range(30)]
        for peer in dribbling:
            peer.send(HALF)

        def all_closed() -> bool:
            for peer in dribbling:
                with contextlib.suppress(ConnectionError):
                    peer.send(b"\0")
            self.served()
            return all(self.closed(peer) for peer in dribbling)

        self.until(all_closed, "dribbling peers are closed")
        self.until_logged("its request was not complete within frame.ms = 4000")
        for peer in (silent, done):
            self.assertEqual(peer.ask(Fetch("t", 0, 0, 10)).error, 0)


class TogetherTests(LimitsTestCase):
    """frames.bytes: the incomplete requests of all connections may take four megabytes together."""

    options = settings(frames_bytes=4 * MEGABYTE, frame_bytes=2 * MEGABYTE)

    def test_an_announced_length_costs_nothing(self) -> None:
        """200 peers announce two megabytes each and send two bytes: memory follows the bytes, and none is closed."""
        before = self.memory()
        crowd = [self.connect() for _ in range(200)]
        for peer in crowd:
            peer.send((2 * MEGABYTE).to_bytes(4, "big") + b"\0\0")
        self.served()
        self.assertLess(self.memory() - before, 8 * MEGABYTE)
        self.assertEqual([peer for peer in crowd if self.closed(peer)], [])

    def test_the_oldest_half_request_is_closed_above_the_limit(self) -> None:
        """So a producer of the largest request still gets through while others fill the limit."""
        before = self.memory()
        crowd = []
        for _ in range(20):
            peer = self.connect()
            crowd.append(peer)
            with contextlib.suppress(ConnectionError):
                peer.send(HALF + bytes(MEGABYTE - 100))
            self.served()
        self.until(lambda: sum(map(self.closed, crowd)) >= 15, "most are closed")
        # Each is read when the reactor comes to it, so that which of the last few goes is not certain.
        self.assertTrue(all(map(self.closed, crowd[:12])))
        self.assertLess(self.memory() - before, 24 * MEGABYTE)
        self.until_logged("more than frames.bytes = 4194304")
        messages = MessageSet([Message(bytes(900_000))] * 2).encode()
        answer = self.connect().ask(ProduceAck(-1, 0, (ProducePart("large", 0, 0, False, messages),)))
        self.assertEqual(answer.parts[0].error, 0)


class NotTakingTests(LimitsTestCase):
    """send.ms: a peer must take some of its answers within seconds, in which also a slow one takes some."""

    options = settings(send_ms=4000)

    def test_a_peer_that_takes_nothing_is_closed(self) -> None:
        """The log says why; a peer that reads slowly is not closed and gets all of its answer."""
        wanted = b"".join(encode_request(Fetch("t", 0, 0, self.end)))
        stuck = self.connect(receive_buffer=4096)
        stuck.send(wanted)
        slow = self.connect(receive_buffer=4096)
        slow.send(wanted)
        received = bytearray()

        def dropped() -> bool:
            received.extend(slow.socket.recv(5000))
            self.served()
            return "has not taken its answers for send.ms = 4000" in self.broker_log()

        self.until(dropped, "the stuck peer is closed")
        received += slow.receive(6 + self.end - len(received))
        self.assertEqual(bytes(received[6:]), self.set * 16)
        self.assertEqual(self.broker_log().count("has not taken its answers"), 1)
        with self.assertRaises(ConnectionError):
            stuck.receive(6 + self.end)


class SilentTests(LimitsTestCase):
    """idle.ms: a peer must send something within seconds, in which the other client sends also on a busy machine."""

    options = settings(idle_ms=4000)

    def test_an_idle_peer_is_closed(self) -> None:
        """The log says why; a peer that sends requests stays."""
        idle = self.connect()

        def gone() -> bool:
            self.served()
            return self.closed(idle)

        self.until(gone, "the idle peer is closed")
        self.until_logged("has sent nothing for idle.ms = 4000")
        self.served()


class CrowdTests(LimitsTestCase):
    """A broker with default limits."""

    def test_a_peer_that_does_not_read_is_read_no_further(self) -> None:
        """Its requests stay in the sockets, and once it reads, every answer is right."""
        peer = self.connect(receive_buffer=4096)
        peer.socket.settimeout(0.3)
        ask = b"".join(encode_request(Metadata(("t",) * 1000, False, 0x4000_0000)))
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 200 * len(ask):
                sent += peer.socket.send(ask[sent % len(ask) :])
                self.served()
        peer.socket.settimeout(PATIENCE)
        first = peer.frame()
        self.assertTrue(all(peer.frame() == first for _ in range(sent // len(ask) - 1)))
        self.assertEqual(first[:4], b"\x40\0\0\0")

    def test_another_client_is_served_through_a_storm_of_resets(self) -> None:
        """300 connections are reset, half of them in the middle of a request; the broker logs no bug."""
        for number in range(300):
            storm = socket.create_connection(("127.0.0.1", self.broker.port))
            storm.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            if number % 2:
                storm.sendall(b"".join(encode_request(Fetch("t", 0, 0, self.end))) + HALF)
            storm.close()
            if number % 10 == 0:
                self.served()
        fetch = self.connect().ask(Fetch("t", 0, 0, self.end))
        self.assertEqual(fetch, FetchResponse(0, self.set * 16))
        self.assertNotIn("Traceback", self.broker_log())
