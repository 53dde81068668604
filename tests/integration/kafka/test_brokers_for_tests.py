"""Tests of ``logd.testing.kafka`` as the tests of a program use it: with real sockets, threads and processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase, TestCase

from logd.errors import ConfigurationError, LogdError, TopicExists
from logd.testing import KafkaBroker, NotYet, kafka
from logd.testing.kafka_brokers.data_folder import MEMORY, PREFIX
from logd.testing.processes.python_process import SWITCH
from tests.integration.peers import PATIENCE

try:
    import kafka as kafka_python

    MISSING: str | None = None
except ImportError:
    MISSING = "kafka-python (extra kafka) is not installed"

#: The module with the fixtures of pytest.
PLUGIN = "logd.testing.pytest_plugin"
METADATA = struct.pack(">hhihi", 3, 0, 7, -1, 0)


def ask(broker: KafkaBroker, connection: socket.socket | None = None) -> bytes:
    """Send a request for metadata, and return the answer; empty when the connection is closed first."""
    mine = connection or connect(broker)
    try:
        mine.sendall(struct.pack(">i", len(METADATA)) + METADATA)
        head = mine.recv(4, socket.MSG_WAITALL)
        return mine.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL) if len(head) == 4 else b""
    except ConnectionError:
        return b""
    finally:
        if connection is None:
            mine.close()


def connect(broker: KafkaBroker) -> socket.socket:
    """Connect as a client of Kafka."""
    host, port = broker.bootstrap_servers.split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def produce(broker: KafkaBroker, topic: str, *values: bytes) -> None:
    """Produce, and wait until all is acknowledged."""
    producer = kafka_python.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=False)
    try:
        for value in values:
            producer.send(topic, value, key=b"k", headers=[("h", b"v")]).get(30)
    finally:
        producer.close()


def left_behind() -> set[str]:
    """Return the folders of this process's brokers."""
    folders = [each for each in (MEMORY, tempfile.gettempdir()) if os.path.isdir(each)]
    return {name for each in folders for name in os.listdir(each) if name.startswith(f"{PREFIX}{os.getpid()}-")}


class BrokersOfTwoKindsMixin:
    """Tests that hold on a thread and as a process."""

    process = False
    skip = MISSING

    def broker(self, **settings: Any) -> KafkaBroker:
        """Return a broker, to be started."""
        broker = kafka(process=self.process, **settings)
        self.addCleanup(broker.close)  # type: ignore[attr-defined]  # of the test case
        return broker

    def test_what_was_produced_can_be_looked_at(self: Any) -> None:
        """Records have Kafka's offsets; an unknown topic has none, and a wait for more ends with what there is."""
        with self.broker() as broker:
            produce(broker, "events", b"one", b"two")
            first, second = broker.messages("events", at_least=2)
            self.assertEqual((first.value, first.key, first.headers), (b"one", b"k", (("h", b"v"),)))
            self.assertEqual((second.topic, second.partition, second.value), ("events", 0, b"two"))
            consumer = kafka_python.KafkaConsumer(
                "events", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
            )
            self.addCleanup(consumer.close)
            seen = [next(consumer).offset, next(consumer).offset]
            self.assertEqual(seen, [first.offset, second.offset])
            self.assertEqual(broker.messages("others"), [])
            error = self.assertRaises(NotYet, broker.messages, "events", 3, 0.01)
            self.assertIn("'events' has 2 of 3 records", str(error))

    def test_it_comes_back_at_its_address_with_its_data(self: Any) -> None:
        """A client that was killed with it, or stopped with it, finds all that was acknowledged."""
        broker = self.broker().start()
        produce(broker, "events", b"one")
        before = broker.messages("events")
        with connect(broker) as connection:
            self.assertNotEqual(ask(broker, connection), b"")
            broker.kill()
            self.assertEqual(ask(broker, connection), b"")
        self.assertRaises(ConnectionRefusedError, connect, broker)
        self.assertRaises(LogdError, broker.messages, "events")
        broker.start()
        self.assertEqual(broker.messages("events"), before)

    def test_a_call_ends_when_the_broker_goes(self: Any) -> None:
        """A thread that waits for records is told, however the broker goes, so that the program can end."""
        for end in (KafkaBroker.stop, KafkaBroker.kill, KafkaBroker.close):
            broker = self.broker().start()
            broker.create_topic("events")
            asked = threading.Event()
            errors: list[Exception] = []

            def wait(broker: KafkaBroker = broker, asked: Any = asked, errors: list[Exception] = errors) -> None:
                asked.set()
                try:
                    broker.messages("events", at_least=1, timeout=100)
                except Exception as error:
                    errors.append(error)

            waiting = threading.Thread(target=wait, daemon=True)
            waiting.start()
            asked.wait()
            end(broker)
            waiting.join(PATIENCE)
            self.assertFalse(waiting.is_alive(), end)
            self.assertIsInstance(errors[0], LogdError)
            self.assertIn(broker.bootstrap_servers, str(errors[0]))
            broker.close()

    def test_faults_of_connections(self: Any) -> None:
        """A delay may be set before the start; a drop cuts what is connected, and nothing else."""
        later = self.broker()
        later.delay(0.15)
        with later as broker:
            began = time.monotonic()
            ask(broker)
            self.assertGreaterEqual(time.monotonic() - began, 0.15)
            broker.delay(0)
            with connect(broker) as another:
                ask(broker, another)
                self.assertEqual(broker.drop(), 1)
                self.assertEqual(ask(broker, another), b"")
            self.assertNotEqual(ask(broker), b"")
            self.assertRaises(ValueError, broker.delay, -1)

    def test_nothing_is_left(self: Any) -> None:
        """Two at once, clients connected at the end, a broker that was never started: no thread, file or folder.

        The program is alone in its process, where nothing else opens and closes files.
        """
        env = {**os.environ, SWITCH: "0"}  # a fork server stays as long as the process that has asked it
        command = [sys.executable, __file__, str(int(self.process))]
        ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((ran.stdout, ran.returncode), ("nothing is left\n", 0), ran.stderr)


class BrokerOnThreadTests(BrokersOfTwoKindsMixin, SynchronousTestCase):
    """Brokers on a thread."""

    def test_topics_are_created_with_partitions(self) -> None:
        """A second creation is an error, as is a name that no topic can have."""
        with self.broker() as broker:
            broker.create_topic("wide", 3)
            self.assertEqual(broker.topics(), ["wide"])
            self.assertRaises(TopicExists, broker.create_topic, "wide")

    def test_data_in_a_folder_of_one_s_own_stay(self) -> None:
        """A later broker has them, also when they were flushed."""
        data = os.path.abspath(self.mktemp())
        with self.broker(data=data, durable=True) as broker:
            produce(broker, "events", b"kept")
        with self.broker(data=data) as broker:
            self.assertEqual([each.value for each in broker.messages("events")], [b"kept"])

    def test_a_broker_that_cannot_start_says_why(self) -> None:
        """The reason is that of the broker; a setting that is not allowed is found before."""
        folder = os.path.abspath(self.mktemp())
        Path(folder).write_text("a file")
        error = self.assertRaises(LogdError, self.broker(data=folder).start)
        self.assertIn(folder, str(error))
        self.assertRaises(ConfigurationError, self.broker, topics_partitions=0)
        with self.broker() as broker:
            self.assertRaises(LogdError, broker.start)
            broker.stop()
            broker.start()

    def test_the_reactor_of_the_process_is_not_installed(self) -> None:
        """The test may install another one later: asyncio's, for example."""
        program = (
            "import sys, logd.testing\n"
            "with logd.testing.kafka() as k:\n"
            "    k.create_topic('t'); k.messages('t'); k.drop()\n"
            "from twisted.python import threadable\n"
            "assert threadable.ioThread is None, threadable.ioThread\n"
            "assert 'twisted.internet.reactor' not in sys.modules\n"
        )
        subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)

    def test_a_loop_of_asyncio_runs_beside_it(self) -> None:
        """Nothing of the broker is on the loop that waits for it."""

        async def main() -> bytes:
            async with self.broker() as broker:
                return await asyncio.to_thread(ask, broker)

        self.assertNotEqual(asyncio.run(main()), b"")

    def test_a_forked_child_leaves_it_alone(self) -> None:
        """A child of multiprocessing, say, ends without harm to its parent's broker, and is told what it has."""
        with self.broker() as broker:
            child = os.fork()
            if not child:
                status = 1
                try:
                    broker.topics()
                except RuntimeError:
                    broker.close()
                    status = 7
                finally:
                    os._exit(status)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
            self.assertNotEqual(ask(broker), b"")
            self.assertEqual(broker.topics(), [])


class BrokerInProcessTests(BrokersOfTwoKindsMixin, SynchronousTestCase):
    """Brokers in a process of their own."""

    process = True

    def test_a_process_that_cannot_start_says_why(self) -> None:
        """The reason is that of the broker."""
        folder = os.path.abspath(self.mktemp())
        Path(folder).write_text("a file")
        error = self.assertRaises(LogdError, self.broker(data=folder).start)
        self.assertIn(folder, str(error))

    def test_threads_may_ask_at_the_same_time(self) -> None:
        """Each gets the answer to its own command."""
        with self.broker() as broker:
            dropped: list[int] = []

            def delay() -> None:
                for _ in range(100):
                    broker.delay(0)

            def drop() -> None:
                for _ in range(100):
                    dropped.append(broker.drop())

            with connect(broker) as connection:
                ask(broker, connection)
                threads = [threading.Thread(target=each, daemon=True) for each in (delay, delay, drop)]
                for each in threads:
                    each.start()
                for each in threads:
                    each.join(PATIENCE)
                    self.assertFalse(each.is_alive())
            self.assertEqual((dropped[0], sum(dropped)), (1, 1))

    def test_ctrl_c_is_for_the_program_alone(self) -> None:
        """A terminal sends SIGINT to every process of its group; the program is to end its broker itself."""
        program = (
            "import sys, time, logd.testing\n"
            "with logd.testing.kafka(process=True) as k:\n"
            "    k.create_topic('t')\n"
            "    try:\n"
            "        print('ready', flush=True)\n"
            "        time.sleep(60)\n"
            "    except KeyboardInterrupt:\n"
            "        print(k.topics())\n"
        )
        user = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with user:
            assert user.stdout is not None
            self.assertEqual(user.stdout.readline(), "ready\n")
            os.killpg(user.pid, signal.SIGINT)
            out, errors = user.communicate(timeout=PATIENCE)
        self.assertEqual((out, errors, user.returncode), ("['t']\n", "", 0))

    def test_it_ends_with_the_process_that_has_started_it(self) -> None:
        """Also when that is killed; it removes its data then."""
        program = (
            "import sys, logd.testing\n"
            "k = logd.testing.kafka(process=True).start()\n"
            "print(k.bootstrap_servers, k._folder.path, flush=True)\n"
            "sys.stdin.read()\n"
        )
        user = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with user:
            assert user.stdout is not None
            address, folder = user.stdout.readline().split()
            host, port = address.split(":")
            with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
                user.send_signal(signal.SIGKILL)
                with contextlib.suppress(ConnectionResetError):
                    connection.recv(1)  # returns when the broker ends
            deadline = time.monotonic() + PATIENCE
            while os.path.exists(folder) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertFalse(os.path.exists(folder))


class TrialTests(TestCase):
    """A test of trial whose coroutine is driven by Twisted."""

    skip = MISSING

    async def test_a_coroutine_of_trial(self) -> None:
        """``async with`` needs no loop of asyncio."""
        async with kafka() as broker:
            self.assertNotEqual(ask(broker), b"")


class PluginTests(SynchronousTestCase):
    """The fixtures of pytest."""

    skip = MISSING

    def test_a_run_of_pytest_has_both_fixtures(self) -> None:
        """Each test has a broker of its own by ``kafka``, and all have one by ``kafka_session``."""
        folder = Path(self.mktemp())
        folder.mkdir()
        (folder / "test_it.py").write_text(
            "def test_one(kafka, kafka_session):\n"
            "    kafka.create_topic('mine')\n"
            "    kafka_session.create_topic('shared')\n"
            "def test_two(kafka, kafka_session):\n"
            "    assert kafka.topics() == []\n"
            "    assert kafka_session.topics() == ['shared']\n"
        )
        # An environment that was made before the entry point was there does not know it.
        known = any(each.value == PLUGIN for each in entry_points(group="pytest11"))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(() if known else ("-p", PLUGIN))]
        ran = subprocess.run([*command, "test_it.py"], cwd=folder, capture_output=True, text=True, timeout=120)
        self.assertIn("2 passed", ran.stdout, ran.stdout + ran.stderr)


def leave_nothing(process: bool) -> None:
    """Use brokers of one kind, and fail if a thread, an open file or a folder is left of them."""

    def open_files() -> list[str]:
        return sorted(os.listdir("/proc/self/fd"))

    kafka().start().close()  # Twisted keeps a descriptor from the first port on
    before = threading.enumerate(), open_files()
    with kafka(process=process) as first, kafka() as second, connect(first) as one, connect(second) as other:
        assert first.bootstrap_servers != second.bootstrap_servers
        ask(first, one)
        ask(second, other)
    kafka(process=process).close()
    assert (threading.enumerate(), open_files()) == before, f"{before} before, {threading.enumerate()}, {open_files()}"
    assert left_behind() == set(), left_behind()
    print("nothing is left")


if __name__ == "__main__":
    leave_nothing(process=sys.argv[1] == "1")
