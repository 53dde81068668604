"""``logd backup`` and ``logd restore`` with real brokers: a machine is lost, and another one goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from twisted.internet import reactor
from twisted.internet.task import deferLater

from logd.backup.backup_file import read_backup
from logd.client.admin.admin import Admin
from logd.client.producer.producer import Producer
from logd.errors import LogdError
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.python_process import run_python
from tests.integration.background import BackgroundTestCase
from tests.integration.clusters import CLIENTS, CLOCK
from tests.integration.peers import until_all_known
from tests.integration.topics import create_topic

JUMP = 1 << 40


class LostMachineTests(BackgroundTestCase):
    """One broker with a tree of its own."""

    timeout = 240

    def logd(self, *arguments: str, status: int = 0) -> str:
        """Run a command; return its output."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LOGD_")}
        done = run_python(
            [sys.executable, "-m", "logd", *arguments],
            capture_output=True,
            text=True,
            env={**environ, "LOGD_ZOOKEEPER": self.broker.coordination, "LOGD_BROKER": self.broker.address},
        )
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return str(done.stdout + done.stderr)

    async def beginnings(self) -> list[int]:
        """Return where the two logs begin, once both are served."""
        admin = Admin(self.broker.address, **CLIENTS)
        try:
            while True:
                try:
                    return [(await admin.describe_log("clicks", number)).log_start for number in range(2)]
                except LogdError:
                    await deferLater(CLOCK, 0.05)
        finally:
            await admin.close()

    async def send(self, *payloads: bytes) -> list[int]:
        """Send messages to partition 0; return their ids."""
        producer = Producer(self.broker.address, reactor=reactor, retry_delay=0.05)
        try:
            return [(await producer.send("clicks", each, partition=0)).first_id for each in payloads]
        finally:
            await producer.close()

    async def test_a_machine_is_lost_twice(self) -> None:
        """Settings and positions come back, and no position of one life means another message in the next."""
        self.broker = BrokerProcess(os.path.abspath(self.mktemp()))
        self.addCleanup(lambda: self.broker.kill())
        self.broker.start()
        create_topic(self.broker.address, "clicks", 2, retention_ms=3_600_000)
        given = await self.send(b"one", b"two")
        self.logd("consume", "clicks", "--group", "billing", "--exit-at-end")
        first, second = f"{self.broker.data}.first", f"{self.broker.data}.second"
        self.assertIn("1 topic, 1 group, 2 positions", self.logd("backup", first))
        given += await self.send(b"behind the backup")
        for _ in range(2):
            self.broker.kill()
            shutil.rmtree(self.broker.data)
            self.broker.start()
            self.logd("restore", first)
            # A position that was kept elsewhere is out of range: plainly, and not by chance.
            begins = await self.beginnings()
            self.assertEqual([begin % JUMP for begin in begins], [0, 0])
            self.assertTrue(min(begins) > max(given) + JUMP // 2, (begins, given))
            given += await self.send(b"hello")
            self.assertEqual(given[-1], begins[0])
        self.logd("backup", second)
        before, after = read_backup(first), read_backup(second)
        for path in ("/brokers/topics/clicks", "/consumers/billing/offsets/clicks/0", "/cluster"):
            self.assertEqual(after.nodes[path], before.nodes[path])
        self.assertIn(b"3600000", after.nodes["/brokers/topics/clicks"])
        printed = self.logd("consume", "clicks", "--group", "billing", "--exit-at-end")
        self.assertIn("an unknown number of messages is lost", printed)
        self.assertEqual([line for line in printed.splitlines() if not line.startswith("logd:")], ["hello"])
        self.assertIn("/brokers/topics has clicks", self.logd("restore", first, status=1))

    async def test_replicated_topics_are_led_again_after_an_election(self) -> None:
        """Two machines and the tree are lost: the command names what is to be done, and then all goes on."""
        for life in ("first", "second"):
            folder = os.path.abspath(self.mktemp())
            os.mkdir(folder)
            tree = CoordinationProcess(f"{folder}/tree")
            self.addCleanup(tree.kill)
            tree.start()
            brokers = [BrokerProcess(f"{folder}/{each}", ("--id", each), zookeeper=tree.hosts) for each in "12"]
            for each in brokers:
                self.addCleanup(each.kill)
                each.start()
            self.broker = brokers[0]
            if life == "first":
                until_all_known(*(each.port for each in brokers))
                self.logd("topics", "create", "clicks", "--partitions=2", "--replicas=2", "--set=min.insync.replicas=2")
                backup = f"{folder}/backup"
                given = await self.send(b"one")
                self.logd("backup", backup)
                for server in (*brokers, tree):
                    server.kill()
        self.assertIn("logd elect TOPIC --unclean", self.logd("restore", backup))
        # Until both brokers have seen the topic, there is nothing that could be elected.
        while self.elected().returncode:
            await deferLater(CLOCK, 0.1)
        begins = await self.beginnings()
        self.assertEqual([begin % JUMP for begin in begins], [0, 0])
        self.assertGreater((await self.send(b"two"))[0], given[0] + JUMP // 2)

    def elected(self) -> subprocess.CompletedProcess[bytes]:
        """Let any replica of topic clicks lead."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LOGD_")}
        command = [sys.executable, "-m", "logd", "elect", "clicks", "--unclean", "--yes"]
        return run_python([*command, "--broker", self.broker.address], env=environ, capture_output=True, check=False)
