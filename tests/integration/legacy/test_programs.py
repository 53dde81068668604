"""Kafka 0.7.2's own console tools and mirror on brokers that they find in the tree: only where its jars are named."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kazoo.client import KazooClient
from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.python_process import run_python
from tests.integration.legacy.programs import JARS, Program
from tests.integration.peers import PATIENCE

_LOGD = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')"]
_NODE = "/kafka07"


class ProgramTests(SynchronousTestCase):
    """Each test compares what its programs and a native consumer show with what was sent."""

    timeout = 600
    if not JARS:
        skip = "starts Java programs: LOGD_KAFKA_07=FOLDER, with the jars of a build of Kafka 0.7.2, runs it"

    def setUp(self) -> None:
        """Make the folder of all data and logs."""
        self.folder = Path(self.mktemp()).resolve()
        self.folder.mkdir()

    def broker(self, name: str, number: int = 0, tree: str | None = None) -> BrokerProcess:
        """Start a broker, with a tree of its own unless one is named; return it once it is registered."""
        options = ("--id", str(number), "--legacy-registry", _NODE)
        listen = ("--legacy-listen", f"tcp:{free_port()}:interface=127.0.0.1")
        broker = BrokerProcess(str(self.folder / name), (*options, *listen), zookeeper=tree)
        self.addCleanup(broker.kill)
        broker.start()
        self.zookeeper = KazooClient(broker.coordination)
        self.addCleanup(self.zookeeper.stop)
        self.zookeeper.start()
        self.until(lambda: str(number) in self.children("/brokers/ids"), "the broker's node")
        return broker

    def two_brokers(self) -> list[BrokerProcess]:
        """Start a tree and two brokers."""
        tree = CoordinationProcess(str(self.folder / "tree"))
        self.addCleanup(tree.kill)
        tree.start()
        return [self.broker(f"broker{number}", number, tree.hosts) for number in range(2)]

    def create(self, broker: BrokerProcess, topic: str, partitions: int) -> None:
        """Make a topic that is spread over two brokers, and wait until both have registered it."""
        create = ["topics", "create", topic, "--partitions", str(partitions), "--set", "message.format=0.7"]
        run_python([*_LOGD, *create, "--broker", broker.address], check=True, capture_output=True)
        self.until(partial(self.is_on_both, topic), "the topic's nodes")

    def children(self, path: str) -> set[str]:
        """Return the children of a node below that of 0.7, in the tree of the last broker."""
        found = self.zookeeper.exists(_NODE + path)
        return set(self.zookeeper.get_children(_NODE + path)) if found else set()

    def is_on_both(self, topic: str) -> bool:
        """Return whether both brokers have registered a topic."""
        return self.children(f"/brokers/topics/{topic}") == {"0", "1"}

    def program(self, main: str, *words: str, given: Sequence[str] = ()) -> Program:
        """Start a program, which is killed with the test."""
        program = Program(self.folder, main, words, given)
        self.addCleanup(program.kill)
        return program

    def producer(self, broker: BrokerProcess, topic: str, given: Sequence[str]) -> Program:
        """Start 0.7's console producer. It compresses with gzip, 200 messages at a time."""
        words = ("--zookeeper", f"{broker.coordination}{_NODE}", "--topic", topic)
        return self.program("kafka.producer.ConsoleProducer", *words, given=given)

    def consumer(self, broker: BrokerProcess, topic: str, *words: str) -> Program:
        """Start 0.7's console consumer."""
        where = ("--zookeeper", f"{broker.coordination}{_NODE}", "--topic", topic)
        return self.program("kafka.consumer.ConsoleConsumer", *where, *words)

    def properties(self, name: str, *lines: str) -> str:
        """Write a file of properties; return its path."""
        path = self.folder / f"{name}.properties"
        path.write_text("\n".join(lines), encoding="ascii")
        return str(path)

    def shell(self, name: str, topic: str, given: Sequence[str], *properties: str) -> None:
        """Send lines by 0.7's producer shell, with these properties."""
        path = self.properties(name, *properties, "serializer.class=kafka.serializer.StringEncoder")
        words = ("--props", path, "--topic", topic)
        self.assertEqual(self.program("kafka.tools.ProducerShell", *words, given=given).wait(), 0)

    def native(self, broker: BrokerProcess, topic: str, count: int) -> list[str]:
        """Return what a native consumer shows once there are so many messages, and those behind them."""
        for end in (("--max", str(count)), ("--exit-at-end",)):
            consume = ["consume", topic, *end, "--broker", broker.address]
            done = run_python([*_LOGD, *consume], check=True, capture_output=True, text=True, timeout=2 * PATIENCE)
        lines: list[str] = done.stdout.splitlines()
        return lines

    def until(self, true: Callable[[], object], what: str) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + 4 * PATIENCE
        while not true():
            if time.monotonic() > deadline:
                logs = "".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log"))
                self.fail(f"never came: {what}\n{logs}")
            time.sleep(0.1)

    def test_console(self) -> None:
        """One broker with a tree of its own, a topic that the producer makes, and a message that comes later."""
        broker = self.broker("broker")
        sent = [f"message {number}" for number in range(5000)]
        producer = self.producer(broker, "clicks", sent)
        self.assertEqual(self.native(broker, "clicks", len(sent)), sent)
        producer.end()
        consumer = self.consumer(broker, "clicks", "--from-beginning")
        self.until(partial(consumer.has_written, len(sent)), "all messages")
        self.assertEqual(consumer.lines(), sent)
        self.producer(broker, "clicks", ["later"])
        self.until(partial(consumer.has_written, len(sent) + 1), "the last message")
        self.assertEqual(consumer.lines(), [*sent, "later"])

    def test_codecs(self) -> None:
        """Sets without compression, of gzip and of snappy: of both producers of 0.7, and of a native one."""
        broker = self.broker("broker")
        sent = []
        places = {"list": f"broker.list=0:{broker.address}", "tree": f"zk.connect={broker.coordination}{_NODE}"}
        for number, codec in enumerate(("none", "gzip", "snappy")):
            for kind, place in places.items():
                given = [f"{codec} {kind} {n}" for n in range(1000)]
                settings = (place, f"compression.codec={number}", "producer.type=async")
                self.shell(f"{codec}-{kind}", "clicks", given, *settings)
                sent += given
            given = [f"{codec} native {n}" for n in range(1000)]
            produce = ["produce", "clicks", "--compression", codec, "--no-timestamps", "--broker", broker.address]
            lines = "".join(f"{line}\n" for line in given)
            run_python([*_LOGD, *produce], input=lines, text=True, check=True, capture_output=True)
            sent += given
        self.assertEqual(self.native(broker, "clicks", len(sent)), sent)
        consumer = self.consumer(broker, "clicks", "--from-beginning")
        self.until(partial(consumer.has_written, len(sent)), "all messages")
        self.assertEqual(consumer.lines(), sent)

    def test_topics_that_producers_make_on_two_brokers(self) -> None:
        """No message goes to a broker that refuses it: neither of a producer that uses the tree, nor of broker.list."""
        brokers = self.two_brokers()
        sent = [f"message {number}" for number in range(2000)]
        self.producer(brokers[0], "by-tree", sent)
        at = ",".join(f"{each.options[1]}:127.0.0.1:{each.options[5].split(':')[1]}" for each in brokers)
        self.shell("list", "by-list", sent, f"broker.list={at}")
        for topic in ("by-tree", "by-list"):
            self.assertEqual(Counter(self.native(brokers[0], topic, len(sent))), Counter(sent))
            self.until(partial(self.is_on_both, topic), "the topic's nodes")
            consumer = self.consumer(brokers[1], topic, "--from-beginning")
            self.until(partial(consumer.has_written, len(sent)), "all messages")
            self.assertEqual(Counter(consumer.lines()), Counter(sent))

    def test_a_group(self) -> None:
        """Two consumers share a topic of two brokers; one is killed, then the brokers, one after the other."""
        brokers = self.two_brokers()
        self.create(brokers[0], "clicks", 4)
        sent: list[str] = []
        members: list[Program] = []

        def produce(name: str) -> None:
            given = [f"{name} {number}" for number in range(2000)]
            sent.extend(given)
            producer = self.producer(brokers[0], "clicks", given)
            self.assertEqual(Counter(self.native(brokers[0], "clicks", len(sent))), Counter(sent))
            producer.end()
            self.until(lambda: set(sent) <= {line for each in members for line in each.lines()}, f"all of the {name}")

        group = ("--group", "readers", "--autocommit.interval.ms", "1000")
        members.append(self.consumer(brokers[0], "clicks", *group, "--from-beginning"))
        produce("first")
        members.append(self.consumer(brokers[1], "clicks", *group))
        self.until(lambda: Counter(self.owners("readers", "clicks").values()).most_common(1)[0][1] == 2, "two shares")
        produce("second")
        self.assertTrue(members[1].lines())
        members[1].kill()
        produce("third")
        brokers[1].stop()
        brokers[1].start()
        self.until(partial(self.is_on_both, "clicks"), "the nodes of the broker that is back")
        produce("fourth")
        node = f"{_NODE}/brokers/topics/clicks/0"
        before = self.zookeeper.get(node)[1].ephemeralOwner
        brokers[0].kill()
        brokers[0].start()
        self.until(
            lambda: (found := self.zookeeper.exists(node)) and found.ephemeralOwner != before, "a node of the new life"
        )
        produce("fifth")
        shown = Counter(line for each in members for line in each.lines())
        self.assertEqual(set(shown), set(sent))
        # The rest of a compressed set comes again where its partition has changed hands: positions of 0.7 are of sets.
        self.assertLessEqual(sum(shown.values()) - len(sent), 4 * 200 * 4)

    def owners(self, group: str, topic: str) -> dict[str, bytes]:
        """Return the consumer that owns each partition."""
        node = f"/consumers/{group}/owners/{topic}"
        return {name: self.zookeeper.get(f"{_NODE}{node}/{name}")[0] for name in self.children(node)}

    def test_the_mirror(self) -> None:
        """From two brokers, of which one is restarted, to another cluster, with a topic that is made meanwhile."""
        far = self.broker("far")
        brokers = self.two_brokers()
        self.create(brokers[0], "clicks", 4)
        near = f"zk.connect={brokers[0].coordination}{_NODE}"
        reading = self.properties("from", near, "groupid=mirror", "autooffset.reset=smallest")
        writing = self.properties("to", f"zk.connect={far.coordination}{_NODE}", "compression.codec=2")
        sent: dict[str, list[str]] = {"clicks": [], "views": []}

        def produce(topic: str, name: str) -> None:
            given = [f"{name} {number}" for number in range(3000)]
            sent[topic] += given
            producer = self.producer(brokers[0], topic, given)
            self.assertEqual(Counter(self.native(brokers[0], topic, len(sent[topic]))), Counter(sent[topic]))
            producer.end()

        produce("clicks", "first")
        words = ("--consumer.config", reading, "--producer.config", writing, "--whitelist", ".*", "--num.streams", "2")
        self.program("kafka.tools.MirrorMaker", *words)
        self.assertEqual(Counter(self.native(far, "clicks", 3000)), Counter(sent["clicks"]))
        brokers[1].stop()
        brokers[1].start()
        self.until(partial(self.is_on_both, "clicks"), "the nodes of the broker that is back")
        produce("clicks", "second")
        produce("views", "third")
        for topic, expected in sent.items():
            self.until(partial(self.shows, far, topic, expected), "all copies")
            self.assertLessEqual(set(self.native(far, topic, len(expected))), set(expected))

    def shows(self, broker: BrokerProcess, topic: str, expected: Sequence[str]) -> bool:
        """Return whether a native consumer shows these messages by now."""
        return set(expected) <= set(self.native(broker, topic, 1))
