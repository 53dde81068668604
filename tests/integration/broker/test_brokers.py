"""Several real brokers over one tree: losses under load, a load balancer, races, and one id taken twice."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from logd.errors import CoordinationUnavailable, LogdError, TopicExists
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.testing.processes.broker import free_port
from logd.testing.processes.python_process import run_python
from logd.testing.processes.zookeeper import ZooKeeperProcess, missing
from tests.integration.clusters import CLOCK, ClusterTestCase
from tests.integration.coordination.balancer import Balancer
from tests.integration.peers import PATIENCE

PARTITIONS = 4
#: Seconds between two rounds of a producer, which sends to each partition: some 400 messages a second, so that brokers
#: and clients have a processor left for what the tests are about.
PAUSE_SECONDS = 0.02
#: A session that no stopped broker outlasts in a test.
LONG_SESSION_MS = 60_000
LOGD = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')"]


class LoadTestCase(ClusterTestCase):
    """Producers and a consumer that go on while brokers come and go."""

    count = 3
    options: tuple[str, ...] = ("--set", f"topics.partitions={PARTITIONS}")

    def setUp(self) -> Deferred[None]:  # type: ignore[override]  # trial waits for it
        """Start with no message acknowledged or seen."""
        self.acknowledged: set[bytes] = set()
        self.by_partition: dict[int, int] = {}
        self.seen: set[bytes] = set()
        self.unsettled = 0
        self.over = False
        self.addCleanup(setattr, self, "over", True)
        return super().setUp()

    async def produce(self, name: bytes) -> None:
        """Send to all partitions, and note what is acknowledged."""
        producer = self.producer(delivery_timeout=100.0)
        serial = 0

        async def send(partition: int, payload: bytes) -> None:
            sent = await producer.send("t", MessageSet([Message(payload)]), partition=partition)
            self.acknowledged.add(payload)
            self.by_partition[sent.partition] = self.by_partition.get(sent.partition, 0) + 1

        while not self.over:
            for partition in range(PARTITIONS):
                serial += 1
                self.unsettled += 1
                self.go_on(send(partition, b"%s %d %d" % (name, partition, serial))).addBoth(self.settled)
            await deferLater(CLOCK, PAUSE_SECONDS)

    def settled(self, _: object) -> None:
        """Count a send that has ended, well or not."""
        self.unsettled -= 1

    async def consume(self) -> None:
        """Note every message that arrives."""
        (stream,) = self.consumer().create_message_streams("t", 1)
        async for message in stream:
            assert message.payload is not None
            self.seen.add(message.payload)

    async def under_load(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work`` while messages pass, then check that every acknowledged message was seen."""
        await self.admin().create("t", PARTITIONS)
        producing = [self.go_on(self.produce(b"%d" % number)) for number in range(2)]
        self.go_on(self.consume())
        await self.until(lambda: len(self.seen) > 200)
        await work()
        self.over = True
        await gatherResults(producing)
        await self.until(lambda: not self.unsettled and self.acknowledged <= self.seen)
        self.assertEqual(self.failures, [])
        self.assertEqual(sorted(self.by_partition), list(range(PARTITIONS)))

    async def grown(self, partitions: list[int]) -> None:
        """Wait until more messages were acknowledged in each of these partitions."""
        before = dict(self.by_partition)
        await self.until(lambda: all(self.by_partition.get(n, 0) > before.get(n, 0) + 20 for n in partitions))


class LoadTests(LoadTestCase):
    """A broker is killed, and the tree."""

    async def test_messages_survive_a_kill_and_a_new_port(self) -> None:
        """The other brokers' partitions go on; those of the killed one have no leader until it is back."""

        async def work() -> None:
            admin = self.admin(self.brokers[0])
            described = await admin.describe("t")
            others = [each.partition for each in described.partitions if each.leader != 2]
            mine = [each.partition for each in described.partitions if each.leader == 2]
            self.assertTrue(mine)
            await deferToThread(self.brokers[1].kill)
            await self.grown(others)
            gone = await self.until_metadata(admin, lambda found: len(found.brokers) == 2)
            described = gone.topics[0]
            self.assertEqual(
                [(each.leader, each.error) for each in described.partitions if each.partition in mine],
                [(-1, 115)] * len(mine),
            )
            self.brokers[1].port = free_port()
            await deferToThread(self.brokers[1].start)
            await self.grown(mine)

        await self.under_load(work)

    async def test_messages_pass_while_the_tree_is_away(self) -> None:
        """Only the creation of topics fails meanwhile, and works again once the tree is back."""

        async def work() -> None:
            await deferToThread(self.tree.kill)
            await self.grown(list(range(PARTITIONS)))
            with self.assertRaises(LogdError) as caught:
                await self.admin(self.brokers[0]).create("other", 1)
            self.assertIsInstance(caught.exception, CoordinationUnavailable)
            await self.grown(list(range(PARTITIONS)))
            await deferToThread(self.tree.start)
            admin = self.admin(self.brokers[0])
            await self.until_metadata(admin, lambda found: len(found.brokers) == 3)
            while True:
                try:
                    await admin.create("other", 1)
                    break
                except CoordinationUnavailable:
                    await deferLater(CLOCK, 0.1)
                except TopicExists:
                    break  # the answer of the attempt before was lost, not the attempt
            await self.grown(list(range(PARTITIONS)))

        await self.under_load(work)


class StoppedBrokerTests(LoadTestCase):
    """A broker is stopped in order."""

    options = (*LoadTestCase.options, "--set", f"zookeeper.session.ms={LONG_SESSION_MS}")  # the last of a name counts

    async def test_a_stopped_broker_leaves_the_metadata_at_once(self) -> None:
        """Clients do not wait for its session to expire; once it is back, its partitions go on."""

        async def work() -> None:
            admin = self.admin(self.brokers[0])
            self.assertEqual(await deferToThread(self.brokers[2].stop), 0)
            stopped = CLOCK.seconds()
            # The other broker is told by the tree, perhaps a moment later.
            await self.until_metadata(admin, lambda found: [broker.id for broker in found.brokers] == [1, 2])
            self.assertLess(CLOCK.seconds() - stopped, LONG_SESSION_MS / 2000)
            await deferToThread(self.brokers[2].start)
            await self.grown(list(range(PARTITIONS)))

        await self.under_load(work)


class BalancerTests(ClusterTestCase):
    """The paper's producer behind a TCP load balancer, which knows one address and no broker."""

    options = ("--set", f"topics.partitions={PARTITIONS}")

    async def test_producers_behind_a_balancer_reach_all_brokers(self) -> None:
        """Each broker appends to its own partitions; one of them stops, and no message is lost."""
        balancer = Balancer(CLOCK, [broker.port for broker in self.brokers])
        address = balancer.start()
        self.addCleanup(balancer.stop)
        producers = [self.producer(address, discover=False) for _ in range(2)]
        where: dict[bytes, int] = {}

        async def send(number: int, payload: bytes) -> None:
            where[payload] = (await producers[number].send("t", MessageSet([Message(payload)]))).partition

        for round_number in range(2):
            for serial in range(100):
                await gatherResults([self.go_on(send(n, b"%d %d %d" % (round_number, n, serial))) for n in range(2)])
            if round_number == 0:
                self.assertEqual(set(where.values()), set(range(PARTITIONS)))
                self.assertEqual(sorted(balancer.taken), sorted(balancer.ports))
                self.assertEqual(await deferToThread(self.brokers[1].stop), 0)
        await deferToThread(self.brokers[1].start)
        seen: set[bytes] = set()
        (stream,) = self.consumer().create_message_streams("t", 1)
        while not seen >= set(where):
            message = await stream.get()
            assert message.payload is not None
            seen.add(message.payload)
        self.assertEqual((len(where), self.failures), (400, []))


class TogetherTests(ClusterTestCase):
    """Two brokers that do the same at once, and one that takes another's place."""

    async def test_one_of_two_creations_at_once_succeeds(self) -> None:
        """Both brokers then describe the same topic, by one uuid; 20 rounds, so that the race has many outcomes."""
        admins = [self.admin(broker) for broker in self.brokers]
        for number in range(20):
            doing = [admin.create(f"t{number}", 2) for admin in admins]
            outcomes = [await each.addErrback(lambda failure: failure.trap(TopicExists)) for each in doing]
            made = [each for each in outcomes if each is not TopicExists]
            self.assertEqual(len(made), 1, outcomes)
            described = [await admin.describe(f"t{number}") for admin in admins]
            self.assertEqual([each.uuid for each in described], made * 2)
            self.assertEqual(sorted(each.leader for each in described[0].partitions), [1, 2])

    async def test_a_broker_whose_id_is_taken_stays_out(self) -> None:
        """Its log names the other broker's address; it joins once the id is free."""
        other = self.broker(1, "impostor")
        with open(f"{self.folder}/impostor.log", encoding="utf-8") as log:
            text = ""
            while "broker id 1 is taken" not in text:
                text += log.read()
                await deferLater(CLOCK, 0.02)
        self.assertIn(f"at 127.0.0.1:{self.brokers[0].port}", text)
        found = await self.admin(self.brokers[1]).metadata()
        self.assertIn(self.brokers[0].port, [broker.port for broker in found.brokers])
        await deferToThread(self.brokers[0].stop)
        await self.until_metadata(
            self.admin(self.brokers[1]), lambda found: other.port in [broker.port for broker in found.brokers]
        )

    async def test_a_broker_brings_its_topics_into_a_shared_tree(self) -> None:
        """A user who began with one broker loses neither topics nor uuids nor messages by joining a cluster."""
        alone = self.broker(3)
        await deferToThread(alone.stop)
        alone.zookeeper = None
        await deferToThread(alone.start)
        producer = self.producer(alone.address)
        await producer.send("brought", MessageSet([Message(b"along")]))
        uuid = (await self.admin(alone).describe("brought")).uuid
        await deferToThread(alone.stop)
        alone.zookeeper = self.tree.hosts
        await deferToThread(alone.start)
        admin = self.admin(self.brokers[0])
        found = await self.until_metadata(admin, lambda found: bool(found.topics))
        self.assertEqual([(topic.topic, topic.uuid) for topic in found.topics], [("brought", uuid)])
        (stream,) = self.consumer().create_message_streams("brought", 1)
        self.assertEqual((await stream.get()).payload, b"along")


class ZooKeeperTests(TogetherTests):
    """The same on a real ZooKeeper."""

    if missing():
        skip = missing()

    def make_tree(self, folder: str) -> ZooKeeperProcess:
        """Return a real ZooKeeper."""
        return ZooKeeperProcess(folder)


class CommandTestCase(ClusterTestCase):
    """Commands that know the cluster by their environment."""

    async def logd(self, *arguments: str, status: int = 0) -> str:
        """Run a command to its end, check its exit status, and return its output."""
        environment = {**os.environ, "LOGD_BROKER": self.addresses, "LOGD_ZOOKEEPER": self.tree.hosts}
        done = await deferToThread(
            partial(run_python, [*LOGD, *arguments], capture_output=True, text=True, env=environment, timeout=PATIENCE)
        )
        self.errors = done.stderr
        self.assertEqual(done.returncode, status, done.stderr)
        return str(done.stdout)


class CommandTests(CommandTestCase):
    """The commands at several brokers."""

    async def test_commands_show_the_broker_of_each_partition(self) -> None:
        """A partition without a live broker is shown with the broker's id and the reason, by status 1."""
        found = json.loads(await self.logd("brokers", "list", "--json"))
        self.assertEqual(
            [(each["id"], each["port"]) for each in found], [(n + 1, b.port) for n, b in enumerate(self.brokers)]
        )
        self.assertIn(found[0]["instance"], await self.logd("brokers", "list"))
        await self.logd("topics", "create", "t", "--partitions", "2")
        for broker in self.brokers:  # the one that did not create the topic is told of it by the tree
            await self.until_metadata(self.admin(broker), lambda found: bool(found.topics))
        described = json.loads(await self.logd("topics", "describe", "t", "--json"))["partitions"]
        at = {each["leader"]: each["address"] for each in described}
        self.assertEqual(at, {n + 1: broker.address for n, broker in enumerate(self.brokers)})
        await deferToThread(self.brokers[1].stop)
        await self.until_metadata(self.admin(self.brokers[0]), lambda found: len(found.brokers) == 1)
        described = json.loads(await self.logd("topics", "describe", "t", "--json", status=1))["partitions"]
        dead = next(each for each in described if each["brokers"] == [2])
        self.assertEqual((dead["leader"], dead["address"]), (-1, None))
        self.assertIn("broker 2", dead["error"])
        self.assertIn("not live", self.errors)
        self.assertEqual([each["id"] for each in json.loads(await self.logd("brokers", "list", "--json"))], [1])


class NoTreeTests(CommandTestCase):
    """The commands without a tree."""

    count = 0

    async def test_a_tree_that_does_not_answer_is_status_3(self) -> None:
        """It is the status of a broker that cannot be reached, and the error names the option to give."""
        await self.logd("brokers", "list", "--zookeeper", f"127.0.0.1:{free_port()}", status=3)
        self.assertIn("--zookeeper", self.errors)
