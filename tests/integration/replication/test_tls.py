"""Brokers that listen with TLS alone copy from one another, as brokers of a cluster with users."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.internet.threads import deferToThread

from logd.client.admin.admin import Admin
from logd.client.producer.producer import Producer
from logd.deferreds.sleeping import sleep
from logd.errors import BrokerUnavailable
from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.python_process import run_python
from tests.integration.clusters import CLIENTS, CLOCK, SESSION_MS, ClusterTestCase
from tests.integration.commands.rig import LOGD, ROOT
from tests.integration.peers import PATIENCE
from tests.integration.security.test_users import certificates

PASSWORD = "the password of root"


class EncryptedTests(ClusterTestCase):
    """Two brokers, whose ports for clients and brokers have TLS, and a user."""

    count = 2

    def broker(self, number: int, name: str = "") -> BrokerProcess:
        """Start a broker that trusts the authority of the others, or with a name the wrong one."""
        self.trusted = self.folder / "trusted"
        if not self.trusted.exists():
            self.trusted.mkdir()
            certificates(self.folder)
            (self.trusted / "ca.pem").write_bytes((self.folder / "ca.pem").read_bytes())
        port = free_port()
        settings = {
            "zookeeper.session.ms": str(SESSION_MS),
            "replica.tls.authorities": str(self.folder / ("other.pem" if name else "ca.pem")),
            "security.required": "true",
            "security.superusers": "root",
            "min.insync.replicas": "2",
        }
        options = ["--id", str(number)] + [
            each for key, value in settings.items() for each in ("--set", f"{key}={value}")
        ]
        keys = f"privateKey={self.folder}/server.key:certKey={self.folder}/server.pem"
        options += ["--listen", f"ssl:{port}:{keys}:interface=127.0.0.1"]
        broker = BrokerProcess(str(self.folder / (name or f"broker{number}")), options, port, zookeeper=self.tree.hosts)
        self.addCleanup(broker.kill)
        broker.start()
        return broker

    async def all_there(self) -> None:
        """Add the user, and wait until each broker knows it and all brokers."""
        env = {**os.environ, "PYTHONPATH": str(ROOT), "LOGD_ZOOKEEPER": self.tree.hosts}
        password = self.folder / "password"
        password.write_text(PASSWORD)
        command = [*LOGD, "users", "add", "root", "--password-file", str(password)]
        await deferToThread(run_python, command, env=env, check=True, capture_output=True, timeout=PATIENCE)
        for broker in self.brokers:
            await self.until_known(broker)

    async def until_known(self, broker: BrokerProcess) -> None:
        """Wait until a broker knows the user and all brokers."""
        while True:
            admin = Admin(self.at(broker), **self.clients)
            try:
                if len((await admin.metadata()).brokers) == len(self.brokers):
                    return
            except BrokerUnavailable:
                pass
            finally:
                await admin.close()
            await sleep(CLOCK, 0.1)

    def at(self, broker: BrokerProcess) -> str:
        """Return the address of a broker, over TLS."""
        return f"tls:localhost:{broker.port}:trustRoots={self.trusted}"

    @property
    def clients(self) -> dict[str, Any]:
        """The settings of clients."""
        return {**CLIENTS, "user": "root", "password": PASSWORD}

    async def test_they_copy_over_tls_and_authenticate(self) -> None:
        """Acknowledged messages are on both disks; a broker that does not trust the leader copies nothing."""
        admin = Admin(self.at(self.brokers[0]), **self.clients)
        self.addCleanup(admin.close)
        producer = Producer(self.at(self.brokers[0]), acks=-1, **self.clients)
        self.addCleanup(producer.close)
        await admin.create("t", 1, replicas=2)
        await producer.send("t", b"hello")
        contents = {
            b"".join(path.read_bytes() for path in Path(broker.data).glob("t-0/*.log")) for broker in self.brokers
        }
        self.assertEqual((len(contents), b"hello" in contents.pop()), (1, True))
        stranger = await deferToThread(self.broker, 3, "wrong")
        self.brokers.append(stranger)
        for broker in self.brokers:
            await self.until_known(broker)
        await admin.reassign("t", {0: (1, 2, 3)})
        await self.until(lambda: "cannot be followed now" in Path(stranger.log).read_text())
        self.assertEqual(sorted((await admin.describe("t")).partitions[0].in_sync), [1, 2])
