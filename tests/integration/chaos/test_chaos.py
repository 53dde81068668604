"""Three brokers, two groups of consumers and a tree, all real processes, harmed by a seed while messages flow.

LOGD_CHAOS_SECONDS says for how long (20 unless it is set), LOGD_CHAOS_SEED repeats the choices of a run (its timing is
the machine's), LOGD_CHAOS_ENSEMBLE=1 adds a run over an ensemble of three whose leader is harmed, and with
LOGD_CHAOS_UVLOOP=1 brokers and clients run on asyncio's reactor with uvloop (package uvloop):
``LOGD_CHAOS_SECONDS=600 python -m twisted.trial tests.integration.chaos.test_chaos``.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.trial.unittest import TestCase

from logd.client.admin.admin import Admin
from logd.coord import paths
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.zookeeper import ZooKeeperEnsemble, ZooKeeperProcess, missing
from tests.coord.proxy import Proxy
from tests.integration.chaos.ensemble import EnsembleTree
from tests.integration.chaos.faults import torment
from tests.integration.chaos.kafka_producer import TOPIC as KAFKA_TOPIC
from tests.integration.chaos.network import BrokerNetwork
from tests.integration.chaos.producer import SET_MESSAGES, TOPIC
from tests.integration.chaos.verdict import judge_group, judge_numbers, read_acknowledged
from tests.integration.chaos.world import BROKERS, GROUPS, PARTITIONS, Target, TreeProcess, World

SECONDS = float(os.environ.get("LOGD_CHAOS_SECONDS", "20"))
ENSEMBLE = os.environ.get("LOGD_CHAOS_ENSEMBLE", "0") != "0"
SEED = int(os.environ.get("LOGD_CHAOS_SEED", str(int(time.time()))))
#: Seconds for a group to settle and handle what is left, once nothing is wrong any more.
SETTLE_SECONDS = 300.0
CLOCK: Any = reactor


class ChaosTests(TestCase):
    """Nothing acknowledged is lost, nothing is out of order, and in the end each partition has one owner."""

    timeout = 1200 + 2 * SECONDS
    log = Logger()

    async def test_a_cluster_over_its_own_tree_keeps_its_promises(self) -> None:
        """The tree is logd's own coordination server, which may be killed like every other part."""
        folder = Path(os.path.abspath(self.mktemp()))
        folder.mkdir()
        await self.run_world(folder, CoordinationProcess(str(folder / "tree")))

    async def test_a_cluster_over_a_zookeeper_keeps_its_promises(self) -> None:
        """Users may bring their own: the promises must not depend on how logd's server behaves."""
        reason = missing()
        if reason:
            self.skipTest(reason)
        folder = Path(os.path.abspath(self.mktemp()))
        folder.mkdir()
        await self.run_world(folder, ZooKeeperProcess(str(folder / "tree")))

    async def test_a_cluster_over_an_ensemble_keeps_its_promises(self) -> None:
        """Of three real ZooKeepers the leader and a follower are harmed, at times both."""
        reason = missing() or ("" if ENSEMBLE else "only with LOGD_CHAOS_ENSEMBLE=1: it takes as long as the others")
        if reason:
            self.skipTest(reason)
        folder = Path(os.path.abspath(self.mktemp()))
        folder.mkdir()
        tree = EnsembleTree(ZooKeeperEnsemble(str(folder / "tree")))
        await self.run_world(folder, tree, *tree.targets())

    async def test_replicas_over_an_ensemble_keep_their_promises(self) -> None:
        """Networks are cut too, disks full or replaced, leaders killed together. In the end all replicas are equal."""
        reason = missing()
        if reason:
            self.skipTest(reason)
        folder = Path(os.path.abspath(self.mktemp()))
        folder.mkdir()
        tree = EnsembleTree(ZooKeeperEnsemble(str(folder / "tree")))
        await self.run_world(folder, tree, *tree.targets(), replicas=3)

    async def run_world(self, folder: Path, tree: TreeProcess, *tree_targets: Target, replicas: int = 1) -> None:
        """Start a world, harm and heal it, wait until the groups have handled all, and judge the ledgers."""
        world = World(folder, tree, replicas=replicas)
        world.tree_targets = tree_targets or world.tree_targets
        self.addCleanup(deferToThread, world.kill)
        if replicas > 1:
            for port in world.ports:
                proxy = await Proxy(CLOCK, port).start()
                self.addCleanup(Deferred.fromCoroutine, proxy.stop())
                world.networks.append(BrokerNetwork(CLOCK, proxy))
        await deferToThread(world.start_servers)
        await self.create(world.addresses, TOPIC, PARTITIONS, replicas)
        if replicas > 1:
            await self.create(world.addresses, KAFKA_TOPIC, 1, replicas)
        await deferToThread(world.start_clients)
        say: list[str] = [f"seed {SEED}"]
        done = await deferToThread(torment, world, Random(SEED), SECONDS, say.append)
        self.assertEqual(await deferToThread(world.stop_producer), 0, _tail(folder / "producer.log"))
        if replicas > 1:
            self.assertEqual(await deferToThread(world.stop_kafka_producer), 0, _tail(folder / "kafka-producer.log"))
        acknowledged = read_acknowledged(world.published)
        client = await ZooKeeperCoordination(CLOCK, tree.hosts).connect()
        self.addCleanup(client.close)
        # The last set of each partition begins there: a group that committed more has handled it.
        ends = {partition: max(sets) for partition, sets in acknowledged.items()}
        try:
            await self.settled(client, ends)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *say])) from error
        problems = []
        for group in GROUPS:
            committed = {p: await self.committed(client, group, p) for p in range(PARTITIONS)}
            found, again = judge_group(group, world.ledgers(group), acknowledged, committed, SET_MESSAGES)
            problems += found
            say.append(f"group {group}: {again} handled again")
        if replicas > 1:
            problems += await self.unequal(world)
            problems += await deferToThread(judge_numbers, world.kafka_servers, KAFKA_TOPIC, world.kafka_published)
        for member in world.members:
            self.assertEqual(await deferToThread(member.stop), 0, f"{member.group}-{member.name}")
        count = sum(map(len, acknowledged.values())) * SET_MESSAGES
        self.log.info("{n} messages, {f} faults\n{say}", n=count, f=len(done), say="\n".join(say))
        self.assertEqual(problems, [], "\n".join(say))
        self.assertGreater(count, 0)

    async def create(self, addresses: str, topic: str, partitions: int, replicas: int) -> None:
        """Create a topic, once all brokers are known."""
        admin = Admin(addresses, reactor=reactor)
        while len((await admin.metadata()).brokers) < BROKERS:
            await deferLater(CLOCK, 0.05)
        await admin.create(topic, partitions, replicas=replicas)
        await admin.close()

    async def unequal(self, world: World) -> list[str]:
        """Return the partitions whose replicas do not become equal."""
        deadline = CLOCK.seconds() + SETTLE_SECONDS
        left = list(range(PARTITIONS))
        while left and CLOCK.seconds() < deadline:
            left = [each for each in left if len(world.replica_contents(TOPIC, each)) != 1]
            await deferLater(CLOCK, 0.2)
        return [f"the replicas of partition {each} differ" for each in left]

    async def settled(self, client: ICoordination, ends: dict[int, int]) -> None:
        """Wait until each group has an owner for every partition and has committed all that was acknowledged."""
        deadline = CLOCK.seconds() + SETTLE_SECONDS
        left: list[str] = []
        while CLOCK.seconds() < deadline:
            left = []
            for group in GROUPS:
                owned = await self.owned(client, group)
                left += [f"{group} {p}: no owner" for p in range(PARTITIONS) if str(p) not in owned]
                for partition, end in ends.items():
                    committed = await self.committed(client, group, partition)
                    if committed <= end:
                        left.append(f"{group} {partition}: {committed} of {end} committed")
            if not left:
                return
            await deferLater(CLOCK, 0.2)
        raise AssertionError(f"not settled after {SETTLE_SECONDS} s: {left[:8]}")

    async def owned(self, client: ICoordination, group: str) -> list[str]:
        """Return the partitions that have an owner; none where the tree does not tell."""
        try:
            return list(await client.get_children(paths.group_owners(group, TOPIC)))
        except CoordinationError:
            return []

    async def committed(self, client: ICoordination, group: str, partition: int) -> int:
        """Return a group's committed position; 0 where it has none."""
        try:
            data, _ = await client.get(paths.group_offset(group, TOPIC, partition))
        except CoordinationError:
            return 0
        return int(data)


def _tail(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")[-3000:]
