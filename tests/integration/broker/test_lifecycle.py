"""Starting and stopping a real broker: in order, where another one runs already, and in the background."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.bench.peers.slow_disk import SlowDiskBroker
from logd.log.recovery.checkpoint import Checkpoint
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.produce_ack import ProduceAck, ProducedPart, ProducePart
from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.peers import PATIENCE, POLL_SECONDS, BrokerTestCase, Peer
from tests.integration.shared_servers import shared

TWISTD = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()"]
#: The same, with a thread of the reactor that ends after an hour.
LOOKS_UP = """
import time
from twisted.internet import reactor
from twisted.scripts.twistd import run
reactor.callWhenRunning(reactor.callInThread, time.sleep, 3600)
run()
"""
STOPPING = 111
#: Seconds that the end of a process may take on a busy machine.
SLACK = 60.0


def some_set(number: int, size: int = 100) -> bytes:
    """Return a set that differs from those of other numbers."""
    return MessageSet([Message(b"%d " % number + bytes(size)), Message(b"more")]).encode()


class StopTestCase(BrokerTestCase):
    """A broker that is stopped, with status 0."""

    def stop(self) -> None:
        """Stop the broker, which must end with status 0."""
        self.assertEqual(self.broker.stop(), 0)

    def checkpoints(self) -> dict[str, tuple[Checkpoint, int]]:
        """Return the checkpoint and the size in bytes of each partition."""
        found = {}
        for folder in Path(self.data).iterdir():
            if folder.is_dir() and folder.name != "coordination":
                size = sum(path.stat().st_size for path in folder.glob("*.log"))
                found[folder.name] = (Checkpoint.decode((folder / "checkpoint").read_bytes()), size)
        return found


class StopTests(StopTestCase):
    """SIGTERM at a broker with clients of every kind."""

    #: A busy disk may take seconds for the last syncs, and nothing waits for it when all is well.
    options = ("--set", "stop.ms=25000")

    def test_a_clean_stop_keeps_everything_and_needs_no_scan(self) -> None:
        """The next start trusts the checkpoint: it does not see damage that a scan would find."""
        peer = self.connect()
        sets = [some_set(number) for number in range(50)]
        parts = tuple([ProducePart("t", number % 2 - 1, 0, False, each) for number, each in enumerate(sets)])
        stored = peer.ask(ProduceAck(1, 0, parts)).parts
        peer.begin(*[Produce("old", 0, each) for each in sets])
        peer.ask(Fetch("old", 0, 0, 1))
        self.stop()
        sizes = {"t-0": len(b"".join(sets)), "old-0": len(b"".join(sets))}
        expected = {name: (Checkpoint(0, size), size) for name, size in sizes.items()}
        self.assertEqual(self.checkpoints(), expected)
        # Damage that a scan would find.
        damaged = Path(self.data, "old-0", f"{0:020}.log")
        content = bytearray(damaged.read_bytes())
        content[50] ^= 0xFF
        damaged.write_bytes(content)
        self.broker.start()
        peer = self.connect()
        log = peer.ask(Fetch("t", 0, 0, 1 << 20)).message_set
        self.assertEqual([log[part.first_id : part.next_position] for part in stored], sets)
        self.assertEqual(peer.ask(Fetch("old", 0, 0, 1 << 20)).message_set, bytes(content))

    def test_ids_go_on_through_restarts(self) -> None:
        """A gap or a repeated id after a stop would break every consumer's position."""
        at = 0
        for number in range(3):
            (part,) = self.connect().ask(ProduceAck(-1, 0, (ProducePart("t", 0, 0, False, some_set(number)),))).parts
            self.assertEqual(part.first_id, at)
            at = part.next_position
            self.stop()
            self.broker.start()

    def test_acknowledged_sets_survive_a_stop_under_load(self) -> None:
        """Sets in flight are acknowledged or refused with the error of a broker that stops, and no other."""
        peers = [self.connect() for _ in range(4)]
        answers: list[tuple[bytes, ProducedPart]] = []
        begun = threading.Event()

        def produce(number: int) -> None:
            peer, count = peers[number], 0
            try:
                while True:
                    window = []
                    for _ in range(20):
                        count += 1
                        part = ProducePart(f"t{number % 2}", 0, 0, True, some_set(1000 * count + number, count % 3000))
                        window.append(ProduceAck(-1, 0, (part,)))
                    peer.begin(*window)
                    for request in window:
                        answers.append((request.parts[0].message_set, peer.answer(request).parts[0]))
                    if count > 200:
                        begun.set()
            except ConnectionError:
                pass

        threads = [threading.Thread(target=produce, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        self.assertTrue(begun.wait(PATIENCE))
        self.stop()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertLessEqual({part.error for _, part in answers}, {0, STOPPING})
        kept = [(each, part) for each, part in answers if part.error == 0]
        self.assertGreater(len(kept), 200)
        self.broker.start()
        logs = {topic: self.content(topic) for topic in ("t0", "t1")}
        for message_set, part in kept:
            self.assertEqual(logs[part.topic][part.first_id : part.next_position], message_set)

    def test_a_stop_answers_consumers_that_wait(self) -> None:
        """Otherwise a fetch of a minute would hold up the end."""
        peer = self.connect()
        peer.ask(ProduceAck(-1, 0, (ProducePart("t", 0, 0, False, some_set(1)),)))
        end = len(some_set(1))
        request = FetchWait(60_000, 1, 1000, (FetchPart("t", 0, 0, end, 1000),))
        peer.begin(request)
        peer.ask(Fetch("t", 0, 0, 1))
        self.stop()
        self.assertEqual(peer.answer(request).parts[0].visible_end, end)
        self.assertTrue(peer.is_closed())


class ConsumersThatDoNotReadTests(StopTestCase):
    """SIGTERM while a consumer takes none of its answers: the broker waits for it until stop.ms is nearly over."""

    #: A fifth of it is left then for what the next start needs, also on a busy disk.
    options = ("--set", "stop.ms=15000")

    def test_a_stop_cuts_off_a_consumer_that_does_not_read(self) -> None:
        """It is cut off after stop.ms, and the broker still ends with status 0."""
        peer = self.connect(receive_buffer=4096)
        large = MessageSet([Message(bytes(900_000))]).encode()
        peer.ask(ProduceAck(-1, 0, tuple([ProducePart("t", 0, 0, False, large)] * 10)))
        peer.begin(*[Fetch("t", 0, 0, 1 << 24)] * 10)
        peer.receive(1000)
        self.stop()
        with self.assertRaises(ConnectionError):
            peer.receive(10 * len(large))

    def test_a_second_sigterm_changes_nothing(self) -> None:
        """An impatient operator must not cost the clean checkpoint."""
        peer = self.connect(receive_buffer=4096)
        large = MessageSet([Message(bytes(900_000))]).encode()
        peer.ask(ProduceAck(-1, 0, tuple([ProducePart("t", 0, 0, False, large)] * 10)))
        peer.begin(*[Fetch("t", 0, 0, 1 << 24)] * 10)
        process = self.broker.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        self.until_logged("stopping")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(set(self.checkpoints()), {"t-0"})
        self.assertEqual(self.broker_log().count("Traceback"), 0)


class ProducersThatKeepSendingTests(BrokerTestCase):
    """SIGTERM while producers that expect no answer never pause."""

    options = ("--set", "stop.ms=20000")

    def test_the_broker_stops_in_time(self) -> None:
        """The broker reads no further requests, so what it took is flushed and the status is 0."""
        old, ours = self.connect(), self.connect()
        old.ask(Fetch("t", 0, 0, 1))
        ended = []

        def send(peer: Peer, *requests: object) -> None:
            try:
                while True:
                    peer.begin(*requests)
            except OSError as error:
                ended.append(error)

        produce = Produce("t", 0, some_set(1, 10_000))
        without_answer = ProduceAck(0, 0, (ProducePart("t", 0, 0, True, some_set(2, 10_000)),))
        threads = [
            threading.Thread(target=send, args=(old, produce)),
            threading.Thread(target=send, args=(ours, without_answer)),
        ]
        for thread in threads:
            thread.start()
        self.until(lambda: len(self.content("t")) > 1 << 20, "messages are stored")
        began = time.monotonic()
        self.assertEqual(self.broker.stop(), 0)
        self.assertLess(time.monotonic() - began, 20.0 + SLACK)
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(len(ended), 2)
        self.assertIn("every partition is flushed", self.broker_log())
        self.assertEqual(
            Checkpoint.decode(Path(self.data, "t-0", "checkpoint").read_bytes()), Checkpoint(0, len(self.content("t")))
        )


class DiskThatHangsTests(SynchronousTestCase):
    """SIGTERM while the disk answers no fdatasync."""

    def test_the_broker_stops_in_time_without_the_disk(self) -> None:
        """Its status is 1, the log names the unflushed partition, and only sets without acks=-1 may be lost."""
        data, flag = os.path.abspath(self.mktemp()), os.path.abspath(self.mktemp())
        broker = SlowDiskBroker(data, ("stop.ms=1500",), flag=flag, seconds=3600.0)
        broker.start()
        self.addCleanup(broker.kill)
        with Peer(broker.port) as peer:
            first = ProduceAck(-1, 30_000, (ProducePart("t", 0, 0, False, some_set(1)),))
            self.assertEqual(peer.ask(first).parts[0].error, 0)
            Path(flag).touch()
            second = ProduceAck(1, 30_000, (ProducePart("t", 0, 0, False, some_set(2)),))
            self.assertEqual(peer.ask(second).parts[0].error, 0)
            began = time.monotonic()
            self.assertEqual(broker.stop(), 1)
            self.assertLess(time.monotonic() - began, 1.5 + SLACK)
        log = Path(broker.log).read_text(encoding="utf-8")
        self.assertIn("t-0", log.split("not flushed within stop.ms = 1500")[1].splitlines()[0])
        Path(flag).unlink()
        broker.options = ("stop.ms=25000",)  # the disk may be busy
        broker.start()
        with Peer(broker.port) as peer:
            content = peer.ask(Fetch("t", 0, 0, 1 << 20)).message_set
            self.assertEqual(content[: len(some_set(1))], some_set(1))
        self.assertEqual(broker.stop(), 0)


class LookingUpBroker(BrokerProcess):
    """A broker of which a thread of the reactor waits for an hour, as for the address of a name."""

    @property
    def command(self) -> list[str]:
        """The command line."""
        return [LOOKS_UP if word in TWISTD[2] else word for word in super().command]


class ThreadThatHangsTests(SynchronousTestCase):
    """SIGTERM while a thread of the reactor, which is not the broker's, does not end."""

    def test_the_broker_ends_without_the_thread(self) -> None:
        """All is flushed and closed by then, so the status is 0. Python would wait for the thread."""
        broker = LookingUpBroker(os.path.abspath(self.mktemp()), ("--set", "stop.ms=25000"))
        broker.start()
        self.addCleanup(broker.kill)
        with Peer(broker.port) as peer:
            peer.ask(ProduceAck(-1, 30_000, (ProducePart("t", 0, 0, False, some_set(1)),)))
            self.assertEqual(broker.stop(), 0)
        log = Path(broker.log).read_text(encoding="utf-8")
        self.assertLess(log.index("every partition is flushed"), log.index("the process waits for something else"))


class InTheWayTests(SynchronousTestCase):
    """A second broker that needs something the first one has, which is the same for all tests: none may harm it."""

    def setUp(self) -> None:
        """Start the first broker unless it runs."""
        self.broker = shared(BrokerProcess, "lifecycle")

    def refused(self, *words: str, data: str, listen: str, options: tuple[str, ...] = ()) -> None:
        """Check that a start fails, in the foreground and in the background, and that its output has these words."""
        tree = f"tcp:{free_port()}:interface=127.0.0.1"
        arguments = ["logd", "--data", data, "--listen", listen, "--zookeeper-listen", tree, *options]
        for daemon in (False, True):
            log = os.path.abspath(self.mktemp())
            pidfile = f"{log}.pid"
            how = ["--pidfile", pidfile, "--logfile", log] if daemon else ["-n", "--pidfile="]
            done = subprocess.run(
                [*TWISTD, *how, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
            )
            logged = Path(log).read_text(encoding="utf-8") if daemon else ""
            self.assertNotEqual(done.returncode, 0, (done, logged))
            for word in words:
                self.assertIn(word, done.stdout + done.stderr + logged)
            if not daemon:  # one line tells the person at the terminal, once
                self.assertEqual((done.stdout + done.stderr).count(words[1]), 1)
                self.assertNotIn("Traceback", done.stdout + done.stderr)
            # The command returns before the process in the background has taken its pidfile away.
            deadline = time.monotonic() + PATIENCE
            while os.path.exists(pidfile):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(POLL_SECONDS)
        # The first broker is not harmed.
        with Peer(self.broker.port) as peer:
            peer.ask(Fetch("t", 0, 0, 1))

    def test_a_port_in_use_is_named_with_its_option(self) -> None:
        """The data directory is left as it was: another broker can use it afterwards."""
        data = os.path.abspath(self.mktemp())
        listen = f"tcp:{self.broker.port}:interface=127.0.0.1"
        self.refused(str(self.broker.port), "ddress already in use", "--listen", data=data, listen=listen)
        with BrokerProcess(data):
            pass

    def test_a_data_directory_in_use_is_named_with_the_remedy(self) -> None:
        """Two brokers that write to the same segments would destroy them."""
        listen = f"tcp:{free_port()}:interface=127.0.0.1"
        data = self.broker.data
        self.refused(data, "in use by another process", "stop that broker", data=data, listen=listen)

    def test_a_file_in_the_place_of_the_data_directory(self) -> None:
        """It is named, and what to do."""
        path = os.path.abspath(self.mktemp())
        Path(path).write_text("not a directory", encoding="utf-8")
        listen = f"tcp:{free_port()}:interface=127.0.0.1"
        self.refused("is a file", "name a directory", data=path, listen=listen)

    def test_a_tree_port_in_use_is_named_with_both_remedies(self) -> None:
        """The second broker of a new user meets this first: it may join the tree, or have its own elsewhere."""
        listen = f"tcp:{free_port()}:interface=127.0.0.1"
        data = os.path.abspath(self.mktemp())
        tree = ("--zookeeper-listen", f"tcp:{self.broker.coordination_port}:interface=127.0.0.1")
        words = "ddress already in use", "logd zookeeper", "--zookeeper HOST:PORT", "another --zookeeper-listen"
        self.refused(*words, data=data, listen=listen, options=tree)
        with BrokerProcess(data):
            pass

    def test_an_http_port_in_use_leaves_no_directory(self) -> None:
        """The start fails with the port's number before a data directory is made."""
        data = os.path.abspath(self.mktemp())
        listen = f"tcp:{free_port()}:interface=127.0.0.1"
        http = ("--http", f"tcp:{self.broker.port}:interface=127.0.0.1")
        self.refused(str(self.broker.port), "ddress already in use", data=data, listen=listen, options=http)
        self.assertFalse(os.path.exists(data))


class BackgroundTests(SynchronousTestCase):
    """A broker that is daemonized."""

    def test_a_daemon_serves_until_sigterm(self) -> None:
        """Its pidfile is gone once everything is flushed: scripts wait for that."""
        data, port = os.path.abspath(self.mktemp()), free_port()
        pidfile, log = f"{data}.pid", f"{data}.log"
        tree = f"tcp:{free_port()}:interface=127.0.0.1"
        arguments = ["logd", "--data", data, "--listen", f"tcp:{port}:interface=127.0.0.1", "--zookeeper-listen", tree]
        subprocess.run([*TWISTD, "--pidfile", pidfile, "--logfile", log, *arguments], check=True, timeout=PATIENCE)
        process = int(Path(pidfile).read_text(encoding="ascii"))
        self.addCleanup(self.end, process)
        with Peer(port) as peer:
            (part,) = peer.ask(ProduceAck(-1, 0, (ProducePart("t", 0, 0, False, some_set(1)),))).parts
            self.assertEqual((part.error, part.first_id), (0, 0))
        os.kill(process, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while os.path.exists(pidfile):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(POLL_SECONDS)
        self.assertIn("every partition is flushed", Path(log).read_text(encoding="utf-8"))

    def end(self, process: int) -> None:
        """SIGKILL the broker unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
