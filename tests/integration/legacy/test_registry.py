"""Clients of Kafka 0.7 that find two real brokers in the coordination tree, with another client of ZooKeeper."""

from __future__ import annotations

import os
import sys
import time

from kazoo.client import KazooClient
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.legacy_requests import Fetch, Offsets, Produce
from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.python_process import run_python
from tests.integration.peers import PATIENCE, POLL_SECONDS, Peer, until_all_known

_LOGD = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')"]
_NODE = "/kafka07"


class LegacyRegistryTests(SynchronousTestCase):
    """A producer and a consumer that know nothing but ZooKeeper and the requests of 0.7."""

    def setUp(self) -> None:
        """Start a tree, and two brokers that share a topic of four partitions."""
        folder = os.path.abspath(self.mktemp())
        os.mkdir(folder)
        tree = CoordinationProcess(f"{folder}/tree")
        self.addCleanup(tree.kill)
        tree.start()
        self.brokers = []
        for number in range(2):
            options = ("--id", str(number), "--legacy-registry", _NODE)
            listen = ("--legacy-listen", f"tcp:{free_port()}:interface=127.0.0.1")
            broker = BrokerProcess(f"{folder}/{number}", (*options, *listen), zookeeper=tree.hosts)
            self.addCleanup(broker.kill)
            self.brokers.append(broker.start())
        until_all_known(*(each.port for each in self.brokers))
        self.zookeeper = KazooClient(f"{tree.hosts}{_NODE}")
        self.zookeeper.start()
        self.addCleanup(self.zookeeper.stop)
        create = ["topics", "create", "clicks", "--partitions", "4", "--set", "message.format=0.7"]
        run_python([*_LOGD, *create, "--broker", self.brokers[0].address], check=True, capture_output=True)

    def found(self, path: str, names: set[str]) -> dict[str, str]:
        """Wait until a node has these children, and return their values."""
        deadline = time.monotonic() + PATIENCE
        while not self.zookeeper.exists(path) or set(self.zookeeper.get_children(path)) != names:
            self.assertLess(time.monotonic(), deadline, f"{path} never has {names}")
            time.sleep(POLL_SECONDS)
        return {name: self.zookeeper.get(f"{path}/{name}")[0].decode() for name in names}

    def test_each_broker_is_found_with_its_own_partitions(self) -> None:
        """A native consumer reads what a client of 0.7 sends to all of them; a broker that ends is removed."""
        addresses = {number: value.split(":")[1:] for number, value in self.found("/brokers/ids", {"0", "1"}).items()}
        counts = self.found("/brokers/topics/clicks", {"0", "1"})
        self.assertEqual(counts, {"0": "2", "1": "2"})
        sent = set()
        for number, (host, port) in addresses.items():
            self.assertEqual(host, "127.0.0.1")
            with Peer(int(port)) as peer:
                for partition in range(int(counts[number])):
                    payload = f"{number}-{partition}"
                    sent.add(payload)
                    peer.begin(Produce("clicks", partition, MessageSet([Message(payload.encode())]).encode()))
                    deadline = time.monotonic() + PATIENCE
                    while peer.ask(Offsets("clicks", partition, -1, 1)).offsets in ((), (0,)):
                        self.assertLess(time.monotonic(), deadline)
                        time.sleep(POLL_SECONDS)
                    found = peer.ask(Fetch("clicks", partition, 0, 1000)).message_set
                    self.assertIn(payload.encode(), bytes(found))
        consume = ["consume", "clicks", "--from", "earliest", "--max", "4", "--broker", self.brokers[1].address]
        done = run_python([*_LOGD, *consume], check=True, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(set(done.stdout.split()), sent)
        self.brokers[1].stop()
        self.found("/brokers/ids", {"0"})
        self.found("/brokers/topics/clicks", {"0"})

    def test_a_topic_that_a_producer_makes_is_on_each_broker(self) -> None:
        """Until it knows who has the topic, a producer of 0.7 sends to partition 0 of all, and gets no answers."""
        addresses = {number: value.split(":")[1:] for number, value in self.found("/brokers/ids", {"0", "1"}).items()}
        # Broker 0, which has spread this topic over both, makes the other one too.
        self.found("/brokers/topics/clicks", {"0", "1"})
        for number in sorted(addresses):
            with Peer(int(addresses[number][1])) as peer:
                peer.begin(Produce("made", 0, MessageSet([Message(f"to {number}".encode())]).encode()))
                deadline = time.monotonic() + PATIENCE
                while peer.ask(Offsets("made", 0, -1, 1)).offsets in ((), (0,)):
                    self.assertLess(time.monotonic(), deadline, f"broker {number} has not stored it")
                    time.sleep(POLL_SECONDS)
                found = peer.ask(Fetch("made", 0, 0, 1000)).message_set
                self.assertIn(f"to {number}".encode(), bytes(found))
        self.assertEqual(self.found("/brokers/topics/made", {"0", "1"}), {"0": "1", "1": "1"})
