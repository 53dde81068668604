"""A real broker stays small and fair with clients that do not read, send half requests, or come in crowds."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from struct import pack

from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, LegacyRequest, MultiFetch, Offsets, Produce
from logd.protocol.requests.legacy_responses import FetchResponse, OffsetsResponse
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.requests import NativeRequest, encode_request
from tests.integration.peers import PATIENCE, BrokerTestCase, Peer

MEGABYTE = 1 << 20
#: Seconds without a byte taken after which the broker counts as not reading.
TAKES_NO_MORE = 0.25
#: Bytes by which the broker's memory may grow though nothing is kept: buffers of a few connections, and the allocator.
SLACK = 12 * MEGABYTE


class BacklogTestCase(BrokerTestCase):
    """A broker with some megabytes in a topic."""

    def setUp(self) -> None:
        """Fill the topic."""
        super().setUp()
        self.peer = self.connect()
        messages = [Message(bytes([number]) * 10_000) for number in range(100)]
        self.set = MessageSet(messages).encode()
        request = ProduceAck(-1, 0, tuple([ProducePart("t", 0, 0, False, self.set)] * 8))
        self.end = self.peer.ask(request).parts[-1].next_position
        self.assertEqual(self.end, 8 * len(self.set))
        self.log = self.set * 8

    def flood(self, data: bytes, most: int) -> tuple[Peer, int]:
        """Send the same bytes over and over on a connection that never reads, until the broker takes no more."""
        peer = self.connect(receive_buffer=4096)
        peer.socket.settimeout(TAKES_NO_MORE)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < most:
                sent += peer.socket.send(data[sent % len(data) :])  # the last time perhaps only a part was taken
        return peer, sent


class NotReadingTests(BacklogTestCase):
    """Consumers that send requests and never read the answers."""

    def test_requests_of_a_peer_that_never_reads_pile_up_outside_the_broker(self) -> None:
        """They wait in the sockets, so memory stays bounded; others are served, and late answers are right."""
        before = self.memory()
        floods: dict[str, LegacyRequest | NativeRequest] = {
            "large": Fetch("t", 0, 0, 7 * MEGABYTE),
            "small": Fetch("t", 0, 5, 9000),
            "multi": MultiFetch(tuple([Fetch("t", 0, 0, 100_000)] * 100)),
            "offsets": Offsets("t", 0, -1, 10),
            "waiting": FetchWait(60_000, 1, MEGABYTE, (FetchPart("t", 0, 0, self.end, MEGABYTE),)),
        }
        peers = {}
        for name, request in floods.items():
            data = b"".join(encode_request(request)) * 100
            peers[name], sent = self.flood(data, 100 * MEGABYTE)
            self.assertLess(sent, 50 * MEGABYTE, name)
            self.assertLess(self.memory() - before, SLACK, name)
            self.assertEqual(self.peer.ask(Fetch("t", 0, 5, 100)), FetchResponse(0, self.log[5:105]))
        large = peers["large"]
        large.socket.settimeout(PATIENCE)
        for _ in range(3):
            self.assertEqual(large.receive(6), pack(">ih", 2 + 7 * MEGABYTE, 0))
            self.assertEqual(large.receive(7 * MEGABYTE), self.log[: 7 * MEGABYTE])
        # The fetches that wait were not answered wrongly: their answer comes when there is something.
        self.peer.ask(ProduceAck(-1, 0, (ProducePart("t", 0, 0, False, self.set),)))
        peers["waiting"].socket.settimeout(PATIENCE)
        self.assertIn(self.set[:1000], peers["waiting"].receive(1100))

    def test_a_peer_that_leaves_in_mid_answer_leaves_no_descriptor_open(self) -> None:
        """Descriptors of segments would otherwise run out after some thousand such peers."""
        assert self.broker.process is not None
        before = self.open_files()
        data = b"".join(encode_request(Fetch("t", 0, 0, 7 * MEGABYTE))) * 100
        for _ in range(3):
            peer, _ = self.flood(data, len(data))
            peer.close()
        self.until(lambda: self.open_files() <= before, "all descriptors closed")

    def open_files(self) -> int:
        """Return the number of descriptors that the broker has open."""
        assert self.broker.process is not None
        return len(os.listdir(f"/proc/{self.broker.process.pid}/fd"))


class FairnessTests(BacklogTestCase):
    """One consumer streams a backlog while others send small requests."""

    def test_small_requests_are_answered_beside_an_endless_stream(self) -> None:
        """200 small fetches are answered one by one, and the stream of megabytes beside them makes progress too."""
        enough = threading.Event()
        streamed = 0
        wrong: list[int] = []
        streamer = self.connect()

        def stream() -> None:
            nonlocal streamed
            while not enough.is_set():
                streamer.send(b"".join(encode_request(Fetch("t", 0, 0, self.end))) * 3)
                for _ in range(3):
                    head, data = streamer.receive(6), streamer.receive(self.end)
                    if head != pack(">ih", 2 + self.end, 0) or data != self.log:
                        wrong.append(streamed)
                    streamed += 1

        thread = threading.Thread(target=stream)
        thread.start()
        try:
            for number in range(200):
                answer = self.peer.ask(Fetch("t", 0, number, 100))
                self.assertEqual(answer, FetchResponse(0, self.log[number : number + 100]))
            self.until(lambda: streamed > 10, "the streaming consumer makes progress")
        finally:
            enough.set()
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_consumer_stuck_in_an_answer_delays_nobody(self) -> None:
        """Others are served while it does not read, and it gets the rest once it reads again."""
        stuck = self.connect(receive_buffer=4096)
        stuck.begin(Fetch("t", 0, 0, self.end))
        self.assertEqual(stuck.receive(6 + MEGABYTE)[6:], self.log[:MEGABYTE])
        for _ in range(100):
            self.assertEqual(self.peer.ask(Offsets("t", 0, -1, 1)), OffsetsResponse(0, (self.end,)))
        self.assertEqual(stuck.receive(self.end - MEGABYTE), self.log[MEGABYTE:])


class CrowdTests(BrokerTestCase):
    """Many connections at a broker that allows 60."""

    options = ("--set", "connections.max=60")

    def room(self) -> bool:
        """Return True when a new connection is served and not closed as one too many."""
        try:
            return bool(self.connect().ask(Fetch("none", 0, 0, 1)) == FetchResponse(0))
        except ConnectionError:
            return False

    def test_half_requests_cost_no_more_than_their_bytes(self) -> None:
        """50 connections hold half of a 16 MB request each; memory follows what they sent, and others are served."""
        before = self.memory()
        half = (16 * MEGABYTE).to_bytes(4, "big") + bytes(200_000)
        crowd = [self.connect() for _ in range(50)]
        for peer in crowd:
            peer.send(half)
        other = self.connect()
        self.assertEqual(other.ask(Fetch("t", 0, 0, 1)), FetchResponse(0))
        self.assertLess(self.memory() - before, 50 * len(half) * 2 + SLACK)
        for _ in range(50):
            for peer in crowd[:5]:
                peer.send(b"\0")
            self.assertEqual(other.ask(Fetch("t", 0, 0, 1)), FetchResponse(0))

    def is_refused(self) -> bool:
        """Return True when a new connection is closed: the reset may come before ``connect`` has returned."""
        try:
            return self.connect().is_closed()
        except ConnectionResetError:
            return True

    def test_a_connection_beyond_connections_max_is_closed(self) -> None:
        """The others go on, the log names the setting, and when one leaves there is room again."""
        first = self.connect()
        for _ in range(3):  # by then the connection that tested whether the broker has started is gone
            first.ask(Fetch("t", 0, 0, 1))
        crowd = [first, *[self.connect() for _ in range(59)]]
        for peer in crowd:
            self.assertEqual(peer.ask(Fetch("t", 0, 0, 1)), FetchResponse(0))
        self.assertTrue(self.is_refused())
        self.until_logged("connections.max = 60 connections are open")
        self.assertEqual(crowd[0].ask(Fetch("t", 0, 0, 1)), FetchResponse(0))
        crowd[1].close()
        self.until(self.room, "room for another connection")

    def test_a_storm_of_short_connections_leaves_room(self) -> None:
        """300 connections come and go, some after bytes that make no sense; none stays counted as open."""
        for number in range(300):
            # One that comes while connections.max are open is closed, perhaps before it has sent anything.
            with (
                contextlib.suppress(ConnectionError),
                socket.create_connection(("127.0.0.1", self.broker.port)) as storm,
            ):
                if number % 3 == 1:
                    storm.sendall(b"".join(encode_request(Produce("t", 0, b"nonsense"))))
                elif number % 3 == 2:
                    storm.sendall(b"\0\0\0")
        self.until(self.room, "room after the storm")
