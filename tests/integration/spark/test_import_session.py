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

from logd.audit.event import AUDIT_TOPIC, decode_event
from logd.errors import BrokerUnavailable, LogdError
from logd.protocol.message import Message
from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.clients.test_tls_clients import make_certificate
from tests.integration.spark.rig import SparkTestCase, numbered, shared_folder, why_not

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
        """Create a topic of two partitions with 300 messages."""
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
        """Import the new messages, with ``changes`` to the settings."""
        settings = evolve(self.settings, **changes)
        return Importer(settings, self.loader(settings, progress)).run()

    def loader(self, settings: ImportSettings, progress: Callable[[int, int], None] | None = None) -> SparkLoader:
        """Return a loader in this process's session."""
        loader = SparkLoader(settings, session=self.spark)
        if progress is not None:
            loader.progress = progress
        return loader

    def folders(self) -> list[str]:
        """Return the folders that have files of data."""
        return sorted({str(path.parent.relative_to(self.to)) for path in Path(self.to).glob("run=*/**/part-*")})

    def assert_nothing_left(self) -> None:
        """Check that no file is visible and none is staged."""
        self.assertEqual(list(Path(self.to).glob("run=*")), [])
        self.assertEqual(list(Path(self.to, "_staging").iterdir()), [])


class FilesTests(ImportTestCase):
    """The files of a run: their folders, format and content."""

    def test_parquet_files_are_in_folders_of_topic_date_and_hour(self) -> None:
        """Date and hour are UTC, the import's for a message without a time; a second run has the new messages."""
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

    def test_a_target_of_an_earlier_release_keeps_its_columns(self) -> None:
        """Its column ``offset`` is the id: with another meaning in later runs, queries over all would be wrong."""
        self.importing()
        offsets = Path(self.to, "run=1", "_offsets.json")
        offsets.write_text(offsets.read_text().replace('"format": 2', '"format": 1'))
        self.fill(self.topic, numbered(range(200, 210)), 0)
        self.assertEqual(self.importing().messages, 10)
        rows = self.spark.read.parquet(f"{self.to}/run=2").orderBy("offset").collect()
        self.assertEqual([int(row.value) for row in rows], list(range(200, 210)))
        self.assertNotIn("id", rows[0])
        self.assertEqual([row.offset for row in rows[1:]], [row.next_offset for row in rows[:-1]])

    def test_json_values_are_text_or_base64(self) -> None:
        """A value that is no UTF-8 has a column of its own; without partition_by there are no folders."""
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

    def test_the_audit_counts_what_is_in_the_files(self) -> None:
        """By window and server, in both formats; messages without a time are in no window."""
        headers = [("x", b"y"), ("server", b"web1")]
        times = (A_TIME, A_TIME + 59_999, A_TIME + 60_000)
        self.fill(self.topic, [Message(b"a", timestamp=time, headers=headers) for time in times], 0)
        for form in ("parquet", "json"):
            report = self.importing(format=form, to=f"{self.to}-{form}", audit=True)
            source = self.spark.read.format("logd").option("brokers", self.broker.address)
            events = [decode_event(row.value) for row in source.option("subscribe", AUDIT_TOPIC).load().collect()]
            counts = {(e.window, e.origin): e.count for e in events if e.reporter.instance == report.uuid}
            self.assertEqual(counts, {(A_TIME, ""): 100, (A_TIME, "web1"): 2, (A_TIME + 60_000, "web1"): 1})

    def test_a_start_counts_only_for_new_partitions(self) -> None:
        """A job may always give one: partitions in the target go on where its last run ended."""
        from logd.spark.blocking.offsets import OffsetLimits, parse_offsets

        second = parse_offsets(json.dumps({self.topic: {"0": 109, "1": -1}}), "earliest")
        report = self.importing(starting=second)
        self.assertEqual((report.messages, [each.start for each in report.loaded]), (199, [109]))
        self.assertIsNone(self.importing(starting=OffsetLimits.of("earliest")).run)
        report = self.importing(starting=OffsetLimits.of("earliest"), to=f"{self.to}.again")
        self.assertEqual(report.messages, 300)

    def test_a_dry_run_makes_nothing(self) -> None:
        """It returns the plan, and does not even make the directory."""
        report = self.importing(dry_run=True)
        self.assertEqual([(each.lineage.partition, each.start) for each in report.plan.ranges], [(0, 0), (1, 0)])
        self.assertFalse(os.path.exists(self.to))


class ChecksTests(ImportTestCase):
    """Checks of the written files, before they become visible."""

    def staged(self) -> list[Path]:
        """Return the staged files."""
        return sorted(Path(self.to, "_staging").glob("*/**/part-*.parquet"))

    def test_a_missing_file_fails_the_run(self) -> None:
        """Nothing is visible, and the next run loads all messages."""

        def remove(done: int, total: int) -> None:
            if done == total:
                self.staged()[0].unlink()

        with self.assertRaisesRegex(ImportFailed, r"300 messages .* were read, but the files hold"):
            self.importing(remove)
        self.assert_nothing_left()
        self.assertEqual(self.importing().messages, 300)

    def test_a_file_written_twice_fails_the_run(self) -> None:
        """A task that ran twice may leave its file twice, and readers would count messages twice."""

        def copy(done: int, total: int) -> None:
            if done == total:
                for path in self.staged():
                    shutil.copy(path, path.with_name("part-again.parquet"))

        with self.assertRaisesRegex(ImportFailed, "more than once"):
            self.importing(copy)
        self.assert_nothing_left()

    def test_a_topic_made_again_meanwhile_fails_the_run(self) -> None:
        """Its files could mix messages of both topics under one uuid."""

        def make_again(done: int, total: int) -> None:
            if done == total:
                self.delete(self.topic)
                self.create(2, self.topic)

        with self.assertRaisesRegex(ImportFailed, "deleted or created again while it was loaded"):
            self.importing(make_again)
        self.assert_nothing_left()


class LossTests(ImportTestCase):
    """Messages that were removed before they were loaded."""

    def test_a_topic_made_again_is_an_error_or_begins_anew(self) -> None:
        """With accept_loss the offsets record that messages of unknown number were lost."""
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
    """An import without a lock on its target, through FileContext, as on HDFS."""

    def target(self) -> Target:
        """Return the target as it is on a file system other than the local one."""
        target: Target = self.loader.target(f"file://{self.settings.to}")
        return target


class FailingTests(ImportTestCase):
    """Loads that fail in Spark, whose errors span many lines."""

    def fails(self, kind: type[LogdError], words: str, meanwhile: Callable[[], object], **changes: Any) -> None:
        """Run ``meanwhile`` when the load starts; check that the import fails in one line, and no file is visible."""
        settings = evolve(self.settings, **changes)
        loader = self.loader(settings)
        start = loader.start
        self.patch(SparkLoader, "start", lambda _, size: (start(size), meanwhile()))
        with self.assertRaisesRegex(kind, words) as caught:
            Importer(settings, loader).run()
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual([name for name in os.listdir(self.to) if name[0] != "_"], [])

    def test_a_damaged_entry_is_named_with_its_remedy(self) -> None:
        """The error of a task in another process must keep the position and name `logd repair`."""
        self.use_own_broker()
        self.create(2, self.topic)
        self.fill(self.topic, numbered(range(200)), 0)
        (segment,) = Path(shared_folder(), self.name(), f"{self.topic}-0").glob("*.log")

        def damage() -> None:
            with segment.open("r+b") as file:
                file.seek(5000)
                file.write(b"?")

        cluster = ClusterSettings(brokers=self.broker.address, retry_timeout=5.0)
        self.fails(ImportFailed, "loading failed: .*'logd repair' can replace it by a gap", damage, cluster=cluster)

    def test_a_lost_broker_is_an_unavailable_one(self) -> None:
        """A task finds it out, and the import fails as if its own connection had been refused."""
        self.use_own_broker()
        self.create(2, self.topic)
        self.fill(self.topic, numbered(range(200)), 0)
        cluster = ClusterSettings(brokers=self.broker.address, retry_timeout=0.3)
        self.fails(BrokerUnavailable, "loading failed: .*refused", self.broker.kill, cluster=cluster)

    def test_a_loss_while_loading_names_the_imports_option(self) -> None:
        """The error in the task is that of a read, whose option an import does not have."""

        def make_again() -> None:
            self.delete(self.topic)
            self.create(2, self.topic)

        self.fails(
            DataLost, "loading failed: .* not in the log, .*; run the import again: .* --on-data-loss", make_again
        )

    def test_a_target_taken_away_is_reported_in_javas_words(self) -> None:
        """Only Java knows the reason why it cannot make a file; the error names the path."""
        staging = Path(self.to, "_staging")

        def block() -> None:
            staging.rmdir()
            staging.write_text("")

        self.fails(ImportFailed, "loading failed in Spark: .*_staging", block)


class RaceTests(ImportTestCase):
    """Two imports at once into one target."""

    def test_the_second_to_rename_loses_the_race(self) -> None:
        """It reports the other's run and leaves no file; both imported the same messages, which are there once."""

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
    """A broker that accepts only TLS."""

    def make_broker(self) -> BrokerProcess:
        """Return a broker with a certificate made here, or skip."""
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

    def test_tasks_write_read_and_import_over_tls(self) -> None:
        """The options of TLS must reach the tasks in other processes; a client without them is told to use TLS."""
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
    """A target of Hadoop's FileContext, tested on file://."""

    def setUp(self) -> None:
        """Open a target in a new folder."""
        super().setUp()
        self.root = Path(shared_folder(), f"{self.name()}.target")
        self.target = HadoopTarget(f"file://{self.root}", self.spark)

    def stage(self, uuid: str) -> None:
        """Write the staged data of a run."""
        folder = Path(self.target.staging(uuid).removeprefix("file://"))
        (folder / "topic=a").mkdir(parents=True)
        (folder / "topic=a" / "part-0.parquet").write_text(uuid)

    def test_runs_become_visible_one_after_the_other(self) -> None:
        """Of two runs with one number the second is refused, with the first one's uuid, and its data discarded."""
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

    def test_clean_removes_only_old_staged_data(self) -> None:
        """A folder with any recent file may belong to an import that runs on another machine."""
        self.target.acquire()
        self.stage("dead")
        self.stage("live")
        for where in ("topic=a/part-0.parquet", "topic=a", "."):
            os.utime(self.root / "_staging" / "dead" / where, (0, 0))
        os.utime(self.root / "_staging" / "live", (0, 0))
        self.assertEqual([path.rpartition("/")[2] for path in self.target.clean()], ["dead"])
        self.assertEqual(os.listdir(self.root / "_staging"), ["live"])

    def test_a_file_system_without_atomic_renames_is_refused(self) -> None:
        """On s3a a rename copies, so that readers could see half of a run; the error lists what is allowed."""
        with self.assertRaisesRegex(TargetError, r"not atomic on s3a://; allowed are hdfs://"):
            HadoopTarget("s3a://bucket/logs", self.spark)

    def test_a_missing_file_system_is_named_with_its_jars(self) -> None:
        """Spark does not have them; the error gives the Maven coordinates with the version to add."""
        with self.assertRaisesRegex(TargetError, r"no file system for abfss://.*hadoop-azure:\d+\.\d+"):
            HadoopTarget("abfss://container@account.dfs.core.windows.net/logs", self.spark)
