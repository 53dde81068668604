"""Spark with three real brokers over one coordination server: reads, writes and imports go on while a broker moves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.coordination import CoordinationProcess
from tests.integration.spark.imports import wait_until
from tests.integration.spark.rig import SparkTestCase, numbered, shared_folder, why_not

if why_not() is None:
    from logd.spark.blocking.cluster import ClusterSettings
    from logd.spark.blocking.subscription import SourceSubscription
    from logd.spark.importer.run import Importer
    from logd.spark.importer.settings import ImportSettings
    from logd.spark.importer.spark_loader import SparkLoader
    from logd.spark.importer.targets.verifying import verify

#: The shortest session that the tree grants; for this long a killed broker still counts as live.
SESSION_MS = 4000
BROKERS = 3
PARTITIONS = 6
#: Messages of one partition.
COUNT = 5000


class ClusterTests(SparkTestCase):
    """Partitions on several brokers."""

    def make_broker(self) -> BrokerProcess:
        """Start the tree and the brokers; return the first, whose address clients are given."""
        folder = f"{shared_folder()}/{self.name()}"
        tree = CoordinationProcess(f"{folder}.tree")
        self.addCleanup(tree.kill)
        tree.start()
        self.brokers = []
        for number in range(1, BROKERS + 1):
            options = ("--id", str(number), "--set", f"zookeeper.session.ms={SESSION_MS}")
            broker = BrokerProcess(f"{folder}.{number}", options, zookeeper=tree.hosts)
            self.addCleanup(broker.kill)
            self.brokers.append(broker.start())
        return self.brokers[0]

    @contextmanager
    def moving(self, broker: BrokerProcess) -> Iterator[None]:
        """Kill a broker once tasks of the ``with`` block run, and start it again at another port."""
        tracker = self.spark.sparkContext.statusTracker()

        def move() -> None:
            wait_until(tracker.getActiveStageIds)
            time.sleep(0.1)
            broker.kill()
            broker.port = free_port()
            broker.start()

        with ThreadPoolExecutor(1) as mover:
            moved = mover.submit(move)
            try:
                yield
            finally:
                moved.result()  # a broker that has not come back is the first failure

    def test_spark_goes_on_while_a_broker_moves(self) -> None:
        """The others' metadata give its new port; reads and imports have each message once, writes at least once."""
        self.assertTrue(wait_until(lambda: len(self.cluster.metadata(None).brokers) == BROKERS))
        source = self.create(PARTITIONS, self.name(".source"))
        self.assertEqual(len(set(self.cluster.topic(source).leaders.values())), BROKERS)
        for partition in range(PARTITIONS):
            self.fill(source, numbered(range(partition * COUNT, (partition + 1) * COUNT)), partition)
        everything = list(range(PARTITIONS * COUNT))

        # In small pieces, so that the broker goes while they are fetched.
        with self.moving(self.brokers[1]):
            frame = self.read(source, fetchBytes="1024", maxBytesPerPartition="200000").select("value")
            self.assertEqual(sorted(int(row.value) for row in frame.collect()), everything)

        target = self.create(PARTITIONS, self.name(".target"))
        with self.moving(self.brokers[2]):
            rows = self.read(source, maxBytesPerPartition="200000").select("value", "partition")
            self.configured(rows.write, {"topic": target, "batchBytes": "1000"}).mode("append").save()
        written = [int(row.value) for row in self.read(target).select("value").collect()]
        self.assertEqual(sorted(set(written)), everything)  # at least once

        settings = ImportSettings(
            subscription=SourceSubscription(topics=(source,)),
            to=f"{shared_folder()}/{self.name()}.files",
            cluster=ClusterSettings(brokers=self.broker.address, retry_timeout=300.0),
            task_bytes=100_000,
        )
        with self.moving(self.brokers[1]):
            report = Importer(settings, SparkLoader(settings, session=self.spark)).run()
        self.assertEqual((report.messages, verify(settings.to).messages), (len(everything), len(everything)))
        values = self.spark.read.parquet(settings.to).select("value").collect()
        self.assertEqual(sorted(int(row.value) for row in values), everything)
