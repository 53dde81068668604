"""Tests of logd.spark.importer.run: a whole import, over a broker in memory and a loader without Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import define, evolve
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import BrokerUnavailable, CoordinationUnavailable, LogdError, UnknownTopic, WrapperTooLarge
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.protocol.requests.metadata import BrokerAddress, Metadata, MetadataResponseV1, TopicMetadata
from logd.spark.blocking.offsets import OffsetLimits, parse_offsets
from logd.spark.blocking.reading import DataLost
from logd.spark.blocking.subscription import SourceSubscription
from logd.spark.importer.auditing.run_tallies import RowTally
from logd.spark.importer.errors import ImportFailed, RunLost
from logd.spark.importer.import_plan import PlannedRange
from logd.spark.importer.report import ImportReport
from logd.spark.importer.run import Importer
from logd.spark.importer.settings import ImportSettings
from logd.spark.importer.targets.layout import OFFSETS
from logd.spark.importer.targets.local import LocalTarget
from logd.spark.importer.targets.offsets import FORMAT, PLACE_COLUMNS, Loaded, PlaceColumns
from logd.spark.importer.targets.target import Target
from logd.spark.importer.targets.verifying import verify
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic

#: Ten messages, each an entry of ten bytes.
TEN = encode_set([Message(b"x")] * 10)


@define
class FakeLoader:
    """A loader that writes a file for each range, and then calls ``meanwhile``."""

    meanwhile: Callable[[], object] = lambda: None
    loads: int = 0
    #: Bytes of gaps in each range.
    gaps: int = 0
    columns: PlaceColumns | None = None

    def start(self, size: int) -> None:
        """Do nothing, in place of starting Spark."""

    def load(
        self, ranges: Sequence[PlannedRange], folder: str, began_ms: int, columns: PlaceColumns, readers: Any
    ) -> list[Loaded]:
        """Write a file for each range, and return the counts of a log of ten-byte entries."""
        self.loads += 1
        self.columns = columns
        path = Path(folder.removeprefix("file://"))
        path.mkdir()
        for number, each in enumerate(ranges):
            (path / f"part-{number}").write_text(str(each))
        self.meanwhile()
        sizes = [(each, each.bytes - self.gaps) for each in ranges]
        return [Loaded(each.lineage, each.start, each.end, size // 10, size) for each, size in sizes]

    def tally(self, folder: str, width: int) -> list[RowTally]:
        """Return counts of two servers in one window, as if they were in the files."""
        return [RowTally("a", 0, 1_320_969_600_000, "web1", 10), RowTally("a", 1, 1_320_969_600_000, "web2", 20)]

    def target(self, location: str) -> Target:
        """Fail, since these imports are into local folders."""
        raise NotImplementedError


class ImportTestCase(SynchronousTestCase):
    """Topic a with two partitions, topic b with one."""

    def setUp(self) -> None:
        """Make the broker, and settings for topic a."""
        self.a = FakeTopic("uuid-a", [FakeLog(TEN), FakeLog(TEN + TEN)])
        self.broker = FakeBroker({"a": self.a, "b": FakeTopic("uuid-b")})
        self.loader = FakeLoader()
        self.to = Path(os.path.abspath(self.mktemp()))
        self.settings = ImportSettings(subscription=SourceSubscription(topics=("a",)), to=str(self.to), format="json")

    def run_import(self, **changes: Any) -> ImportReport:
        """Import new messages, with these settings changed."""
        settings = evolve(self.settings, **changes)
        connect = lambda cluster: self.broker.cluster(retry_timeout=5.0)  # noqa: E731
        return Importer(settings, self.loader, connect, clock=lambda: 1_320_969_600.0).run()

    def fails(self, kind: type[LogdError], words: str, **changes: Any) -> None:
        """Assert that the import fails so, and leaves nothing visible and nothing staged."""
        visible = self.visible()
        with self.assertRaisesRegex(kind, words):
            self.run_import(**changes)
        self.assertEqual(self.visible(), visible)
        if self.to.exists():
            self.assertEqual(list((self.to / "_staging").glob("*")), [])

    def visible(self) -> list[str]:
        """Return the names of the runs."""
        return sorted(each.name for each in self.to.glob("run=*"))


class RunTests(ImportTestCase):
    """Imports without trouble."""

    def test_each_run_loads_new_messages(self) -> None:
        """Without any there is no run, and Spark is not started."""
        report = self.run_import()
        self.assertEqual((report.run, report.messages, report.bytes), (1, 30, 300))
        self.assertIn("loaded 30 messages (300 bytes of log) from 2 partitions", report.sentence())
        again = self.run_import()
        self.assertEqual((again.run, again.sentence()), (None, f"nothing new for {self.to}"))
        self.a.logs[1].data += TEN
        self.a.logs.append(FakeLog(TEN))
        report = self.run_import()
        self.assertEqual([each.start for each in report.loaded], [200, 0])
        self.assertEqual((self.visible(), self.loader.loads), (["run=1", "run=2"], 2))
        self.assertEqual(verify(str(self.to)).messages, 50)
        self.assertEqual(self.loader.columns, PLACE_COLUMNS[FORMAT])

    def test_a_target_keeps_its_columns(self) -> None:
        """An earlier release began it, and its readers know the columns of that release."""
        self.run_import()
        offsets = self.to / "run=1" / "_offsets.json"
        offsets.write_text(offsets.read_text().replace(f'"format": {FORMAT}', '"format": 1'))
        for run in ("run=2", "run=3"):
            self.a.logs[1].data += TEN
            self.run_import()
            self.assertEqual(self.loader.columns, PlaceColumns("offset", "next_offset"))
            self.assertEqual(json.loads((self.to / run / "_offsets.json").read_text())["format"], 1)

    def test_one_target_takes_several_topics(self) -> None:
        """A pattern takes what it matches, also topics without messages."""
        self.run_import()
        self.broker.topics["b"].logs[0].data = TEN
        report = self.run_import(subscription=SourceSubscription(pattern="[ab]"))
        self.assertEqual([each.lineage.topic for each in report.loaded], ["b"])
        self.assertEqual(report.plan.reached, {("a", 0): 100, ("a", 1): 200, ("b", 0): 100})
        report = self.run_import(subscription=SourceSubscription(pattern="c.*"))
        self.assertEqual((report.plan.ranges, report.run), ((), None))
        self.assertIn("matches 'c.*'", report.notices[0])

    def test_an_import_from_the_end_keeps_its_place(self) -> None:
        """The next one loads what has come since, although it is told to begin at the end as well."""
        latest = OffsetLimits.of("latest")
        self.assertIsNone(self.run_import(starting=latest, dry_run=True).run)
        report = self.run_import(starting=latest)
        self.assertEqual((report.run, report.loaded, self.loader.loads), (1, (), 0))
        self.assertIn("run=1 records where the next import begins", report.sentence())
        self.assertIsNone(self.run_import(starting=latest).run)
        self.a.logs[0].data += TEN
        report = self.run_import(starting=latest)
        self.assertEqual([(each.start, each.messages) for each in report.loaded], [(100, 10)])
        earlier = self.run_import(starting=OffsetLimits.of("earliest"), backfill=True)
        self.assertEqual([each.messages for each in earlier.loaded], [10, 20])
        self.assertEqual(verify(str(self.to)).messages, 40)

    def test_a_dry_run_only_plans(self) -> None:
        """The plan may begin elsewhere than at the start."""
        starting = parse_offsets(json.dumps({"a": {"0": 50, "1": -1}}), "earliest")
        report = self.run_import(dry_run=True, starting=starting)
        self.assertEqual((report.rows(), report.run), ([("a", 0, 50, 100, 50, None, None)], None))
        self.assertEqual((self.to.exists(), self.loader.loads), (False, 0))
        self.assertIsNone(report.to_json()["messages"])

    def test_the_report_is_json_for_scripts(self) -> None:
        """Each partition has its range and counts."""
        value = self.run_import().to_json()
        self.assertEqual((value["run"], value["messages"], value["gap_bytes"]), (1, 30, 0))
        self.assertEqual(
            value["partitions"][0],
            {
                "topic": "a",
                "uuid": "uuid-a",
                "partition": 0,
                "start": 0,
                "end": 100,
                "messages": 10,
                "gap_bytes": 0,
                "quarantined": 0,
            },
        )
        json.dumps(value)


class TroubleTests(ImportTestCase):
    """Imports that fail, of which nothing is visible."""

    def test_an_import_without_topic_or_broker_makes_nothing(self) -> None:
        """The target's folder is not made, either."""
        words = r"there is no topic 'nine' at fake:1; 'logd topics list' names those"
        self.fails(UnknownTopic, words, subscription=SourceSubscription(topics=("nine",)))

        def gone(request: object) -> None:
            raise OSError("gone")

        self.broker.before = gone
        self.fails(BrokerUnavailable, "gone")
        self.assertFalse(self.to.exists())

    def test_an_import_that_waited_plans_anew(self) -> None:
        """Another one ended meanwhile, and its messages are neither loaded again nor taken for lost."""
        outer = self

        class Late(Importer):
            def target(self) -> Target:
                outer.a.logs[1].data += TEN
                outer.run_import()
                return super().target()

        connect = lambda cluster: self.broker.cluster()  # noqa: E731
        report = Late(self.settings, self.loader, connect).run()
        self.assertEqual((report.run, report.notices, self.visible()), (None, (), ["run=1"]))
        self.assertEqual(report.plan.reached["a", 1], 300)

    def test_a_start_inside_a_message_means_that_message(self) -> None:
        """Every other reader takes it so, too."""
        starting = parse_offsets(json.dumps({"a": {"0": 55, "1": 40}}), "earliest")
        report = self.run_import(starting=starting)
        self.assertEqual([(each.start, each.end) for each in report.loaded], [(50, 100), (40, 200)])

    def test_the_first_error_is_the_one_told(self) -> None:
        """Discarding the staged files fails after it."""

        def fail() -> None:
            raise ImportFailed("the first")

        class Clinging(LocalTarget):
            def discard(self, uuid: str) -> None:
                raise OSError("the second")

        self.loader.meanwhile = fail
        importer = Importer(self.settings, self.loader, lambda cluster: self.broker.cluster())
        self.patch(Importer, "target", lambda _: Clinging(str(self.to)))
        with self.assertRaisesRegex(ImportFailed, "the first"):
            importer.run()

    def test_a_failed_load_leaves_nothing(self) -> None:
        """The next import loads the same, also after an interruption."""
        for error in (ImportFailed("no"), KeyboardInterrupt()):

            def fail(error: BaseException = error) -> None:
                raise error

            self.loader.meanwhile = fail
            with self.assertRaises(type(error)):
                self.run_import()
            self.assertEqual((self.visible(), os.listdir(self.to / "_staging")), ([], []))
        self.loader.meanwhile = lambda: None
        self.assertEqual(self.run_import().messages, 30)

    def test_a_start_inside_a_compressed_set_is_looked_for_within_its_limits(self) -> None:
        """The limits are those of the load, so that a set that may be loaded may be begun in."""
        self.a.logs[0].data = wrap([Message(b"x")] * 9, "gzip")
        inside = parse_offsets(json.dumps({"a": {"0": self.a.logs[0].end - 4}}), "earliest")
        with self.assertRaises(WrapperTooLarge):
            self.run_import(starting=inside, max_decompressed_messages=8)
        report = self.run_import(starting=inside, max_decompressed_messages=9)
        self.assertEqual(report.loaded[0].start, self.a.logs[0].end - 4)

    def test_a_topic_created_again_during_a_load_fails_the_run(self) -> None:
        """The ids of another topic are not those that were planned."""
        again = FakeTopic("uuid-of-another", self.a.logs)
        # The broker that gives metadata may hear late of the new topic.
        self.loader.meanwhile = lambda: self.broker.hear_late("fake", {"a": self.a}, {"a": again})
        self.fails(ImportFailed, "created again while it was loaded")
        self.broker.before = lambda _: None
        self.broker.topics = {"a": self.a}
        self.loader.meanwhile = lambda: setattr(self.a, "uuid", "uuid-of-another")
        self.fails(ImportFailed, "created again while it was loaded")

    def test_a_broker_that_does_not_tell_for_a_moment_fails_no_run(self) -> None:
        """One that was started again during the load has not read the rules of access yet."""

        def refuse(request: Any) -> MetadataResponseV1 | None:
            if not isinstance(request, Metadata) or self.broker.slept:
                return None
            refused = TopicMetadata("a", CoordinationUnavailable.code, "", ())
            return MetadataResponseV1((BrokerAddress(0, "fake", 1),), (refused,))

        self.loader.meanwhile = lambda: setattr(self.broker, "before", refuse)
        self.assertEqual(self.run_import().messages, 30)
        self.assertEqual(len(self.broker.slept), 1)

    def test_a_loss_between_two_runs_has_to_be_accepted(self) -> None:
        """Retention may be the reason, or a topic that was created again."""
        self.run_import()
        self.a.logs[0] = FakeLog(TEN, start=150)
        self.fails(DataLost, "unknown number of messages from 100 to 150")
        report = self.run_import(accept_loss=True)
        self.assertEqual([(each.start, each.end) for each in report.loaded], [(150, 250)])
        self.a.uuid = "uuid-of-another"
        self.fails(DataLost, "created again")
        self.assertEqual(self.run_import(accept_loss=True).run, 3)
        lost = json.loads((self.to / "run=3" / OFFSETS).read_bytes())["lost"]
        found = [(each["uuid"], each["start"], each["end"]) for each in lost]
        self.assertEqual(found, [("uuid-a", 250, -1), ("uuid-a", 200, -1)])
        self.assertEqual(verify(str(self.to)).runs, 3)

    def test_a_topic_created_again_is_loaded_from_its_beginning(self) -> None:
        """The first position that is asked for is one of the former topic, which was new to the target once."""
        self.run_import()
        self.a.uuid = "uuid-of-another"
        inside = parse_offsets(json.dumps({"a": {"0": 30, "1": 30}}), "earliest")
        report = self.run_import(accept_loss=True, starting=OffsetLimits.of("latest"), until=inside)
        self.assertEqual([(each.start, each.end) for each in report.loaded], [(0, 30), (0, 30)])
        self.a.uuid = "uuid-of-a-third"
        report = self.run_import(accept_loss=True, starting=OffsetLimits.of("latest"))
        self.assertEqual([(each.start, each.end) for each in report.loaded], [(0, 100), (0, 200)])

    def test_a_log_that_begins_anew_is_accepted_once(self) -> None:
        """The loss is kept in the target, also with nothing to load yet."""
        self.run_import()
        self.a.logs[0] = FakeLog(b"", start=1 << 40)
        self.fails(DataLost, f"unknown number of messages from 100 to {1 << 40}")
        report = self.run_import(accept_loss=True)
        self.assertEqual((report.run, report.messages, self.loader.loads), (2, 0, 1))
        self.assertIn("loaded nothing", report.sentence())
        (lost,) = json.loads((self.to / "run=2" / OFFSETS).read_bytes())["lost"]
        self.assertEqual((lost["start"], lost["end"]), (100, 1 << 40))
        self.assertEqual(self.run_import().run, None)
        self.a.logs[0].data = TEN
        report = self.run_import()
        self.assertEqual([(each.start, each.messages) for each in report.loaded], [(1 << 40, 10)])
        found = verify(str(self.to))
        self.assertEqual((found.runs, found.messages, len(found.lost)), (3, 40, 1))
        self.assertIn(f"from 100 to {1 << 40}", found.to_json()["lost"][0]["reason"])

    def test_the_shorter_log_of_a_former_leader_is_no_loss(self) -> None:
        """Another broker leads since, which the former leader has not heard yet."""
        self.broker.hosts = ("one", "two")
        self.run_import()
        self.broker.depose("one", self.a.logs[0], TEN[:50], 1)
        for accept_loss in (False, True):
            self.assertEqual(self.run_import(accept_loss=accept_loss).run, None)

    def test_a_log_cut_short_is_loaded_from_its_new_end(self) -> None:
        """Messages up to the former end would be passed over otherwise."""
        self.run_import()
        self.a.logs[0].data = TEN[:50]
        self.fails(DataLost, "ends at 50")
        self.assertEqual(self.run_import(accept_loss=True).run, 2)
        self.a.logs[0].data = TEN + TEN
        report = self.run_import()
        self.assertEqual([(each.start, each.end) for each in report.loaded], [(50, 200)])
        self.assertEqual(verify(str(self.to)).runs, 3)

    def test_gaps_in_a_load_are_told(self) -> None:
        """Messages were there once."""
        self.loader.gaps = 50
        report = self.run_import()
        self.assertEqual([each.gap_bytes for each in report.loaded], [50, 50])
        self.assertIn("partition 0: 50 bytes of log from 0 to 100 are gaps", report.notices[0])
        self.assertEqual(len(report.notices), 2)

    def test_a_second_import_is_refused_at_once(self) -> None:
        """The first one goes on."""

        def second() -> None:
            with self.assertRaisesRegex(RunLost, "is running"):
                self.run_import()

        self.loader.meanwhile = second
        self.assertEqual((self.run_import().run, self.loader.loads), (1, 1))

    def test_a_dead_imports_files_are_removed(self) -> None:
        """The next import does so, also with nothing new."""
        self.run_import()
        dead = LocalTarget(str(self.to)).staging("dead").removeprefix("file://")
        Path(dead, "topic=a").mkdir(parents=True)
        self.run_import()
        self.assertEqual(os.listdir(self.to / "_staging"), [])
