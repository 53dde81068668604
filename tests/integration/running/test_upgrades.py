"""Brokers, trees and clients of an older version with those of this one, by ``LOGD_UPGRADE_FROM=COMMIT``.

The commit is installed from git into an environment of its own, which needs PyPI; without the variable this is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import ClassVar

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.integration.running.old_version import NEW, VARIABLE, Version, VersionedBroker, VersionedTree, installed

SESSION = ("--set", "zookeeper.session.ms=4000")
#: Seconds until replicas are in sync after a restart, on a busy machine.
IN_SYNC_SECONDS = 60.0


class UpgradeTests(SynchronousTestCase):
    """One installation of the old version for all tests."""

    old: ClassVar[Version | None] = None
    folder: ClassVar[str] = ""

    def setUp(self) -> None:
        """Install the old version, once."""
        commit = os.environ.get(VARIABLE)
        if not commit:
            raise SkipTest(f"{VARIABLE} names no commit to upgrade from")
        if UpgradeTests.old is None:
            UpgradeTests.folder = tempfile.mkdtemp()
            UpgradeTests.old = installed(commit, Path(UpgradeTests.folder))
        self.data = os.path.abspath(self.mktemp())

    @classmethod
    def tearDownClass(cls) -> None:
        """Remove the installation."""
        if UpgradeTests.folder:
            shutil.rmtree(UpgradeTests.folder)

    @property
    def versions(self) -> tuple[Version, Version]:
        """The old version and the new one."""
        assert UpgradeTests.old is not None
        return UpgradeTests.old, NEW

    def broker(
        self, version: Version, data: str = "", tree: str | None = None, options: tuple[str, ...] = ()
    ) -> VersionedBroker:
        """Start a broker."""
        broker = VersionedBroker(data or self.data, (*SESSION, *options), zookeeper=tree, version=version)
        self.addCleanup(lambda: broker.kill())
        broker.start()
        return broker

    def lines(self, name: str, count: int = 50) -> list[str]:
        """Return lines of their own."""
        return [f"{name} {number}" for number in range(count)]

    def test_a_broker_goes_forth_and_back(self) -> None:
        """Each version reads what the other one stored: messages, settings, positions; and each stops cleanly."""
        old, new = self.versions
        broker = self.broker(old)
        old.run(
            "topics", "create", "clicks", "--partitions", "2", "--set", "retention.ms=3600000", broker=broker.address
        )
        sent: list[str] = []
        for round_, version in enumerate((old, new, old, new)):
            if round_:
                self.assertEqual(broker.stop(), 0, broker.end_of_log())
                broker.version = version
                broker.start()
            sent += (lines := self.lines(f"round {round_}"))
            version.run("produce", "clicks", given="\n".join(lines), broker=broker.address, tree=broker.coordination)
            for reader in (old, new):
                found = reader.run(
                    "consume", "clicks", "--exit-at-end", broker=broker.address, tree=broker.coordination
                )
                self.assertEqual(sorted(found.splitlines()), sorted(sent), (version.name, reader.name))
            group = ("consume", "clicks", "--group", "billing", "--exit-at-end")
            handled = version.run(*group, broker=broker.address, tree=broker.coordination)
            self.assertEqual(sorted(handled.splitlines()), sorted(lines), version.name)

    def test_a_broker_that_was_killed_is_recovered_by_the_other_version(self) -> None:
        """Checkpoints, indexes and tails of one are read by the other."""
        broker = self.broker(self.versions[0])
        sent: list[str] = []
        for round_, version in enumerate((*self.versions, *self.versions)):
            if round_:
                broker.kill()
                broker.version = version
                broker.start()
            sent += (lines := self.lines(f"round {round_}"))
            version.run("produce", "clicks", given="\n".join(lines), broker=broker.address)
            found = version.run("consume", "clicks", "--exit-at-end", broker=broker.address)
            self.assertEqual(found.splitlines(), sent)

    def test_clients_of_each_with_brokers_of_each(self) -> None:
        """Commands, keys, compressed sets and groups."""
        for number, (served, used) in enumerate(product(self.versions, self.versions)):
            broker = self.broker(served, f"{self.data}{number}")
            where = {"broker": broker.address, "tree": broker.coordination}
            used.run("topics", "create", "clicks", "--partitions", "3", **where)
            sent = self.lines("plain")
            used.run("produce", "clicks", given="\n".join(sent), **where)
            for codec in ("gzip", "snappy", "zstd"):
                sent += (lines := self.lines(codec))
                used.run("produce", "clicks", "--compression", codec, given="\n".join(lines), **where)
            found = used.run("consume", "clicks", "--group", "g", "--exit-at-end", **where)
            self.assertEqual(sorted(found.splitlines()), sorted(sent), (served.name, used.name))
            used.run("groups", "describe", "g", **where)
            used.run("topics", "describe", "clicks", **where)
            broker.stop()

    def test_a_cluster_is_upgraded_one_by_one(self) -> None:
        """Two brokers and their tree, while messages come and groups go on; then all the way back."""
        old, new = self.versions
        tree = VersionedTree(f"{self.data}.tree", version=old)
        self.addCleanup(lambda: tree.kill())
        tree.start()
        brokers = [self.broker(old, f"{self.data}.{number}", tree.hosts, ("--id", str(number))) for number in (1, 2)]
        where = {"broker": ",".join(each.address for each in brokers), "tree": tree.hosts}
        old.run("topics", "create", "clicks", "--partitions", "4", **where)
        servers: list[VersionedBroker | VersionedTree] = [*brokers, tree]
        steps: list[tuple[VersionedBroker | VersionedTree | None, Version]] = [(None, old)]
        steps += [(each, new) for each in servers]
        steps += [(each, old) for each in reversed(servers)]
        for round_, (server, version) in enumerate(steps):
            if server is not None:
                self.assertEqual(server.stop(), 0, server.end_of_log())
                server.version = version
                server.start()
            for client in self.versions:
                lines = self.lines(f"{round_} {client.name}")
                client.run("produce", "clicks", given="\n".join(lines), **where)
                found = client.run("consume", "clicks", "--group", "billing", "--exit-at-end", **where)
                self.assertEqual(sorted(found.splitlines()), sorted(lines), (round_, client.name))
        for broker in brokers:
            self.assertNotIn("Traceback", Path(broker.log).read_text(encoding="utf-8"))

    def test_replicas_of_both_versions(self) -> None:
        """A message acknowledged with acks=-1 is on both brokers, whichever of them is older, and leads, and is killed.

        That includes messages of a topic that is deleted and made again.
        """
        old, new = self.versions
        tree = VersionedTree(f"{self.data}.tree", version=old)
        self.addCleanup(lambda: tree.kill())
        tree.start()
        options = ("--set", "leader.balance.ms=1000", "--set", "replica.lag.ms=3000")
        brokers = [
            self.broker(old, f"{self.data}.{number}", tree.hosts, ("--id", str(number), *options)) for number in (1, 2)
        ]
        both = {"broker": ",".join(each.address for each in brokers), "tree": tree.hosts}
        make = ("topics", "create", "orders", "--partitions", "4", "--replicas", "2")
        old.run(*make, **both)
        sent: list[str] = []
        for round_, versions in enumerate(((new, old), (old, new))):
            for broker, version in zip(brokers, versions, strict=True):
                if broker.version is not version:
                    self.assertEqual(broker.stop(), 0, broker.end_of_log())
                    broker.version = version
                    broker.start()
            for killed, other in (brokers, brokers[::-1]):
                where = f"round {round_}: broker {brokers.index(killed) + 1} of {killed.version.name} is killed"
                self.until_led(both, 1, 2)
                sent += (lines := self.lines(f"before {where}"))
                killed.version.run("produce", "orders", given="\n".join(lines), **both)
                killed.kill()
                alone = {"broker": other.address, "tree": tree.hosts}
                self.until_led(alone, brokers.index(other) + 1)
                sent += (lines := self.lines(f"after {where}"))
                other.version.run("produce", "orders", "--timeout", "50", given="\n".join(lines), **alone)
                found = new.run("consume", "orders", "--exit-at-end", **alone)
                self.assertEqual(sorted(found.splitlines()), sorted(sent), where)
                killed.start()
            self.until_led(both, 1, 2)
            if round_ == 0:  # a broker of each version, which have to agree about the topic of this name
                new.run("topics", "delete", "orders", "--yes", **both)
                old.run(*make, **both)
                sent.clear()
        for partition in range(4):
            folders = [Path(broker.data) / f"orders-{partition}" for broker in brokers]
            contents = [b"".join(path.read_bytes() for path in sorted(folder.glob("*.log"))) for folder in folders]
            self.assertEqual(contents[0], contents[1])

    def until_led(self, where: dict[str, str], *brokers: int) -> None:
        """Wait until each of these brokers leads partitions of the topic, and all of them are in sync."""
        deadline = time.monotonic() + IN_SYNC_SECONDS
        while True:
            try:
                described = json.loads(NEW.run("topics", "describe", "orders", "--json", **where))["partitions"]
            except AssertionError:  # a partition whose leader changes at the moment is not described
                described = []
            leaders = {each["leader"] for each in described}
            if leaders == {*brokers} and all({*brokers} <= {*each["in_sync"]} for each in described):
                return
            self.assertLess(time.monotonic(), deadline, described)
            time.sleep(0.2)
