"""A real broker whose system clock is set back and forward: durations must not depend on the time of day."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from struct import pack, unpack

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.testing.processes.broker import BrokerProcess
from tests.integration.peers import PATIENCE, POLL_SECONDS, Peer

HOUR = 3600.0
#: sitecustomize of the broker's process: the time of day is ahead by the seconds in a file.
SHIFTED = """\
import os, time
_time, _path = time.time, os.environ["LOGD_TEST_CLOCK"]
def shifted():
    with open(_path) as file:
        return _time() + float(file.read() or 0)
time.time = shifted
"""
#: Seconds that a busy machine may take longer: far from the hour by which the clock is set.
SLACK = 100.0


class ClockSetTests(SynchronousTestCase):
    """A broker with a tree of its own, in a process whose time of day the test sets."""

    def setUp(self) -> None:
        """Start the broker, and store a segment."""
        folder = Path(os.path.abspath(self.mktemp()))
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(SHIFTED)
        self.ahead = folder / "ahead"
        self.set_clock(0.0)
        self.data = str(folder / "data")
        options = ("--set", "retention.check.ms=200", "--set", "segment.bytes=1000", "--set", "retention.bytes=3000")
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        wrap = ("env", f"PYTHONPATH={path}", f"LOGD_TEST_CLOCK={self.ahead}")
        self.broker = BrokerProcess(self.data, (*options, "--set", "frame.ms=2000"), wrap=wrap)
        self.broker.start()
        self.addCleanup(self.broker.kill)
        self.peer = Peer(self.broker.port)
        self.addCleanup(self.peer.close)
        self.produce(1)

    def set_clock(self, seconds: float) -> None:
        """Set the broker's time of day ``seconds`` ahead."""
        new = self.ahead.with_suffix(".new")
        new.write_text(str(seconds))
        new.rename(self.ahead)

    def produce(self, count: int) -> None:
        """Store about ``count`` segments."""
        for _ in range(count):
            part = ProducePart("t", 0, 0, False, MessageSet([Message(bytes(1100))]).encode())
            self.assertEqual(self.peer.ask(ProduceAck(-1, 30_000, (part,))).parts[0].error, 0)

    def until(self, true: object, what: str) -> None:
        """Poll until ``true()`` holds."""
        deadline = time.monotonic() + PATIENCE
        while not true():  # type: ignore[operator]
            self.assertLess(time.monotonic(), deadline, f"never happened: {what}")
            time.sleep(POLL_SECONDS)

    def segments(self) -> int:
        """Return the number of segments of the partition."""
        return len(list(Path(self.data, "t-0").glob("*.log")))

    def end(self) -> int:
        """Return the visible end of the partition."""
        answer = self.peer.ask(FetchWait(0, 0, 1, (FetchPart("t", 0, 0, 0, 1),)))
        end: int = answer.parts[0].visible_end
        return end

    def silent_session(self) -> socket.socket:
        """Open a session of the tree for 4 s, whose client sends nothing more."""
        client = socket.create_connection(("127.0.0.1", self.broker.coordination_port), timeout=PATIENCE)
        self.addCleanup(client.close)
        body = pack(">iqiqi", 0, 0, 4000, 0, 16) + bytes(16) + b"\0"
        client.sendall(pack(">i", len(body)) + body)
        (size,) = unpack(">i", client.recv(4, socket.MSG_WAITALL))
        client.recv(size, socket.MSG_WAITALL)
        return client

    def check_closed_after(self, client: socket.socket, seconds: float, began: float) -> None:
        """Check that the broker closes a connection ``seconds`` after ``began``, or a little later."""
        with contextlib.suppress(ConnectionResetError):
            self.assertEqual(client.recv(1), b"")
        self.check_took(seconds, began)

    def check_took(self, seconds: float, began: float) -> None:
        """Check that ``seconds`` have passed since ``began``, or a few more."""
        took = time.monotonic() - began
        self.assertGreater(took, seconds - 0.1)
        self.assertLess(took, seconds + SLACK)

    def check_durations(self, ahead: float) -> None:
        """Check the length of a wait, a frame's limit and a session, with the clock as it is and set ``ahead``."""
        idle = Peer(self.broker.port)
        self.addCleanup(idle.close)
        fetch = FetchWait(1500, 1 << 20, 1000, (FetchPart("t", 0, 0, self.end(), 1000),))
        for clock in (None, ahead):
            with socket.create_connection(("127.0.0.1", self.broker.port), timeout=PATIENCE) as stuck:
                began = time.monotonic()
                session = self.silent_session()
                stuck.sendall(b"\0\0")
                self.peer.begin(fetch)
                self.end()  # the broker has taken what was sent before
                if clock is not None:
                    self.set_clock(clock)
                self.peer.answer(fetch)
                self.check_took(1.5, began)
                self.check_closed_after(stuck, 2.0, began)
                self.check_closed_after(session, 4.0, began)
        self.produce(8)
        self.until(lambda: self.segments() <= 5, "retention has removed segments")
        self.assertEqual(idle.ask(Fetch("t", 0, self.end(), 1)).error, 0)
        log = Path(self.broker.log).read_text(encoding="utf-8")
        self.assertNotIn("its ephemeral nodes are gone", log)

    def test_a_clock_set_back_delays_nothing(self) -> None:
        """Otherwise fetches, limits and sessions would wait for the hour by which the clock went back."""
        self.check_durations(-HOUR)

    def test_a_clock_set_forward_ends_nothing_early(self) -> None:
        """Otherwise every session and every wait would be over at once."""
        self.check_durations(HOUR)
