"""Brokers, commands and a group of consumers on a tree with TLS and access lists."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from unittest import skipUnless

from twisted.internet.threads import deferToThread

from logd.client.consumer.consumer import Consumer
from logd.coord import paths
from logd.coord.access_lists import OWNED_ACL
from logd.coord.errors import NoAuth
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import CoordinationSettings, CoordinationTls
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.python_process import run_python
from logd.testing.processes.zookeeper import ZooKeeperProcess, missing
from tests.integration.clients.test_tls_clients import make_certificate
from tests.integration.clusters import CLIENTS, CLOCK, ClusterTestCase
from tests.integration.peers import PATIENCE

LOGD = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')"]
CREDENTIALS = "logd:it's a secret"


class SecuredTestCase(ClusterTestCase):
    """Brokers with credentials, over a tree without TLS."""

    def setUp(self):  # type: ignore[no-untyped-def]  # what the base says
        """Write the credentials to the file that brokers and commands are given."""
        self.secret = os.path.abspath(f"{self.mktemp()}.credentials")
        with open(self.secret, "w", encoding="utf-8") as file:
            file.write(f"{CREDENTIALS}\n")
        self.options = ("--set", f"zookeeper.digest.file={self.secret}", *self.security())
        return super().setUp()

    def security(self) -> tuple[str, ...]:
        """Return further options of the brokers."""
        return ()

    def tls(self) -> CoordinationTls | None:
        """Return the TLS settings of the tree's clients, None without TLS."""
        return None

    def environment(self) -> dict[str, str]:
        """Return the variables that commands are given."""
        return {"LOGD_ZOOKEEPER_DIGEST_FILE": self.secret}

    def client(self, *credentials: str) -> ZooKeeperCoordination:
        """Return a client of the tree with these credentials."""
        settings = CoordinationSettings(hosts=self.tree.hosts, tls=self.tls(), digests=credentials)
        client = ZooKeeperCoordination(CLOCK, settings)
        self.addCleanup(client.close)
        return client

    async def logd(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        environment = {**os.environ, **self.environment(), "LOGD_ZOOKEEPER": self.tree.hosts}
        run = partial(run_python, [*LOGD, *arguments], capture_output=True, text=True, timeout=PATIENCE)
        return await deferToThread(partial(run, env=environment))


class DigestTests(SecuredTestCase):
    """Two brokers, a group, commands and a stranger."""

    async def test_a_stranger_changes_nothing_and_a_restarted_broker_owns_its_nodes(self) -> None:
        """Brokers, a group and commands with the credentials do all their work on the tree that a stranger reads."""
        await self.keep_out_a_stranger()
        await self.kill_and_delete()

    async def keep_out_a_stranger(self) -> None:
        """Let a stranger try what the others do."""
        admin = self.admin()
        uuid = await admin.create("t", 2)
        stranger, friend = self.client(), self.client(CREDENTIALS)
        await stranger.connect()
        await friend.connect()
        data, _ = await stranger.get(paths.topic("t"))
        self.assertEqual(json.loads(data)["uuid"], uuid)
        for path in (paths.topic("t"), paths.broker(1), paths.BROKER_TOPICS):
            await self.assertFailure(stranger.set(path, b"{}"), NoAuth)
        await self.assertFailure(stranger.create(paths.topic("theirs"), b"{}"), NoAuth)
        await self.assertFailure(stranger.delete(paths.topic("t")), NoAuth)

        producer = self.producer()
        for partition in (0, 1):
            await producer.send("t", MessageSet([Message(b"%d" % partition)]), partition=partition)
        settings = CoordinationSettings(hosts=self.tree.hosts, tls=self.tls(), digests=(CREDENTIALS,))
        consumer = Consumer(self.addresses, group="g", zookeeper=settings, **CLIENTS)
        (stream,) = consumer.create_message_streams("t", 1)
        self.assertEqual({(await stream.get()).payload for _ in range(2)}, {b"0", b"1"})
        await consumer.close()
        positions = await friend.get_children(f"{paths.group('g')}/offsets/t")
        self.assertEqual(len(positions), 2)
        await self.assertFailure(stranger.set(f"{paths.group('g')}/offsets/t/0", b"0"), NoAuth)

        described = await self.logd("groups", "list", "--json")
        self.assertEqual((described.returncode, "g" in described.stdout), (0, True), described.stderr)
        taken = await self.logd("consume", "t", "--group", "h", "--from", "earliest", "--max", "2")
        self.assertEqual(sorted(taken.stdout.split()), ["0", "1"], taken.stderr)
        listed = await self.logd("brokers", "list", "--json")
        self.assertEqual([each["id"] for each in json.loads(listed.stdout)], [1, 2], listed.stderr)
        await admin.delete("t")
        self.assertEqual(await friend.get_children(paths.BROKER_TOPICS), [])

    async def kill_and_delete(self) -> None:
        """Restart a broker: its new session is another one, so that only the credentials tell that the nodes are its
        own, its registration and its topics.
        """
        await self.admin().create("t", 2)
        await deferToThread(self.brokers[0].kill)
        await deferToThread(self.brokers[0].start)
        admin = self.admin(self.brokers[0])
        await self.until_metadata(admin, lambda found: len(found.brokers) == 2)
        await admin.delete("t")


class ZooKeeperDigestTests(DigestTests):
    """The same on a real ZooKeeper."""

    if missing():
        skip = missing()

    def make_tree(self, folder: str) -> ZooKeeperProcess:
        """Return a real ZooKeeper."""
        return ZooKeeperProcess(folder)


class TlsTestCase(SecuredTestCase):
    """``logd zookeeper`` behind TLS."""

    def security(self) -> tuple[str, ...]:
        """Return the options of TLS and of the certificate to trust."""
        authorities = f"zookeeper.tls.authorities={self.certificate}"
        return "--set", "zookeeper.tls.enabled=true", "--set", authorities

    @property
    def certificate(self) -> str:
        """The certificate's file, made at the first use."""
        if not hasattr(self, "_pem"):
            folder = Path(os.path.abspath(self.mktemp()))
            folder.mkdir(parents=True)
            make_certificate(folder)
            self._pem = folder
        return str(self._pem / "cert.pem")

    def tls(self) -> CoordinationTls | None:
        """Return settings that check the server's certificate."""
        return CoordinationTls(authorities=self.certificate)

    def environment(self) -> dict[str, str]:
        """Return credentials and TLS settings, both by the environment alone."""
        tls = {"LOGD_ZOOKEEPER_TLS_ENABLED": "true", "LOGD_ZOOKEEPER_TLS_AUTHORITIES": self.certificate}
        return {"LOGD_ZOOKEEPER_DIGEST_CREDENTIALS": CREDENTIALS, **tls}

    def make_tree(self, folder: str) -> CoordinationProcess:
        """Return a server that accepts only TLS."""
        context = ssl.create_default_context(cafile=self.certificate)
        key = f"{os.path.dirname(self.certificate)}/key.pem"
        return CoordinationProcess(folder, tls=f"privateKey={key}:certKey={self.certificate}", tls_context=context)


@skipUnless(find_spec("OpenSSL"), "TLS needs the extra logd[tls]")
class TlsTests(TlsTestCase, DigestTests):
    """The same that holds with credentials alone."""


@skipUnless(find_spec("OpenSSL"), "TLS needs the extra logd[tls]")
class TlsAloneTests(TlsTestCase):
    """A tree without brokers, and a broker with a tree of its own."""

    count = 0

    async def test_a_command_refuses_an_untrusted_certificate(self) -> None:
        """It ends with the status of an unreachable tree; credentials must never go to such a server."""
        environment = {**os.environ, "LOGD_ZOOKEEPER_TLS_ENABLED": "true", "LOGD_ZOOKEEPER": self.tree.hosts}
        run = partial(run_python, [*LOGD, "brokers", "list"], capture_output=True, text=True, timeout=PATIENCE)
        done = await deferToThread(partial(run, env=environment))
        self.assertEqual(done.returncode, 3)
        self.assertIn("no coordination tree answers", done.stderr)

    async def test_a_broker_serves_its_own_tree_over_tls(self) -> None:
        """It is a client of that tree as well, and other clients see the topics there."""
        port = free_port()
        key = f"{os.path.dirname(self.certificate)}/key.pem"
        listen = f"ssl:{port}:privateKey={key}:certKey={self.certificate}:interface=127.0.0.1"
        options = (*self.security(), "--zookeeper-listen", listen)
        alone = BrokerProcess(str(self.folder / "alone"), options, coordination_port=port)
        self.addCleanup(alone.kill)
        await deferToThread(alone.start)
        await self.admin(alone).create("mine", 1)
        client = ZooKeeperCoordination(CLOCK, CoordinationSettings(hosts=f"127.0.0.1:{port}", tls=self.tls()))
        self.addCleanup(client.close)
        await client.connect()
        self.assertEqual(await client.get_children(paths.BROKER_TOPICS), ["mine"])


class AccessListTests(ClusterTestCase):
    """The access lists of nodes that a client with credentials makes."""

    count = 0

    async def test_what_is_secret_can_be_read_by_its_maker_alone(self) -> None:
        """The verifiers of users, and the secret of the brokers; access rules can be read by all, and not changed."""
        client = ZooKeeperCoordination(CLOCK, CoordinationSettings(hosts=self.tree.hosts, digests=(CREDENTIALS,)))
        self.addCleanup(client.close)
        await client.connect()
        for path in (paths.access_rule("r"), paths.user("ann"), paths.SECRET):
            await client.create(path, b"data", makepath=True)
        stranger = ZooKeeperCoordination(CLOCK, self.tree.hosts)
        self.addCleanup(stranger.close)
        await stranger.connect()
        self.assertEqual((await stranger.get(paths.access_rule("r")))[0], b"data")
        for work in (
            stranger.get(paths.user("ann")),
            stranger.get(paths.SECRET),
            stranger.get_children(paths.USERS),
            stranger.set(paths.access_rule("r"), b"other"),
            stranger.create(paths.access_rule("mine"), b"data"),
            stranger.create(paths.user("mallory"), b"data"),
        ):
            with self.assertRaises(NoAuth):
                await work
        self.assertEqual((await client.get(paths.user("ann")))[0], b"data")

    async def test_only_the_maker_of_a_node_may_change_it(self) -> None:
        """Everyone may read it; this holds for the nodes of the chroot and of makepath as well."""
        settings = CoordinationSettings(hosts=f"{self.tree.hosts}/in/here", digests=(CREDENTIALS,))
        self.assertEqual(settings.default_acl, OWNED_ACL)
        client = ZooKeeperCoordination(CLOCK, settings)
        self.addCleanup(client.close)
        await client.connect()
        await client.create("/a/b", makepath=True)
        stranger = ZooKeeperCoordination(CLOCK, self.tree.hosts)
        self.addCleanup(stranger.close)
        await stranger.connect()
        for path in ("/in", "/in/here", "/in/here/a", "/in/here/a/b"):
            await stranger.get(path)
            await self.assertFailure(stranger.set(path, b"x"), NoAuth)
