"""The importer with a real broker and a Spark session of this process: files, losses, races, Hadoop's file systems."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import evolve

from logd.errors import BrokerUnavailable, LogdError
from logd.protocol.message import Message
from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.clients.test_tls_clients import make_certificate
from tests.integration.spark.sparking import SparkTestCase, numbered, shared_folder, why_not

if why_not() is None:
    from logd.spark.blocking.cluster import ClusterSettings
    from logd.spark.blocking.reading import DataLost
    from logd.spark.blocking.subscription import SourceSubscription
    from logd.spark.importer.errors import ImportFailed, RunLost, TargetError
    from logd.spark.importer.report import ImportReport
    from logd.spark.importer.run import Importer
    from logd.spark.importer.settings import ImportSettings
    from logd.spark.importer.spark_loader import SparkLoader
    from logd.spark.importer.targets.hadoop import HadoopTarget
    from logd.spark.importer.targets.layout import OFFSETS
    from logd.spark.importer.targets.target import Target, last_run, publish
    from logd.spark.importer.targets.verifying import verify
    from tests.spark.importer.runs import A0, run_of

#: 2011-11-11T06:30:00Z in ms.
A_TIME = 1_320_993_000_000


class ImportTestCase(SparkTestCase):
    """A topic with some messages, and a target."""

    def setUp(self) -> None:
        """Two partitions, 300 messages."""
        super().setUp()
        self.topic = self.create(2)
        self.fill(self.topic, numbered(range(200)), 0)
        self.fill(self.topic, [Message(b"at noon", timestamp=A_TIME)] * 100, 1)
        self.to = f"{shared_folder()}/{self.name()}.target"
        self.settings = ImportSettings(
            subscription=SourceSubscription(topics=(self.topic,)),
            to=self.to,
            cluster=ClusterSettings(brokers=self.broker.address, retry_timeout=20.0),
        )

    def importing(self, progress: Callable[[int, int], None] | None = None, **changes: Any) -> ImportReport:
        """Import what is new."""
        settings = evolve(self.settings, **changes)
        return Importer(settings, self.loader(settings, progress)).run()

    def loader(self, settings: ImportSettings, progress: Callable[[int, int], None] | None = None) -> SparkLoader:
        """Spark."""
        loader = SparkLoader(settings, session=self.spark)
        if progress is not None:
            loader.progress = progress
        return loader

    def folders(self) -> list[str]:
        """The folders of data, below their runs."""
        return sorted({str(path.parent.relative_to(self.to)) for path in Path(self.to).glob("run=*/**/part-*")})

    def assert_nothing_left(self) -> None:
        """Nothing is visible and nothing is staged."""
        self.assertEqual(list(Path(self.to).glob("run=*")), [])
        self.assertEqual(list(Path(self.to, "_staging").iterdir()), [])


class FilesTests(ImportTestCase):
    """What is in the files."""

    def test_parquet(self) -> None:
        """Folders of topic, UTC date and hour, the import's where a message has no time; a second run has the rest."""
        before = time.gmtime()
        report = self.importing()
        self.assertEqual((report.run, report.messages, report.bytes), (1, 300, report.plan.bytes))
        now = {time.strftime("date=%Y-%m-%d/hour=%H", each) for each in (before, time.gmtime())}
        noon, other = self.folders()
        self.assertEqual(noon, f"run=1/topic={self.topic}/date=2011-11-11/hour=06")
        self.assertIn(other.removeprefix(f"run=1/topic={self.topic}/"), now)
        self.assertIsNone(self.importing().run)
        self.fill(self.topic, numbered(range(200, 210)), 0)
        self.assertEqual((self.importing().run, verify(self.to).messages), (2, 310))
        rows = self.spark.read.parquet(self.to).where("partition = 0").orderBy("id").collect()
        self.assertEqual([int(row.value) for row in rows], list(range(210)))
        self.assertEqual({row.run for row in rows}, {1, 2})

    def test_target_of_an_earlier_release(self) -> None:
        """In a target whose column ``offset`` is the id, later runs keep that meaning, and are counted by it."""
        self.importing()
        offsets = Path(self.to, "run=1", "_offsets.json")
        offsets.write_text(offsets.read_text().replace('"format": 2', '"format": 1'))
        self.fill(self.topic, numbered(range(200, 210)), 0)
        self.assertEqual(self.importing().messages, 10)
        rows = self.spark.read.parquet(f"{self.to}/run=2").orderBy("offset").collect()
        self.assertEqual([int(row.value) for row in rows], list(range(200, 210)))
        self.assertNotIn("id", rows[0])
        self.assertEqual([row.offset for row in rows[1:]], [row.next_offset for row in rows[:-1]])

    def test_json(self) -> None:
        """Text where a value is text, base64 where it is not, and no folders if none are asked for."""
        self.fill(self.topic, [Message(b"\xff\x00", key="é".encode(), timestamp=A_TIME, headers=[("h", b"v")])], 1)
        self.importing(format="json", partition_by=())
        self.assertEqual(self.folders(), ["run=1"])
        lines = [
            json.loads(line)
            for path in Path(self.to, "run=1").glob("part-*.json.gz")
            for line in gzip.decompress(path.read_bytes()).splitlines()
        ]
        self.assertEqual(len(lines), 301)
        last = max((line for line in lines if line["partition"] == 1), key=lambda line: line["id"])
        self.assertEqual((last["key"], last["value_base64"]), ("é", "/wA="))
        self.assertEqual((last["timestamp"], last["headers"][0]["key"]), ("2011-11-11T06:30:00.000Z", "h"))
        self.assertNotIn("value", last)
        self.assertEqual(lines[0]["topic"], self.topic)

    def test_starts(self) -> None:
        """A place to begin counts for partitions that the target knows nothing of, and for no other."""
        from logd.spark.blocking.offsets import OffsetLimits, parse_offsets

        second = parse_offsets(json.dumps({self.topic: {"0": 109, "1": -1}}), "earliest")
        report = self.importing(starting=second)
        self.assertEqual((report.messages, [each.start for each in report.loaded]), (199, [109]))
        self.assertIsNone(self.importing(starting=OffsetLimits.of("earliest")).run)
        report = self.importing(starting=OffsetLimits.of("earliest"), to=f"{self.to}.again")
        self.assertEqual(report.messages, 300)

    def test_dry_run(self) -> None:
        """A dry run says what would be loaded and makes nothing, not even the directory."""
        report = self.importing(dry_run=True)
        self.assertEqual([(each.lineage.partition, each.start) for each in report.plan.ranges], [(0, 0), (1, 0)])
        self.assertFalse(os.path.exists(self.to))


class ChecksTests(ImportTestCase):
    """What was written is counted before it is seen."""

    def staged(self) -> list[Path]:
        """The files of the run in the making."""
        return sorted(Path(self.to, "_staging").glob("*/**/part-*.parquet"))

    def test_missing_file(self) -> None:
        """A file that is gone makes the run fail, and nothing is visible; the next run loads everything."""

        def remove(done: int, total: int) -> None:
            if done == total:
                self.staged()[0].unlink()

        with self.assertRaisesRegex(ImportFailed, r"300 messages .* were read, but the files hold"):
            self.importing(remove)
        self.assert_nothing_left()
        self.assertEqual(self.importing().messages, 300)

    def test_file_twice(self) -> None:
        """A file that a task left twice makes the run fail."""

        def copy(done: int, total: int) -> None:
            if done == total:
                for path in self.staged():
                    shutil.copy(path, path.with_name("part-again.parquet"))

        with self.assertRaisesRegex(ImportFailed, "more than once"):
            self.importing(copy)
        self.assert_nothing_left()

    def test_made_again_while_loading(self) -> None:
        """A topic that is another one when the load has ended makes the run fail."""

        def make_again(done: int, total: int) -> None:
            if done == total:
                self.delete(self.topic)
                self.create(2, self.topic)

        with self.assertRaisesRegex(ImportFailed, "deleted or created again while it was loaded"):
            self.importing(make_again)
        self.assert_nothing_left()


class LossTests(ImportTestCase):
    """Messages that are gone before they were loaded."""

    def test_made_again(self) -> None:
        """A topic that was created again is an error, or begins anew; the offsets tell of both."""
        self.importing()
        self.delete(self.topic)
        self.create(2, self.topic)
        self.fill(self.topic, numbered(range(5)), 0)
        with self.assertRaisesRegex(DataLost, "created again"):
            self.importing()
        report = self.importing(accept_loss=True)
        self.assertEqual((report.run, report.messages, len(report.notices)), (2, 5, 2))
        lost = json.loads(Path(self.to, "run=2", OFFSETS).read_bytes())["lost"]
        self.assertEqual([each["end"] for each in lost], [-1, -1])
        self.fill(self.topic, numbered(range(5)), 1)
        self.assertEqual((self.importing().messages, verify(self.to).runs), (5, 3))


class WithoutLocks(Importer if why_not() is None else object):  # type: ignore[misc]  # one of two bases
    """An import that keeps nobody out, through FileContext, as on HDFS."""

    def target(self) -> Target:
        """What another file system's would be."""
        target: Target = self.loader.target(f"file://{self.settings.to}")
        return target


class FailingTests(ImportTestCase):
    """Loads that fail in Spark, whose words are many."""

    def fails(self, kind: type[LogdError], words: str, meanwhile: Callable[[], object], **changes: Any) -> None:
        """The import fails so, in one line, when something happens once it is about to load; nothing is visible."""
        settings = evolve(self.settings, **changes)
        loader = self.loader(settings)
        start = loader.start
        self.patch(SparkLoader, "start", lambda _, size: (start(size), meanwhile()))
        with self.assertRaisesRegex(kind, words) as caught:
            Importer(settings, loader).run()
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual([name for name in os.listdir(self.to) if name[0] != "_"], [])

    def test_damage(self) -> None:
        """An entry that is damaged is named, with what mends it."""
        self.use_own_broker()
        self.create(2, self.topic)
        self.fill(self.topic, numbered(range(200)), 0)
        (segment,) = Path(shared_folder(), self.name(), f"{self.topic}-0").glob("*.log")

        def damage() -> None:
            with segment.open("r+b") as file:
                file.seek(5000)
                file.write(b"?")

        cluster = ClusterSettings(brokers=self.broker.address, retry_timeout=5.0)
        self.fails(ImportFailed, "loading failed: .*'logd repair' can make a gap of it", damage, cluster=cluster)

    def test_broker_gone(self) -> None:
        """A broker that goes away and does not come back is one that cannot be reached, whoever found out."""
        self.use_own_broker()
        self.create(2, self.topic)
        self.fill(self.topic, numbered(range(200)), 0)
        cluster = ClusterSettings(brokers=self.broker.address, retry_timeout=0.3)
        self.fails(BrokerUnavailable, "loading failed: .*refused", self.broker.kill, cluster=cluster)

    def test_made_again(self) -> None:
        """What is lost between plan and load is told with the remedy of an import, not that of a read."""

        def make_again() -> None:
            self.delete(self.topic)
            self.create(2, self.topic)

        self.fails(
            DataLost, "loading failed: .* not in the log, .*; run the import again: .* --on-data-loss", make_again
        )

    def test_target_taken_away(self) -> None:
        """What Java says of files that it cannot make is told in its words."""
        staging = Path(self.to, "_staging")

        def block() -> None:
            staging.rmdir()
            staging.write_text("")

        self.fails(ImportFailed, "loading failed in Spark: .*_staging", block)


class RaceTests(ImportTestCase):
    """Two imports at once."""

    def test_race(self) -> None:
        """The first to rename wins; the second says so, and leaves no trace."""

        def be_faster(done: int, total: int) -> None:
            if done == total:
                WithoutLocks(self.settings, self.loader(self.settings)).run()

        slow = WithoutLocks(self.settings, self.loader(self.settings, be_faster))
        with self.assertRaisesRegex(RunLost, "another import made .*run=1 first"):
            slow.run()
        self.assertEqual(list(Path(self.to, "_staging").iterdir()), [])
        self.assertEqual((verify(self.to).messages, verify(self.to).runs), (300, 1))
        self.assertIsNone(WithoutLocks(self.settings, self.loader(self.settings)).run().run)


class TlsTests(SparkTestCase):
    """A broker that speaks nothing but TLS."""

    def make_broker(self) -> BrokerProcess:
        """With a certificate made here."""
        if find_spec("OpenSSL") is None:
            self.skipTest("TLS needs the extra logd[tls]")
        folder = Path(shared_folder(), self.name(".tls"))
        folder.mkdir()
        make_certificate(folder)
        port = free_port()
        listen = f"ssl:{port}:privateKey={folder}/key.pem:certKey={folder}/cert.pem:interface=127.0.0.1"
        self.trusted = folder / "cert.pem"
        broker = BrokerProcess(str(folder / "data"), ("--listen", listen), port=port).start()
        self.addCleanup(broker.stop)
        return broker

    def test_there_and_back(self) -> None:
        """Tasks write, read and import over it, with what the options say they trust."""
        options = {"brokers": f"localhost:{self.broker.port}", "tls": "true", "tls.ca": str(self.trusted)}
        frame = self.spark.range(1000).selectExpr("cast(id as string) as value", "'tls' as topic")
        frame.write.format("logd").options(**options).mode("append").save()
        found = self.spark.read.format("logd").options(**options, subscribe="tls").load()
        self.assertEqual(sorted(int(row.value) for row in found.select("value").collect()), list(range(1000)))
        settings = ImportSettings(
            subscription=SourceSubscription(topics=("tls",)),
            to=f"{shared_folder()}/{self.name()}.target",
            cluster=ClusterSettings(brokers=options["brokers"], tls=True, tls_ca=str(self.trusted)),
        )
        self.assertEqual(Importer(settings, SparkLoader(settings, session=self.spark)).run().messages, 1000)
        plain = self.spark.read.format("logd").options(brokers=options["brokers"], subscribe="tls", retryTimeoutMs="1")
        self.assert_fails(plain.load().count, "accepts only TLS")


class HadoopTargetTests(SparkTestCase):
    """A target of FileContext, tried on file://."""

    def setUp(self) -> None:
        """A folder."""
        super().setUp()
        self.root = Path(shared_folder(), f"{self.name()}.target")
        self.target = HadoopTarget(f"file://{self.root}", self.spark)

    def stage(self, uuid: str) -> None:
        """Data of a run."""
        folder = Path(self.target.staging(uuid).removeprefix("file://"))
        (folder / "topic=a").mkdir(parents=True)
        (folder / "topic=a" / "part-0.parquet").write_text(uuid)

    def test_publish(self) -> None:
        """Runs become visible one after the other; who comes second loses; ours that is there is a success."""
        self.target.acquire()
        one = run_of(1, {A0: (0, 100)})
        self.assertIsNone(last_run(self.target))
        self.stage(one.uuid)
        publish(self.target, one)
        self.assertEqual(last_run(self.target), one)
        theirs = evolve(one, uuid="theirs")
        self.stage("theirs")
        with self.assertRaisesRegex(RunLost, "its uuid is run-1"):
            publish(self.target, theirs)
        self.assertEqual(os.listdir(self.root / "run=1" / "topic=a"), ["part-0.parquet"])
        self.target.discard("theirs")
        self.assertEqual(os.listdir(self.root / "_staging"), [])
        two = run_of(2, {A0: (100, 110)}, one)
        self.stage(two.uuid)
        publish(self.target, two)
        self.assertEqual((self.target.runs(), last_run(self.target)), ([1, 2], two))

    def test_clean(self) -> None:
        """Only what nobody has touched for long is removed."""
        self.target.acquire()
        self.stage("dead")
        self.stage("live")
        for where in ("topic=a/part-0.parquet", "topic=a", "."):
            os.utime(self.root / "_staging" / "dead" / where, (0, 0))
        os.utime(self.root / "_staging" / "live", (0, 0))
        self.assertEqual([path.rpartition("/")[2] for path in self.target.clean()], ["dead"])
        self.assertEqual(os.listdir(self.root / "_staging"), ["live"])

    def test_not_atomic(self) -> None:
        """A file system that copies where others rename is refused, with those that do not."""
        with self.assertRaisesRegex(TargetError, r"not atomic on s3a://; allowed are hdfs://"):
            HadoopTarget("s3a://bucket/logs", self.spark)

    def test_file_system_that_is_not_there(self) -> None:
        """Of one whose jars Spark does not have it is said which they are."""
        with self.assertRaisesRegex(TargetError, r"no file system for abfss://.*hadoop-azure:\d+\.\d+"):
            HadoopTarget("abfss://container@account.dfs.core.windows.net/logs", self.spark)
