"""A real coordination server under kills, pauses, storms of watches and hostile peers.

LOGD_TEST_ROUNDS says how often it is killed, 4 times unless it is set.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
from struct import pack

from logd.coord.server.wire.opcodes import Opcode
from logd.testing.processes.coordination import four_letter_word
from tests.integration.coordination.peers import (
    PATIENCE,
    CoordinationTestCase,
    TreePeer,
    create,
    read,
    set_data,
)
from tests.integration.peers import processor_seconds

ROUNDS = int(os.environ.get("LOGD_TEST_ROUNDS", "4"))
WRITERS = 3
TRIALS = 1_000
WATCHERS = 1_000


class KillTests(CoordinationTestCase):
    """SIGKILL under load, over snapshots and files of changes that are rolled all the time."""

    options = ("--snapshot-bytes", "20000")

    def write(self, number: int, acknowledged: dict[str, bytes], enough: threading.Semaphore) -> None:
        """Make and change nodes until the connection is lost; note what is acknowledged."""
        with contextlib.suppress(OSError), TreePeer(self.server.port) as peer:
            for count in range(1 << 30):
                path, data = f"/w{number}/n{random.randrange(40)}", b"%d" % count
                error = peer.ask(Opcode.SET_DATA, set_data(path, data))[2]
                if error == -101:
                    error = peer.ask(Opcode.CREATE, create(path, data))[2]
                if error == 0:
                    acknowledged[path] = data
                if count == 150:
                    enough.release()
        enough.release()

    def test_acknowledged_changes_survive_every_kill(self) -> None:
        """The session and its ephemeral node survive too, over many snapshots and files of changes."""
        owner = self.peer()
        self.assertEqual(owner.ask(Opcode.CREATE, create("/e", flags=1))[2], 0)
        for number in range(WRITERS):
            owner.ask(Opcode.CREATE, create(f"/w{number}"))
        for _ in range(ROUNDS):
            written: list[dict[str, bytes]] = [{} for _ in range(WRITERS)]
            enough = threading.Semaphore(0)
            threads = [
                threading.Thread(target=self.write, args=(number, each, enough)) for number, each in enumerate(written)
            ]
            for thread in threads:
                thread.start()
            for _ in threads:
                self.assertTrue(enough.acquire(timeout=PATIENCE))
            self.server.kill()
            for thread in threads:
                thread.join(PATIENCE)
            self.server.start()
            owner = self.peer(session=owner.session)
            self.assertEqual(owner.ask(Opcode.EXISTS, read("/e"))[2], 0)
            self.check(owner, written)
        self.assertIn("snapshot.", " ".join(os.listdir(self.server.data)))

    def check(self, peer: TreePeer, written: list[dict[str, bytes]]) -> None:
        """Check that each node has the data acknowledged last, or those under way at the kill."""
        for each in written:
            self.assertTrue(each)
            for path, data in each.items():
                _, _, error, body = peer.ask(Opcode.GET_DATA, read(path))
                self.assertEqual(error, 0, path)
                found = body[4 : 4 + int.from_bytes(body[:4])]
                self.assertGreaterEqual(int(found), int(data), path)

    def test_sigterm_ends_the_server_and_keeps_sessions(self) -> None:
        """The status is 0; an owner of an ephemeral node finds it after the restart."""
        owner = self.peer()
        owner.ask(Opcode.CREATE, create("/e", flags=1))
        self.assertEqual(self.server.stop(), 0)
        self.server.start()
        self.assertEqual(self.peer(session=owner.session).ask(Opcode.EXISTS, read("/e"))[2], 0)


class PauseTests(CoordinationTestCase):
    """SIGSTOP of the server, as by a virtual machine that is suspended."""

    options = ("--session-min", "100")

    def test_a_pause_of_the_server_costs_no_session(self) -> None:
        """It stands still for twice the session's timeout; the client could not have reached it."""
        peer = self.peer(timeout_ms=1_500)
        self.server.pause()
        try:
            time.sleep(3)  # the time that passes is what is tested: twice the session's timeout
            peer.send(-2, Opcode.PING)
            peer.send(1, Opcode.EXISTS, read("/"))
        finally:
            self.server.resume()
        self.assertEqual(peer.answer()[0], -2)
        self.assertEqual((answer := peer.answer())[0], 1)
        self.assertEqual(answer[2], 0)


class OrderTests(CoordinationTestCase):
    """The order of watch events and data."""

    def test_a_watch_event_comes_before_the_new_data(self) -> None:
        """In 1,000 trials, half of them with a writer that does not wait: caches over watches depend on this order."""
        writer, watcher = self.peer(), self.peer()
        writer.ask(Opcode.CREATE, create("/a", b"0"))
        overtaken = 0
        for trial in range(1, TRIALS + 1):
            watcher.ask(Opcode.GET_DATA, read("/a", watch=True), xid=trial)
            writer.send(trial, Opcode.SET_DATA, set_data("/a", b"%d" % trial))
            if trial % 2:
                writer.answer()
            told = seen = False
            while not seen:
                watcher.send(trial, Opcode.GET_DATA, read("/a"))
                while (answer := watcher.answer())[0] != trial:
                    told = True
                seen = answer[3][4 : 4 + int.from_bytes(answer[3][:4])] == b"%d" % trial
                overtaken += seen and not told
            if not trial % 2:
                writer.answer()
        self.assertEqual(overtaken, 0)


class StormTests(CoordinationTestCase):
    """Many clients at once, and some that send nonsense."""

    options = ("--session-min", "2000")

    def test_a_thousand_watchers_are_all_told(self) -> None:
        """They watch one node; a session of two seconds beside them lives on while the events are sent."""
        peers = [self.peer() for _ in range(WATCHERS)]
        short = self.peer(timeout_ms=2_000)
        short.ask(Opcode.CREATE, create("/a", b"0"))
        for peer in peers:
            self.assertEqual(peer.ask(Opcode.GET_DATA, read("/a", watch=True))[2], 0)
            short.ask(Opcode.PING, xid=-2)  # however long this process has to wait for the machine
        short.send(2, Opcode.SET_DATA, set_data("/a", b"1"))
        for peer in peers:
            xid, _, error, body = peer.answer()
            self.assertEqual((xid, error, body), (-1, 0, pack(">iii2s", 3, 3, 2, b"/a")))
            short.send(-2, Opcode.PING)
        self.assertEqual(short.answer()[0], 2)
        for _ in peers:
            self.assertEqual(short.answer()[0], -2)

    def test_a_flood_of_nonsense_costs_no_session(self) -> None:
        """Four threads send it for two seconds as fast as they can; a session is answered meanwhile.

        The limit is for the server's own work before each answer, as a busy machine lets everybody wait.
        """
        peer = self.peer()
        until = time.monotonic() + 2.0
        counts: list[int] = []

        def harm(chance: random.Random) -> None:
            kind = chance.randrange(4)
            if kind == 3:
                with TreePeer(self.server.port) as inner:
                    opcode = chance.choice([Opcode.CREATE, Opcode.MULTI, Opcode.SET_WATCHES])
                    inner.socket.sendall(pack(">iii", 40, 1, opcode) + chance.randbytes(32))
                return
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=5) as hostile:
                nonsense = (chance.randbytes(200), pack(">i", 1 << 20) + bytes(60_000), pack(">i", -5))
                hostile.sendall(nonsense[kind])

        def flood(seed: int) -> None:
            chance = random.Random(seed)
            count = tried = 0
            while time.monotonic() < until or tried < 30:
                tried += 1
                with contextlib.suppress(OSError):
                    harm(chance)
                    count += 1
            counts.append(count)

        threads = [threading.Thread(target=flood, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        longest = 0.0
        while any(thread.is_alive() for thread in threads):
            began = processor_seconds(self.server.pid)
            self.assertEqual(peer.ask(Opcode.PING, xid=-2)[0], -2)
            longest = max(longest, processor_seconds(self.server.pid) - began)
        for thread in threads:
            thread.join()
        self.assertGreater(sum(counts), 100)
        self.assertLess(longest, 0.5)
        self.assertEqual(peer.ask(Opcode.CREATE, create("/after"))[2], 0)
        self.assertEqual(four_letter_word(self.server.port, b"ruok"), b"imok")
