"""Tests of logd.bench.peers.coordination_load: answers are counted, failures are not."""

from __future__ import annotations

import socket
import time
from struct import pack
from threading import Thread

from twisted.trial.unittest import SynchronousTestCase

from logd.bench.peers.coordination_load import PIPELINE, Client, measure
from logd.errors import LogdError

ANSWER = pack(">iiqi", 20, 1, 77, 0) + bytes(4)


class ClientTests(SynchronousTestCase):
    """``Client``, a connection that keeps requests under way."""

    def setUp(self) -> None:
        """Make a client, and the server's end of its connection."""
        ours, self.server = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(self.server.close)
        self.client = Client(ours, b"request", len(ANSWER))

    def test_answers_are_counted_however_they_are_cut(self) -> None:
        """The network divides them anywhere."""
        counts = []
        for piece in (ANSWER[:10], ANSWER[10:] + ANSWER[:3], ANSWER[3:] + 2 * ANSWER):
            self.server.sendall(piece)
            counts.append(self.client.take())
        self.assertEqual(counts, [0, 1, 3])

    def test_a_failed_answer_ends_the_measurement(self) -> None:
        """A server that refuses quickly would look fast."""
        self.server.sendall(ANSWER + pack(">iiqi", 16, 1, 77, -101) + bytes(8))
        self.assertRaises(LogdError, self.client.take)

    def test_a_closed_connection_ends_the_measurement(self) -> None:
        """The answers so far would be too few for the time."""
        self.server.close()
        self.assertRaises(LogdError, self.client.take)

    def test_a_silent_server_has_no_rate(self) -> None:
        """Zero answers in a second would be a figure like any other."""
        self.assertRaises(LogdError, measure, [self.client], 0.01, 0, 0.05)

    def test_a_late_answer_has_a_rate(self) -> None:
        """A machine that is too busy for one answer in the time is measured until the first one."""

        def answer() -> None:
            self.server.recv(1 << 16)
            time.sleep(0.05)  # longer than the measurement is meant to take: the lateness is what is tried
            self.server.sendall(ANSWER)

        server = Thread(target=answer)
        server.start()
        self.addCleanup(server.join)
        done, seconds = measure([self.client], 0.01, 0, 30)
        self.assertEqual(done, 1)
        self.assertGreater(seconds, 0.04)

    def test_the_pipeline_stays_full(self) -> None:
        """A request follows each answer, so that the server is never idle."""
        self.server.settimeout(10)
        self.server.sendall(ANSWER)
        self.assertEqual(measure([self.client], 0.01, 0)[0], 1)
        self.assertEqual(self.server.recv(1 << 16), b"request" * (PIPELINE + 1))
