"""A real broker with a tree of its own: killed, paused, on a full disk, with a damaged journal.

LOGD_TEST_ROUNDS says how often it is killed, 3 times unless it is set.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import CoordinationUnavailable
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.create_delete_topic import CreateTopic
from logd.protocol.requests.legacy_requests import Fetch
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.testing.processes.broker import BrokerProcess
from tests.integration.broker.mounts import enlarge, mount_small
from tests.integration.clusters import health, health_option
from tests.integration.peers import PATIENCE, POLL_SECONDS, Peer

ROUNDS = int(os.environ.get("LOGD_TEST_ROUNDS", "3"))
WRITERS = 3
#: The shortest session that an embedded tree grants, and a pause that is longer.
SESSION_SECONDS, LONGER = 4.0, 6.0


class EmbeddedTestCase(SynchronousTestCase):
    """A broker over a directory of its own."""

    def setUp(self) -> None:
        """Start the broker."""
        self.folder = Path(os.path.abspath(self.mktemp()))
        self.folder.mkdir()
        self.make_ready()
        self.http, http = health_option()
        options = (*http, "--set", f"zookeeper.session.ms={round(SESSION_SECONDS * 1000)}")
        self.broker = BrokerProcess(str(self.folder / "data"), (*options, "--set", "zookeeper.timeout.ms=3000"))
        self.broker.start()
        self.addCleanup(self.broker.kill)

    def make_ready(self) -> None:
        """Prepare ``self.folder`` before the broker starts."""

    def connect(self) -> Peer:
        """Return a connection that is closed at the end."""
        peer = Peer(self.broker.port)
        self.addCleanup(peer.close)
        return peer

    def produce(self, peer: Peer, topic: str, payload: bytes) -> int:
        """Produce one message with acks=-1; return the error, 0 for none."""
        part = ProducePart(topic, 0, 0, False, MessageSet([Message(payload)]).encode())
        error: int = peer.ask(ProduceAck(-1, 30_000, (part,))).parts[0].error
        return error

    def until_health(self, **expected: Any) -> dict[str, Any]:
        """Wait until /health has these values, and return the page."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = health(self.http)
            if all(found.get(name) == value for name, value in expected.items()):
                return found
            self.assertLess(time.monotonic(), deadline, found)
            time.sleep(POLL_SECONDS)


class KillTests(EmbeddedTestCase):
    """SIGKILL while topics are made, several at once."""

    def write(self, number: int, numbers: Any, made: dict[str, str], enough: threading.Semaphore) -> None:
        """Create topics, with a message in each, until the connection is lost."""
        try:
            with Peer(self.broker.port) as peer:
                for count in range(1 << 30):
                    topic = f"t-{number}-{next(numbers)}"
                    answer = peer.ask(CreateTopic(topic, 1, {}))
                    if answer.error == 0:
                        made[topic] = answer.uuid
                        if self.produce(peer, topic, topic.encode()) == 0:
                            self.filled.add(topic)
                    if count == 5:
                        enough.release()
        except (OSError, ConnectionError):
            pass
        enough.release()

    def test_acknowledged_topics_survive_every_kill(self) -> None:
        """Each has its uuid and its message again: tree and logs are two stores, and must agree after any kill."""
        self.filled: set[str] = set()
        made: dict[str, str] = {}
        numbers = iter(range(1 << 30))
        for _ in range(ROUNDS):
            enough = threading.Semaphore(0)
            threads = [
                threading.Thread(target=self.write, args=(number, numbers, made, enough)) for number in range(WRITERS)
            ]
            for thread in threads:
                thread.start()
            for _ in threads:
                self.assertTrue(enough.acquire(timeout=PATIENCE))
            time.sleep(random.random() / 5)
            self.broker.kill()
            for thread in threads:
                thread.join(PATIENCE)
            self.broker.start()
            self.until_health(status="ok")
            peer = self.connect()
            found = {topic.topic: topic.uuid for topic in peer.ask(Metadata(None, False)).topics}
            self.assertEqual({topic: found.get(topic) for topic in made}, made)
            for topic in self.filled:
                whole = MessageSet([Message(topic.encode())]).encode()
                self.assertEqual(peer.ask(Fetch(topic, 0, 0, 1 << 20)).message_set, whole)
        self.assertGreater(len(self.filled), ROUNDS * WRITERS)


class PauseTests(EmbeddedTestCase):
    """SIGSTOP of a broker and its tree together."""

    def test_a_pause_beyond_its_session_keeps_the_broker_registered(self) -> None:
        """Server and client stood still together, so the time must not count against the session."""
        peer = self.connect()
        self.assertEqual(peer.ask(CreateTopic("t", 1, {})).error, 0)
        self.until_health(status="ok")
        process = self.broker.process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(LONGER)  # the time that passes is what is tested
        finally:
            process.send_signal(signal.SIGCONT)
        self.assertEqual(self.produce(peer, "t", b"as before"), 0)
        self.until_health(status="ok", registered=True)
        self.assertEqual(peer.ask(CreateTopic("u", 1, {})).error, 0)
        self.assertNotIn("is over", Path(f"{self.broker.data}.log").read_text(encoding="utf-8"))


class FullDiskTests(EmbeddedTestCase):
    """The tree's disk is full, and that of the messages is not."""

    def make_ready(self) -> None:
        """Mount a small file system for the tree."""
        self.place = self.folder / "data" / "coordination"
        mount_small(self.place, 256 << 10, self.addCleanup)

    def test_messages_pass_while_the_trees_disk_is_full(self) -> None:
        """/health and the log give the reason, topics cannot be created; with room both recover without a restart."""
        peer = self.connect()
        self.assertEqual(peer.ask(CreateTopic("t", 1, {})).error, 0)
        made = {"t"}
        (self.place / "filler").write_bytes(bytes(200 << 10))
        for number in range(2000):
            answer = peer.ask(CreateTopic(f"t{number}", 1, {"retention.ms": 1 + number}))
            if answer.error:
                break
            made.add(f"t{number}")
        self.assertEqual(answer.error, CoordinationUnavailable.code, answer)
        found = self.until_health(status="degraded")
        for words in ("waits for its disk", "No space left on device"):
            self.assertIn(words, found["problem"])
        self.assertIn("make room on that disk", Path(f"{self.broker.data}.log").read_text(encoding="utf-8"))
        self.assertEqual(self.produce(peer, "t", b"still"), 0)
        self.assertEqual(peer.ask(Fetch("t", 0, 0, 1000)).error, 0)
        (self.place / "filler").unlink()
        enlarge(self.place, 8 << 20)
        self.until_health(status="ok", coordination="connected")
        self.assertEqual(peer.ask(CreateTopic("afterwards", 1, {})).error, 0)
        made.add("afterwards")
        self.broker.kill()
        self.broker.start()
        self.until_health(status="ok")
        peer = self.connect()
        self.assertLessEqual(made, {topic.topic for topic in peer.ask(Metadata(None, False)).topics})
        self.assertEqual(self.produce(peer, "t", b"still"), 0)


class DamageTests(EmbeddedTestCase):
    """A byte of the tree's journal is flipped while the broker does not run."""

    def salvage(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run ``logd zookeeper --salvage`` on the broker's tree."""
        command = [sys.executable, "-c", "from logd.cli.main import main; main()", "zookeeper", "--salvage"]
        place = str(Path(self.broker.data) / "coordination")
        return subprocess.run(
            [*command, "--data", place, *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def test_messages_pass_while_the_trees_journal_is_damaged(self) -> None:
        """--salvage shows the lost nodes, and with --yes removes them; the broker restores its topics from its logs."""
        peer = self.connect()
        for topic in ("t", "u"):
            self.assertEqual(peer.ask(CreateTopic(topic, 1, {})).error, 0)
            self.assertEqual(self.produce(peer, topic, b"before"), 0)
        self.until_health(status="ok")
        self.broker.stop()
        (changes,) = (Path(self.broker.data) / "coordination").glob("changes.*")
        content = bytearray(changes.read_bytes())
        content[content.index(b"/brokers/topics/t") + 60] ^= 1
        changes.write_bytes(content)
        self.broker.start()
        peer = self.connect()
        self.assertEqual(self.produce(peer, "t", b"without"), 0)
        self.assertNotEqual(peer.ask(Fetch("u", 0, 0, 1000)).message_set, b"")
        problem = self.until_health(status="degraded")["problem"]
        self.assertIn("--salvage", problem)
        self.assertEqual(peer.ask(CreateTopic("v", 1, {})).error, CoordinationUnavailable.code)
        shown = self.salvage()
        self.assertEqual(shown.returncode, 1, shown)
        self.assertIn("/brokers/topics/t", shown.stdout)
        self.assertEqual(self.salvage("--yes").returncode, 0)
        self.until_health(status="ok", coordination="connected")
        deadline = time.monotonic() + PATIENCE
        while peer.ask(CreateTopic("v", 1, {})).error:  # refused until the broker has compared its logs with the tree
            self.assertLess(time.monotonic(), deadline)
            time.sleep(POLL_SECONDS)
        found = {topic.topic for topic in peer.ask(Metadata(None, False)).topics}
        self.assertEqual(found, {"t", "u", "v"})
        again = self.salvage()
        self.assertIn("is in use by another process", again.stderr)
